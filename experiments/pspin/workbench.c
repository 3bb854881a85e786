#include "pspin/workbench.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/rng.h"
#include "images.h"

#define STATE_BYTES(member) (uint32_t)sizeof(((union kernel_state *)0)->member)

const struct bench_work bench_works[BENCH_KERNELS] = {
    {"aggregate", kernel_aggregate, false, STATE_BYTES(sum)},
    {"filtering", kernel_filtering, true, STATE_BYTES(rule)},
    {"histogram", kernel_histogram, false, STATE_BYTES(bin)},
    {"kvstore", kernel_kvstore, true, STATE_BYTES(cache)},
    {"reduce", kernel_reduce, false, STATE_BYTES(vector)},
    {"strided_ddt", kernel_strided_ddt, true, STATE_BYTES(layout)},
};

static void fill_words(struct rng *r, uint8_t *packets, uint32_t below) {
    for (size_t i = 0; i < (size_t)BENCH_PACKETS * BENCH_PACKET_BYTES; i += 4) {
        uint32_t word = below ? (uint32_t)(rng_u64(r) % below) : (uint32_t)rng_u64(r);
        memcpy(packets + i, &word, 4);
    }
}

/* Half of the table's entries are rules; half of the packets come from an address that has one. */
static void prepare_filtering(struct rng *r, uint8_t *packets, union kernel_state *state) {
    static const uint32_t rules = KERNEL_RULES / 2;
    uint32_t known[BENCH_PACKETS];
    for (uint32_t i = 0; i < rules; i++) {
        uint32_t address = (uint32_t)rng_u64(r) | 1;
        uint32_t at = kernel_hash(address);
        while (state->rule[at].address)
            at = (at + 1) & (KERNEL_RULES - 1);
        state->rule[at] = (struct kernel_rule){address, i & 0xffff};
        known[i % BENCH_PACKETS] = address;
    }
    for (uint32_t i = 0; i < BENCH_PACKETS; i++) {
        uint32_t address = i & 1 ? known[i] : (uint32_t)rng_u64(r) & ~1u;
        memcpy(packets + i * BENCH_PACKET_BYTES + KERNEL_IP_SRC, &address, 4);
    }
}

/* YCSB as B15 has it: half reads, half writes, keys by Zipf with theta 1.1, here of 1,000 keys. */
static void prepare_kvstore(struct rng *r, uint8_t *packets) {
    enum { KEYS = 1000 };
    double cumulative[KEYS], sum = 0;
    for (int k = 0; k < KEYS; k++)
        cumulative[k] = sum += 1 / pow(k + 1, 1.1);
    for (uint32_t i = 0; i < BENCH_PACKETS; i++) {
        double draw = (double)(rng_u64(r) >> 11) / 9007199254740992.0 * sum;
        uint32_t key = 0;
        while (key + 1 < KEYS && cumulative[key] < draw)
            key++;
        struct kernel_request request = {
            .write = (uint32_t)(rng_u64(r) >> 63), .key = key + 1, .value = i};
        memcpy(packets + i * BENCH_PACKET_BYTES, &request, sizeof request);
    }
}

void bench_prepare(const struct bench_work *work, uint8_t *packets, union kernel_state *state) {
    struct rng r = rng_seeded(11);
    memset(state, 0, work->state_bytes);
    fill_words(&r, packets, work->native == kernel_histogram ? KERNEL_BINS : 0);
    if (work->native == kernel_filtering)
        prepare_filtering(&r, packets, state);
    if (work->native == kernel_kvstore)
        prepare_kvstore(&r, packets);
    if (work->native == kernel_strided_ddt)
        state->layout = (struct kernel_layout){256, 512};
}

/* What a run works on. */
struct arena {
    uint8_t *packets;
    union kernel_state *state;
};

static int arena_new(struct arena *a, const struct bench_work *work, struct spin_error *err) {
    a->packets = malloc((size_t)BENCH_PACKETS * BENCH_PACKET_BYTES);
    a->state = aligned_alloc(64, sizeof *a->state + 64 - sizeof *a->state % 64);
    if (!a->packets || !a->state)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    bench_prepare(work, a->packets, a->state);
    return SPIN_OK;
}

