/* The HPU driver's registers (spin/driver.h). What the rest of the card must see in order (ISSUE,
 * WAIT, TEST) is done when the engine has come to the HPU's local time: until then the access is
 * refused, and repeated at that time. */
#include <stdio.h>
#include <string.h>

#include "hpu/integer.h"
#include "hpu/pspin_registers.h"
#include "hpu/refusal.h"
#include "sim/card_private.h"
#include "spin/driver.h"

static enum hpu_access bad_command(struct card_hpu *h) {
    return hpu_refuse(&h->hpu, HPU_FAULT_COMMAND, 0);
}

/* True when the engine is at the HPU's local time. */
static bool in_step(struct card_hpu *h) {
    h->sync = h->hpu.cycles * h->card->cycle > h->card->now_ps;
    return !h->sync;
}

/* ---- Checking commands ----------------------------------------------------------------------- */

static struct command *slots_of(const struct card_hpu *h) {
    return &h->card->command[h->index * h->card->config.hpu_commands];
}

/* Host memory of the context, by address. Without any, the callbacks stand for it. */
static bool reach_host(struct card_hpu *h, struct command *m, uint64_t address, uint32_t length) {
    const struct card_context *set = &h->card->context[h->context].set;
    m->host_address = address;
    m->length = length;
    if (set->as_rtl || (!set->host && !set->host_bytes))
        return true; /* the callbacks stand for it, at any address */
    uint64_t offset = address - set->host_address;
    if (offset > set->host_bytes || length > set->host_bytes - offset) {
        refusal_host_address(h->hpu.refusal, m->number, address, length, set->host_address,
                             set->host_bytes);
        hpu_refuse(&h->hpu, HPU_FAULT_HOST, 0);
        return false;
    }
    m->host = set->host ? set->host + offset : NULL; /* NULL: the callbacks, within bounds */
    return true;
}

/* P4sPIN: by offset in space 0, the match entry's memory, or 1, the handlers'. */
static bool reach_space(struct card_hpu *h, struct command *m, uint32_t space, uint32_t offset,
                        uint32_t length) {
    const struct card_context *set = &h->card->context[h->context].set;
    if (space > 1) {
        refusal_space(h->hpu.refusal, m->number, space);
        bad_command(h);
        return false;
    }
    bool any = space == 0 && !set->host && !set->host_bytes;
    uint64_t has = space ? (set->handler_host ? set->handler_host_bytes : 0) : set->host_bytes;
    if (!any && (offset > has || length > has - offset)) {
        refusal_host(h->hpu.refusal, m->number, space, offset, length, has);
        hpu_refuse(&h->hpu, HPU_FAULT_HOST, 0);
        return false;
    }
    if (space == 0)
        return reach_host(h, m, set->host_address + offset, length);
    m->host_address = offset;
    m->length = length;
    m->host = set->handler_host + offset;
    return true;
}

static enum hpu_access local(struct card_hpu *h, const struct command *m, uint8_t **to,
                             uint32_t address, uint32_t length, bool write) {
    *to = refusal_reach(&h->hpu, m->number, address, length, write);
    return *to ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
}

static enum hpu_access check_host_atomic(struct card_hpu *h, struct command *m) {
    const uint32_t *w = m->word;
    bool add = m->number == SPIN_COMMAND_DMA_FETCH_ADD;
    uint32_t bytes = add ? integer_bytes(w[5]) : 8;
    struct spin_refusal *refusal = h->hpu.refusal;
    if (!bytes)
        refusal_type(refusal, m->number, w[5]);
    else if (add && w[4] > 8)
        refusal_length(refusal, m->number, w[4], 8);
    else if (w[0] % bytes)
        refusal_align(refusal, m->number, w[0], bytes);
    if (refusal->call)
        return bad_command(h);
    if (!reach_space(h, m, add ? w[6] : w[4], w[0], bytes))
        return HPU_ACCESS_FAULT;
    if (!m->host) {
        refusal_say(refusal, m->number, "the host gave the card no memory for atomics");
        return bad_command(h);
    }
    return local(h, m, &m->local, add ? w[3] : w[1], add ? w[4] : 8, true);
}

