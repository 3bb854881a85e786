/* The HPUs: what a handler is given, and its execution in slices.
 *
 * Design notes. An HPU runs ahead of the engine for up to a quantum, until it does something that
 * the card must see in order: then the driver has the access repeated when the engine has come to
 * that time (card_driver.c). What others see of its stores is early by less than a quantum, which
 * only handlers that race can tell.
 *
 * Contention is charged when the engine has come to the end of a slice, from the accesses that it
 * made: by then all that passed meanwhile is known. L1: statistical. An access meets one of another
 * HPU of the cluster in its bank with the probability of that HPU's accesses per cycle over the
 * banks, and loses every second time; an atomic holds its bank for two cycles and counts as two. To
 * lines of the DMA engines it always loses (card_memory.c). Expected cycles add up in fixed point,
 * so they are exact in the long run and the same on every machine. Remote memory: each port lets a
 * read and a write pass in a cycle; a slice reserves as many cycles as it made accesses, and an HPU
 * that is ahead of its reservations waits. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sim/card_private.h"
#include "spin/driver.h"

/* The core, with this card's distances and instruction cache. */
static void set_timing(struct card *c) {
    static const enum hpu_region far[] = {HPU_REGION_REMOTE_L1, HPU_REGION_L2_HANDLER,
                                          HPU_REGION_L2_PACKETS, HPU_REGION_PROGRAM};
    const struct card_config *g = &c->config;
    c->timing = g->core ? *g->core : hpu_timing_ri5cy;
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
        c->timing.load_extra[far[i]] = c->timing.amo_extra[far[i]] = (uint8_t)g->remote_cycles;
    c->timing.icache_bytes = (uint32_t)g->icache_bytes;
    c->timing.icache_ways = (uint32_t)g->icache_ways;
    c->timing.icache_line = (uint32_t)g->icache_line;
    c->timing.icache_miss = (uint32_t)g->icache_miss;
}

int card_hpus_new(struct card *c, struct spin_error *err) {
    set_timing(c);
    c->hpu = aligned_alloc(_Alignof(struct card_hpu), c->hpus * sizeof *c->hpu);
    if (!c->hpu)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    memset(c->hpu, 0, c->hpus * sizeof *c->hpu);
    for (uint32_t i = 0; i < c->hpus; i++) {
        struct card_hpu *h = &c->hpu[i];
        h->card = c;
        h->index = i;
        h->cluster = i / (uint32_t)c->config.cluster_hpus;
        h->context = NONE;
        h->ended = LIST_EMPTY;
    }
    for (uint32_t i = 0; i < c->clusters; i++) {
        struct card_cluster *cl = &c->cluster[i];
        cl->copying = cl->ready = cl->commands = cl->port[0] = cl->port[1] = LIST_EMPTY;
        cl->l1 = guard_memory_new(MAP_L1_SIZE);
        cl->banks = card_banks_new(c);
        if (!cl->l1 || !cl->banks ||
            !card_space_init(&cl->packets, (uint32_t)(c->config.l1_packet_bytes / UNIT_BYTES)))
            return spin_fail(err, SPIN_ENOMEM, "out of memory");
    }
    return SPIN_OK;
}

/* ---- What the handler is given --------------------------------------------------------------- */

static uint32_t core_of(const struct card_hpu *h) {
    return h->index % (uint32_t)h->card->config.cluster_hpus;
}

/* The HPU as one of a context's. */
void card_switch_context(struct card *c, struct card_hpu *h, uint32_t number) {
    struct card_execution *x = &c->context[number];
    struct card_program *program = &c->program[x->program];
    uint8_t *l1 = c->cluster[h->cluster].l1;
    uint32_t core = core_of(h), heap = MAP_L1_SIZE - (core + 1) * HEAP_BYTES;
    h->context = number;
    hpu_init(&h->hpu, program->code, h->index);
    h->hpu.icache = program->icache[h->cluster];
    port_open(&h->port, &h->hpu, &card_port, x->set.abi == CARD_PSPIN);
    h->port.counter = x->counter;
    h->port.mtu_bytes = (uint32_t)c->config.mtu;
    h->core = (struct invoke_core){
        .cluster = h->cluster,
        .core = core,
        .stack = l1 + MAP_L1_RUNTIME + core * MAP_STACK_SIZE,
        .heap = {card_l1_address(c, h->cluster) + heap, HEAP_BYTES, l1 + heap, NULL},
        .check = c->config.check};
    hpu_invoke_open(&h->port, &x->given, &h->core); /* what is given fits (card_add_context) */
}

