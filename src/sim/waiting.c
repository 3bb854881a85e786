#include "sim/waiting.h"

#include <stdlib.h>

#include "base/grow.h"
#include "base/hash_table.h"
#include "base/pages.h"
#include "base/pairing.h"

/* Up to so many lines are an array by key: zero pages that nobody touches cost nothing. Beyond, as
 * with 256 cpus and 256 nics on every rank, those in use are found by hashing. */
#define MOST_BY_KEY (1ull << 26)

struct waiter {
    struct sim_event event;
    uint32_t child, next; /* first of those behind it, next of those beside it */
};

struct waiting_line {
    uint64_t guard;  /* 1 + sequence number of the one in the queue, 0 for none */
    uint64_t due_ps; /* its time there */
    uint32_t first;  /* root of the heap, 0 when nobody stands in line */
};

struct slot {
    uint64_t key; /* + 1 */
    uint32_t line;
};
HASH_TABLE_BY_KEY(places, struct slot);

struct waiting {
    struct waiting_line *lines; /* by key; or, with a table, [1...] in order of first use */
    uint64_t line_room, line_count;
    struct hash_table table;
    struct waiter *waiters; /* [1...]; 0 is none */
    uint32_t count, room, free_waiters;
    bool out_of_memory;
};

static size_t slots_bytes(const struct waiting *l) {
    return l->table.slots * sizeof(struct slot);
}

/* Two slots per line; false: no memory. */
static bool widen_table(struct waiting *l, uint64_t lines) {
    uint64_t slots = 2 * lines;
    size_t had = slots_bytes(l);
    void *to = slots <= HASH_TABLE_MOST ? pages_new(slots * sizeof(struct slot)) : NULL;
    if (to)
        pages_free(places_move(&l->table, NULL, to, (uint32_t)slots), had);
    return to != NULL;
}

struct waiting *waiting_new(uint64_t keys) {
    struct waiting *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->count = 1;
    l->line_count = 1;
    l->line_room = keys <= MOST_BY_KEY ? keys : 256;
    l->lines = pages_new(l->line_room * sizeof *l->lines);
    if (!l->lines || (keys > MOST_BY_KEY && !widen_table(l, l->line_room))) {
        waiting_free(l);
        return NULL;
    }
    return l;
}

void waiting_free(struct waiting *l) {
    if (!l)
        return;
    pages_free(l->lines, l->line_room * sizeof *l->lines);
    pages_free(l->table.slot, slots_bytes(l));
    pages_free(l->waiters, l->room * sizeof *l->waiters);
    free(l);
}

bool waiting_out_of_memory(const struct waiting *l) {
    return l->out_of_memory;
}

uint64_t waiting_bytes(const struct waiting *l) {
    if (l->count == 1)
        return 0; /* nobody ever stood in line: at most some guards' pages are touched */
    return slots_bytes(l) + l->line_room * sizeof *l->lines + l->room * sizeof *l->waiters;
}

/* Twice the lines. */
static bool grow_lines(struct waiting *l) {
    uint64_t room = 2 * l->line_room;
    if (!widen_table(l, room))
        return false;
    struct waiting_line *lines =
        pages_grow(l->lines, l->line_room * sizeof *lines, room * sizeof *lines);
    if (!lines)
        return false;
    l->lines = lines;
    l->line_room = room;
    return true;
}

/* The line of the key; made if need be, NULL when there is no memory for it. */
static struct waiting_line *find(struct waiting *l, uint64_t key) {
    if (!l->table.slots)
        return &l->lines[key];
    struct slot *slot = places_slot(&l->table, NULL, key + 1);
    if (!slot->key) {
        if (l->line_count == l->line_room) {
            if (!grow_lines(l))
                return NULL;
            slot = places_slot(&l->table, NULL, key + 1);
        }
        *slot = (struct slot){key + 1, (uint32_t)l->line_count++};
        l->table.used++;
    }
    return &l->lines[slot->line];
}

static uint32_t new_waiter(struct waiting *l) {
    uint32_t w = l->free_waiters;
    if (w) {
        l->free_waiters = l->waiters[w].next;
        return w;
    }
    return ROOM_FOR_ONE_BY(pages_grow, l->waiters, l->count, l->room, 1024) ? l->count++ : 0;
}

static inline bool is_earlier(const struct waiter *a, const struct waiter *b) {
    return a->event.order < b->event.order;
}
PAIRING(waiting_line, struct waiter, child, next, is_earlier);

bool waiting_wait(struct waiting *l, uint64_t key, const struct sim_event *event,
                  uint64_t free_ps) {
    struct waiting_line *line = find(l, key);
    uint64_t me = sim_object(event) + 1;
    if (!line) {
        l->out_of_memory = true;
        return true;
    }
    if (line->guard && free_ps < line->due_ps)
        return true;
    if (!line->guard || me <= line->guard) {
        /* A guard that is passed over stays in the queue, and joins the line when its turn comes.
         */
        line->guard = me;
        line->due_ps = free_ps;
        return true;
    }
    uint32_t w = new_waiter(l);
    if (!w) {
        l->out_of_memory = true;
        return true;
    }
    l->waiters[w] = (struct waiter){*event, 0, 0};
    line->first = waiting_line_meld(l->waiters + 1, line->first, w);
    return false;
}

bool waiting_ran(struct waiting *l, uint64_t key, const struct sim_event *event, uint64_t free_ps,
                 struct sim_event *next) {
    struct waiting_line *line = find(l, key);
    if (!line || line->guard != sim_object(event) + 1)
        return false;
    uint32_t first = line->first;
    if (!first) {
        line->guard = 0;
        return false;
    }
    *next = l->waiters[first].event;
    line->guard = sim_object(next) + 1;
    line->due_ps = free_ps;
    line->first = waiting_line_without_first(l->waiters + 1, first);
    l->waiters[first].next = l->free_waiters;
    l->free_waiters = first;
    return true;
}
