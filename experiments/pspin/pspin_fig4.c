/* ISCA'21 figure 4: one core copies 4 B to 4 KiB into its local L1, by load and store from local L1
 * and from L2, and by DMA from L2.
 *
 * The copy is timed by the handler itself with the core's cycle counter, and its result is compared
 * byte by byte. */
#include "figures.h"

#include <string.h>

#include "base/error.h"
#include "experiment_card.h"
#include "handlers/copies.h"
#include "pspin/card_bench.h"

#define LARGEST COPIES_LARGEST
#define SIZES   11 /* 4 B to 4 KiB */

enum way { NEAR, FAR, DMA, WAYS };

/* Twice as many as copy at once: the second half finds the instruction cache warm. */
struct copies {
    uint32_t bytes, at_once;
    enum way way;
};

static void request(void *user, uint32_t i, uint8_t *packet) {
    const struct copies *c = user;
    struct copies_request r = {
        .bytes = c->bytes, .is_far = c->way == FAR, .index = i >= c->at_once};
    memcpy(packet, &r, sizeof r);
}

static void fill_with_pattern(uint8_t *bytes) {
    for (uint32_t i = 0; i < LARGEST; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
}

/* So many bytes are copied, and none behind them. */
static bool is_right(const uint8_t *to, const uint8_t *from, uint32_t bytes) {
    static const uint8_t zero[LARGEST];
    return memcmp(to, from, bytes) == 0 && memcmp(to + bytes, zero, LARGEST - bytes) == 0;
}

static struct copies_scratchpad *scratchpad(const struct card_bench *b, uint32_t cluster) {
    uint32_t bytes, at = card_address(b->card, b->context, cluster, &bytes);
    return (void *)card_reach(b->card, b->context, at, sizeof(struct copies_scratchpad));
}

/* Cycles between the handler's two readings of the clock; 0 bytes: nothing between them. With more
 * ranks than two the others' requests come together, and the last copy to end counts. */
static int measure(const struct experiment_context *context, enum way way, uint32_t size,
                   uint32_t *cycles, struct spin_error *err) {
    char entry[24];
    struct card_bench b;
    struct card_stats stats;
    struct card_config card;
    struct copies copies = {
        .bytes = size,
        .at_once = context->setup.ranks > 1 ? context->setup.ranks - 1 : 1,
        .way = way,
    };
    struct card_bench_setup setup = {.image = "copy",
                                     .entry = entry,
                                     .memory_bytes = sizeof(struct copies_memory),
                                     .scratch_bytes = sizeof(struct copies_scratchpad)};
    struct card_bench_traffic traffic = {.packets = 2 * copies.at_once,
                                         .together = copies.at_once,
                                         .bytes = 64,
                                         .interval_ps = 1000000000,
                                         .fill = request,
                                         .user = &copies};
    snprintf(entry, sizeof entry, way == DMA ? "dma_copy_ph" : "copy_%u_ph", size);
    int code = experiment_card(context, NULL, &card, err);
    if (!code)
        code = card_bench_open(&b, context, &setup, err);
    if (code)
        return code;
    uint32_t bytes, at = card_address(b.card, b.context, UINT32_MAX, &bytes);
    struct copies_memory *memory = (void *)card_reach(b.card, b.context, at, sizeof *memory);
    fill_with_pattern(memory->source);
    for (uint32_t i = 0; i < card.clusters; i++)
        fill_with_pattern(scratchpad(&b, i)->near);
    code = card_bench_run(&b, &traffic, &stats, err);
    *cycles = code ? 0 : memory->cycles[1];
    if (!code && !is_right(scratchpad(&b, memory->cluster[1])->to, memory->source, size))
        code = spin_fail(err, SPIN_EFORMAT, "%s did not copy %u bytes right", entry, size);
    card_bench_close(&b);
    return code;
}

static uint32_t size_at(const struct experiment_context *context, int i) {
    return experiment_size(context, 4u << i);
}

/* A curve: cycles of each size, without what reading the clock takes. */
static int curve(const struct experiment_context *context, enum way way, double cycles[SIZES],
                 struct spin_error *err) {
    uint32_t clock = 0, taken = 0;
    int code = measure(context, NEAR, 0, &clock, err);
    for (int i = 0; i < experiment_sizes(context, SIZES) && !code; i++) {
        code = measure(context, way, size_at(context, i), &taken, err);
        cycles[i] = (double)taken - clock;
    }
    return code;
}

/* The figure's Gbit/s are 2^30 bit/s: 4 B in 2 cycles at 1 GHz are 16e9 bit/s, printed as 14.9. */
static double gibit(double bytes, double cycles) {
    return 8 * bytes / cycles * 1e9 / 1073741824;
}

static void fill(const struct experiment_context *context, struct sheet *s,
                 double cycles[WAYS][SIZES]) {
    struct sheet_panel *latency = sheet_panel(s, "latency", "Copying by one core: latency");
    struct sheet_panel *rate = sheet_panel(s, "throughput", "Copying by one core: throughput");
    struct sheet_panel *both[] = {latency, rate};
    for (int i = 0; i < 2; i++) {
        const char *unit = i ? "Gibit/s" : "cycles";
        both[i]->log_x = both[i]->log_y = true;
        sheet_column(both[i], "B", 0, "size");
        sheet_column(both[i], unit, i ? 2 : 0, "local L1, load/store");
        sheet_column(both[i], unit, i ? 2 : 0, "L2, load/store");
        sheet_column(both[i], unit, i ? 2 : 0, "L2, DMA");
    }
    for (int i = 0; i < experiment_sizes(context, SIZES); i++) {
        double bytes = size_at(context, i);
        struct sheet_row *l = sheet_row(s, latency, NULL), *r = sheet_row(s, rate, NULL);
        l->value[0] = r->value[0] = bytes;
        for (int k = 0; k < WAYS; k++) {
            l->value[1 + k] = cycles[k][i];
            r->value[1 + k] = gibit(bytes, cycles[k][i]);
        }
    }
}

static double highest_rate(const double *cycles) {
    double best = 0;
    for (int i = 0; i < SIZES; i++) {
        double rate = gibit(4u << i, cycles[i]);
        if (rate > best) /* not fmax: gcc 12 for AArch64 dies of that at -O3 */
            best = rate;
    }
    return best;
}

static void compare(struct sheet *s, const double *local, const double *remote, const double *dma) {
    const int word = 0, smallest_dma = 2, page = SIZES - 1;
    const char *fitted = "the 20 cycles that a remote load waits were fitted to this figure";
    struct sheet_claim *c;
    c = sheet_claim(s, "B9", "cycles", local[word], 2, "L1 by load/store, one word");
    if (c->verdict == SHEET_DIFFERS)
        sheet_because(c, "the store needs what the load brings: one stall, by the core's manual");
    sheet_claim(s, "B9", "Gibit/s", highest_rate(local), 14.9, "L1 by load/store, highest rate");
    c = sheet_claim(s, "B9", "cycles", local[page], 2500, "L1 by load/store, 4 KiB");
    sheet_because(c, "a loop of 8 words per iteration; the paper does not show its own");
    sheet_claim(s, "B9", "Gibit/s", gibit(4096, local[page]), 11.9, "L1 by load/store, 4 KiB");
    c = sheet_claim(s, "B9", "cycles", remote[page], 23000, "L2 by load/store, 4 KiB");
    sheet_calibrated(c, "%s", fitted);
    c = sheet_claim(s, "B9", "Gibit/s", gibit(4, remote[word]), 1.3, "L2 by load/store, one word");
    sheet_calibrated(c, "%s", fitted);
    c = sheet_claim(s, "B9", "cycles", dma[smallest_dma], 21, "L2 by DMA, 16 B");
    sheet_calibrated(c, "the cycles to issue a DMA were fitted to this");
    c = sheet_claim(s, "B9", "cycles", dma[page], 89, "L2 by DMA, 4 KiB");
    sheet_because(c, "64 B per cycle and what 16 B take");
    sheet_note(s,
               "The paper's \"Gbit/s\" are 2^30 bit/s: one word in its 2 cycles at 1 GHz is 16e9 "
               "bit/s, printed as 14.9. So are ours.");
}

int pspin_fig4(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double cycles[WAYS][SIZES];
    uint64_t bytes = context->setup.bytes;
    int code = SPIN_OK;
    if (bytes && (bytes < 4 || bytes > LARGEST || bytes & (bytes - 1)))
        return spin_fail(err, SPIN_EARG, "--bytes %llu: copies have 4 B to 4 KiB, a power of two",
                         (unsigned long long)bytes);
    for (int way = 0; way < WAYS && !code; way++)
        code = curve(context, (enum way)way, cycles[way], err);
    if (code)
        return code;
    fill(context, s, cycles);
    experiment_note_network(context, s);
    if (!experiment_one_row(context))
        compare(s, cycles[NEAR], cycles[FAR], cycles[DMA]);
    return SPIN_OK;
}
