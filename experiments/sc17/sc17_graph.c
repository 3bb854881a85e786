/* SC'17 section 5.4: searches on a distributed Kronecker graph, with updates applied by the owners'
 * cards and by their processors. The paper has no figure of it. */
#include "figures.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "spinlib/graph.h"

enum { CARDS = 2, SEARCHES = 2, VARIANTS = 2, RANKS = 16, SCALE = 11 };
enum { RANK_STEPS = 6, FIRST_SCALE = 7, SCALES = 6 }; /* 1 to 32 ranks; scale 7 to 12 */

/* A graph, and what one processor finds in it. */
struct scene {
    struct spin_graph_options options;
    struct spin_edge *edges;
    uint32_t root, *expected[SEARCHES];
    struct spin_graph_result result[SEARCHES];
};

static void free_graph(struct scene *s) {
    free(s->edges);
    for (int i = 0; i < SEARCHES; i++)
        free(s->expected[i]);
}

static int make_graph(const struct experiment_context *context, uint32_t scale, struct scene *s,
                      struct spin_error *err) {
    const struct spin_kronecker k = {.scale = scale, .seed = 1};
    uint32_t vertices = 1u << scale;
    uint64_t count = spin_kronecker_count(&k);
    *s = (struct scene){.edges = malloc(count * sizeof *s->edges)};
    for (int i = 0; i < SEARCHES; i++)
        s->expected[i] = malloc(vertices * sizeof *s->expected[i]);
    if (!s->edges || !s->expected[0] || !s->expected[1])
        return spin_fail(err, SPIN_ENOMEM, "no memory for a graph of %u vertices", vertices);
    spin_kronecker_edges(&k, 0, count, s->edges);
    s->root = s->edges[0].from;
    s->options = (struct spin_graph_options){.vertices = vertices,
                                             .edges = s->edges,
                                             .edge_count = count,
                                             .batch_bytes = (uint32_t)context->setup.bytes};
    if (spin_graph_bfs_alone(vertices, s->edges, count, s->root, s->expected[0]) != PTL_OK ||
        spin_graph_sssp_alone(vertices, s->edges, count, s->root, s->expected[1]) != PTL_OK)
        return spin_fail(err, SPIN_ENOMEM, "no memory for a search");
    return SPIN_OK;
}

static int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spin_graph *g;
    if (spin_job_open(&job) != PTL_OK || spin_graph_open(job.ni, &s->options, &g) != PTL_OK)
        return 1;
    spin_barrier();
    for (int i = 0; i < SEARCHES; i++) {
        struct spin_graph_result r;
        if ((i ? spin_graph_sssp : spin_graph_bfs)(g, s->root, &r) != PTL_OK)
            return 2;
        for (uint32_t v = job.rank; v < s->options.vertices; v += job.ranks)
            if (spin_graph_values(g)[v / job.ranks] != s->expected[i][v])
                return 3;
        s->result[i] = r;
    }
    spin_barrier();
    spin_graph_close(g);
    spin_job_close(&job);
    return 0;
}

static void add_columns(struct sheet_panel *p, const char *first) {
    p->log_y = true;
    sheet_column(p, "", 0, "%s", first);
    for (int i = 0; i < SEARCHES; i++)
        for (int c = 0; c < CARDS; c++)
            for (int v = 0; v < VARIANTS; v++)
                sheet_column(p, "MTEPS", 0, "%s, %s, %s", i ? "SSSP" : "BFS", v ? "sPIN" : "host",
                             c ? "PsPIN" : "SC'17");
}

