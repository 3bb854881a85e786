/* Large arrays of zeroes: page-aligned, in huge pages where the system has them (random access to
 * hundreds of megabytes otherwise misses the translation cache every time), and resident only where
 * touched. They grow in place or by moving pages, never by copying. */
#ifndef SPIN_BASE_PAGES_H
#define SPIN_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* NULL when there is no memory. `bytes` may be 0. */
void *pages_new(size_t bytes);
/* The same in small pages, for what is mostly never touched. */
void *pages_sparse(size_t bytes);
/* All of [at, at + bytes), which pages_new gave with as much as `rest` behind it, will be used
 * soon: one call of the system instead of a fault per page. Huge pages take a fifth of the time
 * that small ones do, unless the system is a virtual machine that has given their memory back to
 * its host: then they take five times as long. The first that does so is the last: what follows,
 * `rest` included, is in small pages, and the function returns false. */
bool pages_fill(void *at, size_t bytes, size_t rest);
/* pages_new and pages_fill in one. */
void *pages_filled(size_t bytes);
/* From `old` to `bytes`; what is new is zero. On failure NULL, and the old array stays. `at` may be
 * NULL when `old` is 0. */
void *pages_grow(void *at, size_t old, size_t bytes);
void pages_free(void *at, size_t bytes);

/* Memory comes dear from the system: a virtual machine gets every page of it from its host. So who
 * asks for the same again and again, a process with many worlds, lets it be kept. */
/* As pages_free, of what is used up to there. At most 256 MiB are kept; the oldest go. */
void pages_keep(void *at, size_t bytes, size_t used);
/* Of the same size, with `used` bytes to be cleared; NULL: none is kept. pages_new looks there,
 * too.
 */
void *pages_take(size_t bytes, size_t *used);

#endif
