/* Cards with their Portals in a small world: a network that may lose, double, corrupt and delay,
 * memory that may take its time, and handlers that are functions of the test. Everything happens at
 * a virtual time; equal times in the order in which they were asked for. Fuzzers use it too, with
 * checks of their own (fuzz/fuzz.h). */
#ifndef TESTS_NICWORLD_H
#define TESTS_NICWORLD_H

#include "base/rng.h"
#ifndef CHECK
#include "lib/test.h"
#endif
#include "hpu/port.h"
#include "nic/nic.h"
#include "nic/portals.h"
#include "nic/wire.h"
#include "spin/driver.h"

#define NODES     8
#define PENDING   8192
#define BLOCKED   (-1)    /* of a handler: call me again after `resume` */
#define STATE_AT  0x1000u /* where a handler finds its memory */
#define PACKET_AT 0x100000u
#define STACK_AT  0x2000u

struct nicworld;
struct node;
typedef int32_t handler_function(struct nicworld *w, struct node *n, const struct nic_task *task);

struct node {
    struct nicworld *world;
    struct nic *nic;
    struct portals *portals;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_image_h image;
    uint32_t index, raised;
    handler_function *handler[NIC_CLEANUP_HANDLER + 1]; /* by kind */
    uint32_t ran[NIC_CLEANUP_HANDLER + 1];
    uint64_t stack[64];
    bool dead;                /* nothing reaches it and nothing comes from it */
    struct world_core *cores; /* of handlers that run */
    struct nic_packet lent;
    uint32_t lent_often, lent_sent;
};

enum pending_kind { PACKET, LEFT, MOVED, RUN, RESUME, ENDED, PAGED_IN };

struct pending {
    uint64_t time, order;
    enum pending_kind kind;
    uint32_t node;
    struct nic_packet *packet;
    struct nic_departed how;
    struct nic_move move;
    struct nic_task *task;
    uint64_t task_number;
    int32_t ending;
    struct nic_pages pages;
    bool again; /* the card was told that already */
};

/* A page of host memory that is being paged in. */
struct absent_page {
    uint32_t node;
    uintptr_t number; /* address / PAGE */
};
#define PAGE   256 /* small, so that there are many */
#define ABSENT 1024

struct nicworld {
    struct nic_pool *pool;
    struct node node[NODES];
    uint32_t nodes;
    struct nic_address first; /* of node 0; by default 0, 1 */
    uint64_t order, now;
    struct rng rng;
    uint32_t loss, doubling; /* of 1000 */
    uint32_t corruption;     /* of 1000: arrives, with a bit changed, at a link that sees it */
    uint32_t run_bytes;      /* that may be sent in place, at once */
    uint64_t runs, unreadable_runs; /* sent, of more than one packet; not sent */
    uint64_t told_full[2];          /* that a peer is not, or is, full of requests */
    bool lent_in;    /* packets arrive in memory of the driver, and are there for the call only */
    bool at_once;    /* what is asked of the driver is mostly done at once, */
    uint32_t faults; /* host memory that is not there, of 1000 moves */
    bool gone;       /* host memory, once an atomic is to be performed */
    uint32_t retold; /* of 1000 ends of what was pending: the card is told once more, later */
    /* Moves of 1000 that find that a page has become absent, by where; and page-ins of 1000 that
     * fail. */
    uint32_t source_absence, destination_absence, unresolvable;
    uint32_t page_spread; /* of a page-in */
    struct absent_page absent[ABSENT];
    uint32_t absents, page_ins;
    uint32_t damage; /* of 1000 packets of blocks: arrive with damaged data, and are marked */
    /* Sees every packet that is sent, and that arrives. */
    void (*watch)(struct nicworld *w, const struct nic_packet *packet, bool arrives);
    uint32_t spread;         /* of a packet's way, */
    uint32_t memory_spread;  /* of a transfer, */
    uint32_t handler_spread; /* of a handler's start */
    struct nic_config config;
    struct spin_refusal refusal; /* of the last command that was refused */
    uint64_t steps;
    bool physical;
    uint32_t count;
    struct pending pending[PENDING]; /* the last: nobody clears it */
};

