/* Calls like the one before (hpu_invoke_next), which find all as the first did, and DMA that goes
 * at once: as if each were the first and the card did the DMA, in generated code and not. */
#include <sys/mman.h>

#include "base/guarded_copy.h"
#include "base/rng.h"
#include "hpu/hpu_invoke.h"
#include "lib/test_machine.h"

#define PACKET_AT    (MAP_L1_BASE + MAP_L1_PACKETS + CALL_HEADROOM)
#define PACKET_BYTES 5120u
#define STATE_AT     (MAP_L1_BASE + MAP_L1_SCRATCH + HEAP_BYTES)
#define STATE_BYTES  64u
#define HOST_BYTES   8192u
#define BUDGET       100000u

/* What the handler finds in its packet. */
enum { LOCAL, HOST, BYTES, SPACE, COMMAND, MORE, WORDS };

/* And what it leaves in its state, if all is as it should be. */
enum { REGISTERS, RETURNS_TO, STACK, RESULT_BEFORE, LEFT_OVER, RESULT, RESULT_AGAIN };

/* Of handlers: SPLIT and APART give their commands in several blocks, between two words, and
 * between the address of the driver and all that is stored there. */
enum kind { PLAIN, SPLIT, APART, RESERVING, FLOATING, KINDS };

struct core {
    struct hpu hpu; /* first: its port finds the rest through it */
    struct port port;
    struct hpu_code *code;
    struct invoke_context context;
    struct invoke_core core;
    struct spin_image image;
    struct invoke_end end; /* of a handler that has returned */
    uint32_t gone_from;    /* host memory is not there from here on; 0: it is */
    bool has_waited;       /* the command that is given now has been put off */
    bool has_returned;     /* from the call before, like which the next is made */
    _Alignas(16) uint8_t packet[CALL_HEADROOM + PACKET_BYTES + CANARY];
    _Alignas(16) uint8_t state[STATE_BYTES], heap[HEAP_BYTES], stack[MAP_STACK_SIZE];
    uint8_t host[2][HOST_BYTES + CANARY];
};

static struct port_host host(struct port *p, uint32_t space) {
    struct core *c = (struct core *)p->hpu;
    return space < 2 ? (struct port_host){0, HOST_BYTES, c->host[space]} : (struct port_host){0};
}

static enum hpu_access issue(struct port *p, const struct port_command *c) {
    if (c->effect != PORT_STORE && c->effect != PORT_FETCH)
        return port_refuse(p);
    struct core *core = (struct core *)p->hpu;
    if (core->gone_from)
        return port_refuse(p);
    core->has_waited = !core->has_waited && c->bytes % 3 == 0;
    if (core->has_waited)
        return HPU_ACCESS_WAIT;
    if (c->bytes && c->effect == PORT_STORE)
        memcpy(c->host, c->local, c->bytes);
    else if (c->bytes)
        memcpy(c->local, c->host, c->bytes);
    return HPU_ACCESS_OK;
}

static const struct port_card card = {.host = host, .issue = issue};

/* Looks at registers, gives the command of its packet twice, and leaves registers as they are. */
static struct program handler_of(enum kind kind) {
    struct program p = {0};
    for (uint32_t r = 3; r < 18; r++)
        if (r != 10 && r != 11)
            put(&p, rv_or(28, 28, r));
    put(&p, rv_sw(28, 11, 4 * REGISTERS));
    put(&p, rv_sw(1, 11, 4 * RETURNS_TO));
    put(&p, rv_sw(2, 11, 4 * STACK));
    put_li(&p, 12, MAP_DRIVER);
    if (kind == APART)
        put(&p, rv_jal(0, 4));
    put(&p, rv_lw(13, 12, SPIN_REG_RESULT));
    put(&p, rv_sw(13, 11, 4 * RESULT_BEFORE));
    if (kind == RESERVING)
        put(&p, rv_sc_w(14, 28, 11)); /* nothing is reserved: 1 */
    else if (kind == FLOATING)
        put(&p, rv_fmv_x_w(14, 3));
    put(&p, rv_sw(14, 11, 4 * LEFT_OVER));
    for (int i = 0; i < 4; i++) {
        put(&p, rv_lw(15, 10, CALL_PAYLOAD_BYTES + 4 * i));
        put(&p, rv_sw(15, 12, SPIN_REG_WORD + 4 * i));
        if (kind == SPLIT && i == 1)
            put(&p, rv_jal(0, 4));
    }
    put(&p, rv_lw(16, 10, CALL_PAYLOAD_BYTES + 4 * COMMAND));
    put(&p, rv_sw(16, 12, SPIN_REG_ISSUE));
    put(&p, rv_lw(13, 12, SPIN_REG_RESULT));
    put(&p, rv_sw(13, 11, 4 * RESULT));
    for (int i = 0; i < 4; i++) {
        put(&p, rv_lw(17, 10, CALL_PAYLOAD_BYTES + 4 * (i == 1 ? MORE : i)));
        put(&p, rv_sw(17, 12, SPIN_REG_WORD + 4 * i));
    }
    put(&p, rv_sw(16, 12, SPIN_REG_ISSUE));
    put(&p, rv_lw(13, 12, SPIN_REG_RESULT));
    put(&p, rv_sw(13, 11, 4 * RESULT_AGAIN));
    put(&p, rv_addi(3, 0, 3));
    put(&p, rv_addi(9, 0, 9));
    if (kind == RESERVING)
        put(&p, rv_lr_w(14, 11));
    else if (kind == FLOATING)
        put(&p, rv_fmv_w_x(3, 17));
    put(&p, rv_addi(10, 0, 7));
    put(&p, RV_RET);
    return p;
}

