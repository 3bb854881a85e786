/* Packets whose first eight payload bytes must stand in host memory afterwards. */
#include <string.h>

#include "workload.h"

enum { PACKETS, BYTES };
static const struct workload_parameter parameters[] = {
    {"packets", "in all, one message", 512, 1, 65536},
    {"bytes", "of a packet, headers included", 64, WORKLOAD_HEADERS + 8, 32704},
    {0}};

struct run {
    struct workload_run base;
    uint8_t *packet;
    uint64_t *value;
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    r->packet = workload_memory(base, base->value[BYTES]);
    r->value = workload_memory(base, base->value[PACKETS] * 8);
    base->context.payload = "host_direct_ph";
    base->context.host_bytes = (uint32_t)base->value[PACKETS] * 8;
    return r->packet && r->value;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint32_t i = base->given;
    if (i == base->value[PACKETS])
        return false;
    workload_headers(r->packet, (uint32_t)base->value[BYTES], i, rng_u32(&base->rng));
    r->value[i] = rng_u64(&base->rng);
    memcpy(r->packet + WORKLOAD_HEADERS, &r->value[i], 8);
    *p = (struct workload_packet){.data = r->packet,
                                  .bytes = (uint32_t)base->value[BYTES],
                                  .first = i == 0,
                                  .last = i + 1 == base->value[PACKETS]};
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    struct run *r = (struct run *)base;
    for (uint32_t i = 0; i < base->given; i++) {
        uint64_t got;
        memcpy(&got, results->host_memory + 8 * (size_t)i, 8);
        if (got != r->value[i])
            return workload_differs(base, err, "host value", i, got, r->value[i]);
    }
    return SPIN_OK;
}

const struct workload host_direct_workload = {.name = "host_direct",
                                              .about = "writes eight bytes per packet to the host",
                                              .parameters = parameters,
                                              .run_bytes = sizeof(struct run),
                                              .begin = begin,
                                              .next = next,
                                              .check = check};
