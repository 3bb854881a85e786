/* Every constant of the LogGOPS presets, with its unit and its source. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"

enum unit { TIME, PER_BYTE, BYTES };

static const struct parameter {
    const char *name, *what;
    enum unit unit;
    size_t offset;
} parameters[] = {
#define ROW(name, what, unit, member)                                                              \
    { name, what, unit, offsetof(struct spin_loggops, member) }
    ROW("L", "latency of the network", TIME, L_ps),
    ROW("o", "cpu time for sending or receiving a message", TIME, o_ps),
    ROW("g", "gap between messages on a nic", TIME, g_ps),
    ROW("G", "gap per byte on a nic", PER_BYTE, G_fs),
    ROW("O", "cpu time per byte", PER_BYTE, O_fs),
    ROW("S", "largest eager message", BYTES, S_bytes),
#undef ROW
};
enum { PARAMETERS = sizeof parameters / sizeof parameters[0] };

/* The latency of sc17: the farthest pair in a three-level fat tree of 36-port switches (up to
 * 11,664 hosts) is 6 wires of 33.4 ns and 5 switches of 50 ns apart, 450.4 ns; then the message is
 * written to host memory by one DMA (50 or 250 ns). */
static const struct preset {
    const char *name, *about;
    struct spin_loggops values;
    const char *sources[PARAMETERS];
} presets[] = {
    {"loggopsim",
     "the defaults of LogGOPSim",
     {2500000, 1500000, 1000000, 6000000, 0, 65535},
     {"LogGOPSim default", "LogGOPSim default", "LogGOPSim default", "LogGOPSim default",
      "LogGOPSim default", "LogGOPSim default"}},
    {"sc17-int",
     "sPIN, SC'17: a NIC on the processor's chip",
     {500400, 65000, 6700, 20000, 0, 65535},
     {"SC'17 sec. 4.2, 4.3: 6 wires of 33.4 ns, 5 switches of 50 ns, DMA 50 ns", "SC'17 sec. 4.2",
      "SC'17 sec. 4.2", "SC'17 sec. 4.2: 400 Gbit/s; the 2.5 ps printed there are per bit",
      "not published: LogGOPSim default", "not published: LogGOPSim default"}},
    {"sc17-dis",
     "sPIN, SC'17: a discrete NIC behind PCIe",
     {700400, 65000, 6700, 20000, 0, 65535},
     {"SC'17 sec. 4.2, 4.3: 6 wires of 33.4 ns, 5 switches of 50 ns, DMA 250 ns", "SC'17 sec. 4.2",
      "SC'17 sec. 4.2", "SC'17 sec. 4.2: 400 Gbit/s; the 2.5 ps printed there are per bit",
      "not published: LogGOPSim default", "not published: LogGOPSim default"}},
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

static const struct preset *find_preset(const char *name) {
    for (int i = 0; i < PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

const char *spin_loggops_preset_name(int i, const char **about) {
    if (i < 0 || i >= PRESETS)
        return NULL;
    if (about)
        *about = presets[i].about;
    return presets[i].name;
}

int spin_loggops_preset(const char *name, struct spin_loggops *to, struct spin_error *err) {
    const struct preset *preset = find_preset(name);
    if (!preset) {
        char known[100] = "";
        size_t used = 0;
        for (int i = 0; i < PRESETS && used < sizeof known; i++)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                     presets[i].name);
        return spin_fail(err, SPIN_EARG, "unknown preset '%.60s'; there are %s", name, known);
    }
    *to = preset->values;
    return SPIN_OK;
}

int spin_loggops_set(struct spin_loggops *to, const char *assignment, struct spin_error *err) {
    const char *equals = strchr(assignment, '=');
    size_t length = equals ? (size_t)(equals - assignment) : strlen(assignment);
    if (!equals)
        return spin_fail(err, SPIN_EARG, "'%.60s': expected NAME=VALUE, such as L=2500 or G=20ps/B",
                         assignment);
    for (int i = 0; i < PARAMETERS; i++) {
        const struct parameter *p = &parameters[i];
        if (strlen(p->name) != length || memcmp(p->name, assignment, length) != 0)
            continue;
        uint64_t *value = (uint64_t *)((char *)to + p->offset);
        const char *text = equals + 1;
        if (p->unit == TIME && units_time_ps(text, value))
            return SPIN_OK;
        if (p->unit == PER_BYTE && units_per_byte_fs(text, value))
            return SPIN_OK;
        if (p->unit == BYTES && units_size(text, value))
            return SPIN_OK;
        return spin_fail(err, SPIN_EARG, "%s: '%.60s' is not %s", p->name, text,
                         p->unit == TIME       ? "a time of whole picoseconds (such as 65ns)"
                         : p->unit == PER_BYTE ? "a time per byte (such as 20ps/B or 400Gbit/s)"
                                               : "a number of bytes (such as 65535 or 64KiB)");
    }
    return spin_fail(err, SPIN_EARG,
                     "unknown parameter '%.*s'; LogGOPS has L, o, g, G, O and S "
                     "(those of links need --model packet)",
                     (int)(length < 60 ? length : 60), assignment);
}

bool spin_loggops_parameter(const struct spin_loggops *of, const char *preset, int i,
                            struct spin_parameter *row) {
    if (i < 0 || i >= PARAMETERS)
        return false;
    const struct parameter *p = &parameters[i];
    const struct preset *from = preset ? find_preset(preset) : NULL;
    uint64_t value = *(const uint64_t *)((const char *)of + p->offset);
    *row = (struct spin_parameter){.name = p->name, .what = p->what, .source = SPIN_SET_BY_USER};
    if (from && *(const uint64_t *)((const char *)&from->values + p->offset) == value)
        row->source = from->sources[i];
    if (p->unit == BYTES)
        snprintf(row->value, sizeof row->value, "%llu B", (unsigned long long)value);
    else
        units_thousandths(row->value, sizeof row->value, value, p->unit == TIME ? "ns" : "ps/B");
    return true;
}
