/* handler.h of PsPIN for the machine at hand: the same handlers, compiled natively (ISCA'21 figure
 * 11). Commands are done at once: DMA is a copy, a send is handed over.
 *
 * Handlers keep card addresses in 32 bits, so all memory that they see lies below 4 GiB. */
#ifndef OPENSPIN_NATIVE_HANDLER_H
#define OPENSPIN_NATIVE_HANDLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "spin/pspin/spin_conf.h"

#define __handler__ __attribute__((used))

typedef struct task {
    void *handler_mem;
    size_t handler_mem_size;
    void *pkt_mem;
    size_t pkt_mem_size;
    void *scratchpad[4];
    size_t scratchpad_size[4];
    uint32_t host_mem_high, host_mem_low;
    size_t host_mem_size;
    void *l2_pkt_mem;
    uint32_t home_cluster_id;
    uint32_t flow_id;
} task_t;

typedef struct handler_args {
    task_t *task;
    uint32_t hpu_gid, cluster_id, hpu_id;
} handler_args_t;

typedef uint32_t spin_cmd_t, spin_dma_t;
typedef volatile uint32_t spin_lock_t;

/* Where packets go that a handler sends; NULL: nowhere. */
struct native_port {
    void (*sent)(void *user, const uint8_t *data, uint32_t bytes);
    void *user;
};
extern _Thread_local const struct native_port *native_port;

#define NATIVE_POINTER(address) ((void *)(uintptr_t)(address))

static inline int32_t amo_add(volatile int32_t *const address, const int32_t value) {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

static inline int spin_lock_try_lock(spin_lock_t *lock) {
    return __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0;
}

static inline int spin_lock_lock(spin_lock_t *lock) {
    while (!spin_lock_try_lock(lock))
        while (__atomic_load_n(lock, __ATOMIC_RELAXED)) {
        }
    return 0;
}

static inline int spin_lock_unlock(spin_lock_t *lock) {
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    return 0;
}

static inline int spin_cmd_wait(spin_cmd_t handle) {
    (void)handle;
    return 0;
}

static inline int spin_dma_to_host(uint64_t host_addr, uint32_t nic_addr, uint32_t length,
                                   bool generate_event, spin_cmd_t *xfer) {
    (void)generate_event;
    memcpy(NATIVE_POINTER(host_addr), NATIVE_POINTER(nic_addr), length);
    *xfer = 0;
    return 0;
}

static inline int spin_dma_from_host(uint64_t host_addr, uint32_t nic_addr, uint32_t length,
                                     bool generate_event, spin_cmd_t *xfer) {
    (void)generate_event;
    memcpy(NATIVE_POINTER(nic_addr), NATIVE_POINTER(host_addr), length);
    *xfer = 0;
    return 0;
}

static inline int spin_write_to_host(uint64_t host_addr, uint64_t user_data, spin_cmd_t *xfer) {
    memcpy(NATIVE_POINTER(host_addr), &user_data, 8);
    *xfer = 0;
    return 0;
}

static inline int spin_send_packet(void *data, uint32_t length, spin_cmd_t *handle) {
    if (native_port)
        native_port->sent(native_port->user, data, length);
    *handle = 0;
    return 0;
}

#endif
