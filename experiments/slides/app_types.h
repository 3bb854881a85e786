/* Datatypes of applications, by the shapes that their halo exchanges are known for (the public
 * benchmark ddtbench and the codes themselves): the slides name applications, not numbers. */
#ifndef OPENSPIN_EXPERIMENTS_APP_TYPES_H
#define OPENSPIN_EXPERIMENTS_APP_TYPES_H

#include <stdint.h>

#include "spinlib/datatype.h"

struct app_type {
    const char *name, *what;
    /* About so many bytes of data. A code of Portals. */
    int (*make)(uint64_t bytes, struct spin_type **type);
};
/* Ended by a row without a name. */
extern const struct app_type app_types[];

#endif
