/* The parts of Portals, for portals_*.c alone.
 *
 * Ownership: a process has up to four interfaces; an interface owns its objects, each kind in a
 * pool of the size of its limit. Objects name each other by handle where the program may free one
 * of them at any time (event queues, counters), and by pointer where a count keeps them (an entry
 * stays while arrivals, unexpected headers or operations need it). Operations belong to the process
 * and arrivals to the owner, so that the card's numbers and pointers stay valid when an interface
 * is closed under them.
 *
 * Functions that files here share begin with p4_.
 *
 * An entry's life: linked -> (a message takes it: expired) -> out of its list; when the last
 * communication event is out: AUTO_UNLINK; overflow entries: when the last header is gone:
 * AUTO_FREE. */
#ifndef SPIN_NIC_PORTALS_PRIVATE_H
#define SPIN_NIC_PORTALS_PRIVATE_H

#include "nic/portals.h"
#include "base/pool.h"

#define PORTALS_INTERFACES 4

/* A handle: 3 bits of kind, 2 of interface, 27 of index and generation. PTL_EQ_NONE, PTL_CT_NONE
 * and PTL_INVALID_HANDLE have a kind and code that no object gets. */
enum handle_kind {
    HANDLE_NI = 0,
    HANDLE_EQ = 1,
    HANDLE_CT = 2,
    HANDLE_MD = 3,
    HANDLE_LE = 4,
    HANDLE_ME = 5,
    HANDLE_HPU = 6,
};
#define HANDLE_CODE_BITS 27
#define HANDLE_CODE_MASK ((1u << HANDLE_CODE_BITS) - 1)

/* What an object with a handle begins with: `handle` is its own while it lives. */
struct portals_object {
    struct pool_slot slot;
    ptl_handle_any_t handle;
};

/* Event queues and counters by name. The place of an object stays as long as its interface, so a
 * look there tells whether the program has freed it. Where the handle is none, `at` is nobody
 * (p4_queue_name, p4_counter_name), whose handle is no name's. */
struct portals_queue_name {
    ptl_handle_eq_t handle;
    struct portals_event_queue *at;
};
struct portals_counter_name {
    ptl_handle_ct_t handle;
    struct portals_counter *at;
};

/* Memory of a program: one piece, or several. */
struct portals_piece {
    uint8_t *base;
    uint64_t from; /* bytes before it */
};
struct portals_area {
    uint8_t *start;
    uint64_t length;
    struct portals_piece *piece; /* NULL: one */
    uint32_t pieces;
};

struct portals_event_queue {
    struct portals_object object;
    ptl_event_t *ring;
    /* `reserved`: places kept for events that must not be lost; used + reserved <= room, which is
     * what there is memory for and grows up to the capacity that the program asked for. */
    uint32_t room, first, used, reserved, capacity;
    uint32_t mask;       /* of the ring, a power of two, less one: not below `room` */
    uint32_t plain_room; /* what needs no look at the rest of this; 0 of one that is shared */
    bool special;        /* shared, or one was dropped since the last one that was taken */
    /* Events are here instead of in `ring`, for threads that look without the lock; NULL: no. */
    struct portals_queue *shared;
    struct portals_shared_ring *shared_ring;
    uint64_t tail; /* of `shared`, with one that is staged */
};

/* Memory of events that threads may be reading: it is never given back, but used again. */
struct portals_shared_ring {
    struct portals_shared_ring *next;
    uint32_t room; /* never another: who reads an old ring keeps within it */
    struct portals_event_words event[];
};

struct portals_trigger;
struct portals_counter {
    struct portals_object object;
    struct portals_ni *ni;
    ptl_ct_event_t value;
    struct portals_trigger *first, *last; /* by threshold, then as they came */
    bool ready;                           /* in the list of those to look at */
    struct portals_counter *next_ready;
    struct portals_cell *cell; /* NULL: none */
};

/* Where the events of an operation go. */
struct portals_sink {
    struct portals_queue_name eq;
    struct portals_counter_name ct;
    unsigned options; /* PTL_MD_* */
};

struct portals_descriptor {
    struct portals_object object;
    struct portals_ni *ni;
    struct portals_area memory;
    struct portals_sink sink;
    uint32_t operations; /* in progress */
};

struct portals_hpu_memory {
    struct portals_object object;
    struct portals_ni *ni;
    uint8_t *bytes;
    uint64_t length;
    uint32_t entries; /* that name it */
};

