/* HPUs: handlers as they are compiled, in slices of virtual time.
 *
 * A rank's card has a few HPUs and a queue of handlers that wait for one, first come, first served.
 * What an HPU needs while it runs (registers, stack, the packet) is an executor, taken from a pool
 * of the world, because of tens of thousands of cards few run a handler at any time.
 *
 * An HPU runs ahead of the engine, at most a quantum, and stops at each access to the HPU driver
 * that others can see until the engine is there; then the access is repeated. So commands of all
 * HPUs and cards have one order. What handlers of one message store in the memory that they share
 * is seen early by less than a quantum, which only those that race can tell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/pages.h"
#include "hpu/code_store.h"
#include "hpu/gdb.h"
#include "nic/flow.h"
#include "nic/nic_call.h"
#include "sim/world_private.h"
#include "spin/driver.h"

_Static_assert(offsetof(struct world_executor, stack) % 16 == MAP_L1_RUNTIME % 16,
               "atomics on the stack need the host's alignment to be the handler's");

static uint64_t local_ps(const struct world_executor *e) {
    return e->base_ps + e->hpu.cycles * e->world->rank[e->rank].params->hpu_cycle;
}

/* ---- code -------------------------------------------------------------------------------------
 */

/* One for all images of the same content. */
static struct world_code *code_new(struct spin_world *w, const struct spin_image *im) {
    for (uint32_t i = 0; i < w->codes; i++) {
        struct world_code *c = &w->code[i];
        if (c->bytes == im->code.bytes && c->constant_bytes == im->constants.bytes &&
            memcmp(c->content, im->code.content, c->bytes) == 0 &&
            (!im->constants.filled ||
             memcmp(c->constants, im->constants.content, im->constants.filled) == 0))
            return c;
    }
    if (!ROOM_FOR_ONE(w->code, w->codes, w->code_room, 8))
        return NULL;
    struct world_code c = {.bytes = im->code.bytes, .constant_bytes = im->constants.bytes};
    uint8_t *content = malloc(im->code.bytes ? im->code.bytes : 1);
    c.constants = calloc(1, im->constants.bytes ? im->constants.bytes : 1);
    if (content && im->code.bytes)
        memcpy(content, im->code.content, im->code.bytes);
    c.content = content;
    if (c.constants && im->constants.filled)
        memcpy(c.constants, im->constants.content, im->constants.filled);
    struct spin_error err;
    if (content && c.constants &&
        hpu_code_share(&c.code,
                       &(struct hpu_code_key){.program = content,
                                              .base = im->code.address,
                                              .bytes = im->code.bytes,
                                              .mode = HPU_TIMED,
                                              .timing = w->timing,
                                              .with_float = im->limits.with_float,
                                              .jit = w->jit,
                                              .is_alone = true},
                       &err))
        world_fail(w, (enum spin_code)err.code, "%s", err.text);
    if (!c.code) {
        free(content);
        free(c.constants);
        return NULL;
    }
    w->code[w->codes] = c;
    return &w->code[w->codes++];
}

/* An image is one world's (its image store), so that it can bear the number. */
static const struct world_code *code_of(struct spin_world *w, const struct spin_image *image) {
    struct spin_image *im = (struct spin_image *)(uintptr_t)image;
    if (!im->code_number) {
        const struct world_code *code = code_new(w, im);
        if (!code)
            return NULL;
        im->code_number = (uint32_t)(code - w->code) + 1;
    }
    return &w->code[im->code_number - 1];
}

/* What this card has of an image, zero at first; NULL: no memory. */
static uint8_t *own_of(struct world_rank *r, const void *of, uint32_t bytes, bool *is_new) {
    *is_new = false;
    for (struct world_rank_data *d = r->data; d; d = d->next)
        if (d->of == of)
            return d->data;
    struct world_rank_data *d = malloc(sizeof *d);
    uint8_t *data = calloc(1, bytes);
    if (!d || !data) {
        free(d);
        free(data);
        return NULL;
    }
    *d = (struct world_rank_data){of, data, r->data};
    r->data = d;
    *is_new = true;
    return data;
}

