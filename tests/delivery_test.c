/* Reliable delivery without Portals: two ends and a network that loses, doubles and delays packets,
 * with a virtual clock. What comes up must be what went in. */
#include "base/rng.h"
#include "lib/test.h"
#include "nic/delivery.h"

#define MTU      64
#define FLIGHT   4096
#define MESSAGES 64

struct end {
    uint64_t returned;
    struct nic_config config;
    struct delivery delivery;
    struct nic_counts counts;
    struct nic_address address;
    /* Received, by message. */
    uint32_t messages, packets, lost, rooms;
    uint32_t first_number;        /* of the messages that it gets */
    uint32_t parts[4 * MESSAGES]; /* bit i: packet i of the message */
    uint32_t load;                /* packets that it says wait on the card */
    bool wrong;
};

struct flying {
    struct nic_packet *packet;
    uint64_t time;
    uint32_t order;
};

struct world {
    struct nic_pool *pool;
    struct end end[2];
    struct flying flight[FLIGHT];
    uint32_t flying, order;
    uint64_t now;
    struct rng rng;
    uint32_t loss, doubling; /* of 1000 */
    uint64_t delay, spread;
    bool cut[2]; /* what leaves this end goes nowhere */
    bool reliable;
    uint64_t least_retry; /* not 0: round trips are measured */
    uint64_t most_retry;
    uint64_t receipt_time;
    uint32_t credit_packets;
};

static uint8_t byte_of(uint32_t message, uint64_t at) {
    return (uint8_t)(message * 31 + at * 7 + (at >> 8));
}

static void up(void *context, struct delivery_peer *peer, struct nic_packet *packet) {
    struct end *end = context;
    (void)peer;
    uint32_t message = (uint32_t)packet->message.hdr_data, part = (uint32_t)(packet->offset / MTU);
    if (packet->first) {
        end->wrong |= message != end->messages || packet->offset != 0;
        end->messages++;
    } else {
        message = packet->message_number - end->first_number;
        end->wrong |= message >= end->messages; /* before its header */
    }
    end->wrong |= message >= 4 * MESSAGES || (end->parts[message] >> part & 1);
    if (message < 4 * MESSAGES)
        end->parts[message] |= 1u << part;
    for (uint32_t i = 0; i < packet->bytes; i++)
        end->wrong |= packet->data[i] != byte_of(message, packet->offset + i);
    end->packets++;
}

static void room(void *context, struct delivery_peer *peer) {
    (void)peer;
    ((struct end *)context)->rooms++;
}

static void lost(void *context, struct delivery_peer *peer, bool sent) {
    struct end *end = context;
    end->lost += sent;
    while (sent && peer->expectations)
        delivery_expect_less(peer);
}

static void returned(void *context, uint64_t lent) {
    ((struct end *)context)->returned += lent;
}

static uint32_t load(void *context) {
    return ((struct end *)context)->load;
}

static void make_end(struct world *w, uint32_t i, uint32_t stream, uint32_t window,
                     uint32_t retries) {
    struct end *end = &w->end[i];
    *end = (struct end){.address = {.nid = i, .pid = 7}};
    end->config = (struct nic_config){.address = end->address,
                                      .pool = w->pool,
                                      .mtu_bytes = MTU,
                                      .reliable = w->reliable,
                                      .retry_time = 1000,
                                      .least_retry_time = w->least_retry,
                                      .most_retry_time = w->most_retry,
                                      .receipt_time = w->receipt_time,
                                      .credit_packets = w->credit_packets,
                                      .retries = retries,
                                      .window_packets = window,
                                      .stream = stream};
    static const struct delivery_owner owner = {.peer_bytes = sizeof(struct delivery_peer),
                                                .up = up,
                                                .returned = returned,
                                                .room = room,
                                                .lost = lost,
                                                .load = load};
    delivery_init(&end->delivery, &end->config, &end->counts, &owner, end);
}

static void make_world(struct world *w, uint64_t seed, uint32_t window, uint32_t retries) {
    w->rng = rng_seeded(seed);
    CHECK_EQ(nic_pool_new(&w->pool, MTU, NULL), 0);
    make_end(w, 0, 0, window, retries);
    make_end(w, 1, 0, window, retries);
}

static void end_world(struct world *w) {
    delivery_clear(&w->end[0].delivery);
    delivery_clear(&w->end[1].delivery);
    for (uint32_t i = 0; i < w->flying; i++)
        nic_packet_release(w->flight[i].packet);
    CHECK_EQ(nic_pool_used(w->pool), 0);
    nic_pool_free(w->pool);
}

