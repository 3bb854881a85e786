/* Handlers on a live card: run by whoever drives it, one after the other, or by the card's workers
 * (live_workers.c), to their end or until they wait. What a handler needs while it lives
 * (registers, stack, packet, heap) is an executor, which it gets when it begins, and which is kept
 * for the next one: a task that waits for its turn has none. Time is not modelled: a cycle is an
 * instruction, and the watchdog counts these.
 *
 * Who runs a handler has its executor for itself, and needs no lock. Everything else, the card and
 * what the executor is asked for (its commands), is under the card's lock: whoever drives has it,
 * and a worker takes it. What the task refers to stays until nic_handler_done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hpu/code_store.h"
#include "hpu/hpu_invoke.h"
#include "hpu/image_store.h"
#include "hpu/jit.h"
#include "hpu/refusal.h"
#include "live/live_card_private.h"
#include "nic/flow.h"
#include "nic/nic_call.h"

#define BUDGET 100000000u /* instructions: a handler that loops ends after some 50 ms */

/* Of one handler: the card takes about a microsecond for each, a thousand times as long as the
 * handler for an instruction. */
#define MESSAGES 100000u

#define LATE_NS (1000 * LIVE_MS) /* for handlers that wait while their interface is closed */

#define MOST_TOLD 100u /* faults of handlers, in words */

#define PAD_BYTES 4096u /* as in worlds and 'card run' where nothing is said */

struct live_executor {
    struct hpu hpu; /* first: the port's card finds its executor through it */
    struct port port;
    struct live_card *card;
    const struct nic_task *task;
    uint64_t task_number;
    uint32_t number; /* of this executor: its HPU, as handlers see it */
    bool begun, blocked, resumed;
    bool returned; /* its last call was a payload handler, has returned, and may be made again */
    uint32_t messages;      /* so far, of which MESSAGES may be */
    uint32_t code_returned; /* of a handler that has returned */
    struct live_seen_handler *seen;
    uint64_t host_bytes;          /* of memory by address, for PsPIN's handlers, */
    const struct live_code *runs; /* its handler's */
    const struct live_code *code; /* whose windows it has */
    uint64_t host_at;             /* and where that begins */
    uint8_t *state;
    uint32_t state_bytes;
    struct live_executor *next, *all;
    struct invoke_context context;
    struct invoke_core core;
    uint8_t *packet, *heap;
    uint64_t end_ns; /* when it ends in any case; 0: its interface is not being closed */
    bool ends;       /* its next command is a fault */
    _Alignas(16) uint8_t stack[MAP_STACK_SIZE]; /* atomics need what the handler sees */
};
_Static_assert(offsetof(struct live_executor, stack) % 16 == MAP_L1_RUNTIME % 16,
               "atomics on the stack need the host's alignment to be the handler's");

/* An image as it runs: its program, and its constants, data and scratchpad on this card. */
struct live_code {
    const struct spin_image *image;
    struct hpu_code *code;
    uint8_t *constants, *data, *handler_data;
    uint8_t *pad; /* of an image of PsPIN's interface: the card is one cluster */
    struct live_code *next;
};

/* ---- images ---- */

static uint8_t *copy_of(const struct image_segment *s) {
    uint8_t *copy = calloc(1, s->bytes ? s->bytes : 1);
    if (copy && s->filled)
        memcpy(copy, s->content, s->filled);
    return copy;
}

static void code_free(struct live_code *c) {
    hpu_code_release(c->code);
    free(c->constants);
    free(c->data);
    free(c->handler_data);
    free(c->pad);
    free(c);
}

static struct live_code *code_new(const struct live_card *card, const struct spin_image *im) {
    struct live_code *c = calloc(1, sizeof *c);
    struct spin_error err;
    if (!c)
        return NULL;
    c->image = im;
    c->constants = copy_of(&im->constants);
    c->data = copy_of(&im->data);
    c->handler_data = copy_of(&im->handler_data);
    c->pad = calloc(1, PAD_BYTES);
    const struct hpu_code_key key = {.program = im->code.content,
                                     .base = im->code.address,
                                     .bytes = im->code.bytes,
                                     .mode = HPU_FUNCTIONAL,
                                     .timing = hpu_timing_find("ri5cy"),
                                     .with_float = im->limits.with_float,
                                     .jit = card->options.jit,
                                     .is_alone = !card->workers};
    if (c->constants && c->data && c->handler_data && c->pad &&
        !hpu_code_share(&c->code, &key, &err))
        return c;
    code_free(c);
    return NULL;
}

