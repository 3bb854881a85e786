#include "lib/test.h"

#include "base/rng.h"
#include "sim/iommu.h"

#define PAGE IOMMU_PAGE
#define HUGE IOMMU_HUGE_PAGE

/* The paper's (published.md D2), with times that can be told apart. */
static const struct iommu_config usual = {.l1_entries = 128,
                                          .l2_entries = 2048,
                                          .ways = 4,
                                          .walk_entries = 64,
                                          .walks = 16,
                                          .outstanding = 256,
                                          .banks = 16,
                                          .l1_ps = 1,
                                          .l2_ps = 10,
                                          .level_ps = 1000};

static struct iommu *make(struct iommu_config config, unsigned bits) {
    struct spin_error err;
    struct iommu *m;
    CHECK_EQ(iommu_new(&m, &config, &err), 0);
    CHECK_EQ(iommu_attach(m, 7, bits, &err), 0);
    return m;
}

#define CHECK_REPLY(reply, how, when)                                                              \
    do {                                                                                           \
        struct iommu_reply r_ = (reply);                                                           \
        CHECK_EQ(r_.answer, how);                                                                  \
        CHECK_EQ(r_.ready_ps, when);                                                               \
    } while (0)

/* Three accesses for 39-bit addresses, four for 48; one when the last table is known. */
TEST(walks_take_an_access_per_level) {
    for (unsigned bits = 39; bits <= 48; bits += 9) {
        struct iommu *m = make(usual, bits);
        unsigned levels = bits == 39 ? 3 : 4;
        CHECK_EQ(iommu_map(m, 7, 5 * PAGE, 77 * PAGE, IOMMU_WRITE), 0);
        CHECK_EQ(iommu_map(m, 7, 6 * PAGE, 78 * PAGE, IOMMU_WRITE), 0);
        struct iommu_reply r = iommu_translate(m, 7, 5 * PAGE + 17, true, 0);
        CHECK_EQ(r.answer, IOMMU_DONE);
        CHECK_EQ(r.ready_ps, 11 + levels * 1000);
        CHECK_EQ(r.physical, 77 * PAGE + 17);
        CHECK_REPLY(iommu_translate(m, 7, 6 * PAGE, true, 10000), IOMMU_DONE, 10011 + 1000);
        CHECK_REPLY(iommu_translate(m, 7, 5 * PAGE, false, 20000), IOMMU_DONE, 20001);
        CHECK_EQ(iommu_counts(m).walks, 2);
        CHECK_EQ(iommu_counts(m).short_walks, 1);
        CHECK_EQ(iommu_counts(m).l1_hits, 1);
        iommu_free(m);
    }
}

/* Who hits what is still being walked for waits for it. */
TEST(a_second_miss_joins_the_walk) {
    struct iommu *m = make(usual, 39);
    iommu_map(m, 7, 0, PAGE, IOMMU_WRITE);
    CHECK_REPLY(iommu_translate(m, 7, 0, true, 0), IOMMU_DONE, 3011);
    CHECK_REPLY(iommu_translate(m, 7, 64, true, 100), IOMMU_DONE, 3011);
    CHECK_REPLY(iommu_translate(m, 7, PAGE, true, 200), IOMMU_FAULT, 1211);
    CHECK_REPLY(iommu_translate(m, 7, PAGE + 64, true, 300), IOMMU_FAULT, 1211);
    CHECK_EQ(iommu_counts(m).walks, 2);
    CHECK_EQ(iommu_counts(m).joined, 1);
    CHECK_EQ(iommu_counts(m).faults, 2);
    iommu_free(m);
}

/* Faults are answered while others go on, and are not remembered. */
TEST(hits_under_faults) {
    struct iommu *m = make(usual, 39);
    iommu_map(m, 7, 0, PAGE, IOMMU_WRITE);
    iommu_translate(m, 7, 0, true, 0);
    CHECK_REPLY(iommu_translate(m, 7, PAGE, true, 5000), IOMMU_FAULT, 6011);
    CHECK_REPLY(iommu_translate(m, 7, 8, true, 5000), IOMMU_DONE, 5001);
    iommu_map(m, 7, PAGE, 2 * PAGE, IOMMU_WRITE); /* no invalidation: it was not there */
    CHECK_REPLY(iommu_translate(m, 7, PAGE, true, 7000), IOMMU_DONE, 8011);
    iommu_free(m);
}

