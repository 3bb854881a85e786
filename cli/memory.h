/* --fill and --dump: memory of handlers, scratchpads and the host, put there before a run and taken
 * from there after it. One syntax for `exec`, `budget` and `card run`:
 *
 *     --fill [ctxN:]REGION[+OFFSET]=FILE
 *     --dump [ctxN:]REGION[+OFFSET[,LENGTH]]=FILE
 *
 * REGION is state, data, host, handler-host, scratchpad or scratchpadN (of cluster N, up to 3). */
#ifndef OPENSPIN_CLI_MEMORY_H
#define OPENSPIN_CLI_MEMORY_H

#include "cli.h"

#define MEMORY_FILL_HELP                                                                           \
    "before the run: [ctxN:]REGION[+OFFSET]=FILE; REGION is state, data, host, handler-host, "     \
    "scratchpad[N]"
#define MEMORY_DUMP_HELP "after the run: [ctxN:]REGION[+OFFSET[,LENGTH]]=FILE, the same regions"

/* Where a region of a context is; NULL: there is none. Copy 1 and so on: other places that are
 * filled alike (the state of a P4sPIN context in each cluster). */
struct memory_view {
    void *user;
    uint32_t contexts;
    uint8_t *(*reach)(void *user, uint32_t context, enum spin_space space, unsigned copy,
                      uint64_t *bytes);
};

/* 0, or the exit status after the one line of error. `check` looks at the words alone. */
int memory_check(const struct cli_command *command, const char *shown, const struct cli_list *specs,
                 uint32_t contexts);
int memory_fill(const struct cli_command *command, const struct cli_list *specs,
                const struct memory_view *view);
int memory_fill_one(const struct cli_command *command, const char *shown, uint32_t context,
                    enum spin_space space, const char *path, const struct memory_view *view);
int memory_dump(const struct cli_command *command, const struct cli_list *specs,
                const struct memory_view *view);

#endif
