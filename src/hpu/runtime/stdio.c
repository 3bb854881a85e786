/* Runs on the card: stdio.h, whose text goes to the console or to memory.
 *
 * Small rather than fast, and frugal with the 1 KiB stack. Nothing of it needs libgcc: 64-bit
 * numbers are divided in four steps of 16 bits, and a double is taken apart as the integers it
 * consists of. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "spin/target.h"

struct sink {
    char *to; /* NULL: the console */
    size_t size, length;
};

static void put(struct sink *s, char c) {
    if (!s->to)
        *(volatile uint32_t *)SPIN_STDOUT = (uint8_t)c;
    else if (s->length + 1 < s->size)
        s->to[s->length] = c;
    s->length++;
}

struct spec {
    bool left, zero, plus, space, alternate, upper;
    int width, precision; /* precision -1: none */
    char size;            /* 0, h, H (hh), l, L (ll) */
};

static void fill(struct sink *s, char c, int count) {
    while (count-- > 0)
        put(s, c);
}

/* A field: blanks or zeros, what stands before the digits, zeros, digits, zeros behind them. */
struct field {
    const char *text;
    int length, zeros, behind; /* behind: zeros that follow */
    char prefix[3];
};

static void put_field(struct sink *s, const struct spec *p, const struct field *f) {
    int prefix = (int)strlen(f->prefix);
    int pad = p->width - prefix - f->zeros - f->length - f->behind;
    if (!p->left && !p->zero)
        fill(s, ' ', pad);
    for (int i = 0; i < prefix; i++)
        put(s, f->prefix[i]);
    if (!p->left && p->zero)
        fill(s, '0', pad);
    fill(s, '0', f->zeros);
    for (int i = 0; i < f->length; i++)
        put(s, f->text[i]);
    fill(s, '0', f->behind);
    if (p->left)
        fill(s, ' ', pad);
}

/* ---- Integers -------------------------------------------------------------------------------- */

static unsigned divide(uint64_t *value, unsigned base) {
    uint32_t high = (uint32_t)(*value >> 32), low = (uint32_t)*value, rest = 0;
    if (!high) {
        *value = low / base;
        return low % base;
    }
    uint64_t quotient = 0;
    for (int shift = 48; shift >= 0; shift -= 16) {
        uint32_t part = rest << 16 | (uint16_t)(*value >> shift);
        quotient |= (uint64_t)(part / base) << shift;
        rest = part % base;
    }
    *value = quotient;
    return rest;
}

static char *digits(char *end, uint64_t value, unsigned base, bool upper) {
    while (value)
        *--end = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[divide(&value, base)];
    return end;
}

static char sign_of(const struct spec *p, bool minus) {
    return minus ? '-' : p->plus ? '+' : p->space ? ' ' : 0;
}

static void put_integer(struct sink *s, struct spec *p, uint64_t value, unsigned base, char sign) {
    char text[24], *end = text + sizeof text, *from = digits(end, value, base, p->upper);
    struct field f = {.text = from, .length = (int)(end - from), .prefix = {sign}};
    int least = p->precision < 0 ? 1 : p->precision;
    if (f.length < least)
        f.zeros = least - f.length;
    if (p->alternate && base == 8 && !f.zeros)
        f.zeros = 1;
    if (p->alternate && base == 16 && value) {
        f.prefix[0] = '0';
        f.prefix[1] = p->upper ? 'X' : 'x';
    }
    if (p->precision >= 0)
        p->zero = false;
    put_field(s, p, &f);
}

/* ---- Doubles --------------------------------------------------------------------------------- */

#define DIGITS 18 /* the last one says no more than whether anything follows the 17 before it */

static uint64_t multiply_high(uint64_t a, uint64_t b) {
    uint32_t a0 = (uint32_t)a, a1 = (uint32_t)(a >> 32), b0 = (uint32_t)b, b1 = (uint32_t)(b >> 32);
    uint64_t low = (uint64_t)a0 * b0, x = (uint64_t)a1 * b0, y = (uint64_t)a0 * b1;
    uint64_t middle = (low >> 32) + (uint32_t)x + (uint32_t)y;
    return (uint64_t)a1 * b1 + (x >> 32) + (y >> 32) + (middle >> 32);
}

