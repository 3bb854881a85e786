/* ISCA'21 figure 6: how long handlers may take at line rate, and what throughput is left when they
 * take longer. Arithmetic; the card enters with its number of HPUs only. */
#include "figures.h"

#include "rate.h"

#define HPUS 32 /* B1 */

static const double rates[] = {200, 400};
static const double sizes[] = {64, 512, 1024};

static void budgets(struct sheet *s) {
    struct sheet_panel *p = sheet_panel(s, "budget", "Time budget of a handler, 32 HPUs");
    p->log_x = true;
    sheet_column(p, "B", 0, "packet size");
    for (int r = 0; r < 2; r++)
        sheet_column(p, "ns", 2, "at %.0f Gbit/s", rates[r]);
    for (double bytes = 64; bytes <= 1024; bytes *= 2) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = bytes;
        for (int r = 0; r < 2; r++)
            row->value[1 + r] = rate_budget_ns(HPUS, bytes, rates[r]);
    }
}

static void throughputs(struct sheet *s) {
    struct sheet_panel *p =
        sheet_panel(s, "throughput", "Throughput over the handler's duration, 32 HPUs");
    p->every = 5;
    sheet_column(p, "ns", 0, "handler duration");
    for (int r = 0; r < 2; r++)
        for (int z = 0; z < 3; z++)
            sheet_column(p, "Gbit/s", 1, "%.0f B at %.0f", sizes[z], rates[r]);
    for (double ns = 0; ns <= 2000; ns += 50) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = ns;
        for (int r = 0; r < 2; r++)
            for (int z = 0; z < 3; z++)
                row->value[1 + 3 * r + z] = rate_throughput_gbit(HPUS, sizes[z], rates[r], ns);
    }
}

int pspin_fig6(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    (void)context, (void)err;
    budgets(s);
    throughputs(s);
    double small = rate_budget_ns(HPUS, 64, 400), large = rate_budget_ns(HPUS, 1024, 400);
    sheet_claim(s, "B10", "ns", small, 41, "budget for 64 B at 400 Gbit/s");
    sheet_claim(s, "B10", "ns", large, 655, "budget for 1,024 B at 400 Gbit/s");
    sheet_claim(s, "B10", "", rate_budget_ns(HPUS, 64, 200) / small, 2,
                "budget at 200 over that at 400 Gbit/s, 64 B");
    sheet_claim(s, "B10", "", rate_budget_ns(HPUS, 1024, 200) / large, 2,
                "budget at 200 over that at 400 Gbit/s, 1,024 B");
    sheet_note(s, "The budget is for all that holds an HPU: the handler and the runtime's 8 cycles "
                  "a packet (B11).");
    return SPIN_OK;
}
