/* DFS building blocks, figures 9 and 10: writes to k copies. Latency over size (k = 2, 4) and over
 * k (4 KiB, 512 KiB), and what one storage node sustains. */
#include "figures.h"

#include "base/error.h"
#include "dfs22/dfs22_world.h"

/* Those with processors twice: with SC'17's memory, and with cores that copy DFS_CORE_GBS. */
enum { FLAT, HYPERLOOP, CPU_RING, CPU_PBT, CORE_RING, CORE_PBT, RING, PBT, FIRST, SHOWN };
static const struct {
    const char *name;
    enum dfs_protocol protocol;
} shown[SHOWN] = {
    [FLAT] = {"RDMA-Flat", DFS_FLAT},
    [HYPERLOOP] = {"RDMA-HyperLoop", DFS_HYPERLOOP},
    [CPU_RING] = {"CPU-Ring", DFS_CPU_RING},
    [CPU_PBT] = {"CPU-PBT", DFS_CPU_PBT},
    [CORE_RING] = {"CPU-Ring, 12 GB/s", DFS_CPU_RING},
    [CORE_PBT] = {"CPU-PBT, 12 GB/s", DFS_CPU_PBT},
    [RING] = {"sPIN-Ring", DFS_SPIN_RING},
    [PBT] = {"sPIN-PBT", DFS_SPIN_PBT},
    [FIRST] = {"sPIN-Ring, first shown", DFS_SPIN_RING},
};
static const uint32_t kib[] = {1, 4, 16, 32, 128, 512};
enum { UP_TO_16 = 3, SIZES = sizeof kib / sizeof kib[0], FACTORS = 4 }; /* k = 2, 4, 6, 8 */

static int measure(const struct experiment_context *context, uint32_t copies, uint32_t bytes,
                   struct sheet_row *row, double us[SHOWN], uint32_t chunk[SHOWN],
                   struct spin_error *err) {
    for (int i = 0; i < SHOWN; i++) {
        const struct dfs_write write = {.protocol = shown[i].protocol,
                                        .copies = copies,
                                        .bytes = bytes,
                                        .core_copies = i == CORE_RING || i == CORE_PBT,
                                        .trust = i == FIRST ? DFS_FIRST : DFS_KNOWN};
        struct dfs_outcome o;
        int code = dfs_write_best(context, &write, &o, err);
        if (code)
            return code;
        row->value[1 + i] = us[i] = o.us;
        chunk[i] = o.chunk;
    }
    return SPIN_OK;
}

static void name_columns(struct sheet_panel *p, const char *unit, const char *first) {
    p->log_y = true;
    sheet_column(p, unit, 0, "%s", first);
    for (int i = 0; i < SHOWN; i++)
        sheet_column(p, "us", 3, "%s", shown[i].name);
}

static int over_sizes(const struct experiment_context *context, struct sheet *s, uint32_t copies,
                      double us[SIZES][SHOWN], uint32_t chunk[SIZES][SHOWN],
                      struct spin_error *err) {
    char name[16], title[64];
    snprintf(name, sizeof name, "k%u", copies);
    snprintf(title, sizeof title, "Time of a write to %u copies", copies);
    struct sheet_panel *p = sheet_panel(s, name, title);
    name_columns(p, "B", "write");
    p->log_x = true;
    for (int z = 0; z < (context->setup.bytes ? 1 : SIZES); z++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        uint32_t bytes = context->setup.bytes ? (uint32_t)context->setup.bytes : kib[z] << 10;
        row->value[0] = bytes;
        int code = measure(context, copies, bytes, row, us[z], chunk[z], err);
        if (code)
            return code;
    }
    return SPIN_OK;
}

/* ---- figure 9 ---- */

enum { ONE_COPY, FOUR_RING, FOUR_PBT, FLOODS };
static const uint32_t flood_sizes[] = {1024, 4096, 8192, 65536};
enum { AT_8_KIB = 2, FLOOD_SIZES = sizeof flood_sizes / sizeof flood_sizes[0] };
static const struct {
    const char *name;
    enum dfs_protocol protocol;
    uint32_t copies;
} floods[FLOODS] = {[ONE_COPY] = {"one copy", DFS_SPIN_RING, 1},
                    [FOUR_RING] = {"sPIN-Ring, k = 4", DFS_SPIN_RING, 4},
                    [FOUR_PBT] = {"sPIN-PBT, k = 4", DFS_SPIN_PBT, 4}};

