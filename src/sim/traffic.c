#include "sim/traffic.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
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

uint64_t traffic_late_packets(const struct traffic *t) {
    return t->late_packets;
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

const char *const traffic_links[] = {"ip", "eth", NULL};

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
