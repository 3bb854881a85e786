#include "store_record.h"

#include "store_pass.h"

static void pass_place(struct pass *p, struct store_place *place) {
    pass_u32(p, &place->node);
    pass_u32(p, &place->block);
}

static void pass_extent(struct pass *p, struct store_record_extent *e) {
    pass_u64(p, &e->offset);
    pass_small(p, &e->length, 4, STORE_EXTENT_BYTES);
    pass_small(p, &e->places, 1, STORE_PLACES);
    for (uint32_t i = 0; p->ok && i < e->places; i++)
        pass_place(p, &e->place[i]);
    pass_small(p, &e->sums, 2, STORE_PIECES);
    pass_must(p, e->length && e->offset <= INT64_MAX);
    if (p->ok)
        pass_bytes(p, e->sum, e->sums * (uint32_t)sizeof e->sum[0]);
}

static void pass_record(struct pass *p, struct store_record *r) {
    uint32_t kind = r->kind;
    pass_small(p, &kind, 1, STORE_RECORD_KINDS - 1);
    pass_must(p, kind);
    r->kind = (enum store_record_kind)kind;
    pass_u32(p, &r->object);
    switch (r->kind) {
    case STORE_RECORD_MEDIUM:
        pass_u32(p, &r->place.node);
        pass_u64(p, &r->medium);
        break;
    case STORE_RECORD_OBJECT:
        pass_policy(p, &r->policy);
        pass_name(p, r->name);
        break;
    case STORE_RECORD_COMMIT:
    case STORE_RECORD_EXTENT:
        pass_small(p, &r->count, 1, r->kind == STORE_RECORD_EXTENT ? 1 : STORE_WRITE_EXTENTS);
        pass_must(p, r->count);
        for (uint32_t i = 0; p->ok && i < r->count; i++)
            pass_extent(p, &r->extent[i]);
        break;
    case STORE_RECORD_MOVE:
        pass_u64(p, &r->offset);
        pass_small(p, &r->index, 1, STORE_PLACES - 1);
        pass_place(p, &r->place);
        break;
    case STORE_RECORD_SEGMENT:
        pass_u32(p, &r->number);
        pass_u64(p, &r->offset);
        pass_u32(p, &r->length);
        break;
    case STORE_RECORD_STATE:
        pass_u64(p, &r->size);
        pass_u64(p, &r->version);
        break;
    default: /* REMOVE */
        break;
    }
}

uint32_t store_record_write(struct store_record *r, uint8_t *to, uint32_t room) {
    struct pass p = {.at = to, .left = room, .ok = true};
    pass_record(&p, r);
    return p.ok ? (uint32_t)(p.at - to) : 0;
}

bool store_record_read(struct store_record *r, const uint8_t *from, uint32_t bytes) {
    struct pass p = {.at = (uint8_t *)(uintptr_t)from, .left = bytes, .reads = true, .ok = true};
    pass_record(&p, r);
    return p.ok && p.left == 0;
}
