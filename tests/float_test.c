/* F: every instruction in every rounding mode, at the corners where implementations differ. Two
 * parts: values worked out by hand, and a matrix of corners against the floating-point unit of the
 * machine that runs the test. */
#include <fenv.h>
#include <math.h>

#include "lib/test_machine.h"

enum { NX = 1, UF = 2, OF = 4, DZ = 8, NV = 16 };

#define ONE        0x3f800000u
#define TWO        0x40000000u
#define HALF       0x3f000000u
#define LARGEST    0x7f7fffffu
#define LEAST      0x00800000u /* normal */
#define TINIEST    0x00000001u
#define INF        0x7f800000u
#define QUIET      0x7fc00000u
#define PAYLOAD    0x7fc12345u
#define SIGNALLING 0x7f800001u
#define MINUS(u)   ((u) | 0x80000000u)
#define ALL(u)                                                                                     \
    { u, u, u, u, u }
#define MODES 5

/* One instruction on f1, f2, f3 (or x11) into f10 (or x10), by the given mode. */
typedef uint32_t (*encoder)(uint32_t rm);
#define E3(name)                                                                                   \
    static uint32_t e_##name(uint32_t rm) {                                                        \
        return rv_##name(10, 1, 2, 3, rm);                                                         \
    }
#define E2(name)                                                                                   \
    static uint32_t e_##name(uint32_t rm) {                                                        \
        return rv_##name(10, 1, 2, rm);                                                            \
    }
#define E1(name)                                                                                   \
    static uint32_t e_##name(uint32_t rm) {                                                        \
        return rv_##name(10, 1, rm);                                                               \
    }
/* clang-format off */
E3(fmadd_s) E3(fmsub_s) E3(fnmsub_s) E3(fnmadd_s)
E2(fadd_s) E2(fsub_s) E2(fmul_s) E2(fdiv_s)
E1(fsqrt_s) E1(fcvt_w_s) E1(fcvt_wu_s)
    /* clang-format on */
    static uint32_t e_fcvt_s_w(uint32_t rm) {
    return rv_fcvt_s_w(10, 11, rm);
}
static uint32_t e_fcvt_s_wu(uint32_t rm) {
    return rv_fcvt_s_wu(10, 11, rm);
}

static struct result run_one(uint32_t insn, const struct start *s) {
    struct program p = {0};
    put(&p, insn);
    put(&p, RV_RET);
    return run_program(&p, s);
}

/* want and flags: RNE, RTZ, RDN, RUP, RMM */
struct row {
    const char *name;
    encoder encode;
    uint32_t a, b, c;
    uint32_t want[MODES], flags[MODES];
};

static void check_rows(const struct row *rows, size_t count, bool to_x) {
    for (size_t i = 0; i < count; i++)
        for (uint32_t mode = 0; mode < MODES; mode++)
            for (int dynamic = 0; dynamic < 2; dynamic++) {
                const struct row *r = &rows[i];
                /* The other of instruction and register says another mode. */
                struct start s = {.f = {0, r->a, r->b, r->c},
                                  .x[11] = r->a,
                                  .fcsr = (dynamic ? mode : 4 - mode) << 5,
                                  .with_float = true};
                struct result got = run_one(r->encode(dynamic ? DYN : mode), &s);
                uint32_t value = to_x ? got.x[10] : got.f[10];
                if (got.stop != HPU_DONE || value != r->want[mode] ||
                    (got.fcsr & 31) != r->flags[mode])
                    TEST_FAIL("%s 0x%x, 0x%x, 0x%x in mode %u: 0x%x flags 0x%x, expected 0x%x "
                              "flags 0x%x",
                              r->name, r->a, r->b, r->c, mode, value, got.fcsr & 31, r->want[mode],
                              r->flags[mode]);
                CHECK_EQ(got.fcsr >> 5, s.fcsr >> 5);
            }
}
#define ROWS(to_x, ...)                                                                            \
    do {                                                                                           \
        static const struct row rows_[] = {__VA_ARGS__};                                           \
        check_rows(rows_, sizeof rows_ / sizeof rows_[0], to_x);                                   \
    } while (0)
