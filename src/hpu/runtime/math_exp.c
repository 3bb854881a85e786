/* math.h: exponentials, logarithms and powers.
 *
 * Logarithms are computed as a sum of two doubles, of which the second has the digits that the
 * first lost: a power multiplies them by y, and what was rounded away would come back. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define LN2_HIGH 0x1.62e42fefa2000p-1 /* 40 bits: times an exponent it is exact */
#define LN2_LOW  0x1.9ef35793c7673p-41

struct pair {
    double high, low;
};

/* |a| >= |b|, or a is 0 */
static struct pair sum(double a, double b) {
    double s = a + b;
    return (struct pair){s, b - (s - a)};
}

/* The halves of a have 26 bits each, so that products of them are exact. */
static struct pair halves(double a) {
    double c = a * 0x1.0000002p27, high = c - (c - a);
    return (struct pair){high, a - high};
}

static struct pair product(double a, double b) {
    struct pair x = halves(a), y = halves(b);
    double p = a * b;
    return (struct pair){p,
                         ((x.high * y.high - p) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

static struct pair times(struct pair a, struct pair b) {
    struct pair p = product(a.high, b.high);
    return sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

/* e^r for |r| < 0.35: its series, without the 1. */
static double series(double r) {
    static const double factor[] = {
        1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0, 1 / 40320.0,
        1 / 5040.0,       1 / 720.0,       1 / 120.0,      1 / 24.0,      1 / 6.0,      1 / 2.0,
    };
    double s = 0;
    for (unsigned i = 0; i < sizeof factor / sizeof factor[0]; i++)
        s = s * r + factor[i];
    return r + r * (r * s);
}

/* e^(x + low) = 2^k (1 + rest), low being small */
static double halvings(double x, double low, int *k) {
    *k = (int)rint(x * M_LOG2E);
    struct pair r = sum(x - *k * LN2_HIGH, low - *k * LN2_LOW);
    double s = series(r.high);
    return s + (r.low + r.low * s);
}

static double exponential(double x, double low) {
    if (x > 709.8)
        return HUGE_VAL;
    if (x < -745.2)
        return 0;
    int k;
    double rest = halvings(x, low, &k);
    return ldexp(1 + rest, k);
}

double exp(double x) {
    return x != x ? x : exponential(x, 0);
}

double exp2(double x) {
    if (x != x || x > 1100 || x < -1100)
        return x != x ? x : x > 0 ? HUGE_VAL : 0;
    double whole = rint(x), part = x - whole;
    struct pair p = times((struct pair){part, 0}, (struct pair){LN2_HIGH, LN2_LOW});
    return ldexp(exponential(p.high, p.low), (int)whole);
}

double expm1(double x) {
    int k;
    if (x != x || x == 0)
        return x;
    if (fabs(x) > 40)
        return exponential(x, 0) - 1;
    double rest = halvings(x, 0, &k);
    return (ldexp(1, k) - 1) + ldexp(rest, k);
}

/* ln m for m from sqrt(1/2) to sqrt(2): with s = (m - 1) / (m + 1) it is 2 s + 2/3 s^3 + ... */
static struct pair log_of_mantissa(double m) {
    static const double factor[] = {2 / 25.0, 2 / 23.0, 2 / 21.0, 2 / 19.0, 2 / 17.0, 2 / 15.0,
                                    2 / 13.0, 2 / 11.0, 2 / 9.0,  2 / 7.0,  2 / 5.0,  2 / 3.0};
    double f = m - 1, d = m + 1, d_low = m - (d - 1), s = f / d;
    struct pair p = product(s, d);
    double s_low = ((f - p.high) - p.low - s * d_low) / d, z = s * s, t = 0;
    for (unsigned i = 0; i < sizeof factor / sizeof factor[0]; i++)
        t = (t + factor[i]) * z;
    return sum(2 * s, 2 * s_low + s * t);
}

/* x is positive and finite. */
static double reduce(double x, int *exponent) {
    double m = frexp(x, exponent);
    if (m >= M_SQRT1_2)
        return m;
    --*exponent;
    return 2 * m;
}

static struct pair logarithm(double x) {
    int exponent;
    struct pair l = log_of_mantissa(reduce(x, &exponent));
    if (!exponent)
        return l;
    struct pair all = sum(exponent * LN2_HIGH, l.high);
    return sum(all.high, all.low + (l.low + exponent * LN2_LOW));
}

/* What all logarithms say of x: true, or it is ordinary. */
static bool special(double x, double *log_of_x) {
    if (x > 0 && !isinf(x))
        return false;
    *log_of_x = x == 0 ? -HUGE_VAL : x < 0 ? (x - x) / (x - x) : x;
    if (isinf(x) && x < 0)
        *log_of_x = x - x;
    return true;
}

double log(double x) {
    double of;
    if (special(x, &of))
        return of;
    struct pair l = logarithm(x);
    return l.high + l.low;
}

double log2(double x) {
    double of;
    int exponent;
    if (special(x, &of))
        return of;
    struct pair l = log_of_mantissa(reduce(x, &exponent));
    l = times(l, (struct pair){0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56});
    struct pair all = sum(exponent, l.high);
    return exponent ? all.high + (all.low + l.low) : l.high + l.low;
}

double log10(double x) {
    double of;
    if (special(x, &of))
        return of;
    struct pair l = times(logarithm(x), (struct pair){0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57});
    return l.high + l.low;
}

/* ln(1 + x): what 1 + x loses is put back by the derivative. */
double log1p(double x) {
    double u = 1 + x, of;
    if (special(u, &of))
        return of;
    if (fabs(x) < 0x1p-54)
        return x;
    struct pair l = logarithm(u);
    double lost = fabs(x) < 1 ? x - (u - 1) : 1 - (u - x);
    return l.high + (l.low + lost / u);
}

/* 0: y is no integer; 1: odd; 2: even */
static int parity(double y) {
    if (fabs(y) >= 0x1p53)
        return 2;
    if (trunc(y) != y)
        return 0;
    return (int64_t)y & 1 ? 1 : 2;
}

double pow(double x, double y) {
    if (y == 0 || x == 1)
        return 1;
    if (x != x || y != y)
        return x + y;
    int kind = parity(y);
    double size = fabs(x), result;
    if (isinf(y)) {
        return size == 1 ? 1 : (size > 1) == (y > 0) ? HUGE_VAL : 0;
    } else if (x == 0 || isinf(x)) {
        result = (x == 0) == (y > 0) ? 0 : HUGE_VAL;
    } else {
        if (x < 0 && !kind)
            return (x - x) / (x - x);
        struct pair l = logarithm(size), p;
        if (size == 1 || fabs(l.high * y) > 800) { /* y may be too large for halves */
            result = size == 1 ? 1 : l.high * y > 0 ? HUGE_VAL : 0;
        } else {
            p = product(l.high, y);
            result = exponential(p.high, p.low + l.low * y);
        }
    }
    return signbit(x) && kind == 1 ? -result : result;
}

/* By e^x - 1, which has the digits near 0. */
double sinh(double x) {
    double e = expm1(fabs(x));
    if (x != x)
        return x;
    if (fabs(x) > 709) { /* e^x may be too large where its half is not */
        double half = exponential(fabs(x) / 2, 0);
        return copysign(half / 2 * half, x);
    }
    return copysign((e + e / (e + 1)) / 2, x);
}

double cosh(double x) {
    double half = x != x ? x : exponential(fabs(x) / 2, 0), e = half * half;
    if (x != x || fabs(x) > 709)
        return half / 2 * half;
    e = exponential(fabs(x), 0);
    return (e + 1 / e) / 2;
}

double tanh(double x) {
    double e = x != x || fabs(x) > 22 ? 0 : expm1(2 * fabs(x));
    return x != x ? x : copysign(fabs(x) > 22 ? 1 : e / (e + 2), x);
}

#define OF_FLOAT(name)                                                                             \
    float name##f(float x) {                                                                       \
        return (float)name(x);                                                                     \
    }
OF_FLOAT(exp)
OF_FLOAT(exp2)
OF_FLOAT(expm1)
OF_FLOAT(log)
OF_FLOAT(log2)
OF_FLOAT(log10)
OF_FLOAT(log1p)
OF_FLOAT(sinh)
OF_FLOAT(cosh)
OF_FLOAT(tanh)
#undef OF_FLOAT

float powf(float x, float y) {
    return (float)pow(x, y);
}
