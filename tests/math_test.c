/* math.h of handlers, compiled for this machine and compared with its own. */
#include "lib/test.h"

#include <dlfcn.h>
#include <stdbool.h>

#include "base/rng.h"

/* The program has the handlers' functions by their own names, compiled without what the compiler
 * knows of them; the machine's come from its library. */
#define _MATH_H /* whoever asks for the machine's header has it */
#include "../include/spin/libc/math.h"

#include "../src/hpu/runtime/math.c"
#include "../src/hpu/runtime/math_exp.c"
#include "../src/hpu/runtime/math_trig.c"

/* Name, and how many units of the last place a result may be off; of cbrt the machine itself is. */
#define FUNCTIONS_1(X)                                                                             \
    X(fabs, 0)                                                                                     \
    X(floor, 0)                                                                                    \
    X(ceil, 0)                                                                                     \
    X(trunc, 0)                                                                                    \
    X(round, 0) X(rint, 0) X(nearbyint, 0) X(sqrt, 0) X(cbrt, 4) X(exp, 2) X(exp2, 2) X(expm1, 2)  \
        X(log, 2) X(log2, 2) X(log10, 2) X(log1p, 2) X(sinh, 4) X(cosh, 4) X(tanh, 4) X(sin, 2)    \
            X(cos, 2) X(tan, 2) X(asin, 4) X(acos, 4) X(atan, 2)
#define FUNCTIONS_2(X)                                                                             \
    X(copysign, 0) X(fmin, 0) X(fmax, 0) X(fdim, 0) X(fmod, 0) X(hypot, 2) X(pow, 64) X(atan2, 2)

static void *machine(const char *name) {
    static void *library;
    if (!library)
        library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function)
        TEST_FAIL("no %s in libm.so.6", name);
    return function;
}

static const struct {
    const char *name;
    double (*of)(double);
    float (*of_float)(float);
    unsigned ulps;
} functions_1[] = {
#define ROW(name, ulps) {#name, name, name##f, ulps},
    FUNCTIONS_1(ROW)
#undef ROW
};
static const struct {
    const char *name;
    double (*of)(double, double);
    float (*of_float)(float, float);
    unsigned ulps;
} functions_2[] = {
#define ROW(name, ulps) {#name, name, name##f, ulps},
    FUNCTIONS_2(ROW)
#undef ROW
};

/* How many doubles lie between them; 0 for two that are no number. */
static uint64_t distance(double a, double b) {
    int64_t x, y;
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? 0 : UINT64_MAX;
    memcpy(&x, &a, 8);
    memcpy(&y, &b, 8);
    x = x < 0 ? INT64_MIN - x : x; /* -0 and 0 are the same place; signs are looked at apart */
    y = y < 0 ? INT64_MIN - y : y;
    return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}

static void compare(const char *name, double x, double y, double got, double want, unsigned ulps) {
    if (distance(got, want) > ulps || (!isnan(want) && !signbit(got) != !signbit(want)))
        TEST_FAIL("%s(%a, %a) is %a, expected %a", name, x, y, got, want);
}

/* Through doubles, so rounded correctly but where both roundings meet. */
static void compare_float(const char *name, float x, float y, float got, float want) {
    if (got != want && !(isnan(got) && isnan(want)) && fabs(got - want) > fabs(want) * 0x1p-23)
        TEST_FAIL("%sf(%a, %a) is %a, expected %a", name, x, y, got, want);
}

static const double edges[] = {0.0,
                               -0.0,
                               1,
                               -1,
                               0.5,
                               -0.5,
                               1.5,
                               2.5,
                               -2.5,
                               2,
                               3,
                               -3,
                               10,
                               1000,
                               0x1p52,
                               0x1.fffffffffffffp51,
                               0x1p53,
                               0x1p-1022,
                               0x1p-1074,
                               -0x1p-1074,
                               0x1.fffffffffffffp1023,
                               1e-300,
                               1e300,
                               0.1,
                               0.7071067811865475,
                               0.7071067811865476,
                               3.141592653589793,
                               1.5707963267948966,
                               709.7,
                               -745,
                               INFINITY,
                               -INFINITY,
                               NAN};