/* The image's writable data, also .l2_handler_data: one copy per card. */
static uint8_t *data_of(struct world_rank *r, const struct image_segment *s) {
    bool is_new;
    uint8_t *data = own_of(r, s, s->bytes, &is_new);
    if (is_new && s->filled)
        memcpy(data, s->content, s->filled);
    return data;
}

/* ---- behind the port of an HPU ----------------------------------------------------------------
 */

static struct world_executor *executor_of(struct port *p) {
    return (struct world_executor *)p->hpu;
}

static bool in_step(struct port *p) {
    const struct world_executor *e = executor_of(p);
    return local_ps(e) <= e->world->now_ps;
}

static struct nic *nic_of(const struct world_executor *e) {
    return e->world->rank[e->rank].nic;
}

static struct port_host host(struct port *p, uint32_t space) {
    const struct world_executor *e = executor_of(p);
    return nic_command_host(nic_of(e), e->task, space);
}

static enum hpu_access issue(struct port *p, const struct port_command *c) {
    const struct world_executor *e = executor_of(p);
    return nic_command(nic_of(e), e->task, p, c, e->world->now_ps);
}

static enum hpu_access over(struct port *p, uint32_t handle, bool wait) {
    const struct world_executor *e = executor_of(p);
    return nic_command_over(nic_of(e), e->task, p, handle, wait);
}

static void print(struct port *p, const char *line) {
    const struct world_executor *e = executor_of(p);
    fprintf(stderr, "[%u,%u] %s\n", e->rank, e->hpu_number, line);
}

static const struct port_card card = {
    .in_step = in_step, .host = host, .issue = issue, .over = over, .print = print};

/* ---- executors --------------------------------------------------------------------------------
 */

#define HEAPS_AT_ONCE 64

/* Of an executor that is to be made. They are pages, since those that nobody uses cost nothing. */
static uint8_t *heap_new(const struct spin_world *w) {
    if (w->executors % HEAPS_AT_ONCE)
        return w->executor[w->executors - 1]->heap + HEAP_BYTES;
    return pages_sparse(HEAPS_AT_ONCE * HEAP_BYTES);
}

/* With those behind it. */
static void heap_free(uint8_t *heap, uint32_t index) {
    if (index % HEAPS_AT_ONCE == 0)
        pages_free(heap, HEAPS_AT_ONCE * HEAP_BYTES);
}

static struct world_executor *executor_new(struct spin_world *w) {
    if (!ROOM_FOR_ONE(w->executor, w->executors, w->executor_room, 64))
        return NULL;
    struct world_executor *e = aligned_alloc(_Alignof(struct world_executor), sizeof *e);
    if (!e)
        return NULL;
    memset(e, 0, sizeof *e);
    e->heap = heap_new(w);
    if (!e->heap) {
        free(e);
        return NULL;
    }
    e->world = w;
    e->index = w->executors;
    w->executor[w->executors++] = e;
    return e;
}

static struct world_executor *executor_take(struct spin_world *w) {
    if (!w->executor_free)
        return executor_new(w);
    struct world_executor *e = w->executor[w->executor_free - 1];
    w->executor_free = e->next;
    return e;
}

static void executor_give(struct world_executor *e) {
    if (e->transfers)
        return; /* the last of them gives it */
    e->next = e->world->executor_free;
    e->world->executor_free = e->index + 1;
}

static void executor_end(struct world_executor *e) {
    e->ended = true;
    executor_give(e);
}

bool world_is_memory_of(const struct world_executor *e, const uint8_t *at) {
    return (uintptr_t)at - (uintptr_t)e < sizeof *e ||
           (uintptr_t)at - (uintptr_t)e->heap < HEAP_BYTES ||
           (e->packet && (uintptr_t)at - (uintptr_t)e->packet <
                             CALL_HEADROOM + e->world->params.network.mtu_bytes);
}

void world_transferred(struct world_executor *e) {
    e->transfers--;
    if (e->ended)
        executor_give(e);
}

