/* Design notes: matching in constant time.
 *
 * Whatever waits is a node in one or more first-in-first-out lists; a hash table finds a list by
 * its key (rank, kind of list, source, tag). A posted receive may hold ANY as its source or tag,
 * and is filed under ANY as if that were a value. An unexpected message has a known source; its tag
 * may be ANY, which fits every receive.
 *
 *   what arrives                  looks at the first of
 *   message (s, t)                posted (s, t), (s, ANY), (ANY, t), (ANY, ANY)
 *   message (s, ANY)              posted by source s, by source ANY (any tag)
 *   receive (s, t)                unexpected (s, t), (s, ANY)
 *   receive (s, ANY)              unexpected by source s
 *   receive (ANY, t)              unexpected by tag t, by tag ANY
 *   receive (ANY, ANY)            all unexpected of the rank
 *
 * and takes the oldest. So at most four look-ups, whatever waits. The node leaves all its lists at
 * once, for which lists are doubly linked; an empty list leaves the table, which stays as small as
 * what waits.
 *
 * Without wildcards it is simpler still: of one (s, t) either receives wait or messages, never
 * both, so they share one list and every arrival is one look-up. Mostly one waits alone: then it
 * has no node, and its slot names the operation. The kind of list in the key says which. And
 * mostly a rank has one or two that wait: these are not in the table but *near*, in the rank's own
 * half of a cache line, where no hashing is needed to find them and ranks that are served one after
 * the other lie one after the other. What comes while something of the rank is in the table goes
 * there too; so of one (s, t) those that are near are older than those in the table. */
#include "sim/goal_match.h"

#include <stdlib.h>

#include "base/hash_table.h"
#include "base/pages.h"

enum list_kind {
    POSTED,
    POSTED_BY_SOURCE,
    UNEXPECTED,
    UNEXPECTED_BY_SOURCE,
    UNEXPECTED_BY_TAG,
    UNEXPECTED_ALL,
};

/* Without wildcards, bits of what stands in its place. */
enum { MESSAGES = 1, SEVERAL = 2, KIND_BITS = 7 };
/* Of a table in which nothing waits. */
enum { LEAST_SLOTS = 1024 };

struct link {
    uint32_t next, prev; /* the first's prev is the last; the last's next is 0 */
};

struct node {
    uint64_t age; /* lower is older */
    uint32_t op, source, tag;
    uint32_t message;  /* 1 for a message, 0 for a receive */
    struct link first; /* in list 0; while it is free, `next` is the next free one */
};

struct key {
    uint32_t rank_kind, source, tag;
};

struct slot {
    struct key key;
    uint32_t head; /* 0: empty; a node, or, of one that waits alone, its operation + 1 */
};

enum { NEAR = 2 };

struct near {
    uint32_t source[NEAR], tag[NEAR], op[NEAR]; /* oldest first */
    uint32_t further;                           /* of the rank in the table */
    uint8_t count, message[NEAR];
};

struct goal_match {
    struct near *near; /* per rank, without wildcards */
    uint32_t ranks;
    struct hash_table table;
    struct node *nodes; /* [1...]; 0 is none */
    struct link *links; /* in lists 1 to 3, with wildcards: [node * 3 + list - 1] */
    bool wildcards;
    uint32_t key_bits; /* of rank_kind that tell lists apart */
    uint32_t node_count, node_room, free_nodes;
    uint64_t next_age, unexpected;
    bool out_of_memory;
};

static inline struct key key_of(uint32_t rank, enum list_kind kind, uint32_t source, uint32_t tag) {
    return (struct key){rank << 3 | kind, source, tag};
}

static inline bool lists_holds(const struct goal_match *m, const struct slot *slot) {
    (void)m;
    return slot->head != 0;
}
static inline struct key lists_key(const struct goal_match *m, const struct slot *slot) {
    (void)m;
    return slot->key;
}
static inline uint64_t lists_hash(const struct goal_match *m, struct key key) {
    uint64_t rank_kind = key.rank_kind & m->key_bits;
    uint64_t h = (rank_kind << 32 | key.source) * 0x9e3779b97f4a7c15ull;
    return (h ^ h >> 32 ^ key.tag) * 0xd6e8feb86659fd93ull;
}
static inline bool lists_same(const struct goal_match *m, const struct slot *slot, struct key key) {
    return !((slot->key.rank_kind ^ key.rank_kind) & m->key_bits) &&
           slot->key.source == key.source && slot->key.tag == key.tag;
}
HASH_TABLE(lists, struct goal_match, struct slot, struct key);

static size_t slots_bytes(const struct goal_match *m) {
    return m->table.slots * sizeof(struct slot);
}

