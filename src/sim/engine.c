/* Design notes: the queue.
 *
 * A wheel of wheels over the bits of time. `base` is the time of the events that are ready. An
 * event at a later time T lies at level l, the position of the highest group of 6 bits in which T
 * and `base` differ, in the slot named by T's 6 bits there. So everything in a lower level is
 * earlier than anything in a higher one, within a level a lower slot is earlier, and a bitmap of 64
 * bits per level finds the first slot in one instruction. Nothing is ever compared on the way in.
 *
 * When the ready list is empty, the first slot is opened: `base` becomes its least time, events of
 * that time become ready, the others move to lower levels. An event moves at most once per level,
 * and in practice two or three times, always from one run of memory to another; a heap of ten
 * million events would miss the cache at every step instead. Measured (bench/engine.c, which holds
 * the heap): at ten pending events of different times the heap is faster, 20 against 38 ns; from a
 * hundred on the wheel is, at ten million 79 against 619 ns; of equal times it takes 12 to 19 ns at
 * any number.
 *
 * Order among equal times: every list is first in, first out, and a slot is only opened when all
 * that lies before it is gone, so events of one time stay in the order they were scheduled in. Two
 * things break that: an event put back with an old sequence number, and one put before `base`.
 * Such an event, once it is due, goes to a small heap ordered by (time, sequence), and the next
 * event is the lesser of the heap's and the ready list's first. So the order is total and exact for
 * any input, and the usual case never pays for the unusual one.
 *
 * Memory: lists are chains of chunks of 63 events (2 KiB); an emptied chunk goes to a free list.
 * The engine allocates only when more events are pending than ever before. */
#include "sim/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    LEVEL_BITS = 6,
    SLOTS = 1 << LEVEL_BITS,
    LEVELS = (64 + LEVEL_BITS - 1) / LEVEL_BITS,
    CHUNK_EVENTS = 63,
    CHUNKS_AT_ONCE = 32,
    AHEAD = 8, /* events; enough to cover a miss to memory at 20 to 100 ns each */
    FEW = 16,  /* events of a list; what 64 times as many touch still fits a cache */
};

struct chunk {
    struct chunk *next;
    uint32_t first, count; /* events [first, count) are in it */
    struct sim_event events[CHUNK_EVENTS];
};

struct list {
    struct chunk *head, *tail;
    uint64_t last_order; /* of the event appended last */
    bool disordered;     /* some event has a lower order than one before it */
};

struct slab {
    struct slab *next;
    struct chunk chunks[CHUNKS_AT_ONCE];
};

struct kind {
    sim_handler *run, *ahead, *closer;
    void *context;
};

struct sim_engine {
    uint64_t now_ps, base_ps;
    uint64_t next_sequence, handled, most_pending, pending;
    struct list ready; /* all at base_ps, orders ascending */
    uint32_t levels;   /* bit l: some slot of level l is in use */
    uint64_t used[LEVELS];
    struct list slots[LEVELS][SLOTS];

    struct sim_event *heap; /* due, but out of order */
    size_t heap_count, heap_room;

    struct chunk *free_chunks;
    struct slab *slabs;
    uint64_t bytes;
    bool out_of_memory, too_late, stopped;

    bool digesting;
    uint64_t digest;
    unsigned kinds_count;
    struct kind kinds[256];
};

struct sim_engine *sim_engine_new(struct spin_error *err) {
    struct sim_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        spin_fail(err, SPIN_ENOMEM, "out of memory for the event engine");
    return engine;
}

void sim_engine_free(struct sim_engine *engine) {
    if (!engine)
        return;
    for (struct slab *slab = engine->slabs, *next; slab; slab = next) {
        next = slab->next;
        free(slab);
    }
    free(engine->heap);
    free(engine);
}

unsigned sim_engine_kind(struct sim_engine *engine, sim_handler *run, void *context) {
    assert(engine->kinds_count < 256);
    engine->kinds[engine->kinds_count] = (struct kind){.run = run, .context = context};
    return engine->kinds_count++;
}

void sim_engine_ahead(struct sim_engine *engine, unsigned kind, sim_handler *ahead,
                      sim_handler *closer) {
    engine->kinds[kind].ahead = ahead;
    engine->kinds[kind].closer = closer;
}

static inline void look_ahead(const struct sim_engine *engine, const struct sim_event *event) {
    const struct kind *kind = &engine->kinds[event->order & 255];
    if (kind->ahead)
        kind->ahead(kind->context, event);
}

static inline void look_closer(const struct sim_engine *engine, const struct sim_event *event) {
    const struct kind *kind = &engine->kinds[event->order & 255];
    if (kind->closer)
        kind->closer(kind->context, event);
}

void sim_engine_digest(struct sim_engine *engine) {
    engine->digesting = true;
    engine->digest = 0x6a09e667f3bcc909ull; /* any odd start; a run of no event is not 0 */
}

void sim_stop(struct sim_engine *engine) {
    engine->stopped = true;
}

