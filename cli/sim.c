/* `openspin sim`: programs on a simulated world. */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/units.h"
#include "cli_card.h"
#include "params.h"
#include "progress.h"

struct options {
    const char *preset, *card, *cards, *topology, *trace, *picture, *pcap, *until, *noise, *jit,
        *params, *json, *csv, *links, *faults;
    struct cli_view view;
    struct cli_list set;
    uint64_t ranks, seed, gdb, gdb_port;
    bool parameters, quiet, check;
};

#define AT(member) offsetof(struct options, member)
static const struct cli_option table[] = {
    {"ranks", 'n', CLI_NUMBER, "N", "number of ranks, each runs the program (1)", AT(ranks), 1,
     65536},
    {"preset", 'p', CLI_STRING, "NAME", "sc17-int (the default), sc17-dis or part", AT(preset), 0,
     0},
    {"card", 0, CLI_STRING, "NAME", "sc17 (the default) or pspin, with parameters pspin.NAME",
     AT(card), 0, 0},
    {"cards", 0, CLI_STRING, "FILE",
     "what some ranks have of their own: cards, parameters, programs", AT(cards), 0, 0},
    {"set", 's', CLI_LIST, "NAME=VALUE",
     "one parameter: hpus=8, o=65ns, loss=0.01; of some ranks: 0-3,7:hpus=0", AT(set), 0, 0},
    {"params", 0, CLI_STRING, "FILE", CLI_PARAMS_HELP, AT(params), 0, 0},
    {"topology", 'T', CLI_STRING, "SPEC",
     "link, switch, fattree:36, torus:8x8, dragonfly:P,A,H, file:PATH", AT(topology), 0, 0},
    {"until", 0, CLI_STRING, "TIME", "stop there, with status 1 if ranks are not done", AT(until),
     0, 0},
    {"noise", 0, CLI_STRING, "PERIOD,LENGTH", "the system takes LENGTH every PERIOD (1ms,25us)",
     AT(noise), 0, 0},
    {"jit", 0, CLI_STRING, "HOW", CLI_JIT_HELP, AT(jit), 0, 0},
    {"seed", 0, CLI_NUMBER, "N", "where each rank begins in the noise (1)", AT(seed), 0,
     UINT64_MAX},
    {"trace", 't', CLI_OUTPUT, "FILE", "write a trace for Perfetto or chrome://tracing", AT(trace),
     0, 0},
    {"picture", 0, CLI_OUTPUT, "FILE", "write the same as SVG", AT(picture), 0, 0},
    {"faults", 0, CLI_STRING, "HOW",
     "fail (the default): status 1 if a fault ended a handler; ignore: not", AT(faults), 0, 0},
    {"check", 0, CLI_FLAG, NULL, "find overruns of what handlers allocate", AT(check), 0, 0},
    {"gdb", 0, CLI_NUMBER, "RANK", "wait for gdb when the first handler of that rank begins",
     AT(gdb), 0, 65535},
    {"gdb-port", 0, CLI_NUMBER, "PORT", "where, on 127.0.0.1 (0, the default: any)", AT(gdb_port),
     0, 65535},
    CLI_VIEW_OPTIONS(struct options, view),
    {"parameters", 0, CLI_FLAG, NULL,
     "print every parameter with its source; without a program, only those", AT(parameters), 0, 0},
    {"json", 'j', CLI_RESULT, "[=FILE]", "print JSON, or write it into a file", AT(json), 0, 0},
    {"csv", 'c', CLI_RESULT, "[=FILE]", "print rank,finish_ps,status as CSV, or write it", AT(csv),
     0, 0},
    {"pcap", 0, CLI_OUTPUT, "FILE", "write what left the cards, for Wireshark", AT(pcap), 0, 0},
    {"links", 0, CLI_OUTPUT, "FILE", "write a row per link as CSV", AT(links), 0, 0},
    {"quiet", 'q', CLI_FLAG, NULL, "print nothing but what the program prints", AT(quiet), 0, 0},
    {0},
};
#undef AT

#define NO_GDB UINT64_MAX

static void print_ns(FILE *out, const char *what, uint64_t ps) {
    fprintf(out, "%-24s %" PRIu64 ".%03" PRIu64 " ns\n", what, ps / 1000, ps % 1000);
}

static void print_count(FILE *out, const char *what, uint64_t count) {
    fprintf(out, "%-24s %" PRIu64 "\n", what, count);
}

