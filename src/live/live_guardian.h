/* The files of a job of `openspin launch` are the launcher's to remove, and what its ranks have
 * started (live_kin.h) is the launcher's to end when the job fails. A launcher that is killed
 * cannot, so a process of its own, the guardian, waits for that and does it: it sleeps in a read
 * from a socket whose other end only the launcher has, so that the system wakes it whichever way
 * the launcher ends. It is no child of the launcher's, but of a child that waits for it: who kills
 * a process with all its children spares it, and no process is left for the system to clean up.
 * Both have a session of their own and none of the launcher's files: what is done to the job by a
 * terminal or a process group does not reach them, and nobody who reads the job's output waits for
 * them. */
#ifndef SPIN_LIVE_LIVE_GUARDIAN_H
#define SPIN_LIVE_LIVE_GUARDIAN_H

#include <sys/types.h>

#include "live/live_kin.h"
#include "live/live_names.h"

struct live_guardian {
    int told; /* the socket; -1: there is no guardian, what a kill leaves is the next launcher's */
    pid_t child;
};

/* For a job's folder, before there is anything else of the job. */
void live_guardian_start(struct live_guardian *guardian, const struct live_folder *folder,
                         const struct live_kin *kin);
/* The folder has been removed: the guardian ends, and nothing of it is left. */
void live_guardian_dismiss(struct live_guardian *guardian);

#endif
