/* Live cards over shared memory: two processes of this machine. Half round trip of a put, bandwidth
 * against memcpy, message rate. Peers to run beside it: ucx_perftest, fi_pingpong. */
#include "live_side.h"
#include "measure.h"

static double memcpy_ns(struct side *s, uint64_t bytes, uint32_t times) {
    uint64_t began = live_now_ns();
    for (uint32_t i = 0; i < times; i++) {
        memcpy(s->memory, s->source, bytes);
        __asm__ volatile("" ::: "memory");
    }
    return (double)(live_now_ns() - began) / times;
}

static const uint64_t sizes[] = {8, 64, 1024, 4096, 65536, 1u << 20};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void run(struct side *s, bool first) {
    meet(s);
    ping_pong(s, first, 8, 100);
    if (first)
        printf("%10s %18s %12s %12s %8s\n", "bytes", "half round trip ns", "put GB/s",
               "memcpy GB/s", "ratio");
    for (size_t i = 0; i < SIZES; i++) {
        uint64_t bytes = sizes[i];
        uint32_t times = bytes > 10000 ? 200 : 5000;
        double half = ping_pong(s, first, bytes, times);
        double ns = stream(s, first, bytes, times, 16);
        if (!first)
            continue;
        double copy = memcpy_ns(s, bytes, times);
        printf("%10llu %18.0f %12.2f %12.2f %8.2f\n", (unsigned long long)bytes, half,
               (double)bytes / ns, (double)bytes / copy, copy / ns);
        fflush(stdout);
    }
    double ns = stream(s, first, 8, 200000, 0);
    if (first)
        printf("%.2f million messages of 8 bytes per second\n", 1e3 / ns);
}

int main(void) {
    bench_machine();
    return sides_run("bench-live", (struct live_card_options){.nid = 1}, run);
}
