/* Page protection as the sandbox of generated code: what it does must be what the interpreter does,
 * at every edge; and no fault or signal of the program may be taken for one of a handler. Programs
 * that end, or that set up SIGSEGV in their own way, are children of the test. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "hpu/jit_private.h"
#include "lib/test_machine.h"
#include "lib/views.h"

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define UNDER_ASAN
#endif
#endif

/* ---- views ---- */

TEST(views_show_whole_pages) {
    uint8_t *memory = guard_memory_new(5 * GUARD_PAGE);
    CHECK(memory);
    want_views();
    spin_guard_pages(SPIN_GUARDS_OFF);
    CHECK(!guard_view_new(memory, 0x10000000, 2 * GUARD_PAGE, true));
    spin_guard_pages(SPIN_GUARDS_INSTALL);
    CHECK(!guard_view_new(memory, 0x10000000, 2 * GUARD_PAGE, true)); /* was made before: private */
    guard_memory_free(memory, 5 * GUARD_PAGE);

    memory = guard_memory_new(5 * GUARD_PAGE);
    CHECK(memory);
    CHECK(!guard_view_new(memory, 0x10000000, GUARD_PAGE - 1, true));
    CHECK(!guard_view_new(memory + 8, 0x10000008, 2 * GUARD_PAGE - 9, true)); /* no whole one */
    CHECK(
        !guard_view_new(memory, 0x10000008, 3 * GUARD_PAGE, true)); /* at another place in a page */
    CHECK(!guard_view_new(memory, 0x10000000, 0, true));
    uint8_t *view = guard_view_new(memory + 16, 0x10000010, 3 * GUARD_PAGE, true);
    CHECK(view);
    memory[GUARD_PAGE] = 17;
    CHECK_EQ(view[0x10000000 + GUARD_PAGE], 17);
    view[0x10000000 + 3 * GUARD_PAGE - 1] = 18;
    CHECK_EQ(memory[3 * GUARD_PAGE - 1], 18);
    CHECK(guard_has((uintptr_t)view) && guard_has((uintptr_t)view + UINT32_MAX));
    CHECK(!guard_has((uintptr_t)memory) && !guard_has(0));
    guard_view_free(view);
    CHECK(!guard_has((uintptr_t)view));
    guard_memory_free(memory, 5 * GUARD_PAGE);
}

TEST(views_are_limited) {
    static uint8_t *view[1100];
    int made = 0;
    want_views();
    uint8_t *memory = guard_memory_new(GUARD_PAGE);
    CHECK(memory);
    while (made < 1100 && (view[made] = guard_view_new(memory, 0x10000000, GUARD_PAGE, true)))
        made++;
    CHECK(made > 0 && made <= 1024);
    guard_view_free(view[0]);
    CHECK((view[0] = guard_view_new(memory, 0x10000000, GUARD_PAGE, true)));
    for (int i = 0; i < made; i++)
        guard_view_free(view[i]);
    guard_memory_free(memory, GUARD_PAGE);
}

#ifndef OPENSPIN_JIT
TEST(guarded_code) {
    TEST_SKIP("built without LLVM");
}
#else

#define EDGY       0x20000f00u /* a page's end, two pages, and a page's beginning */
#define EDGY_BYTES (0x100u + 2 * GUARD_PAGE + 0x103u)
#define FIXED_ROOM 0x20010000u /* read only */
#define LOWEST     0u
#define HIGHEST    0xffffe000u /* to the end of the address space */
#define ROOM_BYTES (2 * GUARD_PAGE)

static void open_with_pages(struct machine *m, const struct program *p, int mode) {
    machine_open(m, p, mode ? HPU_TIMED : HPU_FUNCTIONAL, true);
    machine_add_pages(m, EDGY, EDGY_BYTES, true);
    machine_add_pages(m, FIXED_ROOM, ROOM_BYTES, false);
    machine_add_pages(m, LOWEST, ROOM_BYTES, true);
    machine_add_pages(m, HIGHEST, ROOM_BYTES, true);
}

/* ---- signals: first, while this process has not set up its own ---- */

