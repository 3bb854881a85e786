/* `openspin card run`: traffic through the simulated card. */
#include "cli_card_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "cli_card.h"
#include "memory.h"
#include "profile.h"

struct run_options {
    const char *preset, *state, *host, *rate, *clock, *match, *match_file, *out, *host_out, *trace,
        *packets, *jit, *params, *json, *csv;
    const char *entry[3];
    struct cli_list handler, set, traffic, fill, dump;
    uint64_t memory, scratch, copy, host_bytes, watchdog, hpus, packet_bytes;
    bool check, profile, parameters, fields;
};

#define MOST_HOST     (1ull << 32)
#define MOST_TIMEOUT  (1ull << 62) /* ps: 53 days, as far as simulated time goes */
#define NOT_SAID      UINT64_MAX
#define MOST_TRAFFICS 32

#define AT(member) offsetof(struct run_options, member)
static const struct cli_option table[] = {
    {"handler", 'H', CLI_LIST, "IMAGE[,NAME=VALUE...]",
     "an execution context, ctx0, ctx1, ...; its options: hh, ph, th, memory, scratch, copy, host, "
     "watchdog, timeout",
     AT(handler), 0, 0},
    {"traffic", 'T', CLI_LIST, "SPEC",
     "gen:OPTIONS, pcap:FILE, trace:FILE or csv:FILE,DATA; several are merged by time", AT(traffic),
     0, 0},
    {"rate", 0, CLI_STRING, "RATE",
     "without --traffic: 1000 packets at 400Gbit/s, or 12.5 in Gbit/s", AT(rate), 0, 0},
    {"packet-size", 0, CLI_SIZE, "SIZE", "without --traffic: their size (512)", AT(packet_bytes), 1,
     65535},
    {"preset", 'p', CLI_STRING, "NAME", "the card (pspin)", AT(preset), 0, 0},
    {"set", 's', CLI_LIST, "NAME=VALUE", "one parameter of the card: clusters=2, cycle=0.5ns",
     AT(set), 0, 0},
    {"params", 0, CLI_STRING, "FILE", CLI_PARAMS_HELP, AT(params), 0, 0},
    {"hpus", 0, CLI_NUMBER, "N", "HPUs of the card, in clusters of up to 8 (32)", AT(hpus), 1,
     1024},
    {"clock", 0, CLI_STRING, "FREQUENCY", "of the card: 2GHz, or 1500 in MHz (1GHz)", AT(clock), 0,
     0},
    {"hh", 0, CLI_STRING, "NAME", "header handler (by its name in the image), or none",
     AT(entry[0]), 0, 0},
    {"ph", 0, CLI_STRING, "NAME", "payload handler, or none", AT(entry[1]), 0, 0},
    {"th", 0, CLI_STRING, "NAME", "completion handler, or none", AT(entry[2]), 0, 0},
    {"state", 0, CLI_STRING, "FILE", "initial state of every context", AT(state), 0, 0},
    {"state-size", 0, CLI_SIZE, "SIZE", "L2 handler memory of a context (4KiB)", AT(memory), 0,
     4 << 20},
    {"scratchpad-size", 0, CLI_SIZE, "SIZE",
     "in the L1 of each cluster; of P4sPIN handlers: the state (4KiB)", AT(scratch), 0, 1 << 20},
    {"copy", 0, CLI_SIZE, "SIZE", "bytes of each packet to copy to L1 (all)", AT(copy), 0, 1 << 20},
    {"host", 0, CLI_STRING, "FILE", "initial host memory of every context", AT(host), 0, 0},
    {"host-size", 0, CLI_SIZE, "SIZE", "host memory of a context (1MiB)", AT(host_bytes), 0,
     MOST_HOST},
    {"fill", 0, CLI_LIST, "WHERE=FILE", MEMORY_FILL_HELP, AT(fill), 0, 0},
    {"dump", 0, CLI_OUTPUTS, "WHERE=FILE", MEMORY_DUMP_HELP, AT(dump), 0, 0},
    {"watchdog", 0, CLI_NUMBER, "CYCLES", "how long a handler may run (1000000)", AT(watchdog), 1,
     UINT64_MAX / 2},
    {"jit", 0, CLI_STRING, "HOW", CLI_JIT_HELP, AT(jit), 0, 0},
    {"check", 0, CLI_FLAG, NULL, "find overruns of what P4sPIN handlers allocate", AT(check), 0, 0},
    {"match", 'm', CLI_STRING, "RULES", "which packets go where: 'udp.dport=4791 -> ctx0; ...'",
     AT(match), 0, 0},
    {"match-file", 0, CLI_STRING, "FILE", "the same from a file", AT(match_file), 0, 0},
    {"out", 'o', CLI_OUTPUT, "FILE", "write the packets that the card sends as pcap or pcapng",
     AT(out), 0, 0},
    {"host-out", 0, CLI_OUTPUT, "FILE", "write the packets that go to the host, likewise",
     AT(host_out), 0, 0},
    {"packets", 0, CLI_OUTPUT, "FILE", "write a row per packet as CSV", AT(packets), 0, 0},
    {"trace", 't', CLI_OUTPUT, "FILE", "write a trace for Perfetto or chrome://tracing", AT(trace),
     0, 0},
    {"profile", 0, CLI_FLAG, NULL, "print source and disassembly with cycles, hottest first",
     AT(profile), 0, 0},
    {"json", 'j', CLI_RESULT, "[=FILE]", "print JSON, or write it into a file", AT(json), 0, 0},
    {"csv", 'c', CLI_RESULT, "[=FILE]", "print name,value,unit as CSV, or write it", AT(csv), 0, 0},
    {"parameters", 0, CLI_FLAG, NULL, "list the card's parameters with the source of each",
     AT(parameters), 0, 0},
    {"fields", 0, CLI_FLAG, NULL, "list the fields that rules can match", AT(fields), 0, 0},
    {0},
};
#undef AT

