/* openspin cc: clang or gcc for RV32 and lld, with our header, runtime and linker script. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/temporary.h"
#include "config.h"

extern char **environ;

struct options {
    const char *output, *compiler;
    struct cli_list pass;
    bool with_float, with_pspin, verbose;
    uint64_t program_bytes;
};

#define AT(field) offsetof(struct options, field)
static const struct cli_option options[] = {
    {"output", 'o', CLI_OUTPUT, "FILE", "the image to write (default: first source with .spin)",
     AT(output), 0, 0},
    {"compiler", 0, CLI_STRING, "NAME",
     "clang (default) or gcc, whose instruction counts compare with PsPIN's RTL", AT(compiler), 0,
     0},
    {"optimise", 'O', CLI_PASS, "LEVEL", "optimisation, passed to the compiler (default -O2)",
     AT(pass), 0, 0},
    {"define", 'D', CLI_PASS, "NAME[=VALUE]", "macro, passed to the compiler", AT(pass), 0, 0},
    {"undefine", 'U', CLI_PASS, "NAME", "no such macro, passed to the compiler", AT(pass), 0, 0},
    {"include", 'I', CLI_PASS, "DIR", "where to look for headers, passed to the compiler", AT(pass),
     0, 0},
    {"debug", 'g', CLI_PASS, "[LEVEL]", "debug information, passed to the compiler (default -g)",
     AT(pass), 0, 0},
    {"warning", 'W', CLI_PASS, "NAME", "warnings, passed to the compiler (default -Wall -Wextra)",
     AT(pass), 0, 0},
    {"feature", 'f', CLI_PASS, "NAME", "code generation, passed to the compiler", AT(pass), 0, 0},
    {"pspin", 0, CLI_FLAG, NULL,
     "handlers written for PsPIN: its handler.h, packets.h, spin_conf.h", AT(with_pspin), 0, 0},
    {"float", 0, CLI_FLAG, NULL, "for a card with F: floats in hardware", AT(with_float), 0, 0},
    {"program-memory", 0, CLI_SIZE, "SIZE", "the card's program memory (default 32KiB)",
     AT(program_bytes), 2, 4 << 20},
    {"verbose", 'v', CLI_FLAG, NULL, "show the commands that are run", AT(verbose), 0, 0},
    {0}};

/* For the name of an object in the temporary folder. */
enum { OBJECT_ROOM = PATH_MAX + 16 };

/* What is given to a program, built word by word. */
struct words {
    const char *word[512];
    int count;
    bool full;
};

static void add(struct words *w, const char *word) {
    if (w->count + 1 < (int)(sizeof w->word / sizeof w->word[0]))
        w->word[w->count++] = word;
    else
        w->full = true;
}

/* The child's status; that of a failure if it cannot be had. */
static int wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* Runs a program of Debian's `package` to its end. 0, or the exit status for main after the one
 * line of error: what `failed` says of `subject` if the program did. */
static int run_program(const struct cli_command *command, struct words *w, const char *package,
                       const char *subject, const char *failed, bool verbose) {
    if (w->full)
        return cli_error(command, CLI_FAILED, "too many arguments for %s (limit 511)", w->word[0]);
    w->word[w->count] = NULL;
    if (verbose) {
        for (int i = 0; i < w->count; i++)
            fprintf(stderr, "%s%s", i ? " " : "", w->word[i]);
        fputc('\n', stderr);
    }
    /* As system() does: an interrupt ends the program that runs, and we clean up after it. */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    posix_spawnattr_t attributes;
    sigset_t restored;
    sigemptyset(&restored);
    sigaddset(&restored, SIGINT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &restored);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    sigaction(SIGINT, &ignore, &before);
    pid_t child;
    int why =
        posix_spawnp(&child, w->word[0], NULL, &attributes, (char **)(uintptr_t)w->word, environ);
    posix_spawnattr_destroy(&attributes);
    int status = why ? 0 : wait_for(child);
    sigaction(SIGINT, &before, NULL);
    if (why)
        return cli_error(command, CLI_FAILED, "cannot run %s: %s; install Debian's package %s",
                         w->word[0], strerror(why), package);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return cli_error(command, CLI_FAILED, "%s: %s", subject, failed);
    return 0;
}

/* The folder with headers, runtime and linker script: beside the program in a build tree, or in
 * share/ of the prefix it is installed in. */
static bool find_share(char *share, size_t room) {
    static const char *const places[] = {"share/openspin", "../share/openspin"};
    char self[PATH_MAX], script[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return false;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (snprintf(share, room, "%s/%s", self, places[i]) >= (int)room)
            continue;
        snprintf(script, sizeof script, "%s/spin.ld", share);
        if (access(script, R_OK) == 0)
            return true;
    }
    return false;
}

