/* Images, execution contexts, and the card's memory as the host sees it.
 *
 * A driver chooses addresses for handler memory and scratchpads and writes there before any packet
 * names a context. The card places them itself: so writes go into a shadow of the memories first,
 * a context takes its first content from there, and from then on addresses are translated. Contexts
 * with the same handler memory share it; a scratchpad belongs to one context. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "pspin/world.h"

#define L2_BYTES ((uint32_t)L2_HND_BUFF_SIZE)
#define L1_BYTES ((uint32_t)L1_CLUSTER_ACTUAL_MEM_SIZE)

int pspin_load(const char *path, struct spin_image **image) {
    struct spin_error err;
    for (uint32_t i = 0; i < pspin.images; i++)
        if (strcmp(spin_image_info(pspin.image[i])->path, path) == 0) {
            *image = pspin.image[i];
            return SPIN_SUCCESS;
        }
    if (pspin.images == PSPIN_IMAGES)
        return pspin_say("%s: more than %d images", path, PSPIN_IMAGES);
    if (spin_image_load(image, path, NULL, &err))
        return pspin_fail(&err);
    if (!spin_image_info(*image)->is_pspin) {
        spin_image_free(*image);
        return pspin_say("%s: is no PsPIN image; compile it with 'openspin cc --pspin'", path);
    }
    pspin.image[pspin.images++] = *image;
    return SPIN_SUCCESS;
}

int spin_find_handler_by_name(const char *binfile, const char *name, spin_nic_addr_t *addr,
                              size_t *size) {
    struct spin_image *image;
    const struct spin_function *function;
    struct spin_error err;
    if (pspin_load(binfile, &image))
        return SPIN_ERR;
    if (spin_image_find(image, name, &function, &err))
        return pspin_fail(&err);
    *addr = function->address;
    *size = function->bytes;
    return SPIN_SUCCESS;
}

/* The image that has a function at that address, of that size; the latest that was loaded. */
static struct spin_image *image_of(const spin_ec_t *ec) {
    uint32_t address = ec->ph_addr ? ec->ph_addr : ec->hh_addr ? ec->hh_addr : ec->th_addr;
    uint32_t size = ec->ph_addr ? ec->ph_size : ec->hh_addr ? ec->hh_size : ec->th_size;
    for (uint32_t i = pspin.images; i-- > 0;) {
        const struct spin_function *f = spin_image_at(pspin.image[i], address);
        if (f && f->address == address && (!size || f->bytes == size))
            return pspin.image[i];
    }
    return NULL;
}

/* Of `bytes` at an address of the host's, in the shadow. NULL: not memory of handlers. */
static uint8_t *shadow_at(uint32_t address, size_t bytes) {
    uint64_t offset = (uint64_t)address - L2_HND_BUFF_START;
    if (address >= L2_HND_BUFF_START && offset + bytes <= L2_BYTES)
        return pspin.shadow + offset;
    for (uint32_t i = 0; i < NUM_CLUSTERS; i++) {
        offset = (uint64_t)address - L1_CLUSTER_BASE(i);
        if (address >= L1_CLUSTER_BASE(i) && offset + bytes <= L1_BYTES)
            return pspin.shadow + L2_BYTES + (size_t)i * L1_BYTES + offset;
    }
    return NULL;
}

/* Range i of a context as its driver placed it: handler memory, then scratchpads. */
static void range(uint32_t number, uint32_t i, uint32_t *address, uint32_t *bytes, uint8_t **here) {
    const spin_ec_t *ec = &pspin.context[number];
    uint32_t room, at = card_address(pspin.card, number, i ? i - 1 : UINT32_MAX, &room);
    *address = i ? ec->scratchpad_addr[i - 1] : ec->handler_mem_addr;
    *bytes = i ? ec->scratchpad_size[i - 1] : ec->handler_mem_size;
    *here = *bytes ? card_reach(pspin.card, number, at, *bytes) : NULL;
}

/* Copies between the shadow and what contexts have of those bytes. */
static void copy(uint32_t address, size_t bytes, bool to_card) {
    for (uint32_t c = 0; c < pspin.contexts; c++)
        for (uint32_t i = 0; i <= NUM_CLUSTERS; i++) {
            uint32_t base, length;
            uint8_t *here;
            range(c, i, &base, &length, &here);
            uint64_t from = address > base ? address : base, end = (uint64_t)address + bytes;
            if (end > (uint64_t)base + length)
                end = (uint64_t)base + length;
            uint8_t *there = from < end ? shadow_at((uint32_t)from, end - from) : NULL;
            if (!here || !there)
                continue;
            memcpy(to_card ? here + (from - base) : there, to_card ? there : here + (from - base),
                   end - from);
        }
}

