/* Blocks, at their sender. */
#include <stdlib.h>
#include <string.h>

#include "nic/nic_private.h"

/* ---- Lists ---- */

void nic_block_init(struct nic *nic) {
    struct zone *zone = nic->config.zone;
    pool_init(&nic->blocks.transfers, zone, sizeof(struct nic_transfer), UINT32_MAX);
    pool_init(&nic->blocks.assemblies, zone, sizeof(struct nic_assembly), UINT32_MAX);
    pool_init(&nic->blocks.reports, zone, sizeof(struct nic_report_out), UINT32_MAX);
}

void nic_block_clear(struct nic *nic) {
    pool_clear(&nic->blocks.transfers);
    pool_clear(&nic->blocks.assemblies);
    pool_clear(&nic->blocks.reports);
    free(nic->blocks.timeouts.at);
}

/* What names a transfer to its receiver; like nic_number. */
static uint64_t name_of(const struct nic *nic, const struct nic_transfer *t) {
    return pool_number(t) ^ (uint64_t)nic->config.stream << 48;
}
static struct nic_transfer *named(const struct nic *nic, uint64_t name) {
    return pool_named(&nic->blocks.transfers, name ^ (uint64_t)nic->config.stream << 48);
}

static struct nic_block_out *with_packets(struct nic_transfer *t) {
    struct nic_block_out *oldest = NULL;
    for (uint32_t i = 0; i < NIC_BLOCKS_MAX; i++) {
        struct nic_block_out *b = &t->block[i];
        if (b->used && b->unsent && (!oldest || b->block < oldest->block))
            oldest = b;
    }
    return oldest;
}

static bool may_begin_block(const struct nic *nic, const struct nic_transfer *t) {
    return t->next < t->blocks && t->under_way < nic->config.blocks_outstanding &&
           t->next - t->oldest < NIC_BLOCK_SPAN;
}

/* Into the list of its peer, if it has something to send. */
static void make_ready(struct nic *nic, struct nic_transfer *t) {
    struct nic_peer *peer = t->outgoing->peer;
    if (t->ready || (!with_packets(t) && !may_begin_block(nic, t)))
        return;
    t->ready = true;
    t->next_ready = NULL;
    if (!peer->ready)
        peer->ready_end = &peer->ready;
    *peer->ready_end = t;
    peer->ready_end = &t->next_ready;
    nic_depart_room(nic, &peer->delivery);
}

static void not_ready(struct nic_transfer *t) {
    struct nic_peer *peer = t->outgoing->peer;
    struct nic_transfer **at = &peer->ready;
    while (*at && *at != t)
        at = &(*at)->next_ready;
    if (*at == t) {
        *at = t->next_ready;
        if (peer->ready_end == &t->next_ready)
            peer->ready_end = at;
    }
    t->ready = false;
}

static struct nic_transfer *waiter_of(struct nic_page_wait *w) {
    return (struct nic_transfer *)((uint8_t *)w - offsetof(struct nic_transfer, waiting));
}

/* ---- Transfers ---- */

bool nic_block_wanted(const struct nic *nic, const struct nic_outgoing *o) {
    return nic->config.block_bytes && !o->begun && !o->ready && !o->streams &&
           (o->message.kind == NIC_PUT || o->reply_to) &&
           o->message.payload > nic->config.unblocked_bytes &&
           o->message.payload / nic->config.block_bytes < UINT32_MAX;
}

bool nic_block_begin(struct nic *nic, struct nic_outgoing *o) {
    struct nic_blocks *b = &nic->blocks;
    uint32_t timers = (b->transfers.used + 1) * NIC_BLOCKS_MAX;
    struct nic_transfer *t = timers_room(&b->timeouts, timers) ? pool_take(&b->transfers) : NULL;
    if (!t)
        return false;
    uint32_t packet = o->peer->delivery.packet_bytes, most = packet * NIC_BLOCK_PACKETS;
    t->outgoing = o;
    t->packet_bytes = packet;
    t->block_bytes = nic->config.block_bytes < most ? nic->config.block_bytes : most;
    t->blocks = (uint32_t)((o->message.payload + t->block_bytes - 1) / t->block_bytes);
    o->transfer = t;
    delivery_expect(&nic->delivery, &o->peer->delivery); /* reports */
    return true;
}

