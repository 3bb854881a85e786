/* Which entry a message meets, and which unexpected header an entry.
 *
 * A list is in order, and the first entry that matches takes the message. Entries that ignore the
 * same match bits and the same parts of the source form a group; within a group an entry is found
 * by a key made of all that it does not ignore. A message makes one look-up per group and takes the
 * entry that came first: with programs using a handful of masks, a list of thousands costs as much
 * as a short one. Entries beyond LIST_GROUPS groups stand in none and are tried in order.
 *
 * Headers have no masks, so an entry without any is looked up by key, and any other walks them. */
#include "nic/portals_private.h"

#include <stdlib.h>

#include "base/rng.h"

/* Parts of the source that an entry ignores. */
enum { IGNORE_NID = 1, IGNORE_PID = 2, IGNORE_ALL = 3 };

enum { LINE = 64 }; /* of the cache */

static uint8_t ignored_id(const struct portals_entry *e) {
    if (e->ni->options & PTL_NI_LOGICAL)
        return e->match_id.rank == PTL_RANK_ANY ? IGNORE_ALL : 0;
    return (uint8_t)((e->match_id.phys.nid == PTL_NID_ANY ? IGNORE_NID : 0) |
                     (e->match_id.phys.pid == PTL_PID_ANY ? IGNORE_PID : 0));
}

static inline __attribute__((always_inline)) bool
same_source(const struct portals_entry *e, struct nic_address source, uint32_t rank) {
    if (e->ni->options & PTL_NI_LOGICAL)
        return e->match_id.rank == PTL_RANK_ANY || e->match_id.rank == rank;
    return (e->match_id.phys.nid == PTL_NID_ANY || e->match_id.phys.nid == source.nid) &&
           (e->match_id.phys.pid == PTL_PID_ANY || e->match_id.phys.pid == source.pid);
}

static inline __attribute__((always_inline)) bool matches(const struct portals_entry *e,
                                                          const struct nic_message *m) {
    uint64_t offset;
    if (!e->is_matching)
        return true;
    return !((e->match_bits ^ m->match_bits) & ~e->ignore_bits) &&
           same_source(e, m->source, m->source_rank) &&
           (!(e->options & PTL_ME_NO_TRUNCATE) || p4_entry_room(e, m, &offset) >= m->length);
}

/* The same of an entry of this group, which has told what it ignores. */
static inline __attribute__((always_inline)) bool
matches_in_group(const struct portals_list_group *group, const struct portals_entry *e,
                 const struct nic_message *m) {
    uint64_t offset;
    if ((e->match_bits ^ m->match_bits) & ~group->ignore_bits)
        return false;
    if (group->ignore_id != IGNORE_ALL && !same_source(e, m->source, m->source_rank))
        return false;
    return !(e->options & PTL_ME_NO_TRUNCATE) || p4_entry_room(e, m, &offset) >= m->length;
}

/* ---- The index ----
 * Chains, and not base/hash_table.h: entries of one key stand in it, in order, each leaves it
 * without a search, and where there is no memory for more buckets the chains get longer. */

static uint64_t mix(uint64_t a, uint64_t b) {
    return rng_mix(a ^ rng_mix(b + 0x9e3779b97f4a7c15ull));
}

static __attribute__((noinline)) uint64_t source_key(const struct portals_list_group *group,
                                                     struct nic_address source) {
    return mix(group->ignore_id & IGNORE_NID ? 0 : source.nid,
               group->ignore_id & IGNORE_PID ? 0 : source.pid);
}

static inline uint64_t spread(uint64_t key) {
    key *= 0x9e3779b97f4a7c15ull;
    return key ^ key >> 32;
}

/* A message pays for it once per group, so it is one multiplication; what two keys share is told
 * apart by `matches`. */
static inline uint64_t logical_key(const struct portals_list_group *group, uint64_t bits,
                                   uint32_t rank) {
    uint64_t key = (bits & ~group->ignore_bits) ^ group->salt;
    return spread(group->ignore_id ? key : key + ((uint64_t)rank << 32 ^ rank));
}

static uint64_t key_of(const struct portals_ni *ni, const struct portals_list_group *group,
                       uint64_t bits, struct nic_address source, uint32_t rank) {
    if (ni->options & PTL_NI_LOGICAL)
        return logical_key(group, bits, rank);
    return spread(((bits & ~group->ignore_bits) ^ group->salt) + source_key(group, source));
}

