/* openspin.h: embedding. Everything that the command `openspin` does, a program can do through this
 * header. No globals: any number of images, HPUs and worlds live side by side in one process. */
#ifndef OPENSPIN_H
#define OPENSPIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes: every call that can fail returns one, 0 for success. */
#define SPIN_CODES(X)                                                                              \
    X(SPIN_OK, 0, "success")                                                                       \
    X(SPIN_EARG, -1, "invalid argument")                                                           \
    X(SPIN_EFILE, -2, "file cannot be read or written")                                            \
    X(SPIN_EFORMAT, -3, "malformed input")                                                         \
    X(SPIN_ELIMIT, -4, "over a limit")                                                             \
    X(SPIN_ENOMEM, -5, "out of memory")                                                            \
    X(SPIN_ETOOL, -6, "an external program failed")                                                \
    X(SPIN_ESYS, -7, "a system call failed")                                                       \
    X(SPIN_EDEADLOCK, -8, "nothing left to do, but not everything is done")

enum spin_code {
#define SPIN_CODE_ROW(name, value, text) name = value,
    SPIN_CODES(SPIN_CODE_ROW)
#undef SPIN_CODE_ROW
};

/* What went wrong, in one line: what, where, which limit, what to do. */
struct spin_error {
    int code;
    char text[500];
};

const char *spin_version(void);
const char *spin_code_name(int code); /* "SPIN_EFILE" */
const char *spin_code_text(int code); /* "file cannot be read or written" */

/* ---- Handler images ---------------------------------------------------------------------------
 * An image is an RV32 ELF made by `openspin cc`, checked when it is loaded. */

/* What a card has. */
struct spin_limits {
    uint32_t program_bytes; /* program memory: code */
    uint32_t handler_bytes; /* L2 handler memory: constants and data */
    uint32_t state_bytes;   /* L1 scratchpad: the state that handlers of a message share */
    uint32_t hpus;
    bool with_float; /* the card has F */
};
void spin_limits_default(struct spin_limits *limits); /* the PsPIN card */

enum spin_handler_kind {
    SPIN_HEADER_HANDLER,
    SPIN_PAYLOAD_HANDLER,
    SPIN_COMPLETION_HANDLER,
    SPIN_OTHER_FUNCTION, /* the name says nothing */
};

struct spin_function {
    const char *name;
    uint32_t address, bytes;
    enum spin_handler_kind kind; /* by the name: ..._header_handler, ..._hh and so on */
    bool is_global;              /* can be named as a handler */
};

/* Instructions in the image's functions by what they do. */
enum spin_insn_class {
    SPIN_INSN_ALU,
    SPIN_INSN_MULTIPLY,
    SPIN_INSN_DIVIDE,
    SPIN_INSN_LOAD,
    SPIN_INSN_STORE,
    SPIN_INSN_BRANCH,
    SPIN_INSN_JUMP,
    SPIN_INSN_ATOMIC,
    SPIN_INSN_FLOAT,
    SPIN_INSN_SYSTEM,
    SPIN_INSN_CLASSES
};
const char *spin_insn_class_name(enum spin_insn_class c);

struct spin_image_info {
    const char *path;
    uint32_t code_bytes, constant_bytes, data_bytes, zero_bytes;
    uint32_t hpus; /* PTL_NUM_HPUS it was compiled for; 0: not said */
    bool uses_float, has_lines;
    uint32_t functions; /* local ones too */
    const struct spin_function *function;
    uint32_t instructions[SPIN_INSN_CLASSES], compressed;
};

struct spin_image;

/* Loads and checks. `limits` NULL: the PsPIN card. On an error *out is NULL. */
int spin_image_load(struct spin_image **out, const char *path, const struct spin_limits *limits,
                    struct spin_error *err);
/* The same from memory, which is copied; `name` stands for the file in messages. */
int spin_image_parse(struct spin_image **out, const char *name, const void *bytes, size_t length,
                     const struct spin_limits *limits, struct spin_error *err);
void spin_image_free(struct spin_image *image);
const struct spin_image_info *spin_image_info(const struct spin_image *image);
/* A global function by name; the error lists what there is. */
int spin_image_find(const struct spin_image *image, const char *name,
                    const struct spin_function **function, struct spin_error *err);
/* The function that holds an address, or NULL. */
const struct spin_function *spin_image_at(const struct spin_image *image, uint32_t address);
/* Source file and line of an address; false when the image does not say. */
bool spin_image_line(const struct spin_image *image, uint32_t address, const char **file,
                     int *line);
/* "lw a0, 4(a1)" of the instruction at an address; returns its length in bytes, 0 outside code. */
int spin_image_disassemble(const struct spin_image *image, uint32_t address, char *text,
                           size_t room);

/* ---- One handler processor ---------------------------------------------------------------------
 * A rig: an HPU with its memories and a stand-in for the card around it, to run one handler at a
 * time on a packet. DMA goes to a host memory of the rig's and is done at once; messages are
 * recorded, not sent. */

struct spin_rig;

struct spin_rig_options {
    const char *core;     /* timing table: "ri5cy" (default), "unit" */
    bool functional;      /* no timing: every instruction is a cycle */
    bool state_in_l2;     /* the state in L2 handler memory instead of the L1 scratchpad */
    uint64_t budget;      /* watchdog in cycles; 0: 1,000,000 */
    uint32_t hpu;         /* which HPU: PTL_MY_HPU */
    uint32_t state_bytes; /* size of the state; 0: 4096 */
    uint32_t host_bytes;  /* size of each host memory space; 0: 64 KiB */
};

int spin_rig_new(struct spin_rig **out, const struct spin_image *image,
                 const struct spin_rig_options *options, struct spin_error *err);
void spin_rig_free(struct spin_rig *rig);

/* Memory that handlers share and the caller may read and write between calls. */
enum spin_space { SPIN_STATE, SPIN_PACKET, SPIN_DATA, SPIN_ME_HOST, SPIN_HANDLER_HOST };
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
    SPIN_ENDED_COMMAND,
    SPIN_ENDED_KILLED, /* by gdb, which had stopped it at `pc` */
};
const char *spin_ending_name(enum spin_ending ending);
const char *spin_return_code_name(int32_t code); /* "PROCESS_DATA"; NULL for no such code */

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
    uint64_t instructions, cycles;
    uint64_t icache_misses;
    uint64_t loads[SPIN_REGIONS], stores[SPIN_REGIONS]; /* counted when timed */
    const struct spin_command *command;                 /* valid until the next call */
    uint32_t commands, commands_lost;                   /* past the 256 that are kept */
};

/* Runs a handler from start to end. */
int spin_rig_call(struct spin_rig *rig, const struct spin_call *call, struct spin_outcome *outcome,
                  struct spin_error *err);

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
