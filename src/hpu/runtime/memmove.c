/* Runs on the card. */
#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("hidden"))) void *memmove(void *to, const void *from, size_t size);

void *memmove(void *to, const void *from, size_t size) {
    uint8_t *d = to;
    const uint8_t *s = from;
    if ((uintptr_t)d - (uintptr_t)s >= size) {
        while (size--)
            *d++ = *s++;
    } else {
        while (size--)
            d[size] = s[size];
    }
    return to;
}
