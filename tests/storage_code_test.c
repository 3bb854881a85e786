/* Reed-Solomon coding: the handlers' kernels on an HPU and natively, and the host's decoding,
 * against ISA-L on random data. */
#include "lib/test.h"

#include <dlfcn.h>

#include "../bench/code_variants.h"
#include "../handlers/storage/store_decode.h"
#include "base/rng.h"

#define MOST_K 10u
#define MOST_M 4u
#define BYTES  700u

static const char *const names[CODE_VARIANTS] = {
    "code_rows_payload_handler", "code_table_payload_handler", "code_words_payload_handler"};

/* ISA-L itself, asked for what we must agree with. */
static struct {
    void (*cauchy)(unsigned char *matrix, int rows, int k);
    unsigned char (*product)(unsigned char a, unsigned char b);
    void (*tables)(int k, int rows, unsigned char *coefficients, unsigned char *tables);
    void (*encode)(int bytes, int k, int rows, unsigned char *tables, unsigned char **from,
                   unsigned char **to);
} isal;

static void load_isal(void) {
    void *library = dlopen("libisal.so.2", RTLD_NOW);
    if (!library)
        TEST_SKIP("no ISA-L here (Debian: libisal2)");
    isal.cauchy = (__typeof__(isal.cauchy))dlsym(library, "gf_gen_cauchy1_matrix");
    isal.product = (__typeof__(isal.product))dlsym(library, "gf_mul");
    isal.tables = (__typeof__(isal.tables))dlsym(library, "ec_init_tables");
    isal.encode = (__typeof__(isal.encode))dlsym(library, "ec_encode_data");
    CHECK(isal.cauchy && isal.product && isal.tables && isal.encode);
}

static uint8_t data[STORAGE_CHUNKS][BYTES], parity[STORAGE_CHUNKS][BYTES];

static void fill(struct rng *rng, uint32_t k) {
    for (uint32_t j = 0; j < k; j++)
        for (uint32_t b = 0; b < BYTES; b++)
            data[j][b] = (uint8_t)rng_u32(rng);
}

/* ISA-L's parities of `data`. */
static void encode_by_isal(uint32_t k, uint32_t m, uint32_t bytes) {
    uint8_t matrix[STORAGE_CHUNKS * STORAGE_CHUNKS], tables[32 * STORAGE_CHUNKS * STORAGE_CHUNKS];
    uint8_t *from[STORAGE_CHUNKS], *to[STORAGE_CHUNKS];
    for (uint32_t i = 0; i < STORAGE_CHUNKS; i++) {
        from[i] = data[i];
        to[i] = parity[i];
    }
    isal.cauchy(matrix, (int)(k + m), (int)k);
    isal.tables((int)k, (int)m, matrix + k * k, tables);
    isal.encode((int)bytes, (int)k, (int)m, tables, from, to);
}

TEST(products_and_coefficients_are_those_of_isal) {
    load_isal();
    for (uint32_t a = 0; a < 256; a++) {
        struct storage_row row;
        storage_make_row(&row, a);
        for (uint32_t b = 0; b < 256; b++) {
            CHECK_EQ(storage_product(a, b), isal.product((uint8_t)a, (uint8_t)b));
            CHECK_EQ(((uint8_t *)row.word)[b], isal.product((uint8_t)a, (uint8_t)b));
        }
    }
    for (uint32_t k = 1; k < STORAGE_CHUNKS; k++) {
        uint8_t matrix[STORAGE_CHUNKS * STORAGE_CHUNKS];
        isal.cauchy(matrix, STORAGE_CHUNKS, (int)k);
        for (uint32_t i = 0; i < STORAGE_CHUNKS - k; i++)
            for (uint32_t j = 0; j < k; j++)
                CHECK_EQ(storage_coefficient(k, i, j), matrix[(k + i) * k + j]);
    }
}

static void make_table(struct code_state *s) {
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t b = 0; b < 256; b++)
            s->product[a][b] = storage_product(a, b);
}

