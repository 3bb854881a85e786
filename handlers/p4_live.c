/* The use cases as a program on live cards, started by `openspin experiment --live` as the ranks of
 * a job: p4-live FD, where FD is the memory of p4_live.h. The ranks are those of the worlds. */
#include "p4_live.h"

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "p4_pingpong/p4_pingpong.h"

/* After a barrier, until all are in the call in which they wait, and not yet asleep in it. */
#define SETTLE_PS 20000000u
/* As long, what is to be timed is repeated first: then handlers are hot. */
#define WARM_PS 60000000000u
#define COLD    5 /* rounds of a new interface that are not timed */

static int failed; /* the number of the check, as p4_run has no other way out */

/* ---- a use case ---- */

/* In the first pass over all that is to be timed nothing is: it is done as often as there is time.
 * Handlers that get hot are compiled by a thread, which is waited for when the interface that runs
 * them is closed. The other passes are short, because what disturbs the machine, or where its host
 * runs the processors, often lasts for some ten milliseconds: so it is in few times of each. */
static struct {
    uint32_t pass;
    bool warms; /* the first one */
    struct p4_live_row *row;
    uint64_t began_ps;
    uint32_t round;
} now;

int p4_run(const struct p4_setup *setup, uint32_t ranks, const char *const *images,
           int (*rank)(void *shared), void *shared, struct p4_outcome *outcome,
           struct spin_error *err) {
    (void)setup, (void)ranks, (void)images, (void)err;
    *outcome = (struct p4_outcome){0};
    now.round = 0;
    now.began_ps = spin_now_ps();
    failed = rank(shared);
    return failed ? SPIN_EFORMAT : SPIN_OK;
}

void p4_work(uint64_t cycles, uint64_t memory_bytes) {
    (void)cycles, (void)memory_bytes; /* it has taken its time */
}

void p4_settle(void) {
    if (!now.warms)
        spin_compute_ps(SETTLE_PS);
}

static void take_time(const struct p4_shared *shared, uint32_t round) {
    uint32_t i = (now.pass - 1) * P4_LIVE_REPEATS + round;
    if (shared->start_ps)
        atomic_store(&now.row->time[i].start_ps, shared->start_ps);
    uint64_t end = atomic_load(&now.row->time[i].end_ps);
    while (shared->end_ps > end &&
           !atomic_compare_exchange_weak(&now.row->time[i].end_ps, &end, shared->end_ps))
        ;
}

bool p4_again(struct p4_shared *shared) {
    uint32_t round = ++now.round;
    if (!now.warms && round > COLD)
        take_time(shared, round - COLD - 1);
    if (spin_rank() == 0) /* the others read it before they come to the next barrier */
        atomic_store(&now.row->again, now.warms ? spin_now_ps() - now.began_ps < WARM_PS
                                                : round < COLD + P4_LIVE_REPEATS);
    spin_barrier();
    return atomic_load(&now.row->again);
}

static int run_row(struct p4_live_plan *plan, struct p4_live_row *row) {
    static int (*const cases[])(const struct p4_setup *, struct p4_outcome *,
                                struct spin_error *) = {[P4_LIVE_PINGPONG] = p4_pingpong,
                                                        [P4_LIVE_ACCUMULATE] = p4_accumulate,
                                                        [P4_LIVE_BROADCAST] = p4_broadcast};
    const struct p4_setup setup = {.variant = (enum p4_variant)row->variant,
                                   .ranks = spin_ranks(),
                                   .bytes = row->bytes,
                                   .trips = P4_LIVE_TRIPS,
                                   .images = plan->images};
    struct p4_outcome outcome;
    struct spin_error err;
    now.row = row;
    spin_barrier();
    return cases[row->use_case](&setup, &outcome, &err) ? failed : 0;
}

/* ---- what the machine takes ---- */

enum { PLAIN = 1, HANDLED, DONE, LARGE = 65536, BATCH = 16 };
enum { ROUNDS = 300, TIMES = ROUNDS * P4_LIVE_PASSES };
#define AWAY_PS 40000000u /* as long the peer computes at the beginning of a round */

