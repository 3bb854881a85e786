/* openspin/spin_rig.h: one handler processor.
 * A rig: an HPU with its memories and a stand-in for the card around it, to run one handler at a
 * time on a packet. DMA goes to a host memory of the rig's and is done at once; messages are
 * recorded, not sent. */
#ifndef OPENSPIN_SPIN_RIG_H
#define OPENSPIN_SPIN_RIG_H

#include "spin_image.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spin_rig;

/* How handlers run. Results, cycles and faults are the same in every way. */
enum spin_jit {
    SPIN_JIT_OFF,   /* interpreted */
    SPIN_JIT_ON,    /* compiled when they are hot, if there is an LLVM */
    SPIN_JIT_FORCE, /* compiled at once; an error where there is no LLVM */
    SPIN_JIT_ASIDE, /* as ON, but in a thread of its own: no call of a handler waits for LLVM */
};
/* "off", "on" or "force"; false for anything else. (ASIDE is for programs: docs/jit.md.) */
bool spin_jit_parse(const char *text, enum spin_jit *mode);

/* Whether generated code leaves some of its checks to page protection, which is faster and takes
 * SIGSEGV: a handler's access outside its memory is then a fault of the host that we catch. So it
 * is for the program to say, once, before it makes rigs and cards; at first: off. Threads that run
 * handlers must not block SIGSEGV, and fork() leaves the memory of cards shared with the child. */
enum spin_guards {
    SPIN_GUARDS_OFF,
    /* We install a handler when there is first code that needs it. All other faults go to the
     * handler that was there before, as the kernel would have called it. A program that installs
     * one later has to call spin_handle_fault from it. */
    SPIN_GUARDS_INSTALL,
    /* We install nothing: the program's own handler calls spin_handle_fault first. */
    SPIN_GUARDS_CALLED,
};
void spin_guard_pages(enum spin_guards how);
/* With the arguments of a handler that has SA_SIGINFO. True: it was an access of a handler, and has
 * been taken care of; return. False: it is the program's. */
bool spin_handle_fault(int signal, void *siginfo, void *ucontext);

struct spin_rig_options {
    const char *core;          /* timing table: "ri5cy" (default), "sc17", "unit" */
    bool functional;           /* no timing: every instruction is a cycle */
    bool state_in_l2;          /* the state in L2 handler memory instead of the L1 scratchpad */
    uint64_t budget;           /* watchdog in cycles; 0: 1,000,000 */
    uint32_t hpu;              /* which HPU: PTL_MY_HPU */
    uint32_t state_bytes;      /* size of the state; 0: 4096 */
    uint32_t host_bytes;       /* size of each host memory space; 0: 64 KiB */
    uint32_t scratchpad_bytes; /* of a PsPIN handler, in the L1 of each of 4 clusters; 0: none */
    bool check; /* what a handler allocates has its exact size, and nothing is next to it */
    enum spin_jit jit;
};

int spin_rig_new(struct spin_rig **out, const struct spin_image *image,
                 const struct spin_rig_options *options, struct spin_error *err);
void spin_rig_free(struct spin_rig *rig);

/* Memory that handlers share and the caller may read and write between calls. The state is the
 * handler memory of a PsPIN handler, the ME's host memory its host memory. */
enum spin_space {
    SPIN_STATE,
    SPIN_PACKET,
    SPIN_DATA,
    SPIN_ME_HOST,
    SPIN_HANDLER_HOST,
    SPIN_SCRATCHPAD, /* of cluster 0; + i: of cluster i, up to 3 */
    SPIN_SPACES = SPIN_SCRATCHPAD + 4
};
uint8_t *spin_rig_memory(struct spin_rig *rig, enum spin_space space, uint32_t *bytes,
                         uint32_t *address);

/* One invocation. Fields that the kind does not have are ignored. */
struct spin_call {
    uint32_t entry;
    enum spin_handler_kind kind; /* SPIN_OTHER_FUNCTION: arguments from `argument` */
    const uint8_t *packet;       /* payload, with the user header if there is one */
    uint32_t packet_bytes;
    uint32_t packet_offset;  /* of the payload in the message */
    uint32_t message_bytes;  /* 0: packet_bytes */
    uint32_t user_hdr_bytes; /* that the payload handler does not see */
    uint32_t source, target, me_offset;
    uint64_t match_bits, hdr_data;
    uint32_t dropped_bytes;
    bool flow_control;
    uint32_t home_cluster, flow; /* of a PsPIN task */
    uint32_t argument[8];
};

