/* A test program: TEST(name) { ... CHECK(...) ... } and TEST_MAIN at the end. Prints TAP, one line
 * per test; the first failed check of a test ends it, with file, line and values. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct test_case {
    const char *name;
    void (*run)(void);
    struct test_case *next;
};

static struct test_case *test_first, **test_last = &test_first;
static jmp_buf test_exit;
static char test_why[1200];
static char test_context[200]; /* told with a failure: a seed, a step */
static bool test_skipped;

/* Memory and time are not the program's own then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

#define TEST(name)                                                                                 \
    static void test_##name(void);                                                                 \
    __attribute__((constructor)) static void register_##name(void) {                               \
        static struct test_case entry = {#name, test_##name, NULL};                                \
        *test_last = &entry;                                                                       \
        test_last = &entry.next;                                                                   \
    }                                                                                              \
    static void test_##name(void)

#define TEST_FAIL(...)                                                                             \
    do {                                                                                           \
        int length_ = snprintf(test_why, sizeof test_why, "%s:%d: ", __FILE__, __LINE__);          \
        snprintf(test_why + length_, sizeof test_why - (size_t)length_, __VA_ARGS__);              \
        longjmp(test_exit, 1);                                                                     \
    } while (0)

/* For what cannot run here: says why, and counts as skipped, never as passed. */
#define TEST_SKIP(why)                                                                             \
    do {                                                                                           \
        test_skipped = true;                                                                       \
        snprintf(test_why, sizeof test_why, "%s", why);                                            \
        longjmp(test_exit, 1);                                                                     \
    } while (0)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            TEST_FAIL("%s is false", #condition);                                                  \
    } while (0)

#define CHECK_EQ(actual, expected)                                                                 \
    do {                                                                                           \
        long long a_ = (long long)(actual), e_ = (long long)(expected);                            \
        if (a_ != e_)                                                                              \
            TEST_FAIL("%s is %lld (0x%llx), expected %lld (0x%llx)", #actual, a_, a_, e_, e_);     \
    } while (0)

#define CHECK_STR(actual, expected)                                                                \
    do {                                                                                           \
        const char *a_ = (actual), *e_ = (expected);                                               \
        if (strcmp(a_, e_) != 0)                                                                   \
            TEST_FAIL("%s is \"%s\", expected \"%s\"", #actual, a_, e_);                           \
    } while (0)

#define CHECK_HAS(text, part)                                                                      \
    do {                                                                                           \
        const char *a_ = (text), *e_ = (part);                                                     \
        if (!strstr(a_, e_))                                                                       \
            TEST_FAIL("%s is \"%s\", expected it to hold \"%s\"", #text, a_, e_);                  \
    } while (0)

/* Until something holds that another thread or process, or the system, brings about; `meanwhile` is
 * done between looks. A machine that does much else may take long: the limit only ends a test that
 * would never end. */
#define CHECK_SOON(condition, meanwhile)                                                           \
    do {                                                                                           \
        bool holds_;                                                                               \
        time_t until_ = time(NULL) + 200;                                                          \
        while (!(holds_ = (condition)) && time(NULL) < until_) {                                   \
            meanwhile;                                                                             \
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);                                \
        }                                                                                          \
        if (!holds_)                                                                               \
            TEST_FAIL("%s is false", #condition);                                                  \
    } while (0)

/* True when every check held. In a function of its own: no local lives across the jump. */
static bool test_run(const struct test_case *t) {
    test_skipped = false;
    test_context[0] = 0;
    if (setjmp(test_exit) != 0)
        return false;
    t->run();
    return true;
}

/* Runs every test, or those whose names are given. */
static int test_main(int argc, char **argv) {
    int count = 0, failed = 0;
    for (const struct test_case *t = test_first; t; t = t->next) {
        bool wanted = argc < 2;
        for (int i = 1; i < argc; i++)
            wanted |= strcmp(argv[i], t->name) == 0;
        if (!wanted)
            continue;
        count++;
        if (test_run(t)) {
            printf("ok %d - %s\n", count, t->name);
        } else if (test_skipped) {
            printf("ok %d - %s # SKIP %s\n", count, t->name, test_why);
        } else {
            failed++;
            printf("not ok %d - %s\n# %s\n", count, t->name, test_why);
            if (test_context[0])
                printf("# %s\n", test_context);
        }
        fflush(stdout);
    }
    printf("1..%d\n", count);
    return failed ? 1 : 0;
}

#define TEST_MAIN                                                                                  \
    int main(int argc, char **argv) {                                                              \
        return test_main(argc, argv);                                                              \
    }

#endif
