/* A sink of packets: a pcap file, or pcapng when its name ends so, with times in nanoseconds. The
 * file appears when it is complete. */
#ifndef SPIN_SIM_CAPTURE_H
#define SPIN_SIM_CAPTURE_H

#include "base/file.h"
#include "nic/headers.h"

struct capture {
    struct file_out file;
    bool ng;
    uint64_t packets;
};

int capture_open(struct capture *c, const char *path, enum nic_link link, struct spin_error *err);
/* Times are cut to nanoseconds. Errors of writing are found by capture_close. */
void capture_write(struct capture *c, uint64_t at_ps, const uint8_t *bytes, uint32_t length);
/* Completes the file, or removes what was written of it. Nothing happens to one not open. */
int capture_close(struct capture *c, bool keep, struct spin_error *err);

#endif
