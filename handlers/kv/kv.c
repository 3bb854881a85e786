#include "spinlib/kv.h"

#include <stdlib.h>
#include <string.h>

#include "kv_layout.h"

enum { BUCKETS = 1024, ITEMS = 4096, STEPS = 8, QUEUES = 2 };
#define QUEUE_BYTES (64u << 10) /* of requests to the processor; there are two of them */
#define EVENTS      4096u

/* The processor's view of a bucket. */
struct host_bucket {
    uint32_t head, epoch, released;
};

struct spin_kv {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq;
    uint32_t servers, rank, buckets, items;
    bool serves, by_host;
    /* A client: one request, one answer. */
    struct kv_request request;
    struct kv_reply reply;
    uint32_t serial;
    bool answered, lost;
    struct spin_linked reply_entry;
    ptl_handle_md_t md; /* of all memory */
    /* A server. */
    ptl_image_h image;
    ptl_hpu_md_h card_memory;
    struct spin_linked request_entry, release_entry, queue_entry[QUEUES];
    uint8_t *queue[QUEUES];
    struct kv_item *item; /* number 1 is item[0] */
    struct host_bucket *bucket;
    uint32_t *free_items; /* the processor's own */
    uint32_t free_count;
    struct kv_reply answer;
    struct kv_release release;
    ptl_handle_ct_t sent;
    uint64_t sends, worked;
};

/* ---- Hashing ---- */

/* FNV-1a, mixed: H1 takes the upper bits, H2 the lower ones. */
static uint64_t hash_of(const uint8_t *key, uint32_t bytes) {
    uint64_t h = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < bytes; i++)
        h = (h ^ key[i]) * 0x100000001b3ull;
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

/* ---- The processor's part ---- */

static uint32_t find_item(const struct spin_kv *kv, const struct kv_request *q, uint32_t head,
                          uint32_t *before) {
    uint32_t at = head;
    *before = 0;
    for (uint32_t step = 0; at && step < 2 * kv->items; step++) {
        const struct kv_item *item = &kv->item[at - 1];
        spin_work(10, 64);
        if (item->hash == q->hash && item->key_bytes == q->key_bytes &&
            memcmp(item->key, q->key, q->key_bytes) == 0)
            return at;
        *before = at;
        at = item->next;
    }
    return 0;
}

static uint32_t insert(struct spin_kv *kv, struct host_bucket *b, const struct kv_request *q,
                       uint32_t at) {
    if (!at) {
        if (!kv->free_count)
            return KV_FULL;
        at = kv->free_items[--kv->free_count];
        struct kv_item *item = &kv->item[at - 1];
        item->next = b->head;
        item->hash = q->hash;
        item->key_bytes = q->key_bytes;
        memcpy(item->key, q->key, KV_KEY_BYTES);
        b->head = at;
    }
    kv->item[at - 1].value_bytes = q->value_bytes;
    spin_copy(kv->item[at - 1].value, q->value, q->value_bytes);
    return KV_DONE;
}

static uint32_t operate(struct spin_kv *kv, const struct kv_request *q, struct host_bucket *b) {
    uint32_t before, at = find_item(kv, q, b->head, &before);
    kv->answer.value_bytes = 0;
    if (q->operation == KV_INSERT)
        return insert(kv, b, q, at);
    if (!at)
        return KV_NOT_FOUND;
    struct kv_item *item = &kv->item[at - 1];
    if (q->operation == KV_GET) {
        kv->answer.value_bytes = item->value_bytes;
        spin_copy(kv->answer.value, item->value, item->value_bytes);
        return KV_DONE;
    }
    *(before ? &kv->item[before - 1].next : &b->head) = item->next;
    kv->free_items[kv->free_count++] = at; /* whoever's it was */
    return KV_DONE;
}

static int send_from(struct spin_kv *kv, const void *data, uint64_t bytes, uint32_t to,
                     ptl_match_bits_t bits) {
    int code = PtlPut(kv->md, (ptl_size_t)(uintptr_t)data, bytes, PTL_NO_ACK_REQ,
                      (ptl_process_t){.rank = to}, kv->pt, bits, 0, NULL, 0);
    kv->sends += code == PTL_OK;
    return code;
}

