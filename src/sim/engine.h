/* The event engine: virtual time in integer picoseconds, one total order, no allocation per event.
 *
 * An event is 32 bytes: when, its place in the order, its kind, and 16 bytes of payload. A module
 * registers its kinds with a function and a context; the engine calls them in order of (time,
 * sequence number). Sequence numbers are given out in the order of scheduling, so a run depends on
 * nothing but its input: payloads must hold indices, never addresses, and then the digest of the
 * event log is the same on every machine.
 *
 *     struct sim_engine *engine = sim_engine_new(&err);
 *     unsigned arrive = sim_engine_kind(engine, on_arrive, network);
 *     sim_schedule(engine, 65000, arrive, (union sim_payload){.u32 = {link, packet}});
 *     code = sim_run(engine, SIM_FOREVER, UINT64_MAX, &err);
 *
 * Scheduling cannot fail at the call: should memory run out, the engine stops and sim_run says so.
 */
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

union sim_payload {
    uint64_t u64[2];
    uint32_t u32[4];
};

struct sim_event {
    uint64_t at_ps;
    uint64_t order; /* sequence number << 8 | kind */
    union sim_payload with;
};

typedef void sim_handler(void *context, const struct sim_event *event);

struct sim_engine;

struct sim_engine *sim_engine_new(struct spin_error *err);
void sim_engine_free(struct sim_engine *engine);

/* Registers a kind of event and returns its number. At most 256; more than that is a mistake in the
 * program, and asserts. */
unsigned sim_engine_kind(struct sim_engine *engine, sim_handler *run, void *context);

/* Called with each event of the kind some places before its turn, where the engine happens to know
 * it: a chance to prefetch what its handler will touch. `closer` is called nearer to its turn, when
 * what `ahead` asked for should be there. They get the kind's context and must change nothing. NULL
 * for none. */
void sim_engine_ahead(struct sim_engine *engine, unsigned kind, sim_handler *ahead,
                      sim_handler *closer);

/* Puts an event of `kind` at `at_ps`, after everything scheduled before it for that time. A time
 * before `now` is allowed (the LogGOPS rules need it): the event is then taken next, with its own
 * time as `now`. Returns the event's order. */
uint64_t sim_schedule(struct sim_engine *engine, uint64_t at_ps, unsigned kind,
                      union sim_payload with);
/* Puts an event back at a later (or any) time with the sequence number that it has; the kind may
 * change. The event that is being handled may be given. */
void sim_reinsert(struct sim_engine *engine, const struct sim_event *event, uint64_t at_ps,
                  unsigned kind);

/* Handles events in order until none is left, the next one is later than `until_ps`, `most` events
 * were handled, or sim_stop was called. SPIN_OK in all of these cases; SPIN_ENOMEM or SPIN_ELIMIT
 * when the engine could not go on. */
int sim_run(struct sim_engine *engine, uint64_t until_ps, uint64_t most, struct spin_error *err);
/* From inside a handler: sim_run returns after it. */
void sim_stop(struct sim_engine *engine);

/* Switches the digest of the event log on (before the run). It covers time, sequence number, kind
 * and payload of every handled event, in order; off, it costs one predicted branch an event. */
void sim_engine_digest(struct sim_engine *engine);

struct sim_counts {
    uint64_t now_ps;
    uint64_t handled, pending, most_pending;
    uint64_t digest; /* 0 when it is off */
    uint64_t bytes;  /* held by the pool */
};
struct sim_counts sim_engine_counts(const struct sim_engine *engine);

static inline uint64_t sim_order_sequence(uint64_t order) {
    return order >> 8;
}
static inline unsigned sim_order_kind(uint64_t order) {
    return (unsigned)(order & 255);
}

#endif