static void print_parameters(const struct spin_world *world) {
    struct spin_parameter row;
    for (int i = 0; spin_world_parameter(world, i, &row); i++)
        if (strcmp(row.source, "none") != 0) /* faults that do not happen */
            params_print(&row);
}

/* What handlers cost: instructions per packet, and HPUs that keep up with 400 Gbit/s of such
 * packets, if they execute an instruction per ns, and as long as those of this world were in use.
 */
struct budget {
    double bytes, instructions, hpus, hpus_here;
};
#define LINE_PS_PER_BYTE 20.0

static struct budget budget_of(const struct spin_world_counts *c) {
    double packets = (double)c->handled_packets,
           line_ps = LINE_PS_PER_BYTE * (double)c->handled_bytes;
    struct budget b = {0};
    if (c->handled_packets)
        b = (struct budget){.bytes = (double)c->handled_bytes / packets,
                            .instructions = (double)c->instructions / packets};
    if (c->handled_bytes) {
        b.hpus = 1000.0 * (double)c->instructions / line_ps;
        b.hpus_here = (double)c->handler_ps / line_ps;
    }
    return b;
}

static void print_budget(FILE *out, const struct spin_world_counts *c) {
    struct budget b = budget_of(c);
    if (!c->handled_bytes)
        return;
    fprintf(out, "%-24s %" PRIu64 ", %.1f B each\n", "packets to handlers", c->handled_packets,
            b.bytes);
    fprintf(out, "%-24s %.1f\n", "instructions per packet", b.instructions);
    fprintf(out, "%-24s %.1f at an instruction per ns, %.1f as they are here\n",
            "HPUs for 400 Gbit/s", b.hpus, b.hpus_here);
}

/* Counters, and what was lost. */
static void print_counts(FILE *out, const struct spin_world *world) {
    struct spin_world_result r = spin_world_result(world);
    print_count(out, "packets", r.counts.packets);
    if (r.counts.lost)
        print_count(out, "packets lost", r.counts.lost);
    if (r.counts.retransmitted)
        print_count(out, "packets sent again", r.counts.retransmitted);
    print_count(out, "bytes", r.counts.bytes);
    print_count(out, "handlers run", r.counts.handlers);
    if (r.counts.handlers) {
        print_count(out, "instructions of handlers", r.counts.instructions);
        print_ns(out, "HPUs in use for", r.counts.handler_ps);
        print_budget(out, &r.counts);
    }
    if (r.counts.faults)
        print_count(out, "handlers ended by faults", r.counts.faults);
    if (r.counts.flow_control)
        print_count(out, "handlers without context", r.counts.flow_control);
    if (r.counts.dropped)
        print_count(out, "messages dropped", r.counts.dropped);
    print_count(out, "bytes by DMA", r.counts.dma_bytes);
    print_count(out, "events", r.counts.events);
}

static void print_text(const struct spin_world *world) {
    enum { SHOWN = 16 };
    struct spin_world_result r = spin_world_result(world);
    print_ns(stdout, "last rank returns at", r.makespan_ps);
    for (uint32_t i = 0; i < r.ranks && i < SHOWN; i++) {
        char what[32];
        int status;
        if (!spin_world_has_program(world, i)) {
            printf("rank %u has no program\n", i);
            continue;
        }
        uint64_t finish = spin_world_finish_ps(world, i, &status);
        snprintf(what, sizeof what, "rank %u returns %d at", i, status);
        print_ns(stdout, what, finish);
    }
    if (r.ranks > SHOWN)
        printf("and %u more ranks: --csv and --json print all\n", r.ranks - SHOWN);
    print_counts(stdout, world);
}

struct report {
    const struct spin_world *world;
    const char *preset;
};

static void print_csv(FILE *out, const void *what) {
    const struct spin_world *world = ((const struct report *)what)->world;
    uint32_t ranks = spin_world_result(world).ranks;
    fputs("rank,finish_ps,status\n", out);
    for (uint32_t i = 0; i < ranks; i++) {
        int status;
        uint64_t finish = spin_world_finish_ps(world, i, &status);
        fprintf(out, "%u,%" PRIu64 ",%d\n", i, finish, status);
    }
}

static void handlers_json(struct json *j, const struct spin_world_card *card) {
    json_object(j, "handlers_by_kind");
    for (unsigned k = 0; k <= SPIN_CLEANUP_HANDLER; k++) {
        const struct spin_card_handler *h = &card->handler[k];
        if (!h->runs)
            continue;
        json_object(j, card_kind_name((enum spin_handler_kind)k));
        json_u64(j, "runs", h->runs);
        json_u64(j, "instructions", h->instructions);
        json_u64(j, "cycles", h->cycles);
        json_u64(j, "cycles_median", h->spread.p50);
        json_end_object(j);
    }
    json_end_object(j);
}

