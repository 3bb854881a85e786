/* The card as a program embeds it: this one sees openspin.h and the library, nothing else. */
#include <openspin.h>

#include "lib/test.h"

#include <unistd.h>

static struct spin_error err;
#define GOOD(call)                                                                                 \
    do {                                                                                           \
        if ((call) != SPIN_OK)                                                                     \
            TEST_FAIL("%.500s", err.text);                                                         \
    } while (0)

#define PACKETS 40
#define LENGTH  92 /* PsPIN's headers, 28 bytes, and 16 words */

/* A card with one context, a source of its own, and what the callbacks were told. */
struct world {
    struct spin_card *card;
    struct spin_image *image;
    struct spin_card_context context;
    uint32_t number;
    struct spin_card_result result;
    uint8_t bytes[PACKETS][LENGTH];
    uint32_t drawn, sent, done, to_host, faults;
    uint64_t sum, host_sum, last_ps;
};

static void load(struct world *w, const char *name, const char *ph, const char *th) {
    char path[1000];
    snprintf(path, sizeof path, *name == '/' ? "%s" : IMAGES "/%s.spin", name);
    GOOD(spin_card_new(&w->card, "pspin", &err));
    GOOD(spin_image_load(&w->image, path, NULL, &err));
    w->context = (struct spin_card_context){.image = w->image, .host_bytes = 64};
    GOOD(spin_image_find(w->image, ph, &w->context.handler[SPIN_PAYLOAD_HANDLER], &err));
    if (th)
        GOOD(spin_image_find(w->image, th, &w->context.handler[SPIN_COMPLETION_HANDLER], &err));
}

static void unload(struct world *w) {
    spin_card_free(w->card);
    spin_image_free(w->image);
    *w = (struct world){0};
}

static bool next(void *user, struct spin_card_packet *p) {
    struct world *w = user;
    if (w->drawn == PACKETS)
        return false;
    uint8_t *bytes = w->bytes[w->drawn];
    memset(bytes, 0, LENGTH);
    bytes[0] = 0x54; /* as PsPIN's packets.h has it: little-endian */
    bytes[2] = LENGTH;
    bytes[24] = LENGTH - 20;
    for (int i = 28; i < LENGTH; i += 4)
        bytes[i] = (uint8_t)(w->drawn + (uint32_t)i);
    *p = (struct spin_card_packet){.arrival_ps = w->drawn * 10000ull,
                                   .bytes = bytes,
                                   .length = LENGTH,
                                   .context = w->number,
                                   .message = w->drawn % 4,
                                   .end_of_message = w->drawn >= PACKETS - 4,
                                   .user = 1000 + w->drawn};
    w->drawn++;
    return true;
}

static void sent(void *user, const struct spin_card_sent *p) {
    struct world *w = user;
    CHECK(p->at_ps >= w->last_ps);
    w->last_ps = p->at_ps;
    w->sent++;
    for (uint32_t i = 0; i < p->length; i++)
        w->sum += p->bytes[i];
}
static void done(void *user, const struct spin_card_done *p) {
    struct world *w = user;
    CHECK(p->arrival_ps <= p->request_ps && p->request_ps <= p->completion_ps);
    if (p->length == LENGTH)
        CHECK(p->user >= 1000 && p->user < 1000 + PACKETS);
    w->done++;
}
static void to_host(void *user, const struct spin_card_packet *p) {
    struct world *w = user;
    w->to_host++;
    for (uint32_t i = 0; i < p->length; i++)
        w->host_sum += p->bytes[i];
}
static void on_fault(void *user, const struct spin_card_fault *f) {
    struct world *w = user;
    CHECK_EQ(f->ending, SPIN_ENDED_SEGV);
    w->faults++;
}

static int run(struct world *w, struct spin_card_options options) {
    options.user = w;
    options.sent = sent;
    options.done = done;
    options.to_host = to_host;
    options.fault = on_fault;
    int code = spin_card_run(w->card, &options, &err);
    spin_card_result(w->card, &w->result);
    return code;
}

static struct world w;

