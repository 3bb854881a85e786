#include "live/live_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

/* A socket at that port of all interfaces, or -1: somebody has it. */
static int hold(uint32_t port) {
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)(const void *)&at, sizeof at)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool is_free(uint32_t port) {
    int fd = hold(port);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void live_ports_give(struct live_ports *p) {
    while (p->guards)
        close(p->guard[--p->guards]);
}

/* From that block on; false: another job has one of them, or another program one of the ports. */
static bool take_from(struct live_ports *p, uint32_t block, uint32_t ranks) {
    uint32_t blocks = (ranks + LIVE_PORT_BLOCK - 1) / LIVE_PORT_BLOCK;
    bool taken = block + blocks <= LIVE_PORT_BLOCKS;
    p->port = LIVE_PORT_FIRST + block * LIVE_PORT_BLOCK;
    for (uint32_t i = 0; i < blocks && taken; i++) {
        int fd = hold(LIVE_PORT_GUARD + block + i);
        taken = fd >= 0;
        if (taken)
            p->guard[p->guards++] = fd;
    }
    for (uint32_t i = 0; i < ranks && taken; i++)
        taken = is_free(p->port + i);
    if (!taken)
        live_ports_give(p);
    return taken;
}

int live_ports_take(struct live_ports *p, uint32_t ranks, struct spin_error *err) {
    p->guards = 0;
    for (uint32_t block = 0; block < LIVE_PORT_BLOCKS; block++)
        if (take_from(p, block, ranks))
            return 0;
    return spin_fail(err, SPIN_ELIMIT,
                     "no %u free UDP ports from %u to %u; say with OPENSPIN_PORT where others are",
                     ranks, LIVE_PORT_FIRST,
                     LIVE_PORT_FIRST + LIVE_PORT_BLOCKS * LIVE_PORT_BLOCK - 1);
}
