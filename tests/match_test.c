/* The match-action table: its text, and its verdicts against a slow and obvious implementation. */
#include "lib/test.h"

#include "base/rng.h"
#include "nic/match.h"

static struct spin_error err;

static struct nic_match *table(const char *text, uint32_t contexts) {
    struct nic_match *m;
    if (nic_match_parse(&m, "rules", text, strlen(text), contexts, &err) != SPIN_OK)
        TEST_FAIL("'%s' is refused: %s", text, err.text);
    return m;
}

static void refused(const char *text, const char *why) {
    struct nic_match *m;
    if (nic_match_parse(&m, "rules", text, strlen(text), 2, &err) == SPIN_OK)
        TEST_FAIL("'%s' is taken", text);
    CHECK(!m);
    CHECK(!strchr(err.text, '\n'));
    CHECK_HAS(err.text, why);
}

/* 10.0.0.1:1000 -> 10.0.0.2:port, `length` bytes with headers. */
static void udp(uint8_t *bytes, enum nic_link link, uint32_t length, uint16_t port) {
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i * 7);
    headers_write_udp(link, bytes, length,
                      &(struct headers_udp){0x0a000001, 0x0a000002, 1000, port, 7});
}

static int target(const char *text, enum nic_link link, const uint8_t *bytes, uint32_t length) {
    struct nic_match *m = table(text, 8);
    int to = nic_match_packet(m, link, bytes, length).target;
    nic_match_free(m);
    return to;
}

TEST(written_headers_are_found_with_right_checksums) {
    uint8_t bytes[200];
    for (uint32_t length = 42; length < 200; length++) {
        udp(bytes, NIC_LINK_ETHERNET, length, 4791);
        struct nic_headers h = headers_find(NIC_LINK_ETHERNET, bytes, length);
        CHECK_EQ(h.fault, HEADERS_NONE);
        CHECK_EQ(h.ethernet, 0);
        CHECK_EQ(h.ipv4, 14);
        CHECK_EQ(h.udp, 34);
        CHECK_EQ(h.payload, 42);
        CHECK_EQ(h.payload_bytes, length - 42);
        CHECK_EQ(headers_number(bytes + 16, 2), length - 14);
        CHECK_EQ(headers_checksum(0, bytes + 14, 20), 0);
        /* pseudo header: the addresses, 17, and the UDP length */
        uint32_t pseudo = 0x0a00 + 1 + 0x0a00 + 2 + 17 + (length - 34);
        CHECK_EQ(headers_checksum(pseudo, bytes + 34, length - 34), 0);
        bytes[40] ^= 1;
        CHECK(headers_checksum(pseudo, bytes + 34, length - 34) != 0);
    }
}

