/* A card with one context, its traffic, and what came out of it. */
#ifndef TESTS_CARDWORLD_H
#define TESTS_CARDWORLD_H

#include "base/rng.h"
#include "hpu/map.h"
#include "sim/card.h"
#include "sim/engine.h"
#include "test.h"

#define TOOL __attribute__((unused)) static

#define MAX_PACKETS 4096
#define MESSAGES    64
#define HOST_BYTES  65536u
#define HOST_AT     0x1000000000000000ull

struct head {
    uint32_t sequence, packets, what, address;
};
struct record {
    int32_t headers, payloads, completions, wrong, sum, next, out_of_order, pad;
};

/* A card with one context, its traffic, and what came out. */
struct world {
    struct sim_engine *engine;
    struct card *card;
    struct card_config config;
    struct spin_image *image;
    struct card_context context;
    uint32_t number;
    uint8_t host[HOST_BYTES];
    struct card_packet packet[MAX_PACKETS];
    uint8_t *bytes;
    uint32_t packets, drawn, room, used;
    uint64_t steps, step_cycles;
    bool steps_wanted;
    uint32_t feedbacks, dropped, marked, faults, outs, out_bytes;
    uint64_t last_feedback_ps, fed[MAX_PACKETS];
    bool lost[MAX_PACKETS];
    struct card_fault fault[64];
    struct card_stats stats;
    struct rng rng;
};

static struct spin_error err;
#define GOOD(call)                                                                                 \
    do {                                                                                           \
        if ((call) != SPIN_OK)                                                                     \
            TEST_FAIL("%s", err.text);                                                             \
    } while (0)

TOOL bool next_packet(void *user, struct card_packet *packet) {
    struct world *w = user;
    if (w->drawn == w->packets)
        return false;
    *packet = w->packet[w->drawn++];
    return true;
}

TOOL void on_feedback(void *user, const struct card_feedback *f) {
    struct world *w = user;
    w->feedbacks++;
    w->dropped += f->dropped;
    w->marked += f->marked;
    CHECK(f->user < w->packets && !w->fed[f->user]); /* each packet once */
    CHECK(f->completion_ps >= w->last_feedback_ps);
    CHECK(f->nic_arrival_ps <= f->pspin_arrival_ps && f->pspin_arrival_ps <= f->completion_ps);
    w->fed[f->user] = w->last_feedback_ps = f->completion_ps;
    w->lost[f->user] = f->dropped;
}

TOOL void on_fault(void *user, const struct card_fault *f, uint64_t at_ps) {
    struct world *w = user;
    (void)at_ps;
    if (w->faults < 64)
        w->fault[w->faults] = *f;
    w->faults++;
}

TOOL void on_out(void *user, const struct card_out *out, uint64_t at_ps) {
    struct world *w = user;
    (void)at_ps;
    w->outs++;
    w->out_bytes += out->length;
}

TOOL void on_step(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint32_t cycles) {
    struct world *w = user;
    (void)context, (void)hpu;
    CHECK(pc >= MAP_PROGRAM && pc < MAP_PROGRAM + MAP_PROGRAM_SIZE);
    w->steps++;
    w->step_cycles += cycles;
}

TOOL struct world *world_new(void) {
    struct world *w = calloc(1, sizeof *w);
    CHECK(w);
    w->engine = sim_engine_new(&err);
    CHECK(w->engine);
    GOOD(card_config_preset(&w->config, "pspin", &err));
    GOOD(spin_image_load(&w->image, getenv("CARD_IMAGE"), NULL, &err));
    w->context = (struct card_context){.image = w->image,
                                       .memory_bytes = 65536,
                                       .scratch_bytes = 8192,
                                       .host = w->host,
                                       .host_address = HOST_AT,
                                       .host_bytes = HOST_BYTES};
    w->room = 16u << 20;
    w->bytes = calloc(1, w->room);
    w->rng = rng_seeded(1);
    return w;
}

TOOL void handlers(struct world *w, const char *hh, const char *ph, const char *th) {
    const char *name[] = {hh, ph, th};
    for (int i = 0; i < 3; i++) {
        const struct spin_function *f;
        w->context.entry[i] = 0;
        if (!name[i])
            continue;
        GOOD(spin_image_find(w->image, name[i], &f, &err));
        w->context.entry[i] = f->address;
    }
}

