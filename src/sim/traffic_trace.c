/* PsPIN's text trace of packets:
 *
 *     nsources npackets max_pkt_size
 *     src dst pkt_size ipg msgid is_last      one line per packet; pkt_size 0 is a pause of ipg
 *
 * ipg counts cycles (1 ns unless cycle= says otherwise) from this packet's first byte to the next
 * one's, as the RTL model's wait_cycles do; it is at least one. npackets may count the pauses too.
 * src and dst are numbers, src below nsources, or dotted IPv4 addresses, any.
 * The trace has no bytes: each packet of 28 bytes or more gets IPv4 and UDP headers with src and
 * dst as addresses and random bytes behind them, a shorter one random bytes only. */
#include "sim/traffic.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/settings.h"
#include "sim/traffic_lines.h"

#define MOST_FILE (1ull << 30)

struct trace_in {
    struct traffic base;
    char *name;
    uint8_t *file; /* what close frees */
    const char *text;
    size_t length;
    struct number_lines lines;
    uint32_t sources, announced, largest;
    uint64_t cycle_ps, fs_byte, seed, given;
    struct traffic_clock clock;
    struct rng random;
    bool internet; /* headers of the Internet, not PsPIN's */
    uint8_t bytes[HEADERS_MOST_IPV4];
};

struct row {
    uint32_t source, destination, bytes, gap, message, last;
};

#define ROW_WHAT "src dst pkt_size ipg msgid is_last"

static int complain(const struct trace_in *t, struct spin_error *err, const char *what,
                    uint64_t value, const char *limit, uint64_t of) {
    return spin_fail(err, SPIN_EFORMAT, "%.200s:%llu: %s %llu %s %llu", t->name,
                     (unsigned long long)t->lines.line, what, (unsigned long long)value, limit,
                     (unsigned long long)of);
}

/* 1, 0 at the end, or an error. */
static int read_row(struct trace_in *t, struct row *r, struct spin_error *err) {
    uint32_t n[6];
    int code = number_lines_next(&t->lines, ' ', ROW_WHAT, n, 6, err);
    if (code <= 0)
        return code;
    *r = (struct row){n[0], n[1], n[2], n[3], n[4], n[5]};
    if (r->source >= t->sources && !(t->lines.dotted & 1))
        return complain(t, err, "src", r->source, "does not exist: nsources is", t->sources);
    if (r->bytes > t->largest)
        return complain(t, err, "pkt_size", r->bytes, "is over max_pkt_size", t->largest);
    if (r->last > 1)
        return complain(t, err, "is_last", r->last, "is neither 0 nor", 1);
    return 1;
}

static int read_head(struct trace_in *t, struct spin_error *err) {
    uint32_t n[3];
    t->lines = (struct number_lines){.name = t->name, .at = t->text, .end = t->text + t->length};
    int code = number_lines_next(&t->lines, ' ', "nsources npackets max_pkt_size", n, 3, err);
    if (code == 0)
        return spin_fail(err, SPIN_EFORMAT, "%.200s: the trace is empty", t->name);
    if (code < 0)
        return code;
    t->sources = n[0];
    t->announced = n[1];
    t->largest = n[2];
    if (t->largest > HEADERS_MOST_IPV4)
        return complain(t, err, "max_pkt_size", n[2], "is over the limit of", HEADERS_MOST_IPV4);
    return SPIN_OK;
}

static bool pass_time(struct trace_in *t, const struct row *r) {
    struct traffic_clock sent = t->clock;
    uint64_t gap = r->bytes && r->gap == 0 ? 1 : r->gap; /* one packet per cycle at most */
    if (!traffic_clock_add(&t->clock, gap * t->cycle_ps, 0, 0) ||
        !traffic_clock_add(&sent, 0, r->bytes, t->fs_byte))
        return false;
    if (sent.ps > t->clock.ps) /* the link is slower than the trace */
        t->clock = sent;
    return true;
}