TEST(errors_are_told) {
    struct iommu *m = make(usual, 39);
    iommu_map(m, 7, PAGE, PAGE, IOMMU_READ);
    CHECK_EQ(iommu_translate(m, 8, PAGE, false, 0).answer, IOMMU_ERROR); /* no such domain */
    CHECK_EQ(iommu_translate(m, 7, 1ull << 39, false, 0).answer, IOMMU_ERROR);
    CHECK_EQ(iommu_translate(m, 7, (1ull << 39) - 1, false, 0).answer, IOMMU_FAULT);
    CHECK_EQ(iommu_translate(m, 7, PAGE, false, 0).answer, IOMMU_DONE);
    CHECK_EQ(iommu_translate(m, 7, PAGE, true, 0).answer, IOMMU_ERROR);
    CHECK_EQ(iommu_translate(m, 7, PAGE, true, 99999).answer, IOMMU_ERROR); /* and from the TLB */
    CHECK_EQ(iommu_counts(m).errors, 4);
    iommu_detach(m, 7);
    CHECK_EQ(iommu_translate(m, 7, PAGE, false, 99999).answer, IOMMU_ERROR);
    iommu_free(m);
}

/* A TLB does not know what the operating system has changed, until it is told. */
TEST(stale_until_invalidated) {
    struct iommu *m = make(usual, 39);
    iommu_map(m, 7, 0, PAGE, IOMMU_WRITE);
    iommu_map(m, 7, PAGE, 9 * PAGE, IOMMU_WRITE);
    iommu_translate(m, 7, 0, true, 0);
    iommu_translate(m, 7, PAGE, true, 0);
    iommu_unmap(m, 7, 0);
    CHECK_EQ(iommu_translate(m, 7, 0, true, 10000).answer, IOMMU_DONE);
    iommu_invalidate(m, 7, 0, PAGE);
    CHECK_EQ(iommu_translate(m, 7, 0, true, 20000).answer, IOMMU_FAULT);
    CHECK_REPLY(iommu_translate(m, 7, PAGE, true, 30000), IOMMU_DONE, 30001); /* it stayed */
    iommu_invalidate(m, 7, 0, 0);
    CHECK_REPLY(iommu_translate(m, 7, PAGE, true, 40000), IOMMU_DONE, 43011);
    CHECK_EQ(iommu_counts(m).invalidations, 2);
    iommu_free(m);
}

TEST(huge_pages_reach_far_and_split) {
    struct iommu *m = make(usual, 39);
    CHECK_EQ(iommu_map_huge(m, 7, HUGE, 8 * HUGE, IOMMU_WRITE), 0);
    struct iommu_reply r = iommu_translate(m, 7, HUGE + 100 * PAGE + 3, true, 0);
    CHECK_EQ(r.ready_ps, 2011); /* a level less */
    CHECK_EQ(r.physical, 8 * HUGE + 100 * PAGE + 3);
    CHECK_REPLY(iommu_translate(m, 7, HUGE + 511 * PAGE, true, 10000), IOMMU_DONE, 10001);
    iommu_unmap(m, 7, HUGE + 100 * PAGE);
    iommu_invalidate(m, 7, HUGE + 100 * PAGE, PAGE); /* the huge entry goes, as it has that page */
    CHECK_EQ(iommu_translate(m, 7, HUGE + 100 * PAGE, true, 20000).answer, IOMMU_FAULT);
    r = iommu_translate(m, 7, HUGE + 99 * PAGE, true, 20000);
    CHECK_EQ(r.answer, IOMMU_DONE);
    CHECK_EQ(r.physical, 8 * HUGE + 99 * PAGE);
    iommu_free(m);
}

