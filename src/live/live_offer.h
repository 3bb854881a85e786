/* Large data without a slot. The sender offers it where it lies. The receiver copies it from there
 * to where it goes (process_vm_readv), from the front; meanwhile the sender, if it looks, copies
 * from the back (process_vm_writev): each byte is copied once, by two processors. Whoever is not
 * there is not waited for, but for what it has taken.
 *
 * An offer is a record of the lane: a packet's header, and where its data lies. There is one at a
 * time: the sender goes on when it is answered. The receiver may decline it: then the data comes
 * through slots. What both have to know stands in the lane; neither believes it: each copies only
 * within what it has offered, or within what the card's logic has told it. */
#ifndef SPIN_LIVE_LIVE_OFFER_H
#define SPIN_LIVE_LIVE_OFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nic/nic.h"

#define OFFER_MIN   (128u << 10) /* bytes: of less the system calls take longer than slots */
#define OFFER_BYTES 8u           /* of its record, behind the header: the address */
#define OFFER_REST  16u          /* large packets that are not offered, after such an answer */

enum offer_answer {
    OFFER_TAKEN,
    OFFER_UNREADABLE, /* the same, but some of the data was not there */
    OFFER_DECLINED,   /* this one goes through slots, */
    OFFER_UNWANTED,   /* and so do the next OFFER_REST ones */
};

struct live_offer {
    /* The receiver's: so many answers so far, and in the lowest two bits the last one. */
    _Alignas(64) _Atomic uint64_t answers;
    _Atomic uint64_t from, to, bytes; /* of what is being copied: addresses of either process */
    /* What nobody has taken of it, in OFFER_UNITs: [low half, high half). The receiver takes from
     * the front, the sender from the back. */
    _Alignas(64) _Atomic uint64_t left;
    /* The sender's: it copies, or is about to take something; it could not write, or not read. */
    _Alignas(64) _Atomic uint32_t helps;
    _Atomic uint32_t failed;
};

/* Which is faster, offers or slots, depends on the machine: on whether the two processes run on
 * threads of one core, on cores that share a cache, or on others, and on huge pages. So the
 * receiver measures both, each message from its offer until all of it is there: both sides work at
 * it, and wait for each other.
 *
 * Each way leaves the target's memory in other caches than the other way needs it: in the
 * receiver's after slots, half of it in the sender's after offers. So the first message after a
 * change says nothing (it may take four times as long); the other way is tried with several
 * messages in a row, of which the fastest counts, and the longer the same way has won the less
 * often. */
struct live_offer_choice {
    uint64_t slot_ps, offer_ps; /* per KiB; 0: not known yet */
    uint64_t declined_ns;       /* when a message was that comes through slots, */
    uint64_t declined, left;    /* its bytes, and those that are not there yet; 0: none is timed */
    uint32_t messages;          /* for so many it stands: itself, and those that are not offered */
    uint32_t trial;             /* so many more messages go the way that is tried */
    uint32_t since, pause;      /* messages since the last trial, and those until the next */
    bool trial_offers, offers;  /* what is tried, and what was faster */
};

/* What it took: for so many bytes. */
void offer_measured(uint64_t *ps, uint64_t bytes, uint64_t ns);
/* OFFER_TAKEN: take it. */
enum offer_answer offer_choose(struct live_offer_choice *c);
/* It was not taken; so many bytes of it, or of another, have come through slots, where it ends with
 * the last `least` bytes or fewer; or it comes otherwise, and is not timed. */
void offer_declined(struct live_offer_choice *c, uint64_t bytes, enum offer_answer how);
void offer_came(struct live_offer_choice *c, uint64_t bytes, uint64_t least);
static inline void offer_untimed(struct live_offer_choice *c) {
    c->left = 0;
}

struct live_box_view;

/* The receiver's: all of it, of which the sender may copy a part if it `may_help`. NIC_DONE;
 * NIC_FAULT: here it cannot be stored, or there not be read; NIC_GONE: the sender has ended. */
enum nic_status offer_fetch(struct live_offer *o, const struct live_box_view *sender, uint8_t *to,
                            const uint8_t *from, uint64_t bytes, bool may_help);
/* Whether a byte, or one of each page, can be read in the other process. */
bool offer_can_read(uint32_t os_pid, const uint8_t *from);
bool offer_is_there(uint32_t os_pid, const uint8_t *from, uint64_t bytes);

/* The sender's, of what it has offered: copies as much as the receiver leaves. */
void offer_help(struct live_offer *o, uint32_t os_pid, uint8_t *data, uint64_t bytes);
/* There is something to help with. */
bool offer_has_left(const struct live_offer *o);

#endif
