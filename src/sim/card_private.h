/* Inside the simulated card. The files follow the packet:
 *   card.c          inbound engine: injection, the L2 packet buffer, release
 *   card_queue.c    messages by match rules (nic/flow.h), their queues, and the task dispatcher
 *   card_cluster.c  cluster scheduler: copy to L1, assignment, completion
 *   card_hpu.c      HPUs: windows, arguments, slices of execution, contention
 *   card_driver.c   what is behind the HPUs' ports: host memory, commands in flight
 *   card_command.c  the command unit: outbound engine, DMA, HostDirect
 *   card_context.c  execution contexts
 *   card_serve.c    the same card under the messages of a Portals card
 *   card_memory.c   ports and banks of L2 and L1
 *   card_banks.c    single accesses in the banks of L1
 *   card_stats.c, card_params.c
 *
 * Design notes. Everything lives in pools made by card_new; links between entries are indices, so
 * no address enters the order of events. Units that serve one thing at a time (ports, engines,
 * arbiters) are the time at which they are free again: who comes reserves from there on, in the
 * engine's order. Times inside the card are whole cycles, held in picoseconds. */
#ifndef SPIN_SIM_CARD_PRIVATE_H
#define SPIN_SIM_CARD_PRIVATE_H

#include "base/index_table.h"
#include "hpu/hpu_invoke.h"
#include "hpu/guard.h"
#include "hpu/hpu.h"
#include "hpu/image.h"
#include "nic/flow.h"
#include "nic/nic.h"
#include "sim/card.h"
#include "sim/spread.h"

#define NONE             UINT32_MAX
#define UNIT_BYTES       64u           /* of the packet buffers */
#define HEADROOM         CALL_HEADROOM /* before a packet in L1: P4sPIN's descriptors */
#define MAX_CLUSTERS     128u
#define MAX_HPUS         1024u
#define MAX_CLUSTER_HPUS 16u
#define SCRATCHPADS      4u /* that a task can name */

/* A buffer of 64-byte units: next fit, so that what was freed last is used last. */
struct card_space {
    uint16_t *length; /* [unit]: of the allocation that begins there */
    uint64_t *taken;  /* one bit per unit */
    uint32_t units, cursor, used, most;
};
bool card_space_init(struct card_space *space, uint32_t units);
void card_space_free(struct card_space *space);
uint32_t card_space_take(struct card_space *space, uint32_t units); /* NONE: no room */
void card_space_give(struct card_space *space, uint32_t start);

struct card_list {
    uint32_t head, tail;
};

struct card_l2_packet {
    uint32_t next; /* in whichever list it is */
    uint32_t context, message, queue;
    uint32_t length, l2_unit, l1_bytes; /* l1_bytes: of it to L1 */
    uint8_t kind;                       /* of the task that it waits for */
    bool eom, marked, has_cell;
    uint64_t arrival_ps, request_ps, ready_ps, user;
    uint64_t number;   /* of those that were taken */
    uint64_t since_ps; /* its way is accounted for until then, in the parts of its latency */
    uint64_t part_ps[CARD_PART_LATENCY];
    /* P4sPIN */
    uint32_t message_bytes, offset, source;
    uint64_t hdr_data;
    struct nic_task *served; /* the handler that it waits for, of a card that serves, */
    uint64_t served_number;  /* and the number of that */
    bool own_place;          /* made for that handler */
};

struct card_queue {
    struct flow flow; /* phase FLOW_NONE: the queue is free; work: packets, from when they are taken
                         to when they are released, and the completion handler */
    uint32_t context, message, home;
    uint32_t last;         /* the packet that the completion handler gets, */
    uint8_t last_fate;     /* and what became of it */
    struct card_list held; /* packets, by the header handler */
    uint32_t next_free;
    uint64_t touched_ps;
};

