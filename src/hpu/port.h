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
 * of messages and counters 0, but for streams (spin/driver.h). */
#ifndef SPIN_HPU_PORT_H
#define SPIN_HPU_PORT_H

#include "hpu/console.h"
#include "hpu/heap.h"
#include "hpu/hpu.h"

struct port;

/* What a command does. */
enum port_effect {
    PORT_NOTHING,  /* there is no such command */
    PORT_STORE,    /* copies `bytes` from `local` to host memory */
    PORT_FETCH,    /* the other way */
    PORT_ATOMIC,   /* on a value in host memory (port_do_atomic) */
    PORT_COPY,     /* within the card, from `local` to `other` */
    PORT_MESSAGE,  /* of Portals: with data in HPU memory (`local`) or in host memory */
    PORT_PACKET,   /* of PsPIN: out of the card as it is in HPU memory */
    PORT_COUNTER,  /* the match entry's */
    PORT_IN_PLACE, /* CAS and FETCH_ADD in HPU memory */
};

/* Of which host memory. */
enum { PORT_ENTRY, PORT_HANDLER, PORT_AT_ADDRESS, PORT_NO_HOST };

/* A command whose words are decoded, and which is right in itself: its memory is the handler's. */
struct port_command {
    uint32_t number, handle; /* handle 0: it has none */
    uint8_t effect, space;
    uint32_t bytes;       /* in host memory, of a copy or a message */
    uint64_t host_at;     /* offset in host memory; of PORT_AT_ADDRESS the address */
    uint8_t *host;        /* that memory, where the card has given it in one piece */
    uint32_t local_at;    /* in HPU memory: the address, */
    uint8_t *local;       /* and what is there; of HOST_WRITE its words */
    uint8_t *other;       /* in HPU memory too */
    uint32_t local_bytes; /* of an atomic: of the value before, and its type and operand */
    uint32_t type;
    uint64_t operand;
    uint32_t *word;
};

/* Host memory of one kind. */
struct port_host {
    uint64_t base, bytes; /* base: what `host_at` counts from */
    uint8_t *memory;      /* NULL: in pieces, or others stand for it */
};

/* What a card gives its ports. Answers are: done, to be repeated later, or refused, with fault and
 * refusal set. */
struct port_card {
    /* Whether the card is at the HPU's local time; NULL: it always is. */
    bool (*in_step)(struct port *p);
    /* How much host memory of a kind the handler has, and where. */
    struct port_host (*host)(struct port *p, uint32_t space);
    /* Carries out or starts the command. Those in HPU memory, and the counter's where there is a
     * `counter`, do not come here. */
    enum hpu_access (*issue)(struct port *p, const struct port_command *c);
    /* Whether what has this handle is over; if not, and the handler is to wait for it, has the
     * access repeated when it is. NULL: everything is over when it was issued. */
    enum hpu_access (*over)(struct port *p, uint32_t handle, bool wait);
    /* Of every command, when it has been accepted. */
    void (*note)(struct port *p, uint32_t number);
    void (*print)(struct port *p, const char *line);
};

#define PORT_MEASURED 8u /* the handlers of a message, and some */

struct port {
    struct hpu *hpu;
    const struct port_card *card;
    uint32_t mtu_bytes; /* the most that a message from HPU memory may have: it is one packet */
    uint64_t *counter; /* of the match entry: success, failure; NULL: the card does CT_... itself */
    bool is_pspin;     /* a load of ISSUE gives a command, in PsPIN's layout */
    bool sync;         /* the last access waits for nothing but that the card is in step */
    uint32_t commands; /* of the handler that runs, and that the card has seen */
    struct hpu_heap heap; /* of no bytes: there is none */
    struct spin_refusal refusal;
    struct console console;
    /* hpu_invoke.c: how many bytes functions have that were called last, by their entry. */
    struct port_measured {
        const struct spin_image *image;
        uint32_t entry, bytes;
    } measured[PORT_MEASURED];
};

/* After hpu_init. */
void port_open(struct port *p, struct hpu *h, const struct port_card *card, bool is_pspin);
/* Before a handler runs, when it has all its windows. */
void port_begin(struct port *p);
/* The words of commands, and PsPIN's CMD_INFO, are 0 again. */
static inline void port_clear_words(struct hpu *h) {
    if (!h->unready.words)
        return;
    for (int i = 0; i < SPIN_WORDS; i++)
        h->word[i] = 0;
    h->info = 0;
    h->unready.words = 0;
}
/* After it has ended: prints what has no end of line. */
void port_end(struct port *p);

/* ---- for those who carry commands out ---- */

/* Ends the handler for a command that is wrong in itself, after refusal_... */
enum hpu_access port_refuse(struct port *p);
/* An atomic's value is naturally aligned at `host`, where there are so many bytes in one piece;
 * false: refused. For cards that have host memory in pieces. */
bool port_has_value(struct port *p, const struct port_command *c, uint64_t bytes);
/* Performs an atomic on `host`; `local` is told the value before. */
void port_do_atomic(const struct port_command *c);

/* ---- port_command.c, for port.c ---- */

bool port_has_handle(uint32_t number);
/* The command whose words the HPU has; false: refused. */
bool port_decode(struct port *p, uint32_t number, uint32_t handle, struct port_command *c);
/* True: it concerned the HPU and its counter alone, and is done. */
bool port_perform(struct port *p, const struct port_command *c);

#endif
