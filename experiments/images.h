/* The handler images that experiments run. They are compiled with openspin and lie in one folder:
 * experiments/handlers beside the program in a build tree, share/openspin/experiments when
 * installed. */
#ifndef OPENSPIN_EXPERIMENTS_IMAGES_H
#define OPENSPIN_EXPERIMENTS_IMAGES_H

#include "experiment.h"

/* Where they are; false when they are not. */
bool images_find(char *folder, size_t room);
int images_load(const struct experiment_context *context, const char *name,
                struct spin_image **image, struct spin_error *err);

#endif