struct card_task {
    uint32_t next;
    uint32_t packet, queue, context;
    uint8_t kind;
    bool faulted, ended;
    int32_t value;
    uint32_t cluster, hpu;
    uint32_t l1_unit, l1_bytes, headroom; /* bytes of the packet in L1, and before it */
    uint32_t commands;                    /* in flight */
    uint64_t ready_ps, cluster_ps, copied_ps, assigned_ps, start_ps, end_ps;
    uint64_t copying_ps; /* its first line comes */
    struct card_fault fault;
};

/* The last bursts through a port, oldest overwritten; those that follow each other in step are one.
 * 64: more than pass in a quantum, for back to back they are one. */
#define BURSTS 64u
struct card_burst {
    uint64_t start_ps, end_ps;
    uint32_t phase;
};
struct card_bursts {
    struct card_burst burst[BURSTS];
    uint32_t count;
};
struct card_banks;                                                    /* card_banks.c */
enum card_l2_port { L2_INBOUND, L2_CLUSTERS, L2_NIC_HOST, L2_PORTS }; /* write, read, read */

struct card_cluster {
    uint8_t *l1;
    struct card_space packets;
    uint32_t tasks;
    struct card_list copying; /* packet on its way to L1, in the order in which they come */
    struct card_list ready;   /* packet in L1, no HPU yet */
    uint64_t copied_ps[2]; /* the last line of the last two copies has come; the later one last */
    uint64_t assign_free_ps, command_free_ps, notify_free_ps;
    uint64_t port_free_ps[2]; /* L1's port to the NIC-host interconnect: reads, writes */
    struct card_list port[2]; /* commands that have reserved it, the first one to end first */
    uint64_t both_ps[2];      /* when it last carries reads and writes in turns: from, until */
    uint64_t dma_busy_ps;
    struct card_list commands;  /* on their way to an interface, the first one in front of it */
    uint32_t rate_sum;          /* L1 accesses per cycle of the running HPUs, in 1/65536 */
    uint64_t pe_free_ps[2];     /* reads, writes */
    struct card_bursts wide[2]; /* through L1: reads, writes */
    struct card_banks *banks;
    uint32_t scratch_used;
};

enum card_served { SERVED_NOT, SERVED_MOVE, SERVED_SEND };

/* Where a command goes: one of the interfaces of the command unit, or the cluster's own DMA. */
enum card_target {
    TARGET_OUTBOUND,
    TARGET_DMA,
    TARGET_DIRECT,
    INTERFACES,
    TARGET_CLUSTER = INTERFACES
};

struct card_command {
    bool in_use;
    uint8_t target;
    uint32_t hpu, task;
    struct port_command of;
    uint32_t next;          /* in a list of its cluster */
    struct card_list *port; /* of L1's port, which it has until port_ps; NULL: it does not use it */
    uint64_t port_ps, late_ps; /* late: so much later than the response is scheduled for */
    uint64_t ready_ps; /* it is in front of its interface; the first line that it fetches is here */
    uint64_t last_ps;  /* of a fetch: its last line is here, */
    uint64_t address_ps;       /* and its address is before the clusters */
    uint32_t word[SPIN_WORDS]; /* of `of` */
    uint64_t host_address;
    uint32_t length; /* of the data that it takes with it */
    bool to_host;
    uint8_t served; /* enum card_served: the server is told of the response */
    uint32_t served_number;
    struct nic_move move;
};

/* Of an HPU's slice, an atomic in both ways. */
struct card_accesses {
    uint32_t l1, remote[2], port[2][2]; /* reads, writes; of L2 handler memory, L2 packet buffer */
};

/* The first accesses of a slice to L1, each at so many cycles from its beginning. */
#define ACCESSES_LOGGED 32u
struct card_access_log {
    uint32_t count;
    uint32_t slack; /* cycles behind the last one in which it waited for cold code */
    struct access {
        uint16_t cycle;
        uint16_t slack; /* since the one before */
        uint8_t window;
        bool atomic;
        uint32_t offset; /* in the window */
    } access[ACCESSES_LOGGED];
};

/* Slices of one kind: `from` and `to` are instructions. 0 cycles: an empty entry. */
#define PATTERNS 64u
struct card_pattern {
    uint32_t program, from, to, cycles, accesses;
    struct card_access_log log;
};

