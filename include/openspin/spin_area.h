/* openspin/spin_area.h: area and power of a card.
 * A parametric model: per-unit values from the synthesis that ISCA'21 publishes (table III, 22 nm,
 * 1 GHz, worst-case activity), scaled to another configuration. Estimates for comparing designs. */
#ifndef OPENSPIN_SPIN_AREA_H
#define OPENSPIN_SPIN_AREA_H

#include "spin_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spin_area_config {
    uint64_t clusters, hpus_per_cluster;
    uint64_t l1_bytes, l1_banks, icache_bytes;           /* of a cluster */
    uint64_t packet_bytes, handler_bytes, program_bytes; /* L2 */
    uint64_t clock_mhz;
};
void spin_area_default(struct spin_area_config *config); /* the PsPIN card */

enum spin_area_part {
    SPIN_AREA_CARD,
    SPIN_AREA_L2,
    SPIN_AREA_INTERCONNECT,
    SPIN_AREA_SCHEDULER,
    SPIN_AREA_CLUSTER, /* those below are parts of a cluster */
    SPIN_AREA_L1,
    SPIN_AREA_CORE,
    SPIN_AREA_ICACHE,
    SPIN_AREA_CLUSTER_INTERCONNECT,
    SPIN_AREA_CLUSTER_REST,
    SPIN_AREA_PARTS
};
struct spin_area_row {
    const char *name;
    bool in_cluster;
    uint64_t count;        /* in the card; of a part of a cluster: in a cluster */
    double mm2, watt;      /* of one */
    const char *unit_cost; /* how it grows */
};
struct spin_area {
    struct spin_area_row row[SPIN_AREA_PARTS]; /* by enum spin_area_part */
    uint64_t hpus;
    double mm2, watt;               /* of the card */
    double memory_mm2, memory_watt; /* L1 and L2 of it */
};
/* SPIN_EARG for a card without clusters, HPUs, L1 or clock. */
int spin_area_estimate(const struct spin_area_config *config, struct spin_area *area,
                       struct spin_error *err);

#ifdef __cplusplus
}
#endif

#endif
