#include "dfs22/dfs22_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "images.h"
#include "storage/storage_wire.h"

static bool is_right(const struct dfs_rank *r, uint64_t at) {
    return memcmp(r->memory + at, r->scene->data, r->scene->write.bytes) == 0;
}

static bool right_where_it_came(const struct dfs_rank *r) {
    return is_right(r, 0);
}

static bool right_in_copy(const struct dfs_rank *r) {
    return is_right(r, r->scene->write.bytes);
}

static const struct {
    const char *name;
    bool has_chunks;
    int (*rank)(struct dfs_rank *r, struct dfs_scene *s);
    bool (*right)(const struct dfs_rank *r); /* whether a node has what it should have */
    void (*close)(struct dfs_rank *r);
} protocols[DFS_PROTOCOLS] = {
    [DFS_RAW] = {"raw write", false, dfs_auth_rank, right_where_it_came, NULL},
    [DFS_RPC] = {"RPC", false, dfs_auth_rank, right_in_copy, NULL},
    [DFS_RPC_RDMA] = {"RPC+RDMA", false, dfs_auth_rank, right_in_copy, NULL},
    [DFS_CPU_RING] = {"CPU-Ring", true, dfs_replicate_rank, right_in_copy, NULL},
    [DFS_CPU_PBT] = {"CPU-PBT", true, dfs_replicate_rank, right_in_copy, NULL},
    [DFS_FLAT] = {"RDMA-Flat", false, dfs_replicate_rank, right_where_it_came, NULL},
    [DFS_HYPERLOOP] = {"RDMA-HyperLoop", true, dfs_replicate_rank, right_where_it_came, NULL},
    [DFS_TRIEC] = {"INEC-TriEC", false, dfs_triec_rank, dfs_triec_right, NULL},
    [DFS_SPIN_RING] = {"sPIN-Ring", false, dfs_spin_rank, dfs_spin_right, dfs_spin_close},
    [DFS_SPIN_PBT] = {"sPIN-PBT", false, dfs_spin_rank, dfs_spin_right, dfs_spin_close},
    [DFS_SPIN_RS] = {"sPIN-TriEC", false, dfs_spin_rank, dfs_spin_right, dfs_spin_close},
};

const char *dfs_protocol_name(enum dfs_protocol protocol) {
    return protocols[protocol].name;
}

bool dfs_has_chunks(enum dfs_protocol protocol) {
    return protocols[protocol].has_chunks;
}

/* DFS'22 section III-D, and 400 ns for a round trip on PCIe (section III): 200 ns each way, for the
 * card's requests and for what it raises. A switch takes SC'17's 50 ns. There are more contexts of
 * handlers than packets in L2, so that a card that is behind keeps packets waiting, as the paper
 * has it, and drops none. */
struct spin_world_options dfs_world(uint32_t ranks, bool slow, bool alone) {
#define CARDS "card=pspin", "contexts=4096", "mtu=2KiB", "link_latency=20ns"
/* of the slow one, with a client that sends to its peers packet by packet: they come last */
#define SLOWER "turn_packets=1", "link_rate=80ps", "pspin.network_rate=80ps"
    static const char *const set[2][9] = {
        {CARDS, "dma_latency=200ns", "pspin.pcie_latency=200ns", SLOWER},
        {CARDS, "dma_latency=0ns", "pspin.pcie_latency=0ns", SLOWER}};
#undef CARDS
#undef SLOWER
    return (struct spin_world_options){
        .ranks = ranks, .set = set[alone], .set_count = slow ? 9 : 6};
}

void dfs_note_alone(struct sheet *s) {
    sheet_note(s,
               "PsPIN cards alone, under load, 400 Gbit/s, packets of 2 KiB: the paper's appendix "
               "has the throughput of single nodes from PsPIN's own simulator, whose host is at "
               "no distance, and section V-B explains the handlers' times by it.");
}

void dfs_note_world(struct sheet *s, int gbit) {
    sheet_note(s,
               "PsPIN cards everywhere, %d Gbit/s, packets of 2 KiB, links of 20 ns and a switch "
               "(50 ns) between; PCIe takes 200 ns each way. Processors have SC'17's costs: o = 65 "
               "ns, a look 51 ns, memory 150 GiB/s and 51 ns.",
               gbit);
}

