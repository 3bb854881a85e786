/* Live cards over memory that is not there: untouched, in files, discarded while they work, taken
 * away under their hands. */
#include "lib/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "live/live_card_private.h"
#include "live/live_clock.h"
#include "nic/nic_private.h"

#define BYTES (4u << 20)
#define PT    3
#define PT_2  4

static struct spin_error err;
static struct live_folder folder;

struct user {
    struct live_card *card;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;     /* of what it has sent */
    ptl_handle_eq_t target; /* of what has come */
    ptl_process_t self;
};

static struct user a, b;

enum taking { UNMAPPED, PROTECTED, CUT_OFF, TAKINGS };

/* Where the system maps nothing by itself, so that what was unmapped stays so. */
static void *aside(void) {
    static uintptr_t next = 0x4000000000;
    next += 2 * BYTES;
    return (void *)next;
}

static uint8_t *map_untouched(size_t bytes, int kind) {
    uint8_t *at = mmap(aside(), bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    madvise(at, bytes, MADV_NOHUGEPAGE); /* so that each page is one of its own */
    return at;
}

static uint8_t *untouched(size_t bytes) {
    return map_untouched(bytes, MAP_PRIVATE);
}

/* For which the pager is needed even if it is one page: it might be swapped out. */
static uint8_t *untouched_shared(size_t bytes) {
    return map_untouched(bytes, MAP_SHARED);
}

static bool is_there(const uint8_t *at) {
    unsigned char there = 0;
    uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;
    CHECK_EQ(mincore((void *)page, 1, &there), 0);
    return there & 1;
}

static bool pager_is_off; /* of cards that are made */

static void enter(struct user *u) {
    portals_enter(live_card_process(u->card));
}

/* Loopback addresses of this test process's own. */
static const char *host(uint32_t number) {
    static char text[2][20];
    snprintf(text[number % 2], sizeof text[0], "127.%u.%u.%u", 20 + number, getpid() >> 8 & 255,
             getpid() & 255);
    return text[number % 2];
}

static void user_open(struct user *u, uint32_t pid, enum live_transport_kind transport,
                      const char *faults) {
    const struct live_card_options options = {.folder = &folder,
                                              .nid = transport == LIVE_SHM ? 1 : 0,
                                              .pid = pid,
                                              .transport = transport,
                                              .of_udp = {.interface = host(pid), .faults = faults},
                                              .paging = !pager_is_off,
                                              .progress = true};
    ptl_pt_index_t pt;
    *u = (struct user){0};
    CHECK_EQ(live_card_new(&u->card, &options, &err), 0);
    enter(u);
    CHECK_EQ(PtlInit(), PTL_OK);
    CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL,
                       NULL, &u->ni),
             PTL_OK);
    CHECK_EQ(PtlGetPhysId(u->ni, &u->self), PTL_OK);
    CHECK_EQ(PtlEQAlloc(u->ni, 256, &u->eq), PTL_OK);
    CHECK_EQ(PtlEQAlloc(u->ni, 256, &u->target), PTL_OK);
    CHECK_EQ(PtlPTAlloc(u->ni, 0, u->target, PT, &pt), PTL_OK);
    CHECK_EQ(PtlPTAlloc(u->ni, 0, u->target, PT_2, &pt), PTL_OK);
}

static void begin_on(enum live_transport_kind transport, const char *faults) {
    char name[64];
    CHECK_EQ(live_folder_make(&folder, name, sizeof name, &err), 0);
    user_open(&b, 2, transport, faults);
    user_open(&a, 1, transport, faults);
}

static void begin(void) {
    begin_on(LIVE_SHM, NULL);
}

static void end(void) {
    live_card_free(a.card);
    live_card_free(b.card);
    portals_enter(NULL);
    live_folder_remove(&folder);
}

