/* One handler processor: registers, the windows of memory that the running handler was given, and
 * what became of it. No clock of its own: `cycles` is the core's local time, which the owner sets
 * and reads. */
#ifndef SPIN_HPU_HPU_H
#define SPIN_HPU_HPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hpu/code.h"
#include "hpu/map.h"
#include "hpu/timing.h"
#include "openspin.h"
#include "spin/driver.h"

#define HPU_WINDOWS 12

/* A range of handler addresses and the host memory behind it. Windows may stand anywhere; no access
 * crosses from one into another. */
struct hpu_window {
    uint32_t base;
    /* How many offsets an access of 1, 2 and 4 bytes may start at, which says the rights too: an
     * unreadable window has none. [1 byte, 2 bytes, unused, 4 bytes]: indexed by size - 1. */
    uint32_t read_room[4], write_room[4];
    uint8_t region;                             /* enum hpu_region: latency and statistics */
    uint8_t load_extra, store_extra, amo_extra; /* cycles, from the timing table */
    uint8_t *host;
    uint32_t loads, stores; /* counted in the timed mode, since hpu_start */
    uint8_t *view;          /* guard.h: view + handler address is the byte; NULL: none */
} __attribute__((aligned(64)));

/* A slot's guess of its window is a byte: the window's distance from the first in units of 8. */
#define HPU_WINDOW_STEP (sizeof(struct hpu_window) / 8)

#define HPU_FAULTS(X)                                                                              \
    X(NONE, "none")                                                                                \
    X(SEGV, "SEGV")                           /* access outside what was given */                  \
    X(ILLEGAL, "illegal instruction")         /* or one that this card does not have */            \
    X(CHECK, "failed check")                  /* ebreak: assert and abort end here */              \
    X(MISALIGNED, "misaligned atomic")        /* LR, SC and AMO need alignment */                  \
    X(BUDGET, "cycle budget exceeded")        /* the watchdog */                                   \
    X(COMMAND, "command refused by the card") /* see struct hpu's refusal */                       \
    X(KILLED, "killed by the debugger")       /* it did nothing wrong itself */                    \
    X(HOST, "DMA outside host memory")        /* a command; see refusal */                         \
    X(CALL, "system call")                    /* ecall: a card has no system to call */

enum hpu_fault {
#define ROW(name, text) HPU_FAULT_##name,
    HPU_FAULTS(ROW)
#undef ROW
};

const char *hpu_fault_name(unsigned fault);

enum hpu_stop {
    HPU_DONE,    /* the handler returned; its value is in x[10] */
    HPU_FAULTED, /* see fault, fault_address; pc is the instruction's */
    HPU_PAUSED,  /* `until` was reached; run again to go on */
    HPU_WAITING, /* the device asked to try the instruction at pc again later */
};

/* What a device says to an access; if that ends the run, as the run's end is called. */
enum hpu_access {
    HPU_ACCESS_OK = 0,
    HPU_ACCESS_FAULT = HPU_FAULTED,
    HPU_ACCESS_WAIT = HPU_WAITING
};

struct hpu;

/* What accesses at MAP_DRIVER do beside reading and writing the HPU's own registers: whole words
 * that are not such come here. h->cycles is the exact local time of the access. A device may fault
 * the handler (h->fault says as what, h->fault_address where; SEGV of the register if unset:
 * hpu/refusal.h) or have the instruction repeated. */
struct hpu_device {
    enum hpu_access (*load)(struct hpu *h, uint32_t offset, uint32_t *value); /* NULL: SEGV */
    enum hpu_access (*store)(struct hpu *h, uint32_t offset, uint32_t value);
    enum hpu_access (*print)(struct hpu *h, uint8_t byte); /* stored at MAP_STDOUT; NULL: SEGV */
};

/* Generated code: runs from its root until it must leave. `left` is how many cycles there are until
 * a limit; `seen` and `generation` are the instruction cache's (interp.h). `x10` is the HPU's
 * x[10], and `host` the memory of its first window: what differs from packet to packet, and need
 * not go through memory then; the HPU's own may be others. Returns 0 when the handler has returned,
 * or how it was left: jit_private.h. Where the HPU's registers are kept (`unready`), a handler that
 * has returned leaves no trace in it, and this returns HPU_KEPT and, shifted by HPU_KEPT_VALUE, its
 * x[10]. */
typedef uint64_t jit_function(struct hpu *h, int64_t left, uint8_t *host, uint32_t x10,
                              const uint32_t *seen, uint32_t generation);