TEST(traffic_by_a_spec) {
    uint64_t digest[2];
    for (int i = 0; i < 2; i++) {
        load(&w, "ping_pong", "ping_pong_ph", NULL);
        GOOD(spin_card_set(w.card, "clusters=2", &err));
        GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
        GOOD(run(&w, (struct spin_card_options){
                         .traffic = "gen:messages=3,packets=10,size=100,headers=pspin"}));
        CHECK_EQ(w.result.packets, 30);
        CHECK_EQ(w.result.completed, 30);
        CHECK_EQ(w.result.messages_completed, 3);
        CHECK_EQ(w.result.packets_out, 30);
        CHECK_EQ(w.result.hpus, 16);
        CHECK(w.sent == 30 && w.done == 30 && w.to_host == 0);
        CHECK_EQ(w.result.part[SPIN_CARD_PART_LATENCY].count, 30);
        CHECK_EQ(w.result.handler[SPIN_PAYLOAD_HANDLER].runs, 30);
        CHECK(w.result.unit_busy_ps[SPIN_CARD_UNIT_INBOUND] > 0 && w.result.events > 0);
        digest[i] = w.result.digest;
        unload(&w);
    }
    CHECK(digest[0] == digest[1]);
}

/* A busy card with a small packet buffer: what it has counted reaches the program. */
TEST(counts_reach_the_program) {
    static const char *const names[] = {"ping_pong", "copy_to_host"};
    uint64_t host_writes = 0, marked = 0, out = 0, conflicts = 0;
    for (int i = 0; i < 2; i++) {
        char handler[40];
        snprintf(handler, sizeof handler, "%s_ph", names[i]);
        load(&w, names[i], handler, NULL);
        w.context.host_bytes = 1 << 20;
        GOOD(spin_card_set(w.card, "l2_packet_bytes=4KiB", &err));
        GOOD(spin_card_set(w.card, "policy=mark", &err));
        GOOD(spin_card_set(w.card, "mark_percent=50", &err));
        GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
        GOOD(run(&w, (struct spin_card_options){
                         .traffic = "gen:messages=8,packets=50,size=1024,headers=pspin"}));
        const struct spin_card_result *r = &w.result;
        CHECK_EQ(r->taken, 400);
        CHECK_EQ(r->bytes_completed, 400 * 1024);
        CHECK_EQ(r->messages_begun, 8);
        CHECK(r->stalled_offers && r->held[0] && r->held_ps[0]);
        CHECK(r->elapsed_ps && r->throughput_mbit && r->hpus_used && r->most_hpus_busy);
        CHECK(r->hpu_busy_ps && r->cluster_dma_busy_ps && r->most_l2_bytes <= 4096);
        CHECK(r->most_l2_bytes > 2048 && r->l1_accesses && r->icache_misses && r->cycles);
        host_writes += r->host_writes + r->host_write_bytes / 1024;
        out += r->packets_out + r->bytes_out / 1024;
        marked += r->marked;
        conflicts += r->conflict_cycles;
        unload(&w);
    }
    CHECK_EQ(out, 2 * 400);
    CHECK(host_writes >= 2 * 390 && marked && conflicts);
}

/* What is counted has a name, and what is beyond the last has none. */
TEST(names_of_what_is_counted) {
    static const struct {
        const char *(*name)(unsigned);
        unsigned count;
    } lists[] = {{spin_card_part_name, SPIN_CARD_PART_COUNT},
                 {spin_card_unit_name, SPIN_CARD_UNIT_COUNT},
                 {spin_card_fate_outcome, SPIN_CARD_FATE_COUNT},
                 {spin_card_fate_reason, SPIN_CARD_FATE_COUNT}};
    for (int i = 0; i < 4; i++)
        for (unsigned k = 0; k <= lists[i].count; k++)
            CHECK_EQ(strcmp(lists[i].name(k), "?") == 0, k == lists[i].count);
}

/* Each counter of a result counts in one of these runs at least; what the one context did is what
 * the card did, and what only a card has is 0 of a context (spin_card.h). */
