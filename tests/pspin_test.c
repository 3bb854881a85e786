/* Programs for PsPIN's RTL model on libpspin: every workload driven through pspinsim.h on the whole
 * card, the callbacks, packet traces, ticks, and what is refused. */
#include "lib/test.h"

#include <pspinsim.h>
#include <unistd.h>

#include "workload.h"

#define HANDLER_MEMORY (L2_HND_BUFF_START + 0x1000) /* a driver's choice */
#define PAD            0x2000u                      /* likewise: an offset */
#define PAD_ADDRESS(i) (L1_CLUSTER_BASE(i) + L1_SCRATCHPAD_OFFSET + PAD)

static uint8_t *host; /* what the driver offers to the card */
static size_t host_bytes;
static struct workload_run *run;
static uint64_t feedbacks, feedback_sum_ps, out_packets, out_of_host, written, completed[2];
static uint64_t last_feedback[3], first_nic_ps, last_nic_ps;

static void on_out(uint8_t *data, size_t len) {
    out_packets++;
    if (run)
        workload_sent(run, 0, data, (uint32_t)len);
}
static void on_write(uint64_t addr, uint8_t *data, size_t len) {
    written++;
    if (addr - PCIE_START_ADDR > host_bytes || len > host_bytes - (addr - PCIE_START_ADDR))
        out_of_host++;
    else
        memcpy(host + (addr - PCIE_START_ADDR), data, len);
}
static void on_read(uint64_t addr, uint8_t *data, size_t len) {
    if (addr - PCIE_START_ADDR > host_bytes || len > host_bytes - (addr - PCIE_START_ADDR))
        out_of_host++;
    else
        memcpy(data, host + (addr - PCIE_START_ADDR), len);
}
static void on_feedback(uint64_t user_ptr, uint64_t nic, uint64_t arrival, uint64_t feedback) {
    if (!feedbacks++)
        first_nic_ps = nic;
    last_nic_ps = nic;
    feedback_sum_ps += feedback - nic;
    last_feedback[0] = user_ptr;
    last_feedback[1] = arrival - nic;
    last_feedback[2] = feedback - nic;
}
static void on_mst_write(void *user) {
    completed[0] += (uintptr_t)user;
}
static void on_mst_read(void *user) {
    completed[1] += (uintptr_t)user;
}

/* Standard output belongs to TAP: what pspinsim_fini prints goes to the file `statistics`. */
static char statistics[400];
static int fini(void) {
    FILE *out = tmpfile();
    fflush(stdout);
    int old = dup(1);
    dup2(fileno(out), 1);
    int code = pspinsim_fini();
    fflush(stdout);
    dup2(old, 1);
    close(old);
    rewind(out);
    size_t length = fread(statistics, 1, sizeof statistics - 1, out);
    statistics[length] = 0;
    fclose(out);
    return code;
}

static void init(void) {
    pspin_conf_t conf;
    feedbacks = feedback_sum_ps = out_packets = out_of_host = written = 0;
    completed[0] = completed[1] = 0;
    pspinsim_default_conf(&conf);
    conf.slm_files_path = "build/slm_files"; /* is not there; the RTL would need it */
    CHECK_EQ(pspinsim_init(0, NULL, &conf), SPIN_SUCCESS);
    pspinsim_cb_set_pkt_out(on_out);
    pspinsim_cb_set_pcie_slv_write(on_write);
    pspinsim_cb_set_pcie_slv_read(on_read);
    pspinsim_cb_set_pcie_mst_write_completion(on_mst_write);
    pspinsim_cb_set_pcie_mst_read_completion(on_mst_read);
    pspinsim_cb_set_pkt_feedback(on_feedback);
}

static void find(const char *image, const char *name, mem_addr_t *addr, mem_size_t *size) {
    char path[4096];
    spin_nic_addr_t at;
    size_t bytes;
    snprintf(path, sizeof path, IMAGES "/%s.spin", image);
    if (!name)
        return;
    CHECK_EQ(spin_find_handler_by_name(path, name, &at, &bytes), SPIN_SUCCESS);
    *addr = at;
    *size = (mem_size_t)bytes;
}

