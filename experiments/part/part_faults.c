/* Figures 9 to 13 of the page-fault paper: one transfer whose pages are there, touched or pinned
 * before it, or brought in when the card misses them. */
#include "figures.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "part/part_world.h"

#define KIB 1024u
#define MIB 1048576u

static const uint64_t sizes[] = {256,      1024,      4 * KIB, 16 * KIB,
                                 64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB};
enum { SIZES = sizeof sizes / sizeof sizes[0], AT_4K = 2, AT_64K = 4, AT_256K, AT_1M, AT_4M };

/* A curve: how the buffers are, and what is set. */
struct curve {
    const char *name;
    enum part_pages target;
    const char *set[PART_SETTINGS];
};

static int measure_from(const struct experiment_context *context, const struct curve *curve,
                        enum part_pages source, uint64_t bytes, struct part_outcome *out,
                        struct spin_error *err) {
    struct part_setup setup = {.bytes = bytes, .target = curve->target, .source = source};
    for (int i = 0; i < PART_SETTINGS; i++)
        setup.set[i] = curve->set[i];
    return part_transfer(context, &setup, out, err);
}

static int measure(const struct experiment_context *context, const struct curve *curve,
                   uint64_t bytes, struct part_outcome *out, struct spin_error *err) {
    return measure_from(context, curve, PART_THERE, bytes, out, err);
}

/* A panel of latencies (sources NULL: their pages are there): a row per size from `first` to
 * `last`, or the one that is asked for. */
static int tabulate(const struct experiment_context *context, struct sheet *s,
                    struct sheet_panel *p, const struct curve *curves,
                    const enum part_pages *sources, int count, int first, int last,
                    double us[][SIZES], struct spin_error *err) {
    p->log_x = p->log_y = true;
    sheet_column(p, "B", 0, "transfer");
    for (int k = 0; k < count; k++)
        sheet_column(p, "us", 2, "%s", curves[k].name);
    for (int i = first; i <= (context->setup.bytes ? first : last); i++) {
        uint64_t bytes = context->setup.bytes ? context->setup.bytes : sizes[i];
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = (double)bytes;
        for (int k = 0; k < count; k++) {
            struct part_outcome out;
            int code = measure_from(context, &curves[k], sources ? sources[k] : PART_THERE, bytes,
                                    &out, err);
            if (code)
                return code;
            row->value[1 + k] = us[k][i] = out.us;
        }
    }
    return SPIN_OK;
}

/* ---- figure 9 ---- */

int part_fig9(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    enum { ONLY, TOUCH_THERE, TOUCH, PIN_THERE, PIN, CURVES };
    static const struct curve curves[CURVES] = {
        [ONLY] = {"transfer only", PART_THERE, {0}},
        [TOUCH_THERE] = {"touch, present", PART_TOUCH_PRESENT, {0}},
        [TOUCH] = {"touch, absent", PART_TOUCH_ABSENT, {0}},
        [PIN_THERE] = {"pin, present", PART_PIN_PRESENT, {0}},
        [PIN] = {"pin, absent", PART_PIN_ABSENT, {0}},
    };
    double us[CURVES][SIZES];
    struct sheet_panel *p = sheet_panel(s, "latency", "A write whose pages are all there");
    int code = tabulate(context, s, p, curves, NULL, CURVES, 0, AT_4M, us, err);
    if (code || experiment_one_row(context))
        return code;
    struct sheet_claim *c =
        sheet_claim(s, "D1", "us", us[ONLY][0], 4, "base latency of a small write");
    sheet_because(c, "the sum of inputs: 3 us of the card's processor, a hop, a packet, memory");
    sheet_calibrated(
        sheet_claim(s, "D4", "us", us[PIN][1] - us[ONLY][1], 6, "pinning an absent page before it"),
        "an input");
    sheet_calibrated(
        sheet_claim(s, "D4", "us", us[PIN_THERE][1] - us[ONLY][1], 13, "pinning a present page"),
        "an input");
    sheet_calibrated(
        sheet_claim(s, "D4", "us", us[TOUCH][1] - us[ONLY][1], 3, "touching an absent page"),
        "an input");
    c = sheet_claim(s, "D4", "us", us[TOUCH_THERE][AT_1M] - us[ONLY][AT_1M], 20,
                    "touching 256 present pages");
    sheet_because(c, "100 ns for each, as for one; the paper's own 20 us are 78 ns for each");
    c = sheet_claim(s, "D4", "us", us[TOUCH_THERE][AT_4M] - us[ONLY][AT_4M], 152,
                    "touching 1,024 present pages");
    sheet_because(c, "the paper's 152 us are 148 ns for each: more than its caches hold; our pages "
                     "cost the same at every size");
    sheet_shape(s, "D4", us[PIN][AT_4M] / us[TOUCH][AT_4M] < 1.05,
                "pinning and touching absent pages cost the same for large transfers");
    sheet_shape(s, "D4", us[PIN_THERE][AT_4M] / us[ONLY][AT_4M] > 1.7,
                "pinning present pages nearly doubles the latency");
    return SPIN_OK;
}

