/* Searches a Kronecker graph that is distributed over the ranks: levels (breadth-first search) and
 * shortest paths, by the cards and by the processors, each compared with what one processor finds.
 * Arguments: scale (2^scale vertices, 12) and number of roots (2).
 *     cc graph_example.c -o graph $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 4 ./graph
 *     openspin sim run -n 4 ./graph */
#include <spinlib/graph.h>
#include <stdio.h>
#include <stdlib.h>

struct setting {
    struct spin_job job;
    struct spin_kronecker kronecker;
    uint32_t vertices, roots;
    uint64_t count;
    struct spin_edge *edges;
    uint32_t *expected;
};

/* Whether this rank's vertices have the levels or distances that they should have. */
static int compare(const struct setting *s, const uint32_t *values) {
    for (uint32_t v = s->job.rank; v < s->vertices; v += s->job.ranks)
        if (values[v / s->job.ranks] != s->expected[v])
            return 1;
    return 0;
}

/* All roots; prints the harmonic mean of the rates, as Graph500 does. */
static int run(struct setting *s, bool by_host, bool weighted) {
    const struct spin_graph_options o = {
        .vertices = s->vertices, .edges = s->edges, .edge_count = s->count, .by_host = by_host};
    struct spin_graph_result r;
    struct spin_graph *graph;
    double us_per_edge = 0;
    int code = spin_graph_open(s->job.ni, &o, &graph), wrong = 0;
    spin_barrier(); /* all ranks are there */
    for (uint32_t i = 0; code == PTL_OK && i < s->roots; i++) {
        uint32_t root = s->edges[i].from;
        code = weighted ? spin_graph_sssp(graph, root, &r) : spin_graph_bfs(graph, root, &r);
        if (code != PTL_OK)
            break;
        (weighted ? spin_graph_sssp_alone : spin_graph_bfs_alone)(s->vertices, s->edges, s->count,
                                                                  root, s->expected);
        wrong |= compare(s, spin_graph_values(graph));
        us_per_edge += (double)r.time_ps / 1e6 / (double)r.edges / s->roots;
    }
    if (code != PTL_OK)
        printf("rank %u: %s %s\n", s->job.rank, PtlToStr(code, PTL_STR_ERROR), PtlImageError());
    else if (wrong)
        printf("rank %u: wrong\n", s->job.rank);
    else if (s->job.rank == 0)
        printf("%s by the %s: %u vertices, right; %.2f million traversed edges per second\n",
               weighted ? "shortest paths" : "levels", by_host ? "processors" : "cards",
               (unsigned)r.reached, 1 / us_per_edge);
    spin_barrier();
    spin_graph_close(graph);
    return code != PTL_OK || wrong;
}

int main(int argc, char **argv) {
    struct setting s = {.kronecker = {.scale = argc > 1 ? (uint32_t)atoi(argv[1]) : 12, .seed = 1},
                        .roots = argc > 2 ? (uint32_t)atoi(argv[2]) : 2};
    int status = 0;
    if (spin_job_open(&s.job) != PTL_OK)
        return 2;
    if (s.kronecker.scale > 24 || s.roots < 1 || s.roots > 64) {
        fprintf(stderr, "a scale up to 24, 1 to 64 roots\n");
        return 2;
    }
    s.vertices = 1u << s.kronecker.scale;
    s.count = spin_kronecker_count(&s.kronecker);
    s.edges = malloc(s.count * sizeof *s.edges);
    s.expected = malloc(s.vertices * sizeof *s.expected);
    if (!s.edges || !s.expected)
        return 2;
    spin_kronecker_edges(&s.kronecker, 0, s.count, s.edges);
    for (int weighted = 0; weighted < 2; weighted++)
        for (int by_host = 0; by_host < 2; by_host++)
            status |= run(&s, by_host, weighted);
    spin_job_close(&s.job);
    free(s.edges);
    free(s.expected);
    return status;
}
