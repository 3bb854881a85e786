/* Errors are values: a negative code, and one line of text for the person at the terminal. */
#ifndef SPIN_BASE_ERROR_H
#define SPIN_BASE_ERROR_H

#include "openspin.h"

/* Fills *err (which may be NULL) and returns `code`, so that a caller writes
 * `return spin_fail(err, SPIN_EFILE, "...")`. The text says what, where, which limit, what to do;
 * it is one line, whatever the names in it hold (base/text.h). */
int spin_fail(struct spin_error *err, enum spin_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
