#include "sim/card_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sim/capture.h"
#include "sim/trace.h"
#include "sim/traffic.h"

#define SLICE 200000 /* events between two looks at the progress */

/* Rows of the trace. */
enum { ROW_INBOUND = 1, ROW_HPU = 10, ROW_DMA = 2000, ROW_OUTBOUND = 3000, ROW_HOST = 3010 };

/* Messages under way, by context and id: what P4sPIN's descriptors say of each packet. */
struct message {
    uint64_t key; /* context << 32 | id, + 1; 0: empty */
    uint64_t begun;
    uint32_t offset;
};

struct messages {
    struct message *slot;
    uint64_t slots, used, begun;
    uint32_t *bytes; /* of the n-th message that begins */
    uint64_t room;
};

struct run {
    const struct card_run_options *o;
    struct card_run_result *r;
    struct sim_engine *engine;
    struct card *card;
    struct traffic *traffic;
    struct capture out;
    struct trace trace;
    struct file_out packets;
    struct messages messages;
    bool need_messages; /* a context wants to know message lengths and offsets */
    int code;           /* of the source, which cannot return it */
    struct spin_error *err;
};

/* ---- messages ---- */

static struct message *find_slot(struct message *slot, uint64_t slots, uint64_t key) {
    uint64_t h = key * 0x9e3779b97f4a7c15ull;
    for (uint64_t i = h >> 32;; i++)
        if (slot[i & (slots - 1)].key == key || !slot[i & (slots - 1)].key)
            return &slot[i & (slots - 1)];
}

static bool grow(struct messages *m) {
    uint64_t slots = m->slots ? 2 * m->slots : 256;
    struct message *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return false;
    for (uint64_t i = 0; i < m->slots; i++)
        if (m->slot[i].key)
            *find_slot(slot, slots, m->slot[i].key) = m->slot[i];
    free(m->slot);
    m->slot = slot;
    m->slots = slots;
    return true;
}

/* Takes an ended message out, and moves those behind it up that would no longer be found. */
static void forget(struct messages *m, struct message *at) {
    uint64_t mask = m->slots - 1, hole = (uint64_t)(at - m->slot);
    for (uint64_t i = (hole + 1) & mask; m->slot[i].key; i = (i + 1) & mask) {
        uint64_t home = (m->slot[i].key * 0x9e3779b97f4a7c15ull >> 32) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slot[hole] = m->slot[i];
            hole = i;
        }
    }
    m->slot[hole].key = 0;
    m->used--;
}

/* The message of a packet, which may be its first. NULL: no memory. */
static struct message *message_of(struct messages *m, uint32_t context, uint32_t id) {
    if (2 * m->used >= m->slots && !grow(m))
        return NULL;
    uint64_t key = ((uint64_t)context << 32 | id) + 1;
    struct message *at = find_slot(m->slot, m->slots, key);
    if (!at->key) {
        m->used++;
        *at = (struct message){key, m->begun++, 0};
    }
    return at;
}

static bool room_for(struct messages *m) {
    if (m->begun <= m->room)
        return true;
    uint64_t room = m->room ? 2 * m->room : 1024;
    uint32_t *bytes = realloc(m->bytes, room * sizeof *bytes);
    if (!bytes)
        return false;
    memset(bytes + m->room, 0, (room - m->room) * sizeof *bytes);
    m->bytes = bytes;
    m->room = room;
    return true;
}

/* ---- packets in ---- */

/* Where a packet goes: a context, or below 0. */
static int32_t judge(struct run *run, const struct traffic_packet *p) {
    const struct card_run_options *o = run->o;
    if (!o->match)
        return 0;
    return nic_match_packet(o->match, run->r->link, p->bytes, p->length).target;
}

/* Judges a packet that arrives, and counts what was found. */
static int32_t judge_and_count(struct run *run, const struct traffic_packet *p) {
    struct card_run_result *r = run->r;
    if (r->packets++ == 0)
        r->first_ps = p->arrival_ps;
    r->last_ps = p->arrival_ps;
    r->last_bytes = p->length;
    r->bytes += p->length;
    if (!run->o->match)
        return 0;
    struct nic_verdict v = nic_match_packet(run->o->match, r->link, p->bytes, p->length);
    if (v.fault != HEADERS_NONE) {
        r->malformed[v.fault]++;
        r->malformed_packets++;
    }
    if (v.rule >= 0)
        r->by_rule[v.rule]++;
    else
        r->by_no_rule++;
    if (v.target == NIC_TO_HOST) {
        r->to_host++;
        r->to_host_bytes += p->length;
    } else if (v.target == NIC_TO_DROP) {
        r->matched_drop++;
    }
    return v.target;
}

