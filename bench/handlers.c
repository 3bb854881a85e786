/* The handlers of the tree, each on the same memory in every way to run it. */
#include "handlers.h"

#include <math.h>

#include "bare_case.h"
#include "hpu/jit.h"
#include "measure.h"

#define ROWS     64
#define ROUNDS   5
#define COMPILED 3        /* times, each handler */
#define HOT      30000000 /* instructions, after which a JIT has long compiled them */

/* Handlers whose time is their own: not the call's, and not that of giving commands. */
#define BAR_MS        20u /* to compile one */
#define LONG          100 /* instructions */
#define FOR_AN_ACCESS 20  /* to a register of the driver, so many instructions at least */

enum { NATIVE, JIT, TIMED_JIT, QEMU, INTERPRETER, TIMED_INTERPRETER, WAYS };
static const struct {
    const char *name;
    bool functional;
    enum spin_jit jit;
    uint32_t times; /* as many calls as the interpreter, for the fast ones */
} ways[WAYS] = {
    [NATIVE] = {"native", false, SPIN_JIT_OFF, 8},
    [JIT] = {"JIT", true, SPIN_JIT_ON, 2},
    [TIMED_JIT] = {"timed JIT", false, SPIN_JIT_ON, 2},
    [QEMU] = {"qemu-riscv32", false, SPIN_JIT_OFF, 2},
    [INTERPRETER] = {"interpreter", true, SPIN_JIT_OFF, 1},
    [TIMED_INTERPRETER] = {"timed interp.", false, SPIN_JIT_OFF, 1},
};