int dfs_check_bytes(const struct experiment_context *context, struct spin_error *err) {
    if (context->setup.bytes > DFS_MOST_BYTES)
        return spin_fail(err, SPIN_EARG, "--bytes %llu: a write has at most %u",
                         (unsigned long long)context->setup.bytes, DFS_MOST_BYTES);
    return SPIN_OK;
}

static int check(const struct experiment_context *context, uint32_t most, const char *what,
                 struct spin_error *err) {
    uint32_t ranks = context->setup.ranks;
    if (ranks && (ranks < 2 || ranks > 1 + most))
        return spin_fail(err, SPIN_EARG, "--ranks %u: %s", ranks, what);
    return dfs_check_bytes(context, err);
}

int dfs_check_copies(const struct experiment_context *context, struct spin_error *err) {
    return check(context, STORAGE_REPLICAS, "a client and 1 to 8 copies", err);
}

int dfs_check_clients(const struct experiment_context *context, struct spin_error *err) {
    return check(context, DFS_CLIENTS, "a node and 1 to 64 clients", err);
}

uint32_t dfs_copies(const struct experiment_context *context, uint32_t published) {
    return context->setup.ranks ? context->setup.ranks - 1 : published;
}

int dfs_code(const struct experiment_context *context, uint32_t *k, uint32_t *m,
             struct spin_error *err) {
    uint32_t ranks = context->setup.ranks;
    if (!ranks)
        return SPIN_OK;
    if (ranks < 3 || ranks > 1 + STORAGE_PLACES)
        return spin_fail(err, SPIN_EARG, "--ranks %u: a client and 2 to %u nodes of a code", ranks,
                         STORAGE_PLACES);
    *m = ranks < 5 ? 1 : 2;
    *k = ranks - 1 - *m;
    return SPIN_OK;
}

/* ---- a rank ---- */

bool dfs_open(struct dfs_rank *r, struct dfs_scene *scene, uint64_t extra) {
    *r = (struct dfs_rank){.scene = scene};
    uint64_t bytes = 2ull * scene->write.bytes + extra;
    r->memory = calloc(bytes, 1);
    if (!r->memory || spin_job_open(&r->job) != PTL_OK)
        return false;
    if (PtlEQAlloc(r->job.ni, 4096, &r->eq) != PTL_OK || PtlCTAlloc(r->job.ni, &r->ct) != PTL_OK ||
        PtlCTAlloc(r->job.ni, &r->acks) != PTL_OK ||
        PtlPTAlloc(r->job.ni, 0, r->eq, PTL_PT_ANY, &r->pt) != PTL_OK)
        return false;
    const ptl_md_t md = {.start = r->memory,
                         .length = bytes,
                         .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY |
                                    PTL_MD_EVENT_SEND_DISABLE | PTL_MD_EVENT_SUCCESS_DISABLE,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = r->acks};
    return PtlMDBind(r->job.ni, &md, &r->md) == PTL_OK;
}

void dfs_close(struct dfs_rank *r) {
    if (protocols[r->scene->write.protocol].close)
        protocols[r->scene->write.protocol].close(r);
    spin_job_close(&r->job);
    free(r->memory);
}

bool dfs_expose(struct dfs_rank *r, uint64_t bits, uint64_t at, uint64_t bytes, ptl_handle_ct_t ct,
                bool events) {
    ptl_handle_me_t handle;
    const ptl_me_t me = {.start = r->memory + at,
                         .length = bytes,
                         .ct_handle = ct,
                         .uid = PTL_UID_ANY,
                         .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE |
                                    PTL_ME_EVENT_CT_COMM |
                                    (events ? 0u : PTL_ME_EVENT_SUCCESS_DISABLE),
                         .match_id = {.rank = PTL_RANK_ANY},
                         .match_bits = bits,
                         .ignore_bits = ~UINT64_C(0xff)}; /* where answers may have a tag */
    return PtlMEAppend(r->job.ni, r->pt, &me, PTL_PRIORITY_LIST, NULL, &handle) == PTL_OK;
}

bool dfs_put(struct dfs_rank *r, uint64_t at, uint64_t bytes, uint32_t target, uint64_t bits,
             uint64_t remote, bool acknowledged) {
    return PtlPut(r->md, at, bytes, acknowledged ? PTL_CT_ACK_REQ : PTL_NO_ACK_REQ,
                  (ptl_process_t){.rank = target}, r->pt, bits, remote, NULL, 0) == PTL_OK;
}

