/* Portals 4 in one process: interfaces, tables, lists, events, counters, triggered operations. No
 * clock, no thread, no socket and no packet: it is given calls of the host program, headers of
 * messages and news of data that has moved; it gives back messages to send and says that something
 * was raised. Its owner (nic.h) moves the data.
 *
 * At the target of a message:
 *     portals_header     permission, matching, offsets: what to do with it
 *     portals_arrival_segments   where in host memory its bytes go to or come from
 *     portals_apply      one packet of an atomic, once the data of both sides is at hand
 *     portals_reply      get, fetch: the reply's header is sent, its data follows
 *     portals_done       all data has moved: events, counters, unlinking, acknowledgement
 * At its initiator:
 *     portals_source_segments   where the bytes to send are
 *     portals_sent              the source buffer may be used again
 *     portals_reply_segments    where the bytes of a reply go
 *     portals_answered          an acknowledgement or a whole reply is in
 *     portals_failed            it will never be sent, or never be answered
 *
 * One thread at a time: whoever has several locks around every call here.
 *
 * Memory is allocated by calls of the host. A message at its target is in the owner's memory. One
 * at its initiator is on the stack of the call that starts it; what does not end within the call
 * takes a record from a pool, which grows when more are in flight than ever before, and never
 * shrinks. */
#ifndef SPIN_NIC_PORTALS_H
#define SPIN_NIC_PORTALS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nic/message.h"
#include "openspin.h"
#include "portals4.h"

struct portals;

struct portals_arrival;

/* Portals' own, of a request: what it moves, and for whom. */
struct portals_movement {
    struct portals_ni *ni;
    struct portals_descriptor *md, *get_md;
    struct portals_entry *entry; /* of the handler that gave the command */
    uint8_t *card;               /* its memory on the card */
    uint8_t *copy;               /* of volatile data; NULL: none */
    uint64_t source_offset, get_offset, length;
    void *user_ptr;
};

/* A message for the network, as Portals hands it to its owner. It lasts until `send` returns. */
struct portals_outgoing {
    struct nic_address target;
    uint64_t payload;
    uint8_t *data;                   /* its bytes, if they lie in one piece of memory, else NULL */
    struct portals_arrival *arrival; /* of a reply that has data, else NULL */
    void *origin;                    /* what portals_reply and portals_command were given */
    struct nic_message *message;     /* but for `initiator` of a request, which is the owner's */
    void *peer, *packet;             /* the owner's, from `place` to `send` */
    /* Portals' own, of a request. */
    struct portals_movement of;
    const struct portals_sink *sink, *get_sink;
    struct portals_operation *kept;
};

enum portals_sending {
    PORTALS_LEFT,       /* all of it: its source may be used again */
    PORTALS_KEPT,       /* it leaves later; of a request the owner tells by its number */
    PORTALS_UNREADABLE, /* nothing was sent: its data could not be read */
    PORTALS_NO_MEMORY,  /* nothing was sent */
};

struct portals_owner {
    void *context;
    /* Where the message is to be written, which Portals does next, before it calls `send`; NULL:
     * the owner copies it. Of `out` it is told what stands before `message`. May be NULL itself. */
    struct nic_message *(*place)(void *context, struct portals_outgoing *out);
    /* A put that nobody answers, of data in one piece of memory, which may be used again when this
     * returns. False: it has not left, and goes by `send`. NULL: all do. */
    bool (*put)(void *context, const struct nic_message *message, const uint8_t *data);
    /* A request that is answered, or does not leave before this returns, must be kept by
     * portals_outgoing_keep. */
    enum portals_sending (*send)(void *context, struct portals_outgoing *out);
    /* An event or a counter has changed: whoever waits looks again. */
    void (*raised)(void *context);
    /* PtlNIInit asks for this pid: may the process have it from now on? NULL: its own alone. */
    bool (*take_pid)(void *context, uint32_t pid);
    /* PTL_SR_REFUSED_PACKETS; NULL: 0. */
    uint64_t (*refused)(void *context);
    /* Lets `user` use host memory; false: it is gone. NULL: it is there. */
    bool (*use)(void *context, uint8_t *host, uint64_t bytes, nic_user *user, void *argument);
};

