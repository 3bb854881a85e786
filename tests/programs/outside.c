/* What only a process can do: a rank that is one misses nothing. A point a run; of a point that
 * fails, the rank says so and returns 1. */
#include "conformance.h"

#include <openspin.h>
#include <portals4.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static ptl_handle_ni_t ni;
static ptl_handle_ct_t ct;
static ptl_handle_eq_t eq;
static ptl_pt_index_t pt;

static int open_ni(void) {
    EXPECT_EQ(PtlInit(), PTL_OK);
    EXPECT_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL,
                        NULL, &ni),
              PTL_OK);
    EXPECT_EQ(spin_map_ranks(ni), PTL_OK);
    EXPECT_EQ(PtlCTAlloc(ni, &ct), PTL_OK);
    EXPECT_EQ(PtlEQAlloc(ni, 16, &eq), PTL_OK);
    EXPECT_EQ(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_OK);
    return 0;
}

/* ---- PMI-1 ---- */

static int ask(const char *line, char *answer, size_t room) {
    int fd = atoi(getenv("PMI_FD"));
    size_t have = 0;
    EXPECT_EQ((size_t)write(fd, line, strlen(line)), strlen(line));
    while (have + 1 < room && read(fd, answer + have, 1) == 1 && answer[have] != '\n')
        have++;
    answer[have] = 0;
    return 0;
}

/* Each rank learns a word of its neighbour through PMI. */
static int pmi(void) {
    char line[200], answer[200], expected[40];
    int rank = atoi(getenv("PMI_RANK")), ranks = atoi(getenv("PMI_SIZE"));
    EXPECT_EQ(rank, (int)spin_rank());
    EXPECT_EQ(ranks, (int)spin_ranks());
    ask("cmd=init pmi_version=1 pmi_subversion=1\n", answer, sizeof answer);
    snprintf(line, sizeof line, "cmd=put kvsname=openspin key=k%d value=word%d\n", rank, rank);
    ask(line, answer, sizeof answer);
    ask("cmd=barrier_in\n", answer, sizeof answer);
    snprintf(line, sizeof line, "cmd=get kvsname=openspin key=k%d\n", (rank + 1) % ranks);
    ask(line, answer, sizeof answer);
    snprintf(expected, sizeof expected, "value=word%d", (rank + 1) % ranks);
    EXPECT_EQ(strstr(answer, expected) != NULL, 1);
    return open_ni();
}

/* Barriers that take no virtual time, between calls that do: who comes last is another one each
 * time. */
static int pmi_often(void) {
    char answer[200];
    ptl_event_t event;
    unsigned which;
    if (open_ni())
        return 1;
    ask("cmd=init pmi_version=1 pmi_subversion=1\n", answer, sizeof answer);
    for (uint32_t i = 0; i < 100; i++) {
        for (uint32_t k = 0; k <= (spin_rank() * 7 + i) % 5; k++)
            EXPECT_EQ(PtlEQPoll(&eq, 1, 0, &event, &which), PTL_EQ_EMPTY);
        ask("cmd=barrier_in\n", answer, sizeof answer);
        EXPECT_EQ(PtlEQPoll(&eq, 1, 0, &event, &which), PTL_EQ_EMPTY);
    }
    return 0;
}

/* ---- memory that is not there ---- */

/* A result has nowhere to go: a crash, as of any program. */
static int bad_pointer(void) {
    if (open_ni())
        return 1;
    if (spin_rank() == 1)
        PtlCTGet(ct, (ptl_ct_event_t *)16);
    return 0;
}

/* An entry over memory that the program has given back: the initiator learns of it. */
static int bad_memory(void) {
    static char data[64];
    ptl_handle_md_t md;
    ptl_handle_le_t le;
    ptl_event_t event;
    if (open_ni())
        return 1;
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const ptl_le_t entry = {.start = memory,
                            .length = 4096,
                            .ct_handle = PTL_CT_NONE,
                            .uid = PTL_UID_ANY,
                            .options = PTL_LE_OP_PUT};
    EXPECT_EQ(PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le), PTL_OK);
    munmap(memory, 4096);
    spin_barrier();
    const ptl_md_t own = {
        .start = data, .length = sizeof data, .eq_handle = eq, .ct_handle = PTL_CT_NONE};
    EXPECT_EQ(PtlMDBind(ni, &own, &md), PTL_OK);
    const ptl_process_t to = {.rank = (spin_rank() + 1) % spin_ranks()};
    EXPECT_EQ(PtlPut(md, 0, sizeof data, PTL_ACK_REQ, to, pt, 0, 0, NULL, 0), PTL_OK);
    do
        EXPECT_EQ(PtlEQWait(eq, &event), PTL_OK);
    while (event.type != PTL_EVENT_ACK);
    EXPECT_EQ((int)event.ni_fail_type, PTL_NI_SEGV);
    spin_barrier();
    return 0;
}

/* ---- what processes have ---- */

/* A child is not a rank. */
static int child(void) {
    int status = -1;
    if (open_ni())
        return 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(PtlCTFree(ct) == PTL_NO_INIT ? 7 : 8);
    EXPECT_EQ((int)waitpid(pid, &status, 0), (int)pid);
    EXPECT_EQ(WEXITSTATUS(status), 7);
    return PtlCTFree(ct);
}

/* Time is the world's: a sleep of an hour costs nothing, and dates are the same in every run. */
static int hour(void) {
    struct timespec t;
    uint64_t start = spin_now_ps();
    sleep(3600);
    EXPECT_EQ((int)((spin_now_ps() - start) / 1000000000000u), 3600);
    clock_gettime(CLOCK_REALTIME, &t);
    EXPECT_EQ((int)(t.tv_sec - 946684800), 3600);
    return 0;
}

