/* Transfers whose pages may be absent: what figures 9 to 15 of the page-fault paper measure between
 * two ranks. With more (--ranks), all but the last send to the last, and the last transfer counts.
 */
#ifndef OPENSPIN_PART_WORLD_H
#define OPENSPIN_PART_WORLD_H

#include "experiment.h"

#define PART_PAGE 4096u

/* What a buffer's owner does before the transfer; the time of the last four is measured with it. */
enum part_pages {
    PART_THERE,         /* every page is there */
    PART_ABSENT,        /* none is, or (fault_percent) some are not */
    PART_TOUCH_PRESENT, /* touches pages that are there */
    PART_TOUCH_ABSENT,  /* or that are not */
    PART_PIN_PRESENT,
    PART_PIN_ABSENT,
};

#define PART_SETTINGS 8
struct part_setup {
    uint64_t bytes;
    enum part_pages source, target;
    uint32_t fault_percent;         /* 0: as 100; else so many of the target's pages are absent, */
    uint64_t seed;                  /* chosen by this */
    const char *set[PART_SETTINGS]; /* parameters, ended by NULL */
    const char *trace, *picture;    /* of the run, or NULL */
};

struct part_outcome {
    double us; /* from the source's call, or what was done before it, until the target knows */
    struct spin_world_counts counts;
};

/* Every byte is checked. */
int part_transfer(const struct experiment_context *context, const struct part_setup *setup,
                  struct part_outcome *outcome, struct spin_error *err);

#endif
