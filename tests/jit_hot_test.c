/* When code is generated: what is hot, drafts, requests, budgets that end meanwhile, and what the
 * process sees of it. */
#include <signal.h>

#include "hpu/jit_private.h"
#include "lib/test_machine.h"

#ifndef OPENSPIN_JIT
TEST(generated_code) {
    TEST_SKIP("built without LLVM");
}
#else
static void put_count_down(struct program *p) {
    uint32_t top = p->bytes;
    put(p, rv_addi(10, 10, 3));
    put(p, rv_addi(9, 9, -1));
    put(p, rv_bne(9, 0, (int32_t)top - (int32_t)p->bytes));
    put(p, RV_RET);
}

/* Not before it is hot, and in the middle of a long run once it is. */
TEST(compiled_when_hot) {
    static struct machine m;
    struct program p = {0};
    struct spin_error err;
    put_count_down(&p);
    machine_open(&m, &p, HPU_FUNCTIONAL, false);
    CHECK_EQ(hpu_jit_enable(m.code, SPIN_JIT_ON, &err), SPIN_OK);
    struct start s = {.x[9] = 1000, .budget = UINT64_MAX};
    for (int i = 0; i < 10; i++) {
        machine_begin(&m, &s);
        CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
    }
    CHECK_EQ(hpu_jit_stats(m.code).functions, 0);
    s.x[9] = 30000000;
    machine_begin(&m, &s);
    CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
    CHECK_EQ(m.hpu.x[10], 90000000);
    CHECK_EQ(m.hpu.instret, 90000001);
    CHECK_EQ(m.hpu.cycles, 90000001);
    struct hpu_jit_stats stats = hpu_jit_stats(m.code);
    CHECK(stats.functions >= 1 && stats.functions <= 4);
    CHECK(stats.instructions >= 3 && stats.compile_ns > 0 && stats.code_bytes > 0);
    machine_close(&m);
}

static const struct hpu_device nothing;

/* Accesses to the driver take the interpreter long: a handler that gives commands is hot after
 * fewer instructions. */
TEST(commands_make_hot) {
    static struct machine m;
    struct program p = {0};
    struct spin_error err;
    for (int i = 0; i < 4; i++)
        put(&p, rv_sw(10, 11, 4 * i));
    put(&p, RV_RET);
    machine_open(&m, &p, HPU_FUNCTIONAL, false);
    m.hpu.device = &nothing;
    CHECK_EQ(hpu_jit_enable(m.code, SPIN_JIT_ON, &err), SPIN_OK);
    const struct start s = {.x[11] = MAP_DRIVER + SPIN_REG_WORD, .budget = UINT64_MAX};
    for (int i = 0; i < 300000; i++) { /* 1.5 million instructions */
        machine_begin(&m, &s);
        CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
    }
    CHECK_EQ(hpu_jit_stats(m.code).functions, 1);
    machine_close(&m);
}

/* A call that does not end gets something better than the draft it began with. */
TEST(a_long_run_of_a_draft) {
    static struct machine m;
    struct program p = {0};
    put(&p, rv_andi(12, 9, 1));
    put(&p, rv_bne(12, 0, 8));
    put(&p, rv_addi(10, 10, 3));
    put(&p, rv_addi(9, 9, -1));
    put(&p, rv_bne(9, 0, -16));
    put(&p, RV_RET);
    machine_open(&m, &p, HPU_FUNCTIONAL, false);
    machine_force_jit(&m);
    struct start s = {.x[9] = 10000000, .budget = UINT64_MAX};
    machine_begin(&m, &s);
    CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
    CHECK_EQ(m.hpu.x[10], 15000000);
    CHECK_EQ(m.hpu.instret, 45000001);
    CHECK_EQ(m.hpu.cycles, 45000001);
    CHECK(hpu_jit_stats(m.code).functions >= 2);
    machine_close(&m);
}

/* A handler with a loop of several blocks, which is interpreted in slices that end anywhere in it,
 * is compiled once, from its beginning, with all that it does: also what comes after 2,000 blocks.
 */
