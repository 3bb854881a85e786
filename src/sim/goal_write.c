/* Writes GOAL text. Labels are l1, l2, ... in program order within a rank, and the dependencies of
 * an operation follow it as soon as both are defined. */
#include "sim/goal.h"

#include <stdlib.h>

#include "base/error.h"

static void write_tag(FILE *out, uint32_t tag) {
    if (tag == GOAL_ANY)
        fputs(" tag -1", out);
    else
        fprintf(out, " tag %u", tag);
}

static void write_rank_or_any(FILE *out, uint32_t rank) {
    if (rank == GOAL_ANY)
        fputs("-1", out);
    else
        fprintf(out, "%u", rank);
}

static void write_args(const struct goal_portals *x, FILE *out) {
    for (int i = 0; i < 4; i++)
        if (x->arg[i])
            fprintf(out, " arg%d %llu", i + 1, (unsigned long long)x->arg[i]);
}

static void write_append(const struct goal_op *o, const struct goal_portals *x, FILE *out) {
    fprintf(out, " to %s_list", x->options & GOAL_OPTION_OVERFLOW ? "overflow" : "priority");
    const struct {
        const char *word;
        uint32_t value;
    } handlers[] = {{"hh", x->hh}, {"ph", x->ph}, {"ch", x->ch}};
    for (size_t i = 0; i < 3; i++)
        if (handlers[i].value)
            fprintf(out, " %s %u", handlers[i].word, handlers[i].value);
    write_args(x, out);
    if (x->mem)
        fprintf(out, " mem %u", x->mem);
    fputs(" allowed ", out);
    write_rank_or_any(out, o->peer);
    fprintf(out, " ct %u%s", x->oct, x->options & GOAL_OPTION_USE_ONCE ? " use_once" : "");
}

static void write_portals(const struct goal_op *o, const struct goal_portals *x, FILE *out) {
    const char *word = goal_type_word(o->type);
    if (o->type == GOAL_CTWAIT) {
        fprintf(out, "%s %u for %llu", word, x->ct, (unsigned long long)x->threshold);
        return;
    }
    if (o->type == GOAL_GEM5CALC) {
        fprintf(out, "%s %llu", word, (unsigned long long)o->size);
        return;
    }
    fprintf(out, "%s %llub", word, (unsigned long long)o->size);
    if (o->type == GOAL_APPEND || o->type == GOAL_TAPPEND) {
        write_append(o, x, out);
    } else {
        write_args(x, out);
        fprintf(out, " to %u", o->peer);
        if (x->ct || x->threshold)
            fprintf(out, " when %u reaches %llu", x->ct, (unsigned long long)x->threshold);
        if (x->oct)
            fprintf(out, " ct %u", x->oct);
    }
    write_tag(out, o->tag);
}

static void write_op(const struct spin_goal *goal, uint32_t op, FILE *out) {
    const struct goal_op *o = &goal->ops[op];
    if (o->type == GOAL_CALC) {
        fprintf(out, "calc %llu", (unsigned long long)o->size);
    } else if (o->type > GOAL_CALC) {
        const struct goal_portals none = {0}, *x = goal_portals_of(goal, op);
        write_portals(o, x ? x : &none, out);
    } else {
        bool send = o->type == GOAL_SEND;
        fprintf(out, "%s %llub %s ", send ? "send" : "recv", (unsigned long long)o->size,
                send ? "to" : "from");
        write_rank_or_any(out, o->peer);
        if (o->tag)
            write_tag(out, o->tag);
    }
    if (o->type != GOAL_CTWAIT && o->type != GOAL_GEM5CALC) {
        if (o->cpu)
            fprintf(out, " cpu %u", o->cpu);
        if (o->nic)
            fprintf(out, " nic %u", o->nic);
    }
    fputc('\n', out);
}

/* The edges of a rank turned round: for each operation, those it waits for. */
struct waits {
    uint32_t *first, *before; /* [count + 1], [edges] */
};

static bool turn_round(const struct spin_goal *goal, uint32_t rank, struct waits *w) {
    uint32_t first = goal->first_op[rank], count = goal_rank_ops(goal, rank);
    const struct goal_op *ops = &goal->ops[first];
    uint32_t from = ops[0].successors, to = ops[count].successors;
    w->first = calloc((size_t)count + 2, sizeof *w->first);
    w->before = malloc(((size_t)(to - from) + 1) * sizeof *w->before);
    if (!w->first || !w->before)
        return false;
    for (uint32_t e = from; e < to; e++)
        w->first[(goal->edges[e] & ~GOAL_ON_START) + 2]++;
    for (uint32_t i = 2; i <= count + 1; i++)
        w->first[i] += w->first[i - 1];
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t e = ops[i].successors; e < ops[i + 1].successors; e++) {
            uint32_t after = goal->edges[e] & ~GOAL_ON_START;
            w->before[w->first[after + 1]++] = i | (goal->edges[e] & GOAL_ON_START);
        }
    return true;
}

static void write_wait(FILE *out, uint32_t after, uint32_t before) {
    fprintf(out, "l%u %s l%u\n", after + 1, before & GOAL_ON_START ? "irequires" : "requires",
            (before & ~GOAL_ON_START) + 1);
}

int goal_write_text(const struct spin_goal *goal, FILE *out, struct spin_error *err) {
    fprintf(out, "num_ranks %u\n", goal->num_ranks);
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++) {
        uint32_t first = goal->first_op[rank], count = goal_rank_ops(goal, rank);
        struct waits w = {0};
        if (!turn_round(goal, rank, &w)) {
            free(w.first);
            free(w.before);
            return spin_fail(err, SPIN_ENOMEM, "out of memory");
        }
        fprintf(out, "\nrank %u {\n", rank);
        bool forward = false;
        for (uint32_t i = 0; i < count; i++) {
            fprintf(out, "l%u: ", i + 1);
            write_op(goal, first + i, out);
            for (uint32_t k = w.first[i]; k < w.first[i + 1]; k++) {
                if ((w.before[k] & ~GOAL_ON_START) < i)
                    write_wait(out, i, w.before[k]);
                else
                    forward = true; /* on an operation that comes later: at the end */
            }
        }
        for (uint32_t i = 0; forward && i < count; i++)
            for (uint32_t k = w.first[i]; k < w.first[i + 1]; k++)
                if ((w.before[k] & ~GOAL_ON_START) > i)
                    write_wait(out, i, w.before[k]);
        fputs("}\n", out);
        free(w.first);
        free(w.before);
    }
    return SPIN_OK;
}
