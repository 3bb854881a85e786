/* Sheets, line-rate arithmetic, and the model of area and power. */
#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "experiment.h"
#include "pspin/six.h"
#include "rate.h"

static bool close_to(double a, double b) {
    return fabs(a - b) < 1e-9 * (1 + fabs(b));
}

/* ---- arithmetic ---- */

TEST(packets_come_at_the_gap_or_the_rate) {
    CHECK(close_to(rate_interval_ns(64, 400, 0), 1.28));
    CHECK(close_to(rate_interval_ns(64, 400, 6.7), 6.7));
    CHECK(close_to(rate_interval_ns(4096, 400, 6.7), 81.92));
}

TEST(throughput_is_capped_by_the_line) {
    CHECK(close_to(rate_throughput_gbit(32, 64, 400, 0), 400));
    CHECK(close_to(rate_throughput_gbit(32, 64, 400, 40.96), 400));
    CHECK(close_to(rate_throughput_gbit(32, 64, 400, 81.92), 200));
    CHECK(rate_throughput_gbit(32, 64, 400, 41) < 400);
}

/* At the budget the HPUs are just enough; a little over it they are one too few. */
TEST(budget_and_hpus_are_inverse) {
    for (double bytes = 64; bytes <= 4096; bytes *= 2)
        for (double hpus = 1; hpus <= 512; hpus *= 2) {
            double budget = rate_budget_ns(hpus, bytes, 400);
            double interval = rate_interval_ns(bytes, 400, 0);
            CHECK(rate_hpus(budget, interval) == hpus);
            CHECK(rate_hpus(budget + 0.01, interval) == hpus + 1);
        }
    CHECK(rate_hpus(0, 1) == 1);
}

/* ---- sheets ---- */

TEST(claims_are_judged_by_their_ratio) {
    struct sheet s = {0};
    CHECK(sheet_claim(&s, "X1", "ns", 109, 100, "near")->verdict == SHEET_AGREES);
    CHECK(sheet_claim(&s, "X2", "ns", 89, 100, "low")->verdict == SHEET_DIFFERS);
    CHECK(sheet_claim(&s, "X3", "ns", 111, 100, "high")->verdict == SHEET_DIFFERS);
    CHECK(sheet_claim(&s, "X4", "ns", NAN, 100, "absent")->verdict == SHEET_MISSING);
    CHECK(sheet_shape(&s, "X5", true, "so")->verdict == SHEET_AGREES);
    CHECK(sheet_shape(&s, "X6", false, "so")->verdict == SHEET_DIFFERS);
    char line[400];
    sheet_verdict(&s, line, sizeof line);
    CHECK_STR(line, "2 of 6 agree; differ: X2 low (x 0.89), X3 high (x 1.11), X6 so; "
                    "not there yet: X4 absent");
    /* A line that is too long is cut, not overrun. */
    char little[8];
    sheet_verdict(&s, little, sizeof little);
    CHECK_STR(little, "2 of 6 ");
    sheet_free(&s);
}

TEST(bounds_are_met_from_one_side) {
    struct sheet s = {0};
    CHECK(sheet_bound(&s, "X", "", 300, 200, false, "at least")->verdict == SHEET_AGREES);
    CHECK(sheet_bound(&s, "X", "", 181, 200, false, "at least")->verdict == SHEET_AGREES);
    CHECK(sheet_bound(&s, "X", "", 179, 200, false, "at least")->verdict == SHEET_DIFFERS);
    CHECK(sheet_bound(&s, "X", "", 100, 200, true, "at most")->verdict == SHEET_AGREES);
    CHECK(sheet_bound(&s, "X", "", 221, 200, true, "at most")->verdict == SHEET_DIFFERS);
    CHECK(sheet_bound(&s, "X", "", NAN, 200, true, "at most")->verdict == SHEET_MISSING);
    sheet_free(&s);
}

