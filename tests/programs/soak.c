/* Mixed traffic between the ranks of a job, every byte checked.
 *   soak SECONDS SEED IMAGE [FOLDER]
 * Every rank has threads that put, get, add, swap, trigger and put through a handler, to all ranks
 * in turn, and read back what they wrote. With a folder ranks may be killed and come back: what was
 * under way to one ends as undeliverable, and when it is there again all goes on. The folder is
 * where they leave word that they are done. Prints what was done, and the most memory at intervals;
 * a call that does not end within a minute, a wrong byte or memory that grows is a failure. */
#include "conformance.h"

#include <openspin.h>
#include <portals4.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, MOST = 128 << 10, RANKS = 16, PLAIN = 5, CHANGED = 6, LIMIT_MS = 60000 };

/* What a thread of another rank has here. */
struct place {
    uint8_t data[MOST];
    uint8_t changed[MOST];
    uint64_t sum, word;
};

struct all {
    uint64_t life;
    struct place place[RANKS][THREADS];
};

static struct all *all;
static ptl_handle_ni_t ni;
static uint64_t seed, until;
static int may_be_killed;

struct worker {
    uint32_t number;
    uint64_t random;
    ptl_handle_ct_t ct, trigger;
    ptl_handle_md_t md;
    uint8_t *buffer; /* what is sent, and behind it what is read back */
    uint64_t sum[RANKS], life[RANKS];
    uint64_t operations, bytes, undelivered, lives, triggers;
    int failed;
};

static uint64_t seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec;
}

