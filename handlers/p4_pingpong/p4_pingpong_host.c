/* Ping-pong between two ranks, or pairs of them. */
#include "p4_pingpong/p4_pingpong.h"

#include <string.h>

#include "p4.h"

#define PING 1 /* match bits */

static uint8_t pattern(uint32_t i) {
    return (uint8_t)(i * 7 + i / 251 + 1);
}

static int initiator(struct p4_rank *r, struct p4_shared *s) {
    uint32_t n = s->setup->bytes;
    /* The answer comes into the second half, in one message or in many. */
    if (!p4_append(
            r, &(struct p4_entry){.start = n, .length = n, .bits = P4_PONG, .counts_bytes = true}))
        return 2;
    for (uint32_t i = 0; i < n; i++)
        r->buffer[i] = pattern(i);
    spin_barrier();
    p4_settle();
    s->start_ps = spin_now_ps();
    if (!p4_put(r, 0, n, p4_partner(), PING))
        return 3;
    if (!p4_wait(r, n))
        return 4;
    p4_ended(s);
    return memcmp(r->buffer, r->buffer + n, n) == 0 ? 0 : 5;
}

/* What answers a ping: set up before one comes. */
static bool prepare(struct p4_rank *r, const struct p4_setup *setup) {
    struct p4_entry entry = {.length = setup->bytes, .bits = PING};
    struct p4_pingpong state = {
        .most_streamed = setup->variant == P4_STREAM
                             ? UINT32_MAX
                             : 4096}; /* one packet goes back from the card in either mode */
    if (setup->variant >= P4_STORE) {
        entry.header = "pingpong_header_handler";
        entry.payload = "pingpong_payload_handler";
        entry.completion = "pingpong_completion_handler";
        entry.state = &state;
        entry.state_bytes = sizeof state;
    }
    if (!p4_append(r, &entry))
        return false;
    return setup->variant != P4_TRIGGERED ||
           PtlTriggeredPut(r->md, 0, setup->bytes, PTL_NO_ACK_REQ,
                           (ptl_process_t){.rank = p4_partner()}, r->pt, P4_PONG, 0, NULL, 0, r->ct,
                           1) == PTL_OK;
}

static int target(struct p4_rank *r, const struct p4_shared *s) {
    if (!prepare(r, s->setup))
        return 2;
    spin_barrier();
    if (s->setup->variant == P4_RDMA &&
        (!p4_receive(r) || !p4_put(r, 0, s->setup->bytes, p4_partner(), P4_PONG)))
        return 3;
    spin_barrier();
    return 0;
}

static int rank(void *argument) {
    struct p4_shared *s = argument;
    struct p4_rank r;
    bool handlers = s->setup->variant >= P4_STORE && !p4_is_first();
    if (!p4_open(&r, s->setup, 2ull * s->setup->bytes, handlers ? "p4_pingpong" : NULL))
        return 1;
    int status = p4_is_first() ? initiator(&r, s) : target(&r, s);
    if (p4_is_first())
        spin_barrier(); /* the target stays until the answer is there */
    p4_close(&r);
    return status;
}

int p4_pingpong(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err) {
    static const char *const images[] = {"p4_pingpong", NULL};
    struct p4_shared s = {.setup = setup};
    int code = p4_run(setup, p4_ranks(setup), images, rank, &s, outcome, err);
    outcome->time_ps = (s.end_ps - s.start_ps) / 2;
    return code;
}
