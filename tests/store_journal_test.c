/* The journal of the metadata service: what was kept is there again, wherever its file ends, and
 * nothing that is damaged is taken for what it was. */
#include "storage/store_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/temporary.h"
#include "lib/store_history.h"

enum { NODES = 6, BLOCKS = 96 };

static struct store_meta *new_meta(void) {
    struct store_meta *m = store_meta_new(&(struct store_meta_options){
        .nodes = NODES, .node_bytes = BLOCKS * STORE_BLOCK, .lifetime = 100});
    CHECK(m);
    return m;
}

/* ---- What there is, as bytes ---- */

struct dump {
    uint8_t *bytes;
    uint64_t used;
};

static bool add(void *user, const struct store_record *record) {
    struct dump *d = user;
    d->bytes = realloc(d->bytes, d->used + STORE_RECORD_BYTES);
    uint32_t bytes = store_record_write((struct store_record *)(uintptr_t)record,
                                        d->bytes + d->used, STORE_RECORD_BYTES);
    CHECK(bytes);
    d->used += bytes;
    return true;
}

static struct dump dump_of(const struct store_meta *m) {
    struct dump d = {malloc(1), 0};
    CHECK(store_meta_each(m, add, &d));
    return d;
}

static bool same(const struct dump *a, const struct dump *b) {
    return a->used == b->used && memcmp(a->bytes, b->bytes, a->used) == 0;
}

/* ---- Files ---- */

static struct temporary folder; /* a test that is killed leaves nothing for long */
static char path[sizeof folder.path + 32];

static void new_path(void) {
    struct spin_error err = {0};
    if (temporary_make(&folder, &err))
        TEST_FAIL("%s", err.text);
    snprintf(path, sizeof path, "%s/journal", folder.path);
}

