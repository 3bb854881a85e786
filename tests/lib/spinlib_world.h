/* Ranks of a use case of spinlib on a simulated world: on SC'17's card and on PsPIN's. */
#ifndef TEST_SPINLIB_WORLD_H
#define TEST_SPINLIB_WORLD_H

#include "lib/test.h"
#include "spinlib/spinlib.h"

/* Runs rank(argument) on every rank; each returns 0, or a line number that the failure shows. */
static inline void spinlib_world_with(struct spin_world_options o, int (*rank)(void *),
                                      void *argument) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    const char *set[16];
    for (int card = 0; card < 2; card++) {
        struct spin_world_options options = o;
        struct spin_world *w;
        struct spin_error err;
        for (int i = 0; i < o.set_count; i++)
            set[i] = o.set[i];
        set[o.set_count] = cards[card];
        options.set = set;
        options.set_count = o.set_count + 1;
        if (spin_world_new(&w, &options, &err) || spin_world_run(w, rank, argument, &err))
            TEST_FAIL("%s: %s", cards[card], err.text);
        struct spin_world_result r = spin_world_result(w);
        if (r.failed)
            TEST_FAIL("%s: rank %u failed in line %d", cards[card], r.first_failed, r.first_status);
        if (r.counts.faults)
            TEST_FAIL("%s: a handler failed: %s", cards[card], r.first_fault);
        spin_world_free(w);
    }
}

static inline void spinlib_world(uint32_t ranks, int (*rank)(void *), void *argument) {
    spinlib_world_with((struct spin_world_options){.ranks = ranks}, rank, argument);
}

/* In a rank. */
#define RANK_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__;                                                                       \
    } while (0)

#endif
