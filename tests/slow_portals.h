/* One portal table entry at its target, done the slow and obvious way: lists are arrays that are
 * walked from the front, and everything that can be counted is counted anew each time. */
#ifndef TESTS_SLOW_PORTALS_H
#define TESTS_SLOW_PORTALS_H

#include "nic/portals.h"

#define SLOW_MOST   512 /* of anything */
#define SLOW_MEMORY 4096

struct slow_entry {
    bool used;
    ptl_me_t me;
    uint64_t user; /* its user_ptr */
    uint64_t room; /* bytes from `at` in memory */
    uint64_t at, local_offset, appended;
    uint8_t list;
    bool linked, expired, told, search;
    int holds; /* places in the queue that its last events have */
};

struct slow_header {
    ptl_event_t event; /* user_ptr and start not set */
    uint64_t at;       /* start, in memory */
    uint64_t length;
    uint32_t rank;
    int entry, claimer; /* claimer: -1 none */
    bool arrived;
};

struct slow_delivery {
    bool used;
    struct nic_message message;
    uint8_t fail;
    int entry, header; /* header: index of `headers` or -1 */
    uint64_t offset, mlength;
    bool expires, holds;
};

struct slow_portals {
    bool matching, flow_control, enabled, disabled_told;
    int most_entries, most_list, most_headers, capacity;
    struct slow_entry entry[SLOW_MOST];
    int list[2][SLOW_MOST], length[2]; /* indices of entries, in order */
    struct slow_header header[SLOW_MOST];
    bool header_used[SLOW_MOST];
    int unexpected[SLOW_MOST], unexpecteds;
    struct slow_delivery delivery[SLOW_MOST];
    ptl_event_t queue[SLOW_MOST]; /* start is an offset in memory */
    int queued;
    bool dropped;
    uint64_t success, failure; /* of the one counter */
    int status[PTL_SR_LAST];
    uint8_t memory[SLOW_MEMORY];
    uint64_t appends;
    struct nic_message answer; /* of the last delivery that ended */
    bool answered;
};

/* Codes of Portals. `at` is where the entry's memory begins; *index is the entry. */
int slow_append(struct slow_portals *s, const ptl_me_t *me, uint64_t at, uint8_t list,
                uint64_t user, int *index);
int slow_unlink(struct slow_portals *s, int index);
int slow_search(struct slow_portals *s, const ptl_me_t *me, bool delete, uint64_t user);
int slow_header(struct slow_portals *s, const struct nic_message *m); /* the delivery */
void slow_done(struct slow_portals *s, int delivery, struct portals_ending how);
uint8_t slow_exhausted(struct slow_portals *s, int delivery);
int slow_disable(struct slow_portals *s);
void slow_enable(struct slow_portals *s);

#endif
