/* Where a debugger wants the handler to stop, and running it until it gets there. */
#ifndef SPIN_HPU_STOPS_H
#define SPIN_HPU_STOPS_H

#include "hpu/hpu.h"

#define STOPS_POINTS 128

/* Numbered as gdb does. */
enum stops_kind {
    STOPS_SOFTWARE_BREAK,
    STOPS_HARDWARE_BREAK, /* the same here: nothing is ever written into the code */
    STOPS_WATCH_WRITE,
    STOPS_WATCH_READ,
    STOPS_WATCH_ACCESS,
    STOPS_KINDS
};

struct stops_point {
    enum stops_kind kind;
    uint32_t address, length; /* length: of a watched range */
};

struct stops {
    struct stops_point point[STOPS_POINTS];
    uint32_t points, watches; /* watches: how many of them are no breakpoints */
};

/* False when there is no more room. Adding twice is adding once. */
bool stops_add(struct stops *s, enum stops_kind kind, uint32_t address, uint32_t length);
void stops_remove(struct stops *s, enum stops_kind kind, uint32_t address, uint32_t length);

/* What runs: an HPU, and how to have it make one step. */
struct stops_target {
    struct hpu *hpu;
    enum hpu_stop (*step)(struct hpu *h);
    bool only_steps; /* for each is told to somebody */
};

/* How far to go: one instruction, or until the pc leaves [from, to), or as far as it goes. */
struct stops_how {
    bool step;
    uint32_t from, to; /* with step; an empty range is a single step */
};

enum stops_why {
    STOPS_STEPPED,
    STOPS_AT_BREAK,
    STOPS_AT_WATCH,
    STOPS_ASKED, /* `ask` returned true */
    STOPS_ENDED, /* see `stop` */
};

struct stops_result {
    enum stops_why why;
    enum stops_kind kind; /* of the point that was hit */
    uint32_t address;     /* of the watched data that was accessed */
    enum hpu_stop stop;   /* STOPS_ENDED: HPU_DONE, HPU_FAULTED, HPU_WAITING; HPU_PAUSED: `until` */
};

/* Whether a breakpoint is there. */
bool stops_breaks_at(const struct stops *s, uint32_t pc, struct stops_result *result);

/* Goes on from where the handler is, until local time `until` at most. The first instruction runs
 * even if a breakpoint is on it, for that is where the handler was stopped. `ask` is called a few
 * hundred times per second. */
struct stops_result stops_run(const struct stops *s, const struct stops_target *target,
                              struct stops_how how, uint64_t until, bool (*ask)(void *context),
                              void *context);

#endif
