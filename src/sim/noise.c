/* Both kinds of noise are a record of detours that repeats: a periodic one is a record of one. Rank
 * r begins somewhere in the record, at a place drawn from the seed and r (or all at its beginning),
 * so that hosts are as unsynchronised as real ones. */
#include "sim/noise.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/rng.h"
#include "base/search.h"
#include "base/units.h"

struct detour {
    uint64_t start_ps, length_ps;
    uint64_t free_before_ps; /* time for work in the record before this detour */
};

struct noise {
    struct detour *detours;
    size_t count;
    uint64_t period_ps; /* of the whole record */
    uint64_t free_ps;   /* time for work in one period */
    uint64_t seed;
    bool together;
};

static int finish(struct noise *n, const char *name, struct spin_error *err) {
    uint64_t lost = 0;
    for (size_t i = 0; i < n->count; i++) {
        n->detours[i].free_before_ps = n->detours[i].start_ps - lost;
        lost += n->detours[i].length_ps;
    }
    n->free_ps = n->period_ps - lost;
    if (n->free_ps == 0)
        return spin_fail(err, SPIN_EARG, "%s: noise takes all the time; nothing could ever run",
                         name);
    return SPIN_OK;
}

/* One line of a record: start and length, blanks or a comma between. */
static bool read_row(char *line, uint64_t *start, uint64_t *length) {
    char *words[3] = {0};
    int count = 0;
    for (char *p = line; *p;) {
        while (isspace((unsigned char)*p) || *p == ',')
            p++;
        if (!*p)
            break;
        if (count == 3)
            return false;
        words[count++] = p;
        while (*p && !isspace((unsigned char)*p) && *p != ',')
            p++;
        if (*p)
            *p++ = 0;
    }
    return count == 2 && units_time_ps(words[0], start) && units_time_ps(words[1], length);
}

static int read_record(struct noise *n, const char *path, struct spin_error *err) {
    uint8_t *data;
    size_t length;
    int code = file_read(path, "noise record", 1u << 30, &data, &length, err);
    if (code)
        return code;
    size_t room = 0;
    unsigned line = 0;
    for (size_t at = 0; !code && at < length;) {
        size_t end = at;
        while (end < length && data[end] != '\n')
            end++;
        char text[200];
        size_t size = end - at < sizeof text - 1 ? end - at : sizeof text - 1;
        memcpy(text, data + at, size);
        text[size] = 0;
        at = end + 1;
        line++;
        if (text[strspn(text, " \t\r")] == 0 || text[strspn(text, " \t")] == '#')
            continue;
        struct detour d = {0};
        if (!read_row(text, &d.start_ps, &d.length_ps)) {
            code = spin_fail(err, SPIN_EFORMAT,
                             "%s:%u: expected 'start length', two times such as '1000 2.5us'", path,
                             line);
        } else if (d.start_ps < n->period_ps) {
            code = spin_fail(err, SPIN_EFORMAT,
                             "%s:%u: begins before the detour before it has ended; sort the record",
                             path, line);
        } else if (d.start_ps > 1ull << 60 || d.length_ps > 1ull << 60) {
            code = spin_fail(err, SPIN_ELIMIT, "%s:%u: over the limit of 13 days", path, line);
        } else if (!ROOM_FOR_ONE(n->detours, n->count, room, 256)) {
            code = spin_fail(err, SPIN_ENOMEM, "%s: out of memory", path);
        }
        if (!code) {
            n->detours[n->count++] = d;
            n->period_ps = d.start_ps + d.length_ps;
        }
    }
    free(data);
    if (!code && n->count == 0)
        code = spin_fail(err, SPIN_EFORMAT, "%s: holds no detour", path);
    return code;
}

int noise_new(const struct spin_noise *options, struct noise **noise, struct spin_error *err) {
    *noise = NULL;
    if (!options->record && options->period_ps == 0)
        return SPIN_OK;
    struct noise *n = calloc(1, sizeof *n);
    if (!n)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    n->seed = options->seed;
    n->together = options->together;
    int code = SPIN_OK;
    if (options->record) {
        code = read_record(n, options->record, err);
        if (!code)
            code = finish(n, options->record, err);
    } else if (options->length_ps > options->period_ps || options->period_ps > 1ull << 60) {
        code = spin_fail(
            err, SPIN_EARG, "noise: a detour of %llu ps does not fit into a period of %llu ps",
            (unsigned long long)options->length_ps, (unsigned long long)options->period_ps);
    } else if (!(n->detours = calloc(1, sizeof *n->detours))) {
        code = spin_fail(err, SPIN_ENOMEM, "out of memory");
    } else {
        n->count = 1;
        n->period_ps = options->period_ps;
        n->detours[0] = (struct detour){0, options->length_ps, 0};
        code = finish(n, "noise", err);
    }
    if (code)
        noise_free(n);
    else
        *noise = n;
    return code;
}

void noise_free(struct noise *noise) {
    if (noise)
        free(noise->detours);
    free(noise);
}

/* Where in the record the rank's time 0 lies. */
static uint64_t offset_of(const struct noise *n, uint32_t rank) {
    if (n->together)
        return 0;
    struct rng rng = rng_seeded(n->seed + rank);
    return rng_u64(&rng) % n->period_ps;
}

/* Time for work in the record before `at`. */
static uint64_t free_before(const struct noise *n, uint64_t at) {
    size_t count = COUNT_BEFORE(i, n->count, n->detours[i].start_ps < at);
    if (count == 0)
        return at;
    const struct detour *d = &n->detours[count - 1];
    uint64_t since = at - d->start_ps;
    return d->free_before_ps + (since > d->length_ps ? since - d->length_ps : 0);
}

/* The first moment of the record before which `work` of free time lies: work that ends as a detour
 * begins is not delayed by it. */
static uint64_t when_free(const struct noise *n, uint64_t work) {
    /* detours that begin strictly within the work */
    size_t within = COUNT_BEFORE(i, n->count, n->detours[i].free_before_ps < work);
    if (within == 0)
        return work;
    const struct detour *d = &n->detours[within - 1];
    return d->start_ps + d->length_ps + (work - d->free_before_ps);
}

uint64_t noise_delay(const struct noise *n, uint32_t rank, uint64_t start_ps, uint64_t busy_ps) {
    if (busy_ps == 0)
        return 0;
    uint64_t at = (start_ps + offset_of(n, rank)) % n->period_ps;
    uint64_t work = free_before(n, at) + busy_ps; /* as if all of it began with the record */
    uint64_t periods = (work - 1) / n->free_ps;
    uint64_t end = periods * n->period_ps + when_free(n, work - periods * n->free_ps);
    return end - at - busy_ps;
}
