/* ISCA'21 section IV-B1: the latency of a packet in an unloaded card, by its parts. */
#include "figures.h"

#include "experiment_card.h"
#include "pspin/card_bench.h"

#define PACKETS 64

static const enum card_part parts[] = {CARD_PART_QUEUE,  CARD_PART_COPY,    CARD_PART_ASSIGN,
                                       CARD_PART_INVOKE, CARD_PART_HANDLER, CARD_PART_FINISH,
                                       CARD_PART_LATENCY};
enum { PARTS = 7, SIZES = 5 };

/* Medians: the first packet of a cluster finds its instruction cache cold. */
static int measure(const struct experiment_context *context, uint32_t bytes, double ns[PARTS],
                   struct spin_error *err) {
    struct card_bench b;
    struct card_stats stats;
    struct card_bench_setup setup = {.image = "arithmetic", .entry = "arithmetic_0_ph"};
    struct card_bench_traffic traffic = {
        .packets = PACKETS,
        .bytes = bytes,
        .messages = 1,
        .interval_ps = 200000,
        /* A packet of each sender at a time. */
        .together = context->setup.ranks > 1 ? context->setup.ranks - 1 : 1};
    int code = card_bench_open(&b, context, &setup, err);
    if (code)
        return code;
    code = card_bench_run(&b, &traffic, &stats, err);
    for (int i = 0; i < PARTS && !code; i++)
        ns[i] = (double)stats.part[parts[i]].p50 / 1000;
    card_bench_close(&b);
    return code;
}

int pspin_latency(const struct experiment_context *context, struct sheet *s,
                  struct spin_error *err) {
    static const double copy[] = {12, 26}, total[] = {26, 40};
    double ns[SIZES][PARTS];
    struct sheet_panel *p = sheet_panel(s, "parts", "Latency of a packet, one every 200 ns");
    p->log_x = true;
    sheet_column(p, "B", 0, "packet size");
    for (int i = 0; i < PARTS; i++)
        sheet_column(p, "ns", 1, "%s", card_part_name(parts[i]));
    for (int z = 0; z < experiment_sizes(context, SIZES); z++) {
        uint32_t bytes = experiment_size(context, 64u << z);
        int code = measure(context, bytes, ns[z], err);
        if (code)
            return code;
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = bytes;
        for (int i = 0; i < PARTS; i++)
            row->value[1 + i] = ns[z][i];
    }
    experiment_note_network(context, s);
    if (experiment_one_row(context))
        return SPIN_OK;
    for (int k = 0; k < 2; k++) {
        int z = k ? SIZES - 1 : 0;
        const char *input = "a parameter of the card model (B5)";
        sheet_calibrated(
            sheet_claim(s, "B5", "ns", ns[z][1], copy[k], "copy to L1, %u B", 64u << z), "%s",
            input);
        struct sheet_claim *c =
            sheet_claim(s, "B8", "ns", ns[z][PARTS - 1], total[k], "latency, %u B", 64u << z);
        sheet_within(c, 1);
        sheet_calibrated(c, "its parts are the model's parameters (B5); that they add up is ours");
    }
    return SPIN_OK;
}