static ptl_handle_le_t expose(struct user *u, ptl_pt_index_t pt, void *memory, size_t bytes) {
    const ptl_le_t le = {.start = memory,
                         .length = bytes,
                         .ct_handle = PTL_CT_NONE,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE};
    ptl_handle_le_t handle;
    enter(u);
    CHECK_EQ(PtlLEAppend(u->ni, pt, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
    return handle;
}

static ptl_handle_md_t bind_memory(struct user *u, void *memory, size_t bytes) {
    const ptl_md_t md = {
        .start = memory, .length = bytes, .eq_handle = u->eq, .ct_handle = PTL_CT_NONE};
    ptl_handle_md_t handle;
    enter(u);
    CHECK_EQ(PtlMDBind(u->ni, &md, &handle), PTL_OK);
    return handle;
}

static ptl_event_t next_event(struct user *u, ptl_handle_eq_t eq) {
    ptl_event_t event;
    enter(u);
    CHECK_EQ(PtlEQWait(eq, &event), PTL_OK);
    return event;
}

static ptl_event_t event_of(struct user *u, ptl_handle_eq_t eq, ptl_event_kind_t kind) {
    for (;;) {
        ptl_event_t event = next_event(u, eq);
        if (event.type == kind)
            return event;
    }
}

/* From a to b; returns what the acknowledgement says. */
static int put_and_wait(ptl_handle_md_t md, ptl_pt_index_t pt, uint64_t from, uint64_t bytes,
                        uint64_t to) {
    enter(&a);
    CHECK_EQ(PtlPut(md, from, bytes, PTL_ACK_REQ, b.self, pt, 0, to, NULL, 0), PTL_OK);
    return event_of(&a, a.eq, PTL_EVENT_ACK).ni_fail_type;
}

static void fill(uint8_t *at, size_t bytes, uint64_t seed) {
    struct rng rng = rng_seeded(seed);
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)rng_u64(&rng);
}

/* What the card of `u` has done is seen by this thread. */
static void look(struct user *u) {
    ptl_sr_value_t status;
    enter(u);
    PtlNIStatus(u->ni, PTL_SR_DROP_COUNT, &status);
}

static struct nic_counts counts(struct user *u) {
    live_lock_take(&u->card->lock);
    struct nic_counts all = *nic_counts(u->card->nic);
    live_lock_give(&u->card->lock);
    return all;
}

static enum guarded way_of(struct user *u) {
    live_lock_take(&u->card->lock);
    enum guarded way = u->card->guarded;
    live_lock_give(&u->card->lock);
    return way;
}

/* ---- the program's own faults ---- */

static sigjmp_buf program_way;
static volatile sig_atomic_t program_faults, program_expects;

static void program_handler(int number) {
    if (!program_expects)
        _exit(3); /* what is not its own came to it */
    program_faults += number == SIGSEGV;
    siglongjmp(program_way, 1);
}

static void gone_at(bool source, enum taking how);

/* The first test: no card was there before this handler, which gets its own faults and no others.
 */
TEST(the_programs_own_faults_stay_its_own) {
    struct sigaction action = {.sa_handler = program_handler};
    volatile uint8_t *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, NULL);
    gone_at(true, UNMAPPED);
    program_expects = 1;
    if (!sigsetjmp(program_way, 1))
        none[0] = 1;
    program_expects = 0;
    CHECK_EQ(program_faults, 1);
    munmap((void *)(uintptr_t)none, 4096);
}

static const uint32_t sizes[] = {1, 8, 64, 4096, 5000, 20000, 20480, 30000, 70000, 300000, 3 << 20};