void world_hpus_free(struct spin_world *w) {
    for (uint32_t i = 0; i < w->executors; i++) {
        heap_free(w->executor[i]->heap, i);
        free(w->executor[i]->port.heap.begins);
        free(w->executor[i]->packet);
        free(w->executor[i]);
    }
    free(w->executor);
    for (uint32_t i = 0; i < w->codes; i++) {
        hpu_code_release(w->code[i].code);
        free((void *)(uintptr_t)w->code[i].content);
        free(w->code[i].constants);
    }
    free(w->code);
}

/* ---- a handler's life -------------------------------------------------------------------------
 */

/* The handler's execution context; false: no memory. */
static bool describe(struct world_executor *e, const struct world_code *code) {
    const struct portals_handlers *p = e->task->handlers;
    const struct spin_image *im = p->image;
    struct world_rank *r = &e->world->rank[e->rank];
    uint8_t *data = im->data.bytes ? data_of(r, &im->data) : NULL;
    uint8_t *handler_data = im->handler_data.bytes ? data_of(r, &im->handler_data) : NULL;
    uint32_t pad_bytes = im->info.is_pspin ? (uint32_t)r->params->scratchpad : 0;
    bool is_new;
    uint8_t *pad = pad_bytes ? own_of(r, im, pad_bytes, &is_new) : NULL;
    const struct port_host host = nic_command_host(r->nic, e->task, PORT_AT_ADDRESS);
    e->context = (struct invoke_context){
        .image = im,
        .constants = {im->constants.address, im->constants.bytes, code->constants, NULL},
        .data = {im->data.address, im->data.bytes, data, NULL},
        .handler_data = {im->handler_data.address, im->handler_data.bytes, handler_data, NULL},
        .memory = {NIC_HANDLER_STATE, p->state_bytes, p->state, NULL},
        .memory_region = HPU_REGION_L1,
        .scratchpad = {{NIC_HANDLER_PAD, pad_bytes, pad, NULL}},
        .host_address = host.base,
        .host_bytes = host.bytes};
    return (data || !im->data.bytes) && (handler_data || !im->handler_data.bytes) &&
           (pad || !pad_bytes);
}

static bool unaligned(const struct world_executor *e) {
    world_fail(e->world, SPIN_EARG, INVOKE_UNALIGNED, e->context.image->path);
    return false;
}

/* False: the world has failed. */
static bool give_memory(struct world_executor *e, const struct world_code *code) {
    const struct spin_world *w = e->world;
    hpu_init(&e->hpu, code->code, e->hpu_number);
    port_open(&e->port, &e->hpu, &card, e->context.image->info.is_pspin);
    e->port.mtu_bytes = (uint32_t)w->params.network.mtu_bytes;
    e->core = (struct invoke_core){.stack = e->stack,
                                   .heap = {NIC_HANDLER_HEAP, HEAP_BYTES, e->heap, NULL},
                                   .check = w->check};
    if (!hpu_invoke_open(&e->port, &e->context, &e->core))
        return unaligned(e);
    e->before = e->context.image->info.is_pspin || w->check /* the heap's window is the last */
                    ? -1
                    : hpu_add_window(&e->hpu, NIC_HANDLER_PACKET - CALL_HEADROOM, 0, e->no_packet,
                                     true, HPU_REGION_L1);
    return true;
}

/* Most handlers are of the image that the executor ran last: then only what belongs to the entry is
 * another. */
static bool is_open_for(const struct world_executor *e, const struct world_code *code) {
    const struct portals_handlers *p = e->task->handlers;
    const struct spin_image *im = p->image;
    const struct invoke_context *x = &e->context;
    return e->hpu.code == code->code && x->image == im && x->memory.bytes && p->state_bytes &&
           e->port.is_pspin == im->info.is_pspin && x->constants.address == im->constants.address &&
           x->constants.bytes == im->constants.bytes && !im->data.bytes &&
           !im->handler_data.bytes && !x->scratchpad[0].bytes;
}

