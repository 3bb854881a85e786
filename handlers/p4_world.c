/* The use cases' ranks in a simulated world. */
#include <stdlib.h>

#include "base/error.h"
#include "p4.h"

/* An image that is not there is said once and clearly, not by a rank in the middle of its work. */
static int check_images(const struct p4_setup *setup, const char *const *images,
                        struct spin_error *err) {
    struct spin_limits limits;
    spin_limits_default(&limits);
    limits.with_float = true;
    int code = SPIN_OK;
    for (; *images && !code; images++) {
        struct spin_image *image;
        char *path = p4_image_path(setup, *images);
        if (!path)
            return spin_fail(err, SPIN_ENOMEM, "out of memory");
        code = spin_image_load(&image, path, &limits, err);
        spin_image_free(image);
        free(path);
    }
    return code;
}

int p4_run(const struct p4_setup *setup, uint32_t ranks, const char *const *images,
           int (*rank)(void *shared), void *shared, struct p4_outcome *outcome,
           struct spin_error *err) {
    struct spin_world_options options = setup->world;
    struct spin_world *world;
    *outcome = (struct p4_outcome){0};
    options.ranks = ranks;
    int code = check_images(setup, images, err);
    if (!code)
        code = spin_world_new(&world, &options, err);
    if (code)
        return code;
    code = spin_world_run(world, rank, shared, err);
    outcome->world = spin_world_result(world);
    outcome->world.first_fault = "";
    const struct spin_world_result *r = &outcome->world;
    if (!code && r->failed)
        code = spin_fail(err, SPIN_EFORMAT, "%s: rank %u failed at check %d",
                         p4_variant_name(setup->variant), r->first_failed, r->first_status);
    else if (!code && r->counts.faults)
        code = spin_fail(err, SPIN_EFORMAT, "%s: a handler failed: %s",
                         p4_variant_name(setup->variant), spin_world_result(world).first_fault);
    spin_world_free(world);
    return code;
}

void p4_settle(void) {} /* a barrier ends at one moment */

bool p4_again(struct p4_shared *shared) {
    (void)shared;
    spin_barrier();
    return false;
}

void p4_work(uint64_t cycles, uint64_t memory_bytes) {
    spin_work(cycles, memory_bytes);
}
