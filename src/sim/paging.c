/* Residency of a rank's memory; paging_fault.c has the way of a fault. */
#include "sim/paging_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"

static uint64_t key_of_region(const struct paging *p, uint32_t number) {
    return p->region[number]->base;
}
INDEX_TABLE(regions, struct paging, key_of_region);

/* ---- pages ------------------------------------------------------------------------------------
 */

static void no_memory(struct paging *p) {
    p->no_memory = true;
}

static uint64_t io_address(const struct paging_region *r, uint32_t page) {
    return (uint64_t)r->number * IOMMU_HUGE_PAGE + page * IOMMU_PAGE;
}

static void map_page(struct paging *p, struct paging_region *r, uint32_t page) {
    r->page[page].mapped = true;
    if (iommu_map(p->iommu, DOMAIN, io_address(r, page), p->frames++ * IOMMU_PAGE, IOMMU_WRITE))
        no_memory(p);
}

static struct paging_region *region_new(struct paging *p, uint64_t base) {
    if (!ROOM_FOR_ONE(p->region, p->regions, p->region_room, 16))
        return NULL;
    struct paging_region *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->base = base;
    r->number = p->regions;
    p->region[p->regions++] = r;
    if (!regions_add(&p->table, p, r->number)) {
        p->regions--;
        free(r);
        return NULL;
    }
    for (uint32_t i = 0; i < PAGES && p->config.memory == PAGING_PRESENT; i++) {
        r->page[i].state = PAGE_PRESENT;
        p->resident++;
        map_page(p, r, i);
    }
    return r;
}

/* The region of an address; NULL: no memory. */
static struct paging_region *region_of(struct paging *p, uint64_t address) {
    uint64_t base = address & ~(IOMMU_HUGE_PAGE - 1);
    if (p->last && p->last->base == base)
        return p->last;
    uint32_t number = regions_find(&p->table, p, base);
    struct paging_region *r = number != INDEX_NONE ? p->region[number] : region_new(p, base);
    if (!r)
        no_memory(p);
    return p->last = r;
}

struct paging_place paging_place(struct paging *p, uint64_t address) {
    struct paging_region *r = region_of(p, address);
    uint32_t page = (uint32_t)(address / IOMMU_PAGE % PAGES);
    return (struct paging_place){r, page, r ? &r->page[page] : NULL};
}

static void unmap_page(struct paging *p, struct paging_region *r, uint32_t page) {
    r->huge = false;
    r->page[page].mapped = false;
    if (iommu_unmap(p->iommu, DOMAIN, io_address(r, page)))
        no_memory(p);
}

/* After these pages of a region were unmapped. */
static void invalidate(struct paging *p, const struct paging_region *r, uint32_t page,
                       uint32_t pages) {
    bool all = p->config.invalidate_all;
    iommu_invalidate(p->iommu, DOMAIN, io_address(r, page), all ? 0 : pages * IOMMU_PAGE);
}

static bool is_in(const struct paging_page *page) {
    return page->state == PAGE_PRESENT || page->state == PAGE_PINNED;
}

/* A page that was not used since the hand last came by goes to the swap device. */
static void swap_one_out(struct paging *p, const struct paging_page *spared) {
    uint64_t places = (uint64_t)p->regions * PAGES;
    for (uint64_t steps = 0; steps < 2 * places; steps++) {
        uint64_t at = p->hand++ % places;
        struct paging_region *r = p->region[at / PAGES];
        struct paging_page *page = &r->page[at % PAGES];
        if (page->state != PAGE_PRESENT || page == spared || r->collapse_until_ps)
            continue;
        if (page->used) {
            page->used = false;
            continue;
        }
        page->state = PAGE_SWAPPED;
        p->resident--;
        p->counts.swapped_out++;
        if (page->mapped) {
            unmap_page(p, r, (uint32_t)(at % PAGES));
            invalidate(p, r, (uint32_t)(at % PAGES), 1);
        }
        return;
    }
}

void paging_bring_in(struct paging *p, struct paging_place at, uint64_t at_ps) {
    p->counts.pages_in++;
    p->counts.swapped_in += at.page->state == PAGE_SWAPPED;
    at.page->state = PAGE_PRESENT;
    at.page->used = true;
    at.page->due_ps = at_ps;
    p->resident++;
    const struct paging_due due = {at_ps, at.region->number, at.number};
    if (!dues_push(&p->due, &due))
        no_memory(p);
    if (p->config.resident && p->resident > p->config.resident)
        swap_one_out(p, at.page);
}