/* Once over the traffic: how long every message is. */
static int measure_messages(struct run *run) {
    struct messages *m = &run->messages;
    struct traffic *t;
    struct traffic_packet p;
    int code = traffic_open(&t, run->o->traffic, run->err);
    if (code)
        return code;
    run->r->link = traffic_link(t);
    while ((code = traffic_next(t, &p, run->err)) > 0) {
        int32_t to = judge(run, &p);
        struct message *at = to < 0 ? NULL : message_of(m, (uint32_t)to, p.message);
        if (to >= 0 && (!at || !room_for(m))) {
            code = spin_fail(run->err, SPIN_ENOMEM, "out of memory for messages");
            break;
        }
        if (at && __builtin_add_overflow(m->bytes[at->begun], p.length, &m->bytes[at->begun])) {
            code = spin_fail(run->err, SPIN_ELIMIT,
                             "message %u is over the limit of 4 GiB of a P4sPIN header", p.message);
            break;
        }
        if (at && p.end_of_message)
            forget(m, at);
    }
    traffic_close(t);
    free(m->slot);
    m->slot = NULL;
    m->slots = m->used = m->begun = 0;
    return code;
}

static bool next_packet(void *user, struct card_packet *packet) {
    struct run *run = user;
    struct traffic_packet p;
    int32_t to = NIC_TO_HOST;
    while (to < 0) {
        run->code = traffic_next(run->traffic, &p, run->err);
        if (run->code <= 0)
            return false;
        run->code = SPIN_OK;
        to = judge_and_count(run, &p);
    }
    *packet = (struct card_packet){.context = (uint32_t)to,
                                   .message = p.message,
                                   .bytes = p.bytes,
                                   .length = p.length,
                                   .eom = p.end_of_message,
                                   .arrival_ps = p.arrival_ps,
                                   /* the packet's number and length come back with the feedback */
                                   .user = (run->r->packets - 1) << 17 | p.length,
                                   .message_bytes = p.length,
                                   .source = p.flow};
    if (run->need_messages) {
        struct message *at = message_of(&run->messages, (uint32_t)to, p.message);
        if (!at) {
            run->code = spin_fail(run->err, SPIN_ENOMEM, "out of memory for messages");
            return false;
        }
        packet->message_bytes = run->messages.bytes[at->begun];
        packet->offset = at->offset;
        at->offset += p.length;
        if (p.end_of_message)
            forget(&run->messages, at);
    }
    return true;
}

/* ---- what comes out ---- */

static void on_packet_out(void *user, const struct card_out *out, uint64_t at_ps) {
    struct run *run = user;
    if (run->out.file.stream && out->length)
        capture_write(&run->out, at_ps, out->bytes, out->length);
}

static void on_feedback(void *user, const struct card_feedback *f) {
    struct run *run = user;
    if (run->packets.stream)
        fprintf(run->packets.stream,
                "%" PRIu64 ",%u,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%s\n",
                f->user >> 17, f->context, f->message, f->user & 0x1ffff, f->nic_arrival_ps,
                f->pspin_arrival_ps, f->completion_ps,
                f->dropped  ? "dropped"
                : f->marked ? "marked"
                            : "done");
}

static void on_fault(void *user, const struct card_fault *fault, uint64_t at_ps) {
    struct run *run = user;
    for (int i = 0; i < CARD_RUN_FAULTS; i++)
        if (!run->r->fault[i].at_ps) { /* no fault is at time 0: a packet arrives first */
            run->r->fault[i] = (struct card_run_fault){*fault, at_ps};
            return;
        }
}

static void on_span(void *user, enum card_row row, uint32_t index, const char *name,
                    uint64_t start_ps, uint64_t end_ps, uint32_t bytes) {
    static const uint32_t first[] = {[CARD_ROW_INBOUND] = ROW_INBOUND,
                                     [CARD_ROW_HPU] = ROW_HPU,
                                     [CARD_ROW_CLUSTER_DMA] = ROW_DMA,
                                     [CARD_ROW_OUTBOUND] = ROW_OUTBOUND,
                                     [CARD_ROW_HOST] = ROW_HOST};
    struct run *run = user;
    trace_box(&run->trace, 0, first[row] + index, name, start_ps, end_ps - start_ps, bytes, -1);
}

static void on_step(void *user, uint32_t context, uint32_t hpu, uint32_t pc, uint32_t cycles) {
    struct run *run = user;
    (void)hpu;
    run->o->step(run->o->step_context, context, pc, cycles);
}

