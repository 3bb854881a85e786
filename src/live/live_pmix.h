/* The job that `mpirun`, `srun` or `prun` has made, as PMIx tells it: who we are, what the ranks
 * tell each other before their cards can, and a barrier. PMIx's headers are needed to build it; its
 * library is loaded when there is such a job, so that libportals works where it is not installed.
 */
#ifndef SPIN_LIVE_LIVE_PMIX_H
#define SPIN_LIVE_LIVE_PMIX_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin.h"

struct live_pmix;

int live_pmix_open(struct live_pmix **out, struct spin_error *err);
/* Tells the launcher that this rank ends as it should. */
void live_pmix_close(struct live_pmix *p);

uint32_t live_pmix_rank(const struct live_pmix *p);
uint32_t live_pmix_ranks(const struct live_pmix *p);
uint32_t live_pmix_near_ranks(const struct live_pmix *p); /* on our node, with us */
/* Of our node, for transports that have no nids of their own: others in each job. */
uint32_t live_pmix_nid(const struct live_pmix *p);

#define LIVE_PMIX_BYTES 512u /* of a value, at most */

/* A value of ours for the other ranks; it does not change any more. */
int live_pmix_put(struct live_pmix *p, const char *name, const void *bytes, uint32_t length,
                  struct spin_error *err);
/* Waits until that rank has put it, and says so if that takes long. */
int live_pmix_get(struct live_pmix *p, uint32_t rank, const char *name, void *bytes, uint32_t room,
                  uint32_t *length, struct spin_error *err);
/* The same without waiting, by one thread at a time and always for the same name. False: it is not
 * known yet; ask again. */
bool live_pmix_look(struct live_pmix *p, uint32_t rank, const char *name, void *bytes,
                    uint32_t room, uint32_t *length);

/* The barrier, one at a time: all ranks of the job. */
int live_pmix_arrive(struct live_pmix *p, struct spin_error *err);
bool live_pmix_passed(struct live_pmix *p);
void live_pmix_sleep(struct live_pmix *p); /* until then */

#endif
