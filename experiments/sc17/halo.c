#include "sc17/halo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "spinlib/p2p.h"

enum {
    EAGER = 16384,   /* bytes; longer messages are fetched by their receiver */
    BUFFERS = 4,     /* of an endpoint, for messages that come before their receive */
    EXCHANGES = 16,  /* uneven computing is the same again after at least so many */
    FULL = 16,       /* messages that fill a buffer if the processor matches: all go through them */
    ROOM_FOR = 1024, /* exchanges, if the card does: none is full before */
};

struct scene {
    const struct halo *halo;
    uint32_t side[HALO_DIMENSIONS];
    struct rounds *rounds;
    uint8_t *memory; /* of all messages: nobody looks at them */
};

/* ---- The grid ---- */

/* Sides as equal as the number allows. */
static void make_grid(struct scene *s) {
    uint32_t left = s->halo->ranks;
    int d = s->halo->dimensions;
    for (int i = 0; i < d; i++) {
        uint32_t side = (uint32_t)(pow(left, 1.0 / (d - i)) + 0.5);
        while (left % side)
            side--;
        s->side[i] = side;
        left /= s->side[i];
    }
}

static uint32_t neighbour(const struct scene *s, uint32_t rank, const int step[HALO_DIMENSIONS]) {
    uint32_t to = 0, scale = 1;
    for (int i = 0; i < s->halo->dimensions; i++) {
        uint32_t side = s->side[i], at = rank % side;
        rank /= side;
        to += (uint32_t)((int)(at + side) + step[i]) % side * scale;
        scale *= side;
    }
    return to;
}

struct link {
    uint32_t rank, tag, back; /* the tag of what goes there, and of what comes from there */
};

uint32_t halo_neighbours(const struct halo *h) {
    return 2 * (uint32_t)h->dimensions + (h->corners ? 4 : 0);
}

