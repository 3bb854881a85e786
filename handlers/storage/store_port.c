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
        .min_free = STORE_MESSAGE_BYTES + STORAGE_TAG_BYTES,
        .bits = p->bits,
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE,
        .user_ptr = &p->queue[i],
    };
    return spin_entry_append(p->ni, p->pt, &entry, &p->entry[i]);
}

/* ---- Signatures ---- */

struct words {
    uint32_t word[2];
};

static struct words split(uint64_t x) {
    return (struct words){{(uint32_t)x, (uint32_t)(x >> 32)}};
}

uint64_t spinstore_secret(uint64_t of_the_store, uint32_t rank) {
    const uint32_t words[2] = {rank, 0x6b6e6172u};
    uint32_t key[2];
    storage_mac(split(of_the_store).word, words, sizeof words, key);
    return key[0] | (uint64_t)key[1] << 32;
}

int store_port_sign(struct store_port *p, uint64_t secret, bool serves) {
    memcpy(p->key, split(secret).word, sizeof p->key);
    p->serves = serves;
    p->peer = calloc(serves ? spin_ranks() : 1, sizeof *p->peer);
    return p->peer ? PTL_OK : PTL_NO_SPACE;
}

struct store_peer *store_port_peer(struct store_port *p, uint32_t rank) {
    return p->peer && (!p->serves || rank < spin_ranks()) ? &p->peer[p->serves ? rank : 0] : NULL;
}

/* Of the rank that is not the service. */
static struct words key_with(const struct store_port *p, uint32_t rank) {
    const uint64_t own = p->key[0] | (uint64_t)p->key[1] << 32;
    return split(p->serves ? spinstore_secret(own, rank) : own);
}

void store_port_hide(const struct store_port *p, uint32_t rank, uint64_t number,
                     uint32_t words[2]) {
    const struct words n = split(number);
    const uint32_t input[3] = {n.word[0], n.word[1], 0x65646968u};
    uint32_t pad[2];
    if (!p->peer)
        return;
    storage_mac(key_with(p, rank).word, input, sizeof input, pad);
    words[0] ^= pad[0];
    words[1] ^= pad[1];
}

/* `bits` say where it goes to, so nothing can be sent back to where it came from. */
static void sign(const struct store_port *p, uint32_t rank, ptl_match_bits_t bits, uint32_t session,
                 const uint8_t *bytes, uint32_t count, uint32_t tag[2]) {
    struct storage_mac m = storage_mac_begin(key_with(p, rank).word);
    m = storage_mac_word(m, (uint32_t)bits);
    m = storage_mac_word(m, session);
    m = storage_mac_word(m, count);
    m = storage_mac_words(m, bytes, count / 4);
    storage_mac_end(m, bytes + count / 4 * 4, count, tag);
    spin_work(2ull * count, count);
}

/* Whoever has no session yet says hello, or is asked whether it lives. */
static bool has_session(uint32_t kind) {
    return kind != STORE_KIND_HELLO && kind != STORE_KIND_PING;
}

static bool is_signed(const struct store_port *p, uint32_t from, uint32_t session,
                      const uint8_t *bytes, uint32_t count) {
    uint32_t tag[2], was[2];
    memcpy(was, bytes + count, sizeof was);
    sign(p, from, p->bits, session, bytes, count, tag);
    return storage_mac_equal(tag, was);
}

/* Reads a message that is signed; a question has to be newer than the last one. */
static bool read_signed(struct store_port *p, uint32_t from, const uint8_t *bytes, uint64_t whole) {
    struct store_peer *peer = store_port_peer(p, from);
    if (!peer || whole < STORAGE_TAG_BYTES || whole > STORE_MESSAGE_BYTES + STORAGE_TAG_BYTES)
        return false;
    uint32_t count = (uint32_t)whole - STORAGE_TAG_BYTES;
    if (!store_message_read(p->in, bytes, count))
        return false;
    if (!has_session(p->in->kind))
        return is_signed(p, from, 0, bytes, count);
    bool renewed = peer->next && is_signed(p, from, peer->next, bytes, count);
    if (!renewed && (!peer->session || !is_signed(p, from, peer->session, bytes, count)))
        return false;
    if (renewed)
        *peer = (struct store_peer){.session = peer->next};
    if (p->in->answer)
        return true; /* to the last question, says whoever asked it */
    if (peer->asked && (int32_t)(p->in->serial - peer->serial) <= 0)
        return false;
    peer->asked = true;
    peer->serial = p->in->serial;
    return true;
}

/* False: it is for nobody. */
static bool read_message(struct store_port *p, const ptl_event_t *event) {
    if (!p->peer)
        return store_message_read(p->in, event->start, event->mlength);
    bool ok = read_signed(p, event->initiator.rank, event->start, event->mlength);
    p->forged += !ok;
    return ok;
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
    free(p->peer);
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
    uint32_t bytes = store_message_write(p->out, b->bytes, STORE_MESSAGE_BYTES), tag[2];
    if (!bytes)
        return PTL_ARG_INVALID;
    const struct store_peer *peer = store_port_peer(p, to);
    if (peer) {
        sign(p, to, bits, has_session(p->out->kind) ? peer->session : 0, b->bytes, bytes, tag);
        memcpy(b->bytes + bytes, tag, sizeof tag);
        bytes += sizeof tag;
    }
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
            read_message(p, event))
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
