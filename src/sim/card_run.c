/* A run of the card of openspin.h: traffic in, matching, handlers, and files of what came of it. */
#include "sim/card_run.h"

#include <inttypes.h>

#include "base/error.h"
#include "nic/capture.h"
#include "sim/card_messages.h"
#include "base/trace.h"
#include "sim/traffic.h"

#define SLICE    200000 /* events between two looks at the progress */
#define MEASURED 10000  /* packets, likewise */

/* Rows of the trace. */
enum {
    ROW_INBOUND = 1,
    ROW_HPU = 10,
    ROW_DMA = 2000,
    ROW_OUTBOUND = 3000,
    ROW_HOST = 3010,
    ROW_DONE = 3020,
    ROW_REFUSED
};

struct run {
    const struct spin_card_options *o;
    struct spin_card *s;
    struct traffic *traffic; /* NULL: packets come from o->next */
    enum nic_link link;
    uint64_t start_ps; /* arrivals count from there */
    struct capture out, host_out;
    struct trace trace;
    struct file_out packets;
    struct card_messages messages;
    uint64_t through;   /* packets that are done with, whatever became of them */
    bool need_messages; /* a context wants to know message lengths and offsets */
    int code;           /* of the source, which cannot return it */
    struct spin_error *err;
};

/* ---- packets in ---- */

/* The next packet, from wherever they come: 1, 0 after the last one, or an error. */
static int draw(struct run *run, struct spin_card_packet *p, struct traffic_packet *from) {
    *p = (struct spin_card_packet){0};
    *from = (struct traffic_packet){0};
    if (!run->traffic)
        return run->o->next(run->o->user, p);
    int code = traffic_next(run->traffic, from, run->err);
    *p = (struct spin_card_packet){.arrival_ps = from->arrival_ps,
                                   .bytes = from->bytes,
                                   .length = from->length,
                                   .message = from->message,
                                   .end_of_message = from->end_of_message,
                                   .source = from->flow};
    return code;
}

static struct nic_verdict judge(const struct run *run, const struct spin_card_packet *p) {
    uint32_t none = run->s->contexts; /* the card refuses a packet for it */
    if (!run->s->match)
        return (struct nic_verdict){.target = (int32_t)(p->context < none ? p->context : none),
                                    .rule = -1};
    return nic_match_packet(run->s->match, run->link, p->bytes, p->length);
}

static void to_host(struct run *run, const struct spin_card_packet *p) {
    run->s->so_far.to_host++;
    run->s->so_far.to_host_bytes += p->length;
    if (run->host_out.file.stream)
        capture_write(&run->host_out, p->arrival_ps / 1000, p->bytes, p->length, NULL);
    if (run->o->to_host)
        run->o->to_host(run->o->user, p);
}

/* The packet is done with. A row of --packets: times are those that there are. */
static void packet_row(struct run *run, uint64_t number, const char *context,
                       const struct spin_card_done *d) {
    char request[24] = "", completion[24] = "";
    run->through++;
    bool refused = d->fate >= SPIN_CARD_FATE_BUFFER_FULL && d->fate <= SPIN_CARD_FATE_BAD_PACKET;
    if (!refused && d->request_ps)
        snprintf(request, sizeof request, "%" PRIu64, d->request_ps);
    if (d->completion_ps)
        snprintf(completion, sizeof completion, "%" PRIu64, d->completion_ps);
    if (run->packets.stream)
        fprintf(run->packets.stream, "%" PRIu64 ",%s,%u,%u,%" PRIu64 ",%s,%s,%s,%s\n", number,
                context, d->message, d->length, d->arrival_ps, request, completion,
                spin_card_fate_outcome(d->fate), spin_card_fate_reason(d->fate));
}

