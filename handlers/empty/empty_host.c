/* Packets of random bytes; nothing may come of them. */
#include "workload.h"

enum { PACKETS, BYTES, MESSAGES };
static const struct workload_parameter parameters[] = {
    {"packets", "in all", 512, 1, 65536},
    {"bytes", "of a packet, headers included", 1024, WORKLOAD_HEADERS, 32704},
    {"messages", "that the packets are parts of", 1, 1, 65536},
    {0}};

struct run {
    struct workload_run base;
    uint8_t *packet;
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    base->context.payload = "empty_ph";
    base->context.host_bytes = 64;
    base->context.handler_bytes = 64;
    base->context.scratchpad_bytes = 64;
    if (base->value[MESSAGES] > base->value[PACKETS])
        base->value[MESSAGES] = base->value[PACKETS];
    r->packet = workload_memory(base, base->value[BYTES]);
    return r->packet != NULL;
}

/* Packet i belongs to the message that has its share of the packets. */
static uint32_t message_of(const struct workload_run *base, uint64_t i) {
    return (uint32_t)(i * base->value[MESSAGES] / base->value[PACKETS]);
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint32_t i = base->given, bytes = (uint32_t)base->value[BYTES];
    if (i == base->value[PACKETS])
        return false;
    workload_headers(r->packet, bytes, i, rng_u32(&base->rng));
    for (uint32_t b = WORKLOAD_HEADERS; b < bytes; b++)
        r->packet[b] = (uint8_t)rng_u64(&base->rng);
    *p =
        (struct workload_packet){.data = r->packet, .bytes = bytes, .message = message_of(base, i)};
    p->first = i == 0 || message_of(base, i - 1) != p->message;
    p->last = i + 1 == base->value[PACKETS] || message_of(base, i + 1) != p->message;
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    for (uint32_t i = 0; i < 64; i++) {
        if (results->host_memory[i])
            return workload_differs(base, err, "host byte", i, results->host_memory[i], 0);
        if (results->handler_memory[i])
            return workload_differs(base, err, "handler byte", i, results->handler_memory[i], 0);
        for (uint32_t c = 0; c < WORKLOAD_CLUSTERS; c++)
            if (results->scratchpad[c][i])
                return workload_differs(base, err, "scratchpad byte", i, results->scratchpad[c][i],
                                        0);
    }
    return SPIN_OK;
}

const struct workload empty_workload = {.name = "empty",
                                        .about = "a handler that does nothing",
                                        .parameters = parameters,
                                        .run_bytes = sizeof(struct run),
                                        .begin = begin,
                                        .next = next,
                                        .check = check};
