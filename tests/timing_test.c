/* What instructions cost on the RI5CY core: cycle counts of sequences written by hand, and those
 * that were measured on the card's RTL. Warm unless said otherwise: a program runs once to fill the
 * instruction cache, and its second run counts. */
#include "lib/test_machine.h"

#define OVERHEAD 2 /* the ret that ends each sequence */

struct cost {
    uint64_t cold, warm, instructions;
};

static struct cost cost_of_program(const struct program *p, const struct start *s) {
    static struct machine m;
    struct cost c = {0};
    run_program(p, s); /* all modes agree */
    machine_open(&m, p, HPU_TIMED, s->with_float);
    machine_begin(&m, s);
    CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
    c.cold = m.hpu.cycles;
    machine_begin(&m, s);
    CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
    c.warm = m.hpu.cycles;
    c.instructions = m.hpu.instret;
    machine_begin(&m, s); /* stepping a warm program costs the same */
    CHECK_EQ(machine_step(&m), HPU_DONE);
    CHECK_EQ(m.hpu.cycles, c.warm);
    machine_close(&m);
    return c;
}

static struct cost cost_of(const struct start *s, uint32_t count, const uint32_t *insn) {
    static struct program p;
    p.bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        put(&p, insn[i]);
    put(&p, RV_RET);
    return cost_of_program(&p, s);
}
#define COST(start, ...)                                                                           \
    (cost_of(start, sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__}) \
         .warm -                                                                                   \
     OVERHEAD)

static struct start start_with_pointers(void) {
    return (struct start){.x[8] = DATA_BASE, .x[9] = L2_BASE, .x[15] = FIXED_BASE, .x[11] = 7};
}

TEST(alu_and_multiply) {
    struct start s = start_with_pointers();
    CHECK_EQ(COST(&s, RV_NOP), 1);
    CHECK_EQ(COST(&s, C_NOP), 1);
    CHECK_EQ(COST(&s, rv_add(10, 10, 11), rv_xor(10, 10, 11), rv_sll(10, 10, 11)), 3);
    CHECK_EQ(COST(&s, rv_lui(10, 0x1000), rv_auipc(12, 0)), 2);
    CHECK_EQ(COST(&s, rv_mul(10, 11, 11)), 1);
    CHECK_EQ(COST(&s, rv_mul(10, 11, 11), rv_mul(10, 10, 11)), 2); /* no stall on the result */
    CHECK_EQ(COST(&s, rv_mulh(10, 11, 11)), 5);
    CHECK_EQ(COST(&s, rv_mulhu(10, 11, 11)), 5);
    CHECK_EQ(COST(&s, rv_mulhsu(10, 11, 11)), 5);
    CHECK_EQ(COST(&s, RV_FENCE), 1);
    CHECK_EQ(COST(&s, rv_csrrs(10, 0xf14, 0)), 1);
}

