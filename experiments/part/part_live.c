/* Windows over memory that is not pinned, on live cards of this machine: what another flow through
 * the same card notices, what the first use of memory costs beside locking it, and how much memory
 * a large window takes. With the pager (OPENSPIN_PAGING=on) and without. */
#include "figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/machine.h"
#include "live_ranks.h"
#include "page_live.h"

#define KIB 1024ull
#define MIB 1048576ull

enum { RANKS = 3, PROBES = 2000, WINDOW_MIB = 1024, LARGE_MIB = 4, WAYS = 2 };
static const char *const ways[WAYS] = {"off", "on"};
static const uint32_t flows[] = {PAGE_LIVE_NOBODY, PAGE_LIVE_WARM, PAGE_LIVE_FRESH, PAGE_LIVE_FILE,
                                 PAGE_LIVE_SWAP};
static const uint64_t sizes[] = {4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB,
                                 1 * MIB, 4 * MIB,  16 * MIB, 64 * MIB};
/* Of a first use; touching and locking are the same with and without a pager. */
static const uint32_t uses[] = {PAGE_LIVE_WARM, PAGE_LIVE_FRESH, PAGE_LIVE_TOUCH, PAGE_LIVE_LOCK};
static const uint32_t windows[] = {PAGE_LIVE_FRESH, PAGE_LIVE_LOCK};
enum {
    FLOWS = sizeof flows / sizeof *flows,
    SIZES = sizeof sizes / sizeof *sizes,
    USES = sizeof uses / sizeof *uses,
    WINDOWS = sizeof windows / sizeof *windows
};

struct unpinned {
    const struct experiment_context *context;
    struct page_live_plan *plan;
    int fd;
    uint32_t probes, window_mib;
    struct page_live_row flow[WAYS][FLOWS], use[WAYS][SIZES][USES], window[WAYS][WINDOWS];
};

/* Some rows, without the pager and with it, one after the other: what else the machine does is
 * likely the same for both. */
static int run_rows(struct unpinned *u, uint32_t count, struct page_live_row *off,
                    struct page_live_row *on, struct spin_error *err) {
    int code = SPIN_OK;
    for (int way = 0; way < WAYS && !code; way++) {
        struct page_live_row *rows = way ? on : off;
        memset(u->plan, 0, sizeof *u->plan);
        snprintf(u->plan->paging, sizeof u->plan->paging, "%s", ways[way]);
        for (uint32_t i = 0; i < count; i++)
            if (!way || (rows[i].memory != PAGE_LIVE_TOUCH && rows[i].memory != PAGE_LIVE_LOCK))
                u->plan->row[u->plan->rows++] = rows[i];
        code = live_ranks(u->context, "page-live", u->fd, RANKS, err);
        memcpy(rows, u->plan->row, u->plan->rows * sizeof *rows);
    }
    return code;
}

static int run_delays(struct unpinned *u, struct spin_error *err) {
    int code = SPIN_OK;
    for (int i = 0; i < FLOWS && !code; i++) {
        u->flow[0][i] = u->flow[1][i] = (struct page_live_row){.what = PAGE_LIVE_DELAY,
                                                               .memory = flows[i],
                                                               .bytes = LARGE_MIB * MIB,
                                                               .times = u->probes};
        code = run_rows(u, 1, &u->flow[0][i], &u->flow[1][i], err);
    }
    return code;
}

static int run_uses(struct unpinned *u, struct spin_error *err) {
    int code = SPIN_OK;
    for (int i = 0; i < experiment_sizes(u->context, SIZES) && !code; i++) {
        uint32_t bytes = experiment_size(u->context, (uint32_t)sizes[i]);
        uint32_t most = bytes <= MIB ? 40 : 8;
        for (int k = 0; k < USES; k++)
            u->use[0][i][k] = u->use[1][i][k] =
                (struct page_live_row){.what = PAGE_LIVE_FIRST,
                                       .memory = uses[k],
                                       .bytes = bytes,
                                       .times = u->probes < most ? u->probes : most};
        code = run_rows(u, USES, u->use[0][i], u->use[1][i], err);
    }
    return code;
}

static int run_windows(struct unpinned *u, struct spin_error *err) {
    for (int i = 0; i < WINDOWS; i++)
        u->window[0][i] = u->window[1][i] = (struct page_live_row){.what = PAGE_LIVE_WINDOW,
                                                                   .memory = windows[i],
                                                                   .bytes = u->window_mib * MIB,
                                                                   .times = 1};
    return run_rows(u, WINDOWS, u->window[0], u->window[1], err);
}

static double measured(const struct page_live_row *row, double value) {
    return row->measured ? value : NAN;
}

