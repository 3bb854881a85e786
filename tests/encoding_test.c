/* What is an instruction and what is not: all 65,536 halfwords, and every combination of the fields
 * that tell 32-bit instructions apart, against tables written from the ISA manual. */
#include "base/rng.h"
#include "lib/asm.h"
#include "lib/test.h"
#include "hpu/isa.h"

static uint32_t field(uint32_t w, int high, int low) {
    return w >> low & ((1u << (high - low + 1)) - 1);
}

static int32_t signed_field(uint32_t value, int width) {
    return value >> (width - 1) & 1 ? (int32_t)value - (1 << width) : (int32_t)value;
}

/* The 32-bit instruction that a halfword stands for, 0 if the manual reserves it (for RV32 with C
 * and F, without D, and without custom instructions). Immediates: chapter "C", tables of the
 * quadrants; each bit by its place. */
static uint32_t expansion(uint32_t h) {
    uint32_t rd = field(h, 11, 7), rs2 = field(h, 6, 2);
    uint32_t low8 = 8 + field(h, 4, 2), high8 = 8 + field(h, 9, 7);
    int32_t imm6 = signed_field(field(h, 12, 12) << 5 | field(h, 6, 2), 6);
    int32_t word = (int32_t)(field(h, 12, 10) << 3 | field(h, 6, 6) << 2 | field(h, 5, 5) << 6);
    int32_t jump =
        signed_field(field(h, 12, 12) << 11 | field(h, 11, 11) << 4 | field(h, 10, 9) << 8 |
                         field(h, 8, 8) << 10 | field(h, 7, 7) << 6 | field(h, 6, 6) << 7 |
                         field(h, 5, 3) << 1 | field(h, 2, 2) << 5,
                     12);
    int32_t branch =
        signed_field(field(h, 12, 12) << 8 | field(h, 11, 10) << 3 | field(h, 6, 5) << 6 |
                         field(h, 4, 3) << 1 | field(h, 2, 2) << 5,
                     9);
    int32_t from_sp = (int32_t)(field(h, 12, 12) << 5 | field(h, 6, 4) << 2 | field(h, 3, 2) << 6);
    int32_t to_sp = (int32_t)(field(h, 12, 9) << 2 | field(h, 8, 7) << 6);
    int32_t spn = (int32_t)(field(h, 12, 11) << 4 | field(h, 10, 7) << 6 | field(h, 6, 6) << 2 |
                            field(h, 5, 5) << 3);
    int32_t sp16 = signed_field(field(h, 12, 12) << 9 | field(h, 6, 6) << 4 | field(h, 5, 5) << 6 |
                                    field(h, 4, 3) << 7 | field(h, 2, 2) << 5,
                                10);
    bool bit12 = h >> 12 & 1;
    switch ((h & 3) << 3 | h >> 13) {
    case 0:
        return spn ? rv_addi(low8, 2, spn) : 0;
    case 2:
        return rv_lw(low8, high8, word);
    case 3:
        return rv_flw(low8, high8, word);
    case 6:
        return rv_sw(low8, high8, word);
    case 7:
        return rv_fsw(low8, high8, word);
    case 8:
        return rv_addi(rd, rd, imm6);
    case 9:
        return rv_jal(1, jump);
    case 10:
        return rv_addi(rd, 0, imm6);
    case 11:
        if (!imm6)
            return 0;
        return rd == 2 ? rv_addi(2, 2, sp16) : rv_lui(rd, (uint32_t)imm6 << 12);
    case 12:
        switch (field(h, 11, 10)) {
        case 0:
            return bit12 ? 0 : rv_srli(high8, high8, (int32_t)rs2);
        case 1:
            return bit12 ? 0 : rv_srai(high8, high8, (int32_t)rs2);
        case 2:
            return rv_andi(high8, high8, imm6);
        }
        if (bit12)
            return 0; /* of RV64, or reserved */
        switch (field(h, 6, 5)) {
        case 0:
            return rv_sub(high8, high8, low8);
        case 1:
            return rv_xor(high8, high8, low8);
        case 2:
            return rv_or(high8, high8, low8);
        }
        return rv_and(high8, high8, low8);
    case 13:
        return rv_jal(0, jump);
    case 14:
        return rv_beq(high8, 0, branch);
    case 15:
        return rv_bne(high8, 0, branch);
    case 16:
        return bit12 ? 0 : rv_slli(rd, rd, (int32_t)rs2);
    case 18:
        return rd ? rv_lw(rd, 2, from_sp) : 0;
    case 19:
        return rv_flw(rd, 2, from_sp);
    case 20:
        if (!bit12)
            return rs2 ? rv_add(rd, 0, rs2) : rd ? rv_jalr(0, rd, 0) : 0;
        return rs2 ? rv_add(rd, rd, rs2) : rd ? rv_jalr(1, rd, 0) : RV_EBREAK;
    case 22:
        return rv_sw(rs2, 2, to_sp);
    case 23:
        return rv_fsw(rs2, 2, to_sp);
    }
    return 0; /* D, or reserved */
}

