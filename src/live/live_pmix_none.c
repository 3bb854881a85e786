/* Where PMIx's headers were not there: such a job cannot be opened, and no other call is made. */
#include <stddef.h>

#include "base/error.h"
#include "live/live_pmix.h"

int live_pmix_open(struct live_pmix **out, struct spin_error *err) {
    *out = NULL;
    return spin_fail(err, SPIN_EARG,
                     "a launcher with PMIx has started this rank, but this libportals was built "
                     "without it (Debian: libpmix-dev); OPENSPIN_PMIX=off makes it a job of one");
}

void live_pmix_close(struct live_pmix *p) {
    (void)p;
}

uint32_t live_pmix_rank(const struct live_pmix *p) {
    return (void)p, 0;
}

uint32_t live_pmix_ranks(const struct live_pmix *p) {
    return (void)p, 0;
}

uint32_t live_pmix_near_ranks(const struct live_pmix *p) {
    return (void)p, 0;
}

uint32_t live_pmix_nid(const struct live_pmix *p) {
    return (void)p, 0;
}

int live_pmix_put(struct live_pmix *p, const char *name, const void *bytes, uint32_t length,
                  struct spin_error *err) {
    (void)p, (void)name, (void)bytes, (void)length;
    return spin_fail(err, SPIN_EARG, "no PMIx");
}

int live_pmix_get(struct live_pmix *p, uint32_t rank, const char *name, void *bytes, uint32_t room,
                  uint32_t *length, struct spin_error *err) {
    (void)p, (void)rank, (void)name, (void)bytes, (void)room, (void)length;
    return spin_fail(err, SPIN_EARG, "no PMIx");
}

bool live_pmix_look(struct live_pmix *p, uint32_t rank, const char *name, void *bytes,
                    uint32_t room, uint32_t *length) {
    (void)p, (void)rank, (void)name, (void)bytes, (void)room, (void)length;
    return false;
}

int live_pmix_arrive(struct live_pmix *p, struct spin_error *err) {
    (void)p;
    return spin_fail(err, SPIN_EARG, "no PMIx");
}

bool live_pmix_passed(struct live_pmix *p) {
    return (void)p, true;
}

void live_pmix_sleep(struct live_pmix *p) {
    (void)p;
}
