/* Ranks whose memory may be absent (paging.h): between the card's moves and the host's pages. With
 * `paging.memory=off`, as worlds are by default, a rank has none of this. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sim/world_process.h"

/* ---- what the host model asks -----------------------------------------------------------------
 */

bool world_reach(const struct world_rank *r, uint64_t address, void *here, uint64_t bytes,
                 bool write) {
    struct iovec near = {here, bytes}, there = {(void *)(uintptr_t)address, bytes};
    if (r->process)
        return write ? world_process_write(r->process, address, here, bytes)
                     : world_process_read(r->process, here, address, bytes);
    ssize_t done = write ? process_vm_writev(getpid(), &near, 1, &there, 1, 0)
                         : process_vm_readv(getpid(), &near, 1, &there, 1, 0);
    if (done >= 0 || errno == EFAULT)
        return done == (ssize_t)bytes;
    if (write) /* who may not ask has to believe the program */
        memcpy(there.iov_base, here, bytes);
    else
        memcpy(here, there.iov_base, bytes);
    return true;
}

/* A page and how it is used; 0: more than one page. */
static uint64_t use_of(const struct nic_move *m) {
    uint64_t first = (uintptr_t)m->host, last = first + m->bytes - 1;
    return m->bytes && first / 4096 == last / 4096 ? first / 4096 * 2 + (m->kind != NIC_FETCH) : 0;
}

bool world_found(const struct world_rank *r, const struct nic_move *m) {
    return r->found && r->found == use_of(m) && r->found_at == r->world->watch.entries;
}

void world_find(struct world_rank *r, const struct nic_move *m) {
    r->found = use_of(m);
    r->found_at = r->world->watch.entries;
}

/* A byte is read and written again: what is in the page stays. */
static bool exists(void *context, uint64_t address, bool write) {
    uint8_t byte;
    return world_reach(context, address, &byte, 1, false) &&
           (!write || world_reach(context, address, &byte, 1, true));
}

static void report(void *context, const struct paging_report *what, uint64_t at_ps) {
    struct world_rank *r = context;
    struct spin_world *w = r->world;
    struct world_paged *paged = world_take(w, &w->paged);
    if (!paged)
        return;
    paged->what = *what;
    world_event(r, at_ps, WORLD_PAGED_EVENT, paged->slot.index, 0, 0);
}

static void note(void *context, const char *what, uint64_t start_ps, uint64_t end_ps) {
    const struct world_rank *r = context;
    world_note(r->world, r->index, world_kernel_row(r->world), what, start_ps, end_ps, 0, -1);
}

int world_paging_new(struct world_rank *r, struct spin_error *err) {
    const struct paging_calls calls = {
        .context = r, .exists = exists, .report = report, .note = note};
    if (r->params->paging.memory == PAGING_OFF)
        return SPIN_OK;
    return paging_new(&r->paging, &r->params->paging, &calls, err);
}

void world_paging_config(const struct world_params *p, struct nic_config *config) {
    static const uint8_t policies[] = {[PAGING_ERR_LATE] = NIC_ERR_LATE,
                                       [PAGING_ERR_EARLY] = NIC_ERR_EARLY,
                                       [PAGING_ERR_BLOCK] = NIC_ERR_PER_BLOCK,
                                       [PAGING_ERR_NONE] = NIC_ERR_LATE};
    if (p->paging.memory == PAGING_OFF)
        return;
    config->block_bytes = (uint32_t)p->paging.block;
    config->blocks_outstanding = (uint32_t)p->paging.blocks_outstanding;
    config->block_timeout = p->paging.timeout_ps;
    config->fault_ends_timeout = p->paging.fault_ends_timeout;
    config->err_policy = policies[p->paging.err];
}

uint64_t world_paging_start(struct world_rank *r, const struct nic_packet *packet) {
    bool is_block = packet->kind == NIC_BLOCK, is_data = packet->kind == NIC_DATA && packet->bytes;
    if (is_block ? packet->tag.place == 0 : is_data && packet->first)
        r->start_ps = r->world->now_ps + r->params->paging.start_ps;
    return is_block || is_data ? r->start_ps : 0;
}

