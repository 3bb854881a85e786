/* The host side of the workloads in this folder: packets from a seed, the execution context that
 * they need, and what must come of it, computed in plain C. Whatever runs handlers (the rig, the
 * card) drives every workload through this header:
 *
 *   workload_open(&run, "reduce", settings, count, seed, &err);
 *   context = workload_context(run);              load the image, fill the memories
 *   while (workload_next(run, &packet)) ...       header before, completion after the payloads
 *   workload_sent(run, dest, data, bytes);        for each packet that came out, in any order
 *   workload_check(run, &results, &err);
 *   workload_close(run);
 *
 * A workload knows nothing of time, HPUs or clusters: the same run must check wherever it ran. */
#ifndef OPENSPIN_WORKLOAD_H
#define OPENSPIN_WORKLOAD_H

#include "base/rng.h"
#include "openspin.h"

#define WORKLOAD_PARAMETERS 6
#define WORKLOAD_CLUSTERS   4 /* scratchpads of a PsPIN task */

struct workload_parameter {
    const char *name, *about;
    uint64_t value, min, max; /* value: the default, the paper's where it has one (B15) */
};

struct workload_context {
    const char *image;                         /* handlers/IMAGE.spin of the build */
    const char *header, *payload, *completion; /* functions; NULL: no such handler */
    uint32_t handler_bytes, scratchpad_bytes, host_bytes;
    /* First content; NULL: zeros. One scratchpad's is for each cluster. */
    const void *handler_memory, *scratchpad, *host_memory;
};

struct workload_packet {
    const uint8_t *data; /* valid until the next call */
    uint32_t bytes;
    uint32_t message; /* its number, from 0 */
    bool first, last; /* of its message */
};

/* The memories after the last handler. `in_order`: one packet after the other, as they were given
 * out. Otherwise a workload checks what holds in every order. */
struct workload_results {
    const uint8_t *handler_memory, *host_memory, *scratchpad[WORKLOAD_CLUSTERS];
    bool in_order;
};

struct workload_run;

/* A row of the table in workload.c. `run_bytes` is the size of the workload's own run, which begins
 * with struct workload_run. */
struct workload {
    const char *name, *about;
    const struct workload_parameter *parameters; /* the last has no name */
    size_t run_bytes;
    bool (*begin)(struct workload_run *run); /* false: out of memory */
    bool (*next)(struct workload_run *run, struct workload_packet *packet);
    void (*sent)(struct workload_run *run, uint32_t dest, const uint8_t *data, uint32_t bytes);
    int (*check)(struct workload_run *run, const struct workload_results *results,
                 struct spin_error *err);
};

struct workload_run {
    const struct workload *of;
    uint64_t value[WORKLOAD_PARAMETERS], seed;
    struct rng rng;
    struct workload_context context;
    uint32_t given; /* packets */
    void *block[8]; /* freed with the run */
    uint32_t blocks;
};

const struct workload *workload_at(unsigned i); /* NULL after the last */

/* `settings` are "name=value". */
int workload_open(struct workload_run **run, const char *name, const char *const *settings,
                  int count, uint64_t seed, struct spin_error *err);
void workload_close(struct workload_run *run);
const struct workload_context *workload_context(const struct workload_run *run);
bool workload_next(struct workload_run *run, struct workload_packet *packet);
void workload_sent(struct workload_run *run, uint32_t dest, const uint8_t *data, uint32_t bytes);
/* SPIN_OK, or SPIN_EFORMAT with the first difference. */
int workload_check(struct workload_run *run, const struct workload_results *results,
                   struct spin_error *err);

/* ---- For the workloads themselves ------------------------------------------------------------ */

#define WORKLOAD_HEADERS 28u /* pkt_hdr_t of packets.h */

/* Zeroed memory that lives as long as the run; NULL: out of memory. */
void *workload_memory(struct workload_run *run, size_t bytes);
/* IP and UDP headers as PsPIN's packets have them, for a packet of `bytes` in all. `number` goes
 * into the identification, so it has 16 bits. */
void workload_headers(uint8_t *packet, uint32_t bytes, uint32_t number, uint32_t source);
/* "reduce: <what>: <index> is <got>, expected <want>" */
int workload_differs(const struct workload_run *run, struct spin_error *err, const char *what,
                     uint64_t index, uint64_t got, uint64_t want);
/* The first `bytes` of host memory are these. */
int workload_host_is(const struct workload_run *run, const struct workload_results *results,
                     const uint8_t *expected, size_t bytes, struct spin_error *err);

#endif
