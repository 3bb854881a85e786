/* The owner of records: its entries, and what its processor does if the card does not. */
#include <stdlib.h>
#include <string.h>

#include "tx_private.h"

#define QUEUE_BYTES (64u << 10) /* of requests to the processor; there are two of them */

/* What a processor does, for simulated time. */
enum { EVENT_CYCLES = 64, RECORD_CYCLES = 10, LINE_BYTES = 64 };

/* ---- The processor's part ---- */

static const struct tx_access *reads_of(const struct tx_request *q) {
    return (const struct tx_access *)&q->record[q->writes];
}

static bool is_request(const struct spin_tx *tx, const struct tx_request *q, uint64_t bytes) {
    if (bytes < sizeof *q || q->kind >= TX_KINDS || q->client >= spin_ranks() ||
        q->reads > TX_LOG || q->writes > tx->most_writes)
        return false;
    bool data = q->kind == TX_INSTALL || q->kind == TX_WHOLE;
    return bytes == sizeof *q + 4ull * q->writes + sizeof(struct tx_access) * q->reads +
                        (data ? (uint64_t)q->writes * tx->record_bytes : 0);
}

/* A client that reads meanwhile gets a version that is odd, or one that is old: its commit will
 * find another. The card reads from low to high addresses. */
static void install(struct spin_tx *tx, const struct tx_request *q) {
    const uint8_t *data = (const uint8_t *)(reads_of(q) + q->reads);
    for (uint32_t i = 0; i < q->writes; i++) {
        struct tx_record *r = &tx->owner.state->record[q->record[i]];
        uint8_t *at = tx->owner.memory + (uint64_t)q->record[i] * tx->owner.stride;
        __atomic_store_n((uint32_t *)at, r->version + 1, __ATOMIC_SEQ_CST);
        spin_copy(at + TX_HEAD, data + (uint64_t)i * tx->record_bytes, tx->record_bytes);
        r->version += 2;
        __atomic_store_n((uint32_t *)at, r->version, __ATOMIC_SEQ_CST);
    }
}

static bool serve(struct spin_tx *tx, const struct tx_request *q) {
    struct tx_state *s = tx->owner.state;
    struct tx_log *log = tx_log_of(s, q->client);
    const struct tx_set set = {.table = s->record,
                               .records = s->records,
                               .client = q->client,
                               .write = q->record,
                               .read = reads_of(q),
                               .writes = q->writes,
                               .reads = q->reads,
                               .planted_bug = s->planted_bug};
    spin_work(EVENT_CYCLES + RECORD_CYCLES * (q->reads + q->writes),
              LINE_BYTES * (q->reads + q->writes + 1));
    if (q->kind == TX_PREPARE || q->kind == TX_WHOLE ? log->held || !tx_lock(&set)
                                                     : log->held != q->serial + 1)
        return false;
    log->held = q->kind == TX_PREPARE ? q->serial + 1 : 0;
    if (q->kind == TX_PREPARE)
        return true;
    if (q->kind != TX_ABORT)
        install(tx, q);
    tx_unlock(&set, set.writes, set.reads);
    return true;
}

int tx_owner_work(struct spin_tx *tx, const void *request, uint64_t bytes) {
    if (bytes > tx->most_request)
        return PTL_OK;
    memcpy(tx->owner.request, request, bytes); /* requests behind each other are not aligned */
    const struct tx_request *q = (const struct tx_request *)tx->owner.request;
    if (!is_request(tx, q, bytes))
        return PTL_OK;
    bool yes = serve(tx, q);
    return PtlPut(tx->md, 0, 0, PTL_NO_ACK_REQ, (ptl_process_t){.rank = q->client}, tx->pt,
                  TX_REPLY, 0, NULL, TX_ANSWER(q->serial, yes));
}

/* ---- Entries ---- */

static int open_queue(struct spin_tx *tx, int i) {
    const struct spin_entry entry = {
        .start = tx->owner.queue[i],
        .length = QUEUE_BYTES,
        .min_free = tx->most_request,
        .bits = TX_WORK,
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE,
        .user_ptr = &tx->owner.queue[i],
    };
    return spin_entry_append(tx->ni, tx->pt, &entry, &tx->owner.queue_entry[i]);
}