/* Every line once, so that what is wrong is said before the run. */
static int check(struct trace_in *t, struct spin_error *err) {
    struct row r;
    uint64_t pauses = 0;
    int code = read_head(t, err);
    while (!code && (code = read_row(t, &r, err)) > 0) {
        t->base.packets += r.bytes > 0;
        pauses += r.bytes == 0;
        code = pass_time(t, &r) ? SPIN_OK
                                : complain(t, err, "ipg", r.gap,
                                           "leads beyond the limit of simulated time, days:", 53);
    }
    if (code)
        return code;
    if (t->base.packets == 0)
        return spin_fail(err, SPIN_EFORMAT, "%.200s: the trace holds no packet", t->name);
    if (t->announced != t->base.packets && t->announced != t->base.packets + pauses)
        return spin_fail(err, SPIN_EFORMAT,
                         "%.200s:1: npackets is %u, but the trace has %llu packets and %llu pauses",
                         t->name, t->announced, (unsigned long long)t->base.packets,
                         (unsigned long long)pauses);
    t->clock = (struct traffic_clock){0};
    return read_head(t, err);
}

static void make_bytes(struct trace_in *t, const struct row *r) {
    uint32_t headers = headers_udp_bytes(NIC_LINK_IP);
    uint32_t i = r->bytes >= headers ? headers : 0;
    for (; i < r->bytes; i++)
        t->bytes[i] = (uint8_t)rng_u32(&t->random);
    struct headers_udp udp = {.source = r->source,
                              .destination = r->destination,
                              .source_port = (uint16_t)(0xc000 + r->source % 0x4000),
                              .destination_port = 4791,
                              .identification = (uint16_t)t->given};
    if (r->bytes >= headers && t->internet)
        headers_write_udp(NIC_LINK_IP, t->bytes, r->bytes, &udp);
    else if (r->bytes >= headers)
        headers_write_pspin(t->bytes, r->bytes, &udp);
}

static int next(struct traffic *base, struct traffic_packet *p, struct spin_error *err) {
    struct trace_in *t = (struct trace_in *)base;
    struct row r;
    int code;
    while ((code = read_row(t, &r, err)) > 0) {
        uint64_t arrival = t->clock.ps;
        pass_time(t, &r);
        if (r.bytes == 0)
            continue;
        make_bytes(t, &r);
        t->given++;
        *p = (struct traffic_packet){.arrival_ps = arrival,
                                     .bytes = t->bytes,
                                     .length = r.bytes,
                                     .copy_bytes = r.bytes,
                                     .flow = r.source,
                                     .message = traffic_message(r.message),
                                     .end_of_message = r.last};
        return 1;
    }
    return code;
}

static void close_trace(struct traffic *base) {
    struct trace_in *t = (struct trace_in *)base;
    free(t->file);
    free(t->name);
    free(t);
}

static const struct traffic_source source = {next, close_trace};

int traffic_trace_parse(struct traffic **out, const char *name, const uint8_t *bytes, size_t length,
                        char *options, struct spin_error *err) {
    *out = NULL;
    struct trace_in *t = calloc(1, sizeof *t);
    if (!t || !(t->name = strdup(name))) {
        free(t);
        return spin_fail(err, SPIN_ENOMEM, "%.200s: out of memory", name);
    }
    t->base = (struct traffic){.source = &source, .link = NIC_LINK_IP};
    t->text = (const char *)bytes;
    t->length = length;
    t->cycle_ps = 1000;
    t->seed = 1;
    static const char *const headers[] = {"pspin", "internet", NULL};
    unsigned internet = 0;
    const struct setting table[] = {
        {"headers", SETTING_WORD, &internet, 0, 0, headers},
        {"cycle", SETTING_TIME, &t->cycle_ps, 1, 1000000000, NULL},
        {"rate", SETTING_RATE, &t->fs_byte, 0, 0, NULL},
        {"seed", SETTING_COUNT, &t->seed, 0, UINT64_MAX, NULL},
        {0},
    };
    int code = settings_read("trace", options, table, err);
    t->internet = internet;
    if (!code)
        code = check(t, err);
    t->random = rng_seeded(t->seed);
    if (code)
        close_trace(&t->base);
    else
        *out = &t->base;
    return code;
}

int traffic_trace_open(struct traffic **out, const char *path, char *options,
                       struct spin_error *err) {
    uint8_t *bytes;
    size_t length;
    *out = NULL;
    int code = file_read(path, "packet trace", MOST_FILE, &bytes, &length, err);
    if (code)
        return code;
    code = traffic_trace_parse(out, path, bytes, length, options, err);
    if (code)
        free(bytes);
    else
        ((struct trace_in *)*out)->file = bytes;
    return code;
}