struct ptl_handler {
    struct ptl_image *image;
    uint32_t entry;
};
struct ptl_image {
    struct ptl_image *next;
    struct portals *p;
    struct spin_image *image;
    uint32_t entries;            /* of lists, that name a handler of it */
    struct ptl_handler *handler; /* one for each function of the image */
};

struct portals_pt;
struct portals_header;

/* An index by key; each bucket in the order of entry. */
struct portals_bucket {
    void *first, *last;
};

/* A list entry, matching or not. Of five lines of the cache: a program may have thousands, and of
 * most of them nothing is there when a message comes. */
struct portals_entry {
    struct portals_object object;
    uint32_t uid;
    /* What is looked for in a bucket of the index. */
    uint64_t key;
    struct portals_list_group *group; /* NULL: in none */
    struct portals_entry *chain_after;
    uint64_t match_bits;
    ptl_process_t match_id;
    /* What a message needs. */
    unsigned options;
    uint8_t list;
    bool is_matching;
    bool is_plain;     /* takes puts of anybody, whole, and stays: see portals_list.c */
    bool linked;       /* in its list */
    bool expired;      /* unlinked by a message */
    bool told : 1;     /* of which AUTO_UNLINK told */
    bool silent : 1;   /* unlinked by a trigger while busy: no events */
    bool waiting : 1;  /* for its trigger */
    bool searches : 1; /* stands for a search that found a message still arriving */
    uint32_t busy;     /* arrivals, operations and events to come that need it */
    struct portals_ni *ni;
    struct portals_pt *pt;
    struct portals_area memory;
    struct portals_handlers handlers; /* P4sPIN, */
    struct portals_hpu_memory *hpu;
    struct portals_counter_name ct;
    uint64_t min_free, local_offset;
    /* The rest. */
    uint64_t ignore_bits;
    uint64_t order; /* by which it is in its list */
    struct portals_entry *before, *after;
    struct portals_entry *chain_before;
    void *user_ptr;
    uint32_t headers;  /* unexpected, that lie in its memory */
    uint32_t reserved; /* places in the queue for its last events */
    struct portals_area handler_memory;
    struct ptl_image *image;
};
_Static_assert(sizeof(void *) != 8 || sizeof(struct portals_entry) <= 320, "five lines");

/* Entries that ignore the same bits and the same parts of the source are a group: such a group
 * needs one look-up for a message, however many entries it has. More groups than this are searched
 * in order. */
#define LIST_GROUPS     8
#define LIST_MORE_BYTES ((LIST_GROUPS - 1) * sizeof(struct portals_list_group))
struct portals_list_group {
    uint64_t ignore_bits;
    uint64_t salt; /* of its keys */
    uint8_t ignore_id;
    uint32_t entries;
};

struct portals_list {
    uint32_t groups; /* bits: those that have entries */
    uint32_t length;
    struct portals_list_group one; /* the first group: most lists have no other */
    struct portals_bucket others;  /* entries in no group */
    struct portals_entry *first, *last;
    struct portals_list_group *more; /* the other LIST_GROUPS - 1, made for the second */
};

static inline struct portals_list_group *p4_group_at(const struct portals_list *list, uint32_t i) {
    return i ? &list->more[i - 1] : (struct portals_list_group *)(uintptr_t)&list->one;
}

/* The header of a message in an overflow entry that nobody has asked for yet. */
struct portals_header {
    struct pool_slot slot;
    ptl_event_t event; /* as it will be told; type is that of the overflow event */
    uint64_t length;
    struct nic_address source;
    uint32_t source_rank;
    struct portals_entry *entry;   /* in whose memory it lies */
    struct portals_entry *claimer; /* taken by, while it is still arriving */
    bool arrived, listed;
    struct portals_header *before, *after;
    struct portals_header *chain_before, *chain_after;
    uint64_t key;
};

struct portals_pt {
    bool enabled;
    bool reserves;               /* a place in the queue for PT_DISABLED */
    uint32_t arrivals;           /* in progress */
    struct portals_list list[2]; /* PTL_PRIORITY_LIST, PTL_OVERFLOW_LIST */
    uint32_t index;
    unsigned options;
    struct portals_queue_name eq;
    uint32_t entries; /* that are not unlinked */
    struct portals_header *first, *last;
};

