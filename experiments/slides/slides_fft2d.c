/* The slides' full application: a 2-D FFT whose transposes are datatypes (E2), with and without
 * cards that process them. Rows are distributed; each rank transforms its rows, all transpose,
 * transform again, and transpose back. */
#include "figures.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "spinlib/datatype.h"

#define SIDE 128u

enum { MOST_RANKS = 64, WAYS = 3, RANK_ROWS = 5 }; /* 2 to 32 ranks */

/* Who packs and who unpacks. */
static const struct way {
    const char *name;
    enum spin_send_way send;
    enum spin_type_strategy receive;
} ways[WAYS] = {
    {"processors", SPIN_SEND_PACK, SPIN_TYPE_HOST},
    {"cards receive", SPIN_SEND_STREAM, SPIN_TYPE_BEST},
    {"cards", SPIN_SEND_CARD, SPIN_TYPE_BEST},
};

struct scene {
    uint32_t n; /* the matrix has n rows and columns, a power of two */
    const struct way *way;
    const double complex *matrix, *expected;
    uint64_t time_ps, exchange_ps; /* of the slowest rank: all, and the transposes */
};

/* ---- The transform ---- */

/* In place, radix 2; what a processor takes is charged: 5 n log2 n operations, 2 per cycle. */
static void fft(double complex *x, uint32_t n) {
    uint32_t levels = 0;
    for (uint32_t i = 1, j = 0; i < n; i++) {
        uint32_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex swap = x[i];
            x[i] = x[j];
            x[j] = swap;
        }
    }
    for (uint32_t length = 2; length <= n; length *= 2, levels++)
        for (uint32_t k = 0; k < length / 2; k++) {
            double complex root = cexp(-2 * M_PI * I * k / length);
            for (uint32_t i = k; i < n; i += length) {
                double complex a = x[i], b = x[i + length / 2] * root;
                x[i] = a + b;
                x[i + length / 2] = a - b;
            }
        }
    spin_work(5ull * n * levels / 2, 2ull * n * sizeof *x);
}

/* By the definition, without a fast algorithm: rows, then columns. */
static void slow_transform(const double complex *from, uint32_t n, double complex *to) {
    double complex *root = malloc(n * sizeof *root), *half = malloc(sizeof *half * n * n);
    for (uint32_t i = 0; root && i < n; i++)
        root[i] = cexp(-2 * M_PI * I * i / n);
    for (int pass = 0; root && half && pass < 2; pass++) {
        const double complex *in = pass ? half : from;
        double complex *out = pass ? to : half;
        for (uint32_t row = 0; row < n; row++)
            for (uint32_t k = 0; k < n; k++) {
                double complex sum = 0;
                for (uint32_t i = 0, at = 0; i < n; i++, at = (at + k) & (n - 1))
                    sum += in[row * n + i] * root[at];
                out[k * n + row] = sum; /* transposed, and by the second pass back */
            }
    }
    free(root);
    free(half);
}

/* ---- A transpose ---- */

/* One direction, with every rank: rows of `from` become columns of `to`. */
struct transpose {
    struct spin_layout *out, *in;
    struct spin_send *send[MOST_RANKS];
    struct spin_receive *receive[MOST_RANKS];
};

static int make_layouts(uint32_t n, uint32_t rows, struct transpose *t) {
    struct spin_type *number = NULL, *block = NULL, *column = NULL, *narrow = NULL, *turned = NULL;
    struct spin_error err;
    int code = SPIN_TYPE_OF(double complex, &number);
    if (code == PTL_OK) /* rows x rows numbers, row by row */
        code = spin_type_vector((int)rows, (int)rows, (int)n, number, &block);
    if (code == PTL_OK) /* each row as a column */
        code = spin_type_vector((int)rows, 1, (int)n, number, &column);
    if (code == PTL_OK)
        code = spin_type_resized(column, 0, sizeof(double complex), &narrow);
    if (code == PTL_OK)
        code = spin_type_contiguous((int)rows, narrow, &turned);
    if (code == PTL_OK)
        code = spin_type_commit(block, 1, &t->out, &err);
    if (code == PTL_OK)
        code = spin_type_commit(turned, 1, &t->in, &err);
    spin_type_free(number);
    spin_type_free(block);
    spin_type_free(column);
    spin_type_free(narrow);
    spin_type_free(turned);
    return code;
}

