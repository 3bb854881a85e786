/* The live cards that run on this machine now, as their processes show them. */
#ifndef OPENSPIN_SPIN_LIVE_H
#define OPENSPIN_SPIN_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin/spin_error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPIN_LIVE_HANDLERS 24 /* that are shown one by one */

/* Since the card began, but for the queues: these are as they were when the card last looked. */
struct spin_live_counts {
    uint64_t packets_out, packets_in; /* of all kinds */
    uint64_t bytes_out, bytes_in;     /* of data in them */
    uint64_t messages_out, messages_in;
    uint64_t retransmitted, duplicates; /* packets */
    uint64_t malformed, strangers;      /* likewise: thrown away */
    uint64_t dropped;                   /* messages that no entry took */
    uint64_t given_up, flow_control;    /* peers; times that it was triggered */
    uint64_t page_faults, paged_in; /* times that a page was absent; pages that were brought in */
    uint64_t page_errors, blocks_repeated;  /* memory that was gone; blocks that were sent again */
    uint64_t handlers, handler_ns;          /* runs; their time, see below */
    uint64_t waiting_packets, waiting_runs; /* queues: for room at a peer; for an HPU */
    uint64_t lent_packets, packets_in_memory; /* read by their peers; of the card's pool, in use */
};

/* A handler that ran for messages to a portal table entry. The time of each run is taken for the
 * first 16 and for each sixteenth after that, which then counts for 16. */
struct spin_live_handler {
    uint32_t interface, pt_index, kind; /* kind: enum spin_handler_kind */
    char name[28];
    uint64_t runs, faults, ns;
};

struct spin_live_card {
    uint32_t os_pid, nid, pid;
    uint32_t rank, ranks; /* ranks 0: not of a job of `openspin launch` */
    char program[32], transport[16];
    char job[48];      /* of `openspin launch`, or "" */
    uint64_t began_ns; /* CLOCK_MONOTONIC */
    uint64_t shown_ns; /* likewise: when what follows was true */
    struct spin_live_counts counts;
    uint32_t handlers; /* the last stands for all that are not shown, if there are so many */
    struct spin_live_handler handler[SPIN_LIVE_HANDLERS];
};

/* This user's cards, by job and pid, in memory that is the caller's to free. `job` NULL: of all
 * jobs and of none; else of that job alone, which is an error if it is not there. */
int spin_live_cards(const char *job, struct spin_live_card **cards, uint32_t *count,
                    struct spin_error *err);

#ifdef __cplusplus
}
#endif

#endif
