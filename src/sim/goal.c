#include "sim/goal.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"

struct goal_link {
    uint32_t before, after; /* `after` with GOAL_ON_START */
};

const char *goal_type_word(unsigned type) {
    static const char *const words[] = {
#define ROW(name, number, word) [number] = word,
        GOAL_TYPES(ROW)
#undef ROW
    };
    return type >= 1 && type < sizeof words / sizeof words[0] ? words[type] : "unknown";
}

/* Doubles an array when it is full. The unused half costs address space, not memory. */
static bool room_for(void **array, uint32_t *room, uint32_t count, size_t item) {
    if (count < *room)
        return true;
    if (count == UINT32_MAX)
        return false;
    uint64_t larger = *room ? 2ull * *room : 4096 / item;
    if (larger <= count)
        larger = (uint64_t)count + 1;
    if (larger > UINT32_MAX)
        larger = UINT32_MAX;
    void *moved = pages_grow(*array, *room * item, larger * item);
    if (!moved)
        return false;
    *array = moved;
    *room = (uint32_t)larger;
    return true;
}
#define ROOM(array, room, count) room_for((void **)&(array), &(room), count, sizeof *(array))
#define FREE(array, room)        pages_free(array, (size_t)(room) * sizeof *(array))

struct spin_goal *goal_new(uint32_t num_ranks, struct spin_error *err) {
    struct spin_goal *goal = calloc(1, sizeof *goal);
    if (goal) {
        goal->num_ranks = num_ranks;
        goal->first_op = calloc((size_t)num_ranks + 1, sizeof *goal->first_op);
    }
    if (!goal || !goal->first_op || !ROOM(goal->ops, goal->op_room, 0)) {
        goal_free(goal);
        spin_fail(err, SPIN_ENOMEM, "out of memory for a schedule of %u ranks", num_ranks);
        return NULL;
    }
    goal->ops[0] = (struct goal_op){0};
    return goal;
}

void goal_free(struct spin_goal *goal) {
    if (!goal)
        return;
    free(goal->first_op);
    FREE(goal->ops, goal->op_room);
    FREE(goal->edges, goal->edge_room);
    FREE(goal->portals, goal->portals_room);
    FREE(goal->links, goal->link_room);
    FREE(goal->scratch, goal->scratch_room);
    free(goal);
}

bool goal_more_ops(struct spin_goal *goal) {
    uint32_t within = goal->op_count - goal->first_op[goal->ranks_done];
    return goal->op_count < GOAL_MAX_OPS && within < GOAL_MAX_OF_RANK &&
           ROOM(goal->ops, goal->op_room, goal->op_count + 1); /* + 1: the end of the edges */
}

bool goal_more_edges(struct spin_goal *goal) {
    return goal->edge_count < UINT32_MAX - 1 &&
           ROOM(goal->edges, goal->edge_room, goal->edge_count);
}

bool goal_link(struct spin_goal *goal, uint32_t after, uint32_t before, bool on_start) {
    if (!ROOM(goal->links, goal->link_room, goal->link_count))
        return false;
    goal->links[goal->link_count++] =
        (struct goal_link){before, after | (on_start ? GOAL_ON_START : 0)};
    return true;
}

void goal_mark_linked(const struct spin_goal *goal, uint32_t first_link, bool *marked) {
    for (uint32_t i = first_link; i < goal->link_count; i++)
        marked[goal->links[i].before] = true;
}

bool goal_add_portals(struct spin_goal *goal, struct goal_portals portals) {
    if (!ROOM(goal->portals, goal->portals_room, goal->portals_count))
        return false;
    portals.op = goal->op_count - 1;
    goal->portals[goal->portals_count++] = portals;
    return true;
}

