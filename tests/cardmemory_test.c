/* The memories of the simulated card: banks of the L2 packet buffer, wide accesses to L1, lines by
 * address, ports, and the order of host memory. */
#include <stdlib.h>
#include <string.h>

#include "lib/cardworld.h"

static struct world *stream(const char *ph, const char *setting, uint32_t packets, uint32_t length,
                            uint64_t gap_ps) {
    struct world *w = world_new();
    if (setting)
        set(w, setting);
    handlers(w, NULL, ph, NULL);
    build(w);
    for (uint32_t i = 0; i < packets; i++)
        put_head(add(w, i, length, true, i * gap_ps), (struct head){.sequence = i});
    run(w);
    return w;
}

/* Packets of 64 B back to back are written to one bank after the other, and read behind. With one
 * bank every read meets a write, so half of the bandwidth is left; with 32 they are out of step
 * after the first meeting. */
TEST(banks_of_the_L2_packet_buffer) {
    struct world *many = stream("empty_ph", "l2_banks=32", 2000, 64, 0);
    struct world *one = stream("empty_ph", "l2_banks=1", 2000, 64, 0);
    CHECK(many->stats.throughput_mbit > 505000);
    CHECK(many->stats.l2_conflict_cycles < 64);
    CHECK(one->stats.l2_conflict_cycles > 1000);
    CHECK(one->stats.throughput_mbit < 300000);
    world_free(many);
    world_free(one);
}

/* Alone a handler loses nothing; when packets pass through L1 meanwhile, it does. */
TEST(lines_have_precedence_in_L1) {
    struct world *alone = stream("reduce_local_ph", NULL, 20, 1024, 10000000);
    struct world *loaded = stream("reduce_local_ph", "cluster_hpus=1", 40, 1024, 0);
    CHECK_EQ(alone->stats.conflict_cycles, 0);
    CHECK(loaded->stats.conflict_cycles > 0); /* no other HPU in the cluster: only DMA */
    world_free(alone);
    world_free(loaded);
}

/* With as many banks as a line takes, a line holds up all of them; with 16 times as many, at most a
 * 16th, for a handler follows its packet through the banks and lines do so faster. */
TEST(a_line_takes_its_share_of_the_banks) {
    static const char *const banks[] = {"l1_banks=16", "l1_banks=256"};
    uint64_t lost[2];
    for (int i = 0; i < 2; i++) {
        struct world *w = world_new();
        set(w, "cluster_hpus=1");
        set(w, banks[i]);
        handlers(w, NULL, "reduce_local_ph", NULL);
        build(w);
        for (uint32_t n = 0; n < 200; n++)
            add(w, n, 1024, true, 0);
        run(w);
        lost[i] = w->stats.conflict_cycles;
        world_free(w);
    }
    CHECK(lost[1] && lost[0] >= 16 * lost[1]);
}

static void back_to_back(struct world *w, uint32_t bytes) {
    set(w, "clusters=1");
    handlers(w, NULL, "pingpong_ph", NULL);
    build(w);
    for (uint32_t n = 0; n < 200; n++)
        add(w, 0, bytes, n == 199, 0);
    run(w);
}

/* Packets at a stride of the banks have their headers in the same ones, those of a line more do
 * not.
 */
TEST(headers_in_the_same_banks) {
    uint64_t lost[2];
    for (int i = 0; i < 2; i++) {
        struct world *w = world_new();
        back_to_back(w, 256 + 64 * (uint32_t)i);
        lost[i] = w->stats.conflict_cycles;
        world_free(w);
    }
    CHECK(lost[1] && lost[0] > 2 * lost[1]);
}

/* What HPUs lose to each other does not depend on how they are simulated. */
TEST(the_same_conflicts_interpreted_generated_and_by_steps) {
#ifdef OPENSPIN_JIT
    const enum spin_jit compiled = SPIN_JIT_FORCE;
#else
    const enum spin_jit compiled = SPIN_JIT_ON;
#endif
    uint64_t digest[3], lost[3];
    for (int i = 0; i < 3; i++) {
        struct world *w = world_new();
        w->config.jit = i == 1 ? compiled : SPIN_JIT_OFF;
        w->steps_wanted = i == 2;
        back_to_back(w, 512);
        digest[i] = w->stats.digest;
        lost[i] = w->stats.conflict_cycles;
        world_free(w);
    }
    CHECK(lost[0] > 100);
    for (int i = 1; i < 3; i++) {
        CHECK_EQ(lost[i], lost[0]);
        CHECK(digest[i] == digest[0]);
    }
}