static spin_ec_t context(const struct workload_context *c) {
    mem_addr_t at[3] = {0};
    mem_size_t size[3] = {0};
    find(c->image, c->header, &at[0], &size[0]);
    find(c->image, c->payload, &at[1], &size[1]);
    find(c->image, c->completion, &at[2], &size[2]);
    spin_ec_t ec = {.handler_mem_addr = HANDLER_MEMORY,
                    .handler_mem_size = c->handler_bytes,
                    .host_mem_addr = PCIE_START_ADDR,
                    .host_mem_size = c->host_bytes,
                    .hh_addr = at[0],
                    .hh_size = size[0],
                    .ph_addr = at[1],
                    .ph_size = size[1],
                    .th_addr = at[2],
                    .th_size = size[2]};
    for (uint32_t i = 0; i < NUM_CLUSTERS; i++) {
        ec.scratchpad_addr[i] = PAD;
        ec.scratchpad_size[i] = c->scratchpad_bytes;
    }
    return ec;
}

static uint8_t *fetch(uint32_t address, uint32_t bytes) {
    uint8_t *copy = calloc(1, bytes + 1);
    if (bytes)
        CHECK_EQ(spin_nicmem_read(address, copy, bytes, (void *)1), SPIN_SUCCESS);
    return copy;
}

static void drive(const char *name, const char *const *settings, uint64_t seed, bool by_ticks) {
    struct spin_error err;
    struct workload_packet p;
    int count = 0;
    while (settings && settings[count])
        count++;
    if (workload_open(&run, name, settings, count, seed, &err))
        TEST_FAIL("%.300s", err.text);
    const struct workload_context *c = workload_context(run);
    init();
    host_bytes = c->host_bytes;
    host = calloc(1, host_bytes);
    if (c->host_memory)
        memcpy(host, c->host_memory, host_bytes);
    spin_ec_t ec = context(c);
    if (c->handler_memory)
        spin_nicmem_write(HANDLER_MEMORY, (void *)(uintptr_t)c->handler_memory, c->handler_bytes,
                          (void *)1);
    for (int i = 0; c->scratchpad && i < NUM_CLUSTERS; i++)
        spin_nicmem_write(PAD_ADDRESS(i), (void *)(uintptr_t)c->scratchpad, c->scratchpad_bytes,
                          (void *)1);
    uint64_t packets = 0;
    while (workload_next(run, &p)) {
        packets++;
        CHECK_EQ(pspinsim_packet_add(&ec, p.message % 1024, (uint8_t *)(uintptr_t)p.data, p.bytes,
                                     p.bytes, p.last, 0, packets),
                 SPIN_SUCCESS);
    }
    pspinsim_packet_eos();
    if (by_ticks) {
        uint8_t done = 0;
        for (uint64_t tick = 0; !done && tick < 10000000; tick++)
            CHECK_EQ(pspinsim_run_tick(&done), SPIN_SUCCESS);
        CHECK(done);
    } else {
        CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    }
    CHECK_EQ(feedbacks, packets);
    CHECK_EQ(out_of_host, 0);
    struct workload_results results = {.host_memory = host,
                                       .handler_memory = fetch(HANDLER_MEMORY, c->handler_bytes)};
    for (int i = 0; i < NUM_CLUSTERS; i++)
        results.scratchpad[i] = fetch(PAD_ADDRESS(i), c->scratchpad_bytes);
    if (workload_check(run, &results, &err))
        TEST_FAIL("%.400s", err.text);
    free((void *)(uintptr_t)results.handler_memory);
    for (int i = 0; i < NUM_CLUSTERS; i++)
        free((void *)(uintptr_t)results.scratchpad[i]);
    free(host);
    workload_close(run);
    run = NULL;
}

static void end(void) {
    CHECK_EQ(fini(), SPIN_SUCCESS);
}

