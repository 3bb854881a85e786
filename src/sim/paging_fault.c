/* The way of a fault (published.md D3): the card logs it and interrupts; the interrupt schedules a
 * tasklet, which takes what was logged, brings pages in by get_user_pages, and tells a program by
 * netlink, which has the card ask the sender again. Interrupts while the tasklet runs delay it. */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "sim/paging_private.h"

static void note(struct paging *p, const char *what, uint64_t start_ps, uint64_t end_ps) {
    if (p->calls.note && end_ps > start_ps)
        p->calls.note(p->calls.context, what, start_ps, end_ps);
}

static uint64_t page_of(uint64_t address) {
    return address & ~(IOMMU_PAGE - 1);
}

/* Many packets meet the same page. */
static bool is_logged(const struct paging *p, const struct paging_fault *fault) {
    for (uint32_t i = p->fault_first; i < p->faults; i++)
        if (page_of(p->fault[i].fault.address) == page_of(fault->address) &&
            p->fault[i].fault.write == fault->write)
            return true;
    return false;
}

static bool log_fault(struct paging *p, const struct paging_fault *fault, uint64_t at_ps) {
    if (p->fault_first) {
        p->faults -= p->fault_first;
        memmove(p->fault, p->fault + p->fault_first, p->faults * sizeof *p->fault);
        p->fault_first = 0;
    }
    if (!ROOM_FOR_ONE(p->fault, p->faults, p->fault_room, 16))
        return false;
    p->fault[p->faults++] = (struct paging_logged){*fault, at_ps};
    return true;
}

/* True: it was not so. */
static bool hold(struct paging *p, uint64_t address, bool held) {
    struct paging_place at = paging_place(p, address);
    bool changes = at.page && at.page->held != held;
    if (changes)
        at.page->held = held;
    return changes;
}

bool paging_is_held(struct paging *p, uint64_t address, uint64_t bytes) {
    uint64_t end = address + (bytes ? bytes : 1);
    if (!p->holds)
        return false;
    for (uint64_t a = page_of(address); a < end; a += IOMMU_PAGE) {
        struct paging_place at = paging_place(p, a);
        if (at.page && at.page->held)
            return true;
    }
    return false;
}

void paging_release(struct paging *p, uint64_t address, uint64_t bytes) {
    for (uint64_t a = page_of(address); p->holds && a < address + bytes; a += IOMMU_PAGE)
        if (hold(p, a, false))
            p->holds--;
}

uint64_t paging_fault(struct paging *p, const struct paging_fault *fault, uint64_t at_ps) {
    bool interrupts = p->fault_first == p->faults;
    p->counts.faults++;
    if (fault->in_order && hold(p, fault->address, true))
        p->holds++;
    if (is_logged(p, fault))
        return PAGING_NEVER;
    if (!log_fault(p, fault, at_ps)) {
        p->no_memory = true;
        return PAGING_NEVER;
    }
    if (!interrupts)
        return PAGING_NEVER;
    p->counts.interrupts++;
    note(p, "interrupt", at_ps, at_ps + p->config.interrupt_ps);
    if (p->tasklet) {
        p->stolen_ps += p->config.interrupt_ps;
        return PAGING_NEVER;
    }
    p->tasklet = true;
    return at_ps + p->config.interrupt_ps;
}

/* ---- the tasklet ------------------------------------------------------------------------------
 */

static bool exists(const struct paging *p, uint64_t address, bool write) {
    return !p->calls.exists || p->calls.exists(p->calls.context, address, write);
}

struct told {
    struct paging_fault fault; /* the first address */
    uint64_t bytes;            /* 0: the program has no such page */
    uint64_t block_end;
};

/* Brings in the pages of [from, from + *bytes) and returns when it is over. It ends early, with
 * fewer bytes, at a page that the program does not have. */
