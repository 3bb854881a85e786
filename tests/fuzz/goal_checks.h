/* What the GOAL fuzzers share: checks on a schedule that was read. */
#ifndef TESTS_FUZZ_GOAL_H
#define TESTS_FUZZ_GOAL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_in.h"
#include "fuzz.h"
#include "sim/goal.h"

static inline void fuzz_same(const struct spin_goal *a, const struct spin_goal *b) {
    FUZZ_HOLDS(a->num_ranks == b->num_ranks && a->op_count == b->op_count &&
                   a->edge_count == b->edge_count && a->portals_count == b->portals_count,
               "a schedule is the same after writing and reading");
    for (uint32_t i = 0; i < a->op_count; i++) {
        const struct goal_shape *s = goal_shape_of(a, i), *t = goal_shape_of(b, i);
        const struct goal_op x = goal_at(a, i), y = goal_at(b, i);
        FUZZ_HOLDS(x.type == y.type && x.size == y.size && x.peer == y.peer && x.tag == y.tag &&
                       s->waits == t->waits && s->edge_count == t->edge_count,
                   "an operation is the same after writing and reading");
        for (uint32_t e = 0; e < s->edge_count; e++)
            FUZZ_HOLDS(a->edges[s->edges + e] == b->edges[t->edges + e],
                       "and so are those that wait for it");
    }
}

static inline int fuzz_read(const uint8_t *bytes, size_t length, struct spin_goal **goal,
                            struct spin_error *err) {
    struct file_in in = file_in_memory("fuzz", bytes, length);
    return goal_read_binary(&in, goal, err);
}

static inline void fuzz_schedule(const struct spin_goal *goal) {
    struct spin_error err;
    struct spin_goal *again;
    char *bytes;
    size_t length;
    FILE *out = open_memstream(&bytes, &length);
    goal_write_binary(goal, false, out);
    fclose(out);
    FUZZ_HOLDS(fuzz_read((const uint8_t *)bytes, length, &again, &err) == SPIN_OK,
               "what we write as binary we read");
    fuzz_same(goal, again);
    goal_free(again);
    free(bytes);
    out = open_memstream(&bytes, &length);
    goal_write_text(goal, out, NULL);
    fclose(out);
    FUZZ_HOLDS(goal_read_text("again", bytes, length, &again, &err) == SPIN_OK,
               "what we write as text we read");
    goal_free(again);
    free(bytes);
    struct spin_goal_options options = {.loggops = {1000, 500, 2000, 2000, 1000, 255}};
    struct spin_goal_result result;
    if (spin_goal_run(goal, &options, &result, &err) == SPIN_OK)
        spin_goal_result_free(&result);
}

#endif
