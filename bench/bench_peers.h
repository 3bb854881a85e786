/* Other libraries on the same machine in the same minute: their own benchmark programs, a server
 * and a client. What is not installed, or says nothing, is told as nothing. */
#ifndef BENCH_BENCH_PEERS_H
#define BENCH_BENCH_PEERS_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER_LIMIT_S 20

static inline void print_peer(double figure) {
    if (figure > 0)
        printf(figure < 100 ? " %10.2f" : " %10.0f", figure);
    else
        printf(" %10s", "-");
    fflush(stdout);
}

/* The number in a column (from 0) of the last line that the client prints; 0: none. */
static inline double peer_run(const char *server, const char *client, int column) {
    char line[512], command[1000];
    double found = 0;
    snprintf(command, sizeof command,
             "timeout %d %s >/dev/null 2>&1 & s=$!; sleep 0.3; timeout %d %s 2>/dev/null | tail -1;"
             " kill $s 2>/dev/null; wait $s 2>/dev/null",
             PEER_LIMIT_S, server, PEER_LIMIT_S, client);
    fflush(stdout);
    FILE *said = popen(command, "r");
    if (said && fgets(line, sizeof line, said)) {
        char *save, *word = strtok_r(line, " \n", &save);
        for (int i = 0; word && i < column; i++)
            word = strtok_r(NULL, " \n", &save);
        found = word ? atof(word) : 0;
    }
    if (said)
        pclose(said);
    return found;
}

/* Columns of its last line: "Final:", iterations, median, average, overall us; average, overall
 * MB/s; messages per second. */
static inline double peer_ucx(const char *test, uint64_t bytes, uint32_t times, int column) {
    static int port = 20000;
    char server[64], client[200];
    port = port == 20000 ? 20000 + getpid() % 10000 : port + 1;
    snprintf(server, sizeof server, "ucx_perftest -p %d", port);
    snprintf(client, sizeof client, "ucx_perftest -p %d -t %s -s %llu -n %u localhost", port, test,
             (unsigned long long)bytes, times);
    return peer_run(server, client, column);
}

static inline double peer_ucx_latency_ns(uint64_t bytes) {
    return 1e3 * peer_ucx("tag_lat", bytes, 50000, 2);
}

static inline double peer_ucx_tag_bandwidth(uint64_t bytes) {
    return 1.048576e-3 * peer_ucx("tag_bw", bytes, bytes > 100000 ? 1000 : 20000, 6);
}

static inline double peer_ucx_put_bandwidth(uint64_t bytes) {
    return 1.048576e-3 * peer_ucx("ucp_put_bw", bytes, bytes > 100000 ? 1000 : 20000, 6);
}

static inline double peer_ucx_rate(void) {
    return 1e-6 * peer_ucx("tag_bw", 8, 500000, 8);
}

static inline double peer_libfabric_latency_ns(uint64_t bytes) {
    char client[200];
    snprintf(client, sizeof client, "fi_pingpong -p shm -e rdm -I 20000 -S %llu",
             (unsigned long long)bytes);
    double us = 0;
    char both[300];
    snprintf(both, sizeof both, "%s 127.0.0.1", client);
    us = peer_run(client, both, 6);
    return 1e3 * us;
}

#endif
