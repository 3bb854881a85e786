/* Generated code where it differs from the interpreter in how it works: what it expects of
 * accesses, and what it leaves to the interpreter; jit_hot_test.c has when it is made. That single
 * instructions and whole programs come out the same is shown by all tests with lib/test_machine.h,
 * by diff and by the fuzzer. */
#include "base/rng.h"
#include "hpu/jit_private.h"
#include "lib/index.h"
#include "lib/test_machine.h"

#ifndef OPENSPIN_JIT
TEST(generated_code) {
    TEST_SKIP("built without LLVM");
}
#else

/* A sanitizer looks at the compiler's memory, which a quarter of the random programs show as well.
 */
#define FEWER (TEST_SANITIZED ? 8 : 1)

/* One access, now here, now there: inside each window, read-only or not, at its edges and outside,
 * aligned and not. After some calls it is compiled for a window, then to look where it goes. */
TEST(accesses_that_change_windows) {
    static struct machine plain, jit;
    static const uint32_t insns[] = {
        0x0005a503, 0x00059503, 0x00058503, 0x0005c503,  /* lw lh lb lbu */
        0x00d5a023, 0x00d59023, 0x00d58023,              /* sw sh sb */
        0x00d5a52f, 0x08d5a52f, 0x1005a52f, 0x18d5a52f}; /* amo lr sc */
    static const uint32_t bases[] = {DATA_BASE, FIXED_BASE, L2_BASE, DATA_BASE, L2_BASE};
    static const uint32_t offsets[] = {0,    4,    8,    64,           1,           2,
                                       3,    252,  253,  255,          256,         1020,
                                       1021, 1023, 1024, (uint32_t)-1, (uint32_t)-4};
    for (size_t k = 0; k < sizeof insns / sizeof insns[0]; k++)
        for (int mode = 0; mode < 2; mode++) {
            struct program p = {0};
            put(&p, insns[k]);
            put(&p, rv_addi(12, 10, 1));
            put(&p, RV_RET);
            machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            machine_force_jit(&jit);
            for (int i = 0; i < 400; i++) {
                uint32_t at = bases[i / 3 % 5] + offsets[i * 7 % 17];
                struct start s = {.x[11] = at, .x[13] = 0x89abcdef + (uint32_t)i};
                demand_same_call(&plain, &jit, &s);
            }
            CHECK(hpu_jit_stats(jit.code).functions >= 2); /* after a draft */
            machine_close(&plain);
            machine_close(&jit);
        }
}

/* A device: some of what is stored to it takes time, is to be repeated later, or refused. */
static enum hpu_access device_store(struct hpu *h, uint32_t offset, uint32_t value) {
    h->cycles += value % 3;
    if (offset == SPIN_REG_ALLOCATE && value % 5 == 0)
        return HPU_ACCESS_FAULT; /* and does not say as what */
    if (offset == SPIN_REG_WAIT && h->result != offset) {
        h->result = offset;
        return HPU_ACCESS_WAIT;
    }
    h->result = value + offset; /* as a command leaves its handle there */
    return offset % 16 || offset > SPIN_REG_WORD ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
}
static const struct hpu_device device = {.store = device_store};

/* The task's registers, command words and RESULT, which the HPU has itself, and those of the
 * device: accesses of every size at every place, now here, now there. */
