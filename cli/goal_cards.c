/* `openspin goal run --model card`: the schedule's messages through cards. */
#include "cli_goal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "goal/goal_card.h"
#include "progress.h"

/* What is set of the replay itself, and of its world. */
struct settings {
    struct goal_card_options *options;
    const char **world; /* room for all */
    int count;
};

/* o and g are the world's; L, G and O are results of its cards and network. */
static int set_one(void *to, const char *assignment, struct spin_error *err) {
    struct settings *s = to;
    struct spin_loggops of = {0};
    if (strncmp(assignment, "S=", 2) == 0) {
        int code = spin_loggops_set(&of, assignment, err);
        s->options->eager_bytes = of.S_bytes;
        return code;
    }
    if (strncmp(assignment, "unexpected=", 11) == 0)
        return units_size(assignment + 11, &s->options->unexpected_bytes)
                   ? SPIN_OK
                   : spin_fail(err, SPIN_EARG,
                               "unexpected: '%.60s' is not a number of bytes (such as 1MiB)",
                               assignment + 11);
    if (assignment[0] && assignment[1] == '=' && strchr("LGO", assignment[0]))
        return spin_fail(err, SPIN_EARG,
                         "%.1s is no parameter of cards: set link_latency, switch_time, link_rate, "
                         "dma_latency or memory_rate instead",
                         assignment);
    s->world[s->count++] = assignment;
    return spin_world_check(assignment, err);
}

/* The preset, then the file of parameters, --card and --set. *set is freed by the caller. */
static int configure(const struct cli_command *command, const struct goal_on_cards *on,
                     struct goal_card_options *options, const char ***set) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    bool pspin = on->card && strcmp(on->card, "pspin") == 0;
    struct spin_loggops preset;
    struct spin_error err;
    *set = malloc((size_t)(on->params->count + on->set->count + 1) * sizeof **set);
    if (!*set)
        return cli_error(command, CLI_FAILED, "out of memory");
    if (on->card && !pspin && strcmp(on->card, "sc17") != 0)
        return cli_error(command, CLI_USAGE, "--card: '%.60s' is neither sc17 nor pspin", on->card);
    if (spin_loggops_preset(on->preset, &preset, &err) != SPIN_OK)
        return cli_report(command, &err);
    *options = (struct goal_card_options){.matching = on->matching,
                                          .handlers = on->handlers,
                                          .eager_bytes = preset.S_bytes,
                                          .world = {.ranks = 2,
                                                    .preset = on->preset,
                                                    .topology = on->topology,
                                                    .noise = on->noise,
                                                    .trace = on->trace,
                                                    .picture = on->picture,
                                                    .view = on->view,
                                                    .links = on->links}};
    struct settings s = {.options = options, .world = *set};
    int status = params_apply(command, on->params, set_one, &s);
    if (!status && on->card)
        s.world[s.count++] = cards[pspin];
    for (int i = 0; i < on->set->count && !status; i++)
        if (set_one(&s, on->set->items[i], &err) != SPIN_OK)
            status = cli_report(command, &err);
    options->world.set = *set;
    options->world.set_count = s.count;
    if (!status && goal_card_check(options, &err) != SPIN_OK)
        status = cli_report(command, &err);
    return status;
}

/* ---- output ---- */

struct card_report {
    const struct goal_on_cards *on;
    const struct goal_card_options *options;
    const struct goal_card_result *result;
};

static const char *matching_of(const struct goal_on_cards *on) {
    return on->matching ? on->matching : "handlers";
}

static void print_head(const struct goal_on_cards *on, const struct goal_card_options *o) {
    printf("model card, preset %s, matching by %s\n", on->preset, matching_of(on));
    printf("  S = %" PRIu64 " B, largest message that does not wait for its receive\n",
           o->eager_bytes);
    if (on->topology)
        printf("  topology = %s\n", on->topology);
    for (int i = 0; i < o->world.set_count; i++) {
        const char *set = o->world.set[i], *equals = strchr(set, '=');
        printf("  %.*s = %s\n", (int)(equals - set), set, equals + 1);
    }
}

struct row {
    const char *key, *text;
    uint64_t value;
};
enum { ROWS = 12 };