static bool is_cplusplus(const char *source) {
    const char *dot = strrchr(source, '.');
    return dot && (strcmp(dot, ".cc") == 0 || strcmp(dot, ".cpp") == 0 ||
                   strcmp(dot, ".cxx") == 0 || strcmp(dot, ".C") == 0);
}

static bool has_letter(const struct cli_list *pass, char letter) {
    for (int i = 0; i < pass->count; i++)
        if (pass->items[i][0] == '-' && pass->items[i][1] == letter)
            return true;
    return false;
}

/* What the two compilers need that differs. */
struct compiler {
    const char *name, *package;
    const char *program[3];
    const char *march, *march_float;
    const char *pspin[3]; /* for handlers written for PsPIN */
};

static const struct compiler compilers[] = {
    {"clang",
     "clang",
     {"clang", "--target=riscv32-unknown-elf"},
     "-march=rv32imac",
     "-march=rv32imafc",
     /* Without it clang copies the pointer of a loop once per iteration. */
     {"-mllvm", "-terminal-rule=true"}},
    {"gcc",
     "gcc-riscv64-unknown-elf",
     {"riscv64-unknown-elf-gcc"},
     "-march=rv32imac_zicsr_zifencei",
     "-march=rv32imafc_zicsr_zifencei",
     /* As the counts of its RTL were made: the core has misaligned accesses. */
     {"-mno-strict-align"}},
};

static const struct compiler *find_compiler(const char *name) {
    for (size_t i = 0; i < sizeof compilers / sizeof compilers[0]; i++)
        if (strcmp(compilers[i].name, name) == 0)
            return &compilers[i];
    return NULL;
}

static void add_all(struct words *w, const char *const *word, size_t most) {
    for (size_t i = 0; i < most && word[i]; i++)
        add(w, word[i]);
}

static int compile(const struct cli_command *command, const struct options *o, const char *share,
                   const char *source, const char *object) {
    static const char *const fixed[] = {
        /* Freestanding, for there is no C library; but calls like memcpy mean what they say. */
        "-mabi=ilp32", "-ffreestanding", "-fbuiltin", "-nostdinc++", "-mno-relax",
        "-fno-pic",    "-fno-common",    "-Wall",     "-Wextra",     "-ffp-contract=off"};
    const struct compiler *compiler = find_compiler(o->compiler);
    struct words w = {0};
    char include[PATH_MAX + 64], pspin[PATH_MAX + 64];
    snprintf(include, sizeof include, "-I%s/include", share);
    snprintf(pspin, sizeof pspin, "-I%s/include/spin/pspin", share);
    add_all(&w, compiler->program, 3);
    add(&w, o->with_float ? compiler->march_float : compiler->march);
    add_all(&w, fixed, sizeof fixed / sizeof fixed[0]);
    if (!has_letter(&o->pass, 'O'))
        add(&w, "-O2");
    if (!has_letter(&o->pass, 'g'))
        add(&w, "-g");
    if (is_cplusplus(source)) {
        add(&w, "-fno-exceptions");
        add(&w, "-fno-rtti");
        add(&w, "-fno-threadsafe-statics");
    }
    if (o->with_pspin) {
        add(&w, pspin); /* first: a handler.h of the user's card must not be found before ours */
        add(&w, "-Wno-error=int-conversion"); /* they pass pointers as nic_addr; gcc only warns */
        add_all(&w, compiler->pspin, 3);
    }
    for (int i = 0; i < o->pass.count; i++)
        add(&w, o->pass.items[i]);
    add(&w, include);
    add(&w, "-c");
    add(&w, source);
    add(&w, "-o");
    add(&w, object);
    return run_program(command, &w, compiler->package, source, "does not compile", o->verbose);
}

static int link_image(const struct cli_command *command, const struct options *o, const char *share,
                      char (*object)[OBJECT_ROOM], int objects, const char *output) {
    static const char *const runtime[] = {"memcpy", "memmove", "memset", "memcmp"};
    struct words w = {0};
    char script[PATH_MAX + 64], member[4][PATH_MAX + 64];
    snprintf(script, sizeof script, "%s/spin.ld", share);
    add(&w, "ld.lld");
    add(&w, "-T");
    add(&w, script);
    add(&w, "--no-relax");
    add(&w, "--build-id=none");
    add(&w, "--entry=0");
    add(&w, "--discard-locals");
    add(&w, "-z");
    add(&w, "separate-loadable-segments");
    add(&w, "-o");
    add(&w, output);
    for (int i = 0; i < objects; i++)
        add(&w, object[i]);
    /* Taken in only when something calls them, as members of a library are. */
    add(&w, "--start-lib");
    for (int i = 0; i < 4; i++) {
        snprintf(member[i], sizeof member[i], "%s/runtime/%s.o", share, runtime[i]);
        add(&w, member[i]);
    }
    add(&w, "--end-lib");
    if (OPENSPIN_LIBGCC[0] && access(OPENSPIN_LIBGCC, R_OK) == 0)
        add(&w, OPENSPIN_LIBGCC);
    return run_program(command, &w, "lld", o->output, "does not link", o->verbose);
}

