/* A client writes to a RAID-5 of five servers; one of them loses its data, the client writes and
 * reads all the same, and the server makes its data again.
 *     cc raid_example.c -o raid $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 6 ./raid
 *     openspin sim run -n 6 ./raid */
#include <spinlib/raid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVER_BYTES = 256 << 10, BYTES = 512 << 10, CLIENT = 5, VICTIM = 2 };

static int is_there(struct spin_raid *raid, const uint8_t *data, uint8_t *back, const char *when) {
    memset(back, 0, BYTES);
    int code = spin_raid_read(raid, 4096, back, BYTES);
    printf("%s: %s\n", when,
           code != PTL_OK                   ? PtlToStr(code, PTL_STR_ERROR)
           : memcmp(data, back, BYTES) == 0 ? "every byte is right"
                                            : "the data is wrong");
    return code == PTL_OK && memcmp(data, back, BYTES) == 0 ? 0 : 1;
}

int main(void) {
    struct spin_job job;
    struct spin_raid *raid;
    const struct spin_raid_options options = {.server_bytes = SERVER_BYTES, .rotate = true};
    uint8_t *data = malloc(BYTES), *back = malloc(BYTES);
    int status = 0;
    if (!data || !back || spin_job_open(&job) != PTL_OK || job.ranks < 6) {
        printf("start this with six ranks\n");
        return 2;
    }
    for (int i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 7 + i / 100);
    int code = spin_raid_open(job.ni, &options, &raid);
    if (code != PTL_OK) {
        printf("rank %u: %s %s\n", job.rank, PtlToStr(code, PTL_STR_ERROR), PtlImageError());
        return 1;
    }
    spin_barrier();
    if (job.rank == CLIENT && spin_raid_write(raid, 4096, data, BYTES) == PTL_OK)
        status |= is_there(raid, data, back, "after the write");
    spin_barrier();
    if (job.rank == VICTIM)
        memset(spin_raid_memory(raid), 0, SERVER_BYTES);
    spin_barrier();
    if (job.rank == CLIENT) {
        spin_raid_avoid(raid, VICTIM);
        for (int i = 0; i < BYTES / 2; i++)
            data[i] ^= 0x55;
        if (spin_raid_write(raid, 4096, data, BYTES / 2) != PTL_OK)
            status = 1;
        status |= is_there(raid, data, back, "written without a server");
        spin_raid_avoid(raid, SPIN_RAID_ALL);
    }
    spin_barrier();
    if (job.rank == VICTIM && spin_raid_rebuild(raid) != PTL_OK)
        status = 1;
    spin_barrier();
    if (job.rank == CLIENT)
        status |= is_there(raid, data, back, "rebuilt");
    spin_barrier();
    spin_raid_close(raid);
    spin_job_close(&job);
    free(data);
    free(back);
    return status;
}
