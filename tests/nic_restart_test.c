/* A process that crashes with its card and begins another life, in the middle of a random run.
 * Every operation of a process that lives on ends, and with PTL_NI_UNDELIVERABLE where it did not
 * happen; an operation happens at most once in all lives of its target; what a life asked for is
 * never answered to the next one; nothing hangs, nothing is left. */
#include "lib/nichost.h"

#define RANKS 3
#define LIVES 4
#define OPS   120
#define BYTES 300

enum { SENT = 1, ANSWERED = 2 };

struct op {
    uint32_t from, life, to, bytes;
    bool gets;
    uint32_t seen;
    uint32_t answer;         /* ni_fail_type of the acknowledgement or reply */
    uint32_t arrived[LIVES]; /* events at the target, by its life */
};

static struct nicworld world;
static struct op ops[OPS];
static uint32_t op_count, life[RANKS];
/* Every operation has a place of its own in every life of its target. */
static uint8_t memory[RANKS][LIVES][OPS][BYTES];
static uint8_t source[OPS][BYTES], got[OPS][BYTES];
static ptl_handle_md_t source_md[RANKS], got_md[RANKS];

static uint32_t below(uint32_t bound) {
    return rng_below(&world.rng, bound);
}

static uint8_t there(uint32_t rank, uint32_t which, uint32_t number, uint32_t i) {
    return (uint8_t)(rank * 61 + which * 101 + number * 7 + i * 3);
}

static int32_t header(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w, (void)n, (void)task;
    return 4; /* PROCEED */
}

static int32_t completion(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w, (void)n, (void)task;
    return 0;
}

static void open_rank(uint32_t i) {
    struct node *n = &world.node[i];
    ptl_process_t map[RANKS];
    for (uint32_t k = 0; k < RANKS; k++)
        map[k] = (ptl_process_t){.phys = {.nid = k, .pid = 1}};
    world_interface(n, PTL_NI_LOGICAL, 0);
    CHECK_EQ(portals_set_map(n->portals, n->ni, RANKS, map), PTL_OK);
    source_md[i] = host_md(n, source, sizeof source);
    got_md[i] = host_md(n, got, sizeof got);
    n->handler[0] = n->handler[1] = header;
    n->handler[2] = completion;
    for (uint32_t k = 0; k < OPS; k++)
        for (uint32_t b = 0; b < BYTES; b++)
            memory[i][life[i]][k][b] = there(i, life[i], k, b);
    ptl_me_t me = host_entry(memory[i][life[i]], sizeof memory[i][0], 5,
                             PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE);
    if (below(2))
        me = host_handlers(n, me, 5);
    host_append(n, &me);
}

static void start(void) {
    uint32_t number = op_count, from = below(RANKS);
    struct op *o = &ops[number];
    *o = (struct op){.from = from,
                     .life = life[from],
                     .to = below(RANKS),
                     .bytes = 1 + below(BYTES),
                     .gets = below(2)};
    for (uint32_t i = 0; i < BYTES; i++)
        source[number][i] = (uint8_t)below(256);
    struct portals_request r =
        host_put(source_md[from], (uint64_t)number * BYTES, o->bytes, o->to, 5);
    r.kind = o->gets ? PORTALS_GET : PORTALS_PUT;
    r.get_md = got_md[from];
    r.get_offset = r.remote_offset = r.local_offset;
    r.ack_req = o->gets ? PTL_NO_ACK_REQ : PTL_ACK_REQ;
    r.user_ptr = o;
    r.hdr_data = number + 1;
    CHECK_EQ(portals_start(world.node[from].portals, &r), PTL_OK);
    op_count++;
}

static void at_target(uint32_t rank, const ptl_event_t *e) {
    uint32_t number = (uint32_t)(e->remote_offset / BYTES);
    if (e->ni_fail_type == PTL_NI_UNDELIVERABLE)
        return; /* its source crashed in the middle */
    CHECK_EQ(e->ni_fail_type, PTL_NI_OK);
    CHECK(number < op_count);
    struct op *o = &ops[number];
    CHECK_EQ(o->to, rank);
    CHECK_EQ(e->mlength, o->bytes);
    CHECK_EQ(e->type, o->gets ? PTL_EVENT_GET : PTL_EVENT_PUT);
    if (!o->gets) {
        CHECK_EQ(e->hdr_data, number + 1);
        CHECK(memcmp(memory[rank][life[rank]][number], source[number], o->bytes) == 0);
    }
    o->arrived[life[rank]]++;
}

