#include "sim/goal.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/search.h"

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
    if (!goal || !goal->first_op) {
        goal_free(goal);
        spin_fail(err, SPIN_ENOMEM, "out of memory for a schedule of %u ranks", num_ranks);
        return NULL;
    }
    return goal;
}

/* What only the open rank needs. */
static void free_open(struct spin_goal *goal) {
    FREE(goal->open, goal->open_room);
    FREE(goal->open_edges, goal->open_edge_room);
    FREE(goal->links, goal->link_room);
    FREE(goal->scratch, goal->scratch_room);
    goal->open = NULL;
    goal->links = NULL;
    goal->open_edges = goal->scratch = NULL;
    goal->open_room = goal->open_edge_room = goal->link_room = goal->scratch_room = 0;
}

void goal_free(struct spin_goal *goal) {
    if (!goal)
        return;
    free(goal->first_op);
    FREE(goal->ops, goal->op_room);
    FREE(goal->shapes, goal->shape_room);
    FREE(goal->edges, goal->edge_room);
    FREE(goal->portals, goal->portals_room);
    free_open(goal);
    free(goal);
}

bool goal_more_ops(struct spin_goal *goal) {
    return goal->open_count < GOAL_MAX_OPS - goal->op_count &&
           goal->open_count < GOAL_MAX_OF_RANK &&
           ROOM(goal->open, goal->open_room, goal->open_count + 1); /* + 1: the end of the edges */
}

bool goal_more_edges(struct spin_goal *goal) {
    return goal->open_edge_count < UINT32_MAX - 1 &&
           ROOM(goal->open_edges, goal->open_edge_room, goal->open_edge_count);
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
    portals.op = goal->op_count + goal->open_count - 1;
    goal->portals[goal->portals_count++] = portals;
    return true;
}

const struct goal_portals *goal_portals_of(const struct spin_goal *goal, uint32_t op) {
    size_t at = COUNT_BEFORE(i, goal->portals_count, goal->portals[i].op < op);
    return at < goal->portals_count && goal->portals[at].op == op ? &goal->portals[at] : NULL;
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
static bool place_links(struct spin_goal *goal) {
    uint32_t count = goal->open_count, links = goal->link_count;
    if (!ROOM(goal->open_edges, goal->open_edge_room, links) ||
        !ROOM(goal->scratch, goal->scratch_room, count))
        return false;
    uint32_t *next = goal->scratch, at = 0;
    memset(next, 0, count * sizeof *next);
    for (uint32_t i = 0; i < links; i++)
        next[goal->links[i].before]++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t mine = next[i];
        goal->open[i].successors = next[i] = at;
        at += mine;
    }
    for (uint32_t i = 0; i < links; i++) {
        const struct goal_link *link = &goal->links[i];
        goal->backward |= (link->after & ~GOAL_ON_START) <= link->before;
        goal->open_edges[next[link->before]++] = link->after;
    }
    goal->open_edge_count = at;
    goal->link_count = 0;
    return true;
}

/* How many operations each of the open rank waits for, in `scratch`. */
static bool count_waits(struct spin_goal *goal) {
    if (!ROOM(goal->scratch, goal->scratch_room, goal->open_count))
        return false;
    memset(goal->scratch, 0, goal->open_count * sizeof *goal->scratch);
    for (uint32_t e = 0; e < goal->open_edge_count; e++)
        goal->scratch[goal->open_edges[e] & ~GOAL_ON_START]++;
    return true;
}

