/* The kernels on this machine and on an HPU: the same packets, the same state, the same result. */
#ifndef OPENSPIN_EXPERIMENTS_WORKBENCH_H
#define OPENSPIN_EXPERIMENTS_WORKBENCH_H

#include "experiment.h"
#include "handlers/kernels.h"

#define BENCH_PACKETS      512
#define BENCH_PACKET_BYTES 1024
#define BENCH_HOST_BYTES   4096 /* what strided_ddt writes from one packet */
#define BENCH_KERNELS      6

typedef void bench_kernel(uint8_t *packet, uint32_t bytes, union kernel_state *state,
                          uint8_t *host);

struct bench_work {
    const char *name;
    bench_kernel *native;
    bool in_l2; /* where its state is on the card */
    uint32_t state_bytes;
};
extern const struct bench_work bench_works[BENCH_KERNELS];

/* Packets and state as they are before a run, from a fixed seed. */
void bench_prepare(const struct bench_work *work, uint8_t *packets, union kernel_state *state);

struct bench_hpu {
    double mean_cycles, mean_instructions; /* a packet, instruction cache warm */
    double remote_accesses;                /* a packet: loads and stores outside local L1 */
};
/* Runs every packet on the rig, and natively beside it: an error when the results differ. */
int bench_on_hpu(const struct experiment_context *context, const struct bench_work *work,
                 struct bench_hpu *result, struct spin_error *err);

/* Median time of a packet in ns, with `threads` workers over a static share of the packets each. */
int bench_on_machine(const struct bench_work *work, int threads, double *ns,
                     struct spin_error *err);
/* "Intel(R) Xeon(R), 2 cpus, gcc 12.2.0 -O3" */
void bench_machine_name(char *text, size_t room);

#endif
