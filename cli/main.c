#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/temporary.h"
#include "images.h"

static const struct cli_command *const commands[] = {
    &cli_cc,     &cli_image, &cli_exec,  &cli_budget, &cli_goal,       &cli_card,       &cli_sim,
    &cli_launch, &cli_top,   &cli_store, &cli_sweep,  &cli_experiment, &cli_completion, NULL};

const struct cli_command cli_root = {
    .name = "openspin",
    .args = "COMMAND ...",
    .summary = "sPIN: handlers that a network card runs on packets",
    .commands = commands,
};

static const char *volatile last_words; /* the handler has no other way to know */

void cli_interrupt_says(const char *line) {
    last_words = line;
}

static void interrupted(int signal) {
    const char *line = last_words;
    ssize_t ignored = line ? write(STDERR_FILENO, line, strlen(line)) : 0;
    (void)ignored;
    file_out_interrupted();
    temporary_interrupted();
    raise(signal); /* once more, and then for good */
}

/* Leaves signals alone that the caller ignores (nohup). */
static void catch_interrupts(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = interrupted, .sa_flags = SA_RESETHAND}, before;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(signals[i], &act, NULL);
}

/* Programs and experiments find the handlers of spinlib where this command's are, or where the user
 * says; false: that is nowhere. */
static bool name_handlers(void) {
    struct images_folders folders;
    struct stat st;
    const char *said = environment_text("OPENSPIN_HANDLERS");
    if (said && (stat(said, &st) != 0 || !S_ISDIR(st.st_mode))) {
        cli_error(&cli_root, CLI_USAGE,
                  "OPENSPIN_HANDLERS: there is no folder '%.200s'; without it the handlers of the "
                  "installation are used",
                  said);
        return false;
    }
    struct experiment_context found = images_find(&folders);
    if (!said && found.workloads)
        setenv("OPENSPIN_HANDLERS", found.workloads, 1);
    return true;
}

int main(int argc, char **argv) {
    catch_interrupts();
    if (!name_handlers())
        return CLI_USAGE;
    spin_guard_pages(SPIN_GUARDS_INSTALL); /* nobody else here wants SIGSEGV */
    int status = cli_dispatch(&cli_root, argc, argv);
    /* A full disk or a closed pipe must not look like success. */
    errno = 0; /* stays so if an earlier write has failed */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (errno != EPIPE)
            fprintf(stderr, "openspin: cannot write the output: %s\n",
                    errno ? strerror(errno) : "some of it is missing");
        return status ? status : CLI_FAILED;
    }
    return status;
}
