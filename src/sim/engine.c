/* Design notes: the queue.
 *
 * A wheel of wheels over the bits of time. `base` is the time of the events that are ready, which
 * is the engine's time. An event at a later time T lies at level l, the position of the highest
 * group of 6 bits in which T and `base` differ, in the slot named by T's 6 bits there. So
 * everything in a lower level is earlier than anything in a higher one, within a level a lower slot
 * is earlier, and a bitmap of 64 bits per level finds the first slot in one instruction. Times are
 * never compared on the way in.
 *
 * When the ready list is empty, the first slot is opened: `base` becomes its least time, events of
 * that time become ready, the others move to lower levels. An event moves at most once per level,
 * and in practice two or three times, always from one run of memory to another; a heap of ten
 * million events would miss the cache at every step instead. Measured (bench/bench_engine.c, which
 * holds the heap): at ten pending events of different times the heap is faster, 20 against 38 ns;
 * from a hundred on the wheel is, at ten million 79 against 619 ns; of equal times it takes 12 to
 * 19 ns at any number.
 *
 * Order among equal times: every list is first in, first out, and a slot is only opened when all
 * that lies before it is gone, so events of one time and one maker stay in the order they were made
 * in. A list notes whether its makers come in ascending order too. If they do not, its events are
 * sorted by maker when they become ready: few by counting, many by a map of their makers or by the
 * bits in which those differ; all of these keep the order of equals. An event that is made for the
 * present time goes to the end of the ready list if that keeps the order, else to a small heap, and
 * the next event is the lesser of the heap's and the ready list's first. Every event in the heap
 * has a greater one in the ready list; so among equal makers the ready list's is the older.
 *
 * Memory: lists are chains of chunks of 63 events (2 KiB); an emptied chunk goes to a free list.
 * The engine allocates only when more events are pending, or ready at once, than ever before. */
#include "sim/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/minheap.h"

enum {
    LEVEL_BITS = 6,
    SLOTS = 1 << LEVEL_BITS,
    LEVELS = (64 + LEVEL_BITS - 1) / LEVEL_BITS,
    CHUNK_EVENTS = 63,
    CHUNKS_AT_ONCE = 32,
    AHEAD = 8,        /* events; enough to cover a miss to memory at 20 to 100 ns each */
    FEW = 16,         /* events of a list; what 64 times as many touch still fits a cache */
    BY_COUNTING = 32, /* events that are sorted so */
    CLOSE = 1 << 15,  /* makers; what is kept of them fits the second cache */
};

struct chunk {
    struct chunk *next;
    uint32_t first, count; /* events [first, count) are in it */
    struct sim_event events[CHUNK_EVENTS];
};

struct list {
    struct chunk *head, *tail;
    uint64_t last_maker; /* of the event appended last */
    bool disordered;     /* some event has a lesser maker than one before it */
};

struct slab {
    struct slab *next;
    struct chunk chunks[CHUNKS_AT_ONCE];
};

/* An event that is being sorted. */
struct place {
    uint64_t maker;
    const struct sim_event *event;
};

/* Events whose makers are close together: by maker, counted from the least. */
struct close {
    uint64_t map[CLOSE / 64]; /* all 0 but while sorting */
    uint32_t last[CLOSE];
};

static inline uint64_t maker_of(const struct sim_event *event) {
    return event->order >> SIM_KIND_BITS;
}

/* All are at the present time, so that at_ps can be the number in which they came. */
static inline bool is_earlier(const struct sim_event *a, const struct sim_event *b) {
    return maker_of(a) != maker_of(b) ? maker_of(a) < maker_of(b) : a->at_ps < b->at_ps;
}
MINHEAP(early, struct sim_event, is_earlier);

enum failure { NO_FAILURE, NO_MEMORY, TOO_LATE, TOO_EARLY, NO_SUCH_OBJECT };

