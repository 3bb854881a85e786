/* Every rank puts messages of many sizes into every other, and then gets them back; every byte is
 * checked on both sides. Started as `all_to_all [MESSAGES]`. */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST  200000u
#define RANKS 64u
#define PUTS  1u /* portal table entries */
#define GETS  2u

#define NEED(call)                                                                                 \
    do {                                                                                           \
        if (call) {                                                                                \
            fprintf(stderr, "rank %u: %s failed\n", spin_rank(), #call);                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The bytes of the i-th message from one rank to another. */
static unsigned char byte_of(unsigned from, unsigned to, unsigned i, unsigned k) {
    unsigned x = (from * 64 + to) * 977 + i * 131 + k * 7 + (k >> 8);
    return (unsigned char)(x ^ x >> 8);
}

static unsigned size_of(unsigned i) {
    static const unsigned sizes[] = {8, 0, 1, 63, 4096, 4097, 20000, 65536, MOST, 3};
    return i < 10 ? sizes[i] : i * 7919 % MOST;
}

static void fill(unsigned char *bytes, unsigned from, unsigned to, unsigned i) {
    for (unsigned k = 0; k < size_of(i); k++)
        bytes[k] = byte_of(from, to, i, k);
}

static void check(const unsigned char *bytes, unsigned from, unsigned to, unsigned i) {
    for (unsigned k = 0; k < size_of(i); k++)
        if (bytes[k] != byte_of(from, to, i, k)) {
            fprintf(stderr, "rank %u: byte %u of message %u from %u to %u is wrong\n", spin_rank(),
                    k, i, from, to);
            exit(2);
        }
}

static ptl_handle_ni_t ni;
static ptl_handle_ct_t arrived, done;
static ptl_handle_md_t md;
static unsigned char *memory, *source, *back;

static void open_interface(unsigned ranks) {
    ptl_handle_le_t le;
    ptl_pt_index_t puts, gets;
    memory = calloc(ranks, MOST);
    source = calloc(ranks, MOST);
    back = calloc(1, MOST);
    NEED(!memory || !source || !back || PtlInit());
    NEED(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                   &ni));
    NEED(spin_map_ranks(ni));
    NEED(PtlCTAlloc(ni, &arrived) || PtlCTAlloc(ni, &done));
    NEED(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PUTS, &puts) ||
         PtlPTAlloc(ni, 0, PTL_EQ_NONE, GETS, &gets));
    ptl_le_t entry = {.start = memory,
                      .length = (ptl_size_t)ranks * MOST,
                      .ct_handle = arrived,
                      .uid = PTL_UID_ANY,
                      .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM};
    ptl_md_t all = {.start = NULL,
                    .length = PTL_SIZE_MAX,
                    .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
                    .eq_handle = PTL_EQ_NONE,
                    .ct_handle = done};
    NEED(PtlLEAppend(ni, puts, &entry, PTL_PRIORITY_LIST, NULL, &le) || PtlMDBind(ni, &all, &md));
    entry.options = PTL_LE_OP_GET;
    entry.ct_handle = PTL_CT_NONE;
    NEED(PtlLEAppend(ni, gets, &entry, PTL_PRIORITY_LIST, NULL, &le));
}

static void wait_for(ptl_handle_ct_t ct, ptl_size_t count) {
    ptl_ct_event_t event;
    NEED(PtlCTWait(ct, count, &event) || event.failure);
}

static void round_of(unsigned i, unsigned ranks, ptl_size_t *finished, ptl_size_t *had) {
    unsigned self = spin_rank();
    for (unsigned to = 0; to < ranks; to++) {
        fill(source + (size_t)to * MOST, self, to, i);
        NEED(PtlPut(md, (ptl_size_t)(source + (size_t)to * MOST), size_of(i), PTL_CT_ACK_REQ,
                    (ptl_process_t){.rank = to}, PUTS, 0, (ptl_size_t)self * MOST, NULL, 0));
    }
    wait_for(done, *finished += ranks);
    wait_for(arrived, *had += ranks);
    for (unsigned from = 0; from < ranks; from++)
        check(memory + (size_t)from * MOST, from, self, i);
    for (unsigned of = 0; of < ranks; of++) {
        memset(back, 0, MOST);
        NEED(PtlGet(md, (ptl_size_t)back, size_of(i), (ptl_process_t){.rank = of}, GETS, 0,
                    (ptl_size_t)self * MOST, NULL));
        wait_for(done, *finished += 1);
        check(back, self, of, i);
    }
    spin_barrier(); /* all have checked theirs: the next may be put */
}

int main(int argc, char **argv) {
    unsigned ranks = spin_ranks(), rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 12;
    ptl_size_t finished = 0, had = 0;
    NEED(!ranks || ranks > RANKS);
    open_interface(ranks);
    spin_barrier();
    for (unsigned i = 0; i < rounds; i++)
        round_of(i, ranks, &finished, &had);
    spin_barrier();
    if (!spin_rank())
        printf("%u ranks, %u messages each way, every byte as it should be\n", ranks, rounds);
    return 0;
}
