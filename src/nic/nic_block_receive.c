/* Blocks, at their receiver. A packet that meets an absent page is dropped, and so its block is not
 * whole: the sender is told, and asked for the block when the page is there. Packets that are here
 * stay, so of a block that comes again only what is missing is stored. */
#include "nic/nic_private.h"

static bool before(uint32_t a, uint32_t b) {
    return (int32_t)(a - b) < 0;
}

/* ---- Assemblies ---- */

static struct nic_assembly *assembly_of(struct nic *nic, struct nic_incoming *in,
                                        const struct nic_block_tag *tag) {
    struct nic_assembly *a = in->assembly;
    if (a || !(a = pool_take(&nic->blocks.assemblies)))
        return a;
    a->incoming = in;
    a->transfer = tag->transfer;
    a->block_bytes = tag->block_bytes;
    return in->assembly = a;
}

static struct nic_assembly *waiter_of(struct nic_page_wait *w) {
    return (struct nic_assembly *)((uint8_t *)w - offsetof(struct nic_assembly, waiting));
}

static void forget(struct nic *nic, struct nic_incoming *in) {
    nic_page_wait_over(&in->assembly->waiting);
    pool_give(&nic->blocks.assemblies, in->assembly);
    in->assembly = NULL;
}

static void report(struct nic *nic, const struct nic_assembly *a, const struct nic_block_in *b,
                   enum nic_report what) {
    struct nic_block_tag tag = {
        .transfer = a->transfer, .block = b->block, .transmission = b->transmission};
    nic_block_report(nic, a->incoming->peer, &tag, what);
}

void nic_block_end(struct nic *nic, struct nic_incoming *in) {
    struct nic_assembly *a = in->assembly;
    for (uint32_t i = 0; a && i < NIC_BLOCKS_MAX; i++)
        if (a->block[i].used)
            report(nic, a, &a->block[i], NIC_BLOCK_ERROR);
    if (a)
        forget(nic, in);
}

/* ---- Blocks ---- */

static uint32_t length_of(const struct nic_assembly *a, uint32_t block) {
    return nic_block_length(block, a->block_bytes, a->incoming->message->payload);
}

static struct nic_block_in *find_block(struct nic_assembly *a, uint32_t block) {
    for (uint32_t i = 0; a && i < NIC_BLOCKS_MAX; i++)
        if (a->block[i].used && a->block[i].block == block)
            return &a->block[i];
    return NULL;
}

static struct nic_block_in *begin_block(struct nic_assembly *a, uint32_t block) {
    for (uint32_t i = 0; i < NIC_BLOCKS_MAX; i++)
        if (!a->block[i].used) {
            a->block[i] = (struct nic_block_in){.used = true, .block = block};
            return &a->block[i];
        }
    return NULL;
}

static bool is_whole(const struct nic_assembly *a, uint32_t block) {
    uint32_t ahead = block - a->oldest;
    return before(block, a->oldest) || (ahead < NIC_BLOCK_SPAN && a->whole >> ahead & 1);
}

/* Whether it is whole now: then it is counted, once, and reported. The message may be complete. */
static void check_block(struct nic *nic, struct nic_incoming *in, struct nic_block_in *b) {
    struct nic_assembly *a = in->assembly;
    uint32_t length = length_of(a, b->block);
    if (b->bytes < length || b->moves || in->waiting || in->headless)
        return;
    report(nic, a, b, b->error ? NIC_BLOCK_ERROR : NIC_BLOCK_ACK);
    b->used = false;
    a->whole |= 1ull << (b->block - a->oldest);
    for (; a->whole & 1; a->whole >>= 1)
        a->oldest++;
    nic->counts.blocks_received++;
    in->received += length;
    if (in->received == in->message->payload) {
        forget(nic, in);
        nic_open_end(nic, in);
    }
}

