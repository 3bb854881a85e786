/* ISCA'21 table III by the parametric model of area and power. The table's rows are the model's
 * inputs, so its totals show that the model is consistent, and no more. What the paper says
 * elsewhere (shares, per HPU, the scheduler) was not put in, and is compared. */
#include "figures.h"

#include "experiment_card.h"

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
static int scaling(struct sheet *s, const struct spin_area_config *card, struct spin_error *err) {
    char title[60];
    snprintf(title, sizeof title, "Area and power over clusters of %u HPUs",
             (unsigned)card->hpus_per_cluster);
    struct sheet_panel *p = sheet_panel(s, "scaling", title);
    sheet_column(p, "", 0, "clusters");
    sheet_column(p, "mm2", 2, "area");
    sheet_column(p, "W", 2, "power");
    sheet_column(p, "mm2", 3, "area of an HPU");
    for (uint64_t clusters = 1; clusters <= 64; clusters *= 2) {
        struct spin_area_config c = *card;
        struct spin_area a;
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

/* Of the card that the caller chose, as far as the model has it. */
static int configure(const struct experiment_context *context, struct spin_area_config *config,
                     struct spin_error *err) {
    struct card_config card;
    int code = experiment_card(context, NULL, &card, err);
    spin_area_default(config);
    if (code)
        return code;
    config->clusters = card.clusters;
    config->hpus_per_cluster = card.cluster_hpus;
    config->clock_mhz = 1000000 / card.cycle;
    if (card.core) /* SC'17 says nothing of its memories: PsPIN's */
        return SPIN_OK;
    config->l1_banks = card.l1_banks;
    config->icache_bytes = card.icache_bytes;
    config->packet_bytes = card.l2_packet_bytes;
    config->handler_bytes = card.handler_bytes;
    config->program_bytes = card.program_bytes;
    return SPIN_OK;
}

/* All cards of a network, and what a packet costs one that is always at work. */
static int network(const struct experiment_context *context, struct sheet *s,
                   const struct spin_area *a, struct spin_error *err) {
    double interval, cards = context->setup.ranks ? context->setup.ranks : 1;
    uint32_t bytes = experiment_size(context, 1024);
    int code = experiment_interval(context, bytes, 400, 0, &interval, err);
    if (code)
        return code;
    struct sheet_panel *p =
        sheet_panel(s, "network", "Cards of all ranks, and packets at line rate");
    sheet_column(p, "", 0, "cards");
    sheet_column(p, "mm2", 2, "area");
    sheet_column(p, "W", 2, "power");
    sheet_column(p, "B", 0, "packet");
    sheet_column(p, "ns", 2, "one every");
    sheet_column(p, "nJ", 2, "energy of one");
    struct sheet_row *row = sheet_row(s, p, NULL);
    row->value[0] = cards;
    row->value[1] = cards * a->mm2;
    row->value[2] = cards * a->watt;
    row->value[3] = bytes;
    row->value[4] = interval;
    row->value[5] = a->watt * interval;
    experiment_note_network(context, s);
    return SPIN_OK;
}

int pspin_table3(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    struct spin_area_config config;
    struct spin_area a;
    bool is_there = false;
    int code = configure(context, &config, err);
    if (!code)
        code = spin_area_estimate(&config, &a, err);
    if (code)
        return code;
    components(s, &a);
    code = scaling(s, &config, err);
    if (!code)
        code = experiment_network(context, &is_there, err);
    if (!code && (is_there || context->setup.bytes))
        code = network(context, s, &a, err);
    if (code || experiment_one_row(context))
        return code;
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
