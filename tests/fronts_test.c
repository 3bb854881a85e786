/* A message with handlers has the same life on every card: one table of cases (each handler there
 * or not, with every return code and a fault) on the match rules of `card run`, and on Portals
 * matching in worlds of either card, with packets in order and not, and on live cards, with
 * handlers on who drives and on workers. Which handlers run, with which
 * arguments, in which order, what is stored, and whether the message has failed. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/cardworld.h"
#include "live/live_card.h"
#include "nic/nic.h"
#include "portals4.h"

#define MTU     64u
#define BYTES   296u /* in five packets */
#define ENTRIES 20u  /* together more than a message */
#define NO      99   /* there is no such handler */
#define FAULTS  100  /* it makes a mistake */

static const int32_t headers[] = {NO, FAULTS, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
static const int32_t payloads[] = {NO, FAULTS, -1, 0, 1, 2, 4, 6, 7, 8, 9, 10};
static const int32_t completions[] = {NO, FAULTS, 0, 1, 2, 6, 8};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])
#define CASES       (COUNT(payloads) * COUNT(completions)) /* with one header handler */

struct state {
    int32_t code[3];
    uint32_t count;
};

/* What came of a message. */
struct seen {
    struct entry {
        uint32_t kind, a, b, there;
    } entry[ENTRIES];
    uint8_t stored[BYTES];
    bool told, failed; /* told: it had an event */
};

/* A run: cases of one interface with one header handler. */
struct run_of {
    int32_t header;
    bool pspin;
};

static const char *const names[][3] = {
    {"front_header_handler", "front_payload_handler", "front_completion_handler"},
    {"front_hh", "front_ph", "front_th"}};

static const char *image_of(struct run_of r) {
    return getenv(r.pspin ? "FRONT_PSPIN_IMAGE" : "FRONT_IMAGE");
}

static struct state case_of(struct run_of r, uint32_t i) {
    return (struct state){
        {r.header, payloads[i % COUNT(payloads)], completions[i / COUNT(payloads)]}, 0};
}

static bool has(struct state s, int kind) {
    return s.code[kind] != NO;
}

static uint8_t data_at(uint32_t i) {
    return (uint8_t)(1 + i % 251);
}

static int by_offset(const void *x, const void *y) {
    const struct entry *a = x, *b = y;
    return (a->a > b->a) - (a->a < b->a);
}

/* The order of payload handlers is free; that of the others is not. */
static void normalize(struct seen *s) {
    uint32_t from = 0, to;
    while (from < ENTRIES && s->entry[from].there && s->entry[from].kind != 1)
        from++;
    for (to = from; to < ENTRIES && s->entry[to].there && s->entry[to].kind == 1;)
        to++;
    qsort(&s->entry[from], to - from, sizeof s->entry[0], by_offset);
}

/* ---- match rules ---- */

/* A context for each set of handlers. */
static struct world *card_with(struct run_of r, struct entry *log, uint32_t *contexts) {
    struct world *w = world_new();
    spin_image_free(w->image);
    GOOD(spin_image_load(&w->image, image_of(r), NULL, &err));
    w->context.image = w->image;
    w->context.abi = r.pspin ? CARD_PSPIN : CARD_P4SPIN;
    w->context.scratch_bytes = r.pspin ? 4096 : 0; /* as others have */
    w->context.memory_bytes = sizeof(struct state);
    uint8_t **host = r.pspin ? &w->context.host : &w->context.handler_host;
    uint64_t *host_bytes = r.pspin ? &w->context.host_bytes : &w->context.handler_host_bytes;
    *host = (uint8_t *)log;
    *host_bytes = ENTRIES * sizeof *log;
    for (uint32_t set = 0; set < 4; set++) {
        const char *const *name = names[r.pspin];
        handlers(w, r.header != NO ? name[0] : NULL, set & 1 ? name[1] : NULL,
                 set & 2 ? name[2] : NULL);
        if (set == 0)
            build(w);
        else
            GOOD(card_add_context(w->card, &w->context, &w->number, &err));
        contexts[set] = w->number;
    }
    return w;
}