static void fly(struct world *w, struct nic_packet *packet) {
    CHECK(w->flying < FLIGHT);
    w->flight[w->flying++] = (struct flying){
        nic_packet_keep(packet),
        w->now + w->delay + (w->spread ? rng_below(&w->rng, (uint32_t)w->spread) : 0), w->order++};
}

static void launch(struct world *w, uint32_t from, struct nic_packet *packet) {
    if (w->cut[from] || rng_below(&w->rng, 1000) < w->loss)
        return;
    if (rng_below(&w->rng, 1000) < w->doubling)
        fly(w, packet);
    fly(w, packet);
}

/* Everything that an end has to say besides new packets. */
static void flush(struct world *w, uint32_t i) {
    struct delivery *d = &w->end[i].delivery;
    struct delivery_peer *peer;
    uint64_t transmission;
    struct nic_packet bare;
    delivery_arm(d, w->now);
    for (struct nic_packet *packet; (packet = delivery_next(d, &peer, &bare, &transmission));) {
        uint32_t sequence = packet->sequence;
        launch(w, i, packet);
        delivery_left(d, peer, sequence, 0, transmission, w->now);
    }
}

static struct nic_packet *make_packet(struct world *w, uint32_t message, uint32_t parts,
                                      uint32_t part) {
    struct nic_packet *packet = nic_packet_new(w->pool);
    packet->first = part == 0;
    packet->last = part + 1 == parts;
    packet->offset = part * MTU;
    packet->bytes = MTU;
    packet->message.hdr_data = message;
    packet->message.payload = (uint64_t)parts * MTU;
    for (uint32_t i = 0; i < MTU; i++)
        packet->data[i] = byte_of(message, packet->offset + i);
    return packet;
}

static bool offer(struct world *w, uint32_t from, struct nic_packet *packet) {
    struct delivery *d = &w->end[from].delivery;
    struct delivery_peer *peer = delivery_peer(d, w->end[!from].address);
    if (!delivery_room(d, peer))
        return false;
    delivery_number(d, peer, packet, peer->next_message - 1);
    uint64_t transmission = delivery_departs(d, peer, packet);
    uint32_t sequence = packet->sequence;
    launch(w, from, packet);
    delivery_left(d, peer, sequence, 0, transmission, w->now);
    nic_packet_release(packet);
    return true;
}

/* The next thing that happens. False: nothing will. */
static bool step(struct world *w) {
    uint32_t next = UINT32_MAX;
    for (uint32_t i = 0; i < w->flying; i++)
        if (next == UINT32_MAX || w->flight[i].time < w->flight[next].time ||
            (w->flight[i].time == w->flight[next].time &&
             w->flight[i].order < w->flight[next].order))
            next = i;
    uint64_t time = next == UINT32_MAX ? UINT64_MAX : w->flight[next].time;
    uint64_t deadlines[] = {delivery_deadline(&w->end[0].delivery),
                            delivery_deadline(&w->end[1].delivery)};
    uint32_t i = deadlines[1] < deadlines[0];
    uint64_t deadline = deadlines[i];
    if (deadline < time) {
        w->now = deadline > w->now ? deadline : w->now;
        delivery_tick(&w->end[i].delivery, w->now);
        flush(w, i);
        return true;
    }
    if (next == UINT32_MAX)
        return false;
    struct flying arrived = w->flight[next];
    w->flight[next] = w->flight[--w->flying];
    w->now = time;
    uint32_t to = arrived.packet->target.nid;
    delivery_packet_in(&w->end[to].delivery, arrived.packet, w->now);
    nic_packet_release(arrived.packet);
    flush(w, to);
    return true;
}

/* Messages of 1 to 8 packets both ways until all are through; 0 is OK. */
static const char *exchange(struct world *w, uint32_t messages) {
    uint32_t message[2] = {0}, part[2] = {0}, parts[2] = {1, 1}, total[2] = {0};
    for (uint64_t steps = 0; steps < 1000000; steps++) {
        bool more = false;
        for (uint32_t i = 0; i < 2; i++) {
            for (; message[i] < messages; more = true) {
                struct nic_packet *packet = make_packet(w, message[i], parts[i], part[i]);
                if (!offer(w, i, packet)) {
                    nic_packet_release(packet);
                    break;
                }
                total[i]++;
                if (++part[i] < parts[i])
                    continue;
                part[i] = 0;
                parts[i] = 1 + rng_below(&w->rng, 8);
                message[i]++;
            }
            flush(w, i);
        }
        if (!step(w) && !more)
            break;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (w->end[i].wrong)
            return "a packet came up wrong, twice or before its header";
        if (w->end[i].lost)
            return "a peer was given up";
        if (w->end[i].packets != total[!i] || w->end[i].messages != messages)
            return "something did not arrive";
    }
    return NULL;
}