int tx_owner_reopen(struct spin_tx *tx, const void *user_ptr) {
    int i = (int)((uint8_t *const *)user_ptr - tx->owner.queue);
    tx->owner.queue_entry[i] = (struct spin_linked){0};
    return open_queue(tx, i);
}

static int open_processor(struct spin_tx *tx) {
    struct tx_owner *o = &tx->owner;
    const struct spin_entry entry = {
        .start = o->memory,
        .length = (uint64_t)o->records * o->stride,
        .bits = TX_READ,
        .ignore = ~0xffull,
        .options = PTL_ME_OP_GET | PTL_ME_EVENT_COMM_DISABLE,
    };
    int code = spin_entry_append(tx->ni, tx->pt, &entry, &o->read_entry);
    for (int i = 0; code == PTL_OK && i < TX_QUEUES; i++) {
        o->queue[i] = malloc(QUEUE_BYTES);
        code = o->queue[i] ? open_queue(tx, i) : PTL_NO_SPACE;
    }
    return code;
}

static int open_card(struct spin_tx *tx, uint32_t state_bytes) {
    struct tx_owner *o = &tx->owner;
    int code = spin_handlers_load(tx->ni, "tx_handler", &o->image);
    if (code == PTL_OK)
        code = PtlHPUAllocMem(state_bytes, tx->ni, &o->card_memory);
    struct spin_entry entry = {
        .start = o->memory,
        .length = (uint64_t)o->records * o->stride,
        .bits = TX_READ,
        .ignore = ~0xffull,
        .options = PTL_ME_OP_GET | PTL_ME_EVENT_COMM_DISABLE,
        .image = o->image,
        .header = "tx_read_header_handler",
        .memory = o->card_memory,
        .state = o->state,
        .state_bytes = state_bytes,
    };
    if (code == PTL_OK)
        code = spin_entry_append(tx->ni, tx->pt, &entry, &o->read_entry);
    entry.length += tx->most_request; /* an entry cuts off what is longer than itself */
    entry.bits = TX_REQUEST;
    entry.ignore = 0;
    entry.options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE;
    entry.header = NULL;
    entry.payload = "tx_request_payload_handler";
    entry.state = NULL;
    entry.state_bytes = 0;
    return code == PTL_OK ? spin_entry_append(tx->ni, tx->pt, &entry, &o->request_entry) : code;
}

int tx_owner_open(struct spin_tx *tx) {
    struct tx_owner *o = &tx->owner;
    o->records = tx->records / tx->owners + (tx->rank < tx->records % tx->owners);
    o->stride = tx->record_bytes + (tx->by_host ? TX_HEAD : 0);
    uint64_t memory = (uint64_t)o->records * o->stride;
    uint64_t state = sizeof *o->state + (uint64_t)o->records * sizeof(struct tx_record) +
                     (uint64_t)spin_ranks() * sizeof(struct tx_log);
    if (memory > UINT32_MAX || state > UINT32_MAX)
        return PTL_NO_SPACE;
    o->memory = calloc(1, memory + tx->most_request);
    o->state = calloc(1, state);
    o->request = malloc(tx->most_request);
    if (!o->memory || !o->state || !o->request)
        return PTL_NO_SPACE;
    *o->state = (struct tx_state){.clients = spin_ranks(),
                                  .records = o->records,
                                  .record_shift = tx->record_shift,
                                  .planted_bug = tx->planted_bug};
    tx->serves = true;
    return tx->by_host ? open_processor(tx) : open_card(tx, (uint32_t)state);
}

void tx_owner_close(struct spin_tx *tx) {
    struct tx_owner *o = &tx->owner;
    spin_entry_remove(&o->read_entry);
    spin_entry_remove(&o->request_entry);
    for (int i = 0; i < TX_QUEUES; i++) {
        spin_entry_remove(&o->queue_entry[i]);
        free(o->queue[i]);
    }
    if (o->card_memory)
        PtlHPUFreeMem(&o->card_memory);
    if (o->image)
        PtlImageUnload(o->image);
    free(o->memory);
    free(o->state);
    free(o->request);
}
