/* Random programs of sends and receives, the same in worlds and on live cards, and MPI's matching
 * order as a plain model to check them by. */
#ifndef TESTS_P2P_PROGRAM_H
#define TESTS_P2P_PROGRAM_H

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "spinlib/p2p.h"

#ifndef RANK_CHECK
#define RANK_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__;                                                                       \
    } while (0)
#endif

enum { RANKS = 8, MOST = 400 };

/* Receives of one context have wildcards of one kind, so that none can take what another needs. */
enum { EXACT, ANY_SOURCE, ANY_TAG, ANYTHING, ONE_STREAM, CONTEXTS };

struct message {
    uint32_t from, to, tag, bytes;
    uint16_t context;
    bool matched; /* in the model */
};
struct receive {
    uint32_t from, tag, room;
    uint16_t context;
};
struct scene {
    struct spin_p2p_options options;
    uint64_t seed;
    uint32_t ranks, messages;
    struct message message[MOST];
    struct receive receive[MOST]; /* as the rank of message i posts one of them */
};

static uint32_t random_bytes(struct rng *r, uint32_t eager) {
    switch (rng_below(r, 8)) {
    case 0:
        return 0;
    case 1:
        return rng_below(r, 64);
    case 2:
        return eager ? eager - 1 : 1;
    case 3:
        return eager;
    case 4:
        return eager + 1;
    case 5:
        return rng_below(r, 40000);
    }
    return rng_below(r, 3 * eager + 100);
}

/* A message, and what its receiver posts for it or for another of its context. */
static void random_message(struct scene *s, struct rng *r, uint32_t i, uint32_t eager) {
    struct message *m = &s->message[i];
    m->context = (uint16_t)rng_below(r, CONTEXTS);
    m->to = rng_below(r, s->ranks);
    m->from = m->context == ONE_STREAM ? (m->to + 1) % s->ranks : rng_below(r, s->ranks);
    m->tag = m->context == ONE_STREAM ? 0x80000000u : rng_below(r, 3);
    m->bytes = random_bytes(r, eager);
    bool any_source = m->context == ANY_SOURCE || m->context == ANYTHING;
    bool any_tag = m->context == ANY_TAG || m->context == ANYTHING;
    if (m->context == ONE_STREAM) {
        any_source = rng_below(r, 2);
        any_tag = rng_below(r, 2);
    }
    s->receive[i] = (struct receive){
        .from = any_source ? SPIN_P2P_ANY_SOURCE : m->from,
        .tag = any_tag ? SPIN_P2P_ANY_TAG : m->tag,
        .room = rng_below(r, 10) ? m->bytes + rng_below(r, 3) * 20000 : rng_below(r, 3000),
        .context = m->context,
    };
}

/* `ranks` 0: at random. */
static void make_program(struct scene *s, const char *variant, uint64_t seed, uint32_t ranks) {
    struct rng r = rng_seeded(seed);
    static const uint32_t eager[] = {0, 64, 2048, 5000, 16384};
    uint32_t limit = eager[rng_below(&r, 5)];
    *s = (struct scene){.seed = seed, .ranks = 2 + rng_below(&r, RANKS - 1)};
    if (ranks)
        s->ranks = ranks;
    s->options.variant = variant;
    s->options.eager_bytes = limit;
    s->options.no_eager = limit == 0;
    s->options.unexpected_bytes = rng_below(&r, 2) ? 4096 : 0;
    s->messages = 20 * s->ranks + rng_below(&r, MOST - 20 * RANKS);
    for (uint32_t i = 0; i < s->messages; i++)
        random_message(s, &r, i, limit);
}

static uint8_t byte_of(uint32_t message, uint32_t i) {
    return (uint8_t)(message * 37 + i * 13 + (i >> 8));
}

struct mine {
    uint32_t message; /* that is sent, or whose receive this is */
    bool is_send;
    uint8_t *data;
    struct spin_p2p_request *request;
    struct spin_p2p_status status;
};

/* This rank's sends in their order, its receives in another, mixed. */
static uint32_t my_operations(const struct scene *s, struct rng *r, struct mine *mine) {
    uint32_t sends[MOST], receives[MOST], send_count = 0, receive_count = 0, n = 0;
    uint32_t me = spin_rank();
    for (uint32_t i = 0; i < s->messages; i++) {
        if (s->message[i].from == me)
            sends[send_count++] = i;
        if (s->message[i].to == me)
            receives[receive_count++] = i;
    }
    for (uint32_t i = receive_count; i > 1; i--) {
        uint32_t j = rng_below(r, i), other = receives[j];
        receives[j] = receives[i - 1];
        receives[i - 1] = other;
    }
    for (uint32_t a = 0, b = 0; a < send_count || b < receive_count; n++) {
        bool send = b == receive_count || (a < send_count && rng_below(r, 2));
        mine[n] = (struct mine){.message = send ? sends[a++] : receives[b++], .is_send = send};
    }
    return n;
}

