/* Figure 16 and tables 2 to 4 of the page-fault paper: what a program notices that touches its
 * buffers before it sends, and one that leaves them to the card.
 *
 * The applications are proxies: their ranks compute, tell a neighbour that data is ready, and fetch
 * what their own neighbour has, as the paper's MPI does (RDMA reads). Sizes and numbers of messages
 * are those of its table 5, the computation between two messages is what its tables leave for one
 * (time x processes / messages). That buffers are used again is what the paper says; how many there
 * are is ours. */
#include "figures.h"

#include <stdlib.h>

#include "base/error.h"
#include "part/part_world.h"
#include "portals4.h"
#include "rounds.h"

#define GOOD(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PTL_OK)                                                                      \
            return __LINE__;                                                                       \
    } while (0)

#define HUGE_PAGE (2u << 20)

/* ---- figure 16 ---- */

enum { SENDS = 8 };
static const uint64_t send_sizes[SENDS] = {256,    4096,    16384,   65536,
                                           262144, 1048576, 2097152, 4194304};

struct isend {
    uint8_t *memory[2];
    uint64_t bytes[SENDS];
    int count;
    double us[2][SENDS]; /* without and with pre-touch */
};

static int isend_rank(void *argument) {
    struct isend *x = argument;
    uint8_t *own = x->memory[spin_rank()];
    uint64_t room = x->bytes[x->count - 1];
    ptl_handle_ni_t ni;
    ptl_pt_index_t index;
    ptl_handle_le_t entry;
    ptl_handle_md_t handle;
    ptl_ct_event_t count;
    ptl_le_t le = {.start = own,
                   .length = room,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .options =
                       PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE | PTL_LE_EVENT_COMM_DISABLE};
    ptl_md_t md = {
        .start = own, .length = room, .options = PTL_MD_EVENT_CT_ACK, .eq_handle = PTL_EQ_NONE};
    GOOD(PtlInit());
    GOOD(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL,
                   &ni));
    GOOD(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &index));
    GOOD(PtlLEAppend(ni, index, &le, PTL_PRIORITY_LIST, NULL, &entry));
    GOOD(PtlCTAlloc(ni, &md.ct_handle));
    GOOD(PtlMDBind(ni, &md, &handle));
    spin_touch(own, room);
    spin_barrier();
    uint64_t sent = 0;
    for (int i = 0; i < x->count && spin_rank() == 0; i++)
        for (int touches = 0; touches < 2; touches++) {
            uint64_t start = spin_now_ps();
            if (touches)
                spin_touch(own, x->bytes[i]);
            GOOD(PtlPut(handle, 0, x->bytes[i], PTL_CT_ACK_REQ, (ptl_process_t){.phys = {.nid = 1}},
                        0, 0, 0, NULL, 0));
            x->us[touches][i] = (double)(spin_now_ps() - start) / 1e6;
            GOOD(PtlCTWait(md.ct_handle, ++sent, &count));
        }
    spin_barrier();
    return 0;
}

/* All ranks of a world of the paper's kind. */
static int run_ranks(const struct experiment_context *context, uint32_t ranks, int (*rank)(void *),
                     void *argument, struct spin_world_result *result, struct spin_error *err) {
    const struct spin_world_options base = {.ranks = ranks, .preset = "part"};
    struct experiment_world w;
    struct spin_world *world;
    int code = experiment_world(context, &base, &w, err);
    if (!code)
        code = spin_world_new(&world, &w.options, err);
    if (code)
        return code;
    code = spin_world_run(world, rank, argument, err);
    *result = spin_world_result(world);
    if (!code && result->failed)
        code = spin_fail(err, SPIN_EFORMAT, "rank %u failed at check %d", result->first_failed,
                         result->first_status);
    spin_world_free(world);
    return code;
}

