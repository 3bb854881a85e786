/* RV32F on integers and doubles.
 *
 * Design notes. Every operand is a float, so a double holds it exactly, and a double's exponent
 * range and 53 bits are enough to hold any result of one operation "rounded to odd": truncated,
 * with the last bit set if anything was cut off. Rounding such a value once more, to float and in
 * any of the five modes, gives the correctly rounded result (53 >= 24 + 2). So an operation is:
 * compute in double, learn from an exact residue (two-sum, or a fused multiply-add) whether it was
 * cut, make it odd, and round by integer arithmetic, which also tells the flags. No host rounding
 * mode or host flag is touched, and every machine gives the same bits. Most sums and products need
 * none of the last steps (is_usual). */
#include <math.h>
#include <string.h>

#include "hpu/interp.h"

enum { NX = 1, UF = 2, OF = 4, DZ = 8, NV = 16 };
enum { RNE, RTZ, RDN, RUP, RMM, DYN = 7 };

#define CANONICAL_NAN 0x7fc00000u
#define SIGN          0x80000000u
#define INFINITE      0x7f800000u

static double to_double(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return (double)f; /* exact; signalling NaNs are dealt with before */
}

static uint64_t double_bits(double d) {
    uint64_t u;
    memcpy(&u, &d, 8);
    return u;
}

static double bits_double(uint64_t u) {
    double d;
    memcpy(&d, &u, 8);
    return d;
}

static bool is_nan(uint32_t u) {
    return (u & ~SIGN) > INFINITE;
}
static bool is_inf(uint32_t u) {
    return (u & ~SIGN) == INFINITE;
}
static bool is_zero(uint32_t u) {
    return (u & ~SIGN) == 0;
}
static bool is_signalling(uint32_t u) {
    return is_nan(u) && !(u & 0x00400000);
}

/* Round to odd: `d` is the nearest double and `residue` what is missing (only its sign counts). */
static double make_odd(double d, double residue) {
    if (residue == 0)
        return d;
    uint64_t u = double_bits(d);
    if (u & 1)
        return d;
    /* d is even, so it was rounded away from or towards zero: step towards the true value. */
    bool away = (residue > 0) != (d > 0);
    return bits_double(away ? u - 1 : u + 1);
}

/* Whether to add one in the last place, given the last kept bit and what was cut off. */
static bool round_up(int mode, bool negative, bool odd, bool half, bool sticky) {
    switch (mode) {
    case RNE:
        return half && (sticky || odd);
    case RDN:
        return negative && (half || sticky);
    case RUP:
        return !negative && (half || sticky);
    case RMM:
        return half;
    }
    return false;
}

/* The mantissa `m` shifted right by `shift` (1 to 63) and rounded. */
static uint64_t shift_round(uint64_t m, int shift, int mode, bool negative, bool *inexact) {
    uint64_t kept = shift > 63 ? 0 : m >> shift;
    bool half = shift <= 64 && (m >> (shift - 1) & 1);
    bool sticky = shift > 64 ? m != 0 : (m & ((1ull << (shift - 1)) - 1)) != 0;
    *inexact = half || sticky;
    return kept + round_up(mode, negative, kept & 1, half, sticky);
}

/* An odd-rounded double to a float. */
static uint32_t round_float(double d, int mode, uint32_t *flags) {
    uint64_t u = double_bits(d);
    bool negative = u >> 63, inexact;
    uint32_t sign = negative ? SIGN : 0;
    int exponent = (int)(u >> 52 & 0x7ff) - 1023;
    if (exponent == -1023)
        return sign; /* zero: no result of floats is a subnormal double */
    uint64_t m = (u & ((1ull << 52) - 1)) | 1ull << 52;
    if (exponent < -126) {
        /* Tiny? The manual detects it after rounding, as if the exponent had no bound. */
        bool ignored;
        bool tiny = exponent < -127 || shift_round(m, 29, mode, negative, &ignored) < 1ull << 24;
        int shift = 29 + (-126 - exponent);
        uint64_t kept = shift_round(m, shift > 63 ? 63 : shift, mode, negative, &inexact);
        if (inexact)
            *flags |= NX | (tiny ? UF : 0);
        return sign | (uint32_t)kept; /* a carry makes it the least normal number by itself */
    }
    uint64_t kept = shift_round(m, 29, mode, negative, &inexact);
    if (kept == 1ull << 24) {
        kept >>= 1;
        exponent++;
    }
    if (exponent > 127) {
        *flags |= OF | NX;
        bool to_max = mode == RTZ || (mode == RDN && !negative) || (mode == RUP && negative);
        return sign | (to_max ? INFINITE - 1 : INFINITE);
    }
    if (inexact)
        *flags |= NX;
    return sign | (uint32_t)(exponent + 127) << 23 | ((uint32_t)kept & 0x7fffff);
}

