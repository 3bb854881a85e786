/* A sink of packets: a pcap file, or pcapng when its name ends so, with times in nanoseconds. The
 * file appears when it is complete. */
#ifndef SPIN_NIC_CAPTURE_H
#define SPIN_NIC_CAPTURE_H

#include "base/file.h"
#include "nic/headers.h"

struct capture {
    struct file_out file;
    bool ng;
    uint64_t packets;
};

int capture_open(struct capture *c, const char *path, enum nic_link link, struct spin_error *err);
/* What pcapng says of a packet beside its bytes; pcap has no place for it. */
enum capture_direction { CAPTURE_NONE, CAPTURE_IN, CAPTURE_OUT }; /* as pcapng numbers them */
struct capture_mark {
    enum capture_direction direction;
    const char *comment; /* or NULL */
};
/* At most HEADERS_MOST_BYTES; `mark` may be NULL. Errors of writing are found by capture_close. */
void capture_write(struct capture *c, uint64_t at_ns, const uint8_t *bytes, uint32_t length,
                   const struct capture_mark *mark);
/* Completes the file, or removes what was written of it. Nothing happens to one not open. */
int capture_close(struct capture *c, bool keep, struct spin_error *err);

#endif
