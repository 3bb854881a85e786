#include "store_port.h"

#include <stdlib.h>
#include <string.h>

#define QUEUE_BYTES (16u * STORE_MESSAGE_BYTES)
#define BUFFERS     64u
#define EVENTS      16384u

static int open_queue(struct store_port *p, int i) {
    const struct spin_entry entry = {
        .start = p->queue[i],
        .length = QUEUE_BYTES,
        .min_free = STORE_MESSAGE_BYTES,
        .bits = p->bits,
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE,
        .user_ptr = &p->queue[i],
    };
    return spin_entry_append(p->ni, p->pt, &entry, &p->entry[i]);
}

int store_port_open(struct store_port *p, ptl_handle_ni_t ni, ptl_match_bits_t bits) {
    *p = (struct store_port){
        .ni = ni, .eq = PTL_EQ_NONE, .md = PTL_INVALID_HANDLE, .pt = PTL_PT_ANY, .bits = bits};
    int code = PtlEQAlloc(ni, EVENTS, &p->eq);
    if (code == PTL_OK)
        code = PtlPTAlloc(ni, 0, p->eq, PTL_PT_ANY, &p->pt);
    const ptl_md_t md = {.length = PTL_SIZE_MAX, .eq_handle = p->eq, .ct_handle = PTL_CT_NONE};
    if (code == PTL_OK)
        code = PtlMDBind(ni, &md, &p->md);
    p->buffer = calloc(BUFFERS, sizeof *p->buffer);
    p->in = calloc(1, sizeof *p->in);
    p->out = calloc(1, sizeof *p->out);
    if (code == PTL_OK && (!p->buffer || !p->in || !p->out))
        code = PTL_NO_SPACE;
    for (uint32_t i = 0; p->buffer && i < BUFFERS; i++) {
        p->buffer[i].next_free = p->free_buffer;
        p->free_buffer = &p->buffer[i];
    }
    for (int i = 0; i < STORE_QUEUES && code == PTL_OK; i++) {
        p->queue[i] = malloc(QUEUE_BYTES);
        code = p->queue[i] ? open_queue(p, i) : PTL_NO_SPACE;
    }
    if (code != PTL_OK)
        store_port_close(p);
    return code;
}

void store_port_close(struct store_port *p) {
    for (int i = 0; i < STORE_QUEUES; i++) {
        spin_entry_remove(&p->entry[i]);
        free(p->queue[i]);
    }
    while (p->md != PTL_INVALID_HANDLE && PtlMDRelease(p->md) == PTL_IN_USE)
        ;
    if (p->pt != PTL_PT_ANY)
        PtlPTFree(p->ni, p->pt);
    if (p->eq != PTL_EQ_NONE)
        PtlEQFree(p->eq);
    free(p->buffer);
    free(p->in);
    free(p->out);
    *p = (struct store_port){.eq = PTL_EQ_NONE, .md = PTL_INVALID_HANDLE, .pt = PTL_PT_ANY};
}

struct store_message *store_port_begin(struct store_port *p, enum store_kind kind) {
    store_message_clear(p->out);
    p->out->kind = kind;
    return p->out;
}

int store_port_send(struct store_port *p, uint32_t to, ptl_match_bits_t bits, bool acknowledged) {
    struct store_buffer *b = p->free_buffer;
    if (!b)
        return PTL_NO_SPACE;
    uint32_t bytes = store_message_write(p->out, b->bytes, sizeof b->bytes);
    if (!bytes)
        return PTL_ARG_INVALID;
    b->to = to;
    b->kind = p->out->kind;
    b->acknowledged = acknowledged;
    spin_work(64, bytes); /* the message is put together */
    int code = PtlPut(p->md, (ptl_size_t)(uintptr_t)b->bytes, bytes,
                      acknowledged ? PTL_ACK_REQ : PTL_NO_ACK_REQ, (ptl_process_t){.rank = to},
                      p->pt, bits, 0, b, 0);
    if (code == PTL_OK)
        p->free_buffer = b->next_free;
    return code;
}

int store_port_answer(struct store_port *p, uint32_t to, ptl_match_bits_t bits,
                      enum store_status status) {
    p->out->kind = p->in->kind;
    p->out->answer = true;
    p->out->status = status;
    p->out->serial = p->in->serial;
    return store_port_send(p, to, bits, false);
}

static bool is_ours(const struct store_port *p, const void *user) {
    return (const struct store_buffer *)user >= p->buffer &&
           (const struct store_buffer *)user < p->buffer + BUFFERS;
}

static bool is_queue(const struct store_port *p, const void *user) {
    return user == &p->queue[0] || user == &p->queue[1];
}

/* PTL_OK and a kind, or STORE_PORT_NOTHING: it was for nobody. */
static int take(struct store_port *p, const ptl_event_t *event, enum store_port_news *news,
                const struct store_buffer **sent) {
    *news = STORE_PORT_NOTHING;
    if (is_queue(p, event->user_ptr)) {
        int i = event->user_ptr == &p->queue[1];
        if (event->type == PTL_EVENT_AUTO_UNLINK) { /* full, and all of it was looked at */
            p->entry[i] = (struct spin_linked){0};
            return open_queue(p, i);
        }
        spin_work(64, event->mlength);
        if (event->type == PTL_EVENT_PUT && event->ni_fail_type == PTL_NI_OK &&
            store_message_read(p->in, event->start, event->mlength))
            *news = STORE_PORT_MESSAGE;
        return PTL_OK;
    }
    if (!is_ours(p, event->user_ptr)) {
        *news = STORE_PORT_OTHER;
        return PTL_OK;
    }
    struct store_buffer *b = event->user_ptr;
    /* a message that failed has both events, too */
    bool over = event->type == (b->acknowledged ? PTL_EVENT_ACK : PTL_EVENT_SEND);
    if (over) {
        b->next_free = p->free_buffer;
        p->free_buffer = b;
        *sent = b;
        *news = b->acknowledged ? STORE_PORT_SENT : STORE_PORT_NOTHING;
    }
    return PTL_OK;
}

int store_port_next(struct store_port *p, ptl_time_t timeout_ms, enum store_port_news *news,
                    ptl_event_t *event, const struct store_buffer **sent) {
    uint64_t until = timeout_ms == PTL_TIME_FOREVER
                         ? UINT64_MAX
                         : spin_now_ps() + (uint64_t)timeout_ms * 1000000000u;
    for (;;) {
        uint64_t now = spin_now_ps();
        ptl_time_t left = until == UINT64_MAX ? PTL_TIME_FOREVER
                          : now >= until      ? 0
                                         : (ptl_time_t)((until - now + 999999999) / 1000000000);
        unsigned int which;
        int code = PtlEQPoll(&p->eq, 1, left, event, &which);
        *news = STORE_PORT_NOTHING;
        if (code == PTL_EQ_EMPTY)
            return PTL_OK;
        if (code == PTL_OK)
            code = take(p, event, news, sent);
        if (code != PTL_OK || *news != STORE_PORT_NOTHING)
            return code;
    }
}
