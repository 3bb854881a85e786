/* openspin cc: clang or gcc for RV32 and lld, with our header, runtime and linker script. */
#include "cc.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/temporary.h"
#include "child.h"
#include "config.h"

struct options {
    const char *output, *compiler, *target; /* target: of make, the image's name */
    struct cli_list pass;                   /* to the compiler */
    struct cc_words words;
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
    {"machine", 'm', CLI_PASS, "NAME", "the machine; -march= leaves out what HPUs do not have",
     AT(pass), 0, 0},
    {"pspin", 0, CLI_FLAG, NULL,
     "handlers written for PsPIN: its handler.h, packets.h, spin_conf.h", AT(with_pspin), 0, 0},
    {"float", 0, CLI_FLAG, NULL, "for a card with F: floats in hardware", AT(with_float), 0, 0},
    {"program-memory", 0, CLI_SIZE, "SIZE", "the card's program memory (default 32KiB)",
     AT(program_bytes), 2, 4 << 20},
    {"verbose", 'v', CLI_FLAG, NULL, "show the commands that are run", AT(verbose), 0, 0},
    {0}};

/* For the name of an object in the temporary folder. */
enum { OBJECT_ROOM = PATH_MAX + 16 };

static void add(struct cc_list *w, const char *word) {
    cc_add(w, word);
}

/* Runs a program of Debian's `package` to its end. 0, or the exit status for main after the one
 * line of error: what `failed` says of `subject` if the program did. */
static int run_program(const struct cli_command *command, struct cc_list *w, const char *package,
                       const char *subject, const char *failed, bool verbose) {
    if (w->full)
        return cli_error(command, CLI_FAILED, "too many arguments for %s (limit 511)", w->word[0]);
    w->word[w->count] = NULL;
    if (verbose) {
        for (int i = 0; i < w->count; i++)
            fprintf(stderr, "%s%s", i ? " " : "", w->word[i]);
        fputc('\n', stderr);
    }
    int status, why = child_run(w->word, &status);
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
    static const char *const places[] = {"share/openspin", "../share/openspin", NULL};
    return file_beside(places, "spin.ld", share, room);
}

static bool ends_in(const char *source, const char *const endings[]) {
    const char *dot = strrchr(source, '.');
    while (dot && *endings && strcmp(dot, *endings) != 0)
        endings++;
    return dot && *endings;
}

static bool is_c(const char *source) {
    return ends_in(source, (const char *const[]){".c", ".i", NULL});
}

static bool is_cplusplus(const char *source) {
    return ends_in(source, (const char *const[]){".cc", ".cpp", ".cxx", ".C", NULL});
}