static uint32_t nan_result(uint32_t *flags, bool invalid) {
    if (invalid)
        *flags |= NV;
    return CANONICAL_NAN;
}

/* a + b for doubles that are exact; zero results take the sign that the mode asks for. */
static uint32_t sum(double a, double b, int mode, uint32_t *flags) {
    double s = a + b;
    double bb = s - a, residue = (a - (s - bb)) + (b - bb); /* two-sum: exact */
    if (s == 0 && residue == 0 && !(signbit(a) && signbit(b)) && (signbit(a) || signbit(b)))
        return mode == RDN ? SIGN : 0; /* x - x, or zeroes of both signs */
    return round_float(make_odd(s, residue), mode, flags);
}

static uint32_t add(uint32_t a, uint32_t b, int mode, uint32_t *flags) {
    if (is_nan(a) || is_nan(b))
        return nan_result(flags, is_signalling(a) || is_signalling(b));
    if (is_inf(a) && is_inf(b) && a != b)
        return nan_result(flags, true);
    if (is_inf(a) || is_inf(b))
        return is_inf(a) ? a : b;
    return sum(to_double(a), to_double(b), mode, flags);
}

static uint32_t multiply(uint32_t a, uint32_t b, int mode, uint32_t *flags) {
    if (is_nan(a) || is_nan(b))
        return nan_result(flags, is_signalling(a) || is_signalling(b));
    if ((is_inf(a) && is_zero(b)) || (is_zero(a) && is_inf(b)))
        return nan_result(flags, true);
    if (is_inf(a) || is_inf(b))
        return ((a ^ b) & SIGN) | INFINITE;
    return round_float(to_double(a) * to_double(b), mode, flags); /* 48 bits: exact */
}

static uint32_t divide(uint32_t a, uint32_t b, int mode, uint32_t *flags) {
    uint32_t sign = (a ^ b) & SIGN;
    if (is_nan(a) || is_nan(b))
        return nan_result(flags, is_signalling(a) || is_signalling(b));
    if ((is_inf(a) && is_inf(b)) || (is_zero(a) && is_zero(b)))
        return nan_result(flags, true);
    if (is_inf(a) || is_zero(b)) {
        if (!is_inf(a))
            *flags |= DZ;
        return sign | INFINITE;
    }
    if (is_inf(b) || is_zero(a))
        return sign;
    double n = to_double(a), d = to_double(b), q = n / d;
    double residue = fma(-q, d, n); /* exact; its sign over d's tells where n / d lies */
    return round_float(make_odd(q, d > 0 ? residue : -residue), mode, flags);
}

static uint32_t square_root(uint32_t a, int mode, uint32_t *flags) {
    if (is_nan(a))
        return nan_result(flags, is_signalling(a));
    if (is_zero(a))
        return a;
    if (a & SIGN)
        return nan_result(flags, true);
    if (is_inf(a))
        return a;
    double d = to_double(a), q = sqrt(d);
    return round_float(make_odd(q, fma(-q, q, d)), mode, flags);
}

/* a * b + c with one rounding. */
static uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c, int mode, uint32_t *flags) {
    bool invalid = (is_inf(a) && is_zero(b)) || (is_zero(a) && is_inf(b));
    if (is_nan(a) || is_nan(b) || is_nan(c) || invalid)
        return nan_result(flags,
                          invalid || is_signalling(a) || is_signalling(b) || is_signalling(c));
    uint32_t product_sign = (a ^ b) & SIGN;
    if (is_inf(a) || is_inf(b)) {
        if (is_inf(c) && (c & SIGN) != product_sign)
            return nan_result(flags, true);
        return product_sign | INFINITE;
    }
    if (is_inf(c))
        return c;
    return sum(to_double(a) * to_double(b), to_double(c), mode, flags);
}

