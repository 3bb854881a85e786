/* libFuzzer target: whatever datagrams reach a live card's socket, memory around what it may write
 * is untouched, and each packet is counted at most once. Input: a byte of modes, then datagrams
 * behind their lengths in two bytes. With mode SEALED their key and checksum (or tag) are put
 * right, and with ADDRESSED their source and target, so that all that is behind the head is
 * reached. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "live/live_auth.h"
#include "live/live_card.h"
#include "live/live_sum.h"
#include "live/live_udp.h"
#include "nic/nic.h"
#include "nic/wire.h"

#define MEMORY    512
#define GUARD     64
#define DATAGRAMS 32
#define PID       5

enum { SEALED = 1, ADDRESSED = 2, AUTH = 4 };

static uint8_t memory[GUARD + MEMORY + GUARD];
static struct live_folder folder;
static struct live_sum sum;
static struct live_auth auth;
static bool has_auth;
static char address[20];
static int stranger;

static void end(void) {
    live_folder_remove(&folder);
}

/* An address of this process's own, so that several may run at once. */
static void begin(void) {
    struct spin_error err;
    char name[64];
    snprintf(address, sizeof address, "127.66.%u.%u", (unsigned)getpid() >> 8 & 255,
             (unsigned)getpid() & 255);
    FUZZ_CHECK(live_folder_make(&folder, name, sizeof name, &err) == 0);
    atexit(end);
    memset(folder.key, 7, sizeof folder.key); /* the same in each run */
    live_sum_init(&sum, folder.key);
    has_auth = live_auth_init(&auth, folder.key, &err) == 0;
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons(LIVE_UDP_PORT + PID + 1),
                                   .sin_addr.s_addr = inet_addr(address)};
    stranger = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(bind(stranger, (const struct sockaddr *)(const void *)&at, sizeof at) == 0);
}

static void open_memory(void) {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_pt_index_t index;
    FUZZ_CHECK(PtlInit() == PTL_OK);
    FUZZ_CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL,
                         NULL, &ni) == PTL_OK);
    FUZZ_CHECK(PtlEQAlloc(ni, 64, &eq) == PTL_OK);
    FUZZ_CHECK(PtlPTAlloc(ni, 0, eq, 0, &index) == PTL_OK);
    const ptl_le_t le = {.start = memory + GUARD,
                         .length = MEMORY,
                         .ct_handle = PTL_CT_NONE,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_OP_GET};
    ptl_handle_le_t handle;
    FUZZ_CHECK(PtlLEAppend(ni, index, &le, PTL_PRIORITY_LIST, NULL, &handle) == PTL_OK);
}

static void put32(uint8_t *at, uint32_t value) {
    memcpy(at, &value, sizeof value);
}

static void seal(uint8_t *bytes, uint32_t length, uint8_t modes) {
    uint8_t *body = bytes + LIVE_UDP_HEAD_BYTES;
    struct nic_packet packet;
    uint32_t data;
    if (length < LIVE_UDP_HEAD_BYTES + WIRE_LATER_BYTES)
        return;
    length -= LIVE_UDP_HEAD_BYTES;
    if (modes & ADDRESSED && (body[5] < 32 || wire_is_joined(body))) { /* the long form */
        put32(body + 8, ntohl(inet_addr(address)));
        put32(body + 12, PID + 1);
        put32(body + 16, ntohl(inet_addr(address)));
        put32(body + 20, PID);
    }
    if (wire_is_joined(body))
        data = WIRE_JOINED_BYTES < length ? WIRE_JOINED_BYTES : length;
    else if (wire_decode_head(&packet, 4096, body, length, &data))
        data = length;
    /* Joined packets of the machine's own processes have a checksum of their header alone. */
    uint32_t summed = wire_is_joined(body) ? 0 : length - data;
    uint64_t right = live_sum_of(&sum, body, data, body + data, summed);
    memset(bytes, 0, LIVE_UDP_HEAD_BYTES);
    if (modes & AUTH) {
        live_auth_tag(&auth, bytes, body, length);
        return;
    }
    memcpy(bytes, folder.key, LIVE_KEY_BYTES);
    memcpy(bytes + LIVE_KEY_BYTES, &right, sizeof right);
}

/* How many packets a datagram may be, at most: it may look like several that the system has joined,
 * each of which may be several packets of a byte. */
static uint64_t packets_of(const uint8_t *bytes, size_t length) {
    const uint64_t least = LIVE_UDP_HEAD_BYTES + WIRE_PACKET_BYTES;
    bool joins = false;
    for (size_t i = 0; i + WIRE_PACKET_BYTES <= length; i++)
        joins |= wire_is_joined(bytes + i);
    return 1 + (joins ? length : length / least);
}

static void throw(const uint8_t *data, uint32_t length, uint8_t modes) {
    static uint8_t bytes[65536];
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(LIVE_UDP_PORT + PID),
                                   .sin_addr.s_addr = inet_addr(address)};
    memcpy(bytes, data, length);
    if (modes & SEALED)
        seal(bytes, length, modes);
    (void)!sendto(stranger, bytes, length, 0, (const struct sockaddr *)(const void *)&to,
                  sizeof to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct live_card *card;
    struct spin_error err;
    uint32_t thrown = 0;
    uint64_t packets = 0;
    if (size < 1)
        return 0;
    if (!address[0])
        begin();
    uint8_t modes = has_auth ? data[0] : data[0] & ~AUTH;
    const struct live_card_options options = {
        .folder = &folder,
        .pid = PID,
        .transport = LIVE_UDP,
        .of_udp = {.interface = address, .auth = modes & AUTH}};
    FUZZ_CHECK(live_card_new(&card, &options, &err) == 0);
    portals_enter(live_card_process(card));
    memset(memory, 0x5a, sizeof memory);
    open_memory();
    for (size_t at = 1; at + 2 <= size && thrown < DATAGRAMS; thrown++) {
        size_t length = data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        length = length < size - at ? length : size - at;
        throw(data + at, (uint32_t)length, modes);
        packets += packets_of(data + at, length);
        at += length;
        live_card_poll(card);
    }
    for (uint32_t i = 0; i < 2 * thrown + 2; i++)
        live_card_poll(card);
    const struct nic_counts *c = nic_counts(live_card_nic(card));
    FUZZ_CHECK(live_card_strangers(card) + live_card_malformed(card) + c->received + c->duplicates +
                   c->out_of_window <=
               2 * packets); /* what comes up may still contradict its message */
    for (uint32_t i = 0; i < GUARD; i++)
        FUZZ_CHECK(memory[i] == 0x5a && memory[GUARD + MEMORY + i] == 0x5a);
    live_card_free(card);
    portals_enter(NULL);
    for (uint8_t rest[64]; recv(stranger, rest, sizeof rest, MSG_DONTWAIT) >= 0;)
        ;
    return 0;
}
