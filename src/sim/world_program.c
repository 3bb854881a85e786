/* Programs from shared objects. Every rank has a copy of the program and of the libraries that come
 * with it (link.h), all in one reservation of address space, so that each has its own variables and
 * pointers to them stay good.
 *
 * Code is the same in every copy: its pages are mapped again and again, which takes two mappings a
 * rank and library, and there are about 65,530 in a process. Where they would not do, code is
 * copied as well, into one mapping for all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "sim/link.h"
#include "sim/world_libc.h"
#include "sim/world_private.h"

/* As in fibre.c: a neighbour must not inherit what the sanitizer knows of this memory. */
#if defined(__SANITIZE_ADDRESS__)
#define PROGRAM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PROGRAM_ASAN 1
#endif
#endif
#ifdef PROGRAM_ASAN
#include <sanitizer/asan_interface.h>
#endif

typedef int program_main(int argc, char **argv, char **environment);
typedef void program_frames(void *frames);

struct world_program {
    struct linked linked;
    uint8_t *memory, *first; /* of all copies; the first one, aligned */
    uint64_t bytes, stride;
    bool shares_code;
    program_frames *forget; /* what the run-time of exceptions was told */
    uint32_t ranks, told;
    int argc;
    char **argv; /* of all ranks: each gets words of its own */
    char ***rank_argv;
};

static uint8_t *image_of(const struct world_program *p, uint32_t copy) {
    return p->first + copy * p->stride;
}

void *world_program_own(const struct world_program *p, uint32_t copy) {
    return image_of(p, copy) + p->linked.own_at;
}

/* ---- copies -----------------------------------------------------------------------------------
 */

static uint64_t read_number(const char *path, const char *before) {
    char line[128];
    unsigned long long value = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, before, strlen(before)) == 0 &&
            sscanf(line + strlen(before), "%llu", &value) == 1)
            break;
    if (file)
        fclose(file);
    return value;
}

static uint64_t count_mappings(void) {
    uint64_t count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c; file && (c = getc_unlocked(file)) != EOF;)
        count += c == '\n';
    if (file)
        fclose(file);
    return count;
}

/* Leaves a quarter to everybody else. */
static bool has_mappings(const struct world_program *p) {
    uint64_t most = read_number("/proc/sys/vm/max_map_count", "");
    uint64_t needed = 2ull * p->ranks * p->linked.count + count_mappings();
    return needed <= (most ? most : 65530) / 4 * 3;
}

static uint64_t bytes_of_copy(const struct world_program *p) {
    uint64_t bytes = 0, page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < p->linked.count; i++) {
        const struct object *o = &p->linked.objects[i].object;
        uint64_t from = p->shares_code ? o->private_from : 0;
        bytes += o->valued_to > from ? (o->valued_to - from + page - 1) / page * page : 0;
    }
    return bytes + page;
}

static int check_memory(const struct world_program *p, struct spin_error *err) {
    uint64_t one = bytes_of_copy(p), all = one * p->ranks;
    uint64_t free_bytes = 1024 * read_number("/proc/meminfo", "MemAvailable:");
    if (!free_bytes || all <= free_bytes)
        return SPIN_OK;
    return spin_fail(
        err, SPIN_ENOMEM,
        "%s: %u copies of the program, one per rank, are %llu MiB (%llu KiB each%s), and %llu "
        "MiB of memory are free; run fewer ranks",
        p->argv[0], p->ranks, (unsigned long long)(all >> 20), (unsigned long long)(one >> 10),
        p->shares_code ? ""
                       : ", code included: the system allows too few mappings to share "
                         "it (vm.max_map_count)",
        (unsigned long long)(free_bytes >> 20));
}