/* One request that came to the processor: what it asks for, the answer, and the bucket back. */
static int work(struct spin_kv *kv, const struct kv_request *q, uint64_t bytes) {
    if (!kv_is_request(q, bytes))
        return PTL_OK;
    uint32_t number = q->hash & (kv->buckets - 1);
    struct host_bucket *b = &kv->bucket[number];
    spin_work(64, bytes); /* the event and the request are read */
    if (b->epoch != q->epoch && !kv->by_host) {
        b->epoch = q->epoch;
        b->head = q->head;
    }
    kv->answer.serial = q->serial;
    kv->answer.status = operate(kv, q, b);
    kv->worked++;
    int code =
        send_from(kv, &kv->answer, KV_REPLY_BYTES(kv->answer.value_bytes), q->client, KV_REPLY);
    if (code == PTL_OK && !kv->by_host) {
        kv->release =
            (struct kv_release){.bucket = number, .head = b->head, .order = ++b->released};
        code = send_from(kv, &kv->release, sizeof kv->release, kv->rank, KV_RELEASE);
    }
    ptl_ct_event_t event; /* before `answer` and `release` are used again */
    while (code == PTL_OK && (code = PtlCTGet(kv->sent, &event)) == PTL_OK &&
           event.success + event.failure < kv->sends)
        if (event.failure == 0)
            code = PtlCTWait(kv->sent, kv->sends, &event);
    return code;
}

static int open_queue(struct spin_kv *kv, int i) {
    const struct spin_entry entry = {
        .start = kv->queue[i],
        .length = QUEUE_BYTES,
        .min_free = sizeof(struct kv_request),
        .bits = KV_WORK,
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE,
        .user_ptr = &kv->queue[i],
    };
    return spin_entry_append(kv->ni, kv->pt, &entry, &kv->queue_entry[i]);
}

/* ---- Events, of servers and clients ---- */

static int take_event(struct spin_kv *kv, const ptl_event_t *event) {
    if (event->type == PTL_EVENT_AUTO_UNLINK) { /* a queue is full, and all of it was worked on */
        int i = (int)((uint8_t **)event->user_ptr - kv->queue);
        kv->queue_entry[i] = (struct spin_linked){0};
        return open_queue(kv, i);
    }
    if (event->type == PTL_EVENT_ACK && event->ni_fail_type != PTL_NI_OK)
        kv->lost = true;
    if (event->type != PTL_EVENT_PUT || event->ni_fail_type != PTL_NI_OK)
        return PTL_OK;
    if (event->user_ptr == &kv->reply) {
        kv->answered |= kv->reply.serial == kv->serial;
        return PTL_OK;
    }
    struct kv_request q; /* what lies behind each other in a queue is not aligned */
    uint64_t bytes = event->mlength < sizeof q ? event->mlength : sizeof q;
    memcpy(&q, event->start, bytes);
    return work(kv, &q, event->mlength);
}

int spin_kv_work(struct spin_kv *kv, ptl_time_t timeout_ms) {
    ptl_event_t event;
    unsigned int which;
    int code = PtlEQPoll(&kv->eq, 1, timeout_ms, &event, &which);
    while (code == PTL_OK && (code = take_event(kv, &event)) == PTL_OK)
        code = PtlEQGet(kv->eq, &event);
    return code == PTL_EQ_EMPTY ? PTL_OK : code;
}

/* ---- Clients ---- */

