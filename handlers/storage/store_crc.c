/* CRC32C, by the processor's instruction where it has one (8 bytes in 3 cycles), else by a table.
 */
#include "store_crc.h"

#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* Castagnoli's, reflected */

static uint32_t by_table(uint32_t crc, const uint8_t *at, uint64_t bytes) {
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? POLYNOMIAL : 0);
    }
    for (; bytes; bytes--)
        crc = crc >> 8 ^ table[(crc ^ *at++) & 0xff];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *at,
                                                                 uint64_t bytes) {
    uint64_t wide = crc, word;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; bytes; bytes--)
        crc = __builtin_ia32_crc32qi(crc, *at++);
    return crc;
}
#endif

uint32_t store_crc32c_padded(const void *data, uint64_t bytes, uint64_t zeroes) {
    uint32_t (*add)(uint32_t, const uint8_t *, uint64_t) = by_table;
    static const uint8_t zero[64];
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        add = by_instruction;
#endif
    uint32_t crc = add(UINT32_MAX, data, bytes);
    for (uint64_t left = zeroes; left;) {
        uint64_t some = left < sizeof zero ? left : sizeof zero;
        crc = add(crc, zero, some);
        left -= some;
    }
    return ~crc;
}
