/* SC'17 section 5.3: block traces on the RAID of figure 7c, by the servers' processors and by their
 * cards (A16). The paper's five traces cannot be part of this; ours are made with their published
 * statistics, or read from a file. */
#include "figures.h"

#include <stdlib.h>

#include "base/error.h"
#include "spinlib/raid.h"
#include "spinlib/spc.h"

enum { DATA = 4, CARDS = 3, RECORDS = 400, FILE_RECORDS = 10000, UNIT = 64 << 10 };
#define SERVER_BYTES (4u << 20)
#define MOST_BYTES   (1u << 20) /* of a request; longer ones are cut */
#define SEED         17

struct scene {
    bool by_host;
    const struct spin_spc_trace *trace;
    uint32_t bytes; /* of every request; 0: the trace's */
    uint64_t end_ps;
    uint32_t ended;
    void *data;
};

/* Where a request goes: the units of the trace one behind the other, over and over on the RAID. */
static int request(struct spin_raid *raid, const struct scene *s, const struct spin_spc_record *r) {
    uint64_t bytes = s->bytes ? s->bytes : r->bytes;
    bytes = bytes > MOST_BYTES ? MOST_BYTES : (bytes + 7) & ~7ull;
    uint64_t room = DATA * (uint64_t)SERVER_BYTES - bytes;
    uint64_t at = (r->lba + r->asu * 1000003ull) % (room / SPIN_SPC_BLOCK + 1) * SPIN_SPC_BLOCK;
    return r->is_write ? spin_raid_write(raid, at, s->data, bytes)
                       : spin_raid_read(raid, at, s->data, bytes);
}

static int rank(void *argument) {
    struct scene *s = argument;
    const struct spin_raid_options o = {
        .data = DATA, .server_bytes = SERVER_BYTES, .unit = UNIT, .by_host = s->by_host};
    struct spin_job job;
    struct spin_raid *raid;
    int code = PTL_OK;
    if (spin_job_open(&job) != PTL_OK || spin_raid_open(job.ni, &o, &raid) != PTL_OK)
        return 1;
    spin_barrier();
    uint64_t start = spin_now_ps();
    if (job.rank > DATA) {
        uint32_t clients = job.ranks - DATA - 1;
        for (uint64_t i = job.rank - DATA - 1; i < s->trace->records && code == PTL_OK;
             i += clients)
            code = request(raid, s, &s->trace->record[i]);
        if (spin_now_ps() - start > s->end_ps)
            s->end_ps = spin_now_ps() - start;
    }
    s->ended++;
    while (s->by_host && job.rank <= DATA && s->ended < job.ranks && code == PTL_OK)
        code = spin_raid_work(raid, 1);
    spin_barrier();
    spin_raid_close(raid);
    spin_job_close(&job);
    return code == PTL_OK ? 0 : 2;
}

static int measure(const struct experiment_context *context, int card, struct scene *s,
                   struct spin_error *err) {
    static const char *const presets[CARDS] = {"sc17-int", "sc17-dis", NULL};
    static const char *const pspin[] = {"card=pspin"};
    uint32_t ranks = context->setup.ranks ? context->setup.ranks : DATA + 2;
    struct spin_world_options base = {.ranks = ranks, .preset = presets[card]};
    if (!presets[card]) {
        base.set = pspin;
        base.set_count = 1;
    }
    s->end_ps = s->ended = 0;
    return experiment_ranks(context, "raid_handler", &base, rank, s, err);
}

/* A row in either table; improvement[card] in per cent. */
static int tabulate(const struct experiment_context *context, struct sheet *s, const char *name,
                    const struct spin_spc_trace *trace, void *data, double improvement[CARDS],
                    struct spin_error *err) {
    struct spin_spc_statistics is = spin_spc_statistics(trace);
    struct sheet_row *row = sheet_row(s, &s->panel[1], name);
    row->value[1] = (double)trace->records;
    row->value[2] = 100 * is.reads;
    row->value[3] = is.mean_bytes;
    row->value[4] = is.rate;
    row->value[5] = 100 * is.sequential;
    row->value[6] = is.asus;
    row = sheet_row(s, &s->panel[0], name);
    for (int card = 0; card < CARDS; card++) {
        double us[2];
        for (int v = 0; v < 2; v++) {
            struct scene scene = {.by_host = v == 0,
                                  .trace = trace,
                                  .bytes = (uint32_t)context->setup.bytes,
                                  .data = data};
            int code = measure(context, card, &scene, err);
            if (code)
                return code;
            us[v] = (double)scene.end_ps / 1e6;
        }
        improvement[card] = 100 * (us[0] - us[1]) / us[0];
        row->value[1 + 3 * card] = us[0];
        row->value[2 + 3 * card] = us[1];
        row->value[3 + 3 * card] = improvement[card];
    }
    return SPIN_OK;
}

