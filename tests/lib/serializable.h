/* Is a history of transactions strictly serialisable? Every value is written once, and who writes a
 * record has read it before in the same transaction. So the versions of a record are a chain, and
 * the order of any two transactions that touch the same record is known: the history is
 * serialisable if and only if the graph of these orders has no cycle (Adya). Strictly: a
 * transaction that ended before another began comes before it. */
#ifndef TEST_SERIALIZABLE_H
#define TEST_SERIALIZABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { TX_RECORDS = 8 }; /* that a transaction touches */

/* Values are numbers of transactions, 0 for what a record is at first: transaction i writes i + 1.
 */
struct transaction {
    uint64_t start, end;
    bool committed;
    int count;
    struct {
        uint32_t record, read;
        bool written;
    } touch[TX_RECORDS];
};

struct tx_order {
    const struct transaction *t;
    int count, edges, room;
    struct {
        int from, to;
    } * edge;
};

static inline void tx_precedes(struct tx_order *o, int from, int to) {
    if (from == to)
        return;
    if (o->edges == o->room) {
        o->room = o->room ? 2 * o->room : 1024;
        o->edge = realloc(o->edge, (size_t)o->room * sizeof *o->edge);
    }
    o->edge[o->edges].from = from;
    o->edge[o->edges++].to = to;
}

/* Orders of `a`, which has read a version of a record that `b` touches. */
static inline const char *tx_compare(struct tx_order *o, int a, int i, int b, int j) {
    const struct transaction *s = &o->t[a], *t = &o->t[b];
    if (s->touch[i].record != t->touch[j].record)
        return NULL;
    uint32_t read = s->touch[i].read;
    if (t->touch[j].written && read == (uint32_t)b + 1)
        tx_precedes(o, b, a); /* it reads what b wrote */
    if (t->touch[j].written && t->touch[j].read == read) {
        if (s->touch[i].written)
            return "two transactions replaced the same version";
        tx_precedes(o, a, b); /* b replaces what it has read */
    }
    return NULL;
}

/* NULL, or what is wrong with a read by itself. */
static inline const char *tx_origins(const struct transaction *t, int count, int a) {
    for (int i = 0; i < t[a].count; i++) {
        uint32_t value = t[a].touch[i].read;
        if (!value)
            continue;
        if (value > (uint32_t)count || !t[value - 1].committed)
            return "a value was read that no transaction has committed";
        bool wrote = false;
        for (int j = 0; j < t[value - 1].count; j++)
            wrote |= t[value - 1].touch[j].written &&
                     t[value - 1].touch[j].record == t[a].touch[i].record;
        if (!wrote)
            return "a value was read that belongs to another record";
    }
    return NULL;
}

/* Whether all can be taken away, each when nothing precedes it. */
static inline bool tx_has_no_cycle(const struct tx_order *o) {
    int *before = calloc((size_t)o->count + 1, sizeof *before), left = o->count;
    bool *gone = calloc((size_t)o->count + 1, sizeof *gone), found = true;
    for (int i = 0; i < o->edges; i++)
        before[o->edge[i].to]++;
    while (found) {
        found = false;
        for (int a = 0; a < o->count; a++) {
            if (gone[a] || before[a])
                continue;
            found = gone[a] = true;
            left--;
            for (int i = 0; i < o->edges; i++)
                if (o->edge[i].from == a)
                    before[o->edge[i].to]--;
        }
    }
    free(before);
    free(gone);
    return left == 0;
}

/* NULL, or why not. */
static inline const char *not_serializable(const struct transaction *t, int count) {
    struct tx_order o = {.t = t, .count = count};
    const char *wrong = NULL;
    for (int a = 0; a < count && !wrong; a++) {
        if (!t[a].committed)
            continue;
        wrong = tx_origins(t, count, a);
        for (int b = 0; b < count && !wrong; b++) {
            if (a == b || !t[b].committed)
                continue;
            if (t[a].end < t[b].start)
                tx_precedes(&o, a, b);
            for (int i = 0; i < t[a].count; i++)
                for (int j = 0; j < t[b].count && !wrong; j++)
                    wrong = tx_compare(&o, a, i, b, j);
        }
    }
    if (!wrong && !tx_has_no_cycle(&o))
        wrong = "a cycle of transactions, each before the next";
    free(o.edge);
    return wrong;
}

#endif