static void card_json(struct json *j, const struct spin_world_card *card) {
    json_object(j, "card");
    json_string(j, "kind", card->kind);
    json_u64(j, "hpus", card->hpus);
    json_u64(j, "packets_sent", card->packets_sent);
    json_u64(j, "packets_received", card->packets_received);
    json_u64(j, "packets_retransmitted", card->packets_retransmitted);
    json_u64(j, "messages_sent", card->messages_sent);
    json_u64(j, "messages_received", card->messages_received);
    json_u64(j, "handlers", card->handlers);
    json_u64(j, "flow_control", card->flow_control);
    if (strcmp(card->kind, "pspin") == 0) {
        json_u64(j, "handler_instructions", card->instructions);
        json_u64(j, "hpu_busy_ps", card->hpu_busy_ps);
        json_u64(j, "packet_buffer_most_bytes", card->packet_buffer_most_bytes);
        json_u64(j, "packet_buffer_full", card->packet_buffer_full);
        json_u64(j, "host_bytes_written", card->host_bytes_written);
        json_u64(j, "host_bytes_read", card->host_bytes_read);
        json_u64(j, "l1_conflict_cycles", card->l1_conflict_cycles);
        json_u64(j, "icache_misses", card->icache_misses);
        handlers_json(j, card);
    }
    json_end_object(j);
}

static void print_json(FILE *out, const void *what) {
    const struct spin_world *world = ((const struct report *)what)->world;
    const char *preset = ((const struct report *)what)->preset;
    struct json j = {.out = out};
    struct spin_world_result r = spin_world_result(world);
    struct spin_parameter row;
    json_object(&j, NULL);
    json_string(&j, "preset", preset);
    json_object(&j, "parameters");
    for (int i = 0; spin_world_parameter(world, i, &row); i++)
        json_string(&j, row.name, row.value);
    json_end_object(&j);
    json_u64(&j, "makespan_ps", r.makespan_ps);
    json_u64(&j, "packets", r.counts.packets);
    json_u64(&j, "packets_lost", r.counts.lost);
    json_u64(&j, "packets_retransmitted", r.counts.retransmitted);
    json_u64(&j, "bytes", r.counts.bytes);
    json_u64(&j, "handlers", r.counts.handlers);
    json_u64(&j, "handler_instructions", r.counts.instructions);
    json_u64(&j, "handler_ps", r.counts.handler_ps);
    json_u64(&j, "handled_packets", r.counts.handled_packets);
    json_u64(&j, "handled_bytes", r.counts.handled_bytes);
    struct budget b = budget_of(&r.counts);
    json_real(&j, "instructions_per_packet", b.instructions, 3);
    json_real(&j, "hpus_for_400g", b.hpus, 3);
    json_real(&j, "hpus_for_400g_here", b.hpus_here, 3);
    json_u64(&j, "handler_faults", r.counts.faults);
    json_string(&j, "first_fault", r.first_fault);
    json_u64(&j, "messages_dropped", r.counts.dropped);
    json_u64(&j, "flow_control", r.counts.flow_control);
    json_u64(&j, "dma_bytes", r.counts.dma_bytes);
    json_u64(&j, "memory_bytes", r.counts.memory_bytes);
    json_u64(&j, "events", r.counts.events);
    json_array(&j, "ranks");
    for (uint32_t i = 0; i < r.ranks; i++) {
        int status;
        struct spin_world_card card;
        uint64_t finish = spin_world_finish_ps(world, i, &status);
        json_object(&j, NULL);
        json_u64(&j, "rank", i);
        json_u64(&j, "finish_ps", finish);
        json_i64(&j, "status", status);
        if (spin_world_card(world, i, &card))
            card_json(&j, &card);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
}

static int parse_times(const struct cli_command *command, const struct options *o,
                       struct spin_world_options *w) {
    if (o->until && (!units_time_ps(o->until, &w->until_ps) || !w->until_ps))
        return cli_error(command, CLI_USAGE, "--until: '%s' is not a time (such as 10us)",
                         o->until);
    w->noise.seed = o->seed;
    int status = cli_view(command, &o->view, &w->view);
    if (status)
        return status;
    if ((o->view.only || o->view.from || o->view.to) && !o->trace && !o->picture)
        return cli_error(command, CLI_USAGE,
                         "--only, --from and --to choose what --trace and --picture show: say one");
    return o->noise ? cli_noise(command, o->noise, &w->noise) : 0;
}

/* Faults of handlers are told as they happen, the first ones in full. */
struct seen {
    const struct cli_command *command;
    uint64_t faults;
    struct progress progress;
    uint64_t until_us;
};
#define FAULTS_SHOWN 8

static void tell_fault(void *user, const char *text) {
    struct seen *seen = user;
    if (seen->faults++ >= FAULTS_SHOWN)
        return;
    fflush(stdout);
    progress_end(&seen->progress);
    cli_error(seen->command, CLI_FAILED, "%s", text);
}

static void tell_progress(void *user, uint64_t now_ps) {
    struct seen *seen = user;
    progress_show(&seen->progress, "us of virtual time", now_ps / 1000000, seen->until_us);
}

static void tell_port(void *user, uint16_t port, const char *image) {
    (void)user;
    fflush(stdout);
    fprintf(stderr, "waiting for gdb: gdb-multiarch %s -ex 'target remote :%u'\n", image, port);
}

static int parse_faults(const struct cli_command *command, const char *how, bool *ignore) {
    *ignore = how && strcmp(how, "ignore") == 0;
    if (!how || *ignore || strcmp(how, "fail") == 0)
        return 0;
    return cli_error(command, CLI_USAGE, "--faults: '%s' is neither fail nor ignore", how);
}

static int finish(const struct cli_command *command, const struct options *o, const char *program,
                  const struct spin_world *world) {
    struct spin_world_result r = spin_world_result(world);
    const struct report what = {world, o->preset ? o->preset : "sc17-int"};
    int status = o->json ? cli_result(command, o->json, print_json, &what) : 0;
    if (!status && o->csv)
        status = cli_result(command, o->csv, print_csv, &what);
    if (!status && !o->quiet && !cli_is_printed(o->json, o->csv))
        print_text(world);
    fflush(stdout);
    if (status || !r.failed)
        return status;
    return cli_error(command, CLI_FAILED, "%s: %u of %u ranks failed, the first is rank %u: %s %d",
                     program, r.failed, r.ranks, r.first_failed,
                     r.first_exited ? "it called exit with" : "its main returned", r.first_status);
}

/* Where every rank is, a line each. */
static void print_where(const struct spin_world *world) {
    enum { SHOWN = 1000 };
    char text[600];
    uint32_t ranks = spin_world_result(world).ranks, shown = 0, more = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        if (!spin_world_where(world, i, text, sizeof text))
            continue;
        if (shown < SHOWN)
            fprintf(stderr, "  %s\n", text);
        more += shown++ >= SHOWN;
    }
    if (more)
        fprintf(stderr, "  and %u more ranks\n", more);
}

