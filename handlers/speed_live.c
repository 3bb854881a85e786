/* spinlib-live FD: a use case of spinlib as the ranks of a job on live cards, started by `openspin
 * experiment spinlib/speed --live`. FD is the memory of a struct speed_plan. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "speed.h"

int main(int argc, char **argv) {
    struct speed_plan *plan =
        argc == 2 ? mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0)
                  : MAP_FAILED;
    if (plan == MAP_FAILED) {
        fprintf(stderr, "spinlib-live: this is a part of `openspin experiment --live`\n");
        return 2;
    }
    setenv("OPENSPIN_HANDLERS", plan->images, 1);
    const struct speed_case *c = speed_cases[plan->number];
    int status = speed_rank(c, &plan->speed);
    if (status)
        fprintf(stderr, "spinlib-live: %s: rank %u failed at check %d\n", c->name, spin_rank(),
                status);
    return status;
}
