/* Design notes: credits, at one event per hop.
 *
 * A packet may go onto a link when the buffer at the far end has room for all of it; room is
 * promised when the packet is put in line for the wire, and comes back one link latency after its
 * last byte has left that buffer. A plain way to simulate that is an event for every credit that
 * comes back. Here the time at which room comes back is put into a small heap of the buffer as soon
 * as it is known, which is when the packet in it gets its own time of departure; the heap is looked
 * at only when room is short.
 *
 * When room is short, the head of the queue can still be given its departure at once if no room can
 * come back earlier than what is known: either all packets in the buffer have their times
 * (`unknown` is 0), or the first known release is sooner than any packet that has yet to be settled
 * could give room, which takes its own time on the wire and one link latency. Otherwise the head
 * waits, and a packet that arrives at the far end or is settled there is what tries it again. Only
 * when that may be too late is a wake-up scheduled.
 *
 * A departure settled for later leaves the wire idle until then. With several virtual channels on a
 * link, packets of the others may use that gap if they fit into it whole; one gap per link is kept.
 *
 * Settling one packet gives room upstream, where that may settle another, and so on along the
 * chain of waiting packets; the routes have no cycle of virtual channels, so the chain ends. */
#include "sim/network_private.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/pages.h"
#include "base/pairing.h"

int net_credit_create(struct network *net, struct spin_error *err) {
    const struct topology *t = net->topology;
    bool any_order = net->config.multipath || net->config.failure_count;
    net->base_vcs = any_order ? t->vcs_hashed : t->vcs;
    uint64_t vcs = (uint64_t)net->base_vcs + (net->config.failure_count ? NET_DETOUR_VCS : 0);
    if (vcs > 255)
        return spin_fail(err, SPIN_ELIMIT,
                         "network: credits need %llu virtual channels on this topology, over the "
                         "limit of 255; use unlimited or drop-tail queues",
                         (unsigned long long)vcs);
    if (vcs * t->channels >= NET_NONE)
        return spin_fail(err, SPIN_ELIMIT,
                         "network: %u ports with %llu virtual channels are over "
                         "the limit of 2^32 buffers",
                         t->channels, (unsigned long long)vcs);
    net->vcs = (uint32_t)vcs;
    net->slots = pages_new(sizeof *net->slots * t->channels * vcs);
    net->wakes = pages_new(sizeof *net->wakes * t->channels * vcs);
    if (vcs > 1) {
        net->gaps = pages_new(sizeof *net->gaps * t->channels);
        net->wire_ends = pages_new(sizeof *net->wire_ends * t->channels * vcs);
    }
    if (!net->slots || !net->wakes || (vcs > 1 && (!net->gaps || !net->wire_ends)))
        return spin_fail(err, SPIN_ENOMEM, "network: out of memory for the buffers of %u ports",
                         t->channels);
    return SPIN_OK;
}

void net_credit_destroy(struct network *net) {
    uint64_t channels = net->topology->channels, slots = channels * net->vcs;
    pages_free(net->slots, sizeof *net->slots * slots);
    pages_free(net->wakes, sizeof *net->wakes * slots);
    pages_free(net->gaps, sizeof *net->gaps * channels);
    pages_free(net->wire_ends, sizeof *net->wire_ends * slots);
    pages_free(net->releases, sizeof *net->releases * net->release_room);
}

/* ---- a pairing heap of releases, by time; indices + 1, 0 is empty ---- */

static inline bool is_sooner(const struct net_release *a, const struct net_release *b) {
    return a->at_ps < b->at_ps;
}
PAIRING(releases, struct net_release, child, sibling, is_sooner);

static void heap_push(struct network *net, struct net_slot *s, uint64_t at_ps, uint32_t bytes) {
    uint32_t r = net->release_free;
    if (r) {
        net->release_free = net->releases[r - 1].sibling;
    } else {
        if (!ROOM_FOR_ONE_BY(pages_grow, net->releases, net->releases_used, net->release_room,
                             1024)) {
            net_no_memory(net);
            return;
        }
        r = ++net->releases_used;
    }
    net->releases[r - 1] = (struct net_release){.at_ps = at_ps, .bytes = bytes};
    s->heap = releases_meld(net->releases, s->heap, r);
}