struct sim_counts sim_engine_counts(const struct sim_engine *engine) {
    return (struct sim_counts){
        .now_ps = engine->now_ps,
        .handled = engine->handled,
        .pending = engine->pending,
        .most_pending = engine->most_pending,
        .digest = engine->digesting ? engine->digest : 0,
        .bytes = engine->bytes + engine->heap_room * sizeof *engine->heap,
    };
}

/* ---- chunks and lists ---- */

static bool more_chunks(struct sim_engine *engine) {
    struct slab *slab = malloc(sizeof *slab);
    if (!slab) {
        engine->out_of_memory = engine->stopped = true;
        return false;
    }
    slab->next = engine->slabs;
    engine->slabs = slab;
    engine->bytes += sizeof *slab;
    for (int i = CHUNKS_AT_ONCE - 1; i >= 0; i--) {
        slab->chunks[i].next = engine->free_chunks;
        engine->free_chunks = &slab->chunks[i];
    }
    return true;
}

static void release_chunk(struct sim_engine *engine, struct chunk *chunk) {
    chunk->next = engine->free_chunks;
    engine->free_chunks = chunk;
}

static inline void append(struct sim_engine *engine, struct list *list,
                          const struct sim_event *event) {
    struct chunk *tail = list->tail;
    if (!tail || tail->count == CHUNK_EVENTS) {
        if (!engine->free_chunks && !more_chunks(engine))
            return; /* the run ends with SPIN_ENOMEM, so the lost event is not silent */
        struct chunk *fresh = engine->free_chunks;
        engine->free_chunks = fresh->next;
        fresh->next = NULL;
        fresh->first = fresh->count = 0;
        if (tail)
            tail->next = fresh;
        else
            list->head = fresh;
        list->tail = tail = fresh;
    }
    tail->events[tail->count++] = *event;
    if (event->order < list->last_order)
        list->disordered = true;
    list->last_order = event->order;
}

/* ---- the heap of what is due out of order ---- */

static inline bool earlier(const struct sim_event *a, const struct sim_event *b) {
    return a->at_ps != b->at_ps ? a->at_ps < b->at_ps : a->order < b->order;
}