TEST(hot_as_a_whole) {
    static struct machine plain, jit;
    struct program p = {0};
    struct spin_error err;
    put(&p, rv_addi(9, 0, 1000));
    put(&p, rv_lw(12, 11, 0));
    put(&p, rv_add(13, 13, 12));
    put(&p, rv_bne(12, 0, 8));
    put(&p, rv_addi(13, 13, 1));
    put(&p, rv_addi(9, 9, -1));
    put(&p, rv_bne(9, 0, -20));
    put(&p, rv_addi(10, 13, 1));
    put(&p, RV_RET);
    for (int mode = 0; mode < 2; mode++) {
        machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        CHECK_EQ(hpu_jit_enable(jit.code, SPIN_JIT_ON, &err), SPIN_OK);
        struct start s = {.x[11] = DATA_BASE, .x[13] = 7, .budget = 100000};
        for (int i = 0; i < 4000; i++)
            demand_same_call(&plain, &jit, &s);
        struct hpu_jit_stats stats = hpu_jit_stats(jit.code);
        CHECK_EQ(stats.functions, 1);
        CHECK_EQ(stats.instructions, 4 + 3 + 3 + 2); /* of its blocks: the first two overlap */
        machine_close(&plain);
        machine_close(&jit);
    }
}

TEST(compiled_on_request) {
    static struct machine m;
    struct program p = {0};
    struct spin_error err;
    put_count_down(&p);
    machine_open(&m, &p, HPU_TIMED, false);
    CHECK(!hpu_jit_compile(m.code, CODE_BASE)); /* it has none */
    CHECK_EQ(hpu_jit_enable(m.code, SPIN_JIT_ON, &err), SPIN_OK);
    CHECK(hpu_jit_compile(m.code, CODE_BASE));
    CHECK(hpu_jit_compile(m.code, CODE_BASE)); /* is there already */
    CHECK_EQ(hpu_jit_stats(m.code).functions, 1);
    CHECK(!hpu_jit_compile(m.code, CODE_BASE + 1));
    CHECK(!hpu_jit_compile(m.code, CODE_BASE + p.bytes));
    CHECK(!hpu_jit_compile(m.code, 0));
    CHECK_EQ(hpu_jit_enable(m.code, SPIN_JIT_OFF, &err), SPIN_OK);
    CHECK_EQ(hpu_jit_stats(m.code).functions, 0);
    machine_close(&m);
}

