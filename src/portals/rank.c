/* What a program asks of the job that it is a rank of (openspin.h), in a world or live. */
#include <string.h>

#include "openspin.h"
#include "portals/own_pages.h"
#include "portals/process.h"

/* NULL: this thread is in no rank. */
static const struct portals_job *job_here(void **context) {
    const struct portals_process *process = portals_here();
    *context = process ? process->context : NULL;
    return process ? process->job : NULL;
}

uint32_t spin_rank(void) {
    void *context;
    const struct portals_job *job = job_here(&context);
    return job ? job->rank(context) : 0;
}

uint32_t spin_ranks(void) {
    void *context;
    const struct portals_job *job = job_here(&context);
    return job ? job->ranks(context) : 1; /* alone, also where there is no card */
}

uint64_t spin_now_ps(void) {
    void *context;
    const struct portals_job *job = job_here(&context);
    return job ? job->now_ps(context) : 0;
}

void spin_compute_ps(uint64_t time_ps) {
    void *context;
    const struct portals_job *job = job_here(&context);
    if (job)
        job->compute(context, time_ps);
}

void spin_work(uint64_t cycles, uint64_t memory_bytes) {
    void *context;
    const struct portals_job *job = job_here(&context);
    if (job)
        job->work(context, cycles, memory_bytes);
}

void spin_copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    spin_work(0, 2 * bytes); /* read and written */
}

void spin_barrier(void) {
    void *context;
    const struct portals_job *job = job_here(&context);
    if (job)
        job->barrier(context);
}

int spin_map_ranks(uint32_t ni_handle) {
    void *context;
    const struct portals_job *job = job_here(&context);
    return job ? job->map(context, ni_handle) : PTL_NO_INIT;
}

int own_pages_call(enum portals_memory how, const void *at, uint64_t bytes) {
    void *context;
    const struct portals_job *job = job_here(&context);
    return job && job->memory ? job->memory(context, how, at, bytes)
                              : own_pages_use(how, at, bytes);
}