/* Loading LLVM takes long: not when the first packet is there, with the card's lock. */
void live_hpu_prepare(void *context) {
    const struct live_card *card = context;
    if (card->options.jit != SPIN_JIT_OFF)
        hpu_jit_load();
}

static struct live_code *code_of(struct live_card *card, const struct spin_image *im) {
    for (struct live_code *c = card->code; c; c = c->next)
        if (c->image == im)
            return c;
    struct live_code *c = code_new(card, im);
    if (c) {
        image_store_keep(card->images, im); /* so that no other is ever where it is */
        c->next = card->code;
        card->code = c;
    }
    return c;
}

/* ---- behind the port ---- */

static struct live_executor *executor_of(struct port *p) {
    return (struct live_executor *)p->hpu;
}

static struct port_host host(struct port *p, uint32_t space) {
    const struct live_executor *e = executor_of(p);
    live_worker_enter(e->card);
    struct port_host has = nic_command_host(e->card->nic, e->task, space);
    live_worker_leave(e->card);
    return has;
}

static enum hpu_access end_late(struct port *p, uint32_t command) {
    refusal_say(&p->refusal, command, "its interface is being closed");
    return port_refuse(p);
}

static enum hpu_access end_flood(struct port *p, uint32_t command) {
    refusal_say(&p->refusal, command, "more than %u messages of one handler", MESSAGES);
    return port_refuse(p);
}

static enum hpu_access issue(struct port *p, const struct port_command *c) {
    struct live_executor *e = executor_of(p);
    bool sends = c->effect == PORT_MESSAGE || c->effect == PORT_PACKET;
    if (e->ends)
        return end_late(p, c->number);
    if (sends && e->messages == MESSAGES)
        return end_flood(p, c->number);
    live_worker_enter(e->card);
    enum hpu_access done = nic_command(e->card->nic, e->task, p, c, live_time(e->card));
    live_worker_leave(e->card);
    e->messages += sends && done == HPU_ACCESS_OK;
    return done;
}

static enum hpu_access over(struct port *p, uint32_t handle, bool wait) {
    const struct live_executor *e = executor_of(p);
    if (e->ends)
        return end_late(p, 0);
    live_worker_enter(e->card);
    enum hpu_access done = nic_command_over(e->card->nic, e->task, p, handle, wait);
    live_worker_leave(e->card);
    return done;
}

static void print(struct port *p, const char *line) {
    const struct live_executor *e = executor_of(p);
    fprintf(stderr, "[%u] %s\n", e->number, line);
}

static const struct port_card port_card = {
    .host = host, .issue = issue, .over = over, .print = print};

/* ---- executors ---- */

static struct live_executor *executor_take(struct live_card *card) {
    struct live_executor *e = card->idle;
    if (e) {
        card->idle = e->next;
        return e;
    }
    e = aligned_alloc(_Alignof(struct live_executor), sizeof *e);
    if (!e)
        return NULL;
    memset(e, 0, sizeof *e);
    e->packet = malloc(CALL_HEADROOM + LIVE_MTU_BYTES);
    e->heap = calloc(1, HEAP_BYTES);
    e->card = card;
    if (e->packet && e->heap) {
        e->number = card->executors++;
        e->all = card->all;
        card->all = e;
        return e;
    }
    free(e->packet);
    free(e->heap);
    free(e);
    return NULL;
}

static void executor_give(struct live_executor *e) {
    if (!e)
        return;
    e->next = e->card->idle;
    e->card->idle = e;
}

/* Windows stay from one handler to the next where they are the same. False: it cannot have them. */
static bool give_memory(struct live_executor *e, const struct live_code *code) {
    const struct portals_handlers *h = e->task->handlers;
    const struct spin_image *im = h->image;
    if (e->code == code && e->state == h->state && e->state_bytes == h->state_bytes)
        return true;
    e->returned = false;
    e->code = NULL;
    e->state = h->state;
    e->state_bytes = h->state_bytes;
    e->context = (struct invoke_context){
        .image = im,
        .constants = {im->constants.address, im->constants.bytes, code->constants, NULL},
        .data = {im->data.address, im->data.bytes, code->data, NULL},
        .handler_data = {im->handler_data.address, im->handler_data.bytes, code->handler_data,
                         NULL},
        .memory = {NIC_HANDLER_STATE, h->state_bytes, h->state, NULL},
        .memory_region = HPU_REGION_L1,
        .scratchpad = {{NIC_HANDLER_PAD, im->info.is_pspin ? PAD_BYTES : 0, code->pad, NULL}}};
    e->core = (struct invoke_core){.stack = e->stack,
                                   .heap = {NIC_HANDLER_HEAP, HEAP_BYTES, e->heap, NULL}};
    struct hpu_direct direct[2];
    memcpy(direct, e->hpu.direct, sizeof direct); /* found with the lock */
    hpu_init(&e->hpu, code->code, e->number);
    memcpy(e->hpu.direct, direct, sizeof direct);
    port_open(&e->port, &e->hpu, &port_card, im->info.is_pspin);
    e->port.mtu_bytes = e->card->mtu_bytes;
    if (!hpu_invoke_open(&e->port, &e->context, &e->core))
        return false;
    e->code = code;
    return true;
}