/* A machine whose handler is compiled for a window with a view. */
static void open_guarded(struct machine *m) {
    struct program p = {0};
    put(&p, rv_lw(10, 11, 0));
    put(&p, RV_RET);
    open_with_pages(m, &p, 0);
    struct start s = {.x[11] = 0x20001000};
    machine_begin(m, &s);
    CHECK_EQ(hpu_run(&m->hpu, ~0ull), HPU_DONE);
    machine_force_jit(m);
}

static bool faults_at(struct machine *m, uint32_t address) {
    struct start s = {.x[11] = address};
    machine_begin(m, &s);
    enum hpu_stop stop = hpu_run(&m->hpu, ~0ull);
    return stop == HPU_FAULTED && m->hpu.fault == HPU_FAULT_SEGV && m->hpu.fault_address == address;
}

/* In a child, because SIGSEGV is set up once in a process: a child says what went wrong by its
 * status. Returns what waitpid does. */
static int in_child(int (*run)(void)) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV,
               SIG_DFL); /* a sanitizer's handler is the test's business, not the child's */
        spin_guard_pages(SPIN_GUARDS_INSTALL);
        if (setjmp(test_exit) != 0) {
            fprintf(stderr, "# in a child: %s\n", test_why);
            _exit(99);
        }
        _exit(run());
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

#define CHECK_CHILD(run)                                                                           \
    do {                                                                                           \
        int status_ = in_child(run);                                                               \
        CHECK(WIFEXITED(status_));                                                                 \
        CHECK_EQ(WEXITSTATUS(status_), 0);                                                         \
    } while (0)
#define CHECK_KILLED(run)                                                                          \
    do {                                                                                           \
        int status_ = in_child(run);                                                               \
        CHECK(WIFSIGNALED(status_));                                                               \
        CHECK_EQ(WTERMSIG(status_), SIGSEGV);                                                      \
    } while (0)

static sigjmp_buf back;
static struct {
    volatile int count, code, value;
    void *volatile address, *volatile stack;
    volatile bool blocks_usr1;
} seen;

static void note(const siginfo_t *info) {
    sigset_t mask;
    char here;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen.blocks_usr1 = sigismember(&mask, SIGUSR1);
    seen.count++;
    seen.stack = &here;
    seen.code = info ? info->si_code : 0;
    seen.address = info ? info->si_addr : NULL;
    seen.value = info ? info->si_value.sival_int : 0;
}

static void on_info_return(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    note(info);
}
static void on_info(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    note(info);
    siglongjmp(back, 1);
}
static void on_plain(int number) {
    (void)number;
    note(NULL);
    siglongjmp(back, 1);
}

/* Reads a word of the host's; false when a handler jumped out of that. */
static __attribute__((noinline, no_sanitize("address", "undefined"))) bool
can_read(const volatile uint32_t *word) {
    if (sigsetjmp(back, 1) != 0)
        return false;
    (void)*word;
    return true;
}

static enum hpu_access bad_device(struct hpu *h, uint32_t offset, uint32_t value) {
    (void)offset, (void)value;
    h->result = can_read((const volatile uint32_t *)(uintptr_t)24);
    return HPU_ACCESS_OK;
}

/* A command, whose device faults by itself. */
static void give_command(void) {
    static const struct hpu_device device = {.store = bad_device};
    static struct machine m;
    struct program p = {0};
    put(&p, rv_sw(10, 11, 0));
    put(&p, RV_RET);
    machine_open(&m, &p, HPU_FUNCTIONAL, false);
    machine_force_jit(&m);
    m.hpu.device = &device;
    m.hpu.result = 1;
    struct start s = {.x[11] = MAP_DRIVER + SPIN_REG_ISSUE};
    machine_begin(&m, &s);
    CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
    CHECK_EQ(m.hpu.result, 0);
    machine_close(&m);
}

