/* pspin_rt.h of PsPIN: who runs a handler, and the numbers of control registers. Of those a handler
 * may read what the HPU has in user mode; any other is an illegal instruction. */
#ifndef SPIN_PSPIN_RT_H
#define SPIN_PSPIN_RT_H

#include "spin/target.h"
#include "spin_conf.h"

#define PULP_CSR_MSTATUS 0x300
#define PULP_CSR_MTVEC   0x305
#define PULP_CSR_MEPC    0x341
#define PULP_CSR_MCAUSE  0x342
#define PULP_CSR_PRIVLV  0xc10

static inline uint32_t rt_core_id(void) {
    return spin_my_hpu() % NB_CORES;
}

static inline uint32_t rt_cluster_id(void) {
    return spin_my_hpu() / NB_CORES;
}

#endif
