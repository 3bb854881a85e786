/* What handlers ask of the card, as spin/driver.h numbers it. DMA and atomics on host memory take
 * time and have handles; messages are handed to Portals as if the host had started them (SC'17,
 * appendix B.6); what concerns HPU memory or counters is done at once. */
#include <string.h>

#include "nic/nic_private.h"
#include "spin/driver.h"

#define COMMANDS 64 /* of a handler, under way: then it waits */

struct issue {
    struct nic *nic;
    struct task *task;
    uint32_t number;
    const uint32_t *word;
    nic_reach *reach;
    void *context;
    uint32_t *result;
};

static uint64_t pair(const uint32_t *word) {
    return word[0] | (uint64_t)word[1] << 32;
}

/* Nothing is everywhere. */
static uint8_t *reach(const struct issue *is, uint32_t address, uint64_t bytes, bool write) {
    static uint8_t nothing[1];
    return bytes ? is->reach(is->context, address, bytes, write) : nothing;
}

/* Waiting. */

static enum nic_command_result wait(struct task *task) {
    task->blocked = true;
    return NIC_COMMAND_WAIT;
}

static enum nic_command_result wait_for_room(struct nic *nic, struct task *task) {
    if (!task->in_room_queue) {
        struct task **end = &nic->room_queue;
        while (*end)
            end = &(*end)->next_waiter;
        *end = task;
        task->next_waiter = NULL;
        task->in_room_queue = true;
    }
    return wait(task);
}

void nic_command_room(struct nic *nic) {
    while (nic->room_queue && nic->handler_packets < nic->config.handler_packets) {
        struct task *task = nic->room_queue;
        nic->room_queue = task->next_waiter;
        task->in_room_queue = false;
        nic_handler_resume(nic, task);
    }
}

/* Host memory. */

static struct command *command_new(const struct issue *is) {
    struct command *c = need(records_take(&is->nic->commands));
    c->task = is->task;
    c->number = is->number;
    c->handle = ++is->task->handles;
    c->next = is->task->first;
    is->task->first = c;
    is->task->commands++;
    *is->result = c->handle;
    return c;
}

static void command_over(struct nic *nic, struct command *c) {
    struct task *task = c->task;
    struct command **at = &task->first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    records_give(&nic->commands, c);
    task->commands--;
    if (!task->ended)
        nic_handler_resume(nic, task);
    else if (!task->commands)
        nic_handler_drained(nic, task);
}

void nic_command_moved(struct nic *nic, struct command *c) {
    if (--c->transfers == 0)
        command_over(nic, c);
}

/* `space`: the entry's memory or the handler's. */
static bool host_has(const struct issue *is, uint32_t space, uint64_t offset, uint64_t bytes) {
    const struct portals_handlers *h = nic_handlers(is->nic, is->task->message);
    uint64_t size = 0; /* the interface was closed meanwhile */
    if (h)
        size = space ? h->host_bytes
                     : portals_entry_bytes(is->nic->portals, is->task->message->delivery);
    return offset <= size && bytes <= size - offset;
}

static uint32_t host_pieces(const struct issue *is, uint32_t space, uint64_t offset, uint64_t bytes,
                            struct nic_segment *piece) {
    uint32_t delivery = is->task->message->delivery;
    return space ? portals_handler_segments(is->nic->portals, delivery, offset, bytes, piece,
                                            NIC_SEGMENTS)
                 : portals_entry_segments(is->nic->portals, delivery, offset, bytes, piece,
                                          NIC_SEGMENTS);
}

/* One transfer for each piece; the handle is complete when all are. */
static void move(const struct issue *is, uint32_t space, uint64_t offset, uint8_t *local,
                 uint64_t bytes, enum nic_action_kind kind) {
    struct command *c = command_new(is);
    for (uint64_t done = 0; done < bytes;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint32_t pieces = host_pieces(is, space, offset + done, bytes - done, piece);
        for (uint32_t i = 0; i < pieces; i++) {
            struct nic_action action = {.host = piece[i].host,
                                        .local = local + done,
                                        .bytes = piece[i].bytes,
                                        .task = &is->task->seen,
                                        .from_handler = true};
            nic_action(is->nic, kind, MOVE_COMMAND, action)->command = c;
            c->transfers++;
            done += piece[i].bytes;
        }
        if (!pieces)
            break;
    }
    if (!c->transfers)
        command_over(is->nic, c);
}

