/* Images, execution contexts, and the card's memory as the host sees it.
 *
 * As in the RTL, nothing of a context is checked when a packet names it: memory is where the driver
 * says, and a handler that is not there does not run. */
#include <string.h>

#include "base/error.h"
#include "hpu/image.h"
#include "pspin/world.h"

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
    pspin_to_card(*image);
    return SPIN_SUCCESS;
}

void pspin_to_card(const struct spin_image *image) {
    struct spin_error err; /* told when a context needs the image */
    if (pspin.card)
        card_load(pspin.card, image, &err);
}

int spin_find_handler_by_name(const char *binfile, const char *name, spin_nic_addr_t *addr,
                              size_t *size) {
    struct spin_image *image;
    uint32_t address = 0, bytes = 0; /* 0: no such handler, and none is run */
    if (pspin_load(binfile, &image))
        return SPIN_ERR;
    image_symbol(image, name, &address, &bytes);
    *addr = address;
    *size = bytes;
    return SPIN_SUCCESS;
}

/* The image that has a function at that address, if possible of that size; the latest that was
 * loaded. A context without any handler may have any image. */
static struct spin_image *image_of(const spin_ec_t *ec) {
    uint32_t address = ec->ph_addr ? ec->ph_addr : ec->hh_addr ? ec->hh_addr : ec->th_addr;
    uint32_t size = ec->ph_addr ? ec->ph_size : ec->hh_addr ? ec->hh_size : ec->th_size;
    struct spin_image *found = NULL;
    for (uint32_t i = 0; i < pspin.images; i++) {
        const struct spin_function *f = spin_image_at(pspin.image[i], address);
        bool here = !address || (f && f->address == address);
        if (here && (!found || !address || f->bytes == size))
            found = pspin.image[i];
    }
    return found;
}

static int transfer(uint32_t address, void *data, size_t size, void *user, bool write) {
    if (!pspin.card)
        return pspin_say("no card: call pspinsim_init first");
    uint8_t *here = size > UINT32_MAX ? NULL : card_memory(pspin.card, address, (uint32_t)size);
    if (!here)
        return pspin_say("0x%x, %zu bytes: is neither in L2 nor in an L1", address, size);
    memcpy(write ? here : data, write ? data : here, size);
    uint64_t at = sim_engine_counts(pspin.engine).now_ps + pspin.config.pcie_latency +
                  size * pspin.config.pcie_rate / 1000;
    sim_schedule(&pspin.host, at, 0, write ? PSPIN_WRITE_EVENT : PSPIN_READ_EVENT,
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
                             .memory_address = ec->handler_mem_addr,
                             .memory_bytes = ec->handler_mem_size,
                             .host_address = ec->host_mem_addr,
                             .host_bytes = ec->host_mem_size,
                             .as_rtl = true};
    if (!x.image)
        return pspin_say("no image has handlers at 0x%x; find them with spin_find_handler_by_name",
                         ec->ph_addr);
    for (uint32_t i = 0; i < NUM_CLUSTERS; i++) {
        x.pad_offset[i] = ec->scratchpad_addr[i];
        x.pad_bytes[i] = ec->scratchpad_size[i];
    }
    if (pspin.contexts == PSPIN_CONTEXTS)
        return pspin_say("more than %d execution contexts", PSPIN_CONTEXTS);
    if (card_add_context(pspin.card, &x, number, &err))
        return pspin_fail(&err);
    pspin.context[pspin.contexts++] = *ec;
    return SPIN_SUCCESS;
}

int pspin_find_context(const spin_ec_t *ec, uint32_t *number) {
    for (uint32_t i = pspin.contexts; i-- > 0;) /* most likely one of the last */
        if (memcmp(&pspin.context[i], ec, sizeof *ec) == 0) {
            *number = i;
            return SPIN_SUCCESS;
        }
    return make_context(ec, number);
}

void pspin_memory_free(void) {
    for (uint32_t i = 0; i < pspin.images; i++)
        spin_image_free(pspin.image[i]);
}
