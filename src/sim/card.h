/* The simulated PsPIN card (ISCA'21): packets in, handlers run on its HPUs, packets, host writes
 * and completions out, in virtual time.
 *
 *     struct card_config config;
 *     card_config_preset(&config, "pspin", &err);
 *     card_config_set(&config, "clusters=2", &err);
 *     card_new(&card, engine, &config, &callbacks, &err);
 *     card_add_context(card, &context, &number, &err);
 *     card_feed(card, next_packet, user);         -- or card_inject, packet by packet
 *     sim_run(engine, SIM_FOREVER, UINT64_MAX, &err);
 *     card_stats(card, &stats);
 *
 * A message is what (context, message id) names, from its first packet to the one with `eom`. The
 * header handler runs on its first packet before anything else of the message; the payload handler
 * on every packet, also the first and the last; the completion handler after all of them, with the
 * last packet. A handler that the context does not have is left out. */
#ifndef SPIN_SIM_CARD_H
#define SPIN_SIM_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hpu/port.h"
#include "openspin.h"
#include "sim/engine.h"

struct hpu_timing;

/* ---- Configuration ---------------------------------------------------------------------------
 * The parameters are the rows of card_params.def. */

enum { CARD_BACKPRESSURE, CARD_DROP, CARD_MARK, CARD_KILL };

struct card_config {
#define CARD_PARAMETER(member, value, unit, min, max, what, source) uint64_t member;
#include "sim/card_params.def"
#undef CARD_PARAMETER
    const struct hpu_timing *core; /* of an HPU; NULL: RI5CY. Memories and cache are the card's */
    enum spin_jit jit; /* how handlers run; no parameter of the card: it changes no result */
    bool check;        /* what handlers allocate stands before a hole (hpu/heap.h) */
};

/* "pspin" is the only preset. */
int card_config_preset(struct card_config *to, const char *preset, struct spin_error *err);
/* "quantum=1", "cycle=0.5ns", "policy=drop" (backpressure, drop, mark, kill), ... */
int card_config_set(struct card_config *to, const char *assignment, struct spin_error *err);
/* Row i for a report; false after the last. */
bool card_config_row(const struct card_config *of, int i, struct spin_parameter *row);

/* ---- Execution contexts ---------------------------------------------------------------------- */

enum card_abi {
    CARD_PSPIN,  /* void handler(handler_args_t *args) */
    CARD_P4SPIN, /* the signatures of spin/handler.h */
};

/* Zero means: not there, or the default. Images must outlive the card. */
struct card_context {
    const char *name; /* for messages; NULL: the image's path */
    enum card_abi abi;
    const struct spin_image *image;
    /* Address by enum spin_handler_kind, 0: none. Cleanup handlers only entries of Portals have. */
    uint32_t entry[SPIN_CLEANUP_HANDLER + 1];
    uint32_t memory_bytes;   /* of L2 handler memory */
    uint32_t memory_address; /* where, `as_rtl`; else the card chooses */
    uint32_t scratch_bytes;  /* in the L1 of each cluster */
    bool partial_copy;       /* only l1_bytes of each packet go to L1 (0: none) */
    uint32_t l1_bytes;
    uint8_t *host; /* host memory that the context may use; NULL: see callbacks */
    uint64_t host_address, host_bytes;
    uint8_t *handler_host; /* P4sPIN: the handlers' own host memory (space 1) */
    uint64_t handler_host_bytes;
    /* As PsPIN's RTL has it: memory is where the driver says and may be shared, handler memory
     * reaches to the end of L2, contexts of one image share its data, and the callbacks stand for
     * the host at any address. */
    bool as_rtl;
    uint32_t pad_offset[4], pad_bytes[4]; /* then: the scratchpads, from where L1s have them */
    uint64_t watchdog_cycles;             /* 0: 1,000,000 */
    uint64_t queue_timeout_ps; /* a message without packets for so long is given up; 0: never */
};

/* card_load: contexts `as_rtl` of an image share its constants and data, which are in the card's
 * memory from then on, and .l2_handler_data in L2; adding one loads its image too.
 * card_add_context: copies what it needs. On success *number is the context's, counted from 0; on
 * an error the card has as much room as before. */
struct card;
int card_load(struct card *card, const struct spin_image *image, struct spin_error *err);
int card_add_context(struct card *card, const struct card_context *context, uint32_t *number,
                     struct spin_error *err);