static void on_card(struct run_of r, struct seen *seen) {
    static struct entry log[ENTRIES];
    uint32_t contexts[4], failed = 0;
    struct world *w = card_with(r, log, contexts);
    for (uint32_t i = 0; i < CASES; i++) {
        struct state s = case_of(r, i);
        w->number = contexts[has(s, 1) | has(s, 2) << 1];
        memset(log, 0, sizeof log);
        memset(w->host, 0, BYTES);
        memcpy(record(w, 0), &s, sizeof s);
        for (uint32_t at = 0; at < BYTES; at += MTU) {
            uint32_t length = BYTES - at < MTU ? BYTES - at : MTU;
            struct card_packet *p =
                add(w, i, length, at + length == BYTES, sim_engine_counts(w->engine).now_ps);
            p->context = w->number;
            p->offset = at;
            p->message_bytes = BYTES;
            for (uint32_t k = 0; k < length; k++)
                ((uint8_t *)(uintptr_t)p->bytes)[k] = data_at(at + k);
        }
        run(w);
        memcpy(seen[i].entry, log, sizeof log);
        memcpy(seen[i].stored, w->host, BYTES);
        seen[i].failed = w->stats.messages_failed - failed;
        failed = (uint32_t)w->stats.messages_failed;
        CHECK_EQ(w->stats.messages_completed + failed, i + 1);
    }
    world_free(w);
}

/* ---- Portals matching ---- */

struct shared {
    struct run_of run;
    struct seen *seen;
    uint8_t data[BYTES];
};

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != PTL_OK)                                                                      \
            return __LINE__;                                                                       \
    } while (0)

static int append(struct shared *sh, ptl_handle_ni_t ni, ptl_pt_index_t pt, ptl_image_h image,
                  uint32_t i) {
    struct state s = case_of(sh->run, i);
    ptl_handle_me_t entry;
    bool pspin = sh->run.pspin; /* then the entry's memory is for what they tell */
    ptl_me_t me = {.start = pspin ? (void *)sh->seen[i].entry : sh->seen[i].stored,
                   .length = pspin ? sizeof sh->seen[i].entry : BYTES,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .match_id = {.rank = PTL_RANK_ANY},
                   .match_bits = i,
                   .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_HANDLERS,
                   .handler_host_mem_start = sh->seen[i].entry,
                   .handler_host_mem_length = sizeof sh->seen[i].entry,
                   .hpu_initial_state = &s,
                   .hpu_initial_state_length = sizeof s};
    ptl_handler_t *handler[] = {&me.header_handler, &me.payload_handler, &me.completion_handler};
    for (int kind = 0; kind < 3; kind++)
        if (has(s, kind))
            OK(PtlImageFind(image, names[pspin][kind], handler[kind]));
    OK(PtlHPUAllocMem(sizeof s, ni, &me.hpu_memory));
    return PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry);
}

static int rank(void *argument) {
    struct shared *sh = argument;
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq;
    ptl_image_h image;
    ptl_handle_md_t md;
    OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                 &ni));
    OK(spin_map_ranks(ni));
    OK(PtlEQAlloc(ni, 4 * CASES, &eq));
    OK(PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &pt));
    if (spin_rank() == 1) {
        OK(PtlImageLoad(ni, image_of(sh->run), &image));
        for (uint32_t i = 0; i < CASES; i++)
            OK(append(sh, ni, pt, image, i));
    }
    spin_barrier();
    if (spin_rank() == 0) {
        const ptl_md_t all = {
            .start = sh->data, .length = BYTES, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
        OK(PtlMDBind(ni, &all, &md));
        for (uint32_t i = 0; i < CASES; i++)
            if (sh->run.header != NO || i)
                OK(PtlPut(md, 0, BYTES, PTL_NO_ACK_REQ, (ptl_process_t){.rank = 1}, pt, i, 0, NULL,
                          0));
    }
    spin_compute(20000000); /* some messages have no event */
    ptl_event_t event;
    while (PtlEQGet(eq, &event) == PTL_OK)
        if (event.type == PTL_EVENT_PUT) {
            sh->seen[event.match_bits].told = true;
            sh->seen[event.match_bits].failed = event.ni_fail_type != PTL_NI_OK;
        }
    PtlNIFini(ni);
    PtlFini();
    return 0;
}

static void in_world(struct run_of r, struct seen *seen, const char *const *set, int sets) {
    struct shared sh = {.run = r, .seen = seen};
    struct spin_world_options o = {.ranks = 2, .set = set, .set_count = sets};
    struct spin_world *w;
    for (uint32_t i = 0; i < BYTES; i++)
        sh.data[i] = data_at(i);
    GOOD(spin_world_new(&w, &o, &err));
    GOOD(spin_world_run(w, rank, &sh, &err));
    struct spin_world_result result = spin_world_result(w);
    if (result.failed)
        TEST_FAIL("rank %u failed at line %d", result.first_failed, result.first_status);
    spin_world_free(w);
}

