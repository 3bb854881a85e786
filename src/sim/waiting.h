/* Waiting lines before busy processors and cards.
 *
 * Design notes. The rules say: an event that finds its cpu or nic busy goes back into the queue at
 * the time when both are free, with its old number. When thousands wait for one cpu, each step of
 * it would move all of them, and the cost grows with the square. Here all but one of them stand in
 * a line outside the queue.
 *
 * Those in a line wait for the same thing: one rank, one cpu, one nic, one direction. So the time
 * when they could go on is the same for all, and among them the lowest sequence number goes first.
 * The one with the lowest number is the line's *guard*: it alone is in the queue, at the time the
 * resources are free. When it runs, the next in line becomes the guard, at the time when the
 * resources are free again.
 *
 * Why this gives the same run: a resource that is busy until T is changed by nobody before T. So at
 * any time before T every event of the line would find it busy and go back; at T the first to look
 * is the one with the lowest number, the guard. If the guard does not run at T, because another
 * line's event took the resource first, none of its line could have; it moves on to the new time,
 * and they would all have. If it runs, all others would go to the new time, where again the lowest
 * is first. tests/loggops_test.c holds this against the plain rules.
 *
 * A line is a pairing heap by sequence number: joining is O(1), leaving O(log n) amortised. */
#ifndef SPIN_SIM_WAITING_H
#define SPIN_SIM_WAITING_H

#include "sim/engine.h"

struct waiting;

/* Keys are 0 to keys - 1. */
struct waiting *waiting_new(uint64_t keys);
void waiting_free(struct waiting *l);

/* The event found the resources of line `key` busy until `free_ps`. True: it must be put back into
 * the queue at that time. False: it stands in line, since event->at_ps. */
bool waiting_wait(struct waiting *l, uint64_t key, const struct sim_event *event, uint64_t free_ps);
/* The event, which had waited, has run. True: *next becomes the guard and must be put back into the
 * queue at `free_ps`; its at_ps is when it joined the line. */
bool waiting_ran(struct waiting *l, uint64_t key, const struct sim_event *event, uint64_t free_ps,
                 struct sim_event *next);
bool waiting_out_of_memory(const struct waiting *l);
uint64_t waiting_bytes(const struct waiting *l);

#endif
