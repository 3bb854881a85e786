/* The interval between checkpoints. */
#include "datatype_layout.h"

/* What a general handler takes, in cycles of an HPU: per packet, and per region of it (counted on
 * simulated cards; handlers/datatype/README.md). */
enum { PACKET_CYCLES = 210, REGION_CYCLES = 16 };

#define WAITING_SHARE 0.2 /* of the time that handlers take: above it HPUs wait for too long */
#define PACKET_BYTES  4096u

static uint32_t or_else(uint32_t value, uint32_t otherwise) {
    return value ? value : otherwise;
}

static uint64_t divide_up(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

bool spin_type_interval(const struct spin_layout *layout, const struct spin_type_options *o,
                        struct spin_interval *i) {
    static const struct spin_type_options none;
    const struct spin_layout_info *info = &layout->info;
    if (!o)
        o = &none;
    uint64_t size = info->size ? info->size : 1;
    uint32_t hpus = or_else(o->hpus, 4), card = or_else(o->card_bytes, 1 << 20);
    uint32_t words = dataloop_segment_words(info->depth);
    *i = (struct spin_interval){
        .packet_bytes = PACKET_BYTES,
        .packets = (uint32_t)divide_up(size, PACKET_BYTES),
        .hpus = hpus,
        .regions_per_packet = (double)info->regions *
                              (size < PACKET_BYTES ? 1.0 : (double)PACKET_BYTES / (double)size),
        .packet_ps = or_else(o->packet_ps, 82000),
        /* one that is never changed, and one that is, with its lock */
        .checkpoint_bytes = 4 * (2 * words + 1),
    };
    i->handler_ps =
        (PACKET_CYCLES + REGION_CYCLES * i->regions_per_packet) * or_else(o->hpu_cycle_ps, 400);
    double handling = (double)divide_up(i->packets, hpus) * i->handler_ps;
    uint64_t dataloop = info->dataloop_bytes + 64, room = 0;
    if (card > dataloop)
        room = (card - dataloop) / i->checkpoint_bytes;
    if (!room)
        return false;
    uint64_t in_packets = divide_up(i->packets, room); /* the fewest that card memory allows */
    if (o->interval)
        in_packets = divide_up(o->interval, PACKET_BYTES);
    i->bytes = o->interval ? o->interval : (uint32_t)(in_packets * PACKET_BYTES);
    i->checkpoints = (uint32_t)divide_up(size, i->bytes);
    double waiting = (double)in_packets * (hpus - 1) * i->packet_ps;
    i->time_ps = i->packet_ps + waiting + handling;
    i->bound = in_packets == 1                                        ? SPIN_INTERVAL_IS_A_PACKET
               : in_packets * hpus > or_else(o->buffer_packets, 1024) ? SPIN_INTERVAL_OVER_BUFFER
               : waiting > WAITING_SHARE * handling                   ? SPIN_INTERVAL_OVER_WAITING
                                                                      : SPIN_INTERVAL_BY_MEMORY;
    return i->checkpoints <= room;
}