/* ---- the card's moves -------------------------------------------------------------------------
 */

static void schedule(struct world_rank *r, uint64_t at_ps) {
    if (at_ps != PAGING_NEVER)
        world_event(r, at_ps, WORLD_TASKLET_EVENT, r->index, 0, 0);
}

static enum nic_status absent(struct world_rank *r, const struct nic_move *m,
                              const struct paging_reply *reply) {
    uint64_t host = (uintptr_t)m->host, skipped = reply->address - host;
    struct nic_extent extent = nic_move_extent(r->nic, m);
    const struct paging_fault fault = {
        .address = reply->address,
        .write = m->kind != NIC_FETCH,
        .block_bytes = extent.block_bytes - skipped,
        .transfer_bytes = extent.transfer_bytes - skipped,
        .in_order = !extent.transfer,
    };
    schedule(r, paging_fault(r->paging, &fault, reply->ready_ps));
    return NIC_ABSENT;
}

enum nic_status world_paging_move(struct world_rank *r, const struct nic_move *m,
                                  uint64_t *ready_ps) {
    struct spin_world *w = r->world;
    if (m->on_card)
        return NIC_DONE;
    uint64_t host = (uintptr_t)m->host;
    /* Small moves that wait for a page are not overtaken. */
    if (m->bytes <= NIC_ORDERED_BYTES && paging_is_held(r->paging, host, m->bytes))
        return NIC_ABSENT;
    const struct paging_reply reply =
        paging_use(r->paging, host, m->bytes, m->kind != NIC_FETCH, w->now_ps);
    if (paging_no_memory(r->paging))
        world_fail(w, SPIN_ENOMEM, "out of memory for the pages of rank %u", r->index);
    *ready_ps = reply.ready_ps;
    if (reply.answer == IOMMU_FAULT)
        return absent(r, m, &reply);
    return reply.answer == IOMMU_DONE ? NIC_DONE : NIC_FAULT;
}

void world_on_tasklet(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    struct world_rank *r = &w->rank[event->with.u32[0]];
    w->now_ps = event->at_ps;
    schedule(r, paging_tasklet(r->paging, w->now_ps));
}

void world_on_paged(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    struct world_rank *r = &w->rank[sim_object(event)];
    struct world_paged *paged = pool_at(&w->paged, event->with.u32[0]);
    const struct paging_report what = paged->what;
    w->now_ps = event->at_ps;
    pool_give(&w->paged, paged);
    paging_release(r->paging, what.address, what.bytes);
    const struct nic_pages pages = {.host = (const uint8_t *)(uintptr_t)what.address,
                                    .bytes = what.bytes,
                                    .more = what.more,
                                    .failed = what.failed};
    nic_paged_in(r->nic, &pages, w->now_ps);
    world_pump(r);
}

/* ---- the program's ----------------------------------------------------------------------------
 */

uint64_t world_paging_ask(struct world_rank *r, enum portals_memory how, uint64_t address,
                          uint64_t bytes, uint64_t at_ps) {
    if (!r->paging)
        return at_ps;
    return how == PORTALS_TOUCH ? paging_touch(r->paging, address, bytes, at_ps)
           : how == PORTALS_PIN ? paging_pin(r->paging, address, bytes, at_ps)
                                : paging_discard(r->paging, address, bytes, at_ps);
}

void world_paging_count(const struct world_rank *r, struct spin_world_counts *counts) {
    if (!r->paging)
        return;
    const struct paging_counts p = paging_counts(r->paging);
    counts->page_faults += p.faults;
    counts->fault_interrupts += p.interrupts;
    counts->pages_in += p.pages_in;
    const struct nic_counts *n = nic_counts(r->nic);
    counts->blocks += n->blocks_sent;
    counts->blocks_repeated += n->blocks_repeated;
    counts->block_timeouts += n->block_timeouts;
    counts->errs += n->errs_out;
}
