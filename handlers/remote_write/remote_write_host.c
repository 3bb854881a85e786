/* Messages for a window of host memory, some of which must not be written. Afterwards the window
 * holds the others and nothing else, and the host has been told of every message. */
#include "remote_write.h"

#include <string.h>

#include "workload.h"

enum { MESSAGES, BYTES, PAYLOAD, REFUSED };
static const struct workload_parameter parameters[] = {
    {"messages", "of random length", 64, 1, REMOTE_WRITE_MESSAGES},
    {"bytes", "of a message at most", 16384, 1, 256 << 10},
    {"payload", "bytes of data in a packet", 1024, 1, 32656},
    {"refused", "percent of the messages that ask for what is not theirs", 20, 0, 100},
    {0}};

struct run {
    struct workload_run base;
    remote_write_state_t *state;
    uint8_t *packet, *expected; /* host memory */
    uint32_t message;           /* that is being given out */
    remote_write_head_t head;
    bool refused;
};

/* Draws message r->message: a length, and a request that is good or lies in one of three ways. */
static void begin_message(struct run *r) {
    struct rng *rng = &r->base.rng;
    uint32_t most = (uint32_t)r->base.value[BYTES];
    r->head = (remote_write_head_t){
        .key = r->state->key, .place = r->message * most, .bytes = 1 + rng_below(rng, most)};
    r->refused = rng_below(rng, 100) < r->base.value[REFUSED];
    if (!r->refused)
        return;
    switch (rng_below(rng, 3)) {
    case 0:
        r->head.key ^= 1 + rng_below(rng, 1000);
        break;
    case 1: /* begins in the window and ends behind it */
        r->head.place = r->state->window - r->head.bytes + 1;
        break;
    case 2: /* would wrap around */
        r->head.place = UINT32_MAX - rng_below(rng, 100);
        break;
    }
}

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    uint32_t messages = (uint32_t)base->value[MESSAGES], most = (uint32_t)base->value[BYTES];
    uint32_t host = messages * most + 8 * REMOTE_WRITE_MESSAGES;
    r->state = workload_memory(base, sizeof *r->state);
    r->packet = workload_memory(base, WORKLOAD_HEADERS + sizeof r->head + base->value[PAYLOAD]);
    r->expected = workload_memory(base, host);
    if (!r->state || !r->packet || !r->expected)
        return false;
    r->state->key = rng_u32(&base->rng);
    r->state->window = messages * most;
    base->context.header = "remote_write_hh";
    base->context.payload = "remote_write_ph";
    base->context.completion = "remote_write_th";
    base->context.handler_memory = r->state;
    base->context.handler_bytes = sizeof *r->state;
    base->context.host_bytes = host;
    begin_message(r);
    return true;
}

/* What must come of a packet of the message under way. */
static void expect(struct run *r, const uint8_t *data, uint32_t bytes, bool last) {
    uint64_t over = r->refused ? 0 : 1ull << 32 | r->head.bytes;
    if (!r->refused)
        memcpy(r->expected + r->head.place + r->head.offset, data, bytes);
    if (last)
        memcpy(r->expected + r->state->window + 8 * (size_t)r->message, &over, 8);
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    if (r->message == base->value[MESSAGES])
        return false;
    uint32_t offset = r->head.offset, left = r->head.bytes - offset;
    uint32_t bytes = left < base->value[PAYLOAD] ? left : (uint32_t)base->value[PAYLOAD];
    uint32_t all = WORKLOAD_HEADERS + (uint32_t)sizeof r->head + bytes;
    uint8_t *data = r->packet + WORKLOAD_HEADERS + sizeof r->head;
    remote_write_head_t head = r->head;
    if (offset) { /* only the first one's request counts */
        head.key = rng_u32(&base->rng);
        head.place = rng_u32(&base->rng);
        head.bytes = rng_u32(&base->rng);
    }
    workload_headers(r->packet, all, base->given, rng_u32(&base->rng));
    memcpy(r->packet + WORKLOAD_HEADERS, &head, sizeof head);
    for (uint32_t b = 0; b < bytes; b++)
        data[b] = (uint8_t)rng_u64(&base->rng);
    *p = (struct workload_packet){.data = r->packet,
                                  .bytes = all,
                                  .message = r->message,
                                  .first = offset == 0,
                                  .last = bytes == left};
    expect(r, data, bytes, p->last);
    r->head.offset += bytes;
    if (p->last) {
        r->message++;
        begin_message(r);
    }
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    struct run *r = (struct run *)base;
    return workload_host_is(base, results, r->expected, base->context.host_bytes, err);
}

const struct workload remote_write_workload = {.name = "remote_write",
                                               .about = "writes the messages that it grants",
                                               .parameters = parameters,
                                               .run_bytes = sizeof(struct run),
                                               .begin = begin,
                                               .next = next,
                                               .check = check};