int part_fig16(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    struct isend x = {.count = context->setup.bytes ? 1 : SENDS};
    for (int i = 0; i < x.count; i++)
        x.bytes[i] = context->setup.bytes ? context->setup.bytes : send_sizes[i];
    uint64_t room = (x.bytes[x.count - 1] + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    struct spin_world_result result;
    for (int i = 0; i < 2; i++)
        x.memory[i] = aligned_alloc(HUGE_PAGE, room);
    int code =
        x.memory[0] && x.memory[1]
            ? run_ranks(context, 2, isend_rank, &x, &result, err)
            : spin_fail(err, SPIN_ENOMEM, "out of memory for %llu bytes", (unsigned long long)room);
    free(x.memory[0]);
    free(x.memory[1]);
    if (code)
        return code;
    struct sheet_panel *p = sheet_panel(s, "isend", "A call that begins to send, and returns");
    p->log_x = p->log_y = true;
    sheet_column(p, "B", 0, "message");
    sheet_column(p, "us", 2, "without pre-touch");
    sheet_column(p, "us", 2, "with pre-touch");
    for (int i = 0; i < x.count; i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = (double)x.bytes[i];
        row->value[1] = x.us[0][i];
        row->value[2] = x.us[1][i];
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    const double *without = x.us[0], *with = x.us[1];
    sheet_shape(s, "D9", without[SENDS - 1] == without[0], "constant without pre-touch");
    double slope = (with[SENDS - 1] - without[SENDS - 1]) / (with[5] - without[5]);
    struct sheet_claim *c =
        sheet_shape(s, "D9", slope > 3.9 && slope < 4.1, "linear with pre-touch");
    sheet_because(c, "%.2f times for four times the bytes", slope);
    sheet_note(s, "The paper goes to 512 MB, where touching present pages takes 13 ms by D4; "
                  "--bytes does so here.");
    return SPIN_OK;
}

/* ---- tables 2 to 4 ---- */

struct app {
    const char *id, *name;
    double sends, bytes_per_send; /* table 5, at 16 processes */
    double seconds;               /* at 16 processes, without faults */
    uint32_t buffers;             /* of a rank, used in turn; ours */
    uint32_t published_interrupts, published_errs;
    double bound_percent; /* published: not slower by more */
};

struct job {
    const struct app *app;
    bool touches;
    uint64_t messages; /* of each rank */
    uint64_t compute_ps, bytes;
    uint8_t **memory; /* of each rank: what it gives, what it takes, and a page of flags */
    struct rounds *rounds;
};

struct app_ends {
    ptl_handle_ni_t ni;
    ptl_handle_md_t takes, tells;
    ptl_handle_ct_t taken, told;
};

static uint64_t slot_bytes(const struct job *j) {
    return (j->bytes + PART_PAGE - 1) / PART_PAGE * PART_PAGE;
}

static int open_app(const struct job *j, uint8_t *own, struct app_ends *e) {
    uint64_t half = slot_bytes(j) * j->app->buffers;
    ptl_pt_index_t index;
    ptl_handle_le_t entry;
    ptl_le_t gives = {.start = own,
                      .length = half,
                      .ct_handle = PTL_CT_NONE,
                      .uid = PTL_UID_ANY,
                      .options =
                          PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE | PTL_LE_EVENT_COMM_DISABLE};
    ptl_le_t flags = {.start = own + 2 * half,
                      .length = PART_PAGE,
                      .uid = PTL_UID_ANY,
                      .options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE | PTL_LE_EVENT_CT_COMM};
    ptl_md_t takes = {.start = own + half,
                      .length = half,
                      .options = PTL_MD_EVENT_CT_REPLY,
                      .eq_handle = PTL_EQ_NONE};
    ptl_md_t tells = {.start = own + 2 * half,
                      .length = PART_PAGE,
                      .eq_handle = PTL_EQ_NONE,
                      .ct_handle = PTL_CT_NONE};
    GOOD(PtlInit());
    GOOD(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL,
                   &e->ni));
    GOOD(PtlCTAlloc(e->ni, &e->taken));
    GOOD(PtlCTAlloc(e->ni, &e->told));
    GOOD(PtlPTAlloc(e->ni, 0, PTL_EQ_NONE, 0, &index));
    GOOD(PtlLEAppend(e->ni, index, &gives, PTL_PRIORITY_LIST, NULL, &entry));
    GOOD(PtlPTAlloc(e->ni, 0, PTL_EQ_NONE, 1, &index));
    flags.ct_handle = e->told;
    takes.ct_handle = e->taken;
    GOOD(PtlLEAppend(e->ni, index, &flags, PTL_PRIORITY_LIST, NULL, &entry));
    GOOD(PtlMDBind(e->ni, &takes, &e->takes));
    GOOD(PtlMDBind(e->ni, &tells, &e->tells));
    return 0;
}

enum { STEPS = 6 };

/* The neighbour of a message: distances as in a torus of 4 x 4. */
static uint32_t distance(uint64_t message, uint32_t ranks) {
    static const uint32_t steps[STEPS] = {1, 15, 4, 12, 5, 11};
    uint32_t step = steps[message % STEPS] % ranks;
    return step ? step : 1;
}

/* After so many messages they go to the same neighbours from the same buffers. */
static uint32_t cycle_of(const struct app *app) {
    uint32_t cycle = STEPS;
    while (cycle % app->buffers)
        cycle += STEPS;
    return cycle;
}

static void note(struct rounds_mark *mark, uint64_t begin_ps) {
    mark->now_ps = spin_now_ps();
    mark->trace = rounds_trace(mark->trace, mark->now_ps - begin_ps);
}

static int app_message(const struct job *j, const struct app_ends *e, uint64_t i,
                       struct rounds_mark *mark) {
    uint32_t rank = spin_rank(), ranks = spin_ranks();
    uint32_t step = distance(i, ranks);
    uint64_t slot = slot_bytes(j), half = slot * j->app->buffers, place = i % j->app->buffers;
    uint64_t begin_ps = spin_now_ps();
    ptl_process_t to = {.phys = {.nid = (rank + step) % ranks}};
    ptl_process_t from = {.phys = {.nid = (rank + ranks - step) % ranks}};
    ptl_ct_event_t count;
    *mark = (struct rounds_mark){.calm_ps = j->compute_ps};
    spin_compute_ps(j->compute_ps);
    GOOD(PtlPut(e->tells, 0, 8, PTL_NO_ACK_REQ, to, 1, 0, 8 * (i % 512), NULL, 0));
    note(mark, begin_ps);
    GOOD(PtlCTWait(e->told, i + 1, &count));
    note(mark, begin_ps);
    if (j->touches)
        spin_touch(j->memory[rank] + half + place * slot, j->bytes);
    GOOD(PtlGet(e->takes, place * slot, j->bytes, from, 0, 0, place * slot, NULL));
    note(mark, begin_ps);
    GOOD(PtlCTWait(e->taken, i + 1, &count));
    note(mark, begin_ps);
    return count.failure ? __LINE__ : 0;
}

static int app_rank(void *argument) {
    struct job *j = argument;
    uint32_t rank = spin_rank();
    uint64_t half = slot_bytes(j) * j->app->buffers;
    uint8_t *own = j->memory[rank];
    struct app_ends e;
    struct rounds_mark mark;
    int failed = open_app(j, own, &e);
    if (failed)
        return failed;
    spin_touch(own, half); /* what it gives it has computed */
    spin_touch(own + 2 * half, PART_PAGE);
    spin_barrier();
    for (uint64_t i = 0; rounds_next(j->rounds, rank, spin_now_ps()); i++) {
        failed = app_message(j, &e, i, &mark);
        if (failed)
            return failed;
        rounds_end(j->rounds, rank, &mark);
    }
    spin_barrier();
    return 0;
}

/* The longest of the ranks, for so many messages. */
static double longest(const struct job *j, uint32_t ranks, uint64_t messages) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        uint64_t ps = rounds_total_of(j->rounds, i, messages).time_ps;
        most = ps > most ? ps : most;
    }
    return (double)most / 1e6;
}

