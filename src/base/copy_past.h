/* Copying what is not looked at soon: past the cache, so that what is in use stays there and the
 * old contents of the target are not read first. Worth it from some hundred bytes on. The thread
 * itself sees at once what it has copied; before another one may look, it calls copy_past_end,
 * which waits until all is in memory. */
#ifndef SPIN_BASE_COPY_PAST_H
#define SPIN_BASE_COPY_PAST_H

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline void copy_past(void *to, const void *from, size_t bytes) {
#ifdef __SSE2__
    enum { LINE = 64, WORDS = LINE / sizeof(__m128i) };
    uint8_t *t = to;
    const uint8_t *f = from;
    size_t head = -(uintptr_t)t & (LINE - 1);
    if (bytes < head + LINE) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(t, f, head);
    for (t += head, f += head, bytes -= head; bytes >= LINE; t += LINE, f += LINE, bytes -= LINE) {
        for (int i = 0; i < WORDS; i++)
            _mm_stream_si128((__m128i *)(void *)t + i,
                             _mm_loadu_si128((const __m128i *)(const void *)f + i));
    }
    memcpy(t, f, bytes);
#else
    memcpy(to, from, bytes);
#endif
}

static inline void copy_past_end(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

#endif