/* ---- execution contexts ---- */

static const char *const letters[] = {"hh", "ph", "th"};

/* The only global function of that kind, or none; two are a question to the user. */
static int entry_by_kind(const struct cli_command *command, const struct spin_image *image,
                         unsigned kind, const struct spin_function **entry) {
    const struct spin_image_info *info = spin_image_info(image);
    *entry = NULL;
    for (uint32_t f = 0; f < info->functions; f++) {
        const struct spin_function *function = &info->function[f];
        if (!function->is_global || function->kind != (enum spin_handler_kind)kind)
            continue;
        if (*entry)
            return cli_error(command, CLI_USAGE,
                             "%s: which %s handler, %s or %s? say --%s NAME, or --%s none",
                             info->path, card_kind_name(function->kind), (*entry)->name,
                             function->name, letters[kind], letters[kind]);
        *entry = function;
    }
    return 0;
}

static int find_entries(const struct cli_command *command, const char *const *names,
                        struct run_context *c) {
    struct spin_error err;
    bool any = false;
    for (unsigned k = 0; k < 3; k++) {
        int status = 0;
        const struct spin_function **handler = &c->made.handler[k];
        *handler = NULL;
        if (!names[k])
            status = entry_by_kind(command, c->image, k, handler);
        else if (strcmp(names[k], "none") != 0 &&
                 spin_image_find(c->image, names[k], handler, &err) != SPIN_OK)
            status = cli_report(command, &err);
        if (status)
            return status;
        any |= *handler != NULL;
    }
    if (!any)
        return cli_error(command, CLI_USAGE,
                         "%s: no handler by name (..._hh, ..._ph, ..._th); say --ph NAME",
                         spin_image_info(c->image)->path);
    return 0;
}

