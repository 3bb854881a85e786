/* The packet network as the transport of a GOAL replay: ranks on hosts, messages as packets, and
 * what is known of the links at the end. */
#ifndef SPIN_SIM_PACKET_MODEL_H
#define SPIN_SIM_PACKET_MODEL_H

#include "sim/loggops.h"
#include "sim/network.h"
#include "sim/timeline.h"

/* What the options say of links and switches; failures and retransmission are left out. */
struct net_config packet_net_config(const struct spin_packet *options);
/* The hosts of ranks 0, 1, ..: in order, or drawn from the seed. As many as there are hosts, of
 * which the first `ranks` count; freed by the caller. NULL: no memory. */
uint32_t *packet_place(const struct spin_packet *options, uint32_t hosts, uint32_t ranks);

/* Adds the use of links over the time until `until_ps` to a result that is 0 there; with a path,
 * writes a row per link that was used, as CSV. */
int packet_links(const struct topology *topology, const struct network *net, uint64_t until_ps,
                 struct spin_packet_result *result, const char *path, struct spin_error *err);

struct packet_model;

/* `trace` may be NULL; the view says which packets are in it: those from or to its ranks. */
int packet_model_new(struct packet_model **out, struct sim_engine *engine,
                     const struct spin_packet *options, uint32_t ranks, struct trace *trace,
                     const struct timeline_view *view, struct spin_error *err);
void packet_model_free(struct packet_model *model);

const struct sim_transport *packet_model_transport(const struct packet_model *model);
/* The replay that messages are handed to; before the engine runs. */
void packet_model_attach(struct packet_model *model, struct loggops *replay);

bool packet_model_stopped(const struct packet_model *model);
/* After the run. `code` and err are the replay's verdict: a lost message is put in front of the
 * deadlock that it caused. Returns the code that stands. */
int packet_model_verdict(const struct packet_model *model, int code, struct spin_error *err);
/* Fills the result, and writes the report of links if one was asked for. */
int packet_model_result(const struct packet_model *model, uint64_t makespan_ps,
                        struct spin_packet_result *result, struct spin_error *err);
uint64_t packet_model_bytes(const struct packet_model *model);

#endif
