/* What `openspin card run` prints: one table of figures, as text and as CSV, and JSON. */
#include "cli_card_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli_card.h"

static double ratio(uint64_t part, uint64_t of) {
    return of ? (double)part / (double)of : 0;
}

/* Over the time from the first to the last arrival, with the last packet's own time left out: what
 * came in it is all packets but the last. */
static double offered_gbit(const struct spin_card_result *r) {
    return ratio(8000 * (r->bytes - r->last_bytes), r->last_ps - r->first_ps);
}

static double mean(const struct spin_spread *s) {
    return ratio(s->sum, s->count);
}

/* ---- figures: a name, a number, a unit ---- */

struct figure {
    const char *name;
    uint64_t value;
};

/* The plain counts: of a context and of the card, and of the card alone. CSV and JSON have the same
 * names. */
#define SHARED_COUNTS(X)                                                                           \
    X(packets)                                                                                     \
    X(bytes)                                                                                       \
    X(taken)                                                                                       \
    X(completed)                                                                                   \
    X(bytes_completed)                                                                             \
    X(dropped)                                                                                     \
    X(refused)                                                                                     \
    X(marked)                                                                                      \
    X(messages_begun)                                                                              \
    X(messages_completed)                                                                          \
    X(messages_failed)                                                                             \
    X(faults)                                                                                      \
    X(watchdog_faults)                                                                             \
    X(queue_timeouts)                                                                              \
    X(kills)                                                                                       \
    X(packets_out)                                                                                 \
    X(bytes_out)                                                                                   \
    X(host_writes)                                                                                 \
    X(host_write_bytes)                                                                            \
    X(host_reads)                                                                                  \
    X(host_read_bytes)                                                                             \
    X(elapsed_ps)                                                                                  \
    X(throughput_mbit)                                                                             \
    X(hpu_busy_ps)                                                                                 \
    X(cluster_dma_busy_ps)
#define CARD_COUNTS(X)                                                                             \
    X(stalled_offers)                                                                              \
    X(to_host)                                                                                     \
    X(to_host_bytes)                                                                               \
    X(dropped_by_rule)                                                                             \
    X(malformed)                                                                                   \
    X(other_handlers)                                                                              \
    X(late_in_capture)                                                                             \
    X(cut_in_capture)                                                                              \
    X(hpus)                                                                                        \
    X(hpus_used)                                                                                   \
    X(most_hpus_busy)                                                                              \
    X(most_l2_bytes)                                                                               \
    X(l2_conflict_cycles)                                                                          \
    X(l1_accesses)                                                                                 \
    X(conflict_cycles)                                                                             \
    X(remote_accesses)                                                                             \
    X(remote_wait_cycles)                                                                          \
    X(icache_misses)                                                                               \
    X(cycles)                                                                                      \
    X(events)

#define ONE(name)   +1
#define SHARED_ROWS (0 SHARED_COUNTS(ONE))
#define COUNT_ROWS  (SHARED_ROWS CARD_COUNTS(ONE))

/* COUNT_ROWS of them; of a context the first SHARED_ROWS. */
static void counts(const struct spin_card_result *r, struct figure *to) {
    const struct figure rows[] = {
#define ROW(name) {#name, r->name},
        SHARED_COUNTS(ROW) CARD_COUNTS(ROW)
#undef ROW
    };
    memcpy(to, rows, sizeof rows);
}

/* "latency from NIC" as a key: "latency_from_nic". */
static void key_of(char *to, size_t room, const char *text, const char *tail) {
    snprintf(to, room, "%s%s", text, tail);
    for (size_t end = strlen(to); end && to[end - 1] == ' ';)
        to[--end] = 0;
    for (char *c = to; *c; c++) {
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 32);
        else if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    }
}

/* ---- text ---- */

static void line_ns(const char *name, const struct spin_spread *s) {
    if (s->count)
        printf("  %-20s mean %9.3f  p50 %9.3f  p99 %9.3f  max %9.3f\n", name, mean(s) / 1000,
               (double)s->p50 / 1000, (double)s->p99 / 1000, (double)s->most / 1000);
}

/* The card in one line, unless somebody has changed it. */
static void print_card(const struct run_report *p) {
    struct spin_parameter row;
    unsigned changed = 0;
    printf("card %s, traffic %s", p->preset, p->traffic[0]);
    for (int i = 1; p->traffic[i]; i++)
        printf(" and %s", p->traffic[i]);
    printf("\n");
    for (int i = 0; spin_card_parameter(p->card, i, &row); i++)
        if (strcmp(row.source, SPIN_SET_BY_USER) == 0)
            printf("%s%s = %s", changed++ ? ", " : "  not the preset's: ", row.name, row.value);
    puts(changed ? "" : "  all parameters are the preset's (--parameters lists them)");
}

