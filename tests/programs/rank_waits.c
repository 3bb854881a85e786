/* All ranks meet and say so; then they wait for ever, or rank 1 is killed while the others do, or
 * all end. */
#include <openspin.h>
#include <portals4.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (PtlInit())
        return 3;
    spin_barrier();
    printf("rank %u of %u waits\n", spin_rank(), spin_ranks());
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "killed") == 0 && spin_rank() == 1)
        kill(getpid(), SIGKILL);
    if (argc > 1 && strcmp(argv[1], "end") == 0)
        return 0;
    for (;;)
        pause();
}