static int check_parameter(void *to, const char *assignment, struct spin_error *err) {
    (void)to;
    return spin_world_check(assignment, err);
}

/* What the file says, then --card, then --set. *set is freed by the caller. */
static int gather_settings(const struct cli_command *command, const struct options *o,
                           const struct params *params, const char ***set,
                           struct spin_world_options *options) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    int card = o->card ? 1 : 0, count = params->count + card + o->set.count;
    bool pspin = o->card && strcmp(o->card, "pspin") == 0;
    if (o->card && !pspin && strcmp(o->card, "sc17") != 0)
        return cli_error(command, CLI_USAGE, "--card: '%.60s' is neither sc17 nor pspin", o->card);
    int status = params_apply(command, params, check_parameter, NULL);
    if (status)
        return status;
    *set = malloc((size_t)(count + 1) * sizeof **set);
    if (!*set)
        return cli_error(command, CLI_FAILED, "out of memory");
    for (int i = 0; i < params->count; i++)
        (*set)[i] = params->assignment[i];
    if (card)
        (*set)[params->count] = cards[pspin];
    for (int i = 0; i < o->set.count; i++)
        (*set)[params->count + card + i] = o->set.items[i];
    options->set = *set;
    options->set_count = count;
    return 0;
}

/* `words` are the program's; none: it is only about parameters. */
static int simulate(const struct cli_command *command, const struct options *o,
                    const struct params *params, const struct cli_list *words) {
    struct spin_world_options options = {
        .ranks = (uint32_t)o->ranks,
        .preset = o->preset,
        .cards = o->cards,
        .topology = o->topology,
        .trace = o->trace,
        .picture = o->picture,
        .pcap = o->pcap,
        .links = o->links,
        .catch_crashes = true,
        .check = o->check,
        .gdb = o->gdb != NO_GDB,
        .gdb_rank = (uint32_t)o->gdb,
        .gdb_port = (uint16_t)o->gdb_port,
        .fault = tell_fault,
        .listening = tell_port,
        /* On a terminal that the program writes to as well the line would stand among its own. */
        .progress = isatty(STDOUT_FILENO) ? NULL : tell_progress,
    };
    struct seen seen = {.command = command};
    bool ignore;
    progress_begin(&seen.progress);
    options.user = &seen;
    struct spin_error err;
    struct spin_world *world;
    const char *program = words->count ? words->items[0] : NULL, **set = NULL;
    int status = gather_settings(command, o, params, &set, &options);
    if (!status)
        status = parse_times(command, o, &options);
    if (!status)
        status = parse_faults(command, o->faults, &ignore);
    if (!status)
        status = cli_jit(command, o->jit, &options.jit);
    /* While the world is made, and by a second ^C while it runs: the first is the world's. */
    cli_interrupt_says("openspin sim run: interrupted, there are no results\n");
    if (!status && spin_world_new(&world, &options, &err))
        status = cli_report(command, &err);
    free(set);
    if (status)
        return status;
    if (o->parameters && (!program || !cli_is_printed(o->json, o->csv)))
        print_parameters(world);
    if (!program && (o->parameters || !o->cards)) {
        spin_world_free(world);
        return 0;
    }
    const char *name = program ? program : o->cards; /* in what is said of it */
    seen.until_us = options.until_ps / 1000000;
    int code = spin_world_run_program(world, program, program ? words->count - 1 : 0,
                                      program ? words->items + 1 : NULL, &err);
    cli_interrupt_says("openspin sim run: interrupted after the run, at its results\n");
    fflush(stdout);
    progress_end(&seen.progress);
    if (code == SPIN_EDEADLOCK || code == SPIN_ELIMIT)
        status = cli_error(command, CLI_FAILED, "%s: %s", name, err.text);
    else if (code == SPIN_EINTERRUPTED)
        status = cli_error(command, CLI_INTERRUPTED, "%s: %s", name, err.text);
    else if (code)
        status = cli_report(command, &err);
    else
        status = finish(command, o, name, world);
    if (code == SPIN_EINTERRUPTED)
        print_where(world);
    if (code == SPIN_EDEADLOCK || code == SPIN_ELIMIT || code == SPIN_EINTERRUPTED)
        print_counts(stderr, world);
    if (seen.faults > FAULTS_SHOWN)
        cli_error(command, CLI_FAILED,
                  "%" PRIu64 " handlers were ended by faults; above are the first %d", seen.faults,
                  FAULTS_SHOWN);
    if (!status && seen.faults && !ignore)
        status = CLI_FAILED;
    spin_world_free(world);
    return status;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.ranks = 1, .seed = 1, .gdb = NO_GDB};
    struct cli_list words;
    struct params params = {0};
    int status = cli_parse(command, argc, argv, &o, &words);
    if (!status && words.count == 0 && !o.parameters && !o.cards)
        status = cli_error(command, CLI_USAGE, "which program? usage: openspin %s %s",
                           command->name, command->args);
    if (!status && o.gdb_port && o.gdb == NO_GDB)
        status = cli_error(command, CLI_USAGE, "--gdb-port: of which rank? say --gdb RANK");
    if (!status)
        status = params_read(command, o.params, &params);
    if (!status)
        status = simulate(command, &o, &params, &words);
    params_free(&params);
    cli_free(command, &o, &words);
    return status;
}

static const struct cli_command sim_run = {
    .name = "sim run",
    .args = "[options] PROGRAM [ARGUMENT...]",
    .summary = "run a Portals program on simulated cards",
    .about = "Runs main(argc, argv) of a shared object (cc -shared -fPIC) on every rank of a\n"
             "simulated world, in virtual time; or an executable that is linked with\n"
             "libportals.so, a process per rank. Whatever follows the program is the program's.\n"
             "Exit status 1 when a rank returns something other than 0, crashes or waits for\n"
             "what will not come, or when a fault ended a handler.",
    .options = table,
    .run = run,
    .launches = true,
};

static const struct cli_command *const commands[] = {&sim_run, NULL};

const struct cli_command cli_sim = {
    .name = "sim",
    .args = "COMMAND ...",
    .summary = "run programs on simulated cards and a simulated network",
    .commands = commands,
};
