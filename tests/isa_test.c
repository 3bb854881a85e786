/* Every integer instruction: results, corners, faults. All programs run functional and timed, at
 * once and stepped (lib/test_machine.h). Expected values are the manual's, written out. */
#include "lib/test_machine.h"

typedef uint32_t (*encode_rr)(uint32_t rd, uint32_t rs1, uint32_t rs2);
typedef uint32_t (*encode_ri)(uint32_t rd, uint32_t rs1, int32_t imm);

#define MIN 0x80000000u
#define MAX 0x7fffffffu
#define ALL 0xffffffffu

static struct result run_words(const struct start *s, uint32_t count, const uint32_t *insn) {
    static struct program p;
    p.bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        put(&p, insn[i]);
    return run_program(&p, s);
}
#define RUN_INSNS(start, ...)                                                                      \
    run_words(start, sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})

/* Ends well, with one value in a0. */
#define CHECK_A0(start, value, ...)                                                                \
    do {                                                                                           \
        struct result r_ = RUN_INSNS(start, __VA_ARGS__, RV_RET);                                  \
        CHECK_EQ(r_.stop, HPU_DONE);                                                               \
        CHECK_EQ(r_.x[10], value);                                                                 \
    } while (0)

#define CHECK_FAULT(start, kind, where, at, ...)                                                   \
    do {                                                                                           \
        struct result r_ = RUN_INSNS(start, __VA_ARGS__);                                          \
        CHECK_EQ(r_.stop, HPU_FAULTED);                                                            \
        CHECK_EQ(r_.fault, HPU_FAULT_##kind);                                                      \
        CHECK_EQ(r_.fault_address, where);                                                         \
        CHECK_EQ(r_.pc, at);                                                                       \
    } while (0)

static const struct {
    const char *name;
    encode_rr encode;
    uint32_t a, b, want;
} register_rows[] = {
    {"add", rv_add, 1, 2, 3},
    {"add", rv_add, ALL, 1, 0},
    {"add", rv_add, MAX, 1, MIN},
    {"sub", rv_sub, 1, 2, ALL},
    {"sub", rv_sub, MIN, 1, MAX},
    {"sub", rv_sub, 0, MIN, MIN},
    {"sll", rv_sll, 1, 31, MIN},
    {"sll", rv_sll, 0x12345678, 32, 0x12345678}, /* only the low 5 bits count */
    {"sll", rv_sll, 3, ALL, MIN},
    {"sll", rv_sll, 1, 0x80000004, 16},
    {"srl", rv_srl, MIN, 31, 1},
    {"srl", rv_srl, MIN, 32, MIN},
    {"srl", rv_srl, ALL, 0xffffffe1, MAX},
    {"sra", rv_sra, MIN, 31, ALL},
    {"sra", rv_sra, MAX, 31, 0},
    {"sra", rv_sra, MIN, 33, 0xc0000000},
    {"sra", rv_sra, 0x80000001, 32, 0x80000001},
    {"slt", rv_slt, MIN, MAX, 1},
    {"slt", rv_slt, MAX, MIN, 0},
    {"slt", rv_slt, 5, 5, 0},
    {"slt", rv_slt, ALL, 0, 1},
    {"sltu", rv_sltu, MIN, MAX, 0},
    {"sltu", rv_sltu, 0, ALL, 1},
    {"sltu", rv_sltu, ALL, ALL, 0},
    {"sltu", rv_sltu, 0, 1, 1},
    {"xor", rv_xor, 0xf0f0f0f0, 0xff00ff00, 0x0ff00ff0},
    {"or", rv_or, 0xf0f0f0f0, 0xff00ff00, 0xfff0fff0},
    {"and", rv_and, 0xf0f0f0f0, 0xff00ff00, 0xf000f000},
    {"mul", rv_mul, 0x10000, 0x10000, 0},
    {"mul", rv_mul, ALL, ALL, 1},
    {"mul", rv_mul, MIN, ALL, MIN},
    {"mul", rv_mul, 12345, 54321, 670592745},
    {"mulh", rv_mulh, MIN, MIN, 0x40000000},
    {"mulh", rv_mulh, ALL, ALL, 0},
    {"mulh", rv_mulh, MIN, MAX, 0xc0000000},
    {"mulh", rv_mulh, ALL, 1, ALL},
    {"mulhu", rv_mulhu, ALL, ALL, 0xfffffffe},
    {"mulhu", rv_mulhu, MIN, MIN, 0x40000000},
    {"mulhu", rv_mulhu, 0x10000, 0x10000, 1},
    {"mulhsu", rv_mulhsu, ALL, ALL, ALL},        /* -1 * (2^32 - 1) */
    {"mulhsu", rv_mulhsu, MIN, ALL, 0x80000000}, /* -2^31 * (2^32 - 1): high half -2^31 */
    {"mulhsu", rv_mulhsu, MAX, ALL, 0x7ffffffe},
    {"mulhsu", rv_mulhsu, MIN, MIN, 0xc0000000},
    {"div", rv_div, 7, 2, 3},
    {"div", rv_div, (uint32_t)-7, 2, (uint32_t)-3},
    {"div", rv_div, 7, (uint32_t)-2, (uint32_t)-3},
    {"div", rv_div, 5, 0, ALL},
    {"div", rv_div, MIN, 0, ALL},
    {"div", rv_div, 0, 0, ALL},
    {"div", rv_div, MIN, ALL, MIN}, /* overflow */
    {"div", rv_div, MAX, ALL, 0x80000001},
    {"div", rv_div, MIN, 1, MIN},
    {"divu", rv_divu, ALL, 2, MAX},
    {"divu", rv_divu, MIN, ALL, 0},
    {"divu", rv_divu, 5, 0, ALL},
    {"rem", rv_rem, 7, 2, 1},
    {"rem", rv_rem, (uint32_t)-7, 2, ALL}, /* the dividend's sign */
    {"rem", rv_rem, 7, (uint32_t)-2, 1},
    {"rem", rv_rem, 5, 0, 5},
    {"rem", rv_rem, MIN, 0, MIN},
    {"rem", rv_rem, MIN, ALL, 0},
    {"remu", rv_remu, ALL, 16, 15},
    {"remu", rv_remu, MIN, ALL, MIN},
    {"remu", rv_remu, 7, 0, 7},
};

TEST(register_operations) {
    for (size_t i = 0; i < sizeof register_rows / sizeof register_rows[0]; i++) {
        struct start s = {.x[11] = register_rows[i].a, .x[12] = register_rows[i].b};
        struct result r = RUN_INSNS(&s, register_rows[i].encode(10, 11, 12), RV_RET);
        if (r.stop != HPU_DONE || r.x[10] != register_rows[i].want)
            TEST_FAIL("%s 0x%x, 0x%x gives 0x%x, expected 0x%x", register_rows[i].name,
                      register_rows[i].a, register_rows[i].b, r.x[10], register_rows[i].want);
        CHECK_EQ(r.instret, 2);
        /* The operands survive; the destination may be either of them, or x0. */
        CHECK_EQ(r.x[11], register_rows[i].a);
        CHECK_EQ(r.x[12], register_rows[i].b);
        r = RUN_INSNS(&s, register_rows[i].encode(11, 11, 12), RV_RET);
        CHECK_EQ(r.x[11], register_rows[i].want);
        r = RUN_INSNS(&s, register_rows[i].encode(12, 11, 12), RV_RET);
        CHECK_EQ(r.x[12], register_rows[i].want);
        r = RUN_INSNS(&s, register_rows[i].encode(0, 11, 12), rv_add(10, 0, 0), RV_RET);
        CHECK_EQ(r.x[10], 0);
        CHECK_EQ(r.x[0], 0);
        /* In front of and behind its like: what the interpreter may run as a pair. */
        r = RUN_INSNS(&s, register_rows[i].encode(13, 11, 12), register_rows[i].encode(10, 11, 12),
                      rv_xor(14, 13, 10), RV_RET);
        CHECK_EQ(r.x[13], register_rows[i].want);
        CHECK_EQ(r.x[14], 0);
    }
}

static const struct {
    const char *name;
    encode_ri encode;
    uint32_t a;
    int32_t imm;
    uint32_t want;
} immediate_rows[] = {
    {"addi", rv_addi, 5, 2047, 2052},
    {"addi", rv_addi, 5, -2048, (uint32_t)-2043},
    {"addi", rv_addi, MAX, 1, MIN},
    {"addi", rv_addi, 0, -1, ALL},
    {"slti", rv_slti, MIN, -2048, 1},
    {"slti", rv_slti, MAX, 2047, 0},
    {"slti", rv_slti, (uint32_t)-2048, -2048, 0},
    {"slti", rv_slti, (uint32_t)-2049, -2048, 1},
    {"sltiu", rv_sltiu, 0, 1, 1},
    {"sltiu", rv_sltiu, 0, -1, 1}, /* the constant is sign-extended, then unsigned */
    {"sltiu", rv_sltiu, ALL, -1, 0},
    {"sltiu", rv_sltiu, 0xfffff7ff, -2048, 1},
    {"xori", rv_xori, 0x12345678, -1, 0xedcba987},
    {"xori", rv_xori, 0x12345678, 2047, 0x12345187},
    {"ori", rv_ori, 0x12345678, -2048, 0xfffffe78},
    {"ori", rv_ori, 0, 2047, 2047},
    {"andi", rv_andi, ALL, -2048, 0xfffff800},
    {"andi", rv_andi, ALL, 2047, 2047},
    {"slli", rv_slli, 1, 31, MIN},
    {"slli", rv_slli, 0x12345678, 0, 0x12345678},
    {"slli", rv_slli, ALL, 16, 0xffff0000},
    {"srli", rv_srli, MIN, 31, 1},
    {"srli", rv_srli, ALL, 1, MAX},
    {"srli", rv_srli, MIN, 0, MIN},
    {"srai", rv_srai, MIN, 31, ALL},
    {"srai", rv_srai, MAX, 30, 1},
    {"srai", rv_srai, MIN, 0, MIN},
};

TEST(immediate_operations) {
    for (size_t i = 0; i < sizeof immediate_rows / sizeof immediate_rows[0]; i++) {
        struct start s = {.x[11] = immediate_rows[i].a};
        encode_ri encode = immediate_rows[i].encode;
        int32_t imm = immediate_rows[i].imm;
        struct result r = RUN_INSNS(&s, encode(10, 11, imm), RV_RET);
        if (r.stop != HPU_DONE || r.x[10] != immediate_rows[i].want)
            TEST_FAIL("%s 0x%x, %d gives 0x%x, expected 0x%x", immediate_rows[i].name,
                      immediate_rows[i].a, imm, r.x[10], immediate_rows[i].want);
        CHECK_EQ(r.x[11], immediate_rows[i].a);
        r = RUN_INSNS(&s, encode(11, 11, imm), RV_RET);
        CHECK_EQ(r.x[11], immediate_rows[i].want);
        r = RUN_INSNS(&s, encode(0, 11, imm), rv_addi(10, 0, 0), RV_RET);
        CHECK_EQ(r.x[10], 0);
        r = RUN_INSNS(&s, encode(13, 11, imm), encode(10, 11, imm), rv_xor(14, 13, 10), RV_RET);
        CHECK_EQ(r.x[13], immediate_rows[i].want);
        CHECK_EQ(r.x[14], 0);
    }
}

TEST(upper_immediates) {
    struct start s = {0};
    CHECK_A0(&s, 0xfffff000, rv_lui(10, 0xfffff000));
    CHECK_A0(&s, 0x00001000, rv_lui(10, 0x1000));
    CHECK_A0(&s, 0, rv_lui(0, 0x1000), rv_addi(10, 0, 0));
    CHECK_A0(&s, CODE_BASE, rv_auipc(10, 0));
    CHECK_A0(&s, CODE_BASE + 4, RV_NOP, rv_auipc(10, 0));
    CHECK_A0(&s, CODE_BASE + 2, C_NOP, rv_auipc(10, 0));
    CHECK_A0(&s, CODE_BASE - 0x1000, rv_auipc(10, 0xfffff000)); /* wraps */
    CHECK_A0(&s, CODE_BASE + 0x80000000u, rv_auipc(10, 0x80000000));
    CHECK_A0(&s, 0, rv_auipc(0, 0x1000), rv_addi(10, 0, 0));
}

static struct start with_data(void) {
    struct start s = {.x[11] = DATA_BASE + 512};
    for (uint32_t i = 0; i < DATA_BYTES; i++)
        s.data[i] = (uint8_t)(i * 37 + (i >> 4) + 0x7b);
    return s;
}

TEST(loads_of_every_width_and_alignment) {
    static const struct {
        const char *name;
        encode_ri encode;
        uint32_t bytes;
        bool is_signed;
    } loads[] = {{"lb", rv_lb, 1, true},
                 {"lh", rv_lh, 2, true},
                 {"lw", rv_lw, 4, true},
                 {"lbu", rv_lbu, 1, false},
                 {"lhu", rv_lhu, 2, false}};
    struct start s = with_data();
    for (size_t k = 0; k < sizeof loads / sizeof loads[0]; k++)
        for (int32_t offset = -17; offset < 17; offset++) {
            int64_t want = 0;
            for (uint32_t i = 0; i < loads[k].bytes; i++)
                want |= (int64_t)s.data[512 + offset + (int32_t)i] << 8 * i;
            if (loads[k].is_signed && want >> (8 * loads[k].bytes - 1))
                want -= 1ll << 8 * loads[k].bytes;
            struct result r = RUN_INSNS(&s, loads[k].encode(10, 11, offset), RV_RET);
            if (r.stop != HPU_DONE || r.x[10] != (uint32_t)want)
                TEST_FAIL("%s at %d gives 0x%x, expected 0x%x", loads[k].name, offset, r.x[10],
                          (uint32_t)want);
            r = RUN_INSNS(&s, loads[k].encode(11, 11, offset), RV_RET); /* over its own base */
            CHECK_EQ(r.x[11], (uint32_t)want);
            CHECK_A0(&s, 0, loads[k].encode(0, 11, offset), rv_addi(10, 0, 0));
        }
    /* Both ends of the immediate. */
    s.x[11] = DATA_BASE + 2048;
    CHECK_A0(&s, s.data[0], rv_lbu(10, 11, -2048));
    s.x[11] = DATA_BASE - 2047;
    CHECK_A0(&s, s.data[0], rv_lbu(10, 11, 2047));
    /* The sum of base and offset wraps at 2^32. */
    s.x[11] = 4;
    s.x[12] = DATA_BASE - 0x10010000u - 8;
    CHECK_A0(&s, s.data[4] | (uint32_t)s.data[5] << 8, rv_lui(13, 0x10010000), rv_add(13, 13, 12),
             rv_add(13, 13, 11), rv_lhu(10, 13, 8));
}

TEST(stores_of_every_width_and_alignment) {
    static const struct {
        const char *name;
        encode_ri encode; /* value, base, offset */
        uint32_t bytes;
    } stores[] = {{"sb", rv_sb, 1}, {"sh", rv_sh, 2}, {"sw", rv_sw, 4}};
    struct start s = with_data();
    s.x[12] = 0xdeadbeef;
    for (size_t k = 0; k < sizeof stores / sizeof stores[0]; k++)
        for (int32_t offset = -17; offset < 17; offset++) {
            struct result r = RUN_INSNS(&s, stores[k].encode(12, 11, offset), RV_RET);
            CHECK_EQ(r.stop, HPU_DONE);
            for (int32_t i = 0; i < (int32_t)DATA_BYTES; i++) {
                uint32_t inside = (uint32_t)(i - 512 - offset);
                uint8_t want =
                    inside < stores[k].bytes ? (uint8_t)(0xdeadbeefu >> 8 * inside) : s.data[i];
                if (r.data[i] != want)
                    TEST_FAIL("%s at %d: byte %d is 0x%x, expected 0x%x", stores[k].name, offset, i,
                              r.data[i], want);
            }
        }
    struct result r = RUN_INSNS(&s, rv_sw(0, 11, 0), RV_RET); /* x0 as the value */
    CHECK_EQ(r.data[512] | r.data[513] | r.data[514] | r.data[515], 0);
    s.x[11] = DATA_BASE + 2048;
    r = RUN_INSNS(&s, rv_sb(12, 11, -2048), RV_RET);
    CHECK_EQ(r.data[0], 0xef);
    s.x[11] = DATA_BASE - 2047;
    r = RUN_INSNS(&s, rv_sb(12, 11, 2047), RV_RET);
    CHECK_EQ(r.data[0], 0xef);
    /* A store, then a load of the same place, also as a pair. */
    s.x[11] = DATA_BASE + 5;
    CHECK_A0(&s, 0xdeadbeef, rv_sw(12, 11, 0), rv_lw(10, 11, 0));
    CHECK_A0(&s, 0xffffffbe, rv_sw(12, 11, 0), rv_lb(10, 11, 1));
}

TEST(branches) {
    static const uint32_t values[] = {0, 1, MAX, MIN, ALL, 0x80000001};
    static const struct {
        const char *name;
        encode_ri encode;
    } branches[] = {{"beq", rv_beq}, {"bne", rv_bne},   {"blt", rv_blt},
                    {"bge", rv_bge}, {"bltu", rv_bltu}, {"bgeu", rv_bgeu}};
    for (size_t k = 0; k < 6; k++)
        for (size_t i = 0; i < 6; i++)
            for (size_t j = 0; j < 6; j++) {
                uint32_t a = values[i], b = values[j];
                bool less = k < 4 ? (int64_t)(int32_t)a - (int32_t)b < 0 : (int64_t)a - b < 0;
                bool want = k == 0 ? a == b : k == 1 ? a != b : k % 2 ? !less : less;
                struct start s = {.x[11] = a, .x[12] = b};
                struct result r = RUN_INSNS(&s, branches[k].encode(11, 12, 8), rv_addi(10, 10, 1),
                                            rv_addi(10, 10, 2), RV_RET);
                if (r.stop != HPU_DONE || r.x[10] != (want ? 2u : 3u))
                    TEST_FAIL("%s 0x%x, 0x%x: a0 is %u", branches[k].name, a, b, r.x[10]);
                CHECK_EQ(r.instret, want ? 3 : 4);
                /* Behind an instruction that it may be paired with; against itself; against x0. */
                CHECK_A0(&s, want ? 8 : 9, rv_addi(10, 0, 8), branches[k].encode(11, 12, 8),
                         rv_addi(10, 10, 1));
                CHECK_A0(&s, k == 0 || k == 3 || k == 5 ? 0 : 1, branches[k].encode(11, 11, 8),
                         rv_addi(10, 10, 1));
                CHECK_A0(&s, k == 0 || k == 3 || k == 5 ? 0 : 1, branches[k].encode(0, 0, 8),
                         rv_addi(10, 10, 1));
            }
    /* Backwards: a loop of five turns. */
    struct start s = {.x[11] = 5};
    CHECK_A0(&s, 15, rv_add(10, 10, 11), rv_addi(11, 11, -1), rv_bne(11, 0, -8));
    CHECK_A0(&s, 5, rv_addi(10, 10, 1), rv_blt(10, 11, -4));
}

/* A program of `bytes` bytes of nops with single instructions set at places. */
static struct program wide;
static void wide_clear(uint32_t bytes) {
    wide.bytes = 0;
    while (wide.bytes < bytes)
        put16(&wide, C_NOP);
}
static void wide_set(uint32_t at, uint32_t insn) {
    wide.byte[at] = (uint8_t)insn, wide.byte[at + 1] = (uint8_t)(insn >> 8);
    if ((insn & 3) == 3)
        wide.byte[at + 2] = (uint8_t)(insn >> 16), wide.byte[at + 3] = (uint8_t)(insn >> 24);
}

TEST(branch_and_jump_ranges) {
    struct start s = {.entry = 8192};
    static const int32_t branch_ends[] = {4094, -4096, 2, -2, 2048, -2048};
    for (size_t i = 0; i < 6; i++) {
        uint32_t target = 8192u + (uint32_t)branch_ends[i];
        wide_clear(16384);
        wide_set(8192, rv_beq(0, 0, branch_ends[i]));
        if (branch_ends[i] == 2 || branch_ends[i] == -2)
            continue; /* its target is inside itself: see jump_into_the_middle */
        wide_set(target, RV_RET);
        struct result r = run_program(&wide, &s);
        CHECK_EQ(r.stop, HPU_DONE);
        CHECK_EQ(r.instret, 2);
    }
    static const int32_t jump_ends[] = {8190, -8192, 24572, 2048, -2048, 4096};
    for (size_t i = 0; i < 6; i++) {
        wide_clear(32768);
        wide_set(8192, rv_jal(5, jump_ends[i]));
        wide_set(8192u + (uint32_t)jump_ends[i], RV_RET);
        struct result r = run_program(&wide, &s);
        CHECK_EQ(r.stop, HPU_DONE);
        CHECK_EQ(r.instret, 2);
        CHECK_EQ(r.x[5], CODE_BASE + 8196);
    }
    static const struct {
        int32_t branch, jump;
    } short_ends[] = {{254, 2046}, {-256, -2048}, {4, 4}, {-4, -4}, {128, 1024}};
    for (size_t i = 0; i < 5; i++) {
        wide_clear(16384);
        wide_set(8192, c_beqz(8, short_ends[i].branch));
        wide_set(8192u + (uint32_t)short_ends[i].branch, RV_RET);
        CHECK_EQ(run_program(&wide, &s).instret, 2);
        wide_clear(16384);
        wide_set(8192, c_j(short_ends[i].jump));
        wide_set(8192u + (uint32_t)short_ends[i].jump, RV_RET);
        CHECK_EQ(run_program(&wide, &s).instret, 2);
        wide_clear(16384);
        wide_set(8192, c_jal(short_ends[i].jump));
        wide_set(8192u + (uint32_t)short_ends[i].jump, RV_EBREAK);
        struct result r = run_program(&wide, &s);
        CHECK_EQ(r.fault, HPU_FAULT_CHECK);
        CHECK_EQ(r.x[1], CODE_BASE + 8194);
    }
}

TEST(jump_links_and_targets) {
    struct start s = {.x[11] = CODE_BASE + 8};
    /* jal: link after 4 bytes; x0: none. */
    CHECK_A0(&s, CODE_BASE + 4, rv_jal(10, 8), RV_EBREAK);
    CHECK_A0(&s, 0, rv_jal(0, 8), RV_EBREAK, rv_addi(10, 0, 0));
    /* jalr: link after 4 bytes, target may be its own link register, bit 0 is cleared. */
    CHECK_A0(&s, CODE_BASE + 4, rv_jalr(10, 11, 0), RV_EBREAK);
    CHECK_A0(&s, CODE_BASE + 4, rv_jalr(10, 11, 1), RV_EBREAK);
    s.x[11]++;
    CHECK_A0(&s, CODE_BASE + 4, rv_jalr(11, 11, 0), RV_EBREAK, rv_addi(10, 11, 0));
    CHECK_A0(&s, 7, rv_jalr(0, 11, 2), RV_EBREAK, C_EBREAK, rv_addi(10, 0, 7));
    s.x[11] = CODE_BASE + 2048 + 8;
    CHECK_A0(&s, 7, rv_jalr(0, 11, -2048), RV_EBREAK, rv_addi(10, 0, 7));
    s.x[11] = CODE_BASE - 2047 + 8;
    CHECK_A0(&s, 7, rv_jalr(0, 11, 2047), RV_EBREAK, rv_addi(10, 0, 7));
    /* Compressed: link after 2 bytes. */
    s.x[11] = CODE_BASE + 6;
    CHECK_FAULT(&s, CHECK, CODE_BASE + 6, CODE_BASE + 6, c_jalr(11), RV_NOP, RV_EBREAK);
    CHECK_EQ(RUN_INSNS(&s, c_jalr(11), RV_NOP, RV_EBREAK).x[1], CODE_BASE + 2);
    CHECK_EQ(RUN_INSNS(&s, c_jal(6), RV_NOP, RV_EBREAK).x[1], CODE_BASE + 2);
    CHECK_A0(&s, 3, c_jr(11), RV_EBREAK, rv_addi(10, 0, 3));
    /* A call and its return. */
    CHECK_A0(&s, 5, rv_addi(9, 1, 0), rv_jal(1, 12), rv_addi(1, 9, 0), rv_jal(0, 12),
             rv_addi(10, 0, 5), RV_RET);
}

TEST(jumps_outside_the_program) {
    struct start s = {.x[11] = CODE_BASE + 0x8000, .x[12] = 1};
    CHECK_FAULT(&s, SEGV, CODE_BASE + 8, CODE_BASE + 8, rv_jal(5, 8), RV_NOP);
    CHECK_EQ(RUN_INSNS(&s, rv_jal(5, 8), RV_NOP).x[5], CODE_BASE + 4); /* the jump was done */
    CHECK_EQ(RUN_INSNS(&s, rv_jal(5, 8), RV_NOP).instret, 1);
    CHECK_FAULT(&s, SEGV, CODE_BASE - 2, CODE_BASE - 2, rv_jal(0, -2));
    CHECK_FAULT(&s, SEGV, CODE_BASE + 0xffffe, CODE_BASE + 0xffffe, rv_jal(0, 0xffffe));
    CHECK_FAULT(&s, SEGV, CODE_BASE - 0x100000, CODE_BASE - 0x100000, rv_jal(0, -0x100000));
    CHECK_FAULT(&s, SEGV, CODE_BASE - 2046, CODE_BASE - 2046, C_NOP, c_j(-2048));
    CHECK_FAULT(&s, SEGV, CODE_BASE + 2046, CODE_BASE + 2046, c_jal(2046));
    CHECK_FAULT(&s, SEGV, CODE_BASE + 0x8000, CODE_BASE + 0x8000, rv_jalr(5, 11, 0));
    CHECK_FAULT(&s, SEGV, 0, 0, rv_jalr(0, 0, 0));
    CHECK_FAULT(&s, SEGV, 0xfffff800, 0xfffff800, rv_jalr(0, 0, -2048));
    /* Branches that lead outside: only when taken. */
    CHECK_FAULT(&s, SEGV, CODE_BASE - 4096, CODE_BASE - 4096, rv_bne(12, 0, -4096));
    CHECK_FAULT(&s, SEGV, CODE_BASE + 4094, CODE_BASE + 4094, rv_bltu(0, 12, 4094));
    static const encode_ri branch[] = {rv_beq, rv_bne, rv_blt, rv_bge, rv_bltu, rv_bgeu};
    for (int i = 0; i < 6; i++) {
        bool with_equal = i == 0 || i == 3 || i == 5;
        CHECK_FAULT(&s, SEGV, CODE_BASE - 64, CODE_BASE - 64,
                    branch[i](with_equal ? 12
                              : i == 1   ? 11
                                         : 0,
                              12, -64),
                    RV_RET);
        CHECK_A0(&s, 9, branch[i](12, with_equal ? (i == 0 ? 0 : 11) : 12, -64), rv_addi(10, 0, 9));
    }
    CHECK_FAULT(&s, SEGV, CODE_BASE - 256, CODE_BASE - 256, c_beqz(8, -256));
    /* Where `ret` of a handler leads is no address of a program, but reaches it by any jump. */
    struct start to_return = {.x[11] = MAP_RETURN + 1};
    CHECK_EQ(RUN_INSNS(&to_return, rv_jalr(5, 11, 0)).stop, HPU_DONE);
    CHECK_EQ(RUN_INSNS(&to_return, c_jr(11)).stop, HPU_DONE);
}

TEST(entry_outside_the_program) {
    static const uint32_t entries[] = {4, 6, 1, 3, 0x8000, 0x80000000u, (uint32_t)-2};
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        struct start s = {.entry = entries[i]};
        CHECK_FAULT(&s, SEGV, CODE_BASE + entries[i], CODE_BASE + entries[i], RV_NOP);
        CHECK_EQ(RUN_INSNS(&s, RV_NOP).instret, 0);
    }
}

