/* Starting the ranks of a program on live cards of this machine. */
#ifndef OPENSPIN_SPIN_LAUNCH_H
#define OPENSPIN_SPIN_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin/spin_error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPIN_LAUNCH_RANKS 1024 /* at most */

struct spin_launch_options {
    uint32_t ranks;
    bool label; /* each line that a rank prints begins with its number */
    bool keep;  /* one that fails does not end the others */
};

struct spin_launch_result {
    uint32_t failed;       /* ranks that ended by a signal or with another status than 0 */
    uint32_t first_failed; /* the first of them */
    int status;            /* its exit status, or 128 and the number of its signal */
    int signal;            /* that ended it; 0: it has exited */
    int passed_on;         /* a signal for us that ended the job; 0: none */
};

/* argv, ended by NULL, is the program and its arguments: found as execvp does. Each rank finds
 * OPENSPIN_JOB, OPENSPIN_RANK and OPENSPIN_SIZE in its environment, and a PMI server (PMI_FD).
 * Returns when all ranks have ended. Not for a process that has threads or children of its own. */
int spin_launch(const struct spin_launch_options *options, char *const *argv,
                struct spin_launch_result *result, struct spin_error *err);

#ifdef __cplusplus
}
#endif

#endif