static void heap_push(struct sim_engine *engine, const struct sim_event *event) {
    if (engine->heap_count == engine->heap_room) {
        size_t room = engine->heap_room ? 2 * engine->heap_room : 256;
        struct sim_event *larger = realloc(engine->heap, room * sizeof *larger);
        if (!larger) {
            engine->out_of_memory = engine->stopped = true;
            return;
        }
        engine->heap = larger;
        engine->heap_room = room;
    }
    size_t at = engine->heap_count++;
    while (at > 0 && earlier(event, &engine->heap[(at - 1) / 4])) {
        engine->heap[at] = engine->heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    engine->heap[at] = *event;
}

static void heap_pop(struct sim_engine *engine, struct sim_event *event) {
    *event = engine->heap[0];
    struct sim_event last = engine->heap[--engine->heap_count];
    size_t at = 0, count = engine->heap_count;
    for (;;) {
        size_t child = 4 * at + 1, least = child;
        if (child >= count)
            break;
        for (size_t i = child + 1; i < child + 4 && i < count; i++)
            if (earlier(&engine->heap[i], &engine->heap[least]))
                least = i;
        if (!earlier(&engine->heap[least], &last))
            break;
        engine->heap[at] = engine->heap[least];
        at = least;
    }
    engine->heap[at] = last;
}

/* ---- the wheel ---- */

/* An event at base_ps: to the ready list if that keeps its order, to the heap if not. */
static inline void make_ready(struct sim_engine *engine, const struct sim_event *event) {
    if (event->order > engine->ready.last_order || !engine->ready.head)
        append(engine, &engine->ready, event);
    else
        heap_push(engine, event);
}

static inline void insert(struct sim_engine *engine, const struct sim_event *event) {
    uint64_t difference = event->at_ps ^ engine->base_ps;
    if (difference == 0) {
        make_ready(engine, event);
    } else if (event->at_ps < engine->base_ps) {
        heap_push(engine, event);
    } else {
        int level = (63 - __builtin_clzll(difference)) / LEVEL_BITS;
        unsigned slot = (event->at_ps >> (level * LEVEL_BITS)) & (SLOTS - 1);
        engine->levels |= 1u << level;
        engine->used[level] |= 1ull << slot;
        append(engine, &engine->slots[level][slot], event);
    }
}

static void put(struct sim_engine *engine, const struct sim_event *event) {
    if (event->at_ps >= SIM_LATEST_PS)
        engine->too_late = engine->stopped = true;
    insert(engine, event);
    if (++engine->pending > engine->most_pending)
        engine->most_pending = engine->pending;
}

uint64_t sim_schedule(struct sim_engine *engine, uint64_t at_ps, unsigned kind,
                      union sim_payload with) {
    struct sim_event event = {at_ps, engine->next_sequence++ << 8 | kind, with};
    put(engine, &event);
    return event.order;
}

void sim_reinsert(struct sim_engine *engine, const struct sim_event *event, uint64_t at_ps,
                  unsigned kind) {
    struct sim_event again = {at_ps, (event->order & ~255ull) | kind, event->with};
    put(engine, &again);
}

/* The events that come after those of the slot that is being opened, a few at most. */
static void look_at_next(const struct sim_engine *engine) {
    if (!engine->used[0])
        return;
    const struct list *next = &engine->slots[0][__builtin_ctzll(engine->used[0])];
    uint32_t count = next->head->count < AHEAD ? next->head->count : AHEAD;
    for (uint32_t i = 0; i < count; i++)
        look_closer(engine, &next->head->events[i]);
}

/* Opens the first slot; false when there is none. The ready list is empty before. */
static bool advance(struct sim_engine *engine) {
    if (!engine->levels)
        return false;
    int level = __builtin_ctz(engine->levels);
    unsigned slot = (unsigned)__builtin_ctzll(engine->used[level]);
    struct list opened = engine->slots[level][slot];
    engine->slots[level][slot] = (struct list){0};
    engine->used[level] &= ~(1ull << slot);
    if (!engine->used[level])
        engine->levels &= ~(1u << level);
    if (level == 0)
        look_at_next(engine);

    uint64_t least = UINT64_MAX, most = 0, count = 0;
    for (struct chunk *c = opened.head; c; c = c->next) {
        count += c->count;
        for (uint32_t i = 0; i < c->count; i++) {
            uint64_t at = c->events[i].at_ps;
            least = at < least ? at : least;
            most = at > most ? at : most;
        }
    }
    engine->base_ps = least;
    if (least == most && !opened.disordered) {
        engine->ready = opened; /* no copy */
        return true;
    }
    engine->ready = (struct list){0};
    /* A list at one level is spread over up to 64 below, so these limits are met once, if at all,
     * and again on a list that was met above. */
    bool ahead = count > FEW && count <= SLOTS * FEW, closer = count <= FEW;
    for (struct chunk *c = opened.head, *next; c; c = next) {
        for (uint32_t i = 0; i < c->count; i++) {
            if (ahead)
                look_ahead(engine, &c->events[i]);
            else if (closer)
                look_closer(engine, &c->events[i]);
            insert(engine, &c->events[i]);
        }
        next = c->next;
        release_chunk(engine, c);
    }
    return true;
}

/* ---- running ---- */

/* The event so many places behind the first of a list; NULL when that is too far. */
static inline const struct sim_event *further(const struct chunk *head, uint32_t places) {
    uint32_t at = head->first + places;
    if (at < head->count)
        return &head->events[at];
    if (head->next && at - head->count < head->next->count)
        return &head->next->events[at - head->count];
    return NULL;
}

static inline bool take(struct sim_engine *engine, uint64_t until_ps, struct sim_event *event) {
    if (!engine->ready.head && !engine->heap_count && !advance(engine))
        return false;
    struct chunk *head = engine->ready.head;
    const struct sim_event *first = head ? &head->events[head->first] : NULL;
    if (engine->heap_count && (!first || earlier(&engine->heap[0], first))) {
        if (engine->heap[0].at_ps > until_ps)
            return false;
        heap_pop(engine, event);
        return true;
    }
    if (first->at_ps > until_ps)
        return false;
    *event = *first;
    const struct sim_event *close = further(head, AHEAD), *far = further(head, 2 * AHEAD);
    if (close)
        look_closer(engine, close);
    if (far)
        look_ahead(engine, far);
    if (++head->first == head->count) {
        engine->ready.head = head->next;
        if (!head->next)
            engine->ready.tail = NULL;
        release_chunk(engine, head);
    }
    return true;
}

static inline uint64_t mix(uint64_t digest, uint64_t word) {
    digest = (digest ^ word) * 0x9fb21c651e98df25ull;
    return digest ^ digest >> 28;
}

static void note(struct sim_engine *engine, const struct sim_event *event) {
    uint64_t digest = mix(mix(engine->digest, event->at_ps), event->order);
    engine->digest = mix(mix(digest, event->with.u64[0]), event->with.u64[1]);
}

int sim_run(struct sim_engine *engine, uint64_t until_ps, uint64_t most, struct spin_error *err) {
    struct sim_event event;
    engine->stopped = engine->out_of_memory || engine->too_late;
    for (; most && !engine->stopped && take(engine, until_ps, &event); most--) {
        engine->now_ps = event.at_ps;
        engine->pending--;
        engine->handled++;
        if (engine->digesting)
            note(engine, &event);
        const struct kind *kind = &engine->kinds[event.order & 255];
        kind->run(kind->context, &event);
    }
    if (engine->out_of_memory)
        return spin_fail(err, SPIN_ENOMEM, "out of memory with %llu pending events (%llu MB)",
                         (unsigned long long)engine->pending,
                         (unsigned long long)engine->bytes / 1000000);
    if (engine->too_late)
        return spin_fail(err, SPIN_ELIMIT,
                         "simulated time goes beyond the limit of %llu ps (53 days); shorten the "
                         "computation or the messages",
                         SIM_LATEST_PS);
    return SPIN_OK;
}
