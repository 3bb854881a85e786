/* packets.h of PsPIN: the headers that its packets begin with. They are as PsPIN's host
 * programs write them through the same structs: little-endian, and `version` in the low half of the
 * first byte (0x54 where the Internet has 0x45). Packets of a real network need their own structs.
 *
 * Aligned to a word, because packets are laid on lines and the compiler would otherwise take every
 * field apart into bytes. A header at an odd address works too: the core has misaligned access. */
#ifndef SPIN_PSPIN_PACKETS_H
#define SPIN_PSPIN_PACKETS_H

#include <stdint.h>

typedef struct {
    uint8_t version : 4;
    uint8_t ihl : 4; /* words of this header */
    uint8_t tos;
    uint16_t length; /* of the packet, from the first byte of this header */
    uint16_t identification;
    uint16_t offset;
    uint8_t ttl;
    uint8_t protocol;
    uint16_t checksum;
    uint32_t source_id; /* IPv4 source */
    uint32_t dest_id;
} __attribute__((packed, aligned(4))) ip_hdr_t;

typedef struct {
    uint16_t src_port;
    uint16_t dst_port;
    uint16_t length;
    uint16_t checksum;
} __attribute__((packed, aligned(2))) udp_hdr_t;

typedef struct {
    ip_hdr_t ip_hdr;
    udp_hdr_t udp_hdr;
} __attribute__((packed, aligned(4))) pkt_hdr_t;

/* Payload of the IP and UDP packet at `pkt_ptr`, by the lengths that the headers name. */
#define GET_IP_UDP_PLD(pkt_ptr, pld_ptr, pld_len)                                                  \
    do {                                                                                           \
        ip_hdr_t *spin_ip_ = (ip_hdr_t *)(pkt_ptr);                                                \
        uint32_t spin_headers_ = spin_ip_->ihl * 4u + (uint32_t)sizeof(udp_hdr_t);                 \
        (pld_ptr) = (uint8_t *)(pkt_ptr) + spin_headers_;                                          \
        (pld_len) = spin_ip_->length - spin_headers_;                                              \
    } while (0)

#endif
