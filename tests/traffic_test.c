/* Traffic: the generator, the traces, captures in and out. */
#include "lib/test.h"

#include <unistd.h>

#include "nic/capture.h"
#include "sim/traffic.h"

static struct spin_error err;
static char folder[] = "/tmp/openspin-traffic-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[4][100];
    static int turn;
    static bool is_made;
    turn = (turn + 1) % 4;
    if (!is_made && !mkdtemp(folder))
        TEST_FAIL("no folder for files");
    is_made = true;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static struct traffic *open_or_fail(const char *spec) {
    struct traffic *t;
    if (traffic_open(&t, spec, &err) != SPIN_OK)
        TEST_FAIL("%s: %s", spec, err.text);
    return t;
}

static void refused(const char *spec, int code, const char *why) {
    struct traffic *t;
    int got = traffic_open(&t, spec, &err);
    if (got == SPIN_OK)
        TEST_FAIL("%s is taken", spec);
    CHECK(!t);
    CHECK(!strchr(err.text, '\n'));
    CHECK_HAS(err.text, why);
    CHECK_EQ(got, code);
}

static bool next(struct traffic *t, struct traffic_packet *p) {
    int code = traffic_next(t, p, &err);
    if (code < 0)
        TEST_FAIL("%s", err.text);
    return code == 1;
}

static void write_file(const char *name, const void *bytes, size_t length) {
    FILE *f = fopen(in_folder(name), "wb");
    if (!f || fwrite(bytes, 1, length, f) != length || fclose(f))
        TEST_FAIL("cannot write %s", name);
}

static const char *spec(const char *format, const char *name) {
    static char text[300];
    snprintf(text, sizeof text, format, in_folder(name));
    return text;
}

/* FNV over everything that a source gives. */
static uint64_t digest(const char *text) {
    struct traffic *t = open_or_fail(text);
    struct traffic_packet p;
    uint64_t h = 14695981039346656037ull;
    while (next(t, &p)) {
        for (uint32_t i = 0; i < p.length; i++)
            h = (h ^ p.bytes[i]) * 1099511628211ull;
        h = (h ^ p.arrival_ps ^ (uint64_t)p.message << 40 ^ p.end_of_message) * 1099511628211ull;
    }
    traffic_close(t);
    return h;
}

TEST(generated_packets_are_right) {
    struct traffic *t = open_or_fail("gen:messages=3,packets=5,size=1024,rate=400Gbit/s");
    struct traffic_packet p;
    CHECK_EQ(traffic_packets(t), 15);
    CHECK_EQ(traffic_link(t), NIC_LINK_IP);
    for (uint32_t n = 0; n < 15; n++) {
        CHECK(next(t, &p));
        CHECK_EQ(p.arrival_ps, n * 20480ull); /* 1024 B at 20 ps per byte */
        CHECK_EQ(p.length, 1024);
        CHECK_EQ(p.copy_bytes, 1024);
        CHECK_EQ(p.message, n / 5);
        CHECK_EQ(p.end_of_message, n % 5 == 4);
        struct nic_headers h = headers_find(NIC_LINK_IP, p.bytes, p.length);
        CHECK_EQ(h.fault, HEADERS_NONE);
        CHECK_EQ(h.payload, 28);
        CHECK_EQ(h.payload_bytes, 996);
        CHECK_EQ(headers_checksum(0, p.bytes, 20), 0);
        CHECK_EQ(headers_number(p.bytes + 22, 2), 4791);
    }
    CHECK(!next(t, &p));
    CHECK(!next(t, &p));
    traffic_close(t);
}

TEST(parts_of_a_picosecond_add_up) {
    /* 300 Gbit/s is 26.667 ps per byte: 26667 fs */
    struct traffic *t = open_or_fail("gen:packets=1001,size=101,rate=300Gbit/s");
    struct traffic_packet p = {0};
    while (next(t, &p))
        ;
    CHECK_EQ(p.arrival_ps, 1000ull * 101 * 26667 / 1000);
    traffic_close(t);
}

TEST(gaps_of_packets_and_messages) {
    struct traffic *t =
        open_or_fail("gen:messages=2,packets=2,size=64,rate=none,gap=20ns,message_gap=1us,start=5");
    struct traffic_packet p;
    const uint64_t arrival[] = {5000, 25000, 1025000, 1045000};
    for (int i = 0; i < 4; i++) {
        CHECK(next(t, &p));
        CHECK_EQ(p.arrival_ps, arrival[i]);
    }
    traffic_close(t);
}

