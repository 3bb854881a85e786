#include "live/live_auto.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/helper_thread.h"
#include "live/live_clock.h"

#define SELDOM 8u /* looks at shared memory for one at the socket, while that is busy */

enum watch { WATCH_OFF, WATCH_ON, WATCH_ENDS };

struct both {
    struct live_transport transport;
    struct live_transport *shm, *far;
    uint32_t nid;
    uint32_t far_bytes;    /* of data in a packet to other nodes */
    _Atomic bool active;   /* it is used */
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
        b->far->calls->sleep(b->far, UINT64_MAX);
        uint32_t on = WATCH_ON;
        if (!b->far->calls->ready(b->far)) {
            b->far->calls->disarm(b->far); /* somebody has rung: the state may be another */
            continue;
        }
        atomic_store(&b->readable, true);
        atomic_compare_exchange_strong(&b->watch, &on, WATCH_OFF);
        b->shm->calls->ring(b->shm);
    }
    return NULL;
}

static int start_watch(struct both *b, struct spin_error *err) {
    atomic_store(&b->watch, WATCH_ON);
    int code = helper_thread_start(&b->thread, watch_socket, b);
    if (code)
        return spin_fail(err, SPIN_ENOMEM, "no thread for peers on other nodes: %s",
                         strerror(code));
    b->has_thread = true;
    return 0;
}

/* ---- packets ---- */

static void add_up(struct both *b) {
    uint64_t malformed = b->shm->malformed + b->far->malformed;
    if (b->transport.malformed != malformed) /* others may be reading them */
        b->transport.malformed = malformed;
    if (b->transport.strangers != b->far->strangers)
        b->transport.strangers = b->far->strangers;
}

static bool both_send_short(struct live_transport *t, const struct nic_message *message,
                            uint32_t number, const uint8_t *data) {
    struct both *b = both_of(t);
    return message->target.nid == b->nid &&
           b->shm->calls->send_short(b->shm, message, number, data);
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
    enum live_sent sent = b->far->calls->send(b->far, packet);
    t->absent |= b->far->absent;
    return sent;
}

static bool both_reliable(struct live_transport *t, struct nic_address peer) {
    struct both *b = both_of(t);
    const struct live_transport_calls *far = b->far->calls;
    return peer.nid == b->nid || (far->reliable && far->reliable(b->far, peer));
}

static enum nic_status both_fetch(struct live_transport *t, uint8_t *to, const uint8_t *from,
                                  uint64_t bytes) {
    struct both *b = both_of(t);
    return b->shm->calls->fetch(b->shm, to, from, bytes);
}

static void both_stored(struct live_transport *t, const uint8_t *to) {
    struct both *b = both_of(t);
    b->shm->calls->stored(b->shm, to);
}

static bool both_lends(struct live_transport *t, struct nic_address target) {
    struct both *b = both_of(t);
    return target.nid == b->nid && b->shm->calls->lends(b->shm, target);
}

static uint32_t both_in_place(struct live_transport *t, struct nic_address target) {
    struct both *b = both_of(t);
    const struct live_transport_calls *far = b->far->calls;
    return target.nid != b->nid && far->in_place ? far->in_place(b->far, target) : 0;
}

static uint32_t both_packet_bytes(struct live_transport *t, struct nic_address target) {
    const struct both *b = both_of(t);
    return target.nid == b->nid ? UINT32_MAX : b->far_bytes;
}

static void both_flush(struct live_transport *t) {
    struct both *b = both_of(t);
    if (b->far->calls->flush)
        b->far->calls->flush(b->far);
}

static bool both_ready(struct live_transport *t) {
    struct both *b = both_of(t);
    if (b->shm->calls->ready(b->shm) || atomic_load_explicit(&b->readable, memory_order_relaxed))
        return true;
    if (!is_active(b) || atomic_fetch_add_explicit(&b->looks, 1, memory_order_relaxed) % SELDOM ||
        !b->far->calls->ready(b->far))
        return false;
    atomic_store(&b->readable, true); /* whoever asks next sees the same */
    return true;
}

/* Strangers do not make it active: an answer does. */
static void poll_far(struct both *b) {
    b->far->calls->poll(b->far);
    atomic_store(&b->readable, b->far->calls->ready(b->far));
    if (!is_active(b))
        set_watch(b, WATCH_ON);
}

static void both_poll(struct live_transport *t) {
    struct both *b = both_of(t);
    bool busy = b->shm->calls->ready(b->shm);
    if (busy)
        b->shm->calls->poll(b->shm);
    if (atomic_load(&b->readable) || (is_active(b) && (!busy || ++b->polls % SELDOM == 0)))
        poll_far(b);
    add_up(b);
}

