/* ISCA'21 figure 12, the PsPIN column: time, instructions, rate of instructions and accesses
 * outside local L1 of the six workloads' payload handlers; alone on the card, and with all HPUs at
 * work. */
#include "figures.h"

#include "experiment_card.h"
#include "pspin/six.h"

#define PACKET_BYTES 1024

static void add_row(struct sheet *s, struct sheet_panel *p, const char *name,
                    const struct card_stats *stats, double cycle_ns) {
    const struct card_handler_stats *h = &stats->handler[SPIN_PAYLOAD_HANDLER];
    double runs = (double)h->runs, cycles = (double)h->cycles;
    struct sheet_row *row = sheet_row(s, p, name);
    row->value[1] = cycle_ns * (double)h->spread.least;
    row->value[2] = cycle_ns * (double)h->spread.p50;
    row->value[3] = cycle_ns * (double)h->spread.p99;
    row->value[4] = (double)h->instructions / runs;
    row->value[5] = 1000 * (double)h->instructions / (cycle_ns * cycles);
    row->value[6] = (double)stats->remote_accesses / runs;
}

int pspin_fig12(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    struct card_config card;
    int code = experiment_card(context, NULL, &card, err);
    if (code)
        return code;
    struct sheet_panel *panels[] = {
        sheet_panel(s, "alone", "Payload handlers, one packet every 20 us"),
        sheet_panel(s, "loaded", "Payload handlers, all HPUs at work")};
    for (int i = 0; i < 2; i++) {
        panels[i]->by_name = panels[i]->log_y = true;
        sheet_column(panels[i], "", 0, "workload");
        sheet_column(panels[i], "ns", 0, "least");
        sheet_column(panels[i], "ns", 0, "median");
        sheet_column(panels[i], "ns", 0, "p99");
        sheet_column(panels[i], "", 1, "instructions");
        sheet_column(panels[i], "MIPS", 0, "rate");
        sheet_column(panels[i], "", 1, "accesses outside L1");
    }
    for (int k = 0; k < SIX; k++)
        for (int i = 0; i < 2; i++) {
            struct six_load load = {.which = k, .bytes = experiment_size(context, PACKET_BYTES)};
            struct six_result result;
            load.interval_ps = i ? 0 : 20000000;
            code = six_on_card(context, &load, &result, err);
            if (code)
                return code;
            add_row(s, panels[i], six_names[k], &result.stats, (double)card.cycle / 1000);
        }
    experiment_note_network(context, s);
    sheet_note(s,
               "The paper prints figure 12 as box plots without numbers, so there is no value to "
               "compare with. Loops over words are unrolled by hand: the core has no hardware "
               "loops here.");
    return SPIN_OK;
}
