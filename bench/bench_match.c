/* Matching: what one message and one receive cost when so many others wait. usage: bench-match
 * [quick] */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "measure.h"
#include "sim/goal_match.h"

/* `waiting` receives stay posted at a rank, tags 0 to waiting - 1 from one source (or from any);
 * each step a message takes one of them at random, and it is posted again. */
static double step_ns(uint32_t waiting, bool wildcards) {
    struct goal_match *m = goal_match_new(wildcards, 1);
    struct goal_found found;
    struct rng rng = rng_seeded(1);
    uint32_t steps = 1000000, matched = 0;
    for (uint32_t i = 0; i < waiting; i++)
        goal_match_receive(m, 0, wildcards ? GOAL_MATCH_ANY : 1, i, i, &found);
    double start = bench_cpu_seconds();
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t tag = rng_below(&rng, waiting);
        matched += goal_match_message(m, 0, 1, tag, i, &found);
        goal_match_receive(m, 0, wildcards ? GOAL_MATCH_ANY : 1, tag, found.op, &found);
    }
    double seconds = bench_cpu_seconds() - start;
    goal_match_free(m);
    return matched == steps ? 1e9 * seconds / steps : -1;
}

int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    bench_machine();
    printf("ns for one message and one receive\n\n%10s %12s %12s\n", "waiting", "exact",
           "wildcards");
    for (uint32_t waiting = 10; waiting <= (quick ? 100000u : 1000000u); waiting *= 10)
        printf("%10u %12.1f %12.1f\n", waiting, step_ns(waiting, false), step_ns(waiting, true));
    return 0;
}
