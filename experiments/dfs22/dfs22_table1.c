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

static int measure(const struct experiment_context *context, bool loaded, enum dfs_trust trust,
                   struct dfs_outcome outcome[POLICIES], struct spin_error *err) {
    const struct dfs_load load = {
        .bytes = experiment_size(context, BYTES), .loaded = loaded, .trust = trust};
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
    int code = measure(context, true, DFS_KNOWN, o, err);
    if (code)
        return code;
    dfs_spreads(s, policies, o, POLICIES);
    dfs_note_kinds(context, s);
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
    dfs_note_alone(s);
    return SPIN_OK;
}

static void explain_headers(struct sheet_claim *claim[POLICIES][3][DFS_KINDS],
                            const struct dfs_outcome single[POLICIES],
                            const struct dfs_outcome trusted[POLICIES],
                            const struct dfs_outcome first[POLICIES]) {
    for (int i = 0; i < POLICIES; i++) {
        const struct spin_card_handler *h = &single[i].handler[0];
        double all = dfs_instructions(h), others = dfs_instructions(&trusted[i].handler[0]);
        sheet_because(claim[i][1][0],
                      "it compares the capability (%.0f), uses up the request's number and checks "
                      "all fields; %.0f with the MAC computed; no keyed hash has room in 120",
                      all - others, dfs_instructions(&first[i].handler[0]));
        sheet_because(claim[i][0][0],
                      i == PBT ? "it begins the streams, which the paper's payload handlers do, so "
                                 "it waits for the port; one write at a time %.0f ns"
                               : "its instructions; one write at a time %.0f ns",
                      dfs_ns(h));
        sheet_because(claim[i][2][0],
                      i == PBT
                          ? "waits for the port; one write at a time %.2f"
                          : "our state is in the own L1, 1 cycle away; one write at a time %.2f",
                      dfs_ipc(h));
    }
}

static void explain(struct sheet_claim *claim[POLICIES][3][DFS_KINDS],
                    const struct dfs_outcome single[POLICIES]) {
    const struct spin_card_handler *ring = single[RING].handler, *pbt = single[PBT].handler;
    const char near[] = "our state is in the message's own L1, 1 cycle away; a word from L2 or "
                        "another L1 takes 21";
    sheet_because(claim[ONE][0][1], "%s", near);
    sheet_because(claim[ONE][2][1], "%s", near);
    sheet_because(claim[ONE][0][2], "%s", near);
    sheet_because(claim[ONE][1][2], "counters, and an answer of 11 words (P4sPIN)");
    sheet_because(claim[ONE][2][2], "%s", near);
    sheet_because(claim[RING][0][1],
                  "in and out are both at line rate, so it depends on chance: 190 to 630 ns with "
                  "other sizes; one write at a time %.0f",
                  dfs_ns(&ring[1]));
    sheet_because(claim[RING][1][1], "a packet of a stream is one command of 6 words");
    sheet_because(claim[RING][2][1], "waits for the port; one write at a time %.2f",
                  dfs_ipc(&ring[1]));
    sheet_because(claim[RING][0][2], "waits for the port; one write at a time %.0f ns",
                  dfs_ns(&ring[2]));
    sheet_because(claim[RING][1][2], "likewise, and it looks which streams have lost their target");
    sheet_because(claim[RING][2][2], "waits for the port; one write at a time %.2f",
                  dfs_ipc(&ring[2]));
    sheet_because(claim[PBT][0][1], "waits as long as packets are before it: more with larger "
                                    "writes (2,450 ns with 64 KiB)");
    sheet_because(claim[PBT][1][1], "a packet of a stream is one command of 6 words");
    sheet_because(claim[PBT][2][1], "fewer instructions in about the same time");
    sheet_because(claim[PBT][0][2], "waits likewise; one write at a time %.0f ns", dfs_ns(&pbt[2]));
    sheet_because(claim[PBT][1][2], "as of Ring");
    sheet_because(claim[PBT][2][2], "more instructions in less time");
}

int dfs22_table1(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    static const double published[POLICIES][3][DFS_KINDS] = {
        {{211, 92, 107}, {120, 55, 66}, {.57, .60, .62}},
        {{212, 193, 146}, {120, 105, 65}, {.57, .54, .44}},
        {{214, 2106, 1487}, {120, 130, 82}, {.56, .06, .06}}};
    enum { SINGLE, LOADED, TRUSTED, FIRST, RUNS };
    static const struct {
        bool loaded;
        enum dfs_trust trust;
    } runs[RUNS] = {[SINGLE] = {false, DFS_KNOWN},
                    [LOADED] = {true, DFS_KNOWN},
                    [TRUSTED] = {false, DFS_TICKET},
                    [FIRST] = {false, DFS_FIRST}};
    struct dfs_outcome o[RUNS][POLICIES];
    struct sheet_claim *claim[POLICIES][3][DFS_KINDS];
    struct dfs_policy policies[POLICIES];
    int code = SPIN_OK;
    policies_of(context, policies);
    for (int r = 0; r < RUNS && !code; r++)
        code = measure(context, runs[r].loaded, runs[r].trust, o[r], err);
    if (code)
        return code;
    struct sheet_panel *loaded = dfs_table(s, "loaded", "Handlers of the first node, under load");
    for (int i = 0; i < POLICIES; i++)
        dfs_table_row(s, loaded, policies[i].name, o[LOADED][i].handler);
    struct sheet_panel *single =
        dfs_table(s, "single", "Handlers of the first node, one write at a time");
    for (int i = 0; i < POLICIES; i++)
        dfs_table_row(s, single, policies[i].name, o[SINGLE][i].handler);
    code = dfs_changes(context, s, &policies[ONE], experiment_size(context, BYTES), err);
    dfs_note_kinds(context, s);
    if (code || experiment_one_row(context))
        return code;
    dfs_judge(s, policies, o[LOADED], POLICIES, "C6", published, claim);
    explain_headers(claim, o[SINGLE], o[TRUSTED], o[FIRST]);
    explain(claim, o[SINGLE]);
    sheet_note(s, "Writes of 16 KiB; load: 4 clients, 512 KiB under way. Durations are medians, "
                  "instructions means.");
    dfs_note_alone(s);
    return SPIN_OK;
}
