#include "live/live_fabric.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "live/live_clock.h"
#include "live/live_fabric_port.h"
#include "nic/wire.h"

#define CREDITS       128u             /* packets on the way to one peer */
#define TOLD          (CREDITS / 4)    /* packets that it has taken before it says so */
#define BATCH         64u              /* of one poll */
#define RETRY_NS      LIVE_MS          /* for peers that are not there, or take nothing now */
#define PING_NS       (1000 * LIVE_MS) /* to peers on other machines, whose end nobody tells */
#define LEAVE_NS      (1000 * LIVE_MS) /* at the end, for what peers have not taken */
#define LEAST_LOOK_NS 20000u           /* between looks, where there is nothing to sleep on */
#define MOST_LOOK_NS  (2 * LIVE_MS)

enum frame_kind {
    FRAME_PACKET,
    FRAME_COUNT, /* how many were taken: credits */
    FRAME_END,   /* the sender ends, when it has been told how many of its packets were taken */
    FRAME_KINDS,
};

struct frame_head {
    uint8_t key[LIVE_KEY_BYTES];
    uint64_t life;
    uint32_t nid, pid;
    uint32_t taken;
    uint32_t kind;
    uint32_t term;
    uint32_t zero;
};

enum peer_state {
    PEER_UNKNOWN, /* it does not stand in the book, or was not looked for */
    PEER_OPEN,    /* its address is known */
    PEER_BROKEN,  /* the provider says so: `check` loses it */
    PEER_ENDED,   /* it said so */
};

/* A process with which packets were exchanged. It stays when the process ends. */
struct peer {
    struct nic_address address;
    enum peer_state state;
    struct live_owner owner; /* os_pid 0: on another machine */
    uint64_t number;         /* of the provider */
    uint64_t life;           /* 0: not known yet */
    uint32_t lost;           /* how often: frames of another time are not its own */
    uint64_t known_life;     /* the last, of which: */
    uint32_t term;           /* live_fabric.h */
    bool heard;              /* something came in this term */
    uint32_t sent, gone;     /* packets; of these it has taken */
    uint32_t taken, told;    /* packets of its; of which it knows */
    bool refused, blocked;   /* a packet: as it has no credits; or as nothing can be sent now */
    bool owed;               /* it has to be told what was taken */
    uint64_t given_up_ns, ping_ns;
};

struct fabric {
    struct live_transport transport;
    struct live_fabric_options o;
    struct live_fabric_port *port;
    struct nic_address address;
    struct live_entry entry; /* ours */
    int bell;                /* an eventfd, for who sleeps */
    _Atomic bool rung, closed;
    bool used, enough;
    _Atomic bool armed;
    bool deaf;                 /* its card is gone */
    _Atomic uint64_t moved_ns; /* when something came last: for who sleeps */
    uint32_t refused;          /* peers */
    _Atomic uint32_t owing;    /* peers that could not be told yet what was taken */
    struct peer *peer[LIVE_PIDS];
};

static struct fabric *fabric_of(struct live_transport *t) {
    return (struct fabric *)t;
}

/* Pids are of the whole job, so one has one nid. */
static struct peer *find_peer(struct fabric *f, struct nic_address address) {
    struct peer *peer = address.pid < LIVE_PIDS ? f->peer[address.pid] : NULL;
    if (!peer && address.pid < LIVE_PIDS)
        peer = f->peer[address.pid] = calloc(1, sizeof *peer);
    if (peer && peer->state == PEER_UNKNOWN && !peer->life && !peer->refused)
        peer->address = address;
    return peer && nic_address_equal(peer->address, address) ? peer : NULL;
}

static void set_owed(struct fabric *f, struct peer *peer, bool owed) {
    if (peer->owed == owed)
        return;
    peer->owed = owed;
    peer->given_up_ns = live_now_ns() + f->o.book.grace_ns;
    atomic_fetch_add(&f->owing, owed ? 1 : UINT32_MAX);
}

static void begin_term(struct fabric *f, struct peer *peer, uint32_t term) {
    if (peer->refused)
        f->refused--;
    set_owed(f, peer, false);
    *peer = (struct peer){.address = peer->address,
                          .lost = peer->lost + 1,
                          .known_life = peer->known_life,
                          .term = term};
    if (!f->deaf)
        f->o.receiver.lost(f->o.receiver.context, peer->address);
}

