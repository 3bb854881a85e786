/* What a program does to its own pages, by the system's calls: spin_touch, spin_pin, spin_discard
 * (openspin.h). */
#ifndef SPIN_PORTALS_OWN_PAGES_H
#define SPIN_PORTALS_OWN_PAGES_H

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "openspin.h"
#include "portals/process.h"

/* The first byte of each page, read and written. */
static inline int own_pages_touch(const void *at, uint64_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at, end = from + bytes;
    for (uintptr_t a = from; a < end; a = (a & ~(page - 1)) + page) {
        volatile uint8_t *byte = (volatile uint8_t *)a; /* what is there stays */
        *byte = *byte;
    }
    return SPIN_OK;
}

static inline int own_pages_pin(const void *at, uint64_t bytes) {
    if (!bytes || !mlock(at, bytes))
        return SPIN_OK;
    return errno == ENOMEM || errno == EPERM || errno == EAGAIN ? SPIN_ELIMIT : SPIN_EARG;
}

static inline int own_pages_discard(const void *at, uint64_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)at + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)at + bytes) & ~(page - 1);
    if (from >= end)
        return SPIN_OK;
    munlock((const void *)from, end - from);
    return madvise((void *)from, end - from, MADV_DONTNEED) ? SPIN_EARG : SPIN_OK;
}

static inline int own_pages_use(enum portals_memory how, const void *at, uint64_t bytes) {
    return how == PORTALS_TOUCH ? own_pages_touch(at, bytes)
           : how == PORTALS_PIN ? own_pages_pin(at, bytes)
                                : own_pages_discard(at, bytes);
}

#endif