uint64_t paging_wait(const struct paging_place at, uint64_t at_ps) {
    uint64_t until = at.page->mapped ? at_ps : at.page->due_ps;
    if (at.region->collapse_until_ps > until)
        until = at.region->collapse_until_ps;
    return until > at_ps ? until : at_ps;
}

/* ---- what happens by itself -------------------------------------------------------------------
 */

static bool can_collapse(const struct paging_region *r) {
    if (r->huge || r->collapse_until_ps)
        return false;
    for (uint32_t i = 0; i < PAGES; i++)
        if (r->page[i].state != PAGE_PRESENT || !r->page[i].mapped)
            return false;
    return true;
}

/* The system copies 512 pages into a huge one; until that is done none of them is there. */
static bool collapse_one(struct paging *p, uint64_t at_ps) {
    for (uint32_t i = 0; i < p->regions; i++) {
        struct paging_region *r = p->region[(p->collapse_hand + i) % p->regions];
        if (!can_collapse(r))
            continue;
        p->collapse_hand = r->number + 1;
        for (uint32_t k = 0; k < PAGES; k++)
            unmap_page(p, r, k);
        invalidate(p, r, 0, PAGES);
        r->collapse_until_ps = at_ps + p->config.collapse_ps;
        const struct paging_due due = {r->collapse_until_ps, r->number, PAGES};
        if (!dues_push(&p->due, &due))
            no_memory(p);
        p->counts.collapsed++;
        return true;
    }
    return false;
}

static void collapse_ends(struct paging *p, struct paging_region *r) {
    r->collapse_until_ps = 0;
    r->huge = true;
    for (uint32_t i = 0; i < PAGES; i++) {
        r->huge &= r->page[i].state == PAGE_PRESENT;
        r->page[i].mapped = is_in(&r->page[i]);
    }
    uint64_t frame = (p->frames + PAGES - 1) / PAGES * PAGES;
    p->frames = frame + PAGES;
    if (r->huge) {
        if (iommu_map_huge(p->iommu, DOMAIN, io_address(r, 0), frame * IOMMU_PAGE, IOMMU_WRITE))
            no_memory(p);
        return;
    }
    for (uint32_t i = 0; i < PAGES; i++) /* the program has discarded some meanwhile */
        if (r->page[i].mapped)
            map_page(p, r, i);
}

static void fall_due(struct paging *p, uint64_t until_ps) {
    struct paging_due due;
    while (p->due.count && p->due.at[0].at_ps <= until_ps) {
        dues_pop(&p->due, &due);
        struct paging_region *r = p->region[due.region];
        if (due.page == PAGES)
            collapse_ends(p, r);
        else if (is_in(&r->page[due.page]) && !r->page[due.page].mapped &&
                 r->page[due.page].due_ps == due.at_ps)
            map_page(p, r, due.page);
    }
}

void paging_settle(struct paging *p, uint64_t now_ps) {
    uint64_t period = p->config.collapse_period_ps;
    while (period && p->next_collapse_ps <= now_ps) {
        fall_due(p, p->next_collapse_ps);
        if (!collapse_one(p, p->next_collapse_ps) && !p->due.count) {
            /* nothing to collapse, and nothing will be before now */
            p->next_collapse_ps += (now_ps - p->next_collapse_ps) / period * period;
        }
        p->next_collapse_ps += period;
    }
    fall_due(p, now_ps);
}

/* ---- the program's use ------------------------------------------------------------------------
 */

static uint64_t first_page(uint64_t address) {
    return address & ~(IOMMU_PAGE - 1);
}

uint64_t paging_touch(struct paging *p, uint64_t address, uint64_t bytes, uint64_t at_ps) {
    const struct paging_config *c = &p->config;
    paging_settle(p, at_ps);
    for (uint64_t a = first_page(address); bytes && a < address + bytes; a += IOMMU_PAGE) {
        struct paging_place at = paging_place(p, a);
        if (!at.page)
            break;
        at.page->used = true;
        if (is_in(at.page)) {
            at_ps = paging_wait(at, at_ps + c->touch_present_ps);
        } else {
            at_ps += c->touch_absent_ps + (at.page->state == PAGE_SWAPPED ? c->swap_in_ps : 0);
            paging_bring_in(p, at, at_ps);
        }
    }
    return at_ps;
}

