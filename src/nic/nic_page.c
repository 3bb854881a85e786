/* Pages of host memory that are absent. A move that meets one is parked: it stays on the card with
 * what it refers to, is repeated when the driver says that the page is there, and nothing else
 * waits for it. Parked moves are repeated in the order in which they came, so small ones that
 * overlap keep it: until then the driver says of each of them that its page is absent. */
#include "nic/nic_private.h"

static void link_last(struct nic_parking *parking, struct nic_parked *p) {
    p->next = NULL;
    *parking->end = p;
    parking->end = &p->next;
}

static void append(struct nic *nic, struct nic_parked *p) {
    link_last(nic->parking, p);
    nic->counts.parked++;
}

static void count(struct nic *nic, const struct nic_move *move) {
    if (move->kind == NIC_FETCH)
        nic->counts.source_faults++;
    else
        nic->counts.destination_faults++;
}

static struct nic_parking *parking_of(struct nic *nic) {
    struct nic_parking *parking = nic->parking;
    if (parking || !(parking = zone_take_clear(nic->config.zone, sizeof *parking)))
        return parking;
    pool_init(&parking->moves, nic->config.zone, sizeof(struct nic_parked), UINT32_MAX);
    parking->end = &parking->first;
    return nic->parking = parking;
}

static struct nic_parked *parked_new(struct nic *nic) {
    struct nic_parking *parking = parking_of(nic);
    struct nic_parked *p = parking ? pool_take_raw(&parking->moves) : NULL;
    nic->counts.no_memory += !p;
    return p;
}

static bool is_departing_block(const struct nic_move *move) {
    return move->purpose == FETCH_DEPARTURE && move->packet->kind == NIC_BLOCK;
}

/* One that is of a block: the block sees to it. */
static bool is_in_block(const struct nic_move *move) {
    return move->purpose == MOVE_MESSAGE && move->packet->kind == NIC_BLOCK;
}

__attribute__((noinline)) enum nic_status nic_page_absent(struct nic *nic, struct nic_move *move) {
    count(nic, move);
    if (is_departing_block(move)) {
        ((struct nic_departure *)move->record)->absent = true;
        return NIC_ABSENT;
    }
    if (is_in_block(move)) {
        struct nic_incoming *in = move->record;
        nic_block_absent(nic, in, move->packet);
        return NIC_ABSENT;
    }
    struct nic_parked *p = parked_new(nic);
    if (!p)
        return NIC_FAULT;
    bool later = nic_move_later(nic, move, &p->move);
    if (!later || (move->purpose == MOVE_COMMAND && !nic_command_own(&p->move))) {
        if (later)
            nic_moved(nic, &p->move, NIC_FAULT, nic->now);
        pool_give(&nic->parking->moves, p);
        return later ? NIC_PENDING : NIC_FAULT;
    }
    append(nic, p);
    return NIC_PENDING;
}

enum nic_status nic_page_park(struct nic *nic, struct nic_move *later) {
    count(nic, later);
    if (is_departing_block(later))
        ((struct nic_departure *)later->record)->absent = true;
    if (is_departing_block(later) || is_in_block(later))
        return NIC_ABSENT;
    struct nic_parked *p = parked_new(nic);
    if (!p)
        return NIC_FAULT;
    p->move = *later;
    append(nic, p);
    return NIC_PENDING;
}

uint32_t nic_parked(const struct nic *nic) {
    return nic->parking ? nic->parking->moves.used : 0;
}

void nic_page_clear(struct nic *nic) {
    struct nic_parking *parking = nic->parking;
    if (!parking)
        return;
    for (struct nic_parked *p = parking->first; p; p = p->next)
        if (p->move.purpose == MOVE_COMMAND)
            nic_command_disown(&p->move);
        else
            nic_move_forget(&p->move);
    pool_clear(&parking->moves);
    zone_give(nic->config.zone, parking, sizeof *parking);
}

struct nic_extent nic_move_extent(struct nic *nic, const struct nic_move *move) {
    if (is_departing_block(move))
        return nic_block_source_extent(nic, move);
    if (is_in_block(move))
        return nic_block_target_extent(nic, move);
    return (struct nic_extent){.block_bytes = move->bytes, .transfer_bytes = move->bytes};
}

/* What a handler did not wait for: its memory is another's now. */
static bool is_for_nobody(const struct nic_move *move) {
    const struct nic_command_record *c = move->record;
    return move->purpose == MOVE_COMMAND && move->kind == NIC_FETCH && c->task->ended;
}

/* The handler may have returned since. */
static void forget_handler(struct nic_move *move) {
    const struct nic_command_record *c = move->record;
    if (move->from_handler && c->task->ended) {
        move->from_handler = false;
        move->task = NULL;
    }
}

static void repeat(struct nic *nic, struct nic_move *move, bool failed) {
    move->kept = true;
    bool for_nobody = is_for_nobody(move);
    forget_handler(move);
    enum nic_status how = failed       ? NIC_FAULT
                          : for_nobody ? NIC_DONE
                                       : nic->config.driver->move(nic->config.context, move);
    if (how != NIC_PENDING)
        nic_moved(nic, move, how, nic->now);
}

static bool meets(const struct nic_pages *pages, const uint8_t *host, uint64_t bytes) {
    return host < pages->host + pages->bytes && pages->host < host + bytes;
}

bool nic_page_meets(struct nic *nic, const struct nic_pages *pages, const struct nic_outgoing *out,
                    const struct nic_incoming *in, uint64_t offset, uint64_t bytes) {
    for (uint64_t end = offset + bytes; offset < end;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint32_t pieces =
            out ? nic_depart_pieces(nic, out, offset, end - offset, piece, NIC_SEGMENTS)
                : nic_receive_pieces(nic, in, offset, end - offset, piece);
        if (!pieces)
            return true;
        for (uint32_t i = 0; i < pieces; i++) {
            if (meets(pages, piece[i].host, piece[i].bytes))
                return true;
            offset += piece[i].bytes;
        }
    }
    return false;
}

/* Those that wait for these pages; what is parked meanwhile comes behind the others. */
static void repeat_parked(struct nic *nic, struct nic_parking *parking,
                          const struct nic_pages *pages) {
    struct nic_parked *waiting = parking->first;
    parking->first = NULL;
    parking->end = &parking->first;
    while (waiting) {
        struct nic_parked *p = waiting;
        waiting = p->next;
        if (!meets(pages, p->move.host, p->move.bytes)) {
            link_last(parking, p);
            continue;
        }
        struct nic_move move = p->move;
        pool_give(&parking->moves, p);
        repeat(nic, &move, pages->failed);
    }
}

void nic_paged_in(struct nic *nic, const struct nic_pages *pages, uint64_t now) {
    nic->now = now;
    if (nic->parking)
        repeat_parked(nic, nic->parking, pages);
    nic_block_source_in(nic, pages);
    nic_block_target_in(nic, pages);
}
