/* A key-value store on the server's card (SC'17 section 5.4). Buckets and their locks are in HPU
 * memory, items in host memory. Who walks a chain for too long gives the operation to the
 * processor, and with it the bucket, until the processor has done all that came for it meanwhile.
 */
#include "spin/handler.h"

#include "kv_layout.h"

struct walk {
    struct kv_item *item; /* its head as it is in host memory; the value is not read */
    uint32_t at, before;  /* number of that item, and of the one that leads to it (0: the bucket) */
};

static void lock(uint32_t *word) {
    while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
        PtlHandlerYield();
}

static void unlock(uint32_t *word) {
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

static uint32_t item_at(uint32_t number) {
    return (number - 1) * sizeof(struct kv_item);
}

static int same_key(const struct kv_request *q, const struct kv_item *item) {
    if (item->hash != q->hash || item->key_bytes != q->key_bytes)
        return 0;
    for (uint32_t i = 0; i < q->key_bytes; i++)
        if (item->key[i] != q->key[i])
            return 0;
    return 1;
}

/* True: the end of the chain (w->at is 0) or the key was found. False: it takes too long. */
static int find_item(const struct kv_request *q, const struct kv_bucket *b,
                     const struct kv_state *s, struct walk *w) {
    w->at = b->head;
    w->before = 0;
    for (uint32_t step = 0; w->at; step++) {
        if (step == s->max_steps)
            return 0;
        PtlHandlerDMAFromHostB(item_at(w->at), w->item, KV_ITEM_HEAD, PTL_ME_HOST_MEM);
        if (same_key(q, w->item))
            return 1;
        w->before = w->at;
        w->at = w->item->next;
    }
    return 1;
}

static uint32_t take_free(struct kv_state *s) {
    uint32_t *stack = (uint32_t *)s + s->free_at, number = 0;
    lock(&s->free_lock);
    if (s->free_count)
        number = stack[--s->free_count];
    unlock(&s->free_lock);
    return number;
}

static void give_free(struct kv_state *s, uint32_t number) {
    uint32_t *stack = (uint32_t *)s + s->free_at;
    lock(&s->free_lock);
    stack[s->free_count++] = number;
    unlock(&s->free_lock);
}

/* Head from `item`, value from the packet. */
static void write_item(uint32_t number, const struct kv_item *item, const struct kv_request *q) {
    ptl_dma_h head, value;
    PtlHandlerDMAToHostNB(item, item_at(number), KV_ITEM_HEAD, PTL_ME_HOST_MEM, &head);
    PtlHandlerDMAToHostNB(q->value, item_at(number) + KV_ITEM_HEAD, q->value_bytes, PTL_ME_HOST_MEM,
                          &value);
    PtlHandlerDMAWait(head);
    PtlHandlerDMAWait(value);
}

static uint32_t insert(struct kv_state *s, struct kv_bucket *b, const struct kv_request *q,
                       struct walk *w) {
    struct kv_item *item = w->item;
    if (!w->at) {
        w->at = take_free(s);
        if (!w->at)
            return KV_FULL;
        item->next = b->head;
        item->hash = q->hash;
        item->key_bytes = q->key_bytes;
        for (uint32_t i = 0; i < KV_KEY_BYTES; i++)
            item->key[i] = q->key[i];
        b->head = w->at;
    }
    item->value_bytes = q->value_bytes;
    write_item(w->at, item, q);
    return KV_DONE;
}

static uint32_t delete_item(struct kv_state *s, struct kv_bucket *b, struct walk *w) {
    if (!w->at)
        return KV_NOT_FOUND;
    if (w->before)
        PtlHandlerDMAToHostB(&w->item->next, item_at(w->before), sizeof w->item->next,
                             PTL_ME_HOST_MEM);
    else
        b->head = w->item->next;
    give_free(s, w->at);
    return KV_DONE;
}

static uint32_t get(const struct walk *w, struct kv_reply *reply) {
    if (!w->at)
        return KV_NOT_FOUND;
    reply->value_bytes = w->item->value_bytes;
    if (reply->value_bytes)
        PtlHandlerDMAFromHostB(item_at(w->at) + KV_ITEM_HEAD, reply->value, reply->value_bytes,
                               PTL_ME_HOST_MEM);
    return KV_DONE;
}

/* To the processor; the bucket is locked. */
static void hand_over(const struct kv_state *s, struct kv_bucket *b, struct kv_request *q) {
    if (b->at_host++ == 0)
        b->epoch++;
    q->head = b->head;
    q->epoch = b->epoch;
    PtlHandlerPutFromDevice(q, KV_REQUEST_BYTES(q->value_bytes), PTL_NO_CT, PTL_NO_ACK_REQ, s->rank,
                            KV_WORK, 0, NULL, 0);
}

static void answer(const struct kv_request *q, struct kv_reply *reply, uint32_t status) {
    reply->serial = q->serial;
    reply->status = status;
    PtlHandlerPutFromDevice(reply, KV_REPLY_BYTES(reply->value_bytes), PTL_NO_CT, PTL_NO_ACK_REQ,
                            q->client, KV_REPLY, 0, NULL, 0);
}

__handler int kv_request_payload_handler(const ptl_payload_t p, void *state) {
    struct kv_state *s = state;
    struct kv_request *q = (struct kv_request *)p.base;
    if (!kv_is_request(q, p.length))
        return FAIL;
    struct {
        struct kv_item item;
        struct kv_reply reply;
    } *memory = malloc(sizeof *memory);
    if (!memory)
        return FAIL;
    struct kv_reply *reply = &memory->reply;
    struct walk w = {.item = &memory->item};
    struct kv_bucket *b = &s->bucket[q->hash & s->bucket_mask];
    uint32_t status = KV_DONE;
    reply->value_bytes = 0;
    int early = s->planted_bug && q->operation == KV_INSERT && find_item(q, b, s, &w) && !w.at;
    lock(&b->lock);
    int here = !b->at_host && (early || find_item(q, b, s, &w));
    if (!here)
        hand_over(s, b, q);
    else if (q->operation == KV_INSERT)
        status = insert(s, b, q, &w);
    else if (q->operation == KV_GET)
        status = get(&w, reply);
    else
        status = delete_item(s, b, &w);
    unlock(&b->lock);
    if (here)
        answer(q, reply, status);
    free(memory);
    return SUCCESS;
}

__handler int kv_release_payload_handler(const ptl_payload_t p, void *state) {
    struct kv_state *s = state;
    const struct kv_release *r = (const struct kv_release *)p.base;
    if (p.length != sizeof *r || r->bucket > s->bucket_mask)
        return FAIL;
    struct kv_bucket *b = &s->bucket[r->bucket];
    lock(&b->lock);
    if ((int32_t)(r->order - b->released) > 0) { /* two releases may overtake each other */
        b->released = r->order;
        b->head = r->head;
    }
    b->at_host--;
    unlock(&b->lock);
    return SUCCESS;
}
