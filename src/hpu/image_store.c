#include "hpu/image_store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "base/file.h"

struct stored {
    struct stored *next;
    struct spin_image *image;
    uint64_t references;
    struct stat
        file; /* that it was read from last; st_nlink 0: from none that can be known again */
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

/* What a file system writes into a file's times is a few milliseconds coarse, so one that has just
 * been written may change again without showing it. */
static bool settled(const struct stat *file) {
    struct timespec now;
    return S_ISREG(file->st_mode) && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
           now.tv_sec - file->st_ctim.tv_sec > 1;
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_nlink && a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_size == b->st_size && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* One whose file need not be read again, or NULL. */
static struct stored *known(const struct image_store *store, const struct stat *file,
                            const struct spin_limits *limits) {
    for (struct stored *s = store->first; s; s = s->next)
        if (same_file(&s->file, file) && same_limits(&s->image->limits, limits))
            return s;
    return NULL;
}

static int take(struct image_store *store, const char *name, const void *bytes, size_t length,
                const struct spin_limits *limits, const struct stat *file,
                struct spin_image **image, struct spin_error *err) {
    for (struct stored *s = store->first; s; s = s->next)
        if (s->image->file_bytes == length && memcmp(s->image->file, bytes, length) == 0 &&
            same_limits(&s->image->limits, limits)) {
            s->references++;
            if (file->st_nlink)
                s->file = *file;
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
    *s = (struct stored){store->first, *image, 1, *file};
    store->first = s;
    return SPIN_OK;
}

int image_store_load(struct image_store *store, const char *name, const void *bytes, size_t length,
                     const struct spin_limits *limits, struct spin_image **image,
                     struct spin_error *err) {
    struct stat file = {0};
    uint8_t *content = NULL;
    *image = NULL;
    if (!bytes && stat(name, &file) == 0) { /* before it is read: if it changes now, it shows */
        struct stored *s = known(store, &file, limits);
        if (s) {
            s->references++;
            *image = s->image;
            return SPIN_OK;
        }
        if (!settled(&file))
            file.st_nlink = 0;
    }
    int code = bytes ? SPIN_OK : file_read(name, "image", IMAGE_MOST_BYTES, &content, &length, err);
    if (!code)
        code = take(store, name, bytes ? bytes : content, length, limits, &file, image, err);
    free(content);
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
