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
    uint64_t answered = 0;
    bool right = true;
    do {
        if (answered)
            memset(r->buffer + n, 0, n);
        spin_barrier();
        p4_settle();
        s->start_ps = spin_now_ps();
        for (uint32_t i = 0; i < p4_trips(s->setup); i++) {
            if (!p4_put(r, 0, n, p4_partner(), PING))
                return 3;
            if (!p4_wait(r, answered += n))
                return 4;
        }
        p4_ended(s);
        right &= memcmp(r->buffer, r->buffer + n, n) == 0;
    } while (p4_again(s)); /* the target stays until the answer is there */
    return right ? 0 : 5;
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
    return p4_append(r, &entry);
}

/* The same for the n-th of them alone. */
static bool prepare_trip(struct p4_rank *r, const struct p4_setup *setup, uint64_t n) {
    return setup->variant != P4_TRIGGERED ||
           PtlTriggeredPut(r->md, 0, setup->bytes, PTL_NO_ACK_REQ,
                           (ptl_process_t){.rank = p4_partner()}, r->pt, P4_PONG, 0, NULL, 0, r->ct,
                           n) == PTL_OK;
}

/* The CPU has to, or sees that the card has. */
static bool answer(struct p4_rank *r, const struct p4_setup *setup, uint64_t n) {
    if (setup->variant != P4_RDMA)
        return p4_wait(r, n);
    return p4_receive(r) && p4_put(r, 0, setup->bytes, p4_partner(), P4_PONG);
}

static int target(struct p4_rank *r, struct p4_shared *s) {
    uint32_t trips = p4_trips(s->setup);
    uint64_t pings = 0;
    if (!prepare(r, s->setup))
        return 2;
    do {
        for (uint32_t i = 1; i <= trips; i++)
            if (!prepare_trip(r, s->setup, pings + i))
                return 2;
        spin_barrier();
        for (uint32_t i = 0; i < trips; i++)
            if (!answer(r, s->setup, ++pings))
                return 3;
    } while (p4_again(s));
    return 0;
}

static int rank(void *argument) {
    struct p4_shared *s = argument;
    struct p4_rank r;
    bool handlers = s->setup->variant >= P4_STORE && !p4_is_first();
    if (!p4_open(&r, s->setup, 2ull * s->setup->bytes, handlers ? "p4_pingpong" : NULL))
        return 1;
    int status = p4_is_first() ? initiator(&r, s) : target(&r, s);
    p4_close(&r);
    return status;
}

int p4_pingpong(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err) {
    static const char *const images[] = {"p4_pingpong", NULL};
    struct p4_shared s = {.setup = setup};
    int code = p4_run(setup, p4_ranks(setup), images, rank, &s, outcome, err);
    outcome->time_ps = (s.end_ps - s.start_ps) / (2 * p4_trips(setup));
    return code;
}
