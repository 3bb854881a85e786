/* Two HPUs on two host threads, with one program and one piece of memory: atomics are atomic
 * between them, and what they share otherwise is safe to share (the thread sanitizer's build says
 * so). */
#include <pthread.h>

#include "lib/test_machine.h"

#define TURNS   200000 /* enough to meet, also in a fast build */
#define THREADS 2

struct shared {
    struct hpu_code *code;
    pthread_barrier_t start; /* so that they do run side by side */
    _Alignas(16) uint32_t word[16];
};

struct worker {
    pthread_t thread;
    struct shared *shared;
    uint32_t id;
    _Alignas(16) uint8_t own[64]; /* a window that only this one has */
    enum hpu_stop stop;
    enum hpu_fault fault;
    uint32_t result;
};

static void *work(void *argument) {
    struct worker *w = argument;
    struct hpu h;
    hpu_init(&h, w->shared->code, w->id);
    if (w->shared->code->mode == HPU_TIMED)
        h.icache = hpu_icache_new(w->shared->code, NULL, 0);
    /* In another order for each, so that they overwrite each other's guesses all the time. */
    for (uint32_t i = 0; i < 2; i++)
        if ((i + w->id) % 2)
            hpu_add_window(&h, 0x20000000, sizeof w->own, w->own, true, HPU_REGION_L1);
        else
            hpu_add_window(&h, DATA_BASE, sizeof w->shared->word, (uint8_t *)w->shared->word, true,
                           HPU_REGION_L1);
    hpu_start(&h, CODE_BASE, 0, UINT64_MAX);
    h.x[8] = DATA_BASE;
    h.x[9] = TURNS;
    h.x[18] = 0x20000000;
    pthread_barrier_wait(&w->shared->start);
    w->stop = hpu_run(&h, UINT64_MAX);
    w->fault = h.fault;
    w->result = h.x[10];
    hpu_icache_free(h.icache);
    return NULL;
}

static void run_on_both(const struct program *p, int way, struct shared *shared,
                        struct worker workers[THREADS]) {
    memset(shared, 0, sizeof *shared);
    shared->code = hpu_code_new(p->byte, CODE_BASE, p->bytes, way % 2 ? HPU_TIMED : HPU_FUNCTIONAL,
                                &hpu_timing_ri5cy, false);
    CHECK(shared->code);
#ifdef OPENSPIN_JIT
    struct spin_error err;
    CHECK_EQ(hpu_jit_enable(shared->code, way < 2 ? SPIN_JIT_OFF : SPIN_JIT_FORCE, &err), SPIN_OK);
#endif
    CHECK_EQ(pthread_barrier_init(&shared->start, NULL, THREADS), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.shared = shared, .id = i};
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&shared->start);
    hpu_code_free(shared->code);
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK_EQ(workers[i].fault, HPU_FAULT_NONE);
        CHECK_EQ(workers[i].stop, HPU_DONE);
    }
}

static void put_turn(struct program *p, uint32_t top) {
    put(p, rv_addi(9, 9, -1));
    put(p, rv_bne(9, 0, (int32_t)top - (int32_t)p->bytes));
    put(p, RV_RET);
}

/* The last two are generated code. */
#define IN_ALL_WAYS(way) for (int way = 0; way < 4; way++)

TEST(atomic_additions) {
    static struct shared shared;
    static struct worker workers[THREADS];
    struct program p = {0};
    put(&p, rv_addi(11, 0, 3));
    uint32_t top = p.bytes;
    put(&p, rv_amoadd_w(10, 11, 8));
    put(&p, rv_sw(10, 18, 4)); /* and own memory between */
    put(&p, rv_lw(12, 18, 4));
    put_turn(&p, top);
    IN_ALL_WAYS(way) {
        run_on_both(&p, way, &shared, workers);
        CHECK_EQ(shared.word[0], 3 * TURNS * THREADS);
    }
}

TEST(every_atomic_operation) {
    static struct shared shared;
    static struct worker workers[THREADS];
    struct program p = {0};
    put(&p, rv_csrrs(12, 0xf14, 0)); /* the HPU's number */
    put(&p, rv_addi(13, 0, 1));
    put(&p, rv_sll(13, 13, 12)); /* its bit */
    uint32_t top = p.bytes;
    put(&p, rv_addi(5, 8, 4));
    put(&p, rv_amoor_w(0, 13, 5)); /* word 1: both bits */
    put(&p, rv_addi(5, 8, 8));
    put(&p, rv_amoxor_w(0, 13, 5)); /* word 2: an even number of times each */
    put(&p, rv_addi(5, 8, 12));
    put(&p, rv_amomax_w(0, 9, 5)); /* word 3: TURNS */
    put(&p, rv_addi(5, 8, 16));
    put(&p, rv_amomaxu_w(0, 9, 5)); /* word 4: TURNS */
    put(&p, rv_addi(5, 8, 20));
    put(&p, rv_sub(6, 0, 9));
    put(&p, rv_amomin_w(0, 6, 5)); /* word 5: -TURNS */
    put_turn(&p, top);
    IN_ALL_WAYS(way) {
        run_on_both(&p, way, &shared, workers);
        CHECK_EQ(shared.word[1], 3);
        CHECK_EQ(shared.word[2], 0);
        CHECK_EQ(shared.word[3], TURNS);
        CHECK_EQ(shared.word[4], TURNS);
        CHECK_EQ((int32_t)shared.word[5], -TURNS);
    }
}

TEST(reservations) {
    static struct shared shared;
    static struct worker workers[THREADS];
    struct program p = {0};
    uint32_t top = p.bytes;
    put(&p, rv_lr_w(11, 8));
    put(&p, rv_addi(11, 11, 1));
    put(&p, rv_sc_w(12, 11, 8));
    put(&p, rv_add(10, 10, 12)); /* counts failures */
    put(&p, rv_bne(12, 0, -16));
    put_turn(&p, top);
    IN_ALL_WAYS(way) {
        run_on_both(&p, way, &shared, workers);
        CHECK_EQ(shared.word[0], TURNS * THREADS);
    }
}

/* A lock made of amoswap protects plain loads and stores. */
TEST(lock_around_plain_memory) {
    static struct shared shared;
    static struct worker workers[THREADS];
    struct program p = {0};
    put(&p, rv_addi(11, 0, 1));
    put(&p, rv_srli(9, 9, 2)); /* waiting is slow where threads share a core */
    uint32_t top = p.bytes;
    put(&p, rv_amoswap_w(12, 11, 8) | RV_AQRL);
    put(&p, rv_bne(12, 0, -4));
    put(&p, rv_lw(13, 8, 4));
    put(&p, rv_addi(13, 13, 1));
    put(&p, rv_sw(13, 8, 4));
    put(&p, rv_lhu(14, 8, 10));
    put(&p, rv_addi(14, 14, 1));
    put(&p, rv_sh(14, 8, 10));
    put(&p, rv_amoswap_w(0, 0, 8) | RV_AQRL);
    put_turn(&p, top);
    IN_ALL_WAYS(way) {
        if (TEST_SANITIZED && way >= 2)
            continue; /* it does not see locks that generated code takes */
        run_on_both(&p, way, &shared, workers);
        CHECK_EQ(shared.word[0], 0);
        CHECK_EQ(shared.word[1], TURNS / 4 * THREADS);
        CHECK_EQ(shared.word[2] >> 16, TURNS / 4 * THREADS & 0xffff); /* 16 bits */
    }
}

TEST_MAIN
