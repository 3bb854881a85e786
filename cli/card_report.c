/* What `openspin card run` prints: one table of figures, as text and as CSV, and JSON. */
#include "card_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "card.h"

static double ratio(uint64_t part, uint64_t of) {
    return of ? (double)part / (double)of : 0;
}

/* Over the time from the first to the last arrival, with the last packet's own time left out: what
 * came in it is all packets but the last. */
static double offered_gbit(const struct card_run_result *r) {
    return ratio(8000 * (r->bytes - r->last_bytes), r->last_ps - r->first_ps);
}

static double mean(const struct card_spread *s) {
    return ratio(s->sum, s->count);
}

void card_print_parameters(const struct card_config *config) {
    struct spin_parameter row;
    for (int i = 0; card_config_row(config, i, &row); i++)
        printf("  %s = %s, %s (%s)\n", row.name, row.value, row.what, row.source);
}

/* ---- figures: a name, a number, a unit ---- */

struct figure {
    const char *name;
    uint64_t value;
};

/* The plain counts, in the order in which they are printed; CSV and JSON have the same names. */
#define COUNTS(X)                                                                                  \
    X(packets, r->packets)                                                                         \
    X(bytes, r->bytes)                                                                             \
    X(taken, s->taken)                                                                             \
    X(completed, s->completed)                                                                     \
    X(bytes_completed, s->bytes_completed)                                                         \
    X(dropped, s->dropped)                                                                         \
    X(refused, s->refused)                                                                         \
    X(marked, s->marked)                                                                           \
    X(stalled_offers, s->full)                                                                     \
    X(to_host, r->to_host)                                                                         \
    X(to_host_bytes, r->to_host_bytes)                                                             \
    X(dropped_by_rule, r->matched_drop)                                                            \
    X(malformed, r->malformed_packets)                                                             \
    X(cut_in_capture, r->cut_packets)                                                              \
    X(messages_begun, s->messages_begun)                                                           \
    X(messages_completed, s->messages_completed)                                                   \
    X(messages_failed, s->messages_failed)                                                         \
    X(faults, s->faults)                                                                           \
    X(watchdog_faults, s->watchdog_faults)                                                         \
    X(queue_timeouts, s->queue_timeouts)                                                           \
    X(kills, s->kills)                                                                             \
    X(packets_out, s->packets_out)                                                                 \
    X(bytes_out, s->bytes_out)                                                                     \
    X(host_writes, s->host_writes)                                                                 \
    X(host_write_bytes, s->host_write_bytes)                                                       \
    X(host_reads, s->host_reads)                                                                   \
    X(host_read_bytes, s->host_read_bytes)                                                         \
    X(hpus, r->hpus)                                                                               \
    X(hpus_used, s->hpus_used)                                                                     \
    X(most_hpus_busy, s->most_hpus_busy)                                                           \
    X(most_l2_bytes, s->most_l2_bytes)                                                             \
    X(l2_conflict_cycles, s->l2_conflict_cycles)                                                   \
    X(l1_accesses, s->l1_accesses)                                                                 \
    X(conflict_cycles, s->conflict_cycles)                                                         \
    X(remote_accesses, s->remote_accesses)                                                         \
    X(remote_wait_cycles, s->remote_wait_cycles)                                                   \
    X(icache_misses, s->icache_misses)                                                             \
    X(cycles, r->cycles)                                                                           \
    X(events, r->events)                                                                           \
    X(elapsed_ps, s->elapsed_ps)                                                                   \
    X(throughput_mbit, s->throughput_mbit)                                                         \
    X(hpu_busy_ps, s->hpu_busy_ps)                                                                 \
    X(cluster_dma_busy_ps, s->cluster_dma_busy_ps)

enum {
#define ROW(name, value) COUNT_##name,
    COUNTS(ROW)
#undef ROW
        COUNT_ROWS
};

static void counts(const struct card_run_result *r, struct figure *to) {
    const struct card_stats *s = &r->stats;
    const struct figure rows[] = {
#define ROW(name, value) {#name, value},
        COUNTS(ROW)
#undef ROW
    };
    memcpy(to, rows, sizeof rows);
}

/* "latency from NIC" as a key: "latency_from_nic". */
static void key_of(char *to, size_t room, const char *text, const char *tail) {
    snprintf(to, room, "%s%s", text, tail);
    for (char *c = to; *c; c++) {
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 32);
        else if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    }
}

/* ---- text ---- */

static void line_ns(const char *name, const struct card_spread *s) {
    if (s->count)
        printf("  %-18s mean %9.3f  p50 %9.3f  p99 %9.3f  max %9.3f\n", name, mean(s) / 1000,
               (double)s->p50 / 1000, (double)s->p99 / 1000, (double)s->most / 1000);
}

