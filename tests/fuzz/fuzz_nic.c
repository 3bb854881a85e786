/* libFuzzer target: whatever packets a stranger sends to a card, memory around what it may write is
 * untouched, and when he is silent the card comes to rest. Input: packets as wire.h has them, each
 * behind its length in two bytes. */
#include "fuzz.h"
#include "lib/nicworld.h"

#define MTU    256
#define MEMORY 512
#define GUARD  64

static uint8_t memory[GUARD + MEMORY + GUARD];
static struct nicworld world;

/* Matching and physical; two table entries: one for all, one that takes puts of its choice only. */
static void open_memory(struct portals *p) {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_pt_index_t index;
    ptl_handle_me_t handle;
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
    if (size < 1)
        return 0;
    memset(&world, 0, offsetof(struct nicworld, pending));
    world.first = (struct nic_address){3, 4};
    world.loss = 1000; /* the stranger hears nothing */
    world.at_once = data[0] & 2;
    bool reliable = data[0] & 1; /* then a silent peer is one that answers later: blocks go on */
    world.memory_spread = 5;
    world.config = (struct nic_config){.mtu_bytes = MTU,
                                       .reliable = reliable,
                                       .retry_time = 100,
                                       .retries = 2,
                                       .window_packets = 8,
                                       .block_bytes = data[0] & 4 ? 1024 : 0,
                                       .block_timeout = data[0] & 8 && !reliable ? 300 : 0,
                                       .err_policy = data[0] / 16 % 3};
    world.destination_absence = world.source_absence = data[0] & 64 ? 200 : 0;
    world.page_spread = 20;
    world_begin(&world, 1, 1);
    struct node *n = &world.node[0];
    memset(memory, 0x5a, sizeof memory);
    open_memory(n->portals);
    world_settle_node(&world, n);
    for (size_t at = 1; at + 2 <= size;) {
        size_t length = data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        length = length < size - at ? length : size - at;
        struct nic_packet *packet = nic_packet_new(world.pool);
        FUZZ_CHECK(packet != NULL);
        if (!wire_decode(packet, MTU, data + at, length))
            nic_packet_in(n->nic, packet, world.now);
        nic_packet_release(packet);
        world_settle_node(&world, n);
        at += length;
        world.now += 7;
    }
    while (world_step(&world))
        FUZZ_CHECK(world.steps < 100000);
    /* A reliable network owes us the rest of what has begun; nothing else may be left. */
    FUZZ_CHECK(reliable || (nic_quiet(n->nic) && nic_pool_used(world.pool) == 0));
    FUZZ_CHECK(portals_check(n->portals) == NULL);
    for (uint32_t i = 0; i < GUARD; i++)
        FUZZ_CHECK(memory[i] == 0x5a && memory[GUARD + MEMORY + i] == 0x5a);
    world_end(&world);
    return 0;
}
