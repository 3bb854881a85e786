#include "sim/iommu.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/minheap.h"

#define PAGE_BITS  12
#define LEVEL_BITS 9
#define ENTRIES    (1u << LEVEL_BITS)

/* ---- page tables ------------------------------------------------------------------------------
 */

/* A table entry: the physical address, and in the bits below a page: */
enum { VALID = 1, WRITABLE = 2, HUGE_LEAF = 4 };

struct table {
    uint64_t entry[ENTRIES];   /* of a leaf, or 0 */
    struct table *to[ENTRIES]; /* next level, or NULL; allocated with the table, unused in leaves */
};

struct bank {
    bool used;
    uint16_t domain;
    unsigned bits, levels;
    struct table *root;
};

static void table_free(struct table *t) {
    for (unsigned i = 0; t && i < ENTRIES; i++)
        table_free(t->to[i]);
    free(t);
}

static unsigned index_at(uint64_t address, unsigned level) { /* level 0 holds pages */
    return (unsigned)(address >> (PAGE_BITS + LEVEL_BITS * level)) & (ENTRIES - 1);
}

/* The table of that level on the way to an address; NULL: there is none, or no memory for it. */
static struct table *table_at(const struct bank *b, uint64_t address, unsigned level, bool make) {
    struct table *t = b->root;
    for (unsigned at = b->levels - 1; t && at > level; at--) {
        struct table **next = &t->to[index_at(address, at)];
        if (!*next && make)
            *next = calloc(1, sizeof **next);
        t = *next;
    }
    return t;
}

/* ---- translation caches -----------------------------------------------------------------------
 */

/* What is remembered of a page, or (walk cache) of a table of the last level. */
struct kept {
    uint64_t page; /* its address */
    uint64_t entry;
    uint64_t ready_ps; /* when the walk that found it has ended */
    uint16_t domain;
    bool valid;
};

/* Sets of ways, each in order of use, the last used first: repeated hits look at one entry. */
struct cache {
    struct kept *at;
    uint32_t sets, ways;
};

static bool cache_new(struct cache *c, uint64_t entries, uint64_t ways) {
    c->sets = (uint32_t)(entries / ways);
    c->ways = (uint32_t)ways;
    c->at = calloc(entries, sizeof *c->at);
    return c->at != NULL;
}

static struct kept *set_of(const struct cache *c, uint64_t page, bool huge) {
    uint64_t number = page / (huge ? IOMMU_HUGE_PAGE : IOMMU_PAGE);
    return &c->at[number % c->sets * c->ways];
}

static struct kept *cache_find(const struct cache *c, uint16_t domain, uint64_t page, bool huge) {
    struct kept *set = set_of(c, page, huge);
    for (uint32_t i = 0; i < c->ways && set[i].valid; i++) {
        if (set[i].page != page || set[i].domain != domain || !(set[i].entry & HUGE_LEAF) == huge)
            continue;
        const struct kept found = set[i];
        memmove(set + 1, set, i * sizeof *set);
        set[0] = found;
        return set;
    }
    return NULL;
}

static void cache_put(struct cache *c, const struct kept *what) {
    struct kept *set = set_of(c, what->page, what->entry & HUGE_LEAF);
    memmove(set + 1, set, (c->ways - 1) * sizeof *set);
    set[0] = *what;
}

static uint64_t reach(const struct kept *k) {
    return k->entry & HUGE_LEAF ? IOMMU_HUGE_PAGE : IOMMU_PAGE;
}

/* Those of a domain within [from, to] go; the others of a set move up, in their order. */
static void cache_drop(struct cache *c, uint16_t domain, uint64_t from, uint64_t to) {
    for (uint32_t s = 0; s < c->sets; s++) {
        struct kept *set = &c->at[(uint64_t)s * c->ways];
        uint32_t left = 0;
        for (uint32_t i = 0; i < c->ways && set[i].valid; i++)
            if (set[i].domain != domain || set[i].page > to || set[i].page + reach(&set[i]) <= from)
                set[left++] = set[i];
        for (; left < c->ways && set[left].valid; left++)
            set[left].valid = false;
    }
}

/* ---- the unit ---------------------------------------------------------------------------------
 */