enum { HPU_KEPT = 1, HPU_KEPT_VALUE = 1 };

/* What a call leaves behind that has to be made ready before another like it (hpu_invoke_next). */
union hpu_unready {
    uint32_t any;
    struct {
        uint8_t registers; /* or 0: where a call ends in generated code they and the clock are
                              as they were before it */
        uint8_t words;     /* of a command: some may not be 0 */
        uint8_t port;      /* something that the device has */
    };
};

/* The registers of the task, in the order of PsPIN (spin/driver.h). For P4sPIN's handlers `memory`
 * is their state. */
struct hpu_task {
    uint32_t handler_address, handler_bytes;
    uint32_t memory_address, memory_bytes;
    uint32_t packet_address, packet_bytes;
    uint32_t scratch_address[MAP_CLUSTERS], scratch_bytes[MAP_CLUSTERS];
    uint32_t host_high, host_low, host_bytes;
    uint32_t l2_packet, home_cluster, flow;
};
_Static_assert(sizeof(struct hpu_task) == SPIN_TASK_REGISTERS, "no holes");

/* Host memory of one kind, in one piece: DMA goes there at once, by the device or by generated
 * code, while a handler runs. Of no bytes: the device has it done. */
struct hpu_direct {
    uint64_t bytes;
    uint8_t *memory;
};

struct hpu_heap;
struct hpu_icache;

struct hpu {
    uint32_t x[33]; /* x[32] takes what is written to x0 */
    uint32_t pc;
    uint32_t return_pc; /* of the last call, and its slot: where most returns lead */
    const struct hpu_slot *return_slot;
    uint32_t entry;                           /* pc at hpu_start */
    bool mid_block;                           /* pc is inside a block whose limits were checked */
    bool is_fresh;                            /* nothing has run since hpu_start */
    const _Atomic(jit_function *) *generated; /* code of `entry`; NULL: where it is is not known */
    uint64_t cycles, instret;
    const struct hpu_code *code;
    struct hpu_window window[HPU_WINDOWS];
    uint32_t windows;
    /* LR/SC: by value, so a store of the same value in between goes unseen, as in other emulators
     */
    bool reserved;
    uint32_t reserved_address, reserved_value;
    uint32_t f[32];
    uint32_t fcsr;
    uint32_t id; /* mhartid */
    uint8_t fault;
    uint32_t fault_address;
    struct spin_refusal *refusal; /* of the command that ended the handler; the device's */
    uint64_t budget_end;          /* local time at which the watchdog bites, */
    uint64_t step_from;           /* and from which a block might run past that */
    struct hpu_icache *icache;
    struct hpu_heap *heap; /* whose allocations stand apart; NULL: none do */
    const struct hpu_device *device;
    void *device_context;
    /* Registers of the driver that do nothing by themselves, so that an access to them is one to
     * memory: those of the task, which the owner sets before the call and handlers cannot change,
     * the words of the command that is being put together (unready.words), RESULT, and PsPIN's
     * CMD_INFO. */
    struct hpu_task task;
    uint32_t word[SPIN_WORDS];
    _Alignas(8) uint32_t result;
    uint32_t handles;   /* of the running handler's commands; generated code sets both at once */
    uint32_t info;      /* PsPIN's CMD_INFO: hpu/pspin_registers.h */
    uint32_t task_word; /* takes what is stored to a register of the task; nobody reads it */
    uint64_t device_loads, device_stores; /* generated code counts them in the timed mode */
    union hpu_unready unready;
    struct hpu_direct direct[2]; /* of the match entry, and of the handlers */
    /* Between generated code and what calls it or is called: the local time at which its `left`
     * would be used up, from which it knows the time (`cycles` is set when it is left, and before
     * the device is called); where it began; cycles that its last slow access lost. */
    uint64_t horizon;
    uint32_t began_at;
    uint32_t lapse;
};

_Static_assert(offsetof(struct hpu, handles) == offsetof(struct hpu, result) + 4, "a pair");

void hpu_init(struct hpu *h, const struct hpu_code *code, uint32_t id);

/* Atomics need the host's alignment to be the handler's. */
static inline bool hpu_is_aligned(uint32_t base, const uint8_t *host) {
    return ((uintptr_t)host - base) % 8 == 0;
}

/* Gives the handler a range of memory. Returns the window's number, or -1: there are no more, or
 * the memory is not aligned as its address is. */
int hpu_add_window(struct hpu *h, uint32_t base, uint32_t size, uint8_t *host, bool writable,
                   enum hpu_region region);

