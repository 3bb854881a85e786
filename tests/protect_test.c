/* What a handler may touch, and what becomes of the HPU when it oversteps: faults leave everything
 * else as it was, budgets end endless loops, and a paused handler goes on as if it never was. */
#include "base/rng.h"
#include "lib/test_machine.h"

typedef uint32_t (*encode_memory)(uint32_t reg, uint32_t base, int32_t offset);

static const struct access {
    const char *name;
    encode_memory encode;
    uint32_t bytes;
    bool write;
} accesses[] = {{"lb", rv_lb, 1, false},   {"lh", rv_lh, 2, false},   {"lw", rv_lw, 4, false},
                {"lbu", rv_lbu, 1, false}, {"lhu", rv_lhu, 2, false}, {"sb", rv_sb, 1, true},
                {"sh", rv_sh, 2, true},    {"sw", rv_sw, 4, true},    {"flw", rv_flw, 4, false},
                {"fsw", rv_fsw, 4, true}};
#define ACCESSES (sizeof accesses / sizeof accesses[0])

/* Runs one access at an address; true when it was let through. */
static bool reaches(const struct access *a, uint32_t address) {
    static struct program p;
    p.bytes = 0;
    put(&p, a->encode(10, 11, 0));
    put(&p, RV_RET);
    struct start s = {.x[11] = address, .x[10] = 0x12345678, .with_float = true};
    memset(s.data, 0x5a, sizeof s.data);
    struct result r = run_program(&p, &s);
    if (r.stop == HPU_DONE)
        return true;
    CHECK_EQ(r.fault, HPU_FAULT_SEGV);
    CHECK_EQ(r.fault_address, address);
    CHECK_EQ(r.pc, CODE_BASE);
    CHECK_EQ(r.instret, 0);
    CHECK_EQ(r.x[10], 0x12345678); /* no destination was written, no memory either */
    CHECK(memcmp(r.data, s.data, sizeof s.data) == 0);
    for (uint32_t i = 0; i < SIDE_BYTES; i++)
        CHECK_EQ(r.l2[i], 0);
    return false;
}

TEST(edges_of_windows) {
    static const struct {
        uint32_t base, bytes;
        bool writable;
    } windows[] = {{DATA_BASE, DATA_BYTES, true},
                   {FIXED_BASE, SIDE_BYTES, false},
                   {L2_BASE, SIDE_BYTES, true}};
    for (size_t w = 0; w < 3; w++)
        for (size_t k = 0; k < ACCESSES; k++)
            for (int32_t d = -8; d < 8; d++) {
                const struct access *a = &accesses[k];
                uint32_t size = a->bytes, first = windows[w].base + (uint32_t)d;
                uint32_t last = windows[w].base + windows[w].bytes + (uint32_t)d;
                bool right = !a->write || windows[w].writable;
                if (reaches(a, first) != (right && d >= 0))
                    TEST_FAIL("%s at the start %+d of window %zu", a->name, d, w);
                if (reaches(a, last) != (right && d + (int32_t)size <= 0))
                    TEST_FAIL("%s at the end %+d of window %zu", a->name, d, w);
            }
}

