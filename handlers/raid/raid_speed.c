/* Speed of the RAID: one client that writes to all servers of data at a time. */
#include <stdlib.h>

#include "speed.h"
#include "spinlib/raid.h"

enum { UNITS = 16 }; /* of a server */

extern const struct speed_case raid_speed;

struct use {
    struct spin_raid *raid;
    bool is_client, by_host;
    uint32_t bytes; /* of a write */
    uint8_t data[];
};

static int open_use(const struct speed *s, const struct spin_job *job, void **out) {
    uint32_t servers = job->ranks - 2, unit = (speed_bytes(&raid_speed, s) / servers + 63) & ~63u;
    const struct spin_raid_options o = {.data = servers,
                                        .unit = unit,
                                        .server_bytes = (uint64_t)UNITS * unit,
                                        .by_host = s->by_host};
    struct use *u = calloc(1, sizeof *u + (size_t)servers * unit);
    *out = u;
    if (!u)
        return PTL_NO_SPACE;
    u->bytes = servers * unit;
    u->is_client = job->rank > servers;
    u->by_host = s->by_host;
    return spin_raid_open(job->ni, &o, &u->raid);
}

static int work(void *use, uint32_t operations, struct speed_done *done) {
    struct use *u = use;
    int code = PTL_OK;
    if (!u->is_client) {
        done->serves = u->by_host;
        return PTL_OK;
    }
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++) {
        u->data[i % u->bytes]++;
        code = spin_raid_write(u->raid, (uint64_t)(i % UNITS) * u->bytes, u->data, u->bytes);
    }
    done->operations = operations;
    done->bytes = (uint64_t)operations * u->bytes;
    return code;
}

static int serve(void *use) {
    return spin_raid_work(((struct use *)use)->raid, 1);
}

static void close_use(void *use) {
    struct use *u = use;
    spin_raid_close(u->raid);
    free(u);
}

const struct speed_case raid_speed = {.name = "raid",
                                      .operation = "write of 64 KiB, 4 + 1 servers",
                                      .image = "raid_handler",
                                      .ranks = 4 + 2,
                                      .least_ranks = 4,
                                      .bytes = 64 << 10,
                                      .least_bytes = 8,
                                      .operations = 4,
                                      .live_operations = 25,
                                      .open = open_use,
                                      .work = work,
                                      .serve = serve,
                                      .close = close_use};
