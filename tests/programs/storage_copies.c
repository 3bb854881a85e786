/* The data plane of the storage system as an ordinary program: the last rank is a client, all
 * others are nodes.
 *     storage_copies [TRUST [leave]]
 * Every strategy that the nodes suffice for, in awkward sizes, read back from each copy; then a
 * request that is forged and one that is used again. With "leave" (live only) the client ends in
 * the middle of a long write: nothing of it is left on the cards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../handlers/storage/store_node_card.h"
#include "../../handlers/storage/store_request.h"
#include "need.h"

enum { BLOCKS = 4096, MOST = 150000, LONG = 15 << 20, NOW = 100 };

static struct spin_job job;
static ptl_pt_index_t pt;
static ptl_handle_eq_t eq;
static ptl_handle_md_t md;
static struct storage_key key;
static enum storage_trust trust;
static uint64_t request = 1;
static uint32_t mtu;

/* What has begun ends by itself. */
static void wait_for_the_end(struct store_node_card *card) {
    struct storage_counts counts = {0};
    for (int i = 0; i < 300; i++) {
        usleep(100000);
        NEED(store_node_card_report(card, &counts));
        if (i > 10 && !counts.under_way)
            break;
    }
    printf("node %u: %u under way\n", job.rank, counts.under_way);
}

static void node(bool leaves) {
    static uint8_t medium[BLOCKS * STORAGE_BLOCK + STORAGE_HEAD];
    struct store_node_card card;
    const struct store_node_options o = {.medium = medium,
                                         .blocks = BLOCKS,
                                         .trust = trust,
                                         .now = NOW,
                                         .key = {key},
                                         /* of a busy machine */
                                         .cleanup_ns = leaves ? 300000000 : 20000000000};
    NEED(store_node_card_open(job.ni, pt, &o, &card));
    spin_barrier();
    if (leaves) {
        wait_for_the_end(&card);
        store_node_card_close(&card);
        return;
    }
    spin_barrier();
    struct storage_counts counts;
    NEED(store_node_card_report(&card, &counts));
    printf("node %u: %u accepted, %u given up\n", job.rank, counts.accepted, counts.cleaned);
    store_node_card_close(&card);
}

static uint64_t got; /* bytes with the last answer */

static uint32_t answer(void) {
    ptl_event_t event;
    do
        NEED(PtlEQWait(eq, &event));
    while (event.type != PTL_EVENT_PUT);
    got = event.mlength;
    return (uint32_t)event.hdr_data & 0xff;
}

static void send_to(const void *message, uint64_t bytes, uint32_t rank) {
    NEED(PtlPut(md, (ptl_size_t)(uintptr_t)message, bytes, PTL_NO_ACK_REQ,
                (ptl_process_t){.rank = rank}, pt, STORAGE_REQUEST, 0, NULL, 0));
}

static struct store_grant grant(uint8_t strategy, uint32_t k, uint32_t bytes) {
    struct store_grant g = {.capability = {.rights = STORAGE_MAY_READ | STORAGE_MAY_WRITE,
                                           .strategy = strategy,
                                           .k = (uint8_t)k,
                                           .client = job.rank,
                                           .bytes = bytes,
                                           .expires = NOW}};
    for (uint32_t i = 0; i < k; i++)
        g.capability.place[i] = (struct storage_place){i, 1 + i};
    store_grant_sign(&g, &key, trust);
    return g;
}

