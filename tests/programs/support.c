/* A library that comes with a program: its variables are a rank's own as well. */
#include <openspin.h>
#include <unistd.h>

int program_function(void);
int support_count(void);
int support_own(void);
int support_constructed;

__attribute__((constructor)) static void construct(void) {
    support_constructed = 1000 + (int)spin_rank();
}

int support_count(void) {
    static int calls = 20;
    usleep(3); /* in virtual time, too */
    return calls++;
}

int support_own(void) {
    return program_function();
}
