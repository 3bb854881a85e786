/* Is a history of operations on one register (a key: absent, or a value) linearizable? The search
 * of Wing and Gong with the memory of Lowe: every set of operations that took effect, with the
 * state that they left, is looked at once. */
#ifndef TEST_LINEARIZABLE_H
#define TEST_LINEARIZABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum register_kind { REGISTER_WRITE, REGISTER_READ, REGISTER_ERASE };
struct register_operation {
    uint64_t start, end;
    enum register_kind kind;
    uint32_t value; /* written or read; 0: absent. Of an erase: 1 if something was there */
};

struct linear_seen {
    uint64_t mask;
    uint32_t state;
};
struct linear_search {
    const struct register_operation *op;
    int count; /* at most 64 */
    struct linear_seen *seen;
    int seen_count, seen_room;
};

/* False: looked at before. */
static inline bool linear_is_new(struct linear_search *s, uint64_t mask, uint32_t state) {
    for (int i = 0; i < s->seen_count; i++)
        if (s->seen[i].mask == mask && s->seen[i].state == state)
            return false;
    if (s->seen_count == s->seen_room) {
        s->seen_room = s->seen_room ? 2 * s->seen_room : 256;
        s->seen = realloc(s->seen, (size_t)s->seen_room * sizeof *s->seen);
    }
    s->seen[s->seen_count++] = (struct linear_seen){mask, state};
    return true;
}

static inline bool linear_applies(const struct register_operation *op, uint32_t *state) {
    if (op->kind == REGISTER_READ)
        return op->value == *state;
    if (op->kind == REGISTER_ERASE && op->value != (*state != 0))
        return false;
    *state = op->kind == REGISTER_WRITE ? op->value : 0;
    return true;
}

static inline bool linear_from(struct linear_search *s, uint64_t done, uint32_t state) {
    uint64_t first_end = UINT64_MAX;
    bool all = true;
    for (int i = 0; i < s->count; i++)
        if (!(done >> i & 1)) {
            all = false;
            if (s->op[i].end < first_end)
                first_end = s->op[i].end;
        }
    if (all)
        return true;
    for (int i = 0; i < s->count; i++) {
        uint32_t next = state;
        if (done >> i & 1 || s->op[i].start > first_end || !linear_applies(&s->op[i], &next))
            continue;
        uint64_t mask = done | 1ull << i;
        if (linear_is_new(s, mask, next) && linear_from(s, mask, next))
            return true;
    }
    return false;
}

static inline bool linearizable(const struct register_operation *op, int count) {
    struct linear_search s = {.op = op, .count = count};
    bool ok = linear_from(&s, 0, 0);
    free(s.seen);
    return ok;
}

#endif
