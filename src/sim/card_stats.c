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

const char *card_unit_name(unsigned unit) {
    static const char *const names[] = {
#define ROW(name, text) text,
        SPIN_CARD_UNITS(ROW)
#undef ROW
    };
    return unit < CARD_UNIT_COUNT ? names[unit] : "?";
}

/* One bucket a value up to 127, then 64 an octave. */
void spread_add(struct spread *s, uint64_t v) {
    if (!s->count || v < s->least)
        s->least = v;
    if (v > s->most)
        s->most = v;
    s->count++;
    s->sum += v;
    uint64_t i = v;
    if (v >= 128) {
        unsigned octave = 63 - (unsigned)__builtin_clzll(v);
        i = 128 + (octave - 7) * 64 + (v >> (octave - 6) & 63);
    }
    s->bucket[i < SPREAD_BUCKETS ? i : SPREAD_BUCKETS - 1]++;
}

static uint64_t bucket_value(uint64_t i) {
    if (i < 128)
        return i;
    uint64_t octave = (i - 128) / 64 + 7, step = 1ull << (octave - 6);
    return (64 + (i - 128) % 64) * step + step / 2;
}

static uint64_t percentile(const struct spread *s, unsigned percent) {
    uint64_t rank = (s->count * percent + 99) / 100, seen = 0;
    for (uint64_t i = 0; i < SPREAD_BUCKETS; i++)
        if ((seen += s->bucket[i]) >= rank && seen) {
            uint64_t v = bucket_value(i);
            return v < s->least ? s->least : v > s->most ? s->most : v;
        }
    return 0;
}

void spread_report(const struct spread *s, uint64_t scale, struct spin_spread *out) {
    *out = (struct spin_spread){.count = s->count,
                                .sum = s->sum * scale,
                                .least = s->least * scale,
                                .most = s->most * scale,
                                .p50 = percentile(s, 50) * scale,
                                .p99 = percentile(s, 99) * scale};
}

static uint64_t rate_mbit(uint64_t bytes, uint64_t ps) {
    return ps ? (uint64_t)((unsigned __int128)bytes * 8 * 1000000 / ps) : 0;
}

void card_stats(const struct card *c, struct card_stats *out) {
    *out = c->stats;
    out->in_flight = out->taken - out->completed - out->dropped;
    out->throughput_mbit =
        rate_mbit(c->stats.throughput_mbit, out->last_completion_ps - out->first_completion_ps);
    out->elapsed_ps = out->last_completion_ps > out->first_arrival_ps
                          ? out->last_completion_ps - out->first_arrival_ps
                          : 0;
    out->most_l2_bytes = (uint64_t)c->l2.most * UNIT_BYTES;
    for (unsigned i = 0; i < CARD_PART_COUNT; i++)
        spread_report(&c->part[i], c->cycle, &out->part[i]);
    for (unsigned i = 0; i < 3; i++)
        spread_report(&c->handler_cycles[i], 1, &out->handler[i].spread);
    for (uint32_t i = 0; i < c->clusters; i++)
        out->cluster_dma_busy_ps += c->cluster[i].dma_busy_ps;
    for (uint32_t i = 0; i < c->hpus; i++)
        out->hpu_busy_ps += c->hpu[i].busy_ps;
    for (uint32_t k = 0; k < c->clusters && c->programs; k++) /* of all: they share the lines */
        out->icache_misses += hpu_icache_misses(c->program[0].icache[k]);
}

uint64_t card_hpu_busy_ps(const struct card *c, uint32_t hpu) {
    return hpu < c->hpus ? c->hpu[hpu].busy_ps : 0;
}

uint64_t card_cycles(const struct card *c) {
    return sim_engine_counts(c->engine).now_ps / c->cycle;
}

int card_idle(const struct card *c, struct spin_error *err) {
    struct card_stats s;
    card_stats(c, &s);
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
    return SPIN_OK;
}
