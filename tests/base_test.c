#include "lib/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/copy_past.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_in.h"
#include "base/grow.h"
#include "base/guarded_copy.h"
#include "base/index_table.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/memory_group.h"
#include "base/minheap.h"
#include "base/pairing.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/search.h"
#include "base/temporary.h"
#include "base/text.h"
#include "base/zone.h"
#include "base/units.h"

TEST(sizes_take_units) {
    uint64_t v = 0;
    CHECK(units_size("4096", &v) && v == 4096);
    CHECK(units_size("0x20", &v) && v == 32);
    CHECK(units_size("32KiB", &v) && v == 32768);
    CHECK(units_size("32K", &v) && v == 32768);
    CHECK(units_size("2 MB", &v) && v == 2000000);
    CHECK(!units_size("", &v));
    CHECK(!units_size("-1", &v));
    CHECK(!units_size("12x", &v));
    CHECK(!units_size("99999999999GiB", &v));
    CHECK(!units_u64("0x", &v));
    CHECK(!units_u64("18446744073709551616", &v));
}

TEST(times_are_exact) {
    uint64_t v = 0;
    CHECK(units_time_ps("65ns", &v) && v == 65000);
    CHECK(units_time_ps("6.7ns", &v) && v == 6700);
    CHECK(units_time_ps("2500", &v) && v == 2500000);
    CHECK(units_time_ps("2.5us", &v) && v == 2500000);
    CHECK(units_time_ps("0.001", &v) && v == 1);
    CHECK(units_time_ps("1500 fs", &v) == false);
    CHECK(units_time_ps("2000fs", &v) && v == 2);
    CHECK(units_time_ps("3s", &v) && v == 3000000000000);
    CHECK(!units_time_ps("0.0001", &v));
    CHECK(!units_time_ps("", &v));
    CHECK(!units_time_ps("5.", &v));
    CHECK(!units_time_ps(".", &v));
    CHECK(!units_time_ps("-5ns", &v));
    CHECK(!units_time_ps("5m", &v));
    CHECK(!units_time_ps("5ns/B", &v));
    CHECK(!units_time_ps("99999999999999999s", &v));
    CHECK(units_per_byte_fs("20ps/B", &v) && v == 20000);
    CHECK(units_per_byte_fs("6.7ps/B", &v) && v == 6700);
    CHECK(units_per_byte_fs("6", &v) && v == 6000000);
    CHECK(units_per_byte_fs("400Gbit/s", &v) && v == 20000);
    CHECK(units_per_byte_fs("64GiB/s", &v) && v == 14552);
    CHECK(!units_per_byte_fs("20ps/b", &v));
    CHECK(units_rate("400Gbit/s", &v) && v == 400000000000);
    CHECK(units_rate("1.5GB/s", &v) && v == 12000000000);
    CHECK(units_rate("400", &v) && v == 400000000000);
    CHECK(units_rate("12.5", &v) && v == 12500000000);
    CHECK(units_rate_per_byte_fs("400", &v) && v == 20000);
    CHECK(units_clock_ps("2GHz", &v) && v == 500);
    CHECK(units_clock_ps("1.5 GHz", &v) && v == 667);
    CHECK(units_clock_ps("1000", &v) && v == 1000);
    CHECK(!units_clock_ps("0GHz", &v) && !units_clock_ps("2ns", &v) && !units_clock_ps("", &v));
    CHECK(!units_rate("0Gbit/s", &v));
}

TEST(probabilities_are_fractions) {
    uint64_t v = 0;
    CHECK(units_probability("0.5", &v) && v == 1ull << 31);
    CHECK(units_probability("50%", &v) && v == 1ull << 31);
    CHECK(units_probability("25e-2", &v) && v == 1ull << 30);
    CHECK(units_probability("1", &v) && v == 1ull << 32);
    CHECK(units_probability("0", &v) && v == 0);
    CHECK(!units_probability("1.1", &v) && !units_probability("x", &v));
    CHECK(!units_probability("0.1x", &v) && !units_probability("1e5", &v));
}

TEST(hex_takes_pairs) {
    uint8_t b[4] = {0};
    CHECK_EQ(units_hex("de:ad be_ef", b, 4), 4);
    CHECK(b[0] == 0xde && b[3] == 0xef);
    CHECK_EQ(units_hex("abc", NULL, 0), -1);
    CHECK_EQ(units_hex("zz", NULL, 0), -1);
    CHECK_EQ(units_hex("", NULL, 0), 0);
}

