/* Programs that are shared by all who run them in the same way. */
#include <pthread.h>

#include "hpu/code_store.h"
#include "lib/test_machine.h"

static struct program counting(int32_t step) {
    struct program p = {0};
    put(&p, rv_addi(10, 10, step));
    put(&p, rv_addi(9, 9, -1));
    put(&p, rv_bne(9, 0, -8));
    put(&p, RV_RET);
    return p;
}

static struct hpu_code_key key_of(const struct program *p, enum spin_jit jit) {
    return (struct hpu_code_key){.program = p->byte,
                                 .base = CODE_BASE,
                                 .bytes = p->bytes,
                                 .mode = HPU_TIMED,
                                 .timing = &hpu_timing_ri5cy,
                                 .jit = jit};
}

static struct hpu_code *take(struct hpu_code_key key) {
    struct hpu_code *code;
    struct spin_error err;
    CHECK_EQ(hpu_code_share(&code, &key, &err), SPIN_OK);
    return code;
}

static uint32_t run(const struct hpu_code *code, uint32_t turns) {
    struct hpu h;
    hpu_init(&h, code, 0);
    hpu_start(&h, CODE_BASE, 0, UINT64_MAX);
    h.x[9] = turns;
    CHECK_EQ(hpu_run(&h, UINT64_MAX), HPU_DONE);
    return h.x[10];
}

/* By content, not by where it stands; the caller's bytes and table may go afterwards. */
TEST(the_same_program_is_shared) {
    struct program a = counting(3), b = counting(3);
    struct hpu_timing timing = hpu_timing_ri5cy;
    struct hpu_code_key key = key_of(&b, SPIN_JIT_OFF);
    key.timing = &timing;
    struct hpu_code *one = take(key_of(&a, SPIN_JIT_OFF)), *two = take(key);
    CHECK(one == two);
    memset(&a, 0xff, sizeof a);
    memset(&b, 0xff, sizeof b);
    memset(&timing, 0xff, sizeof timing);
    hpu_code_release(one);
    CHECK_EQ(run(two, 10), 30);
    CHECK_EQ(two->timing->clock_hz, hpu_timing_ri5cy.clock_hz);
    hpu_code_release(two);
    hpu_code_release(NULL);
}

TEST(what_differs_is_not) {
    struct program a = counting(3), b = counting(4);
    struct hpu_timing slower = hpu_timing_ri5cy;
    slower.taken++;
    struct hpu_code_key keys[7];
    for (int i = 0; i < 7; i++)
        keys[i] = key_of(i == 1 ? &b : &a, SPIN_JIT_OFF);
    keys[2].mode = HPU_FUNCTIONAL;
    keys[3].timing = &slower;
    keys[4].with_float = true;
    keys[5].base += 64;
    keys[6].bytes -= 4;
    struct hpu_code *code[7];
    for (int i = 0; i < 7; i++) {
        code[i] = take(keys[i]);
        for (int k = 0; k < i; k++)
            CHECK(code[i] != code[k]);
    }
    CHECK_EQ(run(code[0], 10), 30);
    CHECK_EQ(run(code[1], 10), 40);
    keys[2].timing = &slower; /* which the functional mode does not look at */
    struct hpu_code *again = take(keys[2]);
    CHECK(again == code[2]);
    hpu_code_release(again);
    for (int i = 0; i < 7; i++)
        hpu_code_release(code[i]);
}

#ifdef OPENSPIN_JIT
/* What was generated is there for the next one, even when nobody used it in between. */
TEST(generated_code_is_kept) {
    struct program p = counting(5);
    struct hpu_code *code = take(key_of(&p, SPIN_JIT_FORCE));
    CHECK(code != NULL && hpu_jit_stats(code).functions == 0);
    CHECK_EQ(run(code, 100), 500);
    uint32_t functions = hpu_jit_stats(code).functions;
    CHECK(functions > 0);
    hpu_code_release(code);
    code = take(key_of(&p, SPIN_JIT_FORCE));
    CHECK_EQ(hpu_jit_stats(code).functions, functions);
    CHECK_EQ(run(code, 100), 500);
    CHECK_EQ(hpu_jit_stats(code).functions, functions);
    struct hpu_code *interpreted = take(key_of(&p, SPIN_JIT_OFF));
    CHECK(interpreted != code && !interpreted->jit);
    hpu_code_release(interpreted);
    hpu_code_release(code);
}

/* But not without end: the ones that were used last. */
TEST(not_all_of_it) {
    for (int32_t i = 0; i < 40; i++) {
        struct program p = counting(i);
        struct hpu_code *code = take(key_of(&p, SPIN_JIT_FORCE));
        CHECK_EQ(run(code, 2), 2 * (uint32_t)i);
        hpu_code_release(code);
    }
    for (int32_t i = 39; i >= 0; i--) {
        struct program p = counting(i);
        struct hpu_code *code = take(key_of(&p, SPIN_JIT_FORCE));
        CHECK_EQ(hpu_jit_stats(code).functions > 0, i > 39 - 16);
        hpu_code_release(code);
    }
}
#endif

/* Threads that come and go with a few programs. */
static void *come_and_go(void *argument) {
    for (uint32_t i = 0; i < 200; i++) {
        struct program p = counting((int32_t)(i % 3));
        struct hpu_code *code = take(key_of(&p, SPIN_JIT_ON));
        if (run(code, 50) != 50 * (i % 3))
            *(bool *)argument = false;
        hpu_code_release(code);
    }
    return NULL;
}

TEST(threads) {
    pthread_t thread[3];
    bool good[3] = {true, true, true};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, come_and_go, &good[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    CHECK(good[0] && good[1] && good[2]);
}

TEST_MAIN