/* A quarter of the paper's sizes, on 32 HPUs, back to back. */
TEST(every_workload_on_the_whole_card) {
    static const struct {
        const char *name, *settings[3];
    } cases[] = {
        {"aggregate", {"bytes=256KiB", NULL}},
        {"copy_from_host", {"packets=128", NULL}},
        {"copy_to_host", {"packets=128", NULL}},
        {"copy_to_host", {"packets=128", "apart=0", NULL}},
        {"empty", {"packets=128", "messages=9", NULL}},
        {"filtering", {"messages=128", NULL}},
        {"histogram", {"messages=128", NULL}},
        {"host_direct", {"packets=128", NULL}},
        {"kvstore", {"requests=300", NULL}},
        {"ping_pong", {"packets=128", NULL}},
        {"reduce", {"packets=128", NULL}},
        {"remote_write", {"messages=40", NULL}},
        {"strided_ddt", {"bytes=256KiB", NULL}},
        {"synthetic", {"packets=128", "instructions=333", NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint64_t seed = 1; seed <= 2; seed++) {
            drive(cases[i].name, cases[i].settings, seed, false);
            end();
        }
}

TEST(ticks_do_the_same) {
    static const char *const settings[] = {"packets=40", NULL};
    drive("reduce", settings, 3, true);
    end();
    drive("ping_pong", settings, 3, true);
    end();
}

TEST(callbacks_and_statistics) {
    static const char *const settings[] = {"packets=40", NULL};
    drive("ping_pong", settings, 1, false);
    CHECK_EQ(out_packets, 40);
    CHECK_EQ(last_feedback[0], 40);
    CHECK(last_feedback[1] > 0 && last_feedback[1] < last_feedback[2]);
    end();
    CHECK_HAS(statistics, "packets: 40 in, 40 completed, 0 dropped, 40 out\n");
    CHECK_HAS(statistics, "payload handlers: 40, mean 25.0 instructions");
    drive("host_direct", settings, 1, false);
    CHECK_EQ(written, 40);
    end();
}

/* The RTL: one message of 32 reduce packets of 1,024 B. A handler takes 1,267 instructions and
 * 2,020 cycles, 3 of each in the runtime's call. */
TEST(reduce_costs_what_it_costs_in_the_rtl) {
    static const char *const settings[] = {"packets=32", "words=249", "unrolled=0", NULL};
    double instructions = 0, cycles = 0;
    drive("reduce", settings, 1, false);
    end();
    const char *line = strstr(statistics, "payload handlers: 32, mean ");
    CHECK(line && sscanf(line, "payload handlers: 32, mean %lf instructions, %lf cycles",
                         &instructions, &cycles) == 2);
    printf("# reduce on 32 HPUs: %.1f instructions (RTL 1267), %.1f cycles (RTL 2020)\n",
           instructions + 3, cycles + 3);
    CHECK(instructions + 3 > 0.98 * 1267 && instructions + 3 < 1.02 * 1267);
    CHECK(cycles + 3 > 0.9 * 2020 && cycles + 3 < 1.1 * 2020);
}

/* Completions of the host's own transfers come with their pointers, in time. */
TEST(memory_of_the_card) {
    uint32_t value = 0x12345678, back = 0;
    uint8_t done;
    init();
    CHECK_EQ(spin_nicmem_write(L2_HND_BUFF_START + 64, &value, 4, (void *)5), SPIN_SUCCESS);
    CHECK_EQ(spin_nicmem_write(L1_CLUSTER_BASE(3) + L1_SCRATCHPAD_OFFSET, &value, 4, (void *)6),
             SPIN_SUCCESS);
    CHECK_EQ(completed[0], 0);
    CHECK_EQ(pspinsim_run_tick(&done), SPIN_SUCCESS);
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(completed[0], 11);
    CHECK_EQ(spin_nicmem_read(L1_CLUSTER_BASE(3) + L1_SCRATCHPAD_OFFSET, &back, 4, (void *)7),
             SPIN_SUCCESS);
    CHECK_EQ(back, value);
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(completed[1], 7);
    /* the last word of the packet buffer, and no further */
    uint32_t last = L2_PKT_BUFF_START + L2_PKT_BUFF_SIZE - 4;
    CHECK_EQ(spin_nicmem_write(last, &back, 4, NULL), SPIN_SUCCESS);
    back = 0;
    CHECK_EQ(spin_nicmem_read(last, &back, 4, NULL), SPIN_SUCCESS);
    CHECK_EQ(back, value);
    CHECK_EQ(spin_nicmem_read(last + 4, &back, 4, NULL), SPIN_ERR);
    end();
}

/* The RTL: an empty handler, one packet of 1,024 B every 200 ns: 62 ns from NIC arrival, 32 ns at
 * 64 B. */
TEST(latency_of_an_unloaded_card) {
    static const struct { uint32_t bytes, ns; } cases[] = {{64, 32}, {1024, 62}};
    for (size_t i = 0; i < 2; i++) {
        struct workload_context c = {.image = "empty", .payload = "empty_ph", .host_bytes = 64};
        uint8_t data[1024] = {0};
        init();
        spin_ec_t ec = context(&c);
        for (int n = 0; n < 20; n++)
            CHECK_EQ(pspinsim_packet_add(&ec, 1, data, cases[i].bytes, cases[i].bytes, n == 19, 200,
                                         (uint64_t)n),
                     SPIN_SUCCESS);
        pspinsim_packet_eos();
        CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
        CHECK_EQ(feedbacks, 20);
        CHECK(llabs((long long)last_feedback[2] / 1000 - (long long)cases[i].ns) <= 3);
        end();
    }
}

static void write_file(const char *path, const void *bytes, size_t length) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, length, f) == length);
    fclose(f);
}

