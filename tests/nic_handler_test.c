/* Handlers: when each runs, what each return code does to the message and its entry (SC'17,
 * appendix B.3 to B.5), errors, user headers, flow control. The handlers are functions of this
 * file. */
#include "lib/nichost.h"

/* As in spin/handler.h. */
enum {
    SUCCESS,
    SUCCESS_PENDING,
    PROCESS_DATA,
    PROCESS_DATA_PENDING,
    PROCEED,
    PROCEED_PENDING,
    DROP,
    DROP_PENDING,
    FAIL,
    SEGV,
};
enum { HEADER = 1, PAYLOAD = 2, COMPLETION = 4, CLEANUP = 8 };

#define BYTES 1000
#define MTU   64

static struct nicworld world;
static uint8_t source[8192], target[8192];

/* What the handlers return, and what they saw. */
static struct {
    int32_t header, payload, completion;
    int32_t payload_at[8192 / MTU]; /* instead, for the packet of that number, when not 0 */
    uint32_t headers, payloads, completions, cleanups, payload_bytes, dropped, user_bytes;
    uint64_t cleaned_at;
    uint32_t owned; /* payloads that the handler may write over, which it does */
    bool flow_control, wrong;
    uint8_t user[16];
    uint64_t first_payload, me_offset;
} script;

static int32_t header(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w;
    (void)n;
    script.headers++;
    script.wrong |= script.payloads || script.completions || task->kind != NIC_HEADER_HANDLER;
    script.user_bytes = task->user_hdr_bytes;
    script.me_offset = task->me_offset;
    memcpy(script.user, task->data, task->user_hdr_bytes < 16 ? task->user_hdr_bytes : 16);
    return script.header;
}

static int32_t payload(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w;
    (void)n;
    script.wrong |= script.completions || task->kind != NIC_PAYLOAD_HANDLER || !task->bytes;
    if (!script.payloads++ || task->offset < script.first_payload)
        script.first_payload = task->offset;
    script.payload_bytes += task->bytes;
    for (uint32_t i = 0; i < task->bytes; i++)
        script.wrong |= task->data[i] != source[task->offset + i];
    script.owned += task->owns_data;
    if (task->owns_data)
        memset((uint8_t *)(uintptr_t)task->data - NIC_PACKET_HEADROOM, 0xee,
               NIC_PACKET_HEADROOM + task->bytes);
    int32_t special = script.payload_at[task->offset / MTU];
    return special ? special : script.payload;
}

static int32_t completion(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w;
    (void)n;
    script.completions++;
    script.dropped = task->dropped_bytes;
    script.flow_control = task->flow_control_triggered;
    return script.completion;
}

static int32_t cleanup(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)n;
    script.cleanups++;
    script.cleaned_at = w->now;
    script.dropped = task->dropped_bytes;
    script.wrong |= task->kind != NIC_CLEANUP_HANDLER;
    return script.completion;
}

static void begin(uint32_t seed, unsigned pt_options) {
    world.config.mtu_bytes = MTU;
    world_begin(&world, 2, seed);
    world_ranks(&world, pt_options);
    for (uint32_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(1 + rng_below(&world.rng, 255));
    memset(target, 0, sizeof target);
    memset(&script, 0, sizeof script);
    script.header = PROCESS_DATA;
    world.node[1].handler[NIC_HEADER_HANDLER] = header;
    world.node[1].handler[NIC_PAYLOAD_HANDLER] = payload;
    world.node[1].handler[NIC_COMPLETION_HANDLER] = completion;
    world.node[1].handler[NIC_CLEANUP_HANDLER] = cleanup;
}

static void post(unsigned which, unsigned options, uint64_t user_hdr) {
    ptl_me_t me = host_entry(target, sizeof target, 5,
                             PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE | options);
    me.user_hdr_length = user_hdr;
    me = host_handlers(&world.node[1], me, which);
    host_append(&world.node[1], &me);
}

static void send_bytes(uint64_t bytes) {
    struct portals_request put =
        host_put(host_md(&world.node[0], source, sizeof source), 0, bytes, 1, 5);
    put.ack_req = PTL_ACK_REQ;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_settle(&world);
}

static bool stored(void) {
    return memcmp(source, target, BYTES) == 0;
}
static bool untouched(void) {
    for (uint32_t i = 0; i < sizeof target; i++)
        if (target[i])
            return false;
    return true;
}

/* The acknowledgement, after the send. */
static ptl_event_t ack(int fail) {
    world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK);
    return world_expect(&world.node[0], PTL_EVENT_ACK, fail);
}

