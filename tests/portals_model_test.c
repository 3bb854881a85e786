/* Random sequences of appends, unlinks, searches, messages, disables and events, here and in a slow
 * and obvious second implementation: every code, event, counter, answer and byte must agree. */
#include "lib/test.h"

#include "base/rng.h"
#include "slow_portals.h"

#define HANDLES 128
#define FLIGHTS 6

struct run {
    struct rng r;
    struct slow_portals slow;
    struct portals *p;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    ptl_pt_index_t pt;
    uint8_t memory[SLOW_MEMORY];
    struct {
        ptl_handle_me_t handle;
        int slow;
        uint64_t user; /* 0: none; the slow one's place may be another's by now */
    } entry[HANDLES];
    struct {
        bool used;
        struct portals_arrival arrival;
        struct nic_message message; /* of it */
        int slow;
    } flight[FLIGHTS];
    struct nic_message answer;
    bool answered;
    uint64_t users, messages;
    uint32_t masks; /* kinds of masks in use: more than there are groups at times */
};

static enum portals_sending take_answer(void *context, struct portals_outgoing *out) {
    struct run *run = context;
    run->answer = *out->message;
    run->answered = true;
    return PORTALS_LEFT;
}

static void nothing(void *context) {
    (void)context;
}

/* ---- What is tried ---- */

static uint32_t below(struct run *run, uint32_t bound) {
    return rng_below(&run->r, bound);
}

static bool one_in(struct run *run, uint32_t n) {
    return below(run, n) == 0;
}

static ptl_me_t random_me(struct run *run, uint64_t *at, bool for_list) {
    static const unsigned flags[] = {
        PTL_ME_ACK_DISABLE,        PTL_ME_UNEXPECTED_HDR_DISABLE, PTL_ME_EVENT_LINK_DISABLE,
        PTL_ME_EVENT_COMM_DISABLE, PTL_ME_EVENT_FLOWCTRL_DISABLE, PTL_ME_EVENT_SUCCESS_DISABLE,
        PTL_ME_EVENT_OVER_DISABLE, PTL_ME_EVENT_UNLINK_DISABLE};
    ptl_me_t me = {.ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY};
    *at = below(run, SLOW_MEMORY / 2);
    me.start = run->memory + *at;
    me.length = below(run, 100);
    me.options = one_in(run, 8) ? below(run, 4) << 1 : PTL_ME_OP_PUT | PTL_ME_OP_GET;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (one_in(run, 6))
            me.options |= flags[i];
    if (one_in(run, 2))
        me.options |= PTL_ME_USE_ONCE;
    if (one_in(run, 3)) {
        me.ct_handle = run->ct;
        me.options |= (below(run, 8) << 13) & 0xe000; /* the three EVENT_CT options */
    }
    if (one_in(run, 10))
        me.uid = below(run, 3);
    if (!run->slow.matching)
        return me;
    me.match_bits = below(run, 4) | (uint64_t)below(run, 4) << 32;
    me.ignore_bits = one_in(run, 2) ? 0 : ((uint64_t)below(run, run->masks) << 32 | below(run, 4));
    me.match_id.phys.pid = 0;
    me.match_id.rank = one_in(run, 2) ? PTL_RANK_ANY : below(run, 3);
    if (for_list && one_in(run, 3))
        me.options |= PTL_ME_MANAGE_LOCAL;
    if (one_in(run, 4))
        me.options |= PTL_ME_NO_TRUNCATE;
    me.min_free = one_in(run, 2) ? 0 : below(run, 80);
    return me;
}

static ptl_le_t as_le(const ptl_me_t *me) {
    return (ptl_le_t){me->start, me->length, me->ct_handle, me->uid, me->options};
}

static void append(struct run *run) {
    uint64_t at, user = ++run->users;
    ptl_me_t me = random_me(run, &at, true);
    ptl_list_t list = one_in(run, 3) ? PTL_OVERFLOW_LIST : PTL_PRIORITY_LIST;
    ptl_le_t le = as_le(&me);
    uint32_t slot = below(run, HANDLES);
    ptl_handle_any_t handle = PTL_INVALID_HANDLE;
    int slow, wanted = slow_append(&run->slow, &me, at, list, user, &slow);
    int got = run->slow.matching
                  ? portals_me_append(run->p, run->ni, run->pt, &me, list, (void *)user, &handle)
                  : portals_le_append(run->p, run->ni, run->pt, &le, list, (void *)user, &handle);
    CHECK_EQ(got, wanted);
    if (got == PTL_OK) {
        run->entry[slot].handle = handle;
        run->entry[slot].slow = slow;
        run->entry[slot].user = user;
    }
}

