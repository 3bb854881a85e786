/* Handler throughput of one processor: what PsPIN's six handlers do with packets of 64 B to 4 KiB,
 * as handlers of a live card that sends to itself (every packet is made, matched to its message,
 * given to its handler and accounted for), as the same card without a handler stores them, and as
 * the host's compiler makes functions of them, on packets that are there already.
 *   bench-handlers IMAGE [HANDLER [BYTES]] */
#include "payload_host.h"
#include "self_card.h"

#define STATE 4096u

static double on_host(const struct payload_row *row, uint32_t packet_bytes, const uint8_t *source,
                      uint8_t *host) {
    struct payload_state *state = calloc(1, STATE);
    double best = 0;
    for (int i = 0; i < SELF_TURNS; i++) {
        double start = self_card_ns();
        for (int k = 0; k < 200; k++)
            for (uint32_t at = 0; at < SELF_MESSAGE; at += packet_bytes)
                row->run(state, (const uint32_t *)(const void *)(source + at), packet_bytes, at,
                         host);
        double ns = (self_card_ns() - start) / 200 / (SELF_MESSAGE / packet_bytes);
        best = i == 0 || ns < best ? ns : best;
    }
    free(state);
    return best;
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
    printf(
        "handler     bytes  card: ns, Gbit/s   without handler: ns   host: ns   throughput against "
        "host\n");
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        if (argc > 3 && strtoul(argv[3], NULL, 10) != sizes[k])
            continue;
        self_card_open(&card, argv[1], sizes[k], source);
        for (uint64_t i = 0; i < 6; i++)
            self_card_entry(&card, i, payload_rows[i].handler, STATE, NULL, host, 2 * SELF_MESSAGE);
        self_card_entry(&card, 6, NULL, 0, NULL, host, 2 * SELF_MESSAGE);
        double plain = self_card_time(&card, 6, sizes[k]);
        for (uint64_t i = 0; i < 6; i++) {
            if (argc > 2 && strcmp(argv[2], payload_rows[i].name) != 0)
                continue;
            double ns = self_card_time(&card, i, sizes[k]);
            double native = on_host(&payload_rows[i], sizes[k], source, host);
            printf("%-10s  %5u  %8.1f %8.1f  %18.1f  %10.1f   %6.2f\n", payload_rows[i].name,
                   sizes[k], ns, 8 * sizes[k] / ns, plain, native, native / ns);
        }
        self_card_close(&card);
    }
    return 0;
}
