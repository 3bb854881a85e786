/* SC'17 section 5.4: transactions whose reads are logged and validated by the owners' cards, beside
 * ones that the owners' processors validate. The paper has no figure of it. */
#include "figures.h"

#include "base/error.h"
#include "base/rng.h"
#include "spinlib/tx.h"

enum { CARDS = 2, VARIANTS = 2, OWNERS = 4, EACH = 24, CLIENT_STEPS = 6, RECORD_STEPS = 5 };
enum { CLIENTS = 16, RECORDS = 4096, BYTES = 64, MOST_BYTES = 1024 };

struct scene {
    struct spin_tx_options options;
    uint32_t done, tries;
    uint64_t start_ps, end_ps;
};

/* A transfer: two records are read and changed. After a try that failed a client waits, longer each
 * time, so that two do not meet again and again. */
static int transfer(struct spin_tx *tx, struct scene *s, struct rng *r) {
    uint64_t data[2][MOST_BYTES / sizeof(uint64_t)];
    uint32_t record[2] = {rng_below(r, s->options.records)};
    record[1] = (record[0] + 1 + rng_below(r, s->options.records - 1)) % s->options.records;
    bool committed = false;
    for (uint32_t wait = 100; !committed; wait += wait < 3200 ? wait : 0) {
        s->tries++;
        if (spin_tx_begin(tx) != PTL_OK)
            return 2;
        for (int i = 0; i < 2; i++)
            if (spin_tx_read(tx, record[i], data[i]) != PTL_OK)
                return 3;
        *(uint32_t *)data[0] -= 1;
        *(uint32_t *)data[1] += 1;
        for (int i = 0; i < 2; i++)
            if (spin_tx_write(tx, record[i], data[i]) != PTL_OK)
                return 4;
        if (spin_tx_commit(tx, &committed) != PTL_OK)
            return 5;
        if (!committed)
            spin_compute(rng_below(r, wait));
    }
    return 0;
}

/* What was taken from one record was added to another. */
static int check_sum(struct spin_tx *tx, const struct scene *s) {
    uint64_t data[MOST_BYTES / sizeof(uint64_t)];
    uint32_t sum = 0;
    for (uint32_t i = 0; i < s->options.records; i++) {
        if (spin_tx_begin(tx) != PTL_OK || spin_tx_read(tx, i, data) != PTL_OK)
            return 6;
        sum += *(uint32_t *)data;
    }
    return sum ? 7 : 0;
}

static int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spin_tx *tx;
    if (spin_job_open(&job) != PTL_OK || spin_tx_open(job.ni, &s->options, &tx) != PTL_OK)
        return 1;
    struct rng r = rng_seeded(job.rank);
    int status = 0;
    spin_barrier();
    s->start_ps = spin_now_ps();
    for (int i = 0; job.rank >= OWNERS && i < EACH && !status; i++)
        status = transfer(tx, s, &r);
    if (spin_now_ps() > s->end_ps)
        s->end_ps = spin_now_ps();
    s->done++;
    while (job.rank < OWNERS && s->options.by_host && s->done < job.ranks)
        if (spin_tx_work(tx, 1) != PTL_OK)
            return 8;
    spin_barrier();
    if (job.rank == 0 && !status)
        status = check_sum(tx, s);
    spin_barrier();
    spin_tx_close(tx);
    spin_job_close(&job);
    return status;
}

static void add_columns(struct sheet_panel *p, const char *first) {
    p->log_x = true;
    sheet_column(p, "", 0, "%s", first);
    for (int c = 0; c < CARDS; c++)
        for (int v = 0; v < VARIANTS; v++) {
            const char *who = v ? "sPIN" : "host", *card = c ? "PsPIN" : "SC'17";
            sheet_column(p, "M/s", 2, "%s, %s", who, card);
            sheet_column(p, "%", 1, "aborts, %s, %s", who, card);
        }
}

static int add_row(const struct experiment_context *context, struct sheet *s, struct sheet_panel *p,
                   uint32_t clients, uint32_t records, double first, struct spin_error *err) {
    static const char *const cards[CARDS] = {"card=sc17", "card=pspin"};
    struct sheet_row *row = sheet_row(s, p, NULL);
    row->value[0] = first;
    for (int c = 0; c < CARDS; c++)
        for (int v = 0; v < VARIANTS; v++) {
            struct scene scene = {.options = {.records = records,
                                              .record_bytes = context->setup.bytes
                                                                  ? (uint32_t)context->setup.bytes
                                                                  : BYTES,
                                              .owners = OWNERS,
                                              .by_host = v == 0}};
            const struct spin_world_options base = {
                .ranks = OWNERS + clients, .set = &cards[c], .set_count = 1};
            int code = experiment_ranks(context, "tx_handler", &base, rank, &scene, err);
            if (code)
                return code;
            double us = (double)(scene.end_ps - scene.start_ps) / 1e6;
            row->value[1 + 4 * c + 2 * v] = clients * EACH / us;
            row->value[2 + 4 * c + 2 * v] =
                100.0 * (scene.tries - clients * EACH) / (double)scene.tries;
        }
    return SPIN_OK;
}

static int check_setup(const struct experiment_setup *setup, struct spin_error *err) {
    if (setup->ranks && setup->ranks <= OWNERS)
        return spin_fail(err, SPIN_EARG, "--ranks %u: there are %d owners, and a client at least",
                         setup->ranks, OWNERS);
    if (setup->bytes &&
        (setup->bytes < 4 || setup->bytes > MOST_BYTES || setup->bytes & (setup->bytes - 1)))
        return spin_fail(err, SPIN_EARG, "--bytes: a record has a power of two, 4 to %d",
                         MOST_BYTES);
    return SPIN_OK;
}

int sc17_transactions(const struct experiment_context *context, struct sheet *s,
                      struct spin_error *err) {
    uint32_t asked = context->setup.ranks ? context->setup.ranks - OWNERS : 0;
    int code = check_setup(&context->setup, err);
    if (code)
        return code;
    struct sheet_panel *p = sheet_panel(s, "clients", "Committed transactions, 4,096 records");
    add_columns(p, "clients");
    for (int i = 0; !code && i < (asked ? 1 : CLIENT_STEPS); i++) {
        uint32_t clients = asked ? asked : 1u << i;
        code = add_row(context, s, p, clients, RECORDS, clients, err);
    }
    p = sheet_panel(s, "contention", "The same over records: fewer, and more often the same");
    add_columns(p, "records");
    for (int i = 0; !code && i < RECORD_STEPS; i++) {
        uint32_t records = (uint32_t)RECORDS >> 2 * i;
        code = add_row(context, s, p, asked ? asked : CLIENTS, records, records, err);
    }
    if (code || experiment_one_row(context))
        return code;
    sheet_note(s,
               "Four owners; a transaction reads and changes two records of 64 B anywhere and is "
               "tried until it commits, then the client begins the next. The second table has "
               "16 clients. 'aborts': tries that another transaction was in the way of.");
    sheet_note(s, "'host': reads are the same RDMA and bring the record's version with them; the "
                  "client sends versions with its commit, and the owner's processor, one core, "
                  "locks, validates and installs.");
    const double *last = s->panel[0].row[CLIENT_STEPS - 1].value;
    sheet_note(s,
               "With 32 clients the cards commit %.1f times as many transactions as the processors "
               "(SC'17's card), %.1f times (PsPIN).",
               last[3] / last[1], last[7] / last[5]);
    return SPIN_OK;
}