/* Takes operations that wait for nothing until none is left; what remains waits in a circle. */
static int find_circle(const struct spin_goal *goal, uint32_t *circle) {
    uint32_t count = goal->open_count, taken = 0, found = 0;
    uint32_t *waits = malloc(2 * (size_t)count * sizeof *waits), *ready = waits + count;
    if (!waits)
        return SPIN_ENOMEM;
    memcpy(waits, goal->scratch, count * sizeof *waits);
    for (uint32_t i = 0; i < count; i++)
        if (waits[i] == 0)
            ready[found++] = i;
    for (; taken < found; taken++) {
        const struct goal_op *op = &goal->open[ready[taken]];
        for (uint32_t e = op[0].successors; e < op[1].successors; e++) {
            uint32_t next = goal->open_edges[e] & ~GOAL_ON_START;
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

/* ---- shapes ---- */

static inline bool has_edges(const struct spin_goal *goal, const struct goal_shape *s,
                             uint32_t count, const uint32_t *edges) {
    if (s->edge_count != count)
        return false;
    for (uint32_t e = 0; e < count; e++)
        if (goal->edges[s->edges + e] != edges[e])
            return false;
    return true;
}

static inline bool is_shape(const struct spin_goal *goal, uint32_t shape,
                            const struct goal_shape *want, const uint32_t *edges) {
    const struct goal_shape *s = &goal->shapes[shape];
    return s->size == want->size && s->tag == want->tag && s->waits == want->waits &&
           s->type == want->type && s->cpu == want->cpu && s->nic == want->nic &&
           has_edges(goal, s, want->edge_count, edges);
}

static inline uint32_t *near_shape(struct spin_goal *goal, const struct goal_shape *want,
                                   const uint32_t *edges) {
    uint32_t first = want->edge_count ? edges[0] : 0;
    uint64_t h = want->size ^ (uint64_t)want->tag << 24 ^ (uint64_t)first << 32 ^
                 (uint64_t)(want->waits ^ want->edge_count << 4) << 44 ^ (uint64_t)want->type << 52;
    return &goal->near[(h * 0x9e3779b97f4a7c15ull) >> 54];
}

/* One that exists, if it is found at once; else a new one. What every rank has is found, and a
 * schedule in which no two operations are alike loses no time with searching. `like` is a
 * shape that may have the same edges. False: out of memory. */
static bool find_shape(struct spin_goal *goal, const struct goal_shape *want, const uint32_t *edges,
                       uint32_t like, uint32_t *shape) {
    _Static_assert(GOAL_SHAPES_NEAR == 1 << 10, "near_shape takes ten bits");
    uint32_t *near = near_shape(goal, want, edges);
    if (*near && is_shape(goal, *near - 1, want, edges)) {
        *shape = *near - 1;
        return true;
    }
    if (!ROOM(goal->shapes, goal->shape_room, goal->shape_count))
        return false;
    struct goal_shape *fresh = &goal->shapes[goal->shape_count];
    *fresh = *want;
    if (like < goal->shape_count && has_edges(goal, &goal->shapes[like], want->edge_count, edges)) {
        fresh->edges = goal->shapes[like].edges;
    } else {
        uint32_t last = goal->edges_used + want->edge_count;
        if (last < want->edge_count || last == UINT32_MAX ||
            !ROOM(goal->edges, goal->edge_room, last))
            return false;
        fresh->edges = goal->edges_used;
        for (uint32_t e = 0; e < want->edge_count; e++)
            goal->edges[goal->edges_used++] = edges[e];
    }
    *shape = goal->shape_count++;
    *near = *shape + 1;
    return true;
}

/* The open rank as it is kept. Its edges become distances. */
static bool pack(struct spin_goal *goal) {
    uint32_t count = goal->open_count, first = goal->op_count;
    uint32_t before = goal->ranks_done ? goal->first_op[goal->ranks_done - 1] : first;
    if (!ROOM(goal->ops, goal->op_room, first + count - 1))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct goal_op *op = &goal->open[i];
        uint32_t *edges = goal->open_edges ? goal->open_edges + op[0].successors : NULL, shape;
        struct goal_shape want = {.size = op->size,
                                  .tag = op->tag,
                                  .edge_count = op[1].successors - op[0].successors,
                                  .waits = goal->scratch[i],
                                  .type = op->type,
                                  .cpu = op->cpu,
                                  .nic = op->nic};
        for (uint32_t e = 0; e < want.edge_count; e++)
            edges[e] = ((edges[e] - i) & ~GOAL_ON_START) | (edges[e] & GOAL_ON_START);
        if (op->type == GOAL_CALC)
            want.size &= ~(uint64_t)UINT32_MAX;
        /* Mostly the rank before has the same operation at the same place. */
        uint32_t guess = before + i < first ? goal->ops[before + i].shape : UINT32_MAX;
        if (guess != UINT32_MAX && is_shape(goal, guess, &want, edges))
            shape = guess;
        else if (!find_shape(goal, &want, edges, guess, &shape))
            return false;
        goal->ops[first + i] =
            (struct goal_packed){op->type == GOAL_CALC ? (uint32_t)op->size : op->peer, shape};
    }
    return true;
}

static void close_rank(struct spin_goal *goal, uint32_t count, uint32_t edges) {
    goal->op_count += count;
    goal->edge_count += edges;
    goal->last_edges = edges;
    goal->open_count = goal->open_edge_count = 0;
    goal->backward = false;
    goal->first_op[++goal->ranks_done] = goal->op_count;
    if (goal->ranks_done == goal->num_ranks)
        free_open(goal);
}

int goal_end_rank(struct spin_goal *goal, uint32_t *circle) {
    uint32_t count = goal->open_count;
    if (count == 0) {
        close_rank(goal, 0, 0);
        return SPIN_OK;
    }
    if ((goal->link_count && !place_links(goal)) ||
        goal->open_edge_count > UINT32_MAX - 1 - goal->edge_count || !count_waits(goal))
        return SPIN_ENOMEM;
    goal->open[count].successors = goal->open_edge_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct goal_op *op = &goal->open[i];
        uint32_t successors = op[1].successors - op[0].successors;
        if (successors > 1 &&
            !sort_successors(goal->open, goal->open_edges + op[0].successors, successors))
            return SPIN_ENOMEM;
    }
    /* A circle needs an edge to an earlier operation; most schedules have none. */
    int code = goal->backward ? find_circle(goal, circle) : SPIN_OK;
    if (code == SPIN_ENOMEM || !pack(goal))
        return SPIN_ENOMEM;
    close_rank(goal, count, goal->open_edge_count);
    return code;
}

struct goal_packed *goal_repeat_rank(struct spin_goal *goal) {
    uint32_t last = goal->ranks_done - 1, count = goal_rank_ops(goal, last);
    if (count > GOAL_MAX_OPS - goal->op_count ||
        goal->last_edges > UINT32_MAX - 1 - goal->edge_count ||
        !ROOM(goal->ops, goal->op_room, goal->op_count + count))
        return NULL;
    struct goal_packed *ops = &goal->ops[goal->op_count];
    memcpy(ops, &goal->ops[goal->first_op[last]], count * sizeof *ops);
    close_rank(goal, count, goal->last_edges);
    return ops;
}

/* ---- looking ---- */

struct goal_op goal_at(const struct spin_goal *goal, uint32_t op) {
    const struct goal_shape *s = goal_shape_of(goal, op);
    uint32_t peer = goal->ops[op].peer;
    return (struct goal_op){.size = goal_size_of(s, peer),
                            .peer = s->type == GOAL_CALC ? 0 : peer,
                            .tag = s->tag,
                            .type = s->type,
                            .cpu = s->cpu,
                            .nic = s->nic};
}

int goal_deadlock(const struct spin_goal *goal, const uint64_t *running, uint64_t done,
                  struct spin_error *err) {
    char list[340] = "", text[80];
    size_t used = 0;
    uint64_t waiting = 0, named = 0;
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++)
        for (uint32_t i = goal->first_op[rank]; i < goal->first_op[rank + 1]; i++) {
            if (!(running[i / 64] >> i % 64 & 1))
                continue;
            waiting++;
            int more = snprintf(list + used, sizeof list - used, "%srank %u operation %u (%s)",
                                used ? ", " : "", rank, i - goal->first_op[rank] + 1,
                                goal_describe(goal, i, text, sizeof text));
            if (more > 0 && used + (size_t)more < sizeof list) {
                used += (size_t)more;
                named++;
            } else {
                list[used] = 0;
            }
        }
    char rest[40] = "";
    if (named < waiting)
        snprintf(rest, sizeof rest, " and %llu more", (unsigned long long)(waiting - named));
    return spin_fail(err, SPIN_EDEADLOCK,
                     "deadlock: %llu of %u operations are not done; waiting: %s%s",
                     (unsigned long long)(goal->op_count - done), goal->op_count, list, rest);
}

