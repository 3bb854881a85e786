/* libFuzzer target: a program of Portals calls and of what the card tells, byte by byte. Arguments,
 * handles and headers are whatever the bytes say; the lists must stay sound, and no byte outside of
 * the entries' memory may be named. */
#include "fuzz.h"
#include "nic/portals.h"

#define HANDLES 64
#define MEMORY  512

struct program {
    const uint8_t *at, *end;
    struct portals *p;
    uint32_t handle[HANDLES]; /* of everything, and stale ones */
    uint32_t handles;
    struct {
        bool used;
        struct portals_arrival arrival;
        struct nic_message message; /* of it */
    } flight[8];
    uint64_t initiator[8];
    uint32_t initiators;
    uint8_t memory[MEMORY];
};

static uint64_t take(struct program *f, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes && f->at < f->end; i++)
        value |= (uint64_t)*f->at++ << (8 * i);
    return value;
}

/* Mostly one that was given out. */
static uint32_t a_handle(struct program *f) {
    uint32_t which = (uint32_t)take(f, 1);
    if (which < 250)
        return f->handle[which % HANDLES];
    return which == 250 ? PTL_CT_NONE : which == 251 ? PTL_EQ_NONE : (uint32_t)take(f, 4);
}

static void keep(struct program *f, int code, uint32_t handle) {
    if (code == PTL_OK)
        f->handle[f->handles++ % HANDLES] = handle;
}

/* Requests are answered later, or leave at once where nobody waits for an answer. */
static enum portals_sending sent(void *context, struct portals_outgoing *out) {
    struct program *f = context;
    const struct nic_message *m = out->message;
    uint64_t number;
    if (m->kind >= NIC_ACK || (m->kind == NIC_PUT && !m->ack_req && m->match_bits & 1))
        return PORTALS_LEFT;
    FUZZ_CHECK(portals_outgoing_keep(f->p, out, &number));
    f->initiator[f->initiators++ % 8] = number;
    return PORTALS_KEPT;
}

static void nothing(void *context) {
    (void)context;
}

static ptl_me_t an_entry(struct program *f) {
    uint64_t start = take(f, 1) * 2 % MEMORY;
    ptl_me_t me = {.start = f->memory + start,
                   .length = take(f, 1) % (MEMORY - start),
                   .ct_handle = a_handle(f),
                   .uid = PTL_UID_ANY,
                   .options = (unsigned)take(f, 3) & ~(unsigned)PTL_IOVEC,
                   .match_bits = take(f, 1),
                   .ignore_bits = take(f, 1),
                   .min_free = take(f, 1)};
    me.match_id.rank = PTL_RANK_ANY;
    return me;
}

static void inside(const struct program *f, const struct nic_segment *s, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        FUZZ_CHECK(s[i].host >= f->memory && s[i].bytes <= MEMORY &&
                   s[i].host + s[i].bytes <= f->memory + MEMORY);
}

/* What is sent may be a copy of volatile data: it must be there to be read. */
static void readable(const struct nic_segment *s, uint32_t count) {
    static uint8_t data[MEMORY];
    for (uint32_t i = 0; i < count; i++) {
        FUZZ_CHECK(s[i].bytes <= MEMORY);
        memcpy(data, s[i].host, s[i].bytes);
    }
}

static void message(struct program *f) {
    struct nic_message m = {.kind = (uint8_t)take(f, 1),
                            .interface = (uint8_t)take(f, 1),
                            .ack_req = (uint8_t)take(f, 1),
                            .operation = (uint8_t)take(f, 1),
                            .datatype = (uint8_t)take(f, 1),
                            .pt_index = (uint32_t)take(f, 1),
                            .match_bits = take(f, 1),
                            .remote_offset = take(f, 2),
                            .length = take(f, 2)};
    uint32_t slot = (uint32_t)take(f, 1) % 8;
    struct nic_segment s[2];
    uint8_t data[1024] = {0}, before[1024];
    struct portals_arrival *d = &f->flight[slot].arrival, first;
    if (f->flight[slot].used)
        return;
    portals_header(f->p, &m, &first, NULL);
    f->flight[slot].used = true;
    f->flight[slot].message = m;
    portals_arrival_keep(d, &first, &f->flight[slot].message);
    FUZZ_CHECK(d->mlength <= m.length);
    inside(f, s, portals_arrival_segments(d, take(f, 1), take(f, 2), s, 2));
    portals_apply(d, 0, data, m.length < 1024 ? m.length : 1024, before);
    portals_reply(f->p, d, NULL);
}

static void ending(struct program *f) {
    uint32_t slot = (uint32_t)take(f, 1) % 8;
    struct portals_arrival *d = &f->flight[slot].arrival;
    struct portals_ending how = {(uint8_t)take(f, 1) % 9, take(f, 1) & 1, take(f, 1)};
    if (!f->flight[slot].used)
        return;
    if (how.fail == 8)
        how.fail = portals_exhausted(d);
    portals_done(f->p, d, how);
    f->flight[slot].used = false;
}

