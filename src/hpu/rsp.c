#include "hpu/rsp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"

static int refuse_port(uint16_t port, int why, struct spin_error *err) {
    switch (why) {
    case EADDRINUSE:
        return spin_fail(err, SPIN_ESYS,
                         "gdb port 127.0.0.1:%u is in use; take another, or 0 for any free one",
                         port);
    case EACCES:
    case EPERM:
        return spin_fail(err, SPIN_ESYS,
                         "gdb port 127.0.0.1:%u is not allowed to this user; take one above 1023, "
                         "or 0 for any free one",
                         port);
    }
    return spin_fail(err, SPIN_ESYS, "gdb port 127.0.0.1:%u cannot be opened: %s", port,
                     strerror(why));
}

int rsp_listen(uint16_t port, int *fd, uint16_t *bound, struct spin_error *err) {
    struct sockaddr_in here = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int yes = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return refuse_port(port, errno, err);
    /* So that the port of a session that just ended can be had at once. */
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(s, (struct sockaddr *)&here, sizeof here) != 0 || listen(s, 1) != 0 ||
        getsockname(s, (struct sockaddr *)&here, &size) != 0) {
        int why = errno;
        close(s);
        return refuse_port(port, why, err);
    }
    *fd = s;
    *bound = ntohs(here.sin_port);
    return SPIN_OK;
}

int rsp_accept(struct rsp *r, int listener, struct spin_error *err) {
    int yes = 1, s;
    do
        s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    while (s < 0 && (errno == EINTR || errno == ECONNABORTED));
    int why = errno;
    close(listener); /* a second gdb is refused, not left waiting */
    if (s < 0)
        return spin_fail(err, SPIN_ESYS, "cannot accept a connection of gdb: %s", strerror(why));
    memset(r, 0, sizeof *r);
    r->fd = s;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    /* Who asks and does not read the answers is as good as gone. */
    struct timeval patience = {.tv_sec = 5};
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return SPIN_OK;
}

/* Closing with bytes unread would reset the connection, and gdb could lose the last reply: so read
 * until it closes too, within limits. */
void rsp_close(struct rsp *r) {
    if (!r->gone) {
        struct timeval patience = {.tv_usec = 200000};
        setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        shutdown(r->fd, SHUT_WR);
        for (int i = 0; i < 10 && recv(r->fd, r->received, sizeof r->received, 0) != 0; i++)
            ;
    }
    close(r->fd);
    r->gone = true;
}

static void send_all(struct rsp *r, const char *bytes, size_t count) {
    while (count > 0 && !r->gone) {
        ssize_t sent = send(r->fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0) {
            r->gone = true;
            return;
        }
        bytes += sent;
        count -= (size_t)sent;
    }
}

/* ---- Replies */

void rsp_begin(struct rsp *r) {
    r->reply[0] = '$';
    r->reply_length = 1;
    r->reply_sent = false;
}

void rsp_text(struct rsp *r, const char *format, ...) {
    size_t room = RSP_BYTES + 1 - r->reply_length;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(r->reply + r->reply_length, room + 1, format, args);
    va_end(args);
    if (length > 0)
        r->reply_length += (size_t)length < room ? (size_t)length : room;
}

void rsp_hex(struct rsp *r, const void *bytes, size_t count) {
    const uint8_t *b = bytes;
    for (size_t i = 0; i < count; i++)
        rsp_text(r, "%02x", b[i]);
}

void rsp_send(struct rsp *r) {
    uint8_t sum = 0;
    for (size_t i = 1; i < r->reply_length; i++)
        sum = (uint8_t)(sum + (uint8_t)r->reply[i]);
    static const char digit[] = "0123456789abcdef";
    r->reply[r->reply_length++] = '#';
    r->reply[r->reply_length++] = digit[sum >> 4];
    r->reply[r->reply_length++] = digit[sum & 15];
    r->reply_sent = true;
    send_all(r, r->reply, r->reply_length);
}

void rsp_say(struct rsp *r, const char *text) {
    rsp_begin(r);
    rsp_text(r, "%s", text);
    rsp_send(r);
}

/* ---- Packets */

