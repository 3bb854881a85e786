/* Copies of fixed sizes by loads and stores, timed from the inside. Eight words at a time: loads
 * first, so that no store waits for its load, and the loop's three instructions shared by eight. */
#include <spin/handler.h>

static inline __attribute__((always_inline)) uint32_t
timed_copy(volatile uint32_t *to, const volatile uint32_t *from, uint32_t words) {
    uint32_t start = spin_cycles();
    if (words < 8) {
        uint32_t word[8];
        for (uint32_t i = 0; i < words; i++)
            word[i] = from[i];
        for (uint32_t i = 0; i < words; i++)
            to[i] = word[i];
    } else {
        const volatile uint32_t *end = from + words;
#pragma clang loop unroll(disable)
        do {
            uint32_t a = from[0], b = from[1], c = from[2], d = from[3];
            uint32_t e = from[4], f = from[5], g = from[6], h = from[7];
            to[0] = a, to[1] = b, to[2] = c, to[3] = d;
            to[4] = e, to[5] = f, to[6] = g, to[7] = h;
            from += 8, to += 8;
            __asm__("" : "+r"(from), "+r"(to)); /* two pointers, not a sum and an index each */
        } while (from != end);
    }
    return spin_cycles() - start;
}

/* Between two readings of the clock with nothing between them. */
__handler uint32_t copy_0(void) {
    uint32_t start = spin_cycles();
    return spin_cycles() - start;
}

#define COPY(bytes)                                                                                \
    __handler uint32_t copy_##bytes(uint32_t *to, const uint32_t *from) {                          \
        return timed_copy(to, from, (bytes) / 4);                                                  \
    }
COPY(4)
COPY(8)
COPY(16)
COPY(32)
COPY(64)
COPY(128)
COPY(256)
COPY(512)
COPY(1024)
COPY(2048)
COPY(4096)
