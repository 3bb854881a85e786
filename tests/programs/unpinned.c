/* Windows over memory that nobody has touched, locked or even kept, between two ranks.
 *   unpinned untouched|file|source FILE|protected|freed|caught|source-freed|shortened FILE|
 *            changing MILLISECONDS SEED
 * Rank 1 has the memory that rank 0 writes to and reads from (source, source-freed: the other way
 * round; caught: as freed, with a handler of SIGSEGV of its own). Every byte is checked. Whatever
 * the memory is, a message ends, both processes live, and the memory can be used again when it is
 * there again. */
#include <errno.h>
#include <fcntl.h>
#include <openspin.h>
#include <portals4.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "traffic_random.h"

#define WINDOW (8u << 20)
/* Far from where the system puts other memory: what is unmapped here stays unmapped. */
#define PLACE ((void *)0x200000000000)

enum { LIMIT_MS = 60000, ENTRY = 0 };

/* By a line of the wire, a packet, several, and slots of shared memory; not of whole pages. */
static const uint64_t sizes[] = {8, 3000, 20000, 300001, 3000017};
enum { SIZES = sizeof sizes / sizeof *sizes };

static ptl_handle_ni_t ni;
static ptl_handle_eq_t eq;
static ptl_handle_le_t le;
static uint32_t rank;

static int failed(const char *what) {
    fprintf(stderr, "rank %u: %s\n", rank, what);
    return 1;
}

static int call(int code, const char *what) {
    if (code != PTL_OK)
        fprintf(stderr, "rank %u: %s: %s\n", rank, what, PtlToStr(code, PTL_STR_ERROR));
    return code != PTL_OK;
}

static uint8_t byte_at(uint64_t offset, uint64_t seed) {
    return (uint8_t)((offset + seed) * 0x9e3779b97f4a7c15ull >> 56);
}

static void fill(uint8_t *at, uint64_t bytes, uint64_t seed) {
    for (uint64_t i = 0; i < bytes; i++)
        at[i] = byte_at(i, seed);
}

static int check(const uint8_t *at, uint64_t bytes, uint64_t seed, const char *what) {
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != byte_at(i, seed)) {
            fprintf(stderr, "rank %u: %s: byte %llu of %llu is wrong\n", rank, what,
                    (unsigned long long)i, (unsigned long long)bytes);
            return 1;
        }
    return 0;
}

/* ---- memory ---- */

static uint8_t *map(void *at, int protection, int flags, int fd) {
    void *memory = mmap(at, WINDOW, protection, flags | (at ? MAP_FIXED_NOREPLACE : 0), fd, 0);
    if (memory != MAP_FAILED)
        return memory;
    fprintf(stderr, "rank %u: mmap: %s\n", rank, strerror(errno));
    exit(1);
}

static uint8_t *untouched(void) {
    return map(PLACE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* A file with a pattern, or of zeroes, that is not in memory. */
static uint8_t *mapped_file(const char *path, int protection, bool filled) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    uint8_t *data = filled ? malloc(WINDOW) : NULL;
    if (filled) {
        fill(data, WINDOW, 0);
        if (write(fd, data, WINDOW) != WINDOW)
            exit(failed("the file cannot be written"));
    } else if (fd < 0 || ftruncate(fd, WINDOW)) {
        exit(failed("the file cannot be made"));
    }
    free(data);
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    uint8_t *memory = map(PLACE, protection, MAP_SHARED, fd);
    close(fd);
    return memory;
}

/* ---- Portals ---- */

static int open_card(void) {
    ptl_pt_index_t pt;
    return call(PtlInit(), "PtlInit") ||
           call(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL,
                          NULL, &ni),
                "PtlNIInit") ||
           call(spin_map_ranks(ni), "spin_map_ranks") ||
           call(PtlEQAlloc(ni, 4096, &eq), "PtlEQAlloc") ||
           call(PtlPTAlloc(ni, 0, eq, ENTRY, &pt), "PtlPTAlloc");
}

