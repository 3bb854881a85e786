/* What `openspin experiment part/unpinned --live` and its program on live cards (page_live.c) have
 * together: memory that both map, with what is to be run and what came of it. */
#ifndef OPENSPIN_PAGE_LIVE_H
#define OPENSPIN_PAGE_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_LIVE_ROWS 64

enum page_live_case {
    PAGE_LIVE_DELAY,  /* small puts of rank 1 while rank 2 writes large ones, both to rank 0 */
    PAGE_LIVE_FIRST,  /* a put into a window that is made for it */
    PAGE_LIVE_WINDOW, /* small puts into a large window */
};

/* A window, before it is used. */
enum page_live_memory {
    PAGE_LIVE_NOBODY, /* delay: there is no other flow */
    PAGE_LIVE_WARM,   /* all of it has been used */
    PAGE_LIVE_FRESH,  /* anonymous, none of it has */
    PAGE_LIVE_FILE,   /* a mapped file that is on the disk alone */
    PAGE_LIVE_SWAP,   /* anonymous, written and paged out */
    PAGE_LIVE_TOUCH,  /* fresh; the program touches it first, */
    PAGE_LIVE_LOCK,   /* or calls mlock, and munlock at the end: that time counts */
    PAGE_LIVE_MEMORIES
};

struct page_live_row {
    uint32_t what, memory;
    uint64_t bytes; /* of a large message; of the window */
    uint32_t times; /* measurements, about */
    /* Results. */
    uint32_t measured; /* 0: it cannot be done here */
    double median_us, p99_us, max_us;
    double prepare_us; /* window: mlock */
    uint64_t resident; /* window: bytes in memory at the end */
};

struct page_live_plan {
    char paging[8]; /* OPENSPIN_PAGING */
    uint32_t rows;
    struct page_live_row row[PAGE_LIVE_ROWS];
    /* Between the ranks. */
    _Atomic uint32_t writing, enough;
};

#endif
