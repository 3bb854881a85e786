/* The client library but for reads and repairs: asking the service, and writing. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "store_private.h"

enum { TRIES = 12 };
#define MOST_WRITE ((uint64_t)STORE_WRITE_EXTENTS * STORE_EXTENT_BYTES)

/* ---- Asking the service ---- */

static int ask_once(struct spinstore *s) {
    s->port.out->serial = ++s->serial;
    s->answered = s->alone = false;
    int code = store_port_send(&s->port, s->o.service, STORE_TO_SERVICE, true);
    /* the service itself may wait for a silent node */
    uint64_t until = spin_now_ps() + (2ull * s->o.silence_ms + s->o.patience_ms) * 1000000000u;
    while (code == PTL_OK && !s->answered && !s->alone) {
        uint64_t now = spin_now_ps();
        if (now >= until)
            return PTL_FAIL;
        code = store_client_events(s, (ptl_time_t)((until - now) / 1000000000u + 1));
    }
    if (code == PTL_OK && (s->alone || s->port.in->kind != s->port.out->kind))
        code = PTL_FAIL;
    return code;
}

/* Lets time pass. */
static int pause_for(struct spinstore *s, uint32_t ms) {
    uint64_t until = spin_now_ps() + ms * 1000000000ull;
    int code = PTL_OK;
    while (code == PTL_OK && spin_now_ps() < until)
        code = store_client_events(s, 1);
    return code;
}

/* STORE_PROBING: the service does not know yet. */
static int ask_until_known(struct spinstore *s) {
    uint64_t until = spin_now_ps() + 2ull * s->o.silence_ms * 1000000000u;
    for (;;) {
        int code = ask_once(s);
        if (code != PTL_OK || s->port.in->status != STORE_PROBING)
            return code;
        if (spin_now_ps() >= until)
            return PTL_FAIL;
        code = pause_for(s, 1);
        if (code != PTL_OK)
            return code;
    }
}

/* Before the first question: who we are. */
static int say_hello(struct spinstore *s) {
    store_port_begin(&s->port, STORE_KIND_HELLO);
    int code = ask_until_known(s);
    if (code == PTL_OK && s->port.in->status != STORE_OK)
        code = PTL_FAIL;
    if (code == PTL_OK) {
        s->session = s->port.in->session;
        if (s->port.peer)
            store_port_peer(&s->port, s->o.service)->session = s->session;
        /* nodes refuse numbers that they know of an earlier process of this rank */
        s->next_request = s->next_write = (uint64_t)s->session << 32;
    }
    return code;
}

int store_client_begin(struct spinstore *s, enum store_kind kind, struct store_message **question) {
    int code = s->session ? PTL_OK : say_hello(s);
    *question = store_port_begin(&s->port, kind);
    return code;
}

int store_client_ask(struct spinstore *s) {
    return ask_until_known(s);
}

int store_client_code(enum store_status status) {
    switch (status) {
    case STORE_OK:
        return PTL_OK;
    case STORE_NO_NODES:
    case STORE_NO_SPACE:
        return PTL_NO_SPACE;
    case STORE_NO_OBJECT:
    case STORE_BAD:
        return PTL_ARG_INVALID;
    default:
        return PTL_FAIL;
    }
}

/* A question of which only the status matters. */
static int ask_code(struct spinstore *s) {
    int code = store_client_ask(s);
    return code == PTL_OK ? store_client_code(s->port.in->status) : code;
}

int store_client_suspect(struct spinstore *s, const struct storage_capability *c, uint32_t places,
                         bool *died) {
    struct store_message *question;
    int code = PTL_OK;
    *died = false;
    for (uint32_t i = 0; i < STORAGE_PLACES && code == PTL_OK; i++) {
        if (!(places >> i & 1))
            continue;
        code = store_client_begin(s, STORE_KIND_SUSPECT, &question);
        question->node = c->place[i].node;
        if (code == PTL_OK)
            code = store_client_ask(s);
        *died |= code == PTL_OK && s->port.in->status != STORE_OK;
    }
    return code;
}

/* ---- Objects ---- */

int spinstore_open(struct spinstore *s, const char *name, const struct spinstore_policy *policy,
                   struct spinstore_object **object) {
    struct store_message *question;
    *object = NULL;
    if (s->service || s->node || !name || !*name || strlen(name) > SPINSTORE_NAME ||
        (policy && !store_policy_valid(policy)))
        return PTL_ARG_INVALID;
    int code = store_client_begin(s, STORE_KIND_OPEN, &question);
    if (code != PTL_OK)
        return code;
    strcpy(question->name, name);
    question->create = policy;
    if (policy)
        question->policy = *policy;
    code = ask_code(s);
    if (code != PTL_OK)
        return code;
    struct spinstore_object *o = malloc(sizeof *o);
    if (!o)
        return PTL_NO_SPACE;
    const struct store_message *in = s->port.in;
    *o = (struct spinstore_object){s, in->object, in->policy, in->size, in->version, ""};
    strcpy(o->name, name);
    *object = o;
    return PTL_OK;
}