TEST(places_that_nobody_gave) {
    static const uint32_t places[] = {
        0,
        1,
        0x7ffffffc,
        0x80000000,
        0xfffffffc,
        0xfffffffd,
        0xffffffff,
        MAP_RETURN,
        MAP_DRIVER, /* this HPU has no device */
        MAP_DRIVER - 4,
        CODE_BASE, /* program memory is not given as data */
        MAP_L1_ALIAS,
        MAP_L1_BASE,
        MAP_L2_PACKETS,
        DATA_BASE + 0x00400000, /* the same offset in another cluster */
        DATA_BASE ^ 0x80000000,
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        for (size_t k = 0; k < ACCESSES; k++)
            if (reaches(&accesses[k], places[i]))
                TEST_FAIL("%s reaches 0x%x", accesses[k].name, places[i]);
}

/* Windows of every kind of size and place, and hpu_reach on them: the same rule without a handler.
 */
TEST(reach) {
    static struct program p;
    static _Alignas(16) uint8_t memory[256];
    static struct machine m;
    p.bytes = 0;
    put(&p, RV_RET);
    machine_open(&m, &p, HPU_FUNCTIONAL, false);
    struct hpu *h = &m.hpu;
    h->windows = 0;
    CHECK_EQ(hpu_add_window(h, 0x1000, 0, memory, true, HPU_REGION_L1), 0);
    CHECK_EQ(hpu_add_window(h, 0xffffff00, 256, memory, true, HPU_REGION_L1), 1);
    CHECK_EQ(hpu_add_window(h, 0x2000, 256, memory, false, HPU_REGION_L1), 2);
    CHECK(hpu_reach(h, 0x1000, 1, false) == NULL); /* zero length */
    CHECK(hpu_reach(h, 0x1000, 0, false) == memory);
    CHECK(hpu_reach(h, 0xffffff00, 256, true) == memory);
    CHECK(hpu_reach(h, 0xffffffff, 1, true) == memory + 255);
    CHECK(hpu_reach(h, 0xffffffff, 2, true) == NULL); /* does not wrap to address 0 */
    CHECK(hpu_reach(h, 0xffffff00, 257, true) == NULL);
    CHECK(hpu_reach(h, 0xffffff00, 1ull << 32, true) == NULL);
    CHECK(hpu_reach(h, 0xffffff00, (1ull << 32) + 1, true) == NULL);
    CHECK(hpu_reach(h, 0xffffff00, UINT64_MAX, true) == NULL);
    CHECK(hpu_reach(h, 0, 1, false) == NULL);
    CHECK(hpu_reach(h, 0x2000, 256, false) == memory);
    CHECK(hpu_reach(h, 0x2000, 1, true) == NULL);
    CHECK(hpu_reach(h, 0x1fff, 2, false) == NULL);
    CHECK(hpu_reach(h, 0x20ff, 1, false) == memory + 255);
    CHECK(hpu_reach(h, 0x2100, 1, false) == NULL);
    uint32_t windows = h->windows; /* atomics need the host's alignment to be the handler's */
    for (uint32_t i = 1; i < 8; i++)
        CHECK_EQ(hpu_add_window(h, 0x4000, 8, memory + i, true, HPU_REGION_L1), -1);
    CHECK_EQ(h->windows, windows);
    while (h->windows < HPU_WINDOWS)
        CHECK_EQ(hpu_add_window(h, 0x5000, 8, memory, true, HPU_REGION_L1), (int)h->windows - 1);
    CHECK_EQ(hpu_add_window(h, 0x6000, 8, memory, true, HPU_REGION_L1), -1);
    machine_close(&m);
}

/* The same at the top of the address space, by a handler. */
TEST(window_at_the_top_of_the_address_space) {
    static struct program p;
    static struct machine m;
    for (int mode = 0; mode < 2; mode++)
        for (uint32_t at = 0xfffffff0; at != 8; at++) {
            p.bytes = 0;
            put(&p, rv_lw(10, 11, 0));
            put(&p, rv_sw(10, 11, 0));
            put(&p, RV_RET);
            machine_open(&m, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            m.hpu.window[0].base = 0xffffff00;
            hpu_size_window(&m.hpu.window[0], 256, true);
            struct start s = {.x[11] = at};
            for (int jit = 0; jit < 2; jit++) {
                if (jit)
                    machine_force_jit(&m);
                machine_begin(&m, &s);
                enum hpu_stop stop = hpu_run(&m.hpu, ~0ull);
                CHECK_EQ(stop, at >= 0xfffffff0 && at <= 0xfffffffc ? HPU_DONE : HPU_FAULTED);
                CHECK(canaries_live(&m));
            }
            machine_close(&m);
        }
}

/* Two contexts on one HPU, one after the other: the second has no way to the first's memory, even
 * where the interpreter remembers which window an instruction hit last. */
TEST(another_contexts_memory) {
    static struct program p;
    static struct machine m;
    static struct fenced mine, other;
    p.bytes = 0;
    put(&p, rv_lw(10, 11, 0));
    put(&p, rv_sw(12, 11, 0));
    put(&p, RV_RET);
    for (int way = 0; way < 4; way++) {
        machine_open(&m, &p, way % 2 ? HPU_TIMED : HPU_FUNCTIONAL, false);
        memset(&mine, 1, sizeof mine);
        memset(&other, 2, sizeof other);
        m.hpu.windows = 0;
        memset(m.hpu.window, 0, sizeof m.hpu.window);
        hpu_add_window(&m.hpu, 0x20000000, 64, mine.bytes, true, HPU_REGION_L1);
        hpu_add_window(&m.hpu, 0x20001000, 64, other.bytes, true, HPU_REGION_L1);
        struct start s = {.x[11] = 0x20001000, .x[12] = 0x33};
        machine_begin(&m, &s);
        CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE); /* its owner: the guess is window 1 now */
        CHECK_EQ(other.bytes[0], 0x33);
        if (way >= 2) { /* compiled for that window */
            machine_force_jit(&m);
            memset(&other, 2, sizeof other);
            machine_begin(&m, &s);
            CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
            CHECK_EQ(other.bytes[0], 0x33);
        }
        m.hpu.windows = 1; /* another context, without that window */
        memset(&m.hpu.window[1], 0, sizeof m.hpu.window[1]);
        memset(&other, 2, sizeof other);
        machine_begin(&m, &s);
        CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_FAULTED);
        CHECK_EQ(m.hpu.fault, HPU_FAULT_SEGV);
        for (uint32_t i = 0; i < DATA_BYTES; i++)
            CHECK(other.bytes[i] == 2 && mine.bytes[i] == 1);
        machine_close(&m);
    }
}