/* Adds one to the last of `count` digits. True: it carried all the way, and 99 became 10. */
static bool add_one(char *digit, int count) {
    int i = count - 1;
    for (; i >= 0 && digit[i] == '9'; i--)
        digit[i] = '0';
    if (i >= 0)
        digit[i]++;
    else
        digit[0] = '1';
    return i < 0;
}

/* The decimal digits of a positive, finite double: d.ddd times 10 to the power that it returns. The
 * number is m * 2^e with the top bit of m set, and is multiplied by or divided by ten until it is
 * in [1, 10); each step is exact to 63 bits. */
static int decimal(uint64_t bits, char *digit) {
    int e = (int)(bits >> 52 & 0x7ff), power = 0;
    uint64_t m = bits & ((1ull << 52) - 1);
    m = e ? m | 1ull << 52 : m << 1;
    for (e -= 1075; !(m >> 63); e--)
        m <<= 1;
    while (e > -60 || (e >= -63 && m >> -e >= 10)) {
        m = multiply_high(m, 0xcccccccccccccccdull); /* 0.8 */
        e -= 3;
        if (!(m >> 63))
            m <<= 1, e--;
        power++;
    }
    while (e < -63) {
        uint64_t more = m + (m >> 2); /* 1.25 */
        e += more < m ? 4 : 3;
        m = more < m ? (more >> 1) | 1ull << 63 : more;
        power--;
    }
    m >>= -e - 60; /* 4 bits before the point and 60 behind it, so that ten times that fits */
    for (int i = 0; i < DIGITS - 1; i++) {
        digit[i] = (char)('0' + (m >> 60));
        m = (m & ((1ull << 60) - 1)) * 10;
    }
    /* The steps lose a little: of 9.5 they may leave 9.4999999999999999|98. */
    bool nearly = m > (9ull << 60) + (1ull << 59);
    digit[DIGITS - 1] = nearly || m < 1ull << 59 ? '0' : '1';
    return power + (nearly && add_one(digit, DIGITS - 1));
}

/* Keeps `count` of the digits, the others become zeros. True: it carried, and 10 became 1. */
static bool round_digits(char *digit, int count) {
    if (count >= DIGITS)
        return false;
    bool up = count >= 0 && digit[count] >= '5';
    if (up && digit[count] == '5') { /* exactly a half: to the even one */
        int i = count + 1;
        while (i < DIGITS && digit[i] == '0')
            i++;
        up = i < DIGITS || (count > 0 && (digit[count - 1] & 1));
    }
    for (int i = count < 0 ? 0 : count; i < DIGITS; i++)
        digit[i] = '0';
    return up && add_one(digit, count);
}

static char digit_at(const char *digit, int i) {
    return i >= 0 && i < DIGITS ? digit[i] : '0';
}

/* Digits before and behind the point, where the first digit counts 10 to the power `power`. */
static void put_number(struct sink *s, const char *digit, int power, int precision, bool point) {
    for (int i = power > 0 ? power : 0; i >= 0; i--)
        put(s, i > power ? '0' : digit_at(digit, power - i));
    if (precision > 0 || point)
        put(s, '.');
    for (int i = 1; i <= precision; i++)
        put(s, digit_at(digit, power + i));
}

static void put_exponent(struct sink *s, int power, bool upper) {
    unsigned n = (unsigned)(power < 0 ? -power : power);
    put(s, upper ? 'E' : 'e');
    put(s, power < 0 ? '-' : '+');
    if (n >= 100)
        put(s, (char)('0' + n / 100));
    put(s, (char)('0' + n / 10 % 10));
    put(s, (char)('0' + n % 10));
}

/* How it is written. */
struct number {
    char digit[DIGITS];
    int power, precision;
    bool exponent, point;
};

