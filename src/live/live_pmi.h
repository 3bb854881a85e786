/* A server of PMI-1, as programs of the Portals family find their peers: lines of key=value pairs
 * over a socket per rank. It keeps what ranks put, and a barrier. */
#ifndef SPIN_LIVE_LIVE_PMI_H
#define SPIN_LIVE_LIVE_PMI_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "live/live_kin.h"
#include "openspin.h"

struct live_pmi;

struct live_pmi *live_pmi_new(uint32_t ranks); /* NULL: no memory */
void live_pmi_free(struct live_pmi *pmi);
/* The socket of a rank, for the server; until live_pmi_left. */
void live_pmi_add(struct live_pmi *pmi, uint32_t rank, int fd);
int live_pmi_fd(const struct live_pmi *pmi, uint32_t rank); /* -1: none */
/* Whether it waits for the others. */
bool live_pmi_waits(const struct live_pmi *pmi, uint32_t rank);
/* It can be read. False: the rank asks that the job ends, with *status. */
bool live_pmi_serve(struct live_pmi *pmi, uint32_t rank, int *status);
/* The rank has ended. */
void live_pmi_left(struct live_pmi *pmi, uint32_t rank);

/* A process that is a rank, whose server this is: PMI's variables are set, rank 0 alone has our
 * standard input, and the process dies with us. `become` is called in the child, and returns only
 * if it cannot start the program. */
struct live_pmi_start {
    uint32_t rank, ranks;
    struct live_kin kin;
    const char *program; /* for messages */
    void (*become)(const void *context, uint32_t rank);
    const void *context;
};
/* *pid is 0 if there is no process; one that could not start the program is there, and ends. */
int live_pmi_start(struct live_pmi *pmi, const struct live_pmi_start *start, pid_t *pid,
                   struct spin_error *err);
/* Sets a variable of the environment. */
void live_set_number(const char *name, uint64_t number);

#endif
