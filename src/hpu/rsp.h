/* gdb's remote serial protocol, the lower half: a connection, packets with their checksums, and the
 * words packets are made of. What the packets mean is in gdb.c. */
#ifndef SPIN_HPU_RSP_H
#define SPIN_HPU_RSP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openspin.h"

#define RSP_BYTES 4096u /* longest packet either way, without its frame */

enum rsp_event {
    RSP_NOTHING,
    RSP_PACKET,    /* a whole one with the right checksum, in `packet` */
    RSP_INTERRUPT, /* Ctrl-C */
    RSP_GONE,      /* the other side closed, or does not read what it asked for */
};

struct rsp {
    int fd;
    bool no_ack, gone;
    /* bytes that came and were not looked at yet */
    uint8_t received[1024];
    uint32_t receive_used, receive_count;
    /* the packet that is coming in */
    enum { RSP_BETWEEN, RSP_BODY, RSP_SUM_HIGH, RSP_SUM_LOW } state;
    bool escaped, overlong, damaged;
    uint8_t sum, sum_said;
    char packet[RSP_BYTES + 1]; /* unescaped; a zero follows */
    size_t length;
    /* the reply that is being made, then the last one sent; framed, for it may be asked for again
     */
    char reply[RSP_BYTES + 4];
    size_t reply_length;
    bool reply_sent;
};

/* Opens 127.0.0.1:port for listening (0: any free port). *fd is the listener, *bound its port. */
int rsp_listen(uint16_t port, int *fd, uint16_t *bound, struct spin_error *err);
/* Waits for the one connection that is served. Closes the listener in any case. */
int rsp_accept(struct rsp *r, int listener, struct spin_error *err);
/* Sees to it that what was sent last arrives, and closes. Takes 2 s at most. */
void rsp_close(struct rsp *r);

/* What came next. A damaged packet is asked for again and an overlong one refused right here, so
 * the caller never sees them. `wait` false: RSP_NOTHING unless it is there already. */
enum rsp_event rsp_next(struct rsp *r, bool wait);

/* A reply: begin, parts, send. A part that does not fit is cut at the packet's end. */
void rsp_begin(struct rsp *r);
void rsp_text(struct rsp *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rsp_hex(struct rsp *r, const void *bytes, size_t count);
void rsp_send(struct rsp *r);
/* All of it for a reply that is one word. */
void rsp_say(struct rsp *r, const char *text);

/* Parsing. Each moves *at behind what it took, or leaves it and returns false. */
bool rsp_take_number(const char **at, uint64_t most, uint64_t *value); /* hexadecimal */
bool rsp_take_bytes(const char **at, uint8_t *bytes, size_t count);    /* two digits each */
bool rsp_take_char(const char **at, char c);
bool rsp_take_word(const char **at, const char *word);

#endif
