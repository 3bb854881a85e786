/* openspin/spin_world.h: simulated worlds.
 * Ranks that run programs written against portals4.h, each behind a card with handlers, on a packet
 * network, in virtual time (docs/world.md). Worlds are independent of each other; one runs at a
 * time on a thread.
 *
 *     struct spin_world_options o = {.ranks = 16, .preset = "sc17-dis"};
 *     spin_world_new(&world, &o, &err);
 *     spin_world_run(world, my_rank, &argument, &err);
 *     result = spin_world_result(world);
 *     spin_world_free(world); */
#ifndef OPENSPIN_SPIN_WORLD_H
#define OPENSPIN_SPIN_WORLD_H

#include "spin_card.h"
#include "spin_network.h"
#include "spin_rig.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spin_world;

struct spin_world_options {
    uint32_t ranks;         /* 1 to 65,536 */
    const char *preset;     /* "sc17-int" (NULL), "sc17-dis" or "part" */
    const char *const *set; /* "hpus=8", "loss=0.01": see spin_world_parameter; of some ranks
                             * "0-3,7:hpus=0", "4-:card=pspin" */
    int set_count;
    const char *cards;    /* a file of what some ranks have of their own (docs/world.md), or NULL */
    const char *topology; /* NULL: "fattree:36" */
    struct spin_noise noise; /* on the hosts' processors */
    enum spin_jit jit;       /* how handlers run; no result depends on it */
    uint64_t until_ps;       /* the run ends there; 0: when every rank has returned */
    const char *trace;       /* a Perfetto trace of the run, or NULL */
    const char *picture;     /* the same as SVG, or NULL */
    struct spin_view view;   /* what these two show */
    const char *pcap;        /* packets as they left cards, pcap or (.pcapng) pcapng, or NULL */
    const char *links;       /* a CSV file with a row per link, or NULL */
    bool check;              /* what handlers allocate stands before a hole: spin_rig_options */
    /* Called with each handler that a fault ended, when it happens, in one line. */
    void (*fault)(void *user, const char *text);
    /* Handlers of rank gdb_rank run under gdb, which connects to 127.0.0.1:gdb_port (0: any free
     * port) when the first of them begins; `listening` is told the port and the image's path. */
    bool gdb;
    uint32_t gdb_rank;
    uint16_t gdb_port;
    void (*listening)(void *user, uint16_t port, const char *image);
    /* Called every now and then with how far virtual time is; NULL: nobody asks. */
    void (*progress)(void *user, uint64_t now_ps);
    void *user; /* of fault, listening and progress */
    /* Called, before time begins and at no cost, on each rank that has no program ("4-7:program=
     * none"): it gives the rank's card what it serves with. Not 0: the run fails. */
    int (*setup)(void *argument);
    void *setup_argument;
    bool catch_crashes; /* SIGSEGV and exit() of a rank end the process with a report; programs
                         * that make no calls and, with a shared object, SIGINT end the run */
};

int spin_world_new(struct spin_world **out, const struct spin_world_options *options,
                   struct spin_error *err);
void spin_world_free(struct spin_world *world);

/* Whether the options' `set` takes this: SPIN_OK, or what is wrong with it. */
int spin_world_check(const char *assignment, struct spin_error *err);
/* Parameter i of the world, with its source; false after the last. */
bool spin_world_parameter(const struct spin_world *world, int i, struct spin_parameter *row);

/* Every rank calls main(argument), once in the life of a world. SPIN_EDEADLOCK: ranks wait for what
 * will not come; the error names some of them, the call and since when. SPIN_ELIMIT: until_ps was
 * reached, or a program computes and makes no calls. SPIN_EINTERRUPTED: SIGINT. Results can be
 * asked for in any case. */
int spin_world_run(struct spin_world *world, int (*main)(void *argument), void *argument,
                   struct spin_error *err);

/* The same with main(argc, argv) of a shared object. Every rank has its own copy of the program and
 * of the libraries that come with it, and a C library of its own (docs/world.md). argv[0] of the
 * program is the path; what is given here follows. NULL: every rank has a program of its own, or
 * none ("4-7:program=none"). */
int spin_world_run_program(struct spin_world *world, const char *path, int argc,
                           const char *const *argv, struct spin_error *err);