TEST(files_that_cannot_be_read_say_why) {
    struct spin_error err;
    uint8_t *data;
    size_t length;
    CHECK_EQ(file_read("/nonexistent/x", "image", 100, &data, &length, &err), SPIN_EFILE);
    CHECK_HAS(err.text, "/nonexistent/x");
    CHECK_EQ(file_read("/tmp", "image", 100, &data, &length, &err), SPIN_EFILE);
    CHECK_HAS(err.text, "directory");
    CHECK_EQ(file_read("/dev/null", "image", 100, &data, &length, &err), SPIN_EFILE);
    CHECK_HAS(err.text, "empty");
    CHECK_EQ(file_read("/proc/self/exe", "image", 100, &data, &length, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "limit of 100");
}

TEST(a_file_appears_only_when_complete) {
    struct spin_error err;
    struct file_out out;
    char path[] = "/tmp/openspin-test-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "old", 3), 3);
    close(fd);
    CHECK_EQ(file_out_open(&out, path, &err), 0);
    fputs("half", out.stream);
    file_out_abandon(&out);
    uint8_t *data;
    size_t length;
    CHECK_EQ(file_read(path, "x", 100, &data, &length, &err), 0);
    CHECK(length == 3 && memcmp(data, "old", 3) == 0);
    free(data);
    CHECK_EQ(file_out_open(&out, path, &err), 0);
    fputs("whole", out.stream);
    CHECK_EQ(file_out_commit(&out, &err), 0);
    CHECK_EQ(file_read(path, "x", 100, &data, &length, &err), 0);
    CHECK(length == 5 && memcmp(data, "whole", 5) == 0);
    free(data);
    unlink(path);
}

TEST(large_files_are_seen_through_a_window) {
    enum { WORDS = 1 << 20 };
    static uint32_t word[WORDS], some[4];
    struct file_in in;
    struct spin_error err;
    char path[] = "base-test-XXXXXX";
    int fd = mkstemp(path);
    for (uint32_t i = 0; i < WORDS; i++)
        word[i] = i * 2654435761u;
    CHECK(write(fd, word, sizeof word) == (ssize_t)sizeof word);
    CHECK_EQ(file_in_open(&in, path, "list", sizeof word - 1, &err), SPIN_ELIMIT);
    file_in_close(&in);
    CHECK_EQ(file_in_open(&in, path, "list", sizeof word, &err), SPIN_OK);
    CHECK_EQ(in.length, sizeof word);
    for (uint64_t at = 0; at < WORDS; at = at * 7 + 1) {
        size_t bytes = (size_t)(WORDS - at < 3000 ? WORDS - at : 3000) * 4;
        const uint8_t *seen = file_in_at(&in, at * 4, bytes, &err);
        CHECK(seen && memcmp(seen, word + at, bytes) == 0);
    }
    CHECK_EQ(file_in_copy(&in, 64, sizeof some, (uint8_t *)some, &err), SPIN_OK);
    CHECK(memcmp(some, word + 16, sizeof some) == 0);
    const uint8_t *all = file_in_at(&in, 0, sizeof word, &err);
    CHECK(all && memcmp(all, word, sizeof word) == 0 && all[sizeof word] == 0);
    file_in_close(&in);
    CHECK_EQ(file_in_open(&in, path, "list", sizeof word, &err), SPIN_OK);
    CHECK_EQ(ftruncate(fd, 1000), 0);
    CHECK(!file_in_at(&in, 0, 4000, &err));
    CHECK_EQ(err.code, SPIN_EFILE);
    CHECK_HAS(err.text, "cut off at 1000 now");
    file_in_close(&in);
    close(fd);
    unlink(path);
}

TEST(codes_have_names_and_texts) {
    CHECK_STR(spin_code_name(SPIN_ELIMIT), "SPIN_ELIMIT");
    CHECK_STR(spin_code_text(SPIN_OK), "success");
    CHECK_STR(spin_code_name(-999), "unknown code");
}

static void note_scalar(void *user, const char *path, const char *value, bool in_array) {
    fprintf(user, "%s%s=%s;", in_array ? "*" : "", path, value);
}

static bool read_json(const char *text, char *scalars, size_t room) {
    memset(scalars, 0, room);
    FILE *out = fmemopen(scalars, room, "w");
    bool good = json_read(text, strlen(text), note_scalar, out);
    fclose(out);
    return good;
}

TEST(json_is_read) {
    char got[400];
    CHECK(read_json("{\"a\": 1, \"b\": {\"c\": -2.5e3, \"d\": [true, {\"e\": null}]}, \"s\": "
                    "\"x\\\"\\u00e9\\n\"}\n",
                    got, sizeof got));
    CHECK_STR(got, "a=1;b.c=-2.5e3;*b.d.0=true;*b.d.1.e=null;s=x\"\u00e9\n;");
    CHECK(read_json("[]", got, sizeof got) && read_json(" {} ", got, sizeof got));
    static const char *const wrong[] = {"",          "{",     "{\"a\"}",     "{\"a\": }", "[1,]",
                                        "{} x",      "01x",   "\"open",      "\"\\u12\"", "nul",
                                        "{\"a\" 1}", "[1 2]", "\"\\u0000\"", "-",         "+1",
                                        "[0x10]",    "[-inf]"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!read_json(wrong[i], got, sizeof got));
    char deep[200];
    memset(deep, '[', sizeof deep);
    CHECK(!json_read(deep, sizeof deep, note_scalar, stderr));
}

TEST(names_are_shown_on_one_line) {
    static const struct {
        const char *text, *shown;
    } names[] = {
        {"plain name", "plain name"},
        {"gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80",
         "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"a\nb\tc\rd\x1b[0m\x7f", "a\\nb\\tc\\rd\\x1b[0m\\x7f"},
        {"\xff\xc3", "\\xff\\xc3"},                            /* no UTF-8, cut off */
        {"\xc0\x8a\xe0\x80\x8a", "\\xc0\\x8a\\xe0\\x80\\x8a"}, /* a newline, written too long */
        {"\xed\xa0\x80\xf4\x90\x80\x80",
         "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"}, /* surrogate, too large */
        {"\xc2\x9b", "\\xc2\\x9b"},              /* the escape of C1 */
        {"\xe2\x80\xae", "\\xe2\\x80\\xae"},     /* turns the text around */
        {"back\\slash", "back\\slash"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *shown = text_shown(names[i].text), cut[6];
        CHECK_STR(shown, names[i].shown);
        CHECK(text_is_plain(shown));
        CHECK_EQ(text_is_plain(names[i].text), strcmp(names[i].text, shown) == 0);
        text_show(cut, sizeof cut, names[i].text);
        CHECK(text_is_plain(cut) && strlen(cut) < sizeof cut &&
              strncmp(cut, shown, strlen(cut)) == 0);
        free(shown);
    }
    struct spin_error err;
    CHECK_EQ(spin_fail(&err, SPIN_EARG, "no '%s'", "a\nb"), SPIN_EARG);
    CHECK_STR(err.text, "no 'a\\nb'");
}

static const char *nearest(const char *name) {
    static const char *const names[] = {"clusters", "cluster_hpus", "network_rate", "mtu", "o"};
    struct text_near near = text_near(name, strlen(name));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        text_near_try(&near, names[i]);
    return near.best ? near.best : "";
}

TEST(misspelt_names_have_a_nearest) {
    CHECK_STR(nearest("netwrok_rate"), "network_rate");
    CHECK_STR(nearest("networkrate"), "network_rate");
    CHECK_STR(nearest("cluster"), "clusters");
    CHECK_STR(nearest("cluster_h"), "cluster_hpus");
    CHECK_STR(nearest("mut"), "mtu");
    CHECK_STR(nearest("colour"), "");
    CHECK_STR(nearest("x"), "");
    CHECK_STR(nearest(""), "");
    CHECK_STR(nearest("a_name_that_is_longer_than_all_that_there_are"), "");
    struct text_near near = text_near("clocks", 5); /* not all of the text */
    text_near_try(&near, "clock");
    CHECK_STR(text_near_hint(&near).text, " (did you mean 'clock'?)");
}

TEST(json_is_always_utf8) {
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    struct json j = {.out = out};
    json_object(&j, NULL);
    json_string(&j, "a\xff", "\xc3\xa9\n\x1b\xe9\x9b\"\\");
    json_end_object(&j);
    fclose(out);
    CHECK_STR(text, "{\n  \"a\\\\xff\": \"\xc3\xa9\\u000a\\u001b\\\\xe9\\\\x9b\\\"\\\\\"\n}\n");
    free(text);
}

TEST(json_is_well_formed) {
    char *text;
    size_t length;
    struct json j = {.out = open_memstream(&text, &length)};
    json_object(&j, NULL);
    json_string(&j, "s", "a\"b\\\n");
    json_array(&j, "list");
    json_u64(&j, NULL, 1);
    json_i64(&j, NULL, -2);
    json_end_array(&j);
    json_array(&j, "none");
    json_end_array(&j);
    json_real(&j, "r", 0.5, 2);
    json_bool(&j, "b", true);
    json_hex(&j, "h", (const uint8_t *)"\x01\xff", 2);
    json_end_object(&j);
    fclose(j.out);
    CHECK_STR(text, "{\n  \"s\": \"a\\\"b\\\\\\u000a\",\n  \"list\": [\n    1,\n    -2\n  ],\n"
                    "  \"none\": [],\n  \"r\": 0.50,\n  \"b\": true,\n  \"h\": \"01ff\"\n}\n");
    free(text);
}

TEST(random_numbers_repeat_by_seed) {
    struct rng a = rng_seeded(7), b = rng_seeded(7), c = rng_seeded(8);
    uint64_t first = rng_u64(&a);
    CHECK(first == rng_u64(&b));
    CHECK(first != rng_u64(&c));
    CHECK(rng_u64(&b) != first);
    for (uint64_t seed = 0; seed < 100; seed++) { /* the next seed is not the same a step further */
        struct rng here = rng_seeded(seed), next = rng_seeded(seed + 1);
        rng_u64(&here);
        CHECK(rng_u64(&here) != rng_u64(&next));
    }
    for (int i = 0; i < 1000; i++)
        CHECK(rng_below(&a, 7) < 7);
}

/* How many names a folder holds. */
static int names_in(const char *path) {
    int count = -2; /* . and .. */
    DIR *d = opendir(path);
    CHECK(d != NULL);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static void touch(const char *folder, const char *name) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0);
    close(fd);
}

TEST(temporary_folders_vanish) {
    char parent[] = "/tmp/base-test-XXXXXX", dead[64];
    struct temporary a, b;
    struct spin_error err;
    CHECK(mkdtemp(parent) && setenv("TMPDIR", parent, 1) == 0);
    CHECK_EQ(temporary_make(&a, &err), 0);
    CHECK(strncmp(a.path, parent, strlen(parent)) == 0);
    struct stat st;
    CHECK(stat(a.path, &st) == 0 && (st.st_mode & 0777) == 0700);
    for (int i = 0; i < 300; i++) { /* more than one look at the folder shows */
        char name[32];
        snprintf(name, sizeof name, "a-long-name-of-a-file-%d", i);
        touch(a.path, name);
    }
    /* One that its owner left behind, and names that are not ours to remove. */
    snprintf(dead, sizeof dead, "%s/openspin-dead00", parent);
    CHECK(mkdir(dead, 0700) == 0);
    touch(dead, "1.o");
    touch(parent, "openspin-file00");
    CHECK_EQ(temporary_make(&b, &err), 0);
    CHECK_EQ(names_in(parent), 3); /* a, b, the file */
    CHECK_EQ(names_in(a.path), 300);
    temporary_remove(&a);
    CHECK_EQ(names_in(parent), 2);
    temporary_interrupted(); /* b */
    CHECK_EQ(names_in(parent), 1);
    close(b.lock);
    snprintf(dead, sizeof dead, "%s/openspin-file00", parent);
    unlink(dead);
    CHECK_EQ(rmdir(parent), 0);
    CHECK(temporary_make(&a, &err) != 0);
    CHECK_HAS(err.text, "set TMPDIR");
    unsetenv("TMPDIR");
}

TEST(memory_has_limits) {
    uint64_t free_bytes = machine_memory();
    CHECK(free_bytes > 1 << 20 && free_bytes < 1ull << 60);
}

/* ---- control groups, in folders of our own ---- */

static void put_text(const char *folder, const char *name, const char *text) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static uint64_t limit_in(const struct memory_group *group, const char *name) {
    char path[2 * PATH_MAX];
    unsigned long long bytes = 0;
    snprintf(path, sizeof path, "%s/%s", group->path, name);
    FILE *file = fopen(path, "r");
    CHECK(file && fscanf(file, "%llu", &bytes) == 1);
    fclose(file);
    unlink(path);
    return bytes;
}

/* Of the controller where it is, cgroup v1; else of all controllers, cgroup v2: there a group that
 * has processes may have no children, and ours stands beside it. */
TEST(a_memory_group_is_made_where_we_are) {
    char root[] = "/tmp/openspin-group-XXXXXX", self[64], folder[128], beside[128];
    struct memory_group group, least;
    struct spin_error err;
    CHECK(mkdtemp(root));
    snprintf(self, sizeof self, "%s/self", root);
    put_text(root, "self", "3:cpu,cpuacct:/other\n2:memory:/a/b\n0::/c\n");
    CHECK_EQ(memory_group_make_at(&group, self, root, 1 << 20, &err), SPIN_EFILE);
    CHECK_HAS(err.text, "no control group with a limit of memory can be made in");
    CHECK_EQ(group.path[0], 0);
    for (const char *const *step = (const char *const[]){"memory", "memory/a", "memory/a/b", NULL};
         *step; step++) {
        snprintf(folder, sizeof folder, "%s/%s", root, *step);
        CHECK_EQ(mkdir(folder, 0700), 0);
    }
    CHECK_EQ(memory_group_make_at(&group, self, root, 1 << 20, &err), 0);
    CHECK(group.old && strncmp(group.path, folder, strlen(folder)) == 0);
    CHECK_EQ(limit_in(&group, "memory.limit_in_bytes"), 1 << 20);
    CHECK_EQ(memory_group_limit_at(&least, self, root), UINT64_MAX); /* of ours, not of its child */
    put_text(folder, "memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_EQ(memory_group_limit_at(&least, self, root), UINT64_MAX);
    put_text(folder, "../memory.limit_in_bytes", "3000000\n");
    CHECK_EQ(memory_group_limit_at(&least, self, root), 3000000);
    CHECK(least.old && strncmp(folder, least.path, strlen(least.path)) == 0 &&
          strcmp(folder + strlen(least.path), "/b") == 0);
    put_text(folder, "memory.limit_in_bytes", "2000000\n");
    CHECK_EQ(memory_group_limit_at(&least, self, root), 2000000);
    CHECK(strcmp(least.path, folder) == 0);
    CHECK_EQ(memory_group_open_statistics(&least), -1);
    put_text(folder, "memory.stat", "cache 0\n");
    int statistics = memory_group_open_statistics(&least);
    CHECK(statistics >= 0);
    close(statistics);
    char command[160];
    snprintf(command, sizeof command, "rm %s/memory.stat", folder);
    CHECK_EQ(system(command), 0);
    struct memory_group own = {0};
    snprintf(own.path, sizeof own.path, "%s", folder);
    CHECK_EQ(limit_in(&own, "memory.limit_in_bytes"), 2000000); /* and takes the file away */
    put_text(group.path, "memory.max_usage_in_bytes", "12345\n");
    CHECK_EQ(memory_group_peak(&group), 12345);
    CHECK_EQ(limit_in(&group, "memory.max_usage_in_bytes"), 12345);
    memory_group_remove(&group);
    CHECK(group.path[0] == 0 && rmdir(folder) == 0);

    put_text(root, "self", "0::/user/shell\n");
    snprintf(beside, sizeof beside, "%s/user", root);
    snprintf(folder, sizeof folder, "%s/user/shell", root);
    CHECK(mkdir(beside, 0700) == 0);
    put_text(beside, "shell", "no folder: nothing can be made in it");
    CHECK_EQ(memory_group_make_at(&group, self, root, 2 << 20, &err), 0);
    CHECK(!group.old && strncmp(group.path, beside, strlen(beside)) == 0 &&
          strncmp(group.path, folder, strlen(folder)) != 0);
    CHECK_EQ(limit_in(&group, "memory.max"), 2 << 20);
    put_text(beside, "memory.max", "max\n");
    CHECK_EQ(memory_group_limit_at(&least, self, root), UINT64_MAX);
    put_text(beside, "memory.max", "4000000\n");
    CHECK_EQ(memory_group_limit_at(&least, self, root), 4000000);
    put_text(root, "memory.max", "3500000\n"); /* as in a namespace */
    CHECK_EQ(memory_group_limit_at(&least, self, root), 3500000);
    CHECK(strcmp(least.path, root) == 0);
    CHECK_EQ(memory_group_peak(&group), 0);
    memory_group_remove(&group);
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK_EQ(system(command), 0);
}

/* ---- heaps against a scan for the least ---- */

enum { HEAPED = 300 };

struct heaped {
    uint64_t key;
    uint32_t place, child, next; /* place: in the heap, from 1 */
    bool in;
};

static bool is_less(struct heaped *const *a, struct heaped *const *b) {
    return (*a)->key < (*b)->key;
}
static void is_placed(struct heaped **record, size_t place) {
    (*record)->place = (uint32_t)place + 1;
}
MINHEAP_PLACED(least, struct heaped *, is_less, is_placed);

static bool is_less_here(const struct heaped *a, const struct heaped *b) {
    return a->key < b->key;
}
PAIRING(many, struct heaped, child, next, is_less_here);

static struct heaped *least_of(struct heaped *all) {
    struct heaped *least = NULL;
    for (int i = 0; i < HEAPED; i++)
        if (all[i].in && (!least || all[i].key < least->key))
            least = &all[i];
    return least;
}

TEST(a_heap_has_the_least_first_also_when_keys_change) {
    struct heaped all[HEAPED] = {0}, *first;
    struct least heap = {0};
    struct rng rng = rng_seeded(7);
    for (int step = 0; step < 20000; step++) {
        struct heaped *one = &all[rng_below(&rng, HEAPED)];
        uint64_t key = (uint64_t)rng_below(&rng, 1000) << 32 | (uint32_t)step; /* no two equal */
        uint32_t what = rng_below(&rng, 3);
        if (what == 0 && !one->in) {
            *one = (struct heaped){.key = key, .in = true};
            CHECK(least_push(&heap, &one));
        } else if (what == 1 && one->in) {
            one->key = key;
            least_moved(&heap, one->place - 1);
        } else if (what == 2 && heap.count) {
            struct heaped *expected = least_of(all);
            least_pop(&heap, &first);
            CHECK(first == expected);
            first->in = false;
        }
        for (size_t i = 0; step % 500 == 0 && i < heap.count; i++)
            CHECK_EQ(heap.at[i]->place, i + 1);
    }
    free(heap.at);
}

TEST(heaps_that_share_an_array) {
    struct heaped all[HEAPED] = {0};
    struct rng rng = rng_seeded(8);
    uint32_t heap[3] = {0}, of[HEAPED], left = 0;
    for (uint32_t i = 0; i < HEAPED; i++) {
        all[i].key = (uint64_t)rng_below(&rng, 50) << 32 | i;
        of[i] = rng_below(&rng, 3);
        heap[of[i]] = many_meld(all, heap[of[i]], i + 1);
    }
    heap[0] = many_meld(all, heap[0], heap[1]); /* two become one */
    for (int which = 0; which < 3; which += 2) {
        for (uint32_t i = 0; i < HEAPED; i++) {
            all[i].in = which == 2 ? of[i] == 2 : of[i] < 2;
            left += all[i].in;
        }
        while (heap[which]) {
            struct heaped *first = &all[heap[which] - 1];
            CHECK(first == least_of(all));
            first->in = false;
            left--;
            heap[which] = many_without_first(all, heap[which]);
        }
    }
    CHECK_EQ(left, 0);
}

/* ---- the table of numbers against an array ---- */

struct keyed {
    uint64_t key[HEAPED];
    bool in[HEAPED];
};
static uint64_t key_at(const struct keyed *all, uint32_t number) {
    return all->key[number];
}
INDEX_TABLE(keys, struct keyed, key_at);

TEST(a_table_finds_what_is_in_it) {
    struct keyed all = {0};
    struct hash_table table = {0};
    struct rng rng = rng_seeded(9);
    for (uint32_t i = 0; i < HEAPED; i++) /* close together, or apart by a power of two */
        all.key[i] = i % 2 ? i : (uint64_t)i << 40;
    CHECK_EQ(keys_find(&table, &all, 5), INDEX_NONE);
    for (int step = 0; step < 20000; step++) {
        uint32_t one = rng_below(&rng, HEAPED);
        bool more = rng_below(&rng, step % 4000 < 2000 ? 3 : 2) > 0;
        CHECK_EQ(keys_find(&table, &all, all.key[one]), all.in[one] ? one : INDEX_NONE);
        if (!all.in[one] && more) {
            CHECK(keys_add(&table, &all, one));
            all.in[one] = true;
        } else if (all.in[one] && !more) {
            keys_remove(&table, &all, one);
            all.in[one] = false;
        }
    }
    for (uint32_t i = 0; i < HEAPED; i++)
        CHECK_EQ(keys_find(&table, &all, all.key[i]), all.in[i] ? i : INDEX_NONE);
    hash_table_free(&table);
    CHECK(hash_table_reserve(&table, sizeof(uint32_t), 1000));
    uint32_t slots = table.slots;
    memset(all.in, 0, sizeof all.in);
    for (uint32_t i = 0; i < HEAPED; i++)
        CHECK(keys_add(&table, &all, i));
    CHECK_EQ(table.slots, slots);
    hash_table_free(&table);
}

/* ---- the table of what its owner lays out ---- */

struct pair {
    uint32_t a, b;
};
struct counted { /* nothing if its stamp is not the table's */
    struct pair pair;
    uint32_t stamp, times;
};
struct counts {
    struct hash_table table;
    uint32_t stamp;
};
static bool pairs_holds(const struct counts *of, const struct counted *slot) {
    return slot->stamp == of->stamp;
}
static struct pair pairs_key(const struct counts *of, const struct counted *slot) {
    (void)of;
    return slot->pair;
}
static uint64_t pairs_hash(const struct counts *of, struct pair pair) {
    (void)of;
    return (uint64_t)(pair.a % 4) << 60; /* many at one place, which for some is the last */
}
static bool pairs_same(const struct counts *of, const struct counted *slot, struct pair pair) {
    (void)of;
    return slot->pair.a == pair.a && slot->pair.b == pair.b;
}
HASH_TABLE(pairs, struct counts, struct counted, struct pair);

TEST(a_table_of_slots_counts_pairs) {
    enum { SIDE = 12 };
    struct counts counts = {.stamp = 1};
    struct rng rng = rng_seeded(4);
    for (; counts.stamp < 4; counts.stamp++, counts.table.used = 0) {
        uint32_t times[SIDE][SIDE] = {0};
        for (int step = 0; step < 3000; step++) {
            struct pair pair = {rng_below(&rng, SIDE), rng_below(&rng, SIDE)};
            uint32_t *expected = &times[pair.a][pair.b];
            struct counted *found = pairs_find(&counts.table, &counts, pair);
            CHECK_EQ(found ? found->times : 0, *expected);
            if (found && rng_below(&rng, 3) == 0) {
                pairs_remove(&counts.table, &counts, found);
                *expected = 0;
                continue;
            }
            CHECK(pairs_room(&counts.table, &counts));
            struct counted *slot = pairs_slot(&counts.table, &counts, pair);
            if (!pairs_holds(&counts, slot)) {
                *slot = (struct counted){pair, counts.stamp, 0};
                counts.table.used++;
            }
            slot->times++;
            ++*expected;
            CHECK(2 * counts.table.used <= counts.table.slots);
        }
    }
    hash_table_free(&counts.table);
    CHECK(!hash_table_reserve(&counts.table, sizeof(struct counted), UINT32_MAX));
    CHECK(!pairs_find(&counts.table, &counts, (struct pair){1, 1}));
}

TEST(copies_past_the_cache_are_copies) {
    uint8_t from[400], to[400];
    for (size_t at = 0; at < 70; at++)
        for (size_t bytes = 0; bytes <= 260; bytes += bytes < 70 ? 1 : 19) {
            for (size_t i = 0; i < sizeof from; i++) {
                from[i] = (uint8_t)(i * 7 + bytes);
                to[i] = 0xee;
            }
            copy_past(to + at, from + 3, bytes);
            CHECK_EQ(memcmp(to + at, from + 3, bytes), 0);
            CHECK(at == 0 || to[at - 1] == 0xee);
            CHECK_EQ(to[at + bytes], 0xee);
        }
}

TEST_MAIN

/* Pieces do not overlap, are cleared where that is asked for, and what comes back is used again. */
static void use_zone(struct zone *zone) {
    enum { PIECES = 300 };
    struct {
        uint8_t *at;
        size_t bytes;
    } piece[PIECES] = {0};
    struct rng rng = rng_seeded(7);
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t i = rng_below(&rng, PIECES);
        uint8_t *at = piece[i].at;
        size_t bytes = piece[i].bytes;
        for (size_t k = 0; at && k < bytes; k++)
            if (at[k] != (uint8_t)i)
                TEST_FAIL("byte %zu of %zu is another's", k, bytes);
        zone_give(zone, at, bytes);
        bytes = rng_below(&rng, 1u << rng_below(&rng, 15));
        uint32_t how = rng_below(&rng, 3);
        at = how == 0   ? zone_take(zone, bytes)
             : how == 1 ? zone_take_clear(zone, bytes)
                        : zone_take_lines(zone, bytes + 1);
        bytes += how == 2;
        CHECK(at || !bytes);
        CHECK_EQ((uintptr_t)at % (how == 2 ? 64 : 16), 0);
        for (size_t k = 0; how == 1 && k < bytes; k++)
            CHECK_EQ(at[k], 0);
        if (bytes)
            memset(at, (uint8_t)i, bytes);
        piece[i].at = at;
        piece[i].bytes = bytes;
    }
    for (uint32_t i = 0; i < PIECES; i++)
        zone_give(zone, piece[i].at, piece[i].bytes);
}

TEST(pieces_of_a_zone_are_apart) {
    for (int turn = 0; turn < 2; turn++) { /* the second has the memory of the first */
        struct zone *zone = zone_new();
        CHECK(zone != NULL);
        use_zone(zone);
        zone_free(zone);
    }
    use_zone(NULL);
    struct zone *zone = zone_new();
    CHECK(zone != NULL);
    uint8_t *large = zone_take_clear(zone, 100 << 20); /* more than any block so far */
    CHECK(large != NULL);
    CHECK_EQ(large[0] | large[(100 << 20) - 1], 0);
    zone_give(zone, large, 100 << 20);
    zone_free(zone);
    zone_free(NULL);
}

/* Whether its memory is new to the zone or another's before, and with any objects before it;
 * whether the zone's is new or another zone's. */
TEST(an_object_of_a_pool_is_zero_the_first_time) {
    struct zone *zone = zone_new();
    for (int turn = 0; turn < 6; turn++) {
        if (turn == 3) {
            zone_free(zone);
            zone = zone_new();
        }
        CHECK(zone != NULL);
        struct pool pool;
        pool_init(&pool, zone, 200, UINT32_MAX);
        for (int i = 0; i < 2000; i++) {
            uint8_t *object = pool_take_raw(&pool);
            CHECK(object != NULL);
            for (uint32_t k = sizeof(struct pool_slot); k < 200; k++)
                CHECK_EQ(object[k], 0);
            memset(object + sizeof(struct pool_slot), 0xa5, 200 - sizeof(struct pool_slot));
        }
        pool_clear(&pool); /* the next one gets it */
    }
    zone_free(zone);
}

/* Many pools hold a power of two of objects: they have no room for more. */
TEST(a_pool_of_a_power_of_two_is_full) {
    struct pool pool;
    pool_init(&pool, NULL, 64, UINT32_MAX);
    struct pool_slot *slot[256];
    for (uint32_t i = 0; i < 256; i++) {
        slot[i] = pool_take(&pool);
        CHECK(slot[i] != NULL);
        slot[i]->generation = 1000 + i;
    }
    for (uint32_t i = 0; i < 256; i++) {
        CHECK(pool_at(&pool, i) == slot[i]);
        CHECK_EQ(slot[i]->index, i);
        CHECK_EQ(slot[i]->generation, 1000 + i);
        bool opens = (i & (i - 1)) == 0; /* a chunk, which holds as many as are before it */
        CHECK(opens || (uint8_t *)slot[i] == (uint8_t *)slot[i - 1] + 64);
    }
    pool_clear(&pool);
    pool_init(&pool, NULL, 64, 4);
    for (uint32_t i = 0; i < 4; i++)
        CHECK(pool_take(&pool) != NULL);
    CHECK(pool_take(&pool) == NULL);
    pool_clear(&pool);
}

/* In huge pages or not: zeroes, all there, and what is beyond stays usable. */
TEST(an_array_grows_by_doubling) {
    uint32_t *array = NULL, count = 0, room = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        CHECK(ROOM_FOR_ONE(array, count, room, 8));
        CHECK(room == (i < 8 ? 8 : 16u << (28 - __builtin_clz(i))));
        array[count++] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        CHECK(array[i] == i);
    free(array);
}

TEST(a_search_counts_what_comes_before) {
    static const uint32_t sorted[] = {2, 3, 3, 5, 9};
    for (uint32_t count = 0; count <= 5; count++)
        for (uint32_t at = 0; at < 11; at++) {
            size_t less = 0, most = 0;
            for (uint32_t i = 0; i < count; i++) {
                less += sorted[i] < at;
                most += sorted[i] <= at;
            }
            CHECK(COUNT_BEFORE(i, count, sorted[i] < at) == less);
            CHECK(COUNT_BEFORE(i, count, sorted[i] <= at) == most);
        }
}

static void *no_memory(void *at, size_t old, size_t bytes) {
    return (void)at, (void)old, (void)bytes, NULL;
}

TEST(an_array_that_cannot_grow_stays) {
    uint64_t one = 7, *array = &one;
    uint32_t room = 1;
    CHECK(!ROOM_FOR_ONE_BY(no_memory, array, 1, room, 8));
    CHECK(array == &one && room == 1);
    /* A number of elements that its type cannot say, and bytes that size_t cannot. */
    room = 1u << 31;
    CHECK(ROOM_FOR_ONE(array, room - 1, room, 8));
    CHECK(!ROOM_FOR_ONE(array, room, room, 8) && array == &one && room == 1u << 31);
    int whole = 1 << 30;
    CHECK(!ROOM_FOR_ONE(array, whole, whole, 8) && array == &one && whole == 1 << 30);
    uint64_t many = 1ull << 60;
    CHECK(!ROOM_FOR_ONE(array, many, many, 8) && array == &one && many == 1ull << 60);
    many = 1ull << 63;
    CHECK(!ROOM_FOR_ONE(array, many, many, 8) && array == &one && many == 1ull << 63);
}

TEST(pages_that_are_filled_are_zero) {
    const size_t bytes = (7u << 20) + 5000, rest = 3u << 20;
    uint8_t *at = pages_new(bytes + rest);
    CHECK(at != NULL);
    (void)pages_fill(at + 100, bytes - 100, rest);
    (void)pages_fill(at + bytes, rest, 0);
    for (size_t i = 0; i < bytes + rest; i += 512) {
        CHECK_EQ(at[i], 0);
        at[i] = 1;
    }
    pages_free(at, bytes + rest);
}

static uint32_t take_all(size_t bytes) {
    size_t used;
    uint32_t count = 0;
    for (void *at; (at = pages_take(bytes, &used)); count++)
        pages_free(at, bytes);
    return count;
}

TEST(kept_pages_are_zero_for_the_next_and_few) {
    const size_t bytes = (3u << 20) + 12345;
    size_t used;
    uint8_t *at = pages_new(bytes);
    CHECK(at != NULL);
    memset(at, 0xa5, bytes);
    pages_keep(at, bytes, bytes);
    CHECK(pages_take(bytes + (8u << 20), &used) == NULL);
    CHECK_EQ(used, 0);
    CHECK(pages_new(bytes) == at);
    for (size_t i = 0; i < bytes; i++)
        if (at[i])
            TEST_FAIL("byte %zu is not zero", i);
    memset(at, 0xa5, 100);
    pages_keep(at, bytes, 100);
    CHECK(pages_take(bytes, &used) == at);
    CHECK_EQ(used, 100);
    CHECK_EQ(at[99], 0xa5);
    pages_free(at, bytes);
    CHECK(pages_take(bytes, &used) == NULL);

    const size_t large = 100u << 20, small = 12288;
    for (int i = 0; i < 5; i++) {
        void *own = pages_sparse(large);
        CHECK(own != NULL);
        pages_keep(own, large, 100u << 20);
    }
    CHECK_EQ(take_all(large), 2);
    for (int i = 0; i < 100; i++) {
        void *own = pages_sparse(small);
        CHECK(own != NULL);
        pages_keep(own, small, small);
    }
    CHECK_EQ(take_all(small), 64);
    pages_keep(NULL, small, small);
    CHECK_EQ(take_all(small), 0);
}

enum { PAGE = 4096 };

/* A page with absent ones on both sides. Copies of every length that end or begin at its edges are
 * whole and touch nothing else; one byte further they are refused. */
static void copy_at_edges(enum guarded how, uint8_t *page, size_t bytes) {
    uint8_t ours[PAGE + 2], from[PAGE];
    for (size_t i = 0; i < PAGE; i++)
        from[i] = (uint8_t)(7 * i + bytes);
    for (int edge = 0; edge < 2; edge++) {
        uint8_t *at = edge ? page + PAGE - bytes : page;
        uint8_t *beyond = edge ? at + 1 : at - 1;
        memset(page, 0xee, PAGE);
        CHECK(guarded_write(how, at, from, bytes));
        CHECK(memcmp(at, from, bytes) == 0);
        for (size_t i = 0; i < PAGE; i++)
            if ((page + i < at || page + i >= at + bytes) && page[i] != 0xee)
                TEST_FAIL("a write of %zu changes byte %zu", bytes, i);
        memset(ours, 0xdd, sizeof ours);
        CHECK(guarded_read(how, ours + 1, at, bytes));
        CHECK(memcmp(ours + 1, from, bytes) == 0);
        CHECK(ours[0] == 0xdd && ours[bytes + 1] == 0xdd);
        if (bytes) {
            CHECK(!guarded_write(how, beyond, from, bytes));
            CHECK(!guarded_read(how, ours, beyond, bytes));
        }
    }
}

TEST(copies_end_where_memory_does) {
    const enum guarded way[] = {guarded_way(), GUARDED_BY_SYSTEM};
    uint8_t *map = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    CHECK(mprotect(map + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    for (int i = 0; i < 2; i++)
        for (size_t bytes = 0; bytes <= PAGE; bytes += bytes < 600 ? 1 : 97)
            copy_at_edges(way[i], map + PAGE, bytes);
    CHECK(munmap(map, 3 * PAGE) == 0);
}
