#include "live/live_page.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "live/live_clock.h"

#define EPOCH_NS  22  /* as a power of 2: about 4 ms */
#define QUESTIONS 256 /* between looks at the clock */
#define STRETCH   256 /* pages that mincore is asked for at once, at most, */
#define AHEAD     64  /* and at least: the call costs more than the pages */

/* ---- the table ---- */

/* A signal handler of the program's own may have replaced ours since. */
static __attribute__((noinline)) void look_at_clock(struct live_pages *p) {
    uint32_t epoch = (uint32_t)(live_now_ns() >> EPOCH_NS);
    p->questions = p->open ? 0 : QUESTIONS;
    if (epoch == p->epoch)
        return;
    p->epoch = epoch;
    *p->guarded = guarded_way();
}

/* Of what is open more has to be known than the table says, so no question is spared. */
static void count_question(struct live_pages *p) {
    if (!p->questions)
        look_at_clock(p);
    if (p->questions)
        p->questions--;
}

void live_pages_doubt(struct live_pages *p) {
    p->questions = 0;
}

static void remember(struct live_pages *p, uint64_t page) {
    p->known[page % LIVE_KNOWN] =
        page << LIVE_EPOCH_BITS | (p->epoch & ((1u << LIVE_EPOCH_BITS) - 1));
}

static inline bool is_known(const struct live_pages *p, uint64_t page) {
    uint64_t place = p->known[page % LIVE_KNOWN];
    uint32_t age = (p->epoch - (uint32_t)place) & ((1u << LIVE_EPOCH_BITS) - 1);
    return place >> LIVE_EPOCH_BITS == page && age < LIVE_EPOCHS;
}

struct stretch {
    uint64_t first, last; /* pages, the last one included */
};

static inline struct stretch stretch_of(const struct live_pages *p, const uint8_t *host,
                                        uint64_t bytes) {
    uint64_t from = (uintptr_t)host;
    return (struct stretch){from >> p->page_bits, (from + bytes - 1) >> p->page_bits};
}

static uint8_t *address_of(const struct live_pages *p, uint64_t page) {
    return (uint8_t *)(uintptr_t)(page << p->page_bits);
}

/* Fills in what is there of up to STRETCH pages; false: the process has no such memory. */
static bool ask_system(struct live_pages *p, struct stretch s, unsigned char *there) {
    uint64_t pages = s.last - s.first + 1;
    if (mincore(address_of(p, s.first), pages << p->page_bits, there) != 0)
        return errno != ENOMEM; /* then all of it is as if it was absent */
    for (uint64_t i = 0; i < pages; i++)
        if (there[i] & 1)
            remember(p, s.first + i);
    return true;
}

/* From the first page that is not known on: at least those that are wanted, more if there are such.
 * False: the process has not even those. */
static bool ask_ahead(struct live_pages *p, uint64_t first, uint64_t wanted, uint64_t *last,
                      unsigned char *there) {
    uint64_t most = first + STRETCH - 1, ahead = *last > first + AHEAD ? *last : first + AHEAD;
    struct stretch s = {first, ahead < most ? ahead : most};
    *last = s.last;
    if (ask_system(p, s, there))
        return true;
    *last = s.last = wanted < most ? wanted : most;
    return ask_system(p, s, there);
}

/* The first page of a stretch that is not known to be there, or the one behind it. */
static inline uint64_t first_unknown(const struct live_pages *p, struct stretch s) {
    while (s.first <= s.last && is_known(p, s.first))
        s.first++;
    return s.first;
}

static bool is_open(const struct live_pages *p, const uint8_t *host, uint64_t bytes) {
    for (const struct live_page_request *r = p->open; r; r = r->of)
        if (host < r->at + r->bytes && r->at + r->told < host + bytes)
            return true;
    return false;
}

uint64_t live_pages_present(struct live_pages *p, const uint8_t *host, uint64_t bytes) {
    struct stretch s = stretch_of(p, host, bytes);
    count_question(p);
    if (p->open && is_open(p, host, bytes))
        return 0;
    uint64_t absent = first_unknown(p, s);
    if (absent <= s.last) {
        unsigned char there[STRETCH];
        uint64_t last = s.last;
        ask_ahead(p, absent, s.last, &last, there);
        absent = first_unknown(p, s);
    }
    if (absent > s.last)
        return bytes;
    uint64_t until = absent << p->page_bits, from = (uintptr_t)host;
    return until > from ? until - from : 0;
}

/* ---- absent pages ---- */