static int append(void *start) {
    const ptl_le_t entry = {
        .start = start,
        .length = WINDOW,
        .ct_handle = PTL_CT_NONE,
        .uid = PTL_UID_ANY,
        .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE,
    };
    return call(PtlLEAppend(ni, ENTRY, &entry, PTL_PRIORITY_LIST, NULL, &le), "PtlLEAppend");
}

static int describe(void *start, ptl_handle_md_t *md) {
    const ptl_md_t of = {.start = start,
                         .length = WINDOW,
                         .options = PTL_MD_EVENT_SEND_DISABLE,
                         .eq_handle = eq,
                         .ct_handle = PTL_CT_NONE};
    return call(PtlMDBind(ni, &of, md), "PtlMDBind");
}

static int put(ptl_handle_md_t md, uint64_t bytes) {
    return call(
        PtlPut(md, 0, bytes, PTL_ACK_REQ, (ptl_process_t){.rank = 1 - rank}, ENTRY, 0, 0, NULL, 0),
        "PtlPut");
}

static int get(ptl_handle_md_t md, uint64_t bytes) {
    return call(PtlGet(md, 0, bytes, (ptl_process_t){.rank = 1 - rank}, ENTRY, 0, 0, NULL),
                "PtlGet");
}

/* A put that fails may say so by SEND as well, before its ACK. */
static int next_event(ptl_event_t *event) {
    unsigned which;
    do
        if (call(PtlEQPoll(&eq, 1, LIMIT_MS, event, &which), "PtlEQPoll: no event"))
            return 1;
    while (event->type == PTL_EVENT_SEND && event->ni_fail_type == PTL_NI_SEGV);
    return 0;
}

/* The next event, which is of this kind; *fault: the memory was not there. */
static int event_of(ptl_event_kind_t kind, bool *fault) {
    ptl_event_t event;
    if (next_event(&event))
        return 1;
    *fault = event.ni_fail_type == PTL_NI_SEGV;
    if (event.type == kind && (*fault || event.ni_fail_type == PTL_NI_OK))
        return 0;
    fprintf(stderr, "rank %u: expected %s, got %s with %s\n", rank,
            PtlToStr((int)kind, PTL_STR_EVENT), PtlToStr((int)event.type, PTL_STR_EVENT),
            PtlToStr((int)event.ni_fail_type, PTL_STR_FAIL_TYPE));
    return 1;
}

static int expect(ptl_event_kind_t kind, bool fault) {
    bool is;
    if (event_of(kind, &is))
        return 1;
    return is == fault ? 0 : failed(fault ? "it is no error" : "the memory was not there");
}

/* ---- rank 1 has a window that nobody has touched; rank 0 writes and reads it ---- */

/* All sizes, each into a window that is as the first was. */
static int writes(void) {
    uint8_t *source = malloc(WINDOW), *back = malloc(WINDOW);
    ptl_handle_md_t out, in;
    int bad = describe(source, &out) || describe(back, &in);
    for (int i = 0; i < SIZES && !bad; i++) {
        spin_barrier();
        fill(source, sizes[i], sizes[i]);
        bad = put(out, sizes[i]) || expect(PTL_EVENT_ACK, false) || get(in, sizes[i]) ||
              expect(PTL_EVENT_REPLY, false) || check(back, sizes[i], sizes[i], "read back");
        spin_barrier();
    }
    free(source);
    free(back);
    return bad;
}

static int is_written(uint8_t *memory, int (*leave)(uint8_t *memory)) {
    uint64_t bytes = 0;
    int bad = append(memory);
    for (int i = 0; i < SIZES && !bad; i++) {
        spin_barrier();
        bad = expect(PTL_EVENT_PUT, false) || expect(PTL_EVENT_GET, false);
        spin_barrier();
        bad |= check(memory, sizes[i], sizes[i], "written") || leave(memory);
        bytes += sizes[i];
    }
    if (!bad)
        printf("%llu bytes written and read, none wrong\n", (unsigned long long)bytes);
    return bad;
}

