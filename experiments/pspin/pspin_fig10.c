/* ISCA'21 figure 10: throughput of the six workloads on the card, over packet size. No gap between
 * packets. */
#include "figures.h"

#include "experiment_card.h"
#include "pspin/six.h"

static const uint32_t sizes[] = {64, 512, 1024};
enum { SIZES = 3, MIDDLE = 1 };
/* What the text says of 512 B: 400 Gbit/s, or more than 200. And what we know of ours. */
static const struct {
    const char *title;
    int which;
    const char *setting;
    double gbit;
    const char *why;
} rows[] = {
    {"aggregate", 0, NULL, 200, ""},
    {"filtering", 1, NULL, 400, ""},
    {"histogram", 2, NULL, 200,
     "5 cycles per word, of which one checks that the value has a bin; the next row is without"},
    {"histogram, trusting", 2, "trusting=1", 200, ""},
    {"kvstore", 3, NULL, 400,
     "half of 1,000 requests are writes, 18 % are for one key: locks, and a port to L2 that takes "
     "a "
     "read and a write a cycle"},
    {"reduce", 4, NULL, 200, ""},
    {"strided_ddt", 5, NULL, 400, ""},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void columns(const struct experiment_context *context, struct sheet_panel *throughput,
                    struct sheet_panel *cycles) {
    throughput->by_name = cycles->by_name = true;
    sheet_column(throughput, "", 0, "workload");
    sheet_column(cycles, "", 0, "workload");
    for (int z = 0; z < experiment_sizes(context, SIZES); z++) {
        sheet_column(throughput, "Gbit/s", 1, "%u B", experiment_size(context, sizes[z]));
        sheet_column(cycles, "cycles", 1, "%u B", experiment_size(context, sizes[z]));
    }
    sheet_column(throughput, "Gbit/s", 1, "%u B, whole run",
                 experiment_size(context, sizes[MIDDLE]));
}

int pspin_fig10(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    struct card_config card;
    char title[40];
    int code = experiment_card(context, NULL, &card, err);
    if (code)
        return code;
    snprintf(title, sizeof title, "Throughput, %u HPUs",
             (unsigned)(card.clusters * card.cluster_hpus));
    int count = experiment_sizes(context, SIZES), middle = count == SIZES ? MIDDLE : 0;
    struct sheet_panel *throughput = sheet_panel(s, "throughput", title);
    struct sheet_panel *cycles = sheet_panel(s, "cycles", "Payload handler");
    columns(context, throughput, cycles);
    for (int k = 0; k < ROWS; k++) {
        struct sheet_row *row = sheet_row(s, throughput, rows[k].title);
        struct sheet_row *time = sheet_row(s, cycles, rows[k].title);
        for (int z = 0; z < count; z++) {
            struct six_load load = {.which = rows[k].which,
                                    .bytes = experiment_size(context, sizes[z]),
                                    .setting = rows[k].setting};
            struct six_result r;
            code = six_on_card(context, &load, &r, err);
            if (code)
                return code;
            const struct card_handler_stats *payload = &r.stats.handler[SPIN_PAYLOAD_HANDLER];
            row->value[1 + z] = r.steady_gbit;
            if (z == middle)
                row->value[1 + count] = (double)r.stats.throughput_mbit / 1000;
            time->value[1 + z] = (double)payload->cycles / (double)payload->runs;
        }
        if (experiment_one_row(context))
            continue;
        struct sheet_claim *c =
            sheet_bound(s, "B13", "Gbit/s", row->value[1 + MIDDLE], rows[k].gbit, false,
                        "%s, 512 B, at least", rows[k].title);
        if (row->value[1 + MIDDLE] < rows[k].gbit)
            sheet_because(c, "a handler takes %.0f cycles, 32 HPUs have %.0f; %s",
                          time->value[1 + MIDDLE], 32 * 512 * 8 / rows[k].gbit - 8, rows[k].why);
    }
    experiment_note_network(context, s);
    sheet_note(s,
               "Every result was checked against a plain computation. Throughput is from the first "
               "arrival to the completion that leaves a tenth.");
    sheet_note(
        s, "The whole run of histogram is slower: its last completion handler adds 1,025 counts "
           "of four clusters, three of them remote.");
    return SPIN_OK;
}
