/* DFS building blocks, figure 15: erasure-coded writes at 100 Gbit/s, coded packet by packet by
 * handlers (sPIN-TriEC) and chunk by chunk by an accelerator on the card (INEC-TriEC). */
#include "figures.h"

#include "dfs22/dfs22_world.h"

enum { RS32, RS63, CODES };
struct code {
    uint32_t k, m;
};
enum { SPIN, INEC, WAYS };
static const enum dfs_protocol ways[WAYS] = {DFS_SPIN_RS, DFS_TRIEC};
static const uint32_t latency_kib[] = {1, 4, 16, 64, 512}, bandwidth_kib[] = {1, 16, 512};
enum {
    LATENCIES = sizeof latency_kib / sizeof latency_kib[0],
    BANDWIDTHS = sizeof bandwidth_kib / sizeof bandwidth_kib[0]
};

static int measure(const struct experiment_context *context, bool bandwidth,
                   const struct code *code, int way, uint32_t bytes, double *value,
                   struct spin_error *err) {
    enum { UNDER_WAY = 1 << 20, MOST = 16 };
    struct dfs_write write = {.protocol = ways[way],
                              .copies = code->k,
                              .parities = code->m,
                              .bytes = bytes,
                              .slow = true};
    struct dfs_outcome o;
    if (bandwidth) {
        uint32_t window = UNDER_WAY / bytes;
        write.window = window < 2 ? 2 : window > MOST ? MOST : window;
        write.writes = 2 * write.window;
    }
    int failed = dfs_write(context, &write, &o, err);
    *value = bandwidth ? o.gbit : o.us;
    return failed;
}

static int panel(const struct experiment_context *context, struct sheet *s, bool bandwidth,
                 const struct code code[CODES], int codes, double value[][CODES][WAYS],
                 struct spin_error *err) {
    struct sheet_panel *p =
        bandwidth ? sheet_panel(s, "bandwidth", "Data that is coded, writes of one client")
                  : sheet_panel(s, "latency", "Time of a coded write");
    int sizes = experiment_sizes(context, bandwidth ? BANDWIDTHS : LATENCIES);
    p->log_x = true;
    p->log_y = !bandwidth;
    sheet_column(p, "B", 0, "write");
    for (int c = 0; c < codes; c++)
        for (int w = 0; w < WAYS; w++)
            sheet_column(p, bandwidth ? "Gbit/s" : "us", bandwidth ? 2 : 3, "%s, RS(%u,%u)",
                         dfs_protocol_name(ways[w]), code[c].k, code[c].m);
    for (int z = 0; z < sizes; z++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        uint32_t kib = bandwidth ? bandwidth_kib[z] : latency_kib[z];
        row->value[0] = experiment_size(context, kib << 10);
        for (int c = 0; c < codes; c++)
            for (int w = 0; w < WAYS; w++) {
                int failed = measure(context, bandwidth, &code[c], w, (uint32_t)row->value[0],
                                     &value[z][c][w], err);
                if (failed)
                    return failed;
                row->value[1 + WAYS * c + w] = value[z][c][w];
            }
    }
    return SPIN_OK;
}

int dfs22_fig15(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const char why[] = "INEC here is a model whose accelerator takes no time and whose "
                              "operations wait for nobody; the paper's values are of hardware";
    struct code code[CODES] = {[RS32] = {3, 2}, [RS63] = {6, 3}};
    double us[LATENCIES][CODES][WAYS], gbit[BANDWIDTHS][CODES][WAYS], most = 0;
    int codes = context->setup.ranks ? 1 : CODES;
    int failed = dfs_check_bytes(context, err);
    if (!failed)
        failed = dfs_code(context, &code[0].k, &code[0].m, err);
    if (!failed)
        failed = panel(context, s, false, code, codes, us, err);
    if (!failed)
        failed = panel(context, s, true, code, codes, gbit, err);
    if (failed || experiment_one_row(context))
        return failed;
    for (int z = 0; z < LATENCIES; z++)
        for (int c = 0; c < CODES; c++)
            if (us[z][c][INEC] / us[z][c][SPIN] > most)
                most = us[z][c][INEC] / us[z][c][SPIN];
    struct sheet_claim *c =
        sheet_claim(s, "C7", "", most, 2, "INEC-TriEC's time over sPIN-TriEC's, at most");
    sheet_because(c, "%s", why);
    c = sheet_claim(s, "C7", "", gbit[0][RS63][SPIN] / gbit[0][RS63][INEC], 29,
                    "1 KiB, RS(6,3): sPIN-TriEC's bandwidth over INEC-TriEC's");
    sheet_because(c, "%s", why);
    c = sheet_claim(s, "C7", "",
                    gbit[BANDWIDTHS - 1][RS63][SPIN] / gbit[BANDWIDTHS - 1][RS63][INEC], 3.3,
                    "512 KiB, RS(6,3): the same");
    sheet_because(c, "%s", why);
    c = sheet_claim(s, "C7", "", gbit[BANDWIDTHS - 1][RS63][SPIN] / gbit[0][RS63][SPIN], 1 - 0.12,
                    "RS(6,3): sPIN-TriEC's bandwidth, 512 KiB over 1 KiB");
    sheet_because(c, "a write of 1 KiB is nine requests of ours, each checked: header handlers and "
                     "messages limit it, not the coding");
    sheet_note(s, "The client's packets to the data nodes take turns. Bandwidth: bytes "
                  "of the writes over the time from the first put to the last answer, 1 MiB or 16 "
                  "writes under way.");
    sheet_note(s,
               "INEC-TriEC: a chunk goes to host memory, is read by the card's accelerator, sent "
               "as m chunks, and read and added up by those of the parity nodes.");
    dfs_note_world(s, 100);
    return SPIN_OK;
}
