/* openspin/spin_goal.h: GOAL schedules, and their replay in the LogGOPS or the packet model. */
#ifndef OPENSPIN_SPIN_GOAL_H
#define OPENSPIN_SPIN_GOAL_H

#include "spin_network.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A schedule: per rank, operations (send, recv, calc) and who waits for whom. */
struct spin_goal;

/* Text or either binary dialect, told apart by the content. */
int spin_goal_read(const char *path, struct spin_goal **goal, struct spin_error *err);
void spin_goal_free(struct spin_goal *goal);

enum spin_goal_format { SPIN_GOAL_TEXT, SPIN_GOAL_BINARY, SPIN_GOAL_BINARY_PORTALS };
/* The file appears only when it is complete. "-" is standard output. */
int spin_goal_write(const struct spin_goal *goal, const char *path, enum spin_goal_format format,
                    struct spin_error *err);

struct spin_goal_info {
    uint32_t ranks, cpus, nics;
    uint64_t operations, sends, receives, calcs, portals; /* portals: of that dialect */
    uint64_t dependencies, start_dependencies;
    uint64_t bytes_sent, calc_ns, largest_message;
    uint64_t wildcard_receives;
    uint64_t most_of_a_rank; /* operations */
    uint64_t memory_bytes;
};
struct spin_goal_info spin_goal_info(const struct spin_goal *goal);

/* The usual communication patterns, for any number of ranks. */
struct spin_goal_pattern {
    const char *name;
    uint32_t ranks;
    uint64_t bytes;      /* of a message; of the whole vector for an allreduce */
    uint64_t calc_ns;    /* computation: of a reduction step, or of a halo iteration */
    uint32_t root;       /* of a tree */
    uint32_t iterations; /* of the whole pattern, one after the other */
    uint32_t dims[4];    /* of a halo exchange; all 0: as near to a cube as the ranks allow */
};
/* Row i of the patterns, NULL after the last. */
const char *spin_goal_pattern_name(int i, const char **about);
int spin_goal_generate(const struct spin_goal_pattern *pattern, struct spin_goal **goal,
                       struct spin_error *err);

/* Several jobs side by side as one schedule: rank r of job j runs on node placement[k], where k
 * counts the ranks of all jobs in order. Every node takes one rank at most; nodes without one do
 * nothing. */
int spin_goal_join(const struct spin_goal *const *jobs, int count, const uint32_t *placement,
                   uint32_t nodes, struct spin_goal **goal, struct spin_error *err);

struct spin_goal_options {
    struct spin_loggops loggops;
    const struct spin_packet *packet; /* NULL: the LogGOPS model */
    struct spin_noise noise;
    bool digest;         /* of the event log */
    bool critical_path;  /* what the makespan depends on: in the result, trace and picture */
    const char *trace;   /* a Perfetto trace, or NULL */
    const char *picture; /* a timeline as SVG, or NULL */
    struct spin_view view;
    /* Called now and then with what is done and what there is to do; NULL for never. */
    void (*progress)(void *context, uint64_t done, uint64_t of);
    void *progress_context;
};

/* What the packet model adds to a result. */
struct spin_link_use {
    char name[48]; /* "h0>s3" */
    uint64_t packets, bytes, busy_ps, queued_ps, queue_max_bytes, drops;
};
struct spin_packet_result {
    char topology[80];
    uint32_t hosts, switches, links;
    uint64_t packets, hops;                      /* sent; times links */
    uint64_t lost, dropped, corrupted, no_route; /* packets that ended so */
    uint64_t duplicated, retransmitted, rerouted, lost_messages;
    uint64_t queued_ps; /* time lost in queues, all packets */
    uint64_t dma_queued_ps;
    uint64_t busy_links, mean_use_ppm, most_use_ppm; /* of links that sent anything */
    struct spin_link_use busiest[8];                 /* busy_links of them at most */
};

/* A step of the critical path: from start_ps on, for length_ps, what comes next waited for this.
 * Steps follow each other without gaps from 0 to the makespan. */
enum spin_goal_step_kind {
    SPIN_STEP_CPU,     /* the operation on its cpu */
    SPIN_STEP_NIC,     /* its nic, until it takes the next message */
    SPIN_STEP_NETWORK, /* its message, until the receiver has it */
    SPIN_STEP_MATCH,   /* a rendezvous: what was matched then */
};
struct spin_goal_step {
    enum spin_goal_step_kind kind;
    uint32_t rank;
    bool receives;      /* the message of `operation`, a send of rank `from` */
    uint32_t from;      /* the rank of the operation */
    uint32_t operation; /* in that rank, from 1 */
    uint64_t start_ps, length_ps;
    char what[64]; /* "send 8b to 1 tag 5" */
};

struct spin_goal_result {
    struct spin_packet_result packet; /* all 0 in the LogGOPS model */
    uint64_t makespan_ps;
    uint64_t events; /* operations and messages, as LogGOPSim counts them */
    uint64_t messages, bytes;
    uint64_t noise_ps;   /* cpu time lost in noise, all ranks */
    uint64_t queue_ps;   /* time that operations and messages waited for a busy cpu or nic */
    uint64_t unreceived; /* messages that no receive took */
    uint64_t engine_events, most_pending, memory_bytes;
    uint64_t digest;
    uint32_t ranks;
    uint64_t *finish_ps;         /* [ranks], freed by spin_goal_result_free */
    struct spin_goal_step *step; /* [steps] of the critical path, likewise */
    uint32_t steps;
};

/* Replays the schedule. SPIN_EDEADLOCK when operations are left that nothing will release; the
 * error names some of them with their ranks. */
int spin_goal_run(const struct spin_goal *goal, const struct spin_goal_options *options,
                  struct spin_goal_result *result, struct spin_error *err);
void spin_goal_result_free(struct spin_goal_result *result);

#ifdef __cplusplus
}
#endif

#endif
