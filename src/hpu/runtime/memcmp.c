/* Runs on the card. */
#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("hidden"))) int memcmp(const void *a, const void *b, size_t size);

int memcmp(const void *a, const void *b, size_t size) {
    const uint8_t *p = a, *q = b;
    for (; size--; p++, q++)
        if (*p != *q)
            return *p - *q;
    return 0;
}
