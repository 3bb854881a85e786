/* Live cards over shared memory, between processes of this machine, beside UCX and libfabric where
 * they are installed. `bench-live [SECTION...]`:
 *
 *     latency    half round trip of a put, by size and by the way of waiting
 *     latency8   the same of 8 bytes alone, by who waits in a call, and where handlers answer;
 *                all in turns, the median of several with the least and the most
 *     software   the same without the way: put and wait between two cards of one thread, beside a
 *                line of memory that two processes pass to and fro
 *     bandwidth  puts against memcpy
 *     rate       small messages from 1 to 8 peers
 *     crowd      8 ranks on as many processors as there are, against 2
 *
 * Round trips are timed in batches, and the median is told: a shared machine takes away the
 * processor now and then. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_peers.h"
#include "live/live_card.h"
#include "live/live_clock.h"
#include "measure.h"
#include "../handlers/p4_pingpong/p4_pingpong.h"

#define MEMORY  (4u << 20)
#define HUGE    (2u << 20) /* large buffers begin with a huge page */
#define BATCH   50u
#define BATCHES 200u
#define MOST    8u /* peers */
#define TURNS   7u
#define WARM_NS (300 * LIVE_MS) /* then handlers are compiled */
#define NEED(call)                                                                                 \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_) {                                                                               \
            fprintf(stderr, "bench-live: %s: %s\n", #call, PtlToStr(code_, PTL_STR_ERROR));        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

enum { TO_ALL, TO_HANDLERS, ANSWERS = P4_PONG }; /* match bits */

enum way { CT_WAIT, CT_GET, EQ_WAIT, EQ_GET, WATCH, WAYS };
static const char *const way_names[] = {"PtlCTWait", "PtlCTGet", "PtlEQWait", "PtlEQGet", "memory"};
static char build[400]; /* the folder with the handlers' images */

/* A rank. */
struct side {
    struct live_card *card;
    uint32_t rank, ranks;
    double *result; /* of rank 0, for who started it */
    ptl_handle_ni_t ni;
    ptl_handle_ct_t arrived, acked;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    uint64_t seen, events;
    uint8_t *source, *memory;
};

static void append(struct side *s, ptl_pt_index_t pt, ptl_match_bits_t bits) {
    const ptl_me_t me = {.start = s->memory,
                         .length = MEMORY,
                         .ct_handle = s->arrived,
                         .uid = PTL_UID_ANY,
                         .match_id = {.phys = {.nid = PTL_NID_ANY, .pid = PTL_PID_ANY}},
                         .match_bits = bits,
                         .options =
                             PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_LINK_DISABLE};
    ptl_handle_me_t handle;
    NEED(PtlMEAppend(s->ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
}

/* Index 0 counts what arrives, index 1 raises full events as well. */
static void open_side(struct side *s, struct live_folder *folder) {
    const struct live_card_options options = {.folder = folder,
                                              .nid = 1,
                                              .pid = s->rank,
                                              .progress = true,
                                              .jit = SPIN_JIT_ASIDE,
                                              .paging = wants_paging(),
                                              .crowded = s->ranks > 2};
    struct spin_error err;
    ptl_pt_index_t pt;
    if (live_card_new(&s->card, &options, &err)) {
        fprintf(stderr, "bench-live: %s\n", err.text);
        _exit(1);
    }
    s->source = aligned_alloc(HUGE, MEMORY);
    s->memory = aligned_alloc(HUGE, MEMORY);
    memset(s->source, 1, MEMORY);
    memset(s->memory, 2, MEMORY);
    portals_enter(live_card_process(s->card));
    NEED(PtlInit());
    NEED(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL,
                   &s->ni));
    NEED(PtlEQAlloc(s->ni, 1024, &s->eq));
    NEED(PtlPTAlloc(s->ni, 0, PTL_EQ_NONE, 0, &pt));
    NEED(PtlPTAlloc(s->ni, 0, s->eq, 1, &pt));
    NEED(PtlCTAlloc(s->ni, &s->arrived));
    NEED(PtlCTAlloc(s->ni, &s->acked));
    append(s, 0, TO_ALL);
    append(s, 1, TO_ALL);
    const ptl_md_t md = {.start = s->source,
                         .length = MEMORY,
                         .options = PTL_MD_EVENT_CT_ACK,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = s->acked};
    NEED(PtlMDBind(s->ni, &md, &s->md));
}

static void put_to(struct side *s, uint32_t rank, uint64_t bytes, ptl_ack_req_t ack,
                   ptl_pt_index_t pt, ptl_match_bits_t bits) {
    const ptl_process_t target = {.phys = {.nid = 1, .pid = rank}};
    NEED(PtlPut(s->md, 0, bytes, ack, target, pt, bits, 0, NULL, 0));
}

static void put(struct side *s, uint64_t bytes, ptl_ack_req_t ack) {
    put_to(s, 1 - s->rank, bytes, ack, 0, TO_ALL);
}

static void await(struct side *s, uint64_t more) {
    ptl_ct_event_t event;
    s->seen += more;
    NEED(PtlCTWait(s->arrived, s->seen, &event));
}

/* Until all have an entry for what rank 0 sends, and know that it has one. */
static void meet(struct side *s) {
    ptl_ct_event_t event;
    if (s->rank) {
        await(s, 1);
        put_to(s, 0, 0, PTL_NO_ACK_REQ, 0, TO_ALL);
        await(s, 1);
        return;
    }
    for (uint32_t i = 1; i < s->ranks; i++)
        do {
            NEED(PtlCTSet(s->acked, (ptl_ct_event_t){0, 0}));
            put_to(s, i, 0, PTL_CT_ACK_REQ, 0, TO_ALL);
            NEED(PtlCTWait(s->acked, 1, &event));
        } while (event.failure);
    await(s, s->ranks - 1);
    for (uint32_t i = 1; i < s->ranks; i++)
        put_to(s, i, 0, PTL_NO_ACK_REQ, 0, TO_ALL);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, uint32_t count) {
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

/* ---- half round trips ---- */

static void await_by(struct side *s, enum way way, uint8_t value) {
    const _Atomic uint8_t *last = (_Atomic uint8_t *)s->memory;
    ptl_ct_event_t count;
    ptl_event_t event;
    int code;
    s->seen++;
    switch (way) {
    case CT_WAIT:
        NEED(PtlCTWait(s->arrived, s->seen, &count));
        return;
    case CT_GET:
        do
            NEED(PtlCTGet(s->arrived, &count));
        while (count.success < s->seen);
        return;
    case EQ_WAIT:
        NEED(PtlEQWait(s->eq, &event));
        return;
    case EQ_GET:
        while ((code = PtlEQGet(s->eq, &event)) == PTL_EQ_EMPTY)
            ;
        NEED(code);
        return;
    default:
        while (atomic_load_explicit(last, memory_order_acquire) != value)
            ;
    }
}

struct latency {
    enum way way;
    uint64_t bytes;
};

static void ping_pong(struct side *s, const void *argument) {
    const struct latency *l = argument;
    ptl_pt_index_t pt = l->way == EQ_WAIT || l->way == EQ_GET;
    double took[BATCHES];
    uint32_t batches = l->way == WATCH ? 20 : BATCHES; /* nobody drives: a look per millisecond */
    for (uint32_t b = 0; b < batches + 2; b++) {
        uint64_t began = live_now_ns();
        uint32_t trips = l->way == WATCH ? 1 : BATCH;
        for (uint32_t i = 0; i < trips; i++) {
            uint8_t value = (uint8_t)(b * trips + i) | 128;
            if (s->rank)
                await_by(s, l->way, value);
            s->source[0] = value;
            put_to(s, 1 - s->rank, l->bytes, PTL_NO_ACK_REQ, pt, TO_ALL);
            if (!s->rank)
                await_by(s, l->way, value);
        }
        if (b >= 2)
            took[b - 2] = (double)(live_now_ns() - began) / (2 * trips);
    }
    s->result[0] = median_of(took, batches);
}

static void handlers_image(char *path, size_t room) {
    snprintf(path, room, "%s/p4_pingpong.spin", build);
}

/* Handlers of rank 1 answer while its program waits for the end. */
static void append_handlers(struct side *s) {
    const struct p4_pingpong state = {.most_streamed = UINT32_MAX};
    char path[sizeof build + 32];
    ptl_image_h image;
    ptl_handle_me_t handle;
    ptl_me_t me = {.start = s->memory,
                   .length = MEMORY,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .match_id = {.phys = {.nid = PTL_NID_ANY, .pid = PTL_PID_ANY}},
                   .match_bits = TO_HANDLERS,
                   .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_HANDLERS,
                   .hpu_initial_state = (void *)(uintptr_t)&state,
                   .hpu_initial_state_length = sizeof state};
    handlers_image(path, sizeof path);
    NEED(PtlImageLoad(s->ni, path, &image));
    NEED(PtlImageFind(image, "pingpong_header_handler", &me.header_handler));
    NEED(PtlImageFind(image, "pingpong_payload_handler", &me.payload_handler));
    NEED(PtlImageFind(image, "pingpong_completion_handler", &me.completion_handler));
    NEED(PtlHPUAllocMem(sizeof state, s->ni, &me.hpu_memory));
    NEED(PtlMEAppend(s->ni, 0, &me, PTL_PRIORITY_LIST, NULL, &handle));
}

static double trips_to_handlers(struct side *s) {
    uint64_t began = live_now_ns();
    for (uint32_t i = 0; i < BATCH; i++) {
        put_to(s, 1, 8, PTL_NO_ACK_REQ, 0, TO_HANDLERS);
        await(s, 1);
    }
    return (double)(live_now_ns() - began) / (2 * BATCH);
}

static void ping_handlers(struct side *s, const void *argument) {
    double took[BATCHES];
    (void)argument;
    if (s->rank) {
        append_handlers(s);
        put(s, 0, PTL_NO_ACK_REQ);
        await(s, 1);
        return;
    }
    append(s, 0, ANSWERS);
    await(s, 1);
    for (uint64_t end_ns = live_now_ns() + WARM_NS; live_now_ns() < end_ns;)
        trips_to_handlers(s);
    for (uint32_t b = 0; b < BATCHES; b++)
        took[b] = trips_to_handlers(s);
    s->result[0] = median_of(took, BATCHES);
    put(s, 0, PTL_NO_ACK_REQ);
}

/* ---- starting ranks ---- */

static void rank_main(struct live_folder *folder, uint32_t rank, uint32_t ranks, double *result,
                      void (*work)(struct side *, const void *), const void *argument) {
    struct side side = {.rank = rank, .ranks = ranks, .result = result};
    double unseen[64];
    if (rank)
        side.result = unseen;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_side(&side, folder);
    meet(&side);
    work(&side, argument);
    live_card_leave(side.card, 1000 * LIVE_MS);
    _exit(0);
}

/* So many processes with a card each; what rank 0 found comes back. */
static void run_ranks(uint32_t ranks, void (*work)(struct side *, const void *),
                      const void *argument, double *result, uint32_t results) {
    struct live_folder folder;
    struct spin_error err;
    char name[64];
    double *shared =
        mmap(NULL, 64 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || live_folder_make(&folder, name, sizeof name, &err)) {
        fprintf(stderr, "bench-live: %s\n", shared == MAP_FAILED ? "out of memory" : err.text);
        exit(1);
    }
    fflush(stdout);
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (fork() == 0)
            rank_main(&folder, rank, ranks, shared, work, argument);
    int status, failed = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        failed |= wait(&status) < 0 || status;
    live_folder_remove(&folder);
    memcpy(result, shared, results * sizeof *result);
    munmap(shared, 64 * sizeof *shared);
    if (failed)
        exit(1);
}

static double half_trip_ns(enum way way, uint64_t bytes) {
    const struct latency l = {.way = way, .bytes = bytes};
    double half;
    run_ranks(2, ping_pong, &l, &half, 1);
    return half;
}

static void latency(void) {
    static const uint64_t sizes[] = {8, 64, 256, 1024, 4096};
    printf("half round trip in ns:\n%8s", "bytes");
    for (uint32_t way = 0; way < WAYS; way++)
        printf(" %10s", way_names[way]);
    printf(" %10s %10s\n", "UCX", "libfabric");
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        printf("%8llu", (unsigned long long)sizes[i]);
        for (uint32_t way = 0; way < WAYS; way++) {
            printf(" %10.0f", half_trip_ns(way, sizes[i]));
            fflush(stdout);
        }
        print_peer(peer_ucx_latency_ns(sizes[i]));
        print_peer(peer_libfabric_latency_ns(sizes[i]));
        printf("\n");
    }
}

/* ---- what the way and the library take of it ---- */

#define SOFTWARE_TIMES 20000u

/* A put and the wait for it: neither a line nor a processor changes hands. */
static void put_and_wait(struct side side[2], enum way way, uint32_t turn) {
    struct side *from = &side[turn & 1], *to = &side[~turn & 1];
    portals_enter(live_card_process(from->card));
    put_to(from, to->rank, 8, PTL_NO_ACK_REQ, way == EQ_WAIT || way == EQ_GET, TO_ALL);
    portals_enter(live_card_process(to->card));
    await_by(to, way, 0);
}

/* The same to handlers, and the wait for their answer: a put more than above. */
static void put_and_answer(struct side side[2], enum way way, uint32_t turn) {
    (void)turn;
    portals_enter(live_card_process(side[0].card));
    put_to(&side[0], 1, 8, PTL_NO_ACK_REQ, 0, TO_HANDLERS);
    live_card_poll(side[1].card);
    await_by(&side[0], way, 0);
}

static double software_ns(void (*turn)(struct side[2], enum way, uint32_t), enum way way) {
    struct side side[2] = {{.rank = 0, .ranks = 2}, {.rank = 1, .ranks = 2}};
    struct live_folder folder;
    struct spin_error err;
    char name[64];
    double took[BATCHES];
    if (live_folder_make(&folder, name, sizeof name, &err)) {
        fprintf(stderr, "bench-live: %s\n", err.text);
        exit(1);
    }
    for (uint32_t i = 0; i < 2; i++)
        open_side(&side[i], &folder);
    if (turn == put_and_answer) {
        append_handlers(&side[1]);
        portals_enter(live_card_process(side[0].card));
        append(&side[0], 0, ANSWERS);
        for (uint64_t end_ns = live_now_ns() + WARM_NS; live_now_ns() < end_ns;)
            turn(side, way, 0);
    }
    for (uint32_t b = 0; b < BATCHES + 2; b++) {
        uint64_t began = live_now_ns();
        for (uint32_t i = 0; i < SOFTWARE_TIMES / BATCHES; i++)
            turn(side, way, i);
        if (b >= 2)
            took[b - 2] = (double)(live_now_ns() - began) / (SOFTWARE_TIMES / BATCHES);
    }
    for (uint32_t i = 0; i < 2; i++) {
        live_card_leave(side[i].card, 1000 * LIVE_MS);
        live_card_free(side[i].card);
        free(side[i].source);
        free(side[i].memory);
    }
    live_folder_remove(&folder);
    return median_of(took, BATCHES);
}

struct floor_lines {
    _Alignas(256) _Atomic uint64_t ping;
    _Alignas(256) _Atomic uint64_t pong;
    _Alignas(256) double ns;
};

/* Each waits for the other's line and writes its own. */
static void pass_lines(struct floor_lines *lines, bool first) {
    _Atomic uint64_t *own = first ? &lines->ping : &lines->pong,
                     *other = first ? &lines->pong : &lines->ping;
    double took[BATCHES];
    for (uint64_t b = 0, turn = 1; b < BATCHES; b++) {
        uint64_t began = live_now_ns();
        for (uint32_t i = 0; i < BATCH; i++, turn++) {
            if (first)
                atomic_store_explicit(own, turn, memory_order_release);
            while (atomic_load_explicit(other, memory_order_acquire) != turn)
                ;
            if (!first)
                atomic_store_explicit(own, turn, memory_order_release);
        }
        took[b] = (double)(live_now_ns() - began) / (2 * BATCH);
    }
    if (first)
        lines->ns = median_of(took, BATCHES);
}

static double line_ns(void) {
    struct floor_lines *lines =
        mmap(NULL, sizeof *lines, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED)
        return 0;
    fflush(stdout);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pass_lines(lines, false);
        _exit(0);
    }
    pass_lines(lines, true);
    wait(NULL);
    double ns = lines->ns;
    munmap(lines, sizeof *lines);
    return ns;
}

/* Where the machine runs the two processes changes from one second to the next, so what is compared
 * takes turns. */
static void latency8(void) {
    enum { HANDLERS = WATCH, UCX, LINE, FIGURES };
    static const char *const names[] = {[HANDLERS] = "handlers", [UCX] = "UCX", [LINE] = "line"};
    double took[FIGURES][TURNS];
    for (uint32_t i = 0; i < TURNS; i++) {
        for (uint32_t way = 0; way < WATCH; way++)
            took[way][i] = half_trip_ns(way, 8);
        run_ranks(2, ping_handlers, NULL, &took[HANDLERS][i], 1);
        took[UCX][i] = peer_ucx_latency_ns(8);
        took[LINE][i] = line_ns();
    }
    printf("half round trip of 8 bytes in ns, %u turns:\n%-10s %8s %8s %8s\n", TURNS, "", "median",
           "least", "most");
    for (uint32_t f = 0; f < FIGURES; f++) {
        double median = median_of(took[f], TURNS); /* and sorts */
        printf("%-10s %8.0f %8.0f %8.0f\n", f < WATCH ? way_names[f] : names[f], median, took[f][0],
               took[f][TURNS - 1]);
    }
}

static void software(void) {
    printf("\na line of memory from process to process: %.0f ns\n", line_ns());
    printf("put and wait in one thread, ns:");
    for (uint32_t way = 0; way < WATCH; way++) {
        printf(" %s %.0f", way_names[way], software_ns(put_and_wait, way));
        fflush(stdout);
    }
    printf("\nput to handlers and wait for their answer, ns: %.0f\n",
           software_ns(put_and_answer, CT_WAIT));
}

/* ---- bandwidth ---- */

struct bandwidth {
    uint64_t bytes;
    uint32_t times, window;
};

/* From rank 0 to rank 1: ns per message, beside a copy between buffers of one process, in the
 * cache and out of it. */
static void stream(struct side *s, const void *argument) {
    const struct bandwidth *w = argument;
    ptl_ct_event_t event;
    for (uint32_t round = 0; round < 5; round++) {
        uint64_t began = live_now_ns();
        if (s->rank) {
            await(s, w->times);
            put(s, 0, PTL_NO_ACK_REQ);
            continue;
        }
        NEED(PtlCTSet(s->acked, (ptl_ct_event_t){0, 0}));
        for (uint32_t i = 0; i < w->times; i++) {
            put(s, w->bytes, w->window ? PTL_CT_ACK_REQ : PTL_NO_ACK_REQ);
            if (w->window && i + 1 >= w->window)
                NEED(PtlCTWait(s->acked, i + 2 - w->window, &event));
        }
        await(s, 1);
        double ns = (double)(live_now_ns() - began) / w->times;
        if (!round || ns < s->result[0])
            s->result[0] = ns;
    }
}

static double copy_ns(uint64_t bytes, uint64_t span, uint32_t times) {
    uint8_t *from = aligned_alloc(4096, span), *to = aligned_alloc(4096, span);
    memset(from, 1, span);
    memset(to, 2, span);
    double best = 0;
    for (uint32_t round = 0; round < 5; round++) {
        uint64_t began = live_now_ns(), at = 0;
        for (uint32_t i = 0; i < times; i++) {
            memcpy(to + at, from + at, bytes);
            __asm__ volatile("" ::: "memory");
            at = at + 2 * bytes <= span ? at + bytes : 0;
        }
        double ns = (double)(live_now_ns() - began) / times;
        if (!round || ns < best)
            best = ns;
    }
    free(from);
    free(to);
    return best;
}

static void bandwidth(void) {
    static const uint64_t sizes[] = {1024, 4096, 16384, 65536, 262144, 1u << 20, 4u << 20};
    printf("\nbandwidth in GB/s; memcpy within one buffer and through 64 MiB:\n%8s %8s %8s %8s %8s "
           "%10s %10s\n",
           "bytes", "put", "memcpy", "ratio", "of 64M", "UCX tag", "UCX put");
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct bandwidth w = {
            .bytes = sizes[i], .times = sizes[i] > 100000 ? 100 : 2000, .window = 16};
        double ns, bytes = (double)sizes[i];
        run_ranks(2, stream, &w, &ns, 1);
        double copy = copy_ns(sizes[i], sizes[i], w.times),
               far = copy_ns(sizes[i], 64u << 20, (64u << 20) / (uint32_t)sizes[i]);
        printf("%8llu %8.2f %8.2f %8.2f %8.2f", (unsigned long long)sizes[i], bytes / ns,
               bytes / copy, copy / ns, bytes / far);
        print_peer(peer_ucx_tag_bandwidth(sizes[i]));
        print_peer(peer_ucx_put_bandwidth(sizes[i]));
        printf("\n");
        fflush(stdout);
    }
}

