#include "speed.h"

#define DECLARE(name) extern const struct speed_case name##_speed;
SPEED_CASES(DECLARE)
#define ROW(name) &name##_speed,
const struct speed_case *const speed_cases[] = {SPEED_CASES(ROW) NULL};

static void not_after(_Atomic uint64_t *first, uint64_t now) {
    uint64_t was = atomic_load(first);
    while ((!was || now < was) && !atomic_compare_exchange_weak(first, &was, now))
        ;
}

static void not_before(_Atomic uint64_t *last, uint64_t now) {
    uint64_t was = atomic_load(last);
    while (now > was && !atomic_compare_exchange_weak(last, &was, now))
        ;
}

static int run_round(const struct speed_case *c, struct speed *s, uint32_t number,
                     const struct spin_job *job, void *use) {
    struct speed_round *round = &s->round[number];
    struct speed_done done = {0};
    spin_barrier();
    not_after(&round->start_ps, spin_now_ps());
    int code = c->work(use, s->live ? c->live_operations : c->operations, &done);
    not_before(&round->end_ps, spin_now_ps());
    atomic_fetch_add(&round->operations, done.operations);
    atomic_fetch_add(&round->bytes, done.bytes);
    atomic_fetch_add(&s->ended, 1); /* whatever happened: others wait for it */
    while (done.serves && code == PTL_OK && atomic_load(&s->ended) < (number + 1) * job->ranks)
        code = c->serve(use);
    spin_barrier();
    return code;
}

int speed_rank(const struct speed_case *c, struct speed *s) {
    struct spin_job job;
    void *use = NULL;
    if (spin_job_open(&job) != PTL_OK)
        return 1;
    int code = c->open(s, &job, &use), status = code == PTL_OK ? 0 : 2;
    for (uint32_t i = 0; i < (s->live ? SPEED_ROUNDS : 1) && !status; i++)
        status = run_round(c, s, i, &job, use) == PTL_OK ? 0 : 3;
    if (use)
        c->close(use);
    spin_job_close(&job);
    return status;
}

static uint64_t length_of(const struct speed_round *r) {
    return r->end_ps - r->start_ps;
}

const struct speed_round *speed_best(const struct speed *s) {
    const struct speed_round *best = &s->round[s->live ? 1 : 0];
    for (uint32_t i = 2; i < SPEED_ROUNDS && s->live; i++)
        if (length_of(&s->round[i]) < length_of(best))
            best = &s->round[i];
    return best;
}