TEST(fields_masks_and_ranges) {
    uint8_t b[100];
    enum nic_link eth = NIC_LINK_ETHERNET;
    udp(b, eth, 100, 4791);
    CHECK_EQ(target("udp.dport=4791 -> ctx1", eth, b, 100), 1);
    CHECK_EQ(target("udp.dport=0x12b7 -> ctx1", eth, b, 100), 1);
    CHECK_EQ(target("udp.dport=4790 -> ctx1", eth, b, 100), NIC_TO_HOST);
    CHECK_EQ(target("\tudp.dport\t=\t4791\t->\tctx1\r\n", eth, b, 100), 1);
    CHECK_EQ(target("udp.dport=4000-4791->ctx1", eth, b, 100), 1);
    CHECK_EQ(target("udp.dport=4792-5000 -> ctx1", eth, b, 100), NIC_TO_HOST);
    CHECK_EQ(target("ipv4.src=10.0.0.1 & udp.sport=1000 -> ctx3", eth, b, 100), 3);
    CHECK_EQ(target("ipv4.src=10.0.0.1 & udp.sport=1001 -> ctx3", eth, b, 100), NIC_TO_HOST);
    CHECK_EQ(target("ipv4.dst=10.9.9.9/8 -> ctx3", eth, b, 100), 3);
    CHECK_EQ(target("ipv4.dst=10.0.0.0/31 -> ctx3", eth, b, 100), NIC_TO_HOST);
    CHECK_EQ(target("ipv4.dst=1.2.3.4/0 -> ctx3", eth, b, 100), 3);
    CHECK_EQ(target("ipv4.dst=10.0.0.2/32 -> ctx3", eth, b, 100), 3);
    CHECK_EQ(target("ipv4.dst=11.0.0.2/32 -> ctx3", eth, b, 100), NIC_TO_HOST);
    CHECK_EQ(target("ipv4.dst=11.0.0.2/33 -> ctx3", eth, b, 100), 3); /* a mask: bits 0 and 5 */
    CHECK_EQ(target("raw[65535:1]=0 -> ctx3", eth, b, 100), NIC_TO_HOST);
    CHECK_EQ(target("ipv4.dst=10.255.0.2/255.0.0.255 -> ctx3", eth, b, 100), 3);
    CHECK_EQ(target("eth.src=02:00:0a:00:00:01 -> drop", eth, b, 100), NIC_TO_DROP);
    CHECK_EQ(target("eth.type=0x800 & ipv4.proto=17 & ipv4.ttl=64 -> ctx0", eth, b, 100), 0);
    CHECK_EQ(target("tcp.dport=4791 -> ctx0", eth, b, 100), NIC_TO_HOST);
    CHECK_EQ(target("raw[36:2]=4791 -> ctx0", eth, b, 100), 0);
    CHECK_EQ(target("raw[36:2]=0x1200/0xff00 -> ctx0", eth, b, 100), 0);
    CHECK_EQ(target("udp[2:2]=4791 -> ctx0", eth, b, 100), 0);
    CHECK_EQ(target("payload[0:1]=38 -> ctx0", eth, b, 100), (42 * 7 & 255) == 38 ? 0 : -1);
    CHECK_EQ(target("raw[92:8]=0-0xffffffffffffffff -> ctx0", eth, b, 100), 0);
    CHECK_EQ(target("raw[93:8]=0-0xffffffffffffffff -> ctx0", eth, b, 100), NIC_TO_HOST);
    CHECK_EQ(target("eth.type=0x800 -> ctx0", NIC_LINK_IP, b + 14, 86), NIC_TO_HOST);
    CHECK_EQ(target("udp.len=66 -> ctx0", NIC_LINK_IP, b + 14, 86), 0);
}

TEST(fields_are_listed_by_their_names) {
    const char *name, *what;
    uint32_t count = 0, ports = 0;
    for (; nic_match_field(count, &name, &what); count++) {
        char rule[100];
        struct nic_match *m;
        snprintf(rule, sizeof rule, "%s=1 -> ctx0", name);
        CHECK_EQ(nic_match_parse(&m, "rule", rule, strlen(rule), 1, NULL), 0);
        nic_match_free(m);
        CHECK(strlen(what) > 3);
        ports += strcmp(name, "udp.dport") == 0;
    }
    CHECK(count > 5);
    CHECK_EQ(ports, 1);
}

TEST(the_first_rule_that_holds_decides) {
    uint8_t b[60];
    udp(b, NIC_LINK_IP, 60, 9);
    struct nic_match *m = table("# a table\n\n udp.dport=8 -> ctx0 ; udp.dport=9 -> host # two\n"
                                "ipv4.proto=17 -> ctx1\nany -> drop",
                                2);
    CHECK_EQ(nic_match_rules(m), 4);
    CHECK_STR(nic_match_rule_text(m, 1), "udp.dport=9 -> host");
    struct nic_verdict v = nic_match_packet(m, NIC_LINK_IP, b, 60);
    CHECK_EQ(v.rule, 1);
    CHECK_EQ(v.target, NIC_TO_HOST);
    udp(b, NIC_LINK_IP, 60, 10);
    v = nic_match_packet(m, NIC_LINK_IP, b, 60);
    CHECK_EQ(v.rule, 2);
    CHECK_EQ(v.target, 1);
    b[9] = 6; /* TCP, whose header then lies: malformed, and only `any` holds */
    v = nic_match_packet(m, NIC_LINK_IP, b, 60);
    CHECK_EQ(v.rule, 3);
    CHECK_EQ(v.target, NIC_TO_DROP);
    CHECK(v.fault != HEADERS_NONE);
    nic_match_free(m);
}

