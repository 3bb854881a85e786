#include "live/live_limit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/helper_thread.h"
#include "base/memory_group.h"
#include "live/live_clock.h"

/* At 1 GB/s, which is more than two processors get out of compressed memory, an eighth of the limit
 * is swapped in between two looks; half of it is what an inactive list has that is not short. */
#define PARTS        8
#define BYTES_PER_NS 1
#define SHARE        20 /* of a processor at most: in large groups summing up takes long */

struct live_limit {
    int statistics;
    uint64_t period_ns;
    pthread_t thread;
    _Atomic uint32_t ends; /* futex */
};

void live_limit_look(struct live_limit *l) {
    char some[16]; /* all are summed up, no matter how much is read */
    if (!l)
        return;
    ssize_t got = pread(l->statistics, some, sizeof some, 0);
    (void)got;
}

static void *look_at_times(void *context) {
    struct live_limit *l = context;
    while (!atomic_load(&l->ends)) {
        uint64_t began_ns = live_now_ns();
        live_limit_look(l);
        uint64_t now_ns = live_now_ns(), rest_ns = SHARE * (now_ns - began_ns);
        live_futex_wait(&l->ends, 0, now_ns + (rest_ns > l->period_ns ? rest_ns : l->period_ns));
    }
    return NULL;
}

struct live_limit *live_limit_new(void) {
    struct sysinfo machine;
    struct memory_group group;
    uint64_t bytes = memory_group_limit(&group);
    if (bytes == UINT64_MAX || sysinfo(&machine) != 0 || !machine.totalswap)
        return NULL;
    struct live_limit *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->period_ns = bytes / PARTS / BYTES_PER_NS;
    l->statistics = memory_group_open_statistics(&group);
    if (l->statistics >= 0 && helper_thread_start(&l->thread, look_at_times, l) == 0)
        return l;
    if (l->statistics >= 0)
        close(l->statistics);
    free(l);
    return NULL;
}

void live_limit_free(struct live_limit *l) {
    if (!l)
        return;
    atomic_store(&l->ends, 1);
    live_futex_wake(&l->ends, 1);
    pthread_join(l->thread, NULL);
    close(l->statistics);
    free(l);
}