static void lose(struct fabric *f, struct peer *peer) {
    begin_term(f, peer, peer->term + 1);
}

/* It may live, and waits for us: it is told. Not again if nothing has come since. */
static void give_up(struct fabric *f, struct peer *peer) {
    bool heard = peer->heard;
    lose(f, peer);
    set_owed(f, peer, heard);
}

static void set_life(struct peer *peer, uint64_t life) {
    if (peer->known_life != life)
        peer->term = 0;
    peer->life = peer->known_life = life;
}

/* ---- out ---- */

static enum live_sent refuse(struct fabric *f, struct peer *peer, bool blocked) {
    f->refused += !peer->refused;
    peer->refused = true;
    peer->blocked = blocked;
    f->transport.absent |= blocked; /* nobody tells when that is over */
    return LIVE_LATER;
}

/* False: it is not there, or is not one of ours. In a job of PMIx none comes back. */
static bool open_peer(struct fabric *f, struct peer *peer) {
    struct live_entry e;
    if (peer->state == PEER_OPEN)
        return true;
    if (peer->state != PEER_UNKNOWN || !live_book_find(&f->o.book, peer->address.pid, &e))
        return false;
    if (e.nid != peer->address.nid || strcmp(e.provider, f->entry.provider) ||
        (peer->life && peer->life != e.life) || (e.owner.os_pid && !live_owner_lives(e.owner)) ||
        !fabric_port_insert(f->port, e.address, &peer->number)) {
        if (f->o.book.pmix)
            peer->given_up_ns = 0;
        return false;
    }
    peer->state = PEER_OPEN;
    set_life(peer, e.life);
    peer->owner = e.owner;
    return true;
}

/* The head of a frame to that peer, which is open; NULL: not now. */
static struct live_fabric_slot *begin_frame(struct fabric *f, struct peer *peer, uint32_t kind) {
    struct live_fabric_slot *slot = fabric_port_slot(f->port);
    if (!slot)
        return NULL;
    struct frame_head head = {.life = f->entry.life,
                              .nid = f->address.nid,
                              .pid = f->address.pid,
                              .taken = peer->taken,
                              .kind = kind,
                              .term = peer->term};
    memcpy(head.key, f->o.book.folder->key, sizeof head.key);
    memcpy(slot->bytes, &head, sizeof head);
    slot->length = sizeof head;
    slot->peer = peer->address.pid;
    slot->life = peer->lost;
    return slot;
}

static enum fabric_sent end_frame(struct fabric *f, struct peer *peer,
                                  struct live_fabric_slot *slot) {
    enum fabric_sent sent = fabric_port_send(f->port, slot, peer->number);
    f->used = true;
    if (sent == FABRIC_SENT) {
        peer->told = peer->taken;
        set_owed(f, peer, false);
    } else if (sent == FABRIC_FAILED)
        peer->state = PEER_BROKEN;
    return sent;
}

static bool tell(struct fabric *f, struct peer *peer, uint32_t kind) {
    struct live_fabric_slot *slot = open_peer(f, peer) ? begin_frame(f, peer, kind) : NULL;
    return slot && end_frame(f, peer, slot) == FABRIC_SENT;
}

/* False: its data is the program's and cannot be read. There are zeroes then, of which the receiver
 * knows that they are not the data. */
static bool encode(const struct fabric *f, struct live_fabric_slot *slot,
                   const struct nic_packet *packet) {
    uint8_t *at = slot->bytes + slot->length;
    uint32_t header = wire_encode_head(packet, at);
    bool good = guarded_read(packet->references ? GUARDED_NOT : *f->o.guarded, at + header,
                             packet->data, packet->bytes);
    if (!good) {
        struct nic_packet bad = *packet;
        bad.bad = true;
        header = wire_encode_head(&bad, at);
        memset(at + header, 0, packet->bytes);
    }
    slot->length += header + packet->bytes;
    return good;
}

