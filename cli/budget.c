/* openspin budget: what a card designer asks of a handler.
 *
 * With packets of s bits arriving at rate R, one comes every max(g, s / R); N HPUs give each packet
 * N times that (ISCA'21 figure 6, SC'17 section 4.4.2). A handler that holds an HPU for T needs T
 * over the arrival interval of them, and by Little's law the packets in the card fill R * T of
 * buffer (SC'17 section 4.1, ISCA'21 figure 13). HPUs are one unit of the card among others, so the
 * verdict is that of the simulated card under this load (budget_card.c). */
#include "budget.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "base/units.h"

/* ISCA'21 section IV-B2: 8 cycles of runtime for each packet, 7 to invoke and 1 to complete. Only
 * for --cycles; a handler that runs on the card has the card's. */
#define RUNTIME_CYCLES 8
#define RUNTIME_UNSAID UINT64_MAX
/* A card that moves so much of what is offered holds it: the rest is the run's beginning and end.
 */
#define HELD 0.98

struct options {
    struct invoke_options invoke;
    uint64_t count, runtime, cycles;
    const char *rate, *gap, *clock, *params;
    struct cli_list set;
    const char *json;
    bool parameters;
};

static const struct cli_option options[] = {
    INVOKE_OPTIONS(struct options, invoke),
    {"rate", 0, CLI_STRING, "RATE", "line rate: 400Gbit/s, or 12.5 in Gbit/s (default: the card's)",
     offsetof(struct options, rate), 0, 0},
    {"gap", 0, CLI_STRING, "TIME", "least time between packets, LogGP's g: 5ns (default 0)",
     offsetof(struct options, gap), 0, 0},
    {"clock", 0, CLI_STRING, "FREQUENCY", "of the card: 2GHz, or 1500 in MHz (1GHz)",
     offsetof(struct options, clock), 0, 0},
    {"set", 's', CLI_LIST, "NAME=VALUE", "one parameter of the card, as of 'card run'",
     offsetof(struct options, set), 0, 0},
    {"params", 0, CLI_STRING, "FILE", CLI_PARAMS_HELP, offsetof(struct options, params), 0, 0},
    {"parameters", 0, CLI_FLAG, NULL, "list the card's parameters with the source of each",
     offsetof(struct options, parameters), 0, 0},
    {"count", 0, CLI_NUMBER, "N", "random packets to measure on (default 32)",
     offsetof(struct options, count), 1, 1000000},
    {"cycles", 0, CLI_NUMBER, "CYCLES", "no image: take this as the handler's time",
     offsetof(struct options, cycles), 1, 1000000000},
    {"runtime", 0, CLI_NUMBER, "CYCLES",
     "with --cycles: an HPU's own work for a packet (default 8)", offsetof(struct options, runtime),
     0, 1000000},
    {"json", 'j', CLI_RESULT, "[=FILE]", "print JSON, or write it into a file",
     offsetof(struct options, json), 0, 0},
    {0}};

struct measured {
    double mean_cycles, mean_instructions;
    uint64_t most_cycles, packets;
};

/* One cold run, then the packets on a warm instruction cache: a card at line rate is warm. */
static int measure(const struct cli_command *command, const struct options *o,
                   struct invocation *inv, struct progress *progress, struct measured *m) {
    struct spin_outcome r;
    struct spin_error err;
    bool fixed = o->invoke.packet || o->invoke.hex;
    struct rng random = rng_seeded(o->invoke.seed ? o->invoke.seed : 1);
    uint64_t count = fixed ? 1 : o->count ? o->count : 32, cycles = 0, instructions = 0;
    for (uint64_t i = 0; i <= count; i++) {
        if (spin_rig_call(inv->rig, &inv->call, &r, &err))
            return cli_report(command, &err);
        if (r.ending != SPIN_RETURNED)
            return cli_error(command, CLI_FAILED,
                             "%s was ended: %s at pc 0x%x; see 'openspin exec'",
                             inv->function->name, spin_ending_name(r.ending), r.pc);
        for (uint32_t b = 0; !fixed && b < inv->call.packet_bytes; b++)
            inv->packet[b] = (uint8_t)rng_u64(&random);
        progress_show(progress, "packets, to measure the handler", i, count);
        if (i == 0)
            continue;
        cycles += r.cycles;
        instructions += r.instructions;
        if (r.cycles > m->most_cycles)
            m->most_cycles = r.cycles;
    }
    m->packets = count;
    m->mean_cycles = (double)cycles / (double)count;
    m->mean_instructions = (double)instructions / (double)count;
    return 0;
}

