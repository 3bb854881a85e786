/* What happens on a card, written to files while it runs: OPENSPIN_PCAP (packets,
 * nic/wire_capture.h) and OPENSPIN_TRACE (boxes of packets, handlers and waits, base/trace.h). A
 * file has its name when the process has left in order; until then, and after a kill, it is
 * NAME.part-PID.
 *
 * Packets go into the file's buffer. Boxes go into memory of a fixed size, and from there to the
 * file when the card shows its counters (live_seen.h) or when the memory is full; nothing is lost.
 */
#ifndef SPIN_LIVE_LIVE_RECORD_H
#define SPIN_LIVE_LIVE_RECORD_H

#include "live/live_clock.h"
#include "nic/capture.h"
#include "nic/nic.h"

struct live_record;

struct live_record_options {
    const char *pcap, *trace; /* names of files, or NULL: %r is the rank, %p the process */
    uint32_t rank, ranks;     /* ranks 0: none, `rank` is a pid */
    uint32_t port;            /* of pid 0 on UDP; 0: the usual one */
    uint32_t mtu_bytes;
    uint64_t start_ns; /* the trace's time 0 (CLOCK_MONOTONIC) */
};

/* Rows of a trace, as those of worlds; HPU i is RECORD_HPU + i. */
enum record_row { RECORD_CPU, RECORD_OUT, RECORD_IN, RECORD_DMA, RECORD_HPU };

/* Whether these are names of files (or NULL) that each of the ranks has for itself. */
int live_record_check(const char *pcap, const char *trace, uint32_t ranks, struct spin_error *err);
/* *out is NULL if nothing is to be written. */
int live_record_open(struct live_record **out, const struct live_record_options *options,
                     struct spin_error *err);
/* Files get their names; says on standard error if one cannot be written. Whoever still uses the
 * record finds it closed. */
void live_record_close(struct live_record *record);
void live_record_free(struct live_record *record);
/* Nothing is left in memory alone. */
void live_record_flush(struct live_record *record);

/* Whether times are wanted of what is done. */
bool live_record_traces(const struct live_record *record);
/* It is on the wire. */
void live_record_wire(struct live_record *record, const struct nic_packet *packet,
                      enum capture_direction direction, uint64_t at_ns);
/* The card worked on it from `began_ns` on, until now. */
void live_record_work(struct live_record *record, const struct nic_packet *packet,
                      enum capture_direction direction, uint64_t began_ns);
/* Something that is no packet of ours was thrown away. */
void live_record_dropped(struct live_record *record, struct nic_address source,
                         struct nic_address target, const uint8_t *bytes, uint32_t length,
                         const char *why);
/* `name` has to last. */
void live_record_box(struct live_record *record, uint32_t row, const char *name, uint64_t began_ns,
                     uint64_t ended_ns, uint64_t bytes);

#endif
