/* What the figures of the file-system paper share: its network and cards, a client that writes to
 * storage nodes by one of several protocols, and the time of a write.
 *
 * Rank 0 is the client, the ranks behind it are storage nodes, then further clients. A write ends
 * when the client's program knows that every copy is in the memory of its node; each node's data is
 * compared. */
#ifndef OPENSPIN_EXPERIMENTS_DFS22_WORLD_H
#define OPENSPIN_EXPERIMENTS_DFS22_WORLD_H

#include <stdbool.h>

#include "experiment.h"
#include "portals4.h"
#include "spinlib/spinlib.h"

#define DFS_MTU        2048u
#define DFS_CLIENTS    64u
#define DFS_GBIT       400.0
#define DFS_MOST_BYTES (16u << 20) /* of a write */

/* What a processor does with a request that a card would have checked: reads its header from
 * memory, and computes a keyed hash of the capability (HalfSipHash-2-4 of 64 bytes: 22 rounds of 14
 * operations, at some three per cycle, and the comparisons). */
enum { DFS_REQUEST_BYTES = 128, DFS_CHECK_CYCLES = 150 };
/* GB/s that one core of a server of today copies, of 2 MiB and not from its caches. */
enum { DFS_CORE_GBS = 12 };
/* Writes before one that is timed alone: messages have home clusters in turn, and each cluster has
 * an instruction cache. */
enum { DFS_WARM = 8, DFS_WARM_BYTES = 4096 };
/* Into which a write is cut at most: a card has 1,024 triggered operations. */
enum { DFS_CHUNKS = 256 };

enum dfs_protocol {
    DFS_RAW,       /* one put, not checked */
    DFS_RPC,       /* request with data; the node's processor checks and copies */
    DFS_RPC_RDMA,  /* request; the node's processor checks and fetches the data */
    DFS_CPU_RING,  /* pipelined in chunks, forwarded by the nodes' processors */
    DFS_CPU_PBT,   /* likewise, in a binary tree */
    DFS_FLAT,      /* the client puts to every node */
    DFS_HYPERLOOP, /* descriptors first, then pipelined in chunks by triggered operations */
    DFS_TRIEC,     /* erasure coding of whole chunks by cards */
    DFS_SPIN_RING, /* storage handlers; with one copy: plain */
    DFS_SPIN_PBT,
    DFS_SPIN_RS, /* and erasure-coded */
    DFS_PROTOCOLS
};
const char *dfs_protocol_name(enum dfs_protocol protocol);
/* Whether it has a chunk size to choose. */
bool dfs_has_chunks(enum dfs_protocol protocol);

/* What a client of sPIN shows with a write, and nodes make of it. */
enum dfs_trust {
    DFS_KNOWN,   /* one capability for all writes: a card computes its MAC once */
    DFS_FIRST,   /* another one for each write */
    DFS_TICKET,  /* clients are trusted: a plain secret is compared */
    DFS_PACKETS, /* as DFS_KNOWN, and every packet has a tag */
};

struct dfs_write {
    enum dfs_protocol protocol;
    uint32_t copies, bytes;
    uint32_t parities; /* of a coded write, of which `copies` is the number of data nodes */
    uint32_t chunk;    /* of pipelined ones; 0: all in one */
    uint32_t writes;   /* of sPIN and TriEC: so many, for their goodput; 0: one */
    uint32_t window;   /* of those of sPIN: under way at a time, of each client */
    uint32_t clients;  /* likewise; 0: one */
    bool slow;         /* 100 Gbit/s */
    enum dfs_trust trust;
    bool alone;                  /* a card without a host: PCIe takes no time */
    bool core_copies;            /* processors copy DFS_CORE_GBS, and not what memory allows */
    const char *trace, *picture; /* from this time on */
    uint64_t from_ps;
};

struct dfs_outcome {
    uint64_t start_ps;
    double us;      /* of one write */
    double gbit;    /* of data, if there were several */
    uint32_t chunk; /* that it had */
    /* Of the card of the first node, and of the last, which is a parity node if there are some. If
     * there were several writes, sums are without the first third of the first client's. */
    struct spin_card_handler handler[SPIN_CLEANUP_HANDLER + 1], last[SPIN_CLEANUP_HANDLER + 1];
};

/* One write to idle nodes whose caches are warm. */
int dfs_write(const struct experiment_context *context, const struct dfs_write *write,
              struct dfs_outcome *outcome, struct spin_error *err);
/* The same with the chunk size that takes least, of those that are a power of two of packets. */
int dfs_write_best(const struct experiment_context *context, const struct dfs_write *write,
                   struct dfs_outcome *outcome, struct spin_error *err);

/* ---- for the protocols ---- */

