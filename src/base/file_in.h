/* A large file that is looked at through a window, so that reading it does not hold it. */
#ifndef SPIN_BASE_FILE_IN_H
#define SPIN_BASE_FILE_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openspin.h"

struct file_in {
    const char *path, *what; /* for messages */
    uint64_t length;
    int fd; /* -1: the window is all there is */
    uint8_t *window;
    uint64_t first; /* offset of the window in the file */
    size_t count, room;
};

/* A file that is not empty; see file_read. What is no regular file is read as a whole, by `limit`
 * bytes at most. Ends with file_in_close, also after an error. */
int file_in_open(struct file_in *in, const char *path, const char *what, size_t limit,
                 struct spin_error *err);
/* Bytes of the caller's, which stay the caller's. */
struct file_in file_in_memory(const char *name, const uint8_t *bytes, size_t length);
void file_in_close(struct file_in *in);

/* The bytes from `offset` on, which must lie inside the file: good until the next call. A 0 follows
 * the last byte of the file. NULL: the file cannot be read, or is shorter by now. */
const uint8_t *file_in_at(struct file_in *in, uint64_t offset, size_t bytes,
                          struct spin_error *err);
/* The same into a buffer of the caller's; the window stays where it is. */
int file_in_copy(const struct file_in *in, uint64_t offset, size_t bytes, uint8_t *to,
                 struct spin_error *err);

#endif
