/* math.h: angles. */
#include <math.h>

/* pi / 2 in parts of 33 bits: times the number of quarters, up to a million, they are exact. */
#define QUARTER_1 0x1.921fb54400000p+0
#define QUARTER_2 0x1.0b4611a600000p-34
#define QUARTER_3 0x1.3198a2e037073p-69

#define PI_LOW 0x1.1a62633145c07p-53 /* M_PI + PI_LOW has twice the digits */

/* What is left of x, to twice the digits, after whole quarters of a turn, whose number it
 * returns. */
static int quarters(double x, double *rest, double *low) {
    if (fabs(x) > 0x1p20)
        x = fmod(x, 4 * M_PI_2); /* a multiple of the double nearest to a turn: digits are lost */
    double k = rint(x * M_2_PI), a = x - k * QUARTER_1, b = k * QUARTER_2, c = k * QUARTER_3;
    double d = a - b, lost = (a - d) - b;
    *rest = d - (c - lost);
    *low = (d - *rest) - (c - lost);
    return (int)k & 3;
}

/* |x| <= pi / 4: series. The rest of x counts in the first place only. */
static double sine(double x, double low) {
    static const double factor[] = {
        1 / 355687428096000.0, 1 / 1307674368000.0, 1 / 6227020800.0, 1 / 39916800.0,
        1 / 362880.0,          1 / 5040.0,          1 / 120.0,        1 / 6.0};
    double z = x * x, s = 0;
    for (unsigned i = 0; i < sizeof factor / sizeof factor[0]; i++)
        s = factor[i] - s * z;
    return x - (x * (z * s) - low * (1 - z * 0.5));
}

static double cosine(double x, double low) {
    static const double factor[] = {
        1 / 6402373705728000.0, 1 / 20922789888000.0, 1 / 87178291200.0, 1 / 479001600.0,
        1 / 3628800.0,          1 / 40320.0,          1 / 720.0,         1 / 24.0};
    double z = x * x, c = 0, half = z * 0.5, w = 1 - half;
    for (unsigned i = 0; i < sizeof factor / sizeof factor[0]; i++)
        c = factor[i] - c * z;
    return w + (((1 - w) - half) + (z * (z * c) - x * low));
}

static double turned(double x, int by) {
    double rest, low;
    if (x - x != 0)
        return x - x; /* no number */
    int k = (quarters(x, &rest, &low) + by) & 3;
    double of = k & 1 ? cosine(rest, low) : sine(rest, low);
    return k & 2 ? -of : of;
}

double sin(double x) {
    return x == 0 ? x : turned(x, 0);
}

double cos(double x) {
    return turned(x, 1);
}

double tan(double x) {
    double rest, low;
    if (x == 0 || x - x != 0)
        return x == 0 ? x : x - x;
    int k = quarters(x, &rest, &low);
    double s = sine(rest, low), c = cosine(rest, low);
    return k & 1 ? -c / s : s / c;
}

/* atan(k / 8), to twice the digits. */
static const double table[9][2] = {
    {0, 0},
    {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
    {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
    {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
    {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
    {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
    {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
    {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
};

/* Of y / x from 0 to 1: from the nearest of the table on, where the series is short. */
static double angle(double y, double x) {
    static const double factor[] = {1 / 15.0, 1 / 13.0, 1 / 11.0, 1 / 9.0,
                                    1 / 7.0,  1 / 5.0,  1 / 3.0};
    int k = (int)(8 * (y / x) + 0.5);
    double c = k / 8.0, t = (y - c * x) / (x + c * y), z = t * t, s = 0;
    for (unsigned i = 0; i < sizeof factor / sizeof factor[0]; i++)
        s = (factor[i] - s) * z;
    return table[k][0] + (table[k][1] + (t - t * s));
}

double atan2(double y, double x) {
    double a = fabs(y), b = fabs(x), of;
    if (x != x || y != y)
        return x + y;
    if (isinf(a) && isinf(b))
        a = b = 1;
    if (a == 0)
        of = 0;
    else if (isinf(a) || a > b * 0x1p60)
        of = M_PI_2;
    else if (isinf(b) || b > a * 0x1p60)
        of = signbit(x) ? 0 : a / b;
    else { /* halves keep sums of the two finite */
        a = ldexp(a, a < 1 && b < 1 ? 64 : -2);
        b = ldexp(b, fabs(y) < 1 && fabs(x) < 1 ? 64 : -2);
        of = a <= b ? angle(a, b) : M_PI_2 - (angle(b, a) - PI_LOW / 2);
    }
    if (signbit(x))
        of = M_PI - (of - PI_LOW);
    return copysign(of, y);
}

double atan(double x) {
    return atan2(x, 1);
}

double asin(double x) {
    return fabs(x) > 1 ? (x - x) / (x - x) : atan2(x, sqrt((1 - x) * (1 + x)));
}

double acos(double x) {
    return fabs(x) > 1 ? (x - x) / (x - x) : atan2(sqrt((1 - x) * (1 + x)), x);
}

#define OF_FLOAT(name)                                                                             \
    float name##f(float x) {                                                                       \
        return (float)name(x);                                                                     \
    }
OF_FLOAT(sin)
OF_FLOAT(cos)
OF_FLOAT(tan)
OF_FLOAT(asin)
OF_FLOAT(acos)
OF_FLOAT(atan)
#undef OF_FLOAT

float atan2f(float y, float x) {
    return (float)atan2(y, x);
}
