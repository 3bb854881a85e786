/* RAID servers on the card (SC'17 section 5.3 and appendix C.3.5): data, parity and
 * acknowledgements without a processor. */
#include "spin/handler.h"

#include "raid_layout.h"

static uint32_t *lock_of(struct raid_state *s, const struct raid_head *h) {
    return &s->lock[h->offset / RAID_LOCKED % RAID_LOCKS];
}

static void lock(uint32_t *word) {
    while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
        PtlHandlerYield();
}

static void unlock(uint32_t *word) {
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

/* A piece that one lock is for. */
static int is_piece(const struct raid_head *h, uint32_t length, const struct raid_state *s) {
    return raid_is_piece(h, length, length - sizeof *h, s->server_bytes) && h->bytes &&
           h->offset / RAID_LOCKED == (h->offset + h->bytes - 1) / RAID_LOCKED;
}

/* to ^= from, in words; 8 bytes at least. */
static void xor_words(uint32_t *to, const uint32_t *from, uint32_t bytes) {
    uint32_t words = bytes / 4;
    for (; words >= 8; words -= 8, to += 8, from += 8) {
        uint32_t a = to[0] ^ from[0], b = to[1] ^ from[1], c = to[2] ^ from[2];
        uint32_t d = to[3] ^ from[3], e = to[4] ^ from[4], f = to[5] ^ from[5];
        uint32_t g = to[6] ^ from[6], h = to[7] ^ from[7];
        to[0] = a, to[1] = b, to[2] = c, to[3] = d, to[4] = e, to[5] = f, to[6] = g, to[7] = h;
    }
    while (words--)
        *to++ ^= *from++;
}

static void tell(const void *what, uint32_t bytes, uint32_t who, ptl_match_bits_t bits) {
    PtlHandlerPutFromDevice(what, bytes, PTL_NO_CT, PTL_NO_ACK_REQ, who, bits, 0, NULL, 0);
}

__handler int raid_write_payload_handler(const ptl_payload_t p, void *state) {
    struct raid_state *s = state;
    const struct raid_head *h = (const struct raid_head *)p.base;
    const uint32_t *data = (const uint32_t *)(h + 1);
    if (!is_piece(h, p.length, s))
        return FAIL;
    struct raid_head *change = malloc(p.length);
    if (!change)
        return FAIL;
    uint32_t *changed = (uint32_t *)(change + 1);
    lock(lock_of(s, h));
    PtlHandlerDMAFromHostB(h->offset, changed, h->bytes, PTL_ME_HOST_MEM);
    PtlHandlerDMAToHostB(data, h->offset, h->bytes, PTL_ME_HOST_MEM);
    unlock(lock_of(s, h));
    xor_words(changed, data, h->bytes);
    *change = *h;
    change->server = s->rank;
    tell(change, p.length, s->parity, RAID_PARITY);
    free(change);
    return SUCCESS;
}

__handler int raid_parity_payload_handler(const ptl_payload_t p, void *state) {
    struct raid_state *s = state;
    const struct raid_head *h = (const struct raid_head *)p.base;
    if (!is_piece(h, p.length, s))
        return FAIL;
    uint32_t *parity = malloc(h->bytes);
    if (!parity)
        return FAIL;
    lock(lock_of(s, h));
    PtlHandlerDMAFromHostB(h->offset, parity, h->bytes, PTL_ME_HOST_MEM);
    xor_words(parity, (const uint32_t *)(h + 1), h->bytes);
    PtlHandlerDMAToHostB(parity, h->offset, h->bytes, PTL_ME_HOST_MEM);
    unlock(lock_of(s, h));
    tell(h, sizeof *h, h->server, RAID_STORED);
    free(parity);
    return SUCCESS;
}

__handler int raid_stored_payload_handler(const ptl_payload_t p, void *state) {
    const struct raid_head *h = (const struct raid_head *)p.base;
    (void)state;
    if (p.length != sizeof *h)
        return FAIL;
    tell(&h->write, sizeof h->write, h->client, RAID_DONE_BITS(h->write));
    return SUCCESS;
}
