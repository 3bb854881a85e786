/* Speed of messages: pairs of ranks send each other data and compute until they need them. */
#include <stdlib.h>

#include "speed.h"
#include "spinlib/p2p.h"

enum { COMPUTE_NS = 5000 };

extern const struct speed_case p2p_speed;

struct use {
    struct spin_p2p *p2p;
    uint32_t rank, peer, bytes;
    uint8_t *in, out[];
};

static int open_use(const struct speed *s, const struct spin_job *job, void **out) {
    const struct spin_p2p_options o = {.variant = s->by_host ? "rdma" : "spin"};
    uint32_t bytes = speed_bytes(&p2p_speed, s);
    struct use *u = calloc(1, sizeof *u + 2ull * bytes);
    *out = u;
    if (!u)
        return PTL_NO_SPACE;
    u->rank = job->rank;
    u->peer = job->rank ^ 1;
    u->bytes = bytes;
    u->in = u->out + bytes;
    return spin_p2p_open(job->ni, &o, &u->p2p);
}

static int work(void *use, uint32_t operations, struct speed_done *done) {
    struct use *u = use;
    struct spin_p2p_request *r[2];
    struct spin_p2p_status status[2];
    int code = PTL_OK;
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++) {
        u->out[u->bytes - 1] = (uint8_t)(i + u->rank);
        code = spin_p2p_irecv(u->p2p, u->in, u->bytes, u->peer, i, 0, &r[0]);
        if (code == PTL_OK)
            code = spin_p2p_isend(u->p2p, u->out, u->bytes, u->peer, i, 0, &r[1]);
        spin_compute(COMPUTE_NS);
        if (code == PTL_OK)
            code = spin_p2p_waitall(u->p2p, 2, r, status);
        if (code == PTL_OK && (status[0].code != PTL_OK || status[1].code != PTL_OK ||
                               u->in[u->bytes - 1] != (uint8_t)(i + u->peer)))
            code = PTL_FAIL;
    }
    if (u->rank % 2 == 0) {
        done->operations = operations;
        done->bytes = 2ull * operations * u->bytes;
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
                                     .least_ranks = 2,
                                     .in_pairs = true,
                                     .bytes = 64 << 10,
                                     .least_bytes = 1,
                                     .operations = 16,
                                     .live_operations = 200,
                                     .open = open_use,
                                     .work = work,
                                     .close = close_use};