TEST(division_by_the_divisors_leading_zeros) {
    static const struct {
        uint32_t divisor;
        uint64_t unsigned_cycles, signed_cycles;
    } rows[] = {
        {0, 35, 35},          {1, 34, 34},           {2, 33, 33},         {7, 32, 32},
        {0x10000, 18, 18},    {0x7fffffff, 4, 4},    {0x80000000u, 3, 4}, {0xffffffffu, 3, 35},
        {0xfffffffeu, 3, 34}, {(uint32_t)-8, 3, 32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct start s = {.x[11] = 1234567, .x[12] = rows[i].divisor};
        CHECK_EQ(COST(&s, rv_divu(10, 11, 12)), rows[i].unsigned_cycles);
        CHECK_EQ(COST(&s, rv_remu(10, 11, 12)), rows[i].unsigned_cycles);
        CHECK_EQ(COST(&s, rv_div(10, 11, 12)), rows[i].signed_cycles);
        CHECK_EQ(COST(&s, rv_rem(10, 11, 12)), rows[i].signed_cycles);
    }
}

TEST(jumps_and_branches) {
    struct start s = start_with_pointers();
    CHECK_EQ(COST(&s, rv_jal(0, 4)), 2);
    CHECK_EQ(COST(&s, c_j(2)), 2);
    CHECK_EQ(COST(&s, rv_jal(5, 8), RV_EBREAK), 2);
    CHECK_EQ(COST(&s, rv_auipc(5, 0), rv_jalr(0, 5, 8)), 3);
    CHECK_EQ(COST(&s, rv_bne(0, 0, 8), RV_NOP), 2); /* not taken: 1, and the nop */
    CHECK_EQ(COST(&s, rv_beq(0, 0, 8), RV_NOP), 3); /* taken, over the nop */
    CHECK_EQ(COST(&s, c_beqz(10, 4), C_NOP), 3);
    CHECK_EQ(COST(&s, c_bnez(10, 4), C_NOP), 2);
    /* A loop of 10 turns: addi 1 and bne 3, the last time 1. */
    CHECK_EQ(COST(&s, rv_addi(5, 0, 10), rv_addi(5, 5, -1), rv_bne(5, 0, -4)), 1 + 10 * 4 - 2);
}

TEST(load_use_stall) {
    struct start s = start_with_pointers();
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0)), 1);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0), rv_add(12, 10, 11)), 3);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0), rv_add(12, 11, 10)), 3);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0), rv_add(10, 11, 11)), 2); /* written, not read */
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0), RV_NOP, rv_add(12, 10, 11)), 3);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0), rv_lw(12, 8, 4), rv_add(12, 10, 11)), 3);
    CHECK_EQ(COST(&s, rv_lb(10, 8, 0), rv_sw(10, 8, 4)), 3); /* as the value */
    CHECK_EQ(COST(&s, rv_lhu(10, 8, 0), rv_addi(0, 10, 4)), 3);
    CHECK_EQ(COST(&s, rv_lw(0, 8, 0), rv_add(12, 0, 0)), 2); /* x0 is never waited for */
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0), rv_lui(10, 0x1000)), 2);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0), rv_bne(10, 0, 4)), 3);
    CHECK_EQ(COST(&s, c_lw(10, 8, 0), c_add(10, 11)), 3);
    CHECK_EQ(COST(&s, c_lw(10, 8, 0), c_mv(12, 10)), 3);
    /* The address of the next load; data holds a pointer. */
    uint32_t pointer = DATA_BASE + 4;
    memcpy(s.data, &pointer, 4);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0), rv_lw(12, 10, 0)), 3);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 0), rv_amoadd_w(12, 11, 10)), 1 + 1 + 1);
    CHECK_EQ(COST(&s, rv_amoadd_w(12, 11, 8), rv_add(13, 12, 12)), 1 + 1 + 1);
    CHECK_EQ(COST(&s, rv_amoadd_w(0, 11, 8), rv_add(13, 12, 12)), 1 + 1);
}

TEST(memory_by_region_and_alignment) {
    struct start s = start_with_pointers();
    CHECK_EQ(COST(&s, rv_sw(11, 8, 0)), 1);
    CHECK_EQ(COST(&s, rv_lw(10, 9, 0)), 21);
    CHECK_EQ(COST(&s, rv_lw(10, 15, 0)), 21);
    CHECK_EQ(COST(&s, rv_lbu(10, 9, 3)), 21);
    CHECK_EQ(COST(&s, rv_sw(11, 9, 0)), 1); /* posted */
    CHECK_EQ(COST(&s, rv_amoadd_w(10, 11, 8)), 1);
    CHECK_EQ(COST(&s, rv_lr_w(10, 8), rv_sc_w(12, 11, 8)), 2);
    CHECK_EQ(COST(&s, rv_amoadd_w(10, 11, 9)), 21);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 1)), 2);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 2)), 2);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 3)), 2);
    CHECK_EQ(COST(&s, rv_lh(10, 8, 1)), 1); /* inside a word */
    CHECK_EQ(COST(&s, rv_lh(10, 8, 3)), 2);
    CHECK_EQ(COST(&s, rv_lb(10, 8, 3)), 1);
    CHECK_EQ(COST(&s, rv_sw(11, 8, 1)), 2);
    CHECK_EQ(COST(&s, rv_sh(11, 8, 3)), 2);
    CHECK_EQ(COST(&s, rv_sh(11, 8, 1)), 1);
    CHECK_EQ(COST(&s, rv_lw(10, 9, 1)), 22);
    CHECK_EQ(COST(&s, rv_lw(10, 8, 1), rv_add(10, 10, 10)), 4); /* and the stall on top */
}