static void print_context(const struct run_report *p, uint32_t i) {
    const struct run_context *c = &p->context[i];
    const struct spin_card_context *made = &c->made;
    printf("  ctx%u: %s (%s)", i, spin_image_info(c->image)->path,
           spin_image_info(c->image)->is_pspin ? "PsPIN" : "P4sPIN");
    for (unsigned k = 0; k < 3; k++)
        if (made->handler[k])
            printf(", %s %s", card_kind_name((enum spin_handler_kind)k), made->handler[k]->name);
    printf("; memory %u B, scratchpad %u B, host %" PRIu64 " B", made->memory_bytes,
           made->scratch_bytes, made->host_bytes);
    if (!spin_image_info(c->image)->is_pspin)
        printf(", state in %s",
               made->scratch_bytes ? "the scratchpad of the message's home cluster" : "L2");
    if (made->partial_copy)
        printf(", %u B of a packet to L1", made->copy_bytes);
    printf(", watchdog %" PRIu64 " cycles\n", made->watchdog_cycles);
}

static void print_matching(const struct run_report *p) {
    const struct spin_card_result *r = p->result;
    const char *text;
    uint64_t packets;
    if (!spin_card_rule(p->card, 0, &packets))
        return;
    printf("matching\n");
    for (uint32_t i = 0; (text = spin_card_rule(p->card, i, &packets)); i++)
        printf("  %-48s %10" PRIu64 " packets%s\n", text, packets,
               packets ? "" : ": the rule takes none of them");
    if (r->no_rule)
        printf("  %-48s %10" PRIu64 " packets\n", "no rule: to the host", r->no_rule);
    for (uint32_t i = 0; (text = spin_card_malformed(p->card, i, &packets)); i++)
        if (packets)
            printf("  malformed: %-37s %10" PRIu64 " packets\n", text, packets);
}

static void print_held(const struct spin_card_result *r) {
    static const char *const what[] = {"room in the packet buffer", "a free message queue"};
    for (int i = 0; i < 2; i++)
        if (r->held[i])
            printf("%-18s %" PRIu64 " packets and those behind them waited %.3f ns for %s\n",
                   "backpressure", r->held[i], (double)r->held_ps[i] / 1000, what[i]);
}

static void print_packets(const struct spin_card_result *r) {
    printf("%-18s %" PRIu64 ", %" PRIu64 " bytes, offered at %.3f Gbit/s\n", "packets", r->packets,
           r->bytes, offered_gbit(r));
    printf("%-18s %" PRIu64 ", %" PRIu64 " bytes\n", "completed", r->completed, r->bytes_completed);
    printf("%-18s %" PRIu64 " refused, %" PRIu64 " dropped", "drops", r->refused, r->dropped);
    if (r->dropped_by_rule)
        printf(", %" PRIu64 " by rule", r->dropped_by_rule);
    printf("\n");
    for (unsigned i = 0; i < SPIN_CARD_FATE_COUNT; i++)
        if (r->fate[i] && (i >= SPIN_CARD_FATE_FAILED && i <= SPIN_CARD_FATE_BAD_PACKET))
            printf("  %-16s %" PRIu64 ": %s\n", spin_card_fate_outcome(i), r->fate[i],
                   spin_card_fate_reason(i));
    if (r->to_host)
        printf("%-18s %" PRIu64 ", %" PRIu64 " bytes\n", "to the host", r->to_host,
               r->to_host_bytes);
    if (r->cut_in_capture)
        printf("%-18s %" PRIu64 " packets are in the capture only with their beginning\n",
               "cut short", r->cut_in_capture);
    if (r->late_in_capture)
        printf("%-18s %" PRIu64 " packets are stamped before the one in front of them and arrive "
               "with it\n",
               "capture's times", r->late_in_capture);
    if (r->other_handlers)
        printf("%-18s %" PRIu64 " packets name others than --handler has, which ran\n",
               "trace's handlers", r->other_handlers);
    if (r->marked)
        printf("%-18s %" PRIu64 "\n", "marked", r->marked);
    print_held(r);
    uint64_t ended = r->messages_completed + r->messages_failed;
    printf("%-18s %" PRIu64 " begun, %" PRIu64 " completed, %" PRIu64 " failed", "messages",
           r->messages_begun, r->messages_completed, r->messages_failed);
    if (r->messages_begun > ended) /* its last packet went elsewhere, or was dropped */
        printf(", %" PRIu64 " without an end", r->messages_begun - ended);
    printf("\n");
    if (r->packets_out)
        printf("%-18s %" PRIu64 ", %" PRIu64 " bytes\n", "packets sent", r->packets_out,
               r->bytes_out);
    if (r->host_writes || r->host_reads)
        printf(
            "%-18s %" PRIu64 " writes, %" PRIu64 " bytes; %" PRIu64 " reads, %" PRIu64 " bytes\n",
            "host memory", r->host_writes, r->host_write_bytes, r->host_reads, r->host_read_bytes);
    printf("%-18s %.3f Gbit/s\n", "throughput", (double)r->throughput_mbit / 1000);
    printf("%-18s %.3f ns, first arrival to last completion\n", "time",
           (double)r->elapsed_ps / 1000);
}

