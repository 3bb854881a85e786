/* UDP packets of random bytes; each must come back once, with addresses and ports exchanged. */
#include <string.h>

#include "base/error.h"
#include "spin/pspin/packets.h"
#include "workload.h"

enum { PACKETS, BYTES };
static const struct workload_parameter parameters[] = {
    {"packets", "in all, one message", 512, 1, 65536},
    {"bytes", "of a packet, headers included", 1024, WORKLOAD_HEADERS, 32704},
    {0}};

struct run {
    struct workload_run base;
    uint8_t *packets;          /* all of them, as they were sent */
    uint8_t *answered;         /* how often each came back */
    uint64_t strange, answers; /* that are no packet's answer; in all */
};

static uint8_t *packet_at(struct run *r, uint32_t i) {
    return r->packets + (size_t)i * r->base.value[BYTES];
}

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    uint32_t bytes = (uint32_t)base->value[BYTES];
    base->context.payload = "ping_pong_ph";
    base->context.host_bytes = 64;
    r->packets = workload_memory(base, base->value[PACKETS] * bytes);
    r->answered = workload_memory(base, base->value[PACKETS]);
    if (!r->packets || !r->answered)
        return false;
    for (uint32_t i = 0; i < base->value[PACKETS]; i++) {
        workload_headers(packet_at(r, i), bytes, i, rng_u32(&base->rng));
        for (uint32_t b = WORKLOAD_HEADERS; b < bytes; b++)
            packet_at(r, i)[b] = (uint8_t)rng_u64(&base->rng);
    }
    return true;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    uint32_t i = base->given;
    if (i == base->value[PACKETS])
        return false;
    *p = (struct workload_packet){.data = packet_at((struct run *)base, i),
                                  .bytes = (uint32_t)base->value[BYTES],
                                  .first = i == 0,
                                  .last = i + 1 == base->value[PACKETS]};
    return true;
}

static void sent(struct workload_run *base, uint32_t dest, const uint8_t *data, uint32_t bytes) {
    struct run *r = (struct run *)base;
    pkt_hdr_t got, was;
    r->answers++;
    if (dest || bytes != base->value[BYTES]) {
        r->strange++;
        return;
    }
    memcpy(&got, data, sizeof got);
    uint32_t i = got.ip_hdr.identification;
    if (i >= base->value[PACKETS]) {
        r->strange++;
        return;
    }
    memcpy(&was, packet_at(r, i), sizeof was);
    pkt_hdr_t want = was;
    want.ip_hdr.source_id = was.ip_hdr.dest_id;
    want.ip_hdr.dest_id = was.ip_hdr.source_id;
    want.udp_hdr.src_port = was.udp_hdr.dst_port;
    want.udp_hdr.dst_port = was.udp_hdr.src_port;
    if (memcmp(&got, &want, sizeof got) != 0 ||
        memcmp(data + sizeof got, packet_at(r, i) + sizeof got, bytes - sizeof got) != 0)
        r->strange++;
    else if (r->answered[i] < 255)
        r->answered[i]++;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    struct run *r = (struct run *)base;
    (void)results;
    if (r->strange)
        return spin_fail(err, SPIN_EFORMAT,
                         "ping_pong, seed %llu: %llu of %llu packets sent are no packet's answer",
                         (unsigned long long)base->seed, (unsigned long long)r->strange,
                         (unsigned long long)r->answers);
    for (uint32_t i = 0; i < base->given; i++)
        if (r->answered[i] != 1)
            return workload_differs(base, err, "number of answers to packet", i, r->answered[i], 1);
    return SPIN_OK;
}

const struct workload ping_pong_workload = {.name = "ping_pong",
                                            .about = "sends each UDP packet back",
                                            .parameters = parameters,
                                            .run_bytes = sizeof(struct run),
                                            .begin = begin,
                                            .next = next,
                                            .sent = sent,
                                            .check = check};