static int goodput(const struct experiment_context *context, struct sheet *s,
                   double gbit[FLOOD_SIZES][FLOODS], struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, "goodput", "Goodput of a storage node");
    p->log_x = true;
    sheet_column(p, "B", 0, "write");
    for (int f = 0; f < FLOODS; f++)
        sheet_column(p, "Gbit/s", 1, "%s", floods[f].name);
    for (int z = 0; z < (context->setup.bytes ? 1 : FLOOD_SIZES); z++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = context->setup.bytes ? (double)context->setup.bytes : flood_sizes[z];
        for (int f = 0; f < FLOODS; f++) {
            struct dfs_write write = {.protocol = floods[f].protocol,
                                      .copies = floods[f].copies,
                                      .alone = true,
                                      .bytes = (uint32_t)row->value[0]};
            struct dfs_outcome o;
            dfs_flood(&write);
            int code = dfs_write(context, &write, &o, err);
            if (code)
                return code;
            row->value[1 + f] = gbit[z][f] = o.gbit;
        }
    }
    return SPIN_OK;
}

/* The best of those without handlers, with processors of one kind. */
static double best_other(const double us[SHOWN], bool cores) {
    double best = us[FLAT] < us[HYPERLOOP] ? us[FLAT] : us[HYPERLOOP];
    const double *cpu = &us[cores ? CORE_RING : CPU_RING];
    for (int i = 0; i < 2; i++)
        best = cpu[i] < best ? cpu[i] : best;
    return best;
}

static double best_spin(const double us[SHOWN]) {
    return us[RING] < us[PBT] ? us[RING] : us[PBT];
}

static double most_gain(double us[SIZES][SHOWN], bool cores, int *at) {
    double most = 0;
    for (int z = 0; z < SIZES; z++) {
        double gain = best_other(us[z], cores) / best_spin(us[z]);
        *at = gain > most ? z : *at;
        most = gain > most ? gain : most;
    }
    return most;
}

static bool flat_is_lowest(double us[SIZES][SHOWN]) {
    bool lowest = true;
    for (int z = 0; z < UP_TO_16; z++)
        for (int i = 0; i < SHOWN; i++)
            lowest &= us[z][FLAT] <= us[z][i];
    return lowest;
}

static void judge_latency(struct sheet *s, double us[2][SIZES][SHOWN],
                          uint32_t chunk[2][SIZES][SHOWN]) {
    static const double gains[] = {2, 2.16};
    struct sheet_claim *c;
    for (int i = 0; i < 2; i++)
        sheet_shape(s, "C5", flat_is_lowest(us[i]), "k = %d: RDMA-Flat lowest up to 16 KiB",
                    2 + 2 * i);
    c = sheet_claim(s, "C5", "", us[0][0][FLAT] / us[0][0][RING], 1 - 0.27,
                    "1 KiB, k = 2: RDMA-Flat's time over sPIN-Ring's");
    sheet_because(c,
                  "three handlers per node, %.2f us with MACs that are computed; RDMA-Flat has no "
                  "software on any node (o = 65 ns, a look 51 ns)",
                  us[0][0][FIRST]);
    for (int i = 0; i < 2; i++)
        for (int cores = 0; cores < 2; cores++) {
            int at = 0;
            double gain = most_gain(us[i], cores, &at);
            const double *then = us[i][at], spin = best_spin(then);
            c = sheet_claim(s, "C5", "", gain, gains[i],
                            "k = %d%s: best alternative's time over sPIN's, at most", 2 + 2 * i,
                            cores ? ", cores of 12 GB/s" : "");
            sheet_because(
                c,
                "at %u KiB RDMA-Flat takes %.2f times sPIN's time, HyperLoop, whose chunks "
                "overlap here without a gap, %.2f, CPU-Ring %.2f, CPU-PBT %.2f; at 512 KiB "
                "RDMA-Flat %.2f",
                kib[at], then[FLAT] / spin, then[HYPERLOOP] / spin,
                then[cores ? CORE_RING : CPU_RING] / spin, then[cores ? CORE_PBT : CPU_PBT] / spin,
                us[i][SIZES - 1][FLAT] / best_spin(us[i][SIZES - 1]));
        }
    sheet_shape(s, "C5", us[0][0][HYPERLOOP] > us[0][0][CPU_RING],
                "1 KiB, k = 2: HyperLoop pays for its descriptors");
    sheet_note(s,
               "Best chunks of 512 KiB, found by search: CPU-Ring %u KiB (k = 2) and %u KiB (k = "
               "4), CPU-PBT %u and %u KiB, HyperLoop %u and %u KiB.",
               chunk[0][SIZES - 1][CPU_RING] / 1024, chunk[1][SIZES - 1][CPU_RING] / 1024,
               chunk[0][SIZES - 1][CPU_PBT] / 1024, chunk[1][SIZES - 1][CPU_PBT] / 1024,
               chunk[0][SIZES - 1][HYPERLOOP] / 1024, chunk[1][SIZES - 1][HYPERLOOP] / 1024);
}

