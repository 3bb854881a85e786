/* A few collectives of all ranks, each by one algorithm in all three variants: processors (rdma),
 * triggered operations (triggered), handlers (spin).
 *     cc coll_example.c -o coll $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 4 ./coll
 *     openspin sim run -n 100 ./coll */
#include <spinlib/coll.h>
#include <stdio.h>
#include <string.h>

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

int main(void) {
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
    for (const char *const *variant = spin_coll_variants(); *variant && !status; variant++)
        status = collectives(coll, &job, *variant);
    spin_coll_close(coll);
    spin_job_close(&job);
    return status;
}
