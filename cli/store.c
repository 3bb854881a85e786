/* `openspin store`: a store of live processes on this machine. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/memory_group.h"
#include "images.h"
#include "live_ranks.h"

struct options {
    uint64_t nodes, bytes, memory;
    const char *files;
};

#define AT(member) offsetof(struct options, member)
#define NODES                                                                                      \
    { "nodes", 'n', CLI_NUMBER, "N", "storage nodes, each a process (8)", AT(nodes), 8, 64 }
static const struct cli_option bench_table[] = {NODES, {0}};
static const struct cli_option demo_table[] = {
    NODES,
    {"bytes", 'b', CLI_SIZE, "BYTES", "size of each object (256KiB)", AT(bytes), 1, 4 << 20},
    {"files", 0, CLI_STRING, "FOLDER",
     "nodes keep their media, and the service its names, in files there", AT(files), 0, 0},
    {0},
};
#undef NODES
static const struct cli_option large_table[] = {
    {"nodes", 'n', CLI_NUMBER, "N", "storage nodes, each a process (1)", AT(nodes), 1, 64},
    {"bytes", 'b', CLI_SIZE, "BYTES", "size of each node's medium (256MiB)", AT(bytes), 16 << 20,
     (4ull << 30) - (1 << 20)},
    {"memory", 'm', CLI_SIZE, "BYTES", "memory of all nodes together (64MiB)", AT(memory), 16 << 20,
     1ull << 40},
    {"files", 0, CLI_STRING, "FOLDER", "where the nodes keep their media, on a disk", AT(files), 0,
     0},
    {0},
};
#undef AT

/* What the ranks say in the memory that they share with us (handlers/storage/store_live.h). */
struct verdict {
    uint32_t good, killed, failed;
    uint32_t alone; /* ranks that could not join, and have said why */
    uint32_t not_ours[2];
    uint32_t resident; /* MiB of all media, at the end */
};
#define SHARED_BYTES (64u << 10)

static int judge(const struct cli_command *command, const volatile struct verdict *v,
                 const struct spin_launch_result *r, const char *files, bool limited) {
    if (r->passed_on)
        return cli_error(command, 128 + r->passed_on,
                         "interrupted by signal %d (%s); all processes have ended%s%s",
                         r->passed_on, strsignal(r->passed_on),
                         files ? ", their files stay in " : "", files ? files : "");
    if (v->alone)
        return CLI_FAILED;
    if (limited && r->failed && r->signal == SIGKILL)
        return cli_error(command, CLI_FAILED,
                         "node %u was killed: its process alone needs more than --memory",
                         r->first_failed);
    if (v->good != 1)
        return cli_error(command, CLI_FAILED, "something was wrong, see above");
    if (r->failed != v->killed || (r->failed && r->signal != SIGKILL))
        return cli_error(command, CLI_FAILED,
                         "%u processes failed, %u were killed; the first is rank %u, status %d",
                         r->failed, v->killed, r->first_failed, r->status);
    return 0;
}

static void tell_memory(const volatile struct verdict *v, const struct memory_group *group) {
    uint64_t peak = memory_group_peak(group);
    if (peak)
        printf("the nodes had at most %.1f MiB of memory at a time; ", (double)peak / (1 << 20));
    printf("%u MiB of their media were in memory at the end\n", v->resident);
}

/* The ranks of a store; `what` its client does; the nodes in a control group, or NULL. *killed:
 * those that the client has. */
static int start(const struct cli_command *command, const struct options *o, const char *what,
                 const struct memory_group *group, uint32_t *killed) {
    struct images_folders folders;
    const struct experiment_context found = images_find(&folders);
    const struct spin_launch_options options = {.ranks = (uint32_t)o->nodes + 2, .keep = true};
    struct spin_launch_result result;
    struct spin_error err;
    char program[PATH_MAX + 32], shared[64], nodes[24], bytes[24];
    char *argv[] = {program,
                    (char *)(uintptr_t)what,
                    shared,
                    nodes,
                    bytes,
                    "1",
                    (char *)(uintptr_t)o->files,
                    (char *)(uintptr_t)(group ? group->path : NULL),
                    NULL};
    int fd;
    void *memory = live_memory_new(&found, SHARED_BYTES, &fd, &err);
    if (!memory)
        return cli_report(command, &err);
    snprintf(program, sizeof program, "%s/store-live", found.programs);
    snprintf(shared, sizeof shared, "/proc/self/fd/%d", fd);
    snprintf(nodes, sizeof nodes, "%llu", (unsigned long long)o->nodes);
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)o->bytes);
    fflush(stdout);
    int status = spin_launch(&options, argv, &result, &err)
                     ? cli_report(command, &err)
                     : judge(command, memory, &result, o->files, group);
    *killed = ((const volatile struct verdict *)memory)->killed;
    if (!status && group)
        tell_memory(memory, group);
    live_memory_free(memory, SHARED_BYTES, fd);
    return status;
}

