/* The use cases of spinlib (handlers/speed.h): how long an operation takes by cards and by
 * processors, simulated on both cards or live, and what handlers cost a card. */
#include "speed.h"
#include "figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "live_ranks.h"

enum { CARDS = 2 };
#define LINE_PS_PER_BYTE 20.0 /* 400 Gbit/s */

static double operation_us(const struct speed_round *r) {
    return (double)(r->end_ps - r->start_ps) / (double)r->operations / 1e6;
}

static double megabytes(const struct speed_round *r) {
    return (double)r->bytes / ((double)(r->end_ps - r->start_ps) / 1e6);
}

/* With other ranks or sizes the operation is another. */
static void note_case(const struct experiment_context *context, struct sheet *s,
                      const struct speed_case *c) {
    uint32_t ranks = context->setup.ranks, bytes = (uint32_t)context->setup.bytes;
    if (!speed_fits(c, ranks, bytes))
        sheet_note(s, "%s: left out; it has %u ranks or more%s, and multiples of %u B%s.", c->name,
                   c->least_ranks, c->in_pairs ? " in pairs" : "", c->least_bytes,
                   c->most_bytes ? " up to a limit" : "");
    else if (bytes)
        sheet_note(s, "%s: %s; but of %u B, %u ranks", c->name, c->operation, bytes,
                   ranks ? ranks : c->ranks);
    else
        sheet_note(s, "%s: %s, %u ranks", c->name, c->operation, ranks ? ranks : c->ranks);
}

static bool fits(const struct experiment_context *context, const struct speed_case *c) {
    return speed_fits(c, context->setup.ranks, (uint32_t)context->setup.bytes);
}

/* Of both cards the one that the caller wants. */
static bool has_card(const struct experiment_context *context, int card) {
    const char *chosen = context->setup.card;
    return !chosen || strcmp(chosen, card ? "pspin" : "sc17") == 0;
}

/* ---- simulated ---- */

struct scene {
    const struct speed_case *use_case;
    struct speed speed;
};

static int rank(void *argument) {
    struct scene *s = argument;
    return speed_rank(s->use_case, &s->speed);
}

static int measure(const struct experiment_context *context, const struct speed_case *c, int card,
                   bool by_host, double *us, uint64_t *bytes, struct spin_world_counts *counts,
                   struct spin_error *err) {
    static const char *const cards[CARDS] = {"card=sc17", "card=pspin"};
    const struct experiment_setup *setup = &context->setup;
    const struct spin_world_options base = {
        .ranks = setup->ranks ? setup->ranks : c->ranks, .set = &cards[card], .set_count = 1};
    struct scene s = {.use_case = c,
                      .speed = {.by_host = by_host, .bytes = (uint32_t)setup->bytes}};
    int code = experiment_ranks_counted(context, c->image, &base, rank, &s, counts, err);
    *us = operation_us(speed_best(&s.speed));
    *bytes = speed_best(&s.speed)->bytes;
    return code;
}

/* HPUs that are busy all the time if so many bytes come at 400 Gbit/s. */
static double hpus(double busy_ps, uint64_t bytes) {
    return busy_ps / (LINE_PS_PER_BYTE * (double)bytes);
}

static int tabulate(const struct experiment_context *context, const struct speed_case *c,
                    struct sheet *s, struct sheet_panel *speed, struct sheet_panel *budget,
                    struct spin_error *err) {
    double us[CARDS][2];
    uint64_t bytes;
    struct spin_world_counts counts[CARDS], unused;
    for (int card = 0; card < CARDS; card++) {
        if (!has_card(context, card)) {
            us[card][0] = us[card][1] = NAN;
            counts[card] = (struct spin_world_counts){0};
            continue;
        }
        int code = measure(context, c, card, true, &us[card][0], &bytes, &unused, err);
        if (!code)
            code = measure(context, c, card, false, &us[card][1], &bytes, &counts[card], err);
        if (code)
            return code;
    }
    struct sheet_row *row = sheet_row(s, speed, c->name);
    for (int card = 0; card < CARDS; card++) {
        row->value[1 + 3 * card] = us[card][0];
        row->value[2 + 3 * card] = us[card][1];
        row->value[3 + 3 * card] = us[card][0] / us[card][1];
    }
    row = sheet_row(s, budget, c->name);
    const struct spin_world_counts *n = &counts[has_card(context, 0) ? 0 : 1];
    double packets = (double)n->handled_packets;
    row->value[1] = packets;
    row->value[2] = (double)n->handled_bytes / packets;
    row->value[3] = (double)n->instructions / packets;
    row->value[4] = hpus(1000.0 * (double)n->instructions, n->handled_bytes);
    for (int card = 0; card < CARDS; card++)
        row->value[5 + card] = !has_card(context, card) ? NAN
                                                        : hpus((double)counts[card].handler_ps,
                                                               counts[card].handled_bytes);
    row->value[7] = hpus(1000.0 * (double)n->instructions, bytes);
    return SPIN_OK;
}

