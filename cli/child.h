#ifndef OPENSPIN_CHILD_H
#define OPENSPIN_CHILD_H

#include <stdint.h>

/* Runs a program, found on PATH, to its end; `words` end with NULL. Returns 0 and its status as
 * waitpid has it, or the error (of errno) that kept it from starting. */
int child_run(const char *const *words, int *status);

#endif