TEST(packet_traces) {
    char csv[600], path[] = "/tmp/pspin-trace-XXXXXX", bytes_path[40];
    uint8_t bytes[300];
    spin_ec_t ec;
    struct workload_context c = {.image = "empty", .payload = "empty_ph", .host_bytes = 64};
    close(mkstemp(path));
    snprintf(bytes_path, sizeof bytes_path, "%s.bin", path);
    memset(bytes, 7, sizeof bytes);
    init();
    ec = context(&c);
    int length =
        snprintf(csv, sizeof csv,
                 "msgid,hh_addr,hh_size,ph_addr,ph_size,th_addr,th_size,hmem_addr,"
                 "hmem_size,pkt_size,pkt_xfer_size,eom,wait_cycles\n"
                 "3,0,0,%u,%u,0,0,%u,64,100,100,0,500\n3,0,0,%u,%u,0,0,%u,64,200,64,1,9\n",
                 ec.ph_addr, ec.ph_size, HANDLER_MEMORY, ec.ph_addr, ec.ph_size, HANDLER_MEMORY);
    write_file(path, csv, (size_t)length);
    write_file(bytes_path, bytes, sizeof bytes);
    CHECK_EQ(pspinsim_packet_trace_read(path, bytes_path), SPIN_SUCCESS);
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(feedbacks, 2);
    CHECK_EQ(last_nic_ps - first_nic_ps, 500000); /* from arrival to arrival, as in the RTL */
    /* Bytes that are not there, and rows that are none. */
    write_file(bytes_path, bytes, 299);
    CHECK_EQ(pspinsim_packet_trace_read(path, bytes_path), SPIN_ERR);
    write_file(path, "1,2,3\n", 6);
    CHECK_EQ(pspinsim_packet_trace_read(path, bytes_path), SPIN_ERR);
    CHECK_EQ(pspinsim_packet_trace_read("/nowhere", bytes_path), SPIN_ERR);
    unlink(path);
    unlink(bytes_path);
    end();
}

/* ---- What drivers of its examples rely on ------------------------------------------------------
 */

static uint64_t told[64][2]; /* what handlers wrote to the host: address and value */
static uint32_t tellings;
static void on_told(uint64_t addr, uint8_t *data, size_t len) {
    CHECK_EQ(len, 8);
    told[tellings % 64][0] = addr;
    memcpy(&told[tellings++ % 64][1], data, 8);
}

/* A context as the usual driver has it: two of them share the card's memories. */
static spin_ec_t usual(const char *payload, uint32_t number) {
    spin_nic_addr_t at = 1;
    size_t size = 1;
    CHECK_EQ(spin_find_handler_by_name(getenv("DRIVEN_IMAGE"), payload, &at, &size), SPIN_SUCCESS);
    spin_ec_t ec = {.handler_mem_addr = 0x1c300000 + number * (512 << 10),
                    .handler_mem_size = 512 << 10,
                    .host_mem_addr = 0xdeadbeefdeadbeefull + number * (512ull << 20),
                    .host_mem_size = 512 << 20,
                    .ph_addr = at,
                    .ph_size = (mem_size_t)size};
    for (int i = 0; i < NUM_CLUSTERS; i++) {
        ec.scratchpad_addr[i] = number * 409600;
        ec.scratchpad_size[i] = 409600;
    }
    return ec;
}

