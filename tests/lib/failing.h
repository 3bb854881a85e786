/* Memory that runs out: our allocator stands before the C library's (`wrap_allocators` in
 * tests/meson.build), and the allocation that a test chooses fails. */
#ifndef SPIN_TESTS_FAILING_H
#define SPIN_TESTS_FAILING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static uint64_t allocations, fail_at; /* since it was armed; 0: none */
static bool all_fail;
static int64_t alive; /* blocks that were not given back */

/* Where a debugger stops. */
__attribute__((noinline)) static void no_memory_here(void) {
    __asm__ volatile("");
}

static bool fails(void) {
    if (++allocations != fail_at && !all_fail)
        return false;
    no_memory_here();
    return true;
}

void *__wrap_malloc(size_t bytes) {
    void *memory = fails() ? NULL : __real_malloc(bytes);
    alive += memory != NULL;
    return memory;
}

void *__wrap_calloc(size_t count, size_t bytes) {
    void *memory = fails() ? NULL : __real_calloc(count, bytes);
    alive += memory != NULL;
    return memory;
}

void *__wrap_realloc(void *old, size_t bytes) {
    void *memory = fails() ? NULL : __real_realloc(old, bytes);
    alive += memory && !old;
    return memory;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    void *memory = fails() ? NULL : __real_aligned_alloc(alignment, bytes);
    alive += memory != NULL;
    return memory;
}

char *__wrap_strdup(const char *text) {
    char *copy = fails() ? NULL : __real_strdup(text);
    alive += copy != NULL;
    return copy;
}

void __wrap_free(void *memory) {
    alive -= memory != NULL;
    __real_free(memory);
}

/* A call that may find no memory, and then does once more. Counts in the caller's `refused`. */
#define TRY(call, lacks)                                                                           \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ == (lacks) && allocations >= fail_at && fail_at) {                               \
            refused++;                                                                             \
            code_ = (call);                                                                        \
        }                                                                                          \
        CHECK_EQ(code_, 0);                                                                        \
    } while (0)

#endif