TEST(running_off_the_end) {
    struct start s = {0};
    CHECK_FAULT(&s, SEGV, CODE_BASE + 4, CODE_BASE + 4, RV_NOP);
    CHECK_EQ(RUN_INSNS(&s, RV_NOP).instret, 1);
    CHECK_FAULT(&s, SEGV, CODE_BASE + 2, CODE_BASE + 2, C_NOP);
    CHECK_FAULT(&s, SEGV, CODE_BASE + 4, CODE_BASE + 4, rv_bne(0, 0, 4)); /* not taken */
    CHECK_FAULT(&s, SEGV, CODE_BASE + 4, CODE_BASE + 4, rv_bne(0, 0, -4));
    CHECK_FAULT(&s, SEGV, CODE_BASE + 4, CODE_BASE + 4, rv_csrrs(5, 0xf14, 0));
    CHECK_FAULT(&s, SEGV, CODE_BASE + 8, CODE_BASE + 8, RV_NOP, rv_lw(5, 2, -4));
    /* The last halfword is the first of a 4-byte instruction. */
    struct program p = {0};
    put16(&p, C_NOP);
    put16(&p, RV_NOP & 0xffff);
    struct result r = run_program(&p, &s);
    CHECK_EQ(r.fault, HPU_FAULT_SEGV);
    CHECK_EQ(r.pc, CODE_BASE + 2);
    CHECK_EQ(r.instret, 1);
    p.bytes = 0; /* nothing at all */
    CHECK_EQ(run_program(&p, &s).fault, HPU_FAULT_SEGV);
    put32(&p, RV_NOP);
    p.bytes = 3; /* an odd byte at the end is no code */
    CHECK_EQ(run_program(&p, &s).fault, HPU_FAULT_SEGV);
}

