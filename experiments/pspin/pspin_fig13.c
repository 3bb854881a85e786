/* ISCA'21 figure 13: the packet buffer that Little's law asks for, and the handler critical times
 * after which handlers are the bottleneck. Cores grow with the line rate, as in the paper. */
#include "figures.h"

#include <math.h>

#include "pspin/six.h"
#include "rate.h"

static const struct { double gbit, hpus; } cards[] = {{200, 16}, {400, 32}, {800, 64}};
static const double sizes[] = {256, 1024, 4096};

/* The shortest, the geometric mean and the longest of our six payload handlers (pspin/fig12), as
 * the figure's horizontal lines are of the paper's. */
static int handlers(const struct experiment_context *context, struct sheet *s,
                    struct spin_error *err) {
    double least = INFINITY, most = 0, logs = 0;
    for (int k = 0; k < SIX; k++) {
        struct six_load load = {.which = k, .bytes = 1024};
        struct six_result r;
        int code = six_on_card(context, &load, &r, err);
        if (code)
            return code;
        double ns = (double)r.stats.handler[SPIN_PAYLOAD_HANDLER].spread.p50;
        least = fmin(least, ns);
        most = fmax(most, ns);
        logs += log(ns);
    }
    const struct {
        const char *name;
        double ns;
    } lines[] = {{"least", least}, {"geometric mean", exp(logs / SIX)}, {"longest", most}};
    struct sheet_panel *p =
        sheet_panel(s, "handlers", "Payload handlers of 1 KiB packets, and buffer for them");
    p->by_name = true;
    sheet_column(p, "", 0, "handler");
    sheet_column(p, "ns", 0, "time");
    for (int c = 0; c < 3; c++)
        sheet_column(p, "KiB", 1, "at %.0f Gbit/s", cards[c].gbit);
    for (int i = 0; i < 3; i++) {
        struct sheet_row *row = sheet_row(s, p, lines[i].name);
        row->value[1] = lines[i].ns;
        for (int c = 0; c < 3; c++)
            row->value[2 + c] = rate_buffer_bytes(cards[c].gbit, lines[i].ns) / 1024;
    }
    return SPIN_OK;
}

int pspin_fig13(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
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
    int code = handlers(context, s, err);
    if (code)
        return code;

    struct sheet_claim *c = sheet_claim(s, "B17", "KiB", rate_buffer_bytes(800, 3000) / 1024, 300,
                                        "buffer for 800 Gbit/s at 3 us");
    sheet_because(c, "exactly 300 kB; the paper rounds up to KiB");
    sheet_shape(s, "B17", rate_buffer_bytes(800, 3000) < 4 << 20,
                "the 4 MiB packet buffer is more than enough");
    sheet_shape(s, "B17", same, "critical times do not move when cores grow with the rate");
    sheet_note(s, "Times of handlers are medians with all HPUs at work, of our six workloads; the "
                  "paper draws those of its own without numbers.");
    return SPIN_OK;
}