struct row {
    struct bare_case *of;
    uint64_t instructions, accesses; /* accesses: to the driver's registers */
    double ns[WAYS];                 /* negative: not here */
    struct hpu_jit_stats stats[2];   /* of the JIT, timed too */
    uint64_t forced_ns[2];           /* its longest compilation when forced */
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

static struct row row_of(struct bare_case *c) {
    struct bare_machine *m = bare_machine_new(c, true, SPIN_JIT_OFF);
    bare_call(m);
    struct row r = {.of = c,
                    .instructions = m->hpu.instret,
                    .accesses = m->hpu.device_loads + m->hpu.device_stores};
    bare_machine_free(m);
    return r;
}

/* The one that takes longest: packets that are dropped say little. */
static void keep_longest(void *context, struct bare_case *c) {
    struct table *t = context;
    struct row r = row_of(c);
    uint32_t i = 0;
    while (i < t->rows && strcmp(t->row[i].of->name, c->name) != 0)
        i++;
    if (i == ROWS)
        stop("more handlers than rows");
    if (i == t->rows)
        t->rows++;
    else if (r.instructions <= t->row[i].instructions) {
        free(c);
        return;
    }
    free(t->row[i].of);
    t->row[i] = r;
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
    if (way == NATIVE && !bare_has_native(c))
        return -1;
    struct bare_case *r =
        bare_apart(c, way == QEMU ? BARE_QEMU : BARE_NATIVE, t->build, calls, &t->missing[way]);
    if (!r)
        return -1;
    same_or_stop(expected, r, way);
    double ns = ((double)r->ns - (double)r->back_ns) / calls;
    free(r);
    return ns;
}

/* What the others must leave. */
static struct bare_case *expected_of(const struct bare_case *c) {
    struct bare_machine *m = bare_machine_new(c, true, SPIN_JIT_OFF);
    bare_call_first(m);
    struct bare_case *left = m->memory;
    m->memory = NULL;
    bare_machine_free(m);
    return left;
}

/* NULL where there is no LLVM. A JIT has then compiled what it will. */
static struct bare_machine *warm_machine(const struct row *r, int way, enum spin_jit jit) {
    struct bare_machine *m = bare_machine_new(r->of, ways[way].functional, jit);
    uint64_t calls = jit == SPIN_JIT_ON ? HOT / r->instructions : 0;
    for (uint64_t i = 0; i < calls + 200 && m; i++) {
        bare_put_back(m);
        bare_call(m);
    }
    return m;
}

static bool is_here(const struct bare_machine *m) {
    return m && hpu_jit_stats(m->code).functions;
}

/* The least of some: whoever else uses the machine makes it more. Returns the last, or NULL. */
static struct bare_machine *warm_jit(struct row *r, int i) {
    struct bare_machine *m = NULL;
    for (int n = 0; n < COMPILED; n++) {
        m = warm_machine(r, JIT + i, SPIN_JIT_FORCE);
        if (!is_here(m)) {
            bare_machine_free(m);
            return NULL;
        }
        uint64_t most = hpu_jit_stats(m->code).most_ns;
        if (n == 0 || most < r->forced_ns[i])
            r->forced_ns[i] = most;
        bare_machine_free(m);
    }
    for (int n = 0; n < COMPILED; n++) {
        bare_machine_free(n ? m : NULL);
        m = warm_machine(r, JIT + i, SPIN_JIT_ON);
        struct hpu_jit_stats stats = hpu_jit_stats(m->code);
        if (n == 0 || stats.compile_ns < r->stats[i].compile_ns)
            r->stats[i] = stats;
    }
    return m;
}

static void measure(struct table *t, struct row *r) {
    struct bare_machine *m[WAYS];
    struct bare_case *expected = expected_of(r->of);
    uint32_t calls = (uint32_t)(4000000 / (r->instructions + 20)) + 1;
    for (int way = 0; way < WAYS; way++) {
        m[way] = way == NATIVE || way == QEMU     ? NULL
                 : way == JIT || way == TIMED_JIT ? warm_jit(r, way - JIT)
                                                  : warm_machine(r, way, SPIN_JIT_OFF);
        r->ns[way] = 1e9;
    }
    for (int round = 0; round < ROUNDS; round++) /* in turns: noise comes in stretches */
        for (int way = 0; way < WAYS; way++) {
            double ns = -1;
            if (m[way]) {
                bare_call_first(m[way]);
                same_or_stop(expected, m[way]->memory, way);
                ns = machine_ns(m[way], calls * ways[way].times);
            } else if (way == NATIVE || way == QEMU) {
                ns = program_ns(t, r->of, way, calls * ways[way].times, expected);
            } else {
                t->missing[way] = "no LLVM";
            }
            r->ns[way] = ns < r->ns[way] ? ns : r->ns[way];
        }
    for (int way = 0; way < WAYS; way++)
        bare_machine_free(m[way]);
    free(expected);
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
    printf("%-14.*s %-26.*s%c", image, name, length < 26 ? length : 26, function,
           r->of->pieces ? '*' : ' ');
}

static void print_row(const struct row *r) {
    print_name(r);
    printf(" %6llu %4llu", (unsigned long long)r->instructions, (unsigned long long)r->accesses);
    for (int way = 0; way < WAYS; way++) {
        if (r->ns[way] < 0)
            printf(" %8s", "-");
        else
            printf(" %8.1f", r->ns[way]);
        if (way != NATIVE && r->ns[way] >= 0 && r->ns[NATIVE] > 0)
            printf(" %5.*fx", r->ns[way] < 10 * r->ns[NATIVE] ? 2 : 1, r->ns[way] / r->ns[NATIVE]);
        else if (way != NATIVE)
            printf(" %6s", "");
    }
    for (int i = 0; i < 2; i++)
        printf(" %5.1f in %u", (double)r->stats[i].compile_ns * 1e-6, r->stats[i].functions);
    for (int i = 0; i < 2; i++) { /* calls until all compiling has paid off */
        double gain = r->ns[INTERPRETER + i] - r->ns[JIT + i];
        if (r->ns[JIT + i] >= 0 && gain > 0)
            printf(" %8.0f", (double)r->stats[i].compile_ns / gain);
        else
            printf(" %8s", r->ns[JIT + i] >= 0 ? "never" : "-");
    }
    printf("\n");
    fflush(stdout);
}

static void print_mean(const struct table *t, const char *what, uint64_t least,
                       uint64_t for_an_access) {
    double sum[WAYS] = {0};
    int count[WAYS] = {0};
    for (uint32_t i = 0; i < t->rows; i++)
        for (int way = 0; way < WAYS; way++)
            if (t->row[i].instructions >= least &&
                t->row[i].instructions >= for_an_access * t->row[i].accesses &&
                t->row[i].ns[way] > 0 && t->row[i].ns[NATIVE] > 0) {
                sum[way] += log(t->row[i].ns[way] / t->row[i].ns[NATIVE]);
                count[way]++;
            }
    printf("%-42s %6d %13s", what, count[NATIVE], "");
    for (int way = NATIVE + 1; way < WAYS; way++)
        if (count[way])
            printf(" %8s %5.2fx", "", exp(sum[way] / count[way]));
        else
            printf(" %15s", "");
    printf("\n");
}

/* The handler that takes longest to compile, and how many are under the bar. */
static void print_compiling(const struct table *t, bool forced) {
    static const char *const mode[2] = {"", "timed "};
    for (int i = 0; i < 2; i++) {
        const struct row *most = NULL;
        uint64_t most_ns = 0;
        uint32_t under = 0;
        for (uint32_t k = 0; k < t->rows; k++) {
            const struct row *r = &t->row[k];
            uint64_t ns = forced ? r->forced_ns[i] : r->stats[i].compile_ns;
            under += ns < BAR_MS * 1000000ull;
            most = ns > most_ns ? r : most;
            most_ns = ns > most_ns ? ns : most_ns;
        }
        if (most)
            printf("%s %sJIT, %s: %u of %u under %u ms, the most %.1f ms (%s)\n",
                   i ? "and the" : "the", mode[i],
                   forced ? "longest compilation with --jit=force" : "all of a handler", under,
                   t->rows, BAR_MS, (double)most_ns * 1e-6, most->of->name);
    }
}

void handler_table(const char *build) {
    static struct table t;
    t.build = build;
    bare_visit(build, keep_longest, &t);
    printf(
        "handlers of handlers/ and examples/, each on the longest of some packets: instructions, "
        "accesses to the driver's registers,\nnanoseconds per call, best of %d, and times native "
        "(gcc -O2 -mx32: 32-bit pointers); CPU milliseconds of all\ncompilations with --jit=on, "
        "best of %d, in how many functions (bar: 20), and the calls after which they pay "
        "back. In every\nway memory stands for the registers, so a command costs its accesses and "
        "is not carried out; what is left in memory is\ncompared. Those that compute have %d "
        "instructions at least, and %d for an access. *: what a call changes is put back\nbefore "
        "the next, and that time is taken off\n",
        ROUNDS, COMPILED, LONG, FOR_AN_ACCESS);
    printf("%-42s %6s %4s", "", "instr.", "reg.");
    for (int way = 0; way < WAYS; way++)
        printf(" %*s", way == NATIVE ? 8 : 15, ways[way].name);
    printf(" %s %s\n", "compile JIT, timed", "pays off, timed");
    for (uint32_t i = 0; i < t.rows; i++) {
        measure(&t, &t.row[i]);
        print_row(&t.row[i]);
    }
    print_mean(&t, "geo. mean, and over how many", 0, 0);
    print_mean(&t, "of those that compute: see above", LONG, FOR_AN_ACCESS);
    print_compiling(&t, false);
    print_compiling(&t, true);
    for (int way = 0; way < WAYS; way++)
        if (t.missing[way] && t.row[0].ns[way] < 0)
            printf("%s: %s\n", ways[way].name, t.missing[way]);
    for (uint32_t i = 0; i < t.rows; i++)
        free(t.row[i].of);
}
