/* Views (hpu/guard.h) need a system that shows shared memory at a second place. Linux does, user
 * mode qemu does not. */
#ifndef TESTS_VIEWS_H
#define TESTS_VIEWS_H

#include <sys/mman.h>

#include "openspin.h"
#include "test.h"

/* Turns guard pages on, or skips the test. */
__attribute__((unused)) static void want_views(void) {
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *again = page == MAP_FAILED ? page : mremap(page, 0, 4096, MREMAP_MAYMOVE);
    if (again == MAP_FAILED)
        TEST_SKIP("this system shows no memory twice");
    munmap(page, 4096);
    munmap(again, 4096);
    spin_guard_pages(SPIN_GUARDS_INSTALL);
}

#endif