static int transfer(uint32_t address, void *data, size_t size, void *user, bool write) {
    if (!pspin.card)
        return pspin_say("no card: call pspinsim_init first");
    uint8_t *shadow = shadow_at(address, size);
    if (!shadow)
        return pspin_say("0x%x, %zu bytes: is neither in L2 handler memory nor in an L1", address,
                         size);
    if (write) {
        memcpy(shadow, data, size);
        copy(address, size, true);
    } else {
        copy(address, size, false);
        memcpy(data, shadow, size);
    }
    uint64_t latency = pspin.config.pcie_latency * (write ? 1 : 2);
    uint64_t at =
        sim_engine_counts(pspin.engine).now_ps + latency + size * pspin.config.pcie_rate / 1000;
    sim_schedule(pspin.engine, at, write ? pspin.write_done : pspin.read_done,
                 (union sim_payload){.u64 = {(uintptr_t)user}});
    return SPIN_SUCCESS;
}

int spin_nicmem_write(spin_nic_addr_t addr, void *data, size_t size, void *user_ptr) {
    return transfer(addr, data, size, user_ptr, true);
}

int spin_nicmem_read(spin_nic_addr_t addr, void *data, size_t size, void *user_ptr) {
    return transfer(addr, data, size, user_ptr, false);
}

static int make_context(const spin_ec_t *ec, uint32_t *number) {
    struct spin_error err;
    struct card_context x = {.abi = CARD_PSPIN,
                             .image = image_of(ec),
                             .entry = {ec->hh_addr, ec->ph_addr, ec->th_addr},
                             .memory_bytes = ec->handler_mem_size,
                             .host_address = ec->host_mem_addr,
                             .host_bytes = ec->host_mem_size};
    if (!x.image)
        return pspin_say("no image has handlers at 0x%x; find them with spin_find_handler_by_name",
                         ec->ph_addr);
    for (uint32_t i = 0; i < NUM_CLUSTERS; i++)
        if (ec->scratchpad_size[i] > x.scratch_bytes)
            x.scratch_bytes = ec->scratchpad_size[i];
    for (uint32_t c = 0; c < pspin.contexts; c++)
        if (ec->handler_mem_size && pspin.context[c].handler_mem_addr == ec->handler_mem_addr &&
            pspin.context[c].handler_mem_size >= ec->handler_mem_size) {
            uint32_t room;
            x.memory_address = card_address(pspin.card, c, UINT32_MAX, &room);
            break;
        }
    if (pspin.contexts == PSPIN_CONTEXTS)
        return pspin_say("more than %d execution contexts", PSPIN_CONTEXTS);
    /* What was there stays there: the host may have read or the handlers of another context
     * written it. */
    if (shadow_at(ec->handler_mem_addr, ec->handler_mem_size))
        copy(ec->handler_mem_addr, ec->handler_mem_size, false);
    if (card_add_context(pspin.card, &x, number, &err))
        return pspin_fail(&err);
    pspin.context[pspin.contexts++] = *ec;
    for (uint32_t i = 0; i <= NUM_CLUSTERS; i++) {
        uint32_t base, bytes;
        uint8_t *here;
        range(*number, i, &base, &bytes, &here);
        uint8_t *first = here ? shadow_at(base, bytes) : NULL;
        if (here && !first)
            return pspin_say("memory of the context at 0x%x, %u bytes: is not where handlers have "
                             "memory",
                             base, bytes);
        if (here)
            memcpy(here, first, bytes);
    }
    return SPIN_SUCCESS;
}

int pspin_find_context(const spin_ec_t *ec, uint32_t *number) {
    for (uint32_t i = 0; i < pspin.contexts; i++)
        if (memcmp(&pspin.context[i], ec, sizeof *ec) == 0) {
            *number = i;
            return SPIN_SUCCESS;
        }
    return make_context(ec, number);
}

void pspin_memory_free(void) {
    for (uint32_t i = 0; i < pspin.images; i++)
        spin_image_free(pspin.image[i]);
    free(pspin.shadow);
}
