/* The life of a message with handlers (nic/flow.h): return codes, the table of docs/nic.md, code by
 * code; and the order of things, whatever comes when. */
#include "base/rng.h"
#include "lib/test.h"
#include "nic/flow.h"
#include "portals4.h"

#define BYTES 1000
#define ALL   flow_handlers(1, 1, 1, 1)

/* A message of which the first packet has come. */
static struct flow begun(uint8_t handlers, bool no_codes) {
    struct flow f;
    flow_begin(&f, handlers, no_codes);
    CHECK_EQ(flow_packet(&f, BYTES), flow_has(&f, FLOW_HEADER_HANDLER)    ? FLOW_IS_HEADER
                                     : flow_has(&f, FLOW_PAYLOAD_HANDLER) ? FLOW_HANDLED
                                     : no_codes                           ? FLOW_PASSED
                                                                          : FLOW_STORED);
    return f;
}

TEST(header_codes) {
    static const struct {
        int32_t code;
        uint8_t payload, fail;
        bool pending;
    } row[] = {
        {FLOW_SUCCESS, FLOW_HANDLED, PTL_NI_OK, false},
        {FLOW_SUCCESS_PENDING, FLOW_HANDLED, PTL_NI_OK, true},
        {FLOW_PROCESS_DATA, FLOW_HANDLED, PTL_NI_OK, false},
        {FLOW_PROCESS_DATA_PENDING, FLOW_HANDLED, PTL_NI_OK, true},
        {FLOW_PROCEED, FLOW_STORED, PTL_NI_OK, false},
        {FLOW_PROCEED_PENDING, FLOW_STORED, PTL_NI_OK, true},
        {FLOW_DROP, FLOW_DISCARDED, PTL_NI_OK, false},
        {FLOW_DROP_PENDING, FLOW_DISCARDED, PTL_NI_OK, true},
        {FLOW_FAIL, FLOW_DISCARDED, PTL_NI_HANDLER_FAIL, false},
        {FLOW_SEGV, FLOW_DISCARDED, PTL_NI_SEGV, false},
        {10, FLOW_DISCARDED, PTL_NI_HANDLER_FAIL, false},
        {11, FLOW_DISCARDED, PTL_NI_HANDLER_FAIL, false},
        {-1, FLOW_DISCARDED, PTL_NI_HANDLER_FAIL, false},
    };
    for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct flow f = begun(ALL, false);
        CHECK_EQ(flow_packet(&f, BYTES), FLOW_HELD);
        CHECK_EQ(flow_ended(&f, FLOW_HEADER_HANDLER, row[i].code, BYTES), row[i].fail);
        CHECK_EQ(f.fail, row[i].fail);
        CHECK_EQ(f.pending, row[i].pending);
        CHECK_EQ(f.dropped, 0); /* counted as packets come */
        CHECK_EQ(flow_packet(&f, BYTES), row[i].payload);
        CHECK_EQ(flow_packet(&f, 7), row[i].payload);
        CHECK_EQ(f.dropped, row[i].payload == FLOW_DISCARDED ? BYTES + 7 : 0);
        CHECK_EQ(flow_is_error(FLOW_HEADER_HANDLER, row[i].code), row[i].fail != PTL_NI_OK);
        CHECK(!f.given_up);
    }
    struct flow without = begun(flow_handlers(1, 0, 0, 0), false);
    flow_ended(&without, FLOW_HEADER_HANDLER, FLOW_PROCESS_DATA, BYTES);
    CHECK_EQ(flow_packet(&without, BYTES), FLOW_STORED);
}

TEST(payload_codes) {
    for (int32_t code = -1; code <= 11; code++) {
        struct flow f = begun(flow_handlers(0, 1, 1, 0), false);
        bool drop = code == FLOW_DROP || code == FLOW_DROP_PENDING;
        bool good = drop || code == FLOW_SUCCESS || code == FLOW_SUCCESS_PENDING;
        uint8_t fail = good ? PTL_NI_OK : code == FLOW_SEGV ? PTL_NI_SEGV : PTL_NI_HANDLER_FAIL;
        CHECK_EQ(flow_ended(&f, FLOW_PAYLOAD_HANDLER, code, 64), drop ? PTL_NI_DROPPED : fail);
        CHECK_EQ(f.dropped, drop ? 64 : 0);
        CHECK_EQ(f.fail, fail);
        CHECK(!f.pending && !f.given_up);
        CHECK_EQ(flow_packet(&f, 64), FLOW_HANDLED); /* the message goes on */
        CHECK_EQ(flow_is_error(FLOW_PAYLOAD_HANDLER, code), !good);
    }
}