/* The image is checked as a card would, so that what is written can be loaded. */
static int check_image(const struct cli_command *command, const struct options *o,
                       const uint8_t *bytes, size_t length) {
    struct spin_limits limits;
    spin_limits_default(&limits);
    limits.with_float = o->with_float;
    if (o->program_bytes)
        limits.program_bytes = (uint32_t)o->program_bytes;
    limits.hpus = 1; /* how many the card has is known when it is loaded */
    struct spin_image *image;
    struct spin_error err;
    int code = spin_image_parse(&image, o->output, bytes, length, &limits, &err);
    spin_image_free(image);
    return code ? cli_report(command, &err) : 0;
}

/* Checks what was linked and puts it where the user wants it. */
static int deliver(const struct cli_command *command, const struct options *o, const char *linked) {
    struct spin_error err;
    struct file_out out;
    uint8_t *bytes;
    size_t length;
    if (file_read(linked, "linked image", SIZE_MAX, &bytes, &length, &err))
        return cli_report(command, &err);
    int status = check_image(command, o, bytes, length);
    if (!status && file_out_open(&out, o->output, &err))
        status = cli_report(command, &err);
    else if (!status) {
        fwrite(bytes, 1, length, out.stream);
        status = file_out_commit(&out, &err) ? cli_report(command, &err) : 0;
    }
    free(bytes);
    return status;
}

static int build(const struct cli_command *command, struct options *o,
                 const struct cli_list *sources, const char *folder) {
    char share[PATH_MAX], linked[PATH_MAX + 16];
    if (!find_share(share, sizeof share))
        return cli_error(command, CLI_FAILED,
                         "spin.ld and the headers are not where openspin is installed "
                         "(share/openspin); install it again");
    char(*object)[OBJECT_ROOM] = calloc((size_t)sources->count, sizeof *object);
    if (!object)
        return cli_error(command, CLI_FAILED, "out of memory");
    int status = 0;
    for (int i = 0; i < sources->count && !status; i++) {
        snprintf(object[i], sizeof object[i], "%s/%d.o", folder, i);
        status = compile(command, o, share, sources->items[i], object[i]);
    }
    snprintf(linked, sizeof linked, "%s/image", folder);
    if (!status)
        status = link_image(command, o, share, object, sources->count, linked);
    if (!status)
        status = deliver(command, o, linked);
    free(object);
    return status;
}

static int check_source(const struct cli_command *command, const char *source) {
    struct stat st;
    if (stat(source, &st) != 0 || access(source, R_OK) != 0)
        return cli_error(command, CLI_FAILED, "%s: cannot open source: %s", source,
                         strerror(errno));
    if (S_ISDIR(st.st_mode))
        return cli_error(command, CLI_FAILED, "%s: is a directory, expected a source file", source);
    if (st.st_size == 0 && S_ISREG(st.st_mode))
        return cli_error(command, CLI_FAILED, "%s: source file is empty", source);
    return 0;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.compiler = "clang"};
    struct cli_list sources;
    char output[PATH_MAX];
    int status = cli_parse(command, argc, argv, &o, &sources);
    if (!status && !find_compiler(o.compiler))
        status = cli_error(command, CLI_USAGE, "--compiler: '%s' is not clang or gcc", o.compiler);
    if (!status && sources.count == 0)
        status = cli_error(command, CLI_USAGE, "no source file; see 'openspin cc --help'");
    for (int i = 0; i < sources.count && !status; i++)
        status = check_source(command, sources.items[i]);
    if (!status && !o.output) {
        const char *slash = strrchr(sources.items[0], '/');
        snprintf(output, sizeof output - 5, "%s", slash ? slash + 1 : sources.items[0]);
        char *dot = strrchr(output, '.');
        if (dot && dot != output)
            *dot = 0;
        strcat(output, ".spin");
        o.output = output;
    }
    struct temporary folder = {.lock = -1};
    struct spin_error err;
    if (!status && (file_out_try(o.output, &err) || temporary_make(&folder, &err)))
        status = cli_report(command, &err);
    if (!status)
        status = build(command, &o, &sources, folder.path);
    temporary_remove(&folder);
    cli_free(command, &o, &sources);
    return status;
}

const struct cli_command cli_cc = {
    .name = "cc",
    .args = "SOURCE... [-o IMAGE] [options]",
    .summary = "compile handlers to an image",
    .about =
        "Compiles handlers in C or C++ (without exceptions) to an RV32 image that any card loads.\n"
        "The image keeps symbols and debug information. Handlers include \"spin/handler.h\".\n"
        "--compiler gcc takes riscv64-unknown-elf-gcc: PsPIN's RTL was measured with it, and "
        "clang\n"
        "needs more instructions for some loops.",
    .options = options,
    .run = run,
};