static void unlink_one(struct run *run) {
    uint32_t slot = below(run, HANDLES);
    if (!run->entry[slot].user)
        return;
    int slow = run->entry[slot].slow;
    bool is_same = run->slow.entry[slow].user == run->entry[slot].user;
    int wanted = is_same ? slow_unlink(&run->slow, slow) : PTL_ARG_INVALID;
    int got = run->slow.matching ? portals_me_unlink(run->p, run->entry[slot].handle)
                                 : portals_le_unlink(run->p, run->entry[slot].handle);
    CHECK_EQ(got, wanted);
}

static void search(struct run *run) {
    uint64_t at, user = ++run->users;
    ptl_me_t me = random_me(run, &at, false);
    ptl_le_t le = as_le(&me);
    bool delete = one_in(run, 2);
    ptl_search_op_t op = delete ? PTL_SEARCH_DELETE : PTL_SEARCH_ONLY;
    int wanted = slow_search(&run->slow, &me, delete, user);
    int got = run->slow.matching
                  ? portals_me_search(run->p, run->ni, run->pt, &me, op, (void *)user)
                  : portals_le_search(run->p, run->ni, run->pt, &le, op, (void *)user);
    CHECK_EQ(got, wanted);
}

static struct nic_message random_message(struct run *run) {
    uint32_t rank = below(run, 3);
    struct nic_message m = {
        .kind = (uint8_t)below(run, 4),
        .interface = run->slow.matching ? PTL_NI_MATCHING | PTL_NI_LOGICAL
                                        : PTL_NI_NO_MATCHING | PTL_NI_LOGICAL,
        .ack_req = (uint8_t)below(run, 4),
        .uid = rank,
        .source = {100 + rank, 1},
        .target = {99, 1},
        .source_rank = rank,
        .pt_index = run->pt,
        .match_bits = below(run, 4) | (uint64_t)below(run, 4) << 32,
        .hdr_data = ++run->messages,
        .remote_offset = one_in(run, 2) ? 0 : below(run, 120),
        .length = below(run, 90),
        .initiator = run->messages,
    };
    if (m.kind == NIC_ATOMIC || m.kind == NIC_FETCH_ATOMIC) {
        m.operation = PTL_BXOR;
        m.datatype = PTL_UINT32_T;
        m.length = m.length / 4 * 4;
    }
    if (m.kind == NIC_GET || m.kind == NIC_FETCH_ATOMIC)
        m.ack_req = PTL_NO_ACK_REQ;
    m.payload = m.kind == NIC_GET ? 0 : m.length;
    return m;
}

/* Moves the data on both sides. */
static void move(struct run *run, struct portals_arrival *arrival, int slow) {
    const struct slow_delivery *d = &run->slow.delivery[slow];
    uint8_t data[128], before[128];
    struct nic_segment s;
    for (int i = 0; i < 128; i++)
        data[i] = (uint8_t)(d->message.hdr_data * 31 + (uint64_t)i * 7);
    uint64_t at = d->mlength ? run->slow.entry[d->entry].at + d->offset : 0;
    uint32_t count = portals_arrival_segments(arrival, 0, d->message.length, &s, 1);
    CHECK_EQ(count, d->mlength > 0);
    if (count) {
        CHECK_EQ(s.bytes, d->mlength);
        CHECK(s.host == run->memory + at);
    }
    uint8_t *slow_at = run->slow.memory + at;
    if (d->message.kind == NIC_PUT && count) {
        memcpy(s.host, data, s.bytes);
        memcpy(slow_at, data, d->mlength);
    } else if (d->message.kind == NIC_ATOMIC || d->message.kind == NIC_FETCH_ATOMIC) {
        portals_apply(arrival, 0, data, d->message.length, before);
        CHECK(memcmp(before, slow_at, d->mlength) == 0);
        for (uint64_t i = 0; i < d->mlength; i++)
            slow_at[i] ^= data[i];
    }
}

static void compare_answers(struct run *run) {
    CHECK_EQ(run->answered, run->slow.answered);
    if (!run->answered)
        return;
    const struct nic_message *a = &run->answer, *b = &run->slow.answer;
    CHECK_EQ(a->kind, b->kind);
    CHECK_EQ(a->fail, b->fail);
    CHECK_EQ(a->length, b->length);
    CHECK_EQ(a->remote_offset, b->remote_offset);
    CHECK_EQ(a->ack_req, b->ack_req);
    CHECK_EQ(a->list, b->list);
    CHECK_EQ(a->initiator, b->initiator);
}