/* A call of a card that has its own messages. */
static void own_call(struct card *c, struct card_hpu *h, struct invoke_call *call) {
    const struct card_task *t = &c->task[h->task];
    const struct card_l2_packet *p = &c->packet[t->packet];
    const struct card_queue *q = &c->queue[t->queue];
    const struct card_execution *x = &c->context[t->context];
    if (h->context != t->context)
        card_switch_context(c, h, t->context);
    /* P4sPIN's state is in the L1 of its message's home cluster, if contexts have such. */
    bool in_l1 = x->set.abi == CARD_P4SPIN && x->set.scratch_bytes;
    call->entry = x->set.entry[t->kind];
    call->budget_cycles = x->set.watchdog_cycles;
    call->bytes = t->l1_bytes;
    call->length = p->length;
    call->memory_address =
        in_l1 ? card_scratch_address(c, t->context, q->home % SCRATCHPADS) : x->memory_address;
    call->memory_bytes = in_l1 ? x->set.scratch_bytes : x->set.memory_bytes;
    call->header = (struct call_header){
        .length = p->message_bytes, .source = p->source, .hdr_data = p->hdr_data};
    call->offset = p->offset;
    call->dropped_bytes = flow_dropped(&q->flow);
}

static void begin(struct card *c, struct card_hpu *h) {
    const struct card_task *t = &c->task[h->task];
    const struct card_l2_packet *p = &c->packet[t->packet];
    bool pspin = c->context[t->context].set.abi == CARD_PSPIN, in_l2 = p->l2_unit != NONE;
    uint32_t l1 = MAP_L1_PACKETS + t->l1_unit * UNIT_BYTES + t->headroom;
    struct invoke_call call = {.kind = pspin ? SPIN_PSPIN_HANDLER : (enum spin_handler_kind)t->kind,
                               .packet = c->cluster[t->cluster].l1 + l1,
                               .address = card_l1_address(c, t->cluster) + l1,
                               .headroom = t->headroom,
                               .l2_packet = pspin && in_l2 ? card_packet_bytes(c, p)
                                                           : NULL, /* P4sPIN has no name for it */
                               .l2_address = in_l2 ? MAP_L2_PACKETS + p->l2_unit * UNIT_BYTES : 0,
                               .home_cluster = p->message % c->clusters,
                               .flow = p->message};
    if (card_serves(c))
        card_served_call(c, h, &call);
    else
        own_call(c, h, &call);
    h->hpu.cycles = c->now_ps / c->cycle;
    h->hpu.instret = 0;
    hpu_invoke_begin(&h->port, &c->context[t->context].given, &h->core, &call);
}

/* ---- Contention ------------------------------------------------------------------------------ */

static struct card_accesses count_accesses(struct hpu *u) {
    struct card_accesses a = {0};
    for (uint32_t i = 0; i < u->windows; i++) {
        struct hpu_window *w = &u->window[i];
        uint32_t n[2] = {w->loads, w->stores};
        w->loads = w->stores = 0;
        for (int way = 0; way < 2; way++) {
            if (w->region == HPU_REGION_L1) {
                a.l1 += n[way];
                continue;
            }
            a.remote[way] += n[way];
            if (w->region != HPU_REGION_REMOTE_L1)
                a.port[w->region == HPU_REGION_L2_PACKETS][way] += n[way];
        }
    }
    return a;
}

static void set_rate(struct card *c, struct card_hpu *h, uint64_t rate) {
    struct card_cluster *cl = &c->cluster[h->cluster];
    cl->rate_sum += (uint32_t)rate - h->rate;
    h->rate = (uint32_t)rate;
}

