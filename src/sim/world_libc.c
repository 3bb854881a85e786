/* What the C library keeps for a process: kept for each rank. And how a rank ends. */
#include "sim/world_libc.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/grow.h"
#include "sim/link.h"

const void *world_libc_call(const char *name) {
    static const struct world_call *const lists[] = {
        world_exit_calls,   world_state_calls, world_clock_calls, world_getopt_calls,
        world_thread_calls, world_sync_calls,  world_c11_calls,   world_cxx_calls};
    for (unsigned i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const struct world_call *c = lists[i]; c->name; c++)
            if (strcmp(c->name, name) == 0)
                return c->call;
    return NULL;
}

bool world_libc_variable(const char *name, uint64_t *offset) {
    static const struct {
        const char *name;
        size_t offset;
    } variables[] = {
        {"optarg", offsetof(struct world_own, optarg)},
        {"optind", offsetof(struct world_own, optind)},
        {"opterr", offsetof(struct world_own, opterr)},
        {"optopt", offsetof(struct world_own, optopt)},
    };
    for (unsigned i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (strcmp(variables[i].name, name) == 0) {
            *offset = variables[i].offset;
            return true;
        }
    return false;
}

uint64_t world_libc_bytes(void) {
    return sizeof(struct world_own);
}

void world_libc_start(void *own) {
    *(struct world_own *)own = (struct world_own){.optind = 1, .opterr = 1, .optopt = '?'};
}

struct world_libc *world_libc(struct world_thread *t) {
    struct world_rank *r = t->rank;
    if (!r->libc)
        r->libc = calloc(1, sizeof *r->libc);
    if (!r->libc)
        world_no_memory(t, "what its C library remembers");
    return r->libc;
}

struct world_own *world_own(struct world_thread *t) {
    return world_program_own(t->rank->program, t->rank->copy);
}

void world_libc_free(struct world_rank *r) {
    if (r->libc)
        free(r->libc->handlers);
    free(r->libc);
    world_libc_end(&r->main);
}

/* ---- the end of a rank ------------------------------------------------------------------------
 */

void world_exit(struct world_thread *t, int status, bool in_order) {
    struct world_rank *r = t->rank;
    while (in_order && r->libc && r->libc->handler_count) {
        struct world_exit_handler h = r->libc->handlers[--r->libc->handler_count];
        h.call(h.argument, status);
    }
    if (in_order)
        world_program_end(r->program, r->copy);
    r->status = status;
    r->leaving = true;
    world_thread_end(t);
}

void world_no_memory(struct world_thread *t, const char *what) {
    world_fail(t->rank->world, SPIN_ENOMEM, "rank %u: out of memory for %s", t->rank->index, what);
    world_exit(t, 1, false);
}

static bool add_handler(void (*call)(void *, int), void *argument) {
    struct world_libc *c = world_libc(world_current());
    if (!ROOM_FOR_ONE(c->handlers, c->handler_count, c->handler_room, 8))
        return false;
    c->handlers[c->handler_count++] = (struct world_exit_handler){call, argument};
    return true;
}

static void call_plain(void *argument, int status) {
    void (*call)(void);
    (void)status;
    memcpy(&call, &argument, sizeof argument);
    call();
}

static int own_atexit(void (*call)(void)) {
    void *argument;
    memcpy(&argument, &call, sizeof argument);
    return add_handler(call_plain, argument) ? 0 : -1;
}

static int own_cxa_atexit(void (*call)(void *), void *argument, void *object) {
    void (*with_status)(void *, int);
    (void)object;                             /* all objects of a rank end together */
    memcpy(&with_status, &call, sizeof call); /* it does not look at the second argument */
    return add_handler(with_status, argument) ? 0 : -1;
}

static int own_on_exit(void (*call)(int, void *), void *argument);

struct on_exit {
    void (*call)(int, void *);
    void *argument;
};

static void call_on_exit(void *argument, int status) {
    struct on_exit with = *(struct on_exit *)argument;
    free(argument);
    with.call(status, with.argument);
}

static int own_on_exit(void (*call)(int, void *), void *argument) {
    struct on_exit *with = malloc(sizeof *with);
    if (!with)
        return -1;
    *with = (struct on_exit){call, argument};
    return add_handler(call_on_exit, with) ? 0 : -1;
}

static void own_cxa_finalize(void *object) {
    (void)object; /* world_exit has done it */
}

static _Noreturn void own_exit(int status) {
    struct world_thread *t = world_current();
    t->rank->exited = true;
    world_exit(t, status, true);
}

static _Noreturn void own_exit_at_once(int status) {
    struct world_thread *t = world_current();
    t->rank->exited = true;
    world_exit(t, status, false);
}

/* ---- processes --------------------------------------------------------------------------------
 */

/* The same in every run. */
static pid_t own_getpid(void) {
    return (pid_t)(world_current()->rank->index + 1);
}

static pid_t own_fork(void) {
    errno = ENOSYS; /* a child would be a second world */
    return -1;
}

const struct world_call world_exit_calls[] = {
    WORLD_CALL(exit, own_exit),
    WORLD_CALL(quick_exit, own_exit_at_once),
    WORLD_CALL(_exit, own_exit_at_once),
    WORLD_CALL(_Exit, own_exit_at_once),
    WORLD_CALL(atexit, own_atexit),
    WORLD_CALL(on_exit, own_on_exit),
    WORLD_CALL(__cxa_atexit, own_cxa_atexit),
    WORLD_CALL(__cxa_finalize, own_cxa_finalize),
    WORLD_CALL(getpid, own_getpid),
    WORLD_CALL(fork, own_fork),
    WORLD_CALL(vfork, own_fork),
    {NULL, NULL},
};

/* ---- random numbers: the same as the C library's ----------------------------------------------
 */

static struct random_data *random_of(struct world_thread *t) {
    struct world_libc *c = world_libc(t);
    if (!c->has_random)
        initstate_r(1, c->random_state, sizeof c->random_state, &c->random);
    c->has_random = true;
    return &c->random;
}

static long own_random(void) {
    int32_t value = 0;
    random_r(random_of(world_current()), &value);
    return value;
}

static int own_rand(void) {
    return (int)own_random();
}

static void own_srandom(unsigned seed) {
    srandom_r(seed, random_of(world_current()));
}

static char *own_initstate(unsigned seed, char *state, size_t bytes) {
    struct random_data *r = random_of(world_current());
    char *before = (char *)r->state - sizeof(int32_t);
    return initstate_r(seed, state, bytes, r) ? NULL : before;
}

static char *own_setstate(char *state) {
    struct random_data *r = random_of(world_current());
    char *before = (char *)r->state - sizeof(int32_t);
    return setstate_r(state, r) ? NULL : before;
}

static struct drand48_data *drand48_of(void) {
    return &world_libc(world_current())->drand48;
}

static double own_drand48(void) {
    double value = 0;
    drand48_r(drand48_of(), &value);
    return value;
}

static double own_erand48(unsigned short of[3]) {
    double value = 0;
    erand48_r(of, drand48_of(), &value);
    return value;
}

static long own_lrand48(void) {
    long value = 0;
    lrand48_r(drand48_of(), &value);
    return value;
}

static long own_nrand48(unsigned short of[3]) {
    long value = 0;
    nrand48_r(of, drand48_of(), &value);
    return value;
}

static long own_mrand48(void) {
    long value = 0;
    mrand48_r(drand48_of(), &value);
    return value;
}

static long own_jrand48(unsigned short of[3]) {
    long value = 0;
    jrand48_r(of, drand48_of(), &value);
    return value;
}

static void own_srand48(long seed) {
    srand48_r(seed, drand48_of());
}

static unsigned short *own_seed48(unsigned short seed[3]) {
    struct drand48_data *d = drand48_of();
    seed48_r(seed, d);
    return d->__old_x;
}

static void own_lcong48(unsigned short parameters[7]) {
    lcong48_r(parameters, drand48_of());
}

/* ---- words and dates --------------------------------------------------------------------------
 */

static char *own_strtok(char *text, const char *separators) {
    return strtok_r(text, separators, &world_libc(world_current())->token);
}

static struct tm *own_localtime(const time_t *of) {
    return localtime_r(of, &world_libc(world_current())->date);
}

static struct tm *own_gmtime(const time_t *of) {
    return gmtime_r(of, &world_libc(world_current())->date);
}

static char *own_asctime(const struct tm *of) {
    return asctime_r(of, world_libc(world_current())->date_text);
}

static char *own_ctime(const time_t *of) {
    return ctime_r(of, world_libc(world_current())->date_text);
}

const struct world_call world_state_calls[] = {
    WORLD_CALL(rand, own_rand),
    WORLD_CALL(srand, own_srandom),
    WORLD_CALL(random, own_random),
    WORLD_CALL(srandom, own_srandom),
    WORLD_CALL(initstate, own_initstate),
    WORLD_CALL(setstate, own_setstate),
    WORLD_CALL(drand48, own_drand48),
    WORLD_CALL(erand48, own_erand48),
    WORLD_CALL(lrand48, own_lrand48),
    WORLD_CALL(nrand48, own_nrand48),
    WORLD_CALL(mrand48, own_mrand48),
    WORLD_CALL(jrand48, own_jrand48),
    WORLD_CALL(srand48, own_srand48),
    WORLD_CALL(seed48, own_seed48),
    WORLD_CALL(lcong48, own_lcong48),
    WORLD_CALL(strtok, own_strtok),
    WORLD_CALL(localtime, own_localtime),
    WORLD_CALL(gmtime, own_gmtime),
    WORLD_CALL(asctime, own_asctime),
    WORLD_CALL(ctime, own_ctime),
    {NULL, NULL},
};
