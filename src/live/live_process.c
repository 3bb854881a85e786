/* A program's own process, in libportals: its card is made when the first call needs it, from what
 * the launcher has put into the environment. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/units.h"
#include "live/live_card.h"
#include "live/live_clock.h"
#include "live/live_environment.h"
#include "live/live_job.h"
#include "live/live_last.h"
#include "live/live_pmix.h"
#include "portals4.h"

#define NID      1
#define FLUSH_NS (2000 * LIVE_MS) /* at the end, for what peers have not taken yet */
#define SPIN_NS  100000u          /* in a barrier, before it sleeps */
#define CYCLE_PS 400              /* of spin_work: 2.5 GHz */

/* One per process of the system, as that is what a Portals program is. */
static struct {
    struct live_folder folder;
    struct live_card *card;
    struct live_job *job;   /* of `openspin launch`, or NULL */
    struct live_pmix *pmix; /* of another launcher, or NULL; without both it is alone */
    uint32_t rank, ranks, near_ranks;
    uint64_t start_ns;
    pid_t os_pid;
} self;

/* ---- what the program asks of its job ---- */

static uint32_t own_rank(void *context) {
    (void)context;
    return self.rank;
}

static uint32_t all_ranks(void *context) {
    (void)context;
    return self.ranks;
}

static uint64_t time_ps(void *context) {
    (void)context;
    return (live_now_ns() - self.start_ns) * 1000;
}

static void compute(void *context, uint64_t ps) {
    (void)context;
    for (uint64_t until_ns = live_now_ns() + ps / 1000; live_now_ns() < until_ns;)
        live_pause();
}

static void do_work(void *context, uint64_t cycles, uint64_t memory_bytes) {
    (void)memory_bytes; /* whoever copies has copied */
    compute(context, cycles * CYCLE_PS);
}

/* The card is looked after meanwhile: by us while we spin, then by its thread. */
static void meet_in_job(void) {
    uint32_t number = live_job_arrive(self.job, self.rank);
    for (uint64_t began_ns = live_now_ns(); !live_job_passed(self.job, number);) {
        live_card_poll(self.card);
        if (live_now_ns() - began_ns < SPIN_NS)
            sched_yield();
        else
            live_job_sleep(self.job, number, UINT64_MAX);
    }
}

static void meet_by_pmix(void) {
    struct spin_error err;
    if (live_pmix_arrive(self.pmix, &err))
        fprintf(stderr, "openspin: %s\n", err.text);
    for (uint64_t began_ns = live_now_ns(); !live_pmix_passed(self.pmix);) {
        live_card_poll(self.card);
        if (live_now_ns() - began_ns < SPIN_NS)
            sched_yield();
        else
            live_pmix_sleep(self.pmix);
    }
}

static void meet(void *context) {
    int state;
    (void)context;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* as in calls of Portals */
    if (self.job)
        meet_in_job();
    else if (self.pmix)
        meet_by_pmix();
    pthread_setcancelstate(state, NULL);
}

/* Under `openspin launch` pids are ranks; PMIx tells what each rank has. */
static int find_ranks(const ptl_process_t *own, ptl_process_t *map) {
    struct spin_error err;
    uint32_t length;
    if (self.pmix && live_pmix_put(self.pmix, "openspin.id", own, sizeof *own, &err)) {
        fprintf(stderr, "openspin: %s\n", err.text);
        return PTL_FAIL;
    }
    for (uint32_t i = 0; i < self.ranks; i++) {
        map[i] = *own;
        if (self.job)
            map[i].phys.pid = i;
        else if (self.pmix &&
                 live_pmix_get(self.pmix, i, "openspin.id", &map[i], sizeof *map, &length, &err)) {
            fprintf(stderr, "openspin: %s\n", err.text);
            return PTL_FAIL;
        }
    }
    return PTL_OK;
}

static int map_all(void *context, uint32_t ni_handle) {
    (void)context;
    ptl_process_t *map = malloc(self.ranks * sizeof *map), own;
    int code = map ? PtlGetPhysId(ni_handle, &own) : PTL_NO_SPACE;
    if (code == PTL_OK)
        code = find_ranks(&own, map);
    if (code == PTL_OK)
        code = PtlSetMap(ni_handle, self.ranks, map);
    free(map);
    return code;
}

static const struct portals_job job_calls = {.rank = own_rank,
                                             .ranks = all_ranks,
                                             .now_ps = time_ps,
                                             .compute = compute,
                                             .work = do_work,
                                             .barrier = meet,
                                             .map = map_all};

/* ---- making it ---- */

static bool number_of(const char *variable, uint32_t most, uint32_t *number) {
    const char *text = environment_text(variable);
    uint64_t value = 0;
    bool good = text && units_u64(text, &value) && value <= most;
    *number = (uint32_t)value;
    return good;
}

/* A job of `openspin launch`. */
static int join_job(const char *job, struct spin_error *err) {
    if (!number_of("OPENSPIN_SIZE", LIVE_PIDS, &self.ranks) || !self.ranks ||
        !number_of("OPENSPIN_RANK", self.ranks - 1, &self.rank)) {
        snprintf(err->text, sizeof err->text,
                 "OPENSPIN_JOB is set, but OPENSPIN_RANK and OPENSPIN_SIZE are not a rank and a "
                 "number of ranks");
        return err->code = SPIN_EARG;
    }
    self.near_ranks = self.ranks;
    int code = live_folder_open(&self.folder, job, err);
    if (code)
        return code;
    self.job = live_job_open(&self.folder, err);
    if (!self.job)
        return err->code;
    self.start_ns = self.job->start_ns;
    return 0;
}

