#include "live/live_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

/* ---- owners ---- */

/* Field 22 of /proc/PID/stat; the name of the program before it may hold anything. 0: none such. */
static uint64_t start_of(uint32_t os_pid) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", os_pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return 0;
    text[got] = 0;
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return 0; /* it has ended, though its parent does not know yet */
    for (int field = 2; field < 22 && at; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* A number of this program in this process; another one would have to draw the same. */
static uint32_t own_image(void) {
    static _Atomic uint32_t image;
    uint32_t number = image, none = 0;
    while (!number && (getrandom(&number, sizeof number, 0) != sizeof number || !number))
        ;
    return atomic_compare_exchange_strong(&image, &none, number) ? number : none;
}

struct live_owner live_owner_self(void) {
    uint32_t os_pid = (uint32_t)getpid();
    return (struct live_owner){os_pid, own_image(), start_of(os_pid)};
}

bool live_owner_lives(struct live_owner owner) {
    uint64_t start = owner.os_pid ? start_of(owner.os_pid) : 0;
    bool was_before = owner.os_pid == (uint32_t)getpid() && owner.image &&
                      owner.image != own_image(); /* this process, before its exec */
    return start && start == owner.start && !was_before;
}

int live_key_make(uint8_t *key, struct spin_error *err) {
    return getrandom(key, LIVE_KEY_BYTES, 0) == LIVE_KEY_BYTES
               ? 0
               : spin_fail(err, SPIN_EFILE, "no key: %s", strerror(errno));
}

bool live_key_equal(const uint8_t *a, const uint8_t *b) {
    uint8_t differs = 0;
    for (int i = 0; i < LIVE_KEY_BYTES; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}

/* ---- folders ---- */

void live_folder_path(char path[LIVE_PATH_BYTES]) {
    const char *where = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, LIVE_PATH_BYTES, "%s/openspin-%u", where, (unsigned)getuid());
}

/* A folder of this user's that nobody else can open. */
static int open_folder(struct live_folder *f, struct spin_error *err) {
    struct stat is;
    if (mkdir(f->path, 0700) && errno != EEXIST)
        return spin_fail(err, SPIN_EFILE, "%s: cannot make the folder of live cards: %s", f->path,
                         strerror(errno));
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &is))
        return spin_fail(err, SPIN_EFILE, "%s: cannot open the folder of live cards: %s", f->path,
                         strerror(errno));
    if (is.st_uid == getuid() && !(is.st_mode & 077))
        return 0;
    close(f->fd);
    f->fd = -1;
    return spin_fail(err, SPIN_EFILE,
                     "%s: live cards need a folder of this user's that nobody else can open "
                     "(mode 0700); remove this one",
                     f->path);
}

/* Complete before it has its name, so that nobody reads half of it. */
static void make_key(const struct live_folder *f) {
    char part[40];
    uint8_t key[LIVE_KEY_BYTES];
    snprintf(part, sizeof part, "key.%u", (unsigned)getpid());
    if (live_key_make(key, NULL))
        return;
    int fd = openat(f->fd, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, key, sizeof key) == sizeof key)
        (void)!linkat(f->fd, part, f->fd, "key", 0); /* another's, if that was first */
    if (fd >= 0)
        close(fd);
    unlinkat(f->fd, part, 0);
}

/* From a file that only this user can read. */
static bool read_key_file(struct live_folder *f, int fd) {
    struct stat is;
    bool good = fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == getuid() &&
                !(is.st_mode & 077) && read(fd, f->key, sizeof f->key) == sizeof f->key;
    if (fd >= 0)
        close(fd);
    return good;
}

static int read_key(struct live_folder *f, struct spin_error *err) {
    return read_key_file(f, openat(f->fd, "key", O_RDONLY | O_NOFOLLOW | O_CLOEXEC))
               ? 0
               : spin_fail(err, SPIN_EFILE, "%s/key: not a key that only this user can read",
                           f->path);
}

int live_folder_key(struct live_folder *f, const char *path, struct spin_error *err) {
    return read_key_file(f, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK))
               ? 0
               : spin_fail(err, SPIN_EFILE,
                           "OPENSPIN_KEY_FILE: %.200s: not a file of at least %d bytes that only "
                           "this user can read (mode 0600)",
                           path, LIVE_KEY_BYTES);
}

static bool is_folder_name(const char *name) {
    return *name && !strchr(name, '/') && name[0] != '.';
}

