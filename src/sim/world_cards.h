/* Which host and card each rank of a world has. Ranks that are alike share one description; what is
 * said of some ranks splits descriptions until they hold of all who share them. */
#ifndef SPIN_SIM_WORLD_CARDS_H
#define SPIN_SIM_WORLD_CARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin.h"
#include "sim/card.h"
#include "sim/host.h"
#include "sim/paging.h"

struct world_params {
    uint64_t o, g, match_header, match_packet, dma_reads, memory_latency, poll, call, cpu_cycle,
        cores;
    uint64_t hpus, hpu_cycle, hpu_start, hpu_budget, hpu_quantum, hpu_memory, scratchpad, contexts,
        window;
    uint64_t handler_packets, turn_packets;
    uint64_t stack, patience;
    struct spin_packet network; /* with DMA and memory rates, and retransmission */
    bool is_pspin;              /* the datapath of the card: `pspin`, or SC'17's */
    struct card_config pspin;
    struct paging_config paging;
};

/* ---- world_params.c ---- */

int world_params_preset(struct world_params *to, const char *preset, struct spin_error *err);
int world_params_set(struct world_params *to, const char *assignment, struct spin_error *err);
/* The same of some ranks: only what ranks may have of their own. */
int world_params_set_own(struct world_params *to, const char *assignment, struct spin_error *err);
bool world_params_row(const struct world_params *of, const char *preset, int i,
                      struct spin_parameter *row);
/* HPUs of such a card. */
uint32_t world_params_hpus(const struct world_params *of);

/* ---- world_cards.c ---- */

/* A matching list entry of a card without a program (world_setup.c). */
struct world_entry {
    char *text; /* that the words below point into */
    uint64_t portal, match, ignore, bytes, state, host, user_header;
    unsigned operations, interface;
    const char *data, *image, *handler[3], *initial; /* files and functions, or NULL */
    struct world_entry *next;                        /* of its card, before it */
    struct world_entry *made;                        /* before it, of all */
};
/* "portal=0,match=0x17,bytes=1MiB,image=store.spin,payload=store"; *out is to be freed in any case.
 */
int world_entry_read(struct world_entry **out, const char *text, struct spin_error *err);
void world_entry_free(struct world_entry *entry);

/* A program that some ranks run instead of the world's. */
struct world_launch {
    char *text;                /* path and arguments, as they were given */
    struct world_launch *next; /* of all, made before it */
};

struct world_card {
    struct world_params params;
    struct host_config host;
    struct world_launch *launch; /* NULL: the world's program, */
    bool no_program;             /* or none, with */
    struct world_entry *entries; /* the last one first */
    uint32_t entry_count;
    uint32_t members;         /* ranks that have it */
    uint32_t inside, becomes; /* while something is said of some ranks */
    bool chosen;
};

struct world_setting { /* of some ranks, for reports: "4-7:hpus" */
    char *name;
    uint32_t rank; /* the first of them */
};

struct world_cards {
    uint32_t ranks;
    uint32_t *of; /* per rank: its card */
    struct world_card **card;
    uint32_t count, room;
    struct world_setting *setting;
    uint32_t settings, setting_room;
    struct world_launch *launches;
    struct world_entry *entries; /* of all cards, the last one first */
    uint32_t launch_count;
    char *about; /* the ranks that the next settings are about */
    uint32_t sections;
};

/* All ranks have what `usual` says. */
int world_cards_new(struct world_cards *cards, uint32_t ranks, const struct world_params *usual,
                    struct spin_error *err);
void world_cards_free(struct world_cards *cards);
/* A file of sections, "ranks 0-3,7" and lines NAME = VALUE behind it; `text` ends with a 0 and is
 * changed. Errors name path and line. */
int world_cards_file(struct world_cards *cards, const char *path, struct spin_error *err);
int world_cards_text(struct world_cards *cards, const char *path, char *text,
                     struct spin_error *err);
/* Is it of some ranks, "4-7:hpus=0"? Then the assignment behind the colon, else NULL. */
const char *world_cards_behind(const char *assignment);
int world_cards_set(struct world_cards *cards, const char *assignment, struct spin_error *err);
/* Row i of what some ranks have of their own; false after the last. */
bool world_cards_row(const struct world_cards *cards, const char *preset, int i,
                     struct spin_parameter *row);

#endif
