/* What the use cases of SC'17 take on both kinds of cards, to the picosecond: who changes a time
 * that nobody meant to change learns it here, and one who means to finds the new ones in what is
 * printed.
 */
#include <inttypes.h>

#include "lib/worlds.h"

#include "base/temporary.h"

TEST(times_of_use_cases) {
    static const struct {
        int (*run)(const struct p4_setup *, struct p4_outcome *, struct spin_error *);
        enum p4_variant variant;
        uint32_t ranks, bytes;
    } cases[] = {
        {p4_pingpong, P4_RDMA, 0, 8},          {p4_pingpong, P4_TRIGGERED, 0, 70000},
        {p4_pingpong, P4_STORE, 4, 4097},      {p4_pingpong, P4_STREAM, 0, 70000},
        {p4_accumulate, P4_RDMA, 0, 20000},    {p4_accumulate, P4_STREAM, 0, 20000},
        {p4_broadcast, P4_TRIGGERED, 8, 9000}, {p4_broadcast, P4_STORE, 8, 20000},
        {p4_broadcast, P4_STREAM, 16, 20000},  {p4_strided, P4_STREAM, 0, 70000},
        {p4_raid, P4_STREAM, 0, 4096},
    };
    enum { CASES = sizeof cases / sizeof *cases, MOST_SET = 9 };
    static const struct {
        const char *preset, *set[MOST_SET];
        uint64_t time_ps[CASES];
    } worlds[] = {
        {"sc17-int",
         {NULL},
         {438767, 1751794, 473615, 1053635, 4887870, 5253108, 1494826, 2258616, 2359592, 1850794,
          9572463}},
        {"sc17-dis",
         {"hpus=2", "handler_packets=2", "turn_packets=1"},
         {1038909, 2327977, 1046532, 1390448, 5556506, 9801030, 3271181, 3864524, 2955908, 2526977,
          11118288}},
        {"sc17-int",
         {"loss=0.05", "duplication=0.05", "reordering=0.1", "reorder_delay=5us",
          "retry_timeout=20us", "retries=20", "window=8"},
         {1094485, 4456786, 12024321, 2953165, 9704890, 8127336, 10649963, 29098152, 54369525,
          6697965, 9572463}},
        {"sc17-int",
         {"card=pspin"},
         {350000, 1864000, 684000, 1307500, 4985398, 7439000, 1873000, 3341000, 4241000, 2107000,
          28959000}},
        {"sc17-int",
         {"card=pspin", "pspin.clusters=1", "pspin.l2_packet_bytes=16KiB", "pspin.hpu_commands=2"},
         {350000, 1864000, 684000, 1307500, 4985398, 12882000, 1873000, 3341000, 4236000, 2109000,
          28959000}},
        {"sc17-int",
         {"card=pspin", "header=500", "handler_packets=1"},
         {360000, 2034000, 694000, 1970000, 5035398, 7449000, 1903000, 3371000, 4572000, 2276000,
          28999000}},
        {"sc17-int",
         {"card=pspin", "header=2000", "handler_packets=2"},
         {390000, 2544000, 724000, 1667500, 5185398, 7481000, 2083000, 3656000, 4564000, 2783000,
          29119000}},
    };
    uint32_t others = 0;
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
        uint64_t time_ps[CASES];
        bool same = true;
        for (int i = 0; i < CASES; i++) {
            struct p4_setup s = setup_of(cases[i].variant, worlds[w].preset, cases[i].bytes);
            s.ranks = cases[i].ranks;
            s.world.set = worlds[w].set;
            while (s.world.set_count < MOST_SET && worlds[w].set[s.world.set_count])
                s.world.set_count++;
            time_ps[i] = run_case(cases[i].run, &s).time_ps;
            same &= time_ps[i] == worlds[w].time_ps[i];
        }
        if (same)
            continue;
        others++;
        printf("# world %zu:", w);
        for (int i = 0; i < CASES; i++)
            printf(" %" PRIu64 ",", time_ps[i]);
        printf("\n");
    }
    CHECK_EQ(others, 0);
}

/* Three packets of one put leave one after the other, each for as long as its bytes and its header
 * take at 50 GB/s. */
TEST(a_header_takes_time_at_the_port_of_its_card) {
    static const char *const set[] = {"header=1000"};
    enum { HEADER = 1000, MTU = 4096, LAST = 1808, PS_PER_BYTE = 20 };
    struct p4_setup s = setup_of(P4_RDMA, "sc17-int", 2 * MTU + LAST);
    struct temporary folder;
    struct spin_error err;
    char path[PATH_MAX + 8], line[400];
    CHECK_EQ(temporary_make(&folder, &err), 0);
    snprintf(path, sizeof path, "%s/trace", folder.path);
    s.world.set = set;
    s.world.set_count = 1;
    s.world.trace = path;
    run_case(p4_pingpong, &s);
    FILE *trace = fopen(path, "r");
    CHECK(trace);
    uint32_t sent = 0;
    uint64_t end_ps = 0;
    while (fgets(line, sizeof line, trace)) {
        double at_us, took_us;
        const char *send = strstr(line, "\"name\":\"send\",\"pid\":0,");
        if (!send)
            continue;
        CHECK_EQ(sscanf(strstr(send, "\"ts\""), "\"ts\":%lf,\"dur\":%lf", &at_us, &took_us), 2);
        uint64_t at_ps = (uint64_t)(at_us * 1e6 + 0.5), took_ps = (uint64_t)(took_us * 1e6 + 0.5);
        CHECK_EQ(at_ps, sent ? end_ps : at_ps);
        CHECK_EQ(took_ps, ((sent++ < 2 ? MTU : LAST) + HEADER) * PS_PER_BYTE);
        end_ps = at_ps + took_ps;
    }
    fclose(trace);
    temporary_remove(&folder);
    CHECK_EQ(sent, 3);
}

TEST_MAIN
