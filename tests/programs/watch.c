/* Rank 1 never comes back: it watches memory, computes, or waits for the system. The others wait
 * for it in a barrier. */
#include <openspin.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int flag, flags[100];
static volatile unsigned long sum;

static void watch_flag(void) {
    while (!flag)
        ;
}

static void watch_flags(void) {
    for (int there = 0; !there;) {
        there = 1;
        for (int i = 0; i < 100; i++)
            if (!flags[i])
                there = 0;
    }
}

static void compute(void) {
    for (unsigned long i = 0;; i++)
        sum += i * i;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    char byte;
    int pipes[2];
    if (spin_rank() == 1) {
        spin_compute(1000);
        FILE *begun = fopen("begun", "w"); /* the test interrupts from here on */
        if (begun)
            fclose(begun);
        if (strcmp(how, "flag") == 0)
            watch_flag();
        else if (strcmp(how, "flags") == 0)
            watch_flags();
        else if (strcmp(how, "compute") == 0)
            compute();
        else if (strcmp(how, "yield") == 0)
            while (!flag)
                spin_work(1, 0);
        else if (strcmp(how, "read") == 0 && pipe(pipes) == 0)
            while (read(pipes[0], &byte, 1) < 0)
                ;
    }
    spin_barrier();
    return 0;
}