TEST(jump_into_the_middle_of_an_instruction) {
    /* lui a0 with c.li a1, 7 and then c.jr ra in its upper half */
    uint32_t hidden = c_jr(1) << 16 | (rv_lui(10, 0) & 0xffff);
    struct start s = {0};
    CHECK_A0(&s, 0, rv_jal(0, 6), hidden);
    CHECK_EQ(RUN_INSNS(&s, rv_jal(0, 6), hidden).instret, 2);
    /* The hidden instruction goes on into the second of two: chains of instructions that overlap
     * and meet again. */
    uint32_t first = (rv_lui(10, 0) & 0xffff) | (c_li(11, 7) << 16);
    CHECK_A0(&s, 8, rv_jal(0, 6), first, rv_addi(10, 11, 1));
    CHECK_A0(&s, (first & 0xfffff000) + 1, first, rv_addi(10, 10, 1));
    /* A branch as the hidden instruction, not taken: goes on in the chain that it meets. */
    uint32_t branch = (rv_lui(10, 0) & 0xffff) | (c_bnez(8, 6) << 16);
    CHECK_A0(&s, 3, rv_jal(0, 6), branch, rv_addi(10, 0, 1), rv_addi(10, 10, 2));
    s.x[8] = 1; /* taken */
    CHECK_A0(&s, 2, rv_jal(0, 6), branch, rv_addi(10, 0, 1), rv_addi(10, 10, 2));
    /* A 4-byte instruction that starts in the middle of one and ends in the middle of the next. */
    uint32_t low = (rv_lui(12, 0) & 0xffff) | (rv_addi(10, 0, 5) & 0xffff) << 16;
    uint32_t high = rv_addi(10, 0, 5) >> 16 | c_jr(1) << 16;
    CHECK_A0(&s, 5, rv_jal(0, 6), low, high);
}

