/* Sums of intermediate parities on a parity node's card.
 *
 * A write with RS(k,m) comes to a parity node as k messages, one from each data node. Their sum is
 * made in *accumulators*, each for one range of the parity: a range is what a packet holds, so that
 * nearly always one packet of each message belongs to one accumulator; packets of other lengths are
 * cut at the ends of ranges. An accumulator is found in a hash table, by write and range, under the
 * lock of its bucket. HPUs add to it at the same time, by atomic xor of words. Who adds the last
 * bytes owns it: writes it to the medium, clears it and gives it back.
 *
 * When the pool is empty the sum of a range is made by the host, and so are all sums of this write
 * that have no accumulator yet. That is decided under the bucket's lock: all parts of one sum are
 * added in one place. The host says how many bytes it has made durable, and how many pieces it has
 * taken out of its queue; when that is full the write is refused.
 *
 * A *write* has a record from its first message to its answer: begun and ended messages, and bytes
 * that are not durable. When a message breaks off, the write has failed: its accumulators go back
 * when all messages that begun have ended. A write whose other messages never begin is found by its
 * age when records or accumulators are short.
 *
 * The tables are in memory that is all zero at first; the host has filled in their sizes. */
#ifndef STORAGE_PARITY_H
#define STORAGE_PARITY_H

#include <stdint.h>

#ifdef SPIN_HANDLER_H
#define STORAGE_PARITY_PAUSE() PtlHandlerYield()
#else
#include <sched.h>
#define STORAGE_PARITY_PAUSE() sched_yield()
#endif

/* Writes and accumulators are numbered from 1: memory that is all zero is a table where nothing was
 * ever used. */
#define STORAGE_PARITY_NONE 0u
/* Ranges begin where packets do: the first one has the request's head before its data. */
#define STORAGE_PARITY_HEAD 184u

struct parity_write {
    uint32_t next;       /* in its bucket, or of the free ones */
    uint16_t generation; /* of this record: changes when it is given back */
    uint8_t in_use, failed;
    uint8_t at_host; /* sums that have no accumulator are the host's */
    uint8_t k, virtual_rank;
    uint8_t reserved;
    uint16_t begun, ended; /* a bit for each message */
    uint32_t client, request_low, request_high;
    uint32_t length;     /* of the parity */
    uint32_t at;         /* where it begins on the medium */
    uint32_t step;       /* length of a range */
    uint32_t left;       /* bytes that are not durable */
    uint32_t holds;      /* its accumulators */
    uint32_t last_use;   /* by the node's clock: when a message last begun or ended */
    uint32_t session[2]; /* authenticated packets: signs the answer */
};

struct parity_accumulator {
    uint32_t next;  /* in its bucket, or of the free ones */
    uint32_t write; /* whose */
    uint32_t range; /* its number */
    uint32_t bytes; /* of the range */
    uint32_t got;   /* bytes added, of k times as many */
    uint32_t word[];
};

struct parity_bucket {
    uint32_t lock;
    uint32_t first, first_write; /* accumulator, write */
};

struct storage_parity {
    uint32_t writes, accumulators, buckets; /* how many; buckets: a power of 2 */
    uint32_t room;                          /* bytes of a range at most, a multiple of 4 */
    uint32_t oldest;                        /* a write without news for so long is given up */
    uint32_t tables_at; /* bytes from here: parity_bucket[buckets], parity_write[writes], the
                           accumulators */
    uint32_t free_lock, free_write, free_accumulator;
    uint32_t used_writes, used_accumulators; /* those with higher numbers were never used */
    uint32_t sweep_lock, swept;              /* when the old ones were last looked for */
    uint32_t host_room, host_pieces; /* pieces that the host has room for; that it has not taken */
    /* What happened, for the host to read. */
    uint32_t sums_on_card, sums_at_host, failed_writes, most_in_use, in_use;
};

static inline uint32_t parity_accumulator_bytes(uint32_t room) {
    return (uint32_t)sizeof(struct parity_accumulator) + room;
}

