/* Between a simulated world and the processes that are its ranks: memory that both map. A thread of
 * a rank writes a call and its arguments into its slot and sleeps; the world reads the memory that
 * the arguments point to (process_vm_readv), performs the call on the rank's card in virtual time,
 * writes what it gives back where it belongs, and wakes the thread.
 *
 * The world sleeps on the slot (a futex) while calls come quickly, else in poll, where an eventfd
 * is its bell; it says which, and who posts a call wakes it. */
#ifndef SPIN_PORTALS_CHANNEL_H
#define SPIN_PORTALS_CHANNEL_H

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "portals/process.h"

/* In a rank's environment: "VERSION FD BELL WORLD RANK RANKS"; FD is the memory, WORLD the pid. */
#define CHANNEL_VARIABLE "OPENSPIN_WORLD"
#define CHANNEL_VERSION  5

/* Calls of openspin.h, and of the C library where it asks for the time; behind those of Portals. */
enum channel_call {
    CHANNEL_NOW = PORTALS_CALL_COUNT,
    CHANNEL_COMPUTE, /* ps */
    CHANNEL_WORK,    /* cycles, bytes */
    CHANNEL_BARRIER,
    CHANNEL_MEMORY,       /* enum portals_memory, address, bytes */
    CHANNEL_MAP,          /* interface */
    CHANNEL_NI_INIT_41,   /* PtlNIInit with the limits of Portals 4.1 */
    CHANNEL_CLOCK,        /* clock: seconds and nanoseconds come back */
    CHANNEL_SLEEP,        /* clock, flags, seconds, nanoseconds */
    CHANNEL_WAIT,         /* number of a wait, clock, seconds, nanoseconds: until it is woken */
    CHANNEL_WAKE,         /* its number; 0: it was there */
    CHANNEL_THREAD_BEGIN, /* a new thread waits for its turn */
    CHANNEL_THREAD_END,
    CHANNEL_EXIT, /* status; answered when the world ends: until then the card uses its memory */
};

enum channel_state {
    CHANNEL_FREE,
    CHANNEL_RUNNING, /* its thread is in the program */
    CHANNEL_POSTED,  /* a call waits, or is being performed, */
    CHANNEL_ASLEEP,  /* and its thread has to be woken after it */
};

/* Where the world sleeps while it waits for a process. */
enum channel_sleep {
    CHANNEL_AWAKE,
    CHANNEL_AT_SLOT, /* on the state of the slot that is expected to be posted */
    CHANNEL_AT_BELL, /* in poll, on the bell and on more */
};

/* A thread that looks again and again, by PtlEQGet or PtlCTGet, need not ask each time: the world
 * says how often it will find the same, because nothing happens before. The thread says with its
 * next call how often it has looked meanwhile, and the world then makes these calls, in the virtual
 * time that they take. */
struct channel_looks {
    uint32_t call;      /* that finds the same */
    uint32_t left;      /* so often */
    uint32_t made;      /* without the world */
    uint64_t handle;    /* of the queue or counter */
    uint64_t counts[2]; /* what PtlCTGet finds */
};

struct channel_slot { /* of a thread */
    _Alignas(64) _Atomic uint32_t state;
    uint32_t call;
    _Atomic int32_t thread; /* its number in the system; 0: it is being started */
    int32_t code;
    uint64_t back[2];
    uint64_t fault; /* 0, or an argument that points to memory that is not there, */
    uint64_t fault_writes;
    uint64_t word[20];
    char text[256];
    struct channel_looks looks;
};

#define CHANNEL_SLOTS 256

struct channel_rank {
    _Alignas(4096) _Atomic int32_t pid; /* of the process that makes the calls; 0: none yet */
    _Atomic uint32_t threads;           /* it may have several threads */
    _Atomic uint32_t portals;           /* it has the calls of Portals, or has made one */
    struct channel_slot slot[CHANNEL_SLOTS];
};

struct channel {
    _Atomic uint32_t asleep; /* enum channel_sleep */
    _Atomic uint32_t over;   /* nobody will answer any more */
    struct channel_rank rank[];
};

#endif
