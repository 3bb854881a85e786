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
/* The same GUARDED_BY_SIGNAL, for generated code. */
bool guarded_write_packet(void *theirs, const void *ours, size_t bytes);
/* Whether copies of up to so many bytes go by vectors of 32. */
#define GUARDED_VECTORS_MOST 4096u
bool guarded_has_vectors(void);
/* Can the pages of these be written to? They are as they were, for atomics of others, too. */
bool guarded_touch(enum guarded how, void *theirs, size_t bytes);

/* `use` reads or writes these bytes, and leaves nothing that has to be undone when it ends where
 * some are not there. False: so it did; or GUARDED_BY_SYSTEM, which cannot do it. */
typedef void guarded_user(void *context, const void *theirs, size_t bytes);
bool guarded_use(enum guarded how, const void *theirs, size_t bytes, guarded_user *use,
                 void *context);

#ifdef __x86_64__
#define GUARDED_WORDS 1

/* Where an instruction that may fault goes on then: a table for the handler of the signals. The
 * numbers are distances from where they stand. */
#define GUARDED_OR(label)                                                                          \
    ".pushsection spin_guarded, \"a\"\n.balign 4\n.long 1b - ., %l[" #label "] - .\n.popsection\n"

/* A word, at the price of one that is not guarded; without our handlers it is as in memcpy. */
static inline bool guarded_word(void *to, const void *from) {
    __asm__ goto("1: movq (%1), %%rcx\n" GUARDED_OR(bad) "1: movq %%rcx, (%0)\n" GUARDED_OR(bad)
                 :
                 : "r"(to), "r"(from)
                 : "rcx", "memory"
                 : bad);
    return true;
bad:
    return false;
}
#else
#define GUARDED_WORDS 0
static inline bool guarded_word(void *to, const void *from) {
    memcpy(to, from, sizeof(uint64_t));
    return true;
}
#endif

/* Most have one word. */
static inline bool guarded_is_word(enum guarded how, size_t bytes) {
    return bytes == sizeof(uint64_t) &&
           (how == GUARDED_NOT || (GUARDED_WORDS && how == GUARDED_BY_SIGNAL));
}

static inline bool guarded_read(enum guarded how, void *ours, const void *theirs, size_t bytes) {
    if (guarded_is_word(how, bytes))
        return guarded_word(ours, theirs);
    if (how != GUARDED_NOT)
        return guarded_read_slowly(how, ours, theirs, bytes);
    if (bytes) /* a packet without data may have no place */
        memcpy(ours, theirs, bytes);
    return true;
}

static inline bool guarded_write(enum guarded how, void *theirs, const void *ours, size_t bytes) {
    if (guarded_is_word(how, bytes))
        return guarded_word(theirs, ours);
    if (how != GUARDED_NOT)
        return guarded_write_slowly(how, theirs, ours, bytes);
    if (bytes)
        memcpy(theirs, ours, bytes);
    return true;
}

#endif