static int make_context(const struct cli_command *command, const struct run_options *o,
                        struct spin_card *card, const char *handler, struct run_context *c) {
    struct spin_error err;
    struct spin_limits limits;
    uint32_t number;
    const char *names[3] = {o->entry[0], o->entry[1], o->entry[2]};
    uint64_t memory = o->memory, scratch = o->scratch, copy = o->copy, host = o->host_bytes;
    uint64_t watchdog = o->watchdog, timeout = 0;
    const struct setting rows[] = {
        {"hh", SETTING_TEXT, &names[0], 0, 0, NULL},
        {"ph", SETTING_TEXT, &names[1], 0, 0, NULL},
        {"th", SETTING_TEXT, &names[2], 0, 0, NULL},
        {"memory", SETTING_BYTES, &memory, 0, 4 << 20, NULL},
        {"scratch", SETTING_BYTES, &scratch, 0, 1 << 20, NULL},
        {"copy", SETTING_BYTES, &copy, 0, 1 << 20, NULL},
        {"host", SETTING_BYTES, &host, 0, MOST_HOST, NULL},
        {"watchdog", SETTING_COUNT, &watchdog, 1, UINT64_MAX / 2, NULL},
        {"timeout", SETTING_TIME, &timeout, 0, MOST_TIMEOUT, NULL},
        {0},
    };
    c->spec = strdup(handler);
    if (!c->spec)
        return cli_error(command, CLI_FAILED, "out of memory");
    char *comma = strchr(c->spec, ',');
    if (comma)
        *comma++ = 0;
    spin_card_limits(card, &limits);
    if (settings_read("--handler", comma, rows, &err) != SPIN_OK ||
        spin_image_load(&c->image, c->spec, &limits, &err) != SPIN_OK)
        return cli_report(command, &err);
    int status = find_entries(command, names, c);
    if (status)
        return status;
    c->made.image = c->image;
    c->made.memory_bytes = (uint32_t)memory;
    c->made.scratch_bytes = (uint32_t)scratch;
    c->made.partial_copy = copy != NOT_SAID;
    c->made.copy_bytes = c->made.partial_copy ? (uint32_t)copy : 0;
    c->made.host_bytes = host;
    c->made.watchdog_cycles = watchdog;
    c->made.timeout_ps = timeout;
    return spin_card_add_context(card, &c->made, &number, &err) ? cli_report(command, &err) : 0;
}

/* ---- profiles: over all runs of a context's handlers ---- */

static bool begin_profiles(struct run_context *context, uint32_t contexts) {
    for (uint32_t i = 0; i < contexts; i++)
        if (!(context[i].profile = profile_new(context[i].image)))
            return false;
    return true;
}

static void print_profiles(const struct run_context *context, uint32_t contexts) {
    for (uint32_t i = 0; i < contexts; i++) {
        printf("profile of ctx%u: %" PRIu64 " cycles, waits for commands included", i,
               context[i].profiled_cycles);
        if (context[i].contended_cycles)
            printf("; %" PRIu64 " of them lost to contention, of no one instruction",
                   context[i].contended_cycles);
        printf("\n");
        profile_print(context[i].profile,
                      &(struct spin_outcome){.cycles = context[i].profiled_cycles});
    }
}

/* ---- while it runs ---- */

struct run_memory {
    struct spin_card *card;
    const struct run_context *context;
};

struct watch {
    struct progress progress;
    struct run_context *context;
};

static void on_progress(void *user, enum spin_card_stage stage, uint64_t done, uint64_t of) {
    card_show_progress(&((struct watch *)user)->progress, stage, done, of);
}

static void on_step(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint32_t cycles) {
    struct run_context *c = ((struct watch *)user)->context + context;
    (void)hpu;
    c->profiled_cycles += cycles;
    profile_count(c->profile, &(struct spin_step){.pc = pc, .cycles = cycles});
}

static void on_stall(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint64_t cycles) {
    struct run_context *c = ((struct watch *)user)->context + context;
    (void)hpu;
    c->profiled_cycles += cycles;
    if (pc)
        profile_wait(c->profile, pc, cycles);
    else
        c->contended_cycles += cycles;
}

/* ---- memory ---- */

/* The state of P4sPIN handlers is in the scratchpad of the message's home cluster, so there is one
 * for each of up to four clusters; without scratchpads, and with PsPIN, it is in L2. */
static uint8_t *reach(void *user, uint32_t context, enum spin_space space, unsigned copy,
                      uint64_t *bytes) {
    const struct run_memory *m = user;
    const struct spin_card_context *made = &m->context[context].made;
    bool near = !spin_image_info(made->image)->is_pspin && made->scratch_bytes;
    if (space == SPIN_STATE && near)
        return copy < SPIN_SPACES - SPIN_SCRATCHPAD
                   ? spin_card_memory(m->card, context, (enum spin_space)(SPIN_SCRATCHPAD + copy),
                                      bytes)
                   : NULL;
    return copy ? NULL : spin_card_memory(m->card, context, space, bytes);
}

static int fill_memory(const struct cli_command *command, const struct run_options *o,
                       const struct memory_view *view) {
    int status = memory_check(command, "--dump", &o->dump, view->contexts);
    for (uint32_t i = 0; i < view->contexts && !status; i++) {
        if (o->state)
            status = memory_fill_one(command, "--state", i, SPIN_STATE, o->state, view);
        if (o->host && !status)
            status = memory_fill_one(command, "--host", i, SPIN_ME_HOST, o->host, view);
    }
    return status ? status : memory_fill(command, &o->fill, view);
}

