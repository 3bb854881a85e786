/* What a rank expects of its C library, a point a function: all ranks run it side by side, so what
 * they had in common would show. */
#include "conformance.h"

#include <errno.h>
#include <getopt.h>
#include <openspin.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int support_count(void);
int support_own(void);
extern int support_constructed;

/* Lets all others run. */
static void others(void) {
    usleep(1 + spin_rank());
}

/* ---- variables --------------------------------------------------------------------------------
 */

static int valued = 5, zero, *address = &valued;
static __thread int thread_valued = 7, thread_zero;
static int constructed;

__attribute__((constructor)) static void construct(void) {
    constructed = 100 + (int)spin_rank();
}

static int count(void) {
    static int calls = 10;
    return calls++;
}

static int variables(void) {
    EXPECT_EQ(constructed, 100 + spin_rank());
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(valued, 5 + i);
        EXPECT_EQ(*address, 5 + i);
        EXPECT_EQ(zero, i);
        EXPECT_EQ(thread_valued, 7 + i);
        EXPECT_EQ(thread_zero, i);
        EXPECT_EQ(count(), 10 + i);
        valued++, zero++, thread_valued++, thread_zero++;
        others();
    }
    return 0;
}

static int library(void) {
    EXPECT_EQ(support_constructed, 1000 + spin_rank());
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(support_count(), 20 + i);
        others();
    }
    EXPECT_EQ(support_own(), 300 + spin_rank()); /* it sees this program's function */
    return 0;
}

int program_function(void) {
    return 300 + (int)spin_rank();
}

/* ---- what the library remembers ---------------------------------------------------------------
 */

static int options(void) {
    char a[] = "p", b[] = "-n", c[8], d[] = "-xy", e[] = "word", f[] = "--size=5", g[] = "-q";
    char *argv[] = {a, b, c, e, d, f, g, NULL};
    static const struct option longs[] = {{"size", required_argument, NULL, 's'}, {0}};
    snprintf(c, sizeof c, "%u", spin_rank());
    opterr = 0;
    EXPECT_EQ(getopt_long(7, argv, "n:xy", longs, NULL), 'n');
    EXPECT_EQ(atoi(optarg), spin_rank());
    others();
    EXPECT_EQ(getopt_long(7, argv, "n:xy", longs, NULL), 'x');
    others();
    EXPECT_EQ(getopt_long(7, argv, "n:xy", longs, NULL), 'y');
    others();
    EXPECT_EQ(getopt_long(7, argv, "n:xy", longs, NULL), 's');
    EXPECT_EQ(atoi(optarg), 5);
    others();
    EXPECT_EQ(getopt_long(7, argv, "n:xy", longs, NULL), '?');
    EXPECT_EQ(optopt, 'q');
    EXPECT_EQ(getopt_long(7, argv, "n:xy", longs, NULL), -1);
    EXPECT_EQ(optind, 6);
    EXPECT(argv[6] == e); /* moved behind the options */
    return 0;
}

static int numbers(void) {
    int32_t value;
    struct random_data data = {0};
    char state[128];
    initstate_r(1 + spin_rank(), state, sizeof state, &data);
    srand(1 + spin_rank());
    for (int i = 0; i < 5; i++) {
        random_r(&data, &value);
        EXPECT_EQ(rand(), value);
        others();
    }
    srandom(7);
    long first = random();
    others();
    srandom(7);
    EXPECT_EQ(random(), first);
    srand48(spin_rank());
    long a = lrand48();
    others();
    long b = lrand48();
    srand48(spin_rank());
    EXPECT_EQ(lrand48(), a);
    others();
    EXPECT_EQ(lrand48(), b);
    return 0;
}

static int words(void) {
    char text[32];
    snprintf(text, sizeof text, "a%u b%u,c%u", spin_rank(), spin_rank(), spin_rank());
    const char *word = strtok(text, " ,");
    for (char first = 'a'; first <= 'c'; first++) {
        EXPECT(word != NULL);
        EXPECT_EQ(word[0], first);
        EXPECT_EQ(atoi(word + 1), spin_rank());
        others();
        word = strtok(NULL, " ,");
    }
    EXPECT(word == NULL);
    return 0;
}

static int dates(void) {
    time_t at = 86400 * (time_t)(1 + spin_rank());
    const struct tm *date = gmtime(&at);
    others();
    EXPECT_EQ(date->tm_mday, 2 + spin_rank());
    return 0;
}

