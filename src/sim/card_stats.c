/* What a run of the card was like. */
#include <stdio.h>

#include "base/error.h"
#include "hpu/interp.h"
#include "sim/card_private.h"

const char *card_part_name(unsigned part) {
    static const char *const names[] = {
#define ROW(name, text, what) text,
        SPIN_CARD_PARTS(ROW)
#undef ROW
    };
    return part < CARD_PART_COUNT ? names[part] : "?";
}

const char *spin_card_fate_outcome(unsigned fate) {
    static const char *const names[] = {
#define ROW(name, outcome, why) outcome,
        SPIN_CARD_FATES(ROW)
#undef ROW
    };
    return fate < SPIN_CARD_FATE_COUNT ? names[fate] : "?";
}

const char *spin_card_fate_reason(unsigned fate) {
    static const char *const names[] = {
#define ROW(name, outcome, why) why,
        SPIN_CARD_FATES(ROW)
#undef ROW
    };
    return fate < SPIN_CARD_FATE_COUNT ? names[fate] : "?";
}

const char *card_unit_name(unsigned unit) {
    static const char *const names[] = {
#define ROW(name, text) text,
        SPIN_CARD_UNITS(ROW)
#undef ROW
    };
    return unit < CARD_UNIT_COUNT ? names[unit] : "?";
}

static uint64_t rate_mbit(uint64_t bytes, uint64_t ps) {
    return ps ? (uint64_t)((unsigned __int128)bytes * 8 * 1000000 / ps) : 0;
}

static void finish(struct card_stats *s) {
    s->in_flight = s->taken - s->completed - s->dropped;
    s->throughput_mbit =
        rate_mbit(s->throughput_mbit, s->last_completion_ps - s->first_completion_ps);
    s->elapsed_ps = s->last_completion_ps > s->first_arrival_ps
                        ? s->last_completion_ps - s->first_arrival_ps
                        : 0;
}

/* The distributions of contexts `from` to `to`, together. */
static void report_spreads(const struct card *c, uint32_t from, uint32_t to,
                           struct card_stats *out) {
    const struct card_execution *x = c->context + from;
    for (unsigned k = 0; from < to && k < CARD_PART_COUNT; k++)
        spread_report(&(struct spread_set){&x->part[k], sizeof *x, to - from}, &out->part[k]);
    for (unsigned k = 0; from < to && k <= SPIN_CLEANUP_HANDLER; k++)
        spread_report(&(struct spread_set){&x->handler_cycles[k], sizeof *x, to - from},
                      &out->handler[k].spread);
}

void card_stats(const struct card *c, struct card_stats *out) {
    *out = c->stats;
    finish(out);
    out->most_l2_bytes = (uint64_t)c->l2.most * UNIT_BYTES;
    report_spreads(c, 0, c->contexts, out);
    for (uint32_t i = 0; i < c->clusters; i++)
        out->cluster_dma_busy_ps += c->cluster[i].dma_busy_ps;
    for (uint32_t i = 0; i < c->hpus; i++)
        out->hpu_busy_ps += c->hpu[i].busy_ps;
    for (uint32_t k = 0; k < c->clusters && c->programs; k++) /* of all: they share the lines */
        out->icache_misses += hpu_icache_misses(c->program[0].icache[k]);
}

void card_context_stats(const struct card *c, uint32_t context, struct card_stats *out) {
    *out = (struct card_stats){0};
    if (context >= c->contexts)
        return;
    *out = c->context[context].stats;
    finish(out);
    report_spreads(c, context, context + 1, out);
}

void card_stats_free(struct card_execution *x) {
    for (unsigned i = 0; i < CARD_PART_COUNT; i++)
        spread_free(&x->part[i]);
    for (unsigned i = 0; i <= SPIN_CLEANUP_HANDLER; i++)
        spread_free(&x->handler_cycles[i]);
}

uint64_t card_hpu_busy_ps(const struct card *c, uint32_t hpu) {
    return hpu < c->hpus ? c->hpu[hpu].busy_ps : 0;
}

uint64_t card_cycles(const struct card *c) {
    return sim_engine_counts(c->engine).now_ps / c->cycle;
}

/* Values that found no memory make percentiles wrong: an error rather than a wrong figure. */
static bool is_whole(const struct card *c) {
    for (uint32_t i = 0; i < c->contexts; i++) {
        for (unsigned k = 0; k < CARD_PART_COUNT; k++)
            if (c->context[i].part[k].lost)
                return false;
        for (unsigned k = 0; k <= SPIN_CLEANUP_HANDLER; k++)
            if (c->context[i].handler_cycles[k].lost)
                return false;
    }
    return true;
}

int card_idle(const struct card *c, struct spin_error *err) {
    struct card_stats s = c->stats;
    finish(&s);
    if (c->feed_blocked)
        return spin_fail(
            err, SPIN_EDEADLOCK,
            "the card is full and nothing runs: %llu packets in flight in %llu "
            "messages that do not end; set a message queue timeout",
            (unsigned long long)s.in_flight,
            (unsigned long long)(s.messages_begun - s.messages_completed - s.messages_failed));
    if (s.in_flight)
        return spin_fail(err, SPIN_EDEADLOCK, "%llu packets are in flight",
                         (unsigned long long)s.in_flight);
    if (!is_whole(c))
        return spin_fail(err, SPIN_ENOMEM, "out of memory for the latencies of packets");
    return SPIN_OK;
}
