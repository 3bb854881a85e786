/* The memories as the wide units see them: ports, banks, and what is left for the HPUs.
 *
 * Design notes. A burst moves a line of `wide_bytes` per cycle. Lines of the L2 packet buffer are
 * spread over its banks, so a burst walks through them one per cycle, and two bursts meet in the
 * same bank either in every cycle that they share or never: when (bank - cycle) is the same for
 * both, their phase. Who reserves later then waits a cycle, and is out of step. So conflicts are
 * exact and cost a look at the last bursts of the other ports, not one at each line. (An inbound
 * engine of less than one line per cycle is taken as if it were in step.)
 *
 * In an L1 a line takes wide_bytes / 4 of the word banks at once, and has precedence over the HPUs.
 * Which of its accesses an HPU made in which cycle is not kept: it loses, on average, as many of
 * them as the share of banks and cycles that lines took from it. */
#include "sim/card_private.h"

/* Bursts of one port follow each other: the latest is number 0. */
static const struct card_burst *nth_last(const struct card_bursts *log, uint32_t n) {
    return &log->burst[(log->count - 1 - n) % BURSTS];
}

static void note(struct card_bursts *log, uint64_t start_ps, uint64_t end_ps, uint32_t phase) {
    struct card_burst *last = &log->burst[(log->count - 1) % BURSTS];
    if (log->count && last->end_ps == start_ps && last->phase == phase)
        last->end_ps = end_ps;
    else
        log->burst[log->count++ % BURSTS] = (struct card_burst){start_ps, end_ps, phase};
}

static uint64_t time_within(const struct card_bursts *log, uint64_t from_ps, uint64_t to_ps) {
    uint64_t sum = 0;
    for (uint32_t n = 0; n < BURSTS && n < log->count; n++) {
        const struct card_burst *b = nth_last(log, n);
        if (b->end_ps <= from_ps)
            break;
        uint64_t end = b->end_ps < to_ps ? b->end_ps : to_ps;
        uint64_t start = card_max(b->start_ps, from_ps);
        sum += end > start ? end - start : 0;
    }
    return sum;
}

/* ---- The L2 packet buffer -------------------------------------------------------------------- */

static uint32_t phase_of(const struct card *c, uint32_t offset, uint64_t start_ps) {
    uint64_t banks = c->config.l2_banks, line = offset / c->config.wide_bytes;
    return (uint32_t)((line + banks - start_ps / c->cycle % banks) % banks);
}

/* When it begins, for one line; for more, when it would have to, to end as late as it does with the
 * waits on its way past another port's bursts. */
static uint64_t pass_bursts(const struct card *c, const struct card_bursts *log, uint32_t offset,
                            uint64_t busy_ps, uint64_t start_ps) {
    uint32_t n = 0;
    while (n < BURSTS && n < log->count && nth_last(log, n)->end_ps > start_ps)
        n++;
    while (n > 0) { /* from the first */
        const struct card_burst *b = nth_last(log, --n);
        if (b->start_ps < start_ps + busy_ps && b->end_ps > start_ps &&
            b->phase == phase_of(c, offset, start_ps))
            start_ps += c->cycle;
    }
    return start_ps;
}

uint64_t card_l2_burst(struct card *c, enum card_l2_port port, uint32_t offset, uint64_t busy_ps,
                       uint64_t at_ps) {
    uint64_t start = at_ps;
    for (int i = 0; i < L2_PORTS; i++)
        if (i != (int)port)
            start = pass_bursts(c, &c->l2_bursts[i], offset, busy_ps, start);
    c->stats.l2_conflict_cycles += (start - at_ps) / c->cycle;
    note(&c->l2_bursts[port], start, start + busy_ps, phase_of(c, offset, start));
    return start;
}

/* ---- The L1s --------------------------------------------------------------------------------- */

void card_l1_burst(struct card *c, uint32_t cluster, bool write, uint32_t address,
                   uint64_t start_ps, uint64_t end_ps) {
    card_banks_lines(c, cluster, address, start_ps, end_ps);
    note(&c->cluster[cluster].wide[write], start_ps, end_ps, 0);
}

/* In 1/65536 cycles: what `accesses` of an HPU lose to the lines that pass meanwhile. */
uint64_t card_l1_lost(const struct card *c, uint32_t cluster, uint64_t accesses, uint64_t from_ps,
                      uint64_t to_ps) {
    const struct card_cluster *cl = &c->cluster[cluster];
    uint64_t banks = c->config.wide_bytes / 4, lines = 0;
    for (int i = 0; i < 2; i++)
        lines += time_within(&cl->wide[i], from_ps, to_ps);
    if (!lines)
        return 0;
    banks = banks < c->config.l1_banks ? banks : c->config.l1_banks;
    unsigned __int128 lost = (unsigned __int128)(accesses << 16) * lines; /* at any quantum */
    return (uint64_t)(lost / (to_ps - from_ps) * banks / c->config.l1_banks);
}
