/* A control group of the kernel that limits the memory of the processes in it: a child of the one
 * that this process is in, or (cgroup v2, where a group has processes or children) beside it. */
#ifndef SPIN_BASE_MEMORY_GROUP_H
#define SPIN_BASE_MEMORY_GROUP_H

#include <limits.h>
#include <stdbool.h>

#include "openspin.h"

struct memory_group {
    char path[PATH_MAX]; /* of its folder; "": there is none */
    bool old;            /* cgroup v1 */
};

/* An error where this user, or this machine, can make none. */
int memory_group_make(struct memory_group *group, uint64_t bytes, struct spin_error *err);
/* The most that its processes have had at a time, page cache of their files included; 0: the
 * kernel does not say. */
uint64_t memory_group_peak(const struct memory_group *group);
/* After its processes have ended. */
void memory_group_remove(struct memory_group *group);
/* A process of it writes its number to this file. */
#define MEMORY_GROUP_PROCESSES "cgroup.procs"

/* The least limit of the group that this process is in and those above it, and which of them has
 * it; UINT64_MAX: none. */
uint64_t memory_group_limit(struct memory_group *group);
/* A file that can be read from its beginning again and again; -1: there is none. */
int memory_group_open_statistics(const struct memory_group *group);

/* For tests: with the kernel's files elsewhere than in /proc and /sys/fs/cgroup. */
int memory_group_make_at(struct memory_group *group, const char *self, const char *root,
                         uint64_t bytes, struct spin_error *err);
uint64_t memory_group_limit_at(struct memory_group *group, const char *self, const char *root);

#endif
