/* "name=value,name=value" as people write behind a thing they configure, by a table of what there
 * is. */
#ifndef SPIN_BASE_SETTINGS_H
#define SPIN_BASE_SETTINGS_H

#include "openspin.h"

enum setting_kind {
    SETTING_COUNT, /* uint64_t */
    SETTING_TIME,  /* uint64_t, ps */
    SETTING_RATE,  /* uint64_t, fs per byte; 0: "none", as fast as it comes */
    SETTING_BYTES, /* uint64_t */
    SETTING_TEXT,  /* const char *: who asks looks at it */
    SETTING_WORD,  /* unsigned: the place of the word in `words` */
};

struct setting {
    const char *name; /* NULL ends the table */
    enum setting_kind kind;
    void *value;
    uint64_t min, max;        /* of counts, times and bytes */
    const char *const *words; /* NULL ends them */
};

/* `what` is configured, for messages; `text` may be NULL, is changed, and must stay as long as text
 * values are used. Values that are not named stay as they are. */
int settings_read(const char *what, char *text, const struct setting *table,
                  struct spin_error *err);

#endif
