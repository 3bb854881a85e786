/* SC'17 section 5.4: fault-tolerant broadcast on a binomial graph, forwarded by the processors and
 * by the cards. The paper has no figure of it. */
#include "figures.h"

#include <stdlib.h>

#include "base/error.h"
#include "spinlib/ftb.h"

enum { STEPS = 6, SIZES = 2, CARDS = 2 }; /* 2 to 64 ranks */
static const uint32_t sizes[SIZES] = {8, 65536};

struct scene {
    uint64_t bytes;
    const void *data;
    bool by_host;
    uint64_t start_ps, end_ps;
};

static int rank(void *argument) {
    struct scene *s = argument;
    const struct spin_ftb_options o = {.most_bytes = s->bytes, .by_host = s->by_host, .ahead = 1};
    struct spin_job job;
    struct spin_ftb *ftb;
    const void *data;
    uint64_t bytes = s->bytes;
    if (spin_job_open(&job) != PTL_OK || spin_ftb_open(job.ni, &o, &ftb) != PTL_OK)
        return 1;
    spin_barrier();
    if (job.rank == 0)
        s->start_ps = spin_now_ps();
    int code = job.rank == 0 ? spin_ftb_send(ftb, s->data, s->bytes)
                             : spin_ftb_receive(ftb, PTL_TIME_FOREVER, &data, &bytes);
    if (job.rank && spin_now_ps() > s->end_ps)
        s->end_ps = spin_now_ps();
    spin_barrier();
    spin_ftb_close(ftb);
    spin_job_close(&job);
    return code == PTL_OK && bytes == s->bytes ? 0 : 2;
}

static int measure(const struct experiment_context *context, uint32_t ranks, int card,
                   struct scene *s, struct spin_error *err) {
    static const char *const cards[CARDS] = {"card=sc17", "card=pspin"};
    const struct spin_world_options base = {.ranks = ranks, .set = &cards[card], .set_count = 1};
    s->end_ps = 0;
    return experiment_ranks(context, "ftb_handler", &base, rank, s, err);
}

static int panel(const struct experiment_context *context, struct sheet *s, struct scene *scene,
                 double last[CARDS][2], struct spin_error *err) {
    char title[80], name[24];
    snprintf(title, sizeof title, "Fault-tolerant broadcast of %llu B",
             (unsigned long long)scene->bytes);
    snprintf(name, sizeof name, "%lluB", (unsigned long long)scene->bytes);
    struct sheet_panel *p = sheet_panel(s, name, title);
    p->log_x = true;
    sheet_column(p, "", 0, "ranks");
    for (int c = 0; c < CARDS; c++)
        for (int v = 0; v < 2; v++)
            sheet_column(p, "us", 3, "%s, %s", v ? "sPIN" : "hosts", c ? "PsPIN" : "SC'17");
    uint32_t asked = context->setup.ranks;
    for (int i = 1; i <= (asked ? 1 : STEPS); i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = asked ? asked : 1u << i;
        for (int c = 0; c < CARDS; c++)
            for (int v = 0; v < 2; v++) {
                scene->by_host = v == 0;
                int code = measure(context, (uint32_t)row->value[0], c, scene, err);
                if (code)
                    return code;
                last[c][v] = (double)(scene->end_ps - scene->start_ps) / 1e6;
                row->value[1 + 2 * c + v] = last[c][v];
            }
    }
    return SPIN_OK;
}

int sc17_ftb(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double last[SIZES][CARDS][2];
    uint64_t most = sizes[1];
    if (context->setup.ranks == 1)
        return spin_fail(err, SPIN_EARG, "--ranks 1: a broadcast needs two");
    if (context->setup.bytes > most)
        most = context->setup.bytes;
    void *data = calloc(1, most);
    int code = data ? SPIN_OK : spin_fail(err, SPIN_ENOMEM, "no memory for the data");
    for (int z = 0; z < (context->setup.bytes ? 1 : SIZES) && !code; z++) {
        struct scene scene = {.data = data,
                              .bytes = context->setup.bytes ? context->setup.bytes : sizes[z]};
        code = panel(context, s, &scene, last[z], err);
    }
    free(data);
    if (code || experiment_one_row(context))
        return code;
    sheet_note(s, "From the root's call until the last rank's program knows that all is there. "
                  "Nobody fails; log2 P copies of everything travel all the same.");
    sheet_note(s,
               "At 64 ranks sPIN takes %.2f (8 B) and %.2f (64 KiB) of the hosts' time on "
               "SC'17's card, %.2f and %.2f on PsPIN.",
               last[0][0][1] / last[0][0][0], last[1][0][1] / last[1][0][0],
               last[0][1][1] / last[0][1][0], last[1][1][1] / last[1][1][0]);
    return SPIN_OK;
}
