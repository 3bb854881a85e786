#include "hpu/port.h"

#include <string.h>

#include "base/guarded_copy.h"
#include "hpu/pspin_registers.h"
#include "hpu/refusal.h"
#include "spin/driver.h"

static struct port *port_of(struct hpu *h) {
    return h->device_context;
}

static bool in_step(struct port *p) {
    p->sync = p->card->in_step && !p->card->in_step(p);
    return !p->sync;
}

enum hpu_access port_refuse(struct port *p) {
    return hpu_refuse(p->hpu, HPU_FAULT_COMMAND, 0);
}

/* ---- registers ---- */

static __attribute__((noinline)) enum hpu_access issue(struct hpu *h, uint32_t number) {
    struct port *p = port_of(h);
    uint32_t handle = port_has_handle(number) ? h->handles + 1 : 0;
    if (!in_step(p))
        return HPU_ACCESS_WAIT;
    h->result = number == SPIN_COMMAND_STREAM_START ? 1 : handle; /* or what the card says */
    struct port_command c;
    if (!port_decode(p, number, handle, &c))
        return HPU_ACCESS_FAULT;
    if (!port_perform(p, &c)) {
        enum hpu_access done = p->card->issue(p, &c);
        if (done != HPU_ACCESS_OK)
            return done;
    }
    p->commands++;
    h->handles += handle != 0;
    h->unready.port = 1;
    if (p->card->note)
        p->card->note(p, number);
    return HPU_ACCESS_OK;
}

/* The same, and the words go with it. */
static enum hpu_access issue_words(struct hpu *h, uint32_t number) {
    enum hpu_access done = issue(h, number);
    if (done == HPU_ACCESS_OK)
        port_clear_words(h);
    return done;
}

static enum hpu_access wait_or_test(struct port *p, uint32_t handle, bool wait) {
    if (!in_step(p))
        return HPU_ACCESS_WAIT;
    if (handle == 0 || handle > p->hpu->handles) {
        refusal_handle(&p->refusal, wait, handle);
        return port_refuse(p);
    }
    enum hpu_access over = p->card->over ? p->card->over(p, handle, wait) : HPU_ACCESS_OK;
    if (over == HPU_ACCESS_FAULT || (wait && over == HPU_ACCESS_WAIT))
        return over;
    p->hpu->result = over == HPU_ACCESS_OK;
    return HPU_ACCESS_OK;
}

/* In HPU memory: of the packet, as most is, or NULL. */
static inline uint8_t *in_packet(struct hpu *h, uint32_t address, uint32_t bytes, bool write) {
    const struct hpu_window *w = &h->window[0];
    uint32_t at = address - w->base, room = write ? w->write_room[0] : w->read_room[0];
    return at <= room && bytes <= room - at ? w->host + at : NULL;
}

/* DMA for which nothing has to be asked. False: it was not done; something may be wrong with it, or
 * the card is to do it. */
static inline bool copy_directly(struct hpu *h, bool out, bool of_packet) {
    const uint32_t *w = h->word;
    uint32_t local_at = w[!out], host_at = w[out], bytes = w[2], space = w[3];
    if (space > PORT_HANDLER)
        return false;
    const struct hpu_direct *has = &h->direct[space];
    if (!bytes || (uint64_t)host_at + bytes > has->bytes)
        return false;
    uint8_t *local =
        of_packet ? in_packet(h, local_at, bytes, !out) : hpu_reach(h, local_at, bytes, !out);
    if (!local)
        return false;
    uint8_t *host = has->memory + host_at;
    if (out ? !guarded_write(GUARDED_BY_SIGNAL, host, local, bytes)
            : !guarded_read(GUARDED_BY_SIGNAL, local, host, bytes))
        return false;
    h->result = ++h->handles;
    port_clear_words(h);
    return true;
}

static __attribute__((noinline)) enum hpu_access store_other(struct hpu *h, uint32_t offset,
                                                             uint32_t value) {
    struct port *p = port_of(h);
    bool out = value == SPIN_COMMAND_DMA_TO_HOST;
    switch (offset) {
    case SPIN_REG_ISSUE:
        if ((out || value == SPIN_COMMAND_DMA_FROM_HOST) && copy_directly(h, out, false))
            return HPU_ACCESS_OK;
        return issue_words(h, value);
    case SPIN_REG_WAIT:
        return wait_or_test(p, value, true);
    case SPIN_REG_TEST:
        return wait_or_test(p, value, false);
    case SPIN_REG_ALLOCATE:
        h->result = heap_allocate(h, &p->heap, value);
        h->unready.port = 1;
        return HPU_ACCESS_OK;
    }
    return HPU_ACCESS_FAULT;
}

/* What most handlers do to most packets comes first, and needs no registers to be saved. */
static enum hpu_access store(struct hpu *h, uint32_t offset, uint32_t value) {
    if (offset == SPIN_REG_ISSUE && value == SPIN_COMMAND_DMA_TO_HOST &&
        copy_directly(h, true, true))
        return HPU_ACCESS_OK;
    return store_other(h, offset, value);
}

static enum hpu_access load(struct hpu *h, uint32_t offset, uint32_t *value) {
    bool issues = offset == SPIN_REG_ISSUE && port_of(h)->is_pspin;
    return issues ? pspin_issue(h, issue, value) : HPU_ACCESS_FAULT;
}

static enum hpu_access print(struct hpu *h, uint8_t byte) {
    struct port *p = port_of(h);
    if (byte == '\n' && !in_step(p))
        return HPU_ACCESS_WAIT;
    if (console_put(&p->console, byte))
        p->card->print(p, console_line(&p->console));
    return HPU_ACCESS_OK;
}

static const struct hpu_device device = {.load = load, .store = store, .print = print};

void port_open(struct port *p, struct hpu *h, const struct port_card *card, bool is_pspin) {
    p->hpu = h;
    p->card = card;
    p->is_pspin = is_pspin;
    h->device = &device;
    h->device_context = p;
    h->refusal = &p->refusal;
}

void port_begin(struct port *p) {
    struct hpu *h = p->hpu;
    p->sync = false;
    port_clear_words(h);
    p->commands = 0;
    h->result = h->handles = 0;
    h->unready.port = 0;
    heap_begin(h, &p->heap);
}

void port_end(struct port *p) {
    if (p->console.length)
        p->card->print(p, console_line(&p->console));
}
