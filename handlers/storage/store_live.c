/* store-live WHAT FILE NODES BYTES SEED [FOLDER [GROUP]]: the ranks of a store on live cards: the
 * service, NODES storage nodes, and clients, which do WHAT; started by `openspin store` and by
 * tests. FILE is the memory of a struct store_live_shared; nodes have media of their own in FOLDER,
 * and the service its journal, or all have memory; nodes put themselves into the control group
 * GROUP, a folder. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "storage_state.h"
#include "store_live.h"
#include "store_private.h"

void store_live_kill(struct store_live *live, uint32_t rank) {
    live->shared->killed++;
    kill((pid_t)live->shared->pid[rank], SIGKILL);
}

void store_live_fill(uint8_t *data, uint64_t bytes, uint64_t object, uint64_t version) {
    uint64_t x = (object + 1) * 0x9e3779b97f4a7c15ull ^ (version + 1) * 0xd1342543de82ef95ull;
    for (uint64_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            x = x * 6364136223846793005ull + 1442695040888963407ull;
        data[i] = (uint8_t)(x >> 8 * (i % 8));
    }
}

static volatile struct store_live_shared *share(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *memory = fd < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof(struct store_live_shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

typedef int player(struct store_live *);

static const struct {
    const char *name;
    player *play;
} players[] = {
    {"demo", store_live_demo},   {"again", store_live_again},     {"storm", store_live_storm},
    {"crash", store_live_crash}, {"recover", store_live_recover}, {"bench", store_live_bench},
    {"large", store_live_large}, {"forge", store_live_forge},
};

static player *player_of(const char *what) {
    for (size_t i = 0; i < sizeof players / sizeof *players; i++)
        if (strcmp(what, players[i].name) == 0)
            return players[i].play;
    return NULL;
}

static int play(struct store_live *live, const char *what, const struct spin_job *job) {
    if (job->rank <= live->nodes) {
        int code = PTL_OK;
        /* in every third storm, hosts do the work of every other card */
        bool behind = strcmp(what, "storm") == 0 && live->seed % 3 == 2 && job->rank % 2;
        struct storage_counts counts = {0};
        if (behind)
            code = store_node_behind(live->store);
        if (code == PTL_OK)
            code = spinstore_serve(live->store);
        if (code == PTL_OK && behind)
            code = store_node_card_counts(live->store, &counts);
        live->shared->bypassed += counts.bypassed;
        if (job->rank > 0)
            __atomic_add_fetch(&live->shared->resident, store_live_resident(live) >> 20,
                               __ATOMIC_RELAXED);
        return code != PTL_OK;
    }
    int status = player_of(what)(live);
    if (job->rank == live->nodes + 1 && !live->over && spinstore_stop(live->store) != PTL_OK) {
        printf("store: the service does not stop\n");
        status = 1;
    }
    if (job->rank == live->nodes + 1)
        live->shared->good = status == 0;
    return status;
}

/* Before anything that takes memory. */
static bool join_group(const char *group) {
    char path[4096];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *file = fopen(path, "we");
    bool good = file && fprintf(file, "%d\n", (int)getpid()) > 0;
    good = file && fclose(file) == 0 && good;
    if (!good)
        fprintf(stderr, "store-live: %s: %s\n", path, strerror(errno));
    return good;
}

/* What is wrong with a file, the library has said. */
static void join(struct store_live *live, ptl_handle_ni_t ni, const struct spinstore_options *o) {
    int code = store_live_open_puts(live, ni);
    if (code == PTL_OK)
        code = spinstore_join(ni, o, &live->store);
    if (code == PTL_OK)
        return;
    if (code != PTL_FAIL || *PtlImageError())
        fprintf(stderr, "store-live: rank %u cannot join: %s %s\n", live->rank,
                PtlToStr(code, PTL_STR_ERROR), PtlImageError());
    __atomic_add_fetch(&live->shared->alone, 1, __ATOMIC_RELAXED);
}

int main(int argc, char **argv) {
    struct store_live live = {0};
    struct spin_job job;
    char medium[4096], journal[4096];
    if (argc < 6 || argc > 8 || !player_of(argv[1])) {
        fprintf(stderr, "store-live: this is a part of `openspin store`\n");
        return 2;
    }
    live.shared = share(argv[2]);
    live.nodes = (uint32_t)strtoul(argv[3], NULL, 10);
    live.bytes = strtoull(argv[4], NULL, 10);
    live.seed = strtoull(argv[5], NULL, 10);
    if (argc == 8 && spin_rank() > 0 && spin_rank() <= live.nodes && !join_group(argv[7]))
        return 2;
    int code = live.shared ? spin_job_open(&job) : PTL_FAIL;
    if (code != PTL_OK || job.ranks < live.nodes + 2 || job.ranks > 1024) {
        fprintf(stderr, "store-live: no memory, no card, or too few ranks\n");
        return 2;
    }
    live.rank = job.rank;
    live.clients = job.ranks - 1 - live.nodes;
    snprintf(medium, sizeof medium, "%s/node-%u", argc > 6 ? argv[6] : "", job.rank);
    snprintf(journal, sizeof journal, "%s/journal", argc > 6 ? argv[6] : "");
    bool benches = strcmp(argv[1], "bench") == 0, large = strcmp(argv[1], "large") == 0;
    /* Every other storm is on a network that is not trusted, though here everybody knows the
     * secret. */
    bool storms = strcmp(argv[1], "storm") == 0 || strcmp(argv[1], "crash") == 0 ||
                  strcmp(argv[1], "recover") == 0;
    live.by_files = argc > 6;
    const uint64_t secret = 0x53746f7265536563;
    /* A process that is killed is noticed at once; one that gets no processor for long is not dead.
     * The bench covers what it wrote again and again, so it wants the blocks back soon. */
    const struct spinstore_options options = {
        .nodes = live.nodes,
        .file = live.by_files ? medium : NULL,
        .journal = live.by_files && !large ? journal : NULL, /* which is filled anew each time */
        .trust = storms && live.seed % 2 == 0 ? SPINSTORE_AUTHENTICATED : SPINSTORE_CAPABILITIES,
        .secret = job.rank ? spinstore_secret(secret, job.rank) : secret,
        .patience_ms = 3000,
        .silence_ms = 60000,
        .node_bytes = benches ? 256 << 20
                      : large ? live.bytes
                              : 0,
        .lifetime_s = benches                         ? 2
                      : strcmp(argv[1], "forge") == 0 ? 1
                                                      : 0};
    /* The service first: without its journal, nodes make no files. */
    if (job.rank == 0)
        join(&live, job.ni, &options);
    spin_barrier();
    if (job.rank > 0 && !live.shared->alone)
        join(&live, job.ni, &options);
    live.shared->pid[job.rank] = (uint32_t)getpid();
    spin_barrier(); /* whoever cannot join says so to the others */
    int status = live.shared->alone ? 1 : play(&live, argv[1], &job);
    spinstore_leave(live.store);
    spin_entry_remove(&live.puts);
    free(live.memory);
    spin_job_close(&job);
    return status;
}
