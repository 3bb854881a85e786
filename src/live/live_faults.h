/* A network that is worse than the real one, for tests: what a transport sends is lost, doubled,
 * overtaken or changed, as a seed says. OPENSPIN_FAULTS=SEED:loss=0.1,duplicate=0.1,reorder=0.1,
 * corrupt=0.1 */
#ifndef SPIN_LIVE_LIVE_FAULTS_H
#define SPIN_LIVE_LIVE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "openspin.h"

enum live_fault { FAULT_LOSS, FAULT_DUPLICATE, FAULT_REORDER, FAULT_CORRUPT, FAULTS };

struct live_faults {
    bool on;
    struct rng rng;
    double share[FAULTS];
};

/* text NULL: none. */
int live_faults_parse(struct live_faults *faults, const char *text, struct spin_error *err);

static inline bool live_faults_now(struct live_faults *f, enum live_fault fault) {
    return rng_u32(&f->rng) < f->share[fault] * 4294967296.0;
}

#endif