int spinlib_speed(const struct experiment_context *context, struct sheet *s,
                  struct spin_error *err) {
    static const char *const names[CARDS] = {"SC'17", "PsPIN"};
    struct sheet_panel *speed = sheet_panel(s, "speed", "Time of an operation");
    struct sheet_panel *budget = sheet_panel(s, "budget", "What handlers cost");
    speed->by_name = budget->by_name = true;
    sheet_column(speed, "", 0, "use case");
    for (int card = 0; card < CARDS; card++) {
        sheet_column(speed, "us", 2, "hosts (%s)", names[card]);
        sheet_column(speed, "us", 2, "cards (%s)", names[card]);
        sheet_column(speed, "", 2, "speedup");
    }
    sheet_column(budget, "", 0, "use case");
    sheet_column(budget, "", 0, "packets to handlers");
    sheet_column(budget, "B", 0, "each");
    sheet_column(budget, "", 1, "instructions per packet");
    sheet_column(budget, "", 1, "HPUs at 1 per ns");
    for (int card = 0; card < CARDS; card++)
        sheet_column(budget, "", 1, "HPUs (%s)", names[card]);
    sheet_column(budget, "", 1, "all HPUs");
    for (int i = 0; speed_cases[i]; i++) {
        if (!fits(context, speed_cases[i]))
            continue;
        int code = tabulate(context, speed_cases[i], s, speed, budget, err);
        if (code)
            return code;
    }
    for (int i = 0; speed_cases[i]; i++)
        note_case(context, s, speed_cases[i]);
    sheet_note(
        s, "HPUs: how many keep up with 400 Gbit/s of packets as these are; at an instruction per "
           "ns, and as long as those of each card are in use, waiting for DMA included.");
    sheet_note(s, "All HPUs: those of all cards together that keep up with 400 Gbit/s of what is "
                  "broadcast, inserted, written or scanned, at an instruction per ns.");
    return SPIN_OK;
}

/* ---- live ---- */

int spinlib_speed_live(const struct experiment_context *context, struct sheet *s,
                       struct spin_error *err) {
    int fd, code = SPIN_OK;
    struct speed_plan *plan = live_memory_new(context, sizeof *plan, &fd, err);
    if (!plan)
        return err->code;
    snprintf(plan->images, sizeof plan->images, "%s", context->workloads);
    struct sheet_panel *p = sheet_panel(s, "live", "Live: time of an operation, and throughput");
    p->by_name = true;
    sheet_column(p, "", 0, "use case");
    sheet_column(p, "us", 2, "hosts");
    sheet_column(p, "us", 2, "cards");
    sheet_column(p, "", 2, "speedup");
    sheet_column(p, "MB/s", 1, "hosts");
    sheet_column(p, "MB/s", 1, "cards");
    for (uint32_t i = 0; speed_cases[i] && !code; i++) {
        if (!fits(context, speed_cases[i]))
            continue;
        uint32_t ranks = context->setup.ranks ? context->setup.ranks : speed_cases[i]->ranks;
        struct sheet_row *row = sheet_row(s, p, speed_cases[i]->name);
        plan->number = i;
        for (int by_card = 0; by_card < 2 && !code; by_card++) {
            plan->speed = (struct speed){
                .live = true, .by_host = !by_card, .bytes = (uint32_t)context->setup.bytes};
            code = live_ranks(context, "spinlib-live", fd, ranks, err);
            row->value[1 + by_card] = operation_us(speed_best(&plan->speed));
            row->value[4 + by_card] = megabytes(speed_best(&plan->speed));
        }
        row->value[3] = row->value[1] / row->value[2];
    }
    for (int i = 0; speed_cases[i]; i++)
        note_case(context, s, speed_cases[i]);
    sheet_note(s,
               "Processes with shared memory between them, on %ld processors; the shortest of %u "
               "rounds, after one in which handlers are compiled.",
               sysconf(_SC_NPROCESSORS_ONLN), SPEED_ROUNDS - 1);
    live_memory_free(plan, sizeof *plan, fd);
    return code;
}