static void print_handlers(const struct spin_card_result *r) {
    for (unsigned k = 0; k < 3; k++) {
        const struct spin_card_handler *h = &r->handler[k];
        if (!h->runs)
            continue;
        printf("%-10s %-7s %" PRIu64 " runs, %.1f instructions, %.1f cycles (p50 %" PRIu64
               ", p99 %" PRIu64 ", max %" PRIu64 "), IPC %.2f, %" PRIu64 " commands",
               card_kind_name((enum spin_handler_kind)k), "handler", h->runs,
               ratio(h->instructions, h->runs), ratio(h->cycles, h->runs), h->spread.p50,
               h->spread.p99, h->spread.most, ratio(h->instructions, h->cycles), h->commands);
        if (h->faults)
            printf(", %" PRIu64 " faults", h->faults);
        printf("\n");
    }
}

static void print_use(const struct run_report *p) {
    const struct spin_card_result *r = p->result;
    printf("in use\n");
    printf("  %-38s %7.3f %%, idlest %.3f %%, busiest %.3f %%, %" PRIu64 " of %" PRIu64
           " ran, %" PRIu64 " at once\n",
           "HPUs", 100 * ratio(r->hpu_busy_ps, r->hpus * r->elapsed_ps),
           100 * ratio(r->hpu_least_ps, r->elapsed_ps), 100 * ratio(r->hpu_most_ps, r->elapsed_ps),
           r->hpus_used, r->hpus, r->most_hpus_busy);
    printf("  %-38s %7.3f %%\n", "cluster DMA",
           100 * ratio(r->cluster_dma_busy_ps, r->clusters * r->elapsed_ps));
    for (unsigned u = 0; u < SPIN_CARD_UNIT_COUNT; u++)
        printf("  %-38s %7.3f %%\n", spin_card_unit_name(u),
               100 * ratio(r->unit_busy_ps[u], r->elapsed_ps));
    printf("  %-38s %7.3f %%, %" PRIu64 " of %" PRIu64 " bytes at most\n", "L2 packet buffer",
           100 * ratio(r->most_l2_bytes, r->l2_packet_bytes), r->most_l2_bytes, r->l2_packet_bytes);
    printf("%-18s %" PRIu64 " accesses, %" PRIu64 " cycles lost to bank conflicts\n", "L1",
           r->l1_accesses, r->conflict_cycles);
    printf("%-18s %" PRIu64 " cycles lost to bank conflicts\n", "L2 packet buffer",
           r->l2_conflict_cycles);
    printf("%-18s %" PRIu64 " accesses, %" PRIu64 " cycles waited\n", "other memories",
           r->remote_accesses, r->remote_wait_cycles);
    printf("%-18s %" PRIu64 " misses\n", "instruction cache", r->icache_misses);
}

static void print_faults(const struct run_report *p) {
    const struct spin_card_result *r = p->result;
    if (!r->faults && !r->queue_timeouts && !r->kills)
        return;
    printf("%-18s %" PRIu64 " of handlers (%" PRIu64 " by the watchdog), %" PRIu64
           " queue timeouts, %" PRIu64 " kills\n",
           "faults", r->faults, r->watchdog_faults, r->queue_timeouts, r->kills);
    for (uint32_t i = 0; i < r->faults_told; i++) {
        const struct spin_card_fault *f = &r->fault[i];
        const struct spin_image *image = p->context[f->context].image;
        char text[400];
        printf("  at %.3f ns: ctx%u, message %u", (double)f->at_ps / 1000, f->context, f->message);
        if (f->hpu == UINT32_MAX) {
            printf(" given up\n");
            continue;
        }
        if (f->ending == SPIN_RETURNED)
            snprintf(text, sizeof text, "message given up");
        else
            spin_ending_text(image, f->ending, f->pc, f->address, &f->refusal, text, sizeof text);
        printf(", HPU %u, %s handler: %s\n", f->hpu, card_kind_name(f->kind), text);
    }
}

