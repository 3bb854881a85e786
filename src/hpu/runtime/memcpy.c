/* Runs on the card: what compilers call to copy. By words where the alignment allows. */
#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("hidden"))) void *memcpy(void *restrict to, const void *restrict from,
                                                   size_t size);

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    uint8_t *d = to;
    const uint8_t *s = from;
    if ((((uintptr_t)d | (uintptr_t)s) & 3) == 0) {
        /* Four words in flight hide the load-use stall. */
        for (; size >= 16; size -= 16, d += 16, s += 16) {
            const uint32_t *sw = (const uint32_t *)s;
            uint32_t *dw = (uint32_t *)d, a = sw[0], b = sw[1], c = sw[2], e = sw[3];
            dw[0] = a;
            dw[1] = b;
            dw[2] = c;
            dw[3] = e;
        }
        for (; size >= 4; size -= 4, d += 4, s += 4)
            *(uint32_t *)d = *(const uint32_t *)s;
    }
    while (size--)
        *d++ = *s++;
    return to;
}
