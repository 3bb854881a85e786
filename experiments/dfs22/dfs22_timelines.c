/* Timelines of single writes, as pictures: replicated by processors and by cards, and erasure-coded
 * (DFS'22 figures 8 and 13). */
#include "figures.h"

#include <limits.h>
#include <stdio.h>

#include "base/error.h"
#include "dfs22/dfs22_world.h"

static const struct {
    const char *name;
    struct dfs_write write;
} runs[] = {
    {"cpu-ring", {.protocol = DFS_CPU_RING, .copies = 3, .bytes = 16384, .chunk = 8192}},
    {"hyperloop", {.protocol = DFS_HYPERLOOP, .copies = 3, .bytes = 16384, .chunk = 8192}},
    {"spin-ring", {.protocol = DFS_SPIN_RING, .copies = 3, .bytes = 16384}},
    {"spin-pbt", {.protocol = DFS_SPIN_PBT, .copies = 3, .bytes = 16384}},
    {"spin-triec", {.protocol = DFS_SPIN_RS, .copies = 2, .parities = 1, .bytes = 16384}},
    {"inec-triec", {.protocol = DFS_TRIEC, .copies = 2, .parities = 1, .bytes = 16384}},
};
enum { RUNS = sizeof runs / sizeof runs[0] };

/* With pictures twice: the second time it is known when the write begins. */
static int run_one(const struct experiment_context *context, int i, struct dfs_outcome *o,
                   struct spin_error *err) {
    char trace[PATH_MAX], picture[PATH_MAX];
    struct dfs_write write = runs[i].write;
    uint32_t nodes = dfs_copies(context, write.copies + write.parities);
    write.copies = nodes - write.parities;
    write.bytes = experiment_size(context, write.bytes);
    int code = dfs_write(context, &write, o, err);
    if (code || !context->out)
        return code;
    if ((size_t)snprintf(trace, sizeof trace, "%s/dfs22-timelines-%s.json", context->out,
                         runs[i].name) >= sizeof trace)
        return spin_fail(err, SPIN_EARG, "%s: name is too long", context->out);
    snprintf(picture, sizeof picture, "%s/dfs22-timelines-%s.svg", context->out, runs[i].name);
    write.trace = trace;
    write.picture = picture;
    write.from_ps = o->start_ps;
    return dfs_write(context, &write, o, err);
}

int dfs22_timelines(const struct experiment_context *context, struct sheet *s,
                    struct spin_error *err) {
    if (context->setup.ranks && (context->setup.ranks < 3 || context->setup.ranks > 9))
        return spin_fail(err, SPIN_EARG, "--ranks %u: a client and 2 to 8 nodes",
                         context->setup.ranks);
    int checked = dfs_check_bytes(context, err);
    if (checked)
        return checked;
    struct sheet_panel *p = sheet_panel(s, "runs", "Single writes to idle nodes");
    p->by_name = true;
    sheet_column(p, "", 0, "run");
    sheet_column(p, "", 0, "nodes");
    sheet_column(p, "us", 3, "time");
    for (int i = 0; i < RUNS; i++) {
        struct dfs_outcome o;
        int code = run_one(context, i, &o, err);
        if (code)
            return code;
        struct sheet_row *row = sheet_row(s, p, runs[i].name);
        row->value[1] = dfs_copies(context, runs[i].write.copies + runs[i].write.parities);
        row->value[2] = o.us;
    }
    sheet_note(s,
               context->out
                   ? "Pictures are in the folder: dfs22-timelines-RUN.svg, and .json for Perfetto."
                   : "--out DIR writes the pictures: dfs22-timelines-RUN.svg, and .json for "
                     "Perfetto.");
    dfs_note_world(s, 400);
    return SPIN_OK;
}