static enum live_sent fabric_send(struct live_transport *t, const struct nic_packet *packet) {
    struct fabric *f = fabric_of(t);
    struct peer *peer = find_peer(f, packet->target);
    if (!peer || atomic_load_explicit(&f->closed, memory_order_relaxed))
        return LIVE_NOWHERE;
    if (peer->refused)
        return LIVE_LATER;
    if (peer->state != PEER_OPEN) {
        peer->given_up_ns = live_now_ns() + f->o.book.grace_ns;
        if (!open_peer(f, peer))
            return refuse(f, peer, true);
    }
    if (peer->sent - peer->gone >= CREDITS)
        return refuse(f, peer, false);
    struct live_fabric_slot *slot = begin_frame(f, peer, FRAME_PACKET);
    if (!slot)
        return refuse(f, peer, true);
    bool good = encode(f, slot, packet);
    if (end_frame(f, peer, slot) != FABRIC_SENT)
        return refuse(f, peer, true);
    peer->sent++;
    return good ? LIVE_SENT : LIVE_UNREADABLE;
}

/* ---- in ---- */

/* Who has sent it; NULL: nobody of ours, or one that has ended since. */
static struct peer *sender_of(struct fabric *f, const struct frame_head *head) {
    const struct nic_address address = {head->nid, head->pid};
    struct peer *peer = find_peer(f, address);
    struct live_entry e;
    if (!peer && head->pid < LIVE_PIDS && f->peer[head->pid] &&
        f->peer[head->pid]->state == PEER_UNKNOWN && !f->peer[head->pid]->life) {
        lose(f, f->peer[head->pid]); /* somebody was looked for who is not there */
        peer = find_peer(f, address);
    }
    if (!peer || !head->life)
        return NULL;
    if (peer->life && peer->life != head->life) {
        if (!live_book_find(&f->o.book, head->pid, &e) || e.life != head->life)
            return NULL;
        lose(f, peer); /* a new process has its place */
    }
    if (peer->state == PEER_ENDED)
        return NULL;
    set_life(peer, head->life);
    return peer;
}

/* False: it is of a term that is over, of which the peer does not know; it is told. */
static bool is_of_term(struct fabric *f, struct peer *peer, uint32_t term) {
    int32_t ahead = (int32_t)(term - peer->term);
    if (ahead > 0) {
        uint64_t life = peer->life;
        begin_term(f, peer, term);
        peer->life = life;
    } else if (ahead < 0)
        set_owed(f, peer, true);
    peer->heard |= ahead >= 0;
    return ahead >= 0;
}

static bool hand_over(struct fabric *f, struct peer *peer, uint8_t *bytes, uint32_t length) {
    struct nic_packet packet;
    uint32_t data;
    if (length < WIRE_PACKET_BYTES ||
        wire_decode_head(&packet, f->o.mtu_bytes, bytes, length, &data) ||
        !nic_address_equal(packet.source, peer->address) ||
        !nic_address_equal(packet.target, f->address))
        return false;
    packet.references = 0;
    packet.data = bytes + data;
    packet.pool = f->o.pool;
    packet.next = NULL;
    packet.place = 0;
    f->used = true;
    if (f->deaf)
        return true;
    f->enough |= !f->o.receiver.packet(f->o.receiver.context, &packet);
    return true;
}

/* False: malformed. */
static bool take_frame(struct fabric *f, struct live_fabric_slot *slot) {
    struct frame_head head;
    memcpy(&head, slot->bytes, sizeof head);
    struct peer *peer = sender_of(f, &head);
    if (peer && !is_of_term(f, peer, head.term))
        return true;
    if (!peer || head.kind >= FRAME_KINDS || peer->sent - head.taken > CREDITS ||
        head.taken - peer->gone > CREDITS)
        return false;
    peer->gone = head.taken;
    bool good = true;
    if (head.kind == FRAME_PACKET) {
        peer->taken++;
        good = hand_over(f, peer, slot->bytes + sizeof head, slot->length - sizeof head);
    }
    if (peer->taken - peer->told >= (head.kind == FRAME_END ? 1 : TOLD))
        set_owed(f, peer, !tell(f, peer, FRAME_COUNT));
    if (head.kind == FRAME_END) {
        lose(f, peer);
        peer->state = PEER_ENDED;
        peer->life = head.life;
    }
    return good;
}

static void tell_dropped(struct fabric *f, const struct live_fabric_slot *slot, const char *why) {
    struct frame_head head = {.kind = FRAME_KINDS};
    uint32_t skipped = slot->length < sizeof head ? 0 : sizeof head;
    if (skipped)
        memcpy(&head, slot->bytes, sizeof head);
    if (!f->deaf && f->o.receiver.dropped)
        f->o.receiver.dropped(f->o.receiver.context, (struct nic_address){head.nid, head.pid},
                              slot->bytes + skipped, slot->length - skipped, why);
}