int dfs22_fig9(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double us[2][SIZES][SHOWN], gbit[FLOOD_SIZES][FLOODS];
    uint32_t chunk[2][SIZES][SHOWN];
    uint32_t asked = context->setup.ranks ? context->setup.ranks - 1 : 0;
    int code = dfs_check_copies(context, err);
    for (int i = 0; !code && i < (asked ? 1 : 2); i++)
        code = over_sizes(context, s, asked ? asked : 2 + 2 * (uint32_t)i, us[i], chunk[i], err);
    if (!code && !asked)
        code = goodput(context, s, gbit, err);
    if (code || experiment_one_row(context))
        return code;
    judge_latency(s, us, chunk);
    struct sheet_claim *c = sheet_bound(s, "C5", "Gbit/s", gbit[AT_8_KIB][FOUR_RING], DFS_GBIT,
                                        false, "8 KiB: goodput of sPIN-Ring, line rate");
    sheet_because(c, "a request's head takes %.1f %% of it; at 64 KiB ours has %.0f Gbit/s",
                  100.0 * 184 / (8192 + 184), gbit[FLOOD_SIZES - 1][FOUR_RING]);
    sheet_claim(s, "C5", "", gbit[FLOOD_SIZES - 1][FOUR_PBT] / gbit[FLOOD_SIZES - 1][FOUR_RING],
                0.5, "64 KiB: goodput of sPIN-PBT over sPIN-Ring's");
    sheet_shape(s, "C5", gbit[0][FOUR_RING] < gbit[AT_8_KIB][FOUR_RING],
                "1 KiB: three handlers for one packet limit the goodput");
    sheet_note(s, "Goodput is of two windows of 4 clients, which go in step: within 2 %%.");
    sheet_note(s,
               "The paper says nothing of its hosts' memory. SC'17's has 150 GiB/s: copies of 75 "
               "GiB/s. One core of today copies some %d GB/s (2 MiB, measured).",
               DFS_CORE_GBS);
    dfs_note_world(s, 400);
    sheet_note(s, "Goodput is that of cards alone, whose host is at no distance, as in the paper's "
                  "appendix.");
    return SPIN_OK;
}

/* ---- figure 10 ---- */

int dfs22_fig10(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const uint32_t sizes[] = {4096, 512 << 10};
    double us[2][FACTORS][SHOWN];
    uint32_t chunk[SHOWN], asked = context->setup.ranks ? context->setup.ranks - 1 : 0;
    int code = dfs_check_copies(context, err);
    for (int i = 0; !code && i < (context->setup.bytes ? 1 : 2); i++) {
        uint32_t bytes = context->setup.bytes ? (uint32_t)context->setup.bytes : sizes[i];
        char name[24], title[64];
        snprintf(name, sizeof name, "%uB", bytes);
        snprintf(title, sizeof title, "Time of a write of %u B", bytes);
        struct sheet_panel *p = sheet_panel(s, name, title);
        name_columns(p, "", "copies");
        for (int f = 0; !code && f < (asked ? 1 : FACTORS); f++) {
            struct sheet_row *row = sheet_row(s, p, NULL);
            row->value[0] = asked ? asked : 2 + 2 * (uint32_t)f;
            code = measure(context, (uint32_t)row->value[0], bytes, row, us[i][f], chunk, err);
        }
    }
    if (code || experiment_one_row(context))
        return code;
    bool flat_lowest = true, pbt_lower = true;
    for (int f = 0; f < FACTORS; f++) {
        for (int i = 0; i < SHOWN; i++)
            flat_lowest &= us[0][f][FLAT] <= us[0][f][i];
        pbt_lower &= f == 0 || us[0][f][PBT] < us[0][f][RING];
    }
    const double(*large)[SHOWN] = us[1];
    sheet_shape(s, "C5", flat_lowest, "4 KiB: RDMA-Flat lowest for every k");
    sheet_shape(s, "C5", pbt_lower, "4 KiB: sPIN-PBT below sPIN-Ring for k > 2");
    sheet_claim(s, "C5", "", large[3][FLAT] / large[0][FLAT], 4,
                "512 KiB: RDMA-Flat grows linearly, k = 8 over k = 2");
    struct sheet_claim *c = sheet_shape(
        s, "C5", large[3][RING] / large[0][RING] < large[3][CPU_RING] / large[0][CPU_RING],
        "512 KiB: sPIN-Ring grows less with k than CPU-Ring");
    sheet_because(c, "per node %.2f us, CPU-Ring %.2f; %.2f with MACs that are computed",
                  (large[3][RING] - large[0][RING]) / 6,
                  (large[3][CPU_RING] - large[0][CPU_RING]) / 6,
                  (large[3][FIRST] - large[0][FIRST]) / 6);
    c = sheet_shape(s, "C5", best_spin(large[3]) < best_other(large[3], false),
                    "512 KiB, k = 8: sPIN below every alternative");
    sheet_because(c, "%.2f of the best one's time",
                  best_spin(large[3]) / best_other(large[3], false));
    dfs_note_world(s, 400);
    return SPIN_OK;
}
