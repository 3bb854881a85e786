#include "base/guarded_copy.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fault_signal.h"

/* A thread's way out of a copy. The sanitizer of threads has to see where it goes. */
#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define WATCHED_JUMPS 1
#define SANITIZED     1
#elif __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined __SANITIZE_THREAD__ || !defined __x86_64__
#define WATCHED_JUMPS 1
#endif
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define SANITIZED 1
#endif

#ifdef WATCHED_JUMPS
typedef jmp_buf way_out;
#define SET_WAY_OUT(way)  _setjmp(way)
#define TAKE_WAY_OUT(way) longjmp(way, 1)
#else
typedef void *way_out[5];
#define SET_WAY_OUT(way)  __builtin_setjmp(way)
#define TAKE_WAY_OUT(way) __builtin_longjmp(way, 1)
#endif

/* What the thread is copying now; bytes 0: nothing. The signal handler reads it. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
    uintptr_t at;
    volatile size_t bytes;
    way_out out;
} now;

#if GUARDED_WORDS
/* GUARDED_OR's table. */
struct entry {
    int32_t at, to;
};
extern const struct entry __start_spin_guarded[] __attribute__((visibility("hidden")));
extern const struct entry __stop_spin_guarded[] __attribute__((visibility("hidden")));

static bool go_on_elsewhere(ucontext_t *context) {
    greg_t *now_at = &context->uc_mcontext.gregs[REG_RIP];
    for (const struct entry *e = __start_spin_guarded; e != __stop_spin_guarded; e++) {
        if ((greg_t)(uintptr_t)&e->at + e->at == *now_at) {
            *now_at = (greg_t)(uintptr_t)&e->to + e->to;
            return true;
        }
    }
    return false;
}
#else
static bool go_on_elsewhere(ucontext_t *context) {
    (void)context;
    return false;
}
#endif

/* The fault of a copy is in its range; of an address that no process can have the kernel does not
 * say where it was. */
static bool take_fault(int number, const siginfo_t *info, ucontext_t *context) {
    (void)number;
    if (info->si_code > 0 && go_on_elsewhere(context))
        return true;
    bool here = (uintptr_t)info->si_addr - now.at < now.bytes || info->si_code == SI_KERNEL;
    if (!now.bytes || info->si_code <= 0 || !here)
        return false;
    now.bytes = 0;
    pthread_sigmask(SIG_SETMASK, &context->uc_sigmask, NULL);
    TAKE_WAY_OUT(now.out);
}

static void begin(const void *theirs, size_t bytes) {
    now.at = (uintptr_t)theirs;
    now.bytes = bytes;
    atomic_signal_fence(memory_order_seq_cst);
}

static void end(void) {
    atomic_signal_fence(memory_order_seq_cst);
    now.bytes = 0;
}

/* Copies of up to a packet by vectors that are in the table: a way out and memcpy take 5 to 7 ns
 * more of 24 for 1 KiB, and nothing less for 4. Sanitizers are to see what is copied. */
#if GUARDED_WORDS && !defined SANITIZED
#define LOAD(at, v)  "1: vmovups " #at "(%1), %%ymm" #v "\n" GUARDED_OR(bad)
#define STORE(at, v) "1: vmovups %%ymm" #v ", " #at "(%0)\n" GUARDED_OR(bad)
#define VECTOR       32u

static inline bool copy_vector(uint8_t *to, const uint8_t *from) {
    __asm__ goto(LOAD(0, 0) STORE(0, 0) : : "r"(to), "r"(from) : "xmm0", "memory" : bad);
    return true;
bad:
    return false;
}

static inline bool copy_four_vectors(uint8_t *to, const uint8_t *from) {
    __asm__ goto(LOAD(0, 0) LOAD(32, 1) LOAD(64, 2) LOAD(96, 3) /* */
                 STORE(0, 0) STORE(32, 1) STORE(64, 2) STORE(96, 3)
                 :
                 : "r"(to), "r"(from)
                 : "xmm0", "xmm1", "xmm2", "xmm3", "memory"
                 : bad);
    return true;
bad:
    return false;
}

/* Four at a time, and the last four once more where they overlap: few decisions. */
static inline bool by_vectors(uint8_t *to, const uint8_t *from, size_t bytes) {
    const size_t four = 4 * VECTOR;
    bool good = true;
    if (bytes >= four) {
        uint8_t *const last = to + (bytes - four);
        const uint8_t *const last_from = from + (bytes - four);
        for (; good && to < last; to += four, from += four)
            good = copy_four_vectors(to, from);
        good = good && copy_four_vectors(last, last_from);
    } else {
        uint8_t *const last = to + (bytes - VECTOR);
        const uint8_t *const last_from = from + (bytes - VECTOR);
        for (; good && to < last; to += VECTOR, from += VECTOR)
            good = copy_vector(to, from);
        good = good && copy_vector(last, last_from);
    }
    __asm__ volatile("vzeroupper");
    return good;
}

