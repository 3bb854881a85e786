#include "sim/goal_scan.h"

#include <ctype.h>
#include <stdarg.h>

#include "base/error.h"

int scan_fail(struct goal_scan *s, const char *where, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return spin_fail(s->err, SPIN_EFORMAT, "%s:%u:%llu: %s", s->name, s->line,
                     (unsigned long long)(where - s->line_start + 1), text);
}

int scan_expected(struct goal_scan *s, const char *where, const char *what) {
    if (where >= s->end)
        return scan_fail(s, where, "expected %s, found the end of the file", what);
    if (*where == '\n')
        return scan_fail(s, where, "expected %s, found the end of the line", what);
    int length = 0;
    while (length < 20 && where + length < s->end && isgraph((unsigned char)where[length]))
        length++;
    if (length == 0)
        return scan_fail(s, where, "expected %s, found byte 0x%02x", what, (unsigned char)*where);
    return scan_fail(s, where, "expected %s, found '%.*s'", what, length, where);
}

int scan_comment(struct goal_scan *s) {
    if (s->at[1] == '/') {
        const char *end = memchr(s->at, '\n', (size_t)(s->end - s->at));
        s->at = end ? end : s->end;
        return 0;
    }
    if (s->at[1] != '*')
        return scan_expected(s, s->at, "a statement or a comment");
    const char *from = s->at, *line_start = s->line_start;
    uint32_t line = s->line;
    for (s->at += 2; s->at < s->end; s->at++) {
        if (s->at[0] == '*' && s->at[1] == '/') {
            s->at += 2;
            return 0;
        }
        if (*s->at == '\n') {
            s->line++;
            s->line_start = s->at + 1;
        }
    }
    s->line = line; /* the place to look at is where it began */
    s->line_start = line_start;
    return scan_fail(s, from, "comment is not closed: '*/' is missing");
}

int scan_number(struct goal_scan *s, const char *what, uint64_t most, uint64_t *value) {
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    const char *from = s->at;
    if (!scan_is_digit(*from))
        return scan_expected(s, from, what);
    uint64_t number = 0;
    bool over = false;
    const char *p = from;
    for (; scan_is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (p - from < 18) /* 18 digits always fit */
            number = number * 10 + digit;
        else
            over |= __builtin_mul_overflow(number, 10ull, &number) ||
                    __builtin_add_overflow(number, digit, &number);
    }
    if (over || number > most)
        return scan_fail(s, from, "%s is over the limit of %llu", what, (unsigned long long)most);
    s->at = p;
    *value = number;
    return 0;
}

int scan_number_or_any(struct goal_scan *s, const char *what, uint64_t most, uint32_t *value) {
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    if (s->at[0] == '-' && s->at[1] == '1' && !scan_is_digit(s->at[2])) {
        s->at += 2;
        *value = GOAL_ANY;
        return 0;
    }
    uint64_t number;
    int code = scan_number(s, what, most, &number);
    if (code == 0)
        *value = (uint32_t)number;
    return code;
}

int scan_keyword(struct goal_scan *s, const char *word) {
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    if (scan_prefix(s, word, strlen(word)))
        return 0;
    char what[40];
    snprintf(what, sizeof what, "'%s'", word);
    return scan_expected(s, s->at, what);
}

int scan_bytes(struct goal_scan *s, uint64_t *bytes) {
    int code = scan_number(s, "a number of bytes", UINT64_MAX, bytes);
    return code ? code : scan_keyword(s, "b");
}

int scan_rank(struct goal_scan *s, const char *what, uint32_t *rank) {
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    const char *from = s->at;
    uint64_t number;
    int code = scan_number(s, what, UINT32_MAX, &number);
    if (code)
        return code;
    if (number >= s->goal->num_ranks)
        return scan_fail(s, from, "rank %llu does not exist: num_ranks is %u, so ranks are 0 to %u",
                         (unsigned long long)number, s->goal->num_ranks, s->goal->num_ranks - 1);
    *rank = (uint32_t)number;
    return 0;
}
