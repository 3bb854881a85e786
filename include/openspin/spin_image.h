/* openspin/spin_image.h: handler images.
 * An image is an RV32 ELF made by `openspin cc`, checked when it is loaded. */
#ifndef OPENSPIN_SPIN_IMAGE_H
#define OPENSPIN_SPIN_IMAGE_H

#include "spin_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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
    SPIN_CLEANUP_HANDLER, /* of a message whose rest does not come */
    SPIN_OTHER_FUNCTION,  /* the name says nothing */
    SPIN_PSPIN_HANDLER,   /* of an invocation only: void h(handler_args_t *), whenever it runs */
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
    bool is_pspin; /* its handlers are PsPIN's: invoke them as SPIN_PSPIN_HANDLER */
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
/* The same in the user's own source: where a call of our headers was inlined, the line of the call,
 * and its name; *call is NULL elsewhere. */
bool spin_image_caller(const struct spin_image *image, uint32_t address, const char **file,
                       int *line, const char **call);
/* "lw a0, 4(a1)" of the instruction at an address; returns its length in bytes, 0 outside code. */
int spin_image_disassemble(const struct spin_image *image, uint32_t address, char *text,
                           size_t room);

#ifdef __cplusplus
}
#endif

#endif