/* ---- live ---- */

static struct {
    struct live_folder folder;
    struct live_card *card[2];
    struct shared *shared;
    pthread_barrier_t barrier;
    int status[2];
} live;
static __thread uint32_t own_rank;

static uint32_t live_rank(void *context) {
    (void)context;
    return own_rank;
}

static void live_barrier(void *context) {
    (void)context;
    pthread_barrier_wait(&live.barrier);
}

static int live_map(void *context, uint32_t ni) {
    (void)context;
    const ptl_process_t both[2] = {{.phys = {1, 0}}, {.phys = {1, 1}}};
    return PtlSetMap(ni, 2, both);
}

static bool is_quiet(struct live_card *card) {
    const struct portals_process *process = live_card_process(card);
    process->host->lock(process->context);
    bool quiet = nic_quiet(live_card_nic(card));
    process->host->unlock(process->context);
    return quiet;
}

/* For both: the sender is quiet when everything has left, the receiver when it is done. */
static void live_compute(void *context, uint64_t ps) {
    (void)ps;
    live_barrier(context);
    for (int rounds = 0; rounds < 3; rounds++)
        while (!is_quiet(live.card[0]) || !is_quiet(live.card[1]))
            usleep(100);
    live_barrier(context);
}

static void *live_main(void *argument) {
    static const struct portals_job job = {
        .rank = live_rank, .compute = live_compute, .barrier = live_barrier, .map = live_map};
    own_rank = (uint32_t)(uintptr_t)argument;
    live_card_process(live.card[own_rank])->job = &job;
    portals_enter(live_card_process(live.card[own_rank]));
    live.status[own_rank] = rank(live.shared);
    return NULL;
}

static void on_live(struct run_of r, struct seen *seen, uint32_t hpus) {
    struct shared sh = {.run = r, .seen = seen};
    pthread_t thread[2];
    char name[64];
    for (uint32_t i = 0; i < BYTES; i++)
        sh.data[i] = data_at(i);
    live.shared = &sh;
    pthread_barrier_init(&live.barrier, NULL, 2);
    GOOD(live_folder_make(&live.folder, name, sizeof name, &err));
    for (uintptr_t i = 0; i < 2; i++) {
        const struct live_card_options options = {.folder = &live.folder,
                                                  .nid = 1,
                                                  .pid = (uint32_t)i,
                                                  .progress = true,
                                                  .hpus = hpus,
                                                  .mtu_bytes = MTU};
        GOOD(live_card_new(&live.card[i], &options, &err));
    }
    for (uintptr_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, live_main, (void *)i), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        CHECK_EQ(live.status[i], 0);
    }
    live_card_free(live.card[0]);
    live_card_free(live.card[1]);
    live_folder_remove(&live.folder);
    pthread_barrier_destroy(&live.barrier);
}

/* ---- the same ---- */

/* What the table of docs/nic.md says of the return codes, said once more and shorter. */
static void expect(struct state s, const struct seen *seen) {
    uint32_t ran[3] = {0}, last = 0;
    for (uint32_t i = 0; i < ENTRIES && seen->entry[i].there; i++) {
        CHECK(seen->entry[i].kind >= last); /* header, payloads, completion */
        ran[last = seen->entry[i].kind]++;
    }
    bool processed = !has(s, 0) || (s.code[0] >= 0 && s.code[0] <= 3);
    bool kept = processed || s.code[0] == 4 || s.code[0] == 5;
    CHECK_EQ(ran[0], has(s, 0));
    CHECK_EQ(ran[1], processed && has(s, 1) ? 5 : 0);
    CHECK_EQ(ran[2], has(s, 2));
    for (uint32_t i = 0; i < BYTES; i++)
        CHECK_EQ(seen->stored[i], kept && !ran[1] ? data_at(i) : 0);
    bool drops = ran[1] && (s.code[1] == 6 || s.code[1] == 7);
    if (ran[2])
        CHECK_EQ(seen->entry[ran[0] + ran[1]].a, drops || !kept ? BYTES : 0);
}

