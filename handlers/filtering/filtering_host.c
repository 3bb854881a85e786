/* A table of rules and packets of which about every other has a rule. Those, and only those, must
 * be in host memory, with the port of the rule. */
#include "filtering.h"

#include <stddef.h>
#include <string.h>

#include "spin/pspin/packets.h"
#include "workload.h"

enum { MESSAGES, BYTES, MATCHING };
static const struct workload_parameter parameters[] = {
    {"messages", "of one packet each", 512, 1, 65536},
    {"bytes", "of a packet, headers included", 512, WORKLOAD_HEADERS, 32704},
    {"matching", "percent of the packets that have a rule", 50, 0, 100},
    {0}};

struct run {
    struct workload_run base;
    filtering_entry_t *table;
    uint8_t *packet, *expected; /* host memory */
    uint32_t *source;
};

/* Half of the table's places get a rule of a random source; then the sources that shall match. */
static void fill_table(struct run *r) {
    struct rng *rng = &r->base.rng;
    for (uint32_t i = 0; i < FILTERING_ENTRIES / 2; i++) {
        uint32_t source = rng_u32(rng) | 1;
        r->table[filtering_place(source)] =
            (filtering_entry_t){.source = source, .port = rng_below(rng, 65536)};
    }
    for (uint32_t i = 0; i < r->base.value[MESSAGES]; i++) {
        uint32_t source = r->source[i] = rng_u32(rng) | 1;
        if (rng_below(rng, 100) < r->base.value[MATCHING])
            r->table[filtering_place(source)] =
                (filtering_entry_t){.source = source, .port = rng_below(rng, 65536)};
    }
}

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    size_t host = base->value[MESSAGES] * base->value[BYTES];
    r->table = workload_memory(base, FILTERING_ENTRIES * sizeof *r->table);
    r->packet = workload_memory(base, base->value[BYTES]);
    r->expected = workload_memory(base, host);
    r->source = workload_memory(base, base->value[MESSAGES] * 4);
    if (!r->table || !r->packet || !r->expected || !r->source)
        return false;
    fill_table(r);
    base->context.payload = "filtering_ph";
    base->context.handler_memory = r->table;
    base->context.handler_bytes = FILTERING_ENTRIES * sizeof *r->table;
    base->context.host_bytes = (uint32_t)host;
    return true;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint32_t i = base->given, bytes = (uint32_t)base->value[BYTES];
    if (i == base->value[MESSAGES])
        return false;
    workload_headers(r->packet, bytes, i, r->source[i]);
    for (uint32_t b = WORKLOAD_HEADERS; b < bytes; b++)
        r->packet[b] = (uint8_t)rng_u64(&base->rng);
    /* What must come of it, from the finished table: a later rule may have taken the place. */
    const filtering_entry_t *rule = &r->table[filtering_place(r->source[i])];
    if (rule->source == r->source[i]) {
        uint16_t port = (uint16_t)rule->port;
        uint8_t *at = r->expected + (size_t)i * bytes;
        memcpy(at, r->packet, bytes);
        memcpy(at + offsetof(pkt_hdr_t, udp_hdr.dst_port), &port, 2);
    }
    *p = (struct workload_packet){
        .data = r->packet, .bytes = bytes, .message = i, .first = true, .last = true};
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    struct run *r = (struct run *)base;
    return workload_host_is(base, results, r->expected, (size_t)base->given * base->value[BYTES],
                            err);
}

const struct workload filtering_workload = {.name = "filtering",
                                            .about = "rewrites packets by a table of 65,536 rules",
                                            .parameters = parameters,
                                            .run_bytes = sizeof(struct run),
                                            .begin = begin,
                                            .next = next,
                                            .check = check};
