/* A program that drives the card through PsPIN's driver interface, as for its RTL model:
 *
 *   pspin_driver IMAGE HANDLER [PACKETS [BYTES [WAIT]]]
 *
 * sends one message of UDP packets to a payload handler, one every WAIT cycles, and prints what
 * came out and when. Compile it with `pkg-config --cflags --libs pspin`. */
#include <pspinsim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long packets_out, host_writes, feedbacks;
static double latency_ns;

static void on_packet_out(uint8_t *data, size_t len) {
    (void)data;
    (void)len;
    packets_out++;
}

static void on_host_write(uint64_t addr, uint8_t *data, size_t len) {
    (void)addr;
    (void)data;
    (void)len;
    host_writes++;
}

static void on_feedback(uint64_t user, uint64_t nic_arrival, uint64_t arrival, uint64_t feedback) {
    (void)user;
    (void)arrival;
    latency_ns += (double)(feedback - nic_arrival) / 1e3;
    feedbacks++;
}

int main(int argc, char **argv) {
    static uint8_t packet[2048];
    pspin_conf_t conf;
    spin_nic_addr_t handler;
    size_t size;
    if (argc < 3) {
        fprintf(stderr, "usage: pspin_driver IMAGE HANDLER [PACKETS [BYTES [WAIT]]]\n");
        return 2;
    }
    int packets = argc > 3 ? atoi(argv[3]) : 32, bytes = argc > 4 ? atoi(argv[4]) : 1024;
    int wait = argc > 5 ? atoi(argv[5]) : 200;
    if (packets < 1 || wait < 0 || bytes < 28 || bytes > (int)sizeof packet) {
        fprintf(stderr, "pspin_driver: 1 packet at least, of 28 to %zu bytes\n", sizeof packet);
        return 2;
    }
    pspinsim_default_conf(&conf);
    if (pspinsim_init(argc, argv, &conf) ||
        spin_find_handler_by_name(argv[1], argv[2], &handler, &size))
        return 1;
    pspinsim_cb_set_pkt_out(on_packet_out);
    pspinsim_cb_set_pcie_slv_write(on_host_write);
    pspinsim_cb_set_pkt_feedback(on_feedback);

    spin_ec_t ec = {.handler_mem_addr =
                        L2_HND_BUFF_START + 3 * (1 << 20), /* behind the handlers' own */
                    .handler_mem_size = 1 << 20,
                    .host_mem_addr = PCIE_START_ADDR,
                    .host_mem_size = 1 << 20,
                    .ph_addr = handler,
                    .ph_size = (mem_size_t)size};
    for (int i = 0; i < NUM_CLUSTERS; i++) { /* offsets in each L1's scratchpad area */
        ec.scratchpad_addr[i] = 0;
        ec.scratchpad_size[i] = 64 << 10;
    }
    packet[0] = 0x54; /* version 4, five words of header */
    packet[2] = (uint8_t)bytes;
    packet[3] = (uint8_t)(bytes >> 8);
    for (int i = 0; i < packets; i++)
        if (pspinsim_packet_add(&ec, 1, packet, (size_t)bytes, (size_t)bytes, i + 1 == packets,
                                (uint32_t)wait, (uint64_t)i))
            return 1;
    pspinsim_packet_eos();
    int code = pspinsim_run();
    printf("%lu packets back, %lu writes to the host, latency %.1f ns\n", packets_out, host_writes,
           feedbacks ? latency_ns / (double)feedbacks : 0);
    return pspinsim_fini() || code;
}
