/* Random runs against a plain model: puts, gets, atomics, fetching atomics, swaps, triggered
 * operations and handlers with their commands, through any network. The model is arrays and loops;
 * every byte of every buffer, every event and every counter is compared with it. Operations on a
 * region of their own have one outcome. Where several share an item, the order is free: then what
 * they saw must be that of some order. */
#include "lib/nichost.h"
#include "lib/plain_atomic.h"

#define RANKS   3
#define OPS     96
#define ROOM    448 /* the most that an operation moves */
#define REGIONS 10
#define ITEMS   3
#define GUARD   64

enum { SUCCESS = 0, PROCESS_DATA = 2, PROCEED = 4, DROP = 6, FAIL = 8 }; /* of spin/handler.h */
enum { ENTRY = 5, HANDLED = 6, FORWARDED = 7 };                          /* match bits */

/* An entry's memory, between guards that nothing may write. */
struct area {
    uint8_t guard[GUARD];
    uint8_t region[REGIONS][ROOM];  /* of one operation at a time */
    uint64_t sum[ITEMS];            /* to which all add */
    uint64_t fetched[ITEMS];        /* to which all add, and learn what was there */
    uint64_t swapped[ITEMS];        /* which all exchange */
    uint64_t ordered[RANKS];        /* in which the last put of each rank stays */
    uint8_t landing[REGIONS][ROOM]; /* of messages with handlers: stored by the card, */
    uint8_t handled[REGIONS][ROOM]; /* or by payload handlers; */
    uint64_t completions;           /* counted by completion handlers, */
    uint64_t forwarded[OPS];        /* which put a value to another rank */
    uint8_t cut[40];                /* the end of the first entry: what does not fit is cut */
    uint8_t end_guard[GUARD];
};
#define ENTRY_BYTES (offsetof(struct area, cut) + 40 - GUARD)

enum what { PUT, GET, ATOMIC, FETCH, SWAP, ADD, FETCH_ADD, EXCHANGE, ORDERED, CUT, WITH_HANDLERS };

struct op {
    enum what what;
    uint32_t number, from, to, place;
    uint64_t offset, bytes, accepted; /* in the entry */
    const struct plain_type *type;
    struct portals_request request;
    uint64_t threshold; /* of a triggered one */
    bool fired, over, failed;
    uint32_t due, seen; /* events: bits of enum told */
    int32_t header_code;
    bool drops, forwards;
    uint32_t forward_to;
    bool forward_seen;
    uint64_t order; /* in which it was started */
};
enum told { TARGET = 1, SENT = 2, ACK = 4, REPLY = 8 };

static struct nicworld world;
static struct area memory[RANKS], model[RANKS];
static uint8_t source[RANKS][OPS][ROOM], got[RANKS][OPS][ROOM];
static struct op ops[OPS];
static uint32_t op_count;
static ptl_handle_md_t source_md[RANKS], got_md[RANKS];
static ptl_handle_ct_t md_ct[RANKS], entry_ct[RANKS], handled_ct[RANKS], trigger_ct[RANKS];
static uint64_t triggered[RANKS];
static bool region_busy[RANKS][REGIONS], landing_busy[RANKS][REGIONS];
static bool exact; /* nothing but OK may come: host memory has no faults */

static uint32_t below(uint32_t bound) {
    return rng_below(&world.rng, bound);
}

static uint64_t entry_offset(const void *at_model, uint32_t rank) {
    return (uint64_t)((const uint8_t *)at_model - model[rank].region[0]);
}

/* ---- handlers, which do what their operation says ---- */

static struct op *op_of(const struct nic_task *task) {
    CHECK(task->message->hdr_data >= 1 && task->message->hdr_data <= op_count);
    return &ops[task->message->hdr_data - 1];
}

static int32_t header(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w, (void)n;
    return op_of(task)->header_code;
}

static bool drops(const struct op *o, uint64_t offset) {
    return o->drops && offset / world.config.mtu_bytes % 2;
}

