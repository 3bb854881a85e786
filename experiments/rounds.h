/* Rounds: what every rank of a world does over and over (compute, exchange with neighbours). A
 * world is deterministic, so once it is as it was some rounds before, but for the time, every round
 * to come is as one that was simulated. This finds out, and says what all rounds take, to the
 * picosecond.
 *
 * *As it was*: at the end of a round a rank has nothing under way and goes on to compute. When all
 * ranks compute at once, no packet is anywhere, and what is to come depends on three things: when
 * each rank goes on, relative to the others; what it goes on with (its inputs, which may repeat
 * after a number of rounds: `cycle`); and what messages leave behind (`state`, such as how full a
 * buffer is). The period is the least number of rounds after which all of these are the same. As a
 * check on what we may not have thought of, all that the ranks saw within a round (`trace`, with
 * times relative to the round's beginning) has to be the same as a period before for 32 rounds, one
 * after the other, and each round that is simulated after those has to be as predicted. */
#ifndef OPENSPIN_EXPERIMENTS_ROUNDS_H
#define OPENSPIN_EXPERIMENTS_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

struct spin_error;
struct rounds;

struct rounds_plan {
    uint32_t ranks;
    uint64_t wanted; /* rounds */
    uint64_t search; /* simulated rounds in which to look for a period; 0: simulates all wanted */
    uint32_t cycle;  /* inputs are the same again after so many rounds; 0: always */
};

/* NULL: no memory. */
struct rounds *rounds_new(const struct rounds_plan *plan);
void rounds_free(struct rounds *rounds);

/* By a rank, before a round: false if it was the last one. `now_ps` of the first one is the
 * beginning of all. */
bool rounds_next(struct rounds *rounds, uint32_t rank, uint64_t now_ps);
struct rounds_mark {
    uint64_t now_ps;
    uint64_t calm_ps;  /* it computes at least so long now */
    uint64_t spent_ps; /* of the round, to be added up */
    uint64_t state;    /* that messages to come will feel */
    uint64_t trace;    /* of what has happened: rounds_trace */
};
/* And after it. */
void rounds_end(struct rounds *rounds, uint32_t rank, const struct rounds_mark *mark);
static inline uint64_t rounds_trace(uint64_t trace, uint64_t word) {
    trace = (trace ^ word) * 0x9fb21c651e98df25ull;
    return trace ^ trace >> 28;
}

struct rounds_result {
    uint64_t simulated, repeated; /* rounds: together those wanted, or less if there is no period */
    uint64_t period;              /* 0: all were simulated */
};
/* After the run. Not SPIN_OK: a round was not as predicted. */
int rounds_result(const struct rounds *rounds, struct rounds_result *result,
                  struct spin_error *err);
/* From the beginning to the end of the last round (simulated + repeated), and spent in them. */
struct rounds_total {
    uint64_t time_ps, spent_ps;
};
struct rounds_total rounds_total(const struct rounds *rounds, uint32_t rank);
/* The same of the first `count` rounds, 1 or more, if a period was looked for. */
struct rounds_total rounds_total_of(const struct rounds *rounds, uint32_t rank, uint64_t count);

#endif
