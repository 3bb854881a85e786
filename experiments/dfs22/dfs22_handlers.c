#include "dfs22/dfs22_handlers.h"

#include <math.h>
#include <string.h>

#include "rate.h"

const char *const dfs_kind_names[DFS_KINDS] = {"HH", "PH", "CH"};

int dfs_handlers(const struct experiment_context *context, const struct dfs_policy *policy,
                 const struct dfs_load *load, struct dfs_outcome *outcome, struct spin_error *err) {
    enum { WRITES = 24, CODED = 6 }; /* of which those behind the first third count */
    struct dfs_write write = {.protocol = policy->protocol,
                              .copies = policy->copies,
                              .parities = policy->parities,
                              .bytes = load->bytes,
                              .trust = load->trust,
                              .alone = !load->hosts,
                              .writes = policy->parities ? CODED : WRITES};
    if (load->loaded && policy->parities) { /* a packet for each HPU of each data node */
        write.clients = 2;
        write.window = 4;
        write.writes = 3 * write.window;
    } else if (load->loaded) {
        dfs_flood(&write);
    }
    return dfs_write(context, &write, outcome, err);
}

double dfs_ns(const struct spin_card_handler *h) {
    return h->runs ? (double)h->spread.p50 : NAN;
}

double dfs_instructions(const struct spin_card_handler *h) {
    return h->runs ? (double)h->instructions / (double)h->runs : NAN;
}

double dfs_ipc(const struct spin_card_handler *h) {
    return h->runs ? (double)h->instructions / (double)h->cycles : NAN;
}

static const struct {
    const char *name, *unit;
    int decimals;
    double (*of)(const struct spin_card_handler *h);
} columns[] = {{"duration", "ns", 0, dfs_ns},
               {"instructions", "", 0, dfs_instructions},
               {"IPC", "", 2, dfs_ipc}};

struct sheet_panel *dfs_table(struct sheet *s, const char *name, const char *title) {
    struct sheet_panel *p = sheet_panel(s, name, title);
    p->by_name = true;
    sheet_column(p, "", 0, "policy");
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < DFS_KINDS; k++)
            sheet_column(p, columns[c].unit, columns[c].decimals, "%s %s", dfs_kind_names[k],
                         columns[c].name);
    return p;
}

void dfs_table_row(struct sheet *s, struct sheet_panel *p, const char *name,
                   const struct spin_card_handler handler[DFS_KINDS]) {
    struct sheet_row *row = sheet_row(s, p, name);
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < DFS_KINDS; k++)
            row->value[1 + 3 * c + k] = columns[c].of(&handler[k]);
}

int dfs_changes(const struct experiment_context *context, struct sheet *s,
                const struct dfs_policy *policy, uint32_t bytes, struct spin_error *err) {
    static const struct {
        const char *name, *set;
        enum dfs_trust trust;
        bool hosts;
    } changes[] = {
        {"nothing changed", NULL, DFS_KNOWN, false},
        {"capability first shown", NULL, DFS_FIRST, false},
        {"ticket", NULL, DFS_TICKET, false},
        {"tag in every packet", NULL, DFS_PACKETS, false},
        {"host 200 ns away", NULL, DFS_KNOWN, true},
        {"instruction cache of 64 KiB", "pspin.icache_bytes=65536", DFS_KNOWN, false},
    };
    if (context->setup.set_count || context->setup.card)
        return SPIN_OK;
    char title[80];
    snprintf(title, sizeof title, "%s, one write at a time, one thing changed", policy->name);
    struct sheet_panel *p = dfs_table(s, "changes", title);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct experiment_context changed = *context;
        const struct dfs_load load = {
            .bytes = bytes, .trust = changes[i].trust, .hosts = changes[i].hosts};
        struct dfs_outcome o;
        if (changes[i].trust == DFS_PACKETS && policy->parities)
            continue; /* it takes long */
        changed.setup.set = &changes[i].set;
        changed.setup.set_count = changes[i].set != NULL;
        int code = dfs_handlers(&changed, policy, &load, &o, err);
        if (code)
            return code;
        dfs_table_row(s, p, changes[i].name, o.handler);
    }
    return SPIN_OK;
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

void dfs_note_kinds(const struct experiment_context *context, struct sheet *s) {
    if (context->setup.card && strcmp(context->setup.card, "pspin") != 0)
        sheet_note(s, "The %s card does not count handlers by kind.", context->setup.card);
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