/* Every way to end badly; after each the next handler finds a fresh HPU and untouched memory. */
TEST(faults_leave_the_hpu_ready) {
    static struct program p;
    static struct machine m;
    p.bytes = 0; /* at 0: a handler that tells what it finds in its registers */
    for (uint32_t i = 3; i < 32; i++)
        put(&p, rv_or(3, 3, i)); /* any register but ra and sp left over? */
    put(&p, rv_addi(10, 3, 0));
    put(&p, rv_addi(5, 2, -4));
    put(&p, rv_sc_w(6, 0, 5));
    put(&p, rv_addi(11, 6, 0)); /* 1: failed, as it must */
    put(&p, RV_RET);
    uint32_t bad_at = p.bytes;
    static const struct {
        uint32_t insn;
        enum hpu_fault fault;
    } endings[] = {
        {0x0000, HPU_FAULT_ILLEGAL},    {RV_EBREAK, HPU_FAULT_CHECK},
        {RV_ECALL, HPU_FAULT_CALL},     {0x00052503, HPU_FAULT_SEGV}, /* lw a0, 0(a0) */
        {0x00a52023, HPU_FAULT_SEGV},                                 /* sw a0, 0(a0) */
        {0x0000006f, HPU_FAULT_BUDGET},                               /* j . */
        {0x1002252f, HPU_FAULT_SEGV},                                 /* patched: misaligned lr */
        {0x00050067, HPU_FAULT_SEGV},                                 /* jr a0 */
    };
    for (int mode = 0; mode < 4; mode++) /* the last two: generated code */
        for (size_t k = 0; k < sizeof endings / sizeof endings[0]; k++) {
            bool misaligned = endings[k].fault == HPU_FAULT_MISALIGNED;
            p.bytes = bad_at;
            for (uint32_t i = 3; i < 32; i++)
                put_li(&p, i, 0x01010101 * i);
            put(&p, rv_fmv_w_x(7, 5));
            put(&p, rv_addi(5, 2, -4));
            put(&p, rv_lr_w(6, 5)); /* leaves a reservation of the word before sp */
            if (misaligned)
                put(&p, rv_addi(5, 5, 1));
            put(&p, misaligned ? rv_lr_w(6, 5) : endings[k].insn);
            machine_open(&m, &p, mode % 2 ? HPU_TIMED : HPU_FUNCTIONAL, true);
            if (mode >= 2)
                machine_force_jit(&m);
            struct start s = {.entry = bad_at, .with_float = true};
            memset(s.data, 0x77, sizeof s.data);
            machine_begin(&m, &s);
            m.hpu.fcsr = 0xff;
            CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_FAULTED);
            CHECK_EQ(m.hpu.f[7], 0x05050505);
            CHECK_EQ(m.hpu.fault, endings[k].fault);
            CHECK(hpu_fault_name(m.hpu.fault)[0]);
            for (uint32_t i = 0; i < DATA_BYTES; i++)
                CHECK_EQ(m.data.bytes[i], 0x77);
            CHECK(canaries_live(&m));
            hpu_start(&m.hpu, CODE_BASE, DATA_BASE + DATA_BYTES, 1000);
            CHECK_EQ(m.hpu.fcsr, 0);
            CHECK_EQ(m.hpu.f[7], 0);
            CHECK_EQ(m.hpu.fault, HPU_FAULT_NONE);
            CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
            CHECK_EQ(m.hpu.x[10], 0); /* all registers were zero */
            CHECK_EQ(m.hpu.x[11], 1); /* no reservation was left */
            machine_close(&m);
        }
}

