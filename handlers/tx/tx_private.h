/* The parts of tx.c, the client's side and events, and tx_owner.c. */
#ifndef TX_PRIVATE_H
#define TX_PRIVATE_H

#include "spinlib/tx.h"
#include "tx_layout.h"

enum { TX_QUEUES = 2 };

/* An owner's part. Without the card (by_host) a record in memory has a head, its version, which
 * clients read with it. */
struct tx_owner {
    uint32_t records, stride;
    uint8_t *memory;
    struct tx_state *state; /* what the card begins with; without it, the processor's */
    ptl_image_h image;
    ptl_hpu_md_h card_memory;
    struct spin_linked read_entry, request_entry, queue_entry[TX_QUEUES];
    uint8_t *queue[TX_QUEUES];
    uint32_t *request; /* aligned, to look at one */
};
#define TX_HEAD 8u

/* What a transaction has to do with an owner. */
enum tx_peer_state { TX_IDLE, TX_ASKED, TX_YES, TX_NO, TX_LOST };
struct tx_peer {
    enum tx_peer_state state;
    uint32_t reads, writes;
    struct tx_request *request;
};
struct tx_write {
    uint32_t record;
    uint8_t *data;
};

struct spin_tx {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md; /* of all memory */
    uint32_t rank, owners, records, record_bytes, record_shift;
    bool by_host, planted_bug, serves;
    /* The transaction. */
    uint32_t serial, most_writes, most_request;
    struct tx_peer *peer;
    uint32_t *touched, touched_count; /* owners */
    struct tx_access *read;           /* by_host: what the client has read */
    uint32_t read_count, write_count, write_room;
    struct tx_write *write;
    uint8_t *got; /* head and data of a record */
    bool has_got, failed;
    uint32_t asked;
    struct spin_linked reply_entry;
    struct tx_owner owner;
};

int tx_owner_open(struct spin_tx *tx);
void tx_owner_close(struct spin_tx *tx);
/* A request that came to the processor; and a queue that is full and has been worked on. */
int tx_owner_work(struct spin_tx *tx, const void *request, uint64_t bytes);
int tx_owner_reopen(struct spin_tx *tx, const void *user_ptr);

#endif
