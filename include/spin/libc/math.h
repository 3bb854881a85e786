/* math.h for handlers: the usual functions, in software. An HPU has no doubles, so each takes some
 * thousand instructions (sqrt 1,700, exp 6,500, pow 20,000), and floats go through doubles. Results
 * are within 4 units of the last place, of pow within 64 (2 where the result is an everyday
 * number); sin, cos and tan lose digits beyond a million. There is no errno. */
#ifndef SPIN_LIBC_MATH_H
#define SPIN_LIBC_MATH_H

#ifdef __cplusplus
extern "C" {
#endif

#define HUGE_VAL  __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define INFINITY  __builtin_inff()
#define NAN       __builtin_nanf("")

#define isnan(x)    __builtin_isnan(x)
#define isinf(x)    __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x)  __builtin_signbit(x)

#define M_E        2.7182818284590452354
#define M_LOG2E    1.4426950408889634074
#define M_LOG10E   0.43429448190325182765
#define M_LN2      0.69314718055994530942
#define M_LN10     2.30258509299404568402
#define M_PI       3.14159265358979323846
#define M_PI_2     1.57079632679489661923
#define M_PI_4     0.78539816339744830962
#define M_1_PI     0.31830988618379067154
#define M_2_PI     0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2    1.41421356237309504880
#define M_SQRT1_2  0.70710678118654752440

#define SPIN_MATH_1(X)                                                                             \
    X(fabs)                                                                                        \
    X(floor)                                                                                       \
    X(ceil)                                                                                        \
    X(trunc)                                                                                       \
    X(round)                                                                                       \
    X(rint)                                                                                        \
    X(nearbyint)                                                                                   \
    X(sqrt)                                                                                        \
    X(cbrt)                                                                                        \
    X(exp)                                                                                         \
    X(exp2)                                                                                        \
    X(expm1)                                                                                       \
    X(log)                                                                                         \
    X(log2) X(log10) X(log1p) X(sinh) X(cosh) X(tanh) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan)
#define SPIN_MATH_2(X) X(copysign) X(fmin) X(fmax) X(fdim) X(fmod) X(hypot) X(pow) X(atan2)

#define SPIN_MATH_ROW(name)                                                                        \
    double name(double x);                                                                         \
    float name##f(float x);
SPIN_MATH_1(SPIN_MATH_ROW)
#undef SPIN_MATH_ROW
#define SPIN_MATH_ROW(name)                                                                        \
    double name(double x, double y);                                                               \
    float name##f(float x, float y);
SPIN_MATH_2(SPIN_MATH_ROW)
#undef SPIN_MATH_ROW

double frexp(double x, int *exponent);
double ldexp(double x, int exponent);
double scalbn(double x, int exponent);
double modf(double x, double *whole);
float frexpf(float x, int *exponent);
float ldexpf(float x, int exponent);
float scalbnf(float x, int exponent);
float modff(float x, float *whole);
long lround(double x);
long lrint(double x);
long lroundf(float x);
long lrintf(float x);

#ifdef __cplusplus
}
#endif

#endif
