/* Handlers on a live card: run by whoever drives it, one after the other, to their end or until
 * they wait. What a handler needs while it lives (registers, stack, packet, heap) is an executor,
 * which is kept for the next one. Time is not modelled: a cycle is an instruction, and the watchdog
 * counts these. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hpu/code_store.h"
#include "hpu/hpu_invoke.h"
#include "hpu/image_store.h"
#include "live/live_card_private.h"
#include "nic/flow.h"
#include "nic/nic_call.h"

#define GUARD_BYTES 64u
#define BUDGET      100000000u /* instructions: a handler that loops ends after some 50 ms */

#define PACKET_ADDRESS (MAP_L1_BASE + MAP_L1_PACKETS + CALL_HEADROOM)
#define HEAP_ADDRESS   (MAP_L1_BASE + MAP_L1_SCRATCH)
#define STATE_ADDRESS  (HEAP_ADDRESS + HEAP_BYTES + GUARD_BYTES)

struct live_executor {
    struct hpu hpu; /* first: the port's card finds its executor through it */
    struct port port;
    struct live_card *card;
    const struct nic_task *task;
    uint32_t number;
    bool begun, blocked, resumed;
    struct seen_handler *seen;
    const struct live_code *code; /* whose windows it has */
    uint8_t *state;
    uint32_t state_bytes;
    struct live_executor *next, *all;
    struct invoke_context context;
    struct invoke_core core;
    uint8_t *packet, *heap;
    _Alignas(16) uint8_t stack[MAP_STACK_SIZE]; /* atomics need what the handler sees */
};
_Static_assert(offsetof(struct live_executor, stack) % 16 == MAP_L1_RUNTIME % 16,
               "atomics on the stack need the host's alignment to be the handler's");

/* An image as it runs: its program, and its constants and data on this card. */
struct live_code {
    const struct spin_image *image;
    struct hpu_code *code;
    uint8_t *constants, *data, *handler_data;
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
    const struct hpu_code_key key = {.program = im->code.content,
                                     .base = im->code.address,
                                     .bytes = im->code.bytes,
                                     .mode = HPU_FUNCTIONAL,
                                     .timing = hpu_timing_find("ri5cy"),
                                     .with_float = im->limits.with_float,
                                     .jit = card->options.jit};
    if (c->constants && c->data && c->handler_data && !hpu_code_share(&c->code, &key, &err))
        return c;
    code_free(c);
    return NULL;
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
    return nic_command_host(e->card->nic, e->task, space);
}

static enum hpu_access issue(struct port *p, const struct port_command *c) {
    const struct live_executor *e = executor_of(p);
    return nic_command(e->card->nic, e->task, p, c, live_time(e->card));
}

static enum hpu_access over(struct port *p, uint32_t handle, bool wait) {
    const struct live_executor *e = executor_of(p);
    return nic_command_over(e->card->nic, e->task, p, handle, wait);
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
    e->number = card->executors++;
    if (e->packet && e->heap) {
        e->all = card->all;
        card->all = e;
        return e;
    }
    free(e->packet);
    free(e->heap);
    free(e);
    return NULL;
}

static void enqueue(struct live_card *card, struct live_executor *e) {
    e->next = NULL;
    *card->queued_end = e;
    card->queued_end = &e->next;
}

/* Windows stay from one handler to the next where they are the same. */
static void give_memory(struct live_executor *e, const struct live_code *code) {
    const struct portals_handlers *h = e->task->handlers;
    const struct spin_image *im = h->image;
    if (e->code == code && e->state == h->state && e->state_bytes == h->state_bytes)
        return;
    e->code = code;
    e->state = h->state;
    e->state_bytes = h->state_bytes;
    e->context = (struct invoke_context){
        .image = im,
        .constants = {im->constants.address, im->constants.bytes, code->constants, NULL},
        .data = {im->data.address, im->data.bytes, code->data, NULL},
        .handler_data = {im->handler_data.address, im->handler_data.bytes, code->handler_data,
                         NULL},
        .memory = {STATE_ADDRESS, h->state_bytes, h->state, NULL},
        .memory_region = HPU_REGION_L1};
    e->core =
        (struct invoke_core){.stack = e->stack, .heap = {HEAP_ADDRESS, HEAP_BYTES, e->heap, NULL}};
    hpu_init(&e->hpu, code->code, 0);
    port_open(&e->port, &e->hpu, &port_card, im->info.is_pspin);
    e->port.mtu_bytes = LIVE_MTU_BYTES;
    hpu_invoke_open(&e->port, &e->context, &e->core);
}