/* Of the tables. */
static inline uint32_t storage_parity_bytes(const struct storage_parity *s) {
    return s->buckets * (uint32_t)sizeof(struct parity_bucket) +
           s->writes * (uint32_t)sizeof(struct parity_write) +
           s->accumulators * parity_accumulator_bytes(s->room);
}

static inline struct parity_bucket *parity_buckets(struct storage_parity *s) {
    return (struct parity_bucket *)(void *)((uint8_t *)s + s->tables_at);
}

static inline struct parity_write *parity_write_at(struct storage_parity *s, uint32_t number) {
    return (struct parity_write *)(parity_buckets(s) + s->buckets) + (number - 1);
}

static inline struct parity_accumulator *parity_accumulator_at(struct storage_parity *s,
                                                               uint32_t number) {
    uint8_t *first = (uint8_t *)parity_write_at(s, s->writes + 1);
    return (struct parity_accumulator *)(void *)(first +
                                                 (number - 1) * parity_accumulator_bytes(s->room));
}

static inline void parity_lock(uint32_t *word) {
    while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
        STORAGE_PARITY_PAUSE();
}

static inline void parity_unlock(uint32_t *word) {
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

/* ---- Adding ---- */

/* Four bytes from anywhere. */
static inline uint32_t parity_load(const uint8_t *from) {
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* Adds to words that others add to. Words are aligned; the data is, unless somebody's packets have
 * odd lengths. */
static inline void parity_xor(uint32_t *word, uint32_t offset, const uint8_t *data,
                              uint32_t bytes) {
    const uint8_t *const end = data + bytes;
    uint32_t *to = word + offset / 4;
    if (offset % 4 && data < end) {
        uint32_t part = 0;
        for (uint32_t at = offset % 4; at < 4 && data < end; at++)
            part |= (uint32_t)*data++ << 8 * at;
        __atomic_fetch_xor(to++, part, __ATOMIC_RELAXED);
    }
    const uint8_t *const whole = data + (uint32_t)(end - data) / 4 * 4;
    if (((uintptr_t)data & 3) == 0) {
        const uint8_t *const blocks = data + (uint32_t)(end - data) / 32 * 32;
        for (; data != blocks; data += 32, to += 8) {
            const uint32_t *from = (const uint32_t *)(const void *)data;
            const uint32_t a = from[0], b = from[1], c = from[2], d = from[3];
            const uint32_t e = from[4], f = from[5], g = from[6], h = from[7];
            __atomic_fetch_xor(&to[0], a, __ATOMIC_RELAXED);
            __atomic_fetch_xor(&to[1], b, __ATOMIC_RELAXED);
            __atomic_fetch_xor(&to[2], c, __ATOMIC_RELAXED);
            __atomic_fetch_xor(&to[3], d, __ATOMIC_RELAXED);
            __atomic_fetch_xor(&to[4], e, __ATOMIC_RELAXED);
            __atomic_fetch_xor(&to[5], f, __ATOMIC_RELAXED);
            __atomic_fetch_xor(&to[6], g, __ATOMIC_RELAXED);
            __atomic_fetch_xor(&to[7], h, __ATOMIC_RELAXED);
        }
        for (; data != whole; data += 4)
            __atomic_fetch_xor(to++, *(const uint32_t *)(const void *)data, __ATOMIC_RELAXED);
    } else {
        for (; data != whole; data += 4)
            __atomic_fetch_xor(to++, parity_load(data), __ATOMIC_RELAXED);
    }
    if (data < end) {
        uint32_t part = 0;
        for (uint32_t at = 0; data < end; at++)
            part |= (uint32_t)*data++ << 8 * at;
        __atomic_fetch_xor(to, part, __ATOMIC_RELAXED);
    }
}

/* A piece of a message that lies in one range. */
struct parity_piece {
    uint32_t range;        /* its number */
    uint32_t start, bytes; /* of the range, in the parity */
    uint32_t offset;       /* of the piece in the range */
    uint32_t length;       /* of the piece */
};

/* The first piece of `length` bytes at `offset`. */
static inline struct parity_piece parity_cut(const struct parity_write *w, uint32_t offset,
                                             uint32_t length) {
    const uint32_t range = (offset + STORAGE_PARITY_HEAD) / w->step;
    const uint32_t start = range ? range * w->step - STORAGE_PARITY_HEAD : 0;
    uint32_t end = (range + 1) * w->step - STORAGE_PARITY_HEAD;
    if (end > w->length)
        end = w->length;
    return (struct parity_piece){.range = range,
                                 .start = start,
                                 .bytes = end - start,
                                 .offset = offset - start,
                                 .length = length < end - offset ? length : end - offset};
}

enum parity_result {
    PARITY_ADDED,    /* nothing else to do */
    PARITY_COMPLETE, /* the accumulator is the caller's: write it out, then parity_written() */
    PARITY_AT_HOST,  /* the host has to add this piece */
    PARITY_DROPPED,  /* the write has failed */
    PARITY_REFUSED,  /* it fails now: the host has no room, either */
};

static inline uint32_t parity_take(struct storage_parity *s) {
    parity_lock(&s->free_lock);
    uint32_t i = s->free_accumulator;
    if (i)
        s->free_accumulator = parity_accumulator_at(s, i)->next;
    else if (s->used_accumulators < s->accumulators)
        i = ++s->used_accumulators;
    if (i && ++s->in_use > s->most_in_use)
        s->most_in_use = s->in_use;
    parity_unlock(&s->free_lock);
    return i;
}

/* Clears it, too: the next sum begins with zeros. */
static inline void parity_give(struct storage_parity *s, uint32_t i) {
    struct parity_accumulator *a = parity_accumulator_at(s, i);
    /* By eights, as far as the room goes. */
    uint32_t *at = a->word, *const end = at + (a->bytes + 3) / 4, *const room = at + s->room / 4;
    for (; at < end && room - at >= 8; at += 8)
        at[0] = at[1] = at[2] = at[3] = at[4] = at[5] = at[6] = at[7] = 0;
    while (at < end)
        *at++ = 0;
    parity_lock(&s->free_lock);
    a->next = s->free_accumulator;
    s->free_accumulator = i;
    s->in_use--;
    parity_unlock(&s->free_lock);
}

static inline struct parity_bucket *parity_bucket_of(struct storage_parity *s, uint32_t write,
                                                     uint32_t range) {
    return &parity_buckets(s)[(write * 0x9e3779b1u + range) & (s->buckets - 1)];
}

/* Under the lock of its bucket. */
static inline void parity_unlink(struct storage_parity *s, struct parity_bucket *b, uint32_t i) {
    uint32_t *link = &b->first;
    while (*link != i)
        link = &parity_accumulator_at(s, *link)->next;
    *link = parity_accumulator_at(s, i)->next;
}

/* Under the lock of its bucket: the accumulator of a range, a new one, or NONE. */
static inline uint32_t parity_find(struct storage_parity *s, struct parity_bucket *b,
                                   uint32_t write, const struct parity_piece *p) {
    struct parity_write *w = parity_write_at(s, write);
    uint32_t i = b->first;
    for (; i != STORAGE_PARITY_NONE; i = parity_accumulator_at(s, i)->next)
        if (parity_accumulator_at(s, i)->write == write &&
            parity_accumulator_at(s, i)->range == p->range)
            return i;
    if (__atomic_load_n(&w->at_host, __ATOMIC_RELAXED) ||
        (i = parity_take(s)) == STORAGE_PARITY_NONE) {
        __atomic_store_n(&w->at_host, 1, __ATOMIC_RELAXED);
        return STORAGE_PARITY_NONE;
    }
    struct parity_accumulator *a = parity_accumulator_at(s, i);
    a->write = write;
    a->range = p->range;
    a->bytes = p->bytes;
    a->got = 0;
    a->next = b->first;
    b->first = i;
    __atomic_fetch_add(&w->holds, 1, __ATOMIC_RELAXED);
    return i;
}

/* The host has taken pieces out of its queue. */
static inline void parity_host_took(struct storage_parity *s, uint32_t pieces) {
    __atomic_fetch_sub(&s->host_pieces, pieces, __ATOMIC_RELAXED);
}

/* Adds a piece (parity_cut) of one of the messages of a write, from any HPU. COMPLETE: *which is
 * the accumulator. */
static inline enum parity_result parity_add(struct storage_parity *s, uint32_t write,
                                            const struct parity_piece *p, const uint8_t *data,
                                            uint32_t *which) {
    struct parity_write *w = parity_write_at(s, write);
    struct parity_bucket *b = parity_bucket_of(s, write, p->range);
    if (__atomic_load_n(&w->failed, __ATOMIC_RELAXED))
        return PARITY_DROPPED;
    parity_lock(&b->lock);
    const uint32_t i = parity_find(s, b, write, p);
    if (i == STORAGE_PARITY_NONE) {
        parity_unlock(&b->lock);
        if (__atomic_fetch_add(&s->host_pieces, 1, __ATOMIC_RELAXED) < s->host_room)
            return PARITY_AT_HOST;
        parity_host_took(s, 1);
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
        return PARITY_REFUSED;
    }
    struct parity_accumulator *a = parity_accumulator_at(s, i);
    const uint32_t all = w->k * a->bytes; /* once we have added, it may soon be another range's */
    parity_unlock(&b->lock);
    parity_xor(a->word, p->offset, data, p->length);
    /* Who adds the last bytes sees what all others have added. */
    const int complete = __atomic_add_fetch(&a->got, p->length, __ATOMIC_ACQ_REL) == all;
    if (complete) {
        parity_lock(&b->lock);
        parity_unlink(s, b, i);
        parity_unlock(&b->lock);
    }
    *which = i;
    return complete ? PARITY_COMPLETE : PARITY_ADDED;
}

/* The accumulator is on the medium. */
static inline void parity_written(struct storage_parity *s, uint32_t i) {
    struct parity_accumulator *a = parity_accumulator_at(s, i);
    struct parity_write *w = parity_write_at(s, a->write);
    const uint32_t bytes = a->bytes;
    parity_give(s, i);
    __atomic_fetch_add(&s->sums_on_card, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&w->holds, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&w->left, bytes, __ATOMIC_RELEASE);
}

/* ---- Writes ---- */

/* All accumulators of a write go back; nobody adds to them. */
static inline void parity_discard(struct storage_parity *s, uint32_t write) {
    struct parity_write *w = parity_write_at(s, write);
    for (uint32_t n = 0; n < s->buckets && w->holds; n++) {
        struct parity_bucket *b = &parity_buckets(s)[n];
        parity_lock(&b->lock);
        uint32_t i = b->first, next;
        for (; i != STORAGE_PARITY_NONE; i = next) {
            struct parity_accumulator *a = parity_accumulator_at(s, i);
            next = a->next;
            if (a->write == write) {
                parity_unlink(s, b, i);
                parity_give(s, i);
                w->holds--;
            }
        }
        parity_unlock(&b->lock);
    }
}

static inline struct parity_bucket *parity_bucket_of_write(struct storage_parity *s,
                                                           uint32_t client, uint32_t request) {
    return &parity_buckets(s)[(client * 0x9e3779b1u + request) & (s->buckets - 1)];
}

/* Under the lock of its bucket. */
static inline void parity_unlink_write(struct storage_parity *s, struct parity_bucket *b,
                                       uint32_t write) {
    uint32_t *link = &b->first_write;
    while (*link != write)
        link = &parity_write_at(s, *link)->next;
    *link = parity_write_at(s, write)->next;
    parity_write_at(s, write)->in_use = 0;
}

/* The record of a write that was unlinked. */
static inline void parity_forget(struct storage_parity *s, uint32_t write) {
    struct parity_write *w = parity_write_at(s, write);
    parity_discard(s, write);
    w->generation++;
    parity_lock(&s->free_lock);
    w->next = s->free_write;
    s->free_write = write;
    parity_unlock(&s->free_lock);
}

/* Gives up writes that have no message under way and have been waiting for others for too long; at
 * most once per tick of the clock. */
static inline void parity_sweep(struct storage_parity *s, uint32_t now) {
    parity_lock(&s->sweep_lock); /* who comes meanwhile finds what was given up */
    for (uint32_t i = 1; s->swept != now && i <= s->used_writes; i++) {
        struct parity_write *w = parity_write_at(s, i);
        if (!__atomic_load_n(&w->in_use, __ATOMIC_ACQUIRE))
            continue;
        struct parity_bucket *b = parity_bucket_of_write(s, w->client, w->request_low);
        parity_lock(&b->lock);
        /* It may have become another's meanwhile: then its bucket is another, too, or it is new. */
        const int old = w->in_use && b == parity_bucket_of_write(s, w->client, w->request_low) &&
                        w->begun == w->ended && now - w->last_use > s->oldest;
        if (old)
            parity_unlink_write(s, b, i);
        parity_unlock(&b->lock);
        if (old) {
            __atomic_fetch_add(&s->failed_writes, 1, __ATOMIC_RELAXED);
            parity_forget(s, i);
        }
    }
    s->swept = now;
    parity_unlock(&s->sweep_lock);
}

/* What a message says of its write. */
struct parity_request {
    uint64_t request;
    uint32_t client, virtual_rank, k, data_index;
    uint32_t length, at; /* of the parity; where it begins on the medium */
    uint32_t step;       /* of a range: bytes of a packet without tag */
    uint32_t to_host;    /* the card is behind: sums are the host's */
    uint32_t session[2]; /* as in parity_write */
};

static inline int parity_is_same(const struct parity_write *w, const struct parity_request *q) {
    return w->client == q->client && w->request_low == (uint32_t)q->request &&
           w->request_high == (uint32_t)(q->request >> 32) && w->virtual_rank == q->virtual_rank;
}

static inline uint32_t parity_new_write(struct storage_parity *s, struct parity_bucket *b,
                                        const struct parity_request *q) {
    parity_lock(&s->free_lock);
    uint32_t i = s->free_write;
    if (i)
        s->free_write = parity_write_at(s, i)->next;
    else if (s->used_writes < s->writes)
        i = ++s->used_writes;
    parity_unlock(&s->free_lock);
    if (i == STORAGE_PARITY_NONE)
        return i;
    struct parity_write *w = parity_write_at(s, i);
    w->failed = 0;
    w->at_host = q->to_host != 0;
    w->k = (uint8_t)q->k;
    w->virtual_rank = (uint8_t)q->virtual_rank;
    w->begun = w->ended = 0;
    w->client = q->client;
    w->session[0] = q->session[0];
    w->session[1] = q->session[1];
    w->request_low = (uint32_t)q->request;
    w->request_high = (uint32_t)(q->request >> 32);
    w->length = w->left = q->length;
    w->at = q->at;
    w->step = q->step < s->room ? q->step : s->room;
    w->holds = 0;
    w->next = b->first_write;
    b->first_write = i;
    __atomic_store_n(&w->in_use, 1, __ATOMIC_RELEASE);
    return i;
}

/* A message begins. The number of its write; NONE with *mismatch: it contradicts another message of
 * its write, or that message was there already; NONE without: there is no record for it. */
static inline uint32_t parity_begin(struct storage_parity *s, const struct parity_request *q,
                                    uint32_t now, int *mismatch) {
    struct parity_bucket *b = parity_bucket_of_write(s, q->client, (uint32_t)q->request);
    const uint16_t bit = (uint16_t)(1u << q->data_index);
    *mismatch = 0;
    parity_lock(&b->lock);
    uint32_t i = b->first_write;
    while (i != STORAGE_PARITY_NONE && !parity_is_same(parity_write_at(s, i), q))
        i = parity_write_at(s, i)->next;
    if (i == STORAGE_PARITY_NONE)
        i = parity_new_write(s, b, q);
    if (i != STORAGE_PARITY_NONE) {
        struct parity_write *w = parity_write_at(s, i);
        *mismatch =
            w->k != q->k || w->length != q->length || w->at != q->at || (w->begun & bit) != 0;
        if (!*mismatch) {
            w->begun |= bit;
            w->last_use = now;
        }
    }
    parity_unlock(&b->lock);
    return *mismatch ? STORAGE_PARITY_NONE : i;
}

enum parity_state { PARITY_OPEN, PARITY_DURABLE, PARITY_FAILED };

/* Under the lock of its bucket, which it releases. */
static inline enum parity_state parity_decide(struct storage_parity *s, struct parity_bucket *b,
                                              uint32_t write) {
    struct parity_write *w = parity_write_at(s, write);
    const uint32_t all = (1u << w->k) - 1;
    enum parity_state state = PARITY_OPEN;
    if (__atomic_load_n(&w->failed, __ATOMIC_RELAXED))
        state = w->ended == w->begun ? PARITY_FAILED : PARITY_OPEN;
    else if (w->ended == all && __atomic_load_n(&w->left, __ATOMIC_ACQUIRE) == 0)
        state = PARITY_DURABLE;
    if (state != PARITY_OPEN)
        parity_unlink_write(s, b, write);
    parity_unlock(&b->lock);
    if (state == PARITY_FAILED)
        __atomic_fetch_add(&s->failed_writes, 1, __ATOMIC_RELAXED);
    if (state != PARITY_OPEN)
        parity_forget(s, write);
    return state;
}

/* A message has ended; `broken`: without all its packets. DURABLE: the parity is, answer. After
 * DURABLE and FAILED the number is not valid any more. */
static inline enum parity_state parity_end(struct storage_parity *s, uint32_t write,
                                           uint32_t data_index, int broken, uint32_t now) {
    struct parity_write *w = parity_write_at(s, write);
    struct parity_bucket *b = parity_bucket_of_write(s, w->client, w->request_low);
    parity_lock(&b->lock);
    w->ended |= (uint16_t)(1u << data_index);
    w->last_use = now;
    if (broken)
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
    return parity_decide(s, b, write);
}

/* The host has made so many bytes of sums durable. Of a write that is gone: nothing. Whom to answer
 * is in *client, *request and *virtual_rank. */
static inline enum parity_state parity_host_done(struct storage_parity *s, uint32_t write,
                                                 uint32_t generation, uint32_t bytes,
                                                 struct parity_request *whose) {
    if (write - 1 >= s->used_writes)
        return PARITY_OPEN;
    struct parity_write *w = parity_write_at(s, write);
    struct parity_bucket *b = parity_bucket_of_write(s, w->client, w->request_low);
    parity_lock(&b->lock);
    if (!w->in_use || w->generation != generation ||
        bytes > __atomic_load_n(&w->left, __ATOMIC_RELAXED)) {
        parity_unlock(&b->lock);
        return PARITY_OPEN;
    }
    *whose = (struct parity_request){.request = w->request_low | (uint64_t)w->request_high << 32,
                                     .client = w->client,
                                     .virtual_rank = w->virtual_rank,
                                     .length = w->length,
                                     .at = w->at,
                                     .session = {w->session[0], w->session[1]}};
    __atomic_fetch_add(&s->sums_at_host, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&w->left, bytes, __ATOMIC_RELEASE);
    return parity_decide(s, b, write);
}

/* ---- To the host ---- */

/* A piece that the host has to add is a put whose match bits and header data say all of it. */
#define STORAGE_SUM 0x57u /* lowest byte of the match bits; the others are ignored */

static inline uint64_t parity_sum_bits(const struct parity_write *w, uint32_t write) {
    return STORAGE_SUM | (uint64_t)write << 8 | (uint64_t)w->generation << 24 |
           (uint64_t)w->k << 40;
}

static inline uint64_t parity_sum_data(const struct parity_write *w, const struct parity_piece *p) {
    return w->at + p->start + ((uint64_t)p->bytes << 32) + ((uint64_t)p->offset << 48);
}

#endif
