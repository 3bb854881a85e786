/* The port of an HPU: the registers of the HPU driver (spin/driver.h), once for all that runs
 * handlers. It decodes what is stored, numbers handles, waits and tests, gives out scratch memory,
 * gathers what is printed, and refuses in the words of refusal.h. What is behind it, a rig, a
 * simulated card or a live one, carries commands out.
 *
 * In step: an HPU may run ahead of the card around it. What others can see of it (a command, the
 * end of a wait, a line of text) is done when the card has come to the HPU's local time; until then
 * the access is to be repeated.
 *
 * Handles: commands that take time are numbered 1, 2, ... within one run of a handler (DMA and host
 * atomics, and all of PsPIN's). RESULT is the number. Of a CAS in HPU memory it is 1 if it swapped,
 * of messages and counters 0. */
#ifndef SPIN_HPU_PORT_H
#define SPIN_HPU_PORT_H

#include "hpu/console.h"
#include "hpu/heap.h"
#include "hpu/hpu.h"

struct port;

/* What a card gives its ports. Answers are: done, to be repeated later, or refused, with fault and
 * refusal set. */
struct port_card {
    /* Whether the card is at the HPU's local time; NULL: it always is. */
    bool (*in_step)(struct port *p);
    /* Carries out or starts the command whose words the HPU has; `handle`: its number, or 0. CAS
     * and FETCH_ADD, the counter's commands where there is a `counter`, and numbers that are none
     * do not come here. */
    enum hpu_access (*issue)(struct port *p, uint32_t number, uint32_t handle);
    /* Whether what has this handle is over. NULL: everything is when it was issued. */
    bool (*ended)(struct port *p, uint32_t handle);
    /* The handler waits for it: has the access repeated when it is over. */
    void (*wait)(struct port *p, uint32_t handle);
    /* Of every command, when it has been accepted. */
    void (*note)(struct port *p, uint32_t number);
    void (*print)(struct port *p, const char *line);
};

struct port {
    struct hpu *hpu;
    const struct port_card *card;
    uint32_t mtu_bytes; /* the most that a message from HPU memory may have: it is one packet */
    uint64_t *counter; /* of the match entry: success, failure; NULL: the card does CT_... itself */
    bool is_pspin;     /* a load of ISSUE gives a command, in PsPIN's layout */
    bool sync;         /* the last access waits for nothing but that the card is in step */
    uint32_t commands, handles; /* of the handler that runs */
    struct hpu_heap heap;       /* of no bytes: there is none */
    struct spin_refusal refusal;
    struct console console;
    /* hpu_invoke.c: the function at an entry has so many bytes. */
    const struct spin_image *measured;
    uint32_t measured_entry, measured_bytes;
};

/* After hpu_init. */
void port_open(struct port *p, struct hpu *h, const struct port_card *card, bool is_pspin);
/* Before a handler runs, when it has all its windows. */
void port_begin(struct port *p);
/* After it has ended: prints what has no end of line. */
void port_end(struct port *p);

/* ---- for those who carry commands out ---- */

/* Whether a command is numbered. */
bool port_has_handle(uint32_t number);
/* `bytes` at an offset of host memory 0, the match entry's, or 1, the handlers', which has `has`.
 * False: refused. */
bool port_has_host(struct port *p, uint32_t number, uint32_t space, uint64_t offset, uint64_t bytes,
                   uint64_t has);
/* The same at an address of PsPIN's host memory. */
bool port_has_host_at(struct port *p, uint32_t number, uint64_t address, uint64_t bytes,
                      uint64_t base, uint64_t has);
/* Memory of the HPU; NULL: refused. */
uint8_t *port_reach(struct port *p, uint32_t number, uint32_t address, uint64_t bytes, bool write);
/* Ends the handler for a command that is wrong in itself, after refusal_... */
enum hpu_access port_refuse(struct port *p);

/* An atomic on host memory (DMA_CAS, DMA_FETCH_ADD), taken apart. */
struct port_atomic {
    uint32_t offset, space, bytes, type;
    uint32_t local, local_bytes; /* what is compared with, or takes the value before */
    uint64_t operand;
};
/* False: refused. */
bool port_atomic(struct port *p, uint32_t number, struct port_atomic *a);
/* Performs it. */
void port_do_atomic(const struct port_atomic *a, uint32_t number, uint8_t *host, uint8_t *local);

/* The two ends of a copy within the card; false: refused. */
bool port_local_copy(struct port *p, uint8_t **from, uint8_t **to);

#endif