/* The answers; times in ns. */
struct answer {
    double interval, budget, occupied, sustained_gbit, buffer_bytes, rate_gbit;
    uint64_t hpus_needed;
    bool holds, tried; /* on the card */
};

static struct answer work_out(const struct budget_load *l, double occupied_ns,
                              const struct budget_trial *t) {
    struct answer a = {.interval = budget_interval_ns(l), .occupied = occupied_ns, .tried = t};
    a.budget = (double)l->hpus * a.interval;
    a.hpus_needed = (uint64_t)ceil(a.occupied / a.interval - 1e-9);
    if (a.hpus_needed == 0)
        a.hpus_needed = 1;
    a.rate_gbit = 8.0 * (double)l->bytes / a.interval; /* that come in at most */
    double processed = 8.0 * (double)l->bytes * (double)l->hpus / a.occupied;
    a.sustained_gbit = t ? t->gbit : processed < a.rate_gbit ? processed : a.rate_gbit;
    a.holds = t ? t->gbit >= HELD * a.rate_gbit : a.occupied <= a.budget;
    a.buffer_bytes = a.rate_gbit * a.occupied / 8;
    return a;
}

static void print_size(double bytes) {
    if (bytes < 10000)
        printf("%.0f bytes", bytes);
    else
        printf("%.1f kB", bytes / 1000);
}

static void print_handler(const struct invocation *inv, const struct measured *m, uint64_t bytes) {
    if (!inv->function) {
        printf("%-14s %.0f cycles, as given\n", "handler time", m->mean_cycles);
        return;
    }
    printf("%-14s %s, %llu-byte packets, %llu measured, instruction cache warm\n", "handler",
           inv->function->name, (unsigned long long)bytes, (unsigned long long)m->packets);
    printf("%-14s %.1f cycles mean, %llu at most; %.1f instructions, IPC %.2f\n", "handler time",
           m->mean_cycles, (unsigned long long)m->most_cycles, m->mean_instructions,
           m->mean_instructions / m->mean_cycles);
}

/* Without a run on the card nothing but the HPUs can be judged. */
static void print_estimate(const struct answer *a, const struct budget_load *l) {
    if (a->holds)
        printf("%-14s held by the HPUs: %.0f %% of the budget used", "line rate",
               100 * a->occupied / a->budget);
    else
        printf("%-14s NOT held: %.2f times over the budget, %llu HPUs sustain %.1f Gbit/s",
               "line rate", a->occupied / a->budget, (unsigned long long)l->hpus,
               a->sustained_gbit);
    printf("; no handler, so nothing ran on the card\n");
}

static void print_verdict(const struct answer *a, const struct budget_trial *t) {
    const struct budget_unit *u = t->unit;
    printf("%-14s %s: the card moves %.1f of %.1f Gbit/s (%llu packets, p99 latency %.1f ns)\n",
           "line rate", a->holds ? "held" : "NOT held", t->gbit, a->rate_gbit,
           (unsigned long long)t->packets, t->latency_ns);
    printf("%-14s %s %.0f %%, %s %.0f %%, %s %.0f %% of the time at this load\n", "busiest units",
           u[0].name, 100 * u[0].used, u[1].name, 100 * u[1].used, u[2].name, 100 * u[2].used);
    if (a->holds)
        return;
    if (u[0].used > 1)
        printf("%-14s %s: %.2f ns per packet, and one comes every %.2f ns\n", "limit", u[0].name,
               u[0].ns, a->interval);
    else
        printf("%-14s packets wait: %s takes %.1f ns more than unloaded, though no unit is over "
               "its time\n",
               "limit", t->waits, t->waits_ns);
}

static void print_text(const struct invocation *inv, const struct measured *m,
                       const struct answer *a, const struct budget_load *l,
                       const struct budget_trial *t) {
    print_handler(inv, m, l->bytes);
    if (t)
        printf("%-14s %.1f ns per packet on the card, with its runtime and waits, at %.4g GHz\n",
               "HPU occupied", a->occupied, 1000.0 / (double)l->cycle_ps);
    else
        printf("%-14s %.1f ns per packet: the handler and %llu cycles of runtime, at %.4g GHz\n",
               "HPU occupied", a->occupied, (unsigned long long)l->runtime_cycles,
               1000.0 / (double)l->cycle_ps);
    printf("%-14s %.1f ns per packet: %llu HPUs, a packet every %.2f ns at %.4g Gbit/s\n",
           "time budget", a->budget, (unsigned long long)l->hpus, a->interval,
           (double)l->rate_bits / 1e9);
    if (t)
        print_verdict(a, t);
    else
        print_estimate(a, l);
    printf("%-14s %llu for line rate\n", "HPUs needed", (unsigned long long)a->hpus_needed);
    printf("%-14s ", "packet buffer");
    print_size(a->buffer_bytes);
    printf(" by Little's law, for packets %.1f ns in the card at line rate\n", a->occupied);
}

