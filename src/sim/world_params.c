/* Every constant of a simulated world beyond its network: name, unit, value in both presets,
 * source; and how they are set. The network's are in packet_params.c, and --set takes either. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "hpu/map.h"
#include "sim/world_cards.h"

enum unit { TIME, BYTES, NUMBER };

struct parameter {
    const char *name, *what, *source;
    enum unit unit;
    size_t offset;
    uint64_t value, min, max;
};

#define ROW(name, what, source, unit, value, min, max)                                             \
    { #name, what, source, unit, offsetof(struct world_params, name), value, min, max }
#define MOST_TIME (1ull << 50) /* 18 minutes */
static const struct parameter parameters[] = {
    ROW(o, "cpu time to hand an operation to the card", "SC'17 sec. 4.2", TIME, 65000, 0,
        MOST_TIME),
    ROW(g, "gap between packets into and out of a card", "SC'17 sec. 4.2", TIME, 6700, 0,
        MOST_TIME),
    ROW(match_header, "matching of a header packet", "SC'17 sec. 4.2", TIME, 30000, 0, MOST_TIME),
    ROW(match_packet, "look-up of a following packet", "SC'17 sec. 4.2", TIME, 2000, 0, MOST_TIME),
    ROW(dma_reads, "latencies of a DMA from the host: request and data", "SC'17 app. C.3.2", NUMBER,
        2, 1, 2),
    ROW(memory_latency, "of the host's memory", "SC'17 sec. 4.2", TIME, 51000, 0, MOST_TIME),
    ROW(poll, "cpu time to see a completion that has come", "ours: one access to memory", TIME,
        51000, 0, MOST_TIME),
    ROW(call, "cpu time of a call that hands nothing to the card", "ours: none", TIME, 0, 0,
        MOST_TIME),
    ROW(cpu_cycle, "of a host's core", "SC'17 sec. 4.2: 2.5 GHz", TIME, 400, 1, MOST_TIME),
    ROW(cores, "of a host; threads of a rank take one each, in turn", "SC'17 sec. 4.2", NUMBER, 8,
        1, 1024),
    ROW(hpus, "handler processors of a card", "SC'17 sec. 4.2", NUMBER, 4, 0, 64),
    ROW(hpu_cycle, "of an HPU", "SC'17 sec. 4.2: 2.5 GHz", TIME, 400, 1, MOST_TIME),
    ROW(hpu_start, "from a free HPU and a ready packet to the handler", "SC'17 sec. 2: a cycle",
        TIME, 400, 0, MOST_TIME),
    ROW(hpu_budget, "cycles that a handler may run, beside its waits", "ours", NUMBER, 1000000, 1,
        1ull << 40),
    ROW(hpu_quantum, "cycles that an HPU may run ahead of the rest", "ours", NUMBER, 1000, 1,
        1ull << 32),
    ROW(hpu_memory, "of a card, for handlers' state", "ours", BYTES, 1 << 20, 64, 1 << 28),
    ROW(scratchpad, "in each L1 of a card, for the handlers of one image of PsPIN's interface",
        "ours: as card run", BYTES, 4096, 0, MAP_L1_SCRATCH_SIZE),
    ROW(contexts, "handlers queued or running on a card, then flow control", "ours", NUMBER, 1024,
        1, 1 << 20),
    ROW(handler_packets, "packets that handlers have sent and are on the card, then they wait",
        "ours", NUMBER, 64, 1, 1 << 20),
    ROW(turn_packets, "of a message, then the card sends to another peer",
        "ours: one message after the other, as LogGP does", NUMBER, 1 << 20, 1, 1 << 20),
    ROW(window, "packets on the way to one peer, where the network loses some", "ours", NUMBER, 64,
        1, 4096),
    ROW(stack, "of a rank's program", "ours", BYTES, 256 << 10, 16 << 10, 1ull << 30),
    ROW(patience, "seconds that a program may really compute between calls; 0: any", "ours", NUMBER,
        60, 0, 1 << 20),
};
#undef ROW
enum { PARAMETERS = sizeof parameters / sizeof parameters[0] };

static uint64_t *member(struct world_params *p, int i) {
    return (uint64_t *)(void *)((char *)p + parameters[i].offset);
}

