/* The card's logic: what a packet costs from Portals to Portals, with a driver that does everything
 * at once. Puts of 1 packet and of many between two cards, on a reliable network, on one that needs
 * acknowledgements, and on one that loses a packet in ten. usage: bench-nic [quick] */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "machine.h"
#include "nic/nic.h"
#include "nic/portals.h"

#define MTU   2048
#define BYTES (1 << 20)

struct bench {
    struct nic_pool *pool;
    struct nic *nic[2];
    ptl_handle_ni_t ni[2];
    ptl_handle_md_t md;
    struct nic_packet *wire[2], **wire_end[2]; /* on the way to it */
    uint64_t now;
    struct rng rng;
    uint32_t loss; /* of 1000 */
};

static void fail(const char *what) {
    fprintf(stderr, "bench-nic: %s\n", what);
    exit(1);
}

/* Does all that a card asks for. */
static void drive(struct bench *b, uint32_t i) {
    struct nic_action a;
    while (nic_next(b->nic[i], &a)) {
        switch (a.kind) {
        case NIC_SEND:
            if (b->loss && rng_below(&b->rng, 1000) < b->loss) {
                nic_packet_release(a.packet);
            } else {
                a.packet->next = NULL; /* the sender's copy is not linked anywhere */
                *b->wire_end[!i] = a.packet;
                b->wire_end[!i] = &a.packet->next;
            }
            break;
        case NIC_FETCH:
            memcpy(a.local, a.host, a.bytes);
            break;
        case NIC_STORE:
            memcpy(a.host, a.local, a.bytes);
            break;
        default:
            continue;
        }
        nic_done(b->nic[i], a.token, b->now);
    }
}

static bool arrive(struct bench *b, uint32_t i) {
    struct nic_packet *packet = b->wire[i];
    if (!packet)
        return false;
    b->wire[i] = packet->next;
    if (!b->wire[i])
        b->wire_end[i] = &b->wire[i];
    b->now += 100;
    nic_packet_in(b->nic[i], packet, b->now);
    drive(b, i);
    return true;
}

/* To the next deadline; false: there is none. */
static bool pass_time(struct bench *b) {
    uint32_t first = nic_deadline(b->nic[1]) < nic_deadline(b->nic[0]);
    uint64_t deadline = nic_deadline(b->nic[first]);
    if (deadline == UINT64_MAX)
        return false;
    b->now = deadline > b->now ? deadline : b->now;
    nic_tick(b->nic[first], b->now);
    drive(b, first);
    return true;
}

static void settle(struct bench *b) {
    for (bool more = true; more;) {
        drive(b, 0);
        more = false;
        for (uint32_t i = 0; i < 2; i++)
            while (arrive(b, i))
                more = true;
        if (!more)
            more = pass_time(b);
    }
}

static void open_card(struct bench *b, uint32_t i, bool reliable) {
    struct nic_config config = {.address = {.nid = i, .pid = 1},
                                .pool = b->pool,
                                .mtu_bytes = MTU,
                                .reliable = reliable,
                                .ordered = reliable,
                                .retry_time = 100000,
                                .retries = 100};
    ptl_pt_index_t index;
    ptl_process_t map[2] = {{.phys = {0, 1}}, {.phys = {1, 1}}};
    if (nic_new(&b->nic[i], &config, NULL))
        fail("no card");
    struct portals *p = nic_portals(b->nic[i]);
    b->wire_end[i] = &b->wire[i];
    if (portals_init(p) ||
        portals_ni_init(p, PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, 1, NULL, NULL, NULL,
                        &b->ni[i]) ||
        portals_set_map(p, b->ni[i], 2, map) ||
        portals_pt_alloc(p, b->ni[i], 0, PTL_EQ_NONE, PTL_PT_ANY, &index))
        fail("no interface");
}

static void open_memory(struct bench *b, uint8_t *source, uint8_t *target) {
    ptl_md_t md = {
        .start = source, .length = BYTES, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    ptl_me_t me = {.start = target,
                   .length = BYTES,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .options = PTL_ME_OP_PUT,
                   .match_id = {.rank = PTL_RANK_ANY},
                   .match_bits = 5};
    ptl_handle_me_t handle;
    if (portals_md_bind(nic_portals(b->nic[0]), b->ni[0], &md, &b->md) ||
        portals_me_append(nic_portals(b->nic[1]), b->ni[1], 0, &me, PTL_PRIORITY_LIST, NULL,
                          &handle))
        fail("no memory descriptor");
}

/* ns a packet; `repeated`: packets sent again, of 100. */
static double packet_ns(bool reliable, uint32_t loss, uint32_t bytes, uint32_t packets,
                        double *repeated) {
    static uint8_t source[BYTES], target[BYTES];
    struct bench b = {.rng = rng_seeded(1), .loss = loss};
    if (nic_pool_new(&b.pool, MTU, NULL))
        fail("no pool");
    open_card(&b, 0, reliable);
    open_card(&b, 1, reliable);
    open_memory(&b, source, target);
    memset(source, 1, bytes);
    memset(target, 0, bytes);
    struct portals_request put = {.kind = PORTALS_PUT,
                                  .ack_req = PTL_CT_ACK_REQ,
                                  .md = b.md,
                                  .length = bytes,
                                  .target = {.rank = 1},
                                  .match_bits = 5};
    uint32_t each = bytes ? (bytes + MTU - 1) / MTU : 1, sent = 0;
    double start = bench_cpu_seconds();
    while (sent < packets) {
        for (uint32_t i = 0; i < 16; i++, sent += each)
            if (portals_start(nic_portals(b.nic[0]), &put))
                fail("a put was refused");
        settle(&b);
    }
    double seconds = bench_cpu_seconds() - start;
    if (memcmp(source, target, bytes) || !nic_quiet(b.nic[0]) || !nic_quiet(b.nic[1]) ||
        nic_counts(b.nic[1])->received < sent)
        fail("not everything has arrived");
    *repeated = 100.0 * (double)nic_counts(b.nic[0])->retransmitted / sent;
    nic_free(b.nic[0]);
    nic_free(b.nic[1]);
    nic_pool_free(b.pool);
    return 1e9 * seconds / sent;
}

int main(int argc, char **argv) {
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