TEST(all_halfwords) {
    unsigned legal = 0, illegal = 0;
    for (uint32_t h = 0; h < 65536; h++) {
        if ((h & 3) == 3)
            continue;
        uint32_t noise = (h * 0x9e3779b9u) << 16; /* what follows must not matter */
        struct hpu_insn got = hpu_decode(h | noise, true);
        uint32_t full = expansion(h);
        CHECK_EQ(got.length, 2);
        if (!full) {
            if (got.id != HPU_ILLEGAL)
                TEST_FAIL("0x%04x is reserved, decoded as %s", h, hpu_insn_info(got.id)->name);
            illegal++;
            continue;
        }
        legal++;
        struct hpu_insn want = hpu_decode(full, true);
        char text[2][64];
        hpu_disassemble(&got, 0x1000, text[0], sizeof text[0]);
        hpu_disassemble(&want, 0x1000, text[1], sizeof text[1]);
        if (got.id != want.id || strcmp(text[0], text[1]) != 0)
            TEST_FAIL("0x%04x is '%s', expected '%s'", h, text[0], text[1]);
        /* Without F the same, but for the four that need it. */
        bool is_float = hpu_insn_info(want.id)->extension == HPU_EXT_F;
        CHECK_EQ(hpu_decode(h, false).id, is_float ? HPU_ILLEGAL : want.id);
    }
    CHECK_EQ(legal + illegal, 49152);
    CHECK(illegal > 8192); /* D alone has four eighths of two quadrants */
}

/* Halfwords that the functions of asm.h make are those instructions: the two hand-written tables
 * against each other. */
TEST(assembler_agrees_with_the_expansion) {
    for (int32_t imm = -32; imm < 32; imm++) {
        CHECK_EQ(expansion(c_addi(7, imm)), rv_addi(7, 7, imm));
        CHECK_EQ(expansion(c_li(7, imm)), rv_addi(7, 0, imm));
        CHECK_EQ(expansion(c_andi(9, imm)), rv_andi(9, 9, imm));
        if (imm) {
            CHECK_EQ(expansion(c_lui(7, imm)), rv_lui(7, (uint32_t)imm << 12));
            CHECK_EQ(expansion(c_addi16sp(imm * 16)), rv_addi(2, 2, imm * 16));
        }
    }
    for (int32_t d = -2048; d < 2048; d += 2) {
        CHECK_EQ(expansion(c_j(d)), rv_jal(0, d));
        CHECK_EQ(expansion(c_jal(d)), rv_jal(1, d));
    }
    for (int32_t d = -256; d < 256; d += 2) {
        CHECK_EQ(expansion(c_beqz(12, d)), rv_beq(12, 0, d));
        CHECK_EQ(expansion(c_bnez(12, d)), rv_bne(12, 0, d));
    }
    for (int32_t offset = 0; offset < 128; offset += 4) {
        uint32_t u = (uint32_t)offset;
        CHECK_EQ(expansion(c_lw(9, 15, u)), rv_lw(9, 15, offset));
        CHECK_EQ(expansion(c_sw(9, 15, u)), rv_sw(9, 15, offset));
        CHECK_EQ(expansion(c_flw(9, 15, u)), rv_flw(9, 15, offset));
        CHECK_EQ(expansion(c_fsw(9, 15, u)), rv_fsw(9, 15, offset));
    }
    for (int32_t offset = 0; offset < 256; offset += 4) {
        uint32_t u = (uint32_t)offset;
        CHECK_EQ(expansion(c_lwsp(31, u)), rv_lw(31, 2, offset));
        CHECK_EQ(expansion(c_swsp(31, u)), rv_sw(31, 2, offset));
        CHECK_EQ(expansion(c_flwsp(0, u)), rv_flw(0, 2, offset));
        CHECK_EQ(expansion(c_fswsp(0, u)), rv_fsw(0, 2, offset));
    }
    for (int32_t imm = 4; imm < 1024; imm += 4)
        CHECK_EQ(expansion(c_addi4spn(10, (uint32_t)imm)), rv_addi(10, 2, imm));
}

