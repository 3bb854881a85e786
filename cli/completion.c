#include "cc.h"

#include <stdio.h>
#include <string.h>

/* Prints a bash function whose words come from the tables of commands and options, so it cannot
 * fall behind them. */

static void print_options(const struct cli_command *c) {
    for (const struct cli_option *o = c->options; o && o->name; o++) {
        if (o->kind == CLI_PASS)
            printf(" -%c", o->letter);
        else
            printf(" --%s", o->name);
    }
    for (int i = 0; c == &cli_cc && cc_word(i); i++)
        printf(" %s", cc_word(i));
    fputs(" --help --version", stdout);
}

static void print_case(const struct cli_command *c) {
    printf("    '%s') words='", c == &cli_root ? "" : c->name);
    for (const struct cli_command *const *sub = c->commands; sub && *sub; sub++)
        printf("%s ", cli_last_word(*sub));
    print_options(c);
    printf("' ;;\n");
    for (const struct cli_command *const *sub = c->commands; sub && *sub; sub++)
        print_case(*sub);
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct cli_list operands;
    int status = cli_parse(command, argc, argv, NULL, &operands);
    if (!status && (operands.count != 1 || strcmp(operands.items[0], "bash") != 0))
        status = cli_error(command, CLI_USAGE, "which shell? only 'bash' is known");
    if (!status) {
        printf("_openspin() {\n"
               "  local current=${COMP_WORDS[COMP_CWORD]} path='' words='' i\n"
               "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
               "    case ${COMP_WORDS[i]} in -*) break ;; esac\n"
               "    case \"$path ${COMP_WORDS[i]}\" in\n     ");
        for (const struct cli_command *const *c = cli_root.commands; *c; c++) {
            printf(" ' %s') path='%s' ;;", (*c)->name, (*c)->name);
            for (const struct cli_command *const *sub = (*c)->commands; sub && *sub; sub++)
                printf(" '%s') path='%s' ;;", (*sub)->name, (*sub)->name);
        }
        printf(" *) break ;;\n    esac\n  done\n"
               "  case $path in\n");
        print_case(&cli_root);
        printf("  esac\n"
               "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
               "  [[ $current == -* || -z $path ]] || COMPREPLY+=($(compgen -f -- \"$current\"))\n"
               "}\n"
               "complete -o filenames -F _openspin openspin\n");
    }
    cli_free(command, NULL, &operands);
    return status;
}

const struct cli_command cli_completion = {
    .name = "completion",
    .args = "bash",
    .summary = "print the completion script of a shell",
    .about = "Prints a script that completes commands, options and file names:\n"
             "  source <(openspin completion bash)",
    .run = run,
};