TEST(control_registers) {
    struct start s = {.x[11] = 0x55, .counts_cycles = true};
    CHECK_A0(&s, 3, rv_csrrs(10, 0xf14, 0)); /* machine_open's id */
    CHECK_A0(&s, 0, rv_csrrs(10, 0xc02, 0));
    CHECK_A0(&s, 2, RV_NOP, RV_NOP, rv_csrrs(10, 0xc02, 0));
    CHECK_A0(&s, 3, RV_NOP, RV_NOP, rv_csrrs(11, 0xc02, 0), rv_csrrs(10, 0xc02, 0));
    CHECK_A0(&s, 0, rv_csrrs(10, 0xc80, 0));
    CHECK_A0(&s, 0, rv_csrrs(10, 0xc82, 0));
    CHECK_A0(&s, 8, rv_csrrs(10, 0xc00, 0)); /* after one miss of the instruction cache */
    /* The core fetches 8 bytes ahead, so the third instruction waits for the second line too. */
    CHECK_A0(&s, 18, RV_NOP, RV_NOP, rv_csrrs(10, 0xc00, 0));
    CHECK_A0(&s, 0, rv_csrrs(0, 0xf14, 0), rv_addi(10, 0, 0));
    CHECK_A0(&s, 3, rv_csrrc(10, 0xf14, 0));
    CHECK_A0(&s, 3, rv_csrrsi(10, 0xf14, 0));
    CHECK_A0(&s, 3, rv_csrrci(10, 0xf14, 0));
    static const uint32_t read_only[] = {0xc00, 0xc02, 0xc80, 0xc82, 0xf14};
    for (size_t i = 0; i < 5; i++) {
        uint32_t csr = read_only[i];
        const uint32_t writes[] = {rv_csrrw(10, csr, 0),  rv_csrrw(0, csr, 11),
                                   rv_csrrs(10, csr, 11), rv_csrrs(10, csr, 12), /* x12 is 0 */
                                   rv_csrrc(10, csr, 11), rv_csrrwi(10, csr, 0),
                                   rv_csrrsi(10, csr, 1), rv_csrrci(10, csr, 31)};
        for (size_t k = 0; k < sizeof writes / sizeof writes[0]; k++) {
            struct result r = RUN_INSNS(&s, RV_NOP, writes[k]);
            CHECK_EQ(r.fault, HPU_FAULT_ILLEGAL);
            CHECK_EQ(r.pc, CODE_BASE + 4);
            CHECK_EQ(r.instret, 1);
            CHECK_EQ(r.x[10], 0); /* nothing was read either */
        }
    }
    /* Those that this card does not have: all other numbers. */
    for (uint32_t csr = 0; csr < 4096; csr++) {
        bool exists = csr == 0xc00 || csr == 0xc02 || csr == 0xc80 || csr == 0xc82 || csr == 0xf14;
        struct result r = RUN_INSNS(&s, rv_csrrs(10, csr, 0), RV_RET);
        if ((r.stop == HPU_DONE) != exists)
            TEST_FAIL("csr 0x%x: %s", csr, r.stop == HPU_DONE ? "exists" : "does not exist");
        CHECK_EQ(r.fault, exists ? HPU_FAULT_NONE : HPU_FAULT_ILLEGAL);
    }
}

