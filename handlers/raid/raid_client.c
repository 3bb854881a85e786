/* Clients of the RAID: where data is, writing, reading, and both while a server has failed.
 *
 * If the failed server has a stripe's parity, its data is written without. If it has data, what it
 * would hold is the xor of all others, which is only true while nobody is in the middle of a write
 * to the stripe. Therefore a client that knows of the failure holds the stripe's lock, a word on
 * its server of parity, while it writes to the stripe or reads what is lost. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "raid_inside.h"
#include "raid_layout.h"

static const ptl_ct_event_t zero;

/* ---- Addresses ---- */

struct piece {
    uint32_t server, parity;
    uint32_t column; /* which part of the stripe */
    uint64_t stripe;
    uint64_t offset, bytes; /* there, and on the server of parity */
    uint32_t chunk;         /* bytes of a message */
};

enum { SPREAD = 4, LEAST_CHUNK = 512 };

/* A small piece is cut so that several HPUs have a part of it. */
static uint32_t chunk_of(const struct spin_raid *r, uint64_t bytes) {
    uint32_t chunk = r->chunk_bytes;
    while (!r->by_host && chunk > LEAST_CHUNK && bytes < (uint64_t)SPREAD * chunk)
        chunk /= 2;
    return chunk;
}

/* What of [address, address + bytes) begins there and is in one stripe of one server. With rotation
 * stripes are left-symmetric: the parity moves one server to the left with each stripe, and data
 * begins on the server after it. */
static struct piece piece_at(const struct spin_raid *r, uint64_t address, uint64_t bytes) {
    uint64_t unit = address / r->unit, in = address % r->unit, left = r->unit - in;
    uint64_t stripe = unit / r->data;
    uint32_t column = (uint32_t)(unit % r->data), servers = r->data + 1;
    uint32_t parity = r->data - (r->rotates ? (uint32_t)(stripe % servers) : 0);
    bytes = bytes < left ? bytes : left;
    return (struct piece){.server = (parity + 1 + column) % servers,
                          .parity = parity,
                          .column = column,
                          .stripe = stripe,
                          .offset = stripe * r->unit + in,
                          .bytes = bytes,
                          .chunk = chunk_of(r, bytes)};
}

static uint64_t chunks_of(const struct piece *p) {
    return (p->offset + p->bytes - 1) / p->chunk - p->offset / p->chunk + 1;
}

/* Chunk i of a piece: cut where the server's memory has a multiple of the chunk's size. */
static struct piece chunk_at(const struct piece *p, uint64_t i) {
    struct piece c = *p;
    uint64_t first = (p->offset / p->chunk + i) * p->chunk;
    uint64_t end = first + p->chunk, last = p->offset + p->bytes;
    c.offset = first < p->offset ? p->offset : first;
    c.bytes = (end < last ? end : last) - c.offset;
    return c;
}

static bool in_range(const struct spin_raid *r, uint64_t address, uint64_t bytes) {
    uint64_t all = r->data * r->server_bytes;
    return address % 8 == 0 && bytes % 8 == 0 && address <= all && bytes <= all - address;
}

/* ---- Messages of a write ---- */

struct writing {
    struct spin_raid *raid;
    struct spin_linked entry;
    uint8_t *staging, *next; /* messages, one behind the other */
    uint64_t messages;
};

/* The servers tell about this write, and about no earlier one. */
static int begin_write(struct writing *w, struct spin_raid *r, uint64_t bytes) {
    uint32_t least = r->chunk_bytes < LEAST_CHUNK ? r->chunk_bytes : LEAST_CHUNK;
    uint64_t most = bytes / least + 2 * (bytes / r->unit + 2); /* messages */
    *w = (struct writing){.raid = r};
    w->staging = w->next = malloc(bytes + most * sizeof(struct raid_head));
    if (!w->staging)
        return PTL_NO_SPACE;
    r->write++;
    PtlCTSet(r->done, zero);
    PtlCTSet(r->answered, zero);
    const struct spin_entry done = {
        .start = &r->done_number,
        .length = sizeof r->done_number,
        .bits = RAID_DONE_BITS(r->write),
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_COMM_DISABLE,
        .ct = r->done,
    };
    return spin_entry_append(r->ni, r->pt, &done, &w->entry);
}

