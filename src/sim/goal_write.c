/* Writes GOAL text. Labels are l1, l2, ... in program order within a rank. What an operation waits
 * for follows it, if that keeps for every operation the order of those that wait for it, which the
 * timing rules look at; the others are stated at the end of the rank. */
#include "sim/goal.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Text goes through a buffer of its own: a schedule is millions of short lines, and formatted
 * output takes several times as long as reading them. */
struct sink {
    FILE *out;
    size_t used;
    char bytes[1 << 16];
};

static void flush(struct sink *out) {
    fwrite(out->bytes, 1, out->used, out->out);
    out->used = 0;
}

static void put(struct sink *out, const char *text) {
    size_t length = strlen(text); /* a word or two, never near the size of the buffer */
    if (out->used + length > sizeof out->bytes)
        flush(out);
    memcpy(out->bytes + out->used, text, length);
    out->used += length;
}

/* `before`, then the number. */
static void put_number(struct sink *out, const char *before, uint64_t number) {
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    put(out, before);
    put(out, digits + at);
}

static void write_tag(struct sink *out, uint32_t tag) {
    if (tag == GOAL_ANY)
        put(out, " tag -1");
    else
        put_number(out, " tag ", tag);
}

static void write_rank_or_any(struct sink *out, uint32_t rank) {
    if (rank == GOAL_ANY)
        put(out, "-1");
    else
        put_number(out, "", rank);
}

static void write_args(const struct goal_portals *x, struct sink *out) {
    for (int i = 0; i < 4; i++)
        if (x->arg[i] != GOAL_NO_VALUE) {
            put_number(out, " arg", (uint64_t)i + 1);
            put_number(out, " ", x->arg[i]);
        }
}

static void write_counters(const struct goal_op *o, const struct goal_portals *x,
                           struct sink *out) {
    if (x->ct != GOAL_NONE && o->type != GOAL_APPEND) {
        put_number(out, " when ", x->ct);
        put_number(out, " reaches ", x->threshold);
    }
    if (x->oct != GOAL_NONE)
        put_number(out, " ct ", x->oct);
}

static void write_append(const struct goal_op *o, const struct goal_portals *x, struct sink *out) {
    put(out, x->options & GOAL_OPTION_OVERFLOW ? " to overflow_list" : " to priority_list");
    const struct {
        const char *word;
        uint32_t value;
    } handlers[] = {{" hh ", x->hh}, {" ph ", x->ph}, {" ch ", x->ch}};
    for (size_t i = 0; i < 3; i++)
        if (handlers[i].value != GOAL_NONE)
            put_number(out, handlers[i].word, handlers[i].value);
    write_args(x, out);
    if (x->mem)
        put_number(out, " mem ", x->mem);
    put(out, " allowed ");
    write_rank_or_any(out, o->peer);
    write_counters(o, x, out);
    if (x->options & GOAL_OPTION_USE_ONCE)
        put(out, " use_once");
}

static void write_portals(const struct goal_op *o, const struct goal_portals *x, struct sink *out) {
    if (o->type == GOAL_GEM5CALC && o->tag) {
        put_number(out, "calcgem5 ", o->tag);
        put_number(out, " ", o->size);
        put(out, "b");
        return;
    }
    put(out, goal_type_word(o->type));
    if (o->type == GOAL_CTWAIT) {
        put_number(out, " ", x->ct);
        put_number(out, " for ", x->threshold);
        return;
    }
    put_number(out, " ", o->size);
    if (o->type == GOAL_GEM5CALC)
        return;
    put(out, "b");
    if (o->type == GOAL_APPEND || o->type == GOAL_TAPPEND) {
        write_append(o, x, out);
    } else {
        write_args(x, out);
        put_number(out, o->type == GOAL_GET || o->type == GOAL_TGET ? " from " : " to ", o->peer);
        write_counters(o, x, out);
    }
    write_tag(out, o->tag);
}

static void write_op(const struct spin_goal *goal, uint32_t op, struct sink *out) {
    const struct goal_op at = goal_at(goal, op), *o = &at;
    if (o->type == GOAL_CALC) {
        put_number(out, "calc ", o->size);
    } else if (o->type > GOAL_CALC) {
        const struct goal_portals none = GOAL_PORTALS_NONE, *x = goal_portals_of(goal, op);
        write_portals(o, x ? x : &none, out);
    } else {
        bool send = o->type == GOAL_SEND;
        put_number(out, send ? "send " : "recv ", o->size);
        put(out, send ? "b to " : "b from ");
        write_rank_or_any(out, o->peer);
        if (o->tag)
            write_tag(out, o->tag);
    }
    if (o->type != GOAL_CTWAIT && o->type != GOAL_GEM5CALC) {
        if (o->cpu)
            put_number(out, " cpu ", o->cpu);
        if (o->nic)
            put_number(out, " nic ", o->nic);
    }
    put(out, "\n");
}

