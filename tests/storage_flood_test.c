/* As many writes at once as a card's request table has room for: each has begun and none is
 * finished, because whoever sends them gives the network one packet of each before the next ones.
 * No program can do that with puts, so packets are put into the clients' ports here. */
#include "../handlers/storage/store_node_host.h"
#include "../handlers/storage/store_request.h"
#include "lib/world_packet.h"

#include <stdlib.h>
#include <string.h>

enum {
    NOW = 100,
    EACH = 252,  /* writes of a client: numbers of 256 are known one by one */
    BEFORE = 8,  /* bytes of data in the first packet, */
    AFTER = 24,  /* and in the second */
    MORE = 60,   /* writes that find the table full */
    BURST = 256, /* packets, then the card gets time for them */
    BYTES = BEFORE + AFTER,
    CLEANUP_US = 400000,
};

struct flood {
    uint32_t slots, swap; /* of the table */
    uint32_t clients;
    struct spin_world *world;
    struct storage_key key;
    uint8_t *medium;
    uint32_t blocks;
    struct store_grant *grant;         /* of each client: */
    uint64_t *request, *before;        /* its last number, and that of before these writes, */
    uint32_t *messages;                /* how many messages it has sent to the node */
    uint32_t *number;                  /* of each write: which of those, */
    uint8_t *answer;                   /* and what was answered */
    uint32_t status[STORAGE_STATUSES]; /* answers since the last look, of all clients */
    struct storage_counts seen;        /* by the node's host, when it was asked */
    uint32_t told;                     /* to the node's host: what was given up */
    ptl_pt_index_t pt;
    volatile uint32_t asks, looks; /* questions to the node's host, and their answers */
    volatile bool over;
};