/* The next slice that begins there is to be logged. */
#define WANTED 16u
struct card_wanted {
    uint32_t program, pc;
};

#define WAITS_ANY  UINT32_MAX       /* for the response of any command */
#define WAITS_HELD (UINT32_MAX - 1) /* until a completed task is reported */

enum card_core_state {
    CORE_IDLE,
    CORE_INVOKED,
    CORE_RUNNING,
    CORE_BLOCKED,
    CORE_ENDED,
    CORE_STALLED
};

struct card_hpu {
    struct hpu hpu; /* first: the port's card finds it */
    struct port port;
    struct card *card;
    enum card_core_state state;
    uint32_t index, cluster, task;
    uint32_t context; /* whose windows are set */
    struct invoke_core core;
    struct card_list ended; /* tasks that are not reported as complete yet, oldest first */
    uint32_t ended_count;
    uint64_t asks_ps; /* its runtime asks for a task */
    uint64_t held_ps; /* no command of the next task before */
    /* HPU driver */
    uint32_t in_flight;
    uint32_t waits_for; /* handle, or 0; WAITS_ANY, WAITS_HELD */
    bool unnamed;       /* the command that is held back gets a handle that is not its own */
    /* contention */
    uint32_t rate;                     /* L1 accesses per cycle of the last slice, in 1/65536 */
    uint64_t conflict;                 /* owed, in 1/65536 cycles */
    uint64_t slice_from;               /* cycle in which the last slice began */
    enum hpu_stop stop;                /* how it ended */
    struct card_accesses accesses;     /* that it made */
    const struct card_access_log *log; /* one by one; NULL: not known */
    struct card_access_log own_log;
    uint64_t log_from;      /* cycle */
    uint32_t logged;        /* accesses of the log that are done */
    uint64_t lost, charged; /* cycles */
    uint64_t begun_ps, busy_ps;
    bool used;
};

struct card_program {
    const struct spin_image *image;
    struct hpu_code *code;
    struct hpu_icache **icache; /* [clusters] */
    uint8_t *constants, *data;  /* that contexts `as_rtl` share; NULL: not loaded */
};

struct card_execution {
    struct card_context set;
    uint32_t program;
    uint8_t *constants, *data; /* the image's, of this context; or the program's (as_rtl) */
    uint8_t *handler_data;     /* likewise; of the program it is in L2, and this NULL */
    uint32_t memory_address;
    uint32_t scratch_offset; /* in each L1 */
    uint64_t counter[2];
    struct card_stats stats; /* of its packets */
    struct spread part[CARD_PART_COUNT],
        handler_cycles[SPIN_CLEANUP_HANDLER + 1]; /* the card's are their sums */
    struct invoke_context given;                  /* all of it, as its handlers see it */
};

/* Which queue is given up next: card_queue.c. A bit per queue: has a timeout and waits for packets;
 * got one since the hand last passed. */
struct card_queue_clock {
    uint64_t *active, *recent;
    uint32_t words, candidate;
    uint64_t armed_ps; /* the next look at the candidate; UINT64_MAX: none */
};

/* Transfers with one AXI ID, one after the other. */
struct card_stream {
    uint32_t place;    /* the memory that the last one read */
    uint64_t begun_ps; /* when it began */
};

struct card_interface {
    uint32_t room;    /* for commands in flight */
    uint64_t free_ps; /* takes one per cycle */
    uint32_t turn;    /* cluster that is asked first */
};

enum card_kind {
    CARD_FEED_EVENT,
    CARD_REQUEST_EVENT,
    CARD_DISPATCH_EVENT,
    CARD_READY_EVENT,
    CARD_RUN_EVENT,
    CARD_DOORBELL_EVENT,
    CARD_COMPLETE_EVENT,
    CARD_ARRIVED_EVENT,
    CARD_RESPONSE_EVENT,
    CARD_TIMEOUT_EVENT,
    CARD_STORE_EVENT,
    CARD_KINDS
};