static int digit_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void start_packet(struct rsp *r) {
    r->state = RSP_BODY;
    r->length = 0;
    r->sum = 0;
    r->escaped = r->overlong = r->damaged = false;
}

static void take_body(struct rsp *r, uint8_t byte) {
    r->sum = (uint8_t)(r->sum + byte);
    if (byte == '}' && !r->escaped) {
        r->escaped = true;
        return;
    }
    if (r->length < RSP_BYTES)
        r->packet[r->length++] = (char)(r->escaped ? byte ^ 0x20 : byte);
    else
        r->overlong = true;
    r->escaped = false;
}

static enum rsp_event end_packet(struct rsp *r) {
    r->state = RSP_BETWEEN;
    r->packet[r->length] = 0;
    bool damaged = r->damaged || r->escaped || r->sum != r->sum_said;
    if (!r->no_ack)
        send_all(r, damaged ? "-" : "+", 1);
    if (damaged && !r->no_ack)
        return RSP_NOTHING; /* it will come again */
    if (!damaged && !r->overlong)
        return RSP_PACKET;
    /* Neither must be obeyed, and gdb waits for an answer. */
    rsp_say(r, "E01");
    return RSP_NOTHING;
}

static enum rsp_event take_between(struct rsp *r, uint8_t byte) {
    if (byte == '$')
        start_packet(r);
    else if (byte == 0x03)
        return RSP_INTERRUPT;
    else if (byte == '-' && !r->no_ack && r->reply_sent)
        send_all(r, r->reply, r->reply_length);
    return RSP_NOTHING; /* '+' and noise */
}

static enum rsp_event take(struct rsp *r, uint8_t byte) {
    int value = digit_value((char)byte);
    switch (r->state) {
    case RSP_BETWEEN:
        return take_between(r, byte);
    case RSP_BODY:
        if (byte == '$') /* the last one was cut off: this begins another */
            start_packet(r);
        else if (byte == '#')
            r->state = RSP_SUM_HIGH;
        else
            take_body(r, byte);
        return RSP_NOTHING;
    case RSP_SUM_HIGH:
        r->damaged |= value < 0;
        r->sum_said = (uint8_t)((value & 15) << 4);
        r->state = RSP_SUM_LOW;
        return RSP_NOTHING;
    case RSP_SUM_LOW:
        r->damaged |= value < 0;
        r->sum_said |= (uint8_t)(value & 15);
        return end_packet(r);
    }
    return RSP_NOTHING;
}

enum rsp_event rsp_next(struct rsp *r, bool wait) {
    for (bool asked = false;; asked = true) {
        while (r->receive_used < r->receive_count && !r->gone) {
            enum rsp_event event = take(r, r->received[r->receive_used++]);
            if (event != RSP_NOTHING)
                return event;
        }
        if (r->gone)
            return RSP_GONE;
        if (asked && !wait)
            return RSP_NOTHING; /* once: a flood of noise must not keep the handler from running */
        ssize_t got = recv(r->fd, r->received, sizeof r->received, wait ? 0 : MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || (!wait && errno == EAGAIN)))
            got = 0;
        else if (got <= 0)
            r->gone = true;
        r->receive_used = 0;
        r->receive_count = got > 0 ? (uint32_t)got : 0;
    }
}

/* ---- Parsing */

bool rsp_take_char(const char **at, char c) {
    if (**at != c)
        return false;
    ++*at;
    return true;
}

bool rsp_take_word(const char **at, const char *word) {
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

bool rsp_take_number(const char **at, uint64_t most, uint64_t *value) {
    const char *p = *at;
    uint64_t v = 0;
    for (; digit_value(*p) >= 0; p++) {
        if (v >> 60)
            return false;
        v = v << 4 | (unsigned)digit_value(*p);
    }
    if (p == *at || v > most)
        return false;
    *at = p;
    *value = v;
    return true;
}

bool rsp_take_bytes(const char **at, uint8_t *bytes, size_t count) {
    const char *p = *at;
    for (size_t i = 0; i < count; i++, p += 2) {
        int high = digit_value(p[0]), low = high < 0 ? -1 : digit_value(p[1]);
        if (low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    *at = p;
    return true;
}
