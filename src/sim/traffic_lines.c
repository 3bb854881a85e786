#include "sim/traffic_lines.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"

static void blanks(struct number_lines *l) {
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t' || *l->at == '\r'))
        l->at++;
}

static int complain(const struct number_lines *l, const char *start, unsigned i, unsigned count,
                    const char *what, struct spin_error *err) {
    return spin_fail(err, SPIN_EFORMAT,
                     "%.200s:%llu:%llu: expected %u numbers up to 4294967295 (%s), found %u",
                     l->name, (unsigned long long)l->line, (unsigned long long)(l->at - start) + 1,
                     count, what, i);
}

static bool read_number(struct number_lines *l, uint32_t *number) {
    uint64_t value = 0;
    const char *from = l->at;
    for (; l->at < l->end && isdigit((unsigned char)*l->at); l->at++) {
        value = value * 10 + (uint64_t)(*l->at - '0');
        if (value > UINT32_MAX) {
            l->at = from;
            return false;
        }
    }
    *number = (uint32_t)value;
    return l->at > from;
}

/* A number, or an IPv4 address with dots, which is noted as bit i of `dotted`. */
static bool read_field(struct number_lines *l, unsigned i, uint32_t *number) {
    const char *from = l->at;
    uint32_t byte, address = 0;
    if (!read_number(l, number))
        return false;
    if (l->at == l->end || *l->at != '.')
        return true;
    l->at = from;
    for (int k = 0; k < 4; k++) {
        if (k && (l->at == l->end || *l->at++ != '.'))
            return false;
        if (!read_number(l, &byte) || byte > 255)
            return false;
        address = address << 8 | byte;
    }
    *number = address;
    l->dotted |= 1u << i;
    return true;
}

int number_lines_next(struct number_lines *l, char separator, const char *what, uint32_t *numbers,
                      unsigned count, struct spin_error *err) {
    const char *start;
    for (;;) {
        start = l->at;
        l->line++;
        blanks(l);
        if (l->at == l->end)
            return 0;
        if (*l->at != '\n')
            break;
        l->at++;
    }
    l->dotted = 0;
    for (unsigned i = 0; i < count; i++) {
        if (i && separator != ' ') {
            if (l->at == l->end || *l->at != separator)
                return complain(l, start, i, count, what, err);
            l->at++;
            blanks(l);
        }
        if (!read_field(l, i, &numbers[i]))
            return complain(l, start, i, count, what, err);
        const char *behind = l->at;
        blanks(l);
        /* "12x" is no number, and neither is "1 2" with commas asked for */
        if (l->at < l->end && behind == l->at && *l->at != '\n' && *l->at != separator)
            return complain(l, start, i, count, what, err);
    }
    if (l->at < l->end && *l->at != '\n')
        return spin_fail(err, SPIN_EFORMAT, "%.200s:%llu:%llu: more than %u numbers (%s)", l->name,
                         (unsigned long long)l->line, (unsigned long long)(l->at - start) + 1,
                         count, what);
    l->at += l->at < l->end;
    return 1;
}

void number_lines_skip(struct number_lines *l) {
    const char *end = memchr(l->at, '\n', (size_t)(l->end - l->at));
    l->at = end ? end + 1 : l->end;
    l->line++;
}