uint64_t paging_pin(struct paging *p, uint64_t address, uint64_t bytes, uint64_t at_ps) {
    const struct paging_config *c = &p->config;
    bool was_there = false;
    paging_settle(p, at_ps);
    at_ps += bytes ? c->pin_call_ps : 0;
    for (uint64_t a = first_page(address); bytes && a < address + bytes; a += IOMMU_PAGE) {
        struct paging_place at = paging_place(p, a);
        if (!at.page)
            break;
        at_ps += c->pin_page_ps;
        if (is_in(at.page)) {
            at_ps = paging_wait(at, at_ps + (was_there ? 0 : c->pin_present_ps));
            was_there = true;
        } else {
            at_ps += at.page->state == PAGE_SWAPPED ? c->swap_in_ps : 0;
            paging_bring_in(p, at, at_ps);
        }
        at.page->state = PAGE_PINNED;
    }
    return at_ps;
}

uint64_t paging_discard(struct paging *p, uint64_t address, uint64_t bytes, uint64_t at_ps) {
    uint64_t end = first_page(address + bytes);
    bool was_mapped = false;
    paging_settle(p, at_ps);
    for (uint64_t a = first_page(address + IOMMU_PAGE - 1); a < end; a += IOMMU_PAGE) {
        struct paging_place at = paging_place(p, a);
        if (!at.page)
            break;
        p->resident -= is_in(at.page);
        was_mapped |= at.page->mapped;
        if (at.page->mapped)
            unmap_page(p, at.region, at.number);
        at.page->state = PAGE_ABSENT;
        if (was_mapped && (a + IOMMU_PAGE >= end || at.number == PAGES - 1)) {
            invalidate(p, at.region, 0, PAGES); /* once per region */
            was_mapped = false;
        }
    }
    return at_ps;
}

enum paging_state paging_state(struct paging *p, uint64_t address, uint64_t at_ps) {
    paging_settle(p, at_ps);
    struct paging_place at = paging_place(p, address);
    return at.page && (!is_in(at.page) || at.page->mapped) ? (enum paging_state)at.page->state
                                                           : PAGE_ABSENT;
}

/* ---- the card's -------------------------------------------------------------------------------
 */

struct paging_reply paging_use(struct paging *p, uint64_t address, uint64_t bytes, bool write,
                               uint64_t at_ps) {
    struct paging_reply reply = {.answer = IOMMU_DONE, .ready_ps = at_ps};
    uint64_t end = address + (bytes ? bytes : 1);
    paging_settle(p, at_ps);
    for (uint64_t a = address; a < end; a = first_page(a) + IOMMU_PAGE) {
        struct paging_place at = paging_place(p, a);
        if (!at.page) {
            reply.answer = IOMMU_ERROR;
            return reply;
        }
        struct iommu_reply r =
            iommu_translate(p->iommu, DOMAIN, io_address(at.region, at.number), write, at_ps);
        reply.ready_ps = r.ready_ps > reply.ready_ps ? r.ready_ps : reply.ready_ps;
        reply.answer = r.answer;
        reply.address = a;
        if (r.answer != IOMMU_DONE)
            return reply;
        at.page->used = true;
    }
    return reply;
}

/* ---- making one -------------------------------------------------------------------------------
 */

int paging_new(struct paging **out, const struct paging_config *config,
               const struct paging_calls *calls, struct spin_error *err) {
    struct paging *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for a host's page tables");
    p->config = *config;
    p->calls = *calls;
    p->next_collapse_ps = config->collapse_period_ps;
    int code = iommu_new(&p->iommu, &config->iommu, err);
    if (!code)
        code = iommu_attach(p->iommu, DOMAIN, (unsigned)config->bits, err);
    if (code)
        paging_free(p);
    else
        *out = p;
    return code;
}

void paging_free(struct paging *p) {
    if (!p)
        return;
    for (uint32_t i = 0; i < p->regions; i++)
        free(p->region[i]);
    free(p->region);
    hash_table_free(&p->table);
    free(p->due.at);
    free(p->fault);
    iommu_free(p->iommu);
    free(p);
}

struct paging_counts paging_counts(const struct paging *p) {
    return p->counts;
}

struct iommu_counts paging_iommu_counts(const struct paging *p) {
    return iommu_counts(p->iommu);
}

bool paging_no_memory(const struct paging *p) {
    return p->no_memory;
}
