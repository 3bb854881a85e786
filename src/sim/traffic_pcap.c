/* Captured traffic: pcap and pcapng, read by libpcap.
 *
 * The file is read twice. The first time, when it is opened, finds flows, messages and arrival
 * times and with them every error of the file: which packet ends a message is known only from those
 * behind it. What stays is 24 bytes per packet; the second time gives the packets out. */
#include "sim/traffic.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/index_table.h"
#include "base/settings.h"
#include "base/units.h"
#include "sim/engine.h"

#define MOST_PACKETS (1ull << 30)
#define NONE         UINT32_MAX

struct record {
    uint64_t arrival_ps;
    uint32_t flow, message;
    bool last;
};

/* Protocol, addresses and ports as they are sent: the two directions are two flows. What is not
 * IPv4 is told apart by its Ethernet addresses and type; malformed packets are one flow. */
struct tuple {
    uint64_t a, b;
    uint32_t ports, protocol;
};

struct flow {
    struct tuple tuple;
    uint32_t message;     /* the one under way, or NONE */
    uint32_t last_packet; /* its latest packet */
    uint64_t last_ps, in_message;
};

enum ending { BY_FLOW, BY_COUNT, BY_GAP };

struct capture_in {
    struct traffic base;
    char *name;
    const uint8_t *bytes; /* NULL: the file `name` */
    size_t length;
    pcap_t *pcap;
    uint32_t skip; /* the Ethernet header, when link=ip asks for what is behind it */
    enum ending ending;
    uint64_t count, gap_ps, fs_byte, limit;
    struct record *record;
    uint64_t room, given;
    struct flow *flow;
    uint32_t flows, flow_room, messages;
    struct hash_table by_tuple; /* flows' numbers */
};

static int out_of_memory(const struct capture_in *c, struct spin_error *err) {
    return spin_fail(err, SPIN_ENOMEM, "%.200s: out of memory", c->name);
}

/* ---- the file ---- */

static int open_file(struct capture_in *c, struct spin_error *err) {
    char why[PCAP_ERRBUF_SIZE] = "";
    struct stat st;
    /* A pipe would be empty the second time, and opening it again would wait forever. */
    if (!c->bytes && stat(c->name, &st) == 0 && !S_ISREG(st.st_mode))
        return spin_fail(err, SPIN_EFILE,
                         "%.200s: is no regular file; a capture is read twice, so save it first",
                         c->name);
    FILE *stream =
        c->bytes ? fmemopen((void *)(uintptr_t)c->bytes, c->length, "rb") : fopen(c->name, "rbe");
    if (!stream)
        return spin_fail(err, SPIN_EFILE, "%.200s: cannot open capture: %s", c->name,
                         strerror(errno));
    c->pcap = pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, why);
    if (!c->pcap) {
        fclose(stream);
        return spin_fail(err, SPIN_EFORMAT, "%.200s: no pcap or pcapng capture: %.200s", c->name,
                         why);
    }
    int type = pcap_datalink(c->pcap);
    bool ethernet = type == DLT_EN10MB, ip = type == DLT_RAW || type == DLT_IPV4;
    if (!ethernet && !ip) {
        const char *name = pcap_datalink_val_to_name(type);
        return spin_fail(err, SPIN_EFORMAT,
                         "%.200s: packets of link type %d (%s); expected Ethernet or raw IP",
                         c->name, type, name ? name : "unknown");
    }
    bool strip = c->base.link == NIC_LINK_IP; /* what was asked for */
    c->skip = ethernet && strip ? HEADERS_ETHERNET : 0;
    if (ip)
        c->base.link = NIC_LINK_IP;
    return SPIN_OK;
}

/* 1, 0 at the end, or an error. */
static int read_packet(struct capture_in *c, uint64_t number, struct pcap_pkthdr **header,
                       const uint8_t **bytes, struct spin_error *err) {
    int got = pcap_next_ex(c->pcap, header, bytes);
    if (got == PCAP_ERROR_BREAK)
        return 0;
    if (got != 1)
        return spin_fail(err, SPIN_EFORMAT, "%.200s: packet %llu: %.200s", c->name,
                         (unsigned long long)number + 1, pcap_geterr(c->pcap));
    if ((*header)->caplen > TRAFFIC_MOST_BYTES)
        return spin_fail(err, SPIN_ELIMIT,
                         "%.200s: packet %llu: %u bytes are over the limit of %u bytes", c->name,
                         (unsigned long long)number + 1, (*header)->caplen, TRAFFIC_MOST_BYTES);
    return 1;
}

/* ---- flows and messages ---- */

static struct tuple tuple_of(enum nic_link link, const uint8_t *bytes, uint32_t length) {
    struct nic_headers h = headers_find(link, bytes, length);
    struct tuple t = {0, 0, 0, NONE};
    if (h.ipv4 != HEADERS_ABSENT) {
        t.a = headers_number(bytes + h.ipv4 + 12, 4);
        t.b = headers_number(bytes + h.ipv4 + 16, 4);
        t.protocol = bytes[h.ipv4 + 9];
        uint32_t ports = h.udp != HEADERS_ABSENT ? h.udp : h.tcp;
        if (ports != HEADERS_ABSENT)
            t.ports = (uint32_t)headers_number(bytes + ports, 4);
    } else if (h.ethernet != HEADERS_ABSENT) {
        t.a = headers_number(bytes, 6);
        t.b = headers_number(bytes + 6, 6);
        t.protocol = 0x10000u | (uint32_t)headers_number(bytes + h.type, 2);
    } else if (h.fault == HEADERS_NONE) {
        t.protocol = 0x20000u; /* IPv6 without Ethernet */
    }
    return t;
}

