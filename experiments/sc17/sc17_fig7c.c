/* SC'17 figure 7c: updates of a RAID of four data servers and one of parity, by the servers'
 * processors and by their cards (A15). */
#include "figures.h"

#include <stdlib.h>

#include "base/error.h"
#include "spinlib/raid.h"

enum { SIZES = 8, WAYS = 6, DATA = 4 }; /* 256 B to 4 MiB, by 4 */

static uint64_t size_at(int i) {
    return 256ull << (2 * i);
}

struct scene {
    struct spin_raid_options options;
    uint64_t bytes, time_ps;
    const void *data;
    bool done;
};

static int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spin_raid *raid;
    int code = PTL_OK;
    if (spin_job_open(&job) != PTL_OK || spin_raid_open(job.ni, &s->options, &raid) != PTL_OK)
        return 1;
    spin_barrier();
    if (job.rank == s->options.data + 1) {
        uint64_t start = spin_now_ps();
        code = spin_raid_write(raid, 0, s->data, s->bytes);
        s->time_ps = spin_now_ps() - start;
        s->done = true;
    }
    while (s->options.by_host && !s->done && code == PTL_OK)
        code = spin_raid_work(raid, 1);
    spin_barrier();
    spin_raid_close(raid);
    spin_job_close(&job);
    return code == PTL_OK ? 0 : 2;
}

/* Of data: all ranks but the server of parity and the client. */
static uint32_t servers(const struct experiment_context *context) {
    return context->setup.ranks ? context->setup.ranks - 2 : DATA;
}

static int measure(const struct experiment_context *context, uint64_t bytes, int way,
                   const void *data, double *us, struct spin_error *err) {
    static const char *const on_pspin[] = {"card=pspin"}, *const many[] = {"hpus=32"};
    uint32_t data_servers = servers(context);
    uint64_t unit = (bytes / data_servers + 63) & ~63ull; /* a server has one part of the update */
    struct spin_world_options base = {.ranks = data_servers + 2,
                                      .preset = way < 2 ? "sc17-int" : "sc17-dis"};
    if (way >= WAYS) /* the first four once more */
        base = (struct spin_world_options){.ranks = data_servers + 2,
                                           .preset = way < WAYS + 2 ? "sc17-int" : "sc17-dis",
                                           .set = many,
                                           .set_count = 1};
    else if (way >= 4)
        base =
            (struct spin_world_options){.ranks = data_servers + 2, .set = on_pspin, .set_count = 1};
    struct scene s = {.options = {.data = data_servers,
                                  .server_bytes = unit,
                                  .unit = (uint32_t)unit,
                                  .by_host = way % 2 == 0},
                      .bytes = bytes,
                      .data = data};
    int code = experiment_ranks(context, "raid_handler", &base, rank, &s, err);
    *us = (double)s.time_ps / 1e6;
    return code;
}

static void judge(struct sheet *s, double us[SIZES][WAYS]) {
    for (int c = 0; c < 2; c++) {
        const char *card = c ? "dis" : "int";
        double small = us[0][2 * c] / us[0][2 * c + 1];
        double large = us[SIZES - 1][2 * c] / us[SIZES - 1][2 * c + 1];
        struct sheet_claim *claim = sheet_shape(s, "A15", small > 0.67 && small < 1.5,
                                                "256 B, %s: comparable (within 1.5 times)", card);
        sheet_because(claim, "RDMA takes %.2f of sPIN's time", small);
        claim = sheet_shape(s, "A15", large > 1.5, "4 MiB, %s: clearly higher bandwidth", card);
        sheet_because(
            claim,
            "%.2f times. The card of parity bounds it: its 4 HPUs take 4.3 instructions per "
            "4 B, the least there are without vectors; a core of the host a cycle per 8 B",
            large);
    }
}

int sc17_fig7c(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const char *const names[] = {"int", "dis", "PsPIN"};
    double us[SIZES][WAYS];
    uint64_t most = context->setup.bytes ? context->setup.bytes : size_at(SIZES - 1);
    if (context->setup.ranks && context->setup.ranks < 4)
        return spin_fail(err, SPIN_EARG,
                         "--ranks %u: there are two servers of data, one of parity and a client at "
                         "least",
                         context->setup.ranks);
    if (most % 8)
        return spin_fail(err, SPIN_EARG, "--bytes: an update is a multiple of 8 bytes");
    void *data = calloc(1, most);
    if (!data)
        return spin_fail(err, SPIN_ENOMEM, "no memory for the data");
    char title[60];
    snprintf(title, sizeof title, "RAID-5 update of %u data servers", servers(context));
    struct sheet_panel *p =
        sheet_panel(s, "raid", context->setup.ranks ? title : "RAID-5 update of four data servers");
    int ways = context->setup.card ? 4 : WAYS;
    p->log_x = p->log_y = true;
    sheet_column(p, "B", 0, "update");
    for (int way = 0; way < ways; way++)
        sheet_column(p, "us", 3, "%s (%s)", way % 2 ? "sPIN" : "RDMA/P4", names[way / 2]);
    int code = SPIN_OK;
    for (int i = 0; i < (context->setup.bytes ? 1 : SIZES) && !code; i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        uint64_t bytes = context->setup.bytes ? context->setup.bytes : size_at(i);
        row->value[0] = (double)bytes;
        for (int way = 0; way < ways && !code; way++) {
            code = measure(context, bytes, way, data, &us[i][way], err);
            row->value[1 + way] = us[i][way];
        }
    }
    if (code || experiment_one_row(context)) {
        free(data);
        return code;
    }
    judge(s, us);
    double many[4];
    for (int way = 0; way < 4 && !code; way++)
        code = measure(context, size_at(SIZES - 1), WAYS + way, data, &many[way], err);
    free(data);
    if (code)
        return code;
    sheet_note(s,
               "With 32 HPUs sPIN is %.2f (int) and %.2f (dis) times as fast as RDMA at 4 MiB: the "
               "paper's HPUs are out-of-order cores, ours execute an instruction per cycle.",
               many[0] / many[1], many[2] / many[3]);
    sheet_note(s, "One update, a quarter for each server of data, from the client's call until all "
                  "acknowledgements are there, which come after the parity is updated. A processor "
                  "is charged a cycle per 8 B, what its memory moves, and 64 cycles per message.");
    return SPIN_OK;
}