/* To its place in the handlers' memory, or away. */
static int32_t payload(struct nicworld *w, struct node *n, const struct nic_task *task) {
    const struct op *o = op_of(task);
    uint64_t at = task->offset;
    (void)n;
    CHECK(at + task->bytes <= o->bytes);
    CHECK(memcmp(task->data, source[o->from][o->number] + at, task->bytes) == 0);
    if (drops(o, at))
        return DROP;
    uint64_t to = (uint64_t)(model[0].handled[o->place] - model[0].handled[0]) + at;
    uint32_t result, word[SPIN_WORDS] = {PACKET_AT, (uint32_t)to, task->bytes, 1};
    enum nic_command_result r = world_command(w, task, SPIN_COMMAND_DMA_TO_HOST, word, &result);
    CHECK(r == NIC_COMMAND_DONE || r == NIC_COMMAND_WAIT);
    return r == NIC_COMMAND_WAIT ? BLOCKED : SUCCESS;
}

static uint64_t forward_value(const struct op *o) {
    return 0x0123456789abcdefull * (o->number + 1);
}

/* Counts in host memory, and puts a value to another rank. What was done is remembered: after a
 * wait the handler is called again. */
static uint8_t completion_at[OPS];
static int32_t completion(struct nicworld *w, struct node *n, const struct nic_task *task) {
    const struct op *o = op_of(task);
    uint32_t result;
    if (completion_at[o->number] == 0) {
        uint32_t at =
            (uint32_t)(offsetof(struct area, completions) - offsetof(struct area, handled));
        uint32_t word[SPIN_WORDS] = {at, 1, 0, STATE_AT, 8, PTL_UINT64_T, 1};
        enum nic_command_result r =
            world_command(w, task, SPIN_COMMAND_DMA_FETCH_ADD, word, &result);
        CHECK(r == NIC_COMMAND_DONE || r == NIC_COMMAND_WAIT);
        if (r == NIC_COMMAND_WAIT)
            return BLOCKED;
        completion_at[o->number] = 1;
    }
    if (o->forwards && completion_at[o->number] == 1) {
        uint64_t at = offsetof(struct area, forwarded) - GUARD + 8 * o->number;
        n->stack[0] = forward_value(o);
        uint32_t word[SPIN_WORDS] = {
            STACK_AT, 8, 0, 0, o->forward_to, FORWARDED, 0, (uint32_t)at, 0, o->number + 1, 1};
        enum nic_command_result r =
            world_command(w, task, SPIN_COMMAND_PUT_FROM_DEVICE, word, &result);
        if (r != NIC_COMMAND_DONE && r != NIC_COMMAND_WAIT)
            TEST_FAIL("a handler's put is refused: %s", w->refusal.why);
        if (r == NIC_COMMAND_WAIT)
            return BLOCKED;
        completion_at[o->number] = 2;
    }
    return SUCCESS;
}

/* ---- what an operation does, in the model ---- */

static uint8_t *place_in(struct area *a, const struct op *o) {
    switch (o->what) {
    case ADD:
        return (uint8_t *)&a->sum[o->place];
    case FETCH_ADD:
        return (uint8_t *)&a->fetched[o->place];
    case EXCHANGE:
        return (uint8_t *)&a->swapped[o->place];
    case ORDERED:
        return (uint8_t *)&a->ordered[o->from];
    case CUT:
        return a->cut + o->place;
    case WITH_HANDLERS:
        return a->landing[o->place];
    default:
        return a->region[o->place];
    }
}

static void model_handled(const struct op *o) {
    struct area *a = &model[o->to];
    const uint8_t *data = source[o->from][o->number];
    if (o->header_code == PROCEED)
        memcpy(a->landing[o->place], data, o->bytes);
    for (uint64_t at = 0; o->header_code == PROCESS_DATA && at < o->bytes; at++)
        if (!drops(o, at))
            a->handled[o->place][at] = data[at];
    a->completions++;
    if (o->forwards)
        model[o->forward_to].forwarded[o->number] = forward_value(o);
}