/* What is known of the slice's accesses is exact, the rest by chance. */
static uint64_t l1_conflicts(struct card *c, struct card_hpu *h, uint64_t n) {
    uint64_t from = h->slice_from, cycles = h->hpu.cycles - from;
    uint64_t others = c->cluster[h->cluster].rate_sum - h->rate;
    uint64_t unknown = n - (n && h->log ? h->log->count : 0);
    if (unknown) {
        h->conflict += unknown * others / (2 * c->config.l1_banks);
        h->conflict +=
            card_l1_lost(c, h->cluster, unknown, from * c->cycle, h->hpu.cycles * c->cycle);
    }
    set_rate(c, h, cycles ? (n << 16) / cycles : 0);
    uint64_t stall = h->conflict >> 16;
    h->conflict &= 0xffff;
    if (h->log)
        stall += card_banks_lost(c, h);
    c->stats.l1_accesses += n;
    c->stats.conflict_cycles += stall;
    return stall;
}

/* Reserves n accesses from `start` on; how much later than `end` the last one is. */
static uint64_t reserve(struct card *c, uint64_t *free_ps, uint64_t n, uint64_t start,
                        uint64_t end) {
    *free_ps = card_max(*free_ps, start) + n * c->cycle / c->config.pe_accesses;
    return n && *free_ps > end ? *free_ps - end : 0;
}

static uint64_t remote_wait(struct card *c, const struct card_hpu *h,
                            const struct card_accesses *a) {
    uint64_t start = h->slice_from * c->cycle, end = h->hpu.cycles * c->cycle, late = 0;
    for (int way = 0; way < 2; way++) {
        uint64_t *port = &c->cluster[h->cluster].pe_free_ps[way];
        late = card_max(late, reserve(c, port, a->remote[way], start, end));
        for (int i = 0; i < 2; i++)
            late = card_max(late, reserve(c, &c->pe_free_ps[i][way], a->port[i][way], start, end));
    }
    uint64_t n = a->remote[0] + a->remote[1];
    c->stats.remote_accesses += n;
    c->stats.remote_wait_cycles += late / c->cycle;
    CARD_COUNT(c, h->context, unit_busy_ps[CARD_UNIT_PE], n * c->cycle / c->config.pe_accesses);
    return late / c->cycle;
}

/* The cycles that the last slice lost. */
static uint64_t contend(struct card *c, struct card_hpu *h, const struct card_accesses *a) {
    uint64_t stall = l1_conflicts(c, h, a->l1);
    if (a->remote[0] || a->remote[1])
        stall += remote_wait(c, h, a);
    return stall;
}

/* ---- Slices ---------------------------------------------------------------------------------- */

static void end_task(struct card *c, struct card_hpu *h, enum hpu_stop stop) {
    struct card_task *t = &c->task[h->task];
    struct hpu *u = &h->hpu;
    t->end_ps = u->cycles * c->cycle;
    t->value = (int32_t)u->x[10];
    port_end(&h->port);
    bool p4 = c->context[t->context].set.abi == CARD_P4SPIN;
    if (stop == HPU_FAULTED || (p4 && flow_is_error((enum flow_handler)t->kind, t->value))) {
        t->faulted = true;
        t->fault = (struct card_fault){.context = t->context,
                                       .message = c->packet[t->packet].message,
                                       .hpu = h->index,
                                       .kind = (enum spin_handler_kind)t->kind,
                                       .entry = card_entry(c, t),
                                       .ending = (enum spin_ending)u->fault,
                                       .value = t->value,
                                       .pc = u->pc,
                                       .address = u->fault_address};
        if (h->port.refusal.call)
            t->fault.refusal = h->port.refusal;
    }
    uint64_t cycles = (t->end_ps - t->start_ps) / c->cycle;
    CARD_COUNT(c, t->context, handler[t->kind].runs, 1);
    CARD_COUNT(c, t->context, handler[t->kind].instructions, u->instret);
    CARD_COUNT(c, t->context, handler[t->kind].cycles, cycles);
    CARD_COUNT(c, t->context, handler[t->kind].commands, h->port.commands);
    spread_add(&c->context[t->context].handler_cycles[t->kind], cycles);
    set_rate(c, h, 0);
    h->state = CORE_ENDED;
    card_event(c, t->end_ps + c->config.doorbell_cycles * c->cycle, CARD_DOORBELL_EVENT, h->index,
               0);
}