struct app_times {
    double first_us, all_us; /* the first use of all buffers, all messages */
    double later_us;         /* per message, when all buffers were used */
    struct rounds_result rounds;
    struct spin_world_counts counts; /* of what was simulated */
};

static int take_times(const struct job *j, uint32_t ranks, struct app_times *t,
                      struct spin_error *err) {
    int code = rounds_result(j->rounds, &t->rounds, err);
    uint64_t first = j->app->buffers, all = t->rounds.simulated + t->rounds.repeated;
    if (code)
        return code;
    if (all < j->messages)
        return spin_fail(err, SPIN_ELIMIT,
                         "%s: messages are not as before after %llu of them; try fewer ranks",
                         j->app->name, (unsigned long long)all);
    t->first_us = longest(j, ranks, first);
    t->all_us = longest(j, ranks, all);
    t->later_us = (t->all_us - t->first_us) / (double)(all - first);
    return SPIN_OK;
}

enum { SEARCH = 600 /* messages, for a period */ };

static int run_job(const struct experiment_context *context, struct job *j, uint32_t ranks,
                   struct app_times *times, struct spin_error *err) {
    uint64_t room = 2 * slot_bytes(j) * j->app->buffers + PART_PAGE;
    const struct rounds_plan plan = {
        .ranks = ranks, .wanted = j->messages, .search = SEARCH, .cycle = cycle_of(j->app)};
    struct spin_world_result result = {0};
    room = (room + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    j->memory = calloc(ranks, sizeof *j->memory);
    j->rounds = rounds_new(&plan);
    bool made = j->memory && j->rounds;
    for (uint32_t i = 0; i < ranks && made; i++)
        made = (j->memory[i] = aligned_alloc(HUGE_PAGE, room)) != NULL;
    int code = made ? run_ranks(context, ranks, app_rank, j, &result, err)
                    : spin_fail(err, SPIN_ENOMEM, "out of memory for %u ranks", ranks);
    if (!code)
        code = take_times(j, ranks, times, err);
    times->counts = result.counts;
    for (uint32_t i = 0; j->memory && i < ranks; i++)
        free(j->memory[i]);
    free(j->memory);
    rounds_free(j->rounds);
    return code;
}

static struct sheet_panel *new_table(struct sheet *s, const struct app *app) {
    struct sheet_panel *p = sheet_panel(s, "processes", app->name);
    sheet_column(p, "", 0, "processes");
    sheet_column(p, "ms", 3, "pre-touch, first use");
    sheet_column(p, "ms", 3, "faults, first use");
    sheet_column(p, "us", 3, "a message later, pre-touch");
    sheet_column(p, "us", 3, "a message later, faults");
    sheet_column(p, "%", 4, "slower, first use");
    sheet_column(p, "%", 4, "slower, all messages");
    sheet_column(p, "", 0, "interrupts");
    sheet_column(p, "", 0, "ERRs");
    sheet_column(p, "", 0, "messages, simulated");
    sheet_column(p, "", 0, "repeated");
    sheet_column(p, "", 0, "period");
    return p;
}

/* With and without pre-touch: until messages are as those before them, and the rest by
 * repetition. */
static int table(const struct experiment_context *context, const struct app *app, struct sheet *s,
                 struct spin_error *err) {
    static const uint32_t usual[] = {2, 4, 8, 16};
    struct sheet_panel *p = new_table(s, app);
    double slowdown = 0;
    struct job job = {.app = app,
                      .messages = (uint64_t)app->sends / 16,
                      .bytes = context->setup.bytes ? context->setup.bytes
                                                    : (uint64_t)app->bytes_per_send};
    job.compute_ps = (uint64_t)(app->seconds / (double)job.messages * 1e12);
    for (int i = 0; i < (context->setup.ranks ? 1 : 4); i++) {
        uint32_t ranks = context->setup.ranks ? context->setup.ranks : usual[i];
        struct app_times t[2];
        for (int touches = 0; touches < 2; touches++) {
            job.touches = touches;
            int code = run_job(context, &job, ranks, &t[touches], err);
            if (code)
                return code;
        }
        slowdown = 100 * (t[0].all_us / t[1].all_us - 1);
        struct sheet_row *row = sheet_row(s, p, NULL);
        const double values[] = {ranks,
                                 t[1].first_us / 1000,
                                 t[0].first_us / 1000,
                                 t[1].later_us,
                                 t[0].later_us,
                                 100 * (t[0].first_us / t[1].first_us - 1),
                                 slowdown,
                                 (double)t[0].counts.fault_interrupts,
                                 (double)t[0].counts.errs,
                                 (double)(t[0].rounds.simulated * ranks),
                                 (double)(t[0].rounds.repeated * ranks),
                                 (double)t[0].rounds.period};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            row->value[k] = values[k];
    }
    sheet_note(s,
               "Each rank: %u buffers of %llu B in turn, %.0f us of computation per message, %llu "
               "messages in all (table 5 over 16). Messages are simulated until the world repeats "
               "itself, and those that repeat are exact; all faults are among the first.",
               app->buffers, (unsigned long long)job.bytes, (double)job.compute_ps / 1e6,
               (unsigned long long)job.messages);
    sheet_note(s,
               "The paper counts %u interrupts and %u ERRs at 16 processes: its applications have "
               "other buffers than our proxies, of which it says only that they are used again.",
               app->published_interrupts, app->published_errs);
    if (experiment_one_row(context))
        return SPIN_OK;
    if (app->bound_percent > 0)
        sheet_bound(s, "D10", "%", slowdown, app->bound_percent, true,
                    "16 processes: slower with faults, at most");
    else
        sheet_shape(s, "D10", slowdown < 0.05, "16 processes: not slower with faults");
    return SPIN_OK;
}

int part_table2(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const struct app lammps = {
        "table2", "LAMMPS: faults and pre-touch", 2107644, 15.1 * 1024, 98.88, 6, 1489, 239, 1.1};
    return table(context, &lammps, s, err);
}

int part_table3(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const struct app hpl = {
        "table3", "HPL: faults and pre-touch", 176404, 42.9 * 1024, 79.06, 4, 1497, 220, 2.9};
    return table(context, &hpl, s, err);
}

int part_table4(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const struct app hpcg = {
        "table4", "HPCG: faults and pre-touch", 267408, 23.1 * 1024, 361.74, 6, 318, 48, 0};
    return table(context, &hpcg, s, err);
}