/* What a counter has, where any thread may read it at any time: by handle, and only while `handle`
 * is that. */
#define PORTALS_CELLS 256 /* for each kind: what has no place has no cell */
struct portals_cell {
    _Atomic uint32_t handle;  /* 0: nobody's */
    _Atomic uint32_t changes; /* of both values at once; odd: one is under way */
    _Atomic uint64_t success, failure;
};

/* The same of an event queue, from which any thread may take (portals_queue.c). */
struct portals_event_words {
    _Atomic uint64_t word[sizeof(ptl_event_t) / 8];
};
struct portals_queue {
    _Alignas(64) _Atomic uint32_t handle;
    /* Events so far: taken, with flags in the highest bits; there. */
    _Atomic uint64_t head, tail;
    struct portals_shared_ring *_Atomic ring;
};

struct portals_cells {
    struct portals_cell counter[PORTALS_CELLS];
    struct portals_queue queue[PORTALS_CELLS];
    _Atomic uint32_t turn; /* of who looks at several */
};

struct portals_config {
    struct portals_cells *cells; /* zero, to outlive it; NULL: nobody reads them */
    struct nic_address address;
    struct zone *zone; /* of its records, to outlive it; NULL: malloc */
    uint32_t uid;
    /* PTL_TOTAL_DATA_ORDERING and the like, that the card can give. PTL_COHERENT_ATOMICS is for
     * drivers whose host memory is the process's own: the card changes aligned items of up to 8
     * bytes in one step then, so that the process's threads may use them at the same time. */
    unsigned features;
    uint64_t hpu_memory_bytes; /* for all allocations together */
    ptl_hpu_limits_t hpu_limits;
    const struct spin_limits *image_limits; /* copied; NULL: the PsPIN card's */
    struct image_store *images; /* shared with other processes, to outlive them; NULL: its own */
};
/* What a card of that MTU gives when nobody says otherwise. */
void portals_config_default(struct portals_config *config, uint32_t mtu_bytes);

int portals_new(struct portals **out, const struct portals_config *config,
                const struct portals_owner *owner, struct spin_error *err);
void portals_free(struct portals *p);
struct nic_address portals_address(const struct portals *p);
/* How the program's memory is reached, from now on; to outlive it. NULL, as at the beginning: it is
 * this process's own. */
void portals_reach(struct portals *p, const struct nic_memory *memory);
const struct nic_memory *portals_memory(const struct portals *p);

/* ---- At the target ---- */

/* The handlers of a matching entry (P4sPIN), as the card needs them. */
struct portals_handlers {
    const struct spin_image *image;
    uint32_t header, payload, completion, cleanup; /* entry points; 0: none */
    uint8_t *state;                                /* HPU memory, aligned to 64 bytes */
    uint32_t state_bytes, user_hdr_bytes;
    uint64_t host_bytes; /* of the handler's host memory; pieces by portals_handler_segments */
    uint64_t cleanup_ns; /* of silence within a message, before its cleanup handler runs */
};

/* A message at its target, from its header to portals_done. */
struct portals_arrival {
    uint8_t kind;     /* enum nic_message_kind */
    uint8_t fail;     /* PTL_NI_OK, or why nothing of it is accepted: drop its data */
    bool list;        /* overflow? */
    uint64_t mlength; /* bytes of it that are accepted */
    uint64_t offset;  /* in the entry */
    uint8_t *data;    /* where they are, if they lie in one piece of host memory, else NULL */
    const struct portals_handlers *handlers; /* NULL: none */
    const struct nic_message *message;       /* the owner's */
    /* Portals' own. */
    bool reserved; /* a place in the queue for its event */
    bool expires;  /* it took its entry out of the list */
    bool replied;
    struct portals_ni *ni; /* NULL: refused, or closed */
    struct portals_entry *entry;
    struct portals_header *header;
    struct portals_arrival *next, **link; /* among those that are kept */
};

/* Fills in all of `arrival`. `met`: what portals_plain, just before, has found; or NULL.
 * portals_done is due for refused ones too (at once, or when their data
 * has been dropped). Until then nothing but the functions here may be called, unless it is kept. */
void portals_header(struct portals *p, const struct nic_message *message,
                    struct portals_arrival *arrival, struct portals_entry *met);
