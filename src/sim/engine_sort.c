/* Sorting the events of a leaf by time and maker: few by counting, many by a map of their makers or
 * by the bits in which they differ. All of these keep the order of equals. */
#include <stdlib.h>
#include <string.h>

#include "sim/engine_private.h"

enum {
    FEW = 32,         /* are sorted by counting */
    CLOSE = 1 << 15,  /* makers; what is kept of them fits the second cache */
    AHEAD = 8,        /* events; enough to cover a miss to memory */
    PLACE_BITS = 5,   /* of FEW */
    APART_BITS = 26,  /* makers of one time */
    APART_TIMED = 18, /* and of several: APART_BITS less those of a time in the leaf */
};
_Static_assert((int)FEW <= (int)SIM_CHUNK_EVENTS, "few are in one chunk");
_Static_assert(APART_BITS - APART_TIMED == SIM_LEAF_BITS && 1 << PLACE_BITS == FEW, "31 bits");

/* Events of one time whose makers are close together: by maker, counted from the least. */
struct sim_close {
    uint64_t map[CLOSE / 64]; /* all 0 but while sorting */
    uint32_t last[CLOSE];
};

void sim_sort_free(struct sim_engine *engine) {
    free(engine->places);
    free(engine->close);
}

uint64_t sim_sort_bytes(const struct sim_engine *engine) {
    return engine->place_room * 2 * sizeof *engine->places +
           (engine->close ? sizeof *engine->close : 0);
}

/* ---- few ---- */

/* The place of each is the number of those before it, without a branch that random makers would
 * mispredict. A time, a maker that is not too far from the first one's, and the place in the list
 * are a key of 31 bits, each of which is compared with four at a time. */
typedef int32_t four __attribute__((vector_size(16)));

union keys {
    four by_four[FEW / 4];
    int32_t one[FEW];
};

/* False: they are too far apart. */
static inline bool keys_of(const struct sim_event *from, uint32_t count, union keys *keys) {
    uint64_t differ = 0, beyond = 0;
    for (uint32_t i = 1; i < count; i++)
        differ |= from[i].at_ps ^ from[0].at_ps;
    unsigned bits = differ ? APART_TIMED : APART_BITS;
    uint64_t times = differ ? (1u << SIM_LEAF_BITS) - 1 : 0;
    uint64_t first = (from[0].order >> SIM_KIND_BITS) - (1ull << (bits - 1));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t apart = (from[i].order >> SIM_KIND_BITS) - first;
        beyond |= apart;
        apart |= (from[i].at_ps & times) << APART_TIMED;
        keys->one[i] = (int32_t)((uint32_t)apart << PLACE_BITS | i);
    }
    return beyond >> bits == 0;
}

