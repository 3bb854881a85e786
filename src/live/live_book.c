#include "live/live_book.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "live/live_clock.h"

#define NAME "openspin.fabric"

_Static_assert(sizeof(struct live_entry) <= LIVE_PMIX_BYTES, "an entry is one value of PMIx");

void live_book_open(struct live_book *b, struct live_folder *folder, struct live_pmix *pmix) {
    *b = (struct live_book){folder, pmix, (pmix ? 10000 : 1000) * LIVE_MS};
}

/* ---- in the folder: a file per process ---- */

/* Under PMIx it is for those who clean up alone. */
static void file_name(const struct live_book *b, char *name, size_t room, uint32_t pid) {
    if (b->pmix)
        snprintf(name, room, LIVE_FABRIC_FILE "pmix.%u", (unsigned)getpid());
    else
        snprintf(name, room, LIVE_FABRIC_FILE "%u", pid);
}

void live_book_sweep(const struct live_folder *folder) {
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = fd < 0 ? NULL : fdopendir(fd);
    struct live_entry there;
    for (struct dirent *e; all && (e = readdir(all));)
        if (!strncmp(e->d_name, LIVE_FABRIC_FILE, sizeof LIVE_FABRIC_FILE - 1) &&
            live_folder_read_entry(folder->fd, e->d_name, &there) && !live_owner_lives(there.owner))
            live_folder_remove_file(folder->fd, e->d_name);
    if (all)
        closedir(all);
}

/* Complete before it has its name. False: another has it. */
static bool write_file(const struct live_book *b, uint32_t pid, const struct live_entry *e) {
    char name[40], part[40];
    int at = b->folder->fd;
    file_name(b, name, sizeof name, pid);
    snprintf(part, sizeof part, "part.%u", (unsigned)getpid());
    int fd = openat(at, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool made = fd >= 0 && write(fd, e, sizeof *e) == sizeof *e && !linkat(at, part, at, name, 0);
    int why = errno;
    if (fd >= 0)
        close(fd);
    unlinkat(at, part, 0);
    errno = why;
    return made;
}

static int enter_folder(struct live_book *b, uint32_t *pid, const struct live_entry *e,
                        struct spin_error *err) {
    int lock;
    if (!live_folder_lock(b->folder, &lock))
        return spin_fail(err, SPIN_EFILE, "%s/lock: cannot use it: %s", b->folder->path,
                         strerror(errno));
    bool any = *pid >= LIVE_PIDS;
    uint32_t at = any ? LIVE_PIDS - 1 : *pid;
    live_book_sweep(b->folder);
    bool made = write_file(b, at, e);
    while (!made && any && at && errno == EEXIST)
        made = write_file(b, --at, e);
    int why = errno;
    live_folder_unlock(lock);
    if (!made)
        return spin_fail(err, SPIN_ELIMIT, "%s/" LIVE_FABRIC_FILE "%u: cannot make it: %s",
                         b->folder->path, at, strerror(why));
    *pid = at;
    return 0;
}

/* ---- either way ---- */

int live_book_enter(struct live_book *b, uint32_t *pid, const struct live_entry *e,
                    struct spin_error *err) {
    if (!b->pmix)
        return enter_folder(b, pid, e, err);
    if (*pid < LIVE_PIDS && *pid != live_pmix_rank(b->pmix))
        return spin_fail(err, SPIN_EARG, "pid %u: under PMIx a pid is the rank, %u", *pid,
                         live_pmix_rank(b->pmix));
    *pid = live_pmix_rank(b->pmix);
    if (*pid >= LIVE_PIDS)
        return spin_fail(err, SPIN_ELIMIT, "rank %u: libfabric has at most %u", *pid, LIVE_PIDS);
    int code = enter_folder(b, pid, e, err);
    return code ? code : live_pmix_put(b->pmix, NAME, e, sizeof *e, err);
}

int live_book_move(struct live_book *b, uint32_t from, uint32_t to, const struct live_entry *e,
                   struct spin_error *err) {
    char name[40];
    int code = from == to ? 0 : live_book_enter(b, &to, e, err);
    file_name(b, name, sizeof name, from);
    if (from != to && !code)
        unlinkat(b->folder->fd, name, 0);
    return code;
}

void live_book_leave(struct live_book *b, uint32_t pid) {
    char name[40];
    file_name(b, name, sizeof name, pid);
    live_folder_remove_file(b->folder->fd, name);
}

bool live_book_find(struct live_book *b, uint32_t pid, struct live_entry *e) {
    uint32_t length;
    char name[40];
    file_name(b, name, sizeof name, pid);
    if (!b->pmix)
        return live_folder_read_entry(b->folder->fd, name, e);
    if (pid >= live_pmix_ranks(b->pmix) ||
        !live_pmix_look(b->pmix, pid, NAME, e, sizeof *e, &length) || length != sizeof *e ||
        e->bytes > LIVE_ADDRESS_BYTES || !memchr(e->provider, 0, sizeof e->provider))
        return false;
    if (e->nid != live_pmix_nid(b->pmix))
        e->owner.os_pid = 0;
    return true;
}
