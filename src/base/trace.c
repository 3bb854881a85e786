#include "base/trace.h"

#include <inttypes.h>

#include "base/json.h"

int trace_open(struct trace *t, const char *path, struct spin_error *err) {
    *t = (struct trace){0};
    int code = file_out_open(&t->file, path, err);
    if (!code)
        fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [", t->file.stream);
    return code;
}

static FILE *begin(struct trace *t) {
    fputs(t->any ? ",\n" : "\n", t->file.stream);
    t->any = true;
    return t->file.stream;
}

void trace_process(struct trace *t, uint32_t rank, const char *name) {
    fprintf(begin(t),
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"%s %u\"}}",
            rank, name, rank);
}

void trace_row(struct trace *t, uint32_t rank, uint32_t row, const char *name, unsigned index) {
    fprintf(begin(t),
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,"
            "\"args\":{\"name\":\"%s %u\"}}",
            rank, row, name, index);
}

static FILE *begin_box(struct trace *t, uint32_t rank, uint32_t row, const char *name,
                       uint64_t start_ps, uint64_t length_ps, uint64_t bytes) {
    FILE *out = begin(t);
    fputs("{\"ph\":\"X\",\"name\":", out);
    json_quote(out, name); /* a handler's, which is the image's to choose */
    fprintf(out,
            ",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%06" PRIu64 ",\"dur\":%" PRIu64 ".%06" PRIu64
            ",\"args\":{\"size\":%" PRIu64,
            rank, row, start_ps / 1000000, start_ps % 1000000, length_ps / 1000000,
            length_ps % 1000000, bytes);
    return out;
}

void trace_box(struct trace *t, uint32_t rank, uint32_t row, const char *name, uint64_t start_ps,
               uint64_t length_ps, uint64_t bytes, int64_t peer) {
    FILE *out = begin_box(t, rank, row, name, start_ps, length_ps, bytes);
    if (peer >= 0)
        fprintf(out, ",\"peer\":%" PRId64, peer);
    fputs("}}", out);
}

void trace_packet_box(struct trace *t, uint32_t rank, uint32_t row, const char *name,
                      uint64_t start_ps, uint64_t length_ps, uint64_t bytes,
                      const struct trace_packet *of) {
    fprintf(begin_box(t, rank, row, name, start_ps, length_ps, bytes),
            ",\"packet\":%" PRIu64 ",\"message\":%u,\"context\":%u,\"flow\":%u,"
            "\"arrival\":%" PRIu64 ".%06" PRIu64 "}}",
            of->packet, of->message, of->context, of->flow, of->arrival_ps / 1000000,
            of->arrival_ps % 1000000);
}

void trace_step(struct trace *t, enum trace_step step, uint64_t id, struct trace_end at) {
    static const char *const phase[] = {
        [TRACE_FIRST] = "\"s\"", [TRACE_NEXT] = "\"t\"", [TRACE_LAST] = "\"f\",\"bp\":\"e\""};
    fprintf(begin(t),
            "{\"ph\":%s,\"cat\":\"message\",\"name\":\"message\",\"id\":%" PRIu64
            ",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%06" PRIu64 "}",
            phase[step], id, at.rank, at.row, at.at_ps / 1000000, at.at_ps % 1000000);
}

void trace_arrow(struct trace *t, uint64_t id, struct trace_end from, struct trace_end to) {
    trace_step(t, TRACE_FIRST, id, from);
    trace_step(t, TRACE_LAST, id, to);
}

int trace_close(struct trace *t, bool keep, struct spin_error *err) {
    if (!t->file.stream)
        return SPIN_OK;
    if (!keep) {
        file_out_abandon(&t->file);
        return SPIN_OK;
    }
    fputs("\n]}\n", t->file.stream);
    return file_out_commit(&t->file, err);
}
