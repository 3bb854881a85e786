/* Single accesses of the HPUs in the banks of an L1.
 *
 * Design notes. Packets begin at multiples of a line, so handlers of one kind access the same few
 * banks, and HPUs that run the same code at the same time meet there again and again: chance does
 * not describe it. An HPU runs a slice when the slice begins, so when the engine has come to the
 * end of one, the accesses that any HPU of the cluster has made until then are known. They are gone
 * through in the order of time: of those that want a bank in the same cycle one gets it, in turns,
 * unless a line of the DMA engines takes its group of banks; the others, and all that they do
 * afterwards, are a cycle later.
 *
 * What a slice accessed is not kept while it runs, for that would cost more than all the rest of a
 * handler. It is known from an earlier slice that began and ended at the same instructions with as
 * many cycles and accesses: the first of a kind runs by steps and is remembered. A slice with cold
 * code takes other cycles each time and always runs by steps. Both depend only on what is
 * simulated, so interpreted and generated code have the same cycles.
 *
 * Slices that go on where the quantum ended the one before (loops, mostly) are not remembered, nor
 * what comes behind the first accesses of a slice: those are charged by chance (card_hpu.c). */
#include <stdlib.h>
#include <string.h>

#include "sim/card_private.h"

#define COLD_CYCLES 256u /* after the last line that came into the instruction cache */

/* ---- Banks ----------------------------------------------------------------------------------- */

struct bank {
    uint64_t cycle, busy_until; /* in which `first` wants it; an atomic holds it */
    uint8_t first, last;        /* cores: whose turn it is; who had it last */
};

/* Lines in 64 cycles of a group of banks. A group has a ring of them, for lines are entered when
 * their transfer is reserved. */
#define PAGES 32u
struct page {
    uint64_t number, taken;
};

struct card_banks {
    uint32_t banks, groups;     /* a line takes a group of banks */
    uint32_t group_banks, mask; /* mask: where the number of banks is a power of two */
    uint32_t cores;
    uint64_t next[MAX_CLUSTER_HPUS]; /* cycle of the core's next access; UINT64_MAX: none known */
    struct page *page;               /* [group][PAGES] */
    struct bank bank[];
};

struct card_banks *card_banks_new(const struct card *c) {
    uint32_t banks = (uint32_t)c->config.l1_banks;
    uint32_t groups = (uint32_t)(banks * 4 / c->config.wide_bytes);
    groups = groups ? groups : 1;
    struct card_banks *b = calloc(1, sizeof *b + banks * sizeof(struct bank) +
                                         (size_t)groups * PAGES * sizeof(struct page));
    if (!b)
        return NULL;
    b->banks = banks;
    b->groups = groups;
    b->group_banks = (banks + groups - 1) / groups;
    b->mask = banks & (banks - 1) ? 0 : banks - 1;
    b->cores = (uint32_t)c->config.cluster_hpus;
    b->page = (struct page *)(void *)(b->bank + banks);
    memset(b->next, 0xff, sizeof b->next);
    return b;
}

static bool has_line(const struct card_banks *b, uint32_t group, uint64_t cycle) {
    const struct page *p = &b->page[group * PAGES + cycle / 64 % PAGES];
    return p->number == cycle / 64 && p->taken >> cycle % 64 & 1;
}

static void enter_line(struct card_banks *b, uint32_t group, uint64_t cycle) {
    struct page *p = &b->page[group * PAGES + cycle / 64 % PAGES];
    if (p->number != cycle / 64)
        *p = (struct page){.number = cycle / 64};
    p->taken |= 1ull << cycle % 64;
}

void card_banks_lines(struct card *c, uint32_t cluster, uint32_t address, uint64_t start_ps,
                      uint64_t end_ps) {
    struct card_banks *b = c->cluster[cluster].banks;
    uint64_t line = address / c->config.wide_bytes, lines = (end_ps - start_ps) / c->cycle;
    uint64_t cycle = start_ps / c->cycle;
    if (cycle + lines > c->now_ps / c->cycle + (PAGES - 2) * 64)
        return; /* so far ahead that it would overwrite what comes before it */
    for (uint64_t i = 0; i < lines; i++, cycle++) {
        uint32_t group = (uint32_t)((line + i) % b->groups);
        cycle += has_line(b, group, cycle); /* of the other port */
        enter_line(b, group, cycle);
    }
}

static uint32_t bank_of(const struct card_banks *b, const struct card_hpu *h) {
    const struct access *a = &h->log->access[h->logged];
    uint32_t word = (h->hpu.window[a->window].base + a->offset) / 4;
    return b->mask ? word & b->mask : word % b->banks;
}

/* What was lost is made up for where the core waits for cold code: the line comes when it comes. */
static void schedule_next(struct card_banks *b, struct card_hpu *h, uint32_t core) {
    const struct access *a = &h->log->access[h->logged];
    bool more = h->logged < h->log->count;
    uint64_t slack = more ? a->slack : h->log->slack, open = h->lost - h->charged;
    h->lost -= slack < open ? slack : open;
    b->next[core] = more ? h->log_from + a->cycle + h->lost : UINT64_MAX;
}

/* How many are before the core when the bank goes round from who had it last. */
static uint32_t before(const struct card_banks *b, const struct bank *k, uint32_t core) {
    return core > k->last ? core - k->last : core + b->cores - k->last;
}

