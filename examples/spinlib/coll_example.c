/* Collectives of all ranks, in all three variants: processors (rdma), triggered operations
 * (triggered), handlers (spin). Without an argument a few of them; with the name of one and a
 * number of bytes (a multiple of 8), how long each algorithm takes, and whether its result is
 * right. cc coll_example.c -o coll $(pkg-config --cflags --libs spinlib) openspin launch -n 4
 * ./coll openspin launch -n 4 ./coll allreduce 65536 openspin sim run -n 100 ./coll */
#include <spinlib/coll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 11 };

static int report(const char *what, int code, const struct spin_coll *coll) {
    if (code != PTL_OK)
        printf("%s: %s %s\n", what, PtlToStr(code, PTL_STR_ERROR), spin_coll_error(coll));
    return code != PTL_OK;
}

static int collectives(struct spin_coll *coll, const struct spin_job *job, const char *variant) {
    const struct spin_coll_how tree = {"binomial", variant};
    const struct spin_coll_how doubling = {"recursive-doubling", variant};
    char text[24] = "";
    double rank = job->rank, sum;
    if (job->rank == 1)
        strcpy(text, "hello from rank 1");
    if (report("barrier", spin_coll_barrier(coll, NULL), coll))
        return 1;
    uint64_t begin = spin_now_ps();
    if (report("broadcast", spin_coll_broadcast(coll, &tree, text, sizeof text, 1), coll) ||
        report("allreduce",
               spin_coll_allreduce(coll, &doubling, &rank, &sum, 1, PTL_DOUBLE, PTL_SUM), coll))
        return 1;
    if (job->rank == 0)
        printf("%s: %s; the ranks' sum is %g; both took %.1f us\n", variant, text, sum,
               (double)(spin_now_ps() - begin) / 1e6);
    return 0;
}

static int by_time(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Element i of what rank `from` gives (alltoall: to rank `to`). */
static int64_t element(uint32_t from, uint32_t to, uint64_t i) {
    return (int64_t)(from * 1000 + to + i);
}

/* What element i of the result must be; n: of a block. */
static int64_t expected(const char *collective, const struct spin_job *job, uint64_t n,
                        uint64_t i) {
    int64_t sum = 0;
    if (strcmp(collective, "broadcast") == 0)
        return element(0, 0, i);
    if (strcmp(collective, "allgather") == 0)
        return element((uint32_t)(i / n), 0, i % n);
    if (strcmp(collective, "alltoall") == 0)
        return element((uint32_t)(i / n), job->rank, i % n);
    for (uint32_t r = 0; r < job->ranks; r++)
        sum += element(r, 0, i);
    return sum;
}

/* Elements of this rank's result. */
static uint64_t results(const char *collective, const struct spin_job *job, uint64_t n) {
    if (strcmp(collective, "barrier") == 0 || (strcmp(collective, "reduce") == 0 && job->rank))
        return 0;
    return strncmp(collective, "all", 3) == 0 && strcmp(collective, "allreduce") != 0
               ? n * job->ranks
               : n;
}

/* One way in one variant: the median, at rank 0, of what it and a barrier after it take. */
static int measure(struct spin_coll *coll, const struct spin_job *job, struct spin_coll_call call,
                   uint64_t n) {
    const struct spin_coll_how how = {"recursive-doubling", call.how.variant};
    int64_t *in = (int64_t *)call.in, *out = call.out;
    double us[REPEATS];
    uint64_t wrong = 0;
    for (int k = 0; k < REPEATS; k++) {
        struct spin_coll_request *request;
        for (uint64_t i = 0; i < n * job->ranks; i++) {
            bool blocks = strcmp(call.collective, "alltoall") == 0;
            in[i] =
                blocks ? element(job->rank, (uint32_t)(i / n), i % n) : element(job->rank, 0, i);
            out[i] = job->rank == 0 && strcmp(call.collective, "broadcast") == 0 ? in[i] : -1;
        }
        if (report("barrier", spin_coll_barrier(coll, &how), coll))
            return 1;
        uint64_t begin = spin_now_ps();
        if (report(call.collective, spin_coll_start(coll, &call, &request), coll) ||
            report(call.collective, spin_coll_wait(coll, request), coll) ||
            report("barrier", spin_coll_barrier(coll, &how), coll))
            return 1;
        us[k] = (double)(spin_now_ps() - begin) / 1e6;
        for (uint64_t i = 0; i < results(call.collective, job, n); i++)
            wrong += out[i] != expected(call.collective, job, n, i);
    }
    qsort(us, REPEATS, sizeof us[0], by_time);
    if (job->rank == 0)
        printf("%s %s %s: %.1f us\n", call.collective, call.how.algorithm, call.how.variant,
               us[REPEATS / 2]);
    if (wrong)
        printf("rank %u: %s %s %s: %llu wrong elements\n", job->rank, call.collective,
               call.how.algorithm, call.how.variant, (unsigned long long)wrong);
    return wrong != 0;
}

static int measure_all(struct spin_coll *coll, const struct spin_job *job, const char *collective,
                       uint64_t bytes) {
    uint64_t n = bytes / 8;
    int reduces = strstr(collective, "reduce") != NULL, status = 0;
    struct spin_coll_call call = {.collective = collective,
                                  .in = calloc(job->ranks * n + 1, 8),
                                  .out = calloc(job->ranks * n + 1, 8),
                                  .count = reduces ? n : n * 8,
                                  .type = PTL_INT64_T,
                                  .operation = PTL_SUM};
    for (const struct spin_coll_way *way = spin_coll_ways(); way->collective && !status; way++)
        for (const char *const *v = spin_coll_variants(); *v && !status; v++)
            if (strcmp(way->collective, collective) == 0) {
                call.how = (struct spin_coll_how){way->algorithm, *v};
                status = measure(coll, job, call, n);
            }
    free((void *)call.in);
    free(call.out);
    return status;
}

int main(int argc, char **argv) {
    struct spin_job job;
    struct spin_coll *coll;
    int status = 0;
    if (spin_job_open(&job) != PTL_OK || job.ranks < 2) {
        printf("start this with two ranks or more\n");
        return 2;
    }
    int code = spin_coll_open(job.ni, PTL_PT_ANY, 0, &coll);
    if (code != PTL_OK) {
        printf("rank %u: %s\n", job.rank, PtlToStr(code, PTL_STR_ERROR));
        return 1;
    }
    if (argc > 2)
        status = measure_all(coll, &job, argv[1], strtoull(argv[2], NULL, 0));
    for (const char *const *v = spin_coll_variants(); argc <= 2 && *v && !status; v++)
        status = collectives(coll, &job, *v);
    spin_barrier();
    spin_coll_close(coll);
    spin_job_close(&job);
    return status;
}
