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

/* ---- Handler images ---------------------------------------------------------------------------
 * An image is an RV32 ELF made by `openspin cc`, checked when it is loaded. */

/* What a card has. */
struct spin_limits {
    uint32_t program_bytes; /* program memory: code */
    uint32_t handler_bytes; /* L2 handler memory: constants and data */
    uint32_t state_bytes;   /* L1 scratchpad: the state that handlers of a message share */
    uint32_t hpus;
    bool with_float; /* the card has F */
};
void spin_limits_default(struct spin_limits *limits); /* the PsPIN card */

enum spin_handler_kind {
    SPIN_HEADER_HANDLER,
    SPIN_PAYLOAD_HANDLER,
    SPIN_COMPLETION_HANDLER,
    SPIN_OTHER_FUNCTION, /* the name says nothing */
    SPIN_PSPIN_HANDLER,  /* of an invocation only: void h(handler_args_t *), whenever it runs */
};

struct spin_function {
    const char *name;
    uint32_t address, bytes;
    enum spin_handler_kind kind; /* by the name: ..._header_handler, ..._hh and so on */
    bool is_global;              /* can be named as a handler */
};

/* Instructions in the image's functions by what they do. */
enum spin_insn_class {
    SPIN_INSN_ALU,
    SPIN_INSN_MULTIPLY,
    SPIN_INSN_DIVIDE,
    SPIN_INSN_LOAD,
    SPIN_INSN_STORE,
    SPIN_INSN_BRANCH,
    SPIN_INSN_JUMP,
    SPIN_INSN_ATOMIC,
    SPIN_INSN_FLOAT,
    SPIN_INSN_SYSTEM,
    SPIN_INSN_CLASSES
};
const char *spin_insn_class_name(enum spin_insn_class c);

struct spin_image_info {
    const char *path;
    uint32_t code_bytes, constant_bytes, data_bytes, zero_bytes;
    uint32_t hpus; /* PTL_NUM_HPUS it was compiled for; 0: not said */
    bool is_pspin; /* its handlers are PsPIN's: invoke them as SPIN_PSPIN_HANDLER */
    bool uses_float, has_lines;
    uint32_t functions; /* local ones too */
    const struct spin_function *function;
    uint32_t instructions[SPIN_INSN_CLASSES], compressed;
};

struct spin_image;

/* Loads and checks. `limits` NULL: the PsPIN card. On an error *out is NULL. */
int spin_image_load(struct spin_image **out, const char *path, const struct spin_limits *limits,
                    struct spin_error *err);
/* The same from memory, which is copied; `name` stands for the file in messages. */
int spin_image_parse(struct spin_image **out, const char *name, const void *bytes, size_t length,
                     const struct spin_limits *limits, struct spin_error *err);
void spin_image_free(struct spin_image *image);
const struct spin_image_info *spin_image_info(const struct spin_image *image);
/* A global function by name; the error lists what there is. */
int spin_image_find(const struct spin_image *image, const char *name,
                    const struct spin_function **function, struct spin_error *err);
/* The function that holds an address, or NULL. */
const struct spin_function *spin_image_at(const struct spin_image *image, uint32_t address);
/* Source file and line of an address; false when the image does not say. */
bool spin_image_line(const struct spin_image *image, uint32_t address, const char **file,
                     int *line);
/* "lw a0, 4(a1)" of the instruction at an address; returns its length in bytes, 0 outside code. */
int spin_image_disassemble(const struct spin_image *image, uint32_t address, char *text,
                           size_t room);

/* ---- One handler processor ---------------------------------------------------------------------
 * A rig: an HPU with its memories and a stand-in for the card around it, to run one handler at a
 * time on a packet. DMA goes to a host memory of the rig's and is done at once; messages are
 * recorded, not sent. */

struct spin_rig;

