/* ISCA'21 figure 4: one core copies 4 B to 4 KiB into its local L1, by load and store from local L1
 * and from L2, and by DMA from L2.
 *
 * Load and store run on the HPU rig, DMA on the card. The copy is timed by the handler itself with
 * the core's cycle counter, and its result is compared byte by byte. */
#include "figures.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "handlers/dma_copy.h"
#include "images.h"
#include "pspin/card_bench.h"

#define LARGEST 4096
#define SIZES   11 /* 4 B to 4 KiB */

struct copies {
    struct spin_image *image;
    struct spin_rig *rig;
    uint8_t packet[LARGEST]; /* the destination's first content: zero */
    uint32_t to, from;       /* addresses on the card */
};

static int begin(const struct experiment_context *context, struct copies *c, bool in_l2,
                 struct spin_error *err) {
    struct spin_rig_options options = {
        .state_bytes = LARGEST, .state_in_l2 = in_l2, .jit = context->jit};
    int code = images_load(context, "copy", &c->image, err);
    if (!code)
        code = spin_rig_new(&c->rig, c->image, &options, err);
    if (code)
        return code;
    uint32_t bytes;
    uint8_t *source = spin_rig_memory(c->rig, SPIN_STATE, &bytes, &c->from);
    for (uint32_t i = 0; i < LARGEST; i++)
        source[i] = (uint8_t)(i * 7 + i / 256);
    spin_rig_memory(c->rig, SPIN_PACKET, &bytes, &c->to);
    return SPIN_OK;
}

static void end(struct copies *c) {
    spin_rig_free(c->rig);
    spin_image_free(c->image);
    *c = (struct copies){0};
}

/* Cycles between the handler's two readings of the clock, on a warm instruction cache. */
static int measure(struct copies *c, uint32_t size, uint32_t *cycles, struct spin_error *err) {
    char name[24];
    const struct spin_function *function;
    snprintf(name, sizeof name, "copy_%u", size);
    int code = spin_image_find(c->image, name, &function, err);
    for (int run = 0; run < 2 && !code; run++) {
        struct spin_call call = {.entry = function->address,
                                 .kind = SPIN_OTHER_FUNCTION,
                                 .packet = c->packet,
                                 .packet_bytes = LARGEST,
                                 .argument = {c->to, c->from}};
        struct spin_outcome o;
        code = spin_rig_call(c->rig, &call, &o, err);
        if (!code && o.ending != SPIN_RETURNED)
            code = spin_fail(err, SPIN_EFORMAT, "%s was ended: %s at pc 0x%x", name,
                             spin_ending_name(o.ending), o.pc);
        *cycles = code ? 0 : (uint32_t)o.value;
    }
    if (code)
        return code;
    uint32_t bytes, at;
    const uint8_t *to = spin_rig_memory(c->rig, SPIN_PACKET, &bytes, &at);
    const uint8_t *from = spin_rig_memory(c->rig, SPIN_STATE, &bytes, &at);
    static const uint8_t zero[LARGEST];
    if (memcmp(to, from, size) != 0 || memcmp(to + size, zero, LARGEST - size) != 0)
        return spin_fail(err, SPIN_EFORMAT, "%s did not copy %u bytes right", name, size);
    return SPIN_OK;
}

/* A curve: cycles of each size, without what reading the clock takes. */
static int curve(const struct experiment_context *context, bool in_l2, double cycles[SIZES],
                 struct spin_error *err) {
    struct copies c = {0};
    uint32_t clock = 0, taken = 0;
    int code = begin(context, &c, in_l2, err);
    if (!code)
        code = measure(&c, 0, &clock, err);
    for (int i = 0; i < SIZES && !code; i++) {
        code = measure(&c, 4u << i, &taken, err);
        cycles[i] = (double)taken - clock;
    }
    end(&c);
    return code;
}

/* ---- DMA, on the card ---- */

/* Each size twice: the second finds the instruction cache warm, and its cycles stay. */
static void request(void *user, uint32_t i, uint8_t *packet) {
    (void)user;
    struct dma_copy_request r = {.bytes = 4u << i / 2, .index = i / 2};
    memcpy(packet, &r, sizeof r);
}

