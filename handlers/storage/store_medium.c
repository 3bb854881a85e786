#include "store_medium.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage_wire.h"
#include "store_crc.h"

/* The last bytes of a file. A card needs some behind the last block, which are before them. */
struct label {
    char magic[8];
    uint32_t version, zero;
    uint64_t number, bytes; /* of the medium; of the file */
    uint32_t crc, more_zero;
};
static const char magic[8] = "SPINDATA";
#define VERSION 1u
_Static_assert(STORAGE_HEAD + sizeof(struct label) <= STORAGE_BLOCK, "one block has both");

static struct label *label_of(const struct store_medium *m) {
    return (struct label *)(void *)(m->at + m->bytes - sizeof(struct label));
}

static uint32_t crc_of(const struct label *l) {
    return store_crc32c_padded(l, offsetof(struct label, crc), 0);
}

/* The number of a file that was used before, or none; false: it is not ours to write to. */
static bool take_label(struct store_medium *m, int fd, const char *file) {
    static const struct label none;
    struct label l = none;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        fprintf(stderr, "spinstore: %s: %s\n", file, strerror(errno));
        return false;
    }
    ssize_t got = pread(fd, &l, sizeof l, st.st_size - (off_t)sizeof l);
    if (st.st_size == 0 || ((uint64_t)st.st_size == m->bytes && memcmp(&l, &none, sizeof l) == 0))
        return true; /* new, or whoever made it did not get to its label */
    if (got != (ssize_t)sizeof l || memcmp(l.magic, magic, sizeof magic) != 0)
        fprintf(stderr, "spinstore: %s: this is no medium of a store, and it is not empty\n", file);
    else if (l.version != VERSION)
        fprintf(stderr, "spinstore: %s: its data has version %u, this program reads %u\n", file,
                l.version, VERSION);
    else if (l.crc != crc_of(&l) || !l.number)
        fprintf(stderr, "spinstore: %s: its label, the last %zu bytes, is damaged\n", file,
                sizeof l);
    else if (l.bytes != m->bytes)
        fprintf(stderr, "spinstore: %s: it is a medium of %llu bytes, not of %llu\n", file,
                (unsigned long long)(l.bytes - STORAGE_BLOCK),
                (unsigned long long)(m->bytes - STORAGE_BLOCK));
    else
        m->number = l.number;
    return m->number;
}

static int open_file(struct store_medium *m, const char *file) {
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool ours = fd >= 0 && take_label(m, fd, file);
    if (ours && ftruncate(fd, (off_t)m->bytes) == 0)
        return fd;
    if (ours || fd < 0)
        fprintf(stderr, "spinstore: %s: a medium of %llu bytes: %s\n", file,
                (unsigned long long)(m->bytes - STORAGE_BLOCK), strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool new_number(struct store_medium *m) {
    while (!m->number)
        if (getrandom(&m->number, sizeof m->number, 0) != (ssize_t)sizeof m->number)
            return false;
    return true;
}

static int write_label(const struct store_medium *m, const char *file) {
    struct label *l = label_of(m);
    *l = (struct label){.version = VERSION, .number = m->number, .bytes = m->bytes};
    memcpy(l->magic, magic, sizeof magic);
    l->crc = crc_of(l);
    if (store_medium_flush(m, m->bytes - sizeof *l, sizeof *l) == 0)
        return PTL_OK;
    fprintf(stderr, "spinstore: %s: its label: %s\n", file, strerror(errno));
    return PTL_FAIL;
}

int store_medium_open(struct store_medium *m, const char *file, uint64_t bytes) {
    *m = (struct store_medium){.bytes = bytes + STORAGE_BLOCK};
    int fd = file ? open_file(m, file) : -1;
    if (file && fd < 0)
        return PTL_FAIL;
    void *at = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
                    file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (fd >= 0)
        close(fd);
    m->at = at == MAP_FAILED ? NULL : at;
    if (!m->at)
        return PTL_NO_SPACE;
    bool used_before = m->number;
    if (!new_number(m))
        return PTL_FAIL;
    return file && !used_before ? write_label(m, file) : PTL_OK;
}

void store_medium_close(struct store_medium *m) {
    if (m->at)
        munmap(m->at, m->bytes);
    *m = (struct store_medium){0};
}

int store_medium_flush(const struct store_medium *m, uint64_t first, uint64_t bytes) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = first / page * page;
    return msync(m->at + begin, first + bytes - begin, MS_SYNC);
}