static void send_one(spin_ec_t *ec, uint32_t message, uint32_t wait) {
    uint8_t data[64] = {0x54, 0, 64, 0};
    CHECK_EQ(pspinsim_packet_add(ec, message, data, sizeof data, sizeof data, 1, wait, 0),
             SPIN_SUCCESS);
}

TEST(contexts_have_their_memory_where_the_driver_says) {
    init();
    pspinsim_cb_set_pcie_slv_write(on_told);
    spin_ec_t ec[2] = {usual("where_ph", 0), usual("where_ph", 1)};
    uint32_t first = 40, pads = 0, back;
    tellings = 0;
    CHECK_EQ(spin_nicmem_write(ec[1].handler_mem_addr, &first, 4, NULL), SPIN_SUCCESS);
    for (int i = 0; i < 4; i++)
        send_one(&ec[i % 2], (uint32_t)i, 500); /* one after the other */
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(feedbacks, 4); /* no context lost its first packet */
    CHECK_EQ(tellings, 8);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t where = told[2 * i][1], after = told[2 * i + 1][1];
        CHECK_EQ(told[2 * i][0], ec[i % 2].host_mem_addr);
        CHECK_EQ((uint32_t)where, ec[i % 2].handler_mem_addr);
        CHECK_EQ(where >> 32, L1_CLUSTER_BASE(i) + L1_SCRATCHPAD_OFFSET + i % 2 * 409600);
        CHECK_EQ(after >> 32, 409600);
        CHECK_EQ((uint32_t)after, i + 1); /* contexts of one image share its variables */
        CHECK_EQ(spin_nicmem_read((uint32_t)(where >> 32), &back, 4, NULL), SPIN_SUCCESS);
        pads += back;
    }
    CHECK_EQ(pads, 4);
    CHECK_EQ(spin_nicmem_read(ec[1].handler_mem_addr, &back, 4, NULL), SPIN_SUCCESS);
    CHECK_EQ(back, 42);
    end();
}

/* In the RTL a context comes with each packet: a driver may give every message host memory of its
 * own.
 */
TEST(a_context_for_each_message) {
    init();
    pspinsim_cb_set_pcie_slv_write(on_told);
    spin_ec_t ec = usual("where_ph", 0);
    tellings = 0;
    for (uint32_t i = 0; i < 300; i++) {
        ec.host_mem_addr = 4096 * i;
        send_one(&ec, i, 500);
    }
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(feedbacks, 300);
    CHECK_EQ(tellings, 600);
    CHECK_EQ(told[(tellings - 2) % 64][0] / 4096, 299);
    end();
}

TEST(a_refused_context_leaves_nothing_behind) {
    init();
    spin_ec_t bad = usual("where_ph", 0), good = bad;
    uint8_t data[64] = {0};
    bad.ph_addr = 0x1d007ff0; /* nothing is there */
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pspinsim_packet_add(&bad, 1, data, 64, 64, 1, 0, 0), SPIN_ERR);
    send_one(&good, 1, 0);
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(feedbacks, 1);
    end();
}

/* The RTL checks neither the host's addresses nor the end of handler memory. */
TEST(limits_that_the_rtl_does_not_check) {
    init();
    pspinsim_cb_set_pcie_slv_write(on_told);
    spin_ec_t ec = usual("beyond_ph", 0);
    uint32_t value = 4711;
    tellings = 0;
    CHECK_EQ(spin_nicmem_write(0x1c300000 + (512 << 10), &value, 4, NULL), SPIN_SUCCESS);
    send_one(&ec, 4150502774u, 0); /* of a wide id the low 10 bits count */
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(feedbacks, 1);
    CHECK_EQ(told[0][0], 0xdeadbeef);
    CHECK_EQ(told[0][1], 4711);
    CHECK_EQ(told[1][1], 4150502774u % 1024);
    end();
}

/* Before L2's, or behind it: then the handler has none of it, wherever it looks. */
TEST(handler_memory_that_is_none) {
    static const uint32_t outside[] = {L2_HND_BUFF_START - 8,
                                       L2_HND_BUFF_START + L2_HND_BUFF_SIZE + (1 << 20)};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        init();
        pspinsim_cb_set_pcie_slv_write(on_told);
        spin_ec_t ec = usual("beyond_ph", 0);
        uint32_t middle = ec.handler_mem_addr + ec.handler_mem_size;
        ec.handler_mem_addr = outside[i];
        ec.handler_mem_size = middle - outside[i];
        send_one(&ec, 1, 0);
        pspinsim_packet_eos();
        CHECK_EQ(pspinsim_run(), SPIN_ERR);
        end();
        CHECK_HAS(statistics, "faults: 1");
    }
}

