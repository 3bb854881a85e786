/* Memory for the records of one owner, thousands of small ones: close together, because records of
 * thousands of ranks that are used in turn otherwise miss the translation cache, and asked of the
 * system in large parts, because each page otherwise faults. Where no zone is given (NULL) it is
 * malloc's. */
#ifndef SPIN_BASE_ZONE_H
#define SPIN_BASE_ZONE_H

#include <stdbool.h>
#include <stddef.h>

/* Sanitizers see every piece if each is malloc's. */
#if defined(__SANITIZE_ADDRESS__)
#define ZONE_IS_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define ZONE_IS_MALLOC 1
#endif
#endif
#ifndef ZONE_IS_MALLOC
#define ZONE_IS_MALLOC 0
#endif

struct zone;

struct zone *zone_new(void); /* NULL: no memory */
/* With all that is still taken. */
void zone_free(struct zone *zone);

/* NULL: no memory. As malloc and calloc. */
void *zone_take(struct zone *zone, size_t bytes);
void *zone_take_clear(struct zone *zone, size_t bytes);
/* As malloc, and whether it is zero because nobody has had it before. */
void *zone_take_raw(struct zone *zone, size_t bytes, bool *is_zero);
/* Whole cache lines. */
void *zone_take_lines(struct zone *zone, size_t bytes);
/* `at` may be NULL; `bytes` is what it was taken with. */
void zone_give(struct zone *zone, void *at, size_t bytes);

#endif