static void name_rows(struct run *run) {
    struct trace *t = &run->trace;
    const struct card_config *c = &run->o->config;
    trace_process(t, 0, "card");
    trace_row(t, 0, ROW_INBOUND, "inbound link", 0);
    for (uint32_t i = 0; i < c->clusters * c->cluster_hpus; i++)
        trace_row(t, 0, ROW_HPU + i, "HPU", i);
    for (uint32_t i = 0; i < c->clusters; i++)
        trace_row(t, 0, ROW_DMA + i, "cluster DMA", i);
    trace_row(t, 0, ROW_OUTBOUND, "outbound link", 0);
    trace_row(t, 0, ROW_HOST, "host interface", 0);
    trace_row(t, 0, ROW_HOST + 1, "host interface", 1);
}

/* ---- the run ---- */

static int open_files(struct run *run) {
    const struct card_run_options *o = run->o;
    int code = SPIN_OK;
    if (o->out)
        code = capture_open(&run->out, o->out, run->r->link, run->err);
    if (!code && o->packets && !(code = file_out_open(&run->packets, o->packets, run->err)))
        fputs("packet,context,message,bytes,arrival_ps,request_ps,completion_ps,outcome\n",
              run->packets.stream);
    if (!code && o->trace && !(code = trace_open(&run->trace, o->trace, run->err)))
        name_rows(run);
    return code;
}

/* Completes the files if all went well so far. */
static int close_files(struct run *run, int code) {
    int closed = capture_close(&run->out, !code, run->err);
    code = code ? code : closed;
    closed = trace_close(&run->trace, !code, run->err);
    code = code ? code : closed;
    if (run->packets.stream && !code)
        code = file_out_commit(&run->packets, run->err);
    else
        file_out_abandon(&run->packets);
    return code;
}

static int build(struct run *run) {
    const struct card_run_options *o = run->o;
    const struct card_callbacks callbacks = {.user = run,
                                             .packet_out = on_packet_out,
                                             .feedback = on_feedback,
                                             .fault = on_fault,
                                             .step = o->step ? on_step : NULL,
                                             .span = o->trace ? on_span : NULL};
    run->engine = sim_engine_new(run->err);
    if (!run->engine)
        return SPIN_ENOMEM;
    int code = card_new(&run->card, run->engine, &o->config, &callbacks, run->err);
    for (uint32_t i = 0; i < o->contexts && !code; i++) {
        uint32_t number;
        code = card_add_context(run->card, &o->context[i], &number, run->err);
        run->need_messages |= o->context[i].abi == CARD_P4SPIN;
    }
    return code;
}

static int simulate(struct run *run) {
    const struct card_run_options *o = run->o;
    uint64_t handled = UINT64_MAX;
    int code = SPIN_OK;
    card_feed(run->card, next_packet, run);
    while (!code && !run->code && sim_engine_counts(run->engine).handled != handled) {
        handled = sim_engine_counts(run->engine).handled;
        code = sim_run(run->engine, SIM_FOREVER, SLICE, run->err);
        if (o->progress)
            o->progress(o->progress_context, run->r->packets, traffic_packets(run->traffic));
    }
    if (run->code < 0)
        return run->code;
    return code ? code : card_idle(run->card, run->err);
}

static void conclude(struct run *run) {
    struct card_run_result *r = run->r;
    card_stats(run->card, &r->stats);
    r->cut_packets = traffic_cut_packets(run->traffic);
    r->events = sim_engine_counts(run->engine).handled;
    r->cycles = card_cycles(run->card);
    r->captured = run->out.packets;
    r->hpus = run->o->config.clusters * run->o->config.cluster_hpus;
    r->hpu_least_ps = UINT64_MAX;
    for (uint32_t i = 0; i < r->hpus; i++) {
        uint64_t busy = card_hpu_busy_ps(run->card, i);
        r->hpu_least_ps = busy < r->hpu_least_ps ? busy : r->hpu_least_ps;
        r->hpu_most_ps = busy > r->hpu_most_ps ? busy : r->hpu_most_ps;
    }
}

int card_run(const struct card_run_options *options, struct card_run_result *result,
             struct spin_error *err) {
    *result = (struct card_run_result){0};
    struct run run = {.o = options, .r = result, .err = err};
    int code = traffic_open(&run.traffic, options->traffic, err);
    if (!code) {
        result->link = traffic_link(run.traffic);
        code = build(&run);
    }
    if (!code && run.need_messages)
        code = measure_messages(&run);
    if (!code)
        code = open_files(&run);
    if (!code)
        code = simulate(&run);
    if (!code)
        conclude(&run);
    code = close_files(&run, code);
    card_free(run.card);
    sim_engine_free(run.engine);
    traffic_close(run.traffic);
    free(run.messages.slot);
    free(run.messages.bytes);
    return code;
}
