/* An IOMMU: translates the addresses that a card uses in the memory of processes, by the page
 * tables of the operating system, as ARM's SMMU does (published.md D2).
 *
 * Each protection domain (a process that uses the card) has a context bank, and that a page table
 * of three or four levels (39- or 48-bit addresses). Two levels of TLB keep translations; a miss is
 * a walk, of which some go on at once, and which is shorter when the table of the last level is
 * known from an earlier one. TLBs are not coherent with the page tables: who changes an entry that
 * was valid invalidates it here.
 *
 * A call answers at once with the time at which the answer is there, as in host.h, so no event is
 * spent; calls come in order of their time. A fault stops nobody: later translations go on
 * meanwhile (ARM calls that "hit under previous context fault"). */
#ifndef SPIN_SIM_IOMMU_H
#define SPIN_SIM_IOMMU_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin.h"

#define IOMMU_PAGE      4096ull
#define IOMMU_HUGE_PAGE (2ull << 20)

struct iommu_config {
    uint64_t l1_entries;       /* fully associative, least recently used out */
    uint64_t l2_entries, ways; /* set-associative, likewise */
    uint64_t walk_entries;     /* tables of the last level that walks remember */
    uint64_t walks;            /* at once */
    uint64_t outstanding;      /* translations that are not over: more wait */
    uint64_t banks;            /* protection domains */
    uint64_t l1_ps, l2_ps;     /* a look into either TLB */
    uint64_t level_ps;         /* an access of a walk to the memory */
};

enum iommu_rights { IOMMU_READ, IOMMU_WRITE };

enum iommu_answer {
    IOMMU_DONE,
    IOMMU_FAULT, /* the table has no valid entry: the operating system may bring the page in */
    IOMMU_ERROR, /* no such domain, not an address, or not to be written */
};

struct iommu_reply {
    enum iommu_answer answer;
    uint64_t ready_ps;
    uint64_t physical; /* where it is done */
};

struct iommu_counts {
    uint64_t l1_hits, l2_hits;
    uint64_t walks, short_walks; /* short: the last level was known */
    uint64_t joined;             /* translations that found a walk for their page under way */
    uint64_t faults, errors, invalidations;
    uint64_t waited_ps; /* for a walk to be free, or for a place among the outstanding */
};

struct iommu;

int iommu_new(struct iommu **out, const struct iommu_config *config, struct spin_error *err);
void iommu_free(struct iommu *iommu);

/* A context bank for a domain, with an empty table for addresses of 39 or 48 bits. */
int iommu_attach(struct iommu *iommu, uint16_t domain, unsigned bits, struct spin_error *err);
void iommu_detach(struct iommu *iommu, uint16_t domain); /* with its TLB entries */

/* Of the operating system, which writes page tables; the domain is attached, the address within its
 * bits, and both addresses are whole pages. A huge page takes the place of all small ones in it; a
 * small one splits a huge one. SPIN_ENOMEM: no memory for a table. */
int iommu_map(struct iommu *iommu, uint16_t domain, uint64_t address, uint64_t physical,
              enum iommu_rights rights);
int iommu_map_huge(struct iommu *iommu, uint16_t domain, uint64_t address, uint64_t physical,
                   enum iommu_rights rights);
int iommu_unmap(struct iommu *iommu, uint16_t domain, uint64_t address);
/* Translations of these bytes are forgotten; 0 bytes: all of the domain. */
void iommu_invalidate(struct iommu *iommu, uint16_t domain, uint64_t address, uint64_t bytes);

struct iommu_reply iommu_translate(struct iommu *iommu, uint16_t domain, uint64_t address,
                                   bool write, uint64_t at_ps);

struct iommu_counts iommu_counts(const struct iommu *iommu);

#endif