static void no_more_events(void) {
    ptl_event_t event;
    for (uint32_t i = 0; i < 2; i++)
        if (world_event(&world.node[i], &event))
            TEST_FAIL("event of type %u at node %u that nobody expects", event.type, i);
}

TEST(each_packet_that_handlers_see_is_counted_once) {
    static const struct {
        unsigned handlers;
        uint32_t packets, bytes;
    } rows[] = {{HEADER | PAYLOAD | COMPLETION, (BYTES + MTU - 1) / MTU, BYTES},
                {PAYLOAD, (BYTES + MTU - 1) / MTU, BYTES},
                {HEADER, 1, MTU},
                {COMPLETION, 0, 0}};
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world = (struct nicworld){.config = {.reliable = true}};
        begin(i, 0);
        post(rows[i].handlers, 0, 0);
        send_bytes(BYTES);
        const struct nic_counts *counts = nic_counts(world.node[1].nic);
        CHECK_EQ(counts->handled_packets, rows[i].packets);
        CHECK_EQ(counts->handled_bytes, rows[i].bytes);
        CHECK(!script.wrong);
        world_end(&world);
    }
}

TEST(a_header_handler_is_told_where_in_the_entry_its_message_goes) {
    world = (struct nicworld){.config = {.reliable = true}};
    begin(1, 0);
    post(HEADER | PAYLOAD, 0, 0);
    struct portals_request put =
        host_put(host_md(&world.node[0], source, sizeof source), 0, BYTES, 1, 5);
    put.remote_offset = 24;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_settle(&world);
    CHECK_EQ(script.headers, 1);
    CHECK_EQ(script.me_offset, 24);
    world_end(&world);
}

TEST(header_then_payloads_then_completion) {
    for (uint32_t seed = 0; seed < 200; seed++) {
        world =
            (struct nicworld){.loss = 100, .doubling = 100, .spread = 1000, .handler_spread = 500};
        begin(seed, 0);
        post(HEADER | PAYLOAD | COMPLETION, 0, 0);
        send_bytes(BYTES);
        CHECK(!script.wrong);
        CHECK_EQ(script.headers, 1);
        CHECK_EQ(script.payloads, (BYTES + MTU - 1) / MTU);
        CHECK_EQ(script.payload_bytes, BYTES);
        CHECK_EQ(script.completions, 1);
        CHECK_EQ(nic_counts(world.node[1].nic)->tasks, script.payloads + 2);
        CHECK_EQ(script.dropped, 0);
        CHECK(untouched()); /* what becomes of the data is the handlers' matter */
        CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).mlength, BYTES);
        CHECK_EQ(ack(PTL_NI_OK).mlength, BYTES);
        no_more_events();
        world_end(&world);
    }
}

/* The packet is the handler's where nobody sends it again. */
TEST(a_payload_is_the_handlers_where_nothing_is_sent_again) {
    for (uint32_t reliable = 0; reliable < 2; reliable++) {
        world = (struct nicworld){.handler_spread = 500, .config = {.reliable = reliable}};
        begin(1, 0);
        post(HEADER | PAYLOAD | COMPLETION, 0, 0);
        for (uint32_t i = 0; i < 3; i++) { /* packets come back to their pool as they were */
            send_bytes(BYTES);
            CHECK(!script.wrong);
            CHECK_EQ(script.payload_bytes, BYTES);
            CHECK_EQ(script.owned, reliable ? script.payloads : 0);
            script.headers = script.payloads = script.completions = 0;
            script.payload_bytes = script.owned = 0;
        }
        world_end(&world);
    }
    world = (struct nicworld){.config = {.reliable = true}};
    begin(1, 0);
    post(HEADER | PAYLOAD, 0, 12);
    send_bytes(BYTES);
    CHECK_EQ(script.owned, script.payloads - 1); /* before the first one is the user header */
    CHECK(!script.wrong);
    world_end(&world);
}