void nic_block_settle(struct nic *nic, struct nic_incoming *in) {
    for (uint32_t i = 0; in->assembly && i < NIC_BLOCKS_MAX; i++)
        if (in->assembly->block[i].used)
            check_block(nic, in, &in->assembly->block[i]);
}

/* Once for each transmission. */
static void complain(struct nic *nic, struct nic_assembly *a, struct nic_block_in *b,
                     enum nic_report why) {
    if (b->complained == b->transmission)
        return;
    b->complained = b->transmission;
    b->patient = why == NIC_BLOCK_FAULT;
    report(nic, a, b, why);
}

/* All that was absent is there, or has come with another transmission. */
static void ask_again(struct nic *nic, struct nic_assembly *a, struct nic_block_in *b) {
    if (!b->wanted || b->absent || b->bytes == length_of(a, b->block))
        return;
    b->wanted = false;
    report(nic, a, b, NIC_BLOCK_ERR);
}

/* ---- Packets ---- */

/* Of the packets that it stands for: the MTU where they are several, else its own. */
static uint32_t each_of(const struct nic_packet *packet) {
    uint32_t most = nic_pool_mtu(packet->pool);
    return packet->bytes > most ? most : packet->bytes;
}

static uint64_t places_of(const struct nic_packet *packet) {
    uint32_t each = each_of(packet), count = (packet->bytes + each - 1) / each;
    return UINT64_MAX >> (NIC_BLOCK_PACKETS - count) << packet->tag.place;
}

/* Every packet of a block but its last is as long as the first. */
static bool fits(struct nic_assembly *a, const struct nic_packet *packet) {
    const struct nic_block_tag *tag = &packet->tag;
    uint64_t begin = (uint64_t)tag->block * a->block_bytes;
    uint32_t length = length_of(a, tag->block);
    if (tag->transfer != a->transfer || tag->block_bytes != a->block_bytes ||
        tag->place >= NIC_BLOCK_PACKETS || packet->offset < begin)
        return false;
    uint64_t at = packet->offset - begin;
    if (at >= length || !packet->bytes || packet->bytes > length - at)
        return false;
    bool last = at + packet->bytes == length, several = each_of(packet) < packet->bytes;
    uint64_t each = several ? each_of(packet) : tag->place ? at / tag->place : packet->bytes;
    if (!each || at != each * tag->place || (!last && packet->bytes % each) ||
        (!several && packet->bytes > each) ||
        tag->place + (packet->bytes + each - 1) / each > NIC_BLOCK_PACKETS)
        return false;
    if (tag->place == 0 && last && !several)
        return true; /* alone: it says nothing of the others */
    if (!a->packet_bytes)
        a->packet_bytes = (uint32_t)each;
    return a->packet_bytes == each;
}

static void take_packet(struct nic *nic, struct nic_incoming *in, struct nic_block_in *b,
                        struct nic_packet *packet);

/* A packet of what is over: its sender may not know that. */
static void drop_stale(struct nic *nic, struct nic_peer *peer, const struct nic_packet *packet) {
    nic->counts.stale++;
    if (packet->tag.place == 0)
        nic_block_report(nic, peer, &packet->tag, NIC_BLOCK_ACK);
}

/* Of the packets that it stands for some are here, or the pages of some are absent. */
static void take_each(struct nic *nic, struct nic_incoming *in, const struct nic_packet *packet) {
    uint32_t each = each_of(packet);
    for (uint32_t done = 0, place = packet->tag.place; done < packet->bytes; done += each) {
        struct nic_block_in *b = find_block(in->assembly, packet->tag.block);
        struct nic_packet one = *packet;
        one.references = 0;
        one.offset += done;
        one.data += done;
        one.bytes = packet->bytes - done < each ? packet->bytes - done : each;
        one.last = packet->last && done + one.bytes == packet->bytes;
        one.tag.place = (uint8_t)place++;
        if (!b || b->transmission != packet->tag.transmission)
            return; /* the message is over */
        take_packet(nic, in, b, &one);
    }
}