/* The edges of a rank turned round: for each operation, those it waits for. */
struct waits {
    uint32_t *first, *before; /* [count + 1], [edges] */
    bool *late;               /* [count]: who waits for it is stated at the end */
    bool any_late;
};

/* Whether stating the successors of an operation one by one, as they come, would keep their order.
 */
static bool keeps_order(const struct spin_goal *goal, uint32_t op) {
    const struct goal_shape *s = goal_shape_of(goal, op);
    for (uint32_t e = 0; e < s->edge_count; e++) {
        uint32_t edge = goal->edges[s->edges + e], after = goal_after(op, edge);
        if (after < op)
            return false; /* not defined before it */
        if (e > 0) {
            uint32_t before = goal->edges[s->edges + e - 1], last = goal_after(op, before);
            bool alike = goal_shape_of(goal, last)->type == goal_shape_of(goal, after)->type &&
                         ((before ^ edge) & GOAL_ON_START) == 0;
            if (alike && last > after)
                return false;
        }
    }
    return true;
}

static bool turn_round(const struct spin_goal *goal, uint32_t rank, struct waits *w) {
    uint32_t first = goal->first_op[rank], count = goal_rank_ops(goal, rank);
    w->first = calloc((size_t)count + 2, sizeof *w->first);
    w->late = calloc((size_t)count + 1, sizeof *w->late);
    if (!w->first || !w->late)
        return false;
    for (uint32_t i = 0; i < count; i++)
        w->first[i + 2] = w->first[i + 1] + goal_shape_of(goal, first + i)->waits;
    w->before = malloc(((size_t)w->first[count + 1] + 1) * sizeof *w->before);
    if (!w->before)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct goal_shape *s = goal_shape_of(goal, first + i);
        w->late[i] = !keeps_order(goal, first + i);
        w->any_late |= w->late[i];
        for (uint32_t e = 0; e < s->edge_count; e++) {
            uint32_t edge = goal->edges[s->edges + e];
            w->before[w->first[goal_after(i, edge) + 1]++] = i | (edge & GOAL_ON_START);
        }
    }
    return true;
}

/* `before` with the bit that says whether it is waited for to start. */
static void write_wait(struct sink *out, uint32_t after, uint32_t before) {
    put_number(out, "l", after + 1);
    put_number(out, before & GOAL_ON_START ? " irequires l" : " requires l",
               (before & ~GOAL_ON_START) + 1);
    put(out, "\n");
}

static bool write_rank(const struct spin_goal *goal, uint32_t rank, struct sink *out) {
    uint32_t first = goal->first_op[rank], count = goal_rank_ops(goal, rank);
    struct waits w = {0};
    bool good = turn_round(goal, rank, &w);
    put_number(out, "\nrank ", rank);
    put(out, " {\n");
    for (uint32_t i = 0; good && i < count; i++) {
        put_number(out, "l", i + 1);
        put(out, ": ");
        write_op(goal, first + i, out);
        for (uint32_t k = w.first[i]; k < w.first[i + 1]; k++)
            if (!w.late[w.before[k] & ~GOAL_ON_START])
                write_wait(out, i, w.before[k]);
    }
    for (uint32_t i = 0; good && w.any_late && i < count; i++) {
        const struct goal_shape *s = goal_shape_of(goal, first + i);
        for (uint32_t e = 0; w.late[i] && e < s->edge_count; e++) {
            uint32_t edge = goal->edges[s->edges + e];
            write_wait(out, goal_after(i, edge), i | (edge & GOAL_ON_START));
        }
    }
    put(out, "}\n");
    free(w.first);
    free(w.before);
    free(w.late);
    return good;
}

int goal_write_text(const struct spin_goal *goal, FILE *out, struct spin_error *err) {
    struct sink *sink = malloc(sizeof *sink);
    bool good = sink != NULL;
    if (good) {
        sink->out = out;
        sink->used = 0;
        put_number(sink, "num_ranks ", goal->num_ranks);
        put(sink, "\n");
    }
    for (uint32_t rank = 0; good && rank < goal->num_ranks; rank++)
        good = write_rank(goal, rank, sink);
    if (good)
        flush(sink);
    free(sink);
    return good ? SPIN_OK : spin_fail(err, SPIN_ENOMEM, "out of memory");
}
