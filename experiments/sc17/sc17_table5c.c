/* SC'17 table 5c: what offloaded message matching gains for four applications. The paper replays
 * traces; here are proxies with the applications' neighbours, exchanges and messages, on cards. Of
 * the paper they take the number of ranks, of messages, and the share of time that communication
 * has without offloading, from which follows how long a proxy computes. What it is with offloading
 * is the result. */
#include "figures.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/rng.h"
#include "spinlib/p2p.h"

enum { VARIANTS = 3, APPLICATIONS = 4, DIMENSIONS = 4, NEIGHBOURS = 8 };
/* As the codes are written; with half of the computing between sends and wait; and so, uneven. */
enum { AS_WRITTEN, OVERLAPPED, UNEVEN, STRUCTURES };
enum { FIT_EXCHANGES = 32 };
enum { WARM_UP = 1, EXCHANGES = 32, FITS = 3 }; /* exchanges: if the caller says no number */
static const char *const variants[VARIANTS] = {"rdma", "portals", "spin"};
/* Uneven: computing takes a rank so much more or less from one exchange to the next. */
static const double uneven = 0.01;

/* The share and the messages are inputs of the paper; sizes and structure are those of the public
 * codes: MILC starts its gathers, works on the sites inside and waits; POP updates all eight
 * neighbours at once; coMD and Cloverleaf exchange one dimension after the other and wait for each.
 */
static const struct application {
    const char *name, *why; /* of the size */
    int dimensions;
    bool corners, by_dimension;
    double between; /* of its computing, between sends and wait */
    uint32_t bytes;
    struct {
        uint32_t ranks;
        double share;      /* of time in point-to-point communication, with RDMA */
        uint64_t messages; /* of all ranks; 0: not said */
    } run[2];
} applications[APPLICATIONS] = {
    {"MILC",
     "8^4 sites per rank, 3 complex numbers each",
     4,
     false,
     false,
     0.5,
     8 * 8 * 8 * 48,
     {{64, 0.055, 5743212}}},
    {"POP",
     "40 x 48 points per rank, 2 deep",
     2,
     true,
     false,
     0,
     48 * 2 * 8,
     {{64, 0.031, 772063149}}},
    {"coMD",
     "4,000 atoms per rank, faces of 49 boxes, 12 atoms of 56 B in each",
     3,
     false,
     true,
     0,
     7 * 7 * 12 * 56,
     {{72, 0.061, 5337575}, {360, 0.065, 0}}},
    {"Cloverleaf",
     "960 x 960 cells, 8 fields, 2 deep",
     2,
     false,
     true,
     0,
     113 * 2 * 8 * 8,
     {{72, 0.052, 2677705}, {360, 0.056, 0}}},
};

struct scene {
    const struct application *application;
    const char *variant;
    double between, jitter;
    uint64_t bytes, compute_ps; /* per exchange */
    uint32_t ranks, side[DIMENSIONS];
    uint64_t exchanges;   /* that are simulated, after the first */
    uint8_t *memory;      /* of all messages: nobody looks at them */
    double in_calls, all; /* of all ranks */
};

/* ---- The grid ---- */

/* Sides as equal as the number allows. */
static void make_grid(struct scene *s) {
    uint32_t left = s->ranks;
    int d = s->application->dimensions;
    for (int i = 0; i < d; i++) {
        uint32_t side = (uint32_t)(pow(left, 1.0 / (d - i)) + 0.5);
        while (left % side)
            side--;
        s->side[i] = side;
        left /= s->side[i];
    }
}

static uint32_t neighbour(const struct scene *s, uint32_t rank, const int step[DIMENSIONS]) {
    uint32_t to = 0, scale = 1;
    for (int i = 0; i < s->application->dimensions; i++) {
        uint32_t side = s->side[i], at = rank % side;
        rank /= side;
        to += (uint32_t)((int)(at + side) + step[i]) % side * scale;
        scale *= side;
    }
    return to;
}

struct link {
    uint32_t rank, tag, back; /* the tag of what goes there, and of what comes from there */
};

