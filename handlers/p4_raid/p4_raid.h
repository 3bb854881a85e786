/* What client, data and parity servers of the RAID-5 share. A write goes to a data server, which
 * sends the difference to the parity server, which tells the data server, which tells the client.
 * The client travels in hdr_data. */
#ifndef P4_RAID_H
#define P4_RAID_H

#include <stdint.h>

#define P4_WRITE  50 /* match bits: client to data server, */
#define P4_PARITY 53 /* data to parity server, */
#define P4_STORED 30 /* parity to data server, */
#define P4_DONE   31 /* data server to client */

struct p4_raid_data {
    uint32_t parity; /* server */
    uint32_t source, offset;
};

struct p4_raid_parity {
    uint32_t source, client, offset;
};

#endif
