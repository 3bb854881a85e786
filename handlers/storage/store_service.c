/* Management and metadata: what clients ask for, by the state machine of store_meta.c, and what
 * nodes are told: keys and the time. The service is the clock of the store, so clocks of ranks need
 * not agree; a node that has not heard of it for some seconds is taken for dead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "store_journal.h"
#include "store_private.h"

enum { WAITING = 64, PING_MS = 1000, LIFETIME_S = 10, SESSIONS = 65535 };

struct node {
    uint64_t asked_ps;     /* when; 0: nothing is asked */
    uint32_t asked, heard; /* serial numbers: of the last question, of the last answer */
    uint32_t generation;   /* of the key that it has */
    uint32_t life;         /* of this node; 0: it has not said yet */
};

/* A client that waits for an answer. */
struct waiting {
    enum store_kind kind; /* HELLO, SUSPECT, ROTATE, or none */
    uint32_t client, serial;
    uint32_t node, asked; /* the question that says it */
};

struct store_service {
    struct store_meta *meta;
    struct store_journal *journal;
    struct node *node;
    uint32_t serial, sessions, capability;
    uint32_t client_room;
    bool *known; /* clients that have said hello */
    struct storage_key key[2];
    uint32_t generation; /* that nodes have or get; capabilities are signed with `signs` */
    uint32_t signs, lifetime;
    uint64_t began_ps, pinged_ps;
    struct waiting waiting[WAITING];
    bool stopping;
};

/* ---- Time and keys ---- */

/* In seconds; cards begin with 0. */
static uint32_t clock_of(const struct store_service *v) {
    return 1 + (uint32_t)((spin_now_ps() - v->began_ps) / 1000000000000u);
}

