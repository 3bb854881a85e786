#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"

#define PREFIX "openspin-"

/* Folders of this process, for temporary_interrupted; one more than fit waits for the next process.
 */
static _Atomic(struct temporary *) ours[8];

static void note(struct temporary *from, struct temporary *to) {
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        struct temporary *expected = from;
        if (atomic_compare_exchange_strong(&ours[i], &expected, to))
            return;
    }
}

/* What the kernel writes for each name in a folder (getdents64): readdir allocates, which a signal
 * handler may not. */
struct kernel_dirent {
    uint64_t inode;
    int64_t next;
    unsigned short length;
    unsigned char type;
    char name[];
};

/* The files of an open folder. There are no folders in it. */
static void empty_folder(int folder) {
    _Alignas(struct kernel_dirent) char bytes[4096];
    long got;
    lseek(folder, 0, SEEK_SET);
    while ((got = syscall(SYS_getdents64, folder, bytes, sizeof bytes)) > 0)
        for (long at = 0; at < got;) {
            const struct kernel_dirent *entry = (const struct kernel_dirent *)(void *)(bytes + at);
            if (entry->name[0] != '.')
                unlinkat(folder, entry->name, 0);
            at += entry->length;
        }
}

static void remove_folder(const char *path, int folder) {
    empty_folder(folder);
    rmdir(path);
}

void temporary_interrupted(void) {
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        struct temporary *t = atomic_exchange(&ours[i], NULL);
        if (t)
            remove_folder(t->path, t->lock);
    }
}

/* An open folder of this user whose owner has gone, locked; -1: it is in use, or not ours. */
static int abandoned(const char *path) {
    struct stat st;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return -1;
    if (fstat(folder, &st) == 0 && st.st_uid == geteuid() && flock(folder, LOCK_EX | LOCK_NB) == 0)
        return folder;
    close(folder);
    return -1;
}

static void remove_abandoned(const char *parent) {
    DIR *d = opendir(parent);
    if (!d)
        return;
    const struct dirent *entry;
    while ((entry = readdir(d)) != NULL) {
        char path[PATH_MAX];
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
            strlen(entry->d_name) != strlen(PREFIX) + 6 ||
            (size_t)snprintf(path, sizeof path, "%s/%s", parent, entry->d_name) >= sizeof path)
            continue;
        int folder = abandoned(path);
        if (folder < 0)
            continue;
        remove_folder(path, folder);
        close(folder);
    }
    closedir(d);
}

/* Another process may have taken the new folder for abandoned before it was locked. */
static bool lock(struct temporary *t) {
    struct stat st;
    t->lock = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->lock < 0)
        return false;
    if (flock(t->lock, LOCK_EX | LOCK_NB) == 0 && fstat(t->lock, &st) == 0 && st.st_nlink > 0)
        return true;
    close(t->lock);
    t->lock = -1;
    errno = 0;
    return false;
}

int temporary_make(struct temporary *t, struct spin_error *err) {
    const char *parent = environment_text("TMPDIR");
    if (!parent)
        parent = "/tmp";
    t->lock = -1;
    if (strlen(parent) > PATH_MAX - 64)
        return spin_fail(err, SPIN_EFILE, "TMPDIR: its name is too long");
    remove_abandoned(parent);
    do {
        snprintf(t->path, sizeof t->path, "%s/" PREFIX "XXXXXX", parent);
        if (!mkdtemp(t->path))
            return spin_fail(err, SPIN_EFILE,
                             "%s: cannot make a temporary folder: %s; set TMPDIR to another place",
                             parent, strerror(errno));
    } while (!lock(t) && errno != EMFILE && errno != ENFILE);
    if (t->lock < 0)
        return spin_fail(err, SPIN_EFILE, "%s: cannot open: %s", t->path, strerror(errno));
    note(NULL, t);
    return SPIN_OK;
}

void temporary_remove(struct temporary *t) {
    if (t->lock < 0)
        return;
    remove_folder(t->path, t->lock);
    note(t, NULL);
    close(t->lock);
    t->lock = -1;
}
