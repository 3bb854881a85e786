/* page-live FD: windows over memory that is not pinned, as three ranks on live cards, started by
 * `openspin experiment part/unpinned --live`. FD is the memory of page_live.h. Rank 0 has the
 * windows, rank 1 sends what is measured, rank 2 is the other flow. */
#include "page_live.h"

#include <fcntl.h>
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE        4096u
#define PASS        (64ull << 20) /* of the other flow, between two times that memory is let go */
#define PASS_FILE   (16ull << 20)
#define PASS_PROBE  (256ull << 10) /* for each measurement, at most */
#define SMALL       8u
#define WINDOW_PUTS 256u
#define WINDOW_PUT  4096u
#define PAUSE_US    20u

enum { TO_SMALL, TO_WINDOW, TO_SIGNAL, ENTRIES };

struct rank {
    struct page_live_plan *plan;
    uint32_t rank;
    ptl_handle_ni_t ni;
    ptl_handle_ct_t arrived[ENTRIES], acked;
    uint64_t seen[ENTRIES], sent;
    ptl_handle_md_t md;
    uint8_t *source, small[64];
    double *took; /* us, of all measurements of a row */
    uint32_t count, room;
};

static void need(int code, const char *what) {
    if (code == PTL_OK)
        return;
    fprintf(stderr, "page-live: %s: %s\n", what, PtlToStr(code, PTL_STR_ERROR));
    exit(1);
}
#define NEED(call) need(call, #call)

static void *need_memory(void *memory) {
    need(memory && memory != MAP_FAILED ? PTL_OK : PTL_NO_SPACE, "memory");
    return memory;
}

/* ---- Portals ---- */

static ptl_handle_le_t append(struct rank *r, ptl_pt_index_t pt, void *start, uint64_t bytes) {
    const ptl_le_t le = {.start = start,
                         .length = bytes,
                         .ct_handle = r->arrived[pt],
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM |
                                    PTL_LE_EVENT_LINK_DISABLE | PTL_LE_EVENT_COMM_DISABLE};
    ptl_handle_le_t handle;
    NEED(PtlLEAppend(r->ni, pt, &le, PTL_PRIORITY_LIST, NULL, &handle));
    return handle;
}

/* The last message may not have been acknowledged yet. */
static void unlink_entry(ptl_handle_le_t le) {
    int code;
    while ((code = PtlLEUnlink(le)) == PTL_IN_USE)
        ;
    need(code, "PtlLEUnlink");
}

static void open_rank(struct rank *r) {
    r->rank = spin_rank();
    NEED(PtlInit());
    NEED(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                   &r->ni));
    NEED(spin_map_ranks(r->ni));
    NEED(PtlCTAlloc(r->ni, &r->acked));
    for (ptl_pt_index_t pt = 0; pt < ENTRIES; pt++) {
        ptl_pt_index_t got;
        NEED(PtlPTAlloc(r->ni, 0, PTL_EQ_NONE, pt, &got));
        NEED(PtlCTAlloc(r->ni, &r->arrived[pt]));
    }
    append(r, TO_SMALL, r->small, sizeof r->small);
    append(r, TO_SIGNAL, r->small, sizeof r->small);
    uint64_t bytes = PAGE;
    for (uint32_t i = 0; i < r->plan->rows && r->rank; i++)
        if (r->plan->row[i].what != PAGE_LIVE_WINDOW && r->plan->row[i].bytes > bytes)
            bytes = (r->plan->row[i].bytes + PAGE - 1) / PAGE * PAGE;
    r->source = need_memory(aligned_alloc(PAGE, bytes));
    memset(r->source, (int)r->rank, bytes);
    const ptl_md_t md = {.start = r->source,
                         .length = bytes,
                         .options = PTL_MD_EVENT_CT_ACK,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = r->acked};
    NEED(PtlMDBind(r->ni, &md, &r->md));
}

static void put(struct rank *r, uint32_t to, ptl_pt_index_t pt, uint64_t bytes, uint64_t at) {
    NEED(PtlPut(r->md, 0, bytes, PTL_CT_ACK_REQ, (ptl_process_t){.rank = to}, pt, 0, at, NULL, 0));
    r->sent++;
}

/* Until all but so many of our puts are acknowledged. */
static void settle(struct rank *r, uint64_t but) {
    ptl_ct_event_t event;
    if (r->sent <= but)
        return;
    NEED(PtlCTWait(r->acked, r->sent - but, &event));
    need(event.failure ? PTL_FAIL : PTL_OK, "a put");
}

static void await(struct rank *r, ptl_pt_index_t pt, uint64_t more) {
    ptl_ct_event_t event;
    r->seen[pt] += more;
    NEED(PtlCTWait(r->arrived[pt], r->seen[pt], &event));
    need(event.failure ? PTL_FAIL : PTL_OK, "what arrives");
}

static void signal_to(struct rank *r, uint32_t to) {
    put(r, to, TO_SIGNAL, 0, 0);
}

/* ---- measurements ---- */