TEST(every_counter_of_a_result) {
    enum { ALL, OF_THE_CARD };
#define ROW(field, whose)                                                                          \
    { #field, offsetof(struct spin_card_result, field), whose }
    static const struct {
        const char *name;
        size_t at;
        int whose;
    } counters[] = {
        ROW(packets, ALL),
        ROW(bytes, ALL),
        ROW(taken, ALL),
        ROW(completed, ALL),
        ROW(bytes_completed, ALL),
        ROW(dropped, ALL),
        ROW(refused, ALL),
        ROW(marked, ALL),
        ROW(stalled_offers, OF_THE_CARD),
        ROW(held[0], OF_THE_CARD),
        ROW(held[1], OF_THE_CARD),
        ROW(held_ps[0], OF_THE_CARD),
        ROW(held_ps[1], OF_THE_CARD),
        ROW(messages_begun, ALL),
        ROW(messages_completed, ALL),
        ROW(messages_failed, ALL),
        ROW(faults, ALL),
        ROW(watchdog_faults, ALL),
        ROW(queue_timeouts, ALL),
        ROW(kills, ALL),
        ROW(packets_out, ALL),
        ROW(bytes_out, ALL),
        ROW(host_writes, ALL),
        ROW(host_write_bytes, ALL),
        ROW(host_reads, ALL),
        ROW(host_read_bytes, ALL),
        ROW(elapsed_ps, ALL),
        ROW(throughput_mbit, ALL),
        ROW(cluster_dma_busy_ps, ALL),
        ROW(hpu_busy_ps, ALL),
        ROW(hpu_least_ps, OF_THE_CARD),
        ROW(hpu_most_ps, OF_THE_CARD),
        ROW(hpus_used, OF_THE_CARD),
        ROW(most_hpus_busy, OF_THE_CARD),
        ROW(most_l2_bytes, OF_THE_CARD),
        ROW(l2_conflict_cycles, OF_THE_CARD),
        ROW(l1_accesses, OF_THE_CARD),
        ROW(conflict_cycles, OF_THE_CARD),
        ROW(remote_accesses, OF_THE_CARD),
        ROW(remote_wait_cycles, OF_THE_CARD),
        ROW(icache_misses, OF_THE_CARD),
        ROW(cycles, OF_THE_CARD),
        ROW(events, OF_THE_CARD),
        ROW(digest, OF_THE_CARD),
    };
#undef ROW
    enum { COUNTERS = sizeof counters / sizeof *counters };
    static const struct {
        const char *name, *handler, *set[3];
        uint64_t watchdog_cycles, timeout_ps;
    } runs[] = {
        {"ping_pong",
         "ping_pong_ph",
         {"policy=mark", "mark_percent=50", "l2_packet_bytes=4KiB"},
         0,
         0},
        {"copy_from_host", "copy_from_host_ph", {"policy=drop", "l2_packet_bytes=4KiB"}, 0, 0},
        {"copy_to_host", "copy_to_host_ph", {"queues=1", "clusters=1", "cluster_hpus=1"}, 0, 0},
        {"remote_write",
         "remote_write_ph",
         {"policy=kill", "l2_packet_bytes=4KiB", "l2_banks=1"},
         0,
         0},
        {"reduce", "reduce_ph", {NULL}, 20, 1},
        {CARD_IMAGE, "l2_ph", {NULL}, 0, 0}, /* loads from L2 */
    };
    const struct spin_card_options traffic = {
        .traffic = "gen:messages=50,packets=8,size=1024,headers=pspin"};
    uint64_t most[COUNTERS] = {0};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        load(&w, runs[i].name, runs[i].handler, NULL);
        w.context.host_bytes = w.context.memory_bytes = 1 << 20;
        w.context.scratch_bytes = 4096;
        w.context.watchdog_cycles = runs[i].watchdog_cycles;
        w.context.timeout_ps = runs[i].timeout_ps;
        for (int k = 0; k < 3 && runs[i].set[k]; k++)
            GOOD(spin_card_set(w.card, runs[i].set[k], &err));
        GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
        GOOD(spin_card_run(w.card, &traffic, &err));
        struct spin_card_result all, mine;
        spin_card_result(w.card, &all);
        spin_card_context_result(w.card, w.number, &mine);
        for (int k = 0; k < COUNTERS; k++) {
            uint64_t of_all, of_mine;
            memcpy(&of_all, (char *)&all + counters[k].at, sizeof of_all);
            memcpy(&of_mine, (char *)&mine + counters[k].at, sizeof of_mine);
            if (of_mine != (counters[k].whose == ALL ? of_all : 0))
                TEST_FAIL("%s: %s is %llu, of the context %llu", runs[i].name, counters[k].name,
                          (unsigned long long)of_all, (unsigned long long)of_mine);
            most[k] = most[k] > of_all ? most[k] : of_all;
        }
        if ((all.faults > 0) != (runs[i].watchdog_cycles > 0))
            TEST_FAIL("%s: %llu faults", runs[i].name, (unsigned long long)all.faults);
        unload(&w);
    }
    int zeros = 0;
    for (int k = 0; k < COUNTERS; k++)
        if (!most[k])
            zeros++, printf("# %s is always 0\n", counters[k].name);
    CHECK_EQ(zeros, 0);
}

