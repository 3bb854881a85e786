#include "live/live_shm.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>

#include "base/error.h"
#include "live/live_clock.h"
#include "live/live_shm_private.h"

#define BATCH    64u /* packets of one lane, then another's turn */
#define RETRY_NS LIVE_MS

struct live_shm_peer *shm_find_peer(struct live_shm *s, struct nic_address address) {
    if (address.nid != s->o.nid || address.pid >= LIVE_PIDS)
        return NULL;
    struct live_shm_peer *peer = s->peer[address.pid];
    if (peer)
        return peer;
    peer = s->peer[address.pid] = calloc(1, sizeof *peer);
    if (peer) {
        peer->address = address;
        peer->view.pidfd = -1;
        s->known[s->knowns++] = peer;
    }
    return peer;
}

/* ---- peers come and go ---- */

static bool may_go_on(struct live_shm *s, struct live_shm_peer *peer) {
    return peer->refused && peer->out_state != OUT_NONE && shm_is_out_open(s, peer);
}

/* It refused a packet and may take it now. */
static void go_on(struct live_shm *s, struct live_shm_peer *peer) {
    if (peer->bulk_left) {
        if (!shm_push_bulk(s, peer))
            return;
        s->o.receiver.copied(s->o.receiver.context, peer->address, peer->bulk_bad);
    }
    if (!shm_has_room(s, peer))
        return;
    shm_accept_again(s, peer);
    s->o.receiver.room(s->o.receiver.context, peer->address);
}

/* What it had answered and sent before it ended counts. */
static void lose(struct live_shm *s, struct live_shm_peer *peer) {
    if (peer->offer == OFFER_MADE && shm_is_answered(peer) && may_go_on(s, peer))
        go_on(s, peer);
    shm_drain_all(s, peer);
    peer->in_life = 0;
    peer->pieces = 0;
    peer->bulk_left = 0;
    peer->offer = OFFER_NONE;
    box_close(&peer->view);
    peer->out_state = OUT_NONE;
    shm_accept_again(s, peer);
    s->o.receiver.lost(s->o.receiver.context, peer->address);
}

static void poll_lane(struct live_shm *s, struct live_shm_peer *peer) {
    uint32_t lanes = atomic_load_explicit(&s->lanes, memory_order_relaxed);
    for (uint32_t i = 0; i < lanes; i++)
        if (atomic_load_explicit(&s->lane[i], memory_order_relaxed) == peer)
            return;
    peer->in.ring = &box_lane(&s->box, peer->address.pid)->ring;
    atomic_store_explicit(&s->lane[lanes], peer, memory_order_release);
    atomic_store_explicit(&s->lanes, lanes + 1, memory_order_release);
}

static void give_bulk(struct live_shm *s, struct live_shm_peer *peer) {
    if (peer->gave_bulk || !box_give_bulk(&s->box, peer->address.pid))
        return;
    peer->gave_bulk = true;
    atomic_store(&box_lane(&s->box, peer->address.pid)->has_bulk, 1);
}

/* The process with that pid wants to send: a new one, or one that we know under another life. */
static void accept_claim(struct live_shm *s, uint32_t pid) {
    struct live_box_lane *lane = box_lane(&s->box, pid);
    struct live_shm_peer *peer = shm_find_peer(s, (struct nic_address){s->o.nid, pid});
    uint64_t claim = atomic_load(&lane->claim);
    if (peer && claim && claim == peer->in_life)
        give_bulk(s, peer);
    if (peer && (!claim || claim == peer->in_life))
        return;
    if (!peer || (s->o.receiver.met && !s->o.receiver.met(s->o.receiver.context, peer->address))) {
        /* No memory: it is looked at again. */
        atomic_fetch_or(&s->box.header->claims[pid / 64], 1ull << pid % 64);
        atomic_store(&s->box.header->attention, 1);
        return;
    }
    if (peer->in_life || (peer->view.header && peer->view.life != claim))
        lose(s, peer);
    if (!shm_open_view(s, peer) || peer->view.life != claim) {
        s->transport.malformed++;
        return;
    }
    atomic_store_explicit(&lane->ring.head, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->ring.wants_room, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < RING_CLEAR; i++)
        atomic_store_explicit(&lane->ring.line[i].word, 0, memory_order_relaxed);
    peer->in.told = 0;
    atomic_store_explicit(&peer->in.head, 0, memory_order_relaxed);
    peer->in_life = claim;
    peer->pieces = 0;
    peer->gave_bulk = false;
    peer->bulk_taken = 0;
    atomic_store(&lane->has_bulk, 0);
    atomic_store(&lane->bulk_head, 0);
    peer->may_fetch = NOT_TRIED;
    peer->choice = (struct live_offer_choice){0};
    peer->answers = 0;
    atomic_store(&lane->offer.answers, 0);
    atomic_store(&lane->offer.left, 0);
    atomic_store(&lane->offer.helps, 0);
    peer->was_there = true;
    poll_lane(s, peer);
    atomic_store(&lane->accepted, claim);
    box_attend(peer->view.header);
}