void nic_block_announced(struct nic *nic, struct nic_outgoing *o) {
    make_ready(nic, o->transfer);
}

void nic_block_drop(struct nic *nic, struct nic_outgoing *o) {
    struct nic_transfer *t = o->transfer;
    if (!t)
        return;
    for (uint32_t i = 0; i < NIC_BLOCKS_MAX; i++)
        timers_stop(&nic->blocks.timeouts, &t->block[i].timeout);
    if (t->ready)
        not_ready(t);
    nic_page_wait_over(&t->waiting);
    o->transfer = NULL;
    delivery_expect_less(&o->peer->delivery);
    pool_give(&nic->blocks.transfers, t);
}

/* The local end of a put that is known to have arrived. */
static void end_answered(struct nic *nic, struct nic_outgoing *o, uint8_t fail) {
    uint8_t sent = o->bad || fail == PTL_NI_SEGV ? PTL_NI_SEGV : PTL_NI_OK;
    nic_block_drop(nic, o);
    o->packed = o->message.payload;
    nic->counts.messages_out++;
    portals_sent(nic->portals, o->initiator, sent);
}

bool nic_block_answered(struct nic *nic, struct nic_outgoing *o, const struct nic_message *answer) {
    struct nic_transfer *t = o->transfer;
    if (!t->fetching) {
        end_answered(nic, o, answer->fail);
        return true;
    }
    t->answered = true;
    t->answer = *answer;
    t->next = t->blocks;
    for (uint32_t i = 0; i < NIC_BLOCKS_MAX; i++) {
        timers_stop(&nic->blocks.timeouts, &t->block[i].timeout);
        t->block[i].used = false;
    }
    if (t->ready)
        not_ready(t);
    return false;
}

/* All blocks are acknowledged, and no packet of it is on the card. */
static void check_end(struct nic *nic, struct nic_transfer *t) {
    struct nic_outgoing *o = t->outgoing;
    if (t->fetching)
        return;
    if (t->answered) {
        struct nic_message answer = t->answer;
        end_answered(nic, o, answer.fail);
        portals_answered(nic->portals, o->initiator, &answer, PTL_NI_OK);
        nic_depart_over(nic, o);
    } else if (t->oldest == t->blocks) {
        nic_block_drop(nic, o);
        nic_depart_acknowledged(nic, o);
    }
}

/* ---- Blocks ---- */

static uint64_t all_packets(const struct nic_transfer *t, uint32_t block) {
    uint32_t bytes = nic_block_length(block, t->block_bytes, t->outgoing->message.payload);
    uint32_t packets = (bytes + t->packet_bytes - 1) / t->packet_bytes;
    return UINT64_MAX >> (NIC_BLOCK_PACKETS - packets);
}

static struct nic_block_out *begin_block(struct nic *nic, struct nic_transfer *t) {
    struct nic_block_out *b = t->block;
    while (b->used)
        b++;
    *b = (struct nic_block_out){.used = true, .transfer = t, .block = t->next++, .transmission = 1};
    b->unsent = all_packets(t, b->block);
    t->under_way++;
    nic->counts.blocks_sent++;
    return b;
}

static struct nic_block_out *find_block(struct nic_transfer *t, uint32_t block) {
    for (uint32_t i = 0; t && i < NIC_BLOCKS_MAX; i++)
        if (t->block[i].used && t->block[i].block == block)
            return &t->block[i];
    return NULL;
}

/* All of it once more. What is being fetched for the last transmission will not leave. */
static void send_again(struct nic *nic, struct nic_block_out *b) {
    timers_stop(&nic->blocks.timeouts, &b->timeout);
    b->transmission++;
    b->unsent = all_packets(b->transfer, b->block);
    b->absent = b->fetching = 0;
    b->patient = false;
    nic->counts.blocks_repeated++;
    make_ready(nic, b->transfer);
}