struct stages {
    uint64_t done[2], of[2], calls[2];
};
static void on_progress(void *user, enum spin_card_stage stage, uint64_t done, uint64_t of) {
    struct stages *s = user;
    CHECK(done >= s->done[stage] && done <= of);
    CHECK(stage == SPIN_CARD_RUNS || !s->calls[SPIN_CARD_RUNS]);
    s->done[stage] = done;
    s->of[stage] = of;
    s->calls[stage]++;
}

/* Messages of P4sPIN are measured first; the run is over when all packets are done, not when they
 * have arrived. */
TEST(progress_by_stages) {
    for (int p4 = 0; p4 < 2; p4++) {
        struct stages s = {{0}, {0}, {0}};
        load(&w, p4 ? "p4_pingpong" : "ping_pong", p4 ? "pingpong_payload_handler" : "ping_pong_ph",
             NULL);
        for (int again = 0; again < 2; again++) {
            s = (struct stages){{0}, {0}, {0}};
            if (!again)
                GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
            GOOD(spin_card_run(w.card,
                               &(struct spin_card_options){.traffic = "gen:messages=4,packets=7500,"
                                                                      "size=64,headers=pspin",
                                                           .user = &s,
                                                           .progress = on_progress},
                               &err));
            CHECK_EQ(s.calls[SPIN_CARD_MEASURES], p4 ? 4 : 0);
            CHECK_EQ(s.done[SPIN_CARD_MEASURES], p4 ? 30000 : 0);
            CHECK(s.calls[SPIN_CARD_RUNS] > 1 && s.done[SPIN_CARD_RUNS] == 30000);
            CHECK_EQ(s.of[SPIN_CARD_RUNS], 30000);
        }
        unload(&w);
    }
}

/* Sums in the scratchpads of clusters, a word in host memory; and once more on the same card. */
TEST(traffic_of_its_own_and_memories) {
    load(&w, "reduce", "reduce_ph", "reduce_th");
    w.context.memory_bytes = w.context.scratch_bytes = 64;
    GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
    for (uint32_t times = 1; times <= 2; times++) {
        w.drawn = 0;
        GOOD(run(&w, (struct spin_card_options){.next = next}));
        CHECK_EQ(w.done, times * PACKETS);
        CHECK_EQ(w.result.completed, times * PACKETS);
        CHECK_EQ(w.result.messages_completed, times * 4);
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t got = 0, want = 0;
            for (uint32_t cluster = 0; cluster < 4; cluster++) {
                uint64_t bytes;
                const uint8_t *pad =
                    spin_card_memory(w.card, w.number, SPIN_SCRATCHPAD + cluster, &bytes);
                CHECK(pad && bytes == 64);
                uint32_t part;
                memcpy(&part, pad + 4 * i, 4);
                got += part;
            }
            for (uint32_t k = 0; k < PACKETS; k++)
                want += (uint8_t)(k + 28 + 4 * i);
            CHECK_EQ(got, times * want);
        }
        uint64_t bytes, told;
        memcpy(&told,
               spin_card_memory(w.card, w.number, SPIN_ME_HOST, &bytes) + 8 * (4 * times - 1), 8);
        CHECK_EQ(told, 4 * times);
        CHECK_EQ(bytes, 64);
    }
    unload(&w);
}