/* Moves what waits into so many slots; false: no memory. */
static bool set_slots(struct goal_match *m, uint64_t slots) {
    size_t had = slots_bytes(m);
    void *to = slots <= HASH_TABLE_MOST ? pages_new(slots * sizeof(struct slot)) : NULL;
    if (to)
        pages_free(lists_move(&m->table, m, to, (uint32_t)slots), had);
    return to != NULL;
}

struct goal_match *goal_match_new(bool wildcards, uint32_t ranks) {
    struct goal_match *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->wildcards = wildcards;
    m->key_bits = wildcards ? UINT32_MAX : ~(uint32_t)KIND_BITS;
    m->node_count = 1;
    m->ranks = ranks;
    if (!wildcards)
        m->near = pages_new(ranks * sizeof *m->near);
    if (!set_slots(m, LEAST_SLOTS) || (!wildcards && !m->near)) {
        goal_match_free(m);
        return NULL;
    }
    return m;
}

void goal_match_expect(struct goal_match *m, uint64_t receives) {
    uint64_t near = m->near ? (uint64_t)NEAR * m->ranks : 0;
    uint64_t slots = LEAST_SLOTS;
    while (slots < HASH_TABLE_MOST && receives > near && 16 * (receives - near) > 5 * slots)
        slots *= 2;
    if (slots > LEAST_SLOTS)
        (void)set_slots(m, slots); /* without memory for it, it grows */
}

void goal_match_free(struct goal_match *m) {
    if (!m)
        return;
    pages_free(m->near, m->ranks * sizeof *m->near);
    pages_free(m->table.slot, slots_bytes(m));
    pages_free(m->nodes, (size_t)m->node_room * sizeof *m->nodes);
    pages_free(m->links, (size_t)m->node_room * 3 * sizeof *m->links);
    free(m);
}

bool goal_match_out_of_memory(const struct goal_match *m) {
    return m->out_of_memory;
}
uint64_t goal_match_unexpected(const struct goal_match *m) {
    return m->unexpected;
}

uint64_t goal_match_bytes(const struct goal_match *m) {
    return slots_bytes(m) +
           (uint64_t)m->node_room * (sizeof *m->nodes + (m->wildcards ? 3 * sizeof *m->links : 0));
}

/* Where the first look-up begins. */
static inline const struct slot *home_slot(const struct goal_match *m, uint32_t rank,
                                           uint32_t source, uint32_t tag, bool message) {
    enum list_kind kind = message || !m->wildcards ? POSTED : UNEXPECTED;
    const struct slot *slots = m->table.slot;
    return &slots[lists_home(&m->table, m, key_of(rank, kind, source, tag))];
}

void goal_match_prefetch(const struct goal_match *m, uint32_t rank, uint32_t source, uint32_t tag,
                         bool message) {
    if (m->near)
        __builtin_prefetch(&m->near[rank]);
    if (m->table.used)
        __builtin_prefetch(home_slot(m, rank, source, tag, message));
}

uint32_t goal_match_peek(const struct goal_match *m, uint32_t rank, uint32_t source, uint32_t tag,
                         bool message) {
    if (m->wildcards)
        return GOAL_MATCH_ANY;
    const struct near *near = &m->near[rank];
    if (near->count && near->source[0] == source && near->tag[0] == tag)
        return near->op[0];
    if (!near->further)
        return near->count ? near->op[near->count - 1] : GOAL_MATCH_ANY;
    const struct slot *slot = home_slot(m, rank, source, tag, message);
    if (!slot->head || slot->key.rank_kind & SEVERAL)
        return GOAL_MATCH_ANY;
    return slot->head - 1;
}

/* Five sixteenths: linear probing then mostly looks at one slot, and closes no gap. */
static inline bool is_full(const struct goal_match *m, uint64_t used) {
    return 16 * used >= 5 * (uint64_t)m->table.slots;
}

static bool grow_slots(struct goal_match *m) {
    return set_slots(m, 2 * (uint64_t)m->table.slots);
}

static inline struct link *link_of(const struct goal_match *m, uint32_t node, uint32_t list) {
    return list == 0 ? &m->nodes[node].first : &m->links[(uint64_t)node * 3 + list - 1];
}

/* `slot` is where the key is, or would go. */
static void list_append(struct goal_match *m, struct slot *slot, struct key key, uint32_t node,
                        uint32_t list) {
    struct link *mine = link_of(m, node, list);
    mine->next = 0;
    if (!slot->head) {
        *slot = (struct slot){key, node};
        mine->prev = node;
        m->table.used++;
        return;
    }
    struct link *first = link_of(m, slot->head, list);
    mine->prev = first->prev;
    link_of(m, first->prev, list)->next = node;
    first->prev = node;
}

