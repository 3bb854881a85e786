/* The memory of a rank as its host has it: which pages are there, what its program and the
 * operating system do to them, and what it takes to bring one in that the card has missed
 * (published.md D3, D4).
 *
 *     paging_use(p, address, bytes, write, now)   the card is about to: done, fault or error
 *     paging_fault(p, &fault, now)                the card keeps a fault for the tasklet
 *     paging_tasklet(p, now)                      at the time that these two return
 *
 * Nothing here knows the engine: calls come in order of time, and what will happen later without
 * further calls (a page that is there when its turn in get_user_pages has come, a huge page whose
 * copy is complete) is kept with its time and done by the next call after it.
 *
 * Addresses are the program's. The IOMMU sees each region of 2 MiB of them, in the order in which
 * they were first used, so that no time depends on where a system puts its mappings. */
#ifndef SPIN_SIM_PAGING_H
#define SPIN_SIM_PAGING_H

#include "sim/iommu.h"

#define PAGING_FIFO 64 /* the most that one tasklet may take */

enum paging_memory { PAGING_OFF, PAGING_DEMAND, PAGING_PRESENT };
enum paging_policy { PAGING_ONE, PAGING_BLOCK, PAGING_ALL };
/* When the sender is asked for a block again: once all pages of a fault are there (the paper's
 * way), at once, when those of the block are, or not at all, so that a timeout is waited for. */
enum paging_err { PAGING_ERR_LATE, PAGING_ERR_EARLY, PAGING_ERR_BLOCK, PAGING_ERR_NONE };

struct paging_config {
    uint64_t memory, policy, err; /* of the enumerations above */
    /* Of the card. */
    uint64_t block, blocks_outstanding, timeout_ps, fault_ends_timeout, start_ps;
    uint64_t bits, invalidate_all;
    uint64_t fifo, interrupt_ps, tasklet_ps, gup_call_ps, gup_page_ps, netlink_ps, switch_ps,
        err_call_ps, chunk;
    uint64_t touch_absent_ps, touch_present_ps, pin_call_ps, pin_page_ps, pin_present_ps;
    uint64_t resident, swap_in_ps, collapse_period_ps, collapse_ps;
    struct iommu_config iommu;
};

void paging_config_default(struct paging_config *to);
int paging_config_set(struct paging_config *to, const char *assignment, struct spin_error *err);
bool paging_config_row(const struct paging_config *of, int i, struct spin_parameter *row);

enum paging_state { PAGE_ABSENT, PAGE_PRESENT, PAGE_PINNED, PAGE_SWAPPED };

/* What a card could not use, with what its block and its transfer need from there on. */
struct paging_fault {
    uint64_t address; /* the byte that is not there */
    bool write;
    uint64_t block_bytes, transfer_bytes;
    bool in_order; /* whoever waits for it is not to be overtaken: the page is held */
};

/* Whole pages that are there, for a card that waits for some of them; `more`: what was begun for
 * the same fault goes on; `failed`: the program has no such page, or may not write to it. */
struct paging_report {
    uint64_t address, bytes;
    bool more, failed;
};

struct paging_calls {
    void *context;
    /* Whether the program has such a page; NULL: every one. */
    bool (*exists)(void *context, uint64_t address, bool write);
    /* To be handed to the card at that time, now or later. */
    void (*report)(void *context, const struct paging_report *report, uint64_t at_ps);
    /* For pictures, or NULL. */
    void (*note)(void *context, const char *what, uint64_t start_ps, uint64_t end_ps);
};

struct paging_counts {
    uint64_t faults;
    uint64_t interrupts, tasklets, calls; /* calls: of get_user_pages */
    uint64_t pages_in, reports, errors;
    uint64_t swapped_in, swapped_out, collapsed;
};

struct paging;

int paging_new(struct paging **out, const struct paging_config *config,
               const struct paging_calls *calls, struct spin_error *err);
void paging_free(struct paging *p);

/* The program's: each returns the time at which it is over. Only whole pages are discarded. */
uint64_t paging_touch(struct paging *p, uint64_t address, uint64_t bytes, uint64_t at_ps);
uint64_t paging_pin(struct paging *p, uint64_t address, uint64_t bytes, uint64_t at_ps);
uint64_t paging_discard(struct paging *p, uint64_t address, uint64_t bytes, uint64_t at_ps);
enum paging_state paging_state(struct paging *p, uint64_t address, uint64_t at_ps);

struct paging_reply {
    enum iommu_answer answer;
    uint64_t ready_ps;
    uint64_t address; /* of the first byte that is not there */
};
struct paging_reply paging_use(struct paging *p, uint64_t address, uint64_t bytes, bool write,
                               uint64_t at_ps);

#define PAGING_NEVER UINT64_MAX
/* When paging_tasklet is to be called; PAGING_NEVER: that was said before, or there is no need. */
uint64_t paging_fault(struct paging *p, const struct paging_fault *fault, uint64_t at_ps);
uint64_t paging_tasklet(struct paging *p, uint64_t at_ps);

/* Whether a page of these is held: a move waits for it, and has not been told that it is there. */
bool paging_is_held(struct paging *p, uint64_t address, uint64_t bytes);
void paging_release(struct paging *p, uint64_t address, uint64_t bytes);

struct paging_counts paging_counts(const struct paging *p);
struct iommu_counts paging_iommu_counts(const struct paging *p);
bool paging_no_memory(const struct paging *p);

#endif
