/* The public calls on a card: set it up, read its memories, report. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hpu/image.h"
#include "sim/card_run.h"

int spin_card_new(struct spin_card **out, const char *preset, struct spin_error *err) {
    *out = NULL;
    struct spin_card *s = calloc(1, sizeof *s);
    if (!s)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    int code = card_config_preset(&s->config, preset, err);
    if (!code && !(s->engine = sim_engine_new(err)))
        code = SPIN_ENOMEM;
    if (code)
        spin_card_free(s);
    else
        *out = s;
    return code;
}

void spin_card_free(struct spin_card *s) {
    if (!s)
        return;
    card_free(s->card);
    if (s->engine)
        sim_engine_free(s->engine);
    nic_match_free(s->match);
    for (uint32_t i = 0; i < s->contexts; i++) {
        free(s->context[i].host);
        free(s->context[i].handler_host);
    }
    free(s->context);
    free(s);
}

int spin_card_set(struct spin_card *s, const char *assignment, struct spin_error *err) {
    if (s->card)
        return spin_fail(err, SPIN_EARG, "'%.60s': set parameters before the first context",
                         assignment);
    return card_config_set(&s->config, assignment, err);
}

void spin_card_jit(struct spin_card *s, enum spin_jit mode) {
    s->config.jit = mode;
}

void spin_card_check(struct spin_card *s, bool check) {
    s->config.check = check;
}

bool spin_card_parameter(const struct spin_card *s, int i, struct spin_parameter *row) {
    return card_config_row(&s->config, i, row);
}

void spin_card_limits(const struct spin_card *s, struct spin_limits *limits) {
    spin_limits_default(limits);
    limits->program_bytes = (uint32_t)s->config.program_bytes;
    limits->handler_bytes = (uint32_t)s->config.handler_bytes;
    limits->hpus = (uint32_t)(s->config.clusters * s->config.cluster_hpus);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

/* The card itself, which cannot be changed from then on. */
static int make_card(struct spin_card *s, struct spin_error *err) {
    if (s->card)
        return SPIN_OK;
    if (!s->context)
        s->context = calloc(s->config.contexts, sizeof *s->context);
    if (!s->context)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    return card_new(&s->card, s->engine, &s->config, NULL, err);
}

static int make_host(struct card_context *x, uint64_t bytes, struct spin_error *err) {
    bool p4 = x->abi == CARD_P4SPIN;
    x->host_bytes = bytes;
    x->host = calloc(1, bytes ? bytes : 1);
    x->handler_host_bytes = p4 ? bytes : 0;
    x->handler_host = p4 ? calloc(1, bytes ? bytes : 1) : NULL;
    if (!x->host || (p4 && !x->handler_host))
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %llu bytes of host memory",
                         (unsigned long long)bytes);
    return SPIN_OK;
}

int spin_card_add_context(struct spin_card *s, const struct spin_card_context *context,
                          uint32_t *number, struct spin_error *err) {
    if (!context->image)
        return spin_fail(err, SPIN_EARG, "an execution context needs an image");
    struct card_context x = {.abi = context->image->info.is_pspin ? CARD_PSPIN : CARD_P4SPIN,
                             .image = context->image,
                             .memory_bytes = context->memory_bytes,
                             .scratch_bytes = context->scratch_bytes,
                             .partial_copy = context->partial_copy,
                             .l1_bytes = context->copy_bytes,
                             .host_address = context->host_address,
                             .watchdog_cycles = context->watchdog_cycles,
                             .queue_timeout_ps = context->timeout_ps};
    for (int i = 0; i < 3; i++)
        x.entry[i] = context->handler[i] ? context->handler[i]->address : 0;
    int code = make_card(s, err);
    if (!code)
        code = make_host(&x, context->host_bytes, err);
    if (!code)
        code = card_add_context(s->card, &x, number, err);
    if (code) {
        free(x.host);
        free(x.handler_host);
        return code;
    }
    s->context[s->contexts++] = x;
    return SPIN_OK;
}