bool dfs_wait(ptl_handle_ct_t ct, uint64_t count) {
    ptl_ct_event_t event;
    return PtlCTWait(ct, count, &event) == PTL_OK && event.failure == 0;
}

bool dfs_next(struct dfs_rank *r, ptl_event_t *event) {
    return PtlEQWait(r->eq, event) == PTL_OK && event->type == PTL_EVENT_PUT &&
           event->ni_fail_type == PTL_NI_OK;
}

void dfs_took(struct dfs_scene *s, uint64_t start_ps, uint64_t first_ps) {
    uint64_t now = spin_now_ps();
    if (now - start_ps > s->took_ps) {
        s->took_ps = now - start_ps;
        s->start_ps = start_ps;
    }
    if (now - first_ps > s->elapsed_ps)
        s->elapsed_ps = now - first_ps;
}

int dfs_client(struct dfs_rank *r, struct dfs_scene *s,
               bool (*writes)(struct dfs_rank *r, const struct dfs_scene *s)) {
    if (!dfs_expose(r, DFS_ANSWER, 0, 0, r->ct, false))
        return 2;
    spin_barrier();
    uint64_t start_ps = spin_now_ps();
    if (!writes(r, s))
        return 3;
    dfs_took(s, start_ps, start_ps);
    return 0;
}

/* Memory of 150 GiB/s that is read and written makes 75 GiB/s, unless it is one core's. */
void dfs_copy(struct dfs_rank *r, uint64_t to, uint64_t from, uint64_t bytes) {
    enum { CYCLE_PS = 400 };
    uint64_t start_ps = spin_now_ps(), whole_ps = bytes * 1000 / DFS_CORE_GBS, took_ps;
    spin_copy(r->memory + to, r->memory + from, bytes);
    took_ps = spin_now_ps() - start_ps;
    if (r->scene->write.core_copies && whole_ps > took_ps)
        spin_work((whole_ps - took_ps) / CYCLE_PS, 0);
}

void dfs_check_request(void) {
    spin_work(DFS_CHECK_CYCLES, DFS_REQUEST_BYTES);
}

/* ---- a run ---- */

static int rank(void *argument) {
    struct dfs_scene *s = argument;
    struct dfs_rank r;
    /* descriptors of all chunks for all nodes, or the head of a request, or whole blocks */
    uint64_t extra = 64ull * (s->write.bytes / 512 + 2) * (s->write.copies + 1) + 8192;
    if (!dfs_open(&r, s, extra))
        return 1;
    if (!dfs_is_node(&s->write))
        memcpy(r.memory, s->data, s->write.bytes);
    int status = protocols[s->write.protocol].rank(&r, s);
    spin_barrier(); /* the client's follows its last write */
    if (!status && dfs_is_node(&s->write) && !protocols[s->write.protocol].right(&r))
        status = 9;
    dfs_close(&r);
    return status;
}

/* Said once, clearly and before the protocols that have no handlers have run: nodes that cannot
 * load theirs leave the others waiting. */
static int has_images(const struct experiment_context *context, struct spin_error *err) {
    struct spin_image *image;
    int code = images_load_workload(context, "storage_handler", &image, err);
    spin_image_free(image);
    return code;
}

/* What the handlers of a node's card have done since `begun`. */
static void tell(const struct dfs_scene *s, int last,
                 struct spin_card_handler to[SPIN_CLEANUP_HANDLER + 1]) {
    struct spin_world_card card;
    if (!spin_world_card(s->world, dfs_node(&s->write, last), &card))
        return;
    for (int k = 0; k <= SPIN_CLEANUP_HANDLER; k++) {
        const struct spin_card_handler *before = &s->begun[last].handler[k];
        to[k] = card.handler[k];
        to[k].runs -= before->runs;
        to[k].instructions -= before->instructions;
        to[k].cycles -= before->cycles;
    }
}