static uint8_t *file_bytes(uint64_t *count) {
    struct stat st;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    uint8_t *bytes = malloc((size_t)st.st_size + 1);
    CHECK_EQ(read(fd, bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    *count = (uint64_t)st.st_size;
    return bytes;
}

static struct store_journal *opened(struct store_meta *m) {
    struct store_journal *j;
    struct spin_error err = {0};
    if (store_journal_open(path, m, &j, &err))
        TEST_FAIL("%s", err.text);
    return j;
}

/* What is in the bytes; false: they are refused. */
static bool read_dump(const uint8_t *bytes, uint64_t count, struct dump *d) {
    struct store_meta *m = new_meta();
    struct spin_error err;
    uint64_t good;
    bool ok = store_journal_read(bytes, count, m, &good, &err) == 0;
    if (ok) {
        CHECK(store_meta_consistent(m) && good <= count);
        *d = dump_of(m);
    }
    store_meta_free(m);
    return ok;
}

/* In the file is what there is. */
static void check_file(const struct store_meta *m) {
    struct dump is = dump_of(m), again;
    uint64_t count;
    uint8_t *bytes = file_bytes(&count);
    CHECK(read_dump(bytes, count, &again) && same(&is, &again));
    free(is.bytes);
    free(again.bytes);
    free(bytes);
}

/* ---- Tests ---- */

TEST(a_service_that_begins_anew_knows_what_it_knew) {
    new_path();
    for (uint32_t round = 0; round < 3; round++) {
        struct store_history h = {.random = rng_seeded(round)};
        unlink(path);
        for (int life = 0; life < 6; life++) {
            snprintf(test_context, sizeof test_context, "round %u, life %d", round, life);
            struct store_meta *m = h.meta = new_meta();
            struct store_journal *j = opened(m);
            for (uint32_t n = 0; n < NODES; n++)
                CHECK(store_meta_admit(m, n, 100 + n)); /* also after that restart */
            for (int step = 0; step < 80; step++)
                store_history_step(&h);
            check_file(m);
            store_journal_close(j);
            store_meta_free(m);
            memset(h.write, 0, sizeof h.write); /* clients begin anew, too */
            h.now = 0;
        }
    }
    temporary_remove(&folder);
}

/* A short file: what there was, and three changes, each with its end and what there is then. */
struct changes {
    uint64_t end[4];
    struct dump is[4];
    uint8_t *bytes;
    uint64_t count;
};

static void write_object(struct store_meta *m, uint32_t object, uint64_t write, uint64_t offset) {
    uint32_t e;
    CHECK_EQ(store_meta_allocate(m, 0, 1, object, write, offset, 5000, &e), STORE_OK);
    CHECK_EQ(store_history_seal(m, 0, 1, write, e, true), STORE_OK);
}

static struct changes make_changes(void) {
    struct changes c;
    const struct store_object *o;
    struct stat st;
    new_path();
    for (int life = 0; life < 2; life++) {
        struct store_meta *m = new_meta();
        struct store_journal *j = opened(m);
        for (int i = 0; i < 4; i++) {
            if (i == 1)
                CHECK_EQ(store_meta_open(m, life ? "two" : "one",
                                         &(struct spinstore_policy){SPINSTORE_RS, 2, 1}, &o),
                         STORE_OK);
            if (i == 2)
                write_object(m, (uint32_t)life, 1, 0);
            if (i == 3)
                write_object(m, (uint32_t)life, 2, 3000);
            if (life) {
                CHECK_EQ(stat(path, &st), 0);
                c.end[i] = (uint64_t)st.st_size;
                c.is[i] = dump_of(m);
            }
        }
        store_journal_close(j);
        store_meta_free(m);
    }
    c.bytes = file_bytes(&c.count);
    CHECK_EQ(c.end[3], c.count);
    unlink(path);
    return c;
}

static void free_changes(struct changes *c) {
    for (int i = 0; i < 4; i++)
        free(c->is[i].bytes);
    free(c->bytes);
    temporary_remove(&folder);
}

TEST(a_file_that_ends_anywhere) {
    struct changes c = make_changes();
    struct dump d;
    for (uint64_t count = 0; count <= c.count; count++) {
        uint32_t last = 0;
        while (last < 3 && c.end[last + 1] <= count)
            last++;
        snprintf(test_context, sizeof test_context, "%llu bytes", (unsigned long long)count);
        bool ok = read_dump(c.bytes, count, &d);
        CHECK_EQ(ok, count >= c.end[0]); /* before, it is not a file that we have written */
        if (!ok)
            continue;
        CHECK(same(&d, &c.is[last]));
        free(d.bytes);
        /* or space was made for it and nothing was written; which may be all of it, if it ends so
         */
        uint8_t *bytes = calloc(1, c.count + 100);
        memcpy(bytes, c.bytes, count);
        if (last < 3 && memcmp(bytes, c.bytes, c.end[last + 1]) == 0)
            last++;
        CHECK(read_dump(bytes, c.count + 100, &d) && same(&d, &c.is[last]));
        free(d.bytes);
        free(bytes);
    }
    free_changes(&c);
}

TEST(a_byte_that_has_changed) {
    struct changes c = make_changes();
    struct dump d;
    uint32_t taken = 0;
    for (uint64_t at = 0; at < c.count; at++) {
        snprintf(test_context, sizeof test_context, "byte %llu", (unsigned long long)at);
        c.bytes[at] ^= (uint8_t)(1 << at % 8);
        if (read_dump(c.bytes, c.count, &d)) { /* the last change cannot be told from half of it */
            CHECK(at >= c.end[2] && same(&d, &c.is[2]));
            free(d.bytes);
            taken++;
        }
        c.bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    CHECK_EQ(taken, c.count - c.end[2]);
    free_changes(&c);
}

TEST(the_end_of_a_file_is_cut_off) {
    struct changes c = make_changes();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK_EQ(write(fd, c.bytes, c.count - 5), (ssize_t)(c.count - 5));
    close(fd);
    struct store_meta *m = new_meta();
    struct store_journal *j = opened(m);
    CHECK_EQ(store_journal_cut(j), c.count - 5 - c.end[2]);
    write_object(m, 1, 5, 9000);
    store_journal_close(j);
    check_file(m);
    store_meta_free(m);
    free_changes(&c);
}

/* Files do not grow with time, but with what there is. */
TEST(a_long_file_is_begun_anew) {
    const struct store_object *o;
    struct stat st;
    uint64_t longest = 0;
    new_path();
    struct store_meta *m = new_meta();
    struct store_journal *j = opened(m);
    CHECK_EQ(store_meta_open(m, "o", &(struct spinstore_policy){SPINSTORE_PLAIN, 0, 0}, &o),
             STORE_OK);
    bool shorter = false;
    for (uint64_t write = 1; write < 400 && !shorter; write++) {
        for (uint32_t i = 0, e; i < STORE_WRITE_EXTENTS; i++) {
            CHECK_EQ(store_meta_allocate(m, 1000 * write, 1, 0, write, i, 1, &e), STORE_OK);
            CHECK_EQ(store_history_seal(m, 1000 * write, 1, write, e, i + 1 == STORE_WRITE_EXTENTS),
                     STORE_OK);
        }
        CHECK_EQ(stat(path, &st), 0);
        shorter = (uint64_t)st.st_size < longest;
        longest = (uint64_t)st.st_size;
    }
    CHECK(shorter);
    check_file(m);
    store_journal_close(j);
    store_meta_free(m);
    temporary_remove(&folder);
}

/* No room on the disk: what cannot be kept does not happen, and later changes do. */
TEST(a_full_disk) {
    const struct spinstore_policy plain = {SPINSTORE_PLAIN, 0, 0};
    const struct store_object *o;
    struct rlimit before, small;
    struct stat st;
    new_path();
    struct store_meta *m = new_meta();
    struct store_journal *j = opened(m);
    CHECK_EQ(store_meta_open(m, "one", &plain, &o), STORE_OK);
    CHECK_EQ(stat(path, &st), 0);
    struct dump was = dump_of(m), is;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = (rlim_t)st.st_size + 10;
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_EQ(store_meta_open(m, "two", &plain, &o), STORE_NO_SPACE);
    uint32_t e;
    CHECK_EQ(store_meta_allocate(m, 0, 1, 0, 1, 0, 5000, &e), STORE_OK);
    CHECK_EQ(store_history_seal(m, 0, 1, 1, e, true), STORE_NO_SPACE);
    CHECK_EQ(store_meta_remove(m, 0, 0), STORE_NO_SPACE);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    is = dump_of(m);
    CHECK(same(&was, &is) && store_meta_consistent(m));
    free(is.bytes);
    CHECK_EQ(store_meta_open(m, "three", &plain, &o), STORE_OK);
    check_file(m);
    store_journal_close(j);
    store_meta_free(m);
    free(was.bytes);
    temporary_remove(&folder);
}

static void refused(const char *text) {
    struct store_meta *m = new_meta();
    struct store_journal *j;
    struct spin_error err = {0};
    CHECK(store_journal_open(path, m, &j, &err) < 0 && !j);
    CHECK_HAS(err.text, text);
    store_meta_free(m);
}

static void write_file(const void *bytes, uint64_t count) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK_EQ(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

TEST(files_that_are_refused_stay_as_they_are) {
    struct changes c = make_changes();
    write_file("a file of somebody else", 23);
    refused("this is no journal of a store");
    c.bytes[8] = 2;
    write_file(c.bytes, c.count);
    refused("version 2, this program reads 1");
    c.bytes[8] = 1;
    c.bytes[c.end[0] + 20] ^= 1;
    write_file(c.bytes, c.count);
    refused("damaged at byte");
    uint64_t count;
    uint8_t *bytes = file_bytes(&count);
    CHECK(count == c.count && memcmp(bytes, c.bytes, count) == 0);
    free(bytes);
    c.bytes[c.end[0] + 20] ^= 1;
    write_file(c.bytes, c.count);
    struct store_meta *m = new_meta(), *other = store_meta_new(&(struct store_meta_options){
                                           .nodes = 2, .node_bytes = 8 * STORE_BLOCK});
    struct store_journal *j = opened(m), *none;
    refused("in use by another process");
    store_journal_close(j);
    struct spin_error err = {0};
    CHECK(store_journal_open(path, other, &none, &err) < 0);
    CHECK_HAS(err.text, "6 nodes of 96 blocks, this one has 2 of 8");
    store_meta_free(m);
    store_meta_free(other);
    snprintf(path, sizeof path, "%s/nowhere/journal", folder.path);
    refused("No such file");
    free_changes(&c);
}

/* A node whose data was on another medium than it is now has lost it; it may come back when nothing
 * is to be found there. */
TEST(nodes_that_lost_their_medium) {
    new_path();
    struct store_meta *m = new_meta();
    struct store_journal *j = opened(m);
    const struct store_object *o;
    for (uint32_t n = 0; n < NODES; n++)
        CHECK(store_meta_admit(m, n, 7 + n));
    CHECK_EQ(store_meta_open(m, "o", &(struct spinstore_policy){SPINSTORE_RING, 2, 0}, &o),
             STORE_OK);
    write_object(m, 0, 1, 0);
    store_journal_close(j);
    store_meta_free(m);
    m = new_meta();
    j = opened(m);
    const struct store_segment *s = &store_meta_object(m, 0)->segment[0];
    uint32_t has = store_meta_extent(m, s->extent)->place[0].node, hasnt = 0;
    while (hasnt == has || hasnt == store_meta_extent(m, s->extent)->place[1].node)
        hasnt++;
    CHECK(store_meta_admit(m, has, 7 + has) && !store_meta_admit(m, has, 1000));
    CHECK(store_meta_admit(m, hasnt, 1000) && !store_meta_admit(m, has, 1000));
    store_meta_dead(m, has);
    struct store_repair r;
    CHECK_EQ(store_meta_repair(m, 1, 2, 0, &r), STORE_OK);
    CHECK_EQ(store_meta_repaired(m, 1, 2, &r), STORE_OK);
    store_journal_close(j);
    store_meta_free(m);
    m = new_meta();
    j = opened(m);
    CHECK(store_meta_admit(m, hasnt, 1000) && store_meta_admit(m, has, 1001));
    CHECK_EQ(store_meta_count(m).damaged, 0);
    store_journal_close(j);
    store_meta_free(m);
    temporary_remove(&folder);
}

TEST_MAIN