/* The budget ends a loop at the same instruction, whatever it is. */
TEST(budgets_hold_in_loops) {
    static struct machine plain, jit;
    struct program p = {0};
    put_count_down(&p);
    for (int mode = 0; mode < 2; mode++) {
        machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_force_jit(&jit);
        for (uint64_t budget = 1; budget < 300; budget++) {
            struct start s = {.x[9] = 50, .budget = budget};
            demand_same_call(&plain, &jit, &s);
        }
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* Stores to the program are faults, a jump into the middle of an instruction runs what is there. */
TEST(the_program_itself) {
    static struct machine plain, jit;
    struct program p = {0};
    put(&p, rv_sw(0, 11, 0));                     /* at 0 */
    put(&p, rv_lui(10, 0x00a58000) & 0xffffffff); /* at 4: its upper half is c.mv-like code */
    put(&p, RV_RET);
    for (int mode = 0; mode < 2; mode++) {
        machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_force_jit(&jit);
        struct start s = {.x[11] = CODE_BASE};
        demand_same_call(&plain, &jit, &s);
        CHECK_EQ(jit.hpu.fault, HPU_FAULT_SEGV);
        for (uint32_t entry = 0; entry < p.bytes + 4; entry++) {
            s = (struct start){.entry = entry, .x[11] = DATA_BASE};
            for (int i = 0; i < 3; i++)
                demand_same_call(&plain, &jit, &s);
        }
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* An access that is not where it was expected, in a block that runs off the program's end. */
TEST(a_miss_before_the_end) {
    static struct machine plain, jit;
    struct program p = {0};
    put(&p, rv_lw(10, 11, 0));
    put(&p, rv_addi(12, 10, 1));
    put(&p, RV_NOP);
    for (int mode = 0; mode < 2; mode++) {
        machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_force_jit(&jit);
        for (int i = 0; i < 60; i++) {
            struct start s = {.x[11] = i % 3 ? DATA_BASE : i % 2 ? L2_BASE : FIXED_BASE};
            demand_same_call(&plain, &jit, &s);
            CHECK_EQ(jit.hpu.fault, HPU_FAULT_SEGV);
        }
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* Until a program asks for guard pages, generated code cannot fault on the host, so signals are
 * left alone: what the application has set stays, and its own faults reach it. */
static sigjmp_buf back;
static void on_signal(int number) {
    (void)number;
    siglongjmp(back, 1);
}

TEST(signals_are_the_applications) {
    static struct machine m;
    struct sigaction ours = {.sa_handler = on_signal}, old, seen;
    struct program p = {0};
    put(&p, rv_lw(10, 11, 0));
    put(&p, RV_RET);
    sigaction(SIGSEGV, &ours, &old);
    machine_open(&m, &p, HPU_FUNCTIONAL, false);
    CHECK(!machine_add_pages(&m, 0x20000000, 8192, true)->view);
    machine_force_jit(&m);
    for (int i = 0; i < 100; i++) {
        struct start s = {.x[11] = i % 2 ? 0x20000000 : 0x40000000};
        machine_begin(&m, &s);
        CHECK_EQ(hpu_run(&m.hpu, ~0ull), i % 2 ? HPU_DONE : HPU_FAULTED);
    }
    CHECK_EQ(hpu_jit_stats(m.code).guarded, 0);
    sigaction(SIGSEGV, NULL, &seen);
    CHECK(seen.sa_handler == on_signal);
    volatile bool reached = true;
    if (sigsetjmp(back, 1) == 0) {
        raise(SIGSEGV);
        reached = false;
    }
    sigaction(SIGSEGV, &old, NULL);
    machine_close(&m);
    CHECK(reached);
}

/* LLVM makes code for AArch64 as well; here only that it does, and that it is an object. */
TEST(objects_for_aarch64) {
    static struct machine m;
    struct program p = {0};
    put(&p, rv_amoadd_w(12, 10, 11));
    put(&p, rv_div(13, 12, 10));
    put(&p, rv_csrrs(14, 0xc00, 0));
    put(&p, rv_lw(15, 11, 4)); /* by the view of window 0 */
    put(&p, rv_sb(15, 10, -1));
    put_count_down(&p);
    for (int mode = 0; mode < 2; mode++) {
        machine_open(&m, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        uint8_t *by_call = calloc(1, m.code->slots), *object;
        struct jit_region region = {.code = m.code, .by_call = by_call, .views = 1};
        size_t length;
        CHECK(jit_object("aarch64-linux-gnu", &region, &object, &length));
        CHECK(length > 64 && memcmp(object, "\177ELF", 4) == 0);
        CHECK_EQ(object[18] | object[19] << 8, 183); /* EM_AARCH64 */
        CHECK_EQ(region.guarded, 2);
        CHECK(memmem(object, length, "spin_guards", 12));
        free(object);
        CHECK(!jit_object("no-such-machine", &region, &object, &length));
        free(by_call);
        machine_close(&m);
    }
}
#endif

TEST(names_of_the_modes) {
    enum spin_jit mode = SPIN_JIT_OFF;
    CHECK(spin_jit_parse("on", &mode) && mode == SPIN_JIT_ON);
    CHECK(spin_jit_parse("force", &mode) && mode == SPIN_JIT_FORCE);
    CHECK(spin_jit_parse("off", &mode) && mode == SPIN_JIT_OFF);
    CHECK(!spin_jit_parse("", &mode) && !spin_jit_parse("maybe", &mode));
}

TEST_MAIN