/* Of 4 * `fours` keys, a constant where it is small. What is beyond `count` is not looked at. */
static inline __attribute__((always_inline)) void places_of(const union keys *keys, uint32_t count,
                                                            uint32_t fours, union keys *place) {
    four before[FEW / 4];
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

static void places_far(const struct sim_event *from, uint32_t count, union keys *place) {
    uint64_t key[FEW];
    for (uint32_t i = 0; i < count; i++) {
        key[i] = sim_key(&from[i]);
        place->one[i] = 0;
        for (uint32_t j = 0; j < i; j++) {
            bool later = key[i] < key[j];
            place->one[j] += later;
            place->one[i] += !later;
        }
    }
}

static void sort_few(struct sim_event *to, const struct sim_event *from, uint32_t count) {
    union keys keys, place;
    if (!keys_of(from, count, &keys))
        places_far(from, count, &place);
    else if (count <= 4)
        places_of(&keys, count, 1, &place);
    else if (count <= 8)
        places_of(&keys, count, 2, &place);
    else if (count <= 16)
        places_of(&keys, count, 4, &place);
    else
        places_of(&keys, count, FEW / 4, &place);
    for (uint32_t i = 0; i < count; i++)
        to[place.one[i]] = from[i];
}

/* ---- many ---- */

static bool append(struct sim_engine *engine, struct sim_list *list,
                   const struct sim_event *event) {
    struct sim_chunk *tail = list->tail;
    if ((!tail || tail->count == SIM_CHUNK_EVENTS) && !(tail = sim_lengthen(engine, list)))
        return false;
    tail->events[tail->count++] = *event;
    return true;
}

/* Keys that are close together, in any number: each has a bit in a map of them, and the last of its
 * events, from which a ring leads to its first. Rings are made of the places' keys. */
static bool sort_close(struct sim_engine *engine, struct sim_place *places, size_t count,
                       uint64_t least, struct sim_list *sorted) {
    bool done = true;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t maker = places[i].key - least, bit = 1ull << maker % 64;
        uint32_t *last = &engine->close->last[maker];
        places[i].key = i;
        if (engine->close->map[maker / 64] & bit) {
            places[i].key = places[*last].key;
            places[*last].key = i;
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
                i = (uint32_t)places[i].key;
                done &= append(engine, sorted, places[i].event);
                count--;
            } while (i != last);
        }
    }
    return done;
}

/* Any others: by groups of the bits in which they differ, from the last. */
static bool sort_apart(struct sim_engine *engine, struct sim_place *from, size_t count,
                       uint64_t differ, struct sim_list *sorted) {
    const unsigned bits = count < 1024 ? 8 : 11; /* what finding the sums is worth */
    const size_t digits = (size_t)1 << bits;
    struct sim_place *to = from + engine->place_room;
    bool done = true;
    while (differ) {
        int shift = __builtin_ctzll(differ);
        differ &= ~((digits - 1) << shift);
        uint32_t next[1 << 11];
        memset(next, 0, digits * sizeof *next);
        for (size_t i = 0; i < count; i++)
            next[from[i].key >> shift & (digits - 1)]++;
        for (uint32_t i = 0, sum = 0; i < digits; i++) {
            uint32_t here = next[i];
            next[i] = sum;
            sum += here;
        }
        for (size_t i = 0; i < count; i++)
            to[next[from[i].key >> shift & (digits - 1)]++] = from[i];
        struct sim_place *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(from[i + AHEAD].event);
        done &= append(engine, sorted, from[i].event);
    }
    return done;
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

static bool sort_many(struct sim_engine *engine, struct sim_list *list, size_t count) {
    if (!room_for_places(engine, count))
        return false;
    struct sim_place *places = engine->places;
    uint64_t first = sim_key(&list->head->events[0]), differ = 0, least = first, most = first;
    size_t n = 0;
    for (const struct sim_chunk *c = list->head; c; c = c->next)
        for (uint32_t i = 0; i < c->count; i++) {
            uint64_t key = sim_key(&c->events[i]);
            differ |= key ^ first;
            least = key < least ? key : least;
            most = key > most ? key : most;
            places[n++] = (struct sim_place){key, &c->events[i]};
        }
    struct sim_list sorted = {0};
    bool done = most - least < CLOSE && most - least < 64 * count
                    ? sort_close(engine, places, n, least, &sorted)
                    : sort_apart(engine, places, n, differ, &sorted);
    for (struct sim_chunk *c = list->head, *next; c; c = next) {
        next = c->next;
        sim_give_chunk(engine, c);
    }
    *list = sorted;
    return done;
}

bool sim_sort(struct sim_engine *engine, struct sim_list *list, size_t count) {
    if (count > FEW)
        return sort_many(engine, list, count);
    struct sim_chunk *fresh = sim_take_chunk(engine), *old = list->head;
    if (!fresh)
        return false;
    sort_few(fresh->events, old->events, old->count);
    fresh->count = old->count;
    sim_give_chunk(engine, old);
    *list = (struct sim_list){fresh, fresh};
    return true;
}