static int errors(void) {
    errno = 100 + (int)spin_rank();
    others();
    EXPECT_EQ(errno, 100 + spin_rank());
    EXPECT(!fopen("/no/such/file", "r"));
    others();
    EXPECT_EQ(errno, ENOENT);
    return 0;
}

static int process(void) {
    EXPECT_EQ(getpid(), spin_rank() + 1);
    EXPECT_EQ(fork(), -1);
    EXPECT_EQ(errno, ENOSYS);
    return 0;
}

/* ---- time -------------------------------------------------------------------------------------
 */

static uint64_t ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int sleeping(void) {
    uint64_t start = spin_now_ps();
    EXPECT_EQ(sleep(3600), 0);
    EXPECT_EQ(spin_now_ps() - start, 3600 * 1000000000000ull);
    EXPECT_EQ(usleep(5), 0);
    struct timespec time = {.tv_nsec = 7};
    EXPECT_EQ(nanosleep(&time, &time), 0); /* never less than a look */
    EXPECT_EQ(spin_now_ps() - start, 3600 * 1000000000000ull + 5000000 + 51000);
    start = spin_now_ps();
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += 2;
    EXPECT_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL), 0);
    EXPECT_EQ(spin_now_ps() - start, 2000000000000);
    uint64_t before = ns();
    struct timeval timeout = {.tv_usec = 20};
    EXPECT_EQ(select(0, NULL, NULL, NULL, &timeout), 0);
    EXPECT_EQ(poll(NULL, 0, 3), 0);
    EXPECT_EQ(ns() - before, 3020000);
    time.tv_nsec = -1;
    EXPECT_EQ(nanosleep(&time, NULL), -1);
    EXPECT_EQ(errno, EINVAL);
    return 0;
}

static int clocks(void) {
    struct timeval day;
    time_t start = time(NULL);
    const struct tm *date = gmtime(&start);
    EXPECT_EQ(date->tm_year, 100);
    EXPECT_EQ(date->tm_yday, 0);
    sleep(10);
    EXPECT_EQ(time(NULL) - start, 10);
    EXPECT_EQ(gettimeofday(&day, NULL), 0);
    EXPECT_EQ(day.tv_sec - start, 10);
    EXPECT_EQ(clock() / CLOCKS_PER_SEC, 10);
    uint64_t before = ns();
    spin_compute(1234);
    EXPECT_EQ(ns() - before, 1234); /* exact: a reading is free */
    return 0;
}

/* A loop that waits for a time ends. */
static int watching_a_clock(void) {
    uint64_t start = ns(), readings = 0;
    while (ns() - start < 1000000)
        readings++;
    EXPECT(readings > 1000 && readings < 100000);
    return 0;
}

static volatile int flag_of_all; /* each rank has its own: only it sets it */

static void set_flag(void) {
    flag_of_all = 1;
}

static int yielding(void) {
    uint64_t start = spin_now_ps();
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(sched_yield(), 0);
    EXPECT(spin_now_ps() > start);
    return 0;
}

/* ---- ends -------------------------------------------------------------------------------------
 */

static void second(void) {
    printf("rank %u: second\n", spin_rank());
}

static void third(void) {
    printf("rank %u: third\n", spin_rank());
}

__attribute__((destructor)) static void destruct(void) {
    if (flag_of_all)
        printf("rank %u: destroyed\n", spin_rank());
}

static int leaving(void) {
    set_flag();
    atexit(third);
    atexit(second);
    others();
    printf("rank %u: first\n", spin_rank());
    exit(0);
}

static int leaving_at_once(void) {
    set_flag();
    atexit(second);
    _exit(0);
}

static int failing(void) {
    if (spin_rank() == 1)
        exit(7);
    return 0;
}

int main(int argc, char **argv) {
    static const struct point points[] = {
        {"variables", variables},
        {"library", library},
        {"getopt", options},
        {"rand", numbers},
        {"strtok", words},
        {"gmtime", dates},
        {"errno", errors},
        {"getpid", process},
        {"sleep", sleeping},
        {"clocks", clocks},
        {"watching-a-clock", watching_a_clock},
        {"sched-yield", yielding},
        {"exit", leaving},
        {"_exit", leaving_at_once},
        {"exit7", failing},
        {0},
    };
    return conformance(points, argc, argv);
}