static int ask(struct spin_kv *kv, enum kv_operation operation, const void *key, uint32_t key_bytes,
               const void *value, uint32_t value_bytes) {
    if (key_bytes == 0 || key_bytes > KV_KEY_BYTES || value_bytes > KV_VALUE_BYTES)
        return PTL_ARG_INVALID;
    struct kv_request *q = &kv->request;
    uint64_t hash = hash_of(key, key_bytes);
    *q = (struct kv_request){.operation = operation,
                             .client = kv->rank,
                             .serial = ++kv->serial,
                             .hash = (uint32_t)hash,
                             .key_bytes = key_bytes,
                             .value_bytes = value_bytes};
    memcpy(q->key, key, key_bytes);
    if (value_bytes)
        memcpy(q->value, value, value_bytes);
    kv->answered = kv->lost = false;
    uint32_t server = (uint32_t)((hash >> 32) % kv->servers);
    int code = PtlPut(kv->md, (ptl_size_t)(uintptr_t)q, KV_REQUEST_BYTES(value_bytes), PTL_ACK_REQ,
                      (ptl_process_t){.rank = server}, kv->pt, kv->by_host ? KV_WORK : KV_REQUEST,
                      0, NULL, 0);
    kv->sends += code == PTL_OK;
    while (code == PTL_OK && !kv->answered) {
        ptl_event_t event;
        code = PtlEQWait(kv->eq, &event);
        if (code == PTL_OK)
            code = take_event(kv, &event);
        if (code == PTL_OK && kv->lost)
            return PTL_FAIL;
    }
    return code;
}

int spin_kv_insert(struct spin_kv *kv, const void *key, uint32_t key_bytes, const void *value,
                   uint32_t value_bytes) {
    int code = ask(kv, KV_INSERT, key, key_bytes, value, value_bytes);
    return code == PTL_OK && kv->reply.status == KV_FULL ? PTL_NO_SPACE : code;
}

int spin_kv_get(struct spin_kv *kv, const void *key, uint32_t key_bytes, void *value,
                uint32_t *value_bytes, bool *found) {
    int code = ask(kv, KV_GET, key, key_bytes, NULL, 0);
    *found = code == PTL_OK && kv->reply.status == KV_DONE;
    *value_bytes = *found ? kv->reply.value_bytes : 0;
    if (*value_bytes > KV_VALUE_BYTES)
        return PTL_FAIL;
    memcpy(value, kv->reply.value, *value_bytes);
    return code;
}

int spin_kv_delete(struct spin_kv *kv, const void *key, uint32_t key_bytes, bool *found) {
    int code = ask(kv, KV_DELETE, key, key_bytes, NULL, 0);
    *found = code == PTL_OK && kv->reply.status == KV_DONE;
    return code;
}

uint64_t spin_kv_by_processor(const struct spin_kv *kv) {
    return kv->worked;
}

/* ---- Opening ---- */

static int open_card(struct spin_kv *kv, const struct spin_kv_options *o) {
    uint32_t words = (uint32_t)(sizeof(struct kv_state) + kv->buckets * sizeof(struct kv_bucket));
    uint32_t bytes = words + kv->items * 4;
    struct kv_state *state = calloc(1, bytes);
    if (!state)
        return PTL_NO_SPACE;
    *state = (struct kv_state){.rank = kv->rank,
                               .bucket_mask = kv->buckets - 1,
                               .max_steps = o->max_steps ? o->max_steps : STEPS,
                               .planted_bug = o->planted_bug,
                               .free_count = kv->items,
                               .free_at = words / 4};
    for (uint32_t i = 0; i < kv->items; i++)
        ((uint32_t *)state)[words / 4 + i] = kv->items - i;
    struct spin_entry entry = {
        .start = kv->item,
        .length = 2ull * kv->items * sizeof *kv->item,
        .bits = KV_REQUEST,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE,
        .payload = "kv_request_payload_handler",
        .memory_bytes = bytes,
        .state = state,
        .state_bytes = bytes,
    };
    int code = spin_handlers_load(kv->ni, "kv_handler", &kv->image);
    if (code == PTL_OK)
        code = PtlHPUAllocMem(bytes, kv->ni, &kv->card_memory);
    entry.image = kv->image;
    entry.memory = kv->card_memory;
    if (code == PTL_OK)
        code = spin_entry_append(kv->ni, kv->pt, &entry, &kv->request_entry);
    entry.bits = KV_RELEASE;
    entry.payload = "kv_release_payload_handler";
    entry.state = NULL;
    entry.state_bytes = 0;
    if (code == PTL_OK)
        code = spin_entry_append(kv->ni, kv->pt, &entry, &kv->release_entry);
    free(state);
    return code;
}

