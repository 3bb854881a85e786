/* Packet traces of PsPIN's drivers: a CSV file with a row a packet, and a file of their bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pspin/world.h"

#define FIELDS     13
#define MOST_BYTES (1u << 30)

enum {
    MSGID,
    HH,
    HH_SIZE,
    PH,
    PH_SIZE,
    TH,
    TH_SIZE,
    MEMORY,
    MEMORY_SIZE,
    PACKET_SIZE,
    XFER_SIZE,
    EOM,
    WAIT
};

/* Numbers of a line, parted by commas; false unless there are exactly 13 that fit 32 bits. */
static bool read_row(char *line, uint32_t value[FIELDS]) {
    char *at = line;
    for (int i = 0; i < FIELDS; i++) {
        char *end;
        while (*at == ' ')
            at++;
        if (*at < '0' || *at > '9')
            return false;
        unsigned long long number = strtoull(at, &end, 0);
        while (*end == ' ' || *end == '\r')
            end++;
        if (number > UINT32_MAX || *end != (i + 1 < FIELDS ? ',' : 0))
            return false;
        value[i] = (uint32_t)number;
        at = end + 1;
    }
    return true;
}

static int add_row(const uint32_t v[FIELDS], uint8_t *bytes) {
    spin_ec_t ec = {.handler_mem_addr = v[MEMORY],
                    .handler_mem_size = v[MEMORY_SIZE],
                    .hh_addr = v[HH],
                    .hh_size = v[HH_SIZE],
                    .ph_addr = v[PH],
                    .ph_size = v[PH_SIZE],
                    .th_addr = v[TH],
                    .th_size = v[TH_SIZE],
                    .host_mem_addr = PCIE_START_ADDR,
                    .host_mem_size = MOST_BYTES}; /* a trace does not say: any address will do */
    return pspinsim_packet_add(&ec, v[MSGID], bytes, v[PACKET_SIZE], v[XFER_SIZE], (uint8_t)v[EOM],
                               v[WAIT], 0);
}

int pspinsim_packet_trace_read(const char *pkt_file, const char *data_file) {
    struct spin_error err;
    uint8_t *text = NULL, *data = NULL;
    size_t length, bytes, used = 0;
    int code = SPIN_SUCCESS, line = 0;
    if (file_read(pkt_file, "packet trace", MOST_BYTES, &text, &length, &err))
        return pspin_fail(&err);
    if (file_read(data_file, "packet data", MOST_BYTES, &data, &bytes, &err)) {
        free(text);
        return pspin_fail(&err);
    }
    for (char *at = (char *)text, *next; at && *at && !code; at = next) {
        uint32_t value[FIELDS];
        next = strchr(at, '\n');
        if (next)
            *next++ = 0;
        line++;
        if (*at == 0 || (line == 1 && strncmp(at, "msgid", 5) == 0))
            continue; /* an empty line, or the names of the columns */
        if (!read_row(at, value))
            code =
                pspin_say("%s:%d: expected %d numbers, parted by commas", pkt_file, line, FIELDS);
        else if (value[PACKET_SIZE] > bytes - used)
            code = pspin_say("%s:%d: packet of %u bytes, %s has %zu left", pkt_file, line,
                             value[PACKET_SIZE], data_file, bytes - used);
        else
            code = add_row(value, data + used);
        used += code ? 0 : value[PACKET_SIZE];
    }
    free(text);
    free(data);
    return code;
}
