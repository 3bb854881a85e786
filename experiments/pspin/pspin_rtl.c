/* The card beside its public RTL (cycle counts there: stock gcc 12, rv32imac): four handlers on one
 * message of 32 packets of 1,024 B, one every 20 ns; an unloaded card; empty handlers back to back.
 */
#include "figures.h"

#include <math.h>

#include "hpu/timing.h"
#include "pspin/card_bench.h"
#include "workload.h"

/* Handlers of the library that do the same work with the same instruction mix. What the RTL counts
 * has the runtime's call in it (HPU_CALL_*), which is added to ours. */
static const struct {
    const char *name, *image, *entry;
    double instructions, cycles[4]; /* of the RTL: mean, least, median, most */
    double latency[3];              /* from arrival at the NIC, ns: mean, least, most */
} rows[] = {
    {"empty", "empty", "empty_ph", 4, {5.5, 5, 5, 21}, {62.5, 62, 78}},
    {"ping-pong", "ping_pong", "ping_pong_ph", 29, {40.8, 32, 38, 88}, {119.3, 106, 155}},
    {"copy to host",
     "copy_to_host",
     "copy_to_host_start_ph",
     18,
     {22.9, 19, 20, 51},
     {114.8, 108, 139}},
    {"reduce", "reduce", "reduce_words_ph", 1267, {2020, 2013, 2016, 2052}, {NAN, NAN, NAN}},
};
enum { ROWS = sizeof rows / sizeof rows[0], EMPTY = 0, PING_PONG = 1, REDUCE = 3 };

static void headers(void *user, uint32_t i, uint8_t *packet) {
    workload_headers(packet, *(const uint32_t *)user, i, 0x0a000001 + i);
}

static int run(const struct experiment_context *context, int row, uint32_t packets, uint32_t bytes,
               uint64_t interval_ps, struct card_stats *stats, struct spin_error *err) {
    struct card_bench b;
    struct card_bench_setup setup = {.image = rows[row].image,
                                     .entry = rows[row].entry,
                                     .of_workload = true,
                                     .memory_bytes = 64,
                                     .scratch_bytes = 1024,
                                     .host_bytes = 4096};
    struct card_bench_traffic traffic = {.packets = packets,
                                         .bytes = bytes,
                                         .messages = 1,
                                         .interval_ps = interval_ps,
                                         .fill = headers,
                                         .user = &bytes};
    int code = card_bench_open(&b, context, &setup, err);
    if (code)
        return code;
    code = card_bench_run(&b, &traffic, stats, err);
    card_bench_close(&b);
    return code;
}

static void handler_row(struct sheet *s, struct sheet_panel *p, int k,
                        const struct card_stats *stats) {
    const struct card_handler_stats *h = &stats->handler[SPIN_PAYLOAD_HANDLER];
    const struct spin_spread *c = &h->spread, *l = &stats->part[CARD_PART_TOTAL];
    double runs = (double)h->runs, mean = (double)h->cycles / runs;
    double ours[] = {(double)h->instructions / runs + HPU_CALL_INSTRUCTIONS,
                     mean + HPU_CALL_CYCLES,
                     (double)c->least + HPU_CALL_CYCLES,
                     (double)c->p50 + HPU_CALL_CYCLES,
                     (double)c->most + HPU_CALL_CYCLES,
                     (double)l->sum / (double)l->count / 1000,
                     (double)l->least / 1000,
                     (double)l->most / 1000};
    struct sheet_row *row = sheet_row(s, p, rows[k].name);
    for (int i = 0; i < 8; i++)
        row->value[1 + i] = ours[i];
    sheet_claim(s, "RTL", "", ours[0], rows[k].instructions, "%s: instructions", rows[k].name);
    struct sheet_claim *claim =
        sheet_claim(s, "RTL", "cycles", ours[2], rows[k].cycles[1], "%s: least", rows[k].name);
    if (claim->verdict == SHEET_DIFFERS)
        sheet_because(claim, "one instruction more, and one that waits for the load before it");
    claim = sheet_claim(s, "RTL", "cycles", ours[3], rows[k].cycles[2], "%s: median", rows[k].name);
    if (k == PING_PONG)
        sheet_because(claim, "%.0f cycles lost to packets that pass through L1 meanwhile",
                      (double)stats->conflict_cycles / runs);
    sheet_claim(s, "RTL", "cycles", ours[1], rows[k].cycles[0], "%s: mean", rows[k].name);
    if (k == REDUCE)
        return; /* no latency was measured */
    claim = sheet_claim(s, "RTL", "ns", ours[5], rows[k].latency[0], "%s: latency from NIC, mean",
                        rows[k].name);
    if (k != EMPTY)
        sheet_calibrated(claim, "latencies of commands were fitted to such runs");
}

