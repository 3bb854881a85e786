/* Where libfabric's headers were not there: no port can be opened, and no other call is made. */
#include <stddef.h>

#include "base/error.h"
#include "live/live_fabric_port.h"

int fabric_port_open(struct live_fabric_port **out, const struct live_fabric_port_options *options,
                     struct spin_error *err) {
    (void)options;
    *out = NULL;
    return spin_fail(err, SPIN_EARG,
                     "OPENSPIN_TRANSPORT=fabric: this libportals was built without libfabric "
                     "(Debian: libfabric-dev)");
}

void fabric_port_close(struct live_fabric_port *p) {
    (void)p;
}

const char *fabric_port_provider(const struct live_fabric_port *p) {
    return (void)p, "";
}

uint32_t fabric_port_address(struct live_fabric_port *p, void *bytes, uint32_t room) {
    return (void)p, (void)bytes, (void)room, 0;
}

uint32_t fabric_port_inject(const struct live_fabric_port *p) {
    return (void)p, 0;
}

int fabric_port_fd(const struct live_fabric_port *p) {
    return (void)p, -1;
}

bool fabric_port_insert(struct live_fabric_port *p, const void *address, uint64_t *number) {
    return (void)p, (void)address, (void)number, false;
}

struct live_fabric_slot *fabric_port_slot(struct live_fabric_port *p) {
    return (void)p, NULL;
}

enum fabric_sent fabric_port_send(struct live_fabric_port *p, struct live_fabric_slot *s,
                                  uint64_t number) {
    return (void)p, (void)s, (void)number, FABRIC_FAILED;
}

bool fabric_port_sending(struct live_fabric_port *p) {
    return (void)p, false;
}

struct live_fabric_slot *fabric_port_take(struct live_fabric_port *p) {
    return (void)p, NULL;
}

void fabric_port_post(struct live_fabric_port *p, struct live_fabric_slot *s) {
    (void)p, (void)s;
}

bool fabric_port_ready(struct live_fabric_port *p) {
    return (void)p, false;
}

bool fabric_port_arm(struct live_fabric_port *p) {
    return (void)p, true;
}