static void arena_free(struct arena *a) {
    free(a->packets);
    free(a->state);
}

/* One packet here and on the HPU; both must leave the same packet and the same host memory. */
static int one_packet(struct spin_rig *rig, struct spin_call *call, const struct bench_work *work,
                      uint8_t *packet, struct arena *native, struct spin_outcome *o,
                      struct spin_error *err) {
    uint8_t host[BENCH_HOST_BYTES] = {0};
    uint32_t bytes, address;
    call->packet = packet;
    int code = spin_rig_call(rig, call, o, err);
    if (code)
        return code;
    if (o->ending != SPIN_RETURNED)
        return spin_fail(err, SPIN_EFORMAT, "%s was ended: %s at pc 0x%x", work->name,
                         spin_ending_name(o->ending), o->pc);
    work->native(packet, BENCH_PACKET_BYTES, native->state, host);
    if (memcmp(spin_rig_memory(rig, SPIN_PACKET, &bytes, &address), packet, BENCH_PACKET_BYTES) ||
        memcmp(spin_rig_memory(rig, SPIN_ME_HOST, &bytes, &address), host, BENCH_HOST_BYTES))
        return spin_fail(err, SPIN_EFORMAT, "%s: the HPU leaves another packet than this machine",
                         work->name);
    return SPIN_OK;
}

static int on_hpu(struct spin_rig *rig, uint32_t entry, const struct bench_work *work,
                  struct arena *a, struct bench_hpu *result, struct spin_error *err) {
    uint32_t bytes, state, packet;
    uint8_t *guest = spin_rig_memory(rig, SPIN_STATE, &bytes, &state);
    spin_rig_memory(rig, SPIN_PACKET, &bytes, &packet);
    memcpy(guest, a->state, work->state_bytes);
    struct spin_call call = {.entry = entry,
                             .kind = SPIN_OTHER_FUNCTION,
                             .packet_bytes = BENCH_PACKET_BYTES,
                             .argument = {packet, BENCH_PACKET_BYTES, state, 0}};
    *result = (struct bench_hpu){0};
    for (int i = 0; i < BENCH_PACKETS; i++) {
        struct spin_outcome o;
        int code =
            one_packet(rig, &call, work, a->packets + (size_t)i * BENCH_PACKET_BYTES, a, &o, err);
        if (code)
            return code;
        if (i == 0)
            continue; /* the first fills the instruction cache */
        result->mean_cycles += (double)o.cycles / (BENCH_PACKETS - 1);
        result->mean_instructions += (double)o.instructions / (BENCH_PACKETS - 1);
        for (int region = SPIN_REGION_REMOTE_L1; region <= SPIN_REGION_L2_PACKETS; region++)
            result->remote_accesses +=
                (double)(o.loads[region] + o.stores[region]) / (BENCH_PACKETS - 1);
    }
    if (memcmp(guest, a->state, work->state_bytes) != 0)
        return spin_fail(err, SPIN_EFORMAT, "%s: the HPU leaves another state than this machine",
                         work->name);
    return SPIN_OK;
}

int bench_on_hpu(const struct experiment_context *context, const struct bench_work *work,
                 struct bench_hpu *result, struct spin_error *err) {
    struct arena a = {0};
    struct spin_image *image = NULL;
    struct spin_rig *rig = NULL;
    const struct spin_function *function;
    struct spin_rig_options options = {.state_bytes = work->state_bytes,
                                       .state_in_l2 = work->in_l2,
                                       .host_bytes = BENCH_HOST_BYTES};
    char name[40];
    snprintf(name, sizeof name, "kernel_%s", work->name);
    int code = arena_new(&a, work, err);
    if (!code)
        code = images_load(context, "kernels", &image, err);
    if (!code)
        code = spin_image_find(image, name, &function, err);
    if (!code)
        code = spin_rig_new(&rig, image, &options, err);
    if (!code)
        code = on_hpu(rig, function->address, work, &a, result, err);
    spin_rig_free(rig);
    spin_image_free(image);
    arena_free(&a);
    return code;
}

