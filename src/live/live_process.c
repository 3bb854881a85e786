/* A program's own process, in libportals: its card is made when the first call needs it, from what
 * the launcher has put into the environment. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "live/live_card.h"
#include "live/live_clock.h"
#include "live/live_job.h"
#include "portals4.h"

#define NID      1
#define FLUSH_NS (2000 * LIVE_MS) /* at the end, for what peers have not taken yet */
#define SPIN_NS  100000u          /* in a barrier, before it sleeps */
#define CYCLE_PS 400              /* of spin_work: 2.5 GHz */

/* One per process of the system, as that is what a Portals program is. */
static struct {
    struct live_folder folder;
    struct live_card *card;
    struct live_job *job; /* NULL: alone */
    uint32_t rank, ranks;
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
static void meet(void *context) {
    (void)context;
    if (!self.job)
        return;
    uint32_t number = live_job_arrive(self.job);
    for (uint64_t began_ns = live_now_ns(); !live_job_passed(self.job, number);) {
        live_card_poll(self.card);
        if (live_now_ns() - began_ns < SPIN_NS)
            sched_yield();
        else
            live_job_sleep(self.job, number, UINT64_MAX);
    }
}

static int map_all(void *context, uint32_t ni_handle) {
    (void)context;
    ptl_process_t *map = malloc(self.ranks * sizeof *map), own;
    int code = map ? PtlGetPhysId(ni_handle, &own) : PTL_NO_SPACE;
    for (uint32_t i = 0; code == PTL_OK && i < self.ranks; i++)
        map[i].phys.nid = own.phys.nid, map[i].phys.pid = self.job ? i : own.phys.pid;
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
    const char *text = getenv(variable);
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    *number = (uint32_t)value;
    return text && end != text && !*end && value <= most;
}

static int read_environment(const char *job, struct spin_error *err) {
    self.os_pid = getpid();
    self.start_ns = live_now_ns();
    self.ranks = 1;
    if (!job)
        return 0;
    if (!number_of("OPENSPIN_SIZE", LIVE_PIDS, &self.ranks) || !self.ranks ||
        !number_of("OPENSPIN_RANK", self.ranks - 1, &self.rank)) {
        snprintf(err->text, sizeof err->text,
                 "OPENSPIN_JOB is set, but OPENSPIN_RANK and OPENSPIN_SIZE are not a rank and a "
                 "number of ranks");
        return err->code = SPIN_EARG;
    }
    return 0;
}

/* Which transport, and what it needs to know. */
static int read_transport(struct live_card_options *options, struct spin_error *err) {
    const char *transport = getenv("OPENSPIN_TRANSPORT"), *port = getenv("OPENSPIN_PORT");
    const char *key = getenv("OPENSPIN_KEY_FILE");
    struct live_udp_settings *udp = &options->of_udp;
    options->transport = !transport || !strcmp(transport, "shm") ? LIVE_SHM
                         : !strcmp(transport, "udp")             ? LIVE_UDP
                                                                 : LIVE_AUTO;
    udp->interface = getenv("OPENSPIN_INTERFACE");
    udp->faults = getenv("OPENSPIN_FAULTS");
    err->code = 0;
    if (key && options->transport != LIVE_SHM && live_folder_key(&self.folder, key, err))
        return err->code;
    if (options->transport == LIVE_AUTO && strcmp(transport, "auto")) {
        snprintf(err->text, sizeof err->text,
                 "OPENSPIN_TRANSPORT: '%.40s' is neither shm nor udp nor auto", transport);
        err->code = SPIN_EARG;
    } else if (port && (!number_of("OPENSPIN_PORT", 65536 - LIVE_PIDS, &udp->port) || !udp->port)) {
        snprintf(err->text, sizeof err->text,
                 "OPENSPIN_PORT: '%.40s' is not a port from 1 to %d, that of pid 0", port,
                 65536 - LIVE_PIDS);
        err->code = SPIN_EARG;
    }
    return err->code;
}

static bool is_crowded(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && self.ranks > (uint32_t)CPU_COUNT(&set);
}

static struct portals_process *make(void) {
    const char *job = getenv("OPENSPIN_JOB");
    struct spin_error err = {0};
    int code = read_environment(job, &err);
    if (!code)
        code = live_folder_open(&self.folder, job, &err);
    if (!code && job) {
        self.job = live_job_open(&self.folder, &err);
        code = self.job ? 0 : err.code;
    }
    if (self.job)
        self.start_ns = self.job->start_ns;
    struct live_card_options options = {.folder = &self.folder,
                                        .nid = NID,
                                        .pid = job ? self.rank : LIVE_PIDS,
                                        .jit = SPIN_JIT_ASIDE,
                                        .progress = true,
                                        .crowded = is_crowded()};
    if (!code)
        code = read_transport(&options, &err);
    if (!code)
        code = live_card_new(&self.card, &options, &err);
    if (code) {
        fprintf(stderr, "openspin: no live card: %s\n", err.text);
        return NULL;
    }
    struct portals_process *process = live_card_process(self.card);
    process->host.job = &job_calls;
    return process;
}

__attribute__((constructor)) static void offer(void) {
    portals_make_with(make);
}

/* Nothing is freed: other threads of the program may still be inside. */
__attribute__((destructor)) static void leave(void) {
    if (self.card && getpid() == self.os_pid) /* not a child of it */
        live_card_leave(self.card, FLUSH_NS);
}
