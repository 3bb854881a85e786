#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ESCAPED 4 /* \x1b */

/* Continuation bytes after the first, and the least code point that may be written so. */
static size_t length_of(unsigned char first, unsigned *least) {
    *least = first < 0xe0 ? 0x80 : first < 0xf0 ? 0x800 : 0x10000;
    return first < 0x80   ? 1
           : first < 0xc2 ? 0
           : first < 0xe0 ? 2
           : first < 0xf0 ? 3
           : first < 0xf5 ? 4
                          : 0;
}

/* C0, DEL and C1; and what turns the direction of text or ends a line in Unicode. */
static bool is_control(unsigned code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

size_t text_character(const char *at) {
    const unsigned char *c = (const unsigned char *)at;
    unsigned least;
    size_t length = length_of(c[0], &least);
    unsigned code = length == 1 ? c[0] : length ? c[0] & (0x7fu >> length) : 0;
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (c[i] & 0x3f);
    }
    bool is_none =
        length > 1 && (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000));
    return is_none || is_control(code) ? 0 : length;
}

bool text_is_plain(const char *text) {
    while (*text) {
        size_t length = text_character(text);
        if (!length)
            return false;
        text += length;
    }
    return true;
}

/* The character at `at` as it is shown; returns how many bytes of it that is. */
static size_t show_one(const char *at, char shown[MOST_ESCAPED + 1]) {
    size_t length = text_character(at);
    if (length) {
        memcpy(shown, at, length);
        shown[length] = 0;
        return length;
    }
    static const char letters[] = "\n\t\r", names[] = "ntr";
    const char *letter = strchr(letters, *at);
    if (letter)
        snprintf(shown, MOST_ESCAPED + 1, "\\%c", names[letter - letters]);
    else
        snprintf(shown, MOST_ESCAPED + 1, "\\x%02x", (unsigned char)*at);
    return 1;
}

void text_show(char *to, size_t room, const char *text) {
    char shown[MOST_ESCAPED + 1];
    size_t used = 0;
    while (*text) {
        text += show_one(text, shown);
        size_t length = strlen(shown);
        if (used + length >= room)
            break;
        memcpy(to + used, shown, length);
        used += length;
    }
    to[used] = 0;
}

char *text_shown(const char *text) {
    size_t room = MOST_ESCAPED * strlen(text) + 1;
    char *shown = malloc(room);
    if (shown)
        text_show(shown, room, text);
    return shown;
}

/* ---- What was meant -------------------------------------------------------------------------- */

#define NEAR_LONGEST 32

char *text_assignment(char *line) {
    while (isblank((unsigned char)*line))
        line++;
    char *comment = strstr(line, ", "), *equals = strchr(line, '='), *to = line;
    if (!equals || equals == line || (comment && comment < equals))
        return NULL;
    if (comment)
        *comment = 0;
    for (const char *from = line; *from; from++)
        if (!isblank((unsigned char)*from) && *from != '\r')
            *to++ = *from; /* "20 ps/B" is written 20ps/B on a command line */
    *to = 0;
    return line;
}

struct text_near text_near(const char *name, size_t length) {
    return (struct text_near){.name = name, .length = length, .distance = 2 + 2 * (length / 3)};
}

/* Letters to change, add or take away; neighbours that are exchanged count as one. */
static size_t edits(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t row[3][NEAR_LONGEST + 1];
    for (size_t k = 0; k <= b_length; k++)
        row[0][k] = k;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *now = row[i % 3], *above = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= b_length; k++) {
            size_t least = above[k - 1] + (a[i - 1] != b[k - 1]);
            least = above[k] + 1 < least ? above[k] + 1 : least;
            least = now[k - 1] + 1 < least ? now[k - 1] + 1 : least;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                before[k - 2] + 1 < least)
                least = before[k - 2] + 1;
            now[k] = least;
        }
    }
    return row[a_length % 3][b_length];
}

void text_near_try(struct text_near *near, const char *candidate) {
    size_t length = strlen(candidate), shorter = length < near->length ? length : near->length;
    if (!shorter || near->length > NEAR_LONGEST || length > NEAR_LONGEST)
        return;
    bool begins = shorter > 2 && memcmp(candidate, near->name, shorter) == 0;
    size_t distance = 2 * edits(near->name, near->length, candidate, length);
    if (begins && distance > 3)
        distance = 3;
    if (distance > near->distance || distance >= 2 * near->length ||
        (near->best && distance == near->distance))
        return;
    near->best = candidate;
    near->distance = distance;
}

struct text_hint text_near_hint(const struct text_near *near) {
    struct text_hint hint = {""};
    if (near->best)
        snprintf(hint.text, sizeof hint.text, " (did you mean '%s'?)", near->best);
    return hint;
}
