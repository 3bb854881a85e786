#include "store_node_host.h"

#include <stdlib.h>
#include <string.h>

#include "storage_code.h"

#define MOST_BYTES   (1u << 20)
#define NOTICE_BYTES 65536u
#define SUM_BYTES    (1u << 20)
#define SUMS         4096u /* ranges of parities at a time */

/* ---- Sending ---- */

static int put(struct store_node_host *h, const void *data, uint64_t bytes, uint32_t to,
               ptl_match_bits_t bits, uint64_t hdr_data) {
    int code = PtlPut(h->md, (ptl_size_t)(uintptr_t)data, bytes, PTL_NO_ACK_REQ,
                      (ptl_process_t){.rank = to}, h->card->pt, bits, 0, NULL, hdr_data);
    h->sends += code == PTL_OK;
    return code;
}

/* Until what was sent may be changed. */
static int wait_sent(struct store_node_host *h) {
    ptl_ct_event_t event;
    int code = PtlCTGet(h->sent, &event);
    while (code == PTL_OK && event.success + event.failure < h->sends)
        code = PtlCTWait(h->sent, h->sends - event.failure, &event);
    return code;
}

/* session: of a capability that is genuine, else NULL. */
static int answer(struct store_node_host *h, const uint32_t *session, uint32_t client,
                  uint64_t word) {
    bool is_signed = h->card->node.trust == STORAGE_AUTHENTICATED && session;
    return put(h, h, 0, client, is_signed ? storage_answer_bits(session, word) : STORAGE_ANSWER,
               word);
}

/* ---- Requests ---- */

/* Data to the medium, packet by packet if they are authenticated. */
static enum storage_status store_data(struct store_node_host *h, const struct storage_head *head,
                                      const uint8_t *message, uint64_t bytes,
                                      const uint32_t session[2]) {
    const struct storage_place *place = &head->capability.place[head->virtual_rank];
    uint8_t *to = h->medium + (uint64_t)place->block * STORAGE_BLOCK + head->offset;
    uint64_t at = STORAGE_HEAD;
    if (!head->packet) {
        spin_copy(to, message + at, head->length);
        return STORAGE_DONE;
    }
    while (at < bytes) {
        uint64_t end = (at / head->packet + 1) * head->packet;
        uint32_t count = (uint32_t)((end < bytes ? end : bytes) - at) - STORAGE_TAG_BYTES, tag[2];
        storage_packet_tag(session, head->request, storage_role(head), (uint32_t)at, message + at,
                           count, tag);
        uint32_t came[2];
        memcpy(came, message + at + count, sizeof came);
        if (!storage_mac_equal(tag, came))
            return STORAGE_BAD_CAPABILITY;
        spin_copy(to, message + at, count);
        to += count;
        at += count + STORAGE_TAG_BYTES;
    }
    return STORAGE_DONE;
}

/* The data of a write multiplied for a parity node, whose head `head` is. */
static void encode(const struct storage_head *head, const uint32_t session[2],
                   const uint8_t *message, uint8_t *to, uint64_t bytes) {
    const uint32_t k = head->capability.k,
                   coefficient = storage_coefficient(k, head->virtual_rank - k, head->data_index);
    struct storage_row row;
    storage_make_row(&row, coefficient);
    for (uint64_t at = STORAGE_HEAD, end; at < bytes; at = end) {
        end = head->packet ? (at / head->packet + 1) * head->packet : bytes;
        end = end < bytes ? end : bytes;
        const uint32_t count = (uint32_t)(end - at) - (head->packet ? STORAGE_TAG_BYTES : 0);
        uint32_t tag[2];
        storage_multiply(&row, 1, message + at, count, (uint8_t *[]){to + at});
        if (head->packet) {
            storage_packet_tag(session, head->request, storage_role(head), (uint32_t)at, to + at,
                               count, tag);
            memcpy(to + at + count, tag, sizeof tag);
        }
    }
    spin_work(2 * bytes, 2 * bytes); /* as much as it takes natively, bench-code says */
}

/* To the nodes that get it from this one. */
static int pass_on(struct store_node_host *h, const struct storage_head *head, uint8_t *message,
                   uint64_t bytes, const uint32_t session[2]) {
    const struct storage_capability *c = &head->capability;
    uint32_t first, children = storage_children(c, head->virtual_rank, &first);
    bool coded = children && c->strategy == STORAGE_RS;
    uint8_t *sends = coded ? malloc(bytes) : message;
    int code = sends ? PTL_OK : PTL_NO_SPACE;
    struct storage_head passed = *head;
    for (uint32_t i = 0; i < children && code == PTL_OK; i++) {
        storage_pass_on(&passed, session, first + i);
        memcpy(sends, &passed, sizeof passed);
        if (coded)
            encode(&passed, session, message, sends, bytes);
        if (put(h, sends, bytes, c->place[first + i].node, STORAGE_REQUEST, 0) == PTL_OK)
            code = wait_sent(h);
        else
            code = answer(h, session, c->client,
                          storage_answer(head->request, first + i, STORAGE_GONE));
    }
    if (coded)
        free(sends);
    return code;
}

