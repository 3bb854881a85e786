/* Speed of messages: two ranks send each other 64 KiB and compute until they need them. */
#include <stdlib.h>

#include "speed.h"
#include "spinlib/p2p.h"

enum { BYTES = 64 << 10, COMPUTE_NS = 5000 };

struct use {
    struct spin_p2p *p2p;
    uint32_t rank;
    uint8_t out[BYTES], in[BYTES];
};

static int open_use(const struct speed *s, const struct spin_job *job, void **out) {
    const struct spin_p2p_options o = {.variant = s->by_host ? "rdma" : "spin"};
    struct use *u = calloc(1, sizeof *u);
    *out = u;
    if (!u)
        return PTL_NO_SPACE;
    u->rank = job->rank;
    return spin_p2p_open(job->ni, &o, &u->p2p);
}

static int work(void *use, uint32_t operations, struct speed_done *done) {
    struct use *u = use;
    struct spin_p2p_request *r[2];
    struct spin_p2p_status status[2];
    int code = PTL_OK;
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++) {
        u->out[BYTES - 1] = (uint8_t)(i + u->rank);
        code = spin_p2p_irecv(u->p2p, u->in, BYTES, 1 - u->rank, i, 0, &r[0]);
        if (code == PTL_OK)
            code = spin_p2p_isend(u->p2p, u->out, BYTES, 1 - u->rank, i, 0, &r[1]);
        spin_compute(COMPUTE_NS);
        if (code == PTL_OK)
            code = spin_p2p_waitall(u->p2p, 2, r, status);
        if (code == PTL_OK && (status[0].code != PTL_OK || status[1].code != PTL_OK ||
                               u->in[BYTES - 1] != (uint8_t)(i + 1 - u->rank)))
            code = PTL_FAIL;
    }
    if (u->rank == 0) {
        done->operations = operations;
        done->bytes = 2ull * operations * BYTES;
    }
    return code;
}

static void close_use(void *use) {
    struct use *u = use;
    spin_p2p_close(u->p2p);
    free(u);
}

const struct speed_case p2p_speed = {.name = "p2p",
                                     .operation = "64 KiB both ways and 5 us of computing",
                                     .image = "p2p_handler",
                                     .ranks = 2,
                                     .operations = 16,
                                     .live_operations = 200,
                                     .open = open_use,
                                     .work = work,
                                     .close = close_use};
