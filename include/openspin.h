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

struct spin_goal_options {
    struct spin_loggops loggops;
    struct spin_noise noise;
    bool digest;       /* of the event log */
    const char *trace; /* a Perfetto trace, or NULL */
    /* Called now and then with what is done and what there is to do; NULL for never. */
    void (*progress)(void *context, uint64_t done, uint64_t of);
    void *progress_context;
};

struct spin_goal_result {
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