TEST(float_control_registers) {
    struct start s = {.x[11] = 0xffffffff, .with_float = true};
    CHECK_A0(&s, 0xff, rv_csrrw(0, 3, 11), rv_csrrs(10, 3, 0));
    CHECK_A0(&s, 0x1f, rv_csrrw(0, 3, 11), rv_csrrs(10, 1, 0));
    CHECK_A0(&s, 7, rv_csrrw(0, 3, 11), rv_csrrs(10, 2, 0));
    CHECK_A0(&s, 0xe0, rv_csrrw(0, 2, 11), rv_csrrs(10, 3, 0));
    CHECK_A0(&s, 0x1f, rv_csrrw(0, 1, 11), rv_csrrs(10, 3, 0));
    CHECK_A0(&s, 0xff, rv_csrrw(0, 3, 11), rv_csrrw(10, 3, 0)); /* the old value */
    CHECK_A0(&s, 0, rv_csrrw(0, 3, 11), rv_csrrw(10, 3, 0), rv_csrrs(10, 3, 0));
    CHECK_A0(&s, 0x0a, rv_csrrwi(0, 1, 31), rv_csrrci(0, 1, 0x15), rv_csrrs(10, 1, 0));
    CHECK_A0(&s, 0x1b, rv_csrrwi(0, 1, 0x0a), rv_csrrsi(0, 1, 0x11), rv_csrrs(10, 1, 0));
    CHECK_A0(&s, 0xe0, rv_csrrw(0, 3, 11), rv_csrrc(0, 1, 11), rv_csrrs(10, 3, 0));
    CHECK_A0(&s, 0x1f, rv_csrrs(0, 1, 11), rv_csrrs(10, 3, 0));
    CHECK_A0(&s, 4 << 5 | 3, rv_csrrwi(0, 2, 4), rv_csrrwi(0, 1, 3), rv_csrrs(10, 3, 0));
    for (uint32_t csr = 1; csr <= 3; csr++) { /* a card without F has none of them */
        struct start without = {0};
        CHECK_FAULT(&without, ILLEGAL, CODE_BASE, CODE_BASE, rv_csrrs(10, csr, 0));
    }
}

