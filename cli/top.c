/* `openspin top`: what live cards do now. */
#include "cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"

struct options {
    uint64_t interval_ms;
    const char *job, *json;
    bool once;
};

#define AT(member) offsetof(struct options, member)
static const struct cli_option table[] = {
    {"job", 0, CLI_STRING, "JOB", "only cards of this job of `openspin launch`", AT(job), 0, 0},
    {"interval", 'i', CLI_NUMBER, "MS", "milliseconds between looks (1000)", AT(interval_ms), 10,
     3600000},
    {"once", 0, CLI_FLAG, NULL, "print totals once", AT(once), 0, 0},
    {"json", 0, CLI_RESULT, "[=FILE]", "the same as JSON", AT(json), 0, 0},
    {0},
};
#undef AT

struct cards {
    struct spin_live_card *card;
    uint32_t count;
    bool seen; /* the job is there, or was */
};

/* ---- text ---- */

/* As wide as the terminal, and no longer than it is high. */
struct page {
    int columns, lines; /* 0: no limit */
    int used;
};

static void line(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(struct page *p, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (p->lines && p->used >= p->lines - 1)
        return;
    p->used++;
    printf("%.*s\n", p->columns ? p->columns : (int)sizeof text, text);
}

/* Six characters at most: "123456", "1234k", "12.3M". */
static const char *short_number(char text[16], double value) {
    static const char units[] = " kMGTPE";
    int unit = 0;
    if (value < 999999.5) {
        snprintf(text, 16, "%.0f", value);
        return text;
    }
    for (; value >= 9999.5 && units[unit + 1]; unit++)
        value /= 1000;
    snprintf(text, 16, value < 99.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
    return text;
}

/* What is shown of a card: since it began, or (with `before`) per second since then. */
static double shown(const struct spin_live_card *c, const struct spin_live_card *before,
                    size_t offset) {
    uint64_t now, then = 0;
    memcpy(&now, (const char *)&c->counts + offset, sizeof now);
    if (!before)
        return (double)now;
    memcpy(&then, (const char *)&before->counts + offset, sizeof then);
    return c->shown_ns > before->shown_ns
               ? (double)(now - then) * 1e9 / (double)(c->shown_ns - before->shown_ns)
               : 0;
}

static void print_handler(struct page *p, const struct spin_live_handler *h,
                          const struct spin_live_handler *before, double seconds) {
    char runs[16];
    double per = seconds > 0 ? seconds : 1;
    uint64_t then = before ? before->runs : 0, then_ns = before ? before->ns : 0;
    double mean = h->runs > then ? (double)(h->ns - then_ns) / (double)(h->runs - then) : 0;
    line(p, "       %-27s table entry %-4u %8s runs%s  %9.0f ns each  %" PRIu64 " faults", h->name,
         h->pt_index, short_number(runs, (double)(h->runs - then) / per), before ? "/s" : "  ",
         mean, h->faults);
}

static void print_card(struct page *p, const struct spin_live_card *c,
                       const struct spin_live_card *before) {
    char rank[16] = "-", text[10][16];
#define SHOWN(i, member)                                                                           \
    short_number(text[i], shown(c, before, offsetof(struct spin_live_counts, member)))
    const struct spin_live_counts *n = &c->counts;
    uint64_t drops = n->dropped + n->malformed + n->strangers;
    if (c->ranks)
        snprintf(rank, sizeof rank, "%u", c->rank);
    line(p, "%4s %7u %-15.15s %-6.6s %7s %7s %7s %7s %7s %7s %7s %6.6s %6s", rank, c->os_pid,
         c->program, c->transport, SHOWN(0, packets_out), SHOWN(1, packets_in), SHOWN(2, bytes_out),
         SHOWN(3, bytes_in), short_number(text[4], (double)drops),
         short_number(text[5], (double)n->retransmitted), SHOWN(6, handlers),
         before ? (snprintf(text[7], 16, "%.1f%%",
                            shown(c, before, offsetof(struct spin_live_counts, handler_ns)) / 1e7),
                   text[7])
                : short_number(text[7], (double)n->handler_ns / 1000),
         short_number(text[8], (double)(n->waiting_packets + n->lent_packets + n->waiting_runs)));
#undef SHOWN
    double seconds = before ? (double)(c->shown_ns - before->shown_ns) / 1e9 : 0;
    for (uint32_t i = 0; i < c->handlers; i++)
        print_handler(p, &c->handler[i],
                      before && i < before->handlers ? &before->handler[i] : NULL, seconds);
}

static const struct spin_live_card *same_card(const struct cards *in,
                                              const struct spin_live_card *c) {
    for (uint32_t i = 0; in && i < in->count; i++)
        if (in->card[i].os_pid == c->os_pid && in->card[i].began_ns == c->began_ns &&
            in->card[i].nid == c->nid && in->card[i].pid == c->pid)
            return &in->card[i];
    return NULL;
}

/* `before` NULL: totals. */
static void print_text(struct page *p, const struct cards *now, const struct cards *before) {
    const char *job = NULL;
    line(p, "%4s %7s %-15s %-6s %7s %7s %7s %7s %7s %7s %7s %6s %6s", "RANK", "PROCESS", "PROGRAM",
         "VIA", before ? "PKT/S->" : "PKT->", before ? "->PKT/S" : "->PKT",
         before ? "B/S->" : "B->", before ? "->B/S" : "->B", "DROPS", "RETRANS",
         before ? "RUNS/S" : "RUNS", before ? "HPU" : "HPU us", "QUEUED");
    for (uint32_t i = 0; i < now->count; i++) {
        const struct spin_live_card *c = &now->card[i];
        if (!job || strcmp(job, c->job))
            line(p, "%s%s", *c->job ? "job " : "started by themselves", c->job);
        job = c->job;
        const struct spin_live_card new_one = {.shown_ns = c->began_ns},
                                    *was = same_card(before, c);
        print_card(p, c, before && !was ? &new_one : was);
    }
}

/* ---- JSON ---- */

static const struct {
    const char *name;
    size_t offset;
} counts[] = {
#define COUNT(member)                                                                              \
    { #member, offsetof(struct spin_live_counts, member) }
    COUNT(packets_out),  COUNT(packets_in),   COUNT(bytes_out),         COUNT(bytes_in),
    COUNT(messages_out), COUNT(messages_in),  COUNT(retransmitted),     COUNT(duplicates),
    COUNT(malformed),    COUNT(strangers),    COUNT(dropped),           COUNT(given_up),
    COUNT(page_faults),  COUNT(paged_in),     COUNT(page_errors),       COUNT(blocks_repeated),
    COUNT(flow_control), COUNT(handlers),     COUNT(handler_ns),        COUNT(waiting_packets),
    COUNT(waiting_runs), COUNT(lent_packets), COUNT(packets_in_memory),
#undef COUNT
};

static void json_handler(struct json *j, const struct spin_live_handler *h) {
    static const char *const kinds[] = {"header", "payload", "completion", "cleanup"};
    json_object(j, NULL);
    json_string(j, "name", h->name);
    json_string(j, "kind", h->kind <= SPIN_CLEANUP_HANDLER ? kinds[h->kind] : "?");
    json_u64(j, "interface", h->interface);
    json_u64(j, "pt_index", h->pt_index);
    json_u64(j, "runs", h->runs);
    json_u64(j, "ns", h->ns);
    json_u64(j, "faults", h->faults);
    json_end_object(j);
}

static void json_card(struct json *j, const struct spin_live_card *c) {
    json_object(j, NULL);
    json_string(j, "job", c->job);
    if (c->ranks) {
        json_u64(j, "rank", c->rank);
        json_u64(j, "ranks", c->ranks);
    }
    json_u64(j, "process", c->os_pid);
    json_string(j, "program", c->program);
    json_u64(j, "nid", c->nid);
    json_u64(j, "pid", c->pid);
    json_string(j, "transport", c->transport);
    json_u64(j, "began_ns", c->began_ns);
    json_u64(j, "shown_ns", c->shown_ns);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        json_u64(j, counts[i].name, (uint64_t)shown(c, NULL, counts[i].offset));
    json_array(j, "handler");
    for (uint32_t i = 0; i < c->handlers; i++)
        json_handler(j, &c->handler[i]);
    json_end_array(j);
    json_end_object(j);
}

static void print_json(FILE *out, const void *what) {
    const struct cards *cards = what;
    struct json j = {.out = out};
    json_object(&j, NULL);
    json_array(&j, "cards");
    for (uint32_t i = 0; i < cards->count; i++)
        json_card(&j, &cards->card[i]);
    json_end_array(&j);
    json_end_object(&j);
}

/* ---- the command ---- */

static int look(const struct cli_command *command, const struct options *o, struct cards *cards) {
    struct spin_error err;
    int code = spin_live_cards(o->job, &cards->card, &cards->count, &err);
    bool ended = code == SPIN_EARG && cards->seen; /* the job, with its cards */
    cards->seen = true;
    return code && !ended ? cli_report(command, &err) : 0;
}

static struct page terminal_page(void) {
    struct winsize size;
    bool known = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col && size.ws_row;
    return (struct page){.columns = known ? size.ws_col : 0, .lines = known ? size.ws_row : 0};
}

static int redraw(const struct cli_command *command, const struct options *o, struct cards *now) {
    struct cards before = {0};
    const struct timespec pause = {(time_t)(o->interval_ms / 1000),
                                   (long)(o->interval_ms % 1000) * 1000000};
    int status = 0;
    while (!status && now->count) {
        struct page page = terminal_page();
        printf("\033[H\033[J");
        print_text(&page, now, &before);
        if (fflush(stdout))
            return cli_error(command, CLI_FAILED, "the terminal has gone");
        free(before.card);
        before = *now;
        *now = (struct cards){.seen = true};
        nanosleep(&pause, NULL);
        status = look(command, o, now);
    }
    free(before.card);
    if (!status)
        puts("the last live card has ended");
    return status;
}

static bool is_drawable(void) {
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

static int show(const struct cli_command *command, const struct options *o) {
    struct cards now = {0};
    struct page page = {0};
    if (!o->json && !o->once && !is_drawable())
        return cli_error(command, CLI_USAGE,
                         "standard output is not a terminal that can be redrawn: use --once or "
                         "--json");
    int status = look(command, o, &now);
    if (!status && o->json)
        status = cli_result(command, o->json, print_json, &now);
    else if (!status && !now.count)
        status = cli_error(command, CLI_FAILED, "no live card of this user runs%s",
                           o->job ? " in that job" : "");
    else if (!status && o->once)
        print_text(&page, &now, NULL);
    else if (!status)
        status = redraw(command, o, &now);
    free(now.card);
    return status;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.interval_ms = 1000};
    struct cli_list words;
    int status = cli_parse(command, argc, argv, &o, &words);
    if (!status && words.count)
        status = cli_error(command, CLI_USAGE, "'%s' is not an option; see openspin top --help",
                           words.items[0]);
    if (!status)
        status = show(command, &o);
    cli_free(command, &o, &words);
    return status;
}

const struct cli_command cli_top = {
    .name = "top",
    .args = "[options]",
    .summary = "what live cards of this machine do now",
    .about = "Shows each live card of this user: packets and bytes per second out and in, what\n"
             "was dropped and sent again so far, runs of handlers, the share of time that they\n"
             "take, and what is queued; below it each handler. Cards are not slowed down by it.",
    .options = table,
    .reads_nothing = true,
    .run = run,
};
