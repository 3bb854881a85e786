/* openspin.h: embedding. Everything that the command `openspin` does, a program can do through this
 * header. No globals: any number of images, HPUs and worlds live side by side in one process. */
#ifndef OPENSPIN_H
#define OPENSPIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes: every call that can fail returns one, 0 for success. */
#define SPIN_CODES(X)                                                                              \
    X(SPIN_OK, 0, "success")                                                                       \
    X(SPIN_EARG, -1, "invalid argument")                                                           \
    X(SPIN_EFILE, -2, "file cannot be read or written")                                            \
    X(SPIN_EFORMAT, -3, "malformed input")                                                         \
    X(SPIN_ELIMIT, -4, "over a limit")                                                             \
    X(SPIN_ENOMEM, -5, "out of memory")                                                            \
    X(SPIN_ETOOL, -6, "an external program failed")                                                \
    X(SPIN_ESYS, -7, "a system call failed")                                                       \
    X(SPIN_EDEADLOCK, -8, "nothing left to do, but not everything is done")

enum spin_code {
#define SPIN_CODE_ROW(name, value, text) name = value,
    SPIN_CODES(SPIN_CODE_ROW)
#undef SPIN_CODE_ROW
};

/* What went wrong, in one line: what, where, which limit, what to do. */
struct spin_error {
    int code;
    char text[500];
};

const char *spin_version(void);
const char *spin_code_name(int code); /* "SPIN_EFILE" */
const char *spin_code_text(int code); /* "file cannot be read or written" */

/* ---- GOAL schedules and the LogGOPS model ------------------------------------------------------
 */

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

/* The parameters of the model, as exact integers. */
struct spin_loggops {
    uint64_t L_ps;    /* latency */
    uint64_t o_ps;    /* overhead on the cpu for a message */
    uint64_t g_ps;    /* gap between messages on a nic */
    uint64_t G_fs;    /* gap per byte on a nic */
    uint64_t O_fs;    /* overhead per byte on the cpu */
    uint64_t S_bytes; /* larger messages wait for their receive (rendezvous) */
};

/* A named set of parameters; row i of the presets, NULL after the last. */
const char *spin_loggops_preset_name(int i, const char **about);
int spin_loggops_preset(const char *name, struct spin_loggops *to, struct spin_error *err);
/* "L=2500", "o=65ns", "G=20ps/B", "S=64KiB". */
int spin_loggops_set(struct spin_loggops *to, const char *assignment, struct spin_error *err);
/* Parameter i as "name = value unit", what it is and where `preset` has it from; false after the
 * last. */
struct spin_parameter {
    const char *name;
    char value[40];
    const char *what, *source;
};
bool spin_loggops_parameter(const struct spin_loggops *of, const char *preset, int i,
                            struct spin_parameter *row);

/* What the operating system takes: detours of length_ps every period_ps, or a recorded file of
 * lines "start length". All zero for none. */
struct spin_noise {
    uint64_t period_ps, length_ps;
    const char *record;
    uint64_t seed;
    bool together; /* all ranks begin at the same place of the record */
};

/* The packet model: messages travel as packets over links and switches (docs/network.md). */
enum { SPIN_QUEUE_UNLIMITED, SPIN_QUEUE_DROPTAIL, SPIN_QUEUE_CREDIT };
enum { SPIN_SWITCH_CUT_THROUGH, SPIN_SWITCH_STORE };
enum { SPIN_ROUTE_SINGLE, SPIN_ROUTE_HASH };
enum { SPIN_DMA_NONE, SPIN_DMA_RECEIVE, SPIN_DMA_BOTH };
enum { SPIN_PLACE_LINEAR, SPIN_PLACE_RANDOM };
struct spin_packet {
    const char *topology; /* "fattree:36"; see spin_packet_set for the rest */
    uint64_t link_fs, link_latency_ps, global_latency_ps, switch_ps;
    uint64_t mtu_bytes, header_bytes, buffer_bytes;
    uint64_t queue, switching, routing, placement; /* of the enumerations above */
    uint64_t seed;
    uint64_t loss, corruption, duplication, reordering; /* fractions of 2^32, a packet and link */
    uint64_t reorder_ps;
    uint64_t retry_ps, retries;
    uint64_t fail_links, fail_at_ps, fail_until_ps; /* so many links, drawn from the seed */
    uint64_t dma, dma_latency_ps, dma_fs, memory_fs;
    const char *const *failures; /* "s0-s3@1us" or "h4-s1@1us:5us" */
    int failure_count;
    const char *link_report; /* a CSV file with a row a link, or NULL */
};
/* The packet network that goes with a LogGOPS preset. */
int spin_packet_preset(const char *name, struct spin_packet *to, struct spin_error *err);
/* "link_rate=400Gbit/s", "link_latency=33.4ns", "queue=credit", "loss=1e-6". */
int spin_packet_set(struct spin_packet *to, const char *assignment, struct spin_error *err);
bool spin_packet_parameter(const struct spin_packet *of, const char *preset, int i,
                           struct spin_parameter *row);

struct spin_goal_options {
    struct spin_loggops loggops;
    const struct spin_packet *packet; /* NULL: the LogGOPS model */
    struct spin_noise noise;
    bool digest;       /* of the event log */
    const char *trace; /* a Perfetto trace, or NULL */
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
    uint64_t *finish_ps; /* [ranks], freed by spin_goal_result_free */
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
