/* What the ranks of a job of `openspin launch` share beside their cards: the barrier of
 * spin_barrier, which waits for the ranks that have not ended, and the time at which the job began.
 * A file in the job's folder. */
#ifndef SPIN_LIVE_LIVE_JOB_H
#define SPIN_LIVE_LIVE_JOB_H

#include <stdatomic.h>
#include <stdint.h>

#include "live/live_names.h"

struct live_job {
    uint64_t magic;
    uint32_t ranks;
    uint64_t start_ns;
    _Atomic uint64_t barrier; /* how many there were << 32 | ranks that wait << 16 | that run */
    _Atomic uint32_t opened;  /* futex: how many there were */
    /* Of a rank: how many barriers it came to. A rank that ends in one is not counted as waiting.
     */
    _Atomic uint32_t arrived[LIVE_PIDS];
};

/* The launcher makes it; ranks find it. NULL: error. */
struct live_job *live_job_make(struct live_folder *folder, uint32_t ranks, struct spin_error *err);
struct live_job *live_job_open(struct live_folder *folder, struct spin_error *err);
void live_job_close(struct live_job *job);

/* A rank arrives; returns the number of the barrier, which is over when live_job_passed says so. */
uint32_t live_job_arrive(struct live_job *job, uint32_t rank);
bool live_job_passed(struct live_job *job, uint32_t number);
/* Sleeps until then, at most to until_ns. */
void live_job_sleep(struct live_job *job, uint32_t number, uint64_t until_ns);
/* A rank has ended: nobody waits for it, and it waits for nobody. */
void live_job_leave(struct live_job *job, uint32_t rank);

#endif
