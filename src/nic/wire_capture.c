#include "nic/wire_capture.h"

#include <string.h>

#include "nic/wire.h"

#define BEFORE    (HEADERS_IPV4 + HEADERS_UDP)
#define MOST_DATA 8192u /* of a packet, or of what came instead */

int wire_capture_open(struct wire_capture *c, const char *path, struct spin_error *err) {
    c->port = c->port ? c->port : WIRE_PORT;
    return capture_open(&c->file, path, NIC_LINK_IP, err);
}

static void write_frame(struct wire_capture *c, uint64_t at_ns, struct nic_address source,
                        struct nic_address target, uint8_t *frame, uint32_t length,
                        const struct capture_mark *mark) {
    const struct headers_udp udp = {.source = source.nid,
                                    .destination = target.nid,
                                    .source_port = (uint16_t)(c->port + source.pid),
                                    .destination_port = (uint16_t)(c->port + target.pid)};
    headers_write_udp(NIC_LINK_IP, frame, BEFORE + length, &udp);
    capture_write(&c->file, at_ns, frame, BEFORE + length, mark);
}

void wire_capture_packet(struct wire_capture *c, uint64_t at_ns, const struct nic_packet *packet,
                         enum capture_direction direction) {
    uint8_t frame[BEFORE + WIRE_HEADER_BYTES + MOST_DATA], *at = frame + BEFORE;
    bool lent = packet->bytes > c->mtu_bytes || packet->bytes > MOST_DATA;
    const struct capture_mark mark = {
        direction, lent ? "its data goes through slots, and is not captured" : NULL};
    uint32_t length = wire_encode_head(packet, at);
    if (lent) {
        memcpy(at + length, &packet->data, sizeof packet->data);
        length += (uint32_t)sizeof packet->data;
    } else if (packet->bytes) {
        memcpy(at + length, packet->data, packet->bytes);
        length += packet->bytes;
    }
    write_frame(c, at_ns, packet->source, packet->target, frame, length, &mark);
}

void wire_capture_bytes(struct wire_capture *c, uint64_t at_ns, struct nic_address source,
                        struct nic_address target, const uint8_t *bytes, uint32_t length,
                        const struct capture_mark *mark) {
    uint8_t frame[BEFORE + MOST_DATA];
    length = length < MOST_DATA ? length : MOST_DATA;
    memcpy(frame + BEFORE, bytes, length);
    write_frame(c, at_ns, source, target, frame, length, mark);
}
