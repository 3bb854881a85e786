/* How far a long command is, on a terminal: "\r 42 % of 1000 packets, 7 s left". */
#ifndef OPENSPIN_CLI_PROGRESS_H
#define OPENSPIN_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on, shown;
    double begun, stage_begun, last; /* seconds */
    const char *what;
};

/* Nothing is shown where standard error is no terminal. */
void progress_begin(struct progress *p);
/* May be called as often as one likes. `of` 0: nobody knows. Another `what` is another stage, whose
 * time is estimated by itself. */
void progress_show(struct progress *p, const char *what, uint64_t done, uint64_t of);
/* Takes the line away. */
void progress_end(struct progress *p);

#endif