static void list_remove(struct goal_match *m, struct slot *slot, uint32_t node, uint32_t list) {
    struct link mine = *link_of(m, node, list);
    if (slot->head == node) {
        if (!mine.next) {
            lists_remove(&m->table, m, slot);
            return;
        }
        slot->head = mine.next;
        link_of(m, mine.next, list)->prev = mine.prev;
        return;
    }
    link_of(m, mine.prev, list)->next = mine.next;
    link_of(m, mine.next ? mine.next : slot->head, list)->prev = mine.prev;
}

/* ---- nodes ---- */

static bool grow_nodes(struct goal_match *m) {
    uint64_t room = m->node_room ? 2ull * m->node_room : 1024;
    if (room > UINT32_MAX)
        return false;
    if (m->wildcards) {
        struct link *links = pages_grow(m->links, (size_t)m->node_room * 3 * sizeof *links,
                                        room * 3 * sizeof *links);
        if (!links)
            return false;
        m->links = links;
    }
    struct node *nodes =
        pages_grow(m->nodes, (size_t)m->node_room * sizeof *nodes, room * sizeof *nodes);
    if (!nodes)
        return false; /* the links are larger than node_room says; nothing is used beyond it */
    m->nodes = nodes;
    m->node_room = (uint32_t)room;
    return true;
}

static inline uint32_t new_node(struct goal_match *m, bool message, uint32_t source, uint32_t tag,
                                uint32_t op) {
    uint32_t node = m->free_nodes;
    if (node)
        m->free_nodes = m->nodes[node].first.next;
    else if (m->node_count < m->node_room || grow_nodes(m))
        node = m->node_count++;
    else
        return 0;
    m->nodes[node] = (struct node){m->next_age++, op, source, tag, message, {0, 0}};
    return node;
}

static inline void free_node(struct goal_match *m, uint32_t node) {
    m->nodes[node].first.next = m->free_nodes;
    m->free_nodes = node;
}

/* ---- without wildcards ---- */

/* One more waits where some do: at the end of a list, which begins with the one that was alone. */
static bool wait_behind(struct goal_match *m, struct slot *slot, bool message, uint32_t op) {
    struct key key = slot->key;
    if (!(key.rank_kind & SEVERAL)) {
        uint32_t alone = new_node(m, message, key.source, key.tag, slot->head - 1);
        if (!alone)
            return false;
        key.rank_kind |= SEVERAL;
        slot->head = 0;
        m->table.used--;
        list_append(m, slot, key, alone, 0);
    }
    uint32_t node = new_node(m, message, key.source, key.tag, op);
    if (node)
        list_append(m, slot, key, node, 0);
    return node != 0;
}

/* Takes out the first that waits. */
static uint32_t take_first(struct goal_match *m, struct slot *slot) {
    uint32_t head = slot->head;
    if (!(slot->key.rank_kind & SEVERAL)) {
        lists_remove(&m->table, m, slot);
        return head - 1;
    }
    uint32_t op = m->nodes[head].op;
    list_remove(m, slot, head, 0);
    free_node(m, head);
    return op;
}

/* In the table; true if it has matched there. */
static bool match_further(struct goal_match *m, uint32_t rank, bool message, uint32_t source,
                          uint32_t tag, uint32_t op, struct goal_found *found) {
    if (is_full(m, (uint64_t)m->table.used + 1) && !grow_slots(m)) {
        m->out_of_memory = true;
        return false;
    }
    struct key key = key_of(rank, 0, source, tag);
    struct slot *slot = lists_slot(&m->table, m, key);
    if (slot->head && (slot->key.rank_kind & MESSAGES) != message) {
        *found = (struct goal_found){take_first(m, slot), source};
        m->near[rank].further--;
        return true;
    }
    if (!slot->head) {
        key.rank_kind |= message ? MESSAGES : 0;
        *slot = (struct slot){key, op + 1};
        m->table.used++;
    } else if (!wait_behind(m, slot, message, op)) {
        m->out_of_memory = true;
        return false;
    }
    m->near[rank].further++;
    return false;
}

static inline uint32_t take_near(struct near *near, uint32_t i) {
    uint32_t op = near->op[i];
    for (near->count--; i < near->count; i++) {
        near->source[i] = near->source[i + 1];
        near->tag[i] = near->tag[i + 1];
        near->op[i] = near->op[i + 1];
        near->message[i] = near->message[i + 1];
    }
    return op;
}

static inline bool match_exact(struct goal_match *m, uint32_t rank, bool message, uint32_t source,
                               uint32_t tag, uint32_t op, struct goal_found *found) {
    struct near *near = &m->near[rank];
    for (uint32_t i = 0; i < near->count; i++)
        if (near->source[i] == source && near->tag[i] == tag && near->message[i] != message) {
            *found = (struct goal_found){take_near(near, i), source};
            m->unexpected -= !message;
            return true;
        }
    if (near->count < NEAR && !near->further) {
        uint32_t i = near->count++;
        near->source[i] = source;
        near->tag[i] = tag;
        near->op[i] = op;
        near->message[i] = message;
    } else if (match_further(m, rank, message, source, tag, op, found)) {
        m->unexpected -= !message;
        return true;
    }
    m->unexpected += message;
    return false;
}

