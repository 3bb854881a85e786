/* Atomic operations: every operation on every type that it is defined for. Items need not be
 * aligned. Those that are, and that the processor can exchange, change in one step: the host's own
 * threads may use them at the same time (PTL_COHERENT_ATOMICS). */
#include <complex.h>
#include <float.h>
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

/* Reads an item in one step, and replaces it if it is still the same. */
#define STEPS(bytes, T)                                                                            \
    static inline void read_##bytes(const uint8_t *at, void *item) {                               \
        T value = __atomic_load_n((const T *)(const void *)at, __ATOMIC_ACQUIRE);                  \
        memcpy(item, &value, bytes);                                                               \
    }                                                                                              \
    static inline bool replace_##bytes(uint8_t *at, const void *before, const void *after) {       \
        T was, is;                                                                                 \
        memcpy(&was, before, bytes);                                                               \
        memcpy(&is, after, bytes);                                                                 \
        return __atomic_compare_exchange_n((T *)(void *)at, &was, is, false, __ATOMIC_ACQ_REL,     \
                                           __ATOMIC_RELAXED);                                      \
    }
STEPS(1, uint8_t)
STEPS(2, uint16_t)
STEPS(4, uint32_t)
STEPS(8, uint64_t)

/* The sizes are constants where these are called: one case is left of each. */
static inline void read_item(const uint8_t *at, void *item, size_t bytes) {
    if ((uintptr_t)at % bytes == 0)
        switch (bytes) {
        case 1:
            read_1(at, item);
            return;
        case 2:
            read_2(at, item);
            return;
        case 4:
            read_4(at, item);
            return;
        case 8:
            read_8(at, item);
            return;
        }
    memcpy(item, at, bytes);
}

static inline bool replace_item(uint8_t *at, const void *before, const void *after, size_t bytes) {
    if ((uintptr_t)at % bytes == 0)
        switch (bytes) {
        case 1:
            return replace_1(at, before, after);
        case 2:
            return replace_2(at, before, after);
        case 4:
            return replace_4(at, before, after);
        case 8:
            return replace_8(at, before, after);
        }
    memcpy(at, after, bytes);
    return true;
}

/* A long double of the x87 is 10 bytes of value and 6 that mean nothing: those of the target stay
 * as they are, where those of a variable here would be whatever was on the stack. */
#if LDBL_MANT_DIG == 64
#define LONG_DOUBLE_BYTES 10u
#else
#define LONG_DOUBLE_BYTES sizeof(long double)
#endif
#define PART_BYTES(item)                                                                           \
    _Generic((item), long double                                                                   \
             : sizeof(long double), long double complex                                            \
             : sizeof(long double), default : 0)

static inline void put_value(uint8_t *item, const void *value, size_t bytes, size_t part) {
    if (!part)
        memcpy(item, value, bytes);
    for (size_t i = 0; part && i < bytes; i += part)
        memcpy(item + i, (const uint8_t *)value + i, LONG_DOUBLE_BYTES);
}

#define ONE(operation_, T, expression)                                                             \
    case operation_:                                                                               \
        for (uint64_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {                             \
            uint8_t was[sizeof(T)], is[sizeof(T)];                                                 \
            T t, d, result;                                                                        \
            memcpy(&d, data + i, sizeof d);                                                        \
            do {                                                                                   \
                read_item(target + i, was, sizeof was);                                            \
                memcpy(&t, was, sizeof t);                                                         \
                result = (expression);                                                             \
                memcpy(is, was, sizeof is);                                                        \
                put_value(is, &result, sizeof is, PART_BYTES(result));                             \
            } while (!replace_item(target + i, was, is, sizeof is));                               \
            if (before)                                                                            \
                memcpy(before + i, was, sizeof was);                                               \
        }                                                                                          \
        break;

#define FUNCTION(number, T, kind)                                                                  \
    static void apply_##number(uint8_t operation, uint8_t *target, const uint8_t *data,            \
                               const uint8_t *operand, uint64_t bytes, uint8_t *before) {          \
        T o;                                                                                       \
        memcpy(&o, operand, sizeof o);                                                             \
        switch (operation) { OPERATIONS_##kind(ONE, T) }                                           \
    }
TYPES(FUNCTION)

#define BIT(operation, T, expression) | 1u << operation
static const struct {
    void (*apply)(uint8_t operation, uint8_t *target, const uint8_t *data, const uint8_t *operand,
                  uint64_t bytes, uint8_t *before);
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
                     const uint8_t *operand, uint64_t bytes, uint8_t *before) {
    types[datatype].apply(operation, target, data, operand, bytes, before);
}