/* Until all that was sent is acknowledged and, if nothing failed, done. */
static int end_write(struct writing *w, int code) {
    int answered = w->messages ? raid_wait_for(w->raid->answered, w->messages) : PTL_OK;
    if (code == PTL_OK)
        code = answered;
    if (code == PTL_OK && w->messages)
        code = raid_wait_for(w->raid->done, w->messages);
    spin_entry_remove(&w->entry);
    free(w->staging);
    return code;
}

/* A card that has no place for a message drops it, and a message of a card to a card is not sent
 * again; so a client has only so many pieces under way. */
static int wait_for_window(struct spin_raid *r, ptl_size_t done) {
    const ptl_handle_ct_t counters[] = {r->done, r->answered};
    const ptl_size_t tests[] = {done, PTL_SIZE_MAX}; /* of the second: a failure */
    ptl_ct_event_t event;
    unsigned int which;
    int code = PtlCTPoll(counters, tests, 2, PTL_TIME_FOREVER, &event, &which);
    return code != PTL_OK ? code : event.failure ? PTL_FAIL : PTL_OK;
}

/* One message: head and data side by side. To the server of data (RAID_WRITE), or what changed to
 * that of parity. */
static int send_chunk(struct writing *w, const struct piece *p, ptl_match_bits_t bits,
                      const uint8_t *data) {
    struct spin_raid *r = w->raid;
    struct raid_head head = {.offset = (uint32_t)p->offset,
                             .bytes = (uint32_t)p->bytes,
                             .client = r->rank,
                             .server = RAID_NOBODY,
                             .write = r->write,
                             .parity = p->parity == r->avoided ? RAID_NOBODY : p->parity};
    uint64_t half = r->window / 2; /* looked at that seldom */
    uint8_t *message = w->next;
    memcpy(message, &head, sizeof head);
    memcpy(message + sizeof head, data, p->bytes); /* no cost: a gather by the card does it too */
    int code =
        PtlPut(r->ask_md, (ptl_size_t)(uintptr_t)message, sizeof head + p->bytes, PTL_CT_ACK_REQ,
               (ptl_process_t){.rank = bits == RAID_WRITE ? p->server : p->parity}, r->pt, bits, 0,
               NULL, 0);
    if (code != PTL_OK)
        return code;
    w->next += sizeof head + p->bytes;
    w->messages++;
    return w->messages % half == 0 && w->messages > half ? wait_for_window(r, w->messages - half)
                                                         : PTL_OK;
}

/* ---- Writing ---- */

/* Chunk `turn` of each piece, before chunk `turn + 1` of any, and the servers of data begin at
 * different places: so all of them work at the same time, and seldom two of them on the same
 * parity. *most is how many turns there are. What a failed server would hold is left out. */
static int send_turn(struct writing *w, uint64_t address, const uint8_t *data, uint64_t bytes,
                     uint64_t turn, uint64_t *most) {
    const struct spin_raid *r = w->raid;
    int code = PTL_OK;
    for (uint64_t at = 0; at < bytes && code == PTL_OK;) {
        struct piece p = piece_at(r, address + at, bytes - at);
        uint64_t chunks = chunks_of(&p);
        if (turn < chunks && p.server != r->avoided) {
            struct piece c = chunk_at(&p, (turn + p.column * chunks / r->data) % chunks);
            code = send_chunk(w, &c, RAID_WRITE, data + at + (c.offset - p.offset));
        }
        *most = chunks > *most ? chunks : *most;
        at += p.bytes;
    }
    return code;
}

/* To all servers that have not failed. */
static int write_there(struct spin_raid *r, uint64_t address, const uint8_t *data, uint64_t bytes) {
    struct writing w;
    int code = begin_write(&w, r, bytes);
    for (uint64_t turn = 0, turns = 1; turn < turns && code == PTL_OK; turn++)
        code = send_turn(&w, address, data, bytes, turn, &turns);
    return end_write(&w, code);
}