TEST(payload_handlers_run_side_by_side) {
    world = (struct nicworld){.handler_spread = 5000, .config = {.reliable = true}};
    begin(1, 0);
    post(PAYLOAD, 0, 0);
    struct portals_request put =
        host_put(host_md(&world.node[0], source, sizeof source), 0, BYTES, 1, 5);
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_actions(&world, &world.node[0]);
    uint32_t most = 0;
    while (world_step(&world)) {
        uint32_t ready = 0;
        for (uint32_t i = 0; i < world.count; i++)
            ready += world.pending[i].kind == RUN;
        most = ready > most ? ready : most;
    }
    CHECK(most > 8);
    CHECK_EQ(script.payloads, 16);
    world_end(&world);
}

/* Each handler may be missing. */
TEST(a_handler_that_is_not_there_is_the_default) {
    static const struct {
        unsigned which;
        bool stores;
    } rows[] = {{HEADER, true},
                {COMPLETION, true},
                {HEADER | COMPLETION, true},
                {PAYLOAD, false},
                {PAYLOAD | COMPLETION, false},
                {HEADER | PAYLOAD, false}};
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world = (struct nicworld){.memory_spread = 20};
        begin(i, 0);
        post(rows[i].which, 0, 0);
        send_bytes(BYTES);
        CHECK_EQ(script.headers, rows[i].which & HEADER ? 1 : 0);
        CHECK_EQ(script.payloads, rows[i].which & PAYLOAD ? 16 : 0);
        CHECK_EQ(script.completions, rows[i].which & COMPLETION ? 1 : 0);
        CHECK(rows[i].stores ? stored() : untouched());
        CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).mlength, BYTES);
        ack(PTL_NI_OK);
        no_more_events();
        world_end(&world);
    }
}

/* Return codes of the header handler. After each the completion handler runs, once. */
TEST(header_return_codes) {
    static const struct {
        int32_t code;
        bool stores, payloads, pending;
        uint32_t dropped;
        int fail;
    } rows[] = {
        {PROCESS_DATA, false, true, false, 0, PTL_NI_OK},
        {PROCESS_DATA_PENDING, false, true, true, 0, PTL_NI_OK},
        {SUCCESS, false, true, false, 0, PTL_NI_OK},
        {PROCEED, true, false, false, 0, PTL_NI_OK},
        {PROCEED_PENDING, true, false, true, 0, PTL_NI_OK},
        {DROP, false, false, false, BYTES, PTL_NI_OK},
        {DROP_PENDING, false, false, true, BYTES, PTL_NI_OK},
        {FAIL, false, false, false, BYTES, PTL_NI_HANDLER_FAIL},
        {SEGV, false, false, false, BYTES, PTL_NI_SEGV},
        {77, false, false, false, BYTES, PTL_NI_HANDLER_FAIL}, /* no code at all */
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world = (struct nicworld){.loss = i % 2 ? 100 : 0, .memory_spread = 20};
        begin(i, 0);
        script.header = rows[i].code;
        post(HEADER | PAYLOAD | COMPLETION, PTL_ME_USE_ONCE, 0);
        send_bytes(BYTES);
        CHECK_EQ(script.headers, 1);
        CHECK_EQ(script.payloads, rows[i].payloads ? 16 : 0);
        CHECK_EQ(script.completions, 1);
        CHECK_EQ(script.dropped, rows[i].dropped);
        CHECK(rows[i].stores ? stored() : untouched());
        if (!rows[i].pending) {
            ptl_event_t event = world_expect(&world.node[1], PTL_EVENT_PUT, rows[i].fail);
            CHECK_EQ(event.mlength, BYTES - rows[i].dropped);
            world_expect(&world.node[1], PTL_EVENT_AUTO_UNLINK, PTL_NI_OK);
        }
        ack(rows[i].fail);
        no_more_events();
        /* The entry is there for another message if it was left pending. */
        script.header = DROP;
        send_bytes(BYTES);
        CHECK_EQ(script.headers, rows[i].pending ? 2 : 1);
        if (rows[i].pending) {
            world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
            world_expect(&world.node[1], PTL_EVENT_AUTO_UNLINK, PTL_NI_OK);
        }
        world_end(&world);
    }
}

