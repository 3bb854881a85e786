/* math.h: what works on the bits of a number, and square roots. All of it is exact or rounded
 * correctly but hypot and cbrt. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define SIGN      0x8000000000000000ull
#define FRACTION  0x000fffffffffffffull
#define INFINITE  0x7ff0000000000000ull
#define BIAS      1023
#define FRACTIONS 52 /* bits */

static uint64_t bits_of(double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double number_of(uint64_t bits) {
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

static int exponent_of(uint64_t bits) {
    return (int)(bits >> FRACTIONS & 0x7ff);
}

double fabs(double x) {
    return number_of(bits_of(x) & ~SIGN);
}

double copysign(double x, double y) {
    return number_of((bits_of(x) & ~SIGN) | (bits_of(y) & SIGN));
}

double fmin(double x, double y) {
    return x != x ? y : y != y ? x : x < y ? x : y;
}

double fmax(double x, double y) {
    return x != x ? y : y != y ? x : x > y ? x : y;
}

double fdim(double x, double y) {
    return x != x || y != y ? x + y : x > y ? x - y : 0;
}

double trunc(double x) {
    uint64_t bits = bits_of(x);
    int below = BIAS + FRACTIONS - exponent_of(bits); /* so many bits are after the point */
    if (below <= 0)
        return x;
    return number_of(below > FRACTIONS ? bits & SIGN : bits & ~0ull << below);
}

double floor(double x) {
    double whole = trunc(x);
    return whole > x ? whole - 1 : whole;
}

double ceil(double x) {
    double whole = trunc(x);
    return whole < x ? copysign(whole + 1, x) : whole;
}

double round(double x) {
    double whole = trunc(x);
    return fabs(x - whole) >= 0.5 ? whole + copysign(1, x) : whole;
}

/* To even: a double with 2^52 added has no bits after the point. */
double rint(double x) {
    volatile double large = copysign(0x1p52, x);
    if (fabs(x) >= 0x1p52 || x != x)
        return x;
    volatile double sum = x + large;
    return copysign(sum - large, x);
}

double nearbyint(double x) {
    return rint(x);
}

long lround(double x) {
    return (long)round(x);
}

long lrint(double x) {
    return (long)rint(x);
}

double modf(double x, double *whole) {
    *whole = trunc(x);
    return copysign(isinf(x) ? 0 : x - *whole, x);
}

double frexp(double x, int *exponent) {
    uint64_t bits = bits_of(x);
    *exponent = 0;
    if (x == 0 || exponent_of(bits) == 0x7ff)
        return x;
    if (!exponent_of(bits)) { /* subnormal */
        x = frexp(x * 0x1p64, exponent);
        *exponent -= 64;
        return x;
    }
    *exponent = exponent_of(bits) - (BIAS - 1);
    return number_of((bits & ~INFINITE) | (uint64_t)(BIAS - 1) << FRACTIONS);
}

/* In steps, so that only the last one rounds. */
double ldexp(double x, int exponent) {
    for (int i = 0; i < 2 && exponent > 1023; i++, exponent -= 1023)
        x *= 0x1p1023;
    for (int i = 0; i < 2 && exponent < -1022; i++, exponent += 969)
        x *= 0x1p-969; /* 2^53 above the smallest, so that what is subnormal is so at the end */
    exponent = exponent > 1023 ? 1023 : exponent < -1022 ? -1022 : exponent;
    return x * number_of((uint64_t)(BIAS + exponent) << FRACTIONS);
}

double scalbn(double x, int exponent) {
    return ldexp(x, exponent);
}

/* A finite positive number is mantissa * 2^exponent, with the mantissa's bit 52 set. */
static uint64_t mantissa_of(uint64_t bits, int *exponent) {
    uint64_t mantissa = bits & FRACTION;
    *exponent = exponent_of(bits);
    if (*exponent)
        return mantissa | 1ull << FRACTIONS;
    for (*exponent = 1; !(mantissa >> FRACTIONS); --*exponent)
        mantissa <<= 1;
    return mantissa;
}

double fmod(double x, double y) {
    uint64_t a = bits_of(x) & ~SIGN, b = bits_of(y) & ~SIGN;
    int of_a, of_b;
    if (!b || a >= INFINITE || b > INFINITE)
        return (x * y) / (x * y); /* no number */
    if (a < b)
        return x;
    uint64_t m = mantissa_of(a, &of_a), n = mantissa_of(b, &of_b);
    for (; of_a > of_b; of_a--) {
        m = m >= n ? m - n : m;
        m <<= 1;
    }
    m = m >= n ? m - n : m;
    if (!m)
        return copysign(0, x);
    return copysign(ldexp((double)m, of_b - BIAS - FRACTIONS), x);
}

/* Digit by digit in integers; the bit after the last rounds. */
double sqrt(double x) {
    uint64_t bits = bits_of(x), root = 0, left;
    int exponent;
    if (x != x || x == 0 || bits == INFINITE)
        return x;
    if (bits & SIGN)
        return (x - x) / (x - x);
    left = mantissa_of(bits, &exponent);
    exponent -= BIAS;
    if (exponent & 1) {
        left <<= 1;
        exponent--;
    }
    left <<= 1; /* the root has 53 bits, and one to round by */
    for (uint64_t digit = 1ull << 53; digit; digit >>= 1, left <<= 1) {
        uint64_t with = 2 * root + digit;
        if (left >= with) {
            left -= with;
            root += digit;
        }
    }
    root = (root >> 1) + (root & 1);
    return number_of(root + ((uint64_t)(exponent / 2 + BIAS - 1) << FRACTIONS));
}

double hypot(double x, double y) {
    double large = fmax(fabs(x), fabs(y)), small = fmin(fabs(x), fabs(y));
    if (isinf(x) || isinf(y))
        return INFINITY;
    if (x != x || y != y)
        return x + y;
    int exponent;
    if (large == 0 || large > small * 0x1p60)
        return large;
    frexp(large, &exponent); /* squares must neither overflow nor vanish */
    large = ldexp(large, -exponent);
    small = ldexp(small, -exponent);
    return ldexp(sqrt(large * large + small * small), exponent);
}

/* A guess of 5 bits, doubled four times. */
double cbrt(double x) {
    int exponent;
    double m = frexp(fabs(x), &exponent);
    if (x == 0 || x != x || isinf(x))
        return x;
    int third = exponent / 3, rest = exponent - 3 * third;
    m = ldexp(m, rest);
    double root = 0.5 + m * 0.5;
    for (int i = 0; i < 8; i++)
        root -= (root * root * root - m) / (3 * root * root);
    return copysign(ldexp(root, third), x);
}

#define OF_FLOAT(name)                                                                             \
    float name##f(float x) {                                                                       \
        return (float)name(x);                                                                     \
    }
OF_FLOAT(fabs)
OF_FLOAT(floor)
OF_FLOAT(ceil)
OF_FLOAT(trunc)
OF_FLOAT(round)
OF_FLOAT(rint)
OF_FLOAT(nearbyint)
OF_FLOAT(sqrt)
OF_FLOAT(cbrt)
#undef OF_FLOAT

#define OF_FLOATS(name)                                                                            \
    float name##f(float x, float y) {                                                              \
        return (float)name(x, y);                                                                  \
    }
OF_FLOATS(copysign)
OF_FLOATS(fmin)
OF_FLOATS(fmax)
OF_FLOATS(fdim)
OF_FLOATS(fmod)
OF_FLOATS(hypot)
#undef OF_FLOATS

long lroundf(float x) {
    return lround(x);
}

long lrintf(float x) {
    return lrint(x);
}

float frexpf(float x, int *exponent) {
    return (float)frexp(x, exponent);
}

float ldexpf(float x, int exponent) {
    return (float)ldexp(x, exponent);
}

float scalbnf(float x, int exponent) {
    return (float)ldexp(x, exponent);
}

float modff(float x, float *whole) {
    double of_double, part = modf(x, &of_double);
    *whole = (float)of_double;
    return (float)part;
}