/* Fills in where the command's bytes are, or says why not. */
static enum hpu_access check(struct card_hpu *h, struct command *m) {
    const uint32_t *w = m->word;
    uint64_t address = (uint64_t)w[0] << 32 | w[1];
    switch (m->number) {
    case SPIN_COMMAND_DMA_TO_HOST:
    case SPIN_COMMAND_DMA_FROM_HOST:
        m->target = TARGET_DMA;
        m->to_host = m->number == SPIN_COMMAND_DMA_TO_HOST;
        if (!reach_space(h, m, w[3], m->to_host ? w[1] : w[0], w[2]))
            return HPU_ACCESS_FAULT;
        return local(h, m, &m->local, m->to_host ? w[0] : w[1], w[2], !m->to_host);
    case SPIN_COMMAND_HOST_DMA_TO:
    case SPIN_COMMAND_HOST_DMA_FROM:
        m->target = TARGET_DMA;
        m->to_host = m->number == SPIN_COMMAND_HOST_DMA_TO;
        if (!reach_host(h, m, address, w[3]))
            return HPU_ACCESS_FAULT;
        return local(h, m, &m->local, w[2], w[3], !m->to_host);
    case SPIN_COMMAND_HOST_WRITE:
        m->target = TARGET_DIRECT;
        return reach_host(h, m, address, 8) ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
    case SPIN_COMMAND_DMA_CAS:
    case SPIN_COMMAND_DMA_FETCH_ADD:
        m->target = TARGET_DMA;
        return check_host_atomic(h, m);
    case SPIN_COMMAND_LOCAL_DMA:
        m->target = TARGET_CLUSTER;
        m->length = w[2];
        if (w[3] > 1) {
            refusal_say(h->hpu.refusal, m->number, "direction %u is neither 0 nor 1", w[3]);
            return bad_command(h);
        }
        if (local(h, m, &m->local, w[w[3]], w[2], false) != HPU_ACCESS_OK)
            return HPU_ACCESS_FAULT;
        return local(h, m, &m->other, w[!w[3]], w[2], true);
    case SPIN_COMMAND_NIC_SEND:
        m->length = w[1];
        return local(h, m, &m->local, w[0], w[1], false);
    case SPIN_COMMAND_RDMA_PUT:
        m->length = w[2];
        return local(h, m, &m->local, w[1], w[2], false);
    case SPIN_COMMAND_PUT_FROM_DEVICE:
    case SPIN_COMMAND_ATOMIC_FROM_DEVICE:
        if (w[1] > h->card->config.mtu) {
            refusal_length(h->hpu.refusal, m->number, w[1], h->card->config.mtu);
            return bad_command(h);
        }
        m->length = w[1];
        return local(h, m, &m->local, w[0], w[1], false);
    case SPIN_COMMAND_PUT_FROM_HOST:
    case SPIN_COMMAND_ATOMIC_FROM_HOST:
        return reach_space(h, m, 0, w[0], w[1]) ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
    case SPIN_COMMAND_GET_TO_HOST: /* a request: no data with it */
        return reach_space(h, m, 0, w[0], w[1]) ? (m->length = 0, m->host = NULL, HPU_ACCESS_OK)
                                                : HPU_ACCESS_FAULT;
    case SPIN_COMMAND_GET_TO_DEVICE:
        return refusal_reach(&h->hpu, m->number, w[0], w[1], true) ? HPU_ACCESS_OK
                                                                   : HPU_ACCESS_FAULT;
    }
    refusal_unknown(h->hpu.refusal, m->number, "the card");
    return bad_command(h);
}

/* ---- Commands that the driver does by itself: the context's counter, atomics in the card ------
 */

static uint64_t pair(const uint32_t *word) {
    return word[0] | (uint64_t)word[1] << 32;
}