/* Reads and writes pass a port apart: as many stores beside the loads cost no time. */
TEST(reads_and_writes_pass_apart) {
    struct world *loads = stream("l2_ph", NULL, 500, 64, 0);
    struct world *both = stream("l2_both_ph", NULL, 500, 64, 0);
    CHECK_EQ(loads->stats.remote_accesses, 500 * 256);
    CHECK_EQ(both->stats.remote_accesses, 500 * 512);
    CHECK(both->stats.elapsed_ps < loads->stats.elapsed_ps * 105 / 100);
    world_free(loads);
    world_free(both);
}

/* What begins in the middle of a line touches one line more. */
TEST(lines_by_address) {
    struct world *aligned = stream("line_ph", NULL, 100, 64, 1000000);
    struct world *crossing = stream("lines_ph", NULL, 100, 64, 1000000);
    CHECK_EQ(aligned->stats.unit_busy_ps[CARD_UNIT_NIC_HOST], 100 * 1000);
    CHECK_EQ(crossing->stats.unit_busy_ps[CARD_UNIT_NIC_HOST], 100 * 2000);
    world_free(aligned);
    world_free(crossing);
}

/* Writes fill the way to the host; a read behind them finds what they wrote. */
TEST(a_read_of_host_memory_does_not_pass_writes) {
    struct world *w = stream("write_read_ph", "pcie_rate=10", 20, 2048, 10000000);
    uint32_t seen;
    for (uint32_t i = 0; i < 20; i++) {
        memcpy(&seen, w->host + 8192 + 4 * i, 4);
        CHECK_EQ(seen, 0x1000 + i);
    }
    world_free(w);
}

/* Short copies keep the cluster's DMA engine for longer than their data: 2 cycles for 64 B, 2.5 for
 * 128 B, as many as there are beats from 192 B on. One cluster: its engine is the limit. */
TEST(short_copies_follow_each_other_slowly) {
    static const struct {
        uint32_t bytes;
        double cycles;
    } rows[] = {{64, 2}, {128, 2.5}, {192, 3}, {512, 8}};
    for (int i = 0; i < 4; i++) {
        struct world *w = world_new();
        set(w, "clusters=1");
        set(w, "loop_cycles=0"); /* HPUs are no limit */
        handlers(w, NULL, "empty_ph", NULL);
        build(w);
        for (uint32_t n = 0; n < 1000; n++)
            add(w, 0, rows[i].bytes, n == 999, 0);
        run(w);
        double cycles = (double)w->stats.elapsed_ps / 1000 / 1000;
        CHECK(cycles > 0.98 * rows[i].cycles && cycles < 1.1 * rows[i].cycles);
        world_free(w);
    }
}

/* The next task's command waits until the task before it is reported, whose command is slow. */
TEST(commands_are_held_back) {
    static const char *const held[] = {"hold_cycles=2", "hold_cycles=1000"};
    uint64_t most[2];
    for (int i = 0; i < 2; i++) {
        struct world *w = world_new();
        set(w, "clusters=1");
        set(w, "cluster_hpus=1");
        set(w, held[i]);
        handlers(w, NULL, "to_host_ph", NULL);
        build(w);
        for (uint32_t n = 0; n < 10; n++)
            add(w, 0, 1024, n == 9, 0);
        run(w);
        most[i] = w->stats.handler[SPIN_PAYLOAD_HANDLER].spread.most;
        world_free(w);
    }
    CHECK(most[0] > 30 && most[0] < 200);
    CHECK(most[1] > 900);
}

/* A packet that is sent and, so many cycles later, one that fetches from the host into the same L1:
 * latencies of both. */
static void send_and_fetch(uint64_t later, uint64_t latency_ps[2]) {
    struct world *w = world_new();
    set(w, "icache_miss=0");
    set(w, "l1_banks=1024"); /* each packet's accesses in banks of their own */
    handlers(w, NULL, "send_or_fetch_ph", NULL);
    build(w);
    for (uint32_t i = 0; i < 2; i++)
        put_head(add(w, 0, i ? 64 : 2048, i, i * later * 1000), (struct head){.sequence = i});
    run(w);
    for (uint32_t i = 0; i < 2; i++)
        latency_ps[i] = w->fed[i] - i * later * 1000;
    world_free(w);
}

/* While there are a read and a write, the port carries them in turns, whichever began first: each
 * takes as much longer as the other, the 8 cycles of the fetch at most. (Before 67 cycles the
 * second packet also waits for the first one's copy.) */
TEST(reads_and_writes_take_turns_at_the_port) {
    uint64_t alone[2], latency[2], most = 0;
    send_and_fetch(1000, alone);
    for (uint64_t later = 67; later < 94; later++) {
        send_and_fetch(later, latency);
        uint64_t more[2] = {latency[0] - alone[0], latency[1] - alone[1]};
        CHECK_EQ(more[1], more[0]);
        most = more[1] > most ? more[1] : most;
    }
    CHECK_EQ(most, 8000);
}

