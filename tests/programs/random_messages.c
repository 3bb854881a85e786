/* Random programs of sends and receives on live cards, checked as in worlds (tests/p2p_test.c):
 *     random_messages VARIANT FIRST-SEED COUNT */
#include <stdio.h>

#include "lib/p2p_program.h"

int main(int argc, char **argv) {
    struct scene *s = malloc(sizeof *s);
    if (argc != 4 || !s)
        return 2;
    unsigned long first = strtoul(argv[2], NULL, 10), count = strtoul(argv[3], NULL, 10);
    PtlInit(); /* the programs open and close theirs within */
    for (unsigned long seed = first; seed < first + count; seed++) {
        make_program(s, argv[1], seed, spin_ranks());
        int line = random_rank(s);
        if (line) {
            printf("rank %u, seed %lu: line %d of p2p_program.h\n", spin_rank(), seed, line);
            return 1;
        }
    }
    if (spin_rank() == 0)
        printf("%s: %lu programs match as in MPI\n", argv[1], count);
    PtlFini();
    free(s);
    return 0;
}
