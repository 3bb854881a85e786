/* The journal of the metadata service: a file with a head, what there was when it was begun, and
 * every change since (docs/store.md has its format). A change is in the file before it happens. The
 * file is begun anew, under another name that is changed when it is durable, at each start and when
 * it has become long. */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include <openspin.h>

#include "store_record.h"

struct store_journal;

/* Reads what `path` has into `meta`, which is new, and keeps every change from then on. A file that
 * is not there is made. 0, or a negative code and one line in `err`: it cannot be read or written,
 * is another store's, is in use, or is damaged; nothing is changed then. */
int store_journal_open(const char *path, struct store_meta *meta, struct store_journal **journal,
                       struct spin_error *err);
void store_journal_close(struct store_journal *journal);
/* Bytes that were cut off its end: a change that was not finished, so nobody was told of it. */
uint64_t store_journal_cut(const struct store_journal *journal);

/* Of all that is in a file: applies its records to `meta`. *good: bytes up to the end of the last
 * whole record; what follows was not finished. The same codes. */
int store_journal_read(const uint8_t *bytes, uint64_t count, struct store_meta *meta,
                       uint64_t *good, struct spin_error *err);

#endif