static int open_transpose(struct spin_types *types, const struct scene *s, double complex *from,
                          double complex *to, uint32_t number, struct transpose *t) {
    uint32_t ranks = spin_ranks(), rows = s->n / ranks;
    const struct spin_type_options o = {.strategy = s->way->receive};
    struct spin_error err;
    int code = make_layouts(s->n, rows, t);
    for (uint32_t r = 0; r < ranks && code == PTL_OK; r++) {
        code = spin_send_open(types, from + r * rows, t->out, s->way->send, &t->send[r], &err);
        if (code == PTL_OK)
            code = spin_receive_open(types, to + r * rows, t->in, number * ranks + r, &o,
                                     &t->receive[r], &err);
    }
    return code;
}

static void close_transpose(struct transpose *t) {
    for (uint32_t r = 0; r < spin_ranks(); r++) {
        spin_send_close(t->send[r]);
        spin_receive_close(t->receive[r]);
    }
    spin_layout_free(t->out);
    spin_layout_free(t->in);
}

/* Each rank begins with its neighbour, so that not all send to one. */
static int transpose(struct transpose *t, uint32_t number) {
    uint32_t ranks = spin_ranks(), me = spin_rank();
    int code = PTL_OK;
    for (uint32_t i = 0; i < ranks && code == PTL_OK; i++) {
        uint32_t to = (me + i) % ranks;
        code = spin_send_start(t->send[to], to, number * ranks + me);
    }
    for (uint32_t i = 0; i < ranks && code == PTL_OK; i++)
        code = spin_receive_wait(t->receive[(me + ranks - i) % ranks]);
    for (uint32_t i = 0; i < ranks && code == PTL_OK; i++)
        code = spin_send_wait(t->send[(me + i) % ranks]);
    return code;
}

/* ---- A rank ---- */

static int transform(struct scene *s, double complex *rows[2], struct transpose t[2]) {
    uint32_t mine = s->n / spin_ranks();
    uint64_t start = spin_now_ps(), exchange = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t r = 0; r < mine; r++)
            fft(rows[pass] + r * s->n, s->n);
        uint64_t before = spin_now_ps();
        if (transpose(&t[pass], (uint32_t)pass) != PTL_OK)
            return 3;
        exchange += spin_now_ps() - before;
    }
    uint64_t time = spin_now_ps() - start;
    if (time > s->time_ps) {
        s->time_ps = time;
        s->exchange_ps = exchange;
    }
    return 0;
}

static bool is_right(const struct scene *s, const double complex *rows, uint32_t mine) {
    const double complex *expected = s->expected + (size_t)spin_rank() * mine * s->n;
    for (size_t i = 0; i < (size_t)mine * s->n; i++)
        if (!(cabs(rows[i] - expected[i]) < 1e-9 * s->n * s->n))
            return false;
    return true;
}

static int run_rank(struct spin_types *types, struct scene *s) {
    uint32_t mine = s->n / spin_ranks();
    size_t bytes = sizeof(double complex) * mine * s->n;
    double complex *rows[2] = {malloc(bytes), calloc(1, bytes)};
    struct transpose t[2] = {{0}};
    int status = 2;
    if (rows[0] && rows[1] && open_transpose(types, s, rows[0], rows[1], 0, &t[0]) == PTL_OK &&
        open_transpose(types, s, rows[1], rows[0], 1, &t[1]) == PTL_OK) {
        memcpy(rows[0], s->matrix + (size_t)spin_rank() * mine * s->n, bytes);
        spin_barrier();
        status = transform(s, rows, t);
        spin_barrier();
        if (!status && !is_right(s, rows[0], mine))
            status = 4;
    }
    close_transpose(&t[0]);
    close_transpose(&t[1]);
    free(rows[0]);
    free(rows[1]);
    return status;
}

static int rank(void *argument) {
    struct spin_job job;
    struct spin_types *types;
    if (spin_job_open(&job) != PTL_OK)
        return 1;
    int status = 1;
    if (spin_types_open(job.ni, &types) == PTL_OK) {
        status = run_rank(types, argument);
        spin_types_close(types);
    }
    spin_job_close(&job);
    return status;
}