#define ROW(name, a, b, c, want, flags)                                                            \
    { #name, e_##name, a, b, c, want, flags }
#define FIVE(n, z, d, u, m)                                                                        \
    { n, z, d, u, m }

TEST(additions) {
    ROWS(false, ROW(fadd_s, ONE, TWO, 0, ALL(0x40400000), ALL(0)),
         /* halfway between 1 and the next; between the next and the one after */
         ROW(fadd_s, ONE, 0x33800000, 0, FIVE(ONE, ONE, ONE, 0x3f800001, 0x3f800001), ALL(NX)),
         ROW(fadd_s, 0x3f800001, 0x33800000, 0,
             FIVE(0x3f800002, 0x3f800001, 0x3f800001, 0x3f800002, 0x3f800002), ALL(NX)),
         ROW(fadd_s, MINUS(ONE), MINUS(0x33800000), 0,
             FIVE(0xbf800000, 0xbf800000, 0xbf800001, 0xbf800000, 0xbf800001), ALL(NX)),
         /* just above and just below the half */
         ROW(fadd_s, ONE, 0x33800001, 0, FIVE(0x3f800001, ONE, ONE, 0x3f800001, 0x3f800001),
             ALL(NX)),
         ROW(fadd_s, ONE, 0x337fffff, 0, FIVE(ONE, ONE, ONE, 0x3f800001, ONE), ALL(NX)),
         /* far apart: the smaller only rounds */
         ROW(fadd_s, ONE, TINIEST, 0, FIVE(ONE, ONE, ONE, 0x3f800001, ONE), ALL(NX)),
         ROW(fsub_s, ONE, TINIEST, 0, FIVE(ONE, 0x3f7fffff, 0x3f7fffff, ONE, ONE), ALL(NX)),
         ROW(fadd_s, LARGEST, TINIEST, 0, FIVE(LARGEST, LARGEST, LARGEST, INF, LARGEST),
             FIVE(NX, NX, NX, OF | NX, NX)),
         /* overflow */
         ROW(fadd_s, LARGEST, LARGEST, 0, FIVE(INF, LARGEST, LARGEST, INF, INF), ALL(OF | NX)),
         ROW(fadd_s, MINUS(LARGEST), MINUS(LARGEST), 0,
             FIVE(MINUS(INF), MINUS(LARGEST), MINUS(INF), MINUS(LARGEST), MINUS(INF)),
             ALL(OF | NX)),
         /* the sign of zero */
         ROW(fsub_s, ONE, ONE, 0, FIVE(0, 0, 0x80000000, 0, 0), ALL(0)),
         ROW(fadd_s, 0, 0x80000000, 0, FIVE(0, 0, 0x80000000, 0, 0), ALL(0)),
         ROW(fadd_s, 0x80000000, 0x80000000, 0, ALL(0x80000000), ALL(0)),
         ROW(fadd_s, 0, 0, 0, ALL(0), ALL(0)),
         ROW(fsub_s, 0x80000000, 0, 0, ALL(0x80000000), ALL(0)),
         /* subnormals add exactly */
         ROW(fadd_s, TINIEST, TINIEST, 0, ALL(2), ALL(0)),
         ROW(fsub_s, LEAST, TINIEST, 0, ALL(0x007fffff), ALL(0)),
         ROW(fadd_s, 0x007fffff, TINIEST, 0, ALL(LEAST), ALL(0)),
         /* infinities and NaNs */
         ROW(fadd_s, INF, MINUS(INF), 0, ALL(QUIET), ALL(NV)),
         ROW(fsub_s, INF, INF, 0, ALL(QUIET), ALL(NV)), ROW(fadd_s, INF, INF, 0, ALL(INF), ALL(0)),
         ROW(fsub_s, ONE, INF, 0, ALL(MINUS(INF)), ALL(0)),
         ROW(fadd_s, PAYLOAD, ONE, 0, ALL(QUIET), ALL(0)),
         ROW(fadd_s, MINUS(QUIET), ONE, 0, ALL(QUIET), ALL(0)),
         ROW(fadd_s, SIGNALLING, ONE, 0, ALL(QUIET), ALL(NV)),
         ROW(fsub_s, ONE, SIGNALLING, 0, ALL(QUIET), ALL(NV)),
         ROW(fsub_s, QUIET, SIGNALLING, 0, ALL(QUIET), ALL(NV)));
}

TEST(products_and_quotients) {
    ROWS(false, ROW(fmul_s, 0x40400000, 0x40800000, 0, ALL(0x41400000), ALL(0)),
         ROW(fmul_s, LARGEST, TWO, 0, FIVE(INF, LARGEST, LARGEST, INF, INF), ALL(OF | NX)),
         /* half of the tiniest; three halves of it */
         ROW(fmul_s, TINIEST, HALF, 0, FIVE(0, 0, 0, 1, 1), ALL(UF | NX)),
         ROW(fmul_s, 3, HALF, 0, FIVE(2, 1, 1, 2, 2), ALL(UF | NX)),
         ROW(fmul_s, MINUS(TINIEST), HALF, 0,
             FIVE(0x80000000, 0x80000000, 0x80000001, 0x80000000, 0x80000001), ALL(UF | NX)),
         ROW(fmul_s, TINIEST, TINIEST, 0, FIVE(0, 0, 0, 1, 0), ALL(UF | NX)),
         /* exact subnormal: no flag */
         ROW(fmul_s, LEAST, HALF, 0, ALL(0x00400000), ALL(0)),
         /* tiny or not is decided after rounding to 24 bits: 2^-126 - 2^-172 rounds up to a normal
          * number, 2^-126 - 2^-150 is exact in 24 bits and so tiny */
         ROW(fmul_s, 0x007fffff, 0x3f800001, 0, FIVE(LEAST, 0x007fffff, 0x007fffff, LEAST, LEAST),
             FIVE(NX, UF | NX, UF | NX, NX, NX)),
         ROW(fmul_s, 0x00ffffff, HALF, 0, FIVE(LEAST, 0x007fffff, 0x007fffff, LEAST, LEAST),
             ALL(UF | NX)),
         ROW(fmul_s, INF, 0, 0, ALL(QUIET), ALL(NV)),
         ROW(fmul_s, 0x80000000, INF, 0, ALL(QUIET), ALL(NV)),
         ROW(fmul_s, MINUS(INF), TWO, 0, ALL(MINUS(INF)), ALL(0)),
         ROW(fmul_s, 0x80000000, ONE, 0, ALL(0x80000000), ALL(0)),
         ROW(fmul_s, SIGNALLING, QUIET, 0, ALL(QUIET), ALL(NV)),
         ROW(fmul_s, QUIET, INF, 0, ALL(QUIET), ALL(0)),
         ROW(fdiv_s, ONE, 0x40400000, 0,
             FIVE(0x3eaaaaab, 0x3eaaaaaa, 0x3eaaaaaa, 0x3eaaaaab, 0x3eaaaaab), ALL(NX)),
         ROW(fdiv_s, ONE, MINUS(0x40400000), 0,
             FIVE(0xbeaaaaab, 0xbeaaaaaa, 0xbeaaaaab, 0xbeaaaaaa, 0xbeaaaaab), ALL(NX)),
         ROW(fdiv_s, ONE, 0, 0, ALL(INF), ALL(DZ)),
         ROW(fdiv_s, MINUS(ONE), 0, 0, ALL(MINUS(INF)), ALL(DZ)),
         ROW(fdiv_s, ONE, 0x80000000, 0, ALL(MINUS(INF)), ALL(DZ)),
         ROW(fdiv_s, 0, 0, 0, ALL(QUIET), ALL(NV)), ROW(fdiv_s, INF, INF, 0, ALL(QUIET), ALL(NV)),
         ROW(fdiv_s, INF, 0, 0, ALL(INF), ALL(0)),
         ROW(fdiv_s, ONE, MINUS(INF), 0, ALL(0x80000000), ALL(0)),
         ROW(fdiv_s, 0, MINUS(ONE), 0, ALL(0x80000000), ALL(0)),
         ROW(fdiv_s, LARGEST, HALF, 0, FIVE(INF, LARGEST, LARGEST, INF, INF), ALL(OF | NX)),
         ROW(fdiv_s, TINIEST, TWO, 0, FIVE(0, 0, 0, 1, 1), ALL(UF | NX)),
         ROW(fdiv_s, LEAST, TWO, 0, ALL(0x00400000), ALL(0)),
         ROW(fdiv_s, ONE, SIGNALLING, 0, ALL(QUIET), ALL(NV)),
         ROW(fsqrt_s, TWO, 0, 0, FIVE(0x3fb504f3, 0x3fb504f3, 0x3fb504f3, 0x3fb504f4, 0x3fb504f3),
             ALL(NX)),
         ROW(fsqrt_s, 0x40800000, 0, 0, ALL(TWO), ALL(0)),
         ROW(fsqrt_s, 0x80000000, 0, 0, ALL(0x80000000), ALL(0)),
         ROW(fsqrt_s, 0, 0, 0, ALL(0), ALL(0)), ROW(fsqrt_s, INF, 0, 0, ALL(INF), ALL(0)),
         ROW(fsqrt_s, MINUS(ONE), 0, 0, ALL(QUIET), ALL(NV)),
         ROW(fsqrt_s, MINUS(INF), 0, 0, ALL(QUIET), ALL(NV)),
         ROW(fsqrt_s, MINUS(TINIEST), 0, 0, ALL(QUIET), ALL(NV)),
         ROW(fsqrt_s, PAYLOAD, 0, 0, ALL(QUIET), ALL(0)),
         ROW(fsqrt_s, SIGNALLING, 0, 0, ALL(QUIET), ALL(NV)),
         ROW(fsqrt_s, 2, 0, 0, ALL(0x1a800000), ALL(0))); /* 2^-148 -> 2^-74 */
}

TEST(fused_multiply_add) {
    ROWS(false, ROW(fmadd_s, TWO, 0x40400000, ONE, ALL(0x40e00000), ALL(0)),
         ROW(fmsub_s, TWO, 0x40400000, ONE, ALL(0x40a00000), ALL(0)),
         ROW(fnmsub_s, TWO, 0x40400000, ONE, ALL(MINUS(0x40a00000)), ALL(0)),
         ROW(fnmadd_s, TWO, 0x40400000, ONE, ALL(MINUS(0x40e00000)), ALL(0)),
         /* one rounding: (1 + u)^2 - (1 + 2u) is u^2 exactly */
         ROW(fmsub_s, 0x3f800001, 0x3f800001, 0x3f800002, ALL(0x28800000), ALL(0)),
         /* the product decides a tie: 1 + (2^-24 + something far below) */
         ROW(fmadd_s, 0x3f800001, 0x33800000, ONE,
             FIVE(0x3f800001, ONE, ONE, 0x3f800001, 0x3f800001), ALL(NX)),
         ROW(fmadd_s, HALF, 0x34000000, ONE, FIVE(ONE, ONE, ONE, 0x3f800001, 0x3f800001), ALL(NX)),
         ROW(fmadd_s, TINIEST, TINIEST, ONE, FIVE(ONE, ONE, ONE, 0x3f800001, ONE), ALL(NX)),
         ROW(fnmsub_s, TINIEST, TINIEST, ONE, FIVE(ONE, 0x3f7fffff, 0x3f7fffff, ONE, ONE), ALL(NX)),
         /* a product over the largest that comes back */
         ROW(fmsub_s, LARGEST, TWO, LARGEST, ALL(LARGEST), ALL(0)),
         ROW(fmadd_s, LARGEST, TWO, LARGEST, FIVE(INF, LARGEST, LARGEST, INF, INF), ALL(OF | NX)),
         /* below the tiniest: only the subnormal's last place rounds */
         ROW(fmadd_s, TINIEST, HALF, TINIEST, FIVE(2, 1, 1, 2, 2), ALL(UF | NX)),
         /* the sign of zero */
         ROW(fmadd_s, ONE, ONE, MINUS(ONE), FIVE(0, 0, 0x80000000, 0, 0), ALL(0)),
         ROW(fnmadd_s, ONE, ONE, MINUS(ONE), FIVE(0, 0, 0x80000000, 0, 0), ALL(0)),
         ROW(fmadd_s, 0, ONE, 0, ALL(0), ALL(0)), ROW(fnmadd_s, 0, ONE, 0, ALL(0x80000000), ALL(0)),
         ROW(fmsub_s, 0x80000000, ONE, 0, ALL(0x80000000), ALL(0)),
         /* infinities and NaNs; infinity times zero is invalid even beside a quiet NaN */
         ROW(fmadd_s, INF, 0, QUIET, ALL(QUIET), ALL(NV)),
         ROW(fmadd_s, INF, 0, ONE, ALL(QUIET), ALL(NV)),
         ROW(fmadd_s, INF, ONE, MINUS(INF), ALL(QUIET), ALL(NV)),
         ROW(fmsub_s, INF, ONE, INF, ALL(QUIET), ALL(NV)),
         ROW(fnmsub_s, INF, ONE, INF, ALL(QUIET), ALL(NV)),
         ROW(fnmadd_s, INF, ONE, INF, ALL(MINUS(INF)), ALL(0)),
         ROW(fmadd_s, ONE, ONE, MINUS(INF), ALL(MINUS(INF)), ALL(0)),
         ROW(fmadd_s, ONE, QUIET, ONE, ALL(QUIET), ALL(0)),
         ROW(fnmadd_s, ONE, ONE, SIGNALLING, ALL(QUIET), ALL(NV)),
         ROW(fnmsub_s, SIGNALLING, ONE, ONE, ALL(QUIET), ALL(NV)));
}

TEST(conversions) {
    ROWS(true, ROW(fcvt_w_s, 0x40200000, 0, 0, FIVE(2, 2, 2, 3, 3), ALL(NX)), /* 2.5 */
         ROW(fcvt_w_s, 0x3fc00000, 0, 0, FIVE(2, 1, 1, 2, 2), ALL(NX)),       /* 1.5 */
         ROW(fcvt_w_s, HALF, 0, 0, FIVE(0, 0, 0, 1, 1), ALL(NX)),
         ROW(fcvt_w_s, 0x3effffff, 0, 0, FIVE(0, 0, 0, 1, 0), ALL(NX)),
         ROW(fcvt_w_s, TINIEST, 0, 0, FIVE(0, 0, 0, 1, 0), ALL(NX)),
         ROW(fcvt_w_s, 0xc0200000, 0, 0,
             FIVE((uint32_t)-2, (uint32_t)-2, (uint32_t)-3, (uint32_t)-2, (uint32_t)-3), ALL(NX)),
         ROW(fcvt_w_s, 0xbf000000, 0, 0, FIVE(0, 0, (uint32_t)-1, 0, (uint32_t)-1), ALL(NX)),
         ROW(fcvt_w_s, 0x80000000, 0, 0, ALL(0), ALL(0)),
         ROW(fcvt_w_s, 0x4effffff, 0, 0, ALL(0x7fffff80), ALL(0)),
         ROW(fcvt_w_s, 0x4f000000, 0, 0, ALL(0x7fffffff), ALL(NV)),
         ROW(fcvt_w_s, 0xcf000000, 0, 0, ALL(0x80000000), ALL(0)),
         ROW(fcvt_w_s, 0xcf000001, 0, 0, ALL(0x80000000), ALL(NV)),
         ROW(fcvt_w_s, LARGEST, 0, 0, ALL(0x7fffffff), ALL(NV)),
         ROW(fcvt_w_s, INF, 0, 0, ALL(0x7fffffff), ALL(NV)),
         ROW(fcvt_w_s, MINUS(INF), 0, 0, ALL(0x80000000), ALL(NV)),
         ROW(fcvt_w_s, QUIET, 0, 0, ALL(0x7fffffff), ALL(NV)),
         ROW(fcvt_w_s, MINUS(QUIET), 0, 0, ALL(0x7fffffff), ALL(NV)),
         ROW(fcvt_wu_s, 0x40200000, 0, 0, FIVE(2, 2, 2, 3, 3), ALL(NX)),
         ROW(fcvt_wu_s, 0x4f7fffff, 0, 0, ALL(0xffffff00), ALL(0)),
         ROW(fcvt_wu_s, 0x4f800000, 0, 0, ALL(0xffffffff), ALL(NV)),
         ROW(fcvt_wu_s, MINUS(ONE), 0, 0, ALL(0), ALL(NV)),
         ROW(fcvt_wu_s, 0xbf000000, 0, 0, ALL(0), FIVE(NX, NX, NV, NX, NV)),
         ROW(fcvt_wu_s, MINUS(TINIEST), 0, 0, ALL(0), FIVE(NX, NX, NV, NX, NX)),
         ROW(fcvt_wu_s, 0x80000000, 0, 0, ALL(0), ALL(0)),
         ROW(fcvt_wu_s, QUIET, 0, 0, ALL(0xffffffff), ALL(NV)),
         ROW(fcvt_wu_s, SIGNALLING, 0, 0, ALL(0xffffffff), ALL(NV)),
         ROW(fcvt_wu_s, MINUS(INF), 0, 0, ALL(0), ALL(NV)));
    ROWS(false, ROW(fcvt_s_w, 0, 0, 0, ALL(0), ALL(0)), ROW(fcvt_s_w, 1, 0, 0, ALL(ONE), ALL(0)),
         ROW(fcvt_s_w, (uint32_t)-1, 0, 0, ALL(MINUS(ONE)), ALL(0)),
         ROW(fcvt_s_w, 0x80000000, 0, 0, ALL(0xcf000000), ALL(0)),
         ROW(fcvt_s_w, 0x7fffffff, 0, 0,
             FIVE(0x4f000000, 0x4effffff, 0x4effffff, 0x4f000000, 0x4f000000), ALL(NX)),
         ROW(fcvt_s_w, 16777217, 0, 0,
             FIVE(0x4b800000, 0x4b800000, 0x4b800000, 0x4b800001, 0x4b800001), ALL(NX)),
         ROW(fcvt_s_w, (uint32_t)-16777217, 0, 0,
             FIVE(0xcb800000, 0xcb800000, 0xcb800001, 0xcb800000, 0xcb800001), ALL(NX)),
         ROW(fcvt_s_wu, 0xffffffff, 0, 0,
             FIVE(0x4f800000, 0x4f7fffff, 0x4f7fffff, 0x4f800000, 0x4f800000), ALL(NX)),
         ROW(fcvt_s_wu, 0x80000000, 0, 0, ALL(0x4f000000), ALL(0)),
         ROW(fcvt_s_wu, 16777219, 0, 0,
             FIVE(0x4b800002, 0x4b800001, 0x4b800001, 0x4b800002, 0x4b800002), ALL(NX)));
}

/* Those without a rounding mode: they work whatever frm holds. */
static void check_plain(const char *name, uint32_t insn, uint32_t a, uint32_t b, bool to_x,
                        uint32_t want, uint32_t flags) {
    for (uint32_t frm = 0; frm < 8; frm++) {
        struct start s = {.f = {0, a, b}, .x[11] = a, .fcsr = frm << 5, .with_float = true};
        struct result r = run_one(insn, &s);
        uint32_t got = to_x ? r.x[10] : r.f[10];
        if (r.stop != HPU_DONE || got != want || r.fcsr != (frm << 5 | flags))
            TEST_FAIL("%s 0x%x, 0x%x, frm %u: 0x%x, fcsr 0x%x; expected 0x%x, flags 0x%x", name, a,
                      b, frm, got, r.fcsr, want, flags);
    }
}

TEST(minimum_and_maximum) {
    static const struct {
        uint32_t a, b, least, most, flags;
    } rows[] = {
        {ONE, TWO, ONE, TWO, 0},
        {TWO, ONE, ONE, TWO, 0},
        {MINUS(ONE), MINUS(TWO), MINUS(TWO), MINUS(ONE), 0},
        {0, 0x80000000, 0x80000000, 0, 0},
        {0x80000000, 0, 0x80000000, 0, 0},
        {INF, MINUS(INF), MINUS(INF), INF, 0},
        {TINIEST, MINUS(TINIEST), MINUS(TINIEST), TINIEST, 0},
        {ONE, ONE, ONE, ONE, 0},
        {QUIET, ONE, ONE, ONE, 0},
        {ONE, PAYLOAD, ONE, ONE, 0},
        {QUIET, PAYLOAD, QUIET, QUIET, 0},
        {SIGNALLING, ONE, ONE, ONE, NV},
        {ONE, SIGNALLING, ONE, ONE, NV},
        {SIGNALLING, QUIET, QUIET, QUIET, NV},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_plain("fmin", rv_fmin_s(10, 1, 2), rows[i].a, rows[i].b, false, rows[i].least,
                    rows[i].flags);
        check_plain("fmax", rv_fmax_s(10, 1, 2), rows[i].a, rows[i].b, false, rows[i].most,
                    rows[i].flags);
    }
}

TEST(comparisons) {
    static const struct {
        uint32_t a, b;
        bool eq, lt, le;
        uint32_t eq_flags, order_flags;
    } rows[] = {
        {ONE, TWO, 0, 1, 1, 0, 0},          {TWO, ONE, 0, 0, 0, 0, 0},
        {ONE, ONE, 1, 0, 1, 0, 0},          {0, 0x80000000, 1, 0, 1, 0, 0},
        {0x80000000, 0, 1, 0, 1, 0, 0},     {MINUS(INF), INF, 0, 1, 1, 0, 0},
        {INF, INF, 1, 0, 1, 0, 0},          {MINUS(TINIEST), 0, 0, 1, 1, 0, 0},
        {QUIET, ONE, 0, 0, 0, 0, NV},       {ONE, QUIET, 0, 0, 0, 0, NV},
        {QUIET, QUIET, 0, 0, 0, 0, NV},     {SIGNALLING, ONE, 0, 0, 0, NV, NV},
        {ONE, SIGNALLING, 0, 0, 0, NV, NV},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t a = rows[i].a, b = rows[i].b;
        check_plain("feq", rv_feq_s(10, 1, 2), a, b, true, rows[i].eq, rows[i].eq_flags);
        check_plain("flt", rv_flt_s(10, 1, 2), a, b, true, rows[i].lt, rows[i].order_flags);
        check_plain("fle", rv_fle_s(10, 1, 2), a, b, true, rows[i].le, rows[i].order_flags);
    }
}

TEST(signs_classes_and_moves) {
    static const uint32_t values[] = {0,     ONE,     MINUS(ONE),       INF, 0x80000000, SIGNALLING,
                                      QUIET, PAYLOAD, MINUS(SIGNALLING)};
    for (size_t i = 0; i < 9; i++)
        for (size_t k = 0; k < 9; k++) {
            uint32_t a = values[i], b = values[k], magnitude = a & 0x7fffffff;
            check_plain("fsgnj", rv_fsgnj_s(10, 1, 2), a, b, false, magnitude | (b & 0x80000000),
                        0);
            check_plain("fsgnjn", rv_fsgnjn_s(10, 1, 2), a, b, false, magnitude | (~b & 0x80000000),
                        0);
            check_plain("fsgnjx", rv_fsgnjx_s(10, 1, 2), a, b, false,
                        magnitude | ((a ^ b) & 0x80000000), 0);
        }
    static const struct {
        uint32_t value, bit;
    } classes[] = {{MINUS(INF), 0}, {MINUS(ONE), 1}, {MINUS(TINIEST), 2}, {0x80000000, 3},
                   {0, 4},          {0x007fffff, 5}, {LEAST, 6},          {INF, 7},
                   {SIGNALLING, 8}, {QUIET, 9},      {0xffbfffff, 8},     {0xffffffff, 9},
                   {LARGEST, 6},    {0x807fffff, 2}};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        check_plain("fclass", rv_fclass_s(10, 1), classes[i].value, 0, true, 1u << classes[i].bit,
                    0);
        check_plain("fmv.x.w", rv_fmv_x_w(10, 1), classes[i].value, 0, true, classes[i].value, 0);
        check_plain("fmv.w.x", rv_fmv_w_x(10, 11), classes[i].value, 0, false, classes[i].value, 0);
    }
}