__attribute__((unused)) static void world_add(struct nicworld *w, uint64_t delay,
                                              struct pending p) {
    CHECK(w->count < PENDING);
    p.time = w->now + delay;
    p.order = w->order++;
    w->pending[w->count++] = p;
}

__attribute__((unused)) static uint64_t world_spread(struct nicworld *w, uint32_t spread) {
    return spread ? rng_below(&w->rng, spread) : 0;
}

/* A run travels as one, and comes as packets. */
__attribute__((unused)) static void world_fly_run(struct nicworld *w,
                                                  const struct nic_packet *run) {
    uint8_t head[WIRE_JOINED_BYTES];
    uint32_t each, left = run->bytes;
    struct nic_packet all;
    wire_encode_joined(run, run->each, head);
    const char *wrong = wire_decode_joined(&all, &each, w->config.mtu_bytes, head,
                                           WIRE_JOINED_BYTES + (uint64_t)run->bytes);
    if (wrong)
        TEST_FAIL("a run that a card has sent is refused: %s", wrong);
    w->runs++;
    for (uint32_t i = 0; i < run->run; i++) {
        struct nic_packet *arrives = nic_packet_new(w->pool);
        if (!arrives)
            return;
        uint8_t *data = arrives->data;
        struct nic_pool *pool = arrives->pool;
        memcpy(arrives, &all, offsetof(struct nic_packet, message));
        arrives->references = 1;
        arrives->pool = pool;
        arrives->bytes = left < each ? left : each;
        arrives->last = all.last && arrives->bytes == left;
        arrives->prompt = all.prompt && arrives->bytes == left;
        arrives->sequence += i;
        arrives->offset += i * each;
        memcpy(data, run->data + i * each, arrives->bytes);
        left -= arrives->bytes;
        struct pending p = {.kind = PACKET, .node = run->target.nid, .packet = arrives};
        world_add(w, 10 + world_spread(w, w->spread), p);
    }
    CHECK_EQ(left, 0);
}

/* Packets travel as bytes: what arrives was encoded and decoded. */
__attribute__((unused)) static void world_fly(struct nicworld *w, struct nic_packet *packet) {
    uint8_t bytes[WIRE_HEADER_BYTES + 8192];
    if (packet->run > 1) {
        world_fly_run(w, packet);
        return;
    }
    uint32_t length = wire_encode(packet, bytes);
    struct nic_packet *arrives = nic_packet_new(w->pool);
    CHECK_EQ(length, nic_packet_bytes(packet));
    for (uint32_t i = 0; packet->bad && i < packet->bytes; i++)
        CHECK_EQ(packet->data[i], 0);   /* nothing of what its memory held before */
    if (!arrives && w->config.reliable) /* no memory: once more, for nothing may be lost here */
        arrives = nic_packet_new(w->pool);
    if (!arrives)
        return;
    if (w->corruption && rng_below(&w->rng, 1000) < w->corruption) {
        bytes[rng_below(&w->rng, length)] ^= (uint8_t)(1u << rng_below(&w->rng, 8));
        wire_decode(arrives, w->config.mtu_bytes, bytes, length); /* whatever it says */
        nic_packet_release(arrives);
        return;
    }
    const char *wrong = wire_decode(arrives, w->config.mtu_bytes, bytes, length);
    if (wrong)
        TEST_FAIL("a packet that a card has sent is refused: %s", wrong);
    if (arrives->kind == NIC_BLOCK && w->damage && rng_below(&w->rng, 1000) < w->damage) {
        arrives->tag.corrupt = true;
        memset(arrives->data, 0xee, arrives->bytes);
    }
    struct pending p = {.kind = PACKET, .node = packet->target.nid, .packet = arrives};
    world_add(w, 10 + world_spread(w, w->spread), p);
}

