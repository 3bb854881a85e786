/* Atomic operations on integers as the specification words them: loops over items, nothing of
 * src/nic. */
#ifndef TESTS_PLAIN_ATOMIC_H
#define TESTS_PLAIN_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "portals4.h"

struct plain_type {
    ptl_datatype_t number;
    uint32_t bytes;
    bool has_sign;
};
static const struct plain_type plain_types[] = {{PTL_INT8_T, 1, true},  {PTL_UINT8_T, 1, false},
                                                {PTL_INT16_T, 2, true}, {PTL_UINT16_T, 2, false},
                                                {PTL_INT32_T, 4, true}, {PTL_UINT32_T, 4, false},
                                                {PTL_INT64_T, 8, true}, {PTL_UINT64_T, 8, false}};

static inline uint64_t plain_load(const struct plain_type *type, const uint8_t *at) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < type->bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    if (type->has_sign && type->bytes < 8 && value >> (8 * type->bytes - 1))
        value -= 1ull << (8 * type->bytes);
    return value;
}

static inline bool plain_less(const struct plain_type *type, uint64_t a, uint64_t b) {
    return type->has_sign ? (int64_t)a < (int64_t)b : a < b;
}

/* t: at the target, d: of the message, o: the operand of a swap. */
static inline uint64_t plain_result(const struct plain_type *type, ptl_op_t operation, uint64_t t,
                                    uint64_t d, uint64_t o) {
    switch (operation) {
    case PTL_MIN:
        return plain_less(type, d, t) ? d : t;
    case PTL_MAX:
        return plain_less(type, t, d) ? d : t;
    case PTL_SUM:
        return t + d;
    case PTL_PROD:
        return t * d;
    case PTL_LOR:
        return t != 0 || d != 0;
    case PTL_LAND:
        return t != 0 && d != 0;
    case PTL_BOR:
        return t | d;
    case PTL_BAND:
        return t & d;
    case PTL_LXOR:
        return (t != 0) != (d != 0);
    case PTL_BXOR:
        return t ^ d;
    case PTL_SWAP:
        return d;
    case PTL_CSWAP:
        return o == t ? d : t;
    case PTL_CSWAP_NE:
        return o == t ? t : d;
    case PTL_CSWAP_LE:
        return plain_less(type, t, o) ? t : d;
    case PTL_CSWAP_LT:
        return plain_less(type, o, t) ? d : t;
    case PTL_CSWAP_GE:
        return plain_less(type, o, t) ? t : d;
    case PTL_CSWAP_GT:
        return plain_less(type, t, o) ? d : t;
    default: /* PTL_MSWAP */
        return (d & o) | (t & ~o);
    }
}

static inline void plain_atomic(const struct plain_type *type, ptl_op_t operation, uint8_t *target,
                                const uint8_t *data, const uint8_t *operand, uint64_t bytes) {
    uint64_t o = plain_load(type, operand);
    for (uint64_t at = 0; at < bytes; at += type->bytes) {
        uint64_t result = plain_result(type, operation, plain_load(type, target + at),
                                       plain_load(type, data + at), o);
        for (uint32_t i = 0; i < type->bytes; i++)
            target[at + i] = (uint8_t)(result >> (8 * i));
    }
}

#endif
