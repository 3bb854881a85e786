/* What handlers ask of the card, as spin/driver.h numbers it. DMA and atomics on host memory take
 * time and have handles; messages are handed to Portals as if the host had started them (SC'17,
 * appendix B.6); what concerns HPU memory or counters is done at once. */
#include <string.h>

#include "hpu/integer.h"
#include "hpu/refusal.h"
#include "nic/nic_private.h"
#include "spin/driver.h"

#define COMMANDS 64 /* of a handler, under way: then it waits */

struct issue {
    struct nic *nic;
    struct nic_task_record *task;
    uint32_t number;
    const uint32_t *word;
    nic_reach *reach;
    void *context;
    uint32_t *result;
    struct spin_refusal *refusal;
};

static uint64_t pair(const uint32_t *word) {
    return word[0] | (uint64_t)word[1] << 32;
}

/* HPU memory; nothing is everywhere. */
static uint8_t *reach(const struct issue *is, uint32_t address, uint64_t bytes, bool write) {
    static uint8_t nothing[1];
    uint8_t *at = bytes ? is->reach(is->context, address, bytes, write) : nothing;
    if (!at)
        refusal_local(is->refusal, is->number, address, bytes, write);
    return at;
}

/* Waiting. */

static enum nic_command_result wait_for(struct nic_task_record *task) {
    task->blocked = true;
    return NIC_COMMAND_WAIT;
}

static enum nic_command_result wait_for_room(struct nic *nic, struct nic_task_record *task) {
    if (!task->in_room_queue) {
        struct nic_task_record **end = &nic->room_queue;
        while (*end)
            end = &(*end)->next_waiter;
        *end = task;
        task->next_waiter = NULL;
        task->in_room_queue = true;
    }
    return wait_for(task);
}

void nic_command_room(struct nic *nic) {
    while (nic->room_queue && nic->handler_packets < nic->config.handler_packets) {
        struct nic_task_record *task = nic->room_queue;
        nic->room_queue = task->next_waiter;
        task->in_room_queue = false;
        nic_handler_resume(nic, task);
    }
}

/* Host memory. */

/* A command as long as all of it is done at once. */
static struct nic_command_record command_new(const struct issue *is) {
    *is->result = ++is->task->handles;
    return (struct nic_command_record){
        .task = is->task, .number = is->number, .handle = *is->result};
}

/* Something of it is pending; NULL: no memory. */
struct nic_command_record *nic_command_keep(struct nic *nic, struct nic_command_record *c) {
    if (c->slot.used || c->kept)
        return c->slot.used ? c : c->kept;
    struct nic_command_record *kept = pool_take(&nic->commands);
    if (!kept)
        return NULL;
    const struct pool_slot slot = kept->slot;
    *kept = *c;
    kept->slot = slot;
    kept->next = c->task->first;
    c->task->first = kept;
    c->task->commands++;
    return c->kept = kept;
}

static void command_over(struct nic *nic, struct nic_command_record *c) {
    struct nic_task_record *task = c->task;
    struct nic_command_record **at = &task->first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pool_give(&nic->commands, c);
    task->commands--;
    if (!task->ended)
        nic_handler_resume(nic, task);
    else if (!task->commands)
        nic_handler_drained(nic, task);
}

/* `space`: the entry's memory or the handler's. */
static enum nic_command_result host_has(const struct issue *is, uint32_t space, uint64_t offset,
                                        uint64_t bytes) {
    const struct portals_handlers *h = nic_handlers(is->task->message);
    uint64_t size = 0; /* the interface was closed meanwhile */
    if (space > 1) {
        refusal_space(is->refusal, is->number, space);
        return NIC_COMMAND_FAULT;
    }
    if (h)
        size = space ? h->host_bytes : portals_entry_bytes(&is->task->message->arrival);
    if (!bytes || (offset <= size && bytes <= size - offset))
        return NIC_COMMAND_DONE;
    refusal_host(is->refusal, is->number, space, offset, bytes, size);
    return NIC_COMMAND_HOST;
}

/* Host memory that Portals knows, but the driver does not reach. */
static enum nic_command_result host_fault(const struct issue *is, uint64_t offset) {
    refusal_say(is->refusal, is->number, "the host's memory at offset %llu is not there",
                (unsigned long long)offset);
    return NIC_COMMAND_HOST;
}

static uint32_t host_pieces(const struct issue *is, uint32_t space, uint64_t offset, uint64_t bytes,
                            struct nic_segment *piece) {
    const struct portals_arrival *arrival = &is->task->message->arrival;
    return space ? portals_handler_segments(arrival, offset, bytes, piece, NIC_SEGMENTS)
                 : portals_entry_segments(arrival, offset, bytes, piece, NIC_SEGMENTS);
}

