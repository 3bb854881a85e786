/* Runs on the card: stdlib.h. */
#include <limits.h>
#include <stdlib.h>

int abs(int n) {
    return n < 0 ? -n : n;
}

long labs(long n) {
    return n < 0 ? -n : n;
}

static unsigned digit_of(char c) {
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'z' ? (unsigned)(c - 'a' + 10)
           : c >= 'A' && c <= 'Z' ? (unsigned)(c - 'A' + 10)
                                  : 99;
}

/* Sign and value; *over: it has more than 32 bits. */
static unsigned long scan(const char *text, char **end, int base, bool *minus, bool *over) {
    const char *at = text;
    unsigned long value = 0;
    bool any = false;
    *over = *minus = false;
    while (*at == ' ' || (*at >= '\t' && *at <= '\r'))
        at++;
    if (*at == '-' || *at == '+')
        *minus = *at++ == '-';
    if ((base == 0 || base == 16) && at[0] == '0' && (at[1] | 32) == 'x' && digit_of(at[2]) < 16) {
        at += 2;
        base = 16;
    }
    if (base == 0)
        base = *at == '0' ? 8 : 10;
    for (; digit_of(*at) < (unsigned)base; at++, any = true) {
        unsigned digit = digit_of(*at);
        *over |= value > (ULONG_MAX - digit) / (unsigned)base;
        value = value * (unsigned)base + digit;
    }
    if (end)
        *end = (char *)(uintptr_t)(any ? at : text);
    return value;
}

unsigned long strtoul(const char *text, char **end, int base) {
    bool minus, over;
    unsigned long value = scan(text, end, base, &minus, &over);
    return over ? ULONG_MAX : minus ? -value : value;
}

long strtol(const char *text, char **end, int base) {
    bool minus, over;
    unsigned long value = scan(text, end, base, &minus, &over), most = LONG_MAX;
    if (over || value > most + minus)
        return minus ? LONG_MIN : LONG_MAX;
    return (long)(minus ? -value : value);
}

long atol(const char *text) {
    return strtol(text, NULL, 10);
}

int atoi(const char *text) {
    return (int)strtol(text, NULL, 10);
}

static uint32_t state = 1;

void srand(unsigned seed) {
    state = seed;
}

int rand(void) { /* splitmix32 */
    uint32_t x = state += 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return (int)((x ^ x >> 16) & RAND_MAX);
}
