/* What the packet model adds to `openspin goal run`: its parameters and what it says of the links.
 */
#include "cli_goal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "params.h"

/* o, g, O and S are the host's in both models; L and G are what the network is there to find out.
 */
int goal_set_packet(struct spin_loggops *loggops, struct spin_packet *packet,
                    const char *assignment, struct spin_error *err) {
    if (strncmp(assignment, "L=", 2) == 0 || strncmp(assignment, "G=", 2) == 0)
        return spin_fail(
            err, SPIN_EARG,
            "%.1s is no parameter of the packet model: set link_latency, switch_time and "
            "link_rate instead",
            assignment);
    if (assignment[0] && assignment[1] == '=' && strchr("ogOS", assignment[0]))
        return spin_loggops_set(loggops, assignment, err);
    return spin_packet_set(packet, assignment, err);
}

void goal_print_packet_parameters(const struct spin_goal_options *o, const char *preset) {
    struct spin_parameter row;
    printf("model packet, preset %s\n", preset);
    for (int i = 0; spin_loggops_parameter(&o->loggops, preset, i, &row); i++)
        if (strcmp(row.name, "L") != 0 && strcmp(row.name, "G") != 0)
            params_print(&row);
    for (int i = 0; spin_packet_parameter(o->packet, preset, i, &row); i++)
        if (strcmp(row.source, "none") != 0) /* faults that do not happen */
            params_print(&row);
}

static void print_count(const char *what, uint64_t count) {
    printf("%-24s %" PRIu64 "\n", what, count);
}

static void print_if(const char *what, uint64_t count) {
    if (count)
        print_count(what, count);
}

void goal_print_packet(const struct spin_goal_result *r) {
    const struct spin_packet_result *p = &r->packet;
    printf("%-24s %s: %u hosts, %u switches, %u links\n", "network", p->topology, p->hosts,
           p->switches, p->links);
    print_count("packets", p->packets);
    print_count("packet-hops", p->hops);
    printf("%-24s %" PRIu64 ".%03" PRIu64 " ns\n", "packets queued", p->queued_ps / 1000,
           p->queued_ps % 1000);
    if (p->dma_queued_ps)
        printf("%-24s %" PRIu64 ".%03" PRIu64 " ns\n", "DMA queued", p->dma_queued_ps / 1000,
               p->dma_queued_ps % 1000);
    print_if("packets lost", p->lost);
    print_if("packets dropped", p->dropped);
    print_if("packets corrupted", p->corrupted);
    print_if("packets without a route", p->no_route);
    print_if("packets duplicated", p->duplicated);
    print_if("packets sent again", p->retransmitted);
    print_if("packets rerouted", p->rerouted);
    print_if("messages lost", p->lost_messages);
    printf("%-24s %" PRIu64 " of %u directions, mean use %" PRIu64 ".%04" PRIu64
           " %%, most %" PRIu64 ".%04" PRIu64 " %%\n",
           "links used", p->busy_links, 2 * p->links, p->mean_use_ppm / 10000,
           p->mean_use_ppm % 10000, p->most_use_ppm / 10000, p->most_use_ppm % 10000);
    for (uint64_t i = 0; i < p->busy_links && i < sizeof p->busiest / sizeof p->busiest[0]; i++) {
        const struct spin_link_use *l = &p->busiest[i];
        printf("  %-22s busy %" PRIu64 ".%03" PRIu64 " ns, %" PRIu64 " packets, %" PRIu64
               " bytes, queue of at most %" PRIu64 " bytes%s\n",
               l->name, l->busy_ps / 1000, l->busy_ps % 1000, l->packets, l->bytes,
               l->queue_max_bytes, l->drops ? ", drops" : "");
    }
}

void goal_json_packet(struct json *j, const struct spin_goal_result *r) {
    const struct spin_packet_result *p = &r->packet;
    json_object(j, "network");
    json_string(j, "topology", p->topology);
    json_u64(j, "hosts", p->hosts);
    json_u64(j, "switches", p->switches);
    json_u64(j, "links", p->links);
    json_u64(j, "packets", p->packets);
    json_u64(j, "packet_hops", p->hops);
    json_u64(j, "queued_ps", p->queued_ps);
    json_u64(j, "dma_queued_ps", p->dma_queued_ps);
    json_u64(j, "lost", p->lost);
    json_u64(j, "dropped", p->dropped);
    json_u64(j, "corrupted", p->corrupted);
    json_u64(j, "no_route", p->no_route);
    json_u64(j, "duplicated", p->duplicated);
    json_u64(j, "retransmitted", p->retransmitted);
    json_u64(j, "rerouted", p->rerouted);
    json_u64(j, "lost_messages", p->lost_messages);
    json_u64(j, "channels_used", p->busy_links);
    json_u64(j, "mean_use_ppm", p->mean_use_ppm);
    json_u64(j, "most_use_ppm", p->most_use_ppm);
    json_array(j, "busiest");
    for (uint64_t i = 0; i < p->busy_links && i < sizeof p->busiest / sizeof p->busiest[0]; i++) {
        const struct spin_link_use *l = &p->busiest[i];
        json_object(j, NULL);
        json_string(j, "link", l->name);
        json_u64(j, "packets", l->packets);
        json_u64(j, "bytes", l->bytes);
        json_u64(j, "busy_ps", l->busy_ps);
        json_u64(j, "queued_ps", l->queued_ps);
        json_u64(j, "queue_max_bytes", l->queue_max_bytes);
        json_u64(j, "drops", l->drops);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}
