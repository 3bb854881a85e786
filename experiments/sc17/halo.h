/* Proxies of applications that compute and exchange with their neighbours on a grid, over the
 * message layer of spinlib: one exchange after the other, until the world repeats itself
 * (rounds.h) or, if the caller wants so, each of them. */
#ifndef OPENSPIN_SC17_HALO_H
#define OPENSPIN_SC17_HALO_H

#include "experiment.h"
#include "rounds.h"

enum { HALO_DIMENSIONS = 4, HALO_NEIGHBOURS = 8 };

struct halo {
    int dimensions;
    bool corners;      /* of two dimensions: neighbours across them, too */
    bool by_dimension; /* waits for one before it sends along the next */
    /* Global sums: after exchange i of each `steps`, where bit i is set. They take no time, and no
     * rank goes on before all have come. */
    uint32_t steps, sums;
    double between; /* of its computing, between sends and wait */
    double uneven;  /* computing takes a rank up to so much more or less from time to time */
    uint32_t ranks;
    uint64_t bytes;      /* of a message */
    uint64_t compute_ps; /* per exchange */
    const char *variant; /* of the message layer */
    uint64_t exchanges;  /* wanted */
    uint64_t search;     /* simulated to find a period; 0: all of them */
};

/* Neighbours of each rank, and so messages that it sends in an exchange. */
uint32_t halo_neighbours(const struct halo *halo);

struct halo_result {
    struct rounds_result rounds;
    uint64_t time_ps, spent_ps; /* of all ranks; spent in calls of the message layer */
};
/* `total`: of each rank, or NULL. */
int halo_run(const struct experiment_context *context, const struct halo *halo,
             struct halo_result *result, struct rounds_total *total, struct spin_error *err);

#endif
