/* For fuzzers: a check that ends the process loudly, in release builds too. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define FUZZ_CHECK(condition) FUZZ_HOLDS(condition, #condition)
/* With words for what is checked. */
#define FUZZ_HOLDS(condition, what)                                                                \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, what);               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* What the world of cards (lib/nicworld.h) checks. */
#define CHECK(condition)       FUZZ_CHECK(condition)
#define CHECK_EQ(a, b)         FUZZ_CHECK((a) == (b))
#define TEST_FAIL(format, ...) FUZZ_HOLDS(false, format)

#endif