TEST(payload_return_codes) {
    static const struct {
        int32_t code;
        int fail;
        uint32_t dropped;
    } rows[] = {{SUCCESS, PTL_NI_OK, 0},          {SUCCESS_PENDING, PTL_NI_OK, 0},
                {DROP, PTL_NI_OK, MTU},           {DROP_PENDING, PTL_NI_OK, MTU},
                {FAIL, PTL_NI_HANDLER_FAIL, 0},   {SEGV, PTL_NI_SEGV, 0},
                {PROCEED, PTL_NI_HANDLER_FAIL, 0}};
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world = (struct nicworld){.loss = i % 2 ? 100 : 0};
        begin(i, 0);
        script.payload_at[3] = rows[i].code; /* one packet of sixteen */
        post(HEADER | PAYLOAD | COMPLETION, PTL_ME_USE_ONCE, 0);
        send_bytes(BYTES);
        CHECK_EQ(script.payloads, 16); /* the others go on */
        CHECK_EQ(script.completions, 1);
        CHECK_EQ(script.dropped, rows[i].dropped);
        ptl_event_t event = world_expect(&world.node[1], PTL_EVENT_PUT, rows[i].fail);
        CHECK_EQ(event.mlength, BYTES - rows[i].dropped);
        world_expect(&world.node[1], PTL_EVENT_AUTO_UNLINK, PTL_NI_OK);
        ack(rows[i].fail);
        no_more_events();
        world_end(&world);
    }
}

TEST(completion_return_codes) {
    static const struct {
        int32_t code;
        int fail;
        bool pending;
    } rows[] = {{SUCCESS, PTL_NI_OK, false},
                {SUCCESS_PENDING, PTL_NI_OK, true},
                {FAIL, PTL_NI_HANDLER_FAIL, false},
                {SEGV, PTL_NI_SEGV, false}};
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world = (struct nicworld){.handler_spread = 30};
        begin(i, 0);
        script.completion = rows[i].code;
        post(COMPLETION, PTL_ME_USE_ONCE, 0);
        send_bytes(BYTES);
        CHECK(stored());
        CHECK_EQ(script.completions, 1);
        if (!rows[i].pending) {
            CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, rows[i].fail).mlength, BYTES);
            world_expect(&world.node[1], PTL_EVENT_AUTO_UNLINK, PTL_NI_OK);
        }
        ack(rows[i].fail);
        no_more_events();
        world_end(&world);
    }
}

TEST(only_the_first_error_is_told) {
    world = (struct nicworld){0};
    begin(1, 0);
    script.payload_at[2] = SEGV;
    script.payload_at[9] = FAIL;
    script.completion = FAIL;
    post(HEADER | PAYLOAD | COMPLETION, 0, 0);
    send_bytes(BYTES);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_SEGV);
    ack(PTL_NI_SEGV);
    no_more_events();
    world_end(&world);
}

TEST(a_message_without_data_has_header_and_completion) {
    world = (struct nicworld){0};
    begin(1, 0);
    post(HEADER | PAYLOAD | COMPLETION, 0, 0);
    send_bytes(0);
    CHECK_EQ(script.headers, 1);
    CHECK_EQ(script.payloads, 0);
    CHECK_EQ(script.completions, 1);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
    world_end(&world);
}

TEST(the_user_header_is_the_header_handlers) {
    world = (struct nicworld){.loss = 50, .spread = 100};
    begin(1, 0);
    post(HEADER | PAYLOAD, 0, 12);
    send_bytes(BYTES);
    CHECK_EQ(script.user_bytes, 12);
    CHECK(memcmp(script.user, source, 12) == 0);
    CHECK_EQ(script.payload_bytes, BYTES - 12);
    CHECK_EQ(script.first_payload, 12);
    CHECK(!script.wrong);
    script.header = PROCEED; /* stores all of it */
    send_bytes(BYTES);
    CHECK(stored());
    send_bytes(5); /* shorter than the header */
    CHECK_EQ(script.user_bytes, 5);
    CHECK_EQ(script.payload_bytes, BYTES - 12);
    world_end(&world);
}