bool guarded_has_vectors(void) {
    return __builtin_cpu_supports("avx");
}

static inline bool goes_by_vectors(size_t bytes) {
    return bytes >= VECTOR && bytes <= GUARDED_VECTORS_MOST && __builtin_cpu_supports("avx");
}
#else
static bool by_vectors(uint8_t *to, const uint8_t *from, size_t bytes) {
    (void)to, (void)from, (void)bytes;
    return false;
}

static bool goes_by_vectors(size_t bytes) {
    (void)bytes;
    return false;
}

bool guarded_has_vectors(void) {
    return false;
}
#endif

static __attribute__((noinline)) bool by_way_out(void *to, const void *from, const void *theirs,
                                                 size_t bytes) {
    if (!theirs || SET_WAY_OUT(now.out)) /* memcpy must not be given NULL, where nothing is */
        return false;
    begin(theirs, bytes);
    memcpy(to, from, bytes);
    end();
    return true;
}

static __attribute__((noinline)) bool use_by_way_out(const void *theirs, size_t bytes,
                                                     guarded_user *use, void *context) {
    if (SET_WAY_OUT(now.out))
        return false;
    begin(theirs, bytes);
    use(context, theirs, bytes);
    end();
    return true;
}

bool guarded_use(enum guarded how, const void *theirs, size_t bytes, guarded_user *use,
                 void *context) {
    if (how == GUARDED_BY_SIGNAL)
        return use_by_way_out(theirs, bytes, use, context);
    if (how == GUARDED_NOT)
        use(context, theirs, bytes);
    return how == GUARDED_NOT;
}

static bool by_signal(void *to, const void *from, const void *theirs, size_t bytes) {
    return goes_by_vectors(bytes) ? by_vectors(to, from, bytes)
                                  : by_way_out(to, from, theirs, bytes);
}

bool guarded_read_slowly(enum guarded how, void *ours, const void *theirs, size_t bytes) {
    if (!bytes)
        return true;
    if (how == GUARDED_BY_SIGNAL)
        return by_signal(ours, theirs, theirs, bytes);
    const struct iovec here = {ours, bytes}, there = {(void *)(uintptr_t)theirs, bytes};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

bool guarded_write_slowly(enum guarded how, void *theirs, const void *ours, size_t bytes) {
    if (!bytes)
        return true;
    if (how == GUARDED_BY_SIGNAL)
        return by_signal(theirs, ours, theirs, bytes);
    const struct iovec here = {(void *)(uintptr_t)ours, bytes}, there = {theirs, bytes};
    return process_vm_writev(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

bool guarded_write_packet(void *theirs, const void *ours, size_t bytes) {
    if (__builtin_expect(goes_by_vectors(bytes), 1))
        return by_vectors(theirs, ours, bytes);
    return guarded_write_slowly(GUARDED_BY_SIGNAL, theirs, ours, bytes);
}

/* Adds nothing to a byte of each page. */
#if GUARDED_WORDS
static bool touch(uint8_t *theirs, size_t bytes) {
    const size_t page = 4096;
    for (size_t at = 0; at < bytes; at += page - ((uintptr_t)theirs + at) % page)
        __asm__ goto("1: lock orb $0, (%0)\n" GUARDED_OR(bad)
                     :
                     : "r"(theirs + at)
                     : "cc", "memory"
                     : bad);
    return true;
bad:
    return false;
}
#else
/* A call that the compiler does not look into: in a function without one it takes the way out to be
 * unused, and gives its address to something else. */
static __attribute__((noinline)) void touch_each(uint8_t *theirs, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t nothing = 0;
    __asm__ volatile("" : "+r"(nothing)); /* or a compiler would read, and not write */
    for (size_t at = 0; at < bytes; at += page - ((uintptr_t)theirs + at) % page)
        __atomic_fetch_or(theirs + at, nothing, __ATOMIC_RELAXED);
    __asm__ volatile("");
}

static __attribute__((noinline)) bool touch(uint8_t *theirs, size_t bytes) {
    if (SET_WAY_OUT(now.out))
        return false;
    begin(theirs, bytes);
    touch_each(theirs, bytes);
    end();
    return true;
}
#endif

bool guarded_touch(enum guarded how, void *theirs, size_t bytes) {
    if (how == GUARDED_NOT)
        return true;
    if (how == GUARDED_BY_SIGNAL)
        return touch(theirs, bytes);
    uint8_t byte; /* writing could undo what the program does at the same time */
    return guarded_read_slowly(how, &byte, theirs, 1) &&
           guarded_read_slowly(how, &byte, (uint8_t *)theirs + bytes - 1, 1);
}

enum guarded guarded_way(void) {
    fault_signal_add(take_fault);
    return fault_signal_is_ready(SIGSEGV) && fault_signal_is_ready(SIGBUS) ? GUARDED_BY_SIGNAL
                                                                           : GUARDED_BY_SYSTEM;
}