/* Told of each instruction, it does the same as at once: slices end where blocks begin. */
static enum hpu_stop run_steps(struct card *c, struct card_hpu *h, uint64_t until, bool log) {
    struct hpu *u = &h->hpu;
    enum hpu_stop stop;
    h->own_log.count = h->own_log.slack = 0;
    do {
        uint32_t pc = u->pc;
        uint64_t before = u->cycles, executed = u->instret, waited = hpu_icache_waited(u->icache);
        struct hpu_next_access next = {0};
        if (log)
            next = hpu_next_access(u);
        stop = hpu_step(u);
        if (log && u->instret != executed)
            card_log_step(h, &next, before, hpu_icache_waited(u->icache) - waited);
        if (!c->callbacks.step)
            continue;
        if (u->instret != executed)
            c->callbacks.step(c->callbacks.user, h->context, h->index, pc,
                              (uint32_t)(u->cycles - before));
        else if (u->cycles != before && c->callbacks.stall) /* the command was held back */
            c->callbacks.stall(c->callbacks.user, h->context, h->index, pc, u->cycles - before);
    } while (stop == HPU_PAUSED && c->config.quantum > 1 && (u->cycles < until || u->mid_block));
    return stop;
}

/* `begins`: it does not only go on where the quantum ended the last one. */
static void run_slice(struct card *c, struct card_hpu *h, bool begins) {
    struct hpu *u = &h->hpu;
    uint64_t until = u->cycles + c->config.quantum;
    uint32_t from = u->pc;
    bool log = begins && !c->callbacks.run && card_log_wanted(c, h);
    h->slice_from = u->cycles;
    h->port.sync = false;
    if (c->callbacks.run)
        h->stop = c->callbacks.run(c->callbacks.user, u, c->context[h->context].set.image, until);
    else if (c->callbacks.step || log)
        h->stop = run_steps(c, h, until, log);
    else
        h->stop = c->config.quantum == 1 ? hpu_step(u) : hpu_run(u, until);
    h->accesses = count_accesses(u);
    h->log = NULL;
    if (begins)
        card_log_slice(c, h, from, log);
}

/* The engine is at the end of the HPU's last slice. False: that cost a quantum more or the handler
 * has ended, so the HPU does not go on now. */
static bool settle(struct card *c, struct card_hpu *h) {
    uint64_t stall = contend(c, h, &h->accesses);
    h->hpu.cycles += stall;
    if (stall && c->callbacks.stall)
        c->callbacks.stall(c->callbacks.user, h->context, h->index, 0, stall);
    h->slice_from = h->hpu.cycles;
    h->accesses = (struct card_accesses){0};
    bool late = h->log && h->logged < h->log->count; /* it has accesses left in what it lost */
    h->log = late ? h->log : NULL;
    if (late)
        card_event(c, h->hpu.cycles * c->cycle, CARD_RUN_EVENT, h->index, 0);
    else if (h->stop == HPU_DONE || h->stop == HPU_FAULTED)
        end_task(c, h, h->stop);
    else if (stall >= c->config.quantum || (stall && h->port.sync))
        card_event(c, h->hpu.cycles * c->cycle, CARD_RUN_EVENT, h->index, 0);
    else
        return true;
    return false;
}

void card_on_run(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    struct card_hpu *h = &c->hpu[event->with.u32[0]];
    struct hpu *u = &h->hpu;
    bool begins = h->state == CORE_INVOKED || h->stop != HPU_PAUSED;
    if (h->state == CORE_INVOKED)
        begin(c, h);
    else if (!settle(c, h))
        return;
    h->state = CORE_RUNNING;
    uint64_t now = c->now_ps / c->cycle;
    if (now > u->cycles) { /* it has waited */
        if (c->callbacks.stall)
            c->callbacks.stall(c->callbacks.user, h->context, h->index, u->pc, now - u->cycles);
        if (card_serves(c)) /* in a world waits are no part of the budget, whatever the card */
            hpu_set_budget(u, u->budget_end, now - u->cycles);
        u->cycles = now;
    }
    run_slice(c, h, begins && c->config.quantum > 1);
    if (h->stop == HPU_WAITING && !h->port.sync)
        h->state = CORE_BLOCKED; /* a response or a free place wakes it */
    else
        card_event(c, u->cycles * c->cycle, CARD_RUN_EVENT, h->index, 0);
}
