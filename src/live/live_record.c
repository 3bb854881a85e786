#include "live/live_record.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/trace.h"
#include "nic/wire_capture.h"

#define NOTES        16384u /* boxes in memory */
#define BUFFER_BYTES (1u << 20)
#define HPUS         1024u
#define PATH_BYTES   1024u

/* A box, and the end of an arrow in it: `id` not 0. */
struct note {
    uint64_t began_ns, ended_ns, bytes, id;
    const char *name;
    int64_t peer;
    uint32_t row;
    enum trace_step step;
};

struct live_record {
    pthread_mutex_t lock;
    struct live_record_options o;
    struct wire_capture pcap;
    struct trace trace;
    uint64_t realtime_ns; /* less CLOCK_MONOTONIC */
    bool pcaps, traces, dirty;
    uint64_t named[(RECORD_HPU + HPUS) / 64 + 1]; /* rows */
    uint32_t notes;
    struct note note[NOTES];
};

/* ---- names of files ---- */

/* The same name for all ranks would leave the file of one of them. */
static int name_file(char *path, size_t room, const char *variable, const char *pattern,
                     const struct live_record_options *o, struct spin_error *err) {
    size_t used = 0;
    bool own = o->ranks <= 1;
    for (const char *at = pattern; *at && used < room; at++) {
        int wrote = 1;
        if (*at != '%')
            path[used] = *at;
        else if (at[1] == 'r')
            wrote = snprintf(path + used, room - used, "%u", o->rank);
        else if (at[1] == 'p')
            wrote = snprintf(path + used, room - used, "%ld", (long)getpid());
        else if (at[1] == '%')
            path[used] = '%';
        else
            return spin_fail(err, SPIN_EARG,
                             "%s: '%.100s': after %% comes r (the rank), p (the process) or %%",
                             variable, pattern);
        if (*at == '%') {
            own |= at[1] != '%';
            at++;
        }
        used += (size_t)wrote;
    }
    if (used >= room)
        return spin_fail(err, SPIN_EARG, "%s: '%.60s' is no name of a file", variable, pattern);
    path[used] = 0;
    return own ? 0
               : spin_fail(err, SPIN_EARG,
                           "%s: '%.100s' is one file for %u ranks; write %%r where each has its "
                           "number",
                           variable, pattern, o->ranks);
}

int live_record_check(const char *pcap, const char *trace, uint32_t ranks, struct spin_error *err) {
    const struct live_record_options o = {.ranks = ranks};
    char path[PATH_BYTES];
    int code = pcap ? name_file(path, sizeof path, "OPENSPIN_PCAP", pcap, &o, err) : 0;
    if (!code && trace)
        code = name_file(path, sizeof path, "OPENSPIN_TRACE", trace, &o, err);
    return code;
}

/* ---- opening and closing ---- */

static int open_pcap(struct live_record *r, struct spin_error *err) {
    char path[PATH_BYTES];
    int code = name_file(path, sizeof path, "OPENSPIN_PCAP", r->o.pcap, &r->o, err);
    r->pcap.port = r->o.port;
    r->pcap.mtu_bytes = r->o.mtu_bytes;
    if (!code)
        code = wire_capture_open(&r->pcap, path, err);
    if (!code)
        setvbuf(r->pcap.file.file.stream, NULL, _IOFBF, BUFFER_BYTES);
    r->pcaps = !code;
    return code;
}

static int open_trace(struct live_record *r, struct spin_error *err) {
    char path[PATH_BYTES];
    int code = name_file(path, sizeof path, "OPENSPIN_TRACE", r->o.trace, &r->o, err);
    if (!code)
        code = trace_open(&r->trace, path, err);
    if (!code)
        trace_process(&r->trace, r->o.rank, "rank");
    r->traces = !code;
    return code;
}

int live_record_open(struct live_record **out, const struct live_record_options *o,
                     struct spin_error *err) {
    struct timespec real;
    *out = NULL;
    if (!o->pcap && !o->trace)
        return 0;
    struct live_record *r = calloc(1, sizeof *r);
    if (!r)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    pthread_mutex_init(&r->lock, NULL);
    clock_gettime(CLOCK_REALTIME, &real);
    r->realtime_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec - live_now_ns();
    r->o = *o;
    int code = o->pcap ? open_pcap(r, err) : 0;
    if (!code && o->trace)
        code = open_trace(r, err);
    if (!code) {
        *out = r;
        return 0;
    }
    capture_close(&r->pcap.file, false, err);
    live_record_free(r);
    return code;
}

/* ---- writing ---- */

static void name_row(struct live_record *r, uint32_t row) {
    static const char *const names[] = {"CPU", "NIC out", "NIC in", "DMA"};
    if (r->named[row / 64] >> row % 64 & 1)
        return;
    r->named[row / 64] |= 1ull << row % 64;
    trace_row(&r->trace, r->o.rank, row + 1, row < RECORD_HPU ? names[row] : "HPU",
              row < RECORD_HPU ? 0 : row - RECORD_HPU);
}

static uint64_t ps_of(const struct live_record *r, uint64_t ns) {
    return ns > r->o.start_ns ? (ns - r->o.start_ns) * 1000 : 0;
}

