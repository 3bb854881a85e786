/* `openspin store`: a store of live processes on this machine. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "images.h"
#include "live_ranks.h"

struct options {
    uint64_t nodes, bytes;
    const char *files;
};

#define AT(member) offsetof(struct options, member)
#define NODES                                                                                      \
    { "nodes", 'n', CLI_NUMBER, "N", "storage nodes, each a process (8)", AT(nodes), 8, 64 }
static const struct cli_option bench_table[] = {NODES, {0}};
static const struct cli_option demo_table[] = {
    NODES,
    {"bytes", 'b', CLI_SIZE, "BYTES", "of each object (256KiB)", AT(bytes), 1, 4 << 20},
    {"files", 0, CLI_STRING, "FOLDER", "nodes keep their media in files there, not in memory",
     AT(files), 0, 0},
    {0},
};
#undef NODES
#undef AT

/* What the ranks say in the memory that they share with us (handlers/storage/store_live.h). */
struct verdict {
    uint32_t good, killed;
};
#define SHARED_BYTES (64u << 10)

static int judge(const struct cli_command *command, const volatile struct verdict *v,
                 const struct spin_launch_result *r) {
    if (r->passed_on)
        return 128 + r->passed_on;
    if (v->good != 1)
        return cli_error(command, CLI_FAILED, "something was wrong, see above");
    if (r->failed != v->killed || (r->failed && r->signal != SIGKILL))
        return cli_error(command, CLI_FAILED,
                         "%u processes failed, %u were killed; the first is rank %u, status %d",
                         r->failed, v->killed, r->first_failed, r->status);
    if (v->killed)
        printf("%u nodes were killed, every byte was right, and all processes have ended\n",
               v->killed);
    return 0;
}

/* The ranks of a store; `what` its client does. */
static int start(const struct cli_command *command, const struct options *o, const char *what) {
    struct images_folders folders;
    const struct experiment_context found = images_find(&folders);
    const struct spin_launch_options options = {.ranks = (uint32_t)o->nodes + 2, .keep = true};
    struct spin_launch_result result;
    struct spin_error err;
    char program[PATH_MAX + 32], shared[64], nodes[24], bytes[24];
    char *argv[] = {program, (char *)(uintptr_t)what,     shared, nodes, bytes,
                    "1",     (char *)(uintptr_t)o->files, NULL};
    int fd;
    if (o->files && access(o->files, W_OK | X_OK) != 0)
        return cli_error(command, CLI_FAILED, "%s: %s; nodes keep their media in this folder",
                         o->files, strerror(errno));
    void *memory = live_memory_new(&found, SHARED_BYTES, &fd, &err);
    if (!memory)
        return cli_report(command, &err);
    snprintf(program, sizeof program, "%s/store-live", found.programs);
    snprintf(shared, sizeof shared, "/proc/self/fd/%d", fd);
    snprintf(nodes, sizeof nodes, "%llu", (unsigned long long)o->nodes);
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)o->bytes);
    fflush(stdout);
    int status = spin_launch(&options, argv, &result, &err) ? cli_report(command, &err)
                                                            : judge(command, memory, &result);
    live_memory_free(memory, SHARED_BYTES, fd);
    return status;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.nodes = 8, .bytes = 256 << 10};
    struct cli_list words;
    int status = cli_parse(command, argc, argv, &o, &words);
    if (!status && words.count)
        status = cli_error(command, CLI_USAGE, "'%s' is not an option; see openspin %s --help",
                           words.items[0], command->name);
    if (!status)
        status = start(command, &o, cli_last_word(command));
    cli_free(command, &o, &words);
    return status;
}

static const struct cli_command store_demo = {
    .name = "store demo",
    .args = "[options]",
    .summary = "write, kill nodes, read everything back and repair, on live cards",
    .about = "Starts a store on this machine: a service, storage nodes and a client, each a\n"
             "process with a live card. The client writes objects of every policy (plain,\n"
             "copies along a ring and a tree, Reed-Solomon), kills a node by SIGKILL, reads\n"
             "everything back, writes on, repairs, kills another one, and reads again. The\n"
             "exit status is 1 if a byte is wrong or anything is not as it should be.",
    .options = demo_table,
    .reads_nothing = true,
    .run = run,
};

static const struct cli_command store_bench = {
    .name = "store bench",
    .args = "[options]",
    .summary = "times of writes and reads of each policy, on live cards",
    .about = "Starts a store as `openspin store demo` does, and prints the median time and the\n"
             "goodput of writes and reads of 4 KiB, 64 KiB and 1 MiB, beside memcpy, the\n"
             "checksum, coding by ISA-L on one core, and a put that is acknowledged. What a\n"
             "write takes is two questions to the service and the data's way along the nodes.",
    .options = bench_table,
    .reads_nothing = true,
    .run = run,
};

static const struct cli_command *const commands[] = {&store_bench, &store_demo, NULL};

const struct cli_command cli_store = {
    .name = "store",
    .args = "COMMAND ...",
    .summary = "a store of objects on live cards",
    .commands = commands,
};
