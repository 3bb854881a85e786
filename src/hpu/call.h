/* How the arguments of P4sPIN handlers lie in HPU memory: the descriptors of spin/handler.h, each
 * directly before the data that it describes, so that p.base is the packet and nothing is copied.
 * Whoever runs such handlers (rig, cards) lays them with these. */
#ifndef SPIN_HPU_CALL_H
#define SPIN_HPU_CALL_H

#include <stdint.h>
#include <string.h>

#define CALL_HEADER_BYTES  40u /* ptl_header_t without the user header */
#define CALL_PAYLOAD_BYTES 16u /* ptl_payload_t */
#define CALL_HEADROOM      64u /* before a packet: room for the largest, and the packet on a line */

struct call_header {
    uint32_t type, length, target, source;
    uint64_t match_bits;
    uint32_t offset;
    uint64_t hdr_data;
};

static inline void call_put32(uint8_t *at, uint32_t value) {
    memcpy(at, &value, 4);
}
static inline void call_put64(uint8_t *at, uint64_t value) {
    memcpy(at, &value, 8);
}

/* `end` is where the user header begins. */
static inline void call_put_header(uint8_t *end, const struct call_header *h) {
    uint8_t *d = end - CALL_HEADER_BYTES;
    call_put32(d, h->type);
    call_put32(d + 4, h->length);
    call_put32(d + 8, h->target);
    call_put32(d + 12, h->source);
    call_put64(d + 16, h->match_bits);
    call_put32(d + 24, h->offset);
    call_put32(d + 28, 0);
    call_put64(d + 32, h->hdr_data);
}

/* `end` is where the payload that the handler sees begins; `offset` is its place in the message. */
static inline void call_put_payload(uint8_t *end, uint32_t length, uint32_t offset) {
    typedef uint64_t words __attribute__((vector_size(CALL_PAYLOAD_BYTES)));
    const words all = {length | (uint64_t)offset << 32, 0}; /* in one store */
    memcpy(end - CALL_PAYLOAD_BYTES, &all, sizeof all);
}

#endif