TEST(packets_that_lie_have_no_headers) {
    uint8_t b[100];
    const struct {
        uint32_t at;
        uint8_t value;
        enum headers_fault fault;
    } lies[] = {
        {14, 0x55, HEADERS_IP_VERSION},     {14, 0x44, HEADERS_IPV4_HEADER_LENGTH},
        {16, 0xff, HEADERS_IPV4_LENGTH},    {17, 19, HEADERS_IPV4_LENGTH},
        {38, 0xff, HEADERS_UDP_LENGTH},     {39, 7, HEADERS_UDP_LENGTH},
        {39, 67, HEADERS_UDP_LENGTH},       {17, 27, HEADERS_UDP_CUT},
        {23, 6, HEADERS_TCP_HEADER_LENGTH},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        udp(b, NIC_LINK_ETHERNET, 100, 5);
        if (b[lies[i].at] == lies[i].value)
            TEST_FAIL("lie %zu changes nothing", i);
        b[lies[i].at] = lies[i].value;
        struct nic_headers h = headers_find(NIC_LINK_ETHERNET, b, 100);
        if (h.fault != lies[i].fault)
            TEST_FAIL("lie %zu: %s", i, headers_fault_text(h.fault));
        CHECK_EQ(target("ipv4.src=0.0.0.0/0 -> ctx0; eth.type=0-65535 -> ctx1", NIC_LINK_ETHERNET,
                        b, 100),
                 NIC_TO_HOST);
    }
    /* Every cut of a good packet, in a block of just that size for the sanitizer. */
    for (uint32_t length = 0; length < 100; length++) {
        udp(b, NIC_LINK_ETHERNET, 100, 5);
        uint8_t *cut = malloc(length ? length : 1);
        memcpy(cut, b, length);
        enum headers_fault fault = headers_find(NIC_LINK_ETHERNET, cut, length).fault;
        free(cut);
        CHECK_EQ(fault, length == 0   ? HEADERS_EMPTY
                        : length < 14 ? HEADERS_ETHERNET_CUT
                        : length < 34 ? HEADERS_IPV4_CUT
                                      : HEADERS_IPV4_LENGTH);
    }
}

TEST(tags_fragments_and_padding) {
    uint8_t b[100], tagged[108];
    udp(b, NIC_LINK_ETHERNET, 100, 5);
    memcpy(tagged, b, 12);
    memcpy(tagged + 12, (uint8_t[]){0x88, 0xa8, 0x20, 7, 0x81, 0, 0x30, 9}, 8);
    memcpy(tagged + 20, b + 12, 88);
    CHECK_EQ(
        target("vlan.id=7 & eth.type=0x800 & udp.dport=5 -> ctx0", NIC_LINK_ETHERNET, tagged, 108),
        0);
    CHECK_EQ(target("vlan.id=9 -> ctx0", NIC_LINK_ETHERNET, tagged, 108), NIC_TO_HOST);
    /* A shorter datagram in the same frame: the rest is padding, no payload. */
    udp(b, NIC_LINK_IP, 40, 5);
    CHECK_EQ(headers_find(NIC_LINK_IP, b, 60).payload_bytes, 12);
    CHECK_EQ(target("payload[8:4]=0-0xffffffff -> ctx0", NIC_LINK_IP, b, 60), 0);
    CHECK_EQ(target("payload[9:4]=0-0xffffffff -> ctx0", NIC_LINK_IP, b, 60), NIC_TO_HOST);
    b[7] = 1; /* a later fragment: its first bytes are no UDP header */
    CHECK_EQ(target("udp.dport=5 -> ctx0", NIC_LINK_IP, b, 40), NIC_TO_HOST);
    CHECK_EQ(target("ipv4.frag=1 & payload[2:2]=5 -> ctx0", NIC_LINK_IP, b, 40), 0);
}

