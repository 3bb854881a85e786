/* A halo exchange that overlaps with computation, as MPI programs do it. Every rank has a part of a
 * line of cells; in each iteration it sends its borders (256 KiB) to both neighbours, computes what
 * does not depend on theirs, and waits.
 *     mpicc -O2 mpi_halo.c -o mpi_halo && openspin goal trace -n 4 ./mpi_halo */
#include <mpi.h>
#include <stdio.h>

enum { BORDER = 32 * 1024, INNER = 512 * 1024, ITERATIONS = 5 };

static double border[2][BORDER], halo[2][BORDER], inner[INNER];

static void compute(void) {
    for (int i = 1; i < INNER - 1; i++)
        inner[i] = 0.25 * inner[i - 1] + 0.5 * inner[i] + 0.25 * inner[i + 1];
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int neighbour[2] = {(rank + ranks - 1) % ranks, (rank + 1) % ranks};
    double sum = 0;
    for (int i = 0; i < ITERATIONS; i++) {
        MPI_Request request[4];
        for (int side = 0; side < 2; side++)
            MPI_Irecv(halo[side], BORDER, MPI_DOUBLE, neighbour[side], 1 - side, MPI_COMM_WORLD,
                      &request[side]);
        for (int side = 0; side < 2; side++)
            MPI_Isend(border[side], BORDER, MPI_DOUBLE, neighbour[side], side, MPI_COMM_WORLD,
                      &request[2 + side]);
        compute();
        MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&inner[INNER / 2], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    if (rank == 0)
        printf("%d iterations, the sum is %g\n", ITERATIONS, sum);
    return 0;
}