TEST(messages_interleave_and_flows_repeat) {
    struct traffic *t = open_or_fail("gen:messages=5,packets=2,interleave=3,flows=2,size=100");
    struct traffic_packet p;
    const uint32_t message[] = {0, 1, 2, 0, 1, 2, 3, 4, 3, 4};
    for (int i = 0; i < 10; i++) {
        CHECK(next(t, &p));
        CHECK_EQ(p.message, message[i]);
        CHECK_EQ(p.flow, message[i] % 2);
        CHECK_EQ(p.end_of_message, i >= 3 && i != 6 && i != 7);
        CHECK_EQ(headers_number(p.bytes + 12, 4), 0x0a000001 + p.flow);
    }
    CHECK(!next(t, &p));
    traffic_close(t);
}

TEST(sizes_and_arrivals_are_distributed) {
    struct traffic_packet p;
    uint64_t n = 20000, sum = 0, count = 0;
    struct traffic *t = open_or_fail("gen:packets=20000,size=64-1500,payload=zero");
    uint32_t least = 9999, most = 0;
    while (next(t, &p)) {
        sum += p.length;
        least = p.length < least ? p.length : least;
        most = p.length > most ? p.length : most;
    }
    traffic_close(t);
    CHECK_EQ(least, 64);
    CHECK_EQ(most, 1500);
    CHECK(sum > n * 770 && sum < n * 794); /* the mean is 782 */
    t = open_or_fail("gen:packets=20000,size=imix,link=eth,payload=zero");
    uint64_t shares[3] = {0};
    while (next(t, &p)) {
        CHECK(p.length == 54 || p.length == 590 || p.length == 1514);
        shares[p.length == 54 ? 0 : p.length == 590 ? 1 : 2]++;
        count += headers_find(NIC_LINK_ETHERNET, p.bytes, p.length).fault != HEADERS_NONE;
    }
    traffic_close(t);
    CHECK_EQ(count, 0);
    CHECK(shares[0] > n * 56 / 100 && shares[0] < n * 61 / 100); /* 7 of 12 */
    CHECK(shares[2] > n * 7 / 100 && shares[2] < n * 10 / 100);  /* 1 of 12 */
    t = open_or_fail("gen:packets=20000,size=1000,rate=100Gbit/s,arrivals=poisson,payload=zero");
    uint64_t before = 0, longer = 0;
    while (next(t, &p)) {
        longer += p.arrival_ps - before > 80000;
        before = p.arrival_ps;
    }
    traffic_close(t);
    CHECK(before > n * 78400 && before < n * 81600);           /* the mean is 80 ns */
    CHECK(longer > n * 355 / 1000 && longer < n * 380 / 1000); /* 1/e of them are longer */
}

TEST(the_seed_decides) {
    const char *a = "gen:packets=200,size=imix,arrivals=poisson,seed=3";
    CHECK(digest(a) == digest(a));
    CHECK(digest(a) != digest("gen:packets=200,size=imix,arrivals=poisson,seed=4"));
    CHECK(digest("gen:payload=count") == digest("gen:payload=count,seed=9"));
}

TEST(bad_generators_are_refused) {
    refused("gen:size=27", SPIN_EARG, "size: 27 is outside 28 (the headers) to 65535");
    refused("gen:size=41,link=eth", SPIN_EARG, "outside 42");
    refused("gen:size=65536", SPIN_EARG, "to 65535 bytes");
    refused("gen:size=500-100", SPIN_EARG, "upside down");
    refused("gen:size=big", SPIN_EARG, "'big' is not a size");
    refused("gen:messages=0", SPIN_EARG, "messages: 0 is outside 1 to");
    refused("gen:rate=400furlong", SPIN_EARG, "'400furlong' is not a rate");
    refused("gen:rate=", SPIN_EARG, "'' is not a rate");
    refused("gen:speed=4", SPIN_EARG, "unknown option 'speed'; there are messages, packets, size");
    refused("gen:poisson", SPIN_EARG, "'poisson': expected NAME=VALUE");
    refused("gen:arrivals=late", SPIN_EARG, "'late' is not constant or poisson");
    refused("gen:payload=x", SPIN_EARG, "'x' is not random, zero or count");
    refused("gen:link=x", SPIN_EARG, "'x' is not ip or eth");
    refused("gen:headers=x", SPIN_EARG, "'x' is not internet or pspin");
    refused("gen:headers=pspin,link=eth", SPIN_EARG, "headers=pspin goes with link=ip only");
    refused("gen:port=70000", SPIN_EARG, "70000 is outside 0 to 65535");
    refused("tcpdump:x", SPIN_EARG, "unknown traffic 'tcpdump'; there are gen:");
    refused("", SPIN_EARG, "unknown traffic ''");
    refused("pcap", SPIN_EARG, "which file?");
    refused("trace:,x=1", SPIN_EARG, "which file?");
    struct traffic *t = open_or_fail("gen:packets=1000,gap=2000000s");
    struct traffic_packet p;
    int code;
    while ((code = traffic_next(t, &p, &err)) > 0)
        ;
    CHECK_EQ(code, SPIN_ELIMIT);
    CHECK_HAS(err.text, "beyond the limit of 53 days");
    traffic_close(t);
}