/* ---- the command ---- */

static int read_match(const struct cli_command *command, const struct run_options *o,
                      struct spin_card *card) {
    struct spin_error err;
    if (o->match && o->match_file)
        return cli_error(command, CLI_USAGE, "--match and --match-file: choose one");
    if (o->match && spin_card_match(card, "--match", o->match, &err))
        return cli_error(command, CLI_USAGE, "%s", err.text);
    if (o->match_file && spin_card_match_file(card, o->match_file, &err))
        return cli_report(command, &err);
    if (!o->match && !o->match_file && o->handler.count > 1)
        return cli_error(command, CLI_USAGE,
                         "%u contexts: which packets go where? say --match 'RULE -> ctx0; ...'",
                         o->handler.count);
    return 0;
}

static int report(const struct cli_command *command, const struct run_options *o,
                  const struct run_report *r) {
    int status = o->json ? cli_result(command, o->json, card_print_json, r) : 0;
    if (!status && o->csv)
        status = cli_result(command, o->csv, card_print_csv, r);
    if (status || cli_is_printed(o->json, o->csv))
        return status;
    if (o->profile)
        print_profiles(r->context, r->contexts);
    card_print_text(r);
    return 0;
}

/* What --traffic says, or --rate and --packet-size; NULL ends it. */
static void list_traffic(const struct run_options *o, const char **to, char *made, size_t room) {
    for (int i = 0; i < o->traffic.count; i++)
        to[i] = o->traffic.items[i];
    if (o->traffic.count)
        return;
    snprintf(made, room, "gen:packets=1000,size=%" PRIu64 ",rate=%.80s",
             o->packet_bytes ? o->packet_bytes : 512, o->rate ? o->rate : "400Gbit/s");
    to[0] = made;
}

static int simulate(const struct cli_command *command, const struct run_options *o,
                    struct spin_card *card, struct run_context *context) {
    struct spin_error err = {0};
    struct spin_card_result result;
    struct watch watch = {.context = context};
    uint32_t contexts = (uint32_t)o->handler.count;
    struct run_memory memory = {card, context};
    const struct memory_view view = {&memory, contexts, reach};
    char made[160];
    const char *traffic[MOST_TRAFFICS + 1] = {NULL};
    list_traffic(o, traffic, made, sizeof made);
    struct spin_card_options run = {.traffic = traffic[0],
                                    .more_traffic = traffic + 1,
                                    .out = o->out,
                                    .host_out = o->host_out,
                                    .trace = o->trace,
                                    .packets = o->packets,
                                    .user = &watch,
                                    .step = o->profile ? on_step : NULL,
                                    .stall = o->profile ? on_stall : NULL,
                                    .progress = on_progress};
    int status = fill_memory(command, o, &view);
    if (status)
        return status;
    progress_begin(&watch.progress);
    if (o->profile && !begin_profiles(context, contexts))
        return cli_error(command, CLI_FAILED, "out of memory");
    int code = spin_card_run(card, &run, &err);
    progress_end(&watch.progress);
    if (code)
        return cli_report(command, &err);
    spin_card_result(card, &result);
    if ((status = memory_dump(command, &o->dump, &view)))
        return status;
    status = report(command, o,
                    &(struct run_report){card, &result, context, contexts, o->preset, traffic});
    return status ? status : result.faults ? CLI_FAILED : 0;
}

static int with_contexts(const struct cli_command *command, const struct run_options *o,
                         struct spin_card *card) {
    size_t count = (size_t)o->handler.count;
    struct run_context *context = calloc(count, sizeof *context);
    int status = context ? 0 : cli_error(command, CLI_FAILED, "out of memory");
    for (size_t i = 0; i < count && !status; i++)
        status = make_context(command, o, card, o->handler.items[i], &context[i]);
    if (!status)
        status = read_match(command, o, card);
    if (!status)
        status = simulate(command, o, card, context);
    spin_card_free(card); /* before its images */
    for (size_t i = 0; context && i < count; i++) {
        spin_image_free(context[i].image);
        profile_free(context[i].profile);
        free(context[i].spec);
    }
    free(context);
    return status;
}