/* A place of the wire, or none now and then. */
__attribute__((unused)) static struct nic_packet *world_slot(void *context,
                                                             struct nic_address target) {
    struct node *n = context;
    struct nicworld *w = n->world;
    (void)target;
    if (w->at_once && !rng_below(&w->rng, 8))
        return NULL;
    memset(&n->lent, 0xa5, sizeof n->lent); /* as its last user left it */
    n->lent.references = 0;
    n->lent.pool = w->pool;
    n->lent_often++;
    return &n->lent;
}

__attribute__((unused)) static enum nic_status world_send(void *context, struct nic_packet *packet,
                                                          const struct nic_departed *how) {
    struct node *n = context;
    struct nicworld *w = n->world;
    n->lent_sent += packet == &n->lent;
    bool run = packet->run, unreadable = run && rng_below(&w->rng, 1000) < 10 * w->faults;
    if (unreadable && packet->run > 1) {
        w->unreadable_runs++;
        return NIC_FAULT;
    }
    if (unreadable)
        nic_packet_blank(packet);
    if (w->watch)
        w->watch(w, packet, false);
    if (!n->dead && packet->target.nid < w->nodes && !w->node[packet->target.nid].dead &&
        rng_below(&w->rng, 1000) >= w->loss) {
        if (rng_below(&w->rng, 1000) < w->doubling)
            world_fly(w, packet);
        world_fly(w, packet);
    }
    if (run)
        return unreadable ? NIC_FAULT : NIC_DONE;
    if (w->at_once && rng_below(&w->rng, 8))
        return NIC_DONE;
    struct pending p = {.kind = LEFT, .node = n->index};
    if (!nic_leaves_later(n->nic, how, &p.how))
        return NIC_DONE;
    world_add(w, 1, p);
    return NIC_PENDING;
}

__attribute__((unused)) static void world_copy(const struct nic_move *m) {
    if (m->kind == NIC_FETCH)
        memcpy(m->local, m->host, m->bytes);
    if (m->kind == NIC_STORE)
        memcpy(m->host, m->local, m->bytes);
}

/* When the last small move ends that touches the same host memory: 0 if there is none. */
__attribute__((unused)) static uint64_t world_before(const struct nicworld *w, const struct node *n,
                                                     const struct nic_move *m) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < w->count && m->bytes <= NIC_ORDERED_BYTES; i++) {
        const struct nic_move *other = &w->pending[i].move;
        if (w->pending[i].kind == MOVED && w->pending[i].node == n->index && !w->pending[i].again &&
            other->bytes <= NIC_ORDERED_BYTES && other->host < m->host + m->bytes &&
            m->host < other->host + other->bytes && w->pending[i].time > last)
            last = w->pending[i].time;
    }
    return last;
}

__attribute__((unused)) static bool world_is_absent(const struct nicworld *w, const struct node *n,
                                                    const struct nic_move *m) {
    for (uint32_t i = 0; i < w->absents && !m->on_card; i++)
        if (w->absent[i].node == n->index && w->absent[i].number >= (uintptr_t)m->host / PAGE &&
            w->absent[i].number <= ((uintptr_t)m->host + m->bytes - 1) / PAGE)
            return true;
    return false;
}

/* The operating system takes a page away that the move meets; the move finds it, and the page-in
 * begins, of that page, of the block or of all of the transfer. */