TEST(names_of_faults) {
    CHECK_STR(hpu_fault_name(HPU_FAULT_SEGV), "SEGV");
    CHECK_STR(hpu_fault_name(HPU_FAULT_BUDGET), "cycle budget exceeded");
    CHECK_STR(hpu_fault_name(1000), "unknown");
}

static struct program endless(int kind) {
    struct program p = {0};
    switch (kind) {
    case 0:
        put(&p, rv_jal(0, 0));
        break;
    case 1:
        put(&p, c_j(0));
        break;
    case 2:
        put(&p, rv_beq(0, 0, 0));
        break;
    case 3:
        put(&p, rv_addi(10, 10, 1));
        put(&p, rv_jal(0, -4));
        break;
    case 4:
        put(&p, rv_auipc(5, 0));
        put(&p, rv_jalr(0, 5, 4));
        break;
    case 5: /* LR/SC that never succeeds */
        put(&p, rv_sc_w(5, 0, 8));
        put(&p, rv_bne(5, 0, -4));
        break;
    case 6: /* from line to line, more than the cache holds */
        for (int i = 0; i < 300; i++) {
            put(&p, rv_jal(0, 28));
            while (p.bytes % 28)
                put(&p, C_NOP);
        }
        put(&p, rv_jal(0, -300 * 28));
        break;
    case 7: /* without a branch: a csr ends each block */
        put(&p, rv_csrrs(10, 0xf14, 0));
        put(&p, rv_csrrs(10, 0xf14, 0));
        put(&p, rv_jal(0, -8));
        break;
    }
    return p;
}

TEST(budgets_end_endless_loops) {
    for (int kind = 0; kind < 8; kind++)
        for (uint64_t budget = 1; budget < 3000; budget = budget * 3 + 1) {
            struct program p = endless(kind);
            struct start s = {.budget = budget, .x[8] = DATA_BASE};
            struct result r = run_program(&p, &s), again = run_program(&p, &s);
            CHECK_EQ(r.fault, HPU_FAULT_BUDGET);
            CHECK_EQ(r.fault_address, r.pc);
            CHECK(r.cycles >= budget);
            CHECK(r.cycles < budget + 60); /* at most one block, cold, too far */
            CHECK_EQ(r.cycles, again.cycles);
            CHECK_EQ(r.instret, again.instret);
            CHECK(memcmp(r.x, again.x, sizeof r.x) == 0);
        }
    /* The budget counts from the handler's start, wherever local time stands. */
    static struct machine m;
    struct program p = endless(0);
    machine_open(&m, &p, HPU_TIMED, false);
    hpu_icache_free(m.icache);
    m.icache = m.hpu.icache = NULL;
    m.hpu.cycles = 1ull << 40;
    hpu_start(&m.hpu, CODE_BASE, DATA_BASE, 100);
    CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_FAULTED);
    CHECK_EQ(m.hpu.cycles, (1ull << 40) + 100);
    m.hpu.cycles = UINT64_MAX - 50; /* an end past the last cycle there is */
    hpu_start(&m.hpu, CODE_BASE, DATA_BASE, 100);
    CHECK_EQ(m.hpu.budget_end, UINT64_MAX);
    machine_close(&m);
}

/* Programs for pausing: loops, calls, memory, faults at their end, and looks at the counters. */
static void random_program(struct rng *rng, struct program *p) {
    p->bytes = 0;
    uint32_t turns = 5 + rng_below(rng, 30);
    put(p, rv_addi(9, 0, (int32_t)turns));
    uint32_t top = p->bytes, length = 4 + rng_below(rng, 40);
    for (uint32_t i = 0; i < length; i++) {
        uint32_t a = 10 + rng_below(rng, 6), b = 10 + rng_below(rng, 6), c = 10 + rng_below(rng, 6);
        int32_t at = (int32_t)rng_below(rng, 100);
        switch (rng_below(rng, 12)) {
        case 0:
            put(p, rv_lw(a, 8, at));
            break;
        case 1:
            put(p, rv_sw(a, 8, at));
            break;
        case 2:
            put(p, rv_beq(a, b, 8));
            put(p, rv_mul(a, b, c));
            break;
        case 3:
            put(p, rv_div(a, b, c));
            break;
        case 4:
            put(p, rv_csrrs(a, 0xc00, 0));
            break;
        case 5:
            put(p, rv_csrrs(a, 0xc02, 0));
            break;
        case 6:
            put(p, rv_amoadd_w(a, b, 8));
            break;
        case 7:
            put(p, c_add(a, b));
            break;
        case 8:
            put(p, rv_jal(5, 4));
            break;
        default:
            put(p, rv_add(a, b, c));
        }
    }
    put(p, rv_addi(9, 9, -1));
    put(p, rv_bne(9, 0, (int32_t)top - (int32_t)p->bytes));
    if (rng_below(rng, 4) == 0)
        put(p, rv_lw(10, 0, 0)); /* a fault */
    put(p, RV_RET);
}