static void each_size(enum live_transport_kind transport) {
    begin_on(transport, NULL);
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *from = untouched(BYTES), *to = untouched(BYTES);
        ptl_handle_le_t le = expose(&b, PT, to, BYTES);
        ptl_handle_md_t md = bind_memory(&a, from, BYTES);
        fill(from + 100, sizes[i], i);
        CHECK_EQ(put_and_wait(md, PT, 100, sizes[i], 4090), PTL_NI_OK);
        look(&b);
        CHECK(memcmp(from + 100, to + 4090, sizes[i]) == 0);
        CHECK(!is_there(to + BYTES - 1));
        look(&b); /* what was compared is its card's again */
        /* And from pages that nobody has written. */
        CHECK_EQ(put_and_wait(md, PT, BYTES - sizes[i] / 4, sizes[i] / 4, 4090), PTL_NI_OK);
        look(&b);
        for (uint32_t k = 0; k < sizes[i] / 4; k++)
            CHECK_EQ(to[4090 + k], 0);
        enter(&b);
        CHECK_EQ(PtlLEUnlink(le), PTL_OK);
        enter(&a);
        CHECK_EQ(PtlMDRelease(md), PTL_OK);
        munmap(from, BYTES);
        munmap(to, BYTES);
    }
    CHECK(counts(&b).destination_faults > 0);
    CHECK(counts(&a).source_faults > 0);
    CHECK(counts(&a).blocks_repeated > 0);
    CHECK_EQ(live_card_malformed(b.card), 0);
    end();
}

TEST(all_sizes_reach_untouched_memory) {
    each_size(LIVE_SHM);
}

TEST(by_udp_too) {
    each_size(LIVE_UDP);
}

/* Replies come from memory that may be absent, and go to such. */
TEST(gets_between_untouched_memory) {
    begin();
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *from = untouched(BYTES), *to = untouched(BYTES);
        ptl_handle_le_t le = expose(&b, PT, from, BYTES);
        ptl_handle_md_t md = bind_memory(&a, to, BYTES);
        snprintf(test_context, sizeof test_context, "%u bytes", sizes[i]);
        fill(from, sizes[i] / 2, i); /* the other half is absent */
        look(&b);
        enter(&a);
        CHECK_EQ(PtlGet(md, 0, sizes[i], b.self, PT, 0, 0, NULL), PTL_OK);
        CHECK_EQ(event_of(&a, a.eq, PTL_EVENT_REPLY).ni_fail_type, PTL_NI_OK);
        CHECK(memcmp(from, to, sizes[i]) == 0);
        enter(&b);
        CHECK_SOON(PtlLEUnlink(le) == PTL_OK, ); /* its blocks are acknowledged a little later */
        enter(&a);
        CHECK_EQ(PtlMDRelease(md), PTL_OK);
        munmap(from, BYTES);
        munmap(to, BYTES);
    }
    end();
}

/* A file of which nothing is in memory. */
static int cold_file(size_t bytes, uint64_t seed) {
    char name[] = "/tmp/live_page_XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    unlink(name);
    uint8_t *data = malloc(bytes);
    fill(data, bytes, seed);
    CHECK_EQ(write(fd, data, bytes), (ssize_t)bytes);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    free(data);
    return fd;
}

TEST(files_are_sources_and_destinations) {
    size_t bytes = 1 << 20;
    begin();
    int in = cold_file(bytes, 5), out = cold_file(bytes, 6);
    uint8_t *from = mmap(NULL, bytes, PROT_READ, MAP_SHARED, in, 0);
    uint8_t *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
    uint8_t *was = malloc(bytes), *is = malloc(bytes);
    CHECK(from != MAP_FAILED && to != MAP_FAILED);
    expose(&b, PT, to, bytes);
    ptl_handle_md_t md = bind_memory(&a, from, bytes);
    CHECK_EQ(put_and_wait(md, PT, 0, bytes, 0), PTL_NI_OK);
    look(&b);
    CHECK_EQ(pread(in, was, bytes, 0), (ssize_t)bytes);
    CHECK_EQ(pread(out, is, bytes, 0), (ssize_t)bytes);
    CHECK(memcmp(was, is, bytes) == 0);
    end();
    munmap(from, bytes);
    munmap(to, bytes);
    close(in);
    close(out);
    free(was);
    free(is);
}

