/* Every atomic operation on every type, against plain C written out by hand. */
#include "lib/test_wire.h"

#include <complex.h>
#include <float.h>
#include <math.h>

#include "nic/portals_private.h"

/* What the operation makes of a target item, by the C type's own operators. */
#define INTEGER_ORACLE(name, T, U)                                                                 \
    static T name(int op, T t, T d, T o) {                                                         \
        switch (op) {                                                                              \
        case PTL_MIN:                                                                              \
            return t < d ? t : d;                                                                  \
        case PTL_MAX:                                                                              \
            return t > d ? t : d;                                                                  \
        case PTL_SUM:                                                                              \
            return (T)(U)((U)t + (U)d);                                                            \
        case PTL_PROD: {                                                                           \
            unsigned __int128 product = (unsigned __int128)(U)t * (U)d;                            \
            return (T)(U)product;                                                                  \
        }                                                                                          \
        case PTL_LOR:                                                                              \
            return t != 0 || d != 0 ? 1 : 0;                                                       \
        case PTL_LAND:                                                                             \
            return t != 0 && d != 0 ? 1 : 0;                                                       \
        case PTL_LXOR:                                                                             \
            return (t != 0) != (d != 0) ? 1 : 0;                                                   \
        case PTL_BOR:                                                                              \
            return (T)((U)t | (U)d);                                                               \
        case PTL_BAND:                                                                             \
            return (T)((U)t & (U)d);                                                               \
        case PTL_BXOR:                                                                             \
            return (T)((U)t ^ (U)d);                                                               \
        case PTL_MSWAP:                                                                            \
            return (T)(((U)o & (U)d) | ((U) ~(U)o & (U)t));                                        \
        }                                                                                          \
        bool swaps = op == PTL_SWAP || (op == PTL_CSWAP && o == t) ||                              \
                     (op == PTL_CSWAP_NE && o != t) || (op == PTL_CSWAP_LE && o <= t) ||           \
                     (op == PTL_CSWAP_LT && o < t) || (op == PTL_CSWAP_GE && o >= t) ||            \
                     (op == PTL_CSWAP_GT && o > t);                                                \
        return swaps ? d : t;                                                                      \
    }
INTEGER_ORACLE(oracle_int8, int8_t, uint8_t)
INTEGER_ORACLE(oracle_uint8, uint8_t, uint8_t)
INTEGER_ORACLE(oracle_int16, int16_t, uint16_t)
INTEGER_ORACLE(oracle_uint16, uint16_t, uint16_t)
INTEGER_ORACLE(oracle_int32, int32_t, uint32_t)
INTEGER_ORACLE(oracle_uint32, uint32_t, uint32_t)
INTEGER_ORACLE(oracle_int64, int64_t, uint64_t)
INTEGER_ORACLE(oracle_uint64, uint64_t, uint64_t)

#define REAL_ORACLE(name, T)                                                                       \
    static T name(int op, T t, T d, T o) {                                                         \
        if (op == PTL_MIN)                                                                         \
            return t < d ? t : d;                                                                  \
        if (op == PTL_MAX)                                                                         \
            return t > d ? t : d;                                                                  \
        if (op == PTL_SUM)                                                                         \
            return t + d;                                                                          \
        if (op == PTL_PROD)                                                                        \
            return t * d;                                                                          \
        bool swaps = op == PTL_SWAP || (op == PTL_CSWAP && o == t) ||                              \
                     (op == PTL_CSWAP_NE && o != t) || (op == PTL_CSWAP_LE && o <= t) ||           \
                     (op == PTL_CSWAP_LT && o < t) || (op == PTL_CSWAP_GE && o >= t) ||            \
                     (op == PTL_CSWAP_GT && o > t);                                                \
        return swaps ? d : t;                                                                      \
    }
REAL_ORACLE(oracle_float, float)
REAL_ORACLE(oracle_double, double)
REAL_ORACLE(oracle_long_double, long double)

