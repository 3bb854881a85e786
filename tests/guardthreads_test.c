/* Faults of generated code in several threads at once: each thread's goes on where it must, also
 * while others compile and free code and views. */
#include <pthread.h>

#include "lib/test_machine.h"
#include "lib/tsan_llvm.h"
#include "lib/views.h"

#ifndef OPENSPIN_JIT
TEST(guarded_code_in_threads) {
    TEST_SKIP("built without LLVM");
}
#else

#define THREADS 4
#define ROUNDS  12
#define BASE    0x20000000u
#define BYTES   8192u

struct worker {
    pthread_t thread;
    struct hpu_code *code; /* all threads' */
    uint8_t *memory, *view;
    uint32_t number;
    uint64_t guard_faults;
    const char *wrong;
};

static void put_access(struct program *p) {
    put(p, rv_lw(10, 11, 0));
    put(p, rv_addi(10, 10, 1));
    put(p, RV_RET);
}

static struct hpu_code *new_code(const struct program *p, enum hpu_mode mode) {
    return hpu_code_new(p->byte, CODE_BASE, p->bytes, mode, &hpu_timing_ri5cy, false);
}

static enum hpu_stop run_at(struct hpu *h, uint32_t address) {
    hpu_start(h, CODE_BASE, 0, 1000);
    h->x[11] = address;
    return hpu_run(h, UINT64_MAX);
}

static const char *demand_right(struct hpu *h, uint32_t value) {
    if (run_at(h, BASE + 4096) != HPU_DONE || h->x[10] != value + 1)
        return "an access in the window went wrong";
    if (run_at(h, 0x30000000 + value) != HPU_FAULTED || h->fault != HPU_FAULT_SEGV ||
        h->fault_address != 0x30000000 + value || h->pc != CODE_BASE)
        return "an access outside did not fault as it should";
    return NULL;
}

static void set_up(struct hpu *h, const struct hpu_code *code, const struct worker *w) {
    hpu_init(h, code, w->number);
    hpu_add_window(h, BASE, BYTES, w->memory, true, HPU_REGION_L1);
    h->window[0].view = w->view;
}

/* Code of its own each round, which is compiled, faults and is freed. */
static void *make_and_free(void *argument) {
    struct worker *w = argument;
    struct program p = {0};
    struct spin_error err;
    put_access(&p);
    for (int i = 0; i < ROUNDS && !w->wrong; i++) {
        struct hpu h;
        struct hpu_code *code = new_code(&p, HPU_FUNCTIONAL);
        if (!code || hpu_jit_enable(code, SPIN_JIT_FORCE, &err)) {
            w->wrong = "no code";
            break;
        }
        w->view = guard_view_new(w->memory, BASE, BYTES, true);
        set_up(&h, code, w);
        for (int k = 0; k < 4 && !w->wrong; k++)
            w->wrong = demand_right(&h, w->number);
        w->guard_faults += hpu_jit_stats(code).guard_faults;
        hpu_code_free(code);
        guard_view_free(w->view);
    }
    return NULL;
}

/* The same code in all threads, each with memory and a view of its own. */
static void *share(void *argument) {
    struct worker *w = argument;
    struct hpu h;
    set_up(&h, w->code, w);
    for (int i = 0; i < 300 && !w->wrong; i++)
        w->wrong = demand_right(&h, w->number);
    return NULL;
}

static uint64_t run_threads(void *(*work)(void *), struct hpu_code *code) {
    static struct worker workers[THREADS];
    uint64_t faults = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = 100 * (i + 1), .code = code};
        workers[i].memory = guard_memory_new(BYTES);
        CHECK(workers[i].memory);
        memcpy(workers[i].memory + 4096, &workers[i].number, 4);
        if (code)
            workers[i].view = guard_view_new(workers[i].memory, BASE, BYTES, true);
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        if (code)
            guard_view_free(workers[i].view);
        guard_memory_free(workers[i].memory, BYTES);
        faults += workers[i].guard_faults;
    }
    for (uint32_t i = 0; i < THREADS; i++)
        if (workers[i].wrong)
            TEST_FAIL("thread %u: %s", i, workers[i].wrong);
    return faults;
}

TEST(faults_while_code_comes_and_goes) {
    want_views();
    CHECK_EQ(run_threads(make_and_free, NULL), THREADS * ROUNDS); /* and not again */
}

TEST(faults_in_shared_code) {
    struct program p = {0};
    struct spin_error err;
    want_views();
    put_access(&p);
    for (int i = 0; i < 10; i++) {
        struct hpu_code *code = new_code(&p, HPU_FUNCTIONAL);
        CHECK(code);
        CHECK_EQ(hpu_jit_enable(code, SPIN_JIT_FORCE, &err), SPIN_OK);
        run_threads(share, code);
        CHECK_EQ(hpu_jit_stats(code).guarded, 1);
        CHECK(hpu_jit_stats(code).guard_faults > 0);
        CHECK(hpu_jit_stats(code).functions >= 2);
        hpu_code_free(code);
    }
}
#endif

TEST_MAIN