struct probe {
    struct p4_rank r;
    ptl_handle_md_t md; /* that counts answers */
    uint64_t answers;
};

static bool put_acknowledged(struct probe *p, uint64_t bytes, ptl_match_bits_t bits) {
    return PtlPut(p->md, 0, bytes, PTL_CT_ACK_REQ, (ptl_process_t){.rank = 1}, p->r.pt, bits, 0,
                  NULL, 0) == PTL_OK &&
           p4_wait(&p->r, ++p->answers);
}
static bool put(struct probe *p) {
    return p4_put(&p->r, 0, 8, 1, PLAIN);
}
static bool ack(struct probe *p) {
    return put_acknowledged(p, 8, PLAIN);
}
static bool ack_16k(struct probe *p) {
    return put_acknowledged(p, 16384, PLAIN);
}
static bool ack_64k(struct probe *p) {
    return put_acknowledged(p, LARGE, PLAIN);
}
static bool handled(struct probe *p) {
    return put_acknowledged(p, 8, HANDLED);
}
static bool look(struct probe *p) {
    return p4_wait(&p->r, p->answers);
}
static bool copy(struct probe *p) {
    memcpy(p->r.buffer + LARGE, p->r.buffer, LARGE);
    return p->r.buffer[LARGE] == p->r.buffer[0];
}
static bool multiply(struct probe *p) {
    float *a = (float *)(void *)p->r.buffer;
    p4_multiply(a, a + 8192, 8192);
    return true;
}

/* Each is called `times` in a row between two looks at the clock. The first is while the peer
 * computes: what is sent to it then is taken before the others begin. */
static const struct operation {
    bool (*call)(struct probe *);
    uint32_t times;
    size_t result; /* its place in a struct p4_live_machine */
} operations[] = {{put, BATCH, offsetof(struct p4_live_machine, put)},
                  {put, 2 * BATCH, offsetof(struct p4_live_machine, gap)},
                  {ack, BATCH, offsetof(struct p4_live_machine, ack)},
                  {handled, BATCH, offsetof(struct p4_live_machine, handled)},
                  {ack_16k, 4, offsetof(struct p4_live_machine, ack_16k)},
                  {ack_64k, 4, offsetof(struct p4_live_machine, ack_64k)},
                  {look, BATCH, offsetof(struct p4_live_machine, poll)},
                  {copy, 1, offsetof(struct p4_live_machine, copy_64k)},
                  {multiply, 1, offsetof(struct p4_live_machine, products)}};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static bool measure(struct probe *p, const struct operation *o, uint64_t *each_ps) {
    uint64_t start = spin_now_ps();
    for (uint32_t i = 0; i < o->times; i++)
        if (!o->call(p))
            return false;
    *each_ps = (spin_now_ps() - start) / o->times;
    return ack(p); /* so that nothing is under way */
}

static bool measure_all(struct p4_live_machine *m, struct probe *p) {
    static uint64_t taken[OPERATIONS][TIMES];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        spin_barrier();
        spin_compute_ps(AWAY_PS / 4);
        for (int i = 0; i < OPERATIONS; i++)
            if (!measure(p, &operations[i], &taken[i][(now.pass - 1) * ROUNDS + round]))
                return false;
        if (!p4_put(&p->r, 0, 8, 1, DONE))
            return false;
    }
    for (int i = 0; now.pass == P4_LIVE_PASSES && i < OPERATIONS; i++)
        *(uint64_t *)(void *)((char *)m + operations[i].result) = p4_typical(taken[i], TIMES);
    return true;
}

static bool warm(struct probe *p) {
    bool done = true;
    spin_barrier();
    for (uint64_t end = spin_now_ps() + WARM_PS; done && spin_now_ps() < end;)
        done = handled(p);
    return p4_put(&p->r, 0, 8, 1, DONE) && done;
}

static int ask(struct p4_live_machine *m, struct probe *p) {
    const ptl_md_t md = {.start = p->r.buffer,
                         .length = p->r.buffer_bytes,
                         .options = PTL_MD_EVENT_CT_ACK,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = p->r.ct};
    if (PtlMDBind(p->r.ni, &md, &p->md) != PTL_OK)
        return 2;
    return (now.warms ? warm(p) : measure_all(m, p)) ? 0 : 3;
}

