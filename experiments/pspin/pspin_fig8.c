/* ISCA'21 figure 8: inbound throughput and HPUs in use, over packet size and the number of
 * instructions of the handler. Packets come as fast as the card takes them. */
#include "figures.h"

#include <math.h>

#include "experiment_card.h"
#include "pspin/card_bench.h"
#include "rate.h"

#define PACKETS 4096
#define EMPTY   0 /* index below: a lone return */

static const uint32_t sizes[] = {64, 512, 1024};
static const uint32_t instructions[] = {0, 3, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
enum { SIZES = 3, COUNTS = 12, RUNTIME = 13 };

struct point {
    double gbit, hpus, warm_hpus;
};

static int stream(const struct experiment_context *context, uint32_t count, uint32_t bytes,
                  uint32_t warm, struct card_stats *stats, struct spin_error *err) {
    char entry[40];
    struct card_bench b;
    snprintf(entry, sizeof entry, "arithmetic_%u_ph", count);
    struct card_bench_setup setup = {.image = "arithmetic", .entry = entry};
    /* Long handlers keep every HPU busy with fewer packets. */
    struct card_bench_traffic traffic = {.packets = count > 512 ? PACKETS / 4 : PACKETS,
                                         .bytes = bytes,
                                         .messages = 1,
                                         .warm = warm};
    int code = card_bench_open(&b, context, &setup, err);
    if (code)
        return code;
    code = card_bench_run(&b, &traffic, stats, err);
    card_bench_close(&b);
    return code;
}

/* Little's law: how long a packet keeps an HPU, times packets per time. Whole HPUs. */
static double mean_busy(const struct card_stats *stats, double gbit, uint32_t bytes) {
    double ns = (double)stats->hpu_busy_ps / 1000 / (double)stats->completed;
    return fmax(1, round(ns * gbit / 8 / bytes));
}

/* From the start, when no cluster has the handler's code, and once all have it. */
static int measure(const struct experiment_context *context, uint32_t count, uint32_t bytes,
                   struct point *point, struct spin_error *err) {
    struct card_stats cold, warm;
    int code = stream(context, count, bytes, 0, &cold, err);
    if (!code)
        code = stream(context, count, bytes, 16, &warm, err);
    if (!code) {
        double gbit = (double)cold.throughput_mbit / 1000;
        *point = (struct point){gbit, cold.most_hpus_busy, mean_busy(&warm, gbit, bytes)};
    }
    return code;
}

/* The paper's own bound: the interconnect, or 32 HPUs that execute nothing else. */
static double theoretical(const struct card_config *card, double bytes, double count) {
    double ns = (double)card->cycle / 1000;
    return rate_throughput_gbit((double)(card->clusters * card->cluster_hpus), bytes,
                                8 * (double)card->wide_bytes / ns, count * ns);
}

static void fill(const struct experiment_context *context, struct sheet *s,
                 const struct card_config *card, struct point aligned[COUNTS][SIZES],
                 struct point odd[COUNTS][SIZES]) {
    struct sheet_panel *t =
        sheet_panel(s, "throughput", "Inbound throughput over instructions of the handler");
    struct sheet_panel *h =
        sheet_panel(s, "hpus", "HPUs: most busy at one time; warm, busy on average");
    t->log_x = h->log_x = true;
    sheet_column(t, "", 0, "instructions");
    sheet_column(h, "", 0, "instructions");
    int count = experiment_sizes(context, SIZES);
    for (int z = 0; z < count; z++) {
        uint32_t bytes = experiment_size(context, sizes[z]);
        sheet_column(t, "Gbit/s", 1, "%u B", bytes);
        sheet_column(t, "Gbit/s", 1, "%u B", bytes + 1);
        sheet_column(t, "Gbit/s", 1, "bound %u B", bytes);
        sheet_column(h, "HPUs", 0, "%u B", bytes);
        sheet_column(h, "HPUs", 0, "%u B, warm", bytes);
    }
    for (int i = 0; i < COUNTS; i++) {
        struct sheet_row *row = sheet_row(s, t, NULL), *used = sheet_row(s, h, NULL);
        row->value[0] = used->value[0] = instructions[i];
        for (int z = 0; z < count; z++) {
            row->value[1 + 3 * z] = aligned[i][z].gbit;
            row->value[2 + 3 * z] = odd[i][z].gbit;
            row->value[3 + 3 * z] =
                theoretical(card, experiment_size(context, sizes[z]), instructions[i]);
            used->value[1 + 2 * z] = aligned[i][z].hpus;
            used->value[2 + 2 * z] = aligned[i][z].warm_hpus;
        }
    }
}

static void compare(struct sheet *s, struct point aligned[COUNTS][SIZES]) {
    for (int z = 0; z < SIZES; z++)
        sheet_claim(s, "B11", "Gbit/s", aligned[2][z].gbit, 512,
                    "full interconnect bandwidth, %u B, 8 instructions", sizes[z]);
    const double busy[SIZES] = {19, 1, 1};
    for (int z = 0; z < SIZES; z++) {
        const struct point *p = &aligned[EMPTY][z];
        sheet_claim(s, "B11", "HPUs", p->warm_hpus, busy[z], "busy, empty handlers, warm, %u B",
                    sizes[z]);
    }
    sheet_claim(s, "RTL", "HPUs", aligned[EMPTY][0].hpus, 30, "busy, empty handlers, cold, 64 B");
    sheet_claim(s, "RTL", "HPUs", aligned[EMPTY][2].hpus, 2, "busy, empty handlers, cold, 1024 B");
    bool near = true;
    for (int i = 0; i < COUNTS; i++)
        for (int z = 0; z < SIZES; z++) {
            /* The runtime and the return beside the instructions. */
            double bound = rate_throughput_gbit(32, sizes[z], 512, instructions[i] + RUNTIME + 2);
            near = near && aligned[i][z].gbit >= 0.9 * bound;
        }
    sheet_shape(s, "B11", near, "aligned: within 10 %% of 32 HPUs or the interconnect");
}

int pspin_fig8(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    struct point aligned[COUNTS][SIZES], odd[COUNTS][SIZES];
    struct card_config card;
    int code = experiment_card(context, NULL, &card, err);
    for (int i = 0; i < COUNTS && !code; i++)
        for (int z = 0; z < experiment_sizes(context, SIZES) && !code; z++) {
            uint32_t bytes = experiment_size(context, sizes[z]);
            code = measure(context, instructions[i], bytes, &aligned[i][z], err);
            if (!code)
                code = measure(context, instructions[i], bytes + 1, &odd[i][z], err);
        }
    if (code)
        return code;
    fill(context, s, &card, aligned, odd);
    experiment_note_network(context, s);
    if (experiment_one_row(context))
        return SPIN_OK;
    compare(s, aligned);
    sheet_note(
        s,
        "The runtime's %d cycles per packet (6 to invoke, 1 to complete, 6 until it asks for the "
        "next) are the card model's inputs. One message, as in the runs of the card's RTL.",
        RUNTIME);
    sheet_note(s,
               "Cold: the first packets find no code in the instruction cache, and all HPUs that "
               "come before it is there wait 16 cycles. Warm: without that.");
    return SPIN_OK;
}
