/* What a user asks of live cards by variables of the environment. One table says of each what it
 * may be and which network it is about; a value that is none, and a variable about a network that
 * the card does not use, are refused: whoever asks for authentication gets it or no card.
 *
 * `openspin launch` reads it before it starts ranks, so that what is wrong is said once; each rank
 * reads it again, as whatever started it may have changed it. */
#ifndef SPIN_LIVE_LIVE_ENVIRONMENT_H
#define SPIN_LIVE_LIVE_ENVIRONMENT_H

#include "live/live_card.h"

struct live_environment {
    uint32_t transport; /* enum live_transport_kind; LIVE_TRANSPORTS: none is named */
    uint32_t auth, paging, pmix;
    uint32_t port, hpus;                                                 /* port 0: none is named */
    const char *provider, *interface, *key_file, *faults, *pcap, *trace; /* NULL: not set */
};

/* What becomes of it depends on the job. */
struct live_place {
    uint32_t ranks; /* 0: no job */
    bool near;      /* all of them are on this machine */
    bool pmix;      /* they tell each other their addresses by PMIx */
};

/* Each value by itself. */
int live_environment_read(struct live_environment *e, struct spin_error *err);
/* The transport is chosen, if none is named; what does not go with it is refused. */
int live_environment_settle(struct live_environment *e, const struct live_place *place,
                            struct spin_error *err);

#endif