TEST(task_registers_ignore_writes) {
    init();
    pspinsim_cb_set_pcie_slv_write(on_told);
    spin_ec_t ec = usual("registers_ph", 0);
    tellings = 0;
    send_one(&ec, 5, 0);
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(told[0][1], 1ull << 32 | 5);
    end();
}

TEST(commands_by_the_registers_of_pspin) {
    init();
    pspinsim_cb_set_pcie_slv_write(on_told);
    spin_ec_t ec = usual("by_hand_ph", 0);
    tellings = 0;
    send_one(&ec, 5, 0);
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(tellings, 5);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(told[i][0], ec.host_mem_addr + 8 * i);
        CHECK_EQ(told[i][1], 0x89abcdefull << 32 | i);
    }
    CHECK_EQ(told[4][1], 4);
    CHECK_EQ(out_packets, 1);
    end();
}

/* In the RTL the file is in memory before the driver does anything. */
TEST(variables_are_found_by_name_and_filled_before_the_first_packet) {
    spin_nic_addr_t setting = 0, table = 0;
    size_t bytes = 0;
    uint32_t value = 40, back[3] = {0};
    const char *image = getenv("DRIVEN_IMAGE");
    CHECK_EQ(spin_find_handler_by_name(image, "setting", &setting, &bytes), SPIN_SUCCESS);
    CHECK_EQ(bytes, 4); /* before there is a card */
    init();
    pspinsim_cb_set_pcie_slv_write(on_told);
    CHECK_EQ(spin_find_handler_by_name(image, "table", &table, &bytes), SPIN_SUCCESS);
    CHECK_EQ(table, 0x1c300000);
    CHECK_EQ(bytes, 12);
    CHECK_EQ(spin_nicmem_read(table, back, 12, NULL), SPIN_SUCCESS);
    CHECK_EQ(back[2], 3);
    CHECK_EQ(spin_nicmem_read(setting, back, 4, NULL), SPIN_SUCCESS);
    CHECK_EQ(back[0], 7);
    CHECK_EQ(spin_nicmem_write(setting, &value, 4, NULL), SPIN_SUCCESS);
    spin_ec_t ec[2] = {usual("given_ph", 0), usual("given_ph", 1)};
    tellings = 0;
    send_one(&ec[0], 1, 500);
    send_one(&ec[1], 2, 0); /* its handler memory begins behind the table */
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(tellings, 4);
    CHECK_EQ(told[0][1], 40ull << 32 | 0xdeadbeef);
    CHECK_EQ(told[1][1], 1ull << 32 | 0x1c300000);
    CHECK_EQ(told[2][1], 41ull << 32 | 0xdeadbeef);
    CHECK_EQ(told[3][1], 0x1c300000);
    CHECK_EQ(spin_nicmem_read(table, back, 12, NULL), SPIN_SUCCESS);
    CHECK_EQ(back[2], 5);
    end();
}

TEST(a_handler_that_is_not_there_is_not_run) {
    spin_nic_addr_t at = 1;
    size_t size = 1;
    init();
    CHECK_EQ(spin_find_handler_by_name(getenv("DRIVEN_IMAGE"), "none_th", &at, &size),
             SPIN_SUCCESS);
    CHECK_EQ(at, 0);
    CHECK_EQ(size, 0);
    spin_ec_t ec = usual("where_ph", 0), none = usual("none_ph", 1);
    ec.th_addr = at;
    send_one(&ec, 1, 0);
    send_one(&none, 2, 0);
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(feedbacks, 2);
    end();
    CHECK_HAS(statistics, "payload handlers: 1,");
}

/* wait_cycles runs from this arrival to the next; with 0 one packet arrives a cycle, and waits for
 * the inbound engine, which takes 16 cycles for each. */