struct spin_world_counts {
    uint64_t packets, bytes; /* injected */
    uint64_t lost, retransmitted;
    uint64_t handlers, instructions; /* that HPUs ran */
    uint64_t handler_ps;             /* HPUs in use, waiting included */
    uint64_t faults;                 /* handlers that ended by one */
    uint64_t dropped;                /* messages that matched no entry, or found none that may */
    uint64_t flow_control;           /* times that a card had no context left for a handler */
    uint64_t dma_bytes, memory_bytes;
    uint64_t events;
    uint64_t handled_packets, handled_bytes; /* that a header or a payload handler was called for */
    /* Of memory that is not there, with paging.memory=demand or present (docs/page-faults.md). */
    uint64_t page_faults, fault_interrupts, pages_in;       /* moves of cards; interrupts; pages */
    uint64_t blocks, blocks_repeated, block_timeouts, errs; /* sent */
};
struct spin_world_result {
    uint32_t ranks;
    uint64_t makespan_ps; /* when the last rank returned */
    uint32_t failed;      /* ranks that ended with something other than 0 */
    uint32_t first_failed;
    int first_status;
    bool first_exited;       /* by exit(), not by returning from main */
    const char *first_fault; /* of a handler, in one line, or "" */
    struct spin_world_counts counts;
};
struct spin_world_result spin_world_result(const struct spin_world *world);
/* False: the rank is a card alone. */
bool spin_world_has_program(const struct spin_world *world, uint32_t rank);
/* When a rank returned, and what. */
uint64_t spin_world_finish_ps(const struct spin_world *world, uint32_t rank, int *status);
/* The card of a rank, until now; false: there is no such rank. */
struct spin_world_card {
    const char *kind; /* "sc17" or "pspin" */
    uint32_t hpus;
    uint64_t packets_sent, packets_received, packets_retransmitted; /* of data */
    uint64_t messages_sent, messages_received;
    uint64_t handlers, flow_control;
    /* Of a PsPIN card, else 0. */
    uint64_t instructions, hpu_busy_ps;
    uint64_t packet_buffer_most_bytes, packet_buffer_full; /* in use at one time; times */
    uint64_t host_bytes_written, host_bytes_read;          /* by handlers */
    uint64_t l1_conflict_cycles, icache_misses;
    struct spin_card_handler handler[SPIN_CLEANUP_HANDLER + 1]; /* by enum spin_handler_kind */
};
bool spin_world_card(const struct spin_world *world, uint32_t rank, struct spin_world_card *card);
/* Where a rank is that has not returned: "rank 3 in PtlCTWait (counter 2 of 4) since 120.500 ns";
 * false: it has. */
bool spin_world_where(const struct spin_world *world, uint32_t rank, char *text, size_t room);

/* From inside a rank (outside of one: 0, or nothing). Rank r is the process with nid r, pid 0. */
uint32_t spin_rank(void);
uint32_t spin_ranks(void);
uint64_t spin_now_ps(void);             /* the rank's clock */
void spin_compute_ps(uint64_t time_ps); /* its processor is busy for so long */
static inline void spin_compute(uint64_t ns) {
    spin_compute_ps(ns < UINT64_MAX / 1000 ? ns * 1000 : UINT64_MAX);
}
/* So many cycles of its processor, while so many bytes go through the host's memory: until both are
 * done. */
void spin_work(uint64_t cycles, uint64_t memory_bytes);
/* memcpy that takes the time of one. */
void spin_copy(void *to, const void *from, size_t bytes);
/* What a program does to pages of its own. In a world with paging.memory=demand or present this
 * decides which of them its card finds, and takes its time there; elsewhere it is the system's own
 * memory that is meant. Each returns SPIN_OK or a negative code (of the system: SPIN_ELIMIT if it
 * lets the process pin no more, SPIN_EARG if the process has no such memory).
 * touch: reads and writes a byte of each page, so that it is there; pin: keeps the pages there
 * (mlock); discard: gives whole pages back, pinned or not, and what is in them is 0 then. */
int spin_touch(void *at, size_t bytes);
int spin_pin(const void *at, size_t bytes);
int spin_discard(void *at, size_t bytes);
/* All ranks that have not returned wait for each other, as in a launcher's barrier: no message, no
 * time of its own. */
void spin_barrier(void);
/* PtlSetMap of a logical interface for all ranks of the world; a code of enum ptl_retvals. The map
 * is one for the whole world, so this is the way for tens of thousands of ranks. */
int spin_map_ranks(uint32_t ni_handle);

#ifdef __cplusplus
}
#endif

#endif
