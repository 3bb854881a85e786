/* The six workloads' handlers on this machine (experiments/native/handler.h): packets preloaded and
 * dealt out to workers, as the paper did for its other machines.
 *
 * All workers share one state, as the HPUs of one cluster do: that is the contention of figure 12.
 * A pass over a worker's packets is timed as a whole, for reading the clock would cost as much as a
 * short handler; the result is the median over passes. */
#include "pspin/six.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "native/handler.h"

#define PASSES 101

_Thread_local const struct native_port *native_port;

void aggregate_ph(handler_args_t *args), aggregate_th(handler_args_t *args);
void filtering_ph(handler_args_t *args);
void histogram_ph(handler_args_t *args), histogram_th(handler_args_t *args);
void kvstore_ph(handler_args_t *args);
void reduce_ph(handler_args_t *args), reduce_th(handler_args_t *args);
void strided_ddt_ph(handler_args_t *args);

typedef void native_handler(handler_args_t *args);
static const struct {
    native_handler *payload, *completion;
} natives[SIX] = {{aggregate_ph, aggregate_th}, {filtering_ph, NULL},
                  {histogram_ph, histogram_th}, {kvstore_ph, NULL},
                  {reduce_ph, reduce_th},       {strided_ddt_ph, NULL}};

/* Memory below 4 GiB, handed out from its start; nothing is given back before the end. */
struct low {
    uint8_t *base;
    size_t bytes, used;
};

