#include "store_meta.h"

#include <stdlib.h>
#include <string.h>

#include "store_meta_private.h"

#define CLIENTS (1u << 16)

/* ---- Policies ---- */

uint32_t store_policy_places(const struct spinstore_policy *p) {
    return p->strategy == SPINSTORE_PLAIN ? 1 : p->strategy == SPINSTORE_RS ? p->k + p->m : p->k;
}

uint32_t store_policy_width(const struct spinstore_policy *p) {
    return p->strategy == SPINSTORE_RS ? p->k : 1;
}

bool store_policy_valid(const struct spinstore_policy *p) {
    switch (p->strategy) {
    case SPINSTORE_PLAIN:
        return p->k <= 1 && p->m == 0;
    case SPINSTORE_RING:
    case SPINSTORE_TREE:
        return p->k >= 1 && p->k <= 8 && p->m == 0;
    case SPINSTORE_RS:
        return p->k >= 1 && p->m >= 1 && p->k <= STORE_PLACES && p->m <= 4 &&
               p->k + p->m <= STORE_PLACES;
    }
    return false;
}

/* Chunks of RS are multiples of 8 bytes, so that cards may work by words. */
uint32_t store_chunk_of(const struct spinstore_policy *p, uint32_t length) {
    if (p->strategy != SPINSTORE_RS)
        return length;
    return ((length + p->k - 1) / p->k + 7) & ~7u;
}

uint32_t store_piece_of(const struct spinstore_policy *p, uint32_t chunk) {
    uint32_t piece = STORE_BLOCK;
    while (store_policy_width(p) * store_pieces(chunk, piece) > STORE_PIECES)
        piece *= 2;
    return piece;
}

/* ---- Set-up ---- */

struct store_meta *store_meta_new(const struct store_meta_options *o) {
    uint64_t blocks = o->node_bytes / STORE_BLOCK;
    if (o->nodes == 0 || o->nodes > STORE_NODES || blocks == 0 || blocks >= STORE_NO_BLOCK)
        return NULL;
    struct store_meta *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->first_free = m->first_waiting = m->last_waiting = STORE_NO_EXTENT;
    m->lifetime = o->lifetime;
    m->names_mask = 63;
    m->named = calloc(m->names_mask + 1, sizeof *m->named);
    m->node = calloc(o->nodes, sizeof *m->node);
    bool ok = m->named && m->node;
    while (ok && m->node_count < o->nodes)
        ok = store_blocks_new(&m->node[m->node_count++].blocks, (uint32_t)blocks);
    if (ok)
        return m;
    store_meta_free(m);
    return NULL;
}

void store_meta_free(struct store_meta *m) {
    if (!m)
        return;
    for (uint32_t i = 0; i < m->node_count; i++)
        store_blocks_free(&m->node[i].blocks);
    for (uint32_t i = 0; i < m->object_count; i++)
        if (m->object[i]) {
            free(m->object[i]->segment);
            free(m->object[i]);
        }
    for (uint32_t i = 0; i < m->extent_count; i++)
        free(m->extent[i].sum);
    free(m->node);
    free(m->object);
    free(m->named);
    free(m->extent);
    free(m->due);
    free(m->writer);
    free(m->record);
    free(m);
}

/* ---- What has to survive ---- */

/* A record of that kind to fill in; NULL: nobody wants it. */
static struct store_record *record_of(struct store_meta *m, enum store_record_kind kind,
                                      uint32_t object) {
    if (!m->note)
        return NULL;
    m->record->kind = kind;
    m->record->object = object;
    m->record->count = 0;
    return m->record;
}

/* Before it happens. False: it must not. */
static bool note(struct store_meta *m) {
    return !m->note || m->note(m->note_user, m->record);
}

bool store_meta_keep(struct store_meta *m, store_note *how, void *user) {
    m->record = m->record ? m->record : calloc(1, sizeof *m->record);
    m->note = m->record ? how : NULL;
    m->note_user = user;
    return m->record;
}

/* ---- Objects ---- */

static uint32_t hash_of(const char *name) {
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h ^ h >> 15;
}

/* Where the name stands, or would. Entries of objects that were removed stay until the table grows:
 * they stand for no name. */
