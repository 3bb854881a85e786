/* Reads JSON: every scalar with its path, in one pass, nothing kept. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { DEEPEST = 32, LONGEST_PATH = 200 };

struct reader {
    const char *at, *end;
    json_visit *each;
    void *user;
    char path[LONGEST_PATH];
    size_t path_length;
    int depth, arrays;
    char *text; /* of a string, unescaped */
    size_t room;
};

static void skip_blanks(struct reader *r) {
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
}

static bool take(struct reader *r, char c) {
    skip_blanks(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* A code point as UTF-8. Halves of a pair stay halves: nobody here writes them. */
static size_t encode(unsigned code, char *to) {
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    to[0] = (char)(0xe0 | code >> 12);
    to[1] = (char)(0x80 | (code >> 6 & 63));
    to[2] = (char)(0x80 | (code & 63));
    return 3;
}

/* What follows a backslash; returns its bytes, 0 for nonsense. */
static size_t escape(struct reader *r, char *to) {
    static const char from[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    const char *known = c ? strchr(from, c) : NULL;
    if (known) {
        *to = plain[known - from];
        return 1;
    }
    unsigned code = 0;
    if (c != 'u' || r->end - r->at < 4)
        return 0;
    for (int i = 0; i < 4; i++, r->at++) {
        if (!isxdigit((unsigned char)*r->at))
            return 0;
        code = code * 16 + (unsigned)(*r->at <= '9' ? *r->at - '0' : (*r->at | 32) - 'a' + 10);
    }
    return code ? encode(code, to) : 0;
}

/* Behind the opening quote; leaves the text in r->text. */
static bool string(struct reader *r) {
    size_t used = 0;
    for (;;) {
        if (used + 4 > r->room) {
            size_t room = r->room ? 2 * r->room : 64;
            char *larger = realloc(r->text, room);
            if (!larger)
                return false;
            r->text = larger;
            r->room = room;
        }
        if (r->at >= r->end || (unsigned char)*r->at < 0x20)
            return false;
        char c = *r->at++;
        size_t length = 1;
        if (c == '"')
            break;
        if (c == '\\')
            length = escape(r, r->text + used);
        else
            r->text[used] = c;
        if (!length)
            return false;
        used += length;
    }
    r->text[used] = 0;
    return true;
}

static bool word(struct reader *r) {
    const char *from = r->at;
    while (r->at < r->end && (isalnum((unsigned char)*r->at) || strchr("+-.", *r->at)) && *r->at)
        r->at++;
    size_t length = (size_t)(r->at - from);
    char text[64], *end;
    if (!length || length >= sizeof text)
        return false;
    memcpy(text, from, length);
    text[length] = 0;
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0 && strcmp(text, "null") != 0) {
        if (*text != '-' && !isdigit((unsigned char)*text))
            return false;
        if (text[strspn(text, "0123456789+-.eE")]) /* strtod knows more than JSON */
            return false;
        strtod(text, &end);
        if (*end)
            return false;
    }
    r->each(r->user, r->path, text, r->arrays > 0);
    return true;
}

static bool value(struct reader *r);

/* A member or element: `name` is added to the path while it is read. */
static bool inner(struct reader *r, const char *name) {
    size_t before = r->path_length, length = strlen(name);
    if (before + length + 2 > sizeof r->path)
        return false;
    if (before)
        r->path[r->path_length++] = '.';
    memcpy(r->path + r->path_length, name, length + 1);
    r->path_length += length;
    bool good = value(r);
    r->path_length = before;
    r->path[before] = 0;
    return good;
}

static bool members(struct reader *r) {
    if (take(r, '}'))
        return true;
    do {
        if (!take(r, '"') || !string(r))
            return false;
        char name[LONGEST_PATH];
        if (strlen(r->text) >= sizeof name)
            return false;
        strcpy(name, r->text);
        if (!take(r, ':') || !inner(r, name))
            return false;
    } while (take(r, ','));
    return take(r, '}');
}

static bool elements(struct reader *r) {
    if (take(r, ']'))
        return true;
    bool good;
    unsigned i = 0;
    r->arrays++;
    do {
        char name[16];
        snprintf(name, sizeof name, "%u", i++);
        good = inner(r, name);
    } while (good && take(r, ','));
    r->arrays--;
    return good && take(r, ']');
}

static bool value(struct reader *r) {
    if (r->depth >= DEEPEST)
        return false;
    r->depth++;
    bool good;
    if (take(r, '{'))
        good = members(r);
    else if (take(r, '['))
        good = elements(r);
    else if (take(r, '"')) {
        good = string(r);
        if (good)
            r->each(r->user, r->path, r->text, r->arrays > 0);
    } else {
        good = word(r);
    }
    r->depth--;
    return good;
}

bool json_read(const char *text, size_t length, json_visit *each, void *user) {
    struct reader r = {.at = text, .end = text + length, .each = each, .user = user};
    bool good = value(&r);
    skip_blanks(&r);
    free(r.text);
    return good && r.at == r.end;
}
