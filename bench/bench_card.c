/* The simulated card: cycles a CPU second with all 32 HPUs busy, and what the card does beside what
 * its RTL did (pspin.md). Usage: bench-card IMAGE, of tests/handlers/card_handlers.c. With each
 * speed: the same with generated code. */
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "sim/card.h"

struct load {
    uint32_t packets, drawn, length, messages;
    uint64_t gap_ps;
    uint8_t bytes[4096];
};

static struct spin_error err;
static enum spin_jit jit;

static void must(int code) {
    if (code == SPIN_OK)
        return;
    fprintf(stderr, "bench-card: %s\n", err.text);
    exit(1);
}

static bool next_packet(void *user, struct card_packet *p) {
    struct load *l = user;
    if (l->drawn == l->packets)
        return false;
    *p = (struct card_packet){.message = l->drawn % l->messages,
                              .bytes = l->bytes,
                              .length = l->length,
                              .eom = l->drawn + l->messages >= l->packets,
                              .arrival_ps = l->drawn * l->gap_ps};
    l->drawn++;
    return true;
}

/* Runs it and returns the CPU seconds. */
static double run(const struct spin_image *image, const char *handler, const char *setting,
                  struct load load, struct card_stats *stats, uint64_t *events) {
    struct card_config config;
    struct card *card;
    const struct spin_function *f;
    uint32_t number;
    static uint8_t host[1 << 20];
    struct sim_engine *engine = sim_engine_new(&err);
    must(card_config_preset(&config, "pspin", &err));
    if (setting)
        must(card_config_set(&config, setting, &err));
    config.jit = jit;
    must(card_new(&card, engine, &config, NULL, &err));
    must(spin_image_find(image, handler, &f, &err));
    struct card_context context = {.image = image,
                                   .entry = {0, f->address, 0},
                                   .memory_bytes = 65536,
                                   .scratch_bytes = 8192,
                                   .host = host,
                                   .host_bytes = sizeof host};
    must(card_add_context(card, &context, &number, &err));
    double start = bench_cpu_seconds();
    card_feed(card, next_packet, &load);
    must(sim_run(engine, SIM_FOREVER, UINT64_MAX, &err));
    double seconds = bench_cpu_seconds() - start;
    must(card_idle(card, &err));
    card_stats(card, stats);
    *events = sim_engine_counts(engine).handled;
    card_free(card);
    sim_engine_free(engine);
    return seconds;
}

static void speed_of(const struct spin_image *image, const char *handler, const char *setting,
                     uint32_t packets, uint32_t length) {
    struct card_stats s;
    uint64_t events;
    struct load load = {.packets = packets, .length = length, .messages = 64};
    double seconds = run(image, handler, setting, load, &s, &events);
    double cycles = (double)s.elapsed_ps / 1000;
    uint64_t instructions = s.handler[SPIN_PAYLOAD_HANDLER].instructions;
    printf("  %-15s %5u B %-12s %-11s %6.2f M cycles/s, %5.1f HPUs busy, %6.1f M instructions/s, "
           "%5.2f M packets/s, %5.1f M events/s\n",
           handler, length, setting ? setting : "", jit ? "JIT" : "interpreter",
           cycles / seconds / 1e6, (double)s.hpu_busy_ps / (double)s.elapsed_ps,
           (double)instructions / seconds / 1e6, packets / seconds / 1e6,
           (double)events / seconds / 1e6);
}

/* Interpreted, and with what is hot compiled. */
static void speed(const struct spin_image *image, const char *handler, const char *setting,
                  uint32_t packets, uint32_t length) {
    for (jit = SPIN_JIT_OFF; jit <= SPIN_JIT_ON; jit++)
        speed_of(image, handler, setting, packets, length);
    jit = SPIN_JIT_OFF;
}

static void beside(const char *what, double ours, double theirs, const char *unit) {
    printf("  %-58s %8.1f %8.1f %-7s %+6.1f %%\n", what, ours, theirs, unit,
           100 * (ours - theirs) / theirs);
}