/* In pairs, one dimension after the other, then the corners. */
static int find_neighbours(const struct scene *s, uint32_t rank, struct link link[NEIGHBOURS]) {
    static const int corner[4][DIMENSIONS] = {{1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
    int n = 0;
    for (int i = 0; i < s->application->dimensions; i++)
        for (int sign = 1; sign >= -1; sign -= 2) {
            int step[DIMENSIONS] = {0};
            step[i] = sign;
            link[n++].rank = neighbour(s, rank, step);
        }
    for (int i = 0; i < 4 && s->application->corners; i++)
        link[n++].rank = neighbour(s, rank, corner[i]);
    for (int i = 0; i < n; i++) {
        link[i].tag = (uint32_t)i;
        link[i].back = (uint32_t)i ^ 1;
    }
    return n;
}

/* ---- A rank ---- */

static int exchange(struct spin_p2p *p2p, const struct scene *s, const struct link *link, int n,
                    uint64_t between_ps, double *in_calls) {
    struct spin_p2p_request *r[2 * NEIGHBOURS];
    uint64_t start = spin_now_ps();
    int code = PTL_OK;
    for (int i = 0; i < n && code == PTL_OK; i++)
        code = spin_p2p_irecv(p2p, s->memory, s->bytes, link[i].rank, link[i].back, 0, &r[i]);
    for (int i = 0; i < n && code == PTL_OK; i++)
        code = spin_p2p_isend(p2p, s->memory + s->bytes, s->bytes, link[i].rank, link[i].tag, 0,
                              &r[n + i]);
    *in_calls += (double)(spin_now_ps() - start);
    spin_compute_ps(between_ps);
    start = spin_now_ps();
    if (code == PTL_OK)
        code = spin_p2p_waitall(p2p, 2 * (uint32_t)n, r, NULL);
    *in_calls += (double)(spin_now_ps() - start);
    return code;
}

static int step(struct spin_p2p *p2p, const struct scene *s, const struct link *link, int n,
                struct rng *random, double *in_calls) {
    double u = (double)rng_below(random, 1 << 20) / (1 << 20);
    double compute = (double)s->compute_ps * (1 + s->jitter * (2 * u - 1));
    int phases = s->application->by_dimension ? s->application->dimensions : 1, code = PTL_OK;
    uint64_t between = (uint64_t)(compute * s->between / phases);
    for (int i = 0; i < phases && code == PTL_OK; i++)
        code = exchange(p2p, s, link + i * n / phases, n / phases, between, in_calls);
    spin_compute_ps((uint64_t)(compute * (1 - s->between)));
    return code;
}

static int rank(void *argument) {
    struct scene *s = argument;
    const struct spin_p2p_options o = {.variant = s->variant};
    struct spin_job job;
    struct spin_p2p *p2p;
    struct link link[NEIGHBOURS];
    double in_calls = 0;
    if (spin_job_open(&job) != PTL_OK || spin_p2p_open(job.ni, &o, &p2p) != PTL_OK)
        return 1;
    struct rng random = rng_seeded(job.rank);
    int n = find_neighbours(s, job.rank, link), code = PTL_OK;
    spin_barrier();
    uint64_t start = 0;
    for (uint64_t i = 0; i < WARM_UP + s->exchanges && code == PTL_OK; i++) {
        if (i == WARM_UP) {
            start = spin_now_ps();
            in_calls = 0;
        }
        code = step(p2p, s, link, n, &random, &in_calls);
    }
    s->in_calls += in_calls;
    s->all += (double)(spin_now_ps() - start);
    spin_barrier();
    spin_p2p_close(p2p);
    spin_job_close(&job);
    return code != PTL_OK;
}

/* ---- The table ---- */

static int measure(const struct experiment_context *context, struct scene *s, const char *variant,
                   uint64_t exchanges, struct spin_error *err) {
    const struct spin_world_options base = {.ranks = s->ranks};
    s->variant = variant;
    s->exchanges = exchanges;
    s->in_calls = s->all = 0;
    return experiment_ranks(context, "p2p_handler", &base, rank, s, err);
}

struct result {
    double share[VARIANTS], time[VARIANTS]; /* per exchange */
};

/* How long it computes follows from the share that communication has with RDMA; a few exchanges say
 * so. */
static int run(const struct experiment_context *context, struct scene *s, double share,
               uint64_t exchanges, struct result *r, struct spin_error *err) {
    int code = SPIN_OK;
    s->compute_ps = 100000000;
    for (int fits = 1; fits < FITS && !code; fits++) {
        uint64_t few = exchanges < FIT_EXCHANGES ? exchanges : FIT_EXCHANGES;
        code = measure(context, s, variants[0], few, err);
        s->compute_ps = (uint64_t)(s->in_calls / s->ranks / (double)few * (1 / share - 1));
    }
    for (int v = 0; v < VARIANTS && !code; v++) {
        code = measure(context, s, variants[v], exchanges, err);
        r->share[v] = 100 * s->in_calls / s->all;
        r->time[v] = s->all / s->ranks / (double)exchanges;
    }
    return code;
}

static double gain(const struct result *r) {
    return 100 * (1 - r->time[2] / r->time[0]);
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
            sheet_claim(s, "A13", "%", of[AS_WRITTEN].share[2], published[i].share,
                        "%s, %u ranks: communication", x->name, ranks);
        sheet_because(c,
                      "%.1f %% if half of the computing were between sends and wait, %.1f uneven",
                      of[OVERLAPPED].share[2], of[UNEVEN].share[2]);
        if (!isnan(published[i].gain))
            sheet_because(sheet_claim(s, "A13", "%", gain(&of[AS_WRITTEN]), published[i].gain,
                                      "%s, %u ranks: gain", x->name, ranks),
                          "%.1f and %.1f %% likewise", gain(&of[OVERLAPPED]), gain(&of[UNEVEN]));
    }
}

static struct sheet_panel *new_panel(struct sheet *s, const char *name, const char *title) {
    struct sheet_panel *p = sheet_panel(s, name, title);
    p->by_name = true;
    sheet_column(p, "", 0, "application");
    sheet_column(p, "", 0, "ranks");
    sheet_column(p, "B", 0, "message");
    sheet_column(p, "", 0, "messages per rank");
    sheet_column(p, "", 0, "exchanges");
    sheet_column(p, "", 0, "simulated");
    for (int v = 0; v < VARIANTS; v++)
        sheet_column(p, "%", 2, "%s", variants[v]);
    sheet_column(p, "%", 2, "gain of spin");
    return p;
}

/* In which all ranks send so many messages. */
static uint64_t exchanges_of(const struct scene *scene, uint64_t messages) {
    struct link link[NEIGHBOURS];
    return messages / scene->ranks / (uint64_t)find_neighbours(scene, 0, link);
}

/* As many as the caller wants, and not more than were published. */
static uint64_t exchanges_to_run(const struct experiment_context *context,
                                 const struct scene *scene, uint64_t messages) {
    uint64_t wanted = context->setup.exchanges ? context->setup.exchanges : EXCHANGES;
    uint64_t all = messages ? exchanges_of(scene, messages) : wanted;
    return wanted < all ? wanted : all;
}

static void add_row(struct sheet *s, struct sheet_panel *p, const struct scene *scene,
                    uint64_t messages, const struct result *r) {
    struct sheet_row *row = sheet_row(s, p, scene->application->name);
    row->value[1] = scene->ranks;
    row->value[2] = (double)scene->bytes;
    if (messages) {
        row->value[3] = (double)(messages / scene->ranks);
        row->value[4] = (double)exchanges_of(scene, messages);
    }
    row->value[5] = (double)scene->exchanges;
    for (int v = 0; v < VARIANTS; v++)
        row->value[6 + v] = r->share[v];
    row->value[9] = gain(r);
}

int sc17_table5c(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    const struct experiment_setup *setup = &context->setup;
    struct sheet_panel *panel[STRUCTURES] = {
        new_panel(s, "written", "Share of time in communication, as the codes are written"),
        new_panel(s, "overlapped", "Half of the computing between sends and wait"),
        new_panel(s, "uneven", "The same, and computing varies by 1 %")};
    uint64_t most = setup->bytes ? setup->bytes : 1 << 20;
    if (setup->ranks == 1)
        return spin_fail(err, SPIN_EARG, "--ranks 1: neighbours need two");
    uint8_t *memory = calloc(2, most);
    int code = memory ? SPIN_OK : spin_fail(err, SPIN_ENOMEM, "no memory for the messages");
    for (int a = 0; a < APPLICATIONS && !code; a++) {
        const struct application *x = &applications[a];
        int row = x->run[1].ranks && setup->ranks == x->run[1].ranks;
        struct scene scene = {.application = x,
                              .bytes = setup->bytes ? setup->bytes : x->bytes,
                              .ranks = setup->ranks ? setup->ranks : x->run[0].ranks,
                              .memory = memory};
        bool as_published = scene.ranks == x->run[row].ranks;
        uint64_t messages = as_published ? x->run[row].messages : 0;
        struct result r[STRUCTURES];
        make_grid(&scene);
        uint64_t exchanges = exchanges_to_run(context, &scene, messages);
        for (int k = 0; k < STRUCTURES && !code; k++) {
            scene.between = k == AS_WRITTEN ? x->between : 0.5;
            scene.jitter = k == UNEVEN ? uneven : 0;
            if (k == OVERLAPPED && scene.between == x->between)
                r[k] = r[AS_WRITTEN];
            else
                code = run(context, &scene, x->run[row].share, exchanges, &r[k], err);
            if (!code)
                add_row(s, panel[k], &scene, messages, &r[k]);
        }
        if (!code && as_published && !setup->bytes)
            claims(s, a, scene.ranks, r);
    }
    free(memory);
    if (code)
        return code;
    sheet_note(s, "Inputs: ranks, messages and the share with RDMA (SC'17); sizes and structure of "
                  "the public codes. --exchanges N simulates more or fewer, up to all that were "
                  "published.");
    for (int a = 0; a < APPLICATIONS; a++)
        sheet_note(s, "%s: %s.", applications[a].name, applications[a].why);
    return SPIN_OK;
}
