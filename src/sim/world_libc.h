/* The C library as a rank has it. Ranks are threads of one process in disguise, so whatever the C
 * library keeps for a process, measures by a clock or does to a process must be done for the rank
 * instead. Programs and their libraries are linked (link.h) against the calls here; this process
 * and the system's libraries keep the real ones. world_libc.c    the list; how a rank ends;
 * numbers, words and dates that the library remembers world_clock.c   clocks and sleeping
 *   world_getopt.c  options
 *   world_thread.c  threads and what belongs to one
 *   world_sync.c    mutexes, conditions and all else that threads wait by
 *   world_c11.c     threads.h
 *   world_cxx.c     std::thread */
#ifndef SPIN_SIM_WORLD_LIBC_H
#define SPIN_SIM_WORLD_LIBC_H

#include <stdlib.h>
#include <time.h>

#include "sim/world_private.h"

/* ---- for the linker and the loader ------------------------------------------------------------
 */

/* Our call of that name, or NULL. */
const void *world_libc_call(const char *name);
/* A variable that every rank has of its own, as an offset in its block. */
bool world_libc_variable(const char *name, uint64_t *offset);
uint64_t world_libc_bytes(void);
/* The block of a rank, as a process finds it. */
void world_libc_start(void *own);
/* For ranks that are processes: as clock_gettime and clock_nanosleep of a rank. */
void world_clock_read(clockid_t clock, struct timespec *to);
int world_clock_sleep(clockid_t clock, int flags, const struct timespec *of);
/* What finds a thread-local variable by a descriptor; NULL where compilers do not use them. */
const void *world_libc_tls_call(void);

/* ---- among its files --------------------------------------------------------------------------
 */

struct world_call {
    const char *name;
    const void *call;
};
#define WORLD_CALL(name, function)                                                                 \
    { #name, (const void *)(function) }
extern const struct world_call world_exit_calls[], world_state_calls[], world_clock_calls[],
    world_getopt_calls[], world_thread_calls[], world_sync_calls[], world_c11_calls[],
    world_cxx_calls[];

struct world_own { /* variables of the C library that programs name; in a rank's image */
    char *optarg;
    int optind, opterr, optopt;
};

struct world_exit_handler {
    void (*call)(void *argument, int status);
    void *argument;
};

#define WORLD_KEYS 128

struct world_libc { /* what it keeps for a rank; made when it is first needed */
    struct world_exit_handler *handlers;
    uint32_t handler_count, handler_room;
    bool has_random;
    char random_state[128];
    struct random_data random;
    struct drand48_data drand48;
    char *token;
    struct tm date;
    char date_text[32];
    /* getopt: in the middle of a word; the words before `after` that are none, from `before` */
    char *option_at;
    int before, after;
    bool options_begun;
    uint32_t keys; /* that were ever made */
    bool key_used[WORLD_KEYS];
    void (*key_end[WORLD_KEYS])(void *);
};

/* Of the rank that runs. */
struct world_libc *world_libc(struct world_thread *t);
struct world_own *world_own(struct world_thread *t);
/* The thread's rank ends with that status, after what it asked for has been done (or not). */
_Noreturn void world_exit(struct world_thread *t, int status, bool in_order);
/* There is none for a call that cannot say so: the world ends with that error, the rank where it
 * is. */
_Noreturn void world_no_memory(struct world_thread *t, const char *what);
/* What a thread, and a rank, leave behind. */
void world_libc_end(struct world_thread *t);
void world_libc_free(struct world_rank *r);

#endif
