/* One message of random bytes, which must stand in host memory in blocks a stride apart, with
 * nothing between the blocks. */
#include "strided_ddt.h"

#include <string.h>

#include "workload.h"

enum { BYTES, PAYLOAD, BLOCK, STRIDE };
static const struct workload_parameter parameters[] = {
    {"bytes", "of the message", 1 << 20, 1, 16 << 20},
    {"payload", "bytes of a packet", 2048, 16, 32672},
    {"block", "bytes that stay together", 256, 1, 1 << 20},
    {"stride", "bytes from block to block; a block at least", 512, 1, 1 << 20},
    {0}};

struct run {
    struct workload_run base;
    strided_layout_t layout;
    uint8_t *packet, *expected;
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    uint64_t *v = base->value;
    if (v[STRIDE] < v[BLOCK])
        v[STRIDE] = v[BLOCK];
    if (v[BYTES] > 65536 * v[PAYLOAD]) /* packets are numbered with 16 bits */
        v[BYTES] = 65536 * v[PAYLOAD];
    uint64_t host = (v[BYTES] + v[BLOCK] - 1) / v[BLOCK] * v[STRIDE];
    if (host > 1u << 30) { /* what a memory of the rig may have */
        v[BYTES] = (1u << 30) / v[STRIDE] * v[BLOCK];
        host = 1u << 30;
    }
    r->layout = (strided_layout_t){.payload = (uint32_t)v[PAYLOAD],
                                   .block = (uint32_t)v[BLOCK],
                                   .stride = (uint32_t)v[STRIDE]};
    r->packet = workload_memory(base, WORKLOAD_HEADERS + v[PAYLOAD]);
    r->expected = workload_memory(base, host);
    base->context.payload = "strided_ddt_ph";
    base->context.handler_memory = &r->layout;
    base->context.handler_bytes = sizeof r->layout;
    base->context.host_bytes = (uint32_t)host;
    return r->packet && r->expected;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    const uint64_t *v = base->value;
    uint64_t from = base->given * v[PAYLOAD];
    if (from >= v[BYTES])
        return false;
    uint32_t bytes = (uint32_t)(v[BYTES] - from < v[PAYLOAD] ? v[BYTES] - from : v[PAYLOAD]);
    workload_headers(r->packet, WORKLOAD_HEADERS + bytes, base->given, rng_u32(&base->rng));
    for (uint32_t b = 0; b < bytes; b++) { /* byte by byte: where the handler goes by pieces */
        uint8_t value = (uint8_t)rng_u64(&base->rng);
        r->packet[WORKLOAD_HEADERS + b] = value;
        r->expected[(from + b) / v[BLOCK] * v[STRIDE] + (from + b) % v[BLOCK]] = value;
    }
    *p = (struct workload_packet){.data = r->packet,
                                  .bytes = WORKLOAD_HEADERS + bytes,
                                  .first = from == 0,
                                  .last = from + bytes == v[BYTES]};
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    struct run *r = (struct run *)base;
    return workload_host_is(base, results, r->expected, base->context.host_bytes, err);
}

const struct workload strided_ddt_workload = {.name = "strided_ddt",
                                              .about = "scatters a message to host memory",
                                              .parameters = parameters,
                                              .run_bytes = sizeof(struct run),
                                              .begin = begin,
                                              .next = next,
                                              .check = check};