TEST(handlers_see_what_the_entry_accepts) {
    world = (struct nicworld){0};
    begin(1, 0);
    ptl_me_t me = host_entry(target, 300, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    me = host_handlers(&world.node[1], me, PAYLOAD | COMPLETION);
    host_append(&world.node[1], &me);
    script.payload = DROP;
    send_bytes(BYTES);
    CHECK_EQ(script.payload_bytes, 300);
    CHECK_EQ(script.dropped, 300);
    CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).mlength, 0);
    world_end(&world);
}

/* Gets have a header handler, and their answer is the default action. */
TEST(gets_with_handlers) {
    static const struct {
        int32_t code;
        bool data;
        int fail;
    } rows[] = {{PROCEED, true, PTL_NI_OK},
                {PROCESS_DATA, true, PTL_NI_OK},
                {DROP, false, PTL_NI_OK},
                {FAIL, false, PTL_NI_HANDLER_FAIL}};
    for (uint32_t i = 0; i < 4; i++) {
        world = (struct nicworld){.loss = 100, .spread = 50};
        begin(i, 0);
        script.header = rows[i].code;
        post(HEADER | PAYLOAD | COMPLETION, 0, 0);
        memcpy(target, source, BYTES);
        static uint8_t got[BYTES];
        memset(got, 0, BYTES);
        struct portals_request get = {.kind = PORTALS_GET,
                                      .get_md = host_md(&world.node[0], got, BYTES),
                                      .length = BYTES,
                                      .target = {.rank = 1},
                                      .match_bits = 5};
        CHECK_EQ(portals_start(world.node[0].portals, &get), PTL_OK);
        world_settle(&world);
        CHECK_EQ(script.headers, 1);
        CHECK_EQ(script.payloads, 0);
        CHECK_EQ(script.completions, 1);
        world_expect(&world.node[1], PTL_EVENT_GET, rows[i].fail);
        ptl_event_t reply = world_expect(&world.node[0], PTL_EVENT_REPLY, rows[i].fail);
        CHECK_EQ(reply.mlength, rows[i].data ? BYTES : 0);
        CHECK_EQ(memcmp(got, source, BYTES) == 0, rows[i].data);
        world_end(&world);
    }
}

/* No context for the header handler: nothing of the message is delivered, the table entry is
 * closed, and everything works again when it is opened. */
TEST(flow_control_before_a_message) {
    world = (struct nicworld){.handler_spread = 1, .config = {.contexts = 2, .reliable = true}};
    begin(1, PTL_PT_FLOWCTRL);
    post(HEADER | PAYLOAD | COMPLETION, 0, 0);
    script.header = DROP;
    ptl_handle_md_t md = host_md(&world.node[0], source, sizeof source);
    for (uint32_t i = 0; i < 5; i++) { /* all at once: three find no context */
        struct portals_request put = host_put(md, 0, 10, 1, 5);
        put.ack_req = PTL_ACK_REQ;
        CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    }
    /* Both contexts are taken before any handler ends. */
    world.handler_spread = 0;
    world_actions(&world, &world.node[0]);
    struct nic_packet *packets[5];
    uint32_t count = 0;
    while (count < 5) {
        for (uint32_t i = 0; i < world.count; i++)
            if (world.pending[i].kind == PACKET) {
                packets[count++] = world.pending[i].packet;
                world.pending[i] = world.pending[--world.count];
                i--;
            }
        if (count < 5)
            CHECK(world_step(&world));
    }
    for (uint32_t i = 0; i < 5; i++) {
        nic_packet_in(world.node[1].nic, packets[i], world.now);
        nic_packet_release(packets[i]);
    }
    world_settle(&world);
    CHECK_EQ(script.headers, 2);
    CHECK_EQ(script.completions, 2);
    CHECK_EQ(nic_counts(world.node[1].nic)->flow_control, 1); /* after it the table is closed */
    uint32_t fine = 0, refused = 0, disabled = 0, puts = 0;
    ptl_event_t event;
    while (world_event(&world.node[0], &event)) {
        fine += event.type == PTL_EVENT_ACK && event.ni_fail_type == PTL_NI_OK;
        refused += event.type == PTL_EVENT_ACK && event.ni_fail_type == PTL_NI_PT_DISABLED;
    }
    while (world_event(&world.node[1], &event)) {
        disabled += event.type == PTL_EVENT_PT_DISABLED;
        puts += event.type == PTL_EVENT_PUT;
    }
    CHECK_EQ(fine, 2);
    CHECK_EQ(refused, 3);
    CHECK_EQ(disabled, 1);
    CHECK_EQ(puts, 2);
    CHECK_EQ(portals_pt_enable(world.node[1].portals, world.node[1].ni, 0), PTL_OK);
    send_bytes(10);
    CHECK_EQ(script.headers, 3);
    ack(PTL_NI_OK);
    world_end(&world);
}

