/* The use cases as a program on live cards, started by `openspin experiment --live` as the ranks of
 * a job: p4-live FD, where FD is the memory of p4_live.h. The ranks are those of the worlds. */
#include "p4_live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "p4_pingpong/p4_pingpong.h"

/* After a barrier, until all are in the call in which they wait, and not yet asleep in it. */
#define SETTLE_PS 20000000u

static int failed; /* the number of the check, as p4_run has no other way out */
static struct p4_shared times;

/* ---- a use case ---- */

int p4_run(const struct p4_setup *setup, uint32_t ranks, const char *const *images,
           int (*rank)(void *shared), void *shared, struct p4_outcome *outcome,
           struct spin_error *err) {
    (void)setup, (void)ranks, (void)images, (void)err;
    *outcome = (struct p4_outcome){0};
    failed = rank(shared);
    times = *(struct p4_shared *)shared;
    return failed ? SPIN_EFORMAT : SPIN_OK;
}

void p4_work(uint64_t cycles, uint64_t memory_bytes) {
    (void)cycles, (void)memory_bytes; /* it has taken its time */
}

void p4_settle(void) {
    spin_compute_ps(SETTLE_PS);
}

static int run_row(struct p4_live_plan *plan, struct p4_live_row *row) {
    static int (*const cases[])(const struct p4_setup *, struct p4_outcome *,
                                struct spin_error *) = {[P4_LIVE_PINGPONG] = p4_pingpong,
                                                        [P4_LIVE_ACCUMULATE] = p4_accumulate,
                                                        [P4_LIVE_BROADCAST] = p4_broadcast};
    const struct p4_setup setup = {.variant = (enum p4_variant)row->variant,
                                   .ranks = spin_ranks(),
                                   .bytes = row->bytes,
                                   .images = plan->images};
    struct p4_outcome outcome;
    struct spin_error err;
    for (int i = 0; i < P4_LIVE_REPEATS; i++) {
        spin_barrier();
        if (cases[row->use_case](&setup, &outcome, &err))
            return failed;
        if (times.start_ps)
            atomic_store(&row->time[i].start_ps, times.start_ps);
        uint64_t end = atomic_load(&row->time[i].end_ps);
        while (times.end_ps > end &&
               !atomic_compare_exchange_weak(&row->time[i].end_ps, &end, times.end_ps))
            ;
    }
    return 0;
}

/* ---- what the machine takes ---- */

enum { PLAIN = 1, HANDLED, DONE, LARGE = 65536, SAMPLES = 100, BURST = 32 };

struct probe {
    struct p4_rank r;
    ptl_handle_md_t md; /* that counts answers */
    uint64_t answers;
};

static bool answered(struct probe *p) {
    return p4_wait(&p->r, ++p->answers);
}

static bool get(struct probe *p, uint64_t bytes) {
    return PtlGet(p->md, 0, bytes, (ptl_process_t){.rank = 1}, p->r.pt, PLAIN, 0, NULL) == PTL_OK &&
           answered(p);
}

static bool get_8(struct probe *p) {
    return get(p, 8);
}
static bool get_16k(struct probe *p) {
    return get(p, 16384);
}
static bool get_64k(struct probe *p) {
    return get(p, LARGE);
}
static bool put(struct probe *p) {
    return p4_put(&p->r, 0, 8, 1, PLAIN);
}
static bool burst(struct probe *p) {
    for (int i = 0; i < BURST; i++)
        if (!put(p))
            return false;
    return get(p, 8);
}
static bool put_acknowledged(struct probe *p, ptl_match_bits_t bits) {
    return PtlPut(p->md, 0, 8, PTL_CT_ACK_REQ, (ptl_process_t){.rank = 1}, p->r.pt, bits, 0, NULL,
                  0) == PTL_OK &&
           answered(p);
}
static bool ack(struct probe *p) {
    return put_acknowledged(p, PLAIN);
}
static bool handled(struct probe *p) {
    return put_acknowledged(p, HANDLED);
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

/* Between two samples nothing is under way. */
static bool measure(struct probe *p, bool (*what)(struct probe *), uint64_t *result) {
    uint64_t sample[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t start = spin_now_ps();
        if (!what(p))
            return false;
        sample[i] = spin_now_ps() - start;
        if (!get(p, 8))
            return false;
    }
    *result = p4_typical(sample, SAMPLES);
    return true;
}

static int ask(struct p4_live_machine *m, struct probe *p) {
    const ptl_md_t md = {.start = p->r.buffer,
                         .length = p->r.buffer_bytes,
                         .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = p->r.ct};
    if (PtlMDBind(p->r.ni, &md, &p->md) != PTL_OK)
        return 2;
    spin_barrier();
    bool done = measure(p, put, &m->put) && measure(p, get_8, &m->get) &&
                measure(p, burst, &m->gap) && measure(p, get_16k, &m->get_16k) &&
                measure(p, get_64k, &m->get_64k) && measure(p, ack, &m->ack) &&
                measure(p, handled, &m->handled) && /* while its handler is compiled */
                measure(p, handled, &m->handled) && measure(p, look, &m->poll) &&
                measure(p, copy, &m->copy_64k) && measure(p, multiply, &m->products);
    m->gap = m->gap > m->get ? (m->gap - m->get) / BURST : 0;
    return p4_put(&p->r, 0, 8, 1, DONE) && done ? 0 : 3;
}

static bool append_plain(struct p4_rank *r, ptl_match_bits_t bits, ptl_handle_ct_t ct) {
    ptl_handle_me_t handle;
    const ptl_me_t me = {.start = r->buffer,
                         .length = r->buffer_bytes,
                         .ct_handle = ct,
                         .uid = PTL_UID_ANY,
                         .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE |
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
    spin_barrier();
    return PtlCTWait(done, 1, &event) == PTL_OK ? 0 : 3;
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

int main(int argc, char **argv) {
    struct p4_live_plan *plan =
        argc == 2 ? mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0)
                  : MAP_FAILED;
    if (plan == MAP_FAILED) {
        fprintf(stderr, "p4-live: this is a part of `openspin experiment --live`\n");
        return 2;
    }
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
