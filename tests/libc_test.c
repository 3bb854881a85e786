/* The handlers' C library, compiled for this machine and compared with its own. */
#include "lib/test.h"

#include <math.h>

#include "base/rng.h"

/* The same functions by other names. Of target.h nothing but types is used. */
#define abort     spin_abort
#define printf    spin_printf
#define vprintf   spin_vprintf
#define fprintf   spin_fprintf
#define sprintf   spin_sprintf
#define snprintf  spin_snprintf
#define vsprintf  spin_vsprintf
#define vsnprintf spin_vsnprintf
#define fputc     spin_fputc
#undef putc
#define putc    spin_putc
#define putchar spin_putchar
#define fputs   spin_fputs
#define puts    spin_puts
#define fwrite  spin_fwrite
#define fflush  spin_fflush
int spin_vprintf(const char *format, va_list list);
int spin_vsprintf(char *to, const char *format, va_list list);
int spin_vsnprintf(char *to, size_t size, const char *format, va_list list);
int spin_snprintf(char *to, size_t size, const char *format, ...);
int spin_printf(const char *format, ...);
int spin_fprintf(FILE *stream, const char *format, ...);
int spin_sprintf(char *to, const char *format, ...);
int spin_fputc(int c, FILE *stream);
int spin_putc(int c, FILE *stream);
int spin_putchar(int c);
int spin_fputs(const char *text, FILE *stream);
int spin_puts(const char *text);
size_t spin_fwrite(const void *from, size_t size, size_t count, FILE *stream);
int spin_fflush(FILE *stream);
#include "../src/hpu/runtime/stdio.c"
#undef snprintf
#undef printf
#undef fflush
#undef abort

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wformat-truncation"
#endif

#define SAME(format, ...)                                                                          \
    do {                                                                                           \
        const char *how_ = format; /* once */                                                      \
        char want_[400], got_[400];                                                                \
        int length_ = snprintf(want_, sizeof want_, how_, __VA_ARGS__);                            \
        int given_ = spin_snprintf(got_, sizeof got_, how_, __VA_ARGS__);                          \
        if (strcmp(want_, got_) != 0 || length_ != given_)                                         \
            TEST_FAIL("'%s' gave '%.300s', expected '%.300s'", how_, got_, want_);                 \
    } while (0)

static const char *random_format(struct rng *r, const char *conversions, const char *size) {
    static char format[40];
    static const char flags[] = "-0+ #";
    int at = 0;
    format[at++] = '%';
    for (int i = 0; i < 5; i++)
        if (rng_u32(r) % 4 == 0)
            format[at++] = flags[i];
    if (rng_u32(r) % 2)
        at += snprintf(format + at, 8, "%u", 1 + rng_u32(r) % 24);
    if (rng_u32(r) % 2)
        at += snprintf(format + at, 8, ".%u", rng_u32(r) % 12);
    snprintf(format + at, 8, "%s%c", size, conversions[rng_u32(r) % strlen(conversions)]);
    return format;
}

TEST(integers) {
    struct rng r = rng_seeded(1);
    for (int i = 0; i < 20000; i++) {
        uint64_t n = ((uint64_t)rng_u32(&r) << 32 | rng_u32(&r)) >> rng_u32(&r) % 64;
        SAME(random_format(&r, "diuxXo", ""), (int)n);
        SAME(random_format(&r, "diuxXo", "ll"), (long long)n);
        SAME(random_format(&r, "diuxXo", "h"), (int)n);
        SAME(random_format(&r, "diuxXo", "hh"), (int)n);
    }
    SAME("%d %u %lld %llu", INT32_MIN, UINT32_MAX, (long long)INT64_MIN, (long long)UINT64_MAX);
}

TEST(text) {
    SAME("%s|%10s|%-10s|%.2s|%c|%%|%5c", "abc", "abc", "abc", "abc", 'x', 'y');
    SAME("%*d|%-*d|%.*s", 6, 42, 6, 42, 2, "abc");
    char small[4];
    CHECK_EQ(spin_snprintf(small, sizeof small, "%s", "abcdef"), 6);
    CHECK(strcmp(small, "abc") == 0);
    CHECK_EQ(spin_snprintf(NULL, 0, "%d", 12345), 5);
}

/* 15 digits are the same for any number; ties of what is shown are exact numbers with few digits.
 */
TEST(doubles) {
    struct rng r = rng_seeded(2);
    static const double special[] = {0,        -0.0,      1,        0.5,   1.5,    2.5,
                                     0.05,     9.5,       99.9999,  1e10,  1e15,   1e22,
                                     123456.5, 1e-5,      0.000123, 1e300, 5e-324, 1e-300,
                                     INFINITY, -INFINITY, 999999.5, 0.1,   100,    1e6};
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        double x = fabs(special[i]) < 1e16 || isinf(special[i]) ? special[i] : 1; /* 17 digits */
        SAME("%f|%.0f|%.1f|%.3f|%12.4f|%-12.4f|%012.4f", x, x, x, x, x, x, x);
        SAME("%e|%.0e|%.3E|%+12.4e", special[i], special[i], special[i], special[i]);
        SAME("%g|%.0g|%.3G|%12g", special[i], special[i], special[i], special[i]);
    }
    for (int i = 0; i < 20000; i++) {
        double value = ((double)rng_u32(&r) + rng_u32(&r) / 4294967296.0) *
                       pow(10, (int)(rng_u32(&r) % 24) - 16) * (rng_u32(&r) % 2 ? 1 : -1);
        SAME("%.3e|%.6g|%.10e", value, value, value);
        if (fabs(value) < 1e9)
            SAME("%.3f|%8.1f|%f", value, value, value);
    }
}

TEST_MAIN