void spinstore_close(struct spinstore_object *o) {
    free(o);
}

uint64_t spinstore_size(const struct spinstore_object *o) {
    return o->size;
}

int spinstore_flush(struct spinstore_object *o) {
    struct store_message *question;
    int code = store_client_begin(o->store, STORE_KIND_OPEN, &question);
    strcpy(question->name, o->name);
    if (code == PTL_OK)
        code = ask_code(o->store);
    const struct store_message *in = o->store->port.in;
    if (code == PTL_OK && (in->object != o->id || in->version < o->version))
        code = PTL_FAIL;
    if (code == PTL_OK) {
        o->size = in->size;
        o->version = in->version;
    }
    return code;
}

int spinstore_remove(struct spinstore *s, const char *name) {
    struct spinstore_object *o;
    struct store_message *question;
    int code = spinstore_open(s, name, NULL, &o);
    if (code != PTL_OK)
        return code;
    code = store_client_begin(s, STORE_KIND_REMOVE, &question);
    question->object = o->id;
    if (code == PTL_OK)
        code = ask_code(s);
    spinstore_close(o);
    return code;
}

/* ---- Writing ---- */

/* Data j of the extent is [j * chunk, (j + 1) * chunk), and zeroes behind the end. */
static uint32_t part_of(const struct store_layout *l, uint32_t j, uint32_t *zeroes) {
    uint64_t begin = (uint64_t)j * l->chunk;
    uint32_t bytes = begin >= l->length             ? 0
                     : l->length - begin < l->chunk ? (uint32_t)(l->length - begin)
                                                    : l->chunk;
    *zeroes = l->chunk - bytes;
    return bytes;
}

static void make_sums(struct spinstore *s, const struct store_layout *l, uint32_t width,
                      const uint8_t *data) {
    uint32_t sums = 0;
    for (uint32_t j = 0; j < width; j++) {
        uint32_t zeroes, bytes = part_of(l, j, &zeroes);
        const uint8_t *at = data + (uint64_t)j * l->chunk;
        for (uint32_t from = 0; from < l->chunk; from += l->piece) {
            uint32_t size = l->chunk - from < l->piece ? l->chunk - from : l->piece;
            uint32_t here = from >= bytes ? 0 : bytes - from < size ? bytes - from : size;
            s->sum[sums++] = store_crc32c_padded(at + from, here, size - here);
        }
    }
    spin_work(l->length / 8 * 3, l->length);
}

/* Until all nodes have answered. Those that are slow, and live, have as long as a node may be
 * silent: to write again would make them slower still. */
static int wait_for_nodes(struct spinstore *s, const struct storage_capability *c,
                          struct store_flight *f) {
    uint64_t until = spin_now_ps() + s->o.silence_ms * 1000000000ull;
    bool died = false;
    for (;;) {
        int code = store_flights_wait(s, &f, 1);
        uint32_t silent = store_flight_silent(f);
        if (code != PTL_OK || !silent)
            return code;
        code = store_client_suspect(s, c, silent, &died);
        if (code != PTL_OK || died || f->gone || spin_now_ps() >= until)
            return code;
    }
}

/* What is to be tried again is STORE_STALE. */
static int write_extent(struct spinstore *s, const struct store_layout *l, const uint8_t *data,
                        enum store_status *status) {
    const struct storage_capability *c = &l->grant.capability;
    uint32_t width = c->strategy == STORAGE_RS ? c->k : 1, all = (1u << storage_places(c)) - 1;
    struct store_flight *f = store_flight_new(s);
    int code = f ? PTL_OK : PTL_NO_SPACE;
    for (uint32_t j = 0; j < width && code == PTL_OK; j++) {
        uint32_t zeroes, bytes = part_of(l, j, &zeroes);
        code = store_flight_write(s, f, &l->grant, j, data + (uint64_t)j * l->chunk, bytes, zeroes,
                                  all);
    }
    if (code == PTL_OK) {
        make_sums(s, l, width, data);
        code = wait_for_nodes(s, c, f);
    }
    bool ok = code == PTL_OK && store_flight_ok(f);
    s->denied = code == PTL_OK && f->worst == STORAGE_FULL;
    if (f)
        store_flight_leave(s, f);
    *status = ok ? STORE_OK : STORE_STALE;
    return code;
}

/* Extent of bytes [offset, offset + length) of the object: *l. */
static int allocate(struct spinstore_object *o, uint64_t write, uint64_t offset, uint32_t length,
                    struct store_layout *l, enum store_status *status) {
    struct spinstore *s = o->store;
    struct store_message *question;
    int code = store_client_begin(s, STORE_KIND_ALLOCATE, &question);
    question->object = o->id;
    question->write = write;
    question->offset = offset;
    question->length = length;
    if (code == PTL_OK)
        code = store_client_ask(s);
    *status = s->port.in->status;
    if (code != PTL_OK || *status != STORE_OK)
        return code;
    *l = s->port.in->layout[0];
    return l->length == length ? PTL_OK : PTL_FAIL;
}