/* The card has checked it and used its number; its keys may have changed since. Packets are checked
 * while they are stored; those that are passed on as they are, by the next node too. */
static int work(struct store_node_host *h, uint8_t *message, uint64_t bytes, uint32_t source) {
    struct storage_head head;
    uint32_t session[2] = {0};
    memcpy(&head, message, bytes < sizeof head ? bytes : sizeof head);
    spin_work(500, bytes < 4096 ? bytes : 4096); /* event and head are read, the MAC is computed */
    enum storage_status status = storage_check(&head, bytes, source, &h->card->node, NULL, session);
    bool genuine = storage_is_genuine(status); /* a packet of it may not be */
    if (status == STORAGE_DONE && head.operation != STORAGE_WRITE)
        status = STORAGE_MALFORMED;
    h->requests++;
    const struct storage_capability *c = &head.capability;
    bool coded = status == STORAGE_DONE && c->strategy == STORAGE_RS;
    int code = PTL_OK;
    if (coded)
        status = store_data(h, &head, message, bytes, session);
    if (status == STORAGE_DONE)
        code = pass_on(h, &head, message, bytes, session);
    if (code != PTL_OK)
        return code;
    if (status == STORAGE_DONE && !coded)
        status = store_data(h, &head, message, bytes, session);
    if (status == STORAGE_DONE && h->options.flush &&
        h->options.flush(h->options.user,
                         (uint64_t)c->place[head.virtual_rank].block * STORAGE_BLOCK + head.offset,
                         head.length))
        status = STORAGE_MEDIUM;
    return answer(h, genuine ? session : NULL, genuine ? c->client : source,
                  storage_answer(head.request, head.virtual_rank, status));
}

static int take_notice(struct store_node_host *h, const struct storage_notice *n) {
    if (n->kind == STORAGE_CLEANED) {
        if (h->options.cleaned)
            h->options.cleaned(h->options.user, n);
        return PTL_OK;
    }
    bool ok = !h->options.flush || !h->options.flush(h->options.user, n->base, n->length);
    return answer(h, n->session, n->client, n->answer | (ok ? STORAGE_DONE : STORAGE_MEDIUM));
}

/* Tells the card what is durable, and what has been taken out of the queue. */
static int tell_sum(struct store_node_host *h, const struct store_sum *sum) {
    const struct storage_control c = {.kind = STORAGE_SUMMED,
                                      .value = sum->write,
                                      .sum = {sum->generation, sum->bytes, h->pieces}};
    h->pieces = 0;
    return store_node_card_tell(h->card, &c);
}

/* Part of a parity that has no accumulator on the card. A file is flushed when the card says that
 * all of the parity is written. */
static int add_sum(struct store_node_host *h, const ptl_event_t *event) {
    const struct store_node_card *card = h->card;
    const uint64_t room = (uint64_t)card->node.blocks * STORAGE_BLOCK;
    struct store_sum sum;
    h->pieces++;
    spin_work(300, 2 * event->mlength);
    if (store_sums_add(h->sums, event->match_bits, event->hdr_data, event->start, event->mlength,
                       card->node.now, card->oldest, &sum) != STORE_SUM_COMPLETE ||
        sum.at > room || sum.bytes > room - sum.at)
        return h->pieces < h->most_pieces ? PTL_OK : tell_sum(h, &(struct store_sum){0});
    spin_copy(h->medium + sum.at, sum.data, sum.bytes);
    return tell_sum(h, &sum);
}

/* The card may send so many pieces ahead that one of two queues has room for them: the other may
 * hold one that has not been taken yet. */
static int open_sums(struct store_node_host *h, uint32_t room) {
    h->most_pieces = room > 8 ? room / 8 : 1;
    return store_node_card_tell(
        h->card, &(struct storage_control){.kind = STORAGE_SET_SUMS, .value = room ? room - 1 : 0});
}

/* ---- Room for requests ---- */

/* A request was taken out of its queue, or broke off there. */
static int took(struct store_node_host *h, uint64_t bytes) {
    h->taken += STORAGE_HOST_COST(bytes);
    if (h->taken < h->most_taken)
        return PTL_OK;
    const struct storage_control c = {.kind = STORAGE_HOST_TOOK, .value = h->taken};
    h->taken = 0;
    return store_node_card_tell(h->card, &c);
}

/* As with sums: one of two queues has room for all that the card sends ahead. */
static int open_requests(struct store_node_host *h, const struct store_host_queue *q) {
    uint64_t room = q->bytes > q->min_free ? q->bytes - q->min_free : 0;
    room = room < UINT32_MAX / 2 ? room : UINT32_MAX / 2;
    h->most_taken = (uint32_t)room / 8;
    return store_node_card_tell(
        h->card, &(struct storage_control){.kind = STORAGE_SET_HOST, .value = (uint32_t)room});
}

