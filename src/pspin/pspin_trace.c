/* Packet traces of PsPIN's drivers: a CSV file with a row per packet, and a file of their bytes, by
 * the reader of sim/traffic.h. As in the RTL model, wait_cycles of a row pass from its packet's
 * arrival to the next one's. */
#include "pspin/world.h"
#include "sim/traffic.h"

#define HOST_BYTES (1u << 30) /* a trace does not say: any address will do */

static int add(const struct traffic_packet *p) {
    const struct traffic_handlers *h = p->handlers;
    spin_ec_t ec = {.handler_mem_addr = h->memory_address,
                    .handler_mem_size = h->memory_bytes,
                    .hh_addr = h->header_address,
                    .hh_size = h->header_bytes,
                    .ph_addr = h->payload_address,
                    .ph_size = h->payload_bytes,
                    .th_addr = h->completion_address,
                    .th_size = h->completion_bytes,
                    .host_mem_addr = PCIE_START_ADDR,
                    .host_mem_size = HOST_BYTES};
    for (int i = 0; i < NUM_CLUSTERS; i++)
        ec.scratchpad_size[i] = L1_SCRATCHPAD_SIZE; /* all of it, from 0 on */
    struct pspin_packet packet = {.bytes = p->length,
                                  .l1_bytes = p->copy_bytes,
                                  .message = p->message,
                                  .eom = p->end_of_message,
                                  .wait_cycles = p->gap_ps / pspin.config.cycle};
    return pspin_add(&ec, packet, p->bytes);
}

int pspinsim_packet_trace_read(const char *pkt_file, const char *data_file) {
    struct spin_error err;
    struct traffic *t;
    struct traffic_packet p;
    int code = 0, added = SPIN_SUCCESS;
    if (!pspin.card)
        return pspin_say("no card: call pspinsim_init first");
    if (traffic_csv_read(&t, pkt_file, data_file, NULL, &err))
        return pspin_fail(&err);
    while (!added && (code = traffic_next(t, &p, &err)) > 0)
        added = add(&p);
    traffic_close(t);
    return added ? added : code < 0 ? pspin_fail(&err) : SPIN_SUCCESS;
}