static int discard(uint8_t *memory) {
    return madvise(memory, WINDOW, MADV_DONTNEED) ? failed("madvise") : 0;
}

static int let_go(uint8_t *memory) {
    return madvise(memory, WINDOW, MADV_DONTNEED) || msync(memory, WINDOW, MS_SYNC)
               ? failed("the file cannot be written")
               : 0;
}

static int run_untouched(char **words) {
    (void)words;
    return rank ? is_written(untouched(), discard) : writes();
}

static int run_file(char **words) {
    if (rank == 0)
        return writes();
    uint8_t *memory = mapped_file(words[0], PROT_READ | PROT_WRITE, false), *data;
    if (is_written(memory, let_go))
        return 1;
    munmap(memory, WINDOW);
    data = malloc(WINDOW);
    int fd = open(words[0], O_RDONLY);
    int bad = read(fd, data, WINDOW) != WINDOW ||
              check(data, sizes[SIZES - 1], sizes[SIZES - 1], "the file");
    close(fd);
    free(data);
    if (!bad)
        printf("and so has the file\n");
    return bad;
}

/* A read-only mapping of a file as source of puts and of replies. */
static int run_source(char **words) {
    uint8_t *memory;
    ptl_handle_md_t md;
    if (rank) {
        memory = untouched();
        int bad = append(memory) || describe(memory + WINDOW / 2, &md);
        spin_barrier();
        bad = bad || expect(PTL_EVENT_PUT, false) || check(memory, 3000017, 0, "put");
        discard(memory);
        spin_barrier();
        bad = bad || get(md, 3000017) || expect(PTL_EVENT_REPLY, false) ||
              check(memory + WINDOW / 2, 3000017, 0, "got");
        if (!bad)
            printf("3000017 bytes put and got, none wrong\n");
        spin_barrier();
        return bad;
    }
    memory = mapped_file(words[0], PROT_READ, true);
    int bad = append(memory) || describe(memory, &md);
    spin_barrier();
    bad = bad || put(md, 3000017) || expect(PTL_EVENT_ACK, false);
    discard(memory);
    spin_barrier();
    bad = bad || expect(PTL_EVENT_GET, false);
    spin_barrier();
    return bad;
}

/* ---- memory that is not there ---- */

/* So many puts and gets of every size, that end as expected at this side. */
static int asks(bool puts_fault, bool gets_fault) {
    uint8_t *source = malloc(WINDOW), *back = malloc(WINDOW);
    ptl_handle_md_t out, in;
    int bad = describe(source, &out) || describe(back, &in);
    for (int i = 0; i < SIZES && !bad; i++) {
        fill(source, sizes[i], sizes[i]);
        bad = put(out, sizes[i]) || expect(PTL_EVENT_ACK, puts_fault);
        if (!bad)
            bad = get(in, sizes[i]) || expect(PTL_EVENT_REPLY, gets_fault);
        if (!bad && !puts_fault && !gets_fault)
            bad = check(back, sizes[i], sizes[i], "read back");
    }
    PtlMDRelease(out);
    PtlMDRelease(in);
    free(source);
    free(back);
    return bad;
}

static int is_asked(bool puts_fault, bool gets_fault) {
    int bad = 0;
    for (int i = 0; i < SIZES && !bad; i++)
        bad = expect(PTL_EVENT_PUT, puts_fault) || expect(PTL_EVENT_GET, gets_fault);
    return bad;
}