TEST(float_costs) {
    struct start s = start_with_pointers();
    s.with_float = true;
    CHECK_EQ(COST(&s, rv_fadd_s(1, 2, 3, RNE)), 1);
    CHECK_EQ(COST(&s, rv_fmul_s(1, 2, 3, RNE), rv_fmadd_s(1, 2, 3, 4, RNE)), 2);
    CHECK_EQ(COST(&s, rv_fdiv_s(1, 2, 3, RNE)), 6);
    CHECK_EQ(COST(&s, rv_fsqrt_s(1, 2, RNE)), 6);
    CHECK_EQ(COST(&s, rv_fmv_x_w(10, 1), rv_feq_s(10, 1, 2), rv_fcvt_w_s(10, 1, RNE)), 3);
    CHECK_EQ(COST(&s, rv_flw(1, 8, 0)), 1);
    CHECK_EQ(COST(&s, rv_flw(1, 9, 0), rv_fsw(1, 9, 4)), 22);
}

/* Lines of 16 B from the start of the code to `bytes` and what the core prefetches behind. */
static uint32_t lines_to(uint32_t bytes) {
    return (bytes + 8 + 15) / 16;
}

/* 16 cycles per line of 32 bytes, once. */
TEST(instruction_cache) {
    struct start s = {0};
    for (uint32_t nops = 0; nops < 64; nops++) {
        static struct program p;
        p.bytes = 0;
        for (uint32_t i = 0; i < nops; i++)
            put(&p, RV_NOP);
        put(&p, RV_RET);
        struct cost c = cost_of_program(&p, &s);
        CHECK_EQ(c.warm, nops + 2);
        CHECK_EQ(c.cold, c.warm + 8 * lines_to(p.bytes));
    }
    /* A jump over lines does not fetch them. */
    static struct program p;
    p.bytes = 0;
    put(&p, rv_jal(0, 1024));
    while (p.bytes < 1024)
        put(&p, C_NOP);
    put(&p, RV_RET);
    CHECK_EQ(cost_of_program(&p, &s).cold, 2 + 2 + 2 * 8);
    /* An instruction across two lines needs both. */
    p.bytes = 0;
    put(&p, rv_jal(0, 30));
    while (p.bytes < 30)
        put(&p, C_NOP);
    put(&p, RV_RET);
    CHECK_EQ(cost_of_program(&p, &s).cold, 2 + 2 + 3 * 8);
}

/* Larger than the cache (4 KiB, 4 ways, first in first out): a straight run of 8 KiB throws out its
 * own beginning, so a second run misses as often as the first. */
TEST(instruction_cache_evicts) {
    static struct program p;
    struct start s = {0};
    p.bytes = 0;
    while (p.bytes < 8188)
        put(&p, RV_NOP);
    put(&p, RV_RET);
    struct cost c = cost_of_program(&p, &s);
    CHECK_EQ(c.cold, 2047 + 2 + 513 * 8);
    CHECK_EQ(c.warm, c.cold);
    p.bytes = 0;
    while (p.bytes < 4084)
        put(&p, RV_NOP);
    put(&p, RV_RET);
    c = cost_of_program(&p, &s); /* exactly fits */
    CHECK_EQ(c.cold, 1021 + 2 + 256 * 8);
    CHECK_EQ(c.warm, 1021 + 2);
}

/* A handler that faults pays for what it fetched, no more: what is behind the prefetched bytes
 * stays out. */