struct walk { /* the last one of this walker */
    uint64_t page, end_ps;
    uint16_t domain;
    struct kept found; /* not valid: a fault */
};

static bool sooner(const uint64_t *a, const uint64_t *b) {
    return *a < *b;
}
MINHEAP(ends, uint64_t, sooner);

struct iommu {
    struct iommu_config config;
    struct bank *bank;
    struct cache l1, l2, tables;
    struct walk *walk;
    struct ends outstanding;
    struct iommu_counts counts;
};

int iommu_new(struct iommu **out, const struct iommu_config *c, struct spin_error *err) {
    *out = NULL;
    if (!c->l1_entries || !c->ways || !c->l2_entries || c->l2_entries % c->ways ||
        !c->walk_entries || !c->walks || !c->outstanding || !c->banks)
        return spin_fail(err, SPIN_EARG,
                         "an IOMMU of %llu and %llu TLB entries in %llu ways, %llu walks, %llu "
                         "outstanding, %llu banks; each is at least 1, and the ways divide the "
                         "second level",
                         (unsigned long long)c->l1_entries, (unsigned long long)c->l2_entries,
                         (unsigned long long)c->ways, (unsigned long long)c->walks,
                         (unsigned long long)c->outstanding, (unsigned long long)c->banks);
    struct iommu *m = calloc(1, sizeof *m);
    bool made = m && (m->bank = calloc(c->banks, sizeof *m->bank)) &&
                (m->walk = calloc(c->walks, sizeof *m->walk)) &&
                cache_new(&m->l1, c->l1_entries, c->l1_entries) &&
                cache_new(&m->l2, c->l2_entries, c->ways) &&
                cache_new(&m->tables, c->walk_entries, c->walk_entries) &&
                ends_room(&m->outstanding, c->outstanding);
    if (!made) {
        if (m)
            m->config.banks = m->bank ? c->banks : 0;
        iommu_free(m);
        return spin_fail(err, SPIN_ENOMEM, "out of memory for an IOMMU");
    }
    m->config = *c;
    *out = m;
    return SPIN_OK;
}

void iommu_free(struct iommu *m) {
    if (!m)
        return;
    for (uint64_t i = 0; i < m->config.banks; i++)
        table_free(m->bank[i].root);
    free(m->bank);
    free(m->walk);
    free(m->l1.at);
    free(m->l2.at);
    free(m->tables.at);
    free(m->outstanding.at);
    free(m);
}

static struct bank *bank_of(const struct iommu *m, uint16_t domain) {
    for (uint64_t i = 0; i < m->config.banks; i++)
        if (m->bank[i].used && m->bank[i].domain == domain)
            return &m->bank[i];
    return NULL;
}

int iommu_attach(struct iommu *m, uint16_t domain, unsigned bits, struct spin_error *err) {
    if (bits != 39 && bits != 48)
        return spin_fail(err, SPIN_EARG, "addresses of %u bits; an IOMMU has 39 and 48", bits);
    if (bank_of(m, domain))
        return spin_fail(err, SPIN_EARG, "domain %u has a context bank already", domain);
    struct bank *b = NULL;
    for (uint64_t i = 0; i < m->config.banks && !b; i++)
        b = m->bank[i].used ? NULL : &m->bank[i];
    if (!b)
        return spin_fail(err, SPIN_ELIMIT, "no context bank for domain %u; all %llu are in use",
                         domain, (unsigned long long)m->config.banks);
    *b = (struct bank){.used = true,
                       .domain = domain,
                       .bits = bits,
                       .levels = (bits - PAGE_BITS) / LEVEL_BITS,
                       .root = calloc(1, sizeof *b->root)};
    if (b->root)
        return SPIN_OK;
    b->used = false;
    return spin_fail(err, SPIN_ENOMEM, "out of memory for the page table of domain %u", domain);
}

void iommu_detach(struct iommu *m, uint16_t domain) {
    struct bank *b = bank_of(m, domain);
    if (!b)
        return;
    iommu_invalidate(m, domain, 0, 0);
    table_free(b->root);
    *b = (struct bank){0};
}

/* ---- of the operating system ------------------------------------------------------------------
 */