const struct spin_image *card_context_image(const struct card *card, uint32_t context);
/* Memory that a context's handlers see at an address: handler memory, its image's data,
 * scratchpads. NULL if not all of it is the context's. */
uint8_t *card_reach(struct card *card, uint32_t context, uint32_t address, uint32_t bytes);
/* Any memory of the card, as the host reaches it: L2 handler memory (with the data of images in
 * contexts `as_rtl`), L1s, L2 packets. NULL: not all of it is there. */
uint8_t *card_memory(struct card *card, uint32_t address, uint32_t bytes);
/* Where it stands: cluster UINT32_MAX for handler memory, else the cluster's scratchpad. */
uint32_t card_address(const struct card *card, uint32_t context, uint32_t cluster, uint32_t *bytes);

/* ---- Packets in ------------------------------------------------------------------------------ */

struct card_packet {
    uint32_t context, message;
    const uint8_t *bytes; /* copied */
    uint32_t length;
    bool eom;            /* the message's last */
    uint64_t arrival_ps; /* at the NIC */
    /* It has a place in L2 from when it arrives, as in PsPIN's RTL; it arrives later if there is no
     * room. Otherwise it waits at the source until the inbound engine is free. */
    bool at_once;
    uint64_t user;     /* for feedback */
    bool partial_copy; /* only l1_bytes of it go to L1, unless its context says how many */
    uint32_t l1_bytes;
    /* P4sPIN only: what the descriptors say. */
    uint32_t message_bytes, offset, source;
    uint64_t hdr_data;
};

enum card_taken {
    CARD_TAKEN,
    CARD_FULL,    /* not taken: offer it again after `ready` */
    CARD_DROPPED, /* by the policy, or because its message has failed; counted */
};

/* Offers a packet at the engine's time, which is at least arrival_ps. SPIN_EARG for one that cannot
 * be: no such context, no bytes or more than the packet buffer in L1 can take. */
uint32_t card_most_bytes(const struct card *card);
int card_inject(struct card *card, const struct card_packet *packet, enum card_taken *taken,
                struct spin_error *err);

/* Draws packets from a source: `next` fills in the next one, in order of arrival, or returns false
 * when there is none (card_feed may then be called again). Its bytes must stay until the next call.
 * A packet that the card cannot take waits, and those behind it: that is the backpressure. */
typedef bool card_source(void *user, struct card_packet *packet);
void card_feed(struct card *card, card_source *next, void *user);

/* ---- What comes out -------------------------------------------------------------------------- */

struct card_out { /* a packet or message that a handler sends */
    uint32_t context, message;
    uint32_t command;     /* its number in spin/driver.h */
    const uint32_t *word; /* the command's words */
    const uint8_t *bytes; /* valid during the call */
    uint32_t length;
};

struct card_fault {
    uint32_t context, message, hpu;
    enum spin_handler_kind kind;
    /* SPIN_RETURNED: the handler returned `value`, which means failure (P4sPIN); or, with hpu
     * UINT32_MAX, the message queue's timeout or the policy `kill`. */
    enum spin_ending ending;
    uint32_t entry; /* of the handler */
    uint32_t pc, address;
    int32_t value; /* that the handler returned */
    struct spin_refusal refusal;
};

struct card_feedback {
    uint64_t user;
    uint32_t context, message, length;
    uint64_t nic_arrival_ps, pspin_arrival_ps, completion_ps;
    bool dropped, marked;
    enum spin_card_fate fate;
};

/* Rows of a trace. */
enum card_row {
    CARD_ROW_INBOUND,
    CARD_ROW_HPU,
    CARD_ROW_CLUSTER_DMA,
    CARD_ROW_OUTBOUND,
    CARD_ROW_HOST,
    CARD_ROW_DONE,   /* the packet is told to be done, or dropped: its last span */
    CARD_ROW_REFUSED /* it was not taken: its only span */
};

/* What a unit did for a packet, and when. */
struct card_span {
    enum card_row row;
    uint32_t index; /* of the unit: of HPUs, of clusters */
    const char *name;
    const char *fault; /* what ended a handler early, or the error that it returned; else NULL */
    uint64_t start_ps, end_ps;
    uint32_t bytes;
    uint32_t context, message, flow; /* the packet's */
    uint64_t user, arrival_ps;
    uint64_t way; /* the same in all spans of a packet and in those of no other */
};