static int next_key(struct store_service *v) {
    uint64_t secret;
    if (getrandom(&secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return PTL_FAIL;
    v->key[v->generation % 2].ends = clock_of(v) + v->lifetime + STORE_SLACK_S;
    v->generation++;
    v->key[v->generation % 2] = store_key(v->generation, UINT32_MAX, secret);
    return PTL_OK;
}

/* ---- Nodes ---- */

static int tell_node(struct spinstore *s, uint32_t n, enum store_kind kind) {
    struct store_service *v = s->service;
    struct store_message *out = store_port_begin(&s->port, kind);
    out->serial = ++v->serial;
    out->clock = clock_of(v);
    if (kind == STORE_KIND_KEYS) {
        out->key = v->key[v->generation % 2];
        out->previous_ends = v->key[(v->generation + 1) % 2].ends;
        store_hide_key(&s->port, s->o.first_node + n, out);
    }
    int code = store_port_send(&s->port, s->o.first_node + n, STORE_TO_NODE, true);
    if (code == PTL_OK && kind != STORE_KIND_END) {
        v->node[n].asked = v->serial;
        if (!v->node[n].asked_ps)
            v->node[n].asked_ps = spin_now_ps() + 1;
    }
    return code == PTL_NO_SPACE ? PTL_OK : code; /* the next round does it */
}

static int answer_waiting(struct spinstore *s, struct waiting *w, enum store_status status) {
    struct store_message *out = store_port_begin(&s->port, w->kind);
    out->answer = true;
    out->status = status;
    out->serial = w->serial;
    out->key.generation = s->service->signs;
    out->nodes = s->o.nodes;
    if (out->kind == STORE_KIND_HELLO) {
        out->session = ++s->service->sessions;
        if (s->port.peer) /* from its first question on */
            store_port_peer(&s->port, w->client)->next = out->session;
    }
    w->kind = STORE_KIND_NONE;
    return store_port_send(&s->port, w->client, STORE_TO_CLIENT, false);
}

/* Those who asked about a node, or for a key that all nodes have now. */
static int answer_all_waiting(struct spinstore *s) {
    struct store_service *v = s->service;
    int code = PTL_OK;
    bool all_have_it = true;
    for (uint32_t n = 0; n < s->o.nodes; n++)
        all_have_it &= !store_meta_lives(v->meta, n) || v->node[n].generation == v->generation;
    if (all_have_it)
        v->signs = v->generation;
    for (struct waiting *w = v->waiting; w < v->waiting + WAITING && code == PTL_OK; w++) {
        if ((w->kind == STORE_KIND_ROTATE && all_have_it) ||
            (w->kind == STORE_KIND_HELLO && v->signs))
            code = answer_waiting(s, w, STORE_OK);
        else if (w->kind == STORE_KIND_SUSPECT && !store_meta_lives(v->meta, w->node))
            code = answer_waiting(s, w, STORE_NO_NODES);
        else if (w->kind == STORE_KIND_SUSPECT && (int32_t)(v->node[w->node].heard - w->asked) >= 0)
            code = answer_waiting(s, w, STORE_OK);
    }
    return code == PTL_NO_SPACE ? PTL_OK : code;
}

static int node_died(struct spinstore *s, uint32_t n) {
    store_meta_dead(s->service->meta, n);
    return answer_all_waiting(s);
}

/* One that has begun anew knows neither keys nor the numbers of requests that were used: it gets no
 * key any more, so that nothing of its earlier life is carried out again. One that has lost what
 * the journal says that it has is dead as well. */
static int node_answered(struct spinstore *s, uint32_t n) {
    struct node *node = &s->service->node[n];
    const struct store_message *in = s->port.in;
    if ((int32_t)(in->serial - node->heard) <= 0 || (int32_t)(node->asked - in->serial) < 0)
        return PTL_OK; /* an old answer, or none of ours */
    if ((node->life && in->life != node->life) || in->status != STORE_OK)
        return node_died(s, n);
    if (!node->life) {
        if (!store_meta_admit(s->service->meta, n, in->medium))
            return node_died(s, n);
        node->life = in->life;
        if (s->port.peer)
            store_port_peer(&s->port, s->o.first_node + n)->session = in->life;
    }
    node->heard = in->serial;
    if (in->serial == node->asked)
        node->asked_ps = 0;
    if (in->kind == STORE_KIND_KEYS)
        node->generation = s->service->generation;
    else if (node->generation != s->service->generation && !node->generation && s->port.peer)
        return tell_node(s, n, STORE_KIND_KEYS); /* it has said who it is */
    return answer_all_waiting(s);
}

/* Questions that are due, nodes that are silent. */
static int look_after_nodes(struct spinstore *s) {
    struct store_service *v = s->service;
    uint64_t now = spin_now_ps();
    bool due = !v->pinged_ps || now - v->pinged_ps >= PING_MS * 1000000000ull;
    int code = PTL_OK;
    if (due)
        v->pinged_ps = now ? now : 1;
    for (uint32_t n = 0; n < s->o.nodes && code == PTL_OK; n++) {
        struct node *node = &v->node[n];
        if (!store_meta_lives(v->meta, n))
            continue;
        if (node->asked_ps && now > node->asked_ps + s->o.silence_ms * 1000000000ull)
            code = node_died(s, n);
        else if (due)
            code = tell_node(s, n,
                             node->generation == v->generation || (s->port.peer && !node->life)
                                 ? STORE_KIND_PING
                                 : STORE_KIND_KEYS);
    }
    return code;
}

/* When look_after_nodes has something to do: questions, or a node that was silent for too long. */
static uint64_t next_look_ps(const struct spinstore *s) {
    const struct store_service *v = s->service;
    uint64_t next = v->pinged_ps + PING_MS * 1000000000ull;
    for (uint32_t n = 0; n < s->o.nodes; n++) {
        uint64_t silent = v->node[n].asked_ps + s->o.silence_ms * 1000000000ull + 1;
        if (v->node[n].asked_ps && silent < next && store_meta_lives(v->meta, n))
            next = silent;
    }
    return next;
}

static struct waiting *let_wait(struct spinstore *s, uint32_t client) {
    for (struct waiting *w = s->service->waiting; w < s->service->waiting + WAITING; w++)
        if (w->kind == STORE_KIND_NONE) {
            *w = (struct waiting){
                .kind = s->port.in->kind, .client = client, .serial = s->port.in->serial};
            return w;
        }
    return NULL;
}

/* ---- Clients ---- */

static struct store_grant grant_of(struct spinstore *s, uint32_t extent, uint32_t client,
                                   uint8_t rights) {
    static const uint8_t strategies[] = {STORAGE_PLAIN, STORAGE_RING, STORAGE_PBT, STORAGE_RS};
    struct store_service *v = s->service;
    const struct store_extent *e = store_meta_extent(v->meta, extent);
    struct store_grant g = {
        .capability = {.rights = rights,
                       .strategy = strategies[e->policy.strategy],
                       .k = e->policy.strategy == SPINSTORE_PLAIN ? 1 : (uint8_t)e->policy.k,
                       .m = (uint8_t)e->policy.m,
                       .serial = (uint16_t)v->capability++,
                       .client = client,
                       .bytes = e->chunk,
                       .object = e->object,
                       .expires = clock_of(v) + v->lifetime}};
    uint32_t places = store_policy_places(&e->policy);
    for (uint32_t i = 0; i < places; i++)
        g.capability.place[i] =
            (struct storage_place){s->o.first_node + e->place[i].node, e->place[i].block};
    store_grant_sign(&g, &v->key[v->signs % 2], store_trust(s));
    store_hide_session(&s->port, client, &g);
    spin_work(400, 256); /* it is signed */
    return g;
}

/* The next layout of the answer. */
static struct store_layout *add_layout(struct spinstore *s, uint32_t extent, uint32_t client,
                                       uint8_t rights) {
    struct store_message *out = s->port.out;
    const struct store_meta *meta = s->service->meta;
    const struct store_extent *e = store_meta_extent(meta, extent);
    struct store_layout *l = &out->layout[out->layouts++];
    *l = (struct store_layout){.offset = e->offset,
                               .part = e->length,
                               .extent = extent,
                               .length = e->length,
                               .chunk = e->chunk,
                               .piece = e->piece,
                               .first_sum = out->sums,
                               .sums = e->sum_count};
    for (uint32_t i = 0; i < store_policy_places(&e->policy); i++)
        l->dead |= (uint32_t)!store_meta_lives(meta, e->place[i].node) << i;
    l->grant = grant_of(s, extent, client, rights);
    if (e->sum_count)
        memcpy(out->sum + out->sums, e->sum, e->sum_count * sizeof *e->sum);
    out->sums += e->sum_count;
    return l;
}

/* Once nodes have a key. */
static int hello(struct spinstore *s, uint32_t client) {
    struct store_service *v = s->service;
    if (client >= v->client_room || v->sessions == SESSIONS)
        return store_port_answer(&s->port, client, STORE_TO_CLIENT, STORE_REFUSED);
    v->known[client] = true;
    if (!let_wait(s, client))
        return store_port_answer(&s->port, client, STORE_TO_CLIENT, STORE_PROBING);
    return answer_all_waiting(s);
}

static enum store_status open_object(struct spinstore *s) {
    const struct store_message *in = s->port.in;
    struct store_message *out = s->port.out;
    const struct store_object *o;
    enum store_status status =
        store_meta_open(s->service->meta, in->name, in->create ? &in->policy : NULL, &o);
    if (status == STORE_OK) {
        out->object = o->id;
        out->policy = o->policy;
        out->size = o->size;
        out->version = o->version;
    }
    return status;
}

static enum store_status allocate(struct spinstore *s, uint32_t client) {
    const struct store_message *in = s->port.in;
    uint32_t extent;
    enum store_status status =
        store_meta_allocate(s->service->meta, clock_of(s->service), client, in->object, in->write,
                            in->offset, in->length, &extent);
    if (status == STORE_OK)
        add_layout(s, extent, client, STORAGE_MAY_WRITE);
    return status;
}

static enum store_status seal(struct spinstore *s, uint32_t client) {
    const struct store_message *in = s->port.in;
    const struct store_extent *e = store_meta_extent(s->service->meta, in->extent);
    const struct store_object *o = e ? store_meta_object(s->service->meta, e->object) : NULL;
    enum store_status status = store_meta_seal(s->service->meta, clock_of(s->service), client,
                                               in->write, in->extent, in->sum, in->sums, in->last);
    if (status == STORE_OK && o) {
        s->port.out->size = o->size;
        s->port.out->version = o->version;
    }
    return status;
}

static enum store_status layout(struct spinstore *s, uint32_t client) {
    const struct store_message *in = s->port.in;
    struct store_message *out = s->port.out;
    struct store_meta *meta = s->service->meta;
    const struct store_object *o = store_meta_object(meta, in->object);
    if (!o)
        return STORE_NO_OBJECT;
    uint64_t end = in->bytes < o->size ? in->offset + in->bytes : o->size;
    end = in->offset > o->size ? in->offset : end < o->size ? end : o->size;
    out->size = o->size;
    out->version = o->version;
    out->bytes = end - in->offset;
    for (uint32_t i = store_meta_segment(o, in->offset); i < o->segment_count; i++) {
        const struct store_segment *g = &o->segment[i];
        if (g->offset >= end)
            break;
        if (!store_message_fits(out, store_meta_extent(meta, g->extent)->sum_count)) {
            out->bytes = g->offset - in->offset;
            break;
        }
        store_meta_lend(meta, clock_of(s->service), g->extent);
        struct store_layout *l = add_layout(s, g->extent, client, STORAGE_MAY_READ);
        l->offset = g->offset;
        l->part = g->length;
        l->from = g->from;
    }
    return STORE_OK;
}

static enum store_status repair(struct spinstore *s, uint32_t client) {
    struct store_message *out = s->port.out;
    struct store_repair r;
    enum store_status status =
        store_meta_repair(s->service->meta, clock_of(s->service), client, s->port.in->extent, &r);
    out->extent = r.extent; /* also of one that is lost */
    if (status != STORE_OK)
        return status;
    store_meta_lend(s->service->meta, clock_of(s->service), r.extent);
    out->index = r.index;
    add_layout(s, r.extent, client, STORAGE_MAY_READ);
    add_layout(s, r.target, client, STORAGE_MAY_WRITE);
    return STORE_OK;
}

static enum store_status counts(struct spinstore *s) {
    struct store_message *out = s->port.out;
    out->counts = store_meta_count(s->service->meta);
    out->nodes = s->o.nodes;
    for (uint32_t n = 0; n < s->o.nodes; n++)
        out->dead_nodes += !store_meta_lives(s->service->meta, n);
    return STORE_OK;
}

static int suspect(struct spinstore *s, uint32_t client) {
    struct store_service *v = s->service;
    uint32_t n = s->port.in->node - s->o.first_node;
    if (n >= s->o.nodes)
        return store_port_answer(&s->port, client, STORE_TO_CLIENT, STORE_BAD);
    struct waiting *w = let_wait(s, client);
    if (!w)
        return store_port_answer(&s->port, client, STORE_TO_CLIENT, STORE_PROBING);
    w->node = n;
    int code = store_meta_lives(v->meta, n) ? tell_node(s, n, STORE_KIND_PING) : PTL_OK;
    w->asked = v->node[n].asked;
    return code == PTL_OK ? answer_all_waiting(s) : code;
}

static int rotate(struct spinstore *s, uint32_t client) {
    struct store_service *v = s->service;
    if (v->generation == STORE_GENERATIONS)
        return store_port_answer(&s->port, client, STORE_TO_CLIENT, STORE_NO_SPACE);
    /* one after the other: nodes know two keys */
    if (v->signs != v->generation || !let_wait(s, client))
        return store_port_answer(&s->port, client, STORE_TO_CLIENT, STORE_PROBING);
    int code = next_key(v);
    for (uint32_t n = 0; n < s->o.nodes && code == PTL_OK; n++)
        if (store_meta_lives(v->meta, n))
            code = tell_node(s, n, STORE_KIND_KEYS);
    return code == PTL_OK ? answer_all_waiting(s) : code;
}

static int stop(struct spinstore *s, uint32_t client) {
    int code = store_port_answer(&s->port, client, STORE_TO_CLIENT, STORE_OK);
    for (uint32_t n = 0; n < s->o.nodes && code == PTL_OK; n++)
        if (store_meta_lives(s->service->meta, n))
            code = tell_node(s, n, STORE_KIND_END);
    s->service->stopping = true;
    return code;
}

static int serve(struct spinstore *s, uint32_t client) {
    const struct store_message *in = s->port.in;
    struct store_service *v = s->service;
    struct store_repair r = {in->extent, in->index, in->target};
    enum store_status status;
    if (in->kind != STORE_KIND_HELLO && (client >= v->client_room || !v->known[client]))
        return store_port_answer(&s->port, client, STORE_TO_CLIENT, STORE_REFUSED);
    store_port_begin(&s->port, in->kind);
    spin_work(200, 256); /* tables are looked at */
    switch (in->kind) {
    case STORE_KIND_HELLO:
        return hello(s, client);
    case STORE_KIND_OPEN:
        status = open_object(s);
        break;
    case STORE_KIND_ALLOCATE:
        status = allocate(s, client);
        break;
    case STORE_KIND_SEAL:
        status = seal(s, client);
        break;
    case STORE_KIND_LAYOUT:
        status = layout(s, client);
        break;
    case STORE_KIND_REMOVE:
        status = store_meta_remove(v->meta, clock_of(v), in->object);
        break;
    case STORE_KIND_REPAIR:
        status = repair(s, client);
        break;
    case STORE_KIND_REPAIRED:
        status = store_meta_repaired(v->meta, clock_of(v), client, &r);
        break;
    case STORE_KIND_COUNTS:
        status = counts(s);
        break;
    case STORE_KIND_SUSPECT:
        return suspect(s, client);
    case STORE_KIND_ROTATE:
        return rotate(s, client);
    case STORE_KIND_STOP:
        return stop(s, client);
    default:
        status = STORE_BAD;
    }
    return store_port_answer(&s->port, client, STORE_TO_CLIENT, status);
}

/* ---- Rounds ---- */

static int take(struct spinstore *s, enum store_port_news news, const ptl_event_t *event,
                const struct store_buffer *sent) {
    uint32_t from = event->initiator.rank;
    if (news == STORE_PORT_SENT && event->ni_fail_type != PTL_NI_OK &&
        sent->kind != STORE_KIND_END && store_is_node(s, sent->to))
        return node_died(s, sent->to - s->o.first_node);
    if (news != STORE_PORT_MESSAGE)
        return PTL_OK;
    if (!s->port.in->answer)
        return serve(s, from);
    return store_is_node(s, from) ? node_answered(s, from - s->o.first_node) : PTL_OK;
}

int store_service_work(struct spinstore *s, ptl_time_t timeout_ms, bool *stopped) {
    struct store_service *v = s->service;
    uint64_t until =
        timeout_ms == PTL_TIME_FOREVER ? UINT64_MAX : spin_now_ps() + timeout_ms * 1000000000ull;
    enum store_port_news news = STORE_PORT_OTHER;
    ptl_event_t event;
    const struct store_buffer *sent;
    int code = PTL_OK;
    while (code == PTL_OK && !v->stopping) {
        code = look_after_nodes(s);
        uint64_t now = spin_now_ps(), look = next_look_ps(s), end = until < look ? until : look;
        uint64_t left_ms = end > now ? (end - now + 999999999) / 1000000000 : 0;
        if (code == PTL_OK)
            code = store_port_next(&s->port, (ptl_time_t)left_ms, &news, &event, &sent);
        if (code == PTL_OK)
            code = take(s, news, &event, sent);
        store_meta_expire(v->meta, clock_of(v));
        if (news == STORE_PORT_NOTHING && spin_now_ps() >= until)
            break;
    }
    *stopped = v->stopping;
    return code;
}

static int open_journal(struct spinstore *s) {
    struct spin_error err;
    if (!store_journal_open(s->o.journal, s->service->meta, &s->service->journal, &err))
        return PTL_OK;
    fprintf(stderr, "spinstore: %s: %s\n", s->o.journal, err.text);
    return PTL_FAIL;
}

int store_service_open(struct spinstore *s) {
    struct store_service *v = s->service = calloc(1, sizeof *v);
    if (!v)
        return PTL_NO_SPACE;
    v->began_ps = spin_now_ps();
    v->lifetime = s->o.lifetime_s ? s->o.lifetime_s : LIFETIME_S;
    v->client_room = spin_ranks();
    v->known = calloc(v->client_room, sizeof *v->known);
    v->node = calloc(s->o.nodes, sizeof *v->node);
    if (getrandom(&v->serial, sizeof v->serial, 0) != (ssize_t)sizeof v->serial)
        return PTL_FAIL; /* numbers of an earlier life are not those of this one */
    for (uint32_t n = 0; v->node && n < s->o.nodes; n++)
        v->node[n].heard = v->node[n].asked = v->serial;
    v->meta =
        store_meta_new(&(struct store_meta_options){.nodes = s->o.nodes,
                                                    .node_bytes = s->o.node_bytes,
                                                    .lifetime = v->lifetime + 1 + STORE_SLACK_S});
    int code = v->known && v->node && v->meta ? next_key(v) : PTL_NO_SPACE;
    return code == PTL_OK && s->o.journal ? open_journal(s) : code;
}

void store_service_close(struct spinstore *s) {
    if (!s->service)
        return;
    store_journal_close(s->service->journal);
    store_meta_free(s->service->meta);
    free(s->service->known);
    free(s->service->node);
    free(s->service);
    s->service = NULL;
}
