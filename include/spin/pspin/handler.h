/* handler.h of PsPIN: what a handler written for that card includes, compiled by `openspin cc
 * --pspin`. Names and signatures are PsPIN's (ISCA'21); what they do goes through the registers of
 * the HPU driver.
 *
 *   __handler__ void my_ph(handler_args_t *args);
 *
 * By custom x_hh is the header handler of a message, x_ph runs for each packet, x_th after all. */
#ifndef SPIN_PSPIN_HANDLER_H
#define SPIN_PSPIN_HANDLER_H

#include "spin/target.h"
#include "spin_conf.h"

/* Most HPUs that the card may have; the image carries it, and a larger card refuses it. */
#ifndef PTL_NUM_HPUS
#define PTL_NUM_HPUS CORE_COUNT
#endif

#ifdef __cplusplus
extern "C" {
#endif

SPIN_IMAGE_NOTE(SPIN_NOTE_PSPIN, PTL_NUM_HPUS);

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
    void *scratchpad[4]; /* L1, one a cluster */
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
typedef volatile uint32_t spin_lock_t; /* 0: free */
typedef struct spin_rw_lock {
    spin_lock_t glock; /* held by a writer, or by the readers together */
    volatile int32_t num_readers;
} spin_rw_lock_t;

/* What was written must be in memory before the card is told of it, and what the card wrote must be
 * read again. */
#define SPIN_ORDER() __asm__ volatile("" ::: "memory")

static inline uint32_t rt_core_id(void) {
    return spin_my_hpu() % NB_CORES;
}

static inline uint32_t rt_cluster_id(void) {
    return spin_my_hpu() / NB_CORES;
}

/* At least that many cycles, and a turn of the loop more at most. */
static inline void rt_time_wait_cycles(const unsigned cycles) {
    uint32_t start = spin_cycles();
    while (spin_cycles() - start < cycles) {
    }
}

/* Atomics: naturally aligned words in L1 or L2. They return what was there before. */
#define SPIN_AMO(name, type, operation)                                                            \
    static inline type name(volatile type *const address, const type value) {                      \
        type before;                                                                               \
        __asm__ volatile(operation ".w %0, %2, %1"                                                 \
                         : "=r"(before), "+A"(*address)                                            \
                         : "r"(value)                                                              \
                         : "memory");                                                              \
        return before;                                                                             \
    }
SPIN_AMO(amo_add, int32_t, "amoadd")
SPIN_AMO(amo_max, int32_t, "amomax")
SPIN_AMO(amo_min, int32_t, "amomin")
SPIN_AMO(amo_swap, uint32_t, "amoswap")
SPIN_AMO(amo_and, uint32_t, "amoand")
SPIN_AMO(amo_or, uint32_t, "amoor")
SPIN_AMO(amo_xor, uint32_t, "amoxor")
SPIN_AMO(amo_maxu, uint32_t, "amomaxu")
SPIN_AMO(amo_minu, uint32_t, "amominu")
#undef SPIN_AMO

static inline void amo_store(volatile uint32_t *const address, const uint32_t value) {
    (void)amo_swap(address, value);
}

static inline uint32_t load_reserved(volatile const uint32_t *const address) {
    uint32_t value;
    __asm__ volatile("lr.w %0, %1" : "=r"(value) : "A"(*address) : "memory");
    return value;
}

/* 0 if it was stored. */
static inline unsigned store_conditional(volatile uint32_t *const address, const uint32_t value) {
    unsigned lost;
    __asm__ volatile("sc.w %0, %2, %1" : "=&r"(lost), "+A"(*address) : "r"(value) : "memory");
    return lost;
}

/* 0 if it was swapped, -1 if *address was not `old`. One piece of assembly, so that the compiler
 * puts no access between the two that would lose the reservation. */
static inline int compare_and_swap(volatile uint32_t *const address, uint32_t old, uint32_t value) {
    uint32_t seen, lost;
    __asm__ volatile("1: lr.w %0, %2\n"
                     "   li %1, -1\n"
                     "   bne %0, %3, 2f\n"
                     "   sc.w %1, %4, %2\n"
                     "   bnez %1, 1b\n"
                     "2:"
                     : "=&r"(seen), "=&r"(lost), "+A"(*address)
                     : "r"(old), "r"(value)
                     : "memory");
    return (int)lost;
}

/* Locks: words of L1 or L2, 0 to begin with. */
static inline int spin_lock_init(spin_lock_t *lock) {
    *lock = 0;
    return SPIN_OK;
}

/* 1 if it is ours now, 0 if it was taken: not SPIN_OK and SPIN_FAIL, as on PsPIN. */
static inline int spin_lock_try_lock(spin_lock_t *lock) {
    return amo_swap(lock, 1) == 0;
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

/* Between L1 and L2, by the cluster's DMA engine. */
SPIN_CALL int spin_dma(void *source, void *dest, size_t size, int direction, int options,
                       spin_dma_t *xfer) {
    (void)direction;
    (void)options;
    SPIN_ORDER();
    SPIN_WORD(0) = SPIN_POINTER(source);
    SPIN_WORD(1) = SPIN_POINTER(dest);
    SPIN_WORD(2) = size;
    SPIN_WORD(3) = 0;
    return spin_started(SPIN_COMMAND_LOCAL_DMA, xfer);
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

/* The card has no console: output is dropped, and what it would show is not computed. */
static inline int spin_no_console(void) {
    return 0;
}
#define printf(...) spin_no_console()

#ifdef __cplusplus
}
#endif

#endif
