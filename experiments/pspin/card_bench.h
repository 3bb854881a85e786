/* One simulated card with one execution context and a stream of packets: what the figures that need
 * a card have in common, with the caller's set-up (experiment_card.h). Deterministic. */
#ifndef OPENSPIN_EXPERIMENTS_CARD_BENCH_H
#define OPENSPIN_EXPERIMENTS_CARD_BENCH_H

#include "experiment.h"
#include "sim/card.h"

struct card_bench_setup {
    const char *image;  /* of the experiments' folder */
    bool of_workload;   /* no: of the workloads' */
    const char *entry;  /* payload handler */
    const char *config; /* "quantum=1" or NULL */
    uint32_t memory_bytes, scratch_bytes;
    uint64_t host_bytes, host_address;
};

struct card_bench_traffic {
    uint32_t packets, bytes;
    uint32_t messages;    /* packets are dealt out to so many, one after the other */
    uint64_t interval_ps; /* 0: as fast as the card takes them */
    uint32_t together;    /* so many come at a time; 0: one */
    uint32_t warm;        /* so many come before, 1 us apart: for the instruction caches */
    /* Fills in packet i, which is zero; NULL: leave it. */
    void (*fill)(void *user, uint32_t i, uint8_t *bytes);
    void *user;
};

struct card_bench {
    struct sim_engine *engine;
    struct card *card;
    struct spin_image *image;
    uint32_t context;
    uint8_t *host;
    uint64_t packets_out, bytes_out;
    uint64_t faults;
    char fault[200];
    const struct experiment_context *context_of;
    /* of the running stream */
    uint64_t *arrival_ps; /* of each packet */
    struct card_bench_traffic traffic;
    uint32_t given;
    uint8_t *packet;
};

int card_bench_open(struct card_bench *b, const struct experiment_context *context,
                    const struct card_bench_setup *setup, struct spin_error *err);
/* Tells of what units do for packets; `user` is the bench. Before it runs. */
void card_bench_spans(struct card_bench *b, void (*span)(void *user, const struct card_span *span));
/* Runs until the card is idle. An error when a handler was ended or a packet is stuck or lost. */
int card_bench_run(struct card_bench *b, const struct card_bench_traffic *traffic,
                   struct card_stats *stats, struct spin_error *err);
void card_bench_close(struct card_bench *b);

#endif
