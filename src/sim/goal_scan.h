/* The scanner under the GOAL text readers: tokens with line and column, nothing copied. */
#ifndef SPIN_SIM_GOAL_SCAN_H
#define SPIN_SIM_GOAL_SCAN_H

#include <string.h>

#include "sim/goal.h"

struct goal_scan {
    const char *name;       /* of the file, for messages */
    const char *at, *end;   /* *end is 0 */
    const char *line_start; /* of the current line */
    uint32_t line;
    struct spin_goal *goal;
    struct spin_error *err;
};

struct goal_word {
    const char *at;
    uint32_t length;
    uint32_t hash;
};

/* "name:line:column: what". `where` lies in the current line. Returns SPIN_EFORMAT. */
int scan_fail(struct goal_scan *s, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with what stands at `where` quoted: "expected X, found 'y'". */
int scan_expected(struct goal_scan *s, const char *where, const char *what);

/* Skips /-comments at s->at; 0 on success with s->at behind it. */
int scan_comment(struct goal_scan *s);

static inline bool scan_is_letter(char c) {
    return (unsigned char)((c | 32) - 'a') < 26;
}
static inline bool scan_is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

/* Blanks and comments, not the end of the line. False after an error. */
static inline bool scan_blanks(struct goal_scan *s) {
    for (;;) {
        char c = *s->at;
        if (c == ' ' || c == '\t' || c == '\r')
            s->at++;
        else if (c != '/')
            return true;
        else if (scan_comment(s) != 0)
            return false;
    }
}

/* The same and ends of lines. */
static inline bool scan_lines(struct goal_scan *s) {
    for (;;) {
        if (!scan_blanks(s))
            return false;
        if (*s->at != '\n')
            return true;
        s->line_start = ++s->at;
        s->line++;
    }
}

/* A word at s->at: [a-zA-Z][a-zA-Z0-9_]*, or length 0. */
static inline struct goal_word scan_word(struct goal_scan *s) {
    const char *from = s->at, *p = from;
    uint32_t hash = 0x811c9dc5u;
    if (scan_is_letter(*p))
        do
            hash = (hash ^ (unsigned char)*p++) * 0x01000193u;
        while (scan_is_letter(*p) || scan_is_digit(*p) || *p == '_');
    s->at = p;
    return (struct goal_word){from, (uint32_t)(p - from), hash};
}

static inline bool word_is(struct goal_word w, const char *text, uint32_t length) {
    return w.length == length && memcmp(w.at, text, length) == 0;
}
#define WORD_IS(w, literal) word_is(w, "" literal, sizeof(literal) - 1)

/* Within a statement blanks are optional, also behind a keyword: "8bto 1tag5". */
static inline bool scan_prefix(struct goal_scan *s, const char *word, size_t length) {
    if (strncmp(s->at, word, length) != 0)
        return false;
    s->at += length;
    return true;
}
#define SCAN_PREFIX(s, literal) scan_prefix(s, "" literal, sizeof(literal) - 1)

/* An unsigned number of at most `most`; `what` names it in the message. */
int scan_number(struct goal_scan *s, const char *what, uint64_t most, uint64_t *value);
/* The same, or -1 for GOAL_ANY. */
int scan_number_or_any(struct goal_scan *s, const char *what, uint64_t most, uint32_t *value);
/* The keyword, which must be there. */
int scan_keyword(struct goal_scan *s, const char *word);
/* A number and "b". */
int scan_bytes(struct goal_scan *s, uint64_t *bytes);
/* A rank below num_ranks. */
int scan_rank(struct goal_scan *s, const char *what, uint32_t *rank);

/* goal_text_portals.c: the rest of an operation of the Portals dialect; op->type is set. */
int scan_portals_op(struct goal_scan *s, struct goal_op *op, struct goal_portals *portals);

#endif
