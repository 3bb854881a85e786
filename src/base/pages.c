#include "base/pages.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE ((size_t)2 << 20)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static size_t rounded(size_t bytes) {
    if (bytes > SIZE_MAX - HUGE_PAGE)
        return 0;
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : 4096;
    return bytes ? (bytes + unit - 1) / unit * unit : 4096;
}

static void *advised(void *at, size_t size) {
    if (at == MAP_FAILED || !at)
        return NULL;
    if (size >= HUGE_PAGE)
        (void)madvise(at, size, MADV_HUGEPAGE); /* a wish: without huge pages it is only slower */
    return at;
}

static void *map(size_t size) {
    if (!size)
        return NULL;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* ---- Kept for the next user ---- */

/* Stands where a kept part begins. The list is a process's, as malloc's are: the last one that was
 * kept first. Who finds it locked does without it, so that nobody waits, also behind a fork. */
struct kept {
    struct kept *next;
    size_t size, used;
};
#define MOST_KEPT_BYTES ((size_t)256 << 20)
#define MOST_KEPT       64u

static atomic_flag kept_locked = ATOMIC_FLAG_INIT;
static struct kept *first_kept;

static bool lock_kept(void) {
    return !atomic_flag_test_and_set_explicit(&kept_locked, memory_order_acquire);
}
static void unlock_kept(void) {
    atomic_flag_clear_explicit(&kept_locked, memory_order_release);
}

/* One of that size, which leaves the list; NULL: there is none. */
static struct kept *find_kept(size_t size) {
    if (!lock_kept())
        return NULL;
    struct kept **at = &first_kept, *found;
    while ((found = *at) && found->size != size)
        at = &found->next;
    if (found)
        *at = found->next;
    unlock_kept();
    return found;
}

void pages_keep(void *memory, size_t bytes, size_t used) {
    size_t size = rounded(bytes), sum = 0;
    uint32_t count = 0;
    if (!memory || used < sizeof(struct kept) || used > MOST_KEPT_BYTES || !lock_kept()) {
        pages_free(memory, bytes);
        return;
    }
    struct kept *kept = memory, **at = &first_kept;
    *kept = (struct kept){first_kept, size, used < size ? used : size};
    first_kept = kept;
    for (; *at && count < MOST_KEPT && (sum += (*at)->used) <= MOST_KEPT_BYTES; count++)
        at = &(*at)->next;
    struct kept *beyond = *at;
    *at = NULL;
    unlock_kept();
    while (beyond) {
        struct kept *next = beyond->next;
        munmap(beyond, beyond->size);
        beyond = next;
    }
}

void *pages_take(size_t bytes, size_t *used) {
    struct kept *kept = find_kept(rounded(bytes));
    *used = kept ? kept->used : 0;
    return kept;
}

static void *take_clear(size_t bytes) {
    size_t used;
    void *at = pages_take(bytes, &used);
    return at ? memset(at, 0, used) : NULL;
}

static void *map_advised(size_t bytes) {
    size_t size = rounded(bytes);
    return advised(map(size), size);
}

void *pages_new(size_t bytes) {
    void *at = take_clear(bytes);
    return at ? at : map_advised(bytes);
}

void *pages_sparse(size_t bytes) {
    size_t size = rounded(bytes);
    void *at = map(size);
    if (at)
        (void)madvise(at, size, MADV_NOHUGEPAGE);
    return at;
}

static uint64_t ns_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Huge pages were dear: not before that time they are tried again. It is the machine's state, which
 * costs up to 9 ms to find out, so all of a process know it. */
static _Atomic uint64_t dear_until_ns;
static const uint64_t dear_for_ns = 500000000;

static bool are_dear(void) {
    uint64_t until = atomic_load_explicit(&dear_until_ns, memory_order_relaxed);
    return until && ns_of(CLOCK_MONOTONIC) < until;
}

/* Populates up to the end of a huge page; false: that was dear. */
static bool fill_one(uintptr_t from, uintptr_t end, bool whole) {
    const uint64_t dear_ns = 1000000; /* for 2 MiB, in huge pages 0.2 ms; in small ones 1 ms */
    uint64_t began = whole ? ns_of(CLOCK_THREAD_CPUTIME_ID) : 0;
    /* A wish: systems that do not know it fault page by page. */
    (void)madvise((void *)from, end - from, MADV_POPULATE_WRITE);
    if (!whole || ns_of(CLOCK_THREAD_CPUTIME_ID) - began <= dear_ns)
        return true;
    atomic_store_explicit(&dear_until_ns, ns_of(CLOCK_MONOTONIC) + dear_for_ns,
                          memory_order_relaxed);
    return false;
}

bool pages_fill(void *at, size_t bytes, size_t rest) {
    uintptr_t from = (uintptr_t)at & ~(uintptr_t)4095, end = (uintptr_t)at + bytes;
    bool cheap = true;
    while (from < end && cheap) {
        uintptr_t next = (from / HUGE_PAGE + 1) * HUGE_PAGE;
        bool whole = from % HUGE_PAGE == 0 && next <= end + rest;
        if (whole && are_dear())
            break;
        cheap = fill_one(from, next < end ? next : end, whole);
        from = next;
    }
    if (from < end + rest && (from < end || !cheap)) {
        (void)madvise((void *)from, end + rest - from, MADV_NOHUGEPAGE);
        if (from < end)
            (void)madvise((void *)from, end - from, MADV_POPULATE_WRITE);
        return false;
    }
    return true;
}

void *pages_filled(size_t bytes) {
    void *at = take_clear(bytes);
    if (!at && (at = map_advised(bytes)))
        (void)pages_fill(at, bytes, 0);
    return at;
}

void *pages_grow(void *at, size_t old, size_t bytes) {
    if (!at)
        return pages_new(bytes);
    size_t size = rounded(bytes);
    if (!size)
        return NULL;
    return advised(mremap(at, rounded(old), size, MREMAP_MAYMOVE), size);
}

void pages_free(void *at, size_t bytes) {
    if (at)
        munmap(at, rounded(bytes));
}