TEST(errors_say_line_and_column) {
    refused("", "rules: no rule");
    refused("# nothing\n", "rules: no rule");
    refused("udp.dport=4791", "rules:1:15: expected '&' or '->'");
    refused("any -> ctx0\nudp.port=1 -> ctx0", "rules:2:1: expected a field such as udp.dport");
    refused("udp.dport=99999 -> ctx0", "rules:1:11: 99999 (0x1869f) is over the field's limit of");
    refused("udp.dport=x -> ctx0", "rules:1:11: expected a number, found 'x'");
    refused("udp.dport=9-5 -> ctx0", "rules:1:13: the range ends below its start");
    refused("udp.dport -> ctx0", "rules:1:11: expected '=', found '->'");
    refused("udp.dport=1/ -> ctx0", "rules:1:13: expected a mask");
    refused("udp.dport=1/0x10000 -> ctx0", "rules:1:13: 65536 (0x10000) is over the field's limit");
    refused("udp.dport=x\x7f -> ctx0", "found 'x'");
    refused("vlan.id=4096 -> ctx0", "limit of 4095");
    refused("vlan.id=1-4096 -> ctx0", "rules:1:11: 4096 (0x1000) is over the field's limit of");
    refused("vlan.id=1a -> ctx0", "rules:1:9: expected a number, found '1a'");
    refused("raw[65536:1]=5 -> ctx0", "rules:1:5: the offset is over the limit");
    refused("ipv4.src=10.0.0.256 -> ctx0",
            "rules:1:10: expected an address such as 10.0.0.1, found '10.0.0.256'");
    refused("raw[1:9]=5 -> ctx0", "rules:1:7: 1 to 8 bytes");
    refused("raw[70000:1]=5 -> ctx0", "rules:1:5: the offset is over the limit");
    refused("raw[1]=5 -> ctx0", "rules:1:6: expected ':'");
    refused("frame[1:1]=5 -> ctx0", "rules:1:1: expected raw[");
    refused("any -> ctx2", "rules:1:8: ctx2 does not exist: there are 2 contexts");
    refused("any -> ctx", "rules:1:8: expected ctx0");
    refused("any -> hosts", "rules:1:12: expected the end of the rule, found 's'");
    refused("any & udp.dport=5 -> host", "rules:1:5: expected '->'");
    refused("raw[0:1]=1&raw[0:1]=1&raw[0:1]=1&raw[0:1]=1&raw[0:1]=1&raw[0:1]=1&raw[0:1]=1&"
            "raw[0:1]=1&raw[0:1]=1 -> host",
            "a rule has at most 8 terms");
    char many[300 * 12] = "";
    for (int i = 0; i < 257; i++)
        strcat(many, "any->host\n");
    refused(many, "rules:257:1: over the limit of 256 rules");
    struct nic_match *m;
    CHECK_EQ(nic_match_parse(&m, "rules", "any\0->ctx0", 10, 1, &err), SPIN_EFORMAT);
    CHECK_EQ(nic_match_read(&m, "/nowhere/rules", 1, &err), SPIN_EFILE);
}

/* ---- the slow way: headers by a walk of their own, terms by name, bits one by one ---- */

struct wish { /* a term, before it is text */
    const char *field;
    uint64_t low, high, mask;
    int how; /* 0 value, 1 value/mask, 2 range */
};