/* Of those that have a place of their own: what must be there now, and what a fetch has brought. */
static void model_alone(const struct op *o) {
    uint8_t *at = place_in(&model[o->to], o);
    const uint8_t *is = place_in(&memory[o->to], o), *data = source[o->from][o->number];
    if (o->failed) { /* some of it may have been written, and nothing else */
        for (uint64_t i = 0; i < o->accepted; i++)
            if (is[i] != at[i] && is[i] != data[i])
                TEST_FAIL("byte %u of a failed operation is neither old nor new", (uint32_t)i);
        memcpy(at, is, o->accepted);
        return;
    }
    if (o->what == GET || o->what == FETCH || o->what == SWAP)
        for (uint64_t i = 0; i < o->accepted; i++)
            if (got[o->from][o->number][i] != at[i])
                TEST_FAIL("byte %u that operation %u has fetched", (uint32_t)i, o->number);
    if (o->what == PUT || o->what == CUT)
        memcpy(at, data, o->accepted);
    else if (o->what != GET)
        plain_atomic(o->type, o->request.operation, at, data, o->request.operand, o->accepted);
    for (uint64_t i = 0; i < o->accepted; i++)
        if (is[i] != at[i])
            TEST_FAIL("byte %u of operation %u of kind %d is %02x, expected %02x", (uint32_t)i,
                      o->number, o->what, is[i], at[i]);
}

/* ---- the program ---- */

static bool take_place(struct op *o) {
    bool *busy = o->what == WITH_HANDLERS ? landing_busy[o->to] : region_busy[o->to];
    o->place = below(REGIONS);
    if (busy[o->place])
        return false;
    busy[o->place] = true;
    return true;
}

static void choose_atomic(struct op *o, struct portals_request *r) {
    static const uint8_t kinds[] = {
        [ATOMIC] = PORTALS_ATOMIC, [FETCH] = PORTALS_FETCH_ATOMIC, [SWAP] = PORTALS_SWAP};
    o->type = &plain_types[below(8)];
    r->kind = kinds[o->what];
    r->operation = (ptl_op_t)(o->what == SWAP ? PTL_SWAP + below(8) : PTL_MIN + below(10));
    r->datatype = o->type->number;
    o->bytes = o->type->bytes * (1 + below(48));
    if (o->what == SWAP && r->operation != PTL_SWAP)
        o->bytes = o->type->bytes; /* conditional and masked swaps are of one item */
    for (uint32_t i = 0; i < 8; i++)
        r->operand[i] = (uint8_t)below(256);
    if (below(2)) /* so that comparisons are also equal */
        memcpy(r->operand, place_in(&model[o->to], o), o->type->bytes);
}

static void choose_shared(struct op *o, struct portals_request *r) {
    o->place = below(ITEMS);
    o->bytes = 8;
    r->kind = o->what == ADD        ? PORTALS_ATOMIC
              : o->what == EXCHANGE ? PORTALS_SWAP
                                    : PORTALS_FETCH_ATOMIC;
    r->operation = o->what == EXCHANGE ? PTL_SWAP : PTL_SUM;
    r->datatype = PTL_UINT64_T;
}

/* What it asks for; false: there is no place for it now. */
static bool choose(struct op *o) {
    struct portals_request *r = &o->request;
    o->what = exact ? (enum what)below(WITH_HANDLERS + 1) : (enum what)below(GET + 1);
    bool shared = o->what >= ADD && o->what <= EXCHANGE;
    if (shared) {
        choose_shared(o, r);
    } else if (o->what == ORDERED) {
        o->bytes = 8;
    } else if (o->what == CUT) {
        o->place = below(40);
        o->bytes = 40 - o->place + below(200);
        for (uint32_t i = 0; i < op_count; i++)
            if (ops[i].what == CUT && ops[i].to == o->to && !ops[i].over)
                return false;
    } else {
        o->bytes = below(3) ? below(ROOM) : below(9);
        if (!take_place(o))
            return false;
        if (o->what >= ATOMIC && o->what <= SWAP)
            choose_atomic(o, r);
    }
    o->accepted = o->what == CUT ? 40 - o->place : o->bytes;
    if (o->what == GET)
        r->kind = PORTALS_GET;
    return true;
}

static void choose_handlers(struct op *o) {
    static const int32_t codes[] = {PROCESS_DATA, PROCESS_DATA, PROCEED, DROP, FAIL};
    o->header_code = codes[below(5)];
    o->drops = below(2);
    o->forwards = below(2);
    o->forward_to = below(RANKS);
    if (o->header_code == DROP || o->header_code == FAIL)
        o->accepted = 0;
    for (uint64_t at = 0; o->header_code == PROCESS_DATA && at < o->bytes; at++)
        o->accepted -= drops(o, at);
    o->failed = o->header_code == FAIL;
}

