/* Every rank is a server and a client of a key-value store: it inserts its own key, and gets the
 * next rank's.
 *     cc kv_example.c -o kv $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 4 ./kv
 *     openspin sim run -n 4 ./kv */
#include <spinlib/kv.h>
#include <stdio.h>
#include <string.h>

static uint32_t name(char key[32], uint32_t rank) {
    return (uint32_t)snprintf(key, 32, "greeting of %u", rank);
}

int main(void) {
    struct spin_job job;
    struct spin_kv *kv;
    const struct spin_kv_options options = {0};
    char key[32], text[SPIN_KV_VALUE_BYTES];
    uint32_t bytes;
    bool found = false;
    if (spin_job_open(&job) != PTL_OK)
        return 2;
    int code = spin_kv_open(job.ni, &options, &kv);
    if (code != PTL_OK) {
        printf("rank %u: %s %s\n", job.rank, PtlToStr(code, PTL_STR_ERROR), PtlImageError());
        return 1;
    }
    spin_barrier(); /* all servers are there */
    snprintf(text, sizeof text, "hello from rank %u", job.rank);
    code = spin_kv_insert(kv, key, name(key, job.rank), text, (uint32_t)strlen(text) + 1);
    spin_barrier();
    if (code == PTL_OK)
        code = spin_kv_get(kv, key, name(key, (job.rank + 1) % job.ranks), text, &bytes, &found);
    if (found)
        printf("rank %u: %s\n", job.rank, text);
    spin_barrier();
    spin_kv_close(kv);
    spin_job_close(&job);
    return code == PTL_OK && found ? 0 : 1;
}
