/* Speed of collectives: a broadcast on a binomial tree from each rank in turn, and an
 * allreduce of one number by recursive doubling. */
#include <stdlib.h>

#include "speed.h"
#include "spinlib/coll.h"

extern const struct speed_case coll_speed;

struct use {
    struct spin_coll *coll;
    struct spin_coll_how broadcast, allreduce;
    uint32_t rank, ranks, bytes;
    uint8_t data[];
};

static int open_use(const struct speed *s, const struct spin_job *job, void **out) {
    const char *variant = s->by_host ? "rdma" : "spin";
    uint32_t bytes = speed_bytes(&coll_speed, s);
    struct use *u = calloc(1, sizeof *u + bytes);
    *out = u;
    if (!u)
        return PTL_NO_SPACE;
    u->bytes = bytes;
    u->rank = job->rank;
    u->ranks = job->ranks;
    u->broadcast = (struct spin_coll_how){"binomial", variant};
    u->allreduce = (struct spin_coll_how){"recursive-doubling", variant};
    return spin_coll_open(job->ni, PTL_PT_ANY, 0, &u->coll);
}

static int work(void *use, uint32_t operations, struct speed_done *done) {
    struct use *u = use;
    int code = PTL_OK;
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++) {
        int64_t sum = u->rank;
        if (i % u->ranks == u->rank)
            u->data[u->bytes - 1] = (uint8_t)i;
        code = spin_coll_broadcast(u->coll, &u->broadcast, u->data, u->bytes, i % u->ranks);
        if (code == PTL_OK)
            code = spin_coll_allreduce(u->coll, &u->allreduce, &sum, &sum, 1, PTL_INT64_T, PTL_SUM);
        if (code == PTL_OK &&
            (u->data[u->bytes - 1] != (uint8_t)i || sum != (int64_t)u->ranks * (u->ranks - 1) / 2))
            code = PTL_FAIL;
    }
    if (u->rank == 0) {
        done->operations = operations;
        done->bytes = (uint64_t)operations * u->bytes;
    }
    return code;
}

static void close_use(void *use) {
    struct use *u = use;
    spin_coll_close(u->coll);
    free(u);
}

const struct speed_case coll_speed = {.name = "coll",
                                      .operation = "broadcast of 64 KiB to 4, and an allreduce",
                                      .image = "coll_handler",
                                      .ranks = 4,
                                      .least_ranks = 2,
                                      .bytes = 64 << 10,
                                      .least_bytes = 1,
                                      .operations = 8,
                                      .live_operations = 100,
                                      .open = open_use,
                                      .work = work,
                                      .close = close_use};