/* ---- message rate ---- */

#define RATE_TIMES 50000u

static void many_to_one(struct side *s, const void *argument) {
    (void)argument;
    uint32_t peers = s->ranks - 1;
    uint64_t began = live_now_ns();
    if (s->rank) {
        for (uint32_t i = 0; i < RATE_TIMES; i++)
            put_to(s, 0, 8, PTL_NO_ACK_REQ, 0, TO_ALL);
        await(s, 1);
        return;
    }
    await(s, (uint64_t)peers * RATE_TIMES);
    s->result[0] = (double)peers * RATE_TIMES * 1e3 / (double)(live_now_ns() - began);
    for (uint32_t i = 1; i < s->ranks; i++)
        put_to(s, i, 0, PTL_NO_ACK_REQ, 0, TO_ALL);
}

static void rate(void) {
    printf("\nmessages of 8 bytes to one rank, in millions per second:\n");
    for (uint32_t peers = 1; peers <= MOST; peers *= 2) {
        double millions;
        run_ranks(peers + 1, many_to_one, NULL, &millions, 1);
        printf("%8u peer%s %8.2f\n", peers, peers > 1 ? "s" : " ", millions);
        fflush(stdout);
    }
    printf("%14s", "UCX, 1 peer");
    print_peer(peer_ucx_rate());
    printf("\n");
}

