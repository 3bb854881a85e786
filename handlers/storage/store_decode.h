/* Chunks of an object that was coded with RS(k,m): from any k of them, all others. By ISA-L, which
 * is loaded when it is first needed. */
#ifndef STORE_DECODE_H
#define STORE_DECODE_H

#include <stdint.h>

#include <openspin.h>

/* Makes the chunks that are missing: bit i of `present` says that chunk[i] (data 0 to k - 1, parity
 * k to k + m - 1) has its `bytes`; the others are written. With all data present this is encoding.
 * 0, or a negative code and one line in `err`: fewer than k chunks, no such code, no ISA-L. Nothing
 * is written then. */
int store_decode(uint32_t k, uint32_t m, uint32_t present, uint8_t *const *chunk, uint64_t bytes,
                 struct spin_error *err);

#endif
