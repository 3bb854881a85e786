/* `openspin goal run`: simulate a schedule. */
#include "cli_goal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/units.h"
#include "params.h"
#include "progress.h"

struct run_options {
    const char *model, *preset, *trace, *noise, *noise_file, *topology, *links, *params, *picture,
        *json, *csv, *matching, *card, *handlers;
    struct cli_view view;
    struct cli_list set, fail;
    uint64_t seed;
    bool digest, noise_together, presets, parameters, critical_path;
};

#define AT(member) offsetof(struct run_options, member)
static const struct cli_option table[] = {
    {"model", 'm', CLI_STRING, "MODEL", "loggops (the default), packet or card", AT(model), 0, 0},
    {"matching", 0, CLI_STRING, "WHO",
     "card model: handlers (the default), portals or host match messages", AT(matching), 0, 0},
    {"card", 0, CLI_STRING, "NAME", "card model: sc17 (the default) or pspin", AT(card), 0, 0},
    {"handlers", 0, CLI_STRING, "IMAGE", "card model: handlers hh0, ph1, ... of GOAL's appends",
     AT(handlers), 0, 0},
    {"preset", 'p', CLI_STRING, "NAME",
     "a set of parameters (loggopsim; sc17-int for packets and cards); see --presets", AT(preset),
     0, 0},
    {"set", 's', CLI_LIST, "NAME=VALUE",
     "one parameter: L=2500, o=65ns, G=20ps/B, S=64KiB, link_latency=33.4ns", AT(set), 0, 0},
    {"params", 0, CLI_STRING, "FILE", CLI_PARAMS_HELP, AT(params), 0, 0},
    {"topology", 'T', CLI_STRING, "SPEC",
     "packet and card model: link, switch, fattree:36, torus:8x8, dragonfly:P,A,H, file:PATH",
     AT(topology), 0, 0},
    {"fail", 0, CLI_LIST, "A-B@TIME[:TIME]", "packet model: a link that breaks (and heals)",
     AT(fail), 0, 0},
    {"links", 0, CLI_OUTPUT, "FILE", "packet and card model: write a row per link as CSV",
     AT(links), 0, 0},
    {"noise", 0, CLI_STRING, "PERIOD,LENGTH", "the system takes LENGTH every PERIOD (1ms,25us)",
     AT(noise), 0, 0},
    {"noise-file", 0, CLI_STRING, "FILE",
     "the system takes what was recorded: lines 'start length'", AT(noise_file), 0, 0},
    {"noise-together", 0, CLI_FLAG, NULL, "all ranks begin at the same place of the noise",
     AT(noise_together), 0, 0},
    {"seed", 0, CLI_NUMBER, "N", "where each rank begins in the noise (1)", AT(seed), 0,
     UINT64_MAX},
    {"json", 'j', CLI_RESULT, "[=FILE]", "print JSON, or write it into a file", AT(json), 0, 0},
    {"csv", 'c', CLI_RESULT, "[=FILE]", "print rank,finish_ps as CSV, or write it", AT(csv), 0, 0},
    {"critical-path", 0, CLI_FLAG, NULL, "what the makespan depends on; also in trace and picture",
     AT(critical_path), 0, 0},
    {"trace", 't', CLI_OUTPUT, "FILE", "write a trace for Perfetto or chrome://tracing", AT(trace),
     0, 0},
    {"picture", 0, CLI_OUTPUT, "FILE", "write the same as SVG", AT(picture), 0, 0},
    CLI_VIEW_OPTIONS(struct run_options, view),
    {"digest", 0, CLI_FLAG, NULL, "print a digest of the event log", AT(digest), 0, 0},
    {"parameters", 0, CLI_FLAG, NULL, "list the parameters in effect, and run nothing",
     AT(parameters), 0, 0},
    {"presets", 0, CLI_FLAG, NULL, "list the presets with the source of each constant", AT(presets),
     0, 0},
    {0},
};
#undef AT

static void show_progress(void *context, uint64_t done, uint64_t of) {
    progress_show(context, "operations", done, of);
}

/* ---- output ---- */

void goal_print_ns(const char *what, uint64_t ps) {
    printf("%-24s %" PRIu64 ".%03" PRIu64 " ns\n", what, ps / 1000, ps % 1000);
}

