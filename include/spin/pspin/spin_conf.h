/* spin_conf.h of PsPIN: the card that a handler is compiled for. -D changes what a card of another
 * shape needs. */
#ifndef SPIN_PSPIN_CONF_H
#define SPIN_PSPIN_CONF_H

#ifndef NB_CORES
#define NB_CORES 8 /* HPUs of a cluster */
#endif
#ifndef NB_CLUSTERS
#define NB_CLUSTERS 4
#endif
#ifndef PKT_SIZE
#define PKT_SIZE 1024
#endif

#define CORE_COUNT       (NB_CORES * NB_CLUSTERS)
#define NUM_CLUSTER_HPUS NB_CORES

#if NB_CLUSTERS > 4
#error "a PsPIN task has the scratchpads of 4 clusters: NB_CLUSTERS is 4 at most"
#endif

#endif
