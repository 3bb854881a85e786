/* Every parameter of the packet model: name, unit, default, source; and how they are set. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

enum unit { TIME, RATE, BYTES, NUMBER, PROBABILITY, CHOICE, TEXT };

#define WORDS 3
struct parameter {
    const char *name, *what, *source;
    enum unit unit;
    size_t offset;
    uint64_t min, max;
    const char *words[WORDS]; /* of a choice, in the order of its enumeration */
};

#define ROW(name, what, source, unit, member, min, max, ...)                                       \
    {                                                                                              \
        name, what, source, unit, offsetof(struct spin_packet, member), min, max, {                \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define MOST_TIME (1ull << 50) /* 18 minutes */
static const struct parameter parameters[] = {
    ROW("topology", "hosts, switches and links", "SC'17 sec. 4.2: switches of 36 ports", TEXT,
        topology, 0, 255, 0),
    ROW("link_rate", "rate of a link", "SC'17 sec. 4.2: 400 Gbit/s", RATE, link_fs, 1,
        1000000000000, 0),
    ROW("link_latency", "latency of a link", "SC'17 sec. 4.2: 10 m of wire", TIME, link_latency_ps,
        0, MOST_TIME, 0),
    ROW("global_latency", "of a dragonfly's global links; 0: as the others", "ours", TIME,
        global_latency_ps, 0, MOST_TIME, 0),
    ROW("switch_time", "traversal of a switch", "SC'17 sec. 4.2", TIME, switch_ps, 0, MOST_TIME, 0),
    ROW("mtu", "payload of a packet", "SC'17 sec. 4.2", BYTES, mtu_bytes, 1, 1 << 20, 0),
    ROW("header", "sent with every packet", "not published: none", BYTES, header_bytes, 0, 65536,
        0),
    ROW("queue", "what a full queue does", "ours", CHOICE, queue, 0, 2, "unlimited", "droptail",
        "credit"),
    ROW("buffer", "of a port (droptail), of a link and channel (credit)", "ours: 16 packets", BYTES,
        buffer_bytes, 1, 1ull << 31, 0),
    ROW("switching", "cut-through or store and forward", "ours", CHOICE, switching, 0, 1, "cut",
        "store"),
    ROW("routing", "one path per pair, or by hash of the flow", "ours", CHOICE, routing, 0, 1,
        "single", "hash"),
    ROW("placement", "of ranks on hosts", "ours", CHOICE, placement, 0, 1, "linear", "random"),
    ROW("seed", "of paths, placement and faults", "ours", NUMBER, seed, 0, UINT64_MAX, 0),
    ROW("loss", "of packets, on each link", "none", PROBABILITY, loss, 0, 0, 0),
    ROW("corruption", "of packets, on each link", "none", PROBABILITY, corruption, 0, 0, 0),
    ROW("duplication", "of packets, on each link", "none", PROBABILITY, duplication, 0, 0, 0),
    ROW("reordering", "of packets, on each link", "none", PROBABILITY, reordering, 0, 0, 0),
    ROW("reorder_delay", "a reordered packet is late by up to this", "none", TIME, reorder_ps, 1,
        MOST_TIME, 0),
    ROW("retry_timeout", "until a lost packet is sent again; 0: never", "ours", TIME, retry_ps, 0,
        MOST_TIME, 0),
    ROW("retries", "of a packet, then its message is lost", "ours", NUMBER, retries, 0, 254, 0),
    ROW("fail_links", "links that break, drawn from the seed", "none", NUMBER, fail_links, 0, 10000,
        0),
    ROW("fail_at", "when they break", "none", TIME, fail_at_ps, 0, MOST_TIME, 0),
    ROW("fail_until", "when they work again; 0: never", "none", TIME, fail_until_ps, 0, MOST_TIME,
        0),
    ROW("dma", "between card and memory, for each packet", "ours", CHOICE, dma, 0, 2, "none",
        "receive", "both"),
    ROW("dma_latency", "of a DMA (L)", "SC'17 sec. 4.3", TIME, dma_latency_ps, 0, MOST_TIME, 0),
    ROW("dma_rate", "of DMA (G)", "SC'17 sec. 4.3", RATE, dma_fs, 1, 1000000000, 0),
    ROW("memory_rate", "of a host's memory", "SC'17 sec. 4.2: 150 GiB/s", RATE, memory_fs, 1,
        1000000000, 0),
};
#undef ROW
enum { PARAMETERS = sizeof parameters / sizeof parameters[0] };

static const struct spin_packet sc17 = {
    .topology = "fattree:36",
    .link_fs = 20000,
    .link_latency_ps = 33400,
    .switch_ps = 50000,
    .mtu_bytes = 4096,
    .buffer_bytes = 65536,
    .seed = 1,
    .reorder_ps = 1000000,
    .retry_ps = 100000000,
    .retries = 7,
    .dma = SPIN_DMA_RECEIVE,
    .dma_latency_ps = 50000,
    .dma_fs = 6700,
    .memory_fs = 6209,
};

/* The cluster of the page-fault paper (published.md D1): links of 10 Gbit/s, a hop of 150 ns,
 * packets of 256 bytes; the card reaches memory over a bus of 160 Gbit/s, in half of 150 ns. */
static void set_part(struct spin_packet *to) {
    to->link_fs = 800000;
    to->link_latency_ps = 0;
    to->switch_ps = 150000;
    to->mtu_bytes = 256;
    to->dma_latency_ps = 75000;
    to->dma_fs = to->memory_fs = 50000;
}

int spin_packet_preset(const char *name, struct spin_packet *to, struct spin_error *err) {
    *to = sc17;
    if (strcmp(name, "part") == 0) {
        set_part(to);
        return SPIN_OK;
    }
    if (strcmp(name, "sc17-int") == 0)
        return SPIN_OK;
    if (strcmp(name, "sc17-dis") == 0) {
        to->dma_latency_ps = 250000;
        to->dma_fs = 15600;
        return SPIN_OK;
    }
    if (strcmp(name, "loggopsim") == 0) { /* its cpus, on the same network; it has no DMA */
        to->dma = SPIN_DMA_NONE;
        return SPIN_OK;
    }
    return spin_fail(err, SPIN_EARG, "preset '%.60s' has no packet network", name);
}

static const char *const expected[] = {
    [TIME] = "a time of whole picoseconds (such as 33.4ns)",
    [RATE] = "a rate (such as 400Gbit/s or 20ps/B)",
    [BYTES] = "a number of bytes (such as 4096 or 64KiB)",
    [NUMBER] = "a number",
    [PROBABILITY] = "a probability (such as 0.001 or 1e-6)",
};

static int set_choice(const struct parameter *p, const char *text, uint64_t *value,
                      struct spin_error *err) {
    for (uint64_t i = 0; i <= p->max; i++)
        if (strcmp(text, p->words[i]) == 0) {
            *value = i;
            return SPIN_OK;
        }
    return spin_fail(err, SPIN_EARG, "%s: '%.60s' is not known; there are %s, %s%s%s", p->name,
                     text, p->words[0], p->words[1], p->max > 1 ? " and " : "",
                     p->max > 1 ? p->words[2] : "");
}

static int set_text(const struct parameter *p, const char *text, const char **value,
                    struct spin_error *err) {
    if (!*text || strlen(text) > p->max)
        return spin_fail(err, SPIN_EARG, "%s: '%.60s' has %zu bytes; the limits are 1 and %llu",
                         p->name, text, strlen(text), (unsigned long long)p->max);
    *value = text;
    return SPIN_OK;
}

int spin_packet_set(struct spin_packet *to, const char *assignment, struct spin_error *err) {
    const char *equals = strchr(assignment, '=');
    if (!equals)
        return spin_fail(err, SPIN_EARG,
                         "'%.60s': expected NAME=VALUE, such as link_latency=33.4ns", assignment);
    size_t length = (size_t)(equals - assignment);
    for (int i = 0; i < PARAMETERS; i++) {
        const struct parameter *p = &parameters[i];
        if (strlen(p->name) != length || memcmp(p->name, assignment, length) != 0)
            continue;
        uint64_t *value = (uint64_t *)(void *)((char *)to + p->offset), parsed = 0;
        const char *text = equals + 1;
        if (p->unit == CHOICE)
            return set_choice(p, text, value, err);
        if (p->unit == TEXT)
            return set_text(p, text, (const char **)(void *)value, err);
        bool good = p->unit == TIME     ? units_time_ps(text, &parsed)
                    : p->unit == RATE   ? units_per_byte_fs(text, &parsed)
                    : p->unit == BYTES  ? units_size(text, &parsed)
                    : p->unit == NUMBER ? units_u64(text, &parsed)
                                        : units_probability(text, &parsed);
        if (!good)
            return spin_fail(err, SPIN_EARG, "%s: '%.60s' is not %s", p->name, text,
                             expected[p->unit]);
        if (p->unit != PROBABILITY && (parsed < p->min || parsed > p->max))
            return spin_fail(err, SPIN_EARG, "%s: '%.60s' is outside the limits, %llu to %llu %s",
                             p->name, text, (unsigned long long)p->min, (unsigned long long)p->max,
                             p->unit == TIME    ? "ps"
                             : p->unit == RATE  ? "fs/B"
                             : p->unit == BYTES ? "bytes"
                                                : "");
        *value = parsed;
        return SPIN_OK;
    }
    struct text_near near = text_near(assignment, length);
    for (int i = 0; i < PARAMETERS; i++)
        text_near_try(&near, parameters[i].name);
    return spin_fail(err, SPIN_EARG,
                     "unknown parameter '%.*s' of the packet model%s; 'openspin goal run --model "
                     "packet --parameters' lists all",
                     (int)(length < 40 ? length : 40), assignment, text_near_hint(&near).text);
}

/* The shortest decimal that is read as this fraction of 2^32: readers round down. */
static void print_probability(uint64_t value, char *text, size_t room) {
    uint64_t back;
    for (int half = 0; half < 2; half++)
        for (int digits = 3; digits <= 12; digits++) {
            snprintf(text, room, "%.*g", digits, ((double)value + 0.5 * half) / 4294967296.0);
            if (units_probability(text, &back) && back == value)
                return;
        }
}

static void print_value(const struct parameter *p, const void *at, char *text, size_t room) {
    uint64_t value = p->unit == TEXT ? 0 : *(const uint64_t *)at;
    switch (p->unit) {
    case TIME:
        units_thousandths(text, room, value, "ns");
        break;
    case RATE:
        units_thousandths(text, room, value, "ps/B");
        break;
    case BYTES:
        snprintf(text, room, "%llu B", (unsigned long long)value);
        break;
    case NUMBER:
        snprintf(text, room, "%llu", (unsigned long long)value);
        break;
    case PROBABILITY:
        print_probability(value, text, room);
        break;
    case CHOICE:
        snprintf(text, room, "%s", p->words[value]);
        break;
    case TEXT:
        snprintf(text, room, "%s", *(const char *const *)at);
        break;
    }
}

bool spin_packet_parameter(const struct spin_packet *of, const char *preset, int i,
                           struct spin_parameter *row) {
    if (i < 0 || i >= PARAMETERS)
        return false;
    const struct parameter *p = &parameters[i];
    struct spin_packet from;
    struct spin_parameter before;
    *row = (struct spin_parameter){.name = p->name, .what = p->what, .source = SPIN_SET_BY_USER};
    print_value(p, (const char *)of + p->offset, row->value, sizeof row->value);
    if (preset && spin_packet_preset(preset, &from, NULL) == SPIN_OK) {
        print_value(p, (const char *)&from + p->offset, before.value, sizeof before.value);
        if (strcmp(before.value, row->value) == 0)
            row->source = p->source;
        print_value(p, (const char *)&sc17 + p->offset, before.value, sizeof before.value);
        if (strcmp(preset, "part") == 0 && row->source == p->source &&
            strcmp(before.value, row->value) != 0)
            row->source = "PART sec. 4.1 and 4.2";
    }
    return true;
}