static void want(struct card_banks *b, uint32_t bank, uint32_t core, uint64_t cycle) {
    struct bank *k = &b->bank[bank];
    if (k->cycle != cycle || before(b, k, core) < before(b, k, k->first))
        k->first = (uint8_t)core;
    k->cycle = cycle;
}

static void serve(struct card_banks *b, struct card_hpu *h, uint32_t core, uint64_t cycle,
                  bool alone) {
    uint32_t bank = bank_of(b, h);
    struct bank *k = &b->bank[bank];
    if ((!alone && k->first != core) || k->busy_until > cycle ||
        has_line(b, bank / b->group_banks, cycle)) {
        h->lost++;
        b->next[core] = cycle + 1;
        return;
    }
    k->last = (uint8_t)core;
    k->busy_until = cycle + 1 + h->log->access[h->logged].atomic;
    h->logged++;
    schedule_next(b, h, core);
}

/* All accesses before this cycle. */
static void advance(struct card *c, uint32_t cluster, uint64_t until) {
    struct card_banks *b = c->cluster[cluster].banks;
    struct card_hpu *hpu = &c->hpu[cluster * b->cores];
    for (;;) {
        uint64_t cycle = until;
        uint32_t due = 0;
        for (uint32_t i = 0; i < b->cores; i++) {
            uint64_t next = b->next[i];
            due = next < cycle ? 1u << i : due | (uint32_t)(next == cycle) << i;
            cycle = next < cycle ? next : cycle;
        }
        if (cycle == until)
            return;
        bool alone = !(due & (due - 1));
        for (uint32_t left = alone ? 0 : due; left; left &= left - 1) {
            uint32_t core = (uint32_t)__builtin_ctz(left);
            want(b, bank_of(b, &hpu[core]), core, cycle);
        }
        for (; due; due &= due - 1) {
            uint32_t core = (uint32_t)__builtin_ctz(due);
            serve(b, &hpu[core], core, cycle, alone);
        }
    }
}

static void begin(struct card *c, struct card_hpu *h) {
    struct card_banks *b = c->cluster[h->cluster].banks;
    h->log_from = h->slice_from;
    h->logged = 0;
    h->lost = h->charged = 0;
    schedule_next(b, h, h->index % b->cores);
}

uint64_t card_banks_lost(struct card *c, struct card_hpu *h) {
    advance(c, h->cluster, c->now_ps / c->cycle);
    uint64_t lost = h->lost - h->charged;
    h->charged = h->lost;
    return lost;
}

/* ---- What slices access ---------------------------------------------------------------------- */

void card_log_step(struct card_hpu *h, const struct hpu_next_access *next, uint64_t before,
                   uint64_t waited) {
    struct card_access_log *log = &h->own_log;
    uint64_t end = h->hpu.cycles - h->slice_from;
    log->slack += (uint32_t)waited;
    if (!next->size || log->count == ACCESSES_LOGGED || end > UINT16_MAX)
        return;
    for (uint32_t i = 0; i < h->hpu.windows; i++) {
        const struct hpu_window *w = &h->hpu.window[i];
        uint32_t offset = next->address - w->base;
        if (w->region != HPU_REGION_L1 || offset >= w->read_room[0])
            continue;
        log->access[log->count++] =
            (struct access){.cycle = (uint16_t)(before + waited - h->slice_from),
                            .slack = (uint16_t)log->slack,
                            .window = (uint8_t)i,
                            .atomic = next->read && next->write,
                            .offset = offset};
        log->slack = 0;
        return;
    }
}

static struct card_pattern *find(struct card *c, const struct card_pattern *like) {
    for (uint32_t i = 0; i < PATTERNS; i++) {
        struct card_pattern *p = &c->pattern[(like->from / 2 + like->cycles + i) % PATTERNS];
        if (!p->cycles || memcmp(p, like, offsetof(struct card_pattern, log)) == 0)
            return p;
    }
    return NULL;
}

static struct card_wanted *wanted_at(struct card *c, const struct card_hpu *h) {
    return &c->wanted[h->hpu.pc / 2 % WANTED];
}

bool card_log_wanted(struct card *c, const struct card_hpu *h) {
    const struct hpu *u = &h->hpu;
    struct card_wanted *w = wanted_at(c, h);
    if (u->cycles < hpu_icache_latest(u->icache) + COLD_CYCLES)
        return true;
    bool wanted = w->pc == u->pc && w->program == c->context[h->context].program;
    if (wanted)
        *w = (struct card_wanted){0};
    return wanted;
}

void card_log_slice(struct card *c, struct card_hpu *h, uint32_t from, bool logged) {
    const struct hpu *u = &h->hpu;
    uint32_t program = c->context[h->context].program;
    struct card_pattern like = {.program = program,
                                .from = from,
                                .to = h->stop == HPU_DONE ? 0 : u->pc,
                                .cycles = (uint32_t)(u->cycles - h->slice_from),
                                .accesses = h->accesses.l1};
    if (!like.accesses || !like.cycles)
        return;
    if (logged)
        h->log = &h->own_log;
    struct card_pattern *p = find(c, &like);
    if (p && p->cycles && !logged) {
        h->log = &p->log;
    } else if (logged && p && !p->cycles &&
               u->cycles >= hpu_icache_latest(u->icache) + COLD_CYCLES) {
        like.log = h->own_log;
        *p = like;
    } else if (!logged && p) {
        c->wanted[from / 2 % WANTED] = (struct card_wanted){.program = program, .pc = from};
    }
    if (h->log)
        begin(c, h);
}
