/* The handlers of the tree, each on the same memory in every way to run it. */
#include "handlers.h"

#include <math.h>

#include "bare_case.h"
#include "hpu/jit.h"
#include "machine.h"

#define ROWS   64
#define ROUNDS 5
#define LONG   100 /* instructions: from there on a handler's time is its own and not the call's */

enum { NATIVE, JIT, TIMED_JIT, QEMU, INTERPRETER, TIMED_INTERPRETER, WAYS };
static const struct {
    const char *name;
    bool functional;
    enum spin_jit jit;
    uint32_t times; /* as many calls as the interpreter, for the fast ones */
} ways[WAYS] = {
    [NATIVE] = {"native", false, SPIN_JIT_OFF, 8},
    [JIT] = {"JIT", true, SPIN_JIT_FORCE, 2},
    [TIMED_JIT] = {"timed JIT", false, SPIN_JIT_FORCE, 2},
    [QEMU] = {"qemu-riscv32", false, SPIN_JIT_OFF, 2},
    [INTERPRETER] = {"interpreter", true, SPIN_JIT_OFF, 1},
    [TIMED_INTERPRETER] = {"timed interp.", false, SPIN_JIT_OFF, 1},
};

struct row {
    struct bare_case *of;
    uint64_t instructions;
    double ns[WAYS]; /* negative: not here */
    struct hpu_jit_stats stats[2];
};

struct table {
    const char *build;
    struct row row[ROWS];
    uint32_t rows;
    const char *missing[WAYS];
};

static __attribute__((noreturn)) void stop(const char *why) {
    fprintf(stderr, "bench: %s\n", why);
    exit(1);
}

/* ---- Which call of each handler -------------------------------------------------------------- */

static uint64_t instructions_of(const struct bare_case *c) {
    struct bare_machine *m = bare_machine_new(c, true, SPIN_JIT_OFF);
    bare_call(m);
    uint64_t n = m->hpu.instret;
    bare_machine_free(m);
    return n;
}

/* The one that takes longest: packets that are dropped say little. */
static void keep_longest(void *context, struct bare_case *c) {
    struct table *t = context;
    uint64_t n = instructions_of(c);
    uint32_t i = 0;
    while (i < t->rows && strcmp(t->row[i].of->name, c->name) != 0)
        i++;
    if (i == ROWS)
        stop("more handlers than rows");
    if (i == t->rows)
        t->rows++;
    else if (n <= t->row[i].instructions) {
        free(c);
        return;
    }
    free(t->row[i].of);
    t->row[i] = (struct row){.of = c, .instructions = n};
}

/* ---- Timing ---------------------------------------------------------------------------------- */

static void same_or_stop(const struct bare_case *expected, const struct bare_case *got, int way) {
    char where[200], text[260];
    if (!bare_differs(expected, got, way != NATIVE && way != QEMU, where, sizeof where))
        return;
    snprintf(text, sizeof text, "interpreter and %s: %s", ways[way].name, where);
    stop(text);
}

static double machine_ns(struct bare_machine *m, uint32_t calls) {
    double start = bench_cpu_seconds(), back = 0;
    for (uint32_t i = 0; i < calls; i++) {
        bare_put_back(m);
        bare_call(m);
    }
    double all = bench_cpu_seconds() - start;
    if (m->of->pieces) {
        start = bench_cpu_seconds();
        for (uint32_t i = 0; i < calls; i++) {
            bare_put_back(m);
            __asm__ volatile("" ::: "memory");
        }
        back = bench_cpu_seconds() - start;
    }
    return (all - back) / calls * 1e9;
}

static double program_ns(struct table *t, const struct bare_case *c, int way, uint32_t calls,
                         const struct bare_case *expected) {
    struct bare_case *r =
        bare_apart(c, way == QEMU ? BARE_QEMU : BARE_NATIVE, t->build, calls, &t->missing[way]);
    if (!r)
        return -1;
    same_or_stop(expected, r, way);
    double ns = ((double)r->ns - (double)r->back_ns) / calls;
    free(r);
    return ns;
}

