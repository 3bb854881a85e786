/* The timelines of SC'17 appendix C as pictures: what CPU, card, DMA and HPUs of every rank do, as
 * SVG and as a trace for Perfetto, one of each for every run. */
#include "figures.h"

#include <limits.h>
#include <stdio.h>

#include "base/error.h"
#include "sc17/microbench.h"

static const struct {
    const char *name;
    microbench_run *run;
    enum p4_variant variant;
    uint32_t ranks, bytes;
} runs[] = {
    {"pingpong-rdma", p4_pingpong, P4_RDMA, 2, 8192},
    {"pingpong-portals", p4_pingpong, P4_TRIGGERED, 2, 8192},
    {"pingpong-store", p4_pingpong, P4_STORE, 2, 8192},
    {"pingpong-stream", p4_pingpong, P4_STREAM, 2, 8192},
    {"accumulate-rdma", p4_accumulate, P4_RDMA, 2, 8192},
    {"accumulate-spin", p4_accumulate, P4_STREAM, 2, 8192},
    {"broadcast-rdma", p4_broadcast, P4_RDMA, 16, 8192},
    {"broadcast-spin", p4_broadcast, P4_STREAM, 16, 8192},
    {"strided-rdma", p4_strided, P4_RDMA, 2, 262144},
    {"strided-spin", p4_strided, P4_STREAM, 2, 262144},
    {"raid-spin", p4_raid, P4_STREAM, 3, 4096},
};
enum { RUNS = sizeof runs / sizeof runs[0] };

static int run_one(const struct experiment_context *context, int i, struct p4_outcome *outcome,
                   struct spin_error *err) {
    const struct spin_world_options base = {.preset = "sc17-dis"};
    struct experiment_world world;
    int code = experiment_world(context, &base, &world, err);
    if (code)
        return code;
    char trace[PATH_MAX], picture[PATH_MAX];
    struct p4_setup setup = {.variant = runs[i].variant,
                             .ranks = context->setup.ranks ? context->setup.ranks : runs[i].ranks,
                             .bytes = experiment_size(context, runs[i].bytes),
                             .images = context->workloads,
                             .world = world.options};
    if (context->out) {
        if ((size_t)snprintf(trace, sizeof trace, "%s/sc17-timelines-%s.json", context->out,
                             runs[i].name) >= sizeof trace)
            return spin_fail(err, SPIN_EARG, "%s: name is too long", context->out);
        snprintf(picture, sizeof picture, "%s/sc17-timelines-%s.svg", context->out, runs[i].name);
        setup.world.trace = trace;
        setup.world.picture = picture;
    }
    return runs[i].run(&setup, outcome, err);
}

int sc17_timelines(const struct experiment_context *context, struct sheet *s,
                   struct spin_error *err) {
    struct p4_outcome o[RUNS];
    if (!context->workloads)
        return spin_fail(err, SPIN_EFILE,
                         "the handler images are not where openspin is installed "
                         "(share/openspin/handlers); install it again");
    uint32_t ranks = context->setup.ranks;
    if (ranks == 1 || ranks & (ranks - 1))
        return spin_fail(err, SPIN_EARG, "--ranks %u: a broadcast has a power of two", ranks);
    struct sheet_panel *p = sheet_panel(s, "runs", "Runs of appendix C, discrete card");
    p->by_name = true;
    sheet_column(p, "", 0, "run");
    sheet_column(p, "ns", 1, "time");
    sheet_column(p, "ns", 1, "HPUs in use");
    sheet_column(p, "", 0, "handlers");
    sheet_column(p, "", 0, "packets");
    sheet_column(p, "B", 0, "through host memory");
    for (int i = 0; i < RUNS; i++) {
        int code = run_one(context, i, &o[i], err);
        if (code)
            return code;
        const struct spin_world_counts *c = &o[i].world.counts;
        struct sheet_row *row = sheet_row(s, p, runs[i].name);
        row->value[1] = (double)o[i].time_ps / 1000;
        row->value[2] = (double)c->handler_ps / 1000;
        row->value[3] = (double)c->handlers;
        row->value[4] = (double)c->packets;
        row->value[5] = (double)c->memory_bytes;
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    /* Appendix C says so of its pictures. */
    sheet_claim(s, "SC17", "", (double)o[2].world.counts.handlers, 2,
                "pingpong-store: header and completion handler, no payload handler");
    sheet_claim(s, "SC17", "", (double)o[3].world.counts.handlers, 4,
                "pingpong-stream: two payload handlers, and header and completion");
    double sent = (double)runs[4].bytes; /* read by the sender's card, in either run */
    sheet_claim(s, "A10", "",
                ((double)o[5].world.counts.memory_bytes - sent) /
                    ((double)o[4].world.counts.memory_bytes - sent),
                0.5, "accumulation: host memory traffic of the target, sPIN over RDMA");
    sheet_claim(s, "SC17", "", (double)o[9].world.counts.handlers, 64,
                "strided: a payload handler for each of 64 packets");
    sheet_note(s, context->out
                      ? "Pictures are in the folder: sc17-timelines-RUN.svg, and .json for "
                        "Perfetto."
                      : "--out DIR writes the pictures: sc17-timelines-RUN.svg, and .json "
                        "for Perfetto.");
    return SPIN_OK;
}
