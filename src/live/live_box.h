/* The file of a process in its job's folder (live_names.h), as all who talk to it map it: who it
 * is, the bell that wakes it, and a lane for each process that may send to it. Lane i is that of
 * the process with pid i, so nothing has to be agreed on; what nobody uses has no memory. */
#ifndef SPIN_LIVE_LIVE_BOX_H
#define SPIN_LIVE_LIVE_BOX_H

#include "live/live_names.h"
#include "live/live_offer.h"
#include "live/live_ring.h"
#include "nic/message.h"

/* Data of packets that are larger than the MTU: the sender copies it into a slot while the receiver
 * copies the one before out of it. Slots are used in turn, each by a record of the ring that is a
 * packet's header alone. */
#define BULK_SLOTS      16u
#define BULK_SLOT_BYTES (32u << 10)

#define BOX_MAGIC 0x33786f426e697073ull /* "spinBox3" */

struct live_box_header {
    _Atomic uint64_t magic; /* written last */
    uint32_t nid, pid;
    struct live_owner owner;
    uint64_t life;           /* of this process under this name: another number each time */
    _Atomic uint32_t closed; /* it has left in order */
    uint8_t key[LIVE_KEY_BYTES];
    _Alignas(64) _Atomic uint32_t bell;      /* 1: whoever has something for it wakes it (futex) */
    _Atomic uint32_t processor;              /* on which it was seen last, and 1; 0: not known */
    _Alignas(64) _Atomic uint32_t attention; /* look at claims, and at lanes of others */
    _Alignas(64) _Atomic uint64_t claims[LIVE_PIDS / 64]; /* of these */
};

/* Who wants to send writes its life into `claim`. The owner of the box, when nothing of an earlier
 * life is left in the lane, clears it and writes the same into `accepted`: then the ring is the
 * sender's. */
struct live_box_lane {
    _Atomic uint64_t claim;
    _Alignas(64) _Atomic uint64_t accepted;
    _Atomic uint32_t has_bulk; /* the owner has given memory to the slots: who claims again, asks */
    _Atomic uint64_t bulk_head; /* slots that were emptied so far: the owner's */
    struct live_offer offer;
    _Alignas(64) struct live_ring ring;
    _Alignas(4096) uint8_t bulk[BULK_SLOTS][BULK_SLOT_BYTES];
};

#define BOX_HEADER_BYTES 4096u
#define BOX_LANE_BYTES   ((sizeof(struct live_box_lane) + 4095u) & ~4095u)
#define BOX_BYTES        (BOX_HEADER_BYTES + LIVE_PIDS * BOX_LANE_BYTES)

/* One's own. */
struct live_box {
    struct live_folder *folder;
    struct live_box_header *header; /* of BOX_BYTES */
    int fd;
    char name[24];
};

static inline struct live_box_lane *box_lane(const struct live_box *box, uint32_t pid) {
    return (struct live_box_lane *)(void *)((uint8_t *)box->header + BOX_HEADER_BYTES +
                                            (uint64_t)pid * BOX_LANE_BYTES);
}

/* SPIN_ELIMIT: that pid is taken, or (LIVE_PIDS: any) all are. */
int box_make(struct live_box *box, struct live_folder *folder, uint32_t nid, uint32_t pid,
             struct spin_error *err);
/* Its peers see that it has ended, and its name is free. */
void box_leave(struct live_box *box);
void box_free(struct live_box *box);
/* The same under another name, which takes over the memory where other threads may be looking. */
void box_replace(struct live_box *box, const struct live_box *by);
/* Removes the files of processes that were killed, with all the memory that their lanes have; under
 * the folder's lock. */
void box_sweep(const struct live_folder *folder);
/* Memory for the slots of a lane; false: there is none. */
bool box_give_bulk(struct live_box *box, uint32_t pid);

/* Another's, of which one sees the header and one's own lane. */
struct live_box_view {
    struct live_box_header *header; /* NULL: none */
    struct live_box_lane *lane;
    int pidfd; /* of its owner */
    uint64_t life;
    bool full; /* there is none, as /dev/shm has no memory for the lane */
};

/* False: there is no such process that lives. */
bool box_open(struct live_box_view *view, const struct live_folder *folder, struct nic_address of,
              uint32_t own_pid);
void box_close(struct live_box_view *view);
/* Whether its owner has ended or left. */
bool box_ended(const struct live_box_view *view);

/* Wakes the owner of a box if it sleeps: true. After what it is woken for was stored. */
bool box_ring(struct live_box_header *header);
/* The same for what is not in a lane: a claim, a lane that is given, room in a full one. */
void box_attend(struct live_box_header *header);

#endif