/* ---- Reading ---- */

static int get(struct spin_raid *r, uint32_t server, uint64_t offset, void *to, uint64_t bytes) {
    return PtlGet(r->get_md, (ptl_size_t)(uintptr_t)to, bytes, (ptl_process_t){.rank = server},
                  r->pt, RAID_READ, offset, NULL);
}

/* The xor of [offset, offset + bytes) of all servers but one, of parity too. */
static int reconstruct(struct spin_raid *r, uint32_t without, uint64_t offset, void *to,
                       uint64_t bytes) {
    uint8_t *parts = malloc(r->data * bytes);
    if (!parts)
        return PTL_NO_SPACE;
    int code = PTL_OK;
    uint64_t n = 0;
    PtlCTSet(r->here, zero);
    for (uint32_t server = 0; server <= r->data && code == PTL_OK; server++)
        if (server != without) {
            code = get(r, server, offset, parts + n * bytes, bytes);
            n += code == PTL_OK;
        }
    int answered = raid_wait_for(r->here, n);
    if (code == PTL_OK)
        code = answered;
    memset(to, 0, bytes);
    for (uint64_t i = 0; i < n && code == PTL_OK; i++)
        raid_xor_into(to, parts + i * bytes, bytes);
    free(parts);
    return code;
}

/* From all servers that have not failed, all at once. */
static int read_there(struct spin_raid *r, uint64_t address, uint8_t *data, uint64_t bytes) {
    uint64_t gets = 0;
    int code = PTL_OK;
    PtlCTSet(r->here, zero);
    for (uint64_t at = 0; at < bytes && code == PTL_OK;) {
        struct piece p = piece_at(r, address + at, bytes - at);
        if (p.server != r->avoided) {
            code = get(r, p.server, p.offset, data + at, p.bytes);
            gets += code == PTL_OK;
        }
        at += p.bytes;
    }
    int answered = raid_wait_for(r->here, gets);
    return code == PTL_OK ? answered : code;
}

/* ---- While a server has failed ---- */

/* Swaps the stripe's lock: from nobody's to this client's. */
static int lock_stripe(struct spin_raid *r, const struct piece *p) {
    uint64_t mine = r->rank + 1ull, nobody = 0;
    uint64_t at = p->stripe % RAID_STRIPE_LOCKS * sizeof mine;
    int code;
    do {
        PtlCTSet(r->here, zero);
        code =
            PtlSwap(r->get_md, (ptl_size_t)(uintptr_t)&r->swapped, r->md,
                    (ptl_size_t)(uintptr_t)&mine, sizeof mine, (ptl_process_t){.rank = p->parity},
                    r->pt, RAID_LOCK, at, NULL, 0, &nobody, PTL_CSWAP, PTL_UINT64_T);
        if (code == PTL_OK)
            code = raid_wait_for(r->here, 1);
        if (code == PTL_OK && r->swapped)
            sched_yield();
    } while (code == PTL_OK && r->swapped);
    return code;
}

static int unlock_stripe(struct spin_raid *r, const struct piece *p) {
    static const uint64_t nobody = 0;
    PtlCTSet(r->answered, zero);
    int code = PtlPut(r->ask_md, (ptl_size_t)(uintptr_t)&nobody, sizeof nobody, PTL_CT_ACK_REQ,
                      (ptl_process_t){.rank = p->parity}, r->pt, RAID_LOCK,
                      p->stripe % RAID_STRIPE_LOCKS * sizeof nobody, NULL, 0);
    return code == PTL_OK ? raid_wait_for(r->answered, 1) : code;
}

