/* A storage node's host: its medium, and what it tells its card. Requests are the card's; with a
 * file as medium the host flushes what the card has written, and answers. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "store_medium.h"
#include "store_node_host.h"
#include "store_private.h"

/* Of a card's 4,096 descriptors: when only these are free, requests go to the host. */
#define BYPASS 1024u

struct store_node {
    struct store_node_card card;
    struct store_node_host host;
    struct store_medium medium;
    struct spinstore_counts *counts;
    bool stopped;
    uint32_t life;          /* of this node: one that is opened again has another, and no keys */
    struct storage_key key; /* the last one that it was told; generation 0: none */
};

static int flush(void *user, uint64_t first, uint64_t bytes) {
    const struct store_node *n = user;
    return store_medium_flush(&n->medium, first, bytes);
}

/* Its card says that it has freed what it kept for a request. */
static void cleaned(void *user, const struct storage_notice *notice) {
    struct store_node *n = user;
    (void)notice;
    n->counts->given_up++;
}

int store_node_card_counts(struct spinstore *s, struct storage_counts *counts) {
    return store_node_card_report(&s->node->card, counts);
}

int store_node_behind(struct spinstore *s) {
    return store_node_card_tell(&s->node->card,
                                &(struct storage_control){.kind = STORAGE_SET_LOAD, .value = 1});
}

int store_node_open(struct spinstore *s) {
    struct store_node *n = s->node = calloc(1, sizeof *n);
    if (!n)
        return PTL_NO_SPACE;
    n->counts = &s->counts;
    while (!n->life)
        if (getrandom(&n->life, sizeof n->life, 0) != (ssize_t)sizeof n->life)
            return PTL_FAIL;
    if (s->port.peer)
        store_port_peer(&s->port, s->o.service)->session = n->life;
    int code = store_medium_open(&n->medium, s->o.file, s->o.node_bytes);
    const struct store_node_options o = {
        .medium = n->medium.at,
        .blocks = (uint32_t)(s->o.node_bytes / STORAGE_BLOCK),
        .trust = store_trust(s),
        .bypass = BYPASS,
        .cleanup_ns = s->o.silence_ms * 1000000ull,
        .by_file = s->o.file != NULL,
    };
    const struct store_host_options host = {
        .most_bytes =
            s->o.node_bytes < STORE_EXTENT_BYTES ? (uint32_t)s->o.node_bytes : STORE_EXTENT_BYTES,
        .flush = s->o.file ? flush : NULL,
        .cleaned = cleaned,
        .user = n,
    };
    if (code == PTL_OK)
        code = store_node_card_open(s->port.ni, s->port.pt, &o, &n->card);
    return code == PTL_OK ? store_node_host_open(&n->card, n->medium.at, &host, &n->host) : code;
}

void store_node_close(struct spinstore *s) {
    struct store_node *n = s->node;
    if (!n)
        return;
    store_node_host_close(&n->host);
    store_node_card_close(&n->card);
    store_medium_close(&n->medium);
    free(n);
    s->node = NULL;
}

void *spinstore_memory(struct spinstore *s, uint64_t *bytes) {
    *bytes = s->node ? s->o.node_bytes : 0;
    return s->node ? s->node->medium.at : NULL;
}

/* A key that does not follow the last one is of a service that has begun anew: what the card has of
 * the old one, requests and numbers, is not this one's. */
static bool follows(const struct storage_key *last, const struct storage_key *key) {
    return !last->generation || key->generation == last->generation + 1 ||
           (key->generation == last->generation &&
            memcmp(key->key, last->key, sizeof key->key) == 0);
}

/* From the service alone. Old questions whether the node lives can be replayed: the clock does not
 * go back by one. */
static int take_message(struct spinstore *s) {
    struct store_message *in = s->port.in;
    struct store_node *n = s->node;
    enum store_status status = STORE_OK;
    int code = PTL_OK;
    if ((in->kind == STORE_KIND_PING || in->kind == STORE_KIND_KEYS) &&
        in->clock > n->card.node.now)
        code = store_node_card_clock(&n->card, in->clock);
    if (code == PTL_OK && in->kind == STORE_KIND_KEYS) {
        store_hide_key(&s->port, s->rank, in);
        status = follows(&n->key, &in->key) ? STORE_OK : STORE_REFUSED;
        n->key = status == STORE_OK ? in->key : n->key;
        if (status == STORE_OK)
            code = store_node_card_key(&n->card, &in->key, in->previous_ends);
    }
    n->stopped |= in->kind == STORE_KIND_END;
    if (code == PTL_OK && in->kind != STORE_KIND_END) {
        struct store_message *out = store_port_begin(&s->port, in->kind);
        out->life = n->life;
        out->medium = n->medium.number;
        code = store_port_answer(&s->port, s->o.service, STORE_TO_SERVICE, status);
    }
    return code;
}

int store_node_work(struct spinstore *s, ptl_time_t timeout_ms, bool *stopped) {
    struct store_node *n = s->node;
    enum store_port_news news = STORE_PORT_OTHER;
    ptl_event_t event;
    const struct store_buffer *sent;
    int code = PTL_OK;
    while (code == PTL_OK && !n->stopped && news != STORE_PORT_NOTHING) {
        code = store_port_next(&s->port, timeout_ms, &news, &event, &sent);
        if (code == PTL_OK && news == STORE_PORT_OTHER)
            store_node_host_event(&n->host, &event, &code);
        else if (code == PTL_OK && news == STORE_PORT_MESSAGE && !s->port.in->answer &&
                 event.initiator.rank == s->o.service)
            code = take_message(s);
        if (timeout_ms != PTL_TIME_FOREVER)
            timeout_ms = 0; /* whatever else is there already */
    }
    *stopped = n->stopped;
    return code;
}
