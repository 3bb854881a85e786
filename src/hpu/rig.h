/* A rig: one HPU with the memories of the PsPIN card and a stand-in for the card around it. */
#ifndef SPIN_HPU_RIG_H
#define SPIN_HPU_RIG_H

#include "hpu/hpu_invoke.h"

#define RIG_COMMANDS 256
#define RIG_MTU      4096u /* most data of a put: what worlds and cards have at first */
/* Where host memory begins for PsPIN handlers: where the card's PCIe window does. */
#define RIG_HOST_BASE 0x1000000000000000ull

struct spin_rig {
    struct hpu hpu; /* first: the port's card finds its rig through it */
    struct port port;
    const struct spin_image *image;
    struct hpu_code *code;
    uint8_t *l1, *l2; /* of the own cluster; L2 handler memory */
    uint32_t l2_bytes;
    uint8_t *view[HPU_WINDOWS];
    uint8_t *me_host, *handler_host;
    uint32_t host_bytes, state_bytes;
    uint32_t state_address, packet_address; /* packet: of its first byte */
    uint32_t packet_bytes;
    uint8_t *state, *packet;
    struct invoke_context context;
    struct invoke_core core;
    uint8_t *remote_l1[MAP_CLUSTERS], *l2_packet; /* of PsPIN: other scratchpads; the packet */
    uint64_t budget;
    uint64_t counter[2]; /* the ME's: success, failure */
    struct spin_command command[RIG_COMMANDS];
    uint32_t commands, commands_lost;
    uint64_t start_cycle, start_misses;
    void (*print)(void *context, uint32_t hpu, const char *line);
    void *print_context;
    void (*outbound)(void *context, uint32_t dest, const uint8_t *data, uint32_t bytes);
    void *outbound_context;
    void (*trace)(void *context, const struct spin_step *step);
    void *trace_context;
};

/* driver.c: commands, done at once. */
extern const struct port_card rig_card;

/* As spin_rig_new, with generated code that only those of the same variant share: to compare ways
 * of compiling. */
int rig_new(struct spin_rig **rig, const struct spin_image *image,
            const struct spin_rig_options *options, uint32_t variant, struct spin_error *err);

/* Readies a call and tells how it ended; between them the HPU runs: to its end, or an instruction.
 * Both feed the trace. */
int rig_begin(struct spin_rig *rig, const struct spin_call *call, struct spin_error *err);
enum hpu_stop rig_run(struct spin_rig *rig);
enum hpu_stop rig_step(struct spin_rig *rig);
void rig_end(struct spin_rig *rig, enum hpu_stop stop, struct spin_outcome *outcome);

#endif
