/* Packets as bytes, for a live wire and for captures. Little-endian:
 *
 *      0 magic "sPIN"           4 version   5 kind   6 flags (1 first, 2 last, 4 bad)   7 zero
 *      8 source nid, pid       16 target nid, pid
 *     24 stream, sequence      32 ack_stream, ack                    40 sack
 *     48 message_number        52 bytes                              56 offset
 *     64 of the first packet of a message: kind, interface, ack_req, operation, datatype, fail,
 *        list, bytes of operand (0 or 32)
 *     72 uid, source_rank, target_rank, pt_index
 *     88 match_bits, hdr_data, remote_offset, length, payload, initiator
 *    136 operand
 *    then the data.
 *
 * A packet has one form only: what decodes encodes to the same bytes. */
#ifndef SPIN_NIC_WIRE_H
#define SPIN_NIC_WIRE_H

#include "nic/nic.h"

#define WIRE_VERSION      1
#define WIRE_PACKET_BYTES 64             /* header of every packet */
#define WIRE_HEADER_BYTES (64 + 72 + 32) /* at most, before the data */

/* Writes nic_packet_bytes(packet) bytes and returns their number. */
uint32_t wire_encode(const struct nic_packet *packet, uint8_t *bytes);

/* Into a packet whose `data` has room for mtu_bytes. Returns NULL, or what is wrong with it: then
 * the packet is not to be used. */
const char *wire_decode(struct nic_packet *packet, uint32_t mtu_bytes, const uint8_t *bytes,
                        uint64_t length);

#endif
