/* Line rate and HPUs, as arithmetic. Rates in Gbit/s, times in ns, sizes in bytes.
 *
 * Packets of s bytes come every max(g, 8 s / R); n HPUs may hold each for n times that; a handler
 * of time T needs T over that interval of HPUs; and by Little's law the packets that are in the
 * card for T fill R T of buffer. */
#ifndef OPENSPIN_EXPERIMENTS_RATE_H
#define OPENSPIN_EXPERIMENTS_RATE_H

#include <math.h>

static inline double rate_interval_ns(double bytes, double gbit, double gap_ns) {
    double wire = 8 * bytes / gbit;
    return wire > gap_ns ? wire : gap_ns;
}

static inline double rate_budget_ns(double hpus, double bytes, double gbit) {
    return hpus * rate_interval_ns(bytes, gbit, 0);
}

/* What n HPUs process when each packet takes one of them for handler_ns. */
static inline double rate_throughput_gbit(double hpus, double bytes, double gbit,
                                          double handler_ns) {
    double processed = handler_ns > 0 ? hpus * 8 * bytes / handler_ns : INFINITY;
    return processed < gbit ? processed : gbit;
}

/* Whole HPUs; a hair's breadth over a whole number is rounding, not work. */
static inline double rate_hpus(double handler_ns, double interval_ns) {
    double n = ceil(handler_ns / interval_ns - 1e-9);
    return n < 1 ? 1 : n;
}

static inline double rate_buffer_bytes(double gbit, double latency_ns) {
    return gbit * latency_ns / 8;
}

#endif