/* In pairs, one dimension after the other, then the corners. */
static void find_neighbours(const struct scene *s, uint32_t rank,
                            struct link link[HALO_NEIGHBOURS]) {
    static const int corner[4][HALO_DIMENSIONS] = {{1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
    uint32_t n = 0;
    for (int i = 0; i < s->halo->dimensions; i++)
        for (int sign = 1; sign >= -1; sign -= 2) {
            int step[HALO_DIMENSIONS] = {0};
            step[i] = sign;
            link[n++].rank = neighbour(s, rank, step);
        }
    for (int i = 0; i < 4 && s->halo->corners; i++)
        link[n++].rank = neighbour(s, rank, corner[i]);
    for (uint32_t i = 0; i < n; i++) {
        link[i].tag = i;
        link[i].back = i ^ 1;
    }
}

/* ---- A rank ---- */

struct self {
    const struct scene *s;
    struct spin_p2p *p2p;
    struct link link[HALO_NEIGHBOURS];
    struct rng random;
    struct spin_p2p_counts counts; /* before this exchange */
    /* Of this exchange: */
    uint64_t begin_ps, call_ps; /* it, and a part of it in calls, began */
    struct rounds_mark mark;
};

static void call(struct self *me) {
    me->call_ps = spin_now_ps();
}

static void note(struct self *me) {
    me->mark.trace = rounds_trace(me->mark.trace, spin_now_ps() - me->begin_ps);
}

static void called(struct self *me) {
    me->mark.spent_ps += spin_now_ps() - me->call_ps;
}

static int exchange(struct self *me, const struct link *link, uint32_t n, uint64_t between_ps) {
    const struct scene *s = me->s;
    uint64_t bytes = s->halo->bytes;
    struct spin_p2p_request *r[2 * HALO_NEIGHBOURS];
    int code = PTL_OK;
    call(me);
    for (uint32_t i = 0; i < n && code == PTL_OK; i++, note(me))
        code = spin_p2p_irecv(me->p2p, s->memory, bytes, link[i].rank, link[i].back, 0, &r[i]);
    for (uint32_t i = 0; i < n && code == PTL_OK; i++, note(me))
        code = spin_p2p_isend(me->p2p, s->memory + bytes, bytes, link[i].rank, link[i].tag, 0,
                              &r[n + i]);
    called(me);
    spin_compute_ps(between_ps);
    call(me);
    for (uint32_t i = 0; i < 2 * n && code == PTL_OK; i++, note(me))
        code = spin_p2p_wait(me->p2p, &r[i], NULL);
    called(me);
    return code;
}

static bool by_processor(const struct halo *h) {
    return strcmp(h->variant, "rdma") == 0;
}

/* What has been counted in this exchange is part of what happened. */
static void count(struct self *me) {
    struct spin_p2p_counts before = me->counts, *now = &me->counts;
    spin_p2p_counts(me->p2p, now);
    const uint64_t more[] = {now->sent - before.sent,
                             now->received - before.received,
                             now->expected_small - before.expected_small,
                             now->expected_large - before.expected_large,
                             now->unexpected_small - before.unexpected_small,
                             now->unexpected_large - before.unexpected_large,
                             now->copied_bytes - before.copied_bytes,
                             now->host_gets - before.host_gets,
                             now->resent - before.resent};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        me->mark.trace = rounds_trace(me->mark.trace, more[i]);
    me->mark.state = by_processor(me->s->halo) ? now->buffered_bytes : 0;
}

/* After which the inputs of all ranks are the same. */
static uint32_t cycle_of(const struct halo *h) {
    return h->uneven > 0 ? (EXCHANGES + h->steps - 1) / h->steps * h->steps : h->steps;
}

static int step(struct self *me, uint64_t number) {
    const struct halo *h = me->s->halo;
    double u = (double)rng_below(&me->random, 1 << 20) / (1 << 20);
    double compute = (double)h->compute_ps * (1 + h->uneven * (2 * u - 1));
    uint32_t phases = h->by_dimension ? (uint32_t)h->dimensions : 1, n = halo_neighbours(h);
    int code = PTL_OK;
    me->begin_ps = spin_now_ps();
    me->mark = (struct rounds_mark){0};
    spin_compute_ps((uint64_t)(compute * (1 - h->between)));
    for (uint32_t i = 0; i < phases && code == PTL_OK; i++)
        code = exchange(me, me->link + i * n / phases, n / phases,
                        (uint64_t)(compute * h->between / phases));
    if (h->sums >> number % h->steps & 1)
        spin_barrier();
    note(me);
    count(me);
    me->mark.now_ps = spin_now_ps();
    me->mark.calm_ps = (uint64_t)((double)h->compute_ps * (1 - h->uneven) * (1 - h->between));
    return code;
}

/* A buffer that is full is given to the card once more, which takes time, so how full it is belongs
 * to the state of the world. Where the processor matches, that is the same at all ranks and soon
 * over. Where the card does it is not: the messages that came early to one rank decide when its
 * neighbours are late. Buffers that do not get full while a period is looked for leave no such
 * trace. */
static uint64_t buffer_bytes(const struct halo *h) {
    uint64_t bytes = h->bytes < EAGER ? h->bytes : EAGER;
    uint64_t exchanges = h->exchanges < ROOM_FOR ? h->exchanges : ROOM_FOR;
    uint64_t messages = by_processor(h) ? FULL : exchanges * halo_neighbours(h) + 1;
    return EAGER + (messages - 1) * bytes;
}

static int rank(void *argument) {
    const struct scene *s = argument;
    const struct spin_p2p_options o = {.variant = s->halo->variant,
                                       .eager_bytes = EAGER,
                                       .unexpected_bytes = BUFFERS * buffer_bytes(s->halo)};
    struct spin_job job;
    struct self me = {.s = s};
    int code = PTL_OK;
    if (spin_job_open(&job) != PTL_OK || spin_p2p_open(job.ni, &o, &me.p2p) != PTL_OK)
        return 1;
    find_neighbours(s, job.rank, me.link);
    spin_barrier();
    for (uint64_t i = 0; code == PTL_OK && rounds_next(s->rounds, job.rank, spin_now_ps()); i++) {
        if (i % cycle_of(s->halo) == 0)
            me.random = rng_seeded(job.rank);
        code = step(&me, i);
        rounds_end(s->rounds, job.rank, &me.mark);
    }
    spin_barrier();
    spin_p2p_close(me.p2p);
    spin_job_close(&job);
    return code != PTL_OK;
}

/* ---- A run ---- */

int halo_run(const struct experiment_context *context, const struct halo *h,
             struct halo_result *result, struct rounds_total *total, struct spin_error *err) {
    const struct spin_world_options base = {.ranks = h->ranks};
    const struct rounds_plan plan = {
        .ranks = h->ranks, .wanted = h->exchanges, .search = h->search, .cycle = cycle_of(h)};
    struct scene s = {
        .halo = h, .rounds = rounds_new(&plan), .memory = calloc(2, h->bytes ? h->bytes : 1)};
    int code =
        s.rounds && s.memory
            ? SPIN_OK
            : spin_fail(err, SPIN_ENOMEM, "no memory for the exchanges of %u ranks", h->ranks);
    make_grid(&s);
    *result = (struct halo_result){0};
    if (!code)
        code = experiment_ranks(context, "p2p_handler", &base, rank, &s, err);
    if (!code)
        code = rounds_result(s.rounds, &result->rounds, err);
    for (uint32_t i = 0; i < h->ranks && !code; i++) {
        struct rounds_total t = rounds_total(s.rounds, i);
        result->time_ps += t.time_ps;
        result->spent_ps += t.spent_ps;
        if (total)
            total[i] = t;
    }
    rounds_free(s.rounds);
    free(s.memory);
    return code;
}