struct sim_engine {
    uint64_t now_ps;
    uint64_t handled, most_pending, pending;
    struct list ready; /* all at now_ps, makers ascending */
    uint32_t levels;   /* bit l: some slot of level l is in use */
    uint64_t used[LEVELS];
    struct list slots[LEVELS][SLOTS];

    struct early early; /* at now_ps too, but with a lesser maker than some of the ready list */
    uint64_t early_count;
    struct place *places; /* two arrays of place_room */
    size_t place_room;
    struct close *close;

    struct chunk *free_chunks;
    struct slab *slabs;
    uint64_t bytes;
    bool stopped;
    enum failure failure;
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
    free(engine->early.at);
    free(engine->places);
    free(engine->close);
    free(engine->contexts);
    free(engine);
}

/* ---- modules and their instances ---- */

/* The number of the module's first kind; SIM_MOST_KINDS when there is no room for it. */
static unsigned kinds_of(struct sim_engine *engine, const struct sim_module *module) {
    for (unsigned i = 0; i < engine->modules_count; i++)
        if (engine->modules[i].module == module)
            return engine->modules[i].first_kind;
    unsigned first = engine->kinds_count;
    if (first + module->kinds > SIM_MOST_KINDS || module->kinds == 0)
        return SIM_MOST_KINDS;
    memcpy(&engine->kinds[first], module->kind, module->kinds * sizeof *module->kind);
    engine->kinds_count += module->kinds;
    engine->modules[engine->modules_count].module = module;
    engine->modules[engine->modules_count++].first_kind = first;
    return first;
}

int sim_engine_join(struct sim_engine *engine, const struct sim_module *module, void *context,
                    struct sim_instance *instance, struct spin_error *err) {
    if (engine->instances == SIM_MOST_INSTANCES)
        return spin_fail(err, SPIN_ELIMIT, "%s: one more than the limit of %d on one event engine",
                         module->name, SIM_MOST_INSTANCES);
    unsigned kind = kinds_of(engine, module);
    if (kind == SIM_MOST_KINDS)
        return spin_fail(err, SPIN_ELIMIT,
                         "%s: its %u kinds of events and the %u of others are over the limit of %d",
                         module->name, module->kinds, engine->kinds_count, SIM_MOST_KINDS);
    if (engine->instances == engine->instance_room) {
        uint32_t room = engine->instance_room ? 2 * engine->instance_room : 16;
        void **larger = realloc(engine->contexts, room * sizeof *larger);
        if (!larger)
            return spin_fail(err, SPIN_ENOMEM, "out of memory for the event engine");
        engine->contexts = larger;
        engine->instance_room = room;
    }
    engine->contexts[engine->instances] = context;
    *instance =
        (struct sim_instance){engine, (uint64_t)engine->instances++ << SIM_INSTANCE_SHIFT | kind};
    return SPIN_OK;
}

static inline const struct sim_kind *kind_of(const struct sim_engine *engine,
                                             const struct sim_event *event) {
    return &engine->kinds[event->order & (SIM_MOST_KINDS - 1)];
}

static inline void *context_of(const struct sim_engine *engine, const struct sim_event *event) {
    return engine->contexts[event->order >> SIM_INSTANCE_SHIFT];
}

static inline void look_ahead(const struct sim_engine *engine, const struct sim_event *event) {
    const struct sim_kind *kind = kind_of(engine, event);
    if (kind->ahead)
        kind->ahead(context_of(engine, event), event);
}

static inline void look_closer(const struct sim_engine *engine, const struct sim_event *event) {
    const struct sim_kind *kind = kind_of(engine, event);
    if (kind->closer)
        kind->closer(context_of(engine, event), event);
}

void sim_engine_digest(struct sim_engine *engine) {
    engine->digesting = true;
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
        .digest = engine->digest,
        .bytes = engine->bytes + engine->early.room * sizeof *engine->early.at +
                 engine->place_room * 2 * sizeof *engine->places +
                 (engine->close ? sizeof *engine->close : 0),
    };
}

