/* handler.h of PsPIN: what a handler written for that card includes, compiled by `openspin cc
 * --pspin`. Names and signatures are PsPIN's (ISCA'21); what they do goes through the registers of
 * the HPU driver.
 *
 *   __handler__ void my_ph(handler_args_t *args);
 *
 * By custom x_hh is the header handler of a message, x_ph runs for each packet, x_th after all. */
#ifndef SPIN_PSPIN_HANDLER_H
#define SPIN_PSPIN_HANDLER_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "hwsched.h"
#include "pspin.h"
#include "pspin_rt.h"
#include "spin/target.h"
#include "spin_conf.h"
#include "util.h"

/* Most HPUs that the card may have; the image carries it, and a larger card refuses it. */
#ifndef PTL_NUM_HPUS
#define PTL_NUM_HPUS CORE_COUNT
#endif

#ifdef __cplusplus
extern "C" {
#endif

SPIN_IMAGE_NOTE(SPIN_NOTE_PSPIN, PTL_NUM_HPUS);

/* The card has no heap: without functions of these names in the image it does not link. */
#define SPIN_NO_HEAP                                                                               \
    __attribute__((warning("PsPIN has no heap: use handler memory, the scratchpads or the "        \
                           "stack")))
SPIN_NO_HEAP void *malloc(size_t size);
SPIN_NO_HEAP void *calloc(size_t count, size_t size);
SPIN_NO_HEAP void *realloc(void *old, size_t size);
SPIN_NO_HEAP void free(void *old);

/* Keeps a handler that nothing calls. */
#define __handler__ SPIN_EXTERN __attribute__((used))

#define SPIN_OK   0
#define SPIN_FAIL 1

/* Directions of spin_dma: of no effect, a transfer goes from source to dest. */
#define SPIN_DMA_LOC2EXT 0
#define SPIN_DMA_EXT2LOC 1

/* A packet to work on. It lies in the registers of the HPU driver, from SPIN_REG_MEMORY_ADDRESS on:
 * reading a field is a load from there, and there is nothing to write. */
typedef struct task {
    void *handler_mem; /* L2 */
    size_t handler_mem_size;
    void *pkt_mem; /* L1 */
    size_t pkt_mem_size;
    void *scratchpad[4]; /* L1, one per cluster */
    size_t scratchpad_size[4];
    uint32_t host_mem_high, host_mem_low;
    size_t host_mem_size;
    void *l2_pkt_mem;
    uint32_t home_cluster_id;
    uint32_t flow_id;
} __attribute__((packed, aligned(4))) task_t;

typedef struct handler_args {
    task_t *task;
    uint32_t hpu_gid, cluster_id, hpu_id; /* HPU of the card; cluster; HPU of the cluster */
} handler_args_t;

typedef void (*handler_fn)(handler_args_t *);

/* A handler file defines it to name its handlers (NULL: none) and initial handler memory. */
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr);

typedef uint32_t spin_cmd_t, spin_dma_t;
typedef futex_t spin_lock_t; /* 0: free */
typedef struct spin_rw_lock {
    spin_lock_t glock; /* held by a writer, or by the readers together */
    volatile int32_t num_readers;
} spin_rw_lock_t;

/* Locks: words of L1 or L2, 0 to begin with. */
static inline int spin_lock_init(spin_lock_t *lock) {
    *lock = 0;
    return SPIN_OK;
}

/* 1 if it is ours now, 0 if it was taken: not SPIN_OK and SPIN_FAIL, as on PsPIN. */
static inline int spin_lock_try_lock(spin_lock_t *lock) {
    return futex_try_lock(lock);
}

static inline int spin_lock_lock(spin_lock_t *lock) {
    while (!spin_lock_try_lock(lock))
        while (*lock) {
        } /* wait by loads: atomics would hold up the bank for everybody */
    return SPIN_OK;
}

static inline int spin_lock_unlock(spin_lock_t *lock) {
    SPIN_ORDER();
    *lock = 0;
    return SPIN_OK;
}

/* The first reader takes the lock and the last one frees it; a writer takes it, whatever the count
 * says. */
static inline int spin_rw_lock_r_lock(spin_rw_lock_t *lock) {
    if (amo_add(&lock->num_readers, 1) == 0)
        spin_lock_lock(&lock->glock);
    return SPIN_OK;
}

static inline int spin_rw_lock_r_unlock(spin_rw_lock_t *lock) {
    if (amo_add(&lock->num_readers, -1) == 1)
        spin_lock_unlock(&lock->glock);
    return SPIN_OK;
}

static inline int spin_rw_lock_w_lock(spin_rw_lock_t *lock) {
    return spin_lock_lock(&lock->glock);
}

static inline int spin_rw_lock_w_unlock(spin_rw_lock_t *lock) {
    return spin_lock_unlock(&lock->glock);
}

/* Commands return at once; the card does not complete the packet before they are complete. The
 * handle may be NULL where nobody will wait. */