static void fill(uint8_t *data, uint32_t write, uint32_t round) {
    for (uint32_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(1 + (write * 7 + write / 256 + i * 31 + round * 101) % 255);
}

/* ---- Packets ---- */

/* Bytes [from, to) of message `number` of a client. */
static int depart(struct flood *f, uint32_t client, uint32_t number, const uint8_t *message,
                  uint32_t from, uint32_t to) {
    const struct nic_message m = {.source_rank = 1 + client,
                                  .pt_index = f->pt,
                                  .match_bits = STORAGE_REQUEST,
                                  .payload = STORAGE_HEAD + BYTES};
    return world_packet(f->world, 1 + client, 0, number, &m, message + from, from, to - from);
}

/* The first or the second packets of writes [first, end), whose numbers are those of this round. */
static int send_all(struct flood *f, uint32_t first, uint32_t end, uint32_t round, bool begins) {
    uint8_t message[STORAGE_HEAD + BYTES];
    if (begins && first == 0)
        memcpy(f->before, f->request, f->clients * sizeof *f->before);
    for (uint32_t i = first; i < end; i++) {
        uint32_t client = i % f->clients;
        const struct store_ask ask = {.operation = STORAGE_WRITE,
                                      .trust = STORAGE_CAPABILITY,
                                      .offset = i * BYTES,
                                      .length = BYTES,
                                      .request = begins ? ++f->request[client] : 1};
        if (begins) {
            f->number[i] = f->messages[client]++;
            store_head((struct storage_head *)(void *)message, &f->grant[client], &ask);
        }
        fill(message + STORAGE_HEAD, i, round);
        int line = begins ? depart(f, client, f->number[i], message, 0, STORAGE_HEAD + BEFORE)
                          : depart(f, client, f->number[i], message, STORAGE_HEAD + BEFORE,
                                   STORAGE_HEAD + BYTES);
        if (line)
            return line;
        if ((i - first) % BURST == BURST - 1)
            spin_compute(40000);
    }
    spin_compute(1000000);
    return 0;
}

/* ---- Ranks ---- */

/* What the card says; answers are counted anew from here on. */
static struct storage_counts look(struct flood *f, uint32_t status[STORAGE_STATUSES]) {
    f->asks++;
    while (f->looks != f->asks && !f->over)
        spin_compute(100000);
    memcpy(status, f->status, sizeof f->status);
    memset(f->status, 0, sizeof f->status);
    return f->seen;
}

static bool writes_are(const struct flood *f, uint32_t count, uint32_t round) {
    uint8_t data[BYTES];
    for (uint32_t i = 0; i < count; i++) {
        fill(data, i, round);
        if (f->answer[i] == STORAGE_DONE &&
            memcmp(f->medium + STORAGE_BLOCK + (uint64_t)i * BYTES, data, BYTES) != 0)
            return false;
    }
    return true;
}

/* All begin, the table is full, who comes now is denied; then all end. */
static int fill_and_end(struct flood *f, uint32_t round) {
    uint32_t all = f->slots + f->swap, got[STORAGE_STATUSES];
    RANK_CHECK(send_all(f, 0, all, round, true) == 0);
    struct storage_counts c = look(f, got);
    printf("# %u writes are under way, %u of them in L2\n", c.under_way, c.swapped);
    RANK_CHECK(c.under_way == all && c.refused[STORAGE_FULL] == 0 && got[STORAGE_DONE] == 0);
    RANK_CHECK(send_all(f, all, all + MORE, round, true) == 0);
    c = look(f, got);
    RANK_CHECK(c.under_way == all && c.refused[STORAGE_FULL] == MORE);
    RANK_CHECK(got[STORAGE_FULL] == MORE && got[STORAGE_DONE] == 0);
    RANK_CHECK(send_all(f, 0, all + MORE, round, false) == 0);
    c = look(f, got);
    RANK_CHECK(got[STORAGE_DONE] == all && got[STORAGE_FULL] == 0);
    RANK_CHECK(c.under_way == 0 && c.answered == all && c.cleaned == 0);
    RANK_CHECK(writes_are(f, all, round));
    return 0;
}

/* The same, but every write is silent from its first packet on. */
static int fall_silent(struct flood *f, uint32_t round) {
    uint32_t all = f->slots + f->swap, got[STORAGE_STATUSES];
    RANK_CHECK(send_all(f, 0, all + MORE, round, true) == 0);
    struct storage_counts c = look(f, got);
    RANK_CHECK(c.under_way == all && got[STORAGE_FULL] == MORE && got[STORAGE_DONE] == 0);
    spin_compute(2000ull * CLEANUP_US);
    c = look(f, got);
    printf("# %u silent writes were given up, the host was told of %u\n", c.cleaned, f->told);
    RANK_CHECK(c.cleaned == all && c.under_way == 0 && got[STORAGE_DONE] == 0);
    /* and the table takes as many again, but for a few: the card gives messages other numbers now,
     * and a descriptor is at one of eight places of its number */
    RANK_CHECK(send_all(f, 0, all, round + 1, true) == 0);
    RANK_CHECK(send_all(f, 0, all, round + 1, false) == 0);
    c = look(f, got);
    printf("# %u of as many are done then, %u denied\n", got[STORAGE_DONE], got[STORAGE_FULL]);
    RANK_CHECK(got[STORAGE_DONE] + got[STORAGE_FULL] == all && got[STORAGE_FULL] <= all / 10);
    RANK_CHECK(c.under_way == 0 && writes_are(f, all, round + 1));
    return 0;
}

static int attack(struct flood *f) {
    int line = fill_and_end(f, 0);
    line = line ? line : fall_silent(f, 1);
    f->over = true;
    return line;
}

static void cleaned(void *user, const struct storage_notice *notice) {
    struct flood *f = user;
    f->told += notice->length == BYTES;
}

static int serve(struct flood *f, struct store_node_card *card, ptl_handle_eq_t eq) {
    struct store_node_host host;
    const struct store_host_options h = {.most_bytes = 4096, .cleaned = cleaned, .user = f};
    RANK_CHECK(store_node_host_open(card, f->medium, &h, &host) == PTL_OK);
    spin_barrier();
    while (!f->over) {
        ptl_event_t event;
        unsigned int which;
        int code = PtlEQPoll(&eq, 1, 1, &event, &which);
        RANK_CHECK(code == PTL_OK || code == PTL_EQ_EMPTY);
        if (code == PTL_OK)
            RANK_CHECK(store_node_host_event(&host, &event, &code) && code == PTL_OK);
        else if (f->looks != f->asks) {
            RANK_CHECK(store_node_card_report(card, &f->seen) == PTL_OK);
            f->looks = f->asks;
        }
    }
    store_node_host_close(&host);
    return 0;
}

static int store(struct flood *f, const struct spin_job *job, ptl_handle_eq_t eq) {
    struct store_node_card card;
    const struct store_node_options o = {.medium = f->medium,
                                         .blocks = f->blocks,
                                         .slots = f->slots,
                                         .swap = f->swap,
                                         .windows = 1024,
                                         .accumulators = 1,
                                         .cleanup_ns = 1000ull * CLEANUP_US,
                                         .trust = STORAGE_CAPABILITY,
                                         .now = NOW,
                                         .key = {f->key}};
    RANK_CHECK(store_node_card_open(job->ni, f->pt, &o, &card) == PTL_OK);
    int line = serve(f, &card, eq);
    store_node_card_close(&card);
    return line;
}

/* Writes are dealt out to the clients one by one. */
static void note_answer(struct flood *f, uint32_t client, uint64_t request, uint32_t status) {
    uint64_t write = (request - f->before[client] - 1) * f->clients + client;
    f->status[status % STORAGE_STATUSES]++;
    if (write < f->slots + f->swap)
        f->answer[write] = (uint8_t)status;
}

/* Counts the answers that this client gets. */
static int count_answers(struct flood *f, const struct spin_job *job, ptl_pt_index_t pt,
                         ptl_handle_eq_t eq) {
    const struct spin_entry entry = {.bits = STORAGE_ANSWER, .options = PTL_ME_OP_PUT};
    struct spin_linked linked;
    RANK_CHECK(spin_entry_append(job->ni, pt, &entry, &linked) == PTL_OK);
    spin_barrier();
    while (!f->over) {
        ptl_event_t event;
        unsigned int which;
        int code = PtlEQPoll(&eq, 1, 10, &event, &which);
        RANK_CHECK(code == PTL_OK || code == PTL_EQ_EMPTY);
        if (code == PTL_OK && event.type == PTL_EVENT_PUT)
            note_answer(f, job->rank - 1, event.hdr_data >> 16, event.hdr_data & 0xff);
    }
    spin_entry_remove(&linked);
    return 0;
}

/* Rank 0 is the node, the last one sends for all clients. */
static int rank(void *argument) {
    struct flood *f = argument;
    struct spin_job job;
    ptl_handle_eq_t eq;
    ptl_pt_index_t pt;
    int line;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(PtlEQAlloc(job.ni, 4096, &eq) == PTL_OK);
    RANK_CHECK(PtlPTAlloc(job.ni, 0, eq, PTL_PT_ANY, &pt) == PTL_OK);
    f->pt = pt;
    if (job.rank == 0) {
        line = store(f, &job, eq);
    } else if (job.rank <= f->clients) {
        line = count_answers(f, &job, pt, eq);
    } else {
        spin_barrier();
        line = attack(f);
    }
    f->over |= line != 0;
    PtlPTFree(job.ni, pt);
    PtlEQFree(eq);
    spin_job_close(&job);
    return line;
}

/* ---- Tests ---- */

static struct store_grant grant_of(const struct flood *f, uint32_t client) {
    struct store_grant g = {.capability = {.rights = STORAGE_MAY_WRITE,
                                           .strategy = STORAGE_PLAIN,
                                           .k = 1,
                                           .serial = (uint16_t)client,
                                           .client = 1 + client,
                                           .bytes = (f->blocks - 1) * STORAGE_BLOCK,
                                           .object = 1,
                                           .expires = NOW + 10,
                                           .place = {{0, 1}}}};
    store_grant_sign(&g, &f->key, STORAGE_CAPABILITY);
    return g;
}

static void flood_card(struct flood f, const char *card) {
    const char *set[] = {"hpu_memory=4194304", card};
    uint32_t all = f.slots + f.swap + MORE;
    f.clients = (all + EACH - 1) / EACH;
    f.blocks = 2 + all * BYTES / STORAGE_BLOCK;
    f.key = store_key(1, UINT32_MAX, 4711);
    f.medium = calloc(f.blocks + 1, STORAGE_BLOCK);
    f.grant = calloc(f.clients, sizeof *f.grant);
    f.request = calloc(f.clients, sizeof *f.request);
    f.before = calloc(f.clients, sizeof *f.before);
    f.answer = calloc(all, 1);
    f.messages = calloc(f.clients, sizeof *f.messages);
    f.number = calloc(all, sizeof *f.number);
    for (uint32_t i = 0; i < f.clients; i++)
        f.grant[i] = grant_of(&f, i);
    spinlib_world_seen(
        (struct spin_world_options){.ranks = f.clients + 2, .set = set, .set_count = 2}, card, rank,
        &f, &f.world);
    free(f.medium);
    free(f.grant);
    free(f.request);
    free(f.before);
    free(f.answer);
    free(f.messages);
    free(f.number);
}

TEST(a_full_table_denies_and_recovers_though_every_write_is_half_there) {
    flood_card((struct flood){.slots = 1000, .swap = 500}, "card=sc17");
    flood_card((struct flood){.slots = 1000, .swap = 500}, "card=pspin");
}

/* The paper: about 82,000. */
TEST(a_card_has_as_many_writes_under_way_as_the_paper_says) {
    if (!getenv("OPENSPIN_SEEDS"))
        TEST_SKIP("it takes a while: make soak");
    flood_card((struct flood){.slots = 56000, .swap = STORAGE_SWAP_SLOTS}, "card=sc17");
    flood_card((struct flood){.slots = 56000, .swap = STORAGE_SWAP_SLOTS}, "card=pspin");
}

TEST_MAIN