static int low_open(struct low *low, size_t bytes, struct spin_error *err) {
    long page = sysconf(_SC_PAGESIZE);
    low->bytes = (bytes + (size_t)page - 1) / (size_t)page * (size_t)page;
    low->used = 0;
    for (uintptr_t at = 0x20000000; at + low->bytes < 0xf0000000; at += 0x4000000) {
        void *got = mmap((void *)at, low->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (got == (void *)at) {
            low->base = got;
            return SPIN_OK;
        }
        if (got != MAP_FAILED)
            munmap(got, low->bytes); /* an old kernel takes the address as a hint */
    }
    return spin_fail(err, SPIN_ENOMEM, "no %zu bytes of memory below 4 GiB on this machine", bytes);
}

/* On a cache line of its own. */
static uint8_t *low_take(struct low *low, size_t bytes) {
    uint8_t *at = low->base + low->used;
    low->used += (bytes + 127) / 64 * 64;
    return low->used <= low->bytes ? at : NULL;
}

struct native {
    struct workload_run *run;
    struct low low;
    task_t task; /* all but the packet */
    uint8_t **packet;
    uint32_t *length;
    bool *last;
    uint32_t packets;
};

#define MOST_PACKETS 65536u

static int take_packets(struct native *n, struct spin_error *err) {
    struct workload_packet p;
    n->packet = calloc(MOST_PACKETS, sizeof *n->packet);
    n->length = calloc(MOST_PACKETS, sizeof *n->length);
    n->last = calloc(MOST_PACKETS, sizeof *n->last);
    if (!n->packet || !n->length || !n->last)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    while (n->packets < MOST_PACKETS && workload_next(n->run, &p)) {
        uint8_t *at = low_take(&n->low, p.bytes);
        if (!at)
            return spin_fail(err, SPIN_ELIMIT, "%s: packets do not fit", n->run->of->name);
        memcpy(at, p.data, p.bytes);
        n->packet[n->packets] = at;
        n->last[n->packets] = p.last;
        n->length[n->packets++] = p.bytes;
    }
    return SPIN_OK;
}

static int native_open(struct native *n, int which, uint32_t bytes, struct spin_error *err) {
    int code = six_open(&n->run, which, bytes, NULL, err);
    if (!code)
        code = low_open(&n->low, 64u << 20, err);
    if (code)
        return code;
    const struct workload_context *w = workload_context(n->run);
    task_t *t = &n->task;
    t->handler_mem = low_take(&n->low, w->handler_bytes);
    t->handler_mem_size = w->handler_bytes;
    for (int k = 0; k < 4; k++) {
        t->scratchpad[k] = low_take(&n->low, w->scratchpad_bytes);
        t->scratchpad_size[k] = w->scratchpad_bytes;
        if (w->scratchpad && t->scratchpad[k])
            memcpy(t->scratchpad[k], w->scratchpad, w->scratchpad_bytes);
    }
    uint8_t *host = low_take(&n->low, w->host_bytes);
    if (!host)
        return spin_fail(err, SPIN_ELIMIT, "%s: memories do not fit", n->run->of->name);
    t->host_mem_low = (uint32_t)(uintptr_t)host;
    t->host_mem_size = w->host_bytes;
    if (w->handler_memory)
        memcpy(t->handler_mem, w->handler_memory, w->handler_bytes);
    if (w->host_memory)
        memcpy(host, w->host_memory, w->host_bytes);
    return take_packets(n, err);
}

static void native_close(struct native *n) {
    if (n->low.base)
        munmap(n->low.base, n->low.bytes);
    workload_close(n->run);
    free(n->packet);
    free(n->length);
    free(n->last);
}

static void run_packet(const struct native *n, native_handler *handler, task_t *task, uint32_t i) {
    handler_args_t args = {.task = task};
    task->pkt_mem = task->l2_pkt_mem = n->packet[i];
    task->pkt_mem_size = n->length[i];
    handler(&args);
}

static void on_sent(void *user, const uint8_t *data, uint32_t bytes) {
    workload_sent(user, 0, data, bytes);
}

/* Every packet once, in order, and the results checked: these handlers do here what they do on the
 * card. */
static int run_once(struct native *n, int which, struct spin_error *err) {
    struct native_port port = {on_sent, n->run};
    task_t task = n->task;
    native_port = &port;
    for (uint32_t i = 0; i < n->packets; i++) {
        run_packet(n, natives[which].payload, &task, i);
        if (n->last[i] && natives[which].completion)
            run_packet(n, natives[which].completion, &task, i);
    }
    native_port = NULL;
    struct workload_results results = {.handler_memory = task.handler_mem,
                                       .host_memory = NATIVE_POINTER(task.host_mem_low),
                                       .in_order = true};
    for (int k = 0; k < WORKLOAD_CLUSTERS; k++)
        results.scratchpad[k] = task.scratchpad[k];
    return workload_check(n->run, &results, err);
}

/* ---- workers ---- */

struct gate { /* opens for all at once, or is given up */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum { SHUT, OPEN, GIVEN_UP } state;
};

struct worker {
    const struct native *native;
    native_handler *handler;
    struct gate *gate;
    uint32_t first, count;
    double ns[PASSES];
};

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void *work(void *argument) {
    struct worker *w = argument;
    task_t task = w->native->task;
    pthread_mutex_lock(&w->gate->mutex);
    while (w->gate->state == SHUT)
        pthread_cond_wait(&w->gate->changed, &w->gate->mutex);
    bool go = w->gate->state == OPEN;
    pthread_mutex_unlock(&w->gate->mutex);
    for (int pass = 0; pass < PASSES && go; pass++) {
        double start = now_ns();
        for (uint32_t i = w->first; i < w->first + w->count; i++)
            run_packet(w->native, w->handler, &task, i);
        w->ns[pass] = (now_ns() - start) / w->count;
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int run_workers(const struct native *n, int which, int threads, double *ns,
                       struct spin_error *err) {
    struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    struct worker *w = calloc((size_t)threads, sizeof *w);
    double *all = calloc((size_t)threads, sizeof w->ns);
    int begun = 0, why = 0, code = SPIN_OK;
    if (!thread || !w || !all)
        code = spin_fail(err, SPIN_ENOMEM, "out of memory");
    while (!code && begun < threads && !why) {
        uint32_t first = (uint32_t)((uint64_t)n->packets * (uint64_t)begun / (uint64_t)threads);
        uint32_t end = (uint32_t)((uint64_t)n->packets * (uint64_t)(begun + 1) / (uint64_t)threads);
        w[begun] = (struct worker){.native = n,
                                   .handler = natives[which].payload,
                                   .gate = &gate,
                                   .first = first,
                                   .count = end - first};
        why = pthread_create(&thread[begun], NULL, work, &w[begun]);
        if (!why)
            begun++;
    }
    if (why)
        code = spin_fail(err, SPIN_ESYS, "cannot start %d threads: %s", threads, strerror(why));
    pthread_mutex_lock(&gate.mutex);
    gate.state = code ? GIVEN_UP : OPEN;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
    for (int i = 0; i < begun; i++)
        pthread_join(thread[i], NULL);
    if (!code) {
        for (int i = 0; i < threads; i++)
            memcpy(all + (size_t)i * PASSES, w[i].ns, sizeof w[i].ns);
        qsort(all, (size_t)threads * PASSES, sizeof *all, by_value);
        *ns = all[(size_t)threads * PASSES / 2];
    }
    free(thread);
    free(w);
    free(all);
    return code;
}

int six_on_machine(int which, uint32_t bytes, int threads, double *ns, struct spin_error *err) {
    struct native n = {0};
    int code = native_open(&n, which, bytes, err);
    if (!code)
        code = run_once(&n, which, err);
    if (!code && (uint32_t)threads > n.packets)
        code = spin_fail(err, SPIN_EARG, "%d threads for %u packets", threads, n.packets);
    if (!code)
        code = run_workers(&n, which, threads, ns, err);
    native_close(&n);
    return code;
}