static bool is_part(const char *preset) {
    return preset && strcmp(preset, "part") == 0;
}

/* The hosts of the page-fault paper: four cores of 1.2 GHz, and a card that they reach in 150 ns
 * there and back, whose own processor takes 3 us (sections 4.1 and 4.2). */
static void set_part(struct world_params *to) {
    to->o = 150000;
    to->g = 0;
    to->cpu_cycle = 833;
    to->cores = 4;
    to->paging.memory = PAGING_DEMAND;
    to->paging.start_ps = 3000000;
}

int world_params_preset(struct world_params *to, const char *preset, struct spin_error *err) {
    if (strcmp(preset, "sc17-int") != 0 && strcmp(preset, "sc17-dis") != 0 && !is_part(preset))
        return spin_fail(err, SPIN_EARG,
                         "unknown preset '%.60s'; a world has sc17-int, sc17-dis and part", preset);
    for (int i = 0; i < PARAMETERS; i++)
        *member(to, i) = parameters[i].value;
    to->is_pspin = false;
    paging_config_default(&to->paging);
    if (is_part(preset))
        set_part(to);
    int code = card_config_preset(&to->pspin, "pspin", err);
    return code ? code : spin_packet_preset(preset, &to->network, err);
}

static int out_of_range(const struct parameter *p, const char *text, struct spin_error *err) {
    static const char *const units[] = {" ps", " bytes", ""};
    return spin_fail(err, SPIN_EARG, "%s: '%.60s' is outside the limits, %llu to %llu%s", p->name,
                     text, (unsigned long long)p->min, (unsigned long long)p->max, units[p->unit]);
}

/* Neither ours nor the network's. */
static bool is_known(const struct world_params *of, const char *name, size_t length,
                     struct text_near *near) {
    struct spin_parameter row;
    for (int i = 0; world_params_row(of, NULL, i, &row); i++) {
        text_near_try(near, row.name);
        if (strlen(row.name) == length && memcmp(row.name, name, length) == 0)
            return true;
    }
    return false;
}

/* card=sc17, card=pspin. */
static int set_card(struct world_params *to, const char *name, struct spin_error *err) {
    to->is_pspin = strcmp(name, "pspin") == 0;
    if (!to->is_pspin && strcmp(name, "sc17") != 0)
        return spin_fail(err, SPIN_EARG, "card: '%.60s' is neither sc17 nor pspin", name);
    return SPIN_OK;
}

int world_params_set(struct world_params *to, const char *assignment, struct spin_error *err) {
    if (strncmp(assignment, "card=", 5) == 0)
        return set_card(to, assignment + 5, err);
    if (strncmp(assignment, "pspin.", 6) == 0)
        return card_config_set(&to->pspin, assignment + 6, err);
    if (strncmp(assignment, "paging.", 7) == 0)
        return paging_config_set(&to->paging, assignment, err);
    const char *equals = strchr(assignment, '=');
    size_t length = equals ? (size_t)(equals - assignment) : 0;
    for (int i = 0; equals && i < PARAMETERS; i++) {
        const struct parameter *p = &parameters[i];
        if (strlen(p->name) != length || memcmp(p->name, assignment, length) != 0)
            continue;
        const char *text = equals + 1;
        uint64_t parsed = 0;
        if (p->unit == TIME && !units_time_ps(text, &parsed))
            return spin_fail(err, SPIN_EARG, "%s: '%.60s' is not a time (such as 65ns)", p->name,
                             text);
        if (p->unit == BYTES && !units_size(text, &parsed))
            return spin_fail(err, SPIN_EARG, "%s: '%.60s' is not a size (such as 64KiB)", p->name,
                             text);
        if (p->unit == NUMBER && !units_u64(text, &parsed))
            return spin_fail(err, SPIN_EARG, "%s: '%.60s' is not a number", p->name, text);
        if (parsed < p->min || parsed > p->max)
            return out_of_range(p, text, err);
        *member(to, i) = parsed;
        return SPIN_OK;
    }
    struct text_near near = text_near(assignment, length);
    if (equals && !is_known(to, assignment, length, &near))
        return spin_fail(err, SPIN_EARG,
                         "unknown parameter '%.*s'%s; 'openspin sim run --parameters' lists all",
                         (int)(length < 40 ? length : 40), assignment, text_near_hint(&near).text);
    return spin_packet_set(&to->network, assignment, err);
}

