/* A network of Portals processes without packets or time: messages wait in one queue and are
 * carried when the test says so, whole or with their header first. The same tests run on live cards
 * (LIVE_WIRE: lib/live_wire.h), but for those that hold messages, or look at what only this network
 * has: STEP_TEST. */
#ifndef TESTS_WIRE_H
#define TESTS_WIRE_H

#ifdef LIVE_WIRE
#include "lib/live_wire.h"
#else

#include "lib/test.h"

#include "base/rng.h"
#include "nic/portals.h"
#include "portals/process.h"

#define WIRE_PROCESSES    4
#define WIRE_MESSAGES     4096
#define WIRE_NID(i)       (100u + (i))
#define WIRE_PID(i)       7u
#define WIRE_UID(i)       (500u + (i))
#define WIRE_OTHER_PID(i) 8u
#define WIRE_FEATURES     7u
#define WIRE_HOLDS        true

#define STEP_TEST TEST

struct wire;

struct wire_process {
    struct wire *wire;
    struct portals *portals;
    struct portals_process process;
    uint32_t number;
    uint64_t raised, charged;
};

/* A message under way. `data` is filled when it leaves. */
struct wire_message {
    struct nic_message message;
    uint32_t from;
    struct portals_arrival *arrival; /* of a reply that has data: its own */
    uint8_t *data;
    bool has_data;
};

struct wire {
    struct wire_process process[WIRE_PROCESSES];
    struct wire_message queue[WIRE_MESSAGES];
    uint32_t queued;
    uint64_t carried, now;
    uint8_t before[1024];            /* of the fetch that is being answered */
    void (*on_wait)(struct wire *w); /* instead of carrying */
    void (*on_send)(struct wire *w, const struct nic_message *m);
    enum portals_sending at_once; /* of puts without acknowledgement; PORTALS_KEPT: on the wire */
};

/* A message at its target, in memory of its own. */
struct wire_arrival {
    struct portals_arrival arrival; /* must be first */
    struct nic_message message;
};

static inline struct portals_arrival *wire_arrival(struct portals *p, const struct nic_message *m) {
    struct wire_arrival *own = malloc(sizeof *own);
    struct portals_arrival arrival;
    portals_header(p, m, &arrival, NULL);
    own->message = *m;
    portals_arrival_keep(&own->arrival, &arrival, &own->message);
    return &own->arrival;
}

static inline void wire_done(struct portals *p, struct portals_arrival *a,
                             struct portals_ending how) {
    portals_done(p, a, how);
    free(a);
}

static inline enum portals_sending wire_send(void *context, struct portals_outgoing *out) {
    const struct nic_message *m = out->message;
    struct wire_process *from = context;
    struct wire *w = from->wire;
    if (w->on_send)
        w->on_send(w, m);
    if (w->at_once != PORTALS_KEPT && m->kind == NIC_PUT && m->ack_req == PTL_NO_ACK_REQ)
        return w->at_once;
    if (w->queued == WIRE_MESSAGES)
        TEST_FAIL("more than %d messages on the wire", WIRE_MESSAGES);
    struct wire_message *to = &w->queue[w->queued++];
    *to = (struct wire_message){*m, from->number, out->arrival, NULL, false};
    if (m->kind < NIC_ACK)
        CHECK(portals_outgoing_keep(from->portals, out, &to->message.initiator));
    CHECK(m->payload == 0 || m->kind != NIC_ACK);
    CHECK((out->arrival != NULL) == (m->kind == NIC_REPLY && m->payload > 0));
    to->data = malloc(m->payload + 1);
    if (out->arrival && out->arrival->kind == NIC_FETCH_ATOMIC) { /* it ends before this leaves */
        memcpy(to->data, w->before, m->payload);
        to->has_data = true;
    }
    return PORTALS_KEPT;
}

static inline void wire_raised(void *context) {
    ((struct wire_process *)context)->raised++;
}

static inline uint64_t wire_now(void *context) {
    return ((struct wire_process *)context)->wire->now;
}

static inline void wire_charge(void *context, enum portals_call call, uint64_t bytes) {
    (void)call, (void)bytes;
    ((struct wire_process *)context)->charged++;
}

/* ---- Carrying ---- */

static inline struct wire_process *wire_at(struct wire *w, struct nic_address address) {
    for (int i = 0; i < WIRE_PROCESSES; i++)
        if (nic_address_equal(portals_address(w->process[i].portals), address))
            return &w->process[i];
    return NULL;
}