static uint32_t seeds(uint32_t usual) {
    const char *text = getenv("OPENSPIN_SEEDS");
    return text ? (uint32_t)strtoul(text, NULL, 0) : TEST_SANITIZED ? usual / 10 : usual;
}

static struct world world;

TEST(loss_doubling_and_reordering_change_nothing) {
    for (uint32_t seed = 0; seed < seeds(1000); seed++) {
        world = (struct world){.loss = 100, .doubling = 100, .delay = 50, .spread = 400};
        if (seed % 4 == 1) /* harsher still */
            world.loss = 300, world.doubling = 300, world.spread = 3000;
        if (seed % 4 == 2)
            world.spread = 0;
        make_world(&world, seed, 1 + seed % 100, 60);
        const char *wrong = exchange(&world, 32);
        if (wrong)
            TEST_FAIL("seed %u: %s", seed, wrong);
        CHECK(world.end[0].counts.retransmitted + world.end[1].counts.retransmitted > 0);
        end_world(&world);
    }
}

TEST(measured_round_trips_and_windows_change_nothing_that_arrives) {
    for (uint32_t seed = 0; seed < seeds(300); seed++) {
        world = (struct world){
            .loss = 100, .doubling = 100, .delay = 50, .spread = 400, .least_retry = 100};
        if (seed % 4 == 1)
            world.loss = 300, world.doubling = 300, world.spread = 3000;
        make_world(&world, seed, 1 + seed % 100, 60);
        const char *wrong = exchange(&world, 32);
        if (wrong)
            TEST_FAIL("seed %u: %s", seed, wrong);
        CHECK(delivery_settled(&world.end[0].delivery));
        CHECK(delivery_peer(&world.end[0].delivery, world.end[1].address)->congestion.window <=
              1 + seed % 100);
        end_world(&world);
    }
}

TEST(late_receipts_and_credits_change_nothing_that_arrives) {
    for (uint32_t seed = 0; seed < seeds(300); seed++) {
        world = (struct world){.loss = 100,
                               .doubling = 100,
                               .delay = 50,
                               .spread = 400,
                               .least_retry = seed % 2 ? 100 : 0,
                               .receipt_time = seed % 3 ? 300 : 0,
                               .credit_packets = 1 + seed % 50};
        make_world(&world, seed, 1 + seed % 100, 60);
        const char *wrong = exchange(&world, 32);
        if (wrong)
            TEST_FAIL("seed %u: %s", seed, wrong);
        CHECK(delivery_settled(&world.end[0].delivery));
        end_world(&world);
    }
}

/* Each answers the other: what goes back acknowledges, and only the last needs a receipt. */
TEST(answers_are_receipts) {
    world = (struct world){.delay = 50, .receipt_time = 500};
    make_world(&world, 1, 64, 60);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK(offer(&world, i % 2, make_packet(&world, i / 2, 1, 0)));
        while (world.end[!(i % 2)].messages < i / 2 + 1)
            CHECK(step(&world));
    }
    CHECK_EQ(world.end[0].counts.receipts + world.end[1].counts.receipts, 0);
    uint64_t then = world.now;
    while (step(&world))
        ;
    CHECK_EQ(world.end[0].counts.receipts, 1);
    CHECK_EQ(world.end[1].counts.receipts, 0);
    CHECK_EQ(world.end[0].counts.retransmitted + world.end[1].counts.retransmitted, 0);
    CHECK(world.now >= then + 500 && delivery_settled(&world.end[1].delivery));
    end_world(&world);
}

static uint32_t offer_all(uint32_t next, uint32_t end) {
    for (; next < end; next++) {
        struct nic_packet *packet = make_packet(&world, next, 1, 0);
        if (offer(&world, 0, packet))
            continue;
        nic_packet_release(packet);
        break;
    }
    flush(&world, 0);
    return next;
}

TEST(who_leaves_says_what_has_arrived) {
    world = (struct world){.delay = 50, .receipt_time = 500};
    make_world(&world, 1, 64, 60);
    for (uint32_t i = 0; i < 2; i++) /* who is no part of it stands before the other */
        delivery_peer(&world.end[i].delivery, (struct nic_address){5, 7});
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    CHECK(!delivery_settled(&world.end[0].delivery));
    CHECK(step(&world));
    CHECK_EQ(world.end[1].counts.receipts, 0);
    delivery_hurry(&world.end[1].delivery);
    flush(&world, 1);
    CHECK(step(&world));
    CHECK_EQ(world.now, 100);
    CHECK(delivery_settled(&world.end[0].delivery));
    end_world(&world);
}

