/* The HPUs: what a handler is given, and its execution in slices.
 *
 * Design notes. An HPU runs ahead of the engine for up to a quantum, until it does something that
 * the card must see in order: then the driver has the access repeated when the engine has come to
 * that time (card_driver.c). What others see of its stores is early by less than a quantum, which
 * only handlers that race can tell.
 *
 * Contention is charged when the engine has come to the end of a slice, from the accesses that it
 * made: by then all that passed meanwhile is known. L1: statistical. An access meets one of another
 * HPU of the cluster in its bank with the probability of that HPU's accesses a cycle over the
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

#define ARGS_BYTES    16u /* handler_args_t */

/* The core, with this card's distances and instruction cache. */
static void set_timing(struct card *c) {
    static const enum hpu_region far[] = {HPU_REGION_REMOTE_L1, HPU_REGION_L2_HANDLER,
                                          HPU_REGION_L2_PACKETS, HPU_REGION_PROGRAM};
    const struct card_config *g = &c->config;
    c->timing = hpu_timing_ri5cy;
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
        struct cluster *cl = &c->cluster[i];
        cl->ready = cl->commands = cl->port[0] = cl->port[1] = LIST_EMPTY;
        cl->l1 = guard_memory_new(MAP_L1_SIZE);
        if (!cl->l1 ||
            !card_space_init(&cl->packets, (uint32_t)(c->config.l1_packet_bytes / UNIT_BYTES)))
            return spin_fail(err, SPIN_ENOMEM, "out of memory");
    }
    return SPIN_OK;
}

/* ---- What the handler is given --------------------------------------------------------------- */

static uint32_t core_of(const struct card_hpu *h) {
    return h->index % (uint32_t)h->card->config.cluster_hpus;
}

static void add_window(struct hpu *u, uint32_t base, uint32_t size, uint8_t *host, bool writable,
                       enum hpu_region region, uint8_t *view) {
    int i = hpu_add_window(u, base, size, host, writable, region);
    if (i >= 0)
        u->window[i].view = view;
}

/* The windows of a context: the same order on every HPU, so that the guesses in the code hold. */
static void switch_context(struct card *c, struct card_hpu *h, uint32_t number) {
    struct context *x = &c->context[number];
    struct hpu *u = &h->hpu;
    struct program *program = &c->program[x->program];
    const struct spin_image *im = program->image;
    struct cluster *cl = &c->cluster[h->cluster];
    uint32_t stack = MAP_L1_RUNTIME + core_of(h) * MAP_STACK_SIZE;
    h->context = number;
    struct hpu_heap *heap = &h->port.heap;
    *heap = (struct hpu_heap){.begins = heap->begins};
    hpu_init(u, program->code, h->index);
    u->icache = program->icache[h->cluster];
    port_open(&h->port, u, &card_port, x->set.abi == CARD_PSPIN);
    h->port.counter = x->counter;
    h->port.mtu_bytes = (uint32_t)c->config.mtu;
    h->packet_window = (uint32_t)hpu_add_window(u, 0, 0, NULL, true, HPU_REGION_L1);
    hpu_add_window(u, MAP_L1_ALIAS + stack, MAP_STACK_SIZE, cl->l1 + stack, true, HPU_REGION_L1);
    if (im->constants.bytes)
        add_window(u, im->constants.address, im->constants.bytes, x->constants, false,
                   HPU_REGION_L2_HANDLER, x->view[CONSTANTS_VIEW]);
    if (im->data.bytes)
        add_window(u, im->data.address, im->data.bytes, x->data, true, HPU_REGION_L2_HANDLER,
                   x->view[DATA_VIEW]);
    if (x->handler_data)
        add_window(u, im->handler_data.address, im->handler_data.bytes, x->handler_data, true,
                   HPU_REGION_L2_HANDLER, NULL);
    uint32_t bytes, memory = card_handler_memory(c, x, &bytes);
    if (bytes)
        add_window(u, memory, bytes, c->l2_handler + (memory - MAP_L2_HANDLER), true,
                   HPU_REGION_L2_HANDLER, x->view[MEMORY_VIEW]);
    for (uint32_t i = 0; i < c->clusters && i < SCRATCHPADS; i++)
        if (card_scratch_bytes(c, x, i))
            add_window(u, card_scratch_address(c, number, i), card_scratch_bytes(c, x, i),
                       c->cluster[i].l1 + card_scratch_offset(c, x, i), true,
                       i == h->cluster ? HPU_REGION_L1 : HPU_REGION_REMOTE_L1,
                       x->view[SCRATCH_VIEW + i]);
    h->l2_window = (uint32_t)hpu_add_window(u, 0, 0, NULL, true, HPU_REGION_L2_PACKETS);
    if (x->set.abi == CARD_P4SPIN) {
        uint32_t at = MAP_L1_SIZE - (core_of(h) + 1) * HEAP_BYTES;
        *heap = (struct hpu_heap){.address = card_l1_address(c, h->cluster) + at,
                                  .bytes = HEAP_BYTES,
                                  .host = cl->l1 + at,
                                  .check = c->config.check,
                                  .begins = heap->begins};
        if (!heap->check)
            hpu_add_window(u, heap->address, HEAP_BYTES, heap->host, true, HPU_REGION_L1);
    }
}

