#include "live_ranks.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

void *live_memory_new(const struct experiment_context *context, size_t bytes, int *fd,
                      struct spin_error *err) {
    if (!context->workloads || !context->programs) {
        spin_fail(err, SPIN_EFILE,
                  "the handler images or p4-live are not where openspin is installed "
                  "(share/openspin/handlers, libexec/openspin); install it again");
        return NULL;
    }
    *fd = memfd_create("openspin-live", 0);
    void *memory = *fd < 0 || ftruncate(*fd, (off_t)bytes)
                       ? MAP_FAILED
                       : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (memory != MAP_FAILED)
        return memory;
    spin_fail(err, SPIN_ENOMEM, "no memory to share with live ranks: %s", strerror(errno));
    if (*fd >= 0)
        close(*fd);
    return NULL;
}

void live_memory_free(void *memory, size_t bytes, int fd) {
    if (memory) {
        munmap(memory, bytes);
        close(fd);
    }
}

int live_ranks(const struct experiment_context *context, const char *name, int fd, uint32_t ranks,
               struct spin_error *err) {
    char program[PATH_MAX + 32], number[16];
    char *const argv[] = {program, number, NULL};
    const struct spin_launch_options options = {.ranks = ranks};
    struct spin_launch_result result;
    snprintf(program, sizeof program, "%s/%s", context->programs, name);
    snprintf(number, sizeof number, "%d", fd);
    int code = spin_launch(&options, argv, &result, err);
    if (!code && result.passed_on)
        code = spin_fail(err, SPIN_EINTERRUPTED, "interrupted by signal %d (%s); it has no results",
                         result.passed_on, strsignal(result.passed_on));
    else if (!code && result.failed)
        code = spin_fail(err, SPIN_EFORMAT, "a live rank failed (rank %u of %u, status %d)",
                         result.first_failed, ranks, result.status);
    return code;
}
