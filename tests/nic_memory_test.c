/* Memory that runs out: the n-th allocation fails, for every n of a run from nic_new to the last
 * event. Callers see an error or the card counts it; nothing crashes, hangs or leaks; and the card
 * works afterwards. The linker puts our allocator before the C library's (tests/meson.build). */
#include "hpu/image.h"
#include "lib/failing.h"
#include "lib/nichost.h"

#define RANKS 2
#define BYTES 1000
#define OPS   24

static struct nicworld world;
static uint8_t source[RANKS][OPS][BYTES], target[RANKS][OPS][BYTES], got[RANKS][OPS][BYTES];
static uint32_t refused, told; /* calls; runs in which the card counted it */

/* Of each rank's operations, whose completion handler has run; and whether they have one. */
static bool completed[RANKS][OPS], has_handlers;
static uint32_t without_packet; /* completion handlers that had none */

static int32_t proceeds(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w, (void)n;
    if (task->kind == NIC_COMPLETION_HANDLER) {
        completed[task->message->source_rank][task->message->hdr_data] = true;
        without_packet += !task->packet;
    }
    bool codes = !task->handlers->image->info.is_pspin;
    return codes && task->kind == NIC_HEADER_HANDLER ? 4 : 0; /* PROCEED, SUCCESS */
}

/* Without handlers; with header and completion handlers, and the latter alone. */
enum { PLAIN, P4SPIN, P4SPIN_END, PSPIN };

static void add_handlers(struct node *n, ptl_me_t *me, int which) {
    static const char *const names[][2] = {
        [P4SPIN] = {"nic_header_handler", "nic_completion_handler"},
        [P4SPIN_END] = {NULL, "nic_completion_handler"},
        [PSPIN] = {"front_hh", "front_th"}};
    struct portals *p = n->portals;
    const char *path = getenv(which == PSPIN ? "PSPIN_IMAGE" : "NIC_IMAGE");
    TRY(portals_image_load(p, n->ni, path, NULL, 0, &n->image), PTL_NO_SPACE);
    me->options |= PTL_ME_HANDLERS;
    if (names[which][0])
        CHECK_EQ(portals_image_find(p, n->image, names[which][0], &me->header_handler), 0);
    CHECK_EQ(portals_image_find(p, n->image, names[which][1], &me->completion_handler), 0);
    TRY(portals_hpu_alloc(p, n->ni, 64, &me->hpu_memory), PTL_NO_SPACE);
}

