/* DFS building blocks, figure 11 and table I: handlers of writes with replication. */
#include "figures.h"

#include "dfs22/dfs22_handlers.h"
#include "rate.h"

enum { ONE, RING, PBT, POLICIES };
enum { BYTES = 16384 };

/* Four copies, or as many as the caller has nodes for. */
static void policies_of(const struct experiment_context *context,
                        struct dfs_policy policy[POLICIES]) {
    uint32_t k = dfs_copies(context, 4);
    policy[ONE] = (struct dfs_policy){.protocol = DFS_SPIN_RING, .copies = 1};
    policy[RING] = (struct dfs_policy){.protocol = DFS_SPIN_RING, .copies = k};
    policy[PBT] = (struct dfs_policy){.protocol = DFS_SPIN_PBT, .copies = k};
    snprintf(policy[ONE].name, sizeof policy[ONE].name, "k=1");
    snprintf(policy[RING].name, sizeof policy[RING].name, "k=%u Ring", k);
    snprintf(policy[PBT].name, sizeof policy[PBT].name, "k=%u PBT", k);
}

static int measure(const struct experiment_context *context, bool loaded, bool ticket,
                   struct dfs_outcome outcome[POLICIES], struct spin_error *err) {
    const struct dfs_load load = {.bytes =
                                      context->setup.bytes ? (uint32_t)context->setup.bytes : BYTES,
                                  .loaded = loaded,
                                  .ticket = ticket};
    struct dfs_policy policies[POLICIES];
    policies_of(context, policies);
    int code = dfs_check_copies(context, err);
    for (int i = 0; !code && i < POLICIES; i++)
        code = dfs_handlers(context, &policies[i], &load, &outcome[i], err);
    return code;
}

int dfs22_fig11(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    struct dfs_outcome o[POLICIES];
    struct dfs_policy policies[POLICIES];
    policies_of(context, policies);
    int code = measure(context, true, false, o, err);
    if (code)
        return code;
    dfs_spreads(s, policies, o, POLICIES);
    if (experiment_one_row(context))
        return SPIN_OK;
    double budget = rate_budget_ns(32, DFS_MTU, 400);
    for (int i = 0; i < POLICIES; i++) {
        bool below = true;
        for (int k = SPIN_PAYLOAD_HANDLER; k < DFS_KINDS; k++)
            below &= (double)o[i].handler[k].spread.p50 < budget;
        if (i == PBT)
            sheet_shape(s, "C6", !below, "k=4 PBT: above the budget of 400 Gbit/s");
        else
            sheet_shape(s, "C6", below && (double)o[i].handler[0].spread.p50 < budget,
                        "%s: medians of all handlers below the budget of 400 Gbit/s",
                        policies[i].name);
    }
    double ours = dfs_ipc(&o[PBT].handler[SPIN_PAYLOAD_HANDLER]) /
                  dfs_ipc(&o[RING].handler[SPIN_PAYLOAD_HANDLER]);
    sheet_shape(s, "C6", ours < 0.5,
                "the tree's payload handlers are not complex: they wait (IPC below half)");
    sheet_note(s, "Writes of 16 KiB, 4 clients, 512 KiB under way. The budget is for all that a "
                  "packet costs; a header handler runs once per write.");
    dfs_note_world(s, 400);
    return SPIN_OK;
}

/* Of the hash of a capability: two per word and for the length, and twice four. */
static int rounds(int copies) {
    return 2 * ((28 + 8 * copies) / 4 + 1) + 8;
}

int dfs22_table1(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    static const double published[POLICIES][3][DFS_KINDS] = {
        {{211, 92, 107}, {120, 55, 66}, {.57, .60, .62}},
        {{212, 193, 146}, {120, 105, 65}, {.57, .54, .44}},
        {{214, 2106, 1487}, {120, 130, 82}, {.56, .06, .06}}};
    struct dfs_outcome single[POLICIES], loaded[POLICIES], trusted[POLICIES], compared[POLICIES];
    struct sheet_claim *claim[POLICIES][3][DFS_KINDS];
    struct dfs_policy policies[POLICIES];
    policies_of(context, policies);
    int code = measure(context, false, false, single, err);
    if (!code)
        code = measure(context, true, false, loaded, err);
    if (!code)
        code = measure(context, false, true, trusted, err);
    if (code)
        return code;
    dfs_table(s, false, policies, single, POLICIES);
    dfs_table(s, true, policies, loaded, POLICIES);
    if (experiment_one_row(context))
        return SPIN_OK;
    compared[ONE] = single[ONE];
    compared[RING] = single[RING];
    compared[PBT] = loaded[PBT];
    dfs_judge(s, policies, compared, POLICIES, "C6", published, claim);
    for (int i = 0; i < POLICIES; i++) {
        double all = dfs_instructions(&single[i].handler[0]);
        double others = dfs_instructions(&trusted[i].handler[0]);
        sheet_because(claim[i][1][0],
                      "%.0f of ours are the signature of %d bytes; with a ticket %.0f, and %.0f ns",
                      all - others, 28 + 8 * (int)policies[i].copies, others,
                      dfs_ns(&trusted[i].handler[0]));
        sheet_because(claim[i][0][0], "its instructions, see below");
        sheet_because(claim[i][2][0], i == PBT ? "it waits for the streams that it begins to leave"
                                               : "a hash has next to no loads: little waits");
    }
    sheet_because(claim[RING][0][1], "fewer instructions: a packet of a stream is one command");
    sheet_because(claim[RING][1][1], "a packet of a stream is one command");
    sheet_because(claim[PBT][1][1], "the same, twice");
    sheet_because(claim[RING][1][2], "it also looks which streams have lost their target");
    sheet_because(claim[PBT][0][2], "answers wait behind fewer packets; the load is ours");
    sheet_note(s,
               "The paper does not say under which load. Its k=1 and Ring are those of a card that "
               "keeps up, and are compared with one write at a time; PBT, whose packets leave "
               "twice, with the load.");
    sheet_note(s, "Writes of 16 KiB; load: 4 clients, 512 KiB under way. Durations are medians, "
                  "instructions means.");
    sheet_note(s,
               "A round of our hash (HalfSipHash-2-4) has 6 rotations of 3 instructions; the "
               "paper's compiler (PULP) has one for it. That would be some %d of the header "
               "handler's instructions with k=1, %d with k=4.",
               12 * rounds(1), 12 * rounds(4));
    dfs_note_world(s, 400);
    return SPIN_OK;
}