static uint64_t hash(const struct tuple *t) {
    uint64_t h = t->a * 0x9e3779b97f4a7c15ull;
    h = (h ^ h >> 29 ^ t->b) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 32 ^ t->ports ^ (uint64_t)t->protocol << 32) * 0x94d049bb133111ebull;
    return h;
}

static bool same(const struct tuple *a, const struct tuple *b) {
    return a->a == b->a && a->b == b->b && a->ports == b->ports && a->protocol == b->protocol;
}

static const struct tuple *tuple_at(const struct capture_in *c, uint32_t flow) {
    return &c->flow[flow].tuple;
}
INDEX_TABLE_OF(flows, struct capture_in, const struct tuple *, tuple_at, hash, same);

/* The flow's number, NONE when there is no memory. */
static uint32_t find_flow(struct capture_in *c, const struct tuple *tuple) {
    uint32_t found = flows_find(&c->by_tuple, c, tuple);
    if (found != INDEX_NONE)
        return found;
    if (!ROOM_FOR_ONE(c->flow, c->flows, c->flow_room, 64))
        return NONE;
    c->flow[c->flows] = (struct flow){.tuple = *tuple, .message = NONE};
    return flows_add(&c->by_tuple, c, c->flows) ? c->flows++ : NONE;
}

/* Puts packet `number` into its flow's message, which may have ended before it, or with it. */
static void put_into_message(struct capture_in *c, struct flow *f, uint32_t number) {
    struct record *r = &c->record[number];
    if (f->message != NONE && c->ending == BY_GAP && r->arrival_ps - f->last_ps > c->gap_ps) {
        c->record[f->last_packet].last = true;
        f->message = NONE;
    }
    if (f->message == NONE) {
        f->message = c->messages++;
        f->in_message = 0;
    }
    r->message = f->message;
    f->last_packet = number;
    f->last_ps = r->arrival_ps;
    if (c->ending == BY_COUNT && ++f->in_message == c->count) {
        r->last = true;
        f->message = NONE;
    }
}

static int add_record(struct capture_in *c, uint64_t arrival_ps, const uint8_t *bytes,
                      uint32_t length, struct spin_error *err) {
    if (c->base.packets == MOST_PACKETS)
        return spin_fail(err, SPIN_ELIMIT, "%.200s: over the limit of %llu packets; use limit=N",
                         c->name, MOST_PACKETS);
    if (!ROOM_FOR_ONE(c->record, c->base.packets, c->room, 1024))
        return out_of_memory(c, err);
    struct tuple tuple = tuple_of(c->base.link, bytes, length);
    uint32_t flow = find_flow(c, &tuple);
    if (flow == NONE)
        return out_of_memory(c, err);
    uint32_t number = (uint32_t)c->base.packets++;
    c->record[number] = (struct record){.arrival_ps = arrival_ps, .flow = flow};
    put_into_message(c, &c->flow[flow], number);
    return SPIN_OK;
}

/* Seconds and nanoseconds of the file since its first packet; time never goes back. */
static int capture_time(const struct capture_in *c, const struct pcap_pkthdr *header,
                        const struct timeval *start, uint64_t before_ps, uint64_t *ps,
                        struct spin_error *err) {
    __int128 at = (__int128)header->ts.tv_sec - start->tv_sec;
    at = (at * 1000000000 + header->ts.tv_usec - start->tv_usec) * 1000;
    if (at >= (__int128)SIM_LATEST_PS)
        return spin_fail(err, SPIN_ELIMIT,
                         "%.200s: packet %llu arrives beyond the limit of 53 days; give a rate=",
                         c->name, (unsigned long long)c->base.packets + 1);
    *ps = at < (__int128)before_ps ? before_ps : (uint64_t)at;
    return SPIN_OK;
}

static bool is_before(const struct timeval *a, const struct timeval *b) {
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_usec < b->tv_usec);
}

