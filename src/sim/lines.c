#include "sim/lines.h"

#include <stdlib.h>

#define NO_GUARD UINT64_MAX

struct waiter {
    struct sim_event event;
    uint32_t child, next; /* first of those behind it, next of those beside it */
};

struct line {
    uint64_t key;   /* 0: empty slot */
    uint64_t guard; /* sequence number of the one in the queue */
    uint32_t first; /* root of the heap, 0 when nobody stands in line */
};

struct lines {
    struct line *slots; /* open addressing; a line stays once it has been used */
    uint64_t mask, used;
    struct waiter *waiters; /* [1...]; 0 is none */
    uint32_t count, room, free_waiters;
    bool out_of_memory;
};

struct lines *lines_new(void) {
    struct lines *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->mask = 255;
    l->count = 1;
    l->slots = calloc(l->mask + 1, sizeof *l->slots);
    if (!l->slots) {
        free(l);
        return NULL;
    }
    return l;
}

void lines_free(struct lines *l) {
    if (!l)
        return;
    free(l->slots);
    free(l->waiters);
    free(l);
}

bool lines_out_of_memory(const struct lines *l) {
    return l->out_of_memory;
}

uint64_t lines_bytes(const struct lines *l) {
    return (l->mask + 1) * sizeof *l->slots + (uint64_t)l->room * sizeof *l->waiters;
}

static struct line *find(const struct lines *l, uint64_t key) {
    uint64_t h = key * 0x9e3779b97f4a7c15ull;
    for (uint64_t i = h ^ h >> 32;; i++) {
        struct line *line = &l->slots[i & l->mask];
        if (line->key == key || !line->key)
            return line;
    }
}

static struct line *find_or_add(struct lines *l, uint64_t key) {
    struct line *line = find(l, key);
    if (line->key)
        return line;
    if (2 * l->used >= l->mask) {
        struct lines larger = {.mask = 2 * l->mask + 1};
        larger.slots = calloc(larger.mask + 1, sizeof *larger.slots);
        if (!larger.slots)
            return NULL;
        for (uint64_t i = 0; i <= l->mask; i++)
            if (l->slots[i].key)
                *find(&larger, l->slots[i].key) = l->slots[i];
        free(l->slots);
        l->slots = larger.slots;
        l->mask = larger.mask;
        line = find(l, key);
    }
    *line = (struct line){key, NO_GUARD, 0};
    l->used++;
    return line;
}

static uint32_t new_waiter(struct lines *l) {
    uint32_t w = l->free_waiters;
    if (w) {
        l->free_waiters = l->waiters[w].next;
        return w;
    }
    if (l->count >= l->room) {
        uint64_t room = l->room ? 2ull * l->room : 1024;
        struct waiter *larger =
            room > UINT32_MAX ? NULL : realloc(l->waiters, room * sizeof *larger);
        if (!larger)
            return 0;
        l->waiters = larger;
        l->room = (uint32_t)room;
    }
    return l->count++;
}

/* The root of two heaps: the later one goes behind the earlier. */
static uint32_t meld(struct lines *l, uint32_t a, uint32_t b) {
    if (!a || !b)
        return a ? a : b;
    if (l->waiters[b].event.order < l->waiters[a].event.order) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    l->waiters[b].next = l->waiters[a].child;
    l->waiters[a].child = b;
    return a;
}

/* What is left when the root leaves: its children melded in pairs, then the pairs from the right.
 * Without recursion, since a line may be as long as memory allows. */
static uint32_t without_root(struct lines *l, uint32_t root) {
    uint32_t pairs = 0;
    for (uint32_t a = l->waiters[root].child; a;) {
        uint32_t b = l->waiters[a].next, rest = b ? l->waiters[b].next : 0;
        l->waiters[a].next = 0;
        if (b)
            l->waiters[b].next = 0;
        uint32_t pair = meld(l, a, b);
        l->waiters[pair].next = pairs;
        pairs = pair;
        a = rest;
    }
    uint32_t heap = 0;
    while (pairs) {
        uint32_t next = l->waiters[pairs].next;
        l->waiters[pairs].next = 0;
        heap = meld(l, heap, pairs);
        pairs = next;
    }
    return heap;
}

bool lines_wait(struct lines *l, uint64_t key, const struct sim_event *event) {
    struct line *line = find_or_add(l, key);
    uint64_t sequence = sim_order_sequence(event->order);
    if (!line) {
        l->out_of_memory = true;
        return true;
    }
    if (sequence <= line->guard) {
        /* A guard that is passed over stays in the queue, and joins the line when its turn comes.
         */
        line->guard = sequence;
        return true;
    }
    uint32_t w = new_waiter(l);
    if (!w) {
        l->out_of_memory = true;
        return true;
    }
    l->waiters[w] = (struct waiter){*event, 0, 0};
    line->first = meld(l, line->first, w);
    return false;
}

bool lines_ran(struct lines *l, uint64_t key, const struct sim_event *event,
               struct sim_event *next) {
    struct line *line = find(l, key);
    if (!line->key || line->guard != sim_order_sequence(event->order))
        return false;
    uint32_t first = line->first;
    if (!first) {
        line->guard = NO_GUARD;
        return false;
    }
    *next = l->waiters[first].event;
    line->guard = sim_order_sequence(next->order);
    line->first = without_root(l, first);
    l->waiters[first].next = l->free_waiters;
    l->free_waiters = first;
    return true;
}