static uint32_t *slot_of(const struct store_meta *m, const char *name) {
    uint32_t at = hash_of(name) & m->names_mask;
    while (m->named[at]) {
        const struct store_object *o = m->object[m->named[at] - 1];
        if (o && strcmp(o->name, name) == 0)
            break;
        at = (at + 1) & m->names_mask;
    }
    return &m->named[at];
}

static bool more_names(struct store_meta *m) {
    uint32_t mask = 2 * m->names_mask + 1, *old = m->named;
    uint32_t *named = calloc((uint64_t)mask + 1, sizeof *named);
    if (!named)
        return false;
    m->named = named;
    m->names_mask = mask;
    for (uint32_t i = 0; i < m->object_count; i++)
        if (m->object[i])
            *slot_of(m, m->object[i]->name) = i + 1;
    free(old);
    return true;
}

static bool room_for_object(struct store_meta *m) {
    if (m->object_count == STORE_OBJECTS)
        return false;
    if (m->object_count == m->object_room) {
        uint32_t room = m->object_room ? 2 * m->object_room : 16;
        struct store_object **grown = realloc(m->object, room * sizeof *grown);
        if (!grown)
            return false;
        m->object = grown;
        m->object_room = room;
    }
    return true;
}

bool store_meta_skip_object(struct store_meta *m) {
    if (!room_for_object(m))
        return false;
    m->object[m->object_count++] = NULL;
    m->removed++;
    return true;
}

struct store_object *store_meta_new_object(struct store_meta *m, const char *name,
                                           const struct spinstore_policy *policy) {
    if (!room_for_object(m))
        return NULL;
    if (m->object_count * 2 > m->names_mask && !more_names(m))
        return NULL;
    struct store_object *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->id = m->object_count;
    o->policy = *policy;
    strcpy(o->name, name);
    *slot_of(m, name) = o->id + 1;
    m->object[m->object_count++] = o;
    return o;
}

static bool note_object(struct store_meta *m, const char *name,
                        const struct spinstore_policy *policy) {
    struct store_record *r = record_of(m, STORE_RECORD_OBJECT, m->object_count);
    if (r) {
        r->policy = *policy;
        strcpy(r->name, name);
    }
    return note(m);
}

enum store_status store_meta_open(struct store_meta *m, const char *name,
                                  const struct spinstore_policy *policy,
                                  const struct store_object **object) {
    *object = NULL;
    size_t length = strlen(name);
    if (length == 0 || length > SPINSTORE_NAME || (policy && !store_policy_valid(policy)))
        return STORE_BAD;
    uint32_t number = *slot_of(m, name);
    if (number)
        *object = m->object[number - 1];
    else if (!policy)
        return STORE_NO_OBJECT;
    else if (store_policy_places(policy) > m->node_count)
        return STORE_NO_NODES;
    else if (note_object(m, name, policy))
        *object = store_meta_new_object(m, name, policy);
    return *object ? STORE_OK : STORE_NO_SPACE;
}

const struct store_object *store_meta_object(const struct store_meta *m, uint32_t id) {
    return id < m->object_count ? m->object[id] : NULL;
}

/* ---- Extents ---- */

const struct store_extent *store_meta_extent(const struct store_meta *m, uint32_t extent) {
    return extent < m->extent_count && m->extent[extent].state != STORE_FREE ? &m->extent[extent]
                                                                             : NULL;
}

static void free_places(struct store_meta *m, const struct store_extent *e, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (e->place[i].node != STORE_NO_NODE)
            store_blocks_give(&m->node[e->place[i].node].blocks, e->place[i].block,
                              store_blocks_of(e));
}

bool store_meta_has_node(const struct store_extent *e, uint32_t count, uint32_t node) {
    for (uint32_t i = 0; i < count; i++)
        if (e->place[i].node == node)
            return true;
    return false;
}