struct portals_ni {
    /* What a message needs. */
    struct portals *p;
    uint32_t options;
    bool closing;             /* takes nothing more, and waits for what is being moved, */
    bool abandoned;           /* by a program that does not wait with it */
    bool volatile_is_limited; /* by the program itself, which then means it */
    uint32_t table_size;
    uint32_t entry_buckets;    /* a power of two, or 0 */
    struct portals_pt **table; /* as many as the largest index in use needs */
    struct portals_pt *only;   /* what `table` points to while that is one */
    struct portals_bucket *entry_bucket;
    struct portals_arrival *arrivals; /* those that are kept */
    const ptl_process_t *map;
    uint64_t map_size;
    uint32_t rank;
    uint32_t number, references;
    uint32_t bundles;
    uint32_t turn; /* of polls: the place behind that of the last one found */
    struct pool cts, eqs, mds, entries, headers, triggers, hpus;
    uint64_t next_order;
    ptl_process_t *own_map; /* NULL: `map` is another's */
    ptl_ni_limits_t limits;
    int status[PTL_SR_LAST];
    uint32_t failed; /* PTL_SR_FAILED_MESSAGES */
    struct portals_bucket *header_bucket;
    uint32_t header_buckets; /* a power of two, or 0 */
};

struct portals_trigger {
    struct pool_slot slot;
    struct portals_request request;
    struct portals_entry *entry; /* to append */
    uint64_t threshold;
    struct portals_trigger *before, *after;
};

#define OPERATION_COPY_BYTES 16
/* A request that has not ended within its call. What it names cannot go away before it. */
struct portals_operation {
    struct pool_slot slot;
    struct portals_movement of; /* no interface: closed */
    struct nic_address target;
    uint8_t kind; /* enum nic_message_kind */
    uint8_t ack_req;
    bool sent;
    bool receiving;              /* its reply is being stored */
    struct portals_sink out, in; /* of send and acknowledgement; of reply */
    uint8_t small_copy[OPERATION_COPY_BYTES];
};

struct portals {
    struct portals_ni *ni[PORTALS_INTERFACES];
    uint32_t initialised;
    uint32_t changes; /* of what messages meet: lists, tables that close, interfaces that end */
    uint32_t held;    /* triggers wait until a call has done its work, */
    bool news;        /* and so does the owner */
    struct portals_counter *ready_first, *ready_last; /* whose triggers may fire */
    const struct nic_memory *memory;                  /* NULL: our own */
    struct portals_owner owner;
    struct portals_config config;
    struct spin_limits image_limits;
    struct pool operations;
    uint64_t hpu_used;
    struct ptl_image *images;
    char *image_error; /* of the last call of an image; NULL: none */
    /* An event that is being filled in, for a queue that others read; NULL: none is. */
    struct portals_queue *staged_in;
    ptl_event_t staged;
    struct portals_shared_ring *rings; /* that no queue has now */
    uint64_t no_memory;                /* for more events */
};

/* Where the owner wants the message written, or `own`. */
static inline struct nic_message *p4_message_place(struct portals *p, struct portals_outgoing *out,
                                                   struct nic_message *own) {
    struct nic_message *place = p->owner.place ? p->owner.place(p->owner.context, out) : NULL;
    return out->message = place ? place : own;
}

/* portals.c */
static inline uint32_t p4_interface_number(unsigned options) {
    return (options & PTL_NI_NO_MATCHING) / PTL_NI_NO_MATCHING +
           (options & PTL_NI_PHYSICAL) / (PTL_NI_PHYSICAL / 2);
}
/* Gives a new object its handle. */
ptl_handle_any_t p4_handle_new(const struct portals_ni *ni, enum handle_kind kind, void *object);
void p4_object_give(struct pool *pool, void *object);
struct portals_ni *p4_ni_of(struct portals *p, ptl_handle_ni_t handle);

static inline struct pool *p4_pool_of(struct portals_ni *ni, enum handle_kind kind) {
    switch (kind) {
    case HANDLE_EQ:
        return &ni->eqs;
    case HANDLE_CT:
        return &ni->cts;
    case HANDLE_MD:
        return &ni->mds;
    case HANDLE_HPU:
        return &ni->hpus;
    default:
        return &ni->entries;
    }
}

/* The object of a handle, and its interface (may be NULL); NULL: there is none. */
static inline void *p4_object_of(struct portals *p, enum handle_kind kind, ptl_handle_any_t handle,
                                 struct portals_ni **ni_out) {
    struct portals_ni *ni = p->ni[handle >> HANDLE_CODE_BITS & (PORTALS_INTERFACES - 1)];
    if (!ni || handle >> 29 != kind) /* an object that was given back has the handle HANDLE_NI */
        return NULL;
    const struct pool *pool = p4_pool_of(ni, kind);
    uint32_t index = handle & pool->mask;
    if (index >= pool->made)
        return NULL;
    struct portals_object *object = pool_at(pool, index);
    if (object->handle != handle)
        return NULL;
    if (ni_out)
        *ni_out = ni;
    return object;
}