/* The sum of what all data nodes send must be ISA-L's parity; `multiply` is one node's part. */
static void check_sums(void (*multiply)(void *context, const struct code_state *s,
                                        const uint8_t *packet, uint32_t bytes, uint8_t *to),
                       void *context, uint32_t seed) {
    static struct code_state s;
    static uint8_t part[MOST_M * BYTES], sum[MOST_M * BYTES];
    struct rng rng = rng_seeded(seed);
    make_table(&s);
    for (uint32_t k = 1; k <= MOST_K; k++)
        for (uint32_t m = 1; m <= MOST_M; m++) {
            const uint32_t bytes = 1 + rng_below(&rng, BYTES);
            snprintf(test_context, sizeof test_context, "RS(%u,%u), %u bytes", k, m, bytes);
            fill(&rng, k);
            encode_by_isal(k, m, bytes);
            memset(sum, 0, sizeof sum);
            for (uint32_t j = 0; j < k; j++) {
                s.k = k;
                s.j = j;
                s.m = m;
                multiply(context, &s, data[j], bytes, part);
                for (uint32_t b = 0; b < m * bytes; b++)
                    sum[b] ^= part[b];
            }
            for (uint32_t i = 0; i < m; i++)
                CHECK(memcmp(sum + i * bytes, parity[i], bytes) == 0);
        }
    test_context[0] = 0;
}

static void natively(void *context, const struct code_state *s, const uint8_t *packet,
                     uint32_t bytes, uint8_t *to) {
    static _Alignas(4) uint8_t out[STORAGE_PASS][BYTES];
    uint8_t *const each[STORAGE_PASS] = {out[0], out[1], out[2], out[3]};
    struct storage_row rows[STORAGE_PASS];
    code_packet(*(enum code_variant *)context, s, rows, packet, bytes, each);
    for (uint32_t i = 0; i < s->m; i++)
        memcpy(to + i * bytes, out[i], bytes);
}

TEST(parities_made_natively_are_those_of_isal) {
    load_isal();
    for (enum code_variant v = 0; v < CODE_VARIANTS; v++)
        check_sums(natively, &v, 1 + v);
}

static uint32_t entry_of(const struct spin_image *image, enum code_variant v) {
    const struct spin_function *function;
    struct spin_error err;
    if (spin_image_find(image, names[v], &function, &err))
        TEST_FAIL("%s", err.text);
    return function->address;
}

static uint8_t *memory_of(struct spin_rig *rig, enum spin_space space) {
    uint32_t bytes, address;
    return spin_rig_memory(rig, space, &bytes, &address);
}

struct on_hpu {
    struct spin_rig *rig;
    struct spin_call call;
};

static void on_hpu(void *context, const struct code_state *s, const uint8_t *packet, uint32_t bytes,
                   uint8_t *to) {
    struct on_hpu *h = context;
    struct spin_outcome outcome;
    struct spin_error err;
    memcpy(memory_of(h->rig, SPIN_STATE), s, 3 * sizeof(uint32_t));
    h->call.packet = packet;
    h->call.packet_bytes = bytes;
    if (spin_rig_call(h->rig, &h->call, &outcome, &err))
        TEST_FAIL("%s", err.text);
    CHECK_EQ(outcome.ending, SPIN_RETURNED);
    CHECK_EQ(outcome.value, 0);
    memcpy(to, memory_of(h->rig, SPIN_ME_HOST), s->m * bytes);
}

/* Interpreted; each variant on the data of a seed of its own. */
TEST(parities_made_by_handlers_are_those_of_isal) {
    load_isal();
    struct spin_image *image;
    struct spin_error err;
    if (spin_image_load(&image, CODE_IMAGE, NULL, &err))
        TEST_FAIL("%s", err.text);
    for (enum code_variant v = 0; v < CODE_VARIANTS; v++) {
        const struct spin_rig_options options = {
            .functional = true, .state_bytes = sizeof(struct code_state), .jit = SPIN_JIT_OFF};
        struct on_hpu h = {.call = {.kind = SPIN_PAYLOAD_HANDLER}};
        h.call.entry = entry_of(image, v);
        if (spin_rig_new(&h.rig, image, &options, &err))
            TEST_FAIL("%s", err.text);
        make_table((struct code_state *)memory_of(h.rig, SPIN_STATE));
        check_sums(on_hpu, &h, 11 + v);
        spin_rig_free(h.rig);
    }
    spin_image_free(image);
}