/* By parts, as one writes a product of complex numbers. */
#define COMPLEX_ORACLE(name, T, R, re, im)                                                         \
    static T name(int op, T t, T d, T o) {                                                         \
        R parts[2] = {re(t), im(t)};                                                               \
        bool same = re(o) == re(t) && im(o) == im(t);                                              \
        if (op == PTL_SUM) {                                                                       \
            parts[0] = re(t) + re(d);                                                              \
            parts[1] = im(t) + im(d);                                                              \
        } else if (op == PTL_PROD) {                                                               \
            parts[0] = re(t) * re(d) - im(t) * im(d);                                              \
            parts[1] = re(t) * im(d) + im(t) * re(d);                                              \
        } else if (op == PTL_SWAP || (op == PTL_CSWAP && same) || (op == PTL_CSWAP_NE && !same)) { \
            return d;                                                                              \
        }                                                                                          \
        T result;                                                                                  \
        memcpy(&result, parts, sizeof result);                                                     \
        return result;                                                                             \
    }
COMPLEX_ORACLE(oracle_float_complex, float complex, float, crealf, cimagf)
COMPLEX_ORACLE(oracle_double_complex, double complex, double, creal, cimag)
COMPLEX_ORACLE(oracle_long_double_complex, long double complex, long double, creall, cimagl)

enum family { INTEGERS, REALS, COMPLEXES };

#define TYPES(X)                                                                                   \
    X(PTL_INT8_T, int8_t, oracle_int8, INTEGERS)                                                   \
    X(PTL_UINT8_T, uint8_t, oracle_uint8, INTEGERS)                                                \
    X(PTL_INT16_T, int16_t, oracle_int16, INTEGERS)                                                \
    X(PTL_UINT16_T, uint16_t, oracle_uint16, INTEGERS)                                             \
    X(PTL_INT32_T, int32_t, oracle_int32, INTEGERS)                                                \
    X(PTL_UINT32_T, uint32_t, oracle_uint32, INTEGERS)                                             \
    X(PTL_FLOAT, float, oracle_float, REALS)                                                       \
    X(PTL_INT64_T, int64_t, oracle_int64, INTEGERS)                                                \
    X(PTL_UINT64_T, uint64_t, oracle_uint64, INTEGERS)                                             \
    X(PTL_DOUBLE, double, oracle_double, REALS)                                                    \
    X(PTL_FLOAT_COMPLEX, float complex, oracle_float_complex, COMPLEXES)                           \
    X(PTL_DOUBLE_COMPLEX, double complex, oracle_double_complex, COMPLEXES)                        \
    X(PTL_LONG_DOUBLE, long double, oracle_long_double, REALS)                                     \
    X(PTL_LONG_DOUBLE_COMPLEX, long double complex, oracle_long_double_complex, COMPLEXES)

/* Which families an operation is defined for. */
static bool defined_for(int op, enum family family) {
    switch (op) {
    case PTL_SUM:
    case PTL_PROD:
    case PTL_SWAP:
    case PTL_CSWAP:
    case PTL_CSWAP_NE:
        return true;
    case PTL_MIN:
    case PTL_MAX:
    case PTL_CSWAP_LE:
    case PTL_CSWAP_LT:
    case PTL_CSWAP_GE:
    case PTL_CSWAP_GT:
        return family != COMPLEXES;
    default:
        return family == INTEGERS;
    }
}

TEST(operations_are_defined_where_they_should_be) {
#define ROW(number, T, oracle, family)                                                             \
    for (int op = 0; op < PTL_OP_LAST; op++)                                                       \
        CHECK_EQ(p4_atomic_is_valid((uint8_t)op, number), defined_for(op, family));                \
    CHECK_EQ(portals_item_bytes(number), sizeof(T));
    TYPES(ROW)
#undef ROW
    CHECK(!p4_atomic_is_valid(PTL_OP_LAST, PTL_INT8_T));
    CHECK(!p4_atomic_is_valid(PTL_SUM, PTL_DATATYPE_LAST));
    CHECK_EQ(portals_item_bytes(PTL_DATATYPE_LAST), 0);
}