TEST(memory_registers_and_flags) {
    struct start s = {.x[8] = DATA_BASE + 64, .x[2] = DATA_BASE + 64, .with_float = true};
    for (uint32_t i = 0; i < DATA_BYTES; i++)
        s.data[i] = (uint8_t)(i * 3 + 1);
    for (uint32_t i = 0; i < 32; i++)
        s.f[i] = 0x11111111 * (i % 15 + 1);
    for (int32_t offset = -9; offset < 9; offset++) {
        struct result r = run_one(rv_flw(0, 8, offset), &s); /* f0 is like the others */
        uint32_t want;
        memcpy(&want, &s.data[64 + offset], 4);
        CHECK_EQ(r.f[0], want);
        CHECK_EQ(r.fcsr, 0);
        r = run_one(rv_fsw(31, 8, offset), &s);
        CHECK(memcmp(&r.data[64 + offset], &s.f[31], 4) == 0);
        CHECK_EQ(r.data[64 + offset - 1], s.data[64 + offset - 1]);
        CHECK_EQ(r.data[64 + offset + 4], s.data[64 + offset + 4]);
    }
    const struct {
        uint32_t compressed, full;
    } pairs[] = {{c_flw(9, 8, 124), rv_flw(9, 8, 124)}, {c_fsw(15, 8, 0), rv_fsw(15, 8, 0)},
                 {c_flwsp(0, 252), rv_flw(0, 2, 252)},  {c_flwsp(31, 0), rv_flw(31, 2, 0)},
                 {c_fswsp(0, 252), rv_fsw(0, 2, 252)},  {c_fswsp(31, 4), rv_fsw(31, 2, 4)}};
    for (size_t i = 0; i < 6; i++) {
        struct result a = run_one(pairs[i].compressed, &s), b = run_one(pairs[i].full, &s);
        CHECK_EQ(a.stop, HPU_DONE);
        CHECK(memcmp(a.f, b.f, sizeof a.f) == 0);
        CHECK(memcmp(a.data, b.data, sizeof a.data) == 0);
        struct start without = s; /* a card without F has none of it */
        without.with_float = false;
        CHECK_EQ(run_one(pairs[i].compressed, &without).fault, HPU_FAULT_ILLEGAL);
        CHECK_EQ(run_one(pairs[i].full, &without).fault, HPU_FAULT_ILLEGAL);
    }
    /* Flags pile up; x0 takes no result, f0 does; the source may be the destination. */
    struct program p = {0};
    put(&p, rv_fdiv_s(4, 1, 0, RNE)); /* f0 is 0 here: DZ */
    put(&p, rv_fadd_s(5, 1, 2, RNE)); /* NX */
    put(&p, rv_feq_s(0, 1, 1));       /* into x0 */
    put(&p, rv_fadd_s(0, 1, 1, RNE));
    put(&p, rv_fadd_s(1, 1, 1, RNE));
    put(&p, rv_csrrs(10, 1, 0));
    put(&p, RV_RET);
    struct start t = {.f = {0, ONE, 0x33800000}, .with_float = true};
    struct result r = run_program(&p, &t);
    CHECK_EQ(r.x[10], DZ | NX);
    CHECK_EQ(r.x[0], 0);
    CHECK_EQ(r.f[0], TWO);
    CHECK_EQ(r.f[1], TWO);
}

