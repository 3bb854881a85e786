/* Design notes: the queue.
 *
 * Time is cut into *leaves* of 256 ps, and the events of one leaf are ready together. Above the
 * leaves is a wheel of wheels over the bits of time: a later event, at time T, lies at level l, the
 * position of the highest group of 6 bits (above those of a leaf) in which T and the engine's time
 * differ, in the slot named by T's 6 bits there. So everything in a lower level is earlier than
 * anything in a higher one, within a level a lower slot is earlier, and a bitmap of 64 bits per
 * level finds the first slot in one instruction. Times are never compared on the way in.
 *
 * When nothing is ready, the first slot is opened. One of the lowest level is a leaf: its events
 * are sorted and become ready. From a higher one they move to lower levels, and the next one is
 * opened. An event moves at most once per level, and in practice once or twice, always from one run
 * of memory to another; a heap of ten million events would miss the cache at every step instead.
 * Why leaves: with slots of one picosecond most of them held one event, which had moved once more
 * for it, and opening a slot costs as much as sorting a few.
 *
 * Order: the key of an event in its leaf is its time there and its maker. Every list is first in,
 * first out, and a slot is only opened when all that lies before it is gone, so events of one key
 * stay in the order they were made in, and sorting (engine_sort.c) keeps that. An event that is
 * made for the leaf that is open goes to the end of the ready list if that keeps the order, else to
 * a small heap, and the next event is the lesser of the heap's and the ready list's first. Every
 * event in the heap has a greater one in the ready list; so among equal keys the ready list's is
 * the older.
 *
 * Memory: lists are chains of chunks of 63 events (2 KiB); an emptied chunk goes to a free list.
 * The engine allocates only when more events are pending, or ready at once, than ever before. */
#include "sim/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "sim/engine_private.h"

enum {
    CHUNKS_AT_ONCE = 32,
    AHEAD = 8, /* events; enough to cover a miss to memory at 20 to 100 ns each */
    FEW = 16,  /* events of a list; what 64 times as many touch still fits a cache */
};

struct sim_slab {
    struct sim_slab *next;
    struct sim_chunk chunks[CHUNKS_AT_ONCE];
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
    for (struct sim_slab *slab = engine->slabs, *next; slab; slab = next) {
        next = slab->next;
        free(slab);
    }
    sim_sort_free(engine);
    free(engine->early.at);
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
    if (!ROOM_FOR_ONE(engine->contexts, engine->instances, engine->instance_room, 16))
        return spin_fail(err, SPIN_ENOMEM, "out of memory for the event engine");
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

static inline void look_nearest(const struct sim_engine *engine, const struct sim_event *event) {
    const struct sim_kind *kind = kind_of(engine, event);
    if (kind->nearest)
        kind->nearest(context_of(engine, event), event);
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
        .bytes =
            engine->bytes + engine->early.room * sizeof *engine->early.at + sim_sort_bytes(engine),
    };
}

/* ---- failures: the first one stays ---- */

