/* SC'17 figure 7a: a message of 4 MiB is unpacked into blocks with gaps as long, by the card or,
 * once it is there, by the processor (A14). */
#include "figures.h"

#include "sc17/microbench.h"

#define MESSAGE (4u << 20)
#define GIB     1073741824.0

enum { BLOCKS = 9, WAYS = 4 }; /* 16 B to 1 MiB, by 4 */

static uint32_t block_at(int i) {
    return 16u << (2 * i);
}

static int measure(const struct experiment_context *context, uint32_t block, int way, double *rate,
                   struct spin_error *err) {
    const struct p4_setup setup = {
        .variant = way % 2 ? P4_STREAM : P4_RDMA,
        .bytes = microbench_size(context, MESSAGE),
        .block = block,
        .world = {.preset = way < 2 ? "sc17-int" : "sc17-dis"},
    };
    double us;
    int code = microbench(context, p4_strided, setup, &us, err);
    *rate = setup.bytes / (us / 1e6) / GIB;
    return code;
}

int sc17_fig7a(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double rate[BLOCKS][WAYS];
    struct sheet_panel *p = sheet_panel(s, "strided", "Strided receive: bandwidth over blocks");
    p->log_x = true;
    sheet_column(p, "B", 0, "block");
    for (int way = 0; way < WAYS; way++)
        sheet_column(p, "GiB/s", 2, "%s (%s)", way % 2 ? "sPIN" : "RDMA/P4",
                     way < 2 ? "int" : "dis");
    for (int i = 0; i < BLOCKS; i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = block_at(i);
        for (int way = 0; way < WAYS; way++) {
            int code = measure(context, block_at(i), way, &rate[i][way], err);
            if (code)
                return code;
            row->value[1 + way] = rate[i][way];
        }
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    const double *large = rate[BLOCKS - 1], *at_256 = rate[2];
    struct sheet_claim *c =
        sheet_claim(s, "A14", "GiB/s", large[1], 50, "sPIN, large blocks, int: near line rate");
    sheet_because(c, "the link carries 46.6 GiB/s (400 Gbit/s); 50 is 50 GB/s");
    c = sheet_claim(s, "A14", "GiB/s", large[0], 8.7, "RDMA, large blocks, int");
    if (c->verdict == SHEET_DIFFERS)
        sheet_because(c, "the copy is charged a cycle per 8 B and 150 GiB/s of memory; the paper's "
                         "processor is slower than both");
    sheet_shape(s, "A14", rate[0][1] < 0.5 * large[1], "small blocks: bound by DMA transactions");
    sheet_shape(s, "A14", at_256[1] > 0.8 * large[1], "from 256 B on within 20 %% of line rate");
    bool above = true;
    for (int i = 2; i < BLOCKS; i++)
        above &= rate[i][1] > rate[i][0] && rate[i][3] > rate[i][2];
    sheet_shape(s, "A14", above, "sPIN above RDMA from 256 B on, on both cards");
    sheet_note(s,
               "A message of 4 MiB, from the sender's call until the target's program knows that "
               "all blocks are in place. RDMA receives it packed, and one core copies it.");
    return SPIN_OK;
}
