/* `openspin goal gen` and `openspin goal join`: schedules that were not there before. */
#include "cli_goal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/units.h"

/* ---- gen ---- */

struct gen_options {
    uint64_t ranks, bytes, root, iterations;
    const char *calc, *dims, *output, *format;
    bool list;
};

#define AT(member) offsetof(struct gen_options, member)
static const struct cli_option gen_table[] = {
    {"ranks", 'n', CLI_NUMBER, "N", "number of ranks (required)", AT(ranks), 1, 1u << 28},
    {"bytes", 'b', CLI_SIZE, "SIZE", "size of a message, or of an allreduce's vector (8)",
     AT(bytes), 0, 1ull << 50},
    {"calc", 'c', CLI_STRING, "TIME", "computation of a step or iteration (0ns)", AT(calc), 0, 0},
    {"root", 'r', CLI_NUMBER, "RANK", "root of a tree (0)", AT(root), 0, UINT32_MAX},
    {"iterations", 'i', CLI_NUMBER, "N", "how often, one after the other (1)", AT(iterations), 1,
     1u << 26},
    {"dims", 'd', CLI_STRING, "AxB...", "grid of a halo exchange; nearest to a cube if not given",
     AT(dims), 0, 0},
    {"output", 'o', CLI_OUTPUT, "FILE", "where to write; standard output if not given", AT(output),
     0, 0},
    {"format", 'f', CLI_STRING, "FORMAT", "text, binary or portals; by the file's name", AT(format),
     0, 0},
    {"list", 'l', CLI_FLAG, NULL, "list the patterns", AT(list), 0, 0},
    {0},
};
#undef AT

static bool parse_dims(const char *text, uint32_t dims[4]) {
    for (int i = 0; i < 4; i++) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);
        if (end == text || value == 0 || value > UINT32_MAX || text[0] == '-' || text[0] == '+')
            return false;
        dims[i] = (uint32_t)value;
        if (!*end)
            return true;
        if (*end != 'x')
            return false;
        text = end + 1;
    }
    return false;
}

static int list_patterns(void) {
    const char *name, *about;
    for (int i = 0; (name = spin_goal_pattern_name(i, &about)) != NULL; i++)
        printf("%-20s %s\n", name, about);
    return 0;
}

static int make(const struct cli_command *command, const struct gen_options *o, const char *name) {
    struct spin_goal_pattern pattern = {.name = name,
                                        .ranks = (uint32_t)o->ranks,
                                        .bytes = o->bytes,
                                        .root = (uint32_t)o->root,
                                        .iterations = (uint32_t)o->iterations};
    uint64_t calc_ps = 0;
    if (!o->ranks)
        return cli_error(command, CLI_USAGE, "how many ranks? give --ranks N");
    if (o->calc && (!units_time_ps(o->calc, &calc_ps) || calc_ps % 1000))
        return cli_error(command, CLI_USAGE,
                         "--calc: '%s' is not a time of whole nanoseconds (such as 2us)", o->calc);
    pattern.calc_ns = calc_ps / 1000;
    if (o->dims && !parse_dims(o->dims, pattern.dims))
        return cli_error(command, CLI_USAGE,
                         "--dims: '%s' is not two to four numbers (such as 4x8)", o->dims);
    const char *output = o->output ? o->output : "-";
    enum spin_goal_format format = SPIN_GOAL_TEXT;
    int status = goal_format(command, o->format, output, &format);
    if (status)
        return status;
    struct spin_error err;
    struct spin_goal *goal;
    if (spin_goal_generate(&pattern, &goal, &err) != SPIN_OK)
        return cli_report(command, &err);
    if (spin_goal_write(goal, output, format, &err) != SPIN_OK)
        status = cli_report(command, &err);
    spin_goal_free(goal);
    return status;
}

