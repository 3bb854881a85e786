/* Reed-Solomon coding of a data node, packets of 2 KiB: what a handler takes on an HPU of PsPIN,
 * how fast one processor runs it on a live card (compiled by the JIT, with all that the card does),
 * and how fast it is when the host's compiler makes it; beside ISA-L, which makes the m parities of
 * k chunks. GB/s are of data, per core.
 *   bench-code IMAGE */
#include "code_variants.h"
#include "self_card.h"

#include <dlfcn.h>

#define PACKET 2048u

static const struct {
    const char *name, *handler;
} variants[CODE_VARIANTS] = {{"rows side by side", "code_rows_payload_handler"},
                             {"table of products", "code_table_payload_handler"},
                             {"words of 4 bytes", "code_words_payload_handler"}};
static const struct { uint32_t k, m; } schemes[] = {{2, 1}, {3, 2}, {6, 3}, {10, 4}};

static struct code_state state;
static uint8_t source[SELF_MESSAGE], host[2 * SELF_MESSAGE];

static void on_hpu(const char *path, const char *handler, struct spin_outcome *outcome) {
    const struct spin_rig_options options = {.state_bytes = sizeof state};
    const struct spin_function *function;
    struct spin_image *image;
    struct spin_rig *rig;
    struct spin_error err;
    uint32_t bytes, address;
    int code = spin_image_load(&image, path, NULL, &err);
    if (!code)
        code = spin_image_find(image, handler, &function, &err);
    if (!code)
        code = spin_rig_new(&rig, image, &options, &err);
    if (code) {
        fprintf(stderr, "bench: %s\n", err.text);
        exit(1);
    }
    memcpy(spin_rig_memory(rig, SPIN_STATE, &bytes, &address), &state, sizeof state);
    const struct spin_call call = {.entry = function->address,
                                   .kind = SPIN_PAYLOAD_HANDLER,
                                   .packet = source,
                                   .packet_bytes = PACKET};
    for (int i = 0; i < 2 && !code; i++) /* the second: the instruction cache is warm */
        code = spin_rig_call(rig, &call, outcome, &err);
    if (code || outcome->ending != SPIN_RETURNED) {
        fprintf(stderr, "bench: %s failed\n", handler);
        exit(1);
    }
    spin_rig_free(rig);
    spin_image_free(image);
}

/* GB/s. */
static double on_card(const char *path, const char *handler) {
    static struct self_card card;
    self_card_open(&card, path, PACKET, source);
    self_card_entry(&card, 0, handler, sizeof state, &state, host, sizeof host);
    double ns = self_card_time(&card, 0, PACKET);
    self_card_close(&card);
    return PACKET / ns;
}

static double on_host(enum code_variant v) {
    static struct storage_row rows[STORAGE_PASS];
    double best = 0;
    for (int turn = 0; turn < SELF_TURNS; turn++) {
        double start = self_card_ns();
        for (int i = 0; i < 50; i++)
            for (uint32_t at = 0; at < SELF_MESSAGE; at += PACKET) {
                uint8_t *const to[STORAGE_PASS] = {host, host + PACKET, host + 2 * PACKET,
                                                   host + 3 * PACKET};
                code_packet(v, &state, rows, source + at, PACKET, to);
            }
        double rate = 50 * SELF_MESSAGE / (self_card_ns() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* GB/s of all k chunks; 0: no ISA-L. */
static double by_isal(uint32_t k, uint32_t m) {
    void (*tables)(int, int, unsigned char *, unsigned char *);
    void (*encode)(int, int, int, unsigned char *, unsigned char **, unsigned char **);
    void *library = dlopen("libisal.so.2", RTLD_NOW);
    if (!library)
        return 0;
    tables = (__typeof__(tables))dlsym(library, "ec_init_tables");
    encode = (__typeof__(encode))dlsym(library, "ec_encode_data");
    if (!tables || !encode)
        return 0;
    uint8_t row[STORAGE_CHUNKS * STORAGE_PASS], table[32 * STORAGE_CHUNKS * STORAGE_PASS];
    uint8_t *from[STORAGE_CHUNKS], *to[STORAGE_PASS];
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t j = 0; j < k; j++)
            row[i * k + j] = storage_coefficient(k, i, j);
    tables((int)k, (int)m, row, table);
    for (uint32_t j = 0; j < k; j++)
        from[j] = source + j * PACKET;
    for (uint32_t i = 0; i < m; i++)
        to[i] = host + i * PACKET;
    double best = 0;
    for (int turn = 0; turn < SELF_TURNS; turn++) {
        double start = self_card_ns();
        for (int i = 0; i < 5000; i++)
            encode(PACKET, (int)k, (int)m, table, from, to);
        double rate = 5000.0 * k * PACKET / (self_card_ns() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: bench-code IMAGE\n");
        return 2;
    }
    bench_machine();
    for (uint32_t i = 0; i < SELF_MESSAGE; i++)
        source[i] = (uint8_t)(i * 2654435761u >> 13);
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t b = 0; b < 256; b++)
            state.product[a][b] = storage_product(a, b);
    printf("code      kernel             HPU, per byte: instructions, cycles   GB/s: live card, "
           "natively   ISA-L\n");
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        state.k = schemes[i].k;
        state.m = schemes[i].m;
        state.j = 1;
        double isal = by_isal(state.k, state.m);
        for (enum code_variant v = 0; v < CODE_VARIANTS; v++) {
            struct spin_outcome outcome;
            on_hpu(argv[1], variants[v].handler, &outcome);
            printf("RS(%u,%u)%*s %-18s %27.2f %7.2f   %15.2f %9.2f %7.2f\n", state.k, state.m,
                   state.k > 9 ? 1 : 2, "", variants[v].name, (double)outcome.instructions / PACKET,
                   (double)outcome.cycles / PACKET, on_card(argv[1], variants[v].handler),
                   on_host(v), isal);
        }
    }
    return 0;
}
