/* The handler of `openspin budget` on the card: what each packet takes of every unit of it, and
 * whether the card keeps up. All constants are the card's own. */
#include "budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define UNLOADED_PACKETS 64 /* the first quarter is not counted: the instruction cache is cold */

double budget_interval_ns(const struct budget_load *l) {
    double wire = 8e9 * (double)l->bytes / (double)l->rate_bits, gap = (double)l->gap_ps / 1000;
    return wire > gap ? wire : gap;
}

/* ---- packets, as the rig is given them ---- */

struct source {
    const struct invocation *inv;
    uint8_t *bytes;
    bool fixed;
    struct rng rng;
    uint64_t count, drawn;
    double interval_ps;
    bool one_message;
    struct progress *progress;
};

static bool next_packet(void *user, struct spin_card_packet *p) {
    struct source *s = user;
    const struct spin_call *call = &s->inv->call;
    if (s->drawn == s->count)
        return false;
    for (uint32_t i = 0; !s->fixed && i < call->packet_bytes; i++)
        s->bytes[i] = (uint8_t)rng_u64(&s->rng);
    *p = (struct spin_card_packet){.arrival_ps = (uint64_t)((double)s->drawn * s->interval_ps),
                                   .bytes = s->bytes,
                                   .length = call->packet_bytes,
                                   .message = s->one_message ? 0 : (uint32_t)s->drawn,
                                   .end_of_message = !s->one_message || s->drawn + 1 == s->count,
                                   .message_bytes = call->message_bytes,
                                   .offset = call->packet_offset,
                                   .source = call->source};
    s->drawn++;
    return true;
}

/* ---- one run ---- */

int budget_make_card(const struct cli_command *command, const struct budget_card *of,
                     struct spin_card **card) {
    struct spin_error err;
    if (spin_card_new(card, "pspin", &err))
        return cli_report(command, &err);
    int status = card_apply_params(command, &of->params, *card), code = SPIN_OK;
    if (status)
        return status;
    if (of->hpus)
        code = card_set_hpus(*card, of->hpus, &err);
    if (!code && of->cycle_ps)
        code = card_set_cycle(*card, of->cycle_ps, &err);
    if (!code && of->rate_bits)
        code = card_set_rate(*card, of->rate_bits, &err);
    for (int i = 0; i < of->set->count && !code; i++)
        code = spin_card_set(*card, of->set->items[i], &err);
    return code ? cli_report(command, &err) : 0;
}

static void on_progress(void *user, enum spin_card_stage stage, uint64_t done, uint64_t of) {
    const struct source *s = user;
    (void)of; /* a card does not know how many packets a source has */
    card_show_progress(s->progress, stage, done, s->count);
}

/* The rig's memories as they were filled; the state in every place where the card has it. */
static void copy_memory(struct spin_card *card, const struct invocation *inv) {
    static const enum spin_space from[] = {SPIN_STATE, SPIN_ME_HOST, SPIN_HANDLER_HOST,
                                           SPIN_SCRATCHPAD};
    bool is_pspin = inv->call.kind == SPIN_PSPIN_HANDLER;
    for (int to = 0; to < SPIN_SPACES; to++)
        for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
            bool scratch = to >= SPIN_SCRATCHPAD;
            bool state_here = from[i] == SPIN_STATE && (to == SPIN_STATE || (scratch && !is_pspin));
            if (!state_here && from[i] != (scratch ? SPIN_SCRATCHPAD : (enum spin_space)to))
                continue;
            uint64_t room;
            uint32_t bytes, address;
            uint8_t *there = spin_card_memory(card, 0, (enum spin_space)to, &room);
            const uint8_t *here = spin_rig_memory(inv->rig, from[i], &bytes, &address);
            if (there && here && bytes)
                memcpy(there, here, bytes < room ? bytes : (size_t)room);
        }
}

static int add_context(struct spin_card *card, const struct invoke_options *o,
                       const struct invocation *inv, struct spin_error *err) {
    bool is_pspin = inv->call.kind == SPIN_PSPIN_HANDLER;
    uint32_t state, host, address, number;
    spin_rig_memory(inv->rig, SPIN_STATE, &state, &address);
    spin_rig_memory(inv->rig, SPIN_ME_HOST, &host, &address);
    bool in_l2 = o->state_in ? strcmp(o->state_in, "l2") == 0 : is_pspin;
    struct spin_card_context x = {.image = inv->image,
                                  .memory_bytes = in_l2 ? state : 0,
                                  .scratch_bytes = is_pspin ? (uint32_t)o->scratchpad_bytes
                                                   : in_l2  ? 0
                                                            : state,
                                  .host_bytes = host,
                                  .watchdog_cycles = o->watchdog};
    x.handler[is_pspin                                 ? SPIN_PAYLOAD_HANDLER
              : inv->call.kind == SPIN_CLEANUP_HANDLER ? SPIN_COMPLETION_HANDLER
                                                       : inv->call.kind] = inv->function;
    return spin_card_add_context(card, &x, &number, err);
}

