/* pspinsim.h of PsPIN's driver interface, on the simulated card: a program that drives the RTL
 * model is linked with -lpspin and runs. There is one card in a process, as there. */
#ifndef PSPIN_PSPINSIM_H
#define PSPIN_PSPINSIM_H

#include <stddef.h>
#include <stdint.h>

#include "spin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The AXI buffers, max_pkt_size and max_network_queue_len are the RTL's own: of no effect here. */
typedef struct ni_conf {
    uint32_t axi_aw_buffer, axi_w_buffer, axi_b_buffer;
} ni_conf_t;

typedef struct no_conf {
    uint32_t axi_ar_buffer, axi_r_buffer;
    double network_G; /* ns per byte; 0: 400 Gbit/s */
    uint32_t max_pkt_size, max_network_queue_len;
} no_conf_t;

typedef struct pcie_slv_conf {
    uint32_t axi_aw_buffer, axi_w_buffer, axi_ar_buffer, axi_b_buffer, axi_r_buffer;
    uint32_t pcie_L; /* ns; 0: the card's */
    double pcie_G;   /* ns per byte; 0: the card's */
} pcie_slv_conf_t;

/* slm_files_path: an image to load, for packet traces that name handlers by address; what is no
 * file is ignored. */
typedef struct pspin_conf {
    const char *slm_files_path;
    ni_conf_t ni_conf;
    no_conf_t no_conf;
    pcie_slv_conf_t pcie_slv_conf;
} pspin_conf_t;

int pspinsim_default_conf(pspin_conf_t *conf);
/* Arguments of the program are not looked at. `conf` may be NULL. */
int pspinsim_init(int argc, char **argv, pspin_conf_t *conf);
/* Until the packets are through. SPIN_ERR when a handler was ended by a fault or something is
 * stuck. */
int pspinsim_run(void);
/* One cycle. *done_flag is 1 when there was pspinsim_packet_eos and all packets are through. */
int pspinsim_run_tick(uint8_t *done_flag);
/* Prints what the card did, and frees it. */
int pspinsim_fini(void);

/* Packets, in order. `wait_cycles` pass from this one's arrival to the next one's; with 0 the NIC
 * takes one per cycle. A packet waits for the inbound engine, which counts in its latency; one for
 * which there is no room in L2 arrives later. Of `msgid` the low C_MSGID_WIDTH bits count. Contexts
 * are told apart by all that `ec` says. */
int pspinsim_packet_add(spin_ec_t *ec, uint32_t msgid, uint8_t *data, size_t len, size_t l1_len,
                        uint8_t eom, uint32_t wait_cycles, uint64_t user_ptr);
int pspinsim_packet_eos(void);
int pspinsim_packet_trace_read(const char *pkt_file, const char *data_file);

typedef void (*pkt_out_cb_t)(uint8_t *data, size_t len);
typedef void (*pcie_slv_write_cb_t)(uint64_t addr, uint8_t *data, size_t len);
typedef void (*pcie_slv_read_cb_t)(uint64_t addr, uint8_t *data, size_t len);
typedef void (*pcie_mst_write_cb_t)(void *user_ptr);
typedef void (*pcie_mst_read_cb_t)(void *user_ptr);
/* Times in ps, 1,000 per cycle. */
typedef void (*pkt_feedback_cb_t)(uint64_t user_ptr, uint64_t nic_arrival_time,
                                  uint64_t pspin_arrival_time, uint64_t feedback_time);

int pspinsim_cb_set_pkt_out(pkt_out_cb_t cb);
int pspinsim_cb_set_pcie_slv_write(pcie_slv_write_cb_t cb);
int pspinsim_cb_set_pcie_slv_read(pcie_slv_read_cb_t cb);
int pspinsim_cb_set_pcie_mst_write_completion(pcie_mst_write_cb_t cb);
int pspinsim_cb_set_pcie_mst_read_completion(pcie_mst_read_cb_t cb);
int pspinsim_cb_set_pkt_feedback(pkt_feedback_cb_t cb);

#ifdef __cplusplus
}
#endif

#endif