int live_folder_open(struct live_folder *f, const char *job, struct spin_error *err) {
    f->fd = -1;
    live_folder_path(f->path);
    if (job) {
        size_t used = strlen(f->path);
        if (!is_folder_name(job) ||
            snprintf(f->path + used, sizeof f->path - used, "/%s", job) >=
                (int)(sizeof f->path - used) ||
            access(f->path, X_OK))
            return spin_fail(err, SPIN_EARG,
                             "OPENSPIN_JOB: there is no job '%.60s' of `openspin launch`", job);
    }
    int code = open_folder(f, err);
    if (code)
        return code;
    if (faccessat(f->fd, "key", R_OK, 0))
        make_key(f);
    code = read_key(f, err);
    if (code)
        live_folder_close(f);
    return code;
}

void live_folder_close(struct live_folder *f) {
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

bool live_folder_lock(struct live_folder *f, int *lock) {
    *lock = openat(f->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (*lock >= 0 && flock(*lock, LOCK_EX))
        if (errno != EINTR) {
            close(*lock);
            *lock = -1;
        }
    return *lock >= 0;
}

void live_folder_unlock(int lock) {
    close(lock);
}

/* ---- folders of jobs ---- */

bool live_folder_read_entry(int folder_fd, const char *name, struct live_entry *e) {
    int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool good = fd >= 0 && read(fd, e, sizeof *e) == sizeof *e && e->bytes <= LIVE_ADDRESS_BYTES &&
                memchr(e->provider, 0, sizeof e->provider);
    if (fd >= 0)
        close(fd);
    return good;
}

/* Memory that libfabric's provider shm has in /dev/shm, and leaves there after a kill. */
static void remove_region(const struct live_entry *e) {
    static const char scheme[] = "fi_shm://";
    char path[sizeof "/dev/shm/" + LIVE_ADDRESS_BYTES];
    const char *name = (const char *)e->address + sizeof scheme - 1;
    if (strcmp(e->provider, "shm") || e->bytes < sizeof scheme ||
        memcmp(e->address, scheme, sizeof scheme - 1) || !memchr(e->address, 0, e->bytes) ||
        !is_folder_name(name))
        return;
    snprintf(path, sizeof path, "/dev/shm/%s", name);
    unlink(path);
}

void live_folder_remove_file(int folder_fd, const char *name) {
    struct live_entry e;
    if (!strncmp(name, LIVE_FABRIC_FILE, sizeof LIVE_FABRIC_FILE - 1) &&
        live_folder_read_entry(folder_fd, name, &e))
        remove_region(&e);
    unlinkat(folder_fd, name, 0);
}

/* "job-PID-START": whose launcher it is can be seen from its name. */
static void remove_job(int base, const char *name) {
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; folder && (e = readdir(folder));)
        live_folder_remove_file(dirfd(folder), e->d_name);
    if (folder)
        closedir(folder);
    else if (fd >= 0)
        close(fd);
    unlinkat(base, name, AT_REMOVEDIR);
}

static void remove_dead_jobs(const struct live_folder *f) {
    int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct live_owner owner = {0};
    unsigned long long start;
    for (struct dirent *e; folder && (e = readdir(folder));)
        if (sscanf(e->d_name, "job-%u-%llu", &owner.os_pid, &start) == 2) {
            owner.start = start;
            if (!live_owner_lives(owner))
                remove_job(f->fd, e->d_name);
        }
    if (folder)
        closedir(folder);
}

int live_folder_make(struct live_folder *f, char *name, uint32_t room, struct spin_error *err) {
    struct live_owner self = live_owner_self();
    int code = live_folder_open(f, NULL, err);
    if (code)
        return code;
    remove_dead_jobs(f);
    snprintf(name, room, "job-%u-%llu", self.os_pid, (unsigned long long)self.start);
    remove_job(f->fd, name);
    int made = mkdirat(f->fd, name, 0700);
    live_folder_close(f);
    if (made)
        return spin_fail(err, SPIN_EFILE, "%s/%s: cannot make the job's folder: %s", f->path, name,
                         strerror(errno));
    return live_folder_open(f, name, err);
}

void live_folder_remove(struct live_folder *f) {
    struct live_folder base = {.fd = -1};
    const char *name = strrchr(f->path, '/');
    live_folder_path(base.path);
    live_folder_close(f);
    base.fd = open(base.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base.fd >= 0 && name)
        remove_job(base.fd, name + 1);
    live_folder_close(&base);
}