/* The pages of a huge one get entries of their own. */
static int split(struct table *directory, unsigned index) {
    uint64_t leaf = directory->entry[index];
    if (!(leaf & VALID))
        return SPIN_OK;
    struct table *t = directory->to[index];
    if (!t && !(t = directory->to[index] = calloc(1, sizeof *t)))
        return SPIN_ENOMEM;
    for (unsigned i = 0; i < ENTRIES; i++)
        t->entry[i] = (leaf & ~(uint64_t)HUGE_LEAF) + i * IOMMU_PAGE;
    directory->entry[index] = 0;
    return SPIN_OK;
}

static int set_entry(struct iommu *m, uint16_t domain, uint64_t address, uint64_t entry) {
    const struct bank *b = bank_of(m, domain);
    struct table *directory = b ? table_at(b, address, 1, true) : NULL;
    if (!directory || split(directory, index_at(address, 1)))
        return SPIN_ENOMEM;
    struct table *t = table_at(b, address, 0, true);
    if (!t)
        return SPIN_ENOMEM;
    t->entry[index_at(address, 0)] = entry;
    return SPIN_OK;
}

static uint64_t leaf_of(uint64_t physical, enum iommu_rights rights) {
    return physical | VALID | (rights == IOMMU_WRITE ? WRITABLE : 0);
}

int iommu_map(struct iommu *m, uint16_t domain, uint64_t address, uint64_t physical,
              enum iommu_rights rights) {
    return set_entry(m, domain, address, leaf_of(physical, rights));
}

int iommu_unmap(struct iommu *m, uint16_t domain, uint64_t address) {
    return set_entry(m, domain, address, 0);
}

int iommu_map_huge(struct iommu *m, uint16_t domain, uint64_t address, uint64_t physical,
                   enum iommu_rights rights) {
    const struct bank *b = bank_of(m, domain);
    struct table *directory = b ? table_at(b, address, 1, true) : NULL;
    if (!directory)
        return SPIN_ENOMEM;
    directory->entry[index_at(address, 1)] = leaf_of(physical, rights) | HUGE_LEAF;
    struct table *small = directory->to[index_at(address, 1)];
    if (small)
        memset(small->entry, 0, sizeof small->entry);
    return SPIN_OK;
}

void iommu_invalidate(struct iommu *m, uint16_t domain, uint64_t address, uint64_t bytes) {
    uint64_t to = bytes ? address + bytes - 1 : UINT64_MAX;
    if (!bytes)
        address = 0;
    cache_drop(&m->l1, domain, address, to);
    cache_drop(&m->l2, domain, address, to);
    cache_drop(&m->tables, domain, address & ~(IOMMU_HUGE_PAGE - 1), to);
    for (uint64_t i = 0; i < m->config.walks; i++) /* nobody joins what was found before */
        if (m->walk[i].domain == domain && m->walk[i].page <= to &&
            m->walk[i].page + IOMMU_PAGE > address)
            m->walk[i].page = UINT64_MAX;
    m->counts.invalidations++;
}

/* ---- of the card ------------------------------------------------------------------------------
 */

/* What the table says; and how many accesses that took. */
static struct kept look_up(struct iommu *m, const struct bank *b, uint64_t address,
                           unsigned *accesses) {
    uint64_t region = address & ~(IOMMU_HUGE_PAGE - 1), page = address & ~(IOMMU_PAGE - 1);
    struct kept none = {0};
    bool is_short = cache_find(&m->tables, b->domain, region, false) != NULL;
    const struct table *directory = table_at(b, address, 1, false);
    *accesses = is_short ? 1 : b->levels;
    m->counts.walks++;
    m->counts.short_walks += is_short;
    uint64_t huge = directory ? directory->entry[index_at(address, 1)] : 0;
    if (huge & VALID) {
        if (!is_short)
            *accesses = b->levels - 1; /* it ends one level above */
        return (struct kept){.page = region, .entry = huge, .domain = b->domain, .valid = true};
    }
    const struct table *t = directory ? directory->to[index_at(address, 1)] : NULL;
    if (!t)
        return none;
    if (!is_short)
        cache_put(&m->tables, &(struct kept){.page = region, .domain = b->domain, .valid = true});
    uint64_t entry = t->entry[index_at(address, 0)];
    if (!(entry & VALID))
        return none;
    return (struct kept){.page = page, .entry = entry, .domain = b->domain, .valid = true};
}

