/* What a message says of itself: the fields that its first packet carries. Shared by the Portals
 * logic (portals.h), the card (nic.h) and the wire format. Integers have the values of portals4.h.
 */
#ifndef SPIN_NIC_MESSAGE_H
#define SPIN_NIC_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A process: the card it sits behind, and which one there. */
struct nic_address {
    uint32_t nid, pid;
};

static inline bool nic_address_equal(struct nic_address a, struct nic_address b) {
    uint64_t one, other; /* one comparison: this is asked for every packet */
    memcpy(&one, &a, sizeof one);
    memcpy(&other, &b, sizeof other);
    return one == other;
}

enum nic_message_kind {
    NIC_PUT,
    NIC_GET,
    NIC_ATOMIC,
    NIC_FETCH_ATOMIC, /* swaps too: `operation` says which */
    NIC_ACK,          /* back to the initiator, without data */
    NIC_REPLY,        /* back to the initiator, with data */
};

struct nic_message {
    uint8_t kind;
    uint8_t interface; /* which of the target's four interfaces: PTL_NI_* options */
    uint8_t ack_req;
    uint8_t operation, datatype; /* of an atomic */
    uint8_t fail;                /* ack, reply: ptl_ni_fail_t */
    uint8_t list;                /* ack, reply: the list that it matched in */
    uint32_t uid;
    struct nic_address source, target;
    uint32_t source_rank; /* PTL_RANK_ANY on a physical interface */
    uint32_t target_rank;
    uint32_t pt_index;
    uint64_t match_bits, hdr_data;
    uint64_t remote_offset; /* ack, reply: where the target put it */
    uint64_t length;        /* that the initiator asks for; ack, reply: what was done of it */
    uint64_t payload;       /* bytes that travel with this message */
    uint64_t initiator;     /* the initiator's operation; ack and reply bring it back */
    uint8_t operand[32];    /* of a swap */
};

/* A piece of host memory. */
struct nic_segment {
    uint8_t *host;
    uint64_t bytes;
};

/* Uses host memory where it lies, for an atomic. */
typedef void nic_user(void *argument, uint8_t *host);

/* How the card reaches host memory that is not in its own address space. False: it is not there,
 * or not to be used so. */
struct nic_memory {
    void *context;
    bool (*read)(void *context, void *to, const uint8_t *host, uint64_t bytes);
    bool (*write)(void *context, uint8_t *host, const void *from, uint64_t bytes);
};

#endif