TEST(a_fault_fetches_nothing_behind_it) {
    static struct program p;
    static struct machine m;
    for (uint32_t at = 0; at < 40; at++) {
        p.bytes = 0;
        for (uint32_t i = 0; i < 48; i++)
            put(&p, i == at ? rv_lw(10, 0, 0) : RV_NOP);
        put(&p, RV_RET);
        struct start s = {0};
        struct result r = run_program(&p, &s); /* stepping agrees */
        CHECK_EQ(r.fault, HPU_FAULT_SEGV);
        CHECK_EQ(r.cycles, at + 8 * lines_to(4 * at + 4));
        machine_open(&m, &p, HPU_TIMED, false);
        machine_begin(&m, &s);
        hpu_run(&m.hpu, ~0ull);
        CHECK_EQ(hpu_icache_misses(m.icache), lines_to(4 * at + 4));
        machine_close(&m);
    }
}

/* After a branch that is not taken the block may go on in instructions that were found first by
 * another way into the code; its lines count all the same. */
TEST(cold_lines_behind_a_hidden_branch) {
    static struct program p;
    struct start s = {.entry = 2};
    p.bytes = 0;
    put(&p, (rv_lui(10, 0) & 0xffff) | c_bnez(8, 6) << 16);
    while (p.bytes < 200)
        put(&p, RV_NOP);
    put(&p, RV_RET);
    struct cost c = cost_of_program(&p, &s);
    CHECK_EQ(c.warm, 1 + 49 + 2);
    CHECK_EQ(c.cold, c.warm + 14 * 8);
}

/* Two HPUs of a cluster share the cache: the second finds what the first has fetched, and waits for
 * what is on its way. */
TEST(instruction_cache_is_the_clusters) {
    static struct program p;
    static struct machine a;
    struct hpu b;
    struct start s = {0};
    p.bytes = 0;
    for (uint32_t i = 0; i < 20; i++)
        put(&p, RV_NOP);
    put(&p, RV_RET);
    machine_open(&a, &p, HPU_TIMED, false);
    machine_begin(&a, &s);
    CHECK_EQ(hpu_run(&a.hpu, ~0ull), HPU_DONE);
    CHECK_EQ(a.hpu.cycles, 22 + 6 * 8);
    hpu_init(&b, a.code, 4);
    b.icache = a.icache;
    b.cycles = 4; /* the first line comes in cycle 8 */
    hpu_start(&b, CODE_BASE, DATA_BASE, 1000);
    CHECK_EQ(hpu_run(&b, ~0ull), HPU_DONE);
    CHECK_EQ(b.cycles, a.hpu.cycles);
    CHECK_EQ(hpu_icache_misses(a.icache), 6);
    b.cycles = a.hpu.cycles;
    hpu_start(&b, CODE_BASE, DATA_BASE, 1000);
    CHECK_EQ(hpu_run(&b, ~0ull), HPU_DONE);
    CHECK_EQ(b.cycles, a.hpu.cycles + 22);
    hpu_icache_clear(a.icache);
    b.cycles = 0;
    hpu_start(&b, CODE_BASE, DATA_BASE, 1000);
    CHECK_EQ(hpu_run(&b, ~0ull), HPU_DONE);
    CHECK_EQ(b.cycles, 22 + 6 * 8);
    CHECK_EQ(hpu_icache_misses(a.icache), 6);
    machine_close(&a);
}

/* A second core wants a line that the first has asked for in cycle 3 and that comes in cycle 8. It
 * asks three cycles after it looked the line up: before the line comes it is served with it, with
 * the line or a cycle later it is told to look again, still later it has it fetched again. */
TEST(a_request_for_a_line_that_comes) {
    static const struct {
        uint64_t start, end;
    } rows[] = {{0, 10}, {4, 10}, {5, 11}, {6, 12}, {7, 17}, {8, 10}, {20, 22}};
    static struct program p;
    struct start s = {0};
    p.bytes = 0;
    put(&p, RV_RET);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static struct machine a;
        struct hpu b;
        machine_open(&a, &p, HPU_TIMED, false);
        machine_begin(&a, &s);
        CHECK_EQ(hpu_run(&a.hpu, ~0ull), HPU_DONE);
        CHECK_EQ(a.hpu.cycles, 10);
        hpu_init(&b, a.code, 4);
        b.icache = a.icache;
        b.cycles = rows[i].start;
        hpu_start(&b, CODE_BASE, DATA_BASE, 1000);
        CHECK_EQ(hpu_run(&b, ~0ull), HPU_DONE);
        CHECK_EQ(b.cycles, rows[i].end);
        machine_close(&a);
    }
}

