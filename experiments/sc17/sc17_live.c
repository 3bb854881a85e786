/* SC'17 figures 3 and 5a on live cards of this machine: the ranks of the simulated ones, as
 * processes. Beside each time stands the simulator's prediction for a card with parameters that
 * were measured by other operations. */
#include "figures.h"

#include <unistd.h>

#include "base/error.h"
#include "sc17/live_machine.h"
#include "sc17/microbench.h"

static const uint32_t sizes[] = {8, 512, 4096, 16384, 65536};
enum { SIZES = sizeof sizes / sizeof sizes[0], MOST_RANKS = 8 };

struct live {
    const struct experiment_context *context;
    struct p4_live_plan *plan;
    int fd;
    struct live_machine machine;
};

static int sizes_of(const struct experiment_context *context) {
    return context->setup.bytes ? 1 : SIZES;
}

static uint32_t size_at(const struct experiment_context *context, int i) {
    return context->setup.bytes ? (uint32_t)context->setup.bytes : sizes[i];
}

static int predict(const struct live *l, microbench_run *run, enum p4_variant variant,
                   uint32_t ranks, uint32_t bytes, double *us, struct spin_error *err) {
    const struct p4_setup setup = {.variant = variant,
                                   .ranks = ranks,
                                   .bytes = bytes,
                                   .world = {.set = l->machine.set, .set_count = l->machine.count}};
    return microbench(l->context, run, setup, us, err);
}

static void columns(struct sheet_panel *p, const char *first, const char *unit,
                    const enum p4_variant *variants, int count) {
    p->log_x = p->log_y = true;
    sheet_column(p, unit, 0, "%s", first);
    for (int v = 0; v < count; v++) {
        sheet_column(p, "us", 2, "%s", p4_variant_name(variants[v]));
        sheet_column(p, "us", 2, "predicted");
    }
}

static void note_machine(struct sheet *s, const struct live *l) {
    char text[240];
    size_t used = 0;
    for (int i = 0; i < l->machine.count; i++) {
        if (used + 50 > sizeof text) {
            sheet_note(s, "%s", text);
            used = 0;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                 i == 0 ? "Measured parameters: "
                                 : used ? ", "
                                        : "",
                                 l->machine.set[i]);
    }
    sheet_note(s, "%s", text);
    sheet_note(s,
               "o is a PtlPut of 8 B while the peer computes, g while it waits, poll a PtlCTWait "
               "for what is there, link_latency a quarter of what is left of an acknowledged "
               "put, link_rate its slope from 16 to 64 KiB, dma_rate a memcpy.");
    sheet_note(s,
               "hpu_start is a header handler's share of an acknowledged put, hpu_cycle an "
               "instruction of another compiled handler, cpu_cycle a quarter of a product on the "
               "host.");
    sheet_note(s,
               "Times are those that a quarter of %d are below, on warm cards; %ld processors, and "
               "one for each rank where that is enough.",
               P4_LIVE_TIMES, sysconf(_SC_NPROCESSORS_ONLN));
}

/* ---- figure 3 ---- */

static const enum p4_variant all_variants[] = {P4_RDMA, P4_TRIGGERED, P4_STORE, P4_STREAM};
static const enum p4_variant two_variants[] = {P4_RDMA, P4_STREAM};

struct case_of {
    enum p4_live_case use_case;
    microbench_run *run;
    const char *name, *title;
    const enum p4_variant *variants;
    int count;
};

static const struct case_of pingpong = {
    P4_LIVE_PINGPONG, p4_pingpong, "pingpong", "Ping-pong: half round trip, live and predicted",
    all_variants,     P4_VARIANTS};
static const struct case_of accumulate = {
    P4_LIVE_ACCUMULATE, p4_accumulate,
    "accumulate",       "Remote accumulation of complex numbers, live and predicted",
    two_variants,       2};

static void plan_case(struct live *l, const struct case_of *c) {
    for (int i = 0; i < sizes_of(l->context); i++)
        for (int v = 0; v < c->count; v++)
            live_plan_add(l->plan, c->use_case, c->variants[v], size_at(l->context, i));
}

/* `row` is the first of its rows in the plan. */
static int tabulate_case(struct live *l, struct sheet *s, const struct case_of *c, uint32_t row,
                         struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, c->name, c->title);
    columns(p, "message", "B", c->variants, c->count);
    for (int i = 0; i < sizes_of(l->context); i++) {
        struct sheet_row *to = sheet_row(s, p, NULL);
        to->value[0] = size_at(l->context, i);
        for (int v = 0; v < c->count; v++) {
            to->value[1 + 2 * v] = live_row_us(&l->plan->row[row++]);
            int code = predict(l, c->run, c->variants[v], 2, size_at(l->context, i),
                               &to->value[2 + 2 * v], err);
            if (code)
                return code;
        }
    }
    return SPIN_OK;
}

/* What the paper says of its cards, beside what these do. */
static void judge_pingpong(struct sheet *s, const struct live *l) {
    double us[P4_VARIANTS];
    if (l->context->setup.bytes)
        return;
    for (int v = 0; v < P4_VARIANTS; v++)
        us[v] = live_row_us(&l->plan->row[v]);
    sheet_shape(s, "A9", us[P4_STREAM] < us[P4_TRIGGERED], "8 B: sPIN stream is below Portals 4");
    sheet_shape(s, "A9", us[P4_TRIGGERED] < us[P4_RDMA], "8 B: Portals 4 is below RDMA");
    sheet_shape(s, "A9", us[P4_STREAM] < us[P4_RDMA], "8 B: sPIN stream is below RDMA");
}