/* False: no memory, or the world has failed. */
static bool open_for(struct world_executor *e, const struct world_code *code) {
    if (!is_open_for(e, code)) {
        if (!describe(e, code))
            return false;
        return give_memory(e, code);
    }
    const struct portals_handlers *p = e->task->handlers;
    const struct port_host host =
        nic_command_host(e->world->rank[e->rank].nic, e->task, PORT_AT_ADDRESS);
    e->hpu.id = e->hpu_number;
    e->context.host_address = host.base;
    e->context.host_bytes = host.bytes;
    e->context.memory.bytes = p->state_bytes;
    e->context.memory.host = p->state;
    return hpu_invoke_memory(&e->port, &e->context) || unaligned(e);
}

/* For a packet, behind the headroom; NULL: no memory. Few need it: tens of thousands of HPUs may be
 * in use, so each has such memory only once it has needed it. */
static uint8_t *packet_room(struct world_executor *e) {
    if (!e->packet)
        e->packet = malloc(CALL_HEADROOM + e->world->params.network.mtu_bytes);
    return e->packet;
}

/* Where the call is laid, and its packet if that is to be copied. */
static uint8_t *room_of(struct world_executor *e) {
    const struct nic_task *t = e->task;
    return !t->bytes || t->owns_data || t->reads_only ? e->no_packet : packet_room(e);
}

/* Most handlers only read their packets, which then are used where they are, by many cards at a
 * time, with a window of its own for the arguments before them. The first store of one that does
 * not gives it a copy (becomes_own), and handlers of its image may write from then on. gdb, which
 * writes anywhere, has no such packets. */
static void choose_packet(struct world_executor *e, const struct world_code *code) {
    const struct spin_world *w = e->world;
    struct nic_task *t = (struct nic_task *)(uintptr_t)e->task;
    bool writes = code->writes && t->owns_data;
    t->reads_only = t->may_share && !writes && !w->check && !(w->gdb && w->gdb_rank == e->rank);
}

/* After a fault: at a packet that was only read, the handler goes on with a copy. */
static bool becomes_own(struct world_executor *e) {
    struct hpu *h = &e->hpu;
    struct hpu_window *w = &h->window[INVOKE_PACKET];
    struct nic_task *t = (struct nic_task *)(uintptr_t)e->task;
    uint32_t from = NIC_HANDLER_PACKET - CALL_HEADROOM, bytes = CALL_HEADROOM + t->bytes;
    if (!t->reads_only || h->fault != HPU_FAULT_SEGV || h->fault_address - from >= bytes)
        return false;
    uint8_t *room = packet_room(e);
    if (!room) {
        world_fail(e->world, SPIN_ENOMEM, "out of memory for a packet of rank %u", e->rank);
        return false;
    }
    memcpy(room, e->no_packet, CALL_HEADROOM);
    memcpy(room + CALL_HEADROOM, t->data, t->bytes);
    w->base = from;
    w->host = room;
    hpu_size_window(w, bytes, true);
    hpu_size_window(&h->window[e->before], 0, true);
    t->reads_only = false;
    e->world->code[t->handlers->image->code_number - 1].writes = true;
    h->fault = HPU_FAULT_NONE; /* the instruction is repeated */
    h->fault_address = 0;
    e->port.refusal.call = NULL;
    return true;
}

static void call_handler(struct world_executor *e, uint8_t *room) {
    struct invoke_call call;
    nic_task_call(&call, e->task, room);
    if (e->before >= 0)
        hpu_size_window(&e->hpu.window[e->before], e->task->reads_only ? CALL_HEADROOM : 0, true);
    if (e->task->reads_only) {
        call.headroom = 0;
        call.arguments = e->no_packet + CALL_HEADROOM;
    }
    call.budget_cycles = e->world->rank[e->rank].params->hpu_budget;
    e->hpu.cycles = e->hpu.instret = 0;
    hpu_invoke_begin(&e->port, &e->context, &e->core, &call);
}