__attribute__((unused)) static void world_take_page(struct nicworld *w, struct node *n,
                                                    const struct nic_move *m) {
    struct nic_extent e = nic_move_extent(n->nic, m);
    uint64_t ways[] = {1, e.block_bytes, e.transfer_bytes};
    uintptr_t first = (uintptr_t)m->host / PAGE;
    uintptr_t last = ((uintptr_t)m->host + ways[rng_below(&w->rng, 3)] - 1) / PAGE;
    CHECK(e.block_bytes >= m->bytes && e.transfer_bytes >= e.block_bytes);
    bool failed = rng_below(&w->rng, 1000) < w->unresolvable;
    uint64_t delay = 0;
    for (uintptr_t page = first; page <= last; page++) {
        bool is = false;
        for (uint32_t i = 0; i < w->absents; i++)
            is |= w->absent[i].node == n->index && w->absent[i].number == page;
        if (w->absents < ABSENT && !is && (page == first || rng_below(&w->rng, 2)))
            w->absent[w->absents++] = (struct absent_page){n->index, page};
        delay += 1 + world_spread(w, w->page_spread);
        world_add(w, delay,
                  (struct pending){.kind = PAGED_IN,
                                   .node = n->index,
                                   .pages = {.host = (const uint8_t *)(page * PAGE),
                                             .bytes = PAGE,
                                             .more = true,
                                             .failed = failed}});
    }
    world_add(w, delay + world_spread(w, w->page_spread),
              (struct pending){.kind = PAGED_IN,
                               .node = n->index,
                               .pages = {.host = (const uint8_t *)(first * PAGE),
                                         .bytes = (last - first + 1) * PAGE,
                                         .failed = failed}});
    w->page_ins++;
}

__attribute__((unused)) static bool world_faults(struct nicworld *w, struct node *n,
                                                 const struct nic_move *m) {
    uint32_t absence = m->kind == NIC_FETCH ? w->source_absence : w->destination_absence;
    if (absence && !m->on_card && !world_is_absent(w, n, m) && rng_below(&w->rng, 1000) < absence)
        world_take_page(w, n, m);
    return world_is_absent(w, n, m);
}

__attribute__((unused)) static void world_page_in(struct nicworld *w, struct node *n,
                                                  const struct nic_pages *pages) {
    uintptr_t first = (uintptr_t)pages->host / PAGE, last = first + pages->bytes / PAGE - 1;
    for (uint32_t i = 0; i < w->absents;)
        if (w->absent[i].node == n->index && w->absent[i].number >= first &&
            w->absent[i].number <= last)
            w->absent[i] = w->absent[--w->absents];
        else
            i++;
    nic_paged_in(n->nic, pages, w->now);
}

__attribute__((unused)) static enum nic_status world_move(void *context, struct nic_move *m) {
    struct node *n = context;
    struct nicworld *w = n->world;
    uint64_t before = world_before(w, n, m);
    if (!before && w->at_once && rng_below(&w->rng, 8)) {
        if (rng_below(&w->rng, 1000) < w->faults)
            return NIC_FAULT;
        if (world_faults(w, n, m))
            return NIC_ABSENT;
        world_copy(m);
        return NIC_DONE;
    }
    /* Small ones, which keep their order, learn it at once: else one could pass another that has
     * to be repeated. */
    if (m->bytes <= NIC_ORDERED_BYTES ? world_faults(w, n, m) : world_is_absent(w, n, m))
        return NIC_ABSENT;
    struct pending p = {.kind = MOVED, .node = n->index};
    if (!nic_move_later(n->nic, m, &p.move))
        return NIC_FAULT;
    uint64_t delay = world_spread(w, w->memory_spread);
    world_add(w, w->now + delay < before ? before - w->now : delay, p);
    return NIC_PENDING;
}

/* Memory may have gone since the move. */
__attribute__((unused)) static bool world_use(void *context, uint8_t *host, uint64_t bytes,
                                              nic_user *user, void *argument) {
    struct nicworld *w = ((struct node *)context)->world;
    (void)bytes;
    if (w->gone || (w->faults && rng_below(&w->rng, 1000) < w->faults))
        return false;
    user(argument, host);
    return true;
}

__attribute__((unused)) static void world_start(void *context, struct nic_task *task) {
    struct node *n = context;
    struct pending p = {.kind = RUN, .node = n->index, .task = task};
    world_add(n->world, world_spread(n->world, n->world->handler_spread), p);
}

__attribute__((unused)) static void world_resume(void *context, struct nic_task *task) {
    struct node *n = context;
    world_add(n->world, 0, (struct pending){.kind = RESUME, .node = n->index, .task = task});
}

