#include "lib/test.h"

#include "sim/host.h"
#include "sim/network.h"

static struct hosts *make(const char *preset, const struct noise *noise, struct host_config *c) {
    struct spin_error err;
    struct hosts *h;
    CHECK_EQ(host_preset(preset, c, &err), 0);
    CHECK_EQ(hosts_new(&h, 4, c, noise, &err), 0);
    return h;
}

TEST(dma_follows_loggp) {
    struct host_config c;
    struct hosts *h = make("sc17-dis", NULL, &c);
    CHECK_EQ(host_dma(h, 0, HOST_TO_MEMORY, 1000, 4096),
             1000 + 250000 + 63898); /* 4096 x 15.6 ps, rounded up */
    CHECK_EQ(host_dma(h, 0, HOST_TO_MEMORY, 1000, 8), 1000 + 63898 + 250000 + 125);
    CHECK_EQ(host_dma(h, 1, HOST_TO_MEMORY, 1000, 8), 1000 + 250000 + 125); /* another host */
    CHECK_EQ(hosts_counts(h).dma_queued_ps, 63898);
    CHECK_EQ(hosts_counts(h).dma_bytes, 4096 + 16);
    hosts_free(h);
    h = make("sc17-int", NULL, &c);
    CHECK_EQ(host_dma(h, 0, HOST_TO_MEMORY, 0, 4096), 50000 + 27444);
    hosts_free(h);
}

/* Many DMAs reach the printed 64 GiB/s to within the rounding of 15.6 ps, and not more. */
TEST(dma_streams_at_its_rate) {
    struct host_config c;
    struct hosts *h = make("sc17-dis", NULL, &c);
    uint64_t end = 0;
    for (int i = 0; i < 1000; i++)
        end = host_dma(h, 2, HOST_TO_MEMORY, 0, 65536);
    CHECK_EQ(end, 250000 + 1000 * 1022362ull);
    hosts_free(h);
}

/* Reads and writes go side by side, but for the memory that both need. */
TEST(dma_is_full_duplex) {
    struct host_config c;
    struct hosts *h = make("sc17-dis", NULL, &c);
    uint64_t in = 0, out = 0;
    for (int i = 0; i < 100; i++) {
        in = host_dma(h, 0, HOST_TO_MEMORY, 0, 65536);
        out = host_dma(h, 0, HOST_FROM_MEMORY, 0, 65536);
    }
    CHECK_EQ(in, 250000 + 100 * 1022362ull);
    CHECK_EQ(out, in);
    hosts_free(h);
}

TEST(gap_and_overhead_of_dma_count) {
    struct host_config c;
    struct spin_error err;
    struct hosts *h;
    CHECK_EQ(host_preset("sc17-int", &c, &err), 0);
    c.dma_o_ps = 7000;
    c.dma_gap_ps = 100000;
    CHECK_EQ(hosts_new(&h, 1, &c, NULL, &err), 0);
    CHECK_EQ(host_dma(h, 0, HOST_TO_MEMORY, 0, 100), 7000 + 50000 + 670);
    CHECK_EQ(host_dma(h, 0, HOST_TO_MEMORY, 0, 100), 107000 + 50000 + 670);
    hosts_free(h);
}

/* A copy pays the latency once and two bytes of bandwidth per byte; DMA and copy share the memory.
 */
TEST(copies_and_dma_share_the_memory) {
    struct host_config c;
    struct hosts *h = make("sc17-int", NULL, &c);
    uint64_t copy = host_copy(h, 0, 0, 0, 1000000);
    CHECK_EQ(copy, 51000 + 12418000000ull / 1000);
    /* Memory is taken until then; the DMA's own engine is not. */
    CHECK_EQ(host_dma(h, 0, HOST_TO_MEMORY, 0, 1000), copy + 6209 + 50000);
    /* Another cpu's copy queues behind both. */
    CHECK_EQ(host_copy(h, 0, 1, 0, 10), copy + 6209 + 125);
    CHECK_EQ(host_compute(h, 0, 0, 0, 5000), copy + 5000); /* the first cpu was busy copying */
    CHECK_EQ(host_copy(h, 0, 2, 77, 0), 77);
    CHECK_EQ(hosts_counts(h).memory_bytes, 2000000 + 1000 + 20);
    hosts_free(h);
}

TEST(cpus_have_overhead_and_noise) {
    struct host_config c;
    struct spin_error err;
    struct noise *noise;
    struct spin_noise options = {.period_ps = 1000000, .length_ps = 100000, .together = true};
    CHECK_EQ(noise_new(&options, &noise, &err), 0);
    struct hosts *h = make("sc17-int", noise, &c);
    CHECK_EQ(host_compute(h, 3, 7, 500000, 65000), 565000); /* between two detours */
    /* 2 us of work against a tenth of the time lost: within one detour of 2.22 us. */
    uint64_t end = host_compute(h, 3, 0, 0, 20000000);
    CHECK(end >= 22200000 && end <= 22400000);
    CHECK_EQ(hosts_counts(h).noise_ps, end - 20000000);
    CHECK_EQ(hosts_counts(h).cpu_busy_ps, 20065000);
    hosts_free(h);
    noise_free(noise);
}

TEST(wrong_hosts_are_refused) {
    struct host_config c;
    struct spin_error err;
    struct hosts *h;
    CHECK_EQ(host_preset("sc18", &c, &err), SPIN_EARG);
    CHECK_HAS(err.text, "sc17-int and sc17-dis");
    CHECK_EQ(host_preset("sc17-int", &c, &err), 0);
    c.cpus = 0;
    CHECK_EQ(hosts_new(&h, 1, &c, NULL, &err), SPIN_EARG);
    c.cpus = 1;
    c.dma_fs_per_byte = 0;
    CHECK_EQ(hosts_new(&h, 1, &c, NULL, &err), SPIN_EARG);
    CHECK(h == NULL);
}

TEST_MAIN