SPIN_CALL int spin_started(uint32_t command, spin_cmd_t *handle) {
    uint32_t started = spin_issue(command);
    if (handle)
        *handle = started;
    return SPIN_OK;
}

SPIN_CALL int spin_cmd_wait(spin_cmd_t handle) {
    SPIN_REGISTER(SPIN_REG_WAIT) = handle;
    SPIN_ORDER();
    return SPIN_OK;
}

SPIN_CALL int spin_cmd_test(spin_cmd_t handle, bool *completed) {
    SPIN_REGISTER(SPIN_REG_TEST) = handle;
    *completed = SPIN_REGISTER(SPIN_REG_RESULT) == 1;
    SPIN_ORDER();
    return SPIN_OK;
}

/* PsPIN's outbound command always has five words: destination, queue pair, address in two halves,
 * length. All are written here too, so that a send costs the instructions that it costs there. */
SPIN_CALL int spin_outbound(uint32_t command, uint32_t first, uint32_t second, uint32_t third,
                            spin_cmd_t *handle) {
    SPIN_ORDER();
    SPIN_WORD(0) = first;
    SPIN_WORD(1) = second;
    SPIN_WORD(2) = third;
    SPIN_WORD(3) = 0;
    SPIN_WORD(4) = 0;
    return spin_started(command, handle);
}

/* Sends `length` bytes as a packet of their own, headers included. */
SPIN_CALL int spin_send_packet(void *data, uint32_t length, spin_cmd_t *handle) {
    return spin_outbound(SPIN_COMMAND_NIC_SEND, SPIN_POINTER(data), length, 0, handle);
}

/* As data to a peer that the card has a connection to. */
SPIN_CALL int spin_rdma_put(uint32_t dest, void *data, uint32_t length, spin_cmd_t *handle) {
    return spin_outbound(SPIN_COMMAND_RDMA_PUT, dest, SPIN_POINTER(data), length, handle);
}

/* Host addresses: task->host_mem_high and host_mem_low are the first byte that may be used. */
SPIN_CALL int spin_host_dma(uint32_t command, uint64_t host_addr, uint32_t nic_addr,
                            uint32_t length, bool generate_event, spin_cmd_t *handle) {
    SPIN_ORDER();
    SPIN_WORD(0) = SPIN_HIGH(host_addr);
    SPIN_WORD(1) = SPIN_LOW(host_addr);
    SPIN_WORD(2) = nic_addr;
    SPIN_WORD(3) = length;
    SPIN_WORD(4) = generate_event;
    return spin_started(command, handle);
}

SPIN_CALL int spin_dma_to_host(uint64_t host_addr, uint32_t nic_addr, uint32_t length,
                               bool generate_event, spin_cmd_t *xfer) {
    return spin_host_dma(SPIN_COMMAND_HOST_DMA_TO, host_addr, nic_addr, length, generate_event,
                         xfer);
}

SPIN_CALL int spin_dma_from_host(uint64_t host_addr, uint32_t nic_addr, uint32_t length,
                                 bool generate_event, spin_cmd_t *xfer) {
    return spin_host_dma(SPIN_COMMAND_HOST_DMA_FROM, host_addr, nic_addr, length, generate_event,
                         xfer);
}

/* Eight bytes from the command itself (HostDirect), without DMA. */
SPIN_CALL int spin_write_to_host(uint64_t host_addr, uint64_t user_data, spin_cmd_t *xfer) {
    SPIN_ORDER();
    SPIN_WORD(0) = SPIN_HIGH(host_addr);
    SPIN_WORD(1) = SPIN_LOW(host_addr);
    SPIN_WORD(2) = SPIN_LOW(user_data);
    SPIN_WORD(3) = SPIN_HIGH(user_data);
    return spin_started(SPIN_COMMAND_HOST_WRITE, xfer);
}
#define spin_host_write spin_write_to_host /* its older name */

/* Between L1 and L2, by the cluster's DMA engine. Of no bytes it is SPIN_FAIL, as on PsPIN. */
SPIN_CALL int spin_dma(void *source, void *dest, size_t size, int direction, int options,
                       spin_dma_t *xfer) {
    (void)direction;
    (void)options;
    SPIN_ORDER();
    SPIN_WORD(0) = SPIN_POINTER(source);
    SPIN_WORD(1) = SPIN_POINTER(dest);
    SPIN_WORD(2) = size;
    SPIN_WORD(3) = 0;
    spin_started(SPIN_COMMAND_LOCAL_DMA, xfer);
    return size ? SPIN_OK : SPIN_FAIL;
}

SPIN_CALL int spin_dma_wait(spin_dma_t xfer) {
    return spin_cmd_wait(xfer);
}

SPIN_CALL int spin_dma_test(spin_dma_t xfer, uint32_t *completed) {
    bool done;
    spin_cmd_test(xfer, &done);
    *completed = done;
    return SPIN_OK;
}

#ifdef __cplusplus
}
#endif

#endif