/* One that has no room is not given up, however long that takes, nor sent more than it said. */
TEST(a_slow_receiver_slows_its_sender) {
    world = (struct world){.delay = 50, .least_retry = 100, .receipt_time = 20};
    world.credit_packets = 20;
    make_world(&world, 1, 64, 5);
    uint32_t next = offer_all(0, 4);
    while (step(&world))
        ;
    CHECK_EQ(world.end[1].messages, 4);
    world.end[1].load = 20;
    next = offer_all(next, 200); /* what it has been promised */
    CHECK_EQ(next, 4 + 20);
    for (uint64_t until = world.now + 1000000; world.now < until;) {
        CHECK(step(&world)); /* probes */
        next = offer_all(next, 200);
        CHECK(next <= 4 + 20);
    }
    CHECK_EQ(world.end[1].messages, next);
    CHECK_EQ(world.end[0].lost, 0);
    CHECK_EQ(world.end[0].counts.retransmitted, 0);
    uint32_t probes = (uint32_t)world.end[0].counts.receipts;
    CHECK(probes > 5 && probes < 10000);
    uint64_t then = world.now, said = world.end[1].counts.receipts;
    static const uint32_t loads[] = {11, 10, 10}; /* it says so by itself, once, at half */
    for (uint32_t i = 0; i < 3; i++) {
        world.end[1].load = loads[i];
        flush(&world, 1);
        CHECK_EQ(world.end[1].counts.receipts, said + (i > 0));
    }
    world.end[1].load = 5;
    while (next < 200) {
        CHECK(step(&world));
        next = offer_all(next, 200);
    }
    CHECK(world.now < then + 5000);
    while (step(&world))
        ;
    CHECK_EQ(world.end[1].messages, 200);
    CHECK(!world.end[1].wrong);
    end_world(&world);
}

TEST(a_hopeless_peer_is_given_up_at_once) {
    world = (struct world){.delay = 50, .cut = {true}};
    make_world(&world, 1, 64, 60);
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    struct delivery *d = &world.end[0].delivery;
    delivery_arm(d, 0);
    delivery_fail(d, delivery_peer(d, world.end[1].address), world.now = 10);
    CHECK_EQ(delivery_deadline(d), 10);
    CHECK(step(&world));
    CHECK_EQ(world.now, 10);
    CHECK_EQ(world.end[0].lost, 1);
    end_world(&world);
}

TEST(the_retry_time_follows_the_round_trip) {
    static const uint64_t delays[] = {10, 300, 5000};
    for (uint32_t i = 0; i < 3; i++) {
        world = (struct world){.delay = delays[i], .least_retry = 100};
        make_world(&world, 1, 64, 60);
        const struct congestion begun = congestion_begin(64, 1000);
        const struct congestion *c =
            &delivery_peer(&world.end[0].delivery, world.end[1].address)->congestion;
        CHECK(c->window == begun.window && c->threshold == begun.threshold);
        CHECK(!exchange(&world, 100));
        CHECK(c->round_trip >= 2 * delays[i] - delays[i] / 8 && c->round_trip <= 2 * delays[i] + 8);
        CHECK(c->retry_time >= 100 && c->retry_time >= c->round_trip);
        CHECK(c->retry_time <= 100 + 6 * delays[i]);
        end_world(&world);
    }
}

/* From 64 packets, doubled each round trip; half after a loss; 2 after silence. */
TEST(the_window_follows_losses) {
    struct congestion c = congestion_begin(256, 1000);
    CHECK_EQ(c.window, 64);
    congestion_acknowledged(&c, 64, 256);
    CHECK_EQ(c.window, 128);
    congestion_lost(&c, 5, 40);
    congestion_lost(&c, 40, 60); /* of the same window */
    CHECK_EQ(c.window, 64);
    congestion_acknowledged(&c, 63, 256);
    CHECK_EQ(c.window, 64);
    congestion_acknowledged(&c, 1, 256); /* one more per round trip from now on */
    CHECK_EQ(c.window, 65);
    congestion_lost(&c, 41, 60);
    CHECK_EQ(c.window, 32);
    congestion_silent(&c, 70);
    CHECK_EQ(c.window, 2);
    congestion_acknowledged(&c, 10000, 256);
    CHECK(c.window <= 256);
}