/* `effort`: of jit_private.h, or, by any other number, as it comes. */
static void core_open(struct core *c, const struct program *p, bool jit, unsigned effort) {
    struct spin_error err;
    memset(c, 0, sizeof *c);
    memset(c->host, 0xc5, sizeof c->host);
    memset(c->packet, 0xc5, sizeof c->packet);
    c->code = hpu_code_new(p->byte, CODE_BASE, p->bytes, HPU_FUNCTIONAL, &hpu_timing_ri5cy, true);
    CHECK(c->code);
    if (jit && hpu_jit_enable(c->code, SPIN_JIT_FORCE, &err) != SPIN_OK)
        TEST_FAIL("%s", err.text);
    if (jit && effort <= JIT_WELL)
        jit_set_effort(c->code, (enum jit_effort)effort);
    c->context = (struct invoke_context){.image = &c->image,
                                         .memory = {STATE_AT, STATE_BYTES, c->state, NULL},
                                         .memory_region = HPU_REGION_L1};
    c->core = (struct invoke_core){
        .stack = c->stack, .heap = {MAP_L1_BASE + MAP_L1_SCRATCH, HEAP_BYTES, c->heap, NULL}};
    hpu_init(&c->hpu, c->code, 0);
    port_open(&c->port, &c->hpu, &card, false);
    CHECK(hpu_invoke_open(&c->port, &c->context, &c->core));
}

static enum hpu_stop core_call(struct core *c, const uint32_t *words, uint32_t bytes,
                               uint32_t offset) {
    const struct invoke_call call = {.entry = CODE_BASE,
                                     .kind = SPIN_PAYLOAD_HANDLER,
                                     .budget_cycles = BUDGET,
                                     .packet = c->packet + CALL_HEADROOM,
                                     .address = PACKET_AT,
                                     .headroom = CALL_HEADROOM,
                                     .bytes = bytes,
                                     .length = bytes,
                                     .memory_address = STATE_AT,
                                     .memory_bytes = STATE_BYTES,
                                     .offset = offset};
    memcpy(c->packet + CALL_HEADROOM, words, 4 * WORDS);
    if (c->has_returned) {
        c->end = hpu_invoke_next(&c->hpu, c->packet + CALL_HEADROOM, bytes, offset);
    } else {
        c->hpu.cycles = c->hpu.instret = 0;
        hpu_invoke_begin(&c->port, &c->context, &c->core, &call);
        enum hpu_stop stop = hpu_run(&c->hpu, UINT64_MAX);
        c->end = (struct invoke_end){stop, c->hpu.x[10]};
    }
    while (c->end.stop == HPU_WAITING) {
        c->end.stop = hpu_run(&c->hpu, UINT64_MAX);
        c->end.code = c->hpu.x[10];
    }
    return c->end.stop;
}

/* Mostly good, sometimes at an edge or beyond it. */
static void choose(struct rng *rng, uint32_t *w, uint32_t bytes) {
    bool odd = rng_below(rng, 8) == 0;
    w[BYTES] = odd ? rng_below(rng, 4) : 1 + rng_below(rng, rng_below(rng, 2) ? 64 : 4800);
    w[LOCAL] = PACKET_AT + (odd ? bytes - w[BYTES] + rng_below(rng, 3) : rng_below(rng, 100));
    w[HOST] = odd ? HOST_BYTES - w[BYTES] + rng_below(rng, 2) : rng_below(rng, 3000);
    w[MORE] = rng_below(rng, 40) ? rng_below(rng, 3000) : HOST_BYTES - rng_below(rng, 3);
    w[SPACE] = rng_below(rng, 60) ? rng_below(rng, 2) : rng_below(rng, 4);
    w[COMMAND] = SPIN_COMMAND_DMA_TO_HOST;
    switch (rng_below(rng, 80)) {
    case 0:
        w[COMMAND] = rng_below(rng, 30);
        break;
    case 1:
        w[COMMAND] = SPIN_COMMAND_DMA_FROM_HOST;
        break;
    case 2:
        w[LOCAL] = STATE_AT + rng_below(rng, STATE_BYTES);
        break;
    case 3:
        w[LOCAL] = PACKET_AT - rng_below(rng, 2 * CALL_HEADROOM);
        break;
    case 4:
        w[rng_below(rng, 3)] = UINT32_MAX - rng_below(rng, 200);
    }
}