/* Without flow control a message that finds no context is dropped, and the next one has its chance.
 */
TEST(no_context_and_no_flow_control) {
    world = (struct nicworld){.config = {.contexts = 1, .reliable = true}};
    begin(1, 0);
    post(HEADER | COMPLETION, 0, 0);
    script.header = PROCEED;
    world.handler_spread = 1000000; /* the first is not done when the second comes */
    ptl_handle_md_t md = host_md(&world.node[0], source, sizeof source);
    for (uint32_t i = 0; i < 2; i++) {
        struct portals_request put = host_put(md, 0, 10, 1, 5);
        put.ack_req = PTL_ACK_REQ;
        CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    }
    world_settle(&world);
    CHECK_EQ(script.headers, 1);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
    world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK);
    world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK);
    world_expect(&world.node[0], PTL_EVENT_ACK, PTL_NI_DROPPED);
    world_expect(&world.node[0], PTL_EVENT_ACK, PTL_NI_OK);
    no_more_events();
    send_bytes(10);
    ack(PTL_NI_OK);
    CHECK_EQ(script.headers, 2);
    world_end(&world);
}

/* In the middle of a message: the rest is dropped, the completion handler is told. */
TEST(flow_control_within_a_message) {
    world = (struct nicworld){.config = {.contexts = 4, .reliable = true}};
    begin(1, PTL_PT_FLOWCTRL);
    post(HEADER | PAYLOAD | COMPLETION, 0, 0);
    struct portals_request put =
        host_put(host_md(&world.node[0], source, sizeof source), 0, BYTES, 1, 5);
    put.ack_req = PTL_ACK_REQ;
    world.handler_spread = 0;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_actions(&world, &world.node[0]);
    while (script.headers == 0)
        CHECK(world_step(&world));
    world.handler_spread = 1000000; /* payload handlers do not come to an end */
    world_settle(&world);
    CHECK(script.payloads >= 4);
    CHECK(script.payloads < 16);
    CHECK_EQ(script.completions, 1);
    CHECK(script.flow_control);
    CHECK_EQ(script.dropped, BYTES - script.payload_bytes);
    CHECK(!script.wrong);
    CHECK_EQ(nic_counts(world.node[1].nic)->flow_control, 1);
    uint32_t disabled = 0;
    ptl_event_t event;
    while (world_event(&world.node[1], &event)) {
        disabled += event.type == PTL_EVENT_PT_DISABLED;
        if (event.type == PTL_EVENT_PUT)
            CHECK_EQ(event.mlength, script.payload_bytes);
    }
    CHECK_EQ(disabled, 1);
    world_end(&world);
}

/* Many sources, few contexts: what is refused is sent again until all is through, and no byte is
 * counted twice. */
TEST(overload_recovers) {
    for (uint32_t seed = 0; seed < 30; seed++) {
        world = (struct nicworld){
            .loss = 50, .spread = 300, .handler_spread = 200, .config = {.contexts = 6}};
        begin(seed, PTL_PT_FLOWCTRL);
        post(HEADER | COMPLETION, 0, 0);
        script.header = PROCEED;
        ptl_handle_md_t md = host_md(&world.node[0], source, sizeof source);
        uint32_t wanted = 40, fine = 0;
        for (uint32_t round = 0; fine < wanted; round++) {
            CHECK(round < 50);
            for (uint32_t i = fine; i < wanted; i++) {
                struct portals_request put = host_put(md, 0, 200, 1, 5);
                put.ack_req = PTL_ACK_REQ;
                CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
            }
            world_settle(&world);
            ptl_event_t event;
            while (world_event(&world.node[0], &event))
                fine += event.type == PTL_EVENT_ACK && event.ni_fail_type == PTL_NI_OK;
            portals_pt_enable(world.node[1].portals, world.node[1].ni, 0);
        }
        CHECK_EQ(fine, wanted);
        CHECK_EQ(script.headers, wanted);
        CHECK_EQ(script.completions, wanted);
        CHECK(nic_counts(world.node[1].nic)->flow_control > 0);
        world_end(&world);
    }
}