TEST(reserved_rounding_modes) {
    const encoder rounding[] = {e_fmadd_s,   e_fmsub_s,  e_fnmsub_s, e_fnmadd_s, e_fadd_s,
                                e_fsub_s,    e_fmul_s,   e_fdiv_s,   e_fsqrt_s,  e_fcvt_w_s,
                                e_fcvt_wu_s, e_fcvt_s_w, e_fcvt_s_wu};
    for (size_t i = 0; i < sizeof rounding / sizeof rounding[0]; i++) {
        struct start s = {.f = {[1] = ONE, [2] = ONE, [10] = 77}, .x[10] = 77, .with_float = true};
        for (uint32_t rm = 5; rm < 7; rm++) {
            struct result r = run_one(rounding[i](rm), &s);
            CHECK_EQ(r.fault, HPU_FAULT_ILLEGAL);
            CHECK_EQ(r.pc, CODE_BASE);
        }
        for (uint32_t frm = 0; frm < 8; frm++) {
            s.fcsr = frm << 5;
            struct result r = run_one(rounding[i](DYN), &s);
            CHECK_EQ(r.fault, frm < 5 ? HPU_FAULT_NONE : HPU_FAULT_ILLEGAL);
            if (frm >= 5) {
                CHECK_EQ(r.f[10], 77); /* nothing was written */
                CHECK_EQ(r.x[10], 77);
                CHECK_EQ(r.fcsr, s.fcsr);
            }
            CHECK_EQ(run_one(rounding[i](RNE), &s).fault, HPU_FAULT_NONE);
        }
    }
}

