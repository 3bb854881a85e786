/* Experiments about one card by itself, with another set-up than the published one.
 *
 *   --card, --set    the card: PsPIN's with its parameters (pspin.NAME), or one whose HPUs and
 * times are those of SC'17's card (hpus, hpu_cycle, ...)
 *   --ranks, --topology, --set    packets are sent by the other ranks of so many, in turn, at the
 *                    times at which they came before, and cross that network on their way
 *
 * Without ranks, topology and parameters of the network packets come as they were published. */
#ifndef OPENSPIN_EXPERIMENT_CARD_H
#define OPENSPIN_EXPERIMENT_CARD_H

#include "experiment.h"
#include "sim/card.h"

/* The card, with one more setting ("quantum=1") that the caller's go over, or NULL. */
int experiment_card(const struct experiment_context *context, const char *setting,
                    struct card_config *config, struct spin_error *err);
/* HPUs of the card, `sc17` or `pspin` if the caller chooses none; as published if nothing was
 * chosen that changes their number. */
int experiment_hpus(const struct experiment_context *context, const char *card, double published,
                    double *hpus, struct spin_error *err);

/* Whether packets cross a network. */
int experiment_network(const struct experiment_context *context, bool *is_there,
                       struct spin_error *err);
/* Packet i is handed to its sender at at_ps[i], which becomes the time at which it is at the card.
 * Times do not fall. Packets that the network loses are an error. */
int experiment_arrivals(const struct experiment_context *context, uint32_t packets,
                        const uint32_t *bytes, uint64_t *at_ps, struct spin_error *err);
/* Nanoseconds between packets at a card whose link has this rate and gap: by arithmetic, or as they
 * come through the network. */
int experiment_interval(const struct experiment_context *context, double bytes, double gbit,
                        double gap_ns, double *ns, struct spin_error *err);
/* One line about the network, if there is one. */
void experiment_note_network(const struct experiment_context *context, struct sheet *sheet);

#endif