/* ---- failures: the first one stays ---- */

static void fail(struct sim_engine *engine, enum failure failure, const struct sim_event *event) {
    engine->stopped = true;
    if (engine->failure)
        return;
    engine->failure = failure;
    engine->refused = *event;
}

static const char *module_name(const struct sim_engine *engine, const struct sim_event *event) {
    unsigned kind = (unsigned)event->order & (SIM_MOST_KINDS - 1), i = 0;
    while (i + 1 < engine->modules_count && engine->modules[i + 1].first_kind <= kind)
        i++;
    return engine->modules[i].module->name;
}

static int say_failure(const struct sim_engine *engine, struct spin_error *err) {
    const struct sim_event *event = &engine->refused;
    switch (engine->failure) {
    case NO_MEMORY:
        return spin_fail(err, SPIN_ENOMEM, "out of memory with %llu pending events (%llu MB)",
                         (unsigned long long)engine->pending,
                         (unsigned long long)engine->bytes / 1000000);
    case TOO_LATE:
        return spin_fail(err, SPIN_ELIMIT,
                         "simulated time goes beyond the limit of %llu ps (53 days); shorten the "
                         "computation or the messages",
                         SIM_LATEST_PS);
    case TOO_EARLY:
        return spin_fail(err, SPIN_EARG,
                         "%s: an event at %llu ps, before the present time of %llu ps",
                         module_name(engine, event), (unsigned long long)event->at_ps,
                         (unsigned long long)engine->now_ps);
    case NO_SUCH_OBJECT:
        return spin_fail(err, SPIN_ELIMIT, "%s: an event of an object over the limit of 2^%d",
                         module_name(engine, event), SIM_OBJECT_BITS);
    case NO_FAILURE:
        break;
    }
    return SPIN_OK;
}

/* ---- chunks and lists ---- */

static bool more_chunks(struct sim_engine *engine) {
    struct slab *slab = malloc(sizeof *slab);
    if (!slab)
        return false;
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
        if (!engine->free_chunks && !more_chunks(engine)) {
            fail(engine, NO_MEMORY, event); /* the run ends, so the lost event is not silent */
            return;
        }
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
    list->disordered |= maker_of(event) < list->last_maker;
    list->last_maker = maker_of(event);
}

/* ---- the wheel ---- */

static void make_early(struct sim_engine *engine, const struct sim_event *event) {
    struct sim_event numbered = *event;
    numbered.at_ps = engine->early_count++;
    if (!early_push(&engine->early, &numbered))
        fail(engine, NO_MEMORY, event);
}

/* An event at now_ps: to the ready list if that keeps the order, to the heap if not. */
static inline void make_ready(struct sim_engine *engine, const struct sim_event *event) {
    if (maker_of(event) >= engine->ready.last_maker || !engine->ready.head)
        append(engine, &engine->ready, event);
    else
        make_early(engine, event);
}

static inline void insert(struct sim_engine *engine, const struct sim_event *event) {
    uint64_t difference = event->at_ps ^ engine->now_ps;
    int level = (63 - __builtin_clzll(difference)) / LEVEL_BITS;
    unsigned slot = (event->at_ps >> (level * LEVEL_BITS)) & (SLOTS - 1);
    engine->levels |= 1u << level;
    engine->used[level] |= 1ull << slot;
    append(engine, &engine->slots[level][slot], event);
}

void sim_schedule(const struct sim_instance *instance, uint64_t at_ps, uint64_t object,
                  unsigned kind, union sim_payload with) {
    struct sim_engine *engine = instance->engine;
    struct sim_event event = {at_ps, instance->order + (object << SIM_KIND_BITS) + kind, with};
    if (at_ps < engine->now_ps || at_ps >= SIM_LATEST_PS || object >= SIM_MOST_OBJECTS) {
        event.order = instance->order + kind;
        fail(engine,
             at_ps >= SIM_LATEST_PS   ? TOO_LATE
             : at_ps < engine->now_ps ? TOO_EARLY
                                      : NO_SUCH_OBJECT,
             &event);
        return;
    }
    if (at_ps == engine->now_ps)
        make_ready(engine, &event);
    else
        insert(engine, &event);
    if (++engine->pending > engine->most_pending)
        engine->most_pending = engine->pending;
}

