/* SC'17 table 5c: what offloaded message matching gains for four applications. The paper replays
 * traces; here are proxies (halo.h) with the applications' neighbours, exchanges and messages, on
 * cards. Of the paper they take the number of ranks, of messages, and the share of time that
 * communication has without offloading, from which follows how long a proxy computes. What it is
 * with offloading is the result. */
#include "figures.h"

#include <math.h>

#include "base/error.h"
#include "sc17/halo.h"

enum { VARIANTS = 3, APPLICATIONS = 4 };
/* As the codes are written; with half of the computing between sends and wait; and so, uneven. */
enum { AS_WRITTEN, OVERLAPPED, UNEVEN, STRUCTURES };
enum { FITS = 2, SEARCH = 1024 /* exchanges, for a period */ };
static const char *const variants[VARIANTS] = {"rdma", "portals", "spin"};
/* Uneven: computing takes a rank so much more or less from one exchange to the next. */
static const double uneven = 0.01;

/* The share and the messages are inputs of the paper; sizes and structure are those of the public
 * codes: MILC starts its gathers, works on the sites inside and waits; POP updates all eight
 * neighbours at once; coMD and Cloverleaf exchange one dimension after the other and wait for each.
 */
static const struct application {
    const char *name, *why; /* of the size */
    const char *differs;    /* because */
    int dimensions;
    bool corners, by_dimension;
    uint32_t steps, sums; /* as in struct halo */
    double between;       /* of its computing, between sends and wait */
    uint32_t bytes;
    struct {
        uint32_t ranks;
        double share;      /* of time in point-to-point communication, with RDMA */
        uint64_t messages; /* of all ranks; 0: not said */
    } run[2];
} applications[APPLICATIONS] = {
    {"MILC",
     "8^4 sites per rank, 3 complex numbers each; two exchanges per iteration, then global sums",
     "left is the processor's part, o per send and receive and a look at each event",
     4,
     false,
     false,
     2,
     2,
     0.5,
     8 * 8 * 8 * 48,
     {{64, 0.055, 5743212}}},
    {"POP",
     "40 x 48 points per rank, 2 deep; global sums after each exchange",
     "a copy of 768 B is all that a card saves; the traces' sizes are not published",
     2,
     true,
     false,
     1,
     1,
     0,
     48 * 2 * 8,
     {{64, 0.031, 772063149}}},
    {"coMD",
     "4,000 atoms per rank, faces of 49 boxes, 12 atoms of 56 B in each; a global sum per ten "
     "exchanges",
     "it waits at once for what it has sent, so a card has nothing to do meanwhile",
     3,
     false,
     true,
     10,
     1 << 9,
     0,
     7 * 7 * 12 * 56,
     {{72, 0.061, 5337575}, {360, 0.065, 0}}},
    {"Cloverleaf",
     "960 x 960 cells, 8 fields, 2 deep; six exchanges per step, sums after the second and third",
     "it waits at once for what it has sent, and eager messages save a copy only",
     2,
     false,
     true,
     6,
     1 << 1 | 1 << 2,
     0,
     113 * 2 * 8 * 8,
     {{72, 0.052, 2677705}, {360, 0.056, 0}}},
};

struct result {
    struct halo_result of[VARIANTS];
};

static double share(const struct result *r, int variant) {
    return 100 * (double)r->of[variant].spent_ps / (double)r->of[variant].time_ps;
}

/* Of the time, per exchange: without a period fewer may have been simulated by one variant. */
static double gain(const struct result *r) {
    double time[VARIANTS];
    for (int v = 0; v < VARIANTS; v++) {
        const struct rounds_result *n = &r->of[v].rounds;
        time[v] = (double)r->of[v].time_ps / (double)(n->simulated + n->repeated);
    }
    return 100 * (1 - time[2] / time[0]);
}

/* How long it computes follows from the share that communication has with RDMA; the rest of the
 * time ranks wait for each other at global sums. */