static enum nic_command_result dma(const struct issue *is, bool to_host) {
    const uint32_t *w = is->word;
    uint32_t offset = to_host ? w[1] : w[0], at = to_host ? w[0] : w[1], bytes = w[2], space = w[3];
    if (space > 1)
        return NIC_COMMAND_FAULT;
    uint8_t *local = reach(is, at, bytes, !to_host);
    if (!local || !host_has(is, space, offset, bytes))
        return NIC_COMMAND_SEGV;
    if (is->task->commands == COMMANDS)
        return wait(is->task);
    move(is, space, offset, local, bytes, to_host ? NIC_STORE : NIC_FETCH);
    return NIC_COMMAND_DONE;
}

/* An atomic is on one naturally aligned value, in one piece. */
static enum nic_command_result dma_atomic(const struct issue *is, uint32_t space, uint32_t bytes,
                                          uint8_t *local, uint64_t operand) {
    struct nic_segment piece[NIC_SEGMENTS];
    uint32_t offset = is->word[0];
    if (space > 1)
        return NIC_COMMAND_FAULT;
    if (!local || !host_has(is, space, offset, bytes))
        return NIC_COMMAND_SEGV;
    if (!host_pieces(is, space, offset, bytes, piece))
        return NIC_COMMAND_SEGV;
    if (piece[0].bytes < bytes || (uintptr_t)piece[0].host % bytes)
        return NIC_COMMAND_FAULT;
    if (is->task->commands == COMMANDS)
        return wait(is->task);
    struct command *c = command_new(is);
    c->host = piece[0].host;
    c->local = local;
    c->type = bytes;
    c->operand = operand;
    c->transfers = 1;
    struct nic_action action = {.host = c->host,
                                .local = local,
                                .bytes = bytes,
                                .task = &is->task->seen,
                                .from_handler = true};
    nic_action(is->nic, NIC_AMO, ATOMIC_COMMAND, action)->command = c;
    return NIC_COMMAND_DONE;
}

static enum nic_command_result dma_cas(const struct issue *is) {
    const uint32_t *w = is->word;
    return dma_atomic(is, w[4], 8, is->reach(is->context, w[1], 8, true), pair(&w[2]));
}

static enum nic_command_result dma_fetch_add(const struct issue *is) {
    const uint32_t *w = is->word;
    bool small = w[3] == PTL_INT32_T || w[3] == PTL_UINT32_T;
    if (!small && w[3] != PTL_INT64_T && w[3] != PTL_UINT64_T)
        return NIC_COMMAND_FAULT;
    return dma_atomic(is, w[4], small ? 4 : 8, is->reach(is->context, w[2], 4, true), w[1]);
}

