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
static double offered_gbit(const struct spin_card_result *r) {
    return ratio(8000 * (r->bytes - r->last_bytes), r->last_ps - r->first_ps);
}

static double mean(const struct spin_spread *s) {
    return ratio(s->sum, s->count);
}

void card_print_parameters(const struct spin_card *card) {
    struct spin_parameter row;
    for (int i = 0; spin_card_parameter(card, i, &row); i++)
        printf("  %s = %s, %s (%s)\n", row.name, row.value, row.what, row.source);
}

/* ---- figures: a name, a number, a unit ---- */

struct figure {
    const char *name;
    uint64_t value;
};

/* The plain counts, in the order in which they are printed; CSV and JSON have the same names. */
#define COUNTS(X)                                                                                  \
    X(packets)                                                                                     \
    X(bytes)                                                                                       \
    X(taken)                                                                                       \
    X(completed)                                                                                   \
    X(bytes_completed)                                                                             \
    X(dropped)                                                                                     \
    X(refused)                                                                                     \
    X(marked)                                                                                      \
    X(stalled_offers)                                                                              \
    X(to_host)                                                                                     \
    X(to_host_bytes)                                                                               \
    X(dropped_by_rule)                                                                             \
    X(malformed)                                                                                   \
    X(other_handlers)                                                                              \
    X(cut_in_capture)                                                                              \
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
    X(events)                                                                                      \
    X(elapsed_ps)                                                                                  \
    X(throughput_mbit)                                                                             \
    X(hpu_busy_ps)                                                                                 \
    X(cluster_dma_busy_ps)

enum {
#define ROW(name) COUNT_##name,
    COUNTS(ROW)
#undef ROW
        COUNT_ROWS
};