/* What is one for the whole world: its network, and what belongs to the simulation. */
static bool is_shared(const struct world_params *p, const char *name, size_t length) {
    static const char *const shared[] = {"cores", "stack", "patience"};
    static const char *const own[] = {"dma_latency", "dma_rate", "memory_rate"};
    struct spin_parameter row;
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        if (strlen(shared[i]) == length && memcmp(shared[i], name, length) == 0)
            return true;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strlen(own[i]) == length && memcmp(own[i], name, length) == 0)
            return false;
    for (int i = 0; spin_packet_parameter(&p->network, NULL, i, &row); i++)
        if (strlen(row.name) == length && memcmp(row.name, name, length) == 0)
            return true;
    return false;
}

int world_params_set_own(struct world_params *to, const char *assignment, struct spin_error *err) {
    size_t length = strcspn(assignment, "=");
    if (assignment[length] && is_shared(to, assignment, length))
        return spin_fail(err, SPIN_EARG, "%.*s: all ranks have the same; set it without ranks",
                         (int)length, assignment);
    return world_params_set(to, assignment, err);
}

uint32_t world_params_hpus(const struct world_params *of) {
    return (uint32_t)(of->is_pspin ? of->pspin.clusters * of->pspin.cluster_hpus : of->hpus);
}

/* The network's rows follow ours; what is no part of a world's network is left out. */
static bool network_row(const struct world_params *of, const char *preset, int i,
                        struct spin_parameter *row) {
    for (int k = 0; spin_packet_parameter(&of->network, preset, k, row); k++)
        if (strcmp(row->name, "dma") != 0 && i-- == 0)
            return true;
    return false;
}

/* Of hosts whose memory is always there, only that. */
static bool paging_row(const struct world_params *of, int i, struct spin_parameter *row) {
    return (i == 0 || of->paging.memory != PAGING_OFF) && paging_config_row(&of->paging, i, row);
}

/* The datapath of the cards, and with PsPIN's what it has. */
static bool card_row(const struct world_params *of, int i, struct spin_parameter *row) {
    static const char *const names[] = {
#define CARD_PARAMETER(member, value, unit, min, max, what, source) "pspin." #member,
#include "sim/card_params.def"
#undef CARD_PARAMETER
    };
    if (i == 0) {
        *row = (struct spin_parameter){.name = "card",
                                       .what = "datapath of the cards: sc17 or pspin",
                                       .source = of->is_pspin ? SPIN_SET_BY_USER : "SC'17"};
        snprintf(row->value, sizeof row->value, "%s", of->is_pspin ? "pspin" : "sc17");
        return true;
    }
    if (!of->is_pspin || !card_config_row(&of->pspin, i - 1, row))
        return false;
    row->name = names[i - 1];
    return true;
}

bool world_params_row(const struct world_params *of, const char *preset, int i,
                      struct spin_parameter *row) {
    if (i < 0)
        return false;
    if (i >= PARAMETERS) {
        int network = 0, card = 0;
        while (network_row(of, preset, network, row))
            network++;
        i -= PARAMETERS;
        if (i < network)
            return network_row(of, preset, i, row);
        while (card_row(of, card, row))
            card++;
        i -= network;
        return i < card ? card_row(of, i, row) : paging_row(of, i - card, row);
    }
    const struct parameter *p = &parameters[i];
    uint64_t value = *member((struct world_params *)(uintptr_t)of, i);
    struct world_params part;
    *row = (struct spin_parameter){.name = p->name,
                                   .what = p->what,
                                   .source = value == p->value ? p->source : SPIN_SET_BY_USER};
    if (value != p->value && is_part(preset)) {
        part = *of;
        set_part(&part);
        if (*member(&part, i) == value)
            row->source = "PART sec. 4.1 and 4.2";
    }
    if (p->unit == TIME)
        units_thousandths(row->value, sizeof row->value, value, "ns");
    else
        snprintf(row->value, sizeof row->value, "%llu%s", (unsigned long long)value,
                 p->unit == BYTES ? " B" : "");
    return true;
}