static void finish(struct run *run, uint32_t i) {
    struct portals_arrival *arrival = &run->flight[i].arrival;
    int slow = run->flight[i].slow;
    struct portals_ending how = {0};
    const struct slow_delivery *d = &run->slow.delivery[slow];
    if (!d->fail && one_in(run, 4)) {
        uint32_t way = below(run, 5);
        if (way == 0)
            how.pending = true;
        else if (way == 1)
            how.fail = PTL_NI_SEGV;
        else if (way == 2)
            how.dropped = below(run, 50);
        else if (way == 3)
            how.fail = PTL_NI_DROPPED;
        else
            how.fail = portals_exhausted(arrival);
        if (way == 4)
            CHECK_EQ(how.fail, slow_exhausted(&run->slow, slow));
    }
    if (how.fail != PTL_NI_DROPPED && how.fail != PTL_NI_PT_DISABLED)
        move(run, arrival, slow);
    run->answered = run->slow.answered = false;
    slow_done(&run->slow, slow, how);
    portals_done(run->p, arrival, how);
    compare_answers(run);
    run->flight[i].used = false;
}

static void send_one(struct run *run) {
    uint32_t i = 0;
    while (i < FLIGHTS && run->flight[i].used)
        i++;
    if (i == FLIGHTS) {
        finish(run, below(run, FLIGHTS));
        return;
    }
    struct nic_message m = random_message(run);
    int slow = slow_header(&run->slow, &m);
    struct portals_arrival told;
    portals_header(run->p, &m, &told, NULL);
    const struct slow_delivery *d = &run->slow.delivery[slow];
    CHECK_EQ(told.fail, d->fail);
    CHECK_EQ(told.mlength, d->mlength);
    CHECK_EQ(told.offset, d->offset);
    if (!d->fail)
        CHECK_EQ(told.list, run->slow.entry[d->entry].list);
    run->flight[i].used = true;
    run->flight[i].message = m;
    portals_arrival_keep(&run->flight[i].arrival, &told, &run->flight[i].message);
    run->flight[i].slow = slow;
    if (one_in(run, 2))
        finish(run, i);
}

static void finish_any(struct run *run) {
    uint32_t i = below(run, FLIGHTS);
    if (run->flight[i].used)
        finish(run, i);
}

static void disable_or_enable(struct run *run) {
    if (one_in(run, 3)) {
        CHECK_EQ(portals_pt_disable(run->p, run->ni, run->pt), slow_disable(&run->slow));
    } else {
        slow_enable(&run->slow);
        CHECK_EQ(portals_pt_enable(run->p, run->ni, run->pt), PTL_OK);
    }
}

/* ---- What is compared ---- */

static void compare_event(const struct run *run, const ptl_event_t *a, const ptl_event_t *b) {
    CHECK_EQ(a->type, b->type);
    CHECK(a->user_ptr == b->user_ptr);
    CHECK_EQ(a->ni_fail_type, b->ni_fail_type);
    if (b->type == PTL_EVENT_PT_DISABLED || b->ni_fail_type == PTL_NI_NO_MATCH)
        return;
    CHECK_EQ((const uint8_t *)a->start - run->memory, (intptr_t)b->start);
    CHECK_EQ(a->ptl_list, b->ptl_list);
    if (b->type >= PTL_EVENT_LINK && b->type <= PTL_EVENT_AUTO_FREE)
        return;
    CHECK_EQ(a->hdr_data, b->hdr_data);
    CHECK_EQ(a->match_bits, b->match_bits);
    CHECK_EQ(a->rlength, b->rlength);
    CHECK_EQ(a->mlength, b->mlength);
    CHECK_EQ(a->remote_offset, b->remote_offset);
    CHECK_EQ(a->initiator.rank, b->initiator.rank);
    CHECK_EQ(a->uid, b->uid);
    CHECK_EQ(a->pt_index, run->pt);
    CHECK_EQ(a->atomic_operation, b->atomic_operation);
    CHECK_EQ(a->atomic_type, b->atomic_type);
}

static void take_events(struct run *run, uint32_t most) {
    struct slow_portals *s = &run->slow;
    for (uint32_t i = 0; i < most; i++) {
        ptl_event_t event;
        int code = portals_eq_get(run->p, run->eq, &event);
        CHECK_EQ(code, !s->queued ? PTL_EQ_EMPTY : s->dropped ? PTL_EQ_DROPPED : PTL_OK);
        if (code == PTL_EQ_EMPTY)
            return;
        s->dropped = false;
        compare_event(run, &event, &s->queue[0]);
        memmove(s->queue, s->queue + 1, (size_t)--s->queued * sizeof *s->queue);
    }
}