static int run(const struct experiment_context *context, struct dfs_scene *s,
               struct dfs_outcome *outcome, struct spin_error *err) {
    struct experiment_world w;
    struct spin_world *world;
    struct spin_world_options base = dfs_world(
        s->write.clients + s->write.copies + s->write.parities, s->write.slow, s->write.alone);
    base.trace = s->write.trace;
    base.picture = s->write.picture;
    base.view.from_ps = s->write.from_ps;
    int code = has_images(context, err);
    if (!code)
        code = experiment_world(context, &base, &w, err);
    if (!code)
        code = spin_world_new(&world, &w.options, err);
    if (code)
        return code;
    s->world = world;
    code = spin_world_run(world, rank, s, err);
    const struct spin_world_result r = spin_world_result(world);
    if (!code && r.counts.faults)
        code = spin_fail(err, SPIN_EFORMAT, "%s: a handler failed: %s",
                         dfs_protocol_name(s->write.protocol), r.first_fault);
    if (!code && r.failed)
        code = spin_fail(err, SPIN_EFORMAT, "%s: rank %u failed at check %d",
                         dfs_protocol_name(s->write.protocol), r.first_failed, r.first_status);
    for (int last = 0; !code && last < 2; last++)
        tell(s, last, last ? outcome->last : outcome->handler);
    spin_world_free(world);
    return code;
}

/* Of all clients. A client's write begins when the one `window` before it is done, so whole windows
 * of one client are the steady state. The first three, with cold caches and packets that waited for
 * them, do not count, nor does the last, when others have ended. */
static double steady_gbit(const struct dfs_scene *s) {
    uint32_t from = 3 * s->window - 1, to = s->writes - s->window - 1;
    double gbit = 0;
    for (uint32_t c = 0; c < s->write.clients; c++) {
        const uint64_t *done = s->done_ps + (size_t)c * s->writes;
        gbit += 8e3 * s->write.bytes * (to - from) / (double)(done[to] - done[from]);
    }
    return gbit;
}

int dfs_write(const struct experiment_context *context, const struct dfs_write *write,
              struct dfs_outcome *outcome, struct spin_error *err) {
    bool spin = write->protocol >= DFS_SPIN_RING;
    struct dfs_scene s = {.write = *write, .writes = write->writes, .window = write->window};
    if (!s.writes || (spin && write->parities && !write->clients && write->window)) {
        s.warm = spin ? DFS_WARM : 0;
        s.writes += s.warm + !s.writes;
    }
    if (!s.window)
        s.window = 1;
    if (!s.write.clients)
        s.write.clients = 1;
    if (!s.write.chunk || s.write.chunk > write->bytes)
        s.write.chunk = write->bytes;
    *outcome = (struct dfs_outcome){.chunk = s.write.chunk};
    s.done_ps = calloc((size_t)s.writes * s.write.clients, sizeof *s.done_ps);
    s.data = malloc(write->bytes);
    for (uint32_t i = 0; s.data && i < write->bytes; i++)
        s.data[i] = (uint8_t)(i * 31 + i / 253 + 5);
    int code = s.done_ps && s.data ? run(context, &s, outcome, err)
                                   : spin_fail(err, SPIN_ENOMEM, "out of memory for a write");
    outcome->start_ps = s.start_ps;
    outcome->us = (double)s.took_ps / 1e6;
    if (!code && write->writes) /* of erasure coding all of the time counts, as in the paper */
        outcome->gbit = write->parities ? 8e3 * write->bytes * write->writes / (double)s.elapsed_ps
                                        : steady_gbit(&s);
    free(s.data);
    free(s.done_ps);
    return code;
}

/* Half a MiB under way, or enough handlers for all HPUs, from several clients: one alone puts 15
 * million times per second. */
void dfs_flood(struct dfs_write *w) {
    enum { UNDER_WAY = 512 << 10, MOST = 24, WINDOWS = 6 };
    w->clients = 4;
    w->window = UNDER_WAY / w->clients / w->bytes;
    w->window = w->window < 4 ? 4 : w->window > MOST ? MOST : w->window;
    w->writes = WINDOWS * w->window;
}

/* From all in one to smaller chunks, until two in a row were no better. */
int dfs_write_best(const struct experiment_context *context, const struct dfs_write *write,
                   struct dfs_outcome *best, struct spin_error *err) {
    int code = dfs_write(context, write, best, err);
    if (code || !dfs_has_chunks(write->protocol))
        return code;
    uint32_t chunk = DFS_MTU;
    while (2 * chunk < write->bytes)
        chunk *= 2;
    for (int worse = 0; !code && worse < 2 && chunk >= DFS_MTU && chunk < write->bytes &&
                        write->bytes / chunk <= DFS_CHUNKS;
         chunk /= 2) {
        struct dfs_write of = *write;
        struct dfs_outcome o;
        of.chunk = chunk;
        code = dfs_write(context, &of, &o, err);
        worse = o.us < best->us ? 0 : worse + 1;
        if (o.us < best->us)
            *best = o;
    }
    return code;
}
