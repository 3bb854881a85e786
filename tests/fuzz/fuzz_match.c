/* libFuzzer target: a match table up to the first zero byte, and a packet behind it that it judges,
 * with and without an Ethernet header. */
#include "fuzz.h"
#include "nic/match.h"

static bool inside(uint32_t at, uint32_t bytes, uint32_t length) {
    return at == HEADERS_ABSENT || (uint64_t)at + bytes <= length;
}

static void judge(const struct nic_match *m, enum nic_link link, const uint8_t *bytes,
                  uint32_t length) {
    struct nic_headers h = headers_find(link, bytes, length);
    FUZZ_CHECK(inside(h.ethernet, 14, length) && inside(h.vlan, 4, length));
    FUZZ_CHECK(inside(h.type, 2, length) && inside(h.ipv4, 20, length));
    FUZZ_CHECK(inside(h.udp, 8, length) && inside(h.tcp, 20, length));
    FUZZ_CHECK(inside(h.payload, h.payload_bytes, length));
    if (!m)
        return;
    struct nic_verdict v = nic_match_packet(m, link, bytes, length);
    FUZZ_CHECK(v.target < 3 && v.target >= NIC_TO_DROP);
    FUZZ_CHECK(v.rule < (int32_t)nic_match_rules(m));
    FUZZ_CHECK(v.rule >= 0 || v.target == NIC_TO_HOST);
    FUZZ_CHECK(v.fault == h.fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct nic_match *m = NULL;
    struct spin_error err = {0};
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t text = zero ? (size_t)(zero - data) : size;
    if (nic_match_parse(&m, "fuzz", (const char *)data, text, 3, &err) != SPIN_OK)
        FUZZ_HOLDS(!m && err.text[0] && !strchr(err.text, '\n'), "an error is one line");
    uint32_t length = zero ? (uint32_t)(size - text - 1) : 0;
    uint8_t *packet = malloc(length ? length : 1); /* of exactly this size */
    if (length)
        memcpy(packet, zero + 1, length);
    judge(m, NIC_LINK_ETHERNET, packet, length);
    judge(m, NIC_LINK_IP, packet, length);
    free(packet);
    nic_match_free(m);
    return 0;
}
