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
enum { LATENCY, WRITES, ENCODING, PANELS };
static const struct {
    const char *name, *title, *unit;
    int sizes, kib[5];
} panels[PANELS] = {
    [LATENCY] = {"latency", "Time of a coded write", "us", 5, {1, 4, 16, 64, 512}},
    [WRITES] = {"bandwidth", "Writes of one client, data", "Gbit/s", 2, {1, 512}},
    [ENCODING] = {"encoding", "One data node, parities that it makes", "Gbit/s", 2, {1, 512}},
};
enum { SIZES = 5 };

/* A data node does the same for each byte, whatever its k: alone it is that of RS(1,m). */
static int measure(const struct experiment_context *context, int panel, const struct code *code,
                   int way, uint32_t bytes, double *value, struct spin_error *err) {
    enum { UNDER_WAY = 1 << 20, MOST = 16, BUSY = 192 << 10, HPUS_BUSY = 96 };
    struct dfs_write write = {.protocol = ways[way],
                              .copies = panel == ENCODING ? 1 : code->k,
                              .parities = code->m,
                              .bytes = bytes,
                              .slow = true,
                              .alone = panel == ENCODING && way == SPIN};
    struct dfs_outcome o;
    if (panel == WRITES) {
        uint32_t window = UNDER_WAY / bytes;
        write.window = window < 2 ? 2 : window > MOST ? MOST : window;
        write.writes = window <= 2 ? 3 : 2 * write.window;
    } else if (panel == ENCODING) {
        uint32_t window = BUSY / bytes;
        write.window = window < 1 ? 1 : window > HPUS_BUSY ? HPUS_BUSY : window;
        write.writes = window < 1 ? 2 : way == INEC ? 2 * write.window : 4 * write.window;
    }
    int failed = dfs_write(context, &write, &o, err);
    *value = panel == LATENCY ? o.us : panel == WRITES ? o.gbit : o.gbit * code->m;
    return failed;
}

static int fill(const struct experiment_context *context, struct sheet *s, int panel,
                const struct code code[CODES], int codes, double value[SIZES][CODES][WAYS],
                struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, panels[panel].name, panels[panel].title);
    p->log_x = true;
    p->log_y = panel == LATENCY;
    sheet_column(p, "B", 0, "write");
    for (int c = 0; c < codes; c++)
        for (int w = 0; w < WAYS; w++)
            sheet_column(p, panels[panel].unit, panel == LATENCY ? 3 : 2, "%s, RS(%u,%u)",
                         dfs_protocol_name(ways[w]), code[c].k, code[c].m);
    for (int z = 0; z < experiment_sizes(context, panels[panel].sizes); z++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = experiment_size(context, (uint32_t)panels[panel].kib[z] << 10);
        for (int c = 0; c < codes; c++)
            for (int w = 0; w < WAYS; w++) {
                int failed = measure(context, panel, &code[c], w, (uint32_t)row->value[0],
                                     &value[z][c][w], err);
                if (failed)
                    return failed;
                row->value[1 + WAYS * c + w] = value[z][c][w];
            }
    }
    return SPIN_OK;
}

int dfs22_fig15(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const char why[] =
        "the paper has INEC's values from another paper, of hardware; here its "
        "accelerator takes no time and its operations wait for nobody";
    struct code code[CODES] = {[RS32] = {3, 2}, [RS63] = {6, 3}};
    double value[PANELS][SIZES][CODES][WAYS], most = 0;
    int codes = context->setup.ranks ? 1 : CODES;
    int failed = dfs_check_bytes(context, err);
    if (!failed)
        failed = dfs_code(context, &code[0].k, &code[0].m, err);
    for (int panel = 0; !failed && panel < PANELS; panel++)
        failed = fill(context, s, panel, code, codes, value[panel], err);
    if (failed || experiment_one_row(context))
        return failed;
    for (int z = 0; z < panels[LATENCY].sizes; z++)
        for (int c = 0; c < CODES; c++) {
            const double *us = value[LATENCY][z][c];
            most = us[INEC] / us[SPIN] > most ? us[INEC] / us[SPIN] : most;
        }
    struct sheet_claim *c =
        sheet_claim(s, "C7", "", most, 2, "INEC-TriEC's time over sPIN-TriEC's, at most");
    sheet_because(c, "%s", why);
    const double *small = value[ENCODING][0][RS63], *large = value[ENCODING][1][RS63];
    c = sheet_claim(s, "C7", "", small[SPIN] / small[INEC], 29,
                    "1 KiB, RS(6,3): sPIN-TriEC's bandwidth over INEC-TriEC's");
    sheet_because(c, "%s; by the paper's ratio it makes %.1f Gbit/s", why, small[SPIN] / 29);
    c = sheet_claim(s, "C7", "", large[SPIN] / large[INEC], 3.3, "512 KiB, RS(6,3): the same");
    sheet_because(c, "%s; by the paper's ratio it makes %.1f Gbit/s", why, large[SPIN] / 3.3);
    c = sheet_claim(s, "C7", "", large[SPIN] / small[SPIN], 1 - 0.12,
                    "RS(6,3): sPIN-TriEC's bandwidth, 512 KiB over 1 KiB");
    sheet_because(c,
                  "a message of 1 KiB has a header handler for one packet, and the code of three "
                  "handlers does not fit into the instruction cache: no contention outweighs it");
    sheet_note(s,
               "Encoding: bytes of parities over the time from the first put to the last answer, "
               "messages of the given size to one data node, 96 or 192 KiB under way. Its text (no "
               "dependence on the size, handlers as the limit) says that the paper means this.");
    sheet_note(s,
               "Writes: data over time, 16 or 1 MiB under way; a write is cut into k chunks, and "
               "the client's packets to the data nodes take turns.");
    sheet_note(s,
               "INEC-TriEC: a chunk goes to host memory, is read by the card's accelerator, sent "
               "as m chunks, and read and added up by those of the parity nodes.");
    dfs_note_world(s, 100);
    return SPIN_OK;
}
