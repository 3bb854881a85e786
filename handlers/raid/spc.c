#include "spinlib/spc.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES   (1u << 30) /* of a request */
#define MOST_SECONDS 1e9        /* 30 years: what is above that is no trace */

/* ---- Reading ---- */

struct reader {
    const char *at, *end; /* of the line */
    uint64_t line;
    char *error;
    size_t room;
};

static bool wrong(const struct reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool wrong(const struct reader *r, const char *format, ...) {
    va_list list;
    int used = snprintf(r->error, r->room, "line %" PRIu64 ": ", r->line);
    va_start(list, format);
    if (used >= 0 && (size_t)used < r->room)
        vsnprintf(r->error + used, r->room - (size_t)used, format, list);
    va_end(list);
    return false;
}

static void skip_space(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

/* A field's text without the spaces around it; the reader is behind its comma. */
static bool field(struct reader *r, const char *name, char text[40]) {
    size_t length = 0;
    skip_space(r);
    while (r->at < r->end && *r->at != ',') {
        char c = *r->at++;
        if (c < ' ' || c > '~')
            return wrong(r, "%s has a byte 0x%02x", name, (unsigned char)c);
        if (length == 39)
            return wrong(r, "%s is longer than 39 characters", name);
        text[length++] = c;
    }
    while (length && text[length - 1] == ' ')
        length--;
    text[length] = 0;
    if (r->at < r->end)
        r->at++;
    return length ? true : wrong(r, "there is no %s (ASU,LBA,size,opcode,timestamp)", name);
}

static bool whole(struct reader *r, const char *name, uint64_t most, uint64_t *value) {
    char text[40], *end;
    if (!field(r, name, text))
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end)
        return wrong(r, "%s '%s' is not a number", name, text);
    return !errno && *value <= most ? true : wrong(r, "%s %s is above %" PRIu64, name, text, most);
}

static bool read_record(struct reader *r, struct spin_spc_record *record) {
    uint64_t asu, bytes;
    char text[40], *end;
    if (!whole(r, "ASU", UINT32_MAX, &asu) || !whole(r, "LBA", UINT64_MAX >> 10, &record->lba) ||
        !whole(r, "size", MOST_BYTES, &bytes) || !field(r, "opcode", text))
        return false;
    if (!strchr("rRwW", *text) || text[1])
        return wrong(r, "opcode '%s' is neither R nor W", text);
    record->is_write = *text == 'w' || *text == 'W';
    record->asu = (uint32_t)asu;
    record->bytes = (uint32_t)bytes;
    if (!field(r, "timestamp", text))
        return false;
    record->seconds = strtod(text, &end);
    if (strspn(text, "0123456789.eE+-") != strlen(text) || *end || !isfinite(record->seconds) ||
        record->seconds < 0)
        return wrong(r, "timestamp '%s' is not a number of seconds", text);
    return record->seconds <= MOST_SECONDS
               ? true
               : wrong(r, "timestamp %s is above %.0f seconds", text, MOST_SECONDS);
}

static bool add(struct spin_spc_trace *trace, uint64_t *room, const struct spin_spc_record *r) {
    if (trace->records == *room) {
        uint64_t more = *room ? 2 * *room : 1024;
        void *grown = realloc(trace->record, more * sizeof *trace->record);
        if (!grown)
            return false;
        trace->record = grown;
        *room = more;
    }
    trace->record[trace->records++] = *r;
    return true;
}

bool spin_spc_parse(const char *text, size_t length, uint64_t most, struct spin_spc_trace *trace,
                    char *error, size_t room) {
    const char *end = text + length;
    struct reader r = {.error = error, .room = room};
    uint64_t records = 0;
    bool good = true;
    *trace = (struct spin_spc_trace){0};
    for (const char *at = text; at < end && good && !(most && trace->records == most);) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        struct spin_spc_record record;
        r.line++;
        r.at = at;
        r.end = line_end ? line_end : end;
        at = line_end ? line_end + 1 : end;
        if (r.end > r.at && r.end[-1] == '\r')
            r.end--;
        skip_space(&r);
        if (r.at == r.end)
            continue; /* an empty line */
        good = read_record(&r, &record);
        if (good && !add(trace, &records, &record))
            good = wrong(&r, "no memory for the trace");
    }
    if (good && !trace->records)
        good = wrong(&r, "there is no request in the trace");
    if (!good)
        spin_spc_free(trace);
    return good;
}

bool spin_spc_load(const char *path, uint64_t most, struct spin_spc_trace *trace, char *error,
                   size_t room) {
    FILE *in = fopen(path, "rb");
    char *text = NULL, what[160] = "cannot be read";
    size_t length = 0, space = 0, got = 1;
    bool good = in != NULL;
    *trace = (struct spin_spc_trace){0};
    while (good && got) {
        if (length == space) {
            char *grown = realloc(text, space = space ? 2 * space : 65536);
            good = grown != NULL;
            text = good ? grown : text;
        }
        got = good ? fread(text + length, 1, space - length, in) : 0;
        length += got;
    }
    if (good)
        good = !ferror(in) && spin_spc_parse(text, length, most, trace, what, sizeof what);
    if (!good)
        snprintf(error, room, "%s: %s", path, in ? what : strerror(errno));
    if (in)
        fclose(in);
    free(text);
    return good;
}

