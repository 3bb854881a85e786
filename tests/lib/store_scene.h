/* A store in a world for tests: rank 0 is the service, ranks 1 to nodes store, all others are
 * clients; one more may watch. */
#ifndef TEST_STORE_SCENE_H
#define TEST_STORE_SCENE_H

#include "spinlib/spinstore.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/linearizable.h"
#include "lib/spinlib_world.h"
#include "../handlers/storage/storage_state.h"
#include "../handlers/storage/store_decode.h"
#include "../handlers/storage/store_private.h"

#define DIES_PS 200000000u /* of nodes that die between two steps of a client */

struct scene {
    struct spinstore_options o;
    uint32_t clients;
    int (*client)(struct scene *, struct spinstore *, uint32_t number);
    uint64_t dies_ps[15]; /* after the barrier; 0: never */
    uint8_t *medium[15];
    /* Of clients. */
    struct spinstore_policy policy;
    uint64_t bytes;
    uint32_t killed, seed;
    volatile uint32_t finished;
    uint32_t operations;
    struct register_operation history[64];
    /* Of a rank that does nothing but watch a node. */
    struct spin_world *world;
    int (*watch)(struct scene *);
    uint32_t watched;
    void *steps;
    /* Of nodes, at their end; and whether a client has died (1) or is to (2). */
    struct storage_counts counts[15];
    uint64_t given_up[15];
    volatile uint32_t left;
    /* Of attacks. */
    uint64_t secret;
    struct spinstore *store[15]; /* by rank */
    uint32_t strikes[15], seen;
    bool restarts; /* a node that dies */
    uint32_t restarted;
    uint64_t requests;
    struct spinstore *victim;
    uint32_t forged;
};

static inline uint8_t pattern(uint64_t seed, uint64_t i) {
    return (uint8_t)(seed * 77 + i * 31 + i / 251 + (i >> 13));
}

static inline uint8_t *filled(uint64_t seed, uint64_t bytes) {
    uint8_t *data = malloc(bytes + 1);
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = pattern(seed, i);
    return data;
}

static inline bool is_filled(const uint8_t *data, uint64_t seed, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++)
        if (data[i] != pattern(seed, i))
            return false;
    return true;
}

/* One that dies closes its interface in the middle of everything: what comes finds nobody. */
static inline int serve_until(struct spinstore *store, uint64_t dies_ps) {
    uint64_t until = spin_now_ps() + dies_ps;
    bool stopped = false;
    if (!dies_ps)
        return spinstore_serve(store);
    while (spin_now_ps() < until && !stopped) {
        if (spinstore_work(store, 0, &stopped) != PTL_OK)
            return PTL_FAIL;
        if (stopped)
            break;
        spin_compute_ps(until - spin_now_ps() < 100000 ? until - spin_now_ps() : 100000);
    }
    return PTL_OK;
}

static inline int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spinstore *store;
    uint64_t bytes;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    struct spinstore_options mine = s->o;
    mine.secret = job.rank && s->secret ? spinstore_secret(s->secret, job.rank) : s->secret;
    RANK_CHECK(spinstore_join(job.ni, &mine, &store) == PTL_OK);
    s->store[job.rank % 15] = store;
    uint32_t number = job.rank - 1 - s->o.nodes;
    s->finished = 0;
    if (job.rank && job.rank <= s->o.nodes)
        s->medium[job.rank - 1] = spinstore_memory(store, &bytes);
    spin_barrier();
    int line = 0;
    if (number == s->clients && job.rank > s->o.nodes) {
        line = s->steps ? s->watch(s) : 0;
    } else if (job.rank > s->o.nodes) {
        line = s->client(s, store, number);
        s->finished++;
        while (number == 0 && s->finished < s->clients && !line)
            spin_compute(1000);
        if (number == 0)
            RANK_CHECK(spinstore_stop(store) == PTL_OK || line);
    } else {
        RANK_CHECK(serve_until(store, job.rank ? s->dies_ps[job.rank - 1] : 0) == PTL_OK);
        if (s->restarts && job.rank && s->dies_ps[job.rank - 1]) {
            spinstore_leave(store);
            RANK_CHECK(spinstore_join(job.ni, &mine, &store) == PTL_OK);
            s->medium[job.rank - 1] = spinstore_memory(store, &bytes);
            s->restarted++;
            bool stopped = false;
            while (spin_now_ps() < 4000000000000 && !stopped)
                RANK_CHECK(spinstore_work(store, 100, &stopped) == PTL_OK);
        }
        if (job.rank) {
            s->given_up[job.rank - 1] = spinstore_counts(store).given_up;
            RANK_CHECK(store_node_card_counts(store, &s->counts[job.rank - 1]) == PTL_OK);
        }
    }
    spinstore_leave(store);
    spin_job_close(&job);
    return line;
}

static inline int one_object(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = filled(number, s->bytes), *back = calloc(1, s->bytes + 1);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "nobody", NULL, &o) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_open(store, "object", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == 0);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    RANK_CHECK(spinstore_size(o) == s->bytes && spinstore_flush(o) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes + 1, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, s->bytes) == 0 && back[s->bytes] == 0);
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

static inline void run_on(struct scene *s, const char *const *set, int set_count) {
    uint32_t ranks = 1 + s->o.nodes + s->clients;
    s->o.node_bytes = s->o.node_bytes ? s->o.node_bytes : 1 << 20;
    spinlib_world_with(
        (struct spin_world_options){.ranks = ranks, .set = set, .set_count = set_count}, rank, s);
}

static inline void run(struct scene *s) {
    run_on(s, NULL, 0);
}

/* Whether ISA-L is there, which reconstructs. */
static inline bool can_decode(void) {
    uint8_t data[2][8] = {{1}, {0}}, *chunk[2] = {data[0], data[1]};
    struct spin_error err;
    return store_decode(1, 1, 1, chunk, 8, &err) == 0;
}

#endif
