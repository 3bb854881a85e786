/* The live card: the card's logic (nic/nic.h) driven in real time inside a process.
 *
 * One lock per card; whoever holds it drives the card. A thread that waits in a Portals call is the
 * leader: it looks at the transport, briefly without pause, then sleeps until a peer rings. Other
 * threads that wait follow it. When no thread is in a call, the progress thread takes over: while
 * the program communicates it only looks after it from time to time (a tick); when the program has
 * not called for a tick, it polls itself and then sleeps until a peer rings. So who waits gets its
 * message without a switch of threads, who computes still receives, and who is idle uses no time.
 */
#ifndef SPIN_LIVE_LIVE_CARD_H
#define SPIN_LIVE_LIVE_CARD_H

#include "hpu/map.h"
#include "live/live_names.h"
#include "openspin.h"
#include "portals/process.h"

struct live_card;

/* Handlers that have begun and not ended; the others wait. Images are made for at least so many. */
#define LIVE_HPUS (MAP_CLUSTERS * MAP_CLUSTER_HPUS)

struct live_card_options {
    struct live_folder *folder; /* to outlive the card */
    uint32_t nid, pid;          /* LIVE_PIDS: any */
    enum spin_jit jit;
    uint32_t rank, ranks;     /* for who looks from outside; ranks 0: none */
    const char *pcap, *trace; /* live_record.h; NULL: none */
    uint64_t start_ns;        /* the trace's time 0; 0: now */
    bool progress;            /* with a thread of its own */
    uint32_t hpus;            /* threads that run handlers; 0: whoever drives the card does */
    uint32_t mtu_bytes;       /* of a packet's data; 0: as much as the transport likes */
    bool paging;              /* memory may be absent: who drives waits for no page (live_page.h) */
    bool crowded;             /* there are more processes than processors: who waits soon sleeps */
    enum live_transport_kind {
        LIVE_SHM,
        LIVE_UDP,  /* nid is the interface's */
        LIVE_AUTO, /* as UDP; peers with that nid are reached through shared memory */
        LIVE_FABRIC,
        LIVE_TRANSPORTS
    } transport;
    const char *provider;   /* of LIVE_FABRIC; NULL: the best */
    struct live_pmix *pmix; /* the job, if it is one of PMIx: for LIVE_FABRIC */
    struct live_udp_settings {
        const char *interface, *faults; /* live_udp.h */
        uint32_t port;
        bool auth;             /* every datagram is authenticated */
        uint32_t buffer_bytes; /* of the socket; 0: 4 MiB */
        /* Then a peer that is silent is given up (nic_config); 0: see live_card.c. */
        uint32_t retries, silent_retries;
    } of_udp;
};

extern const char *const live_transport_names[]; /* NULL ends them */

int live_card_new(struct live_card **out, const struct live_card_options *options,
                  struct spin_error *err);
void live_card_free(struct live_card *card);
/* For portals_enter and portals_enter_all. */
struct portals_process *live_card_process(struct live_card *card);
struct nic *live_card_nic(struct live_card *card);
uint64_t live_card_malformed(struct live_card *card);
uint64_t live_card_strangers(struct live_card *card); /* packets without the job's key */

/* For tests: while it is held no absent page is brought in. With paging. */
void live_card_hold_pager(struct live_card *card, bool held);

/* The process ends: what waits to be sent is, if it can be within that time, and peers see that it
 * has left. Nothing is freed. */
void live_card_leave(struct live_card *card, uint64_t within_ns);
/* What the card has written (live_record.h) is in its files, and in no memory that a child would
 * write once more. */
void live_card_flush(struct live_card *card);
/* Looks after the card once, for who waits for something else. */
void live_card_poll(struct live_card *card);
/* Of the thread that calls: nobody cancels it (pthread_cancel) while it is in a call. */
void live_card_never_cancelled(void);

#endif
