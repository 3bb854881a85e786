/* RAID servers on the card (SC'17 section 5.3 and appendix C.3.5): data, parity and
 * acknowledgements without a processor. */
#include "spin/handler.h"

#include "raid_layout.h"

/* A piece that one handler may do. */
static int is_piece(const struct raid_head *h, uint32_t length, const struct raid_state *s) {
    return raid_is_piece(h, length, length - sizeof *h, s->server_bytes) && h->bytes &&
           h->offset / RAID_MOST == (h->offset + h->bytes - 1) / RAID_MOST;
}

/* The locks of the RAID_MOST bytes that a piece is in. Scattered: servers of data that are a power
 * of two apart in their writes shall not meet at the same locks of the parity. */
static uint32_t *locks_of(struct raid_state *s, const struct raid_head *h) {
    const uint32_t each = RAID_MOST / RAID_LOCKED, groups = RAID_LOCKS / each;
    return &s->lock[(h->offset / RAID_MOST * 2654435769u >> 16) % groups * each];
}

/* Its own, from the first to the last: as everybody takes them in this order, nobody waits for
 * ever. */
static void lock(uint32_t *locks, const struct raid_head *h) {
    uint32_t first = h->offset % RAID_MOST, last = first + h->bytes - 1;
    for (uint32_t i = first / RAID_LOCKED; i <= last / RAID_LOCKED; i++)
        while (__atomic_exchange_n(&locks[i], 1, __ATOMIC_ACQUIRE))
            PtlHandlerYield();
}

static void unlock(uint32_t *locks, const struct raid_head *h) {
    uint32_t first = h->offset % RAID_MOST, last = first + h->bytes - 1;
    for (uint32_t i = first / RAID_LOCKED; i <= last / RAID_LOCKED; i++)
        __atomic_store_n(&locks[i], 0, __ATOMIC_RELEASE);
}

/* to ^= from, in words. Four instructions per word, and few more if it is unrolled. */
static void xor_words(uint32_t *restrict to, const uint32_t *restrict from, uint32_t bytes) {
#pragma GCC unroll 16
    for (uint32_t i = 0; i < bytes / 4; i++)
        to[i] ^= from[i];
}

static void tell(const void *what, uint32_t bytes, uint32_t who, ptl_match_bits_t bits) {
    PtlHandlerPutFromDevice(what, bytes, PTL_NO_CT, PTL_NO_ACK_REQ, who, bits, 0, NULL, 0);
}

static void tell_client(const struct raid_head *h) {
    tell(&h->write, sizeof h->write, h->client, RAID_DONE_BITS(h->write));
}

/* While new data goes to host memory, what has changed is computed. */
__handler int raid_write_payload_handler(const ptl_payload_t p, void *state) {
    struct raid_state *s = state;
    const struct raid_head *h = (const struct raid_head *)p.base;
    const uint32_t *data = (const uint32_t *)(h + 1);
    bool alone = h->parity == RAID_NOBODY;
    if (!is_piece(h, p.length, s) || h->parity == s->rank || (!alone && h->parity >= s->servers))
        return FAIL;
    struct raid_head *change = malloc(p.length);
    if (!change)
        return FAIL;
    uint32_t *changed = (uint32_t *)(change + 1);
    ptl_dma_h stored;
    lock(locks_of(s, h), h);
    if (!alone)
        PtlHandlerDMAFromHostB(h->offset, changed, h->bytes, PTL_ME_HOST_MEM);
    PtlHandlerDMAToHostNB(data, h->offset, h->bytes, PTL_ME_HOST_MEM, &stored);
    if (!alone)
        xor_words(changed, data, h->bytes);
    PtlHandlerDMAWait(stored);
    unlock(locks_of(s, h), h);
    if (alone) {
        tell_client(h);
    } else {
        *change = *h;
        change->server = s->rank;
        tell(change, p.length, h->parity, RAID_PARITY);
    }
    free(change);
    return SUCCESS;
}

/* In two halves: one moves while the other is computed. */
__handler int raid_parity_payload_handler(const ptl_payload_t p, void *state) {
    struct raid_state *s = state;
    const struct raid_head *h = (const struct raid_head *)p.base;
    const uint32_t *change = (const uint32_t *)(h + 1);
    bool alone = h->server == RAID_NOBODY;
    if (!is_piece(h, p.length, s) || (!alone && h->server >= s->servers))
        return FAIL;
    uint32_t *parity = malloc(h->bytes);
    if (!parity)
        return FAIL;
    uint32_t begin[2] = {0, h->bytes / 2 & ~63u};
    uint32_t bytes[2] = {begin[1], h->bytes - begin[1]};
    ptl_dma_h fetched[2], stored[2];
    lock(locks_of(s, h), h);
    for (int i = 0; i < 2; i++)
        if (bytes[i])
            PtlHandlerDMAFromHostNB(h->offset + begin[i], parity + begin[i] / 4, bytes[i],
                                    PTL_ME_HOST_MEM, &fetched[i]);
    for (int i = 0; i < 2; i++)
        if (bytes[i]) {
            PtlHandlerDMAWait(fetched[i]);
            xor_words(parity + begin[i] / 4, change + begin[i] / 4, bytes[i]);
            PtlHandlerDMAToHostNB(parity + begin[i] / 4, h->offset + begin[i], bytes[i],
                                  PTL_ME_HOST_MEM, &stored[i]);
        }
    for (int i = 0; i < 2; i++)
        if (bytes[i])
            PtlHandlerDMAWait(stored[i]);
    unlock(locks_of(s, h), h);
    if (alone)
        tell_client(h);
    else
        tell(h, sizeof *h, h->server, RAID_STORED);
    free(parity);
    return SUCCESS;
}

__handler int raid_stored_payload_handler(const ptl_payload_t p, void *state) {
    const struct raid_head *h = (const struct raid_head *)p.base;
    (void)state;
    if (p.length != sizeof *h)
        return FAIL;
    tell_client(h);
    return SUCCESS;
}
