#include "dfs22/dfs22_handlers.h"

#include <math.h>

#include "rate.h"

const char *const dfs_kind_names[DFS_KINDS] = {"HH", "PH", "CH"};

int dfs_handlers(const struct experiment_context *context, const struct dfs_policy *policy,
                 const struct dfs_load *load, struct dfs_outcome *outcome, struct spin_error *err) {
    enum { WRITES = 12 }; /* so that the first ones, with cold caches, are not the median */
    struct dfs_write write = {.protocol = policy->protocol,
                              .copies = policy->copies,
                              .parities = policy->parities,
                              .bytes = load->bytes,
                              .ticket = load->ticket,
                              .writes = WRITES};
    if (load->loaded)
        dfs_flood(&write);
    return dfs_write(context, &write, outcome, err);
}

double dfs_ns(const struct spin_card_handler *h) {
    return h->runs ? (double)h->spread.p50 : NAN;
}

double dfs_instructions(const struct spin_card_handler *h) {
    return h->runs ? (double)h->instructions / (double)h->runs : NAN;
}

double dfs_ipc(const struct spin_card_handler *h) {
    return dfs_instructions(h) / dfs_ns(h);
}

static const struct {
    const char *name, *unit;
    int decimals;
    double (*of)(const struct spin_card_handler *h);
} columns[] = {{"duration", "ns", 0, dfs_ns},
               {"instructions", "", 0, dfs_instructions},
               {"IPC", "", 2, dfs_ipc}};

void dfs_table(struct sheet *s, bool loaded, const struct dfs_policy *policy,
               const struct dfs_outcome *outcome, int count) {
    struct sheet_panel *p =
        loaded ? sheet_panel(s, "loaded", "Handlers of the first node, under load")
               : sheet_panel(s, "single", "Handlers of the first node, one write at a time");
    p->by_name = true;
    sheet_column(p, "", 0, "policy");
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < DFS_KINDS; k++)
            sheet_column(p, columns[c].unit, columns[c].decimals, "%s %s", dfs_kind_names[k],
                         columns[c].name);
    for (int i = 0; i < count; i++) {
        struct sheet_row *row = sheet_row(s, p, policy[i].name);
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < DFS_KINDS; k++)
                row->value[1 + 3 * c + k] = columns[c].of(&outcome[i].handler[k]);
    }
}

void dfs_judge(struct sheet *s, const struct dfs_policy *policy, const struct dfs_outcome *outcome,
               int count, const char *id, const double published[][3][DFS_KINDS],
               struct sheet_claim *claim[][3][DFS_KINDS]) {
    for (int i = 0; i < count; i++)
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < DFS_KINDS; k++)
                claim[i][c][k] =
                    sheet_claim(s, id, columns[c].unit, columns[c].of(&outcome[i].handler[k]),
                                published[i][c][k], "%s: %s of %s", policy[i].name, columns[c].name,
                                dfs_kind_names[k]);
}

void dfs_spreads(struct sheet *s, const struct dfs_policy *policy,
                 const struct dfs_outcome *outcome, int count) {
    struct sheet_panel *p = sheet_panel(s, "durations", "Duration of handlers, under load");
    p->by_name = p->log_y = true;
    sheet_column(p, "", 0, "policy, handler");
    sheet_column(p, "ns", 0, "least");
    sheet_column(p, "ns", 0, "median");
    sheet_column(p, "ns", 0, "90 %%");
    sheet_column(p, "ns", 0, "99 %%");
    sheet_column(p, "ns", 0, "most");
    sheet_column(p, "ns", 0, "budget, 400 Gbit/s");
    sheet_column(p, "ns", 0, "budget, 200 Gbit/s");
    for (int i = 0; i < count; i++)
        for (int k = 0; k < DFS_KINDS; k++) {
            const struct spin_spread *d = &outcome[i].handler[k].spread;
            char name[32];
            snprintf(name, sizeof name, "%s, %s", policy[i].name, dfs_kind_names[k]);
            const double values[] = {
                0,
                (double)d->least,
                (double)d->p50,
                (double)d->p90,
                (double)d->p99,
                (double)d->most,
                rate_budget_ns(32, DFS_MTU, 400),
                rate_budget_ns(32, DFS_MTU, 200),
            };
            struct sheet_row *row = sheet_row(s, p, name);
            for (int c = 1; c < (int)(sizeof values / sizeof values[0]); c++)
                row->value[c] = d->count || c > 5 ? values[c] : NAN;
        }
}
