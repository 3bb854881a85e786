/* A host: processors with noise, memory, and the path between card and memory.
 *
 * Everything is a resource with a time until which it is busy, taken first come, first served, so a
 * call answers at once with the time the work ends and no event is spent. Calls on one resource
 * must come in order of their start for that to be exact; a later call with an earlier start queues
 * behind.
 *
 * DMA follows LogGP as the SC'17 paper states it (published.md A7, A8): the engine is busy for
 * max(g, n G) after o, and the data is there L after its last byte; each transfer also takes its
 * share of the memory's bandwidth. There is an engine for each direction, as LogGOPSim keeps the
 * gaps of sending and receiving apart, and as PCIe is full duplex: its rate is that of a direction.
 * A copy reads and writes: it takes the memory's latency once and two bytes of bandwidth for each
 * byte copied, and keeps its cpu busy meanwhile. */
#ifndef SPIN_SIM_HOST_H
#define SPIN_SIM_HOST_H

#include <stdint.h>

#include "openspin.h"
#include "sim/noise.h"

struct host_config {
    uint32_t cpus;
    uint64_t cycle_ps;
    uint64_t memory_latency_ps;    /* DRAM */
    uint64_t memory_fs_per_byte;   /* all cpus and the card together */
    uint64_t dma_latency_ps;       /* L */
    uint64_t dma_fs_per_byte;      /* G */
    uint64_t dma_o_ps, dma_gap_ps; /* o and g */
};

/* The hosts of the SC'17 paper: "sc17-int" (card on the chip) and "sc17-dis" (behind PCIe). */
int host_preset(const char *name, struct host_config *config, struct spin_error *err);

struct host_counts {
    uint64_t cpu_busy_ps, noise_ps;
    uint64_t dma_bytes, dma_queued_ps;
    uint64_t memory_bytes;
};

struct hosts;

/* `count` hosts of one kind; noise may be NULL, and must outlive them. */
int hosts_new(struct hosts **out, uint32_t count, const struct host_config *config,
              const struct noise *noise, struct spin_error *err);
void hosts_free(struct hosts *hosts);
/* Another kind for one of them, with as many cpus; it must outlive the hosts. */
void host_is(struct hosts *hosts, uint32_t host, const struct host_config *config);

/* Each returns when the work ends. */
uint64_t host_compute(struct hosts *hosts, uint32_t host, uint32_t cpu, uint64_t at_ps,
                      uint64_t work_ps);
uint64_t host_copy(struct hosts *hosts, uint32_t host, uint32_t cpu, uint64_t at_ps,
                   uint64_t bytes);
/* Work on a cpu while bytes go through the memory: until both are done. */
uint64_t host_work(struct hosts *hosts, uint32_t host, uint32_t cpu, uint64_t at_ps,
                   uint64_t work_ps, uint64_t bytes);
/* Between card and memory. The two directions do not wait for each other, but for the memory. */
enum host_direction { HOST_TO_MEMORY, HOST_FROM_MEMORY };
uint64_t host_dma(struct hosts *hosts, uint32_t host, enum host_direction direction, uint64_t at_ps,
                  uint64_t bytes);

struct host_counts hosts_counts(const struct hosts *hosts); /* of all */

#endif
