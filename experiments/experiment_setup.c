/* An experiment with another set-up than the published one. */
#include "experiment.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "images.h"

int experiment_check(const struct experiment *e, const struct experiment_setup *setup,
                     struct spin_error *err) {
    bool world = setup->card || setup->topology || setup->set_count;
    const char *what =
        setup->ranks && !(e->flags & EXPERIMENT_RANKS)           ? "a number of ranks"
        : setup->bytes && !(e->flags & EXPERIMENT_BYTES)         ? "a size of messages"
        : setup->file && !(e->flags & EXPERIMENT_FILE)           ? "an input file"
        : setup->exchanges && !(e->flags & EXPERIMENT_EXCHANGES) ? "a number of exchanges"
        : world && !(e->flags & EXPERIMENT_WORLD) ? "a world (--card, --topology, --set)"
                                                  : NULL;
    return what ? spin_fail(err, SPIN_EARG, "%s does not have %s to choose", e->id, what) : SPIN_OK;
}

void experiment_changes(const struct experiment_setup *setup, char *text, size_t room) {
    size_t used = 0;
    *text = 0;
#define ADD(...) (used < room ? used += (size_t)snprintf(text + used, room - used, __VA_ARGS__) : 0)
    if (setup->ranks)
        ADD(" --ranks %" PRIu32, setup->ranks);
    if (setup->bytes)
        ADD(" --bytes %" PRIu64, setup->bytes);
    if (setup->file)
        ADD(" --file %s", setup->file);
    if (setup->card)
        ADD(" --card %s", setup->card);
    if (setup->topology)
        ADD(" --topology %s", setup->topology);
    for (int i = 0; i < setup->set_count; i++)
        ADD(" --set %s", setup->set[i]);
#undef ADD
}

int experiment_world(const struct experiment_context *context,
                     const struct spin_world_options *base, struct experiment_world *w,
                     struct spin_error *err) {
    const struct experiment_setup *setup = &context->setup;
    int count = 0;
    if (base->set_count + setup->set_count + 1 > EXPERIMENT_SETTINGS)
        return spin_fail(err, SPIN_ELIMIT, "%d parameters; an experiment takes at most %d",
                         setup->set_count, EXPERIMENT_SETTINGS - base->set_count - 1);
    w->options = *base;
    w->options.jit = context->jit;
    for (int i = 0; i < base->set_count; i++)
        w->set[count++] = base->set[i];
    if (setup->card) {
        snprintf(w->card, sizeof w->card, "card=%s", setup->card);
        w->set[count++] = w->card;
    }
    for (int i = 0; i < setup->set_count; i++)
        w->set[count++] = setup->set[i];
    w->options.set = w->set;
    w->options.set_count = count;
    if (setup->topology)
        w->options.topology = setup->topology;
    return SPIN_OK;
}

int experiment_ranks(const struct experiment_context *context, const char *image,
                     const struct spin_world_options *base, int (*rank)(void *argument),
                     void *argument, struct spin_error *err) {
    struct spin_world_counts counts;
    return experiment_ranks_counted(context, image, base, rank, argument, &counts, err);
}

int experiment_ranks_counted(const struct experiment_context *context, const char *image,
                             const struct spin_world_options *base, int (*rank)(void *argument),
                             void *argument, struct spin_world_counts *counts,
                             struct spin_error *err) {
    struct experiment_world w;
    struct spin_world *world;
    struct spin_image *there;
    int code = images_load_workload(context, image, &there, err); /* said once and clearly */
    spin_image_free(there);
    if (!code)
        code = experiment_world(context, base, &w, err);
    if (!code)
        code = spin_world_new(&world, &w.options, err);
    if (code)
        return code;
    code = spin_world_run(world, rank, argument, err);
    struct spin_world_result r = spin_world_result(world);
    *counts = r.counts;
    if (!code && r.counts.faults)
        code = spin_fail(err, SPIN_EFORMAT, "%s: a handler failed: %s", image, r.first_fault);
    if (!code && r.failed)
        code = spin_fail(err, SPIN_EFORMAT, "%s: rank %u failed at check %d", image, r.first_failed,
                         r.first_status);
    spin_world_free(world);
    return code;
}
