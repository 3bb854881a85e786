/* Files that a command will write, looked at before it does anything: each can be written, no two
 * are the same, and none is a file that the command line names for another purpose. */
#include "outputs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

/* Two names of one place, whether or not there is a file yet. Devices take any number of outputs.
 */
static bool is_same(const char *a, const char *b) {
    struct stat of_a, of_b;
    bool a_there = stat(a, &of_a) == 0, b_there = stat(b, &of_b) == 0;
    if (strcmp(a, "-") == 0 || strcmp(b, "-") == 0)
        return strcmp(a, b) == 0;
    if (a_there && b_there)
        return S_ISREG(of_a.st_mode) && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
    if (a_there || b_there)
        return false;
    const char *a_slash = strrchr(a, '/'), *b_slash = strrchr(b, '/');
    const char *a_name = a_slash ? a_slash + 1 : a, *b_name = b_slash ? b_slash + 1 : b;
    char a_folder[PATH_MAX], b_folder[PATH_MAX];
    snprintf(a_folder, sizeof a_folder, "%.*s.", (int)(a_name - a), a);
    snprintf(b_folder, sizeof b_folder, "%.*s.", (int)(b_name - b), b);
    return strcmp(a_name, b_name) == 0 && stat(a_folder, &of_a) == 0 &&
           stat(b_folder, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/* A word names a file as a whole, or in its parts: pcap:FILE,messages=flow and file:GRAPH. */
static bool names_file(const char *word, const struct stat *file) {
    struct stat st;
    char part[PATH_MAX];
    if (stat(word, &st) == 0)
        return st.st_dev == file->st_dev && st.st_ino == file->st_ino;
    for (const char *at = word; *at; at++) {
        if (at != word && !strchr(":=,", at[-1]))
            continue;
        for (size_t length = strlen(at); length > 0; length--) {
            if (at[length] && !strchr(":=,", at[length]))
                continue;
            if (length >= sizeof part)
                continue;
            memcpy(part, at, length);
            part[length] = 0;
            if (stat(part, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino)
                return true;
        }
    }
    return false;
}

static int check_one(const struct cli_command *command, char **argv, int argc, const char *shown,
                     const char *path, const struct cli_outputs *before) {
    struct stat st;
    struct spin_error err;
    for (int i = 0; i < before->count; i++)
        if (is_same(before->path[i], path))
            return cli_error(command, CLI_USAGE, "%s and %s both write %s; give each its own file",
                             before->shown[i], shown, path);
    if (strcmp(path, "-") == 0)
        return 0;
    if (!command->reads_nothing && stat(path, &st) == 0 && S_ISREG(st.st_mode))
        for (int i = 1; i < argc; i++) {
            /* The option itself: "--out" "FILE" or "--out=FILE". */
            bool itself = path >= argv[i] && path <= argv[i] + strlen(argv[i]);
            if (!itself && names_file(argv[i], &st))
                return cli_error(command, CLI_USAGE,
                                 "%s: %s is also read ('%s'); write to another file", shown, path,
                                 argv[i]);
        }
    return file_out_try(path, &err) ? cli_report(command, &err) : 0;
}

int cli_output(const struct cli_command *command, struct cli_outputs *outputs, int argc,
               char **argv, const char *shown, const char *path) {
    if (outputs->count == CLI_MOST_OUTPUTS)
        return cli_error(command, CLI_USAGE, "%s: more than %d files to write", shown,
                         CLI_MOST_OUTPUTS);
    int status = check_one(command, argv, argc, shown, path, outputs);
    snprintf(outputs->shown[outputs->count], sizeof outputs->shown[0], "%s", shown);
    outputs->path[outputs->count++] = path;
    return status;
}

int cli_check_outputs(const struct cli_command *command, int argc, char **argv, const void *into) {
    struct cli_outputs outputs = {.count = 0};
    for (const struct cli_option *o = command->options; o && o->name; o++) {
        const void *at = (const char *)into + o->offset;
        const struct cli_list *list = at;
        char shown[64];
        int status = 0;
        snprintf(shown, sizeof shown, "--%s", o->name);
        if ((o->kind == CLI_OUTPUT || o->kind == CLI_RESULT) && *(const char *const *)at)
            status = cli_output(command, &outputs, argc, argv, shown, *(const char *const *)at);
        for (int i = 0; o->kind == CLI_OUTPUTS && i < list->count && !status; i++) {
            const char *equals = strchr(list->items[i], '=');
            if (equals && equals[1])
                status = cli_output(command, &outputs, argc, argv, shown, equals + 1);
        }
        if (status)
            return status;
    }
    return 0;
}