/* The timeout begins when all of it has left. */
static void check_left(struct nic *nic, struct nic_block_out *b) {
    if (b->unsent || b->absent || b->fetching || b->patient || !nic->config.block_timeout)
        return;
    if (nic->config.driver->now)
        nic->now = nic->config.driver->now(nic->config.context);
    timers_set(&nic->blocks.timeouts, &b->timeout, nic->now + nic->config.block_timeout);
}

static void acknowledged(struct nic *nic, struct nic_block_out *b) {
    struct nic_transfer *t = b->transfer;
    timers_stop(&nic->blocks.timeouts, &b->timeout);
    b->used = false;
    t->under_way--;
    t->whole |= 1ull << (b->block - t->oldest);
    for (; t->whole & 1; t->whole >>= 1)
        t->oldest++;
    if (t->ready)
        not_ready(t); /* what it was ready for may have been this block */
    make_ready(nic, t);
    check_end(nic, t);
}

void nic_block_tick(struct nic *nic) {
    for (struct timer *timer; (timer = timers_expired(&nic->blocks.timeouts, nic->now));) {
        struct nic_block_out *b =
            (struct nic_block_out *)((char *)timer - offsetof(struct nic_block_out, timeout));
        nic->counts.block_timeouts++;
        send_again(nic, b);
    }
}

/* ---- Packets ---- */

static void make_packet(struct nic *nic, struct nic_block_out *b, uint32_t place,
                        struct nic_packet *packet) {
    const struct nic_transfer *t = b->transfer;
    uint64_t payload = t->outgoing->message.payload;
    uint32_t at = place * t->packet_bytes;
    uint32_t left = nic_block_length(b->block, t->block_bytes, payload) - at;
    packet->kind = NIC_BLOCK;
    packet->bytes = left < t->packet_bytes ? left : t->packet_bytes;
    packet->offset = (uint64_t)b->block * t->block_bytes + at;
    packet->last = packet->offset + packet->bytes == payload;
    packet->bad = b->unreadable >> place & 1;
    packet->tag = (struct nic_block_tag){.transfer = name_of(nic, t),
                                         .block = b->block,
                                         .transmission = b->transmission,
                                         .block_bytes = t->block_bytes,
                                         .place = (uint8_t)place};
}

/* Its turn ends with a block, so that transfers share the way. */
static void next_transfer(struct nic *nic, struct nic_transfer *t, const struct nic_block_out *b) {
    if (b->unsent)
        return;
    not_ready(t);
    make_ready(nic, t);
}

static uint64_t places_from(uint32_t place, uint32_t count) {
    return UINT64_MAX >> (NIC_BLOCK_PACKETS - count) << place;
}

/* As many of the next packets as one may stand for, whose data is not copied on the card; 1: it is.
 */
static uint32_t lend(struct nic *nic, const struct nic_block_out *b, struct nic_packet *packet) {
    const struct nic_transfer *t = b->transfer;
    uint32_t each = t->packet_bytes, place = packet->tag.place, run = 1;
    while (place + run < NIC_BLOCK_PACKETS && b->unsent >> (place + run) & 1 &&
           !(b->unreadable >> (place + run) & 1))
        run++;
    uint32_t length = nic_block_length(b->block, t->block_bytes, t->outgoing->message.payload);
    uint64_t left = length - place * each, bytes = (uint64_t)run * each;
    struct nic_segment piece;
    bytes = left < bytes ? left : bytes;
    if (bytes < NIC_LENT_MIN || packet->bad || each != nic_pool_mtu(nic->config.pool) ||
        !nic_depart_may_lend(nic, t->outgoing) ||
        !nic_depart_pieces(nic, t->outgoing, packet->offset, bytes, &piece, 1))
        return 1;
    uint64_t there = nic_drive_present(nic, piece.host, piece.bytes);
    bool last = there == left;
    there -= last ? 0 : there % each;
    if (there < NIC_LENT_MIN)
        return 1;
    packet->data = piece.host;
    packet->bytes = (uint32_t)there;
    packet->last = packet->offset + there == t->outgoing->message.payload;
    return (uint32_t)((there + each - 1) / each);
}

