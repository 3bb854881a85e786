#include "live/live_environment.h"

#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/units.h"
#include "live/live_faults.h"
#include "live/live_record.h"

/* Networks, as bits. */
#define UDP    1u
#define FABRIC 2u

static const char *const networks[] = {"shared memory alone", "UDP", "libfabric",
                                       "UDP and libfabric"};
/* What has them: the transport to ask for. */
static const char *const choices[] = {"", "udp", "fabric", "udp, auto or fabric"};

static const char *const no_yes[] = {"0", "1", NULL};
static const char *const off_on[] = {"off", "on", NULL};

struct variable {
    const char *name;
    size_t at;
    const char *const *words; /* one of them, as its place; NULL ends them */
    const char *what;         /* a number from least to most; neither words nor this: a text */
    uint32_t least, most;
    unsigned about; /* networks; 0: it is for every card */
};

#define AT(member) offsetof(struct live_environment, member)
static const struct variable table[] = {
    {"OPENSPIN_TRANSPORT", AT(transport), .words = live_transport_names},
    {"OPENSPIN_FABRIC_PROVIDER", AT(provider), .about = FABRIC},
    {"OPENSPIN_INTERFACE", AT(interface), .about = UDP | FABRIC},
    {"OPENSPIN_PORT", AT(port), NULL, "a port, that of pid 0,", 1, 65536 - LIVE_PIDS, UDP},
    {"OPENSPIN_KEY_FILE", AT(key_file), .about = UDP | FABRIC},
    {"OPENSPIN_AUTH", AT(auth), .words = no_yes, .about = UDP},
    {"OPENSPIN_FAULTS", AT(faults), .about = UDP},
    {"OPENSPIN_HPUS", AT(hpus), NULL, "a number of threads", 0, LIVE_HPUS, 0},
    {"OPENSPIN_PAGING", AT(paging), .words = off_on},
    {"OPENSPIN_PMIX", AT(pmix), .words = off_on},
    {"OPENSPIN_PCAP", AT(pcap), .about = 0},
    {"OPENSPIN_TRACE", AT(trace), .about = 0},
};
#undef AT
#define VARIABLES (sizeof table / sizeof table[0])

static void *value_of(struct live_environment *e, const struct variable *v) {
    return (char *)e + v->at;
}

/* "shm, udp, auto and fabric". */
static void list_words(char *to, size_t room, const char *const *words) {
    size_t used = 0;
    for (uint32_t i = 0; words[i] && used < room; i++)
        used += (size_t)snprintf(to + used, room - used, "%s%s",
                                 i == 0         ? ""
                                 : words[i + 1] ? ", "
                                                : " and ",
                                 words[i]);
}

static int take_word(const struct variable *v, const char *text, uint32_t *value,
                     struct spin_error *err) {
    char all[64];
    uint32_t i = 0;
    while (v->words[i] && strcmp(text, v->words[i]) != 0)
        i++;
    *value = i;
    if (v->words[i])
        return 0;
    list_words(all, sizeof all, v->words);
    return spin_fail(err, SPIN_EARG, "%s: '%.40s' is none of %s", v->name, text, all);
}

static int take_number(const struct variable *v, const char *text, uint32_t *value,
                       struct spin_error *err) {
    uint64_t number;
    if (!units_u64(text, &number) || number < v->least || number > v->most)
        return spin_fail(err, SPIN_EARG, "%s: '%.40s' is not %s from %u to %u", v->name, text,
                         v->what, v->least, v->most);
    *value = (uint32_t)number;
    return 0;
}

static int take(struct live_environment *e, const struct variable *v, const char *text,
                struct spin_error *err) {
    if (v->words)
        return take_word(v, text, value_of(e, v), err);
    if (v->what)
        return take_number(v, text, value_of(e, v), err);
    *(const char **)value_of(e, v) = text;
    return 0;
}

int live_environment_read(struct live_environment *e, struct spin_error *err) {
    struct live_faults ignored;
    *e = (struct live_environment){.transport = LIVE_TRANSPORTS, .pmix = true};
    for (size_t i = 0; i < VARIABLES; i++) {
        const char *text = environment_text(table[i].name);
        int code = text ? take(e, &table[i], text, err) : 0;
        if (code)
            return code;
    }
    return live_faults_parse(&ignored, e->faults, err);
}

/* ---- with a transport ---- */

/* Between nodes only PMIx can tell the addresses of libfabric. */
static unsigned networks_of(const struct live_environment *e, const struct live_place *place) {
    switch (e->transport) {
    case LIVE_UDP:
        return UDP;
    case LIVE_FABRIC:
        return FABRIC;
    case LIVE_AUTO:
        return e->provider && place->pmix ? FABRIC : UDP;
    default:
        return 0;
    }
}

/* Something that the card would not do by default. */
static bool is_asked_for(struct live_environment *e, const struct variable *v) {
    return v->words || v->what ? *(uint32_t *)value_of(e, v) != 0
                               : *(const char **)value_of(e, v) != NULL;
}

int live_environment_settle(struct live_environment *e, const struct live_place *place,
                            struct spin_error *err) {
    bool named = e->transport < LIVE_TRANSPORTS;
    if (!named) /* what reaches all ranks; who is in no job may know processes anywhere */
        e->transport = place->near ? LIVE_SHM : LIVE_AUTO;
    unsigned used = networks_of(e, place);
    for (size_t i = 0; i < VARIABLES; i++) {
        const struct variable *v = &table[i];
        if (v->about && !(v->about & used) && is_asked_for(e, v))
            return spin_fail(err, SPIN_EARG,
                             "%s is about %s, but with OPENSPIN_TRANSPORT=%s%s a card uses %s: set "
                             "OPENSPIN_TRANSPORT to %s, or unset %s",
                             v->name, networks[v->about], live_transport_names[e->transport],
                             named ? "" : " (the default here)", networks[used], choices[v->about],
                             v->name);
    }
    return live_record_check(e->pcap, e->trace, place->ranks, err);
}