extern const struct portals_object p4_nobody;
static inline struct portals_queue_name p4_queue_name(ptl_handle_eq_t handle,
                                                      struct portals_event_queue *q) {
    return (struct portals_queue_name){handle,
                                       q ? q : (struct portals_event_queue *)(uintptr_t)&p4_nobody};
}
static inline struct portals_counter_name p4_counter_name(ptl_handle_ct_t handle,
                                                          struct portals_counter *ct) {
    return (struct portals_counter_name){handle,
                                         ct ? ct : (struct portals_counter *)(uintptr_t)&p4_nobody};
}
static inline struct portals_event_queue *p4_queue(struct portals_queue_name name) {
    return name.at->object.handle == name.handle ? name.at : NULL;
}
static inline struct portals_counter *p4_counter(struct portals_counter_name name) {
    return name.at->object.handle == name.handle ? name.at : NULL;
}

/* portals_memory.c */
int p4_memory_set(struct portals_area *m, void *start, ptl_size_t length, bool is_iovec,
                  const struct portals_ni *ni);
void p4_memory_clear(struct portals_area *m);
uint32_t p4_memory_pieces(const struct portals_area *m, uint64_t offset, uint64_t length,
                          struct nic_segment *segments, uint32_t room);
__attribute__((cold)) void *p4_memory_piece_address(const struct portals_area *m, uint64_t offset);

static inline uint32_t p4_memory_segments(const struct portals_area *m, uint64_t offset,
                                          uint64_t length, struct nic_segment *segments,
                                          uint32_t room) {
    if (offset >= m->length || !room)
        return 0;
    if (length > m->length - offset)
        length = m->length - offset;
    if (m->piece)
        return p4_memory_pieces(m, offset, length, segments, room);
    segments[0] = (struct nic_segment){(uint8_t *)((uintptr_t)m->start + offset), length};
    return length > 0;
}
/* Where a byte of it is and all behind it, or NULL: it is in several pieces. */
static inline uint8_t *p4_memory_whole(const struct portals_area *m, uint64_t offset) {
    return m->piece ? NULL : (uint8_t *)((uintptr_t)m->start + offset);
}
static inline void *p4_memory_address(const struct portals_area *m, uint64_t offset) {
    return m->piece ? p4_memory_piece_address(m, offset) : (void *)((uintptr_t)m->start + offset);
}

/* portals_cell.c */
/* A free cell for a counter, or NULL. */
struct portals_cell *p4_cell_take(struct portals *p, ptl_handle_ct_t handle);
void p4_cell_give(struct portals_cell *cell); /* may be NULL */
void p4_cell_store(struct portals_cell *cell, uint64_t success, uint64_t failure);
static inline void p4_cell_tell(struct portals_cell *cell, uint64_t success, uint64_t failure) {
    if (__builtin_expect(cell != NULL, 0)) /* in worlds there are none */
        p4_cell_store(cell, success, failure);
}

/* Bytes of host memory; false: they are not there. */
static inline bool p4_host_use(const struct portals *p, uint8_t *host, uint64_t bytes,
                               nic_user *user, void *argument) {
    if (p->owner.use)
        return p->owner.use(p->owner.context, host, bytes, user, argument);
    user(argument, host);
    return true;
}
static inline bool p4_host_read(const struct portals *p, void *to, const uint8_t *host,
                                uint64_t bytes) {
    const struct nic_memory *m = p->memory;
    if (m)
        return m->read(m->context, to, host, bytes);
    memcpy(to, host, bytes);
    return true;
}
static inline bool p4_host_write(const struct portals *p, uint8_t *host, const void *from,
                                 uint64_t bytes) {
    const struct nic_memory *m = p->memory;
    if (m)
        return m->write(m->context, host, from, bytes);
    memcpy(host, from, bytes);
    return true;
}