static void print_parameters(const struct spin_goal_options *o, const char *preset) {
    struct spin_parameter row;
    if (o->packet) {
        goal_print_packet_parameters(o, preset);
        return;
    }
    printf("model loggops, preset %s\n", preset);
    for (int i = 0; spin_loggops_parameter(&o->loggops, preset, i, &row); i++)
        params_print(&row);
}

static int list_presets(bool packets) {
    const char *name, *about;
    for (int i = 0; (name = spin_loggops_preset_name(i, &about)) != NULL; i++) {
        struct spin_loggops values;
        struct spin_parameter row;
        spin_loggops_preset(name, &values, NULL);
        printf("%s: %s\n", name, about);
        for (int k = 0; spin_loggops_parameter(&values, name, k, &row); k++)
            params_print(&row);
        struct spin_packet packet;
        if (!packets || spin_packet_preset(name, &packet, NULL) != SPIN_OK)
            continue;
        for (int k = 0; spin_packet_parameter(&packet, name, k, &row); k++)
            params_print(&row);
    }
    return 0;
}

static void print_text(const struct spin_goal_options *o, const char *preset,
                       const struct spin_goal_result *r) {
    print_parameters(o, preset);
    goal_print_ns("makespan", r->makespan_ps);
    printf("%-24s %" PRIu64 "\n", "messages", r->messages);
    printf("%-24s %" PRIu64 "\n", "bytes", r->bytes);
    printf("%-24s %" PRIu64 "\n", "events", r->events);
    goal_print_ns("lost in noise", r->noise_ps);
    goal_print_ns("waited for cpu and nic", r->queue_ps);
    if (r->unreceived)
        printf("%-24s %" PRIu64 "\n", "messages never received", r->unreceived);
    if (o->packet)
        goal_print_packet(r);
    if (r->digest)
        printf("%-24s %016" PRIx64 "\n", "digest", r->digest);
    goal_print_ranks(r);
    if (o->critical_path)
        goal_print_path(r);
}

void goal_print_ranks(const struct spin_goal_result *r) {
    enum { SHOWN = 32 };
    for (uint32_t rank = 0; rank < r->ranks && rank < SHOWN; rank++) {
        char what[32];
        snprintf(what, sizeof what, "rank %u finishes at", rank);
        goal_print_ns(what, r->finish_ps[rank]);
    }
    if (r->ranks > SHOWN)
        printf("and %u more ranks: --csv and --json print all\n", r->ranks - SHOWN);
}

struct report {
    const struct spin_goal_options *options;
    const char *preset;
    const struct spin_goal_result *result;
};

static void print_json(FILE *out, const void *what) {
    const struct report *report = what;
    const struct spin_goal_options *o = report->options;
    const struct spin_goal_result *r = report->result;
    const char *preset = report->preset;
    struct json j = {.out = out};
    struct spin_parameter row;
    json_object(&j, NULL);
    json_string(&j, "model", o->packet ? "packet" : "loggops");
    json_string(&j, "preset", preset);
    json_object(&j, "parameters");
    for (int i = 0; spin_loggops_parameter(&o->loggops, preset, i, &row); i++)
        json_string(&j, row.name, row.value);
    for (int i = 0; o->packet && spin_packet_parameter(o->packet, preset, i, &row); i++)
        json_string(&j, row.name, row.value);
    json_end_object(&j);
    json_u64(&j, "makespan_ps", r->makespan_ps);
    json_u64(&j, "events", r->events);
    json_u64(&j, "messages", r->messages);
    json_u64(&j, "bytes", r->bytes);
    json_u64(&j, "noise_ps", r->noise_ps);
    json_u64(&j, "queue_ps", r->queue_ps);
    json_u64(&j, "unreceived", r->unreceived);
    json_u64(&j, "engine_events", r->engine_events);
    json_u64(&j, "most_pending", r->most_pending);
    json_u64(&j, "memory_bytes", r->memory_bytes);
    if (r->digest) {
        char digest[20];
        snprintf(digest, sizeof digest, "%016" PRIx64, r->digest);
        json_string(&j, "digest", digest);
    }
    if (o->packet)
        goal_json_packet(&j, r);
    if (o->critical_path)
        goal_json_path(&j, r);
    goal_json_ranks(&j, r);
    json_end_object(&j);
}

