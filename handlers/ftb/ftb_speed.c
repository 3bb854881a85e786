/* Speed of the fault-tolerant broadcast, from each rank in turn, so that nobody is more than a
 * round of broadcasts ahead of another. */
#include <stdlib.h>

#include "speed.h"
#include "spinlib/ftb.h"

extern const struct speed_case ftb_speed;

struct use {
    struct spin_ftb *ftb;
    uint32_t rank, ranks, bytes;
    uint8_t data[];
};

static int open_use(const struct speed *s, const struct spin_job *job, void **out) {
    uint32_t bytes = speed_bytes(&ftb_speed, s);
    const struct spin_ftb_options o = {.most_bytes = bytes, .by_host = s->by_host};
    struct use *u = calloc(1, sizeof *u + bytes);
    *out = u;
    if (!u)
        return PTL_NO_SPACE;
    u->bytes = bytes;
    u->rank = job->rank;
    u->ranks = job->ranks;
    return spin_ftb_open(job->ni, &o, &u->ftb);
}

static int work(void *use, uint32_t operations, struct speed_done *done) {
    struct use *u = use;
    const void *data;
    uint64_t bytes;
    int code = PTL_OK;
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++) {
        bool is_root = i % u->ranks == u->rank;
        u->data[0] = (uint8_t)i;
        code = is_root ? spin_ftb_send(u->ftb, u->data, u->bytes)
                       : spin_ftb_receive(u->ftb, PTL_TIME_FOREVER, &data, &bytes);
        if (code == PTL_OK && !is_root &&
            (bytes != u->bytes || *(const uint8_t *)data != (uint8_t)i))
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
    spin_ftb_close(u->ftb);
    free(u);
}

const struct speed_case ftb_speed = {.name = "ftb",
                                     .operation = "broadcast of 8 KiB to 4",
                                     .image = "ftb_handler",
                                     .ranks = 4,
                                     .least_ranks = 2,
                                     .bytes = 8 << 10,
                                     .least_bytes = 1,
                                     .operations = 8,
                                     .live_operations = 100,
                                     .open = open_use,
                                     .work = work,
                                     .close = close_use};
