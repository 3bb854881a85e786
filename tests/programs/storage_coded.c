/* Erasure coding by storage nodes' cards as an ordinary program: ranks 0 to K + M - 1 are nodes,
 * the last one is a client. storage_coded K M [ACCUMULATORS [TRUST]] Writes several at a time, in
 * awkward sizes, then reads every chunk back and compares it with what ISA-L makes of the data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../handlers/storage/store_decode.h"
#include "../../handlers/storage/store_node_host.h"
#include "../../handlers/storage/store_request.h"
#include "need.h"

enum { WRITES = 6, BLOCKS = WRITES * 20, MOST = 80000, NOW = 100, OVER = 0x70 };

static struct spin_job job;
static ptl_pt_index_t pt;
static ptl_handle_eq_t eq;
static ptl_handle_md_t md;
static struct storage_key key;
static enum storage_trust trust = STORAGE_CAPABILITY;
static uint32_t k, m, accumulators, mtu;
static uint64_t request = 1;

static void node(void) {
    static uint8_t medium[BLOCKS * STORAGE_BLOCK + STORAGE_HEAD];
    const struct store_node_options o = {.medium = medium,
                                         .blocks = BLOCKS,
                                         .trust = trust,
                                         .cleanup_ns = 20000000000, /* of a busy machine */
                                         .accumulators = accumulators,
                                         .now = NOW,
                                         .key = {key}};
    const struct spin_entry over = {.bits = OVER, .options = PTL_ME_OP_PUT};
    struct spin_linked ends;
    struct store_node_card card;
    struct store_node_host host;
    struct storage_counts counts;
    ptl_event_t event;
    int code;
    NEED(store_node_card_open(job.ni, pt, &o, &card));
    NEED(store_node_host_open(&card, medium, &(struct store_host_options){0}, &host));
    NEED(spin_entry_append(job.ni, pt, &over, &ends));
    spin_barrier();
    do {
        NEED(PtlEQWait(eq, &event));
        if (store_node_host_event(&host, &event, &code))
            NEED(code);
    } while (event.type != PTL_EVENT_PUT || event.match_bits != OVER);
    NEED(store_node_card_report(&card, &counts));
    if (job.rank >= k)
        printf("node %u: %s, %u accumulators left\n", job.rank,
               !counts.sums_at_host  ? "all sums on the card"
               : counts.sums_on_card ? "sums on the card and at the host"
                                     : "all sums at the host",
               counts.accumulators);
    spin_entry_remove(&ends);
    store_node_host_close(&host);
    store_node_card_close(&card);
}

static uint64_t got; /* bytes with the last answer */

static uint32_t answer(void) {
    ptl_event_t event;
    unsigned int which;
    do
        if (PtlEQPoll(&eq, 1, 30000, &event, &which) != PTL_OK)
            return UINT32_MAX; /* none within 30 s */
    while (event.type != PTL_EVENT_PUT);
    got = event.mlength;
    return (uint32_t)event.hdr_data & 0xff;
}

static void put(const void *message, uint64_t bytes, uint32_t rank, ptl_match_bits_t bits) {
    NEED(PtlPut(md, (ptl_size_t)(uintptr_t)message, bytes, PTL_NO_ACK_REQ,
                (ptl_process_t){.rank = rank}, pt, bits, 0, NULL, 0));
}

struct write {
    struct store_grant grant;
    uint32_t length;
    uint8_t *chunk[STORAGE_PLACES], *message[STORAGE_PLACES];
};

static void grant(struct write *w, uint32_t number) {
    w->grant.capability =
        (struct storage_capability){.rights = STORAGE_MAY_READ | STORAGE_MAY_WRITE,
                                    .strategy = STORAGE_RS,
                                    .k = (uint8_t)k,
                                    .m = (uint8_t)m,
                                    .serial = (uint16_t)number,
                                    .client = job.rank,
                                    .bytes = MOST,
                                    .expires = NOW};
    for (uint32_t i = 0; i < k + m; i++)
        w->grant.capability.place[i] = (struct storage_place){i, 20 * number};
    store_grant_sign(&w->grant, &key, trust);
}

