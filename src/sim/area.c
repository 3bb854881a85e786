/* Area and power of a card, from what ISCA'21 table III publishes for 4 x 8 HPUs.
 *
 * The table is the model's input, not its result: what a part costs per unit (a MiB, a core, a
 * port) is the published total over the published count. Totals are used where the table has both,
 * because its units are rounded (8 cores of 0.02 W are printed as 0.14 W). What the table does not
 * itemise is the difference between a parent and its parts: in the card the inter-cluster scheduler
 * (section IV-A: 3 % and 8 %), in a cluster its scheduler, DMA engine and HPU drivers.
 *
 * How parts grow is our assumption, written in the rows below:
 * - Memories by their bytes: macros of the same kind, more of them.
 * - The interconnect of the card by clusters: its masters, against memories whose number is fixed.
 * - That of a cluster by HPUs times L1 banks: a crossbar.
 * - The inter-cluster scheduler not at all, the rest of a cluster by clusters only.
 * - Power by the clock: 99.8 % of it is dynamic. Area not: one timing closure, at 1 GHz. */
#include "base/error.h"
#include "openspin.h"

#define MIB 1048576.0

/* The configuration that was synthesised (section III, B1 to B3). */
static const struct spin_area_config pspin = {
    .clusters = 4,
    .hpus_per_cluster = 8,
    .l1_bytes = 1 << 20,
    .l1_banks = 64,
    .icache_bytes = 4096,
    .packet_bytes = 4 << 20,
    .handler_bytes = 4 << 20,
    .program_bytes = 32 << 10,
    .clock_mhz = 1000,
};

/* Table III, column "Total": of all the instances within the parent. */
static const struct published {
    double mm2, watt;
} table3[SPIN_AREA_PARTS] = {
    [SPIN_AREA_CARD] = {18.47, 6.08},        [SPIN_AREA_L2] = {9.48, 1.10},
    [SPIN_AREA_INTERCONNECT] = {0.57, 0.71}, [SPIN_AREA_CLUSTER] = {7.95, 3.77},
    [SPIN_AREA_L1] = {1.65, 0.52},           [SPIN_AREA_CORE] = {0.08, 0.14},
    [SPIN_AREA_ICACHE] = {0.08, 0.14},       [SPIN_AREA_CLUSTER_INTERCONNECT] = {0.06, 0.11},
};

static const struct {
    const char *name, *grows;
} parts[SPIN_AREA_PARTS] = {
    [SPIN_AREA_CARD] = {"card", "sum"},
    [SPIN_AREA_L2] = {"L2 memories", "per MiB"},
    [SPIN_AREA_INTERCONNECT] = {"interconnect", "per cluster"},
    [SPIN_AREA_SCHEDULER] = {"inter-cluster scheduler", "fixed"},
    [SPIN_AREA_CLUSTER] = {"cluster", "sum"},
    [SPIN_AREA_L1] = {"L1", "per MiB"},
    [SPIN_AREA_CORE] = {"core", "each"},
    [SPIN_AREA_ICACHE] = {"instruction cache", "per KiB"},
    [SPIN_AREA_CLUSTER_INTERCONNECT] = {"interconnect", "HPUs x banks"},
    [SPIN_AREA_CLUSTER_REST] = {"scheduler, DMA, drivers", "per cluster"},
};

void spin_area_default(struct spin_area_config *config) {
    *config = pspin;
}

static double l2_bytes(const struct spin_area_config *c) {
    return (double)c->packet_bytes + (double)c->handler_bytes + (double)c->program_bytes;
}

/* How many units of a part's cost one instance has. */
static double units(const struct spin_area_config *c, enum spin_area_part part) {
    switch (part) {
    case SPIN_AREA_L2:
        return l2_bytes(c) / MIB;
    case SPIN_AREA_INTERCONNECT:
        return (double)c->clusters;
    case SPIN_AREA_L1:
        return (double)c->l1_bytes / MIB;
    case SPIN_AREA_ICACHE:
        return (double)c->icache_bytes / 1024;
    case SPIN_AREA_CLUSTER_INTERCONNECT:
        return (double)c->hpus_per_cluster * (double)c->l1_banks;
    default:
        return 1;
    }
}

