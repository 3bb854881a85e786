#include "sim/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "sim/engine.h"

int traffic_next(struct traffic *t, struct traffic_packet *packet, struct spin_error *err) {
    return t->source->next(t, packet, err);
}

void traffic_close(struct traffic *t) {
    if (t)
        t->source->close(t);
}

enum nic_link traffic_link(const struct traffic *t) {
    return t->link;
}

uint64_t traffic_packets(const struct traffic *t) {
    return t->packets;
}

uint64_t traffic_cut_packets(const struct traffic *t) {
    return t->cut_packets;
}

bool traffic_clock_add(struct traffic_clock *clock, uint64_t ps, uint64_t bytes, uint64_t fs_byte) {
    unsigned __int128 fs = (unsigned __int128)bytes * fs_byte + clock->fs;
    unsigned __int128 sum = (unsigned __int128)clock->ps + ps + fs / 1000;
    if (sum >= SIM_LATEST_PS)
        return false;
    clock->ps = (uint64_t)sum;
    clock->fs = (uint64_t)(fs % 1000);
    return true;
}

/* ---- options ---- */

static const char *kind_name(enum traffic_kind kind) {
    switch (kind) {
    case TRAFFIC_COUNT:
        return "a number";
    case TRAFFIC_TIME:
        return "a time of whole picoseconds (such as 20ns)";
    case TRAFFIC_RATE:
        return "a rate (such as 400Gbit/s, or none)";
    case TRAFFIC_BYTES:
        return "a number of bytes (such as 1024 or 4KiB)";
    case TRAFFIC_LINK:
        return "ip or eth";
    case TRAFFIC_TEXT:
        break;
    }
    return "a word";
}

static bool parse_value(const struct traffic_option *o, const char *text) {
    uint64_t *number = o->value;
    switch (o->kind) {
    case TRAFFIC_COUNT:
        return units_u64(text, number);
    case TRAFFIC_TIME:
        return units_time_ps(text, number);
    case TRAFFIC_BYTES:
        return units_size(text, number);
    case TRAFFIC_RATE: {
        uint64_t bits;
        if (strcmp(text, "none") == 0) {
            *number = 0;
            return true;
        }
        return units_rate(text, &bits) && units_per_byte_fs(text, number) && *number > 0;
    }
    case TRAFFIC_LINK: {
        enum nic_link *link = o->value;
        *link = strcmp(text, "eth") == 0 ? NIC_LINK_ETHERNET : NIC_LINK_IP;
        return strcmp(text, "eth") == 0 || strcmp(text, "ip") == 0;
    }
    case TRAFFIC_TEXT:
        *(const char **)o->value = text;
        return text[0] != 0;
    }
    return false;
}

static int set_option(const char *source, char *word, const struct traffic_option *options,
                      struct spin_error *err) {
    char *equals = strchr(word, '=');
    if (!equals)
        return spin_fail(err, SPIN_EARG, "%s: '%.60s': expected NAME=VALUE", source, word);
    *equals = 0;
    const char *value = equals + 1;
    for (const struct traffic_option *o = options; o->name; o++) {
        if (strcmp(o->name, word) != 0)
            continue;
        if (!parse_value(o, value))
            return spin_fail(err, SPIN_EARG, "%s: %s: '%.60s' is not %s", source, word, value,
                             kind_name(o->kind));
        bool ranged =
            o->kind == TRAFFIC_COUNT || o->kind == TRAFFIC_BYTES || o->kind == TRAFFIC_TIME;
        uint64_t got = ranged ? *(const uint64_t *)o->value : 0;
        if (ranged && (got < o->min || got > o->max))
            return spin_fail(err, SPIN_EARG, "%s: %s: %.60s is outside %llu to %llu%s", source,
                             word, value, (unsigned long long)o->min, (unsigned long long)o->max,
                             o->kind == TRAFFIC_TIME ? " ps" : "");
        return SPIN_OK;
    }
    char known[200] = "";
    size_t used = 0;
    for (const struct traffic_option *o = options; o->name && used < sizeof known; o++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 o == options ? "" : ", ", o->name);
    return spin_fail(err, SPIN_EARG, "%s: unknown option '%.60s'; there are %s", source, word,
                     known);
}

int traffic_options(const char *source, char *text, const struct traffic_option *options,
                    struct spin_error *err) {
    while (text && *text) {
        char *comma = strchr(text, ',');
        if (comma)
            *comma = 0;
        int code = set_option(source, text, options, err);
        if (code)
            return code;
        text = comma ? comma + 1 : NULL;
    }
    return SPIN_OK;
}

/* ---- the spec ---- */

static const struct {
    const char *name;
    int (*open)(struct traffic **out, const char *path, char *options, struct spin_error *err);
} sources[] = {
    {"pcap", traffic_pcap_open}, {"trace", traffic_trace_open}, {"csv", traffic_csv_open}};
enum { SOURCES = sizeof sources / sizeof sources[0] };

static int open_spec(struct traffic **out, char *spec, struct spin_error *err) {
    char *rest = strchr(spec, ':');
    if (rest)
        *rest++ = 0;
    if (strcmp(spec, "gen") == 0)
        return traffic_gen_open(out, rest, err);
    for (int i = 0; i < SOURCES; i++) {
        if (strcmp(spec, sources[i].name) != 0)
            continue;
        if (!rest || !rest[0] || rest[0] == ',')
            return spin_fail(err, SPIN_EARG, "%s: which file? write %s:FILE", spec, spec);
        char *comma = strchr(rest, ',');
        if (comma)
            *comma++ = 0;
        return sources[i].open(out, rest, comma, err);
    }
    return spin_fail(err, SPIN_EARG,
                     "unknown traffic '%.60s'; there are gen:OPTIONS, pcap:FILE, trace:FILE and "
                     "csv:FILE,DATA",
                     spec);
}

int traffic_open(struct traffic **out, const char *spec, struct spin_error *err) {
    *out = NULL;
    char *copy = strdup(spec);
    if (!copy)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    int code = open_spec(out, copy, err);
    free(copy);
    return code;
}
