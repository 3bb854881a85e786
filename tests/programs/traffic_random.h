/* Time and random numbers of programs that send for a while what a seed says. */
#ifndef TRAFFIC_RANDOM_H
#define TRAFFIC_RANDOM_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline uint64_t next(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

#endif