/* ---- sorting what becomes ready ---- */

/* The place of each is the number of those before it, without a branch that random makers would
 * mispredict: makers that are no more than 2^26 apart, with their place in the list below them, are
 * keys, each of which is compared with four at a time. */
typedef int32_t four __attribute__((vector_size(16)));

union keys {
    four by_four[BY_COUNTING / 4];
    int32_t one[BY_COUNTING];
};

/* False: they are too far apart. */
static inline bool keys_of(const struct sim_event *from, uint32_t count, union keys *keys) {
    uint64_t first = maker_of(&from[0]) - (1 << 25), beyond = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t apart = maker_of(&from[i]) - first;
        beyond |= apart;
        keys->one[i] = (int32_t)((uint32_t)apart << 5 | i);
    }
    return beyond >> 26 == 0;
}

/* Of 4 * `fours` keys, a constant where it is small. What is beyond `count` is not looked at. */
static inline __attribute__((always_inline)) void places_of(const union keys *keys, uint32_t count,
                                                            uint32_t fours, union keys *place) {
    four before[BY_COUNTING / 4];
    for (uint32_t k = 0; k < fours; k++)
        before[k] = (four){0};
    for (uint32_t i = 0; i < count; i++) {
        int32_t own = keys->one[i];
        for (uint32_t k = 0; k < fours; k++)
            before[k] -= keys->by_four[k] > own;
    }
    for (uint32_t k = 0; k < fours; k++)
        place->by_four[k] = before[k];
}

static void sort_few(struct sim_event *to, const struct sim_event *from, uint32_t count) {
    union keys keys, place;
    if (!keys_of(from, count, &keys)) {
        for (uint32_t i = 0; i < count; i++) {
            place.one[i] = 0;
            for (uint32_t j = 0; j < i; j++) {
                bool later = maker_of(&from[i]) < maker_of(&from[j]);
                place.one[j] += later;
                place.one[i] += !later;
            }
        }
    } else if (count <= 4) {
        places_of(&keys, count, 1, &place);
    } else if (count <= 8) {
        places_of(&keys, count, 2, &place);
    } else if (count <= 16) {
        places_of(&keys, count, 4, &place);
    } else {
        places_of(&keys, count, BY_COUNTING / 4, &place);
    }
    for (uint32_t i = 0; i < count; i++)
        to[place.one[i]] = from[i];
}

/* Makers that are close together, in any number: each has a bit in a map of them, and the last of
 * its events, from which a ring leads to its first. Rings are made of the places' makers. */
static void sort_close(struct sim_engine *engine, struct place *places, size_t count,
                       uint64_t least, struct list *sorted) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t maker = places[i].maker - least, bit = 1ull << maker % 64;
        uint32_t *last = &engine->close->last[maker];
        places[i].maker = i;
        if (engine->close->map[maker / 64] & bit) {
            places[i].maker = places[*last].maker;
            places[*last].maker = i;
        }
        engine->close->map[maker / 64] |= bit;
        *last = i;
    }
    for (uint32_t word = 0; count; word++) {
        uint64_t left = engine->close->map[word];
        for (engine->close->map[word] = 0; left; left &= left - 1) {
            uint32_t last = engine->close->last[word * 64 + (uint32_t)__builtin_ctzll(left)];
            uint32_t i = last;
            do {
                i = (uint32_t)places[i].maker;
                append(engine, sorted, places[i].event);
                count--;
            } while (i != last);
        }
    }
}

