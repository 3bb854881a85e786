/* ISCA'21 figure 6: how long handlers may take at line rate, and what throughput is left when they
 * take longer. Arithmetic; the card enters with its number of HPUs only. */
#include "figures.h"

#include "experiment_card.h"
#include "rate.h"

#define HPUS 32 /* B1 */

enum { SIZES = 3, RATES = 2, BUDGETS = 5 }; /* budgets: 64 B to 1 KiB */
static const double rates[RATES] = {200, 400};
static const uint32_t sizes[SIZES] = {64, 512, 1024};

static int budgets(const struct experiment_context *context, struct sheet *s, double hpus,
                   struct spin_error *err) {
    char title[60];
    snprintf(title, sizeof title, "Time budget of a handler, %.0f HPUs", hpus);
    struct sheet_panel *p = sheet_panel(s, "budget", title);
    p->log_x = true;
    sheet_column(p, "B", 0, "packet size");
    for (int r = 0; r < RATES; r++)
        sheet_column(p, "ns", 2, "at %.0f Gbit/s", rates[r]);
    for (int z = 0; z < experiment_sizes(context, BUDGETS); z++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = experiment_size(context, 64u << z);
        for (int r = 0; r < RATES; r++) {
            double interval;
            int code = experiment_interval(context, row->value[0], rates[r], 0, &interval, err);
            if (code)
                return code;
            row->value[1 + r] = hpus * interval;
        }
    }
    return SPIN_OK;
}

static int throughputs(const struct experiment_context *context, struct sheet *s, double hpus,
                       struct spin_error *err) {
    double line[RATES][SIZES]; /* what comes, in Gbit/s */
    char title[60];
    int count = experiment_sizes(context, SIZES);
    snprintf(title, sizeof title, "Throughput over the handler's duration, %.0f HPUs", hpus);
    struct sheet_panel *p = sheet_panel(s, "throughput", title);
    p->every = 5;
    sheet_column(p, "ns", 0, "handler duration");
    for (int r = 0; r < RATES; r++)
        for (int z = 0; z < count; z++) {
            double interval, bytes = experiment_size(context, sizes[z]);
            sheet_column(p, "Gbit/s", 1, "%.0f B at %.0f", bytes, rates[r]);
            int code = experiment_interval(context, bytes, rates[r], 0, &interval, err);
            if (code)
                return code;
            line[r][z] = 8 * bytes / interval;
        }
    for (double ns = 0; ns <= 2000; ns += 50) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = ns;
        for (int r = 0; r < RATES; r++)
            for (int z = 0; z < count; z++)
                row->value[1 + count * r + z] =
                    rate_throughput_gbit(hpus, experiment_size(context, sizes[z]), line[r][z], ns);
    }
    return SPIN_OK;
}

int pspin_fig6(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double hpus;
    int code = experiment_hpus(context, "pspin", HPUS, &hpus, err);
    if (!code)
        code = budgets(context, s, hpus, err);
    if (!code)
        code = throughputs(context, s, hpus, err);
    if (code)
        return code;
    experiment_note_network(context, s);
    if (experiment_one_row(context))
        return SPIN_OK;
    double small = rate_budget_ns(hpus, 64, 400), large = rate_budget_ns(hpus, 1024, 400);
    sheet_claim(s, "B10", "ns", small, 41, "budget for 64 B at 400 Gbit/s");
    sheet_claim(s, "B10", "ns", large, 655, "budget for 1,024 B at 400 Gbit/s");
    sheet_claim(s, "B10", "", rate_budget_ns(hpus, 64, 200) / small, 2,
                "budget at 200 over that at 400 Gbit/s, 64 B");
    sheet_claim(s, "B10", "", rate_budget_ns(hpus, 1024, 200) / large, 2,
                "budget at 200 over that at 400 Gbit/s, 1,024 B");
    sheet_note(s, "The budget is for all that holds an HPU: the handler and the runtime's 8 cycles "
                  "per packet (B11).");
    return SPIN_OK;
}
