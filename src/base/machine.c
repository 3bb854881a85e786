#include "base/machine.h"

#include <stdio.h>
#include <string.h>
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
