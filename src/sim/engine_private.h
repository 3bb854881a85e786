/* The event engine's queue, for engine.c and engine_sort.c: how events lie in memory. */
#ifndef SPIN_SIM_ENGINE_PRIVATE_H
#define SPIN_SIM_ENGINE_PRIVATE_H

#include "base/minheap.h"
#include "sim/engine.h"

enum {
    SIM_LEAF_BITS = 8, /* of time, in picoseconds: what is ready at once, see engine.c */
    SIM_LEVEL_BITS = 6,
    SIM_SLOTS = 1 << SIM_LEVEL_BITS,
    SIM_LEVELS = (64 - SIM_LEAF_BITS + SIM_LEVEL_BITS - 1) / SIM_LEVEL_BITS,
    SIM_CHUNK_EVENTS = 63,
};

struct sim_chunk {
    struct sim_chunk *next;
    uint32_t first, count; /* events [first, count) are in it */
    struct sim_event events[SIM_CHUNK_EVENTS];
};

/* All but the last chunk of a list are full. */
struct sim_list {
    struct sim_chunk *head, *tail;
};

struct sim_slab;

/* An event that is being sorted. */
struct sim_place {
    uint64_t key;
    const struct sim_event *event;
};

/* The order of events within one leaf; those with the same key come as they were made. */
static inline uint64_t sim_key(const struct sim_event *event) {
    return event->at_ps << (64 - SIM_LEAF_BITS) | event->order >> SIM_KIND_BITS;
}
_Static_assert(64 - SIM_KIND_BITS + SIM_LEAF_BITS == 64, "a maker and a time in the leaf");

struct sim_early {
    struct sim_event event;
    uint64_t number; /* in which they came */
};

static inline bool sim_is_earlier(const struct sim_early *a, const struct sim_early *b) {
    uint64_t ka = sim_key(&a->event), kb = sim_key(&b->event);
    return ka != kb ? ka < kb : a->number < b->number;
}
MINHEAP(early, struct sim_early, sim_is_earlier);

enum sim_failure { NO_FAILURE, NO_MEMORY, TOO_LATE, TOO_EARLY, NO_SUCH_OBJECT };

struct sim_engine {
    uint64_t now_ps;
    uint64_t handled, most_pending, pending;
    struct sim_list ready; /* all in the leaf of now_ps, keys ascending */
    uint64_t ready_last;   /* the key of the last of them */
    uint32_t levels;       /* bit l: some slot of level l is in use */
    uint64_t used[SIM_LEVELS];
    struct sim_list slots[SIM_LEVELS][SIM_SLOTS];

    struct early early; /* in that leaf too, but with a lesser key than some of the ready list */
    uint64_t early_count;
    struct sim_place *places; /* two arrays of place_room */
    size_t place_room;
    struct sim_close *close;

    struct sim_chunk *free_chunks;
    struct sim_slab *slabs;
    uint64_t bytes;
    bool stopped;
    enum sim_failure failure;
    struct sim_event refused; /* the event that failed */

    bool digesting;
    uint64_t digest;
    void **contexts; /* by instance */
    uint32_t instances, instance_room;
    unsigned kinds_count, modules_count;
    struct sim_kind kinds[SIM_MOST_KINDS];
    struct {
        const struct sim_module *module;
        unsigned first_kind;
    } modules[SIM_MOST_KINDS];
};

/* NULL: no memory. */
struct sim_chunk *sim_more_chunks(struct sim_engine *engine);

/* An empty chunk; NULL: no memory. */
static inline struct sim_chunk *sim_take_chunk(struct sim_engine *engine) {
    struct sim_chunk *chunk = engine->free_chunks ? engine->free_chunks : sim_more_chunks(engine);
    if (!chunk)
        return NULL;
    engine->free_chunks = chunk->next;
    chunk->next = NULL;
    chunk->first = chunk->count = 0;
    return chunk;
}

static inline void sim_give_chunk(struct sim_engine *engine, struct sim_chunk *chunk) {
    chunk->next = engine->free_chunks;
    engine->free_chunks = chunk;
}

/* A list whose last chunk is full, or which has none, gets another; NULL: no memory. */
static inline struct sim_chunk *sim_lengthen(struct sim_engine *engine, struct sim_list *list) {
    struct sim_chunk *fresh = sim_take_chunk(engine);
    if (!fresh)
        return NULL;
    if (list->tail)
        list->tail->next = fresh;
    else
        list->head = fresh;
    return list->tail = fresh;
}

/* engine_sort.c: puts `count` events of one leaf in the order of their keys; false: no memory. */
bool sim_sort(struct sim_engine *engine, struct sim_list *list, size_t count);
void sim_sort_free(struct sim_engine *engine);
uint64_t sim_sort_bytes(const struct sim_engine *engine);

#endif
