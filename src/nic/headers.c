#include "nic/headers.h"

#include <string.h>

#define TYPE_IPV4 0x0800u
#define TYPE_VLAN 0x8100u
#define TYPE_QINQ 0x88a8u
#define IP_TCP    6u
#define IP_UDP    17u

const char *headers_fault_text(enum headers_fault fault) {
    static const char *const texts[] = {
#define ROW(name, text) text,
        HEADERS_FAULTS(ROW)
#undef ROW
    };
    return (unsigned)fault < HEADERS_FAULT_COUNT ? texts[fault] : "unknown";
}

static uint16_t get16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static struct nic_headers absent(enum headers_fault fault) {
    return (struct nic_headers){fault,          HEADERS_ABSENT, HEADERS_ABSENT,
                                HEADERS_ABSENT, HEADERS_ABSENT, HEADERS_ABSENT,
                                HEADERS_ABSENT, HEADERS_ABSENT, 0};
}

/* The transport's header in bytes[at, end), a datagram that is no later fragment. */
static enum headers_fault find_transport(struct nic_headers *h, const uint8_t *bytes, uint32_t at,
                                         uint32_t end, unsigned protocol, bool fragmented) {
    uint32_t room = end - at;
    if (protocol == IP_UDP) {
        if (room < HEADERS_UDP)
            return HEADERS_UDP_CUT;
        uint32_t said = get16(bytes + at + 4);
        /* The first of several fragments says the length of the whole, so it may be beyond. */
        if (said < HEADERS_UDP || (said > room && !fragmented))
            return HEADERS_UDP_LENGTH;
        h->udp = at;
        h->payload = at + HEADERS_UDP;
        h->payload_bytes = (said < room ? said : room) - HEADERS_UDP;
    } else if (protocol == IP_TCP) {
        if (room < HEADERS_TCP)
            return HEADERS_TCP_CUT;
        uint32_t header = 4u * (bytes[at + 12] >> 4);
        if (header < HEADERS_TCP || header > room)
            return HEADERS_TCP_HEADER_LENGTH;
        h->tcp = at;
        h->payload = at + header;
        h->payload_bytes = room - header;
    }
    return HEADERS_NONE;
}

static enum headers_fault find_ipv4(struct nic_headers *h, const uint8_t *bytes, uint32_t at,
                                    uint32_t length) {
    uint32_t room = length - at;
    if (room < HEADERS_IPV4)
        return HEADERS_IPV4_CUT;
    const uint8_t *ip = bytes + at;
    if (ip[0] >> 4 != 4)
        return HEADERS_IP_VERSION;
    uint32_t header = 4u * (ip[0] & 15), said = get16(ip + 2);
    if (header < HEADERS_IPV4)
        return HEADERS_IPV4_HEADER_LENGTH;
    if (header > room)
        return HEADERS_IPV4_CUT;
    if (said < header || said > room)
        return HEADERS_IPV4_LENGTH;
    h->ipv4 = at;
    h->payload = at + header;
    h->payload_bytes = said - header;
    uint16_t fragment = get16(ip + 6);
    if (fragment & 0x1fff)
        return HEADERS_NONE; /* a later fragment has no transport header */
    return find_transport(h, bytes, at + header, at + said, ip[9], fragment & 0x2000);
}

static enum headers_fault find_all(struct nic_headers *h, enum nic_link link, const uint8_t *bytes,
                                   uint32_t length) {
    if (length == 0)
        return HEADERS_EMPTY;
    if (link == NIC_LINK_IP) {
        unsigned version = bytes[0] >> 4;
        if (version == 4)
            return find_ipv4(h, bytes, 0, length);
        h->payload = 0;
        h->payload_bytes = length;
        return version == 6 ? HEADERS_NONE : HEADERS_IP_VERSION;
    }
    if (length < HEADERS_ETHERNET)
        return HEADERS_ETHERNET_CUT;
    uint32_t type_at = HEADERS_ETHERNET - 2;
    uint16_t type = get16(bytes + type_at);
    /* At most two tags: more is no network that we know, and then it is a type like any other. */
    for (int tags = 0; tags < 2 && (type == TYPE_VLAN || type == TYPE_QINQ); tags++) {
        if (length - type_at < 2 + HEADERS_VLAN)
            return HEADERS_ETHERNET_CUT;
        if (tags == 0)
            h->vlan = type_at;
        type_at += HEADERS_VLAN;
        type = get16(bytes + type_at);
    }
    h->ethernet = 0;
    h->type = type_at;
    h->payload = type_at + 2;
    h->payload_bytes = length - h->payload;
    return type == TYPE_IPV4 ? find_ipv4(h, bytes, type_at + 2, length) : HEADERS_NONE;
}

