/* Traffic: packets that arrive at a card, one after the other, from a generator or a file.
 *
 *     code = traffic_open(&t, "gen:messages=4,packets=32,size=1024,rate=400Gbit/s", &err);
 *     while ((code = traffic_next(t, &packet, &err)) > 0)
 *         ...
 *     traffic_close(t);
 *
 * Sources, with options behind commas (docs/card-run.md has them all):
 *
 *     gen:messages=4,packets=32,size=64-1500     made here, from a seed
 *     pcap:FILE                                  pcap or pcapng; messages from flows
 *     trace:FILE                                 PsPIN's text trace
 *     csv:FILE,DATA                              the trace of pspinsim_packet_trace_read
 *
 * Files are checked whole when they are opened, so that a malformed one fails before the run.
 * Nothing is allocated for a packet. */
#ifndef SPIN_SIM_TRAFFIC_H
#define SPIN_SIM_TRAFFIC_H

#include "nic/headers.h"
#include "openspin.h"

/* The longest packet of any source: an IPv4 datagram in an Ethernet frame with two tags. */
#define TRAFFIC_MOST_BYTES HEADERS_MOST_BYTES

/* Handlers and handler memory that a trace names by address; see csv. */
struct traffic_handlers {
    uint32_t header_address, header_bytes;
    uint32_t payload_address, payload_bytes;
    uint32_t completion_address, completion_bytes;
    uint32_t memory_address, memory_bytes;
};

struct traffic_packet {
    uint64_t arrival_ps;  /* of the first byte; never before that of the packet before */
    const uint8_t *bytes; /* until the next call */
    uint32_t length;
    uint32_t copy_bytes; /* of them to L1; the length unless the source says otherwise */
    uint32_t flow;
    uint32_t message; /* packets of one message have one id */
    bool end_of_message;
    uint64_t gap_ps;                         /* csv: from its arrival to the next one's */
    const struct traffic_handlers *handlers; /* NULL unless the source names them */
};

struct traffic;

int traffic_open(struct traffic **out, const char *spec, struct spin_error *err);
/* 1: *packet is the next one; 0: there are no more; negative: an error. */
int traffic_next(struct traffic *t, struct traffic_packet *packet, struct spin_error *err);
void traffic_close(struct traffic *t);
/* Several specs, merged by time of arrival, those first named first; ended by NULL. Message m of
 * the i-th of n is m * n + i, so that none share an id. All must have the same link. */
int traffic_open_all(struct traffic **out, const char *const *specs, struct spin_error *err);

/* What its packets begin with, and how many there are. */
enum nic_link traffic_link(const struct traffic *t);
uint64_t traffic_packets(const struct traffic *t);
/* Packets that a capture holds only the beginning of; they arrive as short as they are. */
uint64_t traffic_cut_packets(const struct traffic *t);
/* Packets that a capture stamps before the one in front of them; they arrive with it. */
uint64_t traffic_late_packets(const struct traffic *t);

/* ---- for the sources, and for tests that have the bytes in memory ---- */

struct traffic_source {
    int (*next)(struct traffic *t, struct traffic_packet *packet, struct spin_error *err);
    void (*close)(struct traffic *t);
};

/* Each source's struct begins with this. */
struct traffic {
    const struct traffic_source *source;
    enum nic_link link;
    uint64_t packets, cut_packets, late_packets;
};

/* Ids of PsPIN's messages have 10 bits: of a wider one in a trace the low ones count. */
static inline uint32_t traffic_message(uint32_t id) {
    return id & 0x3ff;
}

/* Words of an option `link`, by enum nic_link. */
extern const char *const traffic_links[];

/* `options` is the spec behind the name of the source. */
int traffic_gen_open(struct traffic **out, char *options, struct spin_error *err);
int traffic_pcap_open(struct traffic **out, const char *path, char *options,
                      struct spin_error *err);
int traffic_trace_open(struct traffic **out, const char *path, char *options,
                       struct spin_error *err);
int traffic_csv_open(struct traffic **out, const char *path, char *options, struct spin_error *err);
/* The same with the second file's name apart. */
int traffic_csv_read(struct traffic **out, const char *path, const char *data_path, char *options,
                     struct spin_error *err);
/* The same from memory, which must stay until the traffic is closed; `name` is for messages. */
int traffic_pcap_parse(struct traffic **out, const char *name, const uint8_t *bytes, size_t length,
                       char *options, struct spin_error *err);
int traffic_trace_parse(struct traffic **out, const char *name, const uint8_t *bytes, size_t length,
                        char *options, struct spin_error *err);
int traffic_csv_parse(struct traffic **out, const char *name, const uint8_t *bytes, size_t length,
                      const char *data_name, const uint8_t *data, size_t data_length, char *options,
                      struct spin_error *err);

/* The time that bytes take at a rate is no whole number of picoseconds: what is left is kept. */
struct traffic_clock {
    uint64_t ps, fs; /* fs below 1000 */
};
/* False when the time would go beyond what the engine can (SIM_LATEST_PS). */
bool traffic_clock_add(struct traffic_clock *clock, uint64_t ps, uint64_t bytes, uint64_t fs_byte);

#endif
