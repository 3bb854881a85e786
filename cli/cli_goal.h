/* What the `openspin goal` commands share. */
#ifndef OPENSPIN_CLI_GOAL_H
#define OPENSPIN_CLI_GOAL_H

#include "base/json.h"
#include "cli.h"
#include "params.h"

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

/* Results of all models: nanoseconds with the picoseconds as decimals; when each rank finishes. */
void goal_print_ns(const char *what, uint64_t ps);
void goal_print_ranks(const struct spin_goal_result *r);
void goal_json_ranks(struct json *j, const struct spin_goal_result *r);
void goal_csv_ranks(FILE *out, const struct spin_goal_result *r);

/* `goal run --model card`: a schedule through cards. */
struct goal_on_cards {
    const char *preset, *matching, *card, *handlers, *topology, *links, *trace, *picture, *json,
        *csv;
    const struct cli_list *set;
    const struct params *params;
    struct spin_noise noise;
    struct spin_view view;
};
int goal_cards_run(const struct cli_command *command, const struct goal_on_cards *on,
                   const char *path);
int goal_cards_parameters(const struct cli_command *command, const struct goal_on_cards *on);

/* The critical path. */
void goal_print_path(const struct spin_goal_result *r);
void goal_json_path(struct json *j, const struct spin_goal_result *r);

#endif