static void take_packet(struct nic *nic, struct nic_incoming *in, struct nic_block_in *b,
                        struct nic_packet *packet) {
    uint64_t bits = places_of(packet);
    if (bits & (bits - 1) && bits & (b->got | b->absent)) {
        take_each(nic, in, packet);
        return;
    }
    if (b->got & bits)
        return;
    b->got |= bits;
    b->bytes += packet->bytes;
    b->absent &= ~bits;
    b->error |= packet->bad;
    in->heard = nic->now;
    in->flow.work++; /* by this function */
    nic_receive_data(nic, in, packet);
    in->flow.work--;
    b = find_block(in->assembly, packet->tag.block);
    if (b && bits & (bits - 1) && b->absent & bits) {
        b->absent &= ~bits;
        take_each(nic, in, packet);
        return;
    }
    if (b) {
        ask_again(nic, in->assembly, b);
        check_block(nic, in, b);
    }
    nic_receive_check(nic, in);
}

/* The block that a packet is of; NULL: it is not to be taken. */
static struct nic_block_in *block_of(struct nic *nic, struct nic_peer *peer,
                                     struct nic_incoming *in, const struct nic_packet *packet) {
    const struct nic_block_tag *tag = &packet->tag;
    struct nic_assembly *a = in->assembly;
    if (!fits(a, packet) || tag->block - a->oldest >= NIC_BLOCK_SPAN) {
        bool old = before(tag->block, a->oldest);
        nic->counts.malformed += !old;
        if (old)
            drop_stale(nic, peer, packet);
        return NULL;
    }
    if (is_whole(a, tag->block)) {
        drop_stale(nic, peer, packet);
        return NULL;
    }
    struct nic_block_in *b = find_block(a, tag->block);
    if (!b)
        b = begin_block(a, tag->block);
    if (!b)
        nic->counts.malformed++; /* more blocks than any card sends at once */
    else if (before(tag->transmission, b->transmission))
        nic->counts.stale++;
    else
        return b;
    return NULL;
}

void nic_block_packet(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet) {
    const struct nic_block_tag *tag = &packet->tag;
    struct nic_incoming *in = nic_open_find(nic, peer, packet->message_number);
    if (!in) {
        drop_stale(nic, peer, packet);
        return;
    }
    if (!tag->block_bytes || (!in->assembly && in->received)) {
        nic->counts.malformed++;
        return;
    }
    if (!assembly_of(nic, in, tag)) {
        nic->counts.no_memory++;
        nic_block_report(nic, peer, tag, NIC_BLOCK_CORRUPT); /* once more, please */
        return;
    }
    struct nic_block_in *b = block_of(nic, peer, in, packet);
    if (!b)
        return;
    b->transmission = tag->transmission;
    if (!tag->corrupt)
        take_packet(nic, in, b, packet);
    else if (b->complained != b->transmission)
        complain(nic, in->assembly, b, NIC_BLOCK_CORRUPT);
    else if (b->patient) {
        b->wanted = true;
        ask_again(nic, in->assembly, b);
    }
}

/* ---- Moves ---- */

void nic_block_move_later(struct nic_incoming *in, const struct nic_packet *packet) {
    struct nic_block_in *b = find_block(in->assembly, packet->tag.block);
    if (b)
        b->moves++;
}

void nic_block_moved(struct nic *nic, struct nic_incoming *in, const struct nic_packet *packet) {
    struct nic_block_in *b = find_block(in->assembly, packet->tag.block);
    if (!b)
        return; /* the message was cut off */
    b->moves--;
    check_block(nic, in, b);
}

void nic_block_failed(struct nic_incoming *in, const struct nic_packet *packet) {
    struct nic_block_in *b = find_block(in->assembly, packet->tag.block);
    if (b)
        b->error = true;
}

