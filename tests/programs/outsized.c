/* Traffic into a window that is larger than its process may have in memory, every byte checked.
 *   outsized FILE|- MIB MILLISECONDS SEED [GROUP]
 * Rank 0 has the window, over that file or over anonymous memory (-, which needs swap), and puts
 * itself into the control group GROUP (a folder) first. The others write and read chunks of their
 * parts of it, some at a time, and read all that they have written at last. Prints what was done,
 * and how much of the window is in memory at the end. */
#include <errno.h>
#include <fcntl.h>
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "traffic_random.h"

enum { CHUNK = 256 << 10, LIMIT_MS = 120000, ENTRY = 0, UNDER_WAY = 4 };

static ptl_handle_ni_t ni;
static ptl_handle_eq_t eq;

static int failed(const char *what) {
    fprintf(stderr, "rank %u: %s\n", spin_rank(), what);
    return 1;
}

static int call(int code, const char *what) {
    return code == PTL_OK ? 0 : failed(what);
}

/* Words that do not compress, of a chunk in its version; 0: nobody has written it. */
static uint64_t word(uint64_t chunk, uint64_t version, uint64_t i) {
    uint64_t x = (chunk * 1000003 + version) * 0x9e3779b97f4a7c15ull + i * 0xd1342543de82ef95ull;
    x ^= x >> 29;
    return version ? x * 0xbf58476d1ce4e5b9ull : 0;
}

static void fill(uint64_t *at, uint64_t chunk, uint64_t version) {
    for (uint64_t i = 0; i < CHUNK / 8; i++)
        at[i] = word(chunk, version, i);
}

static int check(const uint64_t *at, uint64_t chunk, uint64_t version) {
    for (uint64_t i = 0; i < CHUNK / 8; i++)
        if (at[i] != word(chunk, version, i)) {
            fprintf(stderr, "rank %u: chunk %llu, version %llu: word %llu is wrong\n", spin_rank(),
                    (unsigned long long)chunk, (unsigned long long)version, (unsigned long long)i);
            return 1;
        }
    return 0;
}

static int open_card(void) {
    ptl_pt_index_t pt;
    return call(PtlInit(), "PtlInit") ||
           call(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL,
                          NULL, &ni),
                "PtlNIInit") ||
           call(spin_map_ranks(ni), "spin_map_ranks") ||
           call(PtlEQAlloc(ni, 256, &eq), "PtlEQAlloc") ||
           call(PtlPTAlloc(ni, 0, eq, ENTRY, &pt), "PtlPTAlloc");
}

/* ---- rank 0 ---- */

