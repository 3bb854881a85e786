/* What was busy when, as pictures: a row each for a rank's CPU, the card's port out and in, DMA and
 * HPUs, and an arrow for each packet with data. And packets, as a capture. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "nic/wire_capture.h"
#include "sim/world_private.h"

static void not_whole(struct spin_world *w) {
    struct spin_error err;
    int code = timeline_whole(&w->timeline, &err);
    world_fail(w, (enum spin_code)code, "%s", err.text);
}

static bool is_noted(const struct spin_world *w) {
    return w->trace_path || w->picture_path;
}

static void note(struct spin_world *w, uint32_t rank, uint32_t row, const char *name,
                 uint64_t start_ps, uint64_t end_ps, uint64_t bytes, int64_t peer,
                 const char *fault) {
    if (!is_noted(w))
        return;
    struct timeline_box box = {.start_ps = start_ps,
                               .length_ps = end_ps - start_ps,
                               .bytes = bytes,
                               .peer = peer,
                               .rank = rank,
                               .row = row,
                               .fault = fault};
    snprintf(box.name, sizeof box.name, "%s", name);
    if (!timeline_box(&w->timeline, &box))
        not_whole(w);
}

void world_note(struct spin_world *w, uint32_t rank, uint32_t row, const char *name,
                uint64_t start_ps, uint64_t end_ps, uint64_t bytes, int64_t peer) {
    note(w, rank, row, name, start_ps, end_ps, bytes, peer, NULL);
}

void world_note_fault(struct spin_world *w, uint32_t rank, uint32_t row, const char *name,
                      uint64_t start_ps, uint64_t end_ps, uint64_t bytes, const char *fault) {
    note(w, rank, row, name, start_ps, end_ps, bytes, -1, fault);
}

void world_note_packet(struct spin_world *w, uint32_t from, uint64_t sent_ps, uint32_t to,
                       uint64_t taken_ps) {
    if (is_noted(w) && !timeline_arrow(&w->timeline, (struct trace_end){from, ROW_NIC_OUT, sent_ps},
                                       (struct trace_end){to, ROW_NIC_IN, taken_ps}, false))
        not_whole(w);
}

static void row_name(const void *user, uint32_t row, char *name, size_t room) {
    static const char *const names[] = {"CPU", "NIC out", "NIC in", "DMA"};
    uint32_t cores = ROW_HPU + ((const struct spin_world *)user)->most_hpus;
    if (row < ROW_HPU)
        snprintf(name, room, "%s", names[row]);
    else if (row < cores)
        snprintf(name, room, "HPU %u", row - ROW_HPU);
    else if (row == world_kernel_row(user))
        snprintf(name, room, "kernel");
    else
        snprintf(name, room, "CPU %u", row - cores + 1);
}

static unsigned row_colour(const void *user, uint32_t row) {
    uint32_t cores = ROW_HPU + ((const struct spin_world *)user)->most_hpus;
    return row < ROW_HPU ? row : row < cores ? ROW_HPU : ROW_CPU;
}

int world_draw(struct spin_world *w, struct spin_error *err) {
    const struct timeline_rows rows = {.ranks = w->ranks,
                                       .rows = w->params.paging.memory == PAGING_OFF
                                                   ? world_cpu_row(w, w->cores_used)
                                                   : world_kernel_row(w) + 1,
                                       .optional = ROW_HPU, /* what is never busy has no row */
                                       .user = w,
                                       .name = row_name,
                                       .colour = row_colour};
    int code = w->trace_path ? timeline_trace(&w->timeline, &rows, w->trace_path, err) : SPIN_OK;
    if (!code && w->picture_path)
        code = timeline_svg(&w->timeline, &rows, w->picture_path, err);
    return code;
}

int world_capture(struct spin_world *w, const char *path, struct spin_error *err) {
    w->pcap = calloc(1, sizeof *w->pcap);
    if (!w->pcap)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    w->pcap->mtu_bytes = UINT32_MAX; /* nothing is lent */
    return wire_capture_open(w->pcap, path, err);
}

void world_capture_packet(struct spin_world *w, const struct nic_packet *packet) {
    wire_capture_packet(w->pcap, w->now_ps / 1000, packet, CAPTURE_NONE);
}

int world_capture_end(struct spin_world *w, struct spin_error *err) {
    return capture_close(&w->pcap->file, true, err);
}

void world_capture_free(struct spin_world *w) {
    if (w->pcap)
        capture_close(&w->pcap->file, false, NULL);
    free(w->pcap);
}
