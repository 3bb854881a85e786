#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "spin/pspin/packets.h"

#define WORKLOADS(X)                                                                               \
    X(aggregate)                                                                                   \
    X(copy_from_host)                                                                              \
    X(copy_to_host)                                                                                \
    X(empty)                                                                                       \
    X(filtering)                                                                                   \
    X(histogram)                                                                                   \
    X(host_direct)                                                                                 \
    X(kvstore)                                                                                     \
    X(ping_pong)                                                                                   \
    X(reduce)                                                                                      \
    X(remote_write)                                                                                \
    X(strided_ddt)                                                                                 \
    X(synthetic)

#define ROW(name) extern const struct workload name##_workload;
WORKLOADS(ROW)
#undef ROW

static const struct workload *const table[] = {
#define ROW(name) &name##_workload,
    WORKLOADS(ROW)
#undef ROW
};

const struct workload *workload_at(unsigned i) {
    return i < sizeof table / sizeof table[0] ? table[i] : NULL;
}

static int find(const char *name, const struct workload **found, struct spin_error *err) {
    char list[300] = "";
    size_t used = 0;
    for (unsigned i = 0; workload_at(i); i++) {
        *found = workload_at(i);
        if (strcmp((*found)->name, name) == 0)
            return SPIN_OK;
        if (used + strlen((*found)->name) + 3 < sizeof list)
            used += (size_t)sprintf(list + used, "%s%s", i ? ", " : "", (*found)->name);
    }
    return spin_fail(err, SPIN_EARG, "no workload '%s'; there are: %s", name, list);
}

static int set(struct workload_run *run, const char *setting, struct spin_error *err) {
    const struct workload_parameter *p = run->of->parameters;
    const char *equals = strchr(setting, '=');
    size_t length = equals ? (size_t)(equals - setting) : strlen(setting);
    for (unsigned i = 0; p[i].name; i++) {
        if (strlen(p[i].name) != length || strncmp(p[i].name, setting, length) != 0)
            continue;
        uint64_t value;
        if (!equals || (!units_u64(equals + 1, &value) && !units_size(equals + 1, &value)))
            return spin_fail(err, SPIN_EARG, "%s: '%s' is not %s=NUMBER", run->of->name, setting,
                             p[i].name);
        if (value < p[i].min || value > p[i].max)
            return spin_fail(err, SPIN_EARG, "%s: %s is %llu, expected %llu to %llu", run->of->name,
                             p[i].name, (unsigned long long)value, (unsigned long long)p[i].min,
                             (unsigned long long)p[i].max);
        run->value[i] = value;
        return SPIN_OK;
    }
    return spin_fail(err, SPIN_EARG, "%s: has no parameter '%.*s'", run->of->name, (int)length,
                     setting);
}

int workload_open(struct workload_run **out, const char *name, const char *const *settings,
                  int count, uint64_t seed, struct spin_error *err) {
    const struct workload *of;
    *out = NULL;
    int code = find(name, &of, err);
    if (code)
        return code;
    struct workload_run *run = calloc(1, of->run_bytes);
    if (!run)
        return spin_fail(err, SPIN_ENOMEM, "%s: out of memory", name);
    run->of = of;
    run->seed = seed;
    run->rng = rng_seeded(seed);
    for (unsigned i = 0; of->parameters[i].name; i++)
        run->value[i] = of->parameters[i].value;
    for (int i = 0; i < count && !code; i++)
        code = set(run, settings[i], err);
    run->context.image = of->name;
    if (!code && !of->begin(run))
        code = spin_fail(err, SPIN_ENOMEM, "%s: out of memory", name);
    if (code)
        workload_close(run);
    else
        *out = run;
    return code;
}

void workload_close(struct workload_run *run) {
    for (uint32_t i = 0; run && i < run->blocks; i++)
        free(run->block[i]);
    free(run);
}

const struct workload_context *workload_context(const struct workload_run *run) {
    return &run->context;
}

bool workload_next(struct workload_run *run, struct workload_packet *packet) {
    *packet = (struct workload_packet){0};
    if (!run->of->next(run, packet))
        return false;
    run->given++;
    return true;
}

void workload_sent(struct workload_run *run, uint32_t dest, const uint8_t *data, uint32_t bytes) {
    if (run->of->sent)
        run->of->sent(run, dest, data, bytes);
}

int workload_check(struct workload_run *run, const struct workload_results *results,
                   struct spin_error *err) {
    return run->of->check(run, results, err);
}

void *workload_memory(struct workload_run *run, size_t bytes) {
    if (run->blocks == sizeof run->block / sizeof run->block[0])
        return NULL;
    return run->block[run->blocks++] = calloc(1, bytes ? bytes : 1);
}

void workload_headers(uint8_t *packet, uint32_t bytes, uint32_t number, uint32_t source) {
    pkt_hdr_t h = {
        .ip_hdr = {.version = 4,
                   .ihl = 5,
                   .length = (uint16_t)bytes,
                   .identification = (uint16_t)number,
                   .ttl = 64,
                   .protocol = 17,
                   .source_id = source,
                   .dest_id = 0x0a000001},
        .udp_hdr = {.src_port = (uint16_t)(20000 + number % 20000),
                    .dst_port = 9330,
                    .length = (uint16_t)(bytes - sizeof(ip_hdr_t))},
    };
    _Static_assert(sizeof h == WORKLOAD_HEADERS, "as the handlers see it");
    memcpy(packet, &h, sizeof h);
}

int workload_differs(const struct workload_run *run, struct spin_error *err, const char *what,
                     uint64_t index, uint64_t got, uint64_t want) {
    return spin_fail(err, SPIN_EFORMAT, "%s, seed %llu: %s %llu is %llu, expected %llu",
                     run->of->name, (unsigned long long)run->seed, what, (unsigned long long)index,
                     (unsigned long long)got, (unsigned long long)want);
}

int workload_host_is(const struct workload_run *run, const struct workload_results *results,
                     const uint8_t *expected, size_t bytes, struct spin_error *err) {
    for (size_t b = 0; b < bytes; b++)
        if (results->host_memory[b] != expected[b])
            return workload_differs(run, err, "host byte", b, results->host_memory[b], expected[b]);
    return SPIN_OK;
}
