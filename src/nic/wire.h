/* Packets as bytes, for a live wire and for captures. Little-endian:
 *
 *      0 magic "sPIN"           4 version   5 kind   6 flags (1 first, 2 last, 4 bad, 8 prompt)
 *      7 credit: 0 none is said, else that of wire_credit_floor
 *      8 source nid, pid       16 target nid, pid
 *     24 stream, sequence      32 ack_stream, ack                    40 sack
 *     48 message_number        52 bytes                              56 offset
 *     64 of the first packet of a message: kind, interface, ack_req, operation, datatype, fail,
 *        list, bytes of operand (0 or 32)
 *     72 uid, source_rank, target_rank, pt_index
 *     88 match_bits, hdr_data, remote_offset, length, payload, initiator
 *    136 operand
 *     64 of a packet of a block, and of a report of one: transfer
 *     72 block, transmission   80 block_bytes
 *     84 place of the packet in its block, or what is reported; 85 zero (3)
 *    then the data.
 *
 * Puts of one packet and acknowledgements on a reliable network have a short form, one line of
 * memory with 8 bytes of data. Whatever fits into it is in it, up to 4096 bytes:
 *
 *      0 magic "sPIN"           4 version   5 33 acknowledgement, 64 to 80 put: 64 and bytes / 256
 *      6 ack_req (2 bits), interface (4 bits), list, whether 48 is the initiator
 *      7 bytes % 256; of an acknowledgement fail
 *      8 source nid, target nid
 *     16 source pid (2), target pid (2), message_number
 *     24 match_bits; of an acknowledgement length
 *     32 remote_offset (4), uid (2), pt_index (2)
 *     40 source_rank, target_rank
 *     48 hdr_data or initiator
 *     56 data
 *
 * Packets that follow each other in a message, without the first, may be one datagram, as if they
 * were one packet:
 *
 *      0 magic "sPIN"           4 version   5 34   6 flags (2 the last one is its message's last,
 *        8 prompt)              7 to 64 as above: `sequence` and `offset` of the first, `bytes` of
 *        all
 *     64 bytes of each but the last, which may have less; 68 zero (4)
 *    then the data.
 *
 * A packet has one form only: what decodes encodes to the same bytes. */
#ifndef SPIN_NIC_WIRE_H
#define SPIN_NIC_WIRE_H

#include "nic/nic.h"

#define WIRE_MAGIC        0x4e495073u /* "sPIN" */
#define WIRE_VERSION      3
#define WIRE_PACKET_BYTES 56             /* of a packet, at least */
#define WIRE_LATER_BYTES  64             /* before the data, of all but the first of a message, */
#define WIRE_BYTES_AT     52             /* and where it says how much that is */
#define WIRE_TAG_BYTES    24             /* more of a block or report */
#define WIRE_JOINED_BYTES 72             /* before the data of several packets */
#define WIRE_HEADER_BYTES (64 + 72 + 32) /* at most, before the data */

/* Credits have one byte: e in the upper 3 bits and m in the lower 5 say m << e, with an m of 16 or
 * more where e is not 0, and the credit is one less. This is the largest that can be said which is
 * not more than `packets`. */
uint32_t wire_credit_floor(uint32_t packets);

/* Writes nic_packet_bytes(packet) bytes and returns their number. */
uint32_t wire_encode(const struct nic_packet *packet, uint8_t *bytes);

/* The header alone, of which the number of bytes is returned. */
uint32_t wire_encode_head(const struct nic_packet *packet, uint8_t *bytes);

/* The same of a packet that has the long form, where the first 8 bytes are to be stored last: they
 * are returned, `bytes` has all others. */
uint64_t wire_encode_long(const struct nic_packet *packet, uint8_t *bytes);
uint32_t wire_long_bytes(const struct nic_packet *packet);

/* Several packets as one: the first, with all of their data. Writes WIRE_JOINED_BYTES. */
void wire_encode_joined(const struct nic_packet *packet, uint32_t each, uint8_t *head);
bool wire_is_joined(const uint8_t *bytes); /* there are WIRE_PACKET_BYTES */
/* As wire_decode_head; the data begins at WIRE_JOINED_BYTES. */
const char *wire_decode_joined(struct nic_packet *packet, uint32_t *each, uint32_t mtu_bytes,
                               const uint8_t *head, uint64_t length);

/* Whether a packet of ours may begin there. */
bool wire_begins(const uint8_t *bytes);
/* How long the packet is that begins there, as it says itself, where others may follow: `room` if
 * that is nothing, or more. */
uint32_t wire_length(const uint8_t *bytes, uint32_t room);

/* Into a packet whose `data` has room for mtu_bytes. Returns NULL, or what is wrong with it: then
 * the packet is not to be used. */
const char *wire_decode(struct nic_packet *packet, uint32_t mtu_bytes, const uint8_t *bytes,
                        uint64_t length);

/* The same of the header alone, where the data stays where it is: `head` has the first
 * WIRE_HEADER_BYTES of a packet of `length` bytes (or all of a shorter one); *data is where the
 * data begins. */
const char *wire_decode_head(struct nic_packet *packet, uint32_t mtu_bytes, const uint8_t *head,
                             uint64_t length, uint32_t *data);

#endif
