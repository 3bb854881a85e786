/* Lines of numbers in memory, for the readers of traces: no copy, no allocation. */
#ifndef SPIN_SIM_TRAFFIC_LINES_H
#define SPIN_SIM_TRAFFIC_LINES_H

#include <stddef.h>

#include "openspin.h"

struct number_lines {
    const char *name;
    const char *at, *end;
    uint64_t line;   /* of the last one read, from 1 */
    uint32_t dotted; /* bit i: number i of it was an IPv4 address with dots */
};

/* Reads `count` unsigned decimal numbers of at most 32 bits, or IPv4 addresses with dots, from the
 * next line that is not empty, with exactly one `separator` between them, or with blanks if it is '
 * '. `what` lists them for messages. 1; 0 at the end of the text; or an error. */
int number_lines_next(struct number_lines *l, char separator, const char *what, uint32_t *numbers,
                      unsigned count, struct spin_error *err);
/* Leaves the next line out, whatever it holds. */
void number_lines_skip(struct number_lines *l);

#endif