uint64_t goal_bytes(const struct spin_goal *goal) {
    return (uint64_t)goal->op_count * sizeof *goal->ops +
           (uint64_t)goal->shape_count * sizeof *goal->shapes +
           (uint64_t)goal->edges_used * sizeof *goal->edges +
           (uint64_t)goal->num_ranks * sizeof *goal->first_op;
}

char *goal_describe(const struct spin_goal *goal, uint32_t op, char *text, size_t room) {
    const struct goal_op o = goal_at(goal, op);
    const char *word = goal_type_word(o.type);
    int used;
    const struct goal_portals *x = goal_portals_of(goal, op);
    if (o.type == GOAL_CTWAIT && x)
        used =
            snprintf(text, room, "%s %u for %llu", word, x->ct, (unsigned long long)x->threshold);
    else if (o.type >= GOAL_CALC)
        used = snprintf(text, room, "%s %llu", word, (unsigned long long)o.size);
    else if (o.peer == GOAL_ANY)
        used = snprintf(text, room, "%s %llub from any", word, (unsigned long long)o.size);
    else
        used = snprintf(text, room, "%s %llub %s %u", word, (unsigned long long)o.size,
                        o.type == GOAL_SEND ? "to" : "from", o.peer);
    if (o.type < GOAL_CALC && used > 0 && (size_t)used < room) {
        if (o.tag == GOAL_ANY)
            snprintf(text + used, room - (size_t)used, " tag any");
        else
            snprintf(text + used, room - (size_t)used, " tag %u", o.tag);
    }
    return text;
}