static int run(const struct experiment_context *context, struct halo *h, double share,
               struct result *r, struct spin_error *err) {
    int code = SPIN_OK;
    h->compute_ps = 100000000;
    h->variant = variants[0];
    for (int fits = 0; fits < FITS && !code; fits++) {
        code = halo_run(context, h, &r->of[0], NULL, err);
        const struct halo_result *of = &r->of[0];
        double exchanges = (double)(of->rounds.simulated + of->rounds.repeated);
        double missing = (double)of->spent_ps / share - (double)of->time_ps;
        double compute = (double)h->compute_ps + missing / h->ranks / exchanges;
        h->compute_ps = compute > 0 ? (uint64_t)compute : 0;
    }
    for (int v = 0; v < VARIANTS && !code; v++) {
        h->variant = variants[v];
        code = halo_run(context, h, &r->of[v], NULL, err);
    }
    return code;
}

/* ---- Published ---- */

static const struct {
    int application, run;
    double share, gain; /* gain NAN: not said */
} published[] = {
    {0, 0, 1.9, 3.6}, {1, 0, 2.4, 0.7}, {2, 0, 2.4, 3.7},
    {2, 1, 2.8, NAN}, {3, 0, 2.4, 2.8}, {3, 1, 3.2, NAN},
};

static void claims(struct sheet *s, int a, uint32_t ranks, const struct result of[STRUCTURES]) {
    const struct application *x = &applications[a];
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        if (published[i].application != a || x->run[published[i].run].ranks != ranks)
            continue;
        struct sheet_claim *c =
            sheet_claim(s, "A13", "%", share(&of[AS_WRITTEN], 2), published[i].share,
                        "%s, %u ranks: communication", x->name, ranks);
        sheet_because(c,
                      "%s; %.1f %% with half of the computing between sends and wait, %.1f uneven",
                      x->differs, share(&of[OVERLAPPED], 2), share(&of[UNEVEN], 2));
        if (isnan(published[i].gain))
            continue;
        c = sheet_claim(s, "A13", "%", gain(&of[AS_WRITTEN]), published[i].gain,
                        "%s, %u ranks: gain", x->name, ranks);
        sheet_because(c, "%s; %.1f and %.1f %% likewise", x->differs, gain(&of[OVERLAPPED]),
                      gain(&of[UNEVEN]));
    }
}

/* ---- The tables ---- */

static struct sheet_panel *new_panel(struct sheet *s, const char *name, const char *title) {
    struct sheet_panel *p = sheet_panel(s, name, title);
    p->by_name = true;
    sheet_column(p, "", 0, "application");
    sheet_column(p, "", 0, "ranks");
    sheet_column(p, "B", 0, "message");
    sheet_column(p, "", 0, "exchanges");
    for (int v = 0; v < VARIANTS; v++)
        sheet_column(p, "%", 2, "%s", variants[v]);
    sheet_column(p, "%", 2, "gain of spin");
    return p;
}

static void add_row(struct sheet *s, struct sheet_panel *p, const struct application *x,
                    const struct halo *h, const struct result *r) {
    struct sheet_row *row = sheet_row(s, p, x->name);
    const struct rounds_result *n = &r->of[VARIANTS - 1].rounds;
    row->value[1] = h->ranks;
    row->value[2] = (double)h->bytes;
    row->value[3] = (double)(n->simulated + n->repeated);
    for (int v = 0; v < VARIANTS; v++)
        row->value[4 + v] = share(r, v);
    row->value[4 + VARIANTS] = gain(r);
}

static struct sheet_panel *new_counts(struct sheet *s) {
    static const char *const of[STRUCTURES] = {"as written", "half between", "uneven"};
    struct sheet_panel *p =
        sheet_panel(s, "messages", "Messages of all ranks: simulated one by one, and repeated");
    p->by_name = true;
    sheet_column(p, "", 0, "application");
    sheet_column(p, "", 0, "published");
    sheet_column(p, "", 0, "of the run");
    for (int k = 0; k < STRUCTURES; k++) {
        sheet_column(p, "", 0, "simulated, %s", of[k]);
        sheet_column(p, "", 0, "repeated");
        sheet_column(p, "exchanges", 0, "period");
    }
    return p;
}

