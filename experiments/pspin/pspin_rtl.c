/* The card beside its public RTL under Verilator: one message of so many packets, one every `delay`
 * cycles (0: one per cycle), handlers by gcc 12 -O3 for rv32imac on both sides. */
#include "figures.h"

#include <math.h>

#include "base/error.h"
#include "experiment_card.h"
#include "hpu/timing.h"
#include "pspin/card_bench.h"
#include "workload.h"

enum { EMPTY, PING_PONG, COPY_FROM_HOST, COPY_TO_HOST, REDUCE };
static const struct {
    const char *name, *entry;
} handlers[] = {
    [EMPTY] = {"empty", "empty_ph"},
    [PING_PONG] = {"ping-pong", "ping_pong_ph"},
    [COPY_FROM_HOST] = {"from host", "fetch_and_send_ph"},
    [COPY_TO_HOST] = {"to host", "copy_to_host_start_ph"},
    [REDUCE] = {"reduce", "reduce_each_ph"},
};

/* What is compared, of ours and of the RTL. Latency is from a packet's arrival at the NIC to its
 * feedback, throughput from the first feedback to the last. */
enum { INSTRUCTIONS, MEAN, LEAST, MEDIAN, MOST, LATENCY, SHORTEST, LONGEST, GBIT, HPUS, VALUES };
static const struct {
    const char *name, *unit;
    int decimals;
} values[VALUES] = {
    [INSTRUCTIONS] = {"instructions", "", 0}, [MEAN] = {"mean", "cycles", 1},
    [LEAST] = {"least", "cycles", 0},         [MEDIAN] = {"median", "cycles", 1},
    [MOST] = {"most", "cycles", 0},           [LATENCY] = {"latency", "ns", 1},
    [SHORTEST] = {"shortest", "ns", 0},       [LONGEST] = {"longest", "ns", 0},
    [GBIT] = {"throughput", "Gbit/s", 1},     [HPUS] = {"ran", "HPUs", 0},
};