static enum hpu_access do_atomic(struct card_hpu *h, uint32_t number) {
    const uint32_t *w = h->hpu.word;
    uint64_t value, expected = pair(&w[1]), swap = pair(&w[3]);
    if (w[0] % 8) {
        refusal_align(h->hpu.refusal, number, w[0], 8);
        return hpu_refuse(&h->hpu, HPU_FAULT_SEGV, w[0]);
    }
    uint8_t *at = refusal_reach(&h->hpu, number, w[0], 8, true);
    if (!at)
        return HPU_ACCESS_FAULT;
    memcpy(&value, at, 8);
    if (number == SPIN_COMMAND_CAS) {
        h->hpu.result = value == expected;
        if (h->hpu.result)
            memcpy(at, &swap, 8);
        return HPU_ACCESS_OK;
    }
    uint8_t *before = refusal_reach(&h->hpu, number, w[1], 8, true);
    if (!before)
        return HPU_ACCESS_FAULT;
    uint64_t sum = value + pair(&w[2]);
    memcpy(at, &sum, 8);
    memcpy(before, &value, 8);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_counter(struct card_hpu *h, uint32_t number) {
    uint64_t *counter = h->card->context[h->context].counter;
    if (number == SPIN_COMMAND_CT_INC && h->hpu.word[0] && h->hpu.word[1]) {
        refusal_increment(h->hpu.refusal, number, h->hpu.word);
        return bad_command(h);
    }
    for (int i = 0; i < 2 && number != SPIN_COMMAND_CT_GET; i++)
        counter[i] = (number == SPIN_COMMAND_CT_INC ? counter[i] : 0) + h->hpu.word[i];
    if (number != SPIN_COMMAND_CT_GET)
        return HPU_ACCESS_OK;
    uint8_t *event = refusal_reach(&h->hpu, number, h->hpu.word[0], 8, true);
    if (!event)
        return HPU_ACCESS_FAULT;
    for (int i = 0; i < 2; i++) {
        uint32_t value = (uint32_t)counter[i];
        memcpy(event + 4 * i, &value, 4);
    }
    return HPU_ACCESS_OK;
}

/* ---- Registers ------------------------------------------------------------------------------- */

/* Commands of a task wait until the HPU's task before it is reported as complete, so that what is
 * in flight is always one task's. In the RTL the handle is made when the command is issued: the
 * lowest free number, while those of the task before are still in flight; what leaves later has
 * number 0. A wait for such a handle finds nothing in flight. */
static bool is_held(struct card_hpu *h) {
    struct card *c = h->card;
    if (h->ended_count) {
        h->waits_for = WAITS_HELD;
        h->unnamed = c->config.held_handles && slots_of(h)->in_use;
        return true;
    }
    if (h->held_ps <= c->now_ps)
        return false;
    h->waits_for = 0;
    card_event(c, h->held_ps, CARD_RUN_EVENT, h->index, 0);
    return true;
}

static enum hpu_access issue(struct hpu *hpu, uint32_t number) {
    struct card_hpu *h = (struct card_hpu *)hpu;
    struct card *c = h->card;
    if (!in_step(h))
        return HPU_ACCESS_WAIT;
    if (number >= SPIN_COMMAND_CT_INC && number <= SPIN_COMMAND_FETCH_ADD) {
        h->hpu.result = ++h->issued;
        return number >= SPIN_COMMAND_CAS ? do_atomic(h, number) : do_counter(h, number);
    }
    struct command m = {.in_use = true,
                        .target = TARGET_OUTBOUND,
                        .number = (uint8_t)number,
                        .hpu = h->index,
                        .task = h->task};
    memcpy(m.word, h->hpu.word, sizeof m.word);
    if (number > 255) {
        refusal_unknown(h->hpu.refusal, number, "the card");
        return bad_command(h);
    }
    enum hpu_access good = check(h, &m);
    if (good != HPU_ACCESS_OK)
        return good;
    if (m.target != TARGET_CLUSTER && is_held(h))
        return HPU_ACCESS_WAIT;
    if (h->in_flight == c->config.hpu_commands) {
        h->waits_for = WAITS_ANY;
        return HPU_ACCESS_WAIT;
    }
    h->hpu.result = ++h->issued;
    m.handle = h->unnamed ? 0 : h->issued;
    h->unnamed = false;
    struct command *slot = slots_of(h);
    while (slot->in_use)
        slot++;
    *slot = m;
    h->in_flight++;
    c->task[h->task].commands++;
    card_command_start(c, slot);
    return HPU_ACCESS_OK;
}

static bool is_complete(const struct card_hpu *h, uint32_t handle) {
    const struct command *slot = slots_of(h);
    for (uint32_t i = 0; i < h->card->config.hpu_commands; i++)
        if (slot[i].in_use && slot[i].handle == handle && slot[i].task == h->task)
            return false;
    return true;
}

static enum hpu_access wait_or_test(struct card_hpu *h, uint32_t handle, bool wait) {
    if (handle == 0 || handle > h->issued) {
        refusal_handle(h->hpu.refusal, wait, handle);
        return bad_command(h);
    }
    if (!in_step(h))
        return HPU_ACCESS_WAIT;
    bool complete = is_complete(h, handle);
    if (wait && !complete) {
        h->waits_for = handle;
        return HPU_ACCESS_WAIT;
    }
    h->hpu.result = complete;
    return HPU_ACCESS_OK;
}

/* PsPIN's handlers have no heap. */
static enum hpu_access allocate(struct card_hpu *h, uint32_t bytes) {
    bool p4 = h->card->context[h->context].set.abi == CARD_P4SPIN;
    h->hpu.result = p4 ? heap_allocate(&h->hpu, &h->heap, bytes) : 0;
    return HPU_ACCESS_OK;
}

static enum hpu_access store(struct hpu *hpu, uint32_t offset, uint32_t value) {
    struct card_hpu *h = (struct card_hpu *)hpu;
    switch (offset) {
    case SPIN_REG_ISSUE:
        return issue(hpu, value);
    case SPIN_REG_WAIT:
        return wait_or_test(h, value, true);
    case SPIN_REG_TEST:
        return wait_or_test(h, value, false);
    case SPIN_REG_ALLOCATE:
        return allocate(h, value);
    }
    return HPU_ACCESS_FAULT;
}

/* The task's registers from 0x00 to 0x4c, in the order of pspin.md's task_t. */
static uint32_t task_register(const struct card_hpu *h, uint32_t offset) {
    const struct card *c = h->card;
    const struct task *t = &c->task[h->task];
    const struct packet *p = &c->packet[t->packet];
    const struct context *x = &c->context[t->context];
    uint32_t l2 = MAP_L2_PACKETS + p->l2_unit * UNIT_BYTES;
    if (offset >= 0x18 && offset < 0x38) {
        uint32_t i = (offset - 0x18) / 4 % SCRATCHPADS;
        uint32_t bytes = card_scratch_bytes(c, x, i);
        if (i >= c->clusters || !bytes)
            return 0;
        return offset < 0x28 ? card_scratch_address(c, t->context, i) : bytes;
    }
    switch (offset) {
    case 0x00:
        return x->set.entry[t->kind];
    case 0x04: {
        const struct spin_function *f = spin_image_at(x->set.image, x->set.entry[t->kind]);
        return f ? f->bytes : 0;
    }
    case 0x08:
        return x->memory_address;
    case 0x0c:
        return x->set.memory_bytes;
    case 0x10: /* where nothing is copied, the packet is where it lies */
        return t->l1_bytes ? card_l1_address(c, t->cluster) + MAP_L1_PACKETS +
                                 t->l1_unit * UNIT_BYTES + t->headroom
                           : l2;
    case 0x14:
        return p->length;
    case 0x38:
        return (uint32_t)(x->set.host_address >> 32);
    case 0x3c:
        return (uint32_t)x->set.host_address;
    case 0x40:
        return x->set.host_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)x->set.host_bytes;
    case 0x44:
        return l2;
    case 0x48:
        return c->queue[t->queue].home;
    case 0x4c:
        return p->message;
    }
    return 0;
}