static void call_handler(struct live_executor *e) {
    struct invoke_call call = nic_task_call(e->task, e->packet, PACKET_ADDRESS, STATE_ADDRESS);
    const struct port_host memory = nic_command_host(e->card->nic, e->task, PORT_AT_ADDRESS);
    e->context.host_address = memory.base;
    e->context.host_bytes = memory.bytes;
    call.budget_cycles = BUDGET;
    e->hpu.cycles = e->hpu.instret = 0;
    hpu_invoke_begin(&e->port, &e->context, &e->core, &call);
}

/* ---- a handler's life ---- */

static void finish(struct live_executor *e, int32_t ending) {
    struct live_card *card = e->card;
    const struct nic_task *task = e->task;
    e->next = card->idle;
    card->idle = e;
    nic_handler_done(card->nic, task, ending, live_time(card));
}

static void tell_fault(const struct live_executor *e) {
    const struct spin_image *im = e->task->handlers->image;
    const struct spin_function *f = spin_image_at(im, e->task->entry);
    char ending[400];
    spin_ending_text(im, (enum spin_ending)e->hpu.fault, e->hpu.pc, e->hpu.fault_address,
                     &e->port.refusal, ending, sizeof ending);
    fprintf(stderr, "openspin: %.60s: %s\n", f ? f->name : "a handler", ending);
}

static void run(struct live_executor *e) {
    bool again = e->begun;
    if (!e->begun) {
        const struct live_code *code = code_of(e->card, e->task->handlers->image);
        if (!code) {
            finish(e, FLOW_SEGV);
            return;
        }
        give_memory(e, code);
        e->seen = live_seen_handler(&e->card->seen, e->task);
        call_handler(e);
        e->begun = true;
    }
    e->resumed = false;
    uint64_t began_ns = live_seen_begins(e->seen, again);
    enum hpu_stop stop = hpu_run(&e->hpu, UINT64_MAX);
    live_seen_ends(e->seen, began_ns, stop == HPU_FAULTED);
    if (stop == HPU_WAITING) {
        e->blocked = !e->resumed;
        if (e->resumed)
            enqueue(e->card, e);
        return;
    }
    if (stop == HPU_FAULTED)
        tell_fault(e);
    port_end(&e->port);
    finish(e, flow_code(stop != HPU_DONE, e->context.image->info.is_pspin, (int32_t)e->hpu.x[10]));
}

/* The card calls these from inside of its functions: they only queue. */
void live_hpu_start(void *context, struct nic_task *task) {
    struct live_card *card = context;
    struct live_executor *e = executor_take(card);
    if (!e) { /* no memory: it ends as if it had failed */
        task->driver = card->failed;
        card->failed = task;
        return;
    }
    task->driver = e;
    e->task = task;
    e->begun = e->blocked = e->resumed = false;
    enqueue(card, e);
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
    for (const struct live_executor *e = card->queued; e; e = e->next)
        waiting++;
    return waiting;
}

bool live_hpu_work(struct live_card *card) {
    if (!card->queued && !card->failed)
        return false;
    while (card->failed) {
        const struct nic_task *task = card->failed;
        card->failed = task->driver;
        nic_handler_done(card->nic, task, FLOW_SEGV, live_time(card));
    }
    while (card->queued) {
        struct live_executor *e = card->queued;
        card->queued = e->next;
        if (!card->queued)
            card->queued_end = &card->queued;
        run(e);
    }
    return true;
}

void live_hpu_init(struct live_card *card) {
    card->queued_end = &card->queued;
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