/* How handlers run. Results, cycles and faults are the same in every way. */
enum spin_jit {
    SPIN_JIT_OFF,   /* interpreted */
    SPIN_JIT_ON,    /* compiled when they are hot, if there is an LLVM */
    SPIN_JIT_FORCE, /* compiled at once; an error where there is no LLVM */
};
/* "off", "on" or "force"; false for anything else. */
bool spin_jit_parse(const char *text, enum spin_jit *mode);

struct spin_rig_options {
    const char *core;          /* timing table: "ri5cy" (default), "unit" */
    bool functional;           /* no timing: every instruction is a cycle */
    bool state_in_l2;          /* the state in L2 handler memory instead of the L1 scratchpad */
    uint64_t budget;           /* watchdog in cycles; 0: 1,000,000 */
    uint32_t hpu;              /* which HPU: PTL_MY_HPU */
    uint32_t state_bytes;      /* size of the state; 0: 4096 */
    uint32_t host_bytes;       /* size of each host memory space; 0: 64 KiB */
    uint32_t scratchpad_bytes; /* of a PsPIN handler, in the L1 of each of 4 clusters; 0: none */
    enum spin_jit jit;
};

int spin_rig_new(struct spin_rig **out, const struct spin_image *image,
                 const struct spin_rig_options *options, struct spin_error *err);
void spin_rig_free(struct spin_rig *rig);

/* Memory that handlers share and the caller may read and write between calls. The state is the
 * handler memory of a PsPIN handler, the ME's host memory its host memory. */
enum spin_space {
    SPIN_STATE,
    SPIN_PACKET,
    SPIN_DATA,
    SPIN_ME_HOST,
    SPIN_HANDLER_HOST,
    SPIN_SCRATCHPAD, /* of cluster 0; + i: of cluster i, up to 3 */
    SPIN_SPACES = SPIN_SCRATCHPAD + 4
};
uint8_t *spin_rig_memory(struct spin_rig *rig, enum spin_space space, uint32_t *bytes,
                         uint32_t *address);

/* One invocation. Fields that the kind does not have are ignored. */
struct spin_call {
    uint32_t entry;
    enum spin_handler_kind kind; /* SPIN_OTHER_FUNCTION: arguments from `argument` */
    const uint8_t *packet;       /* payload, with the user header if there is one */
    uint32_t packet_bytes;
    uint32_t packet_offset;  /* of the payload in the message */
    uint32_t message_bytes;  /* 0: packet_bytes */
    uint32_t user_hdr_bytes; /* that the payload handler does not see */
    uint32_t source, target, me_offset;
    uint64_t match_bits, hdr_data;
    uint32_t dropped_bytes;
    bool flow_control;
    uint32_t home_cluster, flow; /* of a PsPIN task */
    uint32_t argument[8];
};

enum spin_region {
    SPIN_REGION_L1,
    SPIN_REGION_REMOTE_L1,
    SPIN_REGION_L2_HANDLER,
    SPIN_REGION_L2_PACKETS,
    SPIN_REGION_PROGRAM,
    SPIN_REGION_DRIVER,
    SPIN_REGIONS
};
const char *spin_region_name(enum spin_region region);

enum spin_ending {
    SPIN_RETURNED,
    SPIN_ENDED_SEGV,
    SPIN_ENDED_ILLEGAL,
    SPIN_ENDED_CHECK,
    SPIN_ENDED_MISALIGNED,
    SPIN_ENDED_BUDGET,
    SPIN_ENDED_COMMAND,
    SPIN_ENDED_KILLED, /* by gdb, which had stopped it at `pc` */
};
const char *spin_ending_name(enum spin_ending ending);
const char *spin_return_code_name(int32_t code); /* "PROCESS_DATA"; NULL for no such code */

struct spin_command {
    uint8_t number; /* enum spin_command_number of spin/driver.h */
    uint32_t word[12];
    uint64_t cycle; /* since the handler's start */
};
/* Name, number of words, and what they are, parted by blanks. NULL: no such command. */
const char *spin_command_name(unsigned number, unsigned *words, const char **labels);

