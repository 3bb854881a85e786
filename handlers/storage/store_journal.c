#include "store_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store_crc.h"
#include "store_meta_private.h"

static const char magic[8] = "SPINJRNL";
#define VERSION 1u

struct head {
    char magic[8];
    uint32_t version, nodes;
    uint64_t blocks; /* of each node */
    uint64_t begins; /* bytes of the file that are what there was; changes follow */
    uint32_t crc;    /* of all before it */
    uint32_t zero;
};
_Static_assert(sizeof(struct head) == 40, "as docs/store.md has it");

/* Before each record. */
struct frame {
    uint32_t bytes, crc; /* of the record */
    uint32_t frame_crc;  /* of the two */
};

#define LEAST_BYTES (1u << 18) /* that are added before the file is begun anew */

struct store_journal {
    int fd;
    char path[PATH_MAX];
    struct store_meta *meta;
    uint64_t bytes, begins; /* of the file; with which it began */
    uint64_t cut;
    bool broken; /* what is in the file is not known: nothing is changed any more */
    uint8_t *buffer;
    uint64_t used, room; /* of the buffer */
};

__attribute__((format(printf, 3, 4))) static int fail(struct spin_error *err, int code,
                                                      const char *format, ...) {
    va_list args;
    va_start(args, format);
    err->code = code;
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}

/* ---- Reading ---- */

static bool frame_at(const uint8_t *bytes, uint64_t count, uint64_t at, struct frame *f) {
    if (count - at < sizeof *f)
        return false;
    memcpy(f, bytes + at, sizeof *f);
    return f->frame_crc == store_crc32c_padded(f, offsetof(struct frame, frame_crc), 0) &&
           f->bytes && f->bytes <= count - at - sizeof *f &&
           f->crc == store_crc32c_padded(bytes + at + sizeof *f, f->bytes, 0);
}

/* One change at a time is added, and nobody is told of it before it is durable. So what is not
 * whole is the end, unless something whole follows: that was there, and is damaged. */
static bool anything_follows(const uint8_t *bytes, uint64_t count, uint64_t at) {
    struct frame f;
    while (++at < count)
        if (frame_at(bytes, count, at, &f))
            return true;
    return false;
}

static int check_head(const uint8_t *bytes, uint64_t count, const struct store_meta *m,
                      struct head *h, struct spin_error *err) {
    if (count < sizeof *h || memcmp(bytes, magic, sizeof magic) != 0)
        return fail(err, SPIN_EFORMAT, "this is no journal of a store");
    memcpy(h, bytes, sizeof *h);
    if (h->version != VERSION)
        return fail(err, SPIN_EFORMAT, "the journal has version %u, this program reads %u",
                    h->version, VERSION);
    if (h->crc != store_crc32c_padded(h, offsetof(struct head, crc), 0) || h->zero ||
        h->begins > count || h->begins < sizeof *h)
        return fail(err, SPIN_EFORMAT, "the journal's head is damaged");
    if (h->nodes != m->node_count || h->blocks != m->node[0].blocks.count)
        return fail(err, SPIN_EFORMAT,
                    "the journal is of a store with %u nodes of %llu blocks, this one has %u of "
                    "%u; start it with the options that it was made with",
                    h->nodes, (unsigned long long)h->blocks, m->node_count,
                    m->node[0].blocks.count);
    return 0;
}

int store_journal_read(const uint8_t *bytes, uint64_t count, struct store_meta *m, uint64_t *good,
                       struct spin_error *err) {
    struct store_record *r = calloc(1, sizeof *r);
    struct head h;
    struct frame f;
    uint64_t time = 0, at = sizeof h;
    int code = r ? check_head(bytes, count, m, &h, err)
                 : fail(err, SPIN_ENOMEM, "no memory for the journal");
    while (!code && frame_at(bytes, count, at, &f)) {
        if (!store_record_read(r, bytes + at + sizeof f, f.bytes) || !store_meta_apply(m, r, &time))
            code = fail(err, SPIN_EFORMAT,
                        "the journal's record at byte %llu contradicts those before it",
                        (unsigned long long)at);
        at += sizeof f + f.bytes;
    }
    if (!code && (at < h.begins || anything_follows(bytes, count, at)))
        code =
            fail(err, SPIN_EFORMAT, "the journal is damaged at byte %llu", (unsigned long long)at);
    if (!code && !store_meta_applied(m, &time))
        code = fail(err, SPIN_EFORMAT, "the journal lacks records");
    *good = at;
    free(r);
    return code;
}

/* ---- Writing ---- */