/* ---- more ranks than processors ---- */

static const struct crowd {
    uint64_t bytes;
    uint32_t times;
} crowds[] = {{8, 2000}, {1u << 20, 1000}};

/* A ring: each sends to the next when the one before it has. */
static void pass_round(struct side *s, const void *argument) {
    const struct crowd *c = argument;
    uint32_t next = (s->rank + 1) % s->ranks;
    uint64_t began = live_now_ns();
    for (uint32_t i = 0; i < c->times; i++) {
        put_to(s, next, c->bytes, PTL_NO_ACK_REQ, 0, TO_ALL);
        await(s, 1);
    }
    s->result[0] = (double)(live_now_ns() - began) / c->times;
}

static void crowd(void) {
    printf("\nall send to the next and wait for the one before, ns per turn:\n");
    for (uint32_t i = 0; i < sizeof crowds / sizeof *crowds; i++)
        for (uint32_t ranks = 2; ranks <= MOST; ranks *= 2) {
            double ns;
            run_ranks(ranks, pass_round, &crowds[i], &ns, 1);
            printf("%8llu bytes %4u ranks %10.0f, %8.0f per rank\n",
                   (unsigned long long)crowds[i].bytes, ranks, ns, ns / ranks);
            fflush(stdout);
        }
}

static const struct {
    const char *name;
    void (*run)(void);
} sections[] = {{"latency", latency},     {"latency8", latency8}, {"software", software},
                {"bandwidth", bandwidth}, {"rate", rate},         {"crowd", crowd}};

/* .../bench/bench-live */
static void find_build(void) {
    ssize_t length = readlink("/proc/self/exe", build, sizeof build - 1);
    for (int up = 0; up < 2; up++) {
        build[length > 0 ? length : 0] = 0;
        char *slash = strrchr(build, '/');
        length = slash ? slash - build : 0;
    }
    build[length] = 0;
}

static bool is_section(const char *name) {
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (!strcmp(name, sections[i].name))
            return true;
    return false;
}

int main(int count, char **arguments) {
    for (int a = 1; a < count; a++)
        if (!is_section(arguments[a])) {
            fprintf(stderr,
                    "usage: bench-live [latency|latency8|software|bandwidth|rate|crowd]...\n");
            return 2;
        }
    char image[sizeof build + 32];
    find_build();
    handlers_image(image, sizeof image);
    if (access(image, R_OK)) {
        fprintf(stderr, "bench-live: %s: %s (start it in its build folder)\n", image,
                strerror(errno));
        return 1;
    }
    bench_machine();
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        bool wanted = count < 2 && sections[i].run != latency8;
        for (int a = 1; a < count; a++)
            wanted |= !strcmp(arguments[a], sections[i].name);
        if (wanted)
            sections[i].run();
    }
    return 0;
}