/* The host may use the value at the same time. */
void nic_command_atomic(struct nic *nic, struct command *c) {
    uint64_t before;
    if (c->number == SPIN_COMMAND_DMA_CAS) {
        memcpy(&before, c->local, 8);
        if (!__atomic_compare_exchange_n((uint64_t *)(void *)c->host, &before, c->operand, false,
                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
            !c->task->ended)
            memcpy(c->local, &before, 8);
    } else {
        before = c->type == 4 ? __atomic_fetch_add((uint32_t *)(void *)c->host,
                                                   (uint32_t)c->operand, __ATOMIC_SEQ_CST)
                              : __atomic_fetch_add((uint64_t *)(void *)c->host, c->operand,
                                                   __ATOMIC_SEQ_CST);
        if (!c->task->ended)
            memcpy(c->local, &before, 4); /* ptl_size_t of the card */
    }
    nic_command_moved(nic, c);
}

enum nic_command_result nic_command_test(struct nic *nic, const struct nic_task *seen,
                                         uint32_t handle, bool wanted, uint32_t *result) {
    struct task *task = nic_task_of(seen);
    (void)nic;
    if (handle == 0 || handle > task->handles)
        return NIC_COMMAND_FAULT;
    const struct command *c = task->first;
    while (c && c->handle != handle)
        c = c->next;
    if (c && wanted)
        return wait(task);
    *result = !c;
    return NIC_COMMAND_DONE;
}

/* Messages. */

static ptl_process_t target_of(const struct issue *is) {
    uint32_t id = is->word[4];
    if (is->task->message->message.interface & PTL_NI_PHYSICAL)
        return (ptl_process_t){.phys = {.nid = id >> 16, .pid = id & 0xffff}};
    return (ptl_process_t){.rank = id};
}

static enum nic_command_result start_message(const struct issue *is, enum nic_message_kind kind,
                                             uint8_t *card) {
    const uint32_t *w = is->word;
    uint32_t atomic = kind == NIC_ATOMIC ? w[11] : 0;
    struct portals_command command = {.kind = (uint8_t)kind,
                                      .ack_req = (uint8_t)w[3],
                                      .operation = (uint8_t)atomic,
                                      .datatype = (uint8_t)(atomic >> 8),
                                      .count = w[2],
                                      .card = card,
                                      .offset = card ? 0 : w[0],
                                      .length = w[1],
                                      .target = target_of(is),
                                      .match_bits = pair(&w[5]),
                                      .remote_offset = w[7],
                                      .hdr_data = pair(&w[9]),
                                      .user_ptr = (void *)(uintptr_t)w[8]};
    if (w[2] > 1 || w[3] > PTL_OC_ACK_REQ || atomic > 0xffff)
        return NIC_COMMAND_FAULT;
    *is->result = PTL_OK;
    int code = portals_command(is->nic->portals, is->task->message->delivery, &command, NULL);
    return code == PTL_OK ? NIC_COMMAND_DONE : NIC_COMMAND_FAULT;
}

static enum nic_command_result from_host(const struct issue *is, enum nic_message_kind kind) {
    if (!host_has(is, 0, is->word[0], is->word[1]))
        return NIC_COMMAND_SEGV;
    return start_message(is, kind, NULL);
}

/* The data is taken at once, so that the handler may go on with its memory. */
static enum nic_command_result from_device(const struct issue *is, enum nic_message_kind kind) {
    struct nic *nic = is->nic;
    uint32_t bytes = is->word[1];
    if (bytes > nic->config.mtu_bytes)
        return NIC_COMMAND_FAULT;
    uint8_t *local = reach(is, is->word[0], bytes, false);
    if (!local)
        return NIC_COMMAND_SEGV;
    if (nic->config.handler_packets && nic->handler_packets >= nic->config.handler_packets)
        return wait_for_room(nic, is->task);
    struct nic_packet *packet = need(nic_packet_new(nic->config.pool));
    packet->bytes = bytes;
    memcpy(packet->data, local, bytes);
    nic->from_device = packet;
    nic->handler_packets++;
    enum nic_command_result done = start_message(is, kind, packet->data);
    if (nic->from_device) { /* there was no message */
        nic->from_device = NULL;
        nic->handler_packets--;
        nic_packet_release(packet);
    }
    return done;
}

/* Blocks until the data is there: the call gives the handler no handle to wait for. */
static enum nic_command_result get_to_device(const struct issue *is) {
    struct task *task = is->task;
    if (task->get)
        return wait(task);
    if (task->get_done) {
        task->get_done = false;
        *is->result = PTL_OK;
        return NIC_COMMAND_DONE;
    }
    uint8_t *local = reach(is, is->word[0], is->word[1], true);
    if (!local)
        return NIC_COMMAND_SEGV;
    is->nic->made = NULL;
    enum nic_command_result done = start_message(is, NIC_GET, local);
    if (done != NIC_COMMAND_DONE || !is->nic->made)
        return done;
    task->get = is->nic->made;
    task->get->to_card = true;
    task->get->waiting = task;
    return wait(task);
}

/* The reply is in, or will never be. */
void nic_command_answered(struct nic *nic, struct outgoing *o) {
    struct task *task = o->waiting;
    o->to_card = false;
    o->waiting = NULL;
    if (!task)
        return;
    task->get = NULL;
    task->get_done = true;
    nic_handler_resume(nic, task);
}

/* Counters: the entry's. On the card they have 32 bits. */

static enum nic_command_result counter(const struct issue *is) {
    uint32_t delivery = is->task->message->delivery;
    ptl_ct_event_t event = {is->word[0], is->word[1]};
    uint8_t *out = NULL;
    int code;
    if (is->number == SPIN_COMMAND_CT_GET) {
        out = is->reach(is->context, is->word[0], 8, true);
        if (!out)
            return NIC_COMMAND_SEGV;
        code = portals_command_ct_get(is->nic->portals, delivery, &event);
    } else if (is->number == SPIN_COMMAND_CT_INC) {
        code = portals_command_ct_inc(is->nic->portals, delivery, event);
    } else {
        code = portals_command_ct_set(is->nic->portals, delivery, event);
    }
    if (code != PTL_OK)
        return NIC_COMMAND_FAULT;
    if (out) {
        const uint32_t small[2] = {(uint32_t)event.success, (uint32_t)event.failure};
        memcpy(out, small, 8);
    }
    *is->result = PTL_OK;
    return NIC_COMMAND_DONE;
}

/* HPU memory. */

static uint64_t *word64(const struct issue *is, uint32_t address) {
    return address % 8 ? NULL : (uint64_t *)(void *)is->reach(is->context, address, 8, true);
}

static enum nic_command_result cas(const struct issue *is) {
    uint64_t *value = word64(is, is->word[0]), expected = pair(&is->word[1]);
    if (!value)
        return NIC_COMMAND_SEGV;
    *is->result = __atomic_compare_exchange_n(value, &expected, pair(&is->word[3]), false,
                                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return NIC_COMMAND_DONE;
}

static enum nic_command_result fetch_add(const struct issue *is) {
    uint64_t *value = word64(is, is->word[0]);
    uint8_t *before = is->reach(is->context, is->word[1], 8, true);
    if (!value || !before)
        return NIC_COMMAND_SEGV;
    uint64_t old = __atomic_fetch_add(value, pair(&is->word[2]), __ATOMIC_SEQ_CST);
    memcpy(before, &old, 8);
    *is->result = PTL_OK;
    return NIC_COMMAND_DONE;
}

enum nic_command_result nic_command(struct nic *nic, const struct nic_task *seen, uint32_t number,
                                    const uint32_t *word, nic_reach *reach, void *context,
                                    uint32_t *result, uint64_t now) {
    const struct issue is = {nic, nic_task_of(seen), number, word, reach, context, result};
    nic->now = now;
    switch (number) {
    case SPIN_COMMAND_DMA_TO_HOST:
    case SPIN_COMMAND_DMA_FROM_HOST:
        return dma(&is, number == SPIN_COMMAND_DMA_TO_HOST);
    case SPIN_COMMAND_DMA_CAS:
        return dma_cas(&is);
    case SPIN_COMMAND_DMA_FETCH_ADD:
        return dma_fetch_add(&is);
    case SPIN_COMMAND_PUT_FROM_HOST:
        return from_host(&is, NIC_PUT);
    case SPIN_COMMAND_PUT_FROM_DEVICE:
        return from_device(&is, NIC_PUT);
    case SPIN_COMMAND_GET_TO_HOST:
        return from_host(&is, NIC_GET);
    case SPIN_COMMAND_GET_TO_DEVICE:
        return get_to_device(&is);
    case SPIN_COMMAND_ATOMIC_FROM_HOST:
        return from_host(&is, NIC_ATOMIC);
    case SPIN_COMMAND_ATOMIC_FROM_DEVICE:
        return from_device(&is, NIC_ATOMIC);
    case SPIN_COMMAND_CT_INC:
    case SPIN_COMMAND_CT_GET:
    case SPIN_COMMAND_CT_SET:
        return counter(&is);
    case SPIN_COMMAND_CAS:
        return cas(&is);
    case SPIN_COMMAND_FETCH_ADD:
        return fetch_add(&is);
    }
    return NIC_COMMAND_FAULT; /* what PsPIN's calls need is not for this card */
}