static int reserve(struct world_program *p, struct spin_error *err) {
    const struct linked *l = &p->linked;
    int rights = PROT_READ | PROT_WRITE | (p->shares_code ? 0 : PROT_EXEC);
    p->stride = l->span;
    p->bytes = p->stride * p->ranks + l->align;
    if (p->stride > (1ull << 46) / p->ranks)
        return spin_fail(err, SPIN_ENOMEM,
                         "%s: no address space for %u copies of a program of %llu bytes",
                         p->argv[0], p->ranks, (unsigned long long)l->span);
    p->memory = mmap(NULL, p->bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p->memory == MAP_FAILED) {
        p->memory = NULL;
        return spin_fail(err, SPIN_ENOMEM,
                         "%s: no address space for %u copies of a program of %llu bytes",
                         p->argv[0], p->ranks, (unsigned long long)l->span);
    }
    madvise(p->memory, p->bytes, MADV_NOHUGEPAGE); /* most of a copy may never be touched */
    p->first = p->memory + (-(uintptr_t)p->memory & (l->align - 1));
    return SPIN_OK;
}

/* A file with the code of an object: its copies are mappings of it. -1: there is none. */
static int code_file(const struct object *o) {
    int file = memfd_create("openspin-program", MFD_CLOEXEC);
    for (uint64_t done = 0; file >= 0 && done < o->private_from;) {
        ssize_t wrote = write(file, o->content + done, o->private_from - done);
        if (wrote <= 0) {
            close(file);
            return -1;
        }
        done += (uint64_t)wrote;
    }
    return file;
}

