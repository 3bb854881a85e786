/* ISCA'21 figure 11: throughput of a core. The same handlers on the card with all of its HPUs at
 * work, and compiled for the machine at hand, packets preloaded and dealt out, one worker up to all
 * cores. From the median time of a payload handler, as in the paper.
 *
 * The machine is another than the paper's, so its verdicts are about this machine. */
#include "figures.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "experiment_card.h"
#include "pspin/six.h"

#define MOST_COUNTS 8

/* HPU over the best other core, as published (B14). */
static const struct {
    const char *name;
    double factor;
} published[] = {{"histogram", 1.3},     {"kvstore", 1.9},        {"reduce", 5.3},
                 {"aggregate", 1 / 1.8}, {"filtering", 1 / 40.0}, {"strided_ddt", 1 / 36.0}};

#define PACKET_BYTES 1024

/* 1, 2, 4, ... and all. */
static int thread_counts(int count[MOST_COUNTS]) {
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    if (all > 256)
        all = 256; /* some packets for each */
    int counts = 0;
    for (int threads = 1; threads < all && counts < MOST_COUNTS - 1; threads *= 2)
        count[counts++] = threads;
    count[counts++] = all > 0 ? (int)all : 1;
    return counts;
}

static double gbit(uint32_t bytes, double ns) {
    return 8.0 * bytes / ns;
}

static double published_factor(const char *name) {
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++)
        if (strcmp(published[i].name, name) == 0)
            return published[i].factor;
    return NAN;
}

/* Area of a processing element, at 22 nm and with the same memory (table IV): a core of the paper's
 * Xeon stands for one of this machine's, whose area we do not know. */
#define XEON_MM2 35.956

/* Throughput of a core over its area. The paper: better than the Xeon's on every workload. */
static int per_area(const struct experiment_context *context, struct sheet *s,
                    const double hpu[SIX], const double here[SIX], struct spin_error *err) {
    uint32_t bytes = experiment_size(context, PACKET_BYTES);
    struct spin_area_config config;
    struct spin_area area;
    spin_area_default(&config);
    int code = spin_area_estimate(&config, &area, err);
    if (code)
        return code;
    double mm2 = area.mm2 / (double)area.hpus, least = INFINITY, most = 0;
    struct sheet_panel *p = sheet_panel(s, "perarea", "Throughput of a core over its area");
    p->by_name = p->log_y = true;
    sheet_column(p, "", 0, "workload");
    sheet_column(p, "Gbit/s/mm2", 2, "HPU");
    sheet_column(p, "Gbit/s/mm2", 3, "here, if a core has the area of a Xeon 6154's");
    sheet_column(p, "x", 1, "ratio");
    for (int k = 0; k < SIX; k++) {
        struct sheet_row *row = sheet_row(s, p, six_names[k]);
        row->value[1] = gbit(bytes, hpu[k]) / mm2;
        row->value[2] = gbit(bytes, here[k]) / XEON_MM2;
        row->value[3] = row->value[1] / row->value[2];
        least = fmin(least, row->value[3]);
        most = fmax(most, row->value[3]);
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    const char *why = "this machine's cores with a Xeon 6154's area";
    sheet_because(sheet_claim(s, "B14", "x", least, 1.5, "least, over area"), "%s", why);
    sheet_because(sheet_claim(s, "B14", "x", most, 248, "most, over area"), "%s", why);
    sheet_shape(s, "B14", least > 1, "over area the HPU is better on every workload");
    return SPIN_OK;
}

static int measure(const struct experiment_context *context, int which, const int *count,
                   int counts, double *hpu_ns, double *native_ns, struct spin_error *err) {
    struct six_load load = {.which = which, .bytes = experiment_size(context, PACKET_BYTES)};
    struct six_result result;
    struct card_config card;
    int code = experiment_card(context, NULL, &card, err);
    if (!code)
        code = six_on_card(context, &load, &result, err);
    if (!code)
        *hpu_ns = (double)result.stats.handler[SPIN_PAYLOAD_HANDLER].spread.p50 *
                  (double)card.cycle / 1000;
    for (int i = 0; i < counts && !code; i++)
        code = six_on_machine(which, load.bytes, count[i], &native_ns[i], err);
    return code;
}

int pspin_fig11(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    int count[MOST_COUNTS], counts = thread_counts(count);
    double factor[SIX], hpu[SIX], here[SIX], native[SIX][MOST_COUNTS];
    uint32_t bytes = experiment_size(context, PACKET_BYTES);
    struct card_config card;
    char title[80];
    int code = experiment_card(context, NULL, &card, err);
    if (code)
        return code;
    snprintf(title, sizeof title, "Throughput of a core, %u B packets, the same handlers", bytes);
    struct sheet_panel *p = sheet_panel(
        s, "percore",
        bytes == PACKET_BYTES ? "Throughput of a core, 1 KiB packets, the same handlers" : title);
    p->by_name = p->log_y = true;
    sheet_column(p, "", 0, "workload");
    sheet_column(p, "Gbit/s", 2, "HPU at %g GHz, %u at work", 1000.0 / (double)card.cycle,
                 (unsigned)(card.clusters * card.cluster_hpus));
    for (int i = 0; i < counts; i++)
        sheet_column(p, "Gbit/s", 2, "here, %d thread%s", count[i], count[i] > 1 ? "s" : "");
    for (int k = 0; k < SIX; k++) {
        code = measure(context, k, count, counts, &hpu[k], native[k], err);
        if (code)
            return code;
        struct sheet_row *row = sheet_row(s, p, six_names[k]);
        row->value[1] = gbit(bytes, hpu[k]);
        for (int i = 0; i < counts; i++)
            row->value[2 + i] = gbit(bytes, native[k][i]);
        here[k] = native[k][counts - 1];
        factor[k] = here[k] / hpu[k];
    }
    experiment_note_network(context, s);
    for (int k = 0; k < SIX && !experiment_one_row(context); k++)
        sheet_because(sheet_claim(s, "B14", "x", factor[k], published_factor(six_names[k]),
                                  "%s: HPU over a core here", six_names[k]),
                      "published against the better of a Xeon 6154 and a Cortex-A53");
    code = per_area(context, s, hpu, here, err);
    if (code)
        return code;
    char machine[300];
    machine_name(machine, sizeof machine);
    sheet_note(s, "this machine: %s; timed, so no two runs are the same", machine);
    sheet_note(s,
               "Handlers are those of handlers/, the same source for both; results were checked on "
               "both. Packets fit this machine's caches after the first pass.");
    sheet_note(s, "On the HPU loops over words are unrolled by hand; here the compiler vectorises "
                  "what it can. The paper's 18 cores contend more than few do.");
    return SPIN_OK;
}
