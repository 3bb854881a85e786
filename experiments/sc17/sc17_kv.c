/* SC'17 section 5.4: a key-value store whose server is a card, beside one whose server is a
 * processor. The paper has no figure of it. */
#include "figures.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "spinlib/kv.h"

enum { CARDS = 2, OPERATIONS = 64, KEYS = 256, STEPS = 6 }; /* up to 32 clients */
static const uint32_t values[] = {8, 64, 256, SPIN_KV_VALUE_BYTES};
enum { VALUES = sizeof values / sizeof values[0] };

struct scene {
    bool by_host;
    uint32_t value_bytes, done;
    uint64_t start_ps, end_ps;
    uint64_t time_ps[2]; /* all inserts and all gets of the one client */
};

/* Inserts and gets in turn, of random keys. */
static int use(struct spin_kv *kv, struct scene *s) {
    struct rng r = rng_seeded(spin_rank());
    uint8_t value[SPIN_KV_VALUE_BYTES] = {0};
    for (int i = 0; i < OPERATIONS; i++) {
        uint32_t key = rng_below(&r, KEYS), bytes;
        bool found;
        uint64_t start = spin_now_ps();
        int code = i % 2 ? spin_kv_get(kv, &key, sizeof key, value, &bytes, &found)
                         : spin_kv_insert(kv, &key, sizeof key, value, s->value_bytes);
        if (code != PTL_OK)
            return 2;
        s->time_ps[i % 2] += spin_now_ps() - start;
    }
    if (spin_now_ps() > s->end_ps)
        s->end_ps = spin_now_ps();
    return 0;
}

/* All keys are there, so that a get finds one. */
static int prepare(struct spin_kv *kv, const struct scene *s) {
    uint8_t value[SPIN_KV_VALUE_BYTES] = {0};
    for (uint32_t key = 0; key < KEYS; key++)
        if (spin_kv_insert(kv, &key, sizeof key, value, s->value_bytes) != PTL_OK)
            return 1;
    return 0;
}

static int rank(void *argument) {
    struct scene *s = argument;
    const struct spin_kv_options o = {.servers = 1, .by_host = s->by_host};
    struct spin_job job;
    struct spin_kv *kv;
    if (spin_job_open(&job) != PTL_OK || spin_kv_open(job.ni, &o, &kv) != PTL_OK)
        return 1;
    spin_barrier();
    int status = job.rank == 0 ? prepare(kv, s) : 0;
    spin_barrier();
    s->start_ps = spin_now_ps();
    if (job.rank)
        status = use(kv, s);
    s->done++;
    while (job.rank == 0 && s->by_host && s->done < job.ranks)
        if (spin_kv_work(kv, 1) != PTL_OK)
            return 3;
    spin_barrier();
    spin_kv_close(kv);
    spin_job_close(&job);
    return status;
}

static int measure(const struct experiment_context *context, uint32_t ranks, int card,
                   struct scene *s, struct spin_error *err) {
    static const char *const cards[CARDS] = {"card=sc17", "card=pspin"};
    const struct spin_world_options base = {.ranks = ranks, .set = &cards[card], .set_count = 1};
    return experiment_ranks(context, "kv_handler", &base, rank, s, err);
}

static int latency(const struct experiment_context *context, struct sheet *s,
                   struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, "latency", "Time of an operation, one client");
    p->log_x = true;
    sheet_column(p, "B", 0, "value");
    for (int c = 0; c < CARDS; c++)
        for (int v = 0; v < 2; v++)
            for (int op = 0; op < 2; op++)
                sheet_column(p, "us", 3, "%s, %s, %s", op ? "get" : "insert", v ? "sPIN" : "host",
                             c ? "PsPIN" : "SC'17");
    for (int i = 0; i < (context->setup.bytes ? 1 : VALUES); i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        uint32_t bytes = context->setup.bytes ? (uint32_t)context->setup.bytes : values[i];
        row->value[0] = bytes;
        for (int c = 0; c < CARDS; c++)
            for (int v = 0; v < 2; v++) {
                struct scene scene = {.by_host = v == 0, .value_bytes = bytes};
                int code = measure(context, 2, c, &scene, err);
                if (code)
                    return code;
                for (int op = 0; op < 2; op++)
                    row->value[1 + 4 * c + 2 * v + op] =
                        (double)scene.time_ps[op] / (OPERATIONS / 2) / 1e6;
            }
    }
    return SPIN_OK;
}

static int rate(const struct experiment_context *context, struct sheet *s, double last[CARDS][2],
                struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, "rate", "Operations of one server, values of 64 B");
    p->log_x = true;
    sheet_column(p, "", 0, "clients");
    for (int c = 0; c < CARDS; c++)
        for (int v = 0; v < 2; v++)
            sheet_column(p, "M/s", 2, "%s, %s", v ? "sPIN" : "host", c ? "PsPIN" : "SC'17");
    uint32_t asked = context->setup.ranks;
    for (int i = 0; i < (asked ? 1 : STEPS); i++) {
        uint32_t clients = asked ? asked - 1 : 1u << i;
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = clients;
        for (int c = 0; c < CARDS; c++)
            for (int v = 0; v < 2; v++) {
                struct scene scene = {.by_host = v == 0, .value_bytes = 64};
                int code = measure(context, clients + 1, c, &scene, err);
                if (code)
                    return code;
                last[c][v] = clients * OPERATIONS / ((double)(scene.end_ps - scene.start_ps) / 1e6);
                row->value[1 + 2 * c + v] = last[c][v];
            }
    }
    return SPIN_OK;
}

int sc17_kv(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double last[CARDS][2];
    if (context->setup.ranks == 1)
        return spin_fail(err, SPIN_EARG, "--ranks 1: there is a server, and a client at least");
    if (context->setup.bytes > SPIN_KV_VALUE_BYTES)
        return spin_fail(err, SPIN_EARG, "--bytes: a value has at most %u", SPIN_KV_VALUE_BYTES);
    int code = latency(context, s, err);
    if (!code)
        code = rate(context, s, last, err);
    if (code || experiment_one_row(context))
        return code;
    sheet_note(s, "One server with 256 keys of 4 B in 1,024 buckets; each client inserts and gets "
                  "in turn and waits for each answer. 'host' is a server whose processor does all "
                  "of it, one core that polls its event queue.");
    sheet_note(s,
               "With 32 clients the card does %.1f times as many operations as the processor "
               "(SC'17's card), %.1f times (PsPIN).",
               last[0][1] / last[0][0], last[1][1] / last[1][0]);
    return SPIN_OK;
}
