/* Changes of the metadata that happen again, and all that there is as changes. */
#include <stdlib.h>
#include <string.h>

#include "store_meta_private.h"

/* ---- Applying ---- */

static bool apply_object(struct store_meta *m, const struct store_record *r) {
    const struct store_object *o;
    if (r->object < m->object_count || r->object >= STORE_OBJECTS)
        return false;
    if (store_meta_open(m, r->name, NULL, &o) != STORE_NO_OBJECT ||
        store_policy_places(&r->policy) > m->node_count)
        return false;
    while (m->object_count < r->object)
        if (!store_meta_skip_object(m))
            return false;
    return store_meta_new_object(m, r->name, &r->policy);
}

static bool claim_places(struct store_meta *m, struct store_extent *e,
                         const struct store_record_extent *from) {
    for (uint32_t i = 0; i < from->places; i++) {
        const struct store_place *p = &from->place[i];
        if (p->node >= m->node_count || store_meta_has_node(e, i, p->node) ||
            !store_blocks_claim(&m->node[p->node].blocks, p->block, store_blocks_of(e))) {
            while (i--)
                store_blocks_give(&m->node[e->place[i].node].blocks, e->place[i].block,
                                  store_blocks_of(e));
            return false;
        }
        e->place[i] = *p;
    }
    return true;
}

static struct store_extent extent_of(const struct store_object *o,
                                     const struct store_record_extent *from) {
    struct store_extent e = {.state = STORE_COMMITTED,
                             .policy = o->policy,
                             .object = o->id,
                             .offset = from->offset,
                             .length = from->length,
                             .sum_count = from->sums,
                             .next_of_write = STORE_NO_EXTENT};
    e.chunk = store_chunk_of(&e.policy, e.length);
    e.piece = store_piece_of(&e.policy, e.chunk);
    return e;
}

/* STORE_NO_EXTENT: it cannot be one of this object. */
static uint32_t apply_extent(struct store_meta *m, const struct store_object *o,
                             const struct store_record_extent *from) {
    struct store_extent e = extent_of(o, from);
    if (from->places != store_policy_places(&e.policy) ||
        from->sums != store_policy_width(&e.policy) * store_pieces(e.chunk, e.piece))
        return STORE_NO_EXTENT;
    e.sum = malloc(from->sums * sizeof *e.sum);
    if (!e.sum || !claim_places(m, &e, from)) {
        free(e.sum);
        return STORE_NO_EXTENT;
    }
    memcpy(e.sum, from->sum, from->sums * sizeof *e.sum);
    uint32_t at = store_meta_new_extent(m);
    if (at == STORE_NO_EXTENT)
        free(e.sum);
    else
        m->extent[at] = e;
    return at;
}

static bool apply_commit(struct store_meta *m, const struct store_record *r, struct store_object *o,
                         uint64_t time) {
    if (!store_meta_room_for(o, 2 * r->count))
        return false;
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t at = apply_extent(m, o, &r->extent[i]);
        if (at == STORE_NO_EXTENT)
            return false;
        const struct store_extent *e = &m->extent[at];
        store_meta_cover(m, time, o, (struct store_segment){e->offset, e->length, at, 0});
    }
    o->version++;
    return true;
}

static bool apply_move(struct store_meta *m, const struct store_record *r,
                       const struct store_object *o) {
    uint32_t i = store_meta_segment(o, r->offset);
    if (i == o->segment_count || o->segment[i].offset > r->offset)
        return false;
    struct store_extent *e = &m->extent[o->segment[i].extent];
    uint32_t places = store_policy_places(&e->policy);
    if (r->index >= places || r->place.node >= m->node_count ||
        store_meta_has_node(e, places, r->place.node) ||
        !store_blocks_claim(&m->node[r->place.node].blocks, r->place.block, store_blocks_of(e)))
        return false;
    store_blocks_give(&m->node[e->place[r->index].node].blocks, e->place[r->index].block,
                      store_blocks_of(e));
    e->place[r->index] = r->place;
    return true;
}