/* The memory goes, and comes back at the same place. */
static int goes_and_comes(const char *what, bool puts_fault, bool gets_fault, uint8_t *memory,
                          int (*go)(uint8_t *), int (*come)(uint8_t *)) {
    int bad = 0;
    for (int there = 1; there >= -1 && !bad; there--) { /* there, gone, there again */
        if (rank)
            bad = there == 1 ? append(memory) : there == 0 ? go(memory) : come(memory);
        spin_barrier();
        bool gone = there == 0;
        bad = bad || (rank ? is_asked(gone && puts_fault, gone && gets_fault)
                           : asks(gone && puts_fault, gone && gets_fault));
        spin_barrier();
    }
    if (!bad && rank)
        printf("%s: errors while it is gone, data before and after\n", what);
    return bad;
}

static int unmap(uint8_t *memory) {
    return munmap(memory, WINDOW);
}

static int map_again(uint8_t *memory) {
    return untouched() != memory;
}

static int run_freed(char **words) {
    (void)words;
    return goes_and_comes("unmapped", true, true, rank ? untouched() : NULL, unmap, map_again);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    if (!spin_handle_fault(number, info, context))
        _exit(3);
}

static int run_caught(char **words) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    return sigaction(SIGSEGV, &action, NULL) || run_freed(words);
}

static int protect(uint8_t *memory) {
    return mprotect(memory, WINDOW, PROT_READ);
}

static int permit(uint8_t *memory) {
    return mprotect(memory, WINDOW, PROT_READ | PROT_WRITE);
}

static int run_protected(char **words) {
    (void)words;
    return goes_and_comes("read-only", true, false, rank ? untouched() : NULL, protect, permit);
}

static const char *shortened_path;

static int shorten(uint8_t *memory) {
    (void)memory;
    return truncate(shortened_path, 0);
}

static int lengthen(uint8_t *memory) {
    (void)memory;
    return truncate(shortened_path, WINDOW);
}

/* Of a mapping behind the end of its file no page can be had: SIGBUS, in memcpy. */
static int run_shortened(char **words) {
    shortened_path = words[0];
    return goes_and_comes("file cut off", true, true,
                          rank ? mapped_file(words[0], PROT_READ | PROT_WRITE, false) : NULL,
                          shorten, lengthen);
}

/* Rank 0's own memory is gone when it puts from it, and when a reply comes. */
static int run_source_freed(char **words) {
    (void)words;
    if (rank) {
        uint8_t *memory = untouched();
        int bad = append(memory);
        bool any;
        spin_barrier();
        /* what comes of the puts is data that is not there; who replies may learn of it or not */
        for (int i = 0; i < SIZES && !bad; i++)
            bad = expect(PTL_EVENT_PUT, true) || event_of(PTL_EVENT_GET, &any);
        bad = bad || expect(PTL_EVENT_PUT, false) || check(memory, 3000017, 5, "after that");
        spin_barrier();
        return bad;
    }
    uint8_t *memory = untouched();
    ptl_handle_md_t md;
    int bad = describe(memory, &md);
    munmap(memory, WINDOW);
    spin_barrier();
    for (int i = 0; i < SIZES && !bad; i++)
        bad = put(md, sizes[i]) || expect(PTL_EVENT_ACK, true) || get(md, sizes[i]) ||
              expect(PTL_EVENT_REPLY, true);
    map_again(memory);
    fill(memory, 3000017, 5);
    bad = bad || put(md, 3000017) || expect(PTL_EVENT_ACK, false);
    if (!bad)
        printf("source unmapped: errors while it is gone, data after\n");
    spin_barrier();
    return bad;
}

/* ---- memory that comes and goes while messages arrive ---- */

/* Rank 0 puts and gets, some at a time; each ends, and as nothing but data or an error. The last
 * message, of no bytes, tells rank 1 how many there were. */