/* While no page is brought in, another message of the same peer passes the one that waits. */
TEST(others_pass_what_waits_for_a_page) {
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        begin();
        uint8_t *from = malloc(BYTES), *to = untouched_shared(BYTES), *near = calloc(1, 4096);
        fill(from, BYTES, i);
        expose(&b, PT, to, BYTES);
        expose(&b, PT_2, near, 4096);
        ptl_handle_md_t md = bind_memory(&a, from, BYTES);
        CHECK_EQ(put_and_wait(md, PT_2, 0, 8, 0), PTL_NI_OK);
        event_of(&b, b.target, PTL_EVENT_PUT);
        live_card_hold_pager(b.card, true);
        enter(&a);
        CHECK_EQ(PtlPut(md, 0, sizes[i], PTL_ACK_REQ, b.self, PT, 0, 0, NULL, 0), PTL_OK);
        for (uint64_t k = 1; k <= 3; k++) {
            enter(&a);
            CHECK_EQ(PtlPut(md, k * 8, 8, PTL_NO_ACK_REQ, b.self, PT_2, 0, k * 8, NULL, 0), PTL_OK);
            ptl_event_t event = event_of(&b, b.target, PTL_EVENT_PUT);
            CHECK_EQ(event.pt_index, PT_2);
            CHECK(memcmp(near + k * 8, from + k * 8, 8) == 0);
        }
        CHECK(!is_there(to));
        live_card_hold_pager(b.card, false);
        CHECK_EQ(event_of(&b, b.target, PTL_EVENT_PUT).pt_index, PT);
        CHECK(memcmp(to, from, sizes[i]) == 0);
        end();
        munmap(to, BYTES);
        free(from);
        free(near);
    }
}

/* A page that nobody has touched needs no pager, nor two; memory that may not be written is still
 * an error. */
