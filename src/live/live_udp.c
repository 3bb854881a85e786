#include "live/live_udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "live/live_auth.h"
#include "live/live_clock.h"
#include "live/live_faults.h"
#include "live/live_sum.h"
#include "nic/wire.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define OUT_DATAGRAMS  32u    /* two messages of 4 KiB packets, and two that faults make */
#define OUT_MESSAGES   16u    /* of the system, in one call */
#define SEGMENTS       64u    /* datagrams that the system cuts out of one message, at most */
#define MESSAGE_BYTES  65000u /* the same in bytes */
#define IN_MESSAGES    2u
#define IN_BYTES       65536u
#define IN_ROUNDS      1u
#define SEND_TRIES     3u
#define IP_UDP_BYTES   28u
#define DISCARD_PORT   9u /* to which nothing is sent */
#define ETHERNET_BYTES 1500
#define LOOPBACK_BYTES 65536u
#define BUFFER_FACTOR  3u /* the memory of the system that a packet takes, by its data, at most */

#define COPIED_BYTES 256u /* of data, which are behind the head */
#define HEAD_BYTES   (LIVE_UDP_HEAD_BYTES + WIRE_HEADER_BYTES + COPIED_BYTES)

/* To be sent: its head, and the data where the packet has it. */
struct datagram {
    struct nic_packet *packet; /* kept until it has left; NULL: there is nothing to be kept */
    struct nic_address target;
    uint32_t head_bytes, bytes; /* of all */
    uint8_t *head;              /* HEAD_BYTES; with `flat`, room for all */
    const uint8_t *data;        /* where it is not behind the head */
};

/* Received; several datagrams of `segment` bytes each (the last may be shorter). */
struct message_in {
    uint32_t bytes, segment;
    struct sockaddr_in from;
};

struct udp {
    struct live_transport transport;
    struct live_udp_options o;
    struct live_faults faults;
    struct live_sum sum;
    struct live_auth auth;
    struct nic_address address;
    uint32_t interface_mtu;
    int socket, bell;   /* an eventfd, for who sleeps */
    _Atomic bool rung;  /* the bell has been since it was silenced */
    bool used;          /* something was sent or received: others know the pid */
    bool cuts;          /* the system cuts messages into datagrams (GSO) */
    bool flat;          /* datagrams are in one piece, for faults or authentication */
    uint32_t run_bytes; /* of data in a run, at most */
    /* Out. */
    struct datagram datagram[OUT_DATAGRAMS], held; /* by faults */
    uint32_t datagrams;
    uint8_t *heads;
    /* In. Who receives has set `receiving`: whoever asks whether something is there, or polls. */
    atomic_flag receiving;
    _Atomic bool has_more;  /* messages that were received and wait to be handed over */
    _Atomic bool found;     /* the last look found something: the next need not ask the system */
    _Atomic bool troubled;  /* the system has said of a datagram why it did not arrive */
    struct nic_packet rest; /* of a run that is handed over: what is left, if it has bytes */
    uint32_t rest_each;
    struct message_in message[IN_MESSAGES];
    uint32_t messages, turn, offset; /* whose turn it is, and where in it */
    uint8_t *in;                     /* IN_MESSAGES times IN_BYTES */
};

static struct udp *udp_of(struct live_transport *t) {
    return (struct udp *)t;
}

static uint64_t word_at(const uint8_t *at, uint32_t bytes) {
    uint64_t word = 0;
    memcpy(&word, at, bytes < 8 ? bytes : 8);
    return word;
}

/* ---- out ---- */

static struct sockaddr_in socket_address(const struct udp *u, struct nic_address a) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)(u->o.port + a.pid)),
                                .sin_addr.s_addr = htonl(a.nid)};
}

/* How many datagrams from the i-th on leave as one message. */
static uint32_t join(const struct udp *u, uint32_t i) {
    const struct datagram *first = &u->datagram[i];
    uint32_t n = 1, bytes = first->bytes;
    for (; u->cuts && i + n < u->datagrams && n < SEGMENTS; n++) {
        const struct datagram *d = &u->datagram[i + n];
        if (!nic_address_equal(d->target, first->target) || d->bytes > first->bytes ||
            bytes + d->bytes > MESSAGE_BYTES)
            break;
        bytes += d->bytes;
        if (d->bytes < first->bytes)
            return n + 1; /* only the last may be shorter */
    }
    return n;
}

