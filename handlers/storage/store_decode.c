#include "store_decode.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "storage_code.h"

#define LIBRARY "libisal.so.2"
/* ISA-L counts bytes in an int. */
#define PIECE (1u << 30)

struct isal {
    int (*invert)(unsigned char *in, unsigned char *out, const int n);
    void (*tables)(int k, int rows, unsigned char *coefficients, unsigned char *tables);
    void (*encode)(int bytes, int k, int rows, unsigned char *tables, unsigned char **from,
                   unsigned char **to);
};

static int refuse(struct spin_error *err, int code, const char *text) {
    if (err) {
        err->code = code;
        snprintf(err->text, sizeof err->text, "%s", text);
    }
    return code;
}

/* Stays loaded: the next call finds it at once. */
static int load(struct isal *isal, struct spin_error *err) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return refuse(err, SPIN_EFILE,
                      "Reed-Solomon decoding needs ISA-L: no " LIBRARY " (Debian: libisal2)");
    isal->invert = (__typeof__(isal->invert))dlsym(library, "gf_invert_matrix");
    isal->tables = (__typeof__(isal->tables))dlsym(library, "ec_init_tables");
    isal->encode = (__typeof__(isal->encode))dlsym(library, "ec_encode_data");
    if (!isal->invert || !isal->tables || !isal->encode)
        return refuse(err, SPIN_EFILE,
                      LIBRARY ": not the ISA-L that Reed-Solomon decoding needs (2.30)");
    return 0;
}

/* Row `chunk` of the encoding matrix: what data chunks are multiplied with. */
static void matrix_row(uint32_t k, uint32_t chunk, uint8_t *row) {
    for (uint32_t j = 0; j < k; j++)
        row[j] = chunk < k ? chunk == j : storage_coefficient(k, chunk - k, j);
}

/* What the k chunks `used` are multiplied with to get chunk `wanted`. */
static void decoding_row(uint32_t k, const uint8_t *inverse, uint32_t wanted, uint8_t *row) {
    uint8_t encode[STORAGE_CHUNKS];
    matrix_row(k, wanted, encode);
    for (uint32_t u = 0; u < k; u++) {
        row[u] = 0;
        for (uint32_t j = 0; j < k; j++)
            row[u] ^= storage_product(encode[j], inverse[j * k + u]);
    }
}

int store_decode(uint32_t k, uint32_t m, uint32_t present, uint8_t *const *chunk, uint64_t bytes,
                 struct spin_error *err) {
    uint8_t *from[STORAGE_CHUNKS], *to[STORAGE_CHUNKS], rows[STORAGE_CHUNKS * STORAGE_CHUNKS];
    uint8_t matrix[STORAGE_CHUNKS * STORAGE_CHUNKS], inverse[STORAGE_CHUNKS * STORAGE_CHUNKS];
    uint8_t tables[32 * STORAGE_CHUNKS * STORAGE_CHUNKS];
    uint32_t used = 0, missing = 0;
    struct isal isal = {0};
    if (!k || k >= STORAGE_CHUNKS || m > STORAGE_CHUNKS - k)
        return refuse(err, SPIN_EARG, "Reed-Solomon: at least 1 data chunk, at most 14 chunks");
    for (uint32_t i = 0; i < k + m; i++)
        if (present >> i & 1 && used < k) {
            matrix_row(k, i, &matrix[used * k]);
            from[used++] = chunk[i];
        }
    if (used < k)
        return refuse(err, SPIN_EARG, "Reed-Solomon: fewer chunks are left than there were data");
    int code = load(&isal, err);
    if (code)
        return code;
    if (isal.invert(matrix, inverse, (int)k))
        return refuse(err, SPIN_EARG, "Reed-Solomon: these chunks do not determine the others");
    for (uint32_t i = 0; i < k + m; i++)
        if (!(present >> i & 1)) {
            decoding_row(k, inverse, i, &rows[missing * k]);
            to[missing++] = chunk[i];
        }
    if (!missing)
        return 0;
    isal.tables((int)k, (int)missing, rows, tables);
    while (bytes) {
        const uint32_t piece = bytes < PIECE ? (uint32_t)bytes : PIECE;
        isal.encode((int)piece, (int)k, (int)missing, tables, from, to);
        for (uint32_t i = 0; i < used; i++)
            from[i] += piece;
        for (uint32_t i = 0; i < missing; i++)
            to[i] += piece;
        bytes -= piece;
    }
    return 0;
}
