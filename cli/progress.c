#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define QUIET_SECONDS 1.0 /* what is over sooner needs no line */
#define EVERY_SECONDS 0.1

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_begin(struct progress *p) {
    *p = (struct progress){.on = isatty(STDERR_FILENO), .begun = now()};
}

void progress_show(struct progress *p, const char *what, uint64_t done, uint64_t of) {
    if (!p->on)
        return;
    double at = now();
    if (p->what != what) {
        p->what = what;
        p->stage_begun = at;
    }
    if (at - p->begun < QUIET_SECONDS || at - p->last < EVERY_SECONDS || done == 0)
        return;
    p->last = at;
    p->shown = true;
    if (!of) {
        fprintf(stderr, "\r\033[K%" PRIu64 " %s", done, what);
        return;
    }
    double part = (double)done / (double)of;
    fprintf(stderr, "\r\033[K%3.0f %% of %" PRIu64 " %s", 100 * part, of, what);
    if (part > 0.02) /* before that an estimate would be a guess */
        fprintf(stderr, ", %.0f s left", (at - p->stage_begun) * (1 - part) / part);
}

void progress_end(struct progress *p) {
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}