TEST(text_traces) {
    const char text[] =
        "2 3 1024\n0 7 64 10 5 0\n\n1 8 1024 0 6 1\r\n0 0 0 100 0 0\n0 7 20 5 5 1\n";
    write_file("t", text, strlen(text));
    struct traffic *t = open_or_fail(spec("trace:%s", "t"));
    struct traffic_packet p;
    CHECK_EQ(traffic_packets(t), 3);
    CHECK(next(t, &p));
    CHECK_EQ(p.arrival_ps, 0);
    CHECK_EQ(p.length, 64);
    CHECK_EQ(p.message, 5);
    CHECK_EQ(p.end_of_message, false);
    CHECK(memcmp(p.bytes, "\x54\0\x40\0", 4) == 0); /* PsPIN's own form: little-endian */
    CHECK(memcmp(p.bytes + 16, "\7\0\0\0", 4) == 0);
    CHECK(memcmp(p.bytes + 24, "\x2c\0", 2) == 0);
    CHECK(next(t, &p));
    CHECK_EQ(p.arrival_ps, 10000);
    CHECK_EQ(p.flow, 1);
    CHECK_EQ(p.message, 6);
    CHECK_EQ(p.end_of_message, true);
    CHECK(next(t, &p));
    CHECK_EQ(p.arrival_ps, 111000); /* a gap of 0 is one cycle, and then the pause */
    CHECK_EQ(p.length, 20);
    CHECK(!next(t, &p));
    traffic_close(t);
    /* At 100 Gbit/s the 1,024 bytes take 81.92 ns. */
    t = open_or_fail(spec("trace:%s,rate=100Gbit/s,cycle=2ns,headers=internet", "t"));
    CHECK(next(t, &p));
    CHECK_EQ(headers_number(p.bytes + 16, 4), 7);
    CHECK_EQ(headers_find(NIC_LINK_IP, p.bytes, p.length).payload_bytes, 36);
    CHECK(next(t, &p));
    CHECK_EQ(p.arrival_ps, 20000);
    CHECK(next(t, &p));
    CHECK_EQ(p.arrival_ps, 20000 + 81920 + 200000);
    traffic_close(t);
}

/* As PsPIN's own generator writes them: addresses with dots, and ids of more than 10 bits. */
TEST(text_traces_with_addresses) {
    const char text[] = "2 3 1500\n192.168.0.1 192.168.0.3 1500 0 4150502774 0\n"
                        "10.0.0.7 192.168.0.3 64 0 2914720491 1\n0 0 0 100 0 0\n";
    write_file("t", text, strlen(text));
    struct traffic *t = open_or_fail(spec("trace:%s,headers=internet", "t"));
    struct traffic_packet p;
    CHECK_EQ(traffic_packets(t), 2);
    CHECK(next(t, &p));
    CHECK_EQ(headers_number(p.bytes + 12, 4), 0xc0a80001);
    CHECK_EQ(headers_number(p.bytes + 16, 4), 0xc0a80003);
    CHECK_EQ(p.message, 4150502774u % 1024);
    CHECK(next(t, &p));
    CHECK_EQ(p.flow, 0x0a000007);
    CHECK_EQ(p.message, 2914720491u % 1024);
    traffic_close(t);
}

