#include "base/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"

/* "internet or pspin", "random, zero or count" */
static void list_words(const char *const *words, char *text, size_t room) {
    size_t used = 0;
    for (int i = 0; words[i] && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s",
                                 !i             ? ""
                                 : words[i + 1] ? ", "
                                                : " or ",
                                 words[i]);
}

static const char *expected(const struct setting *s, char *text, size_t room) {
    switch (s->kind) {
    case SETTING_COUNT:
        return "a number";
    case SETTING_TIME:
        return "a time of whole picoseconds (such as 20ns)";
    case SETTING_RATE:
        return "a rate (such as 400Gbit/s, or none)";
    case SETTING_BYTES:
        return "a number of bytes (such as 1024 or 4KiB)";
    case SETTING_WORD:
        list_words(s->words, text, room);
        return text;
    case SETTING_TEXT:
        break;
    }
    return "a word";
}

static bool read_rate(const char *text, uint64_t *fs_byte) {
    if (strcmp(text, "none") == 0) {
        *fs_byte = 0;
        return true;
    }
    return units_rate_per_byte_fs(text, fs_byte) && *fs_byte > 0;
}

static bool read_word(const char *text, const char *const *words, unsigned *value) {
    for (unsigned i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0) {
            *value = i;
            return true;
        }
    return false;
}

static bool read_value(const struct setting *s, const char *text) {
    switch (s->kind) {
    case SETTING_COUNT:
        return units_u64(text, s->value);
    case SETTING_TIME:
        return units_time_ps(text, s->value);
    case SETTING_BYTES:
        return units_size(text, s->value);
    case SETTING_RATE:
        return read_rate(text, s->value);
    case SETTING_WORD:
        return read_word(text, s->words, s->value);
    case SETTING_TEXT:
        *(const char **)s->value = text;
        return text[0] != 0;
    }
    return false;
}

static int unknown(const char *what, const char *name, const struct setting *table,
                   struct spin_error *err) {
    char known[200] = "";
    size_t used = 0;
    for (const struct setting *s = table; s->name && used < sizeof known; s++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", s == table ? "" : ", ",
                                 s->name);
    return spin_fail(err, SPIN_EARG, "%s: unknown option '%.60s'; there are %s", what, name, known);
}

static int read_one(const char *what, char *word, const struct setting *table,
                    struct spin_error *err) {
    char *equals = strchr(word, '='), text[100];
    if (!equals)
        return spin_fail(err, SPIN_EARG, "%s: '%.60s': expected NAME=VALUE", what, word);
    *equals = 0;
    const char *value = equals + 1;
    const struct setting *s = table;
    while (s->name && strcmp(s->name, word) != 0)
        s++;
    if (!s->name)
        return unknown(what, word, table, err);
    if (!read_value(s, value))
        return spin_fail(err, SPIN_EARG, "%s: %s: '%.60s' is not %s", what, word, value,
                         expected(s, text, sizeof text));
    bool ranged = s->kind == SETTING_COUNT || s->kind == SETTING_BYTES || s->kind == SETTING_TIME;
    uint64_t got = ranged ? *(const uint64_t *)s->value : 0;
    if (ranged && (got < s->min || got > s->max))
        return spin_fail(err, SPIN_EARG, "%s: %s: %.60s is outside %llu to %llu%s", what, word,
                         value, (unsigned long long)s->min, (unsigned long long)s->max,
                         s->kind == SETTING_TIME ? " ps" : "");
    return SPIN_OK;
}

int settings_read(const char *what, char *text, const struct setting *table,
                  struct spin_error *err) {
    while (text && *text) {
        char *comma = strchr(text, ',');
        if (comma)
            *comma = 0;
        int code = read_one(what, text, table, err);
        if (code)
            return code;
        text = comma ? comma + 1 : NULL;
    }
    return SPIN_OK;
}