void nic_block_absent(struct nic *nic, struct nic_incoming *in, const struct nic_packet *packet) {
    struct nic_assembly *a = in->assembly;
    struct nic_block_in *b = find_block(a, packet->tag.block);
    uint64_t bits = places_of(packet);
    if (!b)
        return;
    if (b->got & bits) /* all or none of them */
        b->bytes -= packet->bytes;
    b->got &= ~bits;
    b->absent |= bits;
    nic_page_wait(&nic->blocks.waiting_in, &a->waiting);
    complain(nic, a, b, NIC_BLOCK_FAULT);
    if (nic->config.err_policy == NIC_ERR_EARLY && !b->hurried)
        report(nic, a, b, NIC_BLOCK_ERR);
    b->hurried = true;
}

struct nic_extent nic_block_target_extent(struct nic *nic, const struct nic_move *move) {
    const struct nic_incoming *in = move->record;
    uint64_t from = move->packet->offset + (uint64_t)(move->local - move->packet->data);
    struct nic_segment piece[NIC_SEGMENTS] = {{.bytes = move->bytes}};
    nic_receive_pieces(nic, in, from, in->mlength - from, piece);
    struct nic_extent e = nic_block_extent(move, from, piece[0].bytes);
    e.transfer = (pool_number(in) + 1) << 1;
    return e;
}

/* ---- Pages at the destination ---- */

/* Bytes of a packet by its place. */
static uint32_t bytes_at(const struct nic_assembly *a, uint32_t block, uint32_t place) {
    uint32_t length = length_of(a, block), each = a->packet_bytes ? a->packet_bytes : length;
    uint32_t left = length - place * each;
    return left < each ? left : each;
}

static bool meets(struct nic *nic, const struct nic_assembly *a, const struct nic_block_in *b,
                  uint32_t place, const struct nic_pages *pages) {
    struct nic_packet packet = {.bytes = bytes_at(a, b->block, place),
                                .offset = (uint64_t)b->block * a->block_bytes +
                                          (uint64_t)place * a->packet_bytes};
    return nic_page_meets(nic, pages, NULL, a->incoming, packet.offset,
                          nic_accepted(a->incoming, &packet));
}

/* One that will never be there counts as here. */
static void give_up(struct nic_assembly *a, struct nic_block_in *b, uint32_t place) {
    b->got |= 1ull << place;
    b->bytes += bytes_at(a, b->block, place);
    b->error = true;
    flow_failed(&a->incoming->flow, PTL_NI_SEGV);
}

static void block_in(struct nic *nic, struct nic_assembly *a, struct nic_block_in *b,
                     const struct nic_pages *pages) {
    for (uint64_t left = b->absent; left; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left);
        if (!meets(nic, a, b, place, pages))
            continue;
        b->absent &= ~(1ull << place);
        if (pages->failed)
            give_up(a, b, place);
        else
            b->wanted = true;
    }
    ask_again(nic, a, b);
}

static bool waits(const struct nic_assembly *a) {
    for (uint32_t i = 0; i < NIC_BLOCKS_MAX; i++)
        if (a->block[i].used && a->block[i].absent)
            return true;
    return false;
}

void nic_block_target_in(struct nic *nic, const struct nic_pages *pages) {
    if (pages->more && !pages->failed && nic->config.err_policy == NIC_ERR_LATE)
        return;
    for (struct nic_page_wait *w = nic->blocks.waiting_in, *next; w; w = next) {
        struct nic_assembly *a = waiter_of(w);
        struct nic_incoming *in = a->incoming;
        next = w->next;
        for (uint32_t i = 0; i < NIC_BLOCKS_MAX; i++)
            if (a->block[i].used && a->block[i].absent)
                block_in(nic, a, &a->block[i], pages);
        if (!waits(a))
            nic_page_wait_over(&a->waiting);
        nic_block_settle(nic, in);
        nic_receive_check(nic, in);
    }
}