static int with_a_handler(const struct sigaction *action, bool has_info) {
    static struct machine m;
    sigaction(SIGSEGV, action, NULL);
    open_guarded(&m);
    CHECK(faults_at(&m, 0x30000000));
    CHECK_EQ(hpu_jit_stats(m.code).guard_faults, 1);
    CHECK_EQ(seen.count, 0); /* that was the handler's */
    CHECK(!can_read((const volatile uint32_t *)(uintptr_t)16));
    CHECK_EQ(seen.count, 1);
    CHECK(!has_info || seen.address == (void *)16);
    CHECK(!can_read((const volatile uint32_t *)(m.paged[0].view + 0x90000000))); /* by the host */
    CHECK_EQ(seen.count, 2);
    CHECK(!has_info || seen.address == m.paged[0].view + 0x90000000);
    give_command();
    CHECK_EQ(seen.count, 3);
    for (int i = 0; i < 3; i++) { /* what is sent is no fault */
        if (sigsetjmp(back, 1) == 0) {
            if (i == 0)
                raise(SIGSEGV);
            else if (i == 1)
                kill(getpid(), SIGSEGV);
            else
                sigqueue(getpid(), SIGSEGV, (union sigval){.sival_int = 4711});
            CHECK(false);
        }
        CHECK_EQ(seen.count, 4 + i);
        CHECK(!has_info || seen.code == (i == 0 ? SI_TKILL : i == 1 ? SI_USER : SI_QUEUE));
        CHECK(!has_info || i < 2 || seen.value == 4711);
    }
    CHECK(faults_at(&m, 0x40000000)); /* and it goes on */
    CHECK_EQ(seen.count, 6);
    machine_close(&m);
    return 0;
}

static int with_info(void) {
    struct sigaction action = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    int bad = with_a_handler(&action, true);
    CHECK(seen.blocks_usr1);
    return bad;
}
static int without_info(void) {
    struct sigaction action = {.sa_handler = on_plain};
    int bad = with_a_handler(&action, false);
    CHECK(!seen.blocks_usr1);
    return bad;
}

#ifndef UNDER_ASAN /* which has locals elsewhere */
/* On its own stack if it asked for it, on the usual one if not. */
static uint8_t other_stack[1 << 16];
static int with_stack(int flags) {
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction action = {.sa_handler = on_plain, .sa_flags = flags};
    sigaltstack(&stack, NULL);
    int bad = with_a_handler(&action, false);
    uint8_t *at = seen.stack;
    CHECK_EQ(at >= other_stack && at < other_stack + sizeof other_stack, flags != 0);
    return bad;
}
static int with_other_stack(void) {
    return with_stack(SA_ONSTACK);
}
static int with_usual_stack(void) {
    return with_stack(0);
}
#endif

TEST(faults_of_the_program_reach_its_handler) {
    want_views();
    CHECK_CHILD(with_info);
    CHECK_CHILD(without_info);
#ifndef UNDER_ASAN
    CHECK_CHILD(with_other_stack);
    CHECK_CHILD(with_usual_stack);
#endif
}

static struct machine child_machine;
static void guard_once(void) {
    open_guarded(&child_machine);
    CHECK(faults_at(&child_machine, 0x30000000));
    CHECK_EQ(hpu_jit_stats(child_machine.code).guard_faults, 1);
}

static int dies_of_null(void) {
    guard_once();
    can_read(NULL);
    return 1;
}
static int dies_in_a_view(void) {
    guard_once();
    can_read((const volatile uint32_t *)(child_machine.paged[0].view + 64));
    return 1;
}
static int dies_of_raise(void) {
    guard_once();
    raise(SIGSEGV);
    return 1;
}
static int dies_of_kill(void) {
    guard_once();
    kill(getpid(), SIGSEGV);
    pause();
    return 1;
}
static int ignores(void) {
    signal(SIGSEGV, SIG_IGN);
    guard_once();
    raise(SIGSEGV);
    CHECK(faults_at(&child_machine, 0x50000000));
    return 0;
}
static int cannot_ignore_a_fault(void) {
    ignores();
    can_read(NULL);
    return 1;
}
static int dies_the_second_time(void) {
    struct sigaction action = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    sigaction(SIGSEGV, &action, NULL);
    guard_once();
    if (can_read(NULL) || seen.count != 1)
        return 1;
    can_read(NULL);
    return 2;
}