struct nic_transfer *nic_block_ready_answer(const struct nic_peer *peer) {
    struct nic_transfer *t = peer->ready;
    while (t && t->outgoing->request)
        t = t->next_ready;
    return t;
}

bool nic_block_send(struct nic *nic, struct nic_peer *peer, struct nic_transfer *t) {
    struct nic_departure *d = pool_take(&nic->departures);
    struct nic_packet *packet = d ? nic_packet_new(nic->config.pool) : NULL;
    if (!packet) {
        if (d)
            pool_give(&nic->departures, d);
        nic->counts.no_memory++;
        return false;
    }
    struct nic_block_out *b = with_packets(t);
    if (!b)
        b = begin_block(nic, t);
    uint32_t place = (uint32_t)__builtin_ctzll(b->unsent);
    make_packet(nic, b, place, packet);
    uint32_t count = lend(nic, b, packet);
    b->unsent &= ~places_from(place, count);
    b->fetching++;
    t->fetching++;
    d->peer = peer;
    d->packet = packet;
    d->outgoing = t->outgoing;
    d->transfer = packet->tag.transfer;
    nic->sending++;
    peer->delivery.reserved++;
    next_transfer(nic, t, b);
    if (!packet->bad && count == 1)
        nic_depart_fetch(nic, d);
    if (!d->fetches)
        nic_block_fetched(nic, d);
    return true;
}

/* A packet that will not leave: another may. */
static void discard(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet) {
    nic_packet_release(packet);
    nic->sending--;
    nic_depart_room(nic, &peer->delivery);
}

void nic_block_returned(struct nic *nic, struct nic_transfer *t) {
    t->fetching--;
    check_end(nic, t);
}

/* Its data is on the card or stays where it is, or cannot be fetched now. */
void nic_block_fetched(struct nic *nic, struct nic_departure *d) {
    struct nic_peer *peer = d->peer;
    struct nic_packet *packet = d->packet;
    bool absent = d->absent, lent = packet->bytes > nic_pool_mtu(nic->config.pool);
    struct nic_transfer *t = named(nic, d->transfer);
    struct nic_block_out *b = find_block(t, packet->tag.block);
    pool_give(&nic->departures, d);
    peer->delivery.reserved--;
    if (t && !lent)
        t->fetching--;
    if (!b || b->transmission != packet->tag.transmission) { /* it is sent anew, or not needed */
        discard(nic, peer, packet);
        if (t)
            check_end(nic, t);
        return;
    }
    b->fetching--;
    if (absent) {
        b->absent |= 1ull << packet->tag.place;
        nic_page_wait(&nic->blocks.waiting_out, &t->waiting);
        discard(nic, peer, packet);
        return;
    }
    if (packet->bad) /* whether it matters, its receiver reports */
        memset(packet->data, 0, packet->bytes);
    delivery_number(&nic->delivery, &peer->delivery, packet, t->outgoing->message_number);
    check_left(nic, b);
    nic_depart_packet(nic, peer, packet, lent ? nic_number(nic, t->outgoing) + 1 : 0);
}

/* ---- Pages at the source ---- */

static bool meets(struct nic *nic, const struct nic_block_out *b, uint32_t place,
                  const struct nic_pages *pages) {
    struct nic_packet packet = {0};
    make_packet(nic, (struct nic_block_out *)b, place, &packet);
    return nic_page_meets(nic, pages, b->transfer->outgoing, NULL, packet.offset, packet.bytes);
}

static bool block_in(struct nic *nic, struct nic_block_out *b, const struct nic_pages *pages) {
    for (uint64_t left = b->absent; left; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left);
        if (!meets(nic, b, place, pages))
            continue;
        b->absent &= ~(1ull << place);
        b->unsent |= 1ull << place;
        if (pages->failed)
            b->unreadable |= 1ull << place;
    }
    return b->absent;
}

void nic_block_source_in(struct nic *nic, const struct nic_pages *pages) {
    for (struct nic_page_wait *w = nic->blocks.waiting_out, *next; w; w = next) {
        struct nic_transfer *t = waiter_of(w);
        bool waits = false;
        next = w->next;
        for (uint32_t i = 0; i < NIC_BLOCKS_MAX; i++)
            if (t->block[i].used)
                waits |= block_in(nic, &t->block[i], pages);
        if (!waits)
            nic_page_wait_over(&t->waiting);
        make_ready(nic, t);
    }
}

