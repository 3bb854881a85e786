/* ISCA'21 table III by the parametric model of area and power. The table's rows are the model's
 * inputs, so its totals show that the model is consistent, and no more. What the paper says
 * elsewhere (shares, per HPU, the scheduler) was not put in, and is compared. */
#include "figures.h"

static void components(struct sheet *s, const struct spin_area *a) {
    struct sheet_panel *p = sheet_panel(s, "components", "Area and power of the PsPIN card");
    p->by_name = true;
    sheet_column(p, "", 0, "component");
    sheet_column(p, "mm2", 2, "area");
    sheet_column(p, "W", 2, "power");
    for (int i = 0; i < SPIN_AREA_PARTS; i++) {
        const struct spin_area_row *r = &a->row[i];
        char label[64];
        snprintf(label, sizeof label, "%s%.28s", r->in_cluster ? "- " : "", r->name);
        struct sheet_row *row = sheet_row(s, p, label);
        row->value[1] = (double)r->count * r->mm2;
        row->value[2] = (double)r->count * r->watt;
    }
}

/* Scaling, as the paper's question 1 asks: area and power over the number of clusters. */
static int scaling(struct sheet *s, struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, "scaling", "Area and power over clusters of 8 HPUs");
    sheet_column(p, "", 0, "clusters");
    sheet_column(p, "mm2", 2, "area");
    sheet_column(p, "W", 2, "power");
    sheet_column(p, "mm2", 3, "area of an HPU");
    for (uint64_t clusters = 1; clusters <= 64; clusters *= 2) {
        struct spin_area_config c;
        struct spin_area a;
        spin_area_default(&c);
        c.clusters = clusters;
        int code = spin_area_estimate(&c, &a, err);
        if (code)
            return code;
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = (double)clusters;
        row->value[1] = a.mm2;
        row->value[2] = a.watt;
        row->value[3] = a.mm2 / (double)a.hpus;
    }
    return SPIN_OK;
}

int pspin_table3(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    (void)context;
    struct spin_area_config config;
    struct spin_area a;
    spin_area_default(&config);
    int code = spin_area_estimate(&config, &a, err);
    if (code)
        return code;
    components(s, &a);
    code = scaling(s, err);
    double hpus = (double)a.hpus;
    const struct spin_area_row *scheduler = &a.row[SPIN_AREA_SCHEDULER];
    const char *input = "the table's rows are the model's input";
    sheet_calibrated(sheet_claim(s, "B16", "mm2", a.mm2, 18.47, "area of the card"), "%s", input);
    sheet_calibrated(sheet_claim(s, "B16", "W", a.watt, 6.08, "power of the card"), "%s", input);
    sheet_claim(s, "B16", "%", 100 * a.memory_mm2 / a.mm2, 87, "memories' part of the area");
    sheet_claim(s, "B16", "%", 100 * a.memory_watt / a.watt, 52, "memories' part of the power");
    sheet_claim(s, "B16", "mm2", a.mm2 / hpus, 0.578, "area of an HPU (table IV)");
    sheet_claim(s, "B16", "mW", 1000 * a.watt / hpus, 190, "power of an HPU");
    sheet_claim(s, "B16", "W", scheduler->watt, 0.5, "power of the inter-cluster scheduler");
    struct sheet_claim *c = sheet_claim(s, "B16", "%", 100 * scheduler->mm2 / a.mm2, 3,
                                        "inter-cluster scheduler's part of the area");
    sheet_within(c, 0.5);
    sheet_because(c, "what the table leaves over; the text has whole per cents");
    return code;
}
