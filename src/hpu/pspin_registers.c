#include "hpu/pspin_registers.h"

#include <string.h>

#include "hpu/refusal.h"

/* CMD_INFO: bit 0 asks for an event at the host, bits 2:1 are the kind. */
enum kind { HOST_COPY, SEND, HOST_DIRECT };

static uint32_t refuse(struct hpu *h) {
    hpu_refuse(h, HPU_FAULT_COMMAND, 0);
    return 0;
}

/* host low, host high, local, length, direction (1: to the host) */
static uint32_t host_copy(const uint32_t *w, uint32_t info, uint32_t *to) {
    const uint32_t word[] = {w[1], w[0], w[2], w[3], info & 1};
    memcpy(to, word, sizeof word);
    return w[4] & 1 ? SPIN_COMMAND_HOST_DMA_TO : SPIN_COMMAND_HOST_DMA_FROM;
}

/* destination, queue pair (0: the packet as it is), local low, local high, length */
static uint32_t send_packet(struct hpu *h, const uint32_t *w, uint32_t *to) {
    uint32_t number = w[1] ? SPIN_COMMAND_RDMA_PUT : SPIN_COMMAND_NIC_SEND;
    const uint32_t put[] = {w[0], w[2], w[4]}, raw[] = {w[2], w[4]};
    if (w[3]) {
        refusal_say(h->refusal, number, "data at 0x%08x%08x: sends are from the card's memory",
                    w[3], w[2]);
        return refuse(h);
    }
    memcpy(to, w[1] ? put : raw, w[1] ? sizeof put : sizeof raw);
    return number;
}

/* host low, host high, size << 1 | direction (1: to the host), data low, data high */
static uint32_t host_direct(struct hpu *h, const uint32_t *w, uint32_t *to) {
    uint32_t bytes = w[2] >> 1 & 0x1ff;
    const uint32_t word[] = {w[1], w[0], w[3], w[4]};
    if (bytes != 8 || !(w[2] & 1)) {
        refusal_say(h->refusal, SPIN_COMMAND_HOST_WRITE,
                    "HostDirect of %u bytes %s the host: it writes 8 bytes to the host", bytes,
                    w[2] & 1 ? "to" : "from");
        return refuse(h);
    }
    memcpy(to, word, sizeof word);
    return SPIN_COMMAND_HOST_WRITE;
}

/* The command's number, and its words in h->word; 0: refused. */
static uint32_t translate(struct hpu *h, const uint32_t *word) {
    switch (h->info >> 1 & 3) {
    case HOST_COPY:
        return host_copy(word, h->info, h->word);
    case SEND:
        return send_packet(h, word, h->word);
    case HOST_DIRECT:
        return host_direct(h, word, h->word);
    }
    refusal_say(h->refusal, 0, "CMD_INFO is 0x%x: kind 3 does not exist", h->info);
    return refuse(h);
}

enum hpu_access pspin_issue(struct hpu *h, enum hpu_access (*issue)(struct hpu *h, uint32_t number),
                            uint32_t *handle) {
    uint32_t written[SPIN_WORDS];
    memcpy(written, h->word, sizeof written);
    uint32_t number = translate(h, written);
    enum hpu_access done = number ? issue(h, number) : HPU_ACCESS_FAULT;
    memcpy(h->word, written, sizeof written);
    *handle = h->result;
    return done;
}