/* Whether a word is an instruction of RV32IMAF, Zicsr, Zifencei: the manual's chapter "RV32/64G
 * instruction set listings", by opcode. */
static bool legal32(uint32_t w, bool with_float) {
    uint32_t funct3 = field(w, 14, 12), funct7 = field(w, 31, 25), rs2 = field(w, 24, 20);
    uint32_t funct5 = funct7 >> 2;
    bool rounds = funct3 != 5 && funct3 != 6;
    switch (w & 0x7f) {
    case 0x37:
    case 0x17:
    case 0x6f:
        return true;
    case 0x67:
        return funct3 == 0;
    case 0x63:
        return funct3 != 2 && funct3 != 3;
    case 0x03:
        return funct3 != 3 && funct3 < 6;
    case 0x23:
        return funct3 < 3;
    case 0x13:
        return funct3 == 1 ? funct7 == 0 : funct3 == 5 ? funct7 == 0 || funct7 == 32 : true;
    case 0x33:
        return funct7 < 2 || (funct7 == 32 && (funct3 == 0 || funct3 == 5));
    case 0x0f:
        return funct3 < 2;
    case 0x73:
        if (funct3 == 0)
            return w == 0x00000073 || w == 0x00100073;
        return funct3 != 4;
    case 0x2f:
        if (funct3 != 2)
            return false;
        if (funct5 == 2)
            return rs2 == 0;
        return funct5 < 2 || funct5 == 3 || (funct5 % 4 == 0);
    case 0x07:
    case 0x27:
        return with_float && funct3 == 2;
    case 0x43:
    case 0x47:
    case 0x4b:
    case 0x4f:
        return with_float && (funct7 & 3) == 0 && rounds;
    case 0x53:
        if (!with_float || (funct7 & 3) != 0)
            return false;
        switch (funct5) {
        case 0:
        case 1:
        case 2:
        case 3:
            return rounds;
        case 11:
            return rs2 == 0 && rounds;
        case 4:
            return funct3 < 3;
        case 5:
            return funct3 < 2;
        case 20:
            return funct3 < 3;
        case 24:
        case 26:
            return rs2 < 2 && rounds;
        case 28:
            return rs2 == 0 && funct3 < 2;
        case 30:
            return rs2 == 0 && funct3 == 0;
        }
        return false;
    }
    return false;
}

/* The instruction written again from its decoded fields, by the format that its opcode has. Bits
 * that do not matter to the card (fence fields; aq and rl) are taken from `w`. */
static uint32_t encoded_again(uint32_t w, const struct hpu_insn *in) {
    uint32_t opcode = w & 0x7f, funct3 = field(w, 14, 12), funct7 = field(w, 31, 25);
    switch (opcode) {
    case 0x37:
        return rv_lui(in->rd, (uint32_t)in->imm);
    case 0x17:
        return rv_auipc(in->rd, (uint32_t)in->imm);
    case 0x6f:
        return rv_jal(in->rd, in->imm);
    case 0x63:
        return asm_b(funct3, in->rs1, in->rs2, in->imm);
    case 0x67:
    case 0x03:
    case 0x07:
        return asm_i(opcode, funct3, in->rd, in->rs1, in->imm);
    case 0x13:
        if (funct3 == 1 || funct3 == 5)
            return asm_r(opcode, funct3, funct7, in->rd, in->rs1, (uint32_t)in->imm);
        return asm_i(opcode, funct3, in->rd, in->rs1, in->imm);
    case 0x23:
    case 0x27:
        return asm_s(opcode, funct3, in->rs2, in->rs1, in->imm);
    case 0x73:
        return funct3 ? asm_i(opcode, funct3, in->rd, in->rs1, in->imm) : w;
    case 0x0f:
        return w;
    case 0x43:
    case 0x47:
    case 0x4b:
    case 0x4f:
        return asm_r(opcode, in->rm, (uint32_t)in->rs3 << 2, in->rd, in->rs1, in->rs2);
    }
    return asm_r(opcode, funct3, funct7, in->rd, in->rs1, in->rs2);
}