static void call_handler(struct live_executor *e) {
    struct invoke_call call;
    nic_task_call(&call, e->task, e->packet);
    e->context.host_address = e->host_at;
    e->context.host_bytes = e->host_bytes;
    call.budget_cycles = BUDGET;
    e->hpu.cycles = e->hpu.instret = 0;
    hpu_invoke_begin(&e->port, &e->context, &e->core, &call);
}

/* Whether the call before differs from this one in its packet only: as those of one message do. */
static bool is_next(const struct live_executor *e) {
    const struct nic_task *t = e->task;
    return e->returned && t->kind == NIC_PAYLOAD_HANDLER && !t->user_hdr_bytes &&
           t->entry == e->hpu.entry && t->message_id == e->hpu.task.flow &&
           e->host_at == e->context.host_address && e->host_bytes == e->context.host_bytes;
}

static struct invoke_end call_next(struct live_executor *e) {
    const struct nic_task *t = e->task;
    uint8_t *packet = e->packet + CALL_HEADROOM;
    if (t->owns_data)
        packet = (uint8_t *)(uintptr_t)t->data;
    else
        memcpy(packet, t->data, t->bytes);
    return hpu_invoke_next(&e->hpu, packet, t->bytes, (uint32_t)t->offset);
}

/* ---- the queue ---- */

/* The card calls these from inside of its functions: they only queue. */
void live_hpu_start(void *context, struct nic_task *task) {
    struct live_card *card = context;
    task->driver = NULL; /* the next one, until it has an executor */
    if (card->fresh)
        card->fresh_last->driver = task;
    else
        card->fresh = task;
    card->fresh_last = task;
    live_workers_call(card);
}

static void enqueue(struct live_card *card, struct live_executor *e) {
    e->next = NULL;
    *card->resumed_end = e;
    card->resumed_end = &e->next;
    live_workers_call(card);
}

void live_hpu_resume(void *context, struct nic_task *task) {
    struct live_executor *e = task->driver;
    e->resumed = true;
    if (!e->blocked)
        return; /* it runs still, and has just been told to wait */
    e->blocked = false;
    enqueue(context, e);
}

uint64_t live_hpu_waiting(const struct live_card *card) {
    uint64_t waiting = 0;
    for (const struct live_executor *e = card->resumed; e; e = e->next)
        waiting++;
    for (const struct nic_task *t = card->fresh; t; t = t->driver)
        waiting++;
    return waiting;
}

/* The host memory that a handler has until the card's lock is given back. DMA goes straight there
 * where nobody looks at it and no page can be absent; workers run handlers without the lock. */
static void find_memory(struct live_executor *e) {
    const struct live_card *card = e->card;
    bool direct = !card->workers && !card->pages && !card->record;
    const struct port_host has = nic_command_host(card->nic, e->task, PORT_AT_ADDRESS);
    e->host_at = has.base;
    e->host_bytes = has.bytes;
    if (direct)
        nic_command_direct(e->task, e->hpu.direct);
    else
        memset(e->hpu.direct, 0, sizeof e->hpu.direct);
}

/* PtlNIFini waits for handlers, but not for one that never ends. One that does not wait ends by its
 * budget. */
static bool is_late(struct live_executor *e) {
    if (!nic_task_is_late(e->task))
        return false;
    uint64_t now_ns = live_now_ns();
    if (!e->end_ns)
        e->end_ns = now_ns + LATE_NS;
    return now_ns >= e->end_ns;
}

static struct live_executor *take_resumed(struct live_card *card) {
    struct live_executor *e = card->resumed;
    if (!e)
        return NULL;
    card->resumed = e->next;
    if (!card->resumed)
        card->resumed_end = &card->resumed;
    e->resumed = false;
    e->ends = is_late(e);
    find_memory(e);
    return e;
}

/* A task gets its executor; false: no memory. */
static bool begin(struct live_executor *e, struct nic_task *task) {
    e->begun = e->blocked = e->resumed = e->ends = false;
    e->end_ns = 0;
    e->messages = 0;
    e->task = task;
    e->task_number = task->number;
    e->runs = code_of(e->card, task->handlers->image);
    find_memory(e);
    task->driver = e;
    return e->runs;
}

