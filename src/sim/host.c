#include "sim/host.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "sim/transfer.h"

#define MOST_CPUS 1024

static const struct {
    const char *name;
    struct host_config config;
} presets[] = {
    /* SC'17 sections 4.2 and 4.3: 8 cores at 2.5 GHz, DRAM 51 ns and 150 GiB/s = 6.2 ps/B (A6). DMA
     * of the integrated card: 50 ns, 6.7 ps/B as printed (A8). */
    {"sc17-int", {8, 400, 51000, 6209, 50000, 6700, 0, 0}},
    /* The discrete card: 250 ns, 15.6 ps/B (A7). */
    {"sc17-dis", {8, 400, 51000, 6209, 250000, 15600, 0, 0}},
};

int host_preset(const char *name, struct host_config *config, struct spin_error *err) {
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (strcmp(presets[i].name, name) == 0) {
            *config = presets[i].config;
            return SPIN_OK;
        }
    return spin_fail(err, SPIN_EARG, "unknown host '%.60s'; there are sc17-int and sc17-dis", name);
}

struct host {
    const struct host_config *config; /* NULL: as the others */
    uint64_t memory_free_ps, dma_free_ps[2];
};

struct hosts {
    struct host_config config;
    const struct noise *noise;
    uint32_t count;
    struct host *hosts;
    uint64_t *cpus; /* [host][cpu]: busy until then */
    struct host_counts counts;
};

int hosts_new(struct hosts **out, uint32_t count, const struct host_config *config,
              const struct noise *noise, struct spin_error *err) {
    *out = NULL;
    if (config->cpus < 1 || config->cpus > MOST_CPUS)
        return spin_fail(err, SPIN_EARG, "a host of %u cpus; the limits are 1 and %u", config->cpus,
                         MOST_CPUS);
    if (!config->memory_fs_per_byte || !config->dma_fs_per_byte ||
        config->memory_fs_per_byte > 1000000000 || config->dma_fs_per_byte > 1000000000)
        return spin_fail(err, SPIN_EARG,
                         "a host's memory of %llu fs/B and DMA of %llu fs/B; the limits are 1 and "
                         "10^9",
                         (unsigned long long)config->memory_fs_per_byte,
                         (unsigned long long)config->dma_fs_per_byte);
    struct hosts *h = calloc(1, sizeof *h);
    if (h) {
        h->config = *config;
        h->noise = noise;
        h->count = count;
        h->hosts = pages_new(sizeof *h->hosts * count);
        h->cpus = pages_new(sizeof *h->cpus * count * config->cpus);
    }
    if (!h || !h->hosts || !h->cpus) {
        hosts_free(h);
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u hosts", count);
    }
    *out = h;
    return SPIN_OK;
}

void hosts_free(struct hosts *h) {
    if (!h)
        return;
    pages_free(h->hosts, sizeof *h->hosts * h->count);
    pages_free(h->cpus, sizeof *h->cpus * h->count * h->config.cpus);
    free(h);
}

void host_is(struct hosts *h, uint32_t host, const struct host_config *config) {
    h->hosts[host].config = config;
}

static inline const struct host_config *config_of(const struct hosts *h, uint32_t host) {
    return h->hosts[host].config ? h->hosts[host].config : &h->config;
}

static inline uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Bytes through the memory: returns when the last one is through. */
static uint64_t through_memory(struct hosts *h, uint32_t host, uint64_t at_ps, uint64_t bytes) {
    uint64_t *free_ps = &h->hosts[host].memory_free_ps;
    uint64_t takes = transfer_ps(bytes, config_of(h, host)->memory_fs_per_byte);
    *free_ps = later(*free_ps, at_ps) + takes;
    h->counts.memory_bytes += bytes;
    return *free_ps;
}

uint64_t host_compute(struct hosts *h, uint32_t host, uint32_t cpu, uint64_t at_ps,
                      uint64_t work_ps) {
    uint64_t *free_ps = &h->cpus[(uint64_t)host * h->config.cpus + cpu];
    uint64_t start = later(*free_ps, at_ps);
    uint64_t lost = h->noise && work_ps ? noise_delay(h->noise, host, start, work_ps) : 0;
    h->counts.cpu_busy_ps += work_ps;
    h->counts.noise_ps += lost;
    return *free_ps = start + work_ps + lost;
}

uint64_t host_work(struct hosts *h, uint32_t host, uint32_t cpu, uint64_t at_ps, uint64_t work_ps,
                   uint64_t bytes) {
    uint64_t start = later(h->cpus[(uint64_t)host * h->config.cpus + cpu], at_ps), end = start;
    if (bytes)
        end = through_memory(h, host, start + config_of(h, host)->memory_latency_ps, bytes);
    return host_compute(h, host, cpu, start, later(work_ps, end - start));
}

uint64_t host_copy(struct hosts *h, uint32_t host, uint32_t cpu, uint64_t at_ps, uint64_t bytes) {
    return host_work(h, host, cpu, at_ps, 0, 2 * bytes);
}

uint64_t host_dma(struct hosts *h, uint32_t host, enum host_direction direction, uint64_t at_ps,
                  uint64_t bytes) {
    const struct host_config *c = config_of(h, host);
    uint64_t *free_ps = &h->hosts[host].dma_free_ps[direction];
    uint64_t asked = at_ps + c->dma_o_ps, start = later(*free_ps, asked);
    uint64_t takes = transfer_ps(bytes, c->dma_fs_per_byte);
    *free_ps = start + later(takes, c->dma_gap_ps);
    h->counts.dma_bytes += bytes;
    h->counts.dma_queued_ps += start - asked;
    uint64_t memory = through_memory(h, host, start, bytes);
    return later(start + takes, memory) + c->dma_latency_ps;
}

struct host_counts hosts_counts(const struct hosts *h) {
    return h->counts;
}