static void show_delay(struct sheet *s, const struct unpinned *r) {
    static const char *const names[] = {"nothing else", "warm memory", "untouched", "file on disk",
                                        "swapped out"};
    struct sheet_panel *p =
        sheet_panel(s, "delay", "A put of 8 B beside puts of 4 MiB into the same card");
    p->by_name = true;
    p->log_y = true;
    sheet_column(p, "", 0, "they go to");
    for (int way = 0; way < WAYS; way++) {
        sheet_column(p, "us", 1, "%s: median", ways[way]);
        sheet_column(p, "us", 1, "%s: p99", ways[way]);
        sheet_column(p, "us", 1, "%s: max", ways[way]);
    }
    sheet_column(p, "", 2, "p99: off / on");
    for (int i = 0; i < FLOWS; i++) {
        struct sheet_row *row = sheet_row(s, p, names[i]);
        for (int way = 0; way < WAYS; way++) {
            const struct page_live_row *of = &r->flow[way][i];
            row->value[1 + 3 * way] = measured(of, of->median_us);
            row->value[2 + 3 * way] = measured(of, of->p99_us);
            row->value[3 + 3 * way] = measured(of, of->max_us);
        }
        row->value[7] = row->value[2] / row->value[5];
    }
}

static void show_first(struct sheet *s, const struct unpinned *r) {
    struct sheet_panel *p = sheet_panel(
        s, "first", "A put into memory, from its registration until it can be given up");
    p->log_x = p->log_y = true;
    sheet_column(p, "B", 0, "put");
    sheet_column(p, "us", 1, "off: warm");
    sheet_column(p, "us", 1, "on: warm");
    sheet_column(p, "us", 1, "off: untouched");
    sheet_column(p, "us", 1, "on: untouched");
    sheet_column(p, "us", 1, "touched");
    sheet_column(p, "us", 1, "mlock");
    sheet_column(p, "", 2, "mlock / on");
    for (int i = 0; i < experiment_sizes(r->context, SIZES); i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        const struct page_live_row *off = r->use[0][i], *on = r->use[1][i];
        const struct page_live_row *of[] = {&off[0], &on[0], &off[1], &on[1], &off[2], &off[3]};
        row->value[0] = (double)off[0].bytes;
        for (int c = 0; c < 6; c++)
            row->value[1 + c] = measured(of[c], of[c]->median_us);
        row->value[7] = row->value[6] / row->value[4];
    }
}

static void show_window(struct sheet *s, const struct unpinned *r) {
    char title[80];
    snprintf(title, sizeof title, "A window of %u MiB, into which 256 puts of 4 KiB go",
             r->window_mib);
    struct sheet_panel *p = sheet_panel(s, "window", title);
    p->by_name = true;
    sheet_column(p, "", 0, "its memory");
    sheet_column(p, "MiB", 1, "in memory");
    sheet_column(p, "ms", 2, "registered in");
    sheet_column(p, "ms", 2, "put in");
    static const struct {
        const char *name;
        int way, window;
    } rows[] = {{"untouched, off", 0, 0}, {"untouched, on", 1, 0}, {"mlock", 0, 1}};
    for (int i = 0; i < 3; i++) {
        const struct page_live_row *of = &r->window[rows[i].way][rows[i].window];
        struct sheet_row *row = sheet_row(s, p, rows[i].name);
        row->value[1] = measured(of, (double)of->resident / (double)MIB);
        row->value[2] = measured(of, of->prepare_us / 1e3);
        row->value[3] = measured(of, of->max_us / 1e3);
    }
}

static void note_all(struct sheet *s, const struct unpinned *r) {
    char machine[200];
    machine_name(machine, sizeof machine);
    sheet_note(s, "Off: the card copies, and waits in its faults (OPENSPIN_PAGING=off); on: the "
                  "pager brings pages in.");
    sheet_note(s, "Three processes share the processors; each delay is of a put that is "
                  "acknowledged, one every some 0.1 ms while the other flow writes.");
    for (int i = 0; i < FLOWS; i++)
        if (!r->flow[0][i].measured && flows[i] == PAGE_LIVE_SWAP)
            sheet_note(s, "Swapped out: this machine has no swap.");
        else if (!r->flow[0][i].measured && flows[i] == PAGE_LIVE_FILE)
            sheet_note(s, "File on disk: none could be made in TMPDIR (/var/tmp), or it stays in "
                          "memory there.");
    if (!r->window[0][1].measured)
        sheet_note(s, "mlock: this user may not lock so much (ulimit -l).");
    sheet_note(s, "Machine: %s.", machine);
}

int part_unpinned_live(const struct experiment_context *context, struct sheet *s,
                       struct spin_error *err) {
    uint64_t probes = context->setup.exchanges ? context->setup.exchanges : PROBES;
    struct unpinned u = {.context = context,
                         .probes = (uint32_t)probes,
                         .window_mib = probes < WINDOW_MIB ? (uint32_t)probes : WINDOW_MIB};
    if (context->setup.bytes > 64 * MIB)
        return spin_fail(err, SPIN_EARG, "--bytes: live, up to 64 MiB");
    u.plan = live_memory_new(context, sizeof *u.plan, &u.fd, err);
    if (!u.plan)
        return err->code;
    int code = run_delays(&u, err);
    if (!code)
        code = run_uses(&u, err);
    if (!code)
        code = run_windows(&u, err);
    live_memory_free(u.plan, sizeof *u.plan, u.fd);
    if (code)
        return code;
    show_delay(s, &u);
    show_first(s, &u);
    show_window(s, &u);
    note_all(s, &u);
    return SPIN_OK;
}
