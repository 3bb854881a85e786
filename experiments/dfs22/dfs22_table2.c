/* DFS building blocks, figure 16 left and table II: handlers of writes with erasure coding. */
#include "figures.h"

#include "dfs22/dfs22_handlers.h"
#include "rate.h"

enum { RS32, RS63, POLICIES };
/* Of each node: all packets but the first are full ones. */
enum { CHUNK = 7 * 2048 + 1864 };

static int measure(const struct experiment_context *context, struct dfs_policy policy[POLICIES],
                   struct dfs_outcome outcome[POLICIES], int *count, struct spin_error *err) {
    static const uint32_t codes[POLICIES][2] = {{3, 2}, {6, 3}};
    int code = dfs_check_bytes(context, err);
    *count = context->setup.ranks ? 1 : POLICIES;
    for (int i = 0; !code && i < *count; i++) {
        struct dfs_policy *p = &policy[i];
        *p = (struct dfs_policy){
            .protocol = DFS_SPIN_RS, .copies = codes[i][0], .parities = codes[i][1]};
        code = dfs_code(context, &p->copies, &p->parities, err);
        snprintf(p->name, sizeof p->name, "RS(%u,%u)", p->copies, p->parities);
        const struct dfs_load load = {.bytes = experiment_size(context, CHUNK * p->copies)};
        if (!code)
            code = dfs_handlers(context, p, &load, &outcome[i], err);
    }
    return code;
}

int dfs22_fig16_left(const struct experiment_context *context, struct sheet *s,
                     struct spin_error *err) {
    struct dfs_policy policy[POLICIES];
    struct dfs_outcome o[POLICIES];
    int count, code = measure(context, policy, o, &count, err);
    if (code)
        return code;
    dfs_spreads(s, policy, o, count);
    if (experiment_one_row(context))
        return SPIN_OK;
    bool above = true;
    for (int i = 0; i < POLICIES; i++)
        above &= dfs_ns(&o[i].handler[SPIN_PAYLOAD_HANDLER]) > rate_budget_ns(32, DFS_MTU, 200);
    sheet_shape(s, "C9", above, "payload handlers are above the budget, also of 200 Gbit/s");
    for (int i = 0; i < POLICIES; i++)
        sheet_note(s,
                   "%s: at 400 Gbit/s our payload handler needs %.0f HPUs, at 200 Gbit/s %.0f; a "
                   "parity node's, which adds up, takes %.0f ns.",
                   policy[i].name,
                   rate_hpus(dfs_ns(&o[i].handler[SPIN_PAYLOAD_HANDLER]),
                             rate_interval_ns(DFS_MTU, 400, 0)),
                   rate_hpus(dfs_ns(&o[i].handler[SPIN_PAYLOAD_HANDLER]),
                             rate_interval_ns(DFS_MTU, 200, 0)),
                   dfs_ns(&o[i].last[SPIN_PAYLOAD_HANDLER]));
    dfs_note_world(s, 400);
    return SPIN_OK;
}

int dfs22_table2(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    static const double published[POLICIES][3][DFS_KINDS] = {
        {{215, 16681, 105}, {120, 11672, 35}, {.56, .70, .33}},
        {{215, 23018, 82}, {120, 16028, 35}, {.56, .70, .43}}};
    static const double per_byte[POLICIES] = {5, 7};
    struct dfs_policy policy[POLICIES];
    struct dfs_outcome o[POLICIES];
    struct sheet_claim *claim[POLICIES][3][DFS_KINDS];
    int count, code = measure(context, policy, o, &count, err);
    if (code)
        return code;
    dfs_table(s, false, policy, o, count);
    if (experiment_one_row(context))
        return SPIN_OK;
    dfs_judge(s, policy, o, POLICIES, "C8", published, claim);
    for (int i = 0; i < POLICIES; i++) {
        const struct spin_card_handler *h = &o[i].handler[SPIN_PAYLOAD_HANDLER];
        double all = (double)CHUNK / (7 + 1);
        struct sheet_claim *c = sheet_claim(s, "C8", "", dfs_instructions(h) / all, per_byte[i],
                                            "%s: instructions per byte", policy[i].name);
        sheet_because(c, "all of the handler's; a look-up is 2 per byte and parity here, and the "
                         "paper's core has loads and stores that count on");
        sheet_because(claim[i][1][0], "as in dfs22/table1: the signature, here of %d bytes",
                      28 + 8 * (int)(policy[i].copies + policy[i].parities));
        sheet_because(claim[i][0][0], "its instructions, and %u streams that it begins",
                      policy[i].parities);
        sheet_because(claim[i][1][2], "it looks which streams have lost their target");
        sheet_because(claim[i][2][1], "look-ups of a byte's parities are apart, so loads do not "
                                      "wait for each other");
    }
    sheet_note(s,
               "One write at a time, %u B per data node: packets of 1,864 and then 2,048 B. The "
               "handlers of the first data node; durations are medians, instructions means.",
               CHUNK);
    dfs_note_world(s, 400);
    return SPIN_OK;
}