TEST(registers_of_the_driver) {
    static struct machine plain, jit;
    static const uint32_t insns[] = {0x0005a503, 0x00059503, 0x0005c503, /* lw lh lbu */
                                     0x00d5a023, 0x00d59023, 0x00d58023, /* sw sh sb */
                                     0x00d5a52f};                        /* amo */
    for (size_t k = 0; k < sizeof insns / sizeof insns[0]; k++)
        for (int mode = 0; mode < 2; mode++) {
            struct program p = {0};
            put(&p, insns[k]);
            put(&p, rv_addi(12, 10, 1));
            put(&p, rv_lw(14, 15, 0)); /* RESULT */
            put(&p, RV_RET);
            struct machine *both[] = {&plain, &jit};
            for (int i = 0; i < 2; i++) {
                machine_open(both[i], &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
                both[i]->hpu.device = &device;
                uint32_t *task = (uint32_t *)&both[i]->hpu.task;
                for (uint32_t r = 0; r < SPIN_TASK_REGISTERS / 4; r++)
                    task[r] = 0x87654321 * (r + 1);
            }
            machine_force_jit(&jit);
            for (int i = 0; i < 900; i++) {
                static const uint32_t often[] = {SPIN_REG_FLOW, SPIN_REG_WORD, SPIN_REG_TEST};
                uint32_t at = i % 3 == 2 ? DATA_BASE + 4 : MAP_DRIVER + (uint32_t)(i * 7 % 268);
                at = i < 300 ? MAP_DRIVER + often[i / 100] : at;
                struct start s = {.x[11] = at,
                                  .x[13] = 0x89abcdef + (uint32_t)i,
                                  .x[15] = MAP_DRIVER + SPIN_REG_RESULT};
                demand_same_call(&plain, &jit, &s);
                CHECK(memcmp(plain.hpu.word, jit.hpu.word, sizeof plain.hpu.word) == 0);
                CHECK_EQ(jit.hpu.result, plain.hpu.result);
                CHECK(!plain.hpu.word[0] || jit.hpu.unready.words);
                if (!mode) /* which is not counted */
                    continue;
                CHECK_EQ(jit.hpu.device_loads, plain.hpu.device_loads);
                CHECK_EQ(jit.hpu.device_stores, plain.hpu.device_stores);
            }
            CHECK_EQ(jit.hpu.word[0] || jit.hpu.word[SPIN_WORDS - 1], insns[k] == 0x00d5a023);
            for (uint32_t r = 0; r < SPIN_TASK_REGISTERS / 4; r++)
                CHECK_EQ(((uint32_t *)&jit.hpu.task)[r], 0x87654321 * (r + 1));
            machine_close(&plain);
            machine_close(&jit);
        }
}

/* What HPUs have mostly in common is compiled in. Here they differ: in how far away a window is,
 * and in whether they have a device, and with it registers of the driver. */
TEST(hpus_of_another_kind) {
    static struct machine plain, jit;
    static const enum hpu_region regions[] = {HPU_REGION_L1, HPU_REGION_L2_HANDLER,
                                              HPU_REGION_REMOTE_L1};
    struct program p = {0};
    put(&p, rv_lw(12, 11, 0));
    put(&p, rv_sw(12, 11, 4));
    put(&p, rv_amoadd_w(13, 12, 11));
    put(&p, rv_sw(12, 14, 0)); /* a word of a command */
    put(&p, rv_lw(16, 11, 8)); /* and a loop */
    put(&p, rv_addi(9, 9, -1));
    put(&p, rv_bne(9, 0, -8));
    put(&p, RV_RET);
    for (int mode = 0; mode < 2; mode++) {
        struct machine *both[] = {&plain, &jit};
        uint32_t functions = 0;
        for (int i = 0; i < 2; i++) {
            machine_open(both[i], &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            both[i]->hpu.device = &device;
        }
        machine_force_jit(&jit);
        for (int n = 0; n < 400; n++) {
            enum hpu_region region = regions[n / 50 % 3];
            for (int i = 0; i < 2; i++) {
                struct hpu_window *w = &both[i]->hpu.window[0];
                const struct hpu_timing *timing = both[i]->code->timing;
                w->region = (uint8_t)region;
                w->load_extra = timing->load_extra[region];
                w->store_extra = timing->store_extra[region];
                w->amo_extra = timing->amo_extra[region];
                both[i]->hpu.device = n / 70 % 2 == 0 ? &device : NULL;
            }
            struct start s = {.x[9] = 20,
                              .x[11] = DATA_BASE,
                              .x[14] = MAP_DRIVER + SPIN_REG_WORD + 4,
                              .budget = n % 5 ? 1000 : 60};
            demand_same_call(&plain, &jit, &s);
            CHECK_EQ(jit.hpu.word[1], plain.hpu.word[1]);
            if (mode)
                CHECK_EQ(jit.hpu.device_stores, plain.hpu.device_stores);
            if (n == 200)
                functions = hpu_jit_stats(jit.code).functions;
        }
        CHECK(functions >= 3);
        CHECK_EQ(hpu_jit_stats(jit.code).functions, functions); /* which know all kinds */
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* Several accesses through one register are checked as one; their sum may be outside where some of
 * them are inside, and the first fault must be found where it is. */
TEST(groups_at_the_edges) {
    static struct machine plain, jit;
    struct program p = {0};
    put(&p, rv_lw(12, 11, 0));
    put(&p, rv_lw(13, 11, 12));
    put(&p, rv_sw(12, 11, 4));
    put(&p, rv_addi(11, 11, 16));
    put(&p, rv_lw(14, 11, -8));
    put(&p, rv_sw(13, 11, 2));
    put(&p, RV_RET);
    for (int mode = 0; mode < 2; mode++) {
        machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        struct start s = {.x[11] = DATA_BASE};
        machine_begin(&jit, &s);
        hpu_run(&jit.hpu, ~0ull);
        machine_begin(&plain, &s);
        hpu_run(&plain.hpu, ~0ull);
        machine_force_jit(&jit);
        for (uint32_t at = DATA_BASE - 40; at < DATA_BASE + DATA_BYTES + 40; at++) {
            s.x[11] = at;
            for (uint32_t i = 0; i < DATA_BYTES; i++)
                s.data[i] = (uint8_t)(i * 31 + at);
            demand_same_call(&plain, &jit, &s);
        }
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* Pointers at constant distances from others, or with the lowest bits of others, which may have
 * been overwritten since; then an access through one. */
static void random_pointers(struct rng *rng, struct program *p, int accesses) {
    p->bytes = 0;
    for (int i = 0; i < accesses; i++) {
        uint32_t to = 16 + rng_below(rng, 4),
                 from = rng_below(rng, 2) ? 11 : 16 + rng_below(rng, 4);
        int32_t offset = (int32_t)rng_below(rng, 8) * 4 + (rng_below(rng, 8) ? 0 : 2);
        switch (rng_below(rng, 6)) {
        case 0: /* from here on another's value */
            put(p, rv_lui(to, DATA_BASE));
            break;
        case 1:
            put(p, rv_slli(20, 9, rng_below(rng, 3)));
            put(p, rng_below(rng, 2) ? rv_add(to, 20, from) : rv_add(to, from, 20));
            break;
        case 2:
            put(p, rv_andi(20, 9, rng_below(rng, 2) ? 28 : 30));
            put(p, rv_add(to, from, 20));
            break;
        default:
            put(p, rv_addi(to, from, offset - 8));
        }
        uint32_t by = rng_below(rng, 2) ? to : from;
        switch (rng_below(rng, 5)) {
        case 0:
            put(p, rv_sw(9, by, offset));
            break;
        case 1:
            put(p, rv_amoadd_w(21, 9, by));
            break;
        case 2:
            put(p, rv_lhu(22, by, offset));
            break;
        case 3:
            put(p, rv_lw(from, by, offset)); /* and what `from` was is gone */
            put(p, rv_addi(from, 11, 4));
            break;
        default:
            put(p, rv_lw(23, by, offset));
        }
    }
    put(p, RV_RET);
}

TEST(accesses_through_sums) {
    static struct machine plain, jit;
    static struct program p;
    const char *seeds = getenv("OPENSPIN_SEEDS");
    struct rng rng = rng_seeded(23);
    for (int i = 0, n = seeds ? atoi(seeds) : 40 / FEWER; i < n; i++) {
        random_pointers(&rng, &p, 3 + (int)rng_below(&rng, 12));
        for (int mode = 0; mode < 2; mode++) {
            machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            machine_force_effort(&jit, (unsigned)i % 5);
            for (int k = 0; k < 60; k++) {
                uint32_t at = DATA_BASE + 64 + 4 * rng_below(&rng, 8);
                struct start s = {.x[9] = k % 3 ? 4 * rng_below(&rng, 8) : rng_below(&rng, 300)};
                s.x[11] = k < 20 || k % 3 ? at : DATA_BASE + rng_below(&rng, DATA_BYTES + 32) - 16;
                for (uint32_t r = 16; r < 20; r++)
                    s.x[r] = k < 20 || k % 5 ? at + 4 * r : s.x[11] + rng_below(&rng, 7);
                demand_same_call(&plain, &jit, &s);
            }
            machine_close(&plain);
            machine_close(&jit);
        }
    }
}

/* To the program's beginning: a pointer is compared with its end, or a counter that goes up or down
 * with another number or 0, in every way. */
static void put_branch_back(struct rng *rng, struct program *p) {
    static uint32_t (*const branches[])(uint32_t, uint32_t, int32_t) = {rv_bne,  rv_bne, rv_bltu,
                                                                        rv_bgeu, rv_blt, rv_bge};
    static const int32_t steps[] = {-1, -1, 1, -3, 3, 4, -2048, 2047};
    uint32_t counter = 11, end = 15, kind = rng_below(rng, 6);
    if (rng_below(rng, 3)) {
        put(p, rv_addi(9, 9, steps[rng_below(rng, 8)]));
        counter = 9;
        end = rng_below(rng, 3) ? 14 : 0;
    }
    bool other_order = rng_below(rng, 3) == 0;
    put(p, branches[kind](other_order ? end : counter, other_order ? counter : end,
                          -(int32_t)p->bytes));
}

/* One block that jumps to itself, through memory with two pointers and a masked index. */
static void random_loop(struct rng *rng, struct program *p) {
    static const int32_t strides[] = {4, 4, 4, 1, 2, 8, 12, -4, -1, 0, 3};
    int32_t stride[2];
    p->bytes = 0;
    for (int i = 0; i < 2; i++)
        stride[i] = strides[rng_below(rng, 11)];
    for (uint32_t i = 0, n = 1 + rng_below(rng, 5); i < n; i++) {
        uint32_t pointer = 11 + rng_below(rng, 2), value = 16 + rng_below(rng, 4);
        int32_t offset = (int32_t)rng_below(rng, 5) * 4 - 8 + (rng_below(rng, 8) ? 0 : 1);
        switch (rng_below(rng, 9)) {
        case 0:
        case 1:
            put(p, rv_lw(value, pointer, offset));
            break;
        case 2:
            put(p, rv_lbu(value, pointer, offset));
            break;
        case 3:
            put(p, rv_sw(value, pointer, offset));
            break;
        case 4:
            put(p,
                rng_below(rng, 2) ? rv_sb(value, pointer, offset) : rv_sh(value, pointer, offset));
            break;
        case 5:
            put(p, rv_add(20, 20, value));
            break;
        case 6:
            put(p, rv_xor(value, value, 20));
            break;
        case 7: /* a table, by a masked index or two, of words or bytes */
            put(p, rv_andi(21, value, 15));
            if (rng_below(rng, 2)) {
                put(p, rv_andi(25, 20, 31));
                put(p, rng_below(rng, 2) ? rv_xor(21, 21, 25) : rv_or(21, 25, 21));
            }
            if (rng_below(rng, 2))
                put(p, rv_slli(21, 21, 2));
            put(p, rv_add(21, 21, 13));
            put(p, rng_below(rng, 2) ? rv_lw(22, 21, 0) : rv_lbu(22, 21, 64));
            break;
        case 8: /* by the sum of two registers */
            put(p, rv_add(23, 13, 24));
            put(p, rv_lw(value, 23, 0));
            put(p, rv_addi(24, 24, 4));
            break;
        }
    }
    put(p, rv_addi(11, 11, stride[0]));
    put(p, rv_addi(12, 12, stride[1]));
    put_branch_back(rng, p);
    put(p, RV_RET);
}

static struct start random_start(struct rng *rng) {
    static const uint32_t edges[] = {DATA_BASE, DATA_BASE + 512, DATA_BASE + DATA_BYTES - 64,
                                     L2_BASE, FIXED_BASE + 128};
    static const uint32_t ends[] = {0, 100, 300, 0x7fffffff, 0x80000000, 0xfffffff0};
    struct start s = {.budget = rng_below(rng, 3) ? 20000 : 1 + rng_below(rng, 1500)};
    for (uint32_t r = 11; r < 14; r++)
        s.x[r] = edges[rng_below(rng, 5)] + rng_below(rng, 16) * 4 + (rng_below(rng, 6) ? 0 : 1);
    s.x[14] = ends[rng_below(rng, 6)] + rng_below(rng, 8) - 4;
    s.x[9] = rng_below(rng, 2) ? 1 + rng_below(rng, 300) : s.x[14] + rng_below(rng, 600) - 300;
    s.x[15] = s.x[11] + 4 * rng_below(rng, 260);
    for (uint32_t r = 16; r < 25; r++)
        s.x[r] = r == 24 ? 0 : rng_u32(rng);
    for (uint32_t i = 0; i < DATA_BYTES; i++)
        s.data[i] = (uint8_t)rng_u32(rng);
    return s;
}

TEST(tight_loops) {
    static struct machine plain, jit;
    static struct program p;
    const char *seeds = getenv("OPENSPIN_SEEDS");
    struct rng rng = rng_seeded(7);
    for (int i = 0, n = seeds ? atoi(seeds) : 60 / FEWER; i < n; i++) {
        random_loop(&rng, &p);
        for (int mode = 0; mode < 2; mode++) {
            machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            struct start s = random_start(&rng);
            demand_same_call(&plain, &jit, &s); /* both interpreted: which windows, and warm */
            machine_force_effort(&jit, (unsigned)i % 5);
            for (int k = 0; k < 45; k++) {
                struct start next = k % 3 ? s : random_start(&rng);
                next.budget = k % 3 == 1 ? 1 + rng_below(&rng, 3000) : next.budget;
                next.x[9] = k % 3 == 2 ? 1 + rng_below(&rng, 100) : next.x[9];
                demand_same_call(&plain, &jit, &next);
            }
            machine_close(&plain);
            machine_close(&jit);
        }
    }
}

/* What an index is made of says whether its accesses are aligned: those that are not take longer,
 * also in loops that count their cycles in advance. */
TEST(indices_of_parts) {
    static struct machine plain, jit;
    static struct program p;
    const char *seeds = getenv("OPENSPIN_SEEDS");
    struct rng rng = rng_seeded(19);
    for (int i = 0, n = seeds ? atoi(seeds) : 60 / FEWER; i < n; i++) {
        p.bytes = 0;
        for (uint32_t k = 1 + rng_below(&rng, 2); k > 0; k--) {
            uint32_t value = 16 + rng_below(&rng, 4);
            put_index(&rng, &p, 25, value, rng_below(&rng, 2) ? 63 : 255);
            put(&p, rv_add(25, 25, 11));
            if (rng_below(&rng, 4) == 0)
                put(&p, rv_add(25, 12, 25));
            put_indexed_access(&rng, &p, 25, value);
            put(&p, rv_add(value ^ 1, value, 9));
        }
        put(&p, rv_addi(11, 11, (int32_t)(4 >> rng_below(&rng, 3))));
        put(&p, rv_addi(9, 9, -1));
        put(&p, rv_bne(9, 0, -(int32_t)p.bytes));
        put(&p, RV_RET);
        machine_open(&plain, &p, HPU_TIMED, false);
        machine_open(&jit, &p, HPU_TIMED, false);
        for (int k = 0; k < 8; k++) {
            struct start s = random_start(&rng);
            s.budget = 0;
            s.x[9] = 1 + rng_below(&rng, 100);
            s.x[11] = DATA_BASE + 64 + rng_below(&rng, 16) / 12;
            s.x[12] = rng_below(&rng, 16) / 12;
            demand_same_call(&plain, &jit, &s);
            if (k == 0)
                machine_force_effort(&jit, (unsigned)i % 5);
        }
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* A table at the end of its window, of which only the beginning is there and is used: what the
 * turns might touch is never inside. Such a loop is not compiled again and again. */
TEST(turns_that_are_never_sure) {
    static struct machine plain, jit;
    struct program p = {0};
    put(&p, rv_lbu(16, 11, 0));
    put(&p, rv_andi(21, 16, 255));
    put(&p, rv_add(21, 21, 13));
    put(&p, rv_lbu(22, 21, 0));
    put(&p, rv_add(20, 20, 22));
    put(&p, rv_addi(11, 11, 1));
    put(&p, rv_addi(9, 9, -1));
    put(&p, rv_bne(9, 0, -28));
    put(&p, RV_RET);
    for (int mode = 0; mode < 2; mode++) {
        machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_force_jit(&jit);
        struct start s = {.x[9] = 100, .x[11] = DATA_BASE, .x[13] = DATA_BASE + DATA_BYTES - 24};
        for (uint32_t i = 0; i < DATA_BYTES; i++)
            s.data[i] = (uint8_t)(i % 8);
        for (int i = 0; i < 400; i++)
            demand_same_call(&plain, &jit, &s);
        CHECK(hpu_jit_stats(jit.code).functions <= 4);
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* Many blocks that each change registers, load and store through them and skip some: where any of
 * them is left, by a fault, an access elsewhere or the budget, all registers are as they should be.
 */
static void random_blocks(struct rng *rng, struct program *p, int blocks) {
    p->bytes = 0;
    for (int i = 0; i < blocks; i++) {
        uint32_t pointer = 11 + rng_below(rng, 3);
        int32_t offset = (int32_t)rng_below(rng, 16) * 4;
        for (uint32_t n = rng_below(rng, 4); n > 0; n--) {
            uint32_t rd = 16 + rng_below(rng, 12), rs = 16 + rng_below(rng, 12);
            put(p, rng_below(rng, 2) ? rv_add(rd, rd, rs) : rv_addi(rd, rs, (int32_t)n));
        }
        put(p, rv_addi(28, pointer, 4));
        switch (rng_below(rng, 4)) {
        case 0:
            put(p, rv_lw(16 + rng_below(rng, 12), 28, offset));
            break;
        case 1:
            put(p, rv_sw(16 + rng_below(rng, 12), 28, offset));
            break;
        case 2:
            put(p, rv_amoadd_w(16 + rng_below(rng, 12), 28, pointer));
            break;
        case 3:
            put(p, rv_csrrs(29, 0xc00, 0)); /* what time it is */
        }
        put(p, rv_andi(28, 16 + rng_below(rng, 12), 7));
        put(p, rv_bne(28, 0, 8)); /* over the next */
        put(p, rv_addi(16 + rng_below(rng, 12), 28, 1));
    }
    put(p, RV_RET);
}

TEST(exits_of_many_blocks) {
    static struct machine plain, jit;
    static struct program p;
    static const uint32_t elsewhere[] = {DATA_BASE + DATA_BYTES - 8, L2_BASE, FIXED_BASE, 4,
                                         DATA_BASE + 1};
    struct rng rng = rng_seeded(11);
    for (int i = 0, n = TEST_SANITIZED ? 10 : 30; i < n; i++) { /* every effort twice */
        random_blocks(&rng, &p, i % 3 ? 14 : 4);
        for (int mode = 0; mode < 2; mode++) {
            machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
            machine_force_effort(&jit, (unsigned)i % 5);
            for (int k = 0; k < 60; k++) {
                struct start s = {.budget = rng_below(&rng, 3) ? 20000 : 1 + rng_below(&rng, 150)};
                for (uint32_t r = 11; r < 14; r++)
                    s.x[r] =
                        rng_below(&rng, 8) ? DATA_BASE + 64 * r : elsewhere[rng_below(&rng, 5)];
                for (uint32_t r = 16; r < 28; r++)
                    s.x[r] = k % 4 ? r : rng_u32(&rng);
                demand_same_call(&plain, &jit, &s);
            }
            CHECK(hpu_jit_stats(jit.code).functions >= 1);
            machine_close(&plain);
            machine_close(&jit);
        }
    }
}

/* A branch whose one side was never seen when the handler was compiled. */
TEST(branches_that_turn) {
    static struct machine plain, jit;
    struct program p = {0};
    put(&p, rv_addi(12, 0, 7));
    put(&p, rv_bne(11, 0, 16));
    put(&p, rv_addi(10, 12, 1)); /* the usual side */
    put(&p, rv_addi(13, 10, 1));
    put(&p, RV_RET);
    for (int i = 0; i < 40; i++) /* the other */
        put(&p, rv_addi(10, 10, 3));
    put(&p, RV_RET);
    for (int mode = 0; mode < 2; mode++) {
        machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        struct start s = {.x[10] = 5};
        for (int i = 0; i < 9; i++) /* from a warm instruction cache, both sides */
            for (int side = 0; side < 2; side++) {
                s.x[11] = (uint32_t)side;
                demand_same_call(&plain, &jit, &s);
            }
        struct spin_error err;
        CHECK_EQ(hpu_jit_enable(jit.code, SPIN_JIT_ON, &err), SPIN_OK);
        s.x[11] = 0;
        s.budget = UINT64_MAX;
        while (hpu_jit_stats(jit.code).functions == 0) { /* hot; memory is left alone */
            hpu_start(&jit.hpu, CODE_BASE, DATA_BASE + DATA_BYTES, s.budget);
            jit.hpu.x[10] = s.x[10];
            jit.hpu.x[11] = s.x[11];
            CHECK_EQ(hpu_run(&jit.hpu, ~0ull), HPU_DONE);
        }
        CHECK_EQ(hpu_jit_stats(jit.code).instructions, 5); /* not the other side */
        for (int i = 0; i < 200; i++)
            demand_same_call(&plain, &jit, &s);
        CHECK_EQ(hpu_jit_stats(jit.code).functions, 1); /* which was right at once */
        s.x[11] = 1;
        for (int i = 0; i < 200; i++)
            demand_same_call(&plain, &jit, &s);
        struct hpu_jit_stats stats = hpu_jit_stats(jit.code);
        CHECK(stats.functions >= 2 && stats.functions <= 3);
        CHECK(stats.instructions >= 5 + 2 + 41);
        for (int i = 0; i < 400; i++) { /* now here, now there: both are known */
            s.x[11] = (uint32_t)i % 2;
            demand_same_call(&plain, &jit, &s);
        }
        CHECK_EQ(hpu_jit_stats(jit.code).functions, stats.functions);
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* A block that has begun runs to its end, time or not. Here its rest is a loop that is compiled. */
TEST(out_of_time_before_a_loop) {
    static struct machine plain, jit;
    struct program p = {0};
    put(&p, rv_addi(12, 0, 5));
    put(&p, rv_addi(13, 0, 0));
    put(&p, rv_lw(16, 11, 0));
    put(&p, rv_add(13, 13, 16));
    put(&p, rv_addi(11, 11, 4));
    put(&p, rv_addi(12, 12, -1));
    put(&p, rv_bne(12, 0, -16));
    put(&p, RV_RET);
    for (int mode = 0; mode < 2; mode++)
        for (uint64_t until = 0; until < 60; until++) {
            struct machine *both[] = {&plain, &jit};
            struct start s = {.x[11] = DATA_BASE, .budget = 1000};
            enum hpu_stop stop[2];
            for (int i = 0; i < 2; i++) {
                machine_open(both[i], &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
                machine_begin(both[i], &s);
                hpu_run(&both[i]->hpu, ~0ull); /* its lines are in the instruction cache */
                if (i == 1 && machine_force_jit(both[i]))
                    CHECK(hpu_jit_compile(jit.code, CODE_BASE + 8));
                machine_begin(both[i], &s);
                hpu_step(&both[i]->hpu);
                hpu_step(&both[i]->hpu);
                CHECK(both[i]->hpu.mid_block && both[i]->hpu.pc == CODE_BASE + 8);
                stop[i] = hpu_run(&both[i]->hpu, until);
            }
            CHECK_EQ(stop[1], stop[0]);
            CHECK_EQ(jit.hpu.pc, plain.hpu.pc);
            CHECK_EQ(jit.hpu.cycles, plain.hpu.cycles);
            CHECK_EQ(jit.hpu.instret, plain.hpu.instret);
            CHECK(memcmp(jit.hpu.x, plain.hpu.x, 4 * 32) == 0);
            machine_close(&plain);
            machine_close(&jit);
        }
}

/* Quanta end where the interpreter's do, whatever is compiled by then, joined, or not known yet. */
TEST(pauses_where_the_interpreter_does) {
    static struct machine plain, jit;
    static struct program p;
    struct rng rng = rng_seeded(3);
    uint32_t functions = 0;
    for (int i = 0; i < 24; i++) {
        random_blocks(&rng, &p, 12);
        int mode = i % 2;
        machine_open(&plain, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_open(&jit, &p, mode ? HPU_TIMED : HPU_FUNCTIONAL, false);
        machine_force_effort(&jit, (unsigned)i / 2 % 5);
        for (int k = 0; k < 60; k++) {
            struct start s = random_start(&rng);
            for (uint32_t r = 11; r < 14; r++)
                s.x[r] = DATA_BASE + 4 * rng_below(&rng, 200);
            s.budget = UINT64_MAX;
            machine_begin(&plain, &s);
            machine_begin(&jit, &s);
            plain.hpu.cycles = jit.hpu.cycles = 0;
            enum hpu_stop stop;
            uint64_t until = 0;
            do {
                until += 1 + rng_below(&rng, 24);
                stop = hpu_run(&plain.hpu, until);
                CHECK_EQ(hpu_run(&jit.hpu, until), stop);
                CHECK_EQ(jit.hpu.pc, plain.hpu.pc);
                CHECK_EQ(jit.hpu.cycles, plain.hpu.cycles);
                CHECK_EQ(jit.hpu.instret, plain.hpu.instret);
                CHECK(memcmp(jit.hpu.x, plain.hpu.x, 4 * 32) == 0);
            } while (stop == HPU_PAUSED);
        }
        functions += hpu_jit_stats(jit.code).functions;
        machine_close(&plain);
        machine_close(&jit);
    }
    CHECK(functions >= 24);
}
#endif

TEST_MAIN
