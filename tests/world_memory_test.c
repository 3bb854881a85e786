/* Memory that runs out in a world: the n-th allocation of a run fails, for every n. The run ends
 * with an error, or does without and takes the time that it takes otherwise; nothing crashes, hangs
 * or leaks. The linker puts our allocator before the C library's (tests/meson.build). */
#include "lib/worlds.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);

static uint64_t allocations, fail_at; /* since it was armed; 0: none */

static bool fails(void) {
    return ++allocations == fail_at;
}

void *__wrap_malloc(size_t bytes) {
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes) {
    return fails() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

char *__wrap_strdup(const char *text) {
    return fails() ? NULL : __real_strdup(text);
}

/* A use case with handlers, of a few packets. What was loaded and compiled by the first run is
 * there for the others. */
static void every_allocation_fails_once(const char *const *set, int set_count) {
    struct p4_setup s = setup_of(P4_STREAM, "sc17-int", 9000);
    struct p4_outcome outcome;
    struct spin_error err;
    s.world.set = set;
    s.world.set_count = set_count;
    s.world.jit = SPIN_JIT_OFF;
    fail_at = allocations = 0;
    CHECK_EQ(p4_accumulate(&s, &outcome, &err), SPIN_OK);
    uint64_t count = allocations, time_ps = outcome.time_ps, failed = 0;
    for (uint64_t n = 1; n <= count; n++) {
        err.text[0] = 0;
        allocations = 0;
        fail_at = n;
        int code = p4_accumulate(&s, &outcome, &err);
        fail_at = 0;
        failed += code != SPIN_OK;
        if (code ? !err.text[0] : outcome.time_ps != time_ps)
            TEST_FAIL("allocation %llu of %llu fails: code %d, %s", (unsigned long long)n,
                      (unsigned long long)count, code, err.text);
    }
    CHECK(failed > count / 2);
}

TEST(every_allocation_fails_once_on_sc17_cards) {
    every_allocation_fails_once(NULL, 0);
}

TEST(every_allocation_fails_once_on_pspin_cards) {
    static const char *const set[] = {"card=pspin"};
    every_allocation_fails_once(set, 1);
}

TEST_MAIN
