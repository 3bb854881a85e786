/* Two broadcasts, from rank 0 and from rank 1, to all ranks but those that are named: these do not
 * forward anything, as if they had failed.
 *     cc ftb_example.c -o ftb $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 16 ./ftb 3 5 9
 *     openspin sim run -n 16 ./ftb 3 5 9 */
#include <spinlib/ftb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"the first broadcast", "another root"};

static int take_part(struct spin_ftb *ftb, uint32_t rank, uint32_t root) {
    const void *data;
    uint64_t bytes;
    if (rank == root)
        return spin_ftb_send(ftb, words[root], strlen(words[root]) + 1);
    int code = spin_ftb_receive(ftb, PTL_TIME_FOREVER, &data, &bytes);
    if (code == PTL_OK)
        printf("rank %u: %s\n", rank, (const char *)data);
    return code;
}

int main(int argc, char **argv) {
    struct spin_job job;
    struct spin_ftb *ftb;
    struct spin_ftb_options options = {.most_bytes = 4096};
    if (spin_job_open(&job) != PTL_OK || job.ranks < 2) {
        printf("start this with two ranks or more\n");
        return 2;
    }
    for (int i = 1; i < argc; i++)
        if ((uint32_t)atoi(argv[i]) == job.rank)
            options.stop_after = 1;
    int code = spin_ftb_open(job.ni, &options, &ftb);
    if (code != PTL_OK) {
        printf("rank %u: %s %s\n", job.rank, PtlToStr(code, PTL_STR_ERROR), PtlImageError());
        return 1;
    }
    spin_barrier();
    for (uint32_t root = 0; root < 2 && code == PTL_OK; root++)
        if (!options.stop_after)
            code = take_part(ftb, job.rank, root);
    spin_barrier();
    spin_ftb_close(ftb);
    spin_job_close(&job);
    return code == PTL_OK ? 0 : 1;
}
