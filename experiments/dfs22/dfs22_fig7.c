/* DFS building blocks, figure 7: what a 2 KiB packet costs in a PsPIN card before and while a
 * client's request is validated. Requests come one at a time; the times are those of the card's own
 * trace of a packet, and of its handler. */
#include "figures.h"

#include <string.h>

#include "base/error.h"
#include "experiment_card.h"
#include "handlers/validate.h"
#include "pspin/card_bench.h"

enum { BYTES = 2048, WARM = 8, PACKETS = 16 };
enum { KEY0 = 0x1234567, KEY1 = 0x89abcde, TICKET = 0x77665544, NOW = 1000 };

enum part { INTO_BUFFER, SCHEDULED, INTO_L1, TO_HPU, HANDLER, PARTS };
static const char *const names[] = {"into the packet buffer", "scheduled to a cluster", "into L1",
                                    "to an idle HPU", "handler"};

enum way { BY_TICKET, KNOWN, SIGNED, WAYS };
static const struct {
    const char *name, *entry;
} ways[WAYS] = {[BY_TICKET] = {"ticket", "validate_ticket"},
                [KNOWN] = {"known capability", "validate_known"},
                [SIGNED] = {"signed capability", "validate_capability"}};

struct seen {
    struct card_bench bench; /* first: the card's callbacks are given it */
    uint64_t start_ps[CARD_ROW_REFUSED + 1], end_ps[CARD_ROW_REFUSED + 1]; /* of the last packet */
    enum way way;
};

static void on_span(void *user, const struct card_span *span) {
    struct seen *seen = user;
    seen->start_ps[span->row] = span->start_ps;
    seen->end_ps[span->row] = span->end_ps;
}

/* Every fourth of those that warm the caches is forged. One that is known comes from one client. */
static void fill(void *user, uint32_t i, uint8_t *bytes) {
    const struct seen *seen = user;
    uint32_t who = seen->way == KNOWN ? 1 : i;
    struct validate_request r = {.capability = {.object = who,
                                                .first = 4096,
                                                .bytes = 65536,
                                                .rights = VALIDATE_WRITE,
                                                .expires = NOW + 1,
                                                .client = 7 + who},
                                 .offset = 8192,
                                 .length = 16384};
    r.signature = seen->way == BY_TICKET ? TICKET : validate_sign(&r.capability, KEY0, KEY1);
    if (i < WARM && i % 4 == 3)
        r.signature++;
    memcpy(bytes, &r, sizeof r);
}

/* What the handlers have done must be right, or their time means nothing. */
static int check(struct seen *seen, struct spin_error *err) {
    struct card *card = seen->bench.card;
    uint32_t bytes, accepted = 0, at = card_address(card, seen->bench.context, UINT32_MAX, &bytes);
    struct card_config config;
    int code = experiment_card(seen->bench.context_of, NULL, &config, err);
    const struct validate_node *node =
        (const void *)card_reach(card, seen->bench.context, at, sizeof *node);
    for (uint32_t i = 0; i < config.clusters && !code; i++) {
        at = card_address(card, seen->bench.context, i, &bytes);
        const struct validate_table *table =
            (const void *)card_reach(card, seen->bench.context, at, sizeof *table);
        accepted += table->accepted;
    }
    if (code || (accepted == PACKETS - WARM / 4 && node->denied == WARM / 4))
        return code;
    return spin_fail(err, SPIN_EFORMAT, "%u requests accepted and %u denied, expected %u and %u",
                     accepted, node->denied, PACKETS - WARM / 4, WARM / 4);
}