static int changing_peer(uint64_t ms, uint64_t random) {
    enum { UNDER_WAY = 4, LEAST = 20 };
    uint8_t *source = malloc(WINDOW), *back = malloc(WINDOW);
    uint64_t begun = 0, over = 0, faults = 0, until;
    ptl_handle_md_t out, in;
    int bad = describe(source, &out) || describe(back, &in);
    fill(source, WINDOW, 1);
    spin_barrier();
    until = now_ms() + ms;
    while (!bad) {
        bool more = now_ms() < until || begun < LEAST;
        if (more && begun - over < UNDER_WAY) {
            uint64_t bytes = sizes[next(&random) % SIZES];
            begun++;
            bad = next(&random) % 2 ? put(out, bytes) : get(in, bytes);
            continue;
        }
        if (over == begun)
            break;
        ptl_event_t event;
        bad = next_event(&event);
        if (!bad && event.ni_fail_type != PTL_NI_OK && event.ni_fail_type != PTL_NI_SEGV)
            bad = failed(PtlToStr((int)event.ni_fail_type, PTL_STR_FAIL_TYPE));
        over++;
        faults += event.ni_fail_type == PTL_NI_SEGV;
    }
    if (!bad)
        printf("%llu messages, %llu errors, all ended\n", (unsigned long long)begun,
               (unsigned long long)faults);
    return bad;
}

static void drain(void) {
    ptl_event_t event;
    while (PtlEQGet(eq, &event) != PTL_EQ_EMPTY)
        ;
}

static int changing_owner(uint64_t ms, uint64_t random) {
    uint8_t *memory = untouched();
    uint64_t changes = 0;
    int bad = append(memory);
    spin_barrier();
    for (uint64_t until = now_ms() + ms; !bad && now_ms() < until; changes++) {
        drain();
        uint64_t page = next(&random) % (WINDOW / 4096),
                 bytes = (1 + next(&random) % (WINDOW / 4096 - page)) * 4096;
        uint8_t *at = memory + page * 4096;
        switch (next(&random) % 4) {
        case 0:
            bad = madvise(at, bytes, MADV_DONTNEED) != 0;
            break;
        case 1:
            bad = mprotect(at, bytes, PROT_READ) != 0;
            break;
        case 2:
            bad = munmap(at, bytes) != 0;
            break;
        default:
            at = memory, bytes = WINDOW;
        }
        usleep((useconds_t)(next(&random) % 2000));
        bad = bad || mmap(at, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at;
    }
    spin_barrier(); /* the other has ended, and all is there */
    for (ptl_event_t event; PtlEQPoll(&eq, 1, 200, &event, &(unsigned){0}) == PTL_OK;)
        ;
    printf("the memory changed %s times\n", changes > 2 ? "many" : "few");
    return bad;
}

static int run_changing(char **words) {
    uint64_t ms = strtoull(words[0], NULL, 10), seed = strtoull(words[1], NULL, 10);
    int bad;
    if (rank) {
        bad = changing_owner(ms, 2 * seed + 1);
        spin_barrier();
        bad = bad || is_asked(false, false);
    } else {
        bad = changing_peer(ms, 2 * seed + 2);
        spin_barrier();
        spin_barrier();
        bad = bad || asks(false, false); /* as if nothing had been */
    }
    spin_barrier();
    return bad;
}

static const struct {
    const char *name;
    int words;
    int (*run)(char **words);
} modes[] = {
    {"untouched", 0, run_untouched}, {"file", 1, run_file},
    {"source", 1, run_source},       {"protected", 0, run_protected},
    {"freed", 0, run_freed},         {"caught", 0, run_caught},
    {"shortened", 1, run_shortened}, {"source-freed", 0, run_source_freed},
    {"changing", 2, run_changing},
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (argc < 2 || strcmp(argv[1], modes[i].name) || argc - 2 != modes[i].words)
            continue;
        rank = spin_rank();
        if (open_card())
            return 1;
        int bad = modes[i].run(argv + 2);
        fflush(stdout);
        if (bad)
            return 1;
        spin_barrier();
        PtlNIFini(ni);
        PtlFini();
        return 0;
    }
    fprintf(stderr, "unpinned: which memory?\n");
    return 2;
}
