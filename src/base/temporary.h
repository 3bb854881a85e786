/* Folders for files that only this process needs.
 *
 * Each stands in $TMPDIR (or /tmp), belongs to this user alone, and is locked while its process
 * lives. So it is removed in every case: by its owner when it is done, by the signal that ends the
 * owner (temporary_interrupted), and after a kill by the next process that makes one, which finds
 * it without a lock. */
#ifndef SPIN_BASE_TEMPORARY_H
#define SPIN_BASE_TEMPORARY_H

#include <limits.h>

#include "openspin.h"

struct temporary {
    char path[PATH_MAX];
    int lock; /* the open folder, locked; -1: there is none */
};

int temporary_make(struct temporary *t, struct spin_error *err);
/* Removes the folder and the files in it. Does nothing when there is none. */
void temporary_remove(struct temporary *t);
/* For a signal that ends the process: removes all of them. Uses nothing that a signal may not. */
void temporary_interrupted(void);

#endif