static uint64_t both_check(struct live_transport *t, uint64_t now_ns) {
    struct both *b = both_of(t);
    b->shm->absent = t->absent;
    uint64_t near_ns = b->shm->calls->check(b->shm, now_ns);
    uint64_t far_ns = b->far->calls->check(b->far, now_ns);
    t->absent = b->shm->absent || b->far->absent;
    add_up(b);
    return near_ns < far_ns ? near_ns : far_ns;
}

/* ---- waiting ---- */

static bool both_arm(struct live_transport *t) {
    struct both *b = both_of(t);
    if (b->far->calls->ready(b->far))
        atomic_store(&b->readable, true);
    if (atomic_load(&b->readable) || !b->shm->calls->arm(b->shm))
        return false;
    set_watch(b, WATCH_ON); /* rings at once if something has come meanwhile */
    return true;
}

static bool both_hinders(struct live_transport *t) {
    struct live_transport *shm = both_of(t)->shm;
    return shm->calls->hinders(shm);
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
    b->near_only = !b->far->calls->take_pid(b->far, pid);
    return true;
}

static void both_leave(struct live_transport *t) {
    struct both *b = both_of(t);
    b->far->calls->leave(b->far);
    b->shm->calls->leave(b->shm);
}

static void both_close(struct live_transport *t) {
    struct both *b = both_of(t);
    if (b->has_thread) {
        set_watch(b, WATCH_ENDS);
        b->far->calls->ring(b->far);
        pthread_join(b->thread, NULL);
    }
    if (b->shm)
        b->shm->calls->close(b->shm);
    if (b->far)
        b->far->calls->close(b->far);
    free(b);
}

static const struct live_transport_calls calls = {.close = both_close,
                                                  .leave = both_leave,
                                                  .address = both_address,
                                                  .take_pid = both_take_pid,
                                                  .reliable = both_reliable,
                                                  .send = both_send,
                                                  .send_short = both_send_short,
                                                  .packet_bytes = both_packet_bytes,
                                                  .lends = both_lends,
                                                  .in_place = both_in_place,
                                                  .fetch = both_fetch,
                                                  .stored = both_stored,
                                                  .flush = both_flush,
                                                  .ready = both_ready,
                                                  .poll = both_poll,
                                                  .hinders = both_hinders,
                                                  .check = both_check,
                                                  .arm = both_arm,
                                                  .disarm = both_disarm,
                                                  .sleep = both_sleep,
                                                  .ring = both_ring};

/* How other nodes are reached. */
static int open_far(struct both *b, const struct live_far *far, uint32_t pid,
                    struct spin_error *err) {
    if (far->fabric) {
        struct live_fabric_options fabric = *far->fabric;
        fabric.pid = pid;
        b->far_bytes = UINT32_MAX;
        return live_fabric_new(&b->far, &fabric, err);
    }
    struct live_udp_options udp = *far->udp;
    udp.pid = pid;
    int code = live_udp_new(&b->far, &udp, err);
    b->far_bytes = code ? 0 : live_udp_mtu(b->far);
    return code;
}

/* One pid for both, from the top: another process may have it in one of them. In a job of PMIx
 * libfabric has its own. */
static int open_both(struct both *b, const struct live_shm_options *shm, const struct live_far *far,
                     struct spin_error *err) {
    struct live_shm_options near = *shm;
    bool any = shm->pid >= LIVE_PIDS && !far->fabric;
    for (uint32_t pid = any ? LIVE_PIDS - 1 : shm->pid;; pid--) {
        int code = open_far(b, far, pid, err);
        if (!code) {
            near.nid = b->far->calls->address(b->far).nid;
            near.pid = b->far->calls->address(b->far).pid;
            code = live_shm_new(&b->shm, &near, err);
        }
        if (code != SPIN_ELIMIT || !any || !pid)
            return code;
        if (b->far)
            b->far->calls->close(b->far);
        b->far = NULL;
    }
}

int live_auto_new(struct live_transport **out, const struct live_shm_options *shm,
                  const struct live_far *far, struct spin_error *err) {
    struct both *b = calloc(1, sizeof *b);
    if (!b)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    b->transport.calls = &calls;
    int code = open_both(b, shm, far, err);
    if (!code) {
        b->nid = both_address(&b->transport).nid;
        b->transport.credit_packets = b->far->credit_packets;
        code = start_watch(b, err);
    }
    if (!code) {
        *out = &b->transport;
        return 0;
    }
    bool without =
        !b->far && !far->fabric && !far->udp->interface && !far->udp->faults && !far->udp->auth;
    both_close(&b->transport);
    struct live_shm_options near = *shm;
    uint32_t nid = without ? live_udp_nid(far->udp, NULL) : 0;
    near.nid = nid ? nid : shm->nid;
    return without ? live_shm_new(out, &near, err) : code;
}
