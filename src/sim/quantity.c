#include "sim/quantity.h"

#include <stddef.h>
#include <string.h>

/* mantissa * 10^-decimals, and what follows the number. */
struct decimal {
    uint64_t mantissa;
    unsigned decimals;
    const char *rest;
};

static bool read_decimal(const char *text, struct decimal *d) {
    *d = (struct decimal){0};
    bool digits = false, point = false;
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        digits = true;
        if (d->mantissa > (UINT64_MAX - 9) / 10 || d->decimals == 18)
            return false;
        d->mantissa = 10 * d->mantissa + (uint64_t)(*text - '0');
        d->decimals += point;
    }
    while (*text == ' ')
        text++;
    d->rest = text;
    return digits;
}

static unsigned __int128 power_of_ten(unsigned n) {
    unsigned __int128 p = 1;
    while (n--)
        p *= 10;
    return p;
}

bool quantity_time(const char *text, uint64_t *ps) {
    static const struct {
        const char *unit;
        uint64_t ps;
    } units[] = {{"", 1000},      {"ps", 1},          {"ns", 1000},
                 {"us", 1000000}, {"ms", 1000000000}, {"s", 1000000000000}};
    struct decimal d;
    if (!read_decimal(text, &d))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(d.rest, units[i].unit) != 0)
            continue;
        unsigned __int128 value = (unsigned __int128)d.mantissa * units[i].ps;
        unsigned __int128 scale = power_of_ten(d.decimals);
        if (value % scale || value / scale >= 1ull << 62)
            return false;
        *ps = (uint64_t)(value / scale);
        return true;
    }
    return false;
}

bool quantity_rate(const char *text, uint64_t *fs_per_byte) {
    static const struct {
        const char *unit;
        uint64_t bits_per_second; /* of one unit, or 0 for a time a byte */
        uint64_t fs;              /* a byte */
    } units[] = {{"", 1000000000, 0},
                 {"bit/s", 1, 0},
                 {"kbit/s", 1000, 0},
                 {"Mbit/s", 1000000, 0},
                 {"Gbit/s", 1000000000, 0},
                 {"Tbit/s", 1000000000000, 0},
                 {"MB/s", 8000000, 0},
                 {"GB/s", 8000000000, 0},
                 {"MiB/s", 8ull << 20, 0},
                 {"GiB/s", 8ull << 30, 0},
                 {"fs/B", 0, 1},
                 {"ps/B", 0, 1000},
                 {"ns/B", 0, 1000000}};
    struct decimal d;
    if (!read_decimal(text, &d) || d.mantissa == 0)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(d.rest, units[i].unit) != 0)
            continue;
        unsigned __int128 scale = power_of_ten(d.decimals), value, by;
        if (units[i].bits_per_second) {
            value = 8 * power_of_ten(15) * scale; /* bits a byte, fs a second */
            by = (unsigned __int128)d.mantissa * units[i].bits_per_second;
        } else {
            value = (unsigned __int128)d.mantissa * units[i].fs;
            by = scale;
        }
        value = (value + by / 2) / by;
        if (value == 0 || value > power_of_ten(15))
            return false;
        *fs_per_byte = (uint64_t)value;
        return true;
    }
    return false;
}

bool quantity_probability(const char *text, uint64_t *of_2_32) {
    struct decimal d;
    if (!read_decimal(text, &d))
        return false;
    unsigned exponent = 0;
    if (d.rest[0] == 'e' && d.rest[1] == '-' && d.rest[2] >= '0' && d.rest[2] <= '9') {
        const char *at = d.rest + 2;
        for (; *at >= '0' && *at <= '9' && exponent < 100; at++)
            exponent = 10 * exponent + (unsigned)(*at - '0');
        d.rest = at;
    }
    if (strcmp(d.rest, "%") == 0)
        exponent += 2;
    else if (*d.rest)
        return false;
    exponent += d.decimals;
    if (exponent > 28)
        return false;
    unsigned __int128 scale = power_of_ten(exponent);
    unsigned __int128 value = ((unsigned __int128)d.mantissa << 32) / scale;
    if (value > 1ull << 32)
        return false;
    *of_2_32 = (uint64_t)value;
    return true;
}