static void compare(const struct spin_image *image) {
    struct card_stats s;
    uint64_t events;
    const struct card_handler_stats *h = &s.handler[SPIN_PAYLOAD_HANDLER];
    puts("                                                                 ours      RTL");
    run(image, "empty_ph", NULL, (struct load){20000, 0, 64, 1, 0, {0}}, &s, &events);
    beside("empty, 64 B back to back: throughput", (double)s.throughput_mbit / 1e3, 485, "Gbit/s");
    beside("  HPUs that ran (paper: 19)", s.hpus_used, 30, "");
    run(image, "empty_ph", NULL, (struct load){20000, 0, 1024, 1, 0, {0}}, &s, &events);
    beside("empty, 1,024 B back to back: throughput", (double)s.throughput_mbit / 1e3, 520,
           "Gbit/s");
    beside("  HPUs that ran", s.hpus_used, 2, "");
    run(image, "reduce_local_ph", NULL, (struct load){32, 0, 1024, 1, 20000, {0}}, &s, &events);
    beside("reduce, 32 packets of one message: throughput", (double)s.throughput_mbit / 1e3, 60.6,
           "Gbit/s");
    beside("  HPUs that ran", s.hpus_used, 20, "");
    beside("  cycles per word", (double)h->cycles / (double)h->runs / 249, 8.1, "cycles");
    /* The RTL's count of a handler has three instructions of the runtime in it: its empty handler
     * is 4, of which one is its own. */
    run(image, "pingpong_ph", NULL, (struct load){32, 0, 1024, 1, 20000, {0}}, &s, &events);
    beside("ping-pong: latency from the NIC, less its handler",
           (double)(s.part[CARD_PART_TOTAL].p50 / 1000) - (double)h->spread.p50, 106 - (32 - 3),
           "ns");
    run(image, "to_host_ph", NULL, (struct load){32, 0, 1024, 1, 20000, {0}}, &s, &events);
    beside("copy to host: latency from the NIC, less its handler",
           (double)(s.part[CARD_PART_TOTAL].p50 / 1000) - (double)h->spread.p50, 108 - (19 - 3),
           "ns");
    run(image, "pingpong_ph", NULL, (struct load){20000, 0, 64, 64, 1280, {0}}, &s, &events);
    beside("ping-pong from L1, 64 B at 400 Gbit/s (paper: hardly 200)",
           (double)s.throughput_mbit / 1e3, 200, "Gbit/s");
    run(image, "pingpong_l2_ph", NULL, (struct load){20000, 0, 64, 64, 1280, {0}}, &s, &events);
    beside("ping-pong from L2, 64 B at 400 Gbit/s (paper)", (double)s.throughput_mbit / 1e3, 400,
           "Gbit/s");
    run(image, "pingpong_ph", NULL, (struct load){20000, 0, 512, 64, 10240, {0}}, &s, &events);
    beside("ping-pong from L1, 512 B at 400 Gbit/s (paper)", (double)s.throughput_mbit / 1e3, 400,
           "Gbit/s");
}

int main(int argc, char **argv) {
    struct spin_image *image;
    if (argc != 2) {
        fprintf(stderr, "usage: bench-card IMAGE\n");
        return 2;
    }
    must(spin_image_load(&image, argv[1], NULL, &err));
    bench_machine();
    speed(image, "reduce_local_ph", NULL, 200000, 1024);
    speed(image, "reduce_local_ph", "quantum=1", 1000, 1024);
    speed(image, "reduce_local_ph", "quantum=16", 100000, 1024);
    speed(image, "reduce_local_ph", "quantum=1000", 200000, 1024);
    speed(image, "empty_ph", NULL, 200000, 64);
    speed(image, "pingpong_ph", NULL, 200000, 64);
    compare(image);
    spin_image_free(image);
    return 0;
}
