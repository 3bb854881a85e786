/* Everything at once, from a seed: operations of all kinds, handlers that return anything and give
 * any command, a bad network, processes that die, interfaces that are closed in the middle. Nothing
 * may hang, leak or touch what it should not: the sanitizers' builds run this too. */
#include "lib/nichost.h"
#include "spin/driver.h"

#define MEMORY 2048

static struct nicworld world;
static uint64_t memory[NODES][MEMORY / 8], result_memory[NODES][MEMORY / 8];

static uint32_t below(uint32_t bound) {
    return rng_below(&world.rng, bound);
}

/* A handler between its commands. */
static struct script {
    const struct nic_task *task;
    uint32_t commands, number, word[SPIN_WORDS], handles;
    bool again, waits;
} scripts[512];

static struct script *script_of(const struct nic_task *task) {
    struct script *free_one = NULL;
    for (uint32_t i = 0; i < 512; i++) {
        if (scripts[i].task == task)
            return &scripts[i];
        if (!scripts[i].task)
            free_one = &scripts[i];
    }
    CHECK(free_one != NULL);
    *free_one = (struct script){.task = task, .commands = below(4)};
    return free_one;
}

static uint32_t any_address(void) {
    static const uint32_t at[] = {STATE_AT, STACK_AT, PACKET_AT, 0};
    return at[below(4)] + 8 * below(10);
}

static void any_command(struct script *s) {
    s->number = 1 + below(16);
    for (uint32_t i = 0; i < SPIN_WORDS; i++)
        s->word[i] = below(8) ? below(64) * 8 : rng_u32(&world.rng);
    switch (s->number) {
    case SPIN_COMMAND_DMA_TO_HOST:
        s->word[0] = any_address();
        s->word[3] = below(2);
        break;
    case SPIN_COMMAND_DMA_FROM_HOST:
    case SPIN_COMMAND_DMA_CAS:
        s->word[1] = any_address();
        s->word[3 + (s->number == SPIN_COMMAND_DMA_CAS)] = below(2);
        break;
    case SPIN_COMMAND_DMA_FETCH_ADD:
        s->word[3] = any_address();
        s->word[4] = below(9);
        s->word[5] = below(9);
        s->word[6] = below(2);
        break;
    case SPIN_COMMAND_CT_GET:
    case SPIN_COMMAND_CAS:
    case SPIN_COMMAND_FETCH_ADD:
        s->word[0] = any_address();
        s->word[1] = any_address();
        break;
    default: /* messages */
        if (below(4))
            s->word[0] = any_address();
        s->word[1] = below(300);
        s->word[2] = below(2);
        s->word[3] = below(4);
        s->word[4] = below(world.nodes);
        s->word[5] = 5;
        s->word[6] = 0;
        s->word[11] = below(12) | below(12) << 8;
    }
}

/* Returns to say when the handler must wait. */
static bool gives_commands(struct script *s) {
    while (s->commands || s->again) {
        uint32_t result = 0;
        if (s->waits) {
            if (world_test(&world, s->task, s->handles, true, &result) == NIC_COMMAND_WAIT)
                return false;
            s->waits = false;
            continue;
        }
        if (!s->again) {
            s->commands--;
            any_command(s);
        }
        s->again = false;
        enum nic_command_result r = world_command(&world, s->task, s->number, s->word, &result);
        if (r == NIC_COMMAND_WAIT) {
            s->again = true;
            return false;
        }
        if (r == NIC_COMMAND_DONE && s->number <= SPIN_COMMAND_DMA_FETCH_ADD) {
            s->handles = result;
            s->waits = below(2);
        }
    }
    return true;
}

static int32_t handler(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w;
    (void)n;
    struct script *s = script_of(task);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < task->bytes; i++)
        sum += task->data[i]; /* may be read, says the sanitizer */
    if (below(50) && !gives_commands(s))
        return BLOCKED;
    s->task = NULL;
    return sum == 0x123456789 ? 0 : (int32_t)below(11);
}

