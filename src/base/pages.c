#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>

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

void pages_fill(void *at, size_t bytes) {
    uintptr_t first = (uintptr_t)at & ~(uintptr_t)4095;
    /* A wish: systems that do not know it fault page by page. */
    (void)madvise((void *)first, (uintptr_t)at + bytes - first, MADV_POPULATE_WRITE);
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
