/* Commands of handlers: DMA, atomics on host memory, messages, counters, HPU memory (SC'17,
 * appendix B.6). Each test is a header handler that gives commands, step by step: a step that has
 * to wait is called again. */
#include "lib/nichost.h"
#include "spin/driver.h"

enum { PROCEED = 4, DROP = 6, FAIL = 8, SEGV = 9 };

static struct nicworld world;
static uint64_t me_memory[512], handler_memory[512], other_memory[512];

/* The handler of the moment and what it remembers. */
static struct {
    int32_t (*run)(const struct nic_task *task);
    uint32_t step, handle[100], seen;
    bool waited;
} script;

static enum nic_command_result issue(const struct nic_task *task, uint32_t number,
                                     const uint32_t *word, uint32_t *result) {
    return world_command(&world, task, number, word, result);
}

/* Gives a command that must succeed at once. */
#define DO(task, number, result, ...)                                                              \
    do {                                                                                           \
        const uint32_t words_[SPIN_WORDS] = {__VA_ARGS__};                                         \
        CHECK_EQ(issue(task, SPIN_COMMAND_##number, words_, result), NIC_COMMAND_DONE);            \
    } while (0)
#define REFUSED(task, number, how, ...)                                                            \
    do {                                                                                           \
        const uint32_t words_[SPIN_WORDS] = {__VA_ARGS__};                                         \
        uint32_t result_;                                                                          \
        CHECK_EQ(issue(task, SPIN_COMMAND_##number, words_, &result_), NIC_COMMAND_##how);         \
    } while (0)

static uint64_t *stack(void) {
    return world.node[1].stack;
}

/* True: the command with that handle is done; else the handler waits. */
static bool done(const struct nic_task *task, uint32_t handle) {
    uint32_t result;
    enum nic_command_result r = world_test(&world, task, handle, true, &result);
    CHECK(r == NIC_COMMAND_DONE || r == NIC_COMMAND_WAIT);
    script.waited |= r == NIC_COMMAND_WAIT;
    return r == NIC_COMMAND_DONE;
}

static int32_t run(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w;
    (void)n;
    return script.run(task);
}

static void begin(uint32_t seed, unsigned ni_options) {
    if (!world.config.mtu_bytes)
        world.config.mtu_bytes = 256;
    world_begin(&world, 2, seed);
    if (ni_options & PTL_NI_PHYSICAL)
        world_physical(&world);
    else
        world_ranks(&world, 0);
    for (uint32_t i = 0; i < 512; i++) {
        me_memory[i] = 1000 + i;
        handler_memory[i] = 2000 + i;
        other_memory[i] = 0;
    }
    memset(&script, 0, sizeof script);
    for (uint32_t k = 0; k < 3; k++)
        world.node[1].handler[k] = run;
}

/* A message to the entry with the handler, and until everything is quiet. */
static void go(int32_t (*handler)(const struct nic_task *task), ptl_me_t me) {
    script.run = handler;
    me = host_handlers(&world.node[1], me, 1);
    me.handler_host_mem_start = handler_memory;
    me.handler_host_mem_length = sizeof handler_memory;
    host_append(&world.node[1], &me);
    static uint64_t data[4] = {0x1111, 0x2222, 0x3333, 0x4444};
    struct portals_request put = host_put(host_md(&world.node[0], data, 32), 0, 32, 1, 5);
    put.target = world.physical ? (ptl_process_t){.phys = {1, 1}} : (ptl_process_t){.rank = 1};
    put.hdr_data = 77;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_settle(&world);
    CHECK_EQ(world.node[1].ran[0], 1);
}

static ptl_me_t from_anyone(ptl_me_t me) {
    if (world.physical)
        me.match_id = (ptl_process_t){.phys = {.nid = PTL_NID_ANY, .pid = PTL_PID_ANY}};
    return me;
}

static ptl_me_t entry(void) {
    return from_anyone(
        host_entry(me_memory, sizeof me_memory, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE));
}

/* The handler must have ended well. */
static void ended(int fail) {
    world_expect(&world.node[1], PTL_EVENT_PUT, fail);
}

static int32_t dma(const struct nic_task *task) {
    uint32_t *h = script.handle, result;
    switch (script.step) {
    case 0:
        stack()[0] = 5;
        stack()[1] = 6;
        DO(task, DMA_TO_HOST, &h[0], STACK_AT, 800, 16, 0);
        DO(task, DMA_TO_HOST, &h[1], STACK_AT, 1600, 8, 1);
        DO(task, DMA_FROM_HOST, &h[2], 80, STACK_AT + 64, 16, 0);
        DO(task, DMA_FROM_HOST, &h[3], 160, STACK_AT + 80, 8, 1);
        CHECK(h[0] && h[1] != h[0] && h[2] != h[1] && h[3] != h[2]);
        CHECK_EQ(world_test(&world, task, h[3], false, &result), NIC_COMMAND_DONE);
        CHECK_EQ(result, 0); /* under way */
        script.step++;       /* fallthrough */
    default:
        for (uint32_t i = 0; i < 4; i++)
            if (!done(task, h[i]))
                return BLOCKED;
    }
    CHECK_EQ(world_test(&world, task, h[0], false, &result), NIC_COMMAND_DONE);
    CHECK_EQ(result, 1);
    CHECK_EQ(stack()[8], 1010);
    CHECK_EQ(stack()[9], 1011);
    CHECK_EQ(stack()[10], 2020);
    return DROP;
}

TEST(dma_to_and_from_both_memories) {
    for (uint32_t seed = 0; seed < 20; seed++) {
        world = (struct nicworld){.memory_spread = 1000};
        begin(seed, 0);
        go(dma, entry());
        ended(PTL_NI_OK);
        CHECK(script.waited);
        CHECK_EQ(me_memory[100], 5);
        CHECK_EQ(me_memory[101], 6);
        CHECK_EQ(me_memory[102], 1102);
        CHECK_EQ(handler_memory[200], 5);
        world_end(&world);
    }
}

static int32_t dma_pieces(const struct nic_task *task) {
    if (!script.step++) {
        for (uint32_t i = 0; i < 32; i++)
            stack()[i] = 50 + i;
        DO(task, DMA_TO_HOST, &script.handle[0], STACK_AT, 4, 200, 0);
    }
    return done(task, script.handle[0]) ? DROP : BLOCKED;
}

TEST(dma_into_pieces_of_memory) {
    world = (struct nicworld){.memory_spread = 100};
    begin(1, 0);
    static ptl_iovec_t piece[60];
    for (uint32_t i = 0; i < 60; i++)
        piece[i] = (ptl_iovec_t){(uint8_t *)me_memory + 16 * i, 8};
    ptl_me_t me = entry();
    me.start = piece;
    me.length = 60;
    me.options |= PTL_IOVEC;
    go(dma_pieces, me);
    ended(PTL_NI_OK);
    const uint8_t *from = (const uint8_t *)stack();
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t at = 4 + i;
        CHECK_EQ(((uint8_t *)me_memory)[16 * (at / 8) + at % 8], from[i]);
    }
    CHECK_EQ(me_memory[1], 1001);
    world_end(&world);
}

static void says(const char *call, const char *why) {
    CHECK_STR(world.refusal.call, call);
    CHECK_STR(world.refusal.why, why);
}

static int32_t dma_bad(const struct nic_task *task) {
    uint32_t result;
    REFUSED(task, DMA_TO_HOST, HOST, STACK_AT, sizeof me_memory - 8, 16, 0);
    says("PtlHandlerDMAToHost",
         "16 bytes at offset 4,088 of the ME's host memory, which has 4,096");
    REFUSED(task, DMA_TO_HOST, HOST, STACK_AT, 0xfffffff0, 16, 0);
    REFUSED(task, DMA_TO_HOST, SEGV, STACK_AT + 505, 0, 8, 0);
    says("PtlHandlerDMAToHost", "8 bytes at 0x000021f9, which the handler may not read");
    REFUSED(task, DMA_FROM_HOST, SEGV, 0, PACKET_AT, 8, 0); /* packets are not written */
    REFUSED(task, DMA_FROM_HOST, HOST, sizeof handler_memory, STACK_AT, 1, 1);
    says("PtlHandlerDMAFromHost",
         "1 byte at offset 4,096 of the handler's host memory, which has 4,096");
    REFUSED(task, DMA_FROM_HOST, FAULT, 0, STACK_AT, 8, 2);
    REFUSED(task, DMA_CAS, FAULT, 4, STACK_AT, 1, 0, 0); /* not aligned */
    REFUSED(task, DMA_CAS, HOST, sizeof me_memory, STACK_AT, 1, 0, 0);
    REFUSED(task, DMA_FETCH_ADD, FAULT, 0, 1, 0, STACK_AT, 4, PTL_FLOAT, 0);
    says("PtlHandlerDMAFetchAdd", "type 6 is no integer");
    REFUSED(task, DMA_FETCH_ADD, FAULT, 2, 1, 0, STACK_AT, 4, PTL_INT32_T, 0);
    REFUSED(task, DMA_FETCH_ADD, FAULT, 0, 1, 0, STACK_AT, 9, PTL_INT32_T, 0);
    REFUSED(task, DMA_FETCH_ADD, SEGV, 0, 1, 0, 0, 4, PTL_INT32_T, 0);
    REFUSED(task, CAS, SEGV, STATE_AT + 4, 0, 0, 0, 0);
    REFUSED(task, FETCH_ADD, SEGV, STATE_AT + 256, STACK_AT, 1, 0);
    REFUSED(task, CT_GET, SEGV, 0);
    REFUSED(task, CT_INC, FAULT, 1, 0);                               /* the entry has no counter */
    REFUSED(task, PUT_FROM_DEVICE, FAULT, STACK_AT, 257, 0, 0, 0, 9); /* more than a packet */
    says("PtlHandlerPutFromDevice", "257 bytes, at most 256");
    REFUSED(task, PUT_FROM_DEVICE, SEGV, STACK_AT + 500, 20, 0, 0, 0, 9);
    REFUSED(task, PUT_FROM_DEVICE, FAULT, STACK_AT, 8, 0, 0, 5000, 9); /* no such rank */
    says("PtlHandlerPutFromDevice", "8 bytes to 5000: PTL_ARG_INVALID");
    REFUSED(task, PUT_FROM_DEVICE, FAULT, STACK_AT, 8, 7, 0, 0, 9);
    REFUSED(task, PUT_FROM_DEVICE, FAULT, STACK_AT, 8, 0, 9, 0, 9);
    REFUSED(task, PUT_FROM_HOST, HOST, sizeof me_memory - 4, 8, 0, 0, 0, 9);
    REFUSED(task, GET_TO_HOST, HOST, sizeof me_memory - 4, 8, 0, 0, 0, 9);
    REFUSED(task, GET_TO_DEVICE, SEGV, PACKET_AT, 8, 0, 0, 0, 9);
    REFUSED(task, ATOMIC_FROM_HOST, FAULT, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0xff);
    REFUSED(task, NIC_SEND, FAULT, STACK_AT, 8); /* PsPIN's */
    const uint32_t none[SPIN_WORDS] = {0};
    CHECK_EQ(issue(task, 0, none, &result), NIC_COMMAND_FAULT);
    CHECK_EQ(issue(task, 99, none, &result), NIC_COMMAND_FAULT);
    CHECK_EQ(world_test(&world, task, 0, false, &result), NIC_COMMAND_FAULT);
    CHECK_EQ(world_test(&world, task, 1, true, &result), NIC_COMMAND_FAULT);
    return SEGV;
}

TEST(what_a_handler_may_not_do) {
    world = (struct nicworld){0};
    begin(1, 0);
    go(dma_bad, entry());
    ended(PTL_NI_SEGV);
    for (uint32_t i = 0; i < 512; i++)
        CHECK(me_memory[i] == 1000 + i && handler_memory[i] == 2000 + i);
    CHECK_EQ(nic_counts(world.node[1].nic)->messages_out, 0);
    world_end(&world);
}

/* An atomic needs one aligned value in one piece, wherever the program has put its memory. */
static int32_t atomics_across(const struct nic_task *task) {
    REFUSED(task, DMA_CAS, FAULT, 8, STACK_AT, 1, 0, 0);
    says("PtlHandlerDMACAS", "what is at offset 8 is not aligned to 8 bytes");
    return DROP;
}

TEST(an_atomic_needs_one_aligned_value) {
    static ptl_iovec_t piece[2];
    for (int shifted = 0; shifted < 2; shifted++) {
        world = (struct nicworld){0};
        begin(1, 0);
        ptl_me_t me = entry();
        if (shifted) { /* in one piece, but between two values */
            me.start = (uint8_t *)me_memory + 4;
            me.length = 64;
        } else { /* aligned, but half of it is in the next piece */
            piece[0] = (ptl_iovec_t){me_memory, 12};
            piece[1] = (ptl_iovec_t){(uint8_t *)me_memory + 16, 64};
            me.start = piece;
            me.length = 2;
            me.options |= PTL_IOVEC;
        }
        go(atomics_across, me);
        ended(PTL_NI_OK);
        CHECK_EQ(me_memory[1], 1001);
        world_end(&world);
    }
}

/* The command was right, but the driver finds no memory there: who waits for it is told. */
static int32_t waits_in_vain(const struct nic_task *task) {
    uint32_t result;
    if (!script.step++) {
        world.faults = 1000;
        DO(task, DMA_TO_HOST, &script.handle[0], STACK_AT, 0, 8, 0);
    }
    enum nic_command_result r = world_test(&world, task, script.handle[0], true, &result);
    if (r == NIC_COMMAND_WAIT)
        return BLOCKED;
    CHECK_EQ(r, NIC_COMMAND_HOST);
    says("a command", "a command before it has met host memory that is not there");
    return SEGV;
}

TEST(a_wait_for_memory_that_is_not_there_ends) {
    world = (struct nicworld){.memory_spread = 100};
    begin(3, 0);
    go(waits_in_vain, entry());
    CHECK_EQ(script.step, 2);
    ended(PTL_NI_SEGV);
    CHECK_EQ(me_memory[0], 1000);
    world_end(&world);
}

static int32_t host_atomics(const struct nic_task *task) {
    uint32_t *h = script.handle;
    if (!script.step++) {
        stack()[0] = 1003; /* is there */
        stack()[1] = 5;    /* is not */
        DO(task, DMA_CAS, &h[0], 24, STACK_AT, 42, 1, 0);
        DO(task, DMA_CAS, &h[1], 32, STACK_AT + 8, 42, 0, 0);
        DO(task, DMA_FETCH_ADD, &h[2], 40, 7, 1, STACK_AT + 16, 8, PTL_UINT64_T, 0);
        DO(task, DMA_FETCH_ADD, &h[3], 48, 0xffffffff, 0, STACK_AT + 24, 4, PTL_INT32_T, 1);
    }
    for (uint32_t i = 0; i < 4; i++)
        if (!done(task, h[i]))
            return BLOCKED;
    CHECK_EQ(stack()[0], 1003);
    CHECK_EQ(stack()[1], 1004);
    CHECK_EQ(stack()[2], 1005);
    CHECK_EQ((uint32_t)stack()[3], 2006);
    return DROP;
}

TEST(atomics_on_host_memory) {
    world = (struct nicworld){.memory_spread = 500};
    begin(1, 0);
    go(host_atomics, entry());
    ended(PTL_NI_OK);
    CHECK_EQ(me_memory[3], 42 | 1ull << 32);
    CHECK_EQ(me_memory[4], 1004);
    CHECK_EQ(me_memory[5], 1012 | 1ull << 32);
    CHECK_EQ(handler_memory[6], 2005);
    world_end(&world);
}

/* The program's memory, as another address space's that may go: the card is told by the call that
 * reaches for it. */
static bool unreadable, unwritable;

static bool read_far(void *context, void *to, const uint8_t *host, uint64_t bytes) {
    (void)context;
    if (!unreadable)
        memcpy(to, host, bytes);
    return !unreadable;
}

static bool write_far(void *context, uint8_t *host, const void *from, uint64_t bytes) {
    (void)context;
    if (!unwritable)
        memcpy(host, from, bytes);
    return !unwritable;
}

static int32_t atomic_on_memory_that_goes(const struct nic_task *task) {
    uint32_t result;
    const uint32_t word[SPIN_WORDS] = {24, STACK_AT, 42, 1, 0};
    unreadable = script.waited;
    unwritable = !unreadable;
    enum nic_command_result how = issue(task, SPIN_COMMAND_DMA_CAS, word, &result);
    CHECK_EQ(how, world.at_once ? NIC_COMMAND_HOST : NIC_COMMAND_DONE); /* it ends before that */
    if (world.at_once)
        says("PtlHandlerDMACAS", "the host's memory at offset 24 is not there");
    return how == NIC_COMMAND_HOST ? SEGV : DROP;
}

TEST(an_atomic_on_host_memory_that_goes_fails_its_handler) {
    static const struct nic_memory far = {.read = read_far, .write = write_far};
    for (int way = 0; way < 4; way++) {
        world = (struct nicworld){.memory_spread = 500, .at_once = way & 1};
        begin(1, 0);
        portals_reach(world.node[1].portals, &far);
        script.waited = way & 2; /* read, or written */
        go(atomic_on_memory_that_goes, entry());
        ended(PTL_NI_SEGV);
        CHECK_EQ(me_memory[3], 1003);
        world_end(&world);
    }
    unreadable = unwritable = false;
}

/* Every integer type: the sum stays in its own bytes, and the value before comes back whole. */
static const struct {
    uint32_t type, bytes;
    uint64_t before; /* as 64 bits, of memory full of 0x81 */
} integers[] = {
    {PTL_INT8_T, 1, 0xffffffffffffff81},  {PTL_UINT8_T, 1, 0x81},
    {PTL_INT16_T, 2, 0xffffffffffff8181}, {PTL_UINT16_T, 2, 0x8181},
    {PTL_INT32_T, 4, 0xffffffff81818181}, {PTL_UINT32_T, 4, 0x81818181},
    {PTL_INT64_T, 8, 0x8181818181818181}, {PTL_UINT64_T, 8, 0x8181818181818181},
};

static int32_t host_integers(const struct nic_task *task) {
    uint32_t *h = script.handle;
    if (!script.step++)
        for (uint32_t i = 0; i < 8; i++) {
            memset(&me_memory[i], 0x81, 8);
            DO(task, DMA_FETCH_ADD, &h[i], 8 * i, 0x7f, 0, STACK_AT + 8 * i, 8, integers[i].type,
               0);
        }
    for (uint32_t i = 0; i < 8; i++)
        if (!done(task, h[i]))
            return BLOCKED;
    for (uint32_t i = 0; i < 8; i++)
        CHECK_EQ(stack()[i], integers[i].before);
    return DROP;
}

TEST(fetch_and_add_on_every_integer) {
    world = (struct nicworld){.memory_spread = 500};
    begin(1, 0);
    go(host_integers, entry());
    ended(PTL_NI_OK);
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t expected = 0x8181818181818181, sum = expected + 0x7f;
        memcpy(&expected, &sum, integers[i].bytes);
        CHECK_EQ(me_memory[i], expected);
    }
    world_end(&world);
}

static int32_t atomics_and_end(const struct nic_task *task) {
    stack()[0] = 77;
    stack()[1] = 123; /* not what is there */
    DO(task, DMA_FETCH_ADD, &script.handle[0], 40, 7, 0, STACK_AT, 8, PTL_UINT64_T, 0);
    DO(task, DMA_CAS, &script.handle[1], 48, STACK_AT + 8, 9, 0, 0);
    return DROP;
}

/* Its memory is another handler's by then. */
TEST(an_atomic_writes_nothing_back_to_a_handler_that_has_ended) {
    world = (struct nicworld){.memory_spread = 1000};
    begin(1, 0);
    go(atomics_and_end, entry());
    ended(PTL_NI_OK);
    CHECK_EQ(me_memory[5], 1005 + 7);
    CHECK_EQ(me_memory[6], 1006);
    CHECK_EQ(stack()[0], 77);
    CHECK_EQ(stack()[1], 123);
    world_end(&world);
}

static int32_t hpu_atomics(const struct nic_task *task) {
    uint64_t *state = (uint64_t *)(void *)task->handlers->state;
    uint32_t result;
    state[0] = 10;
    DO(task, CAS, &result, STATE_AT, 10, 0, 20, 1);
    CHECK_EQ(result, 1);
    CHECK_EQ(state[0], 20 | 1ull << 32);
    DO(task, CAS, &result, STATE_AT, 10, 0, 30, 0);
    CHECK_EQ(result, 0);
    DO(task, FETCH_ADD, &result, STATE_AT, STACK_AT, 5, 2);
    CHECK_EQ(stack()[0], 20 | 1ull << 32);
    CHECK_EQ(state[0], 25 | 3ull << 32);
    return DROP;
}

TEST(atomics_on_hpu_memory) {
    world = (struct nicworld){0};
    begin(1, 0);
    go(hpu_atomics, entry());
    ended(PTL_NI_OK);
    world_end(&world);
}

static int32_t more_than_the_card_takes(const struct nic_task *task) {
    while (script.step < 100) {
        const uint32_t words[SPIN_WORDS] = {STACK_AT, 8 * script.step, 8, 0};
        enum nic_command_result r =
            issue(task, SPIN_COMMAND_DMA_TO_HOST, words, &script.handle[script.step]);
        if (r == NIC_COMMAND_WAIT) {
            script.waited = true;
            return BLOCKED;
        }
        CHECK_EQ(r, NIC_COMMAND_DONE);
        script.step++;
    }
    return DROP; /* without waiting: the card does */
}

TEST(a_handler_waits_when_too_much_is_under_way) {
    world = (struct nicworld){.memory_spread = 100};
    begin(1, 0);
    stack()[0] = 9;
    go(more_than_the_card_takes, entry());
    CHECK(script.waited);
    ended(PTL_NI_OK);
    for (uint32_t i = 0; i < 100; i++)
        CHECK_EQ(me_memory[i], 9);
    world_end(&world);
}

/* Messages. Node 0 has entries for them. */

static void post_other(uint64_t match_bits, unsigned options) {
    ptl_me_t me = host_entry(other_memory, sizeof other_memory, match_bits,
                             PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE | options);
    me = from_anyone(me);
    host_append(&world.node[0], &me);
}

static int32_t put_from_device(const struct nic_task *task) {
    uint32_t result;
    DO(task, PUT_FROM_DEVICE, &result, PACKET_AT, 16, 0, 0, script.seen, 9, 3, 24, 0, 5, 6);
    CHECK_EQ(result, PTL_OK);
    return DROP;
}

static int32_t put_packet(const struct nic_task *task) {
    if (script.step++ == 0) /* the header handler has no packet */
        return 2;           /* PROCESS_DATA */
    return put_from_device(task);
}

/* Like go, with payload handlers. */
static void go_payload(int32_t (*handler)(const struct nic_task *task), ptl_me_t me) {
    script.run = handler;
    me = host_handlers(&world.node[1], me, 3);
    host_append(&world.node[1], &me);
    static uint64_t data[4] = {0x1111, 0x2222, 0x3333, 0x4444};
    struct portals_request put = host_put(host_md(&world.node[0], data, 32), 0, 32, 1, 5);
    put.target = world.physical ? (ptl_process_t){.phys = {1, 1}} : (ptl_process_t){.rank = 1};
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_settle(&world);
    CHECK_EQ(world.node[1].ran[1], 1);
}

TEST(put_from_device) {
    for (uint32_t physical = 0; physical < 2; physical++) {
        world = (struct nicworld){.loss = 100};
        begin(1, physical ? PTL_NI_PHYSICAL : 0);
        script.seen = physical ? 0u << 16 | 1 : 0;
        post_other(9 | 3ull << 32, 0);
        go_payload(put_packet, entry());
        CHECK_EQ(other_memory[3], 0x1111);
        CHECK_EQ(other_memory[4], 0x2222);
        CHECK_EQ(other_memory[5], 0);
        world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK);
        ptl_event_t event = world_expect(&world.node[0], PTL_EVENT_PUT, PTL_NI_OK);
        CHECK_EQ(event.hdr_data, 5 | 6ull << 32);
        CHECK_EQ(event.mlength, 16);
        world_end(&world);
    }
}

static int32_t put_from_host(const struct nic_task *task) {
    uint32_t result;
    DO(task, PUT_FROM_HOST, &result, 800, 3000, 1, 0, 0, 9, 0, 8);
    return DROP;
}

/* A put from host memory may be longer than a packet; the entry's counter counts it. */
TEST(put_from_host) {
    world = (struct nicworld){.loss = 100, .spread = 300, .memory_spread = 50};
    begin(1, 0);
    post_other(9, 0);
    ptl_me_t me = entry();
    CHECK_EQ(portals_ct_alloc(world.node[1].portals, world.node[1].ni, &me.ct_handle), PTL_OK);
    go(put_from_host, me);
    for (uint32_t i = 0; i < 375; i++)
        CHECK_EQ(other_memory[1 + i], 1100 + i);
    CHECK_EQ(other_memory[376], 0);
    ptl_ct_event_t count;
    CHECK_EQ(portals_ct_get(world.node[1].portals, me.ct_handle, &count), PTL_OK);
    CHECK_EQ(count.success, 1);
    CHECK_EQ(count.failure, 0);
    world_end(&world);
}

static int32_t put_with_ack(const struct nic_task *task) {
    uint32_t result;
    DO(task, PUT_FROM_HOST, &result, 0, 8, 1, PTL_ACK_REQ, 0, 9, 0, 0, 1234);
    return DROP;
}

TEST(an_acknowledgement_comes_to_the_entrys_queue_and_counter) {
    world = (struct nicworld){.loss = 100};
    begin(1, 0);
    post_other(9, 0);
    ptl_me_t me = entry();
    CHECK_EQ(portals_ct_alloc(world.node[1].portals, world.node[1].ni, &me.ct_handle), PTL_OK);
    go(put_with_ack, me);
    bool acknowledged = false;
    ptl_event_t event;
    while (world_event(&world.node[1], &event))
        if (event.type == PTL_EVENT_ACK) {
            CHECK_EQ((uintptr_t)event.user_ptr, 1234);
            CHECK_EQ(event.ni_fail_type, PTL_NI_OK);
            acknowledged = true;
        }
    CHECK(acknowledged);
    ptl_ct_event_t count;
    CHECK_EQ(portals_ct_get(world.node[1].portals, me.ct_handle, &count), PTL_OK);
    CHECK_EQ(count.success, 1);
    world_end(&world);
}

static int32_t put_to_nobody(const struct nic_task *task) {
    uint32_t result;
    DO(task, PUT_FROM_HOST, &result, 0, 8, 1, PTL_ACK_REQ, 0, 1000, 0, 0, 1234);
    return DROP;
}

TEST(a_failed_put_counts_as_a_failure) {
    world = (struct nicworld){0};
    begin(1, 0);
    ptl_me_t me = entry();
    CHECK_EQ(portals_ct_alloc(world.node[1].portals, world.node[1].ni, &me.ct_handle), PTL_OK);
    go(put_to_nobody, me);
    ptl_ct_event_t count;
    CHECK_EQ(portals_ct_get(world.node[1].portals, me.ct_handle, &count), PTL_OK);
    CHECK_EQ(count.success, 0);
    CHECK_EQ(count.failure, 1);
    world_end(&world);
}

static int32_t get_to_host(const struct nic_task *task) {
    uint32_t result;
    DO(task, GET_TO_HOST, &result, 400, 2000, 1, 0, 0, 9, 0, 16);
    return DROP;
}

TEST(get_to_host) {
    world = (struct nicworld){.loss = 100, .spread = 300, .memory_spread = 50};
    begin(1, 0);
    post_other(9, 0);
    for (uint32_t i = 0; i < 512; i++)
        other_memory[i] = 70000 + i;
    ptl_me_t me = entry();
    CHECK_EQ(portals_ct_alloc(world.node[1].portals, world.node[1].ni, &me.ct_handle), PTL_OK);
    go(get_to_host, me);
    for (uint32_t i = 0; i < 250; i++)
        CHECK_EQ(me_memory[50 + i], 70002 + i);
    CHECK_EQ(me_memory[300], 1300);
    ptl_ct_event_t count;
    CHECK_EQ(portals_ct_get(world.node[1].portals, me.ct_handle, &count), PTL_OK);
    CHECK_EQ(count.success, 1);
    world_end(&world);
}

static int32_t get_to_device(const struct nic_task *task) {
    const uint32_t words[SPIN_WORDS] = {STATE_AT, 200, 0, 0, 0, 9, 0, 16};
    for (uint32_t result; script.step < 2; script.step++) {
        enum nic_command_result r = issue(task, SPIN_COMMAND_GET_TO_DEVICE, words, &result);
        if (r == NIC_COMMAND_WAIT) {
            script.waited = true;
            return BLOCKED;
        }
        CHECK_EQ(r, NIC_COMMAND_DONE);
        CHECK(script.waited); /* it blocks: the data is there now */
        CHECK_EQ(result, PTL_OK);
        script.waited = false;
        const uint64_t *state = (const uint64_t *)(void *)task->handlers->state;
        for (uint32_t i = 0; i < 25; i++)
            CHECK_EQ(state[i], 70002 + i);
        memset(task->handlers->state, 0, 256);
    }
    return DROP;
}

TEST(get_to_device_blocks_until_the_data_is_there) {
    world = (struct nicworld){.loss = 100, .spread = 300, .memory_spread = 50};
    begin(1, 0);
    post_other(9, 0);
    for (uint32_t i = 0; i < 512; i++)
        other_memory[i] = 70000 + i;
    go(get_to_device, entry());
    world_expect(&world.node[1], PTL_EVENT_REPLY, PTL_NI_OK); /* as if posted by the host */
    world_expect(&world.node[1], PTL_EVENT_REPLY, PTL_NI_OK);
    ended(PTL_NI_OK);
    CHECK_EQ(script.step, 2);
    world_end(&world);
}

static int32_t get_and_die(const struct nic_task *task) {
    const uint32_t words[SPIN_WORDS] = {STATE_AT, 200, 0, 0, 0, 9, 0, 16};
    uint32_t result;
    memset(task->handlers->state, 0x55, 256);
    script.handle[0] = (uint32_t)task->handlers->state[0];
    CHECK_EQ(issue(task, SPIN_COMMAND_GET_TO_DEVICE, words, &result), NIC_COMMAND_WAIT);
    return SEGV; /* as when a watchdog ends it */
}

TEST(a_reply_to_a_handler_that_is_gone_goes_nowhere) {
    world = (struct nicworld){.memory_spread = 10};
    begin(1, 0);
    post_other(9, 0);
    go(get_and_die, entry());
    ended(PTL_NI_SEGV);
    CHECK_EQ(nic_pool_used(world.pool), 0);
    world_end(&world);
}

static const struct nic_task *killed;

static int32_t get_until_killed(const struct nic_task *task) {
    const uint32_t words[SPIN_WORDS] = {STATE_AT, 256, 0, 0, 0, 9, 0, 16};
    uint32_t result;
    killed = task;
    CHECK_EQ(issue(task, SPIN_COMMAND_GET_TO_DEVICE, words, &result), NIC_COMMAND_WAIT);
    return BLOCKED;
}

/* In the middle of the reply: what comes later must not be written to memory that is not its own.
 */
TEST(a_handler_may_be_killed_while_its_reply_comes) {
    world = (struct nicworld){.config = {.mtu_bytes = 64, .window_packets = 1}};
    begin(1, 0);
    post_other(9, 0);
    for (uint32_t i = 0; i < 512; i++)
        other_memory[i] = 70000 + i;
    script.run = get_until_killed;
    ptl_me_t me = host_handlers(&world.node[1], entry(), 1);
    host_append(&world.node[1], &me);
    struct portals_request put = host_put(host_md(&world.node[0], me_memory, 32), 0, 32, 1, 5);
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_actions(&world, &world.node[0]);
    while (nic_counts(world.node[1].nic)->received < 3) /* the put, and half of the reply */
        CHECK(world_step(&world));
    const uint64_t *state = (const uint64_t *)(void *)killed->handlers->state;
    CHECK_EQ(state[15], 70017);
    CHECK_EQ(state[16], 0);
    nic_handler_done(world.node[1].nic, killed->number, SEGV, world.now);
    world_settle(&world);
    CHECK_EQ(state[15], 70017);
    CHECK_EQ(state[16], 0);
    world_end(&world);
}

static int32_t get_refused(const struct nic_task *task) {
    const uint32_t words[SPIN_WORDS] = {STATE_AT, 200, 0, 0, 0, 9, 0, 16};
    uint32_t result;
    if (issue(task, SPIN_COMMAND_GET_TO_DEVICE, words, &result) == NIC_COMMAND_WAIT)
        return BLOCKED;
    CHECK_EQ(result, PTL_FAIL);
    script.seen++;
    return DROP;
}

static int32_t get_from_the_dead(const struct nic_task *task) {
    world.node[0].dead = true;
    return get_refused(task);
}

TEST(a_get_from_a_dead_peer_ends) {
    world = (struct nicworld){.config = {.retries = 3}};
    begin(1, 0);
    go(get_from_the_dead, entry());
    CHECK_EQ(script.seen, 1);
    world_end(&world);
}

TEST(a_handler_learns_that_its_get_was_refused) {
    world = (struct nicworld){.spread = 300};
    begin(1, 0); /* and the other has no entry for it */
    go(get_refused, entry());
    CHECK_EQ(script.seen, 1);
    world_expect(&world.node[1], PTL_EVENT_REPLY, PTL_NI_DROPPED);
    world_end(&world);
}

static int32_t atomics_out(const struct nic_task *task) {
    uint32_t result, kind = PTL_SUM | PTL_UINT64_T << 8;
    stack()[0] = 100;
    DO(task, ATOMIC_FROM_DEVICE, &result, STACK_AT, 8, 0, 0, 0, 9, 0, 8, 0, 0, 0, kind);
    DO(task, ATOMIC_FROM_HOST, &result, 80, 16, 0, 0, 0, 9, 0, 8, 0, 0, 0, kind);
    return DROP;
}

TEST(atomics_from_device_and_host) {
    world = (struct nicworld){.loss = 100, .doubling = 200};
    begin(1, 0);
    post_other(9, 0);
    other_memory[1] = 1;
    other_memory[2] = 2;
    go(atomics_out, entry());
    CHECK_EQ(other_memory[1], 1 + 100 + 1010);
    CHECK_EQ(other_memory[2], 2 + 1011);
    CHECK_EQ(other_memory[3], 0);
    world_end(&world);
}

static int32_t counters(const struct nic_task *task) {
    uint32_t result, *words = (uint32_t *)(void *)stack();
    REFUSED(task, CT_INC, FAULT, 3, 2);
    says("PtlHandlerCTInc", "success 3 and failure 2: one of them must be 0");
    DO(task, CT_INC, &result, 3, 0);
    DO(task, CT_INC, &result, 0, 2);
    DO(task, CT_INC, &result, 4, 0);
    DO(task, CT_GET, &result, STACK_AT);
    CHECK_EQ(words[0], 7);
    CHECK_EQ(words[1], 2);
    DO(task, CT_SET, &result, 50, 1);
    DO(task, CT_GET, &result, STACK_AT);
    CHECK_EQ(words[0], 50);
    CHECK_EQ(words[1], 1);
    return DROP;
}

TEST(counters_of_the_entry) {
    world = (struct nicworld){0};
    begin(1, 0);
    ptl_me_t me = entry();
    CHECK_EQ(portals_ct_alloc(world.node[1].portals, world.node[1].ni, &me.ct_handle), PTL_OK);
    go(counters, me);
    ended(PTL_NI_OK);
    ptl_ct_event_t count;
    CHECK_EQ(portals_ct_get(world.node[1].portals, me.ct_handle, &count), PTL_OK);
    CHECK_EQ(count.success, 50);
    world_end(&world);
}

static int32_t many_puts(const struct nic_task *task) {
    for (; script.step < 40; script.step++) {
        const uint32_t words[SPIN_WORDS] = {STACK_AT, 8, 0, 0, 0, 9, 0, 8 * script.step};
        uint32_t result;
        stack()[0] = 900 + script.step;
        enum nic_command_result r = issue(task, SPIN_COMMAND_PUT_FROM_DEVICE, words, &result);
        if (r == NIC_COMMAND_WAIT) {
            script.waited = true;
            return BLOCKED;
        }
        CHECK_EQ(r, NIC_COMMAND_DONE);
    }
    return DROP;
}

/* The data is taken when the command returns, so the handler may use its memory again. */
TEST(handlers_wait_when_the_card_is_full_of_their_packets) {
    for (uint32_t limit = 0; limit < 4; limit++) {
        world = (struct nicworld){.config = {.handler_packets = limit}};
        begin(1, 0);
        post_other(9, 0);
        go(many_puts, entry());
        ended(PTL_NI_OK);
        CHECK_EQ(script.waited, limit > 0);
        for (uint32_t i = 0; i < 40; i++)
            CHECK_EQ(other_memory[i], 900 + i);
        world_end(&world);
    }
}

static int32_t puts_to_the_dead(const struct nic_task *task) {
    world.node[0].dead = true;
    return many_puts(task);
}

/* What is given up with its target leaves its room to others. */
TEST(handlers_wait_no_longer_when_the_target_is_gone) {
    for (uint32_t limit = 1; limit < 4; limit++) { /* on the way, or not even that */
        world = (struct nicworld){.config = {.handler_packets = limit, .window_packets = 1}};
        begin(1, 0);
        go(puts_to_the_dead, entry());
        ptl_event_t event;
        uint32_t put = 0;
        while (world_event(&world.node[1], &event)) { /* sends that failed, and the message's own */
            put += event.type == PTL_EVENT_PUT;
            CHECK_EQ(event.ni_fail_type,
                     event.type == PTL_EVENT_PUT ? PTL_NI_OK : PTL_NI_UNDELIVERABLE);
        }
        CHECK_EQ(put, 1);
        CHECK(script.waited);
        CHECK_EQ(script.step, 40);
        world_end(&world);
    }
}

/* The first goes on until it is killed; the second waits behind it. */
static int32_t puts_until_killed(const struct nic_task *task) {
    const uint32_t words[SPIN_WORDS] = {STACK_AT, 8, 0, 0, 0, 9, 0, 0};
    uint32_t result;
    if (task->kind == NIC_COMPLETION_HANDLER)
        return PROCEED;
    if (!killed)
        killed = task;
    while (task == killed || script.step++ < 3)
        if (issue(task, SPIN_COMMAND_PUT_FROM_DEVICE, words, &result) == NIC_COMMAND_WAIT) {
            script.waited |= task != killed;
            return BLOCKED;
        }
    return DROP;
}

/* Its completion handler has its record then, and others still wait in the line that it left. */
TEST(a_handler_may_be_killed_while_it_waits_for_room) {
    world = (struct nicworld){.config = {.handler_packets = 1}};
    begin(1, 0);
    post_other(9, 0);
    killed = NULL;
    script.run = puts_until_killed;
    ptl_me_t me = host_handlers(&world.node[1], entry(), 5);
    host_append(&world.node[1], &me);
    struct portals_request put = host_put(host_md(&world.node[0], me_memory, 32), 0, 32, 1, 5);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_actions(&world, &world.node[0]);
    while (!script.waited)
        CHECK(world_step(&world));
    nic_handler_done(world.node[1].nic, killed->number, SEGV, world.now);
    world_settle(&world);
    CHECK_EQ(world.node[1].ran[NIC_COMPLETION_HANDLER], 2);
    world_end(&world);
}

/* A handler that returns before its DMA is done: the message ends after it. */
static int32_t leave_dma(const struct nic_task *task) {
    stack()[0] = 31;
    DO(task, DMA_TO_HOST, &script.handle[0], STACK_AT, 0, 8, 0);
    return DROP;
}

TEST(a_message_is_done_after_what_its_handlers_started) {
    world = (struct nicworld){.memory_spread = 100000};
    begin(3, 0);
    go(leave_dma, entry());
    CHECK_EQ(me_memory[0], 31);
    ended(PTL_NI_OK);
    world_end(&world);
    world = (struct nicworld){0};
    begin(3, 0);
    script.run = leave_dma;
    ptl_me_t me = entry();
    me = host_handlers(&world.node[1], me, 1);
    host_append(&world.node[1], &me);
    struct portals_request put = host_put(host_md(&world.node[0], me_memory, 32), 0, 32, 1, 5);
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_actions(&world, &world.node[0]);
    while (!world.node[1].ran[0]) {
        world.memory_spread = world.node[1].ran[0] ? 100000 : 0;
        CHECK(world_step(&world));
    }
    ptl_event_t event;
    CHECK(!world_event(&world.node[1], &event)); /* its store is still under way */
    world_settle(&world);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
    world_end(&world);
}

TEST_MAIN