/* From the first absent one of the stretch on, as many as are absent behind it. */
static enum nic_status ask_pager(struct live_pages *p, struct stretch s, bool write) {
    struct live_page_request *r = malloc(sizeof *r);
    if (!r)
        return NIC_DONE; /* whoever copies waits */
    uint64_t pages = s.last - s.first + 1;
    *r = (struct live_page_request){
        .at = address_of(p, s.first), .bytes = pages << p->page_bits, .write = write};
    if (!live_pager_ask(p->pager, r)) {
        free(r);
        return NIC_DONE;
    }
    r->of = p->open;
    p->open = r;
    p->questions = 0;
    return NIC_ABSENT;
}

/* A page or two that nobody has touched are there at once. */
static enum nic_status touch_fresh(struct live_pages *p, struct stretch s, bool write) {
    enum live_touched is =
        live_fresh_touch(&p->fresh, s.first, s.last, write, *p->guarded, p->epoch);
    if (is != LIVE_TOUCHED)
        return is == LIVE_NOT_FRESH ? NIC_ABSENT : NIC_FAULT;
    for (uint64_t page = s.first; page <= s.last; page++)
        remember(p, page);
    p->counts.paged_in += s.last - s.first + 1;
    return NIC_DONE;
}

/* Of what follows the stretch the pager brings in as much as is absent in one piece, to `wide`. */
static __attribute__((noinline)) enum nic_status look(struct live_pages *p, struct stretch s,
                                                      uint64_t wide, bool write) {
    unsigned char there[STRETCH];
    uint64_t last = wide;
    if (!ask_ahead(p, first_unknown(p, s), s.last, &last, there))
        return NIC_FAULT;
    uint64_t first = first_unknown(p, s);
    if (first > s.last)
        return NIC_DONE;
    struct stretch absents = {first, first};
    if (wide == s.last) { /* small */
        enum nic_status is = touch_fresh(p, (struct stretch){first, s.last}, write);
        if (is != NIC_ABSENT)
            return is;
    }
    while (absents.last < last && absents.last < wide && !is_known(p, absents.last + 1))
        absents.last++;
    return ask_pager(p, absents, write);
}

enum nic_status live_pages_want(struct live_pages *p, uint8_t *host, uint64_t bytes,
                                uint64_t extent, bool write) {
    struct stretch s = stretch_of(p, host, bytes);
    count_question(p);
    if (p->open && is_open(p, host, bytes))
        return NIC_ABSENT;
    if (first_unknown(p, s) > s.last)
        return NIC_DONE;
    return look(p, s, stretch_of(p, host, extent > bytes ? extent : bytes).last, write);
}

/* ---- results ---- */

static void close_request(struct live_pages *p, struct live_page_request *r) {
    struct live_page_request **at = &p->open;
    while (*at != r)
        at = &(*at)->of;
    *at = r->of;
    free(r);
}

bool live_pages_next(struct live_pages *p, struct nic_pages *pages) {
    if (p->taken == p->results) {
        p->taken = 0;
        p->results = live_pager_take(p->pager, p->result, LIVE_PAGE_RESULTS);
        if (!p->results)
            return false;
    }
    const struct live_page_result *result = &p->result[p->taken++];
    struct stretch s = stretch_of(p, result->at, result->bytes);
    look_at_clock(p);
    for (uint64_t page = s.first; page <= s.last && !result->failed; page++)
        remember(p, page);
    *(result->failed ? &p->counts.failed : &p->counts.paged_in) += s.last - s.first + 1;
    *pages =
        (struct nic_pages){.host = result->at, .bytes = result->bytes, .failed = result->failed};
    struct live_page_request *r = result->of;
    r->told += result->bytes;
    if (r->told == r->bytes)
        close_request(p, r);
    return true;
}

/* ---- making it ---- */

struct live_pages *live_pages_new(void (*wake)(void *context), void *context, enum guarded *guarded,
                                  struct live_limit *limit) {
    struct live_pages *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->page_bits = (uint32_t)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
    p->guarded = guarded;
    p->pager = live_pager_new(wake, context, limit);
    if (!p->pager) {
        free(p);
        return NULL;
    }
    live_fresh_open(&p->fresh, p->page_bits);
    look_at_clock(p);
    return p;
}

void live_pages_free(struct live_pages *p) {
    if (!p)
        return;
    live_pager_free(p->pager);
    while (p->open)
        close_request(p, p->open);
    live_fresh_close(&p->fresh);
    free(p);
}

const struct live_page_counts *live_pages_counts(const struct live_pages *p) {
    return &p->counts;
}