static uint64_t next(struct worker *w) {
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static ptl_process_t to(uint32_t rank) {
    return (ptl_process_t){.rank = rank};
}

static uint64_t place_of(const struct worker *w) {
    return (uint64_t)((uint8_t *)&all->place[spin_rank()][w->number] - (uint8_t *)all);
}

/* One operation was started: 0 when it has succeeded, 1 when it is undeliverable. */
static int over(struct worker *w, const char *what) {
    const ptl_size_t one = 1;
    ptl_ct_event_t event;
    unsigned which;
    w->operations++;
    int code = PtlCTPoll(&w->ct, &one, 1, LIMIT_MS, &event, &which);
    if (code != PTL_OK || event.success + event.failure != 1) {
        fprintf(stderr, "rank %u: %s does not end: code %d, %llu and %llu\n", spin_rank(), what,
                code, (unsigned long long)event.success, (unsigned long long)event.failure);
        w->failed = 1;
        return 1;
    }
    if (event.failure && !may_be_killed) {
        fprintf(stderr, "rank %u: %s is undeliverable\n", spin_rank(), what);
        w->failed = 1;
    }
    w->undelivered += event.failure;
    if (PtlCTSet(w->ct, (ptl_ct_event_t){0, 0}) != PTL_OK)
        w->failed = 1;
    return event.failure != 0;
}

static int good(struct worker *w, int code, const char *what) {
    if (code == PTL_OK)
        return 1;
    fprintf(stderr, "rank %u: %s returns %d\n", spin_rank(), what, code);
    w->failed = 1;
    return 0;
}

static int get(struct worker *w, uint32_t rank, uint64_t at, uint64_t bytes, uint64_t into) {
    return !good(w, PtlGet(w->md, into, bytes, to(rank), PLAIN, 0, at, NULL), "PtlGet") ||
           over(w, "a get");
}

/* Which life of the rank it is; 0: none can be reached. */
static uint64_t life_of(struct worker *w, uint32_t rank) {
    uint64_t life;
    if (get(w, rank, 0, sizeof life, 2 * MOST))
        return 0;
    memcpy(&life, w->buffer + 2 * MOST, sizeof life);
    return life;
}

static int put(struct worker *w, uint32_t rank, uint64_t bytes, int how) {
    uint64_t at = place_of(w) + offsetof(struct place, data);
    ptl_match_bits_t bits = spin_rank() * THREADS + w->number;
    if (how == 0)
        return good(w, PtlPut(w->md, 0, bytes, PTL_CT_ACK_REQ, to(rank), PLAIN, 0, at, NULL, 0),
                    "PtlPut");
    if (how == 1)
        return good(w, PtlPut(w->md, 0, bytes, PTL_CT_ACK_REQ, to(rank), CHANGED, bits, 0, NULL, 0),
                    "PtlPut");
    w->triggers++;
    return good(w,
                PtlTriggeredPut(w->md, 0, bytes, PTL_CT_ACK_REQ, to(rank), PLAIN, 0, at, NULL, 0,
                                w->trigger, w->triggers),
                "PtlTriggeredPut") &&
           good(w, PtlCTInc(w->trigger, (ptl_ct_event_t){1, 0}), "PtlCTInc");
}

static void check(struct worker *w, uint64_t bytes, uint8_t changed) {
    for (uint64_t i = 0; i < bytes; i++)
        if (w->buffer[MOST + i] != (w->buffer[i] ^ changed)) {
            fprintf(stderr, "rank %u: byte %llu of %llu is wrong\n", spin_rank(),
                    (unsigned long long)i, (unsigned long long)bytes);
            w->failed = 1;
            return;
        }
    w->bytes += bytes;
}

static uint64_t length(struct worker *w) {
    uint64_t most = 1ull << next(w) % 18;
    return next(w) % (most < MOST ? most + 1 : MOST + 1);
}

static void write_and_read(struct worker *w, uint32_t rank) {
    int how = (int)(next(w) % 3);
    uint64_t bytes = length(w), value = next(w);
    for (uint64_t i = 0; i < bytes; i++)
        w->buffer[i] = (uint8_t)(value >> i % 8 * 8) ^ (uint8_t)(i / 8);
    memset(w->buffer + MOST, 0xff, bytes);
    uint64_t life = may_be_killed ? life_of(w, rank) : 1;
    if (w->failed || !put(w, rank, bytes, how) || over(w, "a put"))
        return;
    uint64_t at = how == 1 ? offsetof(struct place, changed) : offsetof(struct place, data);
    if (get(w, rank, place_of(w) + at, bytes, MOST))
        return;
    if (!may_be_killed || (life && life_of(w, rank) == life))
        check(w, bytes, how == 1 ? 0x5a : 0);
}

static void add_and_swap(struct worker *w, uint32_t rank) {
    uint64_t add = next(w) % 1000, before = 0, at = place_of(w) + offsetof(struct place, sum);
    uint64_t life = may_be_killed ? life_of(w, rank) : 1;
    int known = w->life[rank] == life; /* else one of us has begun anew */
    w->life[rank] = life;
    memcpy(w->buffer, &add, sizeof add);
    int swaps = next(w) % 4 == 0 || !known;
    int code = swaps ? PtlSwap(w->md, MOST, w->md, 0, 8, to(rank), PLAIN, 0, at, NULL, 0, NULL,
                               PTL_SWAP, PTL_UINT64_T)
                     : PtlFetchAtomic(w->md, MOST, w->md, 0, 8, to(rank), PLAIN, 0, at, NULL, 0,
                                      PTL_SUM, PTL_UINT64_T);
    if (!good(w, code, "PtlFetchAtomic or PtlSwap") || over(w, "an atomic")) {
        w->life[rank] = 0; /* it may have been done or not */
        return;
    }
    memcpy(&before, w->buffer + MOST, sizeof before);
    if (may_be_killed && (!life || life_of(w, rank) != life)) {
        w->life[rank] = 0;
        return;
    }
    if (known && before != w->sum[rank]) {
        fprintf(stderr, "rank %u: a sum is %llu, not %llu\n", spin_rank(),
                (unsigned long long)before, (unsigned long long)w->sum[rank]);
        w->failed = 1;
    }
    w->sum[rank] = swaps ? add : before + add;
}

static int prepare(struct worker *w) {
    const ptl_md_t md = {.start = w->buffer,
                         .length = 2 * MOST + 64,
                         .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
                         .eq_handle = PTL_EQ_NONE};
    EXPECT_EQ(PtlCTAlloc(ni, &w->ct), PTL_OK);
    EXPECT_EQ(PtlCTAlloc(ni, &w->trigger), PTL_OK);
    ptl_md_t with = md;
    with.ct_handle = w->ct;
    EXPECT_EQ(PtlMDBind(ni, &with, &w->md), PTL_OK);
    return 0;
}

static void *work(void *argument) {
    struct worker *w = argument;
    while (!w->failed && seconds() < until) {
        uint32_t rank = (uint32_t)(next(w) % spin_ranks());
        uint64_t undelivered = w->undelivered;
        if (next(w) % 4)
            write_and_read(w, rank);
        else
            add_and_swap(w, rank);
        while (w->undelivered > undelivered && !w->failed) { /* until it is there again */
            usleep(20000);
            if (life_of(w, rank))
                undelivered = ++w->lives ? w->undelivered : 0;
            else if (seconds() > until + LIMIT_MS / 1000)
                w->failed =
                    fprintf(stderr, "rank %u: rank %u does not come back\n", spin_rank(), rank);
        }
    }
    return NULL;
}

static uint64_t resident_kib(void) {
    unsigned long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu %lu", &ignored, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static int open_entries(const char *path) {
    ptl_pt_index_t pt;
    ptl_handle_me_t handle;
    ptl_image_h image;
    EXPECT_EQ(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PLAIN, &pt), PTL_OK);
    EXPECT_EQ(PtlPTAlloc(ni, 0, PTL_EQ_NONE, CHANGED, &pt), PTL_OK);
    ptl_me_t me = {.start = all,
                   .length = sizeof *all,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .match_id = {.rank = PTL_RANK_ANY},
                   .options = PTL_ME_OP_PUT | PTL_ME_OP_GET};
    EXPECT_EQ(PtlMEAppend(ni, PLAIN, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
    EXPECT_EQ(PtlImageLoad(ni, path, &image), PTL_OK);
    for (uint32_t rank = 0; rank < spin_ranks(); rank++)
        for (uint32_t i = 0; i < THREADS; i++) {
            me.start = all->place[rank][i].changed;
            me.length = MOST;
            me.match_bits = rank * THREADS + i;
            me.options = PTL_ME_OP_PUT | PTL_ME_HANDLERS;
            EXPECT_EQ(PtlImageFind(image, "change_payload_handler", &me.payload_handler), PTL_OK);
            EXPECT_EQ(PtlHPUAllocMem(64, ni, &me.hpu_memory), PTL_OK);
            EXPECT_EQ(PtlMEAppend(ni, CHANGED, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
        }
    return 0;
}

static void report(const struct worker *w, uint64_t kib) {
    struct worker sum = {0};
    for (int i = 0; i < THREADS; i++) {
        sum.operations += w[i].operations;
        sum.bytes += w[i].bytes;
        sum.undelivered += w[i].undelivered;
        sum.lives += w[i].lives;
    }
    printf("rank %u: %llu operations, %llu bytes checked, %llu undeliverable, %llu new lives seen, "
           "%llu KiB resident\n",
           spin_rank(), (unsigned long long)sum.operations, (unsigned long long)sum.bytes,
           (unsigned long long)sum.undelivered, (unsigned long long)sum.lives,
           (unsigned long long)kib);
    fflush(stdout);
}

/* Memory is looked at from two fifths of the time on, when everything has grown to what it needs.
 */
static int watch(const struct worker *w, uint64_t length) {
    uint64_t step = length / 5 ? length / 5 : 1, first = 0, kib = 0;
    for (int i = 1; seconds() < until; i++) {
        sleep((unsigned)step);
        kib = resident_kib();
        first = i == 2 ? kib : first;
        if (seconds() < until)
            report(w, kib);
    }
    EXPECT(length < 20 || kib < first + first / 10 + 2048);
    return 0;
}

/* Who is done waits until all are: others may still be reading here. */
static int leave_together(const char *folder) {
    char name[4096];
    snprintf(name, sizeof name, "%s/done.%u", folder, spin_rank());
    FILE *f = fopen(name, "w");
    EXPECT(f && fclose(f) == 0);
    for (uint32_t rank = 0, tries = 0; rank < spin_ranks();) {
        snprintf(name, sizeof name, "%s/done.%u", folder, rank);
        if (access(name, F_OK) == 0) {
            rank++;
            continue;
        }
        EXPECT(tries++ < LIMIT_MS / 10);
        usleep(10000);
    }
    return 0;
}

int main(int argc, char **argv) {
    static struct worker worker[THREADS];
    pthread_t thread[THREADS];
    int failed = 0;
    if (argc < 4)
        return fprintf(stderr, "soak SECONDS SEED IMAGE [FOLDER]\n") ? 2 : 2;
    uint64_t length = strtoull(argv[1], NULL, 10);
    seed = strtoull(argv[2], NULL, 10);
    may_be_killed = argc > 4;
    all = calloc(1, sizeof *all);
    EXPECT(all);
    all->life = (uint64_t)time(NULL) << 20 | (uint64_t)getpid();
    EXPECT_EQ(PtlInit(), PTL_OK);
    EXPECT_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL,
                        NULL, &ni),
              PTL_OK);
    EXPECT_EQ(spin_map_ranks(ni), PTL_OK);
    EXPECT(spin_ranks() <= RANKS);
    if (open_entries(argv[3]))
        return 1;
    if (!getenv("SOAK_AGAIN")) /* a new life finds the others at work */
        spin_barrier();
    until = seconds() + length;
    if (getenv("SOAK_UNTIL"))
        until = strtoull(getenv("SOAK_UNTIL"), NULL, 10);
    for (uint32_t i = 0; i < THREADS; i++) {
        worker[i] = (struct worker){.number = i,
                                    .random = 1 + seed * 1000003 + spin_rank() * 101 + i,
                                    .buffer = calloc(1, 2 * MOST + 64)};
        if (prepare(&worker[i]))
            return 1;
    }
    for (uint32_t i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
    failed |= watch(worker, length);
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        failed |= worker[i].failed;
    }
    report(worker, resident_kib());
    if (!may_be_killed)
        spin_barrier(); /* others may still read what is here */
    else
        failed |= leave_together(argv[4]);
    return failed != 0;
}