/* Looks at all that is not in a lane. */
static void attend(struct live_shm *s) {
    struct live_box_header *h = s->box.header;
    if (!atomic_load_explicit(&h->attention, memory_order_relaxed))
        return;
    atomic_exchange(&h->attention, 0); /* before the looks: what comes later sets it again */
    for (uint32_t i = 0; i < LIVE_PIDS / 64; i++)
        for (uint64_t bits = atomic_load(&h->claims[i]) ? atomic_exchange(&h->claims[i], 0) : 0;
             bits; bits &= bits - 1)
            accept_claim(s, 64 * i + (uint32_t)__builtin_ctzll(bits));
}

static void poll_refused(struct live_shm *s) {
    for (uint32_t i = 0; s->refused && i < s->knowns; i++)
        if (may_go_on(s, s->known[i]))
            go_on(s, s->known[i]);
}

static void shm_poll(struct live_transport *t) {
    struct live_shm *s = shm_of(t);
    attend(s);
    uint32_t lanes = atomic_load_explicit(&s->lanes, memory_order_relaxed);
    s->enough = false;
    for (uint32_t i = 0; i < lanes && !s->enough; i++) {
        s->turn = s->turn + 1 < lanes ? s->turn + 1 : 0;
        shm_drain(s, atomic_load_explicit(&s->lane[s->turn], memory_order_relaxed), BATCH);
    }
    if (s->refused)
        poll_refused(s);
}

static inline bool has_records(struct live_shm *s) {
    uint32_t lanes = atomic_load_explicit(&s->lanes, memory_order_acquire);
    for (uint32_t i = 0; i < lanes; i++) {
        struct live_shm_peer *peer = atomic_load_explicit(&s->lane[i], memory_order_relaxed);
        if (ring_peek(&peer->in) && atomic_load_explicit(&peer->in_life, memory_order_relaxed))
            return true;
    }
    return atomic_load_explicit(&s->box.header->attention, memory_order_acquire);
}

uint32_t shm_tell_processor(struct live_shm *s) {
    uint32_t here = (uint32_t)(sched_getcpu() + 1);
    _Atomic uint32_t *told = &s->box.header->processor;
    if (atomic_load_explicit(told, memory_order_relaxed) != here) /* beside the bell */
        atomic_store_explicit(told, here, memory_order_relaxed);
    return here;
}

/* Each says where it waits, and where it is when it has to wake a peer: one that has gone elsewhere
 * since, and does not wait there, is the reason for one sleep and not for each. */
static bool shm_hinders(struct live_transport *t) {
    struct live_shm *s = shm_of(t);
    uint32_t here = shm_tell_processor(s);
    for (uint32_t i = 0; here && i < s->knowns; i++) {
        struct live_box_header *h = s->known[i]->view.header;
        if (h && atomic_load_explicit(&h->processor, memory_order_relaxed) == here &&
            !atomic_load_explicit(&h->bell, memory_order_relaxed))
            return true;
    }
    return false;
}

static bool shm_ready(struct live_transport *t) {
    return has_records(shm_of(t));
}

/* A peer that is not there: until when it is waited for. */
static bool is_given_up(struct live_shm *s, struct live_shm_peer *peer, uint64_t now_ns) {
    return peer->out_state == OUT_NONE && !shm_is_out_open(s, peer) &&
           peer->out_state == OUT_NONE && now_ns >= peer->given_up_ns;
}