TEST(completion_codes_and_the_first_error) {
    for (int32_t code = -1; code <= 11; code++) {
        struct flow f = begun(ALL, false);
        bool good = code == FLOW_SUCCESS || code == FLOW_SUCCESS_PENDING;
        flow_ended(&f, FLOW_COMPLETION_HANDLER, code, 0);
        CHECK_EQ(f.pending, code == FLOW_SUCCESS_PENDING);
        CHECK_EQ(f.fail == PTL_NI_OK, good);
        CHECK_EQ(flow_is_error(FLOW_COMPLETION_HANDLER, code), !good);
        uint8_t first = f.fail;
        flow_ended(&f, FLOW_PAYLOAD_HANDLER, FLOW_SEGV, 8);
        flow_failed(&f, PTL_NI_UNDELIVERABLE);
        CHECK_EQ(f.fail, good ? PTL_NI_SEGV : first);
    }
}

/* PsPIN's: what they leave in the register means nothing; after a fault the message is lost. */
TEST(handlers_without_codes) {
    for (int32_t code = -1; code <= 12; code++)
        for (int kind = FLOW_HEADER_HANDLER; kind <= FLOW_COMPLETION_HANDLER; kind++) {
            struct flow f = begun(ALL, true);
            bool fault = code == 12;
            if (kind != FLOW_HEADER_HANDLER)
                flow_ended(&f, FLOW_HEADER_HANDLER, flow_code(false, true, FLOW_FAIL), BYTES);
            CHECK_EQ(flow_ended(&f, (enum flow_handler)kind, flow_code(fault, true, code), 64),
                     fault ? PTL_NI_SEGV : PTL_NI_OK);
            CHECK_EQ(f.given_up, fault);
            CHECK(!f.pending && !f.dropped);
            CHECK_EQ(flow_packet(&f, 64), fault ? FLOW_DISCARDED : FLOW_HANDLED);
        }
    struct flow f = begun(flow_handlers(1, 0, 1, 0), true);
    flow_ended(&f, FLOW_HEADER_HANDLER, 0, BYTES);
    CHECK_EQ(flow_packet(&f, BYTES), FLOW_PASSED); /* nothing is stored for them */
}

TEST(refused_whole) {
    struct flow f = begun(ALL, false);
    flow_refuse(&f, PTL_NI_DROPPED);
    f.whole = true;
    CHECK_EQ(flow_packet(&f, 0), FLOW_DISCARDED);
    CHECK_EQ(flow_next(&f), FLOW_IS_OVER); /* its completion handler does not run */
    CHECK_EQ(f.fail, PTL_NI_DROPPED);
    CHECK_EQ(flow_next(&f), FLOW_WAITS);
}

/* ---- any order of what can happen, against what must hold ---- */

#define PACKETS 6

struct model {
    struct flow flow;
    uint32_t come, held, running[4], ran[4], over;
    bool first_waits; /* the header handler has its packet */
};

/* Often a wrong one. */
static int32_t any_code(struct rng *r) {
    return (int32_t)rng_below(r, 13) - 1;
}

static void act(struct model *m, bool first) {
    struct flow *f = &m->flow;
    switch (flow_packet(f, 1)) {
    case FLOW_IS_HEADER:
        CHECK(first && m->come == 1 && flow_has(f, FLOW_HEADER_HANDLER));
        m->first_waits = true;
        m->running[FLOW_HEADER_HANDLER]++;
        return;
    case FLOW_HELD:
        CHECK(m->running[FLOW_HEADER_HANDLER]);
        m->held++;
        return;
    case FLOW_HANDLED:
        CHECK(flow_has(f, FLOW_PAYLOAD_HANDLER) && !m->running[FLOW_HEADER_HANDLER]);
        CHECK(!f->given_up);
        m->running[FLOW_PAYLOAD_HANDLER]++;
        return;
    case FLOW_PASSED:
        CHECK(f->no_codes && !flow_has(f, FLOW_PAYLOAD_HANDLER));
        break;
    case FLOW_STORED:
        CHECK(!f->no_codes && !f->given_up);
        break;
    case FLOW_DISCARDED:
        break;
    }
    f->work--;
}

