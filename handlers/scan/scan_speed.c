/* Speed of conditional reads: scans of a table of rows of 1 KiB, of which a fifth match. Without
 * cards a client gets the whole table and looks through it. */
#include <stdlib.h>

#include "speed.h"
#include "spinlib/scan.h"

enum { ROW = 1024 };

extern const struct speed_case scan_speed;

struct use {
    struct spin_scan *scan;
    bool is_client, by_host;
    uint32_t rows;
    uint32_t memory[]; /* the server's table, or the client's rows */
};

static int open_use(const struct speed *s, const struct spin_job *job, void **out) {
    uint32_t bytes = speed_bytes(&scan_speed, s);
    struct use *u = calloc(1, sizeof *u + bytes);
    *out = u;
    if (!u)
        return PTL_NO_SPACE;
    u->is_client = job->rank != 1;
    u->rows = bytes / ROW;
    u->by_host = s->by_host;
    for (uint32_t i = 0; i < u->rows; i++)
        u->memory[i * ROW / 4] = i * 7 % 5;
    return spin_scan_open(job->ni, u->is_client ? NULL : u->memory, bytes, &u->scan);
}

static int work(void *use, uint32_t operations, struct speed_done *done) {
    struct use *u = use;
    const struct spin_scan_query q = {.rows = u->rows, .row_bytes = ROW, .low = 4, .high = 4};
    uint64_t matching = 0;
    int code = PTL_OK;
    if (!u->is_client)
        return PTL_OK;
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++) {
        code = (u->by_host ? spin_scan_read_all : spin_scan_read)(
            u->scan, 1, &q, u->memory, (uint64_t)u->rows * ROW, &matching);
        if (code == PTL_OK && matching != u->rows / 5)
            code = PTL_FAIL;
    }
    done->operations = operations;
    done->bytes = (uint64_t)operations * u->rows * ROW;
    return code;
}

static void close_use(void *use) {
    struct use *u = use;
    spin_scan_close(u->scan);
    free(u);
}

const struct speed_case scan_speed = {.name = "scan",
                                      .operation = "scan of 1,000 rows of 1 KiB, a fifth match",
                                      .image = "scan_handler",
                                      .ranks = 2,
                                      .least_ranks = 2,
                                      .bytes = 1000 * ROW,
                                      .least_bytes = 5 * ROW,
                                      .operations = 1,
                                      .live_operations = 20,
                                      .open = open_use,
                                      .work = work,
                                      .close = close_use};