TEST(the_completion_handler_learns_that_the_source_died) {
    world = (struct nicworld){.config = {.retries = 3}};
    begin(1, 0);
    post(HEADER | PAYLOAD | COMPLETION, 0, 0);
    struct portals_request put =
        host_put(host_md(&world.node[0], source, sizeof source), 0, 8000, 1, 5);
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_actions(&world, &world.node[0]);
    while (script.payloads < 4)
        CHECK(world_step(&world));
    world.node[0].dead = true;
    world_settle(&world);
    CHECK_EQ(script.completions, 1);
    CHECK_EQ(script.dropped, 8000 - script.payload_bytes);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_UNDELIVERABLE);
    world_end(&world);
}

/* ---- cleanup ---- */

/* A message of 8000 bytes, whose first packet has come. */
static void begin_to_send(void) {
    struct portals_request put =
        host_put(host_md(&world.node[0], source, sizeof source), 0, 8000, 1, 5);
    put.ack_req = PTL_ACK_REQ;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_actions(&world, &world.node[0]);
    while (!nic_counts(world.node[1].nic)->messages_in)
        CHECK(world_step(&world));
}

/* The source dies, and with it what is on the way. */
static void source_dies(void) {
    world.node[0].dead = true;
    for (uint32_t i = 0; i < world.count;)
        if (world.pending[i].kind == PACKET) {
            nic_packet_release(world.pending[i].packet);
            world.pending[i] = world.pending[--world.count];
        } else {
            i++;
        }
}

/* On a reliable network nobody else notices. */
TEST(the_cleanup_handler_runs_after_silence) {
    for (uint32_t seed = 0; seed < 50; seed++) {
        world = (struct nicworld){.spread = seed % 2 ? 300 : 0,
                                  .handler_spread = seed % 3 ? 500 : 0,
                                  .config = {.reliable = true, .units_per_ns = 1 + seed % 4}};
        uint64_t silence = (uint64_t)HOST_SILENCE * (1 + seed % 4);
        begin(seed, 0);
        post(HEADER | PAYLOAD | COMPLETION | CLEANUP, 0, 0);
        begin_to_send();
        source_dies();
        uint64_t died = world.now;
        world_settle(&world);
        CHECK_EQ(script.cleanups, 1);
        CHECK_EQ(script.completions, 0);
        CHECK_EQ(script.dropped, 8000 - script.payload_bytes);
        CHECK(script.cleaned_at >= died + silence && script.cleaned_at < died + silence + 2000);
        CHECK_EQ(nic_counts(world.node[1].nic)->malformed, 0);
        CHECK(!script.wrong);
        world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_UNDELIVERABLE);
        world_end(&world);
    }
}

TEST(the_cleanup_handler_runs_when_the_source_is_given_up) {
    world = (struct nicworld){.config = {.retries = 3, .units_per_ns = 1000000}};
    begin(1, 0);
    post(HEADER | PAYLOAD | CLEANUP, 0, 0);
    begin_to_send();
    source_dies();
    world_settle(&world);
    CHECK_EQ(script.cleanups, 1);
    CHECK_EQ(script.dropped, 8000 - script.payload_bytes);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_UNDELIVERABLE);
    CHECK_EQ(nic_deadline(world.node[1].nic), UINT64_MAX);
    world_end(&world);
}

TEST(a_message_that_comes_whole_is_not_cleaned_up) {
    for (uint32_t seed = 0; seed < 50; seed++) {
        world = (struct nicworld){.loss = 100, .spread = 1000, .handler_spread = 500};
        begin(seed, 0);
        post(HEADER | PAYLOAD | COMPLETION | CLEANUP, 0, 0);
        send_bytes(BYTES);
        CHECK_EQ(script.cleanups, 0);
        CHECK_EQ(script.completions, 1);
        CHECK_EQ(nic_deadline(world.node[1].nic), UINT64_MAX); /* nothing is listened for */
        world_end(&world);
    }
}

