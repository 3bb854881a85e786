/* Figures 14 and 15 and equation (1) of the page-fault paper: how often pages are absent, and what
 * the timeout of a block does to the overlap of bringing in and sending. */
#include "figures.h"

#include <stdio.h>

#include "part/part_world.h"

#define KIB 1024u
#define MIB 1048576u

/* ---- figure 14 ---- */

int part_fig14(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const uint64_t sizes[] = {4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB};
    static const uint32_t percents[] = {0, 5, 20, 60, 100};
    enum { SIZES = 6, PERCENTS = 5, POLICIES = 2, AT_64K = 2, AT_1M = 4, AT_4M = 5, FULL = 4 };
    static const char *const policies[POLICIES] = {"paging.policy=one", "paging.policy=all"};
    static const char *const names[POLICIES] = {"pio", "pia"};
    static const char *const titles[POLICIES] = {"PIO: a page for each fault",
                                                 "PIA: all pages at the first fault"};
    double us[POLICIES][PERCENTS][SIZES];
    int count = context->setup.bytes ? 1 : SIZES;
    for (int k = 0; k < POLICIES; k++) {
        struct sheet_panel *p = sheet_panel(s, names[k], titles[k]);
        p->log_y = true;
        sheet_column(p, "%", 0, "absent");
        for (int i = 0; i < count; i++)
            sheet_column(
                p, "us", 1, "%llu KiB",
                (unsigned long long)(context->setup.bytes ? context->setup.bytes : sizes[i]) / KIB);
        for (int f = 0; f < PERCENTS; f++) {
            struct sheet_row *row = sheet_row(s, p, NULL);
            row->value[0] = percents[f];
            for (int i = 0; i < count; i++) {
                uint64_t bytes = context->setup.bytes ? context->setup.bytes : sizes[i];
                int repeats =
                    percents[f] % 100 && bytes <= 256 * KIB ? 5 : 1; /* of other chances */
                us[k][f][i] = 0;
                for (int seed = 1; seed <= repeats; seed++) {
                    const struct part_setup setup = {.bytes = bytes,
                                                     .target =
                                                         percents[f] ? PART_ABSENT : PART_THERE,
                                                     .fault_percent = percents[f],
                                                     .seed = (uint64_t)seed,
                                                     .set = {policies[k]}};
                    struct part_outcome out;
                    int code = part_transfer(context, &setup, &out, err);
                    if (code)
                        return code;
                    us[k][f][i] += out.us / repeats;
                }
                row->value[1 + i] = us[k][f][i];
            }
        }
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    const double *one = us[0][FULL], *all = us[1][FULL], *none = us[1][0];
    struct sheet_claim *c =
        sheet_claim(s, "D7", "", one[AT_4M] / none[AT_4M], 12.5, "4 MiB, 100 %%: PIO's slowdown");
    sheet_because(c, "40 us over 3.2 us per page: as if pages of a block were missed one after the "
                     "other; our card writes the rest of a block, so the tasklet finds its four "
                     "pages together, as section 5.3 says");
    c = sheet_claim(s, "D7", "", one[AT_4M] / all[AT_4M], 7.1, "4 MiB, 100 %%: PIO over PIA");
    sheet_because(c, "PIO as above");
    c = sheet_claim(s, "D7", "", all[AT_64K] / none[AT_64K], 6.2, "64 KiB, 100 %%: PIA's slowdown");
    sheet_because(c, "the published parts are 38 us and 3 us for each further page: see fig12");
    c = sheet_claim(s, "D7", "", all[AT_1M] / none[AT_1M], 2.5, "1 MiB, 100 %%: PIA's slowdown");
    sheet_because(c, "likewise");
    c = sheet_claim(s, "D7", "", all[AT_4M] / none[AT_4M], 1.5, "4 MiB, 100 %%: PIA's slowdown");
    sheet_because(c, "the sender begins after 1 ms and takes 3.4 ms; a faster link makes 1 ms more "
                     "of it: see fig12");
    double slope_low = (us[0][2][AT_4M] - none[AT_4M]) / 20,
           slope_high = (one[AT_4M] - none[AT_4M]) / 100;
    c = sheet_shape(s, "D7", slope_low < 2 * slope_high && slope_high < 2 * slope_low,
                    "PIO grows linearly with the frequency (4 MiB)");
    sheet_because(c,
                  "%.0f us per percent up to 20 %%, %.0f up to 100 %%: faults of a block are "
                  "taken together",
                  slope_low, slope_high);
    sheet_shape(s, "D7",
                all[AT_64K] / none[AT_64K] > all[AT_1M] / none[AT_1M] &&
                    all[AT_1M] / none[AT_1M] > all[AT_4M] / none[AT_4M],
                "PIA's slowdown falls with the size");
    sheet_shape(s, "D7", us[1][3][AT_4M] > 0.85 * all[AT_4M],
                "PIA: 60 %% and 100 %% hardly differ for large transfers");
    return SPIN_OK;
}

/* ---- figure 15 and equation (1) ---- */

enum { OUT_1000, OUT_500, OUT_100, NTO, EARLY, BY_BLOCK, CURVES };
static const struct {
    const char *name, *set[2];
} curves[CURVES] = {
    [OUT_1000] = {"1 ms", {"paging.timeout=1ms"}},
    [OUT_500] = {"500 us", {"paging.timeout=500us"}},
    [OUT_100] = {"100 us", {"paging.timeout=100us"}},
    [NTO] = {"none", {"paging.fault_ends_timeout=1"}},
    [EARLY] = {"none, ERR early", {"paging.fault_ends_timeout=1", "paging.err=early"}},
    [BY_BLOCK] = {"none, ERR by block", {"paging.fault_ends_timeout=1", "paging.err=block"}},
};
static const uint64_t sizes[] = {4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB};
enum { SIZES = 6, AT_16K = 1, AT_256K = 3, AT_1M = 4, AT_4M = 5 };

static int measure(const struct experiment_context *context, int curve, enum part_pages target,
                   uint64_t bytes, double *us, struct spin_error *err) {
    struct part_outcome out;
    const struct part_setup setup = {
        .bytes = bytes, .target = target, .set = {curves[curve].set[0], curves[curve].set[1]}};
    int code = part_transfer(context, &setup, &out, err);
    *us = out.us;
    return code;
}

int part_fig15(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double us[CURVES][SIZES];
    struct sheet_panel *p =
        sheet_panel(s, "timeouts", "A write all of whose pages are absent, PIA, by its timeout");
    p->log_x = p->log_y = true;
    sheet_column(p, "B", 0, "transfer");
    for (int k = 0; k < CURVES; k++)
        sheet_column(p, "us", 1, "%s", curves[k].name);
    sheet_column(p, "", 2, "none / 100 us");
    for (int i = 0; i < (context->setup.bytes ? 1 : SIZES); i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        uint64_t bytes = context->setup.bytes ? context->setup.bytes : sizes[i];
        row->value[0] = (double)bytes;
        for (int k = 0; k < CURVES; k++) {
            int code = measure(context, k, PART_ABSENT, bytes, &us[k][i], err);
            if (code)
                return code;
            row->value[1 + k] = us[k][i];
        }
        row->value[1 + CURVES] = us[NTO][i] / us[OUT_100][i];
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    sheet_claim(s, "D8", "", us[NTO][AT_1M] / us[OUT_100][AT_1M], 1.8, "1 MiB: none over 100 us");
    sheet_claim(s, "D8", "", us[NTO][AT_4M] / us[OUT_100][AT_4M], 1.8, "4 MiB: none over 100 us");
    bool best = true;
    for (int i = AT_256K; i < SIZES; i++)
        best &= us[OUT_100][i] <= us[OUT_500][i] && us[OUT_100][i] <= us[OUT_1000][i];
    sheet_shape(s, "D8", best, "100 us is the best timeout from 256 KiB on");
    sheet_shape(s, "D8", us[NTO][AT_16K] / us[OUT_100][AT_16K] < 1.1, "no difference up to 16 KiB");
    sheet_shape(s, "D8", us[OUT_500][AT_4M] / us[OUT_100][AT_4M] < 1.25,
                "4 MiB: 500 us is similar to 100 us");
    struct sheet_claim *c = sheet_claim(s, "D6", "ms", us[NTO][AT_4M] / 1000, 5.7,
                                        "4 MiB, no timeout: the sum of parts");
    sheet_because(c, "the paper's transfers are faster than 10 Gbit/s: see fig12");
    sheet_note(s,
               "ERR by block is ours, and needs no timeout: %.2f times as fast as 100 us at 256 "
               "KiB, %.2f at 1 MiB, %.2f at 4 MiB; than no timeout: %.2f, %.2f, %.2f.",
               us[OUT_100][AT_256K] / us[BY_BLOCK][AT_256K],
               us[OUT_100][AT_1M] / us[BY_BLOCK][AT_1M], us[OUT_100][AT_4M] / us[BY_BLOCK][AT_4M],
               us[NTO][AT_256K] / us[BY_BLOCK][AT_256K], us[NTO][AT_1M] / us[BY_BLOCK][AT_1M],
               us[NTO][AT_4M] / us[BY_BLOCK][AT_4M]);
    sheet_note(s,
               "ERR early (the paper's further work) asks for a block at once, and again as often "
               "as it comes before its pages.");
    return SPIN_OK;
}

/* G and T are what our transfers take, not the constants that went into them. */
int part_eq1(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const double timeouts[] = {1000, 500, 100};
    struct sheet_panel *p = sheet_panel(s, "speedup", "Overlap of bringing in and sending");
    double formula = 0, limit = 0;
    p->log_x = true;
    sheet_column(p, "", 0, "pages");
    sheet_column(p, "us", 1, "G");
    sheet_column(p, "us", 1, "T");
    for (int k = 0; k < 3; k++) {
        sheet_column(p, "", 2, "equation, %s", curves[k].name);
        sheet_column(p, "", 2, "transfers, %s", curves[k].name);
    }
    for (int i = context->setup.bytes ? SIZES - 1 : 2; i < SIZES; i++) {
        uint64_t bytes = context->setup.bytes ? context->setup.bytes : sizes[i];
        double serial = 0, plain = 0, us = 0;
        int code = measure(context, NTO, PART_ABSENT, bytes, &serial, err);
        if (!code)
            code = measure(context, NTO, PART_THERE, bytes, &plain, err);
        struct sheet_row *row = sheet_row(s, p, NULL);
        double g = serial - plain;
        row->value[0] = (double)(bytes / PART_PAGE);
        row->value[1] = g;
        row->value[2] = plain;
        for (int k = 0; k < 3 && !code; k++) {
            double ends = timeouts[k] + plain;
            code = measure(context, k, PART_ABSENT, bytes, &us, err);
            row->value[3 + 2 * k] = formula = serial / (g > ends ? g : ends);
            row->value[4 + 2 * k] = serial / us;
        }
        if (code)
            return code;
        limit = serial / (g > plain ? g : plain);
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    sheet_claim(s, "D8", "", limit, 1.93, "the limit for many pages");
    struct sheet_claim *c = sheet_claim(s, "D8", "", p->row[3].value[8], p->row[3].value[7],
                                        "4 MiB, 100 us: transfers, by the equation");
    sheet_because(c, "the equation is %.2f here", formula);
    sheet_note(s, "s(n) = (G + T) / max(G, TO + T), equation (1).");
    return SPIN_OK;
}
