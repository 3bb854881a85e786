/* Serves one handler to gdb, for tests: gdb_serve IMAGE HANDLER [options]. Prints the port, and at
 * the end the outcome. The packet is the words 1, 2, 3, ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openspin.h"

struct options {
    bool with_float, functional, plain; /* plain: without gdb, for comparison */
    uint64_t budget;
    uint16_t port;
    uint32_t words;
};

static int report(const struct spin_error *err) {
    fprintf(stderr, "gdb_serve: %s\n", err->text);
    return 1;
}

static void say_port(void *context, uint16_t port) {
    (void)context;
    printf("port %u\n", port);
    fflush(stdout);
}

static void say_outcome(struct spin_rig *rig, const struct spin_outcome *o) {
    uint32_t bytes, address, word[3];
    memcpy(word, spin_rig_memory(rig, SPIN_STATE, &bytes, &address), sizeof word);
    uint64_t loads = 0, stores = 0;
    for (int i = 0; i < SPIN_REGIONS; i++) {
        loads += o->loads[i];
        stores += o->stores[i];
    }
    printf("%s: value %d, pc 0x%x, bad address 0x%x\n", spin_ending_name(o->ending), o->value,
           o->pc, o->bad_address);
    printf("cycles %llu, instructions %llu, misses %llu, loads %llu, stores %llu\n",
           (unsigned long long)o->cycles, (unsigned long long)o->instructions,
           (unsigned long long)o->icache_misses, (unsigned long long)loads,
           (unsigned long long)stores);
    printf("state %u %u %u\n", word[0], word[1], word[2]);
}

static int serve(const struct spin_image *image, const char *handler, const struct options *o) {
    struct spin_error err;
    struct spin_rig *rig;
    const struct spin_function *f;
    struct spin_outcome outcome;
    struct spin_rig_options with = {.functional = o->functional, .budget = o->budget};
    uint32_t packet[256];
    for (uint32_t i = 0; i < 256; i++)
        packet[i] = i + 1;
    if (spin_image_find(image, handler, &f, &err) || spin_rig_new(&rig, image, &with, &err))
        return report(&err);
    struct spin_call call = {.entry = f->address,
                             .kind = f->kind,
                             .packet = (const uint8_t *)packet,
                             .packet_bytes = o->words % 257 * 4};
    int code = o->plain ? spin_rig_call(rig, &call, &outcome, &err)
                        : spin_rig_debug(rig, &call, o->port, say_port, NULL, &outcome, &err);
    if (code)
        report(&err);
    else
        say_outcome(rig, &outcome);
    spin_rig_free(rig);
    return code != 0;
}

int main(int argc, char **argv) {
    struct options o = {.words = 4};
    if (argc < 3) {
        fprintf(stderr, "usage: gdb_serve IMAGE HANDLER [--float] [--functional] [--plain] "
                        "[--budget=N] [--port=N] [--words=N]\n");
        return 2;
    }
    for (int i = 3; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        unsigned long long number = value ? strtoull(value + 1, NULL, 0) : 0;
        o.with_float |= strcmp(argv[i], "--float") == 0;
        o.functional |= strcmp(argv[i], "--functional") == 0;
        o.plain |= strcmp(argv[i], "--plain") == 0;
        if (strncmp(argv[i], "--budget=", 9) == 0)
            o.budget = number;
        if (strncmp(argv[i], "--port=", 7) == 0)
            o.port = (uint16_t)number;
        if (strncmp(argv[i], "--words=", 8) == 0)
            o.words = (uint32_t)number;
    }
    struct spin_limits limits;
    struct spin_image *image;
    struct spin_error err;
    spin_limits_default(&limits);
    limits.with_float = o.with_float;
    if (spin_image_load(&image, argv[1], &limits, &err))
        return report(&err);
    int status = serve(image, argv[2], &o);
    spin_image_free(image);
    return status;
}