/* ---- Queues ---- */

static int open_queue(struct store_node_host *h, struct store_host_queue *q) {
    struct spin_entry entry = {
        .start = q->memory,
        .length = q->bytes,
        .min_free = q->min_free,
        .bits = q->bits,
        .ignore = q->ignore,
        .from_self = true,
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE,
        .user_ptr = q,
    };
    if (q->bits == STORAGE_HOST) { /* a queue with half a request would never be empty */
        entry.image = h->card->image;
        entry.memory = h->card->memory;
        entry.cleanup = "storage_host_cleanup_handler";
        entry.cleanup_ns = h->card->cleanup_ns;
    }
    return spin_entry_append(h->card->ni, h->card->pt, &entry, &q->entry);
}

bool store_node_host_event(struct store_node_host *h, const ptl_event_t *event, int *code) {
    struct store_host_queue *q = event->user_ptr;
    *code = PTL_OK;
    if (q < h->queue || q >= h->queue + STORE_HOST_QUEUES)
        return false;
    if (event->type == PTL_EVENT_AUTO_UNLINK) { /* it is full, and all of it was worked on */
        q->entry = (struct spin_linked){0};
        *code = wait_sent(h);
        if (*code == PTL_OK)
            *code = open_queue(h, q);
    } else if (event->type == PTL_EVENT_PUT && q->bits == STORAGE_HOST) {
        bool whole = event->ni_fail_type == PTL_NI_OK;
        h->broken_off += !whole;
        if (whole)
            *code = work(h, event->start, event->mlength, (uint32_t)event->hdr_data);
        if (*code == PTL_OK)
            *code = took(h, event->rlength);
    } else if (event->type == PTL_EVENT_PUT && event->ni_fail_type == PTL_NI_OK) {
        struct storage_notice n;
        if (q->bits == STORAGE_SUM) {
            *code = add_sum(h, event);
        } else if (event->mlength == sizeof n) {
            memcpy(&n, event->start, sizeof n);
            *code = take_notice(h, &n);
        }
    }
    return true;
}

int store_node_host_open(struct store_node_card *card, void *medium,
                         const struct store_host_options *o, struct store_node_host *h) {
    *h = (struct store_node_host){
        .card = card, .medium = medium, .options = *o, .md = PTL_INVALID_HANDLE};
    uint64_t most = STORAGE_HEAD + (uint64_t)(o->most_bytes ? o->most_bytes : MOST_BYTES);
    most += most / 32; /* tags */
    uint32_t sum_bytes = o->sum_bytes ? o->sum_bytes : SUM_BYTES;
    ptl_md_t md = {.length = PTL_SIZE_MAX,
                   .options = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_SEND_DISABLE,
                   .eq_handle = PTL_EQ_NONE};
    ptl_hpu_limits_t limits = {0};
    int code = PtlHPULimits(card->ni, &limits);
    uint32_t payload = (uint32_t)limits.max_payload_size;
    h->sums = store_sums_new(SUMS);
    if (code == PTL_OK)
        code = h->sums ? PtlCTAlloc(card->ni, &h->sent) : PTL_NO_SPACE;
    md.ct_handle = h->sent;
    if (code == PTL_OK)
        code = PtlMDBind(card->ni, &md, &h->md);
    for (int i = 0; i < STORE_HOST_QUEUES && code == PTL_OK; i++) {
        struct store_host_queue *q = &h->queue[i];
        *q = (struct store_host_queue[]){
            {.bits = STORAGE_HOST,
             .bytes = o->queue_bytes ? o->queue_bytes : 4 * most,
             .min_free = most},
            {.bits = STORAGE_NOTICE,
             .bytes = NOTICE_BYTES,
             .min_free = sizeof(struct storage_notice)},
            {.bits = STORAGE_SUM, .ignore = ~0xffull, .bytes = sum_bytes, .min_free = payload},
        }[i / 2];
        q->memory = malloc(q->bytes);
        code = q->memory ? open_queue(h, q) : PTL_NO_SPACE;
    }
    if (code == PTL_OK)
        code = open_sums(h, sum_bytes / payload);
    if (code == PTL_OK)
        code = open_requests(h, &h->queue[0]);
    if (code != PTL_OK)
        store_node_host_close(h);
    return code;
}

void store_node_host_close(struct store_node_host *h) {
    if (!h->card)
        return;
    for (int i = 0; i < STORE_HOST_QUEUES; i++) {
        spin_entry_remove(&h->queue[i].entry);
        free(h->queue[i].memory);
    }
    while (h->md != PTL_INVALID_HANDLE && PtlMDRelease(h->md) == PTL_IN_USE)
        ;
    if (h->sent)
        PtlCTFree(h->sent);
    store_sums_free(h->sums);
    *h = (struct store_node_host){0};
}