static void heap_pop(struct network *net, struct net_slot *s) {
    uint32_t first = s->heap;
    s->heap = releases_without_first(net->releases, first);
    net->releases[first - 1].sibling = net->release_free;
    net->release_free = first;
}

/* ---- releases: a few in the slot itself, which is all that a quiet link ever has ---- */

static void push(struct network *net, struct net_slot *s, uint64_t at_ps, uint32_t bytes) {
    if (s->count == NET_INLINE_RELEASES) {
        heap_push(net, s, at_ps, bytes);
        return;
    }
    uint32_t i = s->count++;
    for (; i > 0 && s->release_ps[i - 1] > at_ps; i--) {
        s->release_ps[i] = s->release_ps[i - 1];
        s->release_bytes[i] = s->release_bytes[i - 1];
    }
    s->release_ps[i] = at_ps;
    s->release_bytes[i] = bytes;
}

/* SIM_FOREVER when there is none. */
static uint64_t first_release(const struct network *net, const struct net_slot *s) {
    uint64_t own = s->count ? s->release_ps[0] : SIM_FOREVER;
    uint64_t other = s->heap ? net->releases[s->heap - 1].at_ps : SIM_FOREVER;
    return own < other ? own : other;
}

/* The bytes of the first release are free as of its time. */
static void take_first(struct network *net, struct net_slot *s) {
    uint64_t at = first_release(net, s);
    if (s->count && s->release_ps[0] == at) {
        s->used -= s->release_bytes[0];
        s->count--;
        for (uint32_t i = 0; i < s->count; i++) {
            s->release_ps[i] = s->release_ps[i + 1];
            s->release_bytes[i] = s->release_bytes[i + 1];
        }
    } else {
        s->used -= net->releases[s->heap - 1].bytes;
        heap_pop(net, s);
    }
    if (at > s->credit_ps)
        s->credit_ps = at;
}

/* ---- the queue for a buffer ---- */

static void wake_at(struct network *net, uint32_t slot, uint64_t at_ps) {
    if (net->wakes[slot] && net->wakes[slot] <= at_ps + 1)
        return;
    net->wakes[slot] = at_ps + 1;
    net->counts.wakes++;
    sim_schedule(&net->sim, at_ps, net_link_object(net, net_channel(net, slot)), NET_WAKE,
                 (union sim_payload){.u32 = {slot}});
}

/* What is needed after a packet may leave until its room is back, at least. */
static uint64_t least_stay(const struct network *net, const struct net_slot *s) {
    return transfer_ps(s->least_bytes, net->fastest_fs) + net->kinds[s->kind].latency_ps;
}

/* No packet that has landed and is not settled can give room before this. */
static uint64_t soonest_of_landed(const struct network *net, const struct net_slot *s,
                                  uint64_t now_ps) {
    if (!s->landed)
        return SIM_FOREVER;
    uint64_t from = now_ps;
    if (s->landed_for != NET_NONE) { /* all behind one another, and behind what is settled */
        uint64_t last =
            net->vcs > 1 ? net->wire_ends[s->landed_for] : net->channels[s->landed_for].free_ps;
        from = last > from ? last : from;
    }
    return from + least_stay(net, s);
}

/* Nor one that is on the link. */
static uint64_t soonest_of_flight(const struct network *net, const struct net_slot *s,
                                  uint64_t now_ps) {
    if (!s->flight)
        return SIM_FOREVER;
    const struct net_packet *p = &net->packets[s->flight - 1];
    uint64_t on_wire = transfer_ps(p->bytes, net->kinds[s->kind].fs_per_byte);
    uint64_t arrival = net->config.store_and_forward ? p->tail_ps : p->tail_ps - on_wire;
    if (net->config.faults.reordering || arrival < now_ps)
        arrival = now_ps;
    return arrival + net->config.switch_ps + least_stay(net, s);
}

