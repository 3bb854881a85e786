#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/machine.h"

int file_must_fit(const char *path, const char *what, uint64_t bytes, struct spin_error *err) {
    if (bytes <= 64 << 20 || bytes <= machine_memory())
        return SPIN_OK;
    return spin_fail(err, SPIN_ELIMIT, "%s: %s of %llu MiB does not fit: %llu MiB are free", path,
                     what, (unsigned long long)(bytes >> 20),
                     (unsigned long long)(machine_memory() >> 20));
}

static int read_all(int fd, const char *path, const char *what, size_t limit, uint8_t **data,
                    size_t *length, struct spin_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return spin_fail(err, SPIN_EFILE, "%s: cannot read %s: %s", path, what, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return spin_fail(err, SPIN_EFILE, "%s: cannot read %s: it is a directory", path, what);
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > limit)
        return spin_fail(err, SPIN_ELIMIT, "%s: %s of %lld bytes is over the limit of %zu bytes",
                         path, what, (long long)st.st_size, limit);
    if (S_ISREG(st.st_mode) && file_must_fit(path, what, (uint64_t)st.st_size, err))
        return SPIN_ELIMIT;
    size_t used = 0, room = S_ISREG(st.st_mode) ? (size_t)st.st_size + 1 : 4096;
    uint8_t *bytes = malloc(room);
    while (bytes) {
        ssize_t got = read(fd, bytes + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(bytes);
            return spin_fail(err, SPIN_EFILE, "%s: cannot read %s: %s", path, what,
                             strerror(errno));
        }
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > limit) {
            free(bytes);
            return spin_fail(err, SPIN_ELIMIT, "%s: %s is over the limit of %zu bytes", path, what,
                             limit);
        }
        if (used == room) { /* of a pipe or device nobody knows where it ends */
            if (file_must_fit(path, what, room *= 2, err)) {
                free(bytes);
                return SPIN_ELIMIT;
            }
            uint8_t *larger = realloc(bytes, room);
            if (!larger)
                free(bytes);
            bytes = larger;
        }
    }
    if (!bytes)
        return spin_fail(err, SPIN_ENOMEM, "%s: out of memory reading %s", path, what);
    if (used == 0) {
        free(bytes);
        return spin_fail(err, SPIN_EFILE, "%s: cannot read %s: the file is empty", path, what);
    }
    bytes[used] = 0;
    *data = bytes;
    *length = used;
    return SPIN_OK;
}

int file_read(const char *path, const char *what, size_t limit, uint8_t **data, size_t *length,
              struct spin_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return spin_fail(err, SPIN_EFILE, "%s: cannot open %s: %s", path, what, strerror(errno));
    int code = read_all(fd, path, what, limit, data, length, err);
    close(fd);
    return code;
}

/* Parts that are being written, for file_out_interrupted; one more than fit stays behind. */
static _Atomic(char *) parts[16];

static void note_part(char *from, char *to) {
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char *expected = from;
        if (atomic_compare_exchange_strong(&parts[i], &expected, to))
            return;
    }
}

void file_out_interrupted(void) {
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char *part = atomic_exchange(&parts[i], NULL);
        if (part)
            unlink(part);
    }
}

/* Where the bytes go first. A device or pipe is written to as it is: it has no contents to keep,
 * and a rename would put a file in its place. A link is followed, so that it stays a link. */
static bool name_files(struct file_out *out, const char *path, bool direct) {
    out->path = direct ? strdup(path) : realpath(path, NULL);
    if (!out->path)
        out->path = strdup(path); /* it is not there yet */
    if (!out->path || direct)
        return out->path != NULL;
    if (asprintf(&out->part, "%s.part-%ld", out->path, (long)getpid()) < 0)
        out->part = NULL;
    return out->part != NULL;
}

int file_out_open(struct file_out *out, const char *path, struct spin_error *err) {
    *out = (struct file_out){0};
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode))
        return spin_fail(err, SPIN_EFILE, "%s: is a directory, expected a file to write", path);
    if (!name_files(out, path, there && !S_ISREG(st.st_mode))) {
        file_out_abandon(out);
        return spin_fail(err, SPIN_ENOMEM, "%s: out of memory", path);
    }
    if (out->part)
        note_part(NULL, out->part);
    out->stream = fopen(out->part ? out->part : out->path, "we");
    if (!out->stream) {
        int why = errno;
        file_out_abandon(out);
        return spin_fail(err, SPIN_EFILE, "%s: cannot write: %s", path, strerror(why));
    }
    return SPIN_OK;
}

int file_out_try(const char *path, struct spin_error *err) {
    struct file_out out;
    struct stat st;
    if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
        return SPIN_OK; /* opening it would wait for a reader, or look like an end to one */
    int code = file_out_open(&out, path, err);
    if (!code)
        file_out_abandon(&out);
    return code;
}

int file_out_commit(struct file_out *out, struct spin_error *err) {
    FILE *stream = out->stream;
    out->stream = NULL;
    int why = 0;
    if (ferror(stream) || fflush(stream) != 0)
        why = errno ? errno : EIO;
    if (fclose(stream) != 0 && !why)
        why = errno;
    if (!why && out->part && rename(out->part, out->path) != 0)
        why = errno;
    int code = SPIN_OK;
    if (why)
        code = spin_fail(err, SPIN_EFILE, "%s: cannot write: %s", out->path, strerror(why));
    else if (out->part)
        out->part[0] = 0; /* renamed: nothing to remove */
    file_out_abandon(out);
    return code;
}

void file_out_abandon(struct file_out *out) {
    if (out->stream)
        fclose(out->stream);
    if (out->part && out->part[0])
        unlink(out->part);
    if (out->part)
        note_part(out->part, NULL);
    free(out->part);
    free(out->path);
    *out = (struct file_out){0};
}

bool file_beside(const char *const *places, const char *name, char *folder, size_t room) {
    char self[PATH_MAX], path[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return false;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    for (; *places; places++) {
        if (snprintf(folder, room, "%s/%s", self, *places) >= (int)room)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}
