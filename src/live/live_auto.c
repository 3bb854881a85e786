#include "live/live_auto.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "live/live_clock.h"

#define SELDOM 8u /* looks at shared memory for one at the socket, while that is busy */

enum watch { WATCH_OFF, WATCH_ON, WATCH_ENDS };

struct both {
    struct live_transport transport;
    struct live_transport *shm, *udp;
    uint32_t nid;
    _Atomic bool active;   /* UDP is used */
    _Atomic bool readable; /* the watch has seen something */
    _Atomic uint32_t looks;
    uint32_t polls;
    _Atomic uint32_t watch; /* enum watch: futex */
    pthread_t thread;
    bool has_thread;
    bool near_only; /* the pid that the program wanted has no port here */
};

static struct both *both_of(struct live_transport *t) {
    return (struct both *)t;
}

static bool is_active(struct both *b) {
    return atomic_load_explicit(&b->active, memory_order_relaxed);
}

/* ---- the watch ---- */

static void set_watch(struct both *b, uint32_t watch) {
    if (atomic_exchange(&b->watch, watch) != watch)
        live_futex_wake(&b->watch, 1);
}

/* Told once; then it waits until somebody wants to know again. */
static void *watch_socket(void *context) {
    struct both *b = context;
    for (uint32_t state; (state = atomic_load(&b->watch)) != WATCH_ENDS;) {
        if (state == WATCH_OFF) {
            live_futex_wait(&b->watch, WATCH_OFF, UINT64_MAX);
            continue;
        }
        b->udp->calls->sleep(b->udp, UINT64_MAX);
        uint32_t on = WATCH_ON;
        if (!b->udp->calls->ready(b->udp)) {
            b->udp->calls->disarm(b->udp); /* somebody has rung: the state may be another */
            continue;
        }
        atomic_store(&b->readable, true);
        atomic_compare_exchange_strong(&b->watch, &on, WATCH_OFF);
        b->shm->calls->ring(b->shm);
    }
    return NULL;
}

/* The program's signals are not for this thread. */
static int start_watch(struct both *b, struct spin_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&b->watch, WATCH_ON);
    int code = pthread_create(&b->thread, NULL, watch_socket, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        return spin_fail(err, SPIN_ENOMEM, "no thread for UDP: %s", strerror(code));
    b->has_thread = true;
    return 0;
}

/* ---- packets ---- */

static void add_up(struct both *b) {
    uint64_t malformed = b->shm->malformed + b->udp->malformed;
    if (b->transport.malformed != malformed) /* others may be reading them */
        b->transport.malformed = malformed;
    if (b->transport.strangers != b->udp->strangers)
        b->transport.strangers = b->udp->strangers;
}

static enum live_sent both_send(struct live_transport *t, const struct nic_packet *packet) {
    struct both *b = both_of(t);
    if (packet->target.nid == b->nid) {
        enum live_sent sent = b->shm->calls->send(b->shm, packet);
        t->absent = b->shm->absent;
        return sent;
    }
    if (b->near_only)
        return LIVE_NOWHERE;
    atomic_store_explicit(&b->active, true, memory_order_relaxed);
    return b->udp->calls->send(b->udp, packet);
}

static bool both_reliable(struct live_transport *t, struct nic_address peer) {
    return peer.nid == both_of(t)->nid;
}

static bool both_lends(struct live_transport *t, struct nic_address target) {
    struct both *b = both_of(t);
    return target.nid == b->nid && b->shm->calls->lends(b->shm, target);
}

static uint32_t both_packet_bytes(struct live_transport *t, struct nic_address target) {
    const struct both *b = both_of(t);
    return target.nid == b->nid ? UINT32_MAX : live_udp_mtu(b->udp);
}

static void both_flush(struct live_transport *t) {
    struct both *b = both_of(t);
    b->udp->calls->flush(b->udp);
}

static bool both_ready(struct live_transport *t) {
    struct both *b = both_of(t);
    if (b->shm->calls->ready(b->shm) || atomic_load_explicit(&b->readable, memory_order_relaxed))
        return true;
    if (!is_active(b) || atomic_fetch_add_explicit(&b->looks, 1, memory_order_relaxed) % SELDOM ||
        !b->udp->calls->ready(b->udp))
        return false;
    atomic_store(&b->readable, true); /* whoever asks next sees the same */
    return true;
}

/* Strangers do not make it active: an answer does. */
static void poll_udp(struct both *b) {
    b->udp->calls->poll(b->udp);
    atomic_store(&b->readable, b->udp->calls->ready(b->udp));
    if (!is_active(b))
        set_watch(b, WATCH_ON);
}

static void both_poll(struct live_transport *t) {
    struct both *b = both_of(t);
    bool busy = b->shm->calls->ready(b->shm);
    if (busy)
        b->shm->calls->poll(b->shm);
    if (atomic_load(&b->readable) || (is_active(b) && (!busy || ++b->polls % SELDOM == 0)))
        poll_udp(b);
    add_up(b);
}

