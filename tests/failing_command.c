/* The command with memory that runs out: allocation number $FAIL_AT of the process fails (0, or
 * nothing: none). At its end the process writes into the file $FAIL_COUNT how many it made. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "lib/failing.h"

static pid_t process; /* children of the command are not meant */

__attribute__((constructor)) static void arm(void) {
    const char *number = getenv("FAIL_AT");
    process = getpid();
    allocations = 0;
    fail_at = number ? strtoull(number, NULL, 0) : 0;
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getpid() == process ? getenv("FAIL_COUNT") : NULL;
    FILE *out = path ? fopen(path, "we") : NULL;
    if (!out)
        return;
    fprintf(out, "%llu\n", (unsigned long long)allocations);
    fclose(out);
}
