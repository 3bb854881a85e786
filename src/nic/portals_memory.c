/* Memory of a program, in one piece or several, and the descriptors that initiators use. A
 * descriptor may span all addresses: nothing here touches what it names. */
#include <stdlib.h>

#include "nic/portals_private.h"

const struct nic_memory *portals_memory(const struct portals *p) {
    return p->memory;
}

void portals_reach(struct portals *p, const struct nic_memory *memory) {
    p->memory = memory;
}

static int set_pieces(struct portals_area *m, const ptl_iovec_t *vector, ptl_size_t count) {
    m->piece = calloc(count ? count : 1, sizeof *m->piece);
    if (!m->piece)
        return PTL_NO_SPACE;
    m->pieces = (uint32_t)count;
    for (uint32_t i = 0; i < m->pieces; i++) {
        m->piece[i] = (struct portals_piece){vector[i].iov_base, m->length};
        if (vector[i].iov_len > PTL_SIZE_MAX - m->length) {
            p4_memory_clear(m);
            return PTL_ARG_INVALID;
        }
        m->length += vector[i].iov_len;
    }
    return PTL_OK;
}

int p4_memory_set(struct portals_area *m, void *start, ptl_size_t length, bool is_iovec,
                  const struct portals_ni *ni) {
    *m = (struct portals_area){.start = start, .length = length};
    if (!is_iovec)
        return PTL_OK;
    if (length > (ptl_size_t)ni->limits.max_iovecs || (length && !start))
        return PTL_ARG_INVALID;
    m->length = 0;
    return set_pieces(m, start, length);
}

void p4_memory_clear(struct portals_area *m) {
    free(m->piece);
    *m = (struct portals_area){0};
}

/* The piece that holds a byte, or the last one. */
static uint32_t piece_at(const struct portals_area *m, uint64_t offset) {
    uint32_t low = 0, high = m->pieces;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (m->piece[middle].from <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint32_t p4_memory_pieces(const struct portals_area *m, uint64_t offset, uint64_t length,
                          struct nic_segment *segments, uint32_t room) {
    uint32_t count = 0;
    for (uint32_t i = piece_at(m, offset); i < m->pieces && length && count < room; i++) {
        uint64_t end = i + 1 < m->pieces ? m->piece[i + 1].from : m->length;
        uint64_t bytes = end - offset < length ? end - offset : length;
        if (!bytes) /* an empty piece */
            continue;
        segments[count++] =
            (struct nic_segment){m->piece[i].base + (offset - m->piece[i].from), bytes};
        offset += bytes;
        length -= bytes;
    }
    return count;
}

void *p4_memory_piece_address(const struct portals_area *m, uint64_t offset) {
    if (!m->pieces)
        return NULL;
    const struct portals_piece *piece = &m->piece[piece_at(m, offset)];
    return (void *)((uintptr_t)piece->base + (offset - piece->from));
}

int portals_md_bind(struct portals *p, ptl_handle_ni_t ni_handle, const ptl_md_t *md,
                    ptl_handle_md_t *handle) {
    struct portals_ni *ni = p4_ni_of(p, ni_handle), *eq_ni = ni, *ct_ni = ni;
    struct portals_event_queue *eq = NULL;
    struct portals_counter *ct = NULL;
    if (!ni || !md || !handle || md->options & ~(unsigned)PTL_MD_OPTIONS_MASK)
        return PTL_ARG_INVALID;
    if (md->eq_handle != PTL_EQ_NONE && !(eq = p4_object_of(p, HANDLE_EQ, md->eq_handle, &eq_ni)))
        return PTL_ARG_INVALID;
    if (md->ct_handle != PTL_CT_NONE && !(ct = p4_object_of(p, HANDLE_CT, md->ct_handle, &ct_ni)))
        return PTL_ARG_INVALID;
    if (eq_ni != ni || ct_ni != ni)
        return PTL_ARG_INVALID;
    struct portals_descriptor *d = pool_take(&ni->mds);
    if (!d)
        return PTL_NO_SPACE;
    int code = p4_memory_set(&d->memory, md->start, md->length, md->options & PTL_IOVEC, ni);
    if (code) {
        pool_give(&ni->mds, d);
        return code;
    }
    d->ni = ni;
    d->sink = (struct portals_sink){p4_queue_name(md->eq_handle, eq),
                                    p4_counter_name(md->ct_handle, ct), md->options};
    *handle = p4_handle_new(ni, HANDLE_MD, d);
    return PTL_OK;
}

int portals_md_release(struct portals *p, ptl_handle_md_t handle) {
    struct portals_descriptor *d = p4_object_of(p, HANDLE_MD, handle, NULL);
    if (!d)
        return PTL_ARG_INVALID;
    if (d->operations)
        return PTL_IN_USE;
    p4_memory_clear(&d->memory);
    p4_object_give(&d->ni->mds, d);
    return PTL_OK;
}