static void panels(struct sheet *s) {
    static const char *const names[CARDS] = {"int", "dis", "PsPIN"};
    struct sheet_panel *time = sheet_panel(s, "time", "Time of a trace on a RAID-5, 4 + 1 servers");
    struct sheet_panel *trace = sheet_panel(s, "traces", "The traces");
    time->by_name = trace->by_name = true;
    sheet_column(time, "", 0, "trace");
    for (int card = 0; card < CARDS; card++) {
        sheet_column(time, "us", 1, "RDMA (%s)", names[card]);
        sheet_column(time, "us", 1, "sPIN (%s)", names[card]);
        sheet_column(time, "%", 1, "shorter by");
    }
    sheet_column(trace, "", 0, "trace");
    sheet_column(trace, "", 0, "requests");
    sheet_column(trace, "%", 1, "reads");
    sheet_column(trace, "B", 0, "mean size");
    sheet_column(trace, "1/s", 1, "rate");
    sheet_column(trace, "%", 1, "sequential");
    sheet_column(trace, "", 0, "units");
}

static int all_profiles(const struct experiment_context *context, struct sheet *s, void *data,
                        struct spin_error *err) {
    double least = 100, most = -100, best_search = -100, improvement[CARDS];
    for (const struct spin_spc_profile *p = spin_spc_profiles; p->name; p++) {
        struct spin_spc_trace trace;
        if (!spin_spc_make(p, SEED + (uint64_t)(p - spin_spc_profiles), RECORDS, &trace))
            return spin_fail(err, SPIN_ENOMEM, "no memory for the trace");
        int code = tabulate(context, s, p->name, &trace, data, improvement, err);
        spin_spc_free(&trace);
        if (code)
            return code;
        for (int card = 0; card < 2; card++) { /* the paper's two */
            least = improvement[card] < least ? improvement[card] : least;
            most = improvement[card] > most ? improvement[card] : most;
            if (p->name[0] == 'w' && improvement[card] > best_search)
                best_search = improvement[card];
        }
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    struct sheet_claim *c =
        sheet_claim(s, "A16", "%", most, 43.7, "largest improvement of a trace");
    sheet_because(c, "RDMA's processors are charged %s", "a cycle per 8 B and 64 per message");
    c = sheet_claim(s, "A16", "%", least, 2.8, "smallest improvement of a trace");
    sheet_because(c, "reads are gets in both; these traces have hardly any writes");
    sheet_shape(s, "A16", most > best_search, "the largest is that of a financial trace");
    sheet_note(
        s,
        "Requests of made traces (seeds %d to %d), one after the other: the client waits for each, "
        "whatever its timestamp. --ranks N has N - 5 clients, --file reads a trace.",
        SEED, SEED + 4);
    return SPIN_OK;
}

static int one_file(const struct experiment_context *context, struct sheet *s, void *data,
                    struct spin_error *err) {
    struct spin_spc_trace trace;
    char what[300];
    double improvement[CARDS];
    if (!spin_spc_load(context->setup.file, FILE_RECORDS, &trace, what, sizeof what))
        return spin_fail(err, SPIN_EFORMAT, "%s", what);
    int code = tabulate(context, s, "file", &trace, data, improvement, err);
    if (trace.records == FILE_RECORDS)
        sheet_note(s, "The first %d requests of %.150s.", FILE_RECORDS, context->setup.file);
    spin_spc_free(&trace);
    return code;
}

int sc17_spc(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    if (context->setup.ranks && context->setup.ranks < DATA + 2)
        return spin_fail(err, SPIN_EARG, "--ranks: there are %d servers, and a client at least",
                         DATA + 1);
    if (context->setup.bytes > MOST_BYTES || context->setup.bytes % 8)
        return spin_fail(err, SPIN_EARG, "--bytes: a request has a multiple of 8, at most %u",
                         MOST_BYTES);
    void *data = calloc(1, MOST_BYTES);
    if (!data)
        return spin_fail(err, SPIN_ENOMEM, "no memory for the data");
    panels(s);
    int code =
        context->setup.file ? one_file(context, s, data, err) : all_profiles(context, s, data, err);
    free(data);
    return code;
}