/* The host's own unit, in the four modes that it has. */

static const uint32_t corners[] = {
    0,          TINIEST,    2,          3,          0x003fffff, 0x007ffffe, 0x007fffff,
    LEAST,      0x00800001, 0x00ffffff, 0x01000000, 0x1f800000, 0x20000001, 0x33800000,
    0x33800001, 0x33ffffff, 0x34000000, 0x3effffff, HALF,       0x3f7fffff, ONE,
    0x3f800001, 0x3fc00000, TWO,        0x40400000, 0x4b000001, 0x4b7fffff, 0x5f800000,
    0x7e800000, 0x7f000000, 0x7f7ffffe, LARGEST,    INF,        QUIET,      SIGNALLING,
};
#define CORNERS (sizeof corners / sizeof corners[0])

static float as_float(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint32_t as_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return isnan(f) ? QUIET : u;
}

struct answer {
    uint32_t value, flags;
};

/* volatile keeps the operation where the mode is set */
static __attribute__((noinline)) struct answer host_answer(unsigned id, uint32_t a, uint32_t b,
                                                           uint32_t c, int mode) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    volatile float x = as_float(a), y = as_float(b), z = as_float(c), r = 0;
    fesetround(modes[mode]);
    feclearexcept(FE_ALL_EXCEPT);
    switch (id) {
    case HPU_FADD_S:
        r = x + y;
        break;
    case HPU_FSUB_S:
        r = x - y;
        break;
    case HPU_FMUL_S:
        r = x * y;
        break;
    case HPU_FDIV_S:
        r = x / y;
        break;
    case HPU_FSQRT_S:
        r = sqrtf(x);
        break;
    case HPU_FMADD_S:
        r = fmaf(x, y, z);
        break;
    }
    int raised = fetestexcept(FE_ALL_EXCEPT);
    fesetround(FE_TONEAREST);
    uint32_t flags = (raised & FE_INEXACT ? NX : 0) | (raised & FE_UNDERFLOW ? UF : 0) |
                     (raised & FE_OVERFLOW ? OF : 0) | (raised & FE_DIVBYZERO ? DZ : 0) |
                     (raised & FE_INVALID ? NV : 0);
    return (struct answer){as_bits(r), flags};
}