/* Each packet counts as a sign of life, and what comes too late harms nothing. */
TEST(a_slow_source_is_waited_for_and_a_late_packet_is_dropped) {
    for (uint32_t late = 0; late < 2; late++) {
        world = (struct nicworld){.config = {.reliable = true}};
        begin(1, 0);
        post(HEADER | PAYLOAD | COMPLETION | CLEANUP, 0, 0);
        begin_to_send();
        uint32_t held = 0;
        for (uint32_t i = 0; i < world.count; i++)
            if (world.pending[i].kind == PACKET)
                world.pending[i].time += (late ? 3 : 1) * (HOST_SILENCE * 9 / 10) * ++held;
        CHECK(held > 2);
        world_settle(&world);
        CHECK_EQ(script.cleanups, late);
        CHECK_EQ(script.completions, !late);
        CHECK_EQ(nic_counts(world.node[1].nic)->malformed > 0, late);
        world_expect(&world.node[1], PTL_EVENT_PUT, late ? PTL_NI_UNDELIVERABLE : PTL_NI_OK);
        ack(late ? PTL_NI_UNDELIVERABLE : PTL_NI_OK);
        no_more_events();
        world_end(&world);
    }
}

TEST(a_cleanup_handler_needs_its_function_and_a_time) {
    world = (struct nicworld){0};
    begin(1, 0);
    ptl_me_t me = host_entry(target, sizeof target, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    const ptl_me_t good = host_handlers(&world.node[1], me, CLEANUP);
    ptl_handle_me_t handle;
    struct node *n = &world.node[1];
    for (uint32_t i = 0; i < 4; i++) {
        me = good;
        me.cleanup_handler = i == 1 ? NULL : good.cleanup_handler;
        me.cleanup_time = i == 2 ? 0 : good.cleanup_time;
        if (i == 3) { /* then the two are not even read */
            me.options &= ~(unsigned)PTL_ME_CLEANUP;
            me.cleanup_handler = (ptl_handler_t)(uintptr_t)8;
        }
        CHECK_EQ(portals_me_append(n->portals, n->ni, 0, &me, PTL_PRIORITY_LIST, NULL, &handle),
                 i % 3 ? PTL_ARG_INVALID : PTL_OK);
    }
    world_end(&world);
}

/* Everything that was pending ends twice, the second time when its memory may be another's: of
 * several messages at once, whose packets are fetched from two places. */
TEST(what_is_told_twice_has_happened_once) {
    enum { MESSAGES = 5 };
    for (uint32_t seed = 0; seed < 8; seed++) {
        world = (struct nicworld){.retold = 1000,
                                  .spread = 50,
                                  .memory_spread = 300,
                                  .handler_spread = 300,
                                  .config = {.reliable = true, .ordered = seed % 2}};
        begin(seed, 0);
        post(HEADER | COMPLETION, PTL_ME_MANAGE_LOCAL, 0);
        script.header = PROCEED;
        ptl_iovec_t pieces[2] = {{source, 100}, {source + 100, BYTES - 100}};
        ptl_md_t md = {.start = pieces,
                       .length = 2,
                       .options = PTL_IOVEC,
                       .eq_handle = world.node[0].eq,
                       .ct_handle = PTL_CT_NONE};
        ptl_handle_md_t handle;
        CHECK_EQ(portals_md_bind(world.node[0].portals, world.node[0].ni, &md, &handle), PTL_OK);
        struct portals_request put = host_put(handle, 0, BYTES, 1, 5);
        put.ack_req = PTL_ACK_REQ;
        for (uint32_t i = 0; i < MESSAGES; i++)
            CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
        world_settle(&world);
        CHECK_EQ(script.completions, MESSAGES);
        for (uint32_t i = 0; i < MESSAGES; i++) {
            CHECK(memcmp(source, target + i * BYTES, BYTES) == 0);
            world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
        }
        ptl_event_t event;
        uint32_t events = 0;
        while (world_event(&world.node[0], &event))
            events += event.ni_fail_type == PTL_NI_OK;
        CHECK_EQ(events, 2 * MESSAGES); /* sent, and acknowledged */
        world_end(&world);
    }
}

TEST_MAIN
