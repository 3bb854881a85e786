/* The slides' use case 1: datatypes of applications, unpacked by the card in each strategy or by
 * the processor (E2), and the interval between checkpoints by the published model (E1). */
#include "figures.h"

#include <math.h>

#include "base/error.h"
#include "slides/app_types.h"
#include "slides/type_bench.h"

#define MESSAGE (128u << 10)
#define VECTOR  (512u << 10)

/* 32 cores at 800 MHz. */
enum { HPUS = 32, CYCLE_PS = 1250, MOST_TYPES = 16, BLOCKS = 7 };
/* Handlers that catch up over a long message take longer than the usual budget. */
static const char *const slides_card[] = {"hpus=32", "hpu_cycle=1.25", "hpu_budget=1000000000"};
static const struct spin_world_options slides_world = {.set = slides_card, .set_count = 3};

enum { STRATEGIES = 5 };
static const struct {
    enum spin_type_strategy strategy;
    const char *name;
} strategies[STRATEGIES] = {
    {SPIN_TYPE_SPECIALISED, "specialised"},
    {SPIN_TYPE_READ_WRITE, "RW"},
    {SPIN_TYPE_READ_ONLY, "RO"},
    {SPIN_TYPE_HPU_LOCAL, "HPU-local"},
    {SPIN_TYPE_SEEK, "seek"},
};

/* One layout in all strategies. */
struct outcome {
    struct spin_layout_info info;
    struct spin_interval interval;
    struct type_bench host, by[STRATEGIES]; /* time_ps 0: there is none, or it does not fit */
};

static double us(const struct type_bench *b) {
    return b->time_ps ? (double)b->time_ps / 1e6 : NAN;
}

static double speedup(const struct outcome *o, int i) {
    return o->by[i].time_ps ? (double)o->host.time_ps / (double)o->by[i].time_ps : NAN;
}

static int measure(const struct experiment_context *context, struct spin_layout *layout,
                   struct outcome *o, struct spin_error *err) {
    struct type_bench b = {.layout = layout, .ranks = context->setup.ranks};
    *o = (struct outcome){.info = spin_layout_info(layout)};
    b.options.hpus = HPUS;
    b.options.hpu_cycle_ps = CYCLE_PS;
    spin_type_interval(layout, &b.options, &o->interval);
    o->host = b;
    o->host.options.strategy = SPIN_TYPE_HOST;
    int code = type_bench(context, &slides_world, &o->host, err);
    for (int i = 0; i < STRATEGIES && !code; i++) {
        bool general = o->info.form == SPIN_LAYOUT_GENERAL;
        if (strategies[i].strategy == SPIN_TYPE_SPECIALISED && general)
            continue;
        o->by[i] = b;
        o->by[i].options.strategy = strategies[i].strategy;
        code = type_bench(context, &slides_world, &o->by[i], err);
    }
    return code;
}

static int measure_types(const struct experiment_context *context, struct outcome *o, int *count,
                         struct spin_error *err) {
    uint64_t bytes = context->setup.bytes ? context->setup.bytes : MESSAGE;
    for (*count = 0; app_types[*count].name; ++*count) {
        struct spin_type *type;
        struct spin_layout *layout;
        if (app_types[*count].make(bytes, &type) != PTL_OK)
            return spin_fail(err, SPIN_ELIMIT, "%s: no type of %llu B", app_types[*count].name,
                             (unsigned long long)bytes);
        int code = spin_type_commit(type, 1, &layout, err);
        spin_type_free(type);
        if (code != PTL_OK)
            return SPIN_ELIMIT;
        code = measure(context, layout, &o[*count], err);
        spin_layout_free(layout);
        if (code)
            return code;
    }
    return SPIN_OK;
}

/* ---- Tables ---- */

static void speedup_columns(struct sheet_panel *p) {
    for (int i = 0; i < STRATEGIES; i++)
        sheet_column(p, "", 2, "%s", strategies[i].name);
}

/* Messages after which the time to open the receive with checkpoints has paid off. */
static double reuses(const struct outcome *o) {
    double gain = (double)o->host.time_ps - (double)o->by[1].time_ps;
    return gain > 0 && o->by[1].time_ps ? ceil((double)o->by[1].setup_ps / gain) : NAN;
}

/* Bytes that go through the receiver's memory, by DMA and by the processor, with a receive that was
 * there before. A PsPIN card does not count its DMA. */
static double moved(const struct outcome *o) {
    const struct spin_world_counts *h = &o->host.counts, *c = &o->by[1].counts;
    double sent = (double)o->info.size; /* read from the sender's memory */
    return c->dma_bytes && o->by[1].time_ps
               ? ((double)h->memory_bytes - sent) / ((double)c->dma_bytes - sent)
               : NAN;
}

static void types_panel(struct sheet *s, const struct outcome *o, int count) {
    struct sheet_panel *p =
        sheet_panel(s, "types", "Datatypes of applications: speedup over unpacking by the host");
    p->by_name = true;
    sheet_column(p, "", 0, "type");
    sheet_column(p, "KiB", 0, "data");
    sheet_column(p, "", 0, "regions/pkt");
    sheet_column(p, "us", 1, "host");
    speedup_columns(p);
    sheet_column(p, "", 0, "reuses");
    sheet_column(p, "", 2, "less moved");
    for (int t = 0; t < count; t++) {
        struct sheet_row *row = sheet_row(s, p, app_types[t].name);
        row->value[1] = (double)o[t].info.size / 1024;
        row->value[2] = o[t].interval.regions_per_packet;
        row->value[3] = us(&o[t].host);
        for (int i = 0; i < STRATEGIES; i++)
            row->value[4 + i] = speedup(&o[t], i);
        row->value[4 + STRATEGIES] = reuses(&o[t]);
        row->value[5 + STRATEGIES] = moved(&o[t]);
    }
}

