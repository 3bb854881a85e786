/* Some ranks of a world, as people write them: "0-3,7", "4-" (to the last). */
#ifndef SPIN_SIM_RANK_SET_H
#define SPIN_SIM_RANK_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin.h"

/* A bit per rank, to be freed. */
int rank_set_read(uint8_t **out, const char *text, uint32_t ranks, struct spin_error *err);

static inline bool rank_set_has(const uint8_t *set, uint32_t rank) {
    return set[rank / 8] >> rank % 8 & 1;
}

#endif