/* Any others: by groups of the bits in which they differ, from the last. */
static void sort_many(struct sim_engine *engine, struct place *from, size_t count, uint64_t differ,
                      struct list *sorted) {
    const unsigned bits = count < 1024 ? 8 : 11; /* what finding the sums is worth */
    const size_t digits = (size_t)1 << bits;
    struct place *to = from + engine->place_room;
    while (differ) {
        int shift = __builtin_ctzll(differ);
        differ &= ~((digits - 1) << shift);
        uint32_t next[1 << 11];
        memset(next, 0, digits * sizeof *next);
        for (size_t i = 0; i < count; i++)
            next[from[i].maker >> shift & (digits - 1)]++;
        for (uint32_t i = 0, sum = 0; i < digits; i++) {
            uint32_t here = next[i];
            next[i] = sum;
            sum += here;
        }
        for (size_t i = 0; i < count; i++)
            to[next[from[i].maker >> shift & (digits - 1)]++] = from[i];
        struct place *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(from[i + AHEAD].event);
        append(engine, sorted, from[i].event);
    }
}

static bool room_for_places(struct sim_engine *engine, size_t count) {
    if (count <= engine->place_room)
        return true;
    size_t room = engine->place_room ? engine->place_room : 512;
    while (room < count)
        room *= 2;
    free(engine->places);
    engine->places = malloc(2 * room * sizeof *engine->places);
    engine->place_room = engine->places ? room : 0;
    if (!engine->close)
        engine->close = calloc(1, sizeof *engine->close);
    return engine->places && engine->close;
}

static bool sort_in_chunk(struct sim_engine *engine, struct list *list) {
    if (!engine->free_chunks && !more_chunks(engine))
        return false;
    struct chunk *fresh = engine->free_chunks, *old = list->head;
    engine->free_chunks = fresh->next;
    sort_few(fresh->events, old->events, old->count);
    fresh->next = NULL;
    fresh->first = 0;
    fresh->count = old->count;
    release_chunk(engine, old);
    *list = (struct list){fresh, fresh, maker_of(&fresh->events[fresh->count - 1]), false};
    return true;
}

static void sort(struct sim_engine *engine, struct list *list, size_t count) {
    bool few = count <= BY_COUNTING;
    if (few ? !sort_in_chunk(engine, list) : !room_for_places(engine, count)) {
        fail(engine, NO_MEMORY, &list->head->events[0]);
        return;
    }
    if (few)
        return;
    struct place *places = engine->places;
    uint64_t first = maker_of(&list->head->events[0]), differ = 0, least = first, most = first;
    size_t n = 0;
    for (const struct chunk *c = list->head; c; c = c->next)
        for (uint32_t i = 0; i < c->count; i++) {
            uint64_t maker = maker_of(&c->events[i]);
            differ |= maker ^ first;
            least = maker < least ? maker : least;
            most = maker > most ? maker : most;
            places[n++] = (struct place){maker, &c->events[i]};
        }
    struct list sorted = {0};
    if (most - least < CLOSE && most - least < 64 * count)
        sort_close(engine, places, n, least, &sorted);
    else
        sort_many(engine, places, n, differ, &sorted);
    for (struct chunk *c = list->head, *next; c; c = next) {
        next = c->next;
        release_chunk(engine, c);
    }
    *list = sorted;
}

/* ---- opening slots ---- */

/* The events that come after those of the slot that is being opened, a few at most. */
static void look_at_next(const struct sim_engine *engine) {
    if (!engine->used[0])
        return;
    const struct list *next = &engine->slots[0][__builtin_ctzll(engine->used[0])];
    uint32_t count = next->head->count < AHEAD ? next->head->count : AHEAD;
    for (uint32_t i = 0; i < count; i++)
        look_closer(engine, &next->head->events[i]);
}

struct span {
    uint64_t least_ps, most_ps;
    size_t count;
};