/* What the failed server would hold: its change goes to the parity. */
static int write_lost(struct spin_raid *r, const struct piece *p, const uint8_t *data) {
    struct writing w;
    uint8_t *change = malloc(p->bytes);
    if (!change)
        return PTL_NO_SPACE;
    int code = reconstruct(r, p->server, p->offset, change, p->bytes);
    if (code == PTL_OK) {
        raid_xor_into(change, data, p->bytes);
        code = begin_write(&w, r, p->bytes);
        for (uint64_t i = 0; i < chunks_of(p) && code == PTL_OK; i++) {
            struct piece c = chunk_at(p, i);
            code = send_chunk(&w, &c, RAID_PARITY, change + (c.offset - p->offset));
        }
        code = end_write(&w, code);
    }
    free(change);
    return code;
}

/* Does something with the part of [address, address + bytes) in each stripe that has data on the
 * failed server, while nobody else does; and with the other stripes at once. */
static int stripe_by_stripe(struct spin_raid *r, uint64_t address, uint8_t *data, uint64_t bytes,
                            int (*act)(struct spin_raid *r, uint64_t address, uint8_t *data,
                                       uint64_t bytes)) {
    uint64_t stripe_bytes = (uint64_t)r->unit * r->data;
    int code = PTL_OK;
    for (uint64_t at = 0; at < bytes && code == PTL_OK;) {
        struct piece first = piece_at(r, address + at, 8);
        uint64_t left = stripe_bytes - (address + at) % stripe_bytes;
        uint64_t part = bytes - at < left ? bytes - at : left;
        bool alone = first.parity != r->avoided; /* else nothing of it is lost */
        code = alone ? lock_stripe(r, &first) : PTL_OK;
        if (code != PTL_OK)
            return code;
        code = act(r, address + at, data + at, part);
        int unlocked = alone ? unlock_stripe(r, &first) : PTL_OK;
        code = code == PTL_OK ? unlocked : code;
        at += part;
    }
    return code;
}

/* The piece of a part of one stripe that is lost, if there is one; *at: where in the part. */
static bool find_lost(const struct spin_raid *r, uint64_t address, uint64_t bytes, struct piece *p,
                      uint64_t *at) {
    for (*at = 0; *at < bytes; *at += p->bytes) {
        *p = piece_at(r, address + *at, bytes - *at);
        if (p->server == r->avoided)
            return true;
    }
    return false;
}

static int write_stripe(struct spin_raid *r, uint64_t address, uint8_t *data, uint64_t bytes) {
    struct piece p;
    uint64_t at;
    int code = write_there(r, address, data, bytes);
    if (code == PTL_OK && find_lost(r, address, bytes, &p, &at))
        code = write_lost(r, &p, data + at);
    return code;
}

static int read_stripe(struct spin_raid *r, uint64_t address, uint8_t *data, uint64_t bytes) {
    struct piece p;
    uint64_t at;
    int code = read_there(r, address, data, bytes);
    if (code == PTL_OK && find_lost(r, address, bytes, &p, &at))
        code = reconstruct(r, p.server, p.offset, data + at, p.bytes);
    return code;
}

/* ---- All of it ---- */

static bool is_degraded(const struct spin_raid *r) {
    return r->avoided != SPIN_RAID_ALL;
}

int spin_raid_write(struct spin_raid *r, uint64_t address, const void *data, uint64_t bytes) {
    if (!in_range(r, address, bytes))
        return PTL_ARG_INVALID;
    return is_degraded(r)
               ? stripe_by_stripe(r, address, (uint8_t *)(uintptr_t)data, bytes, write_stripe)
               : write_there(r, address, data, bytes);
}

int spin_raid_read(struct spin_raid *r, uint64_t address, void *data, uint64_t bytes) {
    if (!in_range(r, address, bytes))
        return PTL_ARG_INVALID;
    return is_degraded(r) ? stripe_by_stripe(r, address, data, bytes, read_stripe)
                          : read_there(r, address, data, bytes);
}

int spin_raid_rebuild(struct spin_raid *r) {
    int code = r->rank <= r->data ? PTL_OK : PTL_ARG_INVALID;
    for (uint64_t at = 0; at < r->server_bytes && code == PTL_OK; at += r->unit)
        code = reconstruct(r, r->rank, at, r->memory + at, r->unit);
    return code;
}