const struct goal_portals *goal_portals_of(const struct spin_goal *goal, uint32_t op) {
    uint32_t low = 0, high = goal->portals_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (goal->portals[middle].op < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low < goal->portals_count && goal->portals[low].op == op ? &goal->portals[low] : NULL;
}

/* Takes operations that wait for nothing until none is left; what remains waits in a circle. */
static int find_circle(struct spin_goal *goal, uint32_t first, uint32_t count, uint32_t *circle) {
    uint32_t *waits = calloc(2 * (size_t)count, sizeof *waits), *ready = waits + count;
    if (!waits)
        return SPIN_ENOMEM;
    uint32_t end = goal->ops[first + count].successors, taken = 0, found = 0;
    for (uint32_t e = goal->ops[first].successors; e < end; e++)
        waits[goal->edges[e] & ~GOAL_ON_START]++;
    for (uint32_t i = 0; i < count; i++)
        if (waits[i] == 0)
            ready[found++] = i;
    for (; taken < found; taken++) {
        const struct goal_op *op = &goal->ops[first + ready[taken]];
        for (uint32_t e = op[0].successors; e < op[1].successors; e++) {
            uint32_t next = goal->edges[e] & ~GOAL_ON_START;
            if (--waits[next] == 0)
                ready[found++] = next;
        }
    }
    for (uint32_t i = 0; found < count && i < count; i++)
        if (waits[i] > 0) {
            *circle = i;
            break;
        }
    free(waits);
    return found < count ? SPIN_EFORMAT : SPIN_OK;
}

/* Sorts the successors of one operation by type, those on its start before those on its end, and
 * otherwise leaves them as they were stated. Nearly always they are one, two, or in order. */
static inline unsigned taken_before(const struct goal_op *ops, uint32_t edge) {
    return ops[edge & ~GOAL_ON_START].type * 2u + (edge & GOAL_ON_START ? 0 : 1);
}

static bool sort_successors(const struct goal_op *ops, uint32_t *edges, uint32_t count) {
    enum { CLASSES = 2 * (GOAL_GEM5CALC + 1) };
    uint32_t sorted = 1, next[CLASSES] = {0};
    while (sorted < count &&
           taken_before(ops, edges[sorted - 1]) <= taken_before(ops, edges[sorted]))
        sorted++;
    if (sorted >= count)
        return true;
    uint32_t *copy = malloc(count * sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, edges, count * sizeof *copy);
    for (uint32_t i = 0; i < count; i++)
        next[taken_before(ops, copy[i])]++;
    for (uint32_t c = 0, at = 0; c < CLASSES; c++) {
        uint32_t mine = next[c];
        next[c] = at;
        at += mine;
    }
    for (uint32_t i = 0; i < count; i++)
        edges[next[taken_before(ops, copy[i])]++] = copy[i];
    free(copy);
    return true;
}

/* Links, in the order they came, become edges grouped by the operation before. */
static bool place_links(struct spin_goal *goal, uint32_t first, uint32_t count) {
    uint32_t edges = goal->edge_count, links = goal->link_count;
    if (links > UINT32_MAX - 1 - edges || !ROOM(goal->edges, goal->edge_room, edges + links) ||
        !ROOM(goal->scratch, goal->scratch_room, count))
        return false;
    uint32_t *next = goal->scratch, at = edges;
    memset(next, 0, count * sizeof *next);
    for (uint32_t i = 0; i < links; i++)
        next[goal->links[i].before]++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t mine = next[i];
        goal->ops[first + i].successors = next[i] = at;
        at += mine;
    }
    for (uint32_t i = 0; i < links; i++) {
        const struct goal_link *link = &goal->links[i];
        goal->backward |= (link->after & ~GOAL_ON_START) <= link->before;
        goal->edges[next[link->before]++] = link->after;
    }
    goal->edge_count = at;
    goal->link_count = 0;
    return true;
}

int goal_end_rank(struct spin_goal *goal, uint32_t *circle) {
    uint32_t first = goal->first_op[goal->ranks_done], count = goal->op_count - first;
    if (goal->link_count && !place_links(goal, first, count))
        return SPIN_ENOMEM;
    goal->ops[first + count] = (struct goal_op){.successors = goal->edge_count};
    for (uint32_t i = 0; i < count; i++) {
        const struct goal_op *op = &goal->ops[first + i];
        uint32_t successors = op[1].successors - op[0].successors;
        if (successors > 1 &&
            !sort_successors(&goal->ops[first], goal->edges + op[0].successors, successors))
            return SPIN_ENOMEM;
    }
    goal->first_op[++goal->ranks_done] = goal->op_count;
    /* A circle needs an edge to an earlier operation; most schedules have none. */
    bool backward = goal->backward;
    goal->backward = false;
    return backward ? find_circle(goal, first, count, circle) : SPIN_OK;
}

char *goal_describe(const struct spin_goal *goal, uint32_t op, char *text, size_t room) {
    const struct goal_op *o = &goal->ops[op];
    const char *word = goal_type_word(o->type);
    int used;
    if (o->type == GOAL_CALC || o->type > GOAL_CALC)
        used = snprintf(text, room, "%s %llu", word, (unsigned long long)o->size);
    else if (o->peer == GOAL_ANY)
        used = snprintf(text, room, "%s %llub from any", word, (unsigned long long)o->size);
    else
        used = snprintf(text, room, "%s %llub %s %u", word, (unsigned long long)o->size,
                        o->type == GOAL_SEND ? "to" : "from", o->peer);
    if (o->type < GOAL_CALC && used > 0 && (size_t)used < room) {
        if (o->tag == GOAL_ANY)
            snprintf(text + used, room - (size_t)used, " tag any");
        else
            snprintf(text + used, room - (size_t)used, " tag %u", o->tag);
    }
    return text;
}

void goal_dependencies(const struct spin_goal *goal, uint32_t *waits) {
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++) {
        uint32_t first = goal->first_op[rank];
        uint32_t end = goal->ops[goal->first_op[rank + 1]].successors;
        for (uint32_t e = goal->ops[first].successors; e < end; e++)
            waits[first + (goal->edges[e] & ~GOAL_ON_START)]++;
    }
}