/* Returns how many bytes of any copy are wrong. */
static uint64_t write_and_read(const struct store_grant *g, uint32_t offset, uint32_t length) {
    static uint8_t data[MOST], back[MOST], came[2 * MOST], message[2 * MOST];
    struct storage_head head;
    struct store_ask ask = {STORAGE_WRITE, trust, 0, offset, length, mtu, ++request};
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < length; i++)
        data[i] = (uint8_t)(i * 31 + i / 251 + request);
    store_head(&head, g, &ask);
    store_message_fill(message, &head, g->session, data);
    send_to(message, storage_message_bytes(length, head.packet), 0);
    for (uint32_t i = 0; i < g->capability.k; i++)
        wrong += 1000000 * (answer() != STORAGE_DONE);
    for (uint32_t i = 0; i < g->capability.k; i++) {
        struct spin_linked entry;
        ask = (struct store_ask){STORAGE_READ, trust, i, offset, length, mtu, ++request};
        store_head(&head, g, &ask);
        memset(back, 0, length);
        NEED(spin_entry_append(
            job.ni, pt,
            &(struct spin_entry){.start = came,
                                 .length = storage_read_bytes(length, head.packet),
                                 .bits = STORAGE_DATA_BITS(request),
                                 .options = PTL_ME_OP_PUT},
            &entry));
        send_to(&head, sizeof head, i);
        for (uint64_t at = 0; at < storage_read_bytes(length, head.packet) || !at;
             at += got + !got) {
            wrong += 1000000 * (answer() != STORAGE_DONE);
            if (head.packet)
                wrong += 1000000 * !store_read_piece(back, &head, g->session, at, came + at, got);
        }
        if (!head.packet)
            memcpy(back, came, length);
        for (uint32_t k = 0; k < length; k++)
            wrong += back[k] != data[k];
        spin_entry_remove(&entry);
    }
    return wrong;
}

static void leave_in_the_middle(void) {
    static uint8_t data[LONG], message[LONG + STORAGE_HEAD];
    struct storage_head head;
    struct store_grant g = grant(STORAGE_RING, job.ranks - 1, LONG);
    store_head(&head, &g, &(struct store_ask){STORAGE_WRITE, trust, 0, 0, LONG, 0, ++request});
    store_message_fill(message, &head, g.session, data);
    send_to(message, sizeof message, 0);
    _exit(0);
}

static void client(bool leaves) {
    static const uint32_t sizes[] = {0, 1, 1865, 20001, 131072};
    ptl_hpu_limits_t limits;
    struct spin_linked answers;
    const ptl_md_t all = {.length = PTL_SIZE_MAX,
                          .options = PTL_MD_EVENT_SEND_DISABLE,
                          .eq_handle = eq,
                          .ct_handle = PTL_CT_NONE};
    const struct spin_entry entry = {
        .bits = STORAGE_ANSWER, .ignore = ~0xffull, .options = PTL_ME_OP_PUT};
    uint64_t wrong = 0;
    uint32_t writes = 0, nodes = job.ranks - 1;
    NEED(PtlHPULimits(job.ni, &limits));
    mtu = (uint32_t)limits.max_payload_size;
    NEED(PtlMDBind(job.ni, &all, &md));
    NEED(spin_entry_append(job.ni, pt, &entry, &answers));
    spin_barrier();
    if (leaves)
        leave_in_the_middle();
    for (uint8_t strategy = STORAGE_PLAIN; strategy <= STORAGE_PBT; strategy++) {
        struct store_grant g = grant(strategy, strategy == STORAGE_PLAIN ? 1 : nodes, MOST);
        for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++, writes++)
            wrong += write_and_read(&g, 3 * i, sizes[i]);
    }
    printf("client: %u writes, %llu bytes of copies are wrong\n", writes,
           (unsigned long long)wrong);
    struct storage_head head;
    struct store_grant g = grant(STORAGE_PLAIN, 1, MOST);
    store_head(&head, &g, &(struct store_ask){STORAGE_WRITE, trust, 0, 0, 0, mtu, ++request});
    send_to(&head, sizeof head, 0);
    uint32_t once = answer();
    send_to(&head, sizeof head, 0);
    uint32_t again = answer();
    g.mac[1] ^= 1;
    store_head(&head, &g, &(struct store_ask){STORAGE_WRITE, trust, 0, 0, 0, mtu, ++request});
    send_to(&head, sizeof head, 0);
    printf("client: once %u, again %u, forged %u\n", once, again, answer());
    spin_barrier();
    spin_entry_remove(&answers);
    PtlMDRelease(md);
}

int main(int argc, char **argv) {
    trust = argc > 1 ? (enum storage_trust)atoi(argv[1]) : STORAGE_CAPABILITY;
    key = store_key(1, UINT32_MAX, 99);
    NEED(spin_job_open(&job));
    NEED(PtlEQAlloc(job.ni, 1024, &eq));
    NEED(PtlPTAlloc(job.ni, 0, eq, PTL_PT_ANY, &pt));
    bool leaves = argc > 2;
    if (job.rank == job.ranks - 1)
        client(leaves);
    else
        node(leaves);
    PtlPTFree(job.ni, pt);
    PtlEQFree(eq);
    spin_job_close(&job);
    return 0;
}