static uint64_t real_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What rank 0 tells all the others: the job's key, and when it began. */
struct pmix_job {
    uint8_t key[LIVE_KEY_BYTES];
    uint64_t start_real_ns;
};

/* A job of `mpirun`, `srun` or `prun`. The folder is the user's own, the key the job's. */
static int join_pmix(struct spin_error *err) {
    struct pmix_job job = {.start_real_ns = real_ns()};
    uint32_t length;
    int code = live_folder_open(&self.folder, NULL, err);
    if (!code)
        code = live_pmix_open(&self.pmix, err);
    if (code)
        return code;
    self.rank = live_pmix_rank(self.pmix);
    self.ranks = live_pmix_ranks(self.pmix);
    self.near_ranks = live_pmix_near_ranks(self.pmix);
    if (self.rank)
        code = live_pmix_get(self.pmix, 0, "openspin.job", &job, sizeof job, &length, err);
    else
        code = live_key_make(job.key, err);
    if (!code && !self.rank)
        code = live_pmix_put(self.pmix, "openspin.job", &job, sizeof job, err);
    if (code)
        return code;
    memcpy(self.folder.key, job.key, sizeof job.key);
    self.start_ns = live_now_ns() - (real_ns() - job.start_real_ns);
    return 0;
}

static int join(const char *job, bool pmix, struct spin_error *err) {
    pmix = pmix && getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
    self.os_pid = getpid();
    self.start_ns = live_now_ns();
    self.ranks = self.near_ranks = 1;
    return job    ? join_job(job, err)
           : pmix ? join_pmix(err)
                  : live_folder_open(&self.folder, NULL, err);
}

/* What the environment says, now that the job is known. */
static int settle(struct live_environment *e, struct spin_error *err) {
    bool in_job = self.job || self.pmix;
    const struct live_place place = {.ranks = in_job ? self.ranks : 0,
                                     .near = in_job && self.near_ranks == self.ranks,
                                     .pmix = self.pmix};
    int code = live_environment_settle(e, &place, err);
    if (!code && e->key_file)
        code = live_folder_key(&self.folder, e->key_file, err);
    return code;
}

static uint32_t processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : UINT32_MAX;
}

static void before_fork(void) {
    if (self.card)
        live_card_flush(self.card);
}

/* A child has the card's memory, but is not its process: what it sent would go into its parent's
 * streams, with numbers that the parent uses too. A child of a process that has no card yet may
 * have one of its own. */
static void in_child(void) {
    if (self.os_pid)
        portals_abandon();
}

/* Programs that are linked with the static library do not have the calls of a world. */
static bool is_in_world(void) {
    if (!environment_text("OPENSPIN_WORLD"))
        return false;
    fprintf(stderr, "openspin: OPENSPIN_WORLD is set, but this process is no rank of a world: that "
                    "is started by 'openspin sim run' and needs libportals.so, not libportals.a\n");
    return true;
}

static struct portals_process *refuse(const struct spin_error *err) {
    /* As the launcher has it: we may not have come to know it. */
    const char *rank =
        environment_text(environment_text("OPENSPIN_JOB") ? "OPENSPIN_RANK" : "PMIX_RANK");
    fprintf(stderr, "openspin: %s%.10s%sno live card: %s\n", rank ? "rank " : "", rank ? rank : "",
            rank ? ": " : "", err->text);
    live_pmix_close(self.pmix);
    self.pmix = NULL;
    return NULL;
}

static struct portals_process *make_alone(void) {
    if (is_in_world())
        return NULL;
    const char *job = environment_text("OPENSPIN_JOB");
    struct live_environment e;
    struct spin_error err = {0};
    if (live_environment_read(&e, &err) || join(job, e.pmix, &err) || settle(&e, &err))
        return refuse(&err);
    const struct live_card_options options = {
        .folder = &self.folder,
        .nid = self.pmix ? live_pmix_nid(self.pmix) : NID,
        .pmix = self.pmix,
        .pid = job ? self.rank : LIVE_PIDS,
        .jit = SPIN_JIT_ASIDE,
        .progress = true,
        .rank = self.rank,
        .ranks = job || self.pmix ? self.ranks : 0,
        .pcap = e.pcap,
        .trace = e.trace,
        .start_ns = self.start_ns,
        .hpus = e.hpus,
        .paging = e.paging,
        .crowded = self.near_ranks * (1 + e.hpus) > processors(),
        .transport = (enum live_transport_kind)e.transport,
        .provider = e.provider,
        .of_udp = {.interface = e.interface, .faults = e.faults, .port = e.port, .auth = e.auth}};
    if (live_card_new(&self.card, &options, &err))
        return refuse(&err);
    if (options.pcap || options.trace)
        pthread_atfork(before_fork, NULL, NULL);
    struct portals_process *process = live_card_process(self.card);
    process->job = &job_calls;
    return process;
}

struct portals_process *portals_make_alone(void) {
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    struct portals_process *process = make_alone();
    pthread_setcancelstate(state, NULL);
    return process;
}

__attribute__((constructor)) static void begin(void) {
    if (getpid() == gettid())
        live_card_never_cancelled();
    live_last_expect_main();
    pthread_atfork(NULL, NULL, in_child);
}

/* Nothing is freed: other threads of the program may still be inside. */
__attribute__((destructor)) static void leave(void) {
    if (!self.card || getpid() != self.os_pid) /* a child of it */
        return;
    live_card_leave(self.card, FLUSH_NS);
    live_pmix_close(self.pmix);
}