/* It lives on in `to`, with its message there, until portals_done. */
void portals_arrival_keep(struct portals_arrival *to, const struct portals_arrival *from,
                          const struct nic_message *message);

/* Most puts: whole, and met by an entry that takes them as they are and stays. Nothing of Portals
 * changes until portals_plain_done, unless it is kept. */
struct portals_plain {
    uint64_t mlength; /* bytes of it that are accepted, */
    uint8_t *data;    /* and where they go */
    /* Portals' own. */
    struct portals_entry *entry;
    struct portals_entry *met; /* the same, or one that is not plain, if there is any */
    uint32_t changes;
};
/* False: it is none, and for portals_header. */
bool portals_plain(struct portals *p, const struct nic_message *message,
                   struct portals_plain *plain);
/* Whether the same (entry NULL: none) would be found again for a message that says the same. */
bool portals_plain_holds(const struct portals *p, const struct portals_plain *plain);
/* It lives on in `to`, until portals_done. */
void portals_plain_keep(struct portals_arrival *to, const struct portals_plain *plain,
                        const struct nic_message *message);
void portals_plain_done(struct portals *p, const struct nic_message *message,
                        const struct portals_plain *plain, uint8_t fail);

/* A message will come soon: four chances to prefetch what matching it will touch, each when what
 * the one before asked for should be there. */
void portals_prefetch_interface(const struct portals *p);
void portals_prefetch_table(const struct portals *p);
void portals_prefetch_bucket(const struct portals *p, const struct nic_message *message);
void portals_prefetch_entry(const struct portals *p, const struct nic_message *message);
/* And portals_done of this one. */
void portals_prefetch_ending(const struct portals_arrival *a);

/* Pieces of host memory behind bytes [offset, offset + length) of the message; returns their
 * number, at most `room`; call again from where they end. None: outside of what is accepted, or the
 * program has closed the interface meanwhile; drop the data. */
uint32_t portals_arrival_segments(const struct portals_arrival *arrival, uint64_t offset,
                                  uint64_t length, struct nic_segment *segments, uint32_t room);
/* The same behind any bytes of the whole entry, and of the handler's own host memory. */
uint32_t portals_entry_segments(const struct portals_arrival *arrival, uint64_t offset,
                                uint64_t length, struct nic_segment *segments, uint32_t room);
uint32_t portals_handler_segments(const struct portals_arrival *arrival, uint64_t offset,
                                  uint64_t length, struct nic_segment *segments, uint32_t room);
uint64_t portals_entry_bytes(const struct portals_arrival *arrival);
/* Both as a whole where that is one piece of this process, else of no bytes. */
void portals_whole_memory(const struct portals_arrival *arrival, struct nic_segment *entry,
                          struct nic_segment *handler);

/* One packet of an atomic, of whole items: operates on host memory; `before` takes what was there,
 * or is NULL. False: some of that memory is not there. */
bool portals_apply(const struct portals_arrival *arrival, uint64_t offset, const uint8_t *data,
                   uint64_t length, uint8_t *before);
/* Of PTL_INT32_T and the like; 0: there is no such type. */
uint32_t portals_item_bytes(uint8_t datatype);

/* Get and fetch, when accepted: sends the reply's header (owner.send with this arrival). */
void portals_reply(struct portals *p, struct portals_arrival *arrival, void *origin);

/* How an arrival ended, where handlers or the card changed what Portals alone would do. */
struct portals_ending {
    /* PTL_NI_OK. PTL_NI_SEGV and the like: the event and the acknowledgement say so.
     * PTL_NI_DROPPED, PTL_NI_PT_DISABLED: as if it had never matched; nothing may have been moved.
     */
    uint8_t fail;
    bool pending;     /* a handler said so: no event, and the entry stays where it was */
    uint64_t dropped; /* bytes that were dropped: mlength is less by them */
};
/* Sends the acknowledgement, or a reply without data where none was sent. */
void portals_done(struct portals *p, struct portals_arrival *arrival, struct portals_ending how);

/* The card has no room for this message: flow control where the portal table entry has it. Returns
 * what portals_done must be told as `fail`, unless handlers saw a part of the message already. */
