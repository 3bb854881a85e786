/* What the parts of delivery share: peers (delivery_peer.c), the two sides of their streams
 * (delivery_send.c, delivery_receive.c), and timers and what is due (delivery.c). */
#ifndef SPIN_NIC_DELIVERY_PRIVATE_H
#define SPIN_NIC_DELIVERY_PRIVATE_H

#include "nic/delivery.h"

#define BACKOFF_MAX 6 /* doublings of retry_time */

enum slot_state {
    SLOT_NUMBERED, /* not given to the driver yet */
    SLOT_QUEUED,   /* given to the driver */
    SLOT_LEFT,
    SLOT_LOST, /* to be sent again */
};

static inline bool sequence_before(uint32_t a, uint32_t b) {
    return (int32_t)(a - b) < 0;
}

static inline struct delivery_slot *
delivery_slot_of(const struct delivery *d, const struct delivery_peer *peer, uint32_t sequence) {
    return &peer->slot[sequence & (d->ring - 1)];
}

static inline uint32_t delivery_doublings(const struct delivery_peer *peer) {
    return peer->failures < BACKOFF_MAX ? peer->failures : BACKOFF_MAX;
}

/* delivery_peer.c */
void delivery_release(struct nic_packet **list);
void delivery_release_slots(struct delivery *d, struct delivery_peer *peer);

/* delivery.c: its timer runs from now on, for as long as something is awaited; or, if none runs,
 * from the next delivery_arm on. It has something to send besides new packets. */
void delivery_set_timer(struct delivery *d, struct delivery_peer *peer, uint64_t now);
void delivery_receipt_by(struct delivery *d, struct delivery_peer *peer, uint64_t time);
void delivery_arm_soon(struct delivery *d, struct delivery_peer *peer);
void delivery_make_due(struct delivery *d, struct delivery_peer *peer);

/* delivery_send.c */
bool delivery_has_credit(const struct delivery_peer *peer);
bool delivery_may_repeat(const struct delivery_peer *peer);
/* The oldest packet that is lost, as it goes out again; NULL: no memory. */
struct nic_packet *delivery_again(struct delivery *d, struct delivery_peer *peer,
                                  uint64_t *transmission);
void delivery_mark_lost(struct delivery_peer *peer, struct delivery_slot *slot, uint32_t sequence);
/* True: something is newly acknowledged. */
bool delivery_take_ack(struct delivery *d, struct delivery_peer *peer,
                       const struct nic_packet *packet, uint64_t now);

/* delivery_receive.c: the packet says what has arrived, and what more may come. */
void delivery_acknowledge(struct delivery *d, struct delivery_peer *peer,
                          struct nic_packet *packet);
/* Who was told to send little hears of it when there is room again. */
void delivery_relieve(struct delivery *d);
/* Both streams end. The other side will learn it from our next one. */
void delivery_end(struct delivery *d, struct delivery_peer *peer);

#endif
