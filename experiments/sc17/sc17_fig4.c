/* SC'17 figure 4: HPUs needed for line rate over packet size and handler time, by Little's law.
 * g and the rate are the paper's LogGP parameters (A1, A2). */
#include "figures.h"

#include "experiment_card.h"
#include "rate.h"

#define GAP_NS 6.7
#define GBIT   400.0
#define HPUS   8 /* A5, line-rate discussion */

static const double handlers_ns[] = {25, 50, 100, 200, 500, 1000};

int sc17_fig4(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    enum { SIZES = 10 }; /* 8 B to 4 KiB */
    double hpus;
    int code = experiment_hpus(context, "sc17", HPUS, &hpus, err);
    if (code)
        return code;
    struct sheet_panel *p = sheet_panel(s, "hpus", "HPUs needed for line rate");
    p->log_x = true;
    sheet_column(p, "B", 0, "packet size");
    for (int h = 0; h < 6; h++)
        sheet_column(p, "HPUs", 0, "T = %.0f ns", handlers_ns[h]);
    sheet_column(p, "ns", 1, "longest T, %.0f HPUs", hpus);
    for (int z = 0; z < experiment_sizes(context, SIZES); z++) {
        double interval, bytes = experiment_size(context, 8u << z);
        code = experiment_interval(context, bytes, GBIT, GAP_NS, &interval, err);
        if (code)
            return code;
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = bytes;
        for (int h = 0; h < 6; h++)
            row->value[1 + h] = rate_hpus(handlers_ns[h], interval);
        row->value[7] = hpus * interval;
    }

    experiment_note_network(context, s);
    if (experiment_one_row(context))
        return SPIN_OK;
    double shortest = HPUS * rate_interval_ns(1, GBIT, GAP_NS);
    sheet_claim(s, "A11", "ns", shortest, 53, "T that 8 HPUs sustain at any packet size");
    sheet_claim(s, "A11", "B", GAP_NS * GBIT / 8, 335, "size from which bandwidth limits (g/G)");
    struct sheet_claim *c = sheet_claim(s, "A11", "ns", HPUS * rate_interval_ns(4096, GBIT, GAP_NS),
                                        650, "T that 8 HPUs sustain at 4,096 B");
    sheet_because(c, "8 G s with G = 20 ps/B; the paper rounds");
    sheet_claim(s, "A11", "kB", rate_buffer_bytes(1000, 200) / 1000, 25,
                "buffer for 200 ns at 1 Tbit/s");
    sheet_claim(s, "A11", "M/s", 1000 / rate_interval_ns(4096, GBIT, GAP_NS), 12.5,
                "arrivals at 4,096 B");
    sheet_claim(s, "A11", "M/s", 1000 / rate_interval_ns(1, GBIT, GAP_NS), 150,
                "arrivals of small packets");
    sheet_note(
        s, "The paper prints G = 2.5 ps per byte; its own numbers need 20 ps per byte, which is "
           "2.5 ps per bit (400 Gbit/s). This uses 20 ps per byte.");
    return SPIN_OK;
}