static int gen(const struct cli_command *command, int argc, char **argv) {
    struct gen_options options = {.bytes = 8, .iterations = 1};
    struct cli_list operands;
    int status = cli_parse(command, argc, argv, &options, &operands);
    if (!status && options.list)
        status = list_patterns();
    else if (!status && operands.count != 1)
        status =
            cli_error(command, CLI_USAGE, "which pattern? 'openspin goal gen --list' shows them");
    else if (!status)
        status = make(command, &options, operands.items[0]);
    cli_free(command, &options, &operands);
    return status;
}

const struct cli_command cli_goal_gen = {
    .name = "goal gen",
    .args = "PATTERN --ranks N [options]",
    .summary = "write the schedule of a usual pattern",
    .about = "Writes the schedule of a collective operation or a halo exchange for any number of\n"
             "ranks. --list shows the patterns.",
    .options = gen_table,
    .reads_nothing = true,
    .run = gen,
};

/* ---- join ---- */

struct join_options {
    const char *output, *format, *placement;
    uint64_t nodes, seed;
};

#define AT(member) offsetof(struct join_options, member)
static const struct cli_option join_table[] = {
    {"placement", 'p', CLI_STRING, "HOW",
     "linear (one job after the other), round-robin, random, or a file with a node number per rank",
     AT(placement), 0, 0},
    {"nodes", 'n', CLI_NUMBER, "N", "nodes of the network; as many as ranks if not given",
     AT(nodes), 1, 1u << 28},
    {"seed", 's', CLI_NUMBER, "N", "of the random placement (1)", AT(seed), 0, UINT64_MAX},
    {"output", 'o', CLI_OUTPUT, "FILE", "where to write; standard output if not given", AT(output),
     0, 0},
    {"format", 'f', CLI_STRING, "FORMAT", "text, binary or portals; by the file's name", AT(format),
     0, 0},
    {0},
};
#undef AT

struct jobs {
    struct spin_goal **goals;
    int count;
    uint32_t ranks;
};

static void place_round_robin(const struct jobs *jobs, uint32_t *placement) {
    uint32_t node = 0;
    for (uint32_t rank = 0; node < jobs->ranks; rank++) {
        uint32_t before = 0;
        for (int j = 0; j < jobs->count; j++) {
            uint32_t ranks = spin_goal_info(jobs->goals[j]).ranks;
            if (rank < ranks)
                placement[before + rank] = node++;
            before += ranks;
        }
    }
}

static void place_random(const struct jobs *jobs, uint32_t nodes, uint64_t seed,
                         uint32_t *placement) {
    struct rng rng = rng_seeded(seed);
    for (uint32_t i = 0; i < nodes; i++)
        placement[i] = i;
    for (uint32_t i = 0; i < jobs->ranks; i++) {
        uint32_t other = i + rng_below(&rng, nodes - i), kept = placement[i];
        placement[i] = placement[other];
        placement[other] = kept;
    }
}

static int place_from_file(const struct cli_command *command, const char *path, uint32_t ranks,
                           uint32_t *placement) {
    uint8_t *data;
    size_t length;
    struct spin_error err;
    if (file_read(path, "placement", 1u << 30, &data, &length, &err) != SPIN_OK)
        return cli_report(command, &err);
    int status = 0;
    uint32_t count = 0;
    unsigned line = 0;
    char *rest = NULL;
    for (char *text = strtok_r((char *)data, "\n", &rest); text && !status;
         text = strtok_r(NULL, "\n", &rest)) {
        line++;
        text += strspn(text, " \t");
        text[strcspn(text, " \t\r#")] = 0;
        uint64_t node;
        if (!*text)
            continue;
        if (!units_u64(text, &node) || node > UINT32_MAX)
            status = cli_error(command, CLI_FAILED, "%s:%u: '%.40s' is not a node number", path,
                               line, text);
        else if (count == ranks)
            status = cli_error(command, CLI_FAILED, "%s:%u: more nodes than the %u ranks", path,
                               line, ranks);
        else
            placement[count++] = (uint32_t)node;
    }
    if (!status && count < ranks)
        status = cli_error(command, CLI_FAILED, "%s: places %u ranks, the jobs have %u", path,
                           count, ranks);
    free(data);
    return status;
}