static void move_window(struct hpu_window *w, uint32_t base, uint8_t *host, uint32_t bytes) {
    w->base = base;
    w->host = host;
    hpu_size_window(w, bytes, true);
}

static uint32_t packet_address(const struct card *c, const struct task *t) {
    return card_l1_address(c, t->cluster) + MAP_L1_PACKETS + t->l1_unit * UNIT_BYTES + t->headroom;
}

/* void handler(handler_args_t *args): the arguments on the stack, the task in the HPU driver. */
static void pspin_arguments(struct card *c, struct card_hpu *h) {
    uint32_t top = MAP_L1_RUNTIME + (core_of(h) + 1) * MAP_STACK_SIZE - ARGS_BYTES;
    uint8_t *args = c->cluster[h->cluster].l1 + top;
    call_put32(args, MAP_DRIVER + SPIN_REG_MEMORY_ADDRESS); /* a task_t begins there */
    call_put32(args + 4, h->index);
    call_put32(args + 8, h->cluster);
    call_put32(args + 12, core_of(h));
    h->hpu.x[2] = h->hpu.x[10] = MAP_L1_ALIAS + top;
}

/* Of P4sPIN: in the L1 of its message's home cluster, if contexts have such. */
uint32_t card_state_address(const struct card *c, const struct task *t) {
    const struct context *x = &c->context[t->context];
    uint32_t home = c->queue[t->queue].home % SCRATCHPADS;
    return x->set.scratch_bytes ? card_scratch_address(c, t->context, home) : x->memory_address;
}

static void p4spin_arguments(struct card *c, struct card_hpu *h, const struct task *t) {
    const struct packet *p = &c->packet[t->packet];
    const struct queue *q = &c->queue[t->queue];
    struct hpu *u = &h->hpu;
    uint32_t address = packet_address(c, t), before = p->user_hdr_bytes;
    uint8_t *packet =
        c->cluster[t->cluster].l1 + MAP_L1_PACKETS + t->l1_unit * UNIT_BYTES + t->headroom;
    uint32_t state = card_state_address(c, t);
    if (t->kind == SPIN_HEADER_HANDLER) {
        const struct call_header header = {
            .length = p->message_bytes ? p->message_bytes : p->length,
            .target = p->target,
            .source = p->source,
            .match_bits = p->match_bits,
            .hdr_data = p->hdr_data,
        };
        call_put_header(packet, &header);
        u->x[10] = address - CALL_HEADER_BYTES;
        u->x[11] = state;
    } else if (t->kind == SPIN_PAYLOAD_HANDLER) {
        before = before < t->l1_bytes ? before : t->l1_bytes;
        call_put_payload(packet + before, p->length - before, p->offset);
        u->x[10] = address + before - CALL_PAYLOAD_BYTES;
        u->x[11] = state;
    } else {
        u->x[10] = q->flow.dropped < INT32_MAX ? (uint32_t)q->flow.dropped : INT32_MAX;
        u->x[11] = 0;
        u->x[12] = state;
    }
}

static void begin(struct card *c, struct card_hpu *h) {
    struct task *t = &c->task[h->task];
    const struct packet *p = &c->packet[t->packet];
    struct hpu *u = &h->hpu;
    if (h->context != t->context)
        switch_context(c, h, t->context);
    const struct context *x = &c->context[t->context];
    move_window(&u->window[h->packet_window], packet_address(c, t) - t->headroom,
                c->cluster[t->cluster].l1 + MAP_L1_PACKETS + t->l1_unit * UNIT_BYTES,
                t->headroom + t->l1_bytes);
    move_window(&u->window[h->l2_window], MAP_L2_PACKETS + p->l2_unit * UNIT_BYTES,
                card_packet_bytes(c, p), p->length);
    u->cycles = c->now_ps / c->cycle;
    u->instret = 0;
    uint32_t stack_top = MAP_L1_ALIAS + MAP_L1_RUNTIME + (core_of(h) + 1) * MAP_STACK_SIZE;
    hpu_start(u, x->set.entry[t->kind], stack_top, x->set.watchdog_cycles);
    if (x->set.abi == CARD_P4SPIN)
        p4spin_arguments(c, h, t);
    else
        pspin_arguments(c, h);
    card_set_task(h);
    port_begin(&h->port);
}

