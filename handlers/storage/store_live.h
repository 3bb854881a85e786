/* store-live: ranks of a store on live cards, as processes that can be killed. */
#ifndef STORE_LIVE_H
#define STORE_LIVE_H

#include "spinlib/spinstore.h"

/* Memory that all ranks share, and whoever started them; zero at first. */
struct store_live_shared {
    uint32_t good;      /* 1: the client has found everything right; cli/store.c looks at this */
    uint32_t killed;    /* ranks that it has ended by SIGKILL; and at this; of all launches */
    uint32_t failed;    /* storm: the writer's call has */
    uint32_t alone;     /* ranks that could not join */
    uint32_t written;   /* storm: a client's last write that was acknowledged, */
    uint32_t writing;   /* and the one that it has begun */
    uint32_t resident;  /* large: MiB of all nodes' media that were in memory at the end */
    uint32_t bypassed;  /* storm: requests that hosts have carried out for their cards */
    uint32_t pid[1024]; /* of each rank */
};

struct store_live {
    struct spinstore *store;
    volatile struct store_live_shared *shared;
    uint32_t rank, nodes, clients;
    uint64_t bytes, seed;
    bool by_files; /* nodes keep their data, and the service what it knows, in files */
    bool over;     /* client 0 has killed the service */
    /* bench: memory for plain puts. */
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    struct spin_linked puts;
    void *memory;
};

/* What a client does (client 0 stops the store after it). Each returns 0, or has said what is
 * wrong. */
int store_live_demo(struct store_live *live);
int store_live_again(struct store_live *live); /* all are started again after a demo with files */
int store_live_storm(struct store_live *live);
int store_live_crash(struct store_live *live);
int store_live_recover(struct store_live *live);
int store_live_forge(struct store_live *live);
int store_live_bench(struct store_live *live);
int store_live_large(struct store_live *live);
/* A node: bytes of its medium that are in memory. */
uint64_t store_live_resident(struct store_live *live);
/* Before the store is joined. */
int store_live_open_puts(struct store_live *live, ptl_handle_ni_t ni);

void store_live_kill(struct store_live *live, uint32_t rank);

/* The bytes of version `version` of object `object`. */
void store_live_fill(uint8_t *data, uint64_t bytes, uint64_t object, uint64_t version);

#endif