/* False: there is a world without a period, of which only some exchanges were simulated. */
static bool add_counts(struct sheet *s, struct sheet_panel *p, const struct application *x,
                       const struct halo *h, uint64_t messages, const struct result r[STRUCTURES]) {
    uint64_t each = (uint64_t)h->ranks * halo_neighbours(h);
    bool all = true;
    for (int v = 0; v < VARIANTS; v++) {
        char label[32];
        snprintf(label, sizeof label, "%s, %s", x->name, variants[v]);
        struct sheet_row *row = sheet_row(s, p, label);
        if (messages)
            row->value[1] = (double)messages;
        row->value[2] = (double)(h->exchanges * each);
        for (int k = 0; k < STRUCTURES; k++) {
            const struct rounds_result *n = &r[k].of[v].rounds;
            row->value[3 + 3 * k] = (double)(n->simulated * each);
            row->value[4 + 3 * k] = (double)(n->repeated * each);
            if (n->period)
                row->value[5 + 3 * k] = (double)n->period;
            all &= n->simulated + n->repeated == h->exchanges;
        }
    }
    return all;
}

/* In which all ranks together send the published number of messages, but for the last few, which
 * are less than an exchange. Of the larger runs no number was published: as many as of the smaller
 * ones. */
static uint64_t exchanges_of(const struct application *x) {
    const struct halo as = {.dimensions = x->dimensions, .corners = x->corners};
    return x->run[0].messages / x->run[0].ranks / halo_neighbours(&as);
}

int sc17_table5c(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    const struct experiment_setup *setup = &context->setup;
    struct sheet_panel *panel[STRUCTURES] = {
        new_panel(s, "written", "Share of time in communication, as the codes are written"),
        new_panel(s, "overlapped", "Half of the computing between sends and wait"),
        new_panel(s, "uneven", "The same, and computing varies by 1 %")};
    struct sheet_panel *counts = new_counts(s);
    if (setup->ranks == 1)
        return spin_fail(err, SPIN_EARG, "--ranks 1: neighbours need two");
    int code = SPIN_OK;
    for (int a = 0; a < APPLICATIONS && !code; a++) {
        const struct application *x = &applications[a];
        int row = x->run[1].ranks && setup->ranks == x->run[1].ranks;
        uint64_t all = exchanges_of(x), wanted = setup->exchanges;
        struct halo h = {.dimensions = x->dimensions,
                         .corners = x->corners,
                         .by_dimension = x->by_dimension,
                         .steps = x->steps,
                         .sums = x->sums,
                         .bytes = setup->bytes ? setup->bytes : x->bytes,
                         .ranks = setup->ranks ? setup->ranks : x->run[0].ranks,
                         .exchanges = wanted && wanted < all ? wanted : all,
                         .search = wanted ? 0 : SEARCH};
        bool as_published = h.ranks == x->run[row].ranks;
        struct result r[STRUCTURES];
        for (int k = 0; k < STRUCTURES && !code; k++) {
            h.between = k == AS_WRITTEN ? x->between : 0.5;
            h.uneven = k == UNEVEN ? uneven : 0;
            if (k == OVERLAPPED && h.between == x->between)
                r[k] = r[AS_WRITTEN];
            else
                code = run(context, &h, x->run[row].share, &r[k], err);
            if (!code)
                add_row(s, panel[k], x, &h, &r[k]);
        }
        if (!code && !add_counts(s, counts, x, &h, as_published ? x->run[row].messages : 0, r))
            sheet_note(s, "%s has no period within %d exchanges; shares are of those.", x->name,
                       SEARCH);
        if (!code && as_published && !setup->bytes)
            claims(s, a, h.ranks, r);
    }
    if (code)
        return code;
    sheet_note(s, "Inputs: ranks, messages and the share with RDMA (SC'17); sizes and structure of "
                  "the public codes. Repeated exchanges are exact (docs/experiments.md); "
                  "--exchanges N simulates N one by one.");
    for (int a = 0; a < APPLICATIONS; a++)
        sheet_note(s, "%s: %s.", applications[a].name, applications[a].why);
    return SPIN_OK;
}
