/* SC'17 figures 3b and 3c: ping-pong on the integrated and the discrete card; and 3d: remote
 * accumulation. The paper has curves and says in words what they show (A9, A10). */
#include "figures.h"

#include "sc17/microbench.h"

#define MTU 4096u

enum { SIZES = 17 }; /* 4 B to 256 KiB */

static uint32_t size_at(int i) {
    return 4u << i;
}

static int measure(const struct experiment_context *context, const char *preset,
                   double us[SIZES][P4_VARIANTS], struct spin_error *err) {
    for (int i = 0; i < experiment_sizes(context, SIZES); i++)
        for (int v = 0; v < P4_VARIANTS; v++) {
            const struct p4_setup setup = {.variant = (enum p4_variant)v,
                                           .bytes = experiment_size(context, size_at(i)),
                                           .world = {.preset = preset}};
            int code = microbench(context, p4_pingpong, setup, &us[i][v], err);
            if (code)
                return code;
        }
    return SPIN_OK;
}

static void tabulate(const struct experiment_context *context, struct sheet *s, const char *title,
                     double us[SIZES][P4_VARIANTS]) {
    struct sheet_panel *p = sheet_panel(s, "pingpong", title);
    p->log_x = p->log_y = true;
    sheet_column(p, "B", 0, "message");
    for (int v = 0; v < P4_VARIANTS; v++)
        sheet_column(p, "us", 3, "%s", p4_variant_name((enum p4_variant)v));
    for (int i = 0; i < experiment_sizes(context, SIZES); i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = experiment_size(context, size_at(i));
        for (int v = 0; v < P4_VARIANTS; v++)
            row->value[1 + v] = us[i][v];
    }
}

/* What A9 says of either card. */
static void judge(struct sheet *s, double us[SIZES][P4_VARIANTS]) {
    bool spin_first = true, p4_second = true, store_first = true, stream_wins = true;
    double same = 0;
    for (int i = 0; i < SIZES; i++) {
        bool one_packet = size_at(i) <= MTU;
        spin_first &= us[i][P4_STREAM] < us[i][P4_TRIGGERED];
        store_first &= us[i][P4_STORE] < us[i][P4_RDMA];
        p4_second &= us[i][P4_TRIGGERED] < us[i][P4_RDMA];
        if (!one_packet)
            stream_wins &= us[i][P4_STREAM] < us[i][P4_STORE];
        else if (us[i][P4_STORE] / us[i][P4_STREAM] - 1 > same)
            same = us[i][P4_STORE] / us[i][P4_STREAM] - 1;
    }
    sheet_shape(s, "A9", spin_first, "sPIN stream is below Portals 4 at every size");
    sheet_shape(s, "A9", p4_second, "Portals 4 is below RDMA at every size");
    sheet_shape(s, "A9", store_first, "sPIN store is below RDMA at every size");
    sheet_shape(s, "A9", stream_wins, "stream beats store above one packet");
    sheet_shape(s, "A9", same < 0.05, "store is stream for one packet (within 5 %%)");
}

static int fastest(const double us[P4_VARIANTS]) {
    int best = P4_RDMA;
    for (int v = 0; v < P4_VARIANTS; v++)
        if (us[v] <= us[best])
            best = v;
    return best;
}

/* Who wins, by how much, and why. */
static void note_winner(struct sheet *s, double us[SIZES][P4_VARIANTS]) {
    const double *small = us[1], *large = us[SIZES - 1];
    int best = fastest(small);
    sheet_note(s,
               "At 8 B %s wins%s: %.0f ns, %.0f %% below Portals 4 and %.0f %% below RDMA. The "
               "card answers from its packet buffer: no DMA at the target, and no CPU (a look 51 "
               "ns, matching 51 ns, o 65 ns).",
               p4_variant_name((enum p4_variant)best),
               small[P4_STORE] == small[P4_STREAM] ? ", store alike" : "", 1000 * small[best],
               100 * (1 - small[best] / small[P4_TRIGGERED]),
               100 * (1 - small[best] / small[P4_RDMA]));
    best = fastest(large);
    sheet_note(s,
               "At 256 KiB %s wins: %.2f us, %.0f %% below Portals 4 and %.0f %% below RDMA. A "
               "stream's answer follows each packet; the others' waits for the last one, and the "
               "message crosses the wire once more after that.",
               p4_variant_name((enum p4_variant)best), large[best],
               100 * (1 - large[best] / large[P4_TRIGGERED]),
               100 * (1 - large[best] / large[P4_RDMA]));
    sheet_note(s,
               "sPIN store of several packets is Portals 4 plus its handlers: %.1f %% above it at "
               "8 KiB. Half of the time there and back; docs/world.md has every constant.",
               100 * (us[11][P4_STORE] / us[11][P4_TRIGGERED] - 1));
}

