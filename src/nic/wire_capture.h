/* Packets as captures show them, whatever carried them: UDP datagrams between IPv4 addresses that
 * are the node ids, from and to a port that is a base and the pid, with a packet as wire.h writes
 * it. That is what live cards on UDP send, without the key before it; so tools that know IP sort
 * them by process, and one dissector (openspin.lua) reads all. */
#ifndef SPIN_NIC_WIRE_CAPTURE_H
#define SPIN_NIC_WIRE_CAPTURE_H

#include "nic/capture.h"
#include "nic/nic.h"

#define WIRE_PORT 25600 /* of pid 0 */

struct wire_capture {
    struct capture file;
    uint32_t port;      /* of pid 0; 0: WIRE_PORT */
    uint32_t mtu_bytes; /* the data of a larger packet is lent: there is its address instead */
};

int wire_capture_open(struct wire_capture *c, const char *path, struct spin_error *err);
void wire_capture_packet(struct wire_capture *c, uint64_t at_ns, const struct nic_packet *packet,
                         enum capture_direction direction);
/* What came instead of a packet. */
void wire_capture_bytes(struct wire_capture *c, uint64_t at_ns, struct nic_address source,
                        struct nic_address target, const uint8_t *bytes, uint32_t length,
                        const struct capture_mark *mark);
/* capture_close(&c->file, ...) ends it. */

#endif