/* A frame that has arrived, or one that could not be sent. */
static bool take(struct fabric *f) {
    struct live_fabric_slot *slot = fabric_port_take(f->port);
    if (!slot)
        return false;
    if (!slot->incoming) {
        struct peer *peer = f->peer[slot->peer];
        if (peer && peer->lost == slot->life && peer->state == PEER_OPEN) {
            peer->state = PEER_BROKEN;
            f->transport.absent = true;
        }
        return true;
    }
    if (slot->length < sizeof(struct frame_head) ||
        !live_key_equal(slot->bytes, f->o.book.folder->key)) {
        f->transport.strangers++;
        tell_dropped(f, slot, "without the job's key");
    } else if (!take_frame(f, slot)) {
        f->transport.malformed++;
        tell_dropped(f, slot, "malformed");
    }
    fabric_port_post(f->port, slot);
    return true;
}

static bool lives(const struct peer *peer) {
    return peer->owner.os_pid && live_owner_lives(peer->owner);
}

/* Who is waited for in vain is given up, but not one that we see live: it may be stopped. */
static void pay_peer(struct fabric *f, struct peer *peer, uint64_t now_ns) {
    if (tell(f, peer, FRAME_COUNT) || now_ns < peer->given_up_ns)
        return;
    if (lives(peer))
        peer->given_up_ns = now_ns + f->o.book.grace_ns;
    else if (peer->state == PEER_UNKNOWN)
        set_owed(f, peer, false);
    else
        give_up(f, peer);
}

static void pay(struct fabric *f) {
    for (uint32_t pid = 0; f->owing && pid < LIVE_PIDS; pid++)
        if (f->peer[pid] && f->peer[pid]->owed)
            pay_peer(f, f->peer[pid], live_now_ns());
}

/* Peers that refused a packet and may take it now. */
static void poll_refused(struct fabric *f) {
    for (uint32_t pid = 0; f->refused && pid < LIVE_PIDS; pid++) {
        struct peer *peer = f->peer[pid];
        if (!peer || !peer->refused || peer->state != PEER_OPEN ||
            peer->sent - peer->gone >= CREDITS)
            continue;
        peer->refused = false;
        f->refused--;
        f->o.receiver.room(f->o.receiver.context, peer->address);
    }
}

static void fabric_ring(struct live_transport *t) {
    struct fabric *f = fabric_of(t);
    uint64_t one = 1;
    atomic_store(&f->rung, true);
    (void)!write(f->bell, &one, sizeof one);
}

static void fabric_poll(struct live_transport *t) {
    struct fabric *f = fabric_of(t);
    if (f->closed)
        return;
    uint32_t taken = 0;
    f->enough = false;
    while (taken < BATCH && !f->enough && take(f))
        taken++;
    if (f->owing)
        pay(f);
    if (f->refused)
        poll_refused(f);
    if (taken)
        atomic_store_explicit(&f->moved_ns, live_now_ns(), memory_order_relaxed);
    if (f->armed && (taken == BATCH || f->enough))
        fabric_ring(t); /* who sleeps would not hear of the others */
}

static bool fabric_ready(struct live_transport *t) {
    struct fabric *f = fabric_of(t);
    return !atomic_load_explicit(&f->closed, memory_order_acquire) &&
           (atomic_load_explicit(&f->owing, memory_order_relaxed) || fabric_port_ready(f->port));
}

/* ---- peers come and go ---- */

static bool has_ended(const struct peer *peer) {
    return peer->state == PEER_BROKEN ||
           (peer->state == PEER_OPEN && peer->owner.os_pid && !lives(peer));
}

/* What it had sent before it ended counts. */
static void check_peer(struct fabric *f, struct peer *peer, uint64_t now_ns) {
    if (has_ended(peer)) {
        while (take(f))
            ;
        if (peer->state == PEER_BROKEN)
            give_up(f, peer);
        else if (has_ended(peer))
            lose(f, peer);
    } else if (peer->state == PEER_OPEN && !peer->owner.os_pid && now_ns >= peer->ping_ns) {
        tell(f, peer, FRAME_COUNT);
        peer->ping_ns = now_ns + PING_NS;
    } else if (peer->refused && (peer->state == PEER_ENDED ||
                                 (!open_peer(f, peer) && now_ns >= peer->given_up_ns))) {
        lose(f, peer);
    }
}

