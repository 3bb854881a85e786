/* ISCA'21 figure 13: the packet buffer that Little's law asks for, and the handler critical times
 * after which handlers are the bottleneck. Cores grow with the line rate, as in the paper. */
#include "figures.h"

#include <math.h>

#include "base/error.h"
#include "experiment_card.h"
#include "pspin/six.h"
#include "rate.h"

static const struct { double gbit, hpus; } cards[] = {{200, 16}, {400, 32}, {800, 64}};
enum { CARDS = 3, SIZES = 3 };
static const uint32_t sizes[SIZES] = {256, 1024, 4096};
#define PACKET_BYTES 1024

/* What comes to each card, in Gbit/s. */
static int line_rates(const struct experiment_context *context, uint32_t bytes, double line[CARDS],
                      struct spin_error *err) {
    for (int c = 0; c < CARDS; c++) {
        double interval;
        int code = experiment_interval(context, bytes, cards[c].gbit, 0, &interval, err);
        if (code)
            return code;
        line[c] = 8 * bytes / interval;
    }
    return SPIN_OK;
}

/* The shortest, the geometric mean and the longest of our six payload handlers (pspin/fig12), as
 * the figure's horizontal lines are of the paper's. */
static int handlers(const struct experiment_context *context, struct sheet *s,
                    const double line[CARDS], struct spin_error *err) {
    double least = INFINITY, most = 0, logs = 0;
    uint32_t bytes = experiment_size(context, PACKET_BYTES);
    struct card_config card;
    char title[80];
    int code = experiment_card(context, NULL, &card, err);
    if (code)
        return code;
    for (int k = 0; k < SIX; k++) {
        struct six_load load = {.which = k, .bytes = bytes};
        struct six_result r;
        code = six_on_card(context, &load, &r, err);
        if (code)
            return code;
        double ns =
            (double)r.stats.handler[SPIN_PAYLOAD_HANDLER].spread.p50 * (double)card.cycle / 1000;
        least = fmin(least, ns);
        most = fmax(most, ns);
        logs += log(ns);
    }
    const struct {
        const char *name;
        double ns;
    } lines[] = {{"least", least}, {"geometric mean", exp(logs / SIX)}, {"longest", most}};
    snprintf(title, sizeof title, "Payload handlers of %u B packets, and buffer for them", bytes);
    struct sheet_panel *p = sheet_panel(
        s, "handlers",
        bytes == PACKET_BYTES ? "Payload handlers of 1 KiB packets, and buffer for them" : title);
    p->by_name = true;
    sheet_column(p, "", 0, "handler");
    sheet_column(p, "ns", 0, "time");
    for (int c = 0; c < 3; c++)
        sheet_column(p, "KiB", 1, "at %.0f Gbit/s", cards[c].gbit);
    for (int i = 0; i < 3; i++) {
        struct sheet_row *row = sheet_row(s, p, lines[i].name);
        row->value[1] = lines[i].ns;
        for (int c = 0; c < 3; c++)
            row->value[2 + c] = rate_buffer_bytes(line[c], lines[i].ns) / 1024;
    }
    return SPIN_OK;
}

int pspin_fig13(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double line[CARDS];
    int code = line_rates(context, experiment_size(context, PACKET_BYTES), line, err);
    if (code)
        return code;
    struct sheet_panel *p = sheet_panel(s, "buffer", "Packet buffer over packet latency");
    p->every = 4;
    sheet_column(p, "ns", 0, "packet latency");
    for (int c = 0; c < 3; c++)
        sheet_column(p, "KiB", 1, "%.0f Gbit/s (%.0f cores)", cards[c].gbit, cards[c].hpus);
    for (double ns = 0; ns <= 3000; ns += 125) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = ns;
        for (int c = 0; c < 3; c++)
            row->value[1 + c] = rate_buffer_bytes(line[c], ns) / 1024;
    }

    struct sheet_panel *h = sheet_panel(s, "critical", "Handler critical time and buffer there");
    h->log_x = true;
    sheet_column(h, "B", 0, "packet size");
    sheet_column(h, "ns", 1, "critical time");
    for (int c = 0; c < 3; c++)
        sheet_column(h, "KiB", 1, "buffer at %.0f Gbit/s", cards[c].gbit);
    bool same = true;
    for (int z = 0; z < experiment_sizes(context, SIZES) && !code; z++) {
        struct sheet_row *row = sheet_row(s, h, NULL);
        uint32_t bytes = experiment_size(context, sizes[z]);
        double at[CARDS], hpus[CARDS];
        code = line_rates(context, bytes, at, err);
        for (int c = 0; c < CARDS && !code; c++)
            code = experiment_hpus(context, "pspin", cards[c].hpus, &hpus[c], err);
        if (code)
            return code;
        row->value[0] = bytes;
        row->value[1] = rate_budget_ns(hpus[1], bytes, at[1]);
        for (int c = 0; c < CARDS; c++) {
            double critical = rate_budget_ns(hpus[c], bytes, at[c]);
            same = same && fabs(critical - row->value[1]) < 1e-6;
            row->value[2 + c] = rate_buffer_bytes(at[c], critical) / 1024;
        }
    }
    code = handlers(context, s, line, err);
    if (code)
        return code;
    experiment_note_network(context, s);
    if (experiment_one_row(context))
        return SPIN_OK;

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