/* Different nodes for all its places, none of which `other` has, in turn over all nodes. */
static enum store_status take_places(struct store_meta *m, struct store_extent *e,
                                     const struct store_extent *other) {
    uint32_t want = store_policy_places(&e->policy), got = 0, living = 0;
    uint32_t others = other ? store_policy_places(&other->policy) : 0;
    uint32_t first = m->next_node++ % m->node_count;
    for (uint32_t i = 0; i < m->node_count && got < want; i++) {
        uint32_t n = (first + i) % m->node_count;
        if (m->node[n].dead || store_meta_has_node(e, got, n) ||
            (other && store_meta_has_node(other, others, n)))
            continue;
        living++;
        uint32_t block = store_blocks_take(&m->node[n].blocks, store_blocks_of(e));
        if (block != STORE_NO_BLOCK)
            e->place[got++] = (struct store_place){n, block};
    }
    if (got == want)
        return STORE_OK;
    free_places(m, e, got);
    return living < want ? STORE_NO_NODES : STORE_NO_SPACE;
}

uint32_t store_meta_new_extent(struct store_meta *m) {
    uint32_t at = m->first_free;
    if (at != STORE_NO_EXTENT) {
        m->first_free = m->extent[at].next_waiting;
        return at;
    }
    if (m->extent_count == m->extent_room) {
        uint32_t room = m->extent_room ? 2 * m->extent_room : 64;
        if (room > STORE_EXTENTS)
            return STORE_NO_EXTENT;
        struct store_extent *grown = realloc(m->extent, room * sizeof *grown);
        if (!grown)
            return STORE_NO_EXTENT;
        m->extent = grown;
        uint64_t *due = realloc(m->due, room * sizeof *due);
        if (!due)
            return STORE_NO_EXTENT;
        m->due = due;
        m->extent_room = room;
    }
    return m->extent_count++;
}

static void give_extent(struct store_meta *m, uint32_t at) {
    free(m->extent[at].sum);
    m->extent[at] = (struct store_extent){.next_waiting = m->first_free};
    m->first_free = at;
}

/* Capabilities live equally long, so those who wait are in the order in which they came. */
static void let_wait(struct store_meta *m, uint64_t now, uint32_t at) {
    struct store_extent *e = &m->extent[at];
    if (e->waits)
        return;
    e->waits = true;
    e->next_waiting = STORE_NO_EXTENT;
    m->due[at] = now + m->lifetime;
    if (m->last_waiting == STORE_NO_EXTENT)
        m->first_waiting = at;
    else
        m->extent[m->last_waiting].next_waiting = at;
    m->last_waiting = at;
}

static void die(struct store_meta *m, uint64_t now, uint32_t at) {
    m->extent[at].state = STORE_DYING;
    let_wait(m, now, at);
}

void store_meta_expire(struct store_meta *m, uint64_t now) {
    while (m->first_waiting != STORE_NO_EXTENT && m->due[m->first_waiting] <= now) {
        uint32_t at = m->first_waiting;
        struct store_extent *e = &m->extent[at];
        m->first_waiting = e->next_waiting;
        if (m->first_waiting == STORE_NO_EXTENT)
            m->last_waiting = STORE_NO_EXTENT;
        e->waits = false;
        if (e->state == STORE_COMMITTED)
            continue;
        if (e->until > now) {
            let_wait(m, now, at);
        } else if (e->state == STORE_PENDING && e->object != UINT32_MAX &&
                   m->writer[e->client].count && m->writer[e->client].write == e->write) {
            store_meta_abandon(m, now, e->client, e->write);
        } else {
            free_places(m, e, store_policy_places(&e->policy));
            give_extent(m, at);
        }
    }
}

uint64_t store_meta_lend(struct store_meta *m, uint64_t now, uint32_t extent) {
    struct store_extent *e = &m->extent[extent];
    if (e->until < now + m->lifetime)
        e->until = now + m->lifetime;
    return e->until;
}

/* ---- Writes ---- */

static struct store_writer *writer_of(struct store_meta *m, uint32_t client) {
    if (client >= CLIENTS)
        return NULL;
    if (client >= m->writer_room) {
        uint32_t room = m->writer_room ? m->writer_room : 16;
        while (room <= client)
            room *= 2;
        struct store_writer *grown = realloc(m->writer, room * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + m->writer_room, 0, (room - m->writer_room) * sizeof *grown);
        m->writer = grown;
        m->writer_room = room;
    }
    return &m->writer[client];
}

void store_meta_abandon(struct store_meta *m, uint64_t now, uint32_t client, uint64_t write) {
    struct store_writer *w = writer_of(m, client);
    if (!w || !w->count || w->write != write)
        return;
    uint32_t count = w->count;
    w->count = 0;
    for (uint32_t at = w->first, next; count--; at = next) {
        next = m->extent[at].next_of_write;
        die(m, now, at);
    }
}