static uint32_t least_or_most(uint32_t a, uint32_t b, bool most, uint32_t *flags) {
    if (is_signalling(a) || is_signalling(b))
        *flags |= NV;
    if (is_nan(a) && is_nan(b))
        return CANONICAL_NAN;
    if (is_nan(a) || is_nan(b))
        return is_nan(a) ? b : a;
    if (is_zero(a) && is_zero(b)) /* -0 is less than +0 */
        return most ? a & b : a | b;
    return (to_double(a) < to_double(b)) != most ? a : b;
}

static uint32_t compare(unsigned id, uint32_t a, uint32_t b, uint32_t *flags) {
    if (is_nan(a) || is_nan(b)) {
        if (id != HPU_FEQ_S || is_signalling(a) || is_signalling(b))
            *flags |= NV;
        return 0;
    }
    double p = to_double(a), q = to_double(b);
    return id == HPU_FEQ_S ? p == q : id == HPU_FLT_S ? p < q : p <= q;
}

static uint32_t to_integer(uint32_t a, bool is_signed, int mode, uint32_t *flags) {
    uint32_t most = is_signed ? 0x7fffffffu : UINT32_MAX, least = is_signed ? SIGN : 0;
    if (is_nan(a)) {
        *flags |= NV;
        return most;
    }
    bool negative = a >> 31, inexact = false;
    uint64_t magnitude = UINT64_MAX; /* stands for anything too large */
    int exponent = (int)(a >> 23 & 0xff) - 127;
    if (exponent < 40) { /* also not infinite */
        uint64_t m = exponent == -127 ? a & 0x7fffff : (a & 0x7fffff) | 0x800000;
        int shift = 23 - (exponent == -127 ? -126 : exponent);
        magnitude = shift <= 0 ? m << -shift
                               : shift_round(m, shift > 63 ? 63 : shift, mode, negative, &inexact);
    }
    uint64_t room = negative ? (is_signed ? 0x80000000ull : 0) : most;
    if (magnitude > room) {
        *flags |= NV;
        return negative ? least : most;
    }
    if (inexact)
        *flags |= NX;
    return negative ? 0 - (uint32_t)magnitude : (uint32_t)magnitude;
}

static uint32_t classify(uint32_t a) {
    bool negative = a >> 31;
    if (is_nan(a))
        return is_signalling(a) ? 1u << 8 : 1u << 9;
    if (is_inf(a))
        return negative ? 1u << 0 : 1u << 7;
    if (is_zero(a))
        return negative ? 1u << 3 : 1u << 4;
    if (!(a & INFINITE)) /* subnormal */
        return negative ? 1u << 2 : 1u << 5;
    return negative ? 1u << 1 : 1u << 6;
}

/* Sums and products as most are: rounded to the nearest float, which is neither tiny nor infinite.
 * A double has more than twice a float's bits, so rounding to it first changes nothing (53 >= 2 *
 * 24 + 2); but for a fused sum that lies between two floats, where what was lost decides. False:
 * the operation is another, or its result. */
static bool is_usual(unsigned id, const uint32_t operand[3], uint32_t *result, uint32_t *flags) {
    double x = to_double(operand[0]), y = to_double(operand[1]), z = to_double(operand[2]);
    bool is_fused = false;
    switch (id) {
    case HPU_FADD_S:
        break;
    case HPU_FSUB_S:
        y = -y;
        break;
    case HPU_FMUL_S:
        x *= y; /* exact */
        y = x == 0 ? x : 0;
        break;
    case HPU_FMADD_S:
    case HPU_FMSUB_S:
    case HPU_FNMSUB_S:
    case HPU_FNMADD_S:
        is_fused = true;
        x *= id == HPU_FNMSUB_S || id == HPU_FNMADD_S ? -y : y;
        y = id == HPU_FMSUB_S || id == HPU_FNMADD_S ? -z : z;
        break;
    default:
        return false;
    }
    double sum = x + y, part = sum - x, lost = (x - (sum - part)) + (y - part);
    if (is_fused && lost != 0 && (double_bits(sum) & 0x1fffffff) == 0x10000000)
        return false;
    float nearest = (float)sum;
    memcpy(result, &nearest, 4);
    uint32_t exponent = *result & INFINITE;
    bool is_exact = (double)nearest == sum && lost == 0;
    *flags = is_exact ? 0 : NX;
    return exponent != INFINITE && (is_exact || exponent >= 0x01000000);
}

