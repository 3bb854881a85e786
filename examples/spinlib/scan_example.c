/* Rank 1 has a table of employees; rank 0 asks for those with an id from 100 to 104.
 *     cc scan_example.c -o scan $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 2 ./scan
 *     openspin sim run -n 2 ./scan */
#include <spinlib/scan.h>
#include <stdio.h>
#include <stdlib.h>

struct employee {
    uint32_t id;
    char name[28];
};
enum { EMPLOYEES = 100000 };

static struct employee *make_table(void) {
    struct employee *table = malloc(EMPLOYEES * sizeof *table);
    for (uint32_t i = 0; table && i < EMPLOYEES; i++) {
        table[i].id = i * 7919u % EMPLOYEES;
        snprintf(table[i].name, sizeof table[i].name, "employee %u", table[i].id);
    }
    return table;
}

static int ask(struct spin_scan *scan) {
    struct employee found[16];
    uint64_t matching;
    const struct spin_scan_query query = {
        .rows = EMPLOYEES, .row_bytes = sizeof found[0], .low = 100, .high = 104};
    uint64_t start = spin_now_ps();
    int code = spin_scan_read(scan, 1, &query, found, sizeof found, &matching);
    if (code != PTL_OK) {
        printf("the scan failed: %s\n", PtlToStr(code, PTL_STR_ERROR));
        return 1;
    }
    uint64_t time = spin_now_ps() - start;
    printf("%u of %u rows match; it took %.1f us\n", (unsigned)matching, EMPLOYEES,
           (double)time / 1e6);
    for (uint64_t i = 0; i < matching; i++)
        printf("%s\n", found[i].name);
    return 0;
}

int main(void) {
    struct spin_job job;
    struct spin_scan *scan;
    if (spin_job_open(&job) != PTL_OK || job.ranks < 2) {
        printf("start this with two ranks or more\n");
        return 2;
    }
    struct employee *table = job.rank == 1 ? make_table() : NULL;
    int code = spin_scan_open(job.ni, table, EMPLOYEES * sizeof *table, &scan);
    if (code != PTL_OK) {
        printf("rank %u: %s %s\n", job.rank, PtlToStr(code, PTL_STR_ERROR), PtlImageError());
        return 1;
    }
    spin_barrier(); /* the table is there */
    int status = job.rank == 0 ? ask(scan) : 0;
    spin_barrier(); /* and was read */
    spin_scan_close(scan);
    spin_job_close(&job);
    free(table);
    return status;
}