static void measure(struct table *t, struct row *r) {
    struct bare_machine *m[WAYS] = {0};
    uint32_t calls = (uint32_t)(4000000 / (r->instructions + 20)) + 1;
    for (int way = 0; way < WAYS; way++) {
        bool is_program = way == NATIVE || way == QEMU;
        r->ns[way] = 1e9;
        m[way] = is_program ? NULL : bare_machine_new(r->of, ways[way].functional, ways[way].jit);
        if (m[way]) /* and compile it; twice, as a first look may be compiled again */
            for (uint32_t i = 0; i < 200; i++)
                bare_put_back(m[way]), bare_call(m[way]);
    }
    bare_call_first(m[INTERPRETER]);
    struct bare_case *expected = m[INTERPRETER]->memory;
    struct bare_case *copy = malloc(expected->bytes);
    if (!copy)
        stop("out of memory");
    memcpy(copy, expected, expected->bytes);
    for (int round = 0; round < ROUNDS; round++) /* in turns: noise comes in stretches */
        for (int way = 0; way < WAYS; way++) {
            double ns = -1;
            if (m[way]) {
                bare_call_first(m[way]);
                same_or_stop(copy, m[way]->memory, way);
                ns = machine_ns(m[way], calls * ways[way].times);
            } else if (way == QEMU || bare_has_native(r->of)) {
                ns = program_ns(t, r->of, way, calls * ways[way].times, copy);
            }
            r->ns[way] = ns < r->ns[way] ? ns : r->ns[way];
        }
    for (int way = 0; way < WAYS; way++) {
        if (m[way] && (way == JIT || way == TIMED_JIT))
            r->stats[way == TIMED_JIT] = hpu_jit_stats(m[way]->code);
        bare_machine_free(m[way]);
    }
    free(copy);
}

/* ---- Printing -------------------------------------------------------------------------------- */

/* "reduce" and "words_ph" of reduce.reduce_words_ph. */
static void print_name(const struct row *r) {
    const char *name = r->of->name, *function = strchr(name, '.') + 1;
    int image = (int)(function - 1 - name);
    if (strncmp(function, name, (size_t)image) == 0)
        function += image + 1;
    const char *end = strstr(function, "_handler");
    int length = end ? (int)(end - function) : (int)strlen(function);
    printf("%-14.*s %-35.*s%c", image, name, length, function, r->of->pieces ? '*' : ' ');
}

static void print_row(const struct row *r) {
    print_name(r);
    printf(" %6llu", (unsigned long long)r->instructions);
    for (int way = 0; way < WAYS; way++) {
        if (r->ns[way] < 0)
            printf(" %9s", "-");
        else
            printf(" %9.1f", r->ns[way]);
        if (way != NATIVE && r->ns[way] >= 0 && r->ns[NATIVE] > 0)
            printf(" %6.2fx", r->ns[way] / r->ns[NATIVE]);
        else if (way != NATIVE)
            printf(" %7s", "");
    }
    for (int i = 0; i < 2; i++)
        printf("  %6.1f in %u", (double)r->stats[i].most_ns * 1e-6, r->stats[i].functions);
    printf("\n");
    fflush(stdout);
}

static void print_mean(const struct table *t, const char *what, uint64_t least) {
    double sum[WAYS] = {0};
    int count[WAYS] = {0};
    for (uint32_t i = 0; i < t->rows; i++)
        for (int way = 0; way < WAYS; way++)
            if (t->row[i].instructions >= least && t->row[i].ns[way] > 0 &&
                t->row[i].ns[NATIVE] > 0) {
                sum[way] += log(t->row[i].ns[way] / t->row[i].ns[NATIVE]);
                count[way]++;
            }
    printf("%-51s %6d %9s", what, count[NATIVE], "");
    for (int way = NATIVE + 1; way < WAYS; way++)
        if (count[way])
            printf(" %9s %6.2fx", "", exp(sum[way] / count[way]));
        else
            printf(" %17s", "");
    printf("\n");
}

void handler_table(const char *build) {
    static struct table t;
    t.build = build;
    bare_visit(build, keep_longest, &t);
    printf("handlers of handlers/ and examples/, on the longest of some packets: instructions, "
           "nanoseconds a call, best of %d, and times\nnative (gcc -O2 -mx32); CPU milliseconds of "
           "the longest compilation, and how many (bar: 20). In every way the driver's\nregisters "
           "are memory: giving a command costs its stores, and no command is carried out; memory "
           "is the same\nafterwards. *: what a call changes is put back before each, and the time "
           "for that is taken off\n",
           ROUNDS);
    printf("%-51s %6s", "", "instr.");
    for (int way = 0; way < WAYS; way++)
        printf(" %*s", way == NATIVE ? 9 : 17, ways[way].name);
    printf("  %s\n", "compile JIT, timed");
    for (uint32_t i = 0; i < t.rows; i++) {
        measure(&t, &t.row[i]);
        print_row(&t.row[i]);
    }
    print_mean(&t, "geo. mean, all that have a native", 0);
    print_mean(&t, "those of 100 instructions and more", LONG);
    for (int way = 0; way < WAYS; way++)
        if (t.missing[way] && t.row[0].ns[way] < 0)
            printf("%s: %s\n", ways[way].name, t.missing[way]);
    for (uint32_t i = 0; i < t.rows; i++)
        free(t.row[i].of);
}