/* Under load a fetch is held back until the send before it is over. In the RTL its handle is then
 * another's, and the handler does not wait for it. */
TEST(handles_of_commands_that_were_held_back) {
    struct world *right = stream("fetch_send_ph", "held_handles=0", 64, 1024, 0);
    struct world *rtl = stream("fetch_send_ph", "held_handles=1", 64, 1024, 0);
    struct world *idle = stream("fetch_send_ph", "held_handles=1", 64, 1024, 1000000);
    uint64_t cycles = right->stats.handler[SPIN_PAYLOAD_HANDLER].cycles;
    CHECK(right->stats.handler[SPIN_PAYLOAD_HANDLER].spread.least > 50);
    CHECK(rtl->stats.handler[SPIN_PAYLOAD_HANDLER].spread.least < 50);
    CHECK(rtl->stats.handler[SPIN_PAYLOAD_HANDLER].cycles < cycles * 9 / 10);
    CHECK(idle->stats.handler[SPIN_PAYLOAD_HANDLER].spread.least > 50);
    CHECK_EQ(rtl->stats.completed, 64);
    world_free(right);
    world_free(rtl);
    world_free(idle);
}

/* With one command in flight each waits for the answer to the one before. */
TEST(few_commands_in_flight) {
    struct world *many = stream("to_host_ph", NULL, 500, 64, 0);
    struct world *one = stream("to_host_ph", "interface_commands=1", 500, 64, 0);
    CHECK(one->stats.elapsed_ps > 500 * 15000ull);
    CHECK(many->stats.elapsed_ps < one->stats.elapsed_ps / 4);
    world_free(many);
    world_free(one);
}

/* Two fetches and a send behind them, of one cluster: where the DMA engine has room for one
 * command, the second fetch stands in front of it, and the send behind that, though its own way is
 * free. */
TEST(a_command_without_room_holds_up_those_behind_it) {
    static const char *const room[] = {"interface_commands=7", "interface_commands=1"};
    uint64_t end_ps[2][3];
    for (int i = 0; i < 2; i++) {
        struct world *w = world_new();
        set(w, "clusters=1");
        set(w, "icache_miss=0");
        set(w, "pcie_latency=500ns");
        set(w, "address_cycles=1000"); /* no address waits for its data */
        set(w, room[i]);
        handlers(w, NULL, "send_or_fetch_ph", NULL);
        build(w);
        for (uint32_t n = 0; n < 3; n++)
            put_head(add(w, 0, 64, n == 2, n * 8000), (struct head){.sequence = n < 2});
        run(w);
        memcpy(end_ps[i], w->fed, sizeof end_ps[i]);
        world_free(w);
    }
    CHECK_EQ(end_ps[1][0], end_ps[0][0]);
    CHECK(end_ps[0][2] < end_ps[0][0]);          /* the send passes the fetches */
    CHECK(end_ps[1][2] > end_ps[1][0]);          /* it waits for the first one's answer */
    CHECK(end_ps[1][2] < end_ps[1][0] + 100000); /* but not for the second's */
}

/* The address of a fetch waits before the L1s for its data, and a send behind it; what is sent
 * before the address is there passes. */
TEST(a_fetch_keeps_sends_waiting) {
    static const char *const address[] = {"address_cycles=5", "address_cycles=1000"};
    uint64_t end_ps[2][2];
    for (int i = 0; i < 2; i++) {
        struct world *w = world_new();
        set(w, "icache_miss=0");
        set(w, "pcie_latency=500ns");
        set(w, address[i]);
        handlers(w, NULL, "send_or_fetch_ph", NULL);
        build(w);
        for (uint32_t n = 0; n < 2; n++)
            put_head(add(w, 0, 64, n == 1, n * 24000), (struct head){.sequence = !n});
        run(w);
        memcpy(end_ps[i], w->fed, sizeof end_ps[i]);
        world_free(w);
    }
    CHECK(end_ps[0][1] > 500000 && end_ps[0][1] < end_ps[0][0] + 20000);
    CHECK(end_ps[1][1] < 200000);
}

/* A packet's way to L1 is as long beside sends, or beside fetches; beside both, which take turns at
 * L1's other port, its lines come in every other cycle. */
