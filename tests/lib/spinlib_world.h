/* Ranks of a use case of spinlib on a simulated world: on SC'17's card and on PsPIN's. */
#ifndef TEST_SPINLIB_WORLD_H
#define TEST_SPINLIB_WORLD_H

#include "lib/test.h"
#include "spinlib/spinlib.h"

#define TEST_WORLD_PS 100000000000000 /* 100 s; the longest sleeps for 20 */

/* Runs rank(argument) on every rank; each returns 0, or a line number that the failure shows. The
 * world is *seen by them. */
static inline void spinlib_world_seen(struct spin_world_options o, const char *card,
                                      int (*rank)(void *), void *argument,
                                      struct spin_world **seen) {
    struct spin_world *w;
    struct spin_error err;
    /* Ranks that poll for what one that failed does not send would do so for ever. */
    if (!o.until_ps)
        o.until_ps = TEST_WORLD_PS;
    if (spin_world_new(&w, &o, &err))
        TEST_FAIL("%s: %s", card, err.text);
    *seen = w;
    int code = spin_world_run(w, rank, argument, &err);
    struct spin_world_result r = spin_world_result(w);
    if (r.counts.faults)
        TEST_FAIL("%s: a handler failed: %s", card, r.first_fault);
    if (r.failed)
        TEST_FAIL("%s: rank %u failed in line %d", card, r.first_failed, r.first_status);
    if (code)
        TEST_FAIL("%s: %s", card, err.text);
    spin_world_free(w);
}

static inline void spinlib_world_on(struct spin_world_options o, const char *card,
                                    int (*rank)(void *), void *argument) {
    struct spin_world *unused;
    spinlib_world_seen(o, card, rank, argument, &unused);
}

/* On either card. */
static inline void spinlib_world_with(struct spin_world_options o, int (*rank)(void *),
                                      void *argument) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    const char *set[16];
    for (int card = 0; card < 2; card++) {
        struct spin_world_options options = o;
        for (int i = 0; i < o.set_count; i++)
            set[i] = o.set[i];
        set[o.set_count] = cards[card];
        options.set = set;
        options.set_count = o.set_count + 1;
        spinlib_world_on(options, cards[card], rank, argument);
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
