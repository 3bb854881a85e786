#include "base/pages.h"

#include <stdint.h>
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

void *pages_new(size_t bytes) {
    size_t size = rounded(bytes);
    return advised(map(size), size);
}

void *pages_sparse(size_t bytes) {
    size_t size = rounded(bytes);
    void *at = map(size);
    if (at)
        (void)madvise(at, size, MADV_NOHUGEPAGE);
    return at;
}

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool pages_fill(void *at, size_t bytes, size_t rest) {
    const uint64_t dear_ns = 1000000; /* for 2 MiB, in huge pages 0.2 ms; in small ones 1 ms */
    uintptr_t from = (uintptr_t)at & ~(uintptr_t)4095, end = (uintptr_t)at + bytes;
    while (from < end) {
        uintptr_t next = (from / HUGE_PAGE + 1) * HUGE_PAGE;
        bool whole = from % HUGE_PAGE == 0 && next <= end + rest;
        uint64_t began = whole ? cpu_ns() : 0;
        /* A wish: systems that do not know it fault page by page. */
        (void)madvise((void *)from, (next < end ? next : end) - from, MADV_POPULATE_WRITE);
        from = next;
        if (whole && cpu_ns() - began > dear_ns && from < end + rest) {
            (void)madvise((void *)from, end + rest - from, MADV_NOHUGEPAGE);
            if (from < end)
                (void)madvise((void *)from, end - from, MADV_POPULATE_WRITE);
            return false;
        }
    }
    return true;
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
