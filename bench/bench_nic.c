/* The card's logic: what a put costs from Portals to Portals, both cards, with a driver that does
 * everything at once: events, counters and copies of the data included.
 *
 *     bench-nic [quick]        ns per packet: one packet and many, on a network that is reliable,
 *                              that needs acknowledgements, that loses a packet in ten
 *     bench-nic instructions   instructions per put of 8 bytes, counted by valgrind
 *     bench-nic open           likewise of a packet in the middle of one of N messages of one peer
 *     bench-nic puts N ACK     only the loop that is counted
 *     bench-nic rests N        likewise */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "measure.h"
#include "nic/nic.h"
#include "nic/portals.h"

#define MTU   2048
#define BYTES (1 << 20)
#define SLOTS 16384

/* A packet on the wire, in the driver's own memory. */
struct slot {
    struct nic_packet packet;
    uint8_t data[MTU];
};

struct bench;
struct card {
    struct bench *bench;
    struct nic *nic;
    struct portals *portals;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    struct slot *slot; /* on the way to it: a ring */
    struct nic_packet *lent;
    uint32_t first, count;
};

struct bench {
    struct nic_pool *pool;
    struct card card[2];
    ptl_handle_md_t md;
    uint64_t now;
    struct rng rng;
    uint32_t loss;     /* of 1000 */
    struct slot *rest; /* not NULL: packets that are not the first of a message wait here */
    uint32_t rests;
};

static void fail(const char *what) {
    fprintf(stderr, "bench-nic: %s\n", what);
    exit(1);
}

/* ---- The driver ---- */

/* The next place of the ring to a card. */
static struct slot *next_slot(struct card *to) {
    if (to->count == SLOTS)
        fail("more packets on the wire than it has room for");
    return &to->slot[(to->first + to->count) & (SLOTS - 1)];
}

static struct nic_packet *lend_slot(void *context, struct nic_address target) {
    struct card *from = context;
    return from->lent = &next_slot(&from->bench->card[target.nid])->packet;
}

static enum nic_status send_packet(void *context, struct nic_packet *packet,
                                   const struct nic_departed *how) {
    struct card *from = context, *to = &from->bench->card[packet->target.nid];
    (void)how;
    if (packet == from->lent) { /* the network is reliable; only its data is not there yet */
        struct slot *slot = (struct slot *)packet;
        to->count++;
        if (packet->bytes)
            memcpy(slot->data, packet->data, packet->bytes);
        packet->data = slot->data;
        return NIC_DONE;
    }
    if (from->bench->loss && rng_below(&from->bench->rng, 1000) < from->bench->loss)
        return NIC_DONE;
    struct bench *b = from->bench;
    struct slot *slot = b->rest && !packet->first ? &b->rest[b->rests++] : next_slot(to);
    to->count += !b->rest || packet->first;
    if (packet->first) {
        slot->packet = *packet;
    } else {
        memcpy(&slot->packet, packet, offsetof(struct nic_packet, message));
        slot->packet.pool = packet->pool;
    }
    slot->packet.references = 0; /* whoever keeps it makes a copy in its pool */
    slot->packet.data = slot->data;
    memcpy(slot->data, packet->data, packet->bytes);
    return NIC_DONE;
}

static enum nic_status move_data(void *context, struct nic_move *m) {
    (void)context;
    if (m->kind == NIC_FETCH)
        memcpy(m->local, m->host, m->bytes);
    else if (m->kind == NIC_STORE)
        memcpy(m->host, m->local, m->bytes);
    return NIC_DONE;
}

static void no_task(void *context, struct nic_task *task) {
    (void)context, (void)task;
}

static void raise_nothing(void *context) {
    (void)context;
}

static const struct nic_driver driver = {.slot = lend_slot,
                                         .send = send_packet,
                                         .move = move_data,
                                         .run = no_task,
                                         .resume = no_task,
                                         .raise = raise_nothing};