static void compare(struct run_of r, const struct seen *a, const struct seen *b,
                    const char *where) {
    for (uint32_t i = 0; i < CASES; i++) {
        struct state s = case_of(r, i);
        if (!has(s, 0) && !has(s, 1) && !has(s, 2))
            continue; /* a rule without handlers is none */
        bool same = memcmp(a[i].entry, b[i].entry, sizeof a[i].entry) == 0 &&
                    memcmp(a[i].stored, b[i].stored, BYTES) == 0 &&
                    (!b[i].told || a[i].failed == b[i].failed);
        if (!same)
            TEST_FAIL("%s: handlers that return %d, %d, %d", where, s.code[0], s.code[1],
                      s.code[2]);
        bool pending =
            !r.pspin && (s.code[2] == 1 || (s.code[0] >= 0 && s.code[0] < 8 && s.code[0] % 2));
        CHECK_EQ(b[i].told, !pending || a[i].failed); /* an error is told in any case */
    }
}

static void normalize_all(struct seen *seen) {
    for (uint32_t i = 0; i < CASES; i++)
        normalize(&seen[i]);
}

/* After a fault of a PsPIN handler how many others had begun is a matter of time. */
static void forget_payloads(struct run_of r, struct seen *seen) {
    for (uint32_t i = 0; i < CASES; i++) {
        struct state s = case_of(r, i);
        if (s.code[1] != FAULTS || s.code[0] == FAULTS)
            continue;
        for (uint32_t k = has(s, 0); k < ENTRIES && seen[i].entry[k].kind == 1; k++)
            memset(&seen[i].entry[k], 0, sizeof seen[i].entry[k]);
        CHECK(seen[i].failed);
    }
}

static void expect_pspin(struct state s, const struct seen *seen) {
    bool lost = s.code[0] == FAULTS || s.code[1] == FAULTS;
    uint32_t payloads_ran = has(s, 1) && !lost ? 5 : 0, n = has(s, 0), at = n + payloads_ran;
    if (n)
        CHECK(seen->entry[0].kind == 0 && seen->entry[0].a == data_at(0) &&
              seen->entry[0].b == MTU);
    for (uint32_t i = 0; i < payloads_ran; i++)
        CHECK(seen->entry[n + i].kind == 1);
    CHECK_EQ(seen->entry[at].there, has(s, 2) && !lost);
    if (has(s, 2) && !lost) /* with the last packet */
        CHECK(seen->entry[at].kind == 2 && seen->entry[at].a == data_at(BYTES - BYTES % MTU) &&
              seen->entry[at].b == BYTES % MTU);
    CHECK_EQ(seen->failed, lost || s.code[2] == FAULTS);
}

static void everywhere(struct run_of r) {
    static const char *const sc17[] = {"mtu=64"}, *const pspin[] = {"mtu=64", "card=pspin"},
                             *const unordered[] = {"mtu=64", "reordering=0.3"};
    static const struct {
        const char *name;
        const char *const *set;
        int sets;
    } world[] = {{"SC'17's card", sc17, 1},
                 {"the PsPIN card in a world", pspin, 2},
                 {"packets out of order", unordered, 2}};
    static struct seen card[CASES], other[CASES];
    memset(card, 0, sizeof card);
    on_card(r, card);
    normalize_all(card);
    if (r.pspin)
        forget_payloads(r, card);
    for (uint32_t i = 0; i < CASES; i++)
        (r.pspin ? expect_pspin : expect)(case_of(r, i), &card[i]);
    for (uint32_t k = 0; k < COUNT(world); k++) {
        memset(other, 0, sizeof other);
        in_world(r, other, world[k].set, world[k].sets);
        normalize_all(other);
        if (r.pspin)
            forget_payloads(r, other);
        compare(r, card, other, world[k].name);
    }
    static const uint32_t hpus[] = {0, 1, 3};
    for (uint32_t k = 0; k < COUNT(hpus); k++) {
        char name[64];
        memset(other, 0, sizeof other);
        on_live(r, other, hpus[k]);
        normalize_all(other);
        if (r.pspin)
            forget_payloads(r, other);
        snprintf(name, sizeof name, "a live card, handlers on %u workers", hpus[k]);
        compare(r, card, other, name);
    }
}

TEST(every_code_on_every_front) {
    for (uint32_t h = 0; h < COUNT(headers); h++)
        everywhere((struct run_of){headers[h], false});
}

TEST(handlers_without_codes_on_every_front) {
    static const int32_t few[] = {NO, FAULTS, 0, 9};
    for (uint32_t h = 0; h < COUNT(few); h++)
        everywhere((struct run_of){few[h], true});
}

TEST_MAIN