/* By a rule, or because none takes it: the packet never comes to a context. */
static void stays_out(struct run *run, const struct spin_card_packet *p, unsigned fate) {
    run->s->so_far.fate[fate]++;
    packet_row(
        run, run->s->so_far.packets - 1, "",
        &(struct spin_card_done){
            .message = p->message, .length = p->length, .arrival_ps = p->arrival_ps, .fate = fate});
}

/* A trace may name handlers by address; --handler decides, but who reads the result shall know. */
static bool names_others(const struct run *run, uint32_t context,
                         const struct traffic_handlers *named) {
    if (!named || context >= run->s->contexts)
        return false;
    const uint32_t *entry = run->s->context[context].entry;
    return named->header_address != entry[SPIN_HEADER_HANDLER] ||
           named->payload_address != entry[SPIN_PAYLOAD_HANDLER] ||
           named->completion_address != entry[SPIN_COMPLETION_HANDLER];
}

/* Judges a packet that arrives, and counts what was found. Returns its context, or below 0. */
static int32_t receive(struct run *run, const struct spin_card_packet *p) {
    struct spin_card_result *r = &run->s->so_far;
    if (r->packets++ == 0)
        r->first_ps = p->arrival_ps;
    r->last_ps = p->arrival_ps;
    r->last_bytes = p->length;
    r->bytes += p->length;
    struct nic_verdict v = judge(run, p);
    if (!run->s->match)
        return v.target;
    if (v.fault != HEADERS_NONE) {
        run->s->malformed[v.fault]++;
        r->malformed++;
    }
    if (v.rule >= 0)
        run->s->by_rule[v.rule]++;
    else
        r->no_rule++;
    if (v.target == NIC_TO_HOST)
        to_host(run, p);
    else if (v.target == NIC_TO_DROP)
        r->dropped_by_rule++;
    if (v.target < 0)
        stays_out(run, p,
                  v.target == NIC_TO_DROP ? SPIN_CARD_FATE_RULE_DROP
                  : v.rule >= 0           ? SPIN_CARD_FATE_RULE_HOST
                                          : SPIN_CARD_FATE_NO_RULE);
    return v.target;
}

#define MOST_TRAFFICS 64
static int open_traffic(const struct spin_card_options *o, struct traffic **out,
                        struct spin_error *err) {
    const char *specs[MOST_TRAFFICS + 1] = {o->traffic};
    for (int i = 0; o->more_traffic && o->more_traffic[i]; i++) {
        if (i + 2 > MOST_TRAFFICS)
            return spin_fail(err, SPIN_ELIMIT, "more than %d traffic specs", MOST_TRAFFICS);
        specs[i + 1] = o->more_traffic[i];
    }
    return traffic_open_all(out, specs, err);
}

/* Once over the traffic: how long every message is. */
static int measure_messages(struct run *run) {
    struct traffic *t = run->traffic;
    struct traffic_packet from;
    struct spin_card_packet p;
    uint64_t drawn = 0, of = traffic_packets(t);
    int code = open_traffic(run->o, &run->traffic, run->err);
    while (!code && (code = draw(run, &p, &from)) > 0) {
        if (++drawn % MEASURED == 0 && run->o->progress)
            run->o->progress(run->o->user, SPIN_CARD_MEASURES, drawn, of);
        int32_t to = judge(run, &p).target;
        bool good = to < 0 || messages_measure(&run->messages, (uint32_t)to, p.message, p.length,
                                               p.end_of_message);
        code = good ? SPIN_OK : spin_fail(run->err, SPIN_ENOMEM, "out of memory for messages");
    }
    if (!code && run->o->progress)
        run->o->progress(run->o->user, SPIN_CARD_MEASURES, drawn, of);
    traffic_close(run->traffic);
    run->traffic = t;
    messages_rewind(&run->messages);
    return code;
}