void spin_spc_print(const struct spin_spc_trace *trace, FILE *out) {
    for (uint64_t i = 0; i < trace->records; i++) {
        const struct spin_spc_record *r = &trace->record[i];
        fprintf(out, "%" PRIu32 ",%" PRIu64 ",%" PRIu32 ",%c,%.6f\n", r->asu, r->lba, r->bytes,
                r->is_write ? 'W' : 'R', r->seconds);
    }
}

void spin_spc_free(struct spin_spc_trace *trace) {
    free(trace->record);
    *trace = (struct spin_spc_trace){0};
}

/* ---- Making ---- */

/* Shares, rates and sizes are rounded from published descriptions of the five traces; locality is
 * ours. */
#define OLTP_SIZES                                                                                 \
    {                                                                                              \
        {512, 0.25}, {1024, 0.10}, {2048, 0.15}, {4096, 0.35}, {8192, 0.10}, {                     \
            16384, 0.05                                                                            \
        }                                                                                          \
    }
#define SEARCH_SIZES                                                                               \
    {                                                                                              \
        {8192, 0.65}, {16384, 0.12}, {24576, 0.08}, {                                              \
            32768, 0.15                                                                            \
        }                                                                                          \
    }
const struct spin_spc_profile spin_spc_profiles[] = {
    {"financial1", 0.23, 122, 0.6, 0.1, 24, 1 << 21, OLTP_SIZES},
    {"financial2", 0.82, 90, 0.7, 0.1, 19, 1 << 21, OLTP_SIZES},
    {"websearch1", 0.9998, 335, 0.4, 0.05, 6, 1 << 25, SEARCH_SIZES},
    {"websearch2", 0.9998, 298, 0.4, 0.05, 6, 1 << 25, SEARCH_SIZES},
    {"websearch3", 0.9998, 16, 0.4, 0.05, 6, 1 << 25, SEARCH_SIZES},
    {0},
};

/* splitmix64: a library of its own has no other generator. */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(uint64_t *state) {
    return (double)(next(state) >> 11) * 0x1p-53;
}

static uint32_t size_of(const struct spin_spc_profile *p, double share) {
    int i = 0;
    while (i + 1 < SPIN_SPC_SIZES && p->size[i + 1].bytes && share >= p->size[i].share)
        share -= p->size[i++].share;
    return p->size[i].bytes;
}

bool spin_spc_make(const struct spin_spc_profile *p, uint64_t seed, uint64_t records,
                   struct spin_spc_trace *trace) {
    uint64_t *follows = calloc(p->asus, sizeof *follows);
    double now = 0;
    *trace = (struct spin_spc_trace){malloc(records * sizeof *trace->record), records};
    if (!follows || !trace->record) {
        free(follows);
        spin_spc_free(trace);
        return false;
    }
    for (uint64_t i = 0; i < records; i++) {
        struct spin_spc_record *r = &trace->record[i];
        *r = (struct spin_spc_record){.asu = (uint32_t)(next(&seed) % p->asus)};
        now -= log(1 - uniform(&seed)) / p->rate;
        r->seconds = now;
        r->is_write = uniform(&seed) >= p->reads;
        r->bytes = size_of(p, uniform(&seed));
        uint64_t blocks = uniform(&seed) < p->hot ? p->asu_blocks / 10 : p->asu_blocks;
        r->lba = uniform(&seed) < p->sequential ? follows[r->asu] : next(&seed) % blocks;
        follows[r->asu] = r->lba + r->bytes / SPIN_SPC_BLOCK;
    }
    free(follows);
    return true;
}

struct spin_spc_statistics spin_spc_statistics(const struct spin_spc_trace *trace) {
    struct spin_spc_statistics s = {0};
    double bytes = 0, reads = 0, sequential = 0, n = (double)trace->records;
    for (uint64_t i = 0; i < trace->records; i++) {
        const struct spin_spc_record *r = &trace->record[i];
        reads += !r->is_write;
        bytes += r->bytes;
        s.asus = r->asu >= s.asus && r->asu < UINT32_MAX ? r->asu + 1 : s.asus;
        /* the unit's last request is not far: units are few and requests are spread over them */
        for (uint64_t k = i; k > 0 && i - k < 256; k--)
            if (trace->record[k - 1].asu == r->asu) {
                const struct spin_spc_record *last = &trace->record[k - 1];
                sequential += r->lba == last->lba + last->bytes / SPIN_SPC_BLOCK;
                break;
            }
    }
    if (!trace->records)
        return s;
    double seconds = trace->record[trace->records - 1].seconds - trace->record[0].seconds;
    s.reads = reads / n;
    s.mean_bytes = bytes / n;
    s.sequential = sequential / n;
    s.rate = seconds > 0 ? (n - 1) / seconds : 0;
    return s;
}