uint8_t *spin_card_memory(struct spin_card *s, uint32_t context, enum spin_space space,
                          uint64_t *bytes) {
    *bytes = 0;
    if (context >= s->contexts)
        return NULL;
    const struct card_context *x = &s->context[context];
    uint32_t length = 0, address = 0;
    if (space == SPIN_ME_HOST || space == SPIN_HANDLER_HOST) {
        *bytes = space == SPIN_ME_HOST ? x->host_bytes : x->handler_host_bytes;
        return space == SPIN_ME_HOST ? x->host : x->handler_host;
    }
    if (space == SPIN_STATE) {
        address = card_address(s->card, context, UINT32_MAX, &length);
    } else if (space == SPIN_DATA) {
        address = x->image->data.address;
        length = x->image->data.bytes;
    } else if (space >= SPIN_SCRATCHPAD && space < SPIN_SPACES) {
        address = card_address(s->card, context, (uint32_t)(space - SPIN_SCRATCHPAD), &length);
    }
    *bytes = length;
    return length ? card_reach(s->card, context, address, length) : NULL;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static int once(const struct spin_card *s, struct spin_error *err) {
    return s->match ? spin_fail(err, SPIN_EARG, "the card has rules already") : SPIN_OK;
}

int spin_card_match(struct spin_card *s, const char *name, const char *text,
                    struct spin_error *err) {
    int code = once(s, err);
    return code ? code : nic_match_parse(&s->match, name, text, strlen(text), s->contexts, err);
}

int spin_card_match_file(struct spin_card *s, const char *path, struct spin_error *err) {
    int code = once(s, err);
    return code ? code : nic_match_read(&s->match, path, s->contexts, err);
}

const char *spin_card_rule(const struct spin_card *s, uint32_t i, uint64_t *packets) {
    if (!s->match || i >= nic_match_rules(s->match))
        return NULL;
    *packets = s->by_rule[i];
    return nic_match_rule_text(s->match, i);
}

const char *spin_card_field(uint32_t i, const char **what) {
    const char *name;
    return nic_match_field(i, &name, what) ? name : NULL;
}

const char *spin_card_malformed(const struct spin_card *s, uint32_t i, uint64_t *packets) {
    if (i + 1 >= HEADERS_FAULT_COUNT)
        return NULL;
    *packets = s->malformed[i + 1];
    return headers_fault_text((enum headers_fault)(i + 1));
}

/* ---- Results --------------------------------------------------------------------------------- */

const char *spin_card_part_name(unsigned part) {
    return card_part_name(part);
}

const char *spin_card_unit_name(unsigned unit) {
    return card_unit_name(unit);
}

static void add_hpus(const struct spin_card *s, struct spin_card_result *r) {
    r->hpu_least_ps = UINT64_MAX;
    for (uint32_t i = 0; i < r->hpus; i++) {
        uint64_t busy = card_hpu_busy_ps(s->card, i);
        r->hpu_least_ps = busy < r->hpu_least_ps ? busy : r->hpu_least_ps;
        r->hpu_most_ps = busy > r->hpu_most_ps ? busy : r->hpu_most_ps;
    }
}

static void add_stats(const struct card_stats *s, struct spin_card_result *r) {
    r->taken = s->taken;
    r->completed = s->completed;
    r->bytes_completed = s->bytes_completed;
    r->dropped = s->dropped;
    r->refused = s->refused;
    r->marked = s->marked;
    r->stalled_offers = s->full;
    memcpy(r->held_ps, s->held_ps, sizeof r->held_ps);
    memcpy(r->held, s->held, sizeof r->held);
    for (int i = 0; i < SPIN_CARD_FATE_COUNT; i++) /* the rules' are counted already */
        r->fate[i] += s->fate[i];
    r->messages_begun = s->messages_begun;
    r->messages_completed = s->messages_completed;
    r->messages_failed = s->messages_failed;
    r->faults = s->faults;
    r->watchdog_faults = s->watchdog_faults;
    r->queue_timeouts = s->queue_timeouts;
    r->kills = s->kills;
    r->packets_out = s->packets_out;
    r->bytes_out = s->bytes_out;
    r->host_writes = s->host_writes;
    r->host_write_bytes = s->host_write_bytes;
    r->host_reads = s->host_reads;
    r->host_read_bytes = s->host_read_bytes;
    r->elapsed_ps = s->elapsed_ps;
    r->throughput_mbit = s->throughput_mbit;
    r->cluster_dma_busy_ps = s->cluster_dma_busy_ps;
    r->hpu_busy_ps = s->hpu_busy_ps;
    r->hpus_used = s->hpus_used;
    r->most_hpus_busy = s->most_hpus_busy;
    r->most_l2_bytes = s->most_l2_bytes;
    r->l1_accesses = s->l1_accesses;
    r->l2_conflict_cycles = s->l2_conflict_cycles;
    r->conflict_cycles = s->conflict_cycles;
    r->remote_accesses = s->remote_accesses;
    r->remote_wait_cycles = s->remote_wait_cycles;
    r->icache_misses = s->icache_misses;
    r->digest = s->digest;
    memcpy(r->part, s->part, sizeof r->part);
    memcpy(r->unit_busy_ps, s->unit_busy_ps, sizeof r->unit_busy_ps);
    for (int k = 0; k < 3; k++)
        r->handler[k] = card_handler_told(&s->handler[k]);
}

void spin_card_result(const struct spin_card *s, struct spin_card_result *r) {
    *r = s->so_far;
    r->clusters = s->config.clusters;
    r->hpus = s->config.clusters * s->config.cluster_hpus;
    r->l2_packet_bytes = s->config.l2_packet_bytes;
    if (!s->card)
        return;
    struct card_stats stats;
    card_stats(s->card, &stats);
    add_stats(&stats, r);
    add_hpus(s, r);
    r->cycles = card_cycles(s->card);
    r->events = sim_engine_counts(s->engine).handled;
}

void spin_card_context_result(const struct spin_card *s, uint32_t context,
                              struct spin_card_result *r) {
    *r = (struct spin_card_result){0};
    if (context >= s->contexts)
        return;
    struct card_stats stats;
    card_context_stats(s->card, context, &stats);
    add_stats(&stats, r);
    r->packets = stats.taken + stats.refused;
    r->bytes = stats.bytes_taken + stats.bytes_refused;
}