TEST(single_untouched_pages_wait_for_nobody) {
    begin();
    uint8_t *from = malloc(8192), *to = untouched(BYTES), *got = untouched(BYTES);
    fill(from, 8192, 1);
    expose(&b, PT, to, BYTES);
    ptl_handle_md_t md = bind_memory(&a, from, 8192), out = bind_memory(&a, got, BYTES);
    live_card_hold_pager(b.card, true);
    live_card_hold_pager(a.card, true);
    /* While the system takes long for a page, as on a busy machine, the pager is asked. */
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t at = i * 65536 + 4000;
        live_lock_take(&b.card->lock);
        b.card->pages->fresh.refused = b.card->pages->epoch - 1000;
        live_lock_give(&b.card->lock);
        CHECK_EQ(put_and_wait(md, PT, i, 4096, at), PTL_NI_OK);
        CHECK_EQ(event_of(&b, b.target, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
        CHECK(memcmp(to + at, from + i, 4096) == 0);
        CHECK(is_there(to + at) && !is_there(to + at + 8192));
    }
    enter(&a); /* zeroes from a page that nobody has used, into another */
    CHECK_EQ(PtlGet(out, 0, 64, b.self, PT, 0, 3 << 20, NULL), PTL_OK);
    CHECK_EQ(event_of(&a, a.eq, PTL_EVENT_REPLY).ni_fail_type, PTL_NI_OK);
    CHECK(is_there(got) && !got[0] && !got[63]);
    mprotect(to + (1 << 21), 8192, PROT_READ);
    CHECK_EQ(put_and_wait(md, PT, 0, 4096, 1 << 21), PTL_NI_SEGV);
    end();
    munmap(to, BYTES);
    munmap(got, BYTES);
    free(from);
}

/* Small ones to one page keep their order, whatever waits. */
TEST(small_ones_to_an_absent_page_keep_their_order) {
    begin();
    uint8_t *from = malloc(4096), *to = untouched_shared(4096);
    for (int i = 0; i < 4096; i++)
        from[i] = (uint8_t)(i / 8);
    expose(&b, PT, to, 4096);
    ptl_handle_md_t md = bind_memory(&a, from, 4096);
    live_card_hold_pager(b.card, true);
    enter(&a);
    for (uint64_t i = 1; i <= 100; i++)
        CHECK_EQ(PtlPut(md, i * 8, 8, PTL_NO_ACK_REQ, b.self, PT, 0, 16, NULL, 0), PTL_OK);
    CHECK_SOON(counts(&b).parked == 100, );
    live_card_hold_pager(b.card, false);
    for (int i = 0; i < 100; i++)
        event_of(&b, b.target, PTL_EVENT_PUT);
    CHECK_EQ(to[16], 100);
    end();
    free(from);
    munmap(to, 4096);
}

/* What waits on a card has a bound: then its peers wait. */
TEST(more_than_a_card_holds_waits_with_its_sender) {
    begin();
    uint8_t *from = malloc(4096), *to = untouched_shared(4096);
    ptl_handle_ct_t ct;
    ptl_ct_event_t count;
    memset(from, 3, 4096);
    enter(&b);
    CHECK_EQ(PtlCTAlloc(b.ni, &ct), PTL_OK);
    const ptl_le_t le = {.start = to,
                         .length = 4096,
                         .ct_handle = ct,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM |
                                    PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_LINK_DISABLE};
    ptl_handle_le_t handle;
    CHECK_EQ(PtlLEAppend(b.ni, PT, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
    ptl_handle_md_t md = bind_memory(&a, from, 4096);
    live_card_hold_pager(b.card, true);
    enter(&a);
    for (uint64_t i = 0; i < 2000; i++)
        CHECK_EQ(PtlPut(md, 0, 1024, PTL_NO_ACK_REQ, b.self, PT, 0, 0, NULL, 0), PTL_OK);
    CHECK_SOON(counts(&b).parked >= 1024, );
    usleep(2000);
    CHECK(counts(&b).parked < 1100);
    live_card_hold_pager(b.card, false);
    enter(&b);
    CHECK_EQ(PtlCTWait(ct, 2000, &count), PTL_OK);
    CHECK_EQ(count.failure, 0);
    CHECK_EQ(to[1023], 3);
    end();
    free(from);
    munmap(to, 4096);
}

/* ---- memory that goes away ---- */

/* Both sides learn it, and both go on. */
static void check_gone(ptl_handle_md_t md, bool source, uint64_t bytes) {
    enter(&a);
    CHECK_EQ(PtlPut(md, 0, bytes, PTL_ACK_REQ, b.self, PT, 0, 0, NULL, 0), PTL_OK);
    ptl_event_t sent = next_event(&a, a.eq), acked = next_event(&a, a.eq);
    if (sent.type == PTL_EVENT_ACK) {
        ptl_event_t first = sent;
        sent = acked;
        acked = first;
    }
    CHECK_EQ(sent.type, PTL_EVENT_SEND);
    CHECK_EQ(acked.type, PTL_EVENT_ACK);
    CHECK_EQ(sent.ni_fail_type, source ? PTL_NI_SEGV : sent.ni_fail_type);
    CHECK_EQ(acked.ni_fail_type, PTL_NI_SEGV);
    CHECK_EQ(event_of(&b, b.target, PTL_EVENT_PUT).ni_fail_type, PTL_NI_SEGV);
}

static void check_alive(ptl_handle_md_t md) {
    CHECK_EQ(put_and_wait(md, PT_2, 0, 8, 0), PTL_NI_OK);
    CHECK_EQ(event_of(&b, b.target, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
}

static uint8_t *there(size_t bytes, int *fd) {
    *fd = cold_file(bytes, 1);
    uint8_t *at = mmap(aside(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    CHECK(at != MAP_FAILED);
    for (size_t i = 0; i < bytes; i += 4096)
        at[i]++;
    return at;
}

static void take_away(uint8_t *at, size_t bytes, int fd, enum taking how) {
    if (how == UNMAPPED)
        munmap(at, bytes);
    else if (how == PROTECTED)
        mprotect(at, bytes, PROT_NONE);
    else
        CHECK_EQ(ftruncate(fd, 0), 0);
}

static const uint32_t lengths[] = {5, 8, 200, 4096, 10000, 40000, 300000};

/* The card has just used it, and takes it to be there. */
static void gone_at(bool source, enum taking how) {
    for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        int fd;
        begin();
        uint8_t *gone = there(BYTES, &fd), *stays = calloc(1, BYTES), *near = calloc(1, 4096);
        expose(&b, PT, source ? stays : gone, BYTES);
        expose(&b, PT_2, near, 4096);
        ptl_handle_md_t md = bind_memory(&a, source ? gone : stays, BYTES);
        ptl_handle_md_t good = bind_memory(&a, stays, BYTES);
        CHECK_EQ(put_and_wait(md, PT, 0, lengths[i], 0), PTL_NI_OK);
        event_of(&b, b.target, PTL_EVENT_PUT);
        CHECK_EQ(way_of(source ? &a : &b), GUARDED_BY_SIGNAL);
        take_away(gone, BYTES, fd, how);
        snprintf(test_context, sizeof test_context, "taken away in way %d, %u bytes%s", how,
                 lengths[i], pager_is_off ? ", without the pager" : "");
        check_gone(md, source, lengths[i]);
        check_alive(good);
        end();
        if (how != UNMAPPED)
            munmap(gone, BYTES);
        close(fd);
        free(stays);
        free(near);
    }
}

TEST(a_destination_that_goes_away_is_an_error) {
    for (enum taking how = 0; how < TAKINGS; how++)
        gone_at(false, how);
}

TEST(a_source_that_goes_away_is_an_error) {
    for (enum taking how = 0; how < TAKINGS; how++)
        gone_at(true, how);
}

TEST(without_the_pager_too) {
    pager_is_off = true;
    for (enum taking how = 0; how < TAKINGS; how++) {
        gone_at(false, how);
        gone_at(true, how);
    }
    pager_is_off = false;
}

static void names_of_nowhere(enum live_transport_kind transport) {
    static const uint64_t nowhere[] = {0, 4096, 1ull << 47, 1ull << 62, UINT64_MAX - 300000};
    begin_on(transport, NULL);
    uint8_t *from = calloc(1, BYTES), *near = calloc(1, 4096);
    expose(&b, PT, NULL, PTL_SIZE_MAX);
    expose(&b, PT_2, near, 4096);
    ptl_handle_md_t md = bind_memory(&a, from, BYTES);
    /* A sanitizer looks an address up in its own memory first, where far ones have no place. */
    uint32_t places = TEST_SANITIZED ? 2 : sizeof nowhere / sizeof nowhere[0];
    for (uint32_t i = 0; i < places; i++) {
        for (uint32_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
            snprintf(test_context, sizeof test_context, "%u bytes at %llx%s", lengths[k],
                     (unsigned long long)nowhere[i], pager_is_off ? ", without the pager" : "");
            enter(&a);
            CHECK_EQ(put_and_wait(md, PT, 0, lengths[k], nowhere[i]), PTL_NI_SEGV);
            CHECK_EQ(event_of(&b, b.target, PTL_EVENT_PUT).ni_fail_type, PTL_NI_SEGV);
            enter(&a);
            CHECK_EQ(PtlGet(md, 0, lengths[k], b.self, PT, 0, nowhere[i], NULL), PTL_OK);
            CHECK_EQ(event_of(&a, a.eq, PTL_EVENT_REPLY).ni_fail_type, PTL_NI_SEGV);
            CHECK_EQ(event_of(&b, b.target, PTL_EVENT_GET).ni_fail_type, PTL_NI_SEGV);
        }
    }
    enter(&a);
    CHECK_EQ(PtlAtomic(md, 0, 8, PTL_ACK_REQ, b.self, PT, 0, 4096, NULL, 0, PTL_SUM, PTL_UINT64_T),
             PTL_OK);
    CHECK_EQ(event_of(&a, a.eq, PTL_EVENT_ACK).ni_fail_type, PTL_NI_SEGV);
    CHECK_EQ(event_of(&b, b.target, PTL_EVENT_ATOMIC).ni_fail_type, PTL_NI_SEGV);
    CHECK_EQ(put_and_wait(md, PT, 0, 8, (uintptr_t)near), PTL_NI_OK);
    CHECK_EQ(event_of(&b, b.target, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
    check_alive(md);
    end();
    free(from);
    free(near);
}

/* An entry over all of memory lets a peer name any address. */
TEST(an_address_without_memory_is_an_error) {
    for (int off = 0; off < 2; off++) {
        pager_is_off = off;
        names_of_nowhere(LIVE_SHM);
        names_of_nowhere(LIVE_UDP);
    }
    pager_is_off = false;
}

static void add_one(void *argument, uint8_t *host) {
    *(uint64_t *)(void *)host += 1;
    *(uint32_t *)argument += 1;
}

/* What the card finds that was told that an atomic may be performed there, and performs it when it
 * has gone: the process lives. */
TEST(memory_that_goes_before_an_atomic_is_an_error) {
    for (int off = 0; off < 2; off++) {
        pager_is_off = off;
        begin();
        const struct nic *nic = b.card->nic;
        uint64_t *at = (uint64_t *)(void *)untouched(4096);
        uint32_t performed = 0;
        *at = 7;
        live_lock_take(&b.card->lock);
        CHECK(nic->config.driver->use(b.card, (uint8_t *)at, 8, add_one, &performed));
        munmap(at, 4096);
        CHECK(!nic->config.driver->use(b.card, (uint8_t *)at, 8, add_one, &performed));
        live_lock_give(&b.card->lock);
        CHECK_EQ(performed, 1);
        end();
    }
    pager_is_off = false;
}

/* Its pages are asked for, and then it is gone. */
TEST(what_is_unmapped_while_it_is_waited_for_is_an_error) {
    for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        begin();
        uint8_t *gone = untouched_shared(BYTES), *from = calloc(1, BYTES), *near = calloc(1, 4096);
        expose(&b, PT, gone, BYTES);
        expose(&b, PT_2, near, 4096);
        ptl_handle_md_t md = bind_memory(&a, from, BYTES);
        live_card_hold_pager(b.card, true);
        enter(&a);
        CHECK_EQ(PtlPut(md, 0, lengths[i], PTL_ACK_REQ, b.self, PT, 0, 0, NULL, 0), PTL_OK);
        CHECK_SOON(counts(&b).destination_faults > 0, );
        munmap(gone, BYTES);
        live_card_hold_pager(b.card, false);
        CHECK_EQ(event_of(&a, a.eq, PTL_EVENT_ACK).ni_fail_type, PTL_NI_SEGV);
        CHECK_EQ(event_of(&b, b.target, PTL_EVENT_PUT).ni_fail_type, PTL_NI_SEGV);
        check_alive(md);
        end();
        free(from);
        free(near);
    }
}

TEST(memory_that_may_not_be_written_is_an_error) {
    begin();
    uint8_t *from = calloc(1, BYTES), *near = calloc(1, 4096);
    uint8_t *to = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expose(&b, PT, to, BYTES);
    expose(&b, PT_2, near, 4096);
    ptl_handle_md_t md = bind_memory(&a, from, BYTES);
    for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        check_gone(md, false, lengths[i]);
    CHECK_EQ(*(volatile uint8_t *)(to + 4096), 0); /* it is there */
    ptl_sr_value_t drops; /* through the lock of the card that is to touch it, for the sanitizer */
    enter(&b);
    PtlNIStatus(b.ni, PTL_SR_DROP_COUNT, &drops);
    enter(&a);
    CHECK_EQ(PtlAtomic(md, 0, 8, PTL_ACK_REQ, b.self, PT, 0, 4096, NULL, 0, PTL_SUM, PTL_UINT64_T),
             PTL_OK);
    CHECK_EQ(event_of(&a, a.eq, PTL_EVENT_ACK).ni_fail_type, PTL_NI_SEGV);
    CHECK_EQ(event_of(&b, b.target, PTL_EVENT_ATOMIC).ni_fail_type, PTL_NI_SEGV);
    check_alive(md);
    end();
    munmap(to, BYTES);
    free(from);
    free(near);
}

/* ---- the program's own faults ---- */

/* A handler that is installed later takes the card's: the system copies then. */
TEST(a_handler_that_comes_later_does_not_get_the_cards_faults) {
    struct sigaction ours = {.sa_handler = program_handler}, was;
    begin();
    sigaction(SIGSEGV, &ours, &was);
    usleep(5000); /* what the card knows gets old */
    int fd;
    uint8_t *gone = there(BYTES, &fd), *stays = calloc(1, BYTES);
    expose(&b, PT, gone, BYTES);
    ptl_handle_md_t md = bind_memory(&a, stays, BYTES);
    CHECK_EQ(put_and_wait(md, PT, 0, 100000, 0), PTL_NI_OK);
    event_of(&b, b.target, PTL_EVENT_PUT);
    munmap(gone, BYTES);
    check_gone(md, false, 100000);
    CHECK_EQ(way_of(&b), GUARDED_BY_SYSTEM);
    sigaction(SIGSEGV, &was, NULL);
    end();
    close(fd);
    free(stays);
}

/* ---- seeds ---- */

struct discarding {
    _Atomic bool ends;
    uint8_t *from, *to;
    uint64_t seed;
};

/* Pages of the destination go at random moments; what they held is sent again, not kept. */
static void *discard(void *context) {
    struct discarding *d = context;
    struct rng rng = rng_seeded(d->seed);
    while (!atomic_load(&d->ends)) {
        madvise(d->from + rng_below(&rng, BYTES / 4096) * 4096, 4096, MADV_PAGEOUT);
        usleep(1 + (useconds_t)rng_below(&rng, 200));
    }
    return NULL;
}

/* Random puts and gets of everything, pages of both sides absent by turns. */
static void one_seed(uint64_t seed, enum live_transport_kind transport, const char *faults) {
    struct rng rng = rng_seeded(seed);
    begin_on(transport, faults);
    uint8_t *from = untouched(BYTES), *to = untouched(BYTES), *shadow = calloc(1, BYTES);
    struct discarding discarding = {.from = from, .to = to, .seed = seed};
    pthread_t thread;
    expose(&b, PT, to, BYTES);
    ptl_handle_md_t md = bind_memory(&a, from, BYTES);
    CHECK_EQ(pthread_create(&thread, NULL, discard, &discarding), 0);
    for (int i = 0; i < 12; i++) {
        uint64_t most = rng_below(&rng, 3) ? 30000 : BYTES / 4;
        uint64_t bytes = 1 + rng_below(&rng, most), at = rng_below(&rng, BYTES - bytes);
        uint64_t to_at = rng_below(&rng, BYTES - bytes), page = rng_below(&rng, BYTES / 4096);
        if (rng_below(&rng, 2))
            fill(from + at, bytes, seed + (uint64_t)i);
        else if (rng_below(&rng, 2))
            madvise(from + at / 4096 * 4096, (bytes + 4095) / 4096 * 4096, MADV_DONTNEED);
        if (rng_below(&rng, 2)) {
            look(&b);
            madvise(to + page * 4096, (BYTES / 4096 - page) * 4096, MADV_DONTNEED);
            memset(shadow + page * 4096, 0, BYTES - page * 4096);
            look(&b);
        }
        memcpy(shadow + to_at, from + at, bytes);
        CHECK_EQ(put_and_wait(md, PT, at, bytes, to_at), PTL_NI_OK);
        CHECK_EQ(event_of(&b, b.target, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
    }
    look(&b);
    CHECK(memcmp(to, shadow, BYTES) == 0);
    atomic_store(&discarding.ends, true);
    pthread_join(thread, NULL);
    end();
    munmap(from, BYTES);
    munmap(to, BYTES);
    free(shadow);
}

static uint32_t seeds(uint32_t few) {
    const char *text = getenv("OPENSPIN_SEEDS");
    return text ? (uint32_t)strtoul(text, NULL, 10) : few;
}

TEST(random_faults_lose_no_byte) {
    for (uint32_t i = 0; i < seeds(3); i++)
        one_seed(i, LIVE_SHM, NULL);
}

TEST(nor_do_they_on_a_bad_network) {
    for (uint32_t i = 0; i < seeds(2); i++) {
        char faults[80];
        snprintf(faults, sizeof faults, "%u:loss=0.03,duplicate=0.03,reorder=0.03", i + 1);
        one_seed(100 + i, LIVE_UDP, faults);
    }
}

TEST_MAIN
