/* spin.h of PsPIN's driver interface: execution contexts and the card's memory. All calls return
 * SPIN_SUCCESS or SPIN_ERR, and an error is one line on standard error. */
#ifndef PSPIN_SPIN_H
#define PSPIN_SPIN_H

#include <stddef.h>
#include <stdint.h>

#include "spin_hw_conf.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPIN_SUCCESS 0
#define SPIN_ERR     1

typedef uint32_t mem_addr_t, mem_size_t, spin_nic_addr_t;
typedef uint64_t host_addr_t;

/* As in the RTL: a handler of address 0 is not there, and does not run. Memory is where the context
 * says, contexts may share it, and those of one image share its variables. Scratchpads begin at an
 * offset from L1_SCRATCHPAD_OFFSET of their cluster, not at an address. Handler memory reaches to
 * the end of L2 handler memory, and handlers may use any host address, whatever the sizes say. */
typedef struct spin_ec {
    mem_addr_t handler_mem_addr;
    mem_size_t handler_mem_size;
    host_addr_t host_mem_addr;
    mem_size_t host_mem_size;
    mem_addr_t hh_addr;
    mem_size_t hh_size;
    mem_addr_t ph_addr;
    mem_size_t ph_size;
    mem_addr_t th_addr;
    mem_size_t th_size;
    mem_addr_t scratchpad_addr[NUM_CLUSTERS];
    mem_size_t scratchpad_size[NUM_CLUSTERS];
} __attribute__((packed)) spin_ec_t;

/* Takes effect at once; the completion callback comes when the transfer would be through. */
int spin_nicmem_write(spin_nic_addr_t addr, void *data, size_t size, void *user_ptr);
int spin_nicmem_read(spin_nic_addr_t addr, void *data, size_t size, void *user_ptr);

/* Loads `binfile`, an image made by `openspin cc --pspin`, and tells where a function of it is; one
 * that is not there has address 0 and size 0. */
int spin_find_handler_by_name(const char *binfile, const char *name, spin_nic_addr_t *addr,
                              size_t *size);

#ifdef __cplusplus
}
#endif

#endif
