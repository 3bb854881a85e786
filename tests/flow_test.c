/* What return codes of handlers mean: the table of docs/nic.md, code by code. */
#include "lib/test.h"
#include "nic/flow.h"
#include "portals4.h"

#define BYTES 1000

TEST(header_codes) {
    static const struct {
        int32_t code;
        uint8_t payload, fail;
        bool pending;
        uint64_t dropped;
    } row[] = {
        {FLOW_SUCCESS, FLOW_HANDLED, PTL_NI_OK, false, 0},
        {FLOW_SUCCESS_PENDING, FLOW_HANDLED, PTL_NI_OK, true, 0},
        {FLOW_PROCESS_DATA, FLOW_HANDLED, PTL_NI_OK, false, 0},
        {FLOW_PROCESS_DATA_PENDING, FLOW_HANDLED, PTL_NI_OK, true, 0},
        {FLOW_PROCEED, FLOW_STORED, PTL_NI_OK, false, 0},
        {FLOW_PROCEED_PENDING, FLOW_STORED, PTL_NI_OK, true, 0},
        {FLOW_DROP, FLOW_DISCARDED, PTL_NI_OK, false, BYTES},
        {FLOW_DROP_PENDING, FLOW_DISCARDED, PTL_NI_OK, true, BYTES},
        {FLOW_FAIL, FLOW_DISCARDED, PTL_NI_HANDLER_FAIL, false, BYTES},
        {FLOW_SEGV, FLOW_DISCARDED, PTL_NI_SEGV, false, BYTES},
        {10, FLOW_DISCARDED, PTL_NI_HANDLER_FAIL, false, BYTES},
        {11, FLOW_DISCARDED, PTL_NI_HANDLER_FAIL, false, BYTES},
        {-1, FLOW_DISCARDED, PTL_NI_HANDLER_FAIL, false, BYTES},
    };
    for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct flow f = {0};
        flow_header_ended(&f, row[i].code, true, BYTES);
        CHECK_EQ(f.payload, row[i].payload);
        CHECK_EQ(f.fail, row[i].fail);
        CHECK_EQ(f.pending, row[i].pending);
        CHECK_EQ(f.dropped, row[i].dropped);
        CHECK_EQ(flow_is_failure(row[i].code, true), row[i].fail != PTL_NI_OK);
    }
    struct flow without = {0};
    flow_header_ended(&without, FLOW_PROCESS_DATA, false, BYTES);
    CHECK_EQ(without.payload, FLOW_STORED);
}

TEST(payload_codes) {
    for (int32_t code = -1; code <= 11; code++) {
        struct flow f = {.payload = FLOW_HANDLED};
        bool drop = code == FLOW_DROP || code == FLOW_DROP_PENDING;
        bool good = drop || code == FLOW_SUCCESS || code == FLOW_SUCCESS_PENDING;
        CHECK_EQ(flow_payload_ended(&f, code, 64), drop);
        CHECK_EQ(f.dropped, drop ? 64 : 0);
        CHECK_EQ(f.fail, good ? PTL_NI_OK : code == FLOW_SEGV ? PTL_NI_SEGV : PTL_NI_HANDLER_FAIL);
        CHECK(!f.pending && f.payload == FLOW_HANDLED); /* the message goes on */
        CHECK_EQ(flow_is_failure(code, false), !good);
    }
}

TEST(completion_codes_and_the_first_error) {
    struct flow f = {0};
    flow_completion_ended(&f, FLOW_SUCCESS);
    CHECK(!f.fail && !f.pending);
    flow_completion_ended(&f, FLOW_SUCCESS_PENDING);
    CHECK(!f.fail && f.pending);
    flow_completion_ended(&f, FLOW_DROP); /* not among its codes */
    CHECK_EQ(f.fail, PTL_NI_HANDLER_FAIL);
    flow_payload_ended(&f, FLOW_SEGV, 8);
    flow_failed(&f, PTL_NI_UNDELIVERABLE);
    CHECK_EQ(f.fail, PTL_NI_HANDLER_FAIL);
}

TEST_MAIN
