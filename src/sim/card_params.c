/* The parameters of the simulated card by name: presets, --set, reports. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/card_private.h"

struct row {
    const char *name, *what, *source;
    int unit;
    size_t offset;
    uint64_t value, min, max;
};

static const struct row rows[] = {
#define CARD_PARAMETER(member, value, unit, min, max, what, source)                                \
    {#member, what, source, CARD_##unit, offsetof(struct card_config, member), value, min, max},
#include "sim/card_params.def"
#undef CARD_PARAMETER
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const char *const policies[] = {"backpressure", "drop", "mark", "kill"};
enum { POLICIES = sizeof policies / sizeof policies[0] };

static uint64_t *value_of(struct card_config *of, const struct row *r) {
    return (uint64_t *)(void *)((char *)of + r->offset);
}

int card_config_preset(struct card_config *to, const char *preset, struct spin_error *err) {
    if (strcmp(preset, "pspin") != 0)
        return spin_fail(err, SPIN_EARG, "no preset '%.60s' of the card; there is: pspin", preset);
    for (int i = 0; i < ROWS; i++)
        *value_of(to, &rows[i]) = rows[i].value;
    to->jit = SPIN_JIT_OFF;
    to->check = false;
    return SPIN_OK;
}

static const struct row *find(const char *name, size_t length) {
    for (int i = 0; i < ROWS; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

static int no_such(const char *name, size_t length, struct spin_error *err) {
    struct text_near near = text_near(name, length);
    for (int i = 0; i < ROWS; i++)
        text_near_try(&near, rows[i].name);
    return spin_fail(
        err, SPIN_EARG,
        "the card has no parameter '%.*s'%s; 'openspin card run --parameters' lists all",
        (int)(length < 40 ? length : 40), name, text_near_hint(&near).text);
}

static bool parse(const struct row *r, const char *text, uint64_t *value) {
    switch (r->unit) {
    case CARD_TIME:
        return units_time_ps(text, value);
    case CARD_RATE:
        return units_per_byte_fs(text, value);
    case CARD_BYTES:
        return units_size(text, value);
    case CARD_CHOICE:
        for (uint64_t i = 0; i < POLICIES; i++)
            if (strcmp(text, policies[i]) == 0) {
                *value = i;
                return true;
            }
        return false;
    }
    size_t digits = strspn(text, "0123456789");
    char number[24];
    if (r->unit == CARD_CYCLES && digits < sizeof number && strcmp(text + digits, "cycles") == 0) {
        memcpy(number, text, digits); /* as it is printed */
        number[digits] = 0;
        return units_u64(number, value);
    }
    return units_u64(text, value);
}

static const char *unit_name(const struct row *r) {
    static const char *const names[] = {
        [CARD_TIME] = "ps", [CARD_RATE] = "fs/B",     [CARD_BYTES] = "B",
        [CARD_NUMBER] = "", [CARD_CYCLES] = "cycles", [CARD_CHOICE] = ""};
    return names[r->unit];
}

int card_config_set(struct card_config *to, const char *assignment, struct spin_error *err) {
    static const char *const expected[] = {
        [CARD_TIME] = "a time of whole picoseconds (such as 1ns)",
        [CARD_RATE] = "a rate (such as 400Gbit/s or 20ps/B)",
        [CARD_BYTES] = "a number of bytes (such as 4096 or 64KiB)",
        [CARD_NUMBER] = "a number",
        [CARD_CYCLES] = "a number of cycles",
        [CARD_CHOICE] = "backpressure, drop, mark or kill",
    };
    const char *equals = strchr(assignment, '=');
    if (!equals)
        return spin_fail(err, SPIN_EARG, "'%.60s': expected NAME=VALUE, such as clusters=2",
                         assignment);
    const struct row *r = find(assignment, (size_t)(equals - assignment));
    if (!r)
        return no_such(assignment, (size_t)(equals - assignment), err);
    uint64_t value = 0;
    if (!parse(r, equals + 1, &value))
        return spin_fail(err, SPIN_EARG, "%s: '%.60s' is not %s", r->name, equals + 1,
                         expected[r->unit]);
    if (value < r->min || value > r->max)
        return spin_fail(err, SPIN_EARG, "%s: '%.60s' is outside the limits, %llu to %llu%s%s",
                         r->name, equals + 1, (unsigned long long)r->min,
                         (unsigned long long)r->max, *unit_name(r) ? " " : "", unit_name(r));
    *value_of(to, r) = value;
    return SPIN_OK;
}

int card_config_check(const struct card_config *of, struct spin_error *err) {
    for (int i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        uint64_t value = *(const uint64_t *)(const void *)((const char *)of + r->offset);
        if (value < r->min || value > r->max)
            return spin_fail(err, SPIN_EARG, "%s: %llu is outside the limits, %llu to %llu%s%s",
                             r->name, (unsigned long long)value, (unsigned long long)r->min,
                             (unsigned long long)r->max, *unit_name(r) ? " " : "", unit_name(r));
    }
    if (of->clusters * of->cluster_hpus > MAX_HPUS)
        return spin_fail(err, SPIN_EARG, "%llu clusters of %llu HPUs: the limit is %u HPUs",
                         (unsigned long long)of->clusters, (unsigned long long)of->cluster_hpus,
                         MAX_HPUS);
    uint64_t set = of->icache_line * of->icache_ways;
    if (of->icache_bytes < set || of->icache_bytes % set)
        return spin_fail(err, SPIN_EARG,
                         "icache_bytes: %llu is no multiple of icache_ways lines, %llu bytes",
                         (unsigned long long)of->icache_bytes, (unsigned long long)set);
    return SPIN_OK;
}

bool card_config_row(const struct card_config *of, int i, struct spin_parameter *row) {
    if (i < 0 || i >= ROWS)
        return false;
    const struct row *r = &rows[i];
    uint64_t value = *(const uint64_t *)(const void *)((const char *)of + r->offset);
    *row = (struct spin_parameter){
        .name = r->name,
        .what = r->what,
        .source = value == r->value ? r->source : SPIN_SET_BY_USER,
    };
    if (r->unit == CARD_TIME)
        units_thousandths(row->value, sizeof row->value, value, "ns");
    else if (r->unit == CARD_RATE)
        units_thousandths(row->value, sizeof row->value, value, "ps/B");
    else if (r->unit == CARD_CHOICE)
        snprintf(row->value, sizeof row->value, "%s", policies[value % POLICIES]);
    else
        snprintf(row->value, sizeof row->value, "%llu%s%s", (unsigned long long)value,
                 *unit_name(r) ? " " : "", unit_name(r));
    return true;
}