uint8_t portals_exhausted(const struct portals_arrival *arrival);

/* ---- At the initiator ---- */

/* From the owner's `send`, of a request: the number that names it in the calls below; false: no
 * memory. */
bool portals_outgoing_keep(struct portals *p, struct portals_outgoing *out, uint64_t *initiator);
/* Whether the pieces below are the card's own memory. */
bool portals_source_on_card(struct portals *p, uint64_t initiator);
uint32_t portals_source_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                 uint64_t length, struct nic_segment *segments, uint32_t room);
uint32_t portals_reply_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                uint64_t length, struct nic_segment *segments, uint32_t room);
/* Of requests that are kept: none is in progress. */
bool portals_quiet(const struct portals *p);
/* `fail`: PTL_NI_OK, or some of its data could not be read. */
void portals_sent(struct portals *p, uint64_t initiator, uint8_t fail);
/* An answer is believed only from the process that was asked, once. `fail`: PTL_NI_OK, or what went
 * wrong on its way here. */
void portals_answered(struct portals *p, uint64_t initiator, const struct nic_message *answer,
                      uint8_t fail);
/* The same of a put or atomic that has been sent. */
void portals_acknowledged(struct portals *p, uint64_t initiator, const struct nic_message *answer);
/* A process is gone: what it was sent and has not acknowledged (portals_acknowledged) has failed.
 */
void portals_lost(struct portals *p, struct nic_address peer);
/* Nothing more will come of it: PTL_NI_UNDELIVERABLE, or PTL_NI_SEGV. */
void portals_failed(struct portals *p, uint64_t initiator, uint8_t fail);

/* ---- Commands of handlers ---- */

/* A put, get or atomic "as if posted by the host": portal table index and event queue are those of
 * the handler's entry. Successful sends raise no full event. `count`: the entry's counter counts
 * its completion (acknowledgement if one is asked for, reply, else send). */
struct portals_command {
    uint8_t kind; /* NIC_PUT, NIC_GET, NIC_ATOMIC */
    uint8_t ack_req;
    uint8_t operation, datatype;
    bool count;
    uint8_t *card;   /* memory on the card, to last until sent (get: answered); NULL: host memory */
    uint64_t offset; /* in the entry's host memory */
    uint64_t length;
    ptl_process_t target;
    uint64_t match_bits, remote_offset, hdr_data;
    void *user_ptr;
};
/* A put from the card's memory that nobody answers or counts, if it can leave before this returns;
 * false: nothing has happened. */
bool portals_command_at_once(struct portals *p, const struct portals_arrival *arrival,
                             const struct portals_command *command);
/* A code of enum ptl_retvals. */
int portals_command(struct portals *p, const struct portals_arrival *arrival,
                    const struct portals_command *command, void *origin);
/* The counter of the handler's entry; PTL_ARG_INVALID: it has none. */
int portals_command_ct_get(struct portals *p, const struct portals_arrival *arrival,
                           ptl_ct_event_t *event);
int portals_command_ct_inc(struct portals *p, const struct portals_arrival *arrival,
                           ptl_ct_event_t increment);
int portals_command_ct_set(struct portals *p, const struct portals_arrival *arrival,
                           ptl_ct_event_t value);

/* ---- Calls of the host, one for each of portals4.h ---- */
/* They return what the call does, and never block. Pointers are not NULL where Portals says so. */

/* Default limits: `look_up` finds environment variables (NULL: none); err (may be NULL) tells of
 * those that are no number and were left out. */
void portals_limits_default(ptl_ni_limits_t *limits, const char *(*look_up)(const char *name),
                            struct spin_error *err);
void portals_limits_clamp(ptl_ni_limits_t *limits);
/* Limits that a program has left 0 (or negative) become the usual ones. */
void portals_limits_fill(ptl_ni_limits_t *limits, const ptl_ni_limits_t *usual);

int portals_init(struct portals *p);
void portals_fini(struct portals *p);
bool portals_is_initialised(const struct portals *p);

/* usual: for what `desired` (may be NULL) leaves 0; NULL: portals_limits_default. */
int portals_ni_init(struct portals *p, ptl_interface_t iface, unsigned options, ptl_pid_t pid,
                    const ptl_ni_limits_t *desired, const ptl_ni_limits_t *usual,
                    ptl_ni_limits_t *actual, ptl_handle_ni_t *ni);
