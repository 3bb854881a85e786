/* What the `openspin goal` commands share. */
#ifndef OPENSPIN_CLI_GOAL_H
#define OPENSPIN_CLI_GOAL_H

#include "cli.h"

extern const struct cli_command cli_goal_gen, cli_goal_join, cli_goal_run;

/* 0 if there is exactly one operand; else the exit status, with the error printed. */
int goal_one_file(const struct cli_command *command, const struct cli_list *operands);
/* "text", "binary", "portals"; NULL decides by the name of the file. */
int goal_format(const struct cli_command *command, const char *text, const char *path,
                enum spin_goal_format *format);

#endif
