/* Collectives of spinlib: every algorithm by processors (RDMA), by triggered operations (Portals 4)
 * and by handlers (sPIN). Of these the paper has the broadcast on a binomial tree (figure 5a), and
 * leaves others to future work (section 4.4.3). */
#include "figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "spinlib/coll.h"

enum { RANKS = 8, SIZES = 3, VARIANTS = 3, WAYS = 32 };
static const uint32_t sizes[SIZES] = {8, 4096, 65536};
static const char *const variant_names[VARIANTS] = {"RDMA", "Portals 4", "sPIN"};

struct scene {
    uint32_t sizes;
    uint64_t bytes[SIZES];
    uint64_t start_ps[WAYS][SIZES][VARIANTS], end_ps[WAYS][SIZES][VARIANTS];
    bool impossible[WAYS][VARIANTS];
};

static bool has_size(const struct spin_coll_way *way) {
    return strcmp(way->collective, "barrier") != 0;
}

static bool has_blocks(const struct spin_coll_way *way) {
    return strcmp(way->collective, "allgather") == 0 || strcmp(way->collective, "alltoall") == 0;
}

/* One collective, which all ranks begin at the same time. */
static int measure(struct spin_coll *c, struct scene *s, int way, uint32_t z, int v) {
    const struct spin_coll_way *w = &spin_coll_ways()[way];
    uint64_t bytes = has_size(w) ? s->bytes[z] : 0,
             all = bytes * (has_blocks(w) ? spin_ranks() : 1);
    uint8_t *in = calloc(1, all + 8), *out = calloc(1, all + 8);
    bool reduces = strcmp(w->collective, "reduce") == 0 || strcmp(w->collective, "allreduce") == 0;
    const struct spin_coll_call call = {.collective = w->collective,
                                        .how = {w->algorithm, spin_coll_variants()[v]},
                                        .in = in,
                                        .out = out,
                                        .count = reduces ? bytes / 8 : bytes,
                                        .type = PTL_INT64_T,
                                        .operation = PTL_SUM};
    struct spin_coll_request *request;
    int code = in && out ? spin_coll_barrier(c, NULL) : PTL_NO_SPACE;
    spin_barrier();
    s->start_ps[way][z][v] = spin_now_ps();
    if (code == PTL_OK)
        code = spin_coll_start(c, &call, &request);
    if (code == PTL_ARG_INVALID) { /* too many ranks for it: every rank is told so */
        s->impossible[way][v] = true;
        code = PTL_OK;
    } else if (code == PTL_OK) {
        code = spin_coll_wait(c, request);
        if (spin_now_ps() > s->end_ps[way][z][v])
            s->end_ps[way][z][v] = spin_now_ps();
    }
    spin_barrier();
    free(in);
    free(out);
    return code == PTL_OK ? 0 : 2;
}

static int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spin_coll *c;
    int status = 0;
    if (spin_job_open(&job) != PTL_OK || spin_coll_open(job.ni, PTL_PT_ANY, 0, &c) != PTL_OK)
        return 1;
    for (int way = 0; spin_coll_ways()[way].collective && !status; way++)
        for (uint32_t z = 0; z < (has_size(&spin_coll_ways()[way]) ? s->sizes : 1); z++)
            for (int v = 0; v < VARIANTS && !status; v++)
                status = measure(c, s, way, z, v);
    spin_barrier();
    spin_coll_close(c);
    spin_job_close(&job);
    return status;
}

static double us_of(const struct scene *s, int way, uint32_t z, int v) {
    if (s->impossible[way][v])
        return NAN;
    return (double)(s->end_ps[way][z][v] - s->start_ps[way][z][v]) / 1e6;
}

static void tabulate(struct sheet *s, struct sheet_panel *p, const struct scene *scene) {
    p->by_name = p->log_y = true;
    sheet_column(p, "", 0, "collective");
    for (uint32_t z = 0; z < scene->sizes; z++)
        for (int v = 0; v < VARIANTS; v++)
            sheet_column(p, "us", 2, "%s %llu B", variant_names[v],
                         (unsigned long long)scene->bytes[z]);
    for (int way = 0; spin_coll_ways()[way].collective; way++) {
        const struct spin_coll_way *w = &spin_coll_ways()[way];
        char label[32];
        snprintf(label, sizeof label, "%s %s", w->collective, w->algorithm);
        struct sheet_row *row = sheet_row(s, p, label);
        for (uint32_t z = 0; z < (has_size(w) ? scene->sizes : 1); z++)
            for (int v = 0; v < VARIANTS; v++)
                row->value[1 + z * VARIANTS + (uint32_t)v] = us_of(scene, way, z, v);
    }
}

static int panel(const struct experiment_context *context, struct sheet *s, const char *card,
                 const char *title, struct scene *scene, struct spin_error *err) {
    uint32_t ranks = context->setup.ranks ? context->setup.ranks : RANKS;
    char set[24], text[100];
    const char *const sets[] = {set};
    snprintf(set, sizeof set, "card=%s", card);
    snprintf(text, sizeof text, "Collectives of %u ranks, %s", ranks, title);
    const struct spin_world_options base = {.ranks = ranks, .set = sets, .set_count = 1};
    struct sheet_panel *p = sheet_panel(s, card, text);
    memset(scene->end_ps, 0, sizeof scene->end_ps);
    int code = experiment_ranks(context, "coll_handler", &base, rank, scene, err);
    if (!code)
        tabulate(s, p, scene);
    return code;
}

int sc17_collectives(const struct experiment_context *context, struct sheet *s,
                     struct spin_error *err) {
    const struct experiment_setup *setup = &context->setup;
    if (setup->ranks == 1)
        return spin_fail(err, SPIN_EARG, "--ranks 1: a collective needs two");
    if (setup->bytes % 8)
        return spin_fail(err, SPIN_EARG, "--bytes: a size is a multiple of 8");
    struct scene *scene = calloc(1, sizeof *scene);
    if (!scene)
        return spin_fail(err, SPIN_ENOMEM, "no memory for the times");
    scene->sizes = setup->bytes ? 1 : SIZES;
    for (uint32_t z = 0; z < scene->sizes; z++)
        scene->bytes[z] = setup->bytes ? setup->bytes : sizes[z];
    bool other = setup->card && strcmp(setup->card, "sc17") != 0;
    int code = SPIN_OK;
    if (!other)
        code = panel(context, s, "sc17", "SC'17's card", scene, err);
    if (!code && (other || !setup->card))
        code = panel(context, s, "pspin", "PsPIN", scene, err);
    free(scene);
    sheet_note(s, "From when all ranks call it at the same time until the last has its result in "
                  "its own buffer. Allgather and alltoall: bytes from each rank to each; "
                  "reductions are sums of 64-bit integers.");
    sheet_note(s, "A barrier has no size. Portals 4's triggered atomic operations combine 512 B "
                  "at a time; a vector goes in parts of 64 KiB (those of Portals 4's reductions: "
                  "8 KiB).");
    return code;
}
