#include "hpu/guard.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define SPACE      ((size_t)1 << 32)
#define MARGIN     ((size_t)64 << 10) /* on both sides: offsets of accesses, pages of any size */
#define STRIDE     (2 * SPACE)        /* from view to view */
#define MOST_VIEWS 1024               /* 8 TiB of the 128 that a process has */
#define CLAIMED    1                  /* a place whose view is being made */

_Static_assert(GUARD_REACH <= MARGIN, "an access may reach this far out of 4 GiB");

/* Views stand by themselves, where the system puts nothing: between the pages that LLVM asks for
 * one by one, and addresses by 32 bits from one another, 4 GiB would be too much. The first is
 * 32 TiB; the second, 64 GiB, for processors and sanitizers with less room. */
static const uintptr_t arenas[] = {(uintptr_t)1 << 45, (uintptr_t)1 << 36};

/* Views are few and faults are rare, so a list is enough; atomic, because a signal handler looks
 * while others add and remove. 0: free. */
static atomic_uintptr_t views[MOST_VIEWS];

uint8_t *guard_memory_new(size_t bytes) {
    int kind = guard_is_wanted() ? MAP_SHARED : MAP_PRIVATE;
    void *at = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                    kind | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void guard_memory_free(uint8_t *memory, size_t bytes) {
    if (memory)
        munmap(memory, bytes ? bytes : 1);
}

/* A free place, or -1. */
static int claim(void) {
    for (int i = 0; i < MOST_VIEWS; i++) {
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&views[i], &none, CLAIMED))
            return i;
    }
    return -1;
}

/* 4 GiB of nothing with its margins, where place number i is; NULL where that cannot be had. */
static uint8_t *reserve(int i) {
    for (size_t k = 0; k < sizeof arenas / sizeof arenas[0]; k++) {
        void *wish = (void *)(arenas[k] + (uintptr_t)i * STRIDE);
        void *space = mmap(wish, SPACE + 2 * MARGIN, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == wish)
            return (uint8_t *)space + MARGIN;
        if (space != MAP_FAILED)
            munmap(space, SPACE + 2 * MARGIN);
    }
    return NULL;
}

static void release(uint8_t *view) {
    munmap(view - MARGIN, SPACE + 2 * MARGIN);
}

bool guard_has(uintptr_t address) {
    for (int i = 0; i < MOST_VIEWS; i++) {
        uintptr_t view = atomic_load_explicit(&views[i], memory_order_acquire);
        if (view > CLAIMED && address - (view - MARGIN) < SPACE + 2 * MARGIN)
            return true;
    }
    return false;
}

/* Shows pages of shared memory at a second place: that is what mremap does when asked to move
 * none. What is not shared memory fails here, and so do parts of larger pages than ours. */
static bool show(const uint8_t *pages, size_t bytes, uint8_t *at, bool writable) {
    void *made = mremap((void *)(uintptr_t)pages, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    return made != MAP_FAILED && (writable || mprotect(at, bytes, PROT_READ) == 0);
}

uint8_t *guard_view_new(const uint8_t *host, uint32_t base, uint32_t size, bool writable) {
    uint64_t from = guard_from(base), to = guard_to(base, size);
    if (!guard_is_wanted() || from >= to || ((uintptr_t)host - base) % GUARD_PAGE)
        return NULL;
    int place = claim();
    uint8_t *view = place < 0 ? NULL : reserve(place);
    if (view && !show(host + (from - base), to - from, view + from, writable)) {
        release(view);
        view = NULL;
    }
    if (view) /* the memory itself is in a core dump */
        (void)madvise(view - MARGIN, SPACE + 2 * MARGIN, MADV_DONTDUMP);
    if (place >= 0)
        atomic_store(&views[place], (uintptr_t)view);
    return view;
}

void guard_view_free(uint8_t *view) {
    if (!view)
        return;
    int i = 0;
    while (atomic_load(&views[i]) != (uintptr_t)view)
        i++;
    release(view);
    atomic_store(&views[i], 0);
}
