/* Conditional reads: random queries against a plain loop over the same table, by the card and by
 * the host; and what is refused. */
#include "spinlib/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/spinlib_world.h"

enum { TABLE = 700000 };

struct scene {
    uint8_t *table;
    uint64_t seed;
};

static void fill(struct scene *s, uint64_t seed) {
    struct rng r = rng_seeded(seed);
    s->seed = seed;
    s->table = malloc(TABLE);
    for (uint32_t i = 0; i < TABLE / 4; i++)
        ((uint32_t *)(void *)s->table)[i] = (uint32_t)rng_below(&r, 1000) - 500;
}

static struct spin_scan_query random_query(struct rng *r) {
    struct spin_scan_query q = {.row_bytes = 4 * (1 + (uint32_t)rng_below(r, 40))};
    if (rng_below(r, 8) == 0)
        q.row_bytes = SPIN_SCAN_ROW_BYTES;
    q.offset = 4 * rng_below(r, 1000);
    q.rows = rng_below(r, (uint32_t)((TABLE - q.offset) / q.row_bytes + 1));
    q.column = 4 * (uint32_t)rng_below(r, q.row_bytes / 4);
    q.low = (uint32_t)rng_below(r, 1000) - 500;
    q.high = q.low + (uint32_t)rng_below(r, 600); /* may wrap: signed columns */
    if (rng_below(r, 5) == 0)
        q.high = q.low - 2; /* all but one value */
    return q;
}

static int by_bytes(const void *a, const void *b, void *bytes) {
    return memcmp(a, b, *(const uint32_t *)bytes);
}

/* What a plain loop finds, sorted; the number of rows. */
static uint64_t plain(const uint8_t *table, const struct spin_scan_query *q, uint8_t *rows) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < q->rows; i++) {
        const uint8_t *row = table + q->offset + i * q->row_bytes;
        uint32_t column;
        memcpy(&column, row + q->column, 4);
        bool wraps = q->low > q->high;
        if (wraps ? column >= q->low || column <= q->high : column >= q->low && column <= q->high)
            memcpy(rows + n++ * q->row_bytes, row, q->row_bytes);
    }
    qsort_r(rows, n, q->row_bytes, by_bytes, (void *)(uintptr_t)&q->row_bytes);
    return n;
}

typedef int reader(struct spin_scan *, uint32_t, const struct spin_scan_query *, void *, uint64_t,
                   uint64_t *);
static reader *const readers[] = {spin_scan_read, spin_scan_read_all};

static int ask_at_random(struct spin_scan *scan, const struct scene *s) {
    struct rng r = rng_seeded(s->seed + 1);
    uint8_t *expected = malloc(TABLE), *rows = malloc(TABLE);
    for (int i = 0; i < 12; i++) {
        struct spin_scan_query q = random_query(&r);
        uint64_t n = plain(s->table, &q, expected), bytes = n * q.row_bytes, matching;
        for (int how = 0; how < 2; how++) {
            RANK_CHECK(readers[how](scan, 1, &q, rows, bytes, &matching) == PTL_OK);
            RANK_CHECK(matching == n);
            qsort_r(rows, n, q.row_bytes, by_bytes, &q.row_bytes);
            RANK_CHECK(memcmp(rows, expected, bytes) == 0);
            if (n == 0)
                continue;
            RANK_CHECK(readers[how](scan, 1, &q, rows, bytes - 1, &matching) == PTL_NO_SPACE);
            RANK_CHECK(matching == n);
        }
    }
    free(expected);
    free(rows);
    return 0;
}

static int random_rank(void *argument) {
    const struct scene *s = argument;
    struct spin_job job;
    struct spin_scan *scan;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_scan_open(job.ni, job.rank == 1 ? s->table : NULL, TABLE, &scan) == PTL_OK);
    spin_barrier();
    int line = job.rank == 1 ? 0 : ask_at_random(scan, s);
    spin_barrier();
    spin_scan_close(scan);
    spin_job_close(&job);
    return line;
}

TEST(random_queries_of_two_clients) {
    struct scene s;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        fill(&s, seed);
        spinlib_world(3, random_rank, &s);
        free(s.table);
    }
}

static int refused_rank(void *argument) {
    const struct scene *s = argument;
    struct spin_job job;
    struct spin_scan *scan;
    uint64_t matching;
    uint8_t rows[64];
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_scan_open(job.ni, s->table, 1ull << 32, &scan) == PTL_ARG_INVALID);
    RANK_CHECK(spin_scan_open(job.ni, job.rank == 1 ? s->table : NULL, TABLE, &scan) == PTL_OK);
    spin_barrier();
    if (job.rank == 0) {
        static const struct spin_scan_query wrong[] = {
            {.rows = 1, .row_bytes = 0},
            {.rows = 1, .row_bytes = 6},
            {.rows = 1, .row_bytes = SPIN_SCAN_ROW_BYTES + 4},
            {.rows = 1, .row_bytes = 8, .column = 8},
            {.rows = 1, .row_bytes = 8, .column = 2},
            {.rows = 1, .row_bytes = 8, .offset = 2},
            {.rows = 1ull << 30, .row_bytes = 8},
            {.rows = 1, .row_bytes = 8, .offset = 1ull << 32},
            /* only the server knows */
            {.rows = TABLE / 8 + 1, .row_bytes = 8},
            {.rows = 1, .row_bytes = 8, .offset = TABLE - 4},
        };
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
            RANK_CHECK(spin_scan_read(scan, 1, &wrong[i], rows, 64, &matching) == PTL_ARG_INVALID);
        const struct spin_scan_query q = {.rows = 8, .row_bytes = 8, .low = 1};
        RANK_CHECK(spin_scan_read_all(scan, 1, &wrong[8], rows, 64, &matching) == PTL_FAIL);
        RANK_CHECK(spin_scan_read(scan, 2, &q, rows, 64, &matching) == PTL_FAIL); /* no table */
        RANK_CHECK(spin_scan_read_all(scan, 2, &q, rows, 64, &matching) == PTL_FAIL);
        const struct spin_scan_query none = {.rows = 0, .row_bytes = 8};
        RANK_CHECK(spin_scan_read(scan, 1, &none, NULL, 0, &matching) == PTL_OK && matching == 0);
        RANK_CHECK(spin_scan_read(scan, 1, &q, rows, 64, &matching) == PTL_OK && matching <= 8);
    }
    spin_barrier();
    spin_scan_close(scan);
    spin_job_close(&job);
    return 0;
}

TEST(what_cannot_be_is_refused) {
    struct scene s;
    fill(&s, 3);
    spinlib_world(3, refused_rank, &s);
    free(s.table);
}

TEST_MAIN
