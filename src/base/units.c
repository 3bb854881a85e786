#include "base/units.h"

#include <ctype.h>
#include <errno.h>
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
    } units[] = {{"B", 1},
                 {"K", 1ull << 10},
                 {"KiB", 1ull << 10},
                 {"kB", 1000},
                 {"M", 1ull << 20},
                 {"MiB", 1ull << 20},
                 {"MB", 1000000},
                 {"G", 1ull << 30},
                 {"GiB", 1ull << 30},
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
