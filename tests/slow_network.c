#include "slow_network.h"

#include <stdlib.h>
#include <string.h>

enum kind { ENTER, ARRIVE, TRY, CREDIT };

struct event {
    uint64_t at;
    enum kind kind;
    uint32_t what, node; /* packet or channel; node of an arrival, bytes of a credit */
};

struct line {
    uint32_t packets[4096];
    uint64_t ready[4096];
    uint32_t from, to;
    uint64_t free_at, used;
    uint32_t end_node;
    uint64_t last_ready;
};

struct slow {
    const struct topology *t;
    const struct net_config *c;
    struct slow_packet *packets;
    uint32_t *came_by;
    struct event *events;
    size_t count, room;
    struct line *lines;
    bool tied;
};

static void at(struct slow *s, uint64_t time, enum kind kind, uint32_t what, uint32_t node) {
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 1024;
        s->events = realloc(s->events, s->room * sizeof *s->events);
    }
    s->events[s->count++] = (struct event){time, kind, what, node};
}

static struct event take(struct slow *s) {
    size_t first = 0;
    for (size_t i = 1; i < s->count; i++)
        if (s->events[i].at < s->events[first].at)
            first = i;
    struct event e = s->events[first];
    memmove(&s->events[first], &s->events[first + 1], (--s->count - first) * sizeof e);
    return e;
}

static void join(struct slow *s, uint32_t packet, uint32_t node, uint64_t ready) {
    const struct slow_packet *p = &s->packets[packet];
    struct topo_hop hop =
        topology_next(s->t, node, p->dst,
                      topology_selector(s->t, p->src, p->dst, 0, s->c->multipath, s->c->seed));
    struct line *l = &s->lines[hop.channel];
    l->end_node = hop.node;
    /* Two at once: which goes first is not for the model to say. */
    s->tied |= l->last_ready == ready && l->to;
    l->last_ready = ready;
    l->packets[l->to % 4096] = packet;
    l->ready[l->to++ % 4096] = ready;
    at(s, ready, TRY, hop.channel, 0);
}

static void try_line(struct slow *s, uint64_t now, uint32_t channel) {
    struct line *l = &s->lines[channel];
    if (l->from == l->to || l->free_at > now || l->ready[l->from % 4096] > now)
        return;
    uint32_t packet = l->packets[l->from % 4096];
    uint64_t bytes = s->packets[packet].bytes;
    bool credits = s->c->flow_control == NET_CREDIT;
    if (credits && l->used + bytes > s->c->buffer_bytes)
        return;
    l->from++;
    l->used += bytes;
    uint64_t end = now + (bytes * s->c->fs_per_byte + 999) / 1000, latency = s->c->latency_ps;
    l->free_at = end;
    at(s, end, TRY, channel, 0);
    bool to_host = l->end_node < s->t->hosts;
    at(s, (to_host || s->c->store_and_forward ? end : now) + latency, ARRIVE, packet, l->end_node);
    if (to_host)
        at(s, end + 2 * latency, CREDIT, channel, (uint32_t)bytes);
    if (s->came_by[packet] != TOPO_NONE)
        at(s, end + latency, CREDIT, s->came_by[packet], (uint32_t)bytes);
    s->came_by[packet] = channel;
}

bool slow_network(const struct topology *topology, const struct net_config *config,
                  struct slow_packet *packets, uint32_t count) {
    struct slow s = {.t = topology, .c = config, .packets = packets};
    s.lines = calloc(topology->channels, sizeof *s.lines);
    s.came_by = malloc(sizeof *s.came_by * count);
    for (uint32_t i = 0; i < count; i++) {
        s.came_by[i] = TOPO_NONE;
        at(&s, packets[i].at_ps, ENTER, i, 0);
    }
    while (s.count) {
        struct event e = take(&s);
        switch (e.kind) {
        case ENTER:
            join(&s, e.what, packets[e.what].src, e.at);
            break;
        case ARRIVE:
            if (e.node == packets[e.what].dst)
                packets[e.what].delivered_ps = e.at;
            else
                join(&s, e.what, e.node, e.at + config->switch_ps);
            break;
        case CREDIT:
            s.lines[e.what].used -= e.node;
            try_line(&s, e.at, e.what);
            break;
        case TRY:
            try_line(&s, e.at, e.what);
            break;
        }
    }
    free(s.lines);
    free(s.came_by);
    free(s.events);
    return !s.tied;
}