/* Both searches on both cards, by both. */
static int add_row(const struct experiment_context *context, struct sheet *s, struct sheet_panel *p,
                   uint32_t ranks, double first, struct scene *scene, struct spin_error *err) {
    static const char *const cards[CARDS] = {"card=sc17", "card=pspin"};
    struct sheet_row *row = sheet_row(s, p, NULL);
    row->value[0] = first;
    for (int c = 0; c < CARDS; c++)
        for (int v = 0; v < VARIANTS; v++) {
            const struct spin_world_options base = {
                .ranks = ranks, .set = &cards[c], .set_count = 1};
            scene->options.by_host = v == 0;
            int code = experiment_ranks(context, "graph_handler", &base, rank, scene, err);
            if (code)
                return code;
            for (int i = 0; i < SEARCHES; i++)
                row->value[1 + 4 * i + 2 * c + v] =
                    (double)scene->result[i].edges / ((double)scene->result[i].time_ps / 1e6);
        }
    return SPIN_OK;
}

static int over_ranks(const struct experiment_context *context, struct sheet *s,
                      struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, "ranks", "Traversed edges, scale 11, over ranks");
    struct scene scene;
    add_columns(p, "ranks");
    p->log_x = true;
    int code = make_graph(context, SCALE, &scene, err);
    uint32_t asked = context->setup.ranks;
    for (int i = 0; !code && i < (asked ? 1 : RANK_STEPS); i++) {
        uint32_t ranks = asked ? asked : 1u << i;
        code = add_row(context, s, p, ranks, ranks, &scene, err);
    }
    const struct spin_graph_result *r = scene.result;
    if (!code && !experiment_one_row(context))
        sheet_note(s,
                   "A graph of scale 11 has %u vertices and %u edges; %u are reached. Of %.0f "
                   "thousand updates %.1f %% change a vertex (BFS), of %.0f thousand %.1f %% "
                   "(SSSP): only these reach a processor behind a card with handlers.",
                   1u << SCALE, 16u << SCALE, (unsigned)r[0].reached, (double)r[0].updates / 1e3,
                   100 * (double)r[0].changes / (double)r[0].updates, (double)r[1].updates / 1e3,
                   100 * (double)r[1].changes / (double)r[1].updates);
    free_graph(&scene);
    return code;
}

static int over_scale(const struct experiment_context *context, struct sheet *s,
                      struct spin_error *err) {
    char title[60];
    uint32_t ranks = context->setup.ranks ? context->setup.ranks : RANKS;
    snprintf(title, sizeof title, "Traversed edges, %u ranks, over scale", ranks);
    struct sheet_panel *p = sheet_panel(s, "scale", title);
    int code = SPIN_OK;
    add_columns(p, "scale");
    for (uint32_t scale = FIRST_SCALE; !code && scale < FIRST_SCALE + SCALES; scale++) {
        struct scene scene;
        code = make_graph(context, scale, &scene, err);
        if (!code)
            code = add_row(context, s, p, ranks, scale, &scene, err);
        free_graph(&scene);
    }
    return code;
}

int sc17_graph(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    if (context->setup.bytes && (context->setup.bytes < 12 || context->setup.bytes > 4096))
        return spin_fail(err, SPIN_EARG, "--bytes: a batch of updates has 12 to 4,096");
    int code = over_ranks(context, s, err);
    if (!code)
        code = over_scale(context, s, err);
    if (code || experiment_one_row(context))
        return code;
    const struct sheet_panel *p = &s->panel[1];
    const double *last = p->row[p->rows - 1].value;
    sheet_note(s, "Kronecker graphs as Graph500 has them, edge factor 16, one root, weights 1 to "
                  "65,535, buckets of 8,192; TEPS is Graph500's: edges of the component over time. "
                  "Every result is the one of a sequential search.");
    sheet_note(s, "'host': updates land in memory and one core applies them, 10 cycles and a cache "
                  "line each. Either way it expands vertices, 6 cycles per edge.");
    sheet_note(s,
               "At scale 12 the cards are %.1f (BFS) and %.1f (SSSP) times as fast as the "
               "processors (SC'17's card); %.1f and %.1f times (PsPIN).",
               last[2] / last[1], last[6] / last[5], last[4] / last[3], last[8] / last[7]);
    return SPIN_OK;
}