static bool share_code(struct world_program *p) {
    bool good = true;
    for (uint32_t i = 0; i < p->linked.count && good; i++) {
        const struct link_object *l = &p->linked.objects[i];
        const struct object *o = &l->object;
        int file = o->private_from ? code_file(o) : -1;
        good = !o->private_from || file >= 0;
        for (uint32_t r = 0; r < p->ranks && good && o->private_from; r++)
            good = mmap(image_of(p, r) + l->at, o->private_from, PROT_READ | PROT_EXEC,
                        MAP_PRIVATE | MAP_FIXED, file, 0) != MAP_FAILED;
        for (uint32_t r = 0; r < p->ranks && good && o->private_code; r++)
            good = mprotect(image_of(p, r) + l->at + o->private_from, o->span - o->private_from,
                            PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
        if (file >= 0)
            close(file);
    }
    return good;
}

static void unmap(struct world_program *p) {
    if (!p->memory)
        return;
#ifdef PROGRAM_ASAN
    __asan_unpoison_memory_region(p->memory, p->bytes);
#endif
    munmap(p->memory, p->bytes);
    p->memory = NULL;
}

static void fill_copy(struct world_program *p, uint32_t copy) {
    const struct linked *l = &p->linked;
    uint8_t *image = image_of(p, copy);
    for (uint32_t i = 0; i < l->count; i++) {
        const struct object *o = &l->objects[i].object;
        uint64_t from = p->shares_code ? o->private_from : 0;
        if (o->valued_to > from)
            memcpy(image + l->objects[i].at + from, o->content + from, o->valued_to - from);
    }
    for (uint64_t i = 0; i < l->fixup_count; i++) {
        uint64_t address = (uint64_t)(uintptr_t)image + l->fixups[i].value;
        memcpy(image + l->fixups[i].at, &address, sizeof address);
    }
    for (uint64_t i = 0; i < l->indirect_count; i++) {
        uint64_t (*resolve)(void);
        const uint8_t *at = image + l->indirect[i].value;
        memcpy(&resolve, &at, sizeof at);
        uint64_t address = resolve();
        memcpy(image + l->indirect[i].at, &address, sizeof address);
    }
    world_libc_start(image + l->own_at);
}

static int make_copies(struct world_program *p, struct spin_error *err) {
    p->shares_code = has_mappings(p);
    int code = check_memory(p, err);
    if (!code)
        code = reserve(p, err);
    if (!code && p->shares_code && !share_code(p)) { /* no such files, or no mappings after all */
        unmap(p);
        p->shares_code = false;
        code = check_memory(p, err);
        if (!code)
            code = reserve(p, err);
    }
    for (uint32_t r = 0; r < p->ranks && !code; r++)
        fill_copy(p, r);
    if (!code)
        __builtin___clear_cache((char *)p->memory, (char *)p->memory + p->bytes);
    return code;
}

/* ---- debuggers --------------------------------------------------------------------------------
 */

/* Debuggers stop here (sim-gdb.py) and read the symbols of a copy. Of a few ranks: each takes them
 * time and memory. */
void spin_program_loaded(const char *path, const void *at);
__attribute__((noinline)) void spin_program_loaded(const char *path, const void *at) {
    __asm__ volatile("" : : "r"(path), "r"(at) : "memory");
}

static void tell_debuggers(const struct world_program *p) {
    enum { RANKS = 64 };
    for (uint32_t r = 0; r < p->ranks && r < RANKS; r++)
        for (uint32_t i = 0; i < p->linked.count; i++) {
            const struct link_object *o = &p->linked.objects[i];
            spin_program_loaded(o->object.path, image_of(p, r) + o->at);
        }
}

/* ---- exceptions -------------------------------------------------------------------------------
 */

/* The frames' descriptions of an object, by its .eh_frame_hdr: mostly relative to itself. */
static void *frames_of(const struct world_program *p, uint32_t copy, uint32_t object) {
    enum { RELATIVE_32_BITS = 0x1b };
    const struct link_object *o = &p->linked.objects[object];
    uint8_t *header = image_of(p, copy) + o->at + o->object.frames;
    int32_t distance;
    if (!o->object.frames || header[1] != RELATIVE_32_BITS)
        return NULL;
    memcpy(&distance, header + 4, sizeof distance);
    return header + 4 + distance;
}

static void tell_frames(struct world_program *p) {
    const void *tell = NULL, *forget = NULL;
    program_frames *call;
    if (!p->linked.unwinds || !link_find(&p->linked, "__register_frame", &tell) ||
        !link_find(&p->linked, "__deregister_frame", &forget))
        return;
    memcpy(&call, &tell, sizeof tell);
    memcpy(&p->forget, &forget, sizeof forget);
    for (; p->told < p->ranks; p->told++)
        for (uint32_t i = 0; i < p->linked.count; i++) {
            void *frames = frames_of(p, p->told, i);
            if (frames)
                call(frames);
        }
}

static void forget_frames(struct world_program *p) {
    while (p->told-- > 0)
        for (uint32_t i = 0; i < p->linked.count; i++) {
            void *frames = frames_of(p, p->told, i);
            if (frames)
                p->forget(frames);
        }
}

uint64_t *world_program_exceptions(const struct world_program *p) {
    const void *symbol = NULL;
    void *(*call)(void);
    if (!p->linked.unwinds || !link_find(&p->linked, "__cxa_get_globals", &symbol))
        return NULL;
    memcpy(&call, &symbol, sizeof symbol);
    return call();
}

/* ---- running ----------------------------------------------------------------------------------
 */

static void call_at(const uint8_t *at, int argc, char **argv) {
    void (*function)(int, char **, char **);
    memcpy(&function, &at, sizeof at);
    function(argc, argv, environ);
}

static void call_table(const struct object_table *table, const uint8_t *base, bool backwards,
                       int argc, char **argv) {
    uint64_t count = table->bytes / sizeof(uint64_t);
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *at;
        memcpy(&at, base + table->at + 8 * (backwards ? count - 1 - i : i), sizeof at);
        if (at && (intptr_t)at != -1)
            call_at(at, argc, argv);
    }
}

/* main may change its arguments, so each rank has its own: pointers, then words. */
static char **copy_arguments(const struct world_program *p) {
    size_t pointers = sizeof(char *) * ((size_t)p->argc + 1), bytes = pointers;
    for (int i = 0; i < p->argc; i++)
        bytes += strlen(p->argv[i]) + 1;
    char **argv = malloc(bytes), *word = argv ? (char *)argv + pointers : NULL;
    if (!argv)
        return NULL;
    for (int i = 0; i < p->argc; i++) {
        argv[i] = word;
        word = stpcpy(word, p->argv[i]) + 1;
    }
    argv[p->argc] = NULL;
    return argv;
}

