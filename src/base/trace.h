/* A trace that Perfetto and chrome://tracing open: one process per rank, one row per cpu and a nic
 * (and, in the packet model, a link). Times in microseconds with the picoseconds as decimals. */
#ifndef SPIN_BASE_TRACE_H
#define SPIN_BASE_TRACE_H

#include <stdbool.h>

#include "base/file.h"

struct trace {
    struct file_out file;
    bool any;
};

enum { TRACE_CPU = 1, TRACE_NIC_SEND = 1000, TRACE_NIC_RECEIVE = 2000, TRACE_LINK = 3000 };

int trace_open(struct trace *t, const char *path, struct spin_error *err);
/* Names process `rank` and row `row` ("cpu 0") in it. */
void trace_process(struct trace *t, uint32_t rank, const char *name);
void trace_row(struct trace *t, uint32_t rank, uint32_t row, const char *name, unsigned index);
/* A box on a row. `bytes` and `peer` (if not negative) are shown with it. */
void trace_box(struct trace *t, uint32_t rank, uint32_t row, const char *name, uint64_t start_ps,
               uint64_t length_ps, uint64_t bytes, int64_t peer);
/* A box of what was done for a packet: whose it is is shown with it. */
struct trace_packet {
    uint64_t packet, arrival_ps;
    uint32_t message, context, flow;
};
void trace_packet_box(struct trace *t, uint32_t rank, uint32_t row, const char *name,
                      uint64_t start_ps, uint64_t length_ps, uint64_t bytes,
                      const struct trace_packet *of);
/* An arrow from the box on a row that holds `from_ps` to the one that begins at `to_ps`: what was
 * sent there came here. `id` is its own. */
struct trace_end {
    uint32_t rank, row;
    uint64_t at_ps;
};
void trace_arrow(struct trace *t, uint64_t id, struct trace_end from, struct trace_end to);
/* Arrows along boxes that are written one by one, in any order: they lead from the first one by the
 * time of each to the last one. */
enum trace_step { TRACE_FIRST, TRACE_NEXT, TRACE_LAST };
void trace_step(struct trace *t, enum trace_step step, uint64_t id, struct trace_end at);
/* Completes the file, or removes what was written of it. */
int trace_close(struct trace *t, bool keep, struct spin_error *err);

#endif