TEST(traps_and_fences) {
    struct start s = {0};
    CHECK_FAULT(&s, CALL, CODE_BASE + 4, CODE_BASE + 4, RV_NOP, RV_ECALL, RV_NOP);
    CHECK_FAULT(&s, CHECK, CODE_BASE + 4, CODE_BASE + 4, RV_NOP, RV_EBREAK, RV_NOP);
    CHECK_FAULT(&s, CHECK, CODE_BASE + 4, CODE_BASE + 4, RV_NOP, C_EBREAK, RV_NOP);
    CHECK_EQ(RUN_INSNS(&s, RV_NOP, RV_EBREAK).instret, 1);
    CHECK_FAULT(&s, ILLEGAL, CODE_BASE + 4, CODE_BASE + 4, RV_NOP, 0);
    CHECK_FAULT(&s, ILLEGAL, CODE_BASE, CODE_BASE, ALL);
    CHECK_FAULT(&s, ILLEGAL, CODE_BASE, CODE_BASE, 0xc0001073); /* unimp */
    CHECK_A0(&s, 1, RV_FENCE, rv_addi(10, 0, 1));
    CHECK_A0(&s, 1, RV_FENCE_I, rv_addi(10, 0, 1));
    CHECK_A0(&s, 1, 0x8330000f, rv_addi(10, 0, 1)); /* fence.tso */
    CHECK_A0(&s, 1, 0xfffff08fu & ~0x7000u, rv_addi(10, 0, 1));
    CHECK_A0(&s, 1, 0xfff9908f, rv_addi(10, 0, 1)); /* fence.i with its unused fields set */
}

static const struct {
    const char *name;
    encode_rr encode; /* rd, value, address */
    uint32_t old, value, stored;
} atomic_rows[] = {
    {"amoswap", rv_amoswap_w, 5, 7, 7},
    {"amoadd", rv_amoadd_w, 5, 7, 12},
    {"amoadd", rv_amoadd_w, ALL, 1, 0},
    {"amoxor", rv_amoxor_w, 0xff00, 0x0ff0, 0xf0f0},
    {"amoand", rv_amoand_w, 0xff00, 0x0ff0, 0x0f00},
    {"amoor", rv_amoor_w, 0xff00, 0x0ff0, 0xfff0},
    {"amomin", rv_amomin_w, MIN, MAX, MIN},
    {"amomin", rv_amomin_w, 1, ALL, ALL},
    {"amomax", rv_amomax_w, MIN, MAX, MAX},
    {"amomax", rv_amomax_w, 1, ALL, 1},
    {"amominu", rv_amominu_w, MIN, MAX, MAX},
    {"amominu", rv_amominu_w, 1, ALL, 1},
    {"amomaxu", rv_amomaxu_w, MIN, MAX, MIN},
    {"amomaxu", rv_amomaxu_w, 1, ALL, ALL},
};

static uint32_t word_of(const uint8_t *at) {
    uint32_t w;
    memcpy(&w, at, 4);
    return w;
}