/* Doubles a table and spreads its chains, which stay in order. False: no memory. */
#define GROW(function, type)                                                                       \
    static bool function(struct zone *zone, struct portals_bucket **buckets, uint32_t *count) {    \
        uint32_t wider = *count ? *count * 2 : 4;                                                  \
        struct portals_bucket *table = zone_take_clear(zone, wider * sizeof *table);               \
        if (!table)                                                                                \
            return false;                                                                          \
        for (uint32_t i = 0; i < *count; i++)                                                      \
            for (type *at = (*buckets)[i].first, *next; at; at = next) {                           \
                next = at->chain_after;                                                            \
                struct portals_bucket *b = &table[at->key & (wider - 1)];                          \
                at->chain_before = b->last;                                                        \
                at->chain_after = NULL;                                                            \
                if (b->last)                                                                       \
                    ((type *)b->last)->chain_after = at;                                           \
                else                                                                               \
                    b->first = at;                                                                 \
                b->last = at;                                                                      \
            }                                                                                      \
        zone_give(zone, *buckets, *count * sizeof *table);                                         \
        *buckets = table;                                                                          \
        *count = wider;                                                                            \
        return true;                                                                               \
    }
GROW(grow_entries, struct portals_entry)
GROW(grow_headers, struct portals_header)

/* ---- Entries ---- */

/* The group of an entry that joins the list; NULL: there are too many. */
static struct portals_list_group *join_group(struct portals_list *list,
                                             const struct portals_entry *e) {
    uint8_t ignore_id = ignored_id(e);
    for (uint32_t left = list->groups; left; left &= left - 1) {
        struct portals_list_group *g = p4_group_at(list, (uint32_t)__builtin_ctz(left));
        if (g->ignore_bits == e->ignore_bits && g->ignore_id == ignore_id) {
            g->entries++;
            return g;
        }
    }
    uint32_t i = (uint32_t)__builtin_ctz(~list->groups);
    if (i && !list->more)
        list->more = zone_take_clear(e->ni->p->config.zone, LIST_MORE_BYTES);
    if (i >= LIST_GROUPS || (i && !list->more))
        return NULL;
    list->groups |= 1u << i;
    struct portals_list_group *g = p4_group_at(list, i);
    *g = (struct portals_list_group){
        .ignore_bits = e->ignore_bits,
        .ignore_id = ignore_id,
        .entries = 1,
        .salt = mix((uint64_t)e->pt->index << 1 | e->list, e->ignore_bits + ignore_id)};
    return g;
}

static void leave_group(struct portals_list *list, struct portals_list_group *group) {
    if (!--group->entries)
        list->groups &= ~(1u << (group == &list->one ? 0 : group - list->more + 1));
}

/* Where an entry is looked for: its bucket, or with the others of its list. */
static struct portals_bucket *bucket_of(const struct portals_entry *e) {
    if (!e->group)
        return &e->pt->list[e->list].others;
    return &e->ni->entry_bucket[e->key & (e->ni->entry_buckets - 1)];
}

/* Into its bucket, before all that came later. */
static void index_entry(struct portals_entry *e) {
    struct portals_bucket *b = bucket_of(e);
    struct portals_entry *at = b->last;
    while (at && at->order > e->order)
        at = at->chain_before;
    e->chain_before = at;
    e->chain_after = at ? at->chain_after : b->first;
    if (e->chain_after)
        e->chain_after->chain_before = e;
    else
        b->last = e;
    if (at)
        at->chain_after = e;
    else
        b->first = e;
}

static void place(struct portals_entry *e, struct portals_entry *at) {
    struct portals_list *list = &e->pt->list[e->list];
    e->before = at;
    e->after = at ? at->after : list->first;
    if (e->after)
        e->after->before = e;
    else
        list->last = e;
    if (at)
        at->after = e;
    else
        list->first = e;
    list->length++;
    e->ni->p->changes++;
    e->linked = true;
    if (!e->is_matching)
        return;
    e->group = join_group(list, e);
    struct nic_address source = {e->match_id.phys.nid, e->match_id.phys.pid};
    if (e->group)
        e->key = key_of(e->ni, e->group, e->match_bits, source, e->match_id.rank);
    index_entry(e);
}

