#include "sim/parameters.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

static uint64_t *value_of(void *config, const struct parameter_row *r) {
    return (uint64_t *)(void *)((char *)config + r->offset);
}

static uint64_t value_in(const void *config, const struct parameter_row *r) {
    return *(const uint64_t *)(const void *)((const char *)config + r->offset);
}

void parameters_preset(const struct parameter_table *t, void *config) {
    for (int i = 0; i < t->rows; i++)
        *value_of(config, &t->row[i]) = t->row[i].value;
}

static const struct parameter_row *find(const struct parameter_table *t, const char *name,
                                        size_t length) {
    for (int i = 0; i < t->rows; i++)
        if (strlen(t->row[i].name) == length && memcmp(t->row[i].name, name, length) == 0)
            return &t->row[i];
    return NULL;
}

static int no_such(const struct parameter_table *t, const char *name, size_t length,
                   struct spin_error *err) {
    struct text_near near = text_near(name, length);
    for (int i = 0; i < t->rows; i++)
        text_near_try(&near, t->row[i].name);
    return spin_fail(err, SPIN_EARG, "%s has no parameter '%.*s'%s; '%s' lists all", t->whose,
                     (int)(length < 40 ? length : 40), name, text_near_hint(&near).text, t->list);
}

static bool parse(const struct parameter_row *r, const char *text, uint64_t *value) {
    switch (r->unit) {
    case PARAMETER_TIME:
        return units_time_ps(text, value);
    case PARAMETER_RATE:
        return units_per_byte_fs(text, value);
    case PARAMETER_BYTES:
        return units_size(text, value);
    case PARAMETER_CHOICE:
        for (uint64_t i = 0; r->words[i]; i++)
            if (strcmp(text, r->words[i]) == 0) {
                *value = i;
                return true;
            }
        return false;
    case PARAMETER_NUMBER:
    case PARAMETER_CYCLES:
        break;
    }
    size_t digits = strspn(text, "0123456789");
    char number[24];
    if (r->unit == PARAMETER_CYCLES && digits < sizeof number &&
        strcmp(text + digits, "cycles") == 0) {
        memcpy(number, text, digits); /* as it is printed */
        number[digits] = 0;
        return units_u64(number, value);
    }
    return units_u64(text, value);
}

/* "backpressure, drop, mark or kill" */
static void name_words(const struct parameter_row *r, char *text, size_t room) {
    size_t used = 0;
    for (int i = 0; r->words[i] && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s",
                                 i == 0            ? ""
                                 : r->words[i + 1] ? ", "
                                                   : " or ",
                                 r->words[i]);
}

static const char *unit_name(const struct parameter_row *r) {
    static const char *const names[] = {
        [PARAMETER_TIME] = "ps", [PARAMETER_RATE] = "fs/B",     [PARAMETER_BYTES] = "B",
        [PARAMETER_NUMBER] = "", [PARAMETER_CYCLES] = "cycles", [PARAMETER_CHOICE] = ""};
    return names[r->unit];
}

static int not_parsed(const struct parameter_row *r, const char *text, struct spin_error *err) {
    static const char *const expected[] = {
        [PARAMETER_TIME] = "a time of whole picoseconds (such as 1ns)",
        [PARAMETER_RATE] = "a rate (such as 400Gbit/s or 20ps/B)",
        [PARAMETER_BYTES] = "a number of bytes (such as 4096 or 64KiB)",
        [PARAMETER_NUMBER] = "a number",
        [PARAMETER_CYCLES] = "a number of cycles",
    };
    char words[120] = "";
    if (r->unit == PARAMETER_CHOICE)
        name_words(r, words, sizeof words);
    return spin_fail(err, SPIN_EARG, "%s: '%.60s' is not %s", r->name, text,
                     *words ? words : expected[r->unit]);
}

int parameters_set(const struct parameter_table *t, void *config, const char *assignment,
                   struct spin_error *err) {
    const char *equals = strchr(assignment, '=');
    if (!equals)
        return spin_fail(err, SPIN_EARG, "'%.60s': expected NAME=VALUE, such as %s", assignment,
                         t->example);
    const struct parameter_row *r = find(t, assignment, (size_t)(equals - assignment));
    if (!r)
        return no_such(t, assignment, (size_t)(equals - assignment), err);
    uint64_t value = 0;
    if (!parse(r, equals + 1, &value))
        return not_parsed(r, equals + 1, err);
    if (value < r->min || value > r->max)
        return spin_fail(err, SPIN_EARG, "%s: '%.60s' is outside the limits, %llu to %llu%s%s",
                         r->name, equals + 1, (unsigned long long)r->min,
                         (unsigned long long)r->max, *unit_name(r) ? " " : "", unit_name(r));
    *value_of(config, r) = value;
    return SPIN_OK;
}

int parameters_check(const struct parameter_table *t, const void *config, struct spin_error *err) {
    for (int i = 0; i < t->rows; i++) {
        const struct parameter_row *r = &t->row[i];
        uint64_t value = value_in(config, r);
        if (value < r->min || value > r->max)
            return spin_fail(err, SPIN_EARG, "%s: %llu is outside the limits, %llu to %llu%s%s",
                             r->name, (unsigned long long)value, (unsigned long long)r->min,
                             (unsigned long long)r->max, *unit_name(r) ? " " : "", unit_name(r));
    }
    return SPIN_OK;
}

bool parameters_row(const struct parameter_table *t, const void *config, int i,
                    struct spin_parameter *row) {
    if (i < 0 || i >= t->rows)
        return false;
    const struct parameter_row *r = &t->row[i];
    uint64_t value = value_in(config, r);
    *row = (struct spin_parameter){
        .name = r->name,
        .what = r->what,
        .source = value == r->value ? r->source : SPIN_SET_BY_USER,
    };
    if (r->unit == PARAMETER_TIME)
        units_thousandths(row->value, sizeof row->value, value, "ns");
    else if (r->unit == PARAMETER_RATE)
        units_thousandths(row->value, sizeof row->value, value, "ps/B");
    else if (r->unit == PARAMETER_CHOICE)
        snprintf(row->value, sizeof row->value, "%s", r->words[value]);
    else
        snprintf(row->value, sizeof row->value, "%llu%s%s", (unsigned long long)value,
                 *unit_name(r) ? " " : "", unit_name(r));
    return true;
}