/* Programs of a cluster share its cache: five whose only line is of the same set, and four ways. */
TEST(programs_evict_each_other) {
    static struct program p;
    static struct machine m;
    struct start s = {0};
    struct hpu_icache *own, *view[5];
    p.bytes = 0;
    put(&p, RV_RET);
    machine_open(&m, &p, HPU_TIMED, false);
    own = m.icache;
    for (uint32_t i = 0; i < 5; i++) {
        view[i] = hpu_icache_new(m.code, own, i * 1024);
        CHECK(view[i]);
    }
    static const uint8_t order[] = {0, 1, 2, 3, 0, 4, 0, 4};
    static const uint8_t cycles[] = {10, 10, 10, 10, 2, 10, 10, 2};
    for (uint32_t i = 0; i < sizeof order; i++) {
        m.hpu.icache = view[order[i]];
        machine_begin(&m, &s);
        CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
        CHECK_EQ(m.hpu.cycles, cycles[i]);
    }
    CHECK_EQ(hpu_icache_misses(own), 6);
    for (uint32_t i = 0; i < 5; i++)
        hpu_icache_free(view[i]);
    m.hpu.icache = own;
    machine_close(&m);
}

/* Measured on the RTL (pspin: cycle counts of the RTL): the empty handler, 4 instructions in 5
 * cycles (the lowest and the median), 16 more when cold (21 at most). */
TEST(empty_handler_of_the_rtl) {
    static struct program p;
    struct start s = start_with_pointers();
    p.bytes = 0;
    put(&p, rv_addi(2, 2, -16));
    put(&p, rv_sw(10, 2, 12));
    put(&p, rv_addi(2, 2, 16));
    put(&p, RV_RET);
    struct cost c = cost_of_program(&p, &s);
    CHECK_EQ(c.instructions, 4);
    CHECK_EQ(c.warm, 5);
    CHECK_EQ(c.cold, 21);
}

/* The reduce handler: 249 words, 5 instructions per word with a load and an amoadd, 1,267
 * instructions in 2,013 to 2,052 cycles, median 2,016: 8 per word and about 24 around the loop. */
TEST(reduce_loop_of_the_rtl) {
    static struct program p;
    struct start s = start_with_pointers();
    s.x[10] = DATA_BASE + 16;           /* the words */
    s.x[12] = DATA_BASE + 16 + 249 * 4; /* their end */
    s.x[13] = DATA_BASE;                /* the sums, one per word on the card */
    CHECK(16 + 249 * 4 <= DATA_BYTES);
    p.bytes = 0;
    put(&p, rv_lw(14, 10, 0)); /* as gcc orders them: the amoadd waits for its load */
    put(&p, rv_amoadd_w(0, 14, 13));
    put(&p, rv_addi(10, 10, 4));
    put(&p, rv_addi(16, 16, 4));
    put(&p, rv_bne(10, 12, -16));
    put(&p, RV_RET);
    struct cost c = cost_of_program(&p, &s);
    CHECK_EQ(c.instructions, 249 * 5 + 1);
    CHECK_EQ(c.warm, 249 * 8 - 2 + 2); /* the last branch is not taken: 2 less; ret: 2 */
}

TEST(the_table_of_cores) {
    CHECK(hpu_timing_find("ri5cy") == &hpu_timing_ri5cy);
    CHECK(hpu_timing_find("unit") == &hpu_timing_unit);
    CHECK(hpu_timing_find("none") == NULL);
    unsigned cores = 0;
    while (hpu_timing_name(cores)) {
        const struct hpu_timing *t = hpu_timing_find(hpu_timing_name(cores));
        CHECK(t);
        for (int i = 0; i < HPU_TIME_CLASSES; i++)
            CHECK(t->cycles[i] >= 1); /* else a loop could stand still */
        cores++;
    }
    CHECK_EQ(cores, 3);
}

TEST_MAIN
