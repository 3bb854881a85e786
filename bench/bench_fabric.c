/* Live cards over libfabric beside libfabric alone (fi_pingpong), in one run: half the round trip
 * of 8 bytes and the bandwidth of large puts. Ours is a median; fi_pingpong tells a mean, so the
 * best of several runs of it stands for it. usage: bench-fabric [PROVIDER...], else shm and tcp */
#include "live_side.h"

#define SMALL       8u
#define LARGE       (1u << 20)
#define ROUND_TRIPS 5000u
#define TURNS       2

static const char *name;

static void work(struct side *s, bool first) {
    meet(s);
    ping_pong(s, first, SMALL, ROUND_TRIPS / 10);
    double half_ns = ping_pong(s, first, SMALL, ROUND_TRIPS);
    double each_ns = stream(s, first, LARGE, 100, 4);
    if (first)
        printf("%-8s %10.2f us %10.2f GB/s", name, half_ns / 1e3, LARGE / each_ns);
    fflush(stdout);
}

/* The figure in one column of its last line, or 0. */
static double ask_fi_pingpong(uint32_t bytes, uint32_t times, const char *column) {
    char command[400], line[200];
    double figure = 0;
    snprintf(command, sizeof command,
             "p='fi_pingpong -p %s -e rdm -S %u -I %u'; timeout 60 $p >/dev/null 2>&1 & sleep 0.7; "
             "timeout 60 $p 127.0.0.1 2>/dev/null | tail -n 1 | awk '{print $%s}'; wait",
             name, bytes, times, column);
    FILE *out = popen(command, "r");
    if (out && fgets(line, sizeof line, out))
        figure = atof(line);
    if (out)
        pclose(out);
    return figure;
}

static void beside(void) {
    double half_us = 0, megabytes = 0;
    for (int i = 0; i < TURNS; i++) {
        double us = ask_fi_pingpong(SMALL, ROUND_TRIPS, "7");
        double mb = ask_fi_pingpong(LARGE, 100, "6");
        half_us = us > 0 && (half_us == 0 || us < half_us) ? us : half_us;
        megabytes = mb > megabytes ? mb : megabytes;
    }
    if (half_us > 0)
        printf(" %14.2f us %10.2f GB/s\n", half_us, megabytes / 1e3);
    else
        printf("   no fi_pingpong\n");
}

/* In a process of its own: libfabric does not survive a fork. */
static int measure(const char *provider) {
    int status;
    name = provider;
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(sides_run(
            "bench-fabric",
            (struct live_card_options){.transport = LIVE_FABRIC, .provider = provider, .nid = 1},
            work));
    waitpid(child, &status, 0);
    if (!status)
        beside();
    return status != 0;
}

int main(int argc, char **argv) {
    int failed = 0;
    printf("provider  8 B, half round trip, 1 MiB puts;  the same by fi_pingpong\n");
    for (int i = 1; i < argc; i++)
        failed |= measure(argv[i]);
    return argc > 1 ? failed : measure("shm") | measure("tcp");
}