static void took(struct rank *r, uint64_t began_ps) {
    if (r->count < r->room)
        r->took[r->count++] = (double)(spin_now_ps() - began_ps) * 1e-6;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void begin_row(struct rank *r, const struct page_live_row *row) {
    r->room = row->times;
    r->count = 0;
    r->took = need_memory(malloc(row->times * sizeof *r->took));
}

static void end_row(struct rank *r, struct page_live_row *row) {
    if (r->count) {
        qsort(r->took, r->count, sizeof *r->took, compare);
        row->median_us = r->took[r->count / 2];
        row->p99_us = r->took[r->count * 99 / 100];
        row->max_us = r->took[r->count - 1];
        row->measured = r->count;
    }
    free(r->took);
}

/* ---- windows ---- */

struct window {
    uint8_t *at;
    uint64_t bytes;
    int fd;
};

static int file_of(uint64_t bytes) {
    char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/openspin-page-XXXXXX", folder ? folder : "/var/tmp");
    int fd = mkstemp(path);
    if (fd < 0)
        return -1;
    unlink(path);
    uint8_t *some = need_memory(malloc(1 << 20));
    memset(some, 7, 1 << 20);
    for (uint64_t done = 0; done < bytes; done += 1 << 20)
        if (write(fd, some, 1 << 20) != 1 << 20) {
            close(fd);
            fd = -1;
            break;
        }
    free(some);
    return fd;
}

/* at NULL: this machine has no such memory. */
static struct window window_new(uint32_t memory, uint64_t bytes) {
    struct window w = {.bytes = bytes, .fd = -1};
    if (memory == PAGE_LIVE_FILE && (w.fd = file_of(bytes)) < 0)
        return w;
    w.at = need_memory(mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            w.fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                            w.fd, 0));
    return w;
}

static void window_free(struct window *w) {
    if (w->at)
        munmap(w->at, w->bytes);
    if (w->fd >= 0)
        close(w->fd);
    *w = (struct window){.fd = -1};
}

static uint64_t window_resident(const struct window *w) {
    uint64_t pages = w->bytes / PAGE, there = 0;
    unsigned char *is = need_memory(malloc(pages));
    if (mincore(w->at, w->bytes, is) == 0)
        for (uint64_t i = 0; i < pages; i++)
            there += is[i] & 1;
    free(is);
    return there * PAGE;
}

static void touch(struct window *w) {
    for (uint64_t i = 0; i < w->bytes; i += PAGE)
        *(volatile uint8_t *)(w->at + i) = 1;
}

/* Before messages come. False: this machine cannot. */
static bool window_prepare(struct window *w, uint32_t memory) {
    switch (memory) {
    case PAGE_LIVE_FILE: /* written back, then neither mapped nor in the cache */
        fdatasync(w->fd);
        madvise(w->at, w->bytes, MADV_DONTNEED);
        posix_fadvise(w->fd, 0, 0, POSIX_FADV_DONTNEED);
        return window_resident(w) < w->bytes / 2;
    case PAGE_LIVE_SWAP:
        touch(w);
        madvise(w->at, w->bytes, MADV_PAGEOUT);
        return window_resident(w) < w->bytes / 2;
    case PAGE_LIVE_FRESH:
        madvise(w->at, w->bytes, MADV_DONTNEED);
        return true;
    case PAGE_LIVE_WARM:
    case PAGE_LIVE_TOUCH:
        touch(w);
        return true;
    case PAGE_LIVE_LOCK:
        return mlock(w->at, w->bytes) == 0;
    default:
        return true;
    }
}

/* ---- another flow through the same card ---- */

/* Messages after each other, each into another place. */
static uint64_t pass_bytes(const struct page_live_row *row) {
    uint64_t most = row->memory == PAGE_LIVE_FILE ? PASS_FILE : PASS;
    uint64_t bytes = row->times * PASS_PROBE < most ? row->times * PASS_PROBE : most;
    return bytes < row->bytes ? row->bytes : bytes / row->bytes * row->bytes;
}

static void delay_receive(struct rank *r, struct page_live_row *row) {
    struct window w = window_new(row->memory, pass_bytes(row));
    ptl_handle_le_t le = 0;
    if (w.at)
        le = append(r, TO_WINDOW, w.at, w.bytes);
    do {
        bool can = w.at && window_prepare(&w, row->memory);
        atomic_store(&r->plan->enough, !can);
        atomic_store(&r->plan->writing, row->memory != PAGE_LIVE_NOBODY);
        spin_barrier();
        if (can)
            await(r, TO_SIGNAL, 1); /* of rank 1; meanwhile we drive the card */
        spin_barrier();
    } while (!atomic_load(&r->plan->enough));
    if (w.at)
        unlink_entry(le);
    window_free(&w);
    ptl_ct_event_t event;
    NEED(PtlCTGet(r->arrived[TO_WINDOW], &event));
    r->seen[TO_WINDOW] = event.success;
}