/* One move for each piece; the handle is complete when all are. */
static enum nic_command_result move(const struct issue *is, uint32_t space, uint64_t offset,
                                    uint8_t *local, uint64_t bytes, enum nic_move_kind kind) {
    struct nic_command_record c = command_new(is);
    for (uint64_t done = 0; done < bytes;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint32_t pieces = host_pieces(is, space, offset + done, bytes - done, piece);
        for (uint32_t i = 0; i < pieces; i++) {
            struct nic_move m = {.kind = (uint8_t)kind,
                                 .purpose = MOVE_COMMAND,
                                 .record = &c,
                                 .host = piece[i].host,
                                 .local = local + done,
                                 .bytes = piece[i].bytes,
                                 .task = &is->task->seen,
                                 .from_handler = true};
            if (nic_drive_move(is->nic, &m) >= NIC_FAULT)
                return host_fault(is, offset + done);
            done += piece[i].bytes;
        }
        if (!pieces)
            break;
    }
    return NIC_COMMAND_DONE;
}

static enum nic_command_result dma(const struct issue *is, bool to_host) {
    const uint32_t *w = is->word;
    uint32_t offset = to_host ? w[1] : w[0], at = to_host ? w[0] : w[1], bytes = w[2], space = w[3];
    enum nic_command_result host = host_has(is, space, offset, bytes);
    if (host != NIC_COMMAND_DONE)
        return host;
    uint8_t *local = reach(is, at, bytes, !to_host);
    if (!local)
        return NIC_COMMAND_SEGV;
    if (is->task->commands == COMMANDS)
        return wait_for(is->task);
    return move(is, space, offset, local, bytes, to_host ? NIC_STORE : NIC_FETCH);
}

/* The host may use the value at the same time. */
static uint64_t fetch_add_shared(uint32_t bytes, uint8_t *at, uint64_t add) {
    switch (bytes) {
    case 1:
        return __atomic_fetch_add(at, (uint8_t)add, __ATOMIC_SEQ_CST);
    case 2:
        return __atomic_fetch_add((uint16_t *)(void *)at, (uint16_t)add, __ATOMIC_SEQ_CST);
    case 4:
        return __atomic_fetch_add((uint32_t *)(void *)at, (uint32_t)add, __ATOMIC_SEQ_CST);
    }
    return __atomic_fetch_add((uint64_t *)(void *)at, add, __ATOMIC_SEQ_CST);
}