#define ITEMS 12

/* Small numbers, so that equal ones occur and products of floats are exact; some large integers. */
static void random_items(struct rng *r, uint8_t *bytes, int type) {
#define ROW(number, T, oracle, family)                                                             \
    case number:                                                                                   \
        for (int i = 0; i < ITEMS; i++) {                                                          \
            int small = (int)rng_below(r, 9) - 4, other = (int)rng_below(r, 9) - 4;                \
            T value = (T)small;                                                                    \
            if (family == INTEGERS && rng_below(r, 2)) {                                           \
                uint64_t any = rng_u64(r);                                                         \
                memcpy(&value, &any, sizeof value < 8 ? sizeof value : 8);                         \
            } else if (family == COMPLEXES) {                                                      \
                T unit = (T)I;                                                                     \
                value += (T)other * unit;                                                          \
            }                                                                                      \
            memcpy(bytes + (size_t)i * sizeof value, &value, sizeof value);                        \
        }                                                                                          \
        break;
    switch (type) { TYPES(ROW) }
#undef ROW
}

static void oracle(int type, int op, uint8_t *target, const uint8_t *data, const uint8_t *operand,
                   int items) {
#define ROW(number, T, oracle, family)                                                             \
    case number:                                                                                   \
        for (int i = 0; i < items; i++) {                                                          \
            T t, d, o;                                                                             \
            memcpy(&t, target + (size_t)i * sizeof t, sizeof t);                                   \
            memcpy(&d, data + (size_t)i * sizeof d, sizeof d);                                     \
            memcpy(&o, operand, sizeof o);                                                         \
            T result = oracle(op, t, d, o);                                                        \
            memcpy(target + (size_t)i * sizeof t, &result, sizeof t);                              \
        }                                                                                          \
        break;
    switch (type) { TYPES(ROW) }
#undef ROW
}

/* Padding of long doubles means nothing. */
static bool equal(int type, const uint8_t *a, const uint8_t *b, int items) {
#define ROW(number, T, oracle, family)                                                             \
    case number:                                                                                   \
        for (int i = 0; i < items; i++) {                                                          \
            T x, y;                                                                                \
            memcpy(&x, a + (size_t)i * sizeof x, sizeof x);                                        \
            memcpy(&y, b + (size_t)i * sizeof y, sizeof y);                                        \
            if (x != y)                                                                            \
                return false;                                                                      \
        }                                                                                          \
        break;
    switch (type) { TYPES(ROW) }
#undef ROW
    return true;
}

/* Where a long double has bytes that mean nothing, those of the target stay as they were. */
static bool same_padding(int type, const uint8_t *a, const uint8_t *b, uint64_t length) {
    bool same = true;
    if (LDBL_MANT_DIG != 64 || (type != PTL_LONG_DOUBLE && type != PTL_LONG_DOUBLE_COMPLEX))
        return same;
    for (uint64_t i = 0; i < length; i += sizeof(long double))
        same &= memcmp(a + i + 10, b + i + 10, sizeof(long double) - 10) == 0;
    return same;
}

