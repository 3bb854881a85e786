#include "live/live_box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

_Static_assert(sizeof(struct live_box_header) <= BOX_HEADER_BYTES, "the header has a page");

static void name_of(char *name, size_t room, uint32_t nid, uint32_t pid) {
    snprintf(name, room, "%u.%u", nid, pid);
}

/* Whether a file is that of a process that lives. One that is not complete is: under the folder's
 * lock nobody makes one. */
static bool is_taken(const struct live_folder *folder, const char *name) {
    struct live_box_header header;
    int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT;
    ssize_t got = read(fd, &header, sizeof header);
    close(fd);
    return got == sizeof header && header.magic == BOX_MAGIC && !header.closed &&
           live_owner_lives(header.owner);
}

/* Memory for a part of a file that is to be written through a mapping, where a full /dev/shm would
 * be a signal. False: there is none. */
static bool give_memory(int fd, off_t at, off_t bytes) {
    int failed;
    while ((failed = fallocate(fd, 0, at, bytes)) && errno == EINTR)
        ;
    return !failed || errno == EOPNOTSUPP;
}

static int make_file(struct live_box *box, uint32_t nid, uint32_t pid, struct spin_error *err) {
    const char *name = box->name, *path = box->folder->path;
    unlinkat(box->folder->fd, name, 0); /* of one that has ended */
    int fd = openat(box->folder->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return spin_fail(err, SPIN_EFILE, "%s/%s: cannot make it: %s", path, name, strerror(errno));
    void *map =
        ftruncate(fd, BOX_BYTES) || !give_memory(fd, 0, BOX_HEADER_BYTES)
            ? MAP_FAILED
            : mmap(NULL, BOX_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (map == MAP_FAILED) {
        int why = errno;
        close(fd);
        unlinkat(box->folder->fd, name, 0);
        return spin_fail(err, SPIN_ENOMEM, "%s/%s: cannot map it: %s", path, name, strerror(why));
    }
    struct live_box_header *h = box->header = map;
    box->fd = fd;
    h->nid = nid;
    h->pid = pid;
    h->owner = live_owner_self();
    while (getrandom(&h->life, sizeof h->life, 0) != sizeof h->life || !h->life)
        ;
    memcpy(h->key, box->folder->key, sizeof h->key);
    atomic_store(&h->magic, BOX_MAGIC);
    return 0;
}

void box_sweep(const struct live_folder *folder) {
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = fd < 0 ? NULL : fdopendir(fd);
    if (!all && fd >= 0)
        close(fd);
    for (struct dirent *e; all && (e = readdir(all));) {
        unsigned nid, pid;
        int end = 0;
        if (sscanf(e->d_name, "%u.%u%n", &nid, &pid, &end) == 2 && !e->d_name[end] &&
            !is_taken(folder, e->d_name))
            unlinkat(folder->fd, e->d_name, 0);
    }
    if (all)
        closedir(all);
}

/* From the top, so that programs that ask for low numbers find them free. */
static bool find_free(struct live_box *box, uint32_t nid, uint32_t *pid) {
    for (*pid = LIVE_PIDS; (*pid)--;) {
        name_of(box->name, sizeof box->name, nid, *pid);
        if (!is_taken(box->folder, box->name))
            return true;
    }
    return false;
}

int box_make(struct live_box *box, struct live_folder *folder, uint32_t nid, uint32_t pid,
             struct spin_error *err) {
    int lock, code;
    *box = (struct live_box){.folder = folder};
    if (!live_folder_lock(folder, &lock))
        return spin_fail(err, SPIN_EFILE, "%s/lock: %s", folder->path, strerror(errno));
    if (pid < LIVE_PIDS)
        name_of(box->name, sizeof box->name, nid, pid);
    box_sweep(folder);
    if (pid < LIVE_PIDS ? is_taken(folder, box->name) : !find_free(box, nid, &pid))
        code = spin_fail(err, SPIN_ELIMIT, "%s: pid %u of node %u is taken by a process that lives",
                         folder->path, pid, nid);
    else
        code = make_file(box, nid, pid, err);
    live_folder_unlock(lock);
    return code;
}

void box_leave(struct live_box *box) {
    int lock;
    if (atomic_exchange(&box->header->closed, 1))
        return; /* another may have the name now */
    if (live_folder_lock(box->folder, &lock)) {
        unlinkat(box->folder->fd, box->name, 0);
        live_folder_unlock(lock);
    }
}

void box_free(struct live_box *box) {
    if (!box->header)
        return;
    box_leave(box);
    munmap(box->header, BOX_BYTES);
    close(box->fd);
    box->header = NULL;
}

/* One step for those who look: until then they see the old file there, and then the new one. */
void box_replace(struct live_box *box, const struct live_box *by) {
    box_leave(box);
    if (mremap(by->header, BOX_BYTES, BOX_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, box->header) ==
        MAP_FAILED)
        box->header = by->header;
    close(box->fd);
    box->fd = by->fd;
    memcpy(box->name, by->name, sizeof box->name);
}

bool box_give_bulk(struct live_box *box, uint32_t pid) {
    off_t at = (off_t)(BOX_HEADER_BYTES + pid * (uint64_t)BOX_LANE_BYTES);
    struct live_box_lane *lane = box_lane(box, pid);
    return give_memory(box->fd, at + (off_t)offsetof(struct live_box_lane, bulk),
                       sizeof lane->bulk);
}

/* ---- another's ---- */

static bool map_view(struct live_box_view *v, int fd, uint32_t own_pid) {
    off_t at = BOX_HEADER_BYTES + (off_t)own_pid * (off_t)BOX_LANE_BYTES;
    if (!give_memory(fd, at, (off_t)offsetof(struct live_box_lane, bulk)))
        return false;
    void *header = mmap(NULL, BOX_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *lane = mmap(NULL, BOX_LANE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    if (header != MAP_FAILED)
        v->header = header;
    if (lane != MAP_FAILED)
        v->lane = lane;
    return v->header && v->lane;
}

static bool is_of(const struct live_box_view *v, const struct live_folder *folder,
                  struct nic_address of) {
    const struct live_box_header *h = v->header;
    return atomic_load(&v->header->magic) == BOX_MAGIC && h->nid == of.nid && h->pid == of.pid &&
           live_key_equal(h->key, folder->key) && h->life && !atomic_load(&v->header->closed);
}

bool box_open(struct live_box_view *v, const struct live_folder *folder, struct nic_address of,
              uint32_t own_pid) {
    char name[24];
    struct stat is;
    *v = (struct live_box_view){.pidfd = -1};
    errno = 0;
    if (of.pid >= LIVE_PIDS || own_pid >= LIVE_PIDS)
        return false;
    name_of(name, sizeof name, of.nid, of.pid);
    int fd = openat(folder->fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool good = fd >= 0 && fstat(fd, &is) == 0 && is.st_size == (off_t)BOX_BYTES &&
                map_view(v, fd, own_pid) && is_of(v, folder, of);
    bool full = fd >= 0 && !good && errno == ENOSPC;
    if (fd >= 0)
        close(fd);
    if (good) {
        struct live_owner owner = v->header->owner;
        v->life = v->header->life;
        /* Opened before the look at its start: if it is the owner's now, it stays so. */
        v->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)owner.os_pid, 0);
        good = v->pidfd >= 0 && live_owner_lives(owner);
    }
    if (!good)
        box_close(v);
    v->full = full;
    return good;
}

void box_close(struct live_box_view *v) {
    if (v->header)
        munmap(v->header, BOX_HEADER_BYTES);
    if (v->lane)
        munmap(v->lane, BOX_LANE_BYTES);
    if (v->pidfd >= 0)
        close(v->pidfd);
    *v = (struct live_box_view){.pidfd = -1};
}

bool box_ended(const struct live_box_view *v) {
    struct pollfd ended = {.fd = v->pidfd, .events = POLLIN};
    return atomic_load(&v->header->closed) || (poll(&ended, 1, 0) == 1 && ended.revents);
}

void box_attend(struct live_box_header *h) {
    atomic_store(&h->attention, 1);
    box_ring(h);
}

bool box_ring(struct live_box_header *h) {
    atomic_thread_fence(memory_order_seq_cst); /* what was stored, before the bell is looked at */
    if (!atomic_load_explicit(&h->bell, memory_order_relaxed) || !atomic_exchange(&h->bell, 0))
        return false;
    syscall(SYS_futex, &h->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return true;
}