static void lay_out(struct number *n, const struct spec *p, char style, uint64_t bits) {
    n->precision = p->precision < 0 ? 6 : p->precision;
    n->point = p->alternate;
    if (bits)
        n->power = decimal(bits, n->digit);
    else
        memset(n->digit, '0', DIGITS);
    if (style == 'g') {
        int most = n->precision ? n->precision : 1;
        n->power += round_digits(n->digit, most);
        n->exponent = n->power < -4 || n->power >= most;
        n->precision = n->exponent ? most - 1 : most - 1 - n->power;
        int last = n->exponent ? n->precision : n->power + n->precision;
        for (; !p->alternate && n->precision > 0 && digit_at(n->digit, last) == '0'; last--)
            n->precision--;
        return;
    }
    n->exponent = style == 'e';
    int count = n->precision + 1 + (n->exponent ? 0 : n->power);
    /* Of 0.06 with one digit behind the point none counts, and yet it is 0.1. */
    bool carried = round_digits(n->digit, count);
    n->power = carried ? n->power + 1 : n->power;
    if (bits == 0)
        n->power = 0;
}

static void put_double(struct sink *s, struct spec *p, double value, char style) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    struct field f = {.prefix = {sign_of(p, bits >> 63)}};
    bits &= INT64_MAX;
    if (bits >= 0x7ffull << 52) {
        f.text = bits == 0x7ffull << 52 ? p->upper ? "INF" : "inf" : p->upper ? "NAN" : "nan";
        f.length = 3;
        p->zero = false;
        put_field(s, p, &f);
        return;
    }
    struct number n = {0};
    lay_out(&n, p, style, bits);
    char none[1];
    struct sink measure = {.to = none}; /* how long it is, without keeping it */
    for (int pass = 0; pass < 2; pass++) {
        struct sink *to = pass ? s : &measure;
        int pad = p->width - (int)measure.length - (f.prefix[0] != 0);
        if (pass && !p->left && !p->zero)
            fill(s, ' ', pad);
        if (pass && f.prefix[0])
            put(s, f.prefix[0]);
        if (pass && !p->left && p->zero)
            fill(s, '0', pad);
        put_number(to, n.digit, n.exponent ? 0 : n.power, n.precision, n.point);
        if (n.exponent)
            put_exponent(to, n.power, p->upper);
        if (pass && p->left)
            fill(s, ' ', pad);
    }
}

/* ---- Formats --------------------------------------------------------------------------------- */

struct list { /* a va_list may be an array: passed on within a struct it is one object */
    va_list args;
};

static uint64_t unsigned_argument(struct list *l, char size) {
    if (size == 'L')
        return va_arg(l->args, unsigned long long);
    unsigned n = va_arg(l->args, unsigned);
    return size == 'h' ? (uint16_t)n : size == 'H' ? (uint8_t)n : n;
}

static int64_t signed_argument(struct list *l, char size) {
    if (size == 'L')
        return va_arg(l->args, long long);
    int n = va_arg(l->args, int);
    return size == 'h' ? (int16_t)n : size == 'H' ? (int8_t)n : n;
}

static const char *number_in(const char *at, struct list *l, int *number) {
    *number = 0;
    if (*at == '*') {
        *number = va_arg(l->args, int);
        return at + 1;
    }
    for (; *at >= '0' && *at <= '9'; at++)
        if (*number < 100000)
            *number = *number * 10 + (*at - '0');
    return at;
}

static const char *read_spec(const char *at, struct spec *p, struct list *l) {
    *p = (struct spec){.precision = -1};
    for (;; at++) {
        if (*at == '-')
            p->left = true;
        else if (*at == '0')
            p->zero = true;
        else if (*at == '+')
            p->plus = true;
        else if (*at == ' ')
            p->space = true;
        else if (*at == '#')
            p->alternate = true;
        else
            break;
    }
    at = number_in(at, l, &p->width);
    if (p->width < 0) {
        p->left = true;
        p->width = -p->width;
    }
    if (*at == '.')
        at = number_in(at + 1, l, &p->precision);
    for (; *at == 'h' || *at == 'l' || *at == 'j' || *at == 'z' || *at == 't' || *at == 'L'; at++)
        p->size = *at == 'h'   ? (p->size == 'h' ? 'H' : 'h')
                  : *at == 'l' ? (p->size == 'l' ? 'L' : 'l')
                  : *at == 'j' ? 'L'
                               : p->size;
    return at;
}

