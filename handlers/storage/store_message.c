#include "store_message.h"

#include <stddef.h>
#include <string.h>

#include "store_pass.h"

#define MAGIC   0x5453u
#define VERSION 1u

static void pass_grant(struct pass *p, struct store_grant *g) {
    struct storage_capability *c = &g->capability;
    if (p->reads)
        memset(c, 0, sizeof *c);
    pass_bytes(p, c, STORAGE_CAPABILITY_BYTES(0));
    uint32_t places = p->ok ? storage_places(c) : 0;
    pass_must(p, places);
    pass_bytes(p, c->place, places * (uint32_t)sizeof c->place[0]);
    pass_bytes(p, g->mac, sizeof g->mac);
    pass_bytes(p, g->session, sizeof g->session);
}

static void pass_sums(struct pass *p, struct store_message *m, uint32_t *first, uint32_t *count) {
    pass_small(p, count, 2, STORE_PIECES);
    if (p->reads)
        *first = m->sums;
    pass_must(p, *first <= m->sums && m->sums <= STORE_MESSAGE_SUMS &&
                     *count <= STORE_MESSAGE_SUMS - *first);
    if (p->ok)
        pass_bytes(p, m->sum + *first, *count * (uint32_t)sizeof m->sum[0]);
    if (p->reads && p->ok)
        m->sums = *first + *count;
}

/* What a client computes with must agree, or it would read beyond what it has. */
static bool layout_agrees(const struct store_layout *l) {
    const struct storage_capability *c = &l->grant.capability;
    uint32_t width = c->strategy == STORAGE_RS ? c->k : 1;
    return l->length && l->length <= STORE_EXTENT_BYTES && l->chunk == c->bytes &&
           l->chunk <= l->length + 8u && (uint64_t)l->chunk * width >= l->length && l->piece &&
           l->piece % STORE_BLOCK == 0 && l->piece <= STORE_EXTENT_BYTES &&
           (l->sums == 0 || l->sums == width * store_pieces(l->chunk, l->piece)) &&
           l->from <= l->length && l->part <= l->length - l->from && l->offset <= INT64_MAX;
}

static void pass_layout(struct pass *p, struct store_message *m, struct store_layout *l) {
    pass_u64(p, &l->offset);
    pass_u32(p, &l->part);
    pass_u32(p, &l->from);
    pass_u32(p, &l->extent);
    pass_u32(p, &l->length);
    pass_u32(p, &l->chunk);
    pass_u32(p, &l->piece);
    pass_small(p, &l->dead, 2, (1u << STORE_PLACES) - 1);
    pass_grant(p, &l->grant);
    pass_sums(p, m, &l->first_sum, &l->sums);
    pass_must(p, p->ok && layout_agrees(l));
}
#define LAYOUT_BYTES (8 + 6 * 4 + 2 + 28 + 8 * STORE_PLACES + 16 + 2)

bool store_message_fits(const struct store_message *m, uint32_t sums) {
    return m->layouts < STORE_MESSAGE_LAYOUTS && m->sums + sums <= STORE_MESSAGE_SUMS &&
           64 + (m->layouts + 1) * LAYOUT_BYTES + 4 * (m->sums + sums) <= STORE_MESSAGE_BYTES;
}

static void pass_layouts(struct pass *p, struct store_message *m, uint32_t most) {
    pass_small(p, &m->layouts, 1, most);
    for (uint32_t i = 0; p->ok && i < m->layouts; i++)
        pass_layout(p, m, &m->layout[i]);
}

static void pass_key(struct pass *p, struct storage_key *k) {
    pass_small(p, &k->generation, 4, 255);
    pass_must(p, k->generation);
    pass_u32(p, &k->ends);
    pass_bytes(p, k->key, sizeof k->key);
    pass_bytes(p, k->ticket, sizeof k->ticket);
}

static void pass_request(struct pass *p, struct store_message *m) {
    uint32_t first = 0;
    switch (m->kind) {
    case STORE_KIND_OPEN:
        pass_name(p, m->name);
        pass_bool(p, &m->create);
        if (m->create)
            pass_policy(p, &m->policy);
        break;
    case STORE_KIND_ALLOCATE:
        pass_u32(p, &m->object);
        pass_u64(p, &m->write);
        pass_u64(p, &m->offset);
        pass_u32(p, &m->length);
        break;
    case STORE_KIND_SEAL: {
        uint32_t count = m->sums;
        if (p->reads)
            m->sums = 0;
        pass_u32(p, &m->extent);
        pass_u64(p, &m->write);
        pass_bool(p, &m->last);
        pass_sums(p, m, &first, &count);
        break;
    }
    case STORE_KIND_LAYOUT:
        pass_u32(p, &m->object);
        pass_u64(p, &m->offset);
        pass_u64(p, &m->bytes);
        break;
    case STORE_KIND_REMOVE:
        pass_u32(p, &m->object);
        break;
    case STORE_KIND_SUSPECT:
        pass_u32(p, &m->node);
        break;
    case STORE_KIND_REPAIR:
        pass_u32(p, &m->extent);
        break;
    case STORE_KIND_REPAIRED:
        pass_u32(p, &m->extent);
        pass_small(p, &m->index, 1, STORE_PLACES - 1);
        pass_u32(p, &m->target);
        break;
    case STORE_KIND_KEYS:
        pass_key(p, &m->key);
        pass_u32(p, &m->previous_ends);
        pass_u32(p, &m->clock);
        break;
    case STORE_KIND_PING:
        pass_u32(p, &m->clock);
        break;
    default:
        break;
    }
}

