/* What the parts of the RAID's host side share. */
#ifndef RAID_INSIDE_H
#define RAID_INSIDE_H

#include "spinlib/raid.h"

#define RAID_QUEUES      2
#define RAID_QUEUE_BYTES (8u << 20) /* of messages to a processor; there are two of them */

struct spin_raid {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq; /* of a server's processor */
    uint32_t rank, data, unit, avoided;
    uint64_t server_bytes;
    bool by_host, rotates;
    uint32_t chunk_bytes; /* of data in one message, at most */
    uint32_t window;      /* messages of a write that are under way */
    ptl_handle_md_t md;   /* of all memory */
    /* A client. */
    ptl_handle_ct_t done, answered, here; /* pieces written, requests, replies of gets */
    ptl_handle_md_t ask_md, get_md;
    uint64_t write, done_number, swapped;
    /* A server. */
    uint8_t *memory;
    uint64_t *stripe_lock;
    ptl_image_h image;
    struct spin_linked entry[3], read_entry, lock_entry, queue_entry[RAID_QUEUES];
    uint8_t *queue[RAID_QUEUES];
    ptl_handle_ct_t sent;
    uint64_t sends;
};

/* to ^= from, and the time that takes. */
void raid_xor_into(void *to, const void *from, uint64_t bytes);
/* Until all are over, well or not, so that nobody uses their memory any more. */
int raid_wait_for(ptl_handle_ct_t ct, uint64_t n);

#endif