typedef uint32_t wire_segments(struct portals *p, uint64_t number, uint64_t offset, uint64_t length,
                               struct nic_segment *segments, uint32_t room);

/* `number` is the address of an arrival. */
static inline uint32_t wire_arrival_segments(struct portals *p, uint64_t number, uint64_t offset,
                                             uint64_t length, struct nic_segment *segments,
                                             uint32_t room) {
    (void)p;
    return portals_arrival_segments((const struct portals_arrival *)(uintptr_t)number, offset,
                                    length, segments, room);
}

/* Copies between `data` and the memory that `find` tells of, a few pieces at a time. */
static inline uint64_t wire_copy(struct portals *p, wire_segments *find, uint64_t number,
                                 uint8_t *data, uint64_t length, bool to_host) {
    struct nic_segment s[2];
    uint64_t done = 0;
    for (uint32_t count; (count = find(p, number, done, length - done, s, 2)) > 0;)
        for (uint32_t i = 0; i < count; i++) {
            memcpy(to_host ? s[i].host : data + done, to_host ? data + done : s[i].host,
                   s[i].bytes);
            done += s[i].bytes;
        }
    return done;
}

/* It leaves: its data is read, its source may be used again. */
static inline void wire_leave(struct wire *w, struct wire_message *m) {
    struct portals *p = w->process[m->from].portals;
    uint64_t bytes = m->message.payload;
    if (m->message.kind == NIC_REPLY) {
        if (bytes && !m->has_data) {
            CHECK_EQ(
                wire_copy(p, wire_arrival_segments, (uintptr_t)m->arrival, m->data, bytes, false),
                bytes);
            wire_done(p, m->arrival, (struct portals_ending){0});
            m->arrival = NULL;
        }
    } else if (m->message.kind != NIC_ACK) {
        if (bytes)
            CHECK_EQ(
                wire_copy(p, portals_source_segments, m->message.initiator, m->data, bytes, false),
                bytes);
        portals_sent(p, m->message.initiator, PTL_NI_OK);
    }
    m->has_data = true;
}

/* A request whose header has arrived. */
struct wire_transit {
    struct wire_message m;
    struct wire_process *to;
    struct portals_arrival *arrival;
};

static inline struct wire_message wire_take(struct wire *w, uint32_t i) {
    CHECK(i < w->queued);
    struct wire_message m = w->queue[i];
    memmove(&w->queue[i], &w->queue[i + 1], (--w->queued - i) * sizeof m);
    w->carried++;
    return m;
}

/* Header first: the i-th of the queue, a request. */
static inline struct wire_transit wire_begin(struct wire *w, uint32_t i) {
    struct wire_transit t = {wire_take(w, i), NULL, NULL};
    wire_leave(w, &t.m);
    t.to = wire_at(w, t.m.message.target);
    CHECK(t.to);
    t.arrival = wire_arrival(t.to->portals, &t.m.message);
    return t;
}

static inline void wire_end(struct wire *w, struct wire_transit *t, struct portals_ending how) {
    struct portals *p = t->to->portals;
    struct portals_arrival *d = t->arrival;
    uint64_t bytes = t->m.message.payload;
    bool later = false;
    if (!d->fail && !how.fail) {
        switch (d->kind) {
        case NIC_PUT:
            wire_copy(p, wire_arrival_segments, (uintptr_t)d, t->m.data, bytes, true);
            break;
        case NIC_GET: /* a reply with data ends when it has left */
            later = d->mlength > 0;
            portals_reply(p, d, NULL);
            break;
        case NIC_ATOMIC:
            portals_apply(d, 0, t->m.data, bytes, NULL);
            break;
        case NIC_FETCH_ATOMIC:
            portals_apply(d, 0, t->m.data, bytes, w->before);
            portals_reply(p, d, NULL);
            break;
        }
    }
    if (!later)
        wire_done(p, d, how);
    free(t->m.data);
}

static inline void wire_answer(struct wire *w, uint32_t i) {
    struct wire_message m = wire_take(w, i);
    wire_leave(w, &m);
    struct wire_process *to = wire_at(w, m.message.target);
    CHECK(to);
    if (m.message.payload)
        wire_copy(to->portals, portals_reply_segments, m.message.initiator, m.data,
                  m.message.payload, true);
    portals_answered(to->portals, m.message.initiator, &m.message, PTL_NI_OK);
    free(m.data);
}