static void post(struct node *n, uint32_t options) {
    ptl_me_t me = host_entry(memory[n->index], MEMORY, 5,
                             PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE | options);
    if (below(3)) {
        me.user_hdr_length = below(3) * 16;
        me = host_handlers(n, me, 1 + below(15));
        me.handler_host_mem_start = result_memory[n->index];
        me.handler_host_mem_length = MEMORY;
    }
    if (below(2))
        CHECK_EQ(portals_ct_alloc(n->portals, n->ni, &me.ct_handle), PTL_OK);
    ptl_handle_me_t handle;
    portals_me_append(n->portals, n->ni, 0, &me, below(4) ? PTL_PRIORITY_LIST : PTL_OVERFLOW_LIST,
                      NULL, &handle);
}

static void operate(struct node *n) {
    static const uint8_t kinds[] = {PORTALS_PUT,    PORTALS_PUT,          PORTALS_GET,
                                    PORTALS_ATOMIC, PORTALS_FETCH_ATOMIC, PORTALS_SWAP};
    struct portals_request r =
        host_put(n->md, 8 * below(32), 8 * below(64), below(world.nodes), 5 + !below(10));
    r.kind = kinds[below(6)];
    if (r.kind <= PORTALS_GET)
        r.length = below(MEMORY / 2);
    r.get_md = n->md;
    r.get_offset = 8 * below(32);
    r.remote_offset = 8 * below(MEMORY / 8);
    r.ack_req = (ptl_ack_req_t)below(4);
    r.operation = r.kind == PORTALS_SWAP ? PTL_SWAP : (ptl_op_t)below(10);
    r.datatype = PTL_UINT64_T;
    portals_start(n->portals, &r); /* may be refused */
}

static void check_quiet(uint32_t seed) {
    for (uint32_t i = 0; i < world.nodes; i++) {
        const char *wrong = portals_check(world.node[i].portals);
        if (wrong)
            TEST_FAIL("seed %u: %s", seed, wrong);
    }
    bool all_alive = true;
    for (uint32_t i = 0; i < world.nodes; i++)
        all_alive &= !world.node[i].dead;
    if (all_alive && nic_pool_used(world.pool))
        TEST_FAIL("seed %u: %llu packets are left", seed,
                  (unsigned long long)nic_pool_used(world.pool));
}

/* Of all worlds so far: did it happen at all? */
static uint64_t tasks, messages, flow_controls, given_up, parked, repeated, runs, unreadable;