void world_tell_fault(struct world_rank *r, uint32_t hpu, const struct spin_image *image,
                      uint32_t entry, uint64_t at_ps, enum spin_ending how, uint32_t pc,
                      uint32_t address, const struct spin_refusal *refusal) {
    struct spin_world *w = r->world;
    const struct spin_function *f = spin_image_at(image, entry);
    char ending[400], text[600];
    if (w->counts.faults++ && !w->fault)
        return;
    spin_ending_text(image, how, pc, address, refusal, ending, sizeof ending);
    snprintf(text, sizeof text, "rank %u, HPU %u, %.60s, %llu.%03llu ns: %s", r->index, hpu,
             f ? f->name : "a handler", (unsigned long long)(at_ps / 1000),
             (unsigned long long)(at_ps % 1000), ending);
    if (w->counts.faults == 1)
        snprintf(w->first_fault, sizeof w->first_fault, "%s", text);
    if (w->fault)
        w->fault(w->user, text);
}

static void note_fault(struct world_executor *e) {
    const struct hpu *h = &e->hpu;
    world_tell_fault(&e->world->rank[e->rank], e->hpu_number, e->task->handlers->image,
                     e->task->entry, local_ps(e), (enum spin_ending)h->fault, h->pc,
                     h->fault_address, &e->port.refusal);
}

/* Handlers of the rank that is debugged stop where gdb wants them to. */
static enum hpu_stop run_hpu(struct world_executor *e) {
    struct spin_world *w = e->world;
    uint64_t until = e->hpu.cycles + w->rank[e->rank].params->hpu_quantum;
    if (w->gdb && e->rank == w->gdb_rank)
        return gdb_run_one(w->gdb, &e->hpu, e->task->handlers->image, until);
    return hpu_run(&e->hpu, until);
}

/* What is left of a handler until the engine is at its end. */
static void end_later(struct world_executor *e) {
    struct spin_world *w = e->world;
    struct world_end *end = pool_take_raw(&w->ends);
    if (!end) {
        world_fail(w, SPIN_ENOMEM, "out of memory for a handler of rank %u", e->rank);
        return;
    }
    bool says = e->port.console.length != 0; /* when its time has come */
    bool faulted = e->hpu.fault != HPU_FAULT_NONE;
    end->task = e->task;
    end->task_number = e->task_number;
    end->executor = says ? e : NULL;
    end->start_ps = e->start_ps;
    end->instructions = e->hpu.instret;
    end->rank = e->rank;
    end->hpu_number = (uint8_t)e->hpu_number;
    end->fault = (uint8_t)e->hpu.fault;
    end->code = flow_code(faulted, e->context.image->info.is_pspin, (int32_t)e->hpu.x[10]);
    world_event(&w->rank[e->rank], local_ps(e), WORLD_END_EVENT, end->slot.index, 0, 0);
    if (!says)
        executor_end(e);
}

/* Until the handler ends, or has to wait for the engine or the card. */
static void run_slice(struct world_executor *e) {
    struct world_rank *r = &e->world->rank[e->rank];
    e->port.sync = false;
    enum hpu_stop stop = run_hpu(e);
    while (stop == HPU_FAULTED && becomes_own(e))
        stop = run_hpu(e);
    if (stop == HPU_FAULTED)
        note_fault(e);
    if (stop == HPU_DONE || stop == HPU_FAULTED)
        end_later(e);
    else if (stop == HPU_WAITING && !e->port.sync)
        e->blocked = true; /* `resume` wakes it */
    else
        world_event(r, local_ps(e), WORLD_HPU_EVENT, e->index, 0, 0);
}