static int start(struct spin_p2p *p2p, const struct scene *s, struct mine *op) {
    const struct message *m = &s->message[op->message];
    const struct receive *v = &s->receive[op->message];
    uint32_t bytes = op->is_send ? m->bytes : v->room;
    op->data = malloc(bytes ? bytes : 1);
    for (uint32_t i = 0; op->is_send && i < bytes; i++)
        op->data[i] = byte_of(op->message, i);
    return op->is_send
               ? spin_p2p_isend(p2p, op->data, bytes, m->to, m->tag, m->context, &op->request)
               : spin_p2p_irecv(p2p, op->data, bytes, v->from, v->tag, v->context, &op->request);
}

/* MPI's order: given the rank that a receive has got its message from, that is the first of this
 * rank's that no receive posted before it has taken, and that it matches. */
static int check_receive(const struct scene *s, bool *taken, const struct mine *op) {
    const struct receive *v = &s->receive[op->message];
    const struct spin_p2p_status *status = &op->status;
    RANK_CHECK(v->from == SPIN_P2P_ANY_SOURCE || v->from == status->source);
    uint32_t i = 0;
    for (; i < s->messages; i++) {
        const struct message *m = &s->message[i];
        if (!taken[i] && m->from == status->source && m->to == spin_rank() &&
            m->context == v->context && (v->tag == SPIN_P2P_ANY_TAG || v->tag == m->tag))
            break;
    }
    RANK_CHECK(i < s->messages);
    taken[i] = true;
    uint32_t bytes = s->message[i].bytes;
    RANK_CHECK(status->tag == s->message[i].tag);
    RANK_CHECK(status->code == (bytes > v->room ? PTL_NO_SPACE : PTL_OK));
    bytes = bytes < v->room ? bytes : v->room;
    RANK_CHECK(status->bytes == bytes);
    for (uint32_t at = 0; at < bytes; at++)
        RANK_CHECK(op->data[at] == byte_of(i, at));
    return 0;
}

static int check_all(const struct scene *s, const struct mine *mine, uint32_t n) {
    bool taken[MOST] = {false};
    for (uint32_t i = 0; i < n; i++) {
        int line = 0;
        if (!mine[i].is_send)
            line = check_receive(s, taken, &mine[i]);
        else
            RANK_CHECK(mine[i].status.code == PTL_OK);
        if (line)
            return line;
    }
    return 0;
}

static int random_rank(void *argument) {
    const struct scene *s = argument;
    struct rng r = rng_seeded(s->seed * RANKS + spin_rank());
    struct spin_job job;
    struct spin_p2p *p2p;
    struct mine *mine = calloc(2 * MOST, sizeof *mine);
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_p2p_open(job.ni, &s->options, &p2p) == PTL_OK);
    spin_barrier();
    uint32_t n = my_operations(s, &r, mine), waited = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool done;
        RANK_CHECK(start(p2p, s, &mine[i]) == PTL_OK);
        if (rng_below(&r, 3) == 0)
            spin_compute(rng_below(&r, 5000));
        struct mine *other = &mine[rng_below(&r, i + 1)];
        if (other->request && rng_below(&r, 3) == 0)
            RANK_CHECK(spin_p2p_test(p2p, &other->request, &done, &other->status) == PTL_OK);
    }
    /* Half of the programs ask for whichever is done. */
    for (uint32_t i = 0; i < n && s->seed % 2; i++)
        if (mine[i].request) {
            spin_p2p_set_user(mine[i].request, &mine[i]);
            waited++;
        }
    for (; waited; waited--) {
        struct spin_p2p_status status;
        RANK_CHECK(spin_p2p_next(p2p, PTL_TIME_FOREVER, &status) == PTL_OK);
        struct mine *of = status.user;
        of->status = status;
        of->request = NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        RANK_CHECK(spin_p2p_wait(p2p, &mine[i].request, &mine[i].status) == PTL_OK);
    int line = check_all(s, mine, n);
    spin_barrier();
    for (uint32_t i = 0; i < n; i++)
        free(mine[i].data);
    free(mine);
    spin_p2p_close(p2p);
    spin_job_close(&job);
    return line;
}

#endif
