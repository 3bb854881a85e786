#include "base/memory_group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static bool write_to(const char *folder, const char *name, const char *text) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    bool good = file && fputs(text, file) >= 0;
    return file && fclose(file) == 0 && good;
}

/* Where the memory controller is, and in which of its groups we are: lines N:CONTROLLERS:PATH, the
 * one without controllers being that of cgroup v2. */
static bool find_group(const char *self, const char *root, char *folder, size_t room, bool *old) {
    char line[PATH_MAX + 64], unified[PATH_MAX] = "";
    bool found = false;
    *old = false;
    FILE *file = fopen(self, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'),
             *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        if (strcmp(path, "/") == 0)
            *path = 0;
        if (strcmp(controllers, ":memory") == 0) {
            *old = found = (size_t)snprintf(folder, room, "%s/memory%s", root, path) < room;
        } else if (controllers[1] == 0) {
            snprintf(unified, sizeof unified, "%s", path);
        }
    }
    if (file)
        fclose(file);
    return found || (file && (size_t)snprintf(folder, room, "%s%s", root, unified) < room);
}

static bool make_in(struct memory_group *g, const char *folder, uint64_t bytes) {
    char limit[32];
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)bytes);
    if (!g->old)
        write_to(folder, "cgroup.subtree_control", "+memory"); /* it may be there already */
    if ((size_t)snprintf(g->path, sizeof g->path, "%s/openspin-%d", folder, (int)getpid()) >=
        sizeof g->path)
        return false;
    if (mkdir(g->path, 0755) == 0) {
        if (write_to(g->path, g->old ? "memory.limit_in_bytes" : "memory.max", limit))
            return true;
        int why = errno;
        rmdir(g->path);
        errno = why;
    }
    g->path[0] = 0;
    return false;
}

int memory_group_make_at(struct memory_group *g, const char *self, const char *root, uint64_t bytes,
                         struct spin_error *err) {
    char folder[PATH_MAX - 64];
    *g = (struct memory_group){0};
    bool found = find_group(self, root, folder, sizeof folder, &g->old);
    if (found && make_in(g, folder, bytes))
        return SPIN_OK;
    char *last = found && !g->old ? strrchr(folder + strlen(root), '/') : NULL;
    if (last) {
        *last = 0;
        if (make_in(g, folder, bytes))
            return SPIN_OK;
    }
    return spin_fail(err, SPIN_EFILE,
                     "no control group with a limit of memory can be made in %s: %s; be root, or "
                     "have systemd give you one (systemd-run --user --scope)",
                     found ? folder : root, strerror(errno));
}

int memory_group_make(struct memory_group *g, uint64_t bytes, struct spin_error *err) {
    return memory_group_make_at(g, "/proc/self/cgroup", "/sys/fs/cgroup", bytes, err);
}

/* `otherwise`: there is no such file, or no number in it. */
static uint64_t number_in(const char *folder, const char *name, uint64_t otherwise) {
    char path[2 * PATH_MAX];
    unsigned long long bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    bool found = file && fscanf(file, "%llu", &bytes) == 1;
    if (file)
        fclose(file);
    return found ? bytes : otherwise;
}

uint64_t memory_group_peak(const struct memory_group *g) {
    return number_in(g->path, g->old ? "memory.max_usage_in_bytes" : "memory.peak", 0);
}

uint64_t memory_group_limit_at(struct memory_group *g, const char *self, const char *root) {
    char folder[PATH_MAX - 64];
    uint64_t least = UINT64_MAX;
    *g = (struct memory_group){0};
    if (!find_group(self, root, folder, sizeof folder, &g->old))
        return least;
    for (char *last = folder; last && strlen(folder) >= strlen(root); *last = 0) {
        uint64_t bytes =
            number_in(folder, g->old ? "memory.limit_in_bytes" : "memory.max", UINT64_MAX);
        if (bytes < least && bytes < 1ull << 62) { /* cgroup v1 has a large number for none */
            least = bytes;
            snprintf(g->path, sizeof g->path, "%s", folder);
        }
        last = strrchr(folder, '/');
    }
    return least;
}

uint64_t memory_group_limit(struct memory_group *g) {
    return memory_group_limit_at(g, "/proc/self/cgroup", "/sys/fs/cgroup");
}

int memory_group_open_statistics(const struct memory_group *g) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/memory.stat", g->path);
    return open(path, O_RDONLY | O_CLOEXEC);
}

void memory_group_remove(struct memory_group *g) {
    /* a process that has ended may still be counted for a moment */
    for (int i = 0; g->path[0] && rmdir(g->path) != 0 && errno == EBUSY && i < 100; i++)
        usleep(10000);
    g->path[0] = 0;
}
