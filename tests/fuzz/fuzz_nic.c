/* libFuzzer target: whatever packets a stranger sends to a card, memory around what it may write is
 * untouched, and when he is silent the card comes to rest. Input: packets as wire.h has them, each
 * behind its length in two bytes. */
#include "fuzz.h"
#include "nic/wire.h"

#define MTU    256
#define MEMORY 512
#define GUARD  64

static uint8_t memory[GUARD + MEMORY + GUARD];

static bool at_once;
static struct nic_move pending[1024];
static uint32_t pendings, steps;
static struct nic *the_card;

static enum nic_status send_packet(void *context, struct nic_packet *packet,
                                   const struct nic_departed *how) {
    (void)context, (void)packet, (void)how;
    FUZZ_CHECK(steps++ < 1000000);
    return NIC_DONE;
}

static void copy(const struct nic_move *m) {
    if (m->kind == NIC_FETCH)
        memcpy(m->local, m->host, m->bytes);
    if (m->kind == NIC_STORE)
        memcpy(m->host, m->local, m->bytes);
}

static enum nic_status move(void *context, struct nic_move *m) {
    (void)context;
    if (!at_once && pendings < 1024 && nic_move_later(the_card, m, &pending[pendings])) {
        pendings++;
        return NIC_PENDING;
    }
    copy(m);
    return NIC_DONE;
}

static void run(void *context, struct nic_task *task) {
    (void)context, (void)task;
}

static void raise_nothing(void *context) {
    (void)context;
}

static const struct nic_driver driver = {
    .send = send_packet, .move = move, .run = run, .resume = run, .raise = raise_nothing};

static void drive(struct nic *nic, uint64_t now) {
    nic_progress(nic, now);
    for (uint32_t i = 0; i < pendings; i++) {
        struct nic_move m = pending[i];
        copy(&m);
        nic_moved(nic, &m, NIC_DONE, now);
        nic_progress(nic, now);
    }
    pendings = 0;
}

static struct nic *card(struct nic_pool *pool, bool reliable) {
    struct nic_config config = {.driver = &driver,
                                .gather_bytes = at_once ? MTU : 0,
                                .address = {3, 4},
                                .pool = pool,
                                .mtu_bytes = MTU,
                                .reliable = reliable,
                                .retry_time = 100,
                                .retries = 2,
                                .window_packets = 8};
    struct nic *nic = NULL;
    FUZZ_CHECK(nic_new(&nic, &config, NULL) == 0);
    the_card = nic;
    return nic;
}

/* Matching and physical; two table entries: one for all, one that takes puts of its choice only. */
static void open_memory(struct portals *p) {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_pt_index_t index;
    ptl_handle_me_t handle;
    FUZZ_CHECK(portals_init(p) == PTL_OK);
    FUZZ_CHECK(portals_ni_init(p, PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, 4, NULL,
                               NULL, NULL, &ni) == PTL_OK);
    FUZZ_CHECK(portals_eq_alloc(p, ni, 64, &eq) == PTL_OK);
    for (uint32_t i = 0; i < 2; i++) {
        FUZZ_CHECK(portals_pt_alloc(p, ni, i ? PTL_PT_FLOWCTRL : 0, eq, PTL_PT_ANY, &index) ==
                   PTL_OK);
        ptl_me_t me = {.start = memory + GUARD,
                       .length = MEMORY,
                       .ct_handle = PTL_CT_NONE,
                       .uid = PTL_UID_ANY,
                       .options = PTL_ME_OP_PUT | (i ? PTL_ME_MANAGE_LOCAL : PTL_ME_OP_GET),
                       .match_id = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
                       .ignore_bits = i ? 0xff : ~0ull,
                       .min_free = i ? 64 : 0};
        FUZZ_CHECK(portals_me_append(p, ni, index, &me, i ? PTL_OVERFLOW_LIST : PTL_PRIORITY_LIST,
                                     NULL, &handle) == PTL_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct nic_pool *pool = NULL;
    uint64_t now = 0;
    if (size < 1)
        return 0;
    FUZZ_CHECK(nic_pool_new(&pool, MTU, NULL) == 0);
    at_once = data[0] & 2;
    pendings = steps = 0;
    struct nic *nic = card(pool, data[0] & 1);
    memset(memory, 0x5a, sizeof memory);
    open_memory(nic_portals(nic));
    drive(nic, now);
    for (size_t at = 1; at + 2 <= size;) {
        size_t length = data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        length = length < size - at ? length : size - at;
        struct nic_packet *packet = nic_packet_new(pool);
        FUZZ_CHECK(packet != NULL);
        if (!wire_decode(packet, MTU, data + at, length))
            nic_packet_in(nic, packet, now);
        nic_packet_release(packet);
        drive(nic, now);
        at += length;
        now += 7;
    }
    for (uint32_t ticks = 0; nic_deadline(nic) != UINT64_MAX; ticks++) {
        FUZZ_CHECK(ticks < 10000);
        now = nic_deadline(nic) > now ? nic_deadline(nic) : now;
        nic_tick(nic, now);
        drive(nic, now);
    }
    /* A reliable network owes us the rest of what has begun; nothing else may be left. */
    FUZZ_CHECK((data[0] & 1) || (nic_quiet(nic) && nic_pool_used(pool) == 0));
    FUZZ_CHECK(portals_check(nic_portals(nic)) == NULL);
    for (uint32_t i = 0; i < GUARD; i++)
        FUZZ_CHECK(memory[i] == 0x5a && memory[GUARD + MEMORY + i] == 0x5a);
    nic_free(nic);
    FUZZ_CHECK(nic_pool_used(pool) == 0);
    nic_pool_free(pool);
    return 0;
}
