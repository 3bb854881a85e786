/* Programs from shared objects. A loader gives a file one set of globals, so each rank gets a copy
 * of the file, under a name of its own while it is loaded. Libraries that the program uses are
 * loaded once and shared. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "sim/world_private.h"

#define LARGEST_PROGRAM (256u << 20)

typedef int program_main(int argc, char **argv);

struct world_program {
    uint32_t copies; /* one for each rank, or one for all */
    void **handle;
    program_main **main;
    int argc;
    char **argv; /* of all ranks: each gets pointers of its own */
    char ***rank_argv;
    uint32_t ranks;
};

void world_program_free(struct world_program *p) {
    if (!p)
        return;
    for (uint32_t i = 0; p->handle && i < p->copies; i++)
        if (p->handle[i])
            dlclose(p->handle[i]);
    for (int i = 0; p->argv && i < p->argc; i++)
        free(p->argv[i]);
    for (uint32_t i = 0; p->rank_argv && i < p->ranks; i++)
        free(p->rank_argv[i]);
    free(p->argv);
    free(p->rank_argv);
    free(p->handle);
    free(p->main);
    free(p);
}

const char *world_program_path(const struct world_program *p, const void *base) {
    for (uint32_t i = 0; i < p->copies; i++) {
        Dl_info info;
        void *symbol;
        memcpy(&symbol, &p->main[i], sizeof symbol);
        if (dladdr(symbol, &info) && info.dli_fbase == base)
            return p->argv[0];
    }
    return NULL;
}

/* main may change its argv, so each rank has its own pointers (the strings are shared). */
int world_program_main(struct world_program *p, uint32_t rank) {
    size_t bytes = sizeof(char *) * ((size_t)p->argc + 1);
    char **argv = p->rank_argv[rank] = malloc(bytes);
    if (!argv)
        return -1;
    memcpy(argv, p->argv, bytes);
    return p->main[p->copies > 1 ? rank : 0](p->argc, argv);
}

static int open_object(struct world_program *p, uint32_t i, const char *file, const char *path,
                       struct spin_error *err) {
    p->handle[i] = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!p->handle[i]) {
        /* The message may name the copy; the user knows the original. */
        const char *why = dlerror();
        size_t length = strlen(file);
        if (why && strncmp(why, file, length) == 0)
            why += length + (why[length] == ':' ? 1 : 0);
        return spin_fail(err, SPIN_EFORMAT,
                         "%s: cannot load:%s%s; a program is a shared object "
                         "(cc -shared -fPIC)",
                         path, why && *why != ' ' ? " " : "", why ? why : " unknown reason");
    }
    void *symbol = dlsym(p->handle[i], "main");
    if (!symbol)
        return spin_fail(err, SPIN_EFORMAT, "%s: has no main()", path);
    memcpy(&p->main[i], &symbol, sizeof symbol);
    return SPIN_OK;
}

static int write_copy(const char *file, const uint8_t *content, size_t length,
                      struct spin_error *err) {
    struct file_out out;
    int code = file_out_open(&out, file, err);
    if (code)
        return code;
    fwrite(content, 1, length, out.stream);
    return file_out_commit(&out, err);
}

static int open_copies(struct world_program *p, const char *path, struct spin_error *err) {
    const char *temporary = getenv("TMPDIR");
    char folder[PATH_MAX], file[PATH_MAX + 32];
    uint8_t *content;
    size_t length;
    int code = file_read(path, "program", LARGEST_PROGRAM, &content, &length, err);
    if (code)
        return code;
    snprintf(folder, sizeof folder, "%s/openspin-sim-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        free(content);
        return spin_fail(err, SPIN_EFILE, "%s: cannot make a folder: %s", folder, strerror(errno));
    }
    for (uint32_t i = 0; i < p->copies && !code; i++) {
        snprintf(file, sizeof file, "%s/%u.so", folder, i);
        code = write_copy(file, content, length, err);
        if (!code)
            code = open_object(p, i, file, path, err);
        unlink(file);
    }
    rmdir(folder);
    free(content);
    return code;
}

static int load(struct world_program **out, uint32_t ranks, const char *path, int argc,
                const char *const *argv, struct spin_error *err) {
    struct world_program *p = *out = calloc(1, sizeof *p);
    if (!p)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    p->ranks = ranks;
    p->copies = ranks <= SPIN_PRIVATE_RANKS ? ranks : 1;
    p->handle = calloc(p->copies, sizeof *p->handle);
    p->main = calloc(p->copies, sizeof *p->main);
    p->rank_argv = calloc(ranks, sizeof *p->rank_argv);
    p->argv = calloc((size_t)argc + 2, sizeof *p->argv);
    if (!p->handle || !p->main || !p->rank_argv || !p->argv)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u programs", ranks);
    for (p->argc = 0; p->argc <= argc; p->argc++) {
        p->argv[p->argc] = strdup(p->argc ? argv[p->argc - 1] : path);
        if (!p->argv[p->argc])
            return spin_fail(err, SPIN_ENOMEM, "out of memory for arguments");
    }
    return open_copies(p, path, err);
}

int spin_world_run_program(struct spin_world *w, const char *path, int argc,
                           const char *const *argv, struct spin_error *err) {
    world_watch_objects(w);
    int code = load(&w->program, w->ranks, path, argc, argv, err);
    return code ? code : world_run(w, err);
}
