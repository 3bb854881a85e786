/* The one card of a program that uses PsPIN's driver interface. */
#ifndef SPIN_PSPIN_WORLD_H
#define SPIN_PSPIN_WORLD_H

#include "openspin.h"
#include "pspin/pspinsim.h"
#include "sim/card.h"
#include "sim/engine.h"

#define PSPIN_IMAGES   16
#define PSPIN_CONTEXTS 1024 /* at once: a driver may have one for each message */
#define PSPIN_MESSAGES (1u << C_MSGID_WIDTH)

struct pspin_packet {
    uint8_t *data;
    uint32_t bytes, l1_bytes, context, message;
    bool eom;
    uint64_t wait_cycles; /* from its arrival to the next one's; 0 is 1 */
    uint64_t user;
};

enum { PSPIN_WRITE_EVENT, PSPIN_READ_EVENT };

struct pspin_world {
    struct sim_engine *engine;
    struct card *card;
    struct card_config config;
    struct spin_image *image[PSPIN_IMAGES];
    uint32_t images;
    spin_ec_t context[PSPIN_CONTEXTS]; /* of the card, made when a packet first names them */
    uint32_t contexts;
    /* Packets that the card has not drawn yet. */
    struct pspin_packet *packet;
    size_t first, packets, room;
    uint8_t *drawn; /* bytes of the one that it drew last */
    uint64_t next_arrival_ps, tick_ps;
    uint64_t gap_ps; /* after the packet that was drawn last, until the next is drawn */
    bool eos, feeding;
    uint64_t faults;
    struct spin_error first_fault;
    struct sim_instance host; /* whose transfers end with events */
    pkt_out_cb_t pkt_out;
    pcie_slv_write_cb_t slv_write;
    pcie_slv_read_cb_t slv_read;
    pcie_mst_write_cb_t mst_write;
    pcie_mst_read_cb_t mst_read;
    pkt_feedback_cb_t feedback;
};

extern struct pspin_world pspin;

/* Prints the line and returns SPIN_ERR. */
int pspin_fail(const struct spin_error *err);
int pspin_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* pspinsim.c: queues a packet; `p` but for its context and the copy of its bytes. */
int pspin_add(const spin_ec_t *ec, struct pspin_packet p, const uint8_t *bytes);

/* pspin_memory.c */
int pspin_load(const char *path, struct spin_image **image);
/* The driver may fill the image's variables before a packet comes. */
void pspin_to_card(const struct spin_image *image);
int pspin_find_context(const spin_ec_t *ec, uint32_t *number);
void pspin_memory_free(void);

#endif
