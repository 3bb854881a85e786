/* DFS building blocks, figure 16 left and table II: handlers of writes with erasure coding. */
#include "figures.h"

#include "dfs22/dfs22_handlers.h"
#include "rate.h"

enum { RS32, RS63, POLICIES };
/* Of each node: all packets but the first are full ones. */
enum { CHUNK = 3 * 2048 + 1864 };
static const struct dfs_load loaded = {.bytes = CHUNK, .loaded = true};

static int measure(const struct experiment_context *context, const struct dfs_load *how,
                   struct dfs_policy policy[POLICIES], struct dfs_outcome outcome[POLICIES],
                   int *count, struct spin_error *err) {
    static const uint32_t codes[POLICIES][2] = {{3, 2}, {6, 3}};
    int code = dfs_check_bytes(context, err);
    *count = context->setup.ranks ? 1 : POLICIES;
    for (int i = 0; !code && i < *count; i++) {
        struct dfs_policy *p = &policy[i];
        *p = (struct dfs_policy){
            .protocol = DFS_SPIN_RS, .copies = codes[i][0], .parities = codes[i][1]};
        code = dfs_code(context, &p->copies, &p->parities, err);
        snprintf(p->name, sizeof p->name, "RS(%u,%u)", p->copies, p->parities);
        struct dfs_load load = *how;
        load.bytes = experiment_size(context, how->bytes * p->copies);
        if (!code)
            code = dfs_handlers(context, p, &load, &outcome[i], err);
    }
    return code;
}

int dfs22_fig16_left(const struct experiment_context *context, struct sheet *s,
                     struct spin_error *err) {
    struct dfs_policy policy[POLICIES];
    struct dfs_outcome o[POLICIES];
    int count, code = measure(context, &loaded, policy, o, &count, err);
    if (code)
        return code;
    dfs_spreads(s, policy, o, count);
    dfs_note_kinds(context, s);
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
    dfs_note_alone(s);
    return SPIN_OK;
}

static void explain(struct sheet_claim *claim[POLICIES][3][DFS_KINDS],
                    const struct dfs_outcome single[POLICIES],
                    const struct dfs_outcome trusted[POLICIES],
                    const struct dfs_outcome first[POLICIES]) {
    for (int i = 0; i < POLICIES; i++) {
        const struct spin_card_handler *h = single[i].handler;
        sheet_because(claim[i][1][0],
                      "it compares the capability (%.0f), checks all fields, and begins a stream "
                      "to each parity node; %.0f with the MAC computed",
                      dfs_instructions(&h[0]) - dfs_instructions(&trusted[i].handler[0]),
                      dfs_instructions(&first[i].handler[0]));
        sheet_because(claim[i][0][0],
                      "its instructions, and fetching them: the encoding loop takes the 4 KiB of "
                      "instruction cache (see above); one write at a time %.0f ns",
                      dfs_ns(&h[0]));
        sheet_because(claim[i][2][0], "instructions are fetched anew, see above");
        sheet_because(claim[i][0][1],
                      "look-ups of two bytes are in flight: few stalls; one write "
                      "at a time %.0f ns",
                      dfs_ns(&h[1]));
        sheet_because(claim[i][1][1], "2 + 2m per byte where PULP's loads that count on take 1 + "
                                      "2m, and the rows of products, 192 each");
        sheet_because(claim[i][2][1],
                      "few stalls; those of 8 cores at the banks of an L1 are in "
                      "it; one write at a time %.2f",
                      dfs_ipc(&h[1]));
        sheet_because(claim[i][0][2], "as of HH: instructions, and fetching them");
        sheet_because(claim[i][1][2], "an answer of 11 words (P4sPIN), counters, and it looks "
                                      "which streams have lost their target");
        sheet_because(claim[i][2][2], "instructions are fetched anew; one write at a time %.2f",
                      dfs_ipc(&h[2]));
    }
}

int dfs22_table2(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    static const double published[POLICIES][3][DFS_KINDS] = {
        {{215, 16681, 105}, {120, 11672, 35}, {.56, .70, .33}},
        {{215, 23018, 82}, {120, 16028, 35}, {.56, .70, .43}}};
    static const double per_byte[POLICIES] = {5, 7};
    /* SHORT and PACKET: messages of one packet, which tell what a byte takes. */
    enum { LOADED, SINGLE, TRUSTED, FIRST, SHORT, PACKET, RUNS };
    static const struct dfs_load runs[RUNS] = {[LOADED] = {.bytes = CHUNK, .loaded = true},
                                               [SINGLE] = {.bytes = CHUNK},
                                               [TRUSTED] = {.bytes = 64, .trust = DFS_TICKET},
                                               [FIRST] = {.bytes = 64, .trust = DFS_FIRST},
                                               [SHORT] = {.bytes = 840},
                                               [PACKET] = {.bytes = 1864}};
    struct dfs_policy policy[POLICIES];
    struct dfs_outcome o[RUNS][POLICIES];
    struct sheet_claim *claim[POLICIES][3][DFS_KINDS];
    int count = 0, code = SPIN_OK;
    for (int r = 0; r < RUNS && !code; r++)
        code = measure(context, &runs[r], policy, o[r], &count, err);
    if (code)
        return code;
    struct sheet_panel *p = dfs_table(s, "loaded", "Handlers of the first data node, under load");
    for (int i = 0; i < count; i++)
        dfs_table_row(s, p, policy[i].name, o[LOADED][i].handler);
    p = dfs_table(s, "single", "Handlers, one write at a time");
    for (int i = 0; i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "%.20s, parity node", policy[i].name);
        dfs_table_row(s, p, policy[i].name, o[SINGLE][i].handler);
        dfs_table_row(s, p, name, o[SINGLE][i].last);
    }
    code = dfs_changes(context, s, &policy[0], experiment_size(context, CHUNK * policy[0].copies),
                       err);
    dfs_note_kinds(context, s);
    if (code || experiment_one_row(context))
        return code;
    dfs_judge(s, policy, o[LOADED], POLICIES, "C8", published, claim);
    explain(claim, o[SINGLE], o[TRUSTED], o[FIRST]);
    for (int i = 0; i < POLICIES; i++) {
        double loop = (dfs_instructions(&o[PACKET][i].handler[1]) -
                       dfs_instructions(&o[SHORT][i].handler[1])) /
                      (runs[PACKET].bytes - runs[SHORT].bytes);
        struct sheet_claim *c = sheet_claim(s, "C8", "", loop, per_byte[i],
                                            "%s: instructions per byte", policy[i].name);
        sheet_because(c, "2 + 2m and 0.3 for the loop; PULP's loads and stores advance their "
                         "address themselves or add a register to it, and its loops are free");
    }
    sheet_note(s,
               "%u B per data node: packets of 1,864 and then 2,048 B; load: 2 clients with 4 "
               "writes under way each. Durations are medians, instructions means.",
               CHUNK);
    dfs_note_alone(s);
    return SPIN_OK;
}
