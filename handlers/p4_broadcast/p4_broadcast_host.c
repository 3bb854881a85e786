/* A broadcast from rank 0 on a binomial tree. */
#include "p4_broadcast/p4_broadcast.h"

#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "p4.h"

#define PACKET 4096u

struct shared {
    struct p4_shared p4;
    uint8_t *memory;     /* of all ranks' buffers: in pieces each packet would fault a page */
    uint64_t stride;     /* from one to the next */
    const uint8_t *data; /* the root's, until all have compared; NULL in another process */
};

static uint8_t pattern(uint32_t i) {
    return (uint8_t)(i * 31 + i / 253 + 5);
}

/* To one child: when so many bytes have come, or now. */
static bool send_to(struct p4_rank *r, uint32_t child, uint64_t when) {
    if (!when)
        return p4_put(r, 0, r->setup->bytes, child, P4_WHOLE);
    return PtlTriggeredPut(r->md, 0, r->setup->bytes, PTL_NO_ACK_REQ,
                           (ptl_process_t){.rank = child}, r->pt, P4_WHOLE, 0, NULL, 0, r->ct,
                           when) == PTL_OK;
}

/* The child with most to do first. */
static bool send_to_children(struct p4_rank *r, uint64_t when) {
    for (uint32_t half = spin_ranks() / 2; half >= 1; half /= 2)
        if (spin_rank() % (half * 2) == 0 && !send_to(r, spin_rank() + half, when))
            return false;
    return true;
}

static bool append_with_handlers(struct p4_rank *r, uint64_t offset, uint64_t length,
                                 ptl_match_bits_t bits) {
    struct p4_broadcast state = {
        .my_rank = spin_rank(),
        .ranks = spin_ranks(),
        .most_streamed = r->setup->variant == P4_STREAM ? UINT32_MAX : PACKET,
        .packet_bytes = PACKET,
        .offset = (uint32_t)offset,
    };
    return p4_append(r, &(struct p4_entry){.start = offset,
                                           .length = length,
                                           .bits = bits,
                                           .counts_bytes = true,
                                           .header = "bcast_header_handler",
                                           .payload = "bcast_payload_handler",
                                           .completion = "bcast_completion_handler",
                                           .state = &state,
                                           .state_bytes = sizeof state});
}

/* Who is sent to by the root, or by a host, gets a whole message; others get packets. */
static bool prepare(struct p4_rank *r) {
    uint32_t n = r->setup->bytes;
    bool from_root = (spin_rank() & (spin_rank() - 1)) == 0;
    if (r->setup->variant < P4_STORE)
        return p4_append(r,
                         &(struct p4_entry){.length = n, .bits = P4_WHOLE, .counts_bytes = true});
    if (from_root || (r->setup->variant == P4_STORE && n > PACKET))
        return append_with_handlers(r, 0, n, P4_WHOLE);
    for (uint32_t at = 0; at < n; at += PACKET)
        if (!append_with_handlers(r, at, n - at < PACKET ? n - at : PACKET, P4_PACKET(at / PACKET)))
            return false;
    return true;
}

static int root(struct p4_rank *r, struct shared *s) {
    for (uint32_t i = 0; i < s->p4.setup->bytes; i++)
        r->buffer[i] = pattern(i);
    s->data = r->buffer;
    do {
        spin_barrier();
        if (r->setup->ready)
            r->setup->ready(r->setup->user);
        p4_settle();
        s->p4.start_ps = spin_now_ps();
        if (!send_to_children(r, 0))
            return 3;
    } while (p4_again(&s->p4));
    return 0;
}

/* What has come is in no cache, and the processor itself fetches ahead only to the end of a page.
 */
static bool is_same(const uint8_t *got, const uint8_t *data, uint32_t bytes) {
    enum { LINE = 64, STEP = 16 * LINE, AHEAD = 2 * STEP };
    bool same = true;
    for (uint32_t i = 0; i < bytes; i += STEP) {
        for (uint32_t line = 0; line < STEP; line += LINE)
            __builtin_prefetch(got + i + AHEAD + line);
        same &= memcmp(got + i, data + i, bytes - i < STEP ? bytes - i : STEP) == 0;
    }
    return same;
}

static bool is_right(const uint8_t *got, const uint8_t *data, uint32_t bytes) {
    bool right = true;
    for (uint32_t i = 0; !data && i < bytes; i++)
        right &= got[i] == pattern(i);
    return data ? is_same(got, data, bytes) : right;
}

static int other(struct p4_rank *r, struct shared *s) {
    uint32_t n = s->p4.setup->bytes;
    uint64_t came = 0;
    bool right = true;
    if (!prepare(r))
        return 2;
    do {
        if (came)
            memset(r->buffer, 0, n);
        came += n;
        if (s->p4.setup->variant == P4_TRIGGERED && !send_to_children(r, came))
            return 2;
        spin_barrier();
        if (s->p4.setup->variant == P4_RDMA) {
            if (!p4_receive(r) || !send_to_children(r, 0))
                return 3;
        } else if (!p4_wait(r, came)) {
            return 4;
        }
        p4_ended(&s->p4);
        right &= is_right(r->buffer, s->data, n);
    } while (p4_again(&s->p4));
    return right ? 0 : 5;
}

static int rank(void *argument) {
    struct shared *s = argument;
    struct p4_rank r;
    bool handlers = s->p4.setup->variant >= P4_STORE && spin_rank() != 0;
    uint8_t *buffer = s->memory + spin_rank() * s->stride;
    if (!p4_open_with(&r, s->p4.setup, buffer, s->p4.setup->bytes,
                      handlers ? "p4_broadcast" : NULL))
        return 1;
    int status = spin_rank() == 0 ? root(&r, s) : other(&r, s);
    p4_close(&r);
    return status;
}

int p4_broadcast(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err) {
    static const char *const images[] = {"p4_broadcast", NULL};
    uint64_t stride = (setup->bytes + 63ull) & ~63ull, bytes = setup->ranks * stride;
    struct shared s = {.p4 = {.setup = setup}, .memory = pages_filled(bytes), .stride = stride};
    *outcome = (struct p4_outcome){0};
    if (!s.memory)
        return spin_fail(err, SPIN_ENOMEM, "no memory for the buffers of %u ranks", setup->ranks);
    int code = p4_run(setup, setup->ranks, images, rank, &s, outcome, err);
    pages_keep(s.memory, bytes, bytes);
    outcome->time_ps = s.p4.end_ps - s.p4.start_ps;
    return code;
}
