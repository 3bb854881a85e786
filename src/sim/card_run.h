/* A whole run of the simulated card: traffic in, matching, handlers, and files of what came of it.
 */
#ifndef SPIN_SIM_CARD_RUN_H
#define SPIN_SIM_CARD_RUN_H

#include "nic/match.h"
#include "sim/card.h"

#define CARD_RUN_FAULTS 8 /* that a result tells of, the first ones */

struct card_run_options {
    struct card_config config;
    const struct card_context *context;
    uint32_t contexts;
    const char *traffic;           /* a spec of sim/traffic.h */
    const struct nic_match *match; /* NULL: every packet goes to context 0, malformed ones too */
    /* Files to write, or NULL: what the card sends (pcap, pcapng), a Perfetto trace, and a row a
     * packet as CSV. */
    const char *out, *trace, *packets;
    /* Called now and then with the packets that have arrived and that will; NULL for never. */
    void (*progress)(void *context, uint64_t done, uint64_t of);
    void *progress_context;
    /* Called with each instruction of each handler and its cycles: for profiles. NULL for never. */
    void (*step)(void *context, uint32_t number, uint32_t pc, uint32_t cycles);
    void *step_context;
};

struct card_run_fault {
    struct card_fault what;
    uint64_t at_ps;
};

struct card_run_result {
    struct card_stats stats;
    enum nic_link link;
    /* Of the traffic: all of it, and what the match table kept from the handlers. */
    uint64_t packets, bytes, to_host, to_host_bytes, matched_drop;
    uint64_t malformed[HEADERS_FAULT_COUNT]; /* [HEADERS_NONE] counts nothing */
    uint64_t malformed_packets, cut_packets;
    uint64_t by_rule[NIC_MATCH_RULES], by_no_rule;
    uint64_t first_ps, last_ps, last_bytes; /* first and last arrival */
    struct card_run_fault fault[CARD_RUN_FAULTS];
    uint64_t events, cycles, captured, hpus;
    uint64_t hpu_least_ps, hpu_most_ps; /* at work: the idlest and the busiest HPU */
};

/* Faults of handlers are part of the result; an error is a run that could not be done, or that
 * ended with packets that nothing moves. No file appears then. */
int card_run(const struct card_run_options *options, struct card_run_result *result,
             struct spin_error *err);

#endif