static void check_word(uint32_t w) {
    struct hpu_insn in = hpu_decode(w, true);
    CHECK_EQ(in.length, 4);
    if ((in.id != HPU_ILLEGAL) != legal32(w, true))
        TEST_FAIL("0x%08x is %s, decoded as %s", w, legal32(w, true) ? "legal" : "reserved",
                  hpu_insn_info(in.id)->name);
    if ((hpu_decode(w, false).id != HPU_ILLEGAL) != legal32(w, false))
        TEST_FAIL("0x%08x without F: decoded as %s", w, hpu_insn_info(in.id)->name);
    if (in.id != HPU_ILLEGAL && encoded_again(w, &in) != w)
        TEST_FAIL("0x%08x decodes to fields of 0x%08x (%s)", w, encoded_again(w, &in),
                  hpu_insn_info(in.id)->name);
}

/* Every opcode, funct3, funct7 and rs2: all that tells instructions apart, but for the registers of
 * ecall and ebreak, which the random part sets. */
TEST(all_fields_of_words) {
    struct rng rng = rng_seeded(7);
    for (uint32_t i = 0; i < 1u << 20; i++) {
        uint32_t w = (i >> 15 & 31) << 2 | 3 | field(i, 2, 0) << 12 | field(i, 14, 3) << 20;
        check_word(w);
        check_word(w | (rng_u32(&rng) & 0x000f8f80));
    }
}

TEST(random_words) {
    struct rng rng = rng_seeded(11);
    for (uint32_t i = 0; i < 300000; i++)
        check_word(rng_u32(&rng) | 3);
    /* One bit away from what is legal by full value. */
    for (int bit = 2; bit < 32; bit++) {
        check_word(RV_ECALL ^ 1u << bit);
        check_word(RV_EBREAK ^ 1u << bit);
        check_word(RV_FENCE ^ 1u << bit);
        check_word(rv_lr_w(10, 11) ^ 1u << bit);
        check_word(rv_fsqrt_s(1, 2, 7) ^ 1u << bit);
        check_word(rv_fmv_x_w(1, 2) ^ 1u << bit);
    }
}

/* Each row's own words decode to the row, so no row hides another. */
TEST(every_row_is_reached) {
#define INSN(row, name, operands, match, mask, ext, timing, shape, body)                           \
    CHECK_EQ(hpu_decode(match, true).id, HPU_##row);                                               \
    CHECK_EQ((match) & ~(uint32_t)(mask), 0);
#include "hpu/isa.def"
#undef INSN
}

/* The disassembler on anything: ends inside the room it was given, and is the same text there. */
TEST(disassembly_fits_its_room) {
    struct rng rng = rng_seeded(13);
    for (uint32_t i = 0; i < 50000; i++) {
        struct hpu_insn in = hpu_decode(rng_u32(&rng), true);
        char whole[80], part[80];
        hpu_disassemble(&in, rng_u32(&rng) & ~1u, whole, sizeof whole);
        CHECK(strlen(whole) > 2 && strlen(whole) < 60);
        size_t room = 1 + rng_below(&rng, 40);
        memset(part, '#', sizeof part);
        hpu_disassemble(&in, 0, part, room);
        CHECK(memchr(part, 0, room));
        CHECK_EQ(part[room], '#');
    }
    struct hpu_insn in = hpu_decode(rv_lw(10, 11, -4), false);
    char text[64];
    CHECK_STR(hpu_disassemble(&in, 0, text, sizeof text), "lw        a0, -4(a1)");
    in = hpu_decode(rv_bne(10, 0, -8), false);
    CHECK_STR(hpu_disassemble(&in, 0x1d000010, text, sizeof text),
              "bne       a0, zero, 0x1d000008");
    in = hpu_decode(rv_fmadd_s(1, 2, 3, 4, RTZ), true);
    CHECK_STR(hpu_disassemble(&in, 0, text, sizeof text), "fmadd.s   ft1, ft2, ft3, ft4, rtz");
    in = hpu_decode(rv_csrrs(10, 0xf14, 0), false);
    CHECK_STR(hpu_disassemble(&in, 0, text, sizeof text), "csrrs     a0, mhartid, zero");
}

TEST_MAIN