/* portals_queue.c: of `shared`, but the first. */
bool p4_queue_share(struct portals *p, struct portals_event_queue *q); /* false: no */
void p4_queue_unshare(struct portals *p, struct portals_event_queue *q);
/* Of one that is not shared. */
void p4_ring_free(const struct portals *p, struct portals_event_queue *q);
bool p4_queue_resize(struct portals *p, struct portals_event_queue *q, uint32_t room);
uint32_t p4_queue_used(const struct portals_event_queue *q);
int p4_queue_take(struct portals_queue *shared, ptl_event_t *event);
void p4_queue_drop_oldest(struct portals_queue *shared); /* unless others have emptied it */
void p4_queue_drop_new(struct portals_queue *shared);    /* one that has no place */
/* Those who look see what is staged. */
void p4_queue_publish(struct portals *p);
void p4_queue_clear(struct portals *p); /* rings that no queue has */

/* portals_event.c */
void p4_event_push(struct portals *p, struct portals_queue_name eq, const ptl_event_t *event);
/* Into a place that was reserved. */
void p4_event_push_reserved(struct portals *p, struct portals_queue_name eq,
                            const ptl_event_t *event);
bool p4_event_reserve(struct portals *p, struct portals_queue_name eq, uint32_t places);
bool p4_event_add_place(struct portals *p, struct portals_queue_name eq); /* one more, reserved */
void p4_event_unreserve(struct portals_queue_name eq, uint32_t places);
/* Of a queue that is shared, or has to grow, or loses its oldest. */
ptl_event_t *p4_event_new_special(struct portals *p, struct portals_event_queue *q);

/* The place of a new event, that the caller fills whole; NULL: nobody will see it. Only while
 * triggers are held, as for all that changes what a program waits for: its end tells the owner. */
static inline ptl_event_t *p4_event_new(struct portals *p, struct portals_queue_name eq) {
    struct portals_event_queue *q = p4_queue(eq);
    if (!q)
        return NULL;
    if (q->used + q->reserved >= q->plain_room)
        return p4_event_new_special(p, q);
    uint32_t at = q->first + q->used++;
    ptl_event_t *place = &q->ring[at & q->mask];
    p->news = true;
    if (!place) /* callers need not look */
        __builtin_unreachable();
    return place;
}

/* portals_trigger.c: events are raised and counters change between hold and release; nothing fires
 * there, and the owner is told once. */
static inline void p4_trigger_hold(struct portals *p) {
    p->held++;
}
__attribute__((cold)) void p4_trigger_fire(struct portals *p); /* those that are ready */
static inline void p4_trigger_release(struct portals *p) {
    if (p->ready_first && p->held == 1)
        p4_trigger_fire(p);
    if (!--p->held && p->news) {
        p->news = false;
        if (__builtin_expect(p->staged_in != NULL, 0)) /* in worlds there is none */
            p4_queue_publish(p);
        p->owner.raised(p->owner.context);
    }
}
void p4_trigger_look(struct portals *p, struct portals_counter *ct);
void p4_trigger_cancel_all(struct portals_ni *ni, struct portals_counter *ct);
void p4_trigger_cancel_append(struct portals_entry *e); /* which waits for its trigger */
int p4_trigger_append(struct portals *p, struct portals_entry *e, ptl_handle_ct_t ct,
                      ptl_size_t threshold);

/* portals_count.c */
void p4_counter_watched(struct portals *p,
                        struct portals_counter *ct); /* by triggers, or in a cell */
static inline void p4_counter_changed(struct portals *p, struct portals_counter *ct) {
    p->news = true;
    if ((uintptr_t)ct->first | (uintptr_t)ct->cell)
        p4_counter_watched(p, ct);
}
static inline void p4_count(struct portals *p, struct portals_counter_name name, uint64_t success,
                            uint64_t failure) {
    struct portals_counter *ct = p4_counter(name);
    if (!ct)
        return;
    ct->value.success += success;
    ct->value.failure += failure;
    p4_counter_changed(p, ct);
}
/* Successes or failures, not both. */
bool p4_increment_is_valid(ptl_ct_event_t increment);

/* portals_table.c */
static inline struct portals_pt *p4_table_entry(const struct portals_ni *ni, ptl_pt_index_t index) {
    return index < ni->table_size ? ni->table[index] : NULL;
}
void p4_table_free(const struct portals_ni *ni, struct portals_pt *pt);
void p4_table_release(struct portals_ni *ni); /* the table itself */
/* Flow control, if the entry has it: no more messages, and PT_DISABLED unless `quiet`. Returns why
 * the message is refused. */
uint8_t p4_table_exhausted(struct portals_ni *ni, struct portals_pt *pt, bool quiet);

