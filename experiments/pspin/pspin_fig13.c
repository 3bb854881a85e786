/* ISCA'21 figure 13: the packet buffer that Little's law asks for, and the handler critical times
 * after which handlers are the bottleneck. Cores grow with the line rate, as in the paper. */
#include "figures.h"

#include "rate.h"

static const struct { double gbit, hpus; } cards[] = {{200, 16}, {400, 32}, {800, 64}};
static const double sizes[] = {256, 1024, 4096};

int pspin_fig13(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    (void)context, (void)err;
    struct sheet_panel *p = sheet_panel(s, "buffer", "Packet buffer over packet latency");
    p->every = 4;
    sheet_column(p, "ns", 0, "packet latency");
    for (int c = 0; c < 3; c++)
        sheet_column(p, "KiB", 1, "%.0f Gbit/s (%.0f cores)", cards[c].gbit, cards[c].hpus);
    for (double ns = 0; ns <= 3000; ns += 125) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = ns;
        for (int c = 0; c < 3; c++)
            row->value[1 + c] = rate_buffer_bytes(cards[c].gbit, ns) / 1024;
    }

    struct sheet_panel *h = sheet_panel(s, "critical", "Handler critical time and buffer there");
    h->log_x = true;
    sheet_column(h, "B", 0, "packet size");
    sheet_column(h, "ns", 1, "critical time");
    for (int c = 0; c < 3; c++)
        sheet_column(h, "KiB", 1, "buffer at %.0f Gbit/s", cards[c].gbit);
    bool same = true;
    for (int z = 0; z < 3; z++) {
        struct sheet_row *row = sheet_row(s, h, NULL);
        row->value[0] = sizes[z];
        row->value[1] = rate_budget_ns(cards[1].hpus, sizes[z], cards[1].gbit);
        for (int c = 0; c < 3; c++) {
            double critical = rate_budget_ns(cards[c].hpus, sizes[z], cards[c].gbit);
            same = same && fabs(critical - row->value[1]) < 1e-6;
            row->value[2 + c] = rate_buffer_bytes(cards[c].gbit, critical) / 1024;
        }
    }

    struct sheet_claim *c = sheet_claim(s, "B17", "KiB", rate_buffer_bytes(800, 3000) / 1024, 300,
                                        "buffer for 800 Gbit/s at 3 us");
    sheet_because(c, "exactly 300 kB; the paper rounds up to KiB");
    sheet_shape(s, "B17", rate_buffer_bytes(800, 3000) < 4 << 20,
                "the 4 MiB packet buffer is more than enough");
    sheet_shape(s, "B17", same, "critical times do not move when cores grow with the rate");
    sheet_note(s, "The paper's horizontal lines, the least, mean and longest handler of its figure "
                  "12, are not drawn; pspin/fig12 has the times of our handlers.");
    return SPIN_OK;
}
