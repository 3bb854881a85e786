/* One message of random words, whose sum must come to the host. */
#include <string.h>

#include "aggregate.h"
#include "workload.h"

enum { BYTES, PAYLOAD };
static const struct workload_parameter parameters[] = {
    {"bytes", "of the message", 1 << 20, 4, 64 << 20},
    {"payload", "bytes of a packet, a multiple of 4", 2048, 4, 32672},
    {0}};

struct run {
    struct workload_run base;
    uint8_t *packet;
    uint32_t sum;
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    base->value[BYTES] &= ~3ull;
    base->value[PAYLOAD] &= ~3ull;
    r->packet = workload_memory(base, WORKLOAD_HEADERS + base->value[PAYLOAD]);
    base->context.payload = "aggregate_ph";
    base->context.completion = "aggregate_th";
    base->context.scratchpad_bytes = sizeof(aggregate_pad_t);
    base->context.host_bytes = 4;
    return r->packet != NULL;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint64_t from = base->given * base->value[PAYLOAD], left = base->value[BYTES] - from;
    if (from >= base->value[BYTES])
        return false;
    uint32_t bytes = (uint32_t)(left < base->value[PAYLOAD] ? left : base->value[PAYLOAD]);
    workload_headers(r->packet, WORKLOAD_HEADERS + bytes, base->given, rng_u32(&base->rng));
    for (uint32_t b = 0; b < bytes; b += 4) {
        uint32_t value = rng_u32(&base->rng);
        memcpy(r->packet + WORKLOAD_HEADERS + b, &value, 4);
        r->sum += value;
    }
    *p = (struct workload_packet){.data = r->packet,
                                  .bytes = WORKLOAD_HEADERS + bytes,
                                  .first = from == 0,
                                  .last = left == bytes};
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    uint32_t got;
    memcpy(&got, results->host_memory, 4);
    if (got != ((struct run *)base)->sum)
        return workload_differs(base, err, "sum", 0, got, ((struct run *)base)->sum);
    return SPIN_OK;
}

const struct workload aggregate_workload = {.name = "aggregate",
                                            .about = "adds up all words of a message",
                                            .parameters = parameters,
                                            .run_bytes = sizeof(struct run),
                                            .begin = begin,
                                            .next = next,
                                            .check = check};