/* Through the calls, unaligned, with what was there coming back. */
TEST(all_operations_on_all_types_against_plain_c) {
    ptl_handle_ni_t ni;
    struct wire *w = wire_with(PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, NULL, &ni);
    static uint8_t target[600], data[600], back[600];
    uint8_t expected[600], before[600], operand[32 * ITEMS];
    ptl_pt_index_t pt;
    ptl_handle_md_t md, back_md;
    ptl_handle_le_t le;
    wire_as(w, 1);
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    ptl_le_t entry = {target, sizeof target, PTL_CT_NONE, PTL_UID_ANY,
                      PTL_LE_OP_PUT | PTL_LE_OP_GET};
    CHECK_OK(PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le));
    wire_as(w, 0);
    ptl_md_t desc = {data, sizeof data, 0, PTL_EQ_NONE, PTL_CT_NONE};
    CHECK_OK(PtlMDBind(ni, &desc, &md));
    desc.start = back;
    CHECK_OK(PtlMDBind(ni, &desc, &back_md));
    struct rng r = rng_seeded(2017);
    int tried = 0;
    for (int type = 0; type < PTL_DATATYPE_LAST; type++)
        for (int op = 0; op < PTL_OP_LAST; op++)
            for (int round = 0; round < 40 && p4_atomic_is_valid((uint8_t)op, (uint8_t)type);
                 round++) {
                uint32_t bytes = portals_item_bytes((uint8_t)type);
                int items = op > PTL_SWAP ? 1 : 1 + (int)rng_below(&r, ITEMS);
                uint64_t length = (uint64_t)items * bytes, offset = rng_below(&r, 17);
                bool fetch = op >= PTL_SWAP || round % 2;
                memset(target, round, sizeof target);
                random_items(&r, target + offset, type);
                random_items(&r, data, type);
                random_items(&r, operand, type);
                memcpy(before, target, sizeof before);
                memcpy(expected, target, sizeof expected);
                oracle(type, op, expected + offset, data, operand, items);
                if (op >= PTL_SWAP)
                    CHECK_OK(PtlSwap(back_md, 0, md, 0, length, wire_rank(1), pt, 0, offset, NULL,
                                     0, operand, (ptl_op_t)op, (ptl_datatype_t)type));
                else if (fetch)
                    CHECK_OK(PtlFetchAtomic(back_md, 0, md, 0, length, wire_rank(1), pt, 0, offset,
                                            NULL, 0, (ptl_op_t)op, (ptl_datatype_t)type));
                else
                    CHECK_OK(PtlAtomic(md, 0, length, PTL_NO_ACK_REQ, wire_rank(1), pt, 0, offset,
                                       NULL, 0, (ptl_op_t)op, (ptl_datatype_t)type));
                wire_run(w);
                if (!equal(type, target + offset, expected + offset, items) ||
                    memcmp(target, before, offset) != 0 ||
                    memcmp(target + offset + length, before + offset + length,
                           sizeof target - offset - length) != 0)
                    TEST_FAIL("operation %d on type %d is wrong", op, type);
                if (!same_padding(type, target + offset, before + offset, length))
                    TEST_FAIL("operation %d on type %d writes what is no value", op, type);
                if (fetch && memcmp(back, before + offset, length) != 0)
                    TEST_FAIL("operation %d on type %d brings back something else", op, type);
                tried++;
            }
    CHECK_EQ(tried, 40 * (8 * 18 + 3 * 11 + 3 * 5));
    wire_free(w);
}

/* (1 + 2i)(3 - 4i) = 11 + 2i: not a product of the parts. */
TEST(a_complex_product) {
    float complex t = 1 + 2 * I, d = 3 - 4 * I;
    uint8_t operand[32] = {0};
    p4_atomic_apply(PTL_PROD, PTL_FLOAT_COMPLEX, (uint8_t *)&t, (uint8_t *)&d, operand, sizeof t,
                    NULL);
    CHECK(crealf(t) == 11 && cimagf(t) == 2);
}

/* Integers wrap; minimum and maximum respect the sign. */
TEST(integers_wrap_and_have_signs) {
    uint8_t operand[32] = {0};
    int32_t t = INT32_MAX, d = 1;
    p4_atomic_apply(PTL_SUM, PTL_INT32_T, (uint8_t *)&t, (uint8_t *)&d, operand, 4, NULL);
    CHECK_EQ(t, INT32_MIN);
    d = 5;
    p4_atomic_apply(PTL_MAX, PTL_INT32_T, (uint8_t *)&t, (uint8_t *)&d, operand, 4, NULL);
    CHECK_EQ(t, 5);
    uint32_t u = 0x80000000u, five = 5;
    p4_atomic_apply(PTL_MAX, PTL_UINT32_T, (uint8_t *)&u, (uint8_t *)&five, operand, 4, NULL);
    CHECK_EQ(u, 0x80000000u);
}

TEST_MAIN