static int check_folder(const struct cli_command *command, const char *files) {
    char inside[PATH_MAX + 32];
    snprintf(inside, sizeof inside, "%s/.", files ? files : ""); /* of a file: no folder */
    if (!files || access(inside, W_OK | X_OK) == 0)
        return 0;
    return cli_error(command, CLI_FAILED, "%s: %s; nodes keep their media in this folder", files,
                     strerror(errno));
}

static int parse(const struct cli_command *command, int argc, char **argv, struct options *o,
                 struct cli_list *words) {
    int status = cli_parse(command, argc, argv, o, words);
    if (!status && words->count)
        status = cli_error(command, CLI_USAGE, "'%s' is not an option; see openspin %s --help",
                           words->items[0], command->name);
    return status ? status : check_folder(command, o->files);
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.nodes = 8, .bytes = 256 << 10};
    struct cli_list words;
    int status = parse(command, argc, argv, &o, &words);
    if (!status)
        status = start(command, &o, cli_last_word(command), NULL, &(uint32_t){0});
    cli_free(command, &o, &words);
    return status;
}

/* With files, the client kills everybody at last, and all are started again. */
static int run_demo(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.nodes = 8, .bytes = 256 << 10};
    struct cli_list words;
    uint32_t killed, none;
    int status = parse(command, argc, argv, &o, &words);
    if (!status)
        status = start(command, &o, "demo", NULL, &killed);
    if (!status && o.files)
        status = start(command, &o, "again", NULL, &none);
    if (!status && o.files)
        printf("%u processes were killed, all were started again, every byte was right, and all "
               "have ended\n",
               killed);
    else if (!status)
        printf("%u nodes were killed, every byte was right, and all processes have ended\n",
               killed);
    cli_free(command, &o, &words);
    return status;
}

static int run_large(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.nodes = 1, .bytes = 256 << 20, .memory = 64 << 20};
    struct memory_group group;
    struct cli_list words;
    struct spin_error err;
    int status = parse(command, argc, argv, &o, &words);
    if (!status && !o.files)
        status = cli_error(command, CLI_USAGE,
                           "where do the nodes keep their media? say --files FOLDER, on a disk");
    if (!status && memory_group_make(&group, o.memory, &err))
        status = cli_report(command, &err);
    else if (!status) {
        printf("%llu node%s of %llu MiB, with %llu MiB of memory\n", (unsigned long long)o.nodes,
               o.nodes > 1 ? "s" : "", (unsigned long long)o.bytes >> 20,
               (unsigned long long)o.memory >> 20);
        status = start(command, &o, cli_last_word(command), &group, &(uint32_t){0});
        memory_group_remove(&group);
    }
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
             "everything back, writes on, repairs, kills another one, and reads again. With\n"
             "--files it then kills all of them, the service too, starts them again and reads\n"
             "everything once more. The exit status is 1 if a byte is wrong or anything is not\n"
             "as it should be.",
    .options = demo_table,
    .reads_nothing = true,
    .run = run_demo,
};

static const struct cli_command store_bench = {
    .name = "store bench",
    .args = "[options]",
    .summary = "times of writes and reads of each policy, on live cards",
    .about = "Starts a store as `openspin store demo` does, and prints the median time and the\n"
             "goodput of writes and reads of 4 KiB, 64 KiB and 1 MiB, beside memcpy, the\n"
             "checksum, coding by ISA-L on one core, and a put that is acknowledged. A\n"
             "write takes two round trips to the service, and the time in which its data\n"
             "passes from node to node.",
    .options = bench_table,
    .reads_nothing = true,
    .run = run,
};

static const struct cli_command store_large = {
    .name = "store large",
    .args = "--files FOLDER [options]",
    .summary = "nodes with more data than memory, on live cards",
    .about =
        "Starts a store whose nodes keep their media in mapped files that are not pinned, and\n"
        "limits the memory of the nodes' processes by a control group. The client fills the\n"
        "store, reads everything back, every byte checked, and prints how much memory the\n"
        "nodes had. The user must be able to make control groups: root, or in a scope that\n"
        "systemd-run makes for a user. The files stay.",
    .options = large_table,
    .reads_nothing = true,
    .run = run_large,
};

static const struct cli_command *const commands[] = {&store_bench, &store_demo, &store_large, NULL};

const struct cli_command cli_store = {
    .name = "store",
    .args = "COMMAND ...",
    .summary = "a store of objects on live cards",
    .commands = commands,
};