static void begin(struct world_rank *r, struct nic_task *task) {
    struct spin_world *w = r->world;
    struct world_executor *e = executor_take(w);
    const struct world_code *code = code_of(w, task->handlers->image);
    if (!e || !code) {
        world_fail(w, SPIN_ENOMEM, "out of memory for a handler of rank %u", r->index);
        return;
    }
    e->task = task;
    e->task_number = task->number;
    task->driver = e;
    e->rank = r->index;
    e->hpu_number = (uint32_t)__builtin_ctzll(~r->hpus_busy);
    e->blocked = e->ended = e->resumed = false;
    r->hpus_busy |= 1ull << e->hpu_number;
    choose_packet(e, code);
    uint8_t *room = room_of(e);
    if (!room || !open_for(e, code)) {
        world_fail(w, SPIN_ENOMEM, "out of memory for the data of a handler of rank %u", r->index);
        return;
    }
    call_handler(e, room);
    e->start_ps = e->base_ps = w->now_ps + r->params->hpu_start;
    /* It starts later than now, so it is not in step and gives the card no command before an event
     * of its own; the card, which called this, would not expect one. */
    if (r->params->hpu_start)
        run_slice(e);
    else
        world_event(r, e->base_ps, WORLD_HPU_EVENT, e->index, 0, 0);
}

/* The first ones are taken first, so that none beyond the last is ever busy. */
static bool has_free_hpu(const struct world_rank *r) {
    uint64_t hpus = r->params->hpus;
    return hpus && r->hpus_busy != ~0ull >> (64 - hpus);
}

void world_run_task(struct world_rank *r, struct nic_task *task) {
    struct spin_world *w = r->world;
    if (has_free_hpu(r)) {
        begin(r, task);
        return;
    }
    struct world_task *queued = world_take(w, &w->tasks);
    if (!queued)
        return;
    queued->task = task;
    queued->next = WORLD_NONE;
    if (r->queue_first == WORLD_NONE)
        r->queue_first = queued->slot.index;
    else
        ((struct world_task *)pool_at(&w->tasks, r->queue_last))->next = queued->slot.index;
    r->queue_last = queued->slot.index;
}

static void next_task(struct world_rank *r) {
    struct spin_world *w = r->world;
    struct world_task *queued = pool_at(&w->tasks, r->queue_first);
    r->queue_first = queued->next;
    pool_give(&w->tasks, queued);
    begin(r, queued->task);
}

void world_resume_task(struct world_rank *r, const struct nic_task *task) {
    struct spin_world *w = r->world;
    struct world_executor *e = task->driver;
    if (!e->blocked) { /* it runs still, in the slice that has just been told to wait */
        e->resumed = true;
        return;
    }
    e->blocked = false;
    uint64_t late = w->now_ps - local_ps(e); /* it has waited until now */
    e->base_ps += late;
    world_event(r, w->now_ps, WORLD_HPU_EVENT, e->index, 0, 0);
}

void world_on_hpu(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    struct world_executor *e = w->executor[event->with.u32[0]];
    struct world_rank *r = &w->rank[e->rank];
    w->now_ps = event->at_ps;
    run_slice(e);
    if (e->blocked && e->resumed)
        world_resume_task(r, e->task);
    e->resumed = false;
    world_pump(&w->rank[e->rank]);
}

static void leave_hpu(struct world_rank *r, const struct world_end *end) {
    r->hpus_busy &= ~(1ull << end->hpu_number);
}

void world_on_end(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    struct world_end *at = pool_at(&w->ends, event->with.u32[0]), end = *at;
    struct world_rank *r = &w->rank[end.rank];
    w->now_ps = event->at_ps;
    w->counts.handlers++;
    w->counts.instructions += end.instructions;
    w->counts.handler_ps += w->now_ps - end.start_ps;
    if (w->trace_path || w->picture_path) {
        const struct spin_function *f = spin_image_at(end.task->handlers->image, end.task->entry);
        world_note_fault(w, end.rank, ROW_HPU + end.hpu_number, f ? f->name : "handler",
                         end.start_ps, w->now_ps, end.task->bytes,
                         end.fault ? hpu_fault_name(end.fault) : NULL);
    }
    if (end.executor) {
        port_end(&end.executor->port);
        executor_end(end.executor);
    }
    pool_give(&w->ends, at);
    /* Its HPU is the first's that waits, and what the card has run now comes after that. */
    bool waits = r->queue_first != WORLD_NONE;
    if (!waits)
        leave_hpu(r, &end);
    nic_handler_done(r->nic, end.task_number, end.code, w->now_ps);
    if (waits) {
        leave_hpu(r, &end);
        next_task(r);
    }
    world_pump(r);
}