static void start(void) {
    struct op *o = &ops[op_count];
    *o = (struct op){.number = op_count, .from = below(RANKS), .to = below(RANKS)};
    if (!choose(o))
        return;
    struct portals_request *r = &o->request;
    if (o->what == WITH_HANDLERS)
        choose_handlers(o);
    for (uint32_t i = 0; i < ROOM; i++)
        source[o->from][o->number][i] = (uint8_t)below(256);
    if (o->what == EXCHANGE)
        memcpy(source[o->from][o->number], &(uint64_t){o->number + 1000}, 8);
    o->offset = entry_offset(place_in(&model[o->to], o), o->to);
    r->md = source_md[o->from];
    r->get_md = got_md[o->from];
    r->local_offset = r->get_offset = (uint64_t)o->number * ROOM;
    r->length = o->bytes;
    r->target.rank = o->to;
    r->match_bits = o->what == WITH_HANDLERS ? HANDLED : ENTRY;
    r->remote_offset = o->offset;
    r->user_ptr = o;
    r->hdr_data = o->number + 1;
    bool fetches = r->kind == PORTALS_GET || r->kind >= PORTALS_FETCH_ATOMIC;
    r->ack_req = fetches ? PTL_NO_ACK_REQ : (ptl_ack_req_t)below(3);
    o->due = TARGET | (fetches ? REPLY : 0) | (r->kind == PORTALS_GET ? 0 : SENT) |
             (r->ack_req == PTL_ACK_REQ ? ACK : 0);
    o->fired = below(4) != 0;
    o->order = o->number;
    op_count++;
    struct portals *p = world.node[o->from].portals;
    if (o->what == ORDERED) /* a triggered one would be ordered by its trigger */
        o->fired = true;
    if (o->fired) {
        CHECK_EQ(portals_start(p, r), PTL_OK);
        return;
    }
    o->threshold = triggered[o->from] + 1 + below(3);
    CHECK_EQ(portals_trigger(p, r, trigger_ct[o->from], o->threshold), PTL_OK);
}

static void pull_trigger(uint32_t rank) {
    triggered[rank]++;
    for (uint32_t i = 0; i < op_count; i++)
        ops[i].fired |= ops[i].from == rank && ops[i].threshold == triggered[rank];
    CHECK_EQ(portals_ct_inc(world.node[rank].portals, trigger_ct[rank], (ptl_ct_event_t){1, 0}),
             PTL_OK);
}

/* ---- what comes back ---- */

static void told(struct op *o, enum told what, const ptl_event_t *e) {
    if (!o->fired)
        TEST_FAIL("operation %u has happened before its trigger", o->number);
    if (!(o->due & what) || o->seen & what)
        TEST_FAIL("event of type %u of operation %u: not due, or again", e->type, o->number);
    o->seen |= what;
    int due = o->what == WITH_HANDLERS && o->failed ? PTL_NI_HANDLER_FAIL : PTL_NI_OK;
    if (what == SENT)
        due = PTL_NI_OK;
    if (!exact && e->ni_fail_type == PTL_NI_SEGV)
        o->failed = true;
    else
        CHECK_EQ(e->ni_fail_type, due);
    if (what != SENT && e->ni_fail_type == PTL_NI_OK) {
        CHECK_EQ(e->mlength, o->accepted);
        CHECK_EQ(e->remote_offset, o->offset);
        CHECK_EQ(e->ptl_list, PTL_PRIORITY_LIST);
    }
}

static void look_whether_over(struct op *o) {
    if (o->over || o->seen != o->due)
        return;
    o->over = true;
    if (o->what <= SWAP || o->what == CUT)
        model_alone(o);
    if (o->what <= SWAP)
        region_busy[o->to][o->place] = false;
    if (o->what == WITH_HANDLERS) {
        model_handled(o);
        landing_busy[o->to][o->place] = false;
    }
}

