/* `openspin goal`: the group, and the commands that look at and rewrite schedules. */
#include "cli_goal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int goal_one_file(const struct cli_command *command, const struct cli_list *operands) {
    if (operands->count == 1)
        return 0;
    return cli_error(command, CLI_USAGE, "%s usage: openspin %s %s",
                     operands->count ? "one file at a time;" : "which file?", command->name,
                     command->args);
}

int goal_format(const struct cli_command *command, const char *text, const char *path,
                enum spin_goal_format *format) {
    static const struct {
        const char *name;
        enum spin_goal_format format;
    } formats[] = {{"text", SPIN_GOAL_TEXT},
                   {"binary", SPIN_GOAL_BINARY},
                   {"portals", SPIN_GOAL_BINARY_PORTALS}};
    if (!text) {
        size_t length = strlen(path);
        *format = length > 4 && strcmp(path + length - 4, ".bin") == 0 ? SPIN_GOAL_BINARY
                                                                       : SPIN_GOAL_TEXT;
        return 0;
    }
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(text, formats[i].name) == 0) {
            *format = formats[i].format;
            return 0;
        }
    return cli_error(command, CLI_USAGE,
                     "--format: '%s' is not known; there are text, binary and portals", text);
}

/* ---- convert ---- */

struct convert_options {
    const char *output, *format;
};

static const struct cli_option convert_table[] = {
    {"output", 'o', CLI_OUTPUT, "FILE", "where to write; standard output if not given",
     offsetof(struct convert_options, output), 0, 0},
    {"format", 'f', CLI_STRING, "FORMAT",
     "text, binary, or portals (binary, nodes of 104 bytes); by the file's name if not given",
     offsetof(struct convert_options, format), 0, 0},
    {0},
};

static int convert(const struct cli_command *command, int argc, char **argv) {
    struct convert_options options = {0};
    struct cli_list operands;
    struct spin_error err;
    struct spin_goal *goal = NULL;
    enum spin_goal_format format = SPIN_GOAL_TEXT;
    int status = cli_parse(command, argc, argv, &options, &operands);
    if (!status)
        status = goal_one_file(command, &operands);
    if (!options.output)
        options.output = "-";
    if (!status)
        status = goal_format(command, options.format, options.output, &format);
    if (!status && spin_goal_read(operands.items[0], &goal, &err) != SPIN_OK)
        status = cli_report(command, &err);
    if (!status && spin_goal_write(goal, options.output, format, &err) != SPIN_OK)
        status = cli_report(command, &err);
    spin_goal_free(goal);
    cli_free(command, &options, &operands);
    return status;
}

static const struct cli_command goal_convert = {
    .name = "goal convert",
    .args = "FILE [-o FILE] [-f FORMAT]",
    .summary = "rewrite a schedule as text or binary",
    .about = "Reads GOAL text or either binary dialect (told apart by the content) and writes it\n"
             "as text or binary. A name that ends in .bin is written as binary.",
    .options = convert_table,
    .run = convert,
};

/* ---- info ---- */

struct info_options {
    bool json;
};

static const struct cli_option info_table[] = {
    {"json", 'j', CLI_FLAG, NULL, "print JSON", offsetof(struct info_options, json), 0, 0},
    {0},
};

static void print_info(const struct spin_goal_info *i, bool json) {
    const struct {
        const char *key, *text;
        uint64_t value;
    } rows[] = {
        {"ranks", "ranks", i->ranks},
        {"cpus", "cpus of a rank", i->cpus},
        {"nics", "nics of a rank", i->nics},
        {"operations", "operations", i->operations},
        {"sends", "  send", i->sends},
        {"receives", "  recv", i->receives},
        {"calcs", "  calc", i->calcs},
        {"portals", "  Portals dialect", i->portals},
        {"wildcard_receives", "receives with a wildcard", i->wildcard_receives},
        {"dependencies", "dependencies", i->dependencies},
        {"start_dependencies", "  on a start (irequires)", i->start_dependencies},
        {"most_of_a_rank", "most operations of a rank", i->most_of_a_rank},
        {"bytes_sent", "bytes sent", i->bytes_sent},
        {"largest_message", "largest message, bytes", i->largest_message},
        {"calc_ns", "computation, ns", i->calc_ns},
        {"memory_bytes", "memory of the schedule, bytes", i->memory_bytes},
    };
    struct json j = {.out = stdout};
    if (json)
        json_object(&j, NULL);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (json)
            json_u64(&j, rows[r].key, rows[r].value);
        else
            printf("%-30s %llu\n", rows[r].text, (unsigned long long)rows[r].value);
    }
    if (json)
        json_end_object(&j);
}

static int info(const struct cli_command *command, int argc, char **argv) {
    struct info_options options = {0};
    struct cli_list operands;
    struct spin_error err;
    struct spin_goal *goal = NULL;
    int status = cli_parse(command, argc, argv, &options, &operands);
    if (!status)
        status = goal_one_file(command, &operands);
    if (!status && spin_goal_read(operands.items[0], &goal, &err) != SPIN_OK)
        status = cli_report(command, &err);
    if (!status) {
        struct spin_goal_info what = spin_goal_info(goal);
        print_info(&what, options.json);
    }
    spin_goal_free(goal);
    cli_free(command, &options, &operands);
    return status;
}

static const struct cli_command goal_info = {
    .name = "goal info",
    .args = "FILE [--json]",
    .summary = "count what is in a schedule",
    .about =
        "Prints how many ranks, cpus, nics, operations of each kind, dependencies and bytes a\n"
        "GOAL schedule has, and what memory it takes.",
    .options = info_table,
    .run = info,
};

static const struct cli_command *const goal_commands[] = {
    &goal_convert, &cli_goal_gen, &goal_info, &cli_goal_join, &cli_goal_run, &cli_goal_trace, NULL};

const struct cli_command cli_goal = {
    .name = "goal",
    .args = "COMMAND ...",
    .summary = "GOAL schedules: make, trace, convert and simulate them",
    .about = "GOAL is the schedule language of LogGOPSim: per rank, what it sends, receives and\n"
             "computes, and what waits for what.",
    .commands = goal_commands,
};