int world_program_main(struct world_program *p, uint32_t copy) {
    const struct linked *l = &p->linked;
    char **argv = p->rank_argv[copy] = copy_arguments(p);
    if (!argv)
        return -1;
    for (uint32_t i = 0; i < l->count; i++) {
        const struct link_object *o = &l->objects[l->initialise[i]];
        const uint8_t *base = image_of(p, copy) + o->at;
        if (o->object.init)
            call_at(base + o->object.init, p->argc, argv);
        call_table(&o->object.init_array, base, false, p->argc, argv);
    }
    program_main *call;
    const uint8_t *at = image_of(p, copy) + l->main;
    memcpy(&call, &at, sizeof at);
    return call(p->argc, argv, environ);
}

void world_program_end(struct world_program *p, uint32_t copy) {
    const struct linked *l = &p->linked;
    for (uint32_t i = l->count; i-- > 0;) {
        const struct link_object *o = &l->objects[l->initialise[i]];
        const uint8_t *base = image_of(p, copy) + o->at;
        call_table(&o->object.fini_array, base, true, p->argc, p->rank_argv[copy]);
        if (o->object.fini)
            call_at(base + o->object.fini, p->argc, p->rank_argv[copy]);
    }
}

/* ---- thread-local variables -------------------------------------------------------------------
 */

void *world_program_tls(const struct world_program *p, uint32_t copy) {
    const struct linked *l = &p->linked;
    uint64_t bytes = (l->tls_bytes + l->tls_align - 1) / l->tls_align * l->tls_align;
    uint8_t *block = aligned_alloc(l->tls_align, bytes ? bytes : l->tls_align);
    if (!block)
        return NULL;
    memset(block, 0, bytes);
    for (uint32_t i = 0; i < l->count; i++) {
        const struct link_object *o = &l->objects[i];
        if (o->object.tls_valued)
            memcpy(block + o->tls, image_of(p, copy) + o->at + o->object.tls, o->object.tls_valued);
    }
    return block;
}

uint64_t world_program_tls_at(const struct world_program *p, uint64_t object) {
    return object < p->linked.count ? p->linked.objects[object].tls : 0;
}

/* ---- where is this? ---------------------------------------------------------------------------
 */

static bool where(const struct world_program *p, const void *address, const char **path,
                  uint64_t *offset, const char **function) {
    uint64_t at = (uint64_t)((const uint8_t *)address - p->first);
    if (!p->first || (const uint8_t *)address < p->first || at >= p->stride * p->ranks)
        return false;
    at %= p->stride;
    for (uint32_t i = 0; i < p->linked.count; i++) {
        const struct link_object *o = &p->linked.objects[i];
        if (at >= o->at && at - o->at < o->object.span) {
            *path = o->object.path;
            *offset = at - o->at;
            *function = object_function(&o->object, at - o->at);
            return true;
        }
    }
    return false;
}

bool world_program_where(const struct spin_world *w, const void *address, const char **path,
                         uint64_t *offset, const char **function) {
    for (uint32_t i = 0; i < w->program_count; i++)
        if (where(w->programs[i], address, path, offset, function))
            return true;
    return false;
}

/* ---- set-up -----------------------------------------------------------------------------------
 */

static void program_free(struct world_program *p) {
    if (p->forget)
        forget_frames(p);
    unmap(p);
    link_free(&p->linked);
    for (int i = 0; p->argv && i < p->argc; i++)
        free(p->argv[i]);
    for (uint32_t i = 0; p->rank_argv && i < p->ranks; i++)
        free(p->rank_argv[i]);
    free(p->argv);
    free(p->rank_argv);
    free(p);
}

static int load(struct world_program **out, uint32_t ranks, const char *path, int argc,
                const char *const *argv, struct spin_error *err) {
    struct world_program *p = *out = calloc(1, sizeof *p);
    if (!p)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    p->ranks = ranks;
    p->rank_argv = calloc(ranks, sizeof *p->rank_argv);
    p->argv = calloc((size_t)argc + 2, sizeof *p->argv);
    if (!p->rank_argv || !p->argv)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u programs", ranks);
    for (p->argc = 0; p->argc <= argc; p->argc++) {
        p->argv[p->argc] = strdup(p->argc ? argv[p->argc - 1] : path);
        if (!p->argv[p->argc])
            return spin_fail(err, SPIN_ENOMEM, "out of memory for arguments");
    }
    int code = link_program(&p->linked, path, err);
    if (!code)
        code = make_copies(p, err);
    if (!code)
        tell_frames(p);
    if (!code)
        tell_debuggers(p);
    return code;
}

