#include "base/text.h"

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
