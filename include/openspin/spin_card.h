/* openspin/spin_card.h: the simulated PsPIN card.
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
#ifndef OPENSPIN_SPIN_CARD_H
#define OPENSPIN_SPIN_CARD_H

#include "spin_network.h"
#include "spin_rig.h"

#ifdef __cplusplus
extern "C" {
#endif

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
     * a Perfetto trace; a row per packet as CSV. They appear when the run is through. */
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
/* The same of one context's packets; `packets` and `bytes` are those that it was offered, refused
 * ones included. What only a card has (backpressure, memories, the HPUs' number
 * and extremes, cycles, events, digest) is 0. */
void spin_card_context_result(const struct spin_card *card, uint32_t context,
                              struct spin_card_result *result);
/* Why packets were malformed: kind i and how many; NULL after the last. */
const char *spin_card_malformed(const struct spin_card *card, uint32_t i, uint64_t *packets);

#ifdef __cplusplus
}
#endif

#endif