TEST(within_so_much_of_its_unit) {
    struct sheet s = {0};
    struct sheet_claim *c = sheet_claim(&s, "X", "ns", 27, 26, "in whole ns");
    sheet_within(c, 1);
    CHECK(c->verdict == SHEET_AGREES);
    sheet_within(c, 0.5);
    CHECK(c->verdict == SHEET_DIFFERS);
    c = sheet_claim(&s, "X", "ns", NAN, 26, "not there");
    sheet_within(c, 1);
    CHECK(c->verdict == SHEET_MISSING);
    sheet_free(&s);
}

TEST(what_was_fitted_and_differs_still_differs) {
    struct sheet s = {0};
    struct sheet_claim *c = sheet_claim(&s, "X1", "", 100, 100, "fits");
    sheet_calibrated(c, "by us");
    CHECK(c->verdict == SHEET_CALIBRATED);
    c = sheet_claim(&s, "X2", "", 150, 100, "fits not");
    sheet_calibrated(c, "by us");
    CHECK(c->verdict == SHEET_DIFFERS);
    sheet_free(&s);
}

static int too_many_panels(const struct experiment_context *c, struct sheet *s,
                           struct spin_error *err) {
    (void)c, (void)err;
    for (int i = 0; i <= SHEET_PANELS; i++)
        sheet_row(s, sheet_panel(s, "p", "p"), NULL);
    return SPIN_OK;
}
static int too_many_columns(const struct experiment_context *c, struct sheet *s,
                            struct spin_error *err) {
    (void)c, (void)err;
    struct sheet_panel *p = sheet_panel(s, "p", "p");
    for (int i = 0; i <= SHEET_COLUMNS; i++)
        sheet_column(p, "", 0, "c");
    return SPIN_OK;
}
static int too_many_claims(const struct experiment_context *c, struct sheet *s,
                           struct spin_error *err) {
    (void)c, (void)err;
    for (int i = 0; i <= SHEET_CLAIMS; i++)
        sheet_claim(s, "X", "", 1, 1, "c");
    return SPIN_OK;
}

TEST(what_does_not_fit_a_sheet_is_an_error) {
    int (*const runs[])(const struct experiment_context *, struct sheet *,
                        struct spin_error *) = {too_many_panels, too_many_columns, too_many_claims};
    for (int i = 0; i < 3; i++) {
        struct experiment e = {"x/fig", "t", "s", false, runs[i]};
        struct sheet s;
        struct spin_error err;
        CHECK_EQ(experiment_run(&e, &(struct experiment_context){0}, &s, &err), SPIN_ELIMIT);
        CHECK_HAS(err.text, "x/fig");
        CHECK_EQ(s.panels, 0);
    }
}

TEST(csv_quotes_what_needs_it) {
    struct sheet s = {0};
    struct sheet_panel *p = sheet_panel(&s, "p", "p");
    p->by_name = true;
    sheet_column(p, "", 0, "a, b");
    sheet_column(p, "ns", 1, "t");
    sheet_row(&s, p, "say \"so\"")->value[1] = 1.25;
    sheet_row(&s, p, "none");
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    sheet_print_csv(p, out);
    fclose(out);
    bool same = strcmp(text, "\"a, b\",t (ns)\n\"say \"\"so\"\"\",1.2\nnone,\n") == 0;
    free(text);
    sheet_free(&s);
    CHECK(same);
}

TEST(ids_are_unique_and_papers_first) {
    for (const struct experiment *e = experiments; e->id; e++) {
        CHECK(strchr(e->id, '/') && e->title && e->source && e->run);
        for (const struct experiment *f = e + 1; f->id; f++)
            CHECK(strcmp(e->id, f->id) != 0);
    }
}

/* Experiments that need handler images say so when they are not there. */
TEST(no_images_is_an_error_of_one_line) {
    for (const struct experiment *e = experiments; e->id; e++) {
        struct sheet s;
        struct spin_error err = {0};
        if (strncmp(e->id, "part/", 5) == 0)
            continue; /* they have none, and take their time */
        int code = experiment_run(
            e, &(struct experiment_context){.images = "/nowhere", .workloads = "/nowhere"}, &s,
            &err);
        if (!code) {
            sheet_free(&s);
            continue;
        }
        CHECK_EQ(code, SPIN_EFILE);
        CHECK_HAS(err.text, "/nowhere/");
        CHECK(!strchr(err.text, '\n'));
    }
}

