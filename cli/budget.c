/* openspin budget: what a card designer asks of a handler.
 *
 * With packets of s bits arriving at rate R, one comes every max(g, s / R); N HPUs give each packet
 * N times that (ISCA'21 figure 6, SC'17 section 4.4.2). A handler that holds an HPU for T needs T
 * over the arrival interval of them, and by Little's law the packets in the card fill R * T of
 * buffer (SC'17 section 4.1, ISCA'21 figure 13). */
#include "invoke.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/rng.h"

/* ISCA'21 section IV-B2: 8 cycles of runtime for each packet, 7 to invoke and 1 to complete. */
#define RUNTIME_CYCLES 8

struct options {
    struct invoke_options invoke;
    uint64_t rate, packets, runtime, cycles, clock;
    const char *gap;
    bool json;
};

static const struct cli_option options[] = {
    INVOKE_OPTIONS(struct options, invoke),
    {"rate", 0, CLI_NUMBER, "GBIT", "line rate in Gbit/s (default 400)",
     offsetof(struct options, rate), 1, 1000000},
    {"gap", 0, CLI_STRING, "NS", "least time between packets, LogGP's g (default 0)",
     offsetof(struct options, gap), 0, 0},
    {"packets", 0, CLI_NUMBER, "N", "random packets to measure on (default 32)",
     offsetof(struct options, packets), 1, 1000000},
    {"runtime", 0, CLI_NUMBER, "CYCLES", "an HPU's own work for each packet (default 8)",
     offsetof(struct options, runtime), 0, 1000000},
    {"cycles", 0, CLI_NUMBER, "CYCLES", "no image: take this as the handler's time",
     offsetof(struct options, cycles), 1, 1000000000},
    {"clock", 0, CLI_NUMBER, "MHZ", "the HPUs' clock in MHz (default 1000)",
     offsetof(struct options, clock), 1, 100000},
    {"json", 0, CLI_FLAG, NULL, "print JSON", offsetof(struct options, json), 0, 0},
    {0}};

struct measured {
    double mean_cycles, mean_instructions;
    uint64_t most_cycles, packets;
};

