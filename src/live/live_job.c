#include "live/live_job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "live/live_clock.h"

#define MAGIC 0x31626f4a6e697073ull /* "spinJob1" */

static struct live_job *map_job(struct live_folder *folder, int fd, struct spin_error *err) {
    void *map = mmap(NULL, sizeof(struct live_job), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        return map;
    spin_fail(err, SPIN_ENOMEM, "%s/job: cannot map it: %s", folder->path, strerror(errno));
    return NULL;
}

struct live_job *live_job_make(struct live_folder *folder, uint32_t ranks, struct spin_error *err) {
    int fd = openat(folder->fd, "job", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct live_job)) ||
        (fallocate(fd, 0, 0, sizeof(struct live_job)) && errno != EOPNOTSUPP)) {
        spin_fail(err, SPIN_EFILE, "%s/job: cannot make it: %s", folder->path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct live_job *job = map_job(folder, fd, err);
    if (!job)
        return NULL;
    job->ranks = ranks;
    job->start_ns = live_now_ns();
    atomic_store(&job->barrier, ranks);
    job->magic = MAGIC;
    return job;
}

struct live_job *live_job_open(struct live_folder *folder, struct spin_error *err) {
    struct stat is;
    int fd = openat(folder->fd, "job", O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &is) || is.st_size != sizeof(struct live_job)) {
        spin_fail(err, SPIN_EFILE, "%s/job: not a job of `openspin launch`", folder->path);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct live_job *job = map_job(folder, fd, err);
    if (!job || job->magic == MAGIC)
        return job;
    spin_fail(err, SPIN_EFILE, "%s/job: not a job of `openspin launch`", folder->path);
    live_job_close(job);
    return NULL;
}

void live_job_close(struct live_job *job) {
    if (job)
        munmap(job, sizeof *job);
}

/* One rank more or less, in the word of the barrier. */
#define RUNS  (1ull)
#define WAITS (1ull << 16)

/* All who still run are there, or nobody is left to wait. */
static uint64_t pass(uint64_t barrier) {
    uint64_t waiting = barrier >> 16 & 0xffff, running = barrier & 0xffff;
    return waiting && waiting >= running ? ((barrier >> 32) + 1) << 32 | running : barrier;
}

static void tell(struct live_job *job, uint64_t before, uint64_t after) {
    if (after >> 32 == before >> 32)
        return;
    atomic_store(&job->opened, (uint32_t)(after >> 32));
    live_futex_wake(&job->opened, INT_MAX);
}

uint32_t live_job_arrive(struct live_job *job, uint32_t rank) {
    uint64_t now = atomic_load(&job->barrier), next;
    do
        next = pass(now + WAITS);
    while (!atomic_compare_exchange_weak(&job->barrier, &now, next));
    atomic_store(&job->arrived[rank], (uint32_t)(now >> 32) + 1);
    tell(job, now, next);
    return (uint32_t)(now >> 32);
}

void live_job_leave(struct live_job *job, uint32_t rank) {
    uint64_t now = atomic_load(&job->barrier), next;
    do {
        bool waits = atomic_load(&job->arrived[rank]) == (uint32_t)(now >> 32) + 1;
        next = pass(now - RUNS - (waits ? WAITS : 0));
    } while (!atomic_compare_exchange_weak(&job->barrier, &now, next));
    tell(job, now, next);
}

bool live_job_passed(struct live_job *job, uint32_t number) {
    return atomic_load_explicit(&job->opened, memory_order_acquire) != number;
}

void live_job_sleep(struct live_job *job, uint32_t number, uint64_t until_ns) {
    live_futex_wait(&job->opened, number, until_ns);
}
