/* Packets that say how many instructions their handler shall take. The result is that count, which
 * no memory shows: whoever runs it compares instructions with workload parameter and packet. */
#include <string.h>

#include "workload.h"

enum { PACKETS, BYTES, INSTRUCTIONS };
static const struct workload_parameter parameters[] = {
    {"packets", "in all, one message", 512, 1, 65536},
    {"bytes", "of a packet, headers included", 64, WORKLOAD_HEADERS + 4, 32704},
    {"instructions", "of a handler", 64, 13, 1 << 30},
    {0}};

struct run {
    struct workload_run base;
    uint8_t *packet;
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    base->context.payload = "synthetic_ph";
    base->context.host_bytes = 64;
    r->packet = workload_memory(base, base->value[BYTES]);
    return r->packet != NULL;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint32_t i = base->given, instructions = (uint32_t)base->value[INSTRUCTIONS];
    if (i == base->value[PACKETS])
        return false;
    workload_headers(r->packet, (uint32_t)base->value[BYTES], i, rng_u32(&base->rng));
    memcpy(r->packet + WORKLOAD_HEADERS, &instructions, 4);
    *p = (struct workload_packet){.data = r->packet,
                                  .bytes = (uint32_t)base->value[BYTES],
                                  .first = i == 0,
                                  .last = i + 1 == base->value[PACKETS]};
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    for (uint32_t i = 0; i < 64; i++)
        if (results->host_memory[i])
            return workload_differs(base, err, "host byte", i, results->host_memory[i], 0);
    return SPIN_OK;
}

const struct workload synthetic_workload = {.name = "synthetic",
                                            .about = "a given number of instructions per packet",
                                            .parameters = parameters,
                                            .run_bytes = sizeof(struct run),
                                            .begin = begin,
                                            .next = next,
                                            .check = check};
