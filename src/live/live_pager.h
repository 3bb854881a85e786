/* The pager: a thread that brings pages of the program's memory in while the card goes on. It is
 * started by the first request and sleeps when there is none. Requests take turns by chunks, so a
 * small one does not wait for all of a large one. Called with the card's lock held. */
#ifndef SPIN_LIVE_LIVE_PAGER_H
#define SPIN_LIVE_LIVE_PAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "live/live_limit.h"

struct live_pager;

/* Whole pages. It belongs to who asks, and must last until all of it was told. */
struct live_page_request {
    uint8_t *at;
    uint64_t bytes;
    bool write;                   /* for writing, too */
    uint64_t told;                /* bytes of results; whoever asked counts them */
    struct live_page_request *of; /* list of whoever asked */
    /* The pager's. */
    uint64_t begun;
    struct live_page_request *next;
};

/* Of each request first to last, in pieces. */
struct live_page_result {
    struct live_page_request *of;
    uint8_t *at;
    uint64_t bytes;
    bool failed; /* these pages will never be there so */
};

/* `wake` is called by the pager's thread when there are results. NULL: no memory. */
struct live_pager *live_pager_new(void (*wake)(void *context), void *context,
                                  struct live_limit *limit);
/* Requests that are not over are the caller's again. */
void live_pager_free(struct live_pager *p);
/* False: there is no thread for it. */
bool live_pager_ask(struct live_pager *p, struct live_page_request *request);
uint32_t live_pager_take(struct live_pager *p, struct live_page_result *out, uint32_t room);
/* For tests: while it is held it brings nothing in. */
void live_pager_hold(struct live_pager *p, bool held);

#endif
