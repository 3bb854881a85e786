#include "live/live_offer.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "live/live_box.h"
#include "live/live_clock.h"

#define OFFER_UNIT 4096u
#define SHARE_MAX  (128u) /* units: half of the least that is worth two system calls each */

static uint32_t front_of(uint64_t left) {
    return (uint32_t)left;
}

static uint32_t back_of(uint64_t left) {
    return (uint32_t)(left >> 32);
}

static uint64_t left_of(uint32_t front, uint32_t back) {
    return front | (uint64_t)back << 32;
}

static uint32_t units_of(uint64_t bytes) {
    return (uint32_t)((bytes + OFFER_UNIT - 1) / OFFER_UNIT);
}

/* How much of what is left one takes at a time: a system call costs as much as copying 64 KiB, so
 * a message of a MiB is two halves; of more than that half, so that both end together. */
static uint32_t share_of(uint32_t left, uint64_t bytes) {
    uint32_t half = units_of(bytes / 2), least = half < SHARE_MAX ? half : SHARE_MAX;
    uint32_t share = left / 2 > least ? left / 2 : least;
    return share < left ? share : left;
}

/* ---- the receiver ---- */

/* What is slower than before may be so because the processor was taken away, or because the message
 * before went the other way: by itself such a one counts little. */
void offer_measured(uint64_t *ps, uint64_t bytes, uint64_t ns) {
    uint64_t now = ns * 1024 / (bytes / 1024 + 1) + 1, most = *ps / 32 + 1;
    if (!*ps || now <= *ps)
        *ps = now;
    else
        *ps += (now - *ps) / 8 < most ? (now - *ps) / 8 : most;
}

static enum offer_answer try(struct live_offer_choice *c, bool offers) {
    enum { TRIAL = 4 };
    if (offers)
        c->offer_ps = 0;
    else
        c->slot_ps = 0;
    c->trial_offers = offers;
    c->trial = TRIAL - 1;
    return offers ? OFFER_TAKEN : OFFER_DECLINED;
}

enum offer_answer offer_choose(struct live_offer_choice *c) {
    enum { PAUSE_MIN = 64, PAUSE_MAX = 1024 };
    if (c->trial) {
        c->trial--;
        return c->trial_offers ? OFFER_TAKEN : OFFER_DECLINED;
    }
    if (!c->offer_ps || !c->slot_ps)
        return try(c, !c->offer_ps);
    bool offers = c->offer_ps <= c->slot_ps;
    if (offers != c->offers || !c->pause) {
        c->offers = offers;
        c->pause = PAUSE_MIN;
        c->since = 0;
    }
    if (c->since >= c->pause) {
        c->since = 0;
        c->pause = c->pause < PAUSE_MAX ? 2 * c->pause : PAUSE_MAX;
        return try(c, !offers);
    }
    c->since += offers ? 1 : OFFER_REST;
    return offers ? OFFER_TAKEN : OFFER_UNWANTED;
}

void offer_declined(struct live_offer_choice *c, uint64_t bytes, enum offer_answer how) {
    c->messages = how == OFFER_UNWANTED ? OFFER_REST : 1;
    c->declined_ns = live_now_ns();
    c->declined = c->left = bytes;
}

void offer_came(struct live_offer_choice *c, uint64_t bytes, uint64_t least) {
    if (!c->left)
        return;
    c->left = c->left > bytes + least ? c->left - bytes : 0;
    if (!c->left)
        offer_measured(&c->slot_ps, c->declined, live_now_ns() - c->declined_ns);
}

bool offer_can_read(uint32_t os_pid, const uint8_t *from) {
    uint8_t byte;
    const struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)from, 1};
    return process_vm_readv((pid_t)os_pid, &here, 1, &there, 1, 0) == 1;
}

bool offer_is_there(uint32_t os_pid, const uint8_t *from, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += OFFER_UNIT)
        if (!offer_can_read(os_pid, from + at))
            return false;
    return offer_can_read(os_pid, from + bytes - 1);
}

static enum nic_status pull(uint32_t os_pid, uint8_t *to, const uint8_t *from, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        const struct iovec here = {to + done, bytes - done},
                           there = {(void *)(uintptr_t)(from + done), bytes - done};
        ssize_t got = process_vm_readv((pid_t)os_pid, &here, 1, &there, 1, 0);
        if (got <= 0)
            return got < 0 && errno == ESRCH ? NIC_GONE : NIC_FAULT;
        done += (uint64_t)got;
    }
    return NIC_DONE;
}

