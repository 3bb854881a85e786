/* The commands of handlers, decoded and checked: one table for all that carries them out. */
#include <string.h>

#include "hpu/integer.h"
#include "hpu/port.h"
#include "hpu/refusal.h"
#include "portals4.h"

/* Which words of a command say what; and instead of a word: */
enum {
    NO = 0xff,         /* it has none */
    ENTRY = 0xfe,      /* of a space: the match entry's memory, always */
    BY_ADDRESS = 0xfd, /* host memory by address, in two words */
    EIGHT = 0xfe,      /* of a length: 8 bytes, always */
};

static const struct form {
    uint8_t effect;
    bool numbered;
    uint8_t host, space;   /* host memory: where, and of which */
    uint8_t local, length; /* HPU memory, which it may be to write */
    bool writes;
} forms[] = {
    [SPIN_COMMAND_DMA_TO_HOST] = {PORT_STORE, true, 1, 3, 0, 2, false},
    [SPIN_COMMAND_DMA_FROM_HOST] = {PORT_FETCH, true, 0, 3, 1, 2, true},
    [SPIN_COMMAND_DMA_CAS] = {PORT_ATOMIC, true, 0, 4, 1, EIGHT, true},
    [SPIN_COMMAND_DMA_FETCH_ADD] = {PORT_ATOMIC, true, 0, 6, 3, 4, true},
    [SPIN_COMMAND_PUT_FROM_HOST] = {PORT_MESSAGE, false, 0, ENTRY, NO, 1, false},
    [SPIN_COMMAND_PUT_FROM_DEVICE] = {PORT_MESSAGE, false, NO, NO, 0, 1, false},
    [SPIN_COMMAND_GET_TO_HOST] = {PORT_MESSAGE, false, 0, ENTRY, NO, 1, false},
    [SPIN_COMMAND_GET_TO_DEVICE] = {PORT_MESSAGE, false, NO, NO, 0, 1, true},
    [SPIN_COMMAND_ATOMIC_FROM_HOST] = {PORT_MESSAGE, false, 0, ENTRY, NO, 1, false},
    [SPIN_COMMAND_ATOMIC_FROM_DEVICE] = {PORT_MESSAGE, false, NO, NO, 0, 1, false},
    [SPIN_COMMAND_CT_INC] = {PORT_COUNTER, false, NO, NO, NO, NO, false},
    [SPIN_COMMAND_CT_GET] = {PORT_COUNTER, false, NO, NO, 0, EIGHT, true},
    [SPIN_COMMAND_CT_SET] = {PORT_COUNTER, false, NO, NO, NO, NO, false},
    [SPIN_COMMAND_CAS] = {PORT_IN_PLACE, false, NO, NO, 0, EIGHT, true},
    [SPIN_COMMAND_FETCH_ADD] = {PORT_IN_PLACE, false, NO, NO, 0, EIGHT, true},
    [SPIN_COMMAND_NIC_SEND] = {PORT_PACKET, true, NO, NO, 0, 1, false},
    [SPIN_COMMAND_RDMA_PUT] = {PORT_PACKET, true, NO, NO, 1, 2, false},
    [SPIN_COMMAND_HOST_DMA_TO] = {PORT_STORE, true, 0, BY_ADDRESS, 2, 3, false},
    [SPIN_COMMAND_HOST_DMA_FROM] = {PORT_FETCH, true, 0, BY_ADDRESS, 2, 3, true},
    [SPIN_COMMAND_HOST_WRITE] = {PORT_STORE, true, 0, BY_ADDRESS, NO, EIGHT, false},
    [SPIN_COMMAND_LOCAL_DMA] = {PORT_COPY, true, NO, NO, NO, 2, false},
    [SPIN_COMMAND_STREAM_START] = {PORT_MESSAGE, false, NO, NO, 0, 1, false},
    [SPIN_COMMAND_STREAM_PUT] = {PORT_MESSAGE, false, NO, NO, 0, 1, false},
};

static const struct form *form_of(uint32_t number) {
    static const struct form none = {.effect = PORT_NOTHING};
    return number < sizeof forms / sizeof forms[0] ? &forms[number] : &none;
}

bool port_has_handle(uint32_t number) {
    return form_of(number)->numbered;
}

static uint64_t pair(const uint32_t *word) {
    return word[0] | (uint64_t)word[1] << 32;
}

static bool refused(struct port *p) {
    port_refuse(p);
    return false;
}

/* ---- what can be wrong with the words ---- */

