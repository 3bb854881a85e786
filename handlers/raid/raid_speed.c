/* Speed of the RAID: one client that writes 64 KiB at a time, to four servers of data. */
#include <stdlib.h>

#include "speed.h"
#include "spinlib/raid.h"

enum { DATA = 4, UNIT = 16 << 10, SERVER_BYTES = 256 << 10, WRITE = DATA * UNIT };

struct use {
    struct spin_raid *raid;
    bool is_client, by_host;
    uint8_t data[WRITE];
};

static int open_use(const struct speed *s, const struct spin_job *job, void **out) {
    const struct spin_raid_options o = {
        .data = DATA, .unit = UNIT, .server_bytes = SERVER_BYTES, .by_host = s->by_host};
    struct use *u = calloc(1, sizeof *u);
    *out = u;
    if (!u)
        return PTL_NO_SPACE;
    u->is_client = job->rank > DATA;
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
        u->data[i % WRITE]++;
        code = spin_raid_write(u->raid, i % (SERVER_BYTES / UNIT) * WRITE, u->data, WRITE);
    }
    done->operations = operations;
    done->bytes = (uint64_t)operations * WRITE;
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
                                      .ranks = DATA + 2,
                                      .operations = 4,
                                      .live_operations = 25,
                                      .open = open_use,
                                      .work = work,
                                      .serve = serve,
                                      .close = close_use};
