/* Packets that make the card fetch host memory, piece by piece, into handler memory. */
#include "workload.h"

enum { PACKETS, BYTES };
static const struct workload_parameter parameters[] = {
    {"packets", "in all, one message", 512, 1, 2048},
    {"bytes", "of a packet and of a segment", 1024, WORKLOAD_HEADERS, 2048}, /* all fit L2 */
    {0}};

struct run {
    struct workload_run base;
    uint8_t *packet, *host;
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    uint32_t bytes = (uint32_t)base->value[BYTES];
    if (base->value[PACKETS] * bytes > 3 << 20) /* the rest of L2 is the image's */
        base->value[PACKETS] = (3 << 20) / bytes;
    uint32_t all = (uint32_t)base->value[PACKETS] * bytes;
    r->packet = workload_memory(base, bytes);
    r->host = workload_memory(base, all);
    if (!r->packet || !r->host)
        return false;
    for (uint32_t b = 0; b < all; b++)
        r->host[b] = (uint8_t)rng_u64(&base->rng);
    base->context.payload = "copy_from_host_ph";
    base->context.host_memory = r->host;
    base->context.host_bytes = base->context.handler_bytes = all;
    return true;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint32_t i = base->given, bytes = (uint32_t)base->value[BYTES];
    if (i == base->value[PACKETS])
        return false;
    workload_headers(r->packet, bytes, i, rng_u32(&base->rng));
    *p = (struct workload_packet){
        .data = r->packet, .bytes = bytes, .first = i == 0, .last = i + 1 == base->value[PACKETS]};
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    struct run *r = (struct run *)base;
    for (size_t b = 0; b < (size_t)base->given * base->value[BYTES]; b++)
        if (results->handler_memory[b] != r->host[b])
            return workload_differs(base, err, "handler byte", b, results->handler_memory[b],
                                    r->host[b]);
    return SPIN_OK;
}

const struct workload copy_from_host_workload = {.name = "copy_from_host",
                                                 .about = "fetches host memory for each packet",
                                                 .parameters = parameters,
                                                 .run_bytes = sizeof(struct run),
                                                 .begin = begin,
                                                 .next = next,
                                                 .check = check};
