/* The files of a job of `openspin launch` are the launcher's to remove. A launcher that is killed
 * cannot, so a process of its own, the guardian, waits for that and does it: it sleeps in a read
 * from a socket whose other end only the launcher has, so that the system wakes it whichever way
 * the launcher ends. It is no child of the launcher's, has a session of its own, and of the
 * launcher's files it has the socket alone: what is done to the job by a terminal, a process group
 * or a parent does not reach it, and nobody who reads the job's output waits for it. */
#ifndef SPIN_LIVE_LIVE_GUARDIAN_H
#define SPIN_LIVE_LIVE_GUARDIAN_H

#include "live/live_names.h"

/* For a job's folder, before there is anything else of the job. The result is for
 * live_guardian_dismiss; -1: there is no guardian, and what a kill leaves is the next launcher's to
 * remove. */
int live_guardian_start(const struct live_folder *folder);
/* The folder has been removed: the guardian ends. */
void live_guardian_dismiss(int guardian);

#endif