/* Karn's rule: an acknowledgement of a packet that was repeated measures nothing. */
TEST(what_was_repeated_is_not_measured) {
    world = (struct world){.delay = 100, .least_retry = 100};
    make_world(&world, 1, 64, 60);
    world.cut[0] = true;
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    world.cut[0] = false;
    while (step(&world))
        ;
    struct delivery_peer *peer = delivery_peer(&world.end[0].delivery, world.end[1].address);
    CHECK_EQ(world.end[1].messages, 1);
    CHECK_EQ(world.end[0].counts.retransmitted, 1);
    CHECK_EQ(peer->congestion.round_trip, 0);
    CHECK_EQ(peer->congestion.window, 3); /* 2, and the one that arrived */
    CHECK(offer(&world, 0, make_packet(&world, 1, 1, 0)));
    while (step(&world))
        ;
    CHECK_EQ(peer->congestion.round_trip, 200);
    end_world(&world);
}

static bool near_is_reliable(void *context, struct nic_address peer) {
    (void)context;
    return peer.nid < 5;
}

TEST(reliable_is_a_property_of_the_peer) {
    static const struct nic_driver driver = {.reliable = near_is_reliable};
    world = (struct world){.delay = 100};
    make_world(&world, 1, 64, 3);
    struct delivery *d = &world.end[0].delivery;
    world.end[0].config.driver = &driver;
    CHECK(delivery_peer(d, (struct nic_address){4, 1})->direct);
    CHECK(!delivery_peer(d, (struct nic_address){5, 1})->reliable);
    CHECK(delivery_peer(d, (struct nic_address){5, 1})->slot);
    CHECK(!delivery_peer(d, (struct nic_address){4, 1})->slot);
    end_world(&world);
}

/* Numbers that wrap around while packets are on the way. */
TEST(numbers_go_round) {
    for (uint32_t seed = 0; seed < seeds(200); seed++) {
        world = (struct world){.loss = 100, .doubling = 100, .delay = 50, .spread = 400};
        make_world(&world, seed, 1 + seed % 100, 60);
        for (uint32_t i = 0; i < 2; i++) {
            struct delivery_peer *out =
                delivery_peer(&world.end[i].delivery, world.end[!i].address);
            struct delivery_peer *in = delivery_peer(&world.end[!i].delivery, world.end[i].address);
            out->next_sequence = out->oldest = in->expected = 0xffffffff - seed % 64;
            out->next_message = in->in_message = 0xffffffff - seed % 7;
            world.end[!i].first_number = in->in_message;
        }
        const char *wrong = exchange(&world, 32);
        if (wrong)
            TEST_FAIL("seed %u: %s", seed, wrong);
        struct delivery_peer *out = delivery_peer(&world.end[0].delivery, world.end[1].address);
        CHECK(out->oldest < 1000 && out->next_message < 1000);
        end_world(&world);
    }
}

TEST(reliable_but_unordered_needs_no_acknowledgement) {
    for (uint32_t seed = 0; seed < seeds(200); seed++) {
        world = (struct world){.delay = 50, .spread = 900, .reliable = true};
        make_world(&world, seed, 0, 3);
        const char *wrong = exchange(&world, 50);
        if (wrong)
            TEST_FAIL("seed %u: %s", seed, wrong);
        CHECK_EQ(world.end[0].counts.receipts + world.end[0].counts.retransmitted, 0);
        CHECK_EQ(delivery_deadline(&world.end[0].delivery), UINT64_MAX);
        end_world(&world);
    }
}

TEST(no_more_than_a_window_is_on_the_way) {
    world = (struct world){.delay = 100};
    make_world(&world, 1, 5, 3);
    for (uint32_t i = 0; i < 5; i++)
        CHECK(offer(&world, 0, make_packet(&world, i, 1, 0)));
    struct nic_packet *sixth = make_packet(&world, 5, 1, 0);
    CHECK(!offer(&world, 0, sixth));
    CHECK(step(&world)); /* the first arrives, */
    CHECK(!offer(&world, 0, sixth));
    while (world.end[0].rooms == 0)
        CHECK(step(&world)); /* its receipt too */
    CHECK(offer(&world, 0, sixth));
    CHECK(!offer(&world, 0, sixth));
    while (step(&world))
        ;
    CHECK_EQ(world.end[1].messages, 6);
    CHECK(!world.end[1].wrong);
    CHECK_EQ(world.end[0].counts.retransmitted, 0);
    end_world(&world);
}

/* A packet from end 1, given to end 0 by hand. */
static void by_hand(uint32_t sequence) {
    struct nic_packet *packet = make_packet(&world, 0, 1, 0);
    packet->source = world.end[1].address;
    packet->sequence = sequence;
    delivery_packet_in(&world.end[0].delivery, packet, world.now);
    nic_packet_release(packet);
}