__attribute__((unused)) static void world_raise(void *context) {
    ((struct node *)context)->raised++;
}

__attribute__((unused)) static uint32_t world_in_place(void *context, struct nic_address target,
                                                       uint64_t payload) {
    (void)target;
    (void)payload;
    return ((struct node *)context)->world->run_bytes;
}

__attribute__((unused)) static void world_full(void *context, struct nic_address peer, bool full) {
    struct node *n = context;
    CHECK_EQ(nic_is_full(n->nic, peer), full);
    n->world->told_full[full]++;
}

static const struct nic_driver world_driver __attribute__((unused)) = {.slot = world_slot,
                                                                       .in_place = world_in_place,
                                                                       .send = world_send,
                                                                       .move = world_move,
                                                                       .use = world_use,
                                                                       .run = world_start,
                                                                       .resume = world_resume,
                                                                       .raise = world_raise,
                                                                       .full = world_full};

__attribute__((unused)) static void world_actions(struct nicworld *w, struct node *n) {
    nic_progress(n->nic, w->now);
}

/* The HPU of a handler, as its commands see it. */
struct world_core {
    struct hpu hpu; /* must be first */
    struct port port;
    struct node *node;
    const struct nic_task *task;
    uint64_t task_number;
    struct world_core *next, **link; /* in the node */
};

static struct world_core *core_of(struct port *p) {
    return (struct world_core *)p->hpu;
}

__attribute__((unused)) static struct port_host world_host(struct port *p, uint32_t space) {
    return nic_command_host(core_of(p)->node->nic, core_of(p)->task, space);
}

__attribute__((unused)) static enum hpu_access world_issue(struct port *p,
                                                           const struct port_command *c) {
    const struct node *n = core_of(p)->node;
    return nic_command(n->nic, core_of(p)->task, p, c, n->world->now);
}

__attribute__((unused)) static enum hpu_access world_over(struct port *p, uint32_t handle,
                                                          bool wait) {
    return nic_command_over(core_of(p)->node->nic, core_of(p)->task, p, handle, wait);
}

static const struct port_card world_card
    __attribute__((unused)) = {.host = world_host, .issue = world_issue, .over = world_over};

__attribute__((unused)) static void world_window(struct hpu *h, uint32_t base, uint64_t bytes,
                                                 const void *at, bool writable) {
    struct hpu_window *w = &h->window[h->windows++];
    *w = (struct hpu_window){.base = base, .host = (uint8_t *)(uintptr_t)at};
    hpu_size_window(w, (uint32_t)bytes, writable);
}

__attribute__((unused)) static void world_core_new(struct node *n, struct nic_task *task) {
    struct world_core *core = aligned_alloc(_Alignof(struct world_core), sizeof *core);
    if (!core) /* that one was meant for the card */
        core = aligned_alloc(_Alignof(struct world_core), sizeof *core);
    memset(core, 0, sizeof *core);
    core->node = n;
    core->task = task;
    core->task_number = task->number;
    world_window(&core->hpu, STATE_AT, task->handlers->state_bytes, task->handlers->state, true);
    world_window(&core->hpu, STACK_AT, sizeof n->stack, n->stack, true);
    world_window(&core->hpu, PACKET_AT, task->bytes, task->data, false);
    port_open(&core->port, &core->hpu, &world_card, false);
    core->port.mtu_bytes = n->world->config.mtu_bytes;
    port_begin(&core->port);
    task->driver = core;
    core->next = n->cores;
    core->link = &n->cores;
    if (core->next)
        core->next->link = &core->next;
    n->cores = core;
}

__attribute__((unused)) static void world_core_free(struct world_core *core) {
    *core->link = core->next;
    if (core->next)
        core->next->link = core->link;
    free(core);
}

/* How a port answers, with the kind of fault. */
enum nic_command_result {
    NIC_COMMAND_DONE,
    NIC_COMMAND_WAIT,
    NIC_COMMAND_FAULT, /* refused: malformed */
    NIC_COMMAND_SEGV,  /* refused: names HPU memory that the handler does not have */
    NIC_COMMAND_HOST,  /* refused: names host memory that is not there */
};

