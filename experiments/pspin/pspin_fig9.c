/* ISCA'21 figure 9: packets in and out again, to the network (UDP ping-pong) and to the host, sent
 * from L1 and from the L2 packet buffer. */
#include "figures.h"

#include <string.h>

#include "base/error.h"
#include "experiment_card.h"
#include "pspin/card_bench.h"

#define PACKETS 4096

static const uint32_t sizes[] = {64, 128, 256, 512, 1024};
enum { SIZES = 5, HEADERS = 28 };
static const struct {
    const char *entry, *title;
} flows[] = {{"network_l1_ph", "to network, from L1"},
             {"network_l2_ph", "to network, from L2"},
             {"host_l1_ph", "to host, from L1"},
             {"host_l2_ph", "to host, from L2"},
             {"network_written_ph", "to network, from L2, swapped there"}};
enum { FLOWS = 5, PUBLISHED = 4 };

/* An IPv4 header without options and a UDP header, so that there is something to swap. */
static void headers(void *user, uint32_t i, uint8_t *packet) {
    uint32_t bytes = *(const uint32_t *)user, source = 0x0a000001 + i, dest = 0x0a00ffff;
    packet[0] = 0x45;
    packet[2] = (uint8_t)bytes;
    packet[3] = (uint8_t)(bytes >> 8);
    memcpy(packet + 12, &source, 4);
    memcpy(packet + 16, &dest, 4);
    packet[20] = 1;
    packet[22] = 2;
}

static int measure(const struct experiment_context *context, const struct card_bench_setup *setup,
                   uint32_t bytes, double *gbit, double *instructions, struct spin_error *err) {
    struct card_bench b;
    struct card_stats stats;
    struct card_bench_traffic traffic = {
        .packets = PACKETS, .bytes = bytes, .messages = 4, .fill = headers, .user = &bytes};
    int code = card_bench_open(&b, context, setup, err);
    if (code)
        return code;
    code = card_bench_run(&b, &traffic, &stats, err);
    if (!code) {
        *gbit = (double)stats.throughput_mbit / 1000;
        *instructions = (double)stats.handler[SPIN_PAYLOAD_HANDLER].instructions / PACKETS;
    }
    card_bench_close(&b);
    return code;
}

int pspin_fig9(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double gbit[FLOWS][SIZES], rate, instructions;
    int count = experiment_sizes(context, SIZES);
    if (context->setup.bytes && context->setup.bytes < HEADERS)
        return spin_fail(err, SPIN_EARG, "--bytes: a packet with headers has %d B at least",
                         HEADERS);
    for (int f = 0; f < FLOWS; f++)
        for (int z = 0; z < count; z++) {
            struct card_bench_setup setup = {
                .image = "outbound", .entry = flows[f].entry, .host_bytes = 1 << 20};
            uint32_t bytes = experiment_size(context, sizes[z]);
            int code = measure(context, &setup, bytes, &gbit[f][z], &instructions, err);
            if (code)
                return code;
        }
    /* The library's handler, which finds the UDP header behind an IP header of any length. */
    struct card_bench_setup ping_pong = {
        .image = "ping_pong", .entry = "ping_pong_ph", .of_workload = true};
    int code =
        measure(context, &ping_pong, experiment_size(context, 64), &rate, &instructions, err);
    if (code)
        return code;
    struct sheet_panel *p = sheet_panel(s, "outbound", "Outbound throughput over packet size");
    p->log_x = true;
    sheet_column(p, "B", 0, "packet size");
    for (int f = 0; f < FLOWS; f++)
        sheet_column(p, "Gbit/s", 1, "%s", flows[f].title);
    for (int z = 0; z < count; z++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = experiment_size(context, sizes[z]);
        for (int f = 0; f < FLOWS; f++)
            row->value[1 + f] = gbit[f][z];
    }
    experiment_note_network(context, s);
    if (experiment_one_row(context))
        return SPIN_OK;
    for (int f = 0; f < PUBLISHED; f++) {
        if (f % 2) {
            sheet_bound(s, "B12", "Gbit/s", gbit[f][0], 400, false, "%s, 64 B, at least",
                        flows[f].title);
            continue;
        }
        sheet_claim(s, "B12", "Gbit/s", gbit[f][0], 200, "%s, 64 B", flows[f].title);
    }
    for (int f = 0; f < PUBLISHED; f++)
        sheet_bound(s, "B12", "Gbit/s", gbit[f][3], 400, false, "%s, 512 B, at least",
                    flows[f].title);
    struct sheet_claim *c =
        sheet_claim(s, "B12", "", instructions, 27, "instructions of the ping-pong handler");
    sheet_because(c, "of handlers/ping_pong; 20 to swap and 7 to send in the paper");
    sheet_note(s,
               "From L2 the packet goes out as it came, while the handler swaps in L1. Swapped in "
               "L2 it costs four stores through a port that takes one access per cycle: the last "
               "column.");
    return SPIN_OK;
}
