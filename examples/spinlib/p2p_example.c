/* Rank 0 receives a large message from any rank while it computes; who fetches it is the variant:
 * "spin" (the card does), "portals" or "rdma" (the processor does, when it waits).
 *     cc p2p_example.c -o p2p $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 2 ./p2p spin
 *     openspin sim run -n 2 ./p2p rdma */
#include <spinlib/p2p.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 1 << 20, TAG = 7, COMPUTE_NS = 20000000 };

static int receive(struct spin_p2p *p2p, uint8_t *data) {
    struct spin_p2p_request *request;
    struct spin_p2p_status status;
    spin_p2p_irecv(p2p, data, BYTES, SPIN_P2P_ANY_SOURCE, TAG, 0, &request);
    spin_barrier();           /* the sender begins */
    spin_compute(COMPUTE_NS); /* meanwhile this processor has other work */
    uint64_t start = spin_now_ps();
    int code = spin_p2p_wait(p2p, &request, &status);
    if (code != PTL_OK || status.code != PTL_OK) {
        printf("no message: %s\n", PtlToStr(code ? code : status.code, PTL_STR_ERROR));
        return 1;
    }
    double waited = (double)(spin_now_ps() - start) / 1e6;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < BYTES; i++)
        wrong += data[i] != (uint8_t)(i * 31 >> 8);
    printf("%u bytes from rank %u, %u of them wrong; waited for %.1f us\n", (unsigned)status.bytes,
           status.source, wrong, waited);
    return wrong != 0;
}

int main(int argc, char **argv) {
    struct spin_job job;
    struct spin_p2p *p2p;
    const struct spin_p2p_options options = {.variant = argc > 1 ? argv[1] : "spin"};
    if (spin_job_open(&job) != PTL_OK || job.ranks < 2) {
        printf("start this with two ranks or more\n");
        return 2;
    }
    int code = spin_p2p_open(job.ni, &options, &p2p);
    if (code != PTL_OK) {
        printf("rank %u: %s %s\n", job.rank, PtlToStr(code, PTL_STR_ERROR), PtlImageError());
        return 1;
    }
    uint8_t *data = calloc(1, BYTES);
    spin_barrier(); /* all endpoints are there */
    int status = 0;
    for (uint32_t i = 0; i < BYTES && job.rank == 1; i++)
        data[i] = (uint8_t)(i * 31 >> 8);
    if (job.rank == 0)
        status = receive(p2p, data);
    else
        spin_barrier();
    if (job.rank == 1)
        status = spin_p2p_send(p2p, data, BYTES, 0, TAG, 0) != PTL_OK;
    spin_barrier();
    spin_p2p_close(p2p);
    spin_job_close(&job);
    free(data);
    return status;
}
