/* What the `openspin goal` commands share. */
#ifndef OPENSPIN_CLI_GOAL_H
#define OPENSPIN_CLI_GOAL_H

#include "base/json.h"
#include "cli.h"

extern const struct cli_command cli_goal_gen, cli_goal_join, cli_goal_run, cli_goal_trace;

/* 0 if there is exactly one operand; else the exit status, with the error printed. */
int goal_one_file(const struct cli_command *command, const struct cli_list *operands);
/* "text", "binary", "portals"; NULL decides by the name of the file. */
int goal_format(const struct cli_command *command, const char *text, const char *path,
                enum spin_goal_format *format);

/* What the packet model adds to `goal run`. */
int goal_set_packet(struct spin_loggops *loggops, struct spin_packet *packet,
                    const char *assignment, struct spin_error *err);
void goal_print_packet_parameters(const struct spin_goal_options *o, const char *preset);
void goal_print_packet(const struct spin_goal_result *r);
void goal_json_packet(struct json *j, const struct spin_goal_result *r);

/* The critical path. */
void goal_print_path(const struct spin_goal_result *r);
void goal_json_path(struct json *j, const struct spin_goal_result *r);

#endif
