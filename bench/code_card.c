/* Handlers that multiply a packet by the coefficients of RS(k,m), each in its own way, and write
 * parity i to the entry's host memory, a packet's length after parity i - 1: bench_code.c times
 * them, tests/storage_code_test.c compares what they write. */
#include "spin/handler.h"

#include "code_variants.h"

SPIN_CALL int code(enum code_variant variant, const ptl_payload_t *p, const struct code_state *s) {
    struct storage_row *rows = malloc(STORAGE_PASS * sizeof *rows);
    const uint32_t room = (p->length + 3) & ~3u;
    uint8_t *out = malloc(s->m * room), *to[STORAGE_PASS];
    if (!rows || !out)
        return FAIL;
    for (uint32_t i = 0; i < STORAGE_PASS; i++)
        to[i] = out + i * room;
    code_packet(variant, s, rows, p->base, p->length, to);
    for (uint32_t i = 0; i < s->m; i++)
        PtlHandlerDMAToHostB(to[i], i * p->length, p->length, PTL_ME_HOST_MEM);
    return SUCCESS;
}

__handler int code_rows_payload_handler(const ptl_payload_t p, void *state) {
    return code(CODE_ROWS, &p, state);
}

__handler int code_table_payload_handler(const ptl_payload_t p, void *state) {
    return code(CODE_TABLE, &p, state);
}

__handler int code_words_payload_handler(const ptl_payload_t p, void *state) {
    return code(CODE_WORDS, &p, state);
}