/* ---- this machine ---- */

#define PASSES 201 /* over a worker's packets; their median is the result */

struct worker {
    const struct bench_work *work;
    struct arena *arena;
    pthread_barrier_t *start;
    int first, count; /* of its packets */
    double ns[PASSES];
};

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Times whole passes: reading the clock for each packet would cost as much as a short handler. */
static void *work_on(void *argument) {
    struct worker *w = argument;
    uint8_t host[BENCH_HOST_BYTES];
    pthread_barrier_wait(w->start);
    for (int pass = 0; pass < PASSES; pass++) {
        double start = now_ns();
        for (int i = w->first; i < w->first + w->count; i++) {
            w->work->native(w->arena->packets + (size_t)i * BENCH_PACKET_BYTES, BENCH_PACKET_BYTES,
                            w->arena->state, host);
            __asm__ volatile("" ::"r"(host) : "memory"); /* what is written there is wanted */
        }
        w->ns[pass] = (now_ns() - start) / w->count;
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int bench_on_machine(const struct bench_work *work, int threads, double *ns,
                     struct spin_error *err) {
    struct arena a = {0};
    pthread_barrier_t start;
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    struct worker *w = calloc((size_t)threads, sizeof *w);
    double *all = calloc((size_t)threads, PASSES * sizeof *all);
    int code = arena_new(&a, work, err), begun = 0;
    if (!code && (!thread || !w || !all))
        code = spin_fail(err, SPIN_ENOMEM, "out of memory");
    if (!code && threads > BENCH_PACKETS)
        code = spin_fail(err, SPIN_EARG, "%d threads for %d packets", threads, BENCH_PACKETS);
    if (!code && pthread_barrier_init(&start, NULL, (unsigned)threads) != 0)
        code = spin_fail(err, SPIN_ESYS, "no barrier for %d threads", threads);
    if (!code) {
        for (int i = 0; i < threads; i++) {
            int first = BENCH_PACKETS * i / threads;
            w[i] = (struct worker){.work = work,
                                   .arena = &a,
                                   .start = &start,
                                   .first = first,
                                   .count = BENCH_PACKETS * (i + 1) / threads - first};
        }
        for (begun = 0; begun < threads; begun++)
            if (pthread_create(&thread[begun], NULL, work_on, &w[begun]) != 0)
                break;
        if (begun < threads) {
            /* Those that wait at the barrier would wait for ever: there is no way on. */
            spin_fail(err, SPIN_ESYS, "cannot start %d threads", threads);
            code = SPIN_ESYS;
            for (int i = 0; i < begun; i++)
                pthread_cancel(thread[i]);
        }
        for (int i = 0; i < begun; i++)
            pthread_join(thread[i], NULL);
        pthread_barrier_destroy(&start);
    }
    if (!code) {
        for (int i = 0; i < threads; i++)
            memcpy(all + (size_t)i * PASSES, w[i].ns, sizeof w[i].ns);
        qsort(all, (size_t)threads * PASSES, sizeof *all, by_value);
        *ns = all[(size_t)threads * PASSES / 2];
    }
    free(thread);
    free(w);
    free(all);
    arena_free(&a);
    return code;
}

void bench_machine_name(char *text, size_t room) {
    char line[256], model[128] = "unknown processor";
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && fgets(line, sizeof line, info))
        if (strncmp(line, "model name", 10) == 0) {
            char *colon = strchr(line, ':');
            snprintf(model, sizeof model, "%.120s", colon ? colon + 2 : line);
            model[strcspn(model, "\n")] = 0;
            break;
        }
    if (info)
        fclose(info);
    snprintf(text, room, "%s, %ld cpus, %s", model, sysconf(_SC_NPROCESSORS_ONLN),
#ifdef __clang__
             "clang " __clang_version__
#else
             "gcc " __VERSION__
#endif
    );
}