/* ---- figure 10: the parts of one fault, and a picture of it ---- */

#define NS "ns"
static const struct {
    const char *name, *set;
    double published;
} parts[] = {
    {"interrupt", "paging.interrupt=0" NS, 1},
    {"get_user_pages", "paging.gup_call=0" NS, 6},
    {"its page", "paging.gup_page=0" NS, 2},
    {"netlink", "paging.netlink=0" NS, 7},
    {"rest of the tasklet", "paging.tasklet=0" NS, 4},
    {"ERR", "paging.err_call=0" NS, 1},
    {"context switches", "paging.context_switch=0" NS, 7},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static int draw(const struct experiment_context *context, const char *name, uint64_t bytes,
                const char *const *set, struct part_outcome *out, struct spin_error *err) {
    char trace[PATH_MAX], picture[PATH_MAX];
    struct part_setup setup = {.bytes = bytes, .target = PART_ABSENT};
    for (int i = 0; i < PART_SETTINGS && set[i]; i++)
        setup.set[i] = set[i];
    if (context->out) {
        if ((size_t)snprintf(trace, sizeof trace, "%s/part-%s.json", context->out, name) >=
            sizeof trace)
            return spin_fail(err, SPIN_EARG, "%s: name is too long", context->out);
        snprintf(picture, sizeof picture, "%s/part-%s.svg", context->out, name);
        setup.trace = trace;
        setup.picture = picture;
    }
    return part_transfer(context, &setup, out, err);
}

int part_fig10(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const struct curve only = {"", PART_THERE, {0}};
    static const char *const one[] = {"paging.policy=one", NULL};
    static const char *const overlap[] = {"paging.timeout=100us", NULL};
    static const char *const serial[] = {"paging.fault_ends_timeout=1", NULL};
    static const char *const block[] = {"paging.err=block", "paging.fault_ends_timeout=1", NULL};
    struct part_outcome plain, whole, large, without;
    uint64_t bytes = context->setup.bytes ? context->setup.bytes : 4 * KIB;
    struct sheet_panel *p = sheet_panel(s, "parts", "One fault at the destination, by its parts");
    int code = measure(context, &only, bytes, &plain, err);
    if (!code)
        code = draw(context, "fault", bytes, one, &whole, err);
    p->by_name = true;
    sheet_column(p, "", 0, "part");
    sheet_column(p, "us", 2, "time");
    double sum = 0;
    for (int i = 0; i < PARTS && !code; i++) {
        const struct curve curve = {"", PART_ABSENT, {"paging.policy=one", parts[i].set}};
        code = measure(context, &curve, bytes, &without, err);
        if (code)
            break;
        sheet_row(s, p, parts[i].name)->value[1] = whole.us - without.us;
        sum += whole.us - without.us;
    }
    /* figures 4 and 8: a large transfer, one after the other and overlapped */
    if (!code)
        code = draw(context, "serial", 64 * KIB, serial, &large, err);
    if (!code)
        code = draw(context, "overlap", 256 * KIB, overlap, &large, err);
    if (!code)
        code = draw(context, "by-block", 64 * KIB, block, &large, err);
    if (code)
        return code;
    sheet_row(s, p, "both transmissions, page walk")->value[1] = whole.us - sum;
    sheet_row(s, p, "all")->value[1] = whole.us;
    sheet_row(s, p, "without a fault")->value[1] = plain.us;
    sheet_note(s, context->out ? "Pictures are in the folder: part-fault.svg (figures 3, 8, 10), "
                                 "part-serial.svg, part-overlap.svg (4) and part-by-block.svg, and "
                                 ".json for Perfetto."
                               : "--out DIR writes pictures of the run (figures 3, 4, 8, 10): "
                                 "part-fault.svg, part-serial.svg, part-overlap.svg, "
                                 "part-by-block.svg, and .json for Perfetto.");
    sheet_note(s, "A part's time is what the transfer gains without it.");
    if (experiment_one_row(context))
        return SPIN_OK;
    struct sheet_claim *c = sheet_claim(s, "D3", "us", whole.us - 7, 31, "all parts");
    sheet_because(c, "interrupt 1, tasklet 20 (get_user_pages by its formula is 9, not the 8 that "
                     "were measured), ERR 1 are inputs; the card sends, misses and sends again");
    c = sheet_claim(s, "D3", "us", whole.us - sum - 4, 6, "sending the page again");
    sheet_because(c, "what the first 4 us leave of both transmissions");
    return SPIN_OK;
}

/* ---- figure 11 ---- */

int part_fig11(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    enum { ONLY, ERR, OUT_100, OUT_1000, CURVES };
    static const struct curve curves[CURVES] = {
        [ONLY] = {"no fault", PART_THERE, {0}},
        [ERR] = {"ERR (fast re-xmit)", PART_ABSENT, {"paging.policy=one"}},
        [OUT_100] = {"timeout 100 us",
                     PART_ABSENT,
                     {"paging.policy=one", "paging.err=none", "paging.timeout=100us"}},
        [OUT_1000] = {"timeout 1 ms",
                      PART_ABSENT,
                      {"paging.policy=one", "paging.err=none", "paging.timeout=1ms"}},
    };
    double us[CURVES][SIZES];
    struct sheet_panel *p =
        sheet_panel(s, "latency", "A write with one fault at the destination, by what repeats it");
    int code = tabulate(context, s, p, curves, NULL, CURVES, 0, AT_4K, us, err);
    if (code || experiment_one_row(context))
        return code;
    struct sheet_claim *c = sheet_claim(s, "D5", "us", us[ERR][AT_4K], 38, "4 KiB with ERR");
    sheet_calibrated(c, "the context switches are an input: 38 us less 31 us of parts");
    c = sheet_claim(s, "D5", "us", us[ERR][AT_4K] - 7, 31, "4 KiB with ERR, without them");
    sheet_because(c, "the sum of the measured parts");
    sheet_claim(s, "D5", "us", us[OUT_100][AT_4K], 100, "4 KiB with a timeout of 100 us");
    sheet_claim(s, "D5", "us", us[OUT_1000][AT_4K], 1000, "4 KiB with a timeout of 1 ms");
    sheet_shape(s, "D5", us[ERR][AT_4K] / us[ERR][0] < 1.25,
                "the latency is similar for all sizes up to a page");
    return SPIN_OK;
}

/* ---- figures 12 and 13 ---- */

enum { ONLY, TOUCH, PIN, PIO, PI4, PIA, SERIAL, EARLY, BY_BLOCK, CURVES };
static const struct curve all_fault[CURVES] = {
    [ONLY] = {"transfer only", PART_THERE, {0}},
    [TOUCH] = {"touch", PART_TOUCH_ABSENT, {0}},
    [PIN] = {"pin", PART_PIN_ABSENT, {0}},
    [PIO] = {"PIO", PART_ABSENT, {"paging.policy=one"}},
    [PI4] = {"PI4", PART_ABSENT, {"paging.policy=block"}},
    [PIA] = {"PIA", PART_ABSENT, {"paging.policy=all"}},
    [SERIAL] = {"PIA, no timeout", PART_ABSENT, {"paging.fault_ends_timeout=1"}},
    [EARLY] = {"ERR early", PART_ABSENT, {"paging.err=early"}},
    [BY_BLOCK] = {"ERR by block", PART_ABSENT, {"paging.err=block"}},
};

int part_fig12(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    static const struct curve places[] = {
        {"destination", PART_ABSENT, {0}},
        {"source", PART_THERE, {0}},
        {"both", PART_ABSENT, {0}},
        {"destination, by block", PART_ABSENT, {"paging.err=block"}},
        {"source, by block", PART_THERE, {"paging.err=block"}},
        {"both, by block", PART_ABSENT, {"paging.err=block"}},
    };
    static const enum part_pages sources[] = {PART_THERE, PART_ABSENT, PART_ABSENT,
                                              PART_THERE, PART_ABSENT, PART_ABSENT};
    enum { PLACES = sizeof places / sizeof places[0] };
    double us[CURVES][SIZES], where[PLACES][SIZES];
    struct sheet_panel *p =
        sheet_panel(s, "latency", "A write all of whose pages at the destination are absent");
    int code = tabulate(context, s, p, all_fault, NULL, CURVES, AT_4K, AT_4M, us, err);
    p = sheet_panel(s, "where", "PIA: where the pages are absent (no figure in the paper)");
    if (!code)
        code = tabulate(context, s, p, places, sources, PLACES, AT_4K, AT_1M, where, err);
    if (code || experiment_one_row(context))
        return code;
    static const struct curve on_board[] = {
        {"", PART_ABSENT, {"paging.fault_ends_timeout=1", "link_rate=17Gbit/s"}},
        {"", PART_ABSENT, {"link_rate=17Gbit/s"}}};
    double fast[2];
    for (int i = 0; i < 2 && !code; i++) {
        struct part_outcome out;
        code = measure(context, &on_board[i], sizes[AT_4M], &out, err);
        fast[i] = out.us;
    }
    if (code)
        return code;
    struct sheet_claim *c = sheet_claim(s, "D6", "", us[PIA][AT_1M] / us[ONLY][AT_1M], 2.6,
                                        "1 MiB: PIA over transfer only");
    sheet_because(c, "256 x 3 us of pages, 38 us of the first and 842 us of transfer are this; the "
                     "paper says that interrupts slow its tasklet down, and not by how much");
    sheet_claim(s, "D6", "", us[TOUCH][AT_1M] / us[ONLY][AT_1M], 2.0,
                "1 MiB: touch over transfer only");
    c = sheet_claim(s, "D6", "", us[PIA][AT_1M] / us[TOUCH][AT_1M], 1.2, "1 MiB: PIA over touch");
    sheet_because(c, "likewise");
    c = sheet_claim(s, "D6", "", us[PIA][AT_64K] / us[TOUCH][AT_64K], 3.5,
                    "64 KiB: PIA over touch");
    sheet_because(c,
                  "the published parts of 16 pages (38 us, 15 x 3 us, 52 us of transfer) are far "
                  "from 3.5 times the 104 us of touch");
    sheet_claim(s, "D6", "", us[TOUCH][AT_4M] / us[PIA][AT_4M], 1.46, "4 MiB: touch over PIA");
    c = sheet_claim(s, "D6", "ms", us[PIA][AT_4M] / 1000, 3.6, "4 MiB: PIA");
    sheet_because(c,
                  "3.6 ms at 1.5 times the transfer (D7) mean 2.4 ms or 14 Gbit/s: faster than "
                  "the 10 Gbit/s of D1; links inside a board have 17, and with these we have %.1f",
                  fast[1] / 1000);
    c = sheet_claim(s, "D6", "ms", us[SERIAL][AT_4M] / 1000, 5.7,
                    "4 MiB: PIA by its parts, one after the other");
    sheet_because(c, "with 17 Gbit/s %.1f", fast[0] / 1000);
    sheet_shape(s, "D6", us[PI4][AT_1M] < 1.05 * us[PIO][AT_1M],
                "PI4 is as good as PIO, or better");
    sheet_shape(s, "D6", us[PIA][AT_1M] < us[PI4][AT_1M], "PIA beats both for large transfers");
    sheet_note(s,
               "ERR by block is ours: the sender hears of its blocks when their pages are there, "
               "while the rest is brought in.");
    sheet_note(
        s,
        "Over the published order (PIA) it is %.2f times as fast at 64 KiB, %.2f at 256 KiB, "
        "%.2f at 1 MiB and %.2f at 4 MiB, which is %.1f %% above a transfer without faults.",
        us[PIA][AT_64K] / us[BY_BLOCK][AT_64K], us[PIA][AT_256K] / us[BY_BLOCK][AT_256K],
        us[PIA][AT_1M] / us[BY_BLOCK][AT_1M], us[PIA][AT_4M] / us[BY_BLOCK][AT_4M],
        100 * (us[BY_BLOCK][AT_4M] / us[ONLY][AT_4M] - 1));
    sheet_note(s,
               "ERR early asks for a block at once, and as by block where it comes too soon. It is "
               "the best where the first blocks are most of the transfer.");
    return SPIN_OK;
}

int part_fig13(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    enum { GUP, TOTAL, OVERLAPPED, PLAIN, RUNS };
    static const struct curve runs[RUNS] = {
        [GUP] = {"without get_user_pages' pages",
                 PART_ABSENT,
                 {"paging.fault_ends_timeout=1", "paging.gup_page=0ns"}},
        [TOTAL] = {"one after the other", PART_ABSENT, {"paging.fault_ends_timeout=1"}},
        [OVERLAPPED] = {"with timeouts of 1 ms", PART_ABSENT, {0}},
        [PLAIN] = {"transfer only", PART_THERE, {0}},
    };
    double us[RUNS][SIZES], share = 0;
    struct sheet_panel *p = sheet_panel(s, "parts", "Where the time of a write with faults goes");
    p->log_x = p->log_y = true;
    sheet_column(p, "B", 0, "transfer");
    sheet_column(p, "us", 1, "transfer only");
    sheet_column(p, "us", 1, "pages brought in");
    sheet_column(p, "us", 1, "the rest of the fault");
    sheet_column(p, "us", 1, "one after the other");
    sheet_column(p, "us", 1, "with timeouts of 1 ms");
    bool grows = true;
    for (int i = AT_4K; i <= (context->setup.bytes ? AT_4K : AT_4M); i++) {
        uint64_t bytes = context->setup.bytes ? context->setup.bytes : sizes[i];
        struct sheet_row *row = sheet_row(s, p, NULL);
        for (int k = 0; k < RUNS; k++) {
            struct part_outcome out;
            int code = measure(context, &runs[k], bytes, &out, err);
            if (code)
                return code;
            us[k][i] = out.us;
        }
        double pages = us[TOTAL][i] - us[GUP][i];
        row->value[0] = (double)bytes;
        row->value[1] = us[PLAIN][i];
        row->value[2] = pages;
        row->value[3] = us[GUP][i] - us[PLAIN][i];
        row->value[4] = us[TOTAL][i];
        row->value[5] = us[OVERLAPPED][i];
        grows &= pages / us[TOTAL][i] >= share;
        share = pages / us[TOTAL][i];
    }
    if (experiment_one_row(context))
        return SPIN_OK;
    sheet_shape(s, "D6", grows, "the larger the transfer, the more of it is bringing in pages");
    struct sheet_claim *c =
        sheet_claim(s, "D6", "ms", us[TOTAL][AT_4M] / 1000, 5.7, "4 MiB: the parts, summed up");
    sheet_because(c, "the paper's transfers are faster than 10 Gbit/s: see fig12");
    c = sheet_claim(s, "D6", "ms", us[OVERLAPPED][AT_4M] / 1000, 3.6, "4 MiB: as measured");
    sheet_because(c, "likewise");
    sheet_claim(s, "D6", "", us[TOTAL][AT_4M] / us[OVERLAPPED][AT_4M], 1.58, "4 MiB: the overlap");
    return SPIN_OK;
}