__attribute__((unused)) static enum nic_command_result world_store(struct nicworld *w,
                                                                   const struct nic_task *task,
                                                                   uint32_t offset, uint32_t value,
                                                                   uint32_t *result) {
    struct world_core *core = task->driver;
    enum hpu_access how = core->hpu.device->store(&core->hpu, offset, value);
    *result = core->hpu.result;
    w->refusal = core->port.refusal;
    if (how != HPU_ACCESS_FAULT)
        return how == HPU_ACCESS_OK ? NIC_COMMAND_DONE : NIC_COMMAND_WAIT;
    return core->hpu.fault == HPU_FAULT_SEGV   ? NIC_COMMAND_SEGV
           : core->hpu.fault == HPU_FAULT_HOST ? NIC_COMMAND_HOST
                                               : NIC_COMMAND_FAULT;
}

/* A command of a handler. */
__attribute__((unused)) static enum nic_command_result
world_command(struct nicworld *w, const struct nic_task *task, uint32_t number,
              const uint32_t *word, uint32_t *result) {
    struct world_core *core = task->driver;
    memcpy(core->hpu.word, word, sizeof core->hpu.word);
    return world_store(w, task, SPIN_REG_ISSUE, number, result);
}

__attribute__((unused)) static enum nic_command_result world_test(struct nicworld *w,
                                                                  const struct nic_task *task,
                                                                  uint32_t handle, bool wait,
                                                                  uint32_t *result) {
    return world_store(w, task, wait ? SPIN_REG_WAIT : SPIN_REG_TEST, handle, result);
}

/* Now and then what the card was told is told again. */
__attribute__((unused)) static void world_tell_again(struct nicworld *w, struct pending p) {
    p.again = true;
    if (w->retold && rng_below(&w->rng, 1000) < w->retold)
        world_add(w, rng_below(&w->rng, 1000), p);
}

__attribute__((unused)) static void world_run(struct nicworld *w, struct node *n,
                                              struct nic_task *task, bool again) {
    n->ran[task->kind] += !again;
    if (!again)
        world_core_new(n, task);
    CHECK(n->handler[task->kind] != NULL);
    int32_t ending = n->handler[task->kind](w, n, task);
    if (ending != BLOCKED) {
        struct world_core *core = task->driver;
        struct pending p = {
            .kind = ENDED, .node = n->index, .task_number = core->task_number, .ending = ending};
        world_core_free(core);
        nic_handler_done(n->nic, p.task_number, ending, w->now);
        world_tell_again(w, p);
    }
}

__attribute__((unused)) static void world_arrive(struct nicworld *w, struct node *n,
                                                 struct nic_packet *packet) {
    struct nic_packet lent;
    if (w->lent_in) {
        lent = *packet;
        lent.references = 0;
        packet = &lent;
    }
    nic_packet_in(n->nic, packet, w->now);
}

__attribute__((unused)) static void world_happen(struct nicworld *w, struct pending p) {
    struct node *n = &w->node[p.node];
    switch (p.kind) {
    case PACKET:
        if (!n->dead && w->watch)
            w->watch(w, p.packet, true);
        if (!n->dead)
            world_arrive(w, n, p.packet);
        nic_packet_release(p.packet);
        break;
    case LEFT:
        nic_left(n->nic, &p.how, w->now);
        if (!p.again)
            world_tell_again(w, p);
        break;
    case ENDED:
        nic_handler_done(n->nic, p.task_number, p.ending, w->now);
        break;
    case MOVED: {
        const struct pending told = p;
        if (p.again) {
            nic_moved(n->nic, &p.move, rng_below(&w->rng, 2) ? NIC_DONE : NIC_ABSENT, w->now);
            break;
        }
        bool fault = rng_below(&w->rng, 1000) < w->faults;
        bool absent = !fault && p.move.bytes > NIC_ORDERED_BYTES && world_faults(w, n, &p.move);
        if (!fault && !absent)
            world_copy(&p.move);
        nic_moved(n->nic, &p.move, fault ? NIC_FAULT : absent ? NIC_ABSENT : NIC_DONE, w->now);
        world_tell_again(w, told);
        break;
    }
    case PAGED_IN:
        world_page_in(w, n, &p.pages);
        break;
    case RUN:
    case RESUME:
        world_run(w, n, p.task, p.kind == RESUME);
    }
    world_actions(w, n);
}

