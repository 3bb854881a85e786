/* Parameters as a table: rows that say which member of a configuration has which name, unit, value,
 * limits and source, and what is done with such a table: presets, --set, reports. All members are
 * uint64_t. */
#ifndef SPIN_SIM_PARAMETERS_H
#define SPIN_SIM_PARAMETERS_H

#include <stddef.h>

#include "openspin.h"

enum parameter_unit {
    PARAMETER_TIME, /* ps */
    PARAMETER_RATE, /* fs per byte */
    PARAMETER_BYTES,
    PARAMETER_NUMBER,
    PARAMETER_CYCLES,
    PARAMETER_CHOICE, /* the place of a word in `words` */
};

struct parameter_row {
    const char *name, *what, *source;
    enum parameter_unit unit;
    size_t offset;
    uint64_t value, min, max;
    const char *const *words; /* of a choice, ended by NULL */
};

struct parameter_table {
    const char *whose;   /* "the card" */
    const char *example; /* "clusters=2" */
    const char *list;    /* the command that shows all */
    const struct parameter_row *row;
    int rows;
};

void parameters_preset(const struct parameter_table *table, void *config);
int parameters_set(const struct parameter_table *table, void *config, const char *assignment,
                   struct spin_error *err);
/* Every value within its limits? */
int parameters_check(const struct parameter_table *table, const void *config,
                     struct spin_error *err);
/* False after the last. */
bool parameters_row(const struct parameter_table *table, const void *config, int i,
                    struct spin_parameter *row);

#endif