static void at_target(uint32_t rank, const ptl_event_t *e) {
    static const ptl_event_kind_t types[] = {PTL_EVENT_PUT, PTL_EVENT_GET, PTL_EVENT_ATOMIC,
                                             PTL_EVENT_FETCH_ATOMIC, PTL_EVENT_FETCH_ATOMIC};
    struct op *o = NULL;
    for (uint32_t i = 0; e->type == PTL_EVENT_GET && i < op_count; i++)
        if (ops[i].what == GET && ops[i].to == rank && ops[i].from == e->initiator.rank &&
            ops[i].offset == e->remote_offset && !ops[i].over && ops[i].fired)
            o = &ops[i];
    if (e->type != PTL_EVENT_GET && e->hdr_data & 1ull << 32) { /* of a handler */
        o = &ops[(uint32_t)e->hdr_data - 1];
        CHECK(o->forwards && !o->forward_seen && o->forward_to == rank);
        CHECK_EQ(e->match_bits, FORWARDED);
        CHECK_EQ(e->mlength, 8);
        CHECK_EQ(e->initiator.rank, o->to);
        o->forward_seen = true;
        return;
    }
    if (e->type != PTL_EVENT_GET && e->hdr_data - 1 < op_count)
        o = &ops[e->hdr_data - 1];
    if (!o)
        TEST_FAIL("an event of type %u at rank %u that belongs to nothing", e->type, rank);
    CHECK_EQ(e->type, types[o->request.kind]);
    CHECK_EQ(o->to, rank);
    CHECK_EQ(e->initiator.rank, o->from);
    CHECK_EQ(e->match_bits, o->request.match_bits);
    CHECK_EQ(e->rlength, o->bytes);
    CHECK_EQ(e->pt_index, 0);
    CHECK(e->user_ptr == &memory[rank]);
    if (e->ni_fail_type == PTL_NI_OK && o->accepted && o->what != WITH_HANDLERS)
        CHECK(e->start == (uint8_t *)memory[rank].region + o->offset);
    if (o->request.kind >= PORTALS_ATOMIC) {
        CHECK_EQ(e->atomic_operation, o->request.operation);
        CHECK_EQ(e->atomic_type, o->request.datatype);
    }
    told(o, TARGET, e);
    look_whether_over(o);
}

static void take_events(void) {
    ptl_event_t e;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        while (world_event(&world.node[rank], &e)) {
            struct op *o = e.user_ptr;
            if (e.type != PTL_EVENT_SEND && e.type != PTL_EVENT_ACK && e.type != PTL_EVENT_REPLY) {
                at_target(rank, &e);
                continue;
            }
            CHECK(o >= ops && o < ops + op_count);
            CHECK_EQ(o->from, rank);
            told(o, e.type == PTL_EVENT_SEND ? SENT : e.type == PTL_EVENT_ACK ? ACK : REPLY, &e);
            look_whether_over(o);
        }
}

/* ---- what must hold at the end ---- */

/* Those that shared an item to which all add, and learned what was there: in the order of what they
 * saw, each saw the sum of those before it. */
static void check_fetched(uint32_t rank, uint32_t item) {
    uint64_t value = 0, seen, added;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < op_count; i++) {
            const struct op *o = &ops[i];
            if (o->what != FETCH_ADD || o->to != rank || o->place != item)
                continue;
            memcpy(&seen, got[o->from][i], 8);
            memcpy(&added, source[o->from][i], 8);
            if (seen == value && added) {
                value += added;
                more = true;
                ops[i].what = ADD; /* not again */
                ops[i].place = ITEMS;
                break;
            }
        }
    }
    for (uint32_t i = 0; i < op_count; i++)
        if (ops[i].what == FETCH_ADD && ops[i].to == rank && ops[i].place == item)
            TEST_FAIL("operation %u saw a sum that no order gives", i);
    model[rank].fetched[item] = value;
}

/* The same for exchanges: what one wrote, the next one saw. */
static void check_swapped(uint32_t rank, uint32_t item) {
    uint64_t value = 0, seen;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < op_count; i++) {
            struct op *o = &ops[i];
            if (o->what != EXCHANGE || o->to != rank || o->place != item)
                continue;
            memcpy(&seen, got[o->from][i], 8);
            if (seen == value) {
                value = i + 1000;
                o->what = ADD;
                o->place = ITEMS;
                more = true;
                break;
            }
        }
    }
    for (uint32_t i = 0; i < op_count; i++)
        if (ops[i].what == EXCHANGE && ops[i].to == rank && ops[i].place == item)
            TEST_FAIL("operation %u saw a value that no order gives", i);
    model[rank].swapped[item] = value;
}