/* False: nothing will ever happen again. */
__attribute__((unused)) static bool world_step(struct nicworld *w) {
    uint32_t next = UINT32_MAX, tick = UINT32_MAX;
    for (uint32_t i = 0; i < w->count; i++)
        if (next == UINT32_MAX || w->pending[i].time < w->pending[next].time ||
            (w->pending[i].time == w->pending[next].time &&
             w->pending[i].order < w->pending[next].order))
            next = i;
    uint64_t time = next == UINT32_MAX ? UINT64_MAX : w->pending[next].time;
    for (uint32_t i = 0; i < w->nodes; i++)
        if (w->node[i].nic && !w->node[i].dead && nic_deadline(w->node[i].nic) < time) {
            time = nic_deadline(w->node[i].nic);
            tick = i;
        }
    if (time == UINT64_MAX)
        return false;
    w->now = time > w->now ? time : w->now;
    w->steps++;
    if (tick != UINT32_MAX) {
        nic_tick(w->node[tick].nic, w->now);
        world_actions(w, &w->node[tick]);
        return true;
    }
    struct pending p = w->pending[next];
    w->pending[next] = w->pending[--w->count];
    world_happen(w, p);
    return true;
}

/* Until nothing is pending: packets that nobody has sent may have left something open. */
__attribute__((unused)) static void world_settle_node(struct nicworld *w, struct node *n) {
    world_actions(w, n);
    while (w->count)
        world_step(w);
}

/* Until nothing happens; the host's calls may have asked for something. */
__attribute__((unused)) static void world_settle(struct nicworld *w) {
    for (uint32_t i = 0; i < w->nodes; i++)
        world_actions(w, &w->node[i]);
    uint64_t end = w->steps + 2000000;
    while (world_step(w))
        CHECK(w->steps < end);
    for (uint32_t i = 0; i < w->nodes; i++)
        CHECK(w->node[i].dead || nic_quiet(w->node[i].nic));
}

/* An error code of nic_new, or 0. */
__attribute__((unused)) static int world_try_node(struct nicworld *w, uint32_t i,
                                                  struct spin_error *err) {
    struct node *n = &w->node[i];
    w->config.address = (struct nic_address){w->first.nid + i, w->first.pid ? w->first.pid : 1};
    w->config.pool = w->pool;
    w->config.driver = &world_driver;
    w->config.context = n;
    if (w->at_once && !w->source_absence)
        w->config.gather_bytes = w->config.mtu_bytes;
    n->world = w;
    n->index = i;
    int code = nic_new(&n->nic, &w->config, err);
    if (code)
        return code;
    n->portals = nic_portals(n->nic);
    CHECK_EQ(portals_init(n->portals), PTL_OK);
    return 0;
}

__attribute__((unused)) static void world_node(struct nicworld *w, uint32_t i) {
    struct spin_error err = {0};
    if (world_try_node(w, i, &err))
        TEST_FAIL("nic_new: %s", err.text);
}

/* A matching interface, and portal table entry 0 with an event queue. */
__attribute__((unused)) static void world_interface(struct node *n, unsigned addressing,
                                                    unsigned pt_options) {
    ptl_pt_index_t index;
    CHECK_EQ(portals_ni_init(n->portals, PTL_IFACE_DEFAULT, PTL_NI_MATCHING | addressing, 1, NULL,
                             NULL, NULL, &n->ni),
             PTL_OK);
    CHECK_EQ(portals_eq_alloc(n->portals, n->ni, 4096, &n->eq), PTL_OK);
    CHECK_EQ(portals_pt_alloc(n->portals, n->ni, pt_options, n->eq, PTL_PT_ANY, &index), PTL_OK);
    CHECK_EQ(index, 0);
}