/* portals_match.c */
bool p4_match_insert(struct portals_entry *e); /* into its list, by order; false: no memory */
void p4_match_remove(struct portals_entry *e);
struct portals_entry *p4_match_message(const struct portals_ni *ni, const struct portals_list *list,
                                       const struct nic_message *m);
static inline uint64_t p4_entry_room(const struct portals_entry *e, const struct nic_message *m,
                                     uint64_t *offset) {
    *offset = e->options & PTL_ME_MANAGE_LOCAL ? e->local_offset : m->remote_offset;
    return *offset < e->memory.length ? e->memory.length - *offset : 0;
}
bool p4_header_insert(struct portals_ni *ni, struct portals_pt *pt, struct portals_header *h);
void p4_header_remove(struct portals_ni *ni, struct portals_pt *pt, struct portals_header *h);
/* The first after `after` (NULL: from the beginning) that the entry matches. */
struct portals_header *p4_header_find(const struct portals_entry *e,
                                      const struct portals_header *after);
const char *p4_match_check(const struct portals_ni *ni, const struct portals_pt *pt);

/* portals_list.c */
void p4_entry_settle(struct portals_entry *e); /* events of its end, when they are due */
static inline void p4_entry_release(struct portals_entry *e) { /* one less is busy with it */
    e->busy--;
    if (e->expired)
        p4_entry_settle(e);
}
void p4_entry_discard(struct portals_entry *e); /* its memory and its place in the pool */
/* Takes unexpected headers, then into its list. Not PTL_OK: it is as it was. */
int p4_entry_link(struct portals_entry *e);
void p4_entry_link_failed(struct portals_entry *e); /* where nobody can be told but by an event */
int p4_entry_unlink(struct portals_entry *e);
static inline void p4_entry_count(struct portals *p, struct portals_entry *e, unsigned option,
                                  uint64_t bytes, uint8_t fail) {
    uint64_t success = e->options & PTL_ME_EVENT_CT_BYTES ? bytes : 1;
    if (e->options & option)
        p4_count(p, e->ct, fail != PTL_NI_OK ? 0 : success, fail != PTL_NI_OK);
}
static inline bool p4_entry_wants(const struct portals_entry *e, unsigned disable, uint8_t fail) {
    return !(e->options & disable) &&
           (fail != PTL_NI_OK || !(e->options & PTL_ME_EVENT_SUCCESS_DISABLE));
}
/* Its message is complete: tells whoever has claimed it. */
void p4_header_arrived(struct portals_header *h, uint64_t mlength, uint8_t fail);
void p4_header_drop(struct portals_header *h);

/* portals_initiator.c */
int p4_request_check(struct portals *p, const struct portals_request *request,
                     struct portals_ni **ni);
int p4_request_start(struct portals *p, const struct portals_request *request, bool by_trigger);
void p4_operation_forget(struct portals_ni *ni);
void p4_operations_clear(struct portals *p);    /* with what those in progress hold */
bool p4_operation_moves(struct portals_ni *ni); /* data of one is being moved */

/* portals_target.c */
void p4_arrival_forget(struct portals_ni *ni);

/* Tells PtlNIFini, which waits for it. */
__attribute__((cold)) void p4_closing_go_on(struct portals *p, struct portals_ni *ni);
static inline void p4_closing_progress(struct portals *p, struct portals_ni *ni) {
    if (ni && ni->closing)
        p4_closing_go_on(p, ni);
}

/* portals_atomic.c */
bool p4_atomic_is_valid(uint8_t operation, uint8_t datatype);
/* target := target op data, item by item; swaps use `operand`. Nothing need be aligned. What the
 * items were goes to `before`, unless that is NULL. */
void p4_atomic_apply(uint8_t operation, uint8_t datatype, uint8_t *target, const uint8_t *data,
                     const uint8_t *operand, uint64_t bytes, uint8_t *before);

/* portals_spin.c */
int p4_spin_entry_set(struct portals_entry *e, const ptl_me_t *me);
void p4_spin_entry_clear(struct portals_entry *e);
void p4_spin_ni_clear(struct portals_ni *ni);

static inline ptl_process_t p4_initiator_id(const struct portals_ni *ni, struct nic_address source,
                                            uint32_t rank) {
    ptl_process_t id;
    id.phys.nid = source.nid;
    id.phys.pid = source.pid;
    if (ni->options & PTL_NI_LOGICAL) {
        id.phys.pid = 0;
        id.rank = rank;
    }
    return id;
}

#endif