/* Frees `bytes` of the buffer if it is certain when; true when they are free as of credit_ps. */
static bool make_room(struct network *net, uint32_t slot, uint32_t bytes, uint64_t now_ps) {
    struct net_slot *s = &net->slots[slot];
    while (s->used + (uint64_t)bytes > net->config.buffer_bytes) {
        uint64_t at = first_release(net, s);
        if (at == SIM_FOREVER)
            return false; /* settling a packet in the buffer tries again */
        if (at > now_ps) {
            bool landed_may = at > soonest_of_landed(net, s, now_ps);
            bool flight_may = at > soonest_of_flight(net, s, now_ps);
            /* What is on the link tries again when it lands, unless a fault changes the order. What
             * has landed may stay there. */
            uint64_t latency = net->kinds[s->kind].latency_ps;
            if (landed_may || (flight_may && net->config.faults.reordering))
                wake_at(net, slot, at > now_ps + latency ? at - latency : now_ps);
            if (landed_may || flight_may)
                return false;
        }
        take_first(net, s);
    }
    return true;
}

uint64_t net_credit_start(struct network *net, const struct topo_hop *hop, uint64_t ready_ps,
                          uint64_t takes_ps) {
    uint64_t *own_end = &net->wire_ends[net_slot(net, hop)];
    struct net_gap *gap = &net->gaps[hop->channel];
    uint64_t free_ps = net->channels[hop->channel].free_ps;
    uint64_t start = ready_ps > *own_end ? ready_ps : *own_end;
    uint64_t in_gap = start > gap->from_ps ? start : gap->from_ps;
    if (in_gap + takes_ps <= gap->to_ps) {
        start = in_gap;
        gap->from_ps = start + takes_ps;
    } else if (start > free_ps) {
        *gap = (struct net_gap){free_ps, start};
    } else {
        start = free_ps;
    }
    *own_end = start + takes_ps;
    return start;
}

/* Keeps the releases to those that can still matter. A host's next packet may be given a departure
 * before now, but not before its last one ended. */
static void forget(struct network *net, uint32_t slot, uint64_t now_ps, bool from_host) {
    struct net_slot *s = &net->slots[slot];
    uint64_t past = now_ps;
    if (from_host) {
        uint64_t last = net->vcs > 1 ? net->wire_ends[slot] : net->channels[slot].free_ps;
        past = last < past ? last : past;
    }
    while (first_release(net, s) <= past)
        take_first(net, s);
}

/* Settles packets from the head of the queue as long as there is room. */
static void advance(struct network *net, uint32_t slot, uint64_t now_ps) {
    struct net_slot *s = &net->slots[slot]; /* slots never move */
    if (s->active)
        return;
    s->active = true;
    while (s->head) {
        uint32_t index = s->head - 1;
        uint32_t bytes = net->packets[index].bytes;
        if (!make_room(net, slot, bytes, now_ps))
            break;
        s->head = net->packets[index].next;
        if (s->head)
            __builtin_prefetch(&net->packets[s->head - 1], 1);
        else
            s->tail = 0;
        s->used += bytes;
        uint64_t ready = net->packets[index].ready_ps;
        struct topo_hop hop = {.channel = net_channel(net, slot), .node = s->node, .kind = s->kind};
        hop.vc = slot - hop.channel * net->vcs;
        bool to_host = s->node < net->topology->hosts;
        if (!to_host) {
            s->unknown++;
            if (!s->least_bytes || bytes < s->least_bytes)
                s->least_bytes = bytes;
        }
        uint64_t waited = s->credit_ps > ready ? s->credit_ps - ready : 0;
        net->counts.queued_ps += waited;
        net->channels[hop.channel].queued_ps += waited;
        net->packets[index].queued_ps += waited;
        bool from_host = net->packets[index].hops == 0;
        uint64_t end = net_transmit(net, index, &hop, now_ps, ready + waited);
        if (end - ready > net->channels[hop.channel].most_ps)
            net->channels[hop.channel].most_ps = end - ready;
        if (to_host) { /* a host takes what arrives: room is back after both ways */
            forget(net, slot, now_ps, from_host);
            push(net, s, end + 2 * net->kinds[s->kind].latency_ps, bytes);
            continue;
        }
        net->packets[index].next = 0;
        if (s->flight)
            net->packets[s->flight_last - 1].next = index + 1;
        else
            s->flight = index + 1;
        s->flight_last = index + 1;
    }
    s->active = false;
}

