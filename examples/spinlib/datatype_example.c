/* Rank 0 has a matrix; its first columns become the first rows of rank 1's matrix, without a
 * processor that copies: rank 0's card gathers them, rank 1's card puts them in place. In every
 * strategy, and last by rank 1's processor.
 *     cc datatype_example.c -o datatype $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 2 ./datatype
 *     openspin sim run -n 2 ./datatype */
#include <spinlib/datatype.h>
#include <stdio.h>
#include <string.h>

enum { N = 256, COLUMNS = 4, STRATEGIES = 6 };
static double matrix[N][N];

static const struct {
    enum spin_type_strategy strategy;
    const char *name;
} strategies[STRATEGIES] = {
    {SPIN_TYPE_BEST, "as the library chooses"},
    {SPIN_TYPE_HPU_LOCAL, "a segment per HPU"},
    {SPIN_TYPE_READ_ONLY, "read-only checkpoints"},
    {SPIN_TYPE_READ_WRITE, "read-write checkpoints"},
    {SPIN_TYPE_SEEK, "by seeking"},
    {SPIN_TYPE_HOST, "by the processor"},
};

/* The first columns, row by row: the order in which they are sent. */
static struct spin_type *columns_by_rows(struct spin_type *number) {
    struct spin_type *type;
    spin_type_vector(N, COLUMNS, N, number, &type);
    return type;
}

/* The first rows of a matrix, column by column. */
static struct spin_type *rows_by_columns(struct spin_type *number) {
    struct spin_type *column, *narrow, *type;
    spin_type_vector(COLUMNS, 1, N, number, &column);
    spin_type_resized(column, 0, sizeof(double), &narrow); /* the next one begins a number later */
    spin_type_contiguous(N, narrow, &type);
    spin_type_free(column);
    spin_type_free(narrow);
    return type;
}

static int send_columns(struct spin_types *types, const struct spin_layout *layout) {
    struct spin_error err;
    struct spin_send *send;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            matrix[i][j] = 1000 * i + j;
    if (spin_send_open(types, matrix, layout, SPIN_SEND_CARD, &send, &err) != PTL_OK)
        return fprintf(stderr, "%s\n", err.text), 1;
    int code = PTL_OK;
    for (uint32_t i = 0; i < STRATEGIES; i++) {
        spin_barrier(); /* the receive is there */
        if (code == PTL_OK)
            code = spin_send_start(send, 1, i);
        if (code == PTL_OK)
            code = spin_send_wait(send);
        spin_barrier();
    }
    spin_send_close(send);
    return code != PTL_OK;
}

static int receive_rows(struct spin_types *types, const struct spin_layout *layout) {
    int wrong = 0;
    for (uint32_t i = 0; i < STRATEGIES; i++) {
        const struct spin_type_options options = {.strategy = strategies[i].strategy};
        struct spin_error err;
        struct spin_receive *receive;
        memset(matrix, 0, sizeof matrix);
        if (spin_receive_open(types, matrix, layout, i, &options, &receive, &err) != PTL_OK)
            return fprintf(stderr, "%s\n", err.text), 1;
        spin_barrier();
        int code = spin_receive_wait(receive);
        spin_barrier();
        spin_receive_close(receive);
        for (int row = 0; row < N; row++)
            for (int j = 0; j < N; j++)
                wrong += matrix[row][j] != (row < COLUMNS ? 1000 * j + row : 0);
        printf("%d columns are rows now, %s; %d numbers are wrong\n", COLUMNS, strategies[i].name,
               wrong);
        if (code != PTL_OK)
            return 1;
    }
    return wrong != 0;
}

int main(void) {
    struct spin_job job;
    struct spin_types *types;
    struct spin_type *number, *type;
    struct spin_layout *layout;
    struct spin_error err;
    if (spin_job_open(&job) != PTL_OK || job.ranks < 2) {
        printf("start this with two ranks or more\n");
        return 2;
    }
    if (spin_types_open(job.ni, &types) != PTL_OK) {
        printf("rank %u: %s\n", job.rank, PtlImageError());
        return 1;
    }
    SPIN_TYPE_OF(double, &number);
    type = job.rank == 0 ? columns_by_rows(number) : rows_by_columns(number);
    if (spin_type_commit(type, 1, &layout, &err) != PTL_OK) {
        printf("%s\n", err.text);
        return 1;
    }
    int status = job.rank == 0   ? send_columns(types, layout)
                 : job.rank == 1 ? receive_rows(types, layout)
                                 : 0;
    for (int i = 0; i < 2 * STRATEGIES && job.rank > 1; i++)
        spin_barrier();
    spin_barrier();
    spin_layout_free(layout);
    spin_type_free(type);
    spin_type_free(number);
    spin_types_close(types);
    spin_job_close(&job);
    return status;
}