static bool arrive(struct bench *b, uint32_t i) {
    struct card *c = &b->card[i];
    if (!c->count)
        return false;
    struct slot *slot = &c->slot[c->first];
    b->now += 100;
    nic_packet_in(c->nic, &slot->packet, b->now);
    c->first = (c->first + 1) & (SLOTS - 1);
    c->count--;
    nic_progress(c->nic, b->now);
    return true;
}

/* To the next deadline; false: there is none. */
static bool pass_time(struct bench *b) {
    uint64_t deadline[2] = {nic_deadline(b->card[0].nic), nic_deadline(b->card[1].nic)};
    uint32_t first = deadline[1] < deadline[0];
    if (deadline[first] == UINT64_MAX)
        return false;
    b->now = deadline[first] > b->now ? deadline[first] : b->now;
    nic_tick(b->card[first].nic, b->now);
    nic_progress(b->card[first].nic, b->now);
    return true;
}

static void settle(struct bench *b) {
    for (bool more = true; more;) {
        nic_progress(b->card[0].nic, b->now);
        more = false;
        for (uint32_t i = 0; i < 2; i++)
            while (arrive(b, i))
                more = true;
        if (!more)
            more = pass_time(b);
    }
}

/* ---- Portals ---- */

static void open_card(struct bench *b, uint32_t i, bool reliable) {
    struct card *c = &b->card[i];
    struct nic_config config = {.driver = &driver,
                                .context = c,
                                .gather_bytes = MTU,
                                .address = {.nid = i, .pid = 1},
                                .pool = b->pool,
                                .mtu_bytes = MTU,
                                .reliable = reliable,
                                .ordered = reliable,
                                .retry_time = 100000,
                                .retries = 100};
    ptl_pt_index_t index;
    ptl_process_t map[2] = {{.phys = {0, 1}}, {.phys = {1, 1}}};
    c->bench = b;
    c->slot = calloc(SLOTS, sizeof *c->slot);
    if (!c->slot || nic_new(&c->nic, &config, NULL))
        fail("no card");
    for (uint32_t k = 0; k < SLOTS; k++)
        c->slot[k].packet.pool = b->pool;
    struct portals *p = c->portals = nic_portals(c->nic);
    if (portals_init(p) ||
        portals_ni_init(p, PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, 1, NULL, NULL, NULL,
                        &c->ni) ||
        portals_set_map(p, c->ni, 2, map) || portals_eq_alloc(p, c->ni, 64, &c->eq) ||
        portals_ct_alloc(p, c->ni, &c->ct) ||
        portals_pt_alloc(p, c->ni, 0, c->eq, PTL_PT_ANY, &index))
        fail("no interface");
}

static void open_memory(struct bench *b, uint8_t *source, uint8_t *target) {
    ptl_md_t md = {.start = source,
                   .length = BYTES,
                   .eq_handle = b->card[0].eq,
                   .ct_handle = b->card[0].ct,
                   .options = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK};
    ptl_me_t me = {.start = target,
                   .length = BYTES,
                   .ct_handle = b->card[1].ct,
                   .uid = PTL_UID_ANY,
                   .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_LINK_DISABLE,
                   .match_id = {.rank = PTL_RANK_ANY},
                   .match_bits = 5};
    ptl_handle_me_t handle;
    if (portals_md_bind(b->card[0].portals, b->card[0].ni, &md, &b->md) ||
        portals_me_append(b->card[1].portals, b->card[1].ni, 0, &me, PTL_PRIORITY_LIST, NULL,
                          &handle))
        fail("no memory descriptor");
}

static uint32_t take_events(struct card *c) {
    ptl_event_t event;
    uint32_t taken = 0;
    while (portals_eq_get(c->portals, c->eq, &event) == PTL_OK)
        taken++;
    return taken;
}

/* One that is there. */
static void take_event(struct card *c) {
    ptl_event_t event;
    if (portals_eq_get(c->portals, c->eq, &event))
        fail("an event is missing");
}

static void open_bench(struct bench *b, bool reliable, uint8_t *source, uint8_t *target) {
    if (nic_pool_new(&b->pool, MTU, NULL))
        fail("no pool");
    open_card(b, 0, reliable);
    open_card(b, 1, reliable);
    open_memory(b, source, target);
}

