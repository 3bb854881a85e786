/* Copies from and to memory that the program may take away at any moment: by munmap, by another
 * mapping or protection, by cutting off the file that is mapped there. Memory that is not there
 * ends the copy, not the process. */
#ifndef SPIN_BASE_GUARDED_COPY_H
#define SPIN_BASE_GUARDED_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum guarded {
    GUARDED_NOT,       /* a fault is the program's, as in memcpy */
    GUARDED_BY_SIGNAL, /* by handlers of SIGSEGV and SIGBUS (fault_signal.h) */
    GUARDED_BY_SYSTEM, /* the system copies: slower, for programs that take these signals */
};

/* The best that there is now: handlers are installed if that has not been done. */
enum guarded guarded_way(void);

/* False: some of the `bytes` at `theirs` are not to be read, or written; some may be copied. */
bool guarded_read_slowly(enum guarded how, void *ours, const void *theirs, size_t bytes);
bool guarded_write_slowly(enum guarded how, void *theirs, const void *ours, size_t bytes);
/* Can the pages of these be written to? They are as they were, for atomics of others, too. */
bool guarded_touch(enum guarded how, void *theirs, size_t bytes);

static inline bool guarded_read(enum guarded how, void *ours, const void *theirs, size_t bytes) {
    if (how != GUARDED_NOT)
        return guarded_read_slowly(how, ours, theirs, bytes);
    if (bytes) /* a packet without data may have no place */
        memcpy(ours, theirs, bytes);
    return true;
}

static inline bool guarded_write(enum guarded how, void *theirs, const void *ours, size_t bytes) {
    if (how != GUARDED_NOT)
        return guarded_write_slowly(how, theirs, ours, bytes);
    if (bytes)
        memcpy(theirs, ours, bytes);
    return true;
}

#endif
