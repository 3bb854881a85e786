/* ISCA'21 figure 11: throughput of a core. The same kernels on the HPU (rig, 1 GHz) and compiled
 * for the machine at hand, packets preloaded and shared out, one worker up to all cores.
 *
 * The machine is another than the paper's, so its verdicts are about this machine. */
#include "figures.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "pspin/workbench.h"

#define MOST_COUNTS 8

/* HPU over the best other core, as published (B14). */
static const struct {
    const char *name;
    double factor;
} published[] = {{"histogram", 1.3},     {"kvstore", 1.9},        {"reduce", 5.3},
                 {"aggregate", 1 / 1.8}, {"filtering", 1 / 40.0}, {"strided_ddt", 1 / 36.0}};

/* 1, 2, 4, ... and all. */
static int thread_counts(int count[MOST_COUNTS]) {
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    if (all > BENCH_PACKETS)
        all = BENCH_PACKETS;
    int counts = 0;
    for (int threads = 1; threads < all && counts < MOST_COUNTS - 1; threads *= 2)
        count[counts++] = threads;
    count[counts++] = all > 0 ? (int)all : 1;
    return counts;
}

static double gbit(double ns) {
    return 8.0 * BENCH_PACKET_BYTES / ns;
}

int pspin_fig11(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    int count[MOST_COUNTS], counts = thread_counts(count);
    double factor[BENCH_KERNELS];
    struct sheet_panel *p =
        sheet_panel(s, "percore", "Throughput of a core, 1 KiB packets, the same kernels");
    p->by_name = p->log_y = true;
    sheet_column(p, "", 0, "workload");
    sheet_column(p, "Gbit/s", 2, "HPU at 1 GHz");
    for (int i = 0; i < counts; i++)
        sheet_column(p, "Gbit/s", 2, "here, %d thread%s", count[i], count[i] > 1 ? "s" : "");
    struct sheet_panel *t = sheet_panel(s, "handlers", "A packet on the HPU");
    t->by_name = true;
    sheet_column(t, "", 0, "workload");
    sheet_column(t, "ns", 1, "time");
    sheet_column(t, "", 1, "instructions");
    sheet_column(t, "", 1, "accesses to L2");

    for (int k = 0; k < BENCH_KERNELS; k++) {
        struct bench_hpu hpu;
        int code = bench_on_hpu(context, &bench_works[k], &hpu, err);
        struct sheet_row *time = sheet_row(s, t, bench_works[k].name);
        struct sheet_row *row = sheet_row(s, p, bench_works[k].name);
        if (code)
            return code;
        time->value[1] = hpu.mean_cycles; /* 1 GHz: a cycle is a ns */
        time->value[2] = hpu.mean_instructions;
        time->value[3] = hpu.remote_accesses;
        row->value[1] = gbit(hpu.mean_cycles);
        for (int i = 0; i < counts; i++) {
            double ns;
            code = bench_on_machine(&bench_works[k], count[i], &ns, err);
            if (code)
                return code;
            row->value[2 + i] = gbit(ns);
        }
        factor[k] = row->value[1] / row->value[1 + counts];
    }
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++)
        for (int k = 0; k < BENCH_KERNELS; k++)
            if (strcmp(published[i].name, bench_works[k].name) == 0)
                sheet_because(sheet_claim(s, "B14", "x", factor[k], published[i].factor,
                                          "%s: HPU over a core here", bench_works[k].name),
                              "published against the better of a Xeon 6154 and a Cortex-A53");
    char machine[200];
    bench_machine_name(machine, sizeof machine);
    sheet_note(s, "this machine: %s; timed, so no two runs are the same", machine);
    sheet_note(s, "HPU: one core alone (the paper: 32 at once, with their conflicts), instruction "
                  "cache warm; DMA commands of strided_ddt are issued, not waited for.");
    sheet_note(s, "Kernels are our own C, the same source for both; every result was equal on "
                  "both. The 512 packets fit this machine's caches after the first pass.");
    return SPIN_OK;
}