TEST(walks_and_places_are_few) {
    struct iommu_config config = usual;
    config.walks = 2;
    config.outstanding = 3;
    struct iommu *m = make(config, 39);
    for (uint64_t i = 0; i < 8; i++)
        iommu_map(m, 7, i * PAGE, PAGE, IOMMU_WRITE);
    CHECK_REPLY(iommu_translate(m, 7, 0 * PAGE, true, 0), IOMMU_DONE, 3011);
    CHECK_REPLY(iommu_translate(m, 7, 1 * PAGE, true, 0), IOMMU_DONE, 1011);
    CHECK_REPLY(iommu_translate(m, 7, 2 * PAGE, true, 0), IOMMU_DONE, 2011); /* after the second */
    /* three are outstanding: from 1011 on */
    CHECK_REPLY(iommu_translate(m, 7, 3 * PAGE, true, 0), IOMMU_DONE, 3011);
    iommu_free(m);
}

TEST(banks_are_few) {
    struct spin_error err;
    struct iommu_config config = usual;
    config.banks = 2;
    struct iommu *m = make(config, 48);
    CHECK_EQ(iommu_attach(m, 7, 48, &err), SPIN_EARG);
    CHECK_EQ(iommu_attach(m, 8, 40, &err), SPIN_EARG);
    CHECK_EQ(iommu_attach(m, 8, 39, &err), 0);
    CHECK_EQ(iommu_attach(m, 9, 39, &err), SPIN_ELIMIT);
    CHECK_STR(err.text, "no context bank for domain 9; all 2 are in use");
    iommu_detach(m, 7);
    CHECK_EQ(iommu_attach(m, 9, 39, &err), 0);
    iommu_free(m);
    config.ways = 3;
    CHECK_EQ(iommu_new(&m, &config, &err), SPIN_EARG);
    CHECK(!m);
}

/* ---- beside a plain model ---- */

/* Every structure is a list with the time of its last use. */
struct plain_entry {
    bool valid, writable, huge;
    uint32_t domain;
    uint64_t page, physical, ready_ps, used;
};

enum { PAGES = 2048, DOMAINS = 2, L1 = 6, SETS = 4, WAYS = 2, TABLES = 2, WALKS = 3, MOST = 5 };

struct plain {
    struct {
        uint64_t physical;
        bool valid, writable;
    } small[DOMAINS][PAGES];
    struct {
        uint64_t physical;
        bool valid, writable;
    } huge[DOMAINS][PAGES / 512];
    bool has_table[DOMAINS][PAGES / 512];
    struct plain_entry l1[L1], l2[SETS][WAYS], tables[TABLES];
    struct {
        uint64_t page, end_ps;
        uint32_t domain;
        struct plain_entry found;
    } walk[WALKS];
    uint64_t outstanding[MOST];
    int waiting;
    uint64_t uses;
};

static struct plain_entry *plain_find(struct plain *p, struct plain_entry *e, int n,
                                      uint32_t domain, uint64_t page, bool huge) {
    for (int i = 0; i < n; i++)
        if (e[i].valid && e[i].domain == domain && e[i].page == page && e[i].huge == huge) {
            e[i].used = ++p->uses;
            return &e[i];
        }
    return NULL;
}

static void plain_put(struct plain *p, struct plain_entry *e, int n, struct plain_entry what) {
    int oldest = 0;
    for (int i = 0; i < n; i++) {
        if (!e[i].valid) {
            oldest = i;
            break;
        }
        if (e[i].used < e[oldest].used)
            oldest = i;
    }
    what.used = ++p->uses;
    e[oldest] = what;
}

static struct plain_entry *plain_either(struct plain *p, bool second, uint32_t domain,
                                        uint64_t page) {
    for (int huge = 0; huge < 2; huge++) {
        uint64_t of = huge ? page / 512 * 512 : page;
        uint64_t set = (huge ? page / 512 : page) % SETS;
        struct plain_entry *e = second ? plain_find(p, p->l2[set], WAYS, domain, of, huge)
                                       : plain_find(p, p->l1, L1, domain, of, huge);
        if (e)
            return e;
    }
    return NULL;
}

static struct iommu_reply plain_say(const struct plain_entry *e, uint64_t address, bool write,
                                    uint64_t at) {
    struct iommu_reply r = {.answer = IOMMU_DONE, .ready_ps = at > e->ready_ps ? at : e->ready_ps};
    if (write && !e->writable)
        r.answer = IOMMU_ERROR;
    else
        r.physical = e->physical + (address - e->page * PAGE);
    return r;
}

