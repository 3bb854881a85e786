/* Limits of an interface: what there is by default, and between what a program may choose. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/error.h"
#include "nic/nic.h"

#define MI(n) ((n) * (1ll << 20))
#define GI(n) ((n) * (1ll << 30))

/* field, C type, environment variable, default, least, most. Programs take volatile descriptors for
 * all that max_volatile_size allows, atomics included: it is at most what an atomic is at most. */
#define LIMITS(X)                                                                                  \
    X(max_entries, int, "PTL_LIM_MAX_ENTRIES", 1024, 0, MI(128))                                   \
    X(max_unexpected_headers, int, "PTL_LIM_MAX_UNEXPECTED_HEADERS", 1024, 0, LONG_MAX)            \
    X(max_mds, int, "PTL_LIM_MAX_MDS", 1024, 0, MI(128))                                           \
    X(max_cts, int, "PTL_LIM_MAX_CTS", 1024, 0, MI(128))                                           \
    X(max_eqs, int, "PTL_LIM_MAX_EQS", 1024, 0, MI(128))                                           \
    X(max_pt_index, int, "PTL_LIM_MAX_PT_INDEX", 63, 1, 511)                                       \
    X(max_iovecs, int, "PTL_LIM_MAX_IOVECS", 1024, 0, LONG_MAX)                                    \
    X(max_list_size, int, "PTL_LIM_MAX_LIST_SIZE", 1024, 0, GI(4))                                 \
    X(max_triggered_ops, int, "PTL_LIM_MAX_TRIGGERED_OPS", 1024, 0, GI(4))                         \
    X(max_msg_size, ptl_size_t, "PTL_LIM_MAX_MSG_SIZE", GI(4), 0, GI(4))                           \
    X(max_atomic_size, ptl_size_t, "PTL_LIM_MAX_ATOMIC_SIZE", 512, 0, 512)                         \
    X(max_fetch_atomic_size, ptl_size_t, "PTL_LIM_MAX_FETCH_ATOMIC_SIZE", 512, 8, 512)             \
    X(max_waw_ordered_size, ptl_size_t, "PTL_LIM_MAX_WAW_ORDERED_SIZE", 8, 8, NIC_ORDERED_BYTES)   \
    X(max_war_ordered_size, ptl_size_t, "PTL_LIM_MAX_WAR_ORDERED_SIZE", 8, 8, NIC_ORDERED_BYTES)   \
    X(max_volatile_size, ptl_size_t, "PTL_LIM_MAX_VOLATILE_SIZE", 8, 0, 512)                       \
    X(features, unsigned, "PTL_LIM_FEATURES", 0, 0, 7)

/* The most that a field's type holds. */
#define MOST_int        INT_MAX
#define MOST_unsigned   UINT_MAX
#define MOST_ptl_size_t LONG_MAX

static long long clamp(long long value, long long least, long long most, long long type_most) {
    if (most > type_most)
        most = type_most;
    return value < least ? least : value > most ? most : value;
}

/* A size beyond LONG_MAX is the largest. */
static long long as_number(uint64_t value) {
    return value > LONG_MAX ? LONG_MAX : (long long)value;
}
#define NUMBER_int(value)        ((long long)(value))
#define NUMBER_unsigned(value)   ((long long)(value))
#define NUMBER_ptl_size_t(value) as_number(value)

void portals_limits_clamp(ptl_ni_limits_t *limits) {
#define X(field, type, variable, usual, least, most)                                               \
    limits->field = (type)clamp(NUMBER_##type(limits->field), least, most, MOST_##type);
    LIMITS(X)
#undef X
}

/* The variable's value, or `usual` when it is not set or no number. */
static long long from_environment(const char *(*look_up)(const char *), const char *variable,
                                  long long usual, struct spin_error *err) {
    const char *text = look_up ? look_up(variable) : NULL;
    if (!text || !*text)
        return usual;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 0);
    if (*end || errno) {
        spin_fail(err, SPIN_EARG, "%s: '%.40s' is not a whole number; the limit stays %lld",
                  variable, text, usual);
        return usual;
    }
    return value;
}

void portals_limits_default(ptl_ni_limits_t *limits, const char *(*look_up)(const char *name),
                            struct spin_error *err) {
#define X(field, type, variable, usual, least, most)                                               \
    limits->field =                                                                                \
        (type)clamp(from_environment(look_up, variable, usual, err), least, most, MOST_##type);
    LIMITS(X)
#undef X
}

void portals_limits_fill(ptl_ni_limits_t *limits, const ptl_ni_limits_t *usual) {
#define X(field, type, variable, standard, least, most)                                            \
    if (NUMBER_##type(limits->field) <= 0)                                                         \
        limits->field = usual->field;
    LIMITS(X)
#undef X
}
