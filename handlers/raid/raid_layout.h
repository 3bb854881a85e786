/* What clients and servers of the RAID share. A write goes to the server of data, which sends what
 * it changes to that of parity, which tells the former, which tells the client. If one of the two
 * has failed, the client goes to the other one alone, which tells it directly. By cards every
 * message is one packet; by processors it is as long as the client's piece. */
#ifndef RAID_LAYOUT_H
#define RAID_LAYOUT_H

#include <stdint.h>

/* Match bits. */
enum {
    RAID_WRITE = 1,  /* client to data server: raid_head, data */
    RAID_PARITY = 2, /* data to parity server: raid_head, what changed */
    RAID_STORED = 3, /* parity to data server: raid_head */
    RAID_DONE = 4,   /* data server to client, with the number of the write: RAID_DONE_BITS */
    RAID_READ = 5,   /* gets */
    RAID_LOCK = 6,   /* words that are swapped: who changes a stripe while a server has failed */
};

#define RAID_DONE_BITS(write) ((uint64_t)(write) << 8 | RAID_DONE)

struct raid_head {
    uint32_t offset, bytes; /* in the server's memory */
    uint32_t client;
    uint32_t server; /* of data, or RAID_NOBODY */
    uint64_t write;  /* the client's number */
    uint32_t parity; /* server, or RAID_NOBODY */
    uint32_t reserved;
};
#define RAID_NOBODY UINT32_MAX

#define RAID_STRIPE_LOCKS 64u

/* A piece that a card handles is within RAID_MOST bytes that begin at a multiple of them, and holds
 * the lock of every RAID_LOCKED bytes that it touches. */
#define RAID_MOST   2048u
#define RAID_LOCKED 512u
#define RAID_LOCKS  1024u
struct raid_state {
    uint32_t rank, servers, server_bytes, reserved;
    uint32_t lock[RAID_LOCKS];
};

static inline int raid_is_piece(const struct raid_head *h, uint64_t length, uint64_t data_bytes,
                                uint64_t server_bytes) {
    return length >= sizeof *h && h->bytes == data_bytes && h->offset % 8 == 0 &&
           h->bytes % 8 == 0 && h->offset <= server_bytes && h->bytes <= server_bytes - h->offset;
}

#endif