static uint64_t count(const struct spin_area_config *c, enum spin_area_part part) {
    return part == SPIN_AREA_CLUSTER ? c->clusters
           : part == SPIN_AREA_CORE  ? c->hpus_per_cluster
                                     : 1;
}

/* What one instance of a part of table III cost in the card that was synthesised; for those that it
 * does not itemise, what is left of the parent. */
static struct published synthesised(enum spin_area_part part) {
    struct published p = table3[part];
    if (part == SPIN_AREA_SCHEDULER) {
        p = table3[SPIN_AREA_CARD];
        for (int i = SPIN_AREA_L2; i <= SPIN_AREA_CLUSTER; i++) {
            p.mm2 -= table3[i].mm2; /* its own row is 0 */
            p.watt -= table3[i].watt;
        }
    } else if (part == SPIN_AREA_CLUSTER_REST) {
        p.mm2 = table3[SPIN_AREA_CLUSTER].mm2 / (double)pspin.clusters;
        p.watt = table3[SPIN_AREA_CLUSTER].watt / (double)pspin.clusters;
        for (int i = SPIN_AREA_L1; i < SPIN_AREA_CLUSTER_REST; i++) {
            p.mm2 -= table3[i].mm2;
            p.watt -= table3[i].watt;
        }
    }
    double instances = (double)count(&pspin, part);
    return (struct published){p.mm2 / instances, p.watt / instances};
}

static void add_up(struct spin_area *a, enum spin_area_part parent, int first, int last) {
    struct spin_area_row *sum = &a->row[parent];
    sum->mm2 = sum->watt = 0;
    for (int i = first; i <= last; i++) {
        sum->mm2 += (double)a->row[i].count * a->row[i].mm2;
        sum->watt += (double)a->row[i].count * a->row[i].watt;
    }
}

int spin_area_estimate(const struct spin_area_config *c, struct spin_area *a,
                       struct spin_error *err) {
    if (!c->clusters || !c->hpus_per_cluster || !c->l1_bytes || !c->l1_banks || !c->clock_mhz)
        return spin_fail(err, SPIN_EARG,
                         "a card needs clusters, HPUs, L1 with banks, and a clock: none may be 0");
    *a = (struct spin_area){.hpus = c->clusters * c->hpus_per_cluster};
    double clock = (double)c->clock_mhz / (double)pspin.clock_mhz;
    for (int i = 0; i < SPIN_AREA_PARTS; i++) {
        struct published one = synthesised((enum spin_area_part)i);
        double scale = units(c, (enum spin_area_part)i) / units(&pspin, (enum spin_area_part)i);
        a->row[i] = (struct spin_area_row){.name = parts[i].name,
                                           .in_cluster = i > SPIN_AREA_CLUSTER,
                                           .count = count(c, (enum spin_area_part)i),
                                           .mm2 = one.mm2 * scale,
                                           .watt = one.watt * scale * clock,
                                           .unit_cost = parts[i].grows};
    }
    add_up(a, SPIN_AREA_CLUSTER, SPIN_AREA_L1, SPIN_AREA_CLUSTER_REST);
    add_up(a, SPIN_AREA_CARD, SPIN_AREA_L2, SPIN_AREA_CLUSTER);
    a->mm2 = a->row[SPIN_AREA_CARD].mm2;
    a->watt = a->row[SPIN_AREA_CARD].watt;
    const struct spin_area_row *l1 = &a->row[SPIN_AREA_L1], *l2 = &a->row[SPIN_AREA_L2];
    a->memory_mm2 = l2->mm2 + (double)c->clusters * l1->mm2;
    a->memory_watt = l2->watt + (double)c->clusters * l1->watt;
    return SPIN_OK;
}
