/* Images of the same content, loaded once: for a driver with many processes that each load theirs.
 */
#ifndef SPIN_HPU_IMAGE_STORE_H
#define SPIN_HPU_IMAGE_STORE_H

#include "hpu/image.h"

struct image_store;

struct image_store *image_store_new(void); /* NULL: no memory */
void image_store_free(struct image_store *store);

/* As spin_image_load (bytes NULL) or spin_image_parse; the image goes back by image_store_release.
 * One that is there already keeps the name it was first loaded by. */
int image_store_load(struct image_store *store, const char *name, const void *bytes, size_t length,
                     const struct spin_limits *limits, struct spin_image **image,
                     struct spin_error *err);
/* One more user of an image that is there. */
void image_store_keep(struct image_store *store, const struct spin_image *image);
void image_store_release(struct image_store *store, struct spin_image *image);

#endif