/* Shares are of what the card's units could have done in the time of the run. */
static void print_contexts(const struct run_report *p) {
    const struct spin_card_result *r = p->result;
    printf("contexts           packets completed   dropped   refused faults   Gbit/s    p50 ns    "
           "p99 ns    max ns  HPUs %%  copy %%  sent %%  host %%\n");
    for (uint32_t i = 0; i < p->contexts; i++) {
        struct spin_card_result c;
        spin_card_context_result(p->card, i, &c);
        const struct spin_spread *l = &c.part[SPIN_CARD_PART_LATENCY];
        const uint64_t *busy = c.unit_busy_ps;
        uint64_t host = busy[SPIN_CARD_UNIT_TO_HOST] + busy[SPIN_CARD_UNIT_FROM_HOST];
        printf("  ctx%-12u %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %6" PRIu64
               " %8.3f %9.3f %9.3f %9.3f %7.3f %7.3f %7.3f %7.3f\n",
               i, c.packets, c.completed, c.dropped, c.refused, c.faults,
               (double)c.throughput_mbit / 1000, (double)l->p50 / 1000, (double)l->p99 / 1000,
               (double)l->most / 1000, 100 * ratio(c.hpu_busy_ps, r->hpus * r->elapsed_ps),
               100 * ratio(c.cluster_dma_busy_ps, r->clusters * r->elapsed_ps),
               100 * ratio(busy[SPIN_CARD_UNIT_OUTBOUND], r->elapsed_ps),
               100 * ratio(host, 2 * r->elapsed_ps));
    }
}

void card_print_text(const struct run_report *p) {
    const struct spin_card_result *r = p->result;
    print_card(p);
    for (uint32_t i = 0; i < p->contexts; i++)
        print_context(p, i);
    print_matching(p);
    print_packets(r);
    printf("latency, ns\n");
    line_ns(spin_card_part_name(SPIN_CARD_PART_LATENCY), &r->part[SPIN_CARD_PART_LATENCY]);
    line_ns(spin_card_part_name(SPIN_CARD_PART_TOTAL), &r->part[SPIN_CARD_PART_TOTAL]);
    printf("parts of it, ns\n");
    for (unsigned i = 0; i < SPIN_CARD_PART_LATENCY; i++)
        if (r->part[i].most)
            line_ns(spin_card_part_name(i), &r->part[i]);
    if (p->contexts > 1)
        print_contexts(p);
    print_handlers(r);
    print_use(p);
    print_faults(p);
    printf("%-18s %016" PRIx64 "\n", "digest", r->digest);
}

/* ---- CSV ---- */

static const char *unit_of(const char *name) {
    static const struct {
        const char *tail, *unit;
    } units[] = {{"_ps", "ps"}, {"_cycles", "cycles"}, {"_bytes", "B"}, {"_mbit", "Mbit/s"}};
    if (strncmp(name, "bytes", 5) == 0)
        return "B";
    if (strcmp(name, "cycles") == 0)
        return "cycles";
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t length = strlen(name), tail = strlen(units[i].tail);
        if (length > tail && strcmp(name + length - tail, units[i].tail) == 0)
            return units[i].unit;
    }
    return "";
}

static void csv_spread(FILE *out, const char *name, const struct spin_spread *s, const char *unit) {
    fprintf(out, "%s_mean,%.3f,%s\n%s_min,%" PRIu64 ",%s\n%s_p50,%" PRIu64 ",%s\n", name, mean(s),
            unit, name, s->count ? s->least : 0, unit, name, s->p50, unit);
    fprintf(out, "%s_p90,%" PRIu64 ",%s\n%s_p99,%" PRIu64 ",%s\n", name, s->p90, unit, name, s->p99,
            unit);
    fprintf(out, "%s_p999,%" PRIu64 ",%s\n%s_max,%" PRIu64 ",%s\n", name, s->p999, unit, name,
            s->most, unit);
}