TEST(pauses_change_nothing) {
    static struct program p;
    static struct machine m;
    struct rng rng = rng_seeded(42);
    for (int i = 0; i < 300; i++) {
        random_program(&rng, &p);
        struct start s = {.x[8] = DATA_BASE, .counts_cycles = true, .x[11] = 3, .x[12] = 5};
        if (rng_below(&rng, 5) == 0)
            s.budget = 50 + rng_below(&rng, 2000);
        struct result whole[2], parts;
        for (int mode = 0; mode < 2; mode++) {
            machine_open(&m, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            machine_begin(&m, &s);
            machine_result(&m, hpu_run(&m.hpu, ~0ull), &whole[mode]);
            machine_close(&m);
            /* Quanta of 1, random ones, and steps in between; the last are generated code. */
            for (int k = 0; k < (i % 100 ? 4 : 6); k++) {
                machine_open(&m, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
                if (k >= 4) {
                    machine_begin(&m, &s);
                    hpu_run(&m.hpu, ~0ull);
                    machine_force_jit(&m);
                    if (m.icache)
                        hpu_icache_clear(m.icache);
                }
                machine_begin(&m, &s);
                enum hpu_stop stop;
                uint64_t until = 0, last = 0;
                do {
                    if (k >= 4)
                        hpu_jit_compile(m.code, m.hpu.pc);
                    if ((k == 3 || k == 5) && rng_below(&rng, 2)) {
                        stop = hpu_step(&m.hpu);
                        continue;
                    }
                    until = m.hpu.cycles +
                            (k == 0 ? 1 : 1 + rng_below(&rng, k == 1 || k > 3 ? 20 : 500));
                    stop = hpu_run(&m.hpu, until);
                    if (stop == HPU_PAUSED)
                        CHECK(m.hpu.cycles >= until);
                    CHECK(m.hpu.cycles >= last);
                    last = m.hpu.cycles;
                } while (stop == HPU_PAUSED);
                machine_result(&m, stop, &parts);
                CHECK_EQ(parts.cycles, whole[mode].cycles);
                demand_same(&whole[mode], &parts, mode ? RUN_TIMED : RUN_FUNCTIONAL);
                machine_close(&m);
            }
        }
        run_program(&p, &s);
    }
}

/* A device that lets the handler wait, then answers, and sees exact times; and one that faults. */
struct toy {
    uint32_t waits, stores, last_offset, last_value;
    uint64_t last_cycle;
    enum hpu_access answer;
    enum hpu_fault fault;
};

static enum hpu_access toy_store(struct hpu *h, uint32_t offset, uint32_t value) {
    struct toy *t = h->device_context;
    if (t->waits) {
        t->waits--;
        return HPU_ACCESS_WAIT;
    }
    t->stores++;
    t->last_offset = offset, t->last_value = value, t->last_cycle = h->cycles;
    h->cycles += 5; /* time passes in the device */
    h->fault = (uint8_t)t->fault;
    return t->answer;
}

TEST(devices) {
    static const struct hpu_device device = {.store = toy_store};
    static struct program p;
    static struct machine m;
    p.bytes = 0;
    for (int i = 0; i < 20; i++)
        put(&p, RV_NOP); /* the access is in the third line of a cold block */
    put(&p, rv_sw(12, 11, 0));
    put(&p, rv_sw(10, 11, 4));
    for (int i = 0; i < 20; i++)
        put(&p, RV_NOP);
    put(&p, RV_RET);
    for (int way = 0; way < WAYS; way++) {
        bool timed = way >= RUN_TIMED, step = way == STEP_FUNCTIONAL || way == STEP_TIMED;
        struct toy toy = {.waits = 3};
        machine_open(&m, &p, timed ? HPU_TIMED : HPU_FUNCTIONAL, false);
        m.hpu.device = &device;
        m.hpu.device_context = &toy;
        if (way % RUN_TIMED >= NEW_FUNCTIONAL)
            machine_force_jit(&m);
        struct start s = {.x[10] = 0x89abcdef, .x[11] = MAP_DRIVER + SPIN_REG_WAIT};
        machine_begin(&m, &s);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(step ? machine_step(&m) : hpu_run(&m.hpu, ~0ull), HPU_WAITING);
            CHECK_EQ(m.hpu.pc, CODE_BASE + 80);
            CHECK_EQ(m.hpu.instret, 20);
            CHECK_EQ(m.hpu.cycles, timed ? 20 + 3 * 16 : 20);
        }
        m.hpu.cycles += 1000; /* the owner moves time on */
        CHECK_EQ(step ? machine_step(&m) : hpu_run(&m.hpu, ~0ull), HPU_DONE);
        CHECK_EQ(toy.stores, 2);
        CHECK_EQ(toy.last_offset, SPIN_REG_TEST);
        CHECK_EQ(toy.last_value, 0x89abcdef);
        /* 20 nops, the store with 5 in the device, 1,000 of waiting; when cold, the three lines up
         * to here, not those behind. */
        CHECK_EQ(toy.last_cycle, timed ? 1000 + 20 + 48 + 1 + 5 : 1000 + 21);
        machine_begin(&m, &s); /* once more, warm; the device refuses */
        toy.answer = HPU_ACCESS_FAULT;
        CHECK_EQ(step ? machine_step(&m) : hpu_run(&m.hpu, ~0ull), HPU_FAULTED);
        CHECK_EQ(m.hpu.fault, HPU_FAULT_SEGV); /* it says nothing else */
        CHECK_EQ(m.hpu.fault_address, MAP_DRIVER + SPIN_REG_WAIT);
        /* Loads, misaligned, not whole, across the end, or far away: not the device's at all. */
        toy.answer = HPU_ACCESS_OK;
        toy.stores = 0;
        static const struct {
            uint32_t insn, at;
        } bad[] = {{0x00059503, 0x41}, {0x0005a503, 0x42},  {0x0005a503, 0xfe},
                   {0x00059503, 0xff}, {0x00058503, 0x100}, {0x00058503, (uint32_t)-1},
                   {0x0005a503, 0x80}, {0x00058503, 0x8c},  {0x0005a503, 0x50},
                   {0x0005a503, 0x90}, {0x00d5a023, 0x82},  {0x00d59023, 0x84},
                   {0x00d58023, 0x80}, {0x00d5a023, 0x100}, {0x00d58023, 0x90}};
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            machine_close(&m);
            struct program one = {0};
            put(&one, bad[i].insn);
            put(&one, RV_RET);
            machine_open(&m, &one, timed ? HPU_TIMED : HPU_FUNCTIONAL, false);
            m.hpu.device = &device;
            m.hpu.device_context = &toy;
            s.x[11] = MAP_DRIVER + bad[i].at;
            machine_begin(&m, &s);
            CHECK_EQ(step ? machine_step(&m) : hpu_run(&m.hpu, ~0ull), HPU_FAULTED);
            CHECK_EQ(m.hpu.fault, HPU_FAULT_SEGV);
            CHECK_EQ(toy.stores, 0);
        }
        machine_close(&m);
        struct program one = {0}; /* a store that the device calls a bad command */
        put(&one, rv_sw(10, 11, 0));
        machine_open(&m, &one, timed ? HPU_TIMED : HPU_FUNCTIONAL, false);
        m.hpu.device = &device;
        m.hpu.device_context = &toy;
        toy.answer = HPU_ACCESS_FAULT;
        toy.fault = HPU_FAULT_COMMAND;
        s.x[11] = MAP_DRIVER + SPIN_REG_ISSUE;
        machine_begin(&m, &s);
        CHECK_EQ(step ? machine_step(&m) : hpu_run(&m.hpu, ~0ull), HPU_FAULTED);
        CHECK_EQ(m.hpu.fault, HPU_FAULT_COMMAND);
        machine_close(&m);
    }
}

TEST_MAIN