static void put_text(struct sink *s, const struct spec *p, const char *text, size_t length) {
    const struct field f = {.text = text, .length = (int)length};
    struct spec blanks = *p;
    blanks.zero = false;
    put_field(s, &blanks, &f);
}

static void convert(struct sink *s, struct spec *p, char what, struct list *l) {
    p->upper = what >= 'A' && what <= 'Z';
    switch (what) {
    case 'd':
    case 'i': {
        int64_t n = signed_argument(l, p->size);
        put_integer(s, p, n < 0 ? -(uint64_t)n : (uint64_t)n, 10, sign_of(p, n < 0));
        return;
    }
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        put_integer(s, p, unsigned_argument(l, p->size),
                    what == 'u'   ? 10
                    : what == 'o' ? 8
                                  : 16,
                    0);
        return;
    case 'p':
        p->alternate = true;
        put_integer(s, p, va_arg(l->args, unsigned), 16, 0);
        return;
    case 'c': {
        char c = (char)va_arg(l->args, int);
        put_text(s, p, &c, 1);
        return;
    }
    case 's': {
        const char *text = va_arg(l->args, const char *);
        text = text ? text : "(null)";
        put_text(s, p, text, strnlen(text, p->precision < 0 ? SIZE_MAX : (size_t)p->precision));
        return;
    }
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
        put_double(s, p, va_arg(l->args, double), (char)(what | 32));
        return;
    case '%':
        put(s, '%');
        return;
    }
    put(s, '%'); /* none that it knows: as it stands */
    put(s, what);
}

static int format_to(struct sink *s, const char *format, va_list args) {
    struct list l;
    struct spec p;
    va_copy(l.args, args);
    while (*format) {
        if (*format != '%') {
            put(s, *format++);
            continue;
        }
        format = read_spec(format + 1, &p, &l);
        if (!*format)
            break;
        convert(s, &p, *format++, &l);
    }
    va_end(l.args);
    return (int)s->length;
}

int vprintf(const char *format, va_list list) {
    struct sink s = {0};
    return format_to(&s, format, list);
}

int vsnprintf(char *to, size_t size, const char *format, va_list list) {
    char none[1];
    struct sink s = {.to = size ? to : none, .size = size};
    int length = format_to(&s, format, list);
    if (size)
        to[s.length < size ? s.length : size - 1] = 0;
    return length;
}

int vsprintf(char *to, const char *format, va_list list) {
    return vsnprintf(to, INT32_MAX, format, list);
}

#define FORWARD(call)                                                                              \
    va_list list;                                                                                  \
    va_start(list, format);                                                                        \
    int length = call;                                                                             \
    va_end(list);                                                                                  \
    return length

int printf(const char *format, ...) {
    FORWARD(vprintf(format, list));
}
int fprintf(FILE *stream, const char *format, ...) {
    (void)stream;
    FORWARD(vprintf(format, list));
}
int sprintf(char *to, const char *format, ...) {
    FORWARD(vsprintf(to, format, list));
}
int snprintf(char *to, size_t size, const char *format, ...) {
    FORWARD(vsnprintf(to, size, format, list));
}

int fputc(int c, FILE *stream) {
    (void)stream;
    struct sink s = {0};
    put(&s, (char)c);
    return (uint8_t)c;
}
int putc(int c, FILE *stream) {
    return fputc(c, stream);
}
int putchar(int c) {
    return fputc(c, stdout);
}
int fputs(const char *text, FILE *stream) {
    while (*text)
        fputc(*text++, stream);
    return 0;
}
int puts(const char *text) {
    fputs(text, stdout);
    return putchar('\n');
}
size_t fwrite(const void *from, size_t size, size_t count, FILE *stream) {
    for (size_t i = 0; i < size * count; i++)
        fputc(((const uint8_t *)from)[i], stream);
    return count;
}
int fflush(FILE *stream) {
    (void)stream;
    return 0;
}