static void compare(struct run *run) {
    ptl_ct_event_t value;
    CHECK_EQ(portals_ct_get(run->p, run->ct, &value), PTL_OK);
    CHECK_EQ(value.success, run->slow.success);
    CHECK_EQ(value.failure, run->slow.failure);
    for (int i = 0; i < PTL_SR_LAST; i++) {
        ptl_sr_value_t status;
        portals_ni_status(run->p, run->ni, (ptl_sr_index_t)i, &status);
        CHECK_EQ(status, run->slow.status[i]);
    }
    const char *what = portals_check(run->p);
    if (what)
        TEST_FAIL("%s", what);
}

/* ---- Runs ---- */

static void set_up(struct run *run, uint64_t seed) {
    memset(run, 0, sizeof *run);
    run->r = rng_seeded(seed);
    struct slow_portals *s = &run->slow;
    s->matching = !one_in(run, 4);
    s->flow_control = one_in(run, 2);
    s->enabled = true;
    s->most_entries = 1 + (int)below(run, 60);
    s->most_list = 1 + (int)below(run, 30);
    s->most_headers = (int)below(run, 12);
    run->masks = one_in(run, 3) ? 16 : 2;
    int events = one_in(run, 2) ? 300 : 1 + (int)below(run, 12);
    s->capacity = events + s->flow_control;
    struct portals_config config;
    struct spin_error err;
    portals_config_default(&config, 4096);
    config.address = (struct nic_address){99, 1};
    struct portals_owner owner = {.context = run, .send = take_answer, .raised = nothing};
    CHECK_EQ(portals_new(&run->p, &config, &owner, &err), SPIN_OK);
    ptl_ni_limits_t limits;
    portals_limits_default(&limits, NULL, NULL);
    limits.max_entries = s->most_entries;
    limits.max_list_size = s->most_list;
    limits.max_unexpected_headers = s->most_headers;
    portals_init(run->p);
    unsigned options = (s->matching ? PTL_NI_MATCHING : PTL_NI_NO_MATCHING) | PTL_NI_LOGICAL;
    CHECK_EQ(portals_ni_init(run->p, 0, options, PTL_PID_ANY, NULL, &limits, NULL, &run->ni),
             PTL_OK);
    CHECK_EQ(portals_eq_alloc(run->p, run->ni, (ptl_size_t)events, &run->eq), PTL_OK);
    CHECK_EQ(portals_ct_alloc(run->p, run->ni, &run->ct), PTL_OK);
    CHECK_EQ(portals_pt_alloc(run->p, run->ni, s->flow_control ? PTL_PT_FLOWCTRL : 0, run->eq,
                              PTL_PT_ANY, &run->pt),
             PTL_OK);
}

static void step(struct run *run) {
    switch (below(run, 12)) {
    case 0:
    case 1:
    case 2:
        append(run);
        break;
    case 3:
        unlink_one(run);
        break;
    case 4:
        search(run);
        break;
    case 5:
        finish_any(run);
        break;
    case 6:
        if (one_in(run, 3) || !run->slow.enabled)
            disable_or_enable(run);
        break;
    case 7:
        take_events(run, below(run, 20));
        break;
    default:
        send_one(run);
    }
}

static void sequence(struct run *run, uint64_t seed, int steps) {
    set_up(run, seed);
    for (int i = 0; i < steps; i++) {
        snprintf(test_context, sizeof test_context, "seed %llu, step %d", (unsigned long long)seed,
                 i);
        step(run);
        compare(run);
    }
    for (uint32_t i = 0; i < FLIGHTS; i++)
        if (run->flight[i].used)
            finish(run, i);
    compare(run);
    take_events(run, UINT32_MAX);
    CHECK(memcmp(run->memory, run->slow.memory, sizeof run->memory) == 0);
    portals_free(run->p);
}

static uint64_t seeds(void) {
    const char *text = getenv("OPENSPIN_SEEDS");
    return text ? strtoull(text, NULL, 10) : 3000;
}

TEST(random_sequences_agree_with_a_slow_implementation) {
    static struct run run;
    uint64_t messages = 0;
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        sequence(&run, seed, 150);
        messages += run.messages;
    }
    printf("# seeds 1 to %llu: %llu messages\n", (unsigned long long)seeds(),
           (unsigned long long)messages);
}

/* Long lists, where the groups and the index matter. */
TEST(long_sequences_agree_too) {
    static struct run run;
    for (uint64_t seed = 1000001; seed <= 1000000 + seeds() / 300; seed++)
        sequence(&run, seed, 4000);
}

TEST_MAIN