TOOL void set(struct world *w, const char *assignment) {
    GOOD(card_config_set(&w->config, assignment, &err));
}

TOOL void build(struct world *w) {
    struct card_callbacks callbacks = {.user = w,
                                       .packet_out = on_out,
                                       .feedback = on_feedback,
                                       .fault = on_fault,
                                       .step = w->steps_wanted ? on_step : NULL};
    GOOD(card_new(&w->card, w->engine, &w->config, &callbacks, &err));
    GOOD(card_add_context(w->card, &w->context, &w->number, &err));
}

/* A packet of zeroes but for its head. */
TOOL struct card_packet *add(struct world *w, uint32_t message, uint32_t length, bool eom,
                             uint64_t at_ps) {
    CHECK(w->packets < MAX_PACKETS);
    CHECK(w->used + length <= w->room);
    struct card_packet *p = &w->packet[w->packets];
    *p = (struct card_packet){.message = message,
                              .bytes = w->bytes + w->used,
                              .length = length,
                              .eom = eom,
                              .arrival_ps = at_ps,
                              .user = w->packets};
    w->used += (length + 63) & ~63u;
    w->packets++;
    return p;
}

TOOL void put_head(const struct card_packet *p, struct head head) {
    memcpy((uint8_t *)(uintptr_t)p->bytes, &head, sizeof head);
}

TOOL void conserve(const struct world *w) {
    const struct card_stats *s = &w->stats;
    CHECK_EQ(s->taken, s->completed + s->dropped + s->in_flight);
    CHECK_EQ(w->feedbacks, s->completed + s->dropped);
    CHECK_EQ(w->dropped, s->dropped);
    CHECK_EQ(s->taken + s->refused, w->packets);
}

TOOL void run(struct world *w) {
    card_feed(w->card, next_packet, w);
    GOOD(sim_run(w->engine, SIM_FOREVER, UINT64_MAX, &err));
    card_stats(w->card, &w->stats);
    CHECK_EQ(w->drawn, w->packets);
    GOOD(card_idle(w->card, &err));
    CHECK_EQ(w->stats.in_flight, 0);
    conserve(w);
}

TOOL void world_free(struct world *w) {
    card_free(w->card);
    sim_engine_free(w->engine);
    spin_image_free(w->image);
    free(w->bytes);
    free(w);
}

TOOL struct record *record(struct world *w, uint32_t message) {
    uint32_t bytes, address = card_address(w->card, w->number, UINT32_MAX, &bytes);
    uint8_t *memory = card_reach(w->card, w->number, address, bytes);
    CHECK(memory);
    return (struct record *)(void *)memory + message;
}

/* Messages of random lengths in random interleaving, packets of random sizes; returns the sum of
 * all words of each message. */
TOOL void random_traffic(struct world *w, uint32_t packets, uint64_t gap_ps, uint32_t *sum,
                         uint32_t *count) {
    uint32_t left[MESSAGES], alive = MESSAGES, sequence[MESSAGES] = {0};
    uint64_t at = 0;
    for (uint32_t m = 0; m < MESSAGES; m++) {
        count[m] = left[m] = 1 + rng_below(&w->rng, 2 * packets / MESSAGES - 1);
        sum[m] = 0;
    }
    while (alive) {
        uint32_t m = rng_below(&w->rng, MESSAGES);
        if (!left[m])
            continue;
        alive -= --left[m] == 0;
        uint32_t words = 4 + rng_below(&w->rng, 250);
        struct card_packet *p = add(w, m, 4 * words, !left[m], at);
        uint32_t *word = (uint32_t *)(uintptr_t)p->bytes;
        for (uint32_t i = 0; i < words; i++)
            word[i] = rng_u32(&w->rng);
        put_head(p, (struct head){sequence[m]++, count[m], 0, 0});
        for (uint32_t i = 0; i < words; i++)
            sum[m] += word[i];
        at += rng_below(&w->rng, (uint32_t)(2 * gap_ps));
    }
}

#endif