static uint64_t shm_check(struct live_transport *t, uint64_t now_ns) {
    struct live_shm *s = shm_of(t);
    uint64_t again_ns = UINT64_MAX;
    for (uint32_t i = 0; i < s->knowns; i++) {
        struct live_shm_peer *peer = s->known[i];
        if ((peer->view.header && box_ended(&peer->view)) ||
            (peer->refused && is_given_up(s, peer, now_ns)))
            lose(s, peer);
        if (peer->refused && peer->out_state == OUT_NONE)
            again_ns = now_ns + RETRY_NS;
    }
    return again_ns;
}

/* ---- sleeping ---- */

static bool refused_may_go_on(struct live_shm *s) {
    for (uint32_t i = 0; s->refused && i < s->knowns; i++) {
        struct live_shm_peer *peer = s->known[i];
        if (may_go_on(s, peer) && shm_has_room(s, peer) &&
            (!peer->bulk_left || shm_bulk_may_go_on(peer)))
            return true;
    }
    return false;
}

static bool shm_arm(struct live_transport *t) {
    struct live_shm *s = shm_of(t);
    atomic_store(&s->box.header->bell, 1);
    atomic_thread_fence(memory_order_seq_cst); /* then look: who stores later sees the bell */
    if (!has_records(s) && !refused_may_go_on(s))
        return true;
    atomic_store(&s->box.header->bell, 0);
    return false;
}

static void shm_disarm(struct live_transport *t) {
    _Atomic uint32_t *bell = &shm_of(t)->box.header->bell;
    if (atomic_load_explicit(bell, memory_order_relaxed)) /* peers read it: it is seldom written */
        atomic_store_explicit(bell, 0, memory_order_relaxed);
}

static void shm_sleep(struct live_transport *t, uint64_t until_ns) {
    live_futex_wait(&shm_of(t)->box.header->bell, 1, until_ns);
}

static void shm_ring(struct live_transport *t) {
    _Atomic uint32_t *bell = &shm_of(t)->box.header->bell;
    atomic_store(bell, 0);
    live_futex_wake(bell, INT_MAX);
}

/* ---- the process ---- */

static bool shm_reliable(struct live_transport *t, struct nic_address peer) {
    (void)t;
    (void)peer;
    return true;
}

static struct nic_address shm_address(const struct live_transport *t) {
    const struct live_shm *s = (const struct live_shm *)t;
    return (struct nic_address){s->box.header->nid, s->box.header->pid};
}

static bool shm_take_pid(struct live_transport *t, uint32_t pid) {
    struct live_shm *s = shm_of(t);
    struct live_box box;
    if (atomic_load(&s->lanes)) /* others know it by the pid that it has */
        return false;
    if (box_make(&box, s->o.folder, s->o.nid, pid, NULL))
        return false;
    shm_ring(t); /* who sleeps on the old bell would not hear the new one */
    box_replace(&s->box, &box);
    return true;
}

static void shm_leave(struct live_transport *t) {
    box_leave(&shm_of(t)->box);
}

static void shm_close(struct live_transport *t) {
    struct live_shm *s = shm_of(t);
    box_free(&s->box);
    for (uint32_t i = 0; i < s->knowns; i++) {
        box_close(&s->known[i]->view);
        free(s->known[i]);
    }
    free(s);
}

static const struct live_transport_calls calls = {.close = shm_close,
                                                  .leave = shm_leave,
                                                  .address = shm_address,
                                                  .take_pid = shm_take_pid,
                                                  .reliable = shm_reliable,
                                                  .send = shm_send,
                                                  .send_short = shm_send_short,
                                                  .lends = shm_lends,
                                                  .fetch = shm_fetch,
                                                  .stored = shm_stored,
                                                  .ready = shm_ready,
                                                  .poll = shm_poll,
                                                  .hinders = shm_hinders,
                                                  .check = shm_check,
                                                  .arm = shm_arm,
                                                  .disarm = shm_disarm,
                                                  .sleep = shm_sleep,
                                                  .ring = shm_ring};

int live_shm_new(struct live_transport **out, const struct live_shm_options *options,
                 struct spin_error *err) {
    struct live_shm *s = calloc(1, sizeof *s);
    if (!s)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    s->transport.calls = &calls;
    s->o = *options;
    int code = box_make(&s->box, options->folder, options->nid, options->pid, err);
    if (code)
        free(s);
    else
        *out = &s->transport;
    return code;
}
