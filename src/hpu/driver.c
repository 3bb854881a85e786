/* The HPU driver of the rig: records each command, and does what can be done without a network: DMA
 * to the rig's host memory, atomics, the counter. Everything is complete when ISSUE returns. */
#include <stdio.h>
#include <string.h>

#include "hpu/integer.h"
#include "hpu/pspin_registers.h"
#include "hpu/refusal.h"
#include "hpu/rig.h"
#include "spin/driver.h"

static enum hpu_access bad_command(struct hpu *h) {
    return hpu_refuse(h, HPU_FAULT_COMMAND, 0);
}

static uint8_t *reach(struct spin_rig *rig, uint32_t address, uint64_t bytes, bool write) {
    return refusal_reach(&rig->hpu, rig->issuing, address, bytes, write);
}

/* `space` of a command: the ME's host memory or the handler's. NULL: the handler is faulted. */
static uint8_t *host_memory(struct spin_rig *rig, uint32_t space, uint32_t offset, uint32_t bytes) {
    struct hpu *h = &rig->hpu;
    if (space > 1) {
        refusal_space(h->refusal, rig->issuing, space);
        bad_command(h);
        return NULL;
    }
    if (bytes && (offset > rig->host_bytes || bytes > rig->host_bytes - offset)) {
        refusal_host(h->refusal, rig->issuing, space, offset, bytes, rig->host_bytes);
        hpu_refuse(h, HPU_FAULT_HOST, 0);
        return NULL;
    }
    return (space ? rig->handler_host : rig->me_host) + (bytes ? offset : 0);
}

/* A host address of PsPIN's commands, in two words. Its host memory is the ME's. */
static uint8_t *host_at(struct spin_rig *rig, const uint32_t *high_low, uint32_t bytes) {
    uint64_t address = (uint64_t)high_low[0] << 32 | high_low[1], offset = address - RIG_HOST_BASE;
    if (!bytes)
        return rig->me_host;
    if (offset <= rig->host_bytes && bytes <= rig->host_bytes - offset)
        return rig->me_host + offset;
    refusal_host_address(rig->hpu.refusal, rig->issuing, address, bytes, RIG_HOST_BASE,
                         rig->host_bytes);
    hpu_refuse(&rig->hpu, HPU_FAULT_HOST, 0);
    return NULL;
}

/* Whether an atomic's offset is a multiple of its size. */
static bool is_aligned(struct spin_rig *rig, uint32_t offset, uint32_t bytes) {
    if (offset % bytes == 0)
        return true;
    refusal_align(rig->hpu.refusal, rig->issuing, offset, bytes);
    bad_command(&rig->hpu);
    return false;
}

static uint64_t pair(const uint32_t *word) {
    return word[0] | (uint64_t)word[1] << 32;
}

