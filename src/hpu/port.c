#include "hpu/port.h"

#include <string.h>

#include "hpu/integer.h"
#include "hpu/pspin_registers.h"
#include "hpu/refusal.h"

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

/* ---- what commands have in common ---- */

bool port_has_handle(uint32_t number) {
    return number <= SPIN_COMMAND_DMA_FETCH_ADD || number >= SPIN_COMMAND_NIC_SEND;
}

bool port_has_host(struct port *p, uint32_t number, uint32_t space, uint64_t offset, uint64_t bytes,
                   uint64_t has) {
    if (space > 1) {
        refusal_space(&p->refusal, number, space);
        port_refuse(p);
        return false;
    }
    if (!bytes || (offset <= has && bytes <= has - offset))
        return true;
    refusal_host(&p->refusal, number, space, offset, bytes, has);
    hpu_refuse(p->hpu, HPU_FAULT_HOST, 0);
    return false;
}

bool port_has_host_at(struct port *p, uint32_t number, uint64_t address, uint64_t bytes,
                      uint64_t base, uint64_t has) {
    if (!bytes || (address - base <= has && bytes <= has - (address - base)))
        return true;
    refusal_host_address(&p->refusal, number, address, bytes, base, has);
    hpu_refuse(p->hpu, HPU_FAULT_HOST, 0);
    return false;
}

uint8_t *port_reach(struct port *p, uint32_t number, uint32_t address, uint64_t bytes, bool write) {
    static uint8_t nothing[1];
    uint8_t *at = bytes ? hpu_reach(p->hpu, address, bytes, write) : nothing;
    if (!at) {
        refusal_local(&p->refusal, number, address, bytes, write);
        hpu_refuse(p->hpu, HPU_FAULT_SEGV, address);
    }
    return at;
}

static uint64_t pair(const uint32_t *word) {
    return word[0] | (uint64_t)word[1] << 32;
}

bool port_atomic(struct port *p, uint32_t number, struct port_atomic *a) {
    const uint32_t *w = p->hpu->word;
    if (number == SPIN_COMMAND_DMA_CAS)
        *a = (struct port_atomic){w[0], w[4], 8, 0, w[1], 8, pair(&w[2])};
    else
        *a = (struct port_atomic){w[0], w[6], integer_bytes(w[5]), w[5], w[3], w[4], pair(&w[1])};
    if (!a->bytes)
        refusal_type(&p->refusal, number, a->type);
    else if (a->local_bytes > 8)
        refusal_length(&p->refusal, number, a->local_bytes, 8);
    else if (a->offset % a->bytes)
        refusal_align(&p->refusal, number, a->offset, a->bytes);
    else
        return true;
    port_refuse(p);
    return false;
}

void port_do_atomic(const struct port_atomic *a, uint32_t number, uint8_t *host, uint8_t *local) {
    if (number != SPIN_COMMAND_DMA_CAS) {
        uint64_t before = integer_fetch_add(a->type, host, a->operand);
        memcpy(local, &before, a->local_bytes);
    } else if (memcmp(host, local, 8) == 0) {
        memcpy(host, &a->operand, 8);
    } else {
        memcpy(local, host, 8);
    }
}

bool port_local_copy(struct port *p, uint8_t **from, uint8_t **to) {
    const uint32_t *w = p->hpu->word, number = SPIN_COMMAND_LOCAL_DMA;
    if (w[3] > 1) {
        refusal_say(&p->refusal, number, "direction %u is neither 0 nor 1", w[3]);
        port_refuse(p);
        return false;
    }
    *from = port_reach(p, number, w[w[3]], w[2], false);
    *to = *from ? port_reach(p, number, w[!w[3]], w[2], true) : NULL;
    return *to;
}

/* ---- commands that concern the HPU and the entry's counter alone ---- */