static void demand_equal(const struct core *a, const struct core *b, enum hpu_stop stop) {
    CHECK_EQ(a->hpu.fault, b->hpu.fault);
    CHECK_EQ(a->hpu.fault_address, b->hpu.fault_address);
    CHECK_EQ(a->hpu.handles, b->hpu.handles);
    if (stop != HPU_DONE) {
        CHECK_EQ(a->hpu.cycles, b->hpu.cycles);
        CHECK_EQ(a->hpu.instret, b->hpu.instret);
    }
    CHECK(memcmp(a->state, b->state, sizeof a->state) == 0);
    CHECK(memcmp(a->host, b->host, sizeof a->host) == 0);
    CHECK(memcmp(a->packet, b->packet, sizeof a->packet) == 0);
    if (stop != HPU_DONE)
        return;
    const uint32_t *left = (const uint32_t *)(const void *)a->state;
    CHECK_EQ(a->end.code, 7);
    CHECK_EQ(left[RETURNS_TO], MAP_RETURN);
    CHECK_EQ(left[STACK], MAP_L1_ALIAS + MAP_L1_RUNTIME + MAP_STACK_SIZE);
}

/* Nothing of the call before is there, neither in registers nor in what the device has. */
static void demand_fresh(const struct core *c, enum kind kind) {
    const uint32_t *left = (const uint32_t *)(const void *)c->state;
    CHECK_EQ(left[REGISTERS], 0);
    CHECK_EQ(left[RESULT_BEFORE], 0);
    CHECK_EQ(left[LEFT_OVER], kind == RESERVING);
    CHECK_EQ(left[RESULT], 1);
    CHECK_EQ(left[RESULT_AGAIN], 2);
}

static void compare_calls(enum kind kind, bool has_jit, unsigned effort) {
    static struct core first, again;
    struct program p = handler_of(kind);
    struct rng rng = rng_seeded(kind + 1);
    uint32_t kept = 0, done = 0, calls = TEST_SANITIZED ? 1000 : 4000;
    core_open(&first, &p, false, 0);
    core_open(&again, &p, has_jit, effort);
    for (uint32_t i = 0; i < calls; i++) {
        uint32_t w[WORDS], bytes = PACKET_BYTES - (rng_below(&rng, 10) ? 0 : 4);
        bool direct = i % 512 < 400; /* sometimes the card does it all */
        choose(&rng, w, bytes);
        for (uint32_t space = 0; space < 2; space++)
            again.hpu.direct[space] =
                (struct hpu_direct){direct ? HOST_BYTES : 0, again.host[space]};
        enum hpu_stop stop = core_call(&first, w, bytes, i);
        CHECK_EQ(core_call(&again, w, bytes, i), stop);
        again.has_returned = stop == HPU_DONE;
        demand_equal(&again, &first, stop);
        if (stop == HPU_DONE && w[COMMAND] == SPIN_COMMAND_DMA_TO_HOST)
            demand_fresh(&again, kind);
        kept += !again.hpu.unready.registers;
        done += stop == HPU_DONE;
    }
    CHECK(done > calls / 2 && done < calls - calls / 40);
    if (kind <= APART && has_jit && effort >= JIT_WELL) /* which is what makes such calls cheap */
        CHECK(kept > calls / 4);
    else
        CHECK_EQ(kept, 0);
    hpu_code_free(first.code);
    hpu_code_free(again.code);
}

/* Where the program has taken its memory away, a DMA into it is refused by the card, and nothing
 * else happens: whether none of it is there, or it ends there. */
