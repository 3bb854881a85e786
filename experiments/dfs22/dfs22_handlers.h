/* What the storage handlers of a node take under load: for figures 11 and 16 and tables I and II.
 */
#ifndef OPENSPIN_EXPERIMENTS_DFS22_HANDLERS_H
#define OPENSPIN_EXPERIMENTS_DFS22_HANDLERS_H

#include "dfs22/dfs22_world.h"

enum { DFS_KINDS = 3 }; /* header, payload, completion handler */
extern const char *const dfs_kind_names[DFS_KINDS];

struct dfs_policy {
    char name[24];
    enum dfs_protocol protocol;
    uint32_t copies, parities;
};

/* Of the first node, which has all roles of the policy but that of a parity node: with one write
 * of `bytes` at a time or (loaded) as many as keep it busy; on a card alone, or with its host. */
struct dfs_load {
    uint32_t bytes;
    bool loaded, hosts;
    enum dfs_trust trust;
};
int dfs_handlers(const struct experiment_context *context, const struct dfs_policy *policy,
                 const struct dfs_load *load, struct dfs_outcome *outcome, struct spin_error *err);

/* Duration (the median), instructions (the mean) and instructions per cycle; NAN of SC'17's card,
 * which does not count by kind. */
double dfs_ns(const struct spin_card_handler *h);
double dfs_instructions(const struct spin_card_handler *h);
double dfs_ipc(const struct spin_card_handler *h);

/* Duration, instructions and IPC of each kind, a row per policy, as tables I and II have them; and
 * beside what was published. */
struct sheet_panel *dfs_table(struct sheet *s, const char *name, const char *title);
void dfs_table_row(struct sheet *s, struct sheet_panel *p, const char *name,
                   const struct spin_card_handler handler[DFS_KINDS]);
void dfs_judge(struct sheet *s, const struct dfs_policy *policy, const struct dfs_outcome *outcome,
               int count, const char *id, const double published[][3][DFS_KINDS],
               struct sheet_claim *claim[][3][DFS_KINDS]);
/* The same handlers with one thing changed at a time, to see what makes a difference: rows of
 * `policy`, one write at a time. Nothing if the caller has changed parameters. */
int dfs_changes(const struct experiment_context *context, struct sheet *s,
                const struct dfs_policy *policy, uint32_t bytes, struct spin_error *err);
/* Says why columns are empty, if they are. */
void dfs_note_kinds(const struct experiment_context *context, struct sheet *s);
/* Bars: least, median, 99th percentile and most of each policy and kind, with the budgets. */
void dfs_spreads(struct sheet *s, const struct dfs_policy *policy,
                 const struct dfs_outcome *outcome, int count);

#endif