static bool append_plain(struct p4_rank *r, ptl_match_bits_t bits, ptl_handle_ct_t ct) {
    ptl_handle_me_t handle;
    const ptl_me_t me = {.start = r->buffer,
                         .length = r->buffer_bytes,
                         .ct_handle = ct,
                         .uid = PTL_UID_ANY,
                         .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE |
                                    PTL_ME_EVENT_SUCCESS_DISABLE |
                                    (ct == PTL_CT_NONE ? 0u : PTL_ME_EVENT_CT_COMM),
                         .match_id = {.rank = PTL_RANK_ANY},
                         .match_bits = bits};
    return PtlMEAppend(r->ni, r->pt, &me, PTL_PRIORITY_LIST, NULL, &handle) == PTL_OK;
}

static int answer(struct p4_rank *r) {
    const struct p4_pingpong state = {0}; /* nothing is streamed: the handler says go on */
    ptl_handle_ct_t done;
    ptl_ct_event_t event;
    const struct p4_entry entry = {.length = 8,
                                   .bits = HANDLED,
                                   .header = "pingpong_header_handler",
                                   .state = &state,
                                   .state_bytes = sizeof state};
    if (PtlCTAlloc(r->ni, &done) != PTL_OK || !append_plain(r, PLAIN, PTL_CT_NONE) ||
        !append_plain(r, DONE, done) || !p4_append(r, &entry))
        return 2;
    for (uint32_t round = 1; round <= (now.warms ? 1 : ROUNDS); round++) {
        spin_barrier();
        spin_compute_ps(AWAY_PS);
        if (PtlCTWait(done, round, &event) != PTL_OK)
            return 3;
    }
    return 0;
}

static int calibrate(struct p4_live_plan *plan) {
    const struct p4_setup setup = {.variant = P4_STORE, .images = plan->images};
    struct probe p = {0};
    if (!p4_open(&p.r, &setup, 2 * LARGE, "p4_pingpong"))
        return 1;
    int status = spin_rank() == 0 ? ask(&plan->machine, &p) : answer(&p.r);
    spin_barrier();
    p4_close(&p.r);
    return status;
}

/* ---- all ---- */

static int run_pass(struct p4_live_plan *plan) {
    int status = plan->calibrates ? calibrate(plan) : 0;
    if (status)
        fprintf(stderr, "p4-live: rank %u: calibration failed at check %d\n", spin_rank(), status);
    for (uint32_t i = 0; !status && i < plan->rows; i++) {
        status = run_row(plan, &plan->row[i]);
        if (status)
            fprintf(stderr, "p4-live: rank %u: %s, %u bytes: failed at check %d\n", spin_rank(),
                    p4_variant_name((enum p4_variant)plan->row[i].variant), plan->row[i].bytes,
                    status);
    }
    return status;
}

/* Each rank on a processor of its own, where there are enough: two that the scheduler has left on
 * one wake each other for each message. */
static void take_processor(void) {
    cpu_set_t may, own;
    if (sched_getaffinity(0, sizeof may, &may) || (uint32_t)CPU_COUNT(&may) < spin_ranks())
        return;
    uint32_t before = 0;
    size_t number = 0;
    while (!CPU_ISSET(number, &may) || before++ < spin_rank())
        number++;
    CPU_ZERO(&own);
    CPU_SET(number, &own);
    (void)sched_setaffinity(0, sizeof own, &own);
}

int main(int argc, char **argv) {
    struct p4_live_plan *plan =
        argc == 2 ? mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0)
                  : MAP_FAILED;
    if (plan == MAP_FAILED) {
        fprintf(stderr, "p4-live: this is a part of `openspin experiment --live`\n");
        return 2;
    }
    int status = 0;
    take_processor();
    for (now.pass = 0; !status && now.pass <= P4_LIVE_PASSES; now.pass++) {
        now.warms = now.pass == 0;
        status = run_pass(plan);
    }
    return status;
}