struct live_executor *live_hpu_take(struct live_card *card) {
    struct live_executor *e = take_resumed(card);
    while (!e && card->fresh && (card->idle || card->executors < LIVE_HPUS)) {
        struct nic_task *task = card->fresh;
        card->fresh = task->driver;
        e = executor_take(card);
        if (e && begin(e, task))
            return e;
        executor_give(e);
        e = NULL;
        nic_handler_done(card->nic, task->number, FLOW_SEGV,
                         live_time(card)); /* as if it had failed */
    }
    return e;
}

/* ---- a handler's life ---- */

/* With the lock: source lines are looked up in the image. Whoever sends may make handlers fail as
 * often as it likes. */
static void tell_fault(const struct live_executor *e) {
    if (e->card->faults++ >= MOST_TOLD) {
        if (e->card->faults == MOST_TOLD + 1)
            fprintf(stderr, "openspin: more faults of handlers are not told\n");
        return;
    }
    const struct spin_image *im = e->task->handlers->image;
    const struct spin_function *f = spin_image_at(im, e->task->entry);
    char ending[400];
    spin_ending_text(im, (enum spin_ending)e->hpu.fault, e->hpu.pc, e->hpu.fault_address,
                     &e->port.refusal, ending, sizeof ending);
    fprintf(stderr, "openspin: %.60s: %s\n", f ? f->name : "a handler", ending);
}

/* It ends as if it had met memory that it does not have, before its first instruction. */
static enum hpu_stop refuse_memory(struct live_executor *e) {
    e->returned = false;
    e->hpu.pc = e->task->entry;
    e->hpu.fault = HPU_FAULT_SEGV;
    e->hpu.fault_address = e->context.memory.address;
    return HPU_FAULTED;
}

enum hpu_stop live_hpu_run(struct live_executor *e) {
    bool again = e->begun, next = false;
    if (!again) {
        if (!give_memory(e, e->runs))
            return refuse_memory(e);
        if (!e->seen || !live_seen_is(e->seen, e->task))
            e->seen = live_seen_handler(&e->card->seen, e->task);
        next = is_next(e);
        if (!next)
            call_handler(e);
        e->begun = true;
    }
    uint64_t began_ns = live_seen_begins(e->seen, again, !e->card->workers);
    bool traces = e->card->record && live_record_traces(e->card->record);
    uint64_t traced_ns = traces ? live_now_ns() : 0;
    struct invoke_end end;
    if (next) {
        end = call_next(e);
    } else {
        end.stop = hpu_run(&e->hpu, UINT64_MAX);
        end.code = e->hpu.x[10];
    }
    enum hpu_stop stop = end.stop;
    e->code_returned = end.code;
    e->returned = stop == HPU_DONE && e->task->kind == NIC_PAYLOAD_HANDLER && !e->port.is_pspin;
    live_seen_ends(e->seen, began_ns, stop == HPU_FAULTED);
    if (traced_ns)
        live_record_box(e->card->record, RECORD_HPU + e->number, e->seen->is.name, traced_ns,
                        live_now_ns(), e->task->bytes);
    if (stop != HPU_WAITING)
        port_end(&e->port);
    return stop;
}

void live_hpu_ran(struct live_executor *e, enum hpu_stop stop) {
    struct live_card *card = e->card;
    if (stop == HPU_WAITING) {
        e->blocked = !e->resumed;
        if (e->resumed)
            enqueue(card, e);
        return;
    }
    if (stop == HPU_FAULTED)
        tell_fault(e);
    uint64_t task_number = e->task_number;
    int32_t code =
        flow_code(stop != HPU_DONE, e->context.image->info.is_pspin, (int32_t)e->code_returned);
    executor_give(e);
    nic_handler_done(card->nic, task_number, code, live_time(card));
}

bool live_hpu_work(struct live_card *card) {
    bool worked = false;
    for (struct live_executor *e; !card->workers && (e = live_hpu_take(card)); worked = true)
        live_hpu_ran(e, live_hpu_run(e));
    return worked;
}

void live_hpu_init(struct live_card *card) {
    card->resumed_end = &card->resumed;
}

void live_hpu_clear(struct live_card *card) {
    while (card->all) {
        struct live_executor *e = card->all;
        card->all = e->all;
        free(e->port.heap.begins);
        free(e->packet);
        free(e->heap);
        free(e);
    }
    while (card->code) {
        struct live_code *c = card->code;
        card->code = c->next;
        image_store_release(card->images, (struct spin_image *)(uintptr_t)c->image);
        code_free(c);
    }
}