static int handlers(const struct experiment_context *context, struct sheet *s,
                    struct spin_error *err) {
    static const char *const titles[] = {"instructions", "mean",  "least",  "median",
                                         "most",         "mean ", "least ", "most "};
    struct sheet_panel *p = sheet_panel(
        s, "handlers", "Handlers in cycles, and latency from the NIC in ns; 1,024 B every 20 ns");
    p->by_name = true;
    sheet_column(p, "", 0, "handler");
    for (int i = 0; i < 8; i++)
        sheet_column(p, i == 0 ? "" : i < 5 ? "cycles" : "ns", 1, "%s", titles[i]);
    for (int k = 0; k < ROWS; k++) {
        struct card_stats stats;
        int code = run(context, k, 32, 1024, 20000, &stats, err);
        if (code)
            return code;
        handler_row(s, p, k, &stats);
        if (k != REDUCE)
            continue;
        sheet_claim(s, "RTL", "Gbit/s", (double)stats.throughput_mbit / 1000, 60.6,
                    "reduce: throughput");
        sheet_claim(s, "RTL", "HPUs", stats.hpus_used, 20, "reduce: HPUs that ran");
    }
    return SPIN_OK;
}

static int loads(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    static const struct {
        uint32_t bytes;
        double latency, gbit, hpus;
    } rtl[] = {{64, 32, 485, 30}, {1024, 62, 520, 2}};
    struct sheet_panel *p = sheet_panel(s, "empty", "Empty handlers: unloaded, and back to back");
    sheet_column(p, "B", 0, "packet size");
    sheet_column(p, "ns", 1, "latency from NIC");
    sheet_column(p, "ns", 1, "of the first packet");
    sheet_column(p, "Gbit/s", 1, "throughput");
    sheet_column(p, "HPUs", 0, "ran");
    for (int i = 0; i < 2; i++) {
        struct card_stats slow, fast;
        uint32_t bytes = rtl[i].bytes;
        int code = run(context, EMPTY, 64, bytes, 200000, &slow, err);
        if (!code)
            code = run(context, EMPTY, 20000, bytes, 0, &fast, err);
        if (code)
            return code;
        const struct spin_spread *l = &slow.part[CARD_PART_TOTAL];
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = bytes;
        row->value[1] = (double)l->p50 / 1000;
        row->value[2] = (double)l->most / 1000;
        row->value[3] = (double)fast.throughput_mbit / 1000;
        row->value[4] = fast.hpus_used;
        struct sheet_claim *c = sheet_claim(s, "RTL", "ns", row->value[1], rtl[i].latency,
                                            "empty, unloaded, %u B: latency from NIC", bytes);
        if (i == 0)
            sheet_calibrated(c, "the time to write a packet to L2 was fitted to this");
        c = sheet_claim(s, "RTL", "Gbit/s", row->value[3], rtl[i].gbit,
                        "empty, back to back, %u B: throughput", bytes);
        if (i == 1)
            sheet_because(c, "more than 512 bit a cycle: a rate over few packets there");
        sheet_claim(s, "RTL", "HPUs", row->value[4], rtl[i].hpus,
                    "empty, back to back, %u B: HPUs that ran", bytes);
    }
    return SPIN_OK;
}

int pspin_rtl(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    int code = handlers(context, s, err);
    if (!code)
        code = loads(context, s, err);
    sheet_note(s,
               "Handlers of handlers/, compiled by clang, with %d instructions and cycles of the "
               "runtime's call, which the RTL's counts have in them.",
               HPU_CALL_CYCLES);
    return code;
}