struct card {
    struct sim_engine *engine;
    struct card_config config;
    struct card_callbacks callbacks;
    struct card_server server; /* of functions NULL: the card has messages of its own */
    uint64_t now_ps, cycle;    /* of the event being handled; ps of a cycle */

    struct card_space l2;
    uint8_t *l2_packets, *l2_handler;
    uint32_t handler_low, handler_high; /* what is left of L2 handler memory for contexts */
    uint32_t program_used, heap_bytes;
    struct hpu_timing timing; /* of the core, with this card's memories and cache */

    uint32_t clusters, hpus, contexts, programs;
    struct card_cluster *cluster; /* [clusters] */
    struct card_hpu *hpu;
    struct card_execution *context;
    struct card_program *program;

    struct card_l2_packet *packet;
    uint32_t free_packet, packets_made;
    struct card_queue *queue;
    uint32_t free_queue;
    struct hash_table queues; /* by context and message */
    struct card_queue_clock clock;
    struct card_list requests, ready; /* packets: without a cell; with a task to dispatch */
    uint32_t cells_free;
    bool dispatch_armed;
    struct card_task *task;
    uint32_t free_task;
    struct card_command *command; /* [hpu][slot] */
    struct card_interface interface[INTERFACES];

    struct card_pattern pattern[PATTERNS];
    struct card_wanted wanted[WANTED];

    uint64_t inbound_free_ps, dispatch_free_ps, notify_free_ps;
    uint64_t pe_free_ps[2][2]; /* ports of L2 handler memory and L2 packet buffer: reads, writes */
    struct card_bursts l2_bursts[L2_PORTS];
    uint64_t l2_read_free_ps, l2_nic_host_free_ps, outbound_free_ps;
    uint64_t to_host_free_ps, from_host_free_ps, into_card_free_ps; /* DMA: out; in; its writes */

    /* The way to the clusters: card_command.c. */
    struct card_list fetches, held_reads; /* writes that have not begun; reads behind them */
    uint64_t write_begun_ps, turning_from_ps, turning_ps;
    struct card_stream outbound, to_host;
    uint32_t write_place;

    card_source *feed;
    void *feed_user;
    struct card_packet fed;
    bool feed_armed, feed_blocked, wants_ready;
    /* Of a card that serves: handlers that wait for a place, each with the next one in `driver`. */
    struct nic_task *unplaced, *unplaced_last;

    struct sim_instance sim;

    struct card_stats stats;
    uint32_t hpus_busy;
    uint64_t held_since_ps; /* feed_blocked: since then, */
    unsigned held_for;      /* for the packet buffer or a message queue */
};

static inline uint64_t card_max(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}
/* Up to a whole cycle. */
static inline uint64_t card_edge(const struct card *c, uint64_t ps) {
    return (ps + c->cycle - 1) / c->cycle * c->cycle;
}
/* Lines that they touch, from an address on. */
static inline uint32_t card_beats(const struct card *c, uint32_t address, uint32_t bytes) {
    uint64_t wide = c->config.wide_bytes;
    return (uint32_t)((address % wide + bytes + wide - 1) / wide);
}
static inline uint8_t *card_packet_bytes(const struct card *c, const struct card_l2_packet *p) {
    return c->l2_packets + (size_t)p->l2_unit * UNIT_BYTES;
}
/* L1s stand 4 MiB apart, as on PsPIN, as long as they fit before the alias of the own one (44
 * clusters); more stand side by side. */
