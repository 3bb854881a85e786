/* The parameters of the simulated card by name: presets, --set, reports. */
#include <string.h>

#include "base/error.h"
#include "sim/card_private.h"
#include "sim/parameters.h"

static const char *const policies[] = {"backpressure", "drop", "mark", "kill", NULL};

static const struct parameter_row rows[] = {
#define CARD_PARAMETER(member, value, unit, min, max, what, source)                                \
    {#member,                                                                                      \
     what,                                                                                         \
     source,                                                                                       \
     PARAMETER_##unit,                                                                             \
     offsetof(struct card_config, member),                                                         \
     value,                                                                                        \
     min,                                                                                          \
     max,                                                                                          \
     PARAMETER_##unit == PARAMETER_CHOICE ? policies : NULL},
#include "sim/card_params.def"
#undef CARD_PARAMETER
};

static const struct parameter_table table = {.whose = "the card",
                                             .example = "clusters=2",
                                             .list = "openspin card run --parameters",
                                             .row = rows,
                                             .rows = sizeof rows / sizeof rows[0]};

int card_config_preset(struct card_config *to, const char *preset, struct spin_error *err) {
    if (strcmp(preset, "pspin") != 0)
        return spin_fail(err, SPIN_EARG, "no preset '%.60s' of the card; there is: pspin", preset);
    parameters_preset(&table, to);
    to->core = NULL;
    to->jit = SPIN_JIT_OFF;
    to->check = false;
    return SPIN_OK;
}

int card_config_set(struct card_config *to, const char *assignment, struct spin_error *err) {
    return parameters_set(&table, to, assignment, err);
}

int card_config_check(const struct card_config *of, struct spin_error *err) {
    int code = parameters_check(&table, of, err);
    if (code)
        return code;
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
    return parameters_row(&table, of, i, row);
}