void card_set_task(struct card_hpu *h) {
    for (uint32_t offset = 0; offset < SPIN_TASK_REGISTERS; offset += 4)
        h->hpu.task[offset / 4] = task_register(h, offset);
}

static enum hpu_access load(struct hpu *hpu, uint32_t offset, uint32_t *value) {
    const struct card_hpu *h = (const struct card_hpu *)hpu;
    if (offset == SPIN_REG_ISSUE && h->card->context[h->context].set.abi == CARD_PSPIN)
        return pspin_issue(hpu, issue, value);
    return HPU_ACCESS_FAULT;
}

void card_print_line(struct card_hpu *h) {
    const struct card_callbacks *to = &h->card->callbacks;
    const char *line = console_line(&h->console);
    uint32_t core = h->index % (uint32_t)h->card->config.cluster_hpus;
    if (to->print)
        to->print(to->user, h->cluster, core, line);
    else
        fprintf(stderr, "[%u,%u] %s\n", h->cluster, core, line);
}

/* Lines come in the order of time: the end of one waits for the engine. */
static enum hpu_access print(struct hpu *hpu, uint8_t byte) {
    struct card_hpu *h = (struct card_hpu *)hpu;
    if (byte == '\n' && !in_step(h))
        return HPU_ACCESS_WAIT;
    if (console_put(&h->console, byte))
        card_print_line(h);
    return HPU_ACCESS_OK;
}

const struct hpu_device card_device = {.load = load, .store = store, .print = print};