static bool check_message(struct port *p, const struct port_command *c) {
    const uint32_t *w = c->word;
    bool one_packet =
        c->number == SPIN_COMMAND_PUT_FROM_DEVICE || c->number == SPIN_COMMAND_ATOMIC_FROM_DEVICE ||
        c->number == SPIN_COMMAND_STREAM_START || c->number == SPIN_COMMAND_STREAM_PUT;
    if (one_packet && c->bytes > p->mtu_bytes)
        refusal_length(&p->refusal, c->number, c->bytes, p->mtu_bytes);
    else if (w[2] > 1)
        refusal_say(&p->refusal, c->number, "counter %u: neither PTL_NO_CT nor PTL_LOCAL_ME_CT",
                    w[2]);
    else if (w[3] > PTL_OC_ACK_REQ)
        refusal_say(&p->refusal, c->number, "there is no acknowledgement request %u", w[3]);
    else if (c->number == SPIN_COMMAND_STREAM_START && w[11] < c->bytes)
        refusal_say(&p->refusal, c->number, "%u bytes of a message of %u", c->bytes, w[11]);
    else
        return true;
    return refused(p);
}

static bool check_atomic(struct port *p, struct port_command *c) {
    const uint32_t *w = c->word;
    bool swap = c->number == SPIN_COMMAND_DMA_CAS;
    c->operand = pair(&w[swap ? 2 : 1]);
    c->type = swap ? PTL_UINT64_T : w[5];
    c->local_bytes = c->bytes; /* of the value before */
    c->bytes = integer_bytes(c->type);
    if (!c->bytes)
        refusal_type(&p->refusal, c->number, c->type);
    else if (c->local_bytes > 8)
        refusal_length(&p->refusal, c->number, c->local_bytes, 8);
    else if (w[0] % c->bytes)
        refusal_align(&p->refusal, c->number, w[0], c->bytes);
    else
        return true;
    return refused(p);
}

static bool check_in_place(struct port *p, const struct port_command *c) {
    if (c->word[0] % 8 == 0)
        return true;
    refusal_align(&p->refusal, c->number, c->word[0], 8);
    hpu_refuse(p->hpu, HPU_FAULT_SEGV, c->word[0]);
    return false;
}

static bool check_words(struct port *p, struct port_command *c) {
    const uint32_t *w = c->word;
    switch (c->effect) {
    case PORT_NOTHING:
        refusal_unknown(&p->refusal, c->number, "the card");
        return refused(p);
    case PORT_MESSAGE:
        return check_message(p, c);
    case PORT_ATOMIC:
        return check_atomic(p, c);
    case PORT_IN_PLACE:
        return check_in_place(p, c);
    case PORT_COUNTER:
        if (c->number != SPIN_COMMAND_CT_INC || !w[0] || !w[1])
            return true;
        refusal_increment(&p->refusal, c->number, w);
        return refused(p);
    case PORT_COPY:
        if (w[3] <= 1)
            return true;
        refusal_say(&p->refusal, c->number, "direction %u is neither 0 nor 1", w[3]);
        return refused(p);
    }
    return true;
}

/* ---- memory ---- */

static uint8_t *reach(struct port *p, const struct port_command *c, uint32_t address,
                      uint64_t bytes, bool write) {
    static uint8_t nothing[1];
    uint8_t *at = bytes ? hpu_reach(p->hpu, address, bytes, write) : nothing;
    if (!at) {
        refusal_local(&p->refusal, c->number, address, bytes, write);
        hpu_refuse(p->hpu, HPU_FAULT_SEGV, address);
    }
    return at;
}

static bool outside(struct port *p, const struct port_command *c, const struct port_host *has) {
    if (c->space == PORT_AT_ADDRESS)
        refusal_host_address(&p->refusal, c->number, c->host_at, c->bytes, has->base, has->bytes);
    else
        refusal_host(&p->refusal, c->number, c->space, c->host_at, c->bytes, has->bytes);
    hpu_refuse(p->hpu, HPU_FAULT_HOST, 0);
    return false;
}

bool port_has_value(struct port *p, const struct port_command *c, uint64_t bytes) {
    if (bytes >= c->bytes && (uintptr_t)c->host % c->bytes == 0)
        return true;
    refusal_say(&p->refusal, c->number, "what is at offset %llu is not aligned to %u bytes",
                (unsigned long long)c->host_at, c->bytes);
    return refused(p);
}