/* What the ranks of a run know together. */
struct dfs_scene {
    struct dfs_write write;
    uint8_t *data; /* of a write */
    uint32_t writes, window, warm;
    uint64_t start_ps, took_ps; /* of the client that waited longest for its last write, */
    uint64_t elapsed_ps;        /* and for all that do not warm up */
    uint64_t *done_ps;          /* of sPIN: when each client knew of each write */
    const struct spin_world *world;
    struct spin_world_card begun[2]; /* of sPIN: what those cards had counted then */
};

/* Portals' match bits. */
enum { DFS_DATA = 1, DFS_REQUEST, DFS_ANSWER, DFS_DESCRIPTORS, DFS_SELF };

/* A rank: an interface, its memory, counters. Memory: [0, bytes) is where data comes in, or the
 * client's; [bytes, 2 * bytes) where a processor copies it to; then `extra`. */
struct dfs_rank {
    const struct dfs_scene *scene;
    struct spin_job job;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct, acks; /* of what comes; of acknowledgements and replies */
    ptl_pt_index_t pt;
    ptl_handle_md_t md;
    uint8_t *memory;
    void *more; /* the protocol's */
};
bool dfs_open(struct dfs_rank *r, struct dfs_scene *scene, uint64_t extra);
void dfs_close(struct dfs_rank *r);
/* An entry that counts on `ct` (PTL_CT_NONE: does not) and, with `events`, tells the program. */
bool dfs_expose(struct dfs_rank *r, uint64_t bits, uint64_t at, uint64_t bytes, ptl_handle_ct_t ct,
                bool events);
bool dfs_put(struct dfs_rank *r, uint64_t at, uint64_t bytes, uint32_t target, uint64_t bits,
             uint64_t remote, bool acknowledged);
bool dfs_wait(ptl_handle_ct_t ct, uint64_t count);
/* The next put that has come, as the program sees it. */
bool dfs_next(struct dfs_rank *r, ptl_event_t *event);
void dfs_check_request(void);
/* What a node's processor copies within its memory. */
void dfs_copy(struct dfs_rank *r, uint64_t to, uint64_t from, uint64_t bytes);
/* A client: opens an entry for answers, and times what `writes` does. Returns as a rank does. */
int dfs_client(struct dfs_rank *r, struct dfs_scene *s,
               bool (*writes)(struct dfs_rank *r, const struct dfs_scene *s));
/* Of the first node, and of the last. */
static inline uint32_t dfs_node(const struct dfs_write *w, int last) {
    return last ? w->copies + w->parities : 1;
}
/* A client's last write, begun then, is done now; and all of its writes. */
void dfs_took(struct dfs_scene *s, uint64_t start_ps, uint64_t first_ps);

static inline bool dfs_is_node(const struct dfs_write *w) {
    return spin_rank() && spin_rank() <= w->copies + w->parities;
}

/* Parts of a rank's program: they return 0, or where it failed. */
int dfs_auth_rank(struct dfs_rank *r, struct dfs_scene *s);      /* raw, RPC, RPC+RDMA */
int dfs_replicate_rank(struct dfs_rank *r, struct dfs_scene *s); /* without handlers */
int dfs_triec_rank(struct dfs_rank *r, struct dfs_scene *s);
bool dfs_triec_right(const struct dfs_rank *r);
int dfs_spin_rank(struct dfs_rank *r, struct dfs_scene *s);
bool dfs_spin_right(const struct dfs_rank *r);
void dfs_spin_close(struct dfs_rank *r);

/* As many writes of sPIN as its goodput needs, and under way at a time so many that a card has
 * handlers waiting but none is turned away. */
void dfs_flood(struct dfs_write *write);

/* Whether a caller's size and number of ranks can be: a client and copies, or a node and clients.
 */
int dfs_check_bytes(const struct experiment_context *context, struct spin_error *err);
int dfs_check_copies(const struct experiment_context *context, struct spin_error *err);
int dfs_check_clients(const struct experiment_context *context, struct spin_error *err);
/* Copies that the caller asks for, or the published number; and likewise data and parity nodes. */
uint32_t dfs_copies(const struct experiment_context *context, uint32_t published);
int dfs_code(const struct experiment_context *context, uint32_t *k, uint32_t *m,
             struct spin_error *err);
void dfs_note_world(struct sheet *s, int gbit);
/* Handlers and goodput of one node: on a card alone. */
void dfs_note_alone(struct sheet *s);

/* The options of the paper's world, with 400 or (slow) 100 Gbit/s, and hosts or (alone) none; the
 * arrays are constant. */
struct spin_world_options dfs_world(uint32_t ranks, bool slow, bool alone);

#endif
