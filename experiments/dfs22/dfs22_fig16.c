/* DFS building blocks, figure 16 right: HPUs for line rate over the handlers' duration, 2 KiB
 * packets. */
#include "figures.h"

#include "experiment_card.h"
#include "rate.h"

#define PACKET_BYTES 2048

int dfs22_fig16(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const double rates[] = {200, 400};
    double interval[2], hpus;
    uint32_t bytes = experiment_size(context, PACKET_BYTES);
    char title[60];
    int code = experiment_hpus(context, "pspin", 32, &hpus, err);
    for (int r = 0; r < 2 && !code; r++)
        code = experiment_interval(context, bytes, rates[r], 0, &interval[r], err);
    if (code)
        return code;
    snprintf(title, sizeof title, "HPUs for line rate, %u B packets", bytes);
    struct sheet_panel *p =
        sheet_panel(s, "hpus", bytes == PACKET_BYTES ? "HPUs for line rate, 2 KiB packets" : title);
    p->every = 4;
    sheet_column(p, "ns", 0, "handler duration");
    sheet_column(p, "HPUs", 0, "200 Gbit/s");
    sheet_column(p, "HPUs", 0, "400 Gbit/s");
    for (double ns = 500; ns <= 26000; ns += 500) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = ns;
        for (int r = 0; r < 2; r++)
            row->value[1 + r] = rate_hpus(ns, interval[r]);
    }
    experiment_note_network(context, s);
    if (experiment_one_row(context) || context->setup.card || context->setup.set_count)
        sheet_note(s, "A packet comes every %.2f or %.2f ns: %.0f HPUs may take %.0f or %.0f ns.",
                   interval[0], interval[1], hpus, hpus * interval[0], hpus * interval[1]);
    if (experiment_one_row(context))
        return SPIN_OK;
    sheet_claim(s, "C9", "ns", hpus * interval[1], 1310, "budget at 400 Gbit/s with 32 HPUs");
    /* The paper's own RS(6,3) handler (C8) against what 512 HPUs can bear. */
    double bearable = 512 * interval[1];
    struct sheet_claim *c = sheet_claim(s, "C9", "ns", bearable, 23018,
                                        "512 HPUs bear RS(6,3), whose handler takes (C8)");
    if (bearable < c->published) {
        c->verdict = SHEET_DIFFERS;
        sheet_because(c,
                      "by the same law the paper's handler needs %.0f HPUs; 512 sustain %.0f "
                      "Gbit/s",
                      rate_hpus(c->published, rate_interval_ns(PACKET_BYTES, 400, 0)),
                      rate_throughput_gbit(512, PACKET_BYTES, 400, c->published));
    }
    sheet_note(s, "Handler durations are the x axis; those of our handlers are in "
                  "dfs22/fig16-left.");
    return SPIN_OK;
}