static uint64_t both_check(struct live_transport *t, uint64_t now_ns) {
    struct both *b = both_of(t);
    b->shm->absent = t->absent;
    uint64_t due_ns = b->shm->calls->check(b->shm, now_ns);
    t->absent = b->shm->absent;
    add_up(b);
    return due_ns;
}

/* ---- waiting ---- */

static bool both_arm(struct live_transport *t) {
    struct both *b = both_of(t);
    if (b->udp->calls->ready(b->udp))
        atomic_store(&b->readable, true);
    if (atomic_load(&b->readable) || !b->shm->calls->arm(b->shm))
        return false;
    set_watch(b, WATCH_ON); /* rings at once if something has come meanwhile */
    return true;
}

static void both_disarm(struct live_transport *t) {
    struct both *b = both_of(t);
    b->shm->calls->disarm(b->shm);
}

static void both_sleep(struct live_transport *t, uint64_t until_ns) {
    struct both *b = both_of(t);
    b->shm->calls->sleep(b->shm, until_ns);
}

static void both_ring(struct live_transport *t) {
    struct both *b = both_of(t);
    b->shm->calls->ring(b->shm);
}

/* ---- the process ---- */

static struct nic_address both_address(const struct live_transport *t) {
    const struct both *b = (const struct both *)t;
    return b->shm->calls->address(b->shm);
}

/* Somebody else's port is no reason to refuse: then nobody elsewhere knows this process. */
static bool both_take_pid(struct live_transport *t, uint32_t pid) {
    struct both *b = both_of(t);
    if (is_active(b) || !b->shm->calls->take_pid(b->shm, pid))
        return false;
    b->near_only = !b->udp->calls->take_pid(b->udp, pid);
    return true;
}

static void both_leave(struct live_transport *t) {
    struct both *b = both_of(t);
    b->udp->calls->leave(b->udp);
    b->shm->calls->leave(b->shm);
}

static void both_close(struct live_transport *t) {
    struct both *b = both_of(t);
    if (b->has_thread) {
        set_watch(b, WATCH_ENDS);
        b->udp->calls->ring(b->udp);
        pthread_join(b->thread, NULL);
    }
    if (b->shm)
        b->shm->calls->close(b->shm);
    if (b->udp)
        b->udp->calls->close(b->udp);
    free(b);
}

static const struct live_transport_calls calls = {.close = both_close,
                                                  .leave = both_leave,
                                                  .address = both_address,
                                                  .take_pid = both_take_pid,
                                                  .reliable = both_reliable,
                                                  .send = both_send,
                                                  .packet_bytes = both_packet_bytes,
                                                  .lends = both_lends,
                                                  .flush = both_flush,
                                                  .ready = both_ready,
                                                  .poll = both_poll,
                                                  .check = both_check,
                                                  .arm = both_arm,
                                                  .disarm = both_disarm,
                                                  .sleep = both_sleep,
                                                  .ring = both_ring};

/* One pid for both, from the top: another process may have it in one of them. */
static int open_both(struct both *b, const struct live_shm_options *shm,
                     const struct live_udp_options *udp, struct spin_error *err) {
    struct live_shm_options near = *shm;
    struct live_udp_options far = *udp;
    bool any = shm->pid >= LIVE_PIDS;
    for (uint32_t pid = any ? LIVE_PIDS - 1 : shm->pid;; pid--) {
        near.pid = far.pid = pid;
        int code = live_udp_new(&b->udp, &far, err);
        if (!code) {
            near.nid = b->udp->calls->address(b->udp).nid;
            code = live_shm_new(&b->shm, &near, err);
        }
        if (code != SPIN_ELIMIT || !any || !pid)
            return code;
        if (b->udp)
            b->udp->calls->close(b->udp);
        b->udp = NULL;
    }
}

int live_auto_new(struct live_transport **out, const struct live_shm_options *shm,
                  const struct live_udp_options *udp, struct spin_error *err) {
    struct both *b = calloc(1, sizeof *b);
    if (!b)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    b->transport.calls = &calls;
    int code = open_both(b, shm, udp, err);
    if (!code) {
        b->nid = both_address(&b->transport).nid;
        b->transport.credit_packets = b->udp->credit_packets;
        code = start_watch(b, err);
    }
    if (!code) {
        *out = &b->transport;
        return 0;
    }
    bool without = !b->udp && !udp->interface && !udp->faults;
    both_close(&b->transport);
    struct live_shm_options near = *shm;
    uint32_t nid = without ? live_udp_nid(udp) : 0;
    near.nid = nid ? nid : shm->nid;
    return without ? live_shm_new(out, &near, err) : code;
}