/* `of` is "" for the card, "ctx0_" for a context. */
static void csv_result(FILE *out, const struct spin_card_result *r, const char *of, int rows) {
    struct figure count[COUNT_ROWS];
    char key[80], name[100];
    counts(r, count);
    for (int i = 0; i < rows; i++)
        fprintf(out, "%s%s,%" PRIu64 ",%s\n", of, count[i].name, count[i].value,
                unit_of(count[i].name));
    for (unsigned i = 0; i < SPIN_CARD_FATE_COUNT; i++) {
        snprintf(key, sizeof key, "%s %s", spin_card_fate_outcome(i), spin_card_fate_reason(i));
        key_of(name, sizeof name, key, "");
        fprintf(out, "%spackets_%s,%" PRIu64 ",\n", of, name, r->fate[i]);
    }
    for (unsigned i = 0; i < SPIN_CARD_PART_COUNT; i++) {
        key_of(key, sizeof key, spin_card_part_name(i), "");
        snprintf(name, sizeof name, "%s%s", of, key);
        csv_spread(out, name, &r->part[i], "ps");
    }
    for (unsigned i = 0; i < SPIN_CARD_UNIT_COUNT; i++) {
        key_of(key, sizeof key, spin_card_unit_name(i), "_busy");
        fprintf(out, "%s%s,%" PRIu64 ",ps\n", of, key, r->unit_busy_ps[i]);
    }
    for (unsigned k = 0; k < 3; k++) {
        const struct spin_card_handler *h = &r->handler[k];
        snprintf(key, sizeof key, "%s%s", of, card_kind_name((enum spin_handler_kind)k));
        fprintf(out, "%s_runs,%" PRIu64 ",\n%s_faults,%" PRIu64 ",\n", key, h->runs, key,
                h->faults);
        fprintf(out, "%s_instructions,%" PRIu64 ",\n%s_commands,%" PRIu64 ",\n", key,
                h->instructions, key, h->commands);
        snprintf(name, sizeof name, "%s_cycles", key);
        csv_spread(out, name, &h->spread, "cycles");
    }
}

void card_print_csv(FILE *out, const void *report) {
    const struct run_report *p = report;
    const struct spin_card_result *r = p->result;
    struct spin_card_result c;
    char of[16];
    fputs("name,value,unit\n", out);
    csv_result(out, r, "", COUNT_ROWS);
    fprintf(out, "held_for_buffer,%" PRIu64 ",ps\nheld_for_queue,%" PRIu64 ",ps\n", r->held_ps[0],
            r->held_ps[1]);
    for (uint32_t i = 0; i < p->contexts; i++) {
        snprintf(of, sizeof of, "ctx%u_", i);
        spin_card_context_result(p->card, i, &c);
        csv_result(out, &c, of, SHARED_ROWS);
    }
}

/* ---- JSON ---- */

static void json_spread(struct json *j, const char *name, const struct spin_spread *s) {
    json_object(j, name);
    json_u64(j, "count", s->count);
    json_real(j, "mean", mean(s), 3);
    json_u64(j, "min", s->count ? s->least : 0);
    json_u64(j, "p50", s->p50);
    json_u64(j, "p90", s->p90);
    json_u64(j, "p99", s->p99);
    json_u64(j, "p999", s->p999);
    json_u64(j, "max", s->most);
    json_end_object(j);
}

static void json_handlers(struct json *j, const struct spin_card_result *r) {
    json_object(j, "handlers");
    for (unsigned k = 0; k < 3; k++) {
        const struct spin_card_handler *h = &r->handler[k];
        json_object(j, card_kind_name((enum spin_handler_kind)k));
        json_u64(j, "runs", h->runs);
        json_u64(j, "faults", h->faults);
        json_u64(j, "instructions", h->instructions);
        json_u64(j, "cycles", h->cycles);
        json_real(j, "ipc", ratio(h->instructions, h->cycles), 4);
        json_u64(j, "commands", h->commands);
        json_spread(j, "cycles_of_a_run", &h->spread);
        json_end_object(j);
    }
    json_end_object(j);
}

static void json_matching(struct json *j, const struct run_report *p) {
    const char *text;
    uint64_t packets;
    if (!spin_card_rule(p->card, 0, &packets))
        return;
    json_array(j, "rules");
    for (uint32_t i = 0; (text = spin_card_rule(p->card, i, &packets)); i++) {
        json_object(j, NULL);
        json_string(j, "rule", text);
        json_u64(j, "packets", packets);
        json_end_object(j);
    }
    json_end_array(j);
}