/* Byte i of the header `part`, or -1. */
static int slow_byte(enum nic_link link, const uint8_t *b, int length, char part, int i) {
    int ip = 0, type = -1, vlan = -1;
    if (part == 'r')
        return i < length ? b[i] : -1;
    if (link == NIC_LINK_ETHERNET) {
        if (length < 14)
            return -1;
        type = 12;
        for (int k = 0; k < 2; k++)
            if ((b[type] == 0x81 && b[type + 1] == 0) || (b[type] == 0x88 && b[type + 1] == 0xa8)) {
                if (length < type + 6)
                    return -1;
                vlan = vlan < 0 ? type : vlan;
                type += 4;
            }
        ip = type + 2;
    }
    bool is_ip = link == NIC_LINK_IP ? length > 0 && b[0] >> 4 == 4 : b[type] == 8 && !b[type + 1];
    if (link == NIC_LINK_IP && (length == 0 || (b[0] >> 4 != 4 && b[0] >> 4 != 6)))
        return -1;
    int udp = -1, tcp = -1;
    if (is_ip) {
        if (length < ip + 20 || b[ip] >> 4 != 4)
            return -1;
        int head = (b[ip] & 15) * 4, total = b[ip + 2] * 256 + b[ip + 3];
        if (head < 20 || ip + head > length || total < head || ip + total > length)
            return -1;
        bool later = (b[ip + 6] & 0x1f) || b[ip + 7], more = b[ip + 6] & 0x20;
        int at = ip + head, room = total - head;
        if (!later && b[ip + 9] == 17) {
            if (room < 8)
                return -1;
            int said = b[at + 4] * 256 + b[at + 5];
            if (said < 8 || (!more && said > room))
                return -1;
            udp = at;
        }
        if (!later && b[ip + 9] == 6) {
            if (room < 20 || (b[at + 12] >> 4) < 5 || (b[at + 12] >> 4) * 4 > room)
                return -1;
            tcp = at;
        }
    }
    int at = part == 'e'   ? (link == NIC_LINK_ETHERNET ? 0 : -1)
             : part == 'y' ? type
             : part == 'v' ? vlan
             : part == 'i' ? (is_ip ? ip : -1)
             : part == 'u' ? udp
                           : tcp;
    return at >= 0 && at + i < length ? b[at + i] : -1;
}

static bool slow_term(const struct wish *w, enum nic_link link, const uint8_t *b, int length) {
    static const struct {
        const char *field;
        char part;
        int from, to;
        uint64_t bits;
    } places[] = {
        {"eth.dst", 'e', 0, 6, 0xffffffffffff}, {"eth.type", 'y', 0, 2, 0xffff},
        {"vlan.id", 'v', 2, 4, 0xfff},          {"ipv4.frag", 'i', 6, 8, 0x1fff},
        {"ipv4.proto", 'i', 9, 10, 0xff},       {"ipv4.src", 'i', 12, 16, 0xffffffff},
        {"udp.sport", 'u', 0, 2, 0xffff},       {"udp.dport", 'u', 2, 4, 0xffff},
        {"tcp.dport", 't', 2, 4, 0xffff},       {"raw[9:1]", 'r', 9, 10, 0xff},
        {"raw[30:2]", 'r', 30, 32, 0xffff},     {"ipv4[20:2]", 'i', 20, 22, 0xffff},
    };
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        if (strcmp(places[p].field, w->field) != 0)
            continue;
        uint64_t value = 0;
        for (int i = places[p].from; i < places[p].to; i++) {
            int byte = slow_byte(link, b, length, places[p].part, i);
            if (byte < 0)
                return false;
            value = value * 256 + (uint64_t)byte;
        }
        value &= places[p].bits;
        if (w->how == 2)
            return value >= w->low && value <= w->high;
        for (int bit = 0; bit < 64; bit++)
            if ((w->how == 0 || w->mask >> bit & 1) && (value >> bit & 1) != (w->low >> bit & 1))
                return false;
        return true;
    }
    abort();
}

static const struct {
    const char *name;
    uint64_t limit;
} wishes[] = {{"eth.dst", 0xffffffffffff}, {"eth.type", 0xffff},  {"vlan.id", 0xfff},
              {"ipv4.frag", 0x1fff},       {"ipv4.proto", 0xff},  {"ipv4.src", 0xffffffff},
              {"udp.sport", 0xffff},       {"udp.dport", 0xffff}, {"tcp.dport", 0xffff},
              {"raw[9:1]", 0xff},          {"raw[30:2]", 0xffff}, {"ipv4[20:2]", 0xffff}};

