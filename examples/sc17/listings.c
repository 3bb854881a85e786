/* The listings of SC'17 appendix C in a world: each on the cards of its ranks, with a host program
 * that checks what they did.
 *
 *   openspin cc examples/sc17/pingpong.c -o pingpong.spin
 *   cc -shared -fPIC $(pkg-config --cflags portals4) examples/sc17/listings.c -o listings.so
 *   openspin sim run -n 2 listings.so pingpong pingpong.spin
 *
 * Also: accumulate (2 ranks), broadcast (a power of two), strided (2), raid (3; two images:
 * raid_data, raid_parity). */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != PTL_OK) {                                                                     \
            printf("rank %u: %s: %s\n", spin_rank(), #call, PtlToStr(code_, PTL_STR_ERROR));       \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

enum { MOST = 16384 };
static ptl_handle_ni_t ni;
static ptl_pt_index_t pt;
static ptl_image_h image;
static uint32_t memory[MOST / 4], other[MOST / 4]; /* what entries stand on */
static uint32_t sent[MOST / 4];

struct entry {
    void *start;
    ptl_size_t length;
    ptl_match_bits_t bits;
    const char *header, *payload, *completion; /* handlers, or NULL */
    ptl_size_t user_header;
    const void *state; /* of the handlers, as spin/handler.h lays it out */
    ptl_size_t state_bytes;
    ptl_handle_ct_t ct; /* given back */
};

static int append(struct entry *e) {
    ptl_handle_me_t handle;
    ptl_me_t me = {
        .start = e->start,
        .length = e->length,
        .uid = PTL_UID_ANY,
        .match_id = {.rank = PTL_RANK_ANY},
        .match_bits = e->bits,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM,
        .hpu_memory = PTL_INVALID_HANDLE,
        .user_hdr_length = e->user_header,
    };
    CHECK(PtlCTAlloc(ni, &e->ct));
    me.ct_handle = e->ct;
    if (e->header || e->payload || e->completion)
        me.options |= PTL_ME_HANDLERS;
    if (e->header)
        CHECK(PtlImageFind(image, e->header, &me.header_handler));
    if (e->payload)
        CHECK(PtlImageFind(image, e->payload, &me.payload_handler));
    if (e->completion)
        CHECK(PtlImageFind(image, e->completion, &me.completion_handler));
    if (e->state) {
        CHECK(PtlHPUAllocMem(e->state_bytes, ni, &me.hpu_memory));
        me.hpu_initial_state = (void *)e->state;
        me.hpu_initial_state_length = e->state_bytes;
    }
    CHECK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
    return 0;
}

static int put(ptl_size_t bytes, uint32_t rank, ptl_match_bits_t bits) {
    ptl_handle_md_t handle;
    const ptl_md_t md = {
        .start = sent, .length = bytes, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    CHECK(PtlMDBind(ni, &md, &handle));
    CHECK(PtlPut(handle, 0, bytes, PTL_NO_ACK_REQ, (ptl_process_t){.rank = rank}, pt, bits, 0, NULL,
                 0));
    return 0;
}

static int wait_for(const struct entry *e, ptl_size_t count) {
    ptl_ct_event_t event;
    CHECK(PtlCTWait(e->ct, count, &event));
    return event.failure != 0;
}

static uint32_t word(uint32_t i) {
    return i * 2654435761u + 17;
}

static int same(const char *what, const void *a, const void *b, size_t bytes) {
    if (memcmp(a, b, bytes) == 0)
        return 0;
    printf("rank %u: %s is wrong\n", spin_rank(), what);
    return 1;
}

/* ---- C.3.1 */

static int pingpong(ptl_size_t bytes) {
    struct {
        uint32_t offset, source, length, stream;
    } state = {0};
    struct entry e = {memory, bytes, 10, .state = NULL};
    for (uint32_t i = 0; i < bytes / 4; i++)
        sent[i] = word(i);
    if (spin_rank() == 1) {
        e.header = "pingpong_header_handler";
        e.payload = "pingpong_payload_handler";
        e.completion = "pingpong_completion_handler";
        e.state = &state;
        e.state_bytes = sizeof state;
    }
    if (append(&e))
        return 1;
    spin_barrier();
    if (spin_rank() == 0 && (put(bytes, 1, 10) || wait_for(&e, 1)))
        return 1;
    spin_barrier();
    if (spin_rank() == 0 && same("what came back", memory, sent, bytes))
        return 1;
    if (spin_rank() == 0)
        printf("ping-pong: %llu bytes came back\n", (unsigned long long)bytes);
    return 0;
}

/* ---- C.3.2 */

static int accumulate(void) {
    enum { BYTES = 2048 };
    const struct { uint32_t offset, pong, source; } state = {.pong = 1};
    struct entry e = {memory, BYTES, 10, .state = NULL};
    float *mine = (float *)memory, *there = (float *)sent, *back = (float *)other;
    for (int i = 0; i < BYTES / 4; i++) {
        there[i] = (float)(i % 7) - 3;
        mine[i] = spin_rank() == 1 ? (float)(i % 5) + 1 : 0;
    }
    if (spin_rank() == 1) {
        e.header = "accumulate_header_handler";
        e.payload = "accumulate_payload_handler";
        e.state = &state;
        e.state_bytes = sizeof state;
    } else {
        e.start = other;
    }
    if (append(&e))
        return 1;
    spin_barrier();
    if (spin_rank() == 0 && (put(BYTES, 1, 10) || wait_for(&e, 1)))
        return 1;
    spin_barrier();
    const float *got = spin_rank() == 0 ? back : mine;
    for (int i = 0; i < BYTES / 4; i += 2) {
        float a = (float)(i % 5) + 1, b = (float)((i + 1) % 5) + 1, c = there[i], d = there[i + 1];
        if (got[i] != a * c - b * d || got[i + 1] != b * c + a * d) {
            printf("rank %u: number %d is wrong\n", spin_rank(), i / 2);
            return 1;
        }
    }
    if (spin_rank() == 0)
        printf("accumulate: %d complex products, in host memory and back\n", BYTES / 8);
    return 0;
}

/* ---- C.3.3 */

static int broadcast(ptl_size_t bytes) {
    const struct {
        uint32_t offset, my_rank, p, stream, length;
    } state = {.my_rank = spin_rank(), .p = spin_ranks()};
    struct entry e = {.start = memory,
                      .length = bytes,
                      .bits = 10,
                      .header = "bcast_header_handler",
                      .payload = "bcast_payload_handler",
                      .completion = "bcast_completion_handler",
                      .state = &state,
                      .state_bytes = sizeof state};
    for (uint32_t i = 0; i < bytes / 4; i++)
        sent[i] = word(i);
    if (append(&e))
        return 1;
    spin_barrier();
    if (spin_rank() == 0 && put(bytes, 0, 10))
        return 1;
    if (wait_for(&e, 1)) /* what its handlers send counts here as well */
        return 1;
    spin_barrier();
    /* A message of one packet is forwarded, and nobody's handler stores it. */
    if (bytes > 4096 && same("the message", memory, sent, bytes))
        return 1;
    if (spin_rank() == 0)
        printf("broadcast: %llu bytes to %u ranks\n", (unsigned long long)bytes, spin_ranks());
    return 0;
}

/* ---- C.3.4 */

static int strided(void) {
    enum { VLEN = 96, STRIDE = 32, BLOCKS = 64 };
    const struct { uint32_t offset, vlen, stride; } state = {.vlen = VLEN, .stride = STRIDE};
    struct entry e = {.start = memory,
                      .length = BLOCKS * (VLEN + STRIDE),
                      .bits = 10,
                      .payload = "ddtvec_payload_handler",
                      .state = &state,
                      .state_bytes = sizeof state};
    for (uint32_t i = 0; i < VLEN * BLOCKS / 4; i++)
        sent[i] = word(i);
    if (spin_rank() == 1 && append(&e))
        return 1;
    spin_barrier();
    if (spin_rank() == 0)
        return put(VLEN * BLOCKS, 1, 10);
    if (wait_for(&e, 1))
        return 1;
    for (int block = 0; block < BLOCKS; block++) {
        const uint8_t *at = (const uint8_t *)memory + block * (VLEN + STRIDE);
        static const uint8_t zeros[STRIDE];
        if (same("a block", at, (const uint8_t *)sent + block * VLEN, VLEN) ||
            same("a gap", at + VLEN, zeros, STRIDE))
            return 1;
    }
    printf("strided: %d blocks of %d bytes in their places\n", BLOCKS, VLEN);
    return 0;
}

/* ---- C.3.5 */

enum { CLIENT, DATA, PARITY, WRITE_TAG = 5, READ_TAG = 6, PARITY_TAG = 53, STORED_TAG = 30 };

static int raid(void) {
    enum { BYTES = 4096 };
    const struct { uint32_t source, parity, offset; } state = {.parity = PARITY};
    static uint8_t done;
    struct entry write = {.start = memory, .length = BYTES, .state = &state, .state_bytes = 12};
    struct entry stored = {.start = &done, .length = 1, .bits = STORED_TAG};
    struct entry read = {.start = other, .length = BYTES, .bits = READ_TAG};
    for (uint32_t i = 0; i < BYTES / 4; i++) {
        sent[i] = word(i);
        memory[i] = word(i + 7 * spin_rank());
        other[i] = word(i + 1000 * spin_rank());
    }
    if (spin_rank() == DATA) {
        write.bits = WRITE_TAG;
        write.header = "primary_write_header_handler";
        write.payload = "primary_write_payload_handler";
        stored.header = "primary_send_acknowledgement_header_handler";
        read.header = "primary_read_header_handler";
        read.user_header = 4;
        if (append(&write) || append(&stored) || append(&read))
            return 1;
    } else if (spin_rank() == PARITY) {
        write.bits = PARITY_TAG;
        write.header = "parity_update_header_handler";
        write.payload = "parity_update_payload_handler";
        write.completion = "parity_update_completion_handler";
        if (append(&write))
            return 1;
    } else if (append(&stored) || append(&read)) {
        return 1;
    }
    spin_barrier();
    if (spin_rank() == CLIENT) {
        if (put(BYTES, DATA, WRITE_TAG) || wait_for(&stored, 1))
            return 1;
        sent[0] = BYTES; /* the length that is asked for */
        if (put(4, DATA, READ_TAG) || wait_for(&read, 1))
            return 1;
        for (uint32_t i = 1; i < BYTES / 4; i++)
            if (other[i] != word(i + 1000 * DATA)) {
                printf("client: word %u of what was read is wrong\n", i);
                return 1;
            }
    }
    spin_barrier();
    for (uint32_t i = 0; i < BYTES / 4 && spin_rank() != CLIENT; i++) {
        uint32_t expected = word(i + 7 * DATA) ^ word(i);
        if (spin_rank() == PARITY)
            expected ^= word(i + 7 * PARITY);
        if (memory[i] != expected) {
            printf("rank %u: word %u is wrong\n", spin_rank(), i);
            return 1;
        }
    }
    if (spin_rank() == CLIENT)
        printf("RAID-5: %d bytes written, parity updated, and read\n", BYTES);
    return 0;
}

int main(int argc, char **argv) {
    const char *which = argc > 2 ? argv[1] : "";
    const char *path = argc > 3 && spin_rank() == PARITY ? argv[3] : argv[2];
    if (argc < 3) {
        printf("usage: %s LISTING IMAGE [IMAGE]\n", argv[0]);
        return 1;
    }
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                    &ni));
    CHECK(spin_map_ranks(ni));
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    if (PtlImageLoad(ni, path, &image) != PTL_OK) {
        printf("%s\n", PtlImageError());
        return 1;
    }
    int status = strcmp(which, "pingpong") == 0         ? pingpong(2048)
                 : strcmp(which, "pingpong-long") == 0  ? pingpong(8192)
                 : strcmp(which, "accumulate") == 0     ? accumulate()
                 : strcmp(which, "broadcast") == 0      ? broadcast(2048)
                 : strcmp(which, "broadcast-long") == 0 ? broadcast(8192)
                 : strcmp(which, "strided") == 0        ? strided()
                 : strcmp(which, "raid") == 0           ? raid()
                                                        : 1;
    PtlNIFini(ni);
    PtlFini();
    return status;
}
