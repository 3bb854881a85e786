/* Runs on the card. */
#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("hidden"))) void *memset(void *to, int value, size_t size);

void *memset(void *to, int value, size_t size) {
    uint8_t *d = to, byte = (uint8_t)value;
    uint32_t word = byte * 0x01010101u;
    while (size && ((uintptr_t)d & 3))
        *d++ = byte, size--;
    for (; size >= 4; size -= 4, d += 4)
        *(uint32_t *)d = word;
    while (size--)
        *d++ = byte;
    return to;
}
