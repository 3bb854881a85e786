/* Processes that the ranks of a job have started: the program behind a script, a debugger, another
 * tool. The system tells a launcher how its own children end, and nothing of theirs. So a rank has
 * the job's number in its environment, and whatever is begun in it has it, too; /proc shows it, to
 * this user, until the process ends or clears its environment. */
#ifndef SPIN_LIVE_LIVE_KIN_H
#define SPIN_LIVE_LIVE_KIN_H

#include <stdint.h>
#include <sys/types.h>

struct live_kin {
    pid_t starter;   /* whose children are the ranks: they are no kin, whose end it is told */
    uint64_t number; /* of the job, which no other has */
};

/* Of a new job of this process. */
struct live_kin live_kin_new(void);
/* In a rank, before its exec. */
void live_kin_mark(const struct live_kin *kin);
/* In a child of the starter that is no rank: it is none of the job's that the starter may be of. */
void live_kin_leave(void);
/* A signal to all of them but, unless it is 0, a process group, which has it from the terminal.
 * Number 0: only looks. Returns how many they are. */
uint32_t live_kin_signal(const struct live_kin *kin, int number, pid_t spared_group);

#endif