/* Each may be NULL. They are called at their time, in the engine's order, and may call
 * card_inject. */
struct card_callbacks {
    void *user;
    void (*packet_out)(void *user, const struct card_out *out, uint64_t at_ps);
    /* Host memory is written, or about to be read. Where the context has no `host`, these stand for
     * it, at any address. */
    void (*host_write)(void *user, uint32_t context, uint64_t address, const uint8_t *bytes,
                       uint32_t length, uint64_t at_ps);
    void (*host_read)(void *user, uint32_t context, uint64_t address, uint8_t *bytes,
                      uint32_t length, uint64_t at_ps);
    void (*feedback)(void *user, const struct card_feedback *feedback);
    /* A packet that was not taken, and will not be. */
    void (*refused)(void *user, const struct card_packet *packet, enum spin_card_fate why,
                    uint64_t at_ps);
    void (*fault)(void *user, const struct card_fault *fault, uint64_t at_ps);
    void (*ready)(void *user); /* after CARD_FULL: there may be room again */
    /* A line that a handler printed; where this is NULL it goes to standard error. */
    void (*print)(void *user, uint32_t cluster, uint32_t core, const char *line);
    /* After each instruction, with its cycles: for profiles. Slower by far, the same results. */
    void (*step)(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint32_t cycles);
    /* With it: cycles between instructions, before the one at pc. It waited for a command; or, with
     * pc 0, they were lost to contention in memories. */
    void (*stall)(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint64_t cycles);
    void (*span)(void *user, const struct card_span *span);
    /* In place of hpu_run, for debuggers. Accesses to banks are not logged then. */
    enum hpu_stop (*run)(void *user, struct hpu *hpu, const struct spin_image *image,
                         uint64_t until);
};

int card_new(struct card **out, struct sim_engine *engine, const struct card_config *config,
             const struct card_callbacks *callbacks, struct spin_error *err);
void card_free(struct card *card);
/* Others from now on, between two runs of the engine. */
void card_set_callbacks(struct card *card, const struct card_callbacks *callbacks);

/* ---- Under another's messages ----------------------------------------------------------------
 * The card as the datapath of a Portals card (nic/nic.h), which knows the messages, matches them
 * and says which handlers run: packets come in by card_serve_packet, handlers by card_serve_task,
 * and what handlers ask for goes to the server. It has no contexts but those of the images that it
 * meets, and no message queues. */
struct nic_departed;
struct nic_move;
struct nic_task;

struct card_server {
    void *user;
    uint32_t scratch_bytes; /* in each L1, for each image of PsPIN's interface */
    uint64_t budget_cycles; /* that a handler may run */
    /* A packet is in L2 and its execution request has a cell. */
    void (*arrived)(void *user, uint64_t packet, uint64_t at_ps);
    /* The handler has ended with this return code, and all its commands have their responses. */
    void (*ended)(void *user, uint64_t task_number, int32_t code, uint64_t at_ps);
    /* As of struct port_card, of the handler's port. */
    struct port_host (*host)(void *user, struct nic_task *task, uint32_t space);
    enum hpu_access (*issue)(void *user, struct port *port, struct nic_task *task,
                             const struct port_command *command, uint64_t at_ps);
    enum hpu_access (*over)(void *user, struct port *port, struct nic_task *task, uint32_t handle,
                            bool wait);
    /* The card uses the image from now on, as long as it lives. */
    void (*keep)(void *user, const struct spin_image *image);
    /* What card_serve_move and card_serve_send began has its response. */
    void (*moved)(void *user, struct nic_move *move, uint64_t at_ps);
    void (*departed)(void *user, uint32_t number, uint64_t at_ps);
};
/* Once, on a card without contexts. */
int card_serve(struct card *card, const struct card_server *server, struct spin_error *err);

/* Now. False: there is no room; try again after `ready` of the callbacks. `packet` is for
 * `arrived`.
 */
bool card_serve_packet(struct card *card, const uint8_t *bytes, uint32_t length, uint64_t packet,
                       uint32_t *place);
void card_serve_release(struct card *card, uint32_t place);
/* A handler is to run; `place` of its packet, UINT32_MAX: none, then it waits until one is free.
 * False: the card cannot take its image, with the error. */
bool card_serve_task(struct card *card, struct nic_task *task, uint32_t place,
                     struct spin_error *err);
