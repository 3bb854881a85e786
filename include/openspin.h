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
    X(SPIN_EDEADLOCK, -8, "nothing left to do, but not everything is done")                        \
    X(SPIN_EINTERRUPTED, -9, "interrupted by a signal")

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
/* The same in the user's own source: where a call of our headers was inlined, the line of the call,
 * and its name; *call is NULL elsewhere. */
bool spin_image_caller(const struct spin_image *image, uint32_t address, const char **file,
                       int *line, const char **call);
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

/* Whether generated code leaves some of its checks to page protection, which is faster and takes
 * SIGSEGV: a handler's access outside its memory is then a fault of the host that we catch. So it
 * is for the program to say, once, before it makes rigs and cards; at first: off. Threads that run
 * handlers must not block SIGSEGV, and fork() leaves the memory of cards shared with the child. */
enum spin_guards {
    SPIN_GUARDS_OFF,
    /* We install a handler when there is first code that needs it. All other faults go to the
     * handler that was there before, as the kernel would have called it. A program that installs
     * one later has to call spin_handle_fault from it. */
    SPIN_GUARDS_INSTALL,
    /* We install nothing: the program's own handler calls spin_handle_fault first. */
    SPIN_GUARDS_CALLED,
};
void spin_guard_pages(enum spin_guards how);
/* With the arguments of a handler that has SA_SIGINFO. True: it was an access of a handler, and has
 * been taken care of; return. False: it is the program's. */
bool spin_handle_fault(int signal, void *siginfo, void *ucontext);

struct spin_rig_options {
    const char *core;          /* timing table: "ri5cy" (default), "sc17", "unit" */
    bool functional;           /* no timing: every instruction is a cycle */
    bool state_in_l2;          /* the state in L2 handler memory instead of the L1 scratchpad */
    uint64_t budget;           /* watchdog in cycles; 0: 1,000,000 */
    uint32_t hpu;              /* which HPU: PTL_MY_HPU */
    uint32_t state_bytes;      /* size of the state; 0: 4096 */
    uint32_t host_bytes;       /* size of each host memory space; 0: 64 KiB */
    uint32_t scratchpad_bytes; /* of a PsPIN handler, in the L1 of each of 4 clusters; 0: none */
    bool check; /* what a handler allocates has its exact size, and nothing is next to it */
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
    SPIN_ENDED_COMMAND, /* the card refused what a call asked for: spin_refusal */
    SPIN_ENDED_KILLED,  /* by gdb, which had stopped it at `pc` */
    SPIN_ENDED_HOST,    /* a call meant host memory that is not there: spin_refusal */
    SPIN_ENDED_CALL,    /* ecall: a card has no system to call */
};
const char *spin_ending_name(enum spin_ending ending);
const char *spin_return_code_name(int32_t code); /* "PROCESS_DATA"; NULL for no such code */

/* Why the card refused a command: "PtlHandlerPutFromDevice", "2,000 bytes, at most 1,024". `call`
 * is NULL when it refused none. */
struct spin_refusal {
    const char *call;
    char why[112];
};
/* How a handler was ended, for people: ending, place, source line, and the refusal or the address.
 * "SEGV at pc 0x1d000010 (copy_payload_handler+0x10), copy.c:7, address 0x10010440" */
void spin_ending_text(const struct spin_image *image, enum spin_ending ending, uint32_t pc,
                      uint32_t address, const struct spin_refusal *refusal, char *text,
                      size_t room);

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
    struct spin_refusal refusal;
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

