/* The memory map of the PsPIN card as handlers see it (32-bit addresses), and its default sizes.
 * Source: the card's public RTL and software; sizes by ISCA'21 section III. */
#ifndef SPIN_HPU_MAP_H
#define SPIN_HPU_MAP_H

#define MAP_L1_BASE         0x10000000u /* of cluster 0; 4 MiB windows, 1 MiB real */
#define MAP_L1_STRIDE       0x00400000u
#define MAP_L1_SIZE         0x00100000u
#define MAP_L1_ALIAS        0x1b000000u /* the own cluster's L1, whichever that is */
#define MAP_L1_RUNTIME      0x00000400u /* offset of the runtime's part: the cores' stacks */
#define MAP_L1_RUNTIME_SIZE 0x00004000u
#define MAP_L1_PACKETS      0x00004400u /* offset of the packet buffer */
#define MAP_L1_PACKETS_SIZE 0x00008000u
#define MAP_L1_SCRATCH      (MAP_L1_PACKETS + MAP_L1_PACKETS_SIZE)
#define MAP_L1_SCRATCH_SIZE (MAP_L1_SIZE - MAP_L1_SCRATCH)

#define MAP_DRIVER      0x1b205000u /* the HPU driver: the task's registers and the commands */
#define MAP_DRIVER_SIZE 0x00000100u

#define MAP_STDOUT      0x1a104000u /* the console */
#define MAP_STDOUT_SIZE 0x00001000u

#define MAP_L2_HANDLER      0x1c000000u
#define MAP_L2_HANDLER_SIZE 0x00400000u
#define MAP_L2_HANDLER_DATA                                                                        \
    0x1c300000u /* .l2_handler_data: where PsPIN's drivers have handler memory */
#define MAP_L2_PACKETS      0x1c400000u
#define MAP_L2_PACKETS_SIZE 0x00400000u
#define MAP_PROGRAM         0x1d000000u
#define MAP_PROGRAM_SIZE    0x00008000u

#define MAP_STACK_SIZE   0x400u /* a core; the 8 of a cluster stand from MAP_L1_RUNTIME on */
#define MAP_CLUSTER_HPUS 8u
#define MAP_CLUSTERS     4u

/* Where `ret` of a handler leads: outside every region, and recognised by the processor. */
#define MAP_RETURN 0xfffffff0u

#endif
