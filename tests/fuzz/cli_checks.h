/* For fuzzers of files that the command reads: the file, and the errors of the command, each of
 * which is one line and fails. */
#ifndef TESTS_CLI_CHECKS_H
#define TESTS_CLI_CHECKS_H

#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"
#include "fuzz.h"

static int errors;

int cli_error(const struct cli_command *command, int status, const char *format, ...) {
    char text[1000];
    va_list args;
    (void)command;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    FUZZ_HOLDS(*text && status, "an error says what is wrong");
    errors++;
    return status;
}

int cli_report(const struct cli_command *command, const struct spin_error *err) {
    return cli_error(command, CLI_FAILED, "%s", err->text);
}

/* A file with these bytes, by a name that can be opened until it is closed. */
static int file_of(const void *bytes, size_t length, char *path, size_t room) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    snprintf(path, room, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
