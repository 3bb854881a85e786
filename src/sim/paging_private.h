/* Inside paging.c (pages) and paging_fault.c (faults). */
#ifndef SPIN_SIM_PAGING_PRIVATE_H
#define SPIN_SIM_PAGING_PRIVATE_H

#include "base/index_table.h"
#include "base/minheap.h"
#include "sim/paging.h"

#define DOMAIN       1   /* the rank's process is the only one of its host */
#define PAGES        512 /* of a region */
#define PAGING_AHEAD 16

struct paging_page {
    uint8_t state;   /* enum paging_state */
    bool mapped;     /* the IOMMU's table has it */
    bool held;       /* by a move that waits for it */
    bool used;       /* since the swapping hand came by */
    uint64_t due_ps; /* when it is mapped, if it is not yet */
};

struct paging_region { /* 2 MiB of the program's addresses */
    uint64_t base;
    uint32_t number;
    bool huge;                  /* mapped as one */
    uint64_t collapse_until_ps; /* being made one; or 0 */
    struct paging_page page[PAGES];
};

struct paging_due { /* a page is there, or (PAGES) a collapse has ended */
    uint64_t at_ps;
    uint32_t region, page;
};

static inline bool due_sooner(const struct paging_due *a, const struct paging_due *b) {
    return a->at_ps != b->at_ps     ? a->at_ps < b->at_ps
           : a->region != b->region ? a->region < b->region
                                    : a->page < b->page;
}
MINHEAP(dues, struct paging_due, due_sooner);

struct paging_place {
    struct paging_region *region;
    uint32_t number;
    struct paging_page *page; /* NULL: no memory */
};

struct paging_logged { /* by the card */
    struct paging_fault fault;
    uint64_t at_ps;
};

/* err=block: the rest of a transfer, that is brought in after the blocks of its fault. */
struct paging_ahead {
    struct paging_fault fault;
    uint64_t from, bytes; /* what is left */
    uint64_t told_end,
        at_ps; /* up to there the sender has been told, and since when it was there */
};

struct paging {
    struct paging_config config;
    struct paging_calls calls;
    struct iommu *iommu;
    struct paging_region **region;
    uint32_t regions, region_room;
    struct paging_region *last; /* used */
    struct hash_table table;
    struct dues due;
    uint64_t frames, resident, hand;
    uint64_t next_collapse_ps;
    uint32_t collapse_hand;
    bool no_memory;
    struct paging_counts counts;
    /* paging_fault.c */
    struct paging_logged *fault; /* that wait for the tasklet, in order: [fault_first, faults) */
    uint32_t fault_first, faults, fault_room;
    uint64_t holds;                          /* pages that are held */
    bool tasklet;                            /* scheduled or running */
    uint64_t stolen_ps;                      /* from the running one, by interrupts */
    struct paging_ahead ahead[PAGING_AHEAD]; /* err=block: the oldest first */
    uint32_t aheads;
    bool is_their_turn; /* and not that of faults, which would starve them */
};

struct paging_place paging_place(struct paging *p, uint64_t address);
/* What is due by then is done. */
void paging_settle(struct paging *p, uint64_t now_ps);
/* An absent page will be there at that time. */
void paging_bring_in(struct paging *p, struct paging_place at, uint64_t at_ps);
/* When a page that is in, or on its way, can be used. */
uint64_t paging_wait(struct paging_place at, uint64_t at_ps);

#endif
