/* Handler throughput of one processor: what PsPIN's six handlers do with packets of 64 B to 4 KiB,
 *   native: as the host's compiler makes functions of them, on packets that are there already;
 *   alone:  as handlers on the same packets, started as every card starts them, without a card;
 *   card:   as handlers of a live card that sends to itself (every packet is made, matched to its
 *           message, given to its handler and accounted for).
 * `start` is a handler that does nothing, and `stored` the card that stores the packets without
 * one. Ratios are throughputs, against native.
 *   bench-handlers IMAGE [HANDLER [BYTES]] */
#include "alone_core.h"
#include "payload_host.h"
#include "self_card.h"

#define STATE  4096u
#define ROUNDS 50  /* through all packets, in a turn */
#define TURNS  100 /* short ones, as others may use the machine */
#define EMPTY  "empty_payload_handler"

enum { EMPTY_BITS = 6, STORED_BITS }; /* behind those of the six */

/* Packets that are there already, each with room for the arguments of a handler before it. */
struct packets {
    uint8_t *at;
    uint32_t bytes, step, count;
};

static struct packets lay_packets(const uint8_t *source, uint32_t bytes) {
    struct packets p = {NULL, bytes, bytes + CALL_HEADROOM, SELF_MESSAGE / bytes};
    p.at = aligned_alloc(CALL_HEADROOM, (size_t)p.step * p.count);
    for (uint32_t i = 0; i < p.count; i++)
        memcpy(p.at + i * p.step + CALL_HEADROOM, source + i * bytes, bytes);
    return p;
}

/* ns per packet of one turn. */
static double turn_native(const struct payload_row *row, const struct packets *p, void *state,
                          uint8_t *host) {
    double start = self_card_ns();
    for (int k = 0; k < ROUNDS; k++)
        for (uint32_t i = 0; i < p->count; i++)
            row->run(state, (const uint32_t *)(void *)(p->at + i * p->step + CALL_HEADROOM),
                     p->bytes, i * p->bytes, host);
    return (self_card_ns() - start) / ROUNDS / p->count;
}

static double turn_alone(struct alone_core *core, uint32_t entry, const struct packets *p) {
    double start = self_card_ns();
    for (int k = 0; k < ROUNDS; k++)
        for (uint32_t i = 0; i < p->count; i++)
            alone_run(core, entry, p->at + i * p->step + CALL_HEADROOM, p->bytes, i * p->bytes);
    return (self_card_ns() - start) / ROUNDS / p->count;
}

static double least(double a, double b) {
    return a && a < b ? a : b;
}

struct figures {
    double native, alone, start;
};

/* In turns, so that all three meet the same machine: the best of each. */
static struct figures without_card(const char *image, const struct payload_row *row,
                                   const uint8_t *source, uint32_t bytes, uint8_t *host) {
    struct figures f = {0};
    struct packets packets = lay_packets(source, bytes);
    struct alone_core *core = alone_open(image, STATE, host, 2 * SELF_MESSAGE);
    uint32_t entry = alone_entry(core, row->handler), empty = alone_entry(core, EMPTY);
    void *state = calloc(1, STATE);
    for (double began = self_card_ns(); self_card_ns() - began < SELF_WARM_NS;) {
        turn_alone(core, entry, &packets);
        turn_alone(core, empty, &packets);
    }
    for (int i = 0; i < TURNS; i++) {
        f.native = least(f.native, turn_native(row, &packets, state, host));
        f.alone = least(f.alone, turn_alone(core, entry, &packets));
        f.start = least(f.start, turn_alone(core, empty, &packets));
    }
    free(state);
    alone_close(core);
    free(packets.at);
    return f;
}

int main(int argc, char **argv) {
    static const uint32_t sizes[] = {64, 256, 1024, 4096};
    static struct self_card card;
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: bench-handlers IMAGE [HANDLER [BYTES]]\n");
        return 2;
    }
    bench_machine();
    uint8_t *source = malloc(SELF_MESSAGE), *host = calloc(2, SELF_MESSAGE);
    for (uint32_t i = 0; i < SELF_MESSAGE; i++)
        source[i] = (uint8_t)(i * 2654435761u >> 13);
    printf("ns per packet         native   alone  ratio   start    card  ratio   start  stored\n");
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        if (argc > 3 && strtoul(argv[3], NULL, 10) != sizes[k])
            continue;
        self_card_open(&card, argv[1], sizes[k], source);
        for (uint64_t i = 0; i < 6; i++)
            self_card_entry(&card, i, payload_rows[i].handler, STATE, NULL, host, 2 * SELF_MESSAGE);
        self_card_entry(&card, EMPTY_BITS, EMPTY, STATE, NULL, host, 2 * SELF_MESSAGE);
        self_card_entry(&card, STORED_BITS, NULL, 0, NULL, host, 2 * SELF_MESSAGE);
        double stored = self_card_time(&card, STORED_BITS, sizes[k]);
        double empty = self_card_time(&card, EMPTY_BITS, sizes[k]);
        for (uint64_t i = 0; i < 6; i++) {
            if (argc > 2 && strcmp(argv[2], payload_rows[i].name) != 0)
                continue;
            double ns = self_card_time(&card, i, sizes[k]);
            struct figures f = without_card(argv[1], &payload_rows[i], source, sizes[k], host);
            printf("%-10s %5u B  %9.1f %7.1f %6.2f %7.1f %7.1f %6.2f %7.1f %7.1f\n",
                   payload_rows[i].name, sizes[k], f.native, f.alone, f.native / f.alone, f.start,
                   ns, f.native / ns, empty, stored);
        }
        self_card_close(&card);
    }
    return 0;
}