/* A lock that a thread holds while it waits in a call: another one that wants it does not keep the
 * world from going on. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *hold(void *argument) {
    pthread_mutex_lock(&mutex);
    spin_compute_ps(5000000);
    pthread_mutex_unlock(&mutex);
    return argument;
}

static int lock(void) {
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, hold, NULL), 0);
    spin_compute_ps(1000000); /* now it has the lock */
    pthread_mutex_lock(&mutex);
    EXPECT_EQ(spin_now_ps() >= 5000000, 1);
    pthread_mutex_unlock(&mutex);
    return pthread_join(thread, NULL);
}

/* ---- waiting for memory to change, without a call ---- */

static volatile char flag;

/* Rank 0 sets the flag of the last one after a microsecond. */
static int flag_comes(void) {
    static char one = 1;
    ptl_handle_md_t md;
    ptl_handle_le_t le;
    if (open_ni())
        return 1;
    const ptl_le_t entry = {.start = (void *)&flag,
                            .length = 1,
                            .ct_handle = PTL_CT_NONE,
                            .uid = PTL_UID_ANY,
                            .options = PTL_LE_OP_PUT};
    const ptl_md_t own = {
        .start = &one, .length = 1, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    EXPECT_EQ(PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le), PTL_OK);
    EXPECT_EQ(PtlMDBind(ni, &own, &md), PTL_OK);
    spin_barrier();
    if (spin_rank() == 0) {
        const ptl_process_t to = {.rank = spin_ranks() - 1};
        spin_compute_ps(1000000);
        EXPECT_EQ(PtlPut(md, 0, 1, PTL_NO_ACK_REQ, to, pt, 0, 0, NULL, 0), PTL_OK);
    }
    return 0;
}

static int watch(void) {
    if (flag_comes())
        return 1;
    while (spin_rank() == spin_ranks() - 1 && !flag)
        ;
    spin_barrier();
    return 0;
}

/* Beside a thread that waits in a call for longer: it goes on when the flag has come. */
static void *wait_long(void *argument) {
    spin_compute_ps(1000000000000);
    return argument;
}

static int watch_beside(void) {
    pthread_t thread;
    bool watches = spin_rank() == spin_ranks() - 1;
    if (flag_comes())
        return 1;
    if (watches)
        EXPECT_EQ(pthread_create(&thread, NULL, wait_long, NULL), 0);
    while (watches && !flag)
        ;
    EXPECT_EQ(spin_now_ps() < 500000000000, 1);
    return watches ? pthread_join(thread, NULL) : 0;
}

/* Beside one that waits, another computes: that is no wait, and takes no time. */
static void *compute(void *argument) {
    enum { ITERATIONS = 20000000 };
    uint64_t *took = argument, before;
    spin_compute_ps(1000);
    before = spin_now_ps();
    for (volatile uint32_t i = 0; i < ITERATIONS; i++)
        ;
    *took = spin_now_ps() - before;
    flag = 1;
    return NULL;
}

static int compute_beside(void) {
    pthread_t thread;
    uint64_t took = 1;
    if (spin_rank()) {
        spin_compute_ps(1000000000);
        return 0;
    }
    EXPECT_EQ(pthread_create(&thread, NULL, compute, &took), 0);
    while (!flag)
        ;
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(took, 0);
    return 0;
}

static int lone(void) {
    EXPECT_EQ((int)spin_ranks(), 1);
    EXPECT_EQ((int)spin_rank(), 0);
    spin_barrier();
    EXPECT_EQ(spin_now_ps() <= spin_now_ps(), 1);
    return 0;
}

static void *nothing(void *none) {
    return none;
}

/* Rank 1 ends, without a word to anybody: the barrier is for one then. */
static int leaves(void) {
    pthread_t thread; /* of a process that has had threads it is asked whether it sleeps */
    EXPECT_EQ(open_ni(), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, nothing, NULL), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    spin_barrier();
    if (spin_rank() == 1)
        _exit(0);
    spin_barrier();
    return 0;
}

static int sleeps(void) {
    if (open_ni())
        return 1;
    printf("begun\n");
    fflush(stdout);
    while (spin_rank() == 1)
        usleep(1);
    ptl_ct_event_t event;
    return PtlCTWait(ct, 1, &event);
}

static int killed(void) {
    if (open_ni())
        return 1;
    if (spin_rank() == 1)
        kill(getpid(), SIGKILL);
    spin_barrier();
    return 0;
}

/* What it becomes by exec may have the pid that it had. */
static int exec(void) {
    static char *const again[] = {(char *)"outside", (char *)"exec", NULL};
    EXPECT_EQ(PtlInit(), PTL_OK);
    EXPECT_EQ(
        PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, 200, NULL, NULL, &ni),
        PTL_OK);
    if (getenv("OUTSIDE_AGAIN"))
        return 0;
    setenv("OUTSIDE_AGAIN", "1", 1);
    execv("/proc/self/exe", again);
    return 1;
}

static const struct point points[] = {
    {"exec", exec},
    {"pmi", pmi},
    {"pmi-often", pmi_often},
    {"bad-pointer", bad_pointer},
    {"bad-memory", bad_memory},
    {"child", child},
    {"hour", hour},
    {"lock", lock},
    {"watch", watch},
    {"watch-beside", watch_beside},
    {"compute-beside", compute_beside},
    {"lone", lone},
    {"leaves", leaves},
    {"sleeps", sleeps},
    {"killed", killed},
    {NULL, NULL},
};

int main(int argc, char **argv) {
    return conformance(points, argc, argv);
}