static void drop_held(struct model *m) {
    m->flow.work -= m->held;
    m->held = 0;
}

static void end(struct model *m, enum flow_handler kind, int32_t code) {
    struct flow *f = &m->flow;
    bool lost = f->given_up;
    m->running[kind]--;
    m->ran[kind]++;
    flow_ended(f, kind, code, 1);
    if (f->given_up && !lost)
        drop_held(m);
    if (kind != FLOW_HEADER_HANDLER || f->given_up) {
        f->work--;
        return;
    }
    uint32_t held = m->held;
    m->held = 0;
    for (uint32_t i = 0; i <= held; i++)
        act(m, i == 0);
}

static void begin_last(struct model *m, enum flow_handler kind) {
    struct flow *f = &m->flow;
    CHECK(flow_has(f, kind) && !f->given_up && !m->held && !m->ran[kind]);
    CHECK(!m->running[0] && !m->running[1] && !m->running[2] && !m->running[3]);
    CHECK_EQ(flow_next(f), FLOW_WAITS); /* once */
    m->running[kind]++;
    f->work++;
}

static void next(struct model *m) {
    struct flow *f = &m->flow;
    switch (flow_next(f)) {
    case FLOW_WAITS:
        return;
    case FLOW_COMPLETES:
        CHECK(f->cut_off ? !flow_has(f, FLOW_CLEANUP_HANDLER) : m->come == PACKETS);
        begin_last(m, FLOW_COMPLETION_HANDLER);
        return;
    case FLOW_CLEANS_UP:
        CHECK(f->cut_off && m->come < PACKETS);
        begin_last(m, FLOW_CLEANUP_HANDLER);
        return;
    case FLOW_IS_OVER:
        CHECK(!m->over++ && f->whole && !f->work && !m->held);
        CHECK(!m->running[0] && !m->running[1] && !m->running[2] && !m->running[3]);
        bool cleans = f->cut_off && flow_has(f, FLOW_CLEANUP_HANDLER);
        CHECK(f->given_up ||
              m->ran[FLOW_COMPLETION_HANDLER] == (!cleans && flow_has(f, FLOW_COMPLETION_HANDLER)));
        CHECK(f->given_up || m->ran[FLOW_CLEANUP_HANDLER] == cleans);
    }
}

TEST(any_order) {
    for (uint32_t seed = 0; seed < 20000; seed++) {
        struct rng r = rng_seeded(seed);
        struct model m = {0};
        flow_begin(&m.flow, (uint8_t)rng_below(&r, 16), rng_below(&r, 4) == 0);
        for (uint32_t step = 0; !m.over; step++) {
            CHECK(step < 1000);
            uint32_t what = rng_below(&r, 40);
            if (what < 10 && m.come < PACKETS && !m.flow.cut_off) {
                m.come++;
                m.flow.work++;
                m.flow.whole = m.come == PACKETS;
                act(&m, m.come == 1);
            } else if (what < 39) {
                enum flow_handler kind = (enum flow_handler)(what % 4);
                if (m.running[kind])
                    end(&m, kind,
                        flow_code(rng_below(&r, 9) == 0, m.flow.no_codes,
                                  rng_below(&r, 3) ? any_code(&r) : FLOW_SUCCESS));
            } else if (rng_below(&r, 20) == 0 && !m.flow.given_up &&
                       m.flow.phase != FLOW_COMPLETION) {
                flow_give_up(&m.flow);
                drop_held(&m);
            } else if (rng_below(&r, 5) == 0 && m.come && m.come < PACKETS) {
                flow_cut_off(&m.flow);
            }
            next(&m);
        }
        CHECK_EQ(flow_next(&m.flow), FLOW_WAITS); /* told once */
    }
}

TEST_MAIN
