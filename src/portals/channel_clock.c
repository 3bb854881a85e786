/* Clocks and sleeping of a rank, in virtual time; of any other process, the system's. As in
 * sim/world_clock.c, which answers. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "portals/channel_client.h"
#include "portals/channel_real.h"

#define MICRO 1000000
#define NANO  1000000000

int clock_gettime(clockid_t clock, struct timespec *to) {
    if (!channel_is_attached())
        return (int)syscall(SYS_clock_gettime, clock, to);
    uint64_t back[2];
    int code = channel_post(CHANNEL_CLOCK, (const uint64_t[]){(uint64_t)clock}, 1, back);
    to->tv_sec = (time_t)back[0];
    to->tv_nsec = (long)back[1];
    return code;
}

int clock_getres(clockid_t clock, struct timespec *to) {
    if (!channel_is_attached())
        return (int)syscall(SYS_clock_getres, clock, to);
    if (to)
        *to = (struct timespec){.tv_nsec = 1};
    return 0;
}

int timespec_get(struct timespec *to, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, to) == 0 ? base : 0;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int code = clock_gettime(CLOCK_REALTIME, &now);
    *to = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return code;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}

clock_t clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (clock_t)(now.tv_sec * CLOCKS_PER_SEC + now.tv_nsec / (NANO / CLOCKS_PER_SEC));
}

clock_t times(struct tms *to) {
    if (!channel_is_attached())
        return REAL(times, to);
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    long per_second = sysconf(_SC_CLK_TCK);
    clock_t ticks = (clock_t)(now.tv_sec * per_second + now.tv_nsec / (NANO / per_second));
    if (to)
        *to = (struct tms){.tms_utime = ticks};
    return ticks;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *of, struct timespec *left) {
    if (!channel_is_attached())
        return syscall(SYS_clock_nanosleep, clock, flags, of, left) ? errno : 0;
    if (of->tv_nsec < 0 || of->tv_nsec >= NANO || of->tv_sec < 0)
        return EINVAL;
    int code = CHANNEL_CALL(CHANNEL_SLEEP, (uint64_t)clock, (uint64_t)flags, (uint64_t)of->tv_sec,
                            (uint64_t)of->tv_nsec);
    if (left && !(flags & TIMER_ABSTIME)) /* which may be `of` */
        *left = (struct timespec){0};
    return code;
}

int nanosleep(const struct timespec *of, struct timespec *left) {
    int code = clock_nanosleep(CLOCK_MONOTONIC, 0, of, left);
    if (!code)
        return 0;
    errno = code;
    return -1;
}

unsigned sleep(unsigned s) {
    const struct timespec of = {.tv_sec = s};
    struct timespec left = {0};
    nanosleep(&of, &left);
    return (unsigned)left.tv_sec;
}

int usleep(useconds_t us) {
    const struct timespec of = {us / MICRO, (long)(us % MICRO) * 1000};
    return nanosleep(&of, NULL);
}

int sched_yield(void) {
    const struct timespec none = {0};
    return channel_is_attached() ? nanosleep(&none, NULL) : (int)syscall(SYS_sched_yield);
}

int pthread_yield(void) {
    return sched_yield();
}

int thrd_sleep(const struct timespec *of, struct timespec *left) {
    int code = clock_nanosleep(CLOCK_REALTIME, 0, of, left);
    return code == 0 ? 0 : code == EINTR ? -1 : -2;
}

void thrd_yield(void) {
    sched_yield();
}

/* Without files these are ways to sleep. What comes by files comes from outside of the world. */
int poll(struct pollfd *files, nfds_t count, int timeout_ms) {
    if (!channel_is_attached() || count || timeout_ms < 0)
        return REAL(poll, files, count, timeout_ms);
    const struct timespec of = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    return nanosleep(&of, NULL);
}

int select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout) {
    if (!channel_is_attached() || !timeout || (count > 0 && (in || out || except)))
        return REAL(select, count, in, out, except, timeout);
    const struct timespec of = {timeout->tv_sec + timeout->tv_usec / MICRO,
                                timeout->tv_usec % MICRO * 1000};
    *timeout = (struct timeval){0}; /* what is left */
    return nanosleep(&of, NULL);
}

/* A watchdog has nothing to do here: time stands still before it would be late. */
unsigned alarm(unsigned s) {
    if (channel_is_attached())
        return 0;
    const struct itimerval every = {.it_value = {.tv_sec = (time_t)s}};
    struct itimerval before = {0};
    setitimer(ITIMER_REAL, &every, &before);
    return (unsigned)before.it_value.tv_sec + (before.it_value.tv_usec > 0);
}