/* PTL_IN_USE: nothing new is taken, but the card still moves data of its memory or runs its
 * handlers; call again when something was raised. */
int portals_ni_fini(struct portals *p, ptl_handle_ni_t ni);
/* That message's. */
bool portals_is_closing(const struct portals_arrival *arrival);
/* Messages that the interfaces of today have dropped: PTL_SR_DROP_COUNT of all. */
uint64_t portals_dropped(const struct portals *p);
/* How often a queue found no memory for more events: then events are lost, or flow control acts. */
uint64_t portals_no_memory(const struct portals *p);
int portals_ni_status(struct portals *p, ptl_handle_ni_t ni, ptl_sr_index_t index,
                      ptl_sr_value_t *status);
int portals_ni_handle(struct portals *p, ptl_handle_any_t handle, ptl_handle_ni_t *ni);
int portals_set_map(struct portals *p, ptl_handle_ni_t ni, ptl_size_t size,
                    const ptl_process_t *map);
/* The same with a map that the caller keeps as long as the interface, and this process's place in
 * it: for drivers that have many processes. */
int portals_share_map(struct portals *p, ptl_handle_ni_t ni, ptl_size_t size,
                      const ptl_process_t *map, ptl_rank_t rank);
int portals_get_map(struct portals *p, ptl_handle_ni_t ni, ptl_size_t size, ptl_process_t *map,
                    ptl_size_t *actual);
int portals_get_uid(struct portals *p, ptl_handle_ni_t ni, ptl_uid_t *uid);
int portals_get_id(struct portals *p, ptl_handle_ni_t ni, ptl_process_t *id);
int portals_get_phys_id(struct portals *p, ptl_handle_ni_t ni, ptl_process_t *id);

int portals_pt_alloc(struct portals *p, ptl_handle_ni_t ni, unsigned options, ptl_handle_eq_t eq,
                     ptl_pt_index_t wanted, ptl_pt_index_t *index);
int portals_pt_free(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index);
/* PTL_IN_USE: disabled, but messages are still being delivered; call again when something was
 * raised. */
int portals_pt_disable(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index);
int portals_pt_enable(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index);

int portals_md_bind(struct portals *p, ptl_handle_ni_t ni, const ptl_md_t *md,
                    ptl_handle_md_t *handle);
int portals_md_release(struct portals *p, ptl_handle_md_t md);

int portals_le_append(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                      const ptl_le_t *le, ptl_list_t list, void *user_ptr, ptl_handle_le_t *handle);
int portals_le_unlink(struct portals *p, ptl_handle_le_t le);
int portals_le_search(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                      const ptl_le_t *le, ptl_search_op_t operation, void *user_ptr);
int portals_me_append(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                      const ptl_me_t *me, ptl_list_t list, void *user_ptr, ptl_handle_me_t *handle);
int portals_me_unlink(struct portals *p, ptl_handle_me_t me);
int portals_me_search(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                      const ptl_me_t *me, ptl_search_op_t operation, void *user_ptr);

int portals_eq_alloc(struct portals *p, ptl_handle_ni_t ni, ptl_size_t count, ptl_handle_eq_t *eq);
int portals_eq_free(struct portals *p, ptl_handle_eq_t eq);
int portals_eq_get(struct portals *p, ptl_handle_eq_t eq, ptl_event_t *event);
/* The first of them that has one, taking turns; PTL_EQ_EMPTY. */
int portals_eq_poll(struct portals *p, const ptl_handle_eq_t *eqs, unsigned count,
                    ptl_event_t *event, unsigned *which);

int portals_ct_alloc(struct portals *p, ptl_handle_ni_t ni, ptl_handle_ct_t *ct);
int portals_ct_free(struct portals *p, ptl_handle_ct_t ct);
int portals_ct_cancel(struct portals *p, ptl_handle_ct_t ct);
int portals_ct_get(struct portals *p, ptl_handle_ct_t ct, ptl_ct_event_t *event);
/* From the cells, without a lock; false: ask portals_ct_get. */
bool portals_ct_peek(struct portals_cells *cells, ptl_handle_ct_t ct, ptl_ct_event_t *event);
/* The next event of a queue, likewise; PORTALS_ASK: ask portals_eq_get. */
#define PORTALS_ASK (-1)
int portals_eq_take(struct portals_cells *cells, ptl_handle_eq_t eq, ptl_event_t *event);
/* The same of several, in turn: portals_eq_poll, portals_ct_poll. */
int portals_eq_take_any(struct portals_cells *cells, const ptl_handle_eq_t *eqs, unsigned count,
                        ptl_event_t *event, unsigned *which);