/* A walk for that page, one that is under way or a new one; the earliest walker takes it. */
static struct walk *walk_for(struct iommu *m, const struct bank *b, uint64_t address,
                             uint64_t at_ps) {
    uint64_t page = address & ~(IOMMU_PAGE - 1);
    struct walk *first = m->walk;
    for (struct walk *w = m->walk; w < m->walk + m->config.walks; w++) {
        if (w->end_ps > at_ps && w->page == page && w->domain == b->domain) {
            m->counts.joined++;
            return w;
        }
        if (w->end_ps < first->end_ps)
            first = w;
    }
    unsigned accesses;
    uint64_t start = first->end_ps > at_ps ? first->end_ps : at_ps;
    m->counts.waited_ps += start - at_ps;
    first->found = look_up(m, b, address, &accesses);
    first->page = page;
    first->domain = b->domain;
    first->end_ps = start + accesses * m->config.level_ps;
    first->found.ready_ps = first->end_ps;
    if (first->found.valid) { /* whoever hits it meanwhile waits for it */
        cache_put(&m->l1, &first->found);
        cache_put(&m->l2, &first->found);
    }
    return first;
}

/* From when on there is a place among the outstanding. */
static uint64_t admitted(struct iommu *m, uint64_t at_ps) {
    uint64_t end;
    while (m->outstanding.count && m->outstanding.at[0] <= at_ps)
        ends_pop(&m->outstanding, &end);
    if (m->outstanding.count < m->config.outstanding)
        return at_ps;
    ends_pop(&m->outstanding, &end);
    m->counts.waited_ps += end - at_ps;
    return end;
}

static struct iommu_reply reply(struct iommu *m, const struct kept *k, uint64_t address, bool write,
                                uint64_t at_ps) {
    uint64_t ready = k->ready_ps > at_ps ? k->ready_ps : at_ps;
    if (write && !(k->entry & WRITABLE)) {
        m->counts.errors++;
        return (struct iommu_reply){.answer = IOMMU_ERROR, .ready_ps = ready};
    }
    return (struct iommu_reply){.answer = IOMMU_DONE,
                                .ready_ps = ready,
                                .physical = (k->entry & ~(IOMMU_PAGE - 1)) + (address - k->page)};
}

/* In either size. */
static const struct kept *find(const struct cache *c, uint16_t domain, uint64_t address) {
    const struct kept *k = cache_find(c, domain, address & ~(IOMMU_PAGE - 1), false);
    return k ? k : cache_find(c, domain, address & ~(IOMMU_HUGE_PAGE - 1), true);
}

static struct iommu_reply translate(struct iommu *m, const struct bank *b, uint64_t address,
                                    bool write, uint64_t at_ps) {
    const struct kept *k = find(&m->l1, b->domain, address);
    at_ps += m->config.l1_ps;
    if (k) {
        m->counts.l1_hits++;
        return reply(m, k, address, write, at_ps);
    }
    at_ps += m->config.l2_ps;
    if ((k = find(&m->l2, b->domain, address))) {
        m->counts.l2_hits++;
        cache_put(&m->l1, k);
        return reply(m, k, address, write, at_ps);
    }
    const struct walk *w = walk_for(m, b, address, at_ps);
    if (w->found.valid)
        return reply(m, &w->found, address, write, w->end_ps);
    m->counts.faults++;
    return (struct iommu_reply){.answer = IOMMU_FAULT, .ready_ps = w->end_ps};
}

struct iommu_reply iommu_translate(struct iommu *m, uint16_t domain, uint64_t address, bool write,
                                   uint64_t at_ps) {
    const struct bank *b = bank_of(m, domain);
    if (!b || address >> b->bits) {
        m->counts.errors++;
        return (struct iommu_reply){.answer = IOMMU_ERROR, .ready_ps = at_ps};
    }
    uint64_t from = admitted(m, at_ps);
    struct iommu_reply r = translate(m, b, address, write, from);
    if (r.ready_ps > at_ps)
        ends_push(&m->outstanding, &r.ready_ps); /* there is room */
    return r;
}

struct iommu_counts iommu_counts(const struct iommu *m) {
    return m->counts;
}