/* What the P4sPIN header of a packet from a file says. */
static int describe(struct run *run, uint32_t context, struct spin_card_packet *p) {
    struct card_message *at = messages_find(&run->messages, context, p->message);
    if (!at)
        return spin_fail(run->err, SPIN_ENOMEM, "out of memory for messages");
    if (run->messages.bytes[at->begun] > UINT32_MAX)
        return spin_fail(run->err, SPIN_ELIMIT,
                         "message %u is over the limit of 4 GiB of a P4sPIN header", p->message);
    p->message_bytes = (uint32_t)run->messages.bytes[at->begun];
    p->offset = at->offset;
    at->offset += p->length;
    if (p->end_of_message)
        messages_forget(&run->messages, at);
    return SPIN_OK;
}

static bool next_packet(void *user, struct card_packet *packet) {
    struct run *run = user;
    struct traffic_packet from;
    struct spin_card_packet p;
    int32_t to = NIC_TO_HOST;
    while (to < 0) {
        run->code = draw(run, &p, &from);
        if (run->code <= 0)
            return false;
        run->code = SPIN_OK;
        if (p.arrival_ps >= SIM_LATEST_PS - run->start_ps) {
            run->code = spin_fail(run->err, SPIN_ELIMIT,
                                  "packet %llu arrives beyond the limit of simulated time, 53 days",
                                  (unsigned long long)run->s->so_far.packets);
            return false;
        }
        p.arrival_ps += run->start_ps;
        to = receive(run, &p);
    }
    run->s->so_far.other_handlers += names_others(run, (uint32_t)to, from.handlers);
    if (run->need_messages && (run->code = describe(run, (uint32_t)to, &p)))
        return false;
    *packet = (struct card_packet){
        .context = (uint32_t)to,
        .message = p.message,
        .bytes = p.bytes,
        .length = p.length,
        .eom = p.end_of_message,
        .arrival_ps = p.arrival_ps,
        /* the number of a packet from a file, and for the digest its
         * length, come back with the feedback */
        .user = run->traffic ? (run->s->so_far.packets - 1) << 17 | p.length : p.user,
        .partial_copy = run->traffic && from.copy_bytes < p.length,
        .l1_bytes = from.copy_bytes,
        .message_bytes = p.message_bytes ? p.message_bytes : p.length,
        .offset = p.offset,
        .source = p.source};
    return true;
}

/* ---- what comes out ---- */

static void on_packet_out(void *user, const struct card_out *out, uint64_t at_ps) {
    struct run *run = user;
    if (run->out.file.stream && out->length)
        capture_write(&run->out, at_ps / 1000, out->bytes, out->length, NULL);
    if (run->o->sent)
        run->o->sent(run->o->user, &(struct spin_card_sent){.at_ps = at_ps,
                                                            .context = out->context,
                                                            .message = out->message,
                                                            .command = out->command,
                                                            .bytes = out->bytes,
                                                            .length = out->length});
}

static void tell_done(struct run *run, const struct spin_card_done *done) {
    char context[12];
    snprintf(context, sizeof context, "%u", done->context);
    packet_row(run, done->user, context, done);
    if (run->o->done)
        run->o->done(run->o->user, done);
}

static void on_feedback(void *user, const struct card_feedback *f) {
    struct run *run = user;
    struct spin_card_done done = {.user = run->traffic ? f->user >> 17 : f->user,
                                  .context = f->context,
                                  .message = f->message,
                                  .length = f->length,
                                  .arrival_ps = f->nic_arrival_ps,
                                  .request_ps = f->pspin_arrival_ps,
                                  .completion_ps = f->completion_ps,
                                  .dropped = f->dropped,
                                  .marked = f->marked,
                                  .fate = f->fate};
    tell_done(run, &done);
}

static void on_refused(void *user, const struct card_packet *p, enum spin_card_fate why,
                       uint64_t at_ps) {
    struct run *run = user;
    tell_done(run, &(struct spin_card_done){.user = run->traffic ? p->user >> 17 : p->user,
                                            .context = p->context,
                                            .message = p->message,
                                            .length = p->length,
                                            .arrival_ps = p->arrival_ps,
                                            .request_ps = at_ps,
                                            .completion_ps = at_ps,
                                            .dropped = true,
                                            .fate = why});
}