/* RS(6,3): how many instructions a byte takes is what the README says; a change of compiler or
 * kernel shows here. */
TEST(rows_side_by_side_take_fewest_instructions) {
    struct spin_image *image;
    struct spin_error err;
    static uint8_t packet[2048];
    double per_byte[CODE_VARIANTS];
    if (spin_image_load(&image, CODE_IMAGE, NULL, &err))
        TEST_FAIL("%s", err.text);
    for (enum code_variant v = 0; v < CODE_VARIANTS; v++) {
        const struct spin_rig_options options = {.functional = true,
                                                 .state_bytes = sizeof(struct code_state)};
        struct spin_rig *rig;
        struct spin_outcome outcome;
        struct spin_call call = {
            .kind = SPIN_PAYLOAD_HANDLER, .packet = packet, .packet_bytes = sizeof packet};
        call.entry = entry_of(image, v);
        if (spin_rig_new(&rig, image, &options, &err))
            TEST_FAIL("%s", err.text);
        const struct code_state s = {.k = 6, .j = 2, .m = 3};
        memcpy(memory_of(rig, SPIN_STATE), &s, 3 * sizeof(uint32_t));
        if (spin_rig_call(rig, &call, &outcome, &err))
            TEST_FAIL("%s", err.text);
        CHECK_EQ(outcome.ending, SPIN_RETURNED);
        per_byte[v] = (double)outcome.instructions / sizeof packet;
        spin_rig_free(rig);
    }
    spin_image_free(image);
    CHECK(per_byte[CODE_ROWS] < 9);
    CHECK(per_byte[CODE_ROWS] < per_byte[CODE_TABLE] && per_byte[CODE_ROWS] < per_byte[CODE_WORDS]);
}

TEST(any_k_chunks_give_all) {
    load_isal();
    struct rng rng = rng_seeded(5);
    struct spin_error err;
    static uint8_t got[STORAGE_CHUNKS][BYTES];
    uint8_t *chunk[STORAGE_CHUNKS];
    for (uint32_t k = 1; k <= MOST_K; k++)
        for (uint32_t m = 1; m <= MOST_M; m++) {
            const uint32_t bytes = 1 + rng_below(&rng, BYTES), all = (1u << (k + m)) - 1;
            fill(&rng, k);
            encode_by_isal(k, m, bytes);
            for (uint32_t round = 0; round < 6; round++) {
                uint32_t lost = 0;
                for (uint32_t i = 0; i < m;
                     i++) /* up to m of them; the first round: all parities */
                    lost |= 1u << (round ? rng_below(&rng, k + m) : k + i);
                for (uint32_t i = 0; i < k + m; i++) {
                    chunk[i] = got[i];
                    memcpy(got[i], i < k ? data[i] : parity[i - k], bytes);
                    if (lost >> i & 1)
                        memset(got[i], 0xee, BYTES);
                }
                snprintf(test_context, sizeof test_context, "RS(%u,%u), lost %x", k, m, lost);
                if (store_decode(k, m, all & ~lost, chunk, bytes, &err))
                    TEST_FAIL("%s", err.text);
                for (uint32_t i = 0; i < k + m; i++)
                    CHECK(memcmp(got[i], i < k ? data[i] : parity[i - k], bytes) == 0);
            }
        }
    test_context[0] = 0;
}

TEST(what_cannot_be_decoded_is_one_line) {
    struct spin_error err;
    static uint8_t room[4][8];
    uint8_t *chunk[4] = {room[0], room[1], room[2], room[3]};
    CHECK_EQ(store_decode(3, 1, 5, chunk, 8, &err), SPIN_EARG);
    CHECK_STR(err.text, "Reed-Solomon: fewer chunks are left than there were data");
    CHECK_EQ(store_decode(0, 1, 5, chunk, 8, &err), SPIN_EARG);
    CHECK_EQ(store_decode(12, 3, 0x7fff, chunk, 8, &err), SPIN_EARG);
    CHECK_STR(err.text, "Reed-Solomon: at least 1 data chunk, at most 14 chunks");
}

TEST_MAIN
