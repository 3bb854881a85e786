/* The file is read and not mapped: one that another process cuts off is an error here, and would be
 * a SIGBUS there; and what was looked at need not stay resident. */
#include "base/file_in.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

#define WINDOW ((size_t)1 << 20)

struct file_in file_in_memory(const char *name, const uint8_t *bytes, size_t length) {
    return (struct file_in){
        .path = name, .length = length, .fd = -1, .window = (uint8_t *)bytes, .count = length};
}

int file_in_open(struct file_in *in, const char *path, const char *what, size_t limit,
                 struct spin_error *err) {
    struct stat st;
    *in = (struct file_in){.path = path, .what = what, .fd = -1};
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= (off_t)WINDOW) {
        int code = file_read(path, what, limit, &in->window, &in->count, err);
        in->length = in->count;
        in->room = in->count;
        return code;
    }
    in->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0 || fstat(in->fd, &st) != 0)
        return spin_fail(err, SPIN_EFILE, "%s: cannot open %s: %s", path, what, strerror(errno));
    in->length = (uint64_t)st.st_size;
    if (in->length > limit)
        return spin_fail(err, SPIN_ELIMIT, "%s: %s of %lld bytes is over the limit of %zu bytes",
                         path, what, (long long)st.st_size, limit);
    return SPIN_OK;
}

void file_in_close(struct file_in *in) {
    if (in->room) /* else the caller's */
        free(in->window);
    if (in->fd >= 0)
        close(in->fd);
    *in = (struct file_in){.fd = -1};
}

static int read_at(const struct file_in *in, uint64_t offset, size_t bytes, uint8_t *to,
                   struct spin_error *err) {
    for (size_t used = 0; used < bytes;) {
        ssize_t got = pread(in->fd, to + used, bytes - used, (off_t)(offset + used));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return spin_fail(err, SPIN_EFILE, "%s: cannot read %s: %s", in->path, in->what,
                             strerror(errno));
        if (got == 0)
            return spin_fail(err, SPIN_EFILE,
                             "%s: was %llu bytes long and is cut off at %llu now: it changes while "
                             "it is read",
                             in->path, (unsigned long long)in->length,
                             (unsigned long long)(offset + used));
        used += (size_t)got;
    }
    return SPIN_OK;
}

static bool is_in_window(const struct file_in *in, uint64_t offset, size_t bytes) {
    return offset >= in->first && offset - in->first <= in->count &&
           bytes <= in->count - (offset - in->first);
}

int file_in_copy(const struct file_in *in, uint64_t offset, size_t bytes, uint8_t *to,
                 struct spin_error *err) {
    if (!is_in_window(in, offset, bytes))
        return read_at(in, offset, bytes, to, err);
    memcpy(to, in->window + (offset - in->first), bytes);
    return SPIN_OK;
}

const uint8_t *file_in_at(struct file_in *in, uint64_t offset, size_t bytes,
                          struct spin_error *err) {
    if (is_in_window(in, offset, bytes))
        return in->window + (offset - in->first);
    size_t wanted = bytes > WINDOW ? bytes : WINDOW;
    if (wanted > in->length - offset)
        wanted = (size_t)(in->length - offset);
    if (wanted + 1 > in->room) {
        if (file_must_fit(in->path, in->what, wanted, err))
            return NULL;
        uint8_t *larger = realloc(in->window, wanted + 1);
        if (!larger) {
            spin_fail(err, SPIN_ENOMEM, "%s: out of memory reading %s", in->path, in->what);
            return NULL;
        }
        in->window = larger;
        in->room = wanted + 1;
    }
    in->count = 0;
    if (read_at(in, offset, wanted, in->window, err))
        return NULL;
    in->window[wanted] = 0;
    in->first = offset;
    in->count = wanted;
    return in->window;
}