static void rows_of(const struct goal_card_result *r, struct row rows[ROWS]) {
    const struct row all[ROWS] = {
        {"messages", "messages", r->run.messages},
        {"bytes", "bytes", r->run.bytes},
        {"unreceived", "messages never received", r->run.unreceived},
        {"early", "messages before receive", r->p2p.unexpected_small + r->p2p.unexpected_large},
        {"rendezvous", "rendezvous", r->p2p.expected_large + r->p2p.unexpected_large},
        {"host_gets", "  begun by the host", r->p2p.host_gets},
        {"copied_bytes", "bytes copied by the host", r->p2p.copied_bytes},
        {"resent", "messages sent again", r->p2p.resent},
        {"packets", "packets", r->world.packets},
        {"handlers", "handlers", r->world.handlers},
        {"instructions", "  instructions", r->world.instructions},
        {"dma_bytes", "DMA bytes", r->world.dma_bytes},
    };
    memcpy(rows, all, sizeof all);
}

static void print_text(const struct card_report *report) {
    const struct goal_card_result *r = report->result;
    struct row rows[ROWS];
    rows_of(r, rows);
    print_head(report->on, report->options);
    goal_print_ns("makespan", r->run.makespan_ps);
    if (r->quiet_ps)
        goal_print_ns("cards are done at", r->quiet_ps);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].value || i < 2)
            printf("%-24s %" PRIu64 "\n", rows[i].text, rows[i].value);
    goal_print_ranks(&r->run);
}

static void print_json(FILE *out, const void *what) {
    const struct card_report *report = what;
    const struct goal_card_result *r = report->result;
    struct json j = {.out = out};
    struct row rows[ROWS];
    rows_of(r, rows);
    json_object(&j, NULL);
    json_string(&j, "model", "card");
    json_string(&j, "preset", report->on->preset);
    json_string(&j, "matching", matching_of(report->on));
    json_u64(&j, "S", report->options->eager_bytes);
    json_array(&j, "set");
    for (int i = 0; i < report->options->world.set_count; i++)
        json_string(&j, NULL, report->options->world.set[i]);
    json_end_array(&j);
    json_u64(&j, "makespan_ps", r->run.makespan_ps);
    json_u64(&j, "cards_done_ps", r->quiet_ps);
    for (int i = 0; i < ROWS; i++)
        json_u64(&j, rows[i].key, rows[i].value);
    json_u64(&j, "engine_events", r->run.engine_events);
    json_u64(&j, "memory_bytes", r->run.memory_bytes);
    goal_json_ranks(&j, &r->run);
    json_end_object(&j);
}

static void print_csv(FILE *out, const void *what) {
    goal_csv_ranks(out, &((const struct card_report *)what)->result->run);
}

static int report(const struct cli_command *command, const struct card_report *what) {
    const struct goal_on_cards *on = what->on;
    int status = on->json ? cli_result(command, on->json, print_json, what) : 0;
    if (!status && on->csv)
        status = cli_result(command, on->csv, print_csv, what);
    if (!status && !cli_is_printed(on->json, on->csv))
        print_text(what);
    return status;
}

/* ---- the command ---- */

int goal_cards_parameters(const struct cli_command *command, const struct goal_on_cards *on) {
    struct goal_card_options options;
    struct spin_parameter row;
    struct spin_world *world = NULL;
    struct spin_error err;
    const char **set = NULL;
    int status = configure(command, on, &options, &set);
    if (!status && spin_world_new(&world, &options.world, &err) != SPIN_OK)
        status = cli_report(command, &err);
    if (!status) {
        printf("  S = %" PRIu64 " B, largest message that does not wait for its receive\n",
               options.eager_bytes);
        for (int i = 0; spin_world_parameter(world, i, &row); i++)
            params_print(&row);
    }
    spin_world_free(world);
    free(set);
    return status;
}

static void show_progress(void *user, uint64_t now_ps) {
    progress_show(user, "us of virtual time", now_ps / 1000000, 0);
}

int goal_cards_run(const struct cli_command *command, const struct goal_on_cards *on,
                   const char *path) {
    struct goal_card_options options;
    struct goal_card_result result = {0};
    struct spin_goal *goal = NULL;
    struct progress progress;
    struct spin_error err;
    const char **set = NULL;
    int status = configure(command, on, &options, &set);
    if (!status && spin_goal_read(path, &goal, &err) != SPIN_OK)
        status = cli_report(command, &err);
    if (!status) {
        progress_begin(&progress);
        options.world.progress = show_progress;
        options.world.user = &progress;
        int code = goal_card_run(goal, &options, &result, &err);
        progress_end(&progress);
        status = code == SPIN_OK ? report(command, &(struct card_report){on, &options, &result})
                 : code == SPIN_EDEADLOCK || code == SPIN_ELIMIT || code == SPIN_ENOMEM
                     ? cli_error(command, CLI_FAILED, "%s: %s", path, err.text)
                     : cli_report(command, &err);
    }
    goal_card_result_free(&result);
    spin_goal_free(goal);
    free(set);
    return status;
}
