/* Prints the digest of the event log of a schedule on every topology, queue, route and fault. */
#include <stdio.h>
#include <stdlib.h>

#include "openspin.h"

static void run(const struct spin_goal *goal, const char *topology, int way) {
    struct spin_goal_options options = {.digest = true};
    struct spin_packet packet;
    struct spin_goal_result result;
    struct spin_error err;
    spin_loggops_preset("sc17-dis", &options.loggops, &err);
    spin_packet_preset("sc17-dis", &packet, &err);
    packet.topology = topology;
    packet.queue = (uint64_t)way % 3;
    packet.buffer_bytes = 8192;
    packet.routing = way & 1;
    packet.switching = way >> 1 & 1;
    packet.placement = way >> 2 & 1;
    packet.dma = SPIN_DMA_BOTH;
    packet.retry_ps = 3000000;
    packet.retries = 100;
    if (way >= 6) {
        packet.loss = packet.corruption = packet.duplication = packet.reordering = 1u << 24;
        packet.fail_links = 1;
        packet.fail_at_ps = 2000000;
        packet.fail_until_ps = 9000000;
    }
    options.packet = &packet;
    if (spin_goal_run(goal, &options, &result, &err) != SPIN_OK) {
        fprintf(stderr, "%s, way %d: %s\n", topology, way, err.text);
        exit(1);
    }
    printf("%s way %d: makespan %llu digest %016llx\n", topology, way,
           (unsigned long long)result.makespan_ps, (unsigned long long)result.digest);
    spin_goal_result_free(&result);
}

int main(void) {
    static const char *const topologies[] = {"switch", "fattree:4", "torus:4x4", "torus:2x3x4",
                                             "dragonfly:2,3,1"};
    struct spin_goal_pattern pattern = {
        .name = "pairwise-alltoall", .ranks = 16, .bytes = 10000, .iterations = 1};
    struct spin_goal *goal;
    struct spin_error err;
    if (spin_goal_generate(&pattern, &goal, &err) != SPIN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < sizeof topologies / sizeof topologies[0]; i++)
        for (int way = 0; way < 12; way++)
            run(goal, topologies[i], way);
    spin_goal_free(goal);
    return 0;
}
