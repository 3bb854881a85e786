/* SC'17 figure 7a: a message of 4 MiB is unpacked into blocks with gaps as long, by the card or,
 * once it is there, by the processor (A14). */
#include "figures.h"

#include "base/error.h"
#include "slides/type_bench.h"

#define MESSAGE (4u << 20)
#define GIB     1073741824.0

enum { BLOCKS = 9, WAYS = 4 }; /* 16 B to 1 MiB, by 4 */

static uint32_t block_at(int i) {
    return 16u << (2 * i);
}

static int measure(const struct experiment_context *context, uint64_t bytes, uint32_t block,
                   int way, double *rate, struct spin_error *err) {
    struct spin_layout *layout;
    int code = type_bench_vector(bytes / block, block, 2ull * block, &layout, err);
    if (code)
        return code;
    struct type_bench b = {
        .layout = layout,
        .options.strategy = way % 2 ? SPIN_TYPE_SPECIALISED : SPIN_TYPE_HOST,
        .ranks = context->setup.ranks,
    };
    const struct spin_world_options base = {.preset = way < 2 ? "sc17-int" : "sc17-dis"};
    code = type_bench(context, &base, &b, err);
    spin_layout_free(layout);
    *rate = (double)(bytes / block * block) / ((double)b.time_ps / 1e12) / GIB;
    return code;
}

static void judge(struct sheet *s, double rate[BLOCKS][WAYS]) {
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
}

int sc17_fig7a(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double rate[BLOCKS][WAYS];
    uint64_t bytes = context->setup.bytes ? context->setup.bytes : MESSAGE;
    if (bytes < block_at(0) || bytes >= 1u << 31)
        return spin_fail(err, SPIN_EARG, "--bytes: from %u to 2,147,483,647", block_at(0));
    if (context->setup.ranks % 2)
        return spin_fail(err, SPIN_EARG, "--ranks: ranks send in pairs, so their number is even");
    struct sheet_panel *p = sheet_panel(s, "strided", "Strided receive: bandwidth over blocks");
    p->log_x = true;
    sheet_column(p, "B", 0, "block");
    for (int way = 0; way < WAYS; way++)
        sheet_column(p, "GiB/s", 2, "%s (%s)", way % 2 ? "sPIN" : "RDMA/P4",
                     way < 2 ? "int" : "dis");
    for (int i = 0; i < BLOCKS && block_at(i) <= bytes; i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = block_at(i);
        for (int way = 0; way < WAYS; way++) {
            int code = measure(context, bytes, block_at(i), way, &rate[i][way], err);
            if (code)
                return code;
            row->value[1 + way] = rate[i][way];
        }
    }
    if (!experiment_one_row(context))
        judge(s, rate);
    sheet_note(s,
               "A message of 4 MiB, from the sender's call until the target's program knows that "
               "all blocks are in place. RDMA receives it packed, and one core copies it.");
    return SPIN_OK;
}