static bool is_assembly(const char *source) {
    return ends_in(source, (const char *const[]){".s", ".S", NULL});
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

static void add_all(struct cc_list *w, const char *const *word, size_t most) {
    for (size_t i = 0; i < most && word[i]; i++)
        add(w, word[i]);
}

/* `stop`: how far the compiler goes, -c but for -E and the like. `depends`: the file for what the
 * source includes, or NULL. `object`: NULL is standard output. */
static int compile(const struct cli_command *command, const struct options *o, const char *share,
                   const char *source, const char *stop, const char *depends, const char *object) {
    static const char *const fixed[] = {
        /* Freestanding, for there is no C library; but calls like memcpy mean what they say. */
        "-mabi=ilp32", "-ffreestanding", "-fbuiltin", "-mno-relax",       "-fno-pic",
        "-fno-common", "-Wall",          "-Wextra",   "-ffp-contract=off"};
    const struct compiler *compiler = find_compiler(o->compiler);
    struct cc_list w = {0};
    char include[PATH_MAX + 64], pspin[PATH_MAX + 64], libc[PATH_MAX + 64], first[PATH_MAX + 64];
    snprintf(include, sizeof include, "-I%s/include", share);
    snprintf(libc, sizeof libc, "%s/include/spin/libc", share);
    snprintf(pspin, sizeof pspin, "-I%s/include/spin/pspin", share);
    snprintf(first, sizeof first, "%s/include/spin/user_header.h", share);
    add_all(&w, compiler->program, 3);
    add(&w, o->words.march[0] ? o->words.march
            : o->with_float   ? compiler->march_float
                              : compiler->march);
    add_all(&w, fixed, sizeof fixed / sizeof fixed[0]);
    if (!has_letter(&o->pass, 'O'))
        add(&w, "-O2");
    if (!has_letter(&o->pass, 'g'))
        add(&w, "-g");
    if (is_cplusplus(source)) {
        add(&w, "-nostdinc++");
        add(&w, "-fno-exceptions");
        add(&w, "-fno-rtti");
        add(&w, "-fno-threadsafe-statics");
    }
    if (o->with_pspin) {
        add(&w, pspin); /* first: a handler.h of the user's card must not be found before ours */
        add(&w, "-Wno-error=int-conversion"); /* they pass pointers as nic_addr; gcc only warns */
        add_all(&w, compiler->pspin, 3);
    }
    if (!o->with_pspin && !is_assembly(source)) {
        add(&w, "-include");
        add(&w, first);
    }
    for (int i = 0; i < o->pass.count; i++)
        add(&w, o->pass.items[i]);
    add_all(&w, o->words.compile.word, (size_t)o->words.compile.count);
    add(&w, include);
    add(&w, "-isystem");
    add(&w, libc);
    if (depends) {
        add(&w, o->words.depends_all ? "-MD" : "-MMD");
        add(&w, "-MF");
        add(&w, depends);
    }
    if (o->words.depends_phony)
        add(&w, "-MP");
    if ((depends || o->words.stop_depends) && !o->words.target.count) {
        add(&w, "-MT");
        add(&w, o->target);
    }
    add_all(&w, o->words.target.word, (size_t)o->words.target.count);
    add(&w, stop);
    add(&w, source);
    if (object) {
        add(&w, "-o");
        add(&w, object);
    }
    return run_program(command, &w, compiler->package, source, "does not compile", o->verbose);
}

static int link_image(const struct cli_command *command, const struct options *o, const char *share,
                      char (*object)[OBJECT_ROOM], int objects, const char *output) {
    static const char *const runtime[] = {"memcpy", "memmove", "memset", "memcmp",   "string",
                                          "stdlib", "stdio",   "math",   "math_exp", "math_trig"};
    enum { MEMBERS = sizeof runtime / sizeof runtime[0] };
    struct cc_list w = {0};
    char script[PATH_MAX + 64], member[MEMBERS][PATH_MAX + 64];
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
    add_all(&w, o->words.link.word, (size_t)o->words.link.count);
    /* Taken in only when something calls them, as members of a library are. */
    add(&w, "--start-lib");
    for (int i = 0; i < MEMBERS; i++) {
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

/* gcc's objects of -flto hold its own language: gcc makes one of code from them. */
static int join_objects(const struct cli_command *command, const struct options *o,
                        char (*object)[OBJECT_ROOM], int objects, const char *joined) {
    const struct compiler *compiler = find_compiler(o->compiler);
    struct cc_list w = {0};
    add_all(&w, compiler->program, 3);
    add(&w, o->words.march[0] ? o->words.march
            : o->with_float   ? compiler->march_float
                              : compiler->march);
    add(&w, "-mabi=ilp32");
    for (int i = 0; i < o->pass.count; i++)
        add(&w, o->pass.items[i]);
    const char *const how[] = {"-r", "-nostdlib", "-flinker-output=nolto-rel", "-o", joined};
    add_all(&w, how, sizeof how / sizeof how[0]);
    for (int i = 0; i < objects; i++)
        add(&w, object[i]);
    return run_program(command, &w, compiler->package, o->output, "does not link", o->verbose);
}

static bool is_lto(const struct options *o) {
    bool lto = false;
    for (int i = 0; i < o->pass.count; i++)
        if (strncmp(o->pass.items[i], "-flto", 5) == 0 || strcmp(o->pass.items[i], "-fno-lto") == 0)
            lto = o->pass.items[i][2] == 'l';
    return lto;
}

/* What the sources include, as one file of rules for make. */
static int write_depends(const struct cli_command *command, const struct options *o,
                         const char *folder, int sources) {
    char name[PATH_MAX], part[PATH_MAX + 16];
    struct spin_error err;
    struct file_out out;
    cc_suffix(name, sizeof name, o->output, ".d");
    if (file_out_open(&out, o->words.depends_file ? o->words.depends_file : name, &err))
        return cli_report(command, &err);
    for (int i = 0; i < sources; i++) {
        uint8_t *bytes;
        size_t length;
        snprintf(part, sizeof part, "%s/%d.d", folder, i);
        if (access(part, R_OK) != 0)
            continue; /* an object, or assembly without a preprocessor */
        if (file_read(part, "dependencies", SIZE_MAX, &bytes, &length, &err)) {
            file_out_abandon(&out);
            return cli_report(command, &err);
        }
        fwrite(bytes, 1, length, out.stream);
        free(bytes);
    }
    return file_out_commit(&out, &err) ? cli_report(command, &err) : 0;
}

static int build(const struct cli_command *command, struct options *o, const char *share,
                 const struct cli_list *sources, const char *folder) {
    char linked[PATH_MAX + 16], depends[PATH_MAX + 16];
    char(*object)[OBJECT_ROOM] = calloc((size_t)sources->count + 1, sizeof *object);
    if (!object)
        return cli_error(command, CLI_FAILED, "out of memory");
    int status = 0, objects = sources->count;
    for (int i = 0; i < sources->count && !status; i++) {
        if (cc_is_object(sources->items[i])) {
            snprintf(object[i], sizeof object[i], "%s", sources->items[i]);
            continue;
        }
        snprintf(object[i], sizeof object[i], "%s/%d.o", folder, i);
        snprintf(depends, sizeof depends, "%s/%d.d", folder, i);
        status = compile(command, o, share, sources->items[i], "-c",
                         o->words.depends ? depends : NULL, object[i]);
    }
    if (!status && is_lto(o) && strcmp(o->compiler, "gcc") == 0) {
        snprintf(linked, sizeof linked, "%s/joined.o", folder);
        status = join_objects(command, o, object, objects, linked);
        snprintf(object[0], sizeof object[0], "%s", linked);
        objects = 1;
    }
    snprintf(linked, sizeof linked, "%s/image", folder);
    if (!status)
        status = link_image(command, o, share, object, objects, linked);
    if (!status)
        status = deliver(command, o, linked);
    if (!status && o->words.depends)
        status = write_depends(command, o, folder, sources->count);
    free(object);
    return status;
}

/* -E, -S, -c, -M, -MM: the compiler alone, which writes what it is asked for. */
static int compile_only(const struct cli_command *command, struct options *o, const char *share,
                        const struct cli_list *sources) {
    const char *stop = o->words.stop;
    bool shows = strcmp(stop, "-S") != 0 && strcmp(stop, "-c") != 0;
    int status = 0;
    if (o->output && sources->count > 1)
        return cli_error(command, CLI_USAGE, "%s with -o takes one source", stop);
    for (int i = 0; i < sources->count && !status; i++) {
        char name[PATH_MAX], depends[PATH_MAX];
        const char *slash = strrchr(sources->items[i], '/');
        cc_suffix(name, sizeof name, slash ? slash + 1 : sources->items[i],
                  stop[1] == 'S' ? ".s" : ".o");
        const char *to = o->output ? o->output : shows ? NULL : name;
        if (!shows)
            o->target = to; /* it is what make builds then */
        cc_suffix(depends, sizeof depends, to ? to : name, ".d");
        const char *file = o->words.depends_file ? o->words.depends_file : depends;
        status = compile(command, o, share, sources->items[i], stop,
                         o->words.depends && !o->words.stop_depends ? file : NULL, to);
    }
    return status;
}

static int check_source(const struct cli_command *command, const char *source) {
    struct stat st;
    if (stat(source, &st) != 0 || access(source, R_OK) != 0)
        return cli_error(command, CLI_FAILED, "%s: cannot open source: %s", source,
                         strerror(errno));
    if (S_ISDIR(st.st_mode))
        return cli_error(command, CLI_FAILED, "%s: cannot read source: it is a directory", source);
    if (st.st_size == 0 && S_ISREG(st.st_mode))
        return cli_error(command, CLI_FAILED, "%s: cannot read source: the file is empty", source);
    if (!is_c(source) && !is_cplusplus(source) && !is_assembly(source) && !cc_is_object(source))
        return cli_error(command, CLI_FAILED,
                         "%s: not a source by its name, which ends in .c, .i, .cc, .cpp, .cxx, .C, "
                         ".s or .S (or in .o or .a, to be linked)",
                         source);
    return 0;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.compiler = "clang"};
    struct cli_list sources = {0};
    char output[PATH_MAX], share[PATH_MAX];
    int status = cc_split(command, &argc, argv, &o.words);
    if (!status)
        status = cli_parse(command, argc, argv, &o, &sources);
    if (!status && !find_compiler(o.compiler))
        status = cli_error(command, CLI_USAGE, "--compiler: '%s' is not clang or gcc", o.compiler);
    if (!status && sources.count == 0)
        status = cli_error(command, CLI_USAGE, "no source file; see 'openspin cc --help'");
    for (int i = 0; i < sources.count && !status; i++)
        status = check_source(command, sources.items[i]);
    if (!status)
        status = cc_march(command, &o.words, &o.pass, o.with_float, strcmp(o.compiler, "gcc") == 0);
    if (!status && !find_share(share, sizeof share))
        status = cli_error(command, CLI_FAILED,
                           "spin.ld and the headers are not where openspin is installed "
                           "(share/openspin); install it again");
    if (!status) {
        const char *slash = strrchr(sources.items[0], '/');
        cc_suffix(output, sizeof output, slash ? slash + 1 : sources.items[0], ".spin");
        o.target = o.output && !o.words.stop ? o.output : output;
    }
    if (!status && o.words.stop) {
        status = compile_only(command, &o, share, &sources);
        cli_free(command, &o, &sources);
        return status;
    }
    if (!o.output)
        o.output = output;
    struct temporary folder = {.lock = -1};
    struct spin_error err;
    const char *depends = o.words.depends ? o.words.depends_file : NULL;
    if (!status && (file_out_try(o.output, &err) || (depends && file_out_try(depends, &err)) ||
                    temporary_make(&folder, &err)))
        status = cli_report(command, &err);
    if (!status)
        status = build(command, &o, share, &sources, folder.path);
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
        "needs more instructions for some loops.\n"
        "Sources may be assembly (.s, .S): a handler is a symbol with .globl, .type @function and\n"
        ".size, of RV32IMAC, in .text; some file of the image must include handler.h, whose note "
        "says\n"
        "for which interface it is. Objects (.o) and archives (.a) are linked.\n"
        "\n"
        "Other words of compilers: -std= -w -include -imacros -isystem -iquote -idirafter "
        "-pedantic\n"
        "-ansi; -MMD -MD -MP -MF -MT -MQ (one file of rules, the image being their target); -l -L\n"
        "-Wl,; -c -S -E -M -MM, which stop there. -lm -lc -lgcc -nostdlib -nostartfiles\n"
        "-nodefaultlibs -static -pipe change nothing.",
    .options = options,
    .run = run,
};