TEST(atomics) {
    for (size_t i = 0; i < sizeof atomic_rows / sizeof atomic_rows[0]; i++) {
        encode_rr encode = atomic_rows[i].encode;
        struct start s = {.x[11] = atomic_rows[i].value, .x[12] = DATA_BASE + 8};
        memcpy(&s.data[8], &atomic_rows[i].old, 4);
        struct result r = RUN_INSNS(&s, encode(10, 11, 12), RV_RET);
        if (r.stop != HPU_DONE || r.x[10] != atomic_rows[i].old ||
            word_of(r.data + 8) != atomic_rows[i].stored)
            TEST_FAIL("%s of 0x%x and 0x%x: rd 0x%x, memory 0x%x", atomic_rows[i].name,
                      atomic_rows[i].old, atomic_rows[i].value, r.x[10], word_of(r.data + 8));
        CHECK_EQ(word_of(r.data + 4) | word_of(r.data + 12), 0);
        r = RUN_INSNS(&s, encode(10, 11, 12) | RV_AQRL, RV_RET);
        CHECK_EQ(word_of(r.data + 8), atomic_rows[i].stored);
        /* rd may be the address, the value, or x0. */
        CHECK_EQ(RUN_INSNS(&s, encode(12, 11, 12), RV_RET).x[12], atomic_rows[i].old);
        CHECK_EQ(RUN_INSNS(&s, encode(11, 11, 12), RV_RET).x[11], atomic_rows[i].old);
        r = RUN_INSNS(&s, encode(0, 11, 12), RV_RET);
        CHECK_EQ(r.x[0], 0);
        CHECK_EQ(word_of(r.data + 8), atomic_rows[i].stored);
        /* L2 as well; misaligned, read-only or nowhere: faults, and rd and memory stay. */
        s.x[12] = L2_BASE + SIDE_BYTES - 4;
        CHECK_EQ(RUN_INSNS(&s, encode(10, 11, 12), RV_RET).stop, HPU_DONE);
        for (uint32_t off = 1; off < 4; off++) {
            s.x[12] = DATA_BASE + 8 + off;
            CHECK_FAULT(&s, MISALIGNED, DATA_BASE + 8 + off, CODE_BASE + 4, RV_NOP,
                        encode(10, 11, 12), RV_RET);
        }
        r = RUN_INSNS(&s, encode(10, 11, 12), RV_RET);
        CHECK_EQ(r.x[10], 0);
        CHECK_EQ(word_of(r.data + 8), atomic_rows[i].old);
        s.x[12] = FIXED_BASE;
        CHECK_FAULT(&s, SEGV, FIXED_BASE, CODE_BASE, encode(10, 11, 12), RV_RET);
        s.x[12] = DATA_BASE + DATA_BYTES;
        CHECK_FAULT(&s, SEGV, DATA_BASE + DATA_BYTES, CODE_BASE, encode(10, 11, 12), RV_RET);
        s.x[12] = MAP_DRIVER;
        CHECK_FAULT(&s, SEGV, MAP_DRIVER, CODE_BASE, encode(10, 11, 12), RV_RET);
    }
}

TEST(load_reserved_and_store_conditional) {
    struct start s = {.x[11] = 77, .x[12] = DATA_BASE + 8, .x[13] = DATA_BASE + 12, .x[14] = 5};
    s.data[8] = 40;
    /* Success. */
    struct result r = RUN_INSNS(&s, rv_lr_w(10, 12), rv_sc_w(15, 11, 12), RV_RET);
    CHECK_EQ(r.x[10], 40);
    CHECK_EQ(r.x[15], 0);
    CHECK_EQ(word_of(r.data + 8), 77);
    /* Without a reservation, and with that of another word. */
    r = RUN_INSNS(&s, rv_sc_w(15, 11, 12), RV_RET);
    CHECK_EQ(r.x[15], 1);
    CHECK_EQ(word_of(r.data + 8), 40);
    r = RUN_INSNS(&s, rv_lr_w(10, 13), rv_sc_w(15, 11, 12), RV_RET);
    CHECK_EQ(r.x[15], 1);
    CHECK_EQ(word_of(r.data + 8), 40);
    /* A second SC fails, also after one that failed. */
    r = RUN_INSNS(&s, rv_lr_w(10, 12), rv_sc_w(15, 11, 12), rv_sc_w(16, 14, 12), RV_RET);
    CHECK_EQ(r.x[15], 0);
    CHECK_EQ(r.x[16], 1);
    CHECK_EQ(word_of(r.data + 8), 77);
    r = RUN_INSNS(&s, rv_lr_w(10, 12), rv_sc_w(15, 11, 13), rv_sc_w(16, 14, 12), RV_RET);
    CHECK_EQ(r.x[15], 1);
    CHECK_EQ(r.x[16], 1);
    CHECK_EQ(word_of(r.data + 8), 40);
    CHECK_EQ(word_of(r.data + 12), 0);
    /* The last LR counts; a store of another value in between is seen. */
    r = RUN_INSNS(&s, rv_lr_w(10, 13), rv_lr_w(10, 12), rv_sc_w(15, 11, 12), RV_RET);
    CHECK_EQ(r.x[15], 0);
    r = RUN_INSNS(&s, rv_lr_w(10, 12), rv_sw(14, 12, 0), rv_sc_w(15, 11, 12), RV_RET);
    CHECK_EQ(r.x[15], 1);
    CHECK_EQ(word_of(r.data + 8), 5);
    /* rd: x0, the address, the value. */
    r = RUN_INSNS(&s, rv_lr_w(0, 12), rv_sc_w(0, 11, 12), RV_RET);
    CHECK_EQ(word_of(r.data + 8), 77);
    CHECK_EQ(r.x[0], 0);
    r = RUN_INSNS(&s, rv_lr_w(10, 12) | RV_AQRL, rv_sc_w(11, 11, 12) | RV_AQRL, RV_RET);
    CHECK_EQ(r.x[11], 0);
    CHECK_EQ(word_of(r.data + 8), 77);
    CHECK_EQ(RUN_INSNS(&s, rv_lr_w(12, 12), RV_RET).x[12], 40);
    /* Faults: misaligned; not writable; nowhere. SC faults whether or not it would store; LR only
     * reads. */
    for (uint32_t off = 1; off < 4; off++) {
        s.x[12] = DATA_BASE + 8 + off;
        CHECK_FAULT(&s, MISALIGNED, s.x[12], CODE_BASE, rv_lr_w(10, 12));
        CHECK_FAULT(&s, MISALIGNED, s.x[12], CODE_BASE, rv_sc_w(10, 11, 12));
    }
    s.x[12] = FIXED_BASE;
    CHECK_EQ(RUN_INSNS(&s, rv_lr_w(10, 12), RV_RET).stop, HPU_DONE);
    CHECK_FAULT(&s, SEGV, s.x[12], CODE_BASE, rv_sc_w(10, 11, 12));
    s.x[12] = DATA_BASE - 4;
    CHECK_FAULT(&s, SEGV, s.x[12], CODE_BASE, rv_lr_w(10, 12));
    CHECK_FAULT(&s, SEGV, s.x[12], CODE_BASE, rv_sc_w(10, 11, 12));
}