static void perform(const struct nic_command_record *c) {
    uint64_t before;
    if (c->number == SPIN_COMMAND_DMA_CAS) {
        memcpy(&before, c->local, 8);
        if (!__atomic_compare_exchange_n((uint64_t *)(void *)c->host, &before, c->operand, false,
                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
            !c->task->ended)
            memcpy(c->local, &before, 8);
    } else {
        before = fetch_add_shared(integer_bytes(c->type), c->host, c->operand);
        before = integer_extend(c->type, before);
        if (!c->task->ended)
            memcpy(c->local, &before, c->local_bytes);
    }
}

void nic_command_moved(struct nic *nic, struct nic_move *m, enum nic_status how) {
    struct nic_command_record *c = m->record;
    if (how != NIC_DONE)
        c->task->host_fault = true;
    else if (m->purpose == ATOMIC_COMMAND)
        perform(c);
    if (--c->transfers == 0)
        command_over(nic, c);
}

/* An atomic is on one naturally aligned value, in one piece. */
struct atomic {
    uint32_t space, bytes, type;    /* of the value in host memory */
    uint32_t local_at, local_bytes; /* in HPU memory: compared with, or the value before */
    uint64_t operand;
};

static enum nic_command_result dma_atomic(const struct issue *is, const struct atomic *a) {
    struct nic_segment piece[NIC_SEGMENTS];
    uint32_t offset = is->word[0];
    enum nic_command_result host = host_has(is, a->space, offset, a->bytes);
    if (host != NIC_COMMAND_DONE)
        return host;
    uint8_t *local = reach(is, a->local_at, a->local_bytes, true);
    if (!local || !host_pieces(is, a->space, offset, a->bytes, piece))
        return NIC_COMMAND_SEGV;
    if (piece[0].bytes < a->bytes || (uintptr_t)piece[0].host % a->bytes) {
        refusal_say(is->refusal, is->number, "what is at offset %u is not aligned to %u bytes",
                    offset, a->bytes);
        return NIC_COMMAND_FAULT;
    }
    if (is->task->commands == COMMANDS)
        return wait_for(is->task);
    struct nic_command_record c = command_new(is);
    c.host = piece[0].host;
    c.local = local;
    c.local_bytes = a->local_bytes;
    c.type = a->type;
    c.operand = a->operand;
    struct nic_move m = {.kind = NIC_ATOMIC_ON_HOST,
                         .purpose = ATOMIC_COMMAND,
                         .record = &c,
                         .host = c.host,
                         .local = local,
                         .bytes = a->bytes,
                         .task = &is->task->seen,
                         .from_handler = true};
    enum nic_status status = nic_drive_move(is->nic, &m);
    if (status >= NIC_FAULT)
        return host_fault(is, offset);
    if (status == NIC_DONE)
        perform(&c);
    return NIC_COMMAND_DONE;
}

static enum nic_command_result dma_cas(const struct issue *is) {
    const uint32_t *w = is->word;
    const struct atomic a = {.space = w[4],
                             .bytes = 8,
                             .type = PTL_UINT64_T,
                             .local_at = w[1],
                             .local_bytes = 8,
                             .operand = pair(&w[2])};
    return dma_atomic(is, &a);
}

static enum nic_command_result dma_fetch_add(const struct issue *is) {
    const uint32_t *w = is->word;
    const struct atomic a = {.space = w[6],
                             .bytes = integer_bytes(w[5]),
                             .type = w[5],
                             .local_at = w[3],
                             .local_bytes = w[4],
                             .operand = pair(&w[1])};
    if (!a.bytes)
        refusal_type(is->refusal, is->number, a.type);
    else if (a.local_bytes > 8)
        refusal_length(is->refusal, is->number, a.local_bytes, 8);
    else
        return dma_atomic(is, &a);
    return NIC_COMMAND_FAULT;
}

enum nic_command_result nic_command_test(struct nic *nic, const struct nic_task *seen,
                                         uint32_t handle, bool wanted, uint32_t *result,
                                         struct spin_refusal *refusal) {
    struct nic_task_record *task = nic_task_of(seen);
    (void)nic;
    if (handle == 0 || handle > task->handles) {
        refusal_handle(refusal, wanted, handle);
        return NIC_COMMAND_FAULT;
    }
    const struct nic_command_record *c = task->first;
    while (c && c->handle != handle)
        c = c->next;
    if (task->host_fault) { /* its move has met memory that is not there */
        refusal_say(refusal, 0, "a command before it has met host memory that is not there");
        return NIC_COMMAND_HOST;
    }
    if (c && wanted)
        return wait_for(task);
    *result = !c;
    return NIC_COMMAND_DONE;
}

/* Messages. */

static ptl_process_t target_of(const struct issue *is) {
    uint32_t id = is->word[4];
    if (is->task->message->message->interface & PTL_NI_PHYSICAL)
        return (ptl_process_t){.phys = {.nid = id >> 16, .pid = id & 0xffff}};
    return (ptl_process_t){.rank = id};
}

static enum nic_command_result start_message(const struct issue *is, enum nic_message_kind kind,
                                             uint8_t *card, struct nic_origin *origin) {
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
    if (w[2] > 1)
        refusal_say(is->refusal, is->number, "counter %u: neither PTL_NO_CT nor PTL_LOCAL_ME_CT",
                    w[2]);
    else if (w[3] > PTL_OC_ACK_REQ)
        refusal_say(is->refusal, is->number, "there is no acknowledgement request %u", w[3]);
    if (w[2] > 1 || w[3] > PTL_OC_ACK_REQ || atomic > 0xffff)
        return NIC_COMMAND_FAULT;
    *is->result = PTL_OK;
    int code = portals_command(is->nic->portals, &is->task->message->arrival, &command, origin);
    if (code == PTL_OK)
        return NIC_COMMAND_DONE;
    if (kind == NIC_ATOMIC)
        refusal_say(is->refusal, is->number, "operation %u on type %u, %u bytes: %s",
                    command.operation, command.datatype, w[1], PtlToStr(code, PTL_STR_ERROR));
    else
        refusal_say(is->refusal, is->number, "%u bytes to %u: %s", w[1], w[4],
                    PtlToStr(code, PTL_STR_ERROR));
    return NIC_COMMAND_FAULT;
}

static enum nic_command_result from_host(const struct issue *is, enum nic_message_kind kind) {
    enum nic_command_result host = host_has(is, 0, is->word[0], is->word[1]);
    if (host != NIC_COMMAND_DONE)
        return host;
    return start_message(is, kind, NULL, NULL);
}

/* The data is taken at once, so that the handler may go on with its memory. */
static enum nic_command_result from_device(const struct issue *is, enum nic_message_kind kind) {
    struct nic *nic = is->nic;
    uint32_t bytes = is->word[1];
    if (bytes > nic->config.mtu_bytes) {
        refusal_length(is->refusal, is->number, bytes, nic->config.mtu_bytes);
        return NIC_COMMAND_FAULT;
    }
    uint8_t *local = reach(is, is->word[0], bytes, false);
    if (!local)
        return NIC_COMMAND_SEGV;
    if (nic->config.handler_packets && nic->handler_packets >= nic->config.handler_packets)
        return wait_for_room(nic, is->task);
    struct nic_packet *packet = nic_packet_new(nic->config.pool);
    if (!packet) {
        nic->counts.no_memory++;
        refusal_say(is->refusal, is->number, "out of memory for packets");
        return NIC_COMMAND_FAULT;
    }
    packet->bytes = bytes;
    memcpy(packet->data, local, bytes);
    struct nic_origin origin = {.ready = packet, .from_handler = true, .task = &is->task->seen};
    nic->handler_packets++;
    enum nic_command_result done = start_message(is, kind, packet->data, &origin);
    if (origin.ready) { /* there was no message */
        nic->handler_packets--;
        nic_packet_release(packet);
    }
    return done;
}

/* Blocks until the data is there: the call gives the handler no handle to wait for. */
static enum nic_command_result get_to_device(const struct issue *is) {
    struct nic_task_record *task = is->task;
    if (task->get)
        return wait_for(task);
    if (task->get_done) {
        task->get_done = false;
        *is->result = PTL_OK;
        return NIC_COMMAND_DONE;
    }
    uint8_t *local = reach(is, is->word[0], is->word[1], true);
    if (!local)
        return NIC_COMMAND_SEGV;
    struct nic_origin origin = {0};
    enum nic_command_result done = start_message(is, NIC_GET, local, &origin);
    if (done != NIC_COMMAND_DONE || !origin.made)
        return done;
    task->get = origin.made;
    task->get->to_card = true;
    task->get->waiting = task;
    return wait_for(task);
}

/* The reply is in, or will never be. */
void nic_command_answered(struct nic *nic, struct nic_outgoing *o) {
    struct nic_task_record *task = o->waiting;
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
    const struct portals_arrival *arrival = &is->task->message->arrival;
    ptl_ct_event_t event = {is->word[0], is->word[1]};
    uint8_t *out = NULL;
    int code;
    if (is->number == SPIN_COMMAND_CT_GET) {
        out = reach(is, is->word[0], 8, true);
        if (!out)
            return NIC_COMMAND_SEGV;
        code = portals_command_ct_get(is->nic->portals, arrival, &event);
    } else if (is->number == SPIN_COMMAND_CT_INC) {
        code = portals_command_ct_inc(is->nic->portals, arrival, event);
    } else {
        code = portals_command_ct_set(is->nic->portals, arrival, event);
    }
    if (code != PTL_OK) {
        if (is->number == SPIN_COMMAND_CT_INC && event.success && event.failure)
            refusal_increment(is->refusal, is->number, is->word);
        else
            refusal_say(is->refusal, is->number, "the ME has no counter");
        return NIC_COMMAND_FAULT;
    }
    if (out) {
        const uint32_t small[2] = {(uint32_t)event.success, (uint32_t)event.failure};
        memcpy(out, small, 8);
    }
    *is->result = PTL_OK;
    return NIC_COMMAND_DONE;
}

/* HPU memory. */

static uint64_t *word64(const struct issue *is, uint32_t address) {
    if (address % 8 == 0)
        return (uint64_t *)(void *)reach(is, address, 8, true);
    refusal_align(is->refusal, is->number, address, 8);
    return NULL;
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
    uint8_t *before = value ? reach(is, is->word[1], 8, true) : NULL;
    if (!before)
        return NIC_COMMAND_SEGV;
    uint64_t old = __atomic_fetch_add(value, pair(&is->word[2]), __ATOMIC_SEQ_CST);
    memcpy(before, &old, 8);
    *is->result = PTL_OK;
    return NIC_COMMAND_DONE;
}

enum nic_command_result nic_command(struct nic *nic, const struct nic_task *seen, uint32_t number,
                                    const uint32_t *word, nic_reach *reach, void *context,
                                    uint32_t *result, struct spin_refusal *refusal, uint64_t now) {
    const struct issue is = {nic, nic_task_of(seen), number, word, reach, context, result, refusal};
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
    refusal_unknown(refusal, number, "a Portals card"); /* PsPIN's calls are not for it */
    return NIC_COMMAND_FAULT;
}
