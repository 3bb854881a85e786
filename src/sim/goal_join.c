#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sim/goal.h"

#define EMPTY UINT32_MAX

struct seat {
    uint32_t job, rank;
};

/* Copies one rank of a job; `node_of` maps the job's ranks to nodes. */
static bool copy_rank(struct spin_goal *to, const struct spin_goal *job, uint32_t rank,
                      const uint32_t *node_of) {
    uint32_t first = job->first_op[rank], count = goal_rank_ops(job, rank);
    for (uint32_t i = 0; i < count; i++) {
        struct goal_op op = goal_at(job, first + i);
        if (op.type != GOAL_CALC && op.type != GOAL_CTWAIT && op.type != GOAL_GEM5CALC &&
            op.peer != GOAL_ANY)
            op.peer = node_of[op.peer];
        const struct goal_portals *portals = goal_portals_of(job, first + i);
        if (goal_add(to, op) == GOAL_ANY || (portals && !goal_add_portals(to, *portals)))
            return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct goal_shape *s = goal_shape_of(job, first + i);
        for (uint32_t e = 0; e < s->edge_count; e++) {
            uint32_t edge = job->edges[s->edges + e];
            if (!goal_link(to, goal_after(i, edge), i, (edge & GOAL_ON_START) != 0))
                return false;
        }
    }
    return true;
}

static int seat_all(const struct spin_goal *const *jobs, int count, const uint32_t *placement,
                    uint32_t nodes, struct seat *seats, struct spin_error *err) {
    for (uint32_t i = 0; i < nodes; i++)
        seats[i].job = EMPTY;
    for (int j = 0; j < count; j++)
        for (uint32_t rank = 0; rank < jobs[j]->num_ranks; rank++) {
            uint32_t node = *placement++;
            if (node >= nodes)
                return spin_fail(err, SPIN_EARG,
                                 "rank %u of job %d is placed on node %u, but there are %u nodes",
                                 rank, j + 1, node, nodes);
            if (seats[node].job != EMPTY)
                return spin_fail(err, SPIN_EARG,
                                 "rank %u of job %d is placed on node %u, which rank %u of job %u "
                                 "has already; a node takes one rank",
                                 rank, j + 1, node, seats[node].rank, seats[node].job + 1);
            seats[node] = (struct seat){(uint32_t)j, rank};
        }
    return SPIN_OK;
}

int spin_goal_join(const struct spin_goal *const *jobs, int count, const uint32_t *placement,
                   uint32_t nodes, struct spin_goal **goal, struct spin_error *err) {
    uint64_t ranks = 0;
    for (int j = 0; j < count; j++)
        ranks += jobs[j]->num_ranks;
    if (nodes == 0 || nodes > GOAL_MAX_RANKS || ranks > nodes)
        return spin_fail(err, SPIN_EARG, "%llu ranks need as many nodes; there are %u (limit %u)",
                         (unsigned long long)ranks, nodes, GOAL_MAX_RANKS);
    struct seat *seats = malloc((size_t)nodes * sizeof *seats);
    uint64_t *starts = calloc((size_t)count + 1, sizeof *starts);
    struct spin_goal *joined = seats && starts ? goal_new(nodes, err) : NULL;
    int code = joined ? seat_all(jobs, count, placement, nodes, seats, err)
                      : spin_fail(err, SPIN_ENOMEM, "out of memory for %u nodes", nodes);
    for (int j = 0; !code && j < count; j++)
        starts[j + 1] = starts[j] + jobs[j]->num_ranks;
    for (uint32_t node = 0; !code && node < nodes; node++) {
        const struct seat *seat = &seats[node];
        uint32_t circle;
        if ((seat->job != EMPTY &&
             !copy_rank(joined, jobs[seat->job], seat->rank, placement + starts[seat->job])) ||
            goal_end_rank(joined, &circle) != SPIN_OK)
            code = spin_fail(err, SPIN_ENOMEM, "out of memory, or over the limit of %u operations",
                             GOAL_MAX_OPS);
    }
    free(seats);
    free(starts);
    if (code)
        goal_free(joined);
    else
        *goal = joined;
    return code;
}
