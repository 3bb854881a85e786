#include "hpu/image_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

struct stored {
    struct stored *next;
    struct spin_image *image;
    uint64_t references;
};

struct image_store {
    struct stored *first;
};

struct image_store *image_store_new(void) {
    return calloc(1, sizeof(struct image_store));
}

void image_store_free(struct image_store *store) {
    while (store && store->first) {
        struct stored *s = store->first;
        store->first = s->next;
        spin_image_free(s->image);
        free(s);
    }
    free(store);
}

static bool same_limits(const struct spin_limits *a, const struct spin_limits *b) {
    return a->program_bytes == b->program_bytes && a->handler_bytes == b->handler_bytes &&
           a->state_bytes == b->state_bytes && a->hpus == b->hpus && a->with_float == b->with_float;
}

static int take(struct image_store *store, const char *name, const void *bytes, size_t length,
                const struct spin_limits *limits, struct spin_image **image,
                struct spin_error *err) {
    for (struct stored *s = store->first; s; s = s->next)
        if (s->image->file_bytes == length && memcmp(s->image->file, bytes, length) == 0 &&
            same_limits(&s->image->limits, limits)) {
            s->references++;
            *image = s->image;
            return SPIN_OK;
        }
    struct stored *s = malloc(sizeof *s);
    if (!s)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    int code = spin_image_parse(image, name, bytes, length, limits, err);
    if (code) {
        free(s);
        return code;
    }
    *s = (struct stored){store->first, *image, 1};
    store->first = s;
    return SPIN_OK;
}

int image_store_load(struct image_store *store, const char *name, const void *bytes, size_t length,
                     const struct spin_limits *limits, struct spin_image **image,
                     struct spin_error *err) {
    uint8_t *file = NULL;
    *image = NULL;
    int code = bytes ? SPIN_OK : file_read(name, "image", IMAGE_MOST_BYTES, &file, &length, err);
    if (!code)
        code = take(store, name, bytes ? bytes : file, length, limits, image, err);
    free(file);
    return code;
}

void image_store_keep(struct image_store *store, const struct spin_image *image) {
    for (struct stored *s = store->first; s; s = s->next)
        if (s->image == image)
            s->references++;
}

void image_store_release(struct image_store *store, struct spin_image *image) {
    for (struct stored **at = &store->first; *at; at = &(*at)->next) {
        struct stored *s = *at;
        if (s->image != image)
            continue;
        if (--s->references == 0) {
            *at = s->next;
            spin_image_free(s->image);
            free(s);
        }
        return;
    }
}