struct spin_outcome {
    enum spin_ending ending;
    int32_t value;            /* what the handler returned */
    uint32_t pc, bad_address; /* where and on what it was ended */
    uint64_t instructions, cycles;
    uint64_t icache_misses;
    uint64_t loads[SPIN_REGIONS], stores[SPIN_REGIONS]; /* counted when timed */
    const struct spin_command *command;                 /* valid until the next call */
    uint32_t commands, commands_lost;                   /* past the 256 that are kept */
};

/* Runs a handler from start to end. */
int spin_rig_call(struct spin_rig *rig, const struct spin_call *call, struct spin_outcome *outcome,
                  struct spin_error *err);

/* Called with each packet that a handler sends (spin_send_packet, spin_rdma_put), while it runs;
 * `dest` is 0 for a packet that carries its own headers. NULL ends it. */
void spin_rig_outbound(struct spin_rig *rig,
                       void (*each)(void *context, uint32_t dest, const uint8_t *data,
                                    uint32_t bytes),
                       void *context);

/* For traces and profiles: called after each instruction of the calls that follow, with what it
 * cost. NULL ends it. */
struct spin_step {
    uint32_t pc, next_pc;
    uint64_t cycle;                 /* before it, since the handler's start */
    uint32_t cycles;                /* its own */
    const uint32_t *before, *after; /* registers x0 to x31 */
};
void spin_rig_trace(struct spin_rig *rig, void (*each)(void *context, const struct spin_step *step),
                    void *context);

/* Like spin_rig_call, under the control of a gdb that connects to 127.0.0.1:port (0: any free
 * port). `listening` is told the port once it is open. Returns when the handler has ended or gdb
 * has killed it (SPIN_ENDED_KILLED) or gone away (then the handler runs to its end). Unless gdb
 * changes registers or memory, the outcome is that of spin_rig_call. */
int spin_rig_debug(struct spin_rig *rig, const struct spin_call *call, uint16_t port,
                   void (*listening)(void *context, uint16_t port), void *context,
                   struct spin_outcome *outcome, struct spin_error *err);

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

/* ---- Area and power of a card -------------------------------------------------------------------
 * A parametric model: per-unit values from the synthesis that ISCA'21 publishes (table III, 22 nm,
 * 1 GHz, worst-case activity), scaled to another configuration. Estimates for comparing designs. */

struct spin_area_config {
    uint64_t clusters, hpus_per_cluster;
    uint64_t l1_bytes, l1_banks, icache_bytes;           /* of a cluster */
    uint64_t packet_bytes, handler_bytes, program_bytes; /* L2 */
    uint64_t clock_mhz;
};
void spin_area_default(struct spin_area_config *config); /* the PsPIN card */

enum spin_area_part {
    SPIN_AREA_CARD,
    SPIN_AREA_L2,
    SPIN_AREA_INTERCONNECT,
    SPIN_AREA_SCHEDULER,
    SPIN_AREA_CLUSTER, /* those below are parts of a cluster */
    SPIN_AREA_L1,
    SPIN_AREA_CORE,
    SPIN_AREA_ICACHE,
    SPIN_AREA_CLUSTER_INTERCONNECT,
    SPIN_AREA_CLUSTER_REST,
    SPIN_AREA_PARTS
};
struct spin_area_row {
    const char *name;
    bool in_cluster;
    uint64_t count;        /* in the card; of a part of a cluster: in a cluster */
    double mm2, watt;      /* of one */
    const char *unit_cost; /* how it grows */
};
struct spin_area {
    struct spin_area_row row[SPIN_AREA_PARTS]; /* by enum spin_area_part */
    uint64_t hpus;
    double mm2, watt;               /* of the card */
    double memory_mm2, memory_watt; /* L1 and L2 of it */
};
/* SPIN_EARG for a card without clusters, HPUs, L1 or clock. */
int spin_area_estimate(const struct spin_area_config *config, struct spin_area *area,
                       struct spin_error *err);

#ifdef __cplusplus
}
#endif

#endif