/* What no rule takes comes by the callback and into the file, which is traffic again. */
TEST(packets_for_the_host) {
    char path[] = "/tmp/openspin-host-XXXXXX", spec[80];
    close(mkstemp(path));
    load(&w, "empty", "empty_ph", NULL);
    GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
    GOOD(spin_card_match(w.card, "rules", "ipv4.src=10.0.0.1 -> ctx0; ipv4.src=10.0.0.2 -> drop",
                         &err));
    GOOD(run(&w, (struct spin_card_options){.traffic = "gen:messages=8,flows=4,packets=5",
                                            .host_out = path}));
    uint64_t packets, sum = w.host_sum, bytes = w.result.to_host_bytes;
    CHECK_STR(spin_card_rule(w.card, 0, &packets), "ipv4.src=10.0.0.1 -> ctx0");
    CHECK_EQ(packets, 10);
    CHECK(spin_card_rule(w.card, 1, &packets) && packets == 10);
    CHECK(!spin_card_rule(w.card, 2, &packets));
    CHECK_EQ(w.to_host, 20);
    CHECK_EQ(w.result.to_host, 20);
    CHECK_EQ(w.result.no_rule, 20);
    CHECK_EQ(w.result.dropped_by_rule, 10);
    CHECK_EQ(w.result.completed, 10);
    unload(&w);

    load(&w, "empty", "empty_ph", NULL);
    GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
    GOOD(spin_card_match(w.card, "rules", "any -> host", &err));
    snprintf(spec, sizeof spec, "pcap:%s", path);
    GOOD(run(&w, (struct spin_card_options){.traffic = spec}));
    CHECK_EQ(w.to_host, 20);
    CHECK_EQ(w.result.to_host_bytes, bytes);
    CHECK_EQ(w.host_sum, sum);
    unload(&w);
    unlink(path);
}

/* Ours have PsPIN's byte order, in which no length is right for a rule. */
TEST(packets_that_lie_about_their_lengths_are_counted) {
    load(&w, "empty", "empty_ph", NULL);
    GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
    GOOD(spin_card_match(w.card, "rules", "any -> ctx0", &err));
    GOOD(run(&w, (struct spin_card_options){.next = next}));
    CHECK_EQ(w.result.malformed, PACKETS);
    CHECK_EQ(w.result.completed, PACKETS);
    unload(&w);
}

static bool strange(void *user, struct spin_card_packet *p) {
    struct world *world = user;
    if (!next(user, p))
        return false;
    if (world->drawn == 3)
        p->context = UINT32_MAX;
    if (world->drawn == 5)
        p->length = 0;
    if (world->drawn == 7)
        p->arrival_ps = 0;
    if (world->drawn == 9 && world->faults)
        p->arrival_ps = UINT64_MAX;
    return true;
}

/* Packets that cannot be are refused and counted; a time that cannot be ends the run. */
TEST(a_strange_source) {
    load(&w, "empty", "empty_ph", NULL);
    GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
    GOOD(run(&w, (struct spin_card_options){.next = strange}));
    CHECK_EQ(w.result.packets, PACKETS);
    CHECK_EQ(w.result.refused, 2);
    CHECK_EQ(w.result.completed, PACKETS - 2);
    w.drawn = 0;
    w.faults = 1;
    CHECK_EQ(run(&w, (struct spin_card_options){.next = strange}), SPIN_ELIMIT);
    CHECK_HAS(err.text, "53 days");
    unload(&w);
}