static void print_context(const struct run_report *p, uint32_t i) {
    const struct run_context *c = &p->context[i];
    const struct card_context *made = &p->options->context[i];
    printf("  ctx%u: %s (%s)", i, spin_image_info(c->image)->path,
           made->abi == CARD_PSPIN ? "PsPIN" : "P4sPIN");
    for (unsigned k = 0; k < 3; k++)
        if (c->entry[k])
            printf(", %s %s", card_kind_name((enum spin_handler_kind)k), c->entry[k]->name);
    printf("; memory %u B, scratchpad %u B, host %" PRIu64 " B", made->memory_bytes,
           made->scratch_bytes, made->host_bytes);
    if (made->partial_copy)
        printf(", %u B of a packet to L1", made->l1_bytes);
    printf(", watchdog %" PRIu64 " cycles\n", made->watchdog_cycles);
}

static void print_matching(const struct run_report *p) {
    const struct card_run_result *r = p->result;
    if (!p->options->match)
        return;
    printf("matching\n");
    for (uint32_t i = 0; i < nic_match_rules(p->options->match); i++)
        printf("  %-48s %10" PRIu64 " packets\n", nic_match_rule_text(p->options->match, i),
               r->by_rule[i]);
    if (r->by_no_rule)
        printf("  %-48s %10" PRIu64 " packets\n", "no rule: to the host", r->by_no_rule);
    for (unsigned f = 1; f < HEADERS_FAULT_COUNT; f++)
        if (r->malformed[f])
            printf("  malformed: %-37s %10" PRIu64 " packets\n",
                   headers_fault_text((enum headers_fault)f), r->malformed[f]);
}

static void print_packets(const struct card_run_result *r) {
    const struct card_stats *s = &r->stats;
    printf("%-18s %" PRIu64 ", %" PRIu64 " bytes, offered at %.3f Gbit/s\n", "packets", r->packets,
           r->bytes, offered_gbit(r));
    printf("%-18s %" PRIu64 ", %" PRIu64 " bytes\n", "completed", s->completed, s->bytes_completed);
    printf("%-18s %" PRIu64 " refused, %" PRIu64 " of failed messages", "drops", s->refused,
           s->dropped);
    if (r->matched_drop)
        printf(", %" PRIu64 " by rule", r->matched_drop);
    printf("\n");
    if (r->to_host)
        printf("%-18s %" PRIu64 ", %" PRIu64 " bytes\n", "to the host", r->to_host,
               r->to_host_bytes);
    if (r->cut_packets)
        printf("%-18s %" PRIu64 " packets are in the capture only with their beginning\n",
               "cut short", r->cut_packets);
    if (s->marked)
        printf("%-18s %" PRIu64 "\n", "marked", s->marked);
    uint64_t ended = s->messages_completed + s->messages_failed;
    printf("%-18s %" PRIu64 " begun, %" PRIu64 " completed, %" PRIu64 " failed", "messages",
           s->messages_begun, s->messages_completed, s->messages_failed);
    if (s->messages_begun > ended) /* its last packet went elsewhere, or was dropped */
        printf(", %" PRIu64 " without an end", s->messages_begun - ended);
    printf("\n");
    if (s->packets_out)
        printf("%-18s %" PRIu64 ", %" PRIu64 " bytes\n", "packets sent", s->packets_out,
               s->bytes_out);
    if (s->host_writes || s->host_reads)
        printf(
            "%-18s %" PRIu64 " writes, %" PRIu64 " bytes; %" PRIu64 " reads, %" PRIu64 " bytes\n",
            "host memory", s->host_writes, s->host_write_bytes, s->host_reads, s->host_read_bytes);
    printf("%-18s %.3f Gbit/s\n", "throughput", (double)s->throughput_mbit / 1000);
    printf("%-18s %.3f ns, first arrival to last completion\n", "time",
           (double)s->elapsed_ps / 1000);
}