TEST(without_a_handler_faults_end_the_program) {
    want_views();
    CHECK_KILLED(dies_of_null);
    CHECK_KILLED(dies_in_a_view);
    CHECK_KILLED(dies_of_raise);
    CHECK_KILLED(dies_of_kill);
    CHECK_CHILD(ignores);
    CHECK_KILLED(cannot_ignore_a_fault);
    CHECK_KILLED(dies_the_second_time);
}

/* A handler that returns: the fault is repeated, as ever, until it has mended what was wrong. */
static void *mended;
static void on_mend(int number, siginfo_t *info, void *context) {
    on_info_return(number, info, context);
    mprotect(mended, 4096, PROT_READ);
}
static int mends(void) {
    struct sigaction action = {.sa_sigaction = on_mend, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    guard_once();
    mended = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(can_read(mended));
    CHECK_EQ(seen.count, 1);
    return 0;
}

/* A handler that comes later and does not know of us: what is compiled from then on has checks. */
static int comes_later(void) {
    static struct machine m;
    guard_once();
    struct sigaction action = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    open_guarded(&m);
    CHECK(faults_at(&m, 0x30000000));
    CHECK_EQ(hpu_jit_stats(m.code).guarded, 0);
    CHECK_EQ(seen.count, 0);
    return 0;
}

static void on_called(int number, siginfo_t *info, void *context) {
    if (!spin_handle_fault(number, info, context))
        on_info(number, info, context);
}
static int calls_us(void) {
    struct sigaction action = {.sa_sigaction = on_called, .sa_flags = SA_SIGINFO}, now;
    spin_guard_pages(SPIN_GUARDS_CALLED);
    sigaction(SIGSEGV, &action, NULL);
    guard_once();
    CHECK_EQ(seen.count, 0);
    CHECK(!can_read(NULL));
    CHECK_EQ(seen.count, 1);
    sigaction(SIGSEGV, NULL, &now);
    CHECK(now.sa_sigaction == on_called);
    return 0;
}

/* A blocked SIGSEGV would end the process. */
static int blocks(void) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    open_guarded(&child_machine);
    CHECK(faults_at(&child_machine, 0x30000000));
    CHECK_EQ(hpu_jit_stats(child_machine.code).guarded, 0);
    return 0;
}