static uint64_t fabric_check(struct live_transport *t, uint64_t now_ns) {
    struct fabric *f = fabric_of(t);
    uint64_t due_ns = UINT64_MAX;
    t->absent = false;
    if (f->closed)
        return due_ns;
    for (uint32_t pid = 0; pid < LIVE_PIDS; pid++)
        if (f->peer[pid])
            check_peer(f, f->peer[pid], now_ns);
    poll_refused(f);
    for (uint32_t pid = 0; f->refused && pid < LIVE_PIDS; pid++)
        if (f->peer[pid] && f->peer[pid]->refused && f->peer[pid]->blocked)
            due_ns = now_ns + RETRY_NS;
    return due_ns;
}

/* ---- waiting ---- */

static bool fabric_arm(struct live_transport *t) {
    struct fabric *f = fabric_of(t);
    f->armed = f->closed || (!f->owing && fabric_port_arm(f->port));
    return f->armed;
}

static void fabric_disarm(struct live_transport *t) {
    struct fabric *f = fabric_of(t);
    uint64_t rings;
    f->armed = false;
    if (atomic_load_explicit(&f->rung, memory_order_relaxed) && atomic_exchange(&f->rung, false))
        (void)!read(f->bell, &rings, sizeof rings);
}

/* Returns whether one of them is readable. */
static bool sleep_on(struct fabric *f, int fd, uint64_t until_ns) {
    struct pollfd wakes[] = {{.fd = f->bell, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    uint64_t now_ns = live_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec left = {(time_t)(left_ns / 1000000000u), (long)(left_ns % 1000000000u)};
    return ppoll(wakes, fd < 0 ? 1 : 2, until_ns == UINT64_MAX ? NULL : &left, NULL) != 0;
}

static uint64_t pause_ns(const struct fabric *f, uint64_t now_ns) {
    uint64_t moved_ns = atomic_load_explicit(&f->moved_ns, memory_order_relaxed);
    uint64_t quiet_ns = now_ns > moved_ns ? (now_ns - moved_ns) / 4 : 0;
    return quiet_ns < LEAST_LOOK_NS  ? LEAST_LOOK_NS
           : quiet_ns > MOST_LOOK_NS ? MOST_LOOK_NS
                                     : quiet_ns;
}

/* Where the provider has nothing to sleep on, and while something of ours has not left (which
 * nobody would drive), we look ourselves, the less often the longer nothing has come. */
static void fabric_sleep(struct live_transport *t, uint64_t until_ns) {
    struct fabric *f = fabric_of(t);
    bool closed = atomic_load(&f->closed);
    int fd = closed ? -1 : fabric_port_fd(f->port);
    if (closed || (fd >= 0 && !fabric_port_sending(f->port))) {
        if (closed || fabric_port_arm(f->port)) /* somebody may have looked meanwhile */
            sleep_on(f, fd, until_ns);
        return;
    }
    for (;;) {
        uint64_t now_ns = live_now_ns();
        if (now_ns >= until_ns || fabric_ready(t))
            return;
        uint64_t look_ns = now_ns + pause_ns(f, now_ns);
        if (sleep_on(f, -1, look_ns < until_ns ? look_ns : until_ns))
            return;
    }
}

/* ---- the process ---- */

/* If a frame with nearly as much data leaves at once, all shall: the provider shm has larger ones
 * answered, in order, so that after a kill none of those behind a frame to the dead one ends. */
uint32_t live_fabric_mtu(const struct live_transport *t) {
    const struct fabric *f = (const struct fabric *)t;
    uint32_t heads = sizeof(struct frame_head) + WIRE_HEADER_BYTES;
    uint32_t inject = fabric_port_inject(f->port), fits = inject > heads ? inject - heads : 0;
    return fits < f->o.mtu_bytes / 2 || fits > f->o.mtu_bytes ? f->o.mtu_bytes : fits / 64 * 64;
}

static struct nic_address fabric_address(const struct live_transport *t) {
    return ((const struct fabric *)t)->address;
}

static bool fabric_reliable(struct live_transport *t, struct nic_address peer) {
    (void)t;
    (void)peer;
    return true;
}

static bool fabric_take_pid(struct live_transport *t, uint32_t pid) {
    struct fabric *f = fabric_of(t);
    if (f->used || pid >= LIVE_PIDS ||
        live_book_move(&f->o.book, f->address.pid, pid, &f->entry, NULL))
        return false;
    f->address.pid = pid;
    return true;
}

/* Still has packets of ours that it has not taken, and may. */
static bool is_awaited(const struct peer *peer) {
    return peer && peer->state == PEER_OPEN && peer->gone != peer->sent &&
           !(peer->owner.os_pid && !live_owner_lives(peer->owner));
}

static bool is_anyone_awaited(const struct fabric *f) {
    for (uint32_t pid = 0; pid < LIVE_PIDS; pid++)
        if (is_awaited(f->peer[pid]))
            return true;
    return false;
}

/* Packets may still lie in the provider, which ends with us: until all have been taken. */
static void fabric_leave(struct live_transport *t) {
    struct fabric *f = fabric_of(t);
    uint64_t until_ns = live_now_ns() + LEAVE_NS;
    if (f->closed)
        return;
    for (uint32_t pid = 0; pid < LIVE_PIDS; pid++)
        for (struct peer *p = f->peer[pid]; p && p->state == PEER_OPEN;) {
            if (tell(f, p, FRAME_END) || live_now_ns() >= until_ns)
                break;
            while (take(f))
                ;
        }
    for (uint32_t looks = 0; live_now_ns() < until_ns; looks++) {
        while (take(f))
            ;
        if (looks % 16 == 0 && !is_anyone_awaited(f) && !fabric_port_sending(f->port))
            break;
        if (looks > 64)
            usleep(50);
    }
    atomic_store(&f->closed, true);
    live_book_leave(&f->o.book, f->address.pid);
}

static void fabric_close(struct live_transport *t) {
    struct fabric *f = fabric_of(t);
    f->deaf = true;
    if (f->entry.life && !f->closed)
        fabric_leave(t);
    fabric_port_close(f->port);
    if (f->bell >= 0)
        close(f->bell);
    for (uint32_t pid = 0; pid < LIVE_PIDS; pid++)
        free(f->peer[pid]);
    free(f);
}

static const struct live_transport_calls calls = {.close = fabric_close,
                                                  .leave = fabric_leave,
                                                  .address = fabric_address,
                                                  .take_pid = fabric_take_pid,
                                                  .reliable = fabric_reliable,
                                                  .send = fabric_send,
                                                  .ready = fabric_ready,
                                                  .poll = fabric_poll,
                                                  .check = fabric_check,
                                                  .arm = fabric_arm,
                                                  .disarm = fabric_disarm,
                                                  .sleep = fabric_sleep,
                                                  .ring = fabric_ring};

static int make_parts(struct fabric *f, struct spin_error *err) {
    const struct live_fabric_port_options port = {
        .provider = f->o.provider,
        .interface = f->o.interface,
        .frame_bytes = sizeof(struct frame_head) + WIRE_HEADER_BYTES + f->o.mtu_bytes};
    uint8_t life[LIVE_KEY_BYTES];
    f->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->bell < 0)
        return spin_fail(err, SPIN_ENOMEM, "no more open files: %s", strerror(errno));
    int code = live_key_make(life, err);
    if (!code)
        code = fabric_port_open(&f->port, &port, err);
    if (code)
        return code;
    f->address.nid = f->entry.nid = f->o.nid;
    f->entry.owner = live_owner_self();
    f->entry.bytes = fabric_port_address(f->port, f->entry.address, sizeof f->entry.address);
    if (!f->entry.bytes)
        return spin_fail(err, SPIN_ELIMIT, "libfabric: an address of more than %u bytes",
                         LIVE_ADDRESS_BYTES);
    strncpy(f->entry.provider, fabric_port_provider(f->port), sizeof f->entry.provider - 1);
    memcpy(&f->entry.life, life, sizeof f->entry.life);
    f->entry.life |= 1;
    f->address.pid = f->o.pid;
    code = live_book_enter(&f->o.book, &f->address.pid, &f->entry, err);
    if (code)
        f->entry.life = 0;
    return code;
}

int live_fabric_new(struct live_transport **out, const struct live_fabric_options *options,
                    struct spin_error *err) {
    struct fabric *f = calloc(1, sizeof *f);
    if (!f)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    f->transport.calls = &calls;
    f->o = *options;
    f->bell = -1;
    int code = make_parts(f, err);
    if (code)
        fabric_close(&f->transport);
    else
        *out = &f->transport;
    return code;
}
