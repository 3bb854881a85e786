/* Ranks that are processes.
 *   world_process.c  starting and ending them; their fibres, which make their calls
 *   world_still.c    is a process still: does each of its threads wait?
 *   world_serve.c    a call: its arguments, its results
 *   world_looks.c    calls that find the same again, which need not be asked for one by one
 *
 * Design notes. A process runs while the world waits for it, so virtual time stands still for its
 * program as for one on a fibre. Each of its threads that makes calls has a fibre here, which reads
 * a call from the thread's slot (portals/channel.h), makes it, answers, and waits until the process
 * is *still*: every thread has posted a call, or sleeps in the system for something else (a lock, a
 * socket). Then virtual time goes on. What a thread sleeps for may come from another rank, so those
 * that are *outside* are looked at again after every turn of another one. A thread that watches
 * memory is outside too, and looked at when its card has written. */
#ifndef SPIN_SIM_WORLD_PROCESS_H
#define SPIN_SIM_WORLD_PROCESS_H

#include "live/live_kin.h"
#include "nic/message.h"
#include "portals/channel.h"
#include "sim/world_private.h"

struct world_slot {
    struct world_process *process;
    struct channel_slot *shared;
    struct world_thread *thread; /* whose fibre and clock serve it, or NULL */
    bool serving, noted;         /* its call is being performed; its fibre knows of it */
    uint64_t ran_ns;             /* for which its thread had run at the last sample */
};

/* Where a thread was found that runs. */
struct world_state {
    uint64_t place; /* instruction and stack pointer */
    uint64_t all;   /* all registers and the top of the stack */
    bool again;     /* it has come back there */
};

struct world_process {
    struct world_rank *rank;
    struct channel_rank *shared;
    struct nic_memory memory;
    int pid, file; /* file: its pidfd */
    int status;    /* as waitpid gives it, when it has */
    bool ended;
    bool kept;  /* but its memory is there until the world ends */
    bool quick; /* its last call came soon */
    /* Whether its thread that runs does nothing but look at memory. */
    bool watching, watched;          /* watched: it did so before, and is found sooner */
    uint32_t samples, repeated, row; /* since it was let run; row: of threads, repeated */
    uint32_t known;                  /* states, for good: it comes back to the same loops */
    struct world_state state[1024];
    uint64_t sampled_ns; /* processor time that it had used at the last sample */
    bool outside;        /* still, and not because all its threads are in calls */
    bool in_barrier;     /* of PMI, when it was last let run */
    struct world_slot slot[CHANNEL_SLOTS];
};

struct world_processes {
    struct channel *channel;
    size_t bytes;
    int memory, bell;
    struct live_pmi *pmi;
    struct live_kin kin;
    struct world_process *process; /* by rank */
    uint32_t ranks, outside;
};

/* world_still.c */
enum world_stillness {
    WORLD_RUNS,    /* a thread of it computes, or waits for something that is soon there */
    WORLD_SLEEPS,  /* all wait, and something from outside may come to one of them */
    WORLD_IS_DEAD, /* all wait for calls or for each other */
};
enum world_stillness world_look_at(const struct world_process *p);

/* Stops each thread that runs for a moment and notes its registers and the top of its stack: one
 * that watches memory comes back to the same few states again and again. A sample repeats itself
 * when all of them are in known states. */
void world_sample(struct world_process *p);

/* world_process.c: its card has written to its memory, which it may be watching. True: it was, and
 * has called. */
bool world_process_written(struct world_process *p);

/* world_looks.c: how often the thread that runs may make the call again that it has just made and
 * find the same; and the calls that it made so, which is false when one found something else. */
void world_looks_allow(struct world_process *p, struct channel_slot *s,
                       const struct world_thread *t);
bool world_looks_made(struct channel_slot *s);

/* world_serve.c: performs the call in a slot, on the thread that runs; its results are there. */
void world_serve(struct world_process *p, struct channel_slot *s);
bool world_process_read(struct world_process *p, void *to, uint64_t from, uint64_t bytes);
bool world_process_write(struct world_process *p, uint64_t to, const void *from, uint64_t bytes);

#endif