/* ---- Contention ------------------------------------------------------------------------------ */

static struct accesses count_accesses(struct hpu *u) {
    struct accesses a = {0};
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
    struct cluster *cl = &c->cluster[h->cluster];
    cl->rate_sum += (uint32_t)rate - h->rate;
    h->rate = (uint32_t)rate;
}

static uint64_t l1_conflicts(struct card *c, struct card_hpu *h, uint64_t n) {
    uint64_t from = h->slice_from, cycles = h->hpu.cycles - from;
    uint64_t others = c->cluster[h->cluster].rate_sum - h->rate;
    h->conflict += n * others / (2 * c->config.l1_banks);
    if (n)
        h->conflict += card_l1_lost(c, h->cluster, n, from * c->cycle, h->hpu.cycles * c->cycle);
    set_rate(c, h, cycles ? (n << 16) / cycles : 0);
    uint64_t stall = h->conflict >> 16;
    h->conflict &= 0xffff;
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

static uint64_t remote_wait(struct card *c, const struct card_hpu *h, const struct accesses *a) {
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
static uint64_t contend(struct card *c, struct card_hpu *h, const struct accesses *a) {
    uint64_t stall = l1_conflicts(c, h, a->l1);
    if (a->remote[0] || a->remote[1])
        stall += remote_wait(c, h, a);
    return stall;
}

/* ---- Slices ---------------------------------------------------------------------------------- */

static void end_task(struct card *c, struct card_hpu *h, enum hpu_stop stop) {
    struct task *t = &c->task[h->task];
    struct hpu *u = &h->hpu;
    t->end_ps = u->cycles * c->cycle;
    t->value = (int32_t)u->x[10];
    port_end(&h->port);
    bool p4 = c->context[t->context].set.abi == CARD_P4SPIN;
    if (stop == HPU_FAULTED || (p4 && flow_is_failure(t->value, t->kind == SPIN_HEADER_HANDLER))) {
        t->faulted = true;
        t->fault = (struct card_fault){.context = t->context,
                                       .message = c->packet[t->packet].message,
                                       .hpu = h->index,
                                       .kind = (enum spin_handler_kind)t->kind,
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
static enum hpu_stop run_steps(struct card *c, struct card_hpu *h, uint64_t until) {
    struct hpu *u = &h->hpu;
    enum hpu_stop stop;
    do {
        uint32_t pc = u->pc;
        uint64_t before = u->cycles, executed = u->instret;
        stop = hpu_step(u);
        if (u->instret != executed)
            c->callbacks.step(c->callbacks.user, h->context, h->index, pc,
                              (uint32_t)(u->cycles - before));
        else if (u->cycles != before && c->callbacks.stall) /* the command was held back */
            c->callbacks.stall(c->callbacks.user, h->context, h->index, pc, u->cycles - before);
    } while (stop == HPU_PAUSED && c->config.quantum > 1 && (u->cycles < until || u->mid_block));
    return stop;
}

static enum hpu_stop run_slice(struct card *c, struct card_hpu *h) {
    uint64_t until = h->hpu.cycles + c->config.quantum;
    if (c->callbacks.step)
        return run_steps(c, h, until);
    return c->config.quantum == 1 ? hpu_step(&h->hpu) : hpu_run(&h->hpu, until);
}

/* The engine is at the end of the HPU's last slice. False: that cost a quantum more or the handler
 * has ended, so the HPU does not go on now. */
static bool settle(struct card *c, struct card_hpu *h) {
    uint64_t stall = contend(c, h, &h->accesses);
    h->hpu.cycles += stall;
    if (stall && c->callbacks.stall)
        c->callbacks.stall(c->callbacks.user, h->context, h->index, 0, stall);
    h->slice_from = h->hpu.cycles;
    h->accesses = (struct accesses){0};
    if (h->stop == HPU_DONE || h->stop == HPU_FAULTED)
        end_task(c, h, h->stop);
    else if (stall >= c->config.quantum)
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
    if (h->state == CORE_INVOKED)
        begin(c, h);
    else if (!settle(c, h))
        return;
    h->state = CORE_RUNNING;
    uint64_t now = c->now_ps / c->cycle;
    if (now > u->cycles) { /* it has waited */
        if (c->callbacks.stall)
            c->callbacks.stall(c->callbacks.user, h->context, h->index, u->pc, now - u->cycles);
        u->cycles = now;
    }
    h->slice_from = u->cycles;
    h->port.sync = false;
    h->stop = run_slice(c, h);
    h->accesses = count_accesses(u);
    if (h->stop == HPU_WAITING && !h->port.sync)
        h->state = CORE_BLOCKED; /* a response or a free place wakes it */
    else
        card_event(c, u->cycles * c->cycle, CARD_RUN_EVENT, h->index, 0);
}