/* ---- area and power ---- */

static struct spin_area estimate(const struct spin_area_config *c) {
    struct spin_area a;
    struct spin_error err;
    if (spin_area_estimate(c, &a, &err))
        TEST_FAIL("%s", err.text);
    return a;
}

TEST(the_synthesised_card_costs_what_it_cost) {
    struct spin_area_config c;
    spin_area_default(&c);
    struct spin_area a = estimate(&c);
    CHECK(close_to(a.mm2, 18.47) && close_to(a.watt, 6.08));
    CHECK_EQ(a.hpus, 32);
    CHECK(fabs(a.row[SPIN_AREA_CLUSTER].mm2 - 1.99) < 0.005);
    CHECK(fabs(a.row[SPIN_AREA_CLUSTER].watt - 0.94) < 0.005);
    for (int i = 0; i < SPIN_AREA_PARTS; i++)
        CHECK(a.row[i].mm2 > 0 && a.row[i].watt > 0 && a.row[i].count > 0 && a.row[i].name);
}

/* For any configuration the parts sum up to their parent. */
TEST(parts_sum_up) {
    const struct spin_area_config some[] = {
        {1, 1, 1 << 16, 8, 1024, 1 << 20, 1 << 18, 1 << 12, 500},
        {16, 8, 1 << 20, 64, 4096, 4 << 20, 4 << 20, 32 << 10, 1000},
        {3, 5, 700000, 17, 0, 0, 0, 0, 1300},
    };
    for (int k = 0; k < 3; k++) {
        struct spin_area a = estimate(&some[k]);
        double mm2 = 0, watt = 0, inner = 0, inner_watt = 0;
        for (int i = SPIN_AREA_L2; i < SPIN_AREA_PARTS; i++) {
            double n = (double)a.row[i].count;
            *(a.row[i].in_cluster ? &inner : &mm2) += n * a.row[i].mm2;
            *(a.row[i].in_cluster ? &inner_watt : &watt) += n * a.row[i].watt;
        }
        CHECK(close_to(mm2, a.mm2) && close_to(watt, a.watt));
        CHECK(close_to(inner, a.row[SPIN_AREA_CLUSTER].mm2));
        CHECK(close_to(inner_watt, a.row[SPIN_AREA_CLUSTER].watt));
        CHECK(a.memory_mm2 < a.mm2);
    }
}

TEST(parts_grow_as_the_model_says) {
    struct spin_area_config c, d;
    spin_area_default(&c);
    struct spin_area a = estimate(&c), b;
    d = c, d.l1_bytes *= 2;
    b = estimate(&d);
    CHECK(close_to(b.mm2 - a.mm2, 4 * 1.65));
    d = c, d.hpus_per_cluster *= 2; /* 8 cores and a crossbar of twice the size in each cluster */
    b = estimate(&d);
    CHECK(close_to(b.mm2 - a.mm2, 4 * (0.08 + 0.06)));
    d = c, d.clock_mhz = 500;
    b = estimate(&d);
    CHECK(close_to(b.watt, a.watt / 2) && close_to(b.mm2, a.mm2));
    d = c, d.packet_bytes = d.handler_bytes = d.program_bytes = 0;
    b = estimate(&d);
    CHECK(close_to(a.mm2 - b.mm2, 9.48));
    d = c, d.clusters = 0;
    struct spin_error err;
    CHECK_EQ(spin_area_estimate(&d, &b, &err), SPIN_EARG);
}

/* ---- the native handlers ---- */

/* They compute what the workloads expect; with one worker or two they take some time. */
TEST(six_handlers_run_natively) {
    for (int k = 0; k < SIX; k++)
        for (int threads = 1; threads <= 2; threads++) {
            struct spin_error err;
            double ns = 0;
            if (six_on_machine(k, 512, threads, &ns, &err))
                TEST_FAIL("%s: %s", six_names[k], err.text);
            CHECK(ns > 0);
        }
    struct spin_error err;
    double ns;
    CHECK_EQ(six_on_machine(0, 512, 1000000, &ns, &err), SPIN_EARG);
}

TEST_MAIN