void world_programs_free(struct spin_world *w) {
    for (uint32_t i = 0; i < w->program_count; i++)
        program_free(w->programs[i]);
    free(w->programs);
}

/* Which ranks run what `launch` says, or, if that is NULL, what nothing is said of. */
struct whose {
    const struct world_cards *cards;
    const struct world_launch *launch;
};

static bool is_its(const void *context, uint32_t rank) {
    const struct whose *of = context;
    const struct world_card *card = of->cards->card[of->cards->of[rank]];
    return card->launch == of->launch && !card->no_program;
}

static int start_processes(struct spin_world *w, const struct whose *of, const char *path, int argc,
                           const char *const *argv, struct spin_error *err) {
    const char **words = calloc((size_t)argc + 2, sizeof *words);
    if (!words)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for arguments");
    words[0] = path;
    for (int i = 0; i < argc; i++)
        words[i + 1] = argv[i];
    int code = world_processes_start(w, path, (char **)words, is_its, of, err);
    free(words);
    return code;
}

/* For all ranks that `launch` is of; NULL: those that nothing else is said of. */
static int load_for(struct spin_world *w, const struct world_launch *launch, const char *path,
                    int argc, const char *const *argv, struct spin_error *err) {
    const struct world_cards *c = &w->cards;
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->card[i]->launch == launch && !c->card[i]->no_program)
            ranks += c->card[i]->members;
    const struct whose of = {c, launch};
    struct world_program **larger =
        realloc(w->programs, sizeof(struct world_program *) * (w->program_count + 1));
    if (!larger)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    w->programs = larger;
    if (!ranks)
        return SPIN_OK;
    if (!path)
        return spin_fail(err, SPIN_EARG,
                         "which program? the file of cards names none for %u of %u ranks", ranks,
                         w->ranks);
    if (world_is_executable(path))
        return start_processes(w, &of, path, argc, argv, err);
    w->programs[w->program_count] = NULL;
    int code = load(&w->programs[w->program_count], ranks, path, argc, argv, err);
    struct world_program *p = w->programs[w->program_count];
    w->program_count += p != NULL;
    for (uint32_t r = 0, copy = 0; r < w->ranks && !code; r++) {
        if (!is_its(&of, r))
            continue;
        w->rank[r].program = p;
        w->rank[r].copy = copy++;
    }
    if (!code && !w->exceptions)
        w->exceptions = world_program_exceptions(p);
    return code;
}

/* Words are apart by blanks. */
static int load_launch(struct spin_world *w, const struct world_launch *l, struct spin_error *err) {
    char *text = strdup(l->text), *rest = NULL;
    const char **word = text ? malloc((strlen(text) / 2 + 1) * sizeof *word) : NULL;
    int words = 0, code;
    if (word)
        for (char *at = strtok_r(text, " \t", &rest); at; at = strtok_r(NULL, " \t", &rest))
            word[words++] = at;
    code = words ? load_for(w, l, word[0], words - 1, word + 1, err)
                 : spin_fail(err, SPIN_ENOMEM, "out of memory for arguments");
    free(word);
    free(text);
    return code;
}

int world_programs_load(struct spin_world *w, struct spin_error *err) {
    int code = SPIN_OK;
    for (const struct world_launch *l = w->cards.launches; l && !code; l = l->next)
        code = load_launch(w, l, err);
    return code;
}

int spin_world_run_program(struct spin_world *w, const char *path, int argc,
                           const char *const *argv, struct spin_error *err) {
    int code = load_for(w, NULL, path, argc, argv, err);
    return code ? code : world_run(w, err);
}