/* Changes a window's size: for the next packet. It has no view then: that was of the old size. */
static inline void hpu_size_window(struct hpu_window *w, uint32_t size, bool writable) {
    w->view = NULL;
    if (w->read_room[0] == size && w->write_room[0] == (writable ? size : 0))
        return; /* as most packets are */
    for (uint32_t n = 1; n <= 4; n++) {
        w->read_room[n - 1] = size >= n ? size - n + 1 : 0;
        w->write_room[n - 1] = writable ? w->read_room[n - 1] : 0;
    }
}

/* 32 registers, as vectors: where compilers make "rep stos" of a memset so short, it takes as long
 * as a small handler. */
static inline void hpu_clear_registers(uint32_t *registers) {
    typedef uint32_t vector __attribute__((vector_size(16), aligned(4), may_alias));
    vector *at = (vector *)registers;
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        at[i] = (vector){0};
}

/* The watchdog bites `cycles` after `from`, a local time. */
static inline void hpu_set_budget(struct hpu *h, uint64_t from, uint64_t cycles) {
    if (__builtin_add_overflow(from, cycles, &h->budget_end))
        h->budget_end = UINT64_MAX;
    uint64_t most = h->code->longest_cycles;
    h->step_from = h->budget_end > most ? h->budget_end - most : 0;
}

/* Readies a call: zeroed registers, sp, ra to MAP_RETURN, pc, and the watchdog. Arguments go into
 * x[10]... afterwards. Nothing of an earlier handler remains. */
static inline void hpu_start(struct hpu *h, uint32_t entry, uint32_t stack_top,
                             uint64_t budget_cycles) {
    const struct hpu_code *code = h->code;
    hpu_clear_registers(h->x);
    if (code->has_float)
        hpu_clear_registers(h->f);
    h->fcsr = 0;
    h->x[1] = MAP_RETURN;
    h->x[2] = stack_top;
    h->pc = h->entry = entry;
    h->generated = NULL;
    h->mid_block = h->reserved = false;
    h->unready.registers = 1;
    h->is_fresh = true;
    h->fault = HPU_FAULT_NONE;
    h->fault_address = 0;
    if (h->refusal)
        h->refusal->call = NULL;
    hpu_set_budget(h, h->cycles, budget_cycles);
}

/* Runs until the handler ends, faults, waits, or local time reaches `until` (checked where blocks
 * begin; UINT64_MAX: no limit). */
enum hpu_stop hpu_run(struct hpu *h, uint64_t until);

/* What is left to do after generated code of `entry`, in a call like the one before (hpu_invoke.h),
 * which returned neither 0 nor that registers are kept. */
enum hpu_stop hpu_run_rest(struct hpu *h, uint64_t returned);
/* Before such a call: how far generated code may go at once. */
void hpu_set_horizon(struct hpu *h);

/* Exactly one instruction: HPU_PAUSED when there is a next one. Same results and same cycles as
 * hpu_run. */
enum hpu_stop hpu_step(struct hpu *h);

/* What the next instruction will do to memory; 0 bytes: nothing. */
struct hpu_next_access {
    uint32_t address, size;
    bool read, write;
};
struct hpu_next_access hpu_next_access(const struct hpu *h);

/* Host memory behind `size` bytes at a handler address, or NULL if the handler has no right to all
 * of them. For devices and debuggers. */
uint8_t *hpu_reach(struct hpu *h, uint32_t address, uint64_t size, bool write);

/* The instruction cache of a cluster: which lines are in it, and so what a fetch costs. Programs of
 * one cluster share its lines: `with` another's, which must live longer, or NULL. `place` is where
 * the program lies in program memory, in bytes, a multiple of a line. */
struct hpu_icache *hpu_icache_new(const struct hpu_code *code, const struct hpu_icache *with,
                                  uint32_t place);
void hpu_icache_free(struct hpu_icache *cache);
/* The lines of both come from one program memory: the one of `with`, which lives as long. */
void hpu_icache_share_memory(struct hpu_icache *cache, struct hpu_icache *with);
void hpu_icache_clear(struct hpu_icache *cache);
void hpu_icache_rewind(struct hpu_icache *cache);
uint64_t hpu_icache_misses(const struct hpu_icache *cache);
uint64_t hpu_icache_waited(const struct hpu_icache *cache); /* cycles, of all cores */
uint64_t hpu_icache_latest(const struct hpu_icache *cache); /* cycle in which the last line came */

#endif
