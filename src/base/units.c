#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool units_u64(const char *text, uint64_t *value) {
    if (!isdigit((unsigned char)text[0]))
        return false; /* strtoull would take blanks and signs */
    int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
    char *end;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, base);
    if (errno || *end || (base == 16 && !text[2]))
        return false;
    *value = parsed;
    return true;
}

bool units_size(const char *text, uint64_t *bytes) {
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = {{"B", 1},          {"K", 1ull << 10}, {"KiB", 1ull << 10},
                 {"kB", 1000},      {"M", 1ull << 20}, {"MiB", 1ull << 20},
                 {"MB", 1000000},   {"G", 1ull << 30}, {"GiB", 1ull << 30},
                 {"GB", 1000000000}};
    if (units_u64(text, bytes))
        return true;
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno)
        return false;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].unit) == 0)
            return !__builtin_mul_overflow((uint64_t)number, units[i].factor, bytes);
    return false;
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* "12.345unit" before the unit is known. */
struct decimal {
    uint64_t digits; /* without the point */
    uint64_t scale;  /* 10 to the number of decimals */
    const char *unit;
};

/* False if there is no number, or more than 18 digits, which no quantity here needs. */
static bool read_decimal(const char *text, struct decimal *d) {
    *d = (struct decimal){0, 1, text};
    int count = 0;
    bool point = false;
    for (; isdigit((unsigned char)*text) || (*text == '.' && !point); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        if (++count > 18)
            return false;
        d->digits = d->digits * 10 + (uint64_t)(*text - '0');
        if (point)
            d->scale *= 10;
    }
    if (count == 0 || (point && d->scale == 1))
        return false; /* nothing, or "5." */
    while (*text == ' ')
        text++;
    d->unit = text;
    return true;
}

/* The decimal times the factor; false when that is not a whole number or does not fit. */
static bool exactly(const struct decimal *d, uint64_t factor, uint64_t *value) {
    unsigned __int128 scaled = (unsigned __int128)d->digits * factor;
    if (scaled % d->scale != 0 || scaled / d->scale > UINT64_MAX)
        return false;
    *value = (uint64_t)(scaled / d->scale);
    return true;
}

static const struct unit time_units[] = {
    {"fs", 1},          {"ps", 1000},          {"ns", 1000000},
    {"us", 1000000000}, {"ms", 1000000000000}, {"s", 1000000000000000}};

/* The unit's factor in femtoseconds, or 0. No unit means nanoseconds. */
static uint64_t time_factor(const char *unit, size_t length) {
    if (length == 0)
        return 1000000;
    for (size_t i = 0; i < sizeof time_units / sizeof time_units[0]; i++)
        if (strlen(time_units[i].name) == length && memcmp(time_units[i].name, unit, length) == 0)
            return time_units[i].factor;
    return 0;
}

bool units_time_ps(const char *text, uint64_t *ps) {
    struct decimal d;
    if (!read_decimal(text, &d))
        return false;
    uint64_t factor = time_factor(d.unit, strlen(d.unit));
    if (factor == 1) { /* femtoseconds: through the same check, divided by 1000 */
        d.scale *= 1000;
        return d.scale <= 1000000000000000000 && exactly(&d, 1, ps);
    }
    return factor && exactly(&d, factor / 1000, ps);
}

bool units_rate(const char *text, uint64_t *bits_per_s) {
    static const struct unit units[] = {{"bit/s", 1},
                                        {"kbit/s", 1000},
                                        {"Mbit/s", 1000000},
                                        {"Gbit/s", 1000000000},
                                        {"Tbit/s", 1000000000000},
                                        {"B/s", 8},
                                        {"kB/s", 8000},
                                        {"MB/s", 8000000},
                                        {"GB/s", 8000000000},
                                        {"TB/s", 8000000000000},
                                        {"KiB/s", 8ull << 10},
                                        {"MiB/s", 8ull << 20},
                                        {"GiB/s", 8ull << 30}};
    struct decimal d;
    if (!read_decimal(text, &d))
        return false;
    if (!*d.unit)
        d.unit = "Gbit/s";
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(d.unit, units[i].name) == 0)
            return exactly(&d, units[i].factor, bits_per_s) && *bits_per_s > 0;
    return false;
}

bool units_clock_ps(const char *text, uint64_t *ps) {
    static const struct unit units[] = {
        {"", 1000000}, {"Hz", 1}, {"kHz", 1000}, {"MHz", 1000000}, {"GHz", 1000000000}};
    struct decimal d;
    uint64_t hertz;
    if (!read_decimal(text, &d))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(d.unit, units[i].name) == 0 && exactly(&d, units[i].factor, &hertz) && hertz) {
            *ps = (1000000000000 + hertz / 2) / hertz;
            return *ps > 0;
        }
    return false;
}

bool units_rate_per_byte_fs(const char *text, uint64_t *fs) {
    uint64_t bits_per_s;
    if (!units_rate(text, &bits_per_s))
        return false;
    *fs = (8000000000000000 + bits_per_s / 2) / bits_per_s;
    return true;
}

bool units_per_byte_fs(const char *text, uint64_t *fs) {
    struct decimal d;
    if (!read_decimal(text, &d))
        return false;
    if (*d.unit && units_rate_per_byte_fs(text, fs))
        return true;
    size_t length = strlen(d.unit);
    if (length >= 2 && strcmp(d.unit + length - 2, "/B") == 0)
        length -= 2;
    uint64_t factor = time_factor(d.unit, length);
    return factor && exactly(&d, factor, fs);
}

bool units_probability(const char *text, uint64_t *of_2_32) {
    struct decimal d;
    if (!read_decimal(text, &d))
        return false;
    unsigned exponent = 0;
    const char *at = d.unit;
    if (at[0] == 'e' && at[1] == '-' && isdigit((unsigned char)at[2]))
        for (at += 2; isdigit((unsigned char)*at) && exponent < 100; at++)
            exponent = 10 * exponent + (unsigned)(*at - '0');
    exponent += *at == '%' ? 2 : 0;
    at += *at == '%';
    if (*at)
        return false;
    unsigned __int128 value = ((unsigned __int128)d.digits << 32) / d.scale;
    for (; exponent && value; exponent--)
        value /= 10;
    *of_2_32 = (uint64_t)value;
    return value <= 1ull << 32;
}

void units_thousandths(char *text, size_t room, uint64_t value, const char *unit) {
    unsigned fraction = (unsigned)(value % 1000), digits = 3;
    for (; digits > 0 && fraction % 10 == 0; digits--)
        fraction /= 10;
    if (digits)
        snprintf(text, room, "%llu.%0*u %s", (unsigned long long)(value / 1000), (int)digits,
                 fraction, unit);
    else
        snprintf(text, room, "%llu %s", (unsigned long long)(value / 1000), unit);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

long units_hex(const char *text, uint8_t *out, long room) {
    long count = 0;
    while (*text) {
        if (isspace((unsigned char)*text) || *text == ':' || *text == '_') {
            text++;
            continue;
        }
        int high = hex_digit(text[0]);
        int low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0)
            return -1;
        if (out && count < room)
            out[count] = (uint8_t)(high << 4 | low);
        count++;
        text += 2;
    }
    return count;
}

void units_count(char *text, size_t room, uint64_t value) {
    char digits[21];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    size_t used = 0;
    for (int i = 0; i < length && used + 2 < room; i++) {
        if (i && (length - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
}