static uint64_t get_user_pages(struct paging *p, uint64_t from, uint64_t *bytes, bool write,
                               uint64_t at_ps) {
    const struct paging_config *c = &p->config;
    uint64_t start = at_ps, end = from + *bytes;
    p->counts.calls++;
    at_ps += c->gup_call_ps;
    for (uint64_t a = page_of(from); a < end; a += IOMMU_PAGE) {
        struct paging_place at = paging_place(p, a);
        if (!at.page || !exists(p, a, write)) {
            *bytes = a > from ? a - from : 0;
            break;
        }
        if (at.page->state == PAGE_PRESENT || at.page->state == PAGE_PINNED) {
            at_ps = paging_wait(at, at_ps);
        } else {
            at_ps += c->gup_page_ps + (at.page->state == PAGE_SWAPPED ? c->swap_in_ps : 0);
            paging_bring_in(p, at, at_ps);
        }
    }
    note(p, "get_user_pages", start, at_ps);
    return at_ps;
}

/* What a fault brings in by the policy. */
static uint64_t wanted(const struct paging *p, const struct paging_fault *f) {
    uint64_t bytes = p->config.policy == PAGING_BLOCK ? f->block_bytes
                     : p->config.policy == PAGING_ALL ? f->transfer_bytes
                                                      : 1;
    return bytes ? bytes : 1;
}

static void report(struct paging *p, const struct paging_fault *f, uint64_t bytes, bool more,
                   uint64_t at_ps) {
    uint64_t from = page_of(f->address), end = f->address + (bytes ? bytes : 1) + IOMMU_PAGE - 1;
    const struct paging_report r = {
        .address = from, .bytes = page_of(end) - from, .more = more, .failed = bytes == 0};
    bool nobody = p->config.err == PAGING_ERR_NONE && !f->in_order && !r.failed;
    if (nobody)
        return;
    p->counts.reports++;
    p->counts.errors += r.failed;
    p->calls.report(p->calls.context, &r, at_ps);
}

/* Through netlink to the program that calls the card. The tasklet goes on after netlink. */
static uint64_t tell(struct paging *p, const struct paging_fault *f, uint64_t bytes, bool more,
                     uint64_t at_ps) {
    const struct paging_config *c = &p->config;
    uint64_t sent = at_ps + c->netlink_ps, asked = sent + c->switch_ps;
    note(p, "netlink", at_ps, sent);
    note(p, "context switches", sent, asked);
    note(p, "ERR", asked, asked + c->err_call_ps);
    report(p, f, bytes, more, asked + c->err_call_ps);
    return sent;
}

static bool is_in(struct paging *p, uint64_t address) {
    struct paging_place at = paging_place(p, address);
    return at.page && (at.page->state == PAGE_PRESENT || at.page->state == PAGE_PINNED);
}

/* What is told at once: one fault, or those of one block, or what one call has brought in. */
static bool joins(const struct told *t, const struct paging_fault *f, uint64_t got) {
    bool is_inside = f->address >= t->fault.address && f->address < t->fault.address + t->bytes;
    bool is_same_block = f->address + f->block_bytes == t->block_end && f->block_bytes;
    return t->bytes && got && (is_inside || is_same_block);
}

/* All pages of all faults that were logged, and then what is to be told. */
static uint64_t take_all(struct paging *p, uint32_t count, uint64_t at_ps) {
    struct told told[PAGING_FIFO];
    uint32_t tells = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct paging_fault f = p->fault[p->fault_first + i].fault;
        uint64_t got = wanted(p, &f);
        if (is_in(p, f.address)) /* with one before it, or by the program */
            at_ps = paging_wait(paging_place(p, f.address), at_ps);
        else
            at_ps = get_user_pages(p, f.address, &got, f.write, at_ps);
        uint32_t k = 0;
        while (k < tells && !joins(&told[k], &f, got))
            k++;
        if (k == tells)
            told[tells++] = (struct told){f, got, f.address + f.block_bytes};
        else if (f.address < told[k].fault.address) {
            told[k].bytes += told[k].fault.address - f.address;
            told[k].fault.address = f.address;
        } else if (f.address + got > told[k].fault.address + told[k].bytes)
            told[k].bytes = f.address + got - told[k].fault.address;
    }
    p->fault_first += count;
    for (uint32_t k = 0; k < tells; k++)
        at_ps = tell(p, &told[k].fault, told[k].bytes, false, at_ps);
    return at_ps;
}

