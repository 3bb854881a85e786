/* Both formats are a few words around the bytes, and libpcap writes pcapng not at all, so we write
 * them. Words are in this machine's order, as both formats have it; their magic numbers tell. */
#include "nic/capture.h"

#include <string.h>

#define PCAP_NANOSECONDS 0xa1b23c4du
#define LINK_ETHERNET    1u
#define LINK_RAW_IP      101u

enum { NG_SECTION = 0x0a0d0d0a, NG_INTERFACE = 1, NG_PACKET = 6, NG_TSRESOL = 9 };
enum { NG_COMMENT = 1, NG_FLAGS = 2 };

static void words(struct capture *c, const uint32_t *word, size_t count) {
    fwrite(word, sizeof *word, count, c->file.stream); /* the commit sees errors */
}

static void head(struct capture *c, uint32_t type) {
    const uint16_t version[2] = {2, 4};
    uint32_t word[6] = {PCAP_NANOSECONDS, 0, 0, 0, HEADERS_MOST_BYTES, type};
    memcpy(&word[1], version, sizeof version);
    words(c, word, 6);
}

static void head_ng(struct capture *c, uint32_t type) {
    const uint16_t version[2] = {1, 0}, interface[2] = {(uint16_t)type, 0};
    const uint16_t resolution[2] = {NG_TSRESOL, 1}; /* one byte, then padding */
    uint32_t section[7] = {NG_SECTION, sizeof section, 0x1a2b3c4d,    0,
                           UINT32_MAX, UINT32_MAX,     sizeof section}; /* of unknown length */
    uint32_t face[8] = {NG_INTERFACE, sizeof face, 0, HEADERS_MOST_BYTES, 0, 0, 0, sizeof face};
    memcpy(&section[3], version, sizeof version);
    memcpy(&face[2], interface, sizeof interface);
    memcpy(&face[4], resolution, 4);
    ((uint8_t *)&face[5])[0] = 9; /* 10^-9 s; face[6] ends the options */
    words(c, section, 7);
    words(c, face, 8);
}

int capture_open(struct capture *c, const char *path, enum nic_link link, struct spin_error *err) {
    *c = (struct capture){0};
    int code = file_out_open(&c->file, path, err);
    if (code)
        return code;
    size_t length = strlen(path);
    c->ng = length >= 7 && strcmp(path + length - 7, ".pcapng") == 0;
    uint32_t type = link == NIC_LINK_ETHERNET ? LINK_ETHERNET : LINK_RAW_IP;
    if (c->ng)
        head_ng(c, type);
    else
        head(c, type);
    return SPIN_OK;
}

/* An option of a packet in pcapng: what it is, and its bytes. */
static void option(struct capture *c, uint16_t code, const void *bytes, uint32_t length) {
    static const uint8_t padding[4];
    const uint16_t head[2] = {code, (uint16_t)length};
    fwrite(head, sizeof head, 1, c->file.stream);
    fwrite(bytes, 1, length, c->file.stream);
    fwrite(padding, 1, -length & 3, c->file.stream);
}

static uint32_t option_bytes(uint32_t length) {
    return length ? 4 + length + (-length & 3) : 0;
}

static void write_ng(struct capture *c, uint64_t at_ns, const uint8_t *bytes, uint32_t length,
                     const struct capture_mark *mark) {
    static const uint8_t padding[4];
    uint32_t direction = mark->direction, tail = -length & 3;
    uint32_t comment = mark->comment ? (uint32_t)strlen(mark->comment) : 0;
    uint32_t options = option_bytes(comment) + option_bytes(direction ? 4 : 0);
    options += options ? 4 : 0; /* their end */
    uint32_t block = 32 + length + tail + options;
    words(
        c,
        (uint32_t[]){NG_PACKET, block, 0, (uint32_t)(at_ns >> 32), (uint32_t)at_ns, length, length},
        7);
    fwrite(bytes, 1, length, c->file.stream);
    fwrite(padding, 1, tail, c->file.stream);
    if (comment)
        option(c, NG_COMMENT, mark->comment, comment);
    if (direction)
        option(c, NG_FLAGS, &direction, sizeof direction);
    if (options)
        words(c, (uint32_t[]){0}, 1);
    words(c, &block, 1);
}

void capture_write(struct capture *c, uint64_t at_ns, const uint8_t *bytes, uint32_t length,
                   const struct capture_mark *mark) {
    static const struct capture_mark none;
    c->packets++;
    if (c->ng) {
        write_ng(c, at_ns, bytes, length, mark ? mark : &none);
        return;
    }
    words(c,
          (uint32_t[]){(uint32_t)(at_ns / 1000000000), (uint32_t)(at_ns % 1000000000), length,
                       length},
          4);
    fwrite(bytes, 1, length, c->file.stream);
}

int capture_close(struct capture *c, bool keep, struct spin_error *err) {
    if (!c->file.stream)
        return SPIN_OK;
    if (keep)
        return file_out_commit(&c->file, err);
    file_out_abandon(&c->file);
    return SPIN_OK;
}