static inline uint32_t card_l1_address(const struct card *c, uint32_t cluster) {
    uint32_t fit = (MAP_L1_ALIAS - MAP_L1_BASE) / MAP_L1_STRIDE;
    return MAP_L1_BASE + cluster * (c->clusters <= fit ? MAP_L1_STRIDE : MAP_L1_SIZE);
}
/* A card makes its events as one object. */
static inline void card_event(struct card *c, uint64_t at_ps, enum card_kind kind, uint32_t index,
                              uint32_t with) {
    sim_schedule(&c->sim, at_ps, 0, kind, (union sim_payload){.u32 = {index, with}});
}
/* A unit works for a packet. */
static inline void card_span_of(struct card *c, enum card_row row, uint32_t index, const char *name,
                                const char *fault, const struct card_l2_packet *p,
                                uint64_t start_ps, uint64_t end_ps, uint32_t bytes) {
    if (c->callbacks.span)
        c->callbacks.span(c->callbacks.user, &(struct card_span){.row = row,
                                                                 .index = index,
                                                                 .name = name,
                                                                 .fault = fault,
                                                                 .start_ps = start_ps,
                                                                 .end_ps = end_ps,
                                                                 .bytes = bytes,
                                                                 .context = p->context,
                                                                 .message = p->message,
                                                                 .flow = p->source,
                                                                 .user = p->user,
                                                                 .arrival_ps = p->arrival_ps,
                                                                 .way = p->number});
}
static inline void card_span(struct card *c, enum card_row row, uint32_t index, const char *name,
                             const struct card_l2_packet *p, uint64_t start_ps, uint64_t end_ps,
                             uint32_t bytes) {
    card_span_of(c, row, index, name, NULL, p, start_ps, end_ps, bytes);
}
/* The handler that a task runs. */
static inline uint32_t card_entry(const struct card *c, const struct card_task *t) {
    const struct nic_task *served = c->packet[t->packet].served;
    return served ? served->entry : c->context[t->context].set.entry[t->kind];
}
void card_digest(struct card *c, uint64_t a, uint64_t b);

/* A figure of the card that is also its context's. */
#define CARD_COUNT(c, number, member, n)                                                           \
    ((c)->stats.member += (n), (c)->context[number].stats.member += (n))
/* The packet has spent the time since it was last looked at in this part of its latency. */
static inline void card_spent(struct card *c, struct card_l2_packet *p, enum card_part part) {
    p->part_ps[part] += c->now_ps - p->since_ps;
    p->since_ps = c->now_ps;
}

/* Lists of packets, tasks and HPUs, all with a member `next`. */
#define LIST_EMPTY ((struct card_list){NONE, NONE})
#define LIST_PUSH(pool, list, i)                                                                   \
    do {                                                                                           \
        (pool)[i].next = NONE;                                                                     \
        if ((list)->tail == NONE)                                                                  \
            (list)->head = (i);                                                                    \
        else                                                                                       \
            (pool)[(list)->tail].next = (i);                                                       \
        (list)->tail = (i);                                                                        \
    } while (0)
#define LIST_POP(pool, list)                                                                       \
    do {                                                                                           \
        (list)->head = (pool)[(list)->head].next;                                                  \
        if ((list)->head == NONE)                                                                  \
            (list)->tail = NONE;                                                                   \
    } while (0)

/* card_params.c */
int card_config_check(const struct card_config *of, struct spin_error *err);

/* card.c */
uint32_t card_packet_new(struct card *c); /* NONE: none is free */
void card_packet_free(struct card *c, uint32_t packet);
void card_write(struct card *c, uint32_t packet, uint64_t from_ps); /* to L2; a request follows */
void card_release_packet(struct card *c, uint32_t packet, enum spin_card_fate fate);
void card_offer_room(struct card *c);

/* card_serve.c */
static inline bool card_serves(const struct card *c) {
    return c->server.arrived != NULL;
}
void card_served_call(struct card *c, struct card_hpu *h, struct invoke_call *call);
void card_served_ended(struct card *c, const struct card_task *t);
void card_served_place(struct card *c);
void card_served_response(struct card *c, struct card_command *m);

/* card_queue.c */
void card_ready(struct card *c, uint32_t packet, enum spin_handler_kind kind);
uint32_t card_queue_find(const struct card *c, uint32_t context, uint32_t message);
uint32_t card_queue_open(struct card *c, uint32_t context, uint32_t message); /* NONE: none free */
void card_queue_took(struct card *c, uint32_t queue, bool eom);
void card_queue_fail(struct card *c, uint32_t queue);
void card_task_done(struct card *c, const struct card_task *t);
void card_admit(struct card *c);
void card_kick_dispatcher(struct card *c);
void card_on_request(void *context, const struct sim_event *event);
void card_on_dispatch(void *context, const struct sim_event *event);
void card_on_timeout(void *context, const struct sim_event *event);
void card_on_store(void *context, const struct sim_event *event);