static void check_counters(void) {
    uint64_t md[RANKS] = {0}, md_failed[RANKS] = {0}, entry[RANKS] = {0};
    uint64_t handled[RANKS] = {0}, handled_failed[RANKS] = {0};
    for (uint32_t i = 0; i < op_count; i++) {
        const struct op *o = &ops[i];
        bool fails = o->what == WITH_HANDLERS && o->failed;
        md[o->from] += (o->due & SENT) / SENT + (o->due & REPLY) / REPLY;
        if (o->due & SENT && o->request.ack_req != PTL_NO_ACK_REQ) {
            md[o->from] += !fails;
            md_failed[o->from] += fails;
        }
        if (o->what == WITH_HANDLERS) {
            handled[o->to] += !fails;
            handled_failed[o->to] += fails;
        } else {
            entry[o->to]++;
        }
        if (o->forwards)
            CHECK(o->forward_seen);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        struct portals *p = world.node[i].portals;
        ptl_ct_event_t count;
        CHECK_EQ(portals_ct_get(p, md_ct[i], &count), PTL_OK);
        CHECK_EQ(count.success, md[i]);
        CHECK_EQ(count.failure, md_failed[i]);
        CHECK_EQ(portals_ct_get(p, entry_ct[i], &count), PTL_OK);
        CHECK_EQ(count.success, entry[i]);
        CHECK_EQ(count.failure, 0);
        CHECK_EQ(portals_ct_get(p, handled_ct[i], &count), PTL_OK);
        CHECK_EQ(count.success, handled[i]);
        CHECK_EQ(count.failure, handled_failed[i]);
        CHECK_EQ(portals_ct_get(p, trigger_ct[i], &count), PTL_OK);
        CHECK_EQ(count.success, triggered[i]);
    }
}

static void check_memory(void) {
    for (uint32_t i = 0; i < op_count; i++) {
        const struct op *o = &ops[i];
        uint64_t added;
        memcpy(&added, source[o->from][i], 8);
        if (o->what == ADD && o->place < ITEMS)
            model[o->to].sum[o->place] += added;
        if (o->what == ORDERED) /* in the order in which they were started */
            memcpy(&model[o->to].ordered[o->from], &added, 8);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t item = 0; item < ITEMS; item++) {
            check_fetched(rank, item);
            check_swapped(rank, item);
        }
        for (size_t i = 0; i < sizeof memory[rank]; i++)
            if (((uint8_t *)&memory[rank])[i] != ((uint8_t *)&model[rank])[i])
                TEST_FAIL("rank %u, byte %zu of its memory is %02x, expected %02x", rank, i,
                          ((uint8_t *)&memory[rank])[i], ((uint8_t *)&model[rank])[i]);
    }
}

/* ---- a run ---- */

static void open_rank(uint32_t i) {
    struct node *n = &world.node[i];
    ptl_handle_ct_t *counters[] = {&md_ct[i], &entry_ct[i], &handled_ct[i], &trigger_ct[i]};
    for (uint32_t k = 0; k < 4; k++)
        CHECK_EQ(portals_ct_alloc(n->portals, n->ni, counters[k]), PTL_OK);
    ptl_md_t md = {.start = source[i],
                   .length = sizeof source[i],
                   .eq_handle = n->eq,
                   .ct_handle = md_ct[i],
                   .options = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY};
    CHECK_EQ(portals_md_bind(n->portals, n->ni, &md, &source_md[i]), PTL_OK);
    md.start = got[i];
    CHECK_EQ(portals_md_bind(n->portals, n->ni, &md, &got_md[i]), PTL_OK);
    n->handler[0] = header;
    n->handler[1] = payload;
    n->handler[2] = completion;
    for (uint32_t bits = ENTRY; bits <= FORWARDED; bits++) {
        ptl_me_t me = host_entry(memory[i].region, ENTRY_BYTES, bits,
                                 PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE |
                                     PTL_ME_EVENT_CT_COMM);
        ptl_handle_me_t handle;
        me.ct_handle = bits == ENTRY ? entry_ct[i] : bits == HANDLED ? handled_ct[i] : PTL_CT_NONE;
        if (bits == FORWARDED)
            me.options &= ~(unsigned)PTL_ME_EVENT_CT_COMM;
        if (bits == HANDLED) {
            me = host_handlers(n, me, 7);
            me.handler_host_mem_start = memory[i].handled;
            me.handler_host_mem_length = sizeof memory[i].handled + 8;
        }
        CHECK_EQ(
            portals_me_append(n->portals, n->ni, 0, &me, PTL_PRIORITY_LIST, &memory[i], &handle),
            PTL_OK);
    }
}