static void pass_answer(struct pass *p, struct store_message *m) {
    switch (m->kind) {
    case STORE_KIND_HELLO:
        pass_small(p, &m->session, 4, 65535);
        pass_u32(p, &m->nodes);
        break;
    case STORE_KIND_OPEN:
        pass_u32(p, &m->object);
        pass_policy(p, &m->policy);
        pass_u64(p, &m->size);
        pass_u64(p, &m->version);
        break;
    case STORE_KIND_ALLOCATE:
        pass_layouts(p, m, 1);
        pass_must(p, m->layouts == 1);
        break;
    case STORE_KIND_SEAL:
        pass_u64(p, &m->size);
        pass_u64(p, &m->version);
        break;
    case STORE_KIND_LAYOUT:
        pass_u64(p, &m->size);
        pass_u64(p, &m->version);
        pass_u64(p, &m->bytes); /* that the layouts tell all of */
        pass_layouts(p, m, STORE_MESSAGE_LAYOUTS);
        break;
    case STORE_KIND_REPAIR: /* the extent, and where the part goes */
        pass_small(p, &m->index, 1, STORE_PLACES - 1);
        pass_layouts(p, m, 2);
        pass_must(p, m->layouts == 2 && m->layout[0].chunk == m->layout[1].chunk);
        break;
    case STORE_KIND_ROTATE:
        pass_small(p, &m->key.generation, 4, 255);
        break;
    case STORE_KIND_PING:
    case STORE_KIND_KEYS:
        pass_u32(p, &m->life);
        pass_u64(p, &m->medium);
        break;
    case STORE_KIND_COUNTS:
        pass_u32(p, &m->counts.objects);
        pass_u32(p, &m->counts.extents);
        pass_u32(p, &m->counts.pending);
        pass_u32(p, &m->counts.dying);
        pass_u32(p, &m->counts.damaged);
        pass_u32(p, &m->nodes);
        pass_u32(p, &m->dead_nodes);
        break;
    default:
        break;
    }
}

static void pass_message(struct pass *p, struct store_message *m) {
    uint32_t magic = MAGIC, version = VERSION, kind = m->kind, status = m->status, zero = 0;
    pass_small(p, &magic, 2, UINT16_MAX);
    pass_small(p, &version, 1, UINT8_MAX);
    pass_must(p, magic == MAGIC && version == VERSION);
    pass_small(p, &kind, 1, STORE_KIND_COUNT - 1);
    m->kind = (enum store_kind)kind;
    pass_bool(p, &m->answer);
    pass_small(p, &status, 1, STORE_STATUSES - 1);
    m->status = (enum store_status)status;
    pass_small(p, &zero, 2, 0);
    pass_u32(p, &m->serial);
    pass_must(p, kind && (m->answer || status == STORE_OK));
    if (!p->ok)
        return;
    if (!m->answer)
        pass_request(p, m);
    else if (m->status == STORE_OK)
        pass_answer(p, m);
    else if (m->kind == STORE_KIND_REPAIR && m->status == STORE_LOST)
        pass_u32(p, &m->extent); /* that cannot be repaired */
}

void store_message_clear(struct store_message *m) {
    memset(m, 0, offsetof(struct store_message, layout));
}

uint32_t store_message_write(struct store_message *m, uint8_t *to, uint32_t room) {
    struct pass p = {
        .at = to, .left = room < STORE_MESSAGE_BYTES ? room : STORE_MESSAGE_BYTES, .ok = true};
    pass_message(&p, m);
    return p.ok ? (uint32_t)(p.at - to) : 0;
}

bool store_message_read(struct store_message *m, const uint8_t *from, uint64_t bytes) {
    if (bytes > STORE_MESSAGE_BYTES)
        return false;
    struct pass p = {
        .at = (uint8_t *)(uintptr_t)from, .left = (uint32_t)bytes, .reads = true, .ok = true};
    store_message_clear(m);
    pass_message(&p, m);
    return p.ok && p.left == 0;
}