static int open_server(struct spin_kv *kv, const struct spin_kv_options *o) {
    kv->item = calloc(2ull * kv->items, sizeof *kv->item);
    kv->bucket = calloc(kv->buckets, sizeof *kv->bucket);
    kv->free_items = calloc(2ull * kv->items, sizeof *kv->free_items);
    if (!kv->item || !kv->bucket || !kv->free_items)
        return PTL_NO_SPACE;
    /* the card's items are the first half; without it all are the processor's */
    for (uint32_t i = 2 * kv->items; i > (kv->by_host ? 0 : kv->items); i--)
        kv->free_items[kv->free_count++] = i;
    for (int i = 0; i < QUEUES; i++) {
        kv->queue[i] = malloc(QUEUE_BYTES);
        int code = kv->queue[i] ? open_queue(kv, i) : PTL_NO_SPACE;
        if (code != PTL_OK)
            return code;
    }
    kv->serves = true;
    return kv->by_host ? PTL_OK : open_card(kv, o);
}

static int open_client(struct spin_kv *kv) {
    ptl_md_t md = {.length = PTL_SIZE_MAX,
                   .options = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_SEND_DISABLE,
                   .eq_handle = kv->eq};
    const struct spin_entry entry = {.start = &kv->reply,
                                     .length = sizeof kv->reply,
                                     .bits = KV_REPLY,
                                     .options = PTL_ME_OP_PUT,
                                     .user_ptr = &kv->reply};
    int code = PtlCTAlloc(kv->ni, &kv->sent);
    md.ct_handle = kv->sent;
    if (code == PTL_OK)
        code = PtlMDBind(kv->ni, &md, &kv->md);
    return code == PTL_OK ? spin_entry_append(kv->ni, kv->pt, &entry, &kv->reply_entry) : code;
}

int spin_kv_open(ptl_handle_ni_t ni, const struct spin_kv_options *o, struct spin_kv **out) {
    struct spin_kv *kv = calloc(1, sizeof *kv);
    *out = NULL;
    if (!kv)
        return PTL_NO_SPACE;
    *kv = (struct spin_kv){
        .ni = ni,
        .eq = PTL_EQ_NONE,
        .md = PTL_INVALID_HANDLE,
        .rank = spin_rank(),
        .servers = o->servers ? o->servers : spin_ranks(),
        .buckets = o->buckets ? o->buckets : BUCKETS,
        .items = o->items ? o->items : ITEMS,
        .by_host = o->by_host,
    };
    int code = kv->servers > spin_ranks() || kv->buckets & (kv->buckets - 1) ||
                       kv->items > 1u << 20 || kv->buckets > 1u << 20
                   ? PTL_ARG_INVALID
                   : PtlEQAlloc(ni, EVENTS, &kv->eq);
    if (code == PTL_OK)
        code = PtlPTAlloc(ni, 0, kv->eq, PTL_PT_ANY, &kv->pt);
    if (code == PTL_OK)
        code = open_client(kv);
    if (code == PTL_OK && kv->rank < kv->servers)
        code = open_server(kv, o);
    if (code == PTL_OK)
        *out = kv;
    else
        spin_kv_close(kv);
    return code;
}

void spin_kv_close(struct spin_kv *kv) {
    if (!kv)
        return;
    spin_entry_remove(&kv->request_entry);
    spin_entry_remove(&kv->release_entry);
    for (int i = 0; i < QUEUES; i++) {
        spin_entry_remove(&kv->queue_entry[i]);
        free(kv->queue[i]);
    }
    spin_entry_remove(&kv->reply_entry);
    if (kv->card_memory)
        PtlHPUFreeMem(&kv->card_memory);
    while (kv->md != PTL_INVALID_HANDLE && PtlMDRelease(kv->md) == PTL_IN_USE)
        ;
    if (kv->sent)
        PtlCTFree(kv->sent);
    if (kv->eq != PTL_EQ_NONE) {
        PtlPTFree(kv->ni, kv->pt);
        PtlEQFree(kv->eq);
    }
    if (kv->image)
        PtlImageUnload(kv->image);
    free(kv->item);
    free(kv->bucket);
    free(kv->free_items);
    free(kv);
}