static void delay_probe(struct rank *r, struct page_live_row *row) {
    begin_row(r, row);
    for (bool enough = false; !enough;) {
        spin_barrier();
        if (!atomic_load(&r->plan->enough)) {
            for (uint32_t i = 0; atomic_load(&r->plan->writing) ||
                                 (row->memory == PAGE_LIVE_NOBODY && i < row->times);
                 i++) {
                uint64_t began = spin_now_ps();
                put(r, 0, TO_SMALL, SMALL, 0);
                settle(r, 0);
                took(r, began);
                usleep(PAUSE_US);
            }
            signal_to(r, 0);
            settle(r, 0);
            atomic_store(&r->plan->enough, r->count == r->room);
        }
        spin_barrier();
        enough = atomic_load(&r->plan->enough);
    }
    end_row(r, row);
}

static void delay_write(struct rank *r, const struct page_live_row *row) {
    for (bool enough = false; !enough;) {
        spin_barrier();
        if (!atomic_load(&r->plan->enough) && row->memory != PAGE_LIVE_NOBODY) {
            for (uint64_t at = 0; at < pass_bytes(row); at += row->bytes) {
                put(r, 0, TO_WINDOW, row->bytes, at);
                settle(r, 1);
            }
            settle(r, 0);
            atomic_store(&r->plan->writing, 0);
        }
        spin_barrier();
        enough = atomic_load(&r->plan->enough);
    }
}

static void delay(struct rank *r, struct page_live_row *row) {
    if (r->rank == 0)
        delay_receive(r, row);
    else if (r->rank == 1)
        delay_probe(r, row);
    else
        delay_write(r, row);
}

/* ---- first use ---- */

/* From before the window is made ready for the card until its data is there, and the window may be
 * given up. */
static void first_receive(struct rank *r, struct page_live_row *row) {
    begin_row(r, row);
    bool counted = row->memory == PAGE_LIVE_TOUCH || row->memory == PAGE_LIVE_LOCK;
    for (uint32_t i = 0; i < row->times; i++) {
        struct window w = window_new(row->memory, row->bytes);
        bool can = counted || (w.at && window_prepare(&w, row->memory));
        uint64_t began = spin_now_ps();
        can = can && (!counted || window_prepare(&w, row->memory));
        ptl_handle_le_t le = append(r, TO_WINDOW, w.at, w.bytes);
        signal_to(r, 1);
        await(r, TO_WINDOW, 1);
        if (row->memory == PAGE_LIVE_LOCK)
            munlock(w.at, w.bytes);
        if (can)
            took(r, began);
        unlink_entry(le);
        window_free(&w);
    }
    end_row(r, row);
}

static void first_send(struct rank *r, const struct page_live_row *row) {
    for (uint32_t i = 0; i < row->times; i++) {
        await(r, TO_SIGNAL, 1);
        put(r, 0, TO_WINDOW, row->bytes, 0);
    }
    settle(r, 0);
}

static void first(struct rank *r, struct page_live_row *row) {
    if (r->rank == 0)
        first_receive(r, row);
    else if (r->rank == 1)
        first_send(r, row);
    spin_barrier();
}

/* ---- a large window, little of which is used ---- */

static void window_receive(struct rank *r, struct page_live_row *row) {
    struct window w = window_new(PAGE_LIVE_FRESH, row->bytes);
    begin_row(r, row);
    uint64_t began = spin_now_ps();
    bool can = window_prepare(&w, row->memory);
    row->prepare_us = (double)(spin_now_ps() - began) * 1e-6;
    ptl_handle_le_t le = append(r, TO_WINDOW, w.at, w.bytes);
    began = spin_now_ps();
    signal_to(r, 1);
    await(r, TO_WINDOW, WINDOW_PUTS);
    if (can)
        took(r, began);
    row->resident = window_resident(&w);
    end_row(r, row);
    unlink_entry(le);
    window_free(&w);
}

static void window_send(struct rank *r, const struct page_live_row *row) {
    uint64_t random = 88172645463325252ull;
    await(r, TO_SIGNAL, 1);
    for (uint32_t i = 0; i < WINDOW_PUTS; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        put(r, 0, TO_WINDOW, WINDOW_PUT, (random >> 20) % (row->bytes / PAGE) * PAGE);
        settle(r, 8);
    }
    settle(r, 0);
}

static void window(struct rank *r, struct page_live_row *row) {
    if (r->rank == 0)
        window_receive(r, row);
    else if (r->rank == 1)
        window_send(r, row);
    spin_barrier();
}

int main(int argc, char **argv) {
    static void (*const cases[])(struct rank *, struct page_live_row *) = {
        [PAGE_LIVE_DELAY] = delay, [PAGE_LIVE_FIRST] = first, [PAGE_LIVE_WINDOW] = window};
    struct rank r = {0};
    r.plan = argc == 2
                 ? mmap(NULL, sizeof *r.plan, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0)
                 : MAP_FAILED;
    if (r.plan == MAP_FAILED) {
        fprintf(stderr, "page-live: this is a part of `openspin experiment --live`\n");
        return 2;
    }
    setenv("OPENSPIN_PAGING", r.plan->paging, 1);
    open_rank(&r);
    spin_barrier();
    for (uint32_t i = 0; i < r.plan->rows; i++)
        cases[r.plan->row[i].what](&r, &r.plan->row[i]);
    spin_barrier();
    PtlNIFini(r.ni);
    PtlFini();
    return 0;
}