TEST(bad_text_traces_are_refused_with_the_line) {
    const struct {
        const char *text, *why;
    } cases[] = {
        {"", "file is empty"},
        {"\n\n", "the trace is empty"},
        {"1 1\n", "t:1:4: expected 3 numbers"},
        {"1 1 x\n", "t:1:5: expected 3 numbers"},
        {"1 1 70000\n", "t:1: max_pkt_size 70000 is over the limit of 65535"},
        {"1 1 64\n0 0 64 0 0\n", "t:2:11: expected 6 numbers up to 4294967295 (src dst"},
        {"1 1 64\n0 0 64 0 0 1 2\n", "t:2:14: more than 6 numbers"},
        {"1 1 64\n0 0 64 0 0 2\n", "t:2: is_last 2 is neither 0 nor 1"},
        {"1 1 64\n1 0 64 0 0 1\n", "t:2: src 1 does not exist: nsources is 1"},
        {"1 1 64\n0 0 65 0 0 1\n", "t:2: pkt_size 65 is over max_pkt_size 64"},
        {"1 1 64\n0 0 -4 0 0 1\n", "t:2:5: expected 6 numbers"},
        {"1 1 64\n10.0.0 0 64 0 0 1\n", "t:2:8: expected 6 numbers"},
        {"1 1 64\n10.0.0.256 0 64 0 0 1\n", "t:2:11: expected 6 numbers"},
        {"1 1 64\n10.0.0.1.2 0 64 0 0 1\n", "t:2:9: expected 6 numbers"},
        {"1 1 64\n0 0 6x 0 0 1\n", "t:2:6: expected 6 numbers"},
        {"1 1 64\n0 0 99999999999 0 0 1\n", "t:2:5: expected 6 numbers"},
        {"1 2 64\n0 0 64 0 0 1\n", "t:1: npackets is 2, but the trace has 1 packets and 0 pauses"},
        {"1 0 64\n", "the trace holds no packet"},
        {"1 1 64\n0 0 0 5 0 1\n", "the trace holds no packet"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file("t", cases[i].text, strlen(cases[i].text));
        struct traffic *t;
        CHECK(traffic_open(&t, spec("trace:%s", "t"), &err) < 0);
        CHECK_HAS(err.text, cases[i].why);
    }
    refused("trace:/nowhere/t", SPIN_EFILE, "/nowhere/t: cannot open packet trace");
    write_file("t", "1 1 64\n0 0 64 0 0 1\n", 20);
    refused(spec("trace:%s,headers=x", "t"), SPIN_EARG, "'x' is not pspin or internet");
    refused(spec("trace:%s,speed=1", "t"), SPIN_EARG, "unknown option 'speed'");
}

TEST(csv_traces) {
    const char rows[] = "3,486539264,256,486539520,512,0,0,469762048,64,5,4,0,20\n"
                        "3,486539264,256,486539520,512,0,0,469762048,64,3,3,1,0\n";
    char both[300];
    write_file("c", rows, strlen(rows));
    write_file("d", "abcdefgh", 8);
    snprintf(both, sizeof both, "csv:%s,%s", in_folder("c"), in_folder("d"));
    struct traffic *t = open_or_fail(both);
    struct traffic_packet p;
    CHECK_EQ(traffic_packets(t), 2);
    CHECK(next(t, &p));
    CHECK(p.length == 5 && memcmp(p.bytes, "abcde", 5) == 0);
    CHECK_EQ(p.copy_bytes, 4);
    CHECK_EQ(p.message, 3);
    CHECK_EQ(p.handlers->header_address, 0x1d000100 - 256);
    CHECK_EQ(p.handlers->payload_bytes, 512);
    CHECK_EQ(p.handlers->memory_address, 0x1c000000);
    CHECK(next(t, &p));
    CHECK(p.length == 3 && memcmp(p.bytes, "fgh", 3) == 0);
    CHECK_EQ(p.arrival_ps, 20000);
    CHECK(p.end_of_message);
    CHECK(!next(t, &p));
    traffic_close(t);
    char named[400]; /* with the names of the columns */
    snprintf(named, sizeof named,
             "msgid,hh_addr,hh_size,ph_addr,ph_size,th_addr,th_size,hmem_addr,hmem_size,pkt_size,"
             "pkt_xfer_size,eom,wait_cycles\n%s",
             rows);
    write_file("c", named, strlen(named));
    t = open_or_fail(both);
    CHECK_EQ(traffic_packets(t), 2);
    CHECK(next(t, &p) && p.length == 5 && next(t, &p) && p.length == 3 && !next(t, &p));
    traffic_close(t);
    write_file("d", "abcdefg", 7);
    refused(both, SPIN_EFORMAT, "c:3: the packet's 3 bytes are not in");
    write_file("c", rows, strlen(rows));
    refused(both, SPIN_EFORMAT, "c:2: the packet's 3 bytes are not in");
    write_file("d", "abcdefghi", 9);
    refused(both, SPIN_EFORMAT, "do they belong together?");
    write_file("c", "1,2,3\n", 6);
    refused(both, SPIN_EFORMAT, "c:1:6: expected 13 numbers");
    write_file("c", "1,2,3,4,5,6,7,8,9,0,0,0,0\n", 26);
    refused(both, SPIN_EFORMAT, "c:1: pkt_size 0 is outside 1 to");
    write_file("c", "1,2,3,4,5,6,7,8,9,2,3,0,0\n", 26);
    refused(both, SPIN_EFORMAT, "c:1: pkt_xfer_size 3 is over pkt_size 2");
    refused(spec("csv:%s", "c"), SPIN_EARG, "where are the packets' bytes?");
}

/* Writes what a source gives, and checks that the file gives it again. */
static void round_trip(const char *text, const char *name) {
    struct traffic *t = open_or_fail(text), *again;
    struct traffic_packet p, q;
    struct capture c;
    CHECK_EQ(capture_open(&c, in_folder(name), traffic_link(t), &err), SPIN_OK);
    while (next(t, &p))
        capture_write(&c, 123456789000 + p.arrival_ps / 1000, p.bytes, p.length, NULL);
    CHECK_EQ(c.packets, traffic_packets(t));
    CHECK(access(in_folder(name), F_OK) != 0); /* not before it is complete */
    CHECK_EQ(capture_close(&c, true, &err), SPIN_OK);
    again = open_or_fail(spec("pcap:%s", name));
    CHECK_EQ(traffic_link(again), traffic_link(t));
    CHECK_EQ(traffic_packets(again), traffic_packets(t));
    CHECK_EQ(traffic_cut_packets(again), 0);
    traffic_close(t);
    t = open_or_fail(text);
    while (next(t, &p)) {
        CHECK(next(again, &q));
        CHECK_EQ(q.arrival_ps, p.arrival_ps / 1000 * 1000);
        CHECK_EQ(q.length, p.length);
        CHECK(memcmp(q.bytes, p.bytes, p.length) == 0);
    }
    CHECK(!next(again, &q));
    traffic_close(t);
    traffic_close(again);
    unlink(in_folder(name));
}

TEST(captures_are_read_as_they_were_written) {
    round_trip("gen:packets=50,size=28-200,arrivals=poisson", "a.pcap");
    round_trip("gen:packets=50,size=42-200,arrivals=poisson,link=eth", "a.pcap");
    round_trip("gen:packets=50,size=28-200,arrivals=poisson", "a.pcapng");
    round_trip("gen:packets=50,size=42-200,arrivals=poisson,link=eth", "a.pcapng");
    round_trip("gen:packets=3,size=65535", "a.pcapng");
    struct capture c;
    CHECK_EQ(capture_open(&c, "/nowhere/a.pcap", NIC_LINK_IP, &err), SPIN_EFILE);
    CHECK_EQ(capture_open(&c, in_folder("b.pcap"), NIC_LINK_IP, &err), SPIN_OK);
    CHECK_EQ(capture_close(&c, false, &err), SPIN_OK);
    CHECK(access(in_folder("b.pcap"), F_OK) != 0);
}

/* Messages and ends of a capture, as "0 1 0. 1." */
static void check_messages(const char *text, const char *want) {
    struct traffic *t = open_or_fail(text);
    struct traffic_packet p;
    char got[200] = "";
    while (next(t, &p))
        sprintf(got + strlen(got), "%s%u%s", got[0] ? " " : "", p.message,
                p.end_of_message ? "." : "");
    traffic_close(t);
    CHECK_STR(got, want);
}

TEST(messages_of_a_capture) {
    /* Two flows that take turns, 6 packets each, 10 ns apart, but 1 us before the last 4. */
    struct traffic *t = open_or_fail("gen:messages=2,flows=2,packets=6,interleave=2,size=100,"
                                     "rate=none,gap=10ns,link=eth");
    struct traffic_packet p;
    struct capture c;
    CHECK_EQ(capture_open(&c, in_folder("m.pcap"), NIC_LINK_ETHERNET, &err), SPIN_OK);
    for (int i = 0; next(t, &p); i++)
        capture_write(&c, p.arrival_ps / 1000 + (i >= 8 ? 1000 : 0), p.bytes, p.length, NULL);
    CHECK_EQ(capture_close(&c, true, &err), SPIN_OK);
    traffic_close(t);
    check_messages(spec("pcap:%s", "m.pcap"), "0 1 0 1 0 1 0 1 0 1 0. 1.");
    check_messages(spec("pcap:%s,messages=4", "m.pcap"), "0 1 0 1 0 1 0. 1. 2 3 2. 3.");
    check_messages(spec("pcap:%s,messages=1", "m.pcap"), "0. 1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11.");
    check_messages(spec("pcap:%s,messages=gap:500ns", "m.pcap"), "0 1 0 1 0 1 0. 1. 2 3 2. 3.");
    check_messages(spec("pcap:%s,limit=3", "m.pcap"), "0 1. 0.");
    refused(spec("pcap:%s,messages=often", "m.pcap"), SPIN_EARG, "'often' is not flow");
    refused(spec("pcap:%s,messages=0", "m.pcap"), SPIN_EARG, "'0' is not flow");
    /* A rate takes the place of the times; without its Ethernet header a packet is an IP one. */
    t = open_or_fail(spec("pcap:%s,rate=400Gbit/s,link=ip", "m.pcap"));
    CHECK_EQ(traffic_link(t), NIC_LINK_IP);
    CHECK(next(t, &p) && next(t, &p));
    CHECK_EQ(p.length, 86);
    CHECK_EQ(p.arrival_ps, 86 * 20);
    CHECK_EQ(headers_find(NIC_LINK_IP, p.bytes, p.length).fault, HEADERS_NONE);
    traffic_close(t);
}

TEST(bad_captures_are_refused) {
    uint8_t file[5000];
    struct capture c;
    CHECK_EQ(capture_open(&c, in_folder("b.pcap"), NIC_LINK_ETHERNET, &err), SPIN_OK);
    capture_write(&c, 5, (const uint8_t *)"twenty bytes of data", 20, NULL);
    capture_write(&c, 4, (const uint8_t *)"twenty bytes of data", 20, NULL);
    CHECK_EQ(capture_close(&c, true, &err), SPIN_OK);
    FILE *f = fopen(in_folder("b.pcap"), "rb");
    size_t length = fread(file, 1, sizeof file, f);
    fclose(f);
    CHECK_EQ(length, 24 + 2 * (16 + 20));
    /* Time that goes back stands still. */
    struct traffic *t = open_or_fail(spec("pcap:%s", "b.pcap"));
    struct traffic_packet p;
    CHECK(next(t, &p) && next(t, &p));
    CHECK_EQ(p.arrival_ps, 0);
    traffic_close(t);
    refused("pcap:/nowhere/x.pcap", SPIN_EFILE, "/nowhere/x.pcap: cannot open capture");
    refused("pcap:/tmp", SPIN_EFILE, "/tmp: is no regular file");
    for (size_t cut = 1; cut < length; cut++) {
        struct traffic *none;
        write_file("cut.pcap", file, cut);
        if (cut == 24 + 36)
            continue; /* whole: one packet */
        CHECK(traffic_open(&none, spec("pcap:%s", "cut.pcap"), &err) < 0);
        CHECK_HAS(err.text, cut < 24    ? "cut.pcap: no pcap or pcapng capture"
                            : cut == 24 ? "the capture holds no packet"
                            : cut < 60  ? "cut.pcap: packet 1: truncated"
                                        : "cut.pcap: packet 2: truncated");
    }
    file[32] = 12; /* the first is captured with 12 of its bytes */
    memmove(file + 52, file + 60, 36);
    write_file("short.pcap", file, 88);
    t = open_or_fail(spec("pcap:%s", "short.pcap"));
    CHECK_EQ(traffic_cut_packets(t), 1);
    CHECK(next(t, &p));
    CHECK_EQ(p.length, 12);
    traffic_close(t);
    refused(spec("pcap:%s,link=ip", "short.pcap"), SPIN_EFORMAT, "packet 1 holds 12 bytes");
    file[20] = 105; /* IEEE 802.11 */
    write_file("wifi.pcap", file, 88);
    refused(spec("pcap:%s", "wifi.pcap"), SPIN_EFORMAT, "expected Ethernet or raw IP");
}

int main(int argc, char **argv) {
    int status = test_main(argc, argv);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (folder[strlen(folder) - 1] != 'X' && system(command) != 0)
        status = 1;
    return status;
}