/* The parts of one datagram. */
static size_t write_parts(const struct datagram *d, struct iovec *part) {
    part[0] = (struct iovec){d->head, d->head_bytes};
    if (d->bytes == d->head_bytes)
        return 1;
    part[1] = (struct iovec){(void *)(uintptr_t)d->data, d->bytes - d->head_bytes};
    return 2;
}

struct message_out {
    struct sockaddr_in to;
    uint32_t datagrams;
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))];
};

/* Returns how many parts it took. */
static size_t write_message(struct udp *u, uint32_t i, struct message_out *m, struct msghdr *h,
                            struct iovec *part) {
    const struct datagram *d = &u->datagram[i];
    size_t parts = 0;
    m->datagrams = join(u, i);
    m->to = socket_address(u, d->target);
    for (uint32_t k = 0; k < m->datagrams; k++)
        parts += write_parts(d + k, part + parts);
    *h = (struct msghdr){
        .msg_name = &m->to, .msg_namelen = sizeof m->to, .msg_iov = part, .msg_iovlen = parts};
    if (m->datagrams == 1)
        return parts;
    uint16_t segment = (uint16_t)d->bytes;
    h->msg_control = m->control;
    h->msg_controllen = sizeof m->control;
    struct cmsghdr *c = CMSG_FIRSTHDR(h);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof segment)};
    memcpy(CMSG_DATA(c), &segment, sizeof segment);
    return parts;
}