bool p4_match_insert(struct portals_entry *e) {
    struct portals_ni *ni = e->ni;
    if (e->is_matching && ni->entries.used > ni->entry_buckets &&
        !grow_entries(ni->p->config.zone, &ni->entry_bucket, &ni->entry_buckets) &&
        !ni->entry_buckets)
        return false;
    struct portals_entry *at = e->pt->list[e->list].last;
    while (at && at->order > e->order)
        at = at->before;
    place(e, at);
    return true;
}

static void unindex_entry(struct portals_entry *e) {
    struct portals_bucket *b = bucket_of(e);
    if (e->chain_before)
        e->chain_before->chain_after = e->chain_after;
    else
        b->first = e->chain_after;
    if (e->chain_after)
        e->chain_after->chain_before = e->chain_before;
    else
        b->last = e->chain_before;
}

void p4_match_remove(struct portals_entry *e) {
    struct portals_list *list = &e->pt->list[e->list];
    if (e->before)
        e->before->after = e->after;
    else
        list->first = e->after;
    if (e->after)
        e->after->before = e->before;
    else
        list->last = e->before;
    list->length--;
    e->ni->p->changes++;
    e->linked = false;
    if (!e->is_matching)
        return;
    unindex_entry(e);
    if (e->group)
        leave_group(list, e->group);
}

static inline __attribute__((always_inline)) struct portals_entry *
match_key(const struct portals_ni *ni, const struct portals_list_group *group,
          const struct nic_message *m, uint64_t key) {
    struct portals_entry *e = ni->entry_bucket[key & (ni->entry_buckets - 1)].first;
    while (e && !(e->key == key && e->group == group && matches_in_group(group, e, m)))
        e = e->chain_after;
    return e;
}

/* With the addresses of the source: apart, so that the others need not save registers. */
static __attribute__((noinline)) struct portals_entry *
match_physical(const struct portals_ni *ni, const struct portals_list_group *group,
               const struct nic_message *m) {
    return match_key(ni, group, m, key_of(ni, group, m->match_bits, m->source, m->source_rank));
}

/* The first of a group. */
static inline struct portals_entry *match_group(const struct portals_ni *ni,
                                                const struct portals_list_group *group,
                                                const struct nic_message *m) {
    if (!(ni->options & PTL_NI_LOGICAL))
        return match_physical(ni, group, m);
    return match_key(ni, group, m, logical_key(group, m->match_bits, m->source_rank));
}

static __attribute__((noinline)) struct portals_entry *match_many(const struct portals_ni *ni,
                                                                  const struct portals_list *list,
                                                                  const struct nic_message *m) {
    struct portals_entry *best = NULL;
    for (uint32_t left = list->groups; left; left &= left - 1) {
        struct portals_entry *e =
            match_group(ni, p4_group_at(list, (uint32_t)__builtin_ctz(left)), m);
        if (e && (!best || e->order < best->order))
            best = e;
    }
    for (struct portals_entry *e = list->others.first; e; e = e->chain_after) {
        if (best && best->order < e->order)
            break;
        if (matches(e, m))
            return e;
    }
    return best;
}

static inline bool has_one_mask(const struct portals_list *list) { /* most have */
    return list->groups == 1 && !list->others.first;
}

static inline __attribute__((always_inline)) struct portals_entry *
match_message(const struct portals_ni *ni, const struct portals_list *list,
              const struct nic_message *m) {
    if (!(ni->options & PTL_NI_MATCHING))
        return list->first;
    if (has_one_mask(list))
        return match_group(ni, &list->one, m);
    return list->first ? match_many(ni, list, m) : NULL;
}

struct portals_entry *p4_match_message(const struct portals_ni *ni, const struct portals_list *list,
                                       const struct nic_message *m) {
    return match_message(ni, list, m);
}