static struct iommu_reply plain_walk(struct plain *p, uint32_t domain, uint64_t address, bool write,
                                     uint64_t at) {
    uint64_t page = address / PAGE, region = page / 512;
    int w = 0;
    for (int i = 0; i < WALKS; i++)
        if (p->walk[i].end_ps > at && p->walk[i].page == page && p->walk[i].domain == domain) {
            if (p->walk[i].found.valid)
                return plain_say(&p->walk[i].found, address, write, p->walk[i].end_ps);
            return (struct iommu_reply){.answer = IOMMU_FAULT, .ready_ps = p->walk[i].end_ps};
        }
    for (int i = 1; i < WALKS; i++)
        if (p->walk[i].end_ps < p->walk[w].end_ps)
            w = i;
    bool known = plain_find(p, p->tables, TABLES, domain, region * 512, false) != NULL;
    uint64_t accesses = known ? 1 : 3;
    struct plain_entry e = {0};
    if (p->huge[domain][region].valid) {
        accesses = known ? 1 : 2;
        e = (struct plain_entry){true,         p->huge[domain][region].writable, true, domain,
                                 region * 512, p->huge[domain][region].physical, 0,    0};
    } else if (p->has_table[domain][region]) {
        if (!known)
            plain_put(p, p->tables, TABLES,
                      (struct plain_entry){.valid = true, .domain = domain, .page = region * 512});
        if (p->small[domain][page].valid)
            e = (struct plain_entry){true, p->small[domain][page].writable, false, domain,
                                     page, p->small[domain][page].physical, 0,     0};
    }
    uint64_t start = p->walk[w].end_ps > at ? p->walk[w].end_ps : at;
    e.ready_ps = p->walk[w].end_ps = start + accesses * 1000;
    p->walk[w].page = page;
    p->walk[w].domain = domain;
    p->walk[w].found = e;
    if (!e.valid)
        return (struct iommu_reply){.answer = IOMMU_FAULT, .ready_ps = e.ready_ps};
    plain_put(p, p->l1, L1, e);
    plain_put(p, p->l2[(e.huge ? region : page) % SETS], WAYS, e);
    return plain_say(&e, address, write, e.ready_ps);
}

static struct iommu_reply plain_translate(struct plain *p, uint32_t domain, uint64_t address,
                                          bool write, uint64_t at) {
    int left = 0, first = 0;
    uint64_t asked = at;
    for (int i = 0; i < p->waiting; i++)
        if (p->outstanding[i] > at)
            p->outstanding[left++] = p->outstanding[i];
    p->waiting = left;
    if (p->waiting == MOST) {
        for (int i = 1; i < MOST; i++)
            if (p->outstanding[i] < p->outstanding[first])
                first = i;
        at = p->outstanding[first];
        p->outstanding[first] = p->outstanding[--p->waiting];
    }
    struct plain_entry *e = plain_either(p, false, domain, address / PAGE);
    struct iommu_reply r;
    if (e) {
        r = plain_say(e, address, write, at + 1);
    } else if ((e = plain_either(p, true, domain, address / PAGE))) {
        plain_put(p, p->l1, L1, *e);
        r = plain_say(e, address, write, at + 11);
    } else {
        r = plain_walk(p, domain, address, write, at + 11);
    }
    if (r.ready_ps > asked)
        p->outstanding[p->waiting++] = r.ready_ps;
    return r;
}

static void plain_drop(struct plain_entry *e, int n, uint32_t domain, uint64_t from, uint64_t to,
                       uint64_t reach) {
    for (int i = 0; i < n; i++)
        if (e[i].domain == domain && e[i].page < to && e[i].page + (e[i].huge ? 512 : reach) > from)
            e[i].valid = false;
}

static void plain_invalidate(struct plain *p, uint32_t domain, uint64_t from, uint64_t pages) {
    uint64_t to = from + pages;
    if (!pages)
        from = 0, to = PAGES;
    plain_drop(p->l1, L1, domain, from, to, 1);
    for (int s = 0; s < SETS; s++)
        plain_drop(p->l2[s], WAYS, domain, from, to, 1);
    plain_drop(p->tables, TABLES, domain, from, to, 512);
    for (int i = 0; i < WALKS; i++)
        if (p->walk[i].domain == domain && p->walk[i].page >= from && p->walk[i].page < to)
            p->walk[i].page = UINT64_MAX;
}

