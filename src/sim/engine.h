/* The event engine: virtual time in integer picoseconds, one total order, no allocation per event.
 *
 * An event is 32 bytes: when, who made it, what is to be done, and 16 bytes of payload. A *module*
 * (the network, the PsPIN card) has a table of its kinds of events, known to the engine once; each
 * *instance* of it (a network, a card) joins with its context, and the engine calls the kind's
 * function with the context of the instance that made the event.
 *
 *     enum { ARRIVE, LEAVE };
 *     static const struct sim_module module = {
 *         "network", 2, {[ARRIVE] = {.run = on_arrive}, [LEAVE] = {.run = on_leave}}};
 *     code = sim_engine_join(engine, &module, network, &network->sim, &err);
 *     sim_schedule(&network->sim, 65000, link, ARRIVE, (union sim_payload){.u32 = {packet}});
 *     code = sim_run(engine, SIM_FOREVER, UINT64_MAX, &err);
 *
 * Events are handled in order of (time, instance, object), and those of one object in the order in
 * which it made them. The *object* is the part of the instance that made the event: a link, a rank.
 * So the order says nothing about when an event was put into a queue, and is the same however
 * objects are spread over processes (docs/design.md, "Virtual time"). Payloads must hold indices,
 * never addresses.
 *
 * Scheduling cannot fail at the call: should memory run out, or an event lie before the engine's
 * time, the engine stops and sim_run says so, then and whenever it is called again. */
#ifndef SPIN_SIM_ENGINE_H
#define SPIN_SIM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openspin.h"

#define SIM_FOREVER UINT64_MAX
/* Times stay below this (53 days), so that a sum of two never wraps; sim_run ends a run that goes
 * beyond with SPIN_ELIMIT. */
#define SIM_LATEST_PS (1ull << 62)

enum {
    SIM_KIND_BITS = 8,
    SIM_OBJECT_BITS = 34, /* a number per event of the longest schedule: see sim/loggops.c */
    SIM_INSTANCE_SHIFT = SIM_KIND_BITS + SIM_OBJECT_BITS,
    SIM_MOST_KINDS = 1 << SIM_KIND_BITS, /* of all modules on one engine */
    SIM_MOST_INSTANCES = 1 << (64 - SIM_INSTANCE_SHIFT),
    SIM_MODULE_KINDS = 12, /* of one module */
};
#define SIM_MOST_OBJECTS (1ull << SIM_OBJECT_BITS)

union sim_payload {
    uint64_t u64[2];
    uint32_t u32[4];
};

struct sim_event {
    uint64_t at_ps;
    uint64_t order; /* instance << 42 | object << 8 | kind */
    union sim_payload with;
};

typedef void sim_handler(void *context, const struct sim_event *event);

struct sim_kind {
    sim_handler *run;
    /* Called with an event some places before its turn, where the engine happens to know it: a
     * chance to prefetch what `run` will touch. `closer` is called nearer to its turn, when what
     * `ahead` asked for should be there, and `nearest` after that. They must change nothing. NULL
     * for none. */
    sim_handler *ahead, *closer;
    /* So many words of the payload name the same thing wherever the run is split, and count for the
     * digest. Places in a pool do not. */
    uint8_t digested;
    sim_handler *nearest;
};

struct sim_module {
    const char *name; /* for messages */
    unsigned kinds;
    struct sim_kind kind[SIM_MODULE_KINDS];
};

struct sim_engine;

/* What an instance schedules with. */
struct sim_instance {
    struct sim_engine *engine;
    uint64_t order; /* of its object 0 and its module's kind 0 */
};

struct sim_engine *sim_engine_new(struct spin_error *err);
void sim_engine_free(struct sim_engine *engine);

/* The context must stay as long as the engine may have events of the instance. SPIN_ELIMIT with
 * more than SIM_MOST_INSTANCES, or modules of more than SIM_MOST_KINDS kinds together. */
int sim_engine_join(struct sim_engine *engine, const struct sim_module *module, void *context,
                    struct sim_instance *instance, struct spin_error *err);

/* Puts an event of the module's `kind` at `at_ps`, now or later, made by `object`. */
void sim_schedule(const struct sim_instance *instance, uint64_t at_ps, uint64_t object,
                  unsigned kind, union sim_payload with);

/* Handles events in order until none is left, the next one is later than `until_ps`, `most` events
 * were handled, or sim_stop was called. SPIN_OK in all of these cases; SPIN_ENOMEM, SPIN_ELIMIT or
 * SPIN_EARG when the engine could not go on. */
int sim_run(struct sim_engine *engine, uint64_t until_ps, uint64_t most, struct spin_error *err);
/* From inside a handler: sim_run returns after it. */
void sim_stop(struct sim_engine *engine);

/* Switches the digest of the event log on (before the run): the sum, over all events handled, of a
 * hash of time, instance, object, kind and what the kind says of its payload. So the digests of
 * parts of a run add up. Off, it costs one predicted branch per event. */
void sim_engine_digest(struct sim_engine *engine);

struct sim_counts {
    uint64_t now_ps;
    uint64_t handled, pending, most_pending;
    uint64_t digest; /* 0 when it is off */
    uint64_t bytes;  /* held by the pool */
};
/* When the next event is; SIM_FOREVER: there is none. */
uint64_t sim_next_ps(const struct sim_engine *engine);
struct sim_counts sim_engine_counts(const struct sim_engine *engine);

static inline uint64_t sim_object(const struct sim_event *event) {
    return event->order >> SIM_KIND_BITS & (SIM_MOST_OBJECTS - 1);
}
/* As the module numbers its kinds. */
static inline unsigned sim_kind(const struct sim_instance *instance,
                                const struct sim_event *event) {
    return (unsigned)(event->order - instance->order) & (SIM_MOST_KINDS - 1);
}

#endif