static int join(const char *group) {
    char path[4096];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0) {
        fprintf(stderr, "outsized: %s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

static void *window_of(const char *path, uint64_t bytes) {
    bool anonymous = strcmp(path, "-") == 0;
    int fd = anonymous ? -1 : open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    void *at = MAP_FAILED;
    if (anonymous || (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0))
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                  anonymous ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return at;
}

static uint64_t in_memory(void *at, uint64_t bytes) {
    uint64_t pages = bytes / 4096, there = 0;
    unsigned char *is = malloc(pages);
    if (mincore(at, bytes, is) == 0)
        for (uint64_t i = 0; i < pages; i++)
            there += is[i] & 1;
    free(is);
    return there * 4096;
}

static int own(const char *path, uint64_t bytes) {
    void *window = window_of(path, bytes);
    const ptl_le_t entry = {.start = window,
                            .length = bytes,
                            .ct_handle = PTL_CT_NONE,
                            .uid = PTL_UID_ANY,
                            .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_COMM_DISABLE |
                                       PTL_LE_EVENT_LINK_DISABLE};
    ptl_handle_le_t le;
    if (window == MAP_FAILED)
        return failed(strerror(errno));
    int bad = call(PtlLEAppend(ni, ENTRY, &entry, PTL_PRIORITY_LIST, NULL, &le), "PtlLEAppend");
    spin_barrier();
    spin_barrier(); /* the others are done */
    uint64_t there = in_memory(window, bytes);
    if (!bad)
        printf("%llu of %llu MiB are in memory\n", (unsigned long long)(there >> 20),
               (unsigned long long)(bytes >> 20));
    return bad;
}

/* ---- the others ---- */

struct under_way {
    uint64_t chunk, version;
    bool busy, write;
};

struct peer {
    uint64_t first, chunks; /* of the window */
    uint64_t *version;
    uint8_t *memory; /* a chunk for each that is under way */
    ptl_handle_md_t md[UNDER_WAY];
    struct under_way is[UNDER_WAY];
    uint64_t bytes;
};

static int begin(struct peer *p, int slot, uint64_t chunk, bool write) {
    struct under_way *u = &p->is[slot];
    const ptl_process_t owner = {.rank = 0};
    uint64_t at = (p->first + chunk) * CHUNK;
    *u = (struct under_way){
        .chunk = chunk, .version = p->version[chunk] + write, .busy = true, .write = write};
    if (!write)
        return call(PtlGet(p->md[slot], 0, CHUNK, owner, ENTRY, 0, at, &p->is[slot]), "PtlGet");
    fill((uint64_t *)(p->memory + (uint64_t)slot * CHUNK), p->first + chunk, u->version);
    return call(PtlPut(p->md[slot], 0, CHUNK, PTL_ACK_REQ, owner, ENTRY, 0, at, &p->is[slot], 0),
                "PtlPut");
}

/* The next that is over. */
static int end(struct peer *p) {
    ptl_event_t event;
    unsigned which;
    if (call(PtlEQPoll(&eq, 1, LIMIT_MS, &event, &which), "a message does not end"))
        return 1;
    if (event.ni_fail_type != PTL_NI_OK)
        return failed(PtlToStr((int)event.ni_fail_type, PTL_STR_FAIL_TYPE));
    struct under_way *u = event.user_ptr;
    u->busy = false;
    p->bytes += CHUNK;
    if (u->write)
        p->version[u->chunk] = u->version;
    return u->write ? 0
                    : check((uint64_t *)(p->memory + (uint64_t)(u - p->is) * CHUNK),
                            p->first + u->chunk, u->version);
}

static bool taken(const struct peer *p, uint64_t chunk) {
    for (int i = 0; i < UNDER_WAY; i++)
        if (p->is[i].busy && p->is[i].chunk == chunk)
            return true;
    return false;
}

/* Keeps some under way; `choose` says what is next, or that there is nothing more. */
static int work(struct peer *p, bool (*choose)(struct peer *, void *, uint64_t *, bool *),
                void *context) {
    bool more = true;
    int busy = 0;
    while (more || busy) {
        int slot = 0;
        uint64_t chunk;
        bool write;
        while (slot < UNDER_WAY && p->is[slot].busy)
            slot++;
        if (more && slot < UNDER_WAY) {
            more = choose(p, context, &chunk, &write);
            if (more && !taken(p, chunk)) {
                if (begin(p, slot, chunk, write))
                    return 1;
                busy++;
            }
            continue;
        }
        if (end(p))
            return 1;
        busy--;
    }
    return 0;
}

struct mixed {
    uint64_t until, random;
};

static bool mixed(struct peer *p, void *context, uint64_t *chunk, bool *write) {
    struct mixed *m = context;
    *chunk = next(&m->random) % p->chunks;
    *write = next(&m->random) % 2;
    return now_ms() < m->until;
}

struct all {
    uint64_t next;
    bool write;
};

static bool all(struct peer *p, void *context, uint64_t *chunk, bool *write) {
    struct all *a = context;
    *chunk = a->next;
    *write = a->write;
    return a->next++ < p->chunks;
}

static int use(uint64_t bytes, uint64_t ms, uint64_t seed) {
    uint64_t chunks = bytes / CHUNK / (spin_ranks() - 1);
    struct peer p = {.first = (spin_rank() - 1) * chunks, .chunks = chunks};
    p.version = calloc(chunks, sizeof *p.version);
    p.memory = malloc((uint64_t)UNDER_WAY * CHUNK);
    int bad = 0;
    for (int i = 0; i < UNDER_WAY && !bad; i++) {
        const ptl_md_t md = {.start = p.memory + (uint64_t)i * CHUNK,
                             .length = CHUNK,
                             .options = PTL_MD_EVENT_SEND_DISABLE,
                             .eq_handle = eq,
                             .ct_handle = PTL_CT_NONE};
        bad = call(PtlMDBind(ni, &md, &p.md[i]), "PtlMDBind");
    }
    spin_barrier();
    /* All of it once, so that it is more than fits; then as it comes; then every byte. */
    bad = bad || work(&p, all, &(struct all){.write = true}) ||
          work(&p, mixed, &(struct mixed){now_ms() + ms, seed * 1000 + spin_rank()}) ||
          work(&p, all, &(struct all){0});
    if (!bad)
        printf("rank %u: %llu MiB written and read, none wrong\n", spin_rank(),
               (unsigned long long)(p.bytes >> 20));
    free(p.version);
    free(p.memory);
    if (!bad)
        spin_barrier();
    return bad;
}

int main(int argc, char **argv) {
    const char *rank = getenv("OPENSPIN_RANK");
    /* Before anything else: a card finds out whether it is under a limit when it is made. */
    if (argc == 6 && rank && atoi(rank) == 0 && join(argv[5]))
        return 1;
    if (argc < 5 || argc > 6 || spin_ranks() < 2) {
        fprintf(stderr, "outsized: FILE|- MIB MILLISECONDS SEED [GROUP], and two ranks or more\n");
        return 2;
    }
    uint64_t bytes = strtoull(argv[2], NULL, 10) << 20;
    if (open_card())
        return 1;
    int bad = spin_rank() ? use(bytes, strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10))
                          : own(argv[1], bytes);
    fflush(stdout);
    if (bad)
        return 1;
    spin_barrier();
    PtlNIFini(ni);
    PtlFini();
    return 0;
}