/* Segments come in order. */
static bool apply_segment(struct store_meta *m, const struct store_record *r,
                          struct store_object *o) {
    const struct store_extent *e = store_meta_extent(m, r->number);
    uint64_t end = o->segment_count ? o->segment[o->segment_count - 1].offset +
                                          o->segment[o->segment_count - 1].length
                                    : 0;
    if (!e || e->object != o->id || r->length == 0 || r->offset < end || r->offset < e->offset ||
        r->offset - e->offset > e->length || r->length > e->length - (r->offset - e->offset) ||
        !store_meta_room_for(o, 1))
        return false;
    store_meta_cover(
        m, 0, o,
        (struct store_segment){r->offset, r->length, r->number, (uint32_t)(r->offset - e->offset)});
    return true;
}

static bool apply_medium(struct store_meta *m, const struct store_record *r) {
    if (r->place.node >= m->node_count || !r->medium)
        return false;
    m->node[r->place.node].medium = r->medium;
    return true;
}

/* Nobody has a capability, so what is covered is free before the next change: a lifetime passes. */
bool store_meta_apply(struct store_meta *m, const struct store_record *r, uint64_t *time) {
    *time += m->lifetime + 1;
    store_meta_expire(m, *time);
    struct store_object *o = r->object < m->object_count ? m->object[r->object] : NULL;
    if (r->kind == STORE_RECORD_MEDIUM)
        return apply_medium(m, r);
    if (r->kind == STORE_RECORD_OBJECT)
        return apply_object(m, r);
    if (!o)
        return false;
    switch (r->kind) {
    case STORE_RECORD_COMMIT:
        return apply_commit(m, r, o, *time);
    case STORE_RECORD_REMOVE:
        return store_meta_remove(m, *time, r->object) == STORE_OK;
    case STORE_RECORD_MOVE:
        return apply_move(m, r, o);
    case STORE_RECORD_EXTENT:
        return apply_extent(m, o, &r->extent[0]) != STORE_NO_EXTENT;
    case STORE_RECORD_SEGMENT:
        return apply_segment(m, r, o);
    case STORE_RECORD_STATE:
        if (r->size < o->size || r->size > INT64_MAX)
            return false;
        o->size = r->size;
        o->version = r->version;
        return true;
    default:
        return false;
    }
}

bool store_meta_applied(struct store_meta *m, uint64_t *time) {
    *time += m->lifetime + 1;
    store_meta_expire(m, *time);
    for (uint32_t i = 0; i < m->extent_count; i++)
        if (m->extent[i].state == STORE_COMMITTED && m->extent[i].segments == 0)
            return false;
    return true;
}

/* ---- All that there is ---- */

/* The extents of an object in the order of their first segments, then its segments. */
static bool each_of(const struct store_meta *m, const struct store_object *o, uint32_t *number,
                    uint32_t *numbers, struct store_record *r, store_note *note, void *user) {
    for (uint32_t i = 0; i < o->segment_count; i++) {
        const struct store_segment *s = &o->segment[i];
        r->kind = STORE_RECORD_EXTENT;
        r->count = 0;
        if (number[s->extent] == STORE_NO_EXTENT) {
            number[s->extent] = (*numbers)++;
            store_record_extent(r, &m->extent[s->extent]);
            if (!note(user, r))
                return false;
        }
        r->kind = STORE_RECORD_SEGMENT;
        r->number = number[s->extent];
        r->offset = s->offset;
        r->length = s->length;
        if (!note(user, r))
            return false;
    }
    r->kind = STORE_RECORD_STATE;
    r->size = o->size;
    r->version = o->version;
    return note(user, r);
}

bool store_meta_each(const struct store_meta *m, store_note *note, void *user) {
    struct store_record *r = calloc(1, sizeof *r);
    uint32_t *number = malloc((m->extent_count + 1u) * sizeof *number), numbers = 0;
    bool ok = r && number;
    for (uint32_t i = 0; ok && i < m->extent_count; i++)
        number[i] = STORE_NO_EXTENT;
    for (uint32_t n = 0; ok && n < m->node_count; n++) {
        r->kind = STORE_RECORD_MEDIUM;
        r->place.node = n;
        r->medium = m->node[n].medium;
        ok = !r->medium || note(user, r);
    }
    for (uint32_t i = 0; ok && i < m->object_count; i++) {
        const struct store_object *o = m->object[i];
        if (!o)
            continue;
        r->kind = STORE_RECORD_OBJECT;
        r->object = i;
        r->policy = o->policy;
        strcpy(r->name, o->name);
        ok = note(user, r) && each_of(m, o, number, &numbers, r, note, user);
    }
    free(r);
    free(number);
    return ok;
}