enum { EDGES = sizeof edges / sizeof edges[0] };

static double draw(struct rng *rng, unsigned width) {
    double x = (double)rng_u64(rng) / 0x1p64 + 0.5;
    x = ldexp(x, (int)rng_below(rng, 2 * width) - (int)width);
    return rng_u64(rng) & 1 ? -x : x;
}

TEST(one_argument) {
    struct rng rng = rng_seeded(1);
    for (size_t f = 0; f < sizeof functions_1 / sizeof functions_1[0]; f++) {
        const char *name = functions_1[f].name;
        double (*want)(double) = (double (*)(double))machine(name);
        bool angle =
            strcmp(name, "sin") == 0 || strcmp(name, "cos") == 0 || strcmp(name, "tan") == 0;
        for (int i = 0; i < 4000 + EDGES; i++) {
            double x = i < EDGES ? edges[i] : draw(&rng, i % 2 ? 8 : 1000);
            float small = (float)draw(&rng, 19);
            if (!angle || fabs(x) < 1e6 || x - x != 0)
                compare(name, x, 0, functions_1[f].of(x), want(x), functions_1[f].ulps);
            compare_float(name, small, 0, functions_1[f].of_float(small), (float)want(small));
        }
    }
}

TEST(two_arguments) {
    struct rng rng = rng_seeded(2);
    for (size_t f = 0; f < sizeof functions_2 / sizeof functions_2[0]; f++) {
        const char *name = functions_2[f].name;
        double (*want)(double, double) = (double (*)(double, double))machine(name);
        for (int i = 0; i < EDGES * EDGES + 4000; i++) {
            double x = draw(&rng, i % 2 ? 8 : 400), y = draw(&rng, i % 4 < 2 ? 5 : 300);
            float a = (float)draw(&rng, 4), b = (float)draw(&rng, 4);
            if (i < EDGES * EDGES)
                x = edges[i / EDGES], y = edges[i % EDGES];
            compare(name, x, y, functions_2[f].of(x, y), want(x, y), functions_2[f].ulps);
            compare_float(name, a, b, functions_2[f].of_float(a, b), (float)want(a, b));
        }
    }
}

/* What a handler is likely to compute: pow is as near as the others there. */
TEST(usual_powers) {
    struct rng rng = rng_seeded(3);
    double (*want)(double, double) = (double (*)(double, double))machine("pow");
    for (int i = 0; i < 20000; i++) {
        double x = fabs(draw(&rng, 4)), y = draw(&rng, 3);
        compare("pow", x, y, pow(x, y), want(x, y), 2);
    }
    CHECK(pow(2, 10) == 1024 && pow(10, 15) == 1e15 && pow(-2, 3) == -8 && pow(9, 0.5) == 3);
}

TEST(parts_of_a_number) {
    struct rng rng = rng_seeded(4);
    double (*want_frexp)(double, int *) = (double (*)(double, int *))machine("frexp");
    double (*want_ldexp)(double, int) = (double (*)(double, int))machine("ldexp");
    double (*want_modf)(double, double *) = (double (*)(double, double *))machine("modf");
    for (int i = 0; i < 4000 + EDGES; i++) {
        double x = i < EDGES ? edges[i] : draw(&rng, i % 2 ? 8 : 1000), whole, of;
        int exponent = 0, got = 0, by = (int)rng_below(&rng, 4400) - 2200;
        double want = want_frexp(x, &exponent);
        compare("frexp", x, 0, frexp(x, &got), want, 0);
        if (x - x == 0)
            CHECK_EQ(got, exponent);
        compare("ldexp", x, by, ldexp(x, by), want_ldexp(x, by), 0);
        want = want_modf(x, &whole);
        compare("modf", x, 0, modf(x, &of), want, 0);
        compare("modf", x, 1, of, whole, 0);
    }
    CHECK_EQ(lround(-2.5), -3);
    CHECK_EQ(lrint(-2.5), -2);
}

TEST_MAIN