static void on_fault(void *user, const struct card_fault *f, uint64_t at_ps) {
    struct run *run = user;
    struct spin_card_result *r = &run->s->so_far;
    struct spin_card_fault fault = {.at_ps = at_ps,
                                    .context = f->context,
                                    .message = f->message,
                                    .hpu = f->hpu,
                                    .kind = f->kind,
                                    .ending = f->ending,
                                    .pc = f->pc,
                                    .address = f->address,
                                    .refusal = f->refusal,
                                    .value = f->value};
    if (r->faults_told < SPIN_CARD_FAULTS)
        r->fault[r->faults_told++] = fault;
    if (run->o->fault)
        run->o->fault(run->o->user, &fault);
}

static void on_span(void *user, const struct card_span *s) {
    static const uint32_t first[] = {
        [CARD_ROW_INBOUND] = ROW_INBOUND, [CARD_ROW_HPU] = ROW_HPU,
        [CARD_ROW_CLUSTER_DMA] = ROW_DMA, [CARD_ROW_OUTBOUND] = ROW_OUTBOUND,
        [CARD_ROW_HOST] = ROW_HOST,       [CARD_ROW_DONE] = ROW_DONE,
        [CARD_ROW_REFUSED] = ROW_REFUSED};
    struct run *run = user;
    uint32_t row = first[s->row] + s->index;
    char name[120]; /* "forward_ph", or "forward_ph: SEGV" */
    snprintf(name, sizeof name, "%s%s%s", s->name, s->fault ? ": " : "", s->fault ? s->fault : "");
    const struct trace_packet of = {.packet = run->traffic ? s->user >> 17 : s->user,
                                    .arrival_ps = s->arrival_ps,
                                    .message = s->message,
                                    .context = s->context,
                                    .flow = s->flow};
    trace_packet_box(&run->trace, 0, row, name, s->start_ps, s->end_ps - s->start_ps, s->bytes,
                     &of);
    if (s->row != CARD_ROW_REFUSED)
        trace_step(&run->trace,
                   s->row == CARD_ROW_INBOUND ? TRACE_FIRST
                   : s->row == CARD_ROW_DONE  ? TRACE_LAST
                                              : TRACE_NEXT,
                   s->way + 1, (struct trace_end){0, row, s->start_ps});
}

static void on_step(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint32_t cycles) {
    struct run *run = user;
    run->o->step(run->o->user, context, hpu, pc, cycles);
}

static void on_stall(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint64_t cycles) {
    struct run *run = user;
    run->o->stall(run->o->user, context, hpu, pc, cycles);
}

static void name_rows(struct run *run) {
    struct trace *t = &run->trace;
    const struct card_config *c = &run->s->config;
    trace_process(t, 0, "card");
    trace_row(t, 0, ROW_INBOUND, "inbound link", 0);
    for (uint32_t i = 0; i < c->clusters * c->cluster_hpus; i++)
        trace_row(t, 0, ROW_HPU + i, "HPU", i);
    for (uint32_t i = 0; i < c->clusters; i++)
        trace_row(t, 0, ROW_DMA + i, "cluster DMA", i);
    trace_row(t, 0, ROW_OUTBOUND, "outbound link", 0);
    trace_row(t, 0, ROW_HOST, "host interface", 0);
    trace_row(t, 0, ROW_HOST + 1, "host interface", 1);
    trace_row(t, 0, ROW_DONE, "done", 0);
    trace_row(t, 0, ROW_REFUSED, "refused", 0);
}

/* ---- the run ---- */

