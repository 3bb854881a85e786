/* The handler images that experiments run: their own (experiments/handlers) and the workloads'
 * (handlers). They are compiled with openspin and lie in its build tree, in
 * share/openspin when it is installed. */
#ifndef OPENSPIN_EXPERIMENTS_IMAGES_H
#define OPENSPIN_EXPERIMENTS_IMAGES_H

#include <limits.h>

#include "experiment.h"

/* Finds the folders; one that is not there is NULL in the context. */
struct images_folders {
    char images[PATH_MAX], workloads[PATH_MAX], programs[PATH_MAX];
};
struct experiment_context images_find(struct images_folders *folders);

int images_load(const struct experiment_context *context, const char *name,
                struct spin_image **image, struct spin_error *err);
int images_load_workload(const struct experiment_context *context, const char *name,
                         struct spin_image **image, struct spin_error *err);

#endif
