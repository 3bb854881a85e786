#include "lib/test.h"

#include "base/rng.h"
#include "sim/paging.h"

#define PAGE IOMMU_PAGE
#define US   1000000ull
#define BASE (7 * IOMMU_HUGE_PAGE)

struct host {
    struct paging *p;
    struct paging_config config;
    uint64_t next_ps; /* of the tasklet */
    struct {
        struct paging_report what;
        uint64_t at_ps;
    } report[4096];
    int reports;
    uint64_t hole; /* a page that the program does not have */
};

static bool exists(void *context, uint64_t address, bool write) {
    const struct host *h = context;
    (void)write;
    return !h->hole || address / PAGE != h->hole / PAGE;
}

static void report(void *context, const struct paging_report *what, uint64_t at_ps) {
    struct host *h = context;
    CHECK(h->reports < 4096);
    h->report[h->reports].what = *what;
    h->report[h->reports++].at_ps = at_ps;
}

static struct host *make(const char *const *set, int count) {
    struct spin_error err;
    struct host *h = calloc(1, sizeof *h);
    paging_config_default(&h->config);
    h->config.memory = PAGING_DEMAND;
    for (int i = 0; i < count; i++)
        CHECK_EQ(paging_config_set(&h->config, set[i], &err), 0);
    const struct paging_calls calls = {.context = h, .exists = exists, .report = report};
    CHECK_EQ(paging_new(&h->p, &h->config, &calls, &err), 0);
    h->next_ps = PAGING_NEVER;
    return h;
}
#define MAKE(...)                                                                                  \
    make((const char *const[]){__VA_ARGS__},                                                       \
         (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static void end(struct host *h) {
    CHECK(!paging_no_memory(h->p));
    paging_free(h->p);
    free(h);
}

/* The tasklet runs when it is due, as an engine would have it. */
static void run_until(struct host *h, uint64_t now) {
    while (h->next_ps <= now)
        h->next_ps = paging_tasklet(h->p, h->next_ps);
}

static uint64_t run_dry(struct host *h) {
    uint64_t last = 0;
    while (h->next_ps != PAGING_NEVER) {
        last = h->next_ps;
        h->next_ps = paging_tasklet(h->p, h->next_ps);
    }
    return last;
}

static void fault(struct host *h, uint64_t page, uint64_t block_pages, uint64_t pages,
                  uint64_t now) {
    const struct paging_fault f = {.address = BASE + page * PAGE,
                                   .write = true,
                                   .block_bytes = block_pages * PAGE,
                                   .transfer_bytes = pages * PAGE};
    uint64_t when = paging_fault(h->p, &f, now);
    if (when != PAGING_NEVER) {
        CHECK_EQ(h->next_ps, PAGING_NEVER);
        h->next_ps = when;
    }
}

static enum iommu_answer use(struct host *h, uint64_t page, uint64_t now) {
    return paging_use(h->p, BASE + page * PAGE, 256, true, now).answer;
}

/* D3: interrupt 1, tasklet 4, get_user_pages 6 + 3, netlink 7, context switches 7, ERR 1. */
TEST(one_fault_by_its_parts) {
    struct host *h = MAKE("paging.policy=one");
    CHECK_EQ(use(h, 0, 0), IOMMU_FAULT);
    fault(h, 0, 1, 1, 0);
    fault(h, 0, 1, 1, 100); /* another packet of the same page */
    CHECK_EQ(h->next_ps, 1 * US);
    CHECK_EQ(run_dry(h), 21 * US);
    CHECK_EQ(h->reports, 1);
    CHECK_EQ(h->report[0].at_ps, 29 * US);
    CHECK_EQ(h->report[0].what.address, BASE);
    CHECK(!h->report[0].what.more && !h->report[0].what.failed);
    CHECK_EQ(paging_counts(h->p).faults, 2);
    CHECK_EQ(paging_counts(h->p).interrupts, 1);
    CHECK_EQ(paging_counts(h->p).tasklets, 1);
    end(h);
}

/* Pages are there when their turn in get_user_pages has come, long before the sender is told. */
TEST(pages_come_one_after_the_other) {
    struct host *h = MAKE("paging.policy=all");
    fault(h, 0, 4, 64, 0);
    run_until(h, 1 * US);
    for (uint64_t i = 0; i < 64; i++) {
        CHECK_EQ(paging_state(h->p, BASE + i * PAGE, (11 + 3 * (i + 1)) * US - 1), PAGE_ABSENT);
        CHECK_EQ(use(h, i, (11 + 3 * (i + 1)) * US), IOMMU_DONE);
    }
    CHECK_EQ(use(h, 64, 300 * US), IOMMU_FAULT); /* not of that transfer */
    run_dry(h);
    CHECK_EQ(h->reports, 1);
    CHECK_EQ(h->report[0].at_ps, (11 + 3 * 64 + 15) * US);
    CHECK_EQ(h->report[0].what.bytes, 64 * PAGE);
    end(h);
}

TEST(policies_bring_in_what_they_say) {
    static const struct {
        const char *policy;
        uint64_t pages;
    } rows[] = {{"paging.policy=one", 1}, {"paging.policy=block", 4}, {"paging.policy=all", 10}};
    for (int i = 0; i < 3; i++) {
        struct host *h = MAKE(rows[i].policy);
        fault(h, 2, 4, 10, 0);
        run_dry(h);
        CHECK_EQ(paging_counts(h->p).pages_in, rows[i].pages);
        CHECK_EQ(paging_state(h->p, BASE + (1 + rows[i].pages) * PAGE, 100 * US), PAGE_PRESENT);
        CHECK_EQ(paging_state(h->p, BASE + (2 + rows[i].pages) * PAGE, 100 * US), PAGE_ABSENT);
        end(h);
    }
}

/* One tasklet takes all faults that are logged; those of one block are told of at once. */
TEST(faults_are_taken_together) {
    struct host *h = MAKE("paging.policy=one");
    for (uint64_t i = 0; i < 4; i++)
        fault(h, i, 4 - i, 8 - i, 0);
    fault(h, 4, 4, 4, 0);
    run_dry(h);
    CHECK_EQ(paging_counts(h->p).tasklets, 1);
    CHECK_EQ(paging_counts(h->p).calls, 5);
    CHECK_EQ(h->reports, 2);
    CHECK_EQ(h->report[0].at_ps, (1 + 4 + 5 * 9 + 15) * US);
    CHECK_EQ(h->report[1].at_ps, (1 + 4 + 5 * 9 + 22) * US);
    CHECK_EQ(h->report[0].what.bytes, 4 * PAGE);
    end(h);
}

/* A fault during the tasklet interrupts it and is taken after it. */
TEST(later_faults_wait_for_the_tasklet) {
    struct host *h = MAKE("paging.policy=one");
    fault(h, 0, 1, 1, 0);
    run_until(h, 5 * US); /* it runs until 21 us */
    fault(h, 9, 1, 1, 5 * US);
    run_dry(h);
    CHECK_EQ(paging_counts(h->p).interrupts, 2);
    CHECK_EQ(paging_counts(h->p).tasklets, 2);
    CHECK_EQ(h->report[1].at_ps, (21 + 1 + 4 + 9 + 15) * US);
    end(h);
}

/* err=block: the sender hears of its block first, and others need not wait for the rest. */
TEST(by_blocks_others_do_not_wait) {
    struct host *h = MAKE("paging.policy=all", "paging.err=block", "paging.chunk=16");
    fault(h, 0, 4, 1000, 0);
    run_until(h, 200 * US);
    CHECK_EQ(h->reports, 1);
    CHECK_EQ(h->report[0].at_ps, (1 + 4 + 6 + 24 + 15) * US); /* the blocks under way */
    CHECK(h->report[0].what.more);
    fault(h, 5000, 1, 1, 200 * US);
    run_until(h, 400 * US);
    CHECK_EQ(h->reports, 2);
    CHECK(h->report[1].at_ps < 300 * US);
    run_dry(h);
    CHECK_EQ(h->reports, 3);
    CHECK(!h->report[2].what.more);
    CHECK_EQ(h->report[2].what.bytes, 1000 * PAGE);
    CHECK_EQ(paging_counts(h->p).pages_in, 1001);
    end(h);
    h = MAKE("paging.policy=all");
    fault(h, 0, 4, 1000, 0);
    run_until(h, 200 * US);
    fault(h, 5000, 1, 1, 200 * US);
    run_dry(h);
    CHECK(h->report[1].at_ps > 3000 * US); /* the published order makes it wait */
    end(h);
}

/* What the program does not have is an error, told and not waited for. */
TEST(no_such_page_is_an_error) {
    static const char *const errs[] = {"paging.err=late", "paging.err=block"};
    for (int i = 0; i < 2; i++) {
        struct host *h = MAKE("paging.policy=all", errs[i]);
        h->hole = BASE + 6 * PAGE;
        fault(h, 6, 4, 20, 0);
        run_dry(h);
        CHECK_EQ(h->reports, 1);
        CHECK(h->report[0].what.failed);
        CHECK_EQ(paging_counts(h->p).errors, 1);
        fault(h, 0, 4, 26,
              100 * US); /* it begins well; the hole is met when the card comes to it */
        run_dry(h);
        for (int k = 1; k < h->reports; k++)
            CHECK(!h->report[k].what.failed);
        CHECK_EQ(paging_state(h->p, BASE + 5 * PAGE, 300 * US), PAGE_PRESENT);
        CHECK_EQ(paging_state(h->p, BASE + 6 * PAGE, 300 * US), PAGE_ABSENT);
        end(h);
    }
}

/* D4. */
TEST(touch_pin_and_discard) {
    struct host *h = MAKE("paging.policy=one");
    CHECK_EQ(paging_touch(h->p, BASE + 10, 4 * PAGE - 20, 0), 12 * US);
    CHECK_EQ(use(h, 0, 3 * US - 1), IOMMU_FAULT);
    CHECK_EQ(use(h, 3, 12 * US), IOMMU_DONE);
    CHECK_EQ(paging_touch(h->p, BASE, 4 * PAGE, 20 * US), 20 * US + 400000);
    CHECK_EQ(paging_pin(h->p, BASE + 8 * PAGE, 1, 30 * US), 36 * US);
    CHECK_EQ(paging_pin(h->p, BASE, 1, 40 * US), 53 * US);
    CHECK_EQ(paging_state(h->p, BASE, 60 * US), PAGE_PINNED);
    paging_discard(h->p, BASE + 1, 3 * PAGE - 1, 60 * US); /* page 0 is not all of it */
    CHECK_EQ(paging_state(h->p, BASE, 60 * US), PAGE_PINNED);
    CHECK_EQ(use(h, 1, 60 * US), IOMMU_FAULT);
    CHECK_EQ(use(h, 2, 60 * US), IOMMU_FAULT);
    CHECK_EQ(use(h, 3, 60 * US), IOMMU_DONE);
    end(h);
    h = MAKE("paging.memory=present");
    CHECK_EQ(use(h, 77, 0), IOMMU_DONE);
    paging_discard(h->p, BASE + 77 * PAGE, PAGE, 0);
    CHECK_EQ(use(h, 77, 0), IOMMU_FAULT);
    end(h);
}

/* Too little memory: what was not used goes, what is pinned stays. */
TEST(pressure_swaps_out) {
    struct host *h = MAKE("paging.resident=8", "paging.policy=one");
    paging_pin(h->p, BASE, 2 * PAGE, 0);
    uint64_t now = paging_touch(h->p, BASE + 2 * PAGE, 10 * PAGE, 20 * US);
    CHECK_EQ(paging_counts(h->p).swapped_out, 4);
    CHECK_EQ(paging_state(h->p, BASE, now), PAGE_PINNED);
    CHECK_EQ(paging_state(h->p, BASE + 11 * PAGE, now), PAGE_PRESENT);
    uint64_t swapped = 0;
    for (uint64_t i = 0; i < 12; i++)
        if (paging_state(h->p, BASE + i * PAGE, now) == PAGE_SWAPPED) {
            swapped = i;
            CHECK_EQ(use(h, i, now), IOMMU_FAULT);
        }
    fault(h, swapped, 1, 1, now);
    run_dry(h);
    CHECK_EQ(h->report[0].at_ps, now + (29 + 100) * US); /* a read of the swap device */
    CHECK_EQ(paging_counts(h->p).swapped_in, 1);
    end(h);
}

/* 512 pages become a huge one; until they are copied the card misses them, then it reaches far. */
TEST(huge_pages_collapse) {
    struct host *h = MAKE("paging.collapse_period=5ms", "paging.policy=one");
    paging_touch(h->p, BASE, IOMMU_HUGE_PAGE, 0); /* 1.5 ms */
    CHECK_EQ(use(h, 5, 5000 * US - 1), IOMMU_DONE);
    CHECK_EQ(use(h, 5, 5000 * US), IOMMU_FAULT);
    CHECK_EQ(paging_counts(h->p).collapsed, 1);
    fault(h, 5, 1, 1, 5000 * US);
    run_dry(h);
    CHECK_EQ(h->report[0].at_ps, (5300 + 15) * US); /* when the copy is complete */
    CHECK_EQ(use(h, 5, 5300 * US), IOMMU_DONE);
    uint64_t walks = paging_iommu_counts(h->p).walks;
    for (uint64_t i = 0; i < 512; i++)
        CHECK_EQ(use(h, i, 5301 * US), IOMMU_DONE);
    CHECK_EQ(paging_iommu_counts(h->p).walks, walks); /* one translation for all */
    CHECK_EQ(use(h, 5, 99000 * US), IOMMU_DONE);      /* nothing is left to collapse */
    end(h);
}

/* Random use: every fault is answered, what the card may use is there, memory is not exceeded. */
TEST(every_fault_is_answered) {
    const char *more = getenv("OPENSPIN_SEEDS");
    uint64_t seeds = more ? strtoull(more, NULL, 10) : 40;
    static const char *const policies[] = {"paging.policy=one", "paging.policy=block",
                                           "paging.policy=all"};
    static const char *const errs[] = {"paging.err=late", "paging.err=early", "paging.err=block"};
    static const char *const limits[] = {"paging.resident=0", "paging.resident=40"};
    static const char *const periods[] = {"paging.collapse_period=0", "paging.collapse_period=3ms"};
    for (uint64_t seed = 0; seed < seeds; seed++) {
        struct rng rng = rng_seeded(seed);
        snprintf(test_context, sizeof test_context, "seed %llu", (unsigned long long)seed);
        struct host *h = MAKE(policies[seed % 3], errs[seed / 3 % 3], limits[rng_below(&rng, 2)],
                              periods[rng_below(&rng, 2)], "paging.chunk=8", "paging.fifo=3");
        uint64_t now = 0, faults = 0;
        for (int step = 0; step < 800; step++) {
            now += rng_below(&rng, 30) * US;
            run_until(h, now);
            uint64_t page = rng_below(&rng, 100), pages = 1 + rng_below(&rng, 20);
            uint64_t at = BASE + page * PAGE;
            switch (rng_below(&rng, 6)) {
            case 0:
                now = paging_touch(h->p, at, pages * PAGE, now);
                break;
            case 1:
                paging_discard(h->p, at, pages * PAGE, now);
                break;
            default: {
                uint64_t block = 4 - page % 4, told = (uint64_t)h->reports;
                if (use(h, page, now) == IOMMU_DONE) {
                    CHECK(paging_state(h->p, at, now) == PAGE_PRESENT);
                    break;
                }
                faults++;
                fault(h, page, block < pages ? block : pages, pages, now);
                if (rng_below(&rng, 3))
                    break;
                now = run_dry(h) > now ? now + 5000 * US : now;
                CHECK((uint64_t)h->reports > told);
                bool found = false;
                for (uint64_t i = told; i < (uint64_t)h->reports; i++)
                    found |= h->report[i].what.address <= at &&
                             at < h->report[i].what.address + h->report[i].what.bytes;
                CHECK(found);
                h->reports = 0;
            }
            }
        }
        CHECK(faults > 0);
        run_dry(h);
        end(h);
    }
}

TEST(parameters_are_checked) {
    struct paging_config c;
    struct spin_error err;
    struct spin_parameter row;
    paging_config_default(&c);
    CHECK_EQ(c.memory, PAGING_OFF);
    CHECK_EQ(paging_config_set(&c, "paging.policy=two", &err), SPIN_EARG);
    CHECK_STR(err.text, "paging.policy: 'two' is not one, block or all");
    CHECK_EQ(paging_config_set(&c, "paging.polcy=one", &err), SPIN_EARG);
    CHECK_EQ(paging_config_set(&c, "paging.walks=0", &err), SPIN_EARG);
    CHECK_EQ(paging_config_set(&c, "paging.netlink=2.5us", &err), 0);
    CHECK_EQ(c.netlink_ps, 2500000);
    int i = 0;
    while (paging_config_row(&c, i, &row))
        i++;
    CHECK(i > 30);
    c.bits = 40;
    struct paging *p;
    CHECK_EQ(paging_new(&p, &c, &(struct paging_calls){0}, &err), SPIN_EARG);
}

TEST_MAIN
