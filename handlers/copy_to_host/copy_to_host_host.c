/* Packets of random bytes, which must stand in host memory afterwards. */
#include <string.h>

#include "base/error.h"
#include "workload.h"

enum { PACKETS, BYTES, APART };
static const struct workload_parameter parameters[] = {
    {"packets", "in all, one message", 512, 1, 65536},
    {"bytes", "of a packet, headers included", 1024, WORKLOAD_HEADERS, 32704},
    {"apart", "1: each to a place of its own; 0: all to the same", 1, 0, 1},
    {0}};

struct run {
    struct workload_run base;
    uint8_t *packets;
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    uint32_t bytes = (uint32_t)base->value[BYTES], packets = (uint32_t)base->value[PACKETS];
    base->context.payload = base->value[APART] ? "copy_to_host_ph" : "copy_to_host_start_ph";
    base->context.host_bytes = base->value[APART] ? packets * bytes : bytes;
    r->packets = workload_memory(base, (size_t)packets * bytes);
    if (!r->packets)
        return false;
    for (uint32_t i = 0; i < packets; i++) {
        uint8_t *packet = r->packets + (size_t)i * bytes;
        workload_headers(packet, bytes, i, rng_u32(&base->rng));
        for (uint32_t b = WORKLOAD_HEADERS; b < bytes; b++)
            packet[b] = (uint8_t)rng_u64(&base->rng);
    }
    return true;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    uint32_t i = base->given;
    if (i == base->value[PACKETS])
        return false;
    *p = (struct workload_packet){.data = ((struct run *)base)->packets +
                                          (size_t)i * base->value[BYTES],
                                  .bytes = (uint32_t)base->value[BYTES],
                                  .first = i == 0,
                                  .last = i + 1 == base->value[PACKETS]};
    return true;
}

/* All to one place: in order the last one stays; else each byte is some packet's. */
static int check_same(struct workload_run *base, const struct workload_results *results,
                      struct spin_error *err) {
    const uint8_t *packets = ((struct run *)base)->packets;
    size_t bytes = base->value[BYTES];
    for (size_t b = 0; b < bytes && base->given; b++) {
        uint8_t got = results->host_memory[b], last = packets[(base->given - 1) * bytes + b];
        bool found = got == last;
        for (uint32_t i = 0; i < base->given && !found && !results->in_order; i++)
            found = packets[i * bytes + b] == got;
        if (!found)
            return workload_differs(base, err, "host byte", b, got, last);
    }
    return SPIN_OK;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    const uint8_t *packets = ((struct run *)base)->packets;
    if (!base->value[APART])
        return check_same(base, results, err);
    return workload_host_is(base, results, packets, (size_t)base->given * base->value[BYTES], err);
}

const struct workload copy_to_host_workload = {.name = "copy_to_host",
                                               .about = "copies each packet to host memory",
                                               .parameters = parameters,
                                               .run_bytes = sizeof(struct run),
                                               .begin = begin,
                                               .next = next,
                                               .check = check};