static void chaos(uint32_t seed, bool good_network, bool deaths) {
    snprintf(test_context, sizeof test_context, "seed %u", seed);
    world = (struct nicworld){.loss = good_network ? 0 : 100,
                              .doubling = good_network ? 0 : 100,
                              .spread = good_network ? 0 : 700,
                              .memory_spread = 200,
                              .handler_spread = 100,
                              .at_once = seed / 2 % 2,
                              .run_bytes = seed % 5 ? 200 * (seed % 5) : 0,
                              .faults = seed % 11 ? 0 : 20,
                              .retold = seed % 4 == 1 ? 300 : 0,
                              .source_absence = seed % 7 == 1 ? 50 : 0,
                              .destination_absence = seed % 7 < 2 ? 50 : 0,
                              .unresolvable = 100,
                              .page_spread = 400,
                              .damage = seed % 10 ? 0 : 50,
                              .config = {.mtu_bytes = 64 << seed % 3,
                                         .reliable = good_network,
                                         .ordered = good_network,
                                         .retries = deaths ? 4 : 40,
                                         .window_packets = 1 + seed % 40,
                                         .receipt_time = seed % 3 == 1 ? 300 : 0,
                                         .credit_packets = seed % 9 == 4 ? 2 + seed % 50 : 0,
                                         .contexts = seed % 4 ? 0 : 1 + seed % 9,
                                         .handler_packets = seed % 5 ? 0 : 2,
                                         .block_bytes = seed % 7 < 3 ? 400 : 0,
                                         .unblocked_bytes = seed % 6 < 3 ? 0 : 8,
                                         .blocks_outstanding = seed % 9,
                                         .block_timeout = seed % 8 ? 1000 : 0,
                                         .fault_ends_timeout = seed / 3 % 2,
                                         .err_policy = (uint8_t)(seed / 2 % 3),
                                         .send_packets = 1 + seed % 17}};
    memset(scripts, 0, sizeof scripts);
    world_begin(&world, 3, seed);
    world_ranks(&world, seed % 3 ? 0 : PTL_PT_FLOWCTRL);
    for (uint32_t i = 0; i < 3; i++) {
        struct node *n = &world.node[i];
        n->md = host_md(n, memory[i], MEMORY);
        for (uint32_t k = 0; k <= NIC_CLEANUP_HANDLER; k++)
            n->handler[k] = handler;
        for (uint32_t k = 0; k < 3; k++)
            post(n, below(2) ? PTL_ME_USE_ONCE : 0);
    }
    bool closing[3] = {false}, closed[3] = {false};
    for (uint32_t step = 0; step < 400; step++) {
        uint32_t i = below(3);
        struct node *n = &world.node[i];
        if (!closing[i] && below(8) == 0)
            operate(n);
        if (!closing[i] && below(40) == 0)
            post(n, PTL_ME_USE_ONCE);
        if (!closing[i] && below(60) == 0)
            portals_pt_enable(n->portals, n->ni, 0);
        if (deaths && below(400) == 0)
            n->dead = true;
        closing[i] |= deaths && below(600) == 0;
        if (closing[i] && !closed[i] && seed % 2) {
            portals_fini(n->portals); /* leaves without closing */
            closed[i] = true;
        } else if (closing[i] && !closed[i]) {
            closed[i] = portals_ni_fini(n->portals, n->ni) != PTL_IN_USE;
        }
        world_actions(&world, n);
        world_step(&world);
    }
    world_settle(&world);
    check_quiet(seed);
    for (uint32_t i = 0; i < 3; i++) {
        const struct nic_counts *c = nic_counts(world.node[i].nic);
        tasks += c->tasks;
        messages += c->messages_in;
        flow_controls += c->flow_control;
        given_up += c->given_up;
        parked += c->parked;
        repeated += c->blocks_repeated;
    }
    runs += world.runs;
    unreadable += world.unreadable_runs;
    world_end(&world);
}

static uint32_t seeds(uint32_t usual) {
    const char *text = getenv("OPENSPIN_SEEDS");
    return text ? (uint32_t)strtoul(text, NULL, 0) : usual / (TEST_SANITIZED ? 4 : 1);
}

static void chaos_of_seeds(bool good_network, bool deaths) {
    uint32_t count = seeds(1000);
    tasks = messages = flow_controls = given_up = parked = repeated = runs = unreadable = 0;
    for (uint32_t seed = 0; seed < count; seed++)
        chaos(seed, good_network, deaths);
    test_context[0] = 0;
    CHECK(messages > 30 * count);
    CHECK(tasks > 10 * count);
    CHECK(flow_controls > count / 20);
    CHECK(parked > count / 5);
    CHECK(repeated > count / 2);
    CHECK(good_network ? runs == 0 : runs > count);
    CHECK(good_network || unreadable >= count / 100);
    CHECK(deaths ? given_up > count / 4 : given_up == 0);
}

TEST(nothing_hangs_on_a_good_network) {
    chaos_of_seeds(true, false);
}

TEST(nothing_hangs_on_a_bad_network) {
    chaos_of_seeds(false, false);
}

TEST(nothing_hangs_when_processes_die_and_close) {
    chaos_of_seeds(false, true);
}

TEST_MAIN