TEST(turns_at_the_other_port_slow_copies) {
    enum { SENDS, FETCHES, BOTH };
    uint64_t copy_ps[3];
    for (int i = SENDS; i <= BOTH; i++) {
        struct world *w = world_new();
        set(w, "clusters=1");
        set(w, "icache_miss=0");
        handlers(w, NULL, "send_or_fetch_ph", NULL);
        build(w);
        for (uint32_t n = 0; n < 64; n++)
            put_head(add(w, 0, 512, n == 63, n * 16000),
                     (struct head){.sequence = i == BOTH ? n : (uint32_t)i});
        run(w);
        copy_ps[i] = w->stats.part[CARD_PART_COPY].most;
        world_free(w);
    }
    CHECK_EQ(copy_ps[SENDS], copy_ps[FETCHES]);
    CHECK(copy_ps[BOTH] >= copy_ps[SENDS] + 4000);
    CHECK(copy_ps[BOTH] <= copy_ps[SENDS] + 8000);
}

/* All clusters have their code from one program memory: two that begin at the same time wait for
 * each other's lines. */
TEST(clusters_share_program_memory) {
    uint64_t cycles[2];
    for (int i = 0; i < 2; i++) {
        struct world *w = world_new();
        handlers(w, NULL, "pingpong_ph", NULL);
        build(w);
        for (uint32_t n = 0; n < 2; n++)
            add(w, n, 64, true, i * n * 1000000);
        run(w);
        cycles[i] = w->stats.handler[SPIN_PAYLOAD_HANDLER].cycles;
        world_free(w);
    }
    CHECK(cycles[0] > cycles[1]);
}

/* The outbound engine reads another L1 when the packet from the one before has come: of 64 B, from
 * each L1 in turn, one in two cycles. */
TEST(sends_from_several_L1s) {
    struct world *w = world_new();
    handlers(w, NULL, "pingpong_ph", NULL);
    build(w);
    for (uint32_t n = 0; n < 2000; n++)
        add(w, n, 64, true, 0);
    run(w);
    CHECK(w->stats.throughput_mbit > 235000 && w->stats.throughput_mbit < 257000);
    world_free(w);
}

/* 1,024 B are 16 lines of the host, or 17 if they begin inside one. */
TEST(a_host_address_off_a_line_costs_a_beat) {
    for (uint32_t off = 0; off < 2; off++) {
        struct world *w = world_new();
        handlers(w, NULL, "to_host_ph", NULL);
        w->context.host_address += 8 * off;
        build(w);
        for (uint32_t n = 0; n < 10; n++)
            add(w, 0, 1024, n == 9, n * 1000000ull);
        run(w);
        CHECK_EQ(w->stats.unit_busy_ps[CARD_UNIT_TO_HOST], 10 * (16 + off) * 1000);
        world_free(w);
    }
}

/* What the HPUs see of memories and cache is the card's to say. */
TEST(the_cores_surroundings_are_parameters) {
    struct world *usual = stream("l2_ph", NULL, 4, 64, 100000000);
    struct world *near = stream("l2_ph", "remote_cycles=5", 4, 64, 100000000);
    struct world *slow = stream("empty_ph", "icache_miss=100", 1, 64, 0);
    struct world *fast = stream("empty_ph", "icache_miss=0", 1, 64, 0);
    CHECK_EQ(usual->stats.handler[SPIN_PAYLOAD_HANDLER].spread.least -
                 near->stats.handler[SPIN_PAYLOAD_HANDLER].spread.least,
             256 * 15);
    CHECK_EQ(slow->stats.elapsed_ps - fast->stats.elapsed_ps, 2 * 100000); /* two lines */
    world_free(usual);
    world_free(near);
    world_free(slow);
    world_free(fast);
}

/* A cache of one line: a loop that is longer fetches its lines in every turn. */
TEST(a_small_cache_misses_more) {
    struct world *w = world_new();
    set(w, "clusters=1");
    set(w, "cluster_hpus=1");
    set(w, "icache_ways=1");
    set(w, "icache_bytes=16");
    handlers(w, NULL, "l2_ph", NULL);
    build(w);
    for (uint32_t n = 0; n < 10; n++)
        add(w, n, 64, true, 0);
    run(w);
    CHECK(w->stats.icache_misses > 10 * 32); /* 32 turns of two lines */
    world_free(w);
}

TEST(a_cache_that_cannot_be) {
    struct card_config config;
    struct card *card;
    struct sim_engine *engine = sim_engine_new(&err);
    GOOD(card_config_preset(&config, "pspin", &err));
    GOOD(card_config_set(&config, "icache_bytes=1000", &err));
    CHECK_EQ(card_new(&card, engine, &config, NULL, &err), SPIN_EARG);
    CHECK_HAS(err.text, "icache_bytes: 1000 is no multiple of icache_ways lines, 64 bytes");
    sim_engine_free(engine);
}

TEST_MAIN
