/* openspin/spin_network.h: the parameters of simulated networks and hosts: the LogGOPS model, noise
 * and the packet model. Schedules (spin_goal.h) and worlds (spin_world.h) take them. */
#ifndef OPENSPIN_SPIN_NETWORK_H
#define OPENSPIN_SPIN_NETWORK_H

#include "spin_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters of the model, as exact integers. */
struct spin_loggops {
    uint64_t L_ps;    /* latency */
    uint64_t o_ps;    /* overhead on the cpu for a message */
    uint64_t g_ps;    /* gap between messages on a nic */
    uint64_t G_fs;    /* gap per byte on a nic */
    uint64_t O_fs;    /* overhead per byte on the cpu */
    uint64_t S_bytes; /* larger messages wait for their receive (rendezvous) */
};

/* A named set of parameters; row i of the presets, NULL after the last. */
const char *spin_loggops_preset_name(int i, const char **about);
int spin_loggops_preset(const char *name, struct spin_loggops *to, struct spin_error *err);
/* "L=2500", "o=65ns", "G=20ps/B", "S=64KiB". */
int spin_loggops_set(struct spin_loggops *to, const char *assignment, struct spin_error *err);
/* Parameter i as "name = value unit", what it is and where `preset` has it from; false after the
 * last. */
#define SPIN_SET_BY_USER "set by the user" /* the source of a value that is not the preset's */
struct spin_parameter {
    const char *name;
    char value[256]; /* as spin_..._set take it */
    const char *what, *source;
};
bool spin_loggops_parameter(const struct spin_loggops *of, const char *preset, int i,
                            struct spin_parameter *row);

/* What the operating system takes: detours of length_ps every period_ps, or a recorded file of
 * lines "start length". All zero for none. */
struct spin_noise {
    uint64_t period_ps, length_ps;
    const char *record;
    uint64_t seed;
    bool together; /* all ranks begin at the same place of the record */
};

/* The packet model: messages travel as packets over links and switches (docs/network.md). */
enum { SPIN_QUEUE_UNLIMITED, SPIN_QUEUE_DROPTAIL, SPIN_QUEUE_CREDIT };
enum { SPIN_SWITCH_CUT_THROUGH, SPIN_SWITCH_STORE };
enum { SPIN_ROUTE_SINGLE, SPIN_ROUTE_HASH };
enum { SPIN_DMA_NONE, SPIN_DMA_RECEIVE, SPIN_DMA_BOTH };
enum { SPIN_PLACE_LINEAR, SPIN_PLACE_RANDOM };
struct spin_packet {
    const char *topology; /* "fattree:36"; see spin_packet_set for the rest */
    uint64_t link_fs, link_latency_ps, global_latency_ps, switch_ps;
    uint64_t mtu_bytes, header_bytes, buffer_bytes;
    uint64_t queue, switching, routing, placement; /* of the enumerations above */
    uint64_t seed;
    uint64_t loss, corruption, duplication, reordering; /* fractions of 2^32, a packet and link */
    uint64_t reorder_ps;
    uint64_t retry_ps, retries;
    uint64_t fail_links, fail_at_ps, fail_until_ps; /* so many links, drawn from the seed */
    uint64_t dma, dma_latency_ps, dma_fs, memory_fs;
    const char *const *failures; /* "s0-s3@1us" or "h4-s1@1us:5us" */
    int failure_count;
    const char *link_report; /* a CSV file with a row per link, or NULL */
};
/* The packet network that goes with a LogGOPS preset. */
int spin_packet_preset(const char *name, struct spin_packet *to, struct spin_error *err);
/* "link_rate=400Gbit/s", "link_latency=33.4ns", "queue=credit", "loss=1e-6", "topology=switch", of
 * which the text must stay. */
int spin_packet_set(struct spin_packet *to, const char *assignment, struct spin_error *err);
bool spin_packet_parameter(const struct spin_packet *of, const char *preset, int i,
                           struct spin_parameter *row);

/* What traces and pictures show of a run; zero for all of it. */
struct spin_view {
    const char *ranks; /* "0-3,7", or NULL */
    uint64_t from_ps, to_ps;
};

#ifdef __cplusplus
}
#endif

#endif
