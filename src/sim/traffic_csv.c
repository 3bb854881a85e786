/* The trace that PsPIN's pspinsim_packet_trace_read takes: a line of 13 numbers per packet and, in
 * a second file, the packets' bytes one after the other.
 *
 * wait_cycles counts cycles (1 ns unless cycle= says otherwise) from this packet's first byte to
 * the next one's and is at least one, as in the RTL model. The names of the columns may stand in
 * the first line. */
#include "sim/traffic.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/settings.h"
#include "sim/traffic_lines.h"

#define MOST_FILE (1ull << 30)
#define COLUMNS                                                                                    \
    "msgid,hh_addr,hh_size,ph_addr,ph_size,th_addr,th_size,hmem_addr,hmem_size,pkt_size,"          \
    "pkt_xfer_size,eom,wait_cycles"

enum {
    MESSAGE,
    HH_ADDRESS,
    HH_BYTES,
    PH_ADDRESS,
    PH_BYTES,
    TH_ADDRESS,
    TH_BYTES,
    MEMORY_ADDRESS,
    MEMORY_BYTES,
    PACKET_BYTES,
    COPY_BYTES,
    EOM,
    WAIT,
    NUMBERS
};

struct csv_in {
    struct traffic base;
    char *name, *data_name;
    uint8_t *file, *data_file; /* what close frees */
    const char *text;
    size_t length;
    const uint8_t *data;
    size_t data_length, used;
    struct number_lines lines;
    uint64_t cycle_ps, fs_byte;
    struct traffic_clock clock;
    struct traffic_handlers handlers;
};

/* 1, 0 at the end, or an error; the packet's bytes are data[used - pkt_size, used). */
static int read_row(struct csv_in *c, uint32_t *n, struct spin_error *err) {
    int code = number_lines_next(&c->lines, ',', COLUMNS, n, NUMBERS, err);
    if (code <= 0)
        return code;
    unsigned long long line = c->lines.line;
    if (n[PACKET_BYTES] == 0 || n[PACKET_BYTES] > TRAFFIC_MOST_BYTES)
        return spin_fail(err, SPIN_EFORMAT, "%.200s:%llu: pkt_size %u is outside 1 to %u", c->name,
                         line, n[PACKET_BYTES], TRAFFIC_MOST_BYTES);
    if (n[COPY_BYTES] > n[PACKET_BYTES])
        return spin_fail(err, SPIN_EFORMAT, "%.200s:%llu: pkt_xfer_size %u is over pkt_size %u",
                         c->name, line, n[COPY_BYTES], n[PACKET_BYTES]);
    if (n[EOM] > 1)
        return spin_fail(err, SPIN_EFORMAT, "%.200s:%llu: eom %u is neither 0 nor 1", c->name, line,
                         n[EOM]);
    if (n[PACKET_BYTES] > c->data_length - c->used)
        return spin_fail(err, SPIN_EFORMAT,
                         "%.200s:%llu: the packet's %u bytes are not in %.100s, of which %zu are "
                         "left",
                         c->name, line, n[PACKET_BYTES], c->data_name, c->data_length - c->used);
    c->used += n[PACKET_BYTES];
    return 1;
}

static bool pass_time(struct csv_in *c, const uint32_t *n) {
    struct traffic_clock sent = c->clock;
    uint64_t wait = n[WAIT] ? n[WAIT] : 1;
    if (!traffic_clock_add(&c->clock, wait * c->cycle_ps, 0, 0) ||
        !traffic_clock_add(&sent, 0, n[PACKET_BYTES], c->fs_byte))
        return false;
    if (sent.ps > c->clock.ps) /* the link is slower than the trace */
        c->clock = sent;
    return true;
}

static void rewind_rows(struct csv_in *c) {
    size_t names = sizeof COLUMNS - 1;
    c->lines = (struct number_lines){.name = c->name, .at = c->text, .end = c->text + c->length};
    if (c->length >= names && memcmp(c->text, COLUMNS, names) == 0)
        number_lines_skip(&c->lines);
    c->used = 0;
    c->clock = (struct traffic_clock){0};
}

