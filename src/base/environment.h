/* Variables of the environment, by the one rule that holds for all of ours: an empty one is as if
 * it were not set. */
#ifndef SPIN_BASE_ENVIRONMENT_H
#define SPIN_BASE_ENVIRONMENT_H

#include <stddef.h>
#include <stdlib.h>

static inline const char *environment_text(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

#endif
