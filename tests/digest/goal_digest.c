/* Prints digests of full event logs. Built by each compiler at each optimisation level, it must
 * print the same bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "openspin.h"

static void digest(const char *pattern, uint32_t ranks, uint64_t bytes, const char *preset,
                   struct spin_noise noise) {
    struct spin_goal_pattern p = {
        .name = pattern, .ranks = ranks, .bytes = bytes, .calc_ns = 12345, .iterations = 2};
    struct spin_goal_options options = {.digest = true, .noise = noise};
    struct spin_goal_result result;
    struct spin_goal *goal;
    struct spin_error err;
    if (spin_goal_generate(&p, &goal, &err) != SPIN_OK ||
        spin_loggops_preset(preset, &options.loggops, &err) != SPIN_OK ||
        spin_goal_run(goal, &options, &result, &err) != SPIN_OK) {
        fprintf(stderr, "goal_digest: %s\n", err.text);
        exit(1);
    }
    printf("%s %u %" PRIu64 " %s: %" PRIu64 " ps, %" PRIu64 " events, noise %" PRIu64
           ", queues %" PRIu64 ", digest %016" PRIx64 "\n",
           pattern, ranks, bytes, preset, result.makespan_ps, result.engine_events, result.noise_ps,
           result.queue_ps, result.digest);
    spin_goal_result_free(&result);
    spin_goal_free(goal);
}

int main(void) {
    static const char *const presets[] = {"loggopsim", "sc17-int", "sc17-dis"};
    const char *pattern;
    for (int i = 0; (pattern = spin_goal_pattern_name(i, NULL)) != NULL; i++)
        for (int k = 0; k < 3; k++) {
            struct spin_noise noise = {0};
            digest(pattern, 61, 1000, presets[k], noise);
            noise = (struct spin_noise){.period_ps = 100000000, .length_ps = 2500000, .seed = 7};
            digest(pattern, 64, 100000, presets[k], noise);
        }
    return 0;
}