/* card_cluster.c */
uint64_t card_l2_read(struct card *c, uint64_t busy_ps, uint64_t at_ps);
/* From `start` on reads and writes of L1's other port take turns, for `both` cycles each. */
void card_slow_copies(struct card *c, struct card_cluster *cl, uint64_t start_ps, uint64_t both_ps);
uint64_t card_copy_start(struct card *c, struct card_cluster *cl, uint64_t beats, uint64_t at_ps);
bool card_cluster_take(struct card *c, uint32_t cluster, uint32_t packet);
void card_assign(struct card *c, uint32_t cluster);
void card_command_over(struct card *c, uint32_t task);
void card_on_ready(void *context, const struct sim_event *event);
void card_on_doorbell(void *context, const struct sim_event *event);
void card_on_complete(void *context, const struct sim_event *event);

/* card_hpu.c */
int card_hpus_new(struct card *c, struct spin_error *err);
void card_switch_context(struct card *c, struct card_hpu *h, uint32_t number);
void card_on_run(void *context, const struct sim_event *event);

/* card_driver.c */
/* In a free place of the HPU's, for the task that it runs; `length` bytes of data go with it. */
struct card_command *card_command_new(struct card_hpu *h, enum card_target target, uint32_t length);
extern const struct port_card card_port;

/* card_memory.c. When a burst of the L2 packet buffer from `offset` can begin, at `at_ps` or later;
 * it is noted there. */
uint64_t card_l2_burst(struct card *c, enum card_l2_port port, uint32_t offset, uint64_t busy_ps,
                       uint64_t at_ps);
void card_l1_burst(struct card *c, uint32_t cluster, bool write, uint32_t address,
                   uint64_t start_ps, uint64_t end_ps);
uint64_t card_l1_lost(const struct card *c, uint32_t cluster, uint64_t accesses, uint64_t from_ps,
                      uint64_t to_ps);

/* card_banks.c */
struct card_banks *card_banks_new(const struct card *c); /* NULL: no memory; free() ends it */
void card_banks_lines(struct card *c, uint32_t cluster, uint32_t address, uint64_t start_ps,
                      uint64_t end_ps);
/* Cycles that the HPU's accesses have lost until now and that were not asked for yet. */
uint64_t card_banks_lost(struct card *c, struct card_hpu *h);
/* Whether the slice that begins now runs by steps, with card_log_step after each. */
bool card_log_wanted(struct card *c, const struct card_hpu *h);
void card_log_step(struct card_hpu *h, const struct hpu_next_access *next, uint64_t before,
                   uint64_t waited);
/* The slice is over: finds its log, or has the next one of its kind logged. */
void card_log_slice(struct card *c, struct card_hpu *h, uint32_t from, bool logged);

/* card_stats.c */
void card_stats_free(struct card_execution *x);

/* card_command.c: takes what the driver has checked. */
void card_command_start(struct card *c, struct card_command *command);
void card_wake(struct card *c, struct card_hpu *h, uint64_t at_ps);
void card_on_arrived(void *context, const struct sim_event *event);
void card_on_response(void *context, const struct sim_event *event);

/* card_context.c */
uint32_t card_scratch_offset(const struct card *c, const struct card_execution *x,
                             uint32_t cluster);
uint32_t card_scratch_bytes(const struct card *c, const struct card_execution *x, uint32_t cluster);
uint32_t card_scratch_address(const struct card *c, uint32_t context, uint32_t cluster);
/* The range of L2 handler memory that a context's handlers reach. */
uint32_t card_handler_memory(const struct card *c, const struct card_execution *x, uint32_t *bytes);
void card_contexts_free(struct card *c);

#endif
