/* Speed of datatypes: a side of a grid, in blocks of 256 B, goes to the other rank and back.
 * Without cards processors pack and unpack it. */
#include <stdlib.h>

#include "speed.h"
#include "spinlib/datatype.h"

enum { BLOCK = 256, STRIDE = 2 * BLOCK };

extern const struct speed_case datatype_speed;

struct use {
    bool begins;
    uint32_t peer, blocks;
    uint64_t room; /* of `from` and of `into` */
    struct spin_types *types;
    struct spin_layout *layout;
    struct spin_send *send;
    struct spin_receive *receive;
    uint8_t *into, from[];
};

static int make_layout(struct use *u, struct spin_error *err) {
    struct spin_type *byte = NULL, *side = NULL;
    int code = spin_type_basic(1, 1, &byte);
    if (code == PTL_OK)
        code = spin_type_vector(u->blocks, BLOCK, STRIDE, byte, &side);
    if (code == PTL_OK)
        code = spin_type_commit(side, 1, &u->layout, err);
    spin_type_free(byte);
    spin_type_free(side);
    return code;
}

static int open_use(const struct speed *s, const struct spin_job *job, void **out) {
    const struct spin_type_options o = {.strategy = s->by_host ? SPIN_TYPE_HOST : SPIN_TYPE_BEST};
    uint32_t blocks = speed_bytes(&datatype_speed, s) / BLOCK;
    uint64_t room = (uint64_t)blocks * STRIDE;
    struct use *u = calloc(1, sizeof *u + 2 * room);
    struct spin_error err;
    *out = u;
    if (!u)
        return PTL_NO_SPACE;
    u->blocks = blocks;
    u->room = room;
    u->into = u->from + room;
    u->begins = job->rank % 2 == 0;
    u->peer = job->rank ^ 1;
    for (uint32_t i = 0; i < u->room; i++)
        u->from[i] = (uint8_t)(i + i / BLOCK + job->rank);
    int code = make_layout(u, &err);
    if (code == PTL_OK)
        code = spin_types_open(job->ni, &u->types);
    if (code == PTL_OK)
        code = spin_receive_open(u->types, u->into, u->layout, 1, &o, &u->receive, &err);
    if (code == PTL_OK)
        code = spin_send_open(u->types, u->from, u->layout,
                              s->by_host ? SPIN_SEND_PACK : SPIN_SEND_CARD, &u->send, &err);
    return code;
}

static int send_side(struct use *u) {
    int code = spin_send_start(u->send, u->peer, 1);
    return code == PTL_OK ? spin_send_wait(u->send) : code;
}

static int work(void *use, uint32_t operations, struct speed_done *done) {
    struct use *u = use;
    int code = PTL_OK;
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++) {
        if (u->begins)
            code = send_side(u);
        if (code == PTL_OK)
            code = spin_receive_wait(u->receive);
        if (code == PTL_OK && !u->begins)
            code = send_side(u);
    }
    if (u->begins) {
        done->operations = operations;
        done->bytes = 2ull * operations * u->blocks * BLOCK;
    }
    /* The other rank's data is in the blocks, and nothing beside them. */
    for (uint32_t i = 0; i < u->room && code == PTL_OK; i++)
        if (u->into[i] != (i % STRIDE < BLOCK ? (uint8_t)(i + i / BLOCK + u->peer) : 0))
            code = PTL_FAIL;
    return code;
}

static void close_use(void *use) {
    struct use *u = use;
    spin_send_close(u->send);
    spin_receive_close(u->receive);
    spin_types_close(u->types);
    spin_layout_free(u->layout);
    free(u);
}

const struct speed_case datatype_speed = {.name = "datatype",
                                          .operation = "64 KiB in blocks of 256 B, there and back",
                                          .image = "datatype_handler",
                                          .ranks = 2,
                                          .least_ranks = 2,
                                          .in_pairs = true,
                                          .bytes = 64 << 10,
                                          .least_bytes = BLOCK,
                                          .operations = 2,
                                          .live_operations = 50,
                                          .open = open_use,
                                          .work = work,
                                          .close = close_use};
