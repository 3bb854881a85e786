/* SC'17's microbenchmarks with PsPIN cards beside the paper's: the same programs and handler
 * images, the same network and hosts, another datapath under the card's logic. Nothing of it was
 * published; what must hold is the paper's claim that sPIN gains on either card (A9, A10, A12). */
#include "figures.h"

#include <string.h>

#include "sc17/microbench.h"

enum { SC17, PSPIN, CARDS };
static const char *const on_pspin[] = {"card=pspin"};
enum { SIZES = 15, STEPS = 10 }; /* 8 B to 128 KiB; 2 to 1,024 ranks */

static uint32_t size_at(int i) {
    return 8u << i;
}

static int run(const struct experiment_context *context, microbench_run *what, int card,
               enum p4_variant variant, uint32_t ranks, uint32_t bytes, double *us,
               struct spin_error *err) {
    const struct p4_setup setup = {.variant = variant,
                                   .ranks = ranks,
                                   .bytes = bytes,
                                   .world = {.set = on_pspin, .set_count = card == PSPIN}};
    return microbench(context, what, setup, us, err);
}

/* One of them, if the caller wants it so. */
static bool has_card(const struct experiment_context *context, int card) {
    const char *chosen = context->setup.card;
    return !chosen || strcmp(chosen, card == PSPIN ? "pspin" : "sc17") == 0;
}

/* Columns of RDMA and sPIN on either card; rows of sizes, or of ranks for the broadcast. */
static int panel(const struct experiment_context *context, struct sheet *s, const char *name,
                 const char *title, microbench_run *what, int rows, bool by_ranks,
                 double us[][CARDS][2], struct spin_error *err) {
    static const enum p4_variant variants[] = {P4_RDMA, P4_STREAM};
    struct sheet_panel *p = sheet_panel(s, name, title);
    p->log_x = true;
    p->log_y = !by_ranks;
    sheet_column(p, by_ranks ? "" : "B", 0, by_ranks ? "ranks" : "message");
    const struct experiment_setup *setup = &context->setup;
    for (int c = 0; c < CARDS; c++)
        for (int v = 0; v < 2 && has_card(context, c); v++)
            sheet_column(p, "us", 3, "%s, %s", v ? "sPIN" : "RDMA", c ? "PsPIN" : "SC'17");
    rows = by_ranks ? (setup->ranks ? 1 : rows) : experiment_sizes(context, rows);
    for (int i = 0; i < rows; i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        uint32_t bytes = experiment_size(context, by_ranks ? 65536 : size_at(i)), column = 1;
        uint32_t ranks = setup->ranks ? setup->ranks : by_ranks ? 2u << i : 2;
        row->value[0] = by_ranks ? ranks : bytes;
        for (int c = 0; c < CARDS; c++)
            for (int v = 0; v < 2 && has_card(context, c); v++) {
                int code = run(context, what, c, variants[v], ranks, bytes, &us[i][c][v], err);
                if (code)
                    return code;
                row->value[column++] = us[i][c][v];
            }
    }
    return SPIN_OK;
}

int sc17_cards(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double pingpong[SIZES][CARDS][2], accumulate[SIZES][CARDS][2], broadcast[STEPS][CARDS][2];
    int code = panel(context, s, "pingpong", "Ping-pong: half round trip", p4_pingpong, SIZES,
                     false, pingpong, err);
    if (!code)
        code = panel(context, s, "accumulate", "Remote accumulation of complex numbers",
                     p4_accumulate, SIZES, false, accumulate, err);
    char title[40];
    snprintf(title, sizeof title, "Broadcast of %u B", (unsigned)context->setup.bytes);
    if (!code)
        code = panel(context, s, "broadcast", context->setup.bytes ? title : "Broadcast of 64 KiB",
                     p4_broadcast, STEPS, true, broadcast, err);
    if (code || experiment_one_row(context) || context->setup.card)
        return code;
    bool first = true;
    for (int i = 0; i < SIZES; i++)
        first &= pingpong[i][PSPIN][1] < pingpong[i][PSPIN][0];
    const double(*large)[2] = accumulate[SIZES - 1], (*all)[2] = broadcast[STEPS - 1];
    sheet_shape(s, "A9", first, "ping-pong on PsPIN: sPIN is below RDMA at every size");
    sheet_shape(s, "A10", large[PSPIN][1] < large[PSPIN][0],
                "accumulation on PsPIN: sPIN is faster for large messages");
    sheet_shape(s, "A12", all[PSPIN][1] < all[PSPIN][0],
                "broadcast of 64 KiB, 1,024 ranks, PsPIN: sPIN is below RDMA");
    sheet_note(s,
               "SC'17's integrated card has 4 HPUs at 2.5 GHz, any of which takes a packet where "
               "it lies. PsPIN has 32 at 1 GHz; each packet is written to L2, copied to L1 and "
               "given to an HPU, and its host is at no distance.");
    sheet_note(
        s,
        "At 8 B sPIN's ping-pong takes %.0f ns on SC'17's card and %.0f ns on PsPIN; "
        "accumulation of 4 KiB, one packet on one HPU, %.1f and %.1f us, of %u KiB on all of "
        "them %.1f and %.1f us.",
        1000 * pingpong[0][SC17][1], 1000 * pingpong[0][PSPIN][1], accumulate[9][SC17][1],
        accumulate[9][PSPIN][1], size_at(SIZES - 1) / 1024, large[SC17][1], large[PSPIN][1]);
    int slower = 0;
    for (int i = 0; i < STEPS; i++)
        slower += broadcast[i][PSPIN][1] >= broadcast[i][PSPIN][0];
    sheet_note(s,
               "On PsPIN the broadcast by handlers is slower than RDMA at %d of %d numbers of "
               "ranks: a packet passes L2, L1 and the outbound engine whole on every level of the "
               "tree, which SC'17's card does not charge.",
               slower, STEPS);
    return SPIN_OK;
}