TEST(arrivals_follow_wait_cycles) {
    static const struct {
        uint32_t wait, gap, queued;
    } cases[] = {{200, 200, 0}, {1, 1, 15}, {0, 1, 15}};
    for (size_t i = 0; i < 3; i++) {
        struct workload_context c = {.image = "empty", .payload = "empty_ph", .host_bytes = 64};
        uint8_t data[1024] = {0};
        init();
        spin_ec_t ec = context(&c);
        for (int n = 0; n < 32; n++)
            CHECK_EQ(pspinsim_packet_add(&ec, 1, data, 1024, 1024, n == 31, cases[i].wait, 0),
                     SPIN_SUCCESS);
        pspinsim_packet_eos();
        CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
        CHECK_EQ(feedbacks, 32);
        CHECK_EQ(last_nic_ps - first_nic_ps, 31000 * cases[i].gap);
        uint64_t waited = 31 * cases[i].queued * 1000;
        CHECK(last_feedback[2] >= 55000 + waited && last_feedback[2] <= 70000 + waited);
        end();
    }
}

/* One for which there is no room in L2 arrives when there is: in the RTL no latency grows beyond
 * what 4 MiB of packets take. */
TEST(no_packet_arrives_without_room) {
    struct workload_context c = {.image = "empty", .payload = "empty_ph", .host_bytes = 64};
    uint8_t data[1024] = {0};
    init();
    spin_ec_t ec = context(&c);
    for (int n = 0; n < 6000; n++)
        CHECK_EQ(pspinsim_packet_add(&ec, 1, data, 1024, 1024, n == 5999, 0, 0), SPIN_SUCCESS);
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_SUCCESS);
    CHECK_EQ(feedbacks, 6000);
    CHECK(last_feedback[2] > 60000000 && last_feedback[2] < 67000000); /* 4096 packets of 16 ns */
    end();
}

TEST(what_is_refused) {
    uint8_t data[64] = {0}, done;
    spin_nic_addr_t at;
    size_t size;
    spin_ec_t ec = {.ph_addr = 0x1d000000, .ph_size = 4};
    CHECK_EQ(pspinsim_run(), SPIN_ERR);
    CHECK_EQ(pspinsim_run_tick(&done), SPIN_ERR);
    CHECK_EQ(pspinsim_packet_add(&ec, 1, data, 64, 64, 1, 0, 0), SPIN_ERR);
    CHECK_EQ(pspinsim_packet_trace_read("a", "b"), SPIN_ERR);
    CHECK_EQ(spin_nicmem_write(L2_HND_BUFF_START, data, 64, NULL), SPIN_ERR);
    CHECK_EQ(pspinsim_fini(), SPIN_ERR);
    init();
    CHECK_EQ(pspinsim_init(0, NULL, NULL), SPIN_ERR);                       /* there is one */
    CHECK_EQ(pspinsim_packet_add(&ec, 1, data, 64, 64, 1, 0, 0), SPIN_ERR); /* no image */
    CHECK_EQ(spin_find_handler_by_name(IMAGES "/none.spin", "x_ph", &at, &size), SPIN_ERR);
    CHECK_EQ(spin_nicmem_write(L2_HND_BUFF_START + L2_HND_BUFF_SIZE - 4, data, 8, NULL), SPIN_ERR);
    struct workload_context c = {.image = "empty", .payload = "empty_ph", .host_bytes = 64};
    ec = context(&c);
    CHECK_EQ(pspinsim_packet_add(&ec, 1, data, 0, 0, 1, 0, 0), SPIN_ERR);
    CHECK_EQ(pspinsim_packet_add(&ec, 1, data, 40000, 64, 1, 0, 0), SPIN_ERR); /* for an L1 */
    end();
}

TEST(a_fault_is_told) {
    /* reduce without scratchpads stores where it has nothing. */
    struct workload_context c = {.image = "reduce", .payload = "reduce_ph", .host_bytes = 64};
    uint8_t data[64] = {0x54, 0, 64, 0};
    init();
    spin_ec_t ec = context(&c);
    CHECK_EQ(pspinsim_packet_add(&ec, 1, data, 64, 64, 1, 0, 0), SPIN_SUCCESS);
    pspinsim_packet_eos();
    CHECK_EQ(pspinsim_run(), SPIN_ERR);
    end();
    CHECK_HAS(statistics, "faults: 1");
}

TEST_MAIN
