/* Under a limit of memory and with swap, a thread without which the system may end the process.
 *
 * Pages of a control group are on two lists: the system takes away from the inactive one, and moves
 * pages of the active one there when the first is the shorter. Which one that is it reads from the
 * group's statistics, and these it sums up every 2 seconds only. A process that swaps in more than
 * its limit meanwhile can empty the inactive list: then there is nothing to take away, the group
 * is out of memory, and its process is killed, whatever there is of swap and of active pages.
 * Whoever reads the statistics has the system sum them up, so the thread does so, in time. */
#ifndef SPIN_LIVE_LIVE_LIMIT_H
#define SPIN_LIVE_LIVE_LIMIT_H

struct live_limit;

/* NULL: there is no limit or no swap, or it cannot be done. */
struct live_limit *live_limit_new(void);
/* At once, by any thread: for those that bring in much. */
void live_limit_look(struct live_limit *limit);
void live_limit_free(struct live_limit *limit);

#endif