static int dma_curve(const struct experiment_context *context, double cycles[SIZES],
                     struct spin_error *err) {
    struct card_bench b;
    struct card_stats stats;
    struct card_bench_setup setup = {.image = "dma_copy",
                                     .entry = "dma_copy_ph",
                                     .memory_bytes = sizeof(struct dma_copy_memory),
                                     .scratch_bytes = LARGEST};
    struct card_bench_traffic traffic = {
        .packets = 2 * SIZES, .bytes = 64, .interval_ps = 1000000, .fill = request};
    int code = card_bench_open(&b, context, &setup, err);
    if (code)
        return code;
    uint32_t bytes, at = card_address(b.card, b.context, UINT32_MAX, &bytes);
    struct dma_copy_memory *memory =
        (struct dma_copy_memory *)(void *)card_reach(b.card, b.context, at, sizeof *memory);
    for (uint32_t i = 0; i < LARGEST; i++)
        memory->source[i] = (uint8_t)(i * 7 + i / 256);
    code = card_bench_run(&b, &traffic, &stats, err);
    for (int i = 0; i < SIZES && !code; i++)
        cycles[i] = (double)memory->cycles[i] - 1; /* what reading the clock takes */
    if (!code) {
        at = card_address(b.card, b.context, memory->cluster[SIZES - 1], &bytes);
        if (memcmp(card_reach(b.card, b.context, at, LARGEST), memory->source, LARGEST) != 0)
            code =
                spin_fail(err, SPIN_EFORMAT, "the DMA engine did not copy %d bytes right", LARGEST);
    }
    card_bench_close(&b);
    return code;
}

/* The figure's Gbit/s are 2^30 bit/s: 4 B in 2 cycles at 1 GHz are 16e9 bit/s, printed as 14.9. */
static double gibit(double bytes, double cycles) {
    return 8 * bytes / cycles * 1e9 / 1073741824;
}

static void fill(struct sheet *s, double local[SIZES], double remote[SIZES], double dma[SIZES]) {
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
    for (int i = 0; i < SIZES; i++) {
        double bytes = 4u << i;
        struct sheet_row *l = sheet_row(s, latency, NULL), *r = sheet_row(s, rate, NULL);
        const double cycles[] = {local[i], remote[i], dma[i]};
        l->value[0] = r->value[0] = bytes;
        for (int k = 0; k < 3; k++) {
            l->value[1 + k] = cycles[k];
            r->value[1 + k] = gibit(bytes, cycles[k]);
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
    sheet_because(c, "a loop of 8 words a turn; the paper does not show its own");
    sheet_claim(s, "B9", "Gibit/s", gibit(4096, local[page]), 11.9, "L1 by load/store, 4 KiB");
    c = sheet_claim(s, "B9", "cycles", remote[page], 23000, "L2 by load/store, 4 KiB");
    sheet_calibrated(c, "%s", fitted);
    c = sheet_claim(s, "B9", "Gibit/s", gibit(4, remote[word]), 1.3, "L2 by load/store, one word");
    sheet_calibrated(c, "%s", fitted);
    c = sheet_claim(s, "B9", "cycles", dma[smallest_dma], 21, "L2 by DMA, 16 B");
    sheet_calibrated(c, "the cycles to issue a DMA were fitted to this");
    c = sheet_claim(s, "B9", "cycles", dma[page], 89, "L2 by DMA, 4 KiB");
    sheet_because(c, "64 B a cycle and what 16 B take");
    sheet_note(s,
               "The paper's \"Gbit/s\" are 2^30 bit/s: one word in its 2 cycles at 1 GHz is 16e9 "
               "bit/s, printed as 14.9. So are ours.");
}

int pspin_fig4(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double local[SIZES], remote[SIZES], dma[SIZES];
    int code = curve(context, false, local, err);
    if (!code)
        code = curve(context, true, remote, err);
    if (!code)
        code = dma_curve(context, dma, err);
    if (code)
        return code;
    fill(s, local, remote, dma);
    compare(s, local, remote, dma);
    return SPIN_OK;
}