static bool find_host(struct port *p, const struct form *f, struct port_command *c) {
    const uint32_t *w = c->word;
    bool by_address = f->space == BY_ADDRESS;
    uint32_t space = by_address ? PORT_AT_ADDRESS : f->space == ENTRY ? 0 : w[f->space];
    if (!by_address && space > 1) {
        refusal_space(&p->refusal, c->number, space);
        return refused(p);
    }
    c->space = (uint8_t)space;
    c->host_at = by_address ? (uint64_t)w[f->host] << 32 | w[f->host + 1] : w[f->host];
    if (!c->bytes)
        return true; /* nothing is everywhere */
    struct port_host has = p->card->host(p, space);
    uint64_t offset = c->host_at - has.base;
    if (offset > has.bytes || c->bytes > has.bytes - offset)
        return outside(p, c, &has);
    if (!has.memory)
        return true;
    c->host = has.memory + offset;
    return c->effect != PORT_ATOMIC || port_has_value(p, c, c->bytes);
}

/* A second place in HPU memory: of a copy the destination, of FETCH_ADD the value before. */
static bool find_other(struct port *p, struct port_command *c) {
    const uint32_t *w = c->word;
    if (c->effect == PORT_COPY) {
        c->local_at = w[w[3]];
        c->local = reach(p, c, c->local_at, c->bytes, false);
        c->other = c->local ? reach(p, c, w[!w[3]], c->bytes, true) : NULL;
        return c->other;
    }
    if (c->number == SPIN_COMMAND_FETCH_ADD)
        c->other = reach(p, c, w[1], 8, true);
    return c->number != SPIN_COMMAND_FETCH_ADD || c->other;
}

bool port_decode(struct port *p, uint32_t number, uint32_t handle, struct port_command *c) {
    const struct form *f = form_of(number);
    uint32_t *w = p->hpu->word;
    *c = (struct port_command){
        .number = number, .handle = handle, .word = w, .effect = f->effect, .space = PORT_NO_HOST};
    if (f->effect != PORT_NOTHING && f->length != NO)
        c->bytes = f->length == EIGHT ? 8 : w[f->length];
    if (!check_words(p, c) || (f->host != NO && !find_host(p, f, c)))
        return false;
    if (number == SPIN_COMMAND_HOST_WRITE)
        c->local = (uint8_t *)&w[2];
    if (f->local != NO) {
        c->local_at = w[f->local];
        c->local = reach(p, c, c->local_at, c->effect == PORT_ATOMIC ? c->local_bytes : c->bytes,
                         f->writes);
        if (!c->local)
            return false;
    }
    return find_other(p, c);
}

/* ---- performing ---- */

/* Others may use the value at the same time. */
static uint64_t fetch_add(uint32_t bytes, uint8_t *at, uint64_t add) {
    switch (bytes) {
    case 1:
        return __atomic_fetch_add(at, (uint8_t)add, __ATOMIC_SEQ_CST);
    case 2:
        return __atomic_fetch_add((uint16_t *)(void *)at, (uint16_t)add, __ATOMIC_SEQ_CST);
    case 4:
        return __atomic_fetch_add((uint32_t *)(void *)at, (uint32_t)add, __ATOMIC_SEQ_CST);
    }
    return __atomic_fetch_add((uint64_t *)(void *)at, add, __ATOMIC_SEQ_CST);
}

static bool swap(uint8_t *at, uint64_t *expected, uint64_t value) {
    return __atomic_compare_exchange_n((uint64_t *)(void *)at, expected, value, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void port_do_atomic(const struct port_command *c) {
    uint64_t before;
    if (c->number == SPIN_COMMAND_DMA_CAS) {
        memcpy(&before, c->local, 8);
        if (swap(c->host, &before, c->operand))
            return;
    } else {
        before = integer_extend(c->type, fetch_add(c->bytes, c->host, c->operand));
    }
    memcpy(c->local, &before, c->local_bytes);
}

/* In HPU memory. */
static void do_in_place(struct port *p, const struct port_command *c) {
    const uint32_t *w = c->word;
    if (c->number == SPIN_COMMAND_CAS) {
        uint64_t expected = pair(&w[1]);
        p->hpu->result = swap(c->local, &expected, pair(&w[3]));
        return;
    }
    uint64_t before = fetch_add(8, c->local, pair(&w[2]));
    memcpy(c->other, &before, 8);
}

/* On the card counters have 32 bits. */
static void do_counter(struct port *p, const struct port_command *c) {
    for (int i = 0; i < 2; i++) {
        uint32_t now = (uint32_t)p->counter[i];
        if (c->number == SPIN_COMMAND_CT_GET)
            memcpy(c->local + 4 * i, &now, 4);
        else
            p->counter[i] = (c->number == SPIN_COMMAND_CT_INC ? p->counter[i] : 0) + c->word[i];
    }
}

bool port_perform(struct port *p, const struct port_command *c) {
    switch (c->effect) {
    case PORT_IN_PLACE:
        do_in_place(p, c);
        return true;
    case PORT_COUNTER:
        if (p->counter)
            do_counter(p, c);
        return p->counter;
    }
    return false;
}
