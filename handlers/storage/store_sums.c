#include "store_sums.h"

#include <stdlib.h>
#include <string.h>

#include "storage_parity.h"

/* One sum: chained in the bucket of its address and in the order of their last use, which is that
 * of `last_use` too. */
struct entry {
    struct entry *next; /* in its bucket, or of the free ones */
    struct entry *older, *newer;
    uint32_t at, bytes, room;
    uint32_t write, generation;
    uint32_t last_use;
    uint64_t left; /* bytes to be added: k times as many as the sum has, at first */
    uint8_t *data;
};

#define BUCKETS 256u

struct store_sums {
    uint32_t count, most;
    struct entry *bucket[BUCKETS], *free;
    struct entry *oldest, *newest;
    struct entry entry[];
};

struct store_sums *store_sums_new(uint32_t most) {
    struct store_sums *s = calloc(1, sizeof *s + most * sizeof(struct entry));
    if (!s)
        return NULL;
    s->most = most;
    for (uint32_t i = 0; i < most; i++) {
        s->entry[i].next = s->free;
        s->free = &s->entry[i];
    }
    return s;
}

void store_sums_free(struct store_sums *s) {
    if (!s)
        return;
    for (uint32_t i = 0; i < s->most; i++)
        free(s->entry[i].data);
    free(s);
}

uint32_t store_sums_count(const struct store_sums *s) {
    return s->count;
}

static struct entry **bucket_of(struct store_sums *s, uint32_t write, uint32_t at) {
    return &s->bucket[(at * 0x9e3779b1u >> 16 ^ write) % BUCKETS];
}

static void unlink_age(struct store_sums *s, struct entry *e) {
    *(e->older ? &e->older->newer : &s->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &s->newest) = e->older;
}

static void link_newest(struct store_sums *s, struct entry *e) {
    e->newer = NULL;
    e->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = e;
    s->newest = e;
}

static void drop(struct store_sums *s, struct entry *e) {
    struct entry **link = bucket_of(s, e->write, e->at);
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    unlink_age(s, e);
    e->next = s->free;
    s->free = e;
    s->count--;
}

static struct entry *find(struct store_sums *s, const struct store_sum *key) {
    struct entry *e = *bucket_of(s, key->write, key->at), *next;
    for (; e; e = next) {
        next = e->next;
        if (e->write != key->write || e->at != key->at)
            continue;
        if (e->generation == key->generation)
            return e;
        drop(s, e); /* the record has become another write's */
    }
    return NULL;
}

static struct entry *add_sum(struct store_sums *s, const struct store_sum *key, uint32_t k,
                             uint32_t now, uint32_t oldest) {
    while (!s->free && s->oldest && now - s->oldest->last_use > oldest)
        drop(s, s->oldest);
    struct entry *e = s->free;
    if (!e)
        return NULL;
    if (e->room < key->bytes) {
        uint8_t *data = realloc(e->data, key->bytes);
        if (!data)
            return NULL;
        e->data = data;
        e->room = key->bytes;
    }
    s->free = e->next;
    memset(e->data, 0, key->bytes);
    e->at = key->at;
    e->bytes = key->bytes;
    e->write = key->write;
    e->generation = key->generation;
    e->left = (uint64_t)k * key->bytes;
    struct entry **bucket = bucket_of(s, e->write, e->at);
    e->next = *bucket;
    *bucket = e;
    link_newest(s, e);
    s->count++;
    return e;
}

enum store_sums_result store_sums_add(struct store_sums *s, uint64_t match_bits, uint64_t hdr_data,
                                      const uint8_t *data, uint64_t bytes, uint32_t now,
                                      uint32_t oldest, struct store_sum *sum) {
    const uint32_t k = match_bits >> 40 & 0xff, offset = (uint32_t)(hdr_data >> 48);
    *sum = (struct store_sum){.at = (uint32_t)hdr_data,
                              .bytes = hdr_data >> 32 & 0xffff,
                              .write = match_bits >> 8 & 0xffff,
                              .generation = match_bits >> 24 & 0xffff};
    if (!k || !bytes || offset > sum->bytes || bytes > sum->bytes - offset)
        return STORE_SUM_REFUSED;
    struct entry *e = find(s, sum);
    if (!e)
        e = add_sum(s, sum, k, now, oldest);
    if (!e || e->bytes != sum->bytes || bytes > e->left)
        return STORE_SUM_REFUSED;
    for (uint64_t i = 0; i < bytes; i++)
        e->data[offset + i] ^= data[i];
    e->left -= bytes;
    e->last_use = now;
    unlink_age(s, e);
    link_newest(s, e);
    if (e->left)
        return STORE_SUM_OPEN;
    sum->data = e->data;
    drop(s, e);
    return STORE_SUM_COMPLETE;
}
