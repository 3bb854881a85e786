/* What a replay needs of a network: carry a message, say when it is there. Without one, the LogGOPS
 * latency L is all there is. */
#ifndef SPIN_SIM_TRANSPORT_H
#define SPIN_SIM_TRANSPORT_H

#include "sim/engine.h"

struct loggops;

struct sim_message {
    uint32_t from, to; /* ranks */
    uint32_t nic;      /* of the sender */
    uint64_t bytes;
    uint64_t at_ps; /* when the host hands it to the card: after o; never before the engine's now */
    union sim_payload handle;
};

/* `send` is called once a message. When its last byte is at the receiver, the network calls
 * loggops_arrive with the handle. A network that loses a message for good does not call it, and the
 * replay ends with the receive in the list of those that wait.
 * With a transport the gap per byte G is the network's business: sender and receiver are charged o,
 * g and O only. */
struct sim_transport {
    void *context;
    void (*send)(void *context, const struct sim_message *message);
};

/* From an event handler of the engine the replay runs on. */
void loggops_arrive(struct loggops *l, uint64_t at_ps, union sim_payload handle);

#endif