static void open_rank(uint32_t i, int handlers) {
    struct node *n = &world.node[i];
    struct spin_error err;
    ptl_pt_index_t index;
    ptl_handle_me_t handle;
    ptl_process_t map[RANKS] = {{.phys = {0, 1}}, {.phys = {1, 1}}};
    TRY(world_try_node(&world, i, &err), SPIN_ENOMEM);
    struct portals *p = n->portals;
    TRY(portals_ni_init(p, PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, 1, NULL, NULL, NULL,
                        &n->ni),
        PTL_NO_SPACE);
    TRY(portals_set_map(p, n->ni, RANKS, map), PTL_NO_SPACE);
    TRY(portals_eq_alloc(p, n->ni, 256, &n->eq), PTL_NO_SPACE);
    TRY(portals_pt_alloc(p, n->ni, 0, n->eq, PTL_PT_ANY, &index), PTL_NO_SPACE);
    ptl_me_t me = host_entry(target[i], sizeof target[i], 5,
                             PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE);
    TRY(portals_ct_alloc(p, n->ni, &me.ct_handle), PTL_NO_SPACE);
    n->handler[0] = n->handler[1] = n->handler[2] = proceeds;
    if (handlers)
        add_handlers(n, &me, handlers);
    TRY(portals_me_append(p, n->ni, 0, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_NO_SPACE);
    ptl_md_t md = {source[i], sizeof source[i], 0, n->eq, PTL_CT_NONE};
    TRY(portals_md_bind(p, n->ni, &md, &n->md), PTL_NO_SPACE);
}

/* Allocation n from here on fails. */
static void open_world(uint64_t n, int handlers) {
    has_handlers = handlers;
    world.rng = rng_seeded(1);
    world.nodes = RANKS;
    allocations = 0;
    fail_at = n;
    TRY(nic_pool_new(&world.pool, 128, NULL), SPIN_ENOMEM);
    for (uint32_t i = 0; i < RANKS; i++)
        open_rank(i, handlers);
}

static uint32_t answers[RANKS][OPS], failures;

/* What is told as done to the target, or acknowledged, its completion handler has seen. */
static void check_completed(uint32_t i, const ptl_event_t *e) {
    if (!has_handlers || e->ni_fail_type != PTL_NI_OK)
        return;
    if (e->type == PTL_EVENT_ACK)
        CHECK(completed[i][(uintptr_t)e->user_ptr]);
    else if (e->type != PTL_EVENT_REPLY && e->type != PTL_EVENT_SEND)
        CHECK(completed[e->initiator.rank][e->hdr_data]);
}

static void take_events(void) {
    ptl_event_t e;
    int code;
    for (uint32_t i = 0; i < RANKS; i++) {
        while ((code = portals_eq_get(world.node[i].portals, world.node[i].eq, &e)) == PTL_OK) {
            failures += e.ni_fail_type != PTL_NI_OK;
            check_completed(i, &e);
            if (e.type == PTL_EVENT_ACK || e.type == PTL_EVENT_REPLY)
                answers[i][(uintptr_t)e.user_ptr] += 1 + (e.ni_fail_type != PTL_NI_OK) * 100;
        }
        CHECK_EQ(code, PTL_EQ_EMPTY); /* no event was lost */
    }
}

/* As far as it goes. */
static void steps(void) {
    uint64_t end = world.steps + 100000;
    for (uint32_t i = 0; i < RANKS; i++)
        world_actions(&world, &world.node[i]);
    while (world_step(&world))
        CHECK(world.steps < end);
}

/* Puts, gets and fetching atomics to the other rank and to oneself. */
static void exchange(uint32_t seed) {
    memset(answers, 0, sizeof answers);
    memset(completed, 0, sizeof completed);
    memset(target, 0x11, sizeof target);
    memset(got, 0, sizeof got);
    failures = 0;
    for (uint32_t k = 0; k < OPS; k++)
        for (uint32_t i = 0; i < RANKS; i++) {
            struct node *n = &world.node[i];
            memset(source[i][k], (int)(seed + 3 * k + i), BYTES);
            uint32_t to = k % 4 ? !i : i;
            struct portals_request r = host_put(n->md, (uint64_t)k * BYTES, 8 + k * 37, to, 5);
            r.kind = k % 3 == 0 ? PORTALS_PUT : k % 3 == 1 ? PORTALS_ATOMIC : PORTALS_FETCH_ATOMIC;
            r.operation = PTL_BXOR;
            r.datatype = PTL_UINT8_T;
            if (k % 3)
                r.length = 8 + k;
            r.ack_req = k % 3 == 2 ? PTL_NO_ACK_REQ : PTL_ACK_REQ;
            r.get_md = n->md;
            r.get_offset = r.local_offset + 500;
            r.remote_offset = (uint64_t)k * BYTES + (to == i ? 500 : 0);
            if (to == i && r.length > 500)
                r.length = 500;
            r.user_ptr = (void *)(uintptr_t)k;
            r.hdr_data = k;
            TRY(portals_start(n->portals, &r), PTL_NO_SPACE);
            world_actions(&world, n);
        }
    steps();
    take_events();
}

static void check_exchange(uint32_t seed) {
    CHECK_EQ(failures, 0);
    for (uint32_t i = 0; i < RANKS; i++)
        for (uint32_t k = 0; k < OPS; k++) {
            CHECK_EQ(answers[i][k], 1);
            uint32_t to = k % 4 ? !i : i, length = k % 3 ? 8 + k : 8 + k * 37;
            uint8_t value = (uint8_t)(seed + 3 * k + i);
            if (to == i && length > 500)
                length = 500;
            for (uint32_t b = 0; b < length; b++)
                CHECK_EQ(target[to][k][b + (to == i ? 500 : 0)], k % 3 ? value ^ 0x11 : value);
        }
}

enum { RELIABLE = 1, HANDLERS = 2, BLOCKS = 4, ENDINGS = 8 }; /* ENDINGS: completion alone */

/* Returns how many allocations it took. */
static uint64_t run(uint64_t n, unsigned what, bool at_once) {
    bool reliable = what & RELIABLE, blocks = what & BLOCKS;
    snprintf(test_context, sizeof test_context, "allocation %llu, %s network, %s%s%s",
             (unsigned long long)n, reliable ? "reliable" : "unreliable",
             at_once ? "at once" : "later",
             what & HANDLERS  ? ", handlers"
             : what & ENDINGS ? ", completion handlers"
                              : "",
             blocks ? ", blocks" : "");
    int64_t before = alive;
    world = (struct nicworld){.at_once = at_once,
                              .memory_spread = 50,
                              .source_absence = blocks ? 40 : 0,
                              .destination_absence = blocks ? 40 : 0,
                              .page_spread = 50,
                              .config = {.mtu_bytes = 128,
                                         .block_bytes = blocks ? 300 : 0,
                                         .block_timeout = 3000,
                                         .reliable = reliable,
                                         .ordered = reliable,
                                         .window_packets = 8,
                                         .retry_time = 5000,
                                         .retries = 40}};
    open_world(n, what & HANDLERS ? P4SPIN : what & ENDINGS ? P4SPIN_END : PLAIN);
    exchange(1);
    uint64_t taken = allocations, counted = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        counted += nic_counts(world.node[i].nic)->no_memory;
    if (!counted) /* then nothing may be missing, */
        check_exchange(1);
    told += counted != 0;
    /* On a reliable network an answer that is lost so is waited for in vain. */
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(nic_quiet(world.node[i].nic) || (reliable && counted));
    fail_at = 0;
    exchange(2); /* and with memory again, nothing in any case */
    check_exchange(2);
    for (uint32_t i = 0; i < RANKS; i++) {
        const char *wrong = portals_check(world.node[i].portals);
        if (wrong)
            TEST_FAIL("%s", wrong);
    }
    world_end(&world);
    CHECK_EQ(alive, before);
    return taken;
}

static void every_allocation(unsigned what) {
    for (int at_once = 0; at_once < 2; at_once++) {
        refused = told = 0;
        uint64_t count = run(0, what, at_once);
        CHECK(count > 60);
        for (uint64_t n = 1; n <= count; n += TEST_SANITIZED ? 3 : 1)
            run(n, what, at_once);
        test_context[0] = 0;
        CHECK(refused > (TEST_SANITIZED ? 3 : 10));
        CHECK(told > (TEST_SANITIZED ? 3 : 10));
    }
}

TEST(every_allocation_fails_once_on_an_unreliable_network) {
    every_allocation(0);
}

TEST(every_allocation_fails_once_on_a_reliable_network) {
    every_allocation(RELIABLE);
}

TEST(every_allocation_fails_once_with_handlers) {
    every_allocation(HANDLERS);
    every_allocation(ENDINGS);
}

TEST(every_allocation_fails_once_in_blocks_with_absent_pages) {
    every_allocation(BLOCKS);
    every_allocation(BLOCKS | RELIABLE);
}

/* Of the next event of that type; -1: there is none. */
static int fail_of(uint32_t i, int type) {
    ptl_event_t e;
    while (world_event(&world.node[i], &e))
        if ((int)e.type == type)
            return e.ni_fail_type;
    return -1;
}

static struct nic_packet *taken_away;

/* What arrives finds no packet in the pool that others have released. */
static void take_away(struct nicworld *w, const struct nic_packet *packet, bool arrives) {
    struct nic_packet *released;
    (void)packet;
    all_fail = true;
    while (arrives && (released = nic_packet_new(w->pool))) {
        released->next = taken_away;
        taken_away = released;
    }
    all_fail = false;
}

static void give_back(void) {
    while (taken_away) {
        struct nic_packet *packet = taken_away;
        taken_away = packet->next;
        nic_packet_release(packet);
    }
}

/* A put whose packets come while its header handler runs, in memory of the driver's, from where
 * they are copied. Returns how many allocations it took. */
static uint64_t put_behind_header_handler(uint64_t n, int handlers, uint32_t *lost) {
    snprintf(test_context, sizeof test_context, "allocation %llu", (unsigned long long)n);
    world = (struct nicworld){.lent_in = true,
                              .watch = take_away,
                              .handler_spread = 100000,
                              .config = {.mtu_bytes = 128, .reliable = true, .ordered = true}};
    open_world(0, handlers);
    CHECK(nic_spare(world.node[1].nic) &&
          nic_peer_meet(world.node[1].nic, (struct nic_address){0, 1}));
    memset(source[0][0], 0x5a, BYTES);
    memset(target[1][0], 0, BYTES);
    memset(completed, 0, sizeof completed);
    struct portals_request r = host_put(world.node[0].md, 0, BYTES, 1, 5);
    r.ack_req = PTL_ACK_REQ;
    allocations = 0;
    fail_at = n;
    TRY(portals_start(world.node[0].portals, &r), PTL_NO_SPACE);
    steps();
    uint64_t taken = allocations;
    fail_at = 0;
    world_settle(&world); /* what could not be sent before */
    int put = fail_of(1, PTL_EVENT_PUT), ack = fail_of(0, PTL_EVENT_ACK);
    CHECK(ack >= 0 && (put < 0 || ack == put));
    bool whole = memcmp(target[1][0], source[0][0], BYTES) == 0;
    if (handlers == P4SPIN) /* PsPIN's handlers store what is stored */
        CHECK(whole || ack != PTL_NI_OK);
    CHECK(completed[0][0] || ack != PTL_NI_OK);
    *lost += put == PTL_NI_UNDELIVERABLE;
    give_back();
    world_end(&world);
    return taken;
}

static void every_packet_is_lost_once(int handlers) {
    uint32_t lost = 0;
    uint64_t count = put_behind_header_handler(0, handlers, &lost);
    CHECK_EQ(lost, 0);
    for (uint64_t n = 1; n <= count; n++)
        put_behind_header_handler(n, handlers, &lost);
    CHECK(lost >= BYTES / 128);
}

TEST(a_message_fails_whose_packets_cannot_wait_for_its_header_handler) {
    every_packet_is_lost_once(P4SPIN);
}

TEST(completion_handlers_of_pspin_run_with_the_last_packet_or_not_at_all) {
    without_packet = 0;
    every_packet_is_lost_once(PSPIN);
    CHECK_EQ(without_packet, 0);
}

TEST_MAIN