/* Logical interfaces, rank i at node i. */
__attribute__((unused)) static void world_ranks(struct nicworld *w, unsigned pt_options) {
    ptl_process_t map[NODES];
    for (uint32_t i = 0; i < w->nodes; i++)
        map[i] = (ptl_process_t){.phys = {.nid = i, .pid = 1}};
    for (uint32_t i = 0; i < w->nodes; i++) {
        struct node *n = &w->node[i];
        world_interface(n, PTL_NI_LOGICAL, pt_options);
        CHECK_EQ(portals_set_map(n->portals, n->ni, w->nodes, map), PTL_OK);
    }
}

__attribute__((unused)) static void world_physical(struct nicworld *w) {
    w->physical = true;
    for (uint32_t i = 0; i < w->nodes; i++)
        world_interface(&w->node[i], PTL_NI_PHYSICAL, 0);
}

__attribute__((unused)) static void world_begin(struct nicworld *w, uint32_t nodes, uint64_t seed) {
    w->rng = rng_seeded(seed);
    w->nodes = nodes;
    if (!w->config.mtu_bytes)
        w->config.mtu_bytes = 256;
    if (!w->config.retry_time)
        w->config.retry_time = 5000;
    if (!w->config.retries)
        w->config.retries = 40;
    CHECK_EQ(nic_pool_new(&w->pool, w->config.mtu_bytes, NULL), 0);
    for (uint32_t i = 0; i < nodes; i++)
        world_node(w, i);
}

__attribute__((unused)) static void world_end(struct nicworld *w) {
    for (uint32_t i = 0; i < w->count; i++)
        if (w->pending[i].kind == PACKET)
            nic_packet_release(w->pending[i].packet);
        else if (w->pending[i].kind == MOVED && !w->pending[i].again)
            nic_move_forget(&w->pending[i].move);
    for (uint32_t i = 0; i < w->nodes; i++) {
        while (w->node[i].cores)
            world_core_free(w->node[i].cores);
        nic_free(w->node[i].nic);
    }
    CHECK_EQ(nic_pool_used(w->pool), 0);
    nic_pool_free(w->pool);
}

/* The process of a node crashes, with its card, and another life of it begins; its interface is
 * still to be opened. What is on the wire stays there. */
__attribute__((unused)) static void world_restart(struct nicworld *w, uint32_t i) {
    struct node *n = &w->node[i];
    uint32_t kept = 0;
    for (uint32_t k = 0; k < w->count; k++) {
        struct pending *p = &w->pending[k];
        if (p->node != i || p->kind == PACKET)
            w->pending[kept++] = *p;
        else if (p->kind == MOVED && !p->again)
            nic_move_forget(&p->move);
    }
    w->count = kept;
    while (n->cores)
        world_core_free(n->cores);
    nic_free(n->nic);
    n->image = 0;
    w->config.stream += 1000; /* higher than any that it had: each end of a stream takes one */
    world_node(w, i);
}

/* The next event; false: none. */
__attribute__((unused)) static bool world_event(struct node *n, ptl_event_t *event) {
    return portals_eq_get(n->portals, n->eq, event) == PTL_OK;
}

/* The next event must be of that kind and that fail type. */
__attribute__((unused)) static ptl_event_t world_expect(struct node *n, int type, int fail) {
    ptl_event_t event = {0};
    if (!world_event(n, &event))
        TEST_FAIL("no event at node %u, expected type %d", n->index, type);
    if (event.type != type || event.ni_fail_type != fail)
        TEST_FAIL("event at node %u of type %u with fail type %u, expected %d and %d", n->index,
                  event.type, event.ni_fail_type, type, fail);
    return event;
}

#endif