static int check(const struct cli_command *command, const struct run_options *o,
                 const struct cli_list *operands) {
    if (operands->count)
        return cli_error(command, CLI_USAGE, "'%s' is too many; an image goes with --handler",
                         operands->items[0]);
    if (o->profile && cli_is_printed(o->json, o->csv))
        return cli_error(
            command, CLI_USAGE,
            "--profile and --json or --csv are both printed: write one to --json=FILE");
    if (o->parameters)
        return 0;
    if (!o->handler.count)
        return cli_error(command, CLI_USAGE,
                         "which handlers? say --handler IMAGE, made by 'openspin cc'");
    if (!o->traffic.count && !o->rate && !o->packet_bytes)
        return cli_error(command, CLI_USAGE,
                         "which traffic? say --traffic gen:messages=1,packets=32,size=1024, "
                         "--traffic pcap:FILE, or --rate and --packet-size");
    if (o->traffic.count > MOST_TRAFFICS)
        return cli_error(command, CLI_USAGE, "--traffic: %d of them, the limit is %d",
                         o->traffic.count, MOST_TRAFFICS);
    if (o->traffic.count && (o->rate || o->packet_bytes))
        return cli_error(
            command, CLI_USAGE,
            "--rate and --packet-size stand for --traffic: write gen:rate=...,size=...");
    return 0;
}

static int read_params(const struct cli_command *command, const struct run_options *o,
                       struct spin_card *card) {
    struct params params;
    int status = params_read(command, o->params, &params);
    if (!status)
        status = card_apply_params(command, &params, card);
    params_free(&params);
    return status;
}

static int checked(const struct cli_command *command, const struct run_options *o,
                   const struct cli_list *operands) {
    struct spin_error err;
    struct spin_card *card = NULL;
    enum spin_jit jit;
    uint64_t cycle_ps, rate_bits = 0;
    int status = check(command, o, operands);
    if (!status && o->rate)
        status = cli_rate(command, "--rate", o->rate, &rate_bits);
    if (!status)
        status = cli_jit(command, o->jit, &jit);
    if (status)
        return status;
    if (o->clock && (status = cli_clock(command, "--clock", o->clock, &cycle_ps)))
        return status;
    int code = spin_card_new(&card, o->preset, &err);
    if (!code) {
        spin_card_jit(card, jit);
        spin_card_check(card, o->check);
    }
    if (!code && (status = read_params(command, o, card))) {
        spin_card_free(card);
        return status;
    }
    if (!code && o->hpus)
        code = card_set_hpus(card, o->hpus, &err);
    if (!code && o->clock)
        code = card_set_cycle(card, cycle_ps, &err);
    if (!code && rate_bits)
        code = card_set_rate(card, rate_bits, &err);
    for (int i = 0; i < o->set.count && !code; i++)
        code = spin_card_set(card, o->set.items[i], &err);
    if (!code && !o->parameters)
        return with_contexts(command, o, card);
    if (!code)
        card_print_parameters(card);
    spin_card_free(card);
    return code ? cli_report(command, &err) : 0;
}

static int list_fields(void) {
    const char *name, *what;
    for (uint32_t i = 0; (name = spin_card_field(i, &what)); i++)
        printf("%-12s %s\n", name, what);
    printf("%-12s %s\n", "raw[O:N]", "N bytes (1 to 8) at offset O of the packet; also ipv4[O:N],");
    printf("%-12s %s\n", "", "udp[O:N] and payload[O:N]");
    return 0;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct run_options options = {.preset = "pspin",
                                  .memory = 4096,
                                  .scratch = 4096,
                                  .host_bytes = 1 << 20,
                                  .watchdog = 1000000,
                                  .copy = NOT_SAID};
    struct cli_list operands;
    int status = cli_parse(command, argc, argv, &options, &operands);
    if (!status)
        status = options.fields ? list_fields() : checked(command, &options, &operands);
    cli_free(command, &options, &operands);
    return status;
}

const struct cli_command cli_card_run = {
    .name = "card run",
    .args = "--handler IMAGE --traffic SPEC [options]",
    .summary = "simulate traffic through the card",
    .about = "Simulates a PsPIN card: packets arrive, are matched, handlers run on its HPUs, and\n"
             "packets leave. Prints the parameters in effect, throughput, latency and its parts,\n"
             "and what was in use. The exit status is 1 when a handler was ended by a fault.",
    .options = table,
    .run = run,
};