static int run_card(const struct cli_command *command, const struct budget_load *l,
                    const struct invoke_options *o, const struct invocation *inv,
                    double interval_ps, uint64_t packets, struct spin_card_result *result) {
    struct spin_error err;
    struct spin_card *card = NULL;
    enum spin_jit jit = SPIN_JIT_ON;
    enum spin_handler_kind kind = inv->call.kind;
    struct source source = {.inv = inv,
                            .bytes = inv->packet,
                            .fixed = o->packet || o->hex,
                            .rng = rng_seeded(o->seed ? o->seed : 1),
                            .count = packets,
                            .interval_ps = interval_ps,
                            .progress = l->progress,
                            .one_message =
                                kind == SPIN_PAYLOAD_HANDLER || kind == SPIN_PSPIN_HANDLER};
    int status = cli_jit(command, o->jit, &jit);
    if (!status)
        status = budget_make_card(command, &l->card, &card);
    if (status) {
        spin_card_free(card);
        return status;
    }
    spin_card_jit(card, jit);
    int code = add_context(card, o, inv, &err);
    if (!code) {
        copy_memory(card, inv);
        code = spin_card_run(card,
                             &(struct spin_card_options){
                                 .next = next_packet, .user = &source, .progress = on_progress},
                             &err);
    }
    if (!code)
        spin_card_result(card, result);
    spin_card_free(card);
    if (code)
        return cli_report(command, &err);
    if (result->faults)
        return cli_error(
            command, CLI_FAILED,
            "%s failed on the card (%s); see 'openspin card run' with the same packets",
            inv->function->name, spin_ending_name(result->fault[0].ending));
    return 0;
}

/* ---- what the runs say ---- */

static int narrower(const void *a, const void *b) {
    const struct budget_unit *p = a, *q = b;
    return p->used > q->used ? -1 : p->used < q->used;
}

/* From two unloaded runs, so that what only the first packets need drops out. */
static void find_demand(const struct spin_card_result *few, const struct spin_card_result *many,
                        double interval_ns, struct budget_trial *t) {
    double packets = 1000.0 * (double)(many->completed - few->completed);
    t->hpu_ns = (double)(many->hpu_busy_ps - few->hpu_busy_ps) / packets;
    t->unit[0] = (struct budget_unit){"HPUs", t->hpu_ns / (double)many->hpus, 0};
    t->unit[1] =
        (struct budget_unit){"cluster DMA",
                             (double)(many->cluster_dma_busy_ps - few->cluster_dma_busy_ps) /
                                 packets / (double)many->clusters,
                             0};
    for (unsigned u = 0; u < SPIN_CARD_UNIT_COUNT; u++)
        t->unit[2 + u] = (struct budget_unit){
            spin_card_unit_name(u),
            (double)(many->unit_busy_ps[u] - few->unit_busy_ps[u]) / packets, 0};
    for (unsigned u = 0; u < BUDGET_UNITS; u++)
        t->unit[u].used = t->unit[u].ns / interval_ns;
    qsort(t->unit, BUDGET_UNITS, sizeof t->unit[0], narrower);
}

static double mean_ns(const struct spin_spread *s) {
    return s->count ? (double)s->sum / (double)s->count / 1000 : 0;
}

static void find_waits(const struct spin_card_result *free, const struct spin_card_result *loaded,
                       struct budget_trial *t) {
    for (unsigned i = 0; i < SPIN_CARD_PART_LATENCY; i++) {
        double more = mean_ns(&loaded->part[i]) - mean_ns(&free->part[i]);
        if (more > t->waits_ns) {
            t->waits_ns = more;
            t->waits = spin_card_part_name(i);
        }
    }
}

int budget_try(const struct cli_command *command, const struct budget_load *l,
               const struct invoke_options *o, const struct invocation *inv,
               struct budget_trial *t) {
    struct spin_card_result few, many, loaded;
    *t = (struct budget_trial){.packets = l->packets, .waits = ""};
    double interval_ns = budget_interval_ns(l), slow_ps = 1e9; /* one packet every ms */
    int status = run_card(command, l, o, inv, slow_ps, UNLOADED_PACKETS / 4, &few);
    if (!status)
        status = run_card(command, l, o, inv, slow_ps, UNLOADED_PACKETS, &many);
    if (!status)
        status = run_card(command, l, o, inv, 1000 * interval_ns, l->packets, &loaded);
    if (status)
        return status;
    find_demand(&few, &many, interval_ns, t);
    find_waits(&many, &loaded, t);
    t->gbit = (double)loaded.throughput_mbit / 1000;
    t->latency_ns = (double)loaded.part[SPIN_CARD_PART_TOTAL].p99 / 1000;
    t->held_ps = loaded.held_ps[0] + loaded.held_ps[1];
    return 0;
}