static int measure(const struct experiment_context *context, enum way way, double ns[PARTS],
                   double *instructions, struct spin_error *err) {
    struct seen seen = {.way = way};
    struct card_bench_setup setup = {.image = "validate",
                                     .entry = ways[way].entry,
                                     .memory_bytes = sizeof(struct validate_node),
                                     .scratch_bytes = sizeof(struct validate_table)};
    struct card_bench_traffic traffic = {
        .packets = PACKETS,
        .bytes = experiment_size(context, BYTES),
        .messages = 1,
        .interval_ps = 4000000,
        .together = context->setup.ranks > 1 ? context->setup.ranks - 1 : 1,
        .warm = WARM,
        .fill = fill,
        .user = &seen};
    struct card_stats stats;
    uint32_t bytes;
    int code = card_bench_open(&seen.bench, context, &setup, err);
    if (code)
        return code;
    card_bench_spans(&seen.bench, on_span);
    uint32_t at = card_address(seen.bench.card, seen.bench.context, UINT32_MAX, &bytes);
    struct validate_node node = {.key = {KEY0, KEY1}, .ticket = TICKET, .now = NOW};
    memcpy(card_reach(seen.bench.card, seen.bench.context, at, sizeof node), &node, sizeof node);
    code = card_bench_run(&seen.bench, &traffic, &stats, err);
    if (!code)
        code = check(&seen, err);
    if (!code) {
        ns[INTO_BUFFER] =
            (double)(seen.end_ps[CARD_ROW_INBOUND] - seen.start_ps[CARD_ROW_INBOUND]) / 1000;
        ns[SCHEDULED] = (double)stats.part[CARD_PART_QUEUE].p50 / 1000;
        ns[INTO_L1] = (double)stats.part[CARD_PART_COPY].p50 / 1000;
        ns[TO_HPU] = (double)stats.part[CARD_PART_ASSIGN].p50 / 1000;
        ns[HANDLER] = (double)stats.part[CARD_PART_HANDLER].p50 / 1000;
        *instructions = (double)stats.handler[SPIN_PAYLOAD_HANDLER].instructions /
                        (double)stats.handler[SPIN_PAYLOAD_HANDLER].runs;
    }
    card_bench_close(&seen.bench);
    return code;
}

int dfs22_fig7(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const double published[] = {32, 2, 43, 1, 200};
    double ns[WAYS][PARTS], instructions[WAYS];
    uint32_t bytes = experiment_size(context, BYTES);
    if (bytes < sizeof(struct validate_request))
        return spin_fail(err, SPIN_EARG, "--bytes %u: a request has %zu", bytes,
                         sizeof(struct validate_request));
    for (int w = 0; w < WAYS; w++) {
        int code = measure(context, (enum way)w, ns[w], &instructions[w], err);
        if (code)
            return code;
    }
    char title[60];
    snprintf(title, sizeof title, "A %u B packet in an idle card", bytes);
    struct sheet_panel *p =
        sheet_panel(s, "parts", bytes == BYTES ? "A 2 KiB packet in an idle card" : title);
    p->by_name = true;
    sheet_column(p, "", 0, "part");
    for (int w = 0; w < WAYS; w++)
        sheet_column(p, "cycles", 0, "%s", ways[w].name);
    for (int i = 0; i < PARTS; i++) {
        struct sheet_row *row = sheet_row(s, p, names[i]);
        for (int w = 0; w < WAYS; w++)
            row->value[1 + w] = ns[w][i];
    }
    experiment_note_network(context, s);
    if (experiment_one_row(context))
        return SPIN_OK;
    struct sheet_claim *claim[PARTS];
    for (int i = 0; i < PARTS; i++)
        claim[i] = sheet_claim(s, "C4", "cycles", ns[KNOWN][i], published[i], "%s", names[i]);
    sheet_because(claim[SCHEDULED],
                  "from execution request to cluster scheduler, as the public RTL has it");
    sheet_because(
        claim[HANDLER],
        "%.0f instructions in the mean, and %.0f (%.0f cycles) when it computes the keyed hash "
        "(HalfSipHash-2-4 of 24 bytes); the paper's 120 (C6) have no room for one",
        instructions[KNOWN], instructions[SIGNED], ns[SIGNED][HANDLER]);
    sheet_note(s, "Requests come one at a time to a card with warm instruction caches; the key is "
                  "in L2, the table of requests in L1. Forged requests among them are denied.");
    return SPIN_OK;
}