int portals_ct_peek_any(struct portals_cells *cells, const ptl_handle_ct_t *cts,
                        const ptl_size_t *tests, unsigned count, ptl_ct_event_t *event,
                        unsigned *which);
int portals_ct_set(struct portals *p, ptl_handle_ct_t ct, ptl_ct_event_t value);
int portals_ct_inc(struct portals *p, ptl_handle_ct_t ct, ptl_ct_event_t increment);
/* It has reached its test or counts a failure; PTL_CT_NONE_REACHED. */
int portals_ct_reached(struct portals *p, ptl_handle_ct_t ct, ptl_size_t test,
                       ptl_ct_event_t *event);
/* The first of them that has reached its test or counts a failure, taking turns;
 * PTL_CT_NONE_REACHED. */
int portals_ct_poll(struct portals *p, const ptl_handle_ct_t *cts, const ptl_size_t *tests,
                    unsigned count, ptl_ct_event_t *event, unsigned *which);

/* What a program starts, or prepares to be started by a counter. */
enum portals_request_kind {
    PORTALS_PUT,
    PORTALS_GET,
    PORTALS_ATOMIC,
    PORTALS_FETCH_ATOMIC,
    PORTALS_SWAP,
    PORTALS_CT_INC,
    PORTALS_CT_SET,
    PORTALS_ME_APPEND,
    PORTALS_ME_UNLINK,
};

struct portals_request {
    uint8_t kind;
    ptl_ack_req_t ack_req;
    ptl_op_t operation;
    ptl_datatype_t datatype;
    ptl_handle_md_t md; /* put, atomic, and what a fetch or swap sends */
    ptl_size_t local_offset;
    ptl_handle_md_t get_md; /* get, and where a fetch or swap puts what was there */
    ptl_size_t get_offset;
    ptl_size_t length;
    ptl_process_t target;
    ptl_pt_index_t pt_index;
    ptl_match_bits_t match_bits;
    ptl_size_t remote_offset;
    void *user_ptr;
    ptl_hdr_data_t hdr_data;
    uint8_t operand[32];
    ptl_handle_ct_t ct; /* CT_INC, CT_SET */
    ptl_ct_event_t ct_value;
    ptl_handle_any_t me; /* ME_UNLINK, ME_APPEND */
};
int portals_start(struct portals *p, const struct portals_request *request);
int portals_trigger(struct portals *p, const struct portals_request *request, ptl_handle_ct_t ct,
                    ptl_size_t threshold);
int portals_trigger_me_append(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                              const ptl_me_t *me, ptl_list_t list, void *user_ptr,
                              ptl_handle_me_t *handle, ptl_handle_ct_t ct, ptl_size_t threshold);
int portals_bundle(struct portals *p, ptl_handle_ni_t ni, bool start);

int portals_hpu_limits(struct portals *p, ptl_handle_ni_t ni, ptl_hpu_limits_t *limits);
int portals_hpu_alloc(struct portals *p, ptl_handle_ni_t ni, ptl_size_t length, ptl_hpu_md_h *mem);
int portals_hpu_free(struct portals *p, ptl_hpu_md_h mem);
/* `bytes` NULL: from the file `name`. */
int portals_image_load(struct portals *p, ptl_handle_ni_t ni, const char *name, const void *bytes,
                       ptl_size_t length, ptl_image_h *image);
int portals_image_find(struct portals *p, ptl_image_h image, const char *function,
                       ptl_handler_t *handler);
int portals_image_unload(struct portals *p, ptl_image_h image);
const char *portals_image_error(const struct portals *p);

/* Invariants of every list and pool, for tests: NULL, or what does not hold. */
const char *portals_check(struct portals *p);

#endif