void goal_json_ranks(struct json *j, const struct spin_goal_result *r) {
    json_array(j, "ranks");
    for (uint32_t rank = 0; rank < r->ranks; rank++) {
        json_object(j, NULL);
        json_u64(j, "rank", rank);
        json_u64(j, "finish_ps", r->finish_ps[rank]);
        json_end_object(j);
    }
    json_end_array(j);
}

static void print_csv(FILE *out, const void *what) {
    goal_csv_ranks(out, ((const struct report *)what)->result);
}

void goal_csv_ranks(FILE *out, const struct spin_goal_result *r) {
    fputs("rank,finish_ps\n", out);
    for (uint32_t rank = 0; rank < r->ranks; rank++)
        fprintf(out, "%u,%" PRIu64 "\n", rank, r->finish_ps[rank]);
}

/* JSON and CSV go where they were asked for; the text comes unless one of them is printed. */
static int report(const struct cli_command *command, const struct run_options *o,
                  const struct report *what) {
    int status = o->json ? cli_result(command, o->json, print_json, what) : 0;
    if (!status && o->csv)
        status = cli_result(command, o->csv, print_csv, what);
    if (!status && !cli_is_printed(o->json, o->csv))
        print_text(what->options, what->preset, what->result);
    return status;
}

/* ---- the command ---- */

static int parse_noise(const struct cli_command *command, const struct run_options *o,
                       struct spin_noise *noise) {
    *noise = (struct spin_noise){
        .record = o->noise_file, .seed = o->seed, .together = o->noise_together};
    if (o->noise && o->noise_file)
        return cli_error(command, CLI_USAGE, "--noise and --noise-file: choose one");
    if (o->noise_together && !o->noise && !o->noise_file)
        return cli_error(command, CLI_USAGE, "--noise-together needs --noise or --noise-file");
    return o->noise ? cli_noise(command, o->noise, noise) : 0;
}

/* Where a parameter goes: into both models' or into one. */
struct models {
    struct spin_loggops *loggops;
    struct spin_packet *packet; /* NULL: the LogGOPS model */
};

static int set_parameter(void *to, const char *assignment, struct spin_error *err) {
    struct models *m = to;
    return m->packet ? goal_set_packet(m->loggops, m->packet, assignment, err)
                     : spin_loggops_set(m->loggops, assignment, err);
}

/* The preset, then the file of parameters, then --set and --topology. */
static int configure(const struct cli_command *command, const struct run_options *o,
                     const char *preset, const struct params *params, struct models m) {
    struct spin_error err;
    if (spin_loggops_preset(preset, m.loggops, &err) != SPIN_OK ||
        (m.packet && spin_packet_preset(preset, m.packet, &err) != SPIN_OK))
        return cli_report(command, &err);
    int status = params_apply(command, params, set_parameter, &m);
    for (int i = 0; i < o->set.count && !status; i++)
        if (set_parameter(&m, o->set.items[i], &err) != SPIN_OK)
            status = cli_report(command, &err);
    if (m.packet) {
        m.packet->topology = o->topology ? o->topology : m.packet->topology;
        m.packet->failures = o->fail.items;
        m.packet->failure_count = o->fail.count;
        m.packet->link_report = o->links;
    }
    return status;
}

static int check(const struct cli_command *command, const struct run_options *o, bool packets,
                 bool cards) {
    if (o->model && !packets && !cards && strcmp(o->model, "loggops") != 0)
        return cli_error(command, CLI_USAGE,
                         "unknown model '%s'; there are loggops, packet and card", o->model);
    if (!packets && !cards && (o->topology || o->fail.count || o->links))
        return cli_error(
            command, CLI_USAGE,
            "--topology, --fail and --links need --model packet: the LogGOPS model has "
            "no links");
    if (!cards && (o->matching || o->card || o->handlers))
        return cli_error(command, CLI_USAGE, "--matching, --card and --handlers need --model card");
    if (cards && (o->fail.count || o->critical_path || o->digest))
        return cli_error(command, CLI_USAGE,
                         "--fail, --critical-path and --digest are not for --model card");
    if ((o->view.only || o->view.from || o->view.to) && !o->trace && !o->picture)
        return cli_error(command, CLI_USAGE,
                         "--only, --from and --to choose what --trace and --picture show: say one");
    return 0;
}

