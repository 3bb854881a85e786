/* Clocks and sleeping, in virtual time. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/times.h>
#include <unistd.h>

#include "sim/world_pthread.h"

/* The date at which every world begins: runs repeat, and dates are plausible. */
#define EPOCH_S    946684800ull /* 1 January 2000 */
#define PS_PER_S   1000000000000ull
#define LONGEST_PS (1ull << 62)

/* A reading is free; another one at the same time is part of a loop, and takes the time of a look.
 */
static uint64_t read_clock(void) {
    struct world_thread *t = world_current();
    if (!t)
        return 0;
    if (t->clock_read_ps == t->clock_ps + 1)
        world_pause(t, 0);
    t->clock_read_ps = t->clock_ps + 1;
    return t->clock_ps;
}

static bool is_date(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

static void split(uint64_t ps, clockid_t clock, struct timespec *to) {
    to->tv_sec = (time_t)(ps / PS_PER_S + (is_date(clock) ? EPOCH_S : 0));
    to->tv_nsec = (long)(ps % PS_PER_S / 1000);
}

uint64_t world_time_ps(clockid_t clock, const struct timespec *of) {
    uint64_t epoch = is_date(clock) ? EPOCH_S : 0, s = (uint64_t)of->tv_sec;
    if (of->tv_sec < 0 || s < epoch)
        return 0;
    s -= epoch;
    return s >= LONGEST_PS / PS_PER_S ? LONGEST_PS : s * PS_PER_S + (uint64_t)of->tv_nsec * 1000;
}

static bool is_time(const struct timespec *t) {
    return t->tv_nsec >= 0 && t->tv_nsec < 1000000000 && t->tv_sec >= 0;
}

/* ---- clocks -----------------------------------------------------------------------------------
 */

static int own_clock_gettime(clockid_t clock, struct timespec *to) {
    split(read_clock(), clock, to);
    return 0;
}

void world_clock_read(clockid_t clock, struct timespec *to) {
    own_clock_gettime(clock, to);
}

static int own_clock_getres(clockid_t clock, struct timespec *to) {
    (void)clock;
    if (to)
        *to = (struct timespec){.tv_nsec = 1};
    return 0;
}

static int own_clock_settime(clockid_t clock, const struct timespec *to) {
    (void)clock, (void)to;
    errno = EPERM;
    return -1;
}

static int own_timespec_get(struct timespec *to, int base) {
    if (base != TIME_UTC)
        return 0;
    split(read_clock(), CLOCK_REALTIME, to);
    return base;
}

static int own_gettimeofday(struct timeval *to, void *zone) {
    struct timespec now;
    (void)zone;
    split(read_clock(), CLOCK_REALTIME, &now);
    *to = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

static time_t own_time(time_t *to) {
    time_t now = (time_t)(read_clock() / PS_PER_S + EPOCH_S);
    if (to)
        *to = now;
    return now;
}

static clock_t own_clock(void) {
    return (clock_t)(read_clock() / (PS_PER_S / CLOCKS_PER_SEC));
}

static clock_t own_times(struct tms *to) {
    uint64_t ticks = read_clock() / (PS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
    if (to)
        *to = (struct tms){.tms_utime = (clock_t)ticks};
    return (clock_t)ticks;
}

/* ---- sleeping ---------------------------------------------------------------------------------
 */

static void sleep_ps(uint64_t ps) {
    struct world_thread *t = world_current();
    if (t)
        world_pause(t, ps < LONGEST_PS ? ps : LONGEST_PS);
}

static unsigned own_sleep(unsigned s) {
    sleep_ps(s * PS_PER_S);
    return 0;
}

static int own_usleep(useconds_t us) {
    sleep_ps(us * 1000000ull);
    return 0;
}

static int own_clock_nanosleep(clockid_t clock, int flags, const struct timespec *of,
                               struct timespec *left) {
    struct world_thread *t = world_current();
    if (!is_time(of))
        return EINVAL;
    uint64_t ps = world_time_ps(flags & TIMER_ABSTIME ? clock : CLOCK_MONOTONIC, of);
    if (flags & TIMER_ABSTIME && t)
        ps = ps > t->clock_ps ? ps - t->clock_ps : 0;
    sleep_ps(ps);
    if (left && !(flags & TIMER_ABSTIME))
        *left = (struct timespec){0};
    return 0;
}

int world_clock_sleep(clockid_t clock, int flags, const struct timespec *of) {
    return own_clock_nanosleep(clock, flags, of, NULL);
}

static int own_nanosleep(const struct timespec *of, struct timespec *left) {
    int code = own_clock_nanosleep(CLOCK_MONOTONIC, 0, of, left);
    if (!code)
        return 0;
    errno = code;
    return -1;
}

static int own_sched_yield(void) {
    sleep_ps(0);
    return 0;
}

/* Nobody wakes a rank from here; what others want of it is found as a deadlock. */
static int own_pause(void) {
    for (;;)
        world_block(world_current(), "pause", UINT64_MAX);
    return -1;
}

/* Without files these are ways to sleep; with files they are the system's, and look without
 * waiting, since what comes from outside has no virtual time. */
static int own_select(int count, fd_set *read, fd_set *write, fd_set *except,
                      struct timeval *timeout) {
    struct timeval now = {0};
    if (count > 0 && (read || write || except)) {
        int ready = select(count, read, write, except, timeout ? &now : NULL);
        if (ready == 0 && timeout)
            sleep_ps((uint64_t)timeout->tv_sec * PS_PER_S + (uint64_t)timeout->tv_usec * 1000000);
        return ready;
    }
    if (!timeout)
        own_pause();
    sleep_ps((uint64_t)timeout->tv_sec * PS_PER_S + (uint64_t)timeout->tv_usec * 1000000);
    return 0;
}

static int own_poll(struct pollfd *files, nfds_t count, int timeout_ms) {
    int ready = count ? poll(files, count, timeout_ms < 0 ? -1 : 0) : 0;
    if (ready == 0 && timeout_ms >= 0)
        sleep_ps((uint64_t)timeout_ms * (PS_PER_S / 1000));
    return ready;
}

/* A watchdog has nothing to do here: time stands still before it would be late. */
static unsigned own_alarm(unsigned s) {
    (void)s;
    return 0;
}

const struct world_call world_clock_calls[] = {
    WORLD_CALL(clock_gettime, own_clock_gettime),
    WORLD_CALL(clock_getres, own_clock_getres),
    WORLD_CALL(clock_settime, own_clock_settime),
    WORLD_CALL(timespec_get, own_timespec_get),
    WORLD_CALL(gettimeofday, own_gettimeofday),
    WORLD_CALL(time, own_time),
    WORLD_CALL(clock, own_clock),
    WORLD_CALL(times, own_times),
    WORLD_CALL(sleep, own_sleep),
    WORLD_CALL(usleep, own_usleep),
    WORLD_CALL(nanosleep, own_nanosleep),
    WORLD_CALL(clock_nanosleep, own_clock_nanosleep),
    WORLD_CALL(sched_yield, own_sched_yield),
    WORLD_CALL(pthread_yield, own_sched_yield),
    WORLD_CALL(select, own_select),
    WORLD_CALL(poll, own_poll),
    WORLD_CALL(pause, own_pause),
    WORLD_CALL(alarm, own_alarm),
    {NULL, NULL},
};