/* What is further ahead than there is room to note would be taken for one that has come. */
TEST(a_packet_beyond_the_ring_is_not_taken) {
    world = (struct world){.delay = 10};
    make_world(&world, 1, 64, 3);
    by_hand(64);
    CHECK_EQ(world.end[0].counts.out_of_window, 1);
    CHECK_EQ(world.end[0].messages, 0);
    by_hand(63);
    CHECK_EQ(world.end[0].messages, 1);
    by_hand(63);
    by_hand(64);
    CHECK_EQ(world.end[0].counts.duplicates, 1);
    CHECK_EQ(world.end[0].counts.out_of_window, 2);
    CHECK_EQ(world.end[0].messages, 1);
    end_world(&world);
}

TEST(a_gap_is_filled_without_waiting_for_the_timer) {
    world = (struct world){.delay = 10};
    make_world(&world, 1, 64, 3);
    world.cut[0] = true;
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    world.cut[0] = false;
    for (uint32_t i = 1; i < 6; i++)
        CHECK(offer(&world, 0, make_packet(&world, i, 1, 0)));
    while (world.end[1].messages < 6)
        CHECK(step(&world));
    CHECK(world.now < 100); /* retry_time is 1000 */
    CHECK_EQ(world.end[0].counts.retransmitted, 1);
    end_world(&world);
}

TEST(the_timer_repeats_doubles_and_gives_up) {
    world = (struct world){.delay = 10, .cut = {true, false}};
    make_world(&world, 1, 64, 3);
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    const uint64_t at[] = {1000, 3000, 7000, 15000};
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(delivery_deadline(&world.end[0].delivery), at[i]);
        CHECK_EQ(world.end[0].lost, 0);
        CHECK(step(&world));
        CHECK_EQ(world.now, at[i]);
    }
    CHECK_EQ(world.end[0].lost, 1);
    CHECK_EQ(world.end[0].counts.retransmitted, 3);
    CHECK(!step(&world)); /* and nothing is left that could hang */
    CHECK_EQ(nic_pool_used(world.pool), 0);
    end_world(&world);
}

/* A peer of which it is said that it has ended is given up sooner, unless it is heard. */
TEST(silence_alone_takes_longer) {
    for (uint32_t refused = 0; refused < 3; refused++) {
        world = (struct world){.delay = 10};
        make_world(&world, 1, 64, 2);
        world.end[0].config.silent_retries = 5;
        struct delivery *d = &world.end[0].delivery;
        CHECK(!exchange(&world, 3));
        if (refused)
            delivery_refused(d, world.end[1].address);
        if (refused == 2)
            CHECK(offer(&world, 1, make_packet(&world, 3, 1, 0)));
        while (step(&world))
            ;
        uint64_t before = world.end[0].counts.retransmitted;
        world.cut[0] = true;
        CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
        while (!world.end[0].lost)
            CHECK(step(&world));
        CHECK_EQ(world.end[0].counts.retransmitted - before, refused == 1 ? 2 : 5);
        end_world(&world);
    }
}

/* However long round trips were, a peer that has ended is given up in bounded time. */
TEST(the_timer_doubles_up_to_a_limit) {
    world = (struct world){.delay = 3000, .least_retry = 100, .most_retry = 2000};
    make_world(&world, 1, 64, 3);
    const struct congestion *c =
        &delivery_peer(&world.end[0].delivery, world.end[1].address)->congestion;
    CHECK(!exchange(&world, 20));
    CHECK(c->retry_time > 2000);
    world.cut[0] = true;
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    uint64_t begun = world.now;
    while (!world.end[0].lost)
        CHECK(step(&world));
    CHECK_EQ(world.now - begun, 4 * 2000);
    end_world(&world);
}

/* A timer that was set long ago for an answer is not one for a packet that leaves now. */
TEST(a_packet_has_its_own_time) {
    world = (struct world){.delay = 10};
    make_world(&world, 1, 64, 3);
    delivery_expect(&world.end[0].delivery,
                    delivery_peer(&world.end[0].delivery, world.end[1].address));
    delivery_arm(&world.end[0].delivery, 0);
    world.now = 990;
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    while (world.now < 1990)
        CHECK(step(&world));
    CHECK_EQ(world.end[0].counts.retransmitted, 0);
    CHECK_EQ(world.end[1].messages, 1);
    end_world(&world);
}