static void change(struct iommu *m, struct plain *p, struct rng *rng) {
    uint32_t domain = rng_below(rng, DOMAINS), page = rng_below(rng, PAGES), region = page / 512;
    uint64_t physical = (uint64_t)rng_below(rng, 1000) * HUGE;
    bool writable = rng_below(rng, 4) != 0;
    enum iommu_rights rights = writable ? IOMMU_WRITE : IOMMU_READ;
    uint32_t what = rng_below(rng, 16);
    if (what == 0) {
        CHECK_EQ(iommu_map_huge(m, (uint16_t)domain, region * HUGE, physical, rights), 0);
        p->huge[domain][region].valid = true;
        p->huge[domain][region].writable = writable;
        p->huge[domain][region].physical = physical;
        for (int i = 0; i < 512; i++)
            p->small[domain][region * 512 + i].valid = false;
    } else {
        bool unmaps = what < 4;
        CHECK_EQ(unmaps ? iommu_unmap(m, (uint16_t)domain, page * PAGE)
                        : iommu_map(m, (uint16_t)domain, page * PAGE, physical, rights),
                 0);
        if (p->huge[domain][region].valid) {
            for (uint64_t i = 0; i < 512; i++) {
                p->small[domain][region * 512 + i].valid = true;
                p->small[domain][region * 512 + i].writable = p->huge[domain][region].writable;
                p->small[domain][region * 512 + i].physical =
                    p->huge[domain][region].physical + i * PAGE;
            }
            p->huge[domain][region].valid = false;
        }
        p->has_table[domain][region] = true;
        p->small[domain][page].valid = !unmaps;
        p->small[domain][page].writable = writable;
        p->small[domain][page].physical = physical;
    }
    uint32_t pages = rng_below(rng, 8) ? 1 + rng_below(rng, 3) : 0;
    uint64_t first = what == 0 ? region * 512 : page;
    if (what == 0 && pages)
        pages = 512;
    iommu_invalidate(m, (uint16_t)domain, first * PAGE, pages * PAGE);
    plain_invalidate(p, domain, first, pages);
}

TEST(as_a_plain_model) {
    const char *more = getenv("OPENSPIN_SEEDS");
    uint64_t seeds = more ? strtoull(more, NULL, 10) : 30;
    struct plain *p = malloc(sizeof *p);
    for (uint64_t seed = 0; seed < seeds; seed++) {
        struct rng rng = rng_seeded(seed);
        struct spin_error err;
        struct iommu *m;
        const struct iommu_config config = {L1,   SETS * WAYS, WAYS, TABLES, WALKS,
                                            MOST, DOMAINS,     1,    10,     1000};
        snprintf(test_context, sizeof test_context, "seed %llu", (unsigned long long)seed);
        CHECK_EQ(iommu_new(&m, &config, &err), 0);
        memset(p, 0, sizeof *p);
        for (uint16_t d = 0; d < DOMAINS; d++)
            CHECK_EQ(iommu_attach(m, d, 39, &err), 0);
        uint64_t now = 1;
        for (int step = 0; step < 3000; step++) {
            now += rng_below(&rng, 2) ? 0 : rng_below(&rng, 1500);
            if (rng_below(&rng, 6) == 0) {
                change(m, p, &rng);
                continue;
            }
            uint32_t domain = rng_below(&rng, DOMAINS);
            uint64_t page = rng_below(&rng, 3) ? rng_below(&rng, 12) : rng_below(&rng, PAGES);
            uint64_t address = page * PAGE + rng_below(&rng, 4096);
            bool write = rng_below(&rng, 2);
            struct iommu_reply ours = iommu_translate(m, (uint16_t)domain, address, write, now);
            struct iommu_reply theirs = plain_translate(p, domain, address, write, now);
            CHECK_EQ(ours.answer, theirs.answer);
            CHECK_EQ(ours.ready_ps, theirs.ready_ps);
            CHECK_EQ(ours.physical, theirs.physical);
        }
        CHECK(iommu_counts(m).joined > 0 && iommu_counts(m).l2_hits > 0 &&
              iommu_counts(m).short_walks > 0 && iommu_counts(m).errors > 0);
        iommu_free(m);
    }
    free(p);
}

TEST_MAIN
