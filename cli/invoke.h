/* Options that describe one invocation of a handler, shared by exec and budget. */
#ifndef OPENSPIN_CLI_INVOKE_H
#define OPENSPIN_CLI_INVOKE_H

#include "cli_card.h"
#include "memory.h"

struct invoke_options {
    struct card_options card;
    const char *entry, *kind, *packet, *hex, *state, *state_hex, *host, *state_in, *core;
    const char *jit;
    uint64_t packet_bytes, state_bytes, host_bytes, watchdog, hpu, seed;
    uint64_t source, target, match_bits, hdr_data, me_offset, message_bytes, offset, user_hdr;
    uint64_t dropped, scratchpad_bytes, home_cluster, flow;
    bool flow_control, functional, check;
    struct cli_list arguments, fill, dump;
};

#define INVOKE_ROW(type, field, name, kind, arg, help, member, min, max)                           \
    { name, 0, kind, arg, help, offsetof(type, field.member), min, max }
#define INVOKE_OPTIONS(type, field)                                                                \
    INVOKE_ROW(type, field, "entry", CLI_STRING, "NAME", "the handler to run", entry, 0, 0),       \
        INVOKE_ROW(type, field, "kind", CLI_STRING, "KIND",                                        \
                   "header, payload, completion, cleanup, function or pspin (default: by name "    \
                   "and image)",                                                                   \
                   kind, 0, 0),                                                                    \
        INVOKE_ROW(type, field, "packet", CLI_STRING, "FILE", "the packet's bytes", packet, 0, 0), \
        INVOKE_ROW(type, field, "hex", CLI_STRING, "DIGITS", "the packet's bytes in hexadecimal",  \
                   hex, 0, 0),                                                                     \
        INVOKE_ROW(type, field, "packet-size", CLI_SIZE, "SIZE",                                   \
                   "a packet of random bytes (default 512)", packet_bytes, 1, 32704),              \
        INVOKE_ROW(type, field, "seed", CLI_NUMBER, "N", "of the random bytes (default 1)", seed,  \
                   0, UINT64_MAX),                                                                 \
        INVOKE_ROW(type, field, "state", CLI_STRING, "FILE", "initial state", state, 0, 0),        \
        INVOKE_ROW(type, field, "state-hex", CLI_STRING, "DIGITS", "initial state in hexadecimal", \
                   state_hex, 0, 0),                                                               \
        INVOKE_ROW(type, field, "state-size", CLI_SIZE, "SIZE",                                    \
                   "size of the state (default 4KiB, or what is given)", state_bytes, 1, 4 << 20), \
        INVOKE_ROW(type, field, "state-in", CLI_STRING, "MEMORY",                                  \
                   "l1 (default) or l2 (default of pspin)", state_in, 0, 0),                       \
        INVOKE_ROW(type, field, "scratchpad-size", CLI_SIZE, "SIZE",                               \
                   "of a PsPIN handler, in each cluster (default none)", scratchpad_bytes, 4,      \
                   1 << 20),                                                                       \
        INVOKE_ROW(type, field, "home-cluster", CLI_NUMBER, "N", "of the PsPIN task (default 0)",  \
                   home_cluster, 0, 3),                                                            \
        INVOKE_ROW(type, field, "flow", CLI_NUMBER, "N", "of the PsPIN task (default 0)", flow, 0, \
                   UINT32_MAX),                                                                    \
        INVOKE_ROW(type, field, "host", CLI_STRING, "FILE", "initial host memory of the ME", host, \
                   0, 0),                                                                          \
        INVOKE_ROW(type, field, "host-size", CLI_SIZE, "SIZE",                                     \
                   "size of each host memory (default 64KiB)", host_bytes, 1, 1u << 30),           \
        INVOKE_ROW(type, field, "source", CLI_NUMBER, "RANK", "who sent the message", source, 0,   \
                   UINT32_MAX),                                                                    \
        INVOKE_ROW(type, field, "target", CLI_NUMBER, "RANK", "who receives it", target, 0,        \
                   UINT32_MAX),                                                                    \
        INVOKE_ROW(type, field, "match-bits", CLI_NUMBER, "N", "of the message", match_bits, 0,    \
                   UINT64_MAX),                                                                    \
        INVOKE_ROW(type, field, "hdr-data", CLI_NUMBER, "N", "inline data of the header",          \
                   hdr_data, 0, UINT64_MAX),                                                       \
        INVOKE_ROW(type, field, "me-offset", CLI_NUMBER, "N", "offset in the ME", me_offset, 0,    \
                   UINT32_MAX),                                                                    \
        INVOKE_ROW(type, field, "message-size", CLI_SIZE, "SIZE",                                  \
                   "of the whole message (default: the packet)", message_bytes, 1, UINT32_MAX),    \
        INVOKE_ROW(type, field, "offset", CLI_NUMBER, "N", "of the packet's data in the message",  \
                   offset, 0, UINT32_MAX),                                                         \
        INVOKE_ROW(type, field, "user-header", CLI_SIZE, "SIZE",                                   \
                   "bytes of the packet that are the user's header", user_hdr, 0, 32704),          \
        INVOKE_ROW(type, field, "dropped", CLI_NUMBER, "N",                                        \
                   "dropped_bytes of a completion handler", dropped, 0, INT32_MAX),                \
        INVOKE_ROW(type, field, "flow-control", CLI_FLAG, NULL,                                    \
                   "flow_control_triggered of a completion handler", flow_control, 0, 0),          \
        INVOKE_ROW(type, field, "arg", CLI_LIST, "VALUE",                                          \
                   "argument of a function: a number, 'packet', 'state' or 'length'", arguments,   \
                   0, 0),                                                                          \
        INVOKE_ROW(type, field, "core", CLI_STRING, "NAME", "timing: ri5cy (default), sc17, unit", \
                   core, 0, 0),                                                                    \
        INVOKE_ROW(type, field, "check", CLI_FLAG, NULL,                                           \
                   "find overruns of what the handler allocates", check, 0, 0),                    \
        INVOKE_ROW(type, field, "functional", CLI_FLAG, NULL,                                      \
                   "no timing: every instruction takes one cycle", functional, 0, 0),              \
        INVOKE_ROW(type, field, "jit", CLI_STRING, "HOW", CLI_JIT_HELP, jit, 0, 0),                \
        INVOKE_ROW(type, field, "watchdog", CLI_NUMBER, "CYCLES",                                  \
                   "how long a handler may run (default 1000000)", watchdog, 1, UINT64_MAX),       \
        INVOKE_ROW(type, field, "fill", CLI_LIST, "WHERE=FILE", MEMORY_FILL_HELP, fill, 0, 0),     \
        INVOKE_ROW(type, field, "dump", CLI_OUTPUTS, "WHERE=FILE", MEMORY_DUMP_HELP, dump, 0, 0),  \
        INVOKE_ROW(type, field, "hpu", CLI_NUMBER, "N", "which HPU runs it (default 0)", hpu, 0,   \
                   4095),                                                                          \
        CARD_OPTIONS(type, field.card)

/* What the options come to. Free with invoke_end. */
struct invocation {
    struct spin_image *image;
    struct spin_rig *rig;
    const struct spin_function *function;
    struct spin_call call;
    uint8_t *packet;
};

int invoke_begin(const struct cli_command *command, const struct invoke_options *o,
                 const struct cli_list *operands, struct invocation *inv);
/* --dump, after the calls. 0, or the exit status. */
int invoke_dump(const struct cli_command *command, const struct invoke_options *o,
                struct invocation *inv);
void invoke_end(struct invocation *inv);

#endif