void net_credit_landed(struct network *net, uint32_t index) {
    struct net_packet *p = &net->packets[index];
    struct net_slot *s = &net->slots[p->slot];
    uint32_t before = 0, at = s->flight;
    while (at != index + 1) { /* the first, unless a fault held others back */
        before = at;
        at = net->packets[at - 1].next;
    }
    if (before)
        net->packets[before - 1].next = p->next;
    else
        s->flight = p->next;
    if (s->flight_last == index + 1)
        s->flight_last = before;
    s->landed++;
}

void net_credit_send(struct network *net, uint32_t index, const struct topo_hop *hop,
                     uint64_t now_ps, uint64_t ready_ps) {
    uint32_t slot = net_slot(net, hop);
    struct net_slot *s = &net->slots[slot];
    struct net_packet *p = &net->packets[index];
    s->node = hop->node;
    s->kind = (uint16_t)hop->kind;
    if (p->slot != NET_NONE) {
        struct net_slot *in = &net->slots[p->slot];
        if (in->landed == 1)
            in->landed_for = slot;
        else if (in->landed_for != slot)
            in->landed_for = NET_NONE;
    }
    p->ready_ps = ready_ps;
    p->next = 0;
    if (s->tail)
        net->packets[s->tail - 1].next = index + 1;
    else
        s->head = index + 1;
    s->tail = index + 1;
    if (s->head == index + 1)
        advance(net, slot, now_ps);
    uint32_t came_by = net->packets[index].slot;
    if (s->tail == index + 1 && came_by != NET_NONE && net->slots[came_by].head)
        advance(net, came_by, now_ps); /* it has arrived, but nobody knows when it leaves */
}

void net_credit_release(struct network *net, uint32_t index, uint64_t now_ps, uint64_t at_ps) {
    const struct net_packet *p = &net->packets[index];
    uint32_t slot = p->slot;
    struct net_slot *s = &net->slots[slot];
    s->landed--;
    if (--s->unknown == 0)
        s->least_bytes = 0;
    push(net, s, at_ps, p->bytes);
    if (s->head) {
        advance(net, slot, now_ps);
        return;
    }
    forget(net, slot, now_ps, p->hops == 1);
}

void net_on_wake(void *context, const struct sim_event *event) {
    struct network *net = context;
    uint32_t slot = event->with.u32[0];
    if (net->wakes[slot] == event->at_ps + 1)
        net->wakes[slot] = 0;
    advance(net, slot, event->at_ps);
}

void net_credit_flush(struct network *net, uint32_t channel, uint64_t now_ps) {
    if (net->gaps)
        net->gaps[channel] = (struct net_gap){0};
    for (uint32_t vc = 0; vc < net->vcs; vc++) {
        uint32_t slot = channel * net->vcs + vc;
        struct net_slot *s = &net->slots[slot];
        uint32_t at = s->head;
        s->head = s->tail = 0;
        if (net->wire_ends && net->wire_ends[slot] > now_ps) /* settled for later: is not sent */
            net->wire_ends[slot] = now_ps;
        while (at) {
            uint32_t index = at - 1;
            at = net->packets[index].next;
            net_finish(net, index, now_ps, NET_LOST);
        }
    }
}

_Static_assert(sizeof(struct net_slot) == 128, "a slot is two cache lines");
_Static_assert(sizeof(struct net_packet) == 64, "a packet is a cache line");