static struct answer our_answer(struct hpu *h, uint32_t insn, uint32_t a, uint32_t b, uint32_t c) {
    struct hpu_insn in = hpu_decode(insn, true);
    h->f[1] = a, h->f[2] = b, h->f[3] = c;
    h->fcsr = 0;
    CHECK(hpu_float(h, &in));
    return (struct answer){h->f[10], h->fcsr};
}

static void against_host(struct hpu *h, const char *name, encoder encode, uint32_t a, uint32_t b,
                         uint32_t c) {
    struct answer ours[MODES];
    for (uint32_t mode = 0; mode < MODES; mode++)
        ours[mode] = our_answer(h, encode(mode), a, b, c);
    for (uint32_t mode = 0; mode < 4; mode++) {
        struct answer host = host_answer(hpu_decode(encode(mode), true).id, a, b, c, (int)mode);
        if (ours[mode].value != host.value || ours[mode].flags != host.flags)
            TEST_FAIL("%s 0x%x, 0x%x, 0x%x in mode %u: 0x%x flags 0x%x, host 0x%x flags 0x%x", name,
                      a, b, c, mode, ours[mode].value, ours[mode].flags, host.value, host.flags);
    }
    /* To the nearest, ties away from zero: as to even, but for a tie, which goes outwards. */
    uint32_t away = ours[RMM].value, even = ours[RNE].value;
    if (away != even) {
        CHECK_EQ(even & 1, 0);
        CHECK_EQ(away, even + 1);
        CHECK(away == ours[RUP].value || away == ours[RDN].value);
    }
}