/* An extent that a client may write; `other` has its nodes already. */
static enum store_status allocate(struct store_meta *m, uint64_t now, struct store_extent *e,
                                  const struct store_extent *other, uint32_t *at) {
    enum store_status status = take_places(m, e, other);
    if (status != STORE_OK)
        return status;
    *at = store_meta_new_extent(m);
    if (*at == STORE_NO_EXTENT) {
        free_places(m, e, store_policy_places(&e->policy));
        return STORE_NO_SPACE;
    }
    e->state = STORE_PENDING;
    e->until = now + m->lifetime;
    m->extent[*at] = *e;
    let_wait(m, now, *at);
    return STORE_OK;
}

enum store_status store_meta_allocate(struct store_meta *m, uint64_t now, uint32_t client,
                                      uint32_t object, uint64_t write, uint64_t offset,
                                      uint32_t length, uint32_t *extent) {
    const struct store_object *o = store_meta_object(m, object);
    struct store_writer *w = writer_of(m, client);
    if (!o)
        return STORE_NO_OBJECT;
    if (!w)
        return STORE_NO_SPACE;
    if (length == 0 || length > STORE_EXTENT_BYTES || offset > INT64_MAX || write < w->write ||
        (w->count && write == w->write && object != w->object))
        return STORE_BAD;
    store_meta_expire(m, now);
    if (w->count && write > w->write)
        store_meta_abandon(m, now, client, w->write);
    if (w->count == 0 && write == w->write)
        return STORE_STALE; /* it was committed or given up */
    if (w->count == STORE_WRITE_EXTENTS)
        return STORE_BAD;
    struct store_extent e = {.policy = o->policy,
                             .client = client,
                             .object = object,
                             .write = write,
                             .offset = offset,
                             .length = length,
                             .next_of_write = STORE_NO_EXTENT};
    e.chunk = store_chunk_of(&e.policy, length);
    e.piece = store_piece_of(&e.policy, e.chunk);
    enum store_status status = allocate(m, now, &e, NULL, extent);
    if (status != STORE_OK)
        return status;
    uint32_t before = w->first;
    for (uint32_t i = 1; i < w->count; i++)
        before = m->extent[before].next_of_write;
    *(w->count ? &m->extent[before].next_of_write : &w->first) = *extent;
    w->write = write;
    w->object = object;
    w->count++;
    return STORE_OK;
}

static bool all_live(const struct store_meta *m, const struct store_extent *e) {
    for (uint32_t i = 0; i < store_policy_places(&e->policy); i++)
        if (!store_meta_lives(m, e->place[i].node))
            return false;
    return true;
}

/* ---- Commits ---- */