/* k messages, which the card sends in turns. */
static void begin(struct write *w, uint32_t number, uint32_t length) {
    struct spin_error err;
    grant(w, number);
    w->length = length;
    for (uint32_t i = 0; i < k + m; i++) {
        w->chunk[i] = malloc(length + 1);
        for (uint32_t b = 0; b < length; b++)
            w->chunk[i][b] = (uint8_t)(b * 31 + b / 251 + number + 7 * i);
    }
    if (store_decode(k, m, (1u << k) - 1, w->chunk, length, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(77);
    }
    request++;
    for (uint32_t j = 0; j < k; j++) {
        struct storage_head head;
        store_head(&head, &w->grant,
                   &(struct store_ask){STORAGE_WRITE, trust, j, 0, length, mtu, request});
        const uint64_t bytes = storage_message_bytes(length, head.packet);
        w->message[j] = malloc(bytes);
        store_message_fill(w->message[j], &head, w->grant.session, w->chunk[j]);
        put(w->message[j], bytes, j, STORAGE_REQUEST);
    }
}

/* How many bytes of a node's chunk are wrong. */
static uint64_t read_chunk(const struct write *w, uint32_t place) {
    uint8_t *back = calloc(1, w->length + 1), *came = calloc(1, 2 * w->length + 1000);
    struct storage_head head;
    struct spin_linked entry;
    uint64_t wrong = 0;
    store_head(&head, &w->grant,
               &(struct store_ask){STORAGE_READ, trust, place, 0, w->length, mtu, ++request});
    NEED(
        spin_entry_append(job.ni, pt,
                          &(struct spin_entry){.start = came,
                                               .length = storage_read_bytes(w->length, head.packet),
                                               .bits = STORAGE_DATA_BITS(request),
                                               .options = PTL_ME_OP_PUT},
                          &entry));
    put(&head, sizeof head, place, STORAGE_REQUEST);
    for (uint64_t at = 0; at < storage_read_bytes(w->length, head.packet); at += got) {
        wrong += 1000000 * (answer() != STORAGE_DONE);
        if (head.packet)
            wrong += 1000000 * !store_read_piece(back, &head, w->grant.session, at, came + at, got);
    }
    if (!head.packet)
        memcpy(back, came, w->length);
    for (uint32_t b = 0; b < w->length; b++)
        wrong += back[b] != w->chunk[place][b];
    spin_entry_remove(&entry);
    free(back);
    free(came);
    return wrong;
}

static void client(void) {
    static const uint32_t sizes[WRITES] = {80000, 1, 1865, 79999, 40001, 12345};
    static struct write w[WRITES];
    const ptl_md_t all = {.length = PTL_SIZE_MAX,
                          .options = PTL_MD_EVENT_SEND_DISABLE,
                          .eq_handle = eq,
                          .ct_handle = PTL_CT_NONE};
    const struct spin_entry entry = {
        .bits = STORAGE_ANSWER, .ignore = ~0xffull, .options = PTL_ME_OP_PUT};
    struct spin_linked answers;
    ptl_hpu_limits_t limits;
    uint64_t wrong = 0;
    NEED(PtlHPULimits(job.ni, &limits));
    mtu = (uint32_t)limits.max_payload_size;
    NEED(PtlMDBind(job.ni, &all, &md));
    NEED(spin_entry_append(job.ni, pt, &entry, &answers));
    spin_barrier();
    for (uint32_t i = 0; i < WRITES; i++)
        begin(&w[i], i, sizes[i]);
    for (uint32_t i = 0; i < WRITES * (k + m); i++)
        wrong += 1000000 * (answer() != STORAGE_DONE);
    for (uint32_t i = 0; i < WRITES; i++)
        for (uint32_t place = 0; place < k + m; place++)
            wrong += read_chunk(&w[i], place);
    printf("client: %d writes with RS(%u,%u), %llu bytes of chunks are wrong\n", WRITES, k, m,
           (unsigned long long)wrong);
    for (uint32_t i = 0; i < k + m; i++)
        put(&md, 0, i, OVER);
    spin_entry_remove(&answers);
    PtlMDRelease(md);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    k = (uint32_t)atoi(argv[1]);
    m = (uint32_t)atoi(argv[2]);
    accumulators = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    trust = argc > 4 ? (enum storage_trust)atoi(argv[4]) : trust;
    key = store_key(1, UINT32_MAX, 99);
    NEED(spin_job_open(&job));
    NEED(PtlEQAlloc(job.ni, 4096, &eq));
    NEED(PtlPTAlloc(job.ni, 0, eq, PTL_PT_ANY, &pt));
    if (job.rank == job.ranks - 1)
        client();
    else
        node();
    spin_barrier();
    PtlPTFree(job.ni, pt);
    PtlEQFree(eq);
    spin_job_close(&job);
    return 0;
}