static void json_faults(struct json *j, const struct spin_card_result *r) {
    json_array(j, "first_faults");
    for (uint32_t i = 0; i < r->faults_told; i++) {
        const struct spin_card_fault *f = &r->fault[i];
        json_object(j, NULL);
        json_u64(j, "at_ps", f->at_ps);
        json_u64(j, "context", f->context);
        json_u64(j, "message", f->message);
        json_u64(j, "hpu", f->hpu);
        json_string(j, "kind", card_kind_name(f->kind));
        json_string(j, "ending",
                    f->ending == SPIN_RETURNED ? "given up" : spin_ending_name(f->ending));
        json_u64(j, "pc", f->pc);
        json_u64(j, "address", f->address);
        if (f->refusal.call) {
            json_string(j, "call", f->refusal.call);
            json_string(j, "why", f->refusal.why);
        }
        json_end_object(j);
    }
    json_end_array(j);
}

/* Of the card (COUNT_ROWS) or of a context (SHARED_ROWS). */
static void json_result(struct json *j, const struct spin_card_result *r, int rows) {
    struct figure count[COUNT_ROWS];
    char key[80], text[80];
    counts(r, count);
    for (int i = 0; i < rows; i++)
        json_u64(j, count[i].name, count[i].value);
    json_real(j, "throughput_gbit_s", (double)r->throughput_mbit / 1000, 3);
    json_object(j, "fates");
    for (unsigned i = 0; i < SPIN_CARD_FATE_COUNT; i++) {
        snprintf(text, sizeof text, "%s %s", spin_card_fate_outcome(i), spin_card_fate_reason(i));
        key_of(key, sizeof key, text, "");
        json_u64(j, key, r->fate[i]);
    }
    json_end_object(j);
    json_object(j, "latency_ps");
    for (unsigned i = 0; i < SPIN_CARD_PART_COUNT; i++) {
        key_of(key, sizeof key, spin_card_part_name(i), "");
        json_spread(j, key, &r->part[i]);
    }
    json_end_object(j);
    json_handlers(j, r);
    json_object(j, "busy_ps");
    for (unsigned i = 0; i < SPIN_CARD_UNIT_COUNT; i++) {
        key_of(key, sizeof key, spin_card_unit_name(i), "");
        json_u64(j, key, r->unit_busy_ps[i]);
    }
    json_end_object(j);
}

static void json_contexts(struct json *j, const struct run_report *p) {
    struct spin_card_result c;
    json_array(j, "contexts");
    for (uint32_t i = 0; i < p->contexts; i++) {
        const struct spin_card_context *made = &p->context[i].made;
        spin_card_context_result(p->card, i, &c);
        json_object(j, NULL);
        json_string(j, "image", spin_image_info(made->image)->path);
        for (unsigned k = 0; k < 3; k++)
            if (made->handler[k])
                json_string(j, card_kind_name((enum spin_handler_kind)k), made->handler[k]->name);
        json_result(j, &c, SHARED_ROWS);
        json_real(j, "hpu_share", ratio(c.hpu_busy_ps, p->result->hpu_busy_ps), 6);
        json_real(j, "cluster_dma_share",
                  ratio(c.cluster_dma_busy_ps, p->result->cluster_dma_busy_ps), 6);
        json_end_object(j);
    }
    json_end_array(j);
}

void card_print_json(FILE *out, const void *report) {
    const struct run_report *p = report;
    const struct spin_card_result *r = p->result;
    struct json j = {.out = out};
    struct spin_parameter row;
    char key[20];
    json_object(&j, NULL);
    json_string(&j, "preset", p->preset);
    json_string(&j, "traffic", p->traffic[0]);
    json_array(&j, "more_traffic");
    for (int i = 1; p->traffic[i]; i++)
        json_string(&j, NULL, p->traffic[i]);
    json_end_array(&j);
    json_object(&j, "parameters");
    for (int i = 0; spin_card_parameter(p->card, i, &row); i++)
        json_string(&j, row.name, row.value);
    json_end_object(&j);
    json_result(&j, r, COUNT_ROWS);
    json_real(&j, "offered_gbit_s", offered_gbit(r), 3);
    json_u64(&j, "held_for_buffer_ps", r->held_ps[0]);
    json_u64(&j, "held_for_queue_ps", r->held_ps[1]);
    json_matching(&j, p);
    json_contexts(&j, p);
    json_faults(&j, r);
    snprintf(key, sizeof key, "%016" PRIx64, r->digest);
    json_string(&j, "digest", key);
    json_end_object(&j);
}
