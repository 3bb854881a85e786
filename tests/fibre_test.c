/* Fibres: order of switches, what survives one, stacks, and many of them. */
#include "lib/test.h"

#include <fenv.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/fibre.h"

struct turn {
    struct fibres *fibres;
    uint32_t id, turns;
    char *log;
};

static void take_turns(void *argument) {
    struct turn *t = argument;
    for (uint32_t i = 0; i < t->turns; i++) {
        char *end = t->log + strlen(t->log);
        snprintf(end, 4, "%u%c", t->id, (char)('a' + i));
        fibre_leave(t->fibres);
    }
}

static struct fibres *make(uint32_t count, size_t stack) {
    struct spin_error err;
    struct fibres *f;
    if (fibres_new(&f, count, stack, &err))
        TEST_FAIL("%s", err.text);
    return f;
}

TEST(fibres_take_turns_and_end) {
    char log[64] = "";
    struct fibres *f = make(3, 64 << 10);
    struct turn t[3];
    for (uint32_t i = 0; i < 3; i++) {
        t[i] = (struct turn){f, i, 2 + i % 2, log};
        fibre_start(f, i, take_turns, &t[i]);
    }
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 3; i++)
            CHECK_EQ(fibre_enter(f, i), FIBRE_LEFT);
    CHECK_EQ(fibre_enter(f, 2), FIBRE_ENDED);
    CHECK_EQ(fibre_enter(f, 1), FIBRE_LEFT);
    CHECK_EQ(fibre_enter(f, 1), FIBRE_ENDED);
    CHECK_EQ(fibre_enter(f, 0), FIBRE_ENDED);
    CHECK_STR(log, "0a1a2a0b1b2b1c");
    /* One that has ended can be started again. */
    t[0].turns = 1;
    fibre_start(f, 0, take_turns, &t[0]);
    CHECK_EQ(fibre_enter(f, 0), FIBRE_LEFT);
    CHECK_EQ(fibre_enter(f, 0), FIBRE_ENDED);
    CHECK_STR(log, "0a1a2a0b1b2b1c0a");
    fibres_free(f);
}

/* Enough live values that the preserved registers are all in use, integers and floats. */
static uint64_t mix(struct fibres *f, uint64_t seed, int rounds) {
    uint64_t a = seed, b = seed * 3, c = seed * 5, d = seed * 7, e = seed * 11, g = seed * 13;
    double x = (double)seed, y = x * 1.5, z = x * 2.5, t = x, u = y, v = z, w = x + y, q = x + z;
    for (int i = 0; i < rounds; i++) {
        a += b ^ c;
        b = b << 7 | b >> 57;
        c += d * e;
        d ^= g;
        e += a;
        g -= b;
        x += y; /* no constant: it would be the same in every fibre */
        y -= z;
        z += t;
        t -= u;
        u += v;
        v -= w;
        w += q;
        q -= x;
        if (f)
            fibre_leave(f);
    }
    uint64_t bits;
    double sum = x + y + z + t + u + v + w + q;
    memcpy(&bits, &sum, 8);
    return a ^ b ^ c ^ d ^ e ^ g ^ bits;
}

struct mixing {
    struct fibres *fibres;
    uint64_t seed, result;
};

static void run_mix(void *argument) {
    struct mixing *m = argument;
    m->result = mix(m->fibres, m->seed, 50);
}

TEST(registers_survive_a_switch) {
    enum { COUNT = 17 };
    struct fibres *f = make(COUNT, 64 << 10);
    struct mixing m[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        m[i] = (struct mixing){f, i + 1, 0};
        fibre_start(f, i, run_mix, &m[i]);
    }
    bool running = true;
    while (running) {
        running = false;
        for (uint32_t i = 0; i < COUNT; i++)
            if (!m[i].result)
                running |= fibre_enter(f, i) == FIBRE_LEFT;
    }
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_EQ(m[i].result, mix(NULL, i + 1, 50));
    fibres_free(f);
}

static void round_up(void *argument) {
    fesetround(FE_UPWARD);
    fibre_leave(argument);
    fesetround(FE_TONEAREST);
}

TEST(the_rounding_mode_is_the_fibres_own) {
    struct fibres *f = make(1, 64 << 10);
    fibre_start(f, 0, round_up, f);
    fibre_enter(f, 0);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    fibre_enter(f, 0);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    fibres_free(f);
}

/* printf, aligned spills and deep recursion work there as anywhere. */
static int depth(int n) {
    volatile char room[256];
    room[0] = (char)n;
    return n == 0 ? 0 : depth(n - 1) + 1 + (room[0] - (char)n);
}

static void use_stack(void *argument) {
    char text[64];
    snprintf(text, sizeof text, "%.3f %d", 1.0 / 3, depth(200));
    memcpy(argument, text, sizeof text);
}

TEST(a_stack_is_as_large_as_was_asked_for) {
    char text[64] = "";
    struct fibres *f = make(2, 512 << 10);
    fibre_start(f, 1, use_stack, text);
    CHECK_EQ(fibre_enter(f, 1), FIBRE_ENDED);
    CHECK_STR(text, "0.333 200");
    fibres_free(f);
}

static struct fibres *guarded;
static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    _exit(fibre_in_guard(guarded, 1, info->si_addr) ? 3 : 4);
}

static void overflow(void *argument) {
    (void)argument;
    depth(1 << 20);
}

TEST(an_overflow_meets_the_guard) {
    struct fibres *f = make(2, 64 << 10);
    if (fibre_in_guard(f, 1, NULL))
        TEST_FAIL("NULL is in a guard");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        static char alternative[64 << 10];
        stack_t stack = {.ss_sp = alternative, .ss_size = sizeof alternative};
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaltstack(&stack, NULL);
        sigaction(SIGSEGV, &action, NULL);
        guarded = f;
        fibre_start(f, 1, overflow, NULL);
        fibre_enter(f, 1);
        _exit(5);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 3);
    fibres_free(f);
}

static void leave_once(void *argument) {
    fibre_leave(argument);
}

TEST(sixty_five_thousand_of_them) {
    enum { COUNT = 65536 };
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    struct fibres *f = make(COUNT, 256 << 10);
    for (uint32_t i = 0; i < COUNT; i++)
        fibre_start(f, i, leave_once, f);
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_EQ(fibre_enter(f, i), FIBRE_LEFT);
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_EQ(fibre_enter(f, i), FIBRE_ENDED);
    getrusage(RUSAGE_SELF, &after);
    /* A page or two each, not the 16 GiB that they might use. */
    CHECK(after.ru_maxrss - before.ru_maxrss < (3l << 20));
    fibres_free(f);
}

TEST(what_is_too_small_is_refused) {
    struct spin_error err;
    struct fibres *f;
    CHECK_EQ(fibres_new(&f, 1, 1024, &err), SPIN_EARG);
    CHECK_HAS(err.text, "stacks of 1024 bytes");
    CHECK_EQ(fibres_new(&f, 0, 1 << 20, &err), SPIN_EARG);
    CHECK(f == NULL);
}

TEST_MAIN
