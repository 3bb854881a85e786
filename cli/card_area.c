/* openspin card area: what a card of another size would cost in silicon and power. */
#include "cli_card.h"

#include <stdio.h>

#include "base/json.h"

struct options {
    struct spin_area_config config;
    bool json;
};

#define AT(field) offsetof(struct options, config.field)
static const struct cli_option options[] = {
    {"clusters", 0, CLI_NUMBER, "N", "clusters (default 4)", AT(clusters), 1, 4096},
    {"hpus-per-cluster", 0, CLI_NUMBER, "N", "HPUs of a cluster (default 8)", AT(hpus_per_cluster),
     1, 4096},
    {"l1", 0, CLI_SIZE, "SIZE", "L1 of a cluster (default 1MiB)", AT(l1_bytes), 1024, 1u << 30},
    {"l1-banks", 0, CLI_NUMBER, "N", "its banks (default 64)", AT(l1_banks), 1, 65536},
    {"icache", 0, CLI_SIZE, "SIZE", "instruction cache of a cluster (default 4KiB)",
     AT(icache_bytes), 0, 1 << 20},
    {"packet-buffer", 0, CLI_SIZE, "SIZE", "L2 packet buffer (default 4MiB)", AT(packet_bytes), 0,
     1u << 30},
    {"handler-memory", 0, CLI_SIZE, "SIZE", "L2 handler memory (default 4MiB)", AT(handler_bytes),
     0, 1u << 30},
    {"program-memory", 0, CLI_SIZE, "SIZE", "program memory (default 32KiB)", AT(program_bytes), 0,
     1u << 30},
    {"clock", 0, CLI_NUMBER, "MHZ", "clock in MHz, for the power (default 1000)", AT(clock_mhz), 1,
     100000},
    {"json", 0, CLI_FLAG, NULL, "print JSON", offsetof(struct options, json), 0, 0},
    {0}};

static void print_text(const struct spin_area_config *c, const struct spin_area *a) {
    printf("%llu clusters of %llu HPUs, %llu MHz, 22 nm; worst-case activity\n\n",
           (unsigned long long)c->clusters, (unsigned long long)c->hpus_per_cluster,
           (unsigned long long)c->clock_mhz);
    printf("%-27s %6s  %9s  %9s  %9s  %9s  %s\n", "component", "count", "mm2 each", "mm2", "W each",
           "W", "grows");
    for (int i = 0; i < SPIN_AREA_PARTS; i++) {
        const struct spin_area_row *r = &a->row[i];
        int indent = i == SPIN_AREA_CARD ? 0 : r->in_cluster ? 4 : 2;
        double count = (double)r->count;
        printf("%*s%-*s %6llu  %9.3f  %9.3f  %9.3f  %9.3f  %s\n", indent, "", 27 - indent, r->name,
               (unsigned long long)r->count, r->mm2, count * r->mm2, r->watt, count * r->watt,
               r->unit_cost);
    }
    printf("\nper HPU %.3f mm2, %.0f mW; memories (L1, L2) %.0f %% of the area, %.0f %% of the "
           "power\n",
           a->mm2 / (double)a->hpus, 1000 * a->watt / (double)a->hpus, 100 * a->memory_mm2 / a->mm2,
           100 * a->memory_watt / a->watt);
    printf("Costs of a unit are inputs, from ISCA'21 table III (B16); how parts grow is assumed.\n"
           "Parts of a cluster are counted within one.\n");
}

static void print_json(const struct spin_area_config *c, const struct spin_area *a) {
    struct json j = {.out = stdout};
    json_object(&j, NULL);
    json_u64(&j, "clusters", c->clusters);
    json_u64(&j, "hpus_per_cluster", c->hpus_per_cluster);
    json_u64(&j, "l1_bytes", c->l1_bytes);
    json_u64(&j, "l1_banks", c->l1_banks);
    json_u64(&j, "icache_bytes", c->icache_bytes);
    json_u64(&j, "packet_buffer_bytes", c->packet_bytes);
    json_u64(&j, "handler_memory_bytes", c->handler_bytes);
    json_u64(&j, "program_memory_bytes", c->program_bytes);
    json_u64(&j, "clock_mhz", c->clock_mhz);
    json_real(&j, "area_mm2", a->mm2, 4);
    json_real(&j, "power_w", a->watt, 4);
    json_real(&j, "memory_area_mm2", a->memory_mm2, 4);
    json_real(&j, "memory_power_w", a->memory_watt, 4);
    json_string(&j, "source", "ISCA'21 table III");
    json_array(&j, "components");
    for (int i = 0; i < SPIN_AREA_PARTS; i++) {
        const struct spin_area_row *r = &a->row[i];
        json_object(&j, NULL);
        json_string(&j, "name", r->name);
        json_bool(&j, "in_cluster", r->in_cluster);
        json_u64(&j, "count", r->count);
        json_real(&j, "mm2_each", r->mm2, 6);
        json_real(&j, "w_each", r->watt, 6);
        json_string(&j, "grows", r->unit_cost);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {0};
    struct cli_list operands;
    struct spin_area area;
    struct spin_error err;
    spin_area_default(&o.config);
    int status = cli_parse(command, argc, argv, &o, &operands);
    if (!status && operands.count)
        status = cli_error(command, CLI_USAGE, "unexpected '%s'; see 'openspin card area --help'",
                           operands.items[0]);
    if (!status && spin_area_estimate(&o.config, &area, &err))
        status = cli_report(command, &err);
    if (!status && o.json)
        print_json(&o.config, &area);
    else if (!status)
        print_text(&o.config, &area);
    cli_free(command, &o, &operands);
    return status;
}

const struct cli_command cli_card_area = {
    .name = "card area",
    .args = "[--clusters N] [--hpus-per-cluster N] [--l1 SIZE] [options]",
    .summary = "area and power of a card, by its parts",
    .about =
        "A parametric model. What a unit costs is taken from the synthesis in ISCA'21 table III\n"
        "(22 nm, 1 GHz, worst-case activity); how parts grow with the configuration is\n"
        "assumed: memories by bytes, cores each, the card's interconnect by clusters, a\n"
        "cluster's by HPUs times L1 banks, power by the clock.",
    .options = options,
    .run = run,
};
