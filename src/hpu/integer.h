/* Integer types by the numbers that Portals gives them: what an atomic on host memory works on. */
#ifndef SPIN_HPU_INTEGER_H
#define SPIN_HPU_INTEGER_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of a type; 0: it is no integer. */
static inline uint32_t integer_bytes(uint32_t type) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 0 /* float */, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* The low bytes of `value` as 64 bits: by their sign if the type has one. */
static inline uint64_t integer_extend(uint32_t type, uint64_t value) {
    uint32_t unused = 64 - 8 * integer_bytes(type);
    bool is_signed = type == 0 || type == 2 || type == 4 || type == 7;
    value <<= unused;
    return is_signed ? (uint64_t)((int64_t)value >> unused) : value >> unused;
}

#endif