static int place(const struct cli_command *command, const struct join_options *o,
                 const struct jobs *jobs, uint32_t nodes, uint32_t *placement) {
    for (uint32_t i = 0; i < jobs->ranks; i++)
        placement[i] = i;
    if (!o->placement || strcmp(o->placement, "linear") == 0)
        return 0;
    if (strcmp(o->placement, "round-robin") == 0)
        place_round_robin(jobs, placement);
    else if (strcmp(o->placement, "random") == 0)
        place_random(jobs, nodes, o->seed, placement);
    else
        return place_from_file(command, o->placement, jobs->ranks, placement);
    return 0;
}

static int join_jobs(const struct cli_command *command, const struct join_options *o,
                     const struct jobs *jobs) {
    uint32_t nodes = o->nodes ? (uint32_t)o->nodes : jobs->ranks;
    const char *output = o->output ? o->output : "-";
    enum spin_goal_format format = SPIN_GOAL_TEXT;
    int status = goal_format(command, o->format, output, &format);
    if (status)
        return status;
    if (nodes < jobs->ranks)
        return cli_error(command, CLI_USAGE, "--nodes: the jobs have %u ranks, more than %u nodes",
                         jobs->ranks, nodes);
    uint32_t *placement = malloc((size_t)nodes * sizeof *placement);
    if (!placement)
        return cli_error(command, CLI_FAILED, "out of memory for %u nodes", nodes);
    struct spin_error err;
    struct spin_goal *goal = NULL;
    status = place(command, o, jobs, nodes, placement);
    if (!status && spin_goal_join((const struct spin_goal *const *)jobs->goals, jobs->count,
                                  placement, nodes, &goal, &err) != SPIN_OK)
        status = cli_report(command, &err);
    if (!status && spin_goal_write(goal, output, format, &err) != SPIN_OK)
        status = cli_report(command, &err);
    spin_goal_free(goal);
    free(placement);
    return status;
}

static int join(const struct cli_command *command, int argc, char **argv) {
    struct join_options options = {.seed = 1};
    struct cli_list operands;
    struct jobs jobs = {0};
    struct spin_error err;
    int status = cli_parse(command, argc, argv, &options, &operands);
    if (!status && operands.count == 0)
        status = cli_error(command, CLI_USAGE, "which jobs? give one file or more");
    if (!status && !(jobs.goals = calloc((size_t)operands.count, sizeof *jobs.goals)))
        status = cli_error(command, CLI_FAILED, "out of memory");
    uint64_t ranks = 0;
    for (int i = 0; !status && i < operands.count; i++) {
        if (spin_goal_read(operands.items[i], &jobs.goals[i], &err) != SPIN_OK) {
            status = cli_report(command, &err);
            break;
        }
        jobs.count++;
        ranks += spin_goal_info(jobs.goals[i]).ranks;
    }
    if (!status && ranks > 1u << 28)
        status = cli_error(command, CLI_FAILED, "%llu ranks are over the limit of %u",
                           (unsigned long long)ranks, 1u << 28);
    jobs.ranks = (uint32_t)ranks;
    if (!status)
        status = join_jobs(command, &options, &jobs);
    for (int i = 0; i < jobs.count; i++)
        spin_goal_free(jobs.goals[i]);
    free(jobs.goals);
    cli_free(command, &options, &operands);
    return status;
}

const struct cli_command cli_goal_join = {
    .name = "goal join",
    .args = "FILE... [-o FILE] [--placement HOW]",
    .summary = "put several jobs side by side on one network",
    .about =
        "Writes one schedule in which the jobs run at the same time on different nodes of one\n"
        "network. The placement says which node each rank gets, counting through the jobs.",
    .options = join_table,
    .run = join,
};