static void request(struct program *f) {
    struct portals_request r = {.kind = (uint8_t)take(f, 1) % 9,
                                .ack_req = (uint8_t)take(f, 1),
                                .operation = (uint8_t)take(f, 1),
                                .datatype = (uint8_t)take(f, 1),
                                .md = a_handle(f),
                                .get_md = a_handle(f),
                                .length = take(f, 1),
                                .local_offset = take(f, 1),
                                .ct = a_handle(f),
                                .ct_value = {take(f, 1), take(f, 1) & 1},
                                .me = a_handle(f)};
    r.target.phys.pid = 0;
    r.target.rank = 0;
    if (r.kind == PORTALS_ME_APPEND) {
        ptl_me_t me = an_entry(f);
        uint32_t handle = 0;
        int code = portals_trigger_me_append(f->p, a_handle(f), (uint32_t)take(f, 1), &me,
                                             take(f, 1) & 1, NULL, &handle, r.ct, take(f, 1));
        keep(f, code, handle);
    } else if (take(f, 1) & 1 || r.kind >= PORTALS_CT_INC) {
        portals_trigger(f->p, &r, a_handle(f), take(f, 1));
    } else {
        portals_start(f->p, &r);
    }
}

static void answer(struct program *f) {
    uint64_t initiator = f->initiator[take(f, 1) % 8];
    struct nic_segment s[2];
    readable(s, portals_source_segments(f->p, initiator, take(f, 1), take(f, 1), s, 2));
    inside(f, s, portals_reply_segments(f->p, initiator, take(f, 1), take(f, 1), s, 2));
    struct nic_message m = {.kind = NIC_ACK + (take(f, 1) & 1),
                            .ack_req = (uint8_t)take(f, 1),
                            .fail = (uint8_t)take(f, 1),
                            .length = take(f, 2),
                            .source = {1, 2},
                            .initiator = initiator};
    switch (take(f, 1) % 3) {
    case 0:
        portals_sent(f->p, initiator, PTL_NI_OK);
        break;
    case 1:
        portals_answered(f->p, m.initiator, &m, PTL_NI_OK);
        break;
    default:
        portals_failed(f->p, initiator, PTL_NI_UNDELIVERABLE);
    }
}

static void call(struct program *f) {
    uint32_t h = 0, index;
    ptl_event_t event;
    ptl_me_t me;
    ptl_md_t md;
    switch (take(f, 1) % 16) {
    case 0:
        keep(f, portals_eq_alloc(f->p, a_handle(f), take(f, 1), &h), h);
        break;
    case 1:
        keep(f, portals_ct_alloc(f->p, a_handle(f), &h), h);
        break;
    case 2:
        md = (ptl_md_t){f->memory, MEMORY, (unsigned)take(f, 2) & ~(unsigned)PTL_IOVEC, a_handle(f),
                        a_handle(f)};
        keep(f, portals_md_bind(f->p, a_handle(f), &md, &h), h);
        break;
    case 3:
        portals_pt_alloc(f->p, a_handle(f), (unsigned)take(f, 1), a_handle(f), PTL_PT_ANY, &index);
        break;
    case 4:
        portals_pt_free(f->p, a_handle(f), (uint32_t)take(f, 1));
        break;
    case 5:
    case 6:
    case 7:
        me = an_entry(f);
        keep(f,
             portals_me_append(f->p, a_handle(f), (uint32_t)take(f, 1), &me, take(f, 1) & 1, NULL,
                               &h),
             h);
        break;
    case 8:
        portals_me_unlink(f->p, a_handle(f));
        break;
    case 9:
        me = an_entry(f);
        portals_me_search(f->p, a_handle(f), (uint32_t)take(f, 1), &me, take(f, 1) & 1, NULL);
        break;
    case 10:
        portals_eq_get(f->p, a_handle(f), &event);
        break;
    case 11:
        portals_ct_inc(f->p, a_handle(f), (ptl_ct_event_t){take(f, 1), 0});
        break;
    case 12:
        portals_ct_free(f->p, a_handle(f));
        break;
    case 13:
        portals_eq_free(f->p, a_handle(f));
        break;
    case 14:
        if (take(f, 1) & 1)
            portals_pt_enable(f->p, a_handle(f), (uint32_t)take(f, 1));
        else
            portals_pt_disable(f->p, a_handle(f), (uint32_t)take(f, 1));
        break;
    default:
        portals_md_release(f->p, a_handle(f));
    }
}

static void set_up(struct program *f) {
    struct portals_config config;
    struct portals_owner owner = {.context = f, .send = sent, .raised = nothing};
    ptl_ni_limits_t limits;
    ptl_process_t own;
    portals_config_default(&config, 4096);
    config.address = (struct nic_address){1, 2};
    own.phys.nid = 1;
    own.phys.pid = 2;
    FUZZ_CHECK(portals_new(&f->p, &config, &owner, NULL) == SPIN_OK);
    portals_init(f->p);
    portals_limits_default(&limits, NULL, NULL);
    limits.max_entries = limits.max_list_size = limits.max_unexpected_headers = 12;
    limits.max_triggered_ops = 20;
    limits.max_volatile_size = 128;
    FUZZ_CHECK(portals_ni_init(f->p, 0, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, &limits,
                               NULL, NULL, &f->handle[0]) == PTL_OK);
    FUZZ_CHECK(portals_set_map(f->p, f->handle[0], 1, &own) == PTL_OK);
    f->handles = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct program f;
    f = (struct program){.at = data, .end = data + size};
    set_up(&f);
    while (f.at < f.end) {
        switch (take(&f, 1) % 8) {
        case 0:
        case 1:
            message(&f);
            break;
        case 2:
            ending(&f);
            break;
        case 3:
            request(&f);
            break;
        case 4:
            answer(&f);
            break;
        default:
            call(&f);
        }
        const char *wrong = portals_check(f.p);
        FUZZ_HOLDS(!wrong, wrong);
    }
    portals_free(f.p);
    return 0;
}