#ifndef UNDER_ASAN
static int has_no_room(void) {
    unsigned long pages = 0;
    FILE *size = fopen("/proc/self/statm", "r");
    CHECK(size && fscanf(size, "%lu", &pages) == 1);
    struct rlimit limit = {pages * 4096 + (1u << 30), RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    uint8_t *memory = guard_memory_new(4096);
    CHECK(memory && !guard_view_new(memory, 0x10000000, 4096, true));
    return 0;
}
#endif

TEST(programs_that_want_it_otherwise) {
    want_views();
    CHECK_CHILD(mends);
    CHECK_CHILD(comes_later);
    CHECK_CHILD(calls_us);
    CHECK_CHILD(blocks);
#ifndef UNDER_ASAN
    CHECK_CHILD(has_no_room);
#endif
}

/* ---- the same as the interpreter ---- */

/* Whether views, or the one check of alignment that they leave, let the access pass. */
static bool is_shown(uint32_t middle, uint32_t at, uint32_t bytes, bool store) {
    static const struct {
        uint32_t from, to;
        bool writable;
    } shown[] = {{0x20001000, 0x20002fff, true},
                 {FIXED_ROOM, FIXED_ROOM + ROOM_BYTES - 1, false},
                 {LOWEST, LOWEST + ROOM_BYTES - 1, true},
                 {HIGHEST, UINT32_MAX, true}};
    for (int i = 0; i < 4; i++)
        if (middle >= shown[i].from && middle <= shown[i].to)
            return at >= shown[i].from && at <= shown[i].to && bytes - 1 <= shown[i].to - at &&
                   (shown[i].writable || !store);
    return false;
}

/* Every address has a handler of its own, which was interpreted in the middle of a window and is
 * then compiled for it: so its first access is where the address says, without a check. */
static void demand_same_at(const uint32_t *at, int count, uint32_t insn, uint32_t bytes,
                           int32_t offset, uint32_t middle, int mode, bool guarded) {
    static struct machine plain, jit;
    static struct program p;
    bool store = (insn & 0x7f) == 0x23 || (insn & 0x7f) == 0x27;
    p.bytes = 0;
    for (int i = 0; i < count; i++) {
        put(&p, insn);
        put(&p, rv_addi(12, 10, 1));
        put(&p, RV_RET);
    }
    open_with_pages(&plain, &p, mode);
    open_with_pages(&jit, &p, mode);
    struct start s = {.x[13] = 0x89abcdef, .with_float = true, .f[13] = 0x3f812345};
    for (int i = 0; i < count; i++) {
        s.entry = 12u * (uint32_t)i;
        s.x[11] = middle - (uint32_t)offset;
        for (int k = 0; k < 2; k++) /* and it is in the instruction cache */
            demand_same_call(&plain, &jit, &s);
    }
    machine_force_jit(&jit);
    for (int i = 0; i < count; i++) {
        uint64_t before = hpu_jit_stats(jit.code).guard_faults;
        snprintf(test_context, sizeof test_context, "insn %08x at 0x%x, offset %d, mode %d", insn,
                 at[i], offset, mode);
        s.entry = 12u * (uint32_t)i;
        s.x[11] = at[i] - (uint32_t)offset;
        demand_same_call(&plain, &jit, &s);
        /* An offset that wraps around is one more reason, which views take the long way round. */
        bool wraps = (int64_t)s.x[11] + offset != at[i];
        bool misaligned = mode && (at[i] & (bytes - 1));
        bool passes = is_shown(middle, at[i], bytes, store) && !wraps;
        CHECK_EQ(hpu_jit_stats(jit.code).guard_faults - before, guarded && !misaligned && !passes);
        before = hpu_jit_stats(jit.code).guard_faults;
        for (int k = 0; k < 3; k++) /* compiled again, with a check */
            demand_same_call(&plain, &jit, &s);
        if (!wraps)
            CHECK_EQ(hpu_jit_stats(jit.code).guard_faults, before);
    }
    CHECK_EQ(hpu_jit_stats(jit.code).guarded > 0, guarded);
    machine_close(&plain);
    machine_close(&jit);
}

static const struct {
    const char *name;
    uint32_t insn, bytes;
    bool guarded; /* atomics keep their checks */
} accesses[] = {
    {"lb", 0x00058503, 1, true},  {"lbu", 0x0005c503, 1, true}, {"lh", 0x00059503, 2, true},
    {"lhu", 0x0005d503, 2, true}, {"lw", 0x0005a503, 4, true},  {"flw", 0x0005a507, 4, true},
    {"sb", 0x00d58023, 1, true},  {"sh", 0x00d59023, 2, true},  {"sw", 0x00d5a023, 4, true},
    {"fsw", 0x00d5a027, 4, true}, {"amo", 0x00d5a52f, 4, false}};

TEST(every_edge) {
    static const uint32_t at[] = {EDGY - 4,     EDGY,         EDGY + 0xfc, EDGY + 0xfe, EDGY + 0xff,
                                  EDGY + 0x100, EDGY + 0x102, 0x20001ffe,  0x20002000,  0x20002ffc,
                                  0x20002ffd,   0x20002fff,   0x20003000,  0x20003100,  0x20003102,
                                  0x20003103,   FIXED_ROOM,   DATA_BASE,   0,           0xfffffffc,
                                  0xffffffff,   0x80000000};
    want_views();
    for (size_t k = 0; k < sizeof accesses / sizeof accesses[0]; k++)
        for (int mode = 0; mode < 2; mode++)
            demand_same_at(at, sizeof at / sizeof at[0], accesses[k].insn, accesses[k].bytes, 0,
                           0x20001800, mode, accesses[k].guarded);
}

TEST(read_only_windows) {
    static const uint32_t at[] = {FIXED_ROOM, FIXED_ROOM + 0x1ffc, FIXED_ROOM + 0x1ffd,
                                  FIXED_ROOM + 0x2000, FIXED_ROOM - 1};
    want_views();
    for (size_t k = 0; k < 6; k++) /* the loads: a store never got there to be compiled for it */
        for (int mode = 0; mode < 2; mode++)
            demand_same_at(at, 5, accesses[k].insn, accesses[k].bytes, 0, FIXED_ROOM + 0x800, mode,
                           true);
}

/* Stores through code that was compiled for another context, in which the window was writable. */
TEST(a_view_has_the_windows_rights) {
    static struct machine plain, jit;
    struct program p = {0};
    put(&p, rv_sw(13, 11, 0));
    put(&p, RV_RET);
    want_views();
    for (int mode = 0; mode < 2; mode++) {
        open_with_pages(&plain, &p, mode);
        open_with_pages(&jit, &p, mode);
        struct start s = {.x[11] = 0x20001000, .x[13] = 99};
        demand_same_call(&plain, &jit, &s);
        machine_force_jit(&jit);
        demand_same_call(&plain, &jit, &s);
        CHECK_EQ(hpu_jit_stats(jit.code).guard_faults, 0);
        struct machine *both[] = {&plain, &jit};
        for (int i = 0; i < 2; i++) {
            struct hpu_window *w = &both[i]->hpu.window[3];
            uint8_t *host = both[i]->paged[0].host;
            guard_view_free(both[i]->paged[0].view);
            hpu_size_window(w, EDGY_BYTES, false);
            w->view = both[i]->paged[0].view = guard_view_new(host, EDGY, EDGY_BYTES, false);
        }
        demand_same_call(&plain, &jit, &s);
        CHECK_EQ(jit.hpu.fault, HPU_FAULT_SEGV);
        CHECK_EQ(hpu_jit_stats(jit.code).guard_faults, 1);
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* At both ends of the address space, with offsets that lead out of it and around. */
TEST(ends_of_the_address_space) {
    static const uint32_t at[] = {0,          4,          0x7ff,      0x1ffc,
                                  0x1fff,     0x2000,     0xffffe000, 0xfffff800,
                                  0xfffffffc, 0xfffffffe, 0xffffffff, 0xffffdfff};
    static const int32_t offsets[] = {0, 2047, -2048};
    want_views();
    for (int k = 0; k < 2; k++)
        for (int o = 0; o < 3; o++)
            for (int mode = 0; mode < 2; mode++)
                for (int end = 0; end < 2; end++) {
                    uint32_t insn = k ? rv_sw(13, 11, offsets[o]) : rv_lw(10, 11, offsets[o]);
                    uint32_t middle = end ? HIGHEST + 0x1000 : 0x1000;
                    demand_same_at(at, 12, insn, 4, offsets[o], middle, mode, true);
                }
}

/* Random walks of several accesses per turn, in and out of the windows. */
TEST(random_walks) {
    static struct machine plain, jit;
    static const uint32_t homes[] = {EDGY + 0x200,    EDGY,     FIXED_ROOM + 0x400, 0x1000,
                                     HIGHEST + 0x800, DATA_BASE};
    struct rng rng = rng_seeded(11);
    want_views();
    for (int round = 0; round < 30; round++) {
        struct program p = {0};
        for (int i = 0; i < 6; i++) {
            uint32_t pointer = 11 + rng_below(&rng, 3), value = 16 + rng_below(&rng, 4);
            int32_t offset = (int32_t)rng_below(&rng, 3) * 8;
            uint32_t kind = rng_below(&rng, 5);
            put(&p, kind == 0   ? rv_lw(value, pointer, offset)
                    : kind == 1 ? rv_lbu(value, pointer, offset)
                    : kind == 2 ? rv_sw(value, pointer, offset)
                    : kind == 3 ? rv_sh(value, pointer, offset)
                                : rv_add(20, 20, value));
            if (rng_below(&rng, 2))
                put(&p, rv_addi(pointer, pointer, 4 * (int32_t)rng_below(&rng, 40)));
        }
        put(&p, rv_addi(9, 9, -1));
        put(&p, rv_beq(9, 0, 8));
        put(&p, rv_jal(0, -(int32_t)p.bytes));
        put(&p, RV_RET);
        int mode = round % 2;
        open_with_pages(&plain, &p, mode);
        open_with_pages(&jit, &p, mode);
        struct start s = {.x[9] = 5};
        for (uint32_t r = 11; r < 14; r++)
            s.x[r] = homes[rng_below(&rng, 6)];
        demand_same_call(&plain, &jit, &s);
        machine_force_jit(&jit);
        for (int k = 0; k < 30; k++) {
            s.x[9] = 1 + rng_below(&rng, 60);
            s.budget = rng_below(&rng, 4) ? 0 : 1 + rng_below(&rng, 500);
            if (k % 5 == 4)
                s.x[11 + rng_below(&rng, 3)] = homes[rng_below(&rng, 6)] + 4 * rng_below(&rng, 50);
            demand_same_call(&plain, &jit, &s);
        }
        machine_close(&plain);
        machine_close(&jit);
    }
}

/* HPUs share code, and not all have views. */
TEST(an_hpu_without_views) {
    static struct machine with, without;
    static struct result a, b;
    struct program p = {0};
    put(&p, rv_lw(10, 11, 0));
    put(&p, RV_RET);
    for (int mode = 0; mode < 2; mode++) {
        want_views();
        open_with_pages(&with, &p, mode);
        spin_guard_pages(SPIN_GUARDS_OFF);
        open_with_pages(&without, &p, mode);
        spin_guard_pages(SPIN_GUARDS_INSTALL);
        CHECK(with.paged[0].view && !without.paged[0].view);
        struct start s = {.x[11] = 0x20001000};
        machine_begin(&with, &s);
        CHECK_EQ(hpu_run(&with.hpu, ~0ull), HPU_DONE);
        machine_force_jit(&with);
        struct hpu_code *own = without.hpu.code ? without.code : NULL;
        without.hpu.code = with.code;
        for (int i = 0; i < 6; i++) {
            machine_begin(&with, &s);
            machine_result(&with, hpu_run(&with.hpu, ~0ull), &a);
            CHECK_EQ(hpu_jit_stats(with.code).guarded, 1);
            machine_begin(&without, &s);
            machine_result(&without, hpu_run(&without.hpu, ~0ull), &b);
            demand_same(&a, &b, JIT_FUNCTIONAL);
        }
        CHECK_EQ(hpu_jit_stats(with.code).functions, 2); /* with views, and for both */
        CHECK_EQ(hpu_jit_stats(with.code).guard_faults, 0);
        without.hpu.code = own;
        machine_close(&with);
        machine_close(&without);
    }
}

/* What is hot is looked at before it is compiled: accesses at an edge have checks from the start.
 */
TEST(edges_are_known_before) {
    static struct machine m;
    struct program p = {0};
    struct spin_error err;
    put(&p, rv_lw(10, 11, 0)); /* in the page that is not whole */
    put(&p, rv_lw(12, 13, 0));
    put(&p, rv_addi(9, 9, -1));
    put(&p, rv_bne(9, 0, -12));
    put(&p, RV_RET);
    want_views();
    open_with_pages(&m, &p, 0);
    CHECK_EQ(hpu_jit_enable(m.code, SPIN_JIT_ON, &err), SPIN_OK);
    struct start s = {.x[9] = 20000000, .x[11] = EDGY, .x[13] = EDGY + 0x400, .budget = UINT64_MAX};
    machine_begin(&m, &s);
    CHECK_EQ(hpu_run(&m.hpu, ~0ull), HPU_DONE);
    CHECK_EQ(m.hpu.instret, 80000001);
    CHECK(hpu_jit_stats(m.code).functions > 0);
    CHECK_EQ(hpu_jit_stats(m.code).guard_faults, 0);
    machine_close(&m);
}
#endif

TEST_MAIN