static void json_trial(struct json *j, const struct answer *a, const struct budget_trial *t) {
    json_object(j, "card");
    json_real(j, "throughput_gbit", t->gbit, 3);
    json_u64(j, "packets", t->packets);
    json_real(j, "latency_p99_ns", t->latency_ns, 3);
    if (!a->holds)
        json_string(j, "limit", t->unit[0].used > 1 ? t->unit[0].name : t->waits);
    json_array(j, "units");
    for (unsigned u = 0; u < BUDGET_UNITS; u++) {
        json_object(j, NULL);
        json_string(j, "name", t->unit[u].name);
        json_real(j, "ns_per_packet", t->unit[u].ns, 4);
        json_real(j, "used", t->unit[u].used, 4);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}

struct report {
    const struct invocation *inv;
    const struct measured *m;
    const struct answer *a;
    const struct budget_load *l;
    const struct budget_trial *t;
};

static void print_json(FILE *out, const void *what) {
    const struct report *report = what;
    const struct invocation *inv = report->inv;
    const struct measured *m = report->m;
    const struct answer *a = report->a;
    const struct budget_load *l = report->l;
    const struct budget_trial *t = report->t;
    struct json j = {.out = out};
    json_object(&j, NULL);
    if (inv->function)
        json_string(&j, "handler", inv->function->name);
    json_u64(&j, "packet_bytes", l->bytes);
    json_u64(&j, "hpus", l->hpus);
    json_real(&j, "rate_gbit", (double)l->rate_bits / 1e9, 3);
    json_real(&j, "mean_cycles", m->mean_cycles, 3);
    json_u64(&j, "most_cycles", m->most_cycles);
    json_real(&j, "mean_instructions", m->mean_instructions, 3);
    json_real(&j, "interval_ns", a->interval, 4);
    json_real(&j, "budget_ns", a->budget, 3);
    json_real(&j, "occupied_ns", a->occupied, 3);
    json_bool(&j, "holds_line_rate", a->holds);
    json_real(&j, "sustained_gbit", a->sustained_gbit, 3);
    json_u64(&j, "hpus_needed", a->hpus_needed);
    json_real(&j, "buffer_bytes", a->buffer_bytes, 0);
    if (t)
        json_trial(&j, a, t);
    json_end_object(&j);
}

/* What the load has from the card, if nothing else was said. */
static void look_at(const struct spin_card *card, struct budget_load *l) {
    struct spin_parameter row;
    struct spin_limits limits;
    uint64_t fs = 0;
    spin_card_limits(card, &limits);
    l->hpus = limits.hpus;
    for (int i = 0; spin_card_parameter(card, i, &row); i++) {
        if (strcmp(row.name, "cycle") == 0)
            units_time_ps(row.value, &l->cycle_ps);
        else if (strcmp(row.name, "network_rate") == 0 && units_per_byte_fs(row.value, &fs) && fs)
            l->rate_bits = 8000000000000000 / fs;
    }
    if (l->card.rate_bits)
        l->rate_bits = l->card.rate_bits;
}

/* With --cycles there is no card: what was said is taken as it is. */
static void look_at_none(struct budget_load *l) {
    if (l->card.hpus)
        l->hpus = l->card.hpus;
    if (l->card.cycle_ps)
        l->cycle_ps = l->card.cycle_ps;
}

static int read_card(const struct cli_command *command, const struct options *o,
                     struct budget_load *l) {
    struct spin_card *card = NULL;
    struct budget_card *c = &l->card;
    if (o->cycles && (o->set.count || o->params))
        return cli_error(command, CLI_USAGE, "--%s: --cycles runs nothing on a card",
                         o->set.count ? "set" : "params");
    int status = o->rate ? cli_rate(command, "--rate", o->rate, &c->rate_bits) : 0;
    if (!status && o->clock)
        status = cli_clock(command, "--clock", o->clock, &c->cycle_ps);
    c->hpus = o->invoke.card.hpus;
    c->set = &o->set;
    if (!status)
        status = params_read(command, o->params, &c->params);
    if (!status)
        status =
            budget_make_card(command, o->cycles ? &(struct budget_card){.set = &o->set} : c, &card);
    if (!status)
        look_at(card, l);
    if (!status && o->cycles)
        look_at_none(l);
    if (!status && o->parameters)
        card_print_parameters(card);
    spin_card_free(card);
    return status;
}

static int read_load(const struct cli_command *command, const struct options *o,
                     struct budget_load *l) {
    int status = read_card(command, o, l);
    if (!status && o->gap && (!units_time_ps(o->gap, &l->gap_ps) || l->gap_ps > 1000000000000))
        status =
            cli_error(command, CLI_USAGE, "--gap: '%s' is no time (such as 5ns) up to 1s", o->gap);
    l->runtime_cycles = o->runtime == RUNTIME_UNSAID ? RUNTIME_CYCLES : o->runtime;
    return status;
}

/* Long enough that what the first and last packets do does not show, and no longer than a second
 * or two takes. */
static void set_packets(struct budget_load *l, const struct measured *m) {
    double wanted = 30000 / budget_interval_ns(l), least = 16.0 * (double)l->hpus;
    double most = 1e8 / (m->mean_instructions > 1 ? m->mean_instructions : 1);
    wanted = wanted < 2000 ? 2000 : wanted;
    wanted = wanted > most ? most : wanted;
    l->packets = (uint64_t)(wanted < least ? least : wanted);
}

static int answer(const struct cli_command *command, const struct options *o,
                  const struct invocation *inv, const struct measured *m, struct budget_load *l) {
    struct budget_trial trial, *t = NULL;
    int status = 0;
    bool is_handler = inv->function && inv->call.kind != SPIN_OTHER_FUNCTION;
    double cycle_ns = (double)l->cycle_ps / 1000;
    double occupied = (m->mean_cycles + (double)l->runtime_cycles) * cycle_ns;
    if (is_handler && o->runtime != RUNTIME_UNSAID)
        return cli_error(
            command, CLI_USAGE,
            "--runtime is for --cycles: a handler runs on the card, which has its own");
    if (is_handler) {
        set_packets(l, m);
        status = budget_try(command, l, &o->invoke, inv, &trial);
        progress_end(l->progress);
        if (status)
            return status;
        t = &trial;
        occupied = t->hpu_ns;
    }
    struct answer a = work_out(l, occupied, t);
    const struct report report = {inv, m, &a, l, t};
    if (o->json)
        status = cli_result(command, o->json, print_json, &report);
    if (!status && !cli_is_printed(o->json, NULL))
        print_text(inv, m, &a, l, t);
    return status;
}

static int run_load(const struct cli_command *command, const struct options *o,
                    const struct cli_list *operands, struct budget_load *load,
                    struct invocation *inv) {
    struct measured m = {0};
    int status = 0;
    if (o->cycles && (operands->count || o->invoke.entry))
        return cli_error(command, CLI_USAGE, "--cycles stands for an image: give one of them");
    if (o->cycles) {
        m = (struct measured){.mean_cycles = (double)o->cycles, .most_cycles = o->cycles};
        inv->call.packet_bytes = (uint32_t)(o->invoke.packet_bytes ? o->invoke.packet_bytes : 512);
    } else {
        status = invoke_begin(command, &o->invoke, operands, inv);
        if (!status)
            status = measure(command, o, inv, load->progress, &m);
    }
    load->bytes = inv->call.packet_bytes;
    if (!status && load->bytes == 0)
        status = cli_error(command, CLI_USAGE, "an empty packet has no rate");
    if (!status)
        status = answer(command, o, inv, &m, load);
    if (!status && inv->rig)
        status = invoke_dump(command, &o->invoke, inv);
    return status;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.runtime = RUNTIME_UNSAID};
    struct cli_list operands;
    struct invocation inv = {0};
    struct progress progress;
    struct budget_load load = {.progress = &progress};
    int status = cli_parse(command, argc, argv, &o, &operands);
    progress_begin(&progress);
    if (!status)
        status = read_load(command, &o, &load);
    if (!status && !o.parameters)
        status = run_load(command, &o, &operands, &load, &inv);
    progress_end(&progress);
    invoke_end(&inv);
    params_free(&load.card.params);
    cli_free(command, &o, &operands);
    return status;
}

const struct cli_command cli_budget = {
    .name = "budget",
    .args = "IMAGE --entry NAME [--packet-size SIZE] [--rate RATE] [--hpus N] [options]",
    .summary = "does the card keep up with line rate, and what would",
    .about =
        "Measures a handler, runs it on the simulated card at the load, and answers what a card\n"
        "designer asks: the time budget for each packet, whether the card holds line rate and\n"
        "which of its units does not, how many HPUs would, and what packet buffer Little's law\n"
        "needs.",
    .options = options,
    .run = run,
};
