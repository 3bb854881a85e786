/* A program with a simulated card in it: packets of its own go through echo.c's handlers; it counts
 * what comes back and reads the handlers' memory. Compile with -lopenspin and what that needs.
 *
 *     openspin cc --pspin -O2 examples/echo.c -o echo.spin
 *     embed_card echo.spin 4                                   clusters */
#include <openspin.h>
#include <stdio.h>
#include <string.h>

#define PACKETS 100
#define BYTES   256

/* The next packet that arrives: one every 20 ns, ten to a message. */
static bool next(void *user, struct spin_card_packet *packet) {
    static uint8_t bytes[BYTES];
    unsigned *number = user;
    if (*number == PACKETS)
        return false;
    memset(bytes, (int)*number, sizeof bytes);
    *packet = (struct spin_card_packet){.arrival_ps = *number * 20000ull,
                                        .bytes = bytes,
                                        .length = BYTES,
                                        .message = *number / 10,
                                        .end_of_message = *number % 10 == 9};
    ++*number;
    return true;
}

static int simulate(struct spin_card *card, const struct spin_image *image,
                    struct spin_error *err) {
    struct spin_card_context context = {.image = image, .memory_bytes = 64};
    struct spin_card_result result;
    uint32_t number, counts[3]; /* packets, bytes, messages */
    uint64_t bytes;
    unsigned drawn = 0;
    int code = spin_image_find(image, "echo_ph", &context.handler[SPIN_PAYLOAD_HANDLER], err);
    if (!code)
        code = spin_image_find(image, "echo_th", &context.handler[SPIN_COMPLETION_HANDLER], err);
    if (!code)
        code = spin_card_add_context(card, &context, &number, err);
    if (!code)
        code = spin_card_run(card, &(struct spin_card_options){.next = next, .user = &drawn}, err);
    if (code)
        return code;
    spin_card_result(card, &result);
    memcpy(counts, spin_card_memory(card, number, SPIN_STATE, &bytes), sizeof counts);
    printf("%llu HPUs: %llu packets in, %llu out, latency %.1f ns; counted %u packets of %u "
           "messages\n",
           (unsigned long long)result.hpus, (unsigned long long)result.completed,
           (unsigned long long)result.packets_out,
           (double)result.part[SPIN_CARD_PART_LATENCY].p50 / 1000, counts[0], counts[2]);
    return SPIN_OK;
}

int main(int argc, char **argv) {
    struct spin_error err;
    struct spin_card *card = NULL;
    struct spin_image *image = NULL;
    char clusters[40];
    if (argc != 3) {
        fprintf(stderr, "usage: embed_card IMAGE CLUSTERS\n");
        return 2;
    }
    snprintf(clusters, sizeof clusters, "clusters=%s", argv[2]);
    int code = spin_card_new(&card, "pspin", &err);
    if (!code)
        code = spin_card_set(card, clusters, &err);
    if (!code)
        code = spin_image_load(&image, argv[1], NULL, &err);
    if (!code)
        code = simulate(card, image, &err);
    if (code)
        fprintf(stderr, "embed_card: %s\n", err.text);
    spin_card_free(card); /* before its images */
    spin_image_free(image);
    return code ? 1 : 0;
}
