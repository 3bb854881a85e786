/* What holds for every traffic source, whatever was in its file. */
#ifndef TESTS_TRAFFIC_CHECKS_H
#define TESTS_TRAFFIC_CHECKS_H

#include "fuzz.h"
#include "sim/traffic.h"

/* `code` is what the source said when it was opened on untrusted bytes. */
static inline void fuzz_traffic(struct traffic *t, int code, const struct spin_error *err) {
    struct traffic_packet p;
    struct spin_error later = {0};
    if (code) {
        FUZZ_HOLDS(!t && err->text[0] && !strchr(err->text, '\n'), "an error is one line");
        return;
    }
    uint64_t packets = 0, before = 0, sum = 0;
    while ((code = traffic_next(t, &p, &later)) > 0) {
        FUZZ_HOLDS(p.length > 0 && p.length <= TRAFFIC_MOST_BYTES, "a packet has bytes");
        FUZZ_HOLDS(p.copy_bytes <= p.length, "no more is copied than there is");
        FUZZ_HOLDS(p.arrival_ps >= before, "packets arrive in order");
        before = p.arrival_ps;
        for (uint32_t i = 0; i < p.length; i++)
            sum += p.bytes[i];
        struct nic_headers h = headers_find(traffic_link(t), p.bytes, p.length);
        FUZZ_HOLDS(h.payload == HEADERS_ABSENT || h.payload + h.payload_bytes <= p.length,
                   "headers point into the packet");
        packets++;
    }
    FUZZ_HOLDS(code == 0, "what was opened can be read to its end");
    FUZZ_HOLDS(packets == traffic_packets(t), "as many packets as were announced");
    volatile uint64_t keep = sum; /* the bytes were looked at */
    (void)keep;
    traffic_close(t);
}

#endif