/* The sender has taken something: it is in a system call, has lost its processor, or has ended. */
static bool await_helper(struct live_offer *o, const struct live_box_view *sender) {
    enum { LOOKS = 20000, NAP_US = 50 };
    for (uint32_t looks = 0; atomic_load(&o->helps); looks++) {
        if (looks < LOOKS) {
            live_pause();
            continue;
        }
        if (box_ended(sender))
            return false;
        usleep(NAP_US);
    }
    return true;
}

enum nic_status offer_fetch(struct live_offer *o, const struct live_box_view *sender, uint8_t *to,
                            const uint8_t *from, uint64_t bytes, bool may_help) {
    uint32_t os_pid = (uint32_t)sender->header->owner.os_pid;
    uint32_t units = units_of(bytes), front = 0, back = units;
    enum nic_status status = NIC_DONE;
    if (!may_help)
        return pull(os_pid, to, from, bytes);
    atomic_store_explicit(&o->failed, 0, memory_order_relaxed);
    atomic_store_explicit(&o->from, (uintptr_t)from, memory_order_relaxed);
    atomic_store_explicit(&o->to, (uintptr_t)to, memory_order_relaxed);
    atomic_store_explicit(&o->bytes, bytes, memory_order_relaxed);
    uint64_t left = left_of(0, units);
    atomic_store(&o->left, left);
    box_attend(sender->header);
    while (status == NIC_DONE) {
        uint32_t now = back_of(left);
        if (now > back) /* nonsense: as if it stood still */
            now = back;
        back = now;
        if (front >= back)
            break;
        uint32_t share = share_of(back - front, bytes);
        if (!atomic_compare_exchange_weak(&o->left, &left, left_of(front + share, back)))
            continue;
        left = left_of(front + share, back);
        uint64_t at = (uint64_t)front * OFFER_UNIT, end = (uint64_t)(front + share) * OFFER_UNIT;
        status = pull(os_pid, to + at, from + at, (end < bytes ? end : bytes) - at);
        front += share;
        left = atomic_load(&o->left);
    }
    atomic_store(&o->left, 0);
    if (!await_helper(o, sender))
        return NIC_GONE;
    return status == NIC_DONE && atomic_load(&o->failed) ? NIC_FAULT : status;
}

/* ---- the sender ---- */

bool offer_has_left(const struct live_offer *o) {
    uint64_t left = atomic_load(&((struct live_offer *)(uintptr_t)o)->left);
    return front_of(left) < back_of(left);
}

/* Says first that it may take something, so that the receiver, when it finds nothing left, sees who
 * has it. */
static bool take_share(struct live_offer *o, uint64_t *at, uint64_t *end) {
    uint64_t left = atomic_load(&o->left), bytes;
    uint32_t front, back, share;
    do {
        front = front_of(left);
        back = back_of(left);
        if (front >= back)
            return false;
        share = share_of(back - front, atomic_load(&o->bytes));
    } while (!atomic_compare_exchange_weak(&o->left, &left, left_of(front, back - share)));
    bytes = atomic_load(&o->bytes);
    *at = (uint64_t)(back - share) * OFFER_UNIT;
    *end = (uint64_t)back * OFFER_UNIT < bytes ? (uint64_t)back * OFFER_UNIT : bytes;
    return true;
}

static bool push(uint32_t os_pid, uint64_t to, uint8_t *from, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        const struct iovec here = {from + done, bytes - done},
                           there = {(void *)(uintptr_t)(to + done), bytes - done};
        ssize_t got = process_vm_writev((pid_t)os_pid, &here, 1, &there, 1, 0);
        if (got <= 0)
            return false;
        done += (uint64_t)got;
    }
    return true;
}

void offer_help(struct live_offer *o, uint32_t os_pid, uint8_t *data, uint64_t bytes) {
    uint64_t at, end;
    bool good = true;
    atomic_store(&o->helps, 1);
    /* No more shares than there can be: the receiver might make new ones all the time. */
    for (uint32_t i = units_of(bytes); good && i && take_share(o, &at, &end); i--) {
        uint64_t before = atomic_load(&o->from) - (uintptr_t)data; /* of what was offered */
        bool mine = at < end && before <= bytes && end <= bytes - before;
        good = mine && push(os_pid, atomic_load(&o->to) + at, data + before + at, end - at);
    }
    if (!good)
        atomic_store(&o->failed, 1);
    atomic_store(&o->helps, 0);
}