static void model_panel(struct sheet *s, const struct outcome *o, int count) {
    struct sheet_panel *p =
        sheet_panel(s, "model", "Interval by the model, and what read-write checkpoints take");
    p->by_name = true;
    sheet_column(p, "", 0, "type");
    sheet_column(p, "", 0, "n_pkt");
    sheet_column(p, "", 0, "gamma");
    sheet_column(p, "ns", 0, "T_pkt");
    sheet_column(p, "us", 2, "T_PH");
    sheet_column(p, "us", 2, "handler");
    sheet_column(p, "KiB", 0, "interval");
    sheet_column(p, "", 0, "checkpoints");
    sheet_column(p, "B", 0, "each");
    sheet_column(p, "us", 1, "T_C");
    sheet_column(p, "us", 1, "measured");
    for (int t = 0; t < count; t++) {
        const struct spin_interval *i = &o[t].interval;
        const struct type_bench *rw = &o[t].by[1];
        struct sheet_row *row = sheet_row(s, p, app_types[t].name);
        const double values[] = {i->packets,
                                 i->regions_per_packet,
                                 i->packet_ps / 1e3,
                                 i->handler_ps / 1e6,
                                 (double)rw->counts.handler_ps / (double)rw->counts.handlers / 1e6,
                                 i->bytes / 1024.0,
                                 i->checkpoints,
                                 i->checkpoint_bytes,
                                 i->time_ps / 1e6,
                                 us(rw)};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            row->value[1 + k] = values[k];
    }
}

static int vector_panel(const struct experiment_context *context, struct sheet *s,
                        struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, "vector", "A vector of 512 KiB: rate over blocks");
    p->log_x = true;
    sheet_column(p, "B", 0, "block");
    sheet_column(p, "Gbit/s", 1, "host");
    for (int i = 0; i < STRATEGIES; i++)
        sheet_column(p, "Gbit/s", 1, "%s", strategies[i].name);
    for (int k = 0; k < BLOCKS; k++) {
        uint32_t block = 8u << (2 * k);
        struct spin_layout *layout;
        struct outcome o;
        int code = type_bench_vector(VECTOR / block, block, 2ull * block, &layout, err);
        if (code)
            return code;
        code = measure(context, layout, &o, err);
        spin_layout_free(layout);
        if (code)
            return code;
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = block;
        row->value[1] = VECTOR * 8.0 / us(&o.host) / 1e3;
        for (int i = 0; i < STRATEGIES; i++)
            row->value[2 + i] = VECTOR * 8.0 / us(&o.by[i]) / 1e3;
    }
    return SPIN_OK;
}

static void judge(struct sheet *s, const struct outcome *o, int count) {
    double best = 0, most_moved = 0, soon = 0;
    for (int t = 0; t < count; t++) {
        for (int i = 0; i < STRATEGIES; i++)
            best = fmax(best, speedup(&o[t], i)); /* fmax passes over NAN */
        most_moved = fmax(most_moved, moved(&o[t]));
        soon += reuses(&o[t]) <= 4;
    }
    struct sheet_claim *c = sheet_claim(s, "E2", "", best, 10, "largest speedup over the host");
    if (c->verdict == SHEET_DIFFERS)
        sheet_because(c, "the host is charged a cycle per 8 B and 10 per region, and no miss");
    c = sheet_bound(s, "E2", "%", 100 * soon / count, 75, false,
                    "types whose checkpoints pay off within 4 uses");
    c = sheet_claim(s, "E2", "", most_moved, 3.8, "most by which less data is moved");
    if (c->verdict == SHEET_DIFFERS)
        sheet_because(c, "a byte is moved 3 times by the host: by DMA, read and written; cache "
                         "lines are not modelled");
}

int slides_datatypes(const struct experiment_context *context, struct sheet *s,
                     struct spin_error *err) {
    struct outcome o[MOST_TYPES];
    int count;
    if (context->setup.ranks % 2)
        return spin_fail(err, SPIN_EARG, "--ranks: ranks send in pairs, so their number is even");
    if (context->setup.bytes && (context->setup.bytes < 4096 || context->setup.bytes > 64u << 20))
        return spin_fail(err, SPIN_EARG, "--bytes: from 4,096 to 67,108,864");
    int code = measure_types(context, o, &count, err);
    if (code)
        return code;
    types_panel(s, o, count);
    model_panel(s, o, count);
    if (!context->setup.bytes)
        code = vector_panel(context, s, err);
    if (code || experiment_one_row(context))
        return code;
    judge(s, o, count);
    sheet_note(s,
               "A packed message, from the sender's call until the receiver's program knows that "
               "all is in place. 32 HPUs of 800 MHz, as the slides have. Reuses: messages until "
               "the time to make checkpoints is gained back.");
    sheet_note(s, "seek is ours: positions stand in the dataloop, so that a handler finds its "
                  "place by divisions and bisections, without checkpoints.");
    return SPIN_OK;
}