static enum hpu_access do_dma(struct spin_rig *rig, const uint32_t *w, bool to_host) {
    uint8_t *host = host_memory(rig, w[3], to_host ? w[1] : w[0], w[2]);
    uint8_t *local = host ? reach(rig, to_host ? w[0] : w[1], w[2], !to_host) : NULL;
    if (!local)
        return HPU_ACCESS_FAULT;
    if (to_host)
        memcpy(host, local, w[2]);
    else
        memcpy(local, host, w[2]);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_dma_cas(struct spin_rig *rig, const uint32_t *w) {
    uint8_t *host = is_aligned(rig, w[0], 8) ? host_memory(rig, w[4], w[0], 8) : NULL;
    uint8_t *compare = host ? reach(rig, w[1], 8, true) : NULL;
    if (!compare)
        return HPU_ACCESS_FAULT;
    uint64_t swap = pair(&w[2]);
    if (memcmp(host, compare, 8) == 0)
        memcpy(host, &swap, 8);
    else
        memcpy(compare, host, 8);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_dma_fetch_add(struct spin_rig *rig, const uint32_t *w) {
    uint32_t bytes = integer_bytes(w[5]);
    if (!bytes) {
        refusal_type(rig->hpu.refusal, rig->issuing, w[5]);
        return bad_command(&rig->hpu);
    }
    if (w[4] > 8) {
        refusal_length(rig->hpu.refusal, rig->issuing, w[4], 8);
        return bad_command(&rig->hpu);
    }
    uint8_t *host = is_aligned(rig, w[0], bytes) ? host_memory(rig, w[6], w[0], bytes) : NULL;
    uint8_t *result = host ? reach(rig, w[3], w[4], true) : NULL;
    if (!result)
        return HPU_ACCESS_FAULT;
    uint64_t before = integer_fetch_add(w[5], host, pair(&w[1]));
    memcpy(result, &before, w[4]);
    return HPU_ACCESS_OK;
}

static uint64_t *hpu_word64(struct spin_rig *rig, uint32_t address) {
    if (address % 8 == 0)
        return (uint64_t *)(void *)reach(rig, address, 8, true);
    refusal_align(rig->hpu.refusal, rig->issuing, address, 8);
    hpu_refuse(&rig->hpu, HPU_FAULT_SEGV, address);
    return NULL;
}

static enum hpu_access do_cas(struct spin_rig *rig, const uint32_t *w) {
    uint64_t *value = hpu_word64(rig, w[0]), expected = pair(&w[1]);
    if (!value)
        return HPU_ACCESS_FAULT;
    rig->hpu.result = __atomic_compare_exchange_n(value, &expected, pair(&w[3]), false,
                                                  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_fetch_add(struct spin_rig *rig, const uint32_t *w) {
    uint64_t *value = hpu_word64(rig, w[0]);
    uint8_t *before = value ? reach(rig, w[1], 8, true) : NULL;
    if (!before)
        return HPU_ACCESS_FAULT;
    uint64_t old = __atomic_fetch_add(value, pair(&w[2]), __ATOMIC_SEQ_CST);
    memcpy(before, &old, 8);
    return HPU_ACCESS_OK;
}

/* A message's data must be the handler's to send. */
static enum hpu_access do_message(struct spin_rig *rig, const uint32_t *w, bool device, bool get) {
    if (device && !get && w[1] > RIG_MTU) {
        refusal_length(rig->hpu.refusal, rig->issuing, w[1], RIG_MTU);
        return bad_command(&rig->hpu);
    }
    if (device)
        return reach(rig, w[0], w[1], get) ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
    return host_memory(rig, 0, w[0], w[1]) ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
}

static enum hpu_access do_counter(struct spin_rig *rig, const uint32_t *w, uint32_t number) {
    uint8_t *event;
    switch (number) {
    case SPIN_COMMAND_CT_INC:
        if (w[0] && w[1]) {
            refusal_increment(rig->hpu.refusal, number, w);
            return bad_command(&rig->hpu);
        }
        rig->counter[0] += w[0];
        rig->counter[1] += w[1];
        return HPU_ACCESS_OK;
    case SPIN_COMMAND_CT_SET:
        rig->counter[0] = w[0];
        rig->counter[1] = w[1];
        return HPU_ACCESS_OK;
    }
    event = reach(rig, w[0], 8, true);
    if (!event)
        return HPU_ACCESS_FAULT;
    memcpy(event, &rig->counter[0], 4);
    memcpy(event + 4, &rig->counter[1], 4);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_outbound(struct spin_rig *rig, uint32_t dest, uint32_t local,
                                   uint32_t length) {
    const uint8_t *data = reach(rig, local, length, false);
    if (!data)
        return HPU_ACCESS_FAULT;
    if (rig->outbound)
        rig->outbound(rig->outbound_context, dest, data, length);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_host_dma(struct spin_rig *rig, const uint32_t *w, bool to_host) {
    uint8_t *host = host_at(rig, w, w[3]);
    uint8_t *local = host ? reach(rig, w[2], w[3], !to_host) : NULL;
    if (!local)
        return HPU_ACCESS_FAULT;
    memcpy(to_host ? host : local, to_host ? local : host, w[3]);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_host_write(struct spin_rig *rig, const uint32_t *w) {
    uint8_t *host = host_at(rig, w, 8);
    if (!host)
        return HPU_ACCESS_FAULT;
    memcpy(host, &w[2], 8);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_local_dma(struct spin_rig *rig, const uint32_t *w) {
    if (w[3] > 1) {
        refusal_say(rig->hpu.refusal, rig->issuing, "direction %u is neither 0 nor 1", w[3]);
        return bad_command(&rig->hpu);
    }
    const uint8_t *from = reach(rig, w[w[3]], w[2], false);
    uint8_t *to = from ? reach(rig, w[!w[3]], w[2], true) : NULL;
    if (!to)
        return HPU_ACCESS_FAULT;
    memmove(to, from, w[2]);
    return HPU_ACCESS_OK;
}

static enum hpu_access execute(struct spin_rig *rig, uint32_t number) {
    const uint32_t *w = rig->hpu.word;
    switch (number) {
    case SPIN_COMMAND_DMA_TO_HOST:
    case SPIN_COMMAND_DMA_FROM_HOST:
        return do_dma(rig, w, number == SPIN_COMMAND_DMA_TO_HOST);
    case SPIN_COMMAND_DMA_CAS:
        return do_dma_cas(rig, w);
    case SPIN_COMMAND_DMA_FETCH_ADD:
        return do_dma_fetch_add(rig, w);
    case SPIN_COMMAND_PUT_FROM_HOST:
    case SPIN_COMMAND_ATOMIC_FROM_HOST:
    case SPIN_COMMAND_GET_TO_HOST:
        return do_message(rig, w, false, false);
    case SPIN_COMMAND_PUT_FROM_DEVICE:
    case SPIN_COMMAND_ATOMIC_FROM_DEVICE:
        return do_message(rig, w, true, false);
    case SPIN_COMMAND_GET_TO_DEVICE:
        return do_message(rig, w, true, true);
    case SPIN_COMMAND_CT_INC:
    case SPIN_COMMAND_CT_GET:
    case SPIN_COMMAND_CT_SET:
        return do_counter(rig, w, number);
    case SPIN_COMMAND_CAS:
        return do_cas(rig, w);
    case SPIN_COMMAND_FETCH_ADD:
        return do_fetch_add(rig, w);
    case SPIN_COMMAND_NIC_SEND:
        return do_outbound(rig, 0, w[0], w[1]);
    case SPIN_COMMAND_RDMA_PUT:
        return do_outbound(rig, w[0], w[1], w[2]);
    case SPIN_COMMAND_HOST_DMA_TO:
    case SPIN_COMMAND_HOST_DMA_FROM:
        return do_host_dma(rig, w, number == SPIN_COMMAND_HOST_DMA_TO);
    case SPIN_COMMAND_HOST_WRITE:
        return do_host_write(rig, w);
    case SPIN_COMMAND_LOCAL_DMA:
        return do_local_dma(rig, w);
    }
    refusal_unknown(rig->hpu.refusal, number, "the card");
    return bad_command(&rig->hpu);
}

static enum hpu_access issue(struct hpu *h, uint32_t number) {
    struct spin_rig *rig = (struct spin_rig *)h;
    rig->hpu.result = ++rig->handles;
    rig->issuing = number;
    enum hpu_access done = execute(rig, number);
    if (done != HPU_ACCESS_OK)
        return done;
    if (rig->commands == RIG_COMMANDS) {
        rig->commands_lost++;
        return done;
    }
    struct spin_command *c = &rig->command[rig->commands++];
    c->number = (uint8_t)number;
    c->cycle = rig->hpu.cycles - rig->start_cycle;
    memcpy(c->word, rig->hpu.word, sizeof c->word);
    return done;
}

static enum hpu_access store(struct hpu *h, uint32_t offset, uint32_t value) {
    struct spin_rig *rig = (struct spin_rig *)h;
    switch (offset) {
    case SPIN_REG_ISSUE:
        return issue(h, value);
    case SPIN_REG_WAIT:
    case SPIN_REG_TEST:
        if (value == 0 || value > rig->handles) {
            refusal_handle(h->refusal, offset == SPIN_REG_WAIT, value);
            return bad_command(h);
        }
        rig->hpu.result = 1;
        return HPU_ACCESS_OK;
    case SPIN_REG_ALLOCATE:
        h->result = heap_allocate(h, &rig->heap, value);
        return HPU_ACCESS_OK;
    }
    return HPU_ACCESS_FAULT;
}

/* A load of ISSUE. */
static enum hpu_access load(struct hpu *h, uint32_t offset, uint32_t *value) {
    const struct spin_rig *rig = (const struct spin_rig *)h;
    if (offset == SPIN_REG_ISSUE && rig->image->info.is_pspin)
        return pspin_issue(h, issue, value);
    return HPU_ACCESS_FAULT;
}

void rig_print_line(struct spin_rig *rig) {
    const char *line = console_line(&rig->console);
    uint32_t id = rig->hpu.id;
    if (rig->print)
        rig->print(rig->print_context, id, line);
    else
        fprintf(stderr, "[%u,%u] %s\n", id / MAP_CLUSTER_HPUS, id % MAP_CLUSTER_HPUS, line);
}

static enum hpu_access print(struct hpu *h, uint8_t byte) {
    struct spin_rig *rig = (struct spin_rig *)h;
    if (console_put(&rig->console, byte))
        rig_print_line(rig);
    return HPU_ACCESS_OK;
}

const struct hpu_device rig_device = {.load = load, .store = store, .print = print};