static uint64_t all_ops, all_triggered, all_handled, all_runs;

static void run_seed(uint32_t seed, bool good_network) {
    snprintf(test_context, sizeof test_context, "seed %u, %s network", seed,
             good_network ? "good" : "bad");
    exact = seed % 5 != 0;
    world = (struct nicworld){.loss = good_network ? 0 : 60,
                              .doubling = good_network ? 0 : 60,
                              .corruption = good_network ? 0 : 30,
                              .spread = good_network ? 0 : 500,
                              .memory_spread = 150,
                              .handler_spread = 100,
                              .at_once = seed / 2 % 2,
                              .run_bytes = seed % 4 ? 300 * (seed % 4) : 0,
                              .faults = exact ? 0 : 15,
                              .retold = seed % 3 ? 0 : 200,
                              .config = {.mtu_bytes = 64 << seed % 3,
                                         .reliable = good_network,
                                         .ordered = good_network,
                                         .window_packets = 1 + seed % 40,
                                         .receipt_time = seed % 3 == 1 ? 300 : 0,
                                         .least_retry_time = seed % 6 == 1 ? 1000 : 0,
                                         .credit_packets = seed % 9 == 4 ? 2 + seed % 50 : 0,
                                         .handler_packets = seed % 5 ? 0 : 2,
                                         .turn_packets = seed % 4,
                                         .send_packets = 1 + seed % 17}};
    memset(memory, 0, sizeof memory);
    memset(region_busy, 0, sizeof region_busy);
    memset(landing_busy, 0, sizeof landing_busy);
    memset(triggered, 0, sizeof triggered);
    memset(completion_at, 0, sizeof completion_at);
    op_count = 0;
    world_begin(&world, RANKS, seed);
    world_ranks(&world, 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        for (uint32_t k = 0; k < GUARD; k++)
            memory[i].guard[k] = memory[i].end_guard[k] = (uint8_t)below(256);
        for (uint32_t k = 0; k < REGIONS * ROOM; k++)
            memory[i].region[k / ROOM][k % ROOM] = (uint8_t)below(256);
        open_rank(i);
    }
    memcpy(model, memory, sizeof model);
    while (op_count < OPS) {
        if (below(3) == 0)
            start();
        if (below(12) == 0)
            pull_trigger(below(RANKS));
        world_actions(&world, &world.node[below(RANKS)]);
        for (uint32_t i = below(4); i; i--)
            world_step(&world);
        take_events();
    }
    for (uint32_t i = 0; i < 3 * RANKS; i++)
        pull_trigger(i % RANKS);
    world_settle(&world);
    take_events();
    for (uint32_t i = 0; i < op_count; i++) {
        if (!ops[i].over)
            TEST_FAIL("operation %u of kind %d: events %x, expected %x", i, ops[i].what,
                      ops[i].seen, ops[i].due);
        all_ops++;
        all_triggered += ops[i].threshold != 0;
        all_handled += ops[i].what == WITH_HANDLERS;
    }
    all_runs += world.runs;
    if (exact)
        check_counters();
    check_memory();
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(portals_check(world.node[i].portals) == NULL);
    CHECK_EQ(nic_pool_used(world.pool), 0);
    world_end(&world);
}

static void run_seeds(bool good_network) {
    const char *text = getenv("OPENSPIN_SEEDS");
    uint32_t count = text ? (uint32_t)strtoul(text, NULL, 0) : 150;
    all_ops = all_triggered = all_handled = all_runs = 0;
    for (uint32_t seed = 0; seed < count; seed++)
        run_seed(seed, good_network);
    test_context[0] = 0;
    CHECK_EQ(all_ops, (uint64_t)count * OPS);
    CHECK(all_triggered > count && all_handled > count);
    CHECK(good_network ? all_runs == 0 : all_runs > count);
}

TEST(every_byte_on_a_good_network) {
    run_seeds(true);
}

TEST(every_byte_on_a_bad_network) {
    run_seeds(false);
}

TEST_MAIN