/* Whether the sender was told of that page after its fault. */
static bool is_told(const struct paging *p, const struct paging_logged *l) {
    for (uint32_t i = 0; i < p->aheads; i++) {
        const struct paging_ahead *a = &p->ahead[i];
        if (l->fault.address >= page_of(a->fault.address) && l->fault.address < a->told_end &&
            l->at_ps <= a->at_ps)
            return true;
    }
    return false;
}

/* What is brought in before the sender is told: the blocks that it has under way, so that those
 * that follow are there before they come. */
static uint64_t at_once(const struct paging *p, const struct paging_fault *f, uint64_t all) {
    uint64_t bytes = f->block_bytes + (p->config.blocks_outstanding - 1) * p->config.block;
    return p->config.policy == PAGING_ALL && f->block_bytes && bytes < all ? bytes : all;
}

/* err=block: the sender is told when its blocks under way are there; the rest of the transfer comes
 * after that, by chunks, so that faults of others do not wait for all of it. */
static uint64_t take_blocks(struct paging *p, uint32_t count, uint64_t at_ps) {
    for (uint32_t i = 0; i < count; i++) {
        const struct paging_logged l = p->fault[p->fault_first + i];
        const struct paging_fault *f = &l.fault;
        if (is_told(p, &l))
            continue;
        uint64_t all = wanted(p, f), bytes = at_once(p, f, all), got = bytes;
        at_ps = get_user_pages(p, f->address, &got, f->write, at_ps);
        bool more = got == bytes && bytes < all && p->aheads < PAGING_AHEAD;
        if (more)
            p->ahead[p->aheads++] = (struct paging_ahead){*f, f->address + bytes, all - bytes,
                                                          page_of(f->address + bytes), at_ps};
        at_ps = tell(p, f, got, more, at_ps);
    }
    p->fault_first += count;
    return at_ps;
}

static uint64_t take_chunk(struct paging *p, uint64_t at_ps) {
    struct paging_ahead *a = &p->ahead[0];
    uint64_t most = p->config.chunk * IOMMU_PAGE;
    uint64_t bytes = a->bytes < most ? a->bytes : most, got = bytes;
    at_ps = get_user_pages(p, a->from, &got, a->fault.write, at_ps);
    a->from += got;
    a->bytes -= bytes;
    if (got == bytes && a->bytes)
        return at_ps;
    /* what is missing, if anything is, the card will miss when it comes to it */
    report(p, &a->fault, a->from - a->fault.address, false, at_ps);
    memmove(a, a + 1, --p->aheads * sizeof *a);
    return at_ps;
}

uint64_t paging_tasklet(struct paging *p, uint64_t at_ps) {
    uint32_t waiting = p->faults - p->fault_first;
    uint32_t most = p->config.fifo < PAGING_FIFO ? (uint32_t)p->config.fifo : PAGING_FIFO;
    paging_settle(p, at_ps);
    if (p->stolen_ps) {
        at_ps += p->stolen_ps;
        p->stolen_ps = 0;
        return at_ps;
    }
    if (!waiting && !p->aheads) {
        p->tasklet = false;
        return PAGING_NEVER;
    }
    bool ahead = p->aheads && (!waiting || p->is_their_turn);
    p->is_their_turn = !ahead;
    if (ahead)
        return take_chunk(p, at_ps);
    p->counts.tasklets++;
    note(p, "tasklet", at_ps, at_ps + p->config.tasklet_ps);
    at_ps += p->config.tasklet_ps;
    waiting = waiting < most ? waiting : most;
    return p->config.err == PAGING_ERR_BLOCK ? take_blocks(p, waiting, at_ps)
                                             : take_all(p, waiting, at_ps);
}
