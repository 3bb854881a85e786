/* Erasure coding in the handlers of a storage node's card: data nodes encode each packet and send
 * the m products to the parity nodes, which add them up (storage_code.h, storage_parity.h). */
#ifndef STORAGE_ERASURE_H
#define STORAGE_ERASURE_H

#include "storage_code.h"
#include "storage_state.h"

/* What a handler may allocate, less the rows. */
#define STORAGE_CODE_ROOM ((16u << 10) - STORAGE_PASS * (uint32_t)sizeof(struct storage_row))
/* Longer packets, which some live cards have, are encoded in pieces. */
#define STORAGE_CODE_PIECE (STORAGE_CODE_ROOM / 2 & ~63u)

static inline uint32_t storage_role_of(const struct storage_descriptor *d) {
    return d->operation == STORAGE_PARITY ? d->virtual_rank << 8 | 0x80u | d->data_index
                                          : d->data_index;
}

/* Part of a packet, at `offset` of the message, to parity nodes first to first + count - 1. */
static inline void encode_pass(struct storage_descriptor *d, struct storage_row *rows,
                               uint8_t *const *to, const uint8_t *data, uint32_t bytes,
                               uint32_t offset, uint32_t first, uint32_t count) {
    storage_encode_packet(d->k, d->data_index, first, count, rows, data, bytes, to);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length = bytes, tag[2];
        if (d->packet) {
            const uint32_t role = (d->k + first + i) << 8 | 0x80u | d->data_index;
            storage_packet_tag(d->session, d->request, role, offset, to[i], bytes, tag);
            __builtin_memcpy(to[i] + bytes, tag, sizeof tag);
            length += sizeof tag;
        }
        if (PtlHandlerStreamPut(d->stream[first + i], to[i], length, offset) != PTL_OK)
            d->gone[first + i] = 1;
    }
}

/* `bytes` of data of a packet at `offset` of the message. What is sent is taken at once, so the
 * memory serves several passes. False: there is none. */
static inline bool encode(struct storage_descriptor *d, const uint8_t *data, uint32_t bytes,
                          uint32_t offset) {
    const uint32_t most = d->packet || bytes * 2 <= STORAGE_CODE_ROOM ? bytes : STORAGE_CODE_PIECE;
    const uint32_t room = (most + STORAGE_TAG_BYTES + 3) & ~3u;
    uint32_t pass = STORAGE_CODE_ROOM / room;
    if (pass > d->m)
        pass = d->m;
    struct storage_row *rows = malloc(STORAGE_PASS * sizeof *rows);
    uint8_t *out = malloc(pass * room), *to[STORAGE_PASS];
    if (!pass || !rows || !out)
        return false;
    for (uint32_t i = 0; i < STORAGE_PASS; i++)
        to[i] = out + i * room;
    for (uint32_t at = 0, piece; at < bytes; at += piece) {
        piece = bytes - at < most ? bytes - at : most;
        for (uint32_t first = 0; first < d->m; first += pass)
            encode_pass(d, rows, to, data + at, piece, offset + at, first,
                        d->m - first < pass ? d->m - first : pass);
    }
    return true;
}

/* A message of a parity begins. `behind`: its sums are to be made by the host. */
static inline enum storage_status
begin_parity(struct storage_state *s, struct storage_descriptor *d, const struct storage_head *h,
             const uint32_t session[2], uint32_t base, bool behind) {
    const struct parity_request q = {
        .request = h->request,
        .client = h->capability.client,
        .virtual_rank = h->virtual_rank,
        .k = h->capability.k,
        .data_index = h->data_index,
        .length = h->length,
        .at = base,
        .step = h->packet ? h->packet - STORAGE_TAG_BYTES : s->parity.room,
        .to_host = behind,
        .session = {h->packet ? session[0] : 0, h->packet ? session[1] : 0},
    };
    int mismatch;
    d->write = parity_begin(&s->parity, &q, s->node.now, &mismatch);
    if (d->write == STORAGE_PARITY_NONE && !mismatch) { /* perhaps an old one can go */
        parity_sweep(&s->parity, s->node.now);
        d->write = parity_begin(&s->parity, &q, s->node.now, &mismatch);
    }
    if (d->write != STORAGE_PARITY_NONE)
        return STORAGE_DONE;
    return mismatch ? STORAGE_RANGE : STORAGE_FULL;
}

/* Data of a packet, which is at `at` of the parity. */
static inline void add_parity(struct storage_state *s, struct storage_descriptor *d,
                              const uint8_t *data, uint32_t bytes, uint32_t at) {
    const struct parity_write *w = parity_write_at(&s->parity, d->write);
    uint32_t which;
    while (bytes) {
        const struct parity_piece p = parity_cut(w, at, bytes);
        switch (parity_add(&s->parity, d->write, &p, data, &which)) {
        case PARITY_COMPLETE:
            PtlHandlerDMAToHostB(parity_accumulator_at(&s->parity, which)->word, w->at + p.start,
                                 p.bytes, PTL_ME_HOST_MEM);
            parity_written(&s->parity, which);
            break;
        case PARITY_AT_HOST:
            PtlHandlerPutFromDevice(data, p.length, PTL_NO_CT, PTL_NO_ACK_REQ, s->node.rank,
                                    parity_sum_bits(w, d->write), 0, NULL, parity_sum_data(w, &p));
            parity_sweep(&s->parity, s->node.now);
            break;
        case PARITY_REFUSED:
            d->status = STORAGE_FULL;
            break;
        default:
            break;
        }
        data += p.length;
        at += p.length;
        bytes -= p.length;
    }
}

#endif