/* What a message finds that has matched this entry, or none. */
static inline __attribute__((always_inline)) bool
plain_at(struct portals_entry *e, const struct nic_message *m, struct portals_plain *plain) {
    plain->met = e;
    if (!e || !e->is_plain) {
        if (e) /* what is behind what was looked at */
            for (uint32_t i = LINE; i < sizeof *e; i += LINE)
                __builtin_prefetch((const char *)e + i);
        return false;
    }
    uint64_t length = e->memory.length;
    uint64_t room = m->remote_offset < length ? length - m->remote_offset : 0;
    plain->mlength = m->length < room ? m->length : room;
    plain->data = (uint8_t *)((uintptr_t)e->memory.start + m->remote_offset);
    plain->entry = e;
    return true;
}

static __attribute__((noinline)) bool plain_otherwise(const struct portals_ni *ni,
                                                      const struct portals_list *list,
                                                      const struct nic_message *m,
                                                      struct portals_plain *plain) {
    return plain_at(p4_match_message(ni, list, m), m, plain);
}

/* Most lists have one mask, and ranks: what these need is looked for without a call, if it is the
 * first of its bucket. Who agrees with it in group, bits and rank has its key. */
bool portals_plain(struct portals *p, const struct nic_message *m, struct portals_plain *plain) {
    const unsigned matching_ranks = PTL_NI_MATCHING | PTL_NI_LOGICAL;
    const struct portals_ni *ni = p->ni[p4_interface_number(m->interface)];
    plain->entry = plain->met = NULL;
    plain->changes = p->changes;
    if (!ni || ni->closing || m->ack_req > PTL_OC_ACK_REQ)
        return false;
    const struct portals_pt *pt = p4_table_entry(ni, m->pt_index);
    if (!pt || !pt->enabled)
        return false;
    const struct portals_list *list = &pt->list[PTL_PRIORITY_LIST];
    if ((ni->options & matching_ranks) != matching_ranks || !has_one_mask(list))
        return plain_otherwise(ni, list, m, plain);
    const struct portals_list_group *group = &list->one;
    uint64_t key = logical_key(group, m->match_bits, m->source_rank);
    struct portals_entry *e = ni->entry_bucket[key & (ni->entry_buckets - 1)].first;
    if (!e || e->group != group || e->options & PTL_ME_NO_TRUNCATE ||
        (e->match_bits ^ m->match_bits) & ~group->ignore_bits ||
        (!group->ignore_id && e->match_id.rank != m->source_rank))
        return plain_otherwise(ni, list, m, plain);
    return plain_at(e, m, plain);
}

bool portals_plain_holds(const struct portals *p, const struct portals_plain *plain) {
    return plain->changes == p->changes;
}

/* ---- Ahead of a message ---- */

void portals_prefetch_interface(const struct portals *p) {
    for (uint32_t i = 0; i < PORTALS_INTERFACES; i++)
        if (p->ni[i]) {
            __builtin_prefetch(p->ni[i]);
            __builtin_prefetch((const char *)p->ni[i] + LINE);
        }
}

void portals_prefetch_table(const struct portals *p) {
    for (uint32_t i = 0; i < PORTALS_INTERFACES; i++)
        if (p->ni[i] && p->ni[i]->only) {
            __builtin_prefetch(p->ni[i]->only);
            __builtin_prefetch((const char *)p->ni[i]->only + LINE);
        }
}

/* Of a list with one mask, where the entry would be looked for; NULL: not there. */
static inline const struct portals_bucket *bucket_ahead(const struct portals *p,
                                                        const struct nic_message *m) {
    const struct portals_ni *ni = p->ni[p4_interface_number(m->interface)];
    const struct portals_pt *pt = ni ? p4_table_entry(ni, m->pt_index) : NULL;
    if (!pt || !ni->entry_buckets || !(ni->options & PTL_NI_LOGICAL))
        return NULL;
    uint64_t key = logical_key(&pt->list[PTL_PRIORITY_LIST].one, m->match_bits, m->source_rank);
    return &ni->entry_bucket[key & (ni->entry_buckets - 1)];
}

void portals_prefetch_bucket(const struct portals *p, const struct nic_message *m) {
    const struct portals_bucket *b = bucket_ahead(p, m);
    if (b)
        __builtin_prefetch(b);
}

void portals_prefetch_entry(const struct portals *p, const struct nic_message *m) {
    const struct portals_bucket *b = bucket_ahead(p, m);
    const char *e = b ? b->first : NULL;
    for (uint32_t i = 0; e && i < sizeof(struct portals_entry); i += LINE)
        __builtin_prefetch(e + i, 1);
}