enum spin_region {
    SPIN_REGION_L1,
    SPIN_REGION_REMOTE_L1,
    SPIN_REGION_L2_HANDLER,
    SPIN_REGION_L2_PACKETS,
    SPIN_REGION_PROGRAM,
    SPIN_REGION_DRIVER,
    SPIN_REGIONS
};
const char *spin_region_name(enum spin_region region);

enum spin_ending {
    SPIN_RETURNED,
    SPIN_ENDED_SEGV,
    SPIN_ENDED_ILLEGAL,
    SPIN_ENDED_CHECK,
    SPIN_ENDED_MISALIGNED,
    SPIN_ENDED_BUDGET,
    SPIN_ENDED_COMMAND, /* the card refused what a call asked for: spin_refusal */
    SPIN_ENDED_KILLED,  /* by gdb, which had stopped it at `pc` */
    SPIN_ENDED_HOST,    /* a call meant host memory that is not there: spin_refusal */
    SPIN_ENDED_CALL,    /* ecall: a card has no system to call */
};
const char *spin_ending_name(enum spin_ending ending);
const char *spin_return_code_name(int32_t code); /* "PROCESS_DATA"; NULL for no such code */

/* Why the card refused a command: "PtlHandlerPutFromDevice", "2,000 bytes, at most 1,024". `call`
 * is NULL when it refused none. */
struct spin_refusal {
    const char *call;
    char why[112];
};
/* How a handler was ended, for people: ending, place, source line, and the refusal or the address.
 * "SEGV at pc 0x1d000010 (copy_payload_handler+0x10), copy.c:7, address 0x10010440" */
void spin_ending_text(const struct spin_image *image, enum spin_ending ending, uint32_t pc,
                      uint32_t address, const struct spin_refusal *refusal, char *text,
                      size_t room);

struct spin_command {
    uint8_t number; /* enum spin_command_number of spin/driver.h */
    uint32_t word[12];
    uint64_t cycle; /* since the handler's start */
};
/* Name, number of words, and what they are, parted by blanks. NULL: no such command. */
const char *spin_command_name(unsigned number, unsigned *words, const char **labels);

struct spin_outcome {
    enum spin_ending ending;
    int32_t value;            /* what the handler returned */
    uint32_t pc, bad_address; /* where and on what it was ended */
    struct spin_refusal refusal;
    uint64_t instructions, cycles;
    uint64_t icache_misses;
    uint64_t loads[SPIN_REGIONS], stores[SPIN_REGIONS]; /* counted when timed */
    const struct spin_command *command;                 /* valid until the next call */
    uint32_t commands, commands_lost;                   /* past the 256 that are kept */
};

/* Runs a handler from start to end. */
int spin_rig_call(struct spin_rig *rig, const struct spin_call *call, struct spin_outcome *outcome,
                  struct spin_error *err);

/* Called with each packet that a handler sends (spin_send_packet, spin_rdma_put), while it runs;
 * `dest` is 0 for a packet that carries its own headers. NULL ends it. */
void spin_rig_outbound(struct spin_rig *rig,
                       void (*each)(void *context, uint32_t dest, const uint8_t *data,
                                    uint32_t bytes),
                       void *context);

/* Lines that handlers print (spin/libc/stdio.h), instead of to standard error. */
void spin_rig_print(struct spin_rig *rig,
                    void (*each)(void *context, uint32_t hpu, const char *line), void *context);

/* For traces and profiles: called after each instruction of the calls that follow, with what it
 * cost. NULL ends it. */
struct spin_step {
    uint32_t pc, next_pc;
    uint64_t cycle;                 /* before it, since the handler's start */
    uint32_t cycles;                /* its own */
    const uint32_t *before, *after; /* registers x0 to x31 */
};
void spin_rig_trace(struct spin_rig *rig, void (*each)(void *context, const struct spin_step *step),
                    void *context);

/* Like spin_rig_call, under the control of a gdb that connects to 127.0.0.1:port (0: any free
 * port). `listening` is told the port once it is open. Returns when the handler has ended or gdb
 * has killed it (SPIN_ENDED_KILLED) or gone away (then the handler runs to its end). Unless gdb
 * changes registers or memory, the outcome is that of spin_rig_call. */
int spin_rig_debug(struct spin_rig *rig, const struct spin_call *call, uint16_t port,
                   void (*listening)(void *context, uint16_t port), void *context,
                   struct spin_outcome *outcome, struct spin_error *err);

#ifdef __cplusplus
}
#endif

#endif