uint32_t store_meta_segment(const struct store_object *o, uint64_t offset) {
    uint32_t low = 0, high = o->segment_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const struct store_segment *s = &o->segment[middle];
        if (s->offset + s->length > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool store_meta_room_for(struct store_object *o, uint32_t segments) {
    uint32_t need = o->segment_count + segments;
    if (need > STORE_SEGMENTS)
        return false;
    if (need <= o->segment_room)
        return true;
    uint32_t room = o->segment_room ? o->segment_room : 4;
    while (room < need)
        room *= 2;
    struct store_segment *grown = realloc(o->segment, room * sizeof *grown);
    if (!grown)
        return false;
    o->segment = grown;
    o->segment_room = room;
    return true;
}

static void drop_segment(struct store_meta *m, uint64_t now, uint32_t extent) {
    if (--m->extent[extent].segments == 0)
        die(m, now, extent);
}

void store_meta_cover(struct store_meta *m, uint64_t now, struct store_object *o,
                      struct store_segment s) {
    uint64_t end = s.offset + s.length;
    uint32_t first = store_meta_segment(o, s.offset), last = first;
    struct store_segment keep[3];
    uint32_t kept = 0;
    while (last < o->segment_count && o->segment[last].offset < end)
        last++;
    if (first < last && o->segment[first].offset < s.offset) {
        keep[kept] = o->segment[first];
        keep[kept++].length = (uint32_t)(s.offset - o->segment[first].offset);
    }
    keep[kept++] = s;
    if (first < last && o->segment[last - 1].offset + o->segment[last - 1].length > end) {
        struct store_segment right = o->segment[last - 1];
        uint32_t cut = (uint32_t)(end - right.offset);
        keep[kept++] =
            (struct store_segment){end, right.length - cut, right.extent, right.from + cut};
    }
    for (uint32_t i = 0; i < kept; i++)
        m->extent[keep[i].extent].segments++;
    for (uint32_t i = first; i < last; i++)
        drop_segment(m, now, o->segment[i].extent);
    memmove(o->segment + first + kept, o->segment + last,
            (o->segment_count - last) * sizeof *o->segment);
    memcpy(o->segment + first, keep, kept * sizeof *keep);
    o->segment_count = o->segment_count - (last - first) + kept;
    if (end > o->size)
        o->size = end;
}

void store_record_extent(struct store_record *r, const struct store_extent *e) {
    struct store_record_extent *to = &r->extent[r->count++];
    to->offset = e->offset;
    to->length = e->length;
    to->places = store_policy_places(&e->policy);
    to->sums = e->sum_count;
    memcpy(to->place, e->place, sizeof to->place);
    memcpy(to->sum, e->sum, e->sum_count * sizeof *e->sum);
}

static bool note_commit(struct store_meta *m, const struct store_writer *w) {
    struct store_record *r = record_of(m, STORE_RECORD_COMMIT, w->object);
    for (uint32_t i = 0, at = w->first; r && i < w->count; i++, at = m->extent[at].next_of_write)
        store_record_extent(r, &m->extent[at]);
    return note(m);
}

static enum store_status commit(struct store_meta *m, uint64_t now, struct store_writer *w) {
    struct store_object *o = w->object < m->object_count ? m->object[w->object] : NULL;
    bool ok = o;
    for (uint32_t i = 0, at = w->first; ok && i < w->count; i++) {
        const struct store_extent *e = &m->extent[at];
        ok = e->sum && e->until > now && all_live(m, e);
        at = e->next_of_write;
    }
    if (!ok)
        return STORE_STALE;
    /* each extent that is committed adds itself, and may cut a segment in two */
    if (!store_meta_room_for(o, 2 * w->count) || !note_commit(m, w))
        return STORE_NO_SPACE;
    for (uint32_t at = w->first; w->count; w->count--) {
        struct store_extent *e = &m->extent[at];
        e->state = STORE_COMMITTED;
        store_meta_cover(m, now, o, (struct store_segment){e->offset, e->length, at, 0});
        at = e->next_of_write;
    }
    o->version++;
    return STORE_OK;
}

enum store_status store_meta_seal(struct store_meta *m, uint64_t now, uint32_t client,
                                  uint64_t write, uint32_t extent, const uint32_t *sum,
                                  uint32_t sum_count, bool last) {
    struct store_writer *w = writer_of(m, client);
    struct store_extent *e = extent < m->extent_count ? &m->extent[extent] : NULL;
    if (!w || !e || !w->count || w->write != write || e->state != STORE_PENDING ||
        e->client != client || e->write != write)
        return STORE_STALE;
    if (e->sum || sum_count != store_policy_width(&e->policy) * store_pieces(e->chunk, e->piece))
        return STORE_BAD;
    e->sum = malloc(sum_count * sizeof *e->sum);
    if (!e->sum)
        return STORE_NO_SPACE;
    memcpy(e->sum, sum, sum_count * sizeof *e->sum);
    e->sum_count = sum_count;
    if (!last)
        return STORE_OK;
    enum store_status status = commit(m, now, w);
    if (status != STORE_OK)
        store_meta_abandon(m, now, client, write);
    return status;
}

enum store_status store_meta_remove(struct store_meta *m, uint64_t now, uint32_t id) {
    if (id >= m->object_count || !m->object[id])
        return STORE_NO_OBJECT;
    struct store_object *o = m->object[id];
    record_of(m, STORE_RECORD_REMOVE, id);
    if (!note(m))
        return STORE_NO_SPACE;
    for (uint32_t i = 0; i < o->segment_count; i++)
        drop_segment(m, now, o->segment[i].extent);
    m->object[id] = NULL;
    m->removed++;
    free(o->segment);
    free(o);
    return STORE_OK;
}

/* ---- Nodes ---- */

bool store_meta_lives(const struct store_meta *m, uint32_t node) {
    return node < m->node_count && !m->node[node].dead;
}

uint64_t store_meta_free_blocks(const struct store_meta *m, uint32_t node) {
    return node < m->node_count ? m->node[node].blocks.free : 0;
}

void store_meta_dead(struct store_meta *m, uint32_t node) {
    if (node < m->node_count)
        m->node[node].dead = true;
}

bool store_meta_admit(struct store_meta *m, uint32_t node, uint64_t medium) {
    struct store_meta_node *n = &m->node[node];
    if (n->medium == medium)
        return true;
    for (uint32_t i = 0; i < m->extent_count; i++)
        if (m->extent[i].state == STORE_COMMITTED &&
            store_meta_has_node(&m->extent[i], store_policy_places(&m->extent[i].policy), node))
            return false;
    struct store_record *r = record_of(m, STORE_RECORD_MEDIUM, 0);
    if (r) {
        r->place.node = node;
        r->medium = medium;
    }
    if (!note(m))
        return false;
    n->medium = medium;
    return true;
}

enum store_status store_meta_back(struct store_meta *m, uint32_t node) {
    if (node >= m->node_count || !m->node[node].dead)
        return STORE_BAD;
    for (uint32_t i = 0; i < m->extent_count; i++)
        if (m->extent[i].state == STORE_COMMITTED &&
            store_meta_has_node(&m->extent[i], store_policy_places(&m->extent[i].policy), node))
            return STORE_BAD;
    for (uint32_t i = 0; i < m->extent_count; i++)
        for (uint32_t j = 0; j < STORE_PLACES; j++)
            if (m->extent[i].state != STORE_FREE && m->extent[i].place[j].node == node)
                m->extent[i].place[j].node = STORE_NO_NODE;
    store_blocks_clear(&m->node[node].blocks);
    m->node[node].dead = false;
    return STORE_OK;
}

/* ---- Repair ---- */

static uint32_t living_places(const struct store_meta *m, const struct store_extent *e,
                              uint32_t *dead) {
    uint32_t living = 0, places = store_policy_places(&e->policy);
    *dead = places;
    for (uint32_t i = places; i-- > 0;)
        if (store_meta_lives(m, e->place[i].node))
            living++;
        else
            *dead = i;
    return living;
}

enum store_status store_meta_repair(struct store_meta *m, uint64_t now, uint32_t client,
                                    uint32_t from, struct store_repair *r) {
    store_meta_expire(m, now);
    for (uint32_t i = from; i < m->extent_count; i++) {
        const struct store_extent *e = &m->extent[i];
        if (e->state != STORE_COMMITTED)
            continue;
        uint32_t living = living_places(m, e, &r->index);
        if (living == store_policy_places(&e->policy))
            continue;
        r->extent = i;
        if (living < store_policy_width(&e->policy))
            return STORE_LOST;
        struct store_extent target = {.policy = {.strategy = SPINSTORE_PLAIN},
                                      .client = client,
                                      .object = UINT32_MAX,
                                      .length = e->chunk,
                                      .chunk = e->chunk,
                                      .piece = e->piece};
        return allocate(m, now, &target, e, &r->target);
    }
    return STORE_NOTHING;
}

/* The extent is named by a byte of the object that is in it: numbers are of this life alone. */
static bool note_move(struct store_meta *m, const struct store_repair *repair) {
    const struct store_extent *e = &m->extent[repair->extent];
    struct store_record *r = record_of(m, STORE_RECORD_MOVE, e->object);
    if (!r)
        return true;
    const struct store_object *o = m->object[e->object];
    uint32_t i = store_meta_segment(o, e->offset);
    while (o->segment[i].extent != repair->extent)
        i++;
    r->offset = o->segment[i].offset;
    r->index = repair->index;
    r->place = m->extent[repair->target].place[0];
    return note(m);
}

enum store_status store_meta_repaired(struct store_meta *m, uint64_t now, uint32_t client,
                                      const struct store_repair *r) {
    if (r->target >= m->extent_count || r->extent >= m->extent_count)
        return STORE_BAD;
    struct store_extent *e = &m->extent[r->extent], *t = &m->extent[r->target];
    if (t->state != STORE_PENDING || t->client != client || t->object != UINT32_MAX)
        return STORE_STALE;
    if (e->state != STORE_COMMITTED || r->index >= store_policy_places(&e->policy) ||
        store_meta_lives(m, e->place[r->index].node) || t->until <= now || t->chunk != e->chunk ||
        store_meta_has_node(e, store_policy_places(&e->policy), t->place[0].node) ||
        !store_meta_lives(m, t->place[0].node)) {
        die(m, now, r->target);
        return STORE_STALE;
    }
    if (!note_move(m, r)) {
        die(m, now, r->target);
        return STORE_NO_SPACE;
    }
    if (e->place[r->index].node != STORE_NO_NODE)
        store_blocks_give(&m->node[e->place[r->index].node].blocks, e->place[r->index].block,
                          store_blocks_of(e));
    e->place[r->index] = t->place[0];
    e->until = e->until > t->until ? e->until : t->until; /* the writer's capability */
    t->place[0].node = STORE_NO_NODE;
    die(m, now, r->target);
    return STORE_OK;
}

/* ---- What there is ---- */

struct store_meta_counts store_meta_count(const struct store_meta *m) {
    struct store_meta_counts c = {.objects = m->object_count - m->removed};
    uint32_t dead;
    for (uint32_t i = 0; i < m->extent_count; i++) {
        const struct store_extent *e = &m->extent[i];
        c.extents += e->state == STORE_COMMITTED;
        c.pending += e->state == STORE_PENDING;
        c.dying += e->state == STORE_DYING;
        c.damaged += e->state == STORE_COMMITTED &&
                     living_places(m, e, &dead) < store_policy_places(&e->policy);
    }
    return c;
}

/* Every block in use belongs to one extent, and every segment of an object to a committed one. */
static bool blocks_agree(const struct store_meta *m, uint32_t node) {
    const struct store_blocks *b = &m->node[node].blocks;
    struct store_blocks seen;
    bool ok = store_blocks_new(&seen, b->count);
    for (uint32_t i = 0; ok && i < m->extent_count; i++) {
        const struct store_extent *e = &m->extent[i];
        uint32_t places = e->state == STORE_FREE ? 0 : store_policy_places(&e->policy);
        for (uint32_t j = 0; ok && j < places; j++) {
            if (e->place[j].node != node)
                continue;
            uint32_t first = e->place[j].block, end = first + store_blocks_of(e);
            ok = end <= b->count;
            for (uint32_t k = first; ok && k < end; k++) {
                ok = store_blocks_used(b, k) && !store_blocks_used(&seen, k);
                seen.used[k / 64] |= 1ull << k % 64;
                seen.free--;
            }
        }
    }
    ok = ok && seen.free == b->free &&
         memcmp(seen.used, b->used, ((uint64_t)b->count + 63) / 64 * sizeof *b->used) == 0;
    store_blocks_free(&seen);
    return ok;
}

static bool segments_agree(const struct store_meta *m, const struct store_object *o,
                           uint32_t *segments) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < o->segment_count; i++) {
        const struct store_segment *s = &o->segment[i];
        const struct store_extent *e = store_meta_extent(m, s->extent);
        if (!e || e->state != STORE_COMMITTED || e->object != o->id || s->offset < end ||
            s->length == 0 || (uint64_t)s->from + s->length > e->length ||
            s->offset - s->from != e->offset)
            return false;
        end = s->offset + s->length;
        segments[s->extent]++;
    }
    return end <= o->size;
}

bool store_meta_consistent(const struct store_meta *m) {
    uint32_t *segments = calloc(m->extent_count + 1u, sizeof *segments);
    bool ok = segments;
    for (uint32_t i = 0; ok && i < m->node_count; i++)
        ok = blocks_agree(m, i);
    for (uint32_t i = 0; ok && i < m->object_count; i++)
        ok = !m->object[i] || segments_agree(m, m->object[i], segments);
    for (uint32_t i = 0; ok && i < m->extent_count; i++)
        ok = m->extent[i].segments == segments[i] &&
             (m->extent[i].state != STORE_COMMITTED || segments[i]);
    free(segments);
    return ok;
}