struct nic_extent nic_block_source_extent(struct nic *nic, const struct nic_move *move) {
    const struct nic_departure *d = move->record;
    const struct nic_transfer *t = named(nic, d->transfer);
    uint64_t from = d->packet->offset + (uint64_t)(move->local - d->packet->data);
    struct nic_segment piece = {.bytes = move->bytes};
    if (t)
        nic_depart_pieces(nic, t->outgoing, from, t->outgoing->message.payload - from, &piece, 1);
    struct nic_extent e = nic_block_extent(move, from, piece.bytes);
    e.transfer = (d->transfer << 1) + 1;
    return e;
}

/* ---- Reports ---- */

void nic_block_report(struct nic *nic, struct nic_peer *peer, const struct nic_block_tag *of,
                      enum nic_report what) {
    struct nic_report_out *r = pool_take_raw(&nic->blocks.reports);
    if (!r) { /* where there is a timeout the block comes again, and is reported then */
        nic->counts.no_memory++;
        if (!nic->config.block_timeout)
            delivery_fail(&nic->delivery, &peer->delivery, nic->now);
        return;
    }
    r->tag = *of;
    r->tag.block_bytes = 0;
    r->tag.place = (uint8_t)what;
    r->tag.corrupt = false;
    r->next = NULL;
    if (!peer->reports)
        peer->reports_end = &peer->reports;
    *peer->reports_end = r;
    peer->reports_end = &r->next;
    nic->counts.acks_out += what == NIC_BLOCK_ACK;
    nic->counts.errs_out += what == NIC_BLOCK_ERR;
    nic->counts.nacks_out += what != NIC_BLOCK_ACK && what != NIC_BLOCK_ERR;
    nic_depart_room(nic, &peer->delivery);
}

bool nic_block_send_report(struct nic *nic, struct nic_peer *peer) {
    struct nic_report_out *r = peer->reports;
    struct nic_packet *packet = nic_packet_new(nic->config.pool);
    if (!packet) {
        nic->counts.no_memory++;
        return false;
    }
    peer->reports = r->next;
    packet->kind = NIC_REPORT;
    packet->tag = r->tag;
    pool_give(&nic->blocks.reports, r);
    nic->sending++;
    delivery_number(&nic->delivery, &peer->delivery, packet, peer->delivery.next_report++);
    nic_depart_packet(nic, peer, packet, 0);
    return true;
}

void nic_block_lost(struct nic *nic, struct nic_peer *peer) {
    for (struct nic_report_out *r; (r = peer->reports);) {
        peer->reports = r->next;
        pool_give(&nic->blocks.reports, r);
    }
}

void nic_block_reported(struct nic *nic, struct nic_peer *peer, const struct nic_packet *packet) {
    const struct nic_block_tag *tag = &packet->tag;
    struct nic_transfer *t = named(nic, tag->transfer);
    struct nic_block_out *b = find_block(t && t->outgoing->peer == peer ? t : NULL, tag->block);
    enum nic_report what = (enum nic_report)tag->place;
    bool current = b && b->transmission == tag->transmission;
    if (!b || (what != NIC_BLOCK_ACK && what != NIC_BLOCK_ERROR && !current)) {
        nic->counts.stale++;
        return;
    }
    switch (what) {
    case NIC_BLOCK_ERROR:
        t->outgoing->bad = true;
        acknowledged(nic, b);
        return;
    case NIC_BLOCK_ACK:
        acknowledged(nic, b);
        return;
    case NIC_BLOCK_FAULT:
        b->patient = nic->config.fault_ends_timeout;
        if (b->patient)
            timers_stop(&nic->blocks.timeouts, &b->timeout);
        return;
    case NIC_BLOCK_CORRUPT:
        nic->counts.corrupt_in++;
        send_again(nic, b);
        return;
    case NIC_BLOCK_ERR:
        nic->counts.errs_in++;
        send_again(nic, b);
        return;
    }
}
