/* DFS building blocks, figure 16 right: HPUs for line rate over the handlers' duration, 2 KiB
 * packets. */
#include "figures.h"

#include "rate.h"

#define PACKET_BYTES 2048

int dfs22_fig16(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    (void)context, (void)err;
    struct sheet_panel *p = sheet_panel(s, "hpus", "HPUs for line rate, 2 KiB packets");
    p->every = 4;
    sheet_column(p, "ns", 0, "handler duration");
    sheet_column(p, "HPUs", 0, "200 Gbit/s");
    sheet_column(p, "HPUs", 0, "400 Gbit/s");
    for (double ns = 500; ns <= 26000; ns += 500) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = ns;
        row->value[1] = rate_hpus(ns, rate_interval_ns(PACKET_BYTES, 200, 0));
        row->value[2] = rate_hpus(ns, rate_interval_ns(PACKET_BYTES, 400, 0));
    }
    sheet_claim(s, "C9", "ns", rate_budget_ns(32, PACKET_BYTES, 400), 1310,
                "budget at 400 Gbit/s with 32 HPUs");
    /* The paper's own RS(6,3) handler (C8) against what 512 HPUs can bear. */
    double bearable = rate_budget_ns(512, PACKET_BYTES, 400);
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
    sheet_note(s, "Handler durations are the x axis. Those of our own erasure-coding handlers are "
                  "not there yet, nor is figure 16 left.");
    return SPIN_OK;
}