struct nic_headers headers_find(enum nic_link link, const uint8_t *bytes, uint32_t length) {
    struct nic_headers h = absent(HEADERS_NONE);
    enum headers_fault fault = find_all(&h, link, bytes, length);
    return fault == HEADERS_NONE ? h : absent(fault);
}

/* ---- writing ---- */

static void put16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value);
}

uint16_t headers_checksum(uint32_t before, const uint8_t *bytes, uint32_t length) {
    uint64_t sum = before; /* 64 bits: no fold is needed before the end */
    for (uint32_t i = 0; i + 1 < length; i += 2)
        sum += get16(bytes + i);
    if (length & 1)
        sum += (uint32_t)bytes[length - 1] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* 02:00 and the IPv4 address: locally administered, one host one address. */
static void write_ethernet(uint8_t *bytes, const struct headers_udp *udp) {
    put16(bytes, 0x0200);
    put32(bytes + 2, udp->destination);
    put16(bytes + 6, 0x0200);
    put32(bytes + 8, udp->source);
    put16(bytes + 12, TYPE_IPV4);
}

void headers_write_udp(enum nic_link link, uint8_t *bytes, uint32_t length,
                       const struct headers_udp *udp) {
    if (link == NIC_LINK_ETHERNET) {
        write_ethernet(bytes, udp);
        bytes += HEADERS_ETHERNET;
        length -= HEADERS_ETHERNET;
    }
    uint8_t *ip = bytes, *u = bytes + HEADERS_IPV4;
    uint32_t udp_bytes = length - HEADERS_IPV4;
    memset(ip, 0, HEADERS_IPV4 + HEADERS_UDP);
    ip[0] = 0x45;
    put16(ip + 2, length);
    put16(ip + 4, udp->identification);
    put16(ip + 6, 0x4000); /* do not fragment */
    ip[8] = 64;
    ip[9] = IP_UDP;
    put32(ip + 12, udp->source);
    put32(ip + 16, udp->destination);
    put16(ip + 10, headers_checksum(0, ip, HEADERS_IPV4));
    put16(u, udp->source_port);
    put16(u + 2, udp->destination_port);
    put16(u + 4, udp_bytes);
    /* The pseudo header: both addresses, the protocol, the length of the UDP datagram. */
    uint32_t pseudo = (udp->source >> 16) + (udp->source & 0xffff) + (udp->destination >> 16) +
                      (udp->destination & 0xffff) + IP_UDP + udp_bytes;
    uint16_t sum = headers_checksum(pseudo, u, udp_bytes);
    put16(u + 6, sum ? sum : 0xffff); /* 0 would say: no checksum */
}

static void little16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void little32(uint8_t *at, uint32_t value) {
    little16(at, value);
    little16(at + 2, value >> 16);
}

void headers_write_pspin(uint8_t *bytes, uint32_t length, const struct headers_udp *udp) {
    memset(bytes, 0, HEADERS_IPV4 + HEADERS_UDP);
    bytes[0] = 0x54; /* version in the low half, 5 words of header in the high one */
    little16(bytes + 2, length);
    little16(bytes + 4, udp->identification);
    bytes[8] = 64;
    bytes[9] = IP_UDP;
    little32(bytes + 12, udp->source);
    little32(bytes + 16, udp->destination);
    little16(bytes + 20, udp->source_port);
    little16(bytes + 22, udp->destination_port);
    little16(bytes + 24, length - HEADERS_IPV4);
}
