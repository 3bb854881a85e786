/* Live cards over UDP beside bare sockets, in one run: the round trip of 64 bytes against two
 * processes that poll a socket each, and the bandwidth against a socket whose messages the system
 * cuts (GSO) and joins (GRO). Each figure is the median of several turns, which alternate; a ratio
 * is that of one turn, and has the least and the most beside it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include "live_side.h"
#include "measure.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define TURNS       9
#define ROUND_TRIPS 1000u
#define SMALL       64u
#define SEGMENT     4096u
#define BULK        (15 * SEGMENT) /* one message of the system */
#define STREAM      (64u << 20)
#define LARGE       (1u << 20)
#define CREDITS     16 /* messages on the way: about a MiB, so that no buffer overflows */

struct bare {
    int fd;
    struct sockaddr_in peer;
};

static void bare_open(struct bare *b, const char *address, bool first) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(address)};
    int bytes = 8 << 20, segment = SEGMENT, on = 1;
    b->peer = at;
    at.sin_port = htons(first ? 24000 : 24001);
    b->peer.sin_port = htons(first ? 24001 : 24000);
    b->fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (b->fd < 0 || bind(b->fd, (const struct sockaddr *)(const void *)&at, sizeof at)) {
        perror("bench-udp: a bare socket");
        _exit(1);
    }
    if (setsockopt(b->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
        setsockopt(b->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    setsockopt(b->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    setsockopt(b->fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
    setsockopt(b->fd, SOL_UDP, UDP_GRO, &on, sizeof on);
}

static void bare_send(struct bare *b, const void *data, size_t bytes) {
    if (sendto(b->fd, data, bytes, 0, (const struct sockaddr *)(const void *)&b->peer,
               sizeof b->peer) < 0) {
        perror("bench-udp: sendto");
        _exit(1);
    }
}

/* Bytes of what comes next; it never sleeps. */
static size_t bare_receive(struct bare *b, void *data, size_t room) {
    ssize_t got;
    while ((got = recv(b->fd, data, room, MSG_DONTWAIT)) < 0)
        live_pause();
    return (size_t)got;
}

static double bare_round_trip(struct bare *b, bool first) {
    static double took[ROUND_TRIPS];
    uint8_t data[SMALL] = {0};
    for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
        uint64_t began = live_now_ns();
        if (first)
            bare_send(b, data, sizeof data);
        bare_receive(b, data, sizeof data);
        if (!first)
            bare_send(b, data, sizeof data);
        took[i] = (double)(live_now_ns() - began);
    }
    qsort(took, ROUND_TRIPS, sizeof *took, compare);
    return took[ROUND_TRIPS / 2];
}

/* GB/s, from a MiB of user memory to another, as the card; the receiver gives credits back, so
 * nothing is lost. */
static double bare_stream(struct bare *b, bool first, uint8_t *memory) {
    uint64_t began = live_now_ns(), done = 0, most = STREAM / BULK;
    uint8_t credit = 0;
    if (first) {
        for (uint64_t sent = 0; done < most;) {
            if (sent < most && sent - done < CREDITS) {
                bare_send(b, memory + sent % (LARGE / BULK) * BULK, BULK);
                sent++;
            } else {
                bare_receive(b, &credit, sizeof credit);
                done++;
            }
        }
        return (double)(most * BULK) / (double)(live_now_ns() - began);
    }
    for (uint64_t got = 0; got < most * BULK;) {
        uint64_t before = got / BULK;
        got += bare_receive(b, memory + got / BULK % (LARGE / BULK) * BULK, 65536);
        for (; before < got / BULK; before++)
            bare_send(b, &credit, sizeof credit);
    }
    return 0;
}

static double median(double *values) {
    qsort(values, TURNS, sizeof *values, compare);
    return values[TURNS / 2];
}

static void print_ratio(double *of, double *to) {
    double ratio[TURNS];
    for (int i = 0; i < TURNS; i++)
        ratio[i] = of[i] / to[i];
    double middle = median(ratio); /* and sorts */
    printf("ratio %.2f (%.2f to %.2f)\n", middle, ratio[0], ratio[TURNS - 1]);
}

static void run(struct side *s, bool first) {
    struct bare b;
    char address[INET_ADDRSTRLEN];
    struct in_addr in = {htonl(s->peer.phys.nid)};
    double bare_ns[TURNS], card_ns[TURNS], bare_rate[TURNS], card_rate[TURNS];
    bare_open(&b, inet_ntop(AF_INET, &in, address, sizeof address), first);
    meet(s);
    for (int i = 0; i < TURNS; i++) {
        meet(s);
        bare_ns[i] = bare_round_trip(&b, first);
        meet(s);
        card_ns[i] = 2 * ping_pong(s, first, SMALL, ROUND_TRIPS);
        bare_rate[i] = bare_stream(&b, first, first ? s->source : s->memory);
        meet(s);
        card_rate[i] = LARGE / stream(s, first, LARGE, STREAM / LARGE, 4);
    }
    double message_ns = stream(s, first, 8, 20000, 0);
    if (!first)
        return;
    printf("round trip of %u bytes, ", SMALL);
    print_ratio(card_ns, bare_ns);
    printf("    bare socket %.2f us, card %.2f us\n", median(bare_ns) / 1e3, median(card_ns) / 1e3);
    printf("bandwidth, puts of 1 MiB, and datagrams of %u bytes, ", SEGMENT);
    print_ratio(card_rate, bare_rate);
    printf("    bare socket with GSO %.2f GB/s, card %.2f GB/s\n", median(bare_rate),
           median(card_rate));
    printf("%.2f million messages of 8 bytes per second\n", 1e3 / message_ns);
}

int main(int argc, char **argv) {
    bench_machine();
    const struct live_card_options options = {
        .transport = LIVE_UDP, .of_udp = {.interface = argc > 1 ? argv[1] : "127.0.0.1"}};
    return sides_run("bench-udp", options, run);
}