static int open_files(struct run *run) {
    const struct spin_card_options *o = run->o;
    int code = SPIN_OK;
    if (o->out)
        code = capture_open(&run->out, o->out, run->link, run->err);
    if (!code && o->host_out)
        code = capture_open(&run->host_out, o->host_out, run->link, run->err);
    if (!code && o->packets && !(code = file_out_open(&run->packets, o->packets, run->err)))
        fputs("packet,context,message,bytes,arrival_ps,request_ps,completion_ps,outcome,reason\n",
              run->packets.stream);
    if (!code && o->trace && !(code = trace_open(&run->trace, o->trace, run->err)))
        name_rows(run);
    return code;
}

/* Completes the files if all went well so far. */
static int close_files(struct run *run, int code) {
    int closed = capture_close(&run->out, !code, run->err);
    code = code ? code : closed;
    closed = capture_close(&run->host_out, !code, run->err);
    code = code ? code : closed;
    closed = trace_close(&run->trace, !code, run->err);
    code = code ? code : closed;
    if (run->packets.stream && !code)
        code = file_out_commit(&run->packets, run->err);
    else
        file_out_abandon(&run->packets);
    return code;
}

static int simulate(struct run *run) {
    struct spin_card *s = run->s;
    uint64_t handled = UINT64_MAX, of = run->traffic ? traffic_packets(run->traffic) : 0;
    int code = SPIN_OK;
    const struct card_callbacks callbacks = {.user = run,
                                             .packet_out = on_packet_out,
                                             .feedback = on_feedback,
                                             .refused = on_refused,
                                             .fault = on_fault,
                                             .step = run->o->step ? on_step : NULL,
                                             .stall = run->o->stall ? on_stall : NULL,
                                             .span = run->o->trace ? on_span : NULL};
    card_set_callbacks(s->card, &callbacks);
    card_feed(s->card, next_packet, run);
    while (!code && !run->code && sim_engine_counts(s->engine).handled != handled) {
        handled = sim_engine_counts(s->engine).handled;
        code = sim_run(s->engine, SIM_FOREVER, SLICE, run->err);
        if (run->o->progress)
            run->o->progress(run->o->user, SPIN_CARD_RUNS, run->through, of);
    }
    card_set_callbacks(s->card, &(struct card_callbacks){0});
    if (run->code < 0)
        return run->code;
    return code ? code : card_idle(s->card, run->err);
}

static int check(const struct spin_card *s, const struct spin_card_options *o,
                 struct spin_error *err) {
    if (!s->contexts)
        return spin_fail(err, SPIN_EARG, "the card has no execution context");
    if (s->stopped)
        return spin_fail(err, SPIN_EARG, "the card was stopped by an error; make another");
    if (!o->traffic == !o->next)
        return spin_fail(err, SPIN_EARG, "a run needs a traffic spec or a source, one of them");
    return SPIN_OK;
}

int spin_card_run(struct spin_card *s, const struct spin_card_options *options,
                  struct spin_error *err) {
    int code = check(s, options, err);
    if (code)
        return code;
    struct run run = {.o = options,
                      .s = s,
                      .link = options->ethernet ? NIC_LINK_ETHERNET : NIC_LINK_IP,
                      .start_ps = sim_engine_counts(s->engine).now_ps,
                      .err = err};
    if (options->traffic && !(code = open_traffic(options, &run.traffic, err)))
        run.link = traffic_link(run.traffic);
    for (uint32_t i = 0; i < s->contexts; i++)
        run.need_messages |= run.traffic && s->context[i].abi == CARD_P4SPIN;
    if (!code && run.need_messages)
        code = measure_messages(&run);
    if (!code)
        code = open_files(&run);
    if (!code) {
        code = simulate(&run);
        s->stopped = code != SPIN_OK;
    }
    if (!code && run.traffic) {
        s->so_far.cut_in_capture += traffic_cut_packets(run.traffic);
        s->so_far.late_in_capture += traffic_late_packets(run.traffic);
    }
    code = close_files(&run, code);
    traffic_close(run.traffic);
    messages_free(&run.messages);
    return code;
}