static void take_events(void) {
    ptl_event_t e;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        while (world_event(&world.node[rank], &e)) {
            if (e.type != PTL_EVENT_SEND && e.type != PTL_EVENT_ACK && e.type != PTL_EVENT_REPLY) {
                at_target(rank, &e);
                continue;
            }
            struct op *o = e.user_ptr;
            uint32_t bit = e.type == PTL_EVENT_SEND ? SENT : ANSWERED;
            CHECK_EQ(o->from, rank);
            CHECK_EQ(o->life, life[rank]);
            CHECK(!(o->seen & bit));
            CHECK(e.ni_fail_type == PTL_NI_OK || e.ni_fail_type == PTL_NI_UNDELIVERABLE);
            o->seen |= bit;
            if (bit == ANSWERED)
                o->answer = e.ni_fail_type;
        }
}

/* Of an operation whose process lives: it is over, and what was told is true. */
static uint32_t undeliverable, done;
static void check_op(uint32_t number) {
    const struct op *o = &ops[number];
    for (uint32_t l = 0; l < LIVES; l++)
        if (o->arrived[l] > 1)
            TEST_FAIL("operation %u has happened %u times in life %u", number, o->arrived[l], l);
    if (o->life != life[o->from])
        return;
    CHECK_EQ(o->seen, o->gets ? ANSWERED : SENT | ANSWERED);
    if (o->answer != PTL_NI_OK) {
        undeliverable++;
        return;
    }
    done++;
    bool found = false;
    for (uint32_t l = 0; l <= life[o->to] && !found; l++) {
        found = true;
        for (uint32_t i = 0; i < o->bytes; i++)
            found &= o->gets ? got[number][i] == there(o->to, l, number, i)
                             : memory[o->to][l][number][i] == source[number][i];
    }
    if (!found)
        TEST_FAIL("operation %u is told to be done, and is not", number);
}

static void run_seed(uint32_t seed) {
    snprintf(test_context, sizeof test_context, "seed %u", seed);
    world = (struct nicworld){.loss = seed % 3 * 40,
                              .doubling = seed % 2 * 60,
                              .spread = seed % 4 ? 600 : 0,
                              .memory_spread = 150,
                              .handler_spread = 100,
                              .at_once = seed / 2 % 2,
                              .config = {.mtu_bytes = 64,
                                         .retries = 30,
                                         .window_packets = 1 + seed % 40,
                                         .send_packets = 1 + seed % 17}};
    op_count = 0;
    memset(life, 0, sizeof life);
    world_begin(&world, RANKS, seed);
    for (uint32_t i = 0; i < RANKS; i++)
        open_rank(i);
    while (op_count < OPS) {
        if (below(3) == 0)
            start();
        uint32_t rank = below(RANKS);
        world_actions(&world, &world.node[rank]);
        for (uint32_t i = below(4); i; i--)
            world_step(&world);
        take_events();
        if (below(100) == 0 && life[rank] < LIVES - 1) {
            world_restart(&world, rank);
            life[rank]++;
            open_rank(rank);
        }
    }
    world_settle(&world);
    take_events();
    for (uint32_t i = 0; i < op_count; i++)
        check_op(i);
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(portals_check(world.node[i].portals) == NULL);
    CHECK_EQ(nic_pool_used(world.pool), 0);
    world_end(&world);
}

TEST(lives_of_a_process_are_apart) {
    const char *text = getenv("OPENSPIN_SEEDS");
    uint32_t count = text ? (uint32_t)strtoul(text, NULL, 0) : 150;
    undeliverable = done = 0;
    for (uint32_t seed = 0; seed < count; seed++)
        run_seed(seed);
    test_context[0] = 0;
    CHECK(undeliverable > count);
    CHECK(done > 10 * count);
    CHECK(done > 2 * undeliverable); /* a crash costs what was under way, not all that follows */
}

TEST_MAIN