bool hpu_float(struct hpu *h, const struct hpu_insn *in) {
    uint32_t *f = h->f, a = f[in->rs1], b = f[in->rs2], c = f[in->rs3], flags = 0, r;
    uint32_t x = h->x[in->rs1];
    int mode = in->rm == DYN ? (int)(h->fcsr >> 5) : in->rm;
    if (mode > RMM)
        return false;
    if (mode == RNE && is_usual(in->id, (const uint32_t[]){a, b, c}, &r, &flags)) {
        h->fcsr |= flags;
        f[in->rd] = r;
        return true;
    }
    flags = 0;
    bool to_x = hpu_insn_info(in->id)->operands == OPERANDS_XF ||
                hpu_insn_info(in->id)->operands == OPERANDS_XFF ||
                hpu_insn_info(in->id)->operands == OPERANDS_XFM;
    switch (in->id) {
    case HPU_FADD_S:
        r = add(a, b, mode, &flags);
        break;
    case HPU_FSUB_S:
        r = add(a, is_nan(b) ? b : b ^ SIGN, mode, &flags);
        break;
    case HPU_FMUL_S:
        r = multiply(a, b, mode, &flags);
        break;
    case HPU_FDIV_S:
        r = divide(a, b, mode, &flags);
        break;
    case HPU_FSQRT_S:
        r = square_root(a, mode, &flags);
        break;
    case HPU_FMADD_S:
        r = multiply_add(a, b, c, mode, &flags);
        break;
    case HPU_FMSUB_S:
        r = multiply_add(a, b, is_nan(c) ? c : c ^ SIGN, mode, &flags);
        break;
    case HPU_FNMSUB_S:
        r = multiply_add(is_nan(a) ? a : a ^ SIGN, b, c, mode, &flags);
        break;
    case HPU_FNMADD_S:
        r = multiply_add(is_nan(a) ? a : a ^ SIGN, b, is_nan(c) ? c : c ^ SIGN, mode, &flags);
        break;
    case HPU_FSGNJ_S:
        r = (a & ~SIGN) | (b & SIGN);
        break;
    case HPU_FSGNJN_S:
        r = (a & ~SIGN) | (~b & SIGN);
        break;
    case HPU_FSGNJX_S:
        r = a ^ (b & SIGN);
        break;
    case HPU_FMIN_S:
    case HPU_FMAX_S:
        r = least_or_most(a, b, in->id == HPU_FMAX_S, &flags);
        break;
    case HPU_FEQ_S:
    case HPU_FLT_S:
    case HPU_FLE_S:
        r = compare(in->id, a, b, &flags);
        break;
    case HPU_FCVT_W_S:
    case HPU_FCVT_WU_S:
        r = to_integer(a, in->id == HPU_FCVT_W_S, mode, &flags);
        break;
    case HPU_FCVT_S_W: /* 32 bits fit a double */
        r = round_float((double)(int32_t)x, mode, &flags);
        break;
    case HPU_FCVT_S_WU:
        r = round_float((double)x, mode, &flags);
        break;
    case HPU_FCLASS_S:
        r = classify(a);
        break;
    case HPU_FMV_X_W:
        r = a;
        break;
    case HPU_FMV_W_X:
        r = x;
        break;
    default:
        return false;
    }
    h->fcsr |= flags;
    if (!to_x)
        f[in->rd] = r;
    else if (in->rd)
        h->x[in->rd] = r;
    return true;
}
