/* Images of the same content are one; others are not. */
#include "lib/test.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

static void write_over(const char *path, const char *name) {
    read_image(name);
    FILE *out = fopen(path, "wb");
    CHECK(out && fwrite(file, 1, length, out) == length && fclose(out) == 0);
    free(file);
}

/* By this process until now; 0: the system does not say. */
static unsigned long long bytes_read(void) {
    unsigned long long n = 0;
    FILE *io = fopen("/proc/self/io", "r");
    if (io && fscanf(io, "rchar: %llu", &n) != 1)
        n = 0;
    if (io)
        fclose(io);
    return n;
}

TEST(a_file_is_read_again_when_it_has_changed) {
    struct image_store *store = image_store_new();
    struct spin_image *image[4];
    struct spin_limits limits;
    struct spin_error err;
    char path[1000];
    spin_limits_default(&limits);
    read_image("p4_pingpong");
    free(file);
    snprintf(path, sizeof path, "%s/p4_pingpong.spin", IMAGES);
    CHECK_EQ(image_store_load(store, path, NULL, 0, &limits, &image[0], &err), SPIN_OK);
    unsigned long long before = bytes_read();
    CHECK_EQ(image_store_load(store, path, NULL, 0, &limits, &image[1], &err), SPIN_OK);
    CHECK(image[1] == image[0]);
    struct stat st;
    CHECK_EQ(stat(path, &st), 0);
    if (before && time(NULL) - st.st_ctim.tv_sec > 10) /* not made just now */
        CHECK(bytes_read() - before < length);
    /* One that is written anew between two loads, in no time. */
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/imagestore.%d.spin", folder ? folder : "/tmp", (int)getpid());
    write_over(path, "p4_pingpong");
    CHECK_EQ(image_store_load(store, path, NULL, 0, &limits, &image[2], &err), SPIN_OK);
    CHECK(image[2] == image[0]);
    write_over(path, "p4_broadcast");
    CHECK_EQ(image_store_load(store, path, NULL, 0, &limits, &image[3], &err), SPIN_OK);
    CHECK(image[3] != image[0]);
    unlink(path);
    image_store_free(store);
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
