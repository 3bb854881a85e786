/* Ethernet, IPv4 and UDP headers: where they stand in a packet, and how to write them.
 *
 * A packet's lengths are claims. headers_find believes none of them: every offset that it gives
 * lies within the packet with all the bytes of its header, and a packet whose claims do not fit
 * together is malformed, with the reason. */
#ifndef SPIN_NIC_HEADERS_H
#define SPIN_NIC_HEADERS_H

#include <stdbool.h>
#include <stdint.h>

/* What a packet begins with. Handlers of PsPIN expect the IPv4 header first. */
enum nic_link { NIC_LINK_IP, NIC_LINK_ETHERNET };

#define HEADERS_ETHERNET 14u
#define HEADERS_VLAN     4u
#define HEADERS_IPV4     20u /* without options */
#define HEADERS_UDP      8u
#define HEADERS_TCP      20u /* without options */
/* The longest datagram that an IPv4 length field can say. */
#define HEADERS_MOST_IPV4  65535u
#define HEADERS_MOST_BYTES (HEADERS_MOST_IPV4 + HEADERS_ETHERNET + 2 * HEADERS_VLAN)

/* Why a packet is malformed. */
#define HEADERS_FAULTS(X)                                                                          \
    X(NONE, "well formed")                                                                         \
    X(EMPTY, "no bytes at all")                                                                    \
    X(ETHERNET_CUT, "the Ethernet header is cut off")                                              \
    X(IP_VERSION, "the IP version is neither 4 nor 6")                                             \
    X(IPV4_CUT, "the IPv4 header is cut off")                                                      \
    X(IPV4_HEADER_LENGTH, "the IPv4 header length is below 20 bytes")                              \
    X(IPV4_LENGTH, "the IPv4 length is not what the packet holds")                                 \
    X(UDP_CUT, "the UDP header is cut off")                                                        \
    X(UDP_LENGTH, "the UDP length is not what the datagram holds")                                 \
    X(TCP_CUT, "the TCP header is cut off")                                                        \
    X(TCP_HEADER_LENGTH, "the TCP header length does not fit")

enum headers_fault {
#define ROW(name, text) HEADERS_##name,
    HEADERS_FAULTS(ROW)
#undef ROW
        HEADERS_FAULT_COUNT
};

const char *headers_fault_text(enum headers_fault fault);

/* A header that is not there has the offset HEADERS_ABSENT. */
#define HEADERS_ABSENT UINT32_MAX

struct nic_headers {
    enum headers_fault fault; /* not NONE: every offset but raw is absent */
    uint32_t ethernet;
    uint32_t vlan; /* the first tag: priority and id stand in its bytes 2 and 3 */
    uint32_t type; /* the two bytes of the type behind the tags */
    uint32_t ipv4, udp, tcp;
    uint32_t payload;       /* of UDP or TCP, else of IPv4, else of Ethernet */
    uint32_t payload_bytes; /* as the headers say, so without an Ethernet frame's padding */
};

struct nic_headers headers_find(enum nic_link link, const uint8_t *bytes, uint32_t length);

/* A big-endian number of 1 to 8 bytes. */
static inline uint64_t headers_number(const uint8_t *at, uint32_t bytes) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* The addresses of a UDP packet to write. */
struct headers_udp {
    uint32_t source, destination; /* IPv4 */
    uint16_t source_port, destination_port;
    uint16_t identification;
};

/* How many bytes headers_write_udp needs before the payload. */
static inline uint32_t headers_udp_bytes(enum nic_link link) {
    return HEADERS_IPV4 + HEADERS_UDP + (link == NIC_LINK_ETHERNET ? HEADERS_ETHERNET : 0);
}

/* Writes the headers in front of a payload that is in its place already; `length` is the whole
 * packet's, at least headers_udp_bytes and at most HEADERS_MOST_IPV4 of IPv4. Lengths and both
 * checksums are right; the MAC addresses are locally administered ones made from the IP addresses.
 */
void headers_write_udp(enum nic_link link, uint8_t *bytes, uint32_t length,
                       const struct headers_udp *udp);

/* The same headers as PsPIN's example programs write and its handlers read them, through structs in
 * the machine's order: little-endian, the first byte 0x54, no checksums. No network has them, and
 * headers_find calls them malformed. They begin with IPv4. */
void headers_write_pspin(uint8_t *bytes, uint32_t length, const struct headers_udp *udp);

/* The Internet checksum (RFC 1071) of the bytes, as it stands in a header: 0 when the bytes hold
 * their own right checksum. `before` is the sum of
 * 16-bit words that come before them, or 0. */
uint16_t headers_checksum(uint32_t before, const uint8_t *bytes, uint32_t length);

#endif