static void copy_to_what_is_gone(bool has_jit, enum guarded way) {
    static struct core c;
    const size_t page = 4096;
    struct program p = handler_of(PLAIN);
    uint8_t *host =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(host != MAP_FAILED && mprotect(host + page, page, PROT_NONE) == 0);
    core_open(&c, &p, has_jit, JIT_WELL);
    c.hpu.direct[0] = (struct hpu_direct){2 * page, host};
    for (uint32_t i = 0; i < 400; i++) {
        static const uint32_t lengths[] = {1, 31, 32, 127, 128, 129, 200, 256, 1000, 4096, 4097};
        uint32_t bytes = lengths[i % 11], gone = i > 200 && i % 7 == 0;
        uint32_t at = gone ? (i % 2 ? (uint32_t)page : (uint32_t)page - bytes / 2) : 0;
        const uint32_t w[WORDS] = {[LOCAL] = PACKET_AT,
                                   [HOST] = at,
                                   [BYTES] = at || bytes < page ? bytes : 1,
                                   [COMMAND] = SPIN_COMMAND_DMA_TO_HOST,
                                   [MORE] = at};
        c.gone_from = gone ? (uint32_t)page : 0;
        enum hpu_stop stop = core_call(&c, w, PACKET_BYTES, i);
        CHECK_EQ(stop, gone ? HPU_FAULTED : HPU_DONE);
        CHECK(gone || memcmp(host + at, c.packet + CALL_HEADROOM, w[BYTES]) == 0);
        c.has_returned = stop == HPU_DONE;
    }
    CHECK_EQ(way, GUARDED_BY_SIGNAL);
    hpu_code_free(c.code);
    munmap(host, 2 * page);
}

TEST(memory_that_is_gone) {
    enum guarded way = guarded_way();
    copy_to_what_is_gone(false, way);
#ifdef OPENSPIN_JIT
    copy_to_what_is_gone(true, way);
#endif
}

/* Has the device told of a DMA, then counts down from what the packet says. */
static struct program counting_handler(void) {
    struct program p = {0};
    put_li(&p, 12, MAP_DRIVER);
    for (int i = 0; i < 4; i++) {
        put(&p, rv_lw(15, 10, CALL_PAYLOAD_BYTES + 4 * i));
        put(&p, rv_sw(15, 12, SPIN_REG_WORD + 4 * i));
    }
    put(&p, rv_lw(9, 10, CALL_PAYLOAD_BYTES + 4 * MORE));
    put(&p, rv_addi(16, 0, SPIN_COMMAND_DMA_TO_HOST));
    put(&p, rv_sw(16, 12, SPIN_REG_ISSUE));
    put(&p, rv_addi(9, 9, -1));
    put(&p, rv_bne(9, 0, -4));
    put(&p, rv_addi(10, 0, 7));
    put(&p, RV_RET);
    return p;
}

/* The clock of each call begins at 0, also after calls whose commands the device was told: each has
 * its whole budget, which the last of 40 uses up but for some 180 cycles. */
static void call_often(bool has_jit) {
    static struct core c;
    struct program p = counting_handler();
    core_open(&c, &p, has_jit, JIT_WELL);
    c.hpu.direct[0] = (struct hpu_direct){HOST_BYTES, c.host[0]};
    for (uint32_t i = 0; i < 1000; i++) {
        const uint32_t w[WORDS] = {
            [LOCAL] = STATE_AT, [BYTES] = 16, [MORE] = i % 40 < 39 ? 1 : BUDGET / 2 - 100};
        CHECK_EQ(core_call(&c, w, PACKET_BYTES, i), HPU_DONE);
        CHECK_EQ(c.end.code, 7);
        c.has_returned = true;
    }
    hpu_code_free(c.code);
}

TEST(clock) {
    call_often(false);
#ifdef OPENSPIN_JIT
    call_often(true);
#endif
}

/* Atomics need the host's alignment to be the handler's: without it nothing is opened. */
TEST(memory_is_aligned) {
    static struct core c;
    struct program p = counting_handler();
    core_open(&c, &p, false, JIT_WELL);
    struct invoke_memory *memory[] = {&c.context.memory,        &c.context.constants,
                                      &c.context.data,          &c.context.handler_data,
                                      &c.context.scratchpad[0], &c.core.heap};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        const struct invoke_memory before = *memory[i];
        *memory[i] = (struct invoke_memory){STATE_AT + 4, 8, c.state, NULL};
        CHECK(!hpu_invoke_open(&c.port, &c.context, &c.core));
        memory[i]->host += 4;
        CHECK(hpu_invoke_open(&c.port, &c.context, &c.core));
        *memory[i] = before;
    }
    c.core.stack++;
    CHECK(!hpu_invoke_open(&c.port, &c.context, &c.core));
    c.core.stack--;
    CHECK(hpu_invoke_open(&c.port, &c.context, &c.core));
    c.context.memory.host += 4;
    CHECK(!hpu_invoke_memory(&c.port, &c.context));
    hpu_code_free(c.code);
}

TEST(interpreted) {
    for (enum kind kind = PLAIN; kind < KINDS; kind++)
        compare_calls(kind, false, 0);
}

TEST(generated_code) {
#ifdef OPENSPIN_JIT
    for (enum kind kind = PLAIN; kind < KINDS; kind++)
        for (unsigned effort = JIT_QUICKLY; effort <= JIT_WELL + 1; effort++)
            compare_calls(kind, true, effort);
#else
    TEST_SKIP("built without LLVM");
#endif
}

TEST_MAIN
