/* Images of the same content are one; others are not. */
#include "lib/test.h"

#include "base/file.h"
#include "hpu/image_store.h"

static uint8_t *file;
static size_t length;

static void read_image(const char *name) {
    char path[1000];
    struct spin_error err;
    snprintf(path, sizeof path, "%s/%s.spin", IMAGES, name);
    if (file_read(path, "image", 1 << 20, &file, &length, &err))
        TEST_FAIL("%s", err.text);
}

TEST(the_same_content_is_loaded_once) {
    struct image_store *store = image_store_new();
    struct spin_image *a, *b, *c, *d;
    struct spin_limits limits;
    struct spin_error err;
    char path[1000];
    spin_limits_default(&limits);
    read_image("p4_pingpong");
    snprintf(path, sizeof path, "%s/p4_pingpong.spin", IMAGES);
    CHECK_EQ(image_store_load(store, path, NULL, 0, &limits, &a, &err), SPIN_OK);
    CHECK_EQ(image_store_load(store, "copy", file, length, &limits, &b, &err), SPIN_OK);
    CHECK(a == b);
    CHECK_STR(spin_image_info(b)->path, path); /* the name it came by first */
    limits.hpus = 4;                           /* another card may accept what this one does not */
    CHECK_EQ(image_store_load(store, "copy", file, length, &limits, &c, &err), SPIN_OK);
    CHECK(c != a);
    free(file);
    read_image("p4_broadcast");
    CHECK_EQ(image_store_load(store, "other", file, length, &limits, &d, &err), SPIN_OK);
    CHECK(d != c);
    /* Given back twice, it is gone; loaded again, it is there. */
    image_store_release(store, a);
    CHECK_STR(spin_image_info(b)->path, path);
    image_store_release(store, b);
    image_store_release(store, c);
    CHECK_EQ(image_store_load(store, "again", file, length, &limits, &a, &err), SPIN_OK);
    CHECK(a == d);
    image_store_free(store); /* with what is still in it */
    free(file);
}

TEST(what_is_no_image_is_refused) {
    struct image_store *store = image_store_new();
    struct spin_image *image;
    struct spin_limits limits;
    struct spin_error err;
    spin_limits_default(&limits);
    CHECK_EQ(image_store_load(store, "text", "hello", 5, &limits, &image, &err), SPIN_EFORMAT);
    CHECK(image == NULL);
    CHECK_EQ(image_store_load(store, "/no/file", NULL, 0, &limits, &image, &err), SPIN_EFILE);
    CHECK_HAS(err.text, "/no/file");
    image_store_free(store);
}

TEST_MAIN
