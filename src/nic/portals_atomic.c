/* Atomic operations: every operation on every type that it is defined for. Items need not be
 * aligned: they are copied out and in. */
#include <complex.h>
#include <stddef.h>
#include <string.h>

#include "nic/portals_private.h"

/* type number, C type, what can be done with it */
#define TYPES(X)                                                                                   \
    X(PTL_INT8_T, int8_t, INTEGER)                                                                 \
    X(PTL_UINT8_T, uint8_t, INTEGER)                                                               \
    X(PTL_INT16_T, int16_t, INTEGER)                                                               \
    X(PTL_UINT16_T, uint16_t, INTEGER)                                                             \
    X(PTL_INT32_T, int32_t, INTEGER)                                                               \
    X(PTL_UINT32_T, uint32_t, INTEGER)                                                             \
    X(PTL_FLOAT, float, REAL)                                                                      \
    X(PTL_INT64_T, int64_t, INTEGER)                                                               \
    X(PTL_UINT64_T, uint64_t, INTEGER)                                                             \
    X(PTL_DOUBLE, double, REAL)                                                                    \
    X(PTL_FLOAT_COMPLEX, float complex, COMPLEX)                                                   \
    X(PTL_DOUBLE_COMPLEX, double complex, COMPLEX)                                                 \
    X(PTL_LONG_DOUBLE, long double, REAL)                                                          \
    X(PTL_LONG_DOUBLE_COMPLEX, long double complex, COMPLEX)

/* Operations by what they need of a type: t the target's item, d the message's, o the operand. Sums
 * and products of integers wrap: they are computed without a sign. */
#define OPERATIONS_ANY(X, T)                                                                       \
    X(PTL_SWAP, T, d)                                                                              \
    X(PTL_CSWAP, T, o == t ? d : t)                                                                \
    X(PTL_CSWAP_NE, T, o != t ? d : t)
#define OPERATIONS_ORDER(X, T)                                                                     \
    X(PTL_MIN, T, d < t ? d : t)                                                                   \
    X(PTL_MAX, T, d > t ? d : t)                                                                   \
    X(PTL_CSWAP_LE, T, o <= t ? d : t)                                                             \
    X(PTL_CSWAP_LT, T, o < t ? d : t)                                                              \
    X(PTL_CSWAP_GE, T, o >= t ? d : t)                                                             \
    X(PTL_CSWAP_GT, T, o > t ? d : t)
#define OPERATIONS_FLOAT(X, T)                                                                     \
    X(PTL_SUM, T, t + d)                                                                           \
    X(PTL_PROD, T, t *d)
#define OPERATIONS_BITS(X, T)                                                                      \
    X(PTL_SUM, T, (T)((uint64_t)t + (uint64_t)d))                                                  \
    X(PTL_PROD, T, (T)((uint64_t)t * (uint64_t)d))                                                 \
    X(PTL_LOR, T, (T)(t || d))                                                                     \
    X(PTL_LAND, T, (T)(t && d))                                                                    \
    X(PTL_LXOR, T, (T)(!t != !d))                                                                  \
    X(PTL_BOR, T, (T)(t | d))                                                                      \
    X(PTL_BAND, T, (T)(t & d))                                                                     \
    X(PTL_BXOR, T, (T)(t ^ d))                                                                     \
    X(PTL_MSWAP, T, (T)((o & d) | (~o & t)))

#define OPERATIONS_INTEGER(X, T) OPERATIONS_ANY(X, T) OPERATIONS_ORDER(X, T) OPERATIONS_BITS(X, T)
#define OPERATIONS_REAL(X, T)    OPERATIONS_ANY(X, T) OPERATIONS_ORDER(X, T) OPERATIONS_FLOAT(X, T)
#define OPERATIONS_COMPLEX(X, T) OPERATIONS_ANY(X, T) OPERATIONS_FLOAT(X, T)

#define ONE(operation_, T, expression)                                                             \
    case operation_:                                                                               \
        for (uint64_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {                             \
            T t, d, result;                                                                        \
            memcpy(&t, target + i, sizeof t);                                                      \
            memcpy(&d, data + i, sizeof d);                                                        \
            result = (expression);                                                                 \
            memcpy(target + i, &result, sizeof result);                                            \
        }                                                                                          \
        break;

#define FUNCTION(number, T, kind)                                                                  \
    static void apply_##number(uint8_t operation, uint8_t *target, const uint8_t *data,            \
                               const uint8_t *operand, uint64_t bytes) {                           \
        T o;                                                                                       \
        memcpy(&o, operand, sizeof o);                                                             \
        switch (operation) { OPERATIONS_##kind(ONE, T) }                                           \
    }
TYPES(FUNCTION)

#define BIT(operation, T, expression) | 1u << operation
static const struct {
    void (*apply)(uint8_t operation, uint8_t *target, const uint8_t *data, const uint8_t *operand,
                  uint64_t bytes);
    uint32_t bytes, operations;
} types[PTL_DATATYPE_LAST] = {
#define ROW(number, T, kind) [number] = {apply_##number, sizeof(T), 0 OPERATIONS_##kind(BIT, T)},
    TYPES(ROW)
#undef ROW
};

uint32_t portals_item_bytes(uint8_t datatype) {
    return datatype < PTL_DATATYPE_LAST ? types[datatype].bytes : 0;
}

bool p4_atomic_is_valid(uint8_t operation, uint8_t datatype) {
    return datatype < PTL_DATATYPE_LAST && operation < PTL_OP_LAST &&
           types[datatype].operations >> operation & 1;
}

void p4_atomic_apply(uint8_t operation, uint8_t datatype, uint8_t *target, const uint8_t *data,
                     const uint8_t *operand, uint64_t bytes) {
    types[datatype].apply(operation, target, data, operand, bytes);
}