static int check(struct csv_in *c, struct spin_error *err) {
    uint32_t n[NUMBERS];
    int code;
    rewind_rows(c);
    while ((code = read_row(c, n, err)) > 0) {
        c->base.packets++;
        if (!pass_time(c, n))
            return spin_fail(err, SPIN_ELIMIT,
                             "%.200s:%llu: simulated time goes beyond the limit of 53 days",
                             c->name, (unsigned long long)c->lines.line);
    }
    if (code)
        return code;
    if (c->base.packets == 0)
        return spin_fail(err, SPIN_EFORMAT, "%.200s: the trace holds no packet", c->name);
    if (c->used != c->data_length)
        return spin_fail(err, SPIN_EFORMAT,
                         "%.200s: %zu bytes, but the packets of %.200s take %zu: do they belong "
                         "together?",
                         c->data_name, c->data_length, c->name, c->used);
    rewind_rows(c);
    return SPIN_OK;
}

static int next(struct traffic *base, struct traffic_packet *p, struct spin_error *err) {
    struct csv_in *c = (struct csv_in *)base;
    uint32_t n[NUMBERS];
    int code = read_row(c, n, err);
    if (code <= 0)
        return code;
    c->handlers =
        (struct traffic_handlers){n[HH_ADDRESS], n[HH_BYTES], n[PH_ADDRESS],     n[PH_BYTES],
                                  n[TH_ADDRESS], n[TH_BYTES], n[MEMORY_ADDRESS], n[MEMORY_BYTES]};
    *p = (struct traffic_packet){.arrival_ps = c->clock.ps,
                                 .bytes = c->data + c->used - n[PACKET_BYTES],
                                 .length = n[PACKET_BYTES],
                                 .copy_bytes = n[COPY_BYTES],
                                 .message = traffic_message(n[MESSAGE]),
                                 .end_of_message = n[EOM],
                                 .handlers = &c->handlers};
    pass_time(c, n);
    p->gap_ps = c->clock.ps - p->arrival_ps;
    return 1;
}

static void close_csv(struct traffic *base) {
    struct csv_in *c = (struct csv_in *)base;
    free(c->file);
    free(c->data_file);
    free(c->name);
    free(c->data_name);
    free(c);
}

static const struct traffic_source source = {next, close_csv};

int traffic_csv_parse(struct traffic **out, const char *name, const uint8_t *bytes, size_t length,
                      const char *data_name, const uint8_t *data, size_t data_length, char *options,
                      struct spin_error *err) {
    *out = NULL;
    struct csv_in *c = calloc(1, sizeof *c);
    if (!c)
        return spin_fail(err, SPIN_ENOMEM, "%.200s: out of memory", name);
    *c = (struct csv_in){.base = {.source = &source, .link = NIC_LINK_IP},
                         .name = strdup(name),
                         .data_name = strdup(data_name),
                         .text = (const char *)bytes,
                         .length = length,
                         .data = data,
                         .data_length = data_length,
                         .cycle_ps = 1000};
    const struct setting table[] = {
        {"cycle", SETTING_TIME, &c->cycle_ps, 1, 1000000000, NULL},
        {"rate", SETTING_RATE, &c->fs_byte, 0, 0, NULL},
        {"link", SETTING_WORD, &c->base.link, 0, 0, traffic_links},
        {0},
    };
    int code = settings_read("csv", options, table, err);
    if (!code && (!c->name || !c->data_name))
        code = spin_fail(err, SPIN_ENOMEM, "%.200s: out of memory", name);
    if (!code)
        code = check(c, err);
    if (code)
        close_csv(&c->base);
    else
        *out = &c->base;
    return code;
}

int traffic_csv_read(struct traffic **out, const char *path, const char *data_path, char *options,
                     struct spin_error *err) {
    uint8_t *bytes = NULL, *data = NULL;
    size_t length, data_length;
    *out = NULL;
    int code = file_read(path, "packet trace", MOST_FILE, &bytes, &length, err);
    if (!code)
        code = file_read(data_path, "packet data", 2 * MOST_FILE, &data, &data_length, err);
    if (!code)
        code =
            traffic_csv_parse(out, path, bytes, length, data_path, data, data_length, options, err);
    if (code) {
        free(bytes);
        free(data);
    } else {
        struct csv_in *c = (struct csv_in *)*out;
        c->file = bytes;
        c->data_file = data;
    }
    return code;
}

int traffic_csv_open(struct traffic **out, const char *path, char *options,
                     struct spin_error *err) {
    *out = NULL;
    if (!options || !options[0] || options[0] == ',')
        return spin_fail(err, SPIN_EARG, "csv: where are the packets' bytes? write csv:%.200s,DATA",
                         path);
    char *comma = strchr(options, ',');
    if (comma)
        *comma++ = 0;
    return traffic_csv_read(out, path, options, comma, err);
}
