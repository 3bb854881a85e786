#include "base/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void processor(char *model, size_t room) {
    char line[256];
    FILE *info = fopen("/proc/cpuinfo", "r");
    snprintf(model, room, "unknown processor");
    while (info && fgets(line, sizeof line, info))
        if (strncmp(line, "model name", 10) == 0) {
            const char *colon = strchr(line, ':');
            snprintf(model, room, "%.100s", colon ? colon + 2 : line);
            model[strcspn(model, "\n")] = 0;
            break;
        }
    if (info)
        fclose(info);
}

void machine_name(char *text, size_t room) {
    char model[128];
    processor(model, sizeof model);
    snprintf(text, room, "%s, %ld cpus, %.1f GiB; compiler %s", model,
             sysconf(_SC_NPROCESSORS_ONLN),
             (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1 << 30), COMPILER);
}

/* The number that a file of the kernel begins with; UINT64_MAX when there is none ("max"). */
static uint64_t number_in(const char *path) {
    unsigned long long value;
    FILE *file = fopen(path, "re");
    bool found = file && fscanf(file, "%llu", &value) == 1;
    if (file)
        fclose(file);
    return found ? value : UINT64_MAX;
}

static uint64_t available(void) {
    char line[256];
    unsigned long long kib = 0;
    FILE *info = fopen("/proc/meminfo", "re");
    while (info && fgets(line, sizeof line, info))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (info)
        fclose(info);
    return kib ? kib * 1024 : UINT64_MAX;
}

/* What is left of the control group's limit. Its root has none, and a process in a container sees
 * its own group as the root. */
static uint64_t left_in_group(void) {
    uint64_t most = number_in("/sys/fs/cgroup/memory.max");
    uint64_t used = number_in("/sys/fs/cgroup/memory.current");
    return most == UINT64_MAX || used == UINT64_MAX ? UINT64_MAX : most > used ? most - used : 0;
}

static uint64_t left_of_addresses(void) {
    struct rlimit limit;
    uint64_t pages = number_in("/proc/self/statm");
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || pages == UINT64_MAX)
        return UINT64_MAX;
    uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

uint64_t machine_memory(void) {
    uint64_t least = available(), group = left_in_group(), addresses = left_of_addresses();
    least = group < least ? group : least;
    return addresses < least ? addresses : least;
}