/* Lines that handlers print (spin/libc/stdio.h), instead of to standard error. */
void spin_rig_print(struct spin_rig *rig,
                    void (*each)(void *context, uint32_t hpu, const char *line), void *context);

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
#define SPIN_SET_BY_USER "set by the user" /* the source of a value that is not the preset's */
struct spin_parameter {
    const char *name;
    char value[256]; /* as spin_..._set take it */
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
/* "link_rate=400Gbit/s", "link_latency=33.4ns", "queue=credit", "loss=1e-6", "topology=switch", of
 * which the text must stay. */
int spin_packet_set(struct spin_packet *to, const char *assignment, struct spin_error *err);
bool spin_packet_parameter(const struct spin_packet *of, const char *preset, int i,
                           struct spin_parameter *row);

/* What traces and pictures show of a run; zero for all of it. */
struct spin_view {
    const char *ranks; /* "0-3,7", or NULL */
    uint64_t from_ps, to_ps;
};

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

/* ---- The simulated PsPIN card -------------------------------------------------------------------
 * The card of the ISCA'21 paper in virtual time (docs/card.md): packets in, handlers on its HPUs,
 * packets and host memory out.
 *
 *     spin_card_new(&card, "pspin", &err);
 *     spin_card_set(card, "clusters=2", &err);
 *     spin_card_add_context(card, &context, &number, &err);
 *     spin_card_match(card, "rules", "udp.dport=4791 -> ctx0", &err);
 *     spin_card_run(card, &(struct spin_card_options){.traffic = "gen:packets=100"}, &err);
 *     spin_card_result(card, &result);
 *     memory = spin_card_memory(card, number, SPIN_ME_HOST, &bytes);
 *     spin_card_free(card);
 *
 * The same calls give the same results on every machine. */

struct spin_card;

/* `preset`: "pspin", the paper's. On an error *out is NULL. */
int spin_card_new(struct spin_card **out, const char *preset, struct spin_error *err);
void spin_card_free(struct spin_card *card);
/* One parameter: "clusters=2", "cycle=0.5ns", "policy=drop". Before the first context. */
int spin_card_set(struct spin_card *card, const char *assignment, struct spin_error *err);
/* How handlers run (at first: off). No result depends on it. Before the first context. */
void spin_card_jit(struct spin_card *card, enum spin_jit mode);
/* What P4sPIN handlers allocate stands before a hole (at first: off). Before the first context. */
void spin_card_check(struct spin_card *card, bool check);
/* Row i of the parameters in effect, with the source of each; false after the last. */
bool spin_card_parameter(const struct spin_card *card, int i, struct spin_parameter *row);
/* What images of this card must fit in. */
void spin_card_limits(const struct spin_card *card, struct spin_limits *limits);

/* An execution context. Zero means: not there, or the default. */
struct spin_card_context {
    const struct spin_image *image;         /* must outlive the card */
    const struct spin_function *handler[3]; /* header, payload, completion; NULL: none */
    uint32_t memory_bytes;                  /* L2 handler memory */
    uint32_t scratch_bytes;                 /* in the L1 of each cluster */
    bool partial_copy;                      /* copy_bytes of each packet go to L1, not all */
    uint32_t copy_bytes;
    uint64_t host_address, host_bytes; /* host memory, which the card makes: zeros at first */
    uint64_t watchdog_cycles;          /* a handler may run so long; 0: 1,000,000 */
    uint64_t timeout_ps;               /* a message silent for longer is given up; 0: never */
};
/* Contexts are numbered from 0. On an error the card has as much room as before. */
int spin_card_add_context(struct spin_card *card, const struct spin_card_context *context,
                          uint32_t *number, struct spin_error *err);

/* A context's memory, to be filled before a run and read after it: SPIN_STATE (L2 handler memory),
 * SPIN_DATA (of its image), SPIN_SCRATCHPAD + cluster, SPIN_ME_HOST, SPIN_HANDLER_HOST. NULL: there
 * is none. */
uint8_t *spin_card_memory(struct spin_card *card, uint32_t context, enum spin_space space,
                          uint64_t *bytes);

/* Which packets go to which context: rules, the first that holds decides (docs/card-run.md). After
 * the contexts, once. `name` stands for the text in messages. A card without rules gives every
 * packet to context 0, or to the one that its source names. */
int spin_card_match(struct spin_card *card, const char *name, const char *text,
                    struct spin_error *err);
int spin_card_match_file(struct spin_card *card, const char *path, struct spin_error *err);
/* Rule i as it was written, and how many packets it took; NULL after the last. */
const char *spin_card_rule(const struct spin_card *card, uint32_t i, uint64_t *packets);
/* The fields that rules can name, with what they are; NULL after the last. */
const char *spin_card_field(uint32_t i, const char **what);

/* A packet that arrives, from a program's own source. */
struct spin_card_packet {
    uint64_t arrival_ps;  /* of its first byte; not before that of the packet before */
    const uint8_t *bytes; /* until the next call */
    uint32_t length;
    uint32_t context; /* of a card without rules */
    uint32_t message; /* packets of one message have one id */
    bool end_of_message;
    /* What a P4sPIN header says; 0: the packet's length and 0. */
    uint32_t message_bytes, offset, source;
    uint64_t user; /* comes back with its spin_card_done */
};

struct spin_card_sent { /* by a handler */
    uint64_t at_ps;
    uint32_t context, message;
    uint32_t command;     /* its number in spin/driver.h */
    const uint8_t *bytes; /* during the call */
    uint32_t length;
};

struct spin_card_done { /* a packet for a context is through, or was refused */
    uint64_t user;      /* of its source; with options.traffic: its number, from 0, in all runs */
    uint32_t context, message, length;
    uint64_t arrival_ps, request_ps, completion_ps; /* at the NIC; in L2; done */
    bool dropped, marked;                           /* dropped: also when it was refused */
    unsigned fate;                                  /* enum spin_card_fate */
};

struct spin_card_fault {
    uint64_t at_ps;
    uint32_t context, message;
    uint32_t hpu; /* UINT32_MAX: the message was given up, by its timeout or the policy `kill` */
    enum spin_handler_kind kind;
    enum spin_ending ending; /* SPIN_RETURNED: given up, or the handler returned `value`: FAIL */
    uint32_t pc, address;
    int32_t value;
    struct spin_refusal refusal;
};

/* P4sPIN handlers are told how long their message is, so traffic of a spec is measured first. */
enum spin_card_stage { SPIN_CARD_MEASURES, SPIN_CARD_RUNS };

/* One run. Traffic is a spec as of `openspin card run --traffic`, or the program's `next`, which
 * returns false when there is no more. The rest may be NULL. */
struct spin_card_options {
    const char *traffic;
    /* Further specs, ended by NULL, or NULL: their packets come between, by the time of arrival. A
     * message of the i-th of n specs with the id m has the id m * n + i. */
    const char *const *more_traffic;
    bool (*next)(void *user, struct spin_card_packet *packet);
    bool ethernet; /* packets of `next` begin with an Ethernet header, not with IP */
    /* Files to write: what handlers send and what goes to the host, as pcap or pcapng by the name;
     * a Perfetto trace; a row a packet as CSV. They appear when the run is through. */
    const char *out, *host_out, *trace, *packets;
    /* Called at their simulated time, in order; to_host, with each packet that no rule takes or
     * that one sends there, when the packet is drawn, which may be earlier. */
    void *user;
    void (*sent)(void *user, const struct spin_card_sent *packet);
    void (*to_host)(void *user, const struct spin_card_packet *packet);
    void (*done)(void *user, const struct spin_card_done *packet);
    void (*fault)(void *user, const struct spin_card_fault *fault);
    /* Each instruction and its cycles: for profiles. Slower, the same results. */
    void (*step)(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint32_t cycles);
    /* With it: cycles before the instruction at pc, in which it waited for a command; or, with pc
     * 0, that were lost to contention in memories. Both together are the handlers' cycles. */
    void (*stall)(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint64_t cycles);
    /* Now and then, with the packets that are through the stage and that there will be (0: not
     * known), and after the last one. */
    void (*progress)(void *user, enum spin_card_stage stage, uint64_t done, uint64_t of);
};
/* Until everything is through. Faults of handlers are part of the result. After an error no file
 * appears; if the run had not begun (a bad spec, a file that cannot be opened), the card is as it
 * was, else (packets that nothing moves, SPIN_EDEADLOCK) it can only be freed. A card may run
 * again: its time goes on (arrivals count from the run's beginning), and so do memories and
 * results. */
int spin_card_run(struct spin_card *card, const struct spin_card_options *options,
                  struct spin_error *err);

/* A distribution, exact: percentiles are values that were seen, by nearest rank. */
struct spin_spread {
    uint64_t count, sum, least, most, p50, p90, p99, p999;
};

/* The way of each packet that was completed, in ps. All but the last two follow each other: a part
 * that a packet passes several times, because several handlers run on it, counts with the sum. So
 * those from CELL to DELIVER add up to LATENCY, and with WRITE to TOTAL. */
#define SPIN_CARD_PARTS(X)                                                                         \
    X(WRITE, "write to L2", "arrival at the NIC to execution request")                             \
    X(CELL, "wait for a cell", "execution request to a place in the message queues")               \
    X(MESSAGE, "wait for the message", "for the header handler, or for the other packets")         \
    X(QUEUE, "scheduling", "ready for a handler to cluster scheduler")                             \
    X(COPY, "copy to L1", "cluster scheduler to packet in L1")                                     \
    X(ASSIGN, "HPU assignment", "packet in L1 to HPU driver, with the wait for an idle HPU")       \
    X(INVOKE, "invocation", "HPU driver to first instruction")                                     \
    X(HANDLER, "handler", "first instruction to return")                                           \
    X(FINISH, "completion", "return to notification: doorbell, commands in flight, arbiters")      \
    X(DELIVER, "delivery to host", "by the card, where no handler runs")                           \
    X(LATENCY, "latency", "execution request to completion notification, as in the paper")         \
    X(TOTAL, "latency from NIC", "arrival at the NIC to completion notification")
enum spin_card_part {
#define SPIN_CARD_PART_ROW(name, text, what) SPIN_CARD_PART_##name,
    SPIN_CARD_PARTS(SPIN_CARD_PART_ROW)
#undef SPIN_CARD_PART_ROW
        SPIN_CARD_PART_COUNT
};
const char *spin_card_part_name(unsigned part);

/* Units of the card. How long one was in use over elapsed_ps is its utilisation. */
#define SPIN_CARD_UNITS(X)                                                                         \
    X(INBOUND, "inbound engine")                                                                   \
    X(L2_READ, "L2 packet buffer, port to the clusters")                                           \
    X(NIC_HOST, "NIC-host interconnect, reads")                                                    \
    X(PE, "PE interconnect")                                                                       \
    X(OUTBOUND, "outbound engine")                                                                 \
    X(TO_HOST, "host interface, to the host")                                                      \
    X(FROM_HOST, "host interface, from the host")
enum spin_card_unit {
#define SPIN_CARD_UNIT_ROW(name, text) SPIN_CARD_UNIT_##name,
    SPIN_CARD_UNITS(SPIN_CARD_UNIT_ROW)
#undef SPIN_CARD_UNIT_ROW
        SPIN_CARD_UNIT_COUNT
};
const char *spin_card_unit_name(unsigned unit);

/* What became of a packet, and why. */
#define SPIN_CARD_FATES(X)                                                                         \
    X(DONE, "done", "")                                                                            \
    X(MARKED, "marked", "packet buffer over mark_percent")                                         \
    X(FAILED, "dropped", "its message failed")                                                     \
    X(BY_HANDLER, "dropped", "a handler returned DROP")                                            \
    X(NO_HOST_ROOM, "dropped", "does not fit in host memory")                                      \
    X(BUFFER_FULL, "refused", "packet buffer full")                                                \
    X(NO_QUEUE, "refused", "no free message queue")                                                \
    X(AFTER_FAILURE, "refused", "its message had failed")                                          \
    X(BAD_PACKET, "refused", "no context, or longer than a packet buffer")                         \
    X(RULE_DROP, "dropped", "by a rule")                                                           \
    X(RULE_HOST, "host", "by a rule")                                                              \
    X(NO_RULE, "host", "no rule takes it")
enum spin_card_fate {
#define SPIN_CARD_FATE_ROW(name, outcome, why) SPIN_CARD_FATE_##name,
    SPIN_CARD_FATES(SPIN_CARD_FATE_ROW)
#undef SPIN_CARD_FATE_ROW
        SPIN_CARD_FATE_COUNT
};
const char *spin_card_fate_outcome(unsigned fate); /* "done", "dropped", ... */
const char *spin_card_fate_reason(unsigned fate);

struct spin_card_handler { /* all runs of one kind */
    uint64_t runs, faults, instructions, cycles, commands;
    struct spin_spread spread; /* cycles of a run */
};

#define SPIN_CARD_FAULTS 8 /* that a result tells of, the first ones */

struct spin_card_result {
    /* Of the traffic: all of it, and what never came to a handler. */
    uint64_t packets, bytes, to_host, to_host_bytes, dropped_by_rule;
    uint64_t malformed, no_rule; /* packets, by the match table */
    uint64_t cut_in_capture;     /* packets of which a capture held the beginning only */
    uint64_t late_in_capture;    /* packets stamped before the one in front of them */
    uint64_t other_handlers; /* packets whose trace names other handlers than their context has */
    uint64_t first_ps, last_ps, last_bytes; /* first and last arrival, bytes of the last packet */
    /* Every packet taken is completed, dropped (its message failed) or in flight. `refused` were
     * dropped before they were taken. */
    uint64_t taken, completed, bytes_completed, dropped, refused, marked, stalled_offers;
    uint64_t fate[SPIN_CARD_FATE_COUNT]; /* packets that are through: each in one of them */
    /* Backpressure: how long the source was held, and how many packets waited, for room in the
     * packet buffer and for a free message queue. */
    uint64_t held_ps[2], held[2];
    uint64_t messages_begun, messages_completed, messages_failed;
    uint64_t faults, watchdog_faults, queue_timeouts, kills;
    uint64_t packets_out, bytes_out, host_writes, host_write_bytes, host_reads, host_read_bytes;
    uint64_t elapsed_ps; /* first arrival to last completion */
    /* Bytes completed after the first completion, over the time since, as in the paper (figure 8).
     */
    uint64_t throughput_mbit;
    struct spin_spread part[SPIN_CARD_PART_COUNT];
    struct spin_card_handler handler[3];      /* by enum spin_handler_kind */
    uint64_t clusters, hpus, l2_packet_bytes; /* of the card */
    uint64_t unit_busy_ps[SPIN_CARD_UNIT_COUNT], cluster_dma_busy_ps, hpu_busy_ps; /* sums */
    uint64_t hpu_least_ps, hpu_most_ps; /* at work: the idlest and the busiest HPU */
    uint64_t hpus_used, most_hpus_busy; /* that ran anything; at one time */
    uint64_t most_l2_bytes;             /* of the packet buffer in use at one time */
    uint64_t l2_conflict_cycles, l1_accesses, conflict_cycles, remote_accesses, remote_wait_cycles,
        icache_misses;
    uint64_t cycles, events; /* of the card's clock; of the simulation */
    uint32_t faults_told;
    struct spin_card_fault fault[SPIN_CARD_FAULTS]; /* faults_told of them */
    uint64_t digest; /* of completions, outputs and faults, with their times */
};
/* Since the card was made. */
void spin_card_result(const struct spin_card *card, struct spin_card_result *result);
/* The same of one context's packets. What only a card has (backpressure, memories, the HPUs' number
 * and extremes, cycles, events, digest) is 0. */
void spin_card_context_result(const struct spin_card *card, uint32_t context,
                              struct spin_card_result *result);
/* Why packets were malformed: kind i and how many; NULL after the last. */
const char *spin_card_malformed(const struct spin_card *card, uint32_t i, uint64_t *packets);

/* ---- Simulated worlds ---------------------------------------------------------------------------
 * Ranks that run programs written against portals4.h, each behind a card with handlers, on a packet
 * network, in virtual time (docs/world.md). Worlds are independent of each other; one runs at a
 * time on a thread.
 *
 *     struct spin_world_options o = {.ranks = 16, .preset = "sc17-dis"};
 *     spin_world_new(&world, &o, &err);
 *     spin_world_run(world, my_rank, &argument, &err);
 *     result = spin_world_result(world);
 *     spin_world_free(world); */

struct spin_world;

struct spin_world_options {
    uint32_t ranks;         /* 1 to 65,536 */
    const char *preset;     /* "sc17-int" (NULL) or "sc17-dis" */
    const char *const *set; /* "hpus=8", "loss=0.01": see spin_world_parameter */
    int set_count;
    const char *topology;    /* NULL: "fattree:36" */
    struct spin_noise noise; /* on the hosts' processors */
    enum spin_jit jit;       /* how handlers run; no result depends on it */
    uint64_t until_ps;       /* the run ends there; 0: when every rank has returned */
    const char *trace;       /* a Perfetto trace of the run, or NULL */
    const char *picture;     /* the same as SVG, or NULL */
    struct spin_view view;   /* what these two show */
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
    void *user;         /* of fault, listening and progress */
    bool catch_crashes; /* SIGSEGV and exit() of a rank end the process with a report; with a
                         * shared object, SIGINT and programs that make no calls end the run */
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
 * program is the path; what is given here follows. */
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
/* When a rank returned, and what. */
uint64_t spin_world_finish_ps(const struct spin_world *world, uint32_t rank, int *status);
/* Where a rank is that has not returned: "rank 3 in PtlCTWait (counter 2 of 4) since 120.500 ns";
 * false: it has. */
bool spin_world_where(const struct spin_world *world, uint32_t rank, char *text, size_t room);

/* From inside a rank (outside of one: 0, or nothing). Rank r is the process with nid r, pid 0. */
uint32_t spin_rank(void);
uint32_t spin_ranks(void);
uint64_t spin_now_ps(void);             /* the rank's clock */
void spin_compute_ps(uint64_t time_ps); /* its processor is busy for so long */
static inline void spin_compute(uint64_t ns) {
    spin_compute_ps(ns * 1000);
}
/* So many cycles of its processor, while so many bytes go through the host's memory: until both are
 * done. */
void spin_work(uint64_t cycles, uint64_t memory_bytes);
/* memcpy that takes the time of one. */
void spin_copy(void *to, const void *from, size_t bytes);
/* All ranks that have not returned wait for each other, as in a launcher's barrier: no message, no
 * time of its own. */
void spin_barrier(void);
/* PtlSetMap of a logical interface for all ranks of the world; a code of enum ptl_retvals. The map
 * is one for the whole world, so this is the way for tens of thousands of ranks. */
int spin_map_ranks(uint32_t ni_handle);

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