/* ---- The figure ---- */

static int scaling(const struct experiment_context *context, struct sheet *s, struct scene *scene,
                   double *best, struct spin_error *err) {
    struct sheet_panel *p =
        sheet_panel(s, "scaling", "2-D FFT: time over ranks, by who packs and unpacks");
    p->log_x = true;
    sheet_column(p, "", 0, "ranks");
    for (int w = 0; w < WAYS; w++)
        sheet_column(p, "us", 1, "%s", ways[w].name);
    for (int w = 0; w < WAYS; w++)
        sheet_column(p, "us", 1, "transposes, %s", ways[w].name);
    sheet_column(p, "", 2, "speedup");
    int rows = context->setup.ranks ? 1 : RANK_ROWS;
    for (int i = 0; i < rows; i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        struct spin_world_options base = {.ranks = context->setup.ranks ? context->setup.ranks
                                                                        : 2u << i};
        static const char *const card[] = {"hpus=32", "hpu_cycle=1.25"}; /* as slides/datatypes */
        base.set = card;
        base.set_count = 2;
        row->value[0] = base.ranks;
        for (int w = 0; w < WAYS; w++) {
            scene->way = &ways[w];
            scene->time_ps = scene->exchange_ps = 0;
            int code = experiment_ranks(context, "datatype_handler", &base, rank, scene, err);
            if (code)
                return code;
            row->value[1 + w] = (double)scene->time_ps / 1e6;
            row->value[1 + WAYS + w] = (double)scene->exchange_ps / 1e6;
        }
        row->value[1 + 2 * WAYS] = row->value[1] / fmin(row->value[2], row->value[3]);
        *best = fmax(*best, row->value[1 + 2 * WAYS]);
    }
    return SPIN_OK;
}

static int check_setup(const struct experiment_context *context, uint32_t n,
                       struct spin_error *err) {
    uint32_t ranks = context->setup.ranks;
    if (n < 32 || n > 1024)
        return spin_fail(err, SPIN_EARG,
                         "--bytes: a matrix of 16 KiB (32 x 32) to 16 MiB (1,024 x 1,024)");
    if (ranks && (ranks & (ranks - 1) || ranks > MOST_RANKS || ranks > n))
        return spin_fail(err, SPIN_EARG, "--ranks: a power of two, at most %u",
                         n < MOST_RANKS ? n : MOST_RANKS);
    return SPIN_OK;
}

int slides_fft2d(const struct experiment_context *context, struct sheet *s,
                 struct spin_error *err) {
    uint32_t n = SIDE;
    if (context->setup.bytes) /* the largest power of two that has not more */
        for (n = 1; n <= 1024 && 64ull * n * n <= context->setup.bytes; n *= 2)
            ;
    int code = check_setup(context, n, err);
    if (code)
        return code;
    size_t numbers = (size_t)n * n;
    double complex *matrix = malloc(numbers * sizeof *matrix);
    double complex *expected = calloc(numbers, sizeof *expected);
    double best = 0;
    struct scene scene = {.n = n, .matrix = matrix, .expected = expected};
    if (!matrix || !expected)
        code = spin_fail(err, SPIN_ENOMEM, "no memory for two matrices of %u x %u", n, n);
    if (!code) {
        struct rng r = rng_seeded(n);
        for (size_t i = 0; i < numbers; i++)
            matrix[i] = rng_below(&r, 1000) / 500.0 - 1 + I * (rng_below(&r, 1000) / 500.0 - 1);
        slow_transform(matrix, n, expected);
        code = scaling(context, s, &scene, &best, err);
    }
    free(matrix);
    free(expected);
    if (code || experiment_one_row(context))
        return code;
    sheet_shape(s, "E2", best > 1.05, "a 2-D FFT is faster with datatypes on the card");
    sheet_note(s,
               "A matrix of %u x %u complex numbers, checked against the definition of the "
               "transform. 'Cards': the sender's gathers, the receiver's scatters; 'cards "
               "receive': the processor packs. 32 HPUs of 800 MHz.",
               n, n);
    return SPIN_OK;
}