TEST(after_it_was_given_up_a_peer_can_be_reached_again) {
    world = (struct world){.delay = 10};
    make_world(&world, 1, 64, 3);
    CHECK(!exchange(&world, 4)); /* both know each other */
    world.cut[0] = true;
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    while (step(&world))
        ;
    CHECK_EQ(world.end[0].lost, 1);
    world.cut[0] = false;
    world.end[1].messages = world.end[1].packets = 0;
    world.end[0].messages = world.end[0].packets = 0;
    memset(world.end[0].parts, 0, sizeof world.end[0].parts);
    memset(world.end[1].parts, 0, sizeof world.end[1].parts);
    for (uint32_t i = 0; i < 4; i++)
        CHECK(offer(&world, 0, make_packet(&world, i, 1, 0)));
    while (step(&world))
        ;
    CHECK_EQ(world.end[1].lost, 1); /* the other side has learnt it, once */
    CHECK_EQ(world.end[1].messages, 4);
    CHECK(!world.end[1].wrong);
    for (uint32_t i = 0; i < 4; i++)
        CHECK(offer(&world, 1, make_packet(&world, i, 1, 0)));
    while (step(&world))
        ;
    CHECK_EQ(world.end[0].messages, 4);
    CHECK(!world.end[0].wrong);
    CHECK_EQ(world.end[0].lost + world.end[1].lost, 2);
    end_world(&world);
}

/* One who does not know yet that it was given up goes on with its old stream, for nobody. */
TEST(what_a_given_up_peer_still_sends_is_ignored) {
    world = (struct world){.delay = 10};
    make_world(&world, 1, 64, 3);
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    while (step(&world))
        ;
    CHECK_EQ(world.end[1].messages, 1); /* and its receipt has told its stream */
    delivery_lose(&world.end[0].delivery, world.end[1].address);
    CHECK_EQ(world.end[0].lost, 1);
    CHECK(offer(&world, 1, make_packet(&world, 0, 1, 0)));
    while (step(&world))
        ;
    CHECK_EQ(world.end[0].messages, 0);
    CHECK_EQ(world.end[0].counts.duplicates, 4);
    CHECK_EQ(world.end[1].lost, 1);
    end_world(&world);
}

/* Cut off at random moments, in both directions; in the end all is quiet and traffic flows. */
TEST(partitions_do_not_hang) {
    for (uint32_t seed = 0; seed < seeds(300); seed++) {
        world = (struct world){.loss = 50, .doubling = 50, .delay = 50, .spread = 300};
        make_world(&world, seed, 16, 2);
        for (uint32_t round = 0; round < 6; round++) {
            world.cut[0] = rng_below(&world.rng, 2);
            world.cut[1] = rng_below(&world.rng, 2);
            for (uint32_t i = 0; i < 40; i++) {
                struct nic_packet *packet = make_packet(&world, 0, 1, 0);
                if (!offer(&world, i & 1, packet))
                    nic_packet_release(packet);
                flush(&world, i & 1);
                step(&world);
            }
        }
        world.cut[0] = world.cut[1] = false;
        uint32_t steps = 0;
        while (step(&world))
            CHECK(++steps < 100000);
        CHECK_EQ(nic_pool_used(world.pool), 0);
        world.loss = 0;
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t before = world.end[!i].messages + world.end[i].lost;
            for (uint32_t tries = 0;
                 tries < 4 && world.end[!i].messages + world.end[i].lost == before; tries++) {
                CHECK(offer(&world, i, make_packet(&world, 0, 1, 0)));
                while (step(&world))
                    ;
            }
            if (world.end[!i].messages + world.end[i].lost == before)
                TEST_FAIL("seed %u: nothing arrives at end %u", seed, !i);
        }
        end_world(&world);
    }
}

TEST(a_restarted_peer_starts_afresh) {
    world = (struct world){.delay = 10};
    make_world(&world, 1, 64, 3);
    CHECK(!exchange(&world, 10));
    delivery_clear(&world.end[1].delivery);
    make_end(&world, 1, 1, 64, 3); /* a later life: a higher stream */
    CHECK(offer(&world, 1, make_packet(&world, 0, 1, 0)));
    world.end[0].messages = 0;
    memset(world.end[0].parts, 0, sizeof world.end[0].parts);
    while (step(&world))
        ;
    CHECK_EQ(world.end[0].lost, 1);
    CHECK_EQ(world.end[0].messages, 1);
    CHECK(offer(&world, 0, make_packet(&world, 0, 1, 0)));
    while (step(&world))
        ;
    CHECK_EQ(world.end[1].messages, 1);
    CHECK_EQ(world.end[1].lost, 0);
    CHECK(!world.end[0].wrong && !world.end[1].wrong);
    end_world(&world);
}