/* Adds a record to the buffer. */
static bool add(void *user, const struct store_record *record) {
    struct store_journal *j = user;
    if (j->room - j->used < STORE_RECORD_BYTES) {
        uint64_t room = j->room ? 2 * j->room : 2 * STORE_RECORD_BYTES;
        uint8_t *grown = realloc(j->buffer, room);
        if (!grown)
            return false;
        j->buffer = grown;
        j->room = room;
    }
    struct frame f = {0};
    uint8_t *at = j->buffer + j->used;
    f.bytes = store_record_write((struct store_record *)(uintptr_t)record, at + sizeof f,
                                 STORE_RECORD_BYTES - (uint32_t)sizeof f);
    f.crc = store_crc32c_padded(at + sizeof f, f.bytes, 0);
    f.frame_crc = store_crc32c_padded(&f, offsetof(struct frame, frame_crc), 0);
    memcpy(at, &f, sizeof f);
    j->used += sizeof f + f.bytes;
    return f.bytes;
}

static bool write_all(int fd, const uint8_t *from, uint64_t bytes) {
    while (bytes) {
        ssize_t wrote = write(fd, from, bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        from += wrote;
        bytes -= (uint64_t)wrote;
    }
    return true;
}

/* A name that was changed is durable when its folder is. */
static bool flush_folder(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* The file anew, with what there is. False: the old one is as it was, or the journal is broken. */
static bool begin_anew(struct store_journal *j) {
    char path[PATH_MAX + 8];
    struct head h = {
        .version = VERSION, .nodes = j->meta->node_count, .blocks = j->meta->node[0].blocks.count};
    memcpy(h.magic, magic, sizeof magic);
    j->used = 0;
    if (!store_meta_each(j->meta, add, j))
        return false;
    h.begins = sizeof h + j->used;
    h.crc = store_crc32c_padded(&h, offsetof(struct head, crc), 0);
    snprintf(path, sizeof path, "%s.new", j->path);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write_all(fd, (const uint8_t *)&h, sizeof h) &&
              write_all(fd, j->buffer, j->used) && fsync(fd) == 0 &&
              flock(fd, LOCK_EX | LOCK_NB) == 0 && rename(path, j->path) == 0;
    if (!ok) {
        int saved = errno;
        if (fd >= 0)
            close(fd);
        unlink(path);
        errno = saved;
        return false;
    }
    if (j->fd >= 0)
        close(j->fd);
    j->fd = fd;
    j->bytes = j->begins = h.begins;
    j->broken = !flush_folder(j->path);
    return !j->broken;
}

/* store_note: a change that is about to happen. */
static bool keep(void *user, const struct store_record *record) {
    struct store_journal *j = user;
    if (!j->broken && j->bytes - j->begins > j->begins + LEAST_BYTES && !begin_anew(j))
        j->begins = j->bytes; /* the file grows on, and this is tried again later */
    j->used = 0;
    if (j->broken || !add(j, record))
        return false;
    if (!write_all(j->fd, j->buffer, j->used)) {
        j->broken =
            ftruncate(j->fd, (off_t)j->bytes) != 0 || lseek(j->fd, (off_t)j->bytes, SEEK_SET) < 0;
        return false;
    }
    j->broken = fdatasync(j->fd) != 0;
    j->bytes += j->used;
    return !j->broken;
}

/* ---- Opening ---- */

static int load(struct store_journal *j, struct spin_error *err) {
    struct stat st;
    j->fd = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (j->fd < 0 || fstat(j->fd, &st) != 0)
        return fail(err, SPIN_EFILE, "%s", strerror(errno));
    if (flock(j->fd, LOCK_EX | LOCK_NB) != 0)
        return fail(err, SPIN_EFILE, "the journal is in use by another process");
    if (st.st_size == 0)
        return 0;
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, j->fd, 0);
    if (bytes == MAP_FAILED)
        return fail(err, SPIN_EFILE, "%s", strerror(errno));
    uint64_t good;
    int code = store_journal_read(bytes, (uint64_t)st.st_size, j->meta, &good, err);
    j->cut = (uint64_t)st.st_size - good;
    munmap(bytes, (size_t)st.st_size);
    return code;
}

int store_journal_open(const char *path, struct store_meta *meta, struct store_journal **journal,
                       struct spin_error *err) {
    struct store_journal *j = *journal = calloc(1, sizeof *j);
    if (!j)
        return fail(err, SPIN_ENOMEM, "no memory for the journal");
    j->fd = -1;
    j->meta = meta;
    int code = (size_t)snprintf(j->path, sizeof j->path, "%s", path) < sizeof j->path
                   ? load(j, err)
                   : fail(err, SPIN_EFILE, "its name is too long");
    if (!code && !begin_anew(j))
        code = fail(err, SPIN_EFILE, "%s", strerror(errno));
    if (!code && !store_meta_keep(meta, keep, j))
        code = fail(err, SPIN_ENOMEM, "no memory for the journal");
    if (code) {
        store_journal_close(j);
        *journal = NULL;
    }
    return code;
}

void store_journal_close(struct store_journal *j) {
    if (!j)
        return;
    store_meta_keep(j->meta, NULL, NULL);
    if (j->fd >= 0)
        close(j->fd);
    free(j->buffer);
    free(j);
}

uint64_t store_journal_cut(const struct store_journal *j) {
    return j->cut;
}