static const struct {
    int handler;
    uint32_t bytes, packets, delay;
    double rtl[VALUES];
} rows[] = {
    {PING_PONG, 1024, 32, 20, {29, 40.7, 32, 38, 88, 119.031, 106, 154, 443.972, 5}},
    {EMPTY, 1024, 32, 20, {4, 5.5, 5, 5, 21, 62.5, 62, 78, 420.45, 2}},
    {PING_PONG, 64, 32, 0, {29, 65.4, 31, 79.5, 94, 136.906, 110, 188, 182.437, 20}},
    {PING_PONG, 64, 32, 20, {29, 34.4, 31, 31, 87, 63.281, 60, 114, 28.042, 5}},
    {PING_PONG, 256, 32, 0, {29, 63.7, 33, 65, 97, 201.375, 130, 273, 382.458, 19}},
    {PING_PONG, 256, 32, 20, {29, 34.4, 31, 31, 87, 72.656, 69, 120, 111.578, 5}},
    {PING_PONG, 512, 32, 0, {29, 61.7, 38, 66.5, 91, 259.25, 132, 379, 460.058, 8}},
    {PING_PONG, 512, 32, 20, {29, 36.2, 32, 33, 87, 86.688, 82, 129, 221.599, 5}},
    {PING_PONG, 1024, 32, 0, {29, 47.3, 35, 42, 88, 386.5, 154, 619, 512, 6}},
    {COPY_FROM_HOST, 64, 32, 0, {40, 113.5, 62, 135.5, 155, 206.344, 167, 298, 108.712, 20}},
    {COPY_FROM_HOST, 64, 32, 20, {40, 68.3, 62, 62, 142, 100.594, 91, 169, 29.284, 8}},
    {COPY_FROM_HOST, 256, 32, 0, {40, 131.4, 68, 135, 180, 277.406, 183, 381, 292.571, 20}},
    {COPY_FROM_HOST, 256, 32, 20, {40, 75, 66, 69, 146, 116.375, 105, 179, 116.278, 8}},
    {COPY_FROM_HOST, 512, 32, 0, {40, 124.9, 56, 125.5, 237, 392.656, 205, 558, 331.53, 16}},
    {COPY_FROM_HOST, 512, 32, 20, {40, 85, 72, 78, 150, 147.875, 122, 205, 236.454, 8}},
    {EMPTY, 64, 32, 0, {4, 12.4, 5, 11.5, 28, 55.5, 46, 71, 387.122, 20}},
    {EMPTY, 128, 32, 0, {4, 8.9, 5, 5, 22, 63.125, 48, 86, 480.97, 11}},
    {EMPTY, 256, 32, 0, {4, 6.2, 5, 5, 21, 86.406, 54, 131, 587.852, 7}},
    {COPY_TO_HOST, 1024, 32, 0, {18, 46.5, 19, 52, 62, 396, 148, 644, 481.882, 4}},
    {COPY_FROM_HOST, 1024, 32, 20, {40, 157.9, 83, 153, 208, 433.75, 253, 580, 269.588, 8}},
    {COPY_TO_HOST, 1024, 32, 20, {18, 25.6, 19, 20.5, 59, 119.531, 108, 148, 437.848, 4}},
    {REDUCE, 1024, 32, 20, {1267, 2019.9, 2013, 2014, 2052, 3125.031, 2071, 5835, 60.638, 20}},
    {EMPTY, 64, 128, 0, {4, 6.9, 5, 5, 28, 57.375, 42, 86, 474.628, 30}},
    {EMPTY, 512, 64, 0, {4, 5.4, 5, 5, 21, 266.953, 62, 487, 528.787, 4}},
    {EMPTY, 1024, 64, 0, {4, 5.2, 5, 5, 21, 534.797, 78, 1007, 520.258, 2}},
    {EMPTY, 64, 16, 200, {4, 6, 5, 5, 21, 33, 32, 48, 2.574, 1}},
    {EMPTY, 1024, 16, 200, {4, 6, 5, 5, 21, 63, 62, 78, 41.18, 1}},
    {COPY_FROM_HOST, 1024, 32, 0, {40, 165.5, 78, 156.5, 254, 704.906, 253, 1092, 292.909, 11}},
    {PING_PONG, 64, 16, 200, {29, 34.5, 31, 31, 87, 63.375, 60, 114, 2.607, 1}},
    {PING_PONG, 1024, 16, 200, {29, 34.5, 31, 31, 87, 108, 105, 153, 41.626, 1}},
    {COPY_FROM_HOST, 64, 16, 200, {40, 67, 62, 62, 142, 95.875, 91, 169, 2.628, 1}},
    {COPY_FROM_HOST, 1024, 16, 200, {40, 82, 77, 77, 157, 155.5, 151, 223, 41.967, 1}},
    {COPY_TO_HOST, 1024, 16, 200, {18, 21.5, 19, 19, 59, 109.5, 107, 147, 41.514, 1}},
    {EMPTY, 64, 128, 1, {4, 6.9, 5, 5, 28, 57.375, 42, 86, 474.628, 30}},
    {EMPTY, 128, 16, 200, {4, 6, 5, 5, 21, 35, 34, 50, 5.147, 1}},
    {EMPTY, 256, 16, 200, {4, 6, 5, 5, 21, 39, 38, 54, 10.295, 1}},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void headers(void *user, uint32_t i, uint8_t *packet) {
    workload_headers(packet, *(const uint32_t *)user, i, 0x0a000001 + i);
}

/* The bench's driver gives a context this host address: 47 bytes into a line. */
#define HOST_ADDRESS 0xdeadbeefdeadbeefull
#define COPIED_BYTES 4096

static int run(const struct experiment_context *context, int row, struct card_stats *stats,
               struct spin_error *err) {
    struct card_bench b;
    uint32_t bytes = experiment_size(context, rows[row].bytes);
    struct card_bench_setup setup = {.image = "rtl",
                                     .config = "held_handles=1",
                                     .entry = handlers[rows[row].handler].entry,
                                     .memory_bytes = 64,
                                     .scratch_bytes = bytes > 1024 ? bytes : 1024,
                                     .host_bytes = COPIED_BYTES,
                                     .host_address = HOST_ADDRESS};
    struct card_bench_traffic traffic = {.packets = rows[row].packets,
                                         .bytes = bytes,
                                         .messages = 1,
                                         .interval_ps =
                                             1000 * (rows[row].delay ? rows[row].delay : 1),
                                         .fill = headers,
                                         .user = &bytes};
    int code = card_bench_open(&b, context, &setup, err);
    if (code)
        return code;
    code = card_bench_run(&b, &traffic, stats, err);
    card_bench_close(&b);
    return code;
}

/* What the RTL counts has the runtime's call in it (HPU_CALL_*), which is added to ours. */
static void take(const struct card_stats *stats, double ours[VALUES]) {
    const struct card_handler_stats *h = &stats->handler[SPIN_PAYLOAD_HANDLER];
    const struct spin_spread *c = &h->spread, *l = &stats->part[CARD_PART_TOTAL];
    double runs = (double)h->runs;
    ours[INSTRUCTIONS] = (double)h->instructions / runs + HPU_CALL_INSTRUCTIONS;
    ours[MEAN] = (double)h->cycles / runs + HPU_CALL_CYCLES;
    ours[LEAST] = (double)c->least + HPU_CALL_CYCLES;
    ours[MEDIAN] = (double)c->p50 + HPU_CALL_CYCLES;
    ours[MOST] = (double)c->most + HPU_CALL_CYCLES;
    ours[LATENCY] = (double)l->sum / (double)l->count / 1000;
    ours[SHORTEST] = (double)l->least / 1000;
    ours[LONGEST] = (double)l->most / 1000;
    ours[GBIT] = (double)stats->throughput_mbit / 1000;
    ours[HPUS] = stats->hpus_used;
}

static struct sheet_panel *panel(struct sheet *s, const char *name, const char *title) {
    struct sheet_panel *p = sheet_panel(s, name, title);
    p->by_name = true;
    sheet_column(p, "", 0, "load");
    for (int i = 0; i < VALUES; i++)
        sheet_column(p, values[i].unit, values[i].decimals, "%s", values[i].name);
    return p;
}

static void add(struct sheet *s, struct sheet_panel *p, int k, uint32_t bytes,
                const double v[VALUES]) {
    char label[32];
    snprintf(label, sizeof label, "%s %u B x %u /%u", handlers[rows[k].handler].name, bytes,
             rows[k].packets, rows[k].delay);
    struct sheet_row *row = sheet_row(s, p, label);
    for (int i = 0; i < VALUES; i++)
        row->value[1 + i] = v[i];
}

/* In how many rows a value is within so much of the RTL's. */
static int within(double ours[ROWS][VALUES], int value, double part) {
    int n = 0;
    for (int k = 0; k < ROWS; k++)
        n += fabs(ours[k][value] / rows[k].rtl[value] - 1) <= part;
    return n;
}

static void compare(struct sheet *s, double ours[ROWS][VALUES]) {
    static const struct {
        const char *what;
        int value;
        double part;
        int rows; /* in at least so many */
    } bars[] = {{"mean latency", LATENCY, 0.05, (ROWS * 9 + 9) / 10},
                {"mean latency", LATENCY, 0.10, ROWS},
                {"throughput", GBIT, 0.05, (ROWS * 9 + 9) / 10},
                {"throughput", GBIT, 0.10, ROWS},
                {"mean handler cycles", MEAN, 0.10, ROWS}};
    for (size_t i = 0; i < sizeof bars / sizeof bars[0]; i++) {
        int n = within(ours, bars[i].value, bars[i].part);
        sheet_shape(s, "RTL", n >= bars[i].rows, "%s: %d of %d rows within %.0f %%, at least %d",
                    bars[i].what, n, ROWS, 100 * bars[i].part, bars[i].rows);
    }
}

/* With one size: a row before it is the same load. */
static bool is_again(int k) {
    for (int i = 0; i < k; i++)
        if (rows[i].handler == rows[k].handler && rows[i].packets == rows[k].packets &&
            rows[i].delay == rows[k].delay)
            return true;
    return false;
}

int pspin_rtl(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double ours[ROWS][VALUES];
    struct sheet_panel *p =
        panel(s, "ours", "Ours: handlers in cycles, latency from the NIC in ns");
    uint64_t bytes = context->setup.bytes;
    if (bytes && (bytes < WORKLOAD_HEADERS || bytes > COPIED_BYTES))
        return spin_fail(err, SPIN_EARG, "--bytes: packets have %u to %d B here", WORKLOAD_HEADERS,
                         COPIED_BYTES);
    for (int k = 0; k < ROWS; k++) {
        struct card_stats stats;
        if (context->setup.bytes && is_again(k))
            continue;
        int code = run(context, k, &stats, err);
        if (code)
            return code;
        take(&stats, ours[k]);
        add(s, p, k, experiment_size(context, rows[k].bytes), ours[k]);
    }
    experiment_note_network(context, s);
    if (experiment_one_row(context))
        return SPIN_OK;
    p = panel(s, "rtl", "The RTL's");
    for (int k = 0; k < ROWS; k++)
        add(s, p, k, rows[k].bytes, rows[k].rtl);
    compare(s, ours);
    sheet_note(
        s,
        "A load is handler, bytes, packets / cycles between them. Handlers of "
        "experiments/handlers/rtl.c by gcc -O3, with %d instructions and cycles of the "
        "runtime's call, which the RTL's counts have in them. held_handles=1: as in the RTL, "
        "a handler does not wait for a command that was held back.",
        HPU_CALL_CYCLES);
    return SPIN_OK;
}