static void close_bench(struct bench *b) {
    for (uint32_t i = 0; i < 2; i++) {
        nic_free(b->card[i].nic);
        free(b->card[i].slot);
    }
    nic_pool_free(b->pool);
}

static uint8_t source[BYTES], target[BYTES];

static struct portals_request request(const struct bench *b, uint32_t bytes, bool ack) {
    return (struct portals_request){.kind = PORTALS_PUT,
                                    .ack_req = ack ? PTL_ACK_REQ : PTL_NO_ACK_REQ,
                                    .md = b->md,
                                    .length = bytes,
                                    .target = {.rank = 1},
                                    .match_bits = 5};
}

/* ns per packet; `repeated`: packets sent again, of 100. */
static double packet_ns(bool reliable, uint32_t loss, uint32_t bytes, uint32_t packets,
                        double *repeated) {
    struct bench b = {.rng = rng_seeded(1), .loss = loss};
    open_bench(&b, reliable, source, target);
    memset(source, 1, bytes);
    memset(target, 0, bytes);
    struct portals_request put = request(&b, bytes, true);
    uint32_t each = bytes ? (bytes + MTU - 1) / MTU : 1, sent = 0, events = 0, puts = 0;
    double start = bench_cpu_seconds();
    for (; sent < packets; events += take_events(&b.card[0]) + take_events(&b.card[1])) {
        for (uint32_t i = 0; i < 16; i++, sent += each, puts++)
            if (portals_start(b.card[0].portals, &put))
                fail("a put was refused");
        settle(&b);
    }
    double seconds = bench_cpu_seconds() - start;
    if (memcmp(source, target, bytes) || !nic_quiet(b.card[0].nic) || !nic_quiet(b.card[1].nic) ||
        nic_counts(b.card[1].nic)->received < sent || events != 3 * puts)
        fail("not everything has arrived");
    *repeated = 100.0 * (double)nic_counts(b.card[0].nic)->retransmitted / sent;
    close_bench(&b);
    return 1e9 * seconds / sent;
}

/* ---- Instructions ---- */

/* What valgrind counts: the call, the way, both sides' events and counters, and taking the events.
 */
__attribute__((noinline)) void bench_nic_puts(struct bench *b, const struct portals_request *put,
                                              uint32_t puts) {
    for (uint32_t i = 0; i < puts; i++) {
        if (portals_start(b->card[0].portals, put))
            fail("a put was refused");
        nic_progress(b->card[0].nic, b->now);
        arrive(b, 1);
        if (put->ack_req != PTL_NO_ACK_REQ)
            arrive(b, 0);
        take_event(&b->card[1]);
        take_event(&b->card[0]);
        if (put->ack_req != PTL_NO_ACK_REQ)
            take_event(&b->card[0]);
    }
}

static int count_puts(uint32_t puts, bool ack) {
    struct bench b = {.rng = rng_seeded(1)};
    open_bench(&b, true, source, target);
    struct portals_request put = request(&b, 8, ack);
    memset(source, 1, 8);
    bench_nic_puts(&b, &put, puts);
    ptl_ct_event_t seen;
    portals_ct_get(b.card[1].portals, b.card[1].ct, &seen);
    if (memcmp(source, target, 8) || seen.success != puts)
        fail("not everything has arrived");
    close_bench(&b);
    return 0;
}

/* Of a run of this program under valgrind; 0: it did not count. */
static uint64_t counted(const char *self, const char *what, uint32_t count, bool ack) {
    char command[1200], line[256];
    uint64_t total = 0;
    snprintf(command, sizeof command,
             "valgrind --tool=callgrind --callgrind-out-file=/dev/null "
             "--toggle-collect=bench_nic_%s '%s' %s %u %d 2>&1",
             what, self, what, count, ack);
    FILE *run = popen(command, "r");
    while (run && fgets(line, sizeof line, run)) {
        const char *at = strstr(line, "Collected : ");
        if (at)
            total = strtoull(at + strlen("Collected : "), NULL, 10);
    }
    if (run)
        pclose(run);
    return total;
}

