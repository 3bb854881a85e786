/* Whole files in and out. */
#ifndef SPIN_BASE_FILE_H
#define SPIN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "openspin.h"

/* Reads a regular file of at most `limit` bytes into a new buffer that the caller frees. An empty
 * file is an error: nothing that we read may be empty. A 0 follows the last byte. `what` names the
 * thing in the message
 * ("image", "packet"). */
int file_read(const char *path, const char *what, size_t limit, uint8_t **data, size_t *length,
              struct spin_error *err);

/* An error before memory is filled: `bytes` of a file, or of what it will be in memory, are more
 * than is free. Small ones always fit. */
int file_must_fit(const char *path, const char *what, uint64_t bytes, struct spin_error *err);

/* The first folder that holds `name`, of `places` that are relative to where this command is: in
 * its build tree, and where it is installed. NULL ends them. False: there is none. */
bool file_beside(const char *const *places, const char *name, char *folder, size_t room);

/* A file that appears under its final name only when it is complete. */
struct file_out {
    FILE *stream;
    char *path, *part; /* part: NULL for a device or pipe, which is written to directly */
};
int file_out_open(struct file_out *out, const char *path, struct spin_error *err);
/* Whether file_out_open would do, before the work whose result goes there. Leaves nothing behind.
 */
int file_out_try(const char *path, struct spin_error *err);
/* Flushes, checks and renames; on an error the part is removed and the old file stays. */
int file_out_commit(struct file_out *out, struct spin_error *err);
void file_out_abandon(struct file_out *out);
/* For a signal that ends the process: removes the parts of what is being written. */
void file_out_interrupted(void);

#endif