/* It knows nothing of what it had acknowledged, and says so; that must not pass for progress. */
TEST(a_peer_that_forgot_everything_is_given_up) {
    world = (struct world){.delay = 10};
    make_world(&world, 1, 64, 3);
    CHECK(!exchange(&world, 10));
    delivery_clear(&world.end[1].delivery);
    make_end(&world, 1, 0, 64, 3); /* the same stream: it cannot be told from the old life */
    CHECK(offer(&world, 0, make_packet(&world, 10, 1, 0)));
    uint32_t steps = 0;
    while (step(&world))
        CHECK(++steps < 1000);
    CHECK_EQ(world.end[0].lost, 1);
    CHECK_EQ(world.end[1].messages, 0);
    end_world(&world);
}

TEST(a_silent_peer_of_whom_something_is_expected_is_probed) {
    world = (struct world){.delay = 10};
    make_world(&world, 1, 64, 3);
    CHECK(!exchange(&world, 2));
    struct delivery_peer *peer = delivery_peer(&world.end[0].delivery, world.end[1].address);
    delivery_expect(&world.end[0].delivery, peer);
    delivery_arm(&world.end[0].delivery, world.now);
    uint64_t start = world.now;
    while (world.now < start + 50000)
        CHECK(step(&world));
    CHECK_EQ(world.end[0].lost, 0); /* it answers */
    world.cut[1] = true;
    while (!world.end[0].lost)
        CHECK(step(&world));
    CHECK(!step(&world) || !step(&world) || !step(&world));
    end_world(&world);
}

/* Both wait for each other: one for an answer, the other for the acknowledgement of that answer. */
TEST(who_probes_us_does_not_put_off_what_we_repeat) {
    world = (struct world){.delay = 10};
    make_world(&world, 1, 64, 8);
    CHECK(!exchange(&world, 2));
    struct delivery_peer *peer = delivery_peer(&world.end[0].delivery, world.end[1].address);
    uint64_t start = world.now;
    world.cut[1] = true;
    CHECK(offer(&world, 1, make_packet(&world, 2, 1, 0)));
    world.cut[1] = false;
    while (world.now < start + 4000 && world.end[0].messages == 2) {
        struct nic_packet *probe = nic_packet_new(world.pool);
        probe->kind = NIC_PROBE;
        probe->source = world.end[0].address;
        probe->stream = peer->stream;
        probe->ack = peer->expected;
        delivery_packet_in(&world.end[1].delivery, probe, world.now);
        nic_packet_release(probe);
        flush(&world, 1);
        world.now += 100; /* often */
        while (world.flying || delivery_deadline(&world.end[1].delivery) <= world.now)
            CHECK(step(&world));
    }
    CHECK_EQ(world.end[0].messages, 3);
    end_world(&world);
}

TEST(forged_acknowledgements_change_nothing) {
    for (uint32_t seed = 0; seed < seeds(300); seed++) {
        world = (struct world){.delay = 10, .spread = 100, .loss = 50};
        make_world(&world, seed, 32, 30);
        struct delivery *d = &world.end[0].delivery;
        struct delivery_peer *peer = delivery_peer(d, world.end[1].address);
        for (uint32_t i = 0; i < 20; i++) {
            struct nic_packet *packet = nic_packet_new(world.pool);
            packet->kind = NIC_RECEIPT;
            packet->source = world.end[1].address;
            packet->ack_stream = rng_below(&world.rng, 2);
            packet->ack = 40 + rng_u32(&world.rng) % 4000000000u; /* of packets that never left */
            packet->sack = rng_u64(&world.rng);
            delivery_packet_in(d, packet, world.now);
            nic_packet_release(packet);
        }
        CHECK_EQ(peer->oldest, 0);
        const char *wrong = exchange(&world, 16);
        if (wrong)
            TEST_FAIL("seed %u: %s", seed, wrong);
        end_world(&world);
    }
}

TEST(peers_are_found_among_many) {
    world = (struct world){.reliable = true};
    make_world(&world, 1, 64, 3);
    struct delivery *d = &world.end[0].delivery;
    struct delivery_peer *first = delivery_peer(d, (struct nic_address){1000, 0});
    for (uint32_t i = 0; i < 10000; i++)
        delivery_peer(d, (struct nic_address){i * 65537, i % 3});
    for (uint32_t i = 0; i < 10000; i++) { /* the one of then, and no second one */
        d->last_peer = NULL;
        CHECK(delivery_peer(d, (struct nic_address){i * 65537, i % 3}) ==
              delivery_peer_at(d, i + 1));
    }
    CHECK(delivery_peer(d, (struct nic_address){1000, 0}) == first);
    CHECK(delivery_peer(d, (struct nic_address){65537, 1})->address.pid == 1);
    CHECK(delivery_peer_at(d, 0) == first);
    CHECK(delivery_peer_at(d, 10000) != NULL);
    CHECK(delivery_peer_at(d, 10001) == NULL);
    end_world(&world);
}

TEST_MAIN