/* ---- with wildcards ---- */

/* The lists that a waiting receive or message of rank is in; returns how many. */
static inline uint32_t keys_of(uint32_t rank, bool message, uint32_t source, uint32_t tag,
                               struct key keys[4]) {
    keys[0] = key_of(rank, message ? UNEXPECTED : POSTED, source, tag);
    keys[1] = key_of(rank, message ? UNEXPECTED_BY_SOURCE : POSTED_BY_SOURCE, source, 0);
    if (!message)
        return 2;
    keys[2] = key_of(rank, UNEXPECTED_BY_TAG, 0, tag);
    keys[3] = key_of(rank, UNEXPECTED_ALL, 0, 0);
    return 4;
}

static void wait_in_lists(struct goal_match *m, uint32_t rank, bool message, uint32_t source,
                          uint32_t tag, uint32_t op) {
    struct key keys[4];
    uint32_t node = new_node(m, message, source, tag, op);
    if (!node || (is_full(m, (uint64_t)m->table.used + 4) && !grow_slots(m))) {
        m->out_of_memory = true;
        return;
    }
    uint32_t count = keys_of(rank, message, source, tag, keys);
    for (uint32_t i = 0; i < count; i++)
        list_append(m, lists_slot(&m->table, m, keys[i]), keys[i], node, i);
    m->unexpected += message;
}

static void leave_lists(struct goal_match *m, uint32_t rank, bool message, uint32_t node,
                        struct goal_found *found) {
    struct key keys[4];
    struct node *n = &m->nodes[node];
    *found = (struct goal_found){n->op, n->source};
    uint32_t count = keys_of(rank, message, n->source, n->tag, keys);
    for (uint32_t i = 0; i < count; i++)
        list_remove(m, lists_slot(&m->table, m, keys[i]), node, i);
    free_node(m, node);
    m->unexpected -= message;
}

/* The older of `best` and the first in the key's list. */
static inline uint32_t older(const struct goal_match *m, uint32_t best, struct key key) {
    uint32_t head = lists_slot(&m->table, m, key)->head;
    if (!head || (best && m->nodes[best].age < m->nodes[head].age))
        return best;
    return head;
}

bool goal_match_receive(struct goal_match *m, uint32_t rank, uint32_t source, uint32_t tag,
                        uint32_t op, struct goal_found *found) {
    uint32_t best = 0;
    if (!m->wildcards)
        return match_exact(m, rank, false, source, tag, op, found);
    if (source != GOAL_MATCH_ANY && tag != GOAL_MATCH_ANY) {
        best = older(m, best, key_of(rank, UNEXPECTED, source, tag));
        best = older(m, best, key_of(rank, UNEXPECTED, source, GOAL_MATCH_ANY));
    } else if (source != GOAL_MATCH_ANY) {
        best = older(m, best, key_of(rank, UNEXPECTED_BY_SOURCE, source, 0));
    } else if (tag != GOAL_MATCH_ANY) {
        best = older(m, best, key_of(rank, UNEXPECTED_BY_TAG, 0, tag));
        best = older(m, best, key_of(rank, UNEXPECTED_BY_TAG, 0, GOAL_MATCH_ANY));
    } else {
        best = older(m, best, key_of(rank, UNEXPECTED_ALL, 0, 0));
    }
    if (!best) {
        wait_in_lists(m, rank, false, source, tag, op);
        return false;
    }
    leave_lists(m, rank, true, best, found);
    return true;
}

bool goal_match_message(struct goal_match *m, uint32_t rank, uint32_t source, uint32_t tag,
                        uint32_t op, struct goal_found *found) {
    uint32_t best = 0;
    if (!m->wildcards)
        return match_exact(m, rank, true, source, tag, op, found);
    if (tag != GOAL_MATCH_ANY) {
        best = older(m, best, key_of(rank, POSTED, source, tag));
        best = older(m, best, key_of(rank, POSTED, source, GOAL_MATCH_ANY));
        best = older(m, best, key_of(rank, POSTED, GOAL_MATCH_ANY, tag));
        best = older(m, best, key_of(rank, POSTED, GOAL_MATCH_ANY, GOAL_MATCH_ANY));
    } else {
        best = older(m, best, key_of(rank, POSTED_BY_SOURCE, source, 0));
        best = older(m, best, key_of(rank, POSTED_BY_SOURCE, GOAL_MATCH_ANY, 0));
    }
    if (!best) {
        wait_in_lists(m, rank, true, source, tag, op);
        return false;
    }
    leave_lists(m, rank, false, best, found);
    return true;
}
