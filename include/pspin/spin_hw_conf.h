/* spin_hw_conf.h of PsPIN's driver interface: the card that libpspin simulates. */
#ifndef PSPIN_SPIN_HW_CONF_H
#define PSPIN_SPIN_HW_CONF_H

#define NUM_CLUSTERS  4
#define NUM_CORES     8
#define C_MSGID_WIDTH 10

#define PCIE_START_ADDR 0x1000000000000000ull

#define L1_CLUSTER_BASE(cluster)   (0x10000000u + (cluster)*0x400000u)
#define L1_CLUSTER_ACTUAL_MEM_SIZE 0x100000
#define L1_RUNTIME_OFFSET          0x400
#define L1_RUNTIME_SIZE            0x4000
#define L1_PKT_BUFF_OFFSET         (L1_RUNTIME_OFFSET + L1_RUNTIME_SIZE)
#define L1_PKT_BUFF_SIZE           0x8000
#define L1_SCRATCHPAD_OFFSET       (L1_PKT_BUFF_OFFSET + L1_PKT_BUFF_SIZE)
#define L1_SCRATCHPAD_SIZE         (L1_CLUSTER_ACTUAL_MEM_SIZE - L1_SCRATCHPAD_OFFSET)

#define L2_HND_BUFF_START 0x1c000000
#define L2_HND_BUFF_SIZE  (4 * 1024 * 1024)
#define L2_PKT_BUFF_START 0x1c400000
#define L2_PKT_BUFF_SIZE  (4 * 1024 * 1024)

#endif
