#include "portals/own_pages.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "openspin.h"

/* The first byte of each page, read and written. */
static int touch(const void *at, uint64_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at, end = from + bytes;
    for (uintptr_t a = from; a < end; a = (a & ~(page - 1)) + page) {
        volatile uint8_t *byte = (volatile uint8_t *)a; /* what is there stays */
        *byte = *byte;
    }
    return SPIN_OK;
}

static int pin(const void *at, uint64_t bytes) {
    if (!bytes || !mlock(at, bytes))
        return SPIN_OK;
    return errno == ENOMEM || errno == EPERM || errno == EAGAIN ? SPIN_ELIMIT : SPIN_EARG;
}

static int discard(const void *at, uint64_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)at + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)at + bytes) & ~(page - 1);
    if (from >= end)
        return SPIN_OK;
    munlock((const void *)from, end - from);
    return madvise((void *)from, end - from, MADV_DONTNEED) ? SPIN_EARG : SPIN_OK;
}

int own_pages_use(enum portals_memory how, const void *at, uint64_t bytes) {
    return how == PORTALS_TOUCH ? touch(at, bytes)
           : how == PORTALS_PIN ? pin(at, bytes)
                                : discard(at, bytes);
}

int spin_touch(void *at, size_t bytes) {
    return own_pages_call(PORTALS_TOUCH, at, bytes);
}

int spin_pin(const void *at, size_t bytes) {
    return own_pages_call(PORTALS_PIN, at, bytes);
}

int spin_discard(void *at, size_t bytes) {
    return own_pages_call(PORTALS_DISCARD, at, bytes);
}
