/* The parameters of an IOMMU and of the host behind it by name. */
#include "sim/paging.h"
#include "sim/parameters.h"

static const char *const memories[] = {"off", "demand", "present", NULL};
static const char *const policies[] = {"one", "block", "all", NULL};
static const char *const errs[] = {"late", "early", "block", "none", NULL};

static const struct parameter_row rows[] = {
#define PAGING_PARAMETER(name, member, value, unit, words, min, max, what, source)                 \
    {"paging." name,                                                                               \
     what,                                                                                         \
     source,                                                                                       \
     PARAMETER_##unit,                                                                             \
     offsetof(struct paging_config, member),                                                       \
     value,                                                                                        \
     min,                                                                                          \
     max,                                                                                          \
     words},
#include "sim/paging_params.def"
#undef PAGING_PARAMETER
};

static const struct parameter_table table = {.whose = "a world",
                                             .example = "paging.memory=demand",
                                             .list = "openspin sim run --parameters",
                                             .row = rows,
                                             .rows = sizeof rows / sizeof rows[0]};

void paging_config_default(struct paging_config *to) {
    parameters_preset(&table, to);
}

int paging_config_set(struct paging_config *to, const char *assignment, struct spin_error *err) {
    return parameters_set(&table, to, assignment, err);
}

bool paging_config_row(const struct paging_config *of, int i, struct spin_parameter *row) {
    return parameters_row(&table, of, i, row);
}