static void write_notes(struct live_record *r) {
    for (uint32_t i = 0; i < r->notes; i++) {
        const struct note *n = &r->note[i];
        uint64_t began_ps = ps_of(r, n->began_ns);
        name_row(r, n->row);
        trace_box(&r->trace, r->o.rank, n->row + 1, n->name, began_ps,
                  (n->ended_ns - n->began_ns) * 1000, n->bytes, n->peer);
        if (n->id)
            trace_step(&r->trace, n->step, n->id,
                       (struct trace_end){r->o.rank, n->row + 1, began_ps});
    }
    r->notes = 0;
}

static void add_note(struct live_record *r, const struct note *note) {
    if (r->notes == NOTES)
        write_notes(r);
    r->note[r->notes++] = *note;
    r->dirty = true;
}

void live_record_flush(struct live_record *r) {
    pthread_mutex_lock(&r->lock);
    if (r->dirty) {
        r->dirty = false;
        if (r->traces) {
            write_notes(r);
            fflush(r->trace.file.stream);
        }
        if (r->pcaps)
            fflush(r->pcap.file.file.stream);
    }
    pthread_mutex_unlock(&r->lock);
}

void live_record_close(struct live_record *r) {
    struct spin_error err;
    pthread_mutex_lock(&r->lock);
    if (r->pcaps && capture_close(&r->pcap.file, true, &err))
        fprintf(stderr, "openspin: OPENSPIN_PCAP: %s\n", err.text);
    if (r->traces) {
        write_notes(r);
        if (trace_close(&r->trace, true, &err))
            fprintf(stderr, "openspin: OPENSPIN_TRACE: %s\n", err.text);
    }
    r->pcaps = r->traces = false;
    pthread_mutex_unlock(&r->lock);
}

void live_record_free(struct live_record *r) {
    if (!r)
        return;
    live_record_close(r);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- what happens ---- */

bool live_record_traces(const struct live_record *r) {
    return r && r->o.trace;
}

/* The same number at both ends, which makes the arrow; a JSON number holds it. */
static uint64_t arrow_of(const struct nic_packet *p) {
    uint64_t id = rng_mix((uint64_t)p->source.nid << 32 | p->source.pid);
    id = rng_mix(id ^ ((uint64_t)p->target.nid << 32 | p->target.pid));
    id = rng_mix(id ^ ((uint64_t)p->stream << 32 | p->message_number));
    uint64_t again = p->kind == NIC_BLOCK ? p->tag.transmission : 0;
    return rng_mix(id ^ p->offset ^ again << 48) >> 12 | 1;
}

static void note_packet(struct live_record *r, const struct nic_packet *p, bool out,
                        uint64_t began_ns, uint64_t now_ns) {
    static const char *const others[] = {
        [NIC_RECEIPT] = "receipt", [NIC_PROBE] = "probe", [NIC_REPORT] = "report"};
    struct note note = {.began_ns = began_ns,
                        .ended_ns = now_ns,
                        .bytes = p->bytes,
                        .peer = out ? p->target.pid : p->source.pid,
                        .row = out ? RECORD_OUT : RECORD_IN,
                        .step = out ? TRACE_FIRST : TRACE_LAST};
    if (p->kind != NIC_DATA && p->kind != NIC_BLOCK) {
        note.name = others[p->kind];
    } else {
        note.name = out ? "send" : p->first ? "match" : "look up";
        note.id = arrow_of(p);
    }
    add_note(r, &note);
}

void live_record_wire(struct live_record *r, const struct nic_packet *packet,
                      enum capture_direction direction, uint64_t at_ns) {
    if (!r->o.pcap)
        return;
    pthread_mutex_lock(&r->lock);
    if (r->pcaps)
        wire_capture_packet(&r->pcap, at_ns + r->realtime_ns, packet, direction);
    r->dirty = true;
    pthread_mutex_unlock(&r->lock);
}

void live_record_work(struct live_record *r, const struct nic_packet *packet,
                      enum capture_direction direction, uint64_t began_ns) {
    if (!r->o.trace)
        return;
    uint64_t now_ns = live_now_ns();
    pthread_mutex_lock(&r->lock);
    if (r->traces)
        note_packet(r, packet, direction == CAPTURE_OUT, began_ns, now_ns);
    pthread_mutex_unlock(&r->lock);
}

void live_record_dropped(struct live_record *r, struct nic_address source,
                         struct nic_address target, const uint8_t *bytes, uint32_t length,
                         const char *why) {
    const struct capture_mark mark = {CAPTURE_IN, why};
    pthread_mutex_lock(&r->lock);
    if (r->pcaps)
        wire_capture_bytes(&r->pcap, live_now_ns() + r->realtime_ns, source, target, bytes, length,
                           &mark);
    r->dirty = true;
    pthread_mutex_unlock(&r->lock);
}

void live_record_box(struct live_record *r, uint32_t row, const char *name, uint64_t began_ns,
                     uint64_t ended_ns, uint64_t bytes) {
    const struct note note = {.began_ns = began_ns,
                              .ended_ns = ended_ns,
                              .bytes = bytes,
                              .name = name,
                              .peer = -1,
                              .row = row < RECORD_HPU + HPUS ? row : RECORD_HPU + HPUS - 1};
    pthread_mutex_lock(&r->lock);
    if (r->traces)
        add_note(r, &note);
    pthread_mutex_unlock(&r->lock);
}