TEST(faults_are_told) {
    load(&w, "reduce", "reduce_ph", NULL); /* without a scratchpad it stores into nothing */
    GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
    GOOD(run(&w, (struct spin_card_options){.next = next}));
    CHECK(w.faults > 0);
    CHECK_EQ(w.result.faults, w.faults);
    CHECK_EQ(w.result.messages_failed, 4);
    CHECK_EQ(w.result.faults_told, w.faults < SPIN_CARD_FAULTS ? w.faults : SPIN_CARD_FAULTS);
    CHECK(spin_image_at(w.image, w.result.fault[0].pc) == w.context.handler[SPIN_PAYLOAD_HANDLER]);
    unload(&w);
}

TEST(what_is_refused) {
    struct spin_card_options nothing = {0}, gen = {.traffic = "gen:packets=2"};
    uint64_t bytes;
    struct spin_parameter row;
    CHECK_EQ(spin_card_new(&w.card, "other", &err), SPIN_EARG);
    CHECK(w.card == NULL);
    load(&w, "empty", "empty_ph", NULL);
    CHECK_EQ(spin_card_set(w.card, "clusters=0", &err), SPIN_EARG);
    CHECK_EQ(run(&w, gen), SPIN_EARG);
    CHECK_HAS(err.text, "no execution context");
    CHECK_EQ(spin_card_add_context(w.card, &(struct spin_card_context){0}, &w.number, &err),
             SPIN_EARG);
    CHECK(!spin_card_memory(w.card, 0, SPIN_ME_HOST, &bytes));
    GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
    CHECK_EQ(spin_card_set(w.card, "clusters=2", &err), SPIN_EARG);
    CHECK_HAS(err.text, "before the first context");
    CHECK(!spin_card_memory(w.card, 0, SPIN_STATE, &bytes)); /* it asked for none */
    CHECK(!spin_card_memory(w.card, 1, SPIN_ME_HOST, &bytes));
    CHECK_EQ(run(&w, nothing), SPIN_EARG);
    CHECK_EQ(run(&w, (struct spin_card_options){.traffic = "gen:", .next = next}), SPIN_EARG);
    CHECK_EQ(run(&w, (struct spin_card_options){.traffic = "gen:packets=x"}), SPIN_EARG);
    const char *more[70] = {NULL};
    for (int i = 0; i < 69; i++)
        more[i] = "gen:packets=2";
    gen.more_traffic = more;
    CHECK_EQ(run(&w, gen), SPIN_ELIMIT);
    CHECK_HAS(err.text, "more than 64 traffic specs");
    gen.more_traffic = NULL;
    CHECK_EQ(spin_card_match(w.card, "rules", "any -> ctx1", &err), SPIN_EFORMAT);
    CHECK_HAS(err.text, "rules:1:");
    GOOD(spin_card_match(w.card, "rules", "any -> ctx0", &err));
    CHECK_EQ(spin_card_match(w.card, "rules", "any -> ctx0", &err), SPIN_EARG);
    GOOD(run(&w, gen)); /* errors before a run leave the card as it was */
    CHECK_EQ(w.result.completed, 2);
    int rows = 0;
    while (spin_card_parameter(w.card, rows, &row))
        rows++;
    CHECK(rows > 30);
    unload(&w);
}

/* Messages that never end, and more of them than queues. */
TEST(a_card_that_is_stuck_can_only_be_freed) {
    load(&w, "empty", "empty_ph", NULL);
    GOOD(spin_card_set(w.card, "queues=2", &err));
    GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
    GOOD(spin_card_match(w.card, "rules", "udp.len=100-200 -> ctx0; any -> drop", &err));
    CHECK_EQ(run(&w, (struct spin_card_options){.next = next}), SPIN_OK); /* all dropped */
    unload(&w);
    load(&w, "empty", "empty_ph", NULL);
    GOOD(spin_card_set(w.card, "queues=2", &err));
    GOOD(spin_card_add_context(w.card, &w.context, &w.number, &err));
    CHECK_EQ(run(&w, (struct spin_card_options){.next = next}), SPIN_EDEADLOCK);
    CHECK_HAS(err.text, "set a message queue timeout");
    CHECK_EQ(run(&w, (struct spin_card_options){.next = next}), SPIN_EARG);
    unload(&w);
}

TEST_MAIN
