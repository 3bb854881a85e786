/* Names and paths that came from outside, as they are shown: what would move the cursor, begin a
 * line or is no UTF-8 appears as \n, \x1b and the like, so that one line stays one line. */
#ifndef SPIN_BASE_TEXT_H
#define SPIN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at `at`, if it is UTF-8 and no control character; 0 if not, or at the end.
 */
size_t text_character(const char *at);
/* Whether it is shown as it is. */
bool text_is_plain(const char *text);
/* As it is shown, in at most `room` bytes with the 0: whole characters, as many as fit. */
void text_show(char *to, size_t room, const char *text);
/* The same as a new string, NULL without memory. A text that is plain is copied. */
char *text_shown(const char *text);

/* A line "  cycle = 1 ns, clock ..." of a parameter file becomes "cycle=1ns", in place; NULL: it is
 * nothing of the kind. */
char *text_assignment(char *line);

/* The candidate that is likeliest meant by a misspelt name: few letters differ, or one is the
 * other's beginning. Try all, then ask for the hint: " (did you mean 'network_rate'?)", or nothing.
 */
struct text_near {
    const char *name;
    size_t length;
    const char *best;
    size_t distance; /* in half letters */
};
struct text_near text_near(const char *name, size_t length);
void text_near_try(struct text_near *near, const char *candidate);
struct text_hint {
    char text[80];
};
struct text_hint text_near_hint(const struct text_near *near);

#endif