void card_serve_resume(struct card *card, struct nic_task *task);
/* The run has ended: who waits for room gets none, whatever is released from now on. */
void card_serve_over(struct card *card);
/* A DMA or message of the running handler, through the command unit, while its HPU has a place for
 * another command. */
bool card_serve_has_place(const struct nic_task *task);
void card_serve_move(struct card *card, struct nic_task *task, const struct nic_move *move);
void card_serve_send(struct card *card, const struct nic_departed *how, uint8_t *bytes,
                     uint32_t length, uint32_t number);
/* The card's own: when bytes are at the host or from there, if they may go from `at_ps` on; those
 * that are asked for later go the same way later. And when they are out of the card, from now on.
 */
uint64_t card_serve_host(struct card *card, bool to_host, uint64_t bytes, uint64_t at_ps);
uint64_t card_serve_out(struct card *card, uint32_t bytes);

/* ---- Statistics ------------------------------------------------------------------------------ */

/* The parts and units of openspin.h, by names of this folder. */
enum card_part {
#define CARD_PART_ROW(name, text, what) CARD_PART_##name,
    SPIN_CARD_PARTS(CARD_PART_ROW)
#undef CARD_PART_ROW
        CARD_PART_COUNT
};
const char *card_part_name(unsigned part);

struct card_handler_stats {
    uint64_t runs, faults, instructions, cycles, commands;
    struct spin_spread spread; /* cycles of a run */
};
static inline struct spin_card_handler card_handler_told(const struct card_handler_stats *h) {
    return (struct spin_card_handler){h->runs,   h->faults,   h->instructions,
                                      h->cycles, h->commands, h->spread};
}

enum card_unit {
#define CARD_UNIT_ROW(name, text) CARD_UNIT_##name,
    SPIN_CARD_UNITS(CARD_UNIT_ROW)
#undef CARD_UNIT_ROW
        CARD_UNIT_COUNT
};
const char *card_unit_name(unsigned unit);

struct card_stats {
    /* Every packet taken is completed, dropped (its message failed) or in flight. `refused` were
     * dropped before they were taken. */
    uint64_t taken, completed, dropped, in_flight, refused, marked, full;
    uint64_t fate[SPIN_CARD_FATE_COUNT];
    uint64_t held_ps[2], held[2]; /* the source: for the packet buffer, for a message queue */
    uint64_t bytes_taken, bytes_completed, bytes_refused;
    uint64_t messages_begun, messages_completed, messages_failed;
    uint64_t faults, watchdog_faults, queue_timeouts, kills;
    uint64_t packets_out, bytes_out, host_writes, host_write_bytes, host_reads, host_read_bytes;
    uint64_t first_arrival_ps, first_completion_ps, last_completion_ps;
    /* Bytes completed after the first completion, over the time since: the rate of the completion
     * notifications, as the paper measures it (figure 8). In Mbit/s. */
    uint64_t throughput_mbit;
    struct spin_spread part[CARD_PART_COUNT];
    struct card_handler_stats handler[SPIN_CLEANUP_HANDLER + 1]; /* by enum spin_handler_kind */
    uint64_t unit_busy_ps[CARD_UNIT_COUNT], cluster_dma_busy_ps, hpu_busy_ps; /* sums */
    uint64_t elapsed_ps;                /* first arrival to the last completion */
    uint32_t hpus_used, most_hpus_busy; /* that ran anything; at one time */
    uint64_t most_l2_bytes;             /* of the packet buffer in use at one time */
    uint64_t l2_conflict_cycles;        /* that bursts waited for a bank of the L2 packet buffer */
    uint64_t l1_accesses, conflict_cycles, remote_accesses, remote_wait_cycles, icache_misses;
    uint64_t digest; /* of completions, outputs and faults, with their times */
};
void card_stats(const struct card *card, struct card_stats *stats);
/* Of one context's packets; what only a card has is 0. */
void card_context_stats(const struct card *card, uint32_t context, struct card_stats *stats);
/* The part of elapsed time that an HPU was at work, in ps. */
uint64_t card_hpu_busy_ps(const struct card *card, uint32_t hpu);
/* Cycles of the card's clock until now. */
uint64_t card_cycles(const struct card *card);
/* 0 when no packet is in flight and none waits: what a run should end with; else the error says
 * what is stuck. */
int card_idle(const struct card *card, struct spin_error *err);

#endif