static enum hpu_access do_in_memory(struct port *p, uint32_t number) {
    const uint32_t *w = p->hpu->word;
    if (w[0] % 8) {
        refusal_align(&p->refusal, number, w[0], 8);
        return hpu_refuse(p->hpu, HPU_FAULT_SEGV, w[0]);
    }
    uint64_t *value = (uint64_t *)(void *)port_reach(p, number, w[0], 8, true);
    if (!value)
        return HPU_ACCESS_FAULT;
    if (number == SPIN_COMMAND_CAS) {
        uint64_t expected = pair(&w[1]);
        p->hpu->result = __atomic_compare_exchange_n(value, &expected, pair(&w[3]), false,
                                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return HPU_ACCESS_OK;
    }
    uint8_t *before = port_reach(p, number, w[1], 8, true);
    if (!before)
        return HPU_ACCESS_FAULT;
    uint64_t old = __atomic_fetch_add(value, pair(&w[2]), __ATOMIC_SEQ_CST);
    memcpy(before, &old, 8);
    return HPU_ACCESS_OK;
}

/* On the card counters have 32 bits. */
static enum hpu_access do_counter(struct port *p, uint32_t number) {
    const uint32_t *w = p->hpu->word;
    if (number == SPIN_COMMAND_CT_INC && w[0] && w[1]) {
        refusal_increment(&p->refusal, number, w);
        return port_refuse(p);
    }
    uint8_t *event = NULL;
    if (number == SPIN_COMMAND_CT_GET && !(event = port_reach(p, number, w[0], 8, true)))
        return HPU_ACCESS_FAULT;
    for (int i = 0; i < 2; i++) {
        uint32_t now = (uint32_t)p->counter[i];
        if (event)
            memcpy(event + 4 * i, &now, 4);
        else
            p->counter[i] = (number == SPIN_COMMAND_CT_INC ? p->counter[i] : 0) + w[i];
    }
    return HPU_ACCESS_OK;
}

static enum hpu_access carry_out(struct port *p, uint32_t number, uint32_t handle) {
    unsigned words;
    const char *labels;
    if (!spin_command_name(number, &words, &labels)) {
        refusal_unknown(&p->refusal, number, "the card");
        return port_refuse(p);
    }
    bool from_device =
        number == SPIN_COMMAND_PUT_FROM_DEVICE || number == SPIN_COMMAND_ATOMIC_FROM_DEVICE;
    if (from_device && p->hpu->word[1] > p->mtu_bytes) {
        refusal_length(&p->refusal, number, p->hpu->word[1], p->mtu_bytes);
        return port_refuse(p);
    }
    struct port_atomic a;
    if ((number == SPIN_COMMAND_DMA_CAS || number == SPIN_COMMAND_DMA_FETCH_ADD) &&
        !port_atomic(p, number, &a))
        return HPU_ACCESS_FAULT;
    if (number == SPIN_COMMAND_CAS || number == SPIN_COMMAND_FETCH_ADD)
        return do_in_memory(p, number);
    if (p->counter && number >= SPIN_COMMAND_CT_INC && number <= SPIN_COMMAND_CT_SET)
        return do_counter(p, number);
    return p->card->issue(p, number, handle);
}

/* ---- registers ---- */

static enum hpu_access issue(struct hpu *h, uint32_t number) {
    struct port *p = port_of(h);
    uint32_t handle = port_has_handle(number) ? p->handles + 1 : 0;
    if (!in_step(p))
        return HPU_ACCESS_WAIT;
    h->result = handle;
    enum hpu_access done = carry_out(p, number, handle);
    if (done != HPU_ACCESS_OK)
        return done;
    p->commands++;
    p->handles += handle != 0;
    if (p->card->note)
        p->card->note(p, number);
    return done;
}

static enum hpu_access wait_or_test(struct port *p, uint32_t handle, bool wait) {
    if (!in_step(p))
        return HPU_ACCESS_WAIT;
    if (handle == 0 || handle > p->handles) {
        refusal_handle(&p->refusal, wait, handle);
        return port_refuse(p);
    }
    bool ended = !p->card->ended || p->card->ended(p, handle);
    if (wait && !ended) {
        p->card->wait(p, handle);
        return HPU_ACCESS_WAIT;
    }
    p->hpu->result = ended;
    return HPU_ACCESS_OK;
}

static enum hpu_access store(struct hpu *h, uint32_t offset, uint32_t value) {
    struct port *p = port_of(h);
    switch (offset) {
    case SPIN_REG_ISSUE:
        return issue(h, value);
    case SPIN_REG_WAIT:
        return wait_or_test(p, value, true);
    case SPIN_REG_TEST:
        return wait_or_test(p, value, false);
    case SPIN_REG_ALLOCATE:
        h->result = heap_allocate(h, &p->heap, value);
        return HPU_ACCESS_OK;
    }
    return HPU_ACCESS_FAULT;
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
    p->commands = p->handles = 0;
    h->result = h->info = 0;
    memset(h->word, 0, sizeof h->word);
    heap_begin(h, &p->heap);
}

void port_end(struct port *p) {
    if (p->console.length)
        p->card->print(p, console_line(&p->console));
}