int sc17_fig3b(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double us[SIZES][P4_VARIANTS];
    int code = measure(context, "sc17-int", us, err);
    if (code)
        return code;
    tabulate(context, s, "Ping-pong, integrated card: half round trip", us);
    if (experiment_one_row(context))
        return SPIN_OK;
    judge(s, us);
    note_winner(s, us);
    return SPIN_OK;
}

int sc17_fig3c(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double us[SIZES][P4_VARIANTS], integrated[SIZES][P4_VARIANTS];
    int code = measure(context, "sc17-dis", us, err);
    if (!code)
        code = measure(context, "sc17-int", integrated, err);
    if (code)
        return code;
    tabulate(context, s, "Ping-pong, discrete card: half round trip", us);
    if (experiment_one_row(context))
        return SPIN_OK;
    judge(s, us);
    bool larger = true;
    for (int i = 0; i < SIZES; i++)
        larger &=
            us[i][P4_RDMA] - us[i][P4_STREAM] > integrated[i][P4_RDMA] - integrated[i][P4_STREAM];
    sheet_shape(s, "A9", larger, "the gap is larger than on the integrated card, at every size");
    note_winner(s, us);
    return SPIN_OK;
}

/* ---- 3d ---------------------------------------------------------------------------------------
 */

enum { FIRST = 1 }; /* a complex number has 8 bytes */

int sc17_fig3d(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const char *const presets[] = {"sc17-int", "sc17-dis"};
    static const enum p4_variant variants[] = {P4_RDMA, P4_STREAM};
    double us[SIZES][2][2];
    struct sheet_panel *p = sheet_panel(s, "accumulate", "Remote accumulation of complex numbers");
    p->log_x = p->log_y = true;
    sheet_column(p, "B", 0, "message");
    for (int c = 0; c < 2; c++)
        for (int v = 0; v < 2; v++)
            sheet_column(p, "us", 3, "%s (%s)", v ? "sPIN" : "RDMA/P4", c ? "dis" : "int");
    for (int i = FIRST; i < FIRST + experiment_sizes(context, SIZES - FIRST); i++) {
        uint32_t bytes = experiment_size(context, size_at(i));
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = bytes;
        for (int c = 0; c < 2; c++)
            for (int v = 0; v < 2; v++) {
                const struct p4_setup setup = {
                    .variant = variants[v], .bytes = bytes, .world = {.preset = presets[c]}};
                int code = microbench(context, p4_accumulate, setup, &us[i][c][v], err);
                if (code)
                    return code;
                row->value[1 + 2 * c + v] = us[i][c][v];
            }
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    double small_int = us[FIRST][0][1] - us[FIRST][0][0];
    double small_dis = us[FIRST][1][1] - us[FIRST][1][0];
    sheet_shape(s, "A10", small_int > 0 && small_dis > 0,
                "sPIN is slower for small messages, on both cards");
    sheet_shape(s, "A10", small_dis > small_int, "more so on the discrete card");
    struct sheet_claim *c =
        sheet_claim(s, "A10", "ns", 1000 * small_dis, 250, "8 B, dis: slower by one DMA latency");
    sheet_because(c,
                  "the fetch pays the latency twice, as appendix C.3.2 says; less what RDMA's CPU "
                  "takes to match and multiply");
    for (int k = 0; k < 2; k++) {
        c = sheet_shape(s, "A10", us[SIZES - 1][k][1] < us[SIZES - 1][k][0],
                        "sPIN is faster for large messages (256 KiB, %s)", k ? "dis" : "int");
        sheet_because(c, "%.2f times", us[SIZES - 1][k][0] / us[SIZES - 1][k][1]);
    }
    sheet_note(s, "From the sender's call until the target's program knows. The paper's text says "
                  "double complex, its listing has floats: these are floats, 8 B a number.");
    sheet_note(s,
               "The host's core is charged 4 cycles per product (scalar code, ours) or three times "
               "the data at 150 GiB/s, whichever is longer; HPUs run the handler as compiled, one "
               "instruction per cycle.");
    return SPIN_OK;
}