/* An error may be of what was sent before: then the system takes the same the next time. */
static int give_system(struct udp *u, struct mmsghdr *header, uint32_t messages) {
    for (uint32_t tries = 1;; tries++) {
        int sent = messages == 1 ? (sendmsg(u->socket, &header->msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1)
                                 : sendmmsg(u->socket, header, messages, MSG_DONTWAIT);
        if (sent >= 0 || errno == EINTR || errno == EAGAIN || errno == ENOBUFS)
            return sent;
        atomic_store(&u->troubled, true);
        if (tries == SEND_TRIES)
            return sent;
    }
}

/* Returns how many datagrams from the first on are dealt with. What the system does not take now is
 * lost: delivery repeats it, and sends less. An interface that does not cut messages says so at the
 * first. */
static bool send_one(struct udp *u, const struct datagram *d) {
    const struct sockaddr_in to = socket_address(u, d->target);
    return d->bytes == d->head_bytes &&
           sendto(u->socket, d->head, d->bytes, MSG_DONTWAIT,
                  (const struct sockaddr *)(const void *)&to, sizeof to) >= 0;
}

static uint32_t send_some(struct udp *u, uint32_t first) {
    struct message_out message[OUT_MESSAGES];
    struct mmsghdr header[OUT_MESSAGES];
    struct iovec part[2 * OUT_DATAGRAMS];
    uint32_t n = 0, done = 0;
    size_t parts = 0;
    if (first + 1 == u->datagrams && send_one(u, &u->datagram[first]))
        return 1;
    for (uint32_t i = first; n < OUT_MESSAGES && i < u->datagrams; i += message[n++].datagrams)
        parts += write_message(u, i, &message[n], &header[n].msg_hdr, part + parts);
    int sent = give_system(u, header, n);
    if (sent < 0 && errno == EINTR)
        return 0;
    if (sent < 0 && message[0].datagrams > 1 && errno != EAGAIN && errno != ENOBUFS &&
        errno != EFAULT && errno != ECONNREFUSED) {
        u->cuts = false;
        return 0;
    }
    for (int i = 0; i < (sent > 0 ? sent : 1); i++)
        done += message[i].datagrams;
    return done;
}

static void udp_flush(struct live_transport *t) {
    struct udp *u = udp_of(t);
    if (!u->datagrams)
        return;
    for (uint32_t at = 0; at < u->datagrams;)
        at += send_some(u, at);
    for (uint32_t i = 0; i < u->datagrams; i++)
        if (u->datagram[i].packet)
            nic_packet_release(u->datagram[i].packet);
    u->datagrams = 0;
}

/* The next one, which has a place for its head. */
static struct datagram *next_datagram(struct udp *u) {
    return &u->datagram[u->datagrams++];
}

static void copy_datagram(struct datagram *to, const struct datagram *from) {
    memcpy(to->head, from->head, from->bytes);
    to->packet = NULL;
    to->head_bytes = to->bytes = from->bytes;
    to->target = from->target;
}

/* Of the datagram that was written last. */
static void spoil(struct udp *u) {
    struct datagram *d = &u->datagram[u->datagrams - 1];
    if (live_faults_now(&u->faults, FAULT_CORRUPT))
        d->head[rng_below(&u->faults.rng, d->bytes)] ^=
            (uint8_t)(1u << rng_below(&u->faults.rng, 8));
    if (live_faults_now(&u->faults, FAULT_DUPLICATE))
        copy_datagram(next_datagram(u), d);
    bool held = u->held.bytes;
    if (live_faults_now(&u->faults, FAULT_LOSS)) {
        u->datagrams--;
    } else if (!held && live_faults_now(&u->faults, FAULT_REORDER)) {
        copy_datagram(&u->held, &u->datagram[--u->datagrams]);
        return;
    }
    if (held)
        copy_datagram(next_datagram(u), &u->held);
    u->held.bytes = 0;
}

/* What is before the packet: a tag, or the key and a checksum. */
static void prove(const struct udp *u, struct datagram *d, uint32_t head_bytes,
                  const struct nic_packet *packet) {
    uint8_t *body = d->head + LIVE_UDP_HEAD_BYTES;
    uint64_t sum = 0;
    if (u->o.auth) {
        live_auth_tag(&u->auth, d->head, body, d->bytes - LIVE_UDP_HEAD_BYTES);
    } else {
        sum = live_sum_of(&u->sum, body, head_bytes, packet->data, packet->bytes);
        memcpy(d->head, u->o.key, LIVE_KEY_BYTES);
    }
    memcpy(d->head + LIVE_KEY_BYTES, &sum, sizeof sum);
}

/* ---- packets whose data is the program's ---- */

static uint32_t udp_in_place(struct live_transport *t, struct nic_address target) {
    (void)target;
    const struct udp *u = udp_of(t);
    return u->flat || *u->o.guarded == GUARDED_BY_SYSTEM ? 0 : u->run_bytes;
}

/* How much of the data of several packets that are one has a checksum: nothing between processes of
 * one machine. There the system copies it from memory to memory and takes no checksum, either; ours
 * took a sixth of the time of a large put. Where faults are injected no packets are joined. */
static uint32_t joined_sum_bytes(const struct udp *u, struct nic_address peer, uint32_t bytes) {
    return peer.nid == u->address.nid ? 0 : bytes;
}

struct run_sum {
    const struct udp *u;
    const uint8_t *body;
    uint32_t head_bytes, data_bytes;
    uint64_t sum;
};

/* Also looks at every page that has no part in the sum: whether it is there. */
static void sum_run(void *context, const void *data, size_t bytes) {
    struct run_sum *of = context;
    const volatile uint8_t *byte = data;
    of->sum = live_sum_of(&of->u->sum, of->body, of->head_bytes, data, of->data_bytes);
    for (size_t i = of->data_bytes; i < bytes; i += 4096)
        (void)byte[i];
    if (bytes)
        (void)byte[bytes - 1];
}

/* A run is one datagram. False: its data cannot be read. */
static bool send_run(struct udp *u, const struct nic_packet *run) {
    struct datagram *d = &u->datagram[u->datagrams];
    uint8_t *body = d->head + LIVE_UDP_HEAD_BYTES;
    struct run_sum of = {.u = u, .body = body};
    if (run->run > 1) {
        wire_encode_joined(run, run->each, body);
        of.head_bytes = WIRE_JOINED_BYTES;
        of.data_bytes = joined_sum_bytes(u, run->target, run->bytes);
    } else {
        of.head_bytes = wire_encode_head(run, body);
        of.data_bytes = run->bytes;
    }
    if (!guarded_use(*u->o.guarded, run->data, run->bytes, sum_run, &of))
        return false;
    memcpy(d->head, u->o.key, LIVE_KEY_BYTES);
    memcpy(d->head + LIVE_KEY_BYTES, &of.sum, sizeof of.sum);
    d->packet = NULL;
    d->target = run->target;
    d->data = run->data;
    d->head_bytes = LIVE_UDP_HEAD_BYTES + of.head_bytes;
    d->bytes = d->head_bytes + run->bytes;
    u->datagrams++;
    u->used = true;
    if (2 * d->bytes > MESSAGE_BYTES) /* no other is sent with it: it need not wait */
        udp_flush(&u->transport);
    return true;
}

static enum live_sent udp_send(struct live_transport *t, const struct nic_packet *packet) {
    struct udp *u = udp_of(t);
    if (packet->target.pid >= LIVE_PIDS || !packet->target.nid)
        return LIVE_NOWHERE;
    if (u->datagrams + 3 > OUT_DATAGRAMS) /* faults may make three of one */
        udp_flush(t);
    uint32_t run = packet->run;
    if (run && send_run(u, packet))
        return LIVE_SENT;
    if (run > 1)
        return LIVE_UNREADABLE;
    if (run)
        nic_packet_blank((struct nic_packet *)packet);
    bool copied = u->flat || packet->bytes <= COPIED_BYTES;
    struct nic_packet *kept = copied ? NULL : nic_packet_keep((struct nic_packet *)packet);
    if (!copied && !kept)
        return LIVE_SENT; /* no memory: as if it had been lost */
    struct datagram *d = next_datagram(u);
    uint32_t bytes = wire_encode_head(packet, d->head + LIVE_UDP_HEAD_BYTES);
    d->packet = kept;
    d->data = packet->data;
    d->target = packet->target;
    d->head_bytes = LIVE_UDP_HEAD_BYTES + bytes;
    d->bytes = d->head_bytes + packet->bytes;
    if (copied && packet->bytes)
        memcpy(d->head + d->head_bytes, packet->data, packet->bytes);
    if (copied)
        d->head_bytes = d->bytes;
    prove(u, d, bytes, packet);
    u->used = true;
    if (u->faults.on)
        spoil(u);
    return run ? LIVE_UNREADABLE : LIVE_SENT;
}

/* ---- in ---- */

/* The next of several packets that are one. */
static void hand_over_next(struct udp *u, bool *enough) {
    struct nic_packet packet, *rest = &u->rest;
    memcpy(&packet, rest, sizeof packet);
    if (rest->bytes > u->rest_each) {
        packet.bytes = u->rest_each;
        packet.last = packet.prompt = false;
    }
    rest->sequence++;
    rest->offset += packet.bytes;
    rest->data += packet.bytes;
    rest->bytes -= packet.bytes;
    *enough = !u->o.receiver.packet(u->o.receiver.context, &packet);
}

/* The checksum that it should have. */
static uint64_t sum_expected(const struct udp *u, const struct nic_packet *packet, bool joined,
                             const uint8_t *body, uint32_t head_bytes) {
    uint32_t bytes = joined ? joined_sum_bytes(u, packet->source, packet->bytes) : packet->bytes;
    return u->o.auth ? 0 : live_sum_of(&u->sum, body, head_bytes, body + head_bytes, bytes);
}

/* Its data stays where it is. False: malformed. */
static bool hand_over(struct udp *u, uint8_t *bytes, uint32_t length,
                      const struct sockaddr_in *from, bool *enough) {
    uint8_t *body = bytes + LIVE_UDP_HEAD_BYTES;
    uint32_t data = WIRE_JOINED_BYTES;
    struct nic_packet packet;
    if (length < LIVE_UDP_HEAD_BYTES + WIRE_PACKET_BYTES)
        return false;
    length -= LIVE_UDP_HEAD_BYTES;
    bool joined = wire_is_joined(body);
    if ((joined ? wire_decode_joined(&packet, &u->rest_each, u->o.mtu_bytes, body, length)
                : wire_decode_head(&packet, u->o.mtu_bytes, body, length, &data)) ||
        word_at(bytes + LIVE_KEY_BYTES, 8) != sum_expected(u, &packet, joined, body, data) ||
        packet.source.nid != ntohl(from->sin_addr.s_addr) ||
        packet.source.pid != ntohs(from->sin_port) - u->o.port || packet.source.pid >= LIVE_PIDS ||
        !nic_address_equal(packet.target, u->address))
        return false;
    packet.references = 0;
    packet.data = body + data;
    packet.pool = u->o.pool;
    packet.next = NULL;
    packet.place = 0;
    u->used = true;
    if (joined) {
        u->rest = packet;
        hand_over_next(u, enough);
    } else {
        *enough = !u->o.receiver.packet(u->o.receiver.context, &packet);
    }
    return true;
}

static void tell_dropped(struct udp *u, const struct sockaddr_in *from, const uint8_t *bytes,
                         uint32_t length, const char *why) {
    const struct nic_address source = {ntohl(from->sin_addr.s_addr),
                                       ntohs(from->sin_port) - u->o.port};
    u->o.receiver.dropped(u->o.receiver.context, source, bytes, length, why);
}

/* Before anything else in it is read. */
static bool is_ours(const struct udp *u, const uint8_t *bytes, uint32_t length) {
    if (!u->o.auth)
        return length >= LIVE_KEY_BYTES && live_key_equal(bytes, u->o.key);
    return length >= LIVE_UDP_HEAD_BYTES &&
           live_auth_holds(&u->auth, bytes, bytes + LIVE_UDP_HEAD_BYTES,
                           length - LIVE_UDP_HEAD_BYTES);
}

/* The next datagram of those that were received; false: there is none. */
static bool take_datagram(struct udp *u, bool *enough) {
    if (u->turn == u->messages)
        return false;
    const struct message_in *m = &u->message[u->turn];
    uint8_t *bytes = u->in + (size_t)u->turn * IN_BYTES + u->offset;
    uint32_t left = m->bytes - u->offset, length = left < m->segment ? left : m->segment;
    if (u->rest.bytes) {
        hand_over_next(u, enough);
    } else if (!is_ours(u, bytes, length)) {
        u->transport.strangers++;
        tell_dropped(u, &m->from, bytes, length, "without the job's key");
    } else if (!hand_over(u, bytes, length, &m->from, enough)) {
        uint32_t head = length < LIVE_UDP_HEAD_BYTES ? length : LIVE_UDP_HEAD_BYTES;
        u->transport.malformed++;
        tell_dropped(u, &m->from, bytes + head, length - head, "malformed");
    }
    if (u->rest.bytes)
        return true;
    u->offset += length;
    if (u->offset >= m->bytes)
        u->turn++, u->offset = 0;
    return true;
}

/* Datagrams that the system has joined are as long as the first; another packet begins there. The
 * system would tell, but asking for that takes longer than to look. */
static uint32_t segment_of(const uint8_t *bytes, uint32_t length) {
    const uint32_t head = LIVE_UDP_HEAD_BYTES;
    if (length <= head)
        return length;
    uint32_t first = head + wire_length(bytes + head, length - head), left = length - first;
    return left >= head + WIRE_PACKET_BYTES && wire_begins(bytes + first + head) ? first : length;
}

static void received(struct udp *u, uint32_t i, uint32_t bytes) {
    u->message[i].bytes = bytes;
    u->message[i].segment = segment_of(u->in + (size_t)i * IN_BYTES, bytes);
}

static void note_trouble(struct udp *u, ssize_t got) {
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        atomic_store(&u->troubled, true);
}

/* Whether nobody has the port that a datagram was sent to. */
static bool is_refusal(struct msghdr *h) {
    struct sock_extended_err why = {0};
    struct cmsghdr *c = CMSG_FIRSTHDR(h);
    if (c && c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR &&
        c->cmsg_len >= CMSG_LEN(sizeof why))
        memcpy(&why, CMSG_DATA(c), sizeof why);
    return why.ee_origin == SO_EE_ORIGIN_ICMP && why.ee_errno == ECONNREFUSED;
}

/* All that the system has to say: until then nobody could sleep on the socket. Whoever forges it
 * gains little, as a peer that answers is not given up. */
static void hear_trouble(struct udp *u) {
    atomic_store(&u->troubled, false);
    for (;;) {
        struct sockaddr_in to = {0};
        _Alignas(struct cmsghdr) uint8_t
            control[CMSG_SPACE(sizeof(struct sock_extended_err) + sizeof(struct sockaddr_in))];
        struct msghdr h = {.msg_name = &to,
                           .msg_namelen = sizeof to,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
        if (recvmsg(u->socket, &h, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            return;
        const struct nic_address peer = {ntohl(to.sin_addr.s_addr), ntohs(to.sin_port) - u->o.port};
        if (is_refusal(&h) && u->o.receiver.refused)
            u->o.receiver.refused(u->o.receiver.context, peer);
    }
}

/* Messages that came one after the other; false: there is none. Only when those before are handed
 * over. */
static bool receive_some(struct udp *u) {
    struct mmsghdr header[IN_MESSAGES];
    struct iovec data[IN_MESSAGES];
    for (uint32_t i = 0; i < IN_MESSAGES; i++) {
        data[i] = (struct iovec){u->in + (size_t)i * IN_BYTES, IN_BYTES};
        header[i].msg_hdr = (struct msghdr){.msg_name = &u->message[i].from,
                                            .msg_namelen = sizeof u->message[i].from,
                                            .msg_iov = &data[i],
                                            .msg_iovlen = 1};
    }
    int got = recvmmsg(u->socket, header, IN_MESSAGES, MSG_DONTWAIT, NULL);
    note_trouble(u, got);
    u->messages = got > 0 ? (uint32_t)got : 0;
    u->turn = u->offset = 0;
    for (uint32_t i = 0; i < u->messages; i++)
        received(u, i, header[i].msg_len);
    return got > 0;
}

/* The same of one, in the shortest time. */
static bool receive_one(struct udp *u) {
    struct sockaddr_in *from = &u->message[0].from;
    socklen_t size = sizeof *from;
    ssize_t got =
        recvfrom(u->socket, u->in, IN_BYTES, MSG_DONTWAIT, (struct sockaddr *)(void *)from, &size);
    note_trouble(u, got);
    u->messages = got >= 0;
    u->turn = u->offset = 0;
    if (got >= 0)
        received(u, 0, (uint32_t)got);
    return got >= 0;
}

static void note_more(struct udp *u) {
    atomic_store_explicit(&u->has_more, u->turn != u->messages, memory_order_release);
}

static void udp_poll(struct live_transport *t) {
    struct udp *u = udp_of(t);
    bool enough = false;
    if (atomic_flag_test_and_set_explicit(&u->receiving, memory_order_acquire))
        return;   /* who has it is about to see the same, and polls */
    udp_flush(t); /* who hears that its data has arrived may change it */
    if (atomic_load_explicit(&u->troubled, memory_order_relaxed))
        hear_trouble(u);
    for (uint32_t rounds = 0; !enough && rounds < IN_ROUNDS; rounds++) {
        if (u->turn == u->messages && !receive_some(u))
            break;
        while (!enough && take_datagram(u, &enough))
            ;
        atomic_store_explicit(&u->found, true, memory_order_relaxed);
    }
    note_more(u);
    atomic_flag_clear_explicit(&u->receiving, memory_order_release);
}

/* ---- waiting ---- */

/* To look is to receive: one message, which the next poll hands over. Whoever receives meanwhile
 * sees by itself what there is. A call after one that found something does not ask the system: who
 * answers a message is not to wait for the next. */
static bool udp_ready(struct live_transport *t) {
    struct udp *u = udp_of(t);
    if (atomic_load_explicit(&u->has_more, memory_order_relaxed) ||
        atomic_load_explicit(&u->troubled, memory_order_relaxed))
        return true;
    if (atomic_load_explicit(&u->found, memory_order_relaxed)) {
        atomic_store_explicit(&u->found, false, memory_order_relaxed);
        return false;
    }
    if (atomic_flag_test_and_set_explicit(&u->receiving, memory_order_acquire))
        return false;
    bool more = u->turn != u->messages || receive_one(u);
    note_more(u);
    atomic_flag_clear_explicit(&u->receiving, memory_order_release);
    return more || atomic_load_explicit(&u->troubled, memory_order_relaxed);
}

static uint64_t udp_check(struct live_transport *t, uint64_t now_ns) {
    (void)t;
    (void)now_ns;
    return UINT64_MAX;
}

/* Nobody sleeps while another has taken something off the socket that is not handed over yet. */
static bool udp_arm(struct live_transport *t) {
    struct udp *u = udp_of(t);
    if (atomic_flag_test_and_set_explicit(&u->receiving, memory_order_acquire))
        return false;
    bool more = u->turn != u->messages;
    atomic_flag_clear_explicit(&u->receiving, memory_order_release);
    return !more && !atomic_load(&u->troubled);
}

static void udp_disarm(struct live_transport *t) {
    struct udp *u = udp_of(t);
    uint64_t rings;
    if (atomic_load_explicit(&u->rung, memory_order_relaxed) && atomic_exchange(&u->rung, false))
        (void)!read(u->bell, &rings, sizeof rings);
}

static void udp_sleep(struct live_transport *t, uint64_t until_ns) {
    struct udp *u = udp_of(t);
    struct pollfd wakes[] = {{.fd = u->socket, .events = POLLIN},
                             {.fd = u->bell, .events = POLLIN}};
    uint64_t now_ns = live_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec left = {(time_t)(left_ns / 1000000000u), (long)(left_ns % 1000000000u)};
    if (ppoll(wakes, 2, until_ns == UINT64_MAX ? NULL : &left, NULL) > 0 &&
        wakes[0].revents & POLLERR)
        atomic_store(&u->troubled, true);
}

static void udp_ring(struct live_transport *t) {
    struct udp *u = udp_of(t);
    uint64_t one = 1;
    atomic_store(&u->rung, true);
    (void)!write(u->bell, &one, sizeof one);
}

/* ---- the interface ---- */

static bool is_chosen(const struct ifaddrs *i, const struct live_udp_options *o, bool loopback) {
    char address[INET_ADDRSTRLEN];
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP))
        return false;
    if (!o->interface)
        return loopback == !!(i->ifa_flags & IFF_LOOPBACK);
    inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, address,
              sizeof address);
    return !strcmp(o->interface, i->ifa_name) || !strcmp(o->interface, address);
}

static void take_interface(struct udp *u, const struct ifaddrs *i) {
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    u->address.nid = ntohl(((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr);
    strncpy(request.ifr_name, i->ifa_name, sizeof request.ifr_name - 1);
    if (fd >= 0 && !ioctl(fd, SIOCGIFMTU, &request) && request.ifr_mtu > ETHERNET_BYTES)
        u->interface_mtu = (uint32_t)request.ifr_mtu;
    if (fd >= 0)
        close(fd);
}

/* One that no interface lists, which bind may know all the same: all of 127.0.0.0/8. */
static void take_address(struct udp *u, uint32_t address) {
    u->address.nid = address;
    if (address >> 24 == IN_LOOPBACKNET)
        u->interface_mtu = LOOPBACK_BYTES;
}

/* An interface that is up has it, or a subnet of which all addresses are ours (127.0.0.0/8). The
 * system binds groups and broadcast addresses as well, and connects to no broadcast address. */
static bool is_own(struct in_addr address) {
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr = address, .sin_port = htons(DISCARD_PORT)};
    struct sockaddr_in any_port = at;
    any_port.sin_port = 0;
    int fd =
        IN_MULTICAST(ntohl(address.s_addr)) ? -1 : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool own = fd >= 0 && !bind(fd, (const struct sockaddr *)(const void *)&any_port, sizeof at) &&
               !connect(fd, (const struct sockaddr *)(const void *)&at, sizeof at);
    if (fd >= 0)
        close(fd);
    return own;
}

static int find_interface(struct udp *u, struct spin_error *err) {
    struct ifaddrs *all = NULL, *found = NULL;
    struct in_addr address;
    bool is_address = u->o.interface && inet_pton(AF_INET, u->o.interface, &address) == 1;
    u->interface_mtu = ETHERNET_BYTES;
    if (getifaddrs(&all))
        all = NULL;
    for (int loopback = 0; loopback < 2 && !found; loopback++)
        for (struct ifaddrs *i = all; i && !found; i = i->ifa_next)
            found = is_chosen(i, &u->o, loopback) ? i : NULL;
    if (found)
        take_interface(u, found);
    else if (is_address && is_own(address))
        take_address(u, ntohl(address.s_addr));
    if (all)
        freeifaddrs(all);
    if (u->address.nid)
        return 0;
    return is_address
               ? spin_fail(err, SPIN_EARG, "OPENSPIN_INTERFACE: %s is no address of this machine",
                           u->o.interface)
               : spin_fail(err, SPIN_EARG,
                           "OPENSPIN_INTERFACE: there is no interface '%.60s' that is up and has "
                           "an IPv4 address",
                           u->o.interface ? u->o.interface : "");
}

uint32_t live_udp_nid(const struct live_udp_options *options, struct spin_error *err) {
    struct udp u = {.o = *options};
    return find_interface(&u, err) ? 0 : u.address.nid;
}

uint32_t live_udp_mtu(const struct live_transport *t) {
    const struct udp *u = (const struct udp *)t;
    uint32_t fits = u->interface_mtu - IP_UDP_BYTES - LIVE_UDP_HEAD_BYTES - WIRE_HEADER_BYTES;
    return (fits < u->o.mtu_bytes ? fits : u->o.mtu_bytes) / 64 * 64;
}

/* ---- the process ---- */

/* A socket for that pid, or -1. */
static int bind_pid(struct udp *u, uint32_t pid) {
    const struct sockaddr_in at = socket_address(u, (struct nic_address){u->address.nid, pid});
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int bytes = (int)u->o.buffer_bytes, on = 1, segment = 0;
    if (fd < 0 || bind(fd, (const struct sockaddr *)(const void *)&at, sizeof at)) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        errno = why;
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); /* as much as we may */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    socklen_t size = sizeof bytes;
    if (!getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &size))
        u->transport.credit_packets = (uint32_t)bytes / (BUFFER_FACTOR * u->o.mtu_bytes) + 1;
    setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on); /* where the system knows it */
    setsockopt(fd, SOL_IP, IP_RECVERR, &on, sizeof on);
    u->cuts = !setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
    return fd;
}