static struct span span_of(const struct sim_engine *engine, int level, unsigned slot) {
    struct span span = {UINT64_MAX, 0, 0};
    const struct list *list = &engine->slots[level][slot];
    for (const struct chunk *c = list->head; c; c = c->next) {
        span.count += c->count;
        for (uint32_t i = 0; level > 0 && i < c->count; i++) {
            uint64_t at = c->events[i].at_ps;
            span.least_ps = at < span.least_ps ? at : span.least_ps;
            span.most_ps = at > span.most_ps ? at : span.most_ps;
        }
    }
    if (level == 0) /* a slot of one picosecond */
        span.least_ps = span.most_ps = list->head->events[0].at_ps;
    return span;
}

/* The events of the least time become ready, the others move to lower levels. */
static void spread(struct sim_engine *engine, const struct list *opened, size_t count) {
    engine->ready = (struct list){0};
    /* A list at one level is spread over up to 64 below, so these limits are met once, if at all,
     * and again on a list that was met above. */
    bool ahead = count > FEW && count <= SLOTS * FEW, closer = count <= FEW;
    size_t ready = 0;
    for (struct chunk *c = opened->head, *next; c; c = next) {
        for (uint32_t i = 0; i < c->count; i++) {
            const struct sim_event *event = &c->events[i];
            if (ahead)
                look_ahead(engine, event);
            else if (closer)
                look_closer(engine, event);
            if (event->at_ps == engine->now_ps) {
                append(engine, &engine->ready, event);
                ready++;
            } else {
                insert(engine, event);
            }
        }
        next = c->next;
        release_chunk(engine, c);
    }
    if (engine->ready.disordered)
        sort(engine, &engine->ready, ready);
}

/* Opens the first slot, and time moves on to its first event; false when that is after until_ps, or
 * there is none. The ready list is empty before. */
static bool advance(struct sim_engine *engine, uint64_t until_ps) {
    if (!engine->levels)
        return false;
    int level = __builtin_ctz(engine->levels);
    unsigned slot = (unsigned)__builtin_ctzll(engine->used[level]);
    struct span span = span_of(engine, level, slot);
    if (span.least_ps > until_ps)
        return false;
    struct list opened = engine->slots[level][slot];
    engine->slots[level][slot] = (struct list){0};
    engine->used[level] &= ~(1ull << slot);
    if (!engine->used[level])
        engine->levels &= ~(1u << level);
    if (level == 0)
        look_at_next(engine);
    engine->now_ps = span.least_ps;
    if (span.least_ps != span.most_ps) {
        spread(engine, &opened, span.count);
    } else {
        if (opened.disordered)
            sort(engine, &opened, span.count);
        engine->ready = opened; /* no copy */
    }
    return !engine->failure;
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
    if (!engine->ready.head && !advance(engine, until_ps))
        return false;
    if (engine->now_ps > until_ps)
        return false;
    struct chunk *head = engine->ready.head;
    const struct sim_event *first = &head->events[head->first];
    if (engine->early.count && maker_of(&engine->early.at[0]) < maker_of(first)) {
        early_pop(&engine->early, event);
        event->at_ps = engine->now_ps;
        return true;
    }
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
    uint64_t hash = mix(mix(0x6a09e667f3bcc909ull, event->at_ps), event->order);
    for (unsigned i = 0; i < kind_of(engine, event)->digested; i++)
        hash = mix(hash, event->with.u32[i]);
    engine->digest += hash * 0xd6e8feb86659fd93ull ^ hash >> 32;
}

int sim_run(struct sim_engine *engine, uint64_t until_ps, uint64_t most, struct spin_error *err) {
    struct sim_event event;
    engine->stopped = engine->failure != NO_FAILURE;
    for (; most && !engine->stopped && take(engine, until_ps, &event); most--) {
        engine->pending--;
        engine->handled++;
        if (engine->digesting)
            note(engine, &event);
        kind_of(engine, &event)->run(context_of(engine, &event), &event);
    }
    return say_failure(engine, err);
}