/* What valgrind counts: the second packet of each message, in an order that is nobody's. */
__attribute__((noinline)) void bench_nic_rests(struct bench *b) {
    for (uint32_t i = 0; i < b->rests; i++)
        nic_packet_in(b->card[1].nic, &b->rest[i * 7919 % b->rests].packet, b->now);
}

static int count_rests(uint32_t messages) {
    struct bench b = {.rng = rng_seeded(1), .rest = calloc(messages, sizeof(struct slot))};
    if (!b.rest || messages % 7919 == 0)
        fail("no memory, or a multiple of 7919 messages");
    open_bench(&b, true, source, target);
    struct portals_request put = request(&b, MTU + 8, false);
    for (uint32_t i = 0; i < messages; i++) {
        if (portals_start(b.card[0].portals, &put))
            fail("a put was refused");
        nic_progress(b.card[0].nic, b.now);
        while (arrive(&b, 1))
            ;
    }
    if (b.rests != messages)
        fail("a message has another number of packets");
    bench_nic_rests(&b);
    ptl_ct_event_t seen;
    portals_ct_get(b.card[1].portals, b.card[1].ct, &seen);
    if (seen.success != messages || !nic_quiet(b.card[1].nic))
        fail("not everything has arrived");
    close_bench(&b);
    free(b.rest);
    return 0;
}

static int open_messages(const char *self) {
    static const uint32_t counts[] = {1, 16, 1024, 16384};
    bench_machine();
    printf("instructions per packet that ends one of N messages of one peer, all begun\n\n"
           "%8s %14s\n",
           "N", "instructions");
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint64_t all = counted(self, "rests", counts[i], 0);
        if (!all)
            fail("valgrind counts nothing: is it installed?");
        printf("%8u %14.0f\n", counts[i], (double)all / counts[i]);
    }
    return 0;
}

static int instructions(const char *self) {
    bench_machine();
    printf("instructions per put of 8 bytes, both sides: the call, the way, events and counters "
           "raised and taken\n\n");
    for (int ack = 0; ack < 2; ack++) {
        uint64_t few = counted(self, "puts", 1000, ack), many = counted(self, "puts", 11000, ack);
        if (!few || many <= few)
            fail("valgrind counts nothing: is it installed?");
        printf("%-24s %8.0f\n", ack ? "with acknowledgement" : "without",
               (double)(many - few) / 10000);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "instructions") == 0)
        return instructions(argv[0]);
    if (argc > 1 && strcmp(argv[1], "open") == 0)
        return open_messages(argv[0]);
    if (argc > 2 && strcmp(argv[1], "rests") == 0)
        return count_rests((uint32_t)atoi(argv[2]));
    if (argc > 3 && strcmp(argv[1], "puts") == 0)
        return count_puts((uint32_t)atoi(argv[2]), atoi(argv[3]));
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    uint32_t packets = quick ? 100000 : 1000000;
    static const struct {
        const char *name;
        bool reliable;
        uint32_t loss;
    } networks[] = {{"reliable", true, 0}, {"acknowledged", false, 0}, {"10 % lost", false, 100}};
    static const uint32_t sizes[] = {0, 64, 2048, 65536, BYTES};
    bench_machine();
    printf("puts with acknowledgement, packets of %u bytes, both cards, copies of the data "
           "included\n\n%-14s %10s %12s %12s %12s\n",
           MTU, "network", "bytes", "ns/packet", "Mpackets/s", "% repeated");
    for (uint32_t n = 0; n < 3; n++)
        for (uint32_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            double repeated, ns = 1e18;
            for (uint32_t again = 0; again < 3; again++) {
                double once =
                    packet_ns(networks[n].reliable, networks[n].loss, sizes[s], packets, &repeated);
                ns = once < ns ? once : ns;
            }
            printf("%-14s %10u %12.1f %12.2f %12.1f\n", networks[n].name, sizes[s], ns, 1e3 / ns,
                   repeated);
        }
    return 0;
}
