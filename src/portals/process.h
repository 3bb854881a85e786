/* The process that a Portals call belongs to, and what it stands on: a simulated world or a live
 * card. Portals names no process, so each thread has a current one; a world that runs many on one
 * thread enters each when it switches to it. */
#ifndef SPIN_PORTALS_PROCESS_H
#define SPIN_PORTALS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nic/portals.h"

/* The calls, for cost models and for telling where a process waits. */
enum portals_call {
    PORTALS_NO_CALL,
#define X(name) PORTALS_CALL_##name,
#include "portals/calls.def"
#undef X
    PORTALS_CALL_COUNT
};
const char *portals_call_name(enum portals_call call); /* "PtlPut"; "no call" */

/* What a program does to pages of its own (spin_touch, spin_pin, spin_discard). */
enum portals_memory { PORTALS_TOUCH, PORTALS_PIN, PORTALS_DISCARD };

/* The job that a process is a rank of, for spin_rank and the like (openspin.h). `context` is the
 * process's. */
struct portals_job {
    uint32_t (*rank)(void *context);
    uint32_t (*ranks)(void *context);
    uint64_t (*now_ps)(void *context);
    void (*compute)(void *context, uint64_t time_ps);
    void (*work)(void *context, uint64_t cycles, uint64_t memory_bytes);
    void (*barrier)(void *context);
    int (*map)(void *context, uint32_t ni_handle); /* a code of enum ptl_retvals */
    /* In a world; NULL: the system's own pages. A code of enum spin_code. */
    int (*memory)(void *context, enum portals_memory how, const void *at, uint64_t bytes);
};

/* What calls need of their surroundings. Every function may be NULL but wait, where something is
 * waited for. `context` is the process's. */
struct portals_host {
    uint64_t (*now)(void *context);
    uint64_t per_millisecond; /* of `now`'s unit */
    /* Returns when something was raised since the call's last look, or at `deadline` (UINT64_MAX:
     * none), or spuriously. Called with the lock held; gives it up while it waits, so that nothing
     * is raised unseen. A world that sees that nothing will ever be raised does not return. */
    void (*wait)(void *context, uint64_t deadline);
    /* The processor's time that a call costs, `bytes` being those that it reads or writes itself.
     * Called before the call acts, without the lock; may switch to other processes. A call that
     * had to wait is charged once more when it has what it waited for. */
    void (*charge)(void *context, enum portals_call call, uint64_t bytes);
    /* An image is about to be loaded; without the lock. */
    void (*image)(void *context);
    /* Without the lock, where calls need not take it to read what is there (`cells`): looks what
     * has come, unless another thread does. */
    void (*look)(void *context);
    struct portals_cells *cells;
    /* In a call that has set `flooded` of its process, with the lock: waits until it may go on. */
    void (*calm)(void *context);
    void (*lock)(void *context);
    void (*unlock)(void *context);
};

struct portals_look;

struct portals_process {
    struct portals *portals; /* of its card */
    void *context;           /* of the functions of: */
    const struct portals_host *host;
    const struct portals_job *job; /* NULL: none */
    enum portals_call call;        /* in which it is now */
    bool flooded;                  /* it has sent to a peer for which too much waits already */
    const void *caller;            /* of it: an address of the program */
    struct portals_look *look;     /* while it waits: for what */
    /* For one counter: here, since `look` is on its stack, of which nothing is in the cache. */
    bool counts;
    ptl_handle_ct_t count;
    ptl_size_t test;
};

/* Something was raised on the card of a process that waits. A wait for one counter returns the
 * value that ended it, however far the counter is when the process goes on. False: it waits for one
 * that is not there yet, so it would look and wait again, and need not be switched to. */
bool portals_raised(struct portals_process *process);

/* What a process waits for: "counter 3 of 15", "an event"; "" if it does not wait. */
void portals_waits_for(const struct portals_process *process, char *text, size_t room);

/* Makes it the thread's current process (NULL: none); returns the one before. */
struct portals_process *portals_enter(struct portals_process *process);
/* That, or else the one of all threads. */
struct portals_process *portals_current(void);

/* In libportals alone (PORTALS_ALONE; live/live_process.c): makes the process of all threads that
 * have none of their own, when the first of them needs it: a live card, which is one per process of
 * the system. NULL: it could not. Every call needs it, so a program that is linked
 * with any call of the static library has it. */
struct portals_process *portals_make_alone(void);
/* There is none from now on, and none is made: in a child of fork, which has a copy of its parent's
 * card, but none of its threads, and shares with it what peers see. */
void portals_abandon(void);
/* The current one, made if there is none. */
struct portals_process *portals_here(void);

#endif
