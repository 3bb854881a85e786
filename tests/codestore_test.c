/* Programs that are shared by all who run them in the same way. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hpu/code_store.h"
#include "hpu/jit_private.h"
#include "lib/test_machine.h"
#include "lib/tsan_llvm.h"

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
    enum { KEYS = 8 };
    struct hpu_code_key keys[KEYS];
    for (int i = 0; i < KEYS; i++)
        keys[i] = key_of(i == 1 ? &b : &a, SPIN_JIT_OFF);
    keys[2].mode = HPU_FUNCTIONAL;
    keys[3].timing = &slower;
    keys[4].with_float = true;
    keys[5].base += 64;
    keys[6].bytes -= 4;
    keys[7].is_alone = true;
    struct hpu_code *code[KEYS];
    for (int i = 0; i < KEYS; i++) {
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
    for (int i = 0; i < KEYS; i++)
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

#ifdef OPENSPIN_JIT
/* Until the next call asks for the loop to be compiled: it is hot, and was stepped through. */
static void warm_up(const struct hpu_code *code, uint32_t step) {
    jit_make_hot(code, CODE_BASE);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(run(code, 2), 2 * step);
}

/* Ends a process while its handler is compiled, which begins soon. */
static void end_early(int32_t step, useconds_t later) {
    struct program p = counting(step);
    struct hpu_code *code = take(key_of(&p, SPIN_JIT_ASIDE));
    warm_up(code, (uint32_t)step);
    bool good = run(code, 2) == 2 * (uint32_t)step;
    usleep(later);
    exit(good ? 0 : 1);
}

static int status_of(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

/* Before the tests with threads: under the sanitizer a process that has some cannot have a child
 * that makes some. */
TEST(a_process_that_ends_while_it_compiles) {
    for (int i = 0; i < 4; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            end_early(50 + i, (useconds_t)i * 600);
        CHECK_EQ(status_of(child), 0);
    }
}

/* The interpreter goes on; the function is there some calls later, and does the same. */
TEST(compiled_aside) {
    struct program p = counting(7);
    struct hpu_code *code = take(key_of(&p, SPIN_JIT_ASIDE));
    warm_up(code, 7);
    uint32_t calls = 0;
    while (!hpu_jit_has_code(code) && ++calls < 10000000)
        CHECK_EQ(run(code, 2), 14);
    CHECK(calls > 1);
    CHECK_EQ(hpu_jit_stats(code).functions, 1);
    CHECK_EQ(run(code, 1000000), 7000000);
    hpu_code_release(code);
    code = take(key_of(&p, SPIN_JIT_ASIDE));
    CHECK_EQ(hpu_jit_stats(code).functions, 1);
    hpu_code_release(code);
}

/* The last user goes while the handler is being compiled, or is about to be. */
TEST(an_owner_that_ends_while_it_compiles) {
    for (int32_t i = 0; i < 3; i++) {
        struct program p = counting(60 + i);
        struct hpu_code *code = take(key_of(&p, SPIN_JIT_ASIDE));
        warm_up(code, 60 + (uint32_t)i);
        CHECK_EQ(run(code, 2), 2 * (60 + (uint32_t)i));
        usleep((useconds_t)i * 1000);
        hpu_code_release(code);
        code = take(key_of(&p, SPIN_JIT_ASIDE)); /* the same, or another */
        CHECK_EQ(run(code, 3), 3 * (60 + (uint32_t)i));
        hpu_code_release(code);
    }
}

/* The child has no thread that compiles, and runs what it has. */
TEST(a_fork_while_it_compiles) {
    struct program p = counting(70);
    struct hpu_code *code = take(key_of(&p, SPIN_JIT_ASIDE));
    warm_up(code, 70);
    CHECK_EQ(run(code, 2), 140);
    usleep(1500);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool good = run(code, 1000) == 70000 && run(code, 2) == 140;
        hpu_code_release(code);
        exit(good ? 0 : 1);
    }
    CHECK_EQ(status_of(child), 0);
    while (!hpu_jit_has_code(code))
        CHECK_EQ(run(code, 2), 140);
    CHECK_EQ(run(code, 1000), 70000);
    hpu_code_release(code);
}

/* Loads through two windows in turn, so that functions are thrown away and made again. */
static struct program loading(void) {
    struct program p = {0};
    put(&p, rv_lw(12, 11, 0));
    put(&p, rv_add(10, 10, 12));
    put(&p, rv_addi(9, 9, -1));
    put(&p, rv_bne(9, 0, -12));
    put(&p, RV_RET);
    return p;
}

struct caller {
    pthread_t thread;
    struct hpu_code *code;
    bool is_good;
};

static void *call_often(void *argument) {
    struct caller *c = argument;
    _Alignas(16) uint32_t one[4] = {3}, other[4] = {5};
    struct hpu h;
    hpu_init(&h, c->code, 0);
    hpu_add_window(&h, DATA_BASE, sizeof one, (uint8_t *)one, true, HPU_REGION_L1);
    hpu_add_window(&h, 0x20000000, sizeof other, (uint8_t *)other, true, HPU_REGION_L1);
    for (uint32_t i = 0, more = 500; i < more && i < 100000; i++) {
        bool has_code = hpu_jit_has_code(c->code), is_other = has_code && i / 100 % 2;
        if (i + 1 == more && (!has_code || hpu_jit_stats(c->code).functions < 2))
            more += 100;
        hpu_start(&h, CODE_BASE, 0, UINT64_MAX);
        h.x[9] = 100;
        h.x[11] = is_other ? 0x20000000 : DATA_BASE;
        bool done = hpu_run(&h, UINT64_MAX) == HPU_DONE;
        c->is_good &= done && h.x[10] == (is_other ? 500u : 300u);
    }
    return NULL;
}

TEST(many_call_while_one_compiles) {
    struct program p = loading();
    struct caller caller[3];
    struct hpu_code *code = take(key_of(&p, SPIN_JIT_ASIDE));
    jit_make_hot(code, CODE_BASE);
    for (int i = 0; i < 3; i++) {
        caller[i] = (struct caller){.code = code, .is_good = true};
        CHECK_EQ(pthread_create(&caller[i].thread, NULL, call_often, &caller[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(caller[i].thread, NULL);
        CHECK(caller[i].is_good);
    }
    CHECK(hpu_jit_stats(code).functions >= 2);
    hpu_code_release(code);
}
#endif

/* Threads that come and go with a few programs. */
static void *come_and_go(void *argument) {
    for (uint32_t i = 0; i < 200; i++) {
        struct program p = counting((int32_t)(i % 3));
        struct hpu_code *code = take(key_of(&p, i % 2 ? SPIN_JIT_ON : SPIN_JIT_ASIDE));
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