/* From the top, so that programs that ask for low numbers find them free. */
static int open_socket(struct udp *u, struct spin_error *err) {
    char address[INET_ADDRSTRLEN];
    struct in_addr in = {htonl(u->address.nid)};
    uint32_t pid = u->o.pid < LIVE_PIDS ? u->o.pid : LIVE_PIDS - 1;
    u->socket = bind_pid(u, pid);
    while (u->socket < 0 && errno == EADDRINUSE && u->o.pid >= LIVE_PIDS && pid)
        u->socket = bind_pid(u, --pid);
    u->address.pid = pid;
    if (u->socket >= 0)
        return 0;
    return spin_fail(err, SPIN_ELIMIT, "no UDP socket for pid %u at %s port %u: %s", pid,
                     inet_ntop(AF_INET, &in, address, sizeof address), u->o.port + pid,
                     strerror(errno));
}

static struct nic_address udp_address(const struct live_transport *t) {
    return ((const struct udp *)t)->address;
}

/* The number of the socket stays, which another thread may sleep on. */
static bool udp_take_pid(struct live_transport *t, uint32_t pid) {
    struct udp *u = udp_of(t);
    int fd = u->used || pid >= LIVE_PIDS ? -1 : bind_pid(u, pid);
    if (fd < 0)
        return false;
    bool moved = dup3(fd, u->socket, O_CLOEXEC) >= 0;
    close(fd);
    if (moved)
        u->address.pid = pid;
    udp_ring(t);
    return moved;
}

