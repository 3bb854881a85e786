#include "live/live_pager.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/helper_thread.h"

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define CHUNK_BYTES (256u << 10)
#define RESULTS     64 /* that are not taken: more, and the pager waits */

struct live_pager {
    void (*wake)(void *context);
    void *context;
    uint64_t page_bytes;
    struct live_limit *limit;
    bool populates; /* the system knows MADV_POPULATE_WRITE */
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool ends, held;
    struct live_page_request *first, **last;
    struct live_page_result result[RESULTS];
    uint32_t results;
};

/* ---- bringing pages in ---- */

/* Without MADV_POPULATE_WRITE (Linux before 5.14): reading a byte of each page. What is new then is
 * still copied from the page of zeroes by the first write, which waits for no device. */
static bool read_each(const struct live_pager *p, uint8_t *at, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes; done += p->page_bytes) {
        uint8_t byte;
        const struct iovec here = {&byte, 1}, there = {at + done, 1};
        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
            return false;
    }
    return true;
}

/* Populating marks a page referenced, which a page fault does not. Reclaim keeps pages that are so
 * marked and young, and where a control group has no others it finds nothing to swap out in 16
 * attempts and ends the process (a window four times the limit: 6 of 6). The advice takes the marks
 * off, for 5 % of the time; single page faults would take 30 % more. */
static bool bring_in(const struct live_pager *p, const struct live_page_request *r, uint8_t *at,
                     uint64_t bytes) {
    live_limit_look(p->limit); /* its thread may be late, and this here is what it is for */
    int how = r->write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    if (p->populates ? madvise(at, bytes, how) != 0 : !read_each(p, at, bytes))
        return false;
    (void)madvise(at, bytes, MADV_COLD);
    return true;
}

/* The next piece of a request. One of which some fails is tried page by page. */
static struct live_page_result next_piece(struct live_pager *p, struct live_page_request *r) {
    uint64_t left = r->bytes - r->begun;
    struct live_page_result result = {
        .of = r, .at = r->at + r->begun, .bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES};
    if (!bring_in(p, r, result.at, result.bytes)) {
        result.bytes = p->page_bytes;
        result.failed = !bring_in(p, r, result.at, result.bytes);
    }
    return result;
}

/* ---- the thread ---- */

static void append(struct live_pager *p, struct live_page_request *r) {
    r->next = NULL;
    *p->last = r;
    p->last = &r->next;
}

static struct live_page_request *take_first(struct live_pager *p) {
    struct live_page_request *r = p->first;
    p->first = r->next;
    if (!p->first)
        p->last = &p->first;
    return r;
}

static bool has_work(const struct live_pager *p) {
    return p->first && !p->held && p->results < RESULTS;
}

static void *page(void *context) {
    struct live_pager *p = context;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->ends && !has_work(p))
            pthread_cond_wait(&p->changed, &p->lock);
        if (p->ends)
            break;
        struct live_page_request *r = take_first(p);
        pthread_mutex_unlock(&p->lock);
        struct live_page_result result = next_piece(p, r);
        pthread_mutex_lock(&p->lock);
        r->begun += result.bytes;
        if (r->begun < r->bytes)
            append(p, r);
        p->result[p->results++] = result;
        pthread_mutex_unlock(&p->lock);
        p->wake(p->context);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- for the card ---- */

struct live_pager *live_pager_new(void (*wake)(void *context), void *context,
                                  struct live_limit *limit) {
    struct live_pager *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->wake = wake;
    p->context = context;
    p->limit = limit;
    p->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    p->populates = madvise(NULL, 0, MADV_POPULATE_WRITE) == 0;
    p->last = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    return p;
}

void live_pager_free(struct live_pager *p) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->ends = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->has_thread)
        pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

bool live_pager_ask(struct live_pager *p, struct live_page_request *r) {
    if (!p->has_thread && helper_thread_start(&p->thread, page, p) != 0)
        return false;
    p->has_thread = true;
    r->begun = r->told = 0;
    pthread_mutex_lock(&p->lock);
    append(p, r);
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return true;
}

uint32_t live_pager_take(struct live_pager *p, struct live_page_result *out, uint32_t room) {
    pthread_mutex_lock(&p->lock);
    uint32_t all = p->results, taken = all < room ? all : room;
    memcpy(out, p->result, taken * sizeof *out);
    memmove(p->result, p->result + taken, (all - taken) * sizeof *out);
    p->results = all - taken;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return taken;
}

void live_pager_hold(struct live_pager *p, bool held) {
    pthread_mutex_lock(&p->lock);
    p->held = held;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}