static int simulate(const struct cli_command *command, const struct run_options *o,
                    const char *path, const char *preset, struct spin_goal_options *options) {
    struct spin_goal_result result;
    struct spin_error err;
    struct spin_goal *goal;
    struct progress progress;
    int status = parse_noise(command, o, &options->noise);
    if (!status)
        status = cli_view(command, &o->view, &options->view);
    if (status)
        return status;
    if (spin_goal_read(path, &goal, &err) != SPIN_OK)
        return cli_report(command, &err);
    progress_begin(&progress);
    options->progress = show_progress;
    options->progress_context = &progress;
    int code = spin_goal_run(goal, options, &result, &err);
    progress_end(&progress);
    if (code == SPIN_EDEADLOCK || code == SPIN_ELIMIT || code == SPIN_ENOMEM)
        status = cli_error(command, CLI_FAILED, "%s: %s", path, err.text);
    else if (code != SPIN_OK)
        status = cli_report(command, &err);
    else
        status = report(command, o, &(struct report){options, preset, &result});
    spin_goal_result_free(&result);
    spin_goal_free(goal);
    return status;
}

static int on_cards(const struct cli_command *command, const struct run_options *o,
                    const char *preset, const struct params *params,
                    const struct cli_list *operands) {
    struct goal_on_cards on = {.preset = preset,
                               .matching = o->matching,
                               .card = o->card,
                               .handlers = o->handlers,
                               .topology = o->topology,
                               .links = o->links,
                               .trace = o->trace,
                               .picture = o->picture,
                               .json = o->json,
                               .csv = o->csv,
                               .set = &o->set,
                               .params = params};
    int status = parse_noise(command, o, &on.noise);
    if (!status)
        status = cli_view(command, &o->view, &on.view);
    if (!status && o->parameters)
        return goal_cards_parameters(command, &on);
    if (!status)
        status = goal_one_file(command, operands);
    return status ? status : goal_cards_run(command, &on, operands->items[0]);
}

static int configured(const struct cli_command *command, const struct run_options *o,
                      const struct cli_list *operands) {
    struct spin_goal_options options = {.digest = o->digest,
                                        .trace = o->trace,
                                        .picture = o->picture,
                                        .critical_path = o->critical_path};
    struct spin_packet packet;
    struct params params;
    bool packets = o->model && strcmp(o->model, "packet") == 0;
    bool cards = o->model && strcmp(o->model, "card") == 0;
    const char *preset = o->preset ? o->preset : packets || cards ? "sc17-int" : "loggopsim";
    int status = check(command, o, packets, cards);
    if (status)
        return status;
    status = params_read(command, o->params, &params);
    if (!status && cards) {
        status = on_cards(command, o, preset, &params, operands);
        params_free(&params);
        return status;
    }
    if (!status)
        status = configure(command, o, preset, &params,
                           (struct models){&options.loggops, packets ? &packet : NULL});
    options.packet = packets ? &packet : NULL;
    if (!status && o->parameters)
        print_parameters(&options, preset);
    else if (!status && !(status = goal_one_file(command, operands)))
        status = simulate(command, o, operands->items[0], preset, &options);
    params_free(&params);
    return status;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct run_options options = {.seed = 1};
    struct cli_list operands;
    int status = cli_parse(command, argc, argv, &options, &operands);
    if (!status && options.presets)
        status = list_presets(options.model && strcmp(options.model, "packet") == 0);
    else if (!status)
        status = configured(command, &options, &operands);
    cli_free(command, &options, &operands);
    return status;
}

const struct cli_command cli_goal_run = {
    .name = "goal run",
    .args = "FILE [options]",
    .summary = "simulate a schedule and print when each rank finishes",
    .about = "Simulates a GOAL schedule. A number without a unit is nanoseconds, bytes for S.\n"
             "Exit status 1 and the operations that wait when the schedule cannot finish.",
    .options = table,
    .run = run,
};