static void udp_leave(struct live_transport *t) {
    udp_flush(t);
}

static void udp_close(struct live_transport *t) {
    struct udp *u = udp_of(t);
    if (u->socket >= 0)
        close(u->socket);
    if (u->bell >= 0)
        close(u->bell);
    free(u->heads);
    free(u->in);
    free(u);
}

static const struct live_transport_calls calls = {.close = udp_close,
                                                  .leave = udp_leave,
                                                  .address = udp_address,
                                                  .take_pid = udp_take_pid,
                                                  .send = udp_send,
                                                  .in_place = udp_in_place,
                                                  .flush = udp_flush,
                                                  .ready = udp_ready,
                                                  .poll = udp_poll,
                                                  .check = udp_check,
                                                  .arm = udp_arm,
                                                  .disarm = udp_disarm,
                                                  .sleep = udp_sleep,
                                                  .ring = udp_ring};

static int make_parts(struct udp *u, struct spin_error *err) {
    int code = live_faults_parse(&u->faults, u->o.faults, err);
    if (!code && u->o.auth)
        code = live_auth_init(&u->auth, u->o.key, err);
    if (!code)
        code = find_interface(u, err);
    if (!code)
        code = open_socket(u, err);
    if (code)
        return code;
    u->flat = u->faults.on || u->o.auth;
    uint32_t most = u->interface_mtu - IP_UDP_BYTES;
    u->run_bytes =
        (most < MESSAGE_BYTES ? most : MESSAGE_BYTES) - LIVE_UDP_HEAD_BYTES - WIRE_JOINED_BYTES;
    uint32_t room = HEAD_BYTES + (u->flat ? u->o.mtu_bytes : 0);
    live_sum_init(&u->sum, u->o.key);
    u->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    u->heads = malloc((size_t)(OUT_DATAGRAMS + 1) * room);
    u->in = malloc((size_t)IN_MESSAGES * IN_BYTES);
    if (u->bell < 0 || !u->heads || !u->in)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < OUT_DATAGRAMS; i++)
        u->datagram[i].head = u->heads + (size_t)i * room;
    u->held.head = u->heads + (size_t)OUT_DATAGRAMS * room;
    return 0;
}

int live_udp_new(struct live_transport **out, const struct live_udp_options *options,
                 struct spin_error *err) {
    struct udp *u = aligned_alloc(_Alignof(struct udp), sizeof *u);
    if (!u)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    memset(u, 0, sizeof *u);
    u->transport.calls = &calls;
    u->o = *options;
    u->o.port = options->port ? options->port : LIVE_UDP_PORT;
    u->o.buffer_bytes = options->buffer_bytes ? options->buffer_bytes : LIVE_UDP_BUFFER;
    u->socket = u->bell = -1;
    int code = make_parts(u, err);
    if (code)
        udp_close(&u->transport);
    else
        *out = &u->transport;
    return code;
}
