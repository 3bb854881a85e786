/* How fast and how patiently to send to one peer over a network that others use as well: round
 * trips are measured as in RFC 6298, and the window grows and shrinks as in RFC 5681 and 6582
 * (slow start, additive increase, half of it at a loss, at most once per window). All times are in
 * the driver's unit. */
#ifndef SPIN_NIC_CONGESTION_H
#define SPIN_NIC_CONGESTION_H

#include <stdint.h>

#define CONGESTION_FIRST                                                                           \
    64u /* packets at the beginning: what a switch of a cluster takes at once */
#define CONGESTION_LEAST 2u

struct congestion {
    uint32_t window, threshold;     /* packets; above the threshold it grows by 1 per round trip */
    uint32_t credit;                /* acknowledged since it last grew so */
    uint64_t recovery;              /* losses among transmissions up to this one are one loss */
    uint64_t round_trip, variation; /* smoothed; 0: not measured yet */
    uint64_t retry_time;
};

static inline struct congestion congestion_begin(uint32_t most_packets, uint64_t retry_time) {
    return (struct congestion){.window = most_packets < CONGESTION_FIRST ? most_packets
                                                                         : CONGESTION_FIRST,
                               .threshold = most_packets,
                               .retry_time = retry_time};
}

/* A packet that was sent once only (Karn's rule) was acknowledged after `time`. */
static inline void congestion_measured(struct congestion *c, uint64_t time, uint64_t least_retry) {
    time = time ? time : 1;
    if (!c->round_trip) {
        c->round_trip = time;
        c->variation = time / 2;
    } else {
        uint64_t off = time > c->round_trip ? time - c->round_trip : c->round_trip - time;
        c->variation = (3 * c->variation + off) / 4;
        c->round_trip = (7 * c->round_trip + time) / 8;
    }
    uint64_t retry = c->round_trip + 4 * c->variation;
    c->retry_time = retry > least_retry ? retry : least_retry;
}

/* How long silence is no failure, after some that were; `most` 0: no limit. */
static inline uint64_t congestion_patience(const struct congestion *c, uint32_t doublings,
                                           uint64_t most) {
    uint64_t time = c->retry_time << doublings;
    return most && time > most ? most : time;
}

static inline void congestion_acknowledged(struct congestion *c, uint32_t packets,
                                           uint32_t most_packets) {
    if (c->window < c->threshold) {
        c->window += packets;
    } else {
        c->credit += packets;
        uint32_t more = c->credit / c->window;
        c->credit -= more * c->window;
        c->window += more;
    }
    if (c->window > most_packets)
        c->window = most_packets;
}

static inline void congestion_halve(struct congestion *c) {
    if (c->window / 2 >= CONGESTION_LEAST)
        c->window /= 2;
    c->threshold = c->window;
    c->credit = 0;
}

/* Later packets have arrived, but not the one of that transmission; `newest` is the last so far. */
static inline void congestion_lost(struct congestion *c, uint64_t transmission, uint64_t newest) {
    if (transmission <= c->recovery)
        return;
    c->recovery = newest;
    congestion_halve(c);
}

/* Nothing was heard for retry_time. */
static inline void congestion_silent(struct congestion *c, uint64_t newest) {
    congestion_halve(c);
    if (c->window > CONGESTION_LEAST)
        c->window = CONGESTION_LEAST;
    c->recovery = newest;
}

#endif