static struct wish random_wish(struct rng *r) {
    uint32_t i = rng_below(r, sizeof wishes / sizeof wishes[0]);
    struct wish w = {.field = wishes[i].name, .how = (int)rng_below(r, 3)};
    uint64_t limit = wishes[i].limit;
    w.low = rng_below(r, 2) ? rng_u64(r) & limit : rng_below(r, 20) & limit;
    if (i == 5 && rng_below(r, 2))
        w.low = 0x0a000000 + rng_below(r, 3);
    w.mask = rng_u64(r) & rng_u64(r) & limit;
    if (i == 5)
        w.mask |= 64; /* a number up to 32 would be a prefix */
    w.high = w.low + (rng_u64(r) % (limit - w.low + 1));
    return w;
}

static uint32_t random_packet(struct rng *r, enum nic_link link, uint8_t *b) {
    uint32_t length = 42 + rng_below(r, 40);
    for (uint32_t i = 0; i < length; i++)
        b[i] = (uint8_t)rng_below(r, 20);
    headers_write_udp(link, b, length,
                      &(struct headers_udp){0x0a000000 + rng_below(r, 3), 5,
                                            (uint16_t)rng_below(r, 20), (uint16_t)rng_below(r, 20),
                                            0});
    if (link == NIC_LINK_ETHERNET && rng_below(r, 4) == 0) {
        memmove(b + 16, b + 12, length - 16);
        memcpy(b + 12, (uint8_t[]){0x81, 0, 0, (uint8_t)rng_below(r, 20)}, 4);
        if (rng_below(r, 2) && length > 20) /* and the length that then is right */
            b[21] = (uint8_t)(b[21] - 4);
    }
    for (uint32_t n = rng_below(r, 4); n; n--)
        b[rng_below(r, length)] = (uint8_t)rng_u32(r);
    return rng_below(r, 4) ? length : rng_below(r, length + 1);
}

TEST(random_tables_agree_with_a_slow_implementation) {
    const char *seeds = getenv("OPENSPIN_SEEDS");
    uint64_t tables = seeds ? strtoull(seeds, NULL, 10) : 2000, taken = 0;
    for (uint64_t seed = 1; seed <= tables; seed++) {
        struct rng r = rng_seeded(seed);
        struct wish wish[6][3];
        uint32_t terms[6], rules = 1 + rng_below(&r, 6);
        char text[3000];
        int used = 0;
        for (uint32_t i = 0; i < rules; i++) {
            terms[i] = 1 + rng_below(&r, rng_below(&r, 3) + 1);
            for (uint32_t k = 0; k < terms[i]; k++) {
                struct wish *w = &wish[i][k];
                *w = random_wish(&r);
                used += sprintf(text + used, "%s%s=0x%llx", k ? " & " : "", w->field,
                                (unsigned long long)w->low);
                if (w->how)
                    used += sprintf(text + used, "%c%llu", w->how == 1 ? '/' : '-',
                                    (unsigned long long)(w->how == 1 ? w->mask : w->high));
            }
            used += sprintf(text + used, " -> ctx%u\n", i);
        }
        struct nic_match *m = table(text, 6);
        for (int n = 0; n < 40; n++) {
            uint8_t b[100];
            enum nic_link link = rng_below(&r, 2) ? NIC_LINK_ETHERNET : NIC_LINK_IP;
            uint32_t length = random_packet(&r, link, b);
            uint8_t *exact = malloc(length ? length : 1);
            memcpy(exact, b, length);
            int want = NIC_TO_HOST;
            for (uint32_t i = rules; i-- > 0;) {
                bool all = true;
                for (uint32_t k = 0; k < terms[i]; k++)
                    all = all && slow_term(&wish[i][k], link, b, (int)length);
                want = all ? (int)i : want;
            }
            int got = nic_match_packet(m, link, exact, length).target;
            free(exact);
            taken += got >= 0;
            if (got != want) {
                fprintf(stderr, "%s", text);
                TEST_FAIL("seed %llu, packet %d of %u bytes: %d, expected %d",
                          (unsigned long long)seed, n, length, got, want);
            }
        }
        nic_match_free(m);
    }
    CHECK(taken > tables); /* the tables do take packets */
}

TEST_MAIN