/* One cold run, then the packets on a warm instruction cache: a card at line rate is warm. */
static int measure(const struct cli_command *command, const struct options *o,
                   struct invocation *inv, struct measured *m) {
    struct spin_outcome r;
    struct spin_error err;
    bool fixed = o->invoke.packet || o->invoke.hex;
    struct rng random = rng_seeded(o->invoke.seed ? o->invoke.seed : 1);
    uint64_t count = fixed ? 1 : o->packets ? o->packets : 32, cycles = 0, instructions = 0;
    for (uint64_t i = 0; i <= count; i++) {
        if (spin_rig_call(inv->rig, &inv->call, &r, &err))
            return cli_report(command, &err);
        if (r.ending != SPIN_RETURNED)
            return cli_error(command, CLI_FAILED,
                             "%s was ended: %s at pc 0x%x; see 'openspin exec'",
                             inv->function->name, spin_ending_name(r.ending), r.pc);
        for (uint32_t b = 0; !fixed && b < inv->call.packet_bytes; b++)
            inv->packet[b] = (uint8_t)rng_u64(&random);
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
    double interval, budget, occupied, sustained_gbit, buffer_bytes;
    uint64_t hpus_needed;
    bool holds;
};

static struct answer work_out(double handler_ns, double runtime_ns, uint64_t hpus, uint64_t bytes,
                              double rate, double gap) {
    struct answer a;
    double wire = 8.0 * (double)bytes / rate;
    a.interval = wire > gap ? wire : gap;
    a.budget = (double)hpus * a.interval;
    a.occupied = handler_ns + runtime_ns;
    a.holds = a.occupied <= a.budget;
    a.hpus_needed = (uint64_t)ceil(a.occupied / a.interval - 1e-9);
    if (a.hpus_needed == 0)
        a.hpus_needed = 1;
    double arriving = 8.0 * (double)bytes / a.interval; /* Gbit/s that come in at most */
    double processed = 8.0 * (double)bytes * (double)hpus / a.occupied;
    a.sustained_gbit = processed < arriving ? processed : arriving;
    a.buffer_bytes = arriving * a.occupied / 8;
    return a;
}

static void print_size(double bytes) {
    if (bytes < 10000)
        printf("%.0f bytes", bytes);
    else
        printf("%.1f kB", bytes / 1000);
}

static void print_text(const struct options *o, const struct invocation *inv,
                       const struct measured *m, const struct answer *a, uint64_t hpus,
                       uint64_t bytes, double rate) {
    if (inv->function) {
        printf("%-14s %s, %llu-byte packets, %llu measured, instruction cache warm\n", "handler",
               inv->function->name, (unsigned long long)bytes, (unsigned long long)m->packets);
        printf("%-14s %.1f cycles mean, %llu at most; %.1f instructions, IPC %.2f\n",
               "handler time", m->mean_cycles, (unsigned long long)m->most_cycles,
               m->mean_instructions, m->mean_instructions / m->mean_cycles);
    } else {
        printf("%-14s %.0f cycles, as given\n", "handler time", m->mean_cycles);
    }
    printf("%-14s %.1f ns a packet: the handler and %llu cycles of runtime, at %llu MHz\n",
           "HPU occupied", a->occupied, (unsigned long long)o->runtime,
           (unsigned long long)o->clock);
    printf("%-14s %.1f ns a packet: %llu HPUs, a packet every %.2f ns at %.0f Gbit/s\n",
           "time budget", a->budget, (unsigned long long)hpus, a->interval, rate);
    if (a->holds)
        printf("%-14s held: %.0f %% of the budget used\n", "line rate",
               100 * a->occupied / a->budget);
    else
        printf("%-14s NOT held: %.2f times over the budget, %llu HPUs sustain %.1f Gbit/s\n",
               "line rate", a->occupied / a->budget, (unsigned long long)hpus, a->sustained_gbit);
    printf("%-14s %llu for line rate\n", "HPUs needed", (unsigned long long)a->hpus_needed);
    printf("%-14s ", "packet buffer");
    print_size(a->buffer_bytes);
    printf(" by Little's law, for packets %.1f ns in the card at line rate\n", a->occupied);
}

static void print_json(const struct invocation *inv, const struct measured *m,
                       const struct answer *a, uint64_t hpus, uint64_t bytes, double rate) {
    struct json j = {.out = stdout};
    json_object(&j, NULL);
    if (inv->function)
        json_string(&j, "handler", inv->function->name);
    json_u64(&j, "packet_bytes", bytes);
    json_u64(&j, "hpus", hpus);
    json_real(&j, "rate_gbit", rate, 3);
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
    json_end_object(&j);
}

static int parse_gap(const struct cli_command *command, const char *text, double *gap) {
    char *end;
    *gap = 0;
    if (!text)
        return 0;
    *gap = strtod(text, &end);
    if (end == text || *end || !(*gap >= 0 && *gap <= 1e9))
        return cli_error(command, CLI_USAGE, "--gap: '%s' is no time in ns from 0 to 1e9", text);
    return 0;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.runtime = RUNTIME_CYCLES, .clock = 1000};
    struct cli_list operands;
    struct invocation inv = {0};
    struct measured m = {0};
    double gap = 0;
    int status = cli_parse(command, argc, argv, &o, &operands);
    if (!status)
        status = parse_gap(command, o.gap, &gap);
    if (!status && o.cycles && (operands.count || o.invoke.entry))
        status = cli_error(command, CLI_USAGE, "--cycles stands for an image: give one of them");
    if (!status && o.cycles) {
        m = (struct measured){.mean_cycles = (double)o.cycles, .most_cycles = o.cycles};
        inv.call.packet_bytes = (uint32_t)(o.invoke.packet_bytes ? o.invoke.packet_bytes : 512);
    } else if (!status) {
        status = invoke_begin(command, &o.invoke, &operands, &inv);
        if (!status)
            status = measure(command, &o, &inv, &m);
    }
    uint64_t bytes = inv.call.packet_bytes;
    if (!status && bytes == 0)
        status = cli_error(command, CLI_USAGE, "an empty packet has no rate");
    if (!status) {
        uint64_t hpus = card_limits(&o.invoke.card).hpus;
        double rate = o.rate ? (double)o.rate : 400;
        double cycle_ns = 1000.0 / (double)o.clock;
        struct answer a = work_out(m.mean_cycles * cycle_ns, (double)o.runtime * cycle_ns, hpus,
                                   bytes, rate, gap);
        if (o.json)
            print_json(&inv, &m, &a, hpus, bytes, rate);
        else
            print_text(&o, &inv, &m, &a, hpus, bytes, rate);
    }
    invoke_end(&inv);
    cli_free(command, &o, &operands);
    return status;
}

const struct cli_command cli_budget = {
    .name = "budget",
    .args = "IMAGE --entry NAME [--packet-size SIZE] [--rate GBIT] [--hpus N] [options]",
    .summary = "does a handler hold line rate, and what would",
    .about = "Measures a handler and answers what a card designer asks: the time budget for each "
             "packet,\n"
             "whether the handler holds line rate, how many HPUs would, and what packet buffer\n"
             "Little's law needs.",
    .options = options,
    .run = run,
};
