/* Small MPI programs whose messages are known, for the tracer. usage: mpi_patterns PATTERN
 * Every pattern checks what it received; the status is 1 if that is wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, wrong;

static void expect(int good) {
    wrong |= !good;
}

/* 10 times round the ring: ranks * 10 messages of 1000 bytes. */
static void ring(void) {
    char token[1000] = {0};
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    for (int i = 0; i < 10; i++) {
        if (rank == 0)
            MPI_Send(token, sizeof token, MPI_BYTE, right, i, MPI_COMM_WORLD);
        MPI_Recv(token, sizeof token, MPI_BYTE, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token[0]++;
        if (rank != 0)
            MPI_Send(token, sizeof token, MPI_BYTE, right, i, MPI_COMM_WORLD);
    }
    expect(token[0] == (rank == 0 ? 10 * ranks : 9 * ranks + rank) % 256);
}

/* 5 iterations of a halo on a ring, with computation, nonblocking and persistent: 20 messages of
 * 2048 doubles per rank. */
static void halo(void) {
    static double out[2][2048], in[2][2048];
    int peers[2] = {(rank + ranks - 1) % ranks, (rank + 1) % ranks};
    MPI_Request r[4], kept[4];
    for (int side = 0; side < 2; side++) {
        MPI_Recv_init(in[side], 2048, MPI_DOUBLE, peers[side], 1 - side, MPI_COMM_WORLD,
                      &kept[side]);
        MPI_Send_init(out[side], 2048, MPI_DOUBLE, peers[side], side, MPI_COMM_WORLD,
                      &kept[2 + side]);
    }
    for (int i = 0; i < 5; i++) {
        for (int side = 0; side < 2; side++)
            for (int k = 0; k < 2048; k++)
                out[side][k] = rank + i * k;
        for (int side = 0; side < 2; side++)
            MPI_Irecv(in[side], 2048, MPI_DOUBLE, peers[side], 1 - side, MPI_COMM_WORLD, &r[side]);
        for (int side = 0; side < 2; side++)
            MPI_Isend(out[side], 2048, MPI_DOUBLE, peers[side], side, MPI_COMM_WORLD, &r[2 + side]);
        MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
        expect(in[0][7] == peers[0] + i * 7 && in[1][7] == peers[1] + i * 7);
        MPI_Startall(4, kept);
        MPI_Waitall(4, kept, MPI_STATUSES_IGNORE);
    }
    for (int k = 0; k < 4; k++)
        MPI_Request_free(&kept[k]);
}

/* One of each collective, on all ranks and on halves of them. */
static void collectives(void) {
    enum { N = 100 };
    static int a[8 * N], b[8 * N], big[40000], sum[40000];
    int counts[8], at[8];
    MPI_Comm half, copy;
    MPI_Request r[2];
    for (int i = 0; i < ranks; i++) {
        counts[i] = 10 * (i + 1);
        at[i] = i * N;
    }
    for (int i = 0; i < 8 * N; i++)
        a[i] = rank;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(a, N, MPI_INT, 1, MPI_COMM_WORLD);
    expect(a[3] == 1);
    MPI_Allreduce(&rank, b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(b[0] == ranks * (ranks - 1) / 2);
    MPI_Allreduce(big, sum, 40000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(&rank, b, 1, MPI_INT, MPI_MAX, ranks - 1, MPI_COMM_WORLD);
    MPI_Gather(&rank, 1, MPI_INT, b, 1, MPI_INT, 0, MPI_COMM_WORLD);
    expect(rank != 0 || b[ranks - 1] == ranks - 1);
    MPI_Gatherv(a, counts[rank], MPI_INT, b, counts, at, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Scatter(a, N, MPI_INT, b, N, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Scatterv(a, counts, at, MPI_INT, b, counts[rank], MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgatherv(a, counts[rank], MPI_INT, b, counts, at, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoall(a, N, MPI_INT, b, N, MPI_INT, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(a, b, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Scan(&rank, b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(b[0] == rank * (rank + 1) / 2);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_dup(half, &copy);
    MPI_Ibcast(a, N, MPI_INT, 0, half, &r[0]);
    MPI_Iallreduce(&rank, b, 1, MPI_INT, MPI_MIN, copy, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    expect(b[0] == rank % 2);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
}

/* Rank 0 takes work from anybody, by three ways to receive; the messages are of different sizes. */
static void wildcards(void) {
    static char data[5000];
    MPI_Status status;
    for (int i = 0; rank != 0 && i < 3; i++)
        MPI_Send(data, 1000 * rank + i, MPI_BYTE, 0, 5 + i, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < 3 * (ranks - 1); i++) {
        int flag = 0;
        MPI_Request r;
        if (i % 3 == 0) {
            MPI_Recv(data, sizeof data, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                     &status);
        } else if (i % 3 == 1) {
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            MPI_Recv(data, sizeof data, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(data, sizeof data, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r);
            while (!flag)
                MPI_Test(&r, &flag, &status);
        }
        expect(status.MPI_TAG >= 5 && status.MPI_TAG < 8);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void one_sided(void) {
    int memory = 0;
    MPI_Win window;
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_free(&window);
}

static void abandons(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } patterns[] = {
        {"ring", ring},           {"halo", halo},           {"collectives", collectives},
        {"wildcards", wildcards}, {"one_sided", one_sided}, {"abandons", abandons}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; argc > 1 && i < sizeof patterns / sizeof patterns[0]; i++)
        if (strcmp(argv[1], patterns[i].name) == 0)
            patterns[i].run();
    MPI_Finalize();
    if (wrong)
        fprintf(stderr, "rank %d received something wrong\n", rank);
    return wrong;
}