static void counts(const struct spin_card_result *r, struct figure *to) {
    const struct figure rows[] = {
#define ROW(name) {#name, r->name},
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

static void line_ns(const char *name, const struct spin_spread *s) {
    if (s->count)
        printf("  %-18s mean %9.3f  p50 %9.3f  p99 %9.3f  max %9.3f\n", name, mean(s) / 1000,
               (double)s->p50 / 1000, (double)s->p99 / 1000, (double)s->most / 1000);
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
        printf("  %-48s %10" PRIu64 " packets\n", text, packets);
    if (r->no_rule)
        printf("  %-48s %10" PRIu64 " packets\n", "no rule: to the host", r->no_rule);
    for (uint32_t i = 0; (text = spin_card_malformed(p->card, i, &packets)); i++)
        if (packets)
            printf("  malformed: %-37s %10" PRIu64 " packets\n", text, packets);
}

static void print_packets(const struct spin_card_result *r) {
    printf("%-18s %" PRIu64 ", %" PRIu64 " bytes, offered at %.3f Gbit/s\n", "packets", r->packets,
           r->bytes, offered_gbit(r));
    printf("%-18s %" PRIu64 ", %" PRIu64 " bytes\n", "completed", r->completed, r->bytes_completed);
    printf("%-18s %" PRIu64 " refused, %" PRIu64 " of failed messages", "drops", r->refused,
           r->dropped);
    if (r->dropped_by_rule)
        printf(", %" PRIu64 " by rule", r->dropped_by_rule);
    printf("\n");
    if (r->to_host)
        printf("%-18s %" PRIu64 ", %" PRIu64 " bytes\n", "to the host", r->to_host,
               r->to_host_bytes);
    if (r->cut_in_capture)
        printf("%-18s %" PRIu64 " packets are in the capture only with their beginning\n",
               "cut short", r->cut_in_capture);
    if (r->other_handlers)
        printf("%-18s %" PRIu64 " packets name others than --handler has, which ran\n",
               "trace's handlers", r->other_handlers);
    if (r->marked)
        printf("%-18s %" PRIu64 "\n", "marked", r->marked);
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
        const struct spin_function *in = spin_image_at(image, f->pc);
        const char *file;
        int line;
        printf("  at %.3f ns: ctx%u, message %u", (double)f->at_ps / 1000, f->context, f->message);
        if (f->hpu == UINT32_MAX) {
            printf(" given up\n");
            continue;
        }
        printf(", HPU %u, %s handler: %s", f->hpu, card_kind_name(f->kind),
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
    const struct spin_card_result *r = p->result;
    printf("card %s, traffic %s\n", p->preset, p->traffic);
    card_print_parameters(p->card);
    for (uint32_t i = 0; i < p->contexts; i++)
        print_context(p, i);
    print_matching(p);
    print_packets(r);
    printf("latency, ns\n");
    line_ns(spin_card_part_name(SPIN_CARD_PART_LATENCY), &r->part[SPIN_CARD_PART_LATENCY]);
    line_ns(spin_card_part_name(SPIN_CARD_PART_TOTAL), &r->part[SPIN_CARD_PART_TOTAL]);
    printf("parts of it, ns\n");
    for (unsigned i = 0; i < SPIN_CARD_PART_LATENCY; i++)
        line_ns(spin_card_part_name(i), &r->part[i]);
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

static void csv_spread(const char *name, const struct spin_spread *s, const char *unit) {
    printf("%s_mean,%.3f,%s\n%s_min,%" PRIu64 ",%s\n%s_p50,%" PRIu64 ",%s\n", name, mean(s), unit,
           name, s->count ? s->least : 0, unit, name, s->p50, unit);
    printf("%s_p99,%" PRIu64 ",%s\n%s_max,%" PRIu64 ",%s\n", name, s->p99, unit, name, s->most,
           unit);
}

void card_print_csv(const struct run_report *p) {
    const struct spin_card_result *r = p->result;
    struct figure count[COUNT_ROWS];
    char key[80];
    counts(r, count);
    puts("name,value,unit");
    for (int i = 0; i < COUNT_ROWS; i++)
        printf("%s,%" PRIu64 ",%s\n", count[i].name, count[i].value, unit_of(count[i].name));
    for (unsigned i = 0; i < SPIN_CARD_PART_COUNT; i++) {
        key_of(key, sizeof key, spin_card_part_name(i), "");
        csv_spread(key, &r->part[i], "ps");
    }
    for (unsigned i = 0; i < SPIN_CARD_UNIT_COUNT; i++) {
        key_of(key, sizeof key, spin_card_unit_name(i), "_busy");
        printf("%s,%" PRIu64 ",ps\n", key, r->unit_busy_ps[i]);
    }
    for (unsigned k = 0; k < 3; k++) {
        const struct spin_card_handler *h = &r->handler[k];
        const char *kind = card_kind_name((enum spin_handler_kind)k);
        printf("%s_runs,%" PRIu64 ",\n%s_faults,%" PRIu64 ",\n", kind, h->runs, kind, h->faults);
        printf("%s_instructions,%" PRIu64 ",\n%s_commands,%" PRIu64 ",\n", kind, h->instructions,
               kind, h->commands);
        snprintf(key, sizeof key, "%s_cycles", kind);
        csv_spread(key, &h->spread, "cycles");
    }
}

/* ---- JSON ---- */

static void json_spread(struct json *j, const char *name, const struct spin_spread *s) {
    json_object(j, name);
    json_u64(j, "count", s->count);
    json_real(j, "mean", mean(s), 3);
    json_u64(j, "min", s->count ? s->least : 0);
    json_u64(j, "p50", s->p50);
    json_u64(j, "p99", s->p99);
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
        json_end_object(j);
    }
    json_end_array(j);
}

void card_print_json(const struct run_report *p) {
    const struct spin_card_result *r = p->result;
    struct json j = {.out = stdout};
    struct spin_parameter row;
    struct figure count[COUNT_ROWS];
    char key[80];
    json_object(&j, NULL);
    json_string(&j, "preset", p->preset);
    json_string(&j, "traffic", p->traffic);
    json_object(&j, "parameters");
    for (int i = 0; spin_card_parameter(p->card, i, &row); i++)
        json_string(&j, row.name, row.value);
    json_end_object(&j);
    counts(r, count);
    for (int i = 0; i < COUNT_ROWS; i++)
        json_u64(&j, count[i].name, count[i].value);
    json_real(&j, "offered_gbit_s", offered_gbit(r), 3);
    json_real(&j, "throughput_gbit_s", (double)r->throughput_mbit / 1000, 3);
    json_matching(&j, p);
    json_object(&j, "latency_ps");
    for (unsigned i = 0; i < SPIN_CARD_PART_COUNT; i++) {
        key_of(key, sizeof key, spin_card_part_name(i), "");
        json_spread(&j, key, &r->part[i]);
    }
    json_end_object(&j);
    json_handlers(&j, r);
    json_object(&j, "busy_ps");
    for (unsigned i = 0; i < SPIN_CARD_UNIT_COUNT; i++) {
        key_of(key, sizeof key, spin_card_unit_name(i), "");
        json_u64(&j, key, r->unit_busy_ps[i]);
    }
    json_end_object(&j);
    json_faults(&j, r);
    snprintf(key, sizeof key, "%016" PRIx64, r->digest);
    json_string(&j, "digest", key);
    json_end_object(&j);
}
