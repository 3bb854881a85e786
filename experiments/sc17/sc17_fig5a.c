/* SC'17 figure 5a: broadcast on a binomial tree, 8 B and 64 KiB, 2 to 1,024 ranks, on the discrete
 * card; and what the text says of the integrated one (A12). */
#include "figures.h"

#include "sc17/microbench.h"

enum { STEPS = 10 }; /* 2 to 1,024 ranks */
static const uint32_t sizes[] = {8, 65536};

static int measure(const struct experiment_context *context, struct sheet *s, int size,
                   double last[P4_VARIANTS], struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, size ? "64KiB" : "8B",
                                        size ? "Broadcast of 64 KiB, discrete card"
                                             : "Broadcast of 8 B, discrete card");
    p->log_x = true;
    sheet_column(p, "", 0, "ranks");
    for (int v = 0; v < P4_VARIANTS; v++)
        sheet_column(p, "us", 3, "%s", p4_variant_name((enum p4_variant)v));
    for (int i = 1; i <= STEPS; i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = 1u << i;
        for (int v = 0; v < P4_VARIANTS; v++) {
            int code = microbench(context, p4_broadcast, (enum p4_variant)v, "sc17-dis", 1u << i,
                                  sizes[size], &last[v], err);
            if (code)
                return code;
            row->value[1 + v] = last[v];
        }
    }
    return SPIN_OK;
}

static double faster(const double us[P4_VARIANTS], enum p4_variant than) {
    return 100 * (1 - us[P4_STREAM] / us[than]);
}

int sc17_fig5a(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const char *const names[] = {"8 B", "64 KiB"};
    double dis[2][P4_VARIANTS], integrated[2][P4_VARIANTS];
    for (int z = 0; z < 2; z++) {
        int code = measure(context, s, z, dis[z], err);
        for (int v = 0; v < P4_VARIANTS && !code; v++)
            code = microbench(context, p4_broadcast, (enum p4_variant)v, "sc17-int", 1u << STEPS,
                              sizes[z], &integrated[z][v], err);
        if (code)
            return code;
    }
    for (int z = 0; z < 2; z++) {
        sheet_shape(s, "A12",
                    dis[z][P4_STREAM] < dis[z][P4_TRIGGERED] &&
                        dis[z][P4_TRIGGERED] < dis[z][P4_RDMA],
                    "%s, 1,024 ranks, dis: sPIN below Portals 4 below RDMA", names[z]);
        sheet_shape(s, "A12", faster(dis[z], P4_RDMA) > faster(integrated[z], P4_RDMA),
                    "%s: sPIN gains more on dis than on int", names[z]);
        sheet_claim(s, "A12", "%", faster(integrated[z], P4_RDMA), 7,
                    "%s, 1,024 ranks, int: sPIN faster than RDMA by", names[z]);
        sheet_claim(s, "A12", "%", faster(integrated[z], P4_TRIGGERED), 5,
                    "%s, 1,024 ranks, int: sPIN faster than Portals 4 by", names[z]);
    }
    sheet_shape(s, "A12", dis[0][P4_STORE] / dis[0][P4_STREAM] < 1.05,
                "store within 5 %% of stream for one packet");
    sheet_shape(s, "A12",
                dis[1][P4_STORE] / dis[1][P4_TRIGGERED] < 1.05 &&
                    dis[1][P4_STORE] / dis[1][P4_TRIGGERED] > 0.95,
                "store within 5 %% of Portals 4 for several");
    sheet_note(s, "From the root's first call until the last rank's program knows that the data is "
                  "in its memory; each packet of a stream is stored there as well as forwarded, which "
                  "the paper's listing leaves out.");
    return SPIN_OK;
}