static inline void wire_carry(struct wire *w, uint32_t i) {
    CHECK(i < w->queued);
    if (w->queue[i].message.kind >= NIC_ACK) {
        wire_answer(w, i);
        return;
    }
    if (!wire_at(w, w->queue[i].message.target)) { /* nobody is there */
        struct wire_message m = wire_take(w, i);
        portals_failed(w->process[m.from].portals, m.message.initiator, PTL_NI_UNDELIVERABLE);
        free(m.data);
        return;
    }
    struct wire_transit t = wire_begin(w, i);
    wire_end(w, &t, (struct portals_ending){0});
}

static inline void wire_run(struct wire *w) {
    while (w->queued)
        wire_carry(w, 0);
    for (int i = 0; i < WIRE_PROCESSES; i++) {
        const char *what = portals_check(w->process[i].portals);
        if (what)
            TEST_FAIL("process %d: %s", i, what);
    }
}

/* In any order. */
static inline void wire_run_shuffled(struct wire *w, struct rng *r) {
    while (w->queued)
        wire_carry(w, rng_below(r, w->queued));
}

static inline void wire_wait(void *context, uint64_t deadline) {
    struct wire *w = ((struct wire_process *)context)->wire;
    if (w->on_wait) {
        void (*once)(struct wire *) = w->on_wait;
        w->on_wait = NULL;
        once(w);
    } else if (w->queued) {
        wire_carry(w, 0);
    } else if (deadline != UINT64_MAX) {
        w->now = deadline;
    } else {
        TEST_FAIL("%s waits forever",
                  portals_call_name(((struct wire_process *)context)->process.call));
    }
}

/* ---- Set up ---- */

static inline struct wire *wire_new(void) {
    struct wire *w = calloc(1, sizeof *w);
    w->at_once = PORTALS_KEPT;
    for (uint32_t i = 0; i < WIRE_PROCESSES; i++) {
        struct wire_process *own = &w->process[i];
        struct portals_config config;
        struct spin_error err;
        portals_config_default(&config, 4096);
        static const struct portals_host host = {
            .now = wire_now, .per_millisecond = 1000, .wait = wire_wait, .charge = wire_charge};
        config.address = (struct nic_address){WIRE_NID(i), WIRE_PID(i)};
        config.uid = WIRE_UID(i);
        config.features = WIRE_FEATURES;
        *own = (struct wire_process){.wire = w, .number = i};
        CHECK_EQ(portals_new(&own->portals, &config,
                             &(struct portals_owner){
                                 .context = own, .send = wire_send, .raised = wire_raised},
                             &err),
                 SPIN_OK);
        own->process.portals = own->portals;
        own->process.context = own;
        own->process.host = &host;
    }
    return w;
}

static inline void wire_free(struct wire *w) {
    for (uint32_t i = 0; i < w->queued; i++) {
        free(w->queue[i].data);
        if (!w->queue[i].has_data && w->queue[i].arrival)
            wire_done(w->process[w->queue[i].from].portals, w->queue[i].arrival,
                      (struct portals_ending){0});
    }
    for (int i = 0; i < WIRE_PROCESSES; i++)
        portals_free(w->process[i].portals);
    portals_enter(NULL);
    free(w);
}

/* Calls are process i's from now on. */
static inline void wire_as(struct wire *w, uint32_t i) {
    portals_enter(&w->process[i].process);
}

#endif

#define CHECK_OK(call) CHECK_EQ(call, PTL_OK)

/* All processes with one interface of these options; logical ones with the map 0, 1, 2, 3. */
static inline struct wire *wire_with(unsigned options, const ptl_ni_limits_t *limits,
                                     ptl_handle_ni_t *ni) {
    struct wire *w = wire_new();
    ptl_process_t map[WIRE_PROCESSES];
    for (uint32_t i = 0; i < WIRE_PROCESSES; i++) {
        map[i].phys.nid = WIRE_NID(i);
        map[i].phys.pid = WIRE_PID(i);
    }
    for (uint32_t i = 0; i < WIRE_PROCESSES; i++) {
        wire_as(w, i);
        CHECK_OK(PtlInit());
        CHECK_OK(PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, limits, NULL, ni));
        if (options & PTL_NI_LOGICAL)
            CHECK_OK(PtlSetMap(*ni, WIRE_PROCESSES, map));
    }
    wire_as(w, 0);
    return w;
}

static inline ptl_process_t wire_rank(uint32_t i) {
    ptl_process_t to = {.rank = 0};
    to.phys.pid = 0;
    to.rank = i;
    return to;
}

static inline ptl_process_t wire_phys(uint32_t i) {
    ptl_process_t to;
    to.phys.nid = WIRE_NID(i);
    to.phys.pid = WIRE_PID(i);
    return to;
}

#endif