void portals_prefetch_ending(const struct portals_arrival *a) {
    if (a->entry)
        __builtin_prefetch(a->entry->ct.at, 1);
}

/* ---- Headers ---- */

static uint64_t header_key(const struct portals_pt *pt, uint64_t bits) {
    return mix(pt->index, bits);
}

bool p4_header_insert(struct portals_ni *ni, struct portals_pt *pt, struct portals_header *h) {
    if (ni->headers.used > ni->header_buckets &&
        !grow_headers(ni->p->config.zone, &ni->header_bucket, &ni->header_buckets) &&
        !ni->header_buckets)
        return false;
    h->before = pt->last;
    if (pt->last)
        pt->last->after = h;
    else
        pt->first = h;
    pt->last = h;
    h->key = header_key(pt, h->event.match_bits);
    struct portals_bucket *b = &ni->header_bucket[h->key & (ni->header_buckets - 1)];
    h->chain_before = b->last;
    if (b->last)
        ((struct portals_header *)b->last)->chain_after = h;
    else
        b->first = h;
    b->last = h;
    h->listed = true;
    return true;
}

void p4_header_remove(struct portals_ni *ni, struct portals_pt *pt, struct portals_header *h) {
    struct portals_bucket *b = &ni->header_bucket[h->key & (ni->header_buckets - 1)];
    if (h->before)
        h->before->after = h->after;
    else
        pt->first = h->after;
    if (h->after)
        h->after->before = h->before;
    else
        pt->last = h->before;
    if (h->chain_before)
        h->chain_before->chain_after = h->chain_after;
    else
        b->first = h->chain_after;
    if (h->chain_after)
        h->chain_after->chain_before = h->chain_before;
    else
        b->last = h->chain_before;
    h->listed = false;
}

static bool header_matches(const struct portals_entry *e, const struct portals_header *h) {
    struct nic_message m = {.match_bits = h->event.match_bits,
                            .source = h->source,
                            .source_rank = h->source_rank,
                            .length = h->length,
                            .remote_offset = h->event.remote_offset};
    return matches(e, &m);
}

struct portals_header *p4_header_find(const struct portals_entry *e,
                                      const struct portals_header *after) {
    const struct portals_ni *ni = e->ni;
    struct portals_header *h;
    if (!e->is_matching || e->ignore_bits || !ni->header_buckets) {
        for (h = after ? after->after : e->pt->first; h; h = h->after)
            if (header_matches(e, h))
                return h;
        return NULL;
    }
    uint64_t key = header_key(e->pt, e->match_bits);
    h = after ? after->chain_after : ni->header_bucket[key & (ni->header_buckets - 1)].first;
    for (; h; h = h->chain_after)
        if (h->key == key && h->event.pt_index == e->pt->index && header_matches(e, h))
            return h;
    return NULL;
}

const char *p4_match_check(const struct portals_ni *ni, const struct portals_pt *pt) {
    for (uint8_t l = 0; l < 2; l++) {
        const struct portals_list *list = &pt->list[l];
        uint32_t length = 0, indexed = 0;
        const struct portals_entry *before = NULL;
        for (const struct portals_entry *e = list->first; e; before = e, e = e->after) {
            if (e->before != before || !e->linked || e->pt != pt || e->list != l)
                return "an entry's links are wrong";
            if (before && before->order >= e->order)
                return "a list is out of order";
            if (e->expired)
                return "an expired entry is linked";
            length++;
        }
        for (uint32_t left = list->groups; left; left &= left - 1) {
            uint32_t entries = p4_group_at(list, (uint32_t)__builtin_ctz(left))->entries;
            if (!entries)
                return "a group without entries is in use";
            indexed += entries;
        }
        for (const struct portals_entry *e = list->others.first; e; e = e->chain_after)
            indexed++;
        if (length != list->length || list->last != before)
            return "a list's length is wrong";
        if (ni->options & PTL_NI_MATCHING && indexed != length)
            return "a list's groups do not add up";
    }
    for (const struct portals_header *h = pt->first, *before = NULL; h; before = h, h = h->after)
        if (h->before != before || !h->listed || h->entry->pt != pt || !h->entry->headers)
            return "an unexpected header is wrong";
    return NULL;
}