TEST(corners_as_the_host_computes_them) {
#if !defined __x86_64__
    TEST_SKIP("only x86 detects underflow after rounding, as RISC-V does");
#endif
    static struct hpu h;
    struct hpu_code *code =
        hpu_code_new((const uint8_t *)"", CODE_BASE, 0, HPU_FUNCTIONAL, &hpu_timing_unit, true);
    CHECK(code);
    hpu_init(&h, code, 0);
    for (size_t i = 0; i < 2 * CORNERS; i++) {
        uint32_t a = corners[i / 2] | (uint32_t)(i % 2) << 31;
        against_host(&h, "fsqrt", e_fsqrt_s, a, 0, 0);
        for (size_t k = 0; k < 2 * CORNERS; k++) {
            uint32_t b = corners[k / 2] | (uint32_t)(k % 2) << 31;
            against_host(&h, "fadd", e_fadd_s, a, b, 0);
            against_host(&h, "fsub", e_fsub_s, a, b, 0);
            against_host(&h, "fmul", e_fmul_s, a, b, 0);
            against_host(&h, "fdiv", e_fdiv_s, a, b, 0);
            for (size_t m = 0; m < 2 * CORNERS; m += 3) {
                uint32_t c = corners[m / 2] | (uint32_t)(m % 2) << 31;
                bool zero_times_infinity = ((a & 0x7fffffff) == 0 && (b & 0x7fffffff) == INF) ||
                                           ((b & 0x7fffffff) == 0 && (a & 0x7fffffff) == INF);
                if (!zero_times_infinity) /* beside a NaN hosts differ from the manual */
                    against_host(&h, "fmadd", e_fmadd_s, a, b, c);
            }
        }
    }
    hpu_code_free(code);
}

TEST(no_instruction_was_left_out) {
#define INSN(id, name, operands, match, mask, ext, timing, shape, body)                            \
    if (HPU_EXT_##ext == HPU_EXT_F && (!machine_ran[HPU_##id] || !machine_compiled[HPU_##id]))     \
        TEST_FAIL("no test has run %s", name);
#include "hpu/isa.def"
#undef INSN
}

TEST_MAIN