static __attribute__((cold)) void fail(struct sim_engine *engine, enum sim_failure failure,
                                       const struct sim_event *event) {
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

/* ---- the wheel ---- */

struct sim_chunk *sim_more_chunks(struct sim_engine *engine) {
    struct sim_slab *slab = malloc(sizeof *slab);
    if (!slab)
        return NULL;
    slab->next = engine->slabs;
    engine->slabs = slab;
    engine->bytes += sizeof *slab;
    for (int i = CHUNKS_AT_ONCE - 1; i >= 0; i--) {
        slab->chunks[i].next = engine->free_chunks;
        engine->free_chunks = &slab->chunks[i];
    }
    return engine->free_chunks;
}

static inline unsigned shift_of(unsigned level) {
    return SIM_LEAF_BITS + level * SIM_LEVEL_BITS;
}

/* By the highest bit in which two times differ; in the same leaf: the lowest level. */
static inline unsigned level_of(uint64_t difference) {
    unsigned bit = 63u ^ (unsigned)__builtin_clzll(difference | 1u << SIM_LEAF_BITS);
    return (bit - SIM_LEAF_BITS) / SIM_LEVEL_BITS;
}

/* Word by word: the words of a new event were stored just now, or are in registers, and a load of
 * two of them at once would have to wait until they are in the cache. */
static inline void put_event(struct sim_chunk *tail, const struct sim_event *event) {
    struct sim_event *to = &tail->events[tail->count++];
    uint64_t at_ps = event->at_ps, order = event->order;
    uint64_t first = event->with.u64[0], second = event->with.u64[1];
    __asm__("" : "+r"(at_ps), "+r"(order), "+r"(first), "+r"(second));
    to->at_ps = at_ps;
    to->order = order;
    to->with.u64[0] = first;
    to->with.u64[1] = second;
}

/* An event that is not before `from`, the engine's time or that of the slot that is opened. */
static inline void insert(struct sim_engine *engine, const struct sim_event *event, uint64_t from) {
    unsigned level = level_of(event->at_ps ^ from);
    unsigned slot = (event->at_ps >> shift_of(level)) & (SIM_SLOTS - 1);
    struct sim_list *list = &engine->slots[level][slot];
    struct sim_chunk *tail = list->tail;
    if (!tail || tail->count == SIM_CHUNK_EVENTS) {
        engine->levels |= 1u << level;
        engine->used[level] |= 1ull << slot;
        if (!(tail = sim_lengthen(engine, list))) {
            fail(engine, NO_MEMORY, event); /* the run ends, so the lost event is not silent */
            return;
        }
    }
    put_event(tail, event);
}

static void make_early(struct sim_engine *engine, const struct sim_event *event) {
    const struct sim_early early = {*event, engine->early_count++};
    if (!early_push(&engine->early, &early))
        fail(engine, NO_MEMORY, event);
}

/* An event of the leaf that is open: to the ready list if that keeps the order, to the heap if not.
 */
static inline void make_ready(struct sim_engine *engine, const struct sim_event *event) {
    struct sim_chunk *tail = engine->ready.tail;
    uint64_t key = sim_key(event);
    if (tail && key < engine->ready_last) {
        make_early(engine, event);
        return;
    }
    if ((!tail || tail->count == SIM_CHUNK_EVENTS) &&
        !(tail = sim_lengthen(engine, &engine->ready))) {
        fail(engine, NO_MEMORY, event);
        return;
    }
    put_event(tail, event);
    engine->ready_last = key;
}

static __attribute__((cold, noinline)) void refuse(struct sim_engine *engine,
                                                   const struct sim_instance *instance,
                                                   uint64_t at_ps, unsigned kind) {
    const struct sim_event event = {.at_ps = at_ps, .order = instance->order + kind};
    fail(engine,
         at_ps >= SIM_LATEST_PS   ? TOO_LATE
         : at_ps < engine->now_ps ? TOO_EARLY
                                  : NO_SUCH_OBJECT,
         &event);
}

void sim_schedule(const struct sim_instance *instance, uint64_t at_ps, uint64_t object,
                  unsigned kind, union sim_payload with) {
    struct sim_engine *engine = instance->engine;
    const struct sim_event event = {at_ps, instance->order + (object << SIM_KIND_BITS) + kind,
                                    with};
    if (at_ps < engine->now_ps || at_ps >= SIM_LATEST_PS || object >= SIM_MOST_OBJECTS) {
        refuse(engine, instance, at_ps, kind);
        return;
    }
    if ((at_ps ^ engine->now_ps) >> SIM_LEAF_BITS)
        insert(engine, &event, engine->now_ps);
    else
        make_ready(engine, &event);
    if (++engine->pending > engine->most_pending)
        engine->most_pending = engine->pending;
}

/* ---- opening slots ---- */

static inline void look_twice(const struct sim_engine *engine, const struct sim_event *event) {
    const struct sim_kind *kind = kind_of(engine, event);
    sim_handler *look = kind->nearest ? kind->nearest : kind->closer;
    if (look)
        look(context_of(engine, event), event);
}

/* The events that come after those of the leaf that is being opened, a few at most; and of the leaf
 * behind that those that are looked at three times. */
static void look_at_next(const struct sim_engine *engine) {
    uint64_t used = engine->used[0];
    if (!used)
        return;
    const struct sim_chunk *next = engine->slots[0][__builtin_ctzll(used)].head;
    uint32_t count = next->count < AHEAD ? next->count : AHEAD;
    for (uint32_t i = 0; i < count; i++)
        look_twice(engine, &next->events[i]);
    used &= used - 1;
    if (!used)
        return;
    next = engine->slots[0][__builtin_ctzll(used)].head;
    count = next->count < AHEAD ? next->count : AHEAD;
    for (uint32_t i = 0; i < count; i++)
        if (kind_of(engine, &next->events[i])->nearest)
            look_closer(engine, &next->events[i]);
}

static size_t count_of(const struct sim_list *list) {
    size_t count = 0;
    for (const struct sim_chunk *c = list->head; c; c = c->next)
        count += c->count;
    return count;
}

static uint64_t least_of(const struct sim_list *list) {
    uint64_t least = UINT64_MAX;
    for (const struct sim_chunk *c = list->head; c; c = c->next)
        for (uint32_t i = 0; i < c->count; i++)
            least = c->events[i].at_ps < least ? c->events[i].at_ps : least;
    return least;
}

uint64_t sim_next_ps(const struct sim_engine *engine) {
    const struct sim_chunk *head = engine->ready.head;
    uint64_t next = head ? head->events[head->first].at_ps : SIM_FOREVER;
    if (engine->early.count && engine->early.at[0].event.at_ps < next)
        next = engine->early.at[0].event.at_ps;
    if (head || !engine->levels)
        return next;
    unsigned level = (unsigned)__builtin_ctz(engine->levels);
    return least_of(&engine->slots[level][__builtin_ctzll(engine->used[level])]);
}

/* All of a slot move to lower levels. */
static void spread(struct sim_engine *engine, const struct sim_list *opened, unsigned level,
                   uint64_t from) {
    size_t count = count_of(opened);
    /* A list at one level is spread over up to 64 below, so these limits are met once, if at all,
     * and again on a list that was met above. */
    bool ahead = level == 1 && count > FEW && count <= SIM_SLOTS * FEW;
    bool closer = level == 1 && count <= FEW;
    for (struct sim_chunk *c = opened->head, *next; c; c = next) {
        for (uint32_t i = 0; i < c->count; i++) {
            if (ahead)
                look_ahead(engine, &c->events[i]);
            else if (closer)
                look_closer(engine, &c->events[i]);
            insert(engine, &c->events[i], from);
        }
        next = c->next;
        sim_give_chunk(engine, c);
    }
}

static bool is_sorted(const struct sim_list *list) {
    uint64_t last = 0;
    for (const struct sim_chunk *c = list->head; c; c = c->next)
        for (uint32_t i = 0; i < c->count; i++) {
            uint64_t key = sim_key(&c->events[i]);
            if (key < last)
                return false;
            last = key;
        }
    return true;
}

/* The events of one leaf become ready; false: no memory. */
static bool open_leaf(struct sim_engine *engine, struct sim_list *list) {
    look_at_next(engine);
    if (!is_sorted(list) && !sim_sort(engine, list, count_of(list))) {
        fail(engine, NO_MEMORY, &list->head->events[0]);
        return false;
    }
    engine->ready = *list; /* no copy */
    engine->ready_last = sim_key(&list->tail->events[list->tail->count - 1]);
    return true;
}

static struct sim_list take_slot(struct sim_engine *engine, unsigned level, unsigned slot) {
    struct sim_list list = engine->slots[level][slot];
    engine->slots[level][slot] = (struct sim_list){0};
    engine->used[level] &= ~(1ull << slot);
    if (!engine->used[level])
        engine->levels &= ~(1u << level);
    return list;
}

/* Opens the first leaf that has events; false when these are after until_ps, or there are none.
 * Nothing is ready before. */
static bool advance(struct sim_engine *engine, uint64_t until_ps) {
    while (engine->levels) {
        unsigned level = (unsigned)__builtin_ctz(engine->levels);
        unsigned slot = (unsigned)__builtin_ctzll(engine->used[level]);
        const struct sim_list *first = &engine->slots[level][slot];
        uint64_t rest = (1ull << shift_of(level)) - 1, at = first->head->events[0].at_ps;
        /* What is opened holds the next event to be taken: the engine's time is then there. */
        if (until_ps < (at | rest) && least_of(first) > until_ps)
            return false;
        struct sim_list opened = take_slot(engine, level, slot);
        if (level == 0 || (opened.head == opened.tail && opened.head->count == 1))
            return open_leaf(engine, &opened);
        spread(engine, &opened, level, at & ~rest);
        if (engine->failure)
            return false;
    }
    return false;
}

/* ---- running ---- */

/* The event so many places behind the first of a list; NULL when that is too far. */
static inline const struct sim_event *further(const struct sim_chunk *head, uint32_t places) {
    uint32_t at = head->first + places;
    if (at < head->count)
        return &head->events[at];
    if (head->next && at - head->count < head->next->count)
        return &head->next->events[at - head->count];
    return NULL;
}

static __attribute__((noinline)) bool take_early(struct sim_engine *engine, uint64_t until_ps,
                                                 struct sim_event *event) {
    struct sim_early early;
    if (engine->early.at[0].event.at_ps > until_ps)
        return false;
    early_pop(&engine->early, &early);
    *event = early.event;
    engine->now_ps = event->at_ps;
    return true;
}

static inline bool take(struct sim_engine *engine, uint64_t until_ps, struct sim_event *event) {
    if (!engine->ready.head && !advance(engine, until_ps))
        return false;
    struct sim_chunk *head = engine->ready.head;
    const struct sim_event *first = &head->events[head->first];
    if (engine->early.count && sim_key(&engine->early.at[0].event) < sim_key(first))
        return take_early(engine, until_ps, event);
    if (first->at_ps > until_ps)
        return false;
    *event = *first;
    engine->now_ps = event->at_ps;
    const struct sim_event *close = further(head, AHEAD), *far = further(head, 2 * AHEAD);
    const struct sim_event *near = further(head, AHEAD / 2);
    if (near)
        look_nearest(engine, near);
    if (close)
        look_closer(engine, close);
    if (far)
        look_ahead(engine, far);
    if (++head->first == head->count) {
        engine->ready.head = head->next;
        if (!head->next)
            engine->ready.tail = NULL;
        sim_give_chunk(engine, head);
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