static void print_handlers(const struct card_stats *s) {
    for (unsigned k = 0; k < 3; k++) {
        const struct card_handler_stats *h = &s->handler[k];
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
    const struct card_run_result *r = p->result;
    const struct card_stats *s = &r->stats;
    uint64_t clusters = p->options->config.clusters;
    printf("in use\n");
    printf("  %-38s %7.3f %%, idlest %.3f %%, busiest %.3f %%, %u of %" PRIu64 " ran, %u at once\n",
           "HPUs", 100 * ratio(s->hpu_busy_ps, r->hpus * s->elapsed_ps),
           100 * ratio(r->hpu_least_ps, s->elapsed_ps), 100 * ratio(r->hpu_most_ps, s->elapsed_ps),
           s->hpus_used, r->hpus, s->most_hpus_busy);
    printf("  %-38s %7.3f %%\n", "cluster DMA",
           100 * ratio(s->cluster_dma_busy_ps, clusters * s->elapsed_ps));
    for (unsigned u = 0; u < CARD_UNIT_COUNT; u++)
        printf("  %-38s %7.3f %%\n", card_unit_name(u),
               100 * ratio(s->unit_busy_ps[u], s->elapsed_ps));
    printf("  %-38s %7.3f %%, %" PRIu64 " of %" PRIu64 " bytes at most\n", "L2 packet buffer",
           100 * ratio(s->most_l2_bytes, p->options->config.l2_packet_bytes), s->most_l2_bytes,
           p->options->config.l2_packet_bytes);
    printf("%-18s %" PRIu64 " accesses, %" PRIu64 " cycles lost to bank conflicts\n", "L1",
           s->l1_accesses, s->conflict_cycles);
    printf("%-18s %" PRIu64 " cycles lost to bank conflicts\n", "L2 packet buffer",
           s->l2_conflict_cycles);
    printf("%-18s %" PRIu64 " accesses, %" PRIu64 " cycles waited\n", "other memories",
           s->remote_accesses, s->remote_wait_cycles);
    printf("%-18s %" PRIu64 " misses\n", "instruction cache", s->icache_misses);
}

static void print_faults(const struct run_report *p) {
    const struct card_run_result *r = p->result;
    const struct card_stats *s = &r->stats;
    if (!s->faults && !s->queue_timeouts && !s->kills)
        return;
    printf("%-18s %" PRIu64 " of handlers (%" PRIu64 " by the watchdog), %" PRIu64
           " queue timeouts, %" PRIu64 " kills\n",
           "faults", s->faults, s->watchdog_faults, s->queue_timeouts, s->kills);
    for (int i = 0; i < CARD_RUN_FAULTS && r->fault[i].at_ps; i++) {
        const struct card_fault *f = &r->fault[i].what;
        const struct spin_image *image = p->context[f->context].image;
        const struct spin_function *in = spin_image_at(image, f->pc);
        const char *file;
        int line;
        printf("  at %.3f ns: ctx%u, message %u, HPU %u, %s handler: %s",
               (double)r->fault[i].at_ps / 1000, f->context, f->message, f->hpu,
               card_kind_name(f->kind),
               f->ending == SPIN_RETURNED ? "message given up" : spin_ending_name(f->ending));
        if (in)
            printf(" at %s+0x%x", in->name, f->pc - in->address);
        if (in && spin_image_line(image, f->pc, &file, &line)) {
            const char *slash = strrchr(file, '/');
            printf(", %s:%d", slash ? slash + 1 : file, line);
        }
        if (f->ending == SPIN_ENDED_SEGV || f->ending == SPIN_ENDED_MISALIGNED)
            printf(", address 0x%08x", f->address);
        printf("\n");
    }
}

void card_print_text(const struct run_report *p) {
    const struct card_run_result *r = p->result;
    printf("card %s, traffic %s\n", p->preset, p->options->traffic);
    card_print_parameters(&p->options->config);
    for (uint32_t i = 0; i < p->options->contexts; i++)
        print_context(p, i);
    print_matching(p);
    print_packets(r);
    printf("latency, ns\n");
    line_ns(card_part_name(CARD_PART_LATENCY), &r->stats.part[CARD_PART_LATENCY]);
    line_ns(card_part_name(CARD_PART_TOTAL), &r->stats.part[CARD_PART_TOTAL]);
    printf("parts of it, ns\n");
    for (unsigned i = 0; i < CARD_PART_LATENCY; i++)
        line_ns(card_part_name(i), &r->stats.part[i]);
    print_handlers(&r->stats);
    print_use(p);
    print_faults(p);
    printf("%-18s %016" PRIx64 "\n", "digest", r->stats.digest);
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

static void csv_spread(const char *name, const struct card_spread *s, const char *unit) {
    printf("%s_mean,%.3f,%s\n%s_min,%" PRIu64 ",%s\n%s_p50,%" PRIu64 ",%s\n", name, mean(s), unit,
           name, s->count ? s->least : 0, unit, name, s->p50, unit);
    printf("%s_p99,%" PRIu64 ",%s\n%s_max,%" PRIu64 ",%s\n", name, s->p99, unit, name, s->most,
           unit);
}

void card_print_csv(const struct run_report *p) {
    const struct card_stats *s = &p->result->stats;
    struct figure count[COUNT_ROWS];
    char key[80];
    counts(p->result, count);
    puts("name,value,unit");
    for (int i = 0; i < COUNT_ROWS; i++)
        printf("%s,%" PRIu64 ",%s\n", count[i].name, count[i].value, unit_of(count[i].name));
    for (unsigned i = 0; i < CARD_PART_COUNT; i++) {
        key_of(key, sizeof key, card_part_name(i), "");
        csv_spread(key, &s->part[i], "ps");
    }
    for (unsigned i = 0; i < CARD_UNIT_COUNT; i++) {
        key_of(key, sizeof key, card_unit_name(i), "_busy");
        printf("%s,%" PRIu64 ",ps\n", key, s->unit_busy_ps[i]);
    }
    for (unsigned k = 0; k < 3; k++) {
        const struct card_handler_stats *h = &s->handler[k];
        const char *kind = card_kind_name((enum spin_handler_kind)k);
        printf("%s_runs,%" PRIu64 ",\n%s_faults,%" PRIu64 ",\n", kind, h->runs, kind, h->faults);
        printf("%s_instructions,%" PRIu64 ",\n%s_commands,%" PRIu64 ",\n", kind, h->instructions,
               kind, h->commands);
        snprintf(key, sizeof key, "%s_cycles", kind);
        csv_spread(key, &h->spread, "cycles");
    }
}

/* ---- JSON ---- */

static void json_spread(struct json *j, const char *name, const struct card_spread *s) {
    json_object(j, name);
    json_u64(j, "count", s->count);
    json_real(j, "mean", mean(s), 3);
    json_u64(j, "min", s->count ? s->least : 0);
    json_u64(j, "p50", s->p50);
    json_u64(j, "p99", s->p99);
    json_u64(j, "max", s->most);
    json_end_object(j);
}

static void json_handlers(struct json *j, const struct card_stats *s) {
    json_object(j, "handlers");
    for (unsigned k = 0; k < 3; k++) {
        const struct card_handler_stats *h = &s->handler[k];
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
    if (!p->options->match)
        return;
    json_array(j, "rules");
    for (uint32_t i = 0; i < nic_match_rules(p->options->match); i++) {
        json_object(j, NULL);
        json_string(j, "rule", nic_match_rule_text(p->options->match, i));
        json_u64(j, "packets", p->result->by_rule[i]);
        json_end_object(j);
    }
    json_end_array(j);
}

static void json_faults(struct json *j, const struct card_run_result *r) {
    json_array(j, "first_faults");
    for (int i = 0; i < CARD_RUN_FAULTS && r->fault[i].at_ps; i++) {
        const struct card_fault *f = &r->fault[i].what;
        json_object(j, NULL);
        json_u64(j, "at_ps", r->fault[i].at_ps);
        json_u64(j, "context", f->context);
        json_u64(j, "message", f->message);
        json_u64(j, "hpu", f->hpu);
        json_string(j, "kind", card_kind_name(f->kind));
        json_string(j, "ending",
                    f->ending == SPIN_RETURNED ? "given up" : spin_ending_name(f->ending));
        json_u64(j, "pc", f->pc);
        json_u64(j, "address", f->address);
        json_end_object(j);
    }
    json_end_array(j);
}

void card_print_json(const struct run_report *p) {
    const struct card_run_result *r = p->result;
    const struct card_stats *s = &r->stats;
    struct json j = {.out = stdout};
    struct spin_parameter row;
    struct figure count[COUNT_ROWS];
    char key[80];
    json_object(&j, NULL);
    json_string(&j, "preset", p->preset);
    json_string(&j, "traffic", p->options->traffic);
    json_object(&j, "parameters");
    for (int i = 0; card_config_row(&p->options->config, i, &row); i++)
        json_string(&j, row.name, row.value);
    json_end_object(&j);
    counts(r, count);
    for (int i = 0; i < COUNT_ROWS; i++)
        json_u64(&j, count[i].name, count[i].value);
    json_real(&j, "offered_gbit_s", offered_gbit(r), 3);
    json_real(&j, "throughput_gbit_s", (double)s->throughput_mbit / 1000, 3);
    json_matching(&j, p);
    json_object(&j, "latency_ps");
    for (unsigned i = 0; i < CARD_PART_COUNT; i++) {
        key_of(key, sizeof key, card_part_name(i), "");
        json_spread(&j, key, &s->part[i]);
    }
    json_end_object(&j);
    json_handlers(&j, s);
    json_object(&j, "busy_ps");
    for (unsigned i = 0; i < CARD_UNIT_COUNT; i++) {
        key_of(key, sizeof key, card_unit_name(i), "");
        json_u64(&j, key, s->unit_busy_ps[i]);
    }
    json_end_object(&j);
    json_faults(&j, r);
    snprintf(key, sizeof key, "%016" PRIx64, s->digest);
    json_string(&j, "digest", key);
    json_end_object(&j);
}