int sc17_fig3_live(const struct experiment_context *context, struct sheet *s,
                   struct spin_error *err) {
    struct live l = {.context = context};
    if (context->setup.bytes % 8 || context->setup.bytes > 1 << 20)
        return spin_fail(err, SPIN_EARG,
                         "--bytes: live, a size is a multiple of 8 (a complex number) up to 1 MiB");
    l.plan = live_plan_new(context, &l.fd, err);
    if (!l.plan)
        return err->code;
    l.plan->calibrates = 1;
    plan_case(&l, &pingpong);
    uint32_t second = l.plan->rows;
    plan_case(&l, &accumulate);
    int code = live_plan_run(context, l.fd, 2, err);
    if (!code)
        code = live_machine_from(context, l.plan, &l.machine, err);
    if (!code)
        code = tabulate_case(&l, s, &pingpong, 0, err);
    if (!code)
        code = tabulate_case(&l, s, &accumulate, second, err);
    if (!code) {
        judge_pingpong(s, &l);
        note_machine(s, &l);
        sheet_note(s, "Live, large puts go beside the packets, and handlers run on the processor "
                      "that waits: the model has neither.");
        sheet_note(s, "Handlers compute floats with integers, and are interpreted until they are "
                      "compiled: so accumulation takes longer than hpu_cycle says.");
    }
    live_plan_free(l.plan, l.fd);
    return code;
}

/* ---- figure 5a ---- */

static const uint32_t broadcast_sizes[] = {8, 65536};

static int broadcast_panel(struct live *l, struct sheet *s, uint32_t bytes, bool second,
                           struct spin_error *err) {
    char title[64];
    uint32_t asked = l->context->setup.ranks;
    snprintf(title, sizeof title, "Broadcast of %u B, live and predicted", bytes);
    struct sheet_panel *p = sheet_panel(s, second ? "64KiB" : "8B", title);
    columns(p, "ranks", "", all_variants, P4_VARIANTS);
    for (uint32_t ranks = asked ? asked : 2; ranks <= (asked ? asked : MOST_RANKS); ranks *= 2) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = ranks;
        l->plan->rows = 0;
        for (int v = 0; v < P4_VARIANTS; v++)
            live_plan_add(l->plan, P4_LIVE_BROADCAST, all_variants[v], bytes);
        int code = live_plan_run(l->context, l->fd, ranks, err);
        for (int v = 0; !code && v < P4_VARIANTS; v++)
            row->value[1 + 2 * v] = live_row_us(&l->plan->row[v]);
        if (code)
            return code;
    }
    return SPIN_OK;
}

static int predict_panel(struct live *l, struct sheet_panel *p, uint32_t bytes,
                         struct spin_error *err) {
    for (int i = 0; i < p->rows; i++)
        for (int v = 0; v < P4_VARIANTS; v++) {
            int code = predict(l, p4_broadcast, all_variants[v], (uint32_t)p->row[i].value[0],
                               bytes, &p->row[i].value[2 + 2 * v], err);
            if (code)
                return code;
        }
    return SPIN_OK;
}

/* All that is live before anything that is simulated: ranks are forked. */
static int broadcasts(struct live *l, struct sheet *s, struct spin_error *err) {
    uint64_t asked = l->context->setup.bytes;
    int panels = asked ? 1 : 2, code = SPIN_OK;
    l->plan->calibrates = 1;
    code = live_plan_run(l->context, l->fd, 2, err);
    l->plan->calibrates = 0;
    for (int z = 0; z < panels && !code; z++)
        code = broadcast_panel(l, s, asked ? (uint32_t)asked : broadcast_sizes[z], z, err);
    if (!code)
        code = live_machine_from(l->context, l->plan, &l->machine, err);
    for (int z = 0; z < panels && !code; z++)
        code = predict_panel(l, &s->panel[z], asked ? (uint32_t)asked : broadcast_sizes[z], err);
    return code;
}

int sc17_fig5a_live(const struct experiment_context *context, struct sheet *s,
                    struct spin_error *err) {
    struct live l = {.context = context};
    uint32_t ranks = context->setup.ranks;
    if (ranks == 1 || ranks & (ranks - 1) || ranks > SPIN_LAUNCH_RANKS)
        return spin_fail(err, SPIN_EARG,
                         "--ranks %u: the binomial tree is of a power of two, live up to %d", ranks,
                         SPIN_LAUNCH_RANKS);
    if (context->setup.bytes > 1 << 20)
        return spin_fail(err, SPIN_EARG, "--bytes: live, up to 1 MiB");
    l.plan = live_plan_new(context, &l.fd, err);
    if (!l.plan)
        return err->code;
    int code = broadcasts(&l, s, err);
    if (!code) {
        note_machine(s, &l);
        sheet_note(s,
                   "The prediction has a processor for each rank. Where there are more ranks than "
                   "processors (%ld), live ranks sleep and take turns.",
                   sysconf(_SC_NPROCESSORS_ONLN));
    }
    live_plan_free(l.plan, l.fd);
    return code;
}