static int seal(struct spinstore_object *o, uint64_t write, const struct store_layout *l, bool last,
                enum store_status *status) {
    struct spinstore *s = o->store;
    const struct storage_capability *c = &l->grant.capability;
    struct store_message *question;
    int code = store_client_begin(s, STORE_KIND_SEAL, &question);
    question->extent = l->extent;
    question->write = write;
    question->last = last;
    question->sums = (c->strategy == STORAGE_RS ? c->k : 1) * store_pieces(l->chunk, l->piece);
    memcpy(question->sum, s->sum, question->sums * sizeof *s->sum);
    if (code == PTL_OK)
        code = store_client_ask(s);
    *status = s->port.in->status;
    return code;
}

/* All of a write, with extents of its own. */
static int write_once(struct spinstore_object *o, uint64_t offset, const uint8_t *data,
                      uint64_t bytes, enum store_status *status) {
    struct spinstore *s = o->store;
    uint64_t write = ++s->next_write;
    struct store_layout l;
    for (uint64_t at = 0; at < bytes; at += l.length) {
        uint64_t left = bytes - at;
        uint32_t length = left < STORE_EXTENT_BYTES ? (uint32_t)left : STORE_EXTENT_BYTES;
        int code = allocate(o, write, offset + at, length, &l, status);
        if (code == PTL_OK && *status == STORE_OK)
            code = write_extent(s, &l, data + at, status);
        if (code == PTL_OK && *status == STORE_OK)
            code = seal(o, write, &l, at + length == bytes, status);
        if (code != PTL_OK || *status != STORE_OK)
            return code;
    }
    o->size = s->port.in->size;
    o->version = s->port.in->version;
    return PTL_OK;
}

int spinstore_write(struct spinstore_object *o, uint64_t offset, const void *data, uint64_t bytes) {
    struct spinstore *s = o->store;
    enum store_status status = STORE_OK;
    if (bytes == 0)
        return PTL_OK;
    if (bytes > MOST_WRITE || offset > INT64_MAX - bytes)
        return PTL_ARG_INVALID;
    for (int i = 0; i < TRIES; i++) {
        int code = write_once(o, offset, data, bytes, &status);
        if (code != PTL_OK || status == STORE_OK)
            return code;
        if (status != STORE_STALE)
            return store_client_code(status);
        s->counts.writes_again++;
        if (s->denied) /* a node has no room for requests: longer each time */
            code = pause_for(s, i < 6 ? 1u << i : 64);
        if (code != PTL_OK)
            return code;
    }
    return PTL_FAIL;
}

/* ---- The rest ---- */

/* A question that is its kind alone. */
static int ask_kind(struct spinstore *s, enum store_kind kind) {
    struct store_message *question;
    int code = store_client_begin(s, kind, &question);
    return code == PTL_OK ? ask_code(s) : code;
}

int spinstore_rotate(struct spinstore *s, uint32_t *generation) {
    int code = ask_kind(s, STORE_KIND_ROTATE);
    *generation = code == PTL_OK ? s->port.in->key.generation : 0;
    return code;
}

int spinstore_ask(struct spinstore *s, struct spinstore_status *status) {
    int code = ask_kind(s, STORE_KIND_COUNTS);
    const struct store_message *in = s->port.in;
    if (code == PTL_OK)
        *status = (struct spinstore_status){in->counts.objects, in->counts.extents, in->nodes,
                                            in->dead_nodes, in->counts.damaged};
    return code;
}

struct spinstore_counts spinstore_counts(const struct spinstore *s) {
    struct spinstore_counts counts = s->counts;
    counts.forged += s->port.forged;
    return counts;
}

int spinstore_stop(struct spinstore *s) {
    return ask_kind(s, STORE_KIND_STOP);
}

int store_client_open(struct spinstore *s) {
    ptl_hpu_limits_t limits;
    const struct spin_entry answers = {
        .bits = STORAGE_ANSWER, .ignore = ~0xffull, .options = PTL_ME_OP_PUT};
    if (getrandom(&s->serial, sizeof s->serial, 0) != (ssize_t)sizeof s->serial)
        return PTL_FAIL; /* no old answer is to a question of this life */
    s->plan = calloc(1, sizeof *s->plan);
    s->flight = calloc(STORE_FLIGHTS, sizeof *s->flight);
    if (!s->plan || !s->flight)
        return PTL_NO_SPACE;
    int code = PtlHPULimits(s->port.ni, &limits);
    s->mtu = (uint32_t)(limits.max_payload_size < 65528 ? limits.max_payload_size : 65528) & ~7u;
    return code == PTL_OK ? spin_entry_append(s->port.ni, s->port.pt, &answers, &s->answers) : code;
}

void store_client_close(struct spinstore *s) {
    /* messages to nodes that are slow */
    for (uint32_t i = 0; s->flight && i < STORE_FLIGHTS; i++)
        for (int wait = 0; s->flight[i].request && wait < TRIES; wait++)
            store_client_events(s, s->o.patience_ms);
    spin_entry_remove(&s->answers);
    free(s->plan);
    free(s->flight);
    free(s->scratch);
}