static int first_pass(struct capture_in *c, struct spin_error *err) {
    struct pcap_pkthdr *header;
    const uint8_t *bytes;
    struct timeval start = {0};
    struct timeval last = {0};
    struct traffic_clock clock = {0};
    int code;
    while (c->base.packets < c->limit &&
           (code = read_packet(c, c->base.packets, &header, &bytes, err)) != 0) {
        if (code < 0)
            return code;
        if (c->base.packets == 0)
            start = header->ts;
        if (header->caplen <= c->skip)
            return spin_fail(err, SPIN_EFORMAT,
                             "%.200s: packet %llu holds %u bytes: nothing is left of it%s", c->name,
                             (unsigned long long)c->base.packets + 1, header->caplen,
                             c->skip ? " without the Ethernet header, which link=ip drops" : "");
        c->base.cut_packets += header->caplen < header->len;
        uint64_t at = clock.ps;
        if (!c->fs_byte)
            code = capture_time(c, header, &start, clock.ps, &at, err);
        c->base.late_packets +=
            !c->fs_byte && at == clock.ps && c->base.packets && is_before(&header->ts, &last);
        last = header->ts;
        clock.ps = at;
        uint32_t length = header->caplen - c->skip;
        if (code >= 0)
            code = add_record(c, at, bytes + c->skip, length, err);
        if (code < 0)
            return code;
        if (c->fs_byte && !traffic_clock_add(&clock, 0, length, c->fs_byte))
            return spin_fail(err, SPIN_ELIMIT, "%.200s: time goes beyond the limit of 53 days",
                             c->name);
    }
    if (c->base.packets == 0)
        return spin_fail(err, SPIN_EFORMAT, "%.200s: the capture holds no packet", c->name);
    for (uint32_t f = 0; f < c->flows; f++)
        if (c->flow[f].message != NONE)
            c->record[c->flow[f].last_packet].last = true;
    return SPIN_OK;
}

/* ---- the source ---- */

static int next(struct traffic *t, struct traffic_packet *p, struct spin_error *err) {
    struct capture_in *c = (struct capture_in *)t;
    struct pcap_pkthdr *header;
    const uint8_t *bytes;
    if (c->given == c->base.packets)
        return 0;
    int code = read_packet(c, c->given, &header, &bytes, err);
    if (code == 0 || (code == 1 && header->caplen <= c->skip))
        return spin_fail(err, SPIN_EFILE, "%.200s: has changed while it was read", c->name);
    if (code < 0)
        return code;
    const struct record *r = &c->record[c->given++];
    uint32_t length = header->caplen - c->skip;
    *p = (struct traffic_packet){.arrival_ps = r->arrival_ps,
                                 .bytes = bytes + c->skip,
                                 .length = length,
                                 .copy_bytes = length,
                                 .flow = r->flow,
                                 .message = r->message,
                                 .end_of_message = r->last};
    return 1;
}

static void close_capture(struct traffic *t) {
    struct capture_in *c = (struct capture_in *)t;
    if (c->pcap)
        pcap_close(c->pcap);
    free(c->record);
    free(c->flow);
    hash_table_free(&c->by_tuple);
    free(c->name);
    free(c);
}

static const struct traffic_source source = {next, close_capture};

/* "flow", "gap:10us", or a number of packets. */
static int parse_ending(struct capture_in *c, const char *text, struct spin_error *err) {
    if (strcmp(text, "flow") == 0) {
        c->ending = BY_FLOW;
        return SPIN_OK;
    }
    if (strncmp(text, "gap:", 4) == 0 && units_time_ps(text + 4, &c->gap_ps)) {
        c->ending = BY_GAP;
        return SPIN_OK;
    }
    c->ending = BY_COUNT;
    if (units_u64(text, &c->count) && c->count > 0)
        return SPIN_OK;
    return spin_fail(err, SPIN_EARG,
                     "pcap: messages: '%.60s' is not flow, a number of packets, or gap:TIME "
                     "(such as gap:10us)",
                     text);
}

static int open_capture(struct traffic **out, const char *name, const uint8_t *bytes, size_t length,
                        char *options, struct spin_error *err) {
    *out = NULL;
    struct capture_in *c = calloc(1, sizeof *c);
    if (!c)
        return spin_fail(err, SPIN_ENOMEM, "%.200s: out of memory", name);
    c->base = (struct traffic){.source = &source, .link = NIC_LINK_ETHERNET};
    c->bytes = bytes;
    c->length = length;
    c->limit = UINT64_MAX;
    c->name = strdup(name);
    const char *messages = "flow";
    const struct setting table[] = {
        {"messages", SETTING_TEXT, &messages, 0, 0, NULL},
        {"rate", SETTING_RATE, &c->fs_byte, 0, 0, NULL},
        {"link", SETTING_WORD, &c->base.link, 0, 0, traffic_links},
        {"limit", SETTING_COUNT, &c->limit, 1, UINT64_MAX, NULL},
        {0},
    };
    int code = settings_read("pcap", options, table, err);
    if (!code && !c->name)
        code = spin_fail(err, SPIN_ENOMEM, "%.200s: out of memory", name);
    if (!code)
        code = parse_ending(c, messages, err);
    if (!code)
        code = open_file(c, err);
    if (!code)
        code = first_pass(c, err);
    if (!code) {
        pcap_close(c->pcap);
        c->pcap = NULL;
        code = open_file(c, err);
    }
    if (code)
        close_capture(&c->base);
    else
        *out = &c->base;
    return code;
}

int traffic_pcap_open(struct traffic **out, const char *path, char *options,
                      struct spin_error *err) {
    return open_capture(out, path, NULL, 0, options, err);
}

int traffic_pcap_parse(struct traffic **out, const char *name, const uint8_t *bytes, size_t length,
                       char *options, struct spin_error *err) {
    return open_capture(out, name, bytes, length, options, err);
}
