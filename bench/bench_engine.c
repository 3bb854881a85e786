/* The event queue from ten to ten million pending events, beside the heap it was chosen over.
 *
 * The hold model: take the first event, put one at a random later time, keep the number pending.
 * Spread times (every event at a time of its own) are the worst case of the wheel; equal times, as
 * lock-step ranks make them, its best. usage: bench-engine [quick] */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "measure.h"
#include "sim/engine.h"

struct hold {
    struct sim_engine *engine;
    struct sim_instance sim;
    struct rng rng;
    bool equal;
};

static uint64_t later_ps(struct rng *rng, bool equal) {
    return equal ? 4000000 : 1 + rng_below(rng, 100000000); /* up to 100 us */
}

static void hold(void *context, const struct sim_event *event) {
    struct hold *h = context;
    sim_schedule(&h->sim, event->at_ps + later_ps(&h->rng, h->equal), event->with.u32[0], 0,
                 event->with);
}

static double wheel_ns(uint32_t pending, uint64_t steps, bool equal) {
    struct hold h = {.engine = sim_engine_new(NULL), .rng = rng_seeded(1), .equal = equal};
    static const struct sim_module module = {"hold", 1, {{.run = hold}}};
    sim_engine_join(h.engine, &module, &h, &h.sim, NULL);
    for (uint32_t i = 0; i < pending; i++)
        sim_schedule(&h.sim, later_ps(&h.rng, equal), i, 0, (union sim_payload){.u32 = {i}});
    sim_run(h.engine, SIM_FOREVER, steps / 4, NULL);
    double start = bench_cpu_seconds();
    sim_run(h.engine, SIM_FOREVER, steps, NULL);
    double seconds = bench_cpu_seconds() - start;
    sim_engine_free(h.engine);
    return 1e9 * seconds / (double)steps;
}

/* A 4-ary heap of 16-byte keys with the events in a pool: what one would write otherwise. */
struct entry {
    uint64_t at_ps;
    uint64_t order; /* sequence << 24 | event */
};

struct heap {
    struct entry *entries;
    struct sim_event *events;
    uint32_t count;
};

static inline bool before(struct entry a, struct entry b) {
    return a.at_ps != b.at_ps ? a.at_ps < b.at_ps : a.order < b.order;
}

static void heap_put(struct heap *h, struct entry e) {
    uint32_t at = h->count++;
    for (; at > 0 && before(e, h->entries[(at - 1) / 4]); at = (at - 1) / 4)
        h->entries[at] = h->entries[(at - 1) / 4];
    h->entries[at] = e;
}

static struct entry heap_take(struct heap *h) {
    struct entry first = h->entries[0], last = h->entries[--h->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 4 * at + 1, least = child;
        if (child >= h->count)
            break;
        for (uint32_t i = child + 1; i < child + 4 && i < h->count; i++)
            if (before(h->entries[i], h->entries[least]))
                least = i;
        if (!before(h->entries[least], last))
            break;
        h->entries[at] = h->entries[least];
        at = least;
    }
    h->entries[at] = last;
    return first;
}

static double heap_ns(uint32_t pending, uint64_t steps, bool equal) {
    struct heap h = {malloc((pending + 1) * sizeof(struct entry)),
                     malloc(pending * sizeof(struct sim_event)), 0};
    struct rng rng = rng_seeded(1);
    uint64_t sequence = 0, seen = 0;
    for (uint32_t i = 0; i < pending; i++) {
        h.events[i] = (struct sim_event){.with.u32 = {i}};
        heap_put(&h, (struct entry){later_ps(&rng, equal), sequence++ << 24 | i});
    }
    double start = 0;
    for (uint64_t i = 0; i < steps / 4 + steps; i++) {
        if (i == steps / 4)
            start = bench_cpu_seconds();
        struct entry e = heap_take(&h);
        uint32_t event = e.order & 0xffffff;
        seen += h.events[event].with.u32[0]; /* the handler looks at its event */
        heap_put(&h, (struct entry){e.at_ps + later_ps(&rng, equal), sequence++ << 24 | event});
    }
    double seconds = bench_cpu_seconds() - start;
    if (seen == 1)
        puts("");
    free(h.entries);
    free(h.events);
    return 1e9 * seconds / (double)steps;
}

int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    bench_machine();
    printf("ns for taking one event and putting one\n\n%10s %14s %14s %14s %14s\n", "pending",
           "wheel, spread", "heap, spread", "wheel, equal", "heap, equal");
    for (uint32_t pending = 10; pending <= (quick ? 1000000u : 10000000u); pending *= 10) {
        uint64_t steps = pending < 1000000 ? 2000000 : 2 * (uint64_t)pending;
        printf("%10u %14.1f %14.1f %14.1f %14.1f\n", pending, wheel_ns(pending, steps, false),
               heap_ns(pending, steps, false), wheel_ns(pending, steps, true),
               heap_ns(pending, steps, true));
        fflush(stdout);
    }
    return 0;
}