/* Every compressed instruction executed beside the one that it stands for. (That all encodings are
 * decoded so is the business of encoding_test.c.) */
TEST(compressed_instructions) {
    struct start s = with_data();
    s.x[2] = DATA_BASE + 256;
    for (uint32_t i = 3; i < 32; i++)
        s.x[i] = 0x9e3779b9u * i;
    s.x[8] = DATA_BASE + 64;
    const struct {
        uint32_t compressed, full;
    } pairs[] = {
        {c_addi4spn(9, 1020), rv_addi(9, 2, 1020)},
        {c_addi4spn(15, 4), rv_addi(15, 2, 4)},
        {c_lw(9, 8, 124), rv_lw(9, 8, 124)},
        {c_lw(8, 8, 0), rv_lw(8, 8, 0)},
        {c_sw(9, 8, 124), rv_sw(9, 8, 124)},
        {c_sw(8, 8, 64), rv_sw(8, 8, 64)},
        {C_NOP, RV_NOP},
        {c_addi(31, -32), rv_addi(31, 31, -32)},
        {c_addi(5, 31), rv_addi(5, 5, 31)},
        {c_li(31, -32), rv_addi(31, 0, -32)},
        {c_li(5, 31), rv_addi(5, 0, 31)},
        {c_addi16sp(496), rv_addi(2, 2, 496)},
        {c_addi16sp(-512), rv_addi(2, 2, -512)},
        {c_lui(31, -32), rv_lui(31, 0xfffe0000)},
        {c_lui(5, 31), rv_lui(5, 0x1f000)},
        {c_srli(9, 31), rv_srli(9, 9, 31)},
        {c_srai(9, 31), rv_srai(9, 9, 31)},
        {c_andi(9, -32), rv_andi(9, 9, -32)},
        {c_sub(9, 10), rv_sub(9, 9, 10)},
        {c_xor(9, 10), rv_xor(9, 9, 10)},
        {c_or(9, 10), rv_or(9, 9, 10)},
        {c_and(9, 10), rv_and(9, 9, 10)},
        {c_slli(31, 31), rv_slli(31, 31, 31)},
        {c_slli(5, 1), rv_slli(5, 5, 1)},
        {c_lwsp(31, 252), rv_lw(31, 2, 252)},
        {c_lwsp(1, 0), rv_lw(30, 2, 0)},
        {c_swsp(31, 252), rv_sw(31, 2, 252)},
        {c_mv(31, 30), rv_add(31, 0, 30)},
        {c_add(31, 30), rv_add(31, 31, 30)},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        bool into_ra = pairs[i].compressed == c_lwsp(1, 0);
        struct result a = RUN_INSNS(&s, pairs[i].compressed, C_EBREAK);
        struct result b = RUN_INSNS(&s, pairs[i].full, C_EBREAK);
        CHECK_EQ(a.fault, HPU_FAULT_CHECK);
        CHECK_EQ(a.instret, 1);
        CHECK_EQ(a.pc, CODE_BASE + 2);
        CHECK_EQ(a.cycles, b.cycles);
        if (into_ra)
            CHECK_EQ(a.x[1], b.x[30]);
        else
            CHECK(memcmp(a.x, b.x, sizeof a.x) == 0);
        CHECK(memcmp(a.data, b.data, sizeof a.data) == 0);
    }
    CHECK_FAULT(&s, CHECK, CODE_BASE, CODE_BASE, C_EBREAK);
}

/* Pairs of everything with everything, run at once and stepped: what the interpreter fuses must be
 * what its halves are. run_program compares. */
TEST(every_pair_of_instructions) {
    const uint32_t insn[] = {
        rv_addi(10, 11, 5),
        rv_andi(10, 10, 63),
        rv_xori(11, 10, -1),
        rv_slli(10, 10, 3),
        rv_srli(10, 11, 3),
        rv_srai(11, 11, 3),
        rv_add(10, 10, 11),
        rv_sub(11, 10, 12),
        rv_xor(10, 11, 12),
        rv_or(12, 10, 11),
        rv_and(10, 12, 11),
        rv_mul(10, 11, 12),
        rv_lui(10, 0x5000),
        rv_lw(10, 8, 5),
        rv_lbu(11, 8, 6),
        rv_lhu(12, 8, 7),
        rv_sw(10, 8, 9),
        rv_sb(11, 8, 10),
        rv_sltu(10, 11, 12),
        rv_beq(10, 11, 8),
        rv_bne(10, 11, 8),
        rv_blt(10, 11, 8),
        rv_bge(10, 11, 8),
        rv_bltu(10, 11, 8),
        rv_bgeu(10, 11, 8),
        rv_jal(0, 8),
        rv_jal(5, 8),
        rv_lb(10, 8, 3),
        rv_lh(10, 8, 3),
        rv_sh(10, 8, 3),
        rv_div(10, 11, 12),
        rv_mulh(10, 11, 12),
        rv_auipc(10, 0x1000),
        rv_amoadd_w(10, 11, 8),
        rv_lr_w(10, 8),
        rv_sc_w(11, 12, 8),
        rv_slti(10, 11, 5),
        rv_addi(0, 11, 5),
        rv_lw(0, 8, 0),
        rv_csrrs(10, 0xf14, 0),
        RV_FENCE,
        rv_lw(10, 9, 0),
        rv_sw(10, 9, 0),
        rv_beq(10, 11, -128),
        rv_jal(0, 4096),
        rv_lw(10, 15, 0),
        rv_sb(10, 15, 0),
    };
    struct start s = with_data();
    s.x[8] = DATA_BASE + 16;
    s.x[9] = DATA_BASE + DATA_BYTES; /* outside */
    s.x[10] = 0x80000001, s.x[11] = 0x7, s.x[12] = 0xfffffff3;
    s.x[15] = L2_BASE + 8;
    size_t n = sizeof insn / sizeof insn[0];
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            struct result r =
                RUN_INSNS(&s, insn[i], insn[k], rv_addi(13, 10, 1), rv_addi(14, 11, 2), RV_RET);
            CHECK(r.stop == HPU_DONE || r.fault == HPU_FAULT_SEGV);
        }
}

/* Each row of isa.def was executed by a test above (F: float_test.c). */
TEST(no_instruction_was_left_out) {
#define INSN(id, name, operands, match, mask, ext, timing, shape, body)                            \
    if (HPU_EXT_##ext != HPU_EXT_F && (!machine_ran[HPU_##id] || !machine_compiled[HPU_##id]))     \
        TEST_FAIL("no test has run %s", name);
#include "hpu/isa.def"
#undef INSN
}

TEST_MAIN
